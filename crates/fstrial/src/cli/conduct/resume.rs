//! Which stored trial is resumed.

use crate::{
    error::ExpectedError,
    report::plain,
    run::{environment::Environment, place::Place, round::Earlier},
};
use fstrial_model::{trial::Trial, units::Nanos, workload::Lap};
use fstrial_store::{Store, StoredTrial, TrialId, TrialStatus};

/// The trial to resume: the one asked for, or the last of this file that did not come to its end. A trial that came
/// from another machine stays as it is: rounds of two machines are not one trial.
pub(super) fn find_resumable(
    store: &Store,
    settled: &Trial,
    id: i64,
) -> Result<(TrialId, u64), ExpectedError> {
    let settled = comparable(settled.clone());
    let same =
        |toml: &str| Trial::parse("stored trial", toml).is_ok_and(|stored| comparable(stored) == settled);
    let here = Environment::of_this_machine();
    let is_here = settled.arms.iter().any(|arm| arm.place.is_none());
    let moved = |stored: &StoredTrial| {
        stored.sessions.last().filter(|_| is_here).and_then(|last| here.other_machine(&last.environment))
    };
    if id != 0 {
        let stored = store.trial(TrialId(id))?;
        if !same(&stored.toml) {
            return Err(ExpectedError::usage(
                format!("trial {id} is not a trial of this file: arms, workloads or settings differ"),
                "run the file without --resume, or name the trial of this file (`fstrial results list`)",
            ));
        }
        return match moved(&stored) {
            Some(there) => Err(of_another_machine(&stored, &there, &here)),
            None => Ok((TrialId(id), stored.summary.seed)),
        };
    }
    let mut elsewhere = None;
    for summary in store.trials()?.into_iter().rev() {
        if summary.status == TrialStatus::Decided {
            continue;
        }
        let stored = store.trial(summary.id)?;
        if !same(&stored.toml) {
            continue;
        }
        match moved(&stored) {
            None => return Ok((summary.id, summary.seed)),
            Some(there) => {
                elsewhere.get_or_insert_with(|| of_another_machine(&stored, &there, &here));
            }
        }
    }
    Err(elsewhere.unwrap_or_else(|| {
        ExpectedError::usage(
            "there is no unfinished trial of this file to resume",
            "leave --resume out to begin; `fstrial results list` shows the trials there are",
        )
    }))
}

/// Refuses to resume a trial that has all the rounds that it asks for.
pub(super) fn check_rounds(stored: &StoredTrial, settled: &Trial) -> Result<(), ExpectedError> {
    let summary = &stored.summary;
    // A round that was interrupted counts as one of them.
    let ended = settled.trial.rounds.filter(|_| summary.status == TrialStatus::BudgetEnded);
    let Some(most) = ended.filter(|most| summary.rounds >= *most) else { return Ok(()) };
    let id = stored.summary.id;
    Err(ExpectedError::usage(
        format!("trial {id} has all {most} rounds that it asks for: there is nothing to resume"),
        format!("see its answer with `fstrial results show {id}`, or start a trial with more rounds"),
    ))
}

/// Refuses to resume a trial of which a place is another machine, or has another kernel, now.
pub(super) fn check_places(
    id: TrialId,
    places: &[Box<dyn Place>],
    earlier: &Earlier,
) -> Result<(), ExpectedError> {
    let is_one_host = places.iter().all(|place| place.environment().place.is_empty());
    for found in places.iter().map(|place| place.environment()).filter(|_| !is_one_host) {
        let Some((was, is)) = earlier.environments.get(&found.place).and_then(|stored| found.changed(stored))
        else {
            continue;
        };
        let place = if found.place.is_empty() { "this host" } else { &format!("the place {}", found.place) };
        return Err(ExpectedError::usage(
            format!("could not resume trial {id}: {place} was {}, and is {} now", plain(&was), plain(&is)),
            "go on where its arms were, or leave --resume out to begin again",
        ));
    }
    Ok(())
}

/// Puts the laps that a stored trial's pilot has found into the trial that resumes it.
pub(super) fn with_its_laps(mut trial: Trial, stored: &StoredTrial) -> Trial {
    let stored =
        Trial::parse("stored trial", &stored.toml).map(|stored| stored.workloads).unwrap_or_default();
    for (workload, stored) in trial.workloads.iter_mut().zip(stored) {
        let phases = stored.phases.iter().flatten().map(|phase| phase.lap);
        let found = phases.chain([stored.lap]).flatten().find_map(|lap| match lap {
            Lap::Found(lap) => Some(lap),
            Lap::Pilot => None,
        });
        if let Some(lap) = found {
            workload.found_lap(lap);
        }
    }
    trial
}

fn of_another_machine(stored: &StoredTrial, there: &str, here: &Environment) -> ExpectedError {
    ExpectedError::usage(
        format!(
            "could not resume trial {}: it ran on {}, and this is {}",
            stored.summary.id,
            plain(there),
            here.machine_in_words()
        ),
        "resume it there, or leave --resume out to begin here",
    )
}

/// A trial without what may differ when it is resumed: the budget is the session's, the seed the stored trial's;
/// words about a workload (with the lines of its job file) or a claim change nothing that is measured.
pub(crate) fn comparable(mut trial: Trial) -> Trial {
    trial.trial.budget = Nanos(0);
    trial.trial.seed = None;
    for workload in &mut trial.workloads {
        workload.about = None;
        // Another session continues with what the first one's pilot has found.
        workload.found_lap(Nanos(0));
    }
    trial.claim = trial.claim.map(|claim| Box::new(claim.without_words()));
    trial
}
