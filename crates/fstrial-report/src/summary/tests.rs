//! Summaries of verdicts of every kind; no sentence reports an undecided comparison as a result.

use super::{
    bottom::{Less, Tally, bottom_line_of, in_of, leads, of_two},
    *,
};
use crate::document::{CellReport, VerdictReport, WorkloadReport};
use proptest::prelude::*;

fn cell(arm: &str) -> CellReport {
    CellReport { arm: arm.into(), threads: 1, runs: 8, rate: Some(100.0), ..CellReport::default() }
}

fn verdict(a: &str, b: &str, verdict: Outcome, ratio: f64, interval: Option<(f64, f64)>) -> VerdictReport {
    let contrast = ContrastState {
        verdict,
        ratio: Some(ratio),
        interval,
        threads: 1,
        ..ContrastState::between(a, b, "random-write")
    };
    VerdictReport { contrast, unequal_durability: None }
}

/// Undecided, though its own interval excludes 1.
fn likely(a: &str, b: &str, ratio: f64, interval: (f64, f64)) -> VerdictReport {
    let report = verdict(a, b, Outcome::Undecided, ratio, Some(interval));
    VerdictReport { contrast: ContrastState { suggestive: true, ..report.contrast }, ..report }
}

fn workload(arms: &[&str], verdicts: Vec<VerdictReport>) -> WorkloadReport {
    let cells = arms.iter().map(|arm| cell(arm)).collect();
    WorkloadReport {
        name: "random-write".into(),
        unit: "op/s".into(),
        cells,
        verdicts,
        ..WorkloadReport::default()
    }
}

fn message(workload: &WorkloadReport) -> Vec<String> {
    rankings_of(workload).iter().map(Ranking::line).collect()
}

#[test]
fn summary_compares_arm_with_proven_faster_one() {
    let verdicts = vec![
        verdict("xfs", "ext4", Outcome::Undecided, 1.19, Some((0.9, 1.5))),
        verdict("btrfs", "ext4", Outcome::Undecided, 0.68, Some((0.56, 1.09))),
        verdict("btrfs", "xfs", Outcome::Slower, 0.57, Some((0.4, 0.8))),
    ];
    let lines = message(&workload(&["ext4", "xfs", "btrfs"], verdicts));
    assert_eq!(
        lines,
        [
            "random-write, 1 thread: not decided between ext4 and xfs; btrfs has 0.57× [0.40, 0.80] the throughput of xfs; \
          xfs / ext4 1.19× [0.90, 1.50], open: a decision is out of reach at this noise; \
          btrfs / ext4 0.68× [0.56, 1.090], open: a decision is out of reach at this noise"
        ]
    );
}

/// A ratio has one direction: the one that the table below has.
#[test]
fn two_arm_ratio_matches_table_direction() {
    let of = |a, b, outcome, ratio, less_is_better| {
        let verdicts = vec![verdict(a, b, outcome, ratio, Some((ratio * 0.9, ratio * 1.1)))];
        message(&WorkloadReport { less_is_better, ..workload(&["ext4", "xfs"], verdicts) }).concat()
    };
    assert_eq!(
        [
            of("xfs", "ext4", Outcome::Faster, 1.26, false),
            of("xfs", "ext4", Outcome::Slower, 0.8, false),
            of("xfs", "ext4", Outcome::Faster, 0.8, true),
            of("xfs", "ext4", Outcome::Slower, 1.26, true),
        ],
        [
            "random-write, 1 thread: xfs leads with 1.26× [1.13, 1.39] the throughput of ext4",
            "random-write, 1 thread: ext4 leads; xfs has 0.80× [0.72, 0.88] the throughput of ext4",
            "random-write, 1 thread: xfs leads: it takes 0.80× [0.72, 0.88] as much as ext4",
            "random-write, 1 thread: ext4 leads; xfs takes 1.26× [1.13, 1.39] as much as ext4",
        ]
    );
}

#[test]
fn three_arm_summary_names_slowest_only_if_decided() {
    let of = |third| {
        let verdicts = vec![
            verdict("xfs", "ext4", Outcome::Faster, 2.0, Some((1.5, 2.5))),
            verdict("btrfs", "ext4", third, 0.6, Some((0.3, 0.9))),
            verdict("btrfs", "xfs", Outcome::Slower, 0.3, Some((0.2, 0.4))),
        ];
        message(&workload(&["ext4", "xfs", "btrfs"], verdicts)).remove(0)
    };
    let last = "; btrfs has 0.60× [0.30, 0.90] the throughput of ext4";
    assert!(of(Outcome::Slower).ends_with(last), "{}", of(Outcome::Slower));
    assert!(!of(Outcome::Undecided).contains("0.60"), "{}", of(Outcome::Undecided));
}

