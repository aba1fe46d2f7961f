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
//! arms differ more. Drift slower than the run length is not covered.

use crate::estimate::Walsh;
use std::ops::RangeInclusive;

/// Windows that warm-up plus measured time are split into.
pub const WINDOWS: usize = 40;
/// Rounds below which no judgement is passed.
pub const MIN_ROUNDS: usize = 8;

/// Drift of a cell within its runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// ln(rate at the end of the measured time / rate at its beginning), typically.
    pub log: f64,
    /// Two-sided p of "it is steady".
    pub p: f64,
}

/// Drift of a cell. `rounds` holds each run's operation counts in equal windows of warm-up plus measured time (by
/// default 40, all runs alike); `warmup_windows` is the warm-up in windows, not necessarily whole.
///
/// Runs without operations in one of the two quarters are left out. `None` with fewer than 8 others, with fewer than
/// four measured windows, or unequal numbers of windows.
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

/// Shortest period, in windows, that is looked for.
const MIN_PERIOD: usize = 5;
/// Correlation of a run with itself one period later, at least.
const MIN_CORRELATION: f64 = 0.75;
/// It was lower by that much at some lag before.
const MIN_DIP: f64 = 0.8;
/// Minimum of standard deviation over mean: smaller variation is the same in every part of a period.
const MIN_VARIATION: f64 = 0.1;

/// The periods that [`period`] looks for in a number of windows: from five to fewer than half of them, as the greatest lag
/// has to have a neighbour.
pub fn periods(windows: usize) -> RangeInclusive<usize> {
    MIN_PERIOD..=(windows / 2).saturating_sub(1)
}

/// After how many windows a run repeats itself ([`periods`]): the lag at which its windows, without their trend, correlate
/// best with themselves, if that is 0.75 or more, a local maximum, and 0.8 above a dip before it.
///
/// Chosen by simulation, 120 windows: at most 2 % of runs without a period are mistaken for periodic (white noise;
/// first-order autoregressive noise, coefficient up to 0.97; slow stretches; stalls); a square wave with noise of 10 %
/// is found. Source of the estimator: the sample autocorrelation (Box and Jenkins 1970), over the overlap alone, so
/// that its greatest value is 1 at each lag.
pub fn period(windows: &[f64]) -> Option<usize> {
    let rest = without_trend(windows)?;
    let correlations: Vec<f64> = (1..=rest.len() / 2).map(|lag| correlation(&rest, lag)).collect();
    let at = |lag: usize| correlations[lag - 1];
    let sought = periods(windows.len());
    let mut lowest = f64::INFINITY;
    let mut best: Option<usize> = None;
    for lag in 1..correlations.len() {
        let is_peak = sought.contains(&lag) && at(lag) >= at(lag - 1) && at(lag) >= at(lag + 1);
        // Multiples of a period are as high as the period itself.
        let is_higher = best.is_none_or(|best| at(lag) > at(best) + 0.02);
        if is_peak && is_higher && at(lag) >= MIN_CORRELATION && lowest <= at(lag) - MIN_DIP {
            best = Some(lag);
        }
        lowest = lowest.min(at(lag));
    }
    best
}

/// Windows minus the line fitted to them by least squares; none where they hardly differ, or are too few.
fn without_trend(windows: &[f64]) -> Option<Vec<f64>> {
    let count = windows.len() as f64;
    if windows.len() < 4 * MIN_PERIOD {
        return None;
    }
    let (mean, centre) = (windows.iter().sum::<f64>() / count, (count - 1.0) / 2.0);
    let steps = || windows.iter().enumerate().map(|(at, y)| (at as f64 - centre, y - mean));
    let slope = steps().map(|(x, y)| x * y).sum::<f64>() / steps().map(|(x, _)| x * x).sum::<f64>();
    let rest: Vec<f64> = steps().map(|(x, y)| y - slope * x).collect();
    let deviation = (rest.iter().map(|y| y * y).sum::<f64>() / count).sqrt();
    (deviation >= MIN_VARIATION * mean && mean > 0.0).then_some(rest)
}

/// Pearson's correlation of a series with itself `lag` later.
fn correlation(series: &[f64], lag: usize) -> f64 {
    let (a, b) = (&series[..series.len() - lag], &series[lag..]);
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let pairs = || a.iter().zip(b).map(|(a, b)| (a - mean_a, b - mean_b));
    let product = pairs().map(|(a, b)| a * b).sum::<f64>();
    let square = pairs().map(|(a, _)| a * a).sum::<f64>() * pairs().map(|(_, b)| b * b).sum::<f64>();
    if square > 0.0 { product / square.sqrt() } else { 0.0 }
}

