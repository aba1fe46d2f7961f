//! Whole runs. What holds for requests is tested with both ways to hand them to the kernel.

use crate::{
    EngineError, Moment, Prepared, Target,
    clock::Clock,
    layout::{Files, ThreadWork},
    pattern::Geometry,
    prepare,
    testing::{decode, file_set_of, io, load_of},
};
use fstrial_model::{
    job::Load,
    measurement::{ClockSource, LoadResult, OperationKind},
    units::{Bytes, Nanos, Percent},
    workload::{Access, Backend, Data, Io, Pattern, Sharing, Step, SyncCall},
};
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::{collections::BTreeSet, path::Path};

/// Both engines, with the depth to test them at.
fn engines(io: &Io) -> [Io; 3] {
    [
        Io { backend: Backend::Sync, depth: 1, ..io.clone() },
        Io { backend: Backend::IoUring, depth: 1, ..io.clone() },
        Io { backend: Backend::IoUring, depth: 16, ..io.clone() },
    ]
}

/// A directory in memory: tests take the device out of it.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn run_in(load: &Load, directory: &Path) -> LoadResult {
    let mut moments = Vec::new();
    let prepared = prepare(load, Target::Directory(directory)).unwrap();
    let result = prepared.run(&mut |moment| moments.push(moment)).unwrap();
    assert_eq!(moments, [Moment::TimedStart, Moment::TimedEnd]);
    check_sums(load, &result);
    result
}

fn run(load: &Load) -> LoadResult {
    run_in(load, directory().path())
}

/// What holds for every result.
fn check_sums(load: &Load, result: &LoadResult) {
    assert_eq!(result.duration, load.duration);
    assert_eq!(result.windows.len(), if load.duration.0 < 500_000_000 { 10 } else { 20 });
    assert_eq!(result.steady_windows.len(), 40);
    assert_eq!(result.series_step, Nanos::millis(100));
    assert_eq!(result.windows.iter().sum::<u64>(), result.operations);
    assert_eq!(result.series.iter().sum::<u64>(), result.steady_windows.iter().sum::<u64>());
    assert!(result.series.iter().sum::<u64>() >= result.operations);
    assert_eq!(count(result, OperationKind::Operation), result.operations);
    assert_eq!(result.errors == 0, result.first_error.is_none());
    let cpu = result.cpu_user.0 + result.cpu_system.0;
    assert!(cpu <= u64::from(load.threads) * (load.duration.0 + 50_000_000), "{cpu}");
}

fn count(result: &LoadResult, kind: OperationKind) -> u64 {
    result.histograms.get(&kind).map_or(0, |text| decode(text).len())
}

fn kinds(result: &LoadResult) -> Vec<OperationKind> {
    result.histograms.keys().copied().collect()
}

#[test]
fn mixed_requests_are_counted_once_and_by_kind() {
    for io in engines(&io()) {
        let result = run(&load_of(io.clone(), 2));
        assert_eq!(result.first_error, None, "{io:?}");
        assert!(result.operations > 100);
        assert_eq!(result.bytes, result.operations * 4096);
        let (reads, writes) = (count(&result, OperationKind::Read), count(&result, OperationKind::Write));
        assert_eq!(reads + writes, result.operations);
        assert!(reads.abs_diff(writes) < result.operations / 4);
        assert!(result.cpu_user.0 + result.cpu_system.0 > 0);
        assert_eq!(kinds(&result), [OperationKind::Operation, OperationKind::Read, OperationKind::Write]);
        let histogram = decode(&result.histograms[&OperationKind::Operation]);
        assert!(histogram.min() > 20 && histogram.max() < 10_000_000_000, "{histogram:?}");
    }
}

#[test]
fn only_the_kinds_of_the_load_are_in_the_result() {
    for io in engines(&Io { reads: Percent(100.0), ..io() }) {
        assert_eq!(kinds(&run(&load_of(io, 1))), [OperationKind::Operation, OperationKind::Read]);
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
                    ..io()
                }) {
                    let load = Load { data, duration: Nanos::millis(10), warmup: Nanos(0), ..load_of(io, 2) };
                    let result = run(&load);
                    assert_eq!(result.first_error, None, "{load:?}");
                    assert!(result.operations > 0);
                }
            }
        }
    }
}

#[test]
fn append_wraps_and_never_grows_beyond_its_size() {
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
                (count(&result, OperationKind::Fsync), count(&result, OperationKind::Write));
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
        let (syncs, operations) = (count(&result, OperationKind::Fsync), result.operations);
        assert!(syncs.abs_diff(operations / 40 * 4) <= operations / 400 + 8, "{syncs} of {operations}");
    }
}

#[test]
fn the_sync_is_part_of_the_operation_that_owes_it() {
    for io in engines(&Io { reads: Percent(0.0), fsync_every: 1, ..io() }) {
        let result = run(&load_of(io, 1));
        let total = |kind: OperationKind| {
            let histogram = decode(&result.histograms[&kind]);
            histogram.mean() * histogram.len() as f64
        };
        let (whole, parts) =
            (total(OperationKind::Operation), total(OperationKind::Write) + total(OperationKind::Fsync));
        assert!((whole / parts - 1.0).abs() < 0.05, "{whole} {parts}");
    }
}

#[test]
fn latencies_of_one_thread_fill_its_time() {
    let load = load_of(Io { reads: Percent(100.0), ..io() }, 1);
    let result = run(&load);
    let histogram = decode(&result.histograms[&OperationKind::Operation]);
    let busy = histogram.mean() * histogram.len() as f64;
    let share = busy / load.duration.0 as f64;
    assert!((0.9..1.2).contains(&share), "chained reads of the clock leave no gap: {share}");
}

