//! A stored trial, read back in one pass over its runs: its rounds as samples, and the data that only pages show.

use super::{
    environment::Environment,
    plan::Plan,
    round::{Earlier, Round, RoundTimes, RunOutcome},
};
use crate::error::ExpectedError;
use fstrial_model::{
    job::RunFailure,
    measurement::{Measurement, Stage},
    trial::Trial,
};
use fstrial_store::{RunId, SessionId, Store, StoreError, StoredRun, StoredTrial, TrialId};
use std::collections::BTreeMap;

/// A stored trial.
pub struct TrialRecord {
    /// Plan made from the stored trial.
    pub plan: Plan,
    /// The environment of its last session.
    pub environment: Environment,
    /// Rounds that were run before, with their times.
    pub rounds: Earlier,
    /// Data of its runs in addition to their results, by cell.
    pub besides: Vec<Besides>,
    /// The commands that made an arm: those of its first run, by arm.
    pub commands: Vec<Vec<String>>,
}

/// Data of a cell's runs in addition to their results.
#[derive(Debug, Clone, Default)]
pub struct Besides {
    /// Duration of each stage, in seconds, by run.
    pub stages: BTreeMap<Stage, Vec<f64>>,
    /// Bytes left on the filesystem after the load, by run.
    pub space_left: Vec<f64>,
    /// The first error of a run that counts all the same.
    pub first_error: Option<String>,
}

impl TrialRecord {
    /// Reads a trial.
    ///
    /// # Errors
    /// It cannot be read, or this version does not understand it.
    pub fn read(store: &Store, stored: &StoredTrial) -> Result<Self, ExpectedError> {
        let (plan, environment) = planned(store, stored)?;
        let mut rounds = Rounds::default();
        let mut besides = vec![Besides::default(); plan.cells.len()];
        let mut commands = vec![Vec::new(); plan.trial.arms.len()];
        for_each_run(store, &plan, stored.summary.id, None, |run| {
            if let Ok(measurement) = &run.measured {
                besides[run.cell].see(measurement);
                let of_arm: &mut Vec<String> = &mut commands[plan.cells[run.cell].arm];
                if of_arm.is_empty() {
                    of_arm.clone_from(&measurement.commands);
                }
            }
            rounds.see(run, &plan);
        })?;
        let rounds = rounds.finish();
        Ok(Self { plan, environment, rounds, besides, commands })
    }
}

/// The plan of a stored trial, and the environment of its last session.
///
/// # Errors
/// It cannot be read, or this version does not understand it.
pub fn planned(store: &Store, stored: &StoredTrial) -> Result<(Plan, Environment), ExpectedError> {
    let id = stored.summary.id;
    let session =
        stored.sessions.last().ok_or_else(|| damaged(store, format!("trial {id} has no session")))?;
    let environment: Environment = serde_json::from_str(&session.environment)
        .map_err(|error| damaged(store, format!("the environment of trial {id} cannot be read: {error}")))?;
    let trial = Trial::parse("stored trial", &stored.toml)?;
    Ok((Plan::new(trial.settled(environment.cpus)?, stored.summary.seed)?, environment))
}

/// Error for content that fstrial did not write: a fault of the store, not of fstrial.
pub fn damaged(store: &Store, what: String) -> ExpectedError {
    StoreError::Damaged { path: store.path().to_owned(), what, source: None }.into()
}

/// The stored rounds of a trial.
///
/// # Errors
/// A run cannot be read.
pub fn earlier(store: &Store, plan: &Plan, id: TrialId) -> Result<Earlier, ExpectedError> {
    let mut rounds = Rounds::default();
    for_each_run(store, plan, id, None, |run| rounds.see(run, plan))?;
    Ok(rounds.finish())
}

/// A stored run in the terms of its plan.
pub struct Run {
    /// Its number in the store.
    pub id: RunId,
    /// The session it was run in.
    pub session: SessionId,
    /// Number of the round in the trial, from 1.
    pub round: u32,
    /// Index of its cell.
    pub cell: usize,
    /// When it began, RFC 3339.
    pub started_at: String,
    /// When it ended.
    pub ended_at: String,
    /// The environment of the machine that ran it, as JSON.
    pub environment: String,
    /// Everything that was measured, or why nothing was.
    pub measured: Result<Measurement, RunFailure>,
    /// The judge's input.
    pub outcome: RunOutcome,
}

/// Reads the runs of a trial that were stored after another one, in the order in which they were run. Those of cells that
/// are not in the plan are not looked into.
///
/// # Errors
/// A run cannot be read. Runs before it have been seen.
pub fn for_each_run(
    store: &Store,
    plan: &Plan,
    id: TrialId,
    after: Option<RunId>,
    mut see: impl FnMut(Run),
) -> Result<(), ExpectedError> {
    let mut unread = None;
    let see_run = |run: StoredRun| {
        let Some(cell) = plan.cell_of(&run.arm, &run.workload, run.threads).filter(|_| unread.is_none())
        else {
            return;
        };
        let outcome = match &run.outcome {
            Ok(measurement) => plan.samples(cell, run.round, run.slot as usize, measurement).map(Ok),
            Err(failure) => Ok(Err(failure.clone())),
        };
        match outcome {
            Err(error) => unread = Some(format!("run {} cannot be read: {error}", run.id)),
            Ok(outcome) => see(Run {
                id: run.id,
                session: run.session,
                round: run.round,
                cell,
                started_at: run.started_at,
                ended_at: run.ended_at,
                environment: run.environment,
                measured: run.outcome,
                outcome,
            }),
        }
    };
    match after {
        None => store.for_each_run(id, see_run)?,
        Some(_) => store.for_each_run_after(id, after, see_run)?,
    }
    unread.map_or(Ok(()), |what| Err(damaged(store, what)))
}

/// Rounds as their runs are read.
#[derive(Default)]
struct Rounds {
    rounds: BTreeMap<u32, Round>,
    /// The session of the run before.
    session: Option<SessionId>,
    times: RoundTimes,
    environments: BTreeMap<String, String>,
}

impl Rounds {
    fn see(&mut self, run: Run, plan: &Plan) {
        let place = &plan.trial.arms[plan.cells[run.cell].arm].place;
        if self.environments.get(place.as_deref().unwrap_or_default()) != Some(&run.environment) {
            self.environments.insert(place.clone().unwrap_or_default(), run.environment);
        }
        let is_other = self.session.replace(run.session).is_some_and(|before| before != run.session);
        if is_other {
            self.times.begin_session();
        }
        self.times.see(run.round, &run.started_at, &run.ended_at);
        let is_resumed = is_other && !plan.trial.has_boots();
        let fresh = || Round { number: run.round, is_resumed, runs: Vec::new() };
        let round = self.rounds.entry(run.round).or_insert_with(fresh);
        round.runs.push((run.cell, run.outcome));
    }

    fn finish(self) -> Earlier {
        Earlier {
            rounds: self.rounds.into_values().collect(),
            times: self.times,
            environments: self.environments,
        }
    }
}

impl Besides {
    #[expect(clippy::cast_precision_loss, reason = "sizes of devices are far below 2^53")]
    fn see(&mut self, measurement: &Measurement) {
        for (stage, took) in &measurement.stages {
            self.stages.entry(*stage).or_default().push(took.as_secs_f64());
        }
        self.space_left.push(measurement.space_left.0 as f64);
        if self.first_error.is_none() {
            self.first_error = measurement.loads().find_map(|(_, load)| load.first_error.clone());
        }
    }
}
