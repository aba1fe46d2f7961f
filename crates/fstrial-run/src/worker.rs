//! The worker: takes one job on standard input, builds the stack, prepares and runs the load, takes everything down,
//! and answers with messages and one measurement. It knows nothing about rounds, statistics or the store.

mod clients;
mod commits;
mod helper;
mod look;
mod promises;
mod receipt;
mod search;
mod state;
mod watch;

use super::{
    failure::{engine_failure, out_of_memory, stack_failure},
    operation::{self, OperationEvent, OperationRequest},
    program::{self, Level, ProgramEvent},
};
pub use clients::require_mpi;
pub use helper::helper;

use crate::{attached, error::ExpectedError, evidence::no_evidence, exit_code};
use clap::Args;
use fstrial_engine::{KeyValueEngines, Moment, PreparedPhase, Site, group_name};
use fstrial_model::{
    arm::CheckedArm,
    counter::{Counter, Counters},
    job::{
        DeviceBinding, FailureKind, Job, Load, PROTOCOL, PhaseTask, PlacedJob, ProgramTask, Purpose,
        RunFailure, Task, WorkerMessage,
    },
    measurement::{LoadResult, Measurement, PhaseResult, Reading, Stage, Value},
    units::{Bytes, Nanos},
    workload::{Better, Pattern, Until, metric::PickedNumber},
};
use fstrial_probe::Observer;
use fstrial_stack::{
    StackError,
    counters::DeviceCounters,
    cpu::{CpuCount, OthersCount},
    descendants, host, isolation,
    ledger::{Ledger, namespace_of},
    log::LogCounter,
    memory::LimitedGroup,
    stack::{ArmTarget, AttachedDevices, ReadyArm},
};
use look::Look;
pub use receipt::LOG_LIMIT;
use receipt::Observed;
use std::{
    collections::BTreeSet,
    io::{BufRead, Read, Write},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    thread,
    time::Instant,
};
use watch::Watch;

/// Most bytes of a job.
const MAX_JOB_BYTES: u64 = 4 << 20;
/// Share of a memory limit that a layout may fill before it is written out: one part in N.
const LAYOUT_SHARE: u64 = 8;
/// Bytes per second below which laying out counts as hung.
const MIN_LAYOUT_BYTES_PER_SECOND: u64 = 2 << 20;

/// Do one run: a job on standard input, messages on standard output. Started by fstrial itself.
#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// Make namespaces and work in them.
    #[arg(long)]
    isolate: bool,
    /// Work in the namespaces that were made.
    #[arg(long, hide = true)]
    isolated: bool,
    /// End leftovers of this worker's programs; the process namespace of the command.
    #[arg(long, hide = true)]
    adopting: Option<u64>,
    /// Only find out whether namespaces can be made without root.
    #[arg(long, hide = true)]
    tries: bool,
    /// Do the share of one of several clients.
    #[arg(long, hide = true)]
    client: bool,
    /// Become this command, which ends when the worker does.
    #[arg(hide = true, last = true)]
    launch: Vec<String>,
}

/// Runs this program as a worker that has these engines; the exit code.
///
/// # Errors
/// No permission, or no job. A failure of the job is a message.
pub fn worker(args: &WorkerArgs, engines: &dyn KeyValueEngines) -> Result<u8, ExpectedError> {
    match args {
        WorkerArgs { isolate: true, .. } => isolate(),
        WorkerArgs { tries: true, .. } => try_namespaces(),
        WorkerArgs { client: true, .. } => clients::client(),
        WorkerArgs { launch, .. } if !launch.is_empty() => clients::launch(launch),
        WorkerArgs { isolated, adopting, .. } => work(*isolated, *adopting, engines),
    }
}

