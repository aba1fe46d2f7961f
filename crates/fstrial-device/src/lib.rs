//! Devices that behave as a model says. [`simulator`] is arithmetic: how long would this request take? [`server`] keeps
//! real time by it and holds the data. A [`front`] end shows a served device to a kernel: [`fuse`] as a file to that of the host, on which a
//! loop device is a block device like any other, [`nbd`] as a disk to that of a guest.

pub mod backing;
pub mod error;
pub mod front;
pub mod fuse;
pub mod nbd;
pub mod rehearsal;
pub mod serve;
pub mod server;
pub mod simulator;

pub use error::DeviceError;
