//! Common invariants of all backends: the bytes, the syncs, the flags and the layouts.

use crate::{
    EngineError, Target,
    aio::Aio,
    buffer::Payload,
    clock::{Clock, Pace},
    drive::{Drive, Engine, Memory, lanes},
    files::Files,
    mmap::Mmap,
    prepare,
    recorder::{Recorder, Timeline},
    requests::{Geometry, Request, Requests},
    sync::Sync,
    testing::{files_below, io, load_of, load_to_end, memory_file, payload, reaped},
    tests::{TinyMount, count, directory, engines, kinds, on_path, run, run_in, skipped},
    timekeeper::Timekeeper,
    uring::Uring,
    vsync::Vsync,
};
use fstrial_model::{
    job::Load,
    measurement::OperationKind,
    units::{Bytes, Nanos, Percent},
    workload::{Access, Backend, Data, FsyncCounts, Io, Layout, OpenSync, Pattern, Sharing, SyncCall, Until},
};
use proptest::prelude::*;
use rustix::{
    fs::{OFlags, fcntl_getfl},
    io::Errno,
};
use std::{
    cell::RefCell,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::Path,
};

/// Blocks of the file in memory that engines are tested on.
const BLOCKS: u64 = 16;

/// The file's content by the slow way, and the requests in flight.
struct Model {
    len: usize,
    image: Vec<u8>,
    /// Makes the same bytes as the engine's payload.
    mirror: Payload,
    free: Vec<usize>,
    in_flight: Vec<(usize, Request, Vec<u8>)>,
}

impl Model {
    fn new(len: usize, depth: usize) -> Self {
        let (image, mirror) = (vec![0; len * BLOCKS as usize], payload(depth, len));
        Self { len, image, mirror, free: (0..depth).rev().collect(), in_flight: Vec::new() }
    }

    /// Makes requests of blocks, never two of one block concurrently, and compares every byte read.
    fn drive(&mut self, engine: &mut (impl Engine + Memory), requests: &[(bool, u64)]) {
        for (write, block) in requests {
            let request = Request {
                write: *write,
                offset: block * self.len as u64,
                len: self.len as u32,
                ..Request::default()
            };
            while self.free.is_empty() || self.in_flight.iter().any(|(_, r, _)| r.offset == request.offset) {
                self.complete(engine);
            }
            let slot = self.free.pop().unwrap();
            let range = if *write { self.mirror.take(slot, self.len) } else { 0..0 };
            let bytes = self.mirror.bytes()[range].to_vec();
            engine.push(slot, &request);
            self.in_flight.push((slot, request, bytes));
            if engine.is_ready() {
                self.complete(engine);
            }
        }
        while !self.in_flight.is_empty() {
            self.complete(engine);
        }
    }

    fn complete(&mut self, engine: &mut (impl Engine + Memory)) {
        engine.wait(None).unwrap();
        for (slot, result) in reaped(engine) {
            assert_eq!(result, Ok(self.len));
            let at = self.in_flight.iter().position(|(s, ..)| *s == slot).expect("was in flight");
            let (_, request, bytes) = self.in_flight.swap_remove(at);
            let place = request.offset as usize..request.offset as usize + self.len;
            if request.write {
                self.image[place].copy_from_slice(&bytes);
            } else {
                assert!(engine.last_read(slot)[..self.len] == self.image[place], "what was written is read");
            }
            self.free.push(slot);
        }
    }
}

