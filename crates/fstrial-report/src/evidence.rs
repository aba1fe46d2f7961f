//! Explanations of verdicts as text and JSON: of the time that a thread takes for an operation, which parts make the difference.
//!
//! In a closed loop the throughput is the number of threads over the time that each takes for an operation, so the difference
//! of these times is the difference of the throughputs, and its parts add up.

use crate::{flame, plain, text::figures};
use comfy_table::{Table, presets};
use fstrial_model::{
    counter::{AT_DEVICE, COUNTERS, Counter, Counters},
    evidence::{Evidence, Spent},
    filesystem::waits::{Category, Cause},
    unit,
};
use fstrial_run::{
    claim::NEIGHBOURS,
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
/// Rows of a table, and stacks, with less of the times of both arms are left out.
const SMALL: f64 = 0.01;
/// A cause with all but this share of a part stands for it.
const REST: f64 = 0.05;
/// Share of the difference that may be unaccounted for.
const UNKNOWN: f64 = 0.2;
/// Share of a thread's time that may be unaccounted for.
const UNACCOUNTED: f64 = 0.05;
/// Part of the timed difference, of logarithms, by which the observed one may leave its interval: observation costs time.
const TOLERANCE: f64 = 0.25;
/// Stacks of a cause and an arm in JSON.
const STACKS: usize = 3;
/// Functions on a processor that are named at most.
const FUNCTIONS: usize = 8;
/// Other threads and functions with less of the time of an operation, of both, are left out.
const QUIET: f64 = 0.001;
/// Figures of counters below this, of both, are left out.
const RARE: f64 = 0.005;
/// Other threads in a table.
const THREADS: usize = 8;
/// A cause whose share of the difference may be less than this is not named.
const NOTABLE: f64 = 0.1;
/// A device that has a request in less than this share of the time is not the limit.
const IDLE: f64 = 0.5;

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
    pub parts: Vec<Part>,
    /// Time on a processor of the other threads of the machine: the kernel's, those of the modelled device, and other programs.
    pub other_threads: Vec<Running>,
    /// Functions in which the load's threads were most on a processor, by samples.
    pub functions: Vec<Running>,
    /// Counters of the kernel, for tables.
    pub counters: Vec<Counted>,
    /// Share of the measured time in which the device had a request: with `a` and with `b`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_busy: Option<(f64, f64)>,
    /// Gaps of the evidence, and the reason for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// Processor time of the observation for an operation, in nanoseconds: of `a` and of `b`, for the events of all threads of the
    /// machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observation_ns: Option<(f64, f64)>,
}

/// A part of the thread time for an operation: of all causes of a category.
#[derive(Debug, Clone, Serialize)]
pub struct Part {
    /// None: not accounted for.
    pub category: Option<Category>,
    /// The time of `a`, in nanoseconds.
    pub a_ns: f64,
    /// The time of `b`.
    pub b_ns: f64,
    /// Share of the difference between the two, with its interval; none if the difference is not distinguishable from 0.
    pub share: Option<(f64, (f64, f64))>,
    /// Its causes, the largest share of the difference first.
    pub causes: Vec<Row>,
}

/// The time of a cause for an operation.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub cause: Cause,
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
    /// Waits or samples.
    pub count: u64,
    /// True if they are samples of time on a processor.
    pub is_sampled: bool,
    /// Functions, the innermost first.
    pub frames: Vec<String>,
}

/// Time on a processor of other threads, by the beginning of their names, or of the load in a function.
#[derive(Debug, Clone, Serialize)]
pub struct Running {
    pub name: String,
    /// Time for an operation of `a`, in nanoseconds.
    pub a_ns: f64,
    /// The same of `b`.
    pub b_ns: f64,
}

/// A figure of counters of the kernel; none if that is not known.
#[derive(Debug, Clone, Serialize)]
pub struct Counted {
    pub name: &'static str,
    pub unit: &'static str,
    pub a: Option<f64>,
    pub b: Option<f64>,
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
    /// Threads wait most for processors, and other programs used them.
    Disturbed,
    /// There are too few observed rounds.
    TooFewRounds,
}

/// The evidence of a result of two cells.
struct Both<'a> {
    /// Runs of rounds with both.
    pairs: Vec<[&'a Observed; 2]>,
    /// All runs of each, together.
    wholes: [Whole<'a>; 2],
}

/// All observed runs of a load.
struct Whole<'a> {
    evidence: Option<&'a Evidence>,
    operations: f64,
    /// Measured time over that of the observation.
    scale: f64,
}

/// The observed runs of a result.
fn runs_of<'a>(cell: &'a CellEvidence, name: &str) -> BTreeMap<u32, &'a Observed> {
    cell.runs.iter().filter_map(|(round, run)| Some((*round, run.get(name)?))).collect()
}

