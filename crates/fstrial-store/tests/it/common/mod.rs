//! Trials and runs made from a number, with every field filled, for the tests and for the example that makes fixtures.
//! The fixtures of old schemas hold exactly these: change them only together with a new fixture.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use fstrial_model::{
    arm::Arm,
    counter::{Counter, Counters},
    facts::{ArmFacts, DataUpdate, Durability, Fact},
    job::{FailureKind, GroupTask, Job, Load, PhaseTask, Purpose, RunFailure, Task},
    measurement::{ClockSource, LoadResult, Measurement, OperationKind, PhaseResult, Reading, Stage},
    units::{Bytes, Nanos, Percent},
    workload::{Access, Backend, Data, Figure, Io, Pattern, SetName, Sharing, SyncCall, Until},
};
use fstrial_store::{NewSession, NewTrial, RunId, Store, StoreError, StoredRun, TrialId};
use hdrhistogram::{
    Histogram,
    serialization::{Serializer, V2Serializer},
};
use std::collections::BTreeMap;

/// The stages of a run at the time of the first schema: its files are compared with the files made here.
const STAGES: [Stage; 9] = [
    Stage::Attach,
    Stage::Mkfs,
    Stage::Mount,
    Stage::Layout,
    Stage::Settle,
    Stage::Load,
    Stage::Unmount,
    Stage::Fsck,
    Stage::Detach,
];

pub(crate) const STARTED: &str = "2026-01-02T03:04:05Z";
pub(crate) const ENDED: &str = "2026-01-02T03:04:06.789Z";
pub(crate) const SEED: u64 = u64::MAX - 7;
pub(crate) const TOML: &str = "[trial]\nname = \"sample\"\n";

pub(crate) const SESSION: NewSession<'static> = NewSession {
    started_at: STARTED,
    program_version: "0.1.0",
    command_line: "fstrial compare ext4 xfs --workload random-write",
    environment: r#"{"kernel":"6.12.0","cpus":16}"#,
};

pub(crate) fn arms() -> [Arm; 2] {
    let mut xfs = Arm::plain("xfs");
    xfs.name = "xfs-16ag".into();
    xfs.mkfs = vec!["-d".into(), "agcount=16".into()];
    [Arm::plain("ext4"), xfs]
}

pub(crate) fn create_trial(store: &mut Store) -> TrialId {
    create_trial_at(store, STARTED)
}

pub(crate) fn create_trial_at(store: &mut Store, started_at: &str) -> TrialId {
    let arms = arms();
    store
        .create_trial(&NewTrial {
            name: "sample",
            toml: TOML,
            seed: SEED,
            arms: &arms,
            tags: &[],
            session: NewSession { started_at, ..SESSION },
        })
        .unwrap()
}

pub(crate) fn facts(arm: &str) -> ArmFacts {
    ArmFacts {
        state: None,
        facts: BTreeMap::from([
            (Fact::Barriers, "yes".into()),
            (Fact::MountOptions, format!("rw,relatime,{arm}")),
        ]),
        durability: Durability {
            flushes: true,
            crash_consistent: true,
            no_stale_data: true,
            data: DataUpdate::InPlace,
            volatile_cache: false,
        },
        queue: BTreeMap::new(),
        tools: BTreeMap::from([("mkfs".into(), format!("mkfs.{arm} 1.47.0"))]),
        notes: vec!["a note with “quotes” and\na line break".into()],
    }
}

pub(crate) fn job(arm: &Arm, threads: u16, seed: u64) -> Job {
    let pattern = Pattern::Io(Io {
        access: Access::Random,
        reads: Percent(33.3),
        block_size: Bytes::kib(16),
        total_size: Bytes(3_000_000_001),
        sharing: Sharing::Shared,
        files: 128,
        direct: true,
        backend: Backend::Sync,
        depth: 1,
        fsync_every: 100,
        fsync: SyncCall::Fdatasync,
        ..Io::default()
    });
    Job {
        memory: None,
        state: None,
        // That of the released stores: a store keeps jobs of any protocol.
        protocol: 2,
        arm: arm.clone(),
        task: Some(Task {
            threads,
            phases: vec![PhaseTask {
                one_folder: false,
                host_offset: 0,
                settle: false,
                find_rate: None,
                groups: vec![GroupTask {
                    result: Some(String::new()),
                    figure: Figure::Operations,
                    load: Load {
                        pattern,
                        set: SetName::load(),
                        threads,
                        warmup: Nanos::millis(250),
                        duration: Nanos::secs(1),
                        until: Until::Time,
                        seed,
                        data: Data::Random,
                        rate: None,
                        handicap: Percent(0.0),
                    },
                }],
            }],
            program: None,
            operation: None,
            clients: 1,
            purpose: Purpose::Timed,
        }),
        fsck: true,
    }
}

