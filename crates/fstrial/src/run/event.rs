//! What happens in a trial, as one stream. The terminal, JSON lines and the store are listeners on it.

use super::{contrast::ContrastState, course::CoursePoint, environment::Environment};
use crate::error::ExpectedError;
use fstrial_model::{
    facts::ArmFacts,
    job::{Job, RunFailure},
    measurement::{Measurement, Stage},
    state::StateFigures,
    units::{Bytes, Nanos},
};
use serde::Serialize;

/// One thing that happened.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum Event<'a> {
    /// The device is being made: bytes done of bytes in all.
    DeviceProgress {
        /// Bytes done.
        done: Bytes,
        /// Bytes in all.
        total: Bytes,
    },
    /// The device is being preconditioned: what is known of it, in words.
    Preconditioning {
        /// One line.
        line: &'a str,
    },
    /// The device is there.
    DeviceReady {
        /// What it is.
        device: &'a str,
        /// What a reader should know about it.
        notes: &'a [String],
    },
    /// The state of an arm's filesystem is made, once for all arms that are made alike.
    StatePreparing {
        /// The arm on which it is made.
        arm: &'a str,
        /// What is made.
        state: &'a str,
    },
    /// The state is made and saved.
    StatePrepared {
        /// All arms that begin with it.
        arms: &'a [&'a str],
        /// What it is.
        figures: &'a StateFigures,
    },
    /// How far a lengthy stage is: bytes done of at most so many.
    StageProgress {
        /// Which.
        stage: Stage,
        /// Done so far.
        done: Bytes,
        /// In all, at most.
        total: Bytes,
    },
    /// An arm has been built once, looked at and taken down.
    ArmInspected {
        /// Its name.
        arm: &'a str,
        /// What it really is.
        facts: &'a ArmFacts,
        /// The commands that made it.
        commands: &'a [String],
    },
    /// A worker was lost while it looked at an arm; another one takes its place.
    WorkerReplaced {
        /// The arm.
        arm: &'a str,
        /// How the worker was lost.
        failure: &'a RunFailure,
    },
    /// What differs between the arms besides what was asked for.
    Audited {
        /// One line for each difference.
        lines: &'a [String],
    },
    /// The number of rounds the decision rule plans with is fixed, from the time the first round took.
    RoundsPlanned {
        /// Rounds.
        planned: u32,
    },
    /// A round begins.
    RoundStarted {
        /// Its number, from 1.
        round: u32,
        /// Runs in it.
        runs: usize,
        /// At most this much time is left in the trial.
        left: Nanos,
    },
    /// A run begins.
    RunStarted {
        /// Round.
        round: u32,
        /// Position in the round, from 1.
        slot: usize,
        /// Index of the cell in the plan.
        #[serde(skip)]
        cell: usize,
        /// The arm.
        arm: &'a str,
        /// The workload.
        workload: &'a str,
        /// The level.
        threads: u16,
    },
    /// A run has come to its next stage.
    RunStage {
        /// Which.
        stage: Stage,
    },
    /// A run is over.
    RunEnded(RunEnded<'a>),
    /// The verdicts as they stand after a round.
    VerdictsUpdated {
        /// The round.
        round: u32,
        /// Every contrast.
        contrasts: &'a [ContrastState],
        /// What this round alone says of each, and where it left them.
        #[serde(skip)]
        course: &'a [CoursePoint],
    },
}

/// A run that is over, with all that is kept of it.
#[derive(Debug, Serialize)]
pub struct RunEnded<'a> {
    /// Round.
    pub round: u32,
    /// Position in the round, from 1.
    pub slot: usize,
    /// Index of the cell in the plan.
    #[serde(skip)]
    pub cell: usize,
    /// The arm.
    pub arm: &'a str,
    /// The workload.
    pub workload: &'a str,
    /// The level.
    pub threads: u16,
    /// When it began and ended, RFC 3339.
    pub started_at: &'a str,
    /// See `started_at`.
    pub ended_at: &'a str,
    /// What the machine was that it ran on.
    #[serde(skip)]
    pub environment: &'a Environment,
    /// What was asked for.
    #[serde(skip)]
    pub job: &'a Job,
    /// The throughput, or the number, of each result; none for a failed run.
    pub rates: Vec<f64>,
    /// What came of it.
    #[serde(skip)]
    pub outcome: Result<&'a Measurement, &'a RunFailure>,
    /// Why it failed, if it did.
    pub failure: Option<&'a RunFailure>,
}

/// Something that hears every event of a trial.
pub trait Listener {
    /// Called for every event, in order.
    ///
    /// # Errors
    /// The event could not be kept; the trial ends.
    fn hear(&mut self, event: &Event<'_>) -> Result<(), ExpectedError>;
}

/// Several listeners as one; the first to fail ends the trial.
pub struct Listeners<'a>(pub Vec<&'a mut dyn Listener>);

impl Listener for Listeners<'_> {
    fn hear(&mut self, event: &Event<'_>) -> Result<(), ExpectedError> {
        self.0.iter_mut().try_for_each(|listener| listener.hear(event))
    }
}
