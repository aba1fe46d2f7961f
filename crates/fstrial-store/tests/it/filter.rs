//! Trials are selected by every condition of a filter, and no text in a filter becomes SQL.

use crate::common::{self, ENDED, SESSION, TOML};
use fstrial_store::{Filter, MAX_TAGS, NewSession, NewTrial, Store, StoreError, TrialId, TrialStatus};

/// Three trials: on two hosts, two kernels and two days, with different names and tags; the first has runs.
fn store() -> Store {
    let mut store = Store::open_in_memory().unwrap();
    let arms = common::arms();
    let trials = [
        (
            "ext4 / xfs",
            "2026-01-02T03:04:05Z",
            r#"{"host":"a1","kernel":"6.12.0 x86_64"}"#,
            vec!["nightly", "v1"],
        ),
        (
            "checkpoint 100%",
            "2026-01-02T23:59:59.5Z",
            r#"{"host":"a2","kernel":"6.1.0 x86_64"}"#,
            vec!["v10"],
        ),
        ("", "2026-01-03T00:00:00Z", r#"{"kernel":"6.1.0 x86_64"}"#, vec![]),
    ];
    for (name, started_at, environment, tags) in trials {
        let tags: Vec<String> = tags.into_iter().map(str::to_owned).collect();
        let session = NewSession { started_at, environment, ..SESSION };
        let trial = NewTrial { name, toml: TOML, seed: 1, arms: &arms[..1], tags: &tags, session };
        store.create_trial(&trial).unwrap();
    }
    for index in [0, 2, 12] {
        common::record(&mut store, TrialId(1), index).unwrap();
    }
    store.finish_trial(TrialId(1), TrialStatus::Decided, ENDED).unwrap();
    store
}

/// The numbers of the matching trials.
fn result(store: &Store, change: impl FnOnce(&mut Filter)) -> Vec<i64> {
    let mut filter = Filter::default();
    change(&mut filter);
    store.find_trials(&filter).unwrap().into_iter().map(|trial| trial.id.0).collect()
}

fn some(text: &str) -> Option<String> {
    Some(text.into())
}

fn list(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

#[test]
fn filter_fields_select_matching_trials() {
    let store = store();
    assert_eq!(result(&store, |_| {}), [1, 2, 3]);
    // Names and kernels: a part will do.
    assert_eq!(result(&store, |f| f.name = some("xfs")), [1]);
    assert_eq!(result(&store, |f| f.name = some("100%")), [2]);
    assert_eq!(result(&store, |f| f.name = some("x*")), [] as [i64; 0]);
    assert_eq!(result(&store, |f| f.kernel = some("6.1")), [2, 3]);
    assert_eq!(result(&store, |f| f.kernel = some("6.1*")), [1, 2, 3]);
    assert_eq!(result(&store, |f| f.kernel = some("x86")), [1, 2, 3]);
    assert_eq!(result(&store, |f| f.kernel = some("12.0")), [] as [i64; 0]);
    // All others: the whole word, or a pattern.
    assert_eq!(result(&store, |f| f.host = some("a1")), [1]);
    assert_eq!(result(&store, |f| f.host = some("a")), [] as [i64; 0]);
    assert_eq!(result(&store, |f| f.host = some("a?")), [1, 2]);
    assert_eq!(result(&store, |f| f.tags = list(&["v1"])), [1]);
    assert_eq!(result(&store, |f| f.tags = list(&["v*"])), [1, 2]);
    assert_eq!(result(&store, |f| f.tags = list(&["v*", "night*"])), [1]);
    assert_eq!(result(&store, |f| f.arms = list(&["ext4"])), [1, 2, 3]);
    assert_eq!(result(&store, |f| f.arms = list(&["ext4", "xfs"])), [] as [i64; 0]);
    assert_eq!(result(&store, |f| f.workloads = list(&["random-*"])), [1], "only what has runs");
    assert_eq!(result(&store, |f| f.status = Some(TrialStatus::Running)), [2, 3]);
    assert_eq!(
        result(&store, |f| (f.status, f.host) = (Some(TrialStatus::Running), some("a1"))),
        [] as [i64; 0]
    );
}

#[test]
fn times_are_compared_by_the_second() {
    let store = store();
    assert_eq!(result(&store, |f| f.since = some("2026-01-02T23:59:59Z")), [2, 3]);
    assert_eq!(result(&store, |f| f.since = some("2026-01-03T00:00:00Z")), [3]);
    assert_eq!(result(&store, |f| f.until = some("2026-01-03T00:00:00Z")), [1, 2]);
    assert_eq!(result(&store, |f| f.until = some("2026-01-02T03:04:05Z")), [] as [i64; 0]);
}

#[test]
fn filter_values_are_not_executed_as_sql() {
    let store = store();
    // Times are compared as texts: a text that begins below a digit sorts before every trial, one that begins above the
    // digits after them.
    let (all, none): (&[i64], &[i64]) = (&[1, 2, 3], &[]);
    for (text, since) in [
        ("' OR 1=1 --", all),
        ("\"]}", all),
        ("%", all),
        ("_", none),
        ("\\", none),
        ("'); DROP TABLE trial; --", all),
        ("\0", all),
    ] {
        assert_eq!(result(&store, |f| f.host = some(text)), [] as [i64; 0], "{text}");
        assert_eq!(result(&store, |f| f.tags = list(&[text])), [] as [i64; 0], "{text}");
        assert_eq!(result(&store, |f| f.since = some(text)), since, "{text}");
    }
    assert_eq!(result(&store, |_| {}), [1, 2, 3]);
}

#[test]
fn tags_are_added_once_and_taken_off() {
    let mut store = store();
    store.change_tags(TrialId(1), &list(&["v1", "b", "a"]), &list(&["nightly", "unknown"])).unwrap();
    assert_eq!(store.trial(TrialId(1)).unwrap().summary.tags, ["a", "b", "v1"]);
    let error = store.change_tags(TrialId(9), &list(&["a"]), &[]).unwrap_err();
    assert!(matches!(error, StoreError::NoSuchTrial { .. }), "{error}");
}

#[test]
fn a_trial_has_a_bounded_number_of_tags() {
    let mut store = store();
    let many: Vec<String> = (0..=MAX_TAGS).map(|number| format!("t{number}")).collect();
    store.change_tags(TrialId(1), &many[1..], &list(&["nightly", "v1"])).unwrap();
    let error = store.change_tags(TrialId(1), &many, &[]).unwrap_err();
    assert!(matches!(error, StoreError::TooManyTags { .. }), "{error}");
    assert_eq!(store.trial(TrialId(1)).unwrap().summary.tags.len(), MAX_TAGS);
    store.change_tags(TrialId(1), &many[..1], &many[1..2]).unwrap();
}

#[test]
fn summary_counts_runs_and_names_last_host() {
    let mut store = store();
    let summary = store.trial(TrialId(1)).unwrap().summary;
    // Run 12 failed in round 6; arms of one name have runs 0, 2, 12 in rounds 0, 1, 6.
    assert_eq!((summary.rounds, summary.runs, summary.failed_runs), (3, 3, 0));
    assert_eq!((summary.host.as_deref(), summary.kernel.as_deref()), (Some("a1"), Some("6.12.0 x86_64")));
    let moved = NewSession { environment: r#"{"host":"b","kernel":"7"}"#, ..SESSION };
    store.reopen_trial(TrialId(1), &moved).unwrap();
    assert_eq!(store.trial(TrialId(1)).unwrap().summary.host.as_deref(), Some("b"));
    // Either session's place finds it.
    assert_eq!(result(&store, |f| f.host = some("a1")), [1]);
    assert_eq!(result(&store, |f| f.host = some("b")), [1]);
    common::record(&mut store, TrialId(1), 20).unwrap();
    assert_eq!(store.trial(TrialId(1)).unwrap().summary.runs, 4);
}
