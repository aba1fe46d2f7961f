//! Pieces of requests, as members of a device work on them.

use super::Time;

/// What a part belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Purpose {
    /// A request that somebody waits for.
    Request(u64),
    /// A write in the cache, by its serial.
    WriteOut(u64),
}

/// A piece of a request on one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part {
    pub(super) purpose: Purpose,
    pub(super) is_write: bool,
    pub(super) offset: u64,
    pub(super) length: u64,
    /// When it came to the member.
    pub(super) came: Time,
}

impl Part {
    pub(super) fn is_write_out(&self) -> bool {
        matches!(self.purpose, Purpose::WriteOut(_))
    }
}
