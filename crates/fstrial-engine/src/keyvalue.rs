//! A load's interface to an engine that keeps records by their keys. The engines themselves are in a separate crate.

use fstrial_model::{
    counter::Counters,
    workload::{KeyValueEngine, Ycsb},
};
use std::{
    fmt::Debug,
    path::Path,
    sync::{Arc, Mutex, PoisonError, Weak},
};

/// Engines by their words.
pub trait KeyValueEngines: Debug + Sync {
    /// Opens the store in a folder for this many threads; makes one without records in a folder that is empty.
    ///
    /// # Errors
    /// The engine's message.
    fn open(&self, settings: &Ycsb, threads: u16, folder: &Path) -> Result<Arc<dyn KeyValueStore>, String>;

    /// The version of an engine; empty if unknown.
    fn version(&self, _engine: KeyValueEngine) -> String {
        String::new()
    }

    /// The counts of all open stores since their opening, together: see [`OpenStores`].
    fn counts(&self) -> Counters {
        Counters::default()
    }
}

/// A store that threads share.
pub trait KeyValueStore: Debug + Send + Sync {
    /// Inserts records before any clock runs, as fast as it can. `next` replaces a key and the fields of its record
    /// with those of the next one, until no record is left. They are durable once the filesystem has been synced.
    ///
    /// # Errors
    /// The engine's message.
    fn load(&self, next: &mut NextRecord<'_>) -> Result<(), String>;

    /// Runs the engine's own integrity check over all records. No session may be open.
    ///
    /// # Errors
    /// The engine's message.
    fn check(&self) -> Result<(), String>;

    /// Its counts since it was opened: checkpoints, compactions.
    fn counts(&self) -> Counters {
        Counters::default()
    }

    /// A thread's own way to the records, made on that thread.
    ///
    /// # Errors
    /// The engine's message.
    fn session(self: Arc<Self>) -> Result<Box<dyn KeyValueSession>, String>;
}

/// The stores that a program has opened.
#[derive(Debug, Default)]
pub struct OpenStores(Mutex<Vec<Weak<dyn KeyValueStore>>>);

impl OpenStores {
    /// None yet.
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Keeps one in mind until it is closed.
    pub fn opened(&self, store: Arc<dyn KeyValueStore>) -> Arc<dyn KeyValueStore> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(&store));
        store
    }

    /// The counts of all open ones, together.
    pub fn counts(&self) -> Counters {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let open = all.iter().filter_map(Weak::upgrade);
        open.fold(Counters::default(), |sum, store| sum.plus(&store.counts()))
    }
}

/// Gives a record: its key, and its fields one after the other, each of
/// [`FIELD_BYTES`](fstrial_model::workload::FIELD_BYTES). Returns true if there was one.
pub type NextRecord<'a> = dyn FnMut(&mut String, &mut Vec<u8>) -> bool + 'a;

/// Result of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scanned {
    /// Bytes of the fields.
    pub bytes: u64,
    /// True if the first record had the requested key.
    pub from_key: bool,
}

/// One thread's use of a store, which may be dropped on another thread. Its writes are as durable as the engine's
/// settings make them when the call returns.
pub trait KeyValueSession: Send {
    /// Reads all fields of a record, one after the other, replacing the content of `into`; returns whether there is
    /// such a record.
    ///
    /// # Errors
    /// The engine's message.
    fn read(&mut self, key: &str, into: &mut Vec<u8>) -> Result<bool, String>;

    /// Writes one field of a record; whether there is such a record.
    ///
    /// # Errors
    /// The engine's message.
    fn update(&mut self, key: &str, field: u16, value: &[u8]) -> Result<bool, String>;

    /// Inserts a record of a key that is new.
    ///
    /// # Errors
    /// The engine's message.
    fn insert(&mut self, key: &str, fields: &[u8]) -> Result<(), String>;

    /// Reads up to `count` records in the order of their keys, from the first at or after `key` on.
    ///
    /// # Errors
    /// The engine's message.
    fn scan(&mut self, key: &str, count: u16) -> Result<Scanned, String>;
}

/// No engine at all: for loads that need none.
#[derive(Debug)]
pub(crate) struct NoEngines;

impl KeyValueEngines for NoEngines {
    fn open(&self, settings: &Ycsb, _: u16, _: &Path) -> Result<Arc<dyn KeyValueStore>, String> {
        Err(format!("{} is not there", settings.engine))
    }
}
