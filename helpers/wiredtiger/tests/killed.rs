//! A client that is killed, on WiredTiger with writes that wait for the log.

#[path = "../../../crates/fstrial-kv/tests/client/mod.rs"]
mod client;

use fstrial_model::workload::KeyValueEngine;
use fstrial_wiredtiger::Engines;

const ENGINES: [KeyValueEngine; 1] = [KeyValueEngine::WiredtigerJ];
