//! Explanations of verdicts as text and JSON: of the time that a thread takes for an operation, which parts make the difference.
//!
//! In a closed loop the throughput is the number of threads over the time that each takes for an operation, so the difference
//! of these times is the difference of the throughputs, and its parts add up.

use crate::{plain, text::figures};
use comfy_table::{Table, presets};
use fstrial_model::{
    evidence::{Activity, Evidence},
    filesystem::waits::{Category, Cause},
};
use fstrial_run::{
    contrast::{ContrastState, Outcome},
    evidence::{CellEvidence, MIN_ROUNDS, Observed},
    numbers::{counted, nanos, ratio, ratio_interval},
    plan::{Plan, threads_in_words},
};
use fstrial_stats::{part, spread, student};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

/// Version of the JSON of an explanation.
pub const SCHEMA_VERSION: u32 = 1;
/// Error probability of the intervals.
const ALPHA: f64 = 0.05;
/// Share of the difference from which a cause alone explains it.
const MOST: f64 = 0.5;
/// Rows of a table with less of the difference, and of both times, are left out of the text.
const SMALL: f64 = 0.01;
/// Share of a thread's time that may be unaccounted for.
const UNACCOUNTED: f64 = 0.05;
/// Stacks of a cause, or functions on a processor, that the text shows.
const STACKS: usize = 3;

/// A contrast and the parts of its difference.
#[derive(Debug, Clone, Serialize)]
pub struct Explanation {
    pub schema_version: u32,
    /// The arm measured against the other.
    pub a: String,
    /// The arm that it is measured against.
    pub b: String,
    pub workload: String,
    /// Name of the result; empty if the workload has one.
    pub phase: String,
    pub threads: u16,
    /// Throughput of `a` over that of `b` in the timed runs, with its interval.
    pub timed: Option<(f64, (f64, f64))>,
    /// The same in the observed runs.
    pub observed: Option<(f64, (f64, f64))>,
    /// Observed rounds with both arms.
    pub rounds: usize,
    /// Conclusion of all parts together.
    pub conclusion: Conclusion,
    /// Thread time for an operation, in nanoseconds: of `a` and of `b`.
    pub per_operation_ns: (f64, f64),
    /// The parts, the largest share of the difference first.
    pub parts: Vec<Row>,
    /// The last observed run of `a` and of `b`.
    pub last: Vec<Evidence>,
}

/// A part of the thread time for an operation.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// None: not accounted for.
    pub cause: Option<Cause>,
    /// The time of `a`, in nanoseconds.
    pub a_ns: f64,
    /// The time of `b`.
    pub b_ns: f64,
    /// Share of the difference between the two, with its interval; none if the difference is not distinguishable from 0.
    pub share: Option<(f64, (f64, f64))>,
}

/// Strength of an explanation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Conclusion {
    /// The first part is more than half of the difference, with its interval.
    Because,
    /// No part alone is.
    Together,
    /// The arms are equivalent.
    NoDifference,
    /// The arms have no verdict.
    Undecided,
    /// The observed runs do not show the difference of the timed ones.
    NotReproduced,
    /// No part is larger than its uncertainty.
    NoPart,
    /// Too much time is not accounted for, or amounts had no room in the kernel's tables.
    Incomplete,
    /// There are too few observed rounds.
    TooFewRounds,
}

