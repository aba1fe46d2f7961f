//! Two stored trials side by side: their differences, and the results of each.
//!
//! Two trials were not interleaved: every change between them is in every figure, so there is no verdict here, only
//! both results. Within each of the two a contrast was interleaved, so ratios are the most comparable figures.

use super::{
    USUAL_COLUMNS,
    document::{CellReport, Document, WorkloadReport},
    numbers, plain, wrapped,
};
use comfy_table::{CellAlignment, Table, presets};
use fstrial_model::{metric::Metric, unit};
use fstrial_run::contrast::Outcome;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Raised when a field changes its meaning or goes away; new fields do not raise it.
const SCHEMA_VERSION: u32 = 1;

/// Caveat of every comparison of two trials.
const NOTE: &str = "two trials were not interleaved: changes between them (machine, load, device) are in these figures, \
     so this is not a verdict; one trial with both sides decides";

/// Two trials side by side.
#[derive(Debug, Clone, Serialize)]
pub struct Diff {
    schema_version: u32,
    /// The trials, `a` and `b` below.
    trials: [TrialSide; 2],
    note: &'static str,
    differences: Vec<Difference>,
    /// Cells of the same arm, workload, phase and level.
    cells: Vec<CellDiff>,
    /// Cells that only one of them has, as text.
    only_in: [Vec<String>; 2],
    /// Contrasts that both have.
    contrasts: Vec<ContrastDiff>,
}

/// One of the trials.
#[derive(Debug, Clone, Serialize)]
pub struct TrialSide {
    /// Its number.
    pub id: i64,
    /// Name of the trial; may be empty.
    pub name: String,
    /// When it began.
    pub started_at: String,
}

/// A difference, by its place in the document; none if it is missing there.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Difference {
    what: String,
    a: Option<String>,
    b: Option<String>,
}

/// One trial's result for a cell.
#[derive(Debug, Clone, Copy, Serialize)]
struct Typical {
    rate: f64,
    interval: Option<(f64, f64)>,
    runs: usize,
}

#[derive(Debug, Clone, Serialize)]
struct CellDiff {
    arm: String,
    workload: String,
    phase: String,
    threads: u16,
    unit: String,
    less_is_better: bool,
    a: Option<Typical>,
    b: Option<Typical>,
    /// `b` over `a`.
    ratio: Option<f64>,
    /// From the least that both intervals allow to the most.
    ratio_range: Option<(f64, f64)>,
}

/// One trial's result for a contrast.
#[derive(Debug, Clone, Copy, Serialize)]
struct ContrastSummary {
    ratio: Option<f64>,
    interval: Option<(f64, f64)>,
    verdict: Outcome,
}

#[derive(Debug, Clone, Serialize)]
struct ContrastDiff {
    /// The contrast is this one over the other.
    of: String,
    over: String,
    workload: String,
    phase: String,
    threads: u16,
    metric: Metric,
    a: ContrastSummary,
    b: ContrastSummary,
    /// True if the two intervals overlap; none if one is unknown.
    overlap: Option<bool>,
}

/// Key of a cell: workload, phase, arm, threads.
type CellKey<'a> = (&'a str, &'a str, &'a str, u16);
type Cells<'a> = BTreeMap<CellKey<'a>, (&'a WorkloadReport, &'a CellReport)>;

/// Sets two trials side by side.
pub fn diff(sides: [TrialSide; 2], a: &Document, b: &Document) -> Diff {
    let (of_a, of_b) = (cells(a), cells(b));
    fn names<'a>(mine: &Cells<'a>, other: &'a Cells<'a>) -> Vec<String> {
        mine.iter()
            .filter(|(place, one)| same(other, place, one).is_none())
            .map(|(place, _)| words(place))
            .collect()
    }
    let both = of_a.iter().filter_map(|(place, one)| Some((place, one, same(&of_b, place, one)?)));
    Diff {
        schema_version: SCHEMA_VERSION,
        trials: sides,
        note: NOTE,
        differences: differences(a, b),
        cells: both.map(|(place, one, two)| cell(*place, *one, *two)).collect(),
        only_in: [names(&of_a, &of_b), names(&of_b, &of_a)],
        contrasts: contrasts(a, b),
    }
}

/// The cell that answers the same question: a highest rate under a promise is another one than a throughput.
fn same<'a>(
    of: &'a Cells<'a>,
    place: &CellKey<'a>,
    (workload, _): &(&WorkloadReport, &CellReport),
) -> Option<&'a (&'a WorkloadReport, &'a CellReport)> {
    of.get(place).filter(|(other, _)| other.promise == workload.promise)
}

