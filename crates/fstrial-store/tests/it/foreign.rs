//! A file that is not a store, or a store of an unknown schema, is refused and not changed.

use crate::common;
use fstrial_store::{APPLICATION_ID, SCHEMA, Store, StoreError};
use rusqlite::Connection;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Everything in a folder: names, bytes and times of change.
fn contents(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let bytes = fs::read(&path).unwrap();
            let modified = fs::metadata(&path).unwrap().modified().unwrap();
            (path, (bytes, modified))
        })
        .collect()
}

/// Opens in every way, asserts that nothing in the folder changed, and returns the errors.
fn refused(path: &Path) -> [StoreError; 3] {
    let before = contents(path.parent().unwrap());
    let [writes, reads, copies] = [Store::open(path), Store::open_read_only(path), Store::open_copy(path)];
    let errors = [writes.unwrap_err(), reads.unwrap_err(), copies.unwrap_err()];
    assert!(contents(path.parent().unwrap()) == before, "{} was touched", path.display());
    errors
}

#[test]
fn files_of_other_programs_are_refused_and_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other");
    for bytes in
        [&b"x"[..], &[0; 8192], &b"notes to myself\n".repeat(1000), b"SQLite format 3\0", &[0xff; 100]]
    {
        fs::write(&path, bytes).unwrap();
        for error in refused(&path) {
            assert!(matches!(error, StoreError::NotAStore { .. } | StoreError::Damaged { .. }), "{error}");
            assert!(error.to_string().contains("other"), "{error}");
            assert!(error.hint().is_some());
        }
    }
}

#[test]
fn databases_of_other_programs_are_refused_and_not_touched() {
    for (journal, mark) in [("DELETE", 0), ("WAL", 0), ("WAL", 7)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("other.db");
        let other = Connection::open(&path).unwrap();
        other.pragma_update(None, "journal_mode", journal).unwrap();
        other.pragma_update(None, "application_id", mark).unwrap();
        other.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
        if journal == "WAL" && mark == 0 {
            // Its owner was killed: the newest rows are only in the log, and opening the file would move them.
            let killed = folder.path().join("killed");
            fs::create_dir(&killed).unwrap();
            for name in ["other.db", "other.db-wal"] {
                fs::copy(folder.path().join(name), killed.join(name)).unwrap();
            }
            for error in refused(&killed.join("other.db")) {
                assert!(matches!(error, StoreError::NotAStore { .. }), "{error}");
            }
            fs::remove_dir_all(&killed).unwrap();
        }
        drop(other);
        for error in refused(&path) {
            assert!(matches!(error, StoreError::NotAStore { .. }), "{error}");
            assert!(error.to_string().contains("another program"), "{error}");
        }
    }
}

#[test]
fn non_file_paths_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path(), Path::new("/dev/null")] {
        for error in [Store::open(path).unwrap_err(), Store::open_read_only(path).unwrap_err()] {
            assert!(matches!(error, StoreError::NotAStore { .. }), "{error}");
        }
    }
    let missing = folder.path().join("missing");
    let error = Store::open_read_only(&missing).unwrap_err();
    assert!(matches!(error, StoreError::Io { .. }) && error.hint().is_some(), "{error}");
    assert!(!missing.exists());
    fs::write(&missing, "").unwrap();
    assert!(matches!(Store::open_read_only(&missing), Err(StoreError::NotAStore { .. })));
    let error = Store::open(folder.path().join("no/folder/s.db")).unwrap_err();
    assert!(error.hint().unwrap().contains("folder exists"), "{error}");
    // An empty file has no owner yet.
    drop(Store::open(&missing).unwrap());
    drop(Store::open_read_only(&missing).unwrap());
}

#[test]
fn newer_schema_is_refused_without_data_loss() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let mut store = Store::open(&path).unwrap();
    let id = common::create_trial(&mut store);
    common::record(&mut store, id, 0).unwrap();
    drop(store);
    let newer = Connection::open(&path).unwrap();
    newer.pragma_update(None, "user_version", SCHEMA + 1).unwrap();
    newer.execute_batch("CREATE TABLE of_the_future (x)").unwrap();
    // While the newer program has it open, its mark is only in the log.
    assert!(
        matches!(Store::open(&path), Err(StoreError::NewerSchema { result, .. }) if result == SCHEMA + 1)
    );
    drop(newer);
    for error in refused(&path) {
        assert!(matches!(error, StoreError::NewerSchema { result, .. } if result == SCHEMA + 1), "{error}");
        assert!(error.hint().unwrap().contains("newer"));
    }
    // Its own program still reads it.
    Connection::open(&path).unwrap().pragma_update(None, "user_version", SCHEMA).unwrap();
    common::assert_runs(&Store::open(&path).unwrap(), id, 1);
}

#[test]
fn missing_tables_cause_error_not_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let liar = Connection::open(&path).unwrap();
    liar.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
    liar.pragma_update(None, "user_version", SCHEMA).unwrap();
    drop(liar);
    assert!(Store::open(&path).unwrap().trials().is_err());
}

#[test]
fn triggers_and_views_of_a_strange_file_do_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let mut store = Store::open(&path).unwrap();
    let id = common::create_trial(&mut store);
    Connection::open(&path)
        .unwrap()
        .execute_batch(
            "CREATE TRIGGER t AFTER INSERT ON run BEGIN UPDATE trial SET name = 'changed'; END; \
             DROP INDEX session_of_trial; ALTER TABLE arm RENAME TO real_arm; \
             CREATE VIEW arm AS SELECT * FROM real_arm",
        )
        .unwrap();
    assert!(common::record(&mut store, id, 0).is_err());
    assert!(store.trials().is_err());
}
