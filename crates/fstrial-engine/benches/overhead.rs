//! The engine against a bare loop around the same system call, on cached files.
//!
//! `cargo bench -p fstrial-engine` takes about ten seconds; without `--bench` (under `cargo test`) it runs for a
//! moment only, so that it cannot rot. What is compared alternates A B C C B A; a ratio above 1 means that the engine
//! took longer for each operation. The bare loops choose random blocks with a few instructions, look at the clock
//! once in a while to find the end, and record nothing; the clocked ones also read the clock once for each call.
#![expect(unsafe_code, reason = "the bare io_uring loop hands buffers to the kernel itself")]

use fstrial_engine::{Target, clock::Clock, measure_overhead, prepare};
use fstrial_model::{
    job::Load,
    units::{Bytes, Nanos, Percent},
    workload::{Backend, Data, Io, Pattern, Until},
};
use io_uring::{IoUring, opcode, types};
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::{error::Error, hint::black_box, io::Write, os::fd::AsRawFd, path::Path};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 4096;
const DEPTH: usize = 32;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let full = std::env::args().any(|argument| argument == "--bench");
    let (rounds, slice) = if full { (25, Nanos::millis(20)) } else { (1, Nanos::millis(5)) };
    let mut out = std::io::stdout().lock();
    writeln!(out, "{:?}", measure_overhead()?)?;
    writeln!(out, "random 4 KiB requests on a cached file, 1 thread, {rounds} rounds of ABCCBA")?;
    writeln!(
        out,
        "{:24} {:>10} {:>10} {:>10}   engine/bare [min max]    engine/bare+clock",
        "", "engine ns", "bare ns", "+clock ns"
    )?;
    // tmpfs cannot read without blocking, so io_uring would hand each request to a worker thread there.
    let (memory, disk) = (tempfile::tempdir_in("/dev/shm")?, tempfile::tempdir()?);
    for (name, backend, write, directory) in [
        ("pread, tmpfs", Backend::Sync, false, &memory),
        ("pwrite, tmpfs", Backend::Sync, true, &memory),
        ("pread, TMPDIR", Backend::Sync, false, &disk),
        ("io_uring qd 32, TMPDIR", Backend::IoUring, false, &disk),
    ] {
        let stand = Stand { write, directory: directory.path(), clock: Clock::best(), slice };
        let mut rows = Vec::new();
        stand.round(backend)?;
        for _ in 0..rounds {
            rows.push(stand.round(backend)?);
        }
        let column = |value: &dyn Fn(&[f64; 3]) -> f64| spread(rows.iter().map(value).collect());
        let (engine, bare, clocked) = (column(&|r| r[0]).1, column(&|r| r[1]).1, column(&|r| r[2]).1);
        let (low, ratio, high) = column(&|r| r[0] / r[1]);
        let (low_c, ratio_c, high_c) = column(&|r| r[0] / r[2]);
        writeln!(
            out,
            "{name:24} {engine:10.1} {bare:10.1} {clocked:10.1}   {ratio:.3} [{low:.3} {high:.3}]   {ratio_c:.3} [{low_c:.3} {high_c:.3}]"
        )?;
    }
    Ok(())
}

/// Lowest, median and highest.
fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let median = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
    (values[0], median, values[values.len() - 1])
}

struct Stand<'a> {
    write: bool,
    directory: &'a Path,
    clock: Clock,
    slice: Nanos,
}

