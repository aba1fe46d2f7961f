//! What is done to the filesystem: the patterns of a workload, the entry a user writes, and the presets that ship.
//!
//! An entry in a trial file names a preset (`use = "random-write"`) and changes some of its fields, or writes all
//! fields out. [`Entry::resolve`] turns it into a [`Workload`] in which nothing is left to guess.

use crate::units::{Bytes, Nanos, Percent};
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
}

/// Reads and writes inside files laid out before the clock starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Io {
    /// Where each request goes.
    pub access: Access,
    /// Share of requests that read; the others write.
    pub reads: Percent,
    /// Size of one request.
    pub block_size: Bytes,
    /// Size of all files together.
    pub total_size: Bytes,
    /// Who uses which file.
    pub sharing: Sharing,
    /// Number of files. With [`Sharing::PerThread`] it is the number for each thread.
    pub files: u32,
    /// `O_DIRECT`: past the page cache.
    pub direct: bool,
    /// How requests reach the kernel.
    pub backend: Backend,
    /// Requests each thread keeps in flight (1 for [`Backend::Sync`]).
    pub depth: u16,
    /// A sync call after this many writes of a thread; 0 means never.
    pub fsync_every: u32,
    /// Which sync call.
    pub fsync: SyncCall,
}

/// Where each request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Uniformly random blocks.
    Random,
    /// One block after the other, from the start again at the end.
    Sequential,
    /// Every write extends the file; at its full size the file is cut to nothing and grows again.
    Append,
}

/// Who uses which file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// All threads use all files.
    Shared,
    /// Every thread has files of its own.
    PerThread,
}

/// How requests reach the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// `pread` and `pwrite`.
    Sync,
    /// An `io_uring` for each thread.
    IoUring,
}

/// Which sync call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SyncCall {
    /// `fsync`.
    Fsync,
    /// `fdatasync`.
    Fdatasync,
}

/// A working set of small files. Each thread has a directory and a ring of files in it; one operation is one turn
/// of the ring: the [`steps`](Self::steps), in order. `create` makes the newest file, `delete` removes the oldest,
/// `read` and `stat` take one at random, so the set keeps its size for as long as a run lasts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileSet {
    /// Files in each thread's ring, laid out before the clock starts.
    pub files: u32,
    /// Bytes in each file.
    pub file_size: Bytes,
    /// What one turn does.
    pub steps: Vec<Step>,
}

/// One step of a turn over a [`FileSet`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Make the newest file and leave it open.
    Create,
    /// Write the whole of the newest file.
    Write,
    /// Sync the newest file.
    Fsync,
    /// Open, read and close a random file.
    Read,
    /// Look at a random file's attributes.
    Stat,
    /// Delete the oldest file.
    Delete,
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
        }
    }
}

/// A workload as a user writes it: a preset's name with changes, or all fields.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The preset to start from; `fstrial workloads` lists them.
    #[serde(rename = "use", skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// What it is called in tables; the preset's name if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// One line on what it models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// `io` or `files`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Numbers of threads to run it at: 1 to 1024.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<Vec<u16>>,
    /// Time before the clock starts: 0.25s for direct and synced workloads, 2s for buffered writes if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<Nanos>,
    /// Time measured: 1s for direct and synced workloads, 10s for buffered writes if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Nanos>,
    /// io: random, sequential or append.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// io: share of requests that read, "0%" to "100%".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<Percent>,
    /// io: size of one request, a multiple of 512 for direct.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_size: Option<Bytes>,
    /// io: size of all files together. files: size of each file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_size: Option<Bytes>,
    /// io: number of files. files: number in each thread's ring.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<u32>,
    /// io: shared or per-thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sharing: Option<Sharing>,
    /// io: past the page cache (`O_DIRECT`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direct: Option<bool>,
    /// io: `sync` or `io_uring`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<Backend>,
    /// io: requests in flight for each thread; more than 1 needs `io_uring`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u16>,
    /// io: a sync call after this many writes of a thread; 0 is never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fsync_every: Option<u32>,
    /// io: `fsync` or `fdatasync`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fsync: Option<SyncCall>,
    /// files: what one operation does, in order: create, write, fsync, read, stat, delete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<Step>>,
}

/// The two kinds of [`Pattern`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Reads and writes inside files.
    Io,
    /// A set of small files.
    Files,
}

/// A workload entry that does not describe a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryError {
    /// The key at fault.
    pub key: &'static str,
    /// What is wrong.
    pub problem: String,
    /// What to try.
    pub hint: Option<String>,
}

fn entry_error(key: &'static str, problem: impl Into<String>, hint: impl Into<String>) -> EntryError {
    EntryError { key, problem: problem.into(), hint: Some(hint.into()) }
}

impl Entry {
    /// An entry that uses a preset unchanged.
    pub fn of_preset(name: &str) -> Self {
        Self { preset: Some(name.to_owned()), ..Self::default() }
    }

