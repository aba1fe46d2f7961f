//! Permitted jobs of an agent: those of the plan that it derived from the trial itself, and no others.
//!
//! A trial is checked when it is read; a job is not, and its arm and its loads reach mkfs, mount and the engine as
//! root. So a job is compared with the plan: it may choose an arm, a workload and a level in it, and numbers from
//! outside (seeds, content of the files), and it may be observed.

use crate::{plan::Plan, prepared::shared};
use fstrial_model::{
    job::{Job, Purpose, StateStep, StateTask, Task},
    workload::Data,
};

/// True if the plan has a job for a place.
pub(super) fn is_planned(plan: &Plan, place: &str, job: &Job) -> bool {
    let is_it = |arm: &_| plan.trial.built(arm) == job.arm && job.arm.place.as_deref() == Some(place);
    let Some(arm) = plan.trial.arms.iter().position(is_it) else { return false };
    job.memory == plan.trial.memory_of(&job.arm)
        && (!job.fsck || plan.trial.trial.fsck)
        && job.state.as_ref().is_none_or(|state| is_planned_state(plan, arm, state, job.task.as_ref()))
        && job.task.as_ref().is_none_or(|task| is_planned_task(plan, arm, task))
}

/// A load is made by the task of one of its cells; other states are made without one.
fn is_planned_state(plan: &Plan, arm: usize, state: &StateTask, task: Option<&Task>) -> bool {
    let all = shared(plan);
    let Some(kept) = all.get(state.kept).filter(|kept| kept.arms.contains(&arm)) else { return false };
    let is_its = match &state.step {
        StateStep::Prepare { state, .. } => {
            let is_made = match (&kept.load, task) {
                (Some(load), Some(task)) => load.cells.iter().any(|cell| is_task_of(plan, *cell, task)),
                (None, None) => true,
                _ => false,
            };
            *state == kept.state && is_made
        }
        StateStep::Restore { loaded, .. } => *loaded == kept.load.is_some(),
    };
    is_its && state.restoring == plan.trial.trial.restore
}

fn is_planned_task(plan: &Plan, arm: usize, task: &Task) -> bool {
    let mut task = task.clone();
    if task.purpose == Purpose::Evidence {
        task.purpose = Purpose::Timed;
    }
    let mut of_arm = (0..plan.cells.len()).filter(|cell| plan.cells[*cell].arm == arm);
    of_arm.any(|cell| is_task_of(plan, cell, &task))
}

fn is_task_of(plan: &Plan, cell: usize, task: &Task) -> bool {
    with_numbers_of(plan.task(cell, 0, Data::Random), task) == *task
}

