//! Whole runs. Properties of requests are tested with every backend.

use crate::{
    EngineError, Moment, PreparedPhase, Site, Target,
    clock::Clock,
    files::Files,
    patterns::{IoThread, PreparedThread},
    prepare,
    requests::Geometry,
    testing::{decode, file_set_of, io, load_of},
};
use fstrial_model::{
    job::Load,
    measurement::{ClockSource, LoadResult, OperationKind},
    units::{Bytes, Nanos, Percent},
    workload::{Access, Backend, Data, Distribution, FileStep, Io, Mix, Pattern, Sharing, SyncCall, Until},
};
use rustix::fs::{CWD, MemfdFlags, Mode, OFlags, memfd_create, openat};
use std::{collections::BTreeSet, path::Path};

/// Every backend that can do such a load, with the depths to test it at.
pub(crate) fn engines(io: &Io) -> Vec<Io> {
    let all = [
        (Backend::Sync, 1),
        (Backend::Vsync, 1),
        (Backend::Vsync, 16),
        (Backend::Aio, 1),
        (Backend::Aio, 16),
        (Backend::IoUring, 1),
        (Backend::IoUring, 16),
        (Backend::Mmap, 1),
    ];
    let possible = all
        .map(|(backend, depth)| Io { backend, depth, ..io.clone() })
        .into_iter()
        .filter(|io| io.conflict().is_none());
    let engines: Vec<Io> = possible.collect();
    let maps = engines.iter().filter(|io| io.backend == Backend::Mmap).count();
    assert_eq!(engines.len() - maps, 7, "only maps cannot do everything");
    engines
}

/// A directory in memory: tests take the device out of it.
pub(crate) fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub(crate) fn run_in(load: &Load, directory: &Path) -> LoadResult {
    let mut moments = Vec::new();
    let prepared = prepare(load, Target::Directory(directory)).unwrap();
    let result = prepared.run(&mut |moment| moments.push(moment)).unwrap();
    assert_eq!(moments, [Moment::Ready, Moment::TimedStart, Moment::TimedEnd]);
    check_sums(load, &result);
    result
}

pub(crate) fn run(load: &Load) -> LoadResult {
    run_in(load, directory().path())
}

/// Invariants of every result.
fn check_sums(load: &Load, result: &LoadResult) {
    assert_eq!(result.duration, load.duration);
    assert_eq!(result.windows.len(), if load.duration.0 < 500_000_000 { 10 } else { 20 });
    assert_eq!(result.steady_windows.len(), 40);
    assert_eq!(result.series_step, Nanos::millis(100));
    assert_eq!(result.windows.iter().sum::<u64>(), result.operations);
    assert_eq!(result.series.iter().sum::<u64>(), result.steady_windows.iter().sum::<u64>());
    assert!(result.series.iter().sum::<u64>() >= result.operations);
    assert_eq!(count(result, OperationKind::OPERATION), result.operations);
    assert_eq!(result.errors == 0, result.first_error.is_none());
    let cpu = result.cpu_user.0 + result.cpu_system.0;
    assert!(cpu <= u64::from(load.threads) * (load.duration.0 + 50_000_000), "{cpu}");
}

pub(crate) fn count(result: &LoadResult, kind: OperationKind) -> u64 {
    result.histograms.get(&kind).map_or(0, |text| decode(text).len())
}

pub(crate) fn kinds(result: &LoadResult) -> Vec<OperationKind> {
    result.histograms.keys().cloned().collect()
}

#[test]
fn mixed_requests_are_counted_once_and_by_kind() {
    for io in engines(&io()) {
        let result = run(&load_of(io.clone(), 2));
        assert_eq!(result.first_error, None, "{io:?}");
        assert!(result.operations > 100);
        assert_eq!(result.bytes, result.operations * 4096);
        let (reads, writes) = (count(&result, OperationKind::READ), count(&result, OperationKind::WRITE));
        assert_eq!(reads + writes, result.operations);
        assert!(reads.abs_diff(writes) < result.operations / 4);
        assert!(result.cpu_user.0 + result.cpu_system.0 > 0);
        assert_eq!(kinds(&result), [OperationKind::OPERATION, OperationKind::READ, OperationKind::WRITE]);
        let histogram = decode(&result.histograms[&OperationKind::OPERATION]);
        assert!(histogram.min() > 20 && histogram.max() < 10_000_000_000, "{histogram:?}");
    }
}

