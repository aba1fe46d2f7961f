//! The one protocol: a job goes to a worker, messages come back, as JSON lines.
//!
//! A [`Job`] describes the work and its measurement, independent of the place: it is the same on every host, and only
//! its bytes get there. The place adds its own settings, which makes it a [`PlacedJob`]: the complete input of a
//! worker, with nothing left to look up. A worker knows nothing about rounds, statistics or the store; its answer is
//! one [`Measurement`] or one [`RunFailure`].

use crate::{
    arm::Arm,
    device::Raid,
    evidence::Evidence,
    facts::ArmFacts,
    measurement::{Measurement, Stage},
    receipt::{CutTask, RunReceipt},
    state::{Restoring, Space, State, StateFigures},
    units::{Bytes, Nanos, Percent},
    workload::{
        Data, Figure, InputFile, Pattern, Program, Rate, RateTarget, SetName, TimedOperation, Until,
        space_of_sets,
    },
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::PathBuf};

/// Raised when a job or a message changes its meaning; a worker refuses another version than its own.
pub const PROTOCOL: u32 = 17;

/// One run: build this arm, put this load on it, measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// [`PROTOCOL`] of the sender.
    pub protocol: u32,
    /// The arm to build.
    pub arm: Arm,
    /// The work on it; none: the arm is built, inspected and taken down.
    pub task: Option<Task>,
    /// Preparation of its filesystem's state; none: as created by mkfs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateTask>,
    /// The limit for the memory of the load and its page cache together, from the layout of its files to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Check the filesystem fully after unmounting.
    pub fsck: bool,
}

/// A job with all settings of its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacedJob {
    /// Arm, task and state of the run, without the device to build it on.
    pub job: Job,
    /// The device to build the arm on.
    pub device: DeviceBinding,
    /// Further parts of the arm.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub setup: Setup,
    /// `/proc/PID/fd/N` of the file that keeps the state of the job, which the place holds open; none without a state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<PathBuf>,
    /// Process number of the place: the only other process that may have a disk open.
    pub coordinator: u32,
    /// The worker's ledger for changes that outlive a process.
    pub ledger: PathBuf,
}

/// Parts of an arm in addition to its device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// The device for its journal or log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<DeviceBinding>,
    /// The files of a device whose power can be cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuts: Option<CutFiles>,
}

/// Paths of the files of a modelled device for power cuts: `/proc/PID/fd/N`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutFiles {
    /// Takes orders and promises, and gives answers.
    pub control: PathBuf,
    /// The contents after the last cut.
    pub image: PathBuf,
    /// For the first cut with a loss or damage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptFiles>,
}

/// Paths of open, empty files that show a loss.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptFiles {
    /// For the image, as the cut left it.
    pub image: PathBuf,
    /// For the write log up to the cut.
    pub log: PathBuf,
}

impl Setup {
    /// The part of it that an arm uses.
    #[must_use]
    pub fn of(&self, arm: &Arm) -> Self {
        Self { log: self.log.clone().filter(|_| arm.log.is_some()), cuts: None }
    }
}

impl Job {
    /// True if the data for its task exist as soon as its filesystem does.
    pub fn has_its_data(&self) -> bool {
        matches!(&self.state, Some(StateTask { step: StateStep::Restore { loaded: true, .. }, .. }))
    }

    /// True if it prepares a state, and measures nothing.
    pub fn prepares(&self) -> bool {
        matches!(&self.state, Some(StateTask { step: StateStep::Prepare { .. }, .. }))
    }

    /// The inputs that its program is given by digest.
    pub fn attached(&self) -> impl Iterator<Item = &InputFile> {
        self.task.iter().flat_map(|task| &task.program).flat_map(|task| task.program.attached.values())
    }

    /// The same, for the place to set their paths.
    pub fn attached_mut(&mut self) -> impl Iterator<Item = &mut InputFile> {
        self.task
            .iter_mut()
            .flat_map(|task| &mut task.program)
            .flat_map(|task| task.program.attached.values_mut())
    }

    /// A seed that is the same for every arm of a round; 0 without a task.
    pub fn seed(&self) -> u64 {
        let Some(task) = &self.task else { return 0 };
        let loads = task.phases.iter().flat_map(|phase| &phase.groups).map(|group| group.load.seed);
        let programs = task.program.iter().map(|program| program.seed);
        let operations = task.operation.iter().map(|operation| operation.seed);
        loads.chain(programs).chain(operations).next().unwrap_or(0)
    }
}

/// Preparation of a filesystem's state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateTask {
    /// Number of the prepared filesystem in its trial, from 0. The place finds the saved content by it.
    #[serde(default)]
    pub kept: usize,
    /// Method of saving and restoring it.
    pub restoring: Restoring,
    /// Preparation, or restoring.
    pub step: StateStep,
}

