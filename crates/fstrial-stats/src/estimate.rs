//! From the rounds of one contrast to an estimate and an interval: Walsh averages.
//!
//! Each pair of rounds i ≤ j gives one average w_ij = (d_i + d_j)/2 of their log-ratios. The estimate θ̂ is the median of
//! all of them; for a critical count k the interval is [w(k), w(M+1−k)], M = n(n+1)/2.
//!
//! Source: Hodges and Lehmann 1963. Assumes the log-ratios are symmetric about one value, which random order makes true
//! when a and b do not differ. No round is dropped, and all count alike: a round in which an arm stalls is a round that its
//! users have.

use crate::schedule::Schedule;
use crate::{selection, signed_rank, spread};

/// Work of one run: `amount` (of operations or bytes) in `time` (of any unit, the same for all runs of a contrast). A
/// figure that is not a rate has the time 1. Both are above 0 and finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Done {
    /// Operations, bytes, or the figure itself.
    pub amount: f64,
    /// Time for `amount`; 1 for a figure that is not a rate.
    pub time: f64,
}

impl Done {
    /// A figure that is not a rate.
    pub fn figure(amount: f64) -> Done {
        Done { amount, time: 1.0 }
    }
}

/// One round of one contrast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// d = ln(rate_a) − ln(rate_b).
    pub log_ratio: f64,
    /// Work of both, for a contrast whose totals must not contradict its typical ratio ([`crate::total`]): for all of
    /// its rounds or for none.
    pub done: Option<[Done; 2]>,
}

impl Pair {
    /// A ratio that has no totals.
    ///
    /// # Panics
    /// If a value is not positive and finite: such a cell has FAILED and has no ratio.
    pub fn of_values(a: f64, b: f64) -> Pair {
        assert!(a > 0.0 && a.is_finite(), "value of a: {a}");
        assert!(b > 0.0 && b.is_finite(), "value of b: {b}");
        Pair { log_ratio: libm::log(a) - libm::log(b), done: None }
    }

    /// A ratio of rates, with the work.
    ///
    /// # Panics
    /// If an amount or a time is not positive and finite.
    pub fn of_done(a: Done, b: Done) -> Pair {
        let [amounts, times] =
            [(a.amount, b.amount), (a.time, b.time)].map(|(a, b)| Pair::of_values(a, b).log_ratio);
        Pair { log_ratio: amounts - times, done: Some([a, b]) }
    }
}

/// The Walsh averages of the rounds so far, kept sorted as rounds arrive.
///
/// Appending round n costs one merge of n(n+1)/2 numbers. [`Walsh::counted`] keeps the rounds alone, and walks along
/// them for each answer: for any number of rounds that are complete and judged once.
#[derive(Clone, Debug, Default)]
pub struct Walsh {
    /// d of each round.
    rounds: Vec<f64>,
    /// All averages in ascending order; none if they are counted.
    sorted: Vec<f64>,
    is_counted: bool,
}

impl Walsh {
    /// One that keeps no list of its averages.
    pub fn counted() -> Walsh {
        Walsh { is_counted: true, ..Walsh::default() }
    }

    /// Adds a round with the log-ratio `d`.
    ///
    /// # Panics
    /// If `d` is not finite.
    pub fn push(&mut self, d: f64) {
        assert!(d.is_finite(), "a round without a ratio must be left out, not passed as {d}");
        self.rounds.push(d);
        if !self.is_counted {
            let mut fresh: Vec<f64> = self.rounds.iter().map(|earlier| f64::midpoint(*earlier, d)).collect();
            fresh.sort_unstable_by(f64::total_cmp);
            self.sorted = merge(&self.sorted, &fresh);
        }
    }

    /// Number of rounds n.
    pub fn rounds(&self) -> usize {
        self.rounds.len()
    }

    /// n(n+1)/2.
    fn averages(&self) -> usize {
        self.rounds() * (self.rounds() + 1) / 2
    }

    /// θ̂, the median of the averages (a natural log). `None` without rounds.
    pub fn estimate(&self) -> Option<f64> {
        if !self.is_counted {
            return spread::median_of_sorted(&self.sorted);
        }
        let (count, ordered) = (self.averages(), self.ordered()?);
        let upper = kth_average(&ordered, count / 2 + 1);
        let is_odd = count % 2 == 1;
        Some(if is_odd { upper } else { (kth_average(&ordered, count / 2) + upper) / 2.0 })
    }

