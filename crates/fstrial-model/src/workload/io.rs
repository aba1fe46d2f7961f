//! Reads and writes inside files: every setting of the pattern, and which combinations are possible.

use super::entry::{EntryError, entry_error};
use crate::units::{Bytes, Percent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Reads and writes inside files laid out before the clock starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Io {
    /// Where each request goes.
    pub access: Access,
    /// Share of requests that read; the others write.
    pub reads: Percent,
    /// Size of one request.
    pub block_size: Bytes,
    /// Size of all files together.
    pub total_size: Bytes,
    /// Who uses which file.
    pub sharing: Sharing,
    /// Number of files. With [`Sharing::PerThread`] it is the number for each thread.
    pub files: u32,
    /// `O_DIRECT`: past the page cache.
    pub direct: bool,
    /// How requests reach the kernel.
    pub backend: Backend,
    /// Requests each thread keeps in flight (1 for [`Backend::Sync`]).
    pub depth: u16,
    /// A sync call after this many writes of a thread; 0 means never.
    pub fsync_every: u32,
    /// Which sync call.
    pub fsync: SyncCall,
    /// Requests of all threads together in a phase that runs until it is done; none: one lap over the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
}

/// Where each request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Uniformly random blocks.
    Random,
    /// One block after the other, from the start again at the end.
    Sequential,
    /// Every write extends the file; at its full size the file is cut to nothing and grows again.
    Append,
}

/// Who uses which file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// All threads use all files.
    Shared,
    /// Every thread has files of its own.
    PerThread,
}

/// How requests reach the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// `pread` and `pwrite`.
    Sync,
    /// An `io_uring` for each thread.
    IoUring,
}

/// Which sync call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SyncCall {
    /// `fsync`.
    Fsync,
    /// `fdatasync`.
    Fdatasync,
}

impl Io {
    /// Bytes of each file when every thread has files of its own; none if files are shared.
    pub fn smallest_file(&self, threads: u16) -> Option<u64> {
        (self.sharing == Sharing::PerThread)
            .then(|| self.total_size.0 / (u64::from(self.files) * u64::from(threads)))
    }

    /// Refuses combinations that cannot be run anywhere.
    pub(crate) fn check(&self) -> Result<(), EntryError> {
        let block = self.block_size.0;
        if !(512..=Bytes::mib(64).0).contains(&block) {
            return Err(entry_error(
                "block_size",
                format!("a request of {}", self.block_size),
                "use 512 bytes to 64MiB",
            ));
        }
        if self.direct && !block.is_multiple_of(512) {
            return Err(entry_error(
                "block_size",
                format!("direct I/O in requests of {}", self.block_size),
                "use a multiple of 512 bytes, or direct = false",
            ));
        }
        if !(1..=100_000).contains(&self.files) {
            return Err(entry_error("files", format!("{} files", self.files), "use 1 to 100000"));
        }
        if self.total_size.0 / u64::from(self.files) < block {
            return Err(entry_error(
                "file_size",
                "a file would be smaller than one request",
                "raise file_size, or lower files or block_size",
            ));
        }
        if self.requests == Some(0) {
            return Err(entry_error("requests", "no request at all", "use at least 1, or leave it out"));
        }
        if !(1..=1024).contains(&self.depth) {
            return Err(entry_error("depth", format!("a depth of {}", self.depth), "use 1 to 1024"));
        }
        if self.depth > 1 && self.backend == Backend::Sync {
            return Err(entry_error(
                "depth",
                "system calls have one request in flight for each thread",
                "use backend = \"io_uring\" for more, or depth = 1",
            ));
        }
        if self.access == Access::Append {
            if self.reads.0 > 0.0 {
                return Err(entry_error(
                    "reads",
                    "appending workloads only write",
                    "leave reads out, or use access = \"sequential\"",
                ));
            }
            if self.sharing == Sharing::Shared {
                return Err(entry_error(
                    "sharing",
                    "appending to a shared file is not offered",
                    "use sharing = \"per-thread\"",
                ));
            }
        }
        Ok(())
    }
}

impl Default for Io {
    /// Random overwrites of 16 KiB in one shared file of 256 MiB, one `pwrite` at a time, through the page cache.
    fn default() -> Self {
        Self {
            access: Access::Random,
            reads: Percent(0.0),
            block_size: Bytes::kib(16),
            total_size: Bytes::mib(256),
            sharing: Sharing::Shared,
            files: 1,
            direct: false,
            backend: Backend::Sync,
            depth: 1,
            fsync_every: 0,
            fsync: SyncCall::Fdatasync,
            requests: None,
        }
    }
}
