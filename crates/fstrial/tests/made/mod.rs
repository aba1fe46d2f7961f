//! Stores with synthetic trials: as many arms, workloads, levels and rounds as requested, with planted differences. For
//! tests and benchmarks of code that reads a store. Every number comes from a seed.

use fstrial_model::{
    arm::Arm,
    counter::{Counter, Counters},
    facts::{ArmFacts, DataUpdate, Durability, Fact},
    job::{Job, PROTOCOL},
    measurement::{ClockSource, LoadResult, Measurement, OperationKind, PhaseResult, Reading, Stage},
    trial::Trial,
    units::{Bytes, Nanos},
    workload::Figure,
};
use fstrial_run::{environment::Environment, plan::Plan};
use fstrial_store::{NewSession, NewTrial, RunRecord, Store, TrialId, TrialStatus};
use hdrhistogram::Histogram;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use std::{collections::BTreeMap, fmt::Write as _};

/// Size and content of a trial.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    /// Name of the trial.
    pub(crate) name: String,
    /// Names of the arms, each with its speed against the first.
    pub(crate) arms: Vec<(String, f64)>,
    /// Names of the workloads.
    pub(crate) workloads: Vec<String>,
    /// Threads.
    pub(crate) levels: Vec<u16>,
    pub(crate) rounds: u32,
    /// Variation of a run, as a fraction.
    pub(crate) noise: f64,
    /// Its reported kernel.
    pub(crate) kernel: String,
    /// The arm that the others are compared with; every two if there is none.
    pub(crate) baseline: Option<String>,
    /// The claim that it decides, as the part of its file with it.
    pub(crate) claim: String,
    /// True if it failed in the end.
    pub(crate) failed: bool,
    /// Output of tools and commands.
    pub(crate) tool: String,
    /// Its reported start: the hour, RFC 3339 without the minutes.
    pub(crate) hour: String,
    /// Its reported host.
    pub(crate) host: String,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            name: "made up".into(),
            arms: vec![("ext4".into(), 1.0), ("xfs".into(), 1.3), ("btrfs".into(), 0.6)],
            workloads: vec!["random-write".into(), "append-fsync".into()],
            levels: vec![1, 4],
            rounds: 12,
            noise: 0.02,
            kernel: "6.12.0 x86_64".into(),
            baseline: None,
            claim: String::new(),
            failed: false,
            tool: "mke2fs 1.47.0 (5-Feb-2023)".into(),
            hour: "2026-01-02T03".into(),
            host: "made-up".into(),
        }
    }
}

impl Shape {
    /// The trial as a file.
    fn toml(&self) -> String {
        let baseline = self.baseline.as_ref().map(|name| format!("baseline = {}\n", quoted(name)));
        let mut toml = format!(
            "{}[trial]\nname = {}\nbudget = \"1h\"\n{}\n[device]\nkind = \"ramdisk\"\n",
            self.claim,
            quoted(&self.name),
            baseline.unwrap_or_default()
        );
        for (name, _) in &self.arms {
            let _ = write!(toml, "\n[[arm]]\nname = {}\nfilesystem = \"ext4\"\n", quoted(name));
        }
        for name in &self.workloads {
            let _ = write!(
                toml,
                "\n[[workload]]\nname = {}\nuse = \"random-write\"\nthreads = {:?}\n",
                quoted(name),
                self.levels
            );
        }
        toml
    }
}

/// A string as TOML has it.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("strings are plain")
}

/// Stores a trial of this shape.
pub(crate) fn add(store: &mut Store, shape: &Shape, seed: u64) -> TrialId {
    let trial = Trial::parse("made-up.toml", &shape.toml()).expect("the file is sound");
    let plan =
        Plan::new(trial.settled(64).expect("its workloads are sound"), seed).expect("the trial is possible");
    let environment = environment(shape);
    let environment = serde_json::to_string(&environment).expect("it is plain");
    let begun = format!("{}:00:00Z", shape.hour);
    let toml = plan.trial.to_toml();
    let id = store
        .create_trial(&NewTrial {
            name: &shape.name,
            toml: &toml,
            seed,
            arms: &plan.trial.arms,
            tags: &[],
            session: NewSession {
                started_at: &begun,
                program_version: env!("CARGO_PKG_VERSION"),
                command_line: "fstrial run made-up.toml",
                environment: &environment,
            },
        })
        .expect("the store takes it");
    for arm in &plan.trial.arms {
        store.set_arm_facts(id, &arm.name, &facts(&arm.name, shape)).expect("the store takes it");
    }
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let histograms: Vec<String> = (0..64).map(|_| histogram(&mut random)).collect();
    for round in 1..=shape.rounds {
        record_round(store, id, &plan, shape, round, &histograms, &mut random);
    }
    store
        .finish_trial(
            id,
            if shape.failed { TrialStatus::Failed } else { TrialStatus::Decided },
            &format!("{}:59:59Z", shape.hour),
        )
        .expect("the store takes it");
    id
}

