//! The figure of a cell itself: the typical result of its runs.

use fstrial_stats::{estimate::Walsh, signed_rank};

/// Positive numbers as they come in, one for each run: their robust mean, by Hodges and Lehmann on logarithms, and the interval of
/// the one-sample signed-rank test. No verdict rests on it, and no trial stops for it.
#[derive(Debug, Clone, Default)]
pub struct Typical {
    walsh: Walsh,
    /// The least and the greatest.
    range: Option<(f64, f64)>,
}

impl Typical {
    /// One for very many numbers, in little memory; slow if asked after each.
    pub fn counted() -> Self {
        Self { walsh: Walsh::counted(), range: None }
    }

    /// Adds the number of a run.
    pub fn push(&mut self, value: f64) {
        self.walsh.push(value.ln());
        self.range = Some(self.range.map_or((value, value), |(low, high)| (low.min(value), high.max(value))));
    }

    /// Runs so far.
    pub fn runs(&self) -> usize {
        self.walsh.rounds()
    }

    /// The robust mean; none before the first run.
    pub fn value(&self) -> Option<f64> {
        self.walsh.estimate().map(f64::exp)
    }

    /// Its interval of 95 %; none before six runs.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let critical = signed_rank::largest_critical(self.runs(), 0.05);
        self.walsh.interval(critical).map(|(low, high)| (low.exp(), high.exp()))
    }

    /// The interval, or before there is one the range of the runs; none of a single one.
    pub fn interval_or_range(&self) -> Option<(f64, f64)> {
        self.interval().or(self.range.filter(|_| self.runs() > 1))
    }
}

impl FromIterator<f64> for Typical {
    fn from_iter<T: IntoIterator<Item = f64>>(values: T) -> Self {
        let mut typical = Self::default();
        values.into_iter().for_each(|value| typical.push(value));
        typical
    }
}
