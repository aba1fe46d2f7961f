//! Properties that a pattern reports, so that no other module has to know the list of patterns.

use super::{Durability, Pattern, entry_error::EntryError};
use crate::units::{Bytes, Nanos};

/// The common interface of patterns. Their settings implement this; [`Pattern`](super::Pattern) has a row for them.
pub trait Behaviour {
    /// A short description that fits inside a sentence: "a set of small files".
    fn words(&self) -> &'static str;

    /// Refuses settings that cannot be run anywhere.
    ///
    /// # Errors
    /// The key at fault, the problem and the remedy.
    fn check(&self) -> Result<(), EntryError>;

    /// True if it has an amount to do, so that a phase of it can be over when it is done.
    fn ends(&self) -> bool;

    /// True if it can continue for any length of time.
    fn goes_on(&self) -> bool {
        !self.ends()
    }

    /// True if writes go through the page cache without a sync call, so that writeback is part of the measurement.
    fn is_buffered_write(&self) -> bool {
        false
    }

    /// The durability of its writes.
    fn durability(&self) -> Durability;

    /// Bytes the laid-out files take for `threads` threads, without the filesystem's own needs.
    fn space_needed(&self, threads: u16) -> Bytes;

    /// The interval of a cycle, such as writing a checkpoint; none without one.
    fn period(&self) -> Option<Nanos> {
        None
    }

    /// Identity of data that can be loaded before a trial begins, the same text for the same content; none without such
    /// data.
    fn loaded(&self) -> Option<String> {
        None
    }

    /// The program that has to run it, if it is not fstrial itself.
    fn helper(&self) -> Option<&'static str> {
        None
    }

    /// True if its operations can be offered at a rate.
    fn takes_rate(&self) -> bool {
        false
    }

    /// The size of every read and every write, where all have the same.
    fn request_size(&self) -> Option<Bytes> {
        None
    }

    /// A thread's memory for its reads and writes.
    fn buffers_of_a_thread(&self) -> Bytes {
        Bytes(WRITTEN_FROM + self.request_size().unwrap_or_default().0.min(MAX_PIECE))
    }

    /// Memory of all its threads together, beyond their own.
    fn shared_buffers(&self) -> Bytes {
        Bytes(0)
    }

    /// Default content of its files, if it differs from the device's.
    fn own_content(&self) -> Option<&'static str> {
        None
    }

    /// Its pattern for several clients in one folder, each with the amounts written here.
    ///
    /// # Errors
    /// Why they cannot.
    fn in_one_folder(&self, _clients: u16) -> Result<Pattern, &'static str> {
        Err("only workloads of kind \"io\" and \"flow\" can share their files")
    }

    /// True if it works on a bare device, which has no files to make or extend.
    fn runs_on_bare_device(&self) -> bool {
        false
    }

    /// The blocks that each of `threads` threads has, and those that it needs, if it has too few.
    fn too_few_blocks(&self, _threads: u16) -> Option<(u64, u64)> {
        None
    }
}

/// Random bytes that a thread keeps to write from.
pub(super) const WRITTEN_FROM: u64 = 1 << 20;
/// Files are read and written in pieces of this at most.
const MAX_PIECE: u64 = 1 << 20;

/// A file of 4 KiB blocks, with its inode.
pub(super) const fn space_of_file(size: Bytes) -> u64 {
    size.0.div_ceil(4096).saturating_mul(4096).saturating_add(1024)
}
