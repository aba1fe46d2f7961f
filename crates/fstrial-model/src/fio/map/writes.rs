//! What is written, and when it is made durable.

use super::{super::value::Value, End, Files, Mapper, Requests, Verify};
use crate::{
    units::Percent,
    workload::{Backend, DataKind, Entry, OpenSync, SyncCall},
};

impl Mapper<'_> {
    pub(super) fn sync(
        &mut self,
        requests: Requests,
        files: &Files,
        backend: Backend,
        depth: u64,
    ) -> (u64, SyncCall) {
        if self.take("sync_file_range").is_some() {
            self.reason(
                "sync_file_range",
                "native calls of it cover the whole file and wait, fio's cover what was written since the last one",
            );
        }
        let calls = [
            ("fsync", self.number("fsync"), SyncCall::Fsync),
            ("fdatasync", self.number("fdatasync"), SyncCall::Fdatasync),
        ];
        let mut on =
            calls.into_iter().filter_map(|(key, every, call)| Some((key, every.filter(|n| *n > 0)?, call)));
        let Some((key, every, call)) = on.next() else { return (0, SyncCall::Fsync) };
        if on.next().is_some() {
            self.reason(key, "native threads make one kind of sync call");
        }
        if !requests.writes() {
            self.note(key, "a job that only reads syncs nothing");
            return (0, call);
        }
        if requests.is_mixed {
            self.reason(
                key,
                "in a mix fio syncs after reads, too, while the number of writes is a multiple of it",
            );
        }
        if files.count > 1 {
            self.reason(
                key,
                "of several files fio syncs the one whose turn it is, native threads all they wrote to",
            );
        }
        if depth > 1 {
            self.reason(
                key,
                "fio syncs while other requests are in flight, native threads wait for them first",
            );
        }
        if backend == Backend::IoUring {
            self.note(key, "fio syncs through the ring, native threads with the system call");
        }
        if u32::try_from(every).is_err() {
            self.reason(key, "a number of writes beyond 2^32");
        }
        self.note(
            key,
            "the write and its sync are one native operation, and recorded apart as well; fio does not sync after the \
             last write of a job",
        );
        (every, call)
    }

    pub(super) fn sync_at_end(&mut self, requests: Requests, amount: Option<u64>, call: SyncCall) -> bool {
        let is_on = self.switch("end_fsync").unwrap_or(false) && requests.writes();
        if is_on && amount.is_none() {
            self.reason(
                "end_fsync",
                "fio counts the sync towards its time, native threads sync after theirs",
            );
        }
        if is_on && call != SyncCall::Fsync {
            self.reason("end_fsync", "native threads make one kind of sync call");
        }
        is_on
    }

    pub(super) fn open_sync(&mut self, backend: Backend) -> OpenSync {
        let flag = match self.word("sync") {
            Some("sync" | "1") => OpenSync::Sync,
            Some("dsync") => OpenSync::Dsync,
            _ => OpenSync::None,
        };
        if flag != OpenSync::None && backend == Backend::Mmap {
            self.reason("sync", "it does nothing to memory that is a file; native runs refuse it");
        }
        flag
    }

    /// Checksums in what is written, and whether all of it is read back.
    pub(super) fn verify(&mut self, requests: Requests, end: &End) -> Verify {
        const ONLY_WITH_VERIFY: [&str; 6] = [
            "do_verify",
            "verify_backlog",
            "verify_backlog_batch",
            "verify_fatal",
            "verify_interval",
            "verify_offset",
        ];
        let kind = self.word("verify").unwrap_or("none");
        if ["none", "0"].contains(&kind) {
            for key in ONLY_WITH_VERIFY {
                if self.take(key).is_some() {
                    self.note(key, "without verify it says nothing");
                }
            }
            return Verify::Nothing;
        }
        if ["null", "pattern", "pattern_hdr", "meta"].contains(&kind) {
            self.reason(
                "verify",
                "native blocks have a header with a checksum of all of it, fio's then have none",
            );
        }
        if requests.has_reads() {
            self.reason(
                "verify",
                "fio reads back what a mix wrote after it, and takes what a job finds that only reads for what an earlier \
                 run wrote; native threads know only what they wrote themselves",
            );
        }
        let interval = self.number("verify_interval").filter(|bytes| *bytes > 0);
        if interval.is_some_and(|bytes| bytes != requests.block) || requests.block < 64 {
            self.reason("verify_interval", "native blocks have one checksum each, and at least 64 bytes");
        }
        let shapes = ["zero_buffers", "buffer_compress_percentage", "dedupe_percentage"];
        if let Some(key) = shapes.into_iter().find(|key| self.job.get(key).is_some()) {
            self.reason(key, "with verify fio writes random data, whatever is asked of it");
        }
        self.take("verify_fatal");
        self.note(
            "verify",
            "a crc32c of each block whichever is asked for, and a header of 32 bytes: the same requests, at another cost \
             of the processor, which is inside the time as with fio; a block that is not what was written fails the run",
        );
        if self.switch("do_verify").unwrap_or(true) {
            self.reads_back(requests, end);
            return Verify::ReadBack;
        }
        Verify::Written
    }

    /// When the reads after the writes are a phase like fio's.
    fn reads_back(&mut self, requests: Requests, end: &End) {
        if end.threads > 1 {
            self.reason(
                "verify",
                "each of fio's clones reads back as soon as it has written, native ones all at once",
            );
        }
        if !end.goes_once {
            self.reason(
                "verify",
                "fio reads back whenever it has written `size`, and until its time is over; native phases do so once, and \
                 all of it",
            );
        }
        if requests.is_random && !end.each_block_once {
            self.reason("verify", "without its random map fio reads back in the order of places");
        }
        if requests.has_sizes {
            self.reason(
                "verify",
                "of requests of several sizes fio reads back the same, native threads draw again",
            );
        }
        let Requests { stride, in_a_row, in_place, jumps, .. } = requests;
        if stride.is_some() || in_a_row > 1 || in_place || jumps.is_some() {
            self.reason("verify", "native phases read back in the order of their own requests, which for rows, strides and jumps need not be fio's");
        }
        let is_on = |key| self.job.get(key).is_some_and(|setting| setting.value == Value::Switch(true));
        let is_dropped = self.switch("invalidate").unwrap_or(true) && self.job.get("fadvise_hint").is_none();
        let is_clean = is_on("end_fsync") || end.open_sync != OpenSync::None;
        if !(end.direct || is_clean && is_dropped) || end.backend == Backend::Mmap {
            self.reason(
                "verify",
                "fio reads back through the page cache what is not on the device yet, from memory; native phases begin with \
                 empty caches (direct=1 or end_fsync=1 would make both read the device)",
            );
        }
        if self.job.get("rate").is_some() || self.job.get("rate_iops").is_some() {
            self.reason("verify", "fio reads back as fast as it can, whatever the rate");
        }
        self.note(
            "do_verify",
            "reading back is a phase of its own with a result of its own, which fio reports as the reads of the job; all is \
             synced and all caches are dropped before it, outside the time",
        );
    }

    pub(super) fn data(&mut self, requests: Requests) -> Entry {
        let is_zero = self.switch("zero_buffers").unwrap_or(false);
        let refills = self.switch("refill_buffers").unwrap_or(false);
        let scrambles = self.switch("scramble_buffers");
        let compressible = self.number("buffer_compress_percentage").unwrap_or(0);
        let duplicates = self.number("dedupe_percentage").unwrap_or(0);
        let is_mixed = compressible > 0 || duplicates > 0;
        let of = |kind| Entry { data: Some(kind), ..Entry::default() };
        if is_zero && (is_mixed || refills || scrambles == Some(true)) {
            self.reason("zero_buffers", "with other keys for data it does not mean zeros");
        }
        if is_zero {
            return of(DataKind::Zero);
        }
        if is_mixed {
            let key = if compressible > 0 { "buffer_compress_percentage" } else { "dedupe_percentage" };
            self.note(key, "the same shares, of other bytes");
            let share = |percent: u64| Some(Percent(percent as f64));
            return Entry {
                compressible: share(compressible),
                duplicates: share(duplicates),
                ..of(DataKind::Mixed)
            };
        }
        if requests.writes() && !refills {
            if scrambles == Some(false) {
                self.reason("scramble_buffers", "fio then writes one random buffer over and over");
            } else {
                self.note(
                    "refill_buffers",
                    "fio changes a few words of one random buffer for each write, native writes differ in every page; \
                     neither compresses",
                );
            }
        }
        of(DataKind::Random)
    }
}
