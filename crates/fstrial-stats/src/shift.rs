//! The distance between two groups of values: the Hodges–Lehmann shift with its Mann–Whitney interval.
//!
//! All differences y_j − x_i of the m values before and the n values after, sorted: their median is the estimate, and
//! the k-th from either end are the ends of the interval, where k is the largest count with 2·P(U ≤ k−1) ≤ α. U is the
//! number of pairs in which y is greater; if both groups come from one distribution, every order of the m + n values is
//! as likely as any other, for any distribution.
//!
//! Source: Mann and Whitney 1947; Hodges and Lehmann 1963. The distribution of U is exact up to m·n = 2500 and
//! normal with a correction for continuity beyond. Assumes independent values and two distributions of one
//! shape. Ties make p and the interval conservative. Two groups of 3 are too few for 95 %: there is no interval.
//! The differences are counted and not listed, so groups may be large.

use crate::{normal, selection};

/// Products m·n up to which the distribution of U is computed exactly.
const EXACT: usize = 2500;

/// One group of values against another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// After minus before: the median of all differences.
    pub estimate: f64,
    /// Interval of level 1 − α; none if there are too few values for one.
    pub interval: Option<(f64, f64)>,
    /// Two-sided p of "no shift", if the groups were chosen without looking.
    pub p: f64,
}

/// The shift from the values before to those after, with an interval of level 1 − `alpha`. None if a group is empty.
///
/// # Panics
/// If a value is not finite.
pub fn shift(before: &[f64], after: &[f64], alpha: f64) -> Option<Shift> {
    assert!(
        before.iter().chain(after).all(|x| x.is_finite()),
        "a value that is not a number has no place in a group"
    );
    if before.is_empty() || after.is_empty() {
        return None;
    }
    let differences = Differences::new(before, after);
    let null = MannWhitney::new(before.len(), after.len());
    let pairs = differences.pairs;
    let critical = null.largest_critical(pairs, alpha);
    let interval = (critical > 0).then(|| (differences.kth(critical), differences.kth(pairs - critical + 1)));
    // A tie counts as a pair in favour of no shift, on whichever side is the smaller.
    let not_above = differences.at_most(0.0);
    let not_below = Differences::new(after, before).at_most(0.0);
    let p = (2.0 * null.at_most(not_above.min(not_below))).min(1.0);
    Some(Shift { estimate: differences.median(), interval, p })
}

/// All differences of a value after and one before, without a list of them.
struct Differences {
    /// Ascending.
    before: Vec<f64>,
    /// Ascending.
    after: Vec<f64>,
    pairs: usize,
}

impl Differences {
    fn new(before: &[f64], after: &[f64]) -> Self {
        let sorted = |values: &[f64]| {
            let mut values = values.to_vec();
            values.sort_unstable_by(f64::total_cmp);
            values
        };
        Self { before: sorted(before), after: sorted(after), pairs: before.len() * after.len() }
    }

    /// Number of those ≤ `d`: the greater the value after, the fewer values before are near enough.
    fn at_most(&self, d: f64) -> usize {
        let (mut too_small, mut count) = (0, 0);
        for y in &self.after {
            while self.before.get(too_small).is_some_and(|x| y - x > d) {
                too_small += 1;
            }
            count += self.before.len() - too_small;
        }
        count
    }

    /// The k-th smallest, from 1.
    fn kth(&self, k: usize) -> f64 {
        selection::kth(k, |d| self.at_most(d))
    }

    fn median(&self) -> f64 {
        let upper = self.kth(self.pairs / 2 + 1);
        if self.pairs % 2 == 1 { upper } else { (self.kth(self.pairs / 2) + upper) / 2.0 }
    }
}

/// The distribution of U for two groups of one distribution.
enum MannWhitney {
    /// P(U ≤ u) for u = 0, 1, ….
    Exact(Vec<f64>),
    /// Mean and standard deviation.
    Normal(f64, f64),
}

impl MannWhitney {
    fn new(m: usize, n: usize) -> Self {
        if m * n > EXACT {
            let (pairs, all) = ((m * n) as f64, (m + n) as f64);
            return Self::Normal(pairs / 2.0, (pairs * (all + 1.0) / 12.0).sqrt());
        }
        let mut sum = 0.0;
        let cumulative = probabilities(m, n).into_iter().map(|p| {
            sum += p;
            sum
        });
        Self::Exact(cumulative.collect())
    }

