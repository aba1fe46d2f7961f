//! The data of a page's plots, as they are embedded in it: what docs/report.md describes.
//!
//! Numbers have four significant digits: a picture shows three, and a page of sixteen thousand runs is to stay small.

use crate::{
    report::{
        again::Told,
        document::{CellReport, WorkloadReport},
        summary,
    },
    run::{
        course::Course,
        judge::{LoadSample, Outcome},
        latencies::Latencies,
        stored::Besides,
    },
};
use fstrial_model::{
    claim::OriginalTable,
    device::DeviceKind,
    measurement::Stage,
    trial::{Compare, Metric},
    workload::Until,
};
use fstrial_stats::{quantile::are_enough, spread, steady};
use serde::Serialize;
use std::collections::BTreeMap;

/// Raised when a field changes its meaning or goes away; new fields do not raise it.
pub const SCHEMA_VERSION: u32 = 1;

/// Quantiles of the latency plot.
const QUANTILES: [f64; 7] = [0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0];

/// Shares at which the distribution of latencies is drawn.
const SHARES: [f64; 27] = [
    0.001, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.93, 0.95,
    0.97, 0.98, 0.99, 0.995, 0.999, 0.9995, 0.9999, 1.0,
];

/// Contrasts whose course is kept, at most: a page with all of those of a very large trial would be slow to open.
pub const MOST_COURSES: usize = 1200;

/// Stages that say something of a filesystem: the rest is the instrument's.
const STAGES: [Stage; 5] = [Stage::Mkfs, Stage::Mount, Stage::Layout, Stage::Unmount, Stage::Fsck];

/// Everything that is drawn on a page.
#[derive(Debug, Serialize)]
pub struct PageData {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The version of fstrial that made the page.
    pub fstrial: &'static str,
    /// The trials, in the order of the page.
    pub trials: Vec<TrialData>,
}

/// A trial.
#[derive(Debug, Serialize)]
pub struct TrialData {
    id: Option<i64>,
    name: String,
    started_at: String,
    kernel: String,
    device: String,
    compare: Compare,
    practical: f64,
    arms: Vec<String>,
    /// Its workloads, or phases of them.
    pub sections: Vec<SectionData>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    original: Vec<OriginalTable>,
    /// Contrasts whose course was left out, as there are too many.
    #[serde(skip)]
    pub courses_left_out: usize,
}

/// A workload, or one of its phases.
#[derive(Debug, Serialize)]
pub struct SectionData {
    /// Its name with that of the phase.
    pub title: String,
    unit: String,
    less_is_better: bool,
    warmup_seconds: Option<f64>,
    duration_seconds: Option<f64>,
    /// Its levels.
    pub levels: Vec<u16>,
    /// Its cells.
    pub cells: Vec<CellData>,
    /// Its contrasts.
    pub contrasts: Vec<ContrastData>,
}

/// A cell. What is not known is left out.
#[derive(Debug, Default, Serialize)]
pub struct CellData {
    arm: usize,
    threads: u16,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    failed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cannot: Option<String>,
    runs: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_interval: Option<(f64, f64)>,
    rounds: Vec<(u32, f64)>,
    /// Quantile, latency of all runs together in ns, and the least and the greatest of single runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) latency: Vec<Quantile>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cdf: Vec<(f64, f64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) series: Option<SeriesData>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tails: Option<TailsData>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) device_bytes: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    asked_bytes: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) space_used_bytes: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generator_share: Option<f64>,
    /// Medians in seconds.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub stages: BTreeMap<&'static str, f64>,
}

/// A quantile, the latency of all runs together in ns, and the least and the greatest of single runs.
type Quantile = (f64, f64, Option<f64>, Option<f64>);

impl CellData {
    /// Whether there is a rate to draw.
    pub fn is_rated(&self) -> bool {
        self.rate.is_some()
    }
}

/// Operations a second in the course of a run, over its rounds.
#[derive(Debug, Serialize)]
pub struct SeriesData {
    step_seconds: f64,
    typical: Vec<f64>,
    low: Vec<f64>,
    high: Vec<f64>,
}