impl<'a> Whole<'a> {
    fn of(cell: &'a CellEvidence, name: &str) -> Self {
        let runs = runs_of(cell, name);
        let sum = |of: fn(&Observed) -> u64| runs.values().map(|run| of(run)).sum::<u64>() as f64;
        let scale = sum(|run| run.duration.0) / sum(|run| run.observed.0);
        Self { evidence: cell.stacks.get(name), operations: sum(|run| run.operations), scale }
    }

    /// A time of all runs for an operation.
    fn per_operation(&self, time: f64) -> f64 {
        time * self.scale / self.operations
    }

    /// Time of its threads for an operation, by place.
    fn spent(&self) -> Vec<Spent<'a>> {
        let groups = self.evidence.into_iter().flat_map(|evidence| &evidence.threads);
        let all = groups.flat_map(|group| group.spent());
        all.map(|spent| Spent { time: self.per_operation(spent.time), ..spent }).collect()
    }

    /// Time of its threads on a processor for an operation, by function.
    fn functions(&self) -> BTreeMap<&'a str, f64> {
        let mut all = BTreeMap::new();
        for spent in self.spent().into_iter().filter(|spent| spent.cause.category == Category::Processor) {
            let function = spent.frames.first().map_or("user mode", |frame| frame.as_str());
            *all.entry(function).or_default() += spent.time;
        }
        all
    }

    /// Time of other threads on a processor for an operation.
    fn other_threads(&self) -> BTreeMap<&'a str, f64> {
        let groups = self.evidence.into_iter().flat_map(|evidence| &evidence.other_threads);
        groups.map(|group| (group.name.as_str(), self.per_operation(group.running.0 as f64))).collect()
    }
}

impl<'a> Both<'a> {
    /// The evidence of a contrast; none if it was not observed.
    fn of(plan: &Plan, contrast: usize, seen: &'a TrialEvidence) -> Option<Self> {
        let of = &plan.contrasts[contrast];
        let cell = |cell: usize, result: usize| {
            let name = &plan.results[plan.cells[cell].workload][result].name;
            let evidence = seen.get(&cell)?;
            Some((evidence, name)).filter(|_| !runs_of(evidence, name).is_empty())
        };
        let (a, b) = (cell(of.a, of.result_a)?, cell(of.b, of.result_b)?);
        let [of_a, of_b] = [a, b].map(|(evidence, name)| runs_of(evidence, name));
        let pairs = of_a.iter().filter_map(|(round, a)| Some([*a, *of_b.get(round)?])).collect();
        Some(Self { pairs, wholes: [a, b].map(|(evidence, name)| Whole::of(evidence, name)) })
    }

    /// The stacks of the parts, those with most time first.
    fn add_stacks(&self, parts: &mut [Part], (all_a, all_b): (f64, f64), names: [&str; 2]) {
        for ((of_arm, time), arm) in self.wholes.iter().zip([all_a, all_b]).zip(names) {
            let mut all = of_arm.spent();
            all.sort_by(|one, other| other.time.total_cmp(&one.time));
            for row in parts.iter_mut().flat_map(|part| &mut part.causes) {
                let own = all.iter().filter(|spent| spent.cause == row.cause && !spent.frames.is_empty());
                let own = own.filter(|spent| spent.time >= SMALL * time);
                row.stacks.extend(own.take(STACKS).map(|spent| Stack {
                    arm: arm.to_owned(),
                    per_operation_ns: spent.time,
                    count: spent.count,
                    is_sampled: self.missing().is_some()
                        || row.cause.category == Category::Processor
                        || !flame::is_wait(spent.frames),
                    frames: spent.frames.to_vec(),
                }));
            }
        }
    }

    /// Counters of all pairs, for tables, and the share of time in which the device had a request.
    fn counters(&self) -> (Vec<Counted>, Option<(f64, f64)>) {
        let all = [0, 1].map(|index: usize| {
            let runs = || self.pairs.iter().map(|pair| pair[index]);
            let counters = runs().fold(Counters::default(), |sum, run| sum.plus(&run.counters));
            let sum = |of: fn(&Observed) -> u64| runs().map(of).sum::<u64>() as f64;
            (counters, sum(|run| run.operations), sum(|run| run.duration.0))
        });
        let figures = COUNTERS.iter().map(|row| {
            let [a, b] =
                all.each_ref().map(|(known, operations, nanos)| row.figure(known, *operations, *nanos));
            Counted { name: row.words, unit: row.unit, a, b }
        });
        let is_some = |it: &Counted| [it.a, it.b].into_iter().flatten().any(|value| value >= RARE);
        let share = |(known, _, nanos): &(Counters, f64, f64)| {
            // Some devices take no requests that could be timed.
            known.get(Counter::DeviceServed).filter(|served| *served > 0)?;
            // The observation is a moment longer than the measured time.
            Some((known.get(Counter::DeviceBusy)? as f64 / nanos).min(1.0))
        };
        (figures.filter(is_some).collect(), share(&all[0]).zip(share(&all[1])))
    }