/// Runs requests through the backend of `io` and compares its reads, and the file, with the model.
fn compare(io: &Io, requests: &[(bool, u64)]) {
    let (len, depth) = (io.block_size.0 as usize, usize::from(io.depth));
    let size = BLOCKS * len as u64;
    let files = memory_file(size);
    let (mut model, data) = (Model::new(len, depth), payload(depth, len));
    match io.backend {
        Backend::Sync => model.drive(&mut Sync::new(&files, data, len), requests),
        Backend::Vsync => model.drive(&mut Vsync::new(&files, data, len, io.depth), requests),
        Backend::Aio => model.drive(&mut Aio::new(&files, data, len, io.depth).unwrap(), requests),
        Backend::IoUring => model.drive(&mut Uring::new(&files, data, len, io).unwrap(), requests),
        Backend::Mmap => model.drive(&mut Mmap::new(&files, data, len, size).unwrap(), requests),
    }
    let mut bytes = vec![0; size as usize + 1];
    assert_eq!(rustix::io::pread(&files.fds[0], &mut bytes, 0).unwrap() as u64, size, "the size is kept");
    assert!(bytes[..size as usize] == model.image, "{io:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn requests_read_and_write_correct_offsets(
        len in prop::sample::select(vec![1_u64, 7, 512, 4096, 5000, 20_000]),
        requests in prop::collection::vec((any::<bool>(), 0..BLOCKS), 1..80),
    ) {
        for io in engines(&Io { block_size: Bytes(len), ..io() }) {
            compare(&io, &requests);
        }
    }

    #[test]
    fn adjacent_requests_use_correct_offsets(
        writes: bool,
        starts in prop::collection::vec((0..BLOCKS, 1..BLOCKS), 1..10),
    ) {
        let in_order = |(start, n): &(u64, u64)| (*start..(start + n).min(BLOCKS)).map(|block| (writes, block)).collect::<Vec<_>>();
        let requests: Vec<_> = starts.iter().flat_map(in_order).collect();
        for io in engines(&Io { block_size: Bytes(1000), ..io() }) {
            compare(&io, &requests);
        }
    }
}

/// Calls received by an engine, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EngineCall {
    Read,
    Write,
    Sync(usize),
}

/// Does nothing, completes the oldest request at each wait, and records its calls.
struct Listener<'a> {
    len: usize,
    in_flight: std::collections::VecDeque<usize>,
    reported: &'a RefCell<Vec<EngineCall>>,
}

impl Listener<'_> {
    fn reported(&self, what: EngineCall) {
        self.reported.borrow_mut().push(what);
    }
}

impl Engine for Listener<'_> {
    const WAITS_BY: &'static str = "nothing";

    fn push(&mut self, slot: usize, request: &Request) {
        self.reported(if request.write { EngineCall::Write } else { EngineCall::Read });
        self.in_flight.push_back(slot);
    }

    fn wait(&mut self, _: Option<Nanos>) -> Result<(), Errno> {
        Ok(())
    }

    fn reap(&mut self, mut done: impl FnMut(usize, Result<usize, Errno>)) {
        self.in_flight.pop_front().into_iter().for_each(|slot| done(slot, Ok(self.len)));
    }

    fn sync(&mut self, file: usize, _: &OwnedFd, _: SyncCall) -> (&'static str, Result<(), Errno>) {
        assert!(self.in_flight.is_empty(), "nothing is in flight at a sync");
        self.reported(EngineCall::Sync(file));
        ("sync", Ok(()))
    }
}

/// The calls of a moment of such a load to a backend.
fn reported(io: &Io) -> Vec<EngineCall> {
    let reported = RefCell::new(Vec::new());
    let (clock, load) = (Clock::best(), load_of(io.clone(), 1));
    let timeline = Timeline::new(clock, 0, Nanos(0), Nanos::millis(20));
    let files = Files {
        fds: (0..io.files).flat_map(|_| memory_file(0).fds).collect(),
        paths: (0..io.files).map(|n| format!("file {n}").into()).collect(),
    };
    let listener = Listener {
        len: io.block_size.0 as usize,
        in_flight: std::collections::VecDeque::new(),
        reported: &reported,
    };
    let requests = Requests::new(&load, io, Geometry::on_files(io, 1, 0), 0);
    let recorder = Recorder::new(timeline, &lanes(io, Until::Time));
    let time = Timekeeper::new(recorder, Pace::new(clock, Percent(0.0)));
    Drive::new(listener, io, requests.into(), &files, time).run(clock.now());
    reported.into_inner()
}

/// sysbench's rule, as its generator has it: before each request, if something was written since the last series and
/// the number of requests is a multiple of the frequency, every file is synced in order.
fn sysbench_series(requests: &[EngineCall], every: usize, files: usize) -> Vec<EngineCall> {
    let (mut reported, mut dirty) = (Vec::new(), false);
    for (n, request) in requests.iter().enumerate() {
        if dirty && n % every == 0 {
            reported.extend((0..files).map(EngineCall::Sync));
            dirty = false;
        }
        dirty |= *request == EngineCall::Write;
        reported.push(*request);
    }
    reported
}

