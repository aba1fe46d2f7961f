//! Reads and writes inside files: every setting of the pattern, and which combinations are possible.

use super::{
    Behaviour, Durability, Pattern,
    behaviour::WRITTEN_FROM,
    combination::Conflict,
    distribution::Distribution,
    entry_error::{EntryError, entry_error},
};
use crate::units::{Bytes, Percent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Reads and writes inside files laid out before the clock starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Io {
    /// Offset of each request.
    pub access: Access,
    /// With [`Access::Random`]: how often each block is drawn.
    #[serde(skip_serializing_if = "Distribution::is_uniform")]
    pub distribution: Distribution,
    /// With [`Access::Random`]: without replacement. Each thread visits every block it works on once in a lap, in an
    /// order drawn again for every lap.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub each_block_once: bool,
    /// Share of requests that read; the others write.
    pub reads: Percent,
    /// Share of reads that are followed by a write of the same block; both together are one operation.
    #[serde(skip_serializing_if = "Percent::is_zero")]
    pub update: Percent,
    /// Choice between reads and writes.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub mix: Mix,
    /// Size of one request.
    pub block_size: Bytes,
    /// Size of all files together; `file_size` in an entry.
    #[serde(alias = "file_size")]
    pub total_size: Bytes,
    /// Distribution of the files over threads.
    pub sharing: Sharing,
    /// Number of files. With [`Sharing::PerThread`] it is the number for each thread.
    pub files: u32,
    /// `O_DIRECT`: past the page cache.
    pub direct: bool,
    /// System calls of requests.
    pub backend: Backend,
    /// Requests each thread keeps in flight (1 for [`Backend::Sync`] and [`Backend::Mmap`]).
    pub depth: u16,
    /// A sync after this many writes of a thread (or requests: [`Io::fsync_counts`]); 0 means never.
    pub fsync_every: u32,
    /// The sync call. [`Backend::Mmap`] calls `msync` instead of `fsync` and `fdatasync`.
    pub fsync: SyncCall,
    /// Requests of all threads together in a phase that runs until it is done; none: one lap over the files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Requests of a file that wait for one another though the kernel lets them go side by side: the file's lock of an old
    /// kernel, planted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serialise: Option<Serialise>,
    /// Durability of each write on return.
    pub open_sync: OpenSync,
    /// Content of the files before the clock starts.
    pub layout: Layout,
    /// Each thread syncs all its files once when its time is over, if it writes at all. The measured time is over as
    /// well: these calls are in no latency and no throughput, but their errors count.
    pub fsync_at_end: bool,
    /// A sync that is due covers every file of the thread, in order, not only those that the thread has written.
    pub fsync_all_files: bool,
    /// Operations counted by [`Io::fsync_every`].
    pub fsync_counts: FsyncCounts,
}

/// Offset of each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Random blocks, uniformly unless a [`Distribution`] is set.
    Random,
    /// One block after the other, from the start again at the end.
    Sequential,
    /// Every write extends the file; at its full size the file is cut to nothing and grows again.
    Append,
    /// Files start empty and are written once from start to end, each to its full size; when all are full, they are
    /// overwritten in the same order and keep their size (sysbench's `seqwr`).
    Extend,
}

impl Access {
    /// True if files start empty and grow by writing, which the bare device cannot do.
    pub fn starts_empty(self) -> bool {
        matches!(self, Self::Append | Self::Extend)
    }
}

/// Choice between reads and writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mix {
    /// Each on its own, at random.
    #[default]
    Drawn,
    /// As sysbench does: a request reads if (R + 1) / (W + 1) < reads / writes, where R and W are the reads and writes
    /// that the thread has completed. One request at a time and 60 % reads give the fixed cycle read, write, read,
    /// write, read.
    Ratio,
}

/// Distribution of the files over threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// All threads use all files.
    Shared,
    /// All threads share the files, but each works only in its own contiguous stretch of them, all of one size.
    Region,
    /// All threads share the files, and their blocks in rotation: of T threads, thread t has blocks t, t + T, t + 2T
    /// and so on (IOR's strided file).
    Strided,
    /// Every thread has separate files.
    PerThread,
    /// All threads use all files from one cursor, as sysbench's do: each takes the next request when it is ready.
    /// [`FsyncCounts::Requests`] and [`Mix::Ratio`] count over all threads.
    Cursor,
}

/// System calls of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// `pread` and `pwrite`.
    Sync,
    /// `preadv` and `pwritev`: neighbouring requests, up to the depth, go out as one call. A request that does not
    /// follow the one before it sends the queued ones.
    Vsync,
    /// Linux AIO, one request for each `io_submit`. Only direct I/O is asynchronous: through the page cache `io_submit`
    /// returns when the request is done.
    Aio,
    /// An `io_uring` for each thread.
    IoUring,
    /// Copies from and to a shared map of each file.
    Mmap,
}

