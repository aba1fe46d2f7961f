//! The pilot of a trial: how long a lap of the slowest arm's journal or log takes, before the first round.
//!
//! Every run begins on a new filesystem, whose log is empty: until it has been full once, nothing has to be written home to
//! make room. A workload that asks for it (`lap = "pilot"`) is warmed up for that long in every arm, by one time for all of
//! them: a warm-up that a run ended on its own would depend on what it measures.

use super::{
    event::Event,
    forecast::OVERHEAD_GUESS,
    place::{JobOutcome, Place},
    plan::Plan,
};
use crate::error::ExpectedError;
use fstrial_model::{
    arm::Arm,
    job::{Job, PROTOCOL},
    measurement::{Counter, Measurement},
    trial::Trial,
    units::Nanos,
    workload::{Lap, Phase, Until, Workload},
};
use std::collections::BTreeSet;

/// btrfs commits so often, unless it is mounted with `commit=`.
const COMMIT: Nanos = Nanos::secs(30);
/// What is found is rounded up to this.
const STEP: Nanos = Nanos::millis(100);
/// The budget has room for this many rounds with whatever warm-up is found.
const ROUNDS: u64 = 8;

/// What a pilot has found.
pub enum PilotOutcome {
    /// Nothing asks for a lap.
    Unasked,
    /// The trial with the laps.
    Found(Box<Trial>),
    /// It was interrupted: nothing is known, and no part of the trial is to be kept.
    Interrupted,
}

/// Finds the laps that workloads ask for.
///
/// # Errors
/// Nobody can be told.
pub fn laps(
    plan: &Plan,
    places: &mut [Box<dyn Place>],
    hear: &mut dyn FnMut(&Event<'_>) -> Result<(), ExpectedError>,
) -> Result<PilotOutcome, ExpectedError> {
    if !plan.workloads.iter().any(asks) {
        return Ok(PilotOutcome::Unasked);
    }
    let mut trial = plan.trial.clone();
    for (index, workload) in plan.workloads.iter().enumerate().filter(|(_, workload)| asks(workload)) {
        let line = format!("pilot: one run of {} in each arm, for a lap of its log", workload.name);
        hear(&Event::Preparing { line: &line })?;
        let Some(laps) = piloted(plan, places, index) else { return Ok(PilotOutcome::Interrupted) };
        let (lap, lines) = told(workload, &laps, longest(plan, workload));
        lines.iter().try_for_each(|line| hear(&Event::Preparing { line }))?;
        trial.workloads[index].found_lap(lap);
    }
    Ok(PilotOutcome::Found(Box::new(trial)))
}

/// Whether a phase of a workload asks for a lap that is not found yet.
pub fn asks(workload: &Workload) -> bool {
    workload.phases.iter().any(|phase| phase.lap == Some(Lap::Pilot))
}

/// How long a lap of an arm takes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Takes {
    Time(Nanos),
    /// Longer than can be told: nothing was logged.
    Forever,
    /// Nobody counts, or the run failed.
    Unknown,
}

/// What every cell of a workload takes for a lap, with its arm. None if it was interrupted.
fn piloted<'p>(
    plan: &'p Plan,
    places: &mut [Box<dyn Place>],
    workload: usize,
) -> Option<Vec<(&'p Arm, Takes)>> {
    let mut all = Vec::new();
    let data = super::coordinator::data_for(places);
    for cell in (0..plan.cells.len()).filter(|cell| plan.cells[*cell].workload == workload) {
        let at = plan.cells[cell];
        let arm = &plan.trial.arms[at.arm];
        let task = Some(plan.task(cell, 0, data));
        let memory = plan.trial.memory_of(arm);
        let job =
            Job { protocol: PROTOCOL, arm: plan.trial.built(arm), task, state: None, fsck: false, memory };
        let takes = match places[plan.place_of[at.arm]].run(&job, &mut |_| {}) {
            JobOutcome::Interrupted => return None,
            JobOutcome::Measured(Some(measured)) => lap(arm, &plan.workloads[workload], &measured),
            // What fails here fails in the first round too, and is told there.
            JobOutcome::Measured(None) | JobOutcome::Failed(_) => Takes::Unknown,
        };
        all.push((arm, takes));
    }
    Some(all)
}