    fn missing(&self) -> Option<&str> {
        self.wholes.iter().find_map(|whole| whole.evidence?.missing.as_deref())
    }

    fn observation(&self) -> Option<(f64, f64)> {
        let [a, b] = [0, 1].map(|index: usize| {
            let whole = &self.wholes[index];
            Some(whole.per_operation(whole.evidence?.cost?.0 as f64))
        });
        a.zip(b)
    }
}

/// Times of both by name, the longest first.
fn running([of_a, of_b]: [BTreeMap<&str, f64>; 2], per_operation: (f64, f64)) -> Vec<Running> {
    let names: BTreeSet<&str> = of_a.keys().chain(of_b.keys()).copied().collect();
    let time = |of: &BTreeMap<&str, f64>, name: &str| of.get(name).copied().unwrap_or_default();
    let all = names.into_iter().map(|name| Running {
        name: name.to_owned(),
        a_ns: time(&of_a, name),
        b_ns: time(&of_b, name),
    });
    let is_loud = |it: &Running| it.a_ns > QUIET * per_operation.0 || it.b_ns > QUIET * per_operation.1;
    let mut all: Vec<Running> = all.filter(is_loud).collect();
    all.sort_by(|one, other| (other.a_ns + other.b_ns).total_cmp(&(one.a_ns + one.b_ns)));
    all
}

/// The decided contrasts of a trial that were observed.
fn observed<'a>(plan: &Plan, states: &[ContrastState], seen: &'a TrialEvidence) -> Vec<(usize, Both<'a>)> {
    let all = (0..plan.contrasts.len()).filter(|at| evidence::explains(plan, &plan.contrasts[*at]));
    let decided = all.filter(|at| evidence::is_decided(&states[*at]));
    decided.filter_map(|at| Some((at, Both::of(plan, at, seen)?))).collect()
}

/// The explanations of a trial: of its contrasts that were observed.
pub fn explanations(plan: &Plan, states: &[ContrastState], seen: &TrialEvidence) -> Vec<Explanation> {
    let all = observed(plan, states, seen).into_iter();
    all.map(|(at, both)| explained(names_of(plan, at), &states[at], Some(&both))).collect()
}

/// The evidence of a trial as folded stacks.
pub fn folded(plan: &Plan, seen: &TrialEvidence) -> String {
    let mut out = String::new();
    for (cell, evidence) in seen {
        for name in evidence.stacks.keys() {
            let first = [plan.cell_name(*cell), name.clone()];
            let first: Vec<&str> = first.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
            out += &flame::folded(&first, &Whole::of(evidence, name).spent());
        }
    }
    out
}

/// Thread time for an operation by place, of both arms of each explanation.
pub(crate) fn spent<'a>(
    plan: &Plan,
    states: &[ContrastState],
    seen: &'a TrialEvidence,
) -> Vec<[Vec<Spent<'a>>; 2]> {
    let all = observed(plan, states, seen).into_iter();
    all.map(|(_, both)| both.wholes.map(|whole| whole.spent())).collect()
}

fn conclusion(
    state: &ContrastState,
    observed: Option<(f64, (f64, f64))>,
    pairs: &[[&Observed; 2]],
    (per_operation, parts): (&(f64, f64), &[Part]),
) -> Conclusion {
    match (state.verdict, state.ratio.and(state.interval), observed) {
        (Outcome::Equivalent, ..) => Conclusion::NoDifference,
        (Outcome::Faster | Outcome::Slower, Some(timed), Some((_, observed))) => {
            let is_same_side = (observed.0 > 1.0 && timed.0 > 1.0) || (observed.1 < 1.0 && timed.1 < 1.0);
            let slack = state.ratio.map_or(1.0, |ratio| (TOLERANCE * ratio.ln().abs()).exp());
            let is_near = observed.0 <= timed.1 * slack && timed.0 <= observed.1 * slack;
            let is_reproduced = is_same_side && is_near;
            let lost: u64 = pairs.iter().flatten().map(|run| run.lost).sum();
            match first(parts).and_then(|part| part.share) {
                _ if pairs.len() < MIN_ROUNDS as usize => Conclusion::TooFewRounds,
                _ if !is_reproduced => Conclusion::NotReproduced,
                _ if lost > 0 || !is_complete(parts, *per_operation) => Conclusion::Incomplete,
                Some(_) if is_disturbed(parts, pairs) => Conclusion::Disturbed,
                Some((_, (least, _))) if least > MOST => Conclusion::Because,
                Some(_) => Conclusion::Together,
                None => Conclusion::NoPart,
            }
        }
        (Outcome::Faster | Outcome::Slower, ..) => Conclusion::TooFewRounds,
        _ => Conclusion::Undecided,
    }
}