#[test]
fn only_the_kinds_of_the_load_are_in_the_result() {
    for io in engines(&Io { reads: Percent(100.0), ..io() }) {
        assert_eq!(kinds(&run(&load_of(io, 1))), [OperationKind::OPERATION, OperationKind::READ]);
    }
}

#[test]
fn every_access_and_sharing_runs_clean() {
    for access in [Access::Random, Access::Sequential, Access::Append] {
        for (sharing, files) in
            [(Sharing::Shared, 1), (Sharing::Shared, 3), (Sharing::PerThread, 1), (Sharing::PerThread, 3)]
        {
            if access == Access::Append && sharing == Sharing::Shared {
                continue;
            }
            for data in [Data::Random, Data::Zero, Data::RepeatedWord] {
                for io in engines(&Io {
                    access,
                    sharing,
                    files,
                    reads: Percent(0.0),
                    total_size: Bytes::mib(1),
                    requests: Some(600),
                    ..io()
                }) {
                    let (until, duration) = (Until::Done, Nanos::secs(60));
                    let load = Load { data, until, duration, warmup: Nanos(0), ..load_of(io, 2) };
                    let directory = tempfile::tempdir().unwrap();
                    let prepared = prepare(&load, Target::Directory(directory.path())).unwrap();
                    let result = prepared.run(&mut |_| {}).unwrap();
                    assert_eq!(result.first_error, None, "{load:?}");
                    assert_eq!(result.operations, 600);
                }
            }
        }
    }
}

#[test]
fn orders_of_every_sort_run_clean() {
    let base = Io { total_size: Bytes::mib(1), ..io() };
    let extend = Io {
        access: Access::Extend,
        sharing: Sharing::PerThread,
        reads: Percent(0.0),
        files: 2,
        ..base.clone()
    };
    let mut operations = 0;
    for io in [
        Io { distribution: Distribution::Zipf { theta: 0.99 }, files: 3, ..base.clone() },
        Io {
            distribution: Distribution::Latest { theta: 0.99 },
            sharing: Sharing::PerThread,
            ..base.clone()
        },
        Io { each_block_once: true, sharing: Sharing::Region, ..base.clone() },
        Io { access: Access::Sequential, sharing: Sharing::Region, files: 2, ..base.clone() },
        Io { mix: Mix::Ratio, reads: Percent(60.0), ..base.clone() },
        Io { update: Percent(30.0), fsync_every: 3, ..base.clone() },
        Io { distribution: "zones:10%:60,20%:40".parse().unwrap(), files: 2, ..base.clone() },
        Io { update: Percent(100.0), reads: Percent(100.0), fsync_every: 1, ..base },
        Io { sharing: Sharing::Region, files: 1, ..extend.clone() },
        extend,
    ] {
        for io in engines(&io) {
            for rate in [None, Some("20000/s poisson")] {
                let load = Load {
                    rate: rate.map(|rate| rate.parse().unwrap()),
                    data: Data::Mixed { compressible: Percent(50.0), duplicate: Percent(20.0) },
                    duration: Nanos::millis(20),
                    warmup: Nanos(0),
                    ..load_of(io.clone(), 2)
                };
                let result = run(&load);
                assert_eq!(result.first_error, None, "{load:?}");
                // A busy machine may give one short load no time at all, but not all of them.
                operations += result.operations;
            }
        }
    }
    assert!(operations > 1000, "{operations}");
}