/// System call that writes a file's dirty data to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SyncCall {
    /// `fsync`: makes the data and all metadata of the file durable.
    Fsync,
    /// `fdatasync`: makes the data durable, and only the metadata needed to read them.
    Fdatasync,
    /// `sync_file_range` over the whole file: writes its dirty pages to the device and waits for them. It makes nothing
    /// durable: no metadata is written and the device's cache is not flushed.
    SyncFileRange,
}

/// The part of a request under its file's planted lock, held by one thread at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Serialise {
    /// The whole request, as ext4's `i_mutex` was over direct overwrites until Linux 5.6: with [`Backend::Sync`].
    Io,
    /// Only handing it to the kernel, as XFS's ilock was over the mapping of direct overwrites until Linux 3.5: with
    /// [`Backend::Aio`].
    Submit,
}

/// Durability of each write on return, by a flag of the open file.
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

/// Content of the files before the clock starts; synced in all cases.
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

/// Operations counted by [`Io::fsync_every`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FsyncCounts {
    /// Writes. The write that makes a sync due is complete when the sync is.
    #[default]
    Writes,
    /// Reads and writes, as sysbench counts: a sync comes after every N, if anything was written since the last one. It
    /// belongs to no request: each sync call is recorded separately.
    Requests,
}

impl Behaviour for Io {
    fn words(&self) -> &'static str {
        "reads and writes inside files"
    }

    fn check(&self) -> Result<(), EntryError> {
        let block = self.block_size.0;
        if !(1..=Bytes::mib(64).0).contains(&block) {
            return Err(entry_error(
                "block_size",
                format!("block_size = {} is out of range", self.block_size),
                "use 1 byte to 64MiB; direct I/O takes multiples of 512 bytes",
            ));
        }
        if self.direct && !block.is_multiple_of(512) {
            return Err(entry_error(
                "block_size",
                format!("direct I/O cannot have requests of {}", self.block_size),
                "use a multiple of 512 bytes, or direct = false",
            ));
        }
        if !(1..=100_000).contains(&self.files) {
            return Err(entry_error(
                "files",
                format!("files = {} is out of range", self.files),
                "use 1 to 100000",
            ));
        }
        if self.total_size.0 / u64::from(self.files) < block {
            return Err(entry_error(
                "file_size",
                "a file would be smaller than one request",
                "raise file_size, or lower files or block_size",
            ));
        }
        if self.requests == Some(0) {
            return Err(entry_error("requests", "requests = 0 does nothing", "use 1 or more"));
        }
        for (key, share) in [("reads", self.reads), ("update", self.update)] {
            if !(0.0..=100.0).contains(&share.0) {
                return Err(entry_error(
                    key,
                    format!("{key} = {}% is out of range", share.0),
                    "use 0% to 100%",
                ));
            }
        }
        if !(1..=1024).contains(&self.depth) {
            return Err(entry_error(
                "depth",
                format!("depth = {} is out of range", self.depth),
                "use 1 to 1024",
            ));
        }
        if let Some(Conflict { key, problem, hint }) = self.conflict() {
            return Err(entry_error(key, problem, hint));
        }
        self.check_random()?;
        self.check_growth()?;
        if self.update.0 > 0.0 && self.reads.0 == 0.0 {
            return Err(entry_error(
                "update",
                "the updates are a share of the reads, and nothing is read",
                "set reads, such as reads = \"100%\", or leave update out",
            ));
        }
        Ok(())
    }

    fn ends(&self) -> bool {
        true
    }

    fn goes_on(&self) -> bool {
        self.requests.is_none()
    }

    fn is_buffered_write(&self) -> bool {
        let synced = self.fsync_every > 0 || self.open_sync != OpenSync::None;
        !self.direct && self.writes() && !synced
    }

    fn takes_rate(&self) -> bool {
        true
    }

    fn durability(&self) -> Durability {
        let every_write = self.fsync_every == 1 && self.fsync_counts == FsyncCounts::Writes;
        // sync_file_range makes nothing durable.
        let syncs = self.fsync != SyncCall::SyncFileRange;
        if !self.writes() {
            Durability::ReadsOnly
        } else if self.open_sync != OpenSync::None || (every_write && syncs) {
            Durability::PerRequest
        } else if self.fsync_every > 0 && syncs {
            Durability::Periodic
        } else if self.fsync_at_end && syncs {
            Durability::AtEnd
        } else {
            Durability::None
        }
    }

    fn space_needed(&self, _threads: u16) -> Bytes {
        self.total_size
    }

    fn request_size(&self) -> Option<Bytes> {
        Some(self.block_size)
    }

    fn buffers_of_a_thread(&self) -> Bytes {
        // Each request in flight is read into a separate buffer, and written from a separate stretch with some room.
        let (slots, request) = (u64::from(self.depth), self.block_size.0.next_multiple_of(4096));
        let written = WRITTEN_FROM.max(slots.saturating_mul(request.saturating_add(64 << 10)));
        Bytes(slots.saturating_mul(request).saturating_add(if self.writes() { written } else { 0 }))
    }

    fn runs_on_bare_device(&self) -> bool {
        !self.access.starts_empty()
    }

    fn in_one_folder(&self, clients: u16) -> Result<Pattern, &'static str> {
        if self.sharing == Sharing::Cursor || self.serialise.is_some() {
            return Err("clients on several hosts have no cursor and no planted lock in common");
        }
        if !self.distribution.is_uniform() {
            return Err("each client would have its own hot blocks");
        }
        let times = |amount: u64| amount.saturating_mul(clients.into());
        let total_size = Bytes(times(self.total_size.0));
        Ok(Pattern::Io(Self { total_size, requests: self.requests.map(times), ..self.clone() }))
    }

    fn too_few_blocks(&self, threads: u16) -> Option<(u64, u64)> {
        let (has, wants) = (self.blocks_per_thread(threads), self.blocks_wanted());
        (has < wants).then_some((has, wants))
    }
}

