//! Where each request goes: an endless sequence for each thread that depends on nothing but the load and its seed.

use crate::{
    distribution::Sampler,
    generator::{Generator, Stream, draw_below},
    permutation::Permutation,
    sizes::Sizer,
};
use fstrial_model::{
    job::Load,
    workload::{Access, Distribution, Io, Mix, Sharing, Sizes},
};

/// The blocks one thread works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Size of a block in bytes, and of every request unless they have sizes of their own.
    pub(crate) block_size: u64,
    /// Blocks in each file.
    pub(crate) blocks_per_file: u64,
    /// Files that this thread uses.
    pub(crate) files: u32,
    /// Bytes before the first block (other threads' parts of a bare device).
    pub(crate) base: u64,
    /// Blocks over all its files that come before those this thread works on (other threads' regions).
    pub(crate) origin: u64,
    /// Blocks that this thread works on.
    pub(crate) blocks: u64,
    /// Where a thread that goes in order starts, in blocks from `origin`.
    pub(crate) first_block: u64,
}

impl Geometry {
    /// The part of `thread` in a load on files.
    pub(crate) fn on_files(io: &Io, threads: u16, thread: usize) -> Self {
        let sets = match io.sharing {
            Sharing::Shared | Sharing::Region | Sharing::Cursor => 1,
            Sharing::PerThread => u64::from(threads),
        };
        let block_size = io.block_size.0;
        let blocks_per_file = io.total_size.0 / sets / u64::from(io.files.max(1)) / block_size.max(1);
        let all = blocks_per_file * u64::from(io.files);
        let (origin, blocks, first_block) = match io.sharing {
            Sharing::Shared => (0, all, first_block(all, threads, thread)),
            Sharing::Region => {
                let each = all / u64::from(threads.max(1));
                (each * thread as u64, each, 0)
            }
            Sharing::PerThread | Sharing::Cursor => (0, all, 0),
        };
        Self { block_size, blocks_per_file, files: io.files, base: 0, origin, blocks, first_block }
    }

    /// The part of `thread` in a load on a bare device: its files are stretches of the device, one after the other.
    pub(crate) fn on_device(io: &Io, threads: u16, thread: usize) -> Self {
        let files = Self::on_files(io, threads, thread);
        let blocks = files.blocks_per_file * u64::from(files.files);
        let base = match io.sharing {
            Sharing::Shared | Sharing::Region | Sharing::Cursor => 0,
            Sharing::PerThread => blocks * files.block_size * thread as u64,
        };
        Self { blocks_per_file: blocks, files: 1, base, ..files }
    }

    /// Size of each file in bytes, a multiple of the block size.
    pub(crate) fn file_size(&self) -> u64 {
        self.blocks_per_file * self.block_size
    }

    /// Whether the thread works on all blocks of its files.
    fn is_whole(&self) -> bool {
        self.blocks == self.blocks_per_file * u64::from(self.files)
    }

    /// File, and block in it, of a block counted from `origin`.
    #[inline]
    fn place(&self, block: u64) -> (u32, u64) {
        let block = self.origin + block;
        if self.files == 1 {
            return (0, block);
        }
        ((block / self.blocks_per_file) as u32, block % self.blocks_per_file)
    }
}

/// Threads that share files start at evenly spaced places.
fn first_block(blocks: u64, threads: u16, thread: usize) -> u64 {
    (u128::from(blocks) * thread as u128 / u128::from(threads.max(1))) as u64
}

/// One request: a block to read or write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Request {
    /// Write it; otherwise read it.
    pub(crate) write: bool,
    /// A read that a write of the same block follows, as one operation; or that write.
    pub(crate) update: bool,
    /// The first of a lap that starts over: cut the file to nothing before, or drop the files from the page cache.
    pub(crate) restart: bool,
    /// Which of the thread's files.
    pub(crate) file: u32,
    /// Size in bytes.
    pub(crate) len: u32,
    /// Where in the file, in bytes.
    pub(crate) offset: u64,
}

/// The requests of one thread, in order, without end.
#[derive(Debug, Clone)]
pub(crate) struct Requests {
    geometry: Geometry,
    order: Order,
    generator: Generator,
    choice: Choice,
    /// A draw below this updates what it reads.
    update_below: u128,
    /// Sizes of reads and of writes, if they are not all one block or hang on what comes next.
    sizes: Option<Box<[Sizer; 2]>>,
}

/// Which block is next.
#[derive(Debug, Clone)]
enum Order {
    /// Any block of all files.
    Uniform,
    /// As the sampler draws them.
    Drawn(Sampler),
    /// Each block once in a lap, in an order that is drawn again for each.
    Once { lap: Permutation, next: u64 },
    /// One after the other.
    Consecutive { next: Next },
    /// One after the other; a file that was full before is cut when it comes round.
    Append { next: u64, lapped: bool },
    /// From each block `step` blocks on; behind the end, the next lane: the blocks `step` apart that begin one later. Or the
    /// same again.
    Strided { next: u64, step: u64, one_lane: bool },
    /// This many blocks from each that is drawn, or this many times that block.
    Rows { starts: Box<Self>, length: u32, stays: bool, left: u32, next: Next },
    /// A draw below this, one for reads and one for writes, goes to a block that is drawn; the others go on.
    Jumps { starts: Box<Self>, below: [u128; 2], next: Next },
    /// Reads in one order, writes in another.
    Split(Box<[Self; 2]>),
    /// One request in each file by turns; each file has an order of its own.
    Turns { orders: Vec<Self>, file: u64 },
    /// Another order, with laps that start over.
    Laps { order: Box<Self>, left: u64 },
}

