//! A workload as a user writes it, and how it is settled.

use super::entry_error::{EntryError, entry_error};
use super::{
    Access, Backend, Behaviour as _, Data, DataKind, Distribution, Figure, FileSet, FileTree, Flow, FlowStep,
    Flush, FsyncCounts, Group, Io, Layout, Log, MetricEntry, Mix, OpenSync, Operation, Pattern, Phase,
    Postmark, PostmarkPart, Rate, RateTarget, Sharing, Step, SyncCall, TimedOperation, TimedProgram,
    TreeEntry, Until, Workload, operation::OperationKeys,
};
use crate::{
    arm::closest,
    units::{Bytes, Nanos, Percent},
};
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
    /// A fio job file that says everything but the name, in a trial file; the path is relative to the trial file's
    /// folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fio: Option<String>,
    /// What it is called in tables; the preset's or the job file's name if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// One line on what it models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// One line on where it comes from: the tool and its version, or an article.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// `io`, `files`, `program` or `operation`.
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
    /// When a phase is over: after its `time`, or when every thread is `done` with its amount. Left out: `done` where
    /// there is an amount that is done some time (requests, turns, a set to work through, PostMark), else `time`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// Whether a phase yields results; others prepare what comes after them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<bool>,
    /// Sync and drop caches before a phase, as always before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle: Option<bool>,
    /// Look for the highest rate that keeps this promise, such as "p99<5ms", instead of measuring one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub find_rate: Option<RateTarget>,
    /// Number of threads of a group; left out: as many as the level says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<u16>,
    /// Name of the files to work on; phases and groups that name the same share them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
    /// A group that yields no result: it is there to be in the way of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<bool>,
    /// What the figure is: operations per second (if left out), bytes per second, bytes-written per second, or the time
    /// until the work is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figure: Option<Figure>,
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
    /// io: size of one request, from 1 byte; a multiple of 512 for direct.
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
    /// io: `sync`, `vsync`, `aio`, `io_uring` or `mmap`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<Backend>,
    /// io: requests in flight for each thread; more than 1 needs `vsync`, `aio` or `io_uring`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u16>,
    /// io: a sync call after this many writes of a thread; 0 is never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fsync_every: Option<u32>,
    /// io: `fsync`, `fdatasync` or `sync-file-range` (which makes nothing durable).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fsync: Option<SyncCall>,
    /// io: with until = "done", requests of all threads together; left out: one lap over the files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// io: what `fsync_every` counts: `writes` or `requests` (reads too).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fsync_counts: Option<FsyncCounts>,
    /// io: a sync covers every file of the thread, not only those it has written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fsync_all_files: Option<bool>,
    /// io: each thread syncs all its files once after its time; not in any latency or throughput. In a phase that runs
    /// until it is done it is inside the time. flow: the same for such a phase, with `syncfs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fsync_at_end: Option<bool>,
    /// io: open the files with `O_SYNC` (`sync`) or `O_DSYNC` (`dsync`), or with neither (`none`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_sync: Option<OpenSync>,
    /// io: what the files hold before the clock starts: `written`, `fallocated`, `sparse` or `empty`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<Layout>,
    /// io: a kernel thread takes the requests of each `io_uring` (`IORING_SETUP_SQPOLL`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sqpoll: Option<bool>,
    /// io: `io_uring` polls the device for completions (`IORING_SETUP_IOPOLL`); needs direct.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iopoll: Option<bool>,
    /// What one operation does, in order. files: create, write, fsync, read, stat, delete. flow: lines such as
    /// "create mail", "append 16KiB random", "10x (open mail, read, close)".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<String>>,
    /// flow: the sets of files that steps name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sets: Option<Vec<FileTree>>,
    /// flow: turns of each thread; left out, until the time is over or a set is worked through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// postmark: what it does, with the tool's own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub postmark: Option<Postmark>,
    /// postmark: `create`, `transactions`, `delete`, or `all`; wins over the same word in `postmark`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<PostmarkPart>,
    /// log: a log that all threads commit to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<Log>,
    /// flush: batches of pages at random places of data files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush: Option<Flush>,
    /// operation: what is done to the filesystem, `mkfs`, `mount`, `recovery`, `check` and others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// operation: the tree of files that is there before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeEntry>,
    /// operation: how often it is done in a run, where it takes milliseconds; the result is the median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u16>,
    /// operation: size of the filesystem, where it may be smaller than its device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filesystem_size: Option<Bytes>,
    /// operation, freeze: how long the filesystem stays frozen each time; 0s if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Nanos>,
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
    /// Parts of the workload that come one after the other. What a phase does not say is as in the workload.
    #[serde(rename = "phase", skip_serializing_if = "Option::is_none")]
    pub phases: Option<Vec<Self>>,
    /// Groups of threads that work at once in a phase, or in a workload without phases. What a group does not say is as
    /// in its phase.
    #[serde(rename = "group", skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<Self>>,
}