/// The explanation of a contrast by the observed runs of its cells.
pub fn explanation(
    plan: &Plan,
    contrast: usize,
    state: &ContrastState,
    seen: &BTreeMap<usize, CellEvidence>,
) -> Explanation {
    let of = &plan.contrasts[contrast];
    let name = &plan.results[plan.cells[of.a].workload][of.result_a].name;
    let runs = |cell: usize| -> BTreeMap<u32, &Observed> {
        let all = seen.get(&cell).into_iter().flat_map(|cell| &cell.runs);
        all.filter_map(|(round, run)| Some((*round, run.get(name)?))).collect()
    };
    let (of_a, of_b) = (runs(of.a), runs(of.b));
    let pairs: Vec<[&Observed; 2]> =
        of_a.iter().filter_map(|(round, a)| Some([*a, *of_b.get(round)?])).collect();
    let timed = state.ratio.zip(state.interval);
    let observed = observed_ratio(&pairs);
    let (per_operation_ns, parts) = parts(&pairs);
    let conclusion = match (state.verdict, timed, observed) {
        (Outcome::Equivalent, ..) => Conclusion::NoDifference,
        (Outcome::Faster | Outcome::Slower, Some((_, timed)), Some((_, observed))) => {
            let is_same_side = (observed.0 > 1.0 && timed.0 > 1.0) || (observed.1 < 1.0 && timed.1 < 1.0);
            let is_reproduced = is_same_side && observed.0 <= timed.1 && timed.0 <= observed.1;
            let lost: u64 = pairs.iter().flatten().map(|run| run.evidence.lost).sum();
            match first(&parts).and_then(|row| row.share) {
                _ if pairs.len() < MIN_ROUNDS as usize => Conclusion::TooFewRounds,
                _ if !is_reproduced => Conclusion::NotReproduced,
                _ if lost > 0 || !is_complete(&parts, per_operation_ns) => Conclusion::Incomplete,
                Some((_, (least, _))) if least > MOST => Conclusion::Because,
                Some(_) => Conclusion::Together,
                None => Conclusion::NoPart,
            }
        }
        (Outcome::Faster | Outcome::Slower, ..) => Conclusion::TooFewRounds,
        _ => Conclusion::Undecided,
    };
    Explanation {
        schema_version: SCHEMA_VERSION,
        a: state.a.clone(),
        b: state.b.clone(),
        workload: state.workload.clone(),
        phase: state.phase.clone(),
        threads: state.threads,
        timed,
        observed,
        rounds: pairs.len(),
        conclusion,
        per_operation_ns,
        parts,
        last: pairs.last().map(|pair| pair.map(of_its_threads).to_vec()).unwrap_or_default(),
    }
}

/// The evidence of a load without the threads of others.
fn of_its_threads(run: &Observed) -> Evidence {
    let mut evidence = run.evidence.clone();
    evidence.threads.retain(|group| group.name == run.group);
    evidence
}

/// The cause with the largest share, if that is larger than its uncertainty.
fn first(parts: &[Row]) -> Option<&Row> {
    let first = parts.iter().find(|row| row.cause.is_some());
    first.filter(|row| row.share.is_some_and(|(_, (least, _))| least > 0.0))
}

/// True if nearly all time is accounted for, of both.
fn is_complete(parts: &[Row], (all_a, all_b): (f64, f64)) -> bool {
    let mut rest = parts.iter().filter(|row| row.cause.is_none());
    rest.all(|row| row.a_ns.abs() <= UNACCOUNTED * all_a && row.b_ns.abs() <= UNACCOUNTED * all_b)
}

/// The ratio of rates in pairs, with its interval: the mean of logarithms.
fn observed_ratio(pairs: &[[&Observed; 2]]) -> Option<(f64, (f64, f64))> {
    let n = pairs.len();
    if n < 3 {
        return None;
    }
    let rate = |run: &Observed| run.operations as f64 / run.duration.as_secs_f64();
    let logarithms: Vec<f64> = pairs.iter().map(|[a, b]| (rate(a) / rate(b)).ln()).collect();
    let (mean, sd) = spread::mean_and_sd(&logarithms)?;
    let half = student::two_sided_quantile(ALPHA, n - 1) * sd / (n as f64).sqrt();
    Some((mean.exp(), ((mean - half).exp(), (mean + half).exp())))
}