/// The block that follows the last one: of all requests, or one of reads and one of writes.
#[derive(Debug, Clone, Copy)]
struct Next {
    blocks: [u64; 2],
    apart: bool,
}

impl Next {
    fn new(first: u64, io: &Io) -> Self {
        Self { blocks: [first; 2], apart: io.apart }
    }

    fn of(&mut self, write: bool) -> &mut u64 {
        &mut self.blocks[usize::from(write && self.apart)]
    }

    /// Goes on by this many blocks from the next one, or begins at the first again, and says which was next.
    fn advance(&mut self, write: bool, by: u64, blocks: u64) -> u64 {
        let next = self.of(write);
        let block = *next;
        *next = if block + by >= blocks { 0 } else { block + by };
        block
    }
}

/// Which requests read.
#[derive(Debug, Clone)]
enum Choice {
    /// All of them.
    Reads,
    /// None.
    Writes,
    /// A draw below this reads.
    Drawn(u128),
    /// Reads by writes, and how many of each are complete.
    Ratio { wanted: f64, reads: u64, writes: u64 },
}

impl Order {
    fn new(load: &Load, io: &Io, geometry: &Geometry, generator: &mut Generator) -> Self {
        let (blocks, next) = (geometry.blocks, geometry.first_block);
        if io.cold_laps {
            let io = Io { cold_laps: false, ..io.clone() };
            return Self::Laps { order: Self::inner(load, &io, geometry, generator), left: blocks };
        }
        // On a bare device all files are one stretch.
        let files = u64::from(io.files);
        if io.round_robin && files > 1 {
            let alone = Io { round_robin: false, ..io.clone() };
            let one = Geometry { files: 1, blocks: blocks / files, first_block: next / files, ..*geometry };
            let mut order = || *Self::inner(load, &alone, &one, generator);
            return Self::Turns { orders: (0..files).map(|_| order()).collect(), file: 0 };
        }
        match io.access {
            Access::Random => Self::random(load, io, geometry, generator),
            Access::Sequential | Access::Extend => Self::Consecutive { next: Next::new(next, io) },
            Access::Append => Self::Append { next, lapped: false },
            Access::Strided => {
                let stride = io.stride.expect("validated: strided access has a stride");
                Self::Strided { next, step: stride.0 / geometry.block_size, one_lane: io.one_lane }
            }
        }
    }

    /// Blocks that are drawn, one by one or as the first of several.
    fn random(load: &Load, io: &Io, geometry: &Geometry, generator: &mut Generator) -> Self {
        let blocks = geometry.blocks;
        let next = Next::new(0, io);
        if io.in_a_row > 1 {
            let starts = Self::inner(load, &Io { in_a_row: 1, ..io.clone() }, geometry, generator);
            return Self::Rows { starts, length: io.in_a_row, stays: io.in_place, left: 0, next };
        }
        if let Some(reads) = io.jumps {
            let starts = Self::inner(load, &Io { jumps: None, ..io.clone() }, geometry, generator);
            let below = [reads, io.write_jumps.unwrap_or(reads)].map(|jumps| draw_below(jumps.fraction()));
            return Self::Jumps { starts, below, next };
        }
        if io.each_block_once {
            return Self::Once { lap: Permutation::new(blocks, generator), next: 0 };
        }
        let drawn = |law: &Distribution| Self::Drawn(Sampler::new(law, blocks, io.block_size, load.seed));
        match &io.write_distribution {
            Some(writes) => Self::Split(Box::new([drawn(&io.distribution), drawn(writes)])),
            None if io.distribution.is_uniform() && geometry.is_whole() => Self::Uniform,
            None => drawn(&io.distribution),
        }
    }

    /// An order inside of another. Blocks come without their file's number: uniform ones are drawn as others are.
    fn inner(load: &Load, io: &Io, geometry: &Geometry, generator: &mut Generator) -> Box<Self> {
        Box::new(match Self::new(load, io, geometry, generator) {
            Self::Uniform => {
                Self::Drawn(Sampler::new(&io.distribution, geometry.blocks, io.block_size, load.seed))
            }
            order => order,
        })
    }

    /// The next block, and whether a lap starts over with it. `write` matters only where reads and writes have orders or
    /// places of their own.
    fn step(&mut self, geometry: &Geometry, generator: &mut Generator, write: bool) -> (u64, bool) {
        let blocks = geometry.blocks;
        let mut restart = false;
        let block = match self {
            Self::Uniform => unreachable!("its blocks come with their file"),
            Self::Drawn(sampler) => sampler.draw(generator),
            Self::Once { lap, next } => {
                if *next == blocks {
                    *lap = Permutation::new(blocks, generator);
                    *next = 0;
                }
                *next += 1;
                lap.at(*next - 1)
            }
            Self::Consecutive { next } => next.advance(write, 1, blocks),
            Self::Append { next, lapped } => {
                let block = *next;
                restart = *lapped && block % geometry.blocks_per_file == 0;
                *next = if block + 1 == blocks { 0 } else { block + 1 };
                *lapped |= *next == 0;
                block
            }
            Self::Strided { next, step, one_lane } => {
                let block = *next;
                *next = block + *step;
                if *next >= blocks {
                    let lane = block % *step + u64::from(!*one_lane);
                    *next = if lane < (*step).min(blocks) { lane } else { 0 };
                }
                block
            }
            Self::Rows { starts, length, stays, left, next } => {
                if *left == 0 {
                    *next.of(write) = starts.step(geometry, generator, write).0;
                    *left = *length;
                }
                *left -= 1;
                next.advance(write, u64::from(!*stays), blocks)
            }
            Self::Jumps { starts, below, next } => {
                if u128::from(generator.next()) < below[usize::from(write)] {
                    *next.of(write) = starts.step(geometry, generator, write).0;
                }
                next.advance(write, 1, blocks)
            }
            Self::Split(orders) => orders[usize::from(write)].step(geometry, generator, write).0,
            Self::Turns { orders, file } => {
                let each = blocks / orders.len() as u64;
                let turn = *file;
                *file = if turn + 1 == orders.len() as u64 { 0 } else { turn + 1 };
                let one = Geometry { files: 1, blocks: each, ..*geometry };
                let (block, begins) = orders[turn as usize].step(&one, generator, write);
                restart = begins;
                turn * each + block
            }
            Self::Laps { order, left } => {
                restart = *left == 0;
                *left = if restart { blocks } else { *left } - 1;
                order.step(geometry, generator, write).0
            }
        };
        (block, restart)
    }

