//! Was the warm-up long enough? MSER-5 on the typical course of one cell.
//!
//! Split warm-up plus measured time of every run into equal windows, divide each window's count by
//! its run's mean, take the median over rounds: the typical course. MSER-5 (White 1997) averages it
//! in batches of five windows and cuts off the leading batches that make the standard error of the
//! rest smallest. If that cut ends after the warm-up, the measured time began too early.
//!
//! A check and a warning only. Every run keeps the same fixed warm-up: cutting each run by its own
//! data makes identical arms differ more. Needs a handful of rounds to be about the workload and
//! not about one run; says nothing about slow drift beyond the run length.

use crate::spread;

/// Windows that warm-up plus measured time are split into.
pub const WINDOWS: usize = 40;
/// Rounds below which no judgement is passed.
pub const LEAST_ROUNDS: usize = 8;
/// Windows per batch: the 5 of MSER-5.
const BATCH: usize = 5;

/// What the typical course says about the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steady {
    /// The cut ends within the warm-up.
    Steady,
    /// The cut ends after the warm-up: use a longer one, at least `cut` windows.
    StillWarming {
        /// End of the cut, in windows from the start of the run.
        cut: usize,
    },
    /// The best cut is the largest one tried: no steady state in this run length.
    NoSteadyState,
}

/// Judges one cell. `rounds` holds each run's operation counts in equal windows of warm-up plus
/// measured time (by default 40, all runs alike); `warmup_windows` is the warm-up in windows, not
/// necessarily whole.
///
/// `None` with fewer than 8 rounds, fewer than two batches of windows, unequal numbers of windows
/// or a run that completed nothing.
pub fn judge<R: AsRef<[f64]>>(rounds: &[R], warmup_windows: f64) -> Option<Steady> {
    if rounds.len() < LEAST_ROUNDS {
        return None;
    }
    let cut = mser5(&typical_course(rounds)?)?;
    Some(if cut.batches == cut.largest_tried {
        Steady::NoSteadyState
    } else if (cut.batches * BATCH) as f64 > warmup_windows {
        Steady::StillWarming { cut: cut.batches * BATCH }
    } else {
        Steady::Steady
    })
}

/// Median over rounds of window count / run mean. `None` for no rounds, runs without operations or
/// unequal numbers of windows.
pub fn typical_course<R: AsRef<[f64]>>(rounds: &[R]) -> Option<Vec<f64>> {
    let windows = rounds.first()?.as_ref().len();
    let mut relative = Vec::with_capacity(rounds.len());
    for run in rounds.iter().map(AsRef::as_ref) {
        let mean = run.iter().sum::<f64>() / run.len() as f64;
        if run.len() != windows || mean.is_nan() || mean <= 0.0 {
            return None;
        }
        relative.push(run.iter().map(|count| count / mean).collect::<Vec<f64>>());
    }
    let at = |window: usize| relative.iter().map(|run| run[window]).collect::<Vec<f64>>();
    (0..windows).map(|window| spread::median(&at(window))).collect()
}

/// The cut MSER-5 chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Leading batches of five windows to leave out.
    pub batches: usize,
    /// The largest cut tried, ⌊k/2⌋ of k batches.
    pub largest_tried: usize,
}

/// MSER-5: the cut c in 0…⌊k/2⌋ that minimises Σ_{i>c} (y_i − ȳ_c)²/(k − c)², the first minimum.
/// Windows that do not fill a batch are left out at the end. `None` with fewer than two batches.
pub fn mser5(windows: &[f64]) -> Option<Cut> {
    let batches = batch_means(windows);
    if batches.len() < 2 {
        return None;
    }
    let largest_tried = batches.len() / 2;
    let mut best = (f64::INFINITY, 0);
    for cut in 0..=largest_tried {
        let error = squared_standard_error(&batches[cut..]);
        if error < best.0 {
            best = (error, cut);
        }
    }
    Some(Cut { batches: best.1, largest_tried })
}

fn batch_means(windows: &[f64]) -> Vec<f64> {
    windows.chunks_exact(BATCH).map(|batch| batch.iter().sum::<f64>() / BATCH as f64).collect()
}

fn squared_standard_error(kept: &[f64]) -> f64 {
    let count = kept.len() as f64;
    let mean = kept.iter().sum::<f64>() / count;
    kept.iter().map(|y| (y - mean) * (y - mean)).sum::<f64>() / (count * count)
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

    const COURSE: [f64; 40] = [
        310.0, 420.0, 515.0, 600.0, 700.0, 812.0, 930.0, 1001.0, 985.0, 1010.0, 1003.0, 997.0, 1012.0, 990.0,
        1004.0, 1008.0, 995.0, 1001.0, 999.0, 1006.0, 1011.0, 988.0, 1002.0, 1000.0, 993.0, 1007.0, 1004.0,
        998.0, 1001.0, 1005.0, 996.0, 1009.0, 1000.0, 994.0, 1003.0, 1002.0, 997.0, 1006.0, 999.0, 1001.0,
    ];

    #[test]
    fn reference_vector() {
        let expected = [509.0, 947.6, 1001.2, 1001.8, 998.8, 1003.0, 1000.4, 1001.0];
        for (mean, batch) in batch_means(&COURSE).iter().zip(expected) {
            assert!((mean - batch).abs() < 1e-9);
        }
        assert_eq!(mser5(&COURSE), Some(Cut { batches: 2, largest_tried: 4 }));
    }

    #[test]
    fn verdicts() {
        // Runs of very different speed but one course.
        let rounds: Vec<Vec<f64>> =
            (1..=8).map(|speed| COURSE.iter().map(|c| c * f64::from(speed)).collect()).collect();
        assert_eq!(judge(&rounds, 8.0), Some(Steady::StillWarming { cut: 10 }));
        assert_eq!(judge(&rounds, 10.0), Some(Steady::Steady));
        assert_eq!(judge(&rounds[..7], 8.0), None);
        let climbing: Vec<f64> = (1..=40).map(f64::from).collect();
        assert_eq!(judge(&vec![climbing; 8], 8.0), Some(Steady::NoSteadyState));
        assert_eq!(judge(&vec![[5.0; 40]; 8], 0.0), Some(Steady::Steady));
    }

    #[test]
    fn one_odd_run_does_not_move_the_typical_course() {
        let mut rounds = vec![[100.0; 40]; 9];
        rounds[3][..20].fill(1.0);
        assert_eq!(judge(&rounds, 8.0), Some(Steady::Steady));
    }

    #[test]
    fn nothing_to_judge() {
        assert_eq!(mser5(&[1.0; 9]), None);
        assert_eq!(judge(&vec![[0.0; 40]; 8], 8.0), None);
        let mut uneven = vec![vec![1.0; 40]; 8];
        uneven[5].pop();
        assert_eq!(judge(&uneven, 8.0), None);
        assert_eq!(judge::<[f64; 40]>(&[], 8.0), None);
    }
}
