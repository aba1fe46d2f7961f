//! The final document of a trial: everything a script might ask, with a schema version.

use super::{
    claim::{self, ClaimReport},
    evidence::Explanation,
    numbers::counted,
    receipt::{self, ReceiptReport},
    together::Together,
    verdict,
};
use fstrial_model::{
    arm::Arm,
    counter::Counter,
    facts::ArmFacts,
    measurement::OperationKind,
    memory::LimitedBy,
    metric::Metric,
    place::Clock,
    trial::{Compare, ErrorControl},
    unit,
    units::Nanos,
    workload::{Durability, Pattern, Phase, Until},
};
use fstrial_run::{
    audit,
    cell::Contrast,
    claim::is_at_limit,
    contrast::{ContrastState, Outcome},
    coordinator::{Finished, Reason},
    environment::Environment,
    evidence::TrialEvidence,
    judge::Judge,
    plan::{Plan, threads_in_words},
    sample::{LoadSample, Sample},
    typical::Typical,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Spread of an arm's rounds, as a fraction, above which a device is called noisy.
const NOISY: f64 = 0.05;
/// From this share of an operation on, in percent, the load generator's own loop is reported with the result.
const LOOP_SHARE: f64 = 3.0;

/// Raised when a field changes its meaning or goes away; new fields do not raise it.
pub const SCHEMA_VERSION: u32 = 2;

/// A trial with its answer.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Document {
    /// Version of this format: the value of [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Name of the trial; may be empty.
    pub name: String,
    /// Its number in the store.
    pub trial_id: Option<i64>,
    /// Its end.
    pub ended: &'static str,
    /// Rounds begun.
    pub rounds: u32,
    /// True if the last of them ended before all its runs were made.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_cut_short: bool,
    /// True if parts of a further round were run, and others need another boot.
    #[serde(skip)]
    pub is_in_parts: bool,
    /// True if every cell was run once: before that there is no answer.
    #[serde(skip)]
    pub has_begun: bool,
    /// The seed everything random was drawn from.
    pub seed: String,
    /// Subject of the comparison: `arms`, or `workloads` on each arm.
    pub compare: Compare,
    /// The band inside which a difference does not matter, in percent.
    pub practical_percent: f64,
    /// Guarantee over many comparisons: `fdr` or `fwer`.
    pub errors: ErrorControl,
    /// Time of a further round of the open cells, in seconds.
    pub round_seconds: Option<f64>,
    /// The trial's claim, with its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<ClaimReport>,
    /// The host where fstrial was started.
    pub environment: Environment,
    /// The machines of the places that arms name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<Environment>,
    /// The flag that names the home, where the command line did: part of every command that is about the same store.
    #[serde(skip)]
    pub home_again: String,
    /// Arguments to repeat for `fstrial resume`: the commands of places, which are on the command line only.
    #[serde(skip)]
    pub said_again: String,
    /// The boot of this host to continue in, if its arms are at boots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_boot: Option<String>,
    /// True if it has all the requested rounds, so that there is nothing to resume.
    #[serde(skip)]
    pub rounds_are_done: bool,
    /// The error that ended its last session, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<String>,
    /// Every arm with its facts.
    pub arms: Vec<ArmReport>,
    /// Unrequested differences between the arms.
    pub audit: Vec<String>,
    /// The power cuts of each arm under each load, if the trial has a receipt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<ReceiptReport>,
    /// The causes of its verdicts, if it was explained.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub explanations: Vec<Explanation>,
    /// Every workload with its cells and verdicts.
    pub workloads: Vec<WorkloadReport>,
    /// Failures of cells.
    pub failures: Vec<String>,
    /// Warnings about warm-up and overhead.
    pub warnings: Vec<String>,
    /// The trial file that repeats it.
    pub trial: String,
    /// The command that repeats it.
    pub repeat: String,
}

/// An arm with its actual settings.
#[derive(Debug, Clone, Serialize)]
pub struct ArmReport {
    /// Name of the arm, as in [`CellReport::arm`].
    pub name: String,
    /// Its short form.
    pub configuration: String,
    /// The place it was built at; none: the host where fstrial was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Its actual settings.
    pub facts: Option<ArmFacts>,
}

/// A workload, or one of its phases, with its results.
#[derive(Debug, Clone, Default, Serialize)]
pub struct WorkloadReport {
    /// Its name; the arm's, if workloads are compared.
    pub name: String,
    /// The phase, or the group of threads in it; empty if the workload has only one.
    pub phase: String,
    /// A description of it; none if its file has none.
    pub about: Option<String>,
    /// Unit of its throughput: `op/s` or `bytes/s`, or that of a number another program printed.
    pub unit: String,
    /// True if less is better.
    pub less_is_better: bool,
    /// The promise about latency of which the figure is the highest rate that keeps it, if one was looked for.
    pub promise: Option<String>,
    /// Repetitions in a run, of which the median counts; none for a single one.
    pub repeated: Option<u16>,
    /// The server that its clients talked to, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub served: Option<Served>,
    /// True if it is shown next to the deciding result, and decides nothing itself, such as a server's latencies.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub secondary: bool,
    /// True if every arm is compared with one only: the second of each verdict.
    #[serde(skip)]
    pub has_baseline: bool,
    /// Warm-up in seconds; none for work that ends when it is done.
    pub warmup_seconds: Option<f64>,
    /// Measured time of a run in seconds, a server's client's too; none for work that ends when it is done, and for other
    /// programs.
    pub duration_seconds: Option<f64>,
    /// Numbers of each compared arm (or workload) at each level.
    pub cells: Vec<CellReport>,
    /// Verdicts on the contrasts between these cells.
    pub verdicts: Vec<VerdictReport>,
    /// Ratios of the arms' ratios at one place to those at another.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leads: Vec<VerdictReport>,
    /// Its controls, each a slowed arm over the arm as it is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<ContrastState>,
}

