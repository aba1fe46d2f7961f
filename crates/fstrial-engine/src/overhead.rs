//! Overhead of the instrument itself on this machine, for `fstrial doctor`: the clock, a record, the complete loop
//! around nothing, and the complete loop against a bare one around the same system call.

use crate::{
    EngineError,
    buffer::{Pages, Payload},
    clock::{Clock, ClockSource, Pace},
    drive::{Drive, Engine},
    error::layout,
    files::Files,
    generator::{Generator, Stream},
    recorder::{Lane, Recorder, Timeline},
    requests::{Geometry, Request, Requests},
    sync::Sync,
    timekeeper::Timekeeper,
};
use fstrial_model::{
    job::Load,
    measurement::LoadResult,
    units::{Bytes, Nanos, Percent},
    workload::{Data, Io, Pattern, SetName, Until},
};
use rustix::{
    fs::{MemfdFlags, ftruncate, memfd_create},
    io::{Errno, pread},
};
use serde::Serialize;
use std::hint::black_box;

/// Size of the file in memory that is read.
const FILE_SIZE: u64 = 16 << 20;
/// Time of each slice; slices of the compared loops alternate.
const SLICE: Nanos = Nanos::millis(25);
/// Longer than any loop that ends on its own.
const LONG: Nanos = Nanos::secs(7 * 24 * 3600);
/// Rounds of A B B A.
const ROUNDS: usize = 4;
/// Calls between two looks at the clock in a bare loop.
const BATCH: u64 = 64;

/// Overhead of the instrument, in nanoseconds for each operation unless stated otherwise.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Overhead {
    /// The clock in use.
    pub clock: ClockSource,
    /// One reading of the clock.
    pub clock_ns: f64,
    /// One record in a histogram.
    pub histogram_ns: f64,
    /// The complete loop (choose, read the clock, record, look for the end) around an operation that does nothing.
    pub loop_ns_per_op: f64,
    /// The complete loop around a `pread` of 4 KiB from a file in memory.
    pub pread_loop_ns_per_op: f64,
    /// The same call in a bare loop.
    pub bare_loop_ns_per_op: f64,
    /// The same call in a bare loop that also reads the clock after each.
    pub bare_clocked_loop_ns_per_op: f64,
    /// Median over rounds of the complete loop's time by the bare loop's: 1.02 is 2 % slower.
    pub ratio: f64,
    /// Median over rounds of the complete loop's time by the time of the bare loop with its clock.
    pub ratio_clocked: f64,
}

