//! Whole trials in memory: a worker that is drawn from a seed, a clock that it moves, faults where a test wants them,
//! and a check of the event stream for every trial. The trials are in `trials`, the stored ones in `stored`.

mod claims;
mod controls;
mod counterexamples;
mod evidence;
mod stored;
mod trials;

use fstrial_model::{
    arm::Arm,
    counter::{Counter, Counters},
    facts::{ArmFacts, DataUpdate, Durability, Fact},
    job::{FailureKind, Job, Load, RunFailure, StateStep, StateTask, Task, WorkerMessage},
    measurement::{ClockSource, LoadResult, Measurement, OperationKind, PhaseResult, Reading, Stage},
    metric::Metric,
    state::{FreeSpace, Space, StateFigures},
    trial::{Settings, Trial},
    units::{Bytes, Nanos},
    workload::{Data, Entry, Figure},
};
use fstrial_run::{
    clock::Clock,
    contrast::{ContrastState, Outcome},
    coordinator::{Context, Coordinator, Finished, Reason},
    environment::Environment,
    error::ExpectedError,
    event::{Event, Listener, RunEnded},
    interrupt::Interrupt,
    place::{JobOutcome, Place},
    plan::Plan,
    round::Earlier,
};
use hdrhistogram::Histogram;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    sync::LazyLock,
    time::Instant,
};

/// Processors of the simulated machine.
const CPUS: u16 = 4;

/// The same trial with a control.
fn controlled(plan: Plan) -> Plan {
    let mut trial = plan.trial;
    trial.trial.control = true;
    Plan::new(trial.settled(CPUS).unwrap(), plan.seed).unwrap()
}

/// A plan of one workload: 0.25 s of warm-up, 1 s measured.
fn plan(arms: &[&str], threads: &[u16], seed: u64, change: impl FnOnce(&mut Settings)) -> Plan {
    let mut trial = Trial {
        arms: arms.iter().map(|text| text.parse::<Arm>().unwrap()).collect(),
        workloads: vec![Entry { threads: Some(threads.to_vec()), ..Entry::of_preset("random-write") }],
        ..Trial::default()
    };
    change(&mut trial.trial);
    Plan::new(trial.settled(CPUS).unwrap(), seed).unwrap()
}

/// Time that only the simulated worker moves.
#[derive(Default)]
struct SimulatedClock(Cell<u64>);

impl SimulatedClock {
    fn pass(&self, time: Nanos) {
        self.0.set(self.0.get() + time.0);
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Nanos {
        Nanos(self.0.get())
    }

    fn timestamp(&self) -> String {
        let since = i64::try_from(self.0.get() / 1_000_000).unwrap();
        let moment = jiff::Timestamp::from_millisecond(1_767_225_600_000 + since).unwrap();
        moment.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
    }
}

/// Properties of an arm.
#[derive(Clone, Copy)]
struct Character {
    /// Its rate, as a factor.
    speed: f64,
    /// The latency of its slowest two per cent, as a factor.
    tail: f64,
    /// Growth of its rate with its threads: the exponent.
    growth: f64,
    /// Cost of a run in addition to its load.
    overhead: Nanos,
    /// Bytes written to the device for each operation; none if they are not counted.
    written: Option<u64>,
    /// The share of its runs in which it does nothing for a part of the time, and that part.
    stalls: (f64, f64),
}

const ORDINARY: Character = Character {
    speed: 1.0,
    tail: 1.0,
    growth: 0.5,
    overhead: Nanos::millis(300),
    written: Some(4096),
    stalls: (0.0, 0.0),
};

/// Variation of the runs of equal arms, `a` and `b`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    Normal,
    /// One of the two runs of a round, either, is slower by nearly the same in every round.
    TwoPoint,
    /// Normal, and greater by 5 % in every round.
    Growing,
    /// Normal on a machine that reaches its speed only during the trial's first runs.
    Settling,
    /// As in a real trial of [`RECORDED`], run by run from this one of its runs on; the world's noise is 1.
    Recorded {
        trial: usize,
        from: usize,
    },
}

/// Disturbances of each run of real trials.
static RECORDED: LazyLock<Vec<Vec<f64>>> = LazyLock::new(|| {
    let lines = include_str!("recorded.txt").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split(' ').map(|value| value.parse().unwrap()).collect()).collect()
});

