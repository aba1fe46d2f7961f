//! Reads and writes inside files: every setting of the pattern, and which combinations are possible.

use super::{
    combination::Conflict,
    entry::{EntryError, entry_error},
};
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
    /// Requests each thread keeps in flight (1 for [`Backend::Sync`] and [`Backend::Mmap`]).
    pub depth: u16,
    /// A sync after this many writes of a thread (or requests: [`Io::fsync_counts`]); 0 means never.
    pub fsync_every: u32,
    /// Which sync call. [`Backend::Mmap`] calls `msync` instead of `fsync` and `fdatasync`.
    pub fsync: SyncCall,
    /// Requests of all threads together in a phase that runs until it is done; none: one lap over the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// `IORING_SETUP_SQPOLL`: a kernel thread takes the requests of each ring, without a system call.
    #[serde(default)]
    pub sqpoll: bool,
    /// `IORING_SETUP_IOPOLL`: completions are polled from the device instead of interrupting.
    #[serde(default)]
    pub iopoll: bool,
    /// Whether each write is durable when it returns.
    #[serde(default)]
    pub open_sync: OpenSync,
    /// What the files hold before the clock starts.
    #[serde(default)]
    pub layout: Layout,
    /// Each thread syncs all its files once when its time is over, if it writes at all. The measured time is over as
    /// well: these calls are in no latency and no throughput, but their errors count.
    #[serde(default)]
    pub fsync_at_end: bool,
    /// A sync that is due covers every file of the thread, in order, not only those that the thread has written.
    #[serde(default)]
    pub fsync_all_files: bool,
    /// What [`Io::fsync_every`] counts.
    #[serde(default)]
    pub fsync_counts: FsyncCounts,
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
    /// `preadv` and `pwritev`: neighbouring requests, up to the depth, go out as one call. A request that does not
    /// follow the one before it sends what is queued.
    Vsync,
    /// Linux AIO, one request for each `io_submit`. Only direct I/O is asynchronous: through the page cache
    /// `io_submit` returns when the request is done.
    Aio,
    /// An `io_uring` for each thread.
    IoUring,
    /// Copies from and to a shared map of each file.
    Mmap,
}

/// Which sync call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SyncCall {
    /// `fsync`.
    Fsync,
    /// `fdatasync`.
    Fdatasync,
    /// `sync_file_range` over the whole file: writes its dirty pages to the device and waits for them. It makes
    /// nothing durable: no metadata is written and the device's cache is not flushed.
    SyncFileRange,
}

/// Whether each write is durable when it returns, by a flag of the open file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OpenSync {
    /// No flag.
    #[default]
    None,
    /// `O_SYNC`: as if `fsync` followed each write.
    Sync,
    /// `O_DSYNC`: as if `fdatasync` followed each write.
    Dsync,
}

/// What the files hold before the clock starts. Whatever it is, it is synced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Data at full size: writes overwrite. Files to append to start empty all the same.
    #[default]
    Written,
    /// Space at full size from `fallocate`, nothing written: the first write of each block converts it.
    Fallocated,
    /// Full size from `ftruncate`, no space: the first write of each block allocates it.
    Sparse,
    /// Nothing: the load's writes extend the files.
    Empty,
}

/// What [`Io::fsync_every`] counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FsyncCounts {
    /// Writes. The write that makes a sync due is complete when the sync is.
    #[default]
    Writes,
    /// Reads and writes, as sysbench counts: a sync comes after every so many, if anything was written since the last
    /// one. It belongs to no request: each sync call is recorded by itself.
    Requests,
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
        if !(1..=Bytes::mib(64).0).contains(&block) {
            return Err(entry_error(
                "block_size",
                format!("a request of {}", self.block_size),
                "use 1 byte to 64MiB; direct I/O takes multiples of 512 bytes",
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
        match self.conflict() {
            Some(Conflict { key, problem, hint }) => Err(entry_error(key, problem, hint)),
            None => Ok(()),
        }
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
            sqpoll: false,
            iopoll: false,
            open_sync: OpenSync::None,
            layout: Layout::Written,
            fsync_at_end: false,
            fsync_all_files: false,
            fsync_counts: FsyncCounts::Writes,
        }
    }
}
