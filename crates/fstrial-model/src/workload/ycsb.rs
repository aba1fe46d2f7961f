//! The core workloads of YCSB, the Yahoo! Cloud Serving Benchmark: records in a key-value engine that runs inside the worker.

use super::{
    Behaviour, Durability,
    behaviour::WRITTEN_FROM,
    entry_error::{EntryError, entry_error},
};
use crate::{units::Bytes, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Fields of a record, and bytes of each: `fieldcount` and `fieldlength`.
pub const FIELDS: u16 = 10;
/// See [`FIELDS`].
pub const FIELD_BYTES: usize = 100;
/// What a record may take on the device with its key, its index and the room that pages leave; in SQLite it is 1404 bytes.
const RECORD_ON_DEVICE: u64 = 2048;
/// What an engine takes in addition to its cache: memtables, logs, records on their way in.
const ENGINE: u64 = 64 << 20;

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
        /// 95 % reads of what was inserted last, 5 % inserts.
        "d" D,
        /// 95 % scans of 1 to 100 records, 5 % inserts; zipfian.
        "e" E,
        /// Half reads, half reads with an update of what was read; zipfian.
        "f" F,
    }
}

/// How often each operation is drawn, in percent.
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
    /// A key-value engine, with the settings that decide what is durable when.
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
    }
}

/// Records of ten fields of 100 bytes under keys in hashed order, and what all threads do to them. One operation is one call of YCSB's
/// client; every write is a commit of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ycsb {
    /// What is done: `a` to `f`, or `load`.
    pub workload: CoreWorkload,
    /// Who keeps the records: `sqlite`, `sqlite-journal` or `fjall`.
    pub engine: KeyValueEngine,
    /// Records that are there before the clock starts; of `load` those that are inserted.
    pub records: u64,
    /// Memory that the engine caches records in, all threads together. SQLite gives each its share, and forgets it when another thread
    /// commits.
    pub cache: Bytes,
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
            operations: None,
        }
    }
}

impl Ycsb {
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
        match self.workload {
            CoreWorkload::C => Durability::ReadsOnly,
            _ => Durability::PerRequest,
        }
    }

    fn takes_rate(&self) -> bool {
        true
    }

    fn space_needed(&self, _threads: u16) -> Bytes {
        let records = self.records.saturating_add(self.most_inserts());
        Bytes(records.saturating_mul(RECORD_ON_DEVICE).saturating_add(Bytes::mib(128).0))
    }

    fn buffers_of_a_thread(&self) -> Bytes {
        Bytes(WRITTEN_FROM)
    }

    fn shared_buffers(&self) -> Bytes {
        Bytes(self.cache.0.saturating_mul(2).saturating_add(ENGINE))
    }

    fn check(&self) -> Result<(), EntryError> {
        if !(1..=1_000_000_000).contains(&self.records) {
            return Err(entry_error("records", format!("{} records", self.records), "use 1 to 1000000000"));
        }
        if !(Bytes::mib(1)..=Bytes::gib(1024)).contains(&self.cache) {
            return Err(entry_error("cache", format!("a cache of {}", self.cache), "use 1MiB to 1TiB"));
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
    fn every_workload_has_all_of_its_operations() {
        for workload in CoreWorkload::ALL {
            let Proportions { read, update, insert, scan, read_modify_write } = workload.proportions();
            assert_eq!(read + update + insert + scan + read_modify_write, 100, "{workload}");
        }
    }
}
