//! What is written, and when it is made durable.

use super::{super::value::Value, Files, Mapper, Requests};
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

    /// Checksums in what is written, which nobody looks at.
    pub(super) fn verify(&mut self, requests: Requests) {
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
            return;
        }
        let verifies = self.job.get("do_verify").is_none_or(|setting| setting.value == Value::Switch(true));
        let looks = verifies || requests.has_reads() || self.job.get("verify_backlog").is_some();
        if looks {
            self.reason("verify", "the native engine does not verify what it reads");
            return;
        }
        self.taken.extend(ONLY_WITH_VERIFY);
        self.note(
            "verify",
            "nothing is read back: of it there are only the checksums that fio works out for what it writes, and native \
             threads do not",
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
