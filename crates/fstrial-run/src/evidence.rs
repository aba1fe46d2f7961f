//! Rounds for evidence: runs of the cells of decided contrasts, observed by programs in the kernel. Observation costs time, so
//! these runs are never those that a verdict rests on, and are stored apart from them.

use crate::{
    cell::{Ask, Contrast, Of},
    contrast::{ContrastState, Outcome},
    error::ExpectedError,
    place::Place,
    plan::Plan,
    untimed,
};
use fstrial_engine::group_name;
use fstrial_model::{
    arm::Arm,
    counter::{Counter, Counters},
    device::DeviceKind,
    evidence::{Activity, Evidence},
    filesystem::waits::Cause,
    job::{FailureKind, Purpose, RunFailure, WorkerMessage},
    measurement::{LoadResult, Measurement, Stage},
    metric::Metric,
    units::Nanos,
    workload::{Group, Until, Workload},
};
use fstrial_probe::{Observer, ProbeError};
use fstrial_stack::StackError;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Rounds that an interval of a share needs at least.
pub const MIN_ROUNDS: u32 = 8;

/// Verdicts of a trial that are explained at most: each has a table, and stacks.
const MOST: usize = 60;

/// A load under observation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// Its threads.
    pub threads: u16,
    /// Operations in the measured time.
    pub operations: u64,
    /// The measured time.
    pub duration: Nanos,
    /// Duration of the observation: it begins and ends a moment after the measured time.
    pub observed: Nanos,
    /// Time of its threads by cause, in nanoseconds.
    pub causes: Vec<(Cause, f64)>,
    /// Counters in the measured time.
    #[serde(default)]
    pub counters: Counters,
    /// Amounts that were lost.
    pub lost: u64,
}

impl Observed {
    /// All time of its threads, in nanoseconds.
    pub fn thread_time(&self) -> f64 {
        f64::from(self.threads) * self.duration.0 as f64
    }

    /// Time of some causes, in nanoseconds of the measured time.
    pub fn time_of(&self, is_one: impl Fn(&Cause) -> bool) -> f64 {
        let time: f64 = self.causes.iter().filter(|(cause, _)| is_one(cause)).map(|(_, time)| time).sum();
        time * self.duration.0 as f64 / self.observed.0 as f64
    }
}

/// A run by the names of its results.
pub type ObservedRun = BTreeMap<String, Observed>;

/// The observed runs of a cell.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CellEvidence {
    /// By round.
    pub runs: BTreeMap<u32, ObservedRun>,
    /// The evidence of all runs together, by the names of results: of user threads those of its load.
    pub stacks: BTreeMap<String, Evidence>,
    /// The failure that ended its runs.
    pub failure: Option<RunFailure>,
}

/// Evidence of a trial, by the numbers of cells in its plan.
pub type TrialEvidence = BTreeMap<usize, CellEvidence>;

/// Contrasts of a plan whose verdicts can be explained: of two arms, or of all.
///
/// # Errors
/// The plan has no contrast that can be explained, or none between these arms.
pub fn questions(plan: &Plan, pair: Option<[&str; 2]>) -> Result<Vec<usize>, ExpectedError> {
    let trial = &plan.trial;
    let refused = |what: &str, hint: &str| Err(ExpectedError::usage(format!("the trial {what}"), hint));
    if plan.trial.boots().next().is_some() {
        return refused(
            "has arms at boots, which are not observed",
            "compare kernels in guests (an arm @ a kernel)",
        );
    }
    let is_made = |arm: &Arm| arm.state.is_none() && !arm.is_directory();
    if !trial.arms.iter().all(is_made) || trial.device.kind == DeviceKind::Disk {
        return refused(
            "has directories, prepared filesystems or a disk to erase, which are not observed yet",
            "compare arms that are fresh, on an image or a modelled device",
        );
    }
    let is_asked = |contrast: &Contrast| {
        let names = [contrast.a, contrast.b].map(|cell| plan.compared(cell));
        pair.is_none_or(|[a, b]| names == [a, b] || names == [b, a])
    };
    let asked: Vec<usize> = (0..plan.contrasts.len()).filter(|at| is_asked(&plan.contrasts[*at])).collect();
    if let (Some([a, b]), []) = (pair, asked.as_slice()) {
        return refused(&format!("has no contrast {a}/{b}"), "`fstrial report` shows those that it has");
    }
    let all: Vec<usize> = asked.into_iter().filter(|at| explains(plan, &plan.contrasts[*at])).collect();
    if all.is_empty() {
        return refused(
            "compares no throughput of loads whose threads work in a closed loop",
            "explain a trial of workloads such as append-fsync, without a rate, an amount of work or a program",
        );
    }
    if all.len() > MOST {
        return refused(
            &format!("has {} verdicts on throughput, and at most {MOST} are explained", all.len()),
            "compare fewer arms, workloads or levels of threads, or explain two of the arms: `fstrial explain TRIAL A/B`",
        );
    }
    Ok(all)
}

