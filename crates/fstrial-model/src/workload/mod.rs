//! Work on the filesystem: the patterns of a workload, the entry a user writes, and the shipped presets.
//!
//! An entry in a trial file names a preset (`use = "random-write"`) and changes some of its fields, or writes all
//! fields out. [`Entry::resolve`] turns it into a [`Workload`] in which nothing is left to guess.

mod behaviour;
mod clients;
mod combination;
mod command;
mod data;
mod distribution;
mod entry;
mod entry_error;
mod files;
mod flow;
mod flow_step;
mod flush;
mod input;
mod io;
mod keys;
mod log;
pub mod metric;
mod operation;
mod phase;
mod postmark;
pub mod preset;
pub mod program;
mod rate;
mod server;
mod set_name;
mod settle;
mod summary;
mod written;
mod ycsb;

pub use behaviour::Behaviour;
pub use combination::Conflict;
pub use data::{Data, DataKind};
pub use distribution::{Distribution, Extent, Zone};
pub use entry::Entry;
pub use entry_error::EntryError;
pub use files::{FileSet, FileStep};
pub use flow::{FileTree, Flow, Names, Order, Size};
pub use flow_step::{FlowStep, FlowStepError, OpenFile, StepFile};
pub use flush::Flush;
pub use input::{ContentDigest, Input, InputFile};
pub use io::{Access, Backend, FsyncCounts, Io, Layout, Mix, OpenSync, Serialise, Sharing, SyncCall};
pub use log::Log;
pub use metric::{Better, MetricEntry, MetricRule};
pub use operation::{Operation, TREE, TimedOperation, TreeEntry, WRITTEN};
pub use phase::{Figure, Group, Phase, RateTarget, ResultKind, Until, comparable};
pub use postmark::{Postmark, PostmarkPart};
pub use program::Program;
pub use rate::{Arrivals, Rate};
pub use server::{Promises, Server, ServerEntry, StopSignal};
pub use set_name::SetName;
pub(crate) use settle::DURATIONS;
pub use summary::Durability;
pub use ycsb::{CoreWorkload, FIELD_BYTES, FIELDS, HELPERS, KeyValueEngine, Proportions, Ycsb};

use crate::units::{Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, ops::Deref};

/// A workload with every field settled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Name in tables.
    pub name: String,
    /// Load, program or operation, with all settings.
    #[serde(flatten)]
    pub work: Work,
    /// The levels: numbers of threads, ascending, without repeats.
    pub threads: Vec<u16>,
    /// Interval of its longest cycle, such as writing a checkpoint, if it has one. A run needs two of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Nanos>,
}

/// The work, and its performer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Work {
    /// Our own load generator's: phases in order; at least one, and at least one that is measured.
    #[serde(rename = "phases")]
    Load(Vec<Phase>),
    /// The duration of a program.
    #[serde(rename = "program")]
    Program(Box<TimedProgram>),
    /// An operation of the filesystem.
    #[serde(rename = "operation")]
    Operation(TimedOperation),
}

/// Runs that are shorter than two periods of their workload: they may see only one part of its cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooShort {
    /// The measured time that is too short.
    pub duration: Nanos,
    /// Interval of the workload's cycle.
    pub period: Nanos,
    /// Two periods.
    pub least: Nanos,
}

/// A program, and its requested measuring time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimedProgram {
    /// Commands to run; `{duration}` is not filled in yet.
    pub program: Program,
    /// Value of `{duration}`.
    pub duration: Nanos,
}

impl Workload {
    /// True for the built-in load generator: not a program, nor an operation of a filesystem's tools.
    pub const fn is_load(&self) -> bool {
        matches!(self.work, Work::Load(_))
    }

    /// The phases of a load; empty of anything else.
    pub fn phases(&self) -> &[Phase] {
        match &self.work {
            Work::Load(phases) => phases,
            Work::Program(_) | Work::Operation(_) => &[],
        }
    }

