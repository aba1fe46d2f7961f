//! Trials copied between stores stay the same, and removed trials leave no data.

use crate::common::{self, ENDED, SESSION, TOML};
use fstrial_model::{
    counter::Counters,
    measurement::{PhaseResult, Reading, Value},
};
use fstrial_store::{
    ImportOutcome, MAX_TAGS, NewSession, NewTrial, RunId, SessionId, Store, StoreError, StoredRun,
    StoredTrial, TrialId, TrialStatus,
};
use proptest::prelude::*;
use rusqlite::Connection;
use std::{io::Seek, path::Path};

/// A trial and its runs without the numbers of their store.
fn anonymous(store: &Store, trial: TrialId) -> (StoredTrial, Vec<StoredRun>) {
    let mut stored = store.trial(trial).unwrap();
    let runs = store.runs(trial).unwrap();
    let sessions: Vec<SessionId> = stored.sessions.iter().map(|session| session.id).collect();
    stored.summary.id = TrialId(0);
    let place = |id: SessionId| {
        SessionId(sessions.iter().position(|session| *session == id).unwrap().try_into().unwrap())
    };
    let runs = runs.into_iter().map(|run| StoredRun { id: RunId(0), session: place(run.session), ..run });
    let runs = runs.collect();
    stored.sessions.iter_mut().for_each(|session| session.id = SessionId(0));
    (stored, runs)
}

/// The parts of a trial.
#[derive(Debug, Clone)]
struct Made {
    name: String,
    seed: u64,
    /// Runs of each session.
    sessions: Vec<u64>,
    tags: Vec<String>,
    facts: bool,
    /// Instead of loads, one number in each run.
    value: Option<f64>,
}

fn made() -> impl Strategy<Value = Made> {
    (
        "\\PC{0,12}",
        any::<u64>(),
        prop::collection::vec(0_u64..6, 1..4),
        prop::collection::vec("[a-z0-9][a-z0-9._:/=@+-]{0,5}", 0..4),
        any::<bool>(),
        prop::option::of(-1e300_f64..1e300),
    )
        .prop_map(|(name, seed, sessions, tags, facts, value)| Made {
            name,
            seed,
            sessions,
            tags,
            facts,
            value,
        })
}

fn make(store: &mut Store, made: &Made, number: usize) -> TrialId {
    let arms = common::arms();
    let started_at = format!("2026-01-02T03:04:05.{number}Z");
    let session = NewSession { started_at: &started_at, ..SESSION };
    let trial =
        NewTrial { name: &made.name, toml: TOML, seed: made.seed, arms: &arms, tags: &made.tags, session };
    let id = store.create_trial(&trial).unwrap();
    if made.facts {
        store.set_arm_facts(id, "ext4", &common::facts("ext4")).unwrap();
    }
    let mut index = 0;
    for (number, runs) in made.sessions.iter().enumerate() {
        if number > 0 {
            store.reopen_trial(id, &SESSION).unwrap();
        }
        for _ in 0..*runs {
            let mut run = common::expected(index);
            if let (Some(value), Ok(measurement)) = (made.value, &mut run.outcome) {
                measurement.results = vec![PhaseResult {
                    name: "tps".into(),
                    reading: Reading::Value(Value { value, unit: "1/s".into(), less_is_better: false }),
                    counters: Counters::default(),
                }];
            }
            common::record_run(store, id, &run).unwrap();
            index += 1;
        }
        // One that is resumed may have been killed before.
        if number % 2 == 0 || number + 1 == made.sessions.len() {
            store.finish_trial(id, TrialStatus::Interrupted, ENDED).unwrap();
        }
    }
    id
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn imported_trials_equal_their_originals(all in prop::collection::vec(made(), 1..4)) {
        let (mut from, mut to) = (Store::open_in_memory().unwrap(), Store::open_in_memory().unwrap());
        // Numbers differ between the two from the start.
        common::create_trial(&mut to);
        let ids: Vec<TrialId> =
            all.iter().enumerate().map(|(number, made)| make(&mut from, made, number)).collect();
        for &id in &ids {
            let ImportOutcome::Copied(new) = to.import_trial(&from, id).unwrap() else { panic!("it was new") };
            prop_assert_ne!(new, id);
            prop_assert_eq!(anonymous(&to, new), anonymous(&from, id));
            let runs = from.trial(id).unwrap().summary.runs;
            // Neither of the two takes it a second time.
            let again = ImportOutcome::Here { trial: new, runs, runs_there: runs };
            prop_assert_eq!(to.import_trial(&from, id).unwrap(), again);
            let back = ImportOutcome::Here { trial: id, runs, runs_there: runs };
            prop_assert_eq!(from.import_trial(&to, new).unwrap(), back);
        }
        prop_assert_eq!(to.check().unwrap(), Vec::<String>::new());
        // Removed trials are gone, and no part of the others with them.
        let rest: Vec<_> = ids[1..].iter().map(|&id| (id, anonymous(&from, id))).collect();
        from.remove_trial(ids[0]).unwrap();
        from.shrink().unwrap();
        let gone = matches!(from.trial(ids[0]), Err(StoreError::NoSuchTrial { .. }));
        prop_assert!(gone);
        for (id, before) in rest {
            prop_assert_eq!(anonymous(&from, id), before);
        }
        prop_assert_eq!(from.check().unwrap(), Vec::<String>::new());
    }
}

