//! Building blocks of the tests' loads.

use crate::{
    Target,
    buffer::Payload,
    clock::Clock,
    drive::Engine,
    files::Files,
    generator::{Generator, Stream},
    patterns::{PreparedThreads, Thread},
    prepare,
    recorder::{Recorder, Timeline},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use fstrial_model::{
    job::Load,
    measurement::{LoadResult, OperationKind},
    units::{Bytes, Nanos, Percent},
    workload::{Data, FileSet, FileStep, Io, Pattern, SetName, SyncCall, Until},
};
use hdrhistogram::{Histogram, serialization::Deserializer};
use rustix::{
    fs::{MemfdFlags, ftruncate, memfd_create},
    io::Errno,
    pipe::pipe,
};
use std::{cell::Cell, collections::BTreeMap, os::fd::OwnedFd, path::Path};

thread_local! {
    /// Nanoseconds since an arbitrary origin on this thread, if a test made its time virtual.
    static VIRTUAL: Cell<Option<u64>> = const { Cell::new(None) };
}

/// One reading of the virtual clock takes this long, so that a polling loop advances.
const LOOK_NS: u64 = 100;
/// A virtual sleeper wakes up this much late.
const LATE_NS: u64 = 30_000;

/// Virtual time on this thread for as long as it lives: [`Clock::monotonic`](crate::clock::Clock::monotonic) reads it,
/// sleeping takes none of the real one.
pub(crate) struct VirtualTime;

impl VirtualTime {
    pub(crate) fn start() -> Self {
        VIRTUAL.set(Some(1_000_000_000));
        Self
    }
}

impl Drop for VirtualTime {
    fn drop(&mut self) {
        VIRTUAL.set(None);
    }
}

/// The virtual time, if there is one.
pub(crate) fn virtual_ns() -> Option<u64> {
    VIRTUAL.set(VIRTUAL.get().map(|now| now + LOOK_NS));
    VIRTUAL.get()
}

/// Lets virtual time pass.
pub(crate) fn pass_ns(ns: u64) {
    VIRTUAL.set(VIRTUAL.get().map(|now| now + ns));
}

/// Sleeps if time is virtual.
pub(crate) fn virtual_sleep(ns: u64) -> bool {
    pass_ns(ns + LATE_NS);
    VIRTUAL.get().is_some()
}

/// A file in memory, full of zeros.
pub(crate) fn memory_file(size: u64) -> Files {
    let fd = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&fd, size).unwrap();
    Files { fds: vec![fd], paths: vec!["memfd".into()] }
}

/// The end of an empty pipe that is read, as a file, and the end that is written.
pub(crate) fn pipe_file() -> (Files, OwnedFd) {
    let (reader, writer) = pipe().unwrap();
    (Files { fds: vec![reader], paths: vec!["pipe".into()] }, writer)
}

/// Random bytes to write, always the same: `slots` of `len` bytes.
pub(crate) fn payload(slots: usize, len: usize) -> Payload {
    Payload::new(Data::Random, slots, len, Generator::new(1, Stream::Payload(0)))
}

/// An engine's unreported completions: slots and their results.
pub(crate) fn reaped(engine: &mut impl Engine) -> Vec<(usize, Result<usize, Errno>)> {
    let mut results = Vec::new();
    engine.reap(|slot, result| results.push((slot, result)));
    results
}

/// Half reads, half writes at random in one shared file of 16 MiB, cached, one at a time.
pub(crate) fn io() -> Io {
    Io {
        reads: Percent(50.0),
        block_size: Bytes::kib(4),
        total_size: Bytes::mib(16),
        fsync: SyncCall::Fsync,
        ..Io::default()
    }
}

/// A short load of requests.
pub(crate) fn load_of(io: Io, threads: u16) -> Load {
    Load {
        pattern: Pattern::Io(io),
        set: SetName::load(),
        until: Until::Time,
        threads,
        warmup: Nanos::millis(20),
        duration: Nanos::millis(60),
        seed: 1,
        data: Data::Random,
        rate: None,
        handicap: Percent(0.0),
    }
}

/// A short load on file sets.
pub(crate) fn file_set_of(files: u32, size: u64, steps: &[FileStep], threads: u16) -> Load {
    let set = FileSet { files, file_size: Bytes(size), steps: steps.to_vec() };
    Load { pattern: Pattern::Files(set), ..load_of(io(), threads) }
}

/// Reads a histogram back as any other program would.
pub(crate) fn decode(text: &str) -> Histogram<u64> {
    let bytes = STANDARD.decode(text).unwrap();
    Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap()
}

/// A load that ends when its amount is done.
pub(crate) fn load_to_end(pattern: Pattern, threads: u16) -> Load {
    Load { pattern, warmup: Nanos(0), duration: Nanos::secs(3600), ..load_of(io(), threads) }
}

/// Runs a program in a directory until each thread has done its amount.
pub(crate) fn run_to_end(load: &Load, directory: &Path) -> LoadResult {
    let work = prepare(load, Target::Directory(directory)).unwrap().groups.remove(0).1;
    run_work(load, work)
}

/// Runs programs that are laid out.
pub(crate) fn run_work(load: &Load, mut work: PreparedThreads) -> LoadResult {
    let clock = Clock::best();
    let ready = std::sync::Barrier::new(work.len());
    let recorders = std::thread::scope(|scope| {
        let ready = &ready;
        let threads: Vec<_> = work
            .iter_mut()
            .enumerate()
            .map(|(number, work)| {
                let timeline = Timeline::new(clock, 0, load.warmup, load.duration);
                scope.spawn(move || {
                    let run = work.ready(&Thread { number, load, clock, timeline }).unwrap();
                    ready.wait();
                    run(clock.now())
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    Recorder::merge(recorders)
}

/// Latencies of a kind.
pub(crate) fn count(result: &LoadResult, kind: OperationKind) -> u64 {
    result.histograms.get(&kind).map_or(0, |text| decode(text).len())
}

/// A directory in memory: tests take the device out of it.
pub(crate) fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Every file below a directory, by its path in it, with its size; directories end with a slash.
pub(crate) fn files_below(directory: &Path) -> BTreeMap<String, u64> {
    let mut files = BTreeMap::new();
    let mut left = vec![directory.to_path_buf()];
    while let Some(next) = left.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let entry = entry.unwrap();
            let path = entry.path().strip_prefix(directory).unwrap().display().to_string();
            let about = entry.metadata().unwrap();
            if about.is_dir() {
                left.push(entry.path());
                files.insert(format!("{path}/"), 0);
            } else {
                files.insert(path, about.len());
            }
        }
    }
    files
}
