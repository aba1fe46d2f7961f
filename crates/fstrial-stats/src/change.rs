//! Change points in the history of one contrast across sessions.
//!
//! Each session gives θ̂ against a reference arm of that same session, so drift of kernel, firmware and neighbours is
//! already removed. Cut the series into segments of at least three points so that the sum of distances from each
//! segment's median, in units of the usual step between neighbours, plus 2·ln n per change is as small as possible:
//! optimal partitioning (Jackson et al. 2005) with an L1 cost, which single outliers cannot buy. Cuts between segments
//! that differ by less than a band are merged again, the smallest step first: negligible differences must not split
//! relevant ones.
//!
//! Size: the Hodges–Lehmann shift of the two segments ([`mod@crate::shift`]). Place: all places whose cost is near the
//! cheapest. Confidence: its p times the number of places that the cut was chosen from (Bonferroni), which bounds the
//! probability that a series without any change gives a step this clear anywhere.
//!
//! Measured (tests/history.rs): false alarms ≤ 5 % at 12 sessions and ≤ 2 % from 30 on, outliers included; a shift of 3
//! σ is detected after 3–4 sessions. Assumes sessions in time order, drawn independently about their segment: a slow
//! slope is cut into steps. Does not find the cause of a change.

use crate::{
    shift::{Shift, shift},
    sight, spread,
};

/// Sessions below which no change is looked for.
pub const MIN_POINTS: usize = 8;
/// Latest sessions considered; older ones are left out.
pub const MAX_POINTS: usize = 500;
/// Shortest segment.
const SEGMENT: usize = 3;

/// Candidate places of a change cost at most this much above the cheapest. Chosen by simulation: the true place is then
/// among them in about 95 of 100 changes that are found, outliers included.
const PLACES_MARGIN: f64 = 4.0;
/// The level of intervals is 1 − this.
pub const ALPHA: f64 = 0.05;

/// A stretch of points between two cuts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// Index in the given series (0-based) of its first point.
    pub start: usize,
    /// Index behind its last point.
    pub end: usize,
    /// Median of the segment's points, in the unit of the series.
    pub median: f64,
}

/// One change: the segment moved from `before` to `after` at `index`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Index in the given series (0-based) of the first point of the new segment.
    pub index: usize,
    /// Median of the segment before the change.
    pub before: f64,
    /// Median of the segment that begins with the change.
    pub after: f64,
    /// First index at which the new segment may begin instead.
    pub earliest: usize,
    /// Last index at which it may begin.
    pub latest: usize,
    /// The two segments against each other.
    pub step: StepChange,
}

/// One segment against an earlier one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepChange {
    /// Later minus earlier, with its interval of 95 %, as if the cuts had been chosen without looking.
    pub shift: Shift,
    /// At most this is the chance that points without any change would give a step this clear wherever the cuts lay:
    /// p times the number of ways to lay them, at most 1.
    pub p_at_most: f64,
}

impl StepChange {
    /// True if chance is ruled out, at 5 % at most.
    pub fn is_sure(&self) -> bool {
        self.p_at_most <= ALPHA
    }
}

/// A series with its cuts.
#[derive(Clone, Debug)]
pub struct History<'a> {
    series: &'a [f64],
    noise: f64,
    band: f64,
    segments: Vec<Segment>,
}

impl<'a> History<'a> {
    /// Cuts `series` (log-ratios, oldest first) where its segment changes by more than `band` (a log as well, ≥ 0). Only
    /// the last 500 points are looked at. None with fewer than 8.
    ///
    /// # Panics
    /// If a value is not finite.
    pub fn new(series: &'a [f64], band: f64) -> Option<Self> {
        assert!(series.iter().all(|x| x.is_finite()), "a session without a ratio has no place in a history");
        if series.len() < MIN_POINTS {
            return None;
        }
        let skipped = series.len().saturating_sub(MAX_POINTS);
        let recent = &series[skipped..];
        let noise = noise(recent);
        let mut starts = partition(recent, noise, penalty(recent.len()));
        let mut medians = medians_between(recent, &starts);
        // Steps inside the band are not changes: the smallest is taken back first, until none is left.
        while let Some(at) = smallest_step(&medians, band) {
            starts.remove(at);
            medians = medians_between(recent, &starts);
        }
        let ends = starts[1..].iter().copied().chain([recent.len()]);
        let segment = |((start, end), median): ((&usize, usize), f64)| Segment {
            start: skipped + start,
            end: skipped + end,
            median,
        };
        let segments = starts.iter().zip(ends).zip(medians).map(segment).collect();
        Some(Self { series, noise, band, segments })
    }