    /// The program that has to run it in place of fstrial itself: that of an engine.
    pub fn helper(&self) -> Option<&'static str> {
        let mut groups = self.phases().iter().flat_map(|phase| &phase.groups);
        groups.find_map(|group| group.pattern.helper())
    }

    /// Identity of data that can be loaded before a trial begins, the same text for the same content; none without such
    /// data, or if they are loaded under the clock.
    pub fn loaded(&self, threads: u16) -> Option<String> {
        if let Some(timed) = self.program() {
            return timed.program.loaded(threads, timed.duration);
        }
        let groups = &self.phases().first()?.groups;
        let is_first = |group: &Group| groups.iter().any(|first| first.set == group.set);
        let mut later = self.phases().iter().flat_map(|phase| &phase.groups);
        if later.any(|group| group.pattern.loaded().is_some() && !is_first(group)) {
            return None;
        }
        let all: Option<Vec<String>> = groups
            .iter()
            .map(|group| Some(format!("{} {} {:?}", group.set.as_str(), group.pattern.loaded()?, group.data)))
            .collect();
        Some(all?.join(", "))
    }

    /// The program that does it.
    pub fn program(&self) -> Option<&TimedProgram> {
        match &self.work {
            Work::Program(program) => Some(program),
            Work::Load(_) | Work::Operation(_) => None,
        }
    }

    /// The operation of the filesystem that it is.
    pub const fn operation(&self) -> Option<&TimedOperation> {
        match &self.work {
            Work::Operation(operation) => Some(operation),
            Work::Load(_) | Work::Program(_) => None,
        }
    }

    /// Results of a run, in order: one for each measured phase and group of threads in it, or for each metric of a
    /// program or number of an operation.
    pub fn results(&self) -> impl Iterator<Item = ResultKind> {
        let metrics =
            self.program().into_iter().flat_map(|program| &program.program.metrics).map(MetricRule::result);
        let operation = self.operation().into_iter().flat_map(|timed| timed.operation.results());
        self.phases().iter().flat_map(Phase::results).chain(metrics).chain(operation)
    }

    /// The phase of each result; none for those of a program or an operation.
    pub fn phase_of(&self, result: usize) -> Option<&Phase> {
        self.phases().iter().flat_map(|phase| phase.results().map(move |_| phase)).nth(result)
    }

    /// The records that its first group works on, and their engine; none of other workloads.
    pub fn ycsb(&self) -> Option<&Ycsb> {
        match &self.phases().first()?.groups.first()?.pattern {
            Pattern::Ycsb(ycsb) => Some(ycsb),
            _ => None,
        }
    }

    /// True if any measured phase leaves writeback to the page cache, so that short runs are not representative.
    pub fn is_buffered_write(&self) -> bool {
        let mut patterns = self.phases().iter().filter(|phase| phase.measured).flat_map(Phase::patterns);
        patterns.any(|pattern| pattern.is_buffered_write())
    }

    /// Cycles that its runs are too short for, with less than two periods.
    pub fn too_short(&self) -> impl Iterator<Item = TooShort> {
        let phases = self.phases().iter().filter(|phase| phase.measured && phase.until == Until::Time);
        let of_phases = phases.map(|phase| (phase.duration, self.period.or(phase.period())));
        let of_program = self.program().into_iter().map(|program| (program.duration, self.period));
        of_phases.chain(of_program).filter_map(|(duration, period)| {
            let least = Nanos(period?.0.saturating_mul(2));
            (duration < least).then_some(TooShort { duration, period: period?, least })
        })
    }

    /// The worst of [`Workload::too_short`].
    pub fn shorter_than_its_clock(&self) -> Option<TooShort> {
        self.too_short().max_by_key(|short| short.least)
    }

    /// Its longest cycle: as declared, or that of its flushes. None without a known one.
    pub fn longest_period(&self) -> Option<Nanos> {
        self.period.or_else(|| self.phases().iter().filter_map(Phase::period).max())
    }

    /// Bytes that all its files take at a level, without the filesystem's own needs.
    pub fn space_needed(&self, threads: u16) -> Bytes {
        let groups = self.phases().iter().flat_map(|phase| &phase.groups);
        let needs =
            groups.map(|group| (group.set.as_str(), group.pattern.space_needed(group.workers(threads))));
        let program = self.program().and_then(|timed| timed.program.file_size);
        let operation = self.operation().map(|timed| ("", timed.space_needed(threads)));
        space_of_sets(needs.chain(program.map(|file_size| ("", file_size))).chain(operation))
    }

    /// [`Workload::space_needed`] at its highest level.
    pub fn most_space_needed(&self) -> Bytes {
        self.space_needed(self.threads.iter().copied().max().unwrap_or(1))
    }

    /// Warm-up and measured time of all phases: at least this long does a run take.
    pub fn time(&self) -> Nanos {
        // A search for a rate measures about a dozen of them.
        let times = |phase: &Phase| if phase.find_rate.is_some() { 12 } else { 1 };
        let time =
            |phase: &Phase| phase.warmup.0.saturating_add(phase.duration.0).saturating_mul(times(phase));
        // How long a phase takes that runs until it is done is not known before it ran.
        let timed = self.phases().iter().filter(|phase| phase.until == Until::Time);
        let program = self.program().map_or(0, |program| program.duration.0);
        Nanos(timed.fold(program, |sum, phase| sum.saturating_add(time(phase))))
    }
}

