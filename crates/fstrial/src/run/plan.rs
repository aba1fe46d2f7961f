//! The plan of a trial: its cells, its contrasts and the order of every round, as a pure function of trial and seed.

use fstrial_model::{
    job::{GroupTask, Load, PhaseTask, Task},
    trial::{Metric, Problem, Trial, can_run},
    units::Bytes,
    workload::{Data, Group, Phase, ResultKind, Workload},
};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// One cell: an arm under a workload at a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    /// Index of the workload.
    pub workload: usize,
    /// Number of threads.
    pub threads: u16,
    /// Index of the arm.
    pub arm: usize,
}

/// A comparison of two cells of one workload and level, `a` over `b`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contrast {
    /// Index of the cell that is measured against the other.
    pub a: usize,
    /// Index of the cell it is measured against.
    pub b: usize,
    /// Index of the result in those of the workload.
    pub result: usize,
    /// On what.
    pub metric: Metric,
    /// Whether the trial goes on until this is decided.
    pub holds_open: bool,
}

/// Everything that is decided before the first run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The trial as written.
    pub trial: Trial,
    /// Its workloads with every field settled.
    pub workloads: Vec<Workload>,
    /// What a run of each workload yields.
    pub results: Vec<Vec<ResultKind>>,
    /// Every cell that can be run, by workload, level and arm.
    pub cells: Vec<Cell>,
    /// Every comparison, in the order they are reported.
    pub contrasts: Vec<Contrast>,
    /// What everything random is drawn from.
    pub seed: u64,
    /// Size of a device that is made.
    pub device_size: Bytes,
}

impl Plan {
    /// Plans a trial. `cpus` decides default levels.
    ///
    /// # Errors
    /// The trial is impossible.
    pub fn new(mut trial: Trial, seed: u64, cpus: u16) -> Result<Self, Problem> {
        // Whatever is stored or printed of the trial repeats it, order and all.
        trial.trial.seed = Some(seed);
        if let Some(problem) = trial.problem() {
            return Err(problem);
        }
        let workloads = trial.resolve_workloads(cpus)?;
        let device_size = trial.device_size(&workloads);
        let mut cells = Vec::new();
        for (workload, described) in workloads.iter().enumerate() {
            for &threads in &described.threads {
                let able = trial.arms.iter().enumerate().filter(|(_, arm)| can_run(arm, described));
                cells.extend(able.map(|(arm, _)| Cell { workload, threads, arm }));
            }
        }
        let results: Vec<Vec<ResultKind>> =
            workloads.iter().map(|workload| workload.results().collect()).collect();
        let contrasts = contrasts(&trial, &cells, &results);
        Ok(Self { trial, workloads, results, cells, contrasts, seed, device_size })
    }

