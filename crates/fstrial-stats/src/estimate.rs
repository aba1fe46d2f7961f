//! From the rounds of one contrast to an estimate and an interval: weighted Walsh averages.
//!
//! Each pair of rounds i ≤ j gives one average w_ij = (u_i·d_i + u_j·d_j)/(u_i + u_j) of their
//! log-ratios, a disturbed round (small u) counting less. The estimate θ̂ is the median of all of
//! them; for a critical count k the interval is [w(k), w(M+1−k)], M = n(n+1)/2.
//!
//! Source: Hodges and Lehmann 1963, weighted. The weights come from the restlessness of both runs
//! and are unchanged when a and b swap names, so under "no difference" the number of averages below
//! zero has the ordinary [`crate::signed_rank`] distribution. Assumes the log-ratios are symmetric
//! about one value, which random order makes true when a and b do not differ. No round is dropped.

use crate::schedule::Schedule;
use crate::{signed_rank, spread};

/// Least restlessness of a run pair, as a coefficient of variation: keeps one round that happened
/// to look perfectly quiet from outweighing all others.
pub const Q_FLOOR: f64 = 0.002;
/// Greatest restlessness: a round beyond it says nothing, and its weight must stay a number above 0.
pub const Q_CEILING: f64 = 1e6;

/// One round of one contrast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// d = ln(rate_a) − ln(rate_b).
    pub log_ratio: f64,
    /// q, the restlessness of the round as a fraction: q² = max(cv_a² + cv_b², 0.002²), at most
    /// [`Q_CEILING`]. Its weight is u = 1/q².
    pub q: f64,
    /// Whether a ran before b. `None` if unknown or meaningless (merged rounds); the early lane is
    /// then closed to the whole contrast.
    pub a_first: Option<bool>,
}

impl Pair {
    /// From rates (operations per second, > 0) and coefficients of variation (fractions, ≥ 0).
    ///
    /// # Panics
    /// If a rate is not positive and finite or a cv is not finite and ≥ 0: such a cell has FAILED
    /// and has no ratio, and a NaN cv would silently get the largest weight of all.
    pub fn from_rates(rate_a: f64, cv_a: f64, rate_b: f64, cv_b: f64, a_first: Option<bool>) -> Pair {
        assert!(rate_a > 0.0 && rate_a.is_finite(), "rate of a: {rate_a}");
        assert!(rate_b > 0.0 && rate_b.is_finite(), "rate of b: {rate_b}");
        assert!(cv_a >= 0.0 && cv_a.is_finite(), "cv of a: {cv_a}");
        assert!(cv_b >= 0.0 && cv_b.is_finite(), "cv of b: {cv_b}");
        let q = (cv_a * cv_a + cv_b * cv_b).max(Q_FLOOR * Q_FLOOR).sqrt().min(Q_CEILING);
        Pair { log_ratio: libm::log(rate_a) - libm::log(rate_b), q, a_first }
    }

    /// The weight u = 1/q².
    pub fn weight(&self) -> f64 {
        let q = self.q.min(Q_CEILING);
        1.0 / (q * q)
    }

    /// The same round with the names of the cells exchanged.
    pub fn swapped(&self) -> Pair {
        Pair { log_ratio: -self.log_ratio, q: self.q, a_first: self.a_first.map(|first| !first) }
    }
}

/// The weighted Walsh averages of the rounds so far, kept sorted as rounds arrive.
///
/// Appending round n costs n divisions and one merge of n(n+1)/2 numbers.
#[derive(Clone, Debug, Default)]
pub struct Walsh {
    /// (d, u) of each round.
    rounds: Vec<(f64, f64)>,
    sorted: Vec<f64>,
}

impl Walsh {
    /// Adds a round: log-ratio `d` and weight `u` = 1/q².
    ///
    /// # Panics
    /// If `d` is not finite or `u` is not positive and finite.
    pub fn push(&mut self, d: f64, u: f64) {
        assert!(d.is_finite(), "a round without a ratio must be left out, not passed as {d}");
        assert!(u > 0.0 && u.is_finite(), "a weight must be positive and finite, not {u}");
        let with_earlier = self.rounds.iter().map(|(d_i, u_i)| (u_i * d_i + u * d) / (u_i + u));
        // With itself: d, not (u·d + u·d)/(u + u), which may round differently.
        let mut fresh: Vec<f64> = with_earlier.chain([d]).collect();
        fresh.sort_unstable_by(f64::total_cmp);
        self.sorted = merge(&self.sorted, &fresh);
        self.rounds.push((d, u));
    }

