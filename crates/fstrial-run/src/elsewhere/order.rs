//! Order of measurements made by other tools, as far as a file shows it.
//!
//! A verdict on rounds depends on one coin flip in each: the arm that came first. A file can show that no coin was
//! flipped.

use super::PlacedValue;
use serde::Serialize;

/// The order of two arms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArmOrder {
    /// It varies from round to round, as if it had been drawn.
    Varied,
    /// The file does not show it.
    Unknown,
    /// They took turns at coming first.
    Alternating,
    /// `a` came first in every round, or nearly so.
    AFirst,
    /// `b` came first in every round, or nearly so.
    BFirst,
    /// All of `a` was measured before any of `b`.
    AllOfAFirst,
    /// All of `b` was measured before any of `a`.
    AllOfBFirst,
    /// There are no rounds in which an order could have been drawn.
    Unpaired,
}

impl ArmOrder {
    /// True if the file shows that the order was not random.
    pub const fn is_not_random(self) -> bool {
        !matches!(self, Self::Varied | Self::Unknown)
    }
}

/// Rounds with one and the same order from which on it is not chance: of four, one in eight is so.
const MIN_SAME: usize = 4;
/// Rounds of strict turns from which on it is not chance: of eight, one in 128 is so.
const MIN_TURNS: usize = 8;

/// The order of two arms in their rounds. Without a column for it, rows that list one arm after the other still show
/// it.
pub(super) fn of_rounds(
    rounds: &[[&PlacedValue; 2]],
    sides: &[&[PlacedValue]; 2],
    is_list: bool,
) -> ArmOrder {
    let orders = rounds.iter().map(|[a, b]| Some((a.order?, b.order?)));
    let Some(orders) = orders.collect::<Option<Vec<(f64, f64)>>>().filter(|orders| !orders.is_empty()) else {
        let rows = sides.map(|side| side.iter().map(|placed| placed.row).collect::<Vec<_>>());
        return if is_list { of_rows(&rows) } else { ArmOrder::Unknown };
    };
    if orders.iter().any(|(a, b)| a == b) {
        return ArmOrder::Unknown;
    }
    if let Some(blocks) = blocks(&orders) {
        return blocks;
    }
    let a_first: Vec<bool> = orders.iter().map(|(a, b)| a < b).collect();
    let (all, firsts) = (a_first.len(), a_first.iter().filter(|first| **first).count());
    if all >= MIN_SAME && is_lopsided(firsts, all) {
        return if firsts * 2 > all { ArmOrder::AFirst } else { ArmOrder::BFirst };
    }
    let in_turns = all >= MIN_TURNS && a_first.windows(2).all(|two| two[0] != two[1]);
    if in_turns { ArmOrder::Alternating } else { ArmOrder::Varied }
}

/// True if one came first in every round, or so often that a fair coin does it in one of a thousand series (3.3
/// standard deviations).
fn is_lopsided(firsts: usize, all: usize) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "numbers of rounds")]
    let (more, all_rounds) = (firsts.max(all - firsts) as f64, all as f64);
    firsts == 0 || firsts == all || (more - 0.5 - all_rounds / 2.0) / (all_rounds.sqrt() / 2.0) > 3.3
}

/// One arm after the other, by places that continue through all rounds.
fn blocks(orders: &[(f64, f64)]) -> Option<ArmOrder> {
    let mut places: Vec<f64> = orders.iter().flat_map(|(a, b)| [*a, *b]).collect();
    places.sort_by(f64::total_cmp);
    let counts_on = places.windows(2).all(|two| two[0] < two[1]);
    let ends = |of: fn(&(f64, f64)) -> f64| {
        let least = orders.iter().map(of).fold(f64::INFINITY, f64::min);
        (least, orders.iter().map(of).fold(f64::NEG_INFINITY, f64::max))
    };
    let (a, b) = (ends(|order| order.0), ends(|order| order.1));
    let is_long = orders.len() > 1 && counts_on;
    match (a.1 < b.0, b.1 < a.0) {
        (true, _) if is_long => Some(ArmOrder::AllOfAFirst),
        (_, true) if is_long => Some(ArmOrder::AllOfBFirst),
        _ => None,
    }
}

/// Rows of a list: one arm after the other, or nothing that is known.
fn of_rows([a, b]: &[Vec<usize>; 2]) -> ArmOrder {
    let comes_first = |one: &[usize], other: &[usize]| {
        one.len() > 1 && other.len() > 1 && one.iter().max() < other.iter().min()
    };
    match (comes_first(a, b), comes_first(b, a)) {
        (true, _) => ArmOrder::AllOfAFirst,
        (_, true) => ArmOrder::AllOfBFirst,
        _ => ArmOrder::Unknown,
    }
}
