//! Caveats for a screen: the finding of each remark, which ends at its first colon or semicolon. Remarks common to
//! several workloads are merged. The report has the remarks in full.

use super::{
    at_device,
    document::{Document, WorkloadReport},
    first_lap, numbers, quotient, summary, table, verdict,
};
use fstrial_model::metric::Metric;
use fstrial_run::contrast::{Assay, ContrastState, Outcome};

/// Remarks that are shown of a stored trial.
const MOST: usize = 6;
/// A finding is longer than that.
const LEAST_FINDING: usize = 20;

/// Displayed part of each remark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remarked {
    /// Its finding, of the gravest.
    InShort,
    /// All of it, of all.
    InFull,
}

/// The remarks, gravest first.
pub(super) fn remarks(document: &Document, remarked: Remarked) -> Vec<String> {
    let mut all = document.failures.clone();
    all.extend(document.losses().into_iter().map(|(_, loss)| loss));
    all.extend(unequal(document));
    all.extend(cannot(document));
    all.extend(blind_controls(document));
    let report = document.report_command().filter(|_| remarked == Remarked::InShort);
    let short = |line: String| if report.is_some() { finding(&line).to_owned() } else { line };
    all.extend(document.warnings.iter().cloned().map(short));
    all.extend(of_workloads(document, &short));
    if document.claim.is_none() {
        all.extend(summary::limits(document));
    }
    all.extend(slow_tails(document));
    all.extend(audit(document, report.is_some()));
    if let Some(report) = report.filter(|_| all.len() > MOST) {
        let more = all.split_off(MOST - 1).len();
        all.push(format!("{}: {report}", numbers::counted(more, "further remark")));
    }
    all
}

/// A remark up to its first colon or semicolon.
fn finding(line: &str) -> &str {
    let ends =
        [": ", "; "].map(|end| line.match_indices(end).map(|(at, _)| at).find(|at| *at >= LEAST_FINDING));
    &line[..ends.into_iter().flatten().min().unwrap_or(line.len())]
}

fn unequal(document: &Document) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for report in document.workloads.iter().flat_map(|workload| &workload.verdicts) {
        let (a, b) = (&report.contrast.a, &report.contrast.b);
        let line = report.unequal_durability.as_ref();
        let line = line.map(|reason| format!("UNEQUAL DURABILITY of {a} and {b}: {reason}"));
        lines.extend(line.filter(|line| !lines.contains(line)));
    }
    lines
}

fn cannot(document: &Document) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let is_one = document.workloads.windows(2).all(|two| two[0].name == two[1].name);
    for workload in &document.workloads {
        let of = if is_one { String::new() } else { format!("{}: ", workload.name) };
        for line in table::cannot(workload).into_iter().map(|line| of.clone() + &line) {
            lines.extend(Some(line).filter(|line| !lines.contains(line)));
        }
    }
    lines
}

/// Effects that runs were too short for, and idle devices; with their workloads, unless it is true of all.
fn of_workloads(document: &Document, short: &dyn Fn(String) -> String) -> Vec<String> {
    let notes = |workload: &WorkloadReport| {
        let lap = first_lap::notes(workload).into_iter();
        // Of a rate that was looked for every arm's is in a sentence, next to the ratio.
        let quotient = workload.promise.as_ref().and_then(|_| quotient::note(workload));
        at_device::note(workload).into_iter().chain(lap).chain(quotient).collect::<Vec<_>>()
    };
    let mut reported: Vec<(String, Vec<String>)> = Vec::new();
    let main = || document.workloads.iter().filter(|workload| !workload.secondary);
    for workload in main() {
        for line in notes(workload).into_iter().map(short) {
            match reported.iter_mut().find(|(known, _)| *known == line) {
                Some((_, titles)) => titles.push(workload.title()),
                None => reported.push((line, vec![workload.title()])),
            }
        }
    }
    let all = main().count();
    let words = |(line, titles): (String, Vec<String>)| match titles.len() == all {
        true => line,
        false => format!("{}: {line}", titles.join(", ")),
    };
    reported.into_iter().map(words).collect()
}

/// Controls that void dependent findings, each in full.
fn blind_controls(document: &Document) -> Vec<String> {
    let is_blind = |state: &&ContrastState| {
        state.control.is_some_and(|control| matches!(control.found, Assay::Unseen | Assay::Overdosed))
    };
    let all = document.workloads.iter().flat_map(|workload| &workload.controls);
    all.filter(is_blind).filter_map(verdict::control_line).collect()
}

/// Number of detected planted slowdowns; nothing without any.
pub(super) fn controls_in_short(document: &Document) -> Option<String> {
    let all = || document.workloads.iter().flat_map(|workload| &workload.controls);
    let seen =
        all().filter(|state| state.control.is_some_and(|control| control.found == Assay::Seen)).count();
    (all().count() > 0).then(|| format!("{seen} of {} planted slowdowns seen", all().count()))
}

/// Unrequested findings of a decidedly higher p99: `p99 of xfs is higher than that of ext4 in 2 cases`.
fn slow_tails(document: &Document) -> Option<String> {
    let mut found: Vec<((&str, &str), usize)> = Vec::new();
    for state in document.workloads.iter().flat_map(WorkloadReport::states) {
        let pair = match state.verdict {
            Outcome::Slower => (state.a.as_str(), state.b.as_str()),
            Outcome::Faster => (state.b.as_str(), state.a.as_str()),
            _ => continue,
        };
        if state.metric != Metric::P99 || state.holds_open {
            continue;
        }
        summary::count(&mut found, pair);
    }
    let words = |((high, low), times): &((&str, &str), usize)| {
        format!("{high} is higher than that of {low} in {}", numbers::counted(*times, "case"))
    };
    let words: Vec<String> = found.iter().map(words).collect();
    (!words.is_empty()).then(|| format!("p99 of {}", words.join(", of ")))
}

/// Other differences between the arms; in the short form only their names.
fn audit(document: &Document, is_short: bool) -> Vec<String> {
    if !is_short {
        return document.audit.clone();
    }
    let is_planted = |line: &&String| line.contains("on purpose");
    let planted = document.audit.iter().filter(is_planted).cloned();
    let unasked = document.audit.iter().filter(|line| !is_planted(line));
    let names = unasked.filter_map(|line| line.split_once(": ").map(|(name, _)| name));
    let names: Vec<&str> = names.filter(|name| !name.ends_with("(as requested)")).collect();
    let differ = (!names.is_empty()).then(|| format!("the arms also differ in {}", summary::listed(&names)));
    planted.chain(differ).collect()
}
