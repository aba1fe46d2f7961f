//! fjall: a log-structured merge tree in Rust.

use crate::lsm::Tree;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use fstrial_engine::{NextRecord, Scanned};
use fstrial_model::{
    counter::{Counter, Counters},
    units::Bytes,
    workload::Ycsb,
};
use std::{
    fmt, fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// The least that its logs may take together; then memtables are written out.
const LOGS: u64 = 64 << 20;
/// Time limit for its threads to close their files.
const CLOSING: Duration = Duration::from_secs(10);

/// A tree with the records.
pub(crate) struct Fjall {
    // In the order in which they are dropped.
    records: Keyspace,
    database: Database,
    _closed: Closed,
}

/// Waits, when dropped, until no file in a folder is open: fjall reports the end of its threads before they close their
/// files, and a filesystem with an open file cannot be unmounted.
struct Closed(PathBuf);

impl Drop for Closed {
    fn drop(&mut self) {
        let until = Instant::now() + CLOSING;
        while is_open(&self.0) && Instant::now() < until {
            thread::park_timeout(Duration::from_millis(1));
        }
    }
}

/// True if this process has a file in a folder open.
fn is_open(folder: &Path) -> bool {
    let descriptors = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let mut files = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    files.any(|file| file.starts_with(folder))
}

impl fmt::Debug for Fjall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fjall").finish_non_exhaustive()
    }
}

impl Fjall {
    pub(crate) fn open(settings: &Ycsb, folder: &Path) -> Result<Self, String> {
        let Bytes(cache) = settings.cache;
        let builder = Database::builder(folder.join("ycsb")).cache_size(cache).max_journaling_size(LOGS);
        let database = builder.manual_journal_persist(true).open().map_err(message)?;
        // As large as the cache: else all that is written in a run stays in memory.
        let options = || KeyspaceCreateOptions::default().max_memtable_size(cache);
        let records = database.keyspace("usertable", options).map_err(message)?;
        let home = fs::canonicalize(folder.join("ycsb")).map_err(|e| e.to_string())?;
        Ok(Self { records, database, _closed: Closed(home) })
    }
}

impl Tree for Fjall {
    fn load(&self, next: &mut NextRecord<'_>) -> Result<(), String> {
        let (mut key, mut fields) = (String::new(), Vec::new());
        while next(&mut key, &mut fields) {
            self.put(&key, &fields)?;
        }
        self.records.rotate_memtable_and_wait().map_err(message)?;
        self.commit()
    }

    /// fjall has no integrity check, but it verifies the checksum of every block that it reads.
    fn check(&self) -> Result<(), String> {
        self.records.iter().try_for_each(|record| record.into_inner().map(drop).map_err(message))
    }

    fn get(&self, key: &str, into: &mut Vec<u8>) -> Result<bool, String> {
        let result = self.records.get(key).map_err(message)?;
        Ok(result.map(|record| into.extend_from_slice(&record)).is_some())
    }

    fn put(&self, key: &str, fields: &[u8]) -> Result<(), String> {
        self.records.insert(key, fields).map_err(message)
    }

    fn commit(&self) -> Result<(), String> {
        self.database.persist(PersistMode::SyncData).map_err(message)
    }

    fn scan(&self, key: &str, count: u16) -> Result<Scanned, String> {
        let mut result = Scanned { bytes: 0, from_key: false };
        for record in self.records.range(key..).take(usize::from(count)) {
            let (first, fields) = record.into_inner().map_err(message)?;
            result.from_key |= result.bytes == 0 && *first == *key.as_bytes();
            result.bytes += fields.len() as u64;
        }
        Ok(result)
    }

    fn counts(&self) -> Counters {
        Counters::of(Counter::Compactions, self.database.compactions_completed() as u64)
    }
}

/// The text of an fjall error.
fn message(error: fjall::Error) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::workload::KeyValueEngine;

    #[test]
    fn dropped_tree_closes_its_files() {
        let settings = Ycsb { engine: KeyValueEngine::Fjall, ..Ycsb::default() };
        for _ in 0..300 {
            let folder = tempfile::tempdir().unwrap();
            let tree = Fjall::open(&settings, folder.path()).unwrap();
            (0..20).for_each(|number| tree.put(&format!("user{number}"), &[1; 1000]).unwrap());
            tree.records.rotate_memtable().unwrap();
            drop(tree);
            assert!(!is_open(folder.path()));
        }
    }
}
