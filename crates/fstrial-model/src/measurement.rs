//! The measurement of a run: counts, times, histograms, a time series, counters, and the facts of the arm it ran on.

use crate::{
    counter::Counters,
    facts::ArmFacts,
    rows::words,
    units::{Bytes, Nanos},
    workload::Figure,
};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use std::{borrow::Cow, collections::BTreeMap, fmt};

/// A kind of operation with a separate latency histogram: a word of the pattern that records it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Cow<'static, str>")]
pub struct OperationKind(Cow<'static, str>);

impl OperationKind {
    /// The workload's own unit: a request with the sync it owes, or one turn over a file set. Its rate is the throughput.
    pub const OPERATION: Self = Self::new("operation");
    /// A read.
    pub const READ: Self = Self::new("read");
    /// A write.
    pub const WRITE: Self = Self::new("write");
    /// A sync call.
    pub const FSYNC: Self = Self::new("fsync");

    /// A kind of this name: at most 32 lower-case letters, digits and hyphens.
    ///
    /// # Panics
    /// It is something else.
    pub const fn new(name: &'static str) -> Self {
        assert!(Self::is_name(name), "a kind of operation is at most 32 of a-z, 0-9 and -");
        Self(Cow::Borrowed(name))
    }

    /// True if a word can name a kind.
    pub const fn is_name(name: &str) -> bool {
        let (bytes, mut at) = (name.as_bytes(), 0);
        while at < bytes.len() {
            if !matches!(bytes[at], b'a'..=b'z' | b'0'..=b'9' | b'-') {
                return false;
            }
            at += 1;
        }
        !bytes.is_empty() && bytes.len() <= 32
    }
}

impl fmt::Display for OperationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<Cow<'static, str>> for OperationKind {
    type Error = &'static str;

    fn try_from(name: Cow<'static, str>) -> Result<Self, Self::Error> {
        if Self::is_name(&name) {
            Ok(Self(name))
        } else {
            Err("a kind of operation is at most 32 of a-z, 0-9 and -")
        }
    }
}

/// Kinds of operations that a load has at most.
pub const MAX_KINDS: usize = 32;

/// Refuses more kinds than a load has: they may come from elsewhere.
fn few_kinds<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<OperationKind, String>, D::Error> {
    let kinds = BTreeMap::deserialize(from)?;
    if kinds.len() > MAX_KINDS { Err(D::Error::custom("too many kinds of operations")) } else { Ok(kinds) }
}

/// Results of the engine in the measured time, all threads together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadResult {
    /// Threads that made it.
    #[serde(default)]
    pub threads: u16,
    /// Time measured, as it came out.
    pub duration: Nanos,
    /// Operations completed in it.
    pub operations: u64,
    /// Bytes read and written in it.
    pub bytes: u64,
    /// Operations that failed or fell short, in warm-up and measured time.
    pub errors: u64,
    /// The text of the first error, if there was one.
    pub first_error: Option<String>,
    /// Latencies in nanoseconds by kind: HdrHistogram V2 with deflate off, base64, 3 significant digits.
    #[serde(deserialize_with = "few_kinds")]
    pub histograms: BTreeMap<OperationKind, String>,
    /// Operations in equal windows of the measured time: 20, or 10 when it is shorter than 0.5 s.
    pub windows: Vec<u64>,
    /// Operations in 40 equal windows of warm-up and measured time, for the check of the warm-up.
    pub steady_windows: Vec<u64>,
    /// Operations in windows of `series_step`, from the start of the warm-up on.
    pub series: Vec<u64>,
    /// Width of a series window.
    pub series_step: Nanos,
    /// Median and 99th percentile of the operations' latencies, in nanoseconds, in windows of `tails_step` from the
    /// start of the warm-up on; 0 for a window without completions. Within 1/32 of the true value.
    #[serde(default)]
    pub tails: Vec<(u64, u64)>,
    /// Width of a window of `tails`.
    #[serde(default)]
    pub tails_step: Nanos,
    /// CPU time of the load's own threads in the measured time: user and system.
    pub cpu_user: Nanos,
    /// See `cpu_user`.
    pub cpu_system: Nanos,
    /// The clock that timed it.
    pub clock: ClockSource,
}

/// The clock that timed a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClockSource {
    /// The processor's time-stamp counter, checked to be invariant and in use by the kernel itself.
    TimeStampCounter,
    /// `clock_gettime(CLOCK_MONOTONIC)`.
    Monotonic,
}

/// Everything one run yields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// In the order of the workload's phases; at least one.
    pub results: Vec<PhaseResult>,
    /// The actual settings of the arm, read back from the mounted filesystem and the device.
    pub facts: ArmFacts,
    /// The commands that made the arm, in order, as they were run.
    #[serde(deserialize_with = "crate::bounded::commands")]
    pub commands: Vec<String>,
    /// Duration of each stage of the run.
    pub stages: Vec<(Stage, Nanos)>,
    /// Space left on the filesystem after the load.
    pub space_left: Bytes,
    /// Raw output of a program: the beginning and the end of it, if it is long. None for a built-in load.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::bounded::output")]
    pub output: Option<String>,
}

/// Results of one phase, or one group of threads in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseResult {
    /// Its name; empty if it is the only one.
    pub name: String,
    /// Results of the engine, or one number of a program or an operation.
    pub reading: Reading,
    /// Counts of the kernel in the same time.
    #[serde(default, skip_serializing_if = "Counters::is_empty")]
    pub counters: Counters,
}

/// The reading of a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// Results of the engine; its throughput counts the [`Figure`].
    Load(Figure, Box<LoadResult>),
    /// One number.
    Value(Value),
}

/// One number with its meaning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// The number: positive and finite.
    pub value: f64,
    /// Its unit, such as `op/s`.
    pub unit: String,
    /// True if less is better.
    pub less_is_better: bool,
}

impl Measurement {
    /// The loads among its results, with their names.
    pub fn loads(&self) -> impl Iterator<Item = (&str, &LoadResult)> {
        self.results.iter().filter_map(|result| match &result.reading {
            Reading::Load(_, load) => Some((result.name.as_str(), &**load)),
            Reading::Value(_) => None,
        })
    }
}

words! {
    /// A stage of a run, in the order they happen.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Stage {
        /// Attaching the device and setting its queue.
        "attach" Attach,
        /// Restoring the prepared filesystem.
        "restore" Restore,
        /// Making the filesystem.
        "mkfs" Mkfs,
        /// Mounting it.
        "mount" Mount,
        /// Bringing it into its state.
        "prepare" Prepare,
        /// Laying out the files.
        "layout" Layout,
        /// Sync and drop caches.
        "settle" Settle,
        /// Warm-up and measured time.
        "load" Load,
        /// An engine's own check of the records that a load has left.
        "check" Check,
        /// Unmounting.
        "unmount" Unmount,
        /// The full check of the filesystem.
        "fsck" Fsck,
        /// Saving the filesystem that was prepared.
        "save" Save,
        /// Detaching the device.
        "detach" Detach,
    }
}
