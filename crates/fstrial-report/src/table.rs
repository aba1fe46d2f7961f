//! The figures of a workload as rows of text, and the notes below them: in a ticket, a post and a page.

use super::{
    at_device,
    document::{CellReport, Document, VerdictReport, WorkloadReport},
    first_lap, numbers, quotient, served, verdict,
};
use fstrial_model::{metric::Metric, trial::Compare, unit};
use fstrial_run::contrast::{ContrastState, Outcome};

/// Notes on the arms for the reader, each with its name.
pub fn fact_notes(document: &Document) -> Vec<String> {
    let notes = |arm: &super::document::ArmReport| {
        let name = arm.name.clone();
        let facts = arm.facts.clone();
        facts
            .into_iter()
            .flat_map(|facts| facts.notes)
            .map(move |note| format!("{name}: {note}"))
            .collect::<Vec<_>>()
    };
    document.arms.iter().flat_map(notes).collect()
}

/// Course of a workload's run, as text.
pub fn how(workload: &WorkloadReport) -> String {
    match (workload.duration_seconds, workload.warmup_seconds) {
        (Some(duration), Some(_)) if let Some(promise) = &workload.promise => {
            format!("the highest offered rate that keeps {promise}, each offered for {duration} s")
        }
        (Some(duration), Some(warmup)) => {
            format!("{duration} s measured after {warmup} s of warm-up, in every run")
        }
        (Some(duration), None) => format!("{duration} s timed by the server's client, in every run"),
        _ => match workload.repeated {
            Some(times) => format!("the median of {times} times in every run"),
            None => "from beginning to end, in every run".into(),
        },
    }
}

/// Every workload with its notes. The results of one operation share their tools: listed once.
pub fn with_notes(document: &Document) -> Vec<(&WorkloadReport, Vec<String>)> {
    let mut reported = Vec::new();
    let once = |workload| {
        let notes = notes(workload);
        let is_told = std::mem::replace(&mut reported, notes.clone()) == notes;
        (workload, if is_told { Vec::new() } else { notes })
    };
    document.workloads.iter().map(once).collect()
}

/// Effects that a run was too short for, arms without the operation, and the tools of the others:
/// `ext4 by e4defrag 1.47.0 (5-Feb-2023) · xfs by xfs_fsr version 6.1.0`.
pub fn notes(workload: &WorkloadReport) -> Vec<String> {
    let mut lines = cannot(workload);
    let durable = workload.served.as_ref().filter(|served| served.data.is_none());
    let durable = durable.and_then(|served| served.durable.as_ref());
    lines.extend(durable.map(|message| format!("durable: {message}")));
    let mut by_tool: Vec<(Vec<&str>, &str)> = Vec::new();
    for cell in &workload.cells {
        let Some(tool) = cell.tool.as_deref() else { continue };
        match by_tool.iter_mut().find(|(_, known)| *known == tool) {
            Some((arms, _)) if arms.contains(&cell.arm.as_str()) => {}
            Some((arms, _)) => arms.push(&cell.arm),
            None => by_tool.push((vec![&cell.arm], tool)),
        }
    }
    let words: Vec<String> =
        by_tool.iter().map(|(arms, tool)| format!("{} by {tool}", arms.join(", "))).collect();
    lines.extend((!words.is_empty()).then(|| words.join(" · ")));
    lines.extend(served::notes(workload));
    lines.extend(at_device::note(workload));
    lines.extend(first_lap::notes(workload));
    lines.extend(quotient::note(workload));
    lines.extend(workload.controls.iter().filter_map(verdict::control_line));
    lines
}

/// The arms without support for it, each once: `unsupported on ext4: ext4 has no snapshots`.
pub fn cannot(workload: &WorkloadReport) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for cell in &workload.cells {
        let line = cell.unsupported.as_ref().map(|reason| format!("unsupported on {}: {reason}", cell.arm));
        lines.extend(line.filter(|line| !lines.contains(line)));
    }
    lines
}

/// A verdict as text, with its caveats.
pub fn verdict_line(document: &Document, report: &VerdictReport) -> String {
    let unequal = report.unequal_durability.as_deref();
    verdict::line(&report.contrast, document.practical_percent, document.round_seconds, unequal)
}

/// The lines below a workload's figures: its notes, then its verdicts.
pub fn reported(document: &Document, workload: &WorkloadReport, notes: Vec<String>) -> Vec<String> {
    let (aside, full) = told_in_full(workload);
    let mut reported = notes;
    reported.extend(full.into_iter().map(|report| verdict_line(document, report)));
    reported.extend(verdict::undecided_latency(&aside));
    reported
}