/// When in a trial a run is made.
#[derive(Clone, Copy)]
struct Moment {
    /// Its number in the trial, and in its cell.
    run: u32,
    of_cell: u32,
    fault: Option<Fault>,
}

/// Properties of the simulated machine.
struct World {
    /// Seed of its noise.
    seed: u64,
    /// Operations per second of an ordinary arm with one thread.
    rate: f64,
    /// Variation of the log of a run's rate: for normal noise its standard deviation.
    noise: f64,
    /// Shape of its variation.
    shape: Shape,
    /// Standard deviation of the log of a run's slowest latencies.
    tail_noise: f64,
    /// The rate of every so many-th run, as a factor: of two, of the later one of two arms.
    every: (u32, f64),
    /// Factor by which the rate rises within a run, from its first window to its last.
    rise: f64,
    /// The share of the processors that others take, in millionths, of so many runs in ten.
    others_ppm: u64,
    others_in_ten: u32,
    /// Upper limit of the budget.
    longest: Option<Nanos>,
    /// Arms that are not ordinary, by name.
    arms: Vec<(&'static str, Character)>,
}

impl Default for World {
    fn default() -> Self {
        Self {
            seed: 1,
            rate: 500_000.0,
            noise: 0.01,
            shape: Shape::Normal,
            tail_noise: 0.03,
            every: (2, 1.0),
            rise: 1.0,
            others_ppm: 0,
            others_in_ten: 10,
            longest: None,
            arms: Vec::new(),
        }
    }
}

impl World {
    fn character(&self, arm: &str) -> Character {
        self.arms.iter().find(|(name, _)| *name == arm).map_or(ORDINARY, |(_, character)| *character)
    }
}

/// Inputs for a test's decision on a fault.
struct FaultSite<'a> {
    arm: &'a str,
    /// None while arms are inspected.
    threads: Option<u16>,
    /// Number of jobs with a load so far, this one included.
    run: u32,
    /// Number of them for this cell, this one included; 0 while arms are inspected.
    of_cell: u32,
}

/// Faults of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// The worker is killed immediately.
    Killed,
    /// It hangs for this long and is killed then.
    Hung(Nanos),
    /// The run fails for a reason of this kind, half way.
    Fails(FailureKind),
    /// Ctrl-C in the middle of the run.
    Interrupted,
    /// Ctrl-C so late that the run still ends well.
    InterruptedLate,
    /// Time is over while it runs.
    TimeOver,
    /// It takes this much longer to make and mount.
    Slow(Nanos),
    /// A measurement without one operation.
    NoOperations,
    /// A histogram of which the end is missing.
    Truncated,
    /// A histogram with an operation of no time.
    NoTime,
    /// No measurement, though there was a load.
    Silent,
}

type Faults<'a> = dyn FnMut(&FaultSite<'_>) -> Option<Fault> + 'a;

/// A worker that only reports success.
struct SimulatedPlace<'a> {
    environment: Environment,
    world: &'a World,
    clock: &'a SimulatedClock,
    interrupt: &'a Interrupt,
    faults: &'a mut Faults<'a>,
    runs: BTreeMap<(String, u16), u32>,
    run: u32,
}

