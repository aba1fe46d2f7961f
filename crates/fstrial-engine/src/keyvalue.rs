//! What a load asks of an engine that keeps records by their keys. The engines themselves are in a crate of their own.

use fstrial_model::workload::Ycsb;
use std::{fmt::Debug, path::Path, sync::Arc};

/// Engines by their words.
pub trait KeyValueEngines: Debug + Sync {
    /// Makes a store without records in a folder that is empty, for this many threads.
    ///
    /// # Errors
    /// It cannot be made; in words.
    fn create(&self, settings: &Ycsb, threads: u16, folder: &Path) -> Result<Arc<dyn KeyValueStore>, String>;
}

/// A store that several threads use at once.
pub trait KeyValueStore: Debug + Send + Sync {
    /// Inserts records before any clock runs, as fast as it can. What was inserted is durable when the filesystem was synced.
    ///
    /// # Errors
    /// What the engine says.
    fn load(&self, records: &mut dyn Iterator<Item = Record<'_>>) -> Result<(), String>;

    /// A thread's own way to the records, made on that thread.
    ///
    /// # Errors
    /// What the engine says.
    fn session(&self) -> Result<Box<dyn KeyValueSession + '_>, String>;
}

/// A key with the fields of its record one after the other, each of [`FIELD_BYTES`](fstrial_model::workload::FIELD_BYTES).
pub type Record<'a> = (&'a str, &'a [u8]);

/// One thread's use of a store. What it writes is as durable as the engine's settings make it when the call returns.
pub trait KeyValueSession {
    /// Reads all fields of a record; gives their bytes, none if there is no such record.
    ///
    /// # Errors
    /// What the engine says.
    fn read(&mut self, key: &str) -> Result<Option<u64>, String>;

    /// Writes one field of a record; whether there is such a record.
    ///
    /// # Errors
    /// What the engine says.
    fn update(&mut self, key: &str, field: u16, value: &[u8]) -> Result<bool, String>;

    /// Inserts a record.
    ///
    /// # Errors
    /// What the engine says; that there is one of this key.
    fn insert(&mut self, key: &str, fields: &[u8]) -> Result<(), String>;

    /// Reads up to `count` records in the order of their keys, from the first at or after `key` on; gives their bytes.
    ///
    /// # Errors
    /// What the engine says.
    fn scan(&mut self, key: &str, count: u16) -> Result<u64, String>;
}

/// No engine at all: for loads that need none.
#[derive(Debug)]
pub(crate) struct NoEngines;

impl KeyValueEngines for NoEngines {
    fn create(&self, settings: &Ycsb, _: u16, _: &Path) -> Result<Arc<dyn KeyValueStore>, String> {
        Err(format!("{} is not there", settings.engine))
    }
}
