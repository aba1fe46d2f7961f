//! The exact null distribution of the signed-rank statistic.
//!
//! The test: if a and b do not differ, each round's log-ratio is as likely positive as negative. Order the sizes, let
//! rank r count with probability ½; the sum W_n = Σ r·B_r (r = 1…n, B_r fair bits) measures how far the signs lean to
//! one side. It is the number of Walsh averages on the wrong side of zero.
//!
//! Source: Wilcoxon 1945; the recursion `p'[s] = p[s]/2 + p[s−r]/2` from `p = [1]` is folklore. Assumes independent
//! fair signs, nothing about sizes; ties and zeros make it conservative. Exact in f64 up to n = 200, and good to about
//! 1e−12 relative up to n = 1000, beyond which 2^−n underflows; from there on W is taken as normal, with a correction
//! for continuity.

use crate::normal;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// Rounds up to which the distribution is computed.
const EXACT: usize = 1000;

/// Distributions computed so far. A memo of a pure function: it changes speed, never results.
static TABLE: Mutex<Table> = Mutex::new(Table { ranks: 0, pmf: Vec::new(), lower: BTreeMap::new() });

struct Table {
    /// The n of `pmf`.
    ranks: usize,
    /// P(W_n = s), s = 0…n(n+1)/2, for the n last computed; empty before the first.
    pmf: Vec<f64>,
    /// By n, for the requested ones: P(W_n ≤ s) for s = 0…⌊n(n+1)/4⌋; the rest follows by symmetry.
    lower: BTreeMap<usize, Arc<[f64]>>,
}

impl Table {
    fn lower_half(&mut self, n: usize) -> Arc<[f64]> {
        if let Some(known) = self.lower.get(&n) {
            return Arc::clone(known);
        }
        if self.pmf.is_empty() || self.ranks > n {
            (self.ranks, self.pmf) = (0, vec![1.0]);
        }
        while self.ranks < n {
            self.ranks += 1;
            self.pmf = add_rank(&self.pmf, self.ranks);
        }
        let half = (self.pmf.len() - 1) / 2;
        let mut sum = 0.0;
        let cumulative = self.pmf[..=half].iter().map(|p| {
            sum += p;
            sum
        });
        let result: Arc<[f64]> = cumulative.collect();
        self.lower.insert(n, Arc::clone(&result));
        result
    }
}

/// The distribution of W + rank·B from the distribution of W, B a fair bit.
fn add_rank(pmf: &[f64], rank: usize) -> Vec<f64> {
    let mut next = vec![0.0; pmf.len() + rank];
    for (s, p) in pmf.iter().enumerate() {
        next[s] += p / 2.0;
        next[s + rank] += p / 2.0;
    }
    next
}

fn lower_half(n: usize) -> Arc<[f64]> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner).lower_half(n)
}

/// P(W_n ≤ s) by the normal distribution.
fn normally_at_most(n: usize, s: usize) -> f64 {
    let ranks = n as f64;
    let (mean, variance) = (ranks * (ranks + 1.0) / 4.0, ranks * (ranks + 1.0) * (2.0 * ranks + 1.0) / 24.0);
    normal::below((s as f64 + 0.5 - mean) / variance.sqrt())
}

/// P(W_n ≤ s).
pub fn at_most(n: usize, s: usize) -> f64 {
    if n > EXACT {
        return normally_at_most(n, s);
    }
    let lower = lower_half(n);
    let max = n * (n + 1) / 2;
    match lower.get(s) {
        Some(p) => *p,
        None if s >= max => 1.0,
        None => 1.0 - lower[max - s - 1],
    }
}

/// `kmax(n, a)`: the largest k with 2·P(W_n ≤ k−1) ≤ a·(1 + 1e−12), or 0 if there is none.
///
/// [w(k), w(M+1−k)] of the sorted Walsh averages is then an interval of level at least 1 − a.
pub fn largest_critical(n: usize, a: f64) -> usize {
    let limit = a * (1.0 + 1e-12);
    if n <= EXACT {
        return lower_half(n).partition_point(|p| 2.0 * p <= limit);
    }
    let (mut low, mut high) = (0, n * (n + 1) / 4 + 1);
    while low < high {
        let middle = low.midpoint(high);
        if 2.0 * normally_at_most(n, middle) <= limit { low = middle + 1 } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_vectors() {
        let vectors = [
            (8, 3, 0.01953125),
            (10, 8, 0.02441406),
            (12, 13, 0.02124023),
            (20, 52, 0.02422047),
            (30, 137, 0.02485506),
            (40, 264, 0.02488028),
        ];
        for (n, s, p) in vectors {
            assert!((at_most(n, s) - p).abs() < 6e-9, "n = {n}, s = {s}: {}", at_most(n, s));
        }
        let critical = [
            (6, 0.05, 1),
            (8, 0.01, 1),
            (10, 0.05, 9),
            (10, 0.01, 4),
            (20, 0.05, 53),
            (20, 0.01, 38),
            (40, 0.01, 221),
            (60, 0.005, 538),
        ];
        for (n, a, k) in critical {
            assert_eq!(largest_critical(n, a), k, "n = {n}, a = {a}");
        }
    }

    #[test]
    fn equals_enumeration_of_all_signs_up_to_12_rounds() {
        for n in 0..=12_usize {
            let max = n * (n + 1) / 2;
            let mut count = vec![0_u32; max + 1];
            for signs in 0..1_u32 << n {
                let sum = (0..n).filter(|r| signs >> r & 1 == 1).map(|r| r + 1).sum::<usize>();
                count[sum] += 1;
            }
            let mut running = 0;
            for (s, c) in count.iter().enumerate() {
                running += c;
                // Both sides are sums of multiples of 2^−n: equality is exact.
                assert_eq!(at_most(n, s), f64::from(running) / f64::from(1_u32 << n));
            }
        }
    }

    #[test]
    fn order_of_requests_does_not_matter_and_large_n_stays_sane() {
        assert_eq!(at_most(200, 200 * 201 / 2), 1.0);
        let centre = at_most(200, 200 * 201 / 4);
        assert!((centre - 0.5).abs() < 1e-3, "{centre}");
        assert_eq!(at_most(3, 0), 0.125);
        assert_eq!(at_most(3, 99), 1.0);
        assert_eq!(largest_critical(3, 0.05), 0);
        assert_eq!(largest_critical(0, 0.05), 0);
    }

    #[test]
    fn normal_approximation_agrees_with_exact_distribution() {
        // Where both are known they agree: to 1e−5 in the middle, to a few parts in a thousand where verdicts are made.
        for s in [100_000, 190_000, 232_000, 245_000, 250_250] {
            let (exact, approximate) = (at_most(EXACT, s), normally_at_most(EXACT, s));
            assert!((exact - approximate).abs() < 1e-5 + 0.004 * exact, "s = {s}: {exact} {approximate}");
        }
        for n in [1001, 5000, 250_000] {
            let k = largest_critical(n, 0.05);
            assert!(2.0 * at_most(n, k - 1) <= 0.05 && 2.0 * at_most(n, k) > 0.05, "n = {n}, k = {k}");
        }
        assert_eq!(at_most(2000, 2000 * 2001 / 2), 1.0);
    }
}