impl Io {
    /// True if any request writes.
    pub fn writes(&self) -> bool {
        self.reads.0 < 100.0 || self.update.0 > 0.0
    }

    /// Whole blocks that each of `threads` threads works on.
    fn blocks_per_thread(&self, threads: u16) -> u64 {
        let (files, threads) = (u64::from(self.files.max(1)), u64::from(threads.max(1)));
        let in_files = |bytes: u64| bytes / files / self.block_size.0.max(1) * files;
        match self.sharing {
            Sharing::Shared | Sharing::Cursor => in_files(self.total_size.0),
            Sharing::Region | Sharing::Strided => in_files(self.total_size.0) / threads,
            Sharing::PerThread => in_files(self.total_size.0 / threads),
        }
    }

    /// Blocks that a thread must have at least, for its access to mean anything.
    fn blocks_wanted(&self) -> u64 {
        self.distribution.blocks_wanted(self.block_size)
    }

    /// Settings that require random access.
    fn check_random(&self) -> Result<(), EntryError> {
        let (law, is_random) = (&self.distribution, self.access == Access::Random);
        if let Some(problem) = law.problem() {
            return Err(entry_error("distribution", problem, "write distribution = \"zipf:0.99\""));
        }
        if !is_random && !law.is_uniform() {
            return Err(entry_error(
                "distribution",
                format!("a distribution of {law} belongs to random access"),
                "use access = \"random\", or leave distribution out",
            ));
        }
        if self.each_block_once && !law.is_uniform() {
            return Err(entry_error(
                "each_block_once",
                format!("every block once in a lap leaves nothing to be drawn as {law}"),
                "leave out each_block_once or distribution",
            ));
        }
        let (has, wants) = (self.blocks_per_thread(1), self.blocks_wanted());
        if has < wants {
            let blocks = if has == 1 { "is one block".into() } else { format!("are {has} blocks") };
            let wants = if wants == 2 { "two".into() } else { wants.to_string() };
            return Err(entry_error(
                "distribution",
                format!("there {blocks} only, and {law} needs {wants}"),
                "raise file_size, or lower block_size",
            ));
        }
        if !is_random && self.each_block_once {
            return Err(entry_error(
                "each_block_once",
                "`without replacement` needs random access",
                "use access = \"random\"; sequential access visits each block once anyway",
            ));
        }
        Ok(())
    }

    /// Restrictions of files that start empty.
    fn check_growth(&self) -> Result<(), EntryError> {
        if !self.access.starts_empty() {
            return Ok(());
        }
        let (word, extend) = if self.access == Access::Append { ("append", false) } else { ("extend", true) };
        if self.reads.0 > 0.0 {
            return Err(entry_error(
                "reads",
                format!("{word}ing workloads only write"),
                "leave reads out, or use access = \"sequential\"",
            ));
        }
        match self.sharing {
            Sharing::PerThread => Ok(()),
            Sharing::Region | Sharing::Strided | Sharing::Cursor if extend => Ok(()),
            Sharing::Shared | Sharing::Region | Sharing::Strided | Sharing::Cursor => Err(entry_error(
                "sharing",
                format!("{word}ing to a shared file is not offered"),
                if extend {
                    "use sharing = \"per-thread\", \"region\", \"strided\" or \"cursor\""
                } else {
                    "use sharing = \"per-thread\""
                },
            )),
        }
    }
}

