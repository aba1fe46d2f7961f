//! The hot loop over requests, the same for every way to hand them to the kernel.

use crate::{
    cursor::{Next, Source, counts_syncs},
    files::Files,
    flush,
    promises::{self, Begun, Ongoing},
    recorder::{Lane, Recorder},
    requests::Request,
    timekeeper::Timekeeper,
};
use fstrial_model::{
    units::Nanos,
    workload::{FsyncCounts, Io, OpenSync, SyncCall, Until},
};
use rustix::{
    fs::ftruncate,
    io::{Errno, retry_on_intr},
};
use std::os::fd::OwnedFd;

/// A way to hand requests to the kernel. Slots are numbered from 0 to the depth; a slot is free, or in flight.
pub(crate) trait Engine {
    /// The system call behind [`Engine::wait`], for its errors.
    const WAITS_BY: &'static str;
    /// Takes a request into a free slot, and may start it.
    fn push(&mut self, slot: usize, request: &Request);
    /// True if a completion is to be reaped before more is pushed.
    #[inline]
    fn is_ready(&self) -> bool {
        false
    }
    /// Starts the pushed requests and waits until at least one is complete, or until `at_most` has gone by (if it is
    /// given; a signal may end such a wait early): then it is `Ok` too, and there may be nothing to reap. At least one
    /// must be in flight.
    fn wait(&mut self, at_most: Option<Nanos>) -> Result<(), Errno>;
    /// Gives the slot and the bytes transferred (or the error) of each complete request, and frees the slot.
    fn reap(&mut self, done: impl FnMut(usize, Result<usize, Errno>));
    /// Syncs one file while nothing is in flight: an ordinary system call, whose name comes with its result.
    fn sync(&mut self, _file: usize, fd: &OwnedFd, call: SyncCall) -> (&'static str, Result<(), Errno>) {
        (flush::name(call), flush::flush(fd, call))
    }
}

/// The memory of a way to hand requests to the kernel, one stretch for each slot.
#[cfg(test)]
pub(crate) trait Memory {
    /// The destination of a slot's last read; the slot must not be in flight.
    fn last_read(&self, slot: usize) -> &[u8];
}

/// The syncs that a thread owes: their files and times.
#[derive(Debug)]
struct Owed {
    every: u32,
    call: SyncCall,
    counts: FsyncCounts,
    all_files: bool,
    /// Requests counted (see [`Owed::counts`]) since the last sync came due.
    count: u32,
    /// Files written since they were last synced; both have room for all files from the start.
    dirty: Vec<u32>,
    is_dirty: Vec<bool>,
    due: Option<Due>,
}

/// A sync that is due.
#[derive(Debug, Clone, Copy)]
struct Due {
    /// The slot of the write that owes it, until that completes; none if a sync belongs to no request.
    slot: Option<usize>,
    /// Start of that write, in ticks.
    start: u64,
    /// Bytes moved by the operation: none before the write is complete.
    bytes: Option<u64>,
}

impl Owed {
    fn new(io: &Io, files: usize) -> Self {
        let every = if counts_syncs(io) { 0 } else { io.fsync_every };
        let files = if every == 0 { 0 } else { files };
        Self {
            every,
            call: io.fsync,
            counts: io.fsync_counts,
            all_files: io.fsync_all_files,
            count: 0,
            dirty: Vec::with_capacity(files),
            is_dirty: vec![false; files],
            due: None,
        }
    }

    /// Counts a submitted request; a sync is due after every [`Owed::every`] of them.
    #[inline]
    fn request(&mut self, slot: usize, start: u64, request: &Request) {
        let all = self.counts == FsyncCounts::Requests;
        if self.every == 0 || !(request.write || all) {
            return;
        }
        if request.write && !std::mem::replace(&mut self.is_dirty[request.file as usize], true) {
            self.dirty.push(request.file);
        }
        self.count += 1;
        if self.count == self.every {
            self.count = 0;
            if !self.dirty.is_empty() {
                self.due = Some(Due { slot: (!all).then_some(slot), start, bytes: None });
            }
        }
    }

