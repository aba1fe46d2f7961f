//! The plan of a trial: its cells, its contrasts and the order of every round, as a pure function of trial and seed.

use super::{
    cell::{Ask, Cell, Contrast, Of},
    parts::{ClaimPart, claimed},
};
use fstrial_model::{
    arm::Arm,
    job::{GroupTask, Load, OperationTask, PhaseTask, ProgramTask, Purpose, Task},
    metric::Metric,
    place::PlaceSpec,
    problem::Problem,
    trial::{Compare, Settled, Trial, can_run},
    units::Bytes,
    workload::{Data, Group, Phase, ResultKind, Workload, comparable},
};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// The most cells of a trial: 64 arms at 64 workloads and levels.
const MAX_CELLS: usize = 4096;
/// The most comparisons of a trial, each metric counted.
const MAX_CONTRASTS: usize = 20_000;

/// Everything that is decided before the first run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The trial as written.
    pub trial: Trial,
    /// Its workloads with every field settled.
    pub workloads: Vec<Workload>,
    /// Results of a run, by workload.
    pub results: Vec<Vec<ResultKind>>,
    /// Every cell that can be run, by workload, level and arm.
    pub cells: Vec<Cell>,
    /// Every comparison, in the order they are reported.
    pub contrasts: Vec<Contrast>,
    /// The parts of the claim that the trial is to decide; none without a claim.
    pub parts: Vec<ClaimPart>,
    /// Seed of everything random.
    pub seed: u64,
    /// Processors of the machine that it was planned for.
    pub cpus: u16,
    /// Size of a device that is made.
    pub device_size: Bytes,
    /// The places where its arms are built, in the order in which arms name them; none: the host of the coordinator.
    pub places: Vec<Option<String>>,
    /// The place of every arm, by its index.
    pub place_of: Vec<usize>,
}

/// The places that arms name, and the index of each arm's.
fn places_of(arms: &[Arm]) -> (Vec<Option<String>>, Vec<usize>) {
    let mut places: Vec<Option<String>> = Vec::new();
    let mut index = |arm: &Arm| {
        places.iter().position(|place| *place == arm.place).unwrap_or_else(|| {
            places.push(arm.place.clone());
            places.len() - 1
        })
    };
    let place_of = arms.iter().map(&mut index).collect();
    (places, place_of)
}

impl Plan {
    /// Plans a trial.
    ///
    /// # Errors
    /// The trial is impossible.
    pub fn new(settled: Settled, seed: u64) -> Result<Self, Problem> {
        let (mut trial, workloads, cpus) = settled.into_parts();
        // With its seed, the stored or printed trial can be repeated, order included.
        trial.trial.seed = Some(seed);
        trial.add_control(cpus);
        if let Some(problem) = trial.problem() {
            return Err(problem);
        }
        let device_size = trial.device_size(&workloads);
        let mut cells = Vec::new();
        for (workload, described) in workloads.iter().enumerate() {
            for &threads in &described.threads {
                let able = trial.arms.iter().enumerate().filter(|(_, arm)| can_run(arm, described));
                cells.extend(able.map(|(arm, _)| Cell { workload, threads, arm }));
                if cells.len() > MAX_CELLS {
                    return Err(too_large(format!("more than {MAX_CELLS} runs in a round")));
                }
            }
        }
        let results: Vec<Vec<ResultKind>> =
            workloads.iter().map(|workload| workload.results().collect()).collect();
        let (contrasts, parts) = (Vec::new(), Vec::new());
        let (places, place_of) = places_of(&trial.arms);
        let mut plan = Self {
            trial,
            workloads,
            results,
            cells,
            contrasts,
            parts,
            seed,
            cpus,
            device_size,
            places,
            place_of,
        };
        match plan.trial.claim.clone().filter(|claim| !claim.question) {
            Some(claim) => {
                let parts = claim.parts(&plan.trial.arms, &plan.workloads, cpus)?;
                let practical = plan.trial.trial.practical.fraction();
                (plan.contrasts, plan.parts) = claimed(&mut plan.cells, parts, &plan.trial.arms, practical);
            }
            None => {
                plan.contrasts = all_pairs(&plan)?;
                if plan.trial.trial.leads {
                    let leads = leads(&plan);
                    plan.contrasts.extend(leads);
                }
            }
        }
        plan.contrasts.extend(controls(&plan));
        Ok(plan)
    }