/// Thread time for an operation, of both, and its parts.
fn parts(pairs: &[[&Observed; 2]]) -> ((f64, f64), Vec<Row>) {
    if pairs.is_empty() {
        return ((0.0, 0.0), Vec::new());
    }
    let n = pairs.len() as f64;
    let per_operation = |run: &Observed, time: f64| time / run.operations as f64;
    let whole = |run: &Observed| per_operation(run, f64::from(run.threads) * run.duration.0 as f64);
    // Of the load's own measured time: the observer's begins and ends a moment later.
    let spent = |run: &Observed, time: f64| {
        per_operation(run, time) * run.duration.0 as f64 / run.evidence.duration.0 as f64
    };
    let all: BTreeSet<&Cause> = pairs.iter().flatten().flat_map(|run| run.causes.keys()).collect();
    let wholes: Vec<[f64; 2]> = pairs.iter().map(|pair| pair.map(whole)).collect();
    let difference = |[a, b]: &[f64; 2]| a - b;
    let differences: Vec<f64> = wholes.iter().map(difference).collect();
    let row = |cause: Option<Cause>, times: Vec<[f64; 2]>| {
        let of: Vec<f64> = times.iter().map(difference).collect();
        let share = part::share(&of, &differences, ALPHA).map(|part| (part.share, part.interval));
        let mean = |index: usize| times.iter().map(|pair| pair[index]).sum::<f64>() / n;
        Row { cause, a_ns: mean(0), b_ns: mean(1), share }
    };
    let times_of = |cause: &Cause| -> Vec<[f64; 2]> {
        let of = |run: &Observed| spent(run, run.causes.get(cause).copied().unwrap_or_default());
        pairs.iter().map(|pair| pair.map(of)).collect()
    };
    let left = |run: &Observed| whole(run) - spent(run, run.causes.values().sum());
    let rest = pairs.iter().map(|pair| pair.map(left));
    let mut rows: Vec<Row> = all.iter().map(|cause| row(Some((*cause).clone()), times_of(cause))).collect();
    rows.push(row(None, rest.collect()));
    let sign = differences.iter().sum::<f64>().signum();
    let of_difference = |row: &Row| (row.a_ns - row.b_ns) * sign;
    rows.sort_by(|one, other| of_difference(other).total_cmp(&of_difference(one)));
    let mean = |index: usize| wholes.iter().map(|pair| pair[index]).sum::<f64>() / n;
    ((mean(0), mean(1)), rows)
}

impl Row {
    fn name(&self) -> String {
        let Some(Cause { category, what }) = &self.cause else { return "not accounted for".into() };
        match category {
            Category::User => "on a processor, in user mode".into(),
            Category::Kernel => "on a processor, in the kernel".into(),
            Category::Unknown => format!("waiting in {what}"),
            _ => format!("waiting for {what}"),
        }
    }
}

/// An explanation as text.
pub fn text(explanation: &Explanation) -> String {
    let Explanation { a, b, .. } = explanation;
    let (a, b) = (plain(a), plain(b));
    let mut out = format!("{}\n", heading(explanation, [&a, &b]));
    if explanation.rounds == 0 {
        return out;
    }
    let observed = explanation.observed.map_or_else(String::new, |(value, ends)| {
        format!("; in them {} is {} {} {}", a, ratio(value), b, ratio_interval(ends))
    });
    let _ = writeln!(out, "  {} observed{observed}", counted(explanation.rounds, "round"));
    out.push('\n');
    out += &table(explanation, [&a, &b]);
    out += &stacks(explanation, [&a, &b]);
    out
}

/// The sentence with the conclusion.
fn heading(explanation: &Explanation, [a, b]: [&str; 2]) -> String {
    let phase = match explanation.phase.as_str() {
        "" => String::new(),
        phase => format!(" ({})", plain(phase)),
    };
    let load = format!("{}{phase}, {}", plain(&explanation.workload), threads_in_words(explanation.threads));
    let verdict = explanation.timed.map_or_else(String::new, |(value, ends)| {
        format!("{a} is {} {b} {}", ratio(value), ratio_interval(ends))
    });
    let end = match (explanation.conclusion, first(&explanation.parts)) {
        (Conclusion::Because, Some(first)) => format!("{verdict} because\n  {}", sentence(first, [a, b])),
        (Conclusion::Together, Some(first)) => {
            format!("{verdict}. No single part explains it; the largest:\n  {}", sentence(first, [a, b]))
        }
        (Conclusion::NoDifference, _) => {
            format!("{a} and {b} are equivalent, so no difference is explained")
        }
        (Conclusion::NotReproduced, _) => {
            format!(
                "{verdict}, and the observed runs do not show this, so they explain nothing (--rounds observes more)"
            )
        }
        (Conclusion::NoPart, _) => format!("{verdict}, and no part of the time is clearly larger"),
        (Conclusion::Incomplete, _) => {
            format!("{verdict}, and too much time is not accounted for to explain it")
        }
        (Conclusion::TooFewRounds, _) => {
            format!("{verdict}; an explanation takes {} observed rounds of both", MIN_ROUNDS)
        }
        _ => format!("{a} and {b} have no verdict yet, so no difference is explained"),
    };
    format!("{load}: {end}")
}

