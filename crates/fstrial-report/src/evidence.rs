//! Explanations of verdicts as text and JSON: of the time that a thread takes for an operation, which parts make the difference.
//!
//! In a closed loop the throughput is the number of threads over the time that each takes for an operation, so the difference
//! of these times is the difference of the throughputs, and its parts add up.

use crate::{flame, plain, text::figures};
use comfy_table::{Table, presets};
use fstrial_model::{
    evidence::{Evidence, Spent},
    filesystem::waits::{Category, Cause},
};
use fstrial_run::{
    contrast::{ContrastState, Outcome},
    evidence::{self, CellEvidence, MIN_ROUNDS, Observed, TrialEvidence},
    numbers::{self, counted, nanos, ratio, ratio_interval},
    plan::{Plan, threads_in_words},
};
use fstrial_stats::{part, spread, student};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

/// Version of the JSON of an explanation.
pub const SCHEMA_VERSION: u32 = 2;
/// Error probability of the intervals.
const ALPHA: f64 = 0.05;
/// Share of the difference from which a cause alone explains it.
const MOST: f64 = 0.5;
/// Rows of a table with less of the difference, and of both times, are left out of the text.
const SMALL: f64 = 0.01;
/// Share of a thread's time that may be unaccounted for.
const UNACCOUNTED: f64 = 0.05;
/// Stacks of a cause and an arm in JSON.
const STACKS: usize = 3;
/// Kernel threads with less of the time of an operation, of both, are left out.
const QUIET: f64 = 0.001;

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
    /// Time of the kernel's threads on a processor, for an operation.
    pub kernel_threads: Vec<KernelThreads>,
    /// Processor time of the observation for an operation, in nanoseconds: of `a` and of `b`. An upper bound: it counts the events of
    /// all threads of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observation_ns: Option<(f64, f64)>,
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
    /// The places of most of its time, of each arm.
    pub stacks: Vec<Stack>,
}

/// A place of the kernel where threads spent time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stack {
    pub arm: String,
    /// Time for an operation, in nanoseconds.
    pub per_operation_ns: f64,
    /// Waits; of time on a processor samples.
    pub count: u64,
    /// Functions, the innermost first.
    pub frames: Vec<String>,
}

/// Threads of the kernel with names of the same beginning.
#[derive(Debug, Clone, Serialize)]
pub struct KernelThreads {
    pub name: String,
    /// Time on a processor for an operation of `a`, in nanoseconds.
    pub a_ns: f64,
    /// The same of `b`.
    pub b_ns: f64,
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

/// The evidence of a result of two cells.
pub(crate) struct Both<'a> {
    /// Runs of rounds with both.
    pairs: Vec<[&'a Observed; 2]>,
    /// All runs of each, together.
    pub(crate) wholes: [Whole<'a>; 2],
}

/// All observed runs of a load.
#[derive(Default)]
pub(crate) struct Whole<'a> {
    evidence: Option<&'a Evidence>,
    operations: f64,
    /// Measured time over that of the observation.
    scale: f64,
}

impl<'a> Whole<'a> {
    fn of_cell(cell: &'a CellEvidence, name: &str) -> Self {
        let runs = cell.runs.iter().filter_map(|(round, run)| Some((*round, run.get(name)?)));
        Self::of(cell.stacks.get(name), &runs.collect())
    }

    fn of(evidence: Option<&'a Evidence>, runs: &BTreeMap<u32, &Observed>) -> Self {
        let sum = |of: fn(&Observed) -> u64| runs.values().map(|run| of(run)).sum::<u64>() as f64;
        let scale = sum(|run| run.duration.0) / sum(|run| run.observed.0);
        Self { evidence, operations: sum(|run| run.operations), scale }
    }

    /// A time of all runs for an operation.
    fn per_operation(&self, time: f64) -> f64 {
        time * self.scale / self.operations
    }

    /// Time of its threads for an operation, by place.
    pub(crate) fn spent(&self) -> Vec<Spent<'a>> {
        let groups = self.evidence.into_iter().flat_map(|evidence| &evidence.threads);
        let all = groups.flat_map(|group| group.spent());
        all.map(|spent| Spent { time: self.per_operation(spent.time), ..spent }).collect()
    }

    /// Time of the kernel's threads on a processor for an operation.
    fn kernel_threads(&self) -> BTreeMap<&'a str, f64> {
        let groups = self.evidence.into_iter().flat_map(|evidence| &evidence.kernel_threads);
        groups.map(|group| (group.name.as_str(), self.per_operation(group.running.0 as f64))).collect()
    }
}