/// True if a contrast has a difference to explain.
pub fn is_decided(state: &ContrastState) -> bool {
    matches!(state.verdict, Outcome::Faster | Outcome::Slower)
}

/// The cells of the contrasts that have a difference to explain, of some.
pub fn cells(plan: &Plan, states: &[ContrastState], asked: &[usize]) -> Vec<usize> {
    let decided = asked.iter().filter(|at| is_decided(&states[**at]));
    decided.flat_map(|at| plan.contrasts[*at].cells()).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Tries whether this kernel can be observed, if arms of the plan are here.
///
/// # Errors
/// The reason that it cannot.
pub fn try_here(plan: &Plan) -> Result<(), ExpectedError> {
    if !plan.is_here() {
        return Ok(());
    }
    let refused = |error| ExpectedError::Run { context: "evidence".into(), failure: no_evidence(&error) };
    Observer::start(&[]).map(drop).map_err(refused)
}

pub(crate) fn no_evidence(error: &ProbeError) -> RunFailure {
    RunFailure {
        kind: FailureKind::HostLacks,
        stage: Stage::Load,
        what: format!("the kernel gives no evidence: {error}"),
        hint: Some("use a kernel with BTF (CONFIG_DEBUG_INFO_BTF) that lets root load eBPF programs".into()),
    }
}

/// True if thread time explains a contrast: of the throughput of two arms, under loads of fstrial whose threads issue the next
/// operation when the last one has ended.
pub fn explains(plan: &Plan, contrast: &Contrast) -> bool {
    let is_control = |cell: usize| plan.trial.arms[plan.cells[cell].arm].control_of.is_some();
    let is_closed = |cell: usize| {
        let workload: &Workload = &plan.workloads[plan.cells[cell].workload];
        let mut phases = workload.phases().iter();
        workload.program().is_none()
            && workload.operation().is_none()
            && phases.all(|it| {
                let is_closed = |group: &Group| group.rate.is_none() && group.pattern.period().is_none();
                it.find_rate.is_none() && it.until == Until::Time && it.groups.iter().all(is_closed)
            })
    };
    let cells = [contrast.a, contrast.b];
    contrast.metric == Metric::Throughput
        && plan.trial.trial.clients == 1
        && contrast.of == Of::Ratio
        && contrast.ask == Ask::Difference
        && !cells.into_iter().any(is_control)
        && cells.into_iter().all(is_closed)
}

/// Observes cells of a plan at its places, each round with all of them in random order. `done` hears the number of runs done and of all. With the
/// evidence comes the error that ended it early: an interruption, or that a place lacks what an arm or the observation needs.
pub fn run(
    plan: &Plan,
    places: &mut [Box<dyn Place>],
    cells: &[usize],
    rounds: u32,
    done: &mut dyn FnMut(usize, usize),
) -> (TrialEvidence, Option<ExpectedError>) {
    let mut all = TrialEvidence::new();
    let ended = untimed::rounds(plan, places, (cells, rounds), done, |place, cell, round| {
        let seen = all.entry(cell).or_default();
        let Some(loads) = observe(plan, place, cell, round)? else { return Ok(false) };
        let run = seen.runs.entry(round).or_default();
        for (name, (observed, evidence)) in loads {
            seen.stacks.entry(name.clone()).or_default().add(&evidence);
            run.insert(name, observed);
        }
        Ok(true)
    });
    let (failures, error) = match ended {
        Ok((failures, true)) => (failures, Some(StackError::Interrupted.into())),
        Ok((failures, false)) => (failures, None),
        Err(error) => (BTreeMap::new(), Some(error)),
    };
    for (cell, failure) in failures {
        all.entry(cell).or_default().failure = Some(failure);
    }
    (all, error)
}

/// A line for each cell whose observation failed.
pub fn failures(plan: &Plan, evidence: &TrialEvidence) -> Vec<String> {
    let line = |(cell, seen): (&usize, &CellEvidence)| {
        Some(format!("{}: observation ended: {}", plan.cell_name(*cell), seen.failure.as_ref()?))
    };
    evidence.iter().filter_map(line).collect()
}

/// Observed runs that every cell has at least.
pub fn least_runs(evidence: &TrialEvidence) -> usize {
    evidence.values().map(|cell| cell.runs.len()).min().unwrap_or(0)
}

/// Loads of a run, each with its evidence.
type Loads = BTreeMap<String, (Observed, Evidence)>;

/// One run; none if it was interrupted.
fn observe(plan: &Plan, place: &mut dyn Place, cell: usize, round: u32) -> Result<Option<Loads>, RunFailure> {
    let mut task = plan.task(cell, round, place.data());
    task.purpose = Purpose::Evidence;
    let mut seen: Vec<(BTreeMap<String, String>, Evidence)> = Vec::new();
    let ended = untimed::run(plan, place, (cell, task), &mut |message| {
        if let WorkerMessage::Evidence { groups, evidence } = message {
            seen.push((groups.clone(), (**evidence).clone()));
        }
    });
    let Some(measurement) = ended? else { return Ok(None) };
    let loads = measurement.map(|measurement| together(&measurement, &seen));
    loads
        .filter(|loads| !loads.is_empty())
        .map(Some)
        .ok_or_else(|| untimed::missing(Stage::Load, "the worker gave no evidence"))
}

fn together(measurement: &Measurement, seen: &[(BTreeMap<String, String>, Evidence)]) -> Loads {
    // Those of several loads together are none of one of them.
    let is_alone = |evidence: &Evidence| evidence.group(&group_name(1)).is_none();
    let counters = |name: &str| {
        let result = measurement.results.iter().find(|result| result.name == name);
        result.map(|result| result.counters.clone()).unwrap_or_default()
    };
    let observed = |(name, load): (&str, &LoadResult)| {
        // Of an attempt that was repeated the last one counts.
        let (group, evidence) =
            seen.iter().rev().find_map(|(groups, evidence)| Some((groups.get(name)?, evidence)))?;
        let of_all = is_alone(evidence).then(|| counters(name).plus(&evidence.counters));
        let asked = Counters::of(Counter::Asked, load.bytes);
        // In samples of /proc they are not counted.
        let switches = evidence.group(group).filter(|_| evidence.missing.is_none()).map(Activity::switches);
        let observed = Observed {
            threads: load.threads,
            operations: load.operations,
            duration: load.duration,
            observed: evidence.duration,
            causes: evidence.group(group).map(Activity::by_cause).unwrap_or_default().into_iter().collect(),
            counters: of_all.unwrap_or_default().plus(&switches.unwrap_or_default()).plus(&asked),
            lost: evidence.lost,
        };
        let mut evidence = evidence.clone();
        evidence.threads.retain(|known| known.name == *group);
        Some((name.to_owned(), (observed, evidence)))
    };
    measurement.loads().filter_map(observed).collect()
}
