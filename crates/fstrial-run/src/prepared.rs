//! Arms that share a prepared filesystem.

use crate::plan::Plan;
use fstrial_model::{
    arm::Arm,
    state::{Loaded, State},
};

/// The arms that begin with one and the same filesystem, by index, and the state it is in.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedState {
    /// At least one.
    pub arms: Vec<usize>,
    pub state: State,
    /// The data that are loaded on it; none in a state without.
    pub load: Option<SharedLoad>,
}

/// Data that are loaded on a filesystem, and the runs that begin with them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedLoad {
    /// The cells of the arms that work on them: the task of the first one loads them.
    pub cells: Vec<usize>,
    /// Its number, from 0.
    pub number: u32,
    content: String,
}

/// True if two arms make the same filesystem: arms that differ only in their queue share one.
fn is_alike(a: &Arm, b: &Arm) -> bool {
    a.place == b.place
        && a.filesystem == b.filesystem
        && a.mkfs == b.mkfs
        && a.profile == b.profile
        && a.mount_options() == b.mount_options()
}

/// The filesystems that are prepared, each with its arms; empty if every run makes its own.
pub fn shared(plan: &Plan) -> Vec<SharedState> {
    let (trial, mut all) = (&plan.trial, Vec::<SharedState>::new());
    if !trial.restores() {
        return all;
    }
    for (index, arm) in trial.arms.iter().enumerate() {
        let Some(state) = trial.state_of(arm) else { continue };
        let fits =
            |shared: &&mut SharedState| shared.state == state && is_alike(&trial.arms[shared.arms[0]], arm);
        match all.iter_mut().find(fits) {
            Some(shared) => shared.arms.push(index),
            None => all.push(SharedState { arms: vec![index], state, load: None }),
        }
    }
    all.into_iter().flat_map(|shared| with_loads(plan, shared)).collect()
}

/// An entry for each load if the state has loads, otherwise the filesystem itself.
fn with_loads(plan: &Plan, shared: SharedState) -> Vec<SharedState> {
    match shared.state {
        State::Loaded(Loaded { loads }) => loads_on(plan, &shared.arms, loads)
            .into_iter()
            .map(|load| SharedState { load: Some(load), ..shared.clone() })
            .collect(),
        _ => vec![shared],
    }
}

/// Loads on arms: for each content this many loads.
fn loads_on(plan: &Plan, arms: &[usize], loads: u32) -> Vec<SharedLoad> {
    let mut contents: Vec<(String, Vec<usize>)> = Vec::new();
    for cell in (0..plan.cells.len()).filter(|cell| arms.contains(&plan.cells[*cell].arm)) {
        let Some(content) = plan.content(cell) else { continue };
        match contents.iter_mut().find(|(other, _)| *other == content) {
            Some((_, cells)) => cells.push(cell),
            None => contents.push((content, vec![cell])),
        }
    }
    let each = |(content, cells): (String, Vec<usize>)| {
        (0..loads).map(move |number| SharedLoad { cells: cells.clone(), number, content: content.clone() })
    };
    contents.into_iter().flat_map(each).collect()
}

impl Plan {
    /// `load 2 of ycsb-a and ycsb-c`.
    pub fn load_in_words(&self, load: &SharedLoad) -> String {
        format!("load {} of {}", load.number + 1, self.loaded_workloads(load))
    }

    /// `ycsb-a and ycsb-c`.
    pub fn loaded_workloads(&self, load: &SharedLoad) -> String {
        // Cells are ordered by workload.
        let workload = |cell: &usize| self.workloads[self.cells[*cell].workload].name.as_str();
        let mut names: Vec<&str> = load.cells.iter().map(workload).collect();
        names.dedup();
        names.join(" and ")
    }
}

impl SharedState {
    /// The arm that builds it.
    pub fn builder(&self, plan: &Plan) -> usize {
        self.load.as_ref().map_or(self.arms[0], |load| plan.cells[load.cells[0]].arm)
    }