    /// The stretches between the cuts, oldest first; never empty.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// σ̂, the usual distance of a point from its segment.
    pub fn noise(&self) -> f64 {
        self.noise
    }

    /// The size from which on a step half-way through as many points of this noise is found nearly always
    /// ([`mod@crate::sight`]).
    pub fn seen_from(&self) -> f64 {
        let points = self.segments.iter().map(|segment| segment.end - segment.start).sum();
        sight::seen_from(points, self.noise, penalty(points), self.band)
    }

    /// Changes between neighbouring segments, oldest first.
    pub fn changes(&self) -> Vec<Change> {
        (1..self.segments.len()).map(|at| self.change(at)).collect()
    }

    fn change(&self, at: usize) -> Change {
        let (before, after) = (self.segments[at - 1], self.segments[at]);
        let (earliest, latest) = self.places(before.start, after.end);
        Change {
            index: after.start,
            before: before.median,
            after: after.median,
            // The best single cut here may be another one than that which was best with all other cuts.
            earliest: earliest.min(after.start),
            latest: latest.max(after.start),
            step: self.step(at - 1, at),
        }
    }

    /// A segment against an earlier one, both by index in [`segments`](Self::segments).
    ///
    /// # Panics
    /// If `earlier` is not before `later`, or there is no such segment.
    pub fn step(&self, earlier: usize, later: usize) -> StepChange {
        assert!(earlier < later, "segment {earlier} is not before segment {later}");
        let (a, b) = (self.segments[earlier], self.segments[later]);
        let shift = shift(&self.series[a.start..a.end], &self.series[b.start..b.end], ALPHA);
        let shift = shift.expect("no segment is empty");
        // Between neighbours one cut was laid; between others the end of the one and the start of the other.
        let places = (b.end - a.start + 1 - 2 * SEGMENT) as f64;
        let ways = if later == earlier + 1 { places } else { places * (places + 1.0) / 2.0 };
        StepChange { shift, p_at_most: (shift.p * ways).min(1.0) }
    }

    /// The earlier segment that the last one is furthest worse than, by index, with the step from it; none if no step
    /// is larger than `limit` (a log, ≥ 0) and sure. Every earlier segment counts, so that several small steps add up.
    pub fn worse(&self, less_is_better: bool, limit: f64) -> Option<(usize, StepChange)> {
        let last = self.segments.len() - 1;
        let loss =
            |step: &StepChange| if less_is_better { step.shift.estimate } else { -step.shift.estimate };
        let steps = (0..last).map(|earlier| (earlier, self.step(earlier, last)));
        let worse = steps.filter(|(_, step)| step.is_sure() && loss(step) > limit);
        worse.max_by(|(_, a), (_, b)| loss(a).total_cmp(&loss(b)))
    }

    /// The first and the last index at which the second of two segments from `start` to `end` may begin.
    fn places(&self, start: usize, end: usize) -> (usize, usize) {
        let window = &self.series[start..end];
        let forward = costs(window.iter());
        let mut backward = costs(window.iter().rev());
        backward.reverse();
        let cost: Vec<f64> = (1..window.len()).map(|cut| forward[cut - 1] + backward[cut]).collect();
        let least = cost.iter().copied().fold(f64::INFINITY, f64::min);
        let near = |cost: &&f64| **cost <= least + PLACES_MARGIN * self.noise;
        let first = cost.iter().position(|cost| near(&cost)).unwrap_or(0);
        let last = cost.iter().rposition(|cost| near(&cost)).unwrap_or(0);
        (start + 1 + first, start + 1 + last)
    }
}