/// A part in a sentence: of the arm that spends more of it.
fn sentence(row: &Row, [a, b]: [&str; 2]) -> String {
    let (more, less, of_more, of_less) =
        if row.a_ns > row.b_ns { (a, b, row.a_ns, row.b_ns) } else { (b, a, row.b_ns, row.a_ns) };
    let share = row
        .share
        .map_or_else(String::new, |share| format!(": {} of the difference in thread time", percent(share)));
    format!(
        "the threads of {more} spend {} per operation {}, those of {less} {}{share}",
        time(of_more),
        row.name(),
        time(of_less)
    )
}

fn table(explanation: &Explanation, [a, b]: [&str; 2]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["thread time per operation", a, b, "share of the difference"]);
    let (all_a, all_b) = explanation.per_operation_ns;
    let is_large = |row: &&Row| {
        let of_time = (row.a_ns.abs() / all_a).max(row.b_ns.abs() / all_b);
        row.cause.is_none() || row.share.map_or(of_time, |(share, _)| share.abs()) >= SMALL
    };
    for row in explanation.parts.iter().filter(is_large) {
        let share = row.share.map_or_else(|| "-".into(), percent);
        table.add_row([row.name(), time(row.a_ns), time(row.b_ns), share]);
    }
    let others: Vec<&Row> = explanation.parts.iter().filter(|row| !is_large(row)).collect();
    if !others.is_empty() {
        let sum = |of: fn(&Row) -> f64| others.iter().map(|row| of(row)).sum::<f64>();
        let name = format!("other parts ({})", others.len());
        table.add_row([name, time(sum(|row| row.a_ns)), time(sum(|row| row.b_ns)), String::new()]);
    }
    table.add_row(["all".into(), time(all_a), time(all_b), String::new()]);
    figures(table)
}

/// The most frequent stacks of the waits of the first cause.
fn stacks(explanation: &Explanation, names: [&str; 2]) -> String {
    let Some(row) = first(&explanation.parts) else { return String::new() };
    let index = usize::from(row.a_ns < row.b_ns);
    let Some(group) = explanation.last.get(index).and_then(|evidence| evidence.threads.first()) else {
        return String::new();
    };
    if row.cause.as_ref().is_some_and(|cause| matches!(cause.category, Category::Kernel | Category::User)) {
        return functions(group, names[index]);
    }
    let mut waits: Vec<_> = group.waits.iter().filter(|wait| Some(wait.cause()) == row.cause).collect();
    waits.sort_by_key(|wait| std::cmp::Reverse(wait.time));
    let mut out = String::new();
    for wait in waits.iter().take(STACKS) {
        let _ = writeln!(
            out,
            "\n  {} in {} of {}, last round:\n    {}",
            time(wait.time.0 as f64),
            counted(wait.count, "wait"),
            names[index],
            wait.frames.iter().rev().cloned().collect::<Vec<_>>().join(" → ")
        );
    }
    out
}

/// The functions in which most time on a processor was sampled.
fn functions(group: &Activity, name: &str) -> String {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for sample in &group.samples {
        let function = sample.frames.first().map_or("user mode", |frame| frame.as_str());
        *counts.entry(function).or_default() += sample.count;
    }
    let all: u64 = counts.values().sum();
    let mut counts: Vec<(&str, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let share =
        |(function, count): &(&str, u64)| format!("{function} {:.0} %", *count as f64 / all as f64 * 100.0);
    let most: Vec<String> = counts.iter().take(STACKS).map(share).collect();
    format!(
        "
  time of {name} on a processor, last round: {}
",
        most.join(", ")
    )
}

fn time(value: f64) -> String {
    match value {
        value if value.abs() < 0.5 => "0".into(),
        value if value < 0.0 => format!("-{}", nanos(-value)),
        value => nanos(value),
    }
}

/// A share with its interval, in percent.
fn percent((share, (low, high)): (f64, (f64, f64))) -> String {
    format!("{:.0} % [{:.0}, {:.0}]", share * 100.0, low * 100.0, high * 100.0)
}
