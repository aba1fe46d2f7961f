//! Resumability of a stored trial, and its inputs.

use fstrial_model::{trial::Trial, units::Nanos};
use fstrial_report::{plain, verdict::rounds_in_words};
use fstrial_run::{environment::Environment, error::ExpectedError, round::Earlier};
use fstrial_store::{StoredTrial, TrialId, TrialStatus};

/// Refuses to resume a trial of another machine: rounds of two machines are not one trial.
pub(crate) fn check_machine(stored: &StoredTrial) -> Result<(), ExpectedError> {
    let here = Environment::of_this_machine();
    let trial = Trial::parse("stored trial", &stored.toml);
    let is_here = trial.is_ok_and(|trial| trial.arms.iter().any(|arm| trial.is_here(arm.place.as_ref())));
    let last = stored.sessions.last().filter(|_| is_here);
    let Some(there) = last.and_then(|last| here.other_machine(&last.environment)) else { return Ok(()) };
    let (id, there, here) = (stored.summary.id, plain(&there), here.machine_in_words());
    Err(ExpectedError::usage(
        format!("could not resume trial {id}: it ran on {there}, and this is {here}"),
        "resume it there, or begin another one here: `fstrial compare`, `fstrial run`",
    ))
}

/// Refuses to resume a trial that has all the rounds that it asks for.
pub(crate) fn check_rounds(stored: &StoredTrial, settled: &Trial) -> Result<(), ExpectedError> {
    let summary = &stored.summary;
    // One that runs all rounds counts whole ones, and its judge knows when it has them.
    if !settled.trial.sequential {
        return Ok(());
    }
    // A round that was interrupted counts as one of them.
    let ended = settled.trial.rounds.filter(|_| summary.status == TrialStatus::BudgetEnded);
    let Some(most) = ended.filter(|most| summary.rounds >= *most) else { return Ok(()) };
    let id = stored.summary.id;
    Err(ExpectedError::usage(
        format!("trial {id} is complete ({}): there is nothing to resume", rounds_in_words(most as usize)),
        format!("see its answer with `fstrial report {id} --format text`, or start a trial with more rounds"),
    ))
}

/// Refuses to resume a trial of which a place is another machine, or has another kernel, now.
pub(super) fn check_places(
    id: TrialId,
    places: &[&Environment],
    earlier: &Earlier,
) -> Result<(), ExpectedError> {
    let is_one_host = places.iter().all(|result| result.place.is_empty());
    for result in places.iter().filter(|_| !is_one_host) {
        let Some((was, is)) =
            earlier.environments.get(&result.place).and_then(|stored| result.changed(stored))
        else {
            continue;
        };
        let place =
            if result.place.is_empty() { "this host" } else { &format!("the place {}", result.place) };
        return Err(ExpectedError::usage(
            format!("could not resume trial {id}: {place} was {}, and is {} now", plain(&was), plain(&is)),
            "resume it where its arms were, or begin another one",
        ));
    }
    Ok(())
}

/// A trial without the parts that may differ when it is resumed: the budget is the session's, the seed the stored
/// trial's; descriptions of a workload (with the lines of its job file) or a claim do not affect the measurement.
pub(crate) fn comparable(mut trial: Trial) -> Trial {
    trial.trial.budget = Nanos(0);
    trial.trial.seed = None;
    for workload in &mut trial.workloads {
        workload.about = None;
    }
    trial.claim = trial.claim.map(|claim| Box::new(claim.without_words()));
    trial
}
