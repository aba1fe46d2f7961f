//! The native form of a job file: what the load engine is told instead of starting fio.
//!
//! One [`NativeJob`] for each job of the file; jobs that run at once are the groups of a phase, `stonewall` begins
//! another. The fields have the names and meanings of a workload entry.

pub use crate::workload::{Backend, Layout, OpenSync};

use crate::units::{Bytes, Nanos, Percent};
use serde::Serialize;
use std::fmt;

/// A job file in native form.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NativeWorkload {
    /// What is done, one after the other.
    pub phases: Vec<NativePhase>,
}

/// Thread groups that start at one instant. With several groups all have the same warm-up and duration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NativePhase {
    /// The groups, at least one.
    pub groups: Vec<NativeJob>,
}

/// What the threads of one job do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NativeJob {
    /// The job's name.
    pub name: String,
    /// Where each request goes.
    pub access: Access,
    /// Which blocks are drawn how often, with random access.
    pub distribution: Distribution,
    /// With random access: every thread visits each block of its files once before any again.
    pub each_block_once: bool,
    /// Share of requests that read; each is drawn.
    pub reads: Percent,
    /// Size of one request.
    pub block_size: Bytes,
    /// Size of all files of all threads together.
    pub file_size: Bytes,
    /// Who uses which file.
    pub sharing: Sharing,
    /// Number of files; for each thread if they are not shared.
    pub files: u32,
    /// Past the page cache.
    pub direct: bool,
    /// How files are opened for writing.
    pub open_sync: OpenSync,
    /// How requests reach the kernel.
    pub backend: Backend,
    /// Requests in flight for each thread.
    pub depth: u16,
    /// A kernel thread fetches the requests.
    pub sqpoll: bool,
    /// Completions are polled.
    pub iopoll: bool,
    /// A sync call after this many writes of a thread; 0 is never.
    pub fsync_every: u32,
    /// Which sync call.
    pub fsync: SyncCall,
    /// With `amount`: a sync of every file at the end, inside the time.
    pub fsync_at_end: bool,
    /// What is in the files when the clock starts.
    pub layout: Layout,
    /// Requests offered by each thread.
    pub rate: Option<Rate>,
    /// Number of threads: the one level.
    pub threads: u16,
    /// Time before the clock starts.
    pub warmup: Nanos,
    /// Time measured; none with `amount`.
    pub duration: Option<Nanos>,
    /// Bytes that each thread transfers: the phase is done when all have.
    pub amount: Option<Bytes>,
    /// What is written.
    pub data: Data,
}

/// Where each request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Blocks that are drawn.
    Random,
    /// One block after the other.
    Sequential,
    /// Files start empty and are written once from start to end; then they are overwritten in the same order.
    Extend,
}

/// Which blocks are drawn how often.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// All alike.
    Uniform,
    /// Zipf's law with this exponent.
    Zipf(f64),
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Zipf(theta) => write!(f, "zipf:{theta}"),
        }
    }
}

impl Serialize for Distribution {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Who uses which file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// All threads use the whole of all files.
    Shared,
    /// Every thread has files of its own.
    PerThread,
    /// Every thread has an equal stretch of the shared file, in the order of the threads.
    Region,
}

/// Which sync call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SyncCall {
    /// `fsync`.
    Fsync,
    /// `fdatasync`.
    Fdatasync,
}

/// Requests offered by each thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Rate {
    /// Requests a second of one thread.
    pub per_second: u64,
    /// When they come.
    pub arrivals: Arrivals,
}

/// When offered requests come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// At equal distances.
    Constant,
    /// As a Poisson process.
    Poisson,
}

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Data {
    /// Zeros.
    Zero,
    /// Neither compressible nor repeated.
    Random,
    /// A share of each buffer that compresses away, and a share of repeated buffers, both in percent.
    Mixed {
        /// Share that compresses away.
        compressible: u8,
        /// Share of repeats.
        duplicates: u8,
    },
}

impl Backend {
    /// The name in a workload entry.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Vsync => "vsync",
            Self::Aio => "aio",
            Self::IoUring => "io_uring",
            Self::Mmap => "mmap",
        }
    }
}

impl NativeJob {
    /// The job in a line, for people.
    pub fn describe(&self) -> String {
        let mut parts = vec![match self.threads {
            1 => "1 thread".to_owned(),
            threads => format!("{threads} threads"),
        }];
        parts.push(self.requests());
        parts.push(self.places());
        parts.push(if self.direct { "direct" } else { "through the page cache" }.into());
        let polled = [(self.sqpoll, " sqpoll"), (self.iopoll, " iopoll")];
        let polled: String = polled.iter().filter(|(on, _)| *on).map(|(_, word)| *word).collect();
        parts.push(format!("{} depth {}{polled}", self.backend.name(), self.depth));
        if self.reads.0 < 100.0 {
            parts.extend(self.writing());
        }
        if let Some(rate) = self.rate {
            let arrivals = if rate.arrivals == Arrivals::Poisson { "Poisson" } else { "constant" };
            parts.push(format!("{}/s for each thread, {arrivals}", rate.per_second));
        }
        parts.push(self.end());
        parts.join(", ")
    }

    fn requests(&self) -> String {
        let access = match self.access {
            Access::Random => "random",
            Access::Sequential => "sequential",
            Access::Extend => "extending",
        };
        let kind = match self.reads.0 {
            0.0 => "writes".to_owned(),
            100.0 => "reads".to_owned(),
            _ => format!("requests, {} of them reads", self.reads),
        };
        let order = match self.access {
            Access::Random if self.each_block_once => ", each block once".to_owned(),
            Access::Random if self.distribution != Distribution::Uniform => {
                format!(", {}", self.distribution)
            }
            _ => String::new(),
        };
        format!("{access} {} {kind}{order}", self.block_size)
    }

    fn places(&self) -> String {
        let files = match self.files {
            1 => "1 file".to_owned(),
            files => format!("{files} files"),
        };
        let whose = match self.sharing {
            Sharing::Shared => "shared",
            Sharing::PerThread => "for each thread",
            Sharing::Region => "with a region for each thread",
        };
        let layout = match self.layout {
            Layout::Written => "written",
            Layout::Fallocated => "fallocated",
            Layout::Sparse => "sparse",
            Layout::Empty => "empty",
        };
        format!("{files} {whose} ({} in all, {layout})", self.file_size)
    }

    fn writing(&self) -> Vec<String> {
        let mut parts = Vec::new();
        match self.open_sync {
            OpenSync::None => {}
            OpenSync::Sync => parts.push("O_SYNC".into()),
            OpenSync::Dsync => parts.push("O_DSYNC".into()),
        }
        let call = match self.fsync {
            SyncCall::Fsync => "fsync",
            SyncCall::Fdatasync => "fdatasync",
        };
        if self.fsync_every > 0 {
            parts.push(format!("{call} every {}", self.fsync_every));
        }
        if self.fsync_at_end {
            parts.push(format!("{call} at the end"));
        }
        parts.push(match self.data {
            Data::Zero => "zeros".into(),
            Data::Random => "random data".into(),
            Data::Mixed { compressible, duplicates } => {
                format!("data {compressible}% compressible and {duplicates}% duplicates")
            }
        });
        parts
    }

    fn end(&self) -> String {
        let warmup = if self.warmup.0 > 0 { format!(" after {}", self.warmup) } else { String::new() };
        match (self.duration, self.amount) {
            (_, Some(amount)) => format!("until {amount} for each thread"),
            (Some(duration), None) => format!("{duration}{warmup}"),
            (None, None) => "without end".into(),
        }
    }
}