/// How long an arm takes for a lap, by what a run of it has logged; for filesystems without a log the time between two
/// commits.
fn lap(arm: &Arm, workload: &Workload, measured: &Measurement) -> Takes {
    let asking = workload.phases.iter().filter(|phase| phase.until == Until::Time && phase.lap.is_some());
    let of_phase = |phase: &Phase| {
        let names: Vec<String> = phase.groups.iter().map(|group| phase.result_name(group)).collect();
        let result = measured.results.iter().find(|result| names.contains(&result.name))?;
        Some((phase.duration, &result.counters))
    };
    let Some((duration, log)) = asking.clone().find_map(of_phase) else { return Takes::Unknown };
    match (log.laps(), log.get(Counter::Commits)) {
        (Some((_, laps)), _) if laps > 0.0 =>
        {
            #[expect(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a time that saturates"
            )]
            Takes::Time(Nanos((duration.0 as f64 / laps) as u64))
        }
        (Some(_), _) => Takes::Forever,
        (None, Some(_)) => {
            let words = arm.mount.iter().flat_map(|option| option.split(','));
            let own = words.filter_map(|word| word.strip_prefix("commit=")?.parse().ok()).next_back();
            Takes::Time(own.map_or(COMMIT, Nanos::secs))
        }
        (None, None) => Takes::Unknown,
    }
}

/// The longest warm-up with which the budget has room for [`ROUNDS`] rounds.
fn longest(plan: &Plan, workload: &Workload) -> Nanos {
    let runs = (plan.cells.len() as u64).max(1);
    // A round more, for the pilot itself.
    let each = plan.trial.trial.budget.0 / ((ROUNDS + 1) * runs);
    let most = each.saturating_sub(workload.time().0 + OVERHEAD_GUESS.0);
    Nanos(most - most % STEP.0)
}