/// The outer worker: makes the namespaces, starts the inner one in them and passes on its exit code. Without root these
/// are for programs, and where they are not allowed the inner one does without.
///
/// # Errors
/// No permission, or the inner worker cannot be started.
fn isolate() -> Result<u8, ExpectedError> {
    isolation::die_with_parent()?;
    let inner = if host::is_root() {
        isolation::unshare()?;
        "--isolated".to_owned()
    } else {
        let namespace = namespace_of("self")?;
        if itself(&["worker", "--tries"])?.success() {
            isolation::unshare_processes()?;
        }
        format!("--adopting={namespace}")
    };
    let status = itself(&["worker", &inner])?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(exit_code::OUR_FAULT))
}

/// Finds out whether an ordinary user may make namespaces; this process is of no use afterwards.
///
/// # Errors
/// It is not allowed.
fn try_namespaces() -> Result<u8, ExpectedError> {
    isolation::unshare_processes()?;
    Ok(exit_code::VERDICT)
}

fn itself(words: &[&str]) -> Result<ExitStatus, ExpectedError> {
    #[expect(clippy::disallowed_methods, reason = "starts this very program, not a tool")]
    let mut command = Command::new("/proc/self/exe");
    // The attempt's reason why namespaces are unavailable is not an error.
    let stderr = if words.contains(&"--tries") { Stdio::null() } else { Stdio::inherit() };
    let status = command.args(words).stdin(Stdio::inherit()).stderr(stderr).status();
    status.map_err(|e| ExpectedError::Fault(format!("could not start the isolated worker: {e}")))
}

/// The worker proper. `isolated`: process 1 of private namespaces; `adopting`: it ends leftovers of programs, and this
/// is the process namespace of its command.
///
/// # Errors
/// The job cannot be read. A failure of the job is a message.
fn work(isolated: bool, adopting: Option<u64>, engines: &dyn KeyValueEngines) -> Result<u8, ExpectedError> {
    isolation::die_with_parent()?;
    if adopting.is_some() {
        descendants::adopt()?;
    }
    let mut line = String::new();
    let read = std::io::stdin().lock().take(MAX_JOB_BYTES).read_line(&mut line);
    read.map_err(|e| ExpectedError::Fault(format!("could not read the job: {e}")))?;
    let mut placed: PlacedJob = serde_json::from_str(&line).map_err(|e| {
        ExpectedError::usage(
            format!("this is not a job: {e}"),
            "`fstrial worker` is started by fstrial itself",
        )
    })?;
    let protocol = placed.job.protocol;
    if protocol != PROTOCOL {
        return Err(ExpectedError::usage(
            format!("the job speaks protocol {protocol}, this worker {PROTOCOL}"),
            "use one version of fstrial everywhere",
        ));
    }
    let _inputs = attached::receive(&mut placed.job, std::io::stdin().lock())
        .map_err(|e| ExpectedError::Fault(format!("could not read the inputs of the job: {e}")))?;
    die_with_standard_input();
    let ended = match Run::prepare(&placed, isolated, adopting, engines).and_then(|mut run| run.execute()) {
        Ok(measurement) => WorkerMessage::Measured { measurement: measurement.map(Box::new) },
        Err(failure) => WorkerMessage::Failed { failure },
    };
    say(&ended);
    Ok(exit_code::VERDICT)
}

/// Ends this process when its standard input does: the coordinator keeps it open for as long as it lives.
fn die_with_standard_input() {
    thread::spawn(|| {
        let mut nothing = [0_u8; 64];
        while std::io::stdin().read(&mut nothing).is_ok_and(|count| count > 0) {}
        clients::end();
        #[expect(clippy::exit, reason = "no peer is left to answer; the kernel takes the stack down")]
        std::process::exit(i32::from(exit_code::INTERRUPTED))
    });
}

