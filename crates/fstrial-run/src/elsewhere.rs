//! Measurements made elsewhere: one table of values, whatever file they came from, and the verdicts on them.
//!
//! Values that rounds hold together are judged by the signed ranks and the ratio of sums of a trial, once, with all
//! rounds. Values without rounds are never paired by their row: they are compared by ranks over both groups, and carry the
//! mark that nobody drew their order.

mod order;

pub use order::Order;

use super::{
    contrast::{Outcome, ratio, ratio_interval},
    panels::ALPHA,
};
use fstrial_stats::{
    Decision, Done, Multiplicity, Pair, Panel, Question, Verdict,
    once::{self, Groups, Rounds},
};
use serde::Serialize;

/// What is compared: a number that every arm has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Quantity {
    /// The workload or benchmark; empty if the file has only one.
    pub workload: String,
    /// The name of the number; empty if the file has only one.
    pub metric: String,
    /// Its unit, as the file has it; empty if unknown.
    pub unit: String,
    /// Whether less of it is better.
    pub less_is_better: bool,
}

/// One number of an arm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Value {
    /// The index of the arm.
    pub arm: usize,
    /// The index of what was measured.
    pub asked: usize,
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
    /// What was measured.
    pub asked: Vec<Quantity>,
    /// The numbers. All have rounds or none has.
    pub values: Vec<Value>,
    /// How many rounds there are; none of unpaired data.
    pub rounds: Option<usize>,
    /// Whether the order of the values is that in which they were written down one by one.
    pub is_list: bool,
}

/// How to judge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// δ = ln(1 + practical).
    pub band: f64,
    /// Compare every arm with this one only.
    pub base: Option<usize>,
    /// Decide round by round, as a trial does; else once, with all rounds.
    pub is_sequential: bool,
}

/// By what a verdict was reached.
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

/// What all rounds say where the sequential rule stopped before the last.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OverAll {
    /// The verdict on all rounds, looked at once.
    pub verdict: Outcome,
    /// `a` over `b`.
    pub ratio: Option<f64>,
    /// Its interval.
    pub interval: Option<(f64, f64)>,
    /// All rounds.
    pub rounds: usize,
}

/// A comparison with its verdict. Ratios are `a` over `b` on the number itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The arm that is compared.
    pub a: String,
    /// The arm it is compared with: the base.
    pub b: String,
    /// On what.
    #[serde(flatten)]
    pub asked: Quantity,
    /// The answer.
    pub verdict: Outcome,
    /// None without a round, or where one side has no value.
    pub ratio: Option<f64>,
    /// Interval of the ratio; none while values are too few for one.
    pub interval: Option<(f64, f64)>,
    /// The level of the interval.
    pub interval_level: f64,
    /// How it was reached.
    pub method: Method,
    /// What is known of the order of the values.
    pub order: Order,
    /// Rounds that the verdict rests on; none of unpaired data.
    pub rounds: Option<usize>,
    /// Values of `a` and `b`.
    pub values: [usize; 2],
    /// Its own interval excludes 1, but not at the level that many comparisons together ask for.
    pub suggestive: bool,
    /// Between which numbers of rounds a measurement likely decides it.
    pub rounds_needed: Option<(u64, u64)>,
    /// The ratio of sums over all rounds.
    pub total_ratio: Option<f64>,
    /// Whether the rounds show that it is another than that of a typical round.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub total_is_apart: bool,
    /// Undecided only because the ratio of sums does not bear out the typical one.
    pub waits_for_total: bool,
    /// What all rounds say, where fewer decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_all: Option<OverAll>,
}

/// Two arms on one number.
#[derive(Debug, Clone, Copy)]
struct Contrast {
    asked: usize,
    a: usize,
    b: usize,
}

