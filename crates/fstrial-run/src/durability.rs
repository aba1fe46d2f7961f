//! Runs for receipts: every arm makes promises under load and loses its power, in random order. They are not timed, and
//! no verdict on speed rests on them.
//!
//! The unit is the run: cuts of one run share their writes, so a run with a loss counts once, however many of its cuts
//! lost something.

use crate::{error::ExpectedError, place::Place, plan::Plan, untimed};
use fstrial_model::{
    device_model::DeviceModel,
    job::{KeptFiles, Purpose, RunFailure, WorkerMessage},
    measurement::Stage,
    receipt::{CutOutcome, CutResult, CutTask, RunReceipt, Uncovered},
    units::Nanos,
    workload::Data,
};
use fstrial_stats::share;
use serde::{Deserialize, Serialize};

/// Error probability of the interval of a receipt.
pub const ALPHA: f64 = 0.05;

/// The number of runs and cuts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutPlan {
    /// Runs of each cell.
    pub runs: u32,
    /// Cuts in each run.
    pub cuts: u32,
    /// Writes survive a power cut as soon as they are complete: the device has no volatile cache.
    pub protected: bool,
}

impl CutPlan {
    /// True if the writes of a device survive a power cut as soon as they are complete.
    pub fn is_protected(model: &DeviceModel) -> bool {
        !model.has_volatile_cache()
    }
}

/// A cell with the receipts of its runs.
#[derive(Debug, Clone, Default)]
pub struct CellReceipt {
    /// In the order of the runs.
    pub runs: Vec<RunReceipt>,
    /// The failure that ended its runs.
    pub failure: Option<RunFailure>,
}

/// Totals over the runs of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Runs that were cut at least once.
    pub runs: u32,
    /// Runs in which acknowledged data were lost at least once.
    pub lossy_runs: u32,
    /// Bounds of the share of such runs, confidence 95 %; an upper or a lower bound if no run or every run lost some.
    pub interval: (f64, f64),
    /// Cuts of all runs.
    pub cuts: u64,
    /// Cuts after which a promise was broken.
    pub lost: u64,
    /// Cuts after which the filesystem could not be mounted.
    pub unmountable: u64,
    /// Cuts after which the server did not start.
    #[serde(default)]
    pub closed: u64,
    /// Greatest time from the acknowledgement of a lost commit of a server to that of the last before its cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<Nanos>,
    /// True if all commits of the load were lost in that cut: with a longer load there might be older ones.
    #[serde(default)]
    pub loses_all: bool,
    /// True if losses occurred only where writes were torn into sectors.
    pub torn_only: bool,
    /// Cuts after which every promise was kept, but the check found damage.
    pub damaged: u64,
    /// Cuts after which a synced file was missing whose name was not promised.
    pub missing: u64,
    /// Cuts at which some writes were not covered by a flush; at others nothing can be lost.
    pub at_stake: u64,
    /// Runs whose recording reached its limit.
    pub full: u32,
    /// Promises of all runs.
    pub promises: u64,
    /// Writes of all runs.
    pub writes: u64,
    /// Flushes of all runs.
    pub flushes: u64,
}

