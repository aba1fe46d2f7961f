//! Expectations of a claim, as users write them: one kind in each table.

use super::{CellName, Level};
use crate::{
    metric::Metric,
    units::{Bytes, Nanos, Percent},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One thing that is expected. Exactly one of `ratio`, `flat`, `order`, `flips`, `slope`, `works`, `fails`, `amount` and
/// `no_single_winner`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Expectation {
    /// This part of the statement, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub says: Option<String>,
    /// The interpretation of the source's words: the reading of "much" or "the same", and its reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reading: Option<String>,
    /// It is about a cause that the trial itself plants (`serialise`, a handicap): if it fails, the claim cannot be
    /// assessed here, as its own cause would go undetected too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub planted: bool,
    /// Two cells: the first over the second, of the figure itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<(CellName, CellName)>,
    /// Cells that are all the same as the first, within a band.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flat: Option<Vec<CellName>>,
    /// Cells, each better than the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Vec<CellName>>,
    /// Two arms: the first is better at the levels of `leads_at`, and worse at those of `trails_at`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flips: Option<(CellName, CellName)>,
    /// flips: levels at which the first is better.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leads_at: Vec<Level>,
    /// flips: levels at which it is worse.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trails_at: Vec<Level>,
    /// An arm: the factor of its figure for each doubling of the threads, over all its levels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slope: Option<CellName>,
    /// Cells that are done, every time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub works: Option<Vec<CellName>>,
    /// Cells that fail, or that the arm cannot do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fails: Option<Vec<CellName>>,
    /// A cell whose figure is bounded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount: Option<CellName>,
    /// No arm is the best, or as good as the best, under every workload at every level.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_single_winner: bool,
    /// Lower bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub above: Option<Number>,
    /// Upper bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below: Option<Number>,
    /// It differs by no more than this from being the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<Percent>,
    /// ratio: the cause that the explanation of the difference names: a category such as `lock`, or words of a cause. The trial needs
    /// `explain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// The metric; default: throughput (the figure of a result).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<Metric>,
    /// The original figure: the same ratio, slope or amount as it was measured then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: Option<Number>,
}

impl Expectation {
    /// Every cell that it names.
    pub fn cells(&self) -> impl Iterator<Item = &CellName> {
        let pairs = self.ratio.iter().chain(&self.flips).flat_map(|(a, b)| [a, b]);
        let lists = [&self.flat, &self.order, &self.works, &self.fails].into_iter().flatten().flatten();
        pairs.chain(lists).chain(&self.slope).chain(&self.amount)
    }
}

/// A number, or one with a unit: 1.3, "10s", "1GiB"; in tables of a source also words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Number {
    /// A whole number.
    Whole(i64),
    /// A number.
    Plain(f64),
    /// With a unit.
    Text(String),
}

impl Number {
    /// Its value in the base unit: nanoseconds, bytes, or the number itself. None if it is not a number.
    #[expect(clippy::cast_precision_loss, reason = "a bound that people write")]
    pub fn value(&self) -> Option<f64> {
        match self {
            Self::Whole(number) => Some(*number as f64),
            Self::Plain(number) => Some(*number).filter(|number| number.is_finite()),
            Self::Text(text) => {
                let bytes = || text.parse::<Bytes>().ok().map(|bytes| bytes.0 as f64);
                text.parse::<Nanos>().ok().map(|nanos| nanos.0 as f64).or_else(bytes)
            }
        }
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole(number) => number.fmt(f),
            Self::Plain(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_base_unit() {
        let value = |number: Number| number.value();
        assert_eq!(value(Number::Whole(3)), Some(3.0));
        assert_eq!(value(Number::Text("10s".into())), Some(1e10));
        assert_eq!(value(Number::Text("4KiB".into())), Some(4096.0));
        assert_eq!(value(Number::Text("many".into())), None);
        assert_eq!(value(Number::Plain(f64::NAN)), None);
    }
}