fn cells(document: &Document) -> Cells<'_> {
    let workloads = document.workloads.iter();
    workloads
        .flat_map(|workload| {
            workload.cells.iter().map(move |cell| {
                let place =
                    (workload.name.as_str(), workload.phase.as_str(), cell.arm.as_str(), cell.threads);
                (place, (workload, cell))
            })
        })
        .collect()
}

fn words((workload, phase, arm, threads): &CellKey<'_>) -> String {
    let phase = if phase.is_empty() { String::new() } else { format!(" · {phase}") };
    format!("{arm} · {workload}{phase} · {threads}")
}

fn cell(
    (workload, phase, arm, threads): CellKey<'_>,
    (report, a): (&WorkloadReport, &CellReport),
    (report_b, b): (&WorkloadReport, &CellReport),
) -> CellDiff {
    let typical =
        |cell: &CellReport| Some(Typical { rate: cell.rate?, interval: cell.rate_interval, runs: cell.runs });
    let (a, b) = (typical(a), typical(b));
    // Numbers of different things have no ratio.
    let comparable = report.unit == report_b.unit;
    let both = a.zip(b).filter(|(a, b)| comparable && a.rate > 0.0 && b.rate > 0.0);
    let ends = both.and_then(|(a, b)| a.interval.zip(b.interval));
    CellDiff {
        arm: arm.into(),
        workload: workload.into(),
        phase: phase.into(),
        threads,
        unit: report.unit.clone(),
        less_is_better: report.less_is_better,
        a,
        b,
        ratio: both.map(|(a, b)| b.rate / a.rate),
        ratio_range: ends
            .filter(|(a, _)| a.0 > 0.0)
            .map(|((a_low, a_high), (b_low, b_high))| (b_low / a_high, b_high / a_low)),
    }
}

fn contrasts(a: &Document, b: &Document) -> Vec<ContrastDiff> {
    let of = |document: &Document| -> Vec<_> {
        let all = document.workloads.iter().flat_map(|workload| &workload.verdicts);
        all.map(|verdict| verdict.contrast.clone()).collect()
    };
    let others = of(b);
    let mut result = Vec::new();
    for one in of(a) {
        let same = |two: &&fstrial_run::contrast::ContrastState| {
            (&two.a, &two.b, &two.workload, &two.phase, two.threads, two.metric)
                == (&one.a, &one.b, &one.workload, &one.phase, one.threads, one.metric)
        };
        let Some(two) = others.iter().find(same) else { continue };
        let overlap = one.interval.zip(two.interval).map(|(x, y)| x.0 <= y.1 && y.0 <= x.1);
        result.push(ContrastDiff {
            a: ContrastSummary { ratio: one.ratio, interval: one.interval, verdict: one.verdict },
            b: ContrastSummary { ratio: two.ratio, interval: two.interval, verdict: two.verdict },
            of: one.a,
            over: one.b,
            workload: one.workload,
            phase: one.phase,
            threads: one.threads,
            metric: one.metric,
            overlap,
        });
    }
    result
}

/// Differences between the environments, the trial files and the actual settings of the arms.
fn differences(a: &Document, b: &Document) -> Vec<Difference> {
    let (one, two) = (facts(a), facts(b));
    let mut names: Vec<&String> = one.keys().chain(two.keys()).collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .filter(|name| one.get(*name) != two.get(*name))
        .map(|name| Difference { what: name.clone(), a: one.get(name).cloned(), b: two.get(name).cloned() })
        .collect()
}

/// Everything that can differ, as lines with a name.
fn facts(document: &Document) -> BTreeMap<String, String> {
    let mut result = BTreeMap::new();
    for machine in document.machines() {
        let name = if machine.place.is_empty() { "environment" } else { &format!("place {}", machine.place) };
        flatten(name, &json(machine), &mut result);
    }
    for arm in &document.arms {
        flatten(&format!("arm {}", arm.name), &json(&arm.configuration), &mut result);
        flatten(&format!("arm {}", arm.name), &json(&arm.facts), &mut result);
    }
    if let Ok(trial) = toml::from_str::<Value>(&document.trial) {
        for (name, value) in trial.as_object().into_iter().flatten() {
            match (name.as_str(), value) {
                // Listed above, with their actual settings.
                ("arm", _) => {}
                ("workload", Value::Array(workloads)) => workloads.iter().for_each(|workload| {
                    let name = workload["name"].as_str().or(workload["use"].as_str()).unwrap_or("?");
                    flatten(&format!("workload {name}"), workload, &mut result);
                }),
                _ => flatten(name, value, &mut result),
            }
        }
    }
    // Every trial has another one.
    result.remove("trial.seed");
    result
}

fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("documents are plain data")
}