fn sysbench(every: u32, files: u32, depth: u16) -> Io {
    Io {
        reads: Percent(0.0),
        files,
        depth,
        backend: Backend::IoUring,
        fsync_every: every,
        fsync_all_files: true,
        fsync_counts: FsyncCounts::Requests,
        fsync_at_end: true,
        ..io()
    }
}

#[test]
fn call_order_matches_sysbench() {
    // sysbench 1.0.20, traced: --file-test-mode=rndwr --file-num=2 --file-fsync-freq=5 --events=12.
    let reported = reported(&sysbench(5, 2, 1));
    let write = [EngineCall::Write; 5];
    let expected: Vec<EngineCall> =
        [&write[..], &[EngineCall::Sync(0), EngineCall::Sync(1)], &write[..]].concat();
    assert_eq!(reported[..12], expected);
    assert!(reported.ends_with(&[EngineCall::Sync(0), EngineCall::Sync(1)]), "and at the end again");
}

#[test]
fn series_follow_sysbench_at_any_mix_and_depth() {
    for (reads, every, files, depth) in
        [(0.0, 1, 1, 1), (60.0, 3, 2, 1), (90.0, 4, 3, 8), (99.0, 2, 5, 1), (50.0, 100, 7, 16)]
    {
        let io = Io { reads: Percent(reads), ..sysbench(every, files, depth) };
        let mut reported = reported(&io);
        reported.truncate(reported.len() - files as usize);
        let requests: Vec<_> =
            reported.iter().copied().filter(|what| !matches!(what, EngineCall::Sync(_))).collect();
        assert!(requests.len() > 300, "{}", requests.len());
        let expected = sysbench_series(&requests, every as usize, files as usize);
        // The time may be over between the request that makes a series due and the series, or right after it.
        let both = reported.len().min(expected.len());
        assert!(reported.len() - both <= files as usize && expected.len() - both <= files as usize);
        assert_eq!(reported[..both], expected[..both], "{io:?}");
    }
}

#[test]
fn threads_of_one_cursor_count_together_on_every_backend() {
    let base = Io { backend: Backend::Sync, reads: Percent(40.0), ..sysbench(10, 3, 1) };
    for io in engines(&Io { sharing: Sharing::Cursor, ..base }) {
        let result = run(&load_of(io.clone(), 3));
        assert_eq!(result.first_error, None, "{io:?}");
        let of = |kind| count(&result, kind);
        assert_eq!(of(OperationKind::READ) + of(OperationKind::WRITE), result.operations);
        let (syncs, expected) = (of(OperationKind::FSYNC), result.operations / 10 * 3);
        // Requests in flight at either end of the time belong to no side; ten requests may all be reads (0.4^10).
        let slack = 6 + 3 * u64::from(io.depth) + expected / 100;
        assert!(syncs.abs_diff(expected) <= slack, "{io:?}: {syncs} syncs, not {expected}");
    }
}

#[test]
fn threads_of_one_cursor_fill_the_files_once_on_every_backend() {
    let base = Io { backend: Backend::Sync, files: 3, total_size: Bytes::kib(960), ..io() };
    let base = Io { access: Access::Extend, sharing: Sharing::Cursor, reads: Percent(0.0), ..base };
    for io in engines(&base).into_iter().filter(|io| io.backend != Backend::Mmap) {
        let directory = directory();
        let load = Load { until: Until::Done, ..load_to_end(Pattern::Io(io.clone()), 4) };
        let result = prepare(&load, Target::Directory(directory.path())).unwrap().run(&mut |_| {}).unwrap();
        assert_eq!((result.operations, result.errors), (240, 0), "{io:?}: {:?}", result.first_error);
        let sizes: Vec<u64> = files_below(directory.path()).into_values().collect();
        assert_eq!(sizes, [320 << 10; 3], "{io:?}");
    }
}

#[test]
fn read_only_loads_never_sync() {
    let reported = reported(&Io { reads: Percent(100.0), ..sysbench(1, 2, 1) });
    assert!(reported.len() > 100 && reported.iter().all(|what| *what == EngineCall::Read));
}

