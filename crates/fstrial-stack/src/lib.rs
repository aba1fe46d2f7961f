//! Storage stacks: finding and making devices, mkfs, mount, queue settings, caches, the facts, and taking it all down.
//!
//! Two sides, two processes:
//! - the coordinator makes the trial's device once ([`device`]) and holds it to the end;
//! - a worker, isolated in private namespaces ([`isolation`]), builds one arm on it for one run ([`stack`]).
//!
//! Changes that survive a process's death are written to the [`ledger`] in advance.

pub mod aligned;
mod array;
pub mod base;
pub mod caches;
mod cgroup;
pub mod command;
pub mod confined;
pub mod counters;
pub mod cpu;
pub mod delete;
pub mod descendants;
pub mod device;
pub mod device_number;
pub mod error;
pub mod facts;
mod folder;
pub mod free_space;
#[doc(hidden)]
pub mod fuzzing;
pub mod holders;
pub mod host;
mod ioctl;
pub mod isolation;
pub mod kernel_log;
pub mod ledger;
pub mod log;
pub mod loopdev;
pub mod mapped;
pub mod memory;
mod mount_options;
pub mod mounts;
pub mod named;
pub mod operation;
pub mod private_dir;
mod proc_stat;
pub mod queue;
pub mod signatures;
pub mod stack;
mod sysfs;
mod undoing;

pub use error::StackError;