/// The leaves of a value, by their path; empty and unknown ones are left out.
fn flatten(path: &str, value: &Value, result: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| flatten(&format!("{path}.{name}"), value, result));
        }
        Value::Null => {}
        Value::String(text) if text.is_empty() => {}
        Value::String(text) => drop(result.insert(path.to_owned(), text.clone())),
        Value::Array(list) if list.is_empty() => {}
        other => drop(result.insert(path.to_owned(), other.to_string())),
    }
}

/// Columns of a name in a table.
const NAME: usize = 24;

impl Diff {
    /// The tables for display, in 80 columns.
    pub fn render(&self) -> String {
        let [a, b] = &self.trials;
        let mut text = String::new();
        for (letter, side) in [("a", a), ("b", b)] {
            let started = side.started_at.get(..16).unwrap_or(&side.started_at).replace('T', " ");
            text += &paragraph(&format!("{letter}: trial {} of {started}  {}", side.id, side.name), 0);
        }
        text += &format!("\n{}", paragraph(&format!("{NOTE}."), 0));
        if !self.differences.is_empty() {
            text += &format!("\nWhat was different\n{}", self.differences_in_words());
        }
        text += &self.cells_tables();
        for (letter, only) in ["a", "b"].iter().zip(&self.only_in).filter(|(_, only)| !only.is_empty()) {
            text += &format!("\n{}", paragraph(&format!("Only in {letter}: {}", only.join(", ")), 0));
        }
        text + &self.contrasts_tables()
    }

    /// Common entries that differ, a paragraph each; entries of only one trial as counts by kind.
    fn differences_in_words(&self) -> String {
        let mut text = String::new();
        let mut folded: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for difference in &self.differences {
            match (&difference.a, &difference.b) {
                (Some(a), Some(b)) => {
                    text += &paragraph(&difference.what, 2);
                    text += &paragraph(&format!("a: {a}"), 4);
                    text += &paragraph(&format!("b: {b}"), 4);
                }
                (one, _) => {
                    let (side, what) = (if one.is_some() { "a" } else { "b" }, difference.what.as_str());
                    folded.entry((side, kind_of(what))).or_default().push(what);
                }
            }
        }
        for ((side, kind), facts) in folded {
            let what = match facts.as_slice() {
                [one] => (*one).to_owned(),
                several => format!("{kind} ({} facts)", several.len()),
            };
            text += &paragraph(&format!("only in {side}: {what}"), 2);
        }
        text
    }

    /// A table for each workload and phase.
    fn cells_tables(&self) -> String {
        let mut tables: Vec<(String, Table)> = Vec::new();
        for cell in &self.cells {
            let title = format!("{} ({})", workload(&cell.workload, &cell.phase), unit::beside(&cell.unit));
            let rate = |side: Option<Typical>| {
                side.map_or_else(|| "-".into(), |side| numbers::figure(side.rate, &cell.unit))
            };
            let row = [
                name(&cell.arm, cell.threads),
                rate(cell.a),
                rate(cell.b),
                cell.ratio.map_or_else(|| "-".into(), numbers::ratio),
                cell.ratio_range.map_or_else(String::new, |(low, high)| {
                    format!("{} – {}", numbers::ratio(low), numbers::ratio(high))
                }),
            ];
            add(&mut tables, title, ["", "a", "b", "b/a", "range"], row);
        }
        reported("Typical rates; the range is the widest one that both intervals allow", &tables)
    }

    fn contrasts_tables(&self) -> String {
        let mut tables: Vec<(String, Table)> = Vec::new();
        for contrast in &self.contrasts {
            let title =
                format!("{}, {}", workload(&contrast.workload, &contrast.phase), contrast.metric.name());
            let result = |result: ContrastSummary| {
                let ratio = result.ratio.map_or_else(|| "-".into(), numbers::ratio);
                let interval = result.interval.map(numbers::ratio_interval);
                format!("{ratio} {}", interval.unwrap_or_default()).trim_end().to_owned()
            };
            let overlap = match contrast.overlap {
                Some(true) => "overlap",
                Some(false) => "apart",
                None => "not known",
            };
            let pair = name(&format!("{} / {}", contrast.of, contrast.over), contrast.threads);
            let row = [pair, result(contrast.a), result(contrast.b), overlap.to_owned()];
            add(&mut tables, title, ["", "a", "b", "intervals"], row);
        }
        reported("Ratios within each trial", &tables)
    }
}

/// Adds a row to the table of this title.
fn add<const N: usize>(
    tables: &mut Vec<(String, Table)>,
    title: String,
    header: [&str; N],
    row: [String; N],
) {
    if tables.last().is_none_or(|(last, _)| *last != title) {
        tables.push((title, empty(header)));
    }
    let (_, table) = tables.last_mut().expect("one was just added");
    table.add_row(row);
}