    /// Lays this entry's fields over the preset it names.
    fn over_preset(&self) -> Result<Self, EntryError> {
        let Some(name) = &self.preset else { return Ok(self.clone()) };
        let base = crate::preset::preset(name).ok_or_else(|| {
            entry_error(
                "use",
                format!("there is no workload `{name}`"),
                crate::preset::hint_for_unknown(name),
            )
        })?;
        let own = self.clone();
        Ok(Self {
            preset: None,
            name: own.name.or(base.name),
            about: own.about.or(base.about),
            kind: own.kind.or(base.kind),
            threads: own.threads.or(base.threads),
            warmup: own.warmup.or(base.warmup),
            duration: own.duration.or(base.duration),
            access: own.access.or(base.access),
            reads: own.reads.or(base.reads),
            block_size: own.block_size.or(base.block_size),
            file_size: own.file_size.or(base.file_size),
            files: own.files.or(base.files),
            sharing: own.sharing.or(base.sharing),
            direct: own.direct.or(base.direct),
            backend: own.backend.or(base.backend),
            depth: own.depth.or(base.depth),
            fsync_every: own.fsync_every.or(base.fsync_every),
            fsync: own.fsync.or(base.fsync),
            steps: own.steps.or(base.steps),
        })
    }

    /// Settles every field. `cpus` decides the default levels: 1 and all of them.
    ///
    /// # Errors
    /// The key at fault, what is wrong with it and what to try.
    pub fn resolve(&self, cpus: u16) -> Result<Workload, EntryError> {
        let full = self.over_preset()?;
        let pattern = match full.kind {
            Some(Kind::Io) => Pattern::Io(full.io()?),
            Some(Kind::Files) => Pattern::Files(full.file_set()?),
            None => {
                return Err(entry_error(
                    "kind",
                    "the workload says neither `use` nor `kind`",
                    "write use = \"random-write\", or kind = \"io\" or \"files\" and its fields",
                ));
            }
        };
        let mut threads = full.threads.clone().unwrap_or_else(|| vec![1, cpus.max(1)]);
        threads.sort_unstable();
        threads.dedup();
        if threads.is_empty() || threads[0] == 0 || threads[threads.len() - 1] > 1024 {
            return Err(entry_error(
                "threads",
                "numbers of threads must lie between 1 and 1024",
                "write threads = [1, 4, 16]",
            ));
        }
        let slow = pattern.is_buffered_write();
        let duration = full.duration.unwrap_or(if slow { Nanos::secs(10) } else { Nanos::secs(1) });
        let warmup = full.warmup.unwrap_or(if slow { Nanos::secs(2) } else { Nanos::millis(250) });
        if !(Nanos::millis(50)..=Nanos::secs(86_400)).contains(&duration) {
            return Err(entry_error(
                "duration",
                "a measured time must lie between 50ms and 1d",
                "use 50ms to 1d, such as 1s",
            ));
        }
        if warmup > Nanos::secs(86_400) {
            return Err(entry_error("warmup", "a warm-up of more than a day", "use 0s to 1d, such as 250ms"));
        }
        let name = full.name.clone().unwrap_or_else(|| "workload".into());
        if name.is_empty() || name.len() > 60 || name.contains(['\n', '\t', '@']) {
            return Err(entry_error(
                "name",
                format!("`{name}` is no good as a name"),
                "use 1 to 60 characters without @",
            ));
        }
        Ok(Workload { name, pattern, threads, warmup, duration })
    }

    /// The entry with the preset's fields and the default levels written out: it means the same on another machine and
    /// with another version's presets.
    ///
    /// # Errors
    /// There is no such preset.
    pub fn settled(&self, cpus: u16) -> Result<Self, EntryError> {
        let threads = self.resolve(cpus)?.threads;
        Ok(Self { threads: Some(threads), ..self.over_preset()? })
    }

    fn io(&self) -> Result<Io, EntryError> {
        if self.steps.is_some() {
            return Err(entry_error(
                "steps",
                "`steps` belongs to kind = \"files\"",
                "use access, reads and block_size for kind = \"io\"",
            ));
        }
        let io = Io {
            access: self.access.unwrap_or(Access::Random),
            reads: self.reads.unwrap_or(Percent(0.0)),
            block_size: self.block_size.unwrap_or(Bytes::kib(16)),
            total_size: self.file_size.unwrap_or(Bytes::mib(256)),
            sharing: self.sharing.unwrap_or(Sharing::Shared),
            files: self.files.unwrap_or(1),
            direct: self.direct.unwrap_or(false),
            backend: self.backend.unwrap_or(Backend::Sync),
            depth: self.depth.unwrap_or(1),
            fsync_every: self.fsync_every.unwrap_or(0),
            fsync: self.fsync.unwrap_or(SyncCall::Fdatasync),
        };
        io.check().map(|()| io)
    }