    /// Skips `more` blocks, which the request at the last block covers as well.
    fn skip(&mut self, more: u64, blocks: u64, write: bool) {
        match self {
            // After the last block the next is 0 again, and `more` is 0.
            Self::Consecutive { next } => drop(next.advance(write, more, blocks)),
            Self::Laps { order, left } => {
                *left = left.saturating_sub(more);
                order.skip(more, blocks, write);
            }
            _ => {}
        }
    }
}

impl Choice {
    fn new(io: &Io) -> Self {
        match io.mix {
            Mix::Drawn if io.reads.0 >= 100.0 => Self::Reads,
            Mix::Drawn if io.reads.0 <= 0.0 => Self::Writes,
            Mix::Drawn => Self::Drawn(draw_below(io.reads.fraction())),
            Mix::Ratio => Self::Ratio { wanted: io.reads.0 / (100.0 - io.reads.0), reads: 0, writes: 0 },
        }
    }
}

impl Requests {
    pub(crate) fn new(load: &Load, io: &Io, geometry: Geometry, thread: usize) -> Self {
        assert!(geometry.blocks_per_file > 0 && geometry.files > 0 && geometry.blocks > 0, "validated");
        let mut generator = Generator::new(load.seed, Stream::Requests(thread));
        Self {
            geometry,
            order: Order::new(load, io, &geometry, &mut generator),
            generator,
            choice: Choice::new(io),
            update_below: draw_below(io.update.fraction()),
            sizes: (io.has_sizes() || io.splits()).then(|| {
                let sizer = |sizes: &Option<Sizes>| Sizer::new(sizes.as_ref(), io.block_size);
                Box::new([sizer(&io.read_size), sizer(&io.write_size)])
            }),
        }
    }

    /// The next request, whatever its size.
    pub(crate) fn next(&mut self) -> Request {
        if self.sizes.is_none() { self.next_block() } else { self.next_sized() }
    }

    /// The next request where each is one block.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "called, it would return its parts in memory, which then are waited for"
    )]
    pub(crate) fn next_block(&mut self) -> Request {
        let (file, block, restart) = match self.order {
            Order::Uniform => uniform(&self.geometry, &mut self.generator),
            _ => self.next_ordered(false),
        };
        let (write, update) = self.choose();
        let offset = self.geometry.base + block * self.geometry.block_size;
        Request { write, update, restart, file, len: self.geometry.block_size as u32, offset }
    }

    /// The next request where reads and writes have sizes or places of their own: a place first, which is a multiple of the
    /// smallest size if it is drawn, then a size that fits there.
    #[inline(never)]
    fn next_sized(&mut self) -> Request {
        let (write, update) = self.choose();
        let mut restarts = false;
        loop {
            let (file, block, restart) = self.next_ordered(write);
            restarts |= restart;
            let Self { geometry, sizes, generator, order, .. } = self;
            let end = (geometry.origin + geometry.blocks)
                .saturating_sub(u64::from(file) * geometry.blocks_per_file);
            let sizer = &sizes.as_ref().expect("checked by the caller")[usize::from(write)];
            let block = match order {
                Order::Consecutive { .. } => block,
                Order::Laps { order, .. } if matches!(**order, Order::Consecutive { .. }) => block,
                // Where only a part of several files is this thread's, every request is one block.
                _ => block - block.saturating_sub(geometry.origin) % sizer.least(),
            };
            let room = geometry.blocks_per_file.min(end) - block;
            // There is room somewhere: a file, or a thread's part of it, has that of the largest request.
            let Some(blocks) = sizer.draw(room, generator) else { continue };
            order.skip(blocks - 1, geometry.blocks, write);
            let offset = geometry.base + block * geometry.block_size;
            let len = (blocks * geometry.block_size) as u32;
            return Request { write, update, restart: restarts, file, len, offset };
        }
    }

    /// Whether the next request writes, or updates what it reads.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a part of the loop, as what calls it")]
    fn choose(&mut self) -> (bool, bool) {
        let write = match self.choice {
            Choice::Reads => false,
            Choice::Writes => true,
            Choice::Drawn(below) => u128::from(self.generator.next()) >= below,
            Choice::Ratio { wanted, reads, writes } => (reads + 1) as f64 / (writes + 1) as f64 >= wanted,
        };
        let update = match self.update_below {
            0 => false,
            below => !write && u128::from(self.generator.next()) < below,
        };
        (write, update)
    }

    /// An operation is complete: it counts for the ratio of those to come.
    #[inline]
    pub(crate) fn completed(&mut self, write: bool) {
        if let Choice::Ratio { reads, writes, .. } = &mut self.choice {
            *(if write { writes } else { reads }) += 1;
        }
    }

    /// File, block in it, and whether a lap starts over. Kept out of [`Requests::next`], which is a part of
    /// the loop.
    #[inline(never)]
    fn next_ordered(&mut self, write: bool) -> (u32, u64, bool) {
        let Self { geometry, order, generator, .. } = self;
        if matches!(order, Order::Uniform) {
            return uniform(geometry, generator);
        }
        let (block, restart) = order.step(geometry, generator, write);
        let (file, block) = geometry.place(block);
        (file, block, restart)
    }
}

