//! From measurements to verdicts: pairs the runs of every round, hands them to the statistics, and says where every
//! contrast stands. A function of what was measured, so stored trials can be judged again years later.

use super::{
    latencies::Latencies,
    plan::{Ask, Contrast, Of, Plan},
    tail::Tail,
};
use fstrial_model::{
    measurement::{LoadResult, Measurement, OperationKind, PhaseResult, Reading},
    trial::{ErrorControl, Metric},
    units::Nanos,
    workload::{Figure, Until},
};
use fstrial_stats::{
    Decision, Multiplicity, Pair, Panel, Question, Verdict,
    quantile::are_enough,
    spread,
    steady::{self, Steady},
};
use serde::Serialize;

/// From this share of a core on, the generator's own work is said with the result.
const GENERATOR_LIMIT: f64 = 0.25;
/// The level at which every trial decides.
pub const ALPHA: f64 = 0.05;

/// What one result of a run says, in numbers.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Its round.
    pub round: u32,
    /// Its position in the round.
    pub slot: usize,
    /// Its throughput (operations or bytes per second), or the one number it is.
    pub rate: f64,
    /// Coefficient of variation of the windows; 0 for a single number.
    pub cv: f64,
    /// What only a load of our own has.
    pub load: Option<LoadSample>,
    /// The tool that did it with its version, if it was an operation.
    pub tool: Option<String>,
}

/// What a load says besides its throughput.
#[derive(Debug, Clone)]
pub struct LoadSample {
    /// Bytes per second.
    pub bytes_rate: f64,
    /// Latency of an operation at p50, p99 and p99.9, in ns.
    pub latency_ns: [f64; 3],
    /// Bytes of one operation.
    pub operation_bytes: f64,
    /// CPU time of the whole machine for one operation, in ns.
    pub cpu_machine_ns: Option<f64>,
    /// Bytes written to the device for one operation. None where that is not known, and where nothing was written.
    pub device_bytes: Option<f64>,
    /// Share of a core that each thread of the generator used outside the kernel.
    pub generator_share: f64,
    /// Operations in 40 windows of warm-up and measured time.
    pub steady_windows: Vec<f64>,
    /// Its latencies.
    pub latencies: Latencies,
    /// What it did in the course of time.
    pub series: Series,
}

/// What a load did in the course of time, from the start of the warm-up on, in few points.
#[derive(Debug, Clone, Default)]
pub struct Series {
    /// Width of a window of `operations`, in seconds.
    pub step_seconds: f64,
    /// Operations in each window.
    pub operations: Vec<u64>,
    /// Width of a window of `tails`, in seconds.
    pub tails_step_seconds: f64,
    /// Median and 99th percentile of the latencies in each window, in ns; 0 where nothing was completed.
    pub tails: Vec<(u64, u64)>,
}

impl Series {
    /// Points kept, at most: more are not told apart in a picture.
    const MOST: usize = 120;

    fn of(load: &LoadResult) -> Self {
        let together = |points: usize| points.div_ceil(Self::MOST).max(1);
        let (joined, tails_joined) = (together(load.series.len()), together(load.tails.len()));
        // Quantiles cannot be joined: of several windows the one with the greatest tail is the one to see.
        let worst = |windows: &[(u64, u64)]| windows.iter().copied().max_by_key(|(_, p99)| *p99);
        #[expect(clippy::cast_precision_loss, reason = "a handful of windows")]
        let seconds = |step: Nanos, joined: usize| step.as_secs_f64() * joined as f64;
        Self {
            step_seconds: seconds(load.series_step, joined),
            // A rest of fewer windows would look like a collapse.
            operations: load.series.chunks_exact(joined).map(|windows| windows.iter().sum()).collect(),
            tails_step_seconds: seconds(load.tails_step, tails_joined),
            tails: load.tails.chunks(tails_joined).filter_map(worst).collect(),
        }
    }
}

impl Sample {
    /// A quantile of the latencies of its operations, in ns; none without latencies, or with too few operations.
    fn quantile(&self, quantile: f64) -> Option<f64> {
        let latencies = &self.load.as_ref()?.latencies;
        #[expect(clippy::cast_precision_loss, reason = "latencies are far below 2^53 ns")]
        let value = latencies.quantile(quantile).max(1) as f64;
        are_enough(1.0 - quantile, latencies.len()).then_some(value)
    }