    /// A file that was written and not synced since.
    fn next_dirty(&mut self) -> Option<usize> {
        let file = self.dirty.pop()? as usize;
        self.is_dirty[file] = false;
        Some(file)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Flight {
    /// Start of the operation.
    start: u64,
    /// Start of this request: later than `start` in the second half of an update.
    part: u64,
    request: Request,
}

/// One thread's loop over its requests.
pub(crate) struct Drive<'a, E> {
    engine: E,
    source: Source,
    files: &'a Files,
    time: Timekeeper,
    block_size: usize,
    flights: Vec<Flight>,
    free: Vec<usize>,
    owed: Owed,
    sync_at_end: bool,
    /// True if some requests are updates.
    updates: bool,
    /// The next request, if it is known: one that cannot go out before all others are complete, or a cursor's.
    held: Option<Request>,
    /// Requests still to be made.
    left: u64,
    /// Slots whose read is complete and whose write of the same block is pending.
    halfway: Vec<usize>,
    /// The writes in flight, by slot, if they are observed.
    changes: Vec<Option<Ongoing>>,
    /// A write is a sync, too: the files are open with `O_SYNC` or `O_DSYNC`.
    writes_are_synced: bool,
}

/// The lanes that a load of requests records.
pub(crate) fn lanes(io: &Io, until: Until) -> Vec<Lane> {
    let (reads, writes) = (io.reads.0 > 0.0, io.reads.0 < 100.0);
    let (updates, syncs) = (reads && io.update.0 > 0.0, io.writes() && io.fsync_every > 0);
    // Only in work that has an end is the sync at the end a part of it.
    let at_end = io.writes() && io.fsync_at_end && until == Until::Done;
    let owing = syncs && io.fsync_counts == FsyncCounts::Writes;
    let all = [
        (Lane::READ_REQUEST, reads && io.update.0 < 100.0),
        (Lane::WRITE_REQUEST, writes),
        (Lane::READ, updates),
        (Lane::WRITE, updates || owing),
        (Lane::UPDATED, updates),
        (Lane::SYNCED_WRITE, owing),
        (Lane::FSYNC, syncs || at_end),
    ];
    all.into_iter().filter_map(|(lane, used)| used.then_some(lane)).collect()
}

impl<'a, E: Engine> Drive<'a, E> {
    /// Allocates everything that the loop needs.
    pub(crate) fn new(engine: E, io: &Io, source: Source, files: &'a Files, time: Timekeeper) -> Self {
        let depth = usize::from(io.depth);
        Self {
            engine,
            source,
            files,
            time,
            block_size: io.block_size.0 as usize,
            flights: vec![Flight::default(); depth],
            free: (0..depth).rev().collect(),
            owed: Owed::new(io, files.fds.len()),
            sync_at_end: io.fsync_at_end && io.writes(),
            updates: io.update.0 > 0.0,
            held: None,
            left: u64::MAX,
            halfway: Vec::with_capacity(depth),
            changes: (0..depth).filter(|_| promises::are_observed()).map(|_| None).collect(),
            writes_are_synced: io.open_sync != OpenSync::None,
        }
    }

    /// Stops after this many requests.
    pub(crate) fn of_amount(self, requests: u64) -> Self {
        Self { left: requests, ..self }
    }

    /// Makes requests from tick `start` until the time is over or too many failed; waits for those in flight.
    pub(crate) fn run(mut self, start: u64) -> Recorder {
        self.time.start_at(start);
        if self.is_plain() {
            self.turn::<true>()
        } else {
            self.turn::<false>()
        }
        while !self.is_idle() && self.engine.wait(None).is_ok() {
            self.engine.reap(|slot, _| self.free.push(slot));
        }
        if self.sync_at_end {
            self.sync_all();
        }
        self.time.recorder
    }

    /// True for a load of requests alone: without a rate, syncs, updates, a last request, a shared source or an observer.
    fn is_plain(&self) -> bool {
        let own = matches!(self.source, Source::Own(_));
        let free = self.time.arrivals.is_none() && self.changes.is_empty();
        own && free && self.owed.every == 0 && !self.updates && self.left == u64::MAX
    }

    /// Makes requests until the time is over or too many failed. A load that [is plain](Self::is_plain) has a loop
    /// without the checks that it does not need.
    fn turn<const PLAIN: bool>(&mut self) {
        while !self.time.recorder.is_over() {
            self.fill::<PLAIN>();
            if PLAIN || !self.is_idle() {
                self.complete::<PLAIN>();
                if PLAIN {
                    continue;
                }
            } else if self.owed.due.is_none() {
                self.rest();
            }
            if self.owed.due.is_some() && self.is_idle() {
                self.sync();
            }
            if self.left == 0 && self.is_idle() && self.halfway.is_empty() {
                self.done();
            }
        }
    }