#[test]
fn updates_with_syncs_are_counted_once() {
    for every in [1, 5] {
        let io = Io { reads: Percent(100.0), update: Percent(50.0), fsync_every: every, ..io() };
        for io in engines(&io) {
            let depth = u64::from(io.depth);
            let result = run(&load_of(io, 1));
            assert_eq!(result.first_error, None);
            let (reads, writes, syncs) = (
                count(&result, OperationKind::READ),
                count(&result, OperationKind::WRITE),
                count(&result, OperationKind::FSYNC),
            );
            assert!(reads.abs_diff(result.operations) <= 2 * depth, "{reads} {}", result.operations);
            assert!(syncs.abs_diff(writes / u64::from(every)) <= 1, "{syncs} {writes}");
            let share = writes as f64 / reads as f64;
            assert!(reads < 2000 || (0.4..0.6).contains(&share), "{share}");
            assert!(result.bytes.abs_diff((reads + writes) * 4096) <= 4 * depth * 4096);
        }
    }
}

#[test]
fn extended_files_grow_to_their_size_and_stay() {
    for sharing in [Sharing::PerThread, Sharing::Region] {
        let extend =
            Io { access: Access::Extend, sharing, reads: Percent(0.0), total_size: Bytes::kib(64), ..io() };
        for io in engines(&extend) {
            let directory = directory();
            let load = load_of(io, 2);
            let prepared = prepare(&load, Target::Directory(directory.path())).unwrap();
            let lens = || -> Vec<u64> {
                let entries = std::fs::read_dir(directory.path()).unwrap();
                entries.map(|entry| entry.unwrap().metadata().unwrap().len()).collect()
            };
            assert!(lens().iter().all(|len| *len == 0));
            assert_eq!(prepared.run(&mut |_| {}).unwrap().first_error, None);
            assert_eq!(lens().iter().sum::<u64>(), 64 << 10);
        }
    }
}

#[test]
fn offered_rate_is_met_with_every_engine() {
    let offered = |mut load: Load, per_second: u64| {
        load.rate = Some(format!("{per_second}/s").parse().unwrap());
        (load.warmup, load.duration) = (Nanos::millis(50), Nanos::millis(400));
        let result = run(&load);
        assert_eq!(result.first_error, None);
        let expected = per_second * 4 / 10;
        // Those of the first instant and of the last can fall on either side, and a stall of the machine may hold the
        // last ones up.
        let slack = 2 + expected / 10;
        assert!(result.operations.abs_diff(expected) <= slack, "{} of {expected}", result.operations);
    };
    for io in engines(&io()) {
        offered(load_of(io, 3), 1000);
    }
    offered(file_set_of(10, 4096, &[FileStep::Create, FileStep::Write, FileStep::Delete], 2), 500);
}

#[test]
fn append_wraps_within_its_size() {
    let append = Io {
        access: Access::Append,
        sharing: Sharing::PerThread,
        files: 2,
        reads: Percent(0.0),
        total_size: Bytes::kib(64),
        ..io()
    };
    for io in engines(&append) {
        let directory = directory();
        let result = run_in(&load_of(io, 1), directory.path());
        assert_eq!(result.first_error, None);
        assert!(result.operations > 100, "many laps of 8 blocks: {}", result.operations);
        for entry in std::fs::read_dir(directory.path()).unwrap() {
            let len = entry.unwrap().metadata().unwrap().len();
            assert!(len <= 32 << 10 && len % 4096 == 0, "{len}");
        }
    }
}

#[test]
fn a_sync_comes_after_every_n_writes() {
    for (every, call) in [(1, SyncCall::Fsync), (7, SyncCall::Fdatasync)] {
        for io in engines(&Io { reads: Percent(0.0), fsync_every: every, fsync: call, ..io() }) {
            let result = run(&load_of(io.clone(), 1));
            assert_eq!(result.first_error, None);
            let (syncs, writes) =
                (count(&result, OperationKind::FSYNC), count(&result, OperationKind::WRITE));
            let expected = writes / u64::from(every);
            assert!(syncs.abs_diff(expected) <= 1, "{io:?}: {syncs} syncs of {writes} writes");
            assert!(writes.abs_diff(result.operations) <= 1);
        }
    }
}