/// The median of each segment that begins at one of these starts.
fn medians_between(series: &[f64], starts: &[usize]) -> Vec<f64> {
    let ends = starts[1..].iter().copied().chain([series.len()]);
    starts.iter().zip(ends).filter_map(|(start, end)| spread::median(&series[*start..end])).collect()
}

/// The index of the median with the smallest step from the one before it, if that is inside the band.
fn smallest_step(medians: &[f64], band: f64) -> Option<usize> {
    let step = |at: &usize| (medians[*at] - medians[at - 1]).abs();
    (1..medians.len()).min_by(|a, b| step(a).total_cmp(&step(b))).filter(|at| step(at) <= band)
}

/// Distances from the median of the first point, the first two, … and so on, each summed.
fn costs<'a>(points: impl Iterator<Item = &'a f64>) -> Vec<f64> {
    let mut sorted = Vec::new();
    let cost = |x: &f64| {
        sorted.insert(sorted.partition_point(|y| y < x), *x);
        distance_from_median(&sorted)
    };
    points.map(cost).collect()
}

/// β = 2·ln n, the cost of one change.
fn penalty(points: usize) -> f64 {
    2.0 * libm::log(points as f64)
}

/// σ̂ = 1.4826·MAD(differences of neighbours)/√2, at least 1e−9. MAD is taken about the median.
fn noise(series: &[f64]) -> f64 {
    let steps: Vec<f64> = series.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let middle = spread::median(&steps).unwrap_or(0.0);
    let distances: Vec<f64> = steps.iter().map(|step| (step - middle).abs()).collect();
    let mad = spread::median(&distances).unwrap_or(0.0);
    (1.4826 * mad / std::f64::consts::SQRT_2).max(1e-9)
}

/// Starts of the segments of the cheapest partition, the first being 0: F(0) = −β; F(t) = min over s ≤ t−3 of F(s) +
/// C(s, t) + β.
fn partition(series: &[f64], noise: f64, penalty: f64) -> Vec<usize> {
    let points = series.len();
    let mut best = vec![f64::INFINITY; points + 1];
    let mut start_of = vec![0; points + 1];
    best[0] = -penalty;
    // By increasing s: F(s) is final when s is reached, since it only rests on smaller ones.
    for s in 0..points {
        if best[s].is_infinite() {
            continue;
        }
        let mut sorted = Vec::with_capacity(points - s);
        for (offset, x) in series[s..].iter().enumerate() {
            sorted.insert(sorted.partition_point(|y| y < x), *x);
            let t = s + offset + 1;
            let total = best[s] + distance_from_median(&sorted) / noise + penalty;
            if t - s >= SEGMENT && total < best[t] {
                best[t] = total;
                start_of[t] = s;
            }
        }
    }
    let mut starts = Vec::new();
    let mut end = points;
    while end > 0 {
        end = start_of[end];
        starts.push(end);
    }
    starts.reverse();
    starts
}

