//! A workload as a user writes it, and how it is settled.

use super::{
    Access, Backend, Data, DataKind, Distribution, FileSet, Io, Mix, Pattern, Rate, Sharing, Step, SyncCall,
    Workload,
};
use crate::units::{Bytes, Nanos, Percent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// Operations offered in a second to all threads together, "5000/s" or "5000/s poisson"; left out, a thread makes
    /// its next request when one has completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// What the files hold: random, zero, repeated-word or mixed; what suits the device if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<DataKind>,
    /// Mixed data: share that compresses away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compressible: Option<Percent>,
    /// Mixed data: share of blocks that repeat another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicates: Option<Percent>,
    /// io: random, sequential, strided, append or extend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// io, strided: distance between the starts of consecutive requests, a multiple of the block size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stride: Option<Bytes>,
    /// io, random: how often each block is drawn, "uniform", "zipf:0.99", "pareto:0.2", "normal:12", "special",
    /// "hotspot:0.2,0.8" or "latest:0.99".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distribution: Option<Distribution>,
    /// io, random: every block once in a lap of a thread, in random order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub each_block_once: Option<bool>,
    /// io: share of requests that read, "0%" to "100%".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<Percent>,
    /// io: share of reads followed by a write of the same block, as one operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<Percent>,
    /// io: which requests read, drawn or by ratio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mix: Option<Mix>,
    /// io: size of one request, a multiple of 512 for direct.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_size: Option<Bytes>,
    /// io: size of all files together. files: size of each file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_size: Option<Bytes>,
    /// io: number of files. files: number in each thread's ring.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<u32>,
    /// io: shared, region or per-thread.
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
        let own = self.clone();
        Ok(overlay!(own, base;
            name,
            about,
            kind,
            threads,
            warmup,
            duration,
            rate,
            data,
            compressible,
            duplicates,
            access,
            stride,
            distribution,
            each_block_once,
            reads,
            update,
            mix,
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
        ))
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
        let data = Data::of_entry(full.data, full.compressible, full.duplicates)?;
        Ok(Workload { name, pattern, threads, warmup, duration, data, rate: full.rate })
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
            stride: self.stride,
            distribution: self.distribution.unwrap_or(fallback.distribution),
            each_block_once: self.each_block_once.unwrap_or(fallback.each_block_once),
            reads: self.reads.unwrap_or(fallback.reads),
            update: self.update.unwrap_or(fallback.update),
            mix: self.mix.unwrap_or(fallback.mix),
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
            ("stride", self.stride.is_some()),
            ("distribution", self.distribution.is_some()),
            ("each_block_once", self.each_block_once.is_some()),
            ("reads", self.reads.is_some()),
            ("update", self.update.is_some()),
            ("mix", self.mix.is_some()),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(text: &str) -> Result<Workload, EntryError> {
        toml::from_str::<Entry>(text).unwrap().resolve(2)
    }

    #[test]
    fn the_tools_workloads_can_be_written() {
        for (text, check) in [
            (
                "kind = 'io'\naccess = 'strided'\nstride = '1MiB'\ndirect = true",
                (|io| io.stride == Some(Bytes::mib(1))) as fn(&Io) -> bool,
            ),
            ("use = 'random-read'\ndistribution = 'zipf'", |io| {
                io.distribution == Distribution::Zipf { theta: 0.99 }
            }),
            ("use = 'random-write'\neach_block_once = true", |io| io.each_block_once),
            ("use = 'sequential-write'\nsharing = 'region'", |io| io.sharing == Sharing::Region),
            ("use = 'sequential-read'\nupdate = '100%'", |io| io.writes() && io.reads == Percent(100.0)),
            ("use = 'random-mixed'\nmix = 'ratio'\nreads = '60%'", |io| io.mix == Mix::Ratio),
            ("use = 'append-fsync'\naccess = 'extend'", |io| io.access == Access::Extend),
        ] {
            let workload = resolve(text).unwrap_or_else(|e| panic!("{text}: {}", e.problem));
            let Pattern::Io(io) = &workload.pattern else { panic!("{text}: io") };
            assert!(check(io), "{text}: {io:?}");
            let stored = serde_json::to_string(&workload).unwrap();
            assert_eq!(serde_json::from_str::<Workload>(&stored).unwrap(), workload);
        }
    }

    #[test]
    fn data_and_rate_belong_to_both_kinds() {
        for preset in ["random-write", "create-files"] {
            let plain = resolve(&format!("use = '{preset}'")).unwrap();
            assert_eq!((plain.data, plain.rate), (None, None));
            let text = format!("use = '{preset}'\ndata = 'mixed'\nduplicates = '20%'\nrate = '50/s poisson'");
            let workload = resolve(&text).unwrap();
            let mixed = Data::Mixed { compressible: Percent(0.0), duplicate: Percent(20.0) };
            assert_eq!(workload.data, Some(mixed));
            assert_eq!(workload.rate.unwrap().to_string(), "50/s poisson");
            let stored = serde_json::to_string(&workload).unwrap();
            assert_eq!(serde_json::from_str::<Workload>(&stored).unwrap(), workload);
        }
    }

    #[test]
    fn keys_of_something_else_are_refused() {
        for (text, key) in [
            ("use = 'random-write'\ncompressible = '10%'", "compressible"),
            ("use = 'random-write'\ndata = 'zero'\nduplicates = '10%'", "duplicates"),
            ("use = 'random-write'\ndata = 'mixed'", "data"),
            ("use = 'create-files'\ndistribution = 'zipf'", "distribution"),
            ("use = 'create-files'\neach_block_once = true", "each_block_once"),
            ("use = 'create-files'\nupdate = '1%'", "update"),
            ("use = 'create-files'\nmix = 'ratio'", "mix"),
            ("use = 'create-files'\nstride = '1MiB'", "stride"),
            ("use = 'append-fsync'\neach_block_once = true", "each_block_once"),
            ("use = 'random-write'\nupdate = '10%'", "update"),
        ] {
            let error = resolve(text).unwrap_err();
            assert_eq!(error.key, key, "{text}: {}", error.problem);
            assert!(error.hint.is_some());
        }
    }
}