fn say(message: &WorkerMessage) {
    let line = serde_json::to_string(message).expect("a message is plain data");
    let mut out = std::io::stdout().lock();
    // If the coordinator is gone, so is this process in a moment.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

struct Run<'a> {
    job: &'a Job,
    arm: CheckedArm<'a>,
    /// The same with all that belongs to this place.
    placed: &'a PlacedJob,
    engines: &'a dyn KeyValueEngines,
    ledger: Ledger,
    isolated: bool,
    stage: Stage,
    stage_began: Instant,
    stages: Vec<(Stage, Nanos)>,
    output: Option<String>,
    mkfs_output: String,
    /// The group that the load and the layout of its files are in, where their memory is limited.
    limited: Option<LimitedGroup>,
    /// The promises of the load, if the power of its device is cut.
    promises: Option<Observed>,
    /// The filesystem has no journal: after a crash it is repaired before it is mounted.
    is_repaired_first: bool,
    watch: Watch,
}

impl<'a> Run<'a> {
    fn prepare(
        placed: &'a PlacedJob,
        isolated: bool,
        namespace: Option<u64>,
        engines: &'a dyn KeyValueEngines,
    ) -> Result<Self, RunFailure> {
        let ledger = match namespace {
            Some(namespace) => Ledger::in_namespace(&placed.ledger, namespace),
            None => Ledger::of_this_process(&placed.ledger, placed.coordinator),
        };
        let ledger = ledger.map_err(|e| stack_failure(Stage::Attach, &e))?;
        let arm = placed.job.arm.checked().map_err(|bad| RunFailure {
            kind: FailureKind::ArmRefused,
            stage: Stage::Attach,
            what: bad.to_string(),
            hint: bad.hint,
        })?;
        Ok(Self {
            job: &placed.job,
            arm,
            placed,
            engines,
            ledger,
            isolated,
            stage: Stage::Attach,
            stage_began: Instant::now(),
            stages: Vec::new(),
            output: None,
            mkfs_output: String::new(),
            limited: None,
            promises: None,
            is_repaired_first: false,
            watch: Watch::begin(),
        })
    }

    /// Begins a stage and reports its time limit to the coordinator.
    fn enter(&mut self, stage: Stage, deadline: Nanos) {
        self.leave();
        self.stage = stage;
        self.stage_began = Instant::now();
        say(&WorkerMessage::Stage { stage, deadline });
    }

    /// Notes the duration of the current stage and the kernel's complaints.
    fn leave(&mut self) {
        self.watch.look(self.stage);
        let took: Nanos = self.stage_began.elapsed().into();
        match self.stages.last_mut() {
            Some((last, total)) if *last == self.stage => total.0 += took.0,
            _ => self.stages.push((self.stage, took)),
        }
        self.stage_began = Instant::now();
    }

    fn failed(&self, error: &StackError) -> RunFailure {
        stack_failure(self.stage, error)
    }

    fn execute(&mut self) -> Result<Option<Measurement>, RunFailure> {
        let ended = self.do_job();
        self.watch.look(self.stage);
        self.watch.judge(ended)
    }

    fn do_job(&mut self) -> Result<Option<Measurement>, RunFailure> {
        say(&WorkerMessage::Stage { stage: Stage::Attach, deadline: Nanos::secs(60) });
        let ready_arm = match &self.placed.device {
            DeviceBinding::Directory { path } => {
                let ready_arm = ReadyArm::in_directory(path, &self.arm, &self.ledger);
                let ready_arm = ready_arm.map_err(|e| self.failed(&e))?;
                self.watch.own(self.stage, ready_arm.device_names());
                ready_arm
            }
            _ => self.build()?,
        };
        let in_words = ready_arm.in_the_users_words();
        self.in_the_arm(ready_arm).map_err(|failure| RunFailure {
            what: in_words(&failure.what),
            hint: failure.hint.as_deref().map(&in_words),
            ..failure
        })
    }