/// A server whose clients timed the numbers, or an engine inside the load generator.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Served {
    /// The durability of its acknowledgements, if it is declared.
    pub durable: Option<String>,
    /// An engine's data, and their storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
}

/// A verdict with its caveats.
#[derive(Debug, Clone, Serialize)]
pub struct VerdictReport {
    /// The contrast and its decision.
    #[serde(flatten)]
    pub contrast: ContrastState,
    /// Why the arms are of unequal durability, if they are.
    pub unequal_durability: Option<String>,
}

/// A cell in numbers. Latencies are medians over the rounds of each run's own quantile.
#[derive(Debug, Clone, Default, Serialize)]
pub struct CellReport {
    /// The arm; the workload, if workloads are compared.
    pub arm: String,
    /// The place where the arm is built; none: the host where fstrial was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The level.
    pub threads: u16,
    /// Number of measured runs.
    pub runs: usize,
    /// Operations of a run in the measured time, median; none for other programs.
    pub operations: Option<f64>,
    /// It failed and was not run again.
    pub failed: bool,
    /// Why the arm cannot do the workload, which is an answer and no failure.
    pub unsupported: Option<String>,
    /// The tool that did it with its version, for operations.
    pub tool: Option<String>,
    /// The throughput in the unit of its workload: typical (Hodges–Lehmann), and its interval.
    pub rate: Option<f64>,
    /// 95 % from six runs on; before that the least and the greatest.
    pub rate_interval: Option<(f64, f64)>,
    /// Bytes per second: typical, as `rate`.
    pub bytes_per_second: Option<f64>,
    /// Latency of an operation in ns: p50, p99, p99.9; none of a quantile for which a run had too few operations.
    pub latency_ns: Option<[Option<f64>; 3]>,
    /// The same of each kind of operation on the records of an engine, from the start of the call.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub latency_of_kinds_ns: BTreeMap<String, [Option<f64>; 3]>,
    /// CPU time of the whole machine for one operation, in ns, median.
    pub cpu_per_operation_ns: Option<f64>,
    /// CPU time of the load's own threads for one operation, in ns, median: the kernel's work for them in other threads
    /// is in the machine's only.
    pub load_cpu_per_operation_ns: Option<f64>,
    /// Bytes written to the device for one operation, median.
    pub device_bytes_per_operation: Option<f64>,
    /// Checkpoints that the server began in a run, mean; none where they are not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoints: Option<f64>,
    /// Compactions that an engine completed in a run, mean; none where they are not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compactions: Option<f64>,
    /// Synchrony of its clients; none with one client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub together: Option<Together>,
    /// The throughput of the runs that began with each load of the data, typical, in the order of the loads; none of a load without a
    /// run, and empty where every run loads its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rate_by_load: Vec<Option<f64>>,
    /// Bytes between the device and the kernel for each byte that the load read or wrote, median; none if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_share: Option<f64>,
    /// Not a byte passed between the device and the kernel in most runs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub device_idle: bool,
    /// Bytes of the filesystem's journal or log; none without a circular one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_bytes: Option<u64>,
    /// Number of passes of a run through it in the measured time, median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_laps: Option<f64>,
    /// The same from the mount to the beginning of the measured time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_laps_before: Option<f64>,
    /// Commits of the filesystem in the measured time of a run, of any cause, mean; none if they are not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commits: Option<f64>,
    /// True if it ran at the limit of the modelled device.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_limit: bool,
    /// Share of a core that each thread of the load generator used outside the kernel, median; 0 if unknown.
    pub generator_share: f64,
}

impl CellReport {
    /// Leaves out the figures that are times, or made of times.
    fn leave_out_times(&mut self) {
        self.rate = None;
        self.rate_interval = None;
        self.bytes_per_second = None;
        self.latency_ns = None;
        self.latency_of_kinds_ns.clear();
        self.cpu_per_operation_ns = None;
        self.load_cpu_per_operation_ns = None;
        self.rate_by_load.clear();
        self.at_limit = false;
        self.generator_share = 0.0;
    }
}

impl Document {
    /// Adds the power cuts of its arms, as stored, without those of each run.
    pub(crate) fn add_receipt(&mut self, json: Option<&str>) {
        let Some(json) = json else { return };
        match serde_json::from_str::<ReceiptReport>(json) {
            Ok(mut report) => {
                report.arms.iter_mut().for_each(|arm| arm.each.clear());
                self.receipt = Some(report);
            }
            Err(error) => self.warnings.push(format!("the receipt of power cuts cannot be read: {error}")),
        }
    }

    /// Its observed runs, as stored; none if they cannot be read.
    pub(crate) fn evidence(&mut self, json: Option<&str>) -> TrialEvidence {
        let read = json.map_or_else(|| Ok(TrialEvidence::new()), serde_json::from_str);
        read.unwrap_or_else(|error| {
            self.warnings
                .push(format!("the evidence cannot be read: {error}; `fstrial explain` takes it again"));
            TrialEvidence::new()
        })
    }

    /// Arms that lost data in power cuts, each with a sentence on that.
    pub(crate) fn losses(&self) -> Vec<(&str, String)> {
        let arms = self.receipt.iter().flat_map(|report| self.arms.iter().map(move |arm| (report, arm)));
        let lossy = arms
            .filter_map(|(report, arm)| Some((arm.name.as_str(), receipt::loss(&report.arms, &arm.name)?)));
        lossy.collect()
    }

    /// The machines on which arms were built: the host where fstrial was started, if it is one, and the places.
    pub fn machines(&self) -> impl Iterator<Item = &Environment> {
        let is_here = self.arms.iter().any(|arm| arm.place.is_none());
        Some(&self.environment).filter(|_| is_here).into_iter().chain(&self.places)
    }

