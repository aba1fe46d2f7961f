//! The hot loop over requests, the same for every way to hand them to the kernel.

use crate::{
    clock::Pace,
    flush,
    layout::Files,
    pattern::{Request, Requests},
    recorder::{Lane, Recorder},
};
use fstrial_model::{
    units::Nanos,
    workload::{FsyncCounts, Io, SyncCall},
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
    /// Whether something is to be reaped before more is pushed.
    #[inline]
    fn is_ready(&self) -> bool {
        false
    }
    /// Starts what was pushed and waits until at least one request is complete, or until `at_most` has gone by (if it
    /// is given; a signal may end such a wait early). At least one must be in flight.
    fn wait(&mut self, at_most: Option<Nanos>) -> Result<(), Errno>;
    /// Gives the slot and the bytes transferred (or the error) of each complete request, and frees the slot.
    fn reap(&mut self, done: impl FnMut(usize, Result<usize, Errno>));
    /// Syncs one file while nothing is in flight: an ordinary system call, whose name comes with its result.
    fn sync(&mut self, _file: usize, fd: &OwnedFd, call: SyncCall) -> (&'static str, Result<(), Errno>) {
        (flush::name(call), flush::flush(fd, call))
    }
    /// The memory that the last read of a slot went into; the slot must not be in flight.
    #[cfg(test)]
    fn last_read(&self, _slot: usize) -> &[u8] {
        &[]
    }
}

/// Which files a thread has to sync, and when.
#[derive(Debug)]
struct Owed {
    every: u32,
    call: SyncCall,
    counts: FsyncCounts,
    all_files: bool,
    /// What [`Owed::counts`] says, since the last sync came due.
    count: u32,
    /// Files written since they were last synced; both have room for all files from the start.
    dirty: Vec<u32>,
    is_dirty: Vec<bool>,
    due: Option<Due>,
}

/// A sync that is due.
#[derive(Debug, Clone, Copy)]
struct Due {
    /// The slot of the write that owes it, until that completes; none where a sync belongs to no request.
    slot: Option<usize>,
    /// When that write started, and whether it went well.
    start: u64,
    written: bool,
}

impl Owed {
    fn new(io: &Io, files: usize) -> Self {
        let files = if io.fsync_every == 0 { 0 } else { files };
        Self {
            every: io.fsync_every,
            call: io.fsync,
            counts: io.fsync_counts,
            all_files: io.fsync_all_files,
            count: 0,
            dirty: Vec::with_capacity(files),
            is_dirty: vec![false; files],
            due: None,
        }
    }

    /// A request goes out.
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
                self.due = Some(Due { slot: (!all).then_some(slot), start, written: false });
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
    start: u64,
    request: Request,
}

/// One thread's loop over its requests.
pub(crate) struct Drive<'a, E> {
    engine: E,
    requests: Requests,
    files: &'a Files,
    recorder: Recorder,
    pace: Pace,
    now: u64,
    block_size: usize,
    flights: Vec<Flight>,
    free: Vec<usize>,
    owed: Owed,
    sync_at_end: bool,
    /// A request that cannot go out before all others are complete.
    held: Option<Request>,
    /// Requests still to be made.
    left: u64,
}

/// The lanes that a load of requests records.
pub(crate) fn lanes(io: &Io) -> Vec<Lane> {
    let (reads, writes, syncs) =
        (io.reads.0 > 0.0, io.reads.0 < 100.0, io.fsync_every > 0 || io.fsync_at_end);
    let owing = syncs && io.fsync_counts == FsyncCounts::Writes;
    let all = [
        (Lane::Read, reads),
        (Lane::Write, writes),
        (Lane::OwingWrite, writes && owing),
        (Lane::SyncedWrite, writes && owing),
        (Lane::Fsync, writes && syncs),
    ];
    all.into_iter().filter_map(|(lane, used)| used.then_some(lane)).collect()
}

impl<'a, E: Engine> Drive<'a, E> {
    /// Everything the loop needs is allocated here.
    pub(crate) fn new(
        engine: E,
        io: &Io,
        requests: Requests,
        files: &'a Files,
        recorder: Recorder,
        pace: Pace,
    ) -> Self {
        let depth = usize::from(io.depth);
        Self {
            engine,
            requests,
            files,
            recorder,
            pace,
            now: 0,
            block_size: io.block_size.0 as usize,
            flights: vec![Flight::default(); depth],
            free: (0..depth).rev().collect(),
            owed: Owed::new(io, files.fds.len()),
            sync_at_end: io.fsync_at_end && io.reads.0 < 100.0,
            held: None,
            left: u64::MAX,
        }
    }

    /// Stops after this many requests.
    pub(crate) fn of_amount(mut self, requests: u64) -> Self {
        self.left = requests;
        self
    }