/// A fictitious machine.
fn environment(shape: &Shape) -> Environment {
    Environment {
        boot: None,
        place: String::new(),
        fstrial: env!("CARGO_PKG_VERSION").into(),
        node: None,
        machine: None,
        host: shape.host.clone(),
        kernel: shape.kernel.clone(),
        distribution: "Debian GNU/Linux 12 (bookworm)".into(),
        processor: "Processor of No Make".into(),
        cpus: 64,
        memory: Bytes::gib(256),
        clocksource: "tsc".into(),
        tick_hz: Some(1000),
        cpu_sampled: false,
        governor: Some("performance".into()),
        virtual_machine: false,
        load_average: "0.12".into(),
        busy_percent: Some(3),
        device: "ramdisk (zram) of 4 GiB".into(),
        device_notes: Vec::new(),
        generator_loop_ns: Some(23),
        memory_limited_by: None,
    }
}

fn record_round(
    store: &mut Store,
    id: TrialId,
    plan: &Plan,
    shape: &Shape,
    round: u32,
    histograms: &[String],
    random: &mut ChaCha8Rng,
) {
    // Common effect of a round: the machine was faster or slower for a while.
    let drift = 1.0 + 0.1 * noise(random);
    for (slot, cell) in plan.order(round).into_iter().enumerate() {
        let at = plan.cells[cell];
        let arm = &plan.trial.arms[at.arm];
        let speed = shape.arms[at.arm].1;
        let rate =
            10_000.0 * speed * f64::from(at.threads).sqrt() * drift * (1.0 + shape.noise * noise(random));
        let histogram = &histograms[(random.next_u32() as usize) % histograms.len()];
        let measurement = measurement(rate.max(100.0), at.threads, histogram, facts(&arm.name, shape));
        let time = |second: usize| format!("{}:{:02}:{:02}Z", shape.hour, round % 60, (slot + second) % 60);
        let job = job(arm);
        let record = RunRecord {
            round,
            slot: u32::try_from(slot).expect("few") + 1,
            arm: &arm.name,
            workload: &plan.workloads[at.workload].name,
            threads: at.threads,
            started_at: &time(0),
            ended_at: &time(1),
            environment: "{}",
            job: &job,
            outcome: Ok(&measurement),
        };
        store.record_run(id, &record).expect("the store takes it");
    }
}

/// A worker's job.
pub(crate) fn job(arm: &Arm) -> Job {
    Job { protocol: PROTOCOL, arm: arm.clone(), state: None, task: None, memory: None, fsck: false }
}

/// A number about 0, from −1 to 1, more often near the middle.
fn noise(random: &mut ChaCha8Rng) -> f64 {
    let mut one = || f64::from(random.next_u32()) / f64::from(u32::MAX) * 2.0 - 1.0;
    (one() + one() + one()) / 3.0
}

fn histogram(random: &mut ChaCha8Rng) -> String {
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 3).expect("sound bounds");
    for _ in 0..3_000 {
        // A long tail, as latencies have it.
        let share = (f64::from(random.next_u32()) + 1.0) / (f64::from(u32::MAX) + 2.0);
        let ns = 80_000.0 * share.powf(-0.6);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a latency")]
        histogram.record(ns as u64).expect("inside the bounds");
    }
    fstrial_engine::encode(&histogram)
}

/// Durability of most filesystems.
pub(crate) fn durability() -> Durability {
    Durability {
        flushes: true,
        crash_consistent: true,
        no_stale_data: true,
        data: DataUpdate::InPlace,
        volatile_cache: false,
    }
}

fn facts(arm: &str, shape: &Shape) -> ArmFacts {
    ArmFacts {
        facts: BTreeMap::from([
            (Fact::Barriers, "yes".into()),
            (Fact::Journal, "metadata (data=ordered)".into()),
            (Fact::MountOptions, format!("rw,relatime,{arm}")),
        ]),
        durability: durability(),
        queue: BTreeMap::new(),
        tools: BTreeMap::from([("mkfs.ext4".into(), shape.tool.clone())]),
        notes: Vec::new(),
        state: None,
    }
}

/// Measurement of a run of a second.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are positive and small")]
pub(crate) fn measurement(rate: f64, threads: u16, histogram: &str, facts: ArmFacts) -> Measurement {
    let operations = rate as u64;
    let load = LoadResult {
        threads,
        duration: Nanos::secs(1),
        operations,
        bytes: operations * 4096,
        errors: 0,
        first_error: None,
        histograms: BTreeMap::from([(OperationKind::OPERATION, histogram.to_owned())]),
        windows: vec![operations / 20; 20],
        steady_windows: (0..40).map(|window| operations / 32 + window % 7).collect(),
        series: vec![operations / 10; 13],
        series_step: Nanos::millis(100),
        tails: vec![(90_000, 400_000); 13],
        tails_step: Nanos::millis(100),
        cpu_user: Nanos::millis(20),
        cpu_system: Nanos::millis(400),
        clock: ClockSource::TimeStampCounter,
    };
    Measurement {
        results: vec![PhaseResult {
            name: String::new(),
            reading: Reading::Load(Figure::Operations, Box::new(load)),
            counters: Counters::from_iter([
                (Counter::CpuMachine, Some(900_000_000)),
                (Counter::DeviceWritten, Some(operations * 4200)),
            ]),
        }],
        commands: facts
            .tools
            .iter()
            .map(|(tool, version)| format!("{tool} /dev/loop0 # {version}"))
            .collect(),
        facts,
        stages: vec![(Stage::Mkfs, Nanos::millis(80)), (Stage::Mount, Nanos::millis(9))],
        space_left: Bytes::gib(3),
        output: None,
    }
}