    /// Reads the results of a measurement, in their order.
    ///
    /// # Errors
    /// Nothing was completed, which has no rate (a worker says so by failing), a number that is none, or a damaged
    /// histogram; says how.
    pub fn all(round: u32, slot: usize, measurement: &Measurement) -> Result<Vec<Self>, String> {
        let sample = |result| Self::of(round, slot, result);
        measurement.results.iter().map(sample).collect()
    }

    fn of(round: u32, slot: usize, result: &PhaseResult) -> Result<Self, String> {
        match &result.reading {
            Reading::Load(figure, load) => Self::of_load(round, slot, *figure, load, result),
            Reading::Value(value) if value.value.is_finite() && value.value > 0.0 => {
                Ok(Self { round, slot, rate: value.value, cv: 0.0, load: None, tool: None })
            }
            Reading::Value(value) => Err(format!("{} {} cannot be compared", value.value, value.unit)),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts and times are far below 2^53")]
    fn of_load(
        round: u32,
        slot: usize,
        figure: Figure,
        load: &LoadResult,
        result: &PhaseResult,
    ) -> Result<Self, String> {
        if load.operations == 0 || load.duration == Nanos(0) {
            return Err("no operation was completed in the measured time".into());
        }
        let latencies =
            latencies_of(load, OperationKind::Operation)?.ok_or("there is no histogram of operations")?;
        let seconds = load.duration.as_secs_f64();
        let windows: Vec<f64> = load.windows.iter().map(|count| *count as f64).collect();
        let bytes_rate = load.bytes as f64 / seconds;
        let rate = match figure {
            Figure::Operations => load.operations as f64 / seconds,
            Figure::Bytes if load.bytes == 0 => return Err("no byte was moved in the measured time".into()),
            Figure::Bytes => bytes_rate,
            Figure::BytesWritten => bytes_rate * share_written(load)?,
            Figure::Time => load.duration.0 as f64,
        };
        Ok(Self {
            round,
            slot,
            rate,
            cv: spread::cv(&windows).unwrap_or(0.0),
            load: Some(LoadSample {
                bytes_rate,
                operation_bytes: load.bytes as f64 / load.operations as f64,
                latency_ns: [0.5, 0.99, 0.999].map(|q| latencies.quantile(q) as f64),
                cpu_machine_ns: result.cpu_machine.map(|cpu| cpu.0 as f64 / load.operations as f64),
                device_bytes: result
                    .device_written
                    .filter(|written| written.0 > 0)
                    .map(|written| written.0 as f64 / load.operations as f64),
                generator_share: load.cpu_user.as_secs_f64() / seconds / f64::from(load.threads.max(1)),
                steady_windows: load.steady_windows.iter().map(|count| *count as f64).collect(),
                latencies,
                series: Series::of(load),
            }),
            tool: None,
        })
    }

    /// What it says on a metric that is a number of its own; none of a quantile, and where it has none.
    fn on(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::Throughput => Some(self.rate),
            Metric::DeviceBytes => self.load.as_ref()?.device_bytes,
            Metric::P50 | Metric::P99 | Metric::P999 => None,
        }
    }
}

/// The latencies of a kind of operation, if it was recorded.
fn latencies_of(load: &LoadResult, kind: OperationKind) -> Result<Option<Latencies>, String> {
    load.histograms.get(&kind).map(|text| Latencies::decode(text)).transpose()
}

/// The share of a load's bytes that were written. All its requests have one size, so it is that of its requests.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn share_written(load: &LoadResult) -> Result<f64, String> {
    let count = |kind| Ok::<_, String>(latencies_of(load, kind)?.map_or(0, |found| found.len()));
    let (read, written) = (count(OperationKind::Read)?, count(OperationKind::Write)?);
    if written == 0 {
        return Err("no byte was written in the measured time".into());
    }
    Ok(written as f64 / (read + written) as f64)
}