/// Share of the processors that other programs used in the observed runs.
fn of_others(pairs: &[[&Observed; 2]]) -> Option<f64> {
    let shares: Option<Vec<f64>> = pairs.iter().flatten().map(|run| run.counters.taken_by_others()).collect();
    let shares = shares.filter(|shares| !shares.is_empty())?;
    Some(shares.iter().sum::<f64>() / shares.len() as f64)
}

/// True if most of the difference is waiting for processors that other programs used.
fn is_disturbed(parts: &[Part], pairs: &[[&Observed; 2]]) -> bool {
    let first = first(parts).filter(|part| part.category == Some(Category::Processor));
    let waits =
        first.and_then(|part| part.causes.iter().find(|row| row.cause.category == Category::Runnable));
    let is_most = waits.and_then(|row| row.share).is_some_and(|(share, _)| share > MOST / 2.0);
    is_most && of_others(pairs).is_some_and(|share| share > NEIGHBOURS)
}

/// The explanation of a contrast by the observed runs of its cells.
pub fn explanation(plan: &Plan, contrast: usize, state: &ContrastState, seen: &TrialEvidence) -> Explanation {
    explained(names_of(plan, contrast), state, Both::of(plan, contrast, seen).as_ref())
}

/// The names of both: of one arm under two workloads, or at two levels, with these.
fn names_of(plan: &Plan, contrast: usize) -> [String; 2] {
    let cells = [plan.contrasts[contrast].a, plan.contrasts[contrast].b];
    let names = cells.map(|cell| plan.compared(cell).to_owned());
    let workloads = cells.map(|cell| plan.cells[cell].workload);
    match names[0] == names[1] {
        true if workloads[0] == workloads[1] => {
            cells.map(|cell| format!("{} @ {}", plan.compared(cell), plan.cells[cell].threads))
        }
        true => cells.map(|cell| {
            format!("{} in {}", plan.compared(cell), plan.workloads[plan.cells[cell].workload].name)
        }),
        false => names,
    }
}

fn explained([a, b]: [String; 2], state: &ContrastState, both: Option<&Both<'_>>) -> Explanation {
    let pairs = both.map(|both| both.pairs.as_slice()).unwrap_or_default();
    let observed = observed_ratio(pairs);
    let (per_operation_ns, mut parts) = parts(pairs);
    let conclusion = conclusion(state, observed, pairs, (&per_operation_ns, &parts));
    both.iter().for_each(|both| both.add_stacks(&mut parts, per_operation_ns, [&a, &b]));
    let wholes = both.map(|both| both.wholes.each_ref());
    let other_threads = wholes.map(|all| running(all.map(Whole::other_threads), per_operation_ns));
    let functions = wholes.map(|all| running(all.map(Whole::functions), per_operation_ns));
    let (counters, device_busy) = both.map(Both::counters).unwrap_or_default();
    Explanation {
        schema_version: SCHEMA_VERSION,
        a,
        b,
        workload: state.workload.clone(),
        phase: state.phase.clone(),
        threads: state.threads,
        timed: state.ratio.zip(state.interval),
        observed,
        rounds: pairs.len(),
        conclusion,
        per_operation_ns,
        parts,
        other_threads: other_threads.unwrap_or_default(),
        functions: functions.into_iter().flatten().take(FUNCTIONS).collect(),
        counters,
        device_busy,
        missing: both.and_then(Both::missing).map(str::to_owned),
        observation_ns: both.and_then(Both::observation),
    }
}

/// The part whose share is the largest at the lower end of its interval, if that is larger than its uncertainty.
fn first(parts: &[Part]) -> Option<&Part> {
    let least = |part: &Part| part.share.map_or(0.0, |(_, (least, _))| least);
    let causes = parts.iter().filter(|part| part.category.is_some() && least(part) > 0.0);
    causes.max_by(|one, other| least(one).total_cmp(&least(other)))
}

/// True if nearly all time of both is accounted for, and most of the difference.
fn is_complete(parts: &[Part], (all_a, all_b): (f64, f64)) -> bool {
    let mut rest = parts.iter().filter(|part| part.category.is_none());
    rest.all(|part| {
        let is_small = part.a_ns.abs() <= UNACCOUNTED * all_a && part.b_ns.abs() <= UNACCOUNTED * all_b;
        is_small && part.share.is_none_or(|(_, (low, high))| low > -UNKNOWN && high < UNKNOWN)
    })
}