#[test]
fn baseline_summary_compares_each_arm_with_baseline() {
    let verdicts = vec![
        verdict("noatime", "plain", Outcome::Equivalent, 1.0, Some((0.99, 1.01))),
        verdict("writeback", "plain", Outcome::Faster, 1.2, Some((1.1, 1.3))),
        likely("lazy", "plain", 1.3, (1.02, 1.6)),
    ];
    let report = WorkloadReport {
        has_baseline: true,
        ..workload(&["plain", "noatime", "writeback", "lazy"], verdicts)
    };
    let bottom = bottom_line_of(std::slice::from_ref(&report));
    insta::assert_snapshot!(message(&report).into_iter().chain(bottom).collect::<Vec<_>>().join("\n"));
}

#[test]
fn summary_reports_nearly_equal_arms() {
    let of = |arms: &[&str], near: &[(f64, bool)]| {
        let pairs = (0..arms.len()).flat_map(|one| (0..one).map(move |other| (arms[one], arms[other])));
        let verdicts = pairs.zip(near).map(|((a, b), (within, near))| {
            let mut report = verdict(a, b, Outcome::Undecided, 1.02, Some((0.96, 1.08)));
            (report.contrast.within_percent, report.contrast.near) = (Some(*within), *near);
            report
        });
        message(&workload(arms, verdicts.collect())).remove(0)
    };
    let lines = [
        of(&["ext4", "xfs"], &[(10.0, true)]),
        of(&["ext4", "xfs"], &[(10.0, false)]),
        of(&["ext4", "xfs", "btrfs"], &[(5.0, true), (10.0, true), (5.0, true)]),
        of(&["ext4", "xfs", "btrfs"], &[(5.0, true), (10.0, false), (5.0, true)]),
    ];
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn summary_marks_likely_and_unconfirmed_leads() {
    let between = ("xfs", "ext4");
    let mut stalls = likely(between.0, between.1, 1.04, (1.01, 1.07));
    (stalls.contrast.suggestive, stalls.contrast.waits_for_total) = (false, true);
    let mut soon = likely(between.0, between.1, 1.34, (1.02, 1.64));
    soon.contrast.rounds_needed = Some((1, 1));
    let three = vec![
        likely("xfs", "ext4", 0.9, (0.8, 0.99)),
        verdict("btrfs", "ext4", Outcome::Undecided, 1.0, Some((0.5, 2.0))),
        verdict("btrfs", "xfs", Outcome::Undecided, 1.0, Some((0.5, 2.0))),
    ];
    let lines = [
        message(&workload(&["ext4", "xfs"], vec![stalls])),
        message(&workload(&["ext4", "xfs"], vec![soon])),
        message(&workload(&["ext4", "xfs", "btrfs"], three)),
    ];
    insta::assert_snapshot!(lines.concat().join("\n"));
}

#[test]
fn undecided_results_report_their_reason() {
    let reason = |outcome, ratio, interval, more: Option<(u64, u64)>, at_limit: bool| {
        let mut report = verdict("xfs", "ext4", outcome, ratio, interval);
        report.contrast.rounds_needed = more;
        let mut workload = workload(&["ext4", "xfs"], vec![report]);
        workload.cells.iter_mut().for_each(|cell| cell.at_limit = at_limit);
        message(&workload).remove(0)
    };
    let lines = [
        reason(Outcome::Undecided, 2.78, None, None, false),
        reason(Outcome::Undecided, 1.61, Some((0.93, 2.8)), Some((8, 20)), false),
        reason(Outcome::Undecided, 1.004, Some((0.96, 1.05)), Some((8, 20)), false),
        reason(Outcome::Undecided, 1.61, Some((0.93, 2.8)), None, false),
        reason(Outcome::Insensitive, 1.0, Some((0.99, 1.01)), None, false),
        reason(Outcome::Insensitive, 1.0, Some((0.99, 1.01)), None, true),
        reason(Outcome::Equivalent, 1.0, Some((0.99, 1.01)), None, true),
        reason(Outcome::Equivalent, 1.0, Some((0.99, 1.01)), None, false),
    ];
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn the_bottom_line_counts_verdicts() {
    let of = |reports: &[VerdictReport]| {
        let mut tally = Tally::default();
        reports.iter().for_each(|report| tally.add(report));
        of_two("xfs", "ext4", &tally, Less::IsWorse)
    };
    let faster = |ratio| verdict("xfs", "ext4", Outcome::Faster, ratio, Some((1.2, 2.0)));
    let on = |metric, outcome| {
        let mut report = verdict("xfs", "ext4", outcome, 0.8, Some((0.7, 0.9)));
        report.contrast.metric = metric;
        report
    };
    let undecided = || verdict("xfs", "ext4", Outcome::Undecided, 1.1, None);
    let equivalent = || verdict("xfs", "ext4", Outcome::Equivalent, 1.0, Some((0.99, 1.01)));
    let slower = || verdict("xfs", "ext4", Outcome::Slower, 0.5, Some((0.4, 0.6)));
    let lines = [
        of(&[faster(1.5), faster(1.8)]),
        of(&[faster(1.5), on(Metric::P99, Outcome::Faster), on(Metric::DeviceBytes, Outcome::Equivalent)]),
        of(&[faster(1.5), on(Metric::P99, Outcome::Undecided), on(Metric::DeviceBytes, Outcome::Equivalent)]),
        of(&[faster(1.5), on(Metric::P99, Outcome::Slower)]),
        of(&[faster(1.5), slower(), equivalent(), undecided()]),
        of(&[equivalent(), equivalent()]),
        of(&[undecided(), undecided()]),
        of(&[slower(), slower(), faster(1.5)]),
        of(&[slower(), on(Metric::P99, Outcome::Slower), on(Metric::DeviceBytes, Outcome::Equivalent)]),
        of(&[slower(), on(Metric::P99, Outcome::Faster)]),
    ];
    insta::assert_snapshot!(lines.join("\n"));
    let both = [slower(), faster(0.5)];
    let mut tally = Tally::default();
    both.iter().for_each(|report| tally.add(report));
    let reported = |less| of_two("xfs", "ext4", &tally, less);
    insta::assert_snapshot!([reported(Less::IsBetter), reported(Less::Differs)].join("\n"));
}

/// Verdicts of every pair of these arms, of any kind.
fn any_verdicts(arms: &'static [&'static str]) -> impl Strategy<Value = Vec<VerdictReport>> {
    let outcomes = prop_oneof![
        Just(Outcome::Faster),
        Just(Outcome::Slower),
        Just(Outcome::Equivalent),
        Just(Outcome::Insensitive),
        Just(Outcome::Undecided)
    ];
    let pairs: Vec<(&str, &str)> =
        (0..arms.len()).flat_map(|one| (0..one).map(move |other| (arms[one], arms[other]))).collect();
    // Further states of an undecided one: probable, not confirmed by the total, close, or none of these.
    let one = (outcomes, 0.2_f64..5.0, proptest::option::of((0.1_f64..0.99, 1.01_f64..9.0)), 0..4_u8);
    prop::collection::vec(one, pairs.len()).prop_map(move |drawn| {
        let reported = drawn.into_iter().zip(&pairs);
        reported
            .map(|((outcome, ratio, interval, kind), (a, b))| {
                let mut report = verdict(a, b, outcome, ratio, interval);
                let state = &mut report.contrast;
                if state.verdict == Outcome::Undecided && state.interval.is_some() {
                    (state.suggestive, state.waits_for_total) = (kind == 1, kind == 2);
                    (state.within_percent, state.near) = ((kind == 3).then_some(10.0), kind == 3);
                }
                report
            })
            .collect()
    })
}

proptest! {
    /// No sentence names a pair as decided that has no verdict, and none reverses one.
    #[test]
    fn summary_claims_only_decided_results(verdicts in any_verdicts(&["a0", "b1", "c2", "d3"])) {
        let result = |slow: &str, fast: &str| verdicts.iter().map(|report| &report.contrast).any(|state| {
            (state.a == slow && state.b == fast && state.verdict == Outcome::Slower)
                || (state.a == fast && state.b == slow && state.verdict == Outcome::Faster)
        });
        let report = workload(&["a0", "b1", "c2", "d3"], verdicts.clone());
        for line in message(&report) {
            for part in line.split("; ") {
                if let Some((slow, fast)) = part.split_once(" the throughput of ") {
                    let slow = slow.rsplit(": ").next().unwrap().split(' ').next().unwrap();
                    prop_assert!(result(slow, fast), "{part}: {verdicts:?}");
                }
                if let Some((leader, _)) = part.split_once(" leads") {
                    let leader = leader.rsplit(": ").next().unwrap();
                    let ahead = ["a0", "b1", "c2", "d3"].iter().any(|arm| result(arm, leader));
                    prop_assert!(ahead && !["a0", "b1", "c2", "d3"].iter().any(|arm| result(leader, arm)), "{line}");
                }
            }
            // Either will do only if no pair of those that lead is open in another way, and nothing is probable of them.
            if line.contains("will do") {
                let ranking = &rankings_of(&report)[0];
                let is_between = |state: &&ContrastState| {
                    ranking.leading.contains(&state.a.as_str()) && ranking.leading.contains(&state.b.as_str())
                };
                let between: Vec<_> =
                    verdicts.iter().map(|report| &report.contrast).filter(is_between).collect();
                prop_assert!(
                    between.iter().all(|state| state.verdict == Outcome::Equivalent || state.near),
                    "{line}: {between:?}"
                );
            }
            for (word, is_so) in [("probably", 1), ("does not bear it out", 2)] {
                let kinds = |state: &ContrastState| if is_so == 1 { state.suggestive } else { state.waits_for_total };
                prop_assert!(!line.contains(word) || verdicts.iter().any(|report| kinds(&report.contrast)), "{line}");
            }
            if line.contains("are equivalent") {
                let leading = rankings_of(&report)[0].leading.len();
                let same = verdicts.iter().filter(|report| report.contrast.verdict == Outcome::Equivalent).count();
                prop_assert!(same >= leading * (leading - 1) / 2, "{line}");
            }
        }
    }

    /// Decided pairs are never reported as open.
    #[test]
    fn decided_pairs_are_never_reported_open(verdicts in any_verdicts(&["a0", "b1", "c2"]), with_base in any::<bool>()) {
        let decided = verdicts.into_iter().filter(|report| !with_base || report.contrast.b == "a0").map(|mut report| {
            let verdict = &mut report.contrast.verdict;
            if matches!(verdict, Outcome::Undecided | Outcome::Insensitive) {
                *verdict = Outcome::Equivalent;
            }
            report
        });
        let report = workload(&["a0", "b1", "c2"], decided.collect());
        let lines = message(&WorkloadReport { has_baseline: with_base, ..report });
        prop_assert!(lines.iter().all(|line| !line.contains("decided") && !line.contains("open")), "{lines:?}");
        // Cyclic verdicts have no leader.
        let expected = if with_base { 2..=2 } else { 0..=1 };
        prop_assert!(expected.contains(&lines.len()), "{lines:?}");
    }

    #[test]
    fn the_bottom_line_of_two_arms_has_as_many_as_were_found(
        outcomes in prop::collection::vec(any_verdicts(&["ext4", "xfs"]), 1..12)
    ) {
        let all: Vec<&VerdictReport> = outcomes.iter().flatten().collect();
        let mut tally = Tally::default();
        all.iter().for_each(|report| tally.add(report));
        let line = of_two("xfs", "ext4", &tally, Less::IsWorse);
        let count = |outcome| all.iter().filter(|report| report.contrast.verdict == outcome).count();
        let reported = |some: usize| in_of(some, all.len());
        prop_assert_eq!(line.contains(&format!("xfs is faster {}", reported(count(Outcome::Faster)))), count(Outcome::Faster) > 0);
        prop_assert_eq!(line.contains(&format!("ext4 is faster {}", reported(count(Outcome::Slower)))), count(Outcome::Slower) > 0);
        prop_assert_eq!(line.contains("is faster in all") || line.contains("is faster in both"), (count(Outcome::Faster) == all.len() || count(Outcome::Slower) == all.len()) && all.len() > 1);
    }

    /// In several cases with three arms: the fastest of a case leads alone there, and the slowest one is so
    /// everywhere.
    #[test]
    fn the_bottom_line_of_three_arms_is_borne_out(
        all in prop::collection::vec(any_verdicts(&["a0", "b1", "c2"]), 2..5)
    ) {
        let cases: Vec<WorkloadReport> =
            all.iter().map(|verdicts| workload(&["a0", "b1", "c2"], verdicts.clone())).collect();
        let line = leads(&cases).unwrap_or_default();
        let ahead = |verdicts: &[VerdictReport], slow: &str, fast: &str| {
            verdicts.iter().map(|report| &report.contrast).any(|state| {
                (state.a == slow && state.b == fast && state.verdict == Outcome::Slower)
                    || (state.a == fast && state.b == slow && state.verdict == Outcome::Faster)
            })
        };
        for arm in ["a0", "b1", "c2"] {
            let others = || ["a0", "b1", "c2"].into_iter().filter(move |other| *other != arm);
            let is_behind_all = |verdicts: &Vec<VerdictReport>| others().all(|other| ahead(verdicts, arm, other));
            prop_assert!(!line.contains(&format!("{arm} is slowest")) || all.iter().all(is_behind_all), "{line}: {all:?}");
            let alone = all.iter().filter(|verdicts| {
                others().any(|other| ahead(verdicts, other, arm)) && !others().any(|other| ahead(verdicts, arm, other))
            });
            let most = alone.count();
            if line.contains(&format!("{arm} is fastest in all")) {
                prop_assert!(most == all.len(), "{line}: {all:?}");
            }
            prop_assert!(most > 0 || !line.contains(&format!("{arm} is fastest")), "{line}: {all:?}");
        }
    }
}
