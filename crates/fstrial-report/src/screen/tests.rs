//! The screen of made-up trials, in the columns and lines of a terminal.

use super::*;
use crate::{
    document::{CellReport, VerdictReport, WorkloadReport},
    stdout::folded,
};
use anstream::adapter::strip_str;
use fstrial_model::unit;
use fstrial_run::contrast::{ContrastState, Outcome};

/// A verdict on one arm over another, with its basis.
fn verdict(a: &str, b: &str, threads: u16, verdict: Outcome, ratio: f64) -> VerdictReport {
    let rounds = if verdict == Outcome::Undecided { 3 } else { 9 };
    let interval = (rounds > 3).then_some((ratio * 0.97, ratio * 1.03));
    let interval_level = if verdict == Outcome::Equivalent { 0.9 } else { 0.95 };
    let contrast = ContrastState {
        threads,
        verdict,
        ratio: Some(ratio),
        interval,
        interval_level,
        rounds,
        unseen_stalls_percent: 28.3,
        ..ContrastState::between(a, b, "w")
    };
    VerdictReport { contrast, unequal_durability: None }
}

/// A workload in which these arms have these rates; each is compared with those before it, and 3 % are no difference.
fn workload(name: &str, levels: &[u16], rates: &[(&str, f64)]) -> WorkloadReport {
    let cell = |threads: u16, arm: &str, rate: f64| CellReport {
        arm: arm.into(),
        threads,
        runs: 9,
        rate: Some(rate * f64::from(threads)),
        ..CellReport::default()
    };
    let cells = levels.iter().flat_map(|level| rates.iter().map(|(arm, rate)| cell(*level, arm, *rate)));
    let pairs = levels.iter().flat_map(|level| {
        let before = |index: usize| rates[..index].iter().map(move |other| (index, other));
        (0..rates.len()).flat_map(before).map(move |(index, (other, rate))| {
            let ratio = rates[index].1 / rate;
            let outcome = match ratio {
                ..0.97 => Outcome::Slower,
                1.03.. => Outcome::Faster,
                _ => Outcome::Equivalent,
            };
            verdict(rates[index].0, other, *level, outcome, ratio)
        })
    });
    WorkloadReport {
        name: name.into(),
        unit: unit::OPERATIONS.into(),
        duration_seconds: Some(1.0),
        cells: cells.collect(),
        verdicts: pairs.collect(),
        ..WorkloadReport::default()
    }
}

fn shown(workloads: Vec<WorkloadReport>, columns: usize) -> String {
    let document = Document {
        trial_id: Some(4),
        ended: "decided",
        rounds: 9,
        practical_percent: 3.0,
        seed: "0x7".into(),
        has_begun: true,
        warnings: vec!["the load generator's own loop is about 4 % of an operation on ext4: differences are larger than they look".into()],
        audit: vec!["journal: metadata (ext4) · none (btrfs)".into(), "checksums: none (ext4) · all (btrfs)".into()],
        workloads,
        ..Document::default()
    };
    let text = folded(&strip_str(&render(&document, Some(columns), Remarked::InShort)).to_string(), columns);
    assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
    text
}

#[test]
fn three_filesystems_three_workloads_and_two_levels_fit_on_a_screen() {
    let arms = |ext4, xfs, btrfs| [("ext4", ext4), ("xfs", xfs), ("btrfs", btrfs)];
    let workloads = || {
        vec![
            workload("random-write", &[1, 4], &arms(13_200.0, 13_250.0, 8150.0)),
            workload("append-fsync", &[1, 4], &arms(2510.0, 3440.0, 1650.0)),
            workload("create-files", &[1, 4], &arms(2790.0, 3100.0, 295.0)),
        ]
    };
    let narrow = shown(workloads(), 80);
    assert!(narrow.lines().count() <= 24, "{narrow}");
    insta::assert_snapshot!("screen", format!("{narrow}\n{}", shown(workloads(), 120)));
}