#[test]
fn a_sync_reaches_every_file_written() {
    // With 4 files and a sync after 40 writes, nearly every sync has to reach all 4.
    for io in engines(&Io { reads: Percent(0.0), files: 4, fsync_every: 40, ..io() }) {
        let result = run(&load_of(io, 1));
        let (syncs, operations) = (count(&result, OperationKind::FSYNC), result.operations);
        assert!(syncs.abs_diff(operations / 40 * 4) <= operations / 400 + 8, "{syncs} of {operations}");
    }
}

#[test]
fn sync_time_counts_toward_its_operation() {
    for io in engines(&Io { reads: Percent(0.0), fsync_every: 1, ..io() }) {
        let result = run(&load_of(io, 1));
        let total = |kind: OperationKind| {
            let histogram = decode(&result.histograms[&kind]);
            histogram.mean() * histogram.len() as f64
        };
        let (whole, parts) =
            (total(OperationKind::OPERATION), total(OperationKind::WRITE) + total(OperationKind::FSYNC));
        assert!((whole / parts - 1.0).abs() < 0.05, "{whole} {parts}");
    }
}

#[test]
fn thread_latencies_cover_its_runtime() {
    let load = load_of(Io { reads: Percent(100.0), ..io() }, 1);
    let share = || {
        let histogram = decode(&run(&load).histograms[&OperationKind::OPERATION]);
        histogram.mean() * histogram.len() as f64 / load.duration.0 as f64
    };
    // A busy machine starts the thread late in one run; a gap between operations is in all of them.
    let shares: Vec<f64> = std::iter::repeat_with(share).take(5).collect();
    let whole = shares.iter().any(|share| (0.9..1.2).contains(share));
    assert!(whole, "chained reads of the clock leave no gap: {shares:?}");
}

#[test]
fn direct_requests_run_where_supported() {
    for io in engines(&Io { direct: true, ..io() }) {
        let result = run(&load_of(io, 2));
        assert_eq!(result.first_error, None);
        assert!(result.operations > 0);
    }
}

#[test]
fn files_hold_the_loads_data_at_full_size() {
    for (data, ok) in [
        (Data::Zero, (|w: &[u8]| w == [0; 8]) as fn(&[u8]) -> bool),
        (Data::RepeatedWord, |w| w == b"fstrial\n"),
        (Data::Random, |w| w != [0; 8]),
    ] {
        let directory = directory();
        let load = Load { data, ..load_of(Io { files: 2, total_size: Bytes(3 << 20), ..io() }, 2) };
        prepare(&load, Target::Directory(directory.path())).unwrap();
        let files: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(files.len(), 2);
        for file in files {
            let bytes = std::fs::read(file).unwrap();
            assert_eq!(bytes.len(), (3 << 20) / 2);
            assert!(bytes.chunks_exact(8).all(ok));
        }
    }
}

#[test]
fn same_seed_lays_out_the_same_bytes() {
    let bytes = |seed| {
        let directory = directory();
        let load = Load { seed, ..load_of(io(), 1) };
        prepare(&load, Target::Directory(directory.path())).unwrap();
        std::fs::read(directory.path().join("load-0000-0000.dat")).unwrap()
    };
    assert!(bytes(1) == bytes(1));
    assert!(bytes(1) != bytes(2));
}

#[test]
fn many_files_and_threads_raise_the_limit_and_run() {
    for io in engines(&Io { files: 300, total_size: Bytes(300 * 8192), ..io() }) {
        let result = run(&load_of(io, 16));
        assert_eq!(result.first_error, None);
        assert!(result.operations > 0);
    }
}

#[test]
fn existing_file_is_never_overwritten() {
    let directory = directory();
    let precious = directory.path().join("load-0000-0000.dat");
    std::fs::write(&precious, "precious").unwrap();
    let error = prepare(&load_of(io(), 1), Target::Directory(directory.path())).unwrap_err();
    assert!(!error.is_refusal() && error.hint().unwrap().contains("never overwrites"), "{error}");
    assert!(error.to_string().contains("load-0000-0000.dat"));
    assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
}

