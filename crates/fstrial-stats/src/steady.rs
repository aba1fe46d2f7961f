//! Did a cell run steadily in the time that is measured? Whether its rate at the end of a run differs from that at the
//! beginning, over all its rounds.
//!
//! Warm-up and measured time of every run are counted in equal windows. Of each run the last quarter of the measured
//! windows is set against the first: d = ln(operations in the last / operations in the first). In a steady run either
//! quarter could as well have been the other, so the sign of d is a fair coin, and the signed-rank test over the rounds
//! ([`crate::signed_rank`]) is exact. The typical drift is the median of the Walsh averages of d.
//!
//! Source: Wilcoxon 1945; Hodges and Lehmann 1963. Assumes that a steady run looks alike forwards and backwards in time:
//! windows may depend on their neighbours, and stalls may come at any time. Something that comes at one time of every run,
//! such as a commit, is drift.
//!
//! A check and a warning only. Every run keeps the same fixed warm-up: cutting each run by its own data makes identical
//! arms differ more. Says nothing about slow drift beyond the run length.

use crate::estimate::Walsh;

/// Windows that warm-up plus measured time are split into.
pub const WINDOWS: usize = 40;
/// Rounds below which no judgement is passed.
pub const MIN_ROUNDS: usize = 8;

/// How a cell changes in the course of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// ln(rate at the end of the measured time / rate at its beginning), typically.
    pub log: f64,
    /// Two-sided p of "it is steady".
    pub p: f64,
}

/// How a cell drifts. `rounds` holds each run's operation counts in equal windows of warm-up plus measured time (by default
/// 40, all runs alike); `warmup_windows` is the warm-up in windows, not necessarily whole.
///
/// Runs that did nothing in one of the two quarters say nothing and are left out. `None` with fewer than 8 others, with
/// fewer than four measured windows, or unequal numbers of windows.
pub fn drift<R: AsRef<[f64]>>(rounds: &[R], warmup_windows: f64) -> Option<Drift> {
    let windows = rounds.first()?.as_ref().len();
    let measured = windows - (warmup_windows.max(0.0).ceil() as usize).min(windows);
    let quarter = measured / 4;
    if quarter == 0 || rounds.iter().any(|run| run.as_ref().len() != windows) {
        return None;
    }
    let mut walsh = Walsh::default();
    for run in rounds.iter().map(AsRef::as_ref) {
        let first: f64 = run[windows - measured..][..quarter].iter().sum();
        let last: f64 = run[windows - quarter..].iter().sum();
        let d = libm::log(last) - libm::log(first);
        if d.is_finite() {
            walsh.push(d);
        }
    }
    if walsh.rounds() < MIN_ROUNDS {
        return None;
    }
    Some(Drift { log: walsh.estimate()?, p: walsh.two_sided(0.0).min(1.0) })
}

/// Rounds that steadiness in SNIA's sense is judged by: the last five.
pub const SNIA_WINDOW: usize = 5;