impl Place for SimulatedPlace<'_> {
    fn environment(&self) -> &Environment {
        &self.environment
    }

    fn data(&self) -> Data {
        Data::Random
    }

    fn close(self: Box<Self>) -> Result<(), ExpectedError> {
        Ok(())
    }

    fn run(&mut self, job: &Job, hear: &mut dyn FnMut(&WorkerMessage)) -> JobOutcome {
        let fault = self.draw_fault(job);
        let overhead = self.world.character(&job.arm.name).overhead;
        let asked_for = job.task.as_ref().map_or(Nanos(0), |task| {
            let load = &task.phases[0].groups[0].load;
            Nanos(load.warmup.0 + load.duration.0)
        });
        if fault == Some(Fault::Killed) {
            return failed(FailureKind::Lost, Stage::Attach);
        }
        hear(&WorkerMessage::Stage { stage: Stage::Mkfs, deadline: Nanos::secs(60) });
        self.clock.pass(overhead);
        match fault {
            Some(Fault::Hung(time)) => {
                self.clock.pass(time);
                return failed(FailureKind::Lost, Stage::Mkfs);
            }
            Some(Fault::Slow(time)) => self.clock.pass(time),
            Some(Fault::Fails(FailureKind::CleanUp)) => {
                self.clock.pass(asked_for);
                return failed(FailureKind::CleanUp, Stage::Unmount);
            }
            Some(Fault::Fails(kind)) => {
                self.clock.pass(Nanos(asked_for.0 / 2));
                return failed(kind, Stage::Load);
            }
            Some(Fault::Interrupted) => {
                self.interrupt.raise();
                return JobOutcome::Interrupted;
            }
            Some(Fault::TimeOver) => {
                self.interrupt.end_at(Some(Instant::now()));
                return JobOutcome::Interrupted;
            }
            Some(Fault::InterruptedLate) => self.interrupt.raise(),
            _ => {}
        }
        let space = Space { used: Bytes(0), available: Bytes::gib(1) };
        let commands = vec![format!("mkfs {}", job.arm.name)];
        hear(&WorkerMessage::Facts { facts: facts(), commands, space });
        say_prepared(job, hear);
        let Some(task) = &job.task else { return JobOutcome::Measured(None) };
        hear(&WorkerMessage::Stage { stage: Stage::Load, deadline: asked_for });
        self.clock.pass(asked_for);
        if fault == Some(Fault::Silent) {
            return JobOutcome::Measured(None);
        }
        let of_cell = self.runs[&(job.arm.name.clone(), task.threads)];
        let moment = Moment { run: self.run, of_cell, fault };
        JobOutcome::Measured(Some(Box::new(measurement(self.world, &job.arm.name, task, moment))))
    }
}

/// One of several places, all of which are the same simulated one.
struct Door<'a, 'b> {
    environment: Environment,
    to: &'b RefCell<SimulatedPlace<'a>>,
}

impl Place for Door<'_, '_> {
    fn environment(&self) -> &Environment {
        &self.environment
    }

    fn data(&self) -> Data {
        self.to.borrow().data()
    }

    fn close(self: Box<Self>) -> Result<(), ExpectedError> {
        Ok(())
    }

    fn run(&mut self, job: &Job, hear: &mut dyn FnMut(&WorkerMessage)) -> JobOutcome {
        self.to.borrow_mut().run(job, hear)
    }
}

impl SimulatedPlace<'_> {
    fn draw_fault(&mut self, job: &Job) -> Option<Fault> {
        let threads = job.task.as_ref().map(|task| task.threads);
        self.run += u32::from(threads.is_some());
        let of_cell = self.runs.entry((job.arm.name.clone(), threads.unwrap_or(0))).or_default();
        *of_cell += u32::from(threads.is_some());
        (self.faults)(&FaultSite { arm: &job.arm.name, threads, run: self.run, of_cell: *of_cell })
    }
}

/// Reports of a worker that has made a state.
fn say_prepared(job: &Job, hear: &mut dyn FnMut(&WorkerMessage)) {
    let Some(StateTask { step: StateStep::Prepare { state, room, .. }, .. }) = &job.state else { return };
    let figures = StateFigures {
        requested: state.to_string(),
        files: 3,
        utilisation: 50.0,
        available: Bytes(room.0 - state.space(*room).0),
        turnovers: 0.0,
        layout_score_reached: None,
        layout: None,
        free_space: FreeSpace::Unknown("it is simulated".into()),
        saved: *room,
    };
    hear(&WorkerMessage::Prepared { figures, mkfs_output: "made".into() });
}

fn failed(kind: FailureKind, stage: Stage) -> JobOutcome {
    JobOutcome::Failed(RunFailure {
        kind,
        stage,
        what: "an injected fault".into(),
        hint: Some("nothing to try".into()),
    })
}

fn facts() -> ArmFacts {
    ArmFacts {
        facts: BTreeMap::from([(Fact::Barriers, "yes".into())]),
        durability: Durability {
            flushes: true,
            crash_consistent: true,
            no_stale_data: true,
            data: DataUpdate::InPlace,
            volatile_cache: false,
        },
        queue: BTreeMap::new(),
        tools: BTreeMap::new(),
        notes: Vec::new(),
        state: None,
    }
}

/// Nearly normal, mean 0 and variance 1: the sum of twelve uniform numbers of 16 bits, the same on every machine.
#[expect(clippy::cast_precision_loss, reason = "a sum below 2^20")]
fn normal(random: &mut ChaCha8Rng) -> f64 {
    let halves = |bits: u64| (0..4).map(|at| (bits >> (16 * at)) & 0xffff).sum::<u64>();
    let sum: u64 = (0..3).map(|_| halves(random.next_u64())).sum();
    (sum as f64 + 6.0) / 65536.0 - 6.0
}

