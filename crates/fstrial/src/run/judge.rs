//! From measurements to verdicts: pairs the runs of every round, hands them to the statistics, and says where every
//! contrast stands. A function of what was measured, so stored trials can be judged again years later.

use super::plan::{Contrast, Plan};
use base64::{Engine, engine::general_purpose::STANDARD};
use fstrial_model::{
    measurement::{Measurement, OperationKind},
    trial::{ErrorControl, Metric},
};
use fstrial_stats::{
    Decision, Multiplicity, Pair, Panel, Question,
    steady::{self, Steady},
};
use hdrhistogram::{Histogram, serialization::Deserializer};
use serde::Serialize;

/// The level at which every trial decides.
pub const ALPHA: f64 = 0.05;
/// A quantile needs this many operations beyond it in every run, or in several rounds merged.
const OPERATIONS_BEYOND: f64 = 10.0;
/// Merged groups of rounds below which nothing is said about a quantile.
const FEWEST_GROUPS: usize = 8;

/// What one run says, in numbers.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Its round.
    pub round: u32,
    /// Its position in the round.
    pub slot: usize,
    /// Operations per second.
    pub rate: f64,
    /// Bytes per second.
    pub bytes_rate: f64,
    /// Coefficient of variation of the windows.
    pub cv: f64,
    /// Latency of an operation at p50, p99 and p99.9, in ns.
    pub latency_ns: [f64; 3],
    /// CPU time of the whole machine for one operation, in ns.
    pub cpu_machine_ns: f64,
    /// Operations in 40 windows of warm-up and measured time.
    steady_windows: Vec<f64>,
    histogram: Histogram<u64>,
}

impl Sample {
    /// Reads a measurement.
    ///
    /// # Errors
    /// Its histogram is damaged; says how.
    #[expect(clippy::cast_precision_loss, reason = "counts and times are far below 2^53")]
    pub fn of(round: u32, slot: usize, measurement: &Measurement) -> Result<Self, String> {
        let load = &measurement.load;
        let text =
            load.histograms.get(&OperationKind::Operation).ok_or("there is no histogram of operations")?;
        let bytes = STANDARD.decode(text).map_err(|e| e.to_string())?;
        let histogram: Histogram<u64> =
            Deserializer::new().deserialize(&mut &bytes[..]).map_err(|e| format!("{e:?}"))?;
        let seconds = load.duration.as_secs_f64();
        let windows: Vec<f64> = load.windows.iter().map(|count| *count as f64).collect();
        Ok(Self {
            round,
            slot,
            rate: load.operations as f64 / seconds,
            bytes_rate: load.bytes as f64 / seconds,
            cv: fstrial_stats::spread::cv(&windows).unwrap_or(0.0),
            latency_ns: [0.5, 0.99, 0.999].map(|q| histogram.value_at_quantile(q) as f64),
            cpu_machine_ns: measurement.cpu_machine.0 as f64 / load.operations.max(1) as f64,
            steady_windows: load.steady_windows.iter().map(|count| *count as f64).collect(),
            histogram,
        })
    }
}

/// Rounds of one quantile contrast on the way to enough operations.
#[derive(Debug, Default)]
struct Group {
    rounds: usize,
    merged: Option<(Histogram<u64>, Histogram<u64>)>,
    cv_squared: (f64, f64),
}

/// Where a contrast stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContrastState {
    /// The arm measured against the other.
    pub a: String,
    /// The arm it is measured against.
    pub b: String,
    /// The workload.
    pub workload: String,
    /// The level.
    pub threads: u16,
    /// On what.
    pub metric: Metric,
    /// What is decided.
    pub verdict: Outcome,
    /// `a` over `b` on the metric itself: 1.42 is 42 % more operations, or 42 % more latency. None without rounds.
    pub ratio: Option<f64>,
    /// Interval of the ratio.
    pub interval: Option<(f64, f64)>,
    /// Level of the interval.
    pub interval_level: f64,
    /// Rounds it rests on.
    pub rounds: usize,
    /// Whether the trial goes on for its sake.
    pub open: bool,
    /// Whether it is one of those that keep a trial going.
    pub holds_open: bool,
    /// Rounds after which a verdict is likely, for an undecided one.
    pub rounds_needed: Option<u64>,
    /// Its own interval excludes 1, but not at the level that many contrasts together ask for.
    pub suggestive: bool,
    /// A quantile without enough operations in a run.
    pub too_few_operations: bool,
}

/// What is decided about a contrast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// `a` is better than `b`: more throughput, less latency.
    Faster,
    /// `a` is worse than `b`.
    Slower,
    /// The difference lies inside the band that does not matter.
    Equivalent,
    /// Not decided.
    Undecided,
    /// One of the two failed; there is no ratio.
    Failed,
}