/// Number of blocks in the test of order.
const BLOCKS: usize = 12;
/// The p from which on a run is not called level.
const MAX_P: f64 = 0.001;

/// The rate in the last third of a run over that in its first, if the run rises or falls: if Kendall's test of twelve blocks
/// of windows against their order, in its normal approximation, has a p of 0.001 at most. `None` for a level run, and one
/// with fewer windows than blocks.
///
/// So small a p because windows depend on their neighbours. By simulation, 120 windows: at most 5 % of level runs are
/// called rising or falling and change by more than a tenth (first-order autoregressive noise, coefficient up to 0.97; slow
/// stretches; stalls). Source: Mann 1945.
pub fn slope(windows: &[f64]) -> Option<f64> {
    let width = windows.len() / BLOCKS;
    if width == 0 {
        return None;
    }
    // An incomplete block is left out at the beginning.
    let whole = &windows[windows.len() - BLOCKS * width..];
    let blocks: Vec<f64> = whole.chunks_exact(width).map(|block| block.iter().sum()).collect();
    let order = |earlier: &f64, later: &f64| i32::from(later > earlier) - i32::from(later < earlier);
    let pairs =
        blocks.iter().enumerate().flat_map(|(at, b)| blocks[at + 1..].iter().map(move |a| order(a, b)));
    let score = f64::from(pairs.sum::<i32>());
    let count = BLOCKS as f64;
    let deviation = (count * (count - 1.0) * (2.0 * count + 5.0) / 18.0).sqrt();
    let p = libm::erfc((score.abs() - 1.0).max(0.0) / deviation / std::f64::consts::SQRT_2);
    let third = windows.len() / 3;
    let (first, last) = (&windows[..third], &windows[windows.len() - third..]);
    let ratio = last.iter().sum::<f64>() / first.iter().sum::<f64>();
    (p <= MAX_P && ratio.is_finite()).then_some(ratio)
}

/// Rounds that steadiness in SNIA's sense is judged by: the last five.
pub const SNIA_WINDOW: usize = 5;