    /// Does the job on an arm that is ready, and takes it down.
    fn in_the_arm(&mut self, mut ready_arm: ReadyArm) -> Result<Option<Measurement>, RunFailure> {
        self.note_state(&mut ready_arm);
        if let Err(failure) = self.limit_memory(&mut ready_arm) {
            // Of two failures the first one counts.
            let _ = self.take_down(ready_arm, false, None, &mut Vec::new());
            return Err(failure);
        }
        if let Some(note) = self.watch.note() {
            ready_arm.remark(note.to_owned());
        }
        say(&WorkerMessage::Facts {
            facts: ready_arm.facts().clone(),
            commands: ready_arm.commands().to_vec(),
            space: ready_arm.space(),
        });
        let job = self.job;
        let (mut ready_arm, made) = match self.make_state(ready_arm) {
            Ok(made) => made,
            Err((ready_arm, failure)) => {
                // Of two failures the first one counts.
                let _ = ready_arm.map(|ready_arm| self.take_down(ready_arm, false, None, &mut Vec::new()));
                return Err(failure);
            }
        };
        let measured = job.task.as_ref().filter(|_| !job.prepares());
        let loaded = measured.map(|task| self.task_in_memory(task, &mut ready_arm)).transpose();
        let recorded = self.end_recording();
        let point = ready_arm.directory().map(Path::to_owned);
        let space_left = ready_arm.space_left();
        let facts = ready_arm.facts().clone();
        let mut commands = ready_arm.commands().to_vec();
        // Taken down whether or not the load went well; of two failures the first one counts.
        let taken_down = self.take_down(ready_arm, loaded.is_ok(), made.as_ref(), &mut commands);
        let loaded = loaded?;
        taken_down?;
        if let (Some((recorded, promises)), Ok(point)) = (recorded?.zip(self.promises.take()), point) {
            self.cut(&recorded, &promises, &point)?;
        }
        self.leave();
        let stages = std::mem::take(&mut self.stages);
        let output = self.output.take();
        Ok(loaded.map(|results| Measurement { results, facts, commands, stages, space_left, output }))
    }

    /// Attaches the device, makes the filesystem, or puts a prepared one back, and mounts it.
    fn build(&mut self) -> Result<ReadyArm, RunFailure> {
        let (placed, arm) = (self.placed, self.arm);
        self.before_attach()?;
        let attached = AttachedDevices::attach(&placed.device, &arm, placed.coordinator, &self.ledger);
        let attached = attached.map_err(|e| self.failed(&e))?;
        let attached = attached.with(&placed.setup, placed.coordinator, &self.ledger);
        let mut attached = attached.map_err(|e| self.failed(&e))?;
        self.watch.own(self.stage, attached.device_names());
        match self.bring(&mut attached) {
            Ok(printed) => self.mkfs_output = printed,
            Err(error) => return Err(self.give_up(attached, &error)),
        }
        self.enter(Stage::Mount, Nanos::secs(300));
        let mount_point = if self.isolated { isolation::mount_point() } else { Err(not_isolated()) };
        let mount_point = match mount_point {
            Ok(point) => point,
            Err(error) => return Err(self.give_up(attached, &error)),
        };
        attached
            .mount(arm, &self.mkfs_output, &mount_point)
            .map_err(|(attached, error)| self.give_up(attached, &error))
    }

    /// Detaches after a failure; the failure is reported.
    fn give_up(&mut self, attached: AttachedDevices, error: &StackError) -> RunFailure {
        let failure = self.failed(error);
        // Unrestored changes stay in the ledger, which the coordinator replays.
        let _ = attached.detach();
        failure
    }

    /// Makes the group for the job's limit, if it has one.
    fn limit_memory(&mut self, ready_arm: &mut ReadyArm) -> Result<(), RunFailure> {
        let Some(limit) = self.job.memory else { return Ok(()) };
        let limited = LimitedGroup::set(limit, &self.ledger).map_err(|e| self.failed(&e))?;
        ready_arm.has_memory(limited.describe());
        self.limited = Some(limited);
        Ok(())
    }

