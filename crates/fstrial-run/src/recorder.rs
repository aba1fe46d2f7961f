//! The store as a listener: every run is written as it ends.

use super::event::{Event, Listener, RunEnded};
use crate::error::ExpectedError;
use fstrial_store::{RunRecord, Store, TrialId};

/// Writes a trial into the store.
pub struct Recorder<'a> {
    store: &'a mut Store,
    trial: TrialId,
}

impl<'a> Recorder<'a> {
    pub fn new(store: &'a mut Store, trial: TrialId) -> Self {
        Self { store, trial }
    }

    fn record(&mut self, run: &RunEnded<'_>) -> Result<(), ExpectedError> {
        let environment = serde_json::to_string(run.environment).expect("an environment is plain data");
        let record = RunRecord {
            round: run.round,
            slot: u32::try_from(run.slot).expect("a round has fewer cells than that"),
            arm: run.arm,
            workload: run.workload,
            threads: run.threads,
            started_at: run.started_at,
            ended_at: run.ended_at,
            environment: &environment,
            job: run.job,
            outcome: run.outcome,
        };
        self.store.record_run(self.trial, &record)?;
        Ok(())
    }
}

impl Listener for Recorder<'_> {
    fn hear(&mut self, event: &Event<'_>) -> Result<(), ExpectedError> {
        match event {
            Event::RunEnded(run) => self.record(run),
            Event::ArmInspected { arm, facts, .. } => Ok(self.store.set_arm_facts(self.trial, arm, facts)?),
            Event::Noted { lines } => Ok(self.store.warn(self.trial, lines)?),
            // A measurement that cannot be stored is useless.
            Event::RunStarted { .. } => Ok(self.store.check_there()?),
            Event::DeviceProgress { .. }
            | Event::Preparing { .. }
            | Event::DeviceReady { .. }
            | Event::WorkerReplaced { .. }
            | Event::StatePreparing { .. }
            | Event::StatePrepared { .. }
            | Event::StageProgress { .. }
            | Event::Audited { .. }
            | Event::FirstRoundTimed { .. }
            | Event::RoundStarted { .. }
            | Event::RunStage { .. }
            | Event::VerdictsUpdated { .. } => Ok(()),
        }
    }
}
