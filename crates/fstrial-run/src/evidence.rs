//! Rounds for evidence: runs of the cells of decided contrasts, observed by programs in the kernel. Observation costs time, so
//! these runs are never those that a verdict rests on, and are not stored with them.

use crate::{
    cell::{Contrast, Of},
    error::ExpectedError,
    place::Place,
    plan::Plan,
    untimed,
};
use fstrial_model::{
    evidence::{Activity, Evidence},
    filesystem::waits::Cause,
    job::{Purpose, RunFailure, WorkerMessage},
    measurement::{LoadResult, Measurement, Stage},
    metric::Metric,
    units::Nanos,
    workload::Workload,
};
use std::collections::BTreeMap;

/// Rounds that an interval of a share needs at least.
pub const MIN_ROUNDS: u32 = 8;

/// A load under observation.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// Its threads.
    pub threads: u16,
    /// Operations in the measured time.
    pub operations: u64,
    /// The measured time.
    pub duration: Nanos,
    /// The group of its threads in the evidence.
    pub group: String,
    /// Time of its threads by cause, in nanoseconds.
    pub causes: BTreeMap<Cause, f64>,
    /// The evidence of its phase, of all loads in it; without threads if a later run of its cell was observed.
    pub evidence: Evidence,
}

/// A run by the names of its results.
pub type ObservedRun = BTreeMap<String, Observed>;

/// The observed runs of a cell.
#[derive(Debug, Clone, Default)]
pub struct CellEvidence {
    /// By round.
    pub runs: BTreeMap<u32, ObservedRun>,
    /// The failure that ended its runs.
    pub failure: Option<RunFailure>,
}

/// True if thread time explains a contrast: of the throughput of two arms, under loads of fstrial whose threads issue the next
/// operation when the last one has ended.
pub fn explains(plan: &Plan, contrast: &Contrast) -> bool {
    let is_control = |cell: usize| plan.trial.arms[plan.cells[cell].arm].control_of.is_some();
    let is_closed = |cell: usize| {
        let workload: &Workload = &plan.workloads[plan.cells[cell].workload];
        let mut phases = workload.phases().iter();
        workload.program().is_none()
            && workload.operation().is_none()
            && phases.all(|it| it.find_rate.is_none() && it.groups.iter().all(|group| group.rate.is_none()))
    };
    let cells = [contrast.a, contrast.b];
    contrast.metric == Metric::Throughput
        && plan.trial.trial.clients == 1
        && contrast.of == Of::Ratio
        && !cells.into_iter().any(is_control)
        && cells.into_iter().all(is_closed)
}

/// Observes cells of a plan in random order, each round with all of them. `done` hears the number of runs done and of all.
/// True if it was interrupted.
///
/// # Errors
/// This host lacks what an arm or the observation needs.
pub fn run(
    plan: &Plan,
    place: &mut dyn Place,
    cells: &[usize],
    rounds: u32,
    done: &mut dyn FnMut(usize, usize),
) -> Result<(BTreeMap<usize, CellEvidence>, bool), ExpectedError> {
    let mut all: BTreeMap<usize, CellEvidence> = BTreeMap::new();
    let ended = untimed::rounds(plan, place, (cells, rounds), done, |place, cell, round| {
        let seen = all.entry(cell).or_default();
        let Some(observed) = observe(plan, place, cell, round)? else { return Ok(false) };
        // Megabytes each.
        for earlier in seen.runs.values_mut().flat_map(BTreeMap::values_mut) {
            (earlier.evidence.threads, earlier.evidence.kernel_threads) = (Vec::new(), Vec::new());
        }
        seen.runs.insert(round, observed);
        Ok(true)
    });
    let (failures, is_interrupted) = ended?;
    for (cell, failure) in failures {
        all.entry(cell).or_default().failure = Some(failure);
    }
    Ok((all, is_interrupted))
}

/// One run; none if it was interrupted.
fn observe(
    plan: &Plan,
    place: &mut dyn Place,
    cell: usize,
    round: u32,
) -> Result<Option<ObservedRun>, RunFailure> {
    let mut task = plan.task(cell, round, place.data());
    task.purpose = Purpose::Evidence;
    let mut seen: Vec<(BTreeMap<String, String>, Evidence)> = Vec::new();
    let ended = untimed::run(plan, place, (cell, task), &mut |message| {
        if let WorkerMessage::Evidence { groups, evidence } = message {
            seen.push((groups.clone(), (**evidence).clone()));
        }
    });
    let Some(measurement) = ended? else { return Ok(None) };
    let observed = measurement.map(|measurement| together(&measurement, &seen));
    observed
        .filter(|observed| !observed.is_empty())
        .map(Some)
        .ok_or_else(|| untimed::missing(Stage::Load, "the worker gave no evidence"))
}

fn together(measurement: &Measurement, seen: &[(BTreeMap<String, String>, Evidence)]) -> ObservedRun {
    let observed = |(name, load): (&str, &LoadResult)| {
        // Of an attempt that was repeated the last one counts.
        let (group, evidence) =
            seen.iter().rev().find_map(|(groups, evidence)| Some((groups.get(name)?, evidence)))?;
        let observed = Observed {
            threads: load.threads,
            operations: load.operations,
            duration: load.duration,
            group: group.clone(),
            causes: evidence.group(group).map(Activity::by_cause).unwrap_or_default(),
            evidence: evidence.clone(),
        };
        Some((name.to_owned(), observed))
    };
    measurement.loads().filter_map(observed).collect()
}
