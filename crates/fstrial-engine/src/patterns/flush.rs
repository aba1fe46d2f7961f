//! A database's page flusher: batches of pages at random places of data files, each batch made durable.
//!
//! One operation is one batch: the doublewrite buffer and its sync if there is one, every page by a separate `pwrite`,
//! then a sync of each written data file. Writes and syncs are recorded separately too. With an interval a batch begins
//! that long after the start of the one before, or immediately if it is late; the wait belongs to no operation.

use super::{LayoutContext, Loop, PreparedThread, PreparedThreads, Routine, Thread, prepared_threads};
use crate::{
    EngineError,
    buffer::Payload,
    clock::sleep_ns,
    files::{Files, Writer, allow_open_files, create, open_all},
    flush,
    generator::Generator,
    promises,
    recorder::{Lane, Recorder},
    timekeeper::Timekeeper,
};
use fstrial_model::{
    job::Load,
    workload::{Flush, Io},
};
use rustix::{
    fs::{OFlags, fsync},
    io::{pwrite, retry_on_intr},
};
use std::{
    os::fd::{AsFd, BorrowedFd},
    path::{Path, PathBuf},
};

/// Bytes per write of the doublewrite buffer (InnoDB's doublewrite area is 1 MiB).
const STRETCH: usize = 1 << 20;
/// Longest sleep between two looks at the clock.
const NAP_NS: u64 = 50_000_000;

/// The lanes that it records.
const LANES: [Lane; 3] = [Lane::TURN, Lane::WRITE, Lane::FSYNC];

impl Routine for Flush {
    fn lay_out(&self, context: LayoutContext<'_>) -> Result<PreparedThreads, EngineError> {
        let files = prepare(context.load, self, context.directory())?;
        Ok(prepared_threads(files.into_iter().map(|files| FlushThread { flush: *self, files })))
    }
}

/// The files that a thread flushes pages to.
#[derive(Debug)]
struct FlushThread {
    flush: Flush,
    files: Files,
}

impl PreparedThread for FlushThread {
    fn descriptors(&self) -> Option<Vec<BorrowedFd<'_>>> {
        Some(self.files.fds.iter().map(AsFd::as_fd).collect())
    }

    fn ready<'a>(&'a mut self, thread: &Thread<'_>) -> Result<Loop<'a>, EngineError> {
        let payload = thread.payload(1, write_max(&self.flush));
        let time = thread.time(&LANES);
        let flusher = Flusher::new(self.flush, &self.files, payload, thread.choices(), time);
        Ok(Box::new(|start| flusher.run(start)))
    }
}

/// Lays out the files; gives each thread its descriptors: the data files, then its doublewrite file if there is one.
fn prepare(load: &Load, flush: &Flush, directory: &Path) -> Result<Vec<Files>, EngineError> {
    let mut writer = Writer::new(load);
    let each = u64::from(flush.files) + u64::from(flush.doublewrite);
    allow_open_files(each * u64::from(load.threads))?;
    let mut lay_out = |path: &PathBuf, size: u64| {
        let fd = create(path)?;
        writer.write(&fd, path, size)?;
        fsync(&fd).map_err(|errno| crate::error::layout("fsync", path, errno))
    };
    let data: Vec<PathBuf> = (0..flush.files).map(|n| directory.join(format!("data-{n:05}"))).collect();
    data.iter().try_for_each(|path| lay_out(path, flush.file_size.0))?;
    // Descriptors are opened, and direct I/O is tried, as for requests of one page.
    let io = Io { block_size: flush.page, direct: flush.direct, ..Io::default() };
    (0..load.threads)
        .map(|thread| {
            let mut paths = data.clone();
            if flush.doublewrite {
                let path = directory.join(format!("doublewrite-{thread:04}"));
                lay_out(&path, flush.batch_bytes())?;
                paths.push(path);
            }
            open_all(&io, paths, OFlags::RDWR)
        })
        .collect()
}

/// Bytes of the largest write.
fn write_max(flush: &Flush) -> usize {
    let page = flush.page.0 as usize;
    let pages = STRETCH / page;
    if flush.doublewrite { page * pages.clamp(1, flush.batch as usize) } else { page }
}

/// A write that went wrong: on which file, by which call, and how.
struct Failure {
    file: usize,
    call: &'static str,
    what: String,
}

