//! A write-ahead log: threads that ask for durable commits, and the file they go to.
//!
//! One operation is one commit, from the request to the return. With group commit a thread that finds no writer becomes
//! the leader: it takes all waiting records, writes them in one request, syncs, and wakes their owners; requests
//! meanwhile wait for the next group. Without it every thread writes and syncs its own record under one lock. Writes
//! and syncs are recorded separately too, by the thread that makes them.
//!
//! The lock and the condition are the model, so they are here although other loops have none. After a write or a sync
//! has failed, the log fails every later commit: dropped data cannot be distinguished from kept data, and databases
//! stop there too.

use super::{LayoutContext, Loop, PreparedThread, PreparedThreads, Routine, Thread, prepared_threads};
use crate::{
    EngineError,
    buffer::Payload,
    error::layout,
    files::{Writer, create},
    flush, promises,
    recorder::{Lane, Recorder},
    timekeeper::Timekeeper,
};
use fstrial_model::workload::Log;
use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, fsync, openat, unlinkat},
    io::{Errno, pwrite, retry_on_intr},
};
use std::{
    collections::VecDeque,
    ffi::CString,
    os::fd::{BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

/// Limit of a leader's write, in bytes.
const MAX_GROUP: u64 = 1 << 20;

/// The lanes that it records.
const LANES: [Lane; 3] = [Lane::TURN, Lane::WRITE, Lane::FSYNC];

impl Routine for Log {
    fn lay_out(&self, context: LayoutContext<'_>) -> Result<PreparedThreads, EngineError> {
        let log = Arc::new(prepare(self, context.directory(), &mut Writer::new(context.load))?);
        Ok(prepared_threads((0..context.load.threads).map(|_| LogThread(Arc::clone(&log)))))
    }
}

/// A thread's part in the log.
#[derive(Debug)]
struct LogThread(Arc<SharedLog>);

impl PreparedThread for LogThread {
    fn descriptors(&self) -> Option<Vec<BorrowedFd<'_>>> {
        None
    }

    fn ready<'a>(&'a mut self, thread: &Thread<'_>) -> Result<Loop<'a>, EngineError> {
        let payload = thread.payload(1, self.0.write_max());
        let committer = Committer::new(&self.0, payload, thread.time(&LANES));
        Ok(Box::new(|start| committer.run(start)))
    }
}

/// Position of the log: written only by the holder of the lock, or the leader.
#[derive(Debug)]
struct LogPosition {
    directory: OwnedFd,
    /// The files in use; of a growing log only the newest is open.
    files: VecDeque<OwnedFd>,
    /// Number of the newest file of a growing log.
    newest: u64,
    offset: u64,
}

/// The queue of commits, numbered from 1.
#[derive(Debug, Default)]
struct Queue {
    /// Requested commits.
    requested: u64,
    /// Commits that are durable; all before are.
    durable: u64,
    /// A leader is writing.
    led: bool,
    /// The failure of the log: nothing becomes durable any more.
    broken: Option<Broken>,
}

#[derive(Debug, Clone, Copy)]
struct Broken {
    call: &'static str,
    errno: Errno,
}

/// A log that all threads of a load share.
#[derive(Debug)]
struct SharedLog {
    settings: Log,
    path: PathBuf,
    place: Mutex<LogPosition>,
    queue: Mutex<Queue>,
    changed: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn name(number: u64) -> String {
    format!("log-{number:08}")
}

/// Lays out the files: written whole for a log that is overwritten in place, else one empty file.
fn prepare(settings: &Log, directory: &Path, writer: &mut Writer) -> Result<SharedLog, EngineError> {
    let fd = openat(CWD, directory, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| layout("open", directory, errno))?;
    let (files, size) = if settings.growing { (1, 0) } else { (settings.files, settings.file_size.0) };
    let mut open = VecDeque::new();
    for number in 0..u64::from(files) {
        let path = directory.join(name(number));
        let file = create(&path)?;
        writer.write(&file, &path, size)?;
        fsync(&file).map_err(|errno| layout("fsync", &path, errno))?;
        open.push_back(file);
    }
    fsync(&fd).map_err(|errno| layout("fsync", directory, errno))?;
    let path = directory.join("log");
    let place = LogPosition { directory: fd, files: open, newest: 0, offset: 0 };
    Ok(SharedLog {
        settings: *settings,
        path,
        place: Mutex::new(place),
        queue: Mutex::default(),
        changed: Condvar::new(),
    })
}

impl SharedLog {
    /// Records that fit into one write.
    fn group_max(&self) -> u64 {
        (MAX_GROUP / self.settings.record.0).max(1)
    }

    /// Bytes of the largest write.
    fn write_max(&self) -> usize {
        (self.group_max().min(1024) * self.settings.record.0) as usize
    }
}

impl LogPosition {
    /// Goes to the next file: in a ring, or to a new one in place of the oldest.
    fn next_file(&mut self, settings: &Log) -> Result<(), Broken> {
        self.offset = 0;
        if !settings.growing {
            self.files.rotate_left(1);
            return Ok(());
        }
        let broken = |call| move |errno| Broken { call, errno };
        self.newest += 1;
        let c_name = |number| CString::new(name(number)).expect("digits have no zero byte");
        let new = c_name(self.newest);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let change = promises::names(&self.directory, &new);
        let file = openat(&self.directory, &*new, flags, Mode::RUSR | Mode::WUSR);
        drop(change);
        self.files = VecDeque::from([file.map_err(broken("create a file of"))?]);
        if let Some(oldest) = self.newest.checked_sub(u64::from(settings.files)) {
            let oldest = c_name(oldest);
            let _change = promises::removes(&self.directory, &oldest);
            unlinkat(&self.directory, &*oldest, AtFlags::empty()).map_err(broken("delete a file of"))?;
        }
        // Else the commits in it would be lost with its name.
        let begun = promises::syncs();
        fsync(&self.directory).map_err(broken("fsync the directory of"))?;
        begun.done(&self.directory);
        Ok(())
    }
}

/// One thread's loop of commits.
struct Committer<'a> {
    log: &'a SharedLog,
    payload: Payload,
    time: Timekeeper,
}

impl<'a> Committer<'a> {
    /// `payload` has one slot of [`SharedLog::write_max`] bytes.
    fn new(log: &'a SharedLog, payload: Payload, time: Timekeeper) -> Self {
        Self { log, payload, time }
    }

    /// Commits from tick `start` on, until the time is over, the amount is done or the log is broken.
    fn run(mut self, start: u64) -> Recorder {
        self.time.start_at(start);
        let mut left = self.log.settings.commits.unwrap_or(u64::MAX);
        while left > 0
            && let Some(before) = self.time.next_turn()
        {
            left -= 1;
            let result = if self.log.settings.group { self.commit_in_group() } else { self.commit_alone() };
            self.time.lap();
            match result {
                Ok(()) => self.time.turned(before, self.log.settings.record.0),
                Err(Broken { call, errno }) => self.time.error(call, &self.log.path, &errno),
            }
        }
        self.time.finish()
    }

    fn commit_in_group(&mut self) -> Result<(), Broken> {
        let log = self.log;
        let mut queue = lock(&log.queue);
        queue.requested += 1;
        let mine = queue.requested;
        loop {
            if queue.durable >= mine {
                return Ok(());
            }
            if let Some(broken) = queue.broken {
                return Err(broken);
            }
            if queue.led {
                queue = log.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            queue.led = true;
            let waiting = queue.requested - queue.durable;
            drop(queue);
            let written = self.write_and_sync(waiting);
            queue = lock(&log.queue);
            queue.led = false;
            match written {
                Ok(records) => queue.durable += records,
                Err(broken) => queue.broken = Some(broken),
            }
            log.changed.notify_all();
        }
    }

    fn commit_alone(&mut self) -> Result<(), Broken> {
        let queue = &self.log.queue;
        let mut alone = lock(queue);
        if let Some(broken) = alone.broken {
            return Err(broken);
        }
        let written = self.write_and_sync(1).map(drop);
        alone.broken = written.err();
        written
    }

    /// Makes up to `waiting` records durable, as many as fit into one write and the file; gives their number.
    fn write_and_sync(&mut self, waiting: u64) -> Result<u64, Broken> {
        let Log { record, call, file_size, .. } = self.log.settings;
        let mut place = lock(&self.log.place);
        if place.offset + record.0 > file_size.0 {
            place.next_file(&self.log.settings)?;
        }
        let records =
            waiting.min(self.log.group_max()).min(1024).min((file_size.0 - place.offset) / record.0);
        let len = (records * record.0) as usize;
        let range = self.payload.take(0, len);
        let (bytes, fd) = (&self.payload.bytes()[range], &place.files[0]);
        let (offset, start) = (place.offset, self.time.pace.clock.now());
        let change = promises::writes_at(fd, offset, len);
        let mut done = 0;
        while done < len {
            let written = retry_on_intr(|| pwrite(fd, &bytes[done..], offset + done as u64));
            match written.map_err(|errno| Broken { call: "write", errno })? {
                0 => return Err(Broken { call: "write", errno: Errno::IO }),
                written => done += written,
            }
        }
        drop(change);
        let begun = promises::syncs();
        let middle = self.time.pace.clock.now();
        let result = flush::flush(fd, call);
        let end = self.time.pace.clock.now();
        result.map_err(|errno| Broken { call: flush::name(call), errno })?;
        if flush::is_for_good(call) {
            begun.done(fd);
        }
        place.offset += len as u64;
        self.time.recorder.tick(end);
        self.time.recorder.part(Lane::WRITE, middle.saturating_sub(start));
        self.time.recorder.part(Lane::FSYNC, end.saturating_sub(middle));
        Ok(records)
    }
}

#[cfg(test)]
mod tests;