/// Bytes of sets of files, each named as often as it is used: the most that any use of it needs counts.
pub(crate) fn space_of_sets<'a>(needs: impl Iterator<Item = (&'a str, Bytes)>) -> Bytes {
    let mut sets: BTreeMap<&str, u64> = BTreeMap::new();
    for (set, needed) in needs {
        let most = sets.entry(set).or_default();
        *most = needed.0.max(*most);
    }
    Bytes(sets.values().fold(0, |sum, bytes| sum.saturating_add(*bytes)))
}

/// Makes the kinds of workload and the patterns from one row for each pattern: its word in files, its settings, and its
/// entry keys. This is the only list of them in the crate.
macro_rules! patterns {
    ($($(#[$doc:meta])* $word:literal $name:ident($settings:ty) has $keys:literal,)*) => {
        /// Work of every thread of a workload. Its properties are those of its settings: see [`Behaviour`].
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind")]
        pub enum Pattern {
            $($(#[$doc])* #[serde(rename = $word)] $name($settings),)*
        }

        impl Deref for Pattern {
            type Target = dyn Behaviour;

            fn deref(&self) -> &Self::Target {
                match self {
                    $(Self::$name(settings) => settings,)*
                }
            }
        }

        /// The kinds of workload.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub enum Kind {
            $($(#[$doc])* #[serde(rename = $word)] $name,)*
            /// A command that is run, and numbers from its output.
            #[serde(rename = "program")]
            Program,
            /// Something that is done to the filesystem itself.
            #[serde(rename = "operation")]
            Operation,
        }

        impl Kind {
            /// Those that threads do.
            const PATTERNS: &[Self] = &[$(Self::$name),*];
            /// Kinds whose files the engine writes.
            const WITH_FILES: &[Self] = &[$(Self::$name,)* Self::Operation];

            /// The word in files.
            const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                    Self::Program => "program",
                    Self::Operation => "operation",
                }
            }

            /// The keys that it is written with, for errors.
            const fn keys(self) -> &'static str {
                match self {
                    $(Self::$name => $keys,)*
                    Self::Program => "command and [[metric]]",
                    Self::Operation => "operation, tree and repeat",
                }
            }
        }
    };
}

patterns! {
    /// Reads and writes inside files.
    "io" Io(Io) has "access, reads, block_size, file_size and more",
    /// A set of small files.
    "files" Files(FileSet) has "files, file_size and steps",
    /// Programs over sets of files.
    "flow" Flow(Flow) has "sets, steps and turns",
    /// PostMark.
    "postmark" Postmark(Postmark) has "a table [postmark], and part",
    /// A log that all threads commit to.
    "log" Log(Log) has "a table [log]",
    /// A database's page flusher.
    "flush" Flush(Flush) has "a table [flush]",
    /// A core workload of YCSB.
    "ycsb" Ycsb(Ycsb) has "a table [ycsb]",
}
