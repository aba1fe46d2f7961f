//! Collects the data of a trial's plots from its judged rounds.

use super::{
    data::{CellData, ContrastData, CourseData, SectionData, SeriesData, TrialData},
    forests,
    svg::float,
};
use crate::{
    again::JudgedTrial,
    document::{CellReport, WorkloadReport},
};
use fstrial_model::{
    claim::{Number, OriginalTable},
    measurement::Stage,
    metric::Metric,
    trial::Compare,
    workload::Until,
};
use fstrial_run::{course::Course, latencies::Latencies, plan::Plan, sample::LoadSample, stored::Besides};
use fstrial_stats::{quantile::suffices, spread, steady};
use std::{collections::BTreeMap, ops::Range};

/// Shares at which the distribution of latencies is drawn.
const SHARES: [f64; 26] = [
    0.001, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.93, 0.95,
    0.97, 0.98, 0.99, 0.995, 0.999, 0.9995, 0.9999,
];

/// Stages that characterise a filesystem: the rest is the instrument's.
const STAGES: [Stage; 5] = [Stage::Mkfs, Stage::Mount, Stage::Layout, Stage::Unmount, Stage::Fsck];

/// Detail of a trial's drawings. A page with everything of a very large one would be slow to open and to send.
#[derive(Debug, Clone, Copy)]
struct Detail {
    /// Windows of a course in time, at most.
    windows: usize,
    /// Every n-th share of a distribution.
    shares: usize,
    /// Only contrasts with the arm that leads.
    few_contrasts: bool,
}

impl Detail {
    /// Cells from which on a trial is large.
    const LARGE: usize = 300;

    fn of(plan: &Plan) -> Self {
        match plan.cells.len() < Self::LARGE {
            true => Self { windows: 30, shares: 1, few_contrasts: false },
            false => Self { windows: 10, shares: 3, few_contrasts: true },
        }
    }
}

pub(super) fn of_trial(judged: &JudgedTrial<'_>) -> TrialData {
    let document = &judged.document;
    let names: Vec<String> = match document.compare {
        Compare::Arms => document.arms.iter().map(|arm| arm.name.clone()).collect(),
        // Compared are workloads: they are the lines of a plot.
        Compare::Workloads => judged.plan.workloads.iter().map(|workload| workload.name.clone()).collect(),
    };
    let detail = Detail::of(judged.plan);
    let reported = judged.plan.sections();
    let sections = reported.iter().zip(&document.workloads);
    let mut sections: Vec<SectionData> =
        sections.map(|(section, report)| section_data(judged, section, report, &names, detail)).collect();
    let contrasts_left_out = if detail.few_contrasts { sections.iter_mut().map(thin).sum() } else { 0 };
    TrialData {
        id: document.trial_id,
        name: document.name.clone(),
        kernel: document.of_machines(|there| &there.kernel),
        device: document.of_machines(|there| &there.device),
        practical: document.practical_percent / 100.0,
        arms: names,
        sections,
        contrasts_left_out,
    }
}

/// Leaves out contrasts without the arm that leads at their level; returns their number.
fn thin(section: &mut SectionData) -> usize {
    let all = std::mem::take(&mut section.contrasts);
    let before = all.len();
    section.contrasts = all.into_iter().filter(|contrast| forests::has_best(section, contrast)).collect();
    before - section.contrasts.len()
}

fn section_data(
    judged: &JudgedTrial<'_>,
    section: &[(usize, usize)],
    report: &WorkloadReport,
    names: &[String],
    detail: Detail,
) -> SectionData {
    let cells: Vec<CellData> = section
        .iter()
        .zip(&report.cells)
        .map(|(at, cell)| cell_data(judged, *at, cell, index_of(names, &cell.arm), detail))
        .collect();
    let claim = judged.plan.trial.claim.as_ref().filter(|_| !report.less_is_better);
    SectionData {
        title: report.title(),
        unit: report.unit.clone(),
        less_is_better: report.less_is_better,
        warmup_seconds: report.warmup_seconds,
        levels: report.levels(),
        source: claim.map_or_else(Vec::new, |claim| source_curves(&claim.tables, &cells, names)),
        cells,
        contrasts: contrasts_of(judged, section, report, names),
    }
}