    fn file_set(&self) -> Result<FileSet, EntryError> {
        let wrong: [(&'static str, bool); 9] = [
            ("access", self.access.is_some()),
            ("reads", self.reads.is_some()),
            ("block_size", self.block_size.is_some()),
            ("sharing", self.sharing.is_some()),
            ("direct", self.direct.is_some()),
            ("backend", self.backend.is_some()),
            ("depth", self.depth.is_some()),
            ("fsync_every", self.fsync_every.is_some()),
            ("fsync", self.fsync.is_some()),
        ];
        if let Some((key, _)) = wrong.iter().find(|(_, present)| *present) {
            return Err(entry_error(
                key,
                format!("`{key}` belongs to kind = \"io\""),
                "kind = \"files\" has files, file_size and steps",
            ));
        }
        let set = FileSet {
            files: self.files.unwrap_or(200),
            file_size: self.file_size.unwrap_or(Bytes::kib(4)),
            steps: self.steps.clone().unwrap_or_else(|| vec![Step::Create, Step::Write, Step::Delete]),
        };
        set.check().map(|()| set)
    }
}

impl Io {
    /// Bytes of each file when every thread has files of its own; none if files are shared.
    pub fn smallest_file(&self, threads: u16) -> Option<u64> {
        (self.sharing == Sharing::PerThread)
            .then(|| self.total_size.0 / (u64::from(self.files) * u64::from(threads)))
    }

    /// Refuses combinations that cannot be run anywhere.
    fn check(&self) -> Result<(), EntryError> {
        let block = self.block_size.0;
        if !(512..=Bytes::mib(64).0).contains(&block) {
            return Err(entry_error(
                "block_size",
                format!("a request of {}", self.block_size),
                "use 512 bytes to 64MiB",
            ));
        }
        if self.direct && !block.is_multiple_of(512) {
            return Err(entry_error(
                "block_size",
                format!("direct I/O in requests of {}", self.block_size),
                "use a multiple of 512 bytes, or direct = false",
            ));
        }
        if !(1..=100_000).contains(&self.files) {
            return Err(entry_error("files", format!("{} files", self.files), "use 1 to 100000"));
        }
        if self.total_size.0 / u64::from(self.files) < block {
            return Err(entry_error(
                "file_size",
                "a file would be smaller than one request",
                "raise file_size, or lower files or block_size",
            ));
        }
        if !(1..=1024).contains(&self.depth) {
            return Err(entry_error("depth", format!("a depth of {}", self.depth), "use 1 to 1024"));
        }
        if self.depth > 1 && self.backend == Backend::Sync {
            return Err(entry_error(
                "depth",
                "system calls have one request in flight for each thread",
                "use backend = \"io_uring\" for more, or depth = 1",
            ));
        }
        if self.access == Access::Append {
            if self.reads.0 > 0.0 {
                return Err(entry_error(
                    "reads",
                    "appending workloads only write",
                    "leave reads out, or use access = \"sequential\"",
                ));
            }
            if self.sharing == Sharing::Shared {
                return Err(entry_error(
                    "sharing",
                    "appending to a shared file is not offered",
                    "use sharing = \"per-thread\"",
                ));
            }
        }
        Ok(())
    }
}

impl FileSet {
    /// Refuses sets that cannot be run anywhere.
    fn check(&self) -> Result<(), EntryError> {
        let position = |step: Step| self.steps.iter().position(|s| *s == step);
        let create = position(Step::Create);
        if self.steps.is_empty() || self.steps.len() > 32 {
            return Err(entry_error(
                "steps",
                "an operation has 1 to 32 steps",
                "write steps = [\"create\", \"write\", \"delete\"]",
            ));
        }
        if !(1..=10_000_000).contains(&self.files) {
            return Err(entry_error("files", format!("{} files", self.files), "use 1 to 10000000"));
        }
        if self.file_size > Bytes::gib(1) {
            return Err(entry_error(
                "file_size",
                format!("files of {}", self.file_size),
                "a file set is for small files: at most 1GiB each",
            ));
        }
        for step in [Step::Write, Step::Fsync] {
            if position(step).is_some_and(|at| create.is_none_or(|made| made > at)) {
                return Err(entry_error(
                    "steps",
                    "`write` and `fsync` work on the file that `create` made",
                    "put \"create\" before them",
                ));
            }
        }
        let count = |step: Step| self.steps.iter().filter(|s| **s == step).count();
        if count(Step::Create) > 1 || count(Step::Delete) > 1 {
            return Err(entry_error(
                "steps",
                "a turn makes and deletes at most one file",
                "name create and delete once",
            ));
        }
        if position(Step::Delete).is_some() && create.is_none() {
            return Err(entry_error(
                "steps",
                "deleting without making would empty the set",
                "add \"create\" as the first step",
            ));
        }
        Ok(())
    }
}
