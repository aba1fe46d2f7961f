//! What is done to the filesystem: the patterns of a workload, the entry a user writes, and the presets that ship.
//!
//! An entry in a trial file names a preset (`use = "random-write"`) and changes some of its fields, or writes all
//! fields out. [`Entry::resolve`] turns it into a [`Workload`] in which nothing is left to guess.

mod entry;
mod files;
mod flow;
mod flow_step;
mod flush;
mod io;
mod log;
mod postmark;

pub use entry::{Entry, EntryError, Kind};
pub use files::{FileSet, Step};
pub use flow::{FileTree, Flow, Names, Order, Size};
pub use flow_step::{FlowStep, FlowStepError, OpenFile, Target};
pub use flush::Flush;
pub use io::{Access, Backend, Io, Sharing, SyncCall};
pub use log::Log;
pub use postmark::{Postmark, PostmarkPart};

use crate::units::{Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A workload with every field settled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// What it is called in tables.
    pub name: String,
    /// What every thread does.
    pub pattern: Pattern,
    /// The levels: numbers of threads, ascending, without repeats.
    pub threads: Vec<u16>,
    /// Time that runs before the clock starts.
    pub warmup: Nanos,
    /// Time measured.
    pub duration: Nanos,
}

/// What every thread of a workload does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Pattern {
    /// Reads and writes inside files laid out beforehand (or the bare device).
    Io(Io),
    /// A working set of many small files that are made, written, read and deleted.
    Files(FileSet),
    /// A program over sets of files.
    Flow(Flow),
    /// PostMark.
    Postmark(Postmark),
    /// A write-ahead log with many committers.
    Log(Log),
    /// A database's page flusher.
    Flush(Flush),
}

/// What the files hold. The device has a say: a compressing ramdisk is only fast with [`Data::RepeatedWord`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Data {
    /// Bytes from a generator: cannot be compressed or deduplicated.
    Random,
    /// All zero.
    Zero,
    /// One 8-byte word over and over.
    RepeatedWord,
}

impl Pattern {
    /// Whether writes go through the page cache without a sync call, so that write-back is part of what is measured.
    pub fn is_buffered_write(&self) -> bool {
        match self {
            Self::Io(io) => !io.direct && io.reads.0 < 100.0 && io.fsync_every == 0,
            Self::Files(set) => set.steps.contains(&Step::Write) && !set.steps.contains(&Step::Fsync),
            Self::Flow(flow) => flow.is_buffered_write(),
            Self::Postmark(_) => true,
            Self::Log(_) | Self::Flush(_) => false,
        }
    }

    /// Bytes the laid-out files take for `threads` threads, without the filesystem's own needs.
    pub fn space_needed(&self, threads: u16) -> Bytes {
        match self {
            Self::Io(io) => io.total_size,
            // A small file takes at least one block of 4 KiB, and an inode.
            Self::Files(set) => {
                let each = set.file_size.0.div_ceil(4096) * 4096 + 1024;
                Bytes(u64::from(set.files) * u64::from(threads) * each * 2)
            }
            Self::Flow(flow) => flow.space_needed(threads),
            Self::Postmark(postmark) => postmark.space_needed(threads),
            Self::Log(log) => log.space_needed(),
            Self::Flush(flush) => flush.space_needed(threads),
        }
    }
}
