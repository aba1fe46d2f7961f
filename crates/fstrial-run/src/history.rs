//! From stored trials to the history of a contrast or a cell: one point for each trial, and a series for each question.
//!
//! Points share a series only if they answer the same question: the same configurations, workload in all its settings,
//! level, device, durability and processor. Properties that may have changed and caused a difference (kernel, tools,
//! this program) are kept with each point.

use super::{
    answers::Read,
    cell::{Ask, Contrast, Of},
    course,
    judge::{Estimate, Judge},
    plan::Plan,
    round::Round,
};
pub use crate::answers::Subject;
use crate::error::ExpectedError;
use clap::ValueEnum;
use fstrial_model::{metric::Metric, trial::Compare};
use fstrial_store::{Store, StoredTrial, TrialId};
use serde::Serialize;
use std::{cmp::Ordering, collections::BTreeMap};

/// Rounds below which a trial is not a point: one wild round could be all it has.
const MIN_ROUNDS: usize = 3;

/// Sort key of a series' points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// When the trial began.
    #[default]
    Time,
    /// Release of the kernel, then time.
    Kernel,
    /// Version of fstrial, then time.
    Version,
}

/// A query for a series.
#[derive(Debug, Clone)]
pub struct SeriesQuery {
    /// The arm that is looked at.
    pub arm: String,
    /// The arm of the same trials that it is measured against; none for its own figures.
    pub against: Option<String>,
    /// Only workloads that are like one of these patterns; all if empty.
    pub workloads: Vec<String>,
    /// Only these levels; all if empty.
    pub threads: Vec<u16>,
    /// Metric that the points are figures of, such as throughput.
    pub metric: Metric,
    /// The order of points.
    pub by: By,
}

/// One trial's answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Number of the trial in the store.
    pub trial: TrialId,
    /// Name of the trial; may be empty.
    pub name: String,
    /// When it began: RFC 3339, UTC.
    pub started_at: String,
    /// Release of its kernel.
    pub kernel: String,
    /// Version of fstrial.
    pub version: String,
    /// The ratio of the two arms, or the figure of the one, in its unit.
    pub value: f64,
    /// Its interval as the trial's own answer has it; none with too few rounds.
    pub interval: Option<(f64, f64)>,
    /// Rounds it rests on; for quantiles, groups of merged rounds.
    pub rounds: usize,
    /// Other properties that may differ from point to point, by name: tools, distribution, memory.
    pub with: BTreeMap<String, String>,
}

/// The points that answer one question, in order.
#[derive(Debug, Clone)]
pub struct Series {
    /// Workload, phase, level and unit that all points share.
    pub subject: Subject,
    /// Everything that is the same for all of its points, by name.
    pub settings: BTreeMap<String, String>,
    /// In the requested order.
    pub points: Vec<Point>,
}

/// A trial that is not a point, or not one of every series, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Number of the trial in the store.
    pub trial: TrialId,
    /// Why.
    pub reason: String,
}

/// Why a trial is left out that measured something else.
pub const NOT_ASKED: &str = "it has no such workload or level";

/// Result of a query.
#[derive(Debug, Clone, Default)]
pub struct SeriesSet {
    /// The series, by subject and settings.
    pub series: Vec<Series>,
    /// Trials that have both arms and yet no point.
    pub left_out: Vec<LeftOut>,
    /// Names of all arms, for a query of a missing one.
    pub arms: Vec<String>,
}

type Points = Vec<(Subject, BTreeMap<String, String>, Point)>;

/// Looks for points in these trials of a store.
///
/// # Errors
/// The store cannot be read. A trial that cannot be understood is left out.
pub fn collect(
    store: &Store,
    trials: &[TrialId],
    requested: &SeriesQuery,
) -> Result<SeriesSet, ExpectedError> {
    let mut matched = SeriesSet::default();
    let mut series: BTreeMap<(Subject, BTreeMap<String, String>), Vec<Point>> = BTreeMap::new();
    for id in trials {
        let stored = store.trial(*id)?;
        let names = || stored.arms.iter().map(|arm| &arm.name);
        // One that never ran may be a slip of the pen.
        if stored.summary.rounds > 0 {
            matched.arms.extend(names().cloned());
        }
        let wanted = [Some(&requested.arm), requested.against.as_ref()];
        if !wanted.into_iter().flatten().all(|wanted| names().any(|name| name == wanted)) {
            continue;
        }
        match points_of(store, &stored, requested)? {
            Ok((points, lost)) => {
                matched.left_out.extend(lost.into_iter().map(|reason| LeftOut { trial: *id, reason }));
                for (subject, settings, point) in points {
                    series.entry((subject, settings)).or_default().push(point);
                }
            }
            Err(reason) => matched.left_out.push(LeftOut { trial: *id, reason }),
        }
    }
    matched.arms.sort();
    matched.arms.dedup();
    matched.series = series
        .into_iter()
        .map(|((subject, settings), mut points)| {
            points.sort_by(|a, b| order(requested.by, a, b));
            Series { subject, settings, points }
        })
        .collect();
    Ok(matched)
}