    /// All requests were made: the sync at the end is a part of the work, and so of its time.
    #[cold]
    fn done(&mut self) {
        if std::mem::take(&mut self.sync_at_end) {
            for file in 0..self.files.fds.len() {
                self.sync_file(file);
            }
        }
        self.time.recorder.finish(self.time.now);
    }

    /// Nothing is in flight.
    fn is_idle(&self) -> bool {
        self.free.len() + self.halfway.len() == self.flights.len()
    }

    /// True if there is a request to make: always, or when it is due.
    #[inline]
    fn is_due(&self) -> bool {
        self.time.arrivals.as_ref().is_none_or(|arrivals| arrivals.is_due(self.time.now))
    }

    /// Waits until the next request is due.
    fn rest(&mut self) {
        if let Some(arrivals) = &self.time.arrivals {
            self.time.now = arrivals.rest();
            self.time.recorder.tick(self.time.now);
        }
    }

    /// Pushes requests until no slot is free, none is due, or something has to wait for those in flight, or has to be
    /// reaped.
    #[inline]
    fn fill<const PLAIN: bool>(&mut self) {
        while !PLAIN
            && self.owed.due.is_none()
            && !self.engine.is_ready()
            && let Some(slot) = self.halfway.pop()
        {
            self.finish_update(slot);
        }
        while (PLAIN || self.owed.due.is_none() && self.left > 0 && self.is_due())
            && !self.engine.is_ready()
            && let Some(slot) = self.free.pop()
        {
            let request = match (self.held.take(), &mut self.source) {
                (Some(request), _) => request,
                (None, Source::Own(requests)) => requests.next(),
                (None, Source::Shared(_)) => {
                    self.free.push(slot);
                    self.ask();
                    if self.time.recorder.is_over() {
                        return;
                    }
                    continue;
                }
            };
            // By its parts: a request that is handed whole to a call that is not inlined has to live in memory, and
            // would be copied from there before the processor is done writing it.
            if request.restart && !self.restart(request.file) {
                self.free.push(slot);
                self.held = Some(request);
                return;
            }
            let start = match &mut self.time.arrivals {
                Some(arrivals) if !PLAIN => arrivals.take(),
                _ => self.time.now,
            };
            self.flights[slot] = Flight { start, part: start, request };
            if !PLAIN {
                self.change(slot, &request);
                self.left -= 1;
                self.owed.request(slot, start, &request);
            }
            self.engine.push(slot, &request);
        }
    }

    /// Asks the cursor of all threads: holds the resulting request, or syncs the file, which does not wait for requests
    /// in flight. A separate call, so that requests of a thread's own stay in registers.
    #[inline(never)]
    fn ask(&mut self) {
        let Source::Shared(cursor) = &self.source else { return };
        match cursor.next() {
            Next::Request(request) => self.held = Some(request),
            Next::Nothing => self.left = 0,
            Next::Sync(file) => {
                self.sync_file(file as usize);
            }
        }
    }

    /// The second half of an update: writes the block that was read.
    fn finish_update(&mut self, slot: usize) {
        let now = self.time.now;
        let flight = &mut self.flights[slot];
        flight.request.write = true;
        flight.part = now;
        let Flight { start, request, .. } = *flight;
        self.change(slot, &request);
        self.owed.request(slot, start, &request);
        self.engine.push(slot, &request);
    }

    /// Cuts a file to nothing, unless something is in flight (the slot of this very request is not free either). The
    /// time it takes belongs to no operation.
    #[cold]
    fn restart(&mut self, file: u32) -> bool {
        if self.free.len() + 1 + self.halfway.len() < self.flights.len() {
            return false;
        }
        let file = file as usize;
        let _change = promises::writes(&self.files.fds[file], 0..u64::MAX);
        let result = retry_on_intr(|| ftruncate(&self.files.fds[file], 0));
        self.time.look();
        if let Err(errno) = result {
            self.time.error("ftruncate", &self.files.paths[file], &errno);
        }
        true
    }

