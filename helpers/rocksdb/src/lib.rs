//! RocksDB behind the trait of fstrial's load generator, and a worker that has it.

mod engine;

pub use engine::{Engines, version};

#[cfg(test)]
use fstrial_engine::{KeyValueEngines as _, KeyValueStore};
#[cfg(test)]
use fstrial_model::workload::{KeyValueEngine, Ycsb};
#[cfg(test)]
use std::{path::Path, sync::Arc};
#[cfg(test)]
const ENGINES: [KeyValueEngine; 1] = [KeyValueEngine::Rocksdb];

/// Common behaviour of all engines.
#[cfg(test)]
#[path = "../../../crates/fstrial-kv/src/tests.rs"]
mod tests;
