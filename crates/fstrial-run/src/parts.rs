//! The parts of a claim in a plan: the contrasts that its expectations ask for.
//!
//! Every question of a claim is one of the m questions of its trial. A bound other than 1 asks two: whether the ratio
//! is beyond the bound, and whether there is a difference in the direction that is claimed at all, so that "1.2 where
//! 1.5 was claimed" is not called the reverse.

use super::cell::{Ask, Cell, Contrast, Of};
use fstrial_model::{
    arm::Arm,
    claim::{Bound, ClaimQuestion, Part, Spot},
};

/// A part of a claim with the contrasts that decide it.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimPart {
    pub part: Part,
    /// Indexes of its contrasts. Of a bound: the first one is about the bound, the second about the direction.
    pub contrasts: Vec<usize>,
    /// Cells that are to be done, or to fail.
    pub watched: Vec<usize>,
}

/// The contrasts of a claim's parts; of the cells only those are left that they need, and those of a control and of its
/// arm wherever another is needed.
pub(super) fn claimed(
    cells: &mut Vec<Cell>,
    parts: Vec<Part>,
    arms: &[Arm],
    practical: f64,
) -> (Vec<Contrast>, Vec<ClaimPart>) {
    let is_used =
        |cell: &Cell| parts.iter().any(|part| spots(&part.question).iter().any(|spot| is_at(cell, spot)));
    let used: Vec<Cell> = cells.iter().copied().filter(is_used).collect();
    // A control where anything rests on its dose, and its arm with it.
    let is_of_use = |cell: &Cell| {
        let here = |spot: &Spot| (spot.workload, spot.threads) == (cell.workload, cell.threads);
        let rests = |part: &Part| {
            part.dose(practical) == arms[cell.arm].planted() && spots(&part.question).iter().any(here)
        };
        arms[cell.arm].control_of.is_some() && parts.iter().any(rests)
    };
    let controls: Vec<Cell> = cells.iter().copied().filter(is_of_use).collect();
    let is_base = |cell: &Cell| {
        let is_its = |control: &Cell| {
            (control.workload, control.threads) == (cell.workload, cell.threads)
                && arms[control.arm].control_of.as_ref() == Some(&arms[cell.arm].name)
        };
        controls.iter().any(is_its)
    };
    cells.retain(|cell| used.contains(cell) || controls.contains(cell) || is_base(cell));
    let (mut all, mut claimed) = (Vec::new(), Vec::new());
    for part in parts {
        let (mut contrasts, watched) = contrasts_of(cells, &part);
        // Of a bound and a direction it is the direction that may show no difference.
        let is_bounded = matches!(part.question, ClaimQuestion::Ratio { .. } | ClaimQuestion::Slope { .. });
        let first = if is_bounded { contrasts.len().saturating_sub(1) } else { 0 };
        for contrast in &mut contrasts[first..] {
            contrast.dose = part.dose(practical);
        }
        let indexes = (all.len()..all.len() + contrasts.len()).collect();
        all.extend(contrasts);
        claimed.push(ClaimPart { part, contrasts: indexes, watched });
    }
    (all, claimed)
}

/// True if a result belongs to this cell.
fn is_at(cell: &Cell, spot: &Spot) -> bool {
    (cell.workload, cell.threads, cell.arm) == (spot.workload, spot.threads, spot.arm)
}

/// Every cell that a question is about.
fn spots(requested: &ClaimQuestion) -> Vec<Spot> {
    match requested {
        ClaimQuestion::Ratio { a, b, .. } | ClaimQuestion::Better { a, b } => vec![*a, *b],
        ClaimQuestion::Slope { cells, .. } => cells.clone(),
        ClaimQuestion::Amount { cell, .. } | ClaimQuestion::Works(cell) | ClaimQuestion::Fails(cell) => {
            vec![*cell]
        }
        ClaimQuestion::NoSingleWinner(groups) => groups.concat(),
    }
}

/// The contrasts of a part, and the cells that are only watched.
fn contrasts_of(all: &[Cell], part: &Part) -> (Vec<Contrast>, Vec<usize>) {
    let cell =
        |spot: &Spot| all.iter().position(|cell| is_at(cell, spot)).expect("cells that are used are kept");
    let contrast = |a: &Spot, b: &Spot, ask: Ask, of: Of| Contrast {
        a: cell(a),
        b: cell(b),
        result_a: a.result,
        result_b: b.result,
        metric: part.metric,
        holds_open: true,
        ask,
        of,
        dose: None,
    };
    let bounded = |a: &Spot, b: &Spot, bound: Bound, of: &Of| {
        asks(bound, matches!(of, Of::Amount)).into_iter().map(|ask| contrast(a, b, ask, of.clone())).collect()
    };
    match &part.question {
        ClaimQuestion::Ratio { a, b, bound } => (bounded(a, b, *bound, &Of::Ratio), Vec::new()),
        ClaimQuestion::Better { a, b } => (vec![contrast(a, b, Ask::Difference, Of::Ratio)], Vec::new()),
        ClaimQuestion::Slope { cells, bound } => {
            let (first, last) = (&cells[0], &cells[cells.len() - 1]);
            (bounded(last, first, *bound, &Of::Slope(cells.iter().map(cell).collect())), Vec::new())
        }
        ClaimQuestion::Amount { cell, bound } => (bounded(cell, cell, *bound, &Of::Amount), Vec::new()),
        ClaimQuestion::Works(spot) | ClaimQuestion::Fails(spot) => (Vec::new(), vec![cell(spot)]),
        ClaimQuestion::NoSingleWinner(groups) => {
            let pairs = groups.iter().flat_map(|group| {
                (0..group.len()).flat_map(move |b| (b + 1..group.len()).map(move |a| (&group[a], &group[b])))
            });
            (pairs.map(|(a, b)| contrast(a, b, Ask::Difference, Of::Ratio)).collect(), Vec::new())
        }
    }
}

/// The questions of a bound. One at 1 asks for the direction; one away from it, on the claimed side, for both.
fn asks(bound: Bound, is_amount: bool) -> Vec<Ask> {
    match bound {
        Bound::Within(fraction) => vec![Ask::Within(fraction)],
        Bound::Above(bound) | Bound::Below(bound) if is_amount => vec![Ask::Above(bound)],
        Bound::Above(1.0) | Bound::Below(1.0) => vec![Ask::Difference],
        Bound::Above(value) if value > 1.0 => vec![Ask::Above(value), Ask::Difference],
        Bound::Below(value) if value < 1.0 => vec![Ask::Above(value), Ask::Difference],
        Bound::Above(value) | Bound::Below(value) => vec![Ask::Above(value)],
    }
}
