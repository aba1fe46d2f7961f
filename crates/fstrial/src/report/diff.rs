//! Two stored trials side by side: what was different about them, and what each of them found.
//!
//! Two trials were not interleaved: whatever changed between them is in every figure, so there is no verdict here, only
//! what both say. Within each of the two a contrast was interleaved, so ratios are what can best be set side by side.

use super::{
    document::{CellReport, Document, WorkloadReport},
    numbers, plain,
};
use crate::run::contrast::Outcome;
use comfy_table::{CellAlignment, Table, presets};
use fstrial_model::{metric::Metric, unit};
use serde::Serialize;
use serde_json::Value;
use std::{collections::BTreeMap, fmt::Write as _};

/// Raised when a field changes its meaning or goes away; new fields do not raise it.
const SCHEMA_VERSION: u32 = 1;

/// What must be said with every comparison of two trials.
const NOTE: &str = "two trials were not interleaved: what changed between them (the machine, its load, its device) is in \
                    these figures, so this is not a verdict; one trial with both decides";

/// Two trials side by side.
#[derive(Debug, Clone, Serialize)]
pub struct Diff {
    schema_version: u32,
    /// The trials, `a` and `b` below.
    trials: [Side; 2],
    note: &'static str,
    /// What was different about them.
    differences: Vec<Difference>,
    /// Cells of the same arm, workload, phase and level.
    cells: Vec<CellDiff>,
    /// Cells that only one of them has, in words.
    only_in: [Vec<String>; 2],
    /// Contrasts that both have.
    contrasts: Vec<ContrastDiff>,
}

/// One of the trials.
#[derive(Debug, Clone, Serialize)]
pub struct Side {
    /// Its number.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// When it began.
    pub started_at: String,
}

/// Something that was different, by its place in the document; none where it is not there.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Difference {
    what: String,
    a: Option<String>,
    b: Option<String>,
}

/// What one trial says of a cell.
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

/// What one trial says of a contrast.
#[derive(Debug, Clone, Copy, Serialize)]
struct Found {
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
    a: Found,
    b: Found,
    /// Whether the two intervals have a value in common; none where one is not known.
    overlap: Option<bool>,
}

/// Where a cell is: workload, phase, arm, threads.
type Place<'a> = (&'a str, &'a str, &'a str, u16);

/// Sets two trials side by side.
pub fn diff(sides: [Side; 2], a: &Document, b: &Document) -> Diff {
    let (of_a, of_b) = (cells(a), cells(b));
    let names = |mine: &BTreeMap<Place<'_>, _>, other: &BTreeMap<Place<'_>, _>| -> Vec<String> {
        mine.keys().filter(|place| !other.contains_key(*place)).map(words).collect()
    };
    let both = of_a.iter().filter_map(|(place, one)| Some((place, one, of_b.get(place)?)));
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

fn cells(document: &Document) -> BTreeMap<Place<'_>, (&WorkloadReport, &CellReport)> {
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

fn words((workload, phase, arm, threads): &Place<'_>) -> String {
    let phase = if phase.is_empty() { String::new() } else { format!(" · {phase}") };
    format!("{arm} · {workload}{phase} · {threads}")
}

fn cell(
    (workload, phase, arm, threads): Place<'_>,
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
    let mut found = Vec::new();
    for one in of(a) {
        let same = |two: &&crate::run::contrast::ContrastState| {
            (&two.a, &two.b, &two.workload, &two.phase, two.threads, two.metric)
                == (&one.a, &one.b, &one.workload, &one.phase, one.threads, one.metric)
        };
        let Some(two) = others.iter().find(same) else { continue };
        let overlap = one.interval.zip(two.interval).map(|(x, y)| x.0 <= y.1 && y.0 <= x.1);
        found.push(ContrastDiff {
            a: Found { ratio: one.ratio, interval: one.interval, verdict: one.verdict },
            b: Found { ratio: two.ratio, interval: two.interval, verdict: two.verdict },
            of: one.a,
            over: one.b,
            workload: one.workload,
            phase: one.phase,
            threads: one.threads,
            metric: one.metric,
            overlap,
        });
    }
    found
}

/// What differs between the environments, the trial files and what the arms really were.
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
    let mut found = BTreeMap::new();
    for machine in document.machines() {
        let name = if machine.place.is_empty() { "environment" } else { &format!("place {}", machine.place) };
        flatten(name, &json(machine), &mut found);
    }
    for arm in &document.arms {
        flatten(&format!("arm {}", arm.name), &json(&arm.configuration), &mut found);
        flatten(&format!("arm {}", arm.name), &json(&arm.facts), &mut found);
    }
    if let Ok(trial) = toml::from_str::<Value>(&document.trial) {
        for (name, value) in trial.as_object().into_iter().flatten() {
            match (name.as_str(), value) {
                // Told above, with what they really were.
                ("arm", _) => {}
                ("workload", Value::Array(workloads)) => workloads.iter().for_each(|workload| {
                    let name = workload["name"].as_str().or(workload["use"].as_str()).unwrap_or("?");
                    flatten(&format!("workload {name}"), workload, &mut found);
                }),
                _ => flatten(name, value, &mut found),
            }
        }
    }
    // Every trial has another one.
    found.remove("trial.seed");
    found
}

fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("documents are plain data")
}

/// The leaves of a value, by their path; what is empty or unknown is not there.
fn flatten(path: &str, value: &Value, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| flatten(&format!("{path}.{name}"), value, found));
        }
        Value::Null => {}
        Value::String(text) if text.is_empty() => {}
        Value::String(text) => drop(found.insert(path.to_owned(), text.clone())),
        Value::Array(list) if list.is_empty() => {}
        other => drop(found.insert(path.to_owned(), other.to_string())),
    }
}

impl Diff {
    /// The tables for people.
    pub fn render(&self) -> String {
        let [a, b] = &self.trials;
        let mut text = String::new();
        for (letter, side) in [("a", a), ("b", b)] {
            let started = side.started_at.get(..16).unwrap_or(&side.started_at).replace('T', " ");
            let _ = writeln!(text, "{letter}: trial {} of {started}  {}", side.id, plain(&side.name));
        }
        let _ = writeln!(text, "\n{NOTE}.");
        if !self.differences.is_empty() {
            let _ = writeln!(text, "\nWhat was different\n{}", self.differences_table());
        }
        if !self.cells.is_empty() {
            let _ = writeln!(text, "\nTypical rates, with intervals\n{}", self.cells_table());
        }
        for (letter, only) in ["a", "b"].iter().zip(&self.only_in).filter(|(_, only)| !only.is_empty()) {
            let _ = writeln!(text, "\nOnly in {letter}: {}", plain(&only.join(", ")));
        }
        if !self.contrasts.is_empty() {
            let _ = writeln!(text, "\nRatios within each trial\n{}", self.contrasts_table());
        }
        text
    }

    fn differences_table(&self) -> Table {
        let mut table = empty(["what", "a", "b"], 3);
        for difference in &self.differences {
            let side = |text: &Option<String>| plain(text.as_deref().unwrap_or("-"));
            table.add_row([plain(&difference.what), side(&difference.a), side(&difference.b)]);
        }
        table
    }

    fn cells_table(&self) -> Table {
        let header = ["workload", "threads", "arm", "unit", "a", "interval", "b", "interval", "b/a", "range"];
        let mut table = empty(header, 4);
        for cell in &self.cells {
            let rate = |side: Option<Typical>| {
                side.map_or_else(|| "-".into(), |side| numbers::figure(side.rate, &cell.unit))
            };
            let interval = |side: Option<Typical>| {
                side.and_then(|side| side.interval).map_or_else(String::new, |(low, high)| {
                    format!("{} – {}", numbers::figure(low, &cell.unit), numbers::figure(high, &cell.unit))
                })
            };
            table.add_row([
                plain(&workload(&cell.workload, &cell.phase)),
                cell.threads.to_string(),
                plain(&cell.arm),
                plain(unit::beside(&cell.unit)),
                rate(cell.a),
                interval(cell.a),
                rate(cell.b),
                interval(cell.b),
                cell.ratio.map_or_else(|| "-".into(), numbers::ratio),
                range(cell.ratio_range),
            ]);
        }
        table
    }

    fn contrasts_table(&self) -> Table {
        let header =
            ["workload", "threads", "contrast", "metric", "a", "interval", "b", "interval", "intervals"];
        let mut table = empty(header, 4);
        for contrast in &self.contrasts {
            let ratio = |found: Found| found.ratio.map_or_else(|| "-".into(), numbers::ratio);
            let overlap = match contrast.overlap {
                Some(true) => "overlap",
                Some(false) => "apart",
                None => "not known",
            };
            table.add_row([
                plain(&workload(&contrast.workload, &contrast.phase)),
                contrast.threads.to_string(),
                plain(&format!("{} / {}", contrast.of, contrast.over)),
                contrast.metric.name().to_owned(),
                ratio(contrast.a),
                range(contrast.a.interval),
                ratio(contrast.b),
                range(contrast.b.interval),
                overlap.to_owned(),
            ]);
        }
        table
    }
}

/// A table without lines whose columns from this one on are numbers.
fn empty<const N: usize>(header: [&str; N], numbers: usize) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(header);
    for column in table.column_iter_mut().skip(numbers) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn workload(name: &str, phase: &str) -> String {
    if phase.is_empty() { name.to_owned() } else { format!("{name} · {phase}") }
}

fn range(range: Option<(f64, f64)>) -> String {
    range
        .map_or_else(String::new, |(low, high)| format!("{} – {}", numbers::ratio(low), numbers::ratio(high)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_have_their_path_and_nothing_is_left_out_but_nothing() {
        let mut found = BTreeMap::new();
        let value = serde_json::json!({"a": {"b": 1, "c": null, "d": ""}, "e": ["x", "y"], "f": []});
        flatten("top", &value, &mut found);
        let expected = [("top.a.b", "1"), ("top.e", r#"["x","y"]"#)];
        assert_eq!(found, expected.map(|(path, text)| (path.to_owned(), text.to_owned())).into());
    }
}
