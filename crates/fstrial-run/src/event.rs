//! Events of a trial, as one stream. The terminal, JSON lines and the store are listeners on it.

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

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum Event<'a> {
    /// The device is being made: bytes done of bytes in all.
    DeviceProgress {
        done: Bytes,
        total: Bytes,
    },
    /// A preparation before the first round, a device or a pilot: its description.
    Preparing {
        line: &'a str,
    },
    DeviceReady {
        device: &'a str,
        /// Notes on it for the reader.
        notes: &'a [String],
    },
    /// The state of an arm's filesystem is made, once for all arms that are made alike.
    StatePreparing {
        /// The arm on which it is made.
        arm: &'a str,
        state: &'a str,
    },
    /// The state is made and saved.
    StatePrepared {
        /// All arms that begin with it.
        arms: &'a [&'a str],
        figures: &'a StateFigures,
    },
    /// Progress of a lengthy stage: bytes done of at most this many.
    StageProgress {
        stage: Stage,
        /// Done so far.
        done: Bytes,
        /// In all, at most.
        total: Bytes,
    },
    /// An arm has been built once, looked at and taken down.
    ArmInspected {
        arm: &'a str,
        facts: &'a ArmFacts,
        commands: &'a [String],
    },
    /// A worker was lost while it looked at an arm; another one takes its place.
    WorkerReplaced {
        arm: &'a str,
        /// The failure of the worker.
        failure: &'a RunFailure,
    },
    /// Unrequested differences between the arms.
    Audited {
        /// One line for each difference.
        lines: &'a [String],
    },
    /// Observations and changes on the way: warnings of the answer.
    Noted {
        lines: &'a [String],
    },
    /// The first round is over, and its time predicts the number of rounds.
    FirstRoundTimed {
        /// Rounds that the user requested, if any.
        requested: Option<u32>,
        /// Rounds like the first that fit into the budget, that one included.
        fit: u32,
        /// Duration of the first one, in seconds.
        round_seconds: f64,
        /// Fewer rounds than this decide nothing.
        least: u32,
        /// Upper bound of the remaining time of the trial: a default budget may have been raised.
        left: Nanos,
        /// The reason why those that fit cannot decide anything, and the remedy.
        #[serde(skip_serializing_if = "Option::is_none")]
        warning: Option<&'a str>,
    },
    RoundStarted {
        /// Its number, from 1.
        round: u32,
        runs: usize,
        /// At most this much time is left in the trial.
        left: Nanos,
    },
    RunStarted {
        round: u32,
        /// Position in the round, from 1.
        slot: usize,
        /// Index of the cell in the plan.
        #[serde(skip)]
        cell: usize,
        arm: &'a str,
        workload: &'a str,
        threads: u16,
    },
    /// A run has come to its next stage.
    RunStage {
        stage: Stage,
    },
    RunEnded(RunEnded<'a>),
    /// The verdicts as they are after a round.
    VerdictsUpdated {
        round: u32,
        /// True if the round was completed.
        #[serde(skip)]
        is_complete: bool,
        contrasts: &'a [ContrastState],
        /// The result of this round alone for each, and the state after it.
        #[serde(skip)]
        course: &'a [CoursePoint],
    },
}

/// A run that is over, with all that is kept of it.
#[derive(Debug, Serialize)]
pub struct RunEnded<'a> {
    pub round: u32,
    /// Position in the round, from 1.
    pub slot: usize,
    /// Index of the cell in the plan.
    #[serde(skip)]
    pub cell: usize,
    pub arm: &'a str,
    pub workload: &'a str,
    pub threads: u16,
    /// When it began and ended, RFC 3339.
    pub started_at: &'a str,
    /// See `started_at`.
    pub ended_at: &'a str,
    /// Environment of the machine that ran it.
    #[serde(skip)]
    pub environment: &'a Environment,
    #[serde(skip)]
    pub job: &'a Job,
    /// The throughput, or the number, of each result; none for a failed run.
    pub rates: Vec<f64>,
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

/// Ignores every event.
pub struct Silent;

impl Listener for Silent {
    fn hear(&mut self, _: &Event<'_>) -> Result<(), ExpectedError> {
        Ok(())
    }
}

/// Several listeners as one; the first to fail ends the trial.
pub struct Listeners<'a>(pub Vec<&'a mut dyn Listener>);

impl Listener for Listeners<'_> {
    fn hear(&mut self, event: &Event<'_>) -> Result<(), ExpectedError> {
        self.0.iter_mut().try_for_each(|listener| listener.hear(event))
    }
}
