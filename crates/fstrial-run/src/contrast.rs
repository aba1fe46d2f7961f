//! A contrast: its question to the statistics, the pairs of its rounds, and its state.

use super::{
    cell::{Ask, Contrast},
    plan::Plan,
    sample::Sample,
    tail::Tail,
};
use fstrial_model::{metric::Metric, trial::Settings, units::Percent};
use fstrial_stats::{Decision, Pair, Question};
use serde::Serialize;

/// Arms this near to each other are near enough for either to do, where differences of [`USUAL_BAND`] matter.
const NEAR: f64 = 0.10;
const USUAL_BAND: f64 = 0.03;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContrastState {
    /// The arm measured against the other; the workload, if workloads are compared.
    pub a: String,
    /// The arm (or workload) it is measured against.
    pub b: String,
    /// True for a ratio of two ratios: of the same two arms at two places.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_lead: bool,
    /// The workload; the arm, if workloads are compared.
    pub workload: String,
    /// The phase, or the group of threads in it; empty if the workload has only one.
    pub phase: String,
    pub threads: u16,
    pub metric: Metric,
    /// True if less is better: for latencies, and some numbers of other programs.
    pub less_is_better: bool,
    pub verdict: Outcome,
    /// `a` over `b` on the metric itself: 1.42 is 42 % more operations, or 42 % more latency. None without rounds.
    pub ratio: Option<f64>,
    /// Interval of the ratio.
    pub interval: Option<(f64, f64)>,
    pub interval_level: f64,
    /// Rounds it rests on.
    pub rounds: usize,
    /// True if the trial continues for its sake.
    pub open: bool,
    /// True if it is one of those that keep a trial going.
    pub holds_open: bool,
    /// Range of total rounds within which an undecided one is decided, with a probability of 80 %; none without an
    /// interval, and if a decision is out of reach.
    pub rounds_needed: Option<(u64, u64)>,
    /// True if it was given up, as a decision in time was too unlikely.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub given_up: bool,
    /// Its own interval excludes 1, but not at the level that many contrasts together ask for.
    pub suggestive: bool,
    /// A quantile without enough operations in a run.
    pub too_few_operations: bool,
    /// Purpose of `a`, if it is a control of `b`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<Control>,
    /// For an undecided one the narrowest of some bands that it was shown to be in, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within_percent: Option<f64>,
    /// True if that is close enough for either to do, and the interval includes 1: up to 10 % for bands from 3 % on, in
    /// proportion for other bands, but never more than 10 %.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub near: bool,
    /// Inside the band, but the control is not decided yet.
    pub waits_for_control: bool,
    /// The ratio of all that both did over all rounds, of throughput only.
    pub total_ratio: Option<f64>,
    /// Undecided only because the total ratio does not bear out the typical one.
    pub waits_for_total: bool,
    /// True if the rounds show that the total ratio differs from that of a typical round.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub total_is_apart: bool,
    /// The share of an arm's runs, in percent, that may stall although none of those that it rests on did, with 95 %.
    pub unseen_stalls_percent: f64,
}

/// Result of a control for the contrasts next to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Assay {
    /// No control was requested, or none can run there.
    Unasked,
    /// The planted slowdown had about its planted size: more than half of it, and less than twice.
    Seen,
    /// Not known yet.
    Unknown,
    /// It had less than half of its planted size: another resource is the bottleneck.
    Unseen,
    /// It had more than twice its planted size: the measured slowdown has another cause.
    Overdosed,
}

/// The slowed part of a control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lever {
    /// Its load, which waits longer for the kernel.
    Load,
    /// Its modelled device.
    Device,
}

/// A control and its result.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Control {
    /// The slowdown that was planted.
    pub planted: Percent,
    /// Its slowed part.
    pub lever: Lever,
    /// Its detection.
    pub found: Assay,
}

impl ContrastState {
    /// A contrast of throughput of which nothing is known yet.
    pub fn between(a: &str, b: &str, workload: &str) -> Self {
        Self {
            a: a.into(),
            b: b.into(),
            is_lead: false,
            workload: workload.into(),
            phase: String::new(),
            threads: 1,
            metric: Metric::Throughput,
            less_is_better: false,
            verdict: Outcome::Undecided,
            ratio: None,
            interval: None,
            interval_level: 0.95,
            rounds: 0,
            open: false,
            holds_open: true,
            rounds_needed: None,
            given_up: false,
            suggestive: false,
            within_percent: None,
            near: false,
            too_few_operations: false,
            control: None,
            waits_for_control: false,
            total_ratio: None,
            waits_for_total: false,
            total_is_apart: false,
            unseen_stalls_percent: 100.0,
        }
    }

    /// For a total ratio that certainly differs from that of a typical round: the arm that looks better in a typical
    /// round than in total.
    pub fn faster_between_stalls(&self) -> Option<&str> {
        let (typical, total) = (self.ratio?, self.total_ratio?);
        let better = if (typical > total) == self.less_is_better { &self.b } else { &self.a };
        self.total_is_apart.then_some(better)
    }
}

