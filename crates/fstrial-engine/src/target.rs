//! Where a load goes, and what it may do there.

use std::path::Path;

/// Where a load goes.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// An existing directory; files are made in it and stay there.
    Directory(&'a Path),
    /// A block device, which is overwritten from its start on for as long as the load's `total_size`.
    BlockDevice(&'a Path),
}

/// What may be done to a device that is used as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// Only reads; it is not even opened for writing.
    ReadOnly,
    /// Reads and writes.
    ReadWrite,
}