impl Shape {
    /// The size of a run's disturbance, in units of the world's noise.
    fn draw(self, arm: &str, load: &Load, moment: Moment, random: &mut ChaCha8Rng) -> f64 {
        let mut of_round = ChaCha8Rng::seed_from_u64(load.seed ^ u64::from(load.threads).rotate_left(50));
        let is_slow = fraction(&mut of_round) < 0.5;
        let one_of_two = |size: f64| if is_slow == (arm == "b") { -size } else { 0.0 };
        match self {
            Self::Normal => normal(random),
            Self::TwoPoint => one_of_two(1.0 + 0.05 * normal(random)),
            Self::Growing => 1.05_f64.powf(f64::from(moment.of_cell)) * normal(random),
            Self::Settling => normal(random) - 10.0 * (-0.1 * f64::from(moment.run)).exp(),
            Self::Recorded { trial, from } => {
                let runs = &RECORDED[trial];
                runs[(from + moment.run as usize) % runs.len()]
            }
        }
    }
}

/// Uniform in 0 to 1.
#[expect(clippy::cast_precision_loss, reason = "53 bits")]
fn fraction(random: &mut ChaCha8Rng) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// A measurement of an arm: of each result that is wanted, a function of the world, the arm and the load's seed.
fn measurement(world: &World, arm: &str, task: &Task, moment: Moment) -> Measurement {
    let groups = task.phases.iter().flat_map(|phase| &phase.groups);
    let wanted = groups.filter_map(|group| Some((group.result.clone()?, &group.load)));
    Measurement {
        results: wanted.map(|(name, load)| result(world, arm, name, load, moment)).collect(),
        facts: facts(),
        commands: Vec::new(),
        stages: vec![(Stage::Mkfs, world.character(arm).overhead)],
        space_left: Bytes::gib(1),
        output: None,
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small numbers"
)]
fn result(world: &World, arm: &str, name: String, load: &Load, moment: Moment) -> PhaseResult {
    let fault = moment.fault;
    let place = if moment.run.is_multiple_of(world.every.0) { world.every.1 } else { 1.0 };
    let character = world.character(arm);
    let of_arm = arm
        .bytes()
        .fold(u64::from(load.threads), |hash, byte| hash.wrapping_mul(257).wrapping_add(u64::from(byte)));
    let mut random = ChaCha8Rng::seed_from_u64(world.seed ^ load.seed ^ of_arm.rotate_left(40));
    // A disturbance of the whole round affects its arms alike.
    let drift = 1.0 + 0.1 * fraction(&mut ChaCha8Rng::seed_from_u64(world.seed ^ load.seed));
    let scale = f64::from(load.threads).powf(character.growth);
    let (often, part) = character.stalls;
    let stalls = fraction(&mut ChaCha8Rng::seed_from_u64(load.seed.rotate_left(20) ^ of_arm)) < often;
    let disturbance = world.shape.draw(arm, load, moment, &mut random);
    let speed = character.speed * if stalls { 1.0 - part } else { 1.0 };
    let rate = world.rate * speed * place * drift * scale * (world.noise * disturbance).exp();
    let seconds = load.duration.as_secs_f64();
    let operations = match fault {
        Some(Fault::NoOperations) => 0,
        _ => (rate * seconds) as u64,
    };
    let typical_ns = 1e9 * f64::from(load.threads) / rate;
    let tail = character.tail * (world.tail_noise * normal(&mut random)).exp();
    let mut text = histogram(operations, typical_ns, tail, fault == Some(Fault::NoTime));
    if fault == Some(Fault::Truncated) {
        text.truncate(text.len() / 8 * 4);
    }
    let cv = 0.01 + 0.03 * fraction(&mut random);
    let mut windows = |count: u64| -> Vec<u64> {
        let mean = operations as f64 / count as f64;
        let rise = |at: u64| world.rise.powf(at as f64 / count as f64 - 0.5);
        (0..count).map(|at| (mean * rise(at) * (1.0 + cv * normal(&mut random))).max(0.0) as u64).collect()
    };
    let load = LoadResult {
        threads: load.threads,
        duration: load.duration,
        operations,
        bytes: operations * 16_384,
        errors: 0,
        first_error: None,
        histograms: BTreeMap::from([(OperationKind::OPERATION, text)]),
        windows: windows(20),
        steady_windows: windows(40),
        series: Vec::new(),
        series_step: Nanos::millis(100),
        tails: Vec::new(),
        tails_step: Nanos::millis(100),
        cpu_user: Nanos::millis(100),
        cpu_system: Nanos::millis(300),
        clock: ClockSource::Monotonic,
    };
    PhaseResult {
        name,
        reading: Reading::Load(Figure::Operations, Box::new(load)),
        counters: Counters::from_iter([
            (Counter::CpuMachine, Some(900_000_000)),
            (
                Counter::OthersPpm,
                Some(if moment.run % 10 < world.others_in_ten { world.others_ppm } else { 0 }),
            ),
            (Counter::DeviceWritten, character.written.map(|each| each * operations)),
        ]),
    }
}