impl<'a> Both<'a> {
    /// The evidence of a contrast; none if it was not observed.
    pub(crate) fn of(plan: &Plan, contrast: usize, seen: &'a TrialEvidence) -> Option<Self> {
        let of = &plan.contrasts[contrast];
        let name = &plan.results[plan.cells[of.a].workload][of.result_a].name;
        let runs = |cell: usize| -> BTreeMap<u32, &Observed> {
            let all = seen.get(&cell).into_iter().flat_map(|cell| &cell.runs);
            all.filter_map(|(round, run)| Some((*round, run.get(name)?))).collect()
        };
        let all = [runs(of.a), runs(of.b)];
        if all.iter().any(BTreeMap::is_empty) {
            return None;
        }
        let pairs = all[0].iter().filter_map(|(round, a)| Some([*a, *all[1].get(round)?])).collect();
        let whole =
            |cell: usize, runs| Whole::of(seen.get(&cell).and_then(|cell| cell.stacks.get(name)), runs);
        Some(Self { pairs, wholes: [whole(of.a, &all[0]), whole(of.b, &all[1])] })
    }

    /// The stacks of the parts, those with most time first.
    fn add_stacks(&self, rows: &mut [Row], names: [&str; 2]) {
        for (whole, arm) in self.wholes.iter().zip(names) {
            let mut all = whole.spent();
            all.sort_by(|one, other| other.time.total_cmp(&one.time));
            for row in &mut *rows {
                let own = all.iter().filter(|spent| Some(&spent.cause) == row.cause.as_ref());
                let own = own.filter(|spent| !spent.frames.is_empty() && spent.time > 0.0);
                row.stacks.extend(own.take(STACKS).map(|spent| Stack {
                    arm: arm.to_owned(),
                    per_operation_ns: spent.time,
                    count: spent.count,
                    frames: spent.frames.to_vec(),
                }));
            }
        }
    }

    fn kernel_threads(&self, per_operation: (f64, f64)) -> Vec<KernelThreads> {
        let [of_a, of_b] = [0, 1].map(|index: usize| self.wholes[index].kernel_threads());
        let names: BTreeSet<&str> = of_a.keys().chain(of_b.keys()).copied().collect();
        let time = |of: &BTreeMap<&str, f64>, name: &str| of.get(name).copied().unwrap_or_default();
        let all = names.into_iter().map(|name| KernelThreads {
            name: name.to_owned(),
            a_ns: time(&of_a, name),
            b_ns: time(&of_b, name),
        });
        let is_loud =
            |it: &KernelThreads| it.a_ns > QUIET * per_operation.0 || it.b_ns > QUIET * per_operation.1;
        let mut all: Vec<KernelThreads> = all.filter(is_loud).collect();
        all.sort_by(|one, other| (other.a_ns + other.b_ns).total_cmp(&(one.a_ns + one.b_ns)));
        all
    }

    fn observation(&self) -> Option<(f64, f64)> {
        let [a, b] = [0, 1].map(|index: usize| {
            let whole = &self.wholes[index];
            Some(whole.per_operation(whole.evidence?.cost?.0 as f64))
        });
        a.zip(b)
    }
}

/// The explanations of a trial: of its contrasts that were observed.
pub(crate) fn explanations(plan: &Plan, states: &[ContrastState], seen: &TrialEvidence) -> Vec<Explanation> {
    let all = evidence::questions(plan).unwrap_or_default().into_iter();
    let observed = all.filter(|at| Both::of(plan, *at, seen).is_some());
    observed.map(|at| explanation(plan, at, &states[at], seen)).collect()
}

/// The evidence of a trial as folded stacks.
pub fn folded(plan: &Plan, seen: &TrialEvidence) -> String {
    let mut out = String::new();
    for (cell, evidence) in seen {
        for name in evidence.stacks.keys() {
            let first = [plan.cell_name(*cell), name.clone()];
            let first: Vec<&str> = first.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
            out += &flame::folded(&first, &Whole::of_cell(evidence, name).spent());
        }
    }
    out
}

/// Thread time for an operation by place, of both arms of each explanation.
pub(crate) fn spent<'a>(plan: &Plan, seen: &'a TrialEvidence) -> Vec<[Vec<Spent<'a>>; 2]> {
    let all = evidence::questions(plan).unwrap_or_default().into_iter();
    all.filter_map(|at| Some(Both::of(plan, at, seen)?.wholes.map(|whole| whole.spent()))).collect()
}