#[test]
fn series_are_recorded_by_themselves() {
    let base = Io { backend: Backend::Sync, reads: Percent(40.0), ..sysbench(10, 3, 1) };
    for io in engines(&base) {
        let result = run(&load_of(io.clone(), 1));
        assert_eq!(result.first_error, None, "{io:?}");
        let of = |kind| count(&result, kind);
        assert_eq!(of(OperationKind::READ) + of(OperationKind::WRITE), result.operations);
        let (syncs, expected) = (of(OperationKind::FSYNC), result.operations / 10 * 3);
        // One series may be cut at each end of the time; ten requests may all be reads (0.4^10).
        assert!(syncs.abs_diff(expected) <= 6 + expected / 100, "{io:?}: {syncs} syncs, not {expected}");
    }
}

#[test]
fn writes_can_owe_a_sync_of_all_files() {
    for io in engines(&Io { reads: Percent(0.0), files: 5, fsync_every: 4, fsync_all_files: true, ..io() }) {
        let result = run(&load_of(io, 1));
        assert_eq!(result.first_error, None);
        let (syncs, expected) = (count(&result, OperationKind::FSYNC), result.operations / 4 * 5);
        assert!(syncs.abs_diff(expected) <= 10, "{syncs} syncs, not {expected}");
        assert!(kinds(&result).contains(&OperationKind::WRITE));
    }
}

#[test]
fn every_sync_call_runs_on_every_backend() {
    for fsync in [SyncCall::Fsync, SyncCall::Fdatasync, SyncCall::SyncFileRange] {
        for io in engines(&Io { reads: Percent(0.0), fsync, fsync_every: 3, ..io() }) {
            let result = run(&load_of(io, 2));
            assert_eq!(result.first_error, None);
            assert!(count(&result, OperationKind::FSYNC) > 0);
        }
    }
}

#[test]
fn a_failed_sync_at_the_end_is_an_error_of_the_run() {
    // A write to /dev/null succeeds; it has no fsync.
    let mut engines = engines(&Io { reads: Percent(0.0), fsync_at_end: true, ..io() });
    engines.retain(|io| io.backend != Backend::Mmap);
    for io in engines {
        let result = on_path(&io, "/dev/null").run(&mut |_| {}).unwrap();
        assert!(result.operations > 0);
        assert_eq!(result.errors, 2, "one for each thread: {io:?}");
        assert!(result.first_error.unwrap().starts_with("fsync /dev/null: "));
        assert_eq!(result.histograms.get(&OperationKind::FSYNC), None);
    }
}

#[test]
fn files_are_open_as_the_load_wants() {
    for (open_sync, direct) in
        [(OpenSync::None, false), (OpenSync::Sync, false), (OpenSync::Dsync, false), (OpenSync::Dsync, true)]
    {
        for io in engines(&Io { open_sync, direct, reads: Percent(0.0), ..io() }) {
            let directory = directory();
            let load = load_of(io, 2);
            let prepared = prepare(&load, Target::Directory(directory.path())).unwrap();
            for thread in &prepared.groups[0].1 {
                let flags = fcntl_getfl(thread.descriptors().unwrap()[0]).unwrap();
                // O_SYNC is the bit of O_DSYNC and one more.
                let synced = match open_sync {
                    OpenSync::None => 0,
                    OpenSync::Sync => libc::O_SYNC,
                    OpenSync::Dsync => libc::O_DSYNC,
                };
                let got = flags.bits() & libc::O_SYNC.cast_unsigned();
                assert_eq!(got, synced.cast_unsigned(), "{open_sync:?}");
                assert_eq!(flags.contains(OFlags::DIRECT), direct, "{flags:?}");
            }
            let result = prepared.run(&mut |_| {}).unwrap();
            assert_eq!(result.first_error, None);
            assert!(result.operations > 0);
        }
    }
}

/// The only file of a directory: its size, the bytes it takes, and whether all of it reads as zero.
fn only_file(directory: &Path) -> (u64, u64, bool) {
    let path = directory.join("load-0000-0000.dat");
    let stat = std::fs::metadata(&path).unwrap();
    (stat.len(), stat.blocks() * 512, std::fs::read(path).unwrap().iter().all(|byte| *byte == 0))
}