    /// The plan as it concerns a place.
    #[must_use]
    pub fn at(&self, place: &PlaceSpec) -> Self {
        let trial = self.trial.at(place);
        Self { device_size: trial.device_size(&self.workloads), trial, ..self.clone() }
    }

    /// True if any arm is built on the device of the trial, rather than on a place's own.
    pub fn uses_its_device(&self) -> bool {
        let has_own = |name: &String| {
            self.trial.places.iter().any(|place| place.name == *name && place.device.is_some())
        };
        self.places.iter().any(|place| !place.as_ref().is_some_and(has_own))
    }

    /// The place of a cell, by its index.
    pub(super) fn place_of_cell(&self, cell: usize) -> usize {
        self.place_of[self.cells[cell].arm]
    }

    /// True if anything is built on this host.
    pub fn is_here(&self) -> bool {
        self.places.iter().any(|place| self.trial.is_here(place.as_ref()))
    }

    /// True if everything is.
    pub fn is_here_only(&self) -> bool {
        self.places.iter().all(|place| self.trial.is_here(place.as_ref()))
    }

    /// The order of a round: blocks of cells shuffled, then the cells inside each block. Compared cells are in one
    /// block, so that their slots are exchangeable, and stay so when cells that are no longer run are left out
    /// afterwards. Of arms at boots the boots are shuffled as well: among cells, a boot with more of them would come
    /// first more often.
    pub fn order(&self, round: u32) -> Vec<usize> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed ^ (u64::from(round) << 32));
        let mut blocks = self.blocks();
        shuffle(&mut blocks, &mut random);
        for block in &mut blocks {
            shuffle(block, &mut random);
        }
        let mut order: Vec<usize> = blocks.into_iter().flatten().collect();
        if self.trial.has_boots() {
            let mut ranks: Vec<usize> = (0..self.places.len()).collect();
            shuffle(&mut ranks, &mut random);
            order.sort_by_key(|cell| ranks[self.place_of_cell(*cell)]);
        }
        order
    }

    /// The cells of each setting (workload × level, or arm × level), which run directly after one another; settings are
    /// one block where cells of both are compared. Shuffled apart, a cell would begin the round more often than one
    /// that it is compared with, if more cells are left of the other's setting.
    fn blocks(&self) -> Vec<Vec<usize>> {
        let first_of = |cell| (0..cell).find(|other| self.setting(*other) == self.setting(cell));
        // By cell: the first one of its block.
        let mut block: Vec<usize> =
            (0..self.cells.len()).map(|cell| first_of(cell).unwrap_or(cell)).collect();
        for contrast in &self.contrasts {
            let one = contrast.cells().map(|cell| block[cell]).min().expect("a contrast has cells");
            for other in contrast.cells() {
                let other = block[other];
                block.iter_mut().filter(|first| **first == other).for_each(|first| *first = one);
            }
        }
        let is_first = |cell: &usize| block[*cell] == *cell;
        let members = |first: usize| (0..block.len()).filter(|cell| block[*cell] == first).collect();
        (0..block.len()).filter(is_first).map(members).collect()
    }

    /// The task of a cell in a round: the same seeds for every arm. `data` suits the device; the workload may override
    /// it.
    pub fn task(&self, cell: usize, round: u32, data: Data) -> Task {
        let Cell { workload, threads, arm } = self.cells[cell];
        let mut random = ChaCha8Rng::seed_from_u64(self.seed.rotate_left(17) ^ (u64::from(round) << 20));
        let mut group_task = |phase: &Phase, (number, group): (usize, &Group)| GroupTask {
            result: phase.yields(number).then(|| phase.result_name(group)),
            figure: group.figure,
            load: Load {
                pattern: group.pattern.clone(),
                set: group.set.clone(),
                threads: group.workers(threads),
                warmup: phase.warmup,
                duration: phase.duration,
                until: phase.until,
                seed: random.next_u64(),
                data: group.data.unwrap_or(data),
                rate: group.rate,
                handicap: self.trial.arms[arm].handicap.unwrap_or_default(),
            },
        };
        let mut phase_task = |phase: &Phase| PhaseTask {
            settle: phase.settle,
            one_folder: phase.one_folder,
            host_offset: phase.host_offset,
            find_rate: phase.find_rate.clone(),
            groups: phase.groups.iter().enumerate().map(|numbered| group_task(phase, numbered)).collect(),
        };
        let described = &self.workloads[workload];
        let phases = described.phases().iter().map(&mut phase_task).collect();
        let program = described.program().map(|timed| ProgramTask {
            program: timed.program.by_digest(),
            duration: timed.duration,
            seed: random.next_u64(),
        });
        let operation = described.operation().map(|timed| OperationTask {
            timed: timed.clone(),
            data: timed.data.unwrap_or(data),
            seed: random.next_u64(),
        });
        Task {
            threads,
            phases,
            program,
            operation,
            clients: self.trial.trial.clients,
            purpose: Purpose::Timed,
        }
    }

    /// The task that loads the data of a cell for the load of this number: it differs from that of a round in its seeds.
    pub fn loading(&self, cell: usize, number: u32, data: Data) -> Task {
        // Rounds count from 1.
        self.task(cell, u32::MAX - number, data)
    }

    /// Identity of a cell's data, if they can be loaded before; see [`Workload::loaded`].
    pub fn content(&self, cell: usize) -> Option<String> {
        let Cell { workload, threads, .. } = self.cells[cell];
        self.workloads[workload].loaded(threads)
    }

    /// The number of the load that runs of an arm begin with in a round; none if every run loads its data. In every
    /// block of as many rounds as there are loads each comes once, in an order drawn for that block, which arms with
    /// the same number of loads share.
    pub fn load_of(&self, arm: usize, round: u32) -> Option<u32> {
        let loads = self.trial.loads(&self.trial.arms[arm])?;
        let (block, at) = ((round - 1) / loads, (round - 1) % loads);
        let mut random = ChaCha8Rng::seed_from_u64(self.seed.rotate_left(41) ^ u64::from(block));
        let mut numbers: Vec<u32> = (0..loads).collect();
        shuffle(&mut numbers, &mut random);
        Some(numbers[at as usize])
    }

    /// The program or call that does the operation of a cell, or the engine of its records; none for other workloads,
    /// and if it is unsupported.
    pub fn tool(&self, cell: usize) -> Option<&'static str> {
        let Cell { workload, arm, .. } = self.cells[cell];
        if let Some(ycsb) = self.workloads[workload].ycsb() {
            return Some(ycsb.engine.name());
        }
        let timed = self.workloads[workload].operation()?;
        timed.operation.ability(&self.trial.arms[arm]).name()
    }

    /// The common setting of compared cells: the workload, the level, and the place if that matters; or the arm and the
    /// level.
    fn setting(&self, cell: usize) -> (usize, u16, usize) {
        let Cell { workload, threads, arm } = self.cells[cell];
        match self.trial.trial.compare {
            Compare::Arms if self.trial.trial.leads => (workload, threads, self.place_of[arm]),
            Compare::Arms => (workload, threads, 0),
            Compare::Workloads => (arm, threads, 0),
        }
    }

    /// The names of a contrast's sides: `xfs` and `ext4`, or `xfs / ext4 at fast` and `xfs / ext4 at slow`.
    pub fn names(&self, contrast: &Contrast) -> (String, String) {
        let Of::Lead([a, b]) = contrast.of else {
            return (self.compared(contrast.a).to_owned(), self.compared(contrast.b).to_owned());
        };
        let arm = |cell: usize| &self.trial.arms[self.cells[cell].arm];
        let place = |cell: usize| arm(cell).place.as_deref().unwrap_or("the first place");
        let ratio = |a: usize, b: usize| {
            let (over, under) = (arm(a).name_without_place(), arm(b).name_without_place());
            format!("{over} / {under} at {}", place(a))
        };
        (ratio(contrast.a, contrast.b), ratio(a, b))
    }

    /// The name of the compared thing: the arm, or the workload.
    pub fn compared(&self, cell: usize) -> &str {
        match self.trial.trial.compare {
            Compare::Arms => self.arm_name(cell),
            Compare::Workloads => &self.workloads[self.cells[cell].workload].name,
        }
    }

    /// The name of its context: the workload, or the arm.
    pub fn under(&self, cell: usize) -> &str {
        match self.trial.trial.compare {
            Compare::Arms => &self.workloads[self.cells[cell].workload].name,
            Compare::Workloads => self.arm_name(cell),
        }
    }

    /// The results of all cells except those of controls in comparable groups, in the order of the report: those of one
    /// workload and phase, or those of one arm and name.
    pub fn sections(&self) -> Vec<Vec<(usize, usize)>> {
        let mut sections: Vec<Vec<(usize, usize)>> = Vec::new();
        let kinds = |cell: usize| &self.results[self.cells[cell].workload];
        // By context first, so that the phases of a workload stay together.
        let mut cells: Vec<usize> = (0..self.cells.len()).filter(|cell| !self.is_control(*cell)).collect();
        cells.sort_by_key(|cell| self.setting(*cell).0);
        for cell in cells {
            for result in 0..kinds(cell).len() {
                let alike = |section: &&mut Vec<(usize, usize)>| {
                    self.setting(section[0].0).0 == self.setting(cell).0
                        && section
                            .iter()
                            .any(|(other, m)| comparable(kinds(cell), kinds(*other)).contains(&(result, *m)))
                };
                match sections.iter_mut().find(alike) {
                    Some(section) => section.push((cell, result)),
                    None => sections.push(vec![(cell, result)]),
                }
            }
        }
        for section in &mut sections {
            section.sort_by_key(|(cell, _)| (self.setting(*cell), *cell));
        }
        sections
    }

    pub fn arm_name(&self, cell: usize) -> &str {
        &self.trial.arms[self.cells[cell].arm].name
    }

    /// A cell as text: `ext4 · random-write · 4 threads`.
    pub fn cell_name(&self, cell: usize) -> String {
        let Cell { workload, threads, .. } = self.cells[cell];
        format!("{} · {} · {}", self.arm_name(cell), self.workloads[workload].name, threads_in_words(threads))
    }

    /// A result of a cell as text: `ext4 · bonnie, rewrite · 1 thread`.
    pub fn result_name(&self, cell: usize, result: usize) -> String {
        let Cell { workload, threads, .. } = self.cells[cell];
        let title = self.title(workload, result);
        format!("{} · {title} · {}", self.arm_name(cell), threads_in_words(threads))
    }

    /// A workload's result as text: `bonnie, rewrite`.
    pub fn title(&self, workload: usize, result: usize) -> String {
        let name = &self.workloads[workload].name;
        match self.results[workload][result].name.as_str() {
            "" => name.clone(),
            phase => format!("{name}, {phase}"),
        }
    }

    /// True for a result reported along with another one: for a server all but the first, which is its transactions,
    /// and for a fio job all but its first. It holds nothing open, unless it is a latency that the trial decides on.
    pub fn is_secondary(&self, workload: usize, result: usize) -> bool {
        let program = self.workloads[workload].program();
        program.is_some_and(|timed| timed.program.is_secondary(result))
    }

    /// True for a latency that a program measured, and that the trial decides on.
    fn is_decided_on_by_name(&self, workload: usize, result: usize) -> bool {
        let kind = &self.results[workload][result];
        self.trial.trial.decide_on.iter().any(|metric| metric.is_name_of(kind))
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

/// Number with its noun: `1 thread`, `4 threads`.
pub fn threads_in_words(threads: u16) -> String {
    if threads == 1 { "1 thread".into() } else { format!("{threads} threads") }
}

/// All pairs, or all against the baseline; the one named later over the one named earlier. The metrics that decide, and
/// p99, which gets a verdict from the rounds that the others needed.
fn all_pairs(plan: &Plan) -> Result<Vec<Contrast>, Problem> {
    let settings = &plan.trial.trial;
    let mut metrics = vec![Metric::Throughput, Metric::P99];
    for metric in &settings.decide_on {
        if !metrics.contains(metric) {
            metrics.push(*metric);
        }
    }
    let is_base = |cell: usize| match settings.compare {
        Compare::Arms => plan.trial.is_baseline(&plan.trial.arms[plan.cells[cell].arm]),
        Compare::Workloads => settings.baseline.as_deref() == Some(plan.compared(cell)),
    };
    let mut contrasts = Vec::new();
    for metric in metrics {
        for b in 0..plan.cells.len() {
            for a in b + 1..plan.cells.len() {
                if plan.setting(a) != plan.setting(b) || [a, b].iter().any(|cell| plan.is_control(*cell)) {
                    continue;
                }
                let (a, b) = match settings.baseline {
                    None => (a, b),
                    Some(_) if is_base(b) => (a, b),
                    Some(_) if is_base(a) => (b, a),
                    Some(_) => continue,
                };
                let decides = settings.decide_on.contains(&metric);
                let both = plan.comparable(a, b, metric);
                contrasts.extend(both.into_iter().map(|(result_a, result_b)| {
                    let workload = plan.cells[a].workload;
                    let holds_open = plan.is_decided_on_by_name(workload, result_a)
                        || decides && !plan.is_secondary(workload, result_a);
                    Contrast {
                        a,
                        b,
                        result_a,
                        result_b,
                        metric,
                        holds_open,
                        ask: Ask::Difference,
                        of: Of::Ratio,
                        dose: metric.dose(settings.practical.fraction()).filter(|_| holds_open),
                    }
                }));
                if contrasts.len() > MAX_CONTRASTS {
                    return Err(too_large(format!("more than {MAX_CONTRASTS} comparisons")));
                }
            }
        }
    }
    Ok(contrasts)
}

/// The ratios of arms at every place but the first over those of the same arms there.
fn leads(plan: &Plan) -> Vec<Contrast> {
    let arm = |cell: usize| &plan.trial.arms[plan.cells[cell].arm];
    let place = |cell: usize| plan.place_of[plan.cells[cell].arm];
    let at_first = |cell: usize| {
        let Cell { workload, threads, .. } = plan.cells[cell];
        (0..plan.cells.len()).find(|other| {
            let there = plan.cells[*other];
            place(*other) == 0
                && (there.workload, there.threads) == (workload, threads)
                && arm(*other).is_at_another_place(arm(cell))
        })
    };
    let elsewhere = plan.contrasts.iter().filter(|contrast| place(contrast.a) != 0);
    let lead = |contrast: &Contrast| {
        let first = [at_first(contrast.a)?, at_first(contrast.b)?];
        Some(Contrast { of: Of::Lead(first), ..contrast.clone() })
    };
    elsewhere.filter_map(lead).collect()
}

/// Refuses a trial that is too long to run, or too large to read.
fn too_large(amount: String) -> Problem {
    Problem {
        path: vec!["workload".into()],
        message: format!("the trial has {amount}"),
        hint: Some("make several trials of it, or take fewer arms, workloads or levels; with a baseline, arms are compared with that one only".into()),
    }
}

/// Every cell of a control against the same cell of its arm, on each metric of which anything next to it rests on its dose.
fn controls(plan: &Plan) -> Vec<Contrast> {
    let mut contrasts: Vec<Contrast> = Vec::new();
    for a in (0..plan.cells.len()).filter(|cell| plan.is_control(*cell)) {
        let (Some(b), Some(dose)) = (plan.base_of(a), plan.trial.arms[plan.cells[a].arm].planted()) else {
            continue;
        };
        let is_here = |cell: usize| {
            let [one, other] = [plan.cells[cell], plan.cells[a]];
            (one.workload, one.threads) == (other.workload, other.threads)
        };
        let resting = plan.contrasts.iter().filter(|contrast| contrast.dose == Some(dose));
        let mut figures: Vec<(Metric, usize)> = resting
            .flat_map(|contrast| contrast.figures().map(|(cell, result)| (contrast.metric, cell, result)))
            .filter(|(_, cell, _)| is_here(*cell))
            .map(|(metric, _, result)| (metric, result))
            .filter(|(_, result)| plan.results[plan.cells[a].workload][*result].offered_rate.is_none())
            .collect();
        figures.sort_unstable_by_key(|(metric, result)| (*metric as usize, *result));
        figures.dedup();
        contrasts.extend(figures.into_iter().map(|(metric, result)| Contrast {
            a,
            b,
            result_a: result,
            result_b: result,
            metric,
            holds_open: true,
            ask: Ask::Planted(dose.fraction()),
            of: Of::Ratio,
            dose: Some(dose),
        }));
    }
    contrasts
}

impl Plan {
    /// True if a cell is of a control.
    pub fn is_control(&self, cell: usize) -> bool {
        self.trial.arms[self.cells[cell].arm].control_of.is_some()
    }

    /// The cell that the cell of a control is compared with; none where the arm cannot run it.
    fn base_of(&self, control: usize) -> Option<usize> {
        let Cell { workload, threads, arm } = self.cells[control];
        let base = self.trial.arms[arm].control_of.as_ref()?;
        self.cell_of(base, &self.workloads[workload].name, threads)
    }

    /// The results of two cells that can be compared on a metric.
    pub(crate) fn comparable(&self, a: usize, b: usize, metric: Metric) -> Vec<(usize, usize)> {
        if [a, b].iter().any(|cell| !self.trial.can_judge(&self.trial.arms[self.cells[*cell].arm], metric)) {
            return Vec::new();
        }
        let kinds = |cell: usize| &self.results[self.cells[cell].workload];
        let both = |(n, m): &(usize, usize)| metric.is_of(&kinds(a)[*n]) && metric.is_of(&kinds(b)[*m]);
        comparable(kinds(a), kinds(b)).into_iter().filter(both).collect()
    }
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
        #[expect(clippy::cast_possible_truncation, reason = "the low half is the method's input")]
        let low = product as u64;
        if low >= threshold {
            return (product >> 64) as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::{
        arm::Arm,
        place::PlaceSpec,
        trial::Settings,
        units::Percent,
        workload::{DataKind, Entry},
    };
    use std::collections::{BTreeMap, BTreeSet};

    fn trial(arms: &[&str], workloads: &[&str]) -> Trial {
        Trial {
            arms: arms.iter().map(|text| text.parse::<Arm>().unwrap()).collect(),
            workloads: workloads.iter().map(|name| Entry::of_preset(name)).collect(),
            ..Trial::default()
        }
    }

    fn planned(trial: &Trial, seed: u64, cpus: u16) -> Plan {
        Plan::new(trial.settled(cpus).unwrap(), seed).unwrap()
    }

    #[test]
    fn server_is_decided_by_transactions_or_requested_latency() {
        let deciding = |decide_on: &[Metric]| {
            let mut trial = trial(&["ext4", "xfs"], &["postgresql-tpcb"]);
            trial.trial.decide_on = decide_on.to_vec();
            let plan = planned(&trial, 1, 2);
            let held = plan.contrasts.iter().filter(|contrast| contrast.holds_open);
            let names = held.map(|contrast| plan.results[0][contrast.result_a].name.clone());
            names.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(deciding(&[Metric::Throughput]), "transactions");
        assert_eq!(deciding(&[Metric::Throughput, Metric::P99]), "latency-p99 transactions");
        assert_eq!(deciding(&[Metric::P95]), "latency-p95");
    }

    #[test]
    fn times_of_emulated_guests_are_not_compared() {
        let mut trial = trial(&["ext4@6.1", "xfs@6.1"], &["append-fsync"]);
        trial.places = vec![PlaceSpec::guest("6.1")];
        trial.trial.decide_on = vec![Metric::DeviceBytes];
        let plan = planned(&trial, 1, 1);
        let metrics: Vec<Metric> = plan.contrasts.iter().map(|contrast| contrast.metric).collect();
        assert_eq!(metrics, [Metric::DeviceBytes]);
        for (metric, count) in
            [(Metric::Throughput, 0), (Metric::P99, 0), (Metric::CpuTime, 0), (Metric::DeviceBytes, 1)]
        {
            assert_eq!(plan.comparable(0, 1, metric).len(), count, "{metric:?}");
            assert_eq!(plan.comparable(0, 0, metric).len(), count, "a trend of one arm");
        }
        trial.places[0].kvm = true;
        trial.trial.decide_on = vec![Metric::P99];
        assert_eq!(planned(&trial, 1, 1).comparable(0, 1, Metric::Throughput).len(), 1);
        trial.places.push(PlaceSpec::guest("6.12"));
        trial.arms[1].place = Some("6.12".into());
        trial.trial.decide_on = vec![Metric::DeviceBytes];
        let problem = trial.problem().unwrap().message;
        assert!(problem.contains("its clock is another one"), "{problem}");
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
        let plan = planned(&trial(&["ext4", "xfs:agcount=16"], &["random-write", "append-fsync"]), 7, 4);
        insta::assert_snapshot!(described(&plan));
        let again = planned(&plan.trial, 7, 4);
        assert_eq!(described(&plan), described(&again));
        let other = planned(&plan.trial, 8, 4);
        assert_ne!(described(&plan), described(&other));
    }

    #[test]
    fn every_round_is_complete_and_groups_stay_together() {
        let plan = planned(&trial(&["ext4", "xfs", "btrfs"], &["random-write", "append-fsync"]), 1, 4);
        for round in 1..50 {
            let order = plan.order(round);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..plan.cells.len()).collect::<Vec<_>>());
            for group in order.chunks(3) {
                let keys: BTreeSet<_> = group
                    .iter()
                    .map(|cell| (plan.cells[*cell].workload, plan.cells[*cell].threads))
                    .collect();
                assert_eq!(keys.len(), 1, "the arms of a group run one after the other");
            }
        }
    }

    #[test]
    fn orders_inside_a_group_are_equally_likely() {
        let plan = planned(&trial(&["ext4", "xfs", "btrfs"], &["random-write"]), 3, 1);
        let mut seen: BTreeMap<Vec<usize>, u32> = BTreeMap::new();
        for round in 1..=6000 {
            *seen.entry(plan.order(round)).or_default() += 1;
        }
        assert_eq!(seen.len(), 6);
        // Binomial(6000, 1/6): mean 1000, standard deviation 29; five of them is one false alarm in a million.
        assert!(seen.values().all(|count| (855..=1145).contains(count)), "{seen:?}");
    }

    #[test]
    fn a_boot_with_more_arms_comes_first_no_more_often() {
        let mut boots = trial(&["ext4", "ext4", "xfs"], &["random-write"]);
        for (arm, name) in boots.arms.iter_mut().zip(["old", "new", "new"]) {
            arm.name = format!("{}-{name}", arm.configuration());
            arm.place = Some(name.into());
        }
        boots.places = vec![PlaceSpec::boot("old"), PlaceSpec::boot("new")];
        let plan = planned(&boots, 3, 1);
        let mut begins = 0;
        for round in 1..=6000 {
            let places: Vec<usize> =
                plan.order(round).into_iter().map(|cell| plan.place_of_cell(cell)).collect();
            assert_eq!(places.chunk_by(|a, b| a == b).count(), 2, "{places:?}");
            begins += u32::from(places[0] == 0);
        }
        // Binomial(6000, 1/2): standard deviation 39; five of them.
        assert!((2806..=3194).contains(&begins), "{begins}");
    }

    #[test]
    fn cross_level_cells_stay_exchangeable_after_others_settle() {
        let mut across = trial(&["ext4", "xfs"], &["random-write"]);
        across.workloads[0].threads = Some(vec![1, 2, 4]);
        let mut plan = planned(&across, 3, 4);
        let cell = |threads, arm| {
            plan.cells.iter().position(|cell| (cell.threads, cell.arm) == (threads, arm)).unwrap()
        };
        let (a, b, settled) = (cell(1, 0), cell(2, 0), cell(1, 1));
        let first = plan.contrasts[0].clone();
        plan.contrasts.push(Contrast { a, b, ..first });
        let mut begins = [0_u32; 2];
        for round in 1..=6000 {
            let order: Vec<usize> = plan.order(round).into_iter().filter(|cell| *cell != settled).collect();
            assert_eq!(order.len(), 5);
            for (compared, begins) in [a, b].iter().zip(&mut begins) {
                *begins += u32::from(order[0] == *compared);
            }
            // The level that is compared with no other keeps its arms together.
            let at = |arm| order.iter().position(|other| *other == cell(4, arm)).unwrap();
            assert_eq!(at(0).abs_diff(at(1)), 1);
        }
        // Two blocks, of 3 and 2 cells: each of the three begins a sixth of the rounds, as above.
        assert!(begins.iter().all(|count| (855..=1145).contains(count)), "{begins:?}");
    }

    #[test]
    fn every_arm_of_a_round_has_the_same_load() {
        let plan = planned(&trial(&["ext4", "xfs"], &["random-write"]), 3, 1);
        assert_eq!(plan.task(0, 5, Data::Random), plan.task(1, 5, Data::Random));
        assert_ne!(plan.task(0, 5, Data::Random), plan.task(0, 6, Data::Random));
    }

    #[test]
    fn workload_data_and_rate_reach_its_loads() {
        let mut own = trial(&["ext4", "xfs"], &["random-write", "append-fsync"]);
        own.workloads[0].data = Some(DataKind::Mixed);
        own.workloads[0].compressible = Some(Percent(50.0));
        own.workloads[0].rate = Some("500/s poisson".parse().unwrap());
        let plan = planned(&own, 3, 1);
        let load = |workload| {
            let cell = plan.cells.iter().position(|cell| cell.workload == workload).unwrap();
            plan.task(cell, 1, Data::RepeatedWord).phases.remove(0).groups.remove(0).load
        };
        let mixed = Data::Mixed { compressible: Percent(50.0), duplicate: Percent(0.0) };
        assert_eq!((load(0).data, load(1).data), (mixed, Data::RepeatedWord));
        assert_eq!(load(0).rate.unwrap().to_string(), "500/s poisson");
        assert_eq!(load(1).rate, None);
    }

    #[test]
    fn a_baseline_leaves_out_the_other_pairs() {
        let mut with_baseline = trial(&["ext4", "xfs", "btrfs"], &["random-write"]);
        with_baseline.trial.baseline = Some("xfs".into());
        let plan = planned(&with_baseline, 1, 1);
        assert!(plan.contrasts.iter().all(|contrast| plan.arm_name(contrast.b) == "xfs"));
        assert_eq!(plan.contrasts.iter().filter(|contrast| contrast.holds_open).count(), 2);
    }

    #[test]
    fn raw_device_runs_supported_workloads_only() {
        let plan = planned(&trial(&["raw", "ext4", "xfs"], &["random-write", "create-files"]), 1, 1);
        assert_eq!(plan.cells.len(), 5);
    }

    #[test]
    fn workloads_are_compared_on_each_arm_by_results_of_one_name() {
        let entry = |name: &str, threads: u16| Entry {
            name: Some(name.into()),
            threads: Some(vec![threads, 8]),
            ..Entry::of_preset("random-write")
        };
        let phases: Entry = toml::from_str(
            "name = \"phases\"\nkind = \"io\"\nthreads = [8]\n[[phase]]\nname = \"fill\"\nuntil = \"done\"\n[[phase]]\n",
        )
        .unwrap();
        let trial = Trial {
            trial: Settings { compare: Compare::Workloads, ..Settings::default() },
            workloads: vec![entry("mine", 1), phases, entry("theirs", 2)],
            ..trial(&["ext4", "xfs"], &[])
        };
        let plan = planned(&trial, 1, 1);
        let named = |contrast: &Contrast| {
            format!("{} / {}", plan.result_name(contrast.a, contrast.result_a), plan.compared(contrast.b))
        };
        let throughput = plan.contrasts.iter().filter(|contrast| contrast.metric == Metric::Throughput);
        let mut contrasts: Vec<String> = throughput.map(named).collect();
        contrasts.sort();
        assert_eq!(
            contrasts,
            [
                "ext4 · phases · 8 threads / mine",
                "ext4 · theirs · 8 threads / mine",
                "ext4 · theirs · 8 threads / phases",
                "xfs · phases · 8 threads / mine",
                "xfs · theirs · 8 threads / mine",
                "xfs · theirs · 8 threads / phases",
            ]
        );
        // One section for each arm and name of a result; `fill` is alone in its own.
        let sections: Vec<usize> = plan.sections().iter().map(Vec::len).collect();
        assert_eq!(sections, [5, 1, 5, 1]);
        let order = plan.order(1);
        let at_8: Vec<usize> = order.into_iter().filter(|cell| plan.cells[*cell].threads == 8).collect();
        for group in at_8.chunks(3) {
            assert!(group.iter().all(|cell| plan.cells[*cell].arm == plan.cells[group[0]].arm));
        }
    }

    /// A few kilobytes of a file must not be millions of comparisons.
    #[test]
    fn a_trial_has_a_limit() {
        let many = |arms: u32, levels: u16, baseline: Option<String>| {
            let arms: Vec<String> = (0..arms).map(|n| format!("a{n}=ext4")).collect();
            let arms: Vec<&str> = arms.iter().map(String::as_str).collect();
            let mut trial = trial(&arms, &["random-write"]);
            trial.trial.baseline = baseline;
            trial.workloads[0].threads = Some((1..=levels).collect());
            Plan::new(trial.settled(1).unwrap(), 1).map(|plan| (plan.cells.len(), plan.contrasts.len()))
        };
        assert_eq!(many(64, 4, None).unwrap(), (256, 2 * 4 * 64 * 63 / 2));
        assert_eq!(many(64, 64, Some("a0".into())).unwrap(), (4096, 2 * 64 * 63));
        let refused = many(64, 5, None).unwrap_err();
        assert!(refused.message.contains("more than 20000 comparisons"), "{refused:?}");
        let refused = many(64, 65, Some("a0".into())).unwrap_err();
        assert!(refused.message.contains("more than 4096 runs in a round"), "{refused:?}");
    }
}