/// The kinds of workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Reads and writes inside files.
    Io,
    /// A set of small files.
    Files,
    /// Programs over sets of files.
    Flow,
    /// PostMark.
    Postmark,
    /// A log that all threads commit to.
    Log,
    /// A database's page flusher.
    Flush,
    /// A command that is run, and numbers from its output.
    Program,
    /// Something that is done to the filesystem itself.
    Operation,
}

/// An entry with the fields of `own`, and those of `base` where `own` has none. Every field but `preset` and
/// `fio` is listed once.
macro_rules! overlay {
    ($own:expr, $base:expr; $($field:ident,)*) => {{
        let (own, base) = ($own, $base);
        Entry { preset: None, fio: None, $($field: own.$field.or(base.$field),)* }
    }};
}

/// Completes those tables of an entry whose keys are laid over another's one by one.
fn merge(own: &mut Entry, base: &Entry) {
    if let (Some(own), Some(base)) = (&mut own.parameters, &base.parameters) {
        for (name, word) in base {
            own.entry(name.clone()).or_insert_with(|| word.clone());
        }
    }
    if let (Some(own), Some(base)) = (&mut own.tree, base.tree) {
        *own = own.over(base);
    }
}

/// Lays the fields of one entry over another's.
fn over(mut own: Entry, base: Entry) -> Entry {
    merge(&mut own, &base);
    overlay!(own, base;
        name,
        about,
        source,
        kind,
        threads,
        warmup,
        duration,
        until,
        measured,
        settle,
        find_rate,
        workers,
        set,
        background,
        figure,
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
        fsync_counts,
        fsync_all_files,
        fsync_at_end,
        open_sync,
        layout,
        sqpoll,
        iopoll,
        requests,
        steps,
        sets,
        turns,
        postmark,
        part,
        log,
        flush,
        operation,
        tree,
        repeat,
        filesystem_size,
        hold,
        command,
        prepare,
        cleanup,
        version,
        deadline,
        inputs,
        parameters,
        metrics,
        phases,
        groups,
    )
}

