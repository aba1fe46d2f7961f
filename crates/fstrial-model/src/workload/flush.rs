//! A database's page flusher: batches of pages at random places, with a doublewrite buffer or without.

use super::{
    Behaviour, Durability,
    entry_error::{EntryError, entry_error},
    io::SyncCall,
};
use crate::units::{Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Batches of pages written to random places of data files. One operation is one batch: with doublewrite the pages go
/// to the doublewrite file first, in one sequential stretch that is synced; then each to its place; then every data
/// file that was written is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Flush {
    /// Data files, which all threads share.
    pub files: u32,
    /// Size of each.
    pub file_size: Bytes,
    /// Size of a page.
    pub page: Bytes,
    /// Pages of a batch.
    pub batch: u32,
    /// Write each batch to the doublewrite file first. Each thread has its own.
    pub doublewrite: bool,
    /// From the start of one batch to the start of the next; 0 is back to back. A batch that takes longer is followed
    /// by the next immediately.
    pub interval: Nanos,
    /// `O_DIRECT`: past the page cache.
    pub direct: bool,
    /// The sync call.
    pub sync: SyncCall,
    /// Batches of each thread; without it until the time is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batches: Option<u64>,
}

impl Default for Flush {
    /// As InnoDB: 16 KiB pages, batches of 64, doublewrite, direct; one data file of 256 MiB.
    fn default() -> Self {
        Self {
            files: 1,
            file_size: Bytes::mib(256),
            page: Bytes::kib(16),
            batch: 64,
            doublewrite: true,
            interval: Nanos(0),
            direct: true,
            sync: SyncCall::Fsync,
            batches: None,
        }
    }
}

impl Flush {
    /// Bytes of one batch.
    pub const fn batch_bytes(&self) -> u64 {
        self.page.0.saturating_mul(self.batch as u64)
    }
}

impl Behaviour for Flush {
    fn words(&self) -> &'static str {
        "a database's page flusher"
    }

    fn ends(&self) -> bool {
        self.batches.is_some()
    }

    fn durability(&self) -> Durability {
        Durability::Periodic
    }

    /// An interval already schedules its batches.
    fn takes_rate(&self) -> bool {
        self.interval == Nanos(0)
    }

    fn period(&self) -> Option<Nanos> {
        Some(self.interval).filter(|interval| *interval > Nanos(0))
    }

    fn space_needed(&self, threads: u16) -> Bytes {
        let data = self.file_size.0.saturating_mul(u64::from(self.files));
        let doublewrite =
            if self.doublewrite { self.batch_bytes().saturating_mul(u64::from(threads)) } else { 0 };
        Bytes(data.saturating_add(doublewrite))
    }

    fn check(&self) -> Result<(), EntryError> {
        if self.sync == SyncCall::SyncFileRange {
            return Err(entry_error(
                "sync",
                "sync-file-range makes nothing durable",
                "use sync = \"fdatasync\" or \"fsync\"",
            ));
        }
        if !(512..=Bytes::mib(1).0).contains(&self.page.0)
            || (self.direct && !self.page.0.is_multiple_of(512))
        {
            return Err(entry_error(
                "page",
                format!("pages of {}", self.page),
                "use 512B to 1MiB, a multiple of 512 with direct = true",
            ));
        }
        if !(1..=1_000_000).contains(&self.batch) {
            return Err(entry_error(
                "batch",
                format!("batch = {} is out of range", self.batch),
                "use 1 to 1000000",
            ));
        }
        if !(1..=10_000).contains(&self.files) {
            return Err(entry_error(
                "files",
                format!("files = {} is out of range", self.files),
                "use 1 to 10000",
            ));
        }
        if self.file_size < self.page || self.file_size > Bytes::gib(1024) {
            return Err(entry_error(
                "file_size",
                format!("data files of {}", self.file_size),
                "use at least one page, at most 1TiB",
            ));
        }
        if self.interval > Nanos::secs(86_400) {
            return Err(entry_error("interval", "batches more than a day apart", "use 0s to 1d, such as 5s"));
        }
        Ok(())
    }
}
