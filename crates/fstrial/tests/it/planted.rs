//! Stores with invented trials: every figure is planted, so that results can be checked against it.

use crate::made;
use fstrial_model::{
    facts::{ArmFacts, Fact},
    job::{FailureKind, RunFailure},
    measurement::{Measurement, Stage},
    trial::Trial,
};
use fstrial_store::{NewSession, NewTrial, RunRecord, Store, TrialId, TrialStatus};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// A trial of ext4 against XFS, with these planted values.
#[derive(Debug, Clone)]
pub(crate) struct Night {
    /// Days after 2026-01-01 that it began.
    pub(crate) day: i64,
    pub(crate) name: String,
    pub(crate) tags: Vec<String>,
    pub(crate) kernel: String,
    pub(crate) host: String,
    pub(crate) processor: String,
    /// Name of the second arm, of XFS.
    pub(crate) arm: String,
    /// Version of mkfs.xfs as the program prints it.
    pub(crate) mkfs: String,
    /// A line of the kernel's log or a tool that the facts quote.
    pub(crate) note: String,
    /// Measured time of a run.
    pub(crate) duration: &'static str,
    /// Rounds that it has.
    pub(crate) rounds: u32,
    /// Operations per second of ext4.
    pub(crate) rate: f64,
    /// Throughput of XFS over that of ext4.
    pub(crate) ratio: f64,
    pub(crate) status: TrialStatus,
    /// Description of the device.
    pub(crate) device: String,
    /// Whether XFS fails with 4 threads in the last round.
    pub(crate) fails_late: bool,
    /// Whether its number of rounds was fixed in advance.
    pub(crate) is_fixed: bool,
    /// The digest of its machine-id.
    pub(crate) machine: Option<&'static str>,
}

impl Default for Night {
    fn default() -> Self {
        Self {
            day: 0,
            name: "nightly".into(),
            tags: vec!["nightly".into()],
            kernel: "6.17.3-amd64".into(),
            host: "lab1".into(),
            processor: "Planted CPU".into(),
            arm: "xfs".into(),
            mkfs: "mkfs.xfs version 6.5.0".into(),
            note: String::new(),
            duration: "1s",
            rounds: 5,
            rate: 10_000.0,
            ratio: 1.2,
            status: TrialStatus::Decided,
            device: "image: loop device with direct I/O on a 2 GiB file in /planted".into(),
            fails_late: false,
            is_fixed: false,
            machine: None,
        }
    }
}

impl Night {
    fn trial(&self) -> Trial {
        let mut trial = Trial::parse(
            "planted",
            &format!(
                "[trial]\nname = \"nightly\"\n[[arm]]\nfilesystem = \"ext4\"\n[[arm]]\nfilesystem = \"xfs\"\n\
                 [[workload]]\nuse = \"append-fsync\"\nthreads = [1, 4]\nduration = \"{}\"\n",
                self.duration
            ),
        )
        .unwrap();
        trial.trial.name.clone_from(&self.name);
        trial.arms[1].name.clone_from(&self.arm);
        if self.is_fixed {
            (trial.trial.sequential, trial.trial.rounds) = (false, Some(self.rounds));
        }
        trial
    }

    fn environment(&self) -> String {
        let environment = serde_json::json!({
            "fstrial": "0.1.0",
            "host": self.host,
            "machine": self.machine,
            "kernel": format!("{} x86_64", self.kernel),
            "distribution": "Planted Linux",
            "processor": self.processor,
            "cpus": 4,
            "memory": "16GiB",
            "clocksource": "tsc",
            "governor": null,
            "virtual_machine": false,
            "load_average": "0.00",
            "device": self.device,
            "device_notes": [],
        });
        environment.to_string()
    }

    fn facts(&self, arm: &str) -> ArmFacts {
        let tool = if arm == "ext4" { "mke2fs 1.47.0".into() } else { self.mkfs.clone() };
        ArmFacts {
            facts: BTreeMap::from([(Fact::Barriers, "yes".into()), (Fact::Journal, self.note.clone())]),
            durability: made::durability(),
            queue: BTreeMap::new(),
            tools: BTreeMap::from([(if arm == "ext4" { "mkfs.ext4" } else { "mkfs.xfs" }.to_owned(), tool)]),
            notes: if self.note.is_empty() { Vec::new() } else { vec![self.note.clone()] },
            state: None,
        }
    }

    /// When it began, and this many seconds later.
    fn time(&self, seconds: i64) -> String {
        let begin: jiff::Timestamp = "2026-01-01T03:00:00Z".parse().unwrap();
        (begin + jiff::SignedDuration::from_secs(self.day * 86_400 + seconds)).to_string()
    }

    /// Stores it.
    pub(crate) fn store(&self, store: &mut Store) -> TrialId {
        let (trial, environment, started_at) = (self.trial(), self.environment(), self.time(0));
        let session = NewSession {
            started_at: &started_at,
            program_version: "0.1.0",
            command_line: "fstrial run nightly.toml",
            environment: &environment,
        };
        let (toml, arms) = (trial.to_toml(), &trial.arms);
        let new = NewTrial { name: &self.name, toml: &toml, seed: 7, arms, tags: &self.tags, session };
        let id = store.create_trial(&new).unwrap();
        for arm in &trial.arms {
            store.set_arm_facts(id, &arm.name, &self.facts(&arm.name)).unwrap();
        }
        if self.rounds == 0 {
            store.finish_trial(id, self.status, &self.time(1)).unwrap();
            return id;
        }
        for round in 1..=self.rounds {
            for (slot, (threads, arm)) in [(1, 0), (1, 1), (4, 0), (4, 1)].into_iter().enumerate() {
                self.record(store, id, &trial, round, u32::try_from(slot).unwrap(), threads, arm);
            }
        }
        if self.status != TrialStatus::Running {
            store.finish_trial(id, self.status, &self.time(600)).unwrap();
        }
        id
    }

    #[expect(clippy::too_many_arguments, reason = "what a run is made of")]
    fn record(
        &self,
        store: &mut Store,
        id: TrialId,
        trial: &Trial,
        round: u32,
        slot: u32,
        threads: u16,
        arm: usize,
    ) {
        // A little noise that is the same in every trial, and drift that both arms of a round share.
        let noise = 1.0 + 0.002 * f64::from((round * 5 + slot * 3) % 7) - 0.006;
        let rate = self.rate * noise * if arm == 1 { self.ratio } else { 1.0 };
        let measured = measurement(rate, threads, self.facts(&trial.arms[arm].name));
        let job = made::job(&trial.arms[arm]);
        let failure = RunFailure {
            kind: FailureKind::ArmFailed,
            stage: Stage::Load,
            what: "a planted fault".into(),
            hint: None,
        };
        let fails = self.fails_late && (round, arm, threads) == (self.rounds, 1, 4);
        let record = RunRecord {
            round,
            slot,
            arm: &trial.arms[arm].name,
            workload: "append-fsync",
            threads,
            started_at: &self.time(i64::from(round * 4 + slot)),
            ended_at: &self.time(i64::from(round * 4 + slot) + 1),
            environment: "{}",
            job: &job,
            outcome: if fails { Err(&failure) } else { Ok(&measured) },
        };
        store.record_run(id, &record).unwrap();
    }
}

/// A run in which every operation took the same.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are thousands")]
fn measurement(rate: f64, threads: u16, facts: ArmFacts) -> Measurement {
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
    histogram.record_n((1e9 * f64::from(threads) / rate) as u64, rate as u64).unwrap();
    made::measurement(rate, threads, &fstrial_engine::encode(&histogram), facts)
}