/// The verdicts merged into one line, and those with a separate line: a latency that does not decide the trial has one
/// if there is a verdict. Unsupported arms, and the reasons, are in the notes.
fn told_in_full(workload: &WorkloadReport) -> (Vec<&ContrastState>, Vec<&VerdictReport>) {
    let all = workload.verdicts.iter().chain(&workload.leads);
    let (aside, full): (Vec<_>, Vec<_>) = all.partition(|report| is_aside(report));
    let aside = aside.iter().map(|report| &report.contrast).collect();
    (aside, full.into_iter().filter(|report| report.contrast.verdict != Outcome::Unsupported).collect())
}

/// True if a verdict is merged into one line with others: for an undecided latency that does not decide the trial.
pub fn is_aside(report: &VerdictReport) -> bool {
    let state = &report.contrast;
    let unsettled = matches!(state.verdict, Outcome::Undecided | Outcome::Failed | Outcome::Unsupported);
    !state.holds_open && state.metric != Metric::Throughput && unsettled
}

/// Runs from which on a rate has an interval; before that there is the range of its runs.
const RUNS_OF_AN_INTERVAL: usize = 6;

/// From this share of a processor on the generator's own cost is shown.
const GENERATOR_IS_MUCH: f64 = 0.1;

/// A column: its heading, and a cell's text.
type Column = (&'static str, fn(&CellReport) -> Option<String>);

const LOAD_COLUMNS: [Column; 7] = [
    ("MiB/s", |cell| cell.bytes_per_second.map(|bytes| numbers::figure(bytes, unit::BYTES_PER_SECOND))),
    ("p50", |cell| cell.latency_ns?[0].map(numbers::nanos)),
    ("p99", |cell| cell.latency_ns?[1].map(numbers::nanos)),
    ("p99.9", |cell| cell.latency_ns?[2].map(numbers::nanos)),
    ("CPU/op", |cell| cell.cpu_per_operation_ns.map(numbers::nanos)),
    ("own CPU/op", |cell| cell.load_cpu_per_operation_ns.map(numbers::nanos)),
    ("generator", |cell| {
        let is_much = cell.latency_ns.is_some() && cell.generator_share >= GENERATOR_IS_MUCH;
        is_much.then(|| format!("{:.0} %", cell.generator_share * 100.0))
    }),
];

/// The cells of a workload as a table of text: its headings, and a row for each cell. The second column is the name of
/// the compared thing; all others are figures.
pub fn grid(workload: &WorkloadReport, compare: Compare) -> (Vec<&str>, Vec<Vec<String>>) {
    // A figure that no cell has, as with one number that a program printed, gets no column.
    let has = |column: &&Column| workload.cells.iter().any(|cell| (column.1)(cell).is_some());
    let repeated = |column: &&Column| column.0 == unit::heading(&workload.unit);
    let columns: Vec<&Column> = LOAD_COLUMNS.iter().filter(|c| has(c) && !repeated(c)).collect();
    let compared = match compare {
        Compare::Arms => "arm",
        Compare::Workloads => "workload",
    };
    let fixed = ["threads", compared, unit::heading(&workload.unit), "interval"];
    let headings = fixed.into_iter().chain(columns.iter().map(|column| column.0)).chain(["runs"]);
    let rows = workload.cells.iter().map(|cell| row(workload, cell, &columns));
    (headings.collect(), rows.collect())
}

fn row(workload: &WorkloadReport, cell: &CellReport, columns: &[&Column]) -> Vec<String> {
    let dash = || "–".to_owned();
    let figure = |value: f64| numbers::figure(value, &workload.unit);
    let mut row = vec![cell.threads.to_string(), cell.arm.clone()];
    if cell.failed {
        row.push("FAILED".into());
        row.resize(columns.len() + 4, dash());
    } else if cell.unsupported.is_some() {
        row.push("unsupported".into());
        row.resize(columns.len() + 4, dash());
    } else {
        row.push(cell.rate.map_or_else(dash, figure));
        row.push(cell.rate_interval.map_or_else(dash, |ends| match cell.runs {
            // A range of few runs is not an interval, and does not look like one.
            ..RUNS_OF_AN_INTERVAL => format!("{}–{}", figure(ends.0), figure(ends.1)),
            _ => numbers::interval(ends, figure),
        }));
        row.extend(columns.iter().map(|column| (column.1)(cell).unwrap_or_else(dash)));
    }
    row.push(cell.runs.to_string());
    row
}
