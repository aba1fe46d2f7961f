//! The core workloads of YCSB, the Yahoo! Cloud Serving Benchmark: records in a key-value engine that runs inside the worker.

use super::{
    Behaviour, Durability,
    behaviour::WRITTEN_FROM,
    entry_error::{EntryError, entry_error},
};
use crate::{
    units::{Bytes, Nanos},
    words,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Fields of a record, and bytes of each: `fieldcount` and `fieldlength`.
pub const FIELDS: u16 = 10;
/// See [`FIELDS`].
pub const FIELD_BYTES: usize = 100;
/// Upper bound of a record on the device with its key, its index and partly filled pages; in SQLite it is 1404 bytes.
const RECORD_ON_DEVICE: u64 = 2048;
/// The same in WiredTiger, whose pages are split at a fill of nine tenths.
const RECORD_IN_PAGES: u64 = 1400;
/// Copies of a record that WiredTiger may keep at a time: those of the last two checkpoints and of the one in progress.
const CHECKPOINTED: u64 = 3;
/// An engine's memory in addition to its cache: memtables, logs, incoming records.
const ENGINE: u64 = 64 << 20;

/// Bytes of log that WiredTiger may write in a second.
const LOGGED: u64 = 64 << 20;
/// Upper bound of its log: at two gigabytes it makes a checkpoint, regardless of the time.
const MAX_LOG: u64 = 4 << 30;
/// The least cache that it works in.
const MIN_CACHE_OF_PAGES: Bytes = Bytes::mib(4);
/// The longest pause between checkpoints.
const MAX_PAUSE: Nanos = Nanos::secs(3600);
/// The programs that have engines which fstrial itself has not, and the command in its sources that builds each.
pub const HELPERS: [(&str, &str); 2] = [(WIREDTIGER, "./x wiredtiger"), (ROCKSDB, "./x rocksdb")];
const WIREDTIGER: &str = "fstrial-wiredtiger";
const ROCKSDB: &str = "fstrial-rocksdb";

words! {
    /// A core workload by the letter of its file (`workloada` to `workloadf`), or the load before them.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum CoreWorkload {
        /// All records are inserted, and then it is done.
        "load" Load,
        /// Half reads, half updates; zipfian.
        #[default]
        "a" A,
        /// 95 % reads, 5 % updates; zipfian.
        "b" B,
        /// Reads only; zipfian.
        "c" C,
        /// 95 % reads of the latest inserts, 5 % inserts.
        "d" D,
        /// 95 % scans of 1 to 100 records, 5 % inserts; zipfian.
        "e" E,
        /// Half reads, half reads with an update of the read record; zipfian.
        "f" F,
    }
}

/// Probability of each operation, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Proportions {
    /// All fields of a record are read.
    pub read: u8,
    /// One field is written.
    pub update: u8,
    /// A new record is written.
    pub insert: u8,
    /// Records that follow each other by their keys are read.
    pub scan: u8,
    /// A record is read, and one of its fields written.
    pub read_modify_write: u8,
}

impl CoreWorkload {
    /// Its operations, as the files that come with YCSB 0.17 have them.
    pub fn proportions(self) -> Proportions {
        let none = Proportions::default();
        match self {
            Self::Load => Proportions { insert: 100, ..none },
            Self::A => Proportions { read: 50, update: 50, ..none },
            Self::B => Proportions { read: 95, update: 5, ..none },
            Self::C => Proportions { read: 100, ..none },
            Self::D => Proportions { read: 95, insert: 5, ..none },
            Self::E => Proportions { scan: 95, insert: 5, ..none },
            Self::F => Proportions { read: 50, read_modify_write: 50, ..none },
        }
    }
}

words! {
    /// A key-value engine, with the settings that determine its durability.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum KeyValueEngine {
        /// SQLite with a write-ahead log (`journal_mode=WAL`, `synchronous=FULL`): a commit is durable when it returns.
        #[default]
        "sqlite" Sqlite,
        /// SQLite with a rollback journal (`journal_mode=DELETE`, `synchronous=EXTRA`): a commit is durable when it returns, as the folder
        /// is synced after its journal was deleted.
        "sqlite-journal" SqliteJournal,
        /// fjall, a log-structured merge tree: after every write its log is synced (`fdatasync`), before it returns.
        "fjall" Fjall,
        /// RocksDB, a log-structured merge tree: its log is synced (`fdatasync`) before a write returns, which several threads share.
        "rocksdb" Rocksdb,
        /// WiredTiger as in a standalone MongoDB with `w: 1`: a write returns before it is durable, and the log is synced with a pause of
        /// 100 ms.
        "wiredtiger" Wiredtiger,
        /// WiredTiger as in a standalone MongoDB with `j: true`: the log is synced before a write returns, which several threads share.
        "wiredtiger-j" WiredtigerJ,
    }
}