impl Plan {
    /// The samples of a run of a cell.
    ///
    /// # Errors
    /// See [`Sample::all`]; or the results are not those that the workload yields.
    pub fn samples(
        &self,
        cell: usize,
        round: u32,
        slot: usize,
        measurement: &Measurement,
    ) -> Result<Vec<Sample>, String> {
        let wanted = self.results[self.cells[cell].workload].iter().map(|kind| kind.name.as_str());
        let found = measurement.results.iter().map(|result| result.name.as_str());
        if !wanted.clone().eq(found.clone()) {
            let list = |names: &mut dyn Iterator<Item = &str>| names.collect::<Vec<_>>().join(", ");
            return Err(format!(
                "it has the results {} instead of {}",
                list(&mut { found }),
                list(&mut { wanted })
            ));
        }
        let mut samples = Sample::all(round, slot, measurement)?;
        if let Some(name) = self.tool(cell) {
            let version = measurement.facts.tools.get(name).filter(|version| !version.is_empty());
            let tool = version.map_or_else(|| name.to_owned(), |version| named(name, version));
            samples.iter_mut().for_each(|sample| sample.tool = Some(tool.clone()));
        }
        Ok(samples)
    }
}

/// A tool with what it prints about itself, which may or may not begin with its name.
fn named(name: &str, version: &str) -> String {
    if version.contains(name) { version.to_owned() } else { format!("{name}: {version}") }
}

/// A quantile of the latencies of a load's operations, in nanoseconds.
///
/// # Errors
/// The histogram is missing or damaged; says how.
pub(crate) fn latency(load: &LoadResult, quantile: f64) -> Result<u64, String> {
    let latencies = latencies_of(load, OperationKind::Operation)?;
    Ok(latencies.ok_or("there is no histogram of operations")?.quantile(quantile))
}

/// Where a contrast stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContrastState {
    /// The arm measured against the other; the workload, if workloads are compared.
    pub a: String,
    /// The arm (or workload) it is measured against.
    pub b: String,
    /// The workload; the arm, if workloads are compared.
    pub workload: String,
    /// The phase, or the group of threads in it; empty if the workload has only one.
    pub phase: String,
    /// The level.
    pub threads: u16,
    /// On what.
    pub metric: Metric,
    /// Whether less of it is better: of latencies, and of some numbers that other programs print.
    pub less_is_better: bool,
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
    /// One of the two cannot do it, which is an answer; there is no ratio.
    Cannot,
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

/// The pairs that may be judged now that a round of two cells is in. Less is better: the roles are exchanged, and
/// exchanged back for display. `tail` is there for quantiles, and gathers the rounds before.
fn paired(metric: Metric, less: bool, tail: Option<&mut Tail>, a: &Sample, b: &Sample) -> Vec<Pair> {
    if let (Some(quantile), Some(tail)) = (metric.quantile(), tail) {
        return tail.add(quantile, a, b);
    }
    let (Some(x), Some(y)) = (a.on(metric), b.on(metric)) else { return Vec::new() };
    let ((x, a), (y, b)) = if less { ((y, b), (x, a)) } else { ((x, a), (y, b)) };
    vec![Pair::from_rates(x, a.cv, y, b.cv, Some(a.slot < b.slot))]
}

/// All rounds of two cells as pairs on a metric; of a quantile, groups of merged rounds. Where less is better the roles
/// are exchanged. None if the runs have too few operations for the quantile.
pub(crate) fn pairs_of(metric: Metric, less: bool, rounds: &[(&Sample, &Sample)]) -> Option<Vec<Pair>> {
    let mut tail = metric.quantile().map(Tail::new);
    let mut pairs = Vec::new();
    for (a, b) in rounds {
        pairs.extend(paired(metric, less, tail.as_mut(), a, b));
    }
    (!tail.is_some_and(|tail| tail.has_too_few())).then_some(pairs)
}

/// A round of a single cell on a metric as the logarithm of the figure itself; none where it has none. Where less is
/// better its sign is changed.
pub(crate) fn amount_of(metric: Metric, less: bool, sample: &Sample) -> Option<Pair> {
    weighted_sum(metric, less, &[(1.0, sample)])
}

