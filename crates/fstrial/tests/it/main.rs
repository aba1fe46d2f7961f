//! The command from outside: its answers, its messages for wrong input, the state it leaves behind when killed. Most
//! tests need root and loop devices; without them they print `SKIPPED`. Only files in folders of the tests and devices
//! made from them are used.

mod axes;
mod claims;
mod clients;
mod cluster;
mod daemons;
mod deletion;
mod device;
mod docs;
mod durability;
mod errors;
mod examples;
mod explain;
mod fio;
mod home;
mod interrupt;
mod judge;
mod kernel_log;
mod kernels;
mod kill;
mod labs;
#[path = "../made/mod.rs"]
mod made;
mod memory;
mod meta;
mod operations;
mod outputs;
mod places;
mod planted;
mod pty;
mod report;
mod results;
mod serve;
mod servers;
mod states;
mod support;
mod trend;
mod trial;
mod tutorials;
mod watch;
mod workloads;
mod write_log;
