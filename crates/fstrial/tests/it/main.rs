//! The command from outside: what it answers, what it says when something is wrong, what it leaves behind when it is
//! killed. Most of it needs root and loop devices; without them the tests say `SKIPPED`. Nothing is touched but files in
//! folders of the tests and devices made from them.

mod axes;
mod claims;
mod clients;
mod cluster;
mod daemons;
mod deletion;
mod device;
mod docs;
mod errors;
mod examples;
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