/// Whether a device has come to its steady state, as SNIA's Solid State Storage Performance Test Specification (2.0.1,
/// "steady state") has it: over the last five rounds the values differ by at most 20 % of their mean, greatest from
/// least; and the line fitted to them by least squares rises or falls by at most 10 % of their mean from the first of
/// the five to the last.
///
/// False with fewer than five rounds, and if nothing was done in them.
pub fn is_snia_steady(rounds: &[f64]) -> bool {
    let Some(window) = rounds.last_chunk::<SNIA_WINDOW>() else { return false };
    let count = SNIA_WINDOW as f64;
    let mean = window.iter().sum::<f64>() / count;
    if mean.is_nan() || mean <= 0.0 {
        return false;
    }
    let least = window.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = window.iter().copied().fold(0.0, f64::max);
    let centre = (count - 1.0) / 2.0;
    let covariance: f64 = window.iter().enumerate().map(|(at, y)| (at as f64 - centre) * (y - mean)).sum();
    let variance: f64 = (0..SNIA_WINDOW).map(|at| (at as f64 - centre) * (at as f64 - centre)).sum();
    let rise = (covariance / variance * (count - 1.0)).abs();
    greatest - least <= 0.20 * mean && rise <= 0.10 * mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_in_snias_sense() {
        assert!(is_snia_steady(&[100.0; 5]));
        assert!(!is_snia_steady(&[100.0; 4]), "five rounds at least");
        assert!(!is_snia_steady(&[0.0; 5]));
        // Only the last five count.
        assert!(is_snia_steady(&[900.0, 500.0, 100.0, 101.0, 99.0, 100.0, 100.0]));
        // Range: 20 % of the mean is allowed, more is not; up and down, so that the line stays level.
        assert!(is_snia_steady(&[110.0, 90.0, 100.0, 90.0, 110.0]));
        assert!(!is_snia_steady(&[111.0, 90.0, 98.0, 90.0, 111.0]));
        // Slope: steps of 2.5 around 100 rise by exactly 10 %, steps of 2.6 by more; both stay inside the range.
        assert!(is_snia_steady(&[95.0, 97.5, 100.0, 102.5, 105.0]));
        assert!(!is_snia_steady(&[94.8, 97.4, 100.0, 102.6, 105.2]));
        assert!(!is_snia_steady(&[105.2, 102.6, 100.0, 97.4, 94.8]));
    }

    /// A run of 8 windows of warm-up and 32 that rise by `rise` from quarter to quarter, from `base`.
    fn run(base: f64, rise: f64) -> Vec<f64> {
        (0..40).map(|window| base * if window < 8 { 0.5 } else { rise.powi((window - 8) / 8) }).collect()
    }

    #[test]
    fn a_drift_is_that_from_the_first_quarter_to_the_last_whatever_the_speed() {
        let rounds: Vec<Vec<f64>> = (1..=8).map(|speed| run(f64::from(speed), 1.02)).collect();
        let found = drift(&rounds, 8.0).unwrap();
        assert!((found.log - 3.0 * 1.02_f64.ln()).abs() < 1e-12);
        // All eight signs agree: 2 · 2⁻⁸.
        assert_eq!(found.p, 0.0078125);
        let falling: Vec<Vec<f64>> = rounds.iter().map(|run| run.iter().rev().copied().collect()).collect();
        assert!(drift(&falling, 0.0).unwrap().log < 0.0);
    }

    #[test]
    fn what_happens_in_the_warm_up_does_not_count() {
        let steady = vec![run(100.0, 1.0); 8];
        assert_eq!(drift(&steady, 8.0), Some(Drift { log: 0.0, p: 1.0 }));
        assert_eq!(
            drift(&steady, 7.3),
            Some(Drift { log: 0.0, p: 1.0 }),
            "a window that belongs to both is left out"
        );
        assert!(drift(&steady, 4.0).unwrap().log > 0.0);
    }

    #[test]
    fn one_odd_run_is_no_drift() {
        let mut rounds: Vec<Vec<f64>> =
            (0..9).map(|round| run(100.0, if round % 2 == 0 { 1.001 } else { 0.999 })).collect();
        rounds[3][8..20].fill(1.0);
        assert!(drift(&rounds, 8.0).unwrap().p > 0.5);
    }

    #[test]
    fn nothing_to_judge() {
        assert_eq!(drift(&vec![run(1.0, 1.1); 7], 8.0), None, "too few rounds");
        assert_eq!(drift(&vec![[0.0; 40]; 8], 8.0), None, "nothing was done");
        assert_eq!(drift(&vec![[1.0; 40]; 8], 37.0), None, "no four windows are measured");
        assert_eq!(drift(&vec![[1.0; 40]; 8], 1e9), None);
        let mut uneven = vec![vec![1.0; 40]; 8];
        uneven[5].pop();
        assert_eq!(drift(&uneven, 8.0), None);
        assert_eq!(drift::<[f64; 40]>(&[], 8.0), None);
    }
}