    /// Waits for completions and records them: at most until the next request is due, if a slot is free.
    #[inline]
    fn complete<const PLAIN: bool>(&mut self) {
        let waited = match &self.time.arrivals {
            Some(arrivals) if !PLAIN && !self.free.is_empty() && self.owed.due.is_none() => {
                self.engine.wait(Some(Nanos(arrivals.patience_ns(self.time.now))))
            }
            _ => self.engine.wait(None),
        };
        self.time.lap();
        if let Err(errno) = waited {
            self.time.error(E::WAITS_BY, &self.files.paths[0], &errno);
        }
        let Self { engine, source, time, files, block_size, flights, free, owed, halfway, changes, .. } =
            self;
        let writes_are_synced = self.writes_are_synced;
        let Timekeeper { recorder, now, .. } = time;
        engine.reap(|slot, result| {
            if !PLAIN && let Some(change) = changes.get_mut(slot) {
                *change = None;
            }
            let flight = &flights[slot];
            let Request { write, update, .. } = flight.request;
            if result != Ok(*block_size) {
                free.push(slot);
                failed(recorder, *now, files, &flight.request, result);
                return;
            }
            if !PLAIN && write && writes_are_synced {
                promises::syncs().done(&files.fds[flight.request.file as usize]);
            }
            let latency = now.saturating_sub(flight.part);
            if !PLAIN && update && !write {
                halfway.push(slot);
                recorder.part(Lane::READ, latency);
                return;
            }
            free.push(slot);
            source.completed(write && !update);
            let bytes = if !PLAIN && update { 2 * *block_size } else { *block_size } as u64;
            match &mut owed.due {
                Some(due) if !PLAIN && due.slot == Some(slot) => {
                    due.bytes = Some(bytes);
                    recorder.part(Lane::WRITE, latency);
                }
                _ if !PLAIN && update => {
                    recorder.part(Lane::WRITE, latency);
                    recorder.operation(Lane::UPDATED, now.saturating_sub(flight.start), bytes);
                }
                _ => {
                    let lane = if write { Lane::WRITE_REQUEST } else { Lane::READ_REQUEST };
                    recorder.operation(lane, latency, bytes);
                }
            }
        });
    }

    /// Makes the sync that is due: of every file that this thread has written since its last one, or of all files, one
    /// call after the other.
    fn sync(&mut self) {
        let mut ok = true;
        if self.owed.all_files {
            while self.owed.next_dirty().is_some() {}
            for file in 0..self.files.fds.len() {
                ok &= self.sync_file(file);
            }
        } else {
            while let Some(file) = self.owed.next_dirty() {
                ok &= self.sync_file(file);
            }
        }
        if let Some(due) = self.owed.due.take()
            && ok
            && let Some(bytes) = due.bytes
        {
            self.time.recorder.operation(Lane::SYNCED_WRITE, self.time.since(due.start), bytes);
        }
    }

    /// Reports a write that is about to be pushed.
    fn change(&mut self, slot: usize, request: &Request) {
        if request.write
            && let Some(change) = self.changes.get_mut(slot)
        {
            let file = &self.files.fds[request.file as usize];
            *change = Some(promises::writes_at(file, request.offset, self.block_size));
        }
    }

    /// Reports a successful sync.
    fn promise(&self, begun: Begun, file: usize) {
        if flush::is_for_good(self.owed.call) {
            begun.done(&self.files.fds[file]);
        }
    }

    /// Syncs one file and records it; returns true on success.
    fn sync_file(&mut self, file: usize) -> bool {
        let begun = promises::syncs();
        let (name, result) = self.engine.sync(file, &self.files.fds[file], self.owed.call);
        let took = self.time.lap();
        match result {
            Ok(()) => {
                self.promise(begun, file);
                self.time.recorder.part(Lane::FSYNC, took);
            }
            Err(errno) => self.time.error(name, &self.files.paths[file], &errno),
        }
        result.is_ok()
    }