/// A round of a weighted sum of logarithms: a slope, or a figure itself.
fn weighted_sum(metric: Metric, less: bool, weighted: &[(f64, &Sample)]) -> Option<Pair> {
    let direction = if less { -1.0 } else { 1.0 };
    let value = |sample: &Sample| match metric.quantile() {
        None => sample.on(metric),
        Some(quantile) => sample.quantile(quantile),
    };
    let logs: Option<Vec<f64>> =
        weighted.iter().map(|(weight, sample)| Some(weight * value(sample)?.ln())).collect();
    let spread: f64 = weighted.iter().map(|(weight, sample)| (weight * sample.cv).powi(2)).sum();
    let q = Pair::from_rates(1.0, spread.sqrt(), 1.0, 0.0, None).q;
    Some(Pair { log_ratio: direction * logs?.iter().sum::<f64>(), q, a_first: None })
}

/// The weights that give the slope of logarithms over log2 of the threads, by least squares: they sum to nothing, so
/// that where no level differs the sign of their sum is as random as that of a pair.
fn slope_weights(threads: &[u16]) -> Vec<f64> {
    let x: Vec<f64> = threads.iter().map(|threads| f64::from(*threads).log2()).collect();
    #[expect(clippy::cast_precision_loss, reason = "a handful of levels")]
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    let spread: f64 = x.iter().map(|x| (x - mean).powi(2)).sum();
    x.iter().map(|x| (x - mean) / spread).collect()
}

/// Judges a trial as its rounds come in.
pub struct Judge<'a> {
    pub(super) plan: &'a Plan,
    panel: Panel,
    /// By cell and result.
    samples: Vec<Vec<Vec<Sample>>>,
    failed: Vec<bool>,
    /// Why an arm cannot do the workload of a cell.
    cannot: Vec<Option<String>>,
    /// For contrasts of a quantile.
    tails: Vec<Option<Tail>>,
    /// By contrast: the logarithm that the last round gave.
    latest: Vec<Option<f64>>,
    planned: u32,
}

/// The band of a metric as a fraction: the trial's for throughput and bytes; wider ones for quantiles, whose noise is
/// wider.
pub(crate) fn band_fraction(metric: Metric, practical: f64) -> f64 {
    match metric {
        Metric::Throughput | Metric::DeviceBytes => practical,
        Metric::P50 => 0.05,
        Metric::P99 => 0.10,
        Metric::P999 => 0.20,
    }
}

/// The question of a contrast. Where less is better the statistics have the roles exchanged, and bounds with them.
fn question(contrast: &Contrast, practical: f64, less_is_better: bool) -> Question {
    let lane = contrast.metric == Metric::Throughput;
    let band = band_fraction(contrast.metric, practical).ln_1p();
    match contrast.ask {
        Ask::Difference => Question { lane, ..Question::comparison(band) },
        Ask::Above(bound) => {
            let bound = if less_is_better { bound.recip() } else { bound };
            Question { lane, ..Question::ratio_above(bound, band) }
        }
        Ask::Within(fraction) => Question::within(fraction),
    }
}

/// Whether less of what a contrast looks at is better.
pub(crate) fn less_is_better(plan: &Plan, contrast: &Contrast) -> bool {
    let workload = plan.cells[contrast.a].workload;
    contrast.metric != Metric::Throughput || plan.results[workload][contrast.result_a].less_is_better
}

impl<'a> Judge<'a> {
    /// A judge for a plan with its number of rounds.
    pub fn new(plan: &'a Plan, planned: u32) -> Self {
        let practical = plan.trial.trial.practical.fraction();
        let questions = plan
            .contrasts
            .iter()
            .map(|contrast| Question {
                holds_open: contrast.holds_open,
                ..question(contrast, practical, less_is_better(plan, contrast))
            })
            .collect();
        let multiplicity = match plan.trial.trial.errors {
            ErrorControl::Fdr => Multiplicity::BenjaminiHochberg,
            ErrorControl::Fwer => Multiplicity::Holm,
        };
        Self {
            plan,
            panel: Panel::new(questions, ALPHA, planned as usize, multiplicity),
            samples: plan
                .cells
                .iter()
                .map(|cell| vec![Vec::new(); plan.results[cell.workload].len()])
                .collect(),
            failed: vec![false; plan.cells.len()],
            cannot: vec![None; plan.cells.len()],
            tails: plan.contrasts.iter().map(|contrast| contrast.metric.quantile().map(Tail::new)).collect(),
            latest: vec![None; plan.contrasts.len()],
            planned,
        }
    }

