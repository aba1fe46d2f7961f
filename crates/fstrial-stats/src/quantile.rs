//! Tail latency: how many rounds to merge so that a quantile rests on enough operations.
//!
//! A quantile p of one run is only as good as the number of operations beyond it. Where a run has
//! fewer than ten, the histograms of g consecutive rounds are merged per cell, g as small as
//! possible, and each group counts as one round. Merging treats both cells alike, so exchanging
//! their names still changes only signs and the signed-rank interval stays exact.
//!
//! Does not compute quantiles (the histogram does) and gives no pooled estimate: pooled or
//! bootstrapped quantiles promise too much here.

use std::ops::Range;

/// Operations that must lie beyond the quantile in every group of each cell.
pub const LEAST_BEYOND: f64 = 10.0;
/// Groups below which the answer is "too few operations".
pub const LEAST_GROUPS: usize = 8;

/// Too few operations beyond the quantile for at least 8 groups of rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFew;

/// The groups of consecutive rounds to merge, covering all rounds in order.
///
/// `tail` is 1 − p (0.001 for p99.9); `ops_a` and `ops_b` are the operations of each round's runs.
/// Rounds left over when g does not divide their number join the last group: no round is dropped.
///
/// # Errors
/// [`TooFew`] if fewer than 8 groups can be made.
///
/// # Panics
/// If the two cells differ in their number of rounds.
pub fn groups(tail: f64, ops_a: &[u64], ops_b: &[u64]) -> Result<Vec<Range<usize>>, TooFew> {
    assert_eq!(ops_a.len(), ops_b.len(), "both cells of a contrast have the same rounds");
    let rounds = ops_a.len();
    let enough = |range: &Range<usize>| {
        [ops_a, ops_b].iter().all(|ops| beyond(tail, &ops[range.clone()]) >= LEAST_BEYOND)
    };
    for size in 1..=rounds / LEAST_GROUPS {
        let ranges = split(rounds, size);
        if ranges.iter().all(enough) {
            return Ok(ranges);
        }
    }
    Err(TooFew)
}

/// Operations beyond the quantile, with a hair's allowance for 1 − 0.999 ≠ 0.001 in binary.
fn beyond(tail: f64, ops: &[u64]) -> f64 {
    tail * ops.iter().sum::<u64>() as f64 * (1.0 + 1e-12)
}

fn split(rounds: usize, size: usize) -> Vec<Range<usize>> {
    let count = rounds / size;
    (0..count).map(|i| i * size..if i + 1 == count { rounds } else { (i + 1) * size }).collect()
}

/// Restlessness q of a merged group from the q of its rounds: q² = their mean q².
///
/// A tail is made by the restless rounds, so they must be able to lower the weight of their group.
/// `None` for an empty group.
pub fn merged_q(q: &[f64]) -> Option<f64> {
    (!q.is_empty()).then(|| (q.iter().map(|q| q * q).sum::<f64>() / q.len() as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_its_own_group_when_there_are_enough_operations() {
        let ops = [10_000; 9];
        let expected: Vec<Range<usize>> = (0..9).map(|i| i..i + 1).collect();
        assert_eq!(groups(1.0 - 0.999, &ops, &ops), Ok(expected.clone()));
        assert_eq!(groups(0.001, &ops, &ops), Ok(expected));
    }

    #[test]
    fn the_smallest_group_that_suffices_in_both_cells() {
        // 4 000 operations: 4 beyond p99.9 in one round, 8 in two, 12 in three.
        let found = groups(0.001, &[4_000; 26], &[90_000; 26]).unwrap();
        assert_eq!(found.len(), 8);
        assert_eq!(found[0], 0..3);
        assert_eq!(found[7], 21..26);
    }

    #[test]
    fn one_poor_round_decides_the_size() {
        let mut ops = [20_000; 20];
        ops[11] = 1;
        let found = groups(0.001, &ops, &[20_000; 20]).unwrap();
        assert_eq!(found.len(), 10);
    }

    #[test]
    fn too_few() {
        assert_eq!(groups(0.001, &[10_000; 7], &[10_000; 7]), Err(TooFew));
        assert_eq!(groups(0.001, &[4_000; 23], &[4_000; 23]), Err(TooFew));
        assert_eq!(groups(0.001, &[], &[]), Err(TooFew));
    }

    #[test]
    fn restlessness_of_a_group() {
        assert_eq!(merged_q(&[]), None);
        assert!((merged_q(&[0.02, 0.02]).unwrap() - 0.02).abs() < 1e-15);
        assert!(merged_q(&[0.02, 0.4]).unwrap() > 0.28);
    }
}