    /// Does a task in the group of the job's limit, if it has one.
    fn task_in_memory(
        &mut self,
        task: &Task,
        ready_arm: &mut ReadyArm,
    ) -> Result<Vec<PhaseResult>, RunFailure> {
        let entered = self.limited.as_mut().map_or(Ok(()), LimitedGroup::enter);
        entered.map_err(|e| self.failed(&e))?;
        fstrial_engine::pace_layouts(self.job.memory.map_or(Bytes(0), |limit| Bytes(limit.0 / LAYOUT_SHARE)));
        let done = self.task(task, ready_arm);
        match (self.limited.as_ref().map_or(0, LimitedGroup::kills), self.job.memory) {
            // Regardless of the task's outcome: a part of it was killed.
            (1.., Some(limit)) => Err(out_of_memory(self.stage, limit)),
            _ => done,
        }
    }

    /// Runs the phases of a task, one after the other.
    fn task(&mut self, task: &Task, ready_arm: &mut ReadyArm) -> Result<Vec<PhaseResult>, RunFailure> {
        self.is_repaired_first = !ready_arm.facts().durability.crash_consistent;
        if let Some(program) = &task.program {
            return match task.cuts() {
                Some(_) => self.record_commits(program, task.threads, ready_arm).map(|()| Vec::new()),
                None => self.program(program, task.threads, ready_arm),
            };
        }
        if let Some(operation) = &task.operation {
            let (arm, ledger) = (self.arm, self.ledger.clone());
            let order = OperationRequest { task: operation, threads: task.threads, arm, ledger: &ledger };
            return operation::run(order, ready_arm, &mut |step| self.hear(step));
        }
        if task.clients > 1 {
            return self.by_clients(task, ready_arm);
        }
        self.observe(ready_arm)?;
        let target = ready_arm.target().clone();
        let mut site = Site::new(match &target {
            ArmTarget::Directory(path) => fstrial_engine::Target::Directory(path),
            ArmTarget::BlockDevice(path) => fstrial_engine::Target::BlockDevice(path),
        })
        .with_engines(self.engines);
        if self.job.has_its_data() {
            let first = task.phases.iter().take(1).flat_map(|phase| &phase.groups);
            site = site.with_files_of(first.map(|group| &group.load));
        }
        for group in task.phases.iter().flat_map(|phase| &phase.groups) {
            if let Pattern::Ycsb(ycsb) = &group.load.pattern {
                ready_arm.is_used_by(ycsb.engine.name(), self.engines.version(ycsb.engine));
            }
        }
        let bytes = task.space_needed().0;
        self.require_room(bytes)?;
        let mut results = Vec::new();
        for (number, phase) in task.phases.iter().enumerate() {
            if let Some(target) = &phase.find_rate {
                results.extend(self.find_rate(phase, target, &mut site, ready_arm)?);
                continue;
            }
            self.enter(Stage::Layout, Nanos::secs(120 + bytes / MIN_LAYOUT_BYTES_PER_SECOND));
            let loads: Vec<Load> = phase.groups.iter().map(|group| group.load.clone()).collect();
            let prepared = site.prepare(&loads).map_err(|e| engine_failure(Stage::Layout, &e))?;
            if number == 0 || phase.settle {
                self.enter(Stage::Settle, Nanos::secs(300 + bytes / MIN_LAYOUT_BYTES_PER_SECOND));
                ready_arm.settle().map_err(|e| self.failed(&e))?;
            }
            results.extend(self.phase(phase, prepared, &self.counters(ready_arm))?);
        }
        self.check(task, &site)?;
        Ok(results)
    }

    /// Has engines look at the records that the phases have left, each set once.
    fn check(&mut self, task: &Task, site: &Site<'_>) -> Result<(), RunFailure> {
        let mut seen = BTreeSet::new();
        for group in task.phases.iter().rev().flat_map(|phase| &phase.groups) {
            if matches!(group.load.pattern, Pattern::Ycsb(_)) && seen.insert(&group.load.set) {
                self.enter(
                    Stage::Check,
                    Nanos::secs(120 + task.space_needed().0 / MIN_LAYOUT_BYTES_PER_SECOND),
                );
                site.check(&group.load).map_err(|e| engine_failure(Stage::Check, &e))?;
            }
        }
        Ok(())
    }