    /// The number of rounds it was made for.
    pub fn planned(&self) -> u32 {
        self.planned
    }

    /// Takes the samples of a round, by cell, and settles what they decide.
    pub fn end_round(&mut self, round: Vec<(usize, Vec<Sample>)>) {
        self.latest.fill(None);
        for index in 0..self.plan.contrasts.len() {
            let contrast = &self.plan.contrasts[index];
            let find = |cell: usize, result: usize| {
                let (_, samples) = round.iter().find(|(at, _)| *at == cell)?;
                samples.get(result)
            };
            match &contrast.of {
                Of::Ratio => {
                    if let (Some(a), Some(b)) =
                        (find(contrast.a, contrast.result_a), find(contrast.b, contrast.result_b))
                    {
                        self.push(index, contrast, a, b);
                    }
                }
                Of::Amount => {
                    if let Some(sample) = find(contrast.a, contrast.result_a) {
                        self.push_weighted(index, contrast, &[(1.0, sample)]);
                    }
                }
                Of::Slope(cells) => {
                    let found: Option<Vec<&Sample>> =
                        cells.iter().map(|cell| find(*cell, contrast.result_a)).collect();
                    if let Some(found) = found {
                        let threads = cells.iter().map(|cell| self.plan.cells[*cell].threads);
                        let weights = slope_weights(&threads.collect::<Vec<_>>());
                        let weighted: Vec<_> = weights.into_iter().zip(found).collect();
                        self.push_weighted(index, contrast, &weighted);
                    }
                }
            }
        }
        self.panel.settle();
        for (cell, samples) in round {
            for (all, sample) in self.samples[cell].iter_mut().zip(samples) {
                all.push(sample);
            }
        }
    }

    fn push(&mut self, index: usize, contrast: &Contrast, a: &Sample, b: &Sample) {
        let less = less_is_better(self.plan, contrast);
        let pairs = paired(contrast.metric, less, self.tails[index].as_mut(), a, b);
        match &self.tails[index] {
            Some(tail) => self.latest[index] = tail.latest.map(|pair| pair.log_ratio),
            None if pairs.is_empty() => {}
            None => self.latest[index] = pairs.last().map(|pair| pair.log_ratio),
        }
        for pair in pairs {
            self.panel.push(index, pair);
        }
    }

    /// Adds a round of a weighted sum of logarithms: a slope, or a figure itself.
    fn push_weighted(&mut self, index: usize, contrast: &Contrast, weighted: &[(f64, &Sample)]) {
        let less = less_is_better(self.plan, contrast);
        if let Some(pair) = weighted_sum(contrast.metric, less, weighted) {
            self.latest[index] = Some(pair.log_ratio);
            self.panel.push(index, pair);
        }
    }

    /// A cell has failed: it is not run again and its contrasts get no ratio.
    pub fn fail_cell(&mut self, cell: usize) {
        self.failed[cell] = true;
    }

    /// The arm of a cell cannot do its workload: it is not run again and its contrasts get no ratio.
    pub fn answer_cannot(&mut self, cell: usize, reason: String) {
        self.cannot[cell] = Some(reason);
    }

    /// Why the arm of a cell cannot do its workload, if it has said so.
    pub fn cannot(&self, cell: usize) -> Option<&str> {
        self.cannot[cell].as_deref()
    }

    /// Whether a cell is not run again, as it failed or cannot be done.
    pub(super) fn is_out(&self, cell: usize) -> bool {
        self.failed[cell] || self.cannot[cell].is_some()
    }

    /// No further rounds will come.
    pub fn finish(&mut self) {
        self.panel.finish();
    }

    /// Whether a cell is still needed for a contrast that holds the trial open.
    pub fn needs(&self, cell: usize) -> bool {
        let contrasts = || self.plan.contrasts.iter().enumerate();
        !self.is_out(cell)
            && (self.is_watched(cell)
                || contrasts().any(|(index, contrast)| {
                    contrast.cells().any(|needed| needed == cell) && self.is_open(index)
                }))
    }