/// The points of a trial, and of which cells it has none as they failed; or why it has none at all.
fn points_of(
    store: &Store,
    trial: &StoredTrial,
    requested: &SeriesQuery,
) -> Result<Result<(Points, Vec<String>), String>, ExpectedError> {
    let read = match Read::of(store, trial) {
        Ok(read) => read,
        Err(reason) => return Ok(Err(reason)),
    };
    if requested.against.is_some() && read.plan.trial.trial.compare == Compare::Workloads {
        return Ok(Err("it compares workloads, so its arms did not run side by side".into()));
    }
    let mut workloads = Vec::new();
    for workload in &read.plan.workloads {
        let mut is_wanted = requested.workloads.is_empty();
        for pattern in &requested.workloads {
            is_wanted |= store.is_like(&workload.name, pattern)?;
        }
        workloads.push(is_wanted);
    }
    let is_wanted = |cell: usize| {
        let cell = read.plan.cells[cell];
        let is_level = requested.threads.is_empty() || requested.threads.contains(&cell.threads);
        is_level && workloads[cell.workload]
    };
    let pairs: Vec<_> = requested.pairs(&read.plan).into_iter().filter(|pair| is_wanted(pair[0].0)).collect();
    if pairs.is_empty() {
        return Ok(Err(NOT_ASKED.into()));
    }
    let (read, rounds) = match read.with_rounds(store, trial, &requested.arm)? {
        Ok(matched) => matched,
        Err(reason) => return Ok(Err(reason)),
    };
    // Rounds hold whole histograms: a second copy is for pairs that are judged alone.
    let is_alone = |pair: &[Figure; 2]| {
        requested.against.is_some() && requested.contrast_of(&read.plan, *pair).is_none()
    };
    let again = if pairs.iter().any(is_alone) { rounds.clone() } else { Vec::new() };
    let judge = course::judged(&read.plan, rounds);
    let (mut points, mut lost) = (Vec::new(), Vec::new());
    for pair in pairs {
        let estimate = requested.estimate(&judge, &read.plan, pair, &again);
        match estimate.filter(|estimate| estimate.rounds >= MIN_ROUNDS) {
            Some(estimate) => points.push(requested.point(&read, trial, pair[0], estimate)),
            None => {
                lost.extend(pair.map(|(cell, _)| cell).into_iter().filter(|cell| judge.has_failed(*cell)))
            }
        }
    }
    if points.is_empty() {
        return Ok(Err(format!("it has fewer than {MIN_ROUNDS} rounds, too few operations, or a failure")));
    }
    lost.sort_unstable();
    lost.dedup();
    let failed = |cell: usize| format!("no point of {}: it failed", read.plan.cell_name(cell));
    Ok(Ok((points, lost.into_iter().map(failed).collect())))
}

/// A cell with one of its results.
type Figure = (usize, usize);

impl SeriesQuery {
    /// The queried arms.
    fn arms(&self) -> Vec<&str> {
        [Some(&self.arm), self.against.as_ref()].into_iter().flatten().map(String::as_str).collect()
    }

    fn point(
        &self,
        read: &Read,
        stored: &StoredTrial,
        (cell, result): Figure,
        Estimate { value, interval, rounds }: Estimate,
    ) -> (Subject, BTreeMap<String, String>, Point) {
        let point = Point {
            trial: stored.summary.id,
            name: stored.summary.name.clone(),
            started_at: stored.summary.started_at.clone(),
            kernel: read.release().to_owned(),
            version: read.environment.fstrial.clone(),
            value,
            interval,
            rounds,
            with: read.circumstances(stored, &self.arms()),
        };
        (read.subject(self.metric, cell, result), read.settings(stored, &self.arms(), cell), point)
    }

    /// The pairs that are the contrast; of a single arm, each with itself.
    fn pairs(&self, plan: &Plan) -> Vec<[Figure; 2]> {
        let is = |cell: usize, name: &str| plan.arm_name(cell) == name;
        let other = self.against.as_ref().unwrap_or(&self.arm);
        let mut pairs = Vec::new();
        for a in (0..plan.cells.len()).filter(|a| is(*a, &self.arm)) {
            let beside = |b: &usize| {
                let (a, b) = (plan.cells[a], plan.cells[*b]);
                (a.workload, a.threads) == (b.workload, b.threads)
            };
            for b in (0..plan.cells.len()).filter(|b| is(*b, other)).filter(beside) {
                let comparable = plan.comparable(a, b, self.metric).into_iter();
                pairs.extend(comparable.filter(|(n, m)| n == m).map(|(n, m)| [(a, n), (b, m)]));
            }
        }
        pairs
    }

