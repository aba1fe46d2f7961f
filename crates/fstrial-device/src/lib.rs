//! Devices that behave as a model says. [`simulator`] is arithmetic: how long would this request take? [`server`] keeps
//! real time by it and holds the data. [`fuse`] shows a served device to the kernel as a file, on which a loop device is
//! a block device like any other; other front ends have the same [`server`].

pub mod backing;
pub mod error;
pub mod fuse;
pub mod rehearsal;
pub mod serve;
pub mod server;
pub mod simulator;

pub use error::DeviceError;