#[test]
fn screen_marks_near_open_and_server_results() {
    let mut near = workload("wal-group-commit", &[4], &[("ext4", 542.0), ("xfs", 541.5)]);
    let state = &mut near.verdicts[0].contrast;
    (state.verdict, state.near, state.within_percent) = (Outcome::Undecided, true, Some(10.0));
    let mut open = workload("append-fsync", &[2], &[("xfs", 2151.0), ("btrfs", 780.0)]);
    open.verdicts = vec![verdict("btrfs", "xfs", 2, Outcome::Undecided, 0.41)];
    open.verdicts[0].unequal_durability = Some("no cache flushes (barriers off) on xfs".into());
    let mut rate = workload("pgbench", &[8], &[("ext4", 200.0), ("xfs", 180.0)]);
    rate.unit = "tps".into();
    let mut p50 = workload("pgbench", &[8], &[("ext4", 1.2e6), ("xfs", 1.4e6)]);
    (p50.phase, p50.unit, p50.secondary, p50.less_is_better) =
        ("latency-p50".into(), unit::TIME.into(), true, true);
    let state = &mut p50.verdicts[0].contrast;
    (state.less_is_better, state.verdict) = (true, Outcome::Slower);
    let five = [("a", 100.0), ("b", 90.0), ("c", 100.5), ("a-long-name", 12.0), ("e", 99.9)];
    let many = workload("create-files", &[1, 2, 4], &five);
    // A metric of which less is better is named in the answer.
    let mut sync = workload("etcd", &[1], &[("ext4", 3.7e6), ("xfs", 3.8e6)]);
    (sync.phase, sync.unit, sync.less_is_better) = ("sync-p99".into(), unit::TIME.into(), true);
    let state = &mut sync.verdicts[0].contrast;
    (state.less_is_better, state.verdict) = (true, Outcome::Undecided);
    let all = [vec![near], vec![open], vec![rate, p50], vec![many], vec![sync]]
        .map(|workloads| shown(workloads, 80));
    insta::assert_snapshot!("screens", all.join("\n———\n\n"));
}

#[test]
fn suggests_longer_runs_if_rounds_cannot_decide() {
    let document = |repeat: &str| {
        let mut open = verdict("xfs", "ext4", 1, Outcome::Undecided, 1.1);
        (open.contrast.rounds, open.contrast.interval) = (20, Some((0.8, 1.4)));
        let workload =
            WorkloadReport { verdicts: vec![open], ..workload("w", &[1], &[("ext4", 1.0), ("xfs", 1.1)]) };
        Document {
            trial_id: Some(4),
            ended: "budget-ended",
            rounds: 20,
            has_begun: true,
            repeat: repeat.into(),
            workloads: vec![workload],
            ..Document::default()
        }
    };
    let of = |repeat: &str| next(&document(repeat), true).join("\n");
    assert_eq!(
        [of("fstrial compare ext4 xfs --seed 0x7"), of("fstrial run trial.toml --seed 0x7")],
        [
            "More rounds would hardly decide it; a quieter machine or longer runs (--duration 3s) may.",
            "More rounds would hardly decide it; a quieter machine or longer runs may."
        ]
    );
    let few =
        Document { rounds_are_done: true, ..document("fstrial compare ext4 xfs --rounds 2 --seed 0x7") };
    assert_eq!(
        next(&few, true),
        [
            "All requested rounds were run; without --rounds the trial continues until it is decided or its budget ends."
        ]
    );
}

/// An arm of the workload that failed, or cannot, in its verdicts too.
fn without(mut workload: WorkloadReport, arm: &str, outcome: Outcome) -> WorkloadReport {
    for cell in workload.cells.iter_mut().filter(|cell| cell.arm == arm) {
        (cell.rate, cell.failed) = (None, outcome == Outcome::Failed);
        cell.unsupported = (outcome == Outcome::Unsupported).then(|| "it has no snapshots".into());
    }
    for report in &mut workload.verdicts {
        let state = &mut report.contrast;
        if [&state.a, &state.b].contains(&&arm.to_owned()) {
            (state.verdict, state.ratio, state.interval) = (outcome, None, None);
        }
    }
    workload
}