    /// The order of a round: groups (workload × level) shuffled, then the arms inside each group, so that the slots of
    /// two compared cells are exchangeable. Cells that are no longer run are left out afterwards, which keeps it so.
    pub fn order(&self, round: u32) -> Vec<usize> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed ^ (u64::from(round) << 32));
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for (index, cell) in self.cells.iter().enumerate() {
            let key = |at: usize| (self.cells[at].workload, self.cells[at].threads);
            match groups.last_mut().filter(|group| key(group[0]) == (cell.workload, cell.threads)) {
                Some(group) => group.push(index),
                None => groups.push(vec![index]),
            }
        }
        shuffle(&mut groups, &mut random);
        for group in &mut groups {
            shuffle(group, &mut random);
        }
        groups.into_iter().flatten().collect()
    }

    /// The task of a cell in a round: the same seeds for every arm.
    pub fn task(&self, cell: usize, round: u32, data: Data) -> Task {
        let Cell { workload, threads, arm } = self.cells[cell];
        let mut random = ChaCha8Rng::seed_from_u64(self.seed.rotate_left(17) ^ (u64::from(round) << 20));
        let mut group_task = |phase: &Phase, group: &Group| GroupTask {
            result: (phase.measured && !group.background).then(|| phase.result_name(group)),
            figure: group.figure,
            load: Load {
                pattern: group.pattern.clone(),
                set: group.set.clone(),
                threads: group.workers(threads),
                warmup: phase.warmup,
                duration: phase.duration,
                until: phase.until,
                seed: random.next_u64(),
                data,
                handicap: self.trial.arms[arm].handicap.unwrap_or_default(),
            },
        };
        let mut phase_task = |phase: &Phase| PhaseTask {
            settle: phase.settle,
            find_rate: phase.find_rate,
            groups: phase.groups.iter().map(|group| group_task(phase, group)).collect(),
        };
        Task { threads, phases: self.workloads[workload].phases.iter().map(&mut phase_task).collect() }
    }

    /// The name of an arm.
    pub fn arm_name(&self, cell: usize) -> &str {
        &self.trial.arms[self.cells[cell].arm].name
    }

    /// A cell in words: `ext4 · random-write · 4 threads`.
    pub fn cell_name(&self, cell: usize) -> String {
        let Cell { workload, threads, .. } = self.cells[cell];
        format!("{} · {} · {}", self.arm_name(cell), self.workloads[workload].name, threads_in_words(threads))
    }

    /// A result of a cell in words: `ext4 · bonnie, rewrite · 1 thread`.
    pub fn result_name(&self, cell: usize, result: usize) -> String {
        let Cell { workload, threads, .. } = self.cells[cell];
        let title = self.title(workload, result);
        format!("{} · {title} · {}", self.arm_name(cell), threads_in_words(threads))
    }

    /// A workload's result in words: `bonnie, rewrite`.
    pub fn title(&self, workload: usize, result: usize) -> String {
        let name = &self.workloads[workload].name;
        match self.results[workload][result].name.as_str() {
            "" => name.clone(),
            phase => format!("{name}, {phase}"),
        }
    }

    /// The index of a cell by names, for reading stored runs.
    pub fn cell_of(&self, arm: &str, workload: &str, threads: u16) -> Option<usize> {
        self.cells.iter().position(|cell| {
            self.trial.arms[cell.arm].name == arm
                && self.workloads[cell.workload].name == workload
                && cell.threads == threads
        })
    }
}

/// `1 thread`, `4 threads`.
pub fn threads_in_words(threads: u16) -> String {
    if threads == 1 { "1 thread".into() } else { format!("{threads} threads") }
}

/// All pairs, or all against the baseline; the arm named later over the one named earlier. The metrics that decide, and
/// p99, which gets a verdict from the rounds that the others needed.
fn contrasts(trial: &Trial, cells: &[Cell], results: &[Vec<ResultKind>]) -> Vec<Contrast> {
    let decide_on = &trial.trial.decide_on;
    let baseline =
        trial.trial.baseline.as_ref().and_then(|name| trial.arms.iter().position(|arm| arm.name == *name));
    let mut metrics = vec![Metric::Throughput, Metric::P99];
    for metric in decide_on {
        if !metrics.contains(metric) {
            metrics.push(*metric);
        }
    }
    let mut contrasts = Vec::new();
    for metric in metrics {
        for (b, cell_b) in cells.iter().enumerate() {
            for (a, cell_a) in cells.iter().enumerate().skip(b + 1) {
                if (cell_a.workload, cell_a.threads) != (cell_b.workload, cell_b.threads) {
                    continue;
                }
                let (a, b) = match baseline {
                    None => (a, b),
                    Some(base) if cell_b.arm == base => (a, b),
                    Some(base) if cell_a.arm == base => (b, a),
                    Some(_) => continue,
                };
                let results = results[cell_a.workload].iter().enumerate();
                let comparable =
                    results.filter(|(_, kind)| kind.has_latencies || metric.quantile().is_none());
                let holds_open = decide_on.contains(&metric);
                contrasts.extend(comparable.map(|(result, _)| Contrast { a, b, result, metric, holds_open }));
            }
        }
    }
    contrasts
}

/// Fisher and Yates' shuffle, with Lemire's unbiased bounded numbers (ACM TOMACS 29, 2019).
fn shuffle<T>(items: &mut [T], random: &mut ChaCha8Rng) {
    for last in (1..items.len()).rev() {
        let other = bounded(random, last as u64 + 1);
        items.swap(last, usize::try_from(other).expect("below the length"));
    }
}

