//! States before the first round: making each once, and whether the workloads still fit.

use super::{Coordinator, WorkerReports};
use crate::{
    error::ExpectedError,
    event::Event,
    place::JobOutcome,
    prepared::{SharedState, shared},
};
use fstrial_model::{
    job::{StateStep, StateTask},
    state::Space,
    units::Bytes,
};

impl Coordinator<'_, '_, '_> {
    /// Prepares the filesystem of every arm, if any arm asks for a state. False if interrupted.
    pub(super) fn prepare_states(&mut self) -> Result<bool, ExpectedError> {
        let mut all = shared(self.plan);
        all.retain(|shared| self.is_here(shared.arms[0]));
        if self.round > 0 && all.iter().any(|shared| shared.load.is_some()) {
            let line = "the data are loaded again: rounds from here on begin with other loads than those of the same number before";
            self.tell(&Event::Noted { lines: &[line.into()] })?;
        }
        let Some(spaces) = self.fresh_spaces(&all)? else { return Ok(false) };
        for (kept, shared) in all.into_iter().enumerate() {
            let utilisation = shared.state.utilisation();
            let room = spaces.iter().map(|space| space.room(utilisation)).min().unwrap_or_default();
            if !self.prepare_state(kept, shared, room)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Builds each filesystem once as mkfs makes it: shares are of the space that all have, so that each gets the same
    /// files. None if interrupted.
    fn fresh_spaces(&mut self, all: &[SharedState]) -> Result<Option<Vec<Space>>, ExpectedError> {
        let mut spaces = Vec::new();
        for shared in all.iter().filter(|shared| shared.load.is_none()) {
            let Some(reports) = self.built(shared, None)? else { return Ok(None) };
            spaces.push(reports.space);
        }
        Ok(Some(spaces))
    }

    /// A worker's reports on an arm that is built, and possibly loaded, without a measurement. None if interrupted.
    fn built(
        &mut self,
        shared: &SharedState,
        state: Option<StateTask>,
    ) -> Result<Option<WorkerReports>, ExpectedError> {
        let arm = shared.builder(self.plan);
        let mut job = self.job(arm, None)?;
        job.task = shared.load.as_ref().map(|load| self.plan.loading(load.cells[0], load.number, self.data));
        job.state = state;
        match self.send_until_not_lost(arm, &job)? {
            (JobOutcome::Interrupted, _) => Ok(None),
            (JobOutcome::Failed(failure), _) => {
                let load = shared.load.as_ref().map(|load| format!(", {}", self.plan.load_in_words(load)));
                let context = format!("arm {}{}", job.arm.name, load.unwrap_or_default());
                Err(ExpectedError::Run { context, failure })
            }
            (JobOutcome::Measured(_), reports) => Ok(Some(reports)),
        }
    }

    /// Makes one filesystem in its state and saves it. False if interrupted.
    fn prepare_state(
        &mut self,
        kept: usize,
        shared: SharedState,
        room: Bytes,
    ) -> Result<bool, ExpectedError> {
        let plan = self.plan;
        let names: Vec<&str> = shared.arms.iter().map(|arm| plan.trial.arms[*arm].name.as_str()).collect();
        let restoring = plan.trial.trial.restore;
        let step = StateStep::Prepare { state: shared.state, seed: plan.seed, data: self.data, room };
        let what = match &shared.load {
            Some(load) => plan.load_in_words(load),
            None => shared.state.to_string(),
        };
        let builder = shared.builder(plan);
        self.tell(&Event::StatePreparing { arm: &plan.trial.arms[builder].name, state: &what })?;
        let state = StateTask { kept, restoring, step };
        let Some(reports) = self.built(&shared, Some(state))? else { return Ok(false) };
        let Some((mut figures, mkfs_output)) = reports.prepared else {
            let what = format!("a worker did not report the state prepared for {}", names[0]);
            return Err(self.blame(builder, ExpectedError::Fault(what)));
        };
        if shared.load.is_some() {
            figures.requested = format!("{}, {what}", shared.state);
        }
        self.tell(&Event::StatePrepared { arms: &names, figures: &figures })?;
        let loaded = shared.load.is_some();
        if !loaded {
            shared.arms.iter().try_for_each(|arm| self.require_room(*arm, figures.available))?;
        }
        let step = StateStep::Restore { loaded, figures, mkfs_output };
        self.restored.push((shared, StateTask { kept, restoring, step }));
        Ok(true)
    }

    /// Refuses workloads whose files do not fit in the space left by a state.
    fn require_room(&self, arm: usize, available: Bytes) -> Result<(), ExpectedError> {
        let plan = self.plan;
        let cells = (0..plan.cells.len()).filter(|cell| plan.cells[*cell].arm == arm);
        let needed = cells.map(|cell| {
            let about = &plan.cells[cell];
            (plan.workloads[about.workload].space_needed(about.threads), cell)
        });
        let needed = needed.max();
        match needed {
            Some((needed, cell)) if needed > available => Err(ExpectedError::usage(
                format!(
                    "{} needs {} for its files, and the prepared filesystem has {} left",
                    plan.cell_name(cell),
                    needed.human(),
                    available.human()
                ),
                "use a larger device (its size), smaller files (file_size), or a state with more room",
            )),
            _ => Ok(()),
        }
    }
}