/// Latencies as the engine encodes them: most about the typical one, two in a hundred in the tail.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small numbers"
)]
fn histogram(operations: u64, typical_ns: f64, tail: f64, with_zero: bool) -> String {
    // Copied, because making another one is slow without optimisation.
    static EMPTY: LazyLock<Histogram<u64>> =
        LazyLock::new(|| Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap());
    let mut histogram = EMPTY.clone();
    let mut counted = 0;
    for step in 1..=89_u32 {
        let (share, factor) = match step {
            0..=49 => (f64::from(step) * 0.02, 0.7 + 0.01 * f64::from(step)),
            _ => (0.98 + f64::from(step - 49) * 0.0005, tail * (3.0 + 0.05 * f64::from(step - 49))),
        };
        // Whole operations by the running total, so that they add up.
        let upto = (operations as f64 * share).round() as u64;
        histogram.record_n((typical_ns * factor) as u64, upto - counted).unwrap();
        counted = upto;
    }
    if with_zero {
        histogram.record_n(0, operations * 200).unwrap();
    }
    fstrial_engine::encode(&histogram)
}

/// One event, as far as a test looks at it.
#[derive(Debug, Clone, PartialEq)]
enum SeenEvent {
    StatePreparing(String),
    StatePrepared(String),
    ArmInspected(String),
    Audited(usize),
    Noted(Vec<String>),
    FirstRoundTimed(u32),
    RoundStarted { round: u32, runs: usize, left: Nanos },
    RunStarted { round: u32, slot: usize, cell: usize },
    RunStage(Stage),
    WorkerReplaced(String),
    RunEnded { round: u32, slot: usize, cell: usize, rate: Option<f64>, failure: Option<FailureKind> },
    VerdictsUpdated { round: u32, contrasts: Vec<ContrastState> },
}

/// Records events, and fails at one if set to.
struct Log<'a> {
    plan: &'a Plan,
    events: Vec<SeenEvent>,
    fails_at: Option<usize>,
}

impl Listener for Log<'_> {
    fn hear(&mut self, event: &Event<'_>) -> Result<(), ExpectedError> {
        self.events.push(match event {
            Event::DeviceProgress { .. } | Event::DeviceReady { .. } => {
                unreachable!("not the coordinator's")
            }
            Event::Preparing { .. } => unreachable!("no simulated trial has a pilot"),
            Event::Noted { lines } => SeenEvent::Noted(lines.to_vec()),
            Event::StageProgress { .. } => unreachable!("a simulated stage takes no time of its own"),
            Event::StatePreparing { arm, state } => SeenEvent::StatePreparing(format!("{state} for {arm}")),
            Event::StatePrepared { arms, .. } => SeenEvent::StatePrepared(arms.join(", ")),
            Event::ArmInspected { arm, .. } => SeenEvent::ArmInspected((*arm).to_owned()),
            Event::Audited { lines } => SeenEvent::Audited(lines.len()),
            Event::FirstRoundTimed { fit, .. } => SeenEvent::FirstRoundTimed(*fit),
            &Event::RoundStarted { round, runs, left } => SeenEvent::RoundStarted { round, runs, left },
            &Event::RunStarted { round, slot, cell, arm, workload, threads } => {
                assert_eq!(self.plan.cell_of(arm, workload, threads), Some(cell));
                SeenEvent::RunStarted { round, slot, cell }
            }
            Event::RunStage { stage } => SeenEvent::RunStage(*stage),
            Event::WorkerReplaced { arm, .. } => SeenEvent::WorkerReplaced((*arm).to_owned()),
            Event::RunEnded(run) => {
                let &RunEnded { round, slot, cell, arm, workload, threads, .. } = run;
                assert_eq!(self.plan.cell_of(arm, workload, threads), Some(cell));
                assert_eq!(run.outcome.is_ok(), !run.rates.is_empty());
                SeenEvent::RunEnded {
                    round,
                    slot,
                    cell,
                    rate: run.rates.first().copied(),
                    failure: run.failure.map(|failure| failure.kind),
                }
            }
            &Event::VerdictsUpdated { round, contrasts, .. } => {
                SeenEvent::VerdictsUpdated { round, contrasts: contrasts.to_vec() }
            }
        });
        match self.fails_at {
            Some(at) if self.events.len() > at => Err(store_is_full()),
            _ => Ok(()),
        }
    }
}