impl KeyValueEngine {
    /// The durability of an acknowledged write.
    pub fn durable(self) -> &'static str {
        match self {
            Self::Sqlite => "each write before it returns (SQLite, write-ahead log, synchronous=FULL)",
            Self::SqliteJournal => {
                "each write before it returns (SQLite, rollback journal, synchronous=EXTRA)"
            }
            Self::Fjall => "each write before it returns (fjall, its log is synced)",
            Self::Rocksdb => "each write before it returns (RocksDB, its log is synced)",
            Self::Wiredtiger => {
                "each write soon after it returned: the log is synced with a pause of 100 ms (WiredTiger, as MongoDB with w: 1)"
            }
            Self::WiredtigerJ => "each write before it returns (WiredTiger, as MongoDB with j: true)",
        }
    }

    /// Its helper program, if its licence or its language requires one.
    pub fn helper(self) -> Option<&'static str> {
        match self {
            Self::Sqlite | Self::SqliteJournal | Self::Fjall => None,
            Self::Rocksdb => Some(ROCKSDB),
            Self::Wiredtiger | Self::WiredtigerJ => Some(WIREDTIGER),
        }
    }

    /// True if it makes checkpoints by the clock.
    fn is_wiredtiger(self) -> bool {
        matches!(self, Self::Wiredtiger | Self::WiredtigerJ)
    }
}

/// Records of ten fields of 100 bytes under keys in hashed order, and the operations of all threads on them. One
/// operation is one call of YCSB's client; every write is a separate commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ycsb {
    /// The workload: `a` to `f`, or `load`.
    pub workload: CoreWorkload,
    /// The engine: `sqlite`, `sqlite-journal`, `fjall`, `rocksdb`, `wiredtiger` or `wiredtiger-j`.
    pub engine: KeyValueEngine,
    /// Records that are there before the clock starts; of `load` those that are inserted.
    pub records: u64,
    /// Memory that the engine caches records in, all threads together. SQLite gives each its share, and forgets it when another thread
    /// commits.
    pub cache: Bytes,
    /// Pause from the end of a checkpoint of WiredTiger to the next one, in whole seconds; 1s, where MongoDB has a minute and runs of hours.
    /// Other engines have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Nanos>,
    /// Operations of each thread, up to 2147483647; without it until the time is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations: Option<u64>,
}

impl Default for Ycsb {
    /// Workload A on 50 000 records in SQLite, with a cache of 8 MiB.
    fn default() -> Self {
        Self {
            workload: CoreWorkload::default(),
            engine: KeyValueEngine::default(),
            records: 50_000,
            cache: Bytes::mib(8),
            checkpoint: None,
            operations: None,
        }
    }
}

impl Ycsb {
    /// The pause between checkpoints, of an engine that makes them by the clock.
    pub fn checkpoints_every(&self) -> Nanos {
        self.checkpoint.unwrap_or(Nanos::secs(1))
    }

    /// True if it can work on another one's records: it has to know their number.
    pub fn may_follow(&self, before: &Self) -> bool {
        let kept = |ycsb: &Self| (ycsb.engine, ycsb.records, ycsb.cache);
        let all_are_there = before.workload != CoreWorkload::Load || before.operations.is_none();
        all_are_there
            && before.most_inserts() == 0
            && self.workload != CoreWorkload::Load
            && kept(self) == kept(before)
    }

    /// `100000 records of 1000 bytes (95.4 MiB), a cache of 16 MiB, a checkpoint every 1s`.
    pub fn data(&self) -> String {
        let bytes = u64::from(FIELDS) * FIELD_BYTES as u64;
        let all = Bytes(self.records.saturating_mul(bytes)).human();
        let checkpoints =
            self.period().map_or_else(String::new, |pause| format!(", a checkpoint every {pause}"));
        format!(
            "{} records of {bytes} bytes ({all}), a cache of {}{checkpoints}",
            self.records,
            self.cache.human()
        )
    }

    /// Inserts that a run has room for, beyond the records that were loaded: as many again.
    pub fn most_inserts(&self) -> u64 {
        if matches!(self.workload, CoreWorkload::D | CoreWorkload::E) { self.records } else { 0 }
    }
}