/// The columns of the first table over threads that are named like arms, multiplied by the median ratio of our rates to
/// its figures at the common points: only the shapes are comparable. Empty without such a point.
fn source_curves(
    tables: &[OriginalTable],
    cells: &[CellData],
    names: &[String],
) -> Vec<(usize, Vec<(f64, f64)>)> {
    let is_over_threads =
        |table: &&OriginalTable| table.columns.first().is_some_and(|name| name == "threads");
    let Some(table) = tables.iter().find(is_over_threads) else { return Vec::new() };
    let column = |(column, name): (usize, &String)| {
        let arm = names.iter().position(|arm| arm == name)?;
        let point = |row: &Vec<Number>| Some((row[0].value()?, row[column].value()?));
        Some((arm, table.rows.iter().filter_map(point).collect::<Vec<(f64, f64)>>()))
    };
    let curves: Vec<_> = table.columns.iter().enumerate().skip(1).filter_map(column).collect();
    let both = curves.iter().flat_map(|(arm, curve)| {
        let ours = cells.iter().filter(move |cell| cell.arm == *arm);
        ours.filter_map(|cell| {
            let theirs = curve.iter().find(|(threads, _)| *threads == f64::from(cell.threads))?.1;
            Some((cell.rate? / theirs).ln()).filter(|ratio| ratio.is_finite())
        })
    });
    let Some(factor) = spread::median(&both.collect::<Vec<_>>()).map(f64::exp) else { return Vec::new() };
    let multiplied = |(arm, curve): (usize, Vec<(f64, f64)>)| {
        (arm, curve.into_iter().map(|(threads, figure)| (threads, figure * factor)).collect())
    };
    curves.into_iter().map(multiplied).collect()
}

/// The place of a name: every cell and contrast has one of the names.
fn index_of(names: &[String], name: &str) -> usize {
    names.iter().position(|known| known == name).expect("names of cells are those of the trial")
}

fn contrasts_of(
    judged: &JudgedTrial<'_>,
    section: &[(usize, usize)],
    report: &WorkloadReport,
    names: &[String],
) -> Vec<ContrastData> {
    // In the order of the plan, as the report has them.
    let of_this = |index: &usize| {
        let contrast = &judged.plan.contrasts[*index];
        section.contains(&(contrast.a, contrast.result_a)) && !contrast.is_lead()
    };
    let indices = (0..judged.plan.contrasts.len()).filter(of_this);
    let data = report.verdicts.iter().zip(indices).filter_map(|(verdict, index)| {
        let state = &verdict.contrast;
        (state.metric == Metric::Throughput).then(|| ContrastData {
            a: index_of(names, &state.a),
            b: index_of(names, &state.b),
            threads: state.threads,
            verdict: state.verdict,
            ratio: state.ratio,
            interval: state.interval,
            course: judged.courses.get(index).and_then(course_data),
        })
    });
    data.collect()
}

fn course_data(course: &Course) -> Option<CourseData> {
    // A contrast without any ratio has no course to see. Nor is there anything to see of it after the last round that
    // it had.
    let last = course.rounds.iter().rposition(|point| point.ratio.is_some())?;
    let known = course.rounds[..=last].iter();
    let points: Vec<_> = known.filter(|point| point.ratio.is_some() || point.estimate.is_some()).collect();
    (!points.is_empty()).then(|| CourseData {
        rounds: points.iter().map(|point| point.round).collect(),
        pairs: points.iter().map(|point| point.ratio).collect(),
        ratio: points.iter().map(|point| point.estimate).collect(),
        interval: points.iter().map(|point| point.interval).collect(),
    })
}

fn cell_data(
    judged: &JudgedTrial<'_>,
    (cell, result): (usize, usize),
    report: &CellReport,
    arm: usize,
    detail: Detail,
) -> CellData {
    let samples = judged.finished.judge().map(|judge| judge.samples(cell, result)).unwrap_or_default();
    let loads: Vec<&LoadSample> = samples.iter().filter_map(|sample| sample.load.as_ref()).collect();
    let mut all = Latencies::default();
    loads.iter().for_each(|load| all.add(&load.latencies));
    let besides = &judged.besides[cell];
    CellData {
        arm,
        threads: report.threads,
        rate: report.rate,
        rate_interval: report.rate_interval,
        rounds: samples.iter().map(|sample| (sample.round, sample.rate)).collect(),
        p99: p99(&all, &loads),
        cdf: distribution(&all, detail),
        series: series(judged, (cell, result), &loads, detail),
        cpu_ns: report.cpu_per_operation_ns,
        device_bytes: report.device_bytes_per_operation,
        asked_bytes: median(loads.iter().map(|load| load.operation_bytes)).filter(|bytes| *bytes > 0.0),
        space_used_bytes: space_used(judged, besides),
        stages: stages(besides),
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    spread::median(&values.collect::<Vec<_>>())
}

/// True if a quantile has enough operations beyond it.
fn is_known(of: &Latencies, quantile: f64) -> bool {
    !of.is_empty() && suffices(1.0 - quantile, of.len())
}

fn p99(all: &Latencies, loads: &[&LoadSample]) -> Option<(f64, Option<(f64, f64)>)> {
    const Q: f64 = 0.99;
    let of_runs = || loads.iter().map(|load| count(load.latencies.quantile(Q)));
    // A range of some of the runs only would leave out the slow ones.
    let range = loads
        .iter()
        .all(|load| is_known(&load.latencies, Q))
        .then(|| (of_runs().fold(f64::INFINITY, f64::min), of_runs().fold(0.0, f64::max)));
    is_known(all, Q).then(|| (count(all.quantile(Q)), range))
}

/// The distribution of latencies in a few points.
fn distribution(all: &Latencies, detail: Detail) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    // From the end, so that the greatest share is always one of them.
    let known = SHARES.into_iter().rev().filter(|share| is_known(all, *share));
    let shares = known.step_by(detail.shares).collect::<Vec<_>>();
    for share in shares.into_iter().rev() {
        let ns = count(all.quantile(share));
        match points.last_mut() {
            Some(last) if last.0 >= ns => last.1 = share,
            _ => points.push((ns, share)),
        }
    }
    points
}

