//! The answer for people: one table for each workload, verdict lines, conditions, and the command that repeats it.

use super::{
    at_device, claim,
    document::{CellReport, Document, VerdictReport, WorkloadReport},
    first_lap, numbers, plain, plain_lines, quotient, summary, verdict,
};
use crate::run::contrast::{ContrastState, Outcome};
use anstyle::{AnsiColor, Style};
use comfy_table::{CellAlignment, Table, presets};
use fstrial_model::{metric::Metric, trial::Compare, unit};
use std::fmt::Write;

const HEADING: Style = Style::new().bold();
const BETTER: Style = AnsiColor::Green.on_default();
const WORSE: Style = AnsiColor::Red.on_default();
const QUIET: Style = Style::new().dimmed();
const LOUD: Style = AnsiColor::Yellow.on_default().bold();

/// The whole answer. Colours are escape codes, to be stripped by anyone who prints to something else than a terminal.
pub fn render(document: &Document) -> String {
    let mut out = String::new();
    if let Some(report) = &document.claim {
        out += &format!("\n{}", claim::render(report));
    }
    for (workload, notes) in with_notes(document) {
        render_workload(&mut out, document, workload, &notes);
    }
    // Of others the end says how to go on.
    if let Some(line) = document.not_at_its_end().filter(|_| document.ended == "running") {
        section(&mut out, "Not at its end", &[line], LOUD);
    }
    section(&mut out, "Failed", &document.failures, LOUD);
    section(&mut out, "What else differs between the arms", &document.audit, Style::new());
    section(&mut out, "Warnings", &document.warnings, LOUD);
    let mut conditions = document.machines_in_words();
    conditions.extend(fact_notes(document));
    conditions.push(format!(
        "{}, order drawn from seed {}; intervals are 95 % where no other level is named, and hold whenever a trial stops; {RANGES}",
        verdict::rounds_in_words(document.rounds as usize),
        document.seed
    ));
    section(&mut out, "Conditions", &conditions, QUIET);
    section(&mut out, "Repeat", std::slice::from_ref(&document.repeat), Style::new());
    // What most people want is what they see when the trial ends.
    section(&mut out, "In short", &summary::lines(document), Style::new());
    if let Some(command) = summary::go_on(document) {
        let why = match document.ended {
            "interrupted" => "Interrupted; to go on",
            "killed" => "Killed; to go on",
            _ => "To go on",
        };
        section(&mut out, why, &[command], Style::new());
    }
    out
}

/// What a reader should know about the arms, each with its name.
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

fn section(out: &mut String, title: &str, lines: &[String], style: Style) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{HEADING}{title}{HEADING:#}");
    for line in lines {
        let _ = writeln!(out, "  {style}{}{style:#}", plain_lines(line, 4));
    }
}

fn render_workload(out: &mut String, document: &Document, workload: &WorkloadReport, notes: &[String]) {
    let (title, how) = (plain(&workload.title()), plain(&how(workload)));
    let _ = writeln!(out, "\n{HEADING}{title}{HEADING:#}  {QUIET}{how}{QUIET:#}");
    let _ = writeln!(out, "{}", table(workload, document.compare));
    let (aside, full) = told_in_full(workload);
    for line in notes {
        let _ = writeln!(out, "  {QUIET}{}{QUIET:#}", plain(line));
    }
    for report in full {
        let style = style_of(report.contrast.verdict);
        let _ = writeln!(out, "  {style}{}{style:#}", plain(&verdict_line(document, report)));
    }
    for line in verdict::undecided_latency(&aside) {
        let _ = writeln!(out, "  {QUIET}{}{QUIET:#}", plain(&line));
    }
}

/// How a run of a workload goes, in words.
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

/// Every workload with its notes. The results of one operation are made by the same tools: said once.
pub fn with_notes(document: &Document) -> Vec<(&WorkloadReport, Vec<String>)> {
    let mut told = Vec::new();
    let once = |workload| {
        let notes = notes(workload);
        let is_told = std::mem::replace(&mut told, notes.clone()) == notes;
        (workload, if is_told { Vec::new() } else { notes })
    };
    document.workloads.iter().map(once).collect()
}

/// What a run was too short to see, which arms cannot do an operation, and what did it on which others:
/// `ext4 by e4defrag 1.47.0 (5-Feb-2023) · xfs by xfs_fsr version 6.1.0`.
pub fn notes(workload: &WorkloadReport) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for cell in &workload.cells {
        let line = cell.cannot.as_ref().map(|reason| format!("{} cannot: {reason}", cell.arm));
        lines.extend(line.filter(|line| !lines.contains(line)));
    }
    let durable = workload.served.as_ref().and_then(|served| served.durable.as_ref());
    lines.extend(durable.map(|said| format!("durable: {said}")));
    let mut said: Vec<(Vec<&str>, &str)> = Vec::new();
    for cell in &workload.cells {
        let Some(tool) = cell.tool.as_deref() else { continue };
        match said.iter_mut().find(|(_, known)| *known == tool) {
            Some((arms, _)) if arms.contains(&cell.arm.as_str()) => {}
            Some((arms, _)) => arms.push(&cell.arm),
            None => said.push((vec![&cell.arm], tool)),
        }
    }
    let words: Vec<String> =
        said.iter().map(|(arms, tool)| format!("{} by {tool}", arms.join(", "))).collect();
    lines.extend((!words.is_empty()).then(|| words.join(" · ")));
    lines.extend(at_device::note(workload));
    lines.extend(first_lap::notes(workload));
    lines.extend(quotient::note(workload));
    lines.extend(workload.controls.iter().filter_map(verdict::control_line));
    lines
}