/// The warm-up, and what is said about it.
fn told(workload: &Workload, laps: &[(&Arm, Takes)], most: Nanos) -> (Nanos, Vec<String>) {
    let name = &workload.name;
    let seconds = |time: Nanos| format!("{:.1} s", time.as_secs_f64());
    let usual = workload.phases.iter().map(|phase| phase.warmup).max().unwrap_or_default();
    let time = |takes: Takes| match takes {
        Takes::Time(time) => Some(Nanos(time.0.next_multiple_of(STEP.0))),
        Takes::Forever => Some(Nanos(u64::MAX)),
        Takes::Unknown => None,
    };
    let unknown: BTreeSet<&str> =
        laps.iter().filter(|(_, takes)| *takes == Takes::Unknown).map(|(arm, _)| arm.name.as_str()).collect();
    let slowest =
        laps.iter().filter_map(|(arm, takes)| Some((time(*takes)?, *arm))).max_by_key(|(lap, _)| *lap);
    let (lap, line) = match slowest {
        None => {
            (Nanos(0), format!("pilot: no arm's log is counted under {name}, so there is no lap to wait for"))
        }
        Some((lap, arm)) if lap > most => {
            let takes = if lap == Nanos(u64::MAX) {
                format!("{} logged nothing in the pilot", arm.name)
            } else {
                format!("{} takes {}", arm.name, seconds(lap))
            };
            let line = format!(
                "pilot: {name} is warmed up for {} in every arm, which is less than a lap: {takes}, and {ROUNDS} rounds of \
                 more do not fit the budget (--budget)",
                seconds(most.max(usual))
            );
            (most, line)
        }
        Some((lap, arm)) => {
            let warmup = seconds(lap.max(usual));
            (
                lap,
                format!(
                    "pilot: {name} is warmed up for {warmup} in every arm: a lap of {}, the slowest",
                    arm.name
                ),
            )
        }
    };
    let mut lines = vec![line];
    if !unknown.is_empty() && slowest.is_some() {
        let names: Vec<&str> = unknown.into_iter().collect();
        lines.push(format!("pilot: how far the log of {} goes is not counted here", names.join(" and of ")));
    }
    (lap, lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::workload::Entry;

    fn plan(budget: Nanos) -> Plan {
        let entry =
            Entry { threads: Some(vec![1]), lap: Some(Lap::Pilot), ..Entry::of_preset("append-fsync") };
        let arms = ["ext4", "xfs", "slow=btrfs:commit=5", "btrfs"].map(|arm| arm.parse().unwrap()).to_vec();
        let mut trial = Trial { arms, workloads: vec![entry], ..Trial::default() };
        trial.trial.budget = budget;
        Plan::new(trial, 1, 1).unwrap()
    }

    #[test]
    fn the_slowest_arm_decides_as_far_as_the_budget_has_room() {
        let plan = plan(Nanos::secs(400));
        let workload = &plan.workloads[0];
        let most = longest(&plan, workload);
        // 400 s for 9 rounds of 4 runs are 11.1 s for each, of which it takes 1.25 s itself, and the rest around it.
        assert_eq!(most.0, (400_000_000_000 / 36 - 1_250_000_000 - OVERHEAD_GUESS.0) / STEP.0 * STEP.0);
        let arm = |index: usize| &plan.trial.arms[index];
        let takes = |ms: u64| Takes::Time(Nanos::millis(ms));
        let (lap, lines) = told(workload, &[(arm(0), takes(900)), (arm(1), takes(6_010))], most);
        assert_eq!(lap, Nanos::millis(6_100));
        assert_eq!(
            lines,
            ["pilot: append-fsync is warmed up for 6.1 s in every arm: a lap of xfs, the slowest"]
        );
        let (cut, lines) = told(workload, &[(arm(1), takes(30_000)), (arm(0), Takes::Unknown)], most);
        assert_eq!(cut, most);
        assert!(lines[0].contains("less than a lap: xfs takes 30.0 s"), "{lines:?}");
        assert_eq!(lines[1], "pilot: how far the log of ext4 goes is not counted here");
        // Who logs nothing is slower than all.
        let (cut, lines) = told(workload, &[(arm(1), takes(700)), (arm(0), Takes::Forever)], most);
        assert!(cut == most && lines[0].contains("ext4 logged nothing"), "{lines:?}");
        assert_eq!(told(workload, &[(arm(0), Takes::Unknown)], most).0, Nanos(0));
        // Nothing at all fits into a second.
        assert_eq!(longest(&self::plan(Nanos::secs(1)), workload), Nanos(0));
    }

    #[test]
    fn what_is_found_is_the_warm_up_of_every_run_and_the_same_when_it_is_gone_on_with() {
        let mut trial = plan(Nanos::secs(400)).trial;
        trial.workloads[0].found_lap(Nanos::secs(6));
        let again = Trial::parse("stored", &trial.to_toml()).unwrap();
        let found = Plan::new(again, 1, 1).unwrap();
        assert!(!asks(&found.workloads[0]));
        assert_eq!(found.workloads[0].phases[0].warmup, Nanos::secs(6));
        // A longer warm-up that was asked for stays.
        let longer = Entry { warmup: Some(Nanos::secs(9)), ..trial.workloads[0].clone() };
        assert_eq!(longer.resolve(1).unwrap().phases[0].warmup, Nanos::secs(9));
        let done = Entry { lap: Some(Lap::Pilot), ..Entry::of_preset("postmark") };
        assert_eq!(done.resolve(1).unwrap_err().key, "lap");
    }
}