    /// The judge's estimate of a pair. A pair that the trial does not compare is judged alone: it neither affects the
    /// trial's own contrasts nor depends on them.
    fn estimate(
        &self,
        judge: &Judge<'_>,
        plan: &Plan,
        pair: [Figure; 2],
        rounds: &[Round],
    ) -> Option<Estimate> {
        let [(cell, result), (other, _)] = pair;
        if self.against.is_none() {
            return judge.amount(cell, result, self.metric);
        }
        match self.contrast_of(plan, pair) {
            Some((index, false)) => judge.ratio(index),
            Some((index, true)) => judge.ratio(index).map(Estimate::inverse),
            None if [cell, other].iter().any(|cell| judge.is_out(*cell)) => None,
            None => {
                let alone = Plan { contrasts: vec![self.asks(pair)], parts: Vec::new(), ..plan.clone() };
                course::judged(&alone, rounds.to_vec()).ratio(0)
            }
        }
    }

    /// The trial's contrast of the two, and whether it is reversed.
    fn contrast_of(&self, plan: &Plan, [a, b]: [Figure; 2]) -> Option<(usize, bool)> {
        let of = |a: Figure, b: Figure| {
            let is_it = |contrast: &Contrast| {
                let figures = [(contrast.a, contrast.result_a), (contrast.b, contrast.result_b)];
                contrast.of == Of::Ratio && contrast.metric == self.metric && figures == [a, b]
            };
            let all = plan.contrasts.iter().enumerate().filter(|(_, contrast)| is_it(contrast));
            all.min_by_key(|(_, contrast)| contrast.ask != Ask::Difference).map(|(index, _)| index)
        };
        of(a, b).map(|index| (index, false)).or_else(|| Some((of(b, a)?, true)))
    }

    /// A contrast that a trial does not have.
    const fn asks(&self, [(a, result_a), (b, result_b)]: [Figure; 2]) -> Contrast {
        let (metric, ask, of) = (self.metric, Ask::Difference, Of::Ratio);
        Contrast { a, b, result_a, result_b, metric, holds_open: false, ask, of, dose: None }
    }
}

fn order(by: By, a: &Point, b: &Point) -> Ordering {
    let time = |point: &Point| point.started_at.parse::<jiff::Timestamp>().ok();
    let by_time = || (time(a), a.trial).cmp(&(time(b), b.trial));
    match by {
        By::Time => by_time(),
        By::Kernel => compare_releases(&a.kernel, &b.kernel).then_with(by_time),
        By::Version => compare_releases(&a.version, &b.version).then_with(by_time),
    }
}

/// Releases in their order: numbers as numbers, and `-rc`, `-alpha` and the like before the release itself.
fn compare_releases(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (parts(a).into_iter(), parts(b).into_iter());
    loop {
        let (x, y) = (a.next(), b.next());
        if x.is_none() && y.is_none() {
            return Ordering::Equal;
        }
        let ordering = rank(x.as_ref()).cmp(&rank(y.as_ref()));
        if ordering != Ordering::Equal {
            return ordering;
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum ReleasePart {
    Number(u64),
    Word(String),
}

/// Its numbers and words, without separators.
fn parts(release: &str) -> Vec<ReleasePart> {
    let mut parts = Vec::new();
    let mut rest = release.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    while let Some(first) = rest.chars().next() {
        let digits = first.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != digits || !c.is_ascii_alphanumeric());
        let (part, after) = rest.split_at(end.unwrap_or(rest.len()));
        parts.push(match part.parse() {
            Ok(number) => ReleasePart::Number(number),
            Err(_) => ReleasePart::Word(part.to_owned()),
        });
        rest = after.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    }
    parts
}

/// A pre-release comes before the end, other words and numbers after it.
fn rank(part: Option<&ReleasePart>) -> (u8, u64, &str) {
    match part {
        Some(ReleasePart::Word(word)) if ["alpha", "beta", "next", "pre", "rc"].contains(&word.as_str()) => {
            (0, 0, word)
        }
        None => (1, 0, ""),
        Some(ReleasePart::Word(word)) => (2, 0, word),
        Some(ReleasePart::Number(number)) => (3, *number, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_come_in_their_order() {
        let sorted = [
            "5.9.0",
            "6.1.0-9-amd64",
            "6.1.0-13-amd64",
            "6.1.2",
            "6.10-rc2",
            "6.10-rc10",
            "6.10",
            "6.10-cloud",
            "6.10.1",
            "6.18.44-amd64",
        ];
        for (i, a) in sorted.iter().enumerate() {
            for (j, b) in sorted.iter().enumerate() {
                assert_eq!(compare_releases(a, b), i.cmp(&j), "{a} {b}");
            }
        }
        assert_eq!(compare_releases("99999999999999999999999", "6"), Ordering::Less, "no panic");
        assert_eq!(compare_releases("--", ""), Ordering::Equal);
    }
}
