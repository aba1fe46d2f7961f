//! Key-value engines that loads work on, behind the one trait that the load generator knows. Knows no filesystem.
//!
//! An engine runs inside the worker. What its settings make durable when is said with each word in
//! [`KeyValueEngine`]: engines of unequal durability are different workloads.

#![forbid(unsafe_code)]

mod sqlite;

use fstrial_engine::{KeyValueEngines, KeyValueStore};
use fstrial_model::workload::{KeyValueEngine, Ycsb};
use std::{path::Path, sync::Arc};

/// All engines.
#[derive(Debug)]
pub struct Engines;

impl KeyValueEngines for Engines {
    fn create(&self, settings: &Ycsb, threads: u16, folder: &Path) -> Result<Arc<dyn KeyValueStore>, String> {
        match settings.engine {
            KeyValueEngine::Sqlite | KeyValueEngine::SqliteJournal => {
                Ok(Arc::new(sqlite::Database::create(settings, threads, folder)?))
            }
        }
    }
}