    /// Number of rounds n.
    pub fn rounds(&self) -> usize {
        self.rounds.len()
    }

    /// All n(n+1)/2 averages in ascending order.
    pub fn sorted(&self) -> &[f64] {
        &self.sorted
    }

    /// θ̂, the median of the averages (a natural log). `None` without rounds.
    pub fn estimate(&self) -> Option<f64> {
        spread::median_of_sorted(&self.sorted)
    }

    /// [w(k), w(M+1−k)] for a critical count k; `None` for k = 0 or fewer than 2k averages.
    pub fn interval(&self, k: usize) -> Option<(f64, f64)> {
        let count = self.sorted.len();
        (k > 0 && 2 * k <= count).then(|| (self.sorted[k - 1], self.sorted[count - k]))
    }

    /// How many averages are ≤ `x`: the whole interval of count k lies above x just when this is < k.
    pub fn not_above(&self, x: f64) -> usize {
        self.sorted.partition_point(|w| *w <= x)
    }

    /// Two-sided p of "the value lies within ±`bar`" by the signed ranks; above 1 where nothing speaks against it.
    pub fn two_sided(&self, bar: f64) -> f64 {
        let wrong_side = self.not_above(bar).min(self.not_below(-bar));
        2.0 * signed_rank::at_most(self.rounds(), wrong_side)
    }

    /// How many averages are ≥ `x`.
    pub fn not_below(&self, x: f64) -> usize {
        self.sorted.len() - self.sorted.partition_point(|w| *w < x)
    }
}