fn store_is_full() -> ExpectedError {
    let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
    ExpectedError::Store(fstrial_store::StoreError::Io { path: "results.db".into(), source })
}

/// A trial, or a session of one, that came to an end of some kind.
struct SimulatedTrial<'p> {
    plan: &'p Plan,
    events: Vec<SeenEvent>,
    ended: Result<Finished<'p>, ExpectedError>,
    /// When it ended, and when all arms were inspected.
    ended_at: Nanos,
    inspected_at: Nanos,
    longest_run: Nanos,
    /// A run was given up at the end of time.
    is_time_over: bool,
}

/// Runs a session of a trial, with a further listener if there is one.
fn session<'p>(
    plan: &'p Plan,
    world: &World,
    mut faults: impl FnMut(&FaultSite<'_>) -> Option<Fault>,
    earlier: Earlier,
    fails_at: Option<usize>,
    mut also: Option<&mut dyn Listener>,
) -> SimulatedTrial<'p> {
    let (clock, interrupt) = (SimulatedClock::default(), Interrupt::default());
    let (inspected_at, longest) = (Cell::new(None), Cell::new(Nanos(0)));
    let last = RefCell::new(Nanos(0));
    let mut log = Log { plan, events: Vec::new(), fails_at };
    let ended = {
        let mut timed = |requested: &FaultSite<'_>| {
            let since = Nanos(clock.now().0 - last.replace(clock.now()).0);
            if requested.run > 1 {
                longest.set(longest.get().max(since));
            } else if requested.run == 1 {
                inspected_at.set(Some(clock.now()));
            }
            faults(requested)
        };
        let environment = Environment::of_this_machine();
        let place = RefCell::new(SimulatedPlace {
            environment: environment.clone(),
            world,
            clock: &clock,
            interrupt: &interrupt,
            faults: &mut timed,
            runs: BTreeMap::new(),
            run: 0,
        });
        let door = |_: &Option<String>| -> Box<dyn Place + '_> {
            Box::new(Door { environment: environment.clone(), to: &place })
        };
        let mut places: Vec<Box<dyn Place + '_>> = plan.places.iter().map(door).collect();
        let mut listeners: Vec<&mut dyn Listener> = Vec::new();
        if let Some(also) = &mut also {
            listeners.push(&mut **also);
        }
        listeners.push(&mut log);
        let mut listeners = fstrial_run::event::Listeners(listeners);
        let context = Context {
            places: &mut places,
            clock: &clock,
            listener: &mut listeners,
            interrupt: &interrupt,
            deadline: plan.trial.trial.budget,
            booted: None,
            longest: world.longest,
        };
        Coordinator::new(plan, context, earlier).run()
    };
    let ended_at = clock.now();
    longest.set(longest.get().max(Nanos(ended_at.0 - last.borrow().0)));
    SimulatedTrial {
        plan,
        events: log.events,
        ended,
        ended_at,
        inspected_at: inspected_at.get().unwrap_or(ended_at),
        is_time_over: interrupt.is_time_over(),
        longest_run: longest.get(),
    }
}

/// Runs a trial from the beginning.
fn simulate<'p>(
    plan: &'p Plan,
    world: &World,
    faults: impl FnMut(&FaultSite<'_>) -> Option<Fault>,
) -> SimulatedTrial<'p> {
    let reported = session(plan, world, faults, Earlier::default(), None, None);
    reported.check(Before::default());
    reported
}