impl Stand<'_> {
    /// Nanoseconds for each operation: engine, bare loop, bare loop with a clock. The better of two slices each: what
    /// disturbs one is the rest of the machine.
    fn round(&self, backend: Backend) -> Outcome<[f64; 3]> {
        let mut best = [f64::INFINITY; 3];
        for which in [0, 1, 2, 2, 1, 0] {
            let ns = match which {
                0 => self.engine(backend)?,
                _ => self.bare(backend, which == 2)?,
            };
            best[which] = best[which].min(ns);
        }
        Ok(best)
    }

    fn engine(&self, backend: Backend) -> Outcome<f64> {
        let directory = tempfile::tempdir_in(self.directory)?;
        let io = Io {
            reads: Percent(if self.write { 0.0 } else { 100.0 }),
            block_size: Bytes(BLOCK as u64),
            total_size: Bytes(BLOCKS * BLOCK as u64),
            depth: if backend == Backend::Sync { 1 } else { DEPTH as u16 },
            backend,
            ..Io::default()
        };
        let load = Load {
            pattern: Pattern::Io(io),
            set: "load".into(),
            until: Until::Time,
            threads: 1,
            warmup: Nanos::millis(5),
            duration: self.slice,
            seed: 1,
            data: Data::Random,
            handicap: Percent(0.0),
        };
        let result = prepare(&load, Target::Directory(directory.path()))?.run(&mut |_| {})?;
        assert_eq!(result.errors, 0, "{:?}", result.first_error);
        Ok(result.duration.0 as f64 / result.operations as f64)
    }

    fn bare(&self, backend: Backend, clocked: bool) -> Outcome<f64> {
        let file = tempfile::NamedTempFile::new_in(self.directory)?;
        // In large writes, as the engine does: they decide the size of the page cache's folios.
        let chunk = vec![7; 1 << 20];
        for _ in 0..BLOCKS * BLOCK as u64 / chunk.len() as u64 {
            file.as_file().write_all(&chunk)?;
        }
        file.as_file().sync_all()?;
        // A thread of its own, as in the engine: descriptors cost more in a process with several threads.
        std::thread::scope(|scope| {
            let bare = scope.spawn(|| match backend {
                Backend::IoUring => self.bare_uring(file.path(), clocked).map_err(|e| e.to_string()),
                _ => self.bare_sync(file.path(), clocked).map_err(|e| e.to_string()),
            });
            bare.join().expect("the bare loop does not panic")
        })
        .map_err(Into::into)
    }

    /// Runs `batch`, which says how many operations it did, until the slice is over.
    fn time(&self, mut batch: impl FnMut() -> Outcome<u64>) -> Outcome<f64> {
        let end = self.clock.ticks(self.slice.0);
        let (mut start, mut operations, mut warm) = (self.clock.now(), 0, false);
        loop {
            for _ in 0..8 {
                operations += batch()?;
            }
            let spent = self.clock.now() - start;
            if spent >= end {
                return Ok(self.clock.nanos(spent) as f64 / operations as f64);
            }
            if !warm && spent >= end / 20 {
                (start, operations, warm) = (self.clock.now(), 0, true);
            }
        }
    }

    fn bare_sync(&self, path: &Path, clocked: bool) -> Outcome<f64> {
        let fd = openat(CWD, path, OFlags::RDWR, Mode::empty())?;
        let (mut buffer, mut random) = (aligned(BLOCK), Random(1));
        self.time(|| {
            let got = if self.write {
                rustix::io::pwrite(&fd, buffer.as_mut_slice(), random.offset())?
            } else {
                rustix::io::pread(&fd, buffer.as_mut_slice(), random.offset())?
            };
            assert_eq!(got, BLOCK);
            if clocked {
                black_box(self.clock.now());
            }
            Ok(1)
        })
    }

    fn bare_uring(&self, path: &Path, clocked: bool) -> Outcome<f64> {
        let fd = openat(CWD, path, OFlags::RDWR, Mode::empty())?;
        let mut ring: IoUring = IoUring::builder()
            .setup_submit_all()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .setup_defer_taskrun()
            .build(DEPTH as u32)?;
        let mut memory = aligned(DEPTH * BLOCK);
        let base = memory.as_mut_slice().as_mut_ptr();
        ring.submitter().register_files(&[fd.as_raw_fd()])?;
        ring.submitter().register_ring_fd()?;
        let whole = libc::iovec { iov_base: base.cast(), iov_len: DEPTH * BLOCK };
        // SAFETY: the memory outlives the ring, which is dropped before it, and does not move.
        unsafe { ring.submitter().register_buffers(&[whole]) }?;
        let mut random = Random(1);
        let mut free: Vec<usize> = (0..DEPTH).collect();
        let result = self.time(|| {
            let mut done = 0;
            while let Some(slot) = free.pop() {
                let buffer = base.wrapping_add(slot * BLOCK);
                let read =
                    opcode::ReadFixed::new(types::Fixed(0), buffer, BLOCK as u32, 0).offset(random.offset());
                let entry = read.build().user_data(slot as u64);
                // SAFETY: the slot's part of the memory belongs to no other request until this one is complete.
                unsafe { ring.submission().push(&entry) }?;
            }
            ring.submit_and_wait(1)?;
            for completion in ring.completion() {
                assert_eq!(completion.result(), BLOCK as i32);
                free.push(completion.user_data() as usize);
                done += 1;
            }
            if clocked {
                black_box(self.clock.now());
            }
            Ok(done)
        });
        while free.len() < DEPTH {
            ring.submit_and_wait(1)?;
            free.extend(ring.completion().map(|completion| completion.user_data() as usize));
        }
        drop(ring);
        result
    }
}

/// Page-aligned memory.
struct Aligned(Vec<u8>, usize, usize);

fn aligned(len: usize) -> Aligned {
    let memory = vec![1; len + 4096];
    let start = memory.as_ptr().align_offset(4096);
    Aligned(memory, start, len)
}

impl Aligned {
    fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.0[self.1..self.1 + self.2]
    }
}

/// `xorshift64*`: a few instructions.
struct Random(u64);

impl Random {
    fn offset(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % BLOCKS * BLOCK as u64
    }
}
