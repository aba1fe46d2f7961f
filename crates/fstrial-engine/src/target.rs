//! The target of a load, and its permissions there.

use std::path::Path;

/// The target of a load.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// An existing directory; files are made in it and stay there.
    Directory(&'a Path),
    /// A block device, which is overwritten from its start on for as long as the load's `total_size`.
    BlockDevice(&'a Path),
}

/// Permissions on a device that is used as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// Only reads; it is not even opened for writing.
    ReadOnly,
    /// Reads and writes.
    ReadWrite,
}

/// Position of this process among those that work in one place together, each with the same loads: their threads are
/// numbered consecutively, and use the shared files together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat {
    /// From 0 on. The first lays out the shared files, before the others prepare anything.
    pub rank: u16,
    /// Their number.
    pub of: u16,
}

impl Seat {
    /// The seat of a process that works alone.
    pub(crate) const ALONE: Self = Self { rank: 0, of: 1 };

    /// The threads of all, where each has this many.
    pub(crate) fn threads(self, each: u16) -> u32 {
        u32::from(self.of) * u32::from(each)
    }

    /// The number among them of a thread of this one.
    pub(crate) fn thread(self, each: u16, number: usize) -> usize {
        usize::from(self.rank) * usize::from(each) + number
    }
}