/// No fault at all.
fn none(_: &FaultSite<'_>) -> Option<Fault> {
    None
}

impl<'p> SimulatedTrial<'p> {
    fn finished(&self) -> &Finished<'p> {
        match &self.ended {
            Ok(finished) => finished,
            Err(error) => panic!("the trial failed: {error}"),
        }
    }

    fn error(&self) -> &ExpectedError {
        match &self.ended {
            Ok(finished) => panic!("the trial went well: {:?}", finished.reason),
            Err(error) => error,
        }
    }

    fn states(&self) -> Vec<ContrastState> {
        self.finished().judge().expect("a judge").states()
    }

    /// Numbers of the runs that ended well, by cell.
    fn measured(&self, of: usize) -> usize {
        let is = |event: &&SeenEvent| matches!(event, SeenEvent::RunEnded { cell, rate: Some(_), .. } if *cell == of);
        self.events.iter().filter(is).count()
    }

    /// Rounds in which both cells were measured.
    fn pairs(&self, a: usize, b: usize) -> usize {
        let mut rounds: BTreeMap<u32, usize> = BTreeMap::new();
        for event in &self.events {
            if let SeenEvent::RunEnded { round, cell, rate: Some(_), .. } = event
                && (*cell == a || *cell == b)
            {
                *rounds.entry(*round).or_default() += 1;
            }
        }
        rounds.values().filter(|count| **count == 2).count()
    }

    /// Numbers reported to fit into the budget, in order.
    fn fit(&self) -> Vec<u32> {
        let fit = |event: &SeenEvent| match event {
            SeenEvent::FirstRoundTimed(fit) => Some(*fit),
            _ => None,
        };
        self.events.iter().filter_map(fit).collect()
    }

    /// Invariants of every session: the form of the event stream, the cells that run, and the budget.
    fn check(&self, before: Before) {
        let Before { states, failed, unsupported, lost, measured } = before;
        let mut check = Check {
            plan: self.plan,
            states,
            failed,
            unsupported,
            lost,
            measured,
            running: None,
            round: None,
            slot: 0,
            order: Vec::new(),
        };
        for event in &self.events {
            check.next(event);
        }
        assert!(
            check.running.is_none()
                || self.is_time_over
                || self.ended.as_ref().map_or(true, |ended| ended.reason == Reason::Interrupted),
            "a run ended and nobody was told"
        );
        let deadline = self.plan.trial.trial.budget.0.max(self.inspected_at.0);
        assert!(
            self.ended_at.0 <= deadline + self.longest_run.0,
            "ended at {} with a budget of {} and runs of {}",
            self.ended_at,
            self.plan.trial.trial.budget,
            self.longest_run
        );
    }
}

/// State after earlier sessions: the contrasts, whether every cell had been run, and the state of cells.
#[derive(Default)]
struct Before {
    states: Vec<ContrastState>,
    failed: Vec<usize>,
    unsupported: Vec<usize>,
    lost: BTreeMap<usize, u32>,
    measured: BTreeMap<usize, u32>,
}

/// Follows an event stream.
struct Check<'p> {
    plan: &'p Plan,
    states: Vec<ContrastState>,
    failed: Vec<usize>,
    unsupported: Vec<usize>,
    /// Losses of each cell since its last measurement.
    lost: BTreeMap<usize, u32>,
    /// Runs that ended well, by cell.
    measured: BTreeMap<usize, u32>,
    running: Option<(u32, usize, usize)>,
    round: Option<u32>,
    slot: usize,
    /// Remaining cells of this round.
    order: Vec<usize>,
}