    /// P(U ≤ u).
    fn at_most(&self, u: usize) -> f64 {
        match self {
            Self::Exact(cumulative) => cumulative.get(u).copied().unwrap_or(1.0).min(1.0),
            Self::Normal(mean, sd) => normal::below((u as f64 + 0.5 - mean) / sd),
        }
    }

    /// The largest count k with 2·P(U ≤ k−1) ≤ `alpha`, of this many pairs.
    fn largest_critical(&self, pairs: usize, alpha: f64) -> usize {
        let (mut low, mut high) = (0, pairs / 2 + 1);
        while low < high {
            let middle = low.midpoint(high);
            if 2.0 * self.at_most(middle) <= alpha * (1.0 + 1e-12) { low = middle + 1 } else { high = middle }
        }
        low
    }
}

/// P(U = u), u = 0…m·n, by which group holds the greatest value:
/// p(i, j)(u) = i/(i+j)·p(i−1, j)(u − j) + j/(i+j)·p(i, j−1)(u). Only sums of positive numbers: nothing cancels.
fn probabilities(m: usize, n: usize) -> Vec<f64> {
    // By i, for the j reached so far.
    let mut rows: Vec<Vec<f64>> = vec![vec![1.0]; m + 1];
    for j in 1..=n {
        for i in 1..=m {
            let (from_i, from_j) = (i as f64 / (i + j) as f64, j as f64 / (i + j) as f64);
            let mut next = vec![0.0; i * j + 1];
            for (u, p) in rows[i].iter().enumerate() {
                next[u] += from_j * p;
            }
            for (u, p) in rows[i - 1].iter().enumerate() {
                next[u + j] += from_i * p;
            }
            rows[i] = next;
        }
    }
    rows.swap_remove(m)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const X: [f64; 10] = [0.012, 0.008, 0.015, 0.010, 0.011, 0.009, 0.013, 0.060, 0.0105, 0.0125];
    const Y: [f64; 6] = [0.052, 0.049, 0.055, 0.050, 0.047, 0.053];
    const Z: [f64; 5] = [0.0115, 0.0095, 0.061, 0.014, 0.0131];

    fn assert_close(result: f64, expected: f64) {
        assert!((result - expected).abs() < 1e-12 + 1e-9 * expected.abs(), "{result} instead of {expected}");
    }

    #[test]
    fn probabilities_are_those_of_scipy() {
        // scipy 1.17.1, stats._mannwhitneyu: cdf(u) of shapes (m, n).
        let vectors = [
            (3, 5, 0, 0.017857142857142856),
            (3, 9, 2, 0.01818181818181818),
            (6, 6, 5, 0.020562770562770564),
            (10, 7, 14, 0.021544631838749488),
            (12, 12, 37, 0.02245099764954389),
            (30, 3, 8, 0.007514662756598241),
            (20, 40, 275, 0.025163719528714667),
            (50, 50, 965, 0.024773861799422942),
        ];
        for (m, n, u, p) in vectors {
            assert_close(MannWhitney::new(m, n).at_most(u), p);
            assert_close(MannWhitney::new(n, m).at_most(u), p);
        }
        let (mean, sd) = (1250.0, (2500.0_f64 * 101.0 / 12.0).sqrt());
        let approximate = MannWhitney::Normal(mean, sd).at_most(965);
        assert!((approximate - 0.024773861799422942).abs() < 2e-4, "{approximate}");
    }

    #[test]
    fn shifts_are_those_of_scipy() {
        // p: scipy 1.17.1, mannwhitneyu(method="exact"); estimate: median of all differences in numpy.
        let result = shift(&X, &Y, 0.05).unwrap();
        assert_close(result.estimate, 0.03925);
        assert_close(result.p, 0.007492507492507492);
        let result = shift(&X, &Z, 0.05).unwrap();
        assert_close(result.estimate, 0.0013);
        assert_close(result.p, 0.37096237096237095);
        let result = shift(&Y, &Z, 0.05).unwrap();
        assert_close(result.estimate, -0.03775);
        assert_close(result.p, 0.12554112554112554);
    }

    #[test]
    fn too_few_values_have_a_shift_and_no_interval() {
        let result = shift(&[1.0, 1.1, 0.9], &[2.0, 2.1, 1.9], 0.05).unwrap();
        assert_close(result.estimate, 1.0);
        assert_eq!(result.interval, None);
        assert_close(result.p, 0.1);
        assert_eq!(shift(&[], &[1.0], 0.05), None);
        assert_eq!(shift(&[1.0], &[], 0.05), None);
    }

    #[test]
    fn ties_are_no_evidence() {
        assert_close(shift(&[1.0; 9], &[1.0; 9], 0.05).unwrap().p, 1.0);
        let with_tie = shift(&[1.0, 2.0, 3.0, 4.0], &[4.0, 5.0, 6.0, 7.0], 0.05).unwrap();
        let without = shift(&[1.0, 2.0, 3.0, 3.5], &[4.0, 5.0, 6.0, 7.0], 0.05).unwrap();
        assert!(with_tie.p > without.p, "{} {}", with_tie.p, without.p);
    }

    #[test]
    fn interval_contains_exactly_unrejected_shifts() {
        for (before, after) in [(&X[..], &Y[..]), (&X[..], &Z[..]), (&X[..8], &Y[..4])] {
            let (low, high) = shift(before, after, 0.05).unwrap().interval.unwrap();
            let p_of = |by: f64| {
                let moved: Vec<f64> = after.iter().map(|y| y - by).collect();
                shift(before, &moved, 0.05).unwrap().p
            };
            for (inside, outside) in [(low + 1e-9, low - 1e-9), (high - 1e-9, high + 1e-9)] {
                assert!(p_of(inside) > 0.05, "{inside}");
                assert!(p_of(outside) <= 0.05, "{outside}");
            }
        }
    }

    /// The slow obvious model: every way to deal the values out to two groups of these sizes, and all differences sorted.
    fn by_enumeration(before: &[f64], after: &[f64]) -> (f64, Vec<f64>) {
        let all: Vec<f64> = before.iter().chain(after).copied().collect();
        let greater =
            |x: &[f64], y: &[f64]| y.iter().map(|y| x.iter().filter(|x| y > x).count()).sum::<usize>();
        let result = greater(before, after);
        let least = result.min(before.len() * after.len() - result);
        let (mut ways, mut as_far) = (0_u32, 0_u32);
        for dealt in 0..1_u32 << all.len() {
            if dealt.count_ones() as usize == after.len() {
                let (y, x): (Vec<_>, Vec<_>) = all.iter().enumerate().partition(|(i, _)| dealt >> i & 1 == 1);
                let values =
                    |part: Vec<(usize, &f64)>| part.into_iter().map(|(_, v)| *v).collect::<Vec<f64>>();
                ways += 1;
                as_far += u32::from(greater(&values(x), &values(y)) <= least);
            }
        }
        let mut differences: Vec<f64> =
            after.iter().flat_map(|y| before.iter().map(move |x| y - x)).collect();
        differences.sort_by(f64::total_cmp);
        ((2.0 * f64::from(as_far) / f64::from(ways)).min(1.0), differences)
    }

    #[test]
    fn equals_the_enumeration_of_all_ways_to_deal_values_out() {
        for (before, after) in [(&X[..7], &Y[..]), (&X[..5], &Z[..]), (&Y[..3], &X[..8]), (&Z[..1], &X[..9])]
        {
            let (p, differences) = by_enumeration(before, after);
            let result = shift(before, after, 0.05).unwrap();
            assert_close(result.p, p);
            let middle = differences.len() / 2;
            let median = match differences.len() % 2 {
                1 => differences[middle],
                _ => (differences[middle - 1] + differences[middle]) / 2.0,
            };
            assert_eq!(result.estimate, median);
            if let Some((low, high)) = result.interval {
                assert!(differences.contains(&low) && differences.contains(&high));
            }
        }
    }

    #[test]
    fn large_groups_are_no_trouble() {
        let group = |by: f64| (0..30_000).map(|i| f64::from(i * 7919 % 30_011) + by).collect::<Vec<f64>>();
        let result = shift(&group(0.0), &group(300.0), 0.05).unwrap();
        let (low, high) = result.interval.unwrap();
        assert!(low > 0.0 && low < 300.0 && high > 300.0 && high < 600.0 && result.p < 1e-3, "{result:?}");
    }

    proptest! {
        #[test]
        fn exchanging_the_groups_negates_everything(
            before in prop::collection::vec(-3.0..3.0_f64, 1..20),
            after in prop::collection::vec(-3.0..3.0_f64, 1..20),
        ) {
            let there = shift(&before, &after, 0.05).unwrap();
            let back = shift(&after, &before, 0.05).unwrap();
            prop_assert!((there.estimate + back.estimate).abs() < 1e-12);
            prop_assert_eq!(there.interval, back.interval.map(|(low, high)| (-high, -low)));
            prop_assert!((there.p - back.p).abs() < 1e-12);
            let all: f64 = probabilities(before.len(), after.len()).iter().sum();
            prop_assert!((all - 1.0).abs() < 1e-12);
        }
    }
}