/// Latencies in the course of a run: medians over its rounds, in ns.
#[derive(Debug, Serialize)]
struct TailsData {
    step_seconds: f64,
    p50: Vec<f64>,
    p99: Vec<f64>,
}

/// A contrast.
#[derive(Debug, Serialize)]
pub struct ContrastData {
    a: usize,
    b: usize,
    threads: u16,
    metric: Metric,
    verdict: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<(f64, f64)>,
    interval_level: f64,
    less_is_better: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    unequal: Option<String>,
    /// How it went, round by round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub course: Option<CourseData>,
}

/// How a contrast went: ratios of single rounds, and the running estimate with its interval.
#[derive(Debug, Serialize)]
pub struct CourseData {
    rounds: Vec<u32>,
    pairs: Vec<Option<f64>>,
    ratio: Vec<Option<f64>>,
    low: Vec<Option<f64>>,
    high: Vec<Option<f64>>,
}

/// Four significant digits.
fn short(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    format!("{value:.3e}").parse().expect("a number that was just written")
}

fn short_interval((low, high): (f64, f64)) -> (f64, f64) {
    (short(low), short(high))
}

#[expect(clippy::cast_precision_loss, reason = "latencies are below 2^53 ns")]
fn short_ns(ns: u64) -> f64 {
    short(ns as f64)
}

/// The data of a trial.
pub fn of_trial(told: &Told<'_>) -> TrialData {
    let document = &told.document;
    let names: Vec<String> = match document.compare {
        Compare::Arms => document.arms.iter().map(|arm| arm.name.clone()).collect(),
        // Compared are workloads: they are the lines of a plot.
        Compare::Workloads => told.plan.workloads.iter().map(|workload| workload.name.clone()).collect(),
    };
    let reported = told.plan.sections();
    let sections = reported.iter().zip(&document.workloads);
    let mut sections: Vec<SectionData> =
        sections.map(|(section, report)| section_data(told, section, report, &names)).collect();
    let courses_left_out = thin(&mut sections);
    TrialData {
        id: document.trial_id,
        name: document.name.clone(),
        started_at: told.stored.summary.started_at.clone(),
        kernel: document.environment.kernel.clone(),
        device: document.environment.device.clone(),
        compare: document.compare,
        practical: document.practical_percent / 100.0,
        arms: names,
        sections,
        original: document.claim.as_ref().map(|claim| claim.tables.clone()).unwrap_or_default(),
        courses_left_out,
    }
}

/// Drops courses beyond [`MOST_COURSES`], those of latency first; says how many.
fn thin(sections: &mut [SectionData]) -> usize {
    let has = |contrast: &&mut ContrastData| contrast.course.is_some();
    let all = || sections.iter().flat_map(|section| &section.contrasts);
    let throughput = all().filter(|one| one.course.is_some() && one.metric == Metric::Throughput).count();
    let mut kept = [throughput.min(MOST_COURSES), MOST_COURSES.saturating_sub(throughput)];
    let mut dropped = 0;
    for contrast in sections.iter_mut().flat_map(|section| &mut section.contrasts).filter(has) {
        let left = &mut kept[usize::from(contrast.metric != Metric::Throughput)];
        if *left == 0 {
            contrast.course = None;
            dropped += 1;
        } else {
            *left -= 1;
        }
    }
    dropped
}

fn section_data(
    told: &Told<'_>,
    section: &[(usize, usize)],
    report: &WorkloadReport,
    names: &[String],
) -> SectionData {
    SectionData {
        title: report.title(),
        unit: if report.unit == "bytes/s" { "B/s".into() } else { report.unit.clone() },
        less_is_better: report.less_is_better,
        warmup_seconds: report.warmup_seconds,
        duration_seconds: report.duration_seconds,
        levels: summary::levels(report),
        cells: section
            .iter()
            .zip(&report.cells)
            .map(|(at, cell)| cell_data(told, *at, cell, index_of(names, &cell.arm)))
            .collect(),
        contrasts: contrasts_of(told, section, report, names),
    }
}

/// The place of a name: every cell and contrast has one of the names.
fn index_of(names: &[String], name: &str) -> usize {
    names.iter().position(|known| known == name).expect("names of cells are those of the trial")
}

