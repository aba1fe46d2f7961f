//! Where each request goes: an endless sequence for each thread that depends on nothing but the load and its seed.

use crate::generator::{Generator, Stream};
use fstrial_model::{
    job::Load,
    workload::{Access, Io, Sharing},
};

/// The blocks one thread works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Size of a block, and of every request, in bytes.
    pub(crate) block_size: u64,
    /// Blocks in each file.
    pub(crate) blocks_per_file: u64,
    /// Files that this thread uses.
    pub(crate) files: u32,
    /// Bytes before the first block (other threads' parts of a bare device).
    pub(crate) base: u64,
    /// Where a sequential thread starts, in blocks over all its files.
    pub(crate) first_block: u64,
}

impl Geometry {
    /// The part of `thread` in a load on files.
    pub(crate) fn on_files(io: &Io, threads: u16, thread: usize) -> Self {
        let sets = match io.sharing {
            Sharing::Shared => 1,
            Sharing::PerThread => u64::from(threads),
        };
        let block_size = io.block_size.0;
        let blocks_per_file = io.total_size.0 / sets / u64::from(io.files.max(1)) / block_size.max(1);
        let first_block = match io.sharing {
            Sharing::Shared => first_block(blocks_per_file * u64::from(io.files), threads, thread),
            Sharing::PerThread => 0,
        };
        Self { block_size, blocks_per_file, files: io.files, base: 0, first_block }
    }

    /// The part of `thread` in a load on a bare device: its files are stretches of the device, one after the other.
    pub(crate) fn on_device(io: &Io, threads: u16, thread: usize) -> Self {
        let files = Self::on_files(io, threads, thread);
        let blocks = files.blocks_per_file * u64::from(files.files);
        let base = match io.sharing {
            Sharing::Shared => 0,
            Sharing::PerThread => blocks * files.block_size * thread as u64,
        };
        Self { blocks_per_file: blocks, files: 1, base, ..files }
    }

    /// Size of each file in bytes, a multiple of the block size.
    pub(crate) fn file_size(&self) -> u64 {
        self.blocks_per_file * self.block_size
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
    /// Cut the file to nothing before.
    pub(crate) restart: bool,
    /// Which of the thread's files.
    pub(crate) file: u32,
    /// Where in the file, in bytes.
    pub(crate) offset: u64,
}

/// The requests of one thread, in order, without end.
#[derive(Debug, Clone)]
pub(crate) struct Requests {
    geometry: Geometry,
    access: Access,
    generator: Generator,
    /// A draw below this reads; 2^64 is always.
    read_below: u128,
    /// Next place of a thread that goes in order.
    file: u32,
    block: u64,
    /// Appending threads find their files empty in the first lap.
    lapped: bool,
}

impl Requests {
    pub(crate) fn new(load: &Load, io: &Io, geometry: Geometry, thread: usize) -> Self {
        assert!(geometry.blocks_per_file > 0 && geometry.files > 0, "validated");
        let share = io.reads.fraction().clamp(0.0, 1.0);
        let read_below = if share >= 1.0 { 1 << 64 } else { (share * 2_f64.powi(64)) as u128 };
        Self {
            geometry,
            access: io.access,
            generator: Generator::new(load.seed, Stream::Requests(thread)),
            read_below,
            file: u32::try_from(geometry.first_block / geometry.blocks_per_file).unwrap_or(0)
                % geometry.files,
            block: geometry.first_block % geometry.blocks_per_file,
            lapped: false,
        }
    }

    /// The next request.
    #[inline]
    pub(crate) fn next(&mut self) -> Request {
        let (file, block, restart) = match self.access {
            Access::Random => self.random(),
            Access::Sequential | Access::Append => self.in_order(),
        };
        let write = match self.read_below {
            0 => true,
            read_below => u128::from(self.generator.next()) >= read_below,
        };
        Request { write, restart, file, offset: self.geometry.base + block * self.geometry.block_size }
    }

    /// One draw gives the file (its upper bits) and the block (what is left): uniform, and no division.
    #[inline]
    fn random(&mut self) -> (u32, u64, bool) {
        let draw = u128::from(self.generator.next()) * u128::from(self.geometry.files);
        let rest = draw as u64;
        let block = (u128::from(rest) * u128::from(self.geometry.blocks_per_file)) >> 64;
        ((draw >> 64) as u32, block as u64, false)
    }

    #[inline]
    fn in_order(&mut self) -> (u32, u64, bool) {
        let (file, block) = (self.file, self.block);
        let restart = self.access == Access::Append && block == 0 && self.lapped;
        self.block += 1;
        if self.block == self.geometry.blocks_per_file {
            self.block = 0;
            self.file += 1;
            if self.file == self.geometry.files {
                self.file = 0;
                self.lapped = true;
            }
        }
        (file, block, restart)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{io, load_of};
    use fstrial_model::units::{Bytes, Percent};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

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
