//! A client that is killed, on RocksDB.

#[path = "../../../crates/fstrial-kv/tests/client/mod.rs"]
mod client;

use fstrial_model::workload::KeyValueEngine;
use fstrial_rocksdb::Engines;

const ENGINES: [KeyValueEngine; 1] = [KeyValueEngine::Rocksdb];