impl Default for Io {
    /// Random overwrites of 16 KiB in one shared file of 256 MiB, one `pwrite` at a time, through the page cache.
    fn default() -> Self {
        Self {
            access: Access::Random,
            distribution: Distribution::Uniform,
            each_block_once: false,
            reads: Percent(0.0),
            update: Percent(0.0),
            mix: Mix::Drawn,
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
            serialise: None,
            open_sync: OpenSync::None,
            layout: Layout::Written,
            fsync_at_end: false,
            fsync_all_files: false,
            fsync_counts: FsyncCounts::Writes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_refused(all: Vec<(Io, &str)>) {
        for (io, key) in all {
            let error = io.check().unwrap_err();
            assert_eq!(error.key, key, "{io:?}: {}", error.problem);
            assert!(error.hint.is_some());
        }
    }

    #[test]
    fn conflicting_settings_are_refused_at_their_key() {
        let random = Io::default();
        let zipf = Io { distribution: Distribution::Zipf { theta: 0.99 }, ..random.clone() };
        let append = Io { access: Access::Append, sharing: Sharing::PerThread, ..random.clone() };
        let extend = Io { access: Access::Extend, ..append.clone() };
        for good in [
            &random,
            &zipf,
            &append,
            &extend,
            &Io { sharing: Sharing::Region, ..extend.clone() },
            &Io { sharing: Sharing::Region, ..zipf.clone() },
            &Io { each_block_once: true, ..random.clone() },
            &Io { reads: Percent(100.0), update: Percent(10.0), ..zipf.clone() },
            &Io { mix: Mix::Ratio, reads: Percent(60.0), ..random.clone() },
        ] {
            good.check().unwrap_or_else(|e| panic!("{good:?}: {}", e.problem));
        }
        assert_refused(vec![
            (Io { total_size: Bytes::kib(16), ..zipf.clone() }, "distribution"),
            (Io { access: Access::Sequential, ..zipf.clone() }, "distribution"),
            (Io { distribution: Distribution::Zipf { theta: 1.0 }, ..random.clone() }, "distribution"),
            (Io { each_block_once: true, ..zipf }, "each_block_once"),
            (Io { each_block_once: true, ..append.clone() }, "each_block_once"),
            (Io { update: Percent(10.0), ..random }, "update"),
            (Io { update: Percent(10.0), ..append.clone() }, "update"),
            (Io { reads: Percent(10.0), ..extend.clone() }, "reads"),
            (Io { sharing: Sharing::Shared, ..extend }, "sharing"),
            (Io { sharing: Sharing::Region, ..append.clone() }, "sharing"),
            (Io { sharing: Sharing::Shared, ..append }, "sharing"),
        ]);
    }

    #[test]
    fn counts_whole_blocks_per_thread() {
        let io = Io { files: 3, total_size: Bytes(100 * 16384 + 5), ..Io::default() };
        assert_eq!(io.blocks_per_thread(7), 99);
        assert_eq!(Io { sharing: Sharing::Region, ..io.clone() }.blocks_per_thread(7), 14);
        assert_eq!(Io { sharing: Sharing::PerThread, ..io.clone() }.blocks_per_thread(7), 12);
        assert_eq!(Io { sharing: Sharing::PerThread, ..io.clone() }.blocks_per_thread(34), 0);
        assert_eq!(io.blocks_wanted(), 1);
        assert_eq!(Io { distribution: Distribution::Pareto { h: 0.2 }, ..io }.blocks_wanted(), 2);
    }

    #[test]
    fn settings_at_their_defaults_are_not_written() {
        // Stored trials and jobs from before there were these settings stay the same, and are read.
        let text = serde_json::to_string(&Io::default()).unwrap();
        for key in ["distribution", "each_block_once", "update", "mix"] {
            assert!(!text.contains(key), "{text}");
        }
        assert_eq!(serde_json::from_str::<Io>(&text).unwrap(), Io::default());
        let other = Io {
            distribution: Distribution::Hotspot { fraction: 0.2, share: 0.8 },
            each_block_once: true,
            update: Percent(10.0),
            mix: Mix::Ratio,
            ..Io::default()
        };
        let text = serde_json::to_string(&other).unwrap();
        assert_eq!(serde_json::from_str::<Io>(&text).unwrap(), other);
    }
}
