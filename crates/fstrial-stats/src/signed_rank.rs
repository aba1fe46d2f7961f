//! The exact null distribution of the signed-rank statistic.
//!
//! The test in words: if a and b do not differ, each round's log-ratio is as likely positive as
//! negative. Put the sizes in order, let rank r count with probability ½; the sum W_n = Σ r·B_r
//! (r = 1…n, B_r fair bits) says how far the signs lean to one side. It is the number of Walsh averages on the wrong side
//! of zero.
//!
//! Source: Wilcoxon 1945; the recursion `p'[s] = p[s]/2 + p[s−r]/2` from `p = [1]` is folklore.
//! Assumes independent fair signs, nothing about sizes; ties and zeros make it conservative.
//! Exact in f64 up to n = 200, and good to about 1e−12 relative up to n = 1000, beyond which 2^−n
//! underflows.

use std::sync::{Arc, Mutex, PoisonError};

/// Distributions computed so far. A memo of a pure function: it changes speed, never results.
static TABLE: Mutex<Table> = Mutex::new(Table { pmf: Vec::new(), lower: Vec::new() });

struct Table {
    /// P(W_n = s), s = 0…n(n+1)/2, for the largest n so far (n = `lower.len() − 1`).
    pmf: Vec<f64>,
    /// For each n: P(W_n ≤ s) for s = 0…⌊n(n+1)/4⌋; the rest follows by symmetry.
    lower: Vec<Arc<[f64]>>,
}

impl Table {
    fn extend_to(&mut self, n: usize) {
        if self.lower.is_empty() {
            self.pmf = vec![1.0];
            self.lower.push(Arc::from([1.0]));
        }
        while self.lower.len() <= n {
            self.pmf = add_rank(&self.pmf, self.lower.len());
            let half = (self.pmf.len() - 1) / 2;
            let mut sum = 0.0;
            let cumulative = self.pmf[..=half].iter().map(|p| {
                sum += p;
                sum
            });
            self.lower.push(cumulative.collect());
        }
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
    let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    table.extend_to(n);
    Arc::clone(&table.lower[n])
}

/// P(W_n ≤ s).
pub fn at_most(n: usize, s: usize) -> f64 {
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
    lower_half(n).partition_point(|p| 2.0 * p <= limit)
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
}
