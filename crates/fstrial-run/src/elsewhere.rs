//! Measurements of other tools: one table of values, from any file, and the verdicts on them.
//!
//! Values grouped by rounds become the rounds of a trial, judged once with all rounds, or round by round. Values
//! without rounds are never paired by their row: they are compared by ranks over both groups, and marked as not
//! randomised.

mod order;

pub use order::ArmOrder;

use super::{
    cell::{Ask, Cell, Contrast, Of},
    contrast::{ContrastState, Outcome, ratio, ratio_interval},
    course,
    judge::Judge,
    panels::ALPHA,
    plan::Plan,
    round::Round,
    sample::Sample,
};
use fstrial_model::{
    arm::Arm,
    metric::Metric,
    trial::{self, Compare, ErrorControl, Trial},
    units::{Bytes, Percent},
    workload::{ResultKind, Work, Workload},
};
use fstrial_stats::groups::{self, Groups};
use serde::Serialize;

/// A compared quantity: a number of every arm.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Quantity {
    /// The workload or benchmark; empty if the file has only one.
    pub workload: String,
    /// The name of the number; empty if the file has only one.
    pub metric: String,
    /// Its unit, as the file has it; empty if unknown.
    pub unit: String,
    /// True if less is better.
    pub less_is_better: bool,
}

/// One number of an arm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Value {
    /// The index of the arm.
    pub arm: usize,
    /// The index of the quantity.
    pub quantity: usize,
    /// The round that holds it together with those of other arms, ascending; none of unpaired data.
    pub round: Option<usize>,
    /// When it was measured: its place in the round, or in all.
    pub order: Option<f64>,
    /// The number: positive and finite.
    pub value: f64,
}

/// All values, in the order of the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Names, in the order of the file.
    pub arms: Vec<String>,
    /// Numbers that arms are compared by; values refer to them by index.
    pub quantities: Vec<Quantity>,
    /// The numbers. All have rounds or none has.
    pub values: Vec<Value>,
    /// Number of rounds; none for unpaired data.
    pub rounds: Option<usize>,
    /// True if the order of the values is the order of recording.
    pub is_list: bool,
}

/// Settings of the judgement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The band inside which a difference does not matter.
    pub practical: Percent,
    /// Compare every arm with this one only.
    pub base: Option<usize>,
    /// Decide round by round, as a trial does; else once, with all rounds.
    pub is_sequential: bool,
}

/// Method of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Signed ranks of rounds and the ratio of sums, once.
    SignedRank,
    /// The same after every round, stopping at the first that decides.
    Sequential,
    /// Ranks over both groups.
    RankSum,
}

/// Result of all rounds, if the sequential rule stopped before the last.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OverAll {
    /// The verdict on all rounds, judged once.
    pub verdict: Outcome,
    /// `a` over `b`.
    pub ratio: Option<f64>,
    /// Interval of `ratio`; none if values are too few for one.
    pub interval: Option<(f64, f64)>,
    /// Confidence level of `interval`: 1 − α, or 1 − 2α if the two are equivalent.
    pub interval_level: f64,
    /// Number of all rounds, including those after the sequential rule stopped.
    pub rounds: usize,
}

/// A comparison with its verdict. Ratios are `a` over `b` on the number itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The arm that is compared.
    pub a: String,
    /// The arm it is compared with: the base.
    pub b: String,
    /// Number that is compared: one of [`Table::quantities`].
    #[serde(flatten)]
    pub quantity: Quantity,
    /// The answer.
    pub verdict: Outcome,
    /// None without a round, or if one side has no value.
    pub ratio: Option<f64>,
    /// Interval of the ratio; none while values are too few for one.
    pub interval: Option<(f64, f64)>,
    /// Confidence level of `interval`: 1 − α, or 1 − 2α if the two are equivalent.
    pub interval_level: f64,
    /// Signed ranks once, after every round, or ranks of unpaired values.
    pub method: Method,
    /// Known order of the values.
    pub order: ArmOrder,
    /// Rounds that the verdict rests on; none of unpaired data.
    pub rounds: Option<usize>,
    /// Values of `a` and `b`.
    pub values: [usize; 2],
    /// Its own interval excludes 1, but not at the level that many comparisons together ask for.
    pub suggestive: bool,
    /// Between which numbers of rounds a measurement likely decides it.
    pub rounds_needed: Option<(u64, u64)>,
    /// For an undecided one the narrowest of some bands that it was shown to be in, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within_percent: Option<f64>,
    /// True if that is close enough for either to do; then the interval is the one that shows it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub near: bool,
    /// The ratio of sums over all rounds.
    pub total_ratio: Option<f64>,
    /// True if the rounds show that it differs from that of a typical round.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub total_is_apart: bool,
    /// Undecided only because the ratio of sums does not bear out the typical one.
    pub waits_for_total: bool,
    /// Result of all rounds, if fewer decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_all: Option<OverAll>,
}