#[test]
fn import_reports_and_keeps_trial_continued_elsewhere() {
    let (mut here, mut there) = (Store::open_in_memory().unwrap(), Store::open_in_memory().unwrap());
    let id = common::create_trial(&mut there);
    common::record(&mut there, id, 0).unwrap();
    there.finish_trial(id, TrialStatus::Interrupted, ENDED).unwrap();
    assert!(matches!(here.import_trial(&there, id), Ok(ImportOutcome::Copied(_))));
    there.reopen_trial(id, &SESSION).unwrap();
    common::record(&mut there, id, 1).unwrap();
    let reported = here.import_trial(&there, id).unwrap();
    assert_eq!(reported, ImportOutcome::Here { trial: id, runs: 1, runs_there: 2 });
    common::assert_runs(&here, id, 1);
    let error = here.import_trial(&there, TrialId(7)).unwrap_err();
    assert!(matches!(error, StoreError::NoSuchTrial { trial: TrialId(7), .. }), "{error}");
}

#[test]
fn import_skips_running_trial() {
    let (mut here, mut there) = (Store::open_in_memory().unwrap(), Store::open_in_memory().unwrap());
    let id = common::create_trial(&mut there);
    common::record(&mut there, id, 0).unwrap();
    assert_eq!(here.import_trial(&there, id).unwrap(), ImportOutcome::Running);
    assert_eq!(here.trials().unwrap(), []);
    there.finish_trial(id, TrialStatus::Decided, ENDED).unwrap();
    let ImportOutcome::Copied(new) = here.import_trial(&there, id).unwrap() else { panic!("it has ended") };
    common::assert_runs(&here, new, 1);
}

/// Copies from a store that was modified by hand; the only outcome may be an error that names that store.
#[test]
fn import_rejects_damaged_source_without_changes() {
    for (change, complaint) in [
        ("UPDATE arm SET name = 'x' || char(27) WHERE position = 1", "called"),
        ("UPDATE session SET environment = '[]'", "environment"),
        ("UPDATE session SET started_at = 'yesterday'", "not a time"),
        ("UPDATE session SET status = 'odd'", "status"),
        ("UPDATE run SET started_at = '' WHERE id = 2", "run 2"),
        ("UPDATE run SET session = 99 WHERE id = 2", "session 99"),
        ("UPDATE run SET arm = 'nobody' WHERE id = 2", "no arm `nobody`"),
        ("UPDATE run SET workload = char(7) WHERE id = 2", "workload"),
        ("UPDATE run SET job = '{' WHERE id = 2", "job of run 2"),
        ("UPDATE run SET failure = 'x', status = 'failed' WHERE id = 2", "failure of run 2"),
        ("UPDATE histogram SET latencies_ns = x'00' WHERE run = 3", "run 3: the histogram"),
        ("UPDATE histogram SET kind = 'Odd one' WHERE run = 3 AND kind = 'read'", "kind"),
        ("DELETE FROM result WHERE run = 3", "run 3"),
        ("DELETE FROM measurement WHERE run = 3", "run 3"),
        ("UPDATE result SET series = 'x' WHERE run = 3", "series"),
        ("UPDATE facts SET json = '7' WHERE id = 1", "facts"),
        ("INSERT INTO tag VALUES (1, 'a b')", "tag"),
        ("UPDATE trial SET seed = 'x'", "seed"),
        ("DELETE FROM tally", "read a trial"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("there.db");
        let mut there = Store::open(&path).unwrap();
        let id = common::create_trial(&mut there);
        for index in 0..4 {
            common::record(&mut there, id, index).unwrap();
        }
        there.finish_trial(id, TrialStatus::Decided, ENDED).unwrap();
        drop(there);
        tamper(&path, change);
        let mut here = Store::open_in_memory().unwrap();
        let kept = common::create_trial_at(&mut here, "2025-01-01T00:00:00Z");
        common::record(&mut here, kept, 0).unwrap();
        let there = Store::open_read_only(&path).unwrap();
        let error = here.import_trial(&there, id).unwrap_err();
        let text = format!("{error}: {:?}", std::error::Error::source(&error));
        assert!(matches!(error, StoreError::Damaged { .. }) && text.contains(complaint), "{change}: {text}");
        assert!(text.contains("there.db"), "{change}: {text}");
        assert_eq!(here.trials().unwrap().len(), 1, "{change}");
        assert_eq!(here.check().unwrap(), Vec::<String>::new(), "{change}");
    }
}

#[test]
fn a_store_with_endless_tags_is_read_and_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let id = common::create_trial(&mut Store::open(&path).unwrap());
    tamper(
        &path,
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 99999) \
         INSERT INTO tag SELECT 1, 'tag-' || i FROM n",
    );
    let store = Store::open_read_only(&path).unwrap();
    assert_eq!(store.trials().unwrap()[0].tags.len(), MAX_TAGS + 1);
    let error = Store::open_in_memory().unwrap().import_trial(&store, id).unwrap_err();
    assert!(error.to_string().ends_with("it has more than 100 tags"), "{error}");
}