impl CellReceipt {
    /// Totals over its runs.
    pub fn totals(&self) -> Totals {
        let all = || self.runs.iter().flat_map(|run| &run.cuts);
        let count = |is_it: fn(&CutOutcome) -> bool| all().filter(|cut| is_it(&cut.outcome)).count() as u64;
        let worst = all().filter(|cut| cut.outcome.oldest().is_some()).max_by_key(|cut| cut.outcome.oldest());
        let number = |runs: usize| u32::try_from(runs).unwrap_or(u32::MAX);
        let is_lossy = |run: &&RunReceipt| run.cuts.iter().any(|cut| cut.outcome.is_loss());
        let runs = number(self.runs.iter().filter(|run| !run.cuts.is_empty()).count());
        let lossy_runs = number(self.runs.iter().filter(is_lossy).count());
        Totals {
            runs,
            lossy_runs,
            interval: share::interval(lossy_runs, runs, ALPHA),
            cuts: all().count() as u64,
            lost: count(|outcome| matches!(outcome, CutOutcome::Lost { .. })),
            unmountable: count(|outcome| matches!(outcome, CutOutcome::Unmountable { .. })),
            closed: count(|outcome| matches!(outcome, CutOutcome::Closed { .. })),
            oldest: worst.and_then(|cut| cut.outcome.oldest()),
            loses_all: worst.is_some_and(|cut| cut.outcome.broken() >= cut.promises),
            torn_only: all().all(|cut| !cut.outcome.is_loss() || cut.uncovered == Uncovered::Torn)
                && lossy_runs > 0,
            damaged: count(|outcome| matches!(outcome, CutOutcome::Damaged { .. })),
            at_stake: all().filter(|cut| cut.pending > 0).count() as u64,
            full: number(self.runs.iter().filter(|run| run.is_full).count()),
            missing: all().filter(|cut| cut.missing > 0).count() as u64,
            promises: self.runs.iter().map(|run| run.promises).sum(),
            writes: self.runs.iter().map(|run| run.writes).sum(),
            flushes: self.runs.iter().map(|run| run.flushes).sum(),
        }
    }

    /// The first loss or damage: number of its run, from 1, and the cut.
    pub fn first_problem(&self) -> Option<(usize, &CutResult)> {
        let problem = |run: &'_ RunReceipt| run.cuts.iter().position(|cut| cut.outcome != CutOutcome::Kept);
        let mut runs = self.runs.iter().enumerate();
        runs.find_map(|(number, run)| problem(run).map(|cut| (number + 1, &run.cuts[cut])))
    }
}

/// Runs every cell of a plan at its place, in random order; one entry for each cell. `kept` are the files for the
/// first loss of each cell, if it is to be kept. `done` hears the number of runs done and of all. Ends early if it is
/// interrupted.
///
/// # Errors
/// This host lacks what an arm needs.
pub fn run(
    plan: &Plan,
    places: &mut [Box<dyn Place>],
    cuts: CutPlan,
    kept: &[KeptFiles],
    done: &mut dyn FnMut(usize, usize),
) -> Result<(Vec<CellReceipt>, bool), ExpectedError> {
    let mut cells = vec![CellReceipt::default(); plan.cells.len()];
    let all: Vec<usize> = (0..plan.cells.len()).collect();
    let ended = untimed::rounds(plan, places, (&all, cuts.runs), done, |place, cell, round| {
        let is_first = cells[cell].first_problem().is_none();
        place.keep_loss_in(kept.get(cell).filter(|_| is_first).cloned());
        let receipt = run_cell(plan, place, cuts, (cell, round))?;
        let is_made = receipt.is_some();
        cells[cell].runs.extend(receipt);
        Ok(is_made)
    });
    let (failures, is_interrupted) = ended?;
    for (cell, failure) in failures {
        cells[cell].failure = Some(failure);
    }
    Ok((cells, is_interrupted))
}

/// The receipt of one run; none if it was interrupted.
fn run_cell(
    plan: &Plan,
    place: &mut dyn Place,
    cuts: CutPlan,
    (cell, round): (usize, u32),
) -> Result<Option<RunReceipt>, RunFailure> {
    let mut task = plan.task(cell, round, place.data());
    // A block that is overwritten with the same content would lose nothing.
    for group in task.phases.iter_mut().flat_map(|phase| &mut phase.groups) {
        group.load.data = Data::Random;
    }
    // The same positions for no two arms: their logs differ anyway. The seed is drawn from the trial's.
    let seed = plan.seed.rotate_left(29) ^ (u64::from(round) << 16) ^ cell as u64;
    task.purpose = Purpose::Receipt(CutTask { cuts: cuts.cuts, seed, protected: cuts.protected });
    let mut receipt = None;
    let ended = untimed::run(plan, place, (cell, task), &mut |message| {
        if let WorkerMessage::Receipt { receipt: made } = message {
            receipt = Some(made.clone());
        }
    });
    match ended? {
        Some(_) => {
            receipt.map(Some).ok_or_else(|| untimed::missing(Stage::Check, "the worker made no receipt"))
        }
        None => Ok(None),
    }
}