/// The ratio of the rates of all rounds together, with its interval.
fn observed_ratio(pairs: &[[&Observed; 2]]) -> Option<(f64, (f64, f64))> {
    let n = pairs.len();
    if n < 3 {
        return None;
    }
    let logarithms = |index: usize| -> Vec<f64> {
        let values = per_operation(pairs, index, Observed::thread_time);
        let mean = values.iter().sum::<f64>() / n as f64;
        values.iter().map(|value| mean.ln() + (value - mean) / mean).collect()
    };
    let (of_a, of_b) = (logarithms(0), logarithms(1));
    let (mean, sd) = spread::mean_and_sd(&differences(&of_b, &of_a))?;
    let half = student::two_sided_quantile(ALPHA, n - 1) * sd / (n as f64).sqrt();
    Some((mean.exp(), ((mean - half).exp(), (mean + half).exp())))
}

/// A time of one of each pair for an operation: values with the mean and the spread of the time of all rounds over their operations.
fn per_operation(pairs: &[[&Observed; 2]], index: usize, time: impl Fn(&Observed) -> f64) -> Vec<f64> {
    let runs = || pairs.iter().map(|pair| pair[index]);
    let times: Vec<f64> = runs().map(time).collect();
    let operations: Vec<f64> = runs().map(|run| run.operations as f64).collect();
    part::linearised(&times, &operations)
}

/// Thread time for an operation of both, with its share of a difference.
struct Shares<'p> {
    pairs: &'p [[&'p Observed; 2]],
    /// Differences of the whole times.
    differences: Vec<f64>,
}

/// Time of `a`, of `b`, and the share.
type Share = (f64, f64, Option<(f64, (f64, f64))>);

/// Values of the first less those of the second.
fn differences(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

impl<'p> Shares<'p> {
    fn new(pairs: &'p [[&'p Observed; 2]]) -> Self {
        let [a, b] = [0, 1].map(|index| per_operation(pairs, index, Observed::thread_time));
        Self { pairs, differences: differences(&a, &b) }
    }

    fn of(&self, time: impl Fn(&Observed) -> f64) -> Share {
        let [a, b] = [0, 1].map(|index| per_operation(self.pairs, index, &time));
        let share = part::share(&differences(&a, &b), &self.differences, ALPHA);
        let share = share.map(|part| (part.share, part.interval));
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        (mean(&a), mean(&b), share)
    }
}

/// The part that time belongs to. Threads wait for a processor because they and others need time on one.
fn part_of(category: Category) -> Category {
    if category == Category::Runnable { Category::Processor } else { category }
}

/// Thread time for an operation, of both, and its parts.
fn parts(pairs: &[[&Observed; 2]]) -> ((f64, f64), Vec<Part>) {
    if pairs.is_empty() {
        return ((0.0, 0.0), Vec::new());
    }
    let shares = Shares::new(pairs);
    let causes = pairs.iter().flatten().flat_map(|run| &run.causes);
    let all: BTreeSet<&Cause> = causes.map(|(cause, _)| cause).collect();
    let (all_a, all_b, _) = shares.of(Observed::thread_time);
    let sign = (all_a - all_b).signum();
    let by_difference = |one: (f64, f64), other: (f64, f64)| {
        (sign * (other.0 - other.1)).total_cmp(&(sign * (one.0 - one.1)))
    };
    let categories: BTreeSet<Category> = all.iter().map(|cause| part_of(cause.category)).collect();
    let mut parts: Vec<Part> = Vec::new();
    for category in categories {
        let row = |cause: &&Cause| {
            let (a_ns, b_ns, share) = shares.of(|run| run.time_of(|known| known == *cause));
            Row { cause: (*cause).clone(), a_ns, b_ns, share, stacks: Vec::new() }
        };
        let own = all.iter().filter(|cause| part_of(cause.category) == category);
        let mut causes: Vec<Row> = own.map(row).collect();
        causes.sort_by(|one, other| by_difference((one.a_ns, one.b_ns), (other.a_ns, other.b_ns)));
        let (a_ns, b_ns, share) = shares.of(|run| run.time_of(|cause| part_of(cause.category) == category));
        parts.push(Part { category: Some(category), a_ns, b_ns, share, causes });
    }
    let (a_ns, b_ns, share) = shares.of(|run| run.thread_time() - run.time_of(|_| true));
    parts.push(Part { category: None, a_ns, b_ns, share, causes: Vec::new() });
    parts.sort_by(|one, other| by_difference((one.a_ns, one.b_ns), (other.a_ns, other.b_ns)));
    ((all_a, all_b), parts)
}

/// True if a time is worth a row, of the whole times of both.
fn is_large((a, b): (f64, f64), (all_a, all_b): (f64, f64)) -> bool {
    (a.abs() / all_a).max(b.abs() / all_b) >= SMALL
}