    /// A description of these machines, in lines.
    pub fn machines_in_words(&self) -> Vec<String> {
        let lines = |there: &Environment| {
            let name = match there.place.as_str() {
                "" => String::new(),
                place => format!("{place} ({}): ", there.host),
            };
            let lines = there.describe().into_iter().chain(there.device_notes.iter().cloned());
            lines.map(|line| format!("{name}{line}")).collect::<Vec<_>>()
        };
        self.machines().flat_map(lines).collect()
    }

    /// The command that shows everything; none without a store.
    pub fn report_command(&self) -> Option<String> {
        self.trial_id.map(|id| format!("fstrial report {id} --format text{}", self.home_again))
    }

    /// `6 rounds`, `6 rounds, the last one cut short`.
    pub fn rounds_in_words(&self) -> String {
        let rounds = verdict::rounds_in_words(self.rounds as usize);
        match self.is_cut_short {
            true if self.rounds == 1 => format!("{rounds}, which was cut short"),
            true => format!("{rounds}, the last one cut short"),
            false if self.is_in_parts => format!("{rounds}, and parts of the next one"),
            false => rounds,
        }
    }

    /// Statement that the trial is not at its end; none otherwise.
    pub fn not_at_its_end(&self) -> Option<String> {
        let go_on = self
            .trial_id
            .map_or_else(String::new, |id| format!("; `fstrial resume {id}{}` resumes it", self.said_again));
        match self.ended {
            "running" => Some("this trial is still running: these are its findings so far".into()),
            "killed" => Some(format!("this trial was killed before its end{go_on}")),
            "failed" => {
                let why = self.ended_by.as_deref().unwrap_or("a host or an arm does not support it");
                Some(format!("this trial failed before its end: {why}"))
            }
            "interrupted" if let Some(name) = &self.next_boot => {
                Some(format!("this trial is unfinished: boot this host as {name} to continue it"))
            }
            "interrupted" => Some(format!("this trial was interrupted before its end{go_on}")),
            _ => None,
        }
    }

    /// One of their figures, listed once if they agree: `6.1.0 · 6.12.3`.
    pub fn of_machines(&self, figure: impl Fn(&Environment) -> &str) -> String {
        let mut all: Vec<&str> = Vec::new();
        for machine in self.machines() {
            if !all.contains(&figure(machine)) {
                all.push(figure(machine));
            }
        }
        all.join(" · ")
    }

    /// The machine on which an arm was built.
    fn machine_of(&self, arm: &ArmReport) -> Option<&Environment> {
        self.machines().find(|machine| machine.place == arm.place.as_deref().unwrap_or_default())
    }
}

/// Makes the document of a finished trial.
pub fn document(
    plan: &Plan,
    finished: &Finished<'_>,
    (environment, places): (&Environment, Vec<Environment>),
    trial_id: Option<i64>,
    repeat: String,
) -> Document {
    let settings = &plan.trial.trial;
    let states = finished.judge().map(Judge::states).unwrap_or_default();
    let sections = plan.sections();
    let workloads: Vec<WorkloadReport> =
        sections.iter().map(|section| section_report(plan, finished, section, &states)).collect();
    let arms = plan.trial.arms.iter().enumerate().map(|(index, arm)| ArmReport {
        name: arm.name.clone(),
        configuration: arm.configuration(),
        place: arm.place.clone(),
        facts: finished.facts_of(index).cloned(),
    });
    let mut document = Document {
        schema_version: SCHEMA_VERSION,
        name: settings.name.clone(),
        trial_id,
        ended: match finished.reason {
            Reason::Interrupted | Reason::Reboot => "interrupted",
            Reason::Settled | Reason::BudgetEnded if finished.is_decided() => "decided",
            Reason::Settled => "given-up",
            Reason::BudgetEnded => "budget-ended",
        },
        rounds: finished.rounds,
        is_cut_short: finished.all.is_cut_short(),
        is_in_parts: !finished.all.underway().is_empty(),
        has_begun: finished.all.has_begun(),
        seed: format!("{:#x}", plan.seed),
        compare: settings.compare,
        practical_percent: settings.practical.0,
        errors: settings.errors,
        round_seconds: finished.round_time.map(Nanos::as_secs_f64),
        claim: None,
        environment: environment.clone(),
        places,
        home_again: String::new(),
        said_again: places_again(plan, finished.next_boot.as_deref()),
        next_boot: finished.next_boot.clone(),
        rounds_are_done: finished.reason != Reason::Interrupted
            && finished.next_boot.is_none()
            && finished.all.has_all_rounds(),
        ended_by: None,
        arms: arms.collect(),
        audit: finished.audit.clone(),
        receipt: None,
        explanations: Vec::new(),
        workloads,
        failures: finished.all.failures().iter().cloned().chain(finished.all.never_measured()).collect(),
        warnings: Vec::new(),
        trial: plan.trial.to_toml(),
        repeat,
    };
    let ground = [document.of_machines(|there| &there.kernel), document.of_machines(|there| &there.device)];
    let is_whole = finished.reason != Reason::Interrupted;
    document.claim = claim::report(plan, finished.judge(), &ground, finished.all.failures(), is_whole);
    let known: Vec<ArmFacts> = finished.facts.iter().cloned().collect::<Option<_>>().unwrap_or_default();
    document.warnings = audit::remarks(plan, &known, environment.tick_hz)
        .chain(load_warning(document.machines()))
        .chain(memory_warning(plan, &document))
        .chain(finished.judge().map(Judge::warnings).unwrap_or_default())
        .chain(instrument_warning(&document))
        .chain(noise_warning(plan, finished))
        .chain(ceiling_warning(&document.workloads))
        .chain(control_warning(plan))
        .chain(loads_warning(plan, finished.rounds, &document))
        .chain(mixed_loads_warning(plan))
        .chain(emulation_warning(plan))
        .collect();
    document
}

