//! A workload as a user writes it: every key once, with its type, its place and the kinds of workload that have it.

use super::{
    Access, Backend, DataKind, Distribution, Figure, FileTree, Flush, FsyncCounts, Input, KeyValueEngine,
    Kind, Layout, Log, MetricEntry, Mix, OpenSync, Operation, Postmark, PostmarkPart, Rate, RateTarget,
    Serialise, ServerEntry, Sharing, SyncCall, TreeEntry, Until, Ycsb, written::Written,
};
use crate::{
    problem::{MAX_FILE_BYTES, TrialError, read_toml, span_of_key},
    units::{Bytes, Nanos, Percent},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Places of keys, from the outermost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EntryLevel {
    Workload,
    /// A phase of it.
    Phase,
    /// A group of threads of a phase.
    Group,
    /// Work of these threads; or a program, or an operation.
    Pattern,
}

/// Keys that belong to the same places and kinds.
pub(super) struct Keys {
    /// The last place that has them; those around it have them too.
    pub(super) deepest: EntryLevel,
    /// The kinds that have them, the one that errors name first; none: all kinds.
    pub(super) kinds: &'static [Kind],
    /// Their spellings.
    pub(super) names: &'static [&'static str],
}

/// Makes the structure, in which every key may be left out, and the table of its keys. `as` is how a key is written
/// where Rust or its plural is in the way.
macro_rules! keys {
    (@kinds [$($kind:ident),*]) => { &[$(Kind::$kind),*] };
    (@kinds ($these:ident)) => { Kind::$these };
    (@written $key:ident) => { stringify!($key) };
    (@written $key:ident $written:literal) => { $written };
    ($(#[$about:meta])* pub struct $name:ident:
     $($place:ident $kinds:tt { $($(#[$doc:meta])* $key:ident $(as $written:literal)?: $type:ty,)* })*) => {
        $(#[$about])*
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(
                $(#[$doc])*
                #[serde($(rename = $written,)? skip_serializing_if = "Option::is_none")]
                pub $key: Option<$type>,
            )*)*
        }

        /// The keys of an entry by their places.
        pub(super) const KEYS: &[Keys] = &[$(Keys {
            deepest: EntryLevel::$place,
            kinds: keys!(@kinds $kinds),
            names: &[$(keys!(@written $key $($written)?)),*],
        }),*];
    };
}

keys! {
    /// A workload as a user writes it: a preset's name with changes, or all fields.
    pub struct Entry:

    Workload [] {
        /// The preset to start from; `fstrial workloads` lists them.
        preset as "use": String,
        /// A fio job file that sets everything but the name, in a trial file; the path is relative to the trial file's
        /// folder.
        fio: String,
    }
    Group [] {
        /// Name in tables; default: the preset's or the job file's.
        name: String,
    }
    Workload [] {
        /// One line on the modelled load.
        about: String,
        /// One line on its source: the tool and its version, or an article.
        source: String,
        /// Applications that it models, by the words that `fstrial workloads WORD` finds it by, such as "postgresql".
        keywords: Vec<String>,
    }
    Group [] {
        /// `io`, `files`, `program` or `operation`.
        kind: Kind,
    }
    Workload [] {
        /// Numbers of threads to run it at: 1 to 1024.
        threads: Vec<u16>,
    }
    Workload (PATTERNS) {
        /// Clients (`clients` of a trial) share one folder and its files; amounts are per client. Left out, each client has its
        /// own folder.
        one_folder: bool,
    }
    Phase [] {
        /// Time before the clock starts: 0.25s for direct and synced workloads, 2s for buffered writes by default.
        warmup: Nanos,
        /// Time measured: 1s for direct and synced workloads, 10s for buffered writes by default.
        duration: Nanos,
    }
    Workload [] {
        /// Interval of the load's cycle, such as 5s between checkpoints; runs should last at least twice as long.
        /// Default: the longest `interval` of a flush.
        period: Nanos,
    }
    Phase (PATTERNS) {
        /// End of a phase: after its `time`, or when every thread is `done` with its amount. Default: `done` if the
        /// amount is finite (requests, turns, a set to work through, PostMark), else `time`.
        until: Until,
        /// `true` for a phase that yields results (default); others prepare later phases.
        measured: bool,
        /// Sync and drop caches before a phase, as always before the first.
        settle: bool,
        /// A client uses the files that one on the host this many further on made in earlier phases, as IOR's -C and mdtest's
        /// -N have it; on one host, those of the client this many further on. Hosts and clients are counted in a circle.
        host_offset: u16,
        /// Look for the highest rate that keeps this promise, such as "p99<5ms", instead of measuring one.
        find_rate: RateTarget,
    }
    Group (PATTERNS) {
        /// Number of threads of a group; default: the level's.
        workers: u16,
        /// Name of the files to work on; phases and groups that name the same share them.
        set: String,
        /// A group that yields no result: it is there to be in the way of others.
        background: bool,
        /// The figure: operations per second (default), bytes per second, bytes-written per second, or the time until
        /// the work is done.
        figure: Figure,
        /// Operations offered in a second to all threads together, "5000/s" or "5000/s poisson"; by default a thread makes
        /// its next request when one has completed.
        rate: Rate,
    }
    Group (WITH_FILES) {
        /// Content of the files: random, zero, repeated-word or mixed; default: depends on the device.
        data: DataKind,
        /// Mixed data: share that compresses away.
        compressible: Percent,
        /// Mixed data: share of blocks that repeat another.
        duplicates: Percent,
    }
    Pattern [Io] {
        /// io: random, sequential, append or extend.
        access: Access,
        /// io, random: how often each block is drawn, "uniform", "zipf:0.99", "pareto:0.2", "normal:12", "special",
        /// "hotspot:0.2,0.8", "latest:0.99" or "zones:10%:60,90%:40".
        distribution: Distribution,
        /// io, random: every block once in a lap of a thread, in random order.
        each_block_once: bool,
        /// io: share of requests that read, "0%" to "100%".
        reads: Percent,
        /// io: share of reads followed by a write of the same block, as one operation.
        update: Percent,
        /// io: which requests read, drawn or by ratio.
        mix: Mix,
    }
    Pattern [Io, Program] {
        /// io: size of one request, from 1 byte; a multiple of 512 for direct.
        block_size: Bytes,
    }
    Pattern [Io, Files, Program] {
        /// io: size of all files together. files: size of each file.
        file_size: Bytes,
        /// io: number of files. files: number in each thread's ring.
        files: u32,
    }
    Pattern [Io] {
        /// io: shared, region or per-thread.
        sharing: Sharing,
        /// io: past the page cache (`O_DIRECT`).
        direct: bool,
        /// io: `sync`, `vsync`, `aio`, `io_uring` or `mmap`.
        backend: Backend,
        /// io: requests in flight for each thread; more than 1 needs `vsync`, `aio` or `io_uring`.
        depth: u16,
        /// io: a sync call after this many writes of a thread; 0 is never.
        fsync_every: u32,
        /// io: `fsync`, `fdatasync` or `sync-file-range` (which makes nothing durable).
        fsync: SyncCall,
        /// io: with until = "done", requests of all threads together; default: one lap over the files.
        requests: u64,
        /// io: operations counted by `fsync_every`: `writes` or `requests` (reads too).
        fsync_counts: FsyncCounts,
        /// io: a sync covers every file of the thread, not only those it has written.
        fsync_all_files: bool,
    }
    Pattern [Io, Flow] {
        /// io: each thread syncs all its files once after its time; not in any latency or throughput. In a phase that runs
        /// until it is done it is inside the time. flow: the same for such a phase, with `syncfs`.
        fsync_at_end: bool,
    }
    Pattern [Io] {
        /// io: open the files with `O_SYNC` (`sync`) or `O_DSYNC` (`dsync`), or with neither (`none`).
        open_sync: OpenSync,
        /// io: content of the files before the clock starts: `written`, `fallocated`, `sparse` or `empty`.
        layout: Layout,
        /// io: requests of a file wait for one another, as under an old kernel's lock: over the whole request (`io`, backend
        /// sync) or while it is handed to the kernel (`submit`, backend aio).
        serialise: Serialise,
    }
    Pattern [Files, Flow] {
        /// Steps of one operation, in order. files: create, write, fsync, read, stat, delete. flow: lines such as
        /// "create mail", "append 16KiB random", "10x (open mail, read, close)".
        steps: Vec<String>,
    }
    Pattern [Flow] {
        /// flow: the sets of files that steps name.
        sets: Vec<FileTree>,
        /// flow: turns of each thread; default: until the time is over or a set is worked through.
        turns: u64,
    }
    Pattern [Postmark] {
        /// postmark: its settings, under the tool's own names.
        postmark: Written<Postmark>,
        /// postmark: `create`, `transactions`, `delete`, or `all`; wins over the same word in `postmark`.
        part: PostmarkPart,
    }
    Pattern [Log] {
        /// log: a log that all threads commit to.
        log: Written<Log>,
    }
    Pattern [Flush] {
        /// flush: batches of pages at random places of data files.
        flush: Written<Flush>,
    }
    Pattern [Ycsb] {
        /// ycsb: a core workload of YCSB on records in a key-value engine.
        ycsb: Written<Ycsb>,
    }
    Pattern [Operation] {
        /// operation: the operation on the filesystem, `mkfs`, `mount`, `recovery`, `check` and others.
        operation: Operation,
        /// operation: the tree of files that is there before.
        tree: TreeEntry,
        /// operation: repetitions in a run, for operations that take milliseconds; the result is the median.
        repeat: u16,
        /// operation: size of the filesystem, if it may be smaller than its device.
        filesystem_size: Bytes,
        /// operation, freeze: how long the filesystem stays frozen each time; 0s by default.
        hold: Nanos,
    }
    Pattern [Program] {
        /// program: the command that is measured, word by word, without a shell; `{dir}` and others are replaced.
        command: Vec<String>,
        /// program: commands before the clock starts.
        prepare: Vec<Vec<String>>,
        /// program: a server that the command talks to: how it is started, seen to be ready, loaded, stopped and verified.
        server: ServerEntry,
        /// program: a command whose first line of output is its version.
        version: Vec<String>,
        /// program: the longest the command may take; 30m by default.
        deadline: Nanos,
        /// program: files that it is given, by name: small texts, or `{ file = "…" }` next to the trial file; `{input:NAME}` is the
        /// path.
        inputs: BTreeMap<String, Input>,
        /// program: words of your own that `{parameter:NAME}` stands for; those of a preset stay unless set again.
        parameters: BTreeMap<String, String>,
        /// program: the numbers that are picked from its output, 1 to 64.
        metrics as "metric": Vec<MetricEntry>,
    }
    Workload (PATTERNS) {
        /// Consecutive parts of the workload. A phase inherits from the workload.
        phases as "phase": Vec<Self>,
    }
    Phase (PATTERNS) {
        /// Concurrent groups of threads in a phase, or in a workload without phases. A group inherits from its phase.
        groups as "group": Vec<Self>,
    }
}

impl Entry {
    /// Reads a workload file, which is complete in itself.
    ///
    /// # Errors
    /// It is not a workload, or not a runnable one; the place is underlined.
    pub fn parse(name: &str, text: &str) -> Result<Self, Box<TrialError>> {
        let entry: Self = read_toml(name, text, MAX_FILE_BYTES)?;
        entry.resolve(1).map_err(|error| {
            TrialError::at(name, text, span_of_key(text, error.key), error.problem, error.hint)
        })?;
        Ok(entry)
    }

    /// The same on another engine, which is in its name; none of a workload that has no engine.
    #[must_use]
    pub fn on_engine(&self, engine: KeyValueEngine) -> Option<Self> {
        let workload = self.resolve(1).ok()?;
        if workload.ycsb()?.engine == engine {
            return Some(self.clone());
        }
        let name = Some(format!("{} on {engine}", workload.name));
        Some(Self {
            name,
            ycsb: Some(Written::with(self.ycsb.clone(), "engine", engine.name())),
            ..self.clone()
        })
    }

    /// An entry that uses a preset unchanged.
    pub fn of_preset(name: &str) -> Self {
        Self { preset: Some(name.to_owned()), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_workload_file_shows_the_place() {
        for (text, line, message) in [
            ("kind = 'io'\nblok_size = '4KiB'\n", 2, "unknown field `blok_size`"),
            ("kind = 'io'\nthreads = '4'\n", 2, "invalid type"),
            ("kind = 'io'\n\nthreads = [0]\n", 3, "between 1 and 1024"),
            ("[[group]]\nname = 'a'\nkind = 'log'\n[group.log]\nrecord = '2MiB'\n", 5, "records of 2MiB"),
            ("threads = [1]\n", 1, "neither `use` nor `kind`"),
            ("use = 'random-wriet'", 1, "there is no workload"),
        ] {
            let error = Entry::parse("w.toml", text).unwrap_err();
            assert!(error.message.contains(message), "{text}: {}", error.message);
            let at = error.span.expect("a place").offset();
            assert_eq!(text[..at].matches('\n').count() + 1, line, "{text}");
        }
        assert!(Entry::parse("w.toml", "use = 'random-write'").is_ok());
    }
}