/// Tables below a heading, each with its title; nothing without any.
fn reported(heading: &str, tables: &[(String, Table)]) -> String {
    if tables.is_empty() {
        return String::new();
    }
    let lines = tables.iter().map(|(title, table)| {
        let table = table.to_string();
        let lines: Vec<&str> = table.lines().map(str::trim_end).collect();
        format!("{}{}\n", paragraph(title, 2), lines.join("\n"))
    });
    format!("\n{heading}\n{}", lines.collect::<String>())
}

/// The subject of a fact: `arm btrfs`, `workload random-write`, `environment`. A name may have a version in it.
fn kind_of(what: &str) -> &str {
    let is_field = |at: &usize| what[at + 1..].starts_with(|c: char| c.is_ascii_lowercase());
    let end = what.match_indices('.').map(|(at, _)| at).find(is_field);
    &what[..end.unwrap_or(what.len())]
}

/// An arm or a pair with its level, cut to its column: `xfs @4`.
fn name(name: &str, threads: u16) -> String {
    let (name, level) = (plain(name), format!(" @{threads}"));
    let room = NAME - level.chars().count();
    let name =
        if name.chars().count() > room { name.chars().take(room - 1).chain(['…']).collect() } else { name };
    format!("{name}{level}")
}

/// A paragraph in lines of 80 columns, this far in.
fn paragraph(text: &str, indent: usize) -> String {
    wrapped(&plain(text), USUAL_COLUMNS, indent, indent + 2) + "\n"
}

/// A table without lines whose columns after the first are numbers.
fn empty<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn workload(name: &str, phase: &str) -> String {
    if phase.is_empty() { name.to_owned() } else { format!("{name} · {phase}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diff_fits_80_columns_and_folds_unmatched_items() {
        let long = "a device with a name of many words ".repeat(9) + &"x".repeat(200);
        let typical = Typical { rate: 12_345.0, interval: Some((1.0, 2.0)), runs: 9 };
        let result =
            ContrastSummary { ratio: Some(0.031), interval: Some((0.012, 12.3)), verdict: Outcome::Slower };
        let arm = "xfs:-m reflink=0,rmapbt=0,bigtime=1";
        let only = |what: &str| Difference { what: what.into(), a: None, b: Some(long.clone()) };
        let diff = Diff {
            schema_version: SCHEMA_VERSION,
            trials: [1, 2].map(|id| TrialSide {
                id,
                name: long.clone(),
                started_at: "2026-01-02T03:04:05Z".into(),
            }),
            note: NOTE,
            differences: vec![
                Difference {
                    what: "environment.device".into(),
                    a: Some(long.clone()),
                    b: Some("image".into()),
                },
                only("arm btrfs@6.1.facts.journal"),
                only("arm btrfs@6.1.facts.barriers"),
                only("workload oltp.threads"),
            ],
            cells: vec![CellDiff {
                arm: arm.into(),
                workload: "random-write".into(),
                phase: String::new(),
                threads: 16,
                unit: "op/s".into(),
                less_is_better: false,
                a: Some(typical),
                b: Some(typical),
                ratio: Some(1.0),
                ratio_range: Some((0.031, 12.3)),
            }],
            only_in: [Vec::new(), vec![long.clone()]],
            contrasts: vec![ContrastDiff {
                of: arm.into(),
                over: "ext4".into(),
                workload: "random-write".into(),
                phase: "rewrite".into(),
                threads: 16,
                metric: Metric::Throughput,
                a: result,
                b: result,
                overlap: None,
            }],
        };
        let text = diff.render();
        // A single word stays whole.
        let lines = text.lines().filter(|line| line.trim().contains(' '));
        let widest = lines.map(|line| line.chars().count()).max();
        assert!(widest.is_some_and(|columns| columns <= USUAL_COLUMNS), "{text}");
        for message in
            ["only in b: arm btrfs@6.1 (2 facts)", "only in b: workload oltp.threads", "    b: image"]
        {
            assert!(text.contains(message), "lacks `{message}`: {text}");
        }
        assert!(!text.contains("barriers"), "{text}");
    }

    #[test]
    fn flatten_keeps_leaf_paths_and_drops_empty_values() {
        let mut result = BTreeMap::new();
        let value = serde_json::json!({"a": {"b": 1, "c": null, "d": ""}, "e": ["x", "y"], "f": []});
        flatten("top", &value, &mut result);
        let expected = [("top.a.b", "1"), ("top.e", r#"["x","y"]"#)];
        assert_eq!(result, expected.map(|(path, text)| (path.to_owned(), text.to_owned())).into());
    }
}