/// Σ|x − median|, which is upper half minus lower half.
fn distance_from_median(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    sorted[sorted.len() - half..].iter().sum::<f64>() - sorted[..half].iter().sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERIES: [f64; 20] = [
        0.012, 0.008, 0.015, 0.010, 0.011, 0.009, 0.013, 0.060, 0.010, 0.012, 0.052, 0.049, 0.055, 0.050,
        0.047, 0.053, 0.051, 0.048, 0.054, 0.050,
    ];

    fn changes(series: &[f64], band: f64) -> Vec<Change> {
        History::new(series, band).map(|history| history.changes()).unwrap_or_default()
    }

    fn cost(series: &[f64], noise: f64) -> f64 {
        let mut sorted = series.to_vec();
        sorted.sort_by(f64::total_cmp);
        distance_from_median(&sorted) / noise
    }

    #[test]
    fn reference_vector() {
        let sigma = noise(&SERIES);
        assert!((sigma - 0.003145).abs() < 5e-7, "{sigma}");
        assert!((penalty(20) - 5.991465).abs() < 5e-7);
        assert!((cost(&SERIES, sigma) - 119.234247).abs() < 5e-6, "{}", cost(&SERIES, sigma));
        assert!((cost(&SERIES[..10], sigma) - 20.349312).abs() < 5e-6);
        assert!((cost(&SERIES[10..], sigma) - 6.677118).abs() < 5e-6);
        let result = changes(&SERIES, libm::log(1.03));
        assert_eq!(
            result.iter().map(|c| (c.index, c.before, c.after)).collect::<Vec<_>>(),
            [(10, 0.0115, 0.0505)]
        );
    }

    #[test]
    fn one_outlier_is_no_change() {
        let series = [0.01, 0.012, 0.009, 0.011, 0.3, 0.010, 0.012, 0.008, 0.011, 0.010, 0.013, 0.009];
        assert_eq!(changes(&series, 0.0), []);
    }

    #[test]
    fn small_steps_stay_inside_the_band_and_short_histories_silent() {
        assert_eq!(changes(&SERIES, 0.05), []);
        assert_eq!(changes(&SERIES[7..14], 0.0), []);
        assert_eq!(changes(&[0.25; 30], 0.0), []);
    }

    #[test]
    fn steps_inside_the_band_do_not_break_up_levels() {
        // Three small steps one way, and one that matters.
        let wave = |i: usize| 0.001 * ((i * i * 7 % 11) as f64);
        let segment = |i: usize| [0.0, 0.02, 0.0, 0.02, -0.1][i / 5];
        let series: Vec<f64> = (0..25).map(|i| segment(i) + wave(i)).collect();
        assert!(partition(&series, noise(&series), penalty(25)).len() > 2, "they are cuts at first");
        let history = History::new(&series, 0.03).unwrap();
        assert_eq!(
            history.segments().iter().map(|l| (l.start, l.end)).collect::<Vec<_>>(),
            [(0, 20), (20, 25)]
        );
        assert!(history.changes()[0].step.is_sure());
    }

    #[test]
    fn only_the_last_500_points_count_and_indices_are_the_callers() {
        let wave = |i: usize| 0.001 * ((i * 7 % 5) as f64);
        let series: Vec<f64> =
            (0..700).map(|i| wave(i) + if (100..650).contains(&i) { 0.0 } else { 0.2 }).collect();
        let result = changes(&series, 0.03);
        assert_eq!(result.iter().map(|change| change.index).collect::<Vec<_>>(), [650]);
    }

    #[test]
    fn is_the_cheapest_of_all_partitions() {
        // Every partition of 12 points into segments of at least 3, by hand.
        fn cheapest(series: &[f64], sigma: f64, beta: f64) -> f64 {
            let whole = cost(series, sigma);
            let cuts = (SEGMENT..=series.len().saturating_sub(SEGMENT))
                .map(|at| cost(&series[..at], sigma) + beta + cheapest(&series[at..], sigma, beta));
            cuts.fold(whole, f64::min)
        }
        for seed in 0..40_u64 {
            let value = |i: u64| ((seed * 31 + i * i * 17 + i * seed) % 23) as f64 / 23.0;
            let series: Vec<f64> = (0..12).map(|i| value(i) + if i > 6 { 1.5 } else { 0.0 }).collect();
            let (sigma, beta) = (0.1, penalty(12));
            let starts = partition(&series, sigma, beta);
            let ends = starts[1..].iter().copied().chain([12]);
            let ours: f64 = starts.iter().zip(ends).map(|(s, e)| cost(&series[*s..e], sigma) + beta).sum();
            assert!((ours - beta - cheapest(&series, sigma, beta)).abs() < 1e-9);
        }
    }
}
