//! WiredTiger behind the trait of fstrial's load generator, and a worker that has it.

mod calls;
mod engine;

pub use calls::version;
pub use engine::Engines;

#[cfg(test)]
use fstrial_engine::{KeyValueEngines as _, KeyValueStore};
#[cfg(test)]
use fstrial_model::workload::{KeyValueEngine, Ycsb};
#[cfg(test)]
use std::{path::Path, sync::Arc};
#[cfg(test)]
const ENGINES: [KeyValueEngine; 2] = [KeyValueEngine::Wiredtiger, KeyValueEngine::WiredtigerJ];

/// Common behaviour of all engines.
#[cfg(test)]
#[path = "../../../crates/fstrial-kv/src/tests.rs"]
mod tests;
