//! Offsets of requests: an endless sequence for each thread that depends on nothing but the load and its seed.

use crate::{
    distribution::Sampler,
    generator::{Generator, Stream, draw_below},
    permutation::Permutation,
};
use fstrial_model::{
    job::Load,
    workload::{Access, Io, Mix, Sharing},
};

/// The blocks one thread works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Size of a block in bytes, and of every request.
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
    /// Distance of its blocks, in blocks.
    pub(crate) stride: u64,
    /// Start of a sequential thread, in its own blocks.
    pub(crate) first_block: u64,
}

impl Geometry {
    /// The part of `thread` in a load on files.
    pub(crate) fn on_files(io: &Io, threads: u32, thread: usize) -> Self {
        let threads = u64::from(threads).max(1);
        let sets = if io.sharing == Sharing::PerThread { threads } else { 1 };
        let block_size = io.block_size.0;
        let blocks_per_file = io.total_size.0 / sets / u64::from(io.files.max(1)) / block_size.max(1);
        let all = blocks_per_file * u64::from(io.files);
        let (origin, blocks, first_block) = match io.sharing {
            Sharing::Shared => (0, all, first_block(all, threads, thread)),
            Sharing::Region => {
                let each = all / threads;
                (each * thread as u64, each, 0)
            }
            Sharing::Strided => (thread as u64, all / threads, 0),
            Sharing::PerThread | Sharing::Cursor => (0, all, 0),
        };
        let stride = if io.sharing == Sharing::Strided { threads } else { 1 };
        Self { block_size, blocks_per_file, files: io.files, base: 0, origin, blocks, stride, first_block }
    }

    /// The part of `thread` in a load on a bare device: its files are stretches of the device, one after the other.
    pub(crate) fn on_device(io: &Io, threads: u32, thread: usize) -> Self {
        let files = Self::on_files(io, threads, thread);
        let blocks = files.blocks_per_file * u64::from(files.files);
        let is_own = io.sharing == Sharing::PerThread;
        let base = if is_own { blocks * files.block_size * thread as u64 } else { 0 };
        Self { blocks_per_file: blocks, files: 1, base, ..files }
    }

    /// Size of each file in bytes, a multiple of the block size.
    pub(crate) fn file_size(&self) -> u64 {
        self.blocks_per_file * self.block_size
    }

    /// Used bytes of each file with this many threads: an indivisible rest is left alone.
    pub(crate) fn used(&self, threads: u32) -> impl Iterator<Item = u64> {
        let Self { block_size, blocks_per_file: each, files, .. } = *self;
        let all = if self.is_whole() { self.blocks } else { self.blocks * u64::from(threads) };
        (0..u64::from(files)).map(move |file| all.saturating_sub(file * each).min(each) * block_size)
    }

    /// True if the thread works on all blocks of its files.
    fn is_whole(&self) -> bool {
        self.blocks == self.blocks_per_file * u64::from(self.files)
    }

    /// File, and block in it, of a block of this thread.
    #[inline]
    fn place(&self, block: u64) -> (u32, u64) {
        let block = self.origin + block * self.stride;
        if self.files == 1 {
            return (0, block);
        }
        ((block / self.blocks_per_file) as u32, block % self.blocks_per_file)
    }
}

/// Threads that share files start at evenly spaced places.
fn first_block(blocks: u64, threads: u64, thread: usize) -> u64 {
    (u128::from(blocks) * thread as u128 / u128::from(threads)) as u64
}

/// One request: a block to read or write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Request {
    /// Write it; otherwise read it.
    pub(crate) write: bool,
    /// A read that a write of the same block follows, as one operation; or that write.
    pub(crate) update: bool,
    /// The first of a lap that starts over: cut the file to nothing before.
    pub(crate) restart: bool,
    /// Index among the thread's files.
    pub(crate) file: u32,
    /// Size in bytes.
    pub(crate) len: u32,
    /// Offset in the file, in bytes.
    pub(crate) offset: u64,
}