    /// Makes requests from tick `start` until the time is over or too many failed; waits for those in flight.
    pub(crate) fn run(mut self, start: u64) -> Recorder {
        self.recorder.start_at(start);
        self.now = self.pace.clock.now();
        self.recorder.tick(self.now);
        while !self.recorder.is_over() {
            self.fill();
            if self.free.len() < self.flights.len() {
                self.complete();
            }
            if self.owed.due.is_some() && self.is_idle() {
                self.sync();
            }
            if self.left == 0 && self.is_idle() {
                self.done();
            }
        }
        while !self.is_idle() && self.engine.wait(None).is_ok() {
            self.engine.reap(|slot, _| self.free.push(slot));
        }
        if self.sync_at_end {
            self.sync_all();
        }
        self.recorder
    }

    /// All requests were made: the sync at the end is a part of the work, and so of its time.
    #[cold]
    fn done(&mut self) {
        if std::mem::take(&mut self.sync_at_end) {
            for file in 0..self.files.fds.len() {
                self.sync_file(file);
            }
        }
        self.recorder.finish(self.now);
    }

    fn is_idle(&self) -> bool {
        self.free.len() == self.flights.len()
    }

    /// Pushes requests until no slot is free, or something has to wait for those in flight, or has to be reaped.
    #[inline]
    fn fill(&mut self) {
        while self.owed.due.is_none()
            && self.left > 0
            && !self.engine.is_ready()
            && let Some(slot) = self.free.pop()
        {
            let request = match self.held.take() {
                Some(request) => request,
                None => self.requests.next(),
            };
            if request.restart && !self.restart(slot, request) {
                return;
            }
            self.left -= 1;
            self.flights[slot] = Flight { start: self.now, request };
            self.owed.request(slot, self.now, &request);
            self.engine.push(slot, &request);
        }
    }

    /// Cuts a file to nothing, or gives the slot back and holds the request until nothing is in flight. The time it
    /// takes belongs to no operation.
    #[cold]
    fn restart(&mut self, slot: usize, request: Request) -> bool {
        if self.free.len() + 1 < self.flights.len() {
            self.free.push(slot);
            self.held = Some(request);
            return false;
        }
        let file = request.file as usize;
        let result = retry_on_intr(|| ftruncate(&self.files.fds[file], 0));
        self.now = self.pace.clock.now();
        self.recorder.tick(self.now);
        if let Err(errno) = result {
            self.recorder.error(self.now, "ftruncate", &self.files.paths[file], &errno);
        }
        true
    }

    /// Waits for completions and records them.
    #[inline]
    fn complete(&mut self) {
        let waited = self.engine.wait(None);
        self.now = self.pace.after(self.now);
        self.recorder.tick(self.now);
        if let Err(errno) = waited {
            self.recorder.error(self.now, E::WAITS_BY, &self.files.paths[0], &errno);
        }
        let Self { engine, recorder, files, now, block_size, flights, free, owed, .. } = self;
        engine.reap(|slot, result| {
            free.push(slot);
            let flight = &flights[slot];
            if result != Ok(*block_size) {
                failed(recorder, *now, files, &flight.request, result);
                return;
            }
            let latency = now.saturating_sub(flight.start);
            match &mut owed.due {
                Some(due) if due.slot == Some(slot) => {
                    due.written = true;
                    recorder.part(Lane::OwingWrite, latency);
                }
                _ => {
                    let lane = if flight.request.write { Lane::Write } else { Lane::Read };
                    recorder.operation(lane, latency, *block_size as u64);
                }
            }
        });
    }

    /// Pays the sync that is due: every file that this thread has written since its last one, or simply every file,
    /// one call after the other.
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
            && due.written
        {
            self.recorder.operation(
                Lane::SyncedWrite,
                self.now.saturating_sub(due.start),
                self.block_size as u64,
            );
        }
    }

    /// Syncs one file and records it; says whether that went well.
    fn sync_file(&mut self, file: usize) -> bool {
        let before = self.now;
        let (name, result) = self.engine.sync(file, &self.files.fds[file], self.owed.call);
        self.now = self.pace.after(before);
        self.recorder.tick(self.now);
        match result {
            Ok(()) => self.recorder.part(Lane::Fsync, self.now.saturating_sub(before)),
            Err(errno) => self.recorder.error(self.now, name, &self.files.paths[file], &errno),
        }
        result.is_ok()
    }

    /// Syncs every file after the time is over. That is in no latency any more, but what was written in the measured
    /// time and cannot be made durable is an error of the run.
    fn sync_all(&mut self) {
        for (file, fd) in self.files.fds.iter().enumerate() {
            let (name, result) = self.engine.sync(file, fd, self.owed.call);
            if let Err(errno) = result {
                let now = self.pace.clock.now();
                self.recorder.late_error(now, name, &self.files.paths[file], &errno);
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
