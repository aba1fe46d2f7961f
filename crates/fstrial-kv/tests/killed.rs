//! A client that is killed, on each engine that is linked.

mod client;

use fstrial_kv::{ENGINES, Engines};