    fn is_open(&self, index: usize) -> bool {
        let contrast = &self.plan.contrasts[index];
        contrast.holds_open
            && !contrast.cells().any(|cell| self.is_out(cell))
            && self.panel.is_open(index)
            && !self.is_moot(index)
    }

    /// What the statistics say of a contrast so far, and whether it was given up as no round would decide it in time.
    pub(super) fn decision(&self, index: usize) -> (Decision, bool) {
        let verdict = self.panel.verdict(index);
        (verdict.decision, verdict.futile)
    }

    /// Whether any contrast, or a part of a claim that is not one, holds the trial open.
    pub fn is_undecided(&self) -> bool {
        (0..self.plan.contrasts.len()).any(|index| self.is_open(index))
            || (0..self.plan.cells.len()).any(|cell| !self.is_out(cell) && self.is_watched(cell))
    }

    /// The samples of a result of a cell, in the order of their rounds.
    pub fn samples(&self, cell: usize, result: usize) -> &[Sample] {
        &self.samples[cell][result]
    }

    /// By how much the throughput of a cell varies from round to round: the median, over cells and rounds, of
    /// |ln(rate / median rate of the cell)|. None before there are three rounds.
    pub fn spread_between_rounds(&self) -> Option<f64> {
        let mut all = Vec::new();
        for samples in self.samples.iter().flatten().filter(|samples| samples.len() >= 3) {
            let rates: Vec<f64> = samples.iter().map(|sample| sample.rate).collect();
            let median = spread::median(&rates)?;
            all.extend(rates.iter().map(|rate| (rate / median).ln().abs()));
        }
        spread::median(&all)
    }

    /// Whether a cell has failed.
    pub fn has_failed(&self, cell: usize) -> bool {
        self.failed[cell]
    }

    /// What the last round alone says of a contrast, `a` over `b`. None where it lacks one of the two, and for a quantile
    /// whose rounds are still being merged. A round after the verdict has its ratio too, though nothing rests on it.
    pub fn latest_ratio(&self, index: usize) -> Option<f64> {
        let less = less_is_better(self.plan, &self.plan.contrasts[index]);
        self.latest[index].map(|log| ratio(log, less))
    }

    /// How many contrasts there are.
    pub fn contrasts(&self) -> usize {
        self.plan.contrasts.len()
    }

    /// The ratio of a contrast over all rounds so far and its interval, as in [`ContrastState`].
    pub fn standing(&self, index: usize) -> (Option<f64>, Option<(f64, f64)>) {
        self.figures(index, &self.panel.verdict(index))
    }

    /// Ratio and interval of a verdict, where they may be shown.
    fn figures(&self, index: usize, verdict: &Verdict) -> (Option<f64>, Option<(f64, f64)>) {
        if !self.has_ratio(index, verdict.decision) {
            return (None, None);
        }
        let less = less_is_better(self.plan, &self.plan.contrasts[index]);
        (
            verdict.estimate.map(|log| ratio(log, less)),
            verdict.interval.map(|logs| ratio_interval(logs, less)),
        )
    }

    /// Whether a ratio is shown of a contrast: none of one whose cells failed or cannot be done, nor while operations are
    /// too few.
    fn has_ratio(&self, index: usize, decision: Decision) -> bool {
        let is_out = self.plan.contrasts[index].cells().any(|cell| self.is_out(cell));
        !is_out && self.too_few(index, decision).is_none()
    }

    /// The tail of a contrast of a quantile that cannot be judged for want of operations. A verdict that single rounds have
    /// given stays, whatever comes after them.
    fn too_few(&self, index: usize, decision: Decision) -> Option<&Tail> {
        self.tails[index].as_ref().filter(|tail| tail.has_too_few() && decision == Decision::Undecided)
    }

    /// Where every contrast stands.
    pub fn states(&self) -> Vec<ContrastState> {
        (0..self.plan.contrasts.len()).map(|index| self.state(index)).collect()
    }