/// Number of comparisons of a table, and of values in all of them: the cost of judging.
pub fn size(table: &Table, settings: &Settings) -> (usize, usize) {
    let arms = table.arms.len();
    let mut values = vec![0_usize; table.quantities.len() * arms];
    for value in &table.values {
        values[value.quantity * arms + value.arm] += 1;
    }
    let of_asked = |values: &[usize]| {
        let there = values.iter().filter(|count| **count > 0).count();
        let all: usize = values.iter().sum();
        match settings.base.map(|base| values[base]) {
            Some(0) => (0, 0),
            // Every arm but the base once, and the base as often as there are others.
            Some(base) => (there.saturating_sub(1), all - base + there.saturating_sub(1) * base),
            None => (there * there.saturating_sub(1) / 2, all * there.saturating_sub(1)),
        }
    };
    let sizes = values.chunks(arms.max(1)).map(of_asked);
    sizes.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

/// Judges every comparison of a table.
pub fn judge(table: &Table, settings: &Settings) -> Vec<Finding> {
    let plan = plan(table, settings);
    let by_cell = by_cell(table);
    let sides = |contrast: &Contrast| [contrast.a, contrast.b].map(|cell| by_cell[cell].as_slice());
    let sides: Vec<[&[PlacedValue]; 2]> = plan.contrasts.iter().map(sides).collect();
    let once = || in_rounds(table, Judge::looking_once(&plan), &sides, Method::SignedRank);
    match (table.rounds, settings.is_sequential) {
        (None, _) => unpaired(table, &plan, &sides),
        (Some(_), false) => once(),
        (Some(_), true) => {
            let found = in_rounds(table, Judge::new(&plan), &sides, Method::Sequential);
            let found = found.into_iter().zip(once());
            found.map(|(found, all)| Finding { over_all: over_all(&found, &all), ..found }).collect()
        }
    }
}

/// Result of all rounds, if fewer decided.
fn over_all(found: &Finding, all: &Finding) -> Option<OverAll> {
    let Finding { verdict, ratio, interval, interval_level, rounds, .. } = *all;
    let all = OverAll { verdict, ratio, interval, interval_level, rounds: rounds.unwrap_or_default() };
    (found.rounds < rounds).then_some(all)
}

/// The table as a trial that was run: a number of an arm is a cell. A judge asks of an arm its name and whether it is a
/// control, of a workload its name and whether it is a program; nothing else of them is known here.
fn plan(table: &Table, settings: &Settings) -> Plan {
    let arm = |name: &String| Arm { name: name.clone(), ..Arm::plain("dir") };
    let settings_of_trial = trial::Settings {
        practical: settings.practical,
        errors: ErrorControl::Fdr,
        stalls: None,
        compare: Compare::Arms,
        ..trial::Settings::default()
    };
    let trial =
        Trial { trial: settings_of_trial, arms: table.arms.iter().map(arm).collect(), ..Trial::default() };
    let workload = |quantity: &Quantity| Workload {
        name: quantity.workload.clone(),
        work: Work::Load(Vec::new()),
        threads: vec![1],
        period: None,
    };
    let result = |quantity: &Quantity| ResultKind {
        name: quantity.metric.clone(),
        unit: quantity.unit.clone(),
        less_is_better: quantity.less_is_better,
        has_latencies: false,
        offered_rate: None,
    };
    let cells = (0..table.quantities.len())
        .flat_map(|workload| (0..table.arms.len()).map(move |arm| Cell { workload, threads: 1, arm }));
    Plan {
        workloads: table.quantities.iter().map(workload).collect(),
        results: table.quantities.iter().map(|quantity| vec![result(quantity)]).collect(),
        cells: cells.collect(),
        contrasts: contrasts(table, settings),
        parts: Vec::new(),
        seed: 0,
        cpus: 1,
        device_size: Bytes(0),
        places: vec![None],
        place_of: vec![0; table.arms.len()],
        trial,
    }
}

/// The cell of a value in such a plan.
const fn cell_of(table: &Table, quantity: usize, arm: usize) -> usize {
    quantity * table.arms.len() + arm
}

/// Every pair of arms that have the number, the one named earlier as `b`; or every arm against the base.
fn contrasts(table: &Table, settings: &Settings) -> Vec<Contrast> {
    let mut has = vec![false; table.quantities.len() * table.arms.len()];
    for value in &table.values {
        has[cell_of(table, value.quantity, value.arm)] = true;
    }
    let mut contrasts = Vec::new();
    for quantity in 0..table.quantities.len() {
        let arms: Vec<usize> =
            (0..table.arms.len()).filter(|arm| has[cell_of(table, quantity, *arm)]).collect();
        for (index, b) in arms.iter().enumerate() {
            let others: &[usize] = match settings.base {
                Some(base) if base == *b => &arms,
                Some(_) => &[],
                None => &arms[index + 1..],
            };
            let of = |a: &usize| Contrast {
                a: cell_of(table, quantity, *a),
                b: cell_of(table, quantity, *b),
                result_a: 0,
                result_b: 0,
                metric: Metric::Throughput,
                holds_open: true,
                ask: Ask::Difference,
                of: Of::Ratio,
                dose: None,
            };
            contrasts.extend(others.iter().filter(|a| *a != b).map(of));
        }
    }
    contrasts
}

/// A value with its row.
#[derive(Debug, Clone, Copy)]
struct PlacedValue {
    row: usize,
    round: usize,
    order: Option<f64>,
    value: f64,
}

/// The values of every cell, in the order of rounds.
fn by_cell(table: &Table) -> Vec<Vec<PlacedValue>> {
    let mut cells = vec![Vec::new(); table.quantities.len() * table.arms.len()];
    for (row, value) in table.values.iter().enumerate() {
        let placed =
            PlacedValue { row, round: value.round.unwrap_or(row), order: value.order, value: value.value };
        cells[cell_of(table, value.quantity, value.arm)].push(placed);
    }
    cells.iter_mut().for_each(|cell: &mut Vec<PlacedValue>| cell.sort_by_key(|placed| placed.round));
    cells
}

/// The rounds of a table, as they were run.
fn rounds(table: &Table) -> impl Iterator<Item = Round> {
    let mut values: Vec<&Value> = table.values.iter().collect();
    values.sort_by_key(|value| value.round);
    let run = |number: u32, value: &Value| {
        (cell_of(table, value.quantity, value.arm), Ok(vec![Sample::of_value(number, 0, value.value)]))
    };
    let rounds: Vec<Vec<&Value>> =
        values.chunk_by(|one, other| one.round == other.round).map(<[&Value]>::to_vec).collect();
    rounds.into_iter().zip(1..).map(move |(values, number)| Round {
        number,
        is_resumed: false,
        runs: values.into_iter().map(|value| run(number, value)).collect(),
    })
}

/// The rounds that have both.
fn matched<'s>(sides: &[&'s [PlacedValue]; 2]) -> Vec<[&'s PlacedValue; 2]> {
    let [a, b] = sides;
    let mut rest = b.iter().peekable();
    let mut found = Vec::new();
    for a in *a {
        while rest.next_if(|b| b.round < a.round).is_some() {}
        found.extend(rest.next_if(|b| b.round == a.round).map(|b| [a, b]));
    }
    found
}

