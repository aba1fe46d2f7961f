//! Stored results are read back unchanged.

use crate::common::{self, ENDED, SEED, SESSION, TOML};
use fstrial_model::{
    counter::{Counter, Counters},
    measurement::{LoadResult, Measurement, OperationKind, PhaseResult, Reading, Value},
    units::Nanos,
};
use fstrial_store::{Filter, NewSession, NewTrial, Store, StoreError, StoredRun, TrialId, TrialStatus};
use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

#[test]
fn trial_round_trips() {
    let mut store = Store::open_in_memory().unwrap();
    assert_eq!(store.latest_trial().unwrap(), None);
    let id = common::create_trial(&mut store);
    for index in 0..15 {
        common::record(&mut store, id, index).unwrap();
    }
    common::assert_runs(&store, id, 15);
    store.set_arm_facts(id, "ext4", &common::facts("before")).unwrap();
    store.set_arm_facts(id, "ext4", &common::facts("ext4")).unwrap();

    let trial = store.trial(id).unwrap();
    assert_eq!((trial.toml.as_str(), trial.summary.seed), (TOML, SEED));
    assert_eq!(trial.summary.arms, ["ext4", "xfs-16ag"]);
    assert_eq!(trial.arms[0].facts, Some(common::facts("ext4")));
    assert_eq!((trial.arms[1].configuration.as_str(), &trial.arms[1].facts), ("xfs:agcount=16", &None));
    let summary = trial.summary;
    assert_eq!((summary.rounds, summary.runs, summary.failed_runs), (8, 15, 2));
    assert_eq!((summary.status, &summary.ended_at), (TrialStatus::Running, &None));
    assert_eq!(store.latest_trial().unwrap(), Some(summary));
}