/// Making a state, or putting it back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "step")]
pub enum StateStep {
    /// Make it on the new filesystem, and save the device's content. Of the job's task only its data are loaded.
    Prepare {
        /// The state to prepare.
        state: State,
        /// Seed of names, sizes and choices: the same for every arm of a trial.
        seed: u64,
        /// Content of the files.
        data: Data,
        /// Space that every arm has when it is fresh (see [`Space::room`]): shares are of this, so that all arms get
        /// the same files.
        room: Bytes,
    },
    /// Put the device's content back; nothing is made.
    Restore {
        /// The data that the task works on are part of it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        loaded: bool,
        /// Figures of the state, taken at the time it was made.
        figures: StateFigures,
        /// Output of mkfs when the filesystem was made.
        mkfs_output: String,
    },
}

/// A concrete device, found or made by the coordinator before the first run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum DeviceBinding {
    /// A loop device on a file that the coordinator holds open (and that may have no name any more).
    Loop {
        /// `/proc/PID/fd/N` of the file.
        file: PathBuf,
        /// Size of the file.
        size: Bytes,
        /// Ask for direct I/O on the file (not on memory).
        direct_io: bool,
        /// Discards may reach the file: no part of it is lost by them.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        discards: bool,
    },
    /// A compressed ramdisk added by the coordinator for this trial alone.
    Zram {
        /// N of `/dev/zramN`.
        index: u32,
        /// Capacity before compression: `disksize` in sysfs.
        size: Bytes,
    },
    /// A whole block device that the user gave.
    Disk {
        /// Its node, resolved.
        path: PathBuf,
        /// Device number at the time it was accepted.
        major: u32,
        /// See `major`.
        minor: u32,
        /// The kernel's disk sequence number at that time: changes when another disk takes the name.
        diskseq: Option<u64>,
        /// Capacity at the time it was accepted.
        size: Bytes,
    },
    /// Several devices, which the filesystem spreads itself over.
    Several {
        /// The members, the first one first.
        members: Vec<DeviceBinding>,
    },
    /// Several devices, of which the worker makes an array of md.
    Raid {
        /// Devices to combine; raid10 needs four at least.
        members: Vec<DeviceBinding>,
        /// The array.
        raid: Raid,
    },
    /// An existing directory: nothing is made or mounted.
    Directory {
        /// The directory; the worker makes a folder inside.
        path: PathBuf,
    },
}

impl DeviceBinding {
    /// Its size, for a single device.
    pub fn size(&self) -> Option<Bytes> {
        match self {
            Self::Loop { size, .. } | Self::Zram { size, .. } | Self::Disk { size, .. } => Some(*size),
            Self::Several { .. } | Self::Raid { .. } | Self::Directory { .. } => None,
        }
    }
}

/// The work on a finished arm: a workload at one level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The level.
    pub threads: u16,
    /// One after the other.
    pub phases: Vec<PhaseTask>,
    /// A program instead of phases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramTask>,
    /// An operation of the filesystem instead of phases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<OperationTask>,
    /// Clients that do all of it together.
    #[serde(default = "one", skip_serializing_if = "crate::trial::is_one")]
    pub clients: u16,
    /// Its purpose.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub purpose: Purpose,
}

/// Purpose of a run. Only timed runs count for a verdict, and only they are stored as runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// Its time counts.
    #[default]
    Timed,
    /// Record the load, and cut the power of the device afterwards at many points of the recording.
    Receipt(CutTask),
    /// Observe the load by programs in the kernel.
    Evidence,
}

impl Task {
    /// The power cuts after it.
    pub fn cuts(&self) -> Option<&CutTask> {
        match &self.purpose {
            Purpose::Receipt(cuts) => Some(cuts),
            Purpose::Timed | Purpose::Evidence => None,
        }
    }
}

const fn one() -> u16 {
    1
}

/// An operation of the filesystem to do and time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperationTask {
    /// The operation.
    pub timed: TimedOperation,
    /// Content of the files.
    pub data: Data,
    /// Seed of the tree and its data: the same for every arm of a round.
    pub seed: u64,
}

/// A program to run, and its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProgramTask {
    /// Commands to run; `{duration}` and `{seed}` are not filled in yet.
    pub program: Program,
    /// Value of `{duration}`.
    pub duration: Nanos,
    /// Value of `{seed}`: the same for every arm of a round.
    pub seed: u64,
}

impl Task {
    /// True if it freezes its filesystem.
    pub fn freezes(&self) -> bool {
        self.operation.as_ref().is_some_and(|task| task.timed.operation.freezes())
    }

    /// The program that has to do it, if it is not fstrial itself: that of an engine.
    pub fn helper(&self) -> Option<&'static str> {
        let mut groups = self.phases.iter().flat_map(|phase| &phase.groups);
        groups.find_map(|group| group.load.pattern.helper())
    }

    /// Bytes its files take, without the filesystem's own needs.
    pub fn space_needed(&self) -> Bytes {
        let each =
            space_of_loads(self.phases.iter().flat_map(|phase| &phase.groups).map(|group| &group.load));
        Bytes(each.0.saturating_mul(self.clients.into()))
    }
}