    /// Refuses to fill a filesystem of the user's: it may be the one that the machine lives on.
    fn require_room(&self, bytes: u64) -> Result<(), RunFailure> {
        let DeviceBinding::Directory { path } = &self.placed.device else { return Ok(()) };
        let free = host::space_available(path).map_err(|e| self.failed(&e))?;
        if bytes / 9 * 10 <= free.0 {
            return Ok(());
        }
        let path = path.display();
        Err(RunFailure {
            kind: FailureKind::LoadRefused,
            stage: Stage::Layout,
            what: format!(
                "the load's files take {}, and {path} has {} left",
                Bytes(bytes).human(),
                free.human()
            ),
            hint: Some(
                "use a smaller file_size (of ycsb fewer records), or another directory; a tenth is left free for others".into(),
            ),
        })
    }

    /// Counters to read during a measurement.
    fn counters(&self, ready_arm: &ReadyArm) -> Sources<'a> {
        Sources {
            device: ready_arm.counters(),
            log: ready_arm.log_counter(&self.arm),
            engines: self.engines,
            folder: match ready_arm.target() {
                ArmTarget::Directory(path) => Some(path.clone()),
                ArmTarget::BlockDevice(_) => None,
            },
        }
    }

    /// Receives the steps of an operation.
    fn hear(&mut self, step: OperationEvent) {
        match step {
            OperationEvent::Enter(stage, deadline) => self.enter(stage, deadline),
            OperationEvent::Provokes => self.watch.provoke(self.stage, true),
            OperationEvent::Provoked => self.watch.provoke(self.stage, false),
        }
    }

    /// Runs a program and gives its numbers.
    fn program(
        &mut self,
        task: &ProgramTask,
        threads: u16,
        ready_arm: &mut ReadyArm,
    ) -> Result<Vec<PhaseResult>, RunFailure> {
        let ArmTarget::Directory(folder) = ready_arm.target().clone() else {
            return Err(RunFailure {
                kind: FailureKind::LoadRefused,
                stage: Stage::Layout,
                what: "a program needs files, and the bare device has none".into(),
                hint: Some("leave out the arm `raw`".into()),
            });
        };
        let is_loaded = self.job.has_its_data();
        let level = Level { threads, duration: task.duration, seed: task.seed, is_loaded };
        let (counters, mut readings, mut before) = (self.counters(ready_arm), [None, None], None);
        let outcome = program::run(&task.program, &folder, level, &mut |step| {
            self.at_step(step, ready_arm)?;
            match step {
                ProgramEvent::Prepare(_) | ProgramEvent::Settle => {}
                ProgramEvent::Command(_) => {
                    before = OthersCount::now();
                    readings[0] = Some(counters.now());
                }
                ProgramEvent::Ended => readings[1] = Some(counters.now()),
            }
            Ok(())
        })?;
        let counted = counters
            .between(readings)
            .with(Counter::OthersPpm, others_since(before))
            .with(Counter::Checkpoints, outcome.checkpoints);
        self.output = Some(outcome.report());
        let result = |picked: PickedNumber| PhaseResult {
            name: picked.name,
            reading: Reading::Value(Value {
                value: picked.value,
                unit: picked.unit,
                less_is_better: picked.better == Better::Lower,
            }),
            counters: counted.clone(),
        };
        Ok(outcome.values.into_iter().map(result).collect())
    }

    /// Does its part in a step of a program.
    fn at_step(&mut self, step: ProgramEvent, ready_arm: &mut ReadyArm) -> Result<(), RunFailure> {
        match step {
            ProgramEvent::Prepare(deadline) => self.enter(Stage::Layout, deadline),
            ProgramEvent::Settle => {
                self.enter(Stage::Settle, Nanos::secs(900));
                ready_arm.settle().map_err(|e| self.failed(&e))?;
            }
            ProgramEvent::Command(deadline) => self.enter(Stage::Load, deadline),
            ProgramEvent::Ended => {}
        }
        Ok(())
    }

    /// The observer of the load, if the run is for evidence.
    fn tracer(&self, counters: &Sources<'_>) -> Result<Option<Observer>, RunFailure> {
        let is_evidence = self.job.task.as_ref().is_some_and(|task| task.purpose == Purpose::Evidence);
        is_evidence
            .then(|| Observer::start(&counters.device.numbers()).map_err(|error| no_evidence(&error)))
            .transpose()
    }

    /// Runs a phase and gives the results that are wanted of it.
    fn phase(
        &mut self,
        phase: &PhaseTask,
        prepared: PreparedPhase,
        counters: &Sources<'_>,
    ) -> Result<Vec<PhaseResult>, RunFailure> {
        let time =
            phase.groups.first().map_or(Nanos(0), |group| Nanos(group.load.warmup.0 + group.load.duration.0));
        self.enter(Stage::Load, Nanos(time.0 + Nanos::secs(120).0));
        let mut readings = [None, None];
        let mut tracer = self.tracer(counters)?;
        let looked_before = tracer.as_ref().and_then(|_| Look::at(counters.folder.as_ref()?));
        // Not in the measured time, as it takes milliseconds.
        let before = OthersCount::now();
        let (mut begun, mut traced) = (Ok(()), Ok(()));
        let loads = prepared.run_all(&mut |moment| {
            let at = match moment {
                Moment::Ready => {
                    begun = self.begin_recording();
                    return;
                }
                Moment::TimedStart => 0,
                Moment::TimedEnd => 1,
            };
            readings[at] = Some(counters.now());
            if let (Some(tracer), Ok(())) = (&mut tracer, &traced) {
                traced = if at == 0 { tracer.begin() } else { tracer.end() };
            }
        });
        begun?;
        traced.map_err(|error| no_evidence(&error))?;
        let loads = loads.map_err(|e| engine_failure(Stage::Load, &e))?;
        let counted = counters.between(readings).with(Counter::OthersPpm, others_since(before));
        let mut results = Vec::new();
        for (group, load) in phase.groups.iter().zip(loads) {
            check_load(&load, group.load.until)?;
            let Some(name) = group.result.clone() else { continue };
            let reading = Reading::Load(group.figure, Box::new(load));
            results.push(PhaseResult { name, reading, counters: counted.clone() });
        }
        if let Some(tracer) = tracer {
            let mut evidence = tracer.evidence().map_err(|error| no_evidence(&error))?;
            let looked = looked_before.zip(counters.folder.as_deref().and_then(Look::at));
            evidence.counters = evidence
                .counters
                .plus(&looked.map(|(before, after)| Look::counters(before, after)).unwrap_or_default());
            let evidence = Box::new(evidence);
            let groups = phase.groups.iter().enumerate();
            let groups = groups.filter_map(|(index, group)| Some((group.result.clone()?, group_name(index))));
            say(&WorkerMessage::Evidence { groups: groups.collect(), evidence });
        }
        Ok(results)
    }

    /// Unmounts, checks if requested, saves a prepared state, detaches.
    fn take_down(
        &mut self,
        ready_arm: ReadyArm,
        healthy: bool,
        made: Option<&state::Prepared>,
        commands: &mut Vec<String>,
    ) -> Result<(), RunFailure> {
        self.enter(Stage::Unmount, Nanos::secs(900));
        // Cached pages go with the filesystem, before their group.
        let left = self.limited.as_mut().map_or(Ok(()), LimitedGroup::leave);
        let unmounted = ready_arm.unmount().map_err(|e| self.failed(&e));
        let ungrouped = self.limited.take().map_or(Ok(()), LimitedGroup::close);
        let attached = unmounted?;
        left.and(ungrouped).map_err(|e| self.failed(&e))?;
        let Some(mut attached) = attached else { return Ok(()) };
        let mut checked = Ok(());
        if self.job.fsck && self.job.task.is_some() && healthy {
            self.enter(Stage::Fsck, Nanos::secs(1900));
            checked = attached.check(&self.arm).map_err(|e| self.failed(&e));
            *commands = attached.commands().to_vec();
        }
        let saved = made.map_or(Ok(()), |made| self.save_state(&attached, made));
        self.enter(Stage::Detach, Nanos::secs(60));
        attached.detach().map_err(|e| self.failed(&e))?;
        checked.and(saved)
    }
}

