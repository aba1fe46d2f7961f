//! From a job to its native form: each rule says when fio and the load engine do the same, and why not where they do not.
//!
//! What fio does was read in its manual and source and seen with strace (fio 3.33): `docs/fio.md` has the findings. A
//! setting that no rule here has taken makes the job run through fio, so nothing is ever silently ignored.

use super::{
    keys::Treatment,
    parse::{Job, Setting},
    value::Value,
};
use crate::{
    units::{Bytes, Nanos, Percent},
    workload::{
        Access, Advice, Arrivals, Backend, DataKind, Distribution, Entry, Layout, OpenSync, Rate, Sharing,
        SyncCall, Until,
    },
};
use std::collections::BTreeSet;

/// Something to say about a key: why it has no native form, or what is different about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Remark {
    /// The line of the key, from 1; of the job's section if the key is not written.
    pub line: usize,
    /// The key.
    pub key: &'static str,
    /// Whether the key is written; if not, fio's default is meant.
    pub is_written: bool,
    /// What there is to say, in lower case.
    pub text: String,
}

/// What became of one job.
pub(crate) struct Mapped {
    /// What its threads do, as a group with times of its own.
    pub(crate) entry: Entry,
    pub(crate) reasons: Vec<Remark>,
    pub(crate) notes: Vec<Remark>,
}

/// Smallest and largest request, and measured time, of the load engine.
const BLOCKS: std::ops::RangeInclusive<u64> = 1..=64 << 20;
/// Direct requests are multiples of this.
const SECTOR: u64 = 512;
const DURATIONS: std::ops::RangeInclusive<u64> = 50_000_000..=86_400_000_000_000;
const PAGE: u64 = 4096;
/// The longest that a phase may take that runs until it is done.
pub(super) const LONGEST: Nanos = Nanos::secs(86_400);

struct Mapper<'a> {
    job: &'a Job,
    taken: BTreeSet<&'static str>,
    reasons: Vec<Remark>,
    notes: Vec<Remark>,
}

/// What the requests are, before everything else.
#[derive(Clone, Copy)]
struct Requests {
    is_random: bool,
    is_mixed: bool,
    /// Percent.
    reads: u64,
    block: u64,
}

impl Requests {
    fn writes(self) -> bool {
        self.reads < 100
    }

    fn has_reads(self) -> bool {
        self.reads > 0 || self.is_mixed
    }
}

/// The files of a job.
struct Files {
    total: u64,
    each_clone: u64,
    count: u64,
    /// Whether each request goes to the next one.
    by_turns: bool,
    sharing: Sharing,
}

/// When a job ends.
struct Timing {
    warmup: Nanos,
    duration: Nanos,
    /// What each clone transfers, if that is its end.
    amount: Option<u64>,
    /// Whether the files are gone through more than once.
    repeats: bool,
}

/// Maps a job that was checked.
pub(crate) fn map(job: &Job) -> Mapped {
    let mut mapper = Mapper { job, taken: BTreeSet::new(), reasons: Vec::new(), notes: Vec::new() };
    let entry = mapper.job();
    mapper.rest();
    Mapped { entry, reasons: mapper.reasons, notes: mapper.notes }
}