fn conclusion(
    state: &ContrastState,
    observed: Option<(f64, (f64, f64))>,
    pairs: &[[&Observed; 2]],
    (per_operation, parts): (&(f64, f64), &[Row]),
) -> Conclusion {
    match (state.verdict, state.ratio.and(state.interval), observed) {
        (Outcome::Equivalent, ..) => Conclusion::NoDifference,
        (Outcome::Faster | Outcome::Slower, Some(timed), Some((_, observed))) => {
            let is_same_side = (observed.0 > 1.0 && timed.0 > 1.0) || (observed.1 < 1.0 && timed.1 < 1.0);
            let is_reproduced = is_same_side && observed.0 <= timed.1 && timed.0 <= observed.1;
            let lost: u64 = pairs.iter().flatten().map(|run| run.lost).sum();
            match first(parts).and_then(|row| row.share) {
                _ if pairs.len() < MIN_ROUNDS as usize => Conclusion::TooFewRounds,
                _ if !is_reproduced => Conclusion::NotReproduced,
                _ if lost > 0 || !is_complete(parts, *per_operation) => Conclusion::Incomplete,
                Some((_, (least, _))) if least > MOST => Conclusion::Because,
                Some(_) => Conclusion::Together,
                None => Conclusion::NoPart,
            }
        }
        (Outcome::Faster | Outcome::Slower, ..) => Conclusion::TooFewRounds,
        _ => Conclusion::Undecided,
    }
}

/// The explanation of a contrast by the observed runs of its cells.
pub fn explanation(plan: &Plan, contrast: usize, state: &ContrastState, seen: &TrialEvidence) -> Explanation {
    let both = Both::of(plan, contrast, seen);
    let pairs = both.as_ref().map(|both| both.pairs.as_slice()).unwrap_or_default();
    let observed = observed_ratio(pairs);
    let (per_operation_ns, mut parts) = parts(pairs);
    let conclusion = conclusion(state, observed, pairs, (&per_operation_ns, &parts));
    both.iter().for_each(|both| both.add_stacks(&mut parts, [&state.a, &state.b]));
    Explanation {
        schema_version: SCHEMA_VERSION,
        a: state.a.clone(),
        b: state.b.clone(),
        workload: state.workload.clone(),
        phase: state.phase.clone(),
        threads: state.threads,
        timed: state.ratio.zip(state.interval),
        observed,
        rounds: pairs.len(),
        conclusion,
        per_operation_ns,
        parts,
        kernel_threads: both.as_ref().map(|both| both.kernel_threads(per_operation_ns)).unwrap_or_default(),
        observation_ns: both.as_ref().and_then(Both::observation),
    }
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
    let spent =
        |run: &Observed, time: f64| per_operation(run, time) * run.duration.0 as f64 / run.observed.0 as f64;
    let causes = pairs.iter().flatten().flat_map(|run| &run.causes);
    let all: BTreeSet<&Cause> = causes.map(|(cause, _)| cause).collect();
    let wholes: Vec<[f64; 2]> = pairs.iter().map(|pair| pair.map(whole)).collect();
    let difference = |[a, b]: &[f64; 2]| a - b;
    let differences: Vec<f64> = wholes.iter().map(difference).collect();
    let row = |cause: Option<Cause>, times: Vec<[f64; 2]>| {
        let of: Vec<f64> = times.iter().map(difference).collect();
        let share = part::share(&of, &differences, ALPHA).map(|part| (part.share, part.interval));
        let mean = |index: usize| times.iter().map(|pair| pair[index]).sum::<f64>() / n;
        Row { cause, a_ns: mean(0), b_ns: mean(1), share, stacks: Vec::new() }
    };
    let times_of = |cause: &Cause| -> Vec<[f64; 2]> {
        let time =
            |run: &Observed| run.causes.iter().find(|(known, _)| known == cause).map(|(_, time)| *time);
        let of = |run: &Observed| spent(run, time(run).unwrap_or_default());
        pairs.iter().map(|pair| pair.map(of)).collect()
    };
    let left = |run: &Observed| whole(run) - spent(run, run.causes.iter().map(|(_, time)| time).sum());
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
    /// True for time on a processor, spinning included.
    fn is_running(&self) -> bool {
        self.cause.as_ref().is_some_and(|cause| matches!(cause.category, Category::Kernel | Category::User))
    }

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
    let _ = writeln!(out, "  {}\n\n{}", basis(explanation), table(explanation));
    if !explanation.kernel_threads.is_empty() {
        let _ = writeln!(out, "{}", kernel_table(explanation));
    }
    out += &stacks(explanation);
    out
}

/// The conclusion and what it rests on.
pub fn in_short(explanation: &Explanation) -> String {
    let names = [&explanation.a, &explanation.b].map(|name| plain(name));
    format!("{}\n  {}\n", heading(explanation, [&names[0], &names[1]]), basis(explanation))
}