fn file_names(directory: &Path) -> BTreeSet<String> {
    std::fs::read_dir(directory)
        .unwrap()
        .flat_map(|thread| std::fs::read_dir(thread.unwrap().path()).unwrap())
        .map(|file| file.unwrap().path().display().to_string())
        .collect()
}

#[test]
fn file_set_keeps_its_size() {
    use FileStep::{Create, Delete, Fsync, Read, Stat, Write};
    for size in [0, 100, 5000, 3 << 20] {
        let directory = directory();
        let load = file_set_of(10, size, &[Create, Write, Fsync, Read, Stat, Delete], 2);
        let prepared = prepare(&load, Target::Directory(directory.path())).unwrap();
        let before = file_names(directory.path());
        assert_eq!(before.len(), 20);
        let result = prepared.run(&mut |_| {}).unwrap();
        check_sums(&load, &result);
        assert_eq!(result.first_error, None);
        assert!(result.operations > 0);
        let after = file_names(directory.path());
        assert_eq!(after.len(), 20, "{size}");
        assert_ne!(before, after);
        assert_eq!(result.bytes, result.operations * 2 * size);
        assert_eq!(result.histograms.len(), 7);
        for kind in [
            OperationKind::new("create"),
            OperationKind::WRITE,
            OperationKind::READ,
            OperationKind::new("delete"),
        ] {
            assert!(count(&result, kind.clone()).abs_diff(result.operations) <= 2, "{kind}");
        }
    }
}

#[test]
fn file_set_turns_of_every_sort_run_clean() {
    use FileStep::{Create, Delete, Fsync, Read, Stat, Write};
    let turns: [&[FileStep]; 6] = [
        &[Read],
        &[Stat],
        &[Create, Write, Fsync, Delete],
        &[Create, Stat, Write, Read, Delete],
        &[Create, Read, Delete],
        &[Delete, Create, Write],
    ];
    for steps in turns {
        let result = run(&file_set_of(5, 4096, steps, 1));
        assert_eq!(result.first_error, None, "{steps:?}");
        assert!(result.operations > 0);
    }
    let directory = directory();
    let grown = run_in(&file_set_of(1, 10, &[Create, Write], 1), directory.path());
    assert!(file_names(directory.path()).len() as u64 >= grown.operations, "a turn without delete grows");
}

/// A load on existing files of any kind. An unmappable file is an empty one for a map: none of its pages is available.
pub(crate) fn on_path(io: &Io, path: &str) -> PreparedPhase {
    let open = || match io.backend {
        Backend::Mmap => memfd_create("empty", MemfdFlags::CLOEXEC),
        _ => openat(CWD, path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()),
    };
    let load = Load { duration: Nanos::millis(30), warmup: Nanos(0), ..load_of(io.clone(), 2) };
    let threads = (0..2)
        .map(|thread| -> Box<dyn PreparedThread> {
            Box::new(IoThread {
                locks: None,
                io: io.clone(),
                files: Files { fds: vec![open().unwrap()], paths: vec![path.into()] },
                geometry: Geometry::on_files(io, 2, thread),
                cursor: None,
                seat: crate::Seat::ALONE,
            })
        })
        .collect();
    PreparedPhase { clock: Clock::best(), groups: vec![(load, threads)] }
}

#[test]
fn failed_writes_are_an_outcome() {
    for io in engines(&Io { reads: Percent(0.0), ..io() }) {
        let result = on_path(&io, "/dev/full").run(&mut |_| {}).unwrap();
        assert_eq!((result.operations, result.bytes), (0, 0), "{io:?}");
        assert_eq!(result.errors, 32, "16 for each of two threads");
        let first = result.first_error.as_ref().unwrap();
        assert!(first.starts_with("write /dev/full: "), "{first}");
        match io.backend {
            Backend::Sync | Backend::Vsync => assert!(first.contains("No space left"), "{first}"),
            Backend::Mmap => assert!(first.contains("Input/output error"), "{first}"),
            // The device has no call that these could use.
            Backend::Aio | Backend::IoUring => {}
        }
        assert_eq!(count(&result, OperationKind::OPERATION), 0);
    }
}