#[test]
fn a_resumed_trial_has_a_session_for_each_start() {
    let mut store = Store::open_in_memory().unwrap();
    let id = common::create_trial(&mut store);
    common::record(&mut store, id, 0).unwrap();
    store.finish_trial(id, TrialStatus::Interrupted, ENDED).unwrap();
    let later = "2027-01-01T00:00:00Z";
    let second = NewSession { started_at: later, environment: r#"{"kernel":"6.13.0"}"#, ..SESSION };
    let session = store.reopen_trial(id, &second).unwrap();
    assert_eq!(store.trial(id).unwrap().summary.status, TrialStatus::Running);
    common::record(&mut store, id, 1).unwrap();
    store.finish_trial(id, TrialStatus::Decided, later).unwrap();

    let trial = store.trial(id).unwrap();
    let statuses: Vec<_> = trial.sessions.iter().map(|session| session.status).collect();
    assert_eq!(statuses, [TrialStatus::Interrupted, TrialStatus::Decided]);
    assert_eq!(
        (trial.summary.started_at.as_str(), trial.summary.ended_at.as_deref()),
        (common::STARTED, Some(later))
    );
    assert_eq!(trial.sessions[1].environment, second.environment);
    let runs = store.runs(id).unwrap();
    assert_eq!([runs[0].session, runs[1].session], [trial.sessions[0].id, session]);
}

#[test]
fn trials_are_found_by_name_and_number() {
    let mut store = Store::open_in_memory().unwrap();
    let arms = common::arms();
    let ids: Vec<TrialId> = ["a", "b", "a"]
        .iter()
        .map(|name| {
            let trial = NewTrial { name, toml: TOML, seed: 1, arms: &arms, tags: &[], session: SESSION };
            store.create_trial(&trial).unwrap()
        })
        .collect();
    let a = Filter { name: Some("a".into()), ..Filter::default() };
    let named: Vec<TrialId> = store.find_trials(&a).unwrap().iter().map(|trial| trial.id).collect();
    assert_eq!(named, [ids[0], ids[2]]);
    assert_eq!(store.trials().unwrap().len(), 3);
    assert_eq!(store.latest_trial().unwrap().unwrap().id, ids[2]);
    assert_eq!("3".parse::<TrialId>().unwrap(), ids[2]);
    let unknown = TrialId(99);
    assert!(matches!(store.trial(unknown), Err(StoreError::NoSuchTrial { .. })));
    assert!(matches!(store.runs(unknown), Err(StoreError::NoSuchTrial { .. })));
    assert!(matches!(
        store.finish_trial(unknown, TrialStatus::Failed, ENDED),
        Err(StoreError::NoSuchTrial { .. })
    ));
    assert!(matches!(
        store.set_arm_facts(ids[0], "zfs", &common::facts("zfs")),
        Err(StoreError::NoSuchArm { .. })
    ));
}

#[test]
fn runs_are_ordered_and_duplicates_rejected() {
    let mut store = Store::open_in_memory().unwrap();
    let id = common::create_trial(&mut store);
    for index in [3, 0, 2, 1] {
        common::record(&mut store, id, index).unwrap();
    }
    common::assert_runs(&store, id, 4);
    let again = common::record(&mut store, id, 2).unwrap_err();
    assert!(matches!(again, StoreError::AlreadyRecorded { .. }), "{again}");
    assert!(again.to_string().contains("round 1 of trial 1"), "{again}");
    let places: Vec<_> = store.runs(id).unwrap().iter().map(|run| (run.round, run.slot)).collect();
    assert_eq!(places, [(0, 0), (0, 1), (1, 0), (1, 1)]);
}

#[test]
fn invalid_run_is_rejected_without_partial_data() {
    let mut store = Store::open_in_memory().unwrap();
    let id = common::create_trial(&mut store);
    let with = |change: fn(&mut Measurement)| {
        let mut run = common::expected(0);
        change(run.outcome.as_mut().unwrap());
        run
    };
    for (run, complaint) in [
        (with(|m| first_load(m).operations = u64::MAX), "the number of operations"),
        (with(|m| m.stages[8].1 = Nanos(u64::MAX)), "a stage's duration"),
        (
            with(|m| first_load(m).histograms = BTreeMap::from([(OperationKind::READ, "AAAA".into())])),
            "shorter than the header",
        ),
        (
            with(|m| first_load(m).histograms = BTreeMap::from([(OperationKind::READ, "no!".into())])),
            "not base64",
        ),
    ] {
        let error = common::record_run(&mut store, id, &run).unwrap_err();
        assert!(
            matches!(error, StoreError::Unstorable { .. }) && error.to_string().contains(complaint),
            "{error}"
        );
    }
    assert_eq!(store.runs(id).unwrap(), []);
    assert_eq!(store.check().unwrap(), Vec::<String>::new());
    common::record(&mut store, id, 0).unwrap();
}

#[test]
fn bugs_of_the_caller_do_not_reach_the_file() {
    let mut store = Store::open_in_memory().unwrap();
    let id = common::create_trial(&mut store);
    let good = common::expected(0);
    for bad in [
        StoredRun { started_at: "yesterday".into(), ..good.clone() },
        StoredRun { threads: 5, ..good.clone() },
        StoredRun { arm: "xfs-16ag".into(), ..good },
    ] {
        assert!(catch_unwind(AssertUnwindSafe(|| common::record_run(&mut store, id, &bad))).is_err());
    }
    assert_eq!(store.runs(id).unwrap(), []);
}

#[test]
fn the_table_has_every_number_and_every_failure() {
    let mut store = Store::open_in_memory().unwrap();
    let id = common::create_trial(&mut store);
    for index in 5..7 {
        common::record(&mut store, id, index).unwrap();
    }
    let rows = store.metric_rows(id).unwrap();
    let text: Vec<String> = rows
        .iter()
        .map(|row| format!("{} {} {} {} {}", row.run, row.arm, row.metric, row.value, row.unit))
        .collect();
    let seconds = 1.000_000_012;
    let load = 50_005.0;
    for line in [
        "1 xfs-16ag failed 0 1".to_owned(),
        format!("1 xfs-16ag throughput {} op/s", load / seconds),
        format!("1 xfs-16ag bytes_per_second {} bytes/s", load * 16_384.0 / seconds),
        "1 xfs-16ag operations 50005 1".into(),
        "1 xfs-16ag errors 2 1".into(),
        format!("1 xfs-16ag cpu_per_operation_ns {} ns", 100_000_005.0 / load + 300_000_000.0 / load),
        format!("1 xfs-16ag cpu_machine_per_operation_ns {} ns", 900_000_000.0 / load),
        "2 ext4 failed 1 1".into(),
    ] {
        assert!(text.contains(&line), "no `{line}` in {text:#?}");
    }
    // Rates, counts and costs, then four latencies of two kinds; the third kind has none. Then the failed run.
    assert_eq!(rows.len(), 8 + 2 * 4 + 1);

    // The quantiles against a sorted list of the very values: right to 3 significant digits.
    let mut values: Vec<u64> =
        (0..500).map(|value| 1_000 + (value * 7_919 + 5 * 104_729) % 5_000_000).collect();
    values.sort_unstable();
    for (metric, exact) in
        [("p50", values[249]), ("p99", values[494]), ("p999", values[499]), ("max", values[499])]
    {
        let row = rows.iter().find(|row| row.metric == format!("operation_latency_ns_{metric}")).unwrap();
        assert!((row.value / exact as f64 - 1.0).abs() < 0.001, "{metric}: {} and {exact}", row.value);
    }
}

#[test]
fn facts_and_commands_are_stored_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let mut store = Store::open(&path).unwrap();
    let id = common::create_trial(&mut store);
    for index in 0..50 {
        common::record(&mut store, id, index).unwrap();
    }
    let connection = rusqlite::Connection::open(&path).unwrap();
    for table in ["facts", "commands"] {
        let rows: i64 =
            connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 2, "{table}");
    }
}

