//! From a job to its native form: each rule says when fio and the load engine do the same, and why not where they do not.
//!
//! What fio does was read in its manual and source and seen with strace (fio 3.33): `docs/fio.md` has the findings. A
//! setting that no rule here has taken makes the job run through fio, so nothing is ever silently ignored.

mod files;
mod requests;
mod writes;

use super::{
    keys::Treatment,
    parse::{Job, Setting},
    value::Value,
};
use crate::{
    units::{Bytes, Nanos, Percent},
    workload::{Access, Advice, Backend, Entry, Layout, OpenSync, Sharing, Until},
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
pub(crate) struct MappedJob {
    /// What its threads do, as a group with times of its own.
    pub(crate) entry: Entry,
    /// What they do in a phase after it: read back what they wrote.
    pub(crate) afterwards: Option<Entry>,
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
pub(super) const MAX_TIME: Nanos = Nanos::secs(86_400);

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
    /// What sizes and offsets are multiples of; the size of all requests unless they have sizes of their own.
    block: u64,
    has_sizes: bool,
    /// From each place that is drawn.
    in_a_row: u32,
    /// All of them at that place.
    in_place: bool,
    /// Percent of reads and of writes that go to places that are drawn, if not all do.
    jumps: Option<[u64; 2]>,
    /// From the start of one request to that of the next, where bytes are skipped between them.
    stride: Option<u64>,
    /// Reads go on where reads were, writes where writes were.
    apart: bool,
}

impl Requests {
    fn writes(self) -> bool {
        self.reads < 100
    }

    fn has_reads(self) -> bool {
        self.reads > 0 || self.is_mixed
    }

    /// The key because of which requests go on from others otherwise than one after the other over all.
    fn going_on(self) -> Option<&'static str> {
        match self {
            Self { jumps: Some(_), .. } => Some("percentage_random"),
            _ if self.in_a_row > 1 || self.stride.is_some() || self.apart => Some("rw"),
            _ => None,
        }
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

impl Files {
    /// What a thread transfers until it comes to the end, where strides end with it: fio is done then.
    fn lane(&self, requests: Requests) -> Option<u64> {
        let stride = requests.stride?;
        let before_last = self.each_clone.checked_sub(requests.block)?;
        before_last.is_multiple_of(stride).then(|| (before_last / stride + 1) * requests.block)
    }
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

/// What of a job decides how it reads back.
struct End {
    threads: u64,
    /// It writes each block of its files, once.
    goes_once: bool,
    each_block_once: bool,
    direct: bool,
    open_sync: OpenSync,
    backend: Backend,
}

/// What becomes of `verify`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verify {
    /// No checksums.
    Nothing,
    /// Checksums that nobody looks at.
    Written,
    /// Checksums, and a phase that looks at them.
    ReadBack,
}

/// Maps a job that was checked.
pub(crate) fn map(job: &Job) -> MappedJob {
    let mut mapper = Mapper { job, taken: BTreeSet::new(), reasons: Vec::new(), notes: Vec::new() };
    let (entry, verify) = mapper.job();
    mapper.rest();
    let afterwards = (verify == Verify::ReadBack).then(|| read_back(&entry));
    MappedJob { entry, afterwards, reasons: mapper.reasons, notes: mapper.notes }
}

/// Whether it is the phase in which a job reads back: no other one verifies what it reads.
pub(super) fn reads_back(job: &Entry) -> bool {
    job.verify.is_some() && job.reads == Some(Percent(100.0))
}

/// The phase that reads what a job has written, from the same files and in the same order.
fn read_back(job: &Entry) -> Entry {
    let access = match job.access {
        Some(Access::Extend) => Some(Access::Sequential),
        access => access,
    };
    let advice = match access {
        _ if job.direct == Some(true) => None,
        Some(Access::Random) => Some(Advice::Random),
        _ => Some(Advice::Sequential),
    };
    Entry {
        name: job.name.as_ref().map(|name| format!("{name}-verify")),
        access,
        reads: Some(Percent(100.0)),
        fsync_every: None,
        fsync: None,
        fsync_at_end: None,
        layout: Some(Layout::Written),
        advice,
        ..job.clone()
    }
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
    fn job(&mut self) -> (Entry, Verify) {
        for key in ["name", "kb_base"] {
            self.take(key);
        }
        let (requests, [read_size, write_size]) = self.requests();
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
        let (advice, cold_laps) = self.page_cache(requests, &files, &timing, backend, direct, layout);
        self.going_on(requests, &files, &timing);
        self.threads(threads, backend);
        let access = self.access(requests, &files, layout);
        let open_sync = self.open_sync(backend);
        let goes_once = timing.amount == Some(files.each_clone) && self.number("loops").unwrap_or(1) == 1;
        let places = self.places(requests, &files, threads);
        let each_block_once = places.each_block_once == Some(true);
        let end = End { threads, goes_once, each_block_once, direct, open_sync, backend };
        let verify = self.verify(requests, &end);
        let fsync_at_end = self.sync_at_end(requests, timing.amount, fsync);
        let is = |on: bool| on.then_some(true);
        let what = Entry {
            name: Some(self.job.name.clone()),
            workers: Some(u16::try_from(threads).unwrap_or(u16::MAX)),
            access: Some(access),
            reads: Some(Percent(requests.reads as f64)),
            block_size: Some(Bytes(requests.block)),
            read_size,
            write_size,
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
            verify: is(verify != Verify::Nothing),
            rate: self.rate(requests, threads),
            ..places
        };
        let entry = match timing.amount {
            None => Entry {
                until: Some(Until::Time),
                warmup: Some(timing.warmup),
                duration: Some(timing.duration),
                ..what
            },
            // fio's amount is each clone's, an entry's that of all its threads.
            Some(amount) => Entry {
                until: Some(Until::Done),
                duration: Some(MAX_TIME),
                requests: (!requests.has_sizes).then(|| (amount / requests.block).saturating_mul(threads)),
                ..what
            },
        };
        (entry, verify)
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
                self.reason("io_size", "with time_based fio begins again after this many bytes");
            }
            if limit.is_some() {
                self.reason("number_ios", "with time_based fio begins again after this many requests");
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
        let amount = amount.min(files.lane(requests).filter(|_| !repeats).unwrap_or(u64::MAX));
        let amount = limit.map_or(amount, |limit| amount.min(limit.saturating_mul(requests.block)));
        if requests.has_sizes
            && (amount != files.each_clone || limit.is_some() || files.sharing == Sharing::Shared)
        {
            self.reason(
                "size",
                "requests of several sizes natively go on for a time, or once over the files of each thread",
            );
        }
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
        Timing { warmup: Nanos(0), duration: MAX_TIME, amount: Some(amount), repeats }
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
}
