//! The early lane: a short t-test for plain cases, directional only.
//!
//! The test in words: in the first four rounds in which signs alone could decide anything (n₁ …
//! n₁+3), if both orders have occurred and the log-ratios agree so well that a t-test reaches
//! p ≤ 0.02·α, and the mean difference is above 3 %, say so at once. It spends part of the α that
//! [`crate::schedule`] leaves.
//!
//! The order condition makes a pure position effect harmless; n₁ does the same for a machine with
//! two states. Assumes that disturbances come in many sizes: rough normality, at a level so far out
//! that it hardly matters (the calibration test, tests/calibration.rs, bounds what it costs), but not
//! one size with either sign, by which it is deceived. Not used for quantiles.

use crate::{spread, student};

/// The lane never decides a difference whose mean is at or below ln 1.03, whatever the band.
pub const MIN_RATIO: f64 = 1.03;
/// Share of α that one look in the lane may use.
const SHARE: f64 = 0.02;
/// Number of looks: n₁ … n₁+3.
const LOOKS: usize = 4;

/// What the lane found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LaneResult {
    /// Mean log-ratio m; its sign is the direction.
    pub mean: f64,
    /// m ± t_{1−0.01α, n−1}·s/√n.
    pub interval: (f64, f64),
    /// Level of the interval, 1 − 0.02·α.
    pub level: f64,
}

/// n₁: the first round after which the lane of level `alpha` looks, the smallest n ≥ 4 with
/// 2·4⁻ⁿ ≤ α/5.
pub fn first_round(alpha: f64) -> usize {
    let mut n = 4;
    let mut both = 2.0 / 256.0;
    while both > alpha / 5.0 {
        n += 1;
        both /= 4.0;
    }
    n
}

/// Mean, t statistic and two-sided p of the log-ratios; `None` with fewer than two.
///
/// Log-ratios without any spread give t = ±∞ and p = 0, or p = 1 if all are 0.
pub fn t_test(d: &[f64]) -> Option<(f64, f64, f64)> {
    let (mean, sd) = spread::mean_and_sd(d)?;
    if mean == 0.0 {
        return Some((0.0, 0.0, 1.0));
    }
    let t = mean / (sd / (d.len() as f64).sqrt());
    Some((mean, t, student::two_sided_p(t, d.len() - 1)))
}

/// What the lane needs to know of the rounds so far, whatever the level: the mean and p of the t-test. `None` where it
/// decides at no level: one order only, or too small a mean.
pub(crate) fn evidence(d: &[f64], a_first: &[Option<bool>]) -> Option<(f64, f64)> {
    let (mean, _, p) = t_test(d).filter(|_| both_orders(a_first))?;
    (mean.abs() > libm::log(MIN_RATIO)).then_some((mean, p))
}

/// The two-sided level of a look in the lane of level `alpha`.
pub(crate) fn level(alpha: f64) -> f64 {
    SHARE * alpha
}

/// Whether p is small enough for a verdict in the lane of level `alpha`.
pub(crate) fn is_enough(p: f64, alpha: f64) -> bool {
    p <= level(alpha)
}

/// Whether the lane of level `alpha` looks after this many rounds.
pub(crate) fn is_open(rounds: usize, alpha: f64) -> bool {
    let first = first_round(alpha);
    (first..first + LOOKS).contains(&rounds)
}

/// The lane after `d.len()` rounds. `a_first` tells each round's order; any unknown closes the lane.
pub fn look(d: &[f64], a_first: &[Option<bool>], alpha: f64) -> Option<LaneResult> {
    let n = d.len();
    if !is_open(n, alpha) {
        return None;
    }
    let (mean, p) = evidence(d, a_first)?;
    if !is_enough(p, alpha) {
        return None;
    }
    let (_, sd) = spread::mean_and_sd(d)?;
    let half = student::upper_quantile(level(alpha) / 2.0, n - 1) * sd / (n as f64).sqrt();
    Some(LaneResult { mean, interval: (mean - half, mean + half), level: 1.0 - level(alpha) })
}

fn both_orders(a_first: &[Option<bool>]) -> bool {
    a_first.iter().all(Option::is_some) && a_first.contains(&Some(true)) && a_first.contains(&Some(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    const T3: [f64; 4] = [0.182, 0.190, 0.171, 0.195];

    #[test]
    fn first_rounds() {
        assert_eq!([0.05, 0.0125, 0.004].map(first_round), [4, 5, 6]);
        assert_eq!([0.025, 0.0375].map(first_round), [5, 5]);
    }

    #[test]
    fn reference_t3() {
        let order = [Some(true), Some(false), Some(false), Some(true)];
        let (mean, t, p) = t_test(&T3).unwrap();
        assert!(
            (mean - 0.1845).abs() < 1e-9 && (t - 35.236198).abs() < 5e-7 && (p - 0.00005026).abs() < 5e-9
        );
        let found = look(&T3, &order, 0.05).unwrap();
        assert!((found.interval.0 - 0.116829).abs() < 5e-7 && (found.interval.1 - 0.252171).abs() < 5e-7);
        assert!((found.level - 0.999).abs() < 1e-12);
    }

    #[test]
    fn closed_without_both_orders_or_with_an_unknown_one() {
        assert_eq!(look(&T3, &[Some(true); 4], 0.05), None);
        assert_eq!(look(&T3, &[Some(true), Some(false), None, Some(true)], 0.05), None);
    }

    #[test]
    fn closed_outside_its_rounds_and_for_small_differences() {
        let order: Vec<Option<bool>> = (0..9).map(|i| Some(i % 2 == 0)).collect();
        let d = [0.2, 0.21, 0.2, 0.21, 0.2, 0.21, 0.2, 0.21, 0.2];
        let open: Vec<usize> = (0..=9).filter(|n| look(&d[..*n], &order[..*n], 0.05).is_some()).collect();
        assert_eq!(open, [4, 5, 6, 7]);
        let small = [0.020, 0.0201, 0.0199, 0.020];
        assert_eq!(look(&small, &order[..4], 0.05), None);
    }

    #[test]
    fn identical_log_ratios() {
        assert_eq!(t_test(&[0.0; 5]), Some((0.0, 0.0, 1.0)));
        let (_, t, p) = t_test(&[0.25; 4]).unwrap();
        assert!(t == f64::INFINITY && p < 1e-15);
    }
}