/// One draw gives the file (its upper bits) and the block (what is left): uniform, and no division.
#[inline]
fn uniform(geometry: &Geometry, generator: &mut Generator) -> (u32, u64, bool) {
    let draw = u128::from(generator.next()) * u128::from(geometry.files);
    let rest = draw as u64;
    let block = (u128::from(rest) * u128::from(geometry.blocks_per_file)) >> 64;
    ((draw >> 64) as u32, block as u64, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{io, load_of};
    use fstrial_model::units::{Bytes, Percent};
    use proptest::{prelude::*, test_runner::TestCaseError};
    use std::collections::{BTreeMap, BTreeSet};

    fn requests(io: &Io, threads: u16, thread: usize, seed: u64) -> Requests {
        let mut load = load_of(io.clone(), threads);
        load.seed = seed;
        Requests::new(&load, io, Geometry::on_files(io, threads, thread), thread)
    }

    fn small(access: Access, sharing: Sharing, files: u32, blocks: u64) -> Io {
        Io { access, sharing, files, total_size: Bytes(blocks * 4096), reads: Percent(0.0), ..io() }
    }

    proptest! {
        #[test]
        fn sequential_covers_every_block_once_in_a_lap(files in 1_u32..5, per_file in 1_u64..40, threads in 1_u16..6) {
            let io = small(Access::Sequential, Sharing::Shared, files, u64::from(files) * per_file);
            for thread in 0..usize::from(threads) {
                let mut requests = requests(&io, threads, thread, 1);
                for _lap in 0..2 {
                    let mut seen = BTreeMap::new();
                    for _ in 0..u64::from(files) * per_file {
                        let request = requests.next();
                        *seen.entry((request.file, request.offset)).or_insert(0) += 1;
                    }
                    prop_assert_eq!(seen.len() as u64, u64::from(files) * per_file);
                    prop_assert!(seen.values().all(|n| *n == 1));
                }
            }
        }

        #[test]
        fn random_stays_inside(files in 1_u32..9, per_file in 1_u64..1000, seed: u64, threads in 1_u16..5) {
            let io = small(Access::Random, Sharing::PerThread, files, u64::from(files) * per_file * u64::from(threads));
            let mut requests = requests(&io, threads, 0, seed);
            for _ in 0..200 {
                let request = requests.next();
                prop_assert!(request.file < files);
                prop_assert_eq!(request.offset % 4096, 0);
                prop_assert!(request.offset < per_file * 4096);
            }
        }

        #[test]
        fn same_seed_same_requests(seed: u64) {
            let io = Io { reads: Percent(30.0), ..small(Access::Random, Sharing::Shared, 3, 999) };
            let take = |thread, seed| {
                let mut requests = requests(&io, 4, thread, seed);
                (0..50).map(|_| requests.next()).collect::<Vec<_>>()
            };
            prop_assert_eq!(take(2, seed), take(2, seed));
            prop_assert_ne!(take(2, seed), take(3, seed));
            prop_assert_ne!(take(2, seed), take(2, seed.wrapping_add(1)));
        }

        #[test]
        fn device_parts_do_not_overlap(files in 1_u32..5, blocks in 40_u64..4000, threads in 1_u16..6) {
            let io = small(Access::Random, Sharing::PerThread, files, blocks);
            let mut end = 0;
            for thread in 0..usize::from(threads) {
                let part = Geometry::on_device(&io, threads, thread);
                prop_assert!(part.base >= end);
                end = part.base + part.file_size();
            }
            prop_assert!(end <= blocks * 4096);
        }
    }

    /// Requests of whole laps: in each, every block that the thread works on comes once.
    fn assert_laps(io: &Io, threads: u16, thread: usize, seed: u64) -> Result<(), TestCaseError> {
        let geometry = Geometry::on_files(io, threads, thread);
        let mut requests = requests(io, threads, thread, seed);
        for lap in 0..3 {
            let mut seen = BTreeSet::new();
            for _ in 0..geometry.blocks {
                let request = requests.next();
                prop_assert!(request.file < io.files && request.offset < geometry.file_size());
                let block =
                    u64::from(request.file) * geometry.blocks_per_file + request.offset / geometry.block_size;
                prop_assert!(
                    (geometry.origin..geometry.origin + geometry.blocks).contains(&block),
                    "{block} is another thread's"
                );
                prop_assert!(seen.insert(block), "lap {lap} has {block} twice");
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn every_order_covers_every_block_once_in_a_lap(
            files in 1_u32..4,
            per_file in 8_u64..60,
            threads in 1_u16..5,
            stride in 1_u64..8,
            sharing in prop::sample::select(vec![Sharing::Shared, Sharing::Region, Sharing::PerThread]),
            seed: u64,
        ) {
            let blocks = u64::from(files) * per_file * u64::from(threads);
            for access in [Access::Sequential, Access::Strided, Access::Random, Access::Extend, Access::Append] {
                let io = Io {
                    stride: (access == Access::Strided).then_some(Bytes(stride * 4096)),
                    each_block_once: access == Access::Random,
                    ..small(access, sharing, files, blocks)
                };
                for thread in 0..usize::from(threads) {
                    assert_laps(&io, threads, thread, seed)?;
                }
            }
        }

        #[test]
        fn rows_have_their_length_and_stay_inside(length in 2_u32..9, blocks in 1_u64..40, region: bool, seed: u64) {
            let sharing = if region { Sharing::Region } else { Sharing::Shared };
            let io = Io { in_a_row: length, ..small(Access::Random, sharing, 1, 2 * blocks) };
            let geometry = Geometry::on_files(&io, 2, 1);
            let mut requests = requests(&io, 2, 1, seed);
            let mut last = None;
            for n in 0..20 * length {
                let block = requests.next().offset / 4096;
                prop_assert!((geometry.origin..geometry.origin + geometry.blocks).contains(&block));
                // Rows begin where they may; inside of one the next block follows, the first of all after the last one.
                let behind = |last| if last + 1 == geometry.origin + geometry.blocks { geometry.origin } else { last + 1 };
                let follows = last.is_none_or(|last| block == behind(last));
                prop_assert!(n % length == 0 || follows, "{n}: {last:?} {block}");
                last = Some(block);
            }
        }

        #[test]
        fn turns_go_from_file_to_file_and_cover_all(files in 2_u32..5, per_file in 2_u64..30, threads in 1_u16..3) {
            for access in [Access::Sequential, Access::Random, Access::Append] {
                let io = Io {
                    round_robin: true,
                    each_block_once: access == Access::Random,
                    ..small(access, Sharing::Shared, files, u64::from(files) * per_file)
                };
                for thread in 0..usize::from(threads) {
                    assert_laps(&io, threads, thread, 5)?;
                    let mut requests = requests(&io, threads, thread, 5);
                    for n in 0..2 * files * per_file as u32 {
                        let request = requests.next();
                        prop_assert_eq!(request.file, n % files);
                        let laps = n / files >= per_file as u32;
                        // Other threads begin somewhere else, and appending ones share no files.
                        let begins = access == Access::Append && laps && request.offset == 0;
                        prop_assert!(thread > 0 || request.restart == begins, "{:?} {}", access, n);
                    }
                }
            }
            let device = Io { round_robin: true, ..small(Access::Sequential, Sharing::Shared, 2, 20) };
            let geometry = Geometry::on_device(&device, 1, 0);
            let mut requests = Requests::new(&load_of(device.clone(), 1), &device, geometry, 0);
            let offsets: Vec<u64> = (0..4).map(|_| requests.next().offset / 4096).collect();
            prop_assert_eq!(offsets, [0, 10, 1, 11]);
        }

        #[test]
        fn cold_laps_begin_anew_after_every_block(per_file in 2_u64..30, files in 1_u32..3, drawn: bool) {
            for access in [Access::Sequential, Access::Random, Access::Extend] {
                let once = access == Access::Random && !drawn;
                let shape = small(access, Sharing::Shared, files, u64::from(files) * per_file);
                let io = Io { cold_laps: true, each_block_once: once, ..shape };
                let mut requests = requests(&io, 1, 0, 7);
                let lap = (u64::from(files) * per_file) as usize;
                let restarts: Vec<bool> = (0..3 * lap).map(|_| requests.next().restart).collect();
                let expected: Vec<bool> = (0..3 * lap).map(|n| n > 0 && n % lap == 0).collect();
                prop_assert_eq!(restarts, expected);
            }
        }

        #[test]
        fn regions_are_equal_and_do_not_overlap(files in 1_u32..5, per_file in 10_u64..100, threads in 1_u16..9) {
            let io = small(Access::Random, Sharing::Region, files, u64::from(files) * per_file);
            let mut end = 0;
            for thread in 0..usize::from(threads) {
                let (part, device) =
                    (Geometry::on_files(&io, threads, thread), Geometry::on_device(&io, threads, thread));
                prop_assert_eq!(part.origin, end);
                prop_assert_eq!((device.origin, device.blocks, device.base), (part.origin, part.blocks, 0));
                end += part.blocks;
                let mut requests = requests(&io, threads, thread, 3);
                for _ in 0..100 {
                    let request = requests.next();
                    let block = u64::from(request.file) * per_file + request.offset / 4096;
                    prop_assert!((part.origin..end).contains(&block));
                }
            }
            prop_assert!(end <= u64::from(files) * per_file);
            prop_assert!(end > u64::from(files) * per_file - u64::from(threads));
        }

        #[test]
        fn any_distribution_stays_inside_and_repeats(seed: u64, files in 1_u32..4, theta in 0.1_f64..0.99) {
            for distribution in [
                Distribution::Zipf { theta },
                Distribution::Latest { theta },
                Distribution::Hotspot { fraction: theta, share: 0.8 },
                Distribution::Normal { draws: 12 },
                "zones:10%:60,20%:30,33.3%:10".parse().unwrap(),
            ] {
                let io = Io {
                    distribution,
                    reads: Percent(50.0),
                    update: Percent(50.0),
                    write_distribution: (seed.is_multiple_of(2)).then(|| "zones:40KiB:1,60KiB:2".parse().unwrap()),
                    jumps: (seed.is_multiple_of(3)).then_some(Percent(100.0 * theta)),
                    apart: seed.is_multiple_of(3),
                    ..small(Access::Random, Sharing::Region, files, 600)
                };
                let take = || {
                    let mut requests = requests(&io, 3, 1, seed);
                    (0..100).map(|_| requests.next()).collect::<Vec<_>>()
                };
                let geometry = Geometry::on_files(&io, 3, 1);
                prop_assert!(take().iter().all(|r| r.file < files && r.offset < geometry.file_size()));
                prop_assert_eq!(take(), take());
            }
        }
    }

    fn places(io: &Io, threads: u16, thread: usize, count: usize) -> Vec<(u32, u64)> {
        let mut requests = requests(io, threads, thread, 1);
        (0..count).map(|_| requests.next()).map(|r| (r.file, r.offset / 4096)).collect()
    }

    #[test]
    fn strides_go_on_in_the_next_lane() {
        let io = Io { stride: Some(Bytes(3 * 4096)), ..small(Access::Strided, Sharing::Shared, 2, 8) };
        // Blocks 0 3 6, 1 4 7, 2 5 of two files with four each.
        let lap = [(0, 0), (0, 3), (1, 2), (0, 1), (1, 0), (1, 3), (0, 2), (1, 1)];
        assert_eq!(places(&io, 1, 0, 8), lap);
        assert_eq!(places(&io, 1, 0, 10)[8..], lap[..2], "and again");
        // The second of two threads starts in the middle of the same cycle.
        assert_eq!(places(&io, 2, 1, 3), [(1, 0), (1, 3), (0, 2)]);
    }

    #[test]
    fn one_lane_is_gone_through_again_and_again() {
        // What fio 3.33 does with rw=read:12k and rw=read:8k in 64 blocks.
        for (stride, lane) in [(4, 16), (3, 22)] {
            let strided = small(Access::Strided, Sharing::Shared, 1, 64);
            let io = Io { stride: Some(Bytes(stride * 4096)), one_lane: true, ..strided };
            let expected: Vec<_> = (0..60).map(|n| (0, n % lane * stride)).collect();
            assert_eq!(places(&io, 1, 0, 60), expected);
        }
        let strided = small(Access::Strided, Sharing::Shared, 1, 8);
        let second = Io { stride: Some(Bytes(3 * 4096)), one_lane: true, ..strided };
        assert_eq!(
            places(&second, 2, 1, 4),
            [4, 7, 1, 4].map(|block| (0, block)),
            "the second of two threads"
        );
    }

    /// Reads and writes by their blocks, in order.
    fn kinds(io: &Io, count: usize) -> Vec<(bool, u64)> {
        let mut requests = requests(io, 1, 0, 11);
        (0..count).map(|_| requests.next()).map(|r| (r.write, r.offset / 4096)).collect()
    }

    #[test]
    fn reads_and_writes_go_on_apart() {
        // As fio's rw=rw: r0 r1 w0 w1 w2 w3 w4 r2 w5 …
        let mixed =
            Io { reads: Percent(50.0), apart: true, ..small(Access::Sequential, Sharing::Shared, 1, 64) };
        for io in [mixed.clone(), Io { cold_laps: true, ..mixed.clone() }] {
            let mut next = [0, 0];
            for (write, block) in kinds(&io, 400) {
                assert_eq!(block, next[usize::from(write)] % 64);
                next[usize::from(write)] += 1;
            }
            assert!(next.iter().all(|count| (150..250).contains(count)), "{next:?}");
        }
        // With sizes, each goes on behind what it has covered.
        let io = Io { write_size: Some("4KiB:1,8KiB:1".parse().unwrap()), ..mixed };
        let mut requests = requests(&io, 1, 0, 3);
        let mut next = [0, 0];
        for _ in 0..400 {
            let request = requests.next();
            let place = &mut next[usize::from(request.write)];
            assert_eq!(request.offset, *place);
            *place = (*place + u64::from(request.len)) % (64 * 4096);
        }
    }

    /// fio 3.33's own rule, from io_u.c: every n-th request is drawn, the others go on behind the last of their kind,
    /// from 0 at first.
    #[test]
    fn rows_of_a_mix_go_on_behind_the_last_of_their_kind() {
        let io = Io {
            in_a_row: 4,
            apart: true,
            reads: Percent(50.0),
            ..small(Access::Random, Sharing::Shared, 1, 64)
        };
        let mut next = [0, 0];
        let mut drawn = BTreeSet::new();
        for (n, (write, block)) in kinds(&io, 2000).into_iter().enumerate() {
            let next = &mut next[usize::from(write)];
            if n % 4 == 0 {
                drawn.insert(block);
            } else {
                assert_eq!(block, *next, "{n}");
            }
            *next = (block + 1) % 64;
        }
        assert_eq!(drawn.len(), 64);
    }

    #[test]
    fn rows_begin_at_each_block_once_and_stay_if_they_are_to() {
        for in_place in [false, true] {
            let rows = Io {
                in_a_row: 4,
                each_block_once: true,
                in_place,
                ..small(Access::Random, Sharing::Shared, 1, 64)
            };
            let io = Io { cold_laps: in_place, ..rows };
            for lap in kinds(&io, 3 * 256).chunks(256) {
                let starts: BTreeSet<u64> = lap.iter().step_by(4).map(|(_, block)| *block).collect();
                assert_eq!(starts.len(), 64);
                let step = u64::from(!in_place);
                for row in lap.chunks(4) {
                    assert!((0..4).all(|n| row[n].1 == (row[0].1 + step * n as u64) % 64), "{row:?}");
                }
            }
        }
    }

    #[test]
    fn jumps_come_in_their_share_and_the_others_follow() {
        let shares = |jumps: f64, write_jumps: Option<f64>| -> [f64; 2] {
            let io = Io {
                jumps: Some(Percent(jumps)),
                write_jumps: write_jumps.map(Percent),
                apart: true,
                reads: Percent(50.0),
                ..small(Access::Random, Sharing::Shared, 1, 1000)
            };
            let (mut next, mut follow, mut all) = ([0, 0], [0, 0], [0, 0]);
            for (write, block) in kinds(&io, 100_000) {
                let kind = usize::from(write);
                follow[kind] += u32::from(block == next[kind]);
                all[kind] += 1;
                next[kind] = (block + 1) % 1000;
            }
            [0, 1].map(|kind| f64::from(follow[kind]) / f64::from(all[kind]))
        };
        // One of a thousand follows by chance.
        let near = |found: [f64; 2], wanted: [f64; 2]| {
            let is_near = found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 0.006);
            assert!(is_near, "{found:?}, not {wanted:?}");
        };
        near(shares(50.0, None), [0.5; 2]);
        near(shares(100.0, Some(0.0)), [0.001, 1.0]);
        near(shares(10.0, Some(90.0)), [0.9, 0.1]);
        let once = Io {
            jumps: Some(Percent(100.0)),
            each_block_once: true,
            ..small(Access::Random, Sharing::Shared, 1, 50)
        };
        assert_laps(&once, 1, 0, 5).unwrap();
    }

    #[test]
    fn writes_have_a_distribution_of_their_own() {
        let io = Io {
            distribution: "zones:10%:60,20%:40".parse().unwrap(),
            write_distribution: Some("zones:1200KiB:0,2800KiB:100".parse().unwrap()),
            reads: Percent(50.0),
            ..small(Access::Random, Sharing::Shared, 1, 1000)
        };
        let (writes, reads): (Vec<_>, Vec<_>) = kinds(&io, 20_000).into_iter().partition(|(write, _)| *write);
        assert!(writes.iter().all(|(_, block)| *block >= 300));
        let hot = reads.iter().filter(|(_, block)| *block < 100).count() as f64 / reads.len() as f64;
        assert!(reads.iter().all(|(_, block)| *block < 300) && (hot - 0.6).abs() < 0.02, "{hot}");
    }

    #[test]
    fn two_writers_each_have_their_half() {
        // Closson's test: two dd on one file, the second with seek at its half.
        let io = small(Access::Sequential, Sharing::Region, 1, 10);
        assert_eq!(places(&io, 2, 0, 6), [0, 1, 2, 3, 4, 0].map(|block| (0, block)));
        assert_eq!(places(&io, 2, 1, 6), [5, 6, 7, 8, 9, 5].map(|block| (0, block)));
    }

    #[test]
    fn extended_files_are_never_cut() {
        let io = small(Access::Extend, Sharing::PerThread, 2, 6);
        let mut requests = requests(&io, 1, 0, 1);
        assert!((0..100).all(|_| !requests.next().restart));
        assert_eq!(places(&io, 1, 0, 7), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 0)]);
    }

    #[test]
    fn laps_without_replacement_have_orders_of_their_own() {
        let io = Io { each_block_once: true, ..small(Access::Random, Sharing::Shared, 1, 50) };
        let both = places(&io, 1, 0, 100);
        assert_ne!(both[..50], both[50..]);
        assert_ne!(places(&io, 2, 0, 50), places(&io, 2, 1, 50));
    }

    #[test]
    fn threads_have_the_same_hot_blocks() {
        let io = Io {
            distribution: Distribution::Zipf { theta: 0.99 },
            ..small(Access::Random, Sharing::Shared, 4, 1000)
        };
        let hottest = |thread| {
            let mut counts = BTreeMap::new();
            places(&io, 2, thread, 20_000)
                .into_iter()
                .for_each(|place| *counts.entry(place).or_insert(0) += 1);
            counts.into_iter().max_by_key(|(_, count)| *count).unwrap()
        };
        let ((place, count), (other, _)) = (hottest(0), hottest(1));
        assert_eq!(place, other);
        assert!((2400..2780).contains(&count), "12.94 % of 20 000, not {count}");
    }

    #[test]
    fn ratio_gives_sysbenchs_fixed_cycle() {
        let take = |percent, count| {
            let io = Io {
                mix: Mix::Ratio,
                reads: Percent(percent),
                ..small(Access::Random, Sharing::Shared, 1, 10)
            };
            let mut requests = requests(&io, 1, 0, 1);
            let one = |_| {
                let write = requests.next().write;
                requests.completed(write);
                if write { 'W' } else { 'R' }
            };
            (0..count).map(one).collect::<String>()
        };
        assert_eq!(take(60.0, 10), "RWRWRRWRWR");
        assert_eq!(take(50.0, 6), "WRWRWR");
        assert_eq!(take(0.0, 3), "WWW");
        assert_eq!(take(100.0, 3), "RRR");
    }

    #[test]
    fn updates_come_in_their_share_of_reads() {
        for (percent, low, high) in [(0.0, 0, 0), (100.0, 50_000, 50_000), (10.0, 4_700, 5_300)] {
            let io = Io {
                mix: Mix::Ratio,
                reads: Percent(50.0),
                update: Percent(percent),
                ..small(Access::Random, Sharing::Shared, 1, 10)
            };
            let mut requests = requests(&io, 1, 0, 1);
            let mut updates = 0;
            for _ in 0..100_000 {
                let request = requests.next();
                assert!(!(request.update && request.write));
                requests.completed(request.write);
                updates += u32::from(request.update);
            }
            assert!((low..=high).contains(&updates), "{percent}%: {updates}");
        }
    }

    #[test]
    fn sizes_follow_each_other_without_gaps_or_overlaps() {
        // Eight files of 20 blocks: what no longer fits is drawn again, so that each file is filled to its end.
        let io = Io {
            write_size: Some("4KiB:60,64KiB:40".parse().unwrap()),
            ..small(Access::Sequential, Sharing::Shared, 8, 160)
        };
        let mut requests = requests(&io, 1, 0, 3);
        let mut large = 0;
        for _lap in 0..20 {
            for file in 0..8 {
                let mut end = 0;
                while end < 20 * 4096 {
                    let request = requests.next();
                    assert_eq!((request.file, request.offset), (file, end));
                    end += u64::from(request.len);
                    large += u32::from(request.len == 65536);
                }
                assert_eq!(end, 20 * 4096);
            }
        }
        assert!((100..=160).contains(&large), "at most one in each file of each lap: {large}");
    }

    #[test]
    fn reads_and_writes_have_sizes_of_their_own() {
        for sharing in [Sharing::Shared, Sharing::Region, Sharing::PerThread] {
            let io = Io {
                reads: Percent(50.0),
                write_size: Some("8KiB-32KiB".parse().unwrap()),
                ..small(Access::Random, sharing, 1, 600)
            };
            let geometry = Geometry::on_files(&io, 3, 1);
            let mut requests = requests(&io, 3, 1, 4);
            let mut counts = BTreeMap::new();
            for _ in 0..20_000 {
                let request = requests.next();
                let block = request.offset / 4096;
                let end = block + u64::from(request.len) / 4096;
                assert!(
                    !request.write || (block - geometry.origin).is_multiple_of(2),
                    "aligned to the smallest"
                );
                assert!(block >= geometry.origin && end <= geometry.origin + geometry.blocks);
                *counts.entry((request.write, request.len / 4096)).or_insert(0_u32) += 1;
            }
            assert_eq!(counts.keys().filter(|(write, _)| !write).count(), 1);
            assert!((9_600..10_400).contains(&counts[&(false, 1)]), "{counts:?}");
            for size in 2..=8 {
                assert!((1_250..1_620).contains(&counts[&(true, size)]), "{counts:?}");
            }
        }
    }

    #[test]
    fn laps_of_sizes_are_as_many_blocks_as_others() {
        for access in [Access::Sequential, Access::Random] {
            let sizes = Some("4KiB:1,16KiB:1".parse().unwrap());
            let io = Io { cold_laps: true, write_size: sizes, ..small(access, Sharing::Shared, 1, 100) };
            let mut requests = requests(&io, 1, 0, 7);
            let (mut blocks, mut laps) = (0, 0);
            for _ in 0..4000 {
                let request = requests.next();
                if request.restart {
                    assert!((100..104).contains(&blocks), "{access:?}: {blocks}");
                    assert!(access == Access::Random || (blocks == 100 && request.offset == 0));
                    (blocks, laps) = (0, laps + 1);
                }
                blocks += request.len / 4096;
            }
            assert!((95..=100).contains(&laps), "{laps}");
        }
    }

    #[test]
    fn random_is_uniform() {
        let io = small(Access::Random, Sharing::Shared, 5, 500);
        let mut requests = requests(&io, 1, 0, 42);
        let mut counts = vec![0_u32; 500];
        let draws = 500_000;
        for _ in 0..draws {
            let request = requests.next();
            counts[request.file as usize * 100 + (request.offset / 4096) as usize] += 1;
        }
        let expected = f64::from(draws) / 500.0;
        let chi2: f64 = counts.iter().map(|n| (f64::from(*n) - expected).powi(2) / expected).sum();
        // 499 degrees of freedom: the central 99.8 % lie between about 406 and 600.
        assert!((406.0..600.0).contains(&chi2), "chi-squared {chi2}");
    }

    #[test]
    fn reads_come_in_their_share() {
        for (percent, low, high) in [(0.0, 0, 0), (100.0, 100_000, 100_000), (70.0, 69_300, 70_700)] {
            let io = Io { reads: Percent(percent), ..small(Access::Random, Sharing::Shared, 1, 10) };
            let mut requests = requests(&io, 1, 0, 1);
            let reads = (0..100_000).filter(|_| !requests.next().write).count();
            assert!((low..=high).contains(&reads), "{percent}%: {reads}");
        }
    }

    #[test]
    fn append_fills_its_files_and_cuts_each_when_it_comes_round() {
        let io = small(Access::Append, Sharing::PerThread, 2, 6);
        let mut requests = requests(&io, 1, 0, 1);
        let got: Vec<_> =
            (0..8).map(|_| requests.next()).map(|r| (r.file, r.offset / 4096, r.restart)).collect();
        let expected = [
            (0, 0, false),
            (0, 1, false),
            (0, 2, false),
            (1, 0, false),
            (1, 1, false),
            (1, 2, false),
            (0, 0, true),
            (0, 1, false),
        ];
        assert_eq!(got, expected);
    }

    #[test]
    fn threads_that_share_start_apart() {
        let io = small(Access::Sequential, Sharing::Shared, 2, 100);
        let starts: Vec<_> =
            (0..4).map(|t| requests(&io, 4, t, 1).next()).map(|r| (r.file, r.offset / 4096)).collect();
        assert_eq!(starts, [(0, 0), (0, 25), (1, 0), (1, 25)]);
    }
}