#[test]
fn direct_requests_run_where_the_filesystem_does_them() {
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
fn file_that_was_there_is_never_overwritten() {
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
    use Step::{Create, Delete, Fsync, Read, Stat, Write};
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
        for kind in [OperationKind::Create, OperationKind::Write, OperationKind::Read, OperationKind::Delete]
        {
            assert!(count(&result, kind).abs_diff(result.operations) <= 2, "{kind}");
        }
    }
}

#[test]
fn file_set_turns_of_every_sort_run_clean() {
    use Step::{Create, Delete, Fsync, Read, Stat, Write};
    let turns: [&[Step]; 8] = [
        &[Read],
        &[Stat],
        &[Write],
        &[Fsync],
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
    let grown = run_in(&file_set_of(0, 10, &[Create, Write], 1), directory.path());
    assert!(file_names(directory.path()).len() as u64 >= grown.operations, "a turn without delete grows");
}

/// A load on files that are already there, whatever they are.
fn on_path(io: &Io, path: &str) -> Prepared {
    let load = Load { duration: Nanos::millis(30), warmup: Nanos(0), ..load_of(io.clone(), 2) };
    let threads = (0..2)
        .map(|thread| ThreadWork::Io {
            io: io.clone(),
            files: Files {
                fds: vec![openat(CWD, path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap()],
                paths: vec![path.into()],
            },
            geometry: Geometry::on_files(io, 2, thread),
        })
        .collect();
    Prepared { load, clock: Clock::best(), threads }
}

#[test]
fn failed_writes_are_an_outcome() {
    for io in engines(&Io { reads: Percent(0.0), ..io() }) {
        let result = on_path(&io, "/dev/full").run(&mut |_| {}).unwrap();
        assert_eq!((result.operations, result.bytes), (0, 0), "{io:?}");
        assert_eq!(result.errors, 32, "16 for each of two threads");
        let first = result.first_error.as_ref().unwrap();
        assert!(first.starts_with("write /dev/full: "), "{first}");
        if io.backend == Backend::Sync {
            assert!(first.contains("No space left"), "{first}");
        }
        assert_eq!(count(&result, OperationKind::Operation), 0);
    }
}

#[test]
fn short_reads_are_errors_that_say_how_much() {
    for io in engines(&Io { reads: Percent(100.0), ..io() }) {
        let result = on_path(&io, "/dev/null").run(&mut |_| {}).unwrap();
        assert_eq!((result.operations, result.errors), (0, 32));
        let first = result.first_error.unwrap();
        assert!(first.contains("only 0 bytes"), "{first}");
    }
}

#[test]
fn failed_syncs_fail_their_operation() {
    // A write to /dev/null succeeds; it has no fsync.
    for io in engines(&Io { reads: Percent(0.0), fsync_every: 1, ..io() }) {
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
fn refusals_say_what_and_what_to_try() {
    let mut refused: Vec<EngineError> = Vec::new();
    refused.push(
        prepare(&load_of(Io { depth: 2, ..io() }, 1), Target::Directory(Path::new("/dev/shm"))).unwrap_err(),
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    refused.push(prepare(&load_of(io(), 1), Target::BlockDevice(file.path())).unwrap_err());
    refused
        .push(prepare(&file_set_of(1, 1, &[Step::Read], 1), Target::BlockDevice(file.path())).unwrap_err());
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
    /// None, and the reason on stderr, where this process may not mount.
    pub(crate) fn new() -> Option<Self> {
        let directory = directory();
        let flags = rustix::mount::MountFlags::empty();
        match rustix::mount::mount("none", directory.path(), "tmpfs", flags, c"size=4m") {
            Ok(()) => Some(Self(directory)),
            Err(errno) => {
                skipped(&format!("cannot mount a tmpfs: {errno}"));
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

fn skipped(reason: &str) {
    std::io::Write::write_all(&mut std::io::stderr(), format!("skipped: {reason}\n").as_bytes()).unwrap();
}

#[test]
fn layout_without_space_is_refused() {
    let Some(mount) = TinyMount::new() else { return };
    let mut errors = Vec::new();
    errors.push(prepare(&load_of(io(), 1), Target::Directory(mount.0.path())).unwrap_err());
    let set = file_set_of(2000, 4096, &[Step::Stat], 1);
    errors.push(prepare(&set, Target::Directory(mount.0.path())).unwrap_err());
    for error in errors {
        assert!(matches!(error, EngineError::NoSpace { .. }), "{error}");
        assert!(error.is_refusal() && error.hint().is_some());
    }
}

#[test]
fn set_that_grows_until_the_device_is_full_is_an_outcome() {
    let Some(mount) = TinyMount::new() else { return };
    let load = Load { warmup: Nanos(0), ..file_set_of(1, 64 << 10, &[Step::Create, Step::Write], 1) };
    let result = run_in(&load, mount.0.path());
    assert!(result.operations > 0 && result.operations < 64, "{}", result.operations);
    assert_eq!(result.errors, 16);
    assert!(result.first_error.unwrap().contains("No space left"));
}

#[test]
fn block_device_is_overwritten_within_its_share() {
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
fn a_handicap_slows_each_operation_by_its_share() {
    let rate = |handicap: f64| {
        let load = Load { handicap: Percent(handicap), duration: Nanos::millis(200), ..load_of(io(), 1) };
        run(&load).operations as f64
    };
    // Best of three each: a neighbour can only slow a run down.
    let best = |handicap: f64| (0..3).map(|_| rate(handicap)).fold(0.0, f64::max);
    let ratio = best(100.0) / best(0.0);
    assert!((0.35..0.65).contains(&ratio), "every wait twice as long: about half the rate, not {ratio}");
}