fn contrasts_of(
    told: &Told<'_>,
    section: &[(usize, usize)],
    report: &WorkloadReport,
    names: &[String],
) -> Vec<ContrastData> {
    // In the order of the plan, as the report has them.
    let of_this = |index: &usize| {
        let contrast = &told.plan.contrasts[*index];
        section.contains(&(contrast.a, contrast.result_a))
    };
    let indices = (0..told.plan.contrasts.len()).filter(of_this);
    let data = report.verdicts.iter().zip(indices).map(|(verdict, index)| {
        let state = &verdict.contrast;
        ContrastData {
            a: index_of(names, &state.a),
            b: index_of(names, &state.b),
            threads: state.threads,
            metric: state.metric,
            verdict: state.verdict,
            ratio: state.ratio.map(short),
            interval: state.interval.map(short_interval),
            interval_level: short(state.interval_level),
            less_is_better: state.less_is_better,
            unequal: verdict.unequal_durability.clone(),
            course: told.courses.get(index).and_then(course_data),
        }
    });
    data.collect()
}

fn course_data(course: &Course) -> Option<CourseData> {
    // A contrast without any ratio has no course to see.
    let known = course.rounds.iter().filter(|point| point.ratio.is_some() || point.estimate.is_some());
    let points: Vec<_> = known.collect();
    (!points.is_empty()).then(|| CourseData {
        rounds: points.iter().map(|point| point.round).collect(),
        pairs: points.iter().map(|point| point.ratio.map(short)).collect(),
        ratio: points.iter().map(|point| point.estimate.map(short)).collect(),
        low: points.iter().map(|point| point.interval.map(|(low, _)| short(low))).collect(),
        high: points.iter().map(|point| point.interval.map(|(_, high)| short(high))).collect(),
    })
}

fn cell_data(told: &Told<'_>, (cell, result): (usize, usize), report: &CellReport, arm: usize) -> CellData {
    let samples = told.finished.judge.as_ref().map(|judge| judge.samples(cell, result)).unwrap_or_default();
    let loads: Vec<&LoadSample> = samples.iter().filter_map(|sample| sample.load.as_ref()).collect();
    let mut all = Latencies::default();
    loads.iter().for_each(|load| all.add(&load.latencies));
    let besides = &told.besides[cell];
    CellData {
        arm,
        threads: report.threads,
        failed: report.failed,
        cannot: report.cannot.clone(),
        runs: report.runs,
        rate: report.rate.map(short),
        rate_interval: report.rate_interval.map(short_interval),
        rounds: samples.iter().map(|sample| (sample.round, short(sample.rate))).collect(),
        latency: latency(&all, &loads),
        cdf: distribution(&all),
        series: series(told, (cell, result), &loads),
        tails: tails(&loads),
        cpu_ns: report.cpu_per_operation_ns.map(short),
        device_bytes: report.device_bytes_per_operation.map(short),
        asked_bytes: median(loads.iter().map(|load| load.operation_bytes)).filter(|bytes| *bytes > 0.0),
        space_used_bytes: space_used(told, besides),
        generator_share: (!loads.is_empty()).then(|| short(report.generator_share)),
        stages: stages(besides),
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    spread::median(&values.collect::<Vec<_>>()).map(short)
}

/// Quantiles that have enough operations beyond them: of all runs together, with the range of single runs.
fn latency(all: &Latencies, loads: &[&LoadSample]) -> Vec<Quantile> {
    let is_known = |of: &Latencies, q: f64| !of.is_empty() && (q >= 1.0 || are_enough(1.0 - q, of.len()));
    let of_quantile = |q: f64| {
        let of_runs = loads.iter().filter(|load| is_known(&load.latencies, q));
        let of_runs: Vec<u64> = of_runs.map(|load| load.latencies.quantile(q)).collect();
        let (low, high) = (of_runs.iter().min(), of_runs.iter().max());
        (q, short_ns(all.quantile(q)), low.map(|ns| short_ns(*ns)), high.map(|ns| short_ns(*ns)))
    };
    QUANTILES.into_iter().filter(|q| is_known(all, *q)).map(of_quantile).collect()
}

/// The distribution of latencies in a few points.
fn distribution(all: &Latencies) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for share in SHARES.into_iter().filter(|_| !all.is_empty()) {
        let ns = short_ns(all.quantile(share));
        match points.last_mut() {
            Some(last) if last.0 >= ns => last.1 = share,
            _ => points.push((ns, share)),
        }
    }
    points
}