/// A task with the numbers of another one that do not come from the plan.
fn with_numbers_of(mut planned: Task, task: &Task) -> Task {
    for (phase, other) in planned.phases.iter_mut().zip(&task.phases) {
        for (group, other) in phase.groups.iter_mut().zip(&other.groups) {
            let (load, other) = (&mut group.load, &other.load);
            (load.seed, load.data) = (other.seed, other.data);
        }
    }
    if let (Some(program), Some(other)) = (&mut planned.program, &task.program) {
        program.seed = other.seed;
    }
    if let (Some(operation), Some(other)) = (&mut planned.operation, &task.operation) {
        (operation.seed, operation.data) = (other.seed, other.data);
    }
    planned
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::{
        job::PROTOCOL,
        trial::Trial,
        units::{Bytes, Nanos},
    };

    const TRIAL: &str = "
        [trial]
        memory = '64MiB'
        [device]
        kind = 'model'
        model = 'hdd-7200'
        size = '320MiB'
        [[place]]
        name = 'box'
        [[arm]]
        filesystem = 'ext4'
        [[arm]]
        name = 'there'
        filesystem = 'xfs'
        place = 'box'
        [[arm]]
        name = 'aged'
        filesystem = 'ext4'
        state = 'filled:30%'
        place = 'box'
        [[workload]]
        use = 'append-fsync'
        threads = [1, 2]
        [[workload]]
        kind = 'program'
        name = 'own'
        threads = [1]
        command = ['true']
        [[workload.metric]]
        name = 'wall'
        measure = 'wall'
    ";

    /// The plan of a trial, and the job of a cell there.
    fn planned(arm: usize, workload: usize) -> (Plan, Job) {
        let plan = Plan::new(Trial::parse("trial", TRIAL).unwrap().settled(2).unwrap(), 7).unwrap();
        let cell = plan.cells.iter().position(|cell| cell.arm == arm && cell.workload == workload).unwrap();
        let arm = plan.trial.built(&plan.trial.arms[arm]);
        let memory = plan.trial.memory_of(&arm);
        let task = Some(plan.task(cell, 3, Data::Zero));
        (plan, Job { protocol: PROTOCOL, arm, task, state: None, memory, fsck: false })
    }

    #[test]
    fn a_job_of_the_plan_may_have_other_seeds_and_data() {
        for workload in [0, 1] {
            let (plan, mut job) = planned(1, workload);
            for phase in &mut job.task.as_mut().unwrap().phases {
                (phase.groups[0].load.seed, phase.groups[0].load.data) = (9, Data::Random);
            }
            assert!(is_planned(&plan, "box", &job));
            job.task.as_mut().unwrap().purpose = Purpose::Evidence;
            assert!(is_planned(&plan, "box", &job), "it is observed");
            job.task = None;
            assert!(is_planned(&plan, "box", &job), "an arm is looked at");
        }
    }

    #[test]
    fn rejects_unplanned_jobs() {
        type Change = fn(&mut Job);
        let changes: [(&str, Change); 12] = [
            ("warmup", |job| {
                job.task.as_mut().unwrap().phases[0].groups[0].load.warmup = Nanos::secs(9);
            }),
            ("rotational", |job| job.arm.rotational = None),
            ("cache", |job| job.arm.cache = None),
            ("mkfs", |job| job.arm.mkfs.push("/dev/sda".into())),
            ("mount", |job| job.arm.mount.push("x-mount.mkdir".into())),
            ("filesystem", |job| job.arm.filesystem = "ext4".into()),
            ("memory", |job| job.memory = None),
            ("fsck", |job| job.fsck = true),
            ("no place", |job| job.arm.place = None),
            ("set", |job| job.task.as_mut().unwrap().phases[0].groups[0].load.set = "other".parse().unwrap()),
            ("groups", |job| job.task.as_mut().unwrap().phases[0].groups.clear()),
            ("threads", |job| job.task.as_mut().unwrap().threads = 1024),
        ];
        for (what, change) in changes {
            let (plan, mut job) = planned(1, 0);
            change(&mut job);
            assert!(!is_planned(&plan, "box", &job), "{what}");
        }
        let (plan, mut job) = planned(1, 1);
        job.task.as_mut().unwrap().program.as_mut().unwrap().program.command = vec!["id".into()];
        assert!(!is_planned(&plan, "box", &job), "another program");
        let (plan, job) = planned(0, 0);
        assert!(!is_planned(&plan, "box", &job), "an arm of this host");
    }

    #[test]
    fn prepared_state_must_match_planned_arm() {
        let (plan, mut job) = planned(2, 0);
        let all = shared(&plan);
        let kept = all.iter().position(|kept| kept.arms.contains(&2)).unwrap();
        let prepare = |kept: usize, state| StateTask {
            kept,
            restoring: plan.trial.trial.restore,
            step: StateStep::Prepare { state, seed: 1, data: Data::Random, room: Bytes::mib(200) },
        };
        job.state = Some(prepare(kept, all[kept].state));
        assert!(!is_planned(&plan, "box", &job), "no task makes it");
        job.task = None;
        assert!(is_planned(&plan, "box", &job));
        job.state = Some(prepare(kept, "filled:90%".parse().unwrap()));
        assert!(!is_planned(&plan, "box", &job), "another state");
        job.state = Some(prepare(all.len(), all[kept].state));
        assert!(!is_planned(&plan, "box", &job), "no such filesystem");
    }

    /// The task that makes a load is one of those that work on it.
    #[test]
    fn loading_task_must_match_workload() {
        let text = "
            [trial]
            state = 'loaded:2'
            [[place]]
            name = 'box'
            [[arm]]
            filesystem = 'ext4'
            place = 'box'
            [[arm]]
            filesystem = 'xfs'
            place = 'box'
            [[workload]]
            use = 'ycsb-a'
            [[workload]]
            use = 'ycsb-a-lsm'
        ";
        let plan = Plan::new(Trial::parse("trial", text).unwrap().settled(2).unwrap(), 7).unwrap();
        let all = shared(&plan);
        let kept =
            all.iter().position(|kept| kept.load.as_ref().is_some_and(|load| load.number == 1)).unwrap();
        let cells = &all[kept].load.as_ref().unwrap().cells;
        let arm = plan.trial.built(&plan.trial.arms[all[kept].builder(&plan)]);
        let step = StateStep::Prepare { state: all[kept].state, seed: 1, data: Data::Random, room: Bytes(0) };
        let restoring = plan.trial.trial.restore;
        let mut job = Job {
            protocol: PROTOCOL,
            arm,
            task: Some(plan.loading(cells[0], 1, Data::Random)),
            state: Some(StateTask { kept, restoring, step }),
            memory: None,
            fsck: false,
        };
        assert!(is_planned(&plan, "box", &job));
        let other = (0..plan.cells.len()).find(|cell| plan.content(*cell) != plan.content(cells[0])).unwrap();
        job.task = Some(plan.loading(other, 1, Data::Random));
        assert!(!is_planned(&plan, "box", &job), "another workload's records");
        job.task = None;
        assert!(!is_planned(&plan, "box", &job), "nothing to load");
    }
}