impl Check<'_> {
    fn next(&mut self, event: &SeenEvent) {
        match event {
            SeenEvent::StatePreparing(_)
            | SeenEvent::StatePrepared(_)
            | SeenEvent::ArmInspected(_)
            | SeenEvent::Audited(_) => assert_eq!(self.round, None, "{event:?}"),
            SeenEvent::Noted(lines) => assert_eq!((lines.len(), self.round), (1, Some(1)), "{event:?}"),
            SeenEvent::FirstRoundTimed(fit) => assert!(*fit > 0 && self.states.is_empty()),
            SeenEvent::RoundStarted { round, runs, left } => self.round_starts(*round, *runs, *left),
            SeenEvent::RunStarted { round, slot, cell } => self.run_starts(*round, *slot, *cell),
            SeenEvent::WorkerReplaced(_) => {
                assert!(self.round.is_none(), "workers are replaced at inspection only")
            }
            SeenEvent::RunStage(_) => assert!(self.running.is_some() || self.round.is_none()),
            SeenEvent::RunEnded { round, slot, cell, rate, failure } => {
                assert_eq!(self.running.take(), Some((*round, *slot, *cell)), "it has not started");
                assert_eq!(rate.is_none(), failure.is_some());
                *self.measured.entry(*cell).or_default() += u32::from(rate.is_some());
                let is_watched = self.plan.parts.iter().any(|part| part.watched.contains(cell));
                let lost = self.lost.entry(*cell).or_default();
                match failure {
                    None => *lost = 0,
                    Some(FailureKind::Lost) => *lost += 1,
                    Some(_) => {}
                }
                match failure {
                    Some(FailureKind::ArmFailed) => self.failed.push(*cell),
                    Some(FailureKind::Lost) if *lost == 3 && is_watched => self.failed.push(*cell),
                    Some(FailureKind::Unsupported) => self.unsupported.push(*cell),
                    _ => {}
                }
            }
            SeenEvent::VerdictsUpdated { round, contrasts } => {
                assert_eq!(Some(*round), self.round);
                self.verdicts(contrasts);
            }
        }
    }

    fn round_starts(&mut self, round: u32, runs: usize, left: Nanos) {
        assert!(left <= self.plan.trial.trial.budget);
        assert!(self.round.is_none_or(|before| round == before + 1), "round {round} after {:?}", self.round);
        (self.round, self.slot) = (Some(round), 0);
        self.order = self.plan.order(round).into_iter().filter(|cell| self.is_needed(*cell)).collect();
        assert_eq!(self.order.len(), runs);
        self.order.reverse();
    }

    fn is_needed(&self, cell: usize) -> bool {
        let open = || self.plan.contrasts.iter().zip(&self.states).filter(|(_, state)| state.open);
        // A workload claimed to work is seen five times.
        let is_watched = || self.plan.parts.iter().any(|part| part.watched.contains(&cell));
        let is_new = || self.measured.get(&cell).is_none_or(|count| *count < 5);
        !self.failed.contains(&cell)
            && !self.unsupported.contains(&cell)
            && (self.states.is_empty() && !self.plan.is_control(cell)
                || (is_watched() && is_new())
                || open().any(|(contrast, _)| contrast.cells().any(|needed| needed == cell)))
    }

    fn run_starts(&mut self, round: u32, slot: usize, cell: usize) {
        assert_eq!(self.running, None, "two runs at once");
        assert_eq!(Some(round), self.round);
        assert!(!self.failed.contains(&cell), "a failed cell is run");
        assert!(!self.unsupported.contains(&cell), "a cell that cannot be done is run again");
        assert_eq!(self.order.pop(), Some(cell), "not the order that was planned");
        self.slot += 1;
        assert_eq!(slot, self.slot, "slots ascend by one");
        self.running = Some((round, slot, cell));
    }

    fn verdicts(&mut self, contrasts: &[ContrastState]) {
        assert_eq!(contrasts.len(), self.plan.contrasts.len());
        for (index, (contrast, state)) in self.plan.contrasts.iter().zip(contrasts).enumerate() {
            let failed = contrast.cells().any(|cell| self.failed.contains(&cell));
            assert_eq!(state.verdict == Outcome::Failed, failed, "{state:?}");
            let cannot = contrast.cells().any(|cell| self.unsupported.contains(&cell));
            assert_eq!(state.verdict == Outcome::Unsupported, cannot && !failed, "{state:?}");
            let before = self.states.get(index).map(|state| state.verdict);
            let decided = before.is_some_and(|verdict| verdict != Outcome::Undecided);
            assert!(
                !decided || failed || cannot || Some(state.verdict) == before,
                "{before:?} became {state:?}"
            );
            assert!(!(state.open && state.verdict != Outcome::Undecided), "{state:?}");
            if let (Some(ratio), Some((low, high))) = (state.ratio, state.interval) {
                assert!(low <= ratio && ratio <= high, "{state:?}");
            }
            if failed || cannot || state.too_few_operations {
                assert_eq!((state.ratio, state.interval), (None, None));
            }
        }
        self.states = contrasts.to_vec();
    }
}