#[test]
fn short_reads_are_reported_as_errors() {
    for io in engines(&Io { reads: Percent(100.0), ..io() }) {
        let result = on_path(&io, "/dev/null").run(&mut |_| {}).unwrap();
        assert_eq!((result.operations, result.errors), (0, 32));
        let first = result.first_error.unwrap();
        let words = if io.backend == Backend::Mmap { "Input/output error" } else { "only 0 bytes" };
        assert!(first.contains(words), "{first}");
    }
}

#[test]
fn failed_syncs_fail_their_operation() {
    // A write to /dev/null succeeds; it has no fsync. There is nothing that can be mapped and not be synced.
    let mut engines = engines(&Io { reads: Percent(0.0), fsync_every: 1, ..io() });
    engines.retain(|io| io.backend != Backend::Mmap);
    for io in engines {
        let result = on_path(&io, "/dev/null").run(&mut |_| {}).unwrap();
        assert_eq!(result.operations, 0);
        assert!(result.first_error.unwrap().starts_with("fsync /dev/null: "));
    }
}

#[test]
fn forced_fallback_clock_measures_the_same_way() {
    let directory = directory();
    let load = load_of(io(), 1);
    let mut prepared = prepare(&load, Target::Directory(directory.path())).unwrap();
    prepared.clock = Clock::monotonic("forced by a test");
    let result = prepared.run(&mut |_| {}).unwrap();
    check_sums(&load, &result);
    assert_eq!(result.clock, ClockSource::Monotonic);
    assert!(result.operations > 100);
}

