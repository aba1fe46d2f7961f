//! Rounds of runs that are not timed: for receipts and for evidence. A lost run is repeated, and a cell that fails is not run
//! again.

use crate::{
    error::ExpectedError,
    place::{JobOutcome, Place},
    plan::Plan,
};
use fstrial_model::{
    job::{FailureKind, Job, PROTOCOL, RunFailure, Task, WorkerMessage},
    measurement::{Measurement, Stage},
};
use std::collections::BTreeMap;

/// A lost run is repeated so often.
const RETRIES: u32 = 2;

/// The end of a run: its measurement, none without a load; or none if it was interrupted.
pub(crate) type Ended = Result<Option<Option<Box<Measurement>>>, RunFailure>;

/// Runs cells of a plan at their places, the plan's in its order, each round with all of them in random order: the failures of cells,
/// and true if it was interrupted. `each` runs one; false if it was interrupted. `done` hears the number of runs done and of all.
///
/// # Errors
/// A place lacks what a run needs.
pub(crate) fn rounds(
    plan: &Plan,
    places: &mut [Box<dyn Place>],
    (cells, rounds): (&[usize], u32),
    done: &mut dyn FnMut(usize, usize),
    mut each: impl FnMut(&mut dyn Place, usize, u32) -> Result<bool, RunFailure>,
) -> Result<(BTreeMap<usize, RunFailure>, bool), ExpectedError> {
    let mut failures = BTreeMap::new();
    let (mut count, all) = (0, cells.len() * rounds as usize);
    for round in 1..=rounds {
        places.iter_mut().for_each(|place| place.begin_round());
        for cell in plan.order(round).into_iter().filter(|cell| cells.contains(cell)) {
            done(count, all);
            count += 1;
            if failures.contains_key(&cell) {
                continue;
            }
            match each(places[plan.place_of_cell(cell)].as_mut(), cell, round) {
                Ok(true) => {}
                Ok(false) => return Ok((failures, true)),
                Err(failure) if failure.kind == FailureKind::HostLacks => {
                    let context = format!("arm {}", plan.trial.arms[plan.cells[cell].arm].name);
                    return Err(ExpectedError::Run { context, failure });
                }
                Err(failure) => drop(failures.insert(cell, failure)),
            }
        }
    }
    done(all, all);
    Ok((failures, false))
}

/// Runs a task on the arm of a cell, freshly made.
pub(crate) fn run(
    plan: &Plan,
    place: &mut dyn Place,
    (cell, task): (usize, Task),
    hear: &mut dyn FnMut(&WorkerMessage),
) -> Ended {
    let arm = &plan.trial.arms[plan.cells[cell].arm];
    let job = Job {
        protocol: PROTOCOL,
        arm: plan.trial.built(arm),
        task: Some(task),
        state: None,
        memory: plan.trial.memory_of(arm),
        fsck: false,
    };
    let mut tries = 0;
    loop {
        match place.run(&job, hear) {
            JobOutcome::Measured(measurement) => return Ok(Some(measurement)),
            JobOutcome::Interrupted => return Ok(None),
            JobOutcome::Failed(failure) if failure.kind == FailureKind::Lost && tries < RETRIES => tries += 1,
            JobOutcome::Failed(failure) => return Err(failure),
        }
    }
}

/// The failure of a worker that did not answer as its task asks.
pub(crate) fn missing(stage: Stage, what: &str) -> RunFailure {
    let hint = Some("please report it".into());
    RunFailure { kind: FailureKind::Lost, stage, what: what.into(), hint }
}