/// Operations a second from the start of the warm-up on. Short runs are shown by their 40 windows, longer ones by their
/// seconds or tenths of them.
fn series(
    judged: &JudgedTrial<'_>,
    (cell, result): (usize, usize),
    loads: &[&LoadSample],
    detail: Detail,
) -> Option<SeriesData> {
    let workload = &judged.plan.workloads[judged.plan.cells[cell].workload];
    let timed = workload.phase_of(result).filter(|phase| phase.until == Until::Time);
    let points = loads.iter().map(|load| load.series.operations.len()).min()?;
    // The last window of a series is cut short where the time is not a multiple of it; the 40 are all alike.
    let is_whole = timed.is_some() && points < steady::WINDOWS;
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
    let windows = rates.iter().map(Vec::len).min()?.saturating_sub(usize::from(!is_whole));
    let joined = windows.div_ceil(detail.windows).max(1);
    // The mean of windows that are taken together.
    let windows: Vec<Range<usize>> =
        (0..windows).step_by(joined).map(|from| from..(from + joined).min(windows)).collect();
    let at = |window: &Range<usize>| {
        let window = window.clone();
        rates.iter().map(move |run| run[window.clone()].iter().sum::<f64>() / float(window.len()))
    };
    (step > 0.0 && windows.len() > 1).then(|| SeriesData {
        step_seconds: step * float(joined),
        typical: windows.iter().filter_map(|window| median(at(window))).collect(),
        low: windows.iter().map(|window| at(window).fold(f64::INFINITY, f64::min)).collect(),
        high: windows.iter().map(|window| at(window).fold(0.0, f64::max)).collect(),
    })
}

#[expect(clippy::cast_precision_loss, reason = "counts in a window are far below 2^53")]
fn count(operations: u64) -> f64 {
    operations as f64
}

/// Content of a device that was made for the trial, with the filesystem's metadata: its size less the free space.
#[expect(clippy::cast_precision_loss, reason = "sizes of devices are far below 2^53")]
fn space_used(judged: &JudgedTrial<'_>, besides: &Besides) -> Option<f64> {
    // A layer takes a part of the device.
    let has_layer = judged.plan.trial.arms.iter().any(|arm| arm.layer.is_some());
    let is_made = judged.plan.trial.device.kind.is_made() && !has_layer;
    // The bare device has no filesystem, and reports 0.
    let left = median(besides.space_left.iter().copied()).filter(|left| is_made && *left > 0.0)?;
    Some(judged.plan.device_size.0 as f64 - left).filter(|used| *used > 0.0)
}

fn stages(besides: &Besides) -> BTreeMap<&'static str, f64> {
    let took = |stage: Stage| {
        let seconds = median(besides.stages.get(&stage)?.iter().copied())?;
        (seconds > 0.0).then_some((stage.name(), seconds))
    };
    STAGES.into_iter().filter_map(took).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One number for all curves: how the arms stand to each other in the source is kept.
    #[test]
    fn source_curves_are_scaled_onto_measured_ones() {
        let whole = |values: [i64; 3]| values.map(Number::Whole).to_vec();
        let up_to =
            vec![Number::Text("up to 8".into()), Number::Text("100 %".into()), Number::Text("110 %".into())];
        let table = OriginalTable {
            title: "OLTP".into(),
            unit: "transactions/s".into(),
            columns: ["threads", "ext4", "xfs"].map(str::to_owned).to_vec(),
            rows: vec![up_to, whole([16, 2000, 2000]), whole([32, 2400, 1800]), whole([64, 2400, 1600])],
        };
        let cell = |arm, threads, rate| CellData { arm, threads, rate: Some(rate), ..CellData::default() };
        let cells = [cell(0, 8, 90.0), cell(1, 16, 100.0), cell(0, 16, 100.0), cell(1, 32, 180.0)];
        let names = ["xfs", "ext4"].map(str::to_owned);
        let curves = source_curves(std::slice::from_ref(&table), &cells, &names);
        let near = |matched: &[(f64, f64)], wanted: [(f64, f64); 3]| {
            matched.iter().zip(wanted).all(|((x, y), (at, value))| *x == at && (y - value).abs() < 1e-9)
        };
        assert_eq!((curves[0].0, curves[1].0), (1, 0));
        assert!(near(&curves[0].1, [(16.0, 100.0), (32.0, 120.0), (64.0, 120.0)]), "{curves:?}");
        assert!(near(&curves[1].1, [(16.0, 100.0), (32.0, 90.0), (64.0, 80.0)]), "{curves:?}");
        assert!(source_curves(&[table], &cells[..1], &names).is_empty(), "no point is in both");
    }
}