/// A load that went wrong.
fn load_failure(what: String, hint: &str) -> RunFailure {
    RunFailure { kind: FailureKind::ArmFailed, stage: Stage::Load, what, hint: Some(hint.into()) }
}

/// Refuses the result of a load with failed operations.
fn check_errors(result: &LoadResult) -> Result<(), RunFailure> {
    if result.errors == 0 {
        return Ok(());
    }
    let first = result.first_error.as_deref().unwrap_or("unknown");
    let hint = match first.contains("was not done within") {
        true => {
            "work of a fixed size takes as long as it takes, and --duration is the longest: leave it out, or give more"
        }
        false => {
            "see the kernel log (dmesg); `no space left` asks for a larger device (its size) or a smaller workload"
        }
    };
    Err(load_failure(format!("{} operations failed under load; the first: {first}", result.errors), hint))
}

/// Refuses the result of a load that did not do its work.
fn check_load(result: &LoadResult, until: Until) -> Result<(), RunFailure> {
    check_errors(result)?;
    if result.operations == 0 {
        let what = match until {
            Until::Time => format!("no operation was completed in {}", result.duration),
            Until::Done => "there was nothing to do".into(),
        };
        return Err(load_failure(what, "measure longer: --duration 10s"));
    }
    Ok(())
}