/// Judges a trial as its rounds come in.
pub struct Judge<'a> {
    plan: &'a Plan,
    panel: Panel,
    samples: Vec<Vec<Sample>>,
    failed: Vec<bool>,
    groups: Vec<Group>,
    merged: Vec<bool>,
    groups_pushed: Vec<usize>,
    planned: u32,
}

/// The band of a metric: the trial's for throughput; wider ones for quantiles, whose noise is wider.
fn band(metric: Metric, practical: f64) -> f64 {
    let band: f64 = match metric {
        Metric::Throughput => practical,
        Metric::P50 => 0.05,
        Metric::P99 => 0.10,
        Metric::P999 => 0.20,
    };
    band.ln_1p()
}

impl<'a> Judge<'a> {
    /// A judge for a plan with its number of rounds.
    pub fn new(plan: &'a Plan, planned: u32) -> Self {
        let practical = plan.trial.trial.practical.fraction();
        let questions = plan
            .contrasts
            .iter()
            .map(|contrast| {
                let lane = contrast.metric == Metric::Throughput;
                Question {
                    lane,
                    holds_open: contrast.holds_open,
                    ..Question::comparison(band(contrast.metric, practical))
                }
            })
            .collect();
        let multiplicity = match plan.trial.trial.errors {
            ErrorControl::Fdr => Multiplicity::BenjaminiHochberg,
            ErrorControl::Fwer => Multiplicity::Holm,
        };
        let contrasts = plan.contrasts.len();
        Self {
            plan,
            panel: Panel::new(questions, ALPHA, planned as usize, multiplicity),
            samples: vec![Vec::new(); plan.cells.len()],
            failed: vec![false; plan.cells.len()],
            groups: (0..contrasts).map(|_| Group::default()).collect(),
            merged: vec![false; contrasts],
            groups_pushed: vec![0; contrasts],
            planned,
        }
    }

    /// The number of rounds it was made for.
    pub fn planned(&self) -> u32 {
        self.planned
    }

    /// Takes the samples of a round, by cell, and settles what they decide.
    pub fn end_round(&mut self, round: Vec<(usize, Sample)>) {
        for index in 0..self.plan.contrasts.len() {
            let contrast = self.plan.contrasts[index];
            let find = |cell: usize| round.iter().find(|(at, _)| *at == cell).map(|(_, sample)| sample);
            if let (Some(a), Some(b)) = (find(contrast.a), find(contrast.b)) {
                self.push(index, contrast, a, b);
            }
        }
        self.panel.settle();
        for (cell, sample) in round {
            self.samples[cell].push(sample);
        }
    }