    /// True if runs of a cell of a plan start from it in a round; without a cell, if any run of the arm may.
    pub fn is_of(&self, arm: usize, run: Option<(&Plan, usize, u32)>) -> bool {
        let fits = match (&self.load, run) {
            (Some(load), Some((plan, cell, round))) => {
                plan.load_of(arm, round) == Some(load.number)
                    && plan.content(cell).as_ref() == Some(&load.content)
            }
            _ => true,
        };
        self.arms.contains(&arm) && fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::{trial::Trial, workload::Entry};

    fn plan(arms: &[&str], state: Option<&str>, workloads: &[&str]) -> Plan {
        let mut trial = Trial {
            arms: arms.iter().map(|arm| arm.parse().unwrap()).collect(),
            workloads: workloads.iter().map(|name| Entry::of_preset(name)).collect(),
            ..Trial::default()
        };
        trial.trial.state = state.map(|state| state.parse().unwrap());
        Plan::new(trial.settled(1).unwrap(), 1).unwrap()
    }

    fn groups(arms: &[&str], state: Option<&str>) -> Vec<(Vec<usize>, String)> {
        let all = shared(&plan(arms, state, &["random-write"]));
        all.into_iter().map(|shared| (shared.arms, shared.state.to_string())).collect()
    }

    #[test]
    fn identically_made_arms_share_filesystem() {
        assert_eq!(groups(&["ext4", "xfs"], None), []);
        assert_eq!(
            groups(&["a=ext4", "b=ext4:scheduler=none", "ext4:noatime", "raw"], Some("aged")),
            [(vec![0, 1], "aged:70%".into()), (vec![2], "aged:70%".into())]
        );
        // A fresh arm next to an aged one is prepared and restored as well.
        assert_eq!(
            groups(&["ext4", "ext4:state=filled:80%", "xfs:state=fresh"], None),
            [(vec![0], "fresh".into()), (vec![1], "filled:80%".into()), (vec![2], "fresh".into())]
        );
    }

    /// A slowed copy of an arm that runs other workloads than the arm itself: its loads are made too, by a separate
    /// task.
    #[test]
    fn workload_only_on_later_arm_is_still_loaded() {
        let mut plan =
            plan(&["a=ext4", "b=ext4:scheduler=none"], Some("loaded:2"), &["ycsb-a", "ycsb-a-lsm"]);
        let lsm = plan.workloads.iter().position(|workload| workload.name == "ycsb-a-lsm").unwrap();
        plan.cells.retain(|cell| !(cell.arm == 0 && cell.workload == lsm));
        let all = shared(&plan);
        for cell in 0..plan.cells.len() {
            let arm = plan.cells[cell].arm;
            for round in 1..=2 {
                let of_it: Vec<_> =
                    all.iter().filter(|shared| shared.is_of(arm, Some((&plan, cell, round)))).collect();
                assert_eq!(of_it.len(), 1, "{} in round {round}", plan.cell_name(cell));
                let builder = of_it[0].builder(&plan);
                assert_eq!(plan.cells[of_it[0].load.as_ref().unwrap().cells[0]].arm, builder);
            }
        }
        assert_eq!(all.len(), 4);
        assert_eq!(plan.load_in_words(all[3].load.as_ref().unwrap()), "load 2 of ycsb-a-lsm");
    }

    /// Each load comes once in as many rounds as there are loads, not always in the same order.
    #[test]
    fn each_block_of_rounds_uses_every_load_once() {
        let plan = plan(&["ext4", "xfs"], Some("loaded:3"), &["ycsb-a"]);
        let blocks: Vec<Vec<u32>> = (0..20)
            .map(|block| (1..=3).map(|at| plan.load_of(0, 3 * block + at).unwrap()).collect())
            .collect();
        for block in &blocks {
            let mut sorted = block.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2]);
        }
        assert!(blocks.iter().any(|block| *block != blocks[0]), "{blocks:?}");
        assert!((1..=60).all(|round| plan.load_of(0, round) == plan.load_of(1, round)));
    }

    /// Workloads on the same records share loads, at all levels; others have their own. The arms of a round begin with the same.
    #[test]
    fn workloads_on_same_data_share_loads() {
        let plan = plan(
            &["a=ext4", "b=ext4:scheduler=none", "xfs"],
            Some("loaded:2"),
            &["ycsb-a", "ycsb-c", "postgresql-tpcb"],
        );
        let all = shared(&plan);
        let arms: Vec<&[usize]> = all.iter().map(|shared| &*shared.arms).collect();
        assert_eq!(arms, [&[0, 1][..], &[0, 1], &[0, 1], &[0, 1], &[2], &[2], &[2], &[2]]);
        let names = |shared: &SharedState| {
            let load = shared.load.as_ref().unwrap();
            let name = |cell: &usize| plan.workloads[plan.cells[*cell].workload].name.clone();
            let mut names: Vec<String> = load.cells.iter().map(name).collect();
            names.dedup();
            (names.join(" "), load.number)
        };
        let result: Vec<_> = all[..4].iter().map(names).collect();
        let records = "ycsb-a ycsb-c".to_owned();
        assert_eq!(plan.load_in_words(all[0].load.as_ref().unwrap()), "load 1 of ycsb-a and ycsb-c");
        assert_eq!(result[..2], [(records.clone(), 0), (records, 1)]);
        assert_eq!(result[2..], [("postgresql-tpcb".to_owned(), 0), ("postgresql-tpcb".to_owned(), 1)]);
        for round in 1..=20 {
            let first_of = |arm: usize| {
                let cell = (0..plan.cells.len()).find(|cell| plan.cells[*cell].arm == arm).unwrap();
                let mut of_it = all.iter().filter(|shared| shared.is_of(arm, Some((&plan, cell, round))));
                let result = of_it.next().unwrap().load.clone().unwrap().number;
                assert!(of_it.next().is_none());
                result
            };
            assert_eq!(first_of(0), first_of(2));
        }
    }
}