/// The rounds that an explanation rests on.
pub(crate) fn basis(explanation: &Explanation) -> String {
    let Explanation { a, b, .. } = explanation;
    let observed = explanation.observed.map_or_else(String::new, |(value, ends)| {
        format!("; in them {} is {} {} {}", plain(a), ratio(value), plain(b), ratio_interval(ends))
    });
    let (all_a, all_b) = explanation.per_operation_ns;
    let cost = explanation.observation_ns.map_or_else(String::new, |(of_a, of_b)| {
        let share = (of_a / all_a).max(of_b / all_b) * 100.0;
        format!("; observing them took at most {} % of the thread time", numbers::plain(rounded(share)))
    });
    format!("{} observed{observed}{cost}", counted(explanation.rounds, "round"))
}

/// A percentage with two digits, rounded up.
fn rounded(share: f64) -> f64 {
    let unit = if share < 10.0 { 10.0 } else { 1.0 };
    (share * unit).ceil() / unit
}

/// The sentence with the conclusion.
pub(crate) fn heading(explanation: &Explanation, [a, b]: [&str; 2]) -> String {
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

/// Rows of the table of parts, with its headings.
pub(crate) fn grid(explanation: &Explanation) -> Vec<[String; 4]> {
    let (all_a, all_b) = explanation.per_operation_ns;
    let is_large = |row: &&Row| {
        let of_time = (row.a_ns.abs() / all_a).max(row.b_ns.abs() / all_b);
        row.cause.is_none() || row.share.map_or(of_time, |(share, _)| share.abs()) >= SMALL
    };
    let (a, b) = (plain(&explanation.a), plain(&explanation.b));
    let mut rows = vec![["thread time per operation".into(), a, b, "share of the difference".into()]];
    for row in explanation.parts.iter().filter(is_large) {
        let share = row.share.map_or_else(|| "-".into(), percent);
        rows.push([row.name(), time(row.a_ns), time(row.b_ns), share]);
    }
    let others: Vec<&Row> = explanation.parts.iter().filter(|row| !is_large(row)).collect();
    if !others.is_empty() {
        let sum = |of: fn(&Row) -> f64| others.iter().map(|row| of(row)).sum::<f64>();
        let name = format!("other parts ({})", others.len());
        rows.push([name, time(sum(|row| row.a_ns)), time(sum(|row| row.b_ns)), String::new()]);
    }
    rows.push(["all".into(), time(all_a), time(all_b), String::new()]);
    rows
}

/// Rows of the table of kernel threads, with its headings.
pub(crate) fn kernel_grid(explanation: &Explanation) -> Vec<[String; 3]> {
    let heading = "kernel threads on a processor, per operation".into();
    let mut rows = vec![[heading, plain(&explanation.a), plain(&explanation.b)]];
    rows.extend(explanation.kernel_threads.iter().map(|it| [plain(&it.name), time(it.a_ns), time(it.b_ns)]));
    rows
}

fn tabled<const N: usize>(rows: Vec<[String; N]>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let mut rows = rows.into_iter();
    table.set_header(rows.next().expect("there are headings"));
    table.add_rows(rows);
    figures(table)
}

fn table(explanation: &Explanation) -> String {
    tabled(grid(explanation))
}

fn kernel_table(explanation: &Explanation) -> String {
    tabled(kernel_grid(explanation))
}

/// The most frequent stacks of the first cause, of the arm that spends more on it.
fn stacks(explanation: &Explanation) -> String {
    let mut out = String::new();
    for stack in first_stacks(explanation) {
        let _ = writeln!(out, "  {}:\n    {}\n", place(explanation, stack), path(stack));
    }
    out
}

/// The time at a place, as text.
pub(crate) fn place(explanation: &Explanation, stack: &Stack) -> String {
    let what = first(&explanation.parts).filter(|row| row.is_running()).map_or("wait", |_| "sample");
    let (time, count) = (time(stack.per_operation_ns), counted(stack.count, what));
    format!("{time} per operation of {} ({count})", plain(&stack.arm))
}

/// The functions of a place from the outermost.
pub(crate) fn path(stack: &Stack) -> String {
    stack.frames.iter().rev().map(|frame| plain(frame)).collect::<Vec<_>>().join(" → ")
}

/// The most frequent stacks of the first cause, of the arm that spends more on it.
pub(crate) fn first_stacks(explanation: &Explanation) -> impl Iterator<Item = &Stack> {
    let more = |row: &Row| if row.a_ns > row.b_ns { &explanation.a } else { &explanation.b };
    let first = first(&explanation.parts).into_iter();
    first.flat_map(move |row| row.stacks.iter().filter(move |stack| stack.arm == *more(row)))
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
    // Without the sign of a zero.
    let [share, low, high] = [share, low, high].map(|value| (value * 100.0).round() + 0.0);
    format!("{share} % [{low}, {high}]")
}