pub(crate) fn histogram(seed: u64, values: u64) -> String {
    let mut histogram = Histogram::<u64>::new(3).unwrap();
    for value in 0..values {
        histogram.record(1_000 + (value * 7_919 + seed * 104_729) % 5_000_000).unwrap();
    }
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(&histogram, &mut bytes).unwrap();
    STANDARD.encode(bytes)
}

pub(crate) fn measurement(index: u64, arm: &str) -> Measurement {
    let load = LoadResult {
        threads: 4,
        duration: Nanos(1_000_000_007 + index),
        operations: 50_000 + index,
        bytes: (50_000 + index) * 16_384,
        errors: index % 3,
        first_error: (!index.is_multiple_of(3)).then(|| "write: no space left on device".into()),
        histograms: BTreeMap::from([
            (OperationKind::OPERATION, histogram(index, 500)),
            (OperationKind::READ, histogram(index + 1, 300)),
            (OperationKind::FSYNC, histogram(index, 0)),
        ]),
        windows: (0..20).map(|window| 2_500 + window + index).collect(),
        steady_windows: (0..40).map(|window| 1_200 + window).collect(),
        series: vec![0, 1, u64::MAX, 3],
        series_step: Nanos::millis(100),
        tails: Vec::new(),
        tails_step: Nanos(0),
        cpu_user: Nanos(100_000_000 + index),
        cpu_system: Nanos(300_000_000),
        clock: ClockSource::TimeStampCounter,
    };
    Measurement {
        results: vec![PhaseResult {
            name: String::new(),
            reading: Reading::Load(Figure::Operations, Box::new(load)),
            counters: Counters::of(Counter::CpuMachine, 900_000_000),
        }],
        facts: facts(arm),
        commands: vec![format!("mkfs.{arm} /dev/loop0"), "mount /dev/loop0 /mnt".into()],
        stages: STAGES.iter().map(|&stage| (stage, Nanos((1 << 60) + 1 + index))).collect(),
        space_left: Bytes((1 << 60) + 1),
        output: None,
    }
}

pub(crate) fn failure(index: u64) -> RunFailure {
    RunFailure {
        kind: FailureKind::ArmFailed,
        stage: Stage::Fsck,
        what: format!("xfs_repair found errors ({index})"),
        hint: Some("keep the image".into()),
    }
}

/// Run `index` of a trial: two arms in each round, and every seventh run fails.
pub(crate) fn expected(index: u64) -> StoredRun {
    let arm = &arms()[usize::try_from(index % 2).unwrap()];
    let outcome = if index % 7 == 6 { Err(failure(index)) } else { Ok(measurement(index, &arm.name)) };
    StoredRun {
        id: RunId(0),
        session: fstrial_store::SessionId(0),
        round: u32::try_from(index / 2).unwrap(),
        slot: u32::try_from(index % 2).unwrap(),
        arm: arm.name.clone(),
        workload: "random-write".into(),
        threads: 4,
        started_at: STARTED.into(),
        ended_at: ENDED.into(),
        environment: SESSION.environment.to_owned(),
        job: serde_json::to_string(&job(arm, 4, SEED ^ index)).unwrap(),
        outcome,
    }
}

pub(crate) fn record(store: &mut Store, trial: TrialId, index: u64) -> Result<RunId, StoreError> {
    record_run(store, trial, &expected(index))
}

pub(crate) fn record_run(store: &mut Store, trial: TrialId, run: &StoredRun) -> Result<RunId, StoreError> {
    store.record_run(trial, &run.with_job(&run.parse_job().unwrap()))
}

/// Asserts that a trial holds runs 0 to `runs` and nothing else, each as it was recorded.
pub(crate) fn assert_runs(store: &Store, trial: TrialId, runs: u64) {
    let stored = store.runs(trial).unwrap();
    assert_eq!(stored.len() as u64, runs);
    for (index, run) in stored.into_iter().enumerate() {
        assert_run(&run, index as u64);
    }
}

/// Asserts that a run is run `index` as it was recorded.
pub(crate) fn assert_run(run: &StoredRun, index: u64) {
    let expected = StoredRun { id: run.id, session: run.session, ..expected(index) };
    assert_eq!(run.parse_job().unwrap(), expected.parse_job().unwrap());
    assert_eq!(*run, expected);
}