fn first_load(measurement: &mut Measurement) -> &mut LoadResult {
    match &mut measurement.results[0].reading {
        Reading::Load(_, load) => load,
        Reading::Value(_) => panic!("the first result of the samples is a load"),
    }
}

#[test]
fn phases_and_numbers_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path().join("s.db")).unwrap();
    let trial = common::create_trial(&mut store);
    let mut run = common::expected(0);
    let measurement = run.outcome.as_mut().unwrap();
    first_load(measurement).tails = vec![(1_000, 25_000), (0, 0), (u64::MAX, 3)];
    first_load(measurement).tails_step = Nanos::millis(100);
    let mut second = measurement.results[0].clone();
    second.name = "rewrite/readers".into();
    // In the order of the list: CPU time, read, written, size of the log, logged before and meanwhile, commits, others.
    let counts = [900_000_000, 77, 123_456_789, 64 << 20, 0, 16 << 20, 1 << 32, 40_000].map(Some);
    second.counters = Counter::ALL.into_iter().zip(counts).collect();
    measurement.results.push(second);
    for (name, value, less_is_better) in [("seeks", 812.5, false), ("latency", 0.25, true)] {
        let reading = Reading::Value(Value { value, unit: "x/s".into(), less_is_better });
        measurement.results.push(PhaseResult {
            name: name.into(),
            reading,
            counters: Counters::of(Counter::Commits, 0),
        });
    }
    measurement.output = Some("raw, with “quotes”\n".into());
    common::record_run(&mut store, trial, &run).unwrap();
    let stored = store.runs(trial).unwrap().remove(0);
    assert_eq!(stored.outcome, run.outcome);
    let rows = store.metric_rows(trial).unwrap();
    let of = |phase: &str| rows.iter().filter(|row| row.phase == phase).count();
    assert_eq!((of("seeks"), of("latency")), (1, 1));
    assert_eq!(
        of("rewrite/readers"),
        of("") + 3,
        "without `failed`, with what passed the device, the log and its commits"
    );
    let laps = rows.iter().find(|row| row.metric == "log_laps").unwrap();
    assert_eq!((laps.phase.as_str(), laps.value), ("rewrite/readers", 0.25));
    let written: Vec<_> = rows.iter().filter(|row| row.metric == "device_bytes_per_operation").collect();
    let operations = first_load(run.outcome.as_mut().unwrap()).operations as f64;
    assert_eq!(written.len(), 1, "of loads, where it is known");
    assert_eq!(
        (written[0].phase.as_str(), written[0].value),
        ("rewrite/readers", 123_456_789.0 / operations)
    );

    // A number that is none is refused, and the run with it.
    let Ok(measurement) = &mut run.outcome else { unreachable!() };
    let reading = Reading::Value(Value { value: f64::NAN, unit: "x/s".into(), less_is_better: false });
    measurement.results[0].reading = reading;
    run.round += 1;
    assert!(common::record_run(&mut store, trial, &run).is_err());
    assert_eq!(store.runs(trial).unwrap().len(), 1);
}