/// Bytes that the files of loads take together, without the filesystem's own needs.
pub fn space_of_loads<'a>(loads: impl Iterator<Item = &'a Load>) -> Bytes {
    space_of_sets(loads.map(|load| (load.set.as_str(), load.pattern.space_needed(load.threads))))
}

/// One phase of a task: groups of threads that run concurrently.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseTask {
    /// Sync and drop the caches before it.
    pub settle: bool,
    /// Clients share one folder.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub one_folder: bool,
    /// A client uses the files of the client this many hosts further on.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub host_offset: u16,
    /// Look for the highest rate that meets this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub find_rate: Option<RateTarget>,
    /// Concurrent groups; at least one.
    pub groups: Vec<GroupTask>,
}

/// The load of a group of threads, and the use of its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupTask {
    /// The name of its result; none: its result is not wanted.
    pub result: Option<String>,
    /// Basis of its throughput.
    pub figure: Figure,
    /// Work of the engine.
    pub load: Load,
}

/// Work of the engine with one group of threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Work of every thread.
    pub pattern: Pattern,
    /// Name of the files it works on.
    pub set: SetName,
    /// Number of threads, 1 to 1024.
    pub threads: u16,
    /// Time that runs before the clock starts; 0 with [`Until::Done`].
    pub warmup: Nanos,
    /// Time measured; with [`Until::Done`] the longest it may take.
    pub duration: Nanos,
    /// When it is over.
    pub until: Until,
    /// Seed of offsets, choices and data: the same for every arm of a round.
    pub seed: u64,
    /// Content of the files.
    pub data: Data,
    /// The operations that all threads together are offered; none is a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Every wait for the kernel is extended by this share: a known slowdown, to test its detection.
    #[serde(default, skip_serializing_if = "Percent::is_zero")]
    pub handicap: Percent,
}

/// A line from a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "message")]
pub enum WorkerMessage {
    /// A stage begins; the coordinator's watchdog starts over.
    Stage {
        /// Stage that begins now, such as `mkfs`.
        stage: Stage,
        /// The longest this stage may take; after that the worker counts as hung.
        deadline: Nanos,
    },
    /// The arm is ready; these are its facts. Sent before the load.
    Facts {
        /// Its actual settings.
        facts: ArmFacts,
        /// The commands that made it.
        #[serde(deserialize_with = "crate::bounded::commands")]
        commands: Vec<String>,
        /// Bytes in use and bytes that can be filled, as `df` counts them.
        space: Space,
    },
    /// Bytes of a lengthy stage that are done; the watchdog starts over.
    Progress {
        /// Stage in progress that these bytes belong to.
        stage: Stage,
        /// Done so far.
        done: Bytes,
        /// At most this many in all.
        total: Bytes,
        /// The longest it may take to the next word.
        deadline: Nanos,
    },
    /// The state is made and saved. Sent before the last line.
    Prepared {
        /// Figures of the state just made, for [`StateStep::Restore`].
        figures: StateFigures,
        /// Text that mkfs printed, for [`StateStep::Restore`].
        mkfs_output: String,
    },
    /// The power cuts of the run and their outcomes. Sent before the last line.
    Receipt {
        /// Promises and cuts.
        receipt: RunReceipt,
    },
    /// Evidence of a phase. Sent after it.
    Evidence {
        /// By the name of a result: the group of its threads.
        groups: BTreeMap<String, String>,
        /// The time of all threads.
        evidence: Box<Evidence>,
    },
    /// The run is over and everything is taken down. The last line.
    Measured {
        /// The measurement. None if the job had no load.
        measurement: Option<Box<Measurement>>,
    },
    /// The run failed; everything removable was taken down. The last line.
    Failed {
        /// Why.
        failure: RunFailure,
    },
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{what}")]
pub struct RunFailure {
    /// Responsibility, which decides how the trial continues.
    pub kind: FailureKind,
    /// The stage it happened in.
    pub stage: Stage,
    /// The failed operation, its object and the reason, in lower case.
    pub what: String,
    /// The remedy.
    pub hint: Option<String>,
}

/// Responsibility for a failed run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The host lacks a requirement of the arm: a program, a filesystem in the kernel, a privilege.
    HostLacks,
    /// The arm cannot be built here: mkfs or mount refuses the options. No round would change that.
    ArmRefused,
    /// The arm itself failed under load or in its check: an outcome of the arm.
    ArmFailed,
    /// The filesystem does not support the operation: an answer, not a failure. No round would change it.
    #[serde(rename = "cannot")]
    Unsupported,
    /// The load could not be made: too little space, an option the engine cannot do here.
    LoadRefused,
    /// Lost for our own reasons (worker killed, hung, device busy): the round does not count; it may be tried again.
    Lost,
    /// A clean-up step failed: going on would not be safe.
    CleanUp,
}
