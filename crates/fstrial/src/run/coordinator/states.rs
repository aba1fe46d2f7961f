//! States before the first round: which arms share one, making each once, and whether the workloads still fit.

use super::{Coordinator, Said};
use crate::{
    error::ExpectedError,
    run::{event::Event, place::Ended},
};
use fstrial_model::{
    arm::Arm,
    job::{Job, StateStep, StateTask},
    state::{Space, State},
    units::Bytes,
};

/// The arms that begin with one and the same filesystem, by index, and the state it is in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shared {
    /// At least one.
    pub(crate) arms: Vec<usize>,
    pub(crate) state: State,
}

/// What makes two filesystems alike before a load: arms that differ in their queue only share one.
fn is_alike(a: &Arm, b: &Arm) -> bool {
    a.filesystem == b.filesystem
        && a.mkfs == b.mkfs
        && a.profile == b.profile
        && a.mount_options() == b.mount_options()
}

/// The filesystems that are prepared, each with its arms. None if every run makes its own.
pub(crate) fn shared(trial: &fstrial_model::trial::Trial) -> Vec<Shared> {
    let mut all: Vec<Shared> = Vec::new();
    if !trial.restores() {
        return all;
    }
    for (index, arm) in trial.arms.iter().enumerate() {
        let Some(state) = trial.state_of(arm) else { continue };
        let fits = |shared: &&mut Shared| shared.state == state && is_alike(&trial.arms[shared.arms[0]], arm);
        match all.iter_mut().find(fits) {
            Some(shared) => shared.arms.push(index),
            None => all.push(Shared { arms: vec![index], state }),
        }
    }
    all
}

impl Coordinator<'_, '_> {
    /// Prepares the filesystem of every arm, if any arm asks for a state. False if interrupted.
    pub(super) fn prepare_states(&mut self) -> Result<bool, ExpectedError> {
        let all = shared(&self.plan.trial);
        let Some(spaces) = self.fresh_spaces(&all)? else { return Ok(false) };
        for shared in &all {
            let utilisation = shared.state.utilisation();
            let room = spaces.iter().map(|space| space.room(utilisation)).min().unwrap_or_default();
            if !self.prepare_state(shared, room)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Builds each filesystem once as mkfs makes it: the room that all have is what shares are of, so that each gets the
    /// same files. None if interrupted.
    fn fresh_spaces(&mut self, all: &[Shared]) -> Result<Option<Vec<Space>>, ExpectedError> {
        let mut spaces = Vec::new();
        for shared in all {
            let job = self.job(shared.arms[0]);
            let Some(said) = self.built(&job)? else { return Ok(None) };
            spaces.push(said.space);
        }
        Ok(Some(spaces))
    }

    /// What a worker says of a job without a load. None if interrupted.
    fn built(&mut self, job: &Job) -> Result<Option<Said>, ExpectedError> {
        match self.send_until_not_lost(job)? {
            (Ended::Interrupted, _) => Ok(None),
            (Ended::Failed(failure), _) => {
                Err(ExpectedError::Run { context: format!("arm {}", job.arm.name), failure })
            }
            (Ended::Measured(_), said) => Ok(Some(said)),
        }
    }

    /// Makes one filesystem in its state and saves it. False if interrupted.
    fn prepare_state(&mut self, shared: &Shared, room: Bytes) -> Result<bool, ExpectedError> {
        let plan = self.plan;
        let names: Vec<&str> = shared.arms.iter().map(|arm| plan.trial.arms[*arm].name.as_str()).collect();
        let (base, restoring) = ((self.context.new_base)()?, plan.trial.trial.restore);
        let step = StateStep::Prepare { state: shared.state, seed: plan.seed, data: self.context.data, room };
        let mut job = self.job(shared.arms[0]);
        job.state = Some(StateTask { base: base.clone(), restoring, step });
        self.tell(&Event::StatePreparing { arm: names[0], state: &shared.state.to_string() })?;
        let Some(said) = self.built(&job)? else { return Ok(false) };
        let Some((figures, mkfs_output)) = said.prepared else {
            return Err(ExpectedError::Fault(format!(
                "a worker did not say what it prepared for {}",
                names[0]
            )));
        };
        self.tell(&Event::StatePrepared { arms: &names, figures: &figures })?;
        for arm in &shared.arms {
            self.require_room(*arm, figures.available)?;
            let step = StateStep::Restore { figures: figures.clone(), mkfs_output: mkfs_output.clone() };
            self.restored[*arm] = Some(StateTask { base: base.clone(), restoring, step });
        }
        Ok(true)
    }

    /// Refuses workloads whose files do not fit in what a state leaves.
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
                "use a larger --size, smaller files (--file-size), or a state with more room",
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::trial::Trial;

    fn groups(arms: &[&str], state: Option<&str>) -> Vec<(Vec<usize>, String)> {
        let mut trial =
            Trial { arms: arms.iter().map(|arm| arm.parse().unwrap()).collect(), ..Trial::default() };
        trial.trial.state = state.map(|state| state.parse().unwrap());
        shared(&trial).into_iter().map(|shared| (shared.arms, shared.state.to_string())).collect()
    }

    #[test]
    fn arms_that_are_made_alike_share_a_filesystem() {
        assert_eq!(groups(&["ext4", "xfs"], None), []);
        assert_eq!(
            groups(&["a=ext4", "b=ext4:scheduler=none", "ext4:noatime", "raw"], Some("aged")),
            [(vec![0, 1], "aged:70%".into()), (vec![2], "aged:70%".into())]
        );
        // A fresh arm beside an aged one is prepared and put back as well.
        assert_eq!(
            groups(&["ext4", "ext4:state=filled:80%", "xfs:state=fresh"], None),
            [(vec![0], "fresh".into()), (vec![1], "filled:80%".into()), (vec![2], "fresh".into())]
        );
    }
}
