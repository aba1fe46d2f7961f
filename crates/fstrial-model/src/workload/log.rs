//! A write-ahead log with many committers: databases' redo logs, with group commit or without.

use super::{
    Behaviour, Durability,
    entry_error::{EntryError, entry_error},
    io::SyncCall,
};
use crate::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A log that all threads commit to. One operation is one durable commit: from the request to the return.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// Size of a commit's record.
    pub record: Bytes,
    /// The call that makes it durable.
    pub call: SyncCall,
    /// One thread writes and syncs for all that wait (group commit); otherwise each for itself, one after the other.
    pub group: bool,
    /// Size of each file.
    pub file_size: Bytes,
    /// Number of files, used one after the other in a ring.
    pub files: u32,
    /// Files start empty and grow to their size; then the next one is made and the oldest deleted, and the directory
    /// is synced. Otherwise all files are there, written whole, and are overwritten in place.
    pub growing: bool,
    /// Commits of each thread; without it until the time is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commits: Option<u64>,
}

impl Default for Log {
    /// Records of 512 bytes, group commit by `fdatasync`, two files of 64 MiB overwritten in place.
    fn default() -> Self {
        Self {
            record: Bytes(512),
            call: SyncCall::Fdatasync,
            group: true,
            file_size: Bytes::mib(64),
            files: 2,
            growing: false,
            commits: None,
        }
    }
}

impl Behaviour for Log {
    fn words(&self) -> &'static str {
        "a log that all threads commit to"
    }

    fn ends(&self) -> bool {
        self.commits.is_some()
    }

    fn durability(&self) -> Durability {
        Durability::PerRequest
    }

    fn takes_rate(&self) -> bool {
        true
    }

    fn space_needed(&self, _threads: u16) -> Bytes {
        Bytes(self.file_size.0.saturating_mul(u64::from(self.files) + 1))
    }

    fn check(&self) -> Result<(), EntryError> {
        if self.call == SyncCall::SyncFileRange {
            return Err(entry_error(
                "call",
                "sync-file-range makes nothing durable",
                "use call = \"fdatasync\" or \"fsync\"",
            ));
        }
        if !(1..=Bytes::mib(1).0).contains(&self.record.0) {
            return Err(entry_error("record", format!("records of {}", self.record), "use 1B to 1MiB"));
        }
        if self.file_size < self.record || self.file_size > Bytes::gib(1024) {
            return Err(entry_error(
                "file_size",
                format!("log files of {}", self.file_size),
                "use at least one record, at most 1TiB",
            ));
        }
        if !(1..=1000).contains(&self.files) {
            return Err(entry_error("files", format!("{} log files", self.files), "use 1 to 1000"));
        }
        Ok(())
    }
}