    /// Syncs every file after the time is over. No latency includes this sync, but data written in the measured time
    /// that cannot be made durable is an error of the run.
    fn sync_all(&mut self) {
        for (file, fd) in self.files.fds.iter().enumerate() {
            let begun = promises::syncs();
            let (name, result) = self.engine.sync(file, fd, self.owed.call);
            match result {
                Ok(()) => self.promise(begun, file),
                Err(errno) => {
                    let now = self.time.pace.clock.now();
                    self.time.recorder.late_error(now, name, &self.files.paths[file], &errno);
                }
            }
        }
    }
}

#[cold]
fn failed(recorder: &mut Recorder, now: u64, files: &Files, request: &Request, result: Result<usize, Errno>) {
    let name = if request.write { "write" } else { "read" };
    let path = &files.paths[request.file as usize];
    match result {
        Ok(bytes) => {
            recorder.error(now, name, path, &format_args!("only {bytes} bytes at {}", request.offset))
        }
        Err(errno) => recorder.error(now, name, path, &errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        arrival::Arrivals,
        clock::{Clock, Pace},
        recorder::Timeline,
        requests::{Geometry, Requests},
        testing::{VirtualTime, decode, io, load_of, pass_ns},
    };
    use fstrial_model::{
        job::Load,
        measurement::{LoadResult, OperationKind},
        units::{Bytes, Nanos, Percent},
        workload::Backend,
    };
    use hdrhistogram::Histogram;

    const CLOCK: Clock = Clock::monotonic("test");
    const MS: u64 = 1_000_000;

    /// Each request takes `service` of virtual time, one after the other; one of them, `stall` longer.
    struct Fake {
        service: u64,
        stall: u64,
        stalled: u64,
        pushed: u64,
        /// Pushed and incomplete requests with their remaining time: as a queue.
        queue: std::collections::VecDeque<(usize, u64)>,
        log: Vec<Request>,
    }

    impl Engine for &mut Fake {
        const WAITS_BY: &'static str = "nothing";

        fn push(&mut self, slot: usize, request: &Request) {
            self.pushed += 1;
            let stall = if self.pushed == self.stalled { self.stall } else { 0 };
            self.queue.push_back((slot, self.service + stall));
            self.log.push(*request);
        }
        fn wait(&mut self, at_most: Option<Nanos>) -> Result<(), Errno> {
            let timeout_ns = at_most.map(|time| time.0);
            let (_, left) = self.queue.front_mut().expect("at least one in flight");
            let waited = (*left).min(timeout_ns.unwrap_or(u64::MAX));
            pass_ns(waited);
            *left -= waited;
            Ok(())
        }
        fn reap(&mut self, mut done: impl FnMut(usize, Result<usize, Errno>)) {
            if let Some((slot, _)) = self.queue.pop_front_if(|(_, left)| *left == 0) {
                done(slot, Ok(4096));
            }
        }
    }

    fn fake(service: u64, stalled: u64, stall: u64) -> Fake {
        Fake { service, stall, stalled, pushed: 0, queue: Default::default(), log: Vec::new() }
    }

    /// Runs a load of one thread on the fake, in virtual time.
    fn run(fake: &mut Fake, io: Io, rate: Option<&str>) -> LoadResult {
        let _time = VirtualTime::start();
        let load = Load {
            warmup: Nanos(0),
            duration: Nanos::secs(2),
            rate: rate.map(|rate| rate.parse().unwrap()),
            ..load_of(io.clone(), 1)
        };
        let files = Files { fds: vec![], paths: vec!["fake".into()] };
        let timeline = Timeline::new(CLOCK, 0, load.warmup, load.duration);
        let recorder = Recorder::new(timeline, &lanes(&io, Until::Time));
        let source = Requests::new(&load, &io, Geometry::on_files(&io, 1, 0), 0).into();
        let time =
            Timekeeper::new(recorder, Pace::new(CLOCK, load.handicap)).offered(Arrivals::of(&load, 0, CLOCK));
        let drive = Drive::new(fake, &io, source, &files, time);
        Recorder::merge(vec![drive.run(CLOCK.now())])
    }

    fn latencies(result: &LoadResult, kind: OperationKind) -> Histogram<u64> {
        decode(&result.histograms[&kind])
    }

    fn deep(depth: u16) -> Io {
        Io { backend: Backend::IoUring, depth, ..io() }
    }

    #[test]
    fn stall_delays_all_requests_due_during_it() {
        // 10 us of service, and once 100 ms more. In a closed loop one request of all is slow.
        let closed = run(&mut fake(10_000, 500, 100 * MS), io(), None);
        let histogram = latencies(&closed, OperationKind::OPERATION);
        assert!(closed.operations > 180_000);
        assert_eq!(histogram.count_between(MS, u64::MAX), 1);

        // At 1000/s a hundred requests fall due meanwhile, and wait from 100 ms down to nothing.
        for io in [io(), deep(1), deep(4)] {
            let open = run(&mut fake(10_000, 500, 100 * MS), io, Some("1000/s"));
            let histogram = latencies(&open, OperationKind::OPERATION);
            assert!((1999..=2001).contains(&open.operations), "{}", open.operations);
            for tenth in 0..10 {
                let count = histogram.count_between(tenth * 10 * MS + MS, (tenth + 1) * 10 * MS + MS);
                assert!((8..=12).contains(&count), "{count} between {tenth}0 and {}0 ms", tenth + 1);
            }
            assert!((97..=103).contains(&histogram.count_between(MS, u64::MAX)));
            // All others have their service time: the generator is not late on its own, though sleepers wake late.
            let quick = histogram.count_between(10_000, 11_000);
            assert!(quick >= 1890, "{quick} of {}", histogram.len());
        }
    }

    #[test]
    fn offered_rate_is_met_by_whoever_can() {
        for (rate, low, high) in
            [("10/s", 20, 20), ("50000/s", 99_990, 100_010), ("2000/s poisson", 3_800, 4_200)]
        {
            let result = run(&mut fake(10_000, 0, 0), io(), Some(rate));
            assert!((low..=high).contains(&result.operations), "{rate}: {}", result.operations);
        }
    }

    #[test]
    fn overload_raises_maximum_latency() {
        // 100 us of service are 10 000/s at most; offered twice that, half of the time is waited at the end.
        let result = run(&mut fake(100_000, 0, 0), io(), Some("20000/s"));
        assert!((19_000..=20_000).contains(&result.operations), "{}", result.operations);
        let max = latencies(&result, OperationKind::OPERATION).max();
        assert!((950 * MS..=1010 * MS).contains(&max), "{max}");
    }

    #[test]
    fn due_requests_are_sent_despite_others_in_flight() {
        // 5 ms of service each, due every 10 ms by turns of a pair: no request waits for its turn.
        let result = run(&mut fake(MS / 2, 3, 5 * MS), deep(8), Some("1000/s"));
        let slow = latencies(&result, OperationKind::OPERATION).count_between(MS, u64::MAX);
        assert!((5..=11).contains(&slow), "those due in 5 ms and the queue behind them, not {slow}");
        assert!((1998..=2000).contains(&result.operations));
    }

    #[test]
    fn update_reads_then_writes_block_as_one_operation() {
        for io in [io(), deep(4)] {
            let io = Io { reads: Percent(100.0), update: Percent(100.0), total_size: Bytes::mib(1), ..io };
            let depth = usize::from(io.depth);
            let mut fake = fake(10_000, 0, 0);
            let result = run(&mut fake, io, None);
            let count = |kind| latencies(&result, kind).len();
            assert!((95_000..=100_000).contains(&result.operations), "{}", result.operations);
            assert_eq!(count(OperationKind::OPERATION), result.operations);
            assert!(count(OperationKind::READ).abs_diff(result.operations) <= depth as u64);
            assert!(count(OperationKind::WRITE).abs_diff(result.operations) <= depth as u64);
            assert_eq!(result.bytes, result.operations * 8192);
            let mean = |kind| latencies(&result, kind).mean();
            let parts = mean(OperationKind::READ) + mean(OperationKind::WRITE);
            assert!((mean(OperationKind::OPERATION) / parts - 1.0).abs() < 0.01);
            if depth == 1 {
                let pairs = |two: &[Request]| two[0].offset == two[1].offset && !two[0].write && two[1].write;
                assert!(fake.log.chunks_exact(2).all(pairs));
            }
            let mut open = std::collections::BTreeMap::new();
            for request in &fake.log {
                *open.entry(request.offset).or_insert(0_i64) += if request.write { -1 } else { 1 };
            }
            assert!(open.values().all(|count| *count >= 0), "a block was written that had not been read");
            assert!(open.values().sum::<i64>() <= depth as i64);
        }
    }

    #[test]
    fn bonnies_seeks_update_a_tenth_of_their_reads() {
        let io = Io { reads: Percent(100.0), update: Percent(10.0), ..io() };
        let result = run(&mut fake(10_000, 0, 0), io, None);
        let (reads, writes) =
            (latencies(&result, OperationKind::READ).len(), latencies(&result, OperationKind::WRITE).len());
        assert!(reads.abs_diff(result.operations) <= 1);
        assert!((0.095..0.105).contains(&(writes as f64 / reads as f64)), "{writes} of {reads}");
        let histogram = latencies(&result, OperationKind::OPERATION);
        assert_eq!(histogram.count_between(15_000, 30_000).abs_diff(writes), 0);
    }
}
