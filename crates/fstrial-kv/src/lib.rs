//! Key-value engines that loads work on, behind the one trait that the load generator knows. Knows no filesystem.
//!
//! An engine runs inside the worker. [`KeyValueEngine`] documents the durability of each setting: engines of unequal
//! durability are different workloads.

#![forbid(unsafe_code)]

mod fjall;
pub mod lsm;
mod sqlite;

use self::fjall::Fjall;
use fstrial_engine::{KeyValueEngines, KeyValueStore, OpenStores};
use fstrial_model::{
    counter::Counters,
    workload::{KeyValueEngine, Ycsb},
};
use lsm::Store;
use sqlite::Journal;
use std::{path::Path, sync::Arc};

/// The engines that are linked into this crate.
pub const ENGINES: [KeyValueEngine; 3] =
    [KeyValueEngine::Sqlite, KeyValueEngine::SqliteJournal, KeyValueEngine::Fjall];

static OPEN: OpenStores = OpenStores::new();

/// All of them.
#[derive(Debug)]
pub struct Engines;

impl KeyValueEngines for Engines {
    fn open(&self, settings: &Ycsb, threads: u16, folder: &Path) -> Result<Arc<dyn KeyValueStore>, String> {
        let sqlite = |journal| sqlite::Database::open(journal, settings, threads, folder);
        Ok(OPEN.opened(match settings.engine {
            KeyValueEngine::Sqlite => Arc::new(sqlite(Journal::WriteAhead)?),
            KeyValueEngine::SqliteJournal => Arc::new(sqlite(Journal::Rollback)?),
            KeyValueEngine::Fjall => Arc::new(Store::new(Fjall::open(settings, folder)?)),
            other @ (KeyValueEngine::Rocksdb | KeyValueEngine::Wiredtiger | KeyValueEngine::WiredtigerJ) => {
                return Err(format!("{other} is not linked into this program"));
            }
        }))
    }

    fn version(&self, engine: KeyValueEngine) -> String {
        match engine {
            KeyValueEngine::Sqlite | KeyValueEngine::SqliteJournal => rusqlite::version().into(),
            // fjall reports no version; that of this program identifies it.
            KeyValueEngine::Fjall => concat!("of fstrial ", env!("CARGO_PKG_VERSION")).into(),
            KeyValueEngine::Rocksdb | KeyValueEngine::Wiredtiger | KeyValueEngine::WiredtigerJ => {
                String::new()
            }
        }
    }

    fn counts(&self) -> Counters {
        OPEN.counts()
    }
}

#[cfg(test)]
mod tests;