/// The requests of one thread, in order, without end.
#[derive(Debug, Clone)]
pub(crate) struct Requests {
    geometry: Geometry,
    order: BlockOrder,
    generator: Generator,
    choice: Choice,
    /// A draw below this updates the read block.
    update_below: u128,
}

/// Choice of the next block.
#[derive(Debug, Clone)]
enum BlockOrder {
    /// Any block of all files.
    Uniform,
    /// As the sampler draws them.
    Drawn(Sampler),
    /// Each block once in a lap, in an order that is drawn again for each.
    Once { lap: Permutation, next: u64 },
    /// One after the other.
    Consecutive { next: u64 },
    /// One after the other; a file that was full before is cut when it comes round.
    Append { next: u64, lapped: bool },
}

/// Choice of the requests that read.
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

impl BlockOrder {
    fn new(load: &Load, io: &Io, geometry: &Geometry, generator: &mut Generator) -> Self {
        let (blocks, next) = (geometry.blocks, geometry.first_block);
        match io.access {
            Access::Random if io.each_block_once => {
                Self::Once { lap: Permutation::new(blocks, generator), next: 0 }
            }
            Access::Random if io.distribution.is_uniform() && geometry.is_whole() => Self::Uniform,
            Access::Random => Self::Drawn(Sampler::new(&io.distribution, blocks, io.block_size, load.seed)),
            Access::Sequential | Access::Extend => Self::Consecutive { next },
            Access::Append => Self::Append { next, lapped: false },
        }
    }

    /// The next file, block in it, and whether a lap starts over with it. Kept out of [`Requests::next`], which is a part of
    /// the loop.
    #[inline(never)]
    fn next(&mut self, geometry: &Geometry, generator: &mut Generator) -> (u32, u64, bool) {
        let blocks = geometry.blocks;
        let mut restart = false;
        let block = match self {
            Self::Uniform => return uniform(geometry, generator),
            Self::Drawn(sampler) => sampler.draw(generator),
            Self::Once { lap, next } => {
                if *next == blocks {
                    *lap = Permutation::new(blocks, generator);
                    *next = 0;
                }
                *next += 1;
                lap.at(*next - 1)
            }
            Self::Consecutive { next } => {
                let block = *next;
                *next = if block + 1 == blocks { 0 } else { block + 1 };
                block
            }
            Self::Append { next, lapped } => {
                let block = *next;
                restart = *lapped && block % geometry.blocks_per_file == 0;
                *next = if block + 1 == blocks { 0 } else { block + 1 };
                *lapped |= *next == 0;
                block
            }
        };
        let (file, block) = geometry.place(block);
        (file, block, restart)
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
            order: BlockOrder::new(load, io, &geometry, &mut generator),
            generator,
            choice: Choice::new(io),
            update_below: draw_below(io.update.fraction()),
        }
    }

    /// The next request.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "called, it would return its parts in memory, which then are waited for"
    )]
    pub(crate) fn next(&mut self) -> Request {
        let (file, block, restart) = match self.order {
            BlockOrder::Uniform => uniform(&self.geometry, &mut self.generator),
            _ => self.order.next(&self.geometry, &mut self.generator),
        };
        let (write, update) = self.choose();
        let offset = self.geometry.base + block * self.geometry.block_size;
        Request { write, update, restart, file, len: self.geometry.block_size as u32, offset }
    }

    /// True if the next request writes, or updates the read block.
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
}

