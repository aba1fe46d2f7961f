//! Tail latency: how many rounds to merge so that a quantile rests on enough operations.
//!
//! The precision of a quantile p of one run depends on the number of operations beyond it. If a run has fewer than ten,
//! the histograms of consecutive rounds are merged per cell until both have enough, and each group counts as one round.
//! Merging treats both cells alike, so exchanging their names still changes only signs and the signed-rank interval
//! stays exact; and the completeness of a group does not depend on later rounds, so verdicts can be drawn round by
//! round. Rounds of a last, incomplete group wait for the next ones.
//!
//! Does not compute quantiles (the histogram does) and gives no pooled estimate: pooled or bootstrapped quantiles
//! promise too much here.

/// Minimum of operations beyond the quantile in every group of each cell.
pub const MIN_BEYOND: f64 = 10.0;
/// Minimum number of groups if groups have more than one round; with fewer, the answer is "too few operations".
pub const MIN_GROUPS: usize = 8;

/// True if this many operations suffice for a quantile p with this `tail`, 1 − p.
pub fn suffices(tail: f64, operations: u64) -> bool {
    // A hair's allowance: 1 − 0.99 is a little less than 0.01 in binary.
    tail * operations as f64 * (1.0 + 1e-12) >= MIN_BEYOND
}

/// Gathers consecutive rounds of one contrast until a group is complete.
#[derive(Clone, Copy, Debug)]
pub struct Gathering {
    /// 1 − p: 0.001 for p99.9.
    tail: f64,
    rounds: usize,
    operations: (u64, u64),
}

impl Gathering {
    /// Nothing yet, for the quantile `p` (0 < p < 1).
    pub fn new(p: f64) -> Gathering {
        Gathering { tail: 1.0 - p, rounds: 0, operations: (0, 0) }
    }

    /// Adds a round: the operations of both cells. Returns how many rounds the group has if it is complete with it, and
    /// begins a new one.
    pub fn add(&mut self, operations_a: u64, operations_b: u64) -> Option<usize> {
        self.rounds += 1;
        self.operations.0 += operations_a;
        self.operations.1 += operations_b;
        if !suffices(self.tail, self.operations.0.min(self.operations.1)) {
            return None;
        }
        let rounds = self.rounds;
        *self = Gathering { rounds: 0, operations: (0, 0), ..*self };
        Some(rounds)
    }

    /// True if rounds wait for more.
    pub fn is_waiting(&self) -> bool {
        self.rounds > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn round_with_enough_operations_forms_one_group() {
        for p in [0.99, 0.999] {
            let mut gathering = Gathering::new(p);
            let enough = (10.0 / (1.0 - p)).round() as u64;
            assert_eq!(gathering.add(enough, 10 * enough), Some(1));
            assert_eq!(gathering.add(enough - 1, enough), None);
            assert!(gathering.is_waiting());
        }
    }

    #[test]
    fn rounds_are_merged_until_both_cells_have_enough() {
        // 4 000 operations: 4 beyond p99.9 in one round, 8 in two, 12 in three.
        let mut gathering = Gathering::new(0.999);
        assert_eq!(gathering.add(4_000, 90_000), None);
        assert_eq!(gathering.add(4_000, 90_000), None);
        assert_eq!(gathering.add(4_000, 90_000), Some(3));
        assert!(!gathering.is_waiting());
    }

    proptest! {
        #[test]
        fn grouping_is_symmetric_and_groups_are_large_enough(
            rounds in prop::collection::vec((1_u64..3_000, 1_u64..3_000), 1..60)
        ) {
            let (mut one, mut other) = (Gathering::new(0.99), Gathering::new(0.99));
            let mut waiting = (0, 0);
            for (a, b) in rounds {
                let result = one.add(a, b);
                prop_assert_eq!(result, other.add(b, a));
                waiting = (waiting.0 + a, waiting.1 + b);
                if result.is_some() {
                    prop_assert!(waiting.0.min(waiting.1) >= 1_000);
                    waiting = (0, 0);
                } else {
                    prop_assert!(waiting.0.min(waiting.1) < 1_000);
                }
            }
        }
    }
}
