//! A workload as a user writes it, and how it is settled.

use super::{Access, Backend, FileSet, Io, MetricEntry, Pattern, Sharing, Step, SyncCall, Workload};
use crate::units::{Bytes, Nanos, Percent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    /// `io`, `files` or `program`.
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
    /// program: the command that is measured, word by word, without a shell; `{dir}` and others are replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// program: commands before the clock starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prepare: Option<Vec<Vec<String>>>,
    /// program: commands after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<Vec<Vec<String>>>,
    /// program: a command whose first line tells its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Vec<String>>,
    /// program: the longest the command may take; 30m if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Nanos>,
    /// program: small texts that it is given as files, by name; `{input:NAME}` is the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<BTreeMap<String, String>>,
    /// program: words of your own that `{parameter:NAME}` stands for; those of a preset stay unless set again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<BTreeMap<String, String>>,
    /// program: the numbers that are picked from its output, 1 to 64.
    #[serde(rename = "metric", skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Vec<MetricEntry>>,
}

/// The kinds of workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Reads and writes inside files.
    Io,
    /// A set of small files.
    Files,
    /// A command that is run, and numbers from its output.
    Program,
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

pub(crate) fn entry_error(
    key: &'static str,
    problem: impl Into<String>,
    hint: impl Into<String>,
) -> EntryError {
    EntryError { key, problem: problem.into(), hint: Some(hint.into()) }
}

/// An entry with the fields of `own`, and those of `base` where `own` has none. Every field but `preset` is listed once.
macro_rules! overlay {
    ($own:ident, $base:ident; $($field:ident,)*) => {
        Self { preset: None, $($field: $own.$field.or($base.$field),)* }
    };
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
        let mut own = self.clone();
        if let (Some(own), Some(base)) = (&mut own.parameters, &base.parameters) {
            for (name, word) in base {
                own.entry(name.clone()).or_insert_with(|| word.clone());
            }
        }
        Ok(overlay!(own, base;
            name,
            about,
            kind,
            threads,
            warmup,
            duration,
            access,
            reads,
            block_size,
            file_size,
            files,
            sharing,
            direct,
            backend,
            depth,
            fsync_every,
            fsync,
            steps,
            command,
            prepare,
            cleanup,
            version,
            deadline,
            inputs,
            parameters,
            metrics,
        ))
    }

    /// Settles every field. `cpus` decides the default levels: 1 and all of them.
    ///
    /// # Errors
    /// The key at fault, what is wrong with it and what to try.
    pub fn resolve(&self, cpus: u16) -> Result<Workload, EntryError> {
        let full = self.over_preset()?;
        if full.kind != Some(Kind::Program) {
            full.no_program()?;
        }
        let pattern = match full.kind {
            Some(Kind::Io) => Pattern::Io(full.io()?),
            Some(Kind::Files) => Pattern::Files(full.file_set()?),
            Some(Kind::Program) => {
                full.program()?;
                return Err(entry_error(
                    "kind",
                    "a program cannot be a pattern of the engine",
                    "use kind = \"io\" or \"files\"",
                ));
            }
            None => {
                return Err(entry_error(
                    "kind",
                    "the workload says neither `use` nor `kind`",
                    "write use = \"random-write\", or kind = \"io\", \"files\" or \"program\" and its fields",
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
        let fallback = Io::default();
        let io = Io {
            access: self.access.unwrap_or(fallback.access),
            reads: self.reads.unwrap_or(fallback.reads),
            block_size: self.block_size.unwrap_or(fallback.block_size),
            total_size: self.file_size.unwrap_or(fallback.total_size),
            sharing: self.sharing.unwrap_or(fallback.sharing),
            files: self.files.unwrap_or(fallback.files),
            direct: self.direct.unwrap_or(fallback.direct),
            backend: self.backend.unwrap_or(fallback.backend),
            depth: self.depth.unwrap_or(fallback.depth),
            fsync_every: self.fsync_every.unwrap_or(fallback.fsync_every),
            fsync: self.fsync.unwrap_or(fallback.fsync),
        };
        io.check().map(|()| io)
    }

    fn file_set(&self) -> Result<FileSet, EntryError> {
        let wrong = [
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