/// One draw gives the file (its upper bits) and the block (the rest): uniform, and no division.
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
    use fstrial_model::{
        units::{Bytes, Percent},
        workload::Distribution,
    };
    use proptest::{prelude::*, test_runner::TestCaseError};
    use std::collections::{BTreeMap, BTreeSet};

    fn requests(io: &Io, threads: u16, thread: usize, seed: u64) -> Requests {
        let mut load = load_of(io.clone(), threads);
        load.seed = seed;
        Requests::new(&load, io, Geometry::on_files(io, threads.into(), thread), thread)
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
                let part = Geometry::on_device(&io, threads.into(), thread);
                prop_assert!(part.base >= end);
                end = part.base + part.file_size();
            }
            prop_assert!(end <= blocks * 4096);
        }
    }

    /// Requests of whole laps: in each, every block that the thread works on comes once.
    fn assert_laps(io: &Io, threads: u16, thread: usize, seed: u64) -> Result<(), TestCaseError> {
        let geometry = Geometry::on_files(io, threads.into(), thread);
        let mut requests = requests(io, threads, thread, seed);
        for lap in 0..3 {
            let mut seen = BTreeSet::new();
            for _ in 0..geometry.blocks {
                let request = requests.next();
                prop_assert!(request.file < io.files && request.offset < geometry.file_size());
                let block =
                    u64::from(request.file) * geometry.blocks_per_file + request.offset / geometry.block_size;
                let own = block.checked_sub(geometry.origin).filter(|n| n.is_multiple_of(geometry.stride));
                let is_own = own.is_some_and(|n| n / geometry.stride < geometry.blocks);
                prop_assert!(is_own, "{block} is another thread's");
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
            sharing in prop::sample::select(vec![
                Sharing::Shared, Sharing::Region, Sharing::Strided, Sharing::PerThread,
            ]),
            seed: u64,
        ) {
            let blocks = u64::from(files) * per_file * u64::from(threads);
            for access in [Access::Sequential, Access::Random, Access::Extend, Access::Append] {
                let io = Io {
                    each_block_once: access == Access::Random,
                    ..small(access, sharing, files, blocks)
                };
                for thread in 0..usize::from(threads) {
                    assert_laps(&io, threads, thread, seed)?;
                }
            }
        }

        #[test]
        fn regions_are_equal_and_do_not_overlap(files in 1_u32..5, per_file in 10_u64..100, threads in 1_u16..9) {
            let io = small(Access::Random, Sharing::Region, files, u64::from(files) * per_file);
            let mut end = 0;
            for thread in 0..usize::from(threads) {
                let (part, device) =
                    (Geometry::on_files(&io, threads.into(), thread), Geometry::on_device(&io, threads.into(), thread));
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
        fn threads_have_the_blocks_of_a_strided_file_by_turns(
            files in 1_u32..4, per_file in 10_u64..60, threads in 1_u16..9,
        ) {
            let io = small(Access::Sequential, Sharing::Strided, files, u64::from(files) * per_file);
            let turns = u64::from(files) * per_file / u64::from(threads);
            let used: Vec<u64> = Geometry::on_files(&io, threads.into(), 0).used(threads.into()).collect();
            prop_assert_eq!(used.len() as u64, u64::from(files));
            prop_assert_eq!(used.iter().sum::<u64>(), turns * u64::from(threads) * 4096);
            for thread in 0..usize::from(threads) {
                let mut requests = requests(&io, threads, thread, 3);
                for turn in 0..turns {
                    let block = turn * u64::from(threads) + thread as u64;
                    let Request { file, offset, .. } = requests.next();
                    prop_assert_eq!((u64::from(file), offset), (block / per_file, block % per_file * 4096));
                }
            }
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
    fn ratio_mix_matches_sysbench_cycle() {
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
        // 499 degrees of freedom: the central 99.8 % are between about 406 and 600.
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
    fn append_fills_files_and_restarts_on_wrap() {
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
    fn sharing_threads_start_at_distinct_positions() {
        let io = small(Access::Sequential, Sharing::Shared, 2, 100);
        let starts: Vec<_> =
            (0..4).map(|t| requests(&io, 4, t, 1).next()).map(|r| (r.file, r.offset / 4096)).collect();
        assert_eq!(starts, [(0, 0), (0, 25), (1, 0), (1, 25)]);
    }
}