/// Caveat of guests' figures.
fn emulation_warning(plan: &Plan) -> Option<String> {
    let guest = plan.trial.arms.iter().find_map(|arm| plan.trial.guest_of(arm))?;
    Some(match plan.trial.clock_at(guest) {
        Clock::Real => "ARMS RAN IN GUESTS: rates and latencies are those of virtual machines under QEMU, with its virtual disks".into(),
        Clock::Virtual => "TIME IS VIRTUAL: guests had one emulated processor on which an instruction takes 1 ns, so \
            times are path lengths and waits; they leave out the effects of caches, memory and other processors".into(),
        Clock::Emulator => "PROCESSORS ARE EMULATED: rates, latencies and CPU time are the emulator's, not those of a machine; none is shown, and verdicts are on counts".into(),
    })
}

/// Caveat of verdicts if data were loaded before the first round.
fn loads_warning(plan: &Plan, rounds: u32, document: &Document) -> Option<String> {
    let mut states = document.workloads.iter().flat_map(WorkloadReport::states);
    states.find(|state| state.near || state.verdict.is_decided())?;
    let arm = plan.trial.arms.iter().position(|arm| plan.trial.loads(arm).is_some())?;
    let used: BTreeSet<u32> = (1..=rounds).filter_map(|round| plan.load_of(arm, round)).collect();
    let loads = counted(used.len(), "load");
    Some(format!(
        "verdicts hold for the {loads} of the data that rounds began with: another load may be placed \
             elsewhere on the device; arms made alike share their loads, as do an arm and its control"
    ))
}

/// Caveat of trials in which some arms find their data loaded, and others load it in every run.
fn mixed_loads_warning(plan: &Plan) -> Option<String> {
    let arms = plan.trial.arms.iter().filter(|arm| arm.control_of.is_none());
    let (with, without): (Vec<&Arm>, Vec<&Arm>) = arms.partition(|arm| plan.trial.loads(arm).is_some());
    let names = |arms: &[&Arm]| arms.iter().map(|arm| arm.name.as_str()).collect::<Vec<_>>().join(", ");
    (!with.is_empty() && !without.is_empty()).then(|| {
        format!(
            "CACHES DIFFER: runs of {} begin with data that were loaded before, and with cold caches; runs of {} load their own first, \
             which leaves caches warm",
            names(&with),
            names(&without)
        )
    })
}

/// Arguments that repeat the commands of places on other hosts, and the name of this host's next boot.
fn places_again(plan: &Plan, next_boot: Option<&str>) -> String {
    if let Some(name) = next_boot {
        return format!(" --as-arm {name}");
    }
    let elsewhere = plan.trial.places.iter().filter(|place| place.takes_command());
    elsewhere.map(|place| format!(" --place {}=COMMAND", place.name)).collect()
}

/// Percent of a machine's processors above which other work takes enough to be spoken of.
const BUSY_PERCENT: u8 = 15;

/// Reports other load of a machine when the trial began.
fn load_warning<'a>(machines: impl Iterator<Item = &'a Environment>) -> Option<String> {
    let named = machines.filter_map(|machine| {
        let busy = machine.busy_percent.filter(|busy| *busy > BUSY_PERCENT)?;
        let at = if machine.place.is_empty() { String::new() } else { format!(" of {}", machine.place) };
        Some(format!("{busy} % of the processor time{at}"))
    });
    let named: Vec<String> = named.collect();
    (!named.is_empty()).then(|| {
        format!(
            "other programs used {} when the trial began: they slow every arm, add noise, and count in CPU/op (not in \
             own CPU/op); a quiet machine decides sooner",
            named.join(", ")
        )
    })
}

/// Reports an effect of the memory limit on buffered writes that no machine has.
fn memory_warning(plan: &Plan, document: &Document) -> Option<String> {
    let is_v1 = document.machines().any(|machine| machine.memory_limited_by == Some(LimitedBy::V1));
    let named = plan.workloads.iter().filter(|workload| workload.is_buffered_write());
    let named: Vec<&str> = named.map(|workload| workload.name.as_str()).collect();
    (is_v1 && !named.is_empty()).then(|| {
        format!(
            "THE MEMORY LIMIT DOES NOT EMULATE A SMALL MACHINE for {}: under cgroup v1 buffered writers are not \
             throttled before the limit; compare reads, or use a kernel with the memory controller in cgroup v2",
            named.join(", ")
        )
    })
}

/// Reports a load generator's loop that is a noticeable part of an operation.
fn instrument_warning(document: &Document) -> Option<String> {
    let share = |workload: &WorkloadReport, cell: &CellReport| {
        // The arm, or the workload if workloads are compared: then the section has the arm's name.
        let arm = document.arms.iter().find(|arm| [&cell.arm, &workload.name].contains(&&arm.name))?;
        #[expect(clippy::cast_precision_loss, reason = "some tens of nanoseconds")]
        let cost = document.machine_of(arm)?.generator_loop_ns? as f64;
        Some(cost / cell.latency_ns?[0]? * 100.0)
    };
    let shares = document.workloads.iter().flat_map(|workload| {
        workload.cells.iter().filter_map(move |cell| Some((share(workload, cell)?, &cell.arm)))
    });
    let (share, arm) = shares.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let part = format!("the load generator's own loop is about {share:.0} % of an operation on {arm}");
    (share >= LOOP_SHARE).then(|| format!("differences are larger than they look, as {part}"))
}