/// Operations a second from the start of the warm-up on. Short runs are shown by their 40 windows, longer ones by their
/// seconds or tenths of them.
fn series(told: &Told<'_>, (cell, result): (usize, usize), loads: &[&LoadSample]) -> Option<SeriesData> {
    let workload = &told.plan.workloads[told.plan.cells[cell].workload];
    let timed = workload.phase_of(result).filter(|phase| phase.until == Until::Time);
    let points = loads.iter().map(|load| load.series.operations.len()).min()?;
    let (step, rates): (f64, Vec<Vec<f64>>) = match timed.filter(|_| points < steady::WINDOWS) {
        Some(phase) => {
            let step = (phase.warmup.as_secs_f64() + phase.duration.as_secs_f64()) / float(steady::WINDOWS);
            let of_run = |load: &&LoadSample| load.steady_windows.iter().map(|count| count / step).collect();
            (step, loads.iter().map(of_run).collect())
        }
        None => {
            let step = loads.iter().map(|load| load.series.step_seconds).fold(0.0, f64::max);
            let alike = loads.iter().filter(|load| load.series.step_seconds >= step);
            let of_run =
                |load: &&LoadSample| load.series.operations.iter().map(|n| count(*n) / step).collect();
            (step, alike.map(of_run).collect())
        }
    };
    // The last window of work that ends when it is done is cut short.
    let windows = rates.iter().map(Vec::len).min()?.saturating_sub(usize::from(timed.is_none()));
    let at = |index: usize| rates.iter().map(move |run| run[index]);
    (step > 0.0 && windows > 1).then(|| SeriesData {
        step_seconds: short(step),
        typical: (0..windows).filter_map(|index| median(at(index))).collect(),
        low: (0..windows).map(|index| short(at(index).fold(f64::INFINITY, f64::min))).collect(),
        high: (0..windows).map(|index| short(at(index).fold(0.0, f64::max))).collect(),
    })
}

#[expect(clippy::cast_precision_loss, reason = "counts in a window are far below 2^53")]
fn count(operations: u64) -> f64 {
    operations as f64
}

#[expect(clippy::cast_precision_loss, reason = "a handful of windows")]
fn float(windows: usize) -> f64 {
    windows as f64
}

fn tails(loads: &[&LoadSample]) -> Option<TailsData> {
    let step = loads.iter().map(|load| load.series.tails_step_seconds).fold(0.0, f64::max);
    let alike = || loads.iter().filter(move |load| load.series.tails_step_seconds >= step);
    let windows = alike().map(|load| load.series.tails.len()).min()?;
    let of = |pick: fn(&(u64, u64)) -> u64| {
        let at = |index: usize| median(alike().map(|load| count(pick(&load.series.tails[index]))));
        (0..windows).filter_map(at).collect()
    };
    let data = TailsData { step_seconds: short(step), p50: of(|tail| tail.0), p99: of(|tail| tail.1) };
    (step > 0.0 && windows > 1).then_some(data)
}

/// What lies on a device that was made for the trial, with the filesystem's own: its size less what is left.
#[expect(clippy::cast_precision_loss, reason = "sizes of devices are far below 2^53")]
fn space_used(told: &Told<'_>, besides: &Besides) -> Option<f64> {
    let is_made = !matches!(told.plan.trial.device.kind, DeviceKind::Directory | DeviceKind::Disk);
    let left = median(besides.space_left.iter().copied()).filter(|_| is_made)?;
    Some(short(told.plan.device_size.0 as f64 - left)).filter(|used| *used > 0.0)
}

fn stages(besides: &Besides) -> BTreeMap<&'static str, f64> {
    let took = |stage: Stage| {
        let seconds = median(besides.stages.get(&stage)?.iter().copied())?;
        (seconds > 0.0).then_some((stage.name(), seconds))
    };
    STAGES.into_iter().filter_map(took).collect()
}