impl Part {
    /// The cause with nearly all of it.
    fn only(&self) -> Option<&Row> {
        let is_all = |row: &&Row| {
            (row.a_ns - self.a_ns).abs() <= REST * self.a_ns.max(self.b_ns)
                && (row.b_ns - self.b_ns).abs() <= REST * self.a_ns.max(self.b_ns)
        };
        self.causes.iter().find(is_all)
    }

    /// Its name, or that of its only cause.
    fn name(&self) -> String {
        let Some(category) = self.category else { return "not accounted for".into() };
        if let Some(row) = self.only() {
            return row.name();
        }
        let words = match category {
            Category::Processor => "on a processor or waiting for one",
            Category::Lock => "waiting for locks",
            Category::Io => "waiting for I/O",
            Category::Journal => "waiting for the filesystem's journal or log",
            Category::Throttling => "throttled",
            Category::Sleep => "sleeping",
            Category::Others => "waiting for other threads",
            Category::Runnable => "waiting for a processor",
            Category::Unknown => "waiting at places without a name",
        };
        words.into()
    }
}

impl Row {
    fn name(&self) -> String {
        let what = plain(&self.cause.what);
        match self.cause.category {
            Category::Processor => format!("on a processor, {what}"),
            Category::Unknown => format!("waiting in {what}"),
            _ => format!("waiting for {what}"),
        }
    }
}

/// An explanation as text.
pub fn text(explanation: &Explanation) -> String {
    let mut out = format!("{}\n", heading(explanation));
    if explanation.rounds == 0 {
        return out;
    }
    for line in meanwhile(explanation).into_iter().chain(device(explanation)) {
        let _ = writeln!(out, "  {line}");
    }
    let _ = writeln!(out, "  {}\n\n{}", basis(explanation), tabled(grid(explanation)));
    for rows in running_grids(explanation) {
        let _ = writeln!(out, "{}", tabled(rows));
    }
    out += &stacks(explanation);
    out
}

/// The conclusion and what it rests on.
pub fn in_short(explanation: &Explanation) -> String {
    format!("{}\n  {}\n", heading(explanation), basis(explanation))
}

/// The causes of all explained differences, each in a line.
pub fn causes(explanations: &[Explanation]) -> Vec<String> {
    explanations.iter().filter_map(because).collect()
}

/// The cause of a difference, in a line; none without one.
pub(crate) fn because(explanation: &Explanation) -> Option<String> {
    let part = first(&explanation.parts).filter(|_| explanation.conclusion == Conclusion::Because)?;
    let (a, b) = (plain(&explanation.a), plain(&explanation.b));
    let (more, less) = if part.a_ns > part.b_ns { (a, b) } else { (b, a) };
    let mostly = part.causes.first().filter(|_| part.only().is_none());
    Some(format!(
        "{} ({}): {} of the time that {more} takes longer than {less} is {}{}",
        plain(&explanation.workload),
        threads_in_words(explanation.threads),
        percent(part.share?),
        part.name(),
        mostly.map_or_else(String::new, |row| format!(", above all {}", row.name()))
    ))
}

/// True if an explanation names a category, or in its first part a cause with these words that has a tenth of the difference at least;
/// false if it names another one, or if the category has less than half of the difference. None if it does neither, and if it rests
/// on stacks without locks.
pub(crate) fn names(explanation: &Explanation, what: &str) -> Option<bool> {
    let category = Category::named(what);
    let is_of_note = |row: &Row| row.share.is_some_and(|(_, (least, _))| least > NOTABLE);
    let is_named = |part: &Part| match category {
        Some(_) => part.category == category,
        None => part.causes.iter().any(|row| row.cause.what.contains(what) && is_of_note(row)),
    };
    match explanation.conclusion {
        _ if explanation.missing.is_some() => None,
        Conclusion::Because => first(&explanation.parts).map(is_named),
        Conclusion::Together => {
            let known =
                explanation.parts.iter().find(|part| category.is_some() && part.category == category)?;
            known.share.filter(|(_, (_, most))| *most < MOST).map(|_| false)
        }
        _ => None,
    }
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
        format!("; the programs that observe took {} % of the thread time", numbers::plain(rounded(share)))
    });
    let missing = explanation
        .missing
        .as_ref()
        .map_or_else(String::new, |what| format!(". What is missing: {}", plain(what)));
    format!("{} observed{observed}{cost}{missing}", counted(explanation.rounds, "round"))
}

/// A percentage with two digits, rounded up.
fn rounded(share: f64) -> f64 {
    let unit = if share < 10.0 { 10.0 } else { 1.0 };
    (share * unit).ceil() / unit
}