/// Sources of the counters of a run, in the kernel and in an engine.
struct Sources<'a> {
    device: DeviceCounters,
    log: Option<LogCounter>,
    engines: &'a dyn KeyValueEngines,
    /// The folder of the load; of a bare device none.
    folder: Option<PathBuf>,
}

/// Their values at a moment.
#[derive(Debug, Clone)]
struct Count {
    cpu: Option<CpuCount>,
    device: Counters,
    log: Counters,
    engines: Counters,
}

impl Sources<'_> {
    fn now(&self) -> Count {
        Count {
            cpu: CpuCount::now(),
            device: self.device.now(),
            log: self.log.as_ref().and_then(LogCounter::now).unwrap_or_default(),
            engines: self.engines.counts(),
        }
    }

    /// Their increase between two moments.
    fn between(&self, readings: [Option<Count>; 2]) -> Counters {
        let [Some(before), Some(after)] = readings else { return Counters::default() };
        let cpu = before.cpu.zip(after.cpu).and_then(|(before, after)| before.busy_until(after));
        let log = self.log.as_ref().map(|log| log.before(&before.log)).unwrap_or_default();
        let all =
            [(&after.device, &before.device), (&after.log, &before.log), (&after.engines, &before.engines)];
        let all = all.into_iter().fold(log, |sum, (after, before)| sum.plus(&after.since(before)));
        all.with(Counter::CpuMachine, cpu.map(|time| time.0))
    }
}

/// The share of the processors that others took since then.
fn others_since(before: Option<OthersCount>) -> Option<u64> {
    before?.share_until(&OthersCount::now()?)
}

fn not_isolated() -> StackError {
    StackError::Unable {
        what: "a worker that is not isolated must not mount anything".into(),
        hint: "`fstrial worker` is started by fstrial itself".into(),
    }
}
