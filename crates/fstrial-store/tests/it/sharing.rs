//! Several users of one file at a time, and a disk that fills up.

use crate::common;
use fstrial_store::{Store, StoreError, TrialId};
use std::{
    sync::Barrier,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

#[test]
fn two_writers_and_reader_share_new_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let (start, done) = (Barrier::new(2), AtomicBool::new(false));
    thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    let mut store = Store::open(&path).unwrap();
                    let trial = common::create_trial(&mut store);
                    for index in 0..60 {
                        common::record(&mut store, trial, index).unwrap();
                    }
                    trial
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let mut seen = 0;
            while !done.load(Ordering::Relaxed) {
                // The file may not be there yet, or be empty still.
                let Ok(store) = Store::open_read_only(&path) else { continue };
                for trial in store.trials().unwrap() {
                    let runs = store.runs(trial.id).unwrap();
                    assert!(runs.len() as u64 >= trial.runs, "runs went away");
                    for (index, run) in runs.iter().enumerate() {
                        common::assert_run(run, index as u64);
                    }
                    seen += runs.len();
                }
            }
            seen
        });
        let trials: Vec<TrialId> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        done.store(true, Ordering::Relaxed);
        assert!(reader.join().unwrap() > 0, "the reader saw nothing");
        let store = Store::open(&path).unwrap();
        for trial in trials {
            common::assert_runs(&store, trial, 60);
        }
        assert_eq!(store.check().unwrap(), Vec::<String>::new());
    });
}

/// Several processes start at the same moment and all of them make the file: one does, the others find it.
#[test]
fn concurrent_creation_makes_one_store() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        let start = Barrier::new(4);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    common::create_trial(&mut Store::open(&path).unwrap());
                });
            }
        });
        assert_eq!(Store::open(&path).unwrap().trials().unwrap().len(), 4);
    }
}

#[test]
fn a_reader_cannot_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let mut writer = Store::open(&path).unwrap();
    let trial = common::create_trial(&mut writer);
    let mut reader = Store::open_read_only(&path).unwrap();
    let error = common::record(&mut reader, trial, 0).unwrap_err();
    assert!(error.to_string().contains("cannot record a run in the store"), "{error}");
    assert!(error.hint().unwrap().contains("owns"));
    common::record(&mut writer, trial, 0).unwrap();
    common::assert_runs(&reader, trial, 1);
}

/// The two queries of a follower: whether there are new runs, and the runs.
#[test]
fn a_follower_reads_each_run_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let mut writer = Store::open(&path).unwrap();
    let other = common::create_trial(&mut writer);
    let trial = common::create_trial(&mut writer);
    let reader = Store::open_read_only(&path).unwrap();
    let (mut seen, mut last) = (Vec::new(), None);
    let mut version = reader.version().unwrap();
    for index in 0..5 {
        assert_eq!(reader.version().unwrap(), version, "nothing was written");
        common::record(&mut writer, trial, index).unwrap();
        common::record(&mut writer, other, index).unwrap();
        let result = reader.version().unwrap();
        assert_ne!(std::mem::replace(&mut version, result), result);
        reader
            .for_each_run_after(trial, last, |run| {
                last = Some(run.id);
                seen.push(run);
            })
            .unwrap();
        assert_eq!(seen.len(), usize::try_from(index).unwrap() + 1);
    }
    assert_eq!(seen, reader.runs(trial).unwrap());
    let nothing = reader.for_each_run_after(TrialId(99), None, |_| {});
    assert!(matches!(nothing, Err(StoreError::NoSuchTrial { .. })));
}
