//! What a pattern says of itself, so that nobody else has to know which patterns there are.

use super::{Durability, Pattern, entry_error::EntryError};
use crate::units::{Bytes, Nanos};

/// What every pattern answers. Its settings implement this; [`Pattern`](super::Pattern) has a row for them.
pub trait Behaviour {
    /// What it is, in a few words that fit inside a sentence: "a set of small files".
    fn words(&self) -> &'static str;

    /// Refuses settings that cannot be run anywhere.
    ///
    /// # Errors
    /// The key at fault, what is wrong with it and what to try.
    fn check(&self) -> Result<(), EntryError>;

    /// Whether it has an amount to do, so that a phase of it can be over when it is done.
    fn ends(&self) -> bool;

    /// Whether it can go on for as long as it takes.
    fn goes_on(&self) -> bool {
        !self.ends()
    }

    /// Whether writes go through the page cache without a sync call, so that write-back is part of what is measured.
    fn is_buffered_write(&self) -> bool {
        false
    }

    /// When what it writes is made durable.
    fn durability(&self) -> Durability;

    /// Bytes the laid-out files take for `threads` threads, without the filesystem's own needs.
    fn space_needed(&self, threads: u16) -> Bytes;

    /// How often it repeats a cycle, such as writing a checkpoint; none if it does the same all the time.
    fn period(&self) -> Option<Nanos> {
        None
    }

    /// What it works on and can be loaded before a trial begins, the same text for the same content; none if it has no
    /// such data.
    fn loaded(&self) -> Option<String> {
        None
    }

    /// The program that has to run it, if it is not fstrial itself.
    fn helper(&self) -> Option<&'static str> {
        None
    }

    /// Whether its operations can be offered at a rate.
    fn takes_rate(&self) -> bool {
        false
    }

    /// The size of every read and every write, where all have the same.
    fn request_size(&self) -> Option<Bytes> {
        None
    }

    /// What a thread of it takes for the bytes that it reads and writes.
    fn buffers_of_a_thread(&self) -> Bytes {
        Bytes(WRITTEN_FROM + self.request_size().unwrap_or_default().0.min(MAX_PIECE))
    }

    /// What all its threads take together, beyond their own.
    fn shared_buffers(&self) -> Bytes {
        Bytes(0)
    }

    /// What its files hold unless it is told, where that is not what suits the device.
    fn own_content(&self) -> Option<&'static str> {
        None
    }

    /// What several clients do in one folder, each with the amounts that are written here.
    ///
    /// # Errors
    /// Why they cannot.
    fn in_one_folder(&self, _clients: u16) -> Result<Pattern, &'static str> {
        Err("only workloads of kind \"io\" and \"flow\" can share their files")
    }

    /// Whether it works on a bare device, which has no files to make or to make longer.
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