    fn push(&mut self, index: usize, contrast: Contrast, a: &Sample, b: &Sample) {
        let Some(quantile) = contrast.metric.quantile() else {
            self.panel.push(index, Pair::from_rates(a.rate, a.cv, b.rate, b.cv, Some(a.slot < b.slot)));
            return;
        };
        let group = &mut self.groups[index];
        group.rounds += 1;
        group.cv_squared.0 += a.cv * a.cv;
        group.cv_squared.1 += b.cv * b.cv;
        let (merged_a, merged_b) = match group.merged.take() {
            None => (a.histogram.clone(), b.histogram.clone()),
            Some((mut merged_a, mut merged_b)) => {
                // All histograms of a trial have the same bounds; if one did not, it would grow.
                merged_a.auto(true);
                merged_b.auto(true);
                let added = merged_a.add(&a.histogram).and_then(|()| merged_b.add(&b.histogram));
                added.expect("histograms that grow can hold one another");
                (merged_a, merged_b)
            }
        };
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
        let beyond = merged_a.len().min(merged_b.len()) as f64 * (1.0 - quantile);
        // A hair of tolerance: 1000 × (1 − 0.99) is a little less than 10 in binary.
        if beyond < OPERATIONS_BEYOND * (1.0 - 1e-9) {
            group.merged = Some((merged_a, merged_b));
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "a handful of rounds and latencies below 2^53 ns")]
        let (latency_a, latency_b, rounds) = (
            merged_a.value_at_quantile(quantile) as f64,
            merged_b.value_at_quantile(quantile) as f64,
            group.rounds as f64,
        );
        let (cv_a, cv_b) = ((group.cv_squared.0 / rounds).sqrt(), (group.cv_squared.1 / rounds).sqrt());
        self.merged[index] |= group.rounds > 1;
        self.groups_pushed[index] += 1;
        *group = Group::default();
        // Less is better: the roles are exchanged, and exchanged back for display.
        self.panel.push(index, Pair::from_rates(latency_b, cv_b, latency_a, cv_a, None));
    }

    /// A cell has failed: it is not run again and its contrasts get no ratio.
    pub fn fail_cell(&mut self, cell: usize) {
        self.failed[cell] = true;
    }

    /// No further rounds will come.
    pub fn finish(&mut self) {
        self.panel.finish();
    }

    /// Whether a cell is still needed for a contrast that holds the trial open.
    pub fn needs(&self, cell: usize) -> bool {
        !self.failed[cell]
            && self
                .plan
                .contrasts
                .iter()
                .enumerate()
                .any(|(index, contrast)| (contrast.a == cell || contrast.b == cell) && self.is_open(index))
    }

    fn is_open(&self, index: usize) -> bool {
        let contrast = &self.plan.contrasts[index];
        contrast.holds_open
            && !self.failed[contrast.a]
            && !self.failed[contrast.b]
            && self.panel.is_open(index)
    }

    /// Whether any contrast holds the trial open.
    pub fn is_undecided(&self) -> bool {
        (0..self.plan.contrasts.len()).any(|index| self.is_open(index))
    }

    /// The samples of a cell, in the order of their rounds.
    pub fn samples(&self, cell: usize) -> &[Sample] {
        &self.samples[cell]
    }

    /// Whether a cell has failed.
    pub fn has_failed(&self, cell: usize) -> bool {
        self.failed[cell]
    }

    /// Where every contrast stands.
    pub fn states(&self) -> Vec<ContrastState> {
        (0..self.plan.contrasts.len()).map(|index| self.state(index)).collect()
    }

    fn state(&self, index: usize) -> ContrastState {
        let contrast = self.plan.contrasts[index];
        let cell = self.plan.cells[contrast.a];
        let verdict = self.panel.verdict(index);
        let failed = self.failed[contrast.a] || self.failed[contrast.b];
        let latency = contrast.metric.quantile().is_some();
        let too_few = latency
            && self.groups_pushed[index] < FEWEST_GROUPS
            && (self.merged[index] || self.groups[index].merged.is_some());
        let sign = if latency { -1.0 } else { 1.0 };
        let shown = !failed && !too_few;
        let interval = verdict.interval.filter(|_| shown).map(|(low, high)| {
            let (x, y) = ((sign * low).exp(), (sign * high).exp());
            (x.min(y), x.max(y))
        });
        let outcome = match verdict.decision {
            _ if failed => Outcome::Failed,
            _ if too_few => Outcome::Undecided,
            Decision::Faster => Outcome::Faster,
            Decision::Slower => Outcome::Slower,
            Decision::Equivalent => Outcome::Equivalent,
            Decision::Undecided => Outcome::Undecided,
        };
        ContrastState {
            a: self.plan.arm_name(contrast.a).to_owned(),
            b: self.plan.arm_name(contrast.b).to_owned(),
            workload: self.plan.workloads[cell.workload].name.clone(),
            threads: cell.threads,
            metric: contrast.metric,
            verdict: outcome,
            ratio: verdict.estimate.filter(|_| shown).map(|estimate| (sign * estimate).exp()),
            interval,
            interval_level: verdict.interval_level,
            rounds: verdict.rounds,
            open: self.is_open(index),
            holds_open: contrast.holds_open,
            rounds_needed: verdict.rounds_needed.filter(|_| shown).map(rounded_up),
            suggestive: verdict.excludes_zero_undecided && shown,
            too_few_operations: too_few,
        }
    }

    /// Warnings about cells that were still warming up when the clock started, by what to do about it.
    pub fn warm_up_warnings(&self) -> Vec<String> {
        let checked = |cell: usize| Some((cell, self.steadiness(cell)?));
        let all: Vec<(usize, Steady)> = (0..self.plan.cells.len()).filter_map(checked).collect();
        let warn = |what: &str, remedy: &str, is: fn(&Steady) -> bool| {
            let found = all.iter().filter(|(_, steady)| is(steady));
            let names: Vec<String> = found.map(|(cell, _)| self.plan.cell_name(*cell)).collect();
            let (some, of) = (names.len(), all.len());
            (some > 0).then(|| format!("{what} in {some} of {of} cells ({remedy}): {}", names.join(", ")))
        };
        let warming = warn("still warming up when the clock started", "use a longer --warmup", |steady| {
            matches!(steady, Steady::StillWarming { .. })
        });
        let unsteady = warn("no steady state within a run", "use a longer --duration", |steady| {
            matches!(steady, Steady::NoSteadyState)
        });
        warming.into_iter().chain(unsteady).collect()
    }

    /// Whether a cell had reached a steady state when the clock started; none with too few rounds.
    fn steadiness(&self, cell: usize) -> Option<Steady> {
        let samples = &self.samples[cell];
        let workload = &self.plan.workloads[self.plan.cells[cell].workload];
        let runs: Vec<Vec<f64>> = samples.iter().map(|sample| sample.steady_windows.clone()).collect();
        let total = (workload.warmup.0 + workload.duration.0).max(1);
        #[expect(clippy::cast_precision_loss, reason = "a fraction for comparison")]
        let warmup_windows = workload.warmup.0 as f64 / total as f64 * steady::WINDOWS as f64;
        steady::judge(&runs, warmup_windows)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped first")]
fn rounded_up(rounds: f64) -> u64 {
    rounds.ceil().clamp(0.0, 1e9) as u64
}