impl Behaviour for Ycsb {
    fn words(&self) -> &'static str {
        "records in a key-value engine"
    }

    fn ends(&self) -> bool {
        self.operations.is_some() || self.workload == CoreWorkload::Load
    }

    fn durability(&self) -> Durability {
        match (self.workload, self.engine) {
            (CoreWorkload::C, _) => Durability::ReadsOnly,
            (_, KeyValueEngine::Wiredtiger) => Durability::Periodic,
            _ => Durability::PerRequest,
        }
    }

    fn period(&self) -> Option<Nanos> {
        self.engine.is_wiredtiger().then(|| self.checkpoints_every())
    }

    fn loaded(&self) -> Option<String> {
        let is_loaded = self.workload != CoreWorkload::Load;
        let (engine, period) = (self.engine.name(), self.period());
        is_loaded.then(|| format!("{} records in {engine} with {}, {period:?}", self.records, self.cache))
    }

    fn helper(&self) -> Option<&'static str> {
        self.engine.helper()
    }

    fn takes_rate(&self) -> bool {
        true
    }

    fn space_needed(&self, _threads: u16) -> Bytes {
        // WiredTiger keeps its log from the beginning of one checkpoint to the end of the next.
        let (record, log) = match self.period() {
            Some(pause) => (
                CHECKPOINTED * RECORD_IN_PAGES,
                LOGGED.saturating_mul(2 * (1 + pause.0 / Nanos::secs(1).0)).min(MAX_LOG),
            ),
            None => (RECORD_ON_DEVICE, 0),
        };
        let records = self.records.saturating_add(self.most_inserts());
        Bytes(records.saturating_mul(record).saturating_add(log).saturating_add(Bytes::mib(128).0))
    }

    fn buffers_of_a_thread(&self) -> Bytes {
        Bytes(WRITTEN_FROM)
    }

    fn shared_buffers(&self) -> Bytes {
        Bytes(self.cache.0.saturating_mul(2).saturating_add(ENGINE))
    }

    fn check(&self) -> Result<(), EntryError> {
        if !(1..=1_000_000_000).contains(&self.records) {
            let problem = format!("records = {} is out of range", self.records);
            return Err(entry_error("records", problem, "use 1 to 1000000000"));
        }
        let is_paged = self.engine.is_wiredtiger();
        let least = if is_paged { MIN_CACHE_OF_PAGES } else { Bytes::mib(1) };
        if !(least..=Bytes::gib(1024)).contains(&self.cache) {
            let hint = if is_paged { "use 4MiB to 1TiB" } else { "use 1MiB to 1TiB" };
            let problem = format!("a cache of {} is out of range for the engine {}", self.cache, self.engine);
            return Err(entry_error("cache", problem, hint));
        }
        if let Some(pause) = self.checkpoint {
            let is_whole = pause.0 % Nanos::secs(1).0 == 0 && (Nanos::secs(1)..=MAX_PAUSE).contains(&pause);
            if !is_paged {
                let problem = format!("the engine {} makes no checkpoints by the clock", self.engine);
                return Err(entry_error(
                    "checkpoint",
                    problem,
                    "leave `checkpoint` out, or use the engine `wiredtiger`",
                ));
            }
            if !is_whole {
                let problem = format!("a pause of {pause} between checkpoints is out of range");
                return Err(entry_error("checkpoint", problem, "use whole seconds, 1s to 1h"));
            }
        }
        // YCSB counts them in an `int`.
        if let Some(operations) = self.operations.filter(|count| !(1..=i32::MAX as u64).contains(count)) {
            let hint = "use 1 to 2147483647, or leave it out";
            return Err(entry_error("operations", format!("{operations} operations"), hint));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_wiredtiger_has_checkpoints_by_the_clock() {
        let with = |engine, checkpoint| Ycsb { engine, checkpoint, ..Ycsb::default() }.check();
        let [second, part] = [Nanos::secs(2), Nanos::millis(1500)].map(Some);
        assert!(with(KeyValueEngine::WiredtigerJ, second).is_ok());
        for (engine, pause) in [(KeyValueEngine::Wiredtiger, part), (KeyValueEngine::Sqlite, second)] {
            assert!(with(engine, pause).is_err(), "{engine}");
        }
    }

    #[test]
    fn core_workload_proportions_sum_to_100() {
        for workload in CoreWorkload::ALL {
            let Proportions { read, update, insert, scan, read_modify_write } = workload.proportions();
            assert_eq!(read + update + insert + scan + read_modify_write, 100, "{workload}");
        }
    }
}