/// A verdict in words, with what must be said along with it.
pub fn verdict_line(document: &Document, report: &VerdictReport) -> String {
    let unequal = report.unequal_durability.as_deref();
    verdict::line(&report.contrast, document.practical_percent, document.round_seconds, unequal)
}

/// What is said about a workload below its figures: its notes, then its verdicts.
pub fn told(document: &Document, workload: &WorkloadReport, notes: Vec<String>) -> Vec<String> {
    let (aside, full) = told_in_full(workload);
    let mut told = notes;
    told.extend(full.into_iter().map(|report| verdict_line(document, report)));
    told.extend(verdict::undecided_latency(&aside));
    told
}

/// The verdicts that are said in one line with others, and those that have a line of their own: latency that does not
/// decide the trial has one where there is a verdict. Which arm cannot, and why, is in the notes.
fn told_in_full(workload: &WorkloadReport) -> (Vec<&ContrastState>, Vec<&VerdictReport>) {
    let all = workload.verdicts.iter().chain(&workload.leads);
    let (aside, full): (Vec<_>, Vec<_>) = all.partition(|report| is_aside(report));
    let aside = aside.iter().map(|report| &report.contrast).collect();
    (aside, full.into_iter().filter(|report| report.contrast.verdict != Outcome::Cannot).collect())
}

/// Whether a verdict is said in one line with others: of latency that does not decide the trial, where there is none.
pub fn is_aside(report: &VerdictReport) -> bool {
    let state = &report.contrast;
    let unsettled = matches!(state.verdict, Outcome::Undecided | Outcome::Failed | Outcome::Cannot);
    !state.holds_open && state.metric != Metric::Throughput && unsettled
}

fn style_of(outcome: Outcome) -> Style {
    match outcome {
        Outcome::Faster => BETTER,
        Outcome::Slower => WORSE,
        Outcome::Failed | Outcome::CannotTell => LOUD,
        Outcome::Cannot => QUIET,
        Outcome::Equivalent => Style::new(),
        Outcome::Undecided => QUIET,
    }
}

/// What is in the column of intervals before there is one.
const RANGES: &str = "of fewer than six runs their range is shown (least–greatest)";
/// Runs from which on a rate has an interval; before that there is the range of its runs.
const RUNS_OF_AN_INTERVAL: usize = 6;

/// A column: its heading, and what a cell says in it.
type Column = (&'static str, fn(&CellReport) -> Option<String>);

const LOAD_COLUMNS: [Column; 7] = [
    ("MiB/s", |cell| cell.bytes_per_second.map(|bytes| numbers::figure(bytes, unit::BYTES_PER_SECOND))),
    ("p50", |cell| cell.latency_ns?[0].map(numbers::nanos)),
    ("p99", |cell| cell.latency_ns?[1].map(numbers::nanos)),
    ("p99.9", |cell| cell.latency_ns?[2].map(numbers::nanos)),
    ("CPU/op", |cell| cell.cpu_per_operation_ns.map(numbers::nanos)),
    ("own CPU/op", |cell| cell.load_cpu_per_operation_ns.map(numbers::nanos)),
    ("generator", |cell| cell.latency_ns.map(|_| format!("{:.0} %", cell.generator_share * 100.0))),
];

/// The cells of a workload as a table of text: its headings, and a row for each cell. The second column is the name
/// of what is compared; all others are figures.
pub fn grid(workload: &WorkloadReport, compare: Compare) -> (Vec<&str>, Vec<Vec<String>>) {
    // What no cell has, as with one number that a program printed, gets no column.
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

fn table(workload: &WorkloadReport, compare: Compare) -> Table {
    let (headings, rows) = grid(workload, compare);
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let columns = headings.len();
    table.set_header(headings.into_iter().map(plain));
    let mut before = String::new();
    for mut row in rows {
        // The level is said once for the arms that share it.
        if before == row[0] {
            row[0].clear();
        } else {
            before.clone_from(&row[0]);
        }
        table.add_row(row.iter().map(|text| plain(text)));
    }
    for index in (0..columns).filter(|index| *index != 1) {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn row(workload: &WorkloadReport, cell: &CellReport, columns: &[&Column]) -> Vec<String> {
    let dash = || "–".to_owned();
    let figure = |value: f64| numbers::figure(value, &workload.unit);
    let mut row = vec![cell.threads.to_string(), cell.arm.clone()];
    if cell.failed {
        row.push("FAILED".into());
        row.resize(columns.len() + 4, dash());
    } else if cell.cannot.is_some() {
        row.push("cannot".into());
        row.resize(columns.len() + 4, dash());
    } else {
        row.push(cell.rate.map_or_else(dash, figure));
        row.push(cell.rate_interval.map_or_else(dash, |(low, high)| match cell.runs {
            // A range of few runs is not an interval, and does not look like one.
            ..RUNS_OF_AN_INTERVAL => format!("{}–{}", figure(low), figure(high)),
            _ => format!("[{}, {}]", figure(low), figure(high)),
        }));
        row.extend(columns.iter().map(|column| (column.1)(cell).unwrap_or_else(dash)));
    }
    row.push(cell.runs.to_string());
    row
}