/// Remedy for a device whose variation leaves the answer incomplete.
fn noise_warning(plan: &Plan, finished: &Finished<'_>) -> Option<String> {
    let judge = finished.judge().filter(|_| !finished.is_decided())?;
    let spread = judge.spread_between_rounds()?;
    let is_file = plan.trial.device.kind.is_file();
    // Without an interval it is not known yet how many rounds it takes.
    let is_hopeless = |state: &ContrastState| state.interval.is_some() && state.rounds_needed.is_none();
    let open = judge.states().into_iter().filter(|state| state.holds_open);
    let open: Vec<ContrastState> = open.filter(|state| state.verdict == Outcome::Undecided).collect();
    let remedy = match !open.is_empty() && open.iter().all(is_hopeless) {
        true => "more rounds would hardly find them here, longer runs might",
        false => "more rounds (--budget) find them here",
    };
    // It is a spread of rates, which are the emulator's in a guest.
    (is_file && !plan.trial.has_clock(Clock::Emulator) && spread > NOISY).then(|| {
        format!(
            "half of the runs differ from the median of their arm by more than {:.0} %, which hides differences: \
             {remedy}; if the device is the source, a quieter one detects them sooner (--device model:gp3-3000, or \
             another of `fstrial device list`), but the result then holds for that device only",
            spread.exp_m1() * 100.0
        )
    })
}

/// Reports arms at the ceiling of a modelled device: that is the answer for this volume only.
fn ceiling_warning(workloads: &[WorkloadReport]) -> Option<String> {
    let named = workloads.iter().flat_map(|workload| {
        workload.levels().into_iter().filter_map(move |threads| {
            let cells = workload.cells.iter().filter(|cell| cell.threads == threads);
            let many = cells.filter(|cell| cell.at_limit).count() > 1;
            many.then(|| format!("{}, {}", workload.title(), threads_in_words(threads)))
        })
    });
    let named: Vec<String> = named.collect();
    (!named.is_empty()).then(|| {
        format!(
            "several arms ran at the limit of the modelled device, which hides differences beyond it ({})",
            named.join("; ")
        )
    })
}

/// Reports a requested control that cannot run.
fn control_warning(plan: &Plan) -> Option<String> {
    let workload = |contrast: &Contrast| plan.cells[contrast.a].workload;
    let has = |resting: &Contrast| {
        plan.contrasts.iter().filter(|other| plan.is_control(other.a)).any(|control| {
            let key = |of: &Contrast| (workload(of), of.metric, of.dose);
            key(control) == key(resting)
        })
    };
    let without = plan.contrasts.iter().filter(|contrast| contrast.dose.is_some() && !has(contrast));
    let mut names: Vec<&str> =
        without.map(|contrast| plan.workloads[workload(contrast)].name.as_str()).collect();
    names.dedup();
    (plan.trial.trial.control && !names.is_empty()).then(|| {
        format!(
            "no control runs in {}: loads at an offered rate cannot be slowed down, and programs and operations only by a \
             modelled device",
            names.join(", ")
        )
    })
}

fn section_report(
    plan: &Plan,
    finished: &Finished<'_>,
    section: &[(usize, usize)],
    states: &[ContrastState],
) -> WorkloadReport {
    let (first, result) = section[0];
    let index = plan.cells[first].workload;
    let kind = &plan.results[index][result];
    // A claim's questions may be about other levels, workloads or results: it has a separate report.
    let of_this = |n: usize| {
        plan.parts.is_empty() && plan.contrasts.get(n).is_some_and(|c| section.contains(&(c.a, c.result_a)))
    };
    let is_control = |n: usize| {
        plan.contrasts.get(n).is_some_and(|c| plan.is_control(c.a) && section.contains(&(c.b, c.result_b)))
    };
    let controls = states.iter().enumerate().filter(|(n, _)| is_control(*n));
    let controls = controls.map(|(_, state)| state.clone()).collect();
    let states = states.iter().enumerate().filter(|(n, _)| of_this(*n));
    let report = |(_, state): (usize, &ContrastState)| VerdictReport {
        contrast: state.clone(),
        unequal_durability: unequal(plan, finished, &state.a, &state.b),
    };
    let (leads, verdicts) = states.map(report).partition(|report: &VerdictReport| report.contrast.is_lead);
    let timed = plan.workloads[index].phase_of(result).filter(|phase| phase.until == Until::Time);
    let program = plan.workloads[index].program().filter(|timed| timed.program.server.is_some());
    let served = program.map(|timed| Served { durable: timed.program.durable(), data: None });
    let served = served.or_else(|| plan.workloads[index].phase_of(result).and_then(of_engine));
    let repeated = plan.workloads[index].operation().map(|timed| timed.repeat);
    WorkloadReport {
        name: plan.under(first).to_owned(),
        phase: kind.name.clone(),
        about: plan.trial.workloads.get(index).and_then(|entry| entry.about.clone()),
        unit: kind.unit.clone(),
        less_is_better: kind.less_is_better,
        promise: timed.and_then(|phase| phase.find_rate.as_ref()).map(ToString::to_string),
        repeated: repeated.filter(|times| *times > 1),
        served,
        secondary: plan.is_secondary(index, result),
        has_baseline: plan.trial.trial.baseline.is_some(),
        warmup_seconds: timed.map(|phase| phase.warmup.as_secs_f64()),
        duration_seconds: timed
            .map(|phase| phase.duration)
            .or(program.map(|timed| timed.duration))
            .map(Nanos::as_secs_f64),
        cells: section.iter().map(|at| cell_report(plan, finished.judge(), *at)).collect(),
        verdicts,
        leads,
        controls,
    }
}

/// The engine of a phase.
fn of_engine(phase: &Phase) -> Option<Served> {
    let mut patterns = phase.groups.iter().map(|group| &group.pattern);
    patterns.find_map(|pattern| match pattern {
        Pattern::Ycsb(ycsb) => {
            Some(Served { durable: Some(ycsb.engine.durable().into()), data: Some(ycsb.data()) })
        }
        _ => None,
    })
}

impl WorkloadReport {
    /// Its levels, in their order.
    pub fn levels(&self) -> Vec<u16> {
        let mut levels: Vec<u16> = self.cells.iter().map(|cell| cell.threads).collect();
        levels.dedup();
        levels
    }

    /// States of its contrasts; without leads, which are between places.
    pub fn states(&self) -> impl Iterator<Item = &ContrastState> + Clone {
        self.verdicts.iter().map(|report| &report.contrast)
    }