/// Keys, and whether each is written.
pub(super) type Keys = [(&'static str, bool)];

/// Phases of a workload, and groups of a phase, at most.
const PARTS_MAX: usize = 64;

/// The name that a phase or a group gives itself.
fn part_name(own: &Entry) -> Result<String, EntryError> {
    let name = own.name.clone().unwrap_or_default();
    if name.len() > 40 || name.contains(['\n', '\t', '@', '/']) {
        return Err(entry_error(
            "name",
            format!("`{name}` is no good as the name of a phase or a group"),
            "use up to 40 characters without / and @",
        ));
    }
    Ok(name)
}

fn check_times(warmup: Nanos, duration: Nanos) -> Result<(), EntryError> {
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
    Ok(())
}

impl Entry {
    /// An entry that uses a preset unchanged.
    pub fn of_preset(name: &str) -> Self {
        Self { preset: Some(name.to_owned()), ..Self::default() }
    }

    /// Lays this entry's fields over the preset it names.
    fn over_preset(&self) -> Result<Self, EntryError> {
        if self.fio.is_some() {
            return Err(entry_error(
                "fio",
                "job files are not read here: `fio` stands in a trial file, for `fstrial run`",
                "name the job file itself: fstrial compare … --workload job.fio",
            ));
        }
        let Some(name) = &self.preset else { return Ok(self.clone()) };
        let base = crate::preset::preset(name).ok_or_else(|| {
            entry_error(
                "use",
                format!("there is no workload `{name}`"),
                crate::preset::hint_for_unknown(name),
            )
        })?;
        Ok(over(self.clone(), base))
    }

    /// Settles every field. `cpus` decides the default levels: 1 and all of them.
    ///
    /// # Errors
    /// The key at fault, what is wrong with it and what to try.
    pub fn resolve(&self, cpus: u16) -> Result<Workload, EntryError> {
        let full = self.over_preset()?;
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
        let name = full.name.clone().unwrap_or_else(|| "workload".into());
        if name.is_empty() || name.len() > 60 || name.contains(['\n', '\t', '@']) {
            return Err(entry_error(
                "name",
                format!("`{name}` is no good as a name"),
                "use 1 to 60 characters without @",
            ));
        }
        if full.kind == Some(Kind::Program) {
            let duration = full.duration.unwrap_or(Nanos::secs(10));
            check_times(Nanos(0), duration)?;
            let program = Some(TimedProgram { program: full.program()?, duration });
            return Ok(Workload { name, program, threads, ..Workload::default() });
        }
        if full.kind == Some(Kind::Operation) {
            // Few operations are done by threads.
            let threads = if full.threads.is_none() { vec![1] } else { threads };
            let operation = Some(full.operation(&threads)?);
            return Ok(Workload { name, operation, threads, ..Workload::default() });
        }
        let phases = full.resolve_phases()?;
        if !phases.iter().any(|phase| phase.results().next().is_some()) {
            return Err(entry_error("phase", "no phase is measured", "leave out measured = false in one"));
        }
        let workload = Workload { name, phases, threads, ..Workload::default() };
        let mut names: Vec<String> = workload.results().map(|result| result.name).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let problem = match twice[0].as_str() {
                "" => "phases or groups without a name".to_owned(),
                name => format!("two phases or groups are called `{name}`"),
            };
            return Err(entry_error("phase", problem, "give each a name = \"…\" of its own"));
        }
        Ok(workload)
    }

    /// Settles an operation of the filesystem.
    fn operation(&self, threads: &[u16]) -> Result<TimedOperation, EntryError> {
        self.only_keys_of(Kind::Operation)?;
        if self.warmup.is_some() {
            return Err(entry_error("warmup", "an operation has no warm-up", "leave warmup out"));
        }
        let keys = OperationKeys {
            operation: self.operation,
            tree: self.tree,
            repeat: self.repeat,
            filesystem_size: self.filesystem_size,
            duration: self.duration,
            hold: self.hold,
            data: Data::of_entry(self.data, self.compressible, self.duplicates)?,
        };
        let settled = keys.settle()?;
        settled.check_threads(threads)?;
        Ok(settled)
    }

    /// What a phase or a group takes over from the entry around it: all but what belongs to that place.
    fn inherited(&self) -> Self {
        let place =
            Self { name: None, about: None, source: None, phases: None, groups: None, ..self.clone() };
        Self { threads: None, preset: None, ..place }
    }

    fn resolve_phases(&self) -> Result<Vec<Phase>, EntryError> {
        let Some(phases) = &self.phases else {
            return Ok(vec![self.phase(self, String::new())?]);
        };
        if phases.is_empty() || phases.len() > PARTS_MAX || self.groups.is_some() {
            return Err(entry_error(
                "phase",
                "a workload has 1 to 64 phases, or groups of threads, not both",
                "write groups inside phases: [[workload.phase.group]]",
            ));
        }
        let phase = |own: &Self| {
            own.belongs("phase", &[("phase", own.phases.is_some())])?;
            over(own.clone(), self.inherited()).phase(own, part_name(own)?)
        };
        phases.iter().map(phase).collect()
    }

    /// Settles the groups of a phase; `own` is what it says itself.
    fn resolve_groups(&self, own: &Self) -> Result<Vec<Group>, EntryError> {
        match &self.groups {
            None => {
                own.keys_of(self.kind)?;
                Ok(vec![self.group(String::new())?])
            }
            Some(groups) if groups.is_empty() || groups.len() > PARTS_MAX => {
                Err(entry_error("group", "a phase has 1 to 64 groups", "leave out the empty list"))
            }
            Some(groups) => groups
                .iter()
                .map(|own| {
                    own.belongs(
                        "group",
                        &[
                            ("phase", own.phases.is_some()),
                            ("group", own.groups.is_some()),
                            ("until", own.until.is_some()),
                            ("warmup", own.warmup.is_some()),
                            ("duration", own.duration.is_some()),
                            ("measured", own.measured.is_some()),
                            ("settle", own.settle.is_some()),
                            ("find_rate", own.find_rate.is_some()),
                        ],
                    )?;
                    own.keys_of(own.kind.or(self.kind))?;
                    over(own.clone(), self.inherited()).group(part_name(own)?)
                })
                .collect(),
        }
    }

    /// Settles one phase; `own` is what it says itself.
    fn phase(&self, own: &Self, name: String) -> Result<Phase, EntryError> {
        let groups = self.resolve_groups(own)?;
        let goes_on = groups.iter().all(|group| group.pattern.goes_on());
        let until = self.until.unwrap_or(if goes_on { Until::Time } else { Until::Done });
        let slow = groups.iter().any(|group| group.pattern.is_buffered_write());
        let (warmup, duration) = match until {
            Until::Time => (
                self.warmup.unwrap_or(if slow { Nanos::secs(2) } else { Nanos::millis(250) }),
                self.duration.unwrap_or(if slow { Nanos::secs(10) } else { Nanos::secs(1) }),
            ),
            Until::Done => (Nanos(0), self.duration.unwrap_or(Nanos::secs(3600))),
        };
        check_times(warmup, duration)?;
        let endless = groups.iter().any(|group| !group.pattern.ends());
        if until == Until::Done && endless {
            return Err(entry_error(
                "until",
                "what a group of threads does here has no end",
                "leave out until = \"done\", or give it an amount: requests, turns, commits or batches",
            ));
        }
        if until == Until::Time && !goes_on {
            return Err(entry_error(
                "until",
                "what a group of threads does here is done some time, and a phase that measures a time goes on",
                "write until = \"done\", or leave the amount out",
            ));
        }
        if until == Until::Time && groups.iter().any(|group| group.figure == Figure::Time) {
            return Err(entry_error(
                "figure",
                "a phase that measures a time takes that time",
                "use until = \"done\" for a time that is a result",
            ));
        }
        if until == Until::Done && groups.iter().any(|group| group.background) {
            return Err(entry_error(
                "background",
                "a group in the background has no end that a phase could wait for",
                "leave out until = \"done\"",
            ));
        }
        let looks = |group: &Group| {
            matches!(group.pattern, Pattern::Io(_)) && group.rate.is_none() && !group.background
        };
        if self.find_rate.is_some() && (until == Until::Done || groups.len() > 1 || !looks(&groups[0])) {
            return Err(entry_error(
                "find_rate",
                "a rate is looked for with one group of threads of kind = \"io\", over time, at no rate of its own",
                "leave out until = \"done\", rate and other groups",
            ));
        }
        Ok(Phase {
            name,
            groups,
            until,
            warmup,
            duration,
            measured: self.measured.unwrap_or(true),
            settle: self.settle.unwrap_or(false),
            find_rate: self.find_rate,
        })
    }

    /// Settles one group.
    fn group(&self, name: String) -> Result<Group, EntryError> {
        let pattern = match self.kind {
            Some(Kind::Io) => Pattern::Io(self.io()?),
            Some(Kind::Files) => Pattern::Files(self.file_set()?),
            Some(Kind::Flow) => Pattern::Flow(self.flow()?),
            Some(Kind::Postmark) => {
                let postmark = self.postmark.unwrap_or_default();
                let postmark = Postmark { part: self.part.unwrap_or(postmark.part), ..postmark };
                postmark.check().map(|()| Pattern::Postmark(postmark))?
            }
            Some(Kind::Log) => {
                let log = self.log.unwrap_or_default();
                log.check().map(|()| Pattern::Log(log))?
            }
            Some(Kind::Flush) => {
                let flush = self.flush.unwrap_or_default();
                flush.check().map(|()| Pattern::Flush(flush))?
            }
            Some(Kind::Program | Kind::Operation) => {
                return Err(entry_error(
                    "kind",
                    "programs and operations are neither phases nor groups of threads",
                    "give it a [[workload]] of its own",
                ));
            }
            None => {
                return Err(entry_error(
                    "kind",
                    "the workload says neither `use` nor `kind`",
                    "write use = \"random-write\", or kind = \"io\" (or another) and its fields",
                ));
            }
        };
        if self.workers.is_some_and(|workers| !(1..=1024).contains(&workers)) {
            return Err(entry_error(
                "workers",
                "numbers of threads must lie between 1 and 1024",
                "workers = 1",
            ));
        }
        if self.rate.is_some()
            && matches!(pattern, Pattern::Postmark(_) | Pattern::Log(_) | Pattern::Flush(_))
        {
            return Err(entry_error(
                "rate",
                "a rate is offered to kind = \"io\", \"files\" and \"flow\"",
                "leave rate out",
            ));
        }
        let set = self.set.clone().unwrap_or_else(|| "load".into());
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if set.is_empty() || set.len() > 40 || !set.chars().all(plain) {
            return Err(entry_error(
                "set",
                format!("`{set}` is no good as a name of files"),
                "use 1 to 40 letters, digits, - and _",
            ));
        }
        Ok(Group {
            name,
            workers: self.workers,
            set,
            data: Data::of_entry(self.data, self.compressible, self.duplicates)?,
            rate: self.rate,
            background: self.background.unwrap_or(false),
            figure: self.figure_of(&pattern)?,
            pattern,
        })
    }

    /// What the throughput of a pattern counts.
    fn figure_of(&self, pattern: &Pattern) -> Result<Figure, EntryError> {
        let figure = self.figure.unwrap_or(Figure::Operations);
        if figure == Figure::BytesWritten && !matches!(pattern, Pattern::Io(io) if io.writes()) {
            return Err(entry_error(
                "figure",
                "bytes written are told from bytes read in a kind = \"io\" that writes",
                "use figure = \"bytes\" or figure = \"operations\"",
            ));
        }
        Ok(figure)
    }

    /// Refuses keys that mean nothing in a phase or group.
    fn belongs(&self, place: &'static str, wrong: &Keys) -> Result<(), EntryError> {
        let always = [
            ("use", self.preset.is_some()),
            ("fio", self.fio.is_some()),
            ("threads", self.threads.is_some()),
            ("about", self.about.is_some()),
            ("source", self.source.is_some()),
        ];
        match always.iter().chain(wrong).find(|(_, present)| *present) {
            None => Ok(()),
            Some((key, _)) => Err(entry_error(
                key,
                format!("`{key}` does not belong into a {place}"),
                "write it in the entry around it (a group's own number of threads is `workers`)",
            )),
        }
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
            requests: self.requests,
            fsync_counts: self.fsync_counts.unwrap_or(fallback.fsync_counts),
            fsync_all_files: self.fsync_all_files.unwrap_or(fallback.fsync_all_files),
            fsync_at_end: self.fsync_at_end.unwrap_or(fallback.fsync_at_end),
            open_sync: self.open_sync.unwrap_or(fallback.open_sync),
            layout: self.layout.unwrap_or(fallback.layout),
            sqpoll: self.sqpoll.unwrap_or(fallback.sqpoll),
            iopoll: self.iopoll.unwrap_or(fallback.iopoll),
        };
        io.check().map(|()| io)
    }

    /// The steps, each read as what it is in this kind of workload.
    fn steps<T>(&self, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<Vec<T>>, EntryError> {
        let one = |step: &String| {
            read(step.trim()).map_err(|why| EntryError { key: "steps", problem: why, hint: None })
        };
        self.steps.as_ref().map(|steps| steps.iter().map(one).collect()).transpose()
    }

    fn flow(&self) -> Result<Flow, EntryError> {
        let steps = self.steps(|step| step.parse::<FlowStep>().map_err(|error| error.to_string()))?;
        let flow = Flow {
            sets: self.sets.clone().unwrap_or_default(),
            steps: steps.unwrap_or_default(),
            turns: self.turns,
            fsync_at_end: self.fsync_at_end.unwrap_or(false),
        };
        flow.check().map(|()| flow)
    }

    fn file_set(&self) -> Result<FileSet, EntryError> {
        let steps = self.steps(|step| {
            let known = Step::ALL.into_iter().find(|known| known.name() == step);
            known.ok_or_else(|| match closest(step, Step::ALL.map(Step::name)) {
                Some(near) => format!("there is no step `{step}`; did you mean `{near}`?"),
                None => {
                    format!("there is no step `{step}`: there are {}", Step::ALL.map(Step::name).join(", "))
                }
            })
        })?;
        let set = FileSet {
            files: self.files.unwrap_or(200),
            file_size: self.file_size.unwrap_or(Bytes::kib(4)),
            steps: steps.unwrap_or_else(|| vec![Step::Create, Step::Write, Step::Delete]),
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
            let Pattern::Io(io) = &workload.phases[0].groups[0].pattern else { panic!("{text}: io") };
            assert!(check(io), "{text}: {io:?}");
            let stored = serde_json::to_string(&workload).unwrap();
            assert_eq!(serde_json::from_str::<Workload>(&stored).unwrap(), workload);
        }
    }

    #[test]
    fn data_and_rate_belong_to_both_kinds() {
        for preset in ["random-write", "create-files"] {
            let plain = resolve(&format!("use = '{preset}'")).unwrap();
            assert_eq!((plain.phases[0].groups[0].data, plain.phases[0].groups[0].rate), (None, None));
            let text = format!("use = '{preset}'\ndata = 'mixed'\nduplicates = '20%'\nrate = '50/s poisson'");
            let workload = resolve(&text).unwrap();
            let mixed = Data::Mixed { compressible: Percent(0.0), duplicate: Percent(20.0) };
            let group = &workload.phases[0].groups[0];
            assert_eq!(group.data, Some(mixed));
            assert_eq!(group.rate.unwrap().to_string(), "50/s poisson");
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
            ("use = 'random-read'\nfigure = 'bytes-written'", "figure"),
            ("use = 'varmail'\nfigure = 'bytes-written'", "figure"),
            ("use = 'varmail'\nfsync_at_end = true", "fsync_at_end"),
            ("use = 'create-files'\nfsync_at_end = true", "fsync_at_end"),
        ] {
            let error = resolve(text).unwrap_err();
            assert_eq!(error.key, key, "{text}: {}", error.problem);
            assert!(error.hint.is_some());
        }
    }
}