/// One thread's loop of batches.
struct Flusher<'a> {
    flush: Flush,
    files: &'a Files,
    payload: Payload,
    choices: Generator,
    /// Data files written by this batch.
    dirty: Vec<bool>,
    time: Timekeeper,
}

impl<'a> Flusher<'a> {
    /// `payload` has one slot of [`write_max`] bytes.
    fn new(flush: Flush, files: &'a Files, payload: Payload, choices: Generator, time: Timekeeper) -> Self {
        let dirty = vec![false; flush.files as usize];
        Self { flush, files, payload, choices, dirty, time }
    }

    /// Writes batches from tick `start` on, until the time is over, the amount is done or too many failed.
    fn run(mut self, start: u64) -> Recorder {
        self.time.start_at(start);
        let interval = self.time.pace.clock.ticks(self.flush.interval.0);
        let mut due = self.time.now;
        let mut left = self.flush.batches.unwrap_or(u64::MAX);
        while left > 0
            && let Some(begin) = self.time.next_turn()
        {
            left -= 1;
            match self.batch() {
                Ok(()) => self.time.turned(begin, self.bytes()),
                Err(Failure { file, call, what }) => {
                    self.time.error(call, &self.files.paths[file], &what);
                }
            }
            due = (due + interval).max(self.time.now);
            if left > 0 {
                self.wait_until(due);
            }
        }
        self.time.finish()
    }

    /// Bytes written by one batch.
    fn bytes(&self) -> u64 {
        self.flush.batch_bytes() * if self.flush.doublewrite { 2 } else { 1 }
    }

    fn wait_until(&mut self, due: u64) {
        while !self.time.recorder.is_over()
            && let Some(left) = due.checked_sub(self.time.now).filter(|left| *left > 0)
        {
            sleep_ns(self.time.pace.clock.nanos(left).clamp(1, NAP_NS));
            self.time.look();
        }
    }

    fn batch(&mut self) -> Result<(), Failure> {
        let page = self.flush.page.0;
        if self.flush.doublewrite {
            self.doublewrite()?;
        }
        let pages = self.flush.file_size.0 / page;
        self.dirty.fill(false);
        for _ in 0..self.flush.batch {
            let place = self.choices.below(pages * u64::from(self.flush.files));
            let file = (place / pages) as usize;
            self.write(file, place % pages * page, page as usize)?;
            self.dirty[file] = true;
        }
        for file in 0..self.dirty.len() {
            if self.dirty[file] {
                self.sync(file)?;
            }
        }
        Ok(())
    }

    /// The whole batch in one sequential stretch, synced.
    fn doublewrite(&mut self) -> Result<(), Failure> {
        let (file, size, most) =
            (self.flush.files as usize, self.flush.batch_bytes(), write_max(&self.flush));
        let mut done = 0;
        while done < size {
            let len = most.min(usize::try_from(size - done).unwrap_or(most));
            self.write(file, done, len)?;
            done += len as u64;
        }
        self.sync(file)
    }

    fn write(&mut self, file: usize, offset: u64, len: usize) -> Result<(), Failure> {
        let range = self.payload.take(0, len);
        let (bytes, fd) = (&self.payload.bytes()[range], &self.files.fds[file]);
        let change = promises::writes_at(fd, offset, len);
        let result = retry_on_intr(|| pwrite(fd, bytes, offset));
        drop(change);
        let what = match result {
            Ok(written) if written == len => {
                self.time.part(Lane::WRITE);
                return Ok(());
            }
            Ok(written) => format!("only {written} of {len} bytes at {offset}"),
            Err(errno) => errno.to_string(),
        };
        Err(self.failed(file, "write", what))
    }

    fn sync(&mut self, file: usize) -> Result<(), Failure> {
        let fd = &self.files.fds[file];
        let call = self.flush.sync;
        let begun = promises::syncs();
        match flush::flush(fd, call) {
            Ok(()) => {
                if flush::is_for_good(call) {
                    begun.done(fd);
                }
                self.time.part(Lane::FSYNC);
                Ok(())
            }
            Err(errno) => Err(self.failed(file, flush::name(call), errno.to_string())),
        }
    }

    #[cold]
    fn failed(&mut self, file: usize, call: &'static str, what: String) -> Failure {
        self.time.lap();
        Failure { file, call, what }
    }
}

#[cfg(test)]
mod tests;