/// True if a device has reached the steady state of SNIA's Solid State Storage Performance Test Specification (2.0.1,
/// "steady state"): over the last five rounds the values differ by at most 20 % of their mean, greatest from least; and
/// the line fitted to them by least squares rises or falls by at most 10 % of their mean from the first of the five to
/// the last.
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
    use rand_chacha::ChaCha8Rng;
    use rand_core::{Rng, SeedableRng};

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

    /// Commits per half second of `checkpoint-bursts`, a checkpoint every 5 s, as they were measured; the first cycle's
    /// beginning again at the end.
    const CHECKPOINTS: [f64; 24] = [
        162.0, 237.0, 192.0, 185.0, 235.0, 566.0, 1334.0, 1355.0, 1353.0, 1344.0, 119.0, 176.0, 96.0, 135.0,
        219.0, 888.0, 1326.0, 1357.0, 1341.0, 1340.0, 162.0, 237.0, 192.0, 185.0,
    ];

    #[test]
    fn checkpoints_are_a_period_and_neither_a_level_nor_a_slope_is() {
        assert_eq!(period(&CHECKPOINTS), Some(10));
        let finer: Vec<f64> = CHECKPOINTS.iter().flat_map(|half| [half / 5.0; 5]).collect();
        assert_eq!(period(&finer), Some(50));
        // On a rising level too.
        let rising: Vec<f64> = finer.iter().enumerate().map(|(at, y)| y + 2.0 * at as f64).collect();
        assert_eq!(period(&rising), Some(50));
        assert_eq!(period(&[7.0; 120]), None);
        assert_eq!(period(&(0..120).map(f64::from).collect::<Vec<_>>()), None);
        assert_eq!(period(&[0.0; 120]), None);
        assert_eq!(period(&[1.0, 2.0]), None);
    }

    /// Noise that keeps `phi` of itself from window to window, around 100, with a standard deviation of 30.
    fn noise(rng: &mut ChaCha8Rng, phi: f64) -> Vec<f64> {
        let mut uniform = || f64::from(rng.next_u32()) / f64::from(u32::MAX);
        // Sums of twelve uniforms are normal enough.
        let mut normal = || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        let mut state = normal() / (1.0 - phi * phi).sqrt();
        let mut next = || {
            state = phi * state + normal();
            (100.0 + 30.0 * state * (1.0 - phi * phi).sqrt()).max(0.0)
        };
        (0..120).map(|_| next()).collect()
    }

    /// A level of 100 that keeps a noise of 8, cut to `share` for a while `times` times, for up to `longest` windows.
    fn disturbed(rng: &mut ChaCha8Rng, times: usize, longest: usize, share: f64) -> Vec<f64> {
        let mut run: Vec<f64> = noise(rng, 0.0).iter().map(|y| 100.0 + (y - 100.0) * 8.0 / 30.0).collect();
        for _ in 0..times {
            let from = rng.next_u32() as usize % run.len();
            let length = 1 + rng.next_u32() as usize % longest;
            run.iter_mut().skip(from).take(length).for_each(|y| *y *= share);
        }
        run
    }

    #[test]
    fn noise_is_seldom_taken_for_a_period_or_a_slope() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let is_steep = |run: &[f64]| slope(run).is_some_and(|ratio| (ratio - 1.0).abs() > 0.1);
        let mut check = |name: &str, draw: &dyn Fn(&mut ChaCha8Rng) -> Vec<f64>| {
            let runs: Vec<Vec<f64>> = (0..1000).map(|_| draw(&mut rng)).collect();
            let periods = runs.iter().filter(|run| period(run).is_some()).count();
            let slopes = runs.iter().filter(|run| is_steep(run)).count();
            assert!(periods <= 20 && slopes <= 50, "{name}: {periods} periods, {slopes} slopes");
        };
        for phi in [0.0, 0.5, 0.9, 0.97] {
            check(&format!("noise, {phi}"), &|rng| noise(rng, phi));
        }
        check("a slow stretch", &|rng| disturbed(rng, 1, 60, 0.5));
        check("slow stretches", &|rng| disturbed(rng, 2, 60, 0.5));
        check("stalls", &|rng| disturbed(rng, 4, 3, 0.1));
    }

    #[test]
    fn a_noisy_wave_and_a_noisy_fall_are_found() {
        let mut rng = ChaCha8Rng::seed_from_u64(8);
        for length in [20, 50, 57] {
            let wave = |at: usize| if at % length < length / 2 { 20.0 } else { 100.0 };
            let noisy = |(at, y): (usize, &f64)| wave(at) * (1.0 + (y - 100.0) / 300.0);
            let result = (0..100).filter(|_| {
                let run: Vec<f64> = noise(&mut rng, 0.0).iter().enumerate().map(noisy).collect();
                period(&run).is_some_and(|lag| lag.abs_diff(length) <= 2)
            });
            assert!(result.count() >= 95, "{length}");
        }
        let falling = |(at, y): (usize, &f64)| y / 3.0 + 100.0 - at as f64 / 4.0;
        let result = (0..100).filter(|_| {
            slope(&noise(&mut rng, 0.0).iter().enumerate().map(falling).collect::<Vec<_>>()).is_some()
        });
        assert!(result.count() >= 95);
    }

    #[test]
    fn a_slope_is_from_the_first_third_to_the_last() {
        let line = |step: f64| (0..24).map(|at| 100.0 + step * f64::from(at)).collect::<Vec<_>>();
        assert!((slope(&line(-2.0)).unwrap() - (8.0 * 61.0) / (8.0 * 93.0)).abs() < 1e-12);
        assert!(slope(&line(2.0)).unwrap() > 1.2);
        assert_eq!(slope(&line(0.0)), None);
        assert_eq!(slope(&[0.0; 24]), None);
        assert_eq!(slope(&[1.0; 11]), None, "fewer windows than blocks");
    }

    /// A run of 8 windows of warm-up and 32 that rise by `rise` from quarter to quarter, from `base`.
    fn run(base: f64, rise: f64) -> Vec<f64> {
        (0..40).map(|window| base * if window < 8 { 0.5 } else { rise.powi((window - 8) / 8) }).collect()
    }

    #[test]
    fn drift_from_first_to_last_quarter_ignores_speed() {
        let rounds: Vec<Vec<f64>> = (1..=8).map(|speed| run(f64::from(speed), 1.02)).collect();
        let result = drift(&rounds, 8.0).unwrap();
        assert!((result.log - 3.0 * 1.02_f64.ln()).abs() < 1e-12);
        // All eight signs agree: 2 · 2⁻⁸.
        assert_eq!(result.p, 0.0078125);
        let falling: Vec<Vec<f64>> = rounds.iter().map(|run| run.iter().rev().copied().collect()).collect();
        assert!(drift(&falling, 0.0).unwrap().log < 0.0);
    }

    #[test]
    fn drift_ignores_warm_up_windows() {
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
    fn drift_needs_enough_rounds_and_windows() {
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
