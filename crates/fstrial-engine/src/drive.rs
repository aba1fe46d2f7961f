//! The hot loop over requests, the same for every way to hand them to the kernel.

use crate::{
    clock::Pace,
    layout::Files,
    pattern::{Request, Requests},
    recorder::{Lane, Recorder},
};
use fstrial_model::workload::{Io, SyncCall};
use rustix::{
    fs::{fdatasync, fsync, ftruncate},
    io::{Errno, retry_on_intr},
};

/// A way to hand requests to the kernel. Slots are numbered from 0 to the depth; a slot is free, or in flight.
pub(crate) trait Engine {
    /// Takes a request into a free slot, and may start it.
    fn push(&mut self, slot: usize, request: &Request);
    /// Starts what was pushed and waits until at least one request is complete. At least one must be in flight.
    fn wait(&mut self) -> Result<(), Errno>;
    /// Gives the slot and the bytes transferred (or the error) of each complete request, and frees the slot.
    fn reap(&mut self, done: impl FnMut(usize, Result<usize, Errno>));
}

/// Which files a thread has to sync, and when.
#[derive(Debug)]
struct Owed {
    every: u32,
    call: SyncCall,
    /// Writes since the last sync came due.
    writes: u32,
    /// Files written since they were last synced; both have room for all files from the start.
    dirty: Vec<u32>,
    is_dirty: Vec<bool>,
    /// The write that owes the sync which is due: its slot until it completes, its start, and whether it went well.
    due: Option<Due>,
}

#[derive(Debug, Clone, Copy)]
struct Due {
    slot: usize,
    start: u64,
    written: bool,
}

impl Owed {
    fn new(io: &Io, files: usize) -> Self {
        let files = if io.fsync_every == 0 { 0 } else { files };
        Self {
            every: io.fsync_every,
            call: io.fsync,
            writes: 0,
            dirty: Vec::with_capacity(files),
            is_dirty: vec![false; files],
            due: None,
        }
    }

    /// A write goes out.
    #[inline]
    fn write(&mut self, slot: usize, start: u64, file: u32) {
        if self.every == 0 {
            return;
        }
        if !std::mem::replace(&mut self.is_dirty[file as usize], true) {
            self.dirty.push(file);
        }
        self.writes += 1;
        if self.writes == self.every {
            self.writes = 0;
            self.due = Some(Due { slot, start, written: false });
        }
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
    /// A request that cannot go out before all others are complete.
    held: Option<Request>,
}

/// The lanes that a load of requests records.
pub(crate) fn lanes(io: &Io) -> Vec<Lane> {
    let (reads, writes, syncs) = (io.reads.0 > 0.0, io.reads.0 < 100.0, io.fsync_every > 0);
    let all = [
        (Lane::Read, reads),
        (Lane::Write, writes),
        (Lane::OwingWrite, writes && syncs),
        (Lane::SyncedWrite, writes && syncs),
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
            held: None,
        }
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
        }
        while !self.is_idle() && self.engine.wait().is_ok() {
            self.engine.reap(|slot, _| self.free.push(slot));
        }
        self.recorder
    }

    fn is_idle(&self) -> bool {
        self.free.len() == self.flights.len()
    }

    /// Pushes requests until no slot is free or something has to wait for those in flight.
    #[inline]
    fn fill(&mut self) {
        while self.owed.due.is_none()
            && let Some(slot) = self.free.pop()
        {
            let request = match self.held.take() {
                Some(request) => request,
                None => self.requests.next(),
            };
            // By its parts: a request that is handed whole to a call that is not inlined has to live in memory, and
            // would be copied from there before the processor is done writing it.
            if request.restart && !self.restart(request.file) {
                self.free.push(slot);
                self.held = Some(request);
                return;
            }
            self.flights[slot] = Flight { start: self.now, request };
            if request.write {
                self.owed.write(slot, self.now, request.file);
            }
            self.engine.push(slot, &request);
        }
    }

    /// Cuts a file to nothing, unless something is in flight (the slot of this very request is not free either). The
    /// time it takes belongs to no operation.
    #[cold]
    fn restart(&mut self, file: u32) -> bool {
        if self.free.len() + 1 < self.flights.len() {
            return false;
        }
        let file = file as usize;
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
        let waited = self.engine.wait();
        self.now = self.pace.after(self.now);
        self.recorder.tick(self.now);
        if let Err(errno) = waited {
            self.recorder.error(self.now, "io_uring_enter for", &self.files.paths[0], &errno);
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
                Some(due) if due.slot == slot => {
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

    /// Pays the sync that is due: every file that this thread has written since its last one, one call after the
    /// other. An ordinary system call with either engine, as nothing else is in flight.
    fn sync(&mut self) {
        let mut ok = true;
        while let Some(file) = self.owed.dirty.pop() {
            self.owed.is_dirty[file as usize] = false;
            let (before, fd) = (self.now, &self.files.fds[file as usize]);
            let (name, result) = match self.owed.call {
                SyncCall::Fsync => ("fsync", retry_on_intr(|| fsync(fd))),
                SyncCall::Fdatasync => ("fdatasync", retry_on_intr(|| fdatasync(fd))),
            };
            self.now = self.pace.after(before);
            self.recorder.tick(self.now);
            match result {
                Ok(()) => self.recorder.part(Lane::Fsync, self.now.saturating_sub(before)),
                Err(errno) => {
                    ok = false;
                    self.recorder.error(self.now, name, &self.files.paths[file as usize], &errno);
                }
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