    /// The standard error s/√n of a mean of the log-ratios, whose square weighs a host among others ([`crate::meta`]).
    /// `None` with fewer than two rounds.
    pub fn standard_error(&self) -> Option<f64> {
        spread::mean_and_sd(&self.rounds).map(|(_, sd)| sd / (self.rounds() as f64).sqrt())
    }

    /// [w(k), w(M+1−k)] for a critical count k; `None` for k = 0 or fewer than 2k averages.
    pub fn interval(&self, k: usize) -> Option<(f64, f64)> {
        let count = self.averages();
        if k == 0 || 2 * k > count {
            return None;
        }
        if !self.is_counted {
            return Some((self.sorted[k - 1], self.sorted[count - k]));
        }
        let ordered = self.ordered()?;
        Some((kth_average(&ordered, k), kth_average(&ordered, count - k + 1)))
    }

    /// Number of averages ≤ `x`: the whole interval of count k is above x just when this is < k.
    pub fn not_above(&self, x: f64) -> usize {
        match self.ordered() {
            Some(ordered) => averages_while(&ordered, |w| w <= x),
            None => self.sorted.partition_point(|w| *w <= x),
        }
    }

    /// Two-sided p of "the value is within ±`bar`" by the signed ranks; above 1 without any evidence against it.
    pub fn two_sided(&self, bar: f64) -> f64 {
        let wrong_side = self.not_above(bar).min(self.not_below(-bar));
        2.0 * signed_rank::at_most(self.rounds(), wrong_side)
    }

    /// Number of averages ≥ `x`.
    pub fn not_below(&self, x: f64) -> usize {
        let below = match self.ordered() {
            Some(ordered) => averages_while(&ordered, |w| w < x),
            None => self.sorted.partition_point(|w| *w < x),
        };
        self.averages() - below
    }

    /// The rounds in ascending order, if their averages are counted.
    fn ordered(&self) -> Option<Vec<f64>> {
        if !self.is_counted || self.rounds.is_empty() {
            return None;
        }
        let mut ordered = self.rounds.clone();
        ordered.sort_unstable_by(f64::total_cmp);
        Some(ordered)
    }
}

/// Number of averages of any two of ascending values that satisfy `is_small`.
fn averages_while(ordered: &[f64], is_small: impl Fn(f64) -> bool) -> usize {
    let (mut end, mut count) = (ordered.len(), 0);
    for (from, x) in ordered.iter().enumerate() {
        while end > from && !is_small(f64::midpoint(*x, ordered[end - 1])) {
            end -= 1;
        }
        if end <= from {
            break;
        }
        count += end - from;
    }
    count
}

/// The k-th smallest average of every two of ascending values, from 1.
fn kth_average(ordered: &[f64], k: usize) -> f64 {
    selection::kth(k, |x| averages_while(ordered, |w| w <= x))
}

impl<'a> FromIterator<&'a Pair> for Walsh {
    fn from_iter<I: IntoIterator<Item = &'a Pair>>(pairs: I) -> Walsh {
        let mut walsh = Walsh::default();
        pairs.into_iter().for_each(|pair| walsh.push(pair.log_ratio));
        walsh
    }
}

/// Merges two ascending sequences.
fn merge(left: &[f64], right: &[f64]) -> Vec<f64> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let mut rest = left;
    for x in right {
        let (before, after) = rest.split_at(rest.partition_point(|w| w.total_cmp(x).is_le()));
        merged.extend_from_slice(before);
        merged.push(*x);
        rest = after;
    }
    merged.extend_from_slice(rest);
    merged
}

