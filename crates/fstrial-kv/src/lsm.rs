//! fjall: a log-structured merge tree. A record is one value; a write of a field writes the record again, as YCSB's binding for
//! such stores does.

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use fstrial_engine::{KeyValueSession, KeyValueStore, NextRecord, Scanned};
use fstrial_model::{units::Bytes, workload::Ycsb};
use std::{
    fmt, fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// The least that its logs may take together; then memtables are written out.
const LOGS: u64 = 64 << 20;
/// Updates of records whose keys share one of these wait for each other.
const STRIPES: usize = 64;

/// How long its threads may take to let go of their files.
const CLOSING: Duration = Duration::from_secs(10);

/// A tree with the records.
pub(crate) struct Tree {
    // In the order in which they are dropped.
    records: Keyspace,
    database: Database,
    _closed: Closed,
    stripes: Vec<Mutex<()>>,
}

/// Waits, when it is dropped, until no file in a folder is open: fjall says that its threads have ended before they let go of
/// theirs, and a filesystem with an open file is not unmounted.
struct Closed(PathBuf);

impl Drop for Closed {
    fn drop(&mut self) {
        let until = Instant::now() + CLOSING;
        while is_open(&self.0) && Instant::now() < until {
            thread::park_timeout(Duration::from_millis(1));
        }
    }
}

/// Whether this process has a file in a folder open.
fn is_open(folder: &Path) -> bool {
    let descriptors = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let mut files = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    files.any(|file| file.starts_with(folder))
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree").finish_non_exhaustive()
    }
}

impl Tree {
    pub(crate) fn open(settings: &Ycsb, folder: &Path) -> Result<Self, String> {
        let Bytes(cache) = settings.cache;
        let builder = Database::builder(folder.join("ycsb")).cache_size(cache).max_journaling_size(LOGS);
        let database = builder.manual_journal_persist(true).open().map_err(said)?;
        // As large as the cache: else all that is written in a run stays in memory.
        let options = || KeyspaceCreateOptions::default().max_memtable_size(cache);
        let records = database.keyspace("usertable", options).map_err(said)?;
        let home = fs::canonicalize(folder.join("ycsb")).map_err(|e| e.to_string())?;
        Ok(Self {
            records,
            database,
            _closed: Closed(home),
            stripes: (0..STRIPES).map(|_| Mutex::new(())).collect(),
        })
    }

    fn stripe(&self, key: &str) -> &Mutex<()> {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        &self.stripes[hasher.finish() as usize % STRIPES]
    }

    /// Makes what was written durable.
    fn commit(&self) -> Result<(), String> {
        self.database.persist(PersistMode::SyncData).map_err(said)
    }
}

impl KeyValueStore for Tree {
    fn load(&self, next: &mut NextRecord<'_>) -> Result<(), String> {
        let (mut key, mut fields) = (String::new(), Vec::new());
        while next(&mut key, &mut fields) {
            self.records.insert(key.as_str(), fields.as_slice()).map_err(said)?;
        }
        self.records.rotate_memtable_and_wait().map_err(said)?;
        self.commit()
    }

    /// fjall has no integrity check, but it verifies the checksum of every block that it reads.
    fn check(&self) -> Result<(), String> {
        self.records.iter().try_for_each(|record| record.into_inner().map(drop).map_err(said))
    }

    fn session(self: Arc<Self>) -> Result<Box<dyn KeyValueSession>, String> {
        Ok(Box::new(Session { tree: self, record: Vec::new() }))
    }
}

/// A thread's use of the tree.
struct Session {
    tree: Arc<Tree>,
    /// A record with a field that was changed.
    record: Vec<u8>,
}

impl KeyValueSession for Session {
    fn read(&mut self, key: &str, into: &mut Vec<u8>) -> Result<bool, String> {
        into.clear();
        let found = self.tree.records.get(key).map_err(said)?;
        Ok(found.map(|record| into.extend_from_slice(&record)).is_some())
    }

    fn update(&mut self, key: &str, field: u16, value: &[u8]) -> Result<bool, String> {
        let guard = self.tree.stripe(key).lock().unwrap_or_else(PoisonError::into_inner);
        let Some(record) = self.tree.records.get(key).map_err(said)? else { return Ok(false) };
        self.record.clear();
        self.record.extend_from_slice(&record);
        let at = usize::from(field) * value.len();
        self.record[at..at + value.len()].copy_from_slice(value);
        self.tree.records.insert(key, self.record.as_slice()).map_err(said)?;
        drop(guard);
        self.tree.commit().map(|()| true)
    }

    fn insert(&mut self, key: &str, fields: &[u8]) -> Result<(), String> {
        self.tree.records.insert(key, fields).map_err(said)?;
        self.tree.commit()
    }

    fn scan(&mut self, key: &str, count: u16) -> Result<Scanned, String> {
        let mut found = Scanned { bytes: 0, from_key: false };
        for record in self.tree.records.range(key..).take(usize::from(count)) {
            let (first, fields) = record.into_inner().map_err(said)?;
            found.from_key |= found.bytes == 0 && *first == *key.as_bytes();
            found.bytes += fields.len() as u64;
        }
        Ok(found)
    }
}

/// What fjall says of a failure.
fn said(error: fjall::Error) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::workload::KeyValueEngine;

    #[test]
    fn a_tree_that_is_dropped_has_no_file_open() {
        let settings = Ycsb { engine: KeyValueEngine::Fjall, ..Ycsb::default() };
        for _ in 0..300 {
            let folder = tempfile::tempdir().unwrap();
            let tree = Arc::new(Tree::open(&settings, folder.path()).unwrap());
            let mut session = Arc::clone(&tree).session().unwrap();
            (0..20).for_each(|number| session.insert(&format!("user{number}"), &[1; 1000]).unwrap());
            tree.records.rotate_memtable().unwrap();
            drop((session, tree));
            assert!(!is_open(folder.path()));
        }
    }
}