/// The sentence with the conclusion.
pub(crate) fn heading(explanation: &Explanation) -> String {
    let names = [&explanation.a, &explanation.b].map(|name| plain(name));
    let [a, b] = names.each_ref().map(String::as_str);
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
            let is_unclear = explanation.observed.is_none_or(|(_, ends)| ends.0 <= 1.0 && ends.1 >= 1.0);
            match is_unclear {
                true => {
                    format!("{verdict}, and the observed runs vary too much to show this; more of them may")
                }
                false => {
                    format!(
                        "{verdict}, and the observed runs do not show this, so they explain nothing; more of them on a quieter \
                         machine may"
                    )
                }
            }
        }
        (Conclusion::Disturbed, _) => format!(
            "{verdict}. Most of the difference is waiting for processors, which other programs used too: explain it on a quieter machine"
        ),
        (Conclusion::NoPart, _) => format!("{verdict}, and no part of the time is clearly larger"),
        (Conclusion::Incomplete, _) => {
            format!(
                "{verdict}, and too much of the time or of the difference is not accounted for to explain it"
            )
        }
        (Conclusion::TooFewRounds, _) => {
            format!("{verdict}; an explanation takes {} observed rounds of both", MIN_ROUNDS)
        }
        _ => format!(
            "{a} and {b} have no verdict yet, so no difference is explained: more rounds or longer runs may decide"
        ),
    };
    format!("{load}: {end}")
}

/// A part in a sentence: of the arm that spends more of it.
fn sentence(part: &Part, [a, b]: [&str; 2]) -> String {
    let is_a = part.a_ns > part.b_ns;
    let (more, less) = if is_a { (a, b) } else { (b, a) };
    let times =
        |(of_a, of_b): (f64, f64)| if is_a { (time(of_a), time(of_b)) } else { (time(of_b), time(of_a)) };
    let (of_more, of_less) = times((part.a_ns, part.b_ns));
    let share = part
        .share
        .map_or_else(String::new, |share| format!(": {} of the difference in thread time", percent(share)));
    let mostly = match (part.only(), part.causes.first()) {
        (None, Some(row)) => {
            let (of_more, of_less) = times((row.a_ns, row.b_ns));
            format!(", above all {} ({of_more} and {of_less})", row.name())
        }
        _ => String::new(),
    };
    format!(
        "the threads of {more} spend {of_more} per operation {}, those of {less} {of_less}{share}{mostly}",
        part.name()
    )
}

/// Other threads that work while the first part is waited for, if they have more than half of the difference.
pub(crate) fn meanwhile(explanation: &Explanation) -> Option<String> {
    let part = first(&explanation.parts)?;
    if !matches!(
        part.category?,
        Category::Lock | Category::Io | Category::Journal | Category::Others | Category::Processor
    ) {
        return None;
    }
    let (all_a, all_b) = explanation.per_operation_ns;
    let more = |it: &Running| (it.a_ns - it.b_ns) / (all_a - all_b);
    let most = explanation.other_threads.iter().max_by(|one, other| more(one).total_cmp(&more(other)))?;
    let (a, b) = (plain(&explanation.a), plain(&explanation.b));
    (more(most) > MOST).then(|| {
        format!(
            "meanwhile {} threads spend {} on a processor per operation of {a}, and {} of {b}",
            plain(&most.name),
            time(most.a_ns),
            time(most.b_ns)
        )
    })
}

/// The use of the device.
pub(crate) fn device(explanation: &Explanation) -> Option<String> {
    let (of_a, of_b) = explanation.device_busy?;
    let (a, b) = (plain(&explanation.a), plain(&explanation.b));
    let percent = |share: f64| numbers::plain(rounded(share * 100.0));
    let times =
        format!("has a request {} % of the time with {a}, and {} % with {b}", percent(of_a), percent(of_b));
    let is_waited_for = first(&explanation.parts)
        .is_some_and(|part| matches!(part.category, Some(Category::Io | Category::Journal)));
    let service = explanation.counters.iter().find(|row| row.name == AT_DEVICE);
    let service = service.and_then(|row| Some((row.a?, row.b?))).filter(|_| is_waited_for);
    let service = service.map_or_else(String::new, |(of_a, of_b)| {
        format!("; a request takes {} there with {a}, and {} with {b}", time(of_a), time(of_b))
    });
    Some(match of_a.max(of_b) < IDLE && !is_waited_for {
        true => format!("the device is not the limit: it {times}"),
        false => format!("the device {times}{service}"),
    })
}

