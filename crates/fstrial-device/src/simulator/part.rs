//! Pieces of requests, as members of a device work on them.

use super::Time;

/// Origin of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Purpose {
    /// A request with a waiter.
    Request(u64),
    /// A write in the cache, by its serial.
    WriteOut(u64),
}

/// A piece of a request on one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RequestPart {
    pub(super) purpose: Purpose,
    pub(super) is_write: bool,
    pub(super) offset: u64,
    pub(super) length: u64,
    /// When it came to the member.
    pub(super) came: Time,
}

impl RequestPart {
    pub(super) fn is_write_out(&self) -> bool {
        matches!(self.purpose, Purpose::WriteOut(_))
    }
}