#[test]
fn files_are_laid_out_as_the_load_wants() {
    const MIB: u64 = 1 << 20;
    // One in memory, one on a disk filesystem where TMPDIR is on one.
    for directory in [directory, || tempfile::tempdir().unwrap()] {
        for (layout, size, taken, zero) in [
            (Layout::Written, MIB, MIB..2 * MIB, false),
            (Layout::Fallocated, MIB, MIB..2 * MIB, true),
            (Layout::Sparse, MIB, 0..64 << 10, true),
            (Layout::Empty, 0, 0..64 << 10, true),
        ] {
            let base =
                Io { layout, total_size: Bytes(MIB), reads: Percent(0.0), requests: Some(100), ..io() };
            for io in engines(&base) {
                let directory = directory();
                let (until, duration) = (Until::Done, Nanos::secs(60));
                let plain = load_of(io.clone(), 1);
                let load = Load { data: Data::RepeatedWord, until, duration, warmup: Nanos(0), ..plain };
                let prepared = match prepare(&load, Target::Directory(directory.path())) {
                    Err(error @ EngineError::FallocateUnsupported { .. }) => {
                        skipped(&error.to_string());
                        continue;
                    }
                    prepared => prepared.unwrap(),
                };
                let (got_size, got_taken, got_zero) = only_file(directory.path());
                assert_eq!((got_size, got_zero), (size, zero), "{io:?}");
                assert!(taken.contains(&got_taken), "{layout:?} takes {got_taken}");
                let result = prepared.run(&mut |_| {}).unwrap();
                assert_eq!(result.first_error, None, "{io:?}");
                let (got_size, _, got_zero) = only_file(directory.path());
                assert!(result.operations == 100 && got_size <= MIB && !got_zero);
            }
        }
    }
}

#[test]
fn an_empty_file_grows_in_order_and_is_overwritten_then() {
    let base = Io {
        layout: Layout::Empty,
        access: Access::Sequential,
        total_size: Bytes::kib(64),
        reads: Percent(0.0),
        ..io()
    };
    for io in engines(&base) {
        let directory = directory();
        let result = run_in(&load_of(io, 1), directory.path());
        assert!(result.operations > 100, "many laps of 16 blocks");
        assert_eq!(only_file(directory.path()).0, 64 << 10);
    }
}

#[test]
fn impossible_layouts_are_refused() {
    let refused = |io: Io, directory: &Path| {
        let error = prepare(&load_of(io, 1), Target::Directory(directory)).unwrap_err();
        assert!(error.is_refusal() && error.hint().is_some(), "{error}");
        error
    };
    let fallocated = Io { layout: Layout::Fallocated, reads: Percent(0.0), ..io() };
    if let Some(full) = TinyMount::new() {
        let error = refused(fallocated.clone(), full.0.path());
        assert!(matches!(error, EngineError::NoSpace { .. }), "{error}");
    }
    if let Some(mount) = TinyMount::of("ramfs") {
        let error = refused(fallocated, mount.0.path());
        assert!(matches!(error, EngineError::FallocateUnsupported { .. }), "{error}");
    }
}

#[test]
fn a_full_device_is_an_outcome_on_every_backend() {
    for io in engines(&Io { layout: Layout::Sparse, reads: Percent(0.0), ..io() }) {
        let Some(mount) = TinyMount::new() else { return };
        let load = Load { warmup: Nanos(0), ..load_of(io.clone(), 2) };
        let result = run_in(&load, mount.0.path());
        assert!(result.operations > 0);
        assert_eq!(result.errors, 32, "16 for each thread");
        let words = if io.backend == Backend::Mmap { "Input/output error" } else { "No space left" };
        assert!(result.first_error.as_ref().unwrap().contains(words), "{io:?} {:?}", result.first_error);
    }
}

#[test]
fn requests_of_one_byte_run_on_every_backend() {
    for access in [Access::Sequential, Access::Random] {
        let base = Io {
            access,
            block_size: Bytes(1),
            total_size: Bytes(100_000),
            sharing: Sharing::PerThread,
            ..io()
        };
        for io in engines(&base) {
            let result = run(&load_of(io, 2));
            assert_eq!(result.first_error, None);
            assert!(result.operations > 100 && result.bytes == result.operations);
        }
    }
}
