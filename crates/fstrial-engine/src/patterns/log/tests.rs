//! Commits: each becomes durable once, in groups or alone, and a broken log stays broken.

use super::*;
use crate::testing::{count, directory, files_below, load_to_end, run_to_end, run_work};
use fstrial_model::{
    job::Load,
    measurement::OperationKind,
    units::{Bytes, Nanos},
    workload::{Pattern, SyncCall},
};
use std::sync::Arc;

fn small() -> Log {
    Log { file_size: Bytes::kib(64), commits: Some(200), ..Log::default() }
}

#[test]
fn every_commit_is_counted_and_written_once() {
    for (group, growing, call) in [
        (true, false, SyncCall::Fdatasync),
        (false, false, SyncCall::Fsync),
        (true, true, SyncCall::Fsync),
        (false, true, SyncCall::Fdatasync),
    ] {
        for threads in [1, 4] {
            let directory = directory();
            let log = Log { group, growing, call, ..small() };
            let result = run_to_end(&load_to_end(Pattern::Log(log), threads), directory.path());
            assert_eq!(result.first_error, None);
            assert_eq!(result.operations, 200 * u64::from(threads));
            assert_eq!(result.bytes, result.operations * 512);
            let (writes, syncs) =
                (count(&result, OperationKind::WRITE), count(&result, OperationKind::FSYNC));
            assert_eq!(writes, syncs);
            assert!(writes <= result.operations);
            if threads == 1 || !group {
                assert_eq!(writes, result.operations, "nobody to share with");
            }
            let files = files_below(directory.path());
            if growing {
                // 128 records in each file, two files at most.
                let newest = (result.operations - 1) / 128;
                let names: Vec<String> = (newest.saturating_sub(1)..=newest).map(name).collect();
                assert_eq!(files.keys().cloned().collect::<Vec<_>>(), names);
                assert_eq!(files[&name(newest)], (result.operations - newest * 128) * 512);
            } else {
                assert_eq!(files.len(), 2);
                assert!(files.values().all(|size| *size == 64 << 10), "{files:?}");
            }
        }
    }
}

#[test]
fn waiting_commits_become_durable_together() {
    let directory = directory();
    let load = load_to_end(Pattern::Log(Log { commits: Some(1), ..small() }), 8);
    let log = {
        let mut writer = Writer::new(&load);
        Arc::new(prepare(&small(), directory.path(), &mut writer).unwrap())
    };
    let settings = Log { commits: Some(1), ..small() };
    let log = Arc::new(SharedLog { settings, ..Arc::into_inner(log).unwrap() });
    // The first leader cannot write before everybody waits.
    let held = lock(&log.place);
    let result = std::thread::scope(|scope| {
        let work = prepared_threads((0..8).map(|_| LogThread(Arc::clone(&log))));
        let load = &load;
        let running = scope.spawn(move || run_work(load, work));
        while lock(&log.queue).requested < 8 {
            std::thread::yield_now();
        }
        drop(held);
        running.join().unwrap()
    });
    assert_eq!((result.operations, result.errors), (8, 0));
    let writes = count(&result, OperationKind::WRITE);
    assert!(writes <= 2, "the first leader's group and one for all others, not {writes}");
    assert_eq!(lock(&log.queue).durable, 8);
    assert_eq!(lock(&log.place).offset, 8 * 512);
}

#[test]
fn commits_can_be_offered_at_a_rate() {
    let directory = directory();
    let rate = Some("200/s".parse().unwrap());
    let pattern = Pattern::Log(Log { commits: None, ..small() });
    let load = Load { rate, duration: Nanos::secs(1), ..load_to_end(pattern, 2) };
    let result = run_to_end(&load, directory.path());
    assert_eq!(result.first_error, None);
    // As many as were due, give or take those at the ends; a closed loop does thousands.
    assert!((150..=201).contains(&result.operations), "{}", result.operations);
}

#[test]
fn log_ring_overwrites_records_in_place() {
    let directory = directory();
    let log = Log { file_size: Bytes(2000), record: Bytes(512), ..small() };
    let load = load_to_end(Pattern::Log(log), 1);
    let shared = Arc::new(
        prepare(&Log { commits: Some(7), ..log }, directory.path(), &mut Writer::new(&load)).unwrap(),
    );
    let before = std::fs::read(directory.path().join(name(0))).unwrap();
    let result = run_work(&load, prepared_threads([LogThread(Arc::clone(&shared))]));
    assert_eq!((result.operations, result.errors), (7, 0));
    // Three records fit: the seventh is the first of the first file's second lap.
    assert_eq!(lock(&shared.place).offset, 512);
    let after = std::fs::read(directory.path().join(name(0))).unwrap();
    assert_eq!(after.len(), 2000);
    assert!((0..3).all(|n| before[n * 512..][..512] != after[n * 512..][..512]), "records were overwritten");
    assert_eq!(before[1536..], after[1536..], "what no record fits into was not");
}

#[test]
fn a_broken_log_fails_every_commit() {
    for group in [true, false] {
        let directory = directory();
        let log = Log { group, ..small() };
        let load = load_to_end(Pattern::Log(log), 4);
        let shared = prepare(&log, directory.path(), &mut Writer::new(&load)).unwrap();
        let full = openat(CWD, "/dev/full", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        lock(&shared.place).files = VecDeque::from([full]);
        let shared = Arc::new(shared);
        let result = run_work(&load, prepared_threads((0..4).map(|_| LogThread(Arc::clone(&shared)))));
        assert_eq!((result.operations, result.errors), (0, 64), "16 for each of four threads");
        assert!(result.first_error.unwrap().contains("No space left"));
    }
}
