//! A stored trial, read back in one pass over its runs: its rounds as samples, and what only pages show of it.

use super::{
    coordinator::{Earlier, EarlierRound},
    environment::Environment,
    plan::{Plan, threads_in_words},
};
use crate::error::ExpectedError;
use fstrial_model::{
    job::FailureKind,
    measurement::{Measurement, Stage},
    trial::Trial,
    units::Nanos,
};
use fstrial_store::{Store, StoreError, StoredRun, StoredTrial, TrialId};
use std::collections::BTreeMap;

/// A stored trial.
pub struct Stored {
    /// Its plan.
    pub plan: Plan,
    /// The environment of its last session.
    pub environment: Environment,
    /// Rounds the decision rule planned with, once the first one was over.
    pub planned: Option<u32>,
    /// Its rounds.
    pub rounds: Vec<EarlierRound>,
    /// Failures of arms, in words.
    pub failures: Vec<String>,
    /// How long the last complete round took.
    pub round_time: Option<Nanos>,
    /// What its runs say besides their results, by cell.
    pub besides: Vec<Besides>,
    /// What an arm was made with: the commands of its first run, by arm.
    pub commands: Vec<Vec<String>>,
}

/// What the runs of a cell say besides their results.
#[derive(Debug, Clone, Default)]
pub struct Besides {
    /// How long each stage took, in seconds, by run.
    pub stages: BTreeMap<Stage, Vec<f64>>,
    /// Bytes left on the filesystem after the load, by run.
    pub space_left: Vec<f64>,
    /// The first error of a run that counts all the same.
    pub first_error: Option<String>,
}

impl Stored {
    /// Reads a trial.
    ///
    /// # Errors
    /// It cannot be read, or is none that this version understands.
    pub fn read(store: &Store, stored: &StoredTrial) -> Result<Self, ExpectedError> {
        let id = stored.summary.id;
        let session =
            stored.sessions.last().ok_or_else(|| damaged(store, format!("trial {id} has no session")))?;
        let environment: Environment = serde_json::from_str(&session.environment).map_err(|error| {
            let what = format!("the environment of trial {id} cannot be read: {error}");
            damaged(store, what)
        })?;
        let trial = Trial::parse("stored trial", &stored.toml)?;
        let plan = Plan::new(trial, stored.summary.seed, environment.cpus)?;
        let Reader { rounds, failures, times, besides, commands, .. } = Reader::read(store, &plan, id)?;
        Ok(Self {
            environment,
            planned: stored.summary.planned_rounds,
            rounds: rounds.into_values().collect(),
            failures,
            round_time: round_time(&times),
            besides,
            commands,
            plan,
        })
    }
}

/// What a store holds is not what fstrial wrote: a fault of the store's, not of fstrial.
pub(crate) fn damaged(store: &Store, what: String) -> ExpectedError {
    StoreError::Damaged { path: store.path().to_owned(), what, source: None }.into()
}

/// The stored rounds of a trial that is gone on with.
///
/// # Errors
/// A run cannot be read.
pub fn earlier(store: &Store, plan: &Plan, id: TrialId) -> Result<Earlier, ExpectedError> {
    let rounds = Reader::read(store, plan, id)?.rounds.into_values().collect();
    Ok(Earlier { planned: store.trial(id)?.summary.planned_rounds, rounds })
}

/// What was seen so far of the runs of a trial.
struct Reader<'a> {
    plan: &'a Plan,
    rounds: BTreeMap<u32, EarlierRound>,
    failures: Vec<String>,
    /// Of each round the number of runs, when the first began and when the last ended.
    times: BTreeMap<u32, (u32, String, String)>,
    besides: Vec<Besides>,
    commands: Vec<Vec<String>>,
    damaged: Option<String>,
}

impl<'a> Reader<'a> {
    fn read(store: &Store, plan: &'a Plan, id: TrialId) -> Result<Self, ExpectedError> {
        let mut reader = Self {
            plan,
            rounds: BTreeMap::new(),
            failures: Vec::new(),
            times: BTreeMap::new(),
            besides: vec![Besides::default(); plan.cells.len()],
            commands: vec![Vec::new(); plan.trial.arms.len()],
            damaged: None,
        };
        store.for_each_run(id, |run| reader.see(run))?;
        match reader.damaged {
            Some(what) => Err(damaged(store, what)),
            None => Ok(reader),
        }
    }

    fn see(&mut self, run: StoredRun) {
        let time = self.times.entry(run.round).or_insert_with(|| (0, run.started_at.clone(), String::new()));
        time.0 += 1;
        time.2.clone_from(&run.ended_at);
        if let Err(failure) = &run.outcome
            && failure.kind == FailureKind::ArmFailed
        {
            let level = threads_in_words(run.threads);
            self.failures.push(format!("{} · {} · {level}: {failure}", run.arm, run.workload));
        }
        let Some(cell) = self.plan.cell_of(&run.arm, &run.workload, run.threads) else { return };
        let round = self
            .rounds
            .entry(run.round)
            .or_insert(EarlierRound { round: run.round, ..EarlierRound::default() });
        match run.outcome {
            Ok(measurement) => {
                match self.plan.samples(cell, run.round, run.slot as usize, &measurement) {
                    Ok(samples) => round.samples.push((cell, samples)),
                    Err(error) => {
                        self.damaged = Some(format!("run {} cannot be read: {error}", run.id));
                    }
                }
                self.see_besides(cell, measurement);
            }
            Err(failure) if failure.kind == FailureKind::ArmFailed => round.failed.push(cell),
            Err(failure) if failure.kind == FailureKind::Cannot => round.cannot.push((cell, failure.what)),
            Err(_) => {}
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "sizes of devices are far below 2^53")]
    fn see_besides(&mut self, cell: usize, measurement: Measurement) {
        let first_error = measurement.loads().find_map(|(_, load)| load.first_error.clone());
        let Measurement { stages, space_left, commands, .. } = measurement;
        let besides = &mut self.besides[cell];
        for (stage, took) in stages {
            besides.stages.entry(stage).or_default().push(took.as_secs_f64());
        }
        besides.space_left.push(space_left.0 as f64);
        besides.first_error = besides.first_error.take().or(first_error);
        let of_arm = &mut self.commands[self.plan.cells[cell].arm];
        if of_arm.is_empty() {
            *of_arm = commands;
        }
    }
}

/// How long the last complete round took.
fn round_time(times: &BTreeMap<u32, (u32, String, String)>) -> Option<Nanos> {
    // The last round may be cut short: the one before it tells more, where there is one.
    let last = times.values().next_back().map_or(0, |(runs, ..)| *runs);
    let (_, from, to) = times.values().rev().find(|(runs, ..)| *runs >= last.max(2))?;
    let (from, to) = (from.parse::<jiff::Timestamp>().ok()?, to.parse::<jiff::Timestamp>().ok()?);
    u64::try_from(to.duration_since(from).as_nanos()).ok().map(Nanos)
}