#[test]
fn refused_loads_carry_hints() {
    let mut refused: Vec<EngineError> = Vec::new();
    refused.push(
        prepare(&load_of(Io { depth: 2, ..io() }, 1), Target::Directory(Path::new("/dev/shm"))).unwrap_err(),
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    refused.push(prepare(&load_of(io(), 1), Target::BlockDevice(file.path())).unwrap_err());
    refused.push(
        prepare(&file_set_of(1, 1, &[FileStep::Read], 1), Target::BlockDevice(file.path())).unwrap_err(),
    );
    for error in refused {
        assert!(error.is_refusal() && error.hint().is_some(), "{error}");
    }
    let missing = prepare(&load_of(io(), 1), Target::Directory(Path::new("/does/not/exist"))).unwrap_err();
    assert!(missing.to_string().contains("/does/not/exist"), "{missing}");
    assert!(!missing.is_refusal());
}

/// A memory filesystem of 4 MiB, unmounted when dropped.
pub(crate) struct TinyMount(pub(crate) tempfile::TempDir);

impl TinyMount {
    /// None, with the reason on stderr, if this process may not mount.
    pub(crate) fn new() -> Option<Self> {
        Self::of("tmpfs")
    }

    /// As [`TinyMount::new`], with another filesystem in memory.
    pub(crate) fn of(filesystem: &str) -> Option<Self> {
        let directory = directory();
        let flags = rustix::mount::MountFlags::empty();
        let options = (filesystem == "tmpfs").then_some(c"size=4m");
        match rustix::mount::mount("none", directory.path(), filesystem, flags, options) {
            Ok(()) => Some(Self(directory)),
            Err(errno) => {
                skipped(&format!("cannot mount {filesystem}: {errno}"));
                None
            }
        }
    }
}

impl Drop for TinyMount {
    fn drop(&mut self) {
        rustix::mount::unmount(self.0.path(), rustix::mount::UnmountFlags::empty()).unwrap();
    }
}

pub(crate) fn skipped(reason: &str) {
    std::io::Write::write_all(&mut std::io::stderr(), format!("skipped: {reason}\n").as_bytes()).unwrap();
}

#[test]
fn layout_without_space_is_refused() {
    let Some(mount) = TinyMount::new() else { return };
    let mut errors = Vec::new();
    errors.push(prepare(&load_of(io(), 1), Target::Directory(mount.0.path())).unwrap_err());
    let set = file_set_of(2000, 4096, &[FileStep::Stat], 1);
    errors.push(prepare(&set, Target::Directory(mount.0.path())).unwrap_err());
    for error in errors {
        assert!(matches!(error, EngineError::NoSpace { .. }), "{error}");
        assert!(error.is_refusal() && error.hint().is_some());
    }
}

#[test]
fn growing_set_reports_full_device() {
    let Some(mount) = TinyMount::new() else { return };
    let load = Load { warmup: Nanos(0), ..file_set_of(1, 64 << 10, &[FileStep::Create, FileStep::Write], 1) };
    let result = run_in(&load, mount.0.path());
    assert!(result.operations > 0 && result.operations < 64, "{}", result.operations);
    assert_eq!(result.errors, 16);
    assert!(result.first_error.unwrap().contains("No space left"));
}

#[test]
fn block_device_is_written_and_oversized_load_refused() {
    let Ok(device) = std::env::var("FSTRIAL_TEST_BLOCK_DEVICE") else {
        return skipped("set FSTRIAL_TEST_BLOCK_DEVICE to a device that may be overwritten");
    };
    for direct in [false, true] {
        for sharing in [Sharing::Shared, Sharing::PerThread] {
            for io in engines(&Io { direct, sharing, files: 2, ..io() }) {
                let load = load_of(io, 2);
                let result =
                    prepare(&load, Target::BlockDevice(device.as_ref())).unwrap().run(&mut |_| {}).unwrap();
                check_sums(&load, &result);
                assert_eq!(result.first_error, None);
                assert!(result.operations > 0);
            }
        }
    }
    let mut huge = load_of(io(), 1);
    if let Pattern::Io(io) = &mut huge.pattern {
        io.total_size = Bytes(1 << 50);
    }
    let error = prepare(&huge, Target::BlockDevice(device.as_ref())).unwrap_err();
    assert!(error.is_refusal(), "{error}");
}

#[test]
fn handicap_stretches_operation_latency() {
    // Medians: other work of the processor occasionally lengthens some operations a lot, and those by their share.
    let median = |handicap: f64| {
        let load = Load { handicap: Percent(handicap), duration: Nanos::millis(200), ..load_of(io(), 1) };
        decode(&run(&load).histograms[&OperationKind::OPERATION]).value_at_quantile(0.5) as f64
    };
    let best = |handicap: f64| (0..3).map(|_| median(handicap)).fold(f64::INFINITY, f64::min);
    let ratio = best(100.0) / best(0.0);
    assert!((1.5..4.0).contains(&ratio), "every wait twice as long: about twice the latency, not {ratio}");
}

#[test]
fn completed_phase_issues_every_request_once() {
    for (sharing, threads, requests, expected) in [
        (Sharing::Shared, 3, None, 4096),
        (Sharing::PerThread, 3, None, 3 * (4096 / 3)),
        (Sharing::Shared, 2, Some(1001), 1001),
    ] {
        let writes = Io { access: Access::Sequential, sharing, requests, reads: Percent(0.0), ..io() };
        for io in engines(&writes) {
            let directory = tempfile::tempdir().unwrap();
            let duration = Nanos::secs(60);
            let load = Load { until: Until::Done, warmup: Nanos(0), duration, ..load_of(io, threads) };
            let mut moments = Vec::new();
            let prepared = prepare(&load, Target::Directory(directory.path())).unwrap();
            let result = prepared.run(&mut |moment| moments.push(moment)).unwrap();
            assert_eq!((result.operations, result.errors), (expected, 0));
            assert_eq!(result.bytes, expected * 4096);
            assert_eq!(count(&result, OperationKind::WRITE), expected);
            let sums =
                [&result.windows, &result.steady_windows, &result.series].map(|w| w.iter().sum::<u64>());
            assert_eq!(sums, [expected; 3]);
            assert!(result.duration > Nanos(0) && result.duration < duration);
            assert_eq!(moments, [Moment::Ready, Moment::TimedStart, Moment::TimedEnd]);
        }
    }
}

/// bonnie++'s rewrite: all its writes are updates of read blocks.
#[test]
fn updates_are_synced_at_the_end_too() {
    let (reads, update) = (Percent(100.0), Percent(100.0));
    let io = Io { access: Access::Sequential, reads, update, files: 2, fsync_at_end: true, ..io() };
    let load = Load { until: Until::Done, warmup: Nanos(0), duration: Nanos::secs(60), ..load_of(io, 1) };
    let directory = tempfile::tempdir().unwrap();
    let result = prepare(&load, Target::Directory(directory.path())).unwrap().run(&mut |_| {}).unwrap();
    assert_eq!((result.first_error.clone(), count(&result, OperationKind::FSYNC)), (None, 2));
}

#[test]
fn phase_missing_its_deadline_fails() {
    let io = Io { requests: Some(u64::MAX), ..io() };
    let directory = tempfile::tempdir().unwrap();
    let load = Load { until: Until::Done, warmup: Nanos(0), duration: Nanos::millis(50), ..load_of(io, 2) };
    let result = prepare(&load, Target::Directory(directory.path())).unwrap().run(&mut |_| {}).unwrap();
    assert_eq!(result.errors, 2);
    assert_eq!(result.first_error.as_deref(), Some("the work was not done within 50ms"));
}

#[test]
fn groups_run_at_once_and_phases_find_the_files_of_those_before() {
    let directory = tempfile::tempdir().unwrap();
    let mut site = Site::new(Target::Directory(directory.path()));
    let writes = load_of(Io { reads: Percent(0.0), ..io() }, 2);
    let reads = Load { seed: 2, ..load_of(Io { reads: Percent(100.0), ..io() }, 1) };
    let results = site.prepare(&[writes, reads.clone()]).unwrap().run_all(&mut |_| {}).unwrap();
    assert_eq!(kinds(&results[0]), [OperationKind::OPERATION, OperationKind::WRITE]);
    assert_eq!(kinds(&results[1]), [OperationKind::OPERATION, OperationKind::READ]);
    assert!(results.iter().all(|result| result.operations > 0 && result.errors == 0));
    let files = || std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(files(), 1, "both work on one set");
    site.prepare(std::slice::from_ref(&reads)).unwrap().run(&mut |_| {}).unwrap();
    let other = Load { set: "other".parse().unwrap(), ..reads };
    site.prepare(&[other]).unwrap().run(&mut |_| {}).unwrap();
    assert_eq!(files(), 2);
    let larger = Io { total_size: Bytes::mib(32), reads: Percent(100.0), ..io() };
    let error = site.prepare(&[load_of(larger, 1)]).unwrap_err();
    assert!(error.is_refusal() && error.to_string().contains("with 16MiB by an earlier phase"), "{error}");
}

/// The directory may be one in which others can put links.
#[test]
fn files_are_opened_through_no_link() {
    let (directory, outside) = (directory(), directory());
    let precious = outside.path().join("precious");
    let load = load_of(io(), 1);
    let mut site = Site::new(Target::Directory(directory.path()));
    site.prepare(std::slice::from_ref(&load)).unwrap();
    let file = directory.path().join("load-0000-0000.dat");
    std::fs::rename(&file, &precious).unwrap();
    std::os::unix::fs::symlink(&precious, &file).unwrap();
    let error = site.prepare(&[load]).unwrap_err();
    assert!(
        matches!(&error, EngineError::Layout { operation: "open", path, .. } if *path == file),
        "{error:?}"
    );

    let turns = file_set_of(2, 4096, &[FileStep::Create], 1);
    std::os::unix::fs::symlink(outside.path(), directory.path().join("load-0000")).unwrap();
    prepare(&turns, Target::Directory(directory.path())).unwrap_err();
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
}
