//! Devices that behave as a model prescribes. [`simulator`] is arithmetic: the time a request would take. [`server`]
//! keeps real time by it and holds the data. A [`front`] end shows a served device to a kernel: [`fuse`] as a file to
//! the host's, on which a loop device is an ordinary block device, [`nbd`] as a disk to a guest's. [`cuts`] records its
//! requests and gives its contents after a power cut.

pub mod backing;
pub mod cuts;
pub mod error;
pub mod front;
pub mod fuse;
pub mod nbd;
pub mod rehearsal;
pub mod serve;
pub mod server;
pub mod simulator;
mod write_log;

pub use error::DeviceError;