/// How many comparisons a table asks for, and how many values they look at in all: what judging takes.
pub fn size(table: &Table, settings: &Settings) -> (usize, usize) {
    let arms = table.arms.len();
    let mut values = vec![0_usize; table.asked.len() * arms];
    for value in &table.values {
        values[value.asked * arms + value.arm] += 1;
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
    let contrasts = contrasts(table, settings);
    let by_cell = by_cell(table);
    let cell = |asked: usize, arm: usize| &by_cell[asked * table.arms.len() + arm];
    let sides: Vec<[&[PlacedValue]; 2]> = contrasts
        .iter()
        .map(|contrast| [contrast.a, contrast.b].map(|arm| cell(contrast.asked, arm).as_slice()))
        .collect();
    match (table.rounds, settings.is_sequential) {
        (None, _) => unpaired(table, settings, &contrasts, &sides),
        (Some(_), false) => in_rounds(table, settings, &contrasts, &sides),
        (Some(_), true) => round_by_round(table, settings, &contrasts, &sides),
    }
}

/// Every pair of arms that have the number, the one named earlier as `b`; or every arm against the base.
fn contrasts(table: &Table, settings: &Settings) -> Vec<Contrast> {
    let mut has = vec![false; table.asked.len() * table.arms.len()];
    for value in &table.values {
        has[value.asked * table.arms.len() + value.arm] = true;
    }
    let mut contrasts = Vec::new();
    for asked in 0..table.asked.len() {
        let arms: Vec<usize> =
            (0..table.arms.len()).filter(|arm| has[asked * table.arms.len() + arm]).collect();
        for (index, b) in arms.iter().enumerate() {
            let others: &[usize] = match settings.base {
                Some(base) if base == *b => &arms,
                Some(_) => &[],
                None => &arms[index + 1..],
            };
            let others = others.iter().filter(|a| *a != b);
            contrasts.extend(others.map(|a| Contrast { asked, a: *a, b: *b }));
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

/// The values of every number and arm, in the order of rounds.
fn by_cell(table: &Table) -> Vec<Vec<PlacedValue>> {
    let mut cells = vec![Vec::new(); table.asked.len() * table.arms.len()];
    for (row, value) in table.values.iter().enumerate() {
        let placed =
            PlacedValue { row, round: value.round.unwrap_or(row), order: value.order, value: value.value };
        cells[value.asked * table.arms.len() + value.arm].push(placed);
    }
    cells.iter_mut().for_each(|cell: &mut Vec<PlacedValue>| cell.sort_by_key(|placed| placed.round));
    cells
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

/// A round for the statistics: where less is better the roles are exchanged, and exchanged back for display.
fn pair([a, b]: [&PlacedValue; 2], less_is_better: bool) -> Pair {
    let pair = Pair::of_done(Done::figure(a.value), Done::figure(b.value));
    if less_is_better { pair.swapped() } else { pair }
}

fn in_rounds(
    table: &Table,
    settings: &Settings,
    contrasts: &[Contrast],
    sides: &[[&[PlacedValue]; 2]],
) -> Vec<Finding> {
    let verdicts = once::of_rounds(rounds_of(table, settings, contrasts, sides), ALPHA);
    let all = contrasts.iter().zip(sides).zip(verdicts);
    all.map(|((contrast, sides), verdict)| finding(table, *contrast, sides, &verdict, Method::SignedRank))
        .collect()
}

fn rounds_of(
    table: &Table,
    settings: &Settings,
    contrasts: &[Contrast],
    sides: &[[&[PlacedValue]; 2]],
) -> Vec<Rounds> {
    let rounds = |(contrast, sides): (&Contrast, &[&[PlacedValue]; 2])| {
        let less = table.asked[contrast.asked].less_is_better;
        let pairs = matched(sides).into_iter().map(|both| pair(both, less)).collect();
        Rounds { question: Question::comparison(settings.band), pairs }
    };
    contrasts.iter().zip(sides).map(rounds).collect()
}

/// The rule of a trial, which looks after every round; and what all rounds say.
fn round_by_round(
    table: &Table,
    settings: &Settings,
    contrasts: &[Contrast],
    sides: &[[&[PlacedValue]; 2]],
) -> Vec<Finding> {
    let questions = vec![Question::comparison(settings.band); contrasts.len()];
    let mut panel = Panel::new(questions, ALPHA, Multiplicity::BenjaminiHochberg);
    let mut rounds: Vec<_> = sides.iter().map(|sides| matched(sides).into_iter().peekable()).collect();
    for round in 0..table.rounds.unwrap_or_default() {
        for (index, (contrast, rounds)) in contrasts.iter().zip(&mut rounds).enumerate() {
            let less = table.asked[contrast.asked].less_is_better;
            if let Some(both) = rounds.next_if(|[a, _]| a.round == round) {
                panel.push(index, pair(both, less));
            }
        }
        panel.settle();
    }
    panel.finish();
    let all = in_rounds(table, settings, contrasts, sides);
    let found = all.into_iter().zip(contrasts).zip(sides).enumerate();
    found
        .map(|(index, ((all, contrast), sides))| {
            let found = finding(table, *contrast, sides, &panel.verdict(index), Method::Sequential);
            let over_all = (found.rounds < all.rounds).then(|| OverAll {
                verdict: all.verdict,
                ratio: all.ratio,
                interval: all.interval,
                rounds: all.rounds.unwrap_or_default(),
            });
            Finding { over_all, ..found }
        })
        .collect()
}

fn finding(
    table: &Table,
    contrast: Contrast,
    sides: &[&[PlacedValue]; 2],
    verdict: &Verdict,
    method: Method,
) -> Finding {
    let asked = table.asked[contrast.asked].clone();
    let less = asked.less_is_better;
    let both = matched(sides);
    let is_undecided = verdict.decision == Decision::Undecided;
    Finding {
        a: table.arms[contrast.a].clone(),
        b: table.arms[contrast.b].clone(),
        asked,
        verdict: verdict.decision.into(),
        ratio: verdict.estimate.map(|log| ratio(log, less)),
        interval: verdict.interval.map(|logs| ratio_interval(logs, less)),
        interval_level: verdict.interval_level,
        method,
        order: order::of_rounds(&both, sides, table.is_list),
        rounds: Some(verdict.rounds),
        values: sides.map(<[PlacedValue]>::len),
        suggestive: verdict.excludes_zero_undecided,
        rounds_needed: verdict
            .rounds_needed
            .filter(|_| is_undecided)
            .map(|(low, high)| (low as u64, high as u64)),
        total_ratio: verdict.total.map(|total| ratio(total, less)),
        total_is_apart: verdict.total_is_apart,
        waits_for_total: verdict.waits_for_total,
        over_all: None,
    }
}

/// Values that no round holds together: by ranks over both groups.
fn unpaired(
    table: &Table,
    settings: &Settings,
    contrasts: &[Contrast],
    sides: &[[&[PlacedValue]; 2]],
) -> Vec<Finding> {
    let groups = |(contrast, sides): (&Contrast, &[&[PlacedValue]; 2])| {
        let sign = if table.asked[contrast.asked].less_is_better { -1.0 } else { 1.0 };
        let [a, b] = sides.map(|side| side.iter().map(|placed| sign * placed.value.ln()).collect());
        Groups { a, b, band: settings.band }
    };
    let asked: Vec<Groups> = contrasts.iter().zip(sides).map(groups).collect();
    let found = contrasts.iter().zip(sides).zip(once::of_groups(&asked, ALPHA));
    found
        .map(|((contrast, sides), compared)| {
            let asked = table.asked[contrast.asked].clone();
            let less = asked.less_is_better;
            Finding {
                a: table.arms[contrast.a].clone(),
                b: table.arms[contrast.b].clone(),
                asked,
                verdict: compared.decision.into(),
                ratio: compared.estimate.map(|log| ratio(log, less)),
                interval: compared.interval.map(|logs| ratio_interval(logs, less)),
                interval_level: compared.interval_level,
                method: Method::RankSum,
                order: Order::Unpaired,
                rounds: None,
                values: sides.map(<[PlacedValue]>::len),
                suggestive: compared.suggestive,
                rounds_needed: None,
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