/// θ̂ and the level 1−α interval of a contrast after the given rounds, valid however and whenever the trial stopped,
/// for contrasts that are not questions themselves (tail latency, §9 of the method). The interval is `None` while the
/// schedule has no count for so few rounds.
pub fn at_stop(pairs: &[Pair], schedule: &Schedule) -> Option<(f64, Option<(f64, f64)>)> {
    let walsh: Walsh = pairs.iter().collect();
    Some((walsh.estimate()?, walsh.interval(schedule.critical(pairs.len()))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Spending;
    use proptest::prelude::*;

    const D: [f64; 10] = [0.062, 0.041, 0.055, -0.012, 0.049, 0.071, 0.038, 0.044, 0.310, 0.052];

    fn walsh(d: &[f64]) -> Walsh {
        let mut walsh = Walsh::default();
        d.iter().for_each(|d| walsh.push(*d));
        walsh
    }

    fn assert_interval(walsh: &Walsh, k: usize, low: f64, high: f64) {
        let (l, h) = walsh.interval(k).unwrap();
        assert!((l - low).abs() < 5e-7 && (h - high).abs() < 5e-7, "k = {k}: [{l}, {h}]");
    }

    #[test]
    fn reference_vector() {
        let w = walsh(&D);
        assert!((w.estimate().unwrap() - 0.0515).abs() < 1e-12);
        assert_interval(&w, 1, -0.012, 0.310);
        assert_interval(&w, 4, 0.016, 0.1825);
        assert_interval(&w, 9, 0.0295, 0.174);
        // W = 1, exact two-sided p = 0.00390625 (scipy).
        assert_eq!(w.not_above(0.0), 1);
        assert_eq!(2.0 * signed_rank::at_most(10, 1), 0.00390625);
    }

    #[test]
    fn too_little_data_gives_no_interval() {
        assert_eq!(Walsh::default().estimate(), None);
        assert_eq!(Walsh::default().interval(1), None);
        assert_eq!((Walsh::counted().estimate(), Walsh::counted().interval(1)), (None, None));
        assert_eq!((Walsh::counted().not_above(0.0), Walsh::counted().not_below(0.0)), (0, 0));
        assert_eq!(walsh(&D).interval(0), None);
        let pairs: Vec<Pair> = D.iter().map(|d| Pair { log_ratio: *d, done: None }).collect();
        let schedule = Schedule::new(0.05, Spending::Directional);
        assert_eq!(at_stop(&[], &schedule), None);
        assert_eq!(at_stop(&pairs[..5], &schedule).unwrap().1, None);
        assert_eq!(at_stop(&pairs, &schedule).unwrap().1, walsh(&D).interval(3));
    }

    /// The slow obvious model: all averages, sorted.
    fn all_averages(rounds: &[f64]) -> Vec<f64> {
        let pairs =
            rounds.iter().enumerate().flat_map(|(i, x)| rounds[..=i].iter().map(move |y| (x + y) / 2.0));
        let mut all: Vec<f64> = pairs.collect();
        all.sort_by(f64::total_cmp);
        all
    }

    proptest! {
        #[test]
        fn equals_the_slow_model(rounds in prop::collection::vec(-3.0..3.0_f64, 1..40), x in -3.0..3.0_f64) {
            let walsh = walsh(&rounds);
            let model = all_averages(&rounds);
            prop_assert_eq!(&walsh.sorted, &model);
            let m = model.len();
            let mut counted = Walsh::counted();
            rounds.iter().for_each(|d| counted.push(*d));
            prop_assert_eq!(counted.estimate(), walsh.estimate());
            prop_assert_eq!(counted.not_above(x), walsh.not_above(x));
            prop_assert_eq!(counted.not_below(x), walsh.not_below(x));
            prop_assert_eq!(counted.two_sided(0.0), walsh.two_sided(0.0));
            prop_assert_eq!(walsh.estimate(), Some((model[(m - 1) / 2] + model[m / 2]) / 2.0));
            prop_assert_eq!(walsh.not_above(x), model.iter().filter(|w| **w <= x).count());
            prop_assert_eq!(walsh.not_below(x), model.iter().filter(|w| **w >= x).count());
            for k in 1..=m / 2 {
                let (low, high) = walsh.interval(k).unwrap();
                prop_assert_eq!(counted.interval(k), Some((low, high)));
                prop_assert_eq!(low > x, walsh.not_above(x) < k);
                prop_assert_eq!(high < x, walsh.not_below(x) < k);
            }
        }

        #[test]
        fn exchanging_the_cells_negates_everything(rounds in prop::collection::vec(-3.0..3.0_f64, 1..30)) {
            let of = |d: &f64| Pair { log_ratio: *d, done: None };
            let pairs: Vec<Pair> = rounds.iter().map(of).collect();
            let there: Walsh = pairs.iter().collect();
            let swap = |pair: &Pair| Pair { log_ratio: -pair.log_ratio, done: None };
            let swapped: Vec<Pair> = pairs.iter().map(swap).collect();
            let back: Walsh = swapped.iter().collect();
            prop_assert_eq!(there.estimate(), back.estimate().map(|e| -e));
            for k in 1..=there.sorted.len() / 2 {
                let (low, high) = there.interval(k).unwrap();
                prop_assert_eq!(back.interval(k), Some((-high, -low)));
            }
        }
    }
}