impl<'a> FromIterator<&'a Pair> for Walsh {
    fn from_iter<I: IntoIterator<Item = &'a Pair>>(pairs: I) -> Walsh {
        let mut walsh = Walsh::default();
        for pair in pairs {
            walsh.push(pair.log_ratio, pair.weight());
        }
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

/// θ̂ and the level 1−α interval of a contrast after the given rounds, valid however and whenever
/// the trial stopped, for contrasts that are not questions themselves (tail latency, §9 of the
/// method). The interval is `None` while the schedule has no count for so few rounds.
pub fn at_stop(pairs: &[Pair], schedule: &Schedule) -> Option<(f64, Option<(f64, f64)>)> {
    let walsh: Walsh = pairs.iter().collect();
    Some((walsh.estimate()?, walsh.interval(schedule.critical(pairs.len()))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const D: [f64; 10] = [0.062, 0.041, 0.055, -0.012, 0.049, 0.071, 0.038, 0.044, 0.310, 0.052];
    const Q: [f64; 10] = [0.020, 0.025, 0.022, 0.110, 0.021, 0.030, 0.024, 0.019, 0.400, 0.026];

    fn walsh(d: &[f64], q: &[f64]) -> Walsh {
        let mut walsh = Walsh::default();
        for (d, q) in d.iter().zip(q) {
            walsh.push(*d, 1.0 / (q * q));
        }
        walsh
    }

    fn assert_interval(walsh: &Walsh, k: usize, low: f64, high: f64) {
        let (l, h) = walsh.interval(k).unwrap();
        assert!((l - low).abs() < 5e-7 && (h - high).abs() < 5e-7, "k = {k}: [{l}, {h}]");
    }

    #[test]
    fn reference_vector_equal_weights() {
        let w = walsh(&D, &[1.0; 10]);
        assert!((w.estimate().unwrap() - 0.0515).abs() < 1e-12);
        assert_interval(&w, 1, -0.012, 0.310);
        assert_interval(&w, 4, 0.016, 0.1825);
        assert_interval(&w, 9, 0.0295, 0.174);
        // W = 1, exact two-sided p = 0.00390625 (scipy).
        assert_eq!(w.not_above(0.0), 1);
        assert_eq!(2.0 * signed_rank::at_most(10, 1), 0.00390625);
    }

    #[test]
    fn reference_vector_weighted() {
        let w = walsh(&D, &Q);
        assert!((w.estimate().unwrap() - 0.050184).abs() < 5e-7);
        assert_interval(&w, 4, 0.038, 0.065254);
        assert_interval(&w, 9, 0.041688, 0.060150);
    }

    #[test]
    fn reference_vector_restlessness() {
        let counts = [980.0, 1010.0, 995.0, 1003.0, 420.0, 990.0, 1001.0, 1012.0, 998.0, 1005.0];
        let pair = Pair::from_rates(1.0, spread::cv(&counts).unwrap(), 1.0, 0.031, None);
        assert!((pair.q * pair.q - 0.03893296).abs() < 5e-9);
        assert!((pair.weight() - 25.685175).abs() < 5e-7);
        assert_eq!(Pair::from_rates(2.0, 0.0, 2.0, 0.0, None).q, Q_FLOOR);
    }

    #[test]
    fn nothing_yet() {
        assert_eq!(Walsh::default().estimate(), None);
        assert_eq!(Walsh::default().interval(1), None);
        assert_eq!(walsh(&D, &Q).interval(0), None);
        let pairs: Vec<Pair> = D.iter().map(|d| Pair { log_ratio: *d, q: 0.02, a_first: None }).collect();
        let schedule = Schedule::new(0.05, 60);
        assert_eq!(at_stop(&[], &schedule), None);
        assert_eq!(at_stop(&pairs[..5], &schedule).unwrap().1, None);
        assert_eq!(at_stop(&pairs, &schedule).unwrap().1, walsh(&D, &[0.02; 10]).interval(2));
    }

    #[test]
    fn a_round_that_says_nothing_has_a_weight() {
        for cv in [1.3e154, 1.4e154, f64::MAX] {
            let pair = Pair::from_rates(1.0, cv, 2.0, cv, None);
            assert_eq!((pair.q, pair.weight()), (Q_CEILING, 1e-12));
        }
    }

    /// The slow obvious model: all averages, sorted.
    fn all_averages(rounds: &[(f64, f64)]) -> Vec<f64> {
        let mut all = Vec::new();
        for (i, (d_i, u_i)) in rounds.iter().enumerate() {
            all.push(*d_i);
            for (d_j, u_j) in &rounds[..i] {
                all.push((u_j * d_j + u_i * d_i) / (u_j + u_i));
            }
        }
        all.sort_by(f64::total_cmp);
        all
    }

    proptest! {
        #[test]
        fn equals_the_slow_model(rounds in prop::collection::vec((-3.0..3.0_f64, 0.002..2.0_f64), 1..40), x in -3.0..3.0_f64) {
            let rounds: Vec<(f64, f64)> = rounds.iter().map(|(d, q)| (*d, 1.0 / (q * q))).collect();
            let mut walsh = Walsh::default();
            rounds.iter().for_each(|(d, u)| walsh.push(*d, *u));
            let model = all_averages(&rounds);
            prop_assert_eq!(walsh.sorted(), &model[..]);
            let m = model.len();
            prop_assert_eq!(walsh.estimate(), Some((model[(m - 1) / 2] + model[m / 2]) / 2.0));
            prop_assert_eq!(walsh.not_above(x), model.iter().filter(|w| **w <= x).count());
            prop_assert_eq!(walsh.not_below(x), model.iter().filter(|w| **w >= x).count());
            for k in 1..=m / 2 {
                let (low, high) = walsh.interval(k).unwrap();
                prop_assert_eq!(low > x, walsh.not_above(x) < k);
                prop_assert_eq!(high < x, walsh.not_below(x) < k);
            }
        }

        #[test]
        fn exchanging_the_cells_negates_everything(rounds in prop::collection::vec((-3.0..3.0_f64, 0.002..2.0_f64), 1..30)) {
            let pairs: Vec<Pair> = rounds.iter().map(|(d, q)| Pair { log_ratio: *d, q: *q, a_first: Some(true) }).collect();
            let there: Walsh = pairs.iter().collect();
            let swapped: Vec<Pair> = pairs.iter().map(Pair::swapped).collect();
            let back: Walsh = swapped.iter().collect();
            prop_assert_eq!(there.estimate(), back.estimate().map(|e| -e));
            for k in 1..=there.sorted().len() / 2 {
                let (low, high) = there.interval(k).unwrap();
                prop_assert_eq!(back.interval(k), Some((-high, -low)));
            }
        }
    }
}
