//! The words of a trial as types: arms, devices, workloads, jobs, measurements, units, and the trial file.
//!
//! Pure: nothing here reads a file, asks the host or keeps time. What two other crates both need lives here.
#![forbid(unsafe_code)]

pub mod ability;
pub mod arm;
pub mod claim;
pub mod device;
pub mod device_model;
pub mod facts;
pub mod filesystem;
pub mod fio;
pub mod job;
pub mod measurement;
pub mod preset;
pub mod profile;
pub mod state;
pub mod trial;
pub mod units;
pub mod workload;