    /// The places with separate comparisons, as arms at different places are not compared; else one without a name.
    pub fn places(&self) -> Vec<Option<&str>> {
        let mut places: Vec<Option<&str>> = Vec::new();
        for cell in &self.cells {
            let place = cell.place.as_deref().filter(|_| !self.leads.is_empty());
            if !places.contains(&place) {
                places.push(place);
            }
        }
        places
    }

    /// Its name with the phase, and with the promise of a rate search, which is another question: `bonnie, rewrite`,
    /// `oltp, highest rate with p99<5ms`.
    pub fn title(&self) -> String {
        let phase = Some(&self.phase).filter(|phase| !phase.is_empty()).cloned();
        let promise = self.promise.as_ref().map(|promise| format!("highest rate with {promise}"));
        [Some(self.name.clone()), phase, promise].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// Pairs of arms, or workloads, that are compared in any way, a claim's too, and of unequal durability: with the reason.
pub fn unequal_pairs(plan: &Plan, finished: &Finished<'_>) -> Vec<(String, String, String)> {
    let mut pairs: Vec<(String, String, String)> = Vec::new();
    for contrast in &plan.contrasts {
        let (a, b) = (plan.compared(contrast.a), plan.compared(contrast.b));
        if a == b || pairs.iter().any(|(x, y, _)| [x, y] == [a, b] || [x, y] == [b, a]) {
            continue;
        }
        if let Some(reason) = unequal(plan, finished, a, b) {
            pairs.push((a.to_owned(), b.to_owned(), reason));
        }
    }
    pairs
}

fn unequal(plan: &Plan, finished: &Finished<'_>, a: &str, b: &str) -> Option<String> {
    if plan.trial.trial.compare == Compare::Workloads {
        return unequal_workloads(plan, a, b);
    }
    let find = |name: &str| {
        let index = plan.trial.arms.iter().position(|arm| arm.name == name)?;
        let (arm, mut facts) = (&plan.trial.arms[index], finished.facts_of(index)?.clone());
        // If the device is known to have no volatile cache, the kernel's view of it is irrelevant.
        let model = plan.trial.device_of(arm).modelled();
        facts.durability.volatile_cache |= model.is_some_and(|model| !model.has_volatile_cache());
        Some((arm, facts))
    };
    let ((a, of_a), (b, of_b)) = (find(a)?, find(b)?);
    audit::unequal_durability((a, &of_a), (b, &of_b))
}

/// The reason why two workloads are unequal: their writes become durable at other moments, or their servers promise
/// other things.
fn unequal_workloads(plan: &Plan, a: &str, b: &str) -> Option<String> {
    let find = |name: &str| plan.workloads.iter().find(|workload| workload.name == name);
    let promised = |name: &str| {
        let message = find(name)?.program()?.program.durable()?;
        (message != Durability::ReadsOnly.to_string()).then_some(message)
    };
    if let (Some(of_a), Some(of_b)) = (promised(a), promised(b)) {
        return (of_a != of_b).then(|| format!("durable in {a}: {of_a}; in {b}: {of_b}"));
    }
    let writes = |name: &str| {
        let all = find(name)?.durability().into_iter().map(|(_, durability)| durability);
        let all: BTreeSet<Durability> =
            all.filter(|durability| *durability != Durability::ReadsOnly).collect();
        (!all.is_empty()).then_some(all)
    };
    let (of_a, of_b) = (writes(a)?, writes(b)?);
    let words =
        |all: &BTreeSet<Durability>| all.iter().map(|one| one.adverb()).collect::<Vec<_>>().join(" and ");
    (of_a != of_b)
        .then(|| format!("writes of {a} are made durable {}, those of {b} {}", words(&of_a), words(&of_b)))
}

fn cell_report(plan: &Plan, judge: Option<&Judge<'_>>, (at, result): (usize, usize)) -> CellReport {
    let samples = judge.map(|judge| judge.samples(at, result)).unwrap_or_default();
    let median = |value: &dyn Fn(&LoadSample) -> Option<f64>| {
        let loads = samples.iter().filter_map(|sample| sample.load.as_ref());
        fstrial_stats::spread::median(&loads.filter_map(value).collect::<Vec<_>>())
    };
    let per_operation =
        |counter| -> Vec<f64> { samples.iter().filter_map(|sample| sample.per_operation(counter)).collect() };
    let mut written = per_operation(Counter::DeviceWritten);
    written.retain(|bytes| *bytes > 0.0);
    // A quantile of some of the runs would be one of the longer ones.
    let quantile = |index: usize| {
        let loads = || samples.iter().filter_map(|sample| sample.load.as_ref());
        loads()
            .all(|load| load.latency_ns[index].is_some())
            .then(|| median(&|load| load.latency_ns[index]))?
    };
    let counted = |counter| samples.iter().filter_map(move |sample| sample.counters.get(counter));
    // The numbers of a program are all of one run of it.
    let is_first = result == 0 || plan.workloads[plan.cells[at].workload].program().is_none();
    let checkpoints: Vec<u64> = counted(Counter::Checkpoints).filter(|_| is_first).collect();
    let laps: Vec<(f64, f64)> = samples.iter().filter_map(|sample| sample.counters.laps()).collect();
    let lap =
        |of: fn(&(f64, f64)) -> f64| fstrial_stats::spread::median(&laps.iter().map(of).collect::<Vec<_>>());
    let typical: Typical = samples.iter().map(|sample| sample.rate).collect();
    let (typical, interval) = (typical.value(), typical.interval_or_range());
    let arm = &plan.trial.arms[plan.cells[at].arm];
    let bytes_per_second =
        robust_mean(samples.iter().filter_map(|sample| Some(sample.load.as_ref()?.bytes_rate)));
    let unit = &plan.results[plan.cells[at].workload][result].unit;
    let mut report = CellReport {
        arm: plan.compared(at).to_owned(),
        place: arm.place.clone(),
        threads: plan.cells[at].threads,
        runs: samples.len(),
        operations: median(&|load| Some(load.latencies.len() as f64)),
        failed: judge.is_some_and(|judge| judge.has_failed(at)),
        unsupported: judge.and_then(|judge| judge.unsupported(at)).map(str::to_owned),
        tool: samples.last().and_then(|sample| sample.tool.clone()),
        rate: typical,
        rate_interval: interval,
        bytes_per_second,
        at_limit: is_at_limit(plan.trial.device_of(arm), bytes_per_second, typical, unit),
        latency_ns: quantile(0).map(|p50| [Some(p50), quantile(1), quantile(2)]),
        latency_of_kinds_ns: latency_of_kinds(samples),
        cpu_per_operation_ns: fstrial_stats::spread::median(&per_operation(Counter::CpuMachine)),
        load_cpu_per_operation_ns: median(&|load| Some(load.cpu_load_ns)),
        device_bytes_per_operation: fstrial_stats::spread::median(&written)
            .or_else(|| written_each(plan, (at, result), samples)),
        checkpoints: mean(&checkpoints),
        compactions: mean(&counted(Counter::Compactions).collect::<Vec<_>>()),
        together: Together::of(plan.trial.trial.clients, samples),
        rate_by_load: rate_by_load(plan, at, samples),
        device_share: median(&|load| load.device_share),
        device_idle: is_idle(samples),
        log_bytes: counted(Counter::LogSize).next_back(),
        log_laps: lap(|(_, within)| *within),
        log_laps_before: lap(|(before, _)| *before),
        // For few commits, or none in most runs, the mean tells the share of runs with one.
        commits: mean(&counted(Counter::Commits).collect::<Vec<_>>()),
        generator_share: judge.map_or(0.0, |judge| judge.generator_share((at, result))),
    };
    if !plan.trial.can_judge(arm, Metric::Throughput) {
        report.leave_out_times();
    }
    report
}

fn latency_of_kinds(samples: &[Sample]) -> BTreeMap<String, [Option<f64>; 3]> {
    let loads = || samples.iter().filter_map(|sample| sample.load.as_ref());
    let kinds: BTreeSet<&OperationKind> = loads().flat_map(|load| load.latency_of_kinds_ns.keys()).collect();
    let quantile = |kind: &OperationKind, index: usize| {
        let of = |load: &LoadSample| load.latency_of_kinds_ns.get(kind)?[index];
        // As of all operations: not of some of the runs.
        let all: Option<Vec<f64>> = loads().map(of).collect();
        all.and_then(|all| fstrial_stats::spread::median(&all))
    };
    kinds.into_iter().map(|kind| (kind.to_string(), [0, 1, 2].map(|at| quantile(kind, at)))).collect()
}

fn rate_by_load(plan: &Plan, cell: usize, samples: &[Sample]) -> Vec<Option<f64>> {
    let arm = plan.cells[cell].arm;
    let of_load = |number| {
        let of_it = samples.iter().filter(|sample| plan.load_of(arm, sample.round) == Some(number));
        of_it.map(|sample| sample.rate).collect::<Typical>().value()
    };
    (0..plan.trial.loads(&plan.trial.arms[arm]).unwrap_or(0)).map(of_load).collect()
}

/// True if the device was idle in most of the runs in which that was counted.
fn is_idle(samples: &[Sample]) -> bool {
    let passed = samples.iter().filter_map(|sample| {
        let of = |counter| sample.counters.get(counter);
        Some(of(Counter::DeviceRead)?.saturating_add(of(Counter::DeviceWritten)?))
    });
    let passed: Vec<u64> = passed.collect();
    passed.iter().filter(|bytes| **bytes == 0).count() * 2 > passed.len()
}

/// Bytes written to the device for an operation of a server's clients, median: of its main result, if that is a rate
/// over their requested duration. The whole command takes longer.
fn written_each(plan: &Plan, (at, result): (usize, usize), samples: &[Sample]) -> Option<f64> {
    let workload = plan.cells[at].workload;
    let timed = plan.workloads[workload].program().filter(|timed| timed.program.server.is_some())?;
    let seconds = timed.program.told_time(timed.duration)?.as_secs_f64();
    let is_main_rate = result == 0 && plan.results[workload][result].unit == unit::OPERATIONS;
    let of =
        |sample: &Sample| Some(sample.counters.get(Counter::DeviceWritten)? as f64 / (sample.rate * seconds));
    let each: Vec<f64> = samples.iter().filter_map(of).collect();
    is_main_rate.then(|| fstrial_stats::spread::median(&each))?
}

/// The mean of counts; none if there are none.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn mean(counts: &[u64]) -> Option<f64> {
    (!counts.is_empty()).then(|| counts.iter().sum::<u64>() as f64 / counts.len() as f64)
}

/// The robust mean of positive numbers: Hodges–Lehmann on logarithms. None without any, or if one is not positive.
fn robust_mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let positive = values.map(|value| (value > 0.0).then_some(value)).collect::<Option<Vec<f64>>>()?;
    positive.into_iter().collect::<Typical>().value()
}