/// Decision about a contrast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// `a` is better than `b`: more throughput, less latency.
    Faster,
    /// `a` is worse than `b`.
    Slower,
    /// The difference is inside the band of negligible ones.
    Equivalent,
    /// Inside the band, and so was a slowdown that was planted: nothing could have been seen there.
    Insensitive,
    Undecided,
    /// One of the two failed; there is no ratio.
    Failed,
    /// One of the two cannot do it, which is an answer; there is no ratio.
    Unsupported,
}

impl Outcome {
    /// True if it is on one side, or the difference is negligible.
    pub const fn is_decided(self) -> bool {
        matches!(self, Self::Faster | Self::Slower | Self::Equivalent)
    }
}

/// True if two arms shown to be within this fraction of each other are close enough for either to do, with a band of
/// `band`.
pub(super) fn is_near(within: f64, band: f64) -> bool {
    within <= NEAR.min(band * NEAR / USUAL_BAND).max(band) + 1e-9
}

impl From<Decision> for Outcome {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::Faster => Self::Faster,
            Decision::Slower => Self::Slower,
            Decision::Equivalent => Self::Equivalent,
            Decision::Undecided => Self::Undecided,
        }
    }
}

/// A ratio of `a` over `b` from its logarithm. Where less is better the statistics had the roles exchanged.
pub(crate) fn ratio(log: f64, less_is_better: bool) -> f64 {
    if less_is_better { (-log).exp() } else { log.exp() }
}

/// An interval of such ratios, the lower end first.
pub(crate) fn ratio_interval((low, high): (f64, f64), less_is_better: bool) -> (f64, f64) {
    let (x, y) = (ratio(low, less_is_better), ratio(high, less_is_better));
    (x.min(y), x.max(y))
}

/// An interval of the ratio the other way round.
pub fn inverse((low, high): (f64, f64)) -> (f64, f64) {
    (high.recip(), low.recip())
}

/// The pairs that may be judged after a round of two cells. If less is better, the roles are exchanged, and exchanged
/// back for display. `tail` is for quantiles, and gathers the rounds before.
pub(super) fn paired(
    metric: Metric,
    less: bool,
    tail: Option<&mut Tail>,
    a: &Sample,
    b: &Sample,
) -> Vec<Pair> {
    if let (Some(quantile), Some(tail)) = (metric.quantile(), tail) {
        return tail.add(quantile, a, b);
    }
    let (a, b) = if less { (b, a) } else { (a, b) };
    let (Some(x), Some(y)) = (a.on(metric), b.on(metric)) else { return Vec::new() };
    vec![match metric {
        Metric::Throughput => Pair::of_done(a.done(), b.done()),
        _ => Pair::of_values(x, y),
    }]
}

/// A round of a weighted sum of logarithms: a slope, or a figure itself.
pub(super) fn weighted_sum(metric: Metric, less: bool, weights: &[f64], found: &[&Sample]) -> Option<Pair> {
    let direction = if less { -1.0 } else { 1.0 };
    let logs: Option<Vec<f64>> = weights
        .iter()
        .zip(found)
        .map(|(weight, sample)| Some(weight * sample.figure(metric)?.ln()))
        .collect();
    Some(Pair { log_ratio: direction * logs?.iter().sum::<f64>(), done: None })
}

/// The weights that give the slope of logarithms over log2 of the threads, by least squares: they sum to zero, so that
/// without differences between levels the sign of their sum is as random as that of a pair.
pub(super) fn slope_weights(threads: &[u16]) -> Vec<f64> {
    let x: Vec<f64> = threads.iter().map(|threads| f64::from(*threads).log2()).collect();
    #[expect(clippy::cast_precision_loss, reason = "a handful of levels")]
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    let spread: f64 = x.iter().map(|x| (x - mean).powi(2)).sum();
    x.iter().map(|x| (x - mean) / spread).collect()
}

/// The question of a contrast. Where less is better the statistics have the roles exchanged, and bounds with them.
pub(super) fn question(contrast: &Contrast, settings: &Settings, less_is_better: bool) -> Question {
    let band = contrast.metric.band(settings.practical.fraction()).ln_1p();
    let question = match contrast.ask {
        Ask::Difference => Question::comparison(band),
        Ask::Above(bound) => {
            let bound = if less_is_better { bound.recip() } else { bound };
            Question::ratio_above(bound, band)
        }
        Ask::Within(fraction) => Question::within(fraction),
        Ask::Planted(dose) => Question::ratio_between((1.0 + 2.0 * dose).recip(), (1.0 + dose / 2.0).recip()),
    };
    Question { holds_open: contrast.holds_open, ..question }
}

/// True if less of a contrast's metric is better.
pub(super) fn less_is_better(plan: &Plan, contrast: &Contrast) -> bool {
    let workload = plan.cells[contrast.a].workload;
    contrast.metric.less_is_better(&plan.results[workload][contrast.result_a])
}

#[cfg(test)]
mod tests {
    use super::is_near;

    #[test]
    fn near_threshold_scales_with_band() {
        let within = [0.01, 0.02, 0.03, 0.05, 0.10];
        for (band, near) in [(0.003, 0.01), (0.01, 0.03), (0.02, 0.05), (0.03, 0.10), (0.10, 0.10)] {
            let widest = within.into_iter().filter(|within| is_near(*within, band)).reduce(f64::max);
            assert_eq!(widest, Some(near), "{band}");
        }
    }
}