    fn state(&self, index: usize) -> ContrastState {
        let contrast = &self.plan.contrasts[index];
        let cell = self.plan.cells[contrast.a];
        let verdict = self.panel.verdict(index);
        let failed = contrast.cells().any(|cell| self.failed[cell]);
        let cannot = contrast.cells().any(|cell| self.cannot[cell].is_some());
        let less = less_is_better(self.plan, contrast);
        let too_few = self.too_few(index, verdict.decision);
        let (too_few, rounds) = (too_few.is_some(), too_few.map_or(verdict.rounds, |tail| tail.groups));
        let shown = self.has_ratio(index, verdict.decision);
        let (ratio, interval) = self.figures(index, &verdict);
        let outcome = match verdict.decision {
            _ if failed => Outcome::Failed,
            _ if cannot => Outcome::Cannot,
            _ if too_few => Outcome::Undecided,
            decision => decision.into(),
        };
        ContrastState {
            a: self.plan.compared(contrast.a).to_owned(),
            b: self.plan.compared(contrast.b).to_owned(),
            workload: self.plan.under(contrast.a).to_owned(),
            phase: self.plan.results[cell.workload][contrast.result_a].name.clone(),
            threads: cell.threads,
            metric: contrast.metric,
            less_is_better: less,
            verdict: outcome,
            ratio,
            interval,
            interval_level: verdict.interval_level,
            rounds,
            open: self.is_open(index),
            holds_open: contrast.holds_open,
            rounds_needed: verdict.rounds_needed.filter(|_| shown).map(rounded_up),
            suggestive: verdict.excludes_zero_undecided && shown,
            too_few_operations: too_few,
        }
    }

    /// Warnings about what was measured: warm-ups that were too short, generators that were the limit; each with what to
    /// do about it.
    pub fn warnings(&self) -> Vec<String> {
        let all =
            || (0..self.samples.len()).flat_map(|cell| (0..self.samples[cell].len()).map(move |n| (cell, n)));
        let checked: Vec<_> = all().filter_map(|at| Some((at, self.steadiness(at)?))).collect();
        let warn = |what: &str, remedy: &str, found: Vec<(usize, usize)>, of: usize| {
            let names: Vec<String> = found.iter().map(|(cell, n)| self.plan.result_name(*cell, *n)).collect();
            let some = names.len();
            (some > 0).then(|| format!("{what} in {some} of {of} cells ({remedy}): {}", names.join(", ")))
        };
        let steady = |what: &str, remedy: &str, is: fn(&Steady) -> bool| {
            let found = checked.iter().filter(|(_, steady)| is(steady)).map(|(at, _)| *at).collect();
            warn(what, remedy, found, checked.len())
        };
        let warming = steady("still warming up when the clock started", "use a longer --warmup", |steady| {
            matches!(steady, Steady::StillWarming { .. })
        });
        let unsteady = steady("no steady state within a run", "use a longer --duration", |steady| {
            matches!(steady, Steady::NoSteadyState)
        });
        // Whoever waits for the time at which a request is due watches the clock for it.
        let waits = |(cell, result): (usize, usize)| {
            let workload = &self.plan.workloads[self.plan.cells[cell].workload];
            let phase = workload.phase_of(result);
            phase.is_some_and(|phase| phase.groups.iter().any(|group| group.rate.is_some()))
        };
        let is_limit = |at: &(usize, usize)| self.generator_share(*at) >= GENERATOR_LIMIT && !waits(*at);
        let busy: Vec<_> = all().filter(is_limit).collect();
        let limit = warn(
            "the load generator itself used much of its cores, so a part of what was measured is its own work",
            "use a larger block_size, or see the CPU columns",
            busy,
            all().count(),
        );
        warming.into_iter().chain(unsteady).chain(limit).collect()
    }

    /// The median share of a core that each thread of the generator used outside the kernel; 0 where it is not known.
    pub fn generator_share(&self, (cell, result): (usize, usize)) -> f64 {
        let loads = self.samples[cell][result].iter().filter_map(|sample| sample.load.as_ref());
        spread::median(&loads.map(|load| load.generator_share).collect::<Vec<_>>()).unwrap_or(0.0)
    }

