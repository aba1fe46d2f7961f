//! Stores of every released schema, checked in, opened by the code of the day; and the same files with bytes changed.

use crate::common::{self, ENDED};
use fstrial_store::{Filter, SCHEMA, Store, StoredRun, TrialId, TrialStatus};
use proptest::prelude::*;
use rusqlite::Connection;
use std::{fs, path::PathBuf};

fn fixture(schema: u32) -> PathBuf {
    PathBuf::from(format!("{}/../../fixtures/store/schema-{schema}.db", env!("CARGO_MANIFEST_DIR")))
}

/// Every table and index with the SQL that made it.
fn tables(path: &PathBuf) -> Vec<(String, Option<String>)> {
    let connection = Connection::open(path).unwrap();
    let mut statement = connection.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name").unwrap();
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
}

#[test]
fn every_released_schema_opens_with_all_data() {
    let folder = tempfile::tempdir().unwrap();
    let fresh = folder.path().join("fresh.db");
    drop(Store::open(&fresh).unwrap());
    for schema in 1..=SCHEMA {
        let path = folder.path().join(format!("{schema}.db"));
        fs::copy(fixture(schema), &path).unwrap();
        let version: u32 = Connection::open(&path)
            .unwrap()
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .unwrap();
        assert_eq!(version, schema, "the fixture is of the schema in its name");

        let mut store = Store::open(&path).unwrap();
        assert_eq!(store.check().unwrap(), Vec::<String>::new());
        let runs = store.runs(TrialId(1)).unwrap();
        assert_eq!(runs.len(), 8);
        for (index, run) in runs.into_iter().enumerate() {
            // The job keeps the form of its time; everything else is written by today's code.
            assert!(run.job.contains("\"protocol\":"), "{}", run.job);
            let expected = common::expected(index as u64);
            assert_eq!(
                StoredRun { id: expected.id, session: expected.session, job: expected.job.clone(), ..run },
                expected
            );
        }
        let trial = store.trial(TrialId(1)).unwrap();
        assert_eq!(trial.summary.status, TrialStatus::Decided);
        assert_eq!((trial.summary.seed, trial.toml.as_str()), (common::SEED, common::TOML));
        assert_eq!(trial.summary.ended_at.as_deref(), Some(ENDED));
        assert_eq!((trial.sessions.len(), trial.sessions[0].status), (2, TrialStatus::Interrupted));
        assert_eq!(trial.sessions[1].environment, common::SESSION.environment);
        assert_eq!(trial.arms[0].facts, Some(common::facts("ext4")));
        assert_eq!(store.latest_trial().unwrap().unwrap().status, TrialStatus::Running);

        // The columns stored next to the documents.
        let summary = trial.summary;
        assert_eq!((summary.rounds, summary.runs, summary.failed_runs), (4, 8, 1));
        assert_eq!((summary.kernel.as_deref(), summary.host), (Some("6.12.0"), None));
        assert_eq!(summary.tags, ["sample", "v1"]);
        let requested = Filter {
            kernel: Some("6.12".into()),
            arms: vec!["xfs*".into()],
            workloads: vec!["random-write".into()],
            ..Filter::default()
        };
        let result: Vec<_> =
            store.find_trials(&requested).unwrap().into_iter().map(|trial| trial.id).collect();
        assert_eq!(result, [TrialId(1)], "the other one has no run");

        // The session continues as if it had always been of today's schema.
        common::record(&mut store, TrialId(1), 8).unwrap();
        common::assert_run(&store.runs(TrialId(1)).unwrap()[8], 8);
        drop(store);
        assert_eq!(tables(&path), tables(&fresh));
        assert_eq!(Store::open_read_only(&path).unwrap().runs(TrialId(1)).unwrap().len(), 9);
    }
}

/// One document that cannot be read costs nothing but itself.
#[test]
fn a_store_with_a_damaged_failure_can_still_be_listed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.db");
    fs::copy(fixture(SCHEMA), &path).unwrap();
    let stranger = Connection::open(&path).unwrap();
    let changed = stranger.execute("UPDATE run SET failure = '{\"kind' WHERE status = 'failed'", []).unwrap();
    assert_eq!(changed, 1);
    drop(stranger);
    for store in [Store::open_read_only(&path).unwrap(), Store::open(&path).unwrap()] {
        let trials = store.trials().unwrap();
        assert_eq!(trials.len(), 2);
        assert_eq!((trials[0].runs, trials[0].failed_runs), (8, 1));
        let error = store.runs(TrialId(1)).unwrap_err();
        assert!(error.to_string().contains("damaged"), "{error}");
    }
    let views = Connection::open(&path).unwrap();
    let failed = "SELECT count(DISTINCT run), count(failure) FROM v_run WHERE trial = 1";
    let counted: (u32, u32) = views.query_row(failed, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(counted, (8, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// A store from elsewhere may hold anything; reading it ends with its contents or an error.
    #[test]
    fn a_store_with_bytes_changed_is_read_or_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..30),
        cut in prop::option::weighted(0.1, any::<prop::sample::Index>()),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        let mut bytes = fs::read(fixture(SCHEMA)).unwrap();
        for (at, to) in changes {
            let at = at.index(bytes.len());
            bytes[at] = to;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        fs::write(&path, &bytes).unwrap();
        if let Ok(store) = Store::open_read_only(&path) {
            for trial in store.trials().unwrap_or_default() {
                let _ = (store.trial(trial.id), store.metric_rows(trial.id));
            }
            let _ = (store.runs(TrialId(1)), store.check());
        }
        if let Ok(mut store) = Store::open(&path) {
            let _ = common::record(&mut store, TrialId(1), 8);
            let _ = (store.runs(TrialId(1)), store.finish_trial(TrialId(1), TrialStatus::Failed, ENDED));
        }
    }
}
