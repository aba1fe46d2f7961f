//! Progress of a journal or log: its description in a row, and the counts.
//!
//! A filesystem that has just been made has an empty log. Until it is full for the first time nothing has to be written
//! to its home place to make room: a run that ends before has not paid for that.

use crate::{counter::Counters, units::Bytes};

/// Reader of the progress of a journal or log.
#[derive(Debug, Clone, Copy)]
pub struct LogReader {
    /// The kernel's file with its counters. `{device}` is the device's name in the kernel, `{filesystem}` the folder in
    /// which `devices` lists it.
    pub file: &'static str,
    /// The same of a log on another device, with `{log}` for that one's name, if it is elsewhere.
    pub external: &'static str,
    /// Parses the log's shape from the beginning of the device ([`SUPERBLOCK_BYTES`]).
    pub shape: fn(&[u8]) -> Option<LogShape>,
    /// Parses the counters since the mount.
    pub count: fn(&str, LogShape) -> Option<Counters>,
}

/// Bytes at the beginning of a device in which [`LogReader::shape`] looks.
pub const SUPERBLOCK_BYTES: usize = 4096;

/// A journal or log as described by the superblock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogShape {
    /// Its bytes; none if it fills a separate device, or if there is none.
    pub size: Option<Bytes>,
    /// Bytes of a block.
    pub block: Bytes,
}

/// A little-endian number of a superblock.
pub(super) fn little(block: &[u8], at: usize) -> Option<u64> {
    let bytes = block.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_le_bytes(bytes).into())
}

/// A big-endian number of a superblock.
pub(super) fn big(block: &[u8], at: usize) -> Option<u64> {
    let bytes = block.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_be_bytes(bytes).into())
}
