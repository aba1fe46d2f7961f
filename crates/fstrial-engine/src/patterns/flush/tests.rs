//! Batches: places of writes, syncs, and failures.

use super::*;
use crate::testing::{count, directory, files_below, load_to_end, run_to_end, run_work};
use fstrial_model::{
    measurement::OperationKind,
    units::{Bytes, Nanos},
    workload::{Pattern, SyncCall},
};
use rustix::fs::{CWD, Mode, OFlags, openat};

fn small() -> Flush {
    Flush {
        files: 3,
        file_size: Bytes::kib(512),
        page: Bytes::kib(8),
        batch: 20,
        doublewrite: true,
        direct: false,
        batches: Some(5),
        ..Flush::default()
    }
}

#[test]
fn batches_issue_expected_writes_and_syncs() {
    for (doublewrite, sync, threads) in
        [(true, SyncCall::Fsync, 1), (false, SyncCall::Fdatasync, 1), (true, SyncCall::Fdatasync, 3)]
    {
        let directory = directory();
        let flush = Flush { doublewrite, sync, interval: Nanos(1000), ..small() };
        let result = run_to_end(&load_to_end(Pattern::Flush(flush), threads), directory.path());
        assert_eq!(result.first_error, None);
        let batches = 5 * u64::from(threads);
        assert_eq!(result.operations, batches);
        let copies = if doublewrite { 2 } else { 1 };
        assert_eq!(result.bytes, batches * 20 * 8192 * copies);
        let extra = u64::from(doublewrite);
        assert_eq!(count(&result, OperationKind::WRITE), batches * (20 + extra));
        let syncs = count(&result, OperationKind::FSYNC);
        assert!((batches * (1 + extra)..=batches * (3 + extra)).contains(&syncs), "{syncs}");
        let files = files_below(directory.path());
        assert_eq!(files.len(), 3 + usize::from(threads) * usize::from(doublewrite));
        for (name, size) in files {
            assert_eq!(size, if name.starts_with("data") { 512 << 10 } else { 20 * 8192 }, "{name}");
        }
    }
}

#[test]
fn large_doublewrites_are_split_into_chunks() {
    let directory = directory();
    let flush = Flush { batch: 300, batches: Some(1), ..small() };
    let result = run_to_end(&load_to_end(Pattern::Flush(flush), 1), directory.path());
    // 2400 KiB in stretches of 1 MiB.
    assert_eq!(count(&result, OperationKind::WRITE), 300 + 3);
    assert_eq!(files_below(directory.path())["doublewrite-0000"], 300 * 8192);
}

#[test]
fn same_seed_writes_the_same_pages() {
    let bytes = |seed| {
        let directory = directory();
        let mut load = load_to_end(Pattern::Flush(small()), 1);
        load.seed = seed;
        assert_eq!(run_to_end(&load, directory.path()).errors, 0);
        (0..3)
            .map(|n| std::fs::read(directory.path().join(format!("data-{n:05}"))).unwrap())
            .collect::<Vec<_>>()
    };
    assert!(bytes(1) == bytes(1));
    assert!(bytes(1) != bytes(2));
}

#[test]
fn failed_batches_are_an_outcome() {
    let full = || openat(CWD, "/dev/full", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let null = || openat(CWD, "/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let flush = Flush { doublewrite: false, files: 1, batches: None, ..small() };
    let load = load_to_end(Pattern::Flush(flush), 1);
    for (fd, words) in [(full(), "write /dev/x: No space left"), (null(), "fsync /dev/x: ")] {
        let files = Files { fds: vec![fd], paths: vec!["/dev/x".into()] };
        let result = run_work(&load, prepared_threads([FlushThread { flush, files }]));
        assert_eq!((result.operations, result.errors), (0, 16));
        let first = result.first_error.unwrap();
        assert!(first.starts_with(words), "{first}");
    }
}

#[test]
fn direct_page_flush_runs_where_supported() {
    let directory = tempfile::tempdir().unwrap();
    let load = load_to_end(Pattern::Flush(Flush { direct: true, ..small() }), 1);
    match crate::prepare(&load, crate::Target::Directory(directory.path())) {
        Ok(prepared) => {
            let result = run_work(&load, { prepared }.groups.remove(0).1);
            assert_eq!((result.operations, result.first_error), (5, None));
        }
        Err(error) => {
            assert!(matches!(error, EngineError::DirectUnsupported { .. }), "{error}");
            let line =
                format!("SKIPPED patterns::flush::tests::direct_page_flush_runs_where_supported: {error}\n");
            std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
        }
    }
}