#[test]
fn screen_shows_failed_and_remaining_results() {
    let two = [("ext4", 100.0), ("xfs", 120.0)];
    let first = shown(vec![without(workload("w", &[1], &two), "ext4", Outcome::Failed)], 80);
    let three = [("ext4", 100.0), ("xfs", 120.0), ("btrfs", 50.0)];
    let of_three = |arm, outcome| shown(vec![without(workload("w", &[1, 4], &three), arm, outcome)], 80);
    let baseline = WorkloadReport { has_baseline: true, ..workload("w", &[1], &two) };
    let all = [
        first,
        of_three("ext4", Outcome::Failed),
        of_three("xfs", Outcome::Unsupported),
        shown(vec![without(baseline, "ext4", Outcome::Failed)], 80),
    ];
    for text in &all {
        assert!(text.contains("FAILED") || text.contains("unsupported"), "{text}");
    }
    insta::assert_snapshot!("failed", all.join("\n———\n\n"));
}

#[test]
fn long_table_keeps_open_rows_and_large_differences() {
    let names: Vec<String> = (0..14).map(|n| format!("w{n}")).collect();
    let of = |(n, name): (usize, &String)| {
        workload(name, &[1], &[("ext4", 100.0), ("xfs", if n > 10 { 150.0 } else { 100.0 })])
    };
    let mut all: Vec<WorkloadReport> = names.iter().enumerate().map(of).collect();
    all[3].verdicts = vec![verdict("xfs", "ext4", 1, Outcome::Undecided, 1.1)];
    // The last but one is shown with its p99.
    let mut p99 = verdict("xfs", "ext4", 1, Outcome::Slower, 2.0);
    (p99.contrast.metric, p99.contrast.less_is_better) = (fstrial_model::metric::Metric::P99, true);
    all[12].verdicts.push(p99);
    let text = shown(all, 80);
    for kept in ["w3 ", "w11", "w12", "w13", "  p99", "more: fstrial report 4"] {
        assert!(text.contains(kept), "{kept}: {text}");
    }
    let rows = |name: &str| text.lines().position(|line| line.starts_with(name)).unwrap();
    assert_eq!(rows("  p99"), rows("w12") + 1, "{text}");
    // The sign is that of the figures; of latencies less is better.
    assert!(text.contains("> 2.00") && text.contains("> more"), "{text}");
}

#[test]
fn rows_are_left_out_by_themselves_and_never_all() {
    // Seven phases at two levels, listed phase by phase: both levels of the last one differ.
    let phase = |n: usize| {
        let rates = [("ext4", 100.0), ("xfs", if n == 6 { 150.0 } else { 100.0 })];
        WorkloadReport { phase: format!("phase{n}"), ..workload("bonnie", &[1, 4], &rates) }
    };
    let phases = shown((0..7).map(phase).collect(), 80);
    let rows: Vec<&str> = phases.lines().filter(|line| line.contains(" [")).collect();
    assert_eq!(rows.iter().filter(|row| row.contains("> 1.50")).count(), 2, "{phases}");
    assert!(rows.len() == 12 && phases.contains("… 2 rows more"), "{phases}");

    let names: Vec<String> = (0..15).map(|n| format!("arm{n}")).collect();
    let rates: Vec<(&str, f64)> = names
        .iter()
        .enumerate()
        .map(|(n, name)| (name.as_str(), if n == 9 { 50.0 } else { 100.0 }))
        .collect();
    let arms = shown(vec![workload("create-files", &[1], &rates)], 80);
    assert!(arms.contains("< 0.50") && arms.contains("… 2 rows more"), "{arms}");
}