/// The findings of a fresh judge of the plan on the rounds of the table.
fn in_rounds(table: &Table, judge: Judge<'_>, sides: &[[&[PlacedValue]; 2]], method: Method) -> Vec<Finding> {
    let judge = course::judged_by(judge, rounds(table));
    let found = judge.states().into_iter().zip(&judge.plan.contrasts).zip(sides);
    found.map(|((state, contrast), sides)| finding(table, contrast, sides, state, method)).collect()
}

fn finding(
    table: &Table,
    contrast: &Contrast,
    sides: &[&[PlacedValue]; 2],
    state: ContrastState,
    method: Method,
) -> Finding {
    Finding {
        quantity: table.quantities[contrast.a / table.arms.len()].clone(),
        order: order::of_rounds(&matched(sides), sides, table.is_list),
        rounds: Some(state.rounds),
        values: sides.map(<[PlacedValue]>::len),
        rounds_needed: state.rounds_needed.filter(|_| state.verdict == Outcome::Undecided),
        a: state.a,
        b: state.b,
        verdict: state.verdict,
        ratio: state.ratio,
        interval: state.interval,
        interval_level: state.interval_level,
        method,
        suggestive: state.suggestive,
        within_percent: state.within_percent,
        near: state.near,
        total_ratio: state.total_ratio,
        total_is_apart: state.total_is_apart,
        waits_for_total: state.waits_for_total,
        over_all: None,
    }
}

/// Values that no round holds together: by ranks over both groups.
fn unpaired(table: &Table, plan: &Plan, sides: &[[&[PlacedValue]; 2]]) -> Vec<Finding> {
    let band = plan.trial.trial.practical.fraction().ln_1p();
    let quantity = |contrast: &Contrast| &table.quantities[plan.cells[contrast.a].workload];
    let groups = |(contrast, sides): (&Contrast, &[&[PlacedValue]; 2])| {
        let sign = if quantity(contrast).less_is_better { -1.0 } else { 1.0 };
        let [a, b] = sides.map(|side| side.iter().map(|placed| sign * placed.value.ln()).collect());
        Groups { a, b, band }
    };
    let groups: Vec<Groups> = plan.contrasts.iter().zip(sides).map(groups).collect();
    let found = plan.contrasts.iter().zip(sides).zip(groups::compare(&groups, ALPHA));
    found
        .map(|((contrast, sides), compared)| {
            let less = quantity(contrast).less_is_better;
            let (a, b) = plan.names(contrast);
            Finding {
                a,
                b,
                quantity: quantity(contrast).clone(),
                verdict: compared.decision.into(),
                ratio: compared.estimate.map(|log| ratio(log, less)),
                interval: compared.interval.map(|logs| ratio_interval(logs, less)),
                interval_level: compared.interval_level,
                method: Method::RankSum,
                order: ArmOrder::Unpaired,
                rounds: None,
                values: sides.map(<[PlacedValue]>::len),
                suggestive: compared.suggestive,
                rounds_needed: None,
                within_percent: None,
                near: false,
                total_ratio: None,
                total_is_apart: false,
                waits_for_total: false,
                over_all: None,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