/// Flags for showing and storing a trial, without a value and with one: a repetition sets them again.
const NOT_REPEATED: [&str; 8] =
    ["--quiet", "-q", "-qq", "--ok-undecided", "--watch", "--no-page", "--json", "--force"];
const NOT_REPEATED_VALUES: [&str; 4] = ["--seed", "--save", "--tag", "--home"];

/// The command that repeats a trial: its own command line, from the start, with the seed.
pub fn repeat_command(command_line: &str, seed: u64) -> String {
    let mut words = quoted_words(command_line).into_iter();
    let mut kept: Vec<&str> = Vec::new();
    while let Some(word) = words.next() {
        match word {
            _ if NOT_REPEATED_VALUES.contains(&word) => drop(words.next()),
            _ if NOT_REPEATED.contains(&word) => {}
            _ if word.split_once('=').is_some_and(|(flag, _)| NOT_REPEATED_VALUES.contains(&flag)) => {}
            _ if kept.is_empty() && word.ends_with("/fstrial") => kept.push("fstrial"),
            _ => kept.push(word),
        }
    }
    format!("{} --seed {seed:#x}", kept.join(" "))
}

/// The words of a command line, each still quoted as it is written.
fn quoted_words(line: &str) -> Vec<&str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let ends = |c: char| {
        // An apostrophe is written outside of quotes, as \'.
        let was_escaped = is_escaped;
        is_escaped = c == '\\' && !is_quoted && !was_escaped;
        is_quoted ^= c == '\'' && !was_escaped;
        c == ' ' && !is_quoted && !was_escaped
    };
    line.split(ends).filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::{trial::Trial, workload::Entry};

    #[test]
    fn repeat_command_drops_one_off_options() {
        let line = "/usr/bin/fstrial compare ext4 'xfs:-m reflink=0' --tag nightly --save 'my trial.toml' -q --seed=7 -b 1m";
        assert_eq!(repeat_command(line, 16), "fstrial compare ext4 'xfs:-m reflink=0' -b 1m --seed 0x10");
        assert_eq!(repeat_command("fstrial run t.toml --json -qq", 1), "fstrial run t.toml --seed 0x1");
        let quoted = fstrial_stack::command::quoted("o'brien the 2nd");
        let line = format!("fstrial compare ext4 xfs --baseline {quoted} --seed 7 --tag x -b 1m");
        assert_eq!(
            repeat_command(&line, 1),
            format!("fstrial compare ext4 xfs --baseline {quoted} -b 1m --seed 0x1")
        );
    }

    #[test]
    fn load_warnings_cover_verdicts_and_mixed_loads() {
        let planned = |arms: &[&str]| {
            let trial = Trial {
                arms: arms.iter().map(|arm| arm.parse().unwrap()).collect(),
                workloads: vec![Entry::of_preset("ycsb-a")],
                ..Trial::default()
            };
            Plan::new(trial.settled(4).unwrap(), 1).unwrap()
        };
        let plan = planned(&["ext4:state=loaded:3", "xfs:state=loaded:3"]);
        let warned = |verdict: Outcome, rounds: u32| {
            let contrast = ContrastState { verdict, ..ContrastState::between("xfs", "ext4", "ycsb-a") };
            let verdicts = vec![VerdictReport { contrast, unequal_durability: None }];
            let workloads = vec![WorkloadReport { verdicts, ..WorkloadReport::default() }];
            loads_warning(&plan, rounds, &Document { workloads, ..Document::default() })
        };
        assert!(warned(Outcome::Faster, 2).unwrap().starts_with("verdicts hold for the 2 loads"));
        assert!(warned(Outcome::Equivalent, 9).unwrap().starts_with("verdicts hold for the 3 loads"));
        assert_eq!(warned(Outcome::Undecided, 9), None);
        assert_eq!(mixed_loads_warning(&plan), None);
        let mixed = mixed_loads_warning(&planned(&["ext4:state=loaded:3", "b=ext4"])).unwrap();
        assert!(mixed.contains("runs of b load their own first"), "{mixed}");
    }

    #[test]
    fn reports_unequal_durability_between_workloads() {
        let names = ["ycsb-a", "ycsb-a-journal", "ycsb-c", "ycsb-a-wiredtiger"];
        let mut trial = Trial {
            arms: vec!["ext4".parse().unwrap()],
            workloads: names.map(Entry::of_preset).to_vec(),
            ..Trial::default()
        };
        trial.trial.compare = Compare::Workloads;
        let plan = Plan::new(trial.settled(4).unwrap(), 1).unwrap();
        assert_eq!(unequal_workloads(&plan, "ycsb-a-journal", "ycsb-a"), None);
        assert_eq!(unequal_workloads(&plan, "ycsb-c", "ycsb-a"), None, "what only reads promises nothing");
        assert_eq!(
            unequal_workloads(&plan, "ycsb-a-wiredtiger", "ycsb-a").as_deref(),
            Some("writes of ycsb-a-wiredtiger are made durable periodically, those of ycsb-a per request")
        );
    }

    #[test]
    fn reports_unequal_durability_between_server_settings() {
        let text = "
            [trial]
            compare = 'workloads'
            [[arm]]
            filesystem = 'ext4'
            [[workload]]
            use = 'postgresql-tpcb'
            name = 'on'
            [[workload]]
            use = 'postgresql-tpcb'
            name = 'off'
            parameters = { synchronous_commit = 'off' }
            [[workload]]
            use = 'postgresql-select'
        ";
        let plan = Plan::new(Trial::parse("trial", text).unwrap().settled(4).unwrap(), 1).unwrap();
        let message = unequal_workloads(&plan, "off", "on").unwrap();
        assert!(message.starts_with("durable in off: commits as set (synchronous_commit = off"), "{message}");
        assert!(message.contains("); in on: commits as set (synchronous_commit = on"), "{message}");
        assert_eq!(unequal_workloads(&plan, "on", "on"), None);
        assert_eq!(
            unequal_workloads(&plan, "postgresql-select", "on"),
            None,
            "what only reads promises nothing"
        );
    }

    #[test]
    fn a_busy_machine_is_warned_of() {
        let machine = |busy_percent: Option<u8>| Environment { busy_percent, ..Environment::default() };
        assert_eq!(load_warning([machine(Some(9)), machine(None)].iter()), None);
        let warning = load_warning([machine(Some(9)), machine(Some(67))].iter()).unwrap();
        assert!(warning.contains("used 67 % of the processor time when"), "{warning}");
    }
}