    /// Whether a cell had reached a steady state when the clock started; none with too few rounds, and none for work
    /// that ends when it is done.
    fn steadiness(&self, (cell, result): (usize, usize)) -> Option<Steady> {
        let workload = &self.plan.workloads[self.plan.cells[cell].workload];
        let phase =
            workload.phases.iter().flat_map(|phase| phase.results().map(move |_| phase)).nth(result)?;
        if phase.until == Until::Done {
            return None;
        }
        let loads = self.samples[cell][result].iter().filter_map(|sample| sample.load.as_ref());
        let runs: Vec<Vec<f64>> = loads.map(|load| load.steady_windows.clone()).collect();
        let total = (phase.warmup.0 + phase.duration.0).max(1);
        #[expect(clippy::cast_precision_loss, reason = "a fraction for comparison")]
        let warmup_windows = phase.warmup.0 as f64 / total as f64 * steady::WINDOWS as f64;
        steady::judge(&runs, warmup_windows)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped first")]
pub(crate) fn rounded_up(rounds: f64) -> u64 {
    rounds.ceil().clamp(0.0, 1e9) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::{Engine, engine::general_purpose::STANDARD};
    use fstrial_model::{
        measurement::{ClockSource, Value},
        units::Bytes,
    };
    use hdrhistogram::{
        Histogram,
        serialization::{Serializer as _, V2Serializer},
    };
    use std::collections::BTreeMap;

    fn histogram(count: u64) -> String {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        histogram.record_n(1000, count).unwrap();
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&histogram, &mut bytes).unwrap();
        STANDARD.encode(bytes)
    }

    fn load(counts: &[(OperationKind, u64)], bytes: u64) -> LoadResult {
        LoadResult {
            threads: 1,
            duration: Nanos::secs(2),
            operations: 100,
            bytes,
            errors: 0,
            first_error: None,
            histograms: counts
                .iter()
                .map(|(kind, count)| (*kind, histogram(*count)))
                .collect::<BTreeMap<_, _>>(),
            windows: vec![5; 20],
            steady_windows: vec![5; 40],
            series: vec![100],
            series_step: Nanos::secs(2),
            tails: Vec::new(),
            tails_step: Nanos(0),
            cpu_user: Nanos(0),
            cpu_system: Nanos(0),
            clock: ClockSource::Monotonic,
        }
    }

    fn result(figure: Figure, load: LoadResult) -> PhaseResult {
        let reading = Reading::Load(figure, Box::new(load));
        PhaseResult { name: String::new(), reading, cpu_machine: None, device_written: None }
    }

    #[test]
    fn bytes_written_to_the_device_are_for_each_operation_and_none_is_no_number() {
        let one = || load(&[(OperationKind::Operation, 100)], 4096);
        let on = |written: Option<u64>| {
            let result = PhaseResult { device_written: written.map(Bytes), ..result(Figure::Bytes, one()) };
            Sample::of(1, 0, &result).unwrap().on(Metric::DeviceBytes)
        };
        assert_eq!(on(Some(819_200)), Some(8192.0));
        // It has no logarithm.
        assert_eq!(on(Some(0)), None);
        assert_eq!(on(None), None);
        let value = Value { value: 3.0, unit: "op/s".into(), less_is_better: false };
        let of_value = PhaseResult {
            reading: Reading::Value(value),
            device_written: Some(Bytes(9)),
            ..result(Figure::Bytes, one())
        };
        assert_eq!(Sample::of(1, 0, &of_value).unwrap().on(Metric::DeviceBytes), None, "without operations");
    }

    #[test]
    fn a_rewrite_counts_its_bytes_once_as_bonnie_does() {
        use OperationKind::{Operation, Read, Write};
        let rate = |counts: &[(OperationKind, u64)], figure| {
            Sample::of(1, 0, &result(figure, load(counts, 200 * 8192))).map(|sample| sample.rate)
        };
        let rewrite = [(Operation, 100), (Read, 100), (Write, 100)];
        assert_eq!(rate(&rewrite, Figure::Bytes), Ok(819_200.0), "both directions");
        assert_eq!(rate(&rewrite, Figure::BytesWritten), Ok(409_600.0));
        assert_eq!(rate(&[(Operation, 200), (Write, 200)], Figure::BytesWritten), Ok(819_200.0));
        assert!(rate(&[(Operation, 200), (Read, 200)], Figure::BytesWritten).is_err());
    }
}