fn bounded(random: &mut ChaCha8Rng, bound: u64) -> u64 {
    let threshold = bound.wrapping_neg() % bound;
    loop {
        let product = u128::from(random.next_u64()) * u128::from(bound);
        #[expect(clippy::cast_possible_truncation, reason = "the low half is what the method looks at")]
        let low = product as u64;
        if low >= threshold {
            return (product >> 64) as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::{arm::Arm, workload::Entry};
    use std::collections::BTreeMap;

    fn trial(arms: &[&str], workloads: &[&str]) -> Trial {
        Trial {
            arms: arms.iter().map(|text| text.parse::<Arm>().unwrap()).collect(),
            workloads: workloads.iter().map(|name| Entry::of_preset(name)).collect(),
            ..Trial::default()
        }
    }

    fn described(plan: &Plan) -> String {
        let mut out = String::new();
        for round in 1..=3 {
            out += &format!("round {round}\n");
            for cell in plan.order(round) {
                out += &format!(
                    "  {} seed {:016x}\n",
                    plan.cell_name(cell),
                    plan.task(cell, round, Data::Random).phases[0].groups[0].load.seed
                );
            }
        }
        for contrast in &plan.contrasts {
            let held = if contrast.holds_open { "decides" } else { "reported" };
            out += &format!(
                "{} / {} {} {held}\n",
                plan.cell_name(contrast.a),
                plan.cell_name(contrast.b),
                contrast.metric.name()
            );
        }
        out
    }

    #[test]
    fn the_plan_is_a_function_of_trial_and_seed() {
        let plan =
            Plan::new(trial(&["ext4", "xfs:agcount=16"], &["random-write", "append-fsync"]), 7, 4).unwrap();
        insta::assert_snapshot!(described(&plan));
        let again = Plan::new(plan.trial.clone(), 7, 4).unwrap();
        assert_eq!(described(&plan), described(&again));
        let other = Plan::new(plan.trial.clone(), 8, 4).unwrap();
        assert_ne!(described(&plan), described(&other));
    }

    #[test]
    fn every_round_is_complete_and_groups_stay_together() {
        let plan =
            Plan::new(trial(&["ext4", "xfs", "btrfs"], &["random-write", "append-fsync"]), 1, 4).unwrap();
        for round in 1..50 {
            let order = plan.order(round);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..plan.cells.len()).collect::<Vec<_>>());
            for group in order.chunks(3) {
                let keys: std::collections::BTreeSet<_> = group
                    .iter()
                    .map(|cell| (plan.cells[*cell].workload, plan.cells[*cell].threads))
                    .collect();
                assert_eq!(keys.len(), 1, "the arms of a group run one after the other");
            }
        }
    }

    #[test]
    fn orders_inside_a_group_are_equally_likely() {
        let plan = Plan::new(trial(&["ext4", "xfs", "btrfs"], &["random-write"]), 3, 1).unwrap();
        let mut seen: BTreeMap<Vec<usize>, u32> = BTreeMap::new();
        for round in 1..=6000 {
            *seen.entry(plan.order(round)).or_default() += 1;
        }
        assert_eq!(seen.len(), 6);
        // Binomial(6000, 1/6): mean 1000, standard deviation 29; five of them is one false alarm in a million.
        assert!(seen.values().all(|count| (855..=1145).contains(count)), "{seen:?}");
    }

    #[test]
    fn every_arm_of_a_round_has_the_same_load() {
        let plan = Plan::new(trial(&["ext4", "xfs"], &["random-write"]), 3, 1).unwrap();
        assert_eq!(plan.task(0, 5, Data::Random), plan.task(1, 5, Data::Random));
        assert_ne!(plan.task(0, 5, Data::Random), plan.task(0, 6, Data::Random));
    }

    #[test]
    fn a_baseline_leaves_out_the_other_pairs() {
        let mut with_baseline = trial(&["ext4", "xfs", "btrfs"], &["random-write"]);
        with_baseline.trial.baseline = Some("xfs".into());
        let plan = Plan::new(with_baseline, 1, 1).unwrap();
        assert!(plan.contrasts.iter().all(|contrast| plan.arm_name(contrast.b) == "xfs"));
        assert_eq!(plan.contrasts.iter().filter(|contrast| contrast.holds_open).count(), 2);
    }

    #[test]
    fn the_bare_device_runs_what_it_can() {
        let plan =
            Plan::new(trial(&["raw", "ext4", "xfs"], &["random-write", "create-files"]), 1, 1).unwrap();
        assert_eq!(plan.cells.len(), 5);
    }
}
