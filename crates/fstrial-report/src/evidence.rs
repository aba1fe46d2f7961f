//! Explanations of verdicts as text and JSON: of the time that a thread takes for an operation, which parts make the difference.
//!
//! In a closed loop the throughput is the number of threads over the time that each takes for an operation, so the difference
//! of these times is the difference of the throughputs, and its parts add up.

use crate::plain;
use comfy_table::{CellAlignment, Table, presets};
use fstrial_model::{
    evidence::Evidence,
    filesystem::waits::{self, Category, Cause},
};
use fstrial_run::{
    contrast::{ContrastState, Outcome},
    evidence::{CellEvidence, MIN_ROUNDS, Observed},
    numbers::{counted, nanos, ratio, ratio_interval},
    plan::{Plan, threads_in_words},
};
use fstrial_stats::{part, student};
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
/// Stacks of a cause that the text shows.
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
    /// The verdict is that there is no difference.
    NoDifference,
    /// The verdict is open, or there is none.
    Undecided,
    /// The observed runs do not show the ratio of the timed ones.
    NotReproduced,
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
            let is_reproduced = observed.0 <= timed.1 && timed.0 <= observed.1;
            let is_most = parts.first().and_then(|row| row.share).is_some_and(|(_, share)| share.0 > MOST);
            match (is_reproduced, pairs.len() >= MIN_ROUNDS as usize) {
                (_, false) => Conclusion::TooFewRounds,
                (false, _) => Conclusion::NotReproduced,
                _ if is_most && parts[0].cause.is_some() => Conclusion::Because,
                _ => Conclusion::Together,
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
        last: pairs.last().map(|pair| pair.map(|run| run.evidence.clone()).to_vec()).unwrap_or_default(),
    }
}

/// The ratio of rates in pairs, with its interval: the mean of logarithms.
fn observed_ratio(pairs: &[[&Observed; 2]]) -> Option<(f64, (f64, f64))> {
    let n = pairs.len();
    if n < 3 {
        return None;
    }
    let rate = |run: &Observed| run.operations as f64 / run.duration.as_secs_f64();
    let logarithms: Vec<f64> = pairs.iter().map(|[a, b]| (rate(a) / rate(b)).ln()).collect();
    let mean = logarithms.iter().sum::<f64>() / n as f64;
    let variance = logarithms.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
    let half = student::two_sided_quantile(ALPHA, n - 1) * (variance / n as f64).sqrt();
    Some((mean.exp(), ((mean - half).exp(), (mean + half).exp())))
}

/// Thread time for an operation, of both, and its parts.
fn parts(pairs: &[[&Observed; 2]]) -> ((f64, f64), Vec<Row>) {
    let n = pairs.len() as f64;
    let per_operation = |run: &Observed, time: f64| time / run.operations as f64;
    let whole = |run: &Observed| per_operation(run, f64::from(run.threads) * run.duration.0 as f64);
    let causes =
        |run: &Observed| run.evidence.group(&run.group).map(|group| group.by_cause()).unwrap_or_default();
    let by_cause: Vec<[BTreeMap<Cause, f64>; 2]> =
        pairs.iter().map(|pair| pair.map(causes)).collect();
    let all: BTreeSet<&Cause> = by_cause.iter().flatten().flat_map(BTreeMap::keys).collect();
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
        let of = |run: &Observed, causes: &BTreeMap<Cause, f64>| {
            per_operation(run, causes.get(cause).copied().unwrap_or_default())
        };
        pairs.iter().zip(&by_cause).map(|([a, b], [of_a, of_b])| [of(a, of_a), of(b, of_b)]).collect()
    };
    let rest = pairs.iter().zip(&by_cause).zip(&wholes).map(|((pair, causes), whole)| {
        let left = |index: usize| whole[index] - per_operation(pair[index], causes[index].values().sum());
        [left(0), left(1)]
    });
    let mut rows: Vec<Row> = all.iter().map(|cause| row(Some((*cause).clone()), times_of(cause))).collect();
    rows.push(row(None, rest.collect()));
    rows.sort_by(|one, other| (other.a_ns - other.b_ns).abs().total_cmp(&(one.a_ns - one.b_ns).abs()));
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
    let observed = explanation.observed.map_or_else(String::new, |(value, ends)| {
        format!("; there {} {}", ratio(value), ratio_interval(ends))
    });
    let _ = writeln!(out, "  {} observed{observed}", counted(explanation.rounds, "round"));
    if explanation.rounds == 0 {
        return out;
    }
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
    let first = explanation.parts.iter().find(|row| row.cause.is_some());
    let end = match (explanation.conclusion, first) {
        (Conclusion::Because, Some(first)) => format!("{verdict} because\n  {}", sentence(first, [a, b])),
        (Conclusion::Together, Some(first)) => {
            format!("{verdict} together with other causes because\n  {}", sentence(first, [a, b]))
        }
        (Conclusion::NoDifference, _) => {
            format!("nothing explains a difference of {a} and {b}, because there is none of interest")
        }
        (Conclusion::NotReproduced, _) => {
            format!("{verdict}, and the observed runs do not show this, so they explain nothing")
        }
        (Conclusion::TooFewRounds, _) => {
            format!("{verdict}; an explanation takes {} observed rounds of both", MIN_ROUNDS)
        }
        _ => format!("{a} and {b} are not decided, so there is nothing to explain"),
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
    table.add_row(["all".into(), time(all_a), time(all_b), String::new()]);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.lines().map(|line| format!("  {}\n", line.trim_end())).collect()
}

/// The most frequent stacks of the waits of the first cause.
fn stacks(explanation: &Explanation, names: [&str; 2]) -> String {
    let Some(row) = explanation.parts.iter().find(|row| row.cause.is_some()) else { return String::new() };
    let index = usize::from(row.a_ns < row.b_ns);
    let Some(evidence) = explanation.last.get(index) else { return String::new() };
    let is_it = |frames: &[String]| waits::cause(frames).as_ref() == row.cause.as_ref();
    let mut waits: Vec<_> =
        evidence.threads.iter().flat_map(|group| &group.waits).filter(|wait| is_it(&wait.frames)).collect();
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