/// Changes a store as no fstrial would.
fn tamper(path: &Path, change: &str) {
    let stranger = Connection::open(path).unwrap();
    stranger.pragma_update(None, "foreign_keys", false).unwrap();
    stranger.pragma_update(None, "ignore_check_constraints", true).unwrap();
    assert!(stranger.execute(change, []).unwrap() > 0, "{change}");
}

#[test]
fn removed_trial_frees_disk_space() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let mut store = Store::open(&path).unwrap();
    let (first, second) = (common::create_trial(&mut store), common::create_trial(&mut store));
    for index in 0..60 {
        common::record(&mut store, first, index).unwrap();
    }
    common::record(&mut store, second, 0).unwrap();
    store.shrink().unwrap();
    let before = std::fs::metadata(&path).unwrap().len();
    store.remove_trial(first).unwrap();
    store.shrink().unwrap();
    let after = std::fs::metadata(&path).unwrap().len();
    assert!(after < before / 2, "{before} bytes, then {after}");
    common::assert_runs(&store, second, 1);
    assert!(matches!(store.remove_trial(first), Err(StoreError::NoSuchTrial { .. })));
    // Its number is never reused: references written down by users stay valid.
    assert!(common::create_trial(&mut store) > second);
}

#[test]
fn shrink_reports_blocking_reader() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let mut store = Store::open(&path).unwrap();
    let id = common::create_trial(&mut store);
    common::record(&mut store, id, 0).unwrap();
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM trial").unwrap();
    store.remove_trial(id).unwrap();
    let error = store.shrink().unwrap_err();
    assert!(error.hint().unwrap().contains("another process holds the store"), "{error}");
    reader.execute_batch("COMMIT").unwrap();
    store.shrink().unwrap();
    assert_eq!(std::fs::metadata(folder.path().join("s.db-wal")).unwrap().len(), 0);
}

#[test]
fn a_nameless_store_has_everything_and_is_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let (mut store, mut file) = Store::nameless().unwrap();
    let id = common::create_trial(&mut store);
    common::record(&mut store, id, 0).unwrap();
    drop(store);
    file.rewind().unwrap();
    std::io::copy(&mut file, &mut std::fs::File::create(&path).unwrap()).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    common::assert_runs(&Store::open_read_only(&path).unwrap(), id, 1);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "reading made something next to it");
    common::record(&mut Store::open(&path).unwrap(), id, 1).unwrap();
}

#[test]
fn check_detects_wrong_counts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    for change in [
        "UPDATE tally SET runs = 7",
        "UPDATE tally SET failed_runs = 1",
        "DELETE FROM cell",
        "DELETE FROM tally",
        "UPDATE tally SET rounds = 0",
    ] {
        let mut store = Store::open(&path).unwrap();
        let id = common::create_trial(&mut store);
        common::record(&mut store, id, 0).unwrap();
        assert_eq!(store.check().unwrap(), Vec::<String>::new());
        drop(store);
        tamper(&path, change);
        let result = Store::open(&path).unwrap().check().unwrap();
        assert_eq!(result, ["the counts of trial 1 are not those of its runs"], "{change}");
        std::fs::remove_file(&path).unwrap();
    }
}