/// Rows of the table of parts, with its headings.
pub(crate) fn grid(explanation: &Explanation) -> Vec<[String; 4]> {
    let all = explanation.per_operation_ns;
    let (a, b) = (plain(&explanation.a), plain(&explanation.b));
    let mut rows = vec![["thread time per operation".into(), a, b, "share of the difference".into()]];
    let (mut others, mut of_others) = (0, (0.0, 0.0));
    for part in &explanation.parts {
        if part.category.is_some() && !is_large((part.a_ns, part.b_ns), all) {
            others += 1;
            of_others = (of_others.0 + part.a_ns, of_others.1 + part.b_ns);
            continue;
        }
        // Of another difference than the timed one.
        let share = part.share.filter(|_| explanation.conclusion != Conclusion::NotReproduced);
        let share = share.map_or_else(|| "?".into(), percent);
        rows.push([part.name(), time(part.a_ns), time(part.b_ns), share]);
        let causes =
            part.causes.iter().filter(|row| part.only().is_none() && is_large((row.a_ns, row.b_ns), all));
        rows.extend(
            causes.map(|row| [format!("– {}", row.name()), time(row.a_ns), time(row.b_ns), String::new()]),
        );
    }
    if others > 0 {
        rows.push([format!("other parts ({others})"), time(of_others.0), time(of_others.1), String::new()]);
    }
    rows.push(["all".into(), time(all.0), time(all.1), String::new()]);
    rows
}

/// Further tables: of other threads, of functions if time on a processor comes first, and of counters; rows with their headings.
pub(crate) fn running_grids(explanation: &Explanation) -> Vec<Vec<[String; 3]>> {
    let grid = |heading: &str, all: &[Running]| {
        let mut rows = vec![[heading.to_owned(), plain(&explanation.a), plain(&explanation.b)]];
        rows.extend(all.iter().map(|it| [plain(&it.name), time(it.a_ns), time(it.b_ns)]));
        rows
    };
    let is_running = first(&explanation.parts).is_some_and(|part| part.category == Some(Category::Processor));
    let functions = if is_running { explanation.functions.as_slice() } else { &[] };
    let (shown, rest) = explanation.other_threads.split_at(THREADS.min(explanation.other_threads.len()));
    let mut threads = grid("other threads of the machine, on a processor per operation", shown);
    if !rest.is_empty() {
        let sum = |of: fn(&Running) -> f64| time(rest.iter().map(of).sum());
        threads.push([format!("others ({})", rest.len()), sum(|it| it.a_ns), sum(|it| it.b_ns)]);
    }
    let functions = grid("functions of the load, on a processor per operation", functions);
    let figure = |unit: &str, value: Option<f64>| match (unit, value) {
        (_, None) => "–".into(),
        (unit::TIME, Some(value)) => time(value),
        (unit::BYTES, Some(value)) => numbers::bytes(value),
        (_, Some(value)) => numbers::grouped(value),
    };
    let mut counters = grid("counted by the kernel, per operation", &[]);
    let counted = |it: &Counted| [it.name.to_owned(), figure(it.unit, it.a), figure(it.unit, it.b)];
    counters.extend(explanation.counters.iter().map(counted));
    [threads, functions, counters].into_iter().filter(|rows| rows.len() > 1).collect()
}

fn tabled<const N: usize>(rows: Vec<[String; N]>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let mut rows = rows.into_iter();
    table.set_header(rows.next().expect("there are headings"));
    table.add_rows(rows);
    figures(table)
}

/// The most frequent stacks of the first cause, of the arm that spends more on it.
fn stacks(explanation: &Explanation) -> String {
    let mut out = String::new();
    for stack in first_stacks(explanation) {
        let _ = writeln!(out, "  {}:\n    {}\n", place(stack), path(stack));
    }
    out
}

/// The time at a place, as text.
pub(crate) fn place(stack: &Stack) -> String {
    let (what, of) = if stack.is_sampled { ("sample", " of its threads there") } else { ("wait", "") };
    let (time, count) = (time(stack.per_operation_ns), counted(stack.count, what));
    format!("{time} per operation of {} ({count}{of})", plain(&stack.arm))
}

/// The functions of a place from the outermost.
pub(crate) fn path(stack: &Stack) -> String {
    stack.frames.iter().rev().map(|frame| plain(frame)).collect::<Vec<_>>().join(" → ")
}

/// The stacks of the first part with most time, of the arm that spends more on it.
pub(crate) fn first_stacks(explanation: &Explanation) -> Vec<&Stack> {
    let Some(part) = first(&explanation.parts) else { return Vec::new() };
    let more = if part.a_ns > part.b_ns { &explanation.a } else { &explanation.b };
    let stacks = part.causes.iter().flat_map(|row| &row.stacks).filter(|stack| stack.arm == *more);
    let mut stacks: Vec<&Stack> = stacks.collect();
    stacks.sort_by(|one, other| other.per_operation_ns.total_cmp(&one.per_operation_ns));
    stacks.truncate(STACKS);
    stacks
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
