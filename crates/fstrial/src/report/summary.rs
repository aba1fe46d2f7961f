//! The answer in a few lines: who leads, who is behind, who could not be told apart.

use super::{
    document::{Document, VerdictReport, WorkloadReport},
    numbers,
};
use crate::run::{
    judge::{ContrastState, Outcome},
    plan::threads_in_words,
};
use fstrial_model::trial::Metric;

/// One line for each workload and level: `random-write, 1 thread: xfs leads; ext4 has 0.74× its throughput`.
pub fn lines(document: &Document) -> Vec<String> {
    document.workloads.iter().flat_map(workload_lines).collect()
}

fn workload_lines(workload: &WorkloadReport) -> Vec<String> {
    let mut levels: Vec<u16> = workload.cells.iter().map(|cell| cell.threads).collect();
    levels.dedup();
    levels.into_iter().filter_map(|threads| level_line(workload, threads)).collect()
}

fn level_line(workload: &WorkloadReport, threads: u16) -> Option<String> {
    let of_level = |report: &&VerdictReport| {
        report.contrast.threads == threads && report.contrast.metric == Metric::Throughput
    };
    let reports: Vec<&VerdictReport> = workload.verdicts.iter().filter(of_level).collect();
    let verdicts: Vec<&ContrastState> = reports.iter().map(|report| &report.contrast).collect();
    if verdicts.iter().all(|state| state.ratio.is_none()) {
        return None;
    }
    let cells =
        workload.cells.iter().filter(|cell| cell.threads == threads && !cell.failed && cell.cannot.is_none());
    let (behind, leading): (Vec<&str>, Vec<&str>) =
        cells.map(|cell| cell.arm.as_str()).partition(|arm| is_behind(arm, &verdicts));
    let first = leading.first()?;
    let mut parts = vec![match leading.as_slice() {
        [one] => format!("{one} leads"),
        several if are_equivalent(several, &verdicts) => format!("{} are equivalent", several.join(" and ")),
        several => format!("{} could not be told apart", several.join(" and ")),
    }];
    parts.extend(behind.iter().map(|arm| match ratio_to(&verdicts, arm, first) {
        Some(ratio) if workload.less_is_better => {
            format!("{arm} takes {} what {first} takes", numbers::ratio(ratio))
        }
        Some(ratio) => format!("{arm} has {} the throughput of {first}", numbers::ratio(ratio)),
        None => format!("{arm} is behind"),
    }));
    let unequal = reports.iter().any(|report| report.unequal_durability.is_some());
    let unequal = if unequal { " (UNEQUAL DURABILITY, see above)" } else { "" };
    Some(format!("{}, {}: {}{unequal}", workload.title(), threads_in_words(threads), parts.join("; ")))
}

/// Whether any other arm was found to be faster.
fn is_behind(arm: &str, verdicts: &[&ContrastState]) -> bool {
    verdicts.iter().any(|state| {
        (state.a == arm && state.verdict == Outcome::Slower)
            || (state.b == arm && state.verdict == Outcome::Faster)
    })
}

fn are_equivalent(arms: &[&str], verdicts: &[&ContrastState]) -> bool {
    let among =
        |state: &&&ContrastState| arms.contains(&state.a.as_str()) && arms.contains(&state.b.as_str());
    verdicts.iter().filter(among).all(|state| state.verdict == Outcome::Equivalent)
}

/// The ratio of an arm to another, whichever way round the contrast is.
fn ratio_to(verdicts: &[&ContrastState], arm: &str, other: &str) -> Option<f64> {
    verdicts.iter().find_map(|state| match (state.a.as_str(), state.b.as_str()) {
        (a, b) if (a, b) == (arm, other) => state.ratio,
        (a, b) if (b, a) == (arm, other) => state.ratio.map(|ratio| 1.0 / ratio),
        _ => None,
    })
}