/// Measures the overhead of the instrument. Takes about half a second, and one processor.
///
/// # Errors
/// [`EngineError::Layout`] if the machine has no memory for a file of 16 MiB.
pub fn measure_overhead() -> Result<Overhead, EngineError> {
    let clock = Clock::best();
    let stand = Stand::new(clock)?;
    let mut rounds = Vec::with_capacity(ROUNDS);
    stand.engine_pread();
    stand.bare_pread(false);
    for _ in 0..ROUNDS {
        let first = [stand.engine_pread(), stand.bare_pread(false), stand.bare_pread(true)];
        let second = [stand.bare_pread(true), stand.bare_pread(false), stand.engine_pread()];
        rounds.push([
            f64::midpoint(first[0], second[2]),
            f64::midpoint(first[1], second[1]),
            f64::midpoint(first[2], second[0]),
        ]);
    }
    let of = |value: &dyn Fn(&[f64; 3]) -> f64| median(rounds.iter().map(value).collect());
    Ok(Overhead {
        clock: clock.source(),
        clock_ns: clock_ns(&clock),
        histogram_ns: histogram_ns(&clock),
        loop_ns_per_op: stand.null_loop(),
        pread_loop_ns_per_op: of(&|round| round[0]),
        bare_loop_ns_per_op: of(&|round| round[1]),
        bare_clocked_loop_ns_per_op: of(&|round| round[2]),
        ratio: of(&|round| round[0] / round[1]),
        ratio_clocked: of(&|round| round[0] / round[2]),
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
}

/// Nanoseconds of one call, over as many as fit in a slice.
fn time_each(clock: &Clock, mut call: impl FnMut()) -> f64 {
    let (start, slice) = (clock.now(), clock.ticks(SLICE.0));
    let mut calls = 0_u64;
    loop {
        (0..BATCH).for_each(|_| call());
        calls += BATCH;
        let spent = clock.now() - start;
        if spent >= slice {
            return clock.nanos(spent) as f64 / calls as f64;
        }
    }
}

fn clock_ns(clock: &Clock) -> f64 {
    time_each(clock, || {
        black_box(clock.now());
    })
}

fn histogram_ns(clock: &Clock) -> f64 {
    let timeline = Timeline::new(*clock, 0, Nanos(0), Nanos::secs(3600));
    let mut recorder = Recorder::new(timeline, &[Lane::READ_REQUEST]);
    recorder.tick(0);
    let mut generator = Generator::new(1, Stream::Layout);
    // Latencies as they come: most alike, none the same.
    let latencies: Vec<u64> = (0..1024).map(|_| 1000 + generator.below(1000)).collect();
    let mut next = latencies.iter().cycle();
    time_each(clock, || recorder.part(Lane::READ_REQUEST, black_box(*next.next().unwrap_or(&1))))
}

/// An engine that does nothing, immediately, as often as requested; then it only fails.
struct Nothing {
    bytes: usize,
    left: u64,
}

impl Engine for Nothing {
    const WAITS_BY: &'static str = "nothing";

    #[inline]
    fn push(&mut self, _: usize, request: &Request) {
        black_box((request.file, request.offset, request.write));
    }
    #[inline]
    fn wait(&mut self, _: Option<Nanos>) -> Result<(), Errno> {
        Ok(())
    }
    #[inline]
    fn reap(&mut self, mut done: impl FnMut(usize, Result<usize, Errno>)) {
        let left = self.left.checked_sub(1);
        self.left = left.unwrap_or(0);
        done(0, if left.is_some() { Ok(self.bytes) } else { Err(Errno::CANCELED) });
    }
}

/// Runs the complete loop around an operation that does nothing until `operations` are recorded, each with its latency.
/// For anyone who counts instructions or memory: nothing but the loop itself depends on the number.
///
/// The loop ends by errors, as that of a failing device does; they are in the result.
pub fn loop_around_nothing(operations: u64) -> LoadResult {
    let files = Files { fds: Vec::new(), paths: vec!["nothing".into()] };
    let stand = Stand::on(Clock::best(), files, LONG);
    stand.complete_loop(Nothing { bytes: stand.io.block_size.0 as usize, left: operations })
}

/// Overhead of the complete loop (choose, read the clock, record, check for the end) around an operation that does
/// nothing, in nanoseconds. Takes 25 ms, and one processor: little enough for every trial.
pub fn loop_cost_ns() -> f64 {
    let files = Files { fds: Vec::new(), paths: vec!["nothing".into()] };
    Stand::on(Clock::best(), files, SLICE).null_loop()
}

/// A file in memory, and the load on it.
struct Stand {
    clock: Clock,
    files: Files,
    io: Io,
    load: Load,
}

impl Stand {
    fn new(clock: Clock) -> Result<Self, EngineError> {
        let path = "a file in memory";
        let fd = memfd_create("fstrial-overhead", MemfdFlags::CLOEXEC)
            .map_err(|errno| layout("make", path, errno))?;
        ftruncate(&fd, FILE_SIZE).map_err(|errno| layout("extend", path, errno))?;
        let chunk = vec![1_u8; 1 << 20];
        for n in 0..FILE_SIZE >> 20 {
            rustix::io::pwrite(&fd, &chunk, n << 20).map_err(|errno| layout("write", path, errno))?;
        }
        Ok(Self::on(clock, Files { fds: vec![fd], paths: vec![path.into()] }, SLICE))
    }

    /// Random reads of the first of `files`.
    fn on(clock: Clock, files: Files, duration: Nanos) -> Self {
        let io = Io {
            reads: Percent(100.0),
            block_size: Bytes::kib(4),
            total_size: Bytes(FILE_SIZE),
            ..Io::default()
        };
        let load = Load {
            pattern: Pattern::Io(io.clone()),
            set: SetName::load(),
            until: Until::Time,
            threads: 1,
            warmup: Nanos(0),
            duration,
            seed: 1,
            data: Data::Zero,
            rate: None,
            handicap: Percent(0.0),
        };
        Self { clock, files, io, load }
    }

    fn complete_loop(&self, engine: impl Engine) -> LoadResult {
        let timeline = Timeline::new(self.clock, 0, self.load.warmup, self.load.duration);
        let recorder = Recorder::new(timeline, &[Lane::READ_REQUEST]);
        let requests = Requests::new(&self.load, &self.io, Geometry::on_files(&self.io, 1, 0), 0);
        let drive = Drive::new(
            engine,
            &self.io,
            requests.into(),
            &self.files,
            Timekeeper::new(recorder, Pace::new(self.clock, self.load.handicap)),
        );
        Recorder::merge(vec![drive.run(self.clock.now())])
    }

    /// Nanoseconds of one operation in the complete loop.
    fn time_complete_loop(&self, engine: impl Engine) -> f64 {
        let result = self.complete_loop(engine);
        result.duration.0 as f64 / result.operations.max(1) as f64
    }

    fn null_loop(&self) -> f64 {
        self.time_complete_loop(Nothing { bytes: self.io.block_size.0 as usize, left: u64::MAX })
    }

    fn engine_pread(&self) -> f64 {
        let len = self.io.block_size.0 as usize;
        let payload = Payload::new(Data::Zero, 1, len, Generator::new(1, Stream::Payload(0)));
        self.time_complete_loop(Sync::new(&self.files, payload, len))
    }

    /// Nanoseconds of one call in a loop that does nothing else but choose its block, and read the clock if wanted.
    fn bare_pread(&self, clocked: bool) -> f64 {
        let (fd, len) = (&self.files.fds[0], self.io.block_size.0);
        let mut buffer = Pages::new(len as usize);
        buffer.as_mut_slice().fill(1);
        let mut generator = Generator::new(1, Stream::Requests(0));
        let mut read = || {
            let offset = generator.below(FILE_SIZE / len) * len;
            let _: Result<_, Errno> = black_box(pread(fd, buffer.as_mut_slice(), offset));
        };
        if clocked {
            time_each(&self.clock, || {
                read();
                black_box(self.clock.now());
            })
        } else {
            time_each(&self.clock, read)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overhead_is_measured_and_plausible() {
        let overhead = measure_overhead().unwrap();
        for ns in [
            overhead.clock_ns,
            overhead.histogram_ns,
            overhead.loop_ns_per_op,
            overhead.pread_loop_ns_per_op,
            overhead.bare_loop_ns_per_op,
            overhead.bare_clocked_loop_ns_per_op,
        ] {
            assert!((0.2..100_000.0).contains(&ns), "{overhead:?}");
        }
        assert!(overhead.pread_loop_ns_per_op > overhead.loop_ns_per_op, "{overhead:?}");
        assert!((0.3..5.0).contains(&overhead.ratio), "{overhead:?}");
    }

    #[test]
    fn median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