/// Remarks and access to settings.
impl<'a> Mapper<'a> {
    fn take(&mut self, key: &'static str) -> Option<&'a Setting> {
        self.taken.insert(key);
        self.job.get(key).map(|setting| &**setting)
    }

    fn remark(&self, key: &'static str, text: impl Into<String>) -> Remark {
        let setting = self.job.get(key);
        Remark {
            line: setting.filter(|setting| setting.is_written).map_or(self.job.line, |setting| setting.line),
            key,
            is_written: setting.is_some_and(|setting| setting.is_written),
            text: text.into(),
        }
    }

    /// The job cannot run natively, because of this key.
    fn reason(&mut self, key: &'static str, text: impl Into<String>) {
        let remark = self.remark(key, text);
        self.reasons.push(remark);
    }

    fn note(&mut self, key: &'static str, text: impl Into<String>) {
        let remark = self.remark(key, text);
        self.notes.push(remark);
    }

    fn word(&mut self, key: &'static str) -> Option<&'a str> {
        self.take(key).map(|setting| setting.text.as_str())
    }

    fn switch(&mut self, key: &'static str) -> Option<bool> {
        match self.take(key)?.value {
            Value::Switch(on) => Some(on),
            _ => None,
        }
    }

    fn number(&mut self, key: &'static str) -> Option<u64> {
        match self.take(key)?.value {
            Value::Number(number) => Some(number),
            Value::Percent(_) => {
                self.reason(key, "native sizes are bytes, not shares of a file that is not there yet");
                None
            }
            _ => None,
        }
    }

    fn time(&mut self, key: &'static str) -> Nanos {
        match self.take(key).map(|setting| &setting.value) {
            Some(Value::Time(time)) => *time,
            _ => Nanos(0),
        }
    }

    /// The value for reads and the one for writes. None where there is none.
    fn by_direction(&mut self, key: &'static str) -> [Option<u64>; 2] {
        match self.take(key).map(|setting| &setting.value) {
            Some(Value::Numbers(list)) => {
                let first = list.first().copied().flatten();
                [first, if list.len() > 1 { list[1] } else { first }]
            }
            _ => [None, None],
        }
    }

    /// Everything that no rule has looked at.
    fn rest(&mut self) {
        for setting in &self.job.settings {
            let key = setting.key;
            if self.taken.contains(key.name) {
                continue;
            }
            match key.treatment {
                _ if key.is_neutral(&setting.text) => {}
                Treatment::Note => self.note(key.name, key.why),
                Treatment::Exact | Treatment::Foreign | Treatment::Refused => self.reason(key.name, key.why),
            }
        }
    }
}

/// The rules.
impl Mapper<'_> {
    fn job(&mut self) -> Entry {
        for key in ["name", "kb_base"] {
            self.take(key);
        }
        let requests = self.requests();
        let threads = self.number("numjobs").unwrap_or(1);
        let files = self.files(requests, threads);
        let timing = self.timing(requests, &files);
        let (backend, depth) = self.engine();
        let direct = self.direct();
        if direct && !requests.block.is_multiple_of(SECTOR) {
            self.reason("bs", "native direct requests are multiples of 512 bytes");
        }
        let layout = self.layout(requests, backend);
        let (fsync_every, fsync) = self.sync(requests, &files, backend, depth);
        let (advice, cold_laps) = self.page_cache(requests, &timing, backend, direct, layout);
        self.threads(threads, backend);
        let access = self.access(requests, &files, layout);
        let (distribution, each_block_once) = self.distribution(requests, &files, threads);
        let open_sync = self.open_sync(backend);
        self.verify(requests);
        let fsync_at_end = self.sync_at_end(requests, timing.amount, fsync);
        let is = |on: bool| on.then_some(true);
        let what = Entry {
            name: Some(self.job.name.clone()),
            workers: Some(u16::try_from(threads).unwrap_or(u16::MAX)),
            access: Some(access),
            distribution: (!distribution.is_uniform()).then_some(distribution),
            each_block_once: is(each_block_once),
            reads: Some(Percent(requests.reads as f64)),
            block_size: Some(Bytes(requests.block)),
            file_size: Some(Bytes(files.total)),
            sharing: Some(files.sharing),
            files: Some(u32::try_from(files.count).unwrap_or(u32::MAX)),
            direct: Some(direct),
            open_sync: (open_sync != OpenSync::None).then_some(open_sync),
            backend: Some(backend),
            depth: Some(u16::try_from(depth).unwrap_or(u16::MAX)),
            sqpoll: is(self.ring_switch("sqthread_poll", backend)),
            iopoll: is(self.polls(backend, direct)),
            fsync_every: (fsync_every > 0).then_some(u32::try_from(fsync_every).unwrap_or(u32::MAX)),
            fsync: (fsync_every > 0 || fsync_at_end).then_some(fsync),
            fsync_at_end: is(fsync_at_end),
            layout: (!access.starts_empty()).then_some(layout),
            round_robin: is(files.by_turns),
            advice: (advice != Advice::None).then_some(advice),
            cold_laps: is(cold_laps),
            rate: self.rate(requests, threads),
            ..self.data(requests)
        };
        match timing.amount {
            None => Entry {
                until: Some(Until::Time),
                warmup: Some(timing.warmup),
                duration: Some(timing.duration),
                ..what
            },
            // fio's amount is each clone's, an entry's that of all its threads.
            Some(amount) => Entry {
                until: Some(Until::Done),
                duration: Some(LONGEST),
                requests: Some((amount / requests.block).saturating_mul(threads)),
                ..what
            },
        }
    }

    fn requests(&mut self) -> Requests {
        let text = self.word("rw").unwrap_or("read");
        let (word, modifier) = text.split_once(':').map_or((text, false), |(word, _)| (word, true));
        if modifier {
            self.reason("rw", "native offsets have no modifier");
        }
        if word.contains("trim") {
            self.reason("rw", "the native engine does not trim");
        }
        let is_mixed = ["rw", "readwrite", "randrw"].contains(&word);
        let mut reads = if word.ends_with("read") { 100 } else { 0 };
        let shares = [self.number("rwmixread"), self.number("rwmixwrite").map(|share| 100 - share.min(100))];
        if is_mixed {
            let is_write_later = self.job.position("rwmixwrite") > self.job.position("rwmixread");
            let [first, second] = if is_write_later { [shares[1], shares[0]] } else { shares };
            reads = first.or(second).unwrap_or(50);
        }
        let is_random = word.starts_with("rand");
        if is_mixed && !is_random && reads > 0 && reads < 100 {
            self.reason(
                "rw",
                "fio keeps one place for reads and one for writes; native threads have one for both",
            );
        }
        Requests { is_random, is_mixed, reads, block: self.block(is_mixed, reads) }
    }

    fn block(&mut self, is_mixed: bool, reads: u64) -> u64 {
        let [read, write] = self.by_direction("bs").map(|size| size.unwrap_or(PAGE));
        let block = if reads == 0 { write } else { read };
        if is_mixed && read != write {
            self.reason("bs", "native reads and writes have one size");
        }
        if !BLOCKS.contains(&block) {
            self.reason("bs", "native requests have at most 64 MiB");
        }
        let aligned = self.by_direction("ba");
        if aligned.iter().flatten().any(|size| *size != block && *size != 0) {
            self.reason("ba", "native offsets are multiples of the block size");
        }
        block.max(1)
    }

    fn files(&mut self, requests: Requests, threads: u64) -> Files {
        let mut size = self.number("size");
        let mut count = self.number("nrfiles").unwrap_or(1);
        let named = self.take("filename").map(|setting| setting.text.split(':').collect::<Vec<_>>());
        let format = self.word("filename_format").unwrap_or("$jobnum.$filenum");
        if self.job.get("filename_format").is_some() {
            self.note("filename_format", "native files have names of their own");
        }
        let is_named = named.is_some() || !format.contains("$jobnum");
        if let Some(names) = named {
            count = self.named(&names);
        } else if count > 1 && !format.contains("$filenum") {
            self.reason("filename_format", "without $filenum all files of a clone are one");
        }
        if let Some(each) = self.file_size() {
            let together = each.saturating_mul(count);
            if size.is_some_and(|size| size != together) {
                self.reason("filesize", "native threads transfer what their files hold");
            }
            size = Some(together);
        }
        let each_clone = size.unwrap_or(requests.block);
        if !each_clone.is_multiple_of(count) || !(each_clone / count).is_multiple_of(requests.block) {
            self.reason("size", "native files are whole numbers of requests");
        }
        let by_turns = count > 1 && self.service(requests.is_random);
        self.take("file_service_type");
        if count > 100_000 {
            self.reason("nrfiles", "native threads have at most 100000 files");
        }
        let sharing = self.sharing(requests, threads, is_named, each_clone);
        if count > 1 && sharing == Sharing::Region {
            self.reason("offset_increment", "native regions are those of one file");
        }
        let parts = if sharing == Sharing::Shared { 1 } else { threads };
        Files { total: each_clone.saturating_mul(parts), each_clone, count, by_turns, sharing }
    }

    /// How many files a list of names comes to.
    fn named(&mut self, names: &[&str]) -> u64 {
        let count = names.len() as u64;
        if let Some(Value::Number(asked)) = self.job.get("nrfiles").map(|setting| &setting.value)
            && *asked != count
        {
            match count {
                1 => self.note("nrfiles", "`filename` names the one file, and this says nothing"),
                _ => self.reason("nrfiles", "which of the named files it means is left to fio"),
            }
        }
        if names.iter().collect::<BTreeSet<_>>().len() != names.len() {
            self.reason("filename", "a file is named twice; native threads have each file once");
        }
        count
    }

    /// The size of each file, if it is given as one.
    fn file_size(&mut self) -> Option<u64> {
        match self.take("filesize")?.value {
            Value::Number(size) => Some(size),
            _ => {
                self.reason("filesize", "native files all have one size");
                None
            }
        }
    }

    /// Whether requests go from file to file by turns.
    fn service(&mut self, is_random: bool) -> bool {
        match (self.word("file_service_type"), is_random) {
            (None | Some("roundrobin" | "roundrobin:1"), _) => return true,
            (Some("random"), true) => {
                self.note("file_service_type", "a file and a block in it are drawn, from another generator");
            }
            (Some("sequential"), false) => {}
            _ => self.reason(
                "file_service_type",
                "native threads take the files by turns (roundrobin), draw one (random access) or finish one first \
                 (sequential access)",
            ),
        }
        false
    }

    fn sharing(&mut self, requests: Requests, threads: u64, is_named: bool, each_clone: u64) -> Sharing {
        let step = self.number("offset_increment").unwrap_or(0);
        match (is_named, threads, step) {
            (_, 1, _) | (false, _, 0) => Sharing::PerThread,
            (true, _, 0) => {
                if !requests.is_random {
                    self.reason(
                        "filename",
                        "fio's clones all start at the beginning of the shared file; native threads start at evenly \
                         spaced places",
                    );
                }
                Sharing::Shared
            }
            (true, _, step) if step == each_clone => Sharing::Region,
            _ => {
                self.reason("offset_increment", "native regions are as large as what each thread transfers");
                Sharing::PerThread
            }
        }
    }

    fn timing(&mut self, requests: Requests, files: &Files) -> Timing {
        let runtime = self.time("runtime");
        let warmup = self.time("ramp_time");
        let asked = self.number("io_size");
        let limit = self.number("number_ios");
        let loops = self.number("loops").unwrap_or(1);
        if runtime.0 > 0 && !DURATIONS.contains(&runtime.0) {
            self.reason("runtime", "native runs take 50ms to 1d");
        }
        if self.switch("time_based").unwrap_or(false) {
            if asked.is_some_and(|bytes| bytes != files.each_clone) {
                self.reason("io_size", "with time_based fio begins again after so many bytes");
            }
            if limit.is_some() {
                self.reason("number_ios", "with time_based fio begins again after so many requests");
            }
            self.note(
                "time_based",
                "fio reopens its files and empties its queue whenever it has gone through `size`; native threads go on",
            );
            if loops > 1 {
                self.note("loops", "with time_based fio goes on until the time is over in any case");
            }
            return Timing { warmup, duration: runtime, amount: None, repeats: true };
        }
        if warmup.0 > 0 {
            self.reason("ramp_time", "what fio transfers before the clock starts counts towards its size");
        }
        if loops > 1 && (asked.is_some_and(|bytes| bytes != files.each_clone) || limit.is_some()) {
            self.reason(
                "loops",
                "each of fio's loops begins at the first block again, wherever the one before it ended",
            );
        }
        if loops > 1 && self.switch("end_fsync").unwrap_or(false) {
            self.reason("loops", "fio syncs at the end of each, native threads once");
        }
        let amount = asked.unwrap_or(files.each_clone).saturating_mul(loops);
        let repeats = amount > files.each_clone;
        let amount = limit.map_or(amount, |limit| amount.min(limit.saturating_mul(requests.block)));
        if !amount.is_multiple_of(requests.block) {
            self.reason("io_size", "native threads transfer whole numbers of requests");
        }
        if runtime.0 > 0 {
            self.reason(
                "runtime",
                "fio ends when `size` is transferred or the time is over, whichever comes first; native phases have one \
                 end (time_based would make it the time)",
            );
        }
        Timing { warmup: Nanos(0), duration: LONGEST, amount: Some(amount), repeats }
    }

    fn engine(&mut self) -> (Backend, u64) {
        let engine = self.word("ioengine").unwrap_or("psync");
        let depth = self.number("iodepth").unwrap_or(1);
        let backend = match engine {
            "sync" => {
                self.note(
                    "ioengine",
                    "fio's `sync` moves the file's position first where it must; here `pread` and `pwrite`",
                );
                Backend::Sync
            }
            "vsync" => {
                if depth > 1 {
                    self.reason("ioengine", "when fio's `vsync` sends the neighbouring requests that it has joined is left to fio");
                }
                self.note(
                    "ioengine",
                    "fio's `vsync` moves the file's position first; here `preadv` and `pwritev`",
                );
                Backend::Vsync
            }
            "pvsync" => Backend::Vsync,
            "pvsync2" => {
                self.note(
                    "ioengine",
                    "fio calls `preadv2` and `pwritev2` without flags; here `preadv` and `pwritev`",
                );
                Backend::Vsync
            }
            "libaio" => Backend::Aio,
            "io_uring" => {
                self.note(
                    "ioengine",
                    "native rings register files and buffers where the kernel can, fio's only when asked",
                );
                Backend::IoUring
            }
            "mmap" => Backend::Mmap,
            "psync" => Backend::Sync,
            _ => {
                self.reason("ioengine", "the native engine has no such way to the kernel");
                Backend::Sync
            }
        };
        if depth > 1024 {
            self.reason("iodepth", "native queues hold at most 1024 requests");
        }
        match backend {
            Backend::Aio | Backend::IoUring => {
                if depth > 1 && backend == Backend::IoUring {
                    self.note(
                        "iodepth",
                        "fio submits requests one by one, native threads all that are free at once",
                    );
                }
                (backend, depth)
            }
            Backend::Sync | Backend::Vsync | Backend::Mmap => {
                if depth > 1 {
                    self.note("iodepth", "system calls have one request in flight, with fio too");
                }
                (backend, 1)
            }
        }
    }

    fn direct(&mut self) -> bool {
        let direct = self.switch("direct");
        let buffered = self.switch("buffered").map(|buffered| !buffered);
        let is_buffered_later = self.job.position("buffered") > self.job.position("direct");
        let (last, other) = if is_buffered_later { (buffered, direct) } else { (direct, buffered) };
        let direct = last.or(other).unwrap_or(false);
        if direct && self.word("ioengine") == Some("mmap") {
            self.reason("direct", "memory that is a file has no direct I/O");
        }
        direct
    }

    fn ring_switch(&mut self, key: &'static str, backend: Backend) -> bool {
        let on = self.switch(key).unwrap_or(false);
        if on && backend != Backend::IoUring {
            self.reason(key, "the native engine polls with io_uring only");
        }
        on
    }

    fn polls(&mut self, backend: Backend, direct: bool) -> bool {
        let polls = self.ring_switch("hipri", backend);
        if polls && !direct {
            self.reason("hipri", "native rings poll for direct I/O only");
        }
        polls
    }

    fn layout(&mut self, requests: Requests, backend: Backend) -> Layout {
        let mode = self.word("fallocate").unwrap_or("native");
        let is_overwrite = self.switch("overwrite").unwrap_or(false);
        if requests.has_reads() || is_overwrite || backend == Backend::Mmap {
            if mode != "native" && mode != "none" && mode != "0" {
                self.note("fallocate", "the files are written in full in any case");
            }
            return Layout::Written;
        }
        match mode {
            "none" | "0" => return Layout::Empty,
            "truncate" => return Layout::Sparse,
            "keep" => self.reason("fallocate", "native files with space have their size, too"),
            "native" => self.note(
                "fallocate",
                "as with fio, first writes go to space without data; where a filesystem has no fallocate, fio leaves \
                 the file empty",
            ),
            _ => {}
        }
        Layout::Fallocated
    }

    fn access(&mut self, requests: Requests, files: &Files, layout: Layout) -> Access {
        match (requests.is_random, layout == Layout::Empty) {
            (true, true) if files.sharing == Sharing::Shared => {
                self.reason("fallocate", "native clones do not share a file that is empty");
                Access::Random
            }
            (true, _) => Access::Random,
            (false, false) => Access::Sequential,
            (false, true) => Access::Extend,
        }
    }

    fn sync(&mut self, requests: Requests, files: &Files, backend: Backend, depth: u64) -> (u64, SyncCall) {
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

    fn sync_at_end(&mut self, requests: Requests, amount: Option<u64>, call: SyncCall) -> bool {
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

    fn open_sync(&mut self, backend: Backend) -> OpenSync {
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

    /// What fio tells the kernel of the order of requests, and whether it drops what it has gone through.
    fn page_cache(
        &mut self,
        requests: Requests,
        timing: &Timing,
        backend: Backend,
        direct: bool,
        layout: Layout,
    ) -> (Advice, bool) {
        let hint = self.word("fadvise_hint").unwrap_or("1");
        let invalidates = self.switch("invalidate").unwrap_or(true);
        if direct && backend != Backend::Mmap {
            return (Advice::None, false);
        }
        // A write of part of a page reads the rest of it, and a mapping reads what it writes to.
        let is_partial = !requests.block.is_multiple_of(PAGE) && layout == Layout::Written;
        let reads = requests.has_reads() || is_partial || backend == Backend::Mmap;
        let advice = match hint {
            _ if !reads => Advice::None,
            "0" => Advice::None,
            "random" => Advice::Random,
            "sequential" => Advice::Sequential,
            _ if requests.is_random => Advice::Random,
            _ => Advice::Sequential,
        };
        let cold_laps = timing.repeats && invalidates;
        if cold_laps && backend == Backend::Mmap {
            self.reason(
                "invalidate",
                "whenever fio has gone through `size` it maps the file anew and drops it from the page cache; native \
                 maps stay",
            );
        }
        if !invalidates && reads {
            self.reason(
                "invalidate",
                "fio then reads what its own layout left in memory; native runs start with empty caches",
            );
        }
        (advice, cold_laps)
    }

    fn threads(&mut self, threads: u64, backend: Backend) {
        let is_thread = self.switch("thread").unwrap_or(false);
        self.take("stonewall");
        if is_thread || threads == 1 {
            return;
        }
        if backend == Backend::Mmap {
            self.reason(
                "thread",
                "fio's clones are processes with memory of their own; native threads share theirs",
            );
        } else {
            self.note(
                "thread",
                "fio's clones are processes, native ones threads; the system calls are the same",
            );
        }
    }

    fn distribution(&mut self, requests: Requests, files: &Files, threads: u64) -> (Distribution, bool) {
        let text = self.word("random_distribution").unwrap_or("random");
        let has_map = !self.switch("norandommap").unwrap_or(false);
        if !requests.is_random {
            return (Distribution::Uniform, false);
        }
        let (word, parameter) = text.split_once(':').unwrap_or((text, ""));
        let number: Option<f64> = if parameter.is_empty() { "1.1" } else { parameter }.parse().ok();
        let theta = match (word, number) {
            ("random", _) if parameter.is_empty() => {
                self.note(
                    "rw",
                    "what is drawn comes from another generator, from the seed of the round, the same for every arm",
                );
                return (Distribution::Uniform, has_map);
            }
            ("zipf", Some(theta)) => theta,
            ("pareto" | "normal", _) => {
                self.reason(
                    "random_distribution",
                    "fio scatters what it draws over the file; native hot blocks of this law are neighbours",
                );
                return (Distribution::Uniform, false);
            }
            _ => {
                self.reason(
                    "random_distribution",
                    "the native forms of fio's distributions are random and zipf:THETA",
                );
                return (Distribution::Uniform, false);
            }
        };
        self.zipf(theta, files, threads);
        (Distribution::Zipf { theta }, false)
    }

    /// When Zipf's law over fio's ranges is that over native blocks.
    fn zipf(&mut self, theta: f64, files: &Files, threads: u64) {
        let key = "random_distribution";
        let native = Distribution::Zipf { theta };
        if let Some(problem) = native.problem() {
            self.reason(key, problem);
        }
        if files.count > 1 && !files.by_turns {
            self.reason(key, "fio's law holds in each of several files, the native one over all of them");
        }
        if files.sharing == Sharing::Shared && threads > 1 {
            self.reason(
                key,
                "each of fio's clones has hot blocks of its own in the shared file; native threads have the same ones",
            );
        }
        self.note(
            key,
            "the same law from another generator; hot blocks are scattered over the file, in another order than fio's, \
             which can put two ranks on one block",
        );
    }

    fn rate(&mut self, requests: Requests, threads: u64) -> Option<Rate> {
        let arrivals = match self.word("rate_process") {
            Some("poisson") => Arrivals::Poisson,
            _ => Arrivals::Constant,
        };
        let direction = usize::from(requests.reads == 0);
        let bytes = self.by_direction("rate")[direction].filter(|rate| *rate > 0);
        let iops = self.by_direction("rate_iops")[direction].filter(|rate| *rate > 0);
        let (key, per_second) = match (bytes, iops) {
            (None, None) => return None,
            (Some(_), Some(_)) => {
                self.reason("rate", "native threads have one rate");
                return None;
            }
            (Some(bytes), None) => {
                if !bytes.is_multiple_of(requests.block) {
                    self.reason("rate", "it is no whole number of requests a second");
                }
                ("rate", bytes / requests.block)
            }
            (None, Some(iops)) => ("rate_iops", iops),
        };
        if requests.is_mixed {
            self.reason(key, "fio holds reads and writes to a rate each, native threads have one for both");
        }
        self.note(key, "fio's latency begins when a request is sent, also when it was due before");
        // fio's rate is each clone's, an entry's that of all its threads.
        Some(Rate { per_second: per_second as f64 * threads as f64, arrivals })
    }

    /// Checksums in what is written, which nobody looks at.
    fn verify(&mut self, requests: Requests) {
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

    fn data(&mut self, requests: Requests) -> Entry {
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
