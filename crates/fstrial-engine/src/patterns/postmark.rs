//! PostMark 1.5x, operation by operation: its random numbers, its table of files, its system calls.
//!
//! [`Pool`] is the tool without its I/O: its draws and the file of each step. It depends on nothing but the settings,
//! so a later part of a run restores its state by drawing the earlier numbers again. [`PostmarkRun`] does the steps on
//! a filesystem. Differences from the tool: the files of a thread are named relative to its own directory; the empty
//! subdirectories stay at the end. Writes take the tool's own text, of which all files hold the same start, unless the
//! load uses zeros or one repeated word.

use super::{LayoutContext, Loop, PreparedThread, PreparedThreads, Routine, Thread, prepared_threads};
use crate::{
    EngineError,
    buffer::{self, Pages},
    files::{Writer, allow_open_files, open_directory},
    generator::{Generator, Stream},
    promises,
    recorder::{Lane, Recorder},
    timekeeper::Timekeeper,
};
use fstrial_model::{
    job::Load,
    workload::{Data, Postmark, PostmarkPart},
};
use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, SeekFrom, fstat, mkdirat, openat, seek, unlinkat},
    io::{Errno, read, retry_on_intr, write},
};
use std::{
    ffi::CStr,
    io::Write as _,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

/// Words of the Mersenne Twister's state, and the distance of those that are mixed.
const WORDS: usize = 624;
const MIDDLE: usize = 397;
/// Transfer size of the C library: `st_blksize` of common filesystems.
const PIECE: usize = 4096;
/// Longest path: `s`, ten digits, a slash, ten digits, a zero byte.
const MAX_NAME: usize = 32;

/// MT19937 as its authors first seeded it (1999): by a linear congruential generator, two steps for each word.
#[derive(Debug, Clone)]
struct Twister {
    state: Vec<u32>,
    at: usize,
}

impl Twister {
    fn new(mut seed: u32) -> Self {
        let mut half = || {
            let upper = seed & 0xffff_0000;
            seed = seed.wrapping_mul(69069).wrapping_add(1);
            upper
        };
        let state = (0..WORDS).map(|_| half() | half() >> 16).collect();
        Self { state, at: WORDS }
    }

    fn next(&mut self) -> u32 {
        if self.at == WORDS {
            self.refill();
        }
        let mut word = self.state[self.at];
        self.at += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ word >> 18
    }

    fn refill(&mut self) {
        for n in 0..WORDS {
            let word = (self.state[n] & 0x8000_0000) | (self.state[(n + 1) % WORDS] & 0x7fff_ffff);
            let twist = if word & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[n] = self.state[(n + MIDDLE) % WORDS] ^ (word >> 1) ^ twist;
        }
        self.at = 0;
    }

    /// Below `n`, by the remainder; 0 for 0, which draws nothing.
    fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { u64::from(self.next()) % n }
    }
}

/// A file of the table; it is free when its size is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct File {
    subdirectory: Option<u32>,
    number: u64,
    size: u64,
}

/// One call on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Create(File),
    Read(File),
    /// The file before, and the bytes that are added.
    Append(File, u64),
    Delete(File),
    /// The table is full, or the file is at its largest: PostMark counts it.
    Nothing,
}

/// The tool's report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counters {
    created: u64,
    read: u64,
    appended: u64,
    deleted: u64,
    bytes_read: u64,
    bytes_written: u64,
}

/// The tool without its I/O.
#[derive(Debug, Clone)]
struct Pool {
    settings: Postmark,
    random: Twister,
    files: Vec<File>,
    /// The slot after the one allocated last.
    allocated: usize,
    counters: Counters,
    transactions: u32,
    /// Next slot that the last phase looks at.
    sweep: usize,
}

impl Pool {
    /// Seeds the generator and draws the text, as the tool does first; gives that too.
    fn new(settings: Postmark, thread: u16) -> (Self, Vec<u8>) {
        let mut random = Twister::new(settings.seed.wrapping_add(u32::from(thread)));
        let text = (0..2 * settings.size_high.0).map(|_| 32 + random.below(95) as u8).collect();
        let pool = Self {
            settings,
            random,
            files: vec![File::default(); 2 * settings.number as usize],
            allocated: 0,
            counters: Counters::default(),
            transactions: 0,
            sweep: 0,
        };
        (pool, text)
    }

    fn free_slot(&mut self) -> Option<usize> {
        let is_free = |slot: &usize| self.files.get(*slot).is_some_and(|file| file.size == 0);
        let slot = Some(self.allocated)
            .filter(is_free)
            .or_else(|| self.files.iter().position(|file| file.size == 0))?;
        self.allocated = slot + 1;
        Some(slot)
    }

    fn used_slot(&mut self) -> usize {
        loop {
            let slot = self.random.below(self.files.len() as u64) as usize;
            if self.files[slot].size > 0 {
                return slot;
            }
        }
    }

    fn create(&mut self) -> Action {
        let Some(slot) = self.free_slot() else { return Action::Nothing };
        let Postmark { size_low, size_high, subdirectories, .. } = self.settings;
        let subdirectory = (subdirectories > 1).then(|| self.random.below(u64::from(subdirectories)) as u32);
        let size = size_low.0 + self.random.below(size_high.0 - size_low.0);
        self.counters.created += 1;
        self.counters.bytes_written += size;
        let file = File { subdirectory, number: self.counters.created, size };
        self.files[slot] = file;
        Action::Create(file)
    }

    fn read(&mut self) -> Action {
        let slot = self.used_slot();
        let file = self.files[slot];
        self.counters.read += 1;
        self.counters.bytes_read += file.size;
        Action::Read(file)
    }

    fn append(&mut self) -> Action {
        let (slot, high) = (self.used_slot(), self.settings.size_high.0);
        let file = self.files[slot];
        if file.size >= high {
            return Action::Nothing;
        }
        let added = self.random.below(high - file.size) + 1;
        self.files[slot].size += added;
        self.counters.appended += 1;
        self.counters.bytes_written += added;
        Action::Append(file, added)
    }

    fn delete(&mut self, slot: usize) -> Action {
        self.counters.deleted += 1;
        Action::Delete(std::mem::take(&mut self.files[slot]))
    }

    /// One draw of ten against a bias; none if the half is left out.
    fn decide(&mut self, bias: i8) -> Option<bool> {
        let bias = u64::try_from(bias).ok()?;
        Some(self.random.below(10) < bias)
    }

    /// The next file of the first phase.
    fn next_create(&mut self) -> Option<[Action; 2]> {
        let left = self.counters.created < u64::from(self.settings.number) && self.transactions == 0;
        left.then(|| [self.create(), Action::Nothing])
    }

    /// The next transaction: its two halves. None when all are done, or no file is left.
    fn next_transaction(&mut self) -> Option<[Action; 2]> {
        let none_left = self.counters.created == self.counters.deleted;
        if self.transactions == self.settings.transactions || none_left {
            return None;
        }
        self.transactions += 1;
        let first = match self.decide(self.settings.bias_read) {
            Some(true) => self.read(),
            Some(false) => self.append(),
            None => Action::Nothing,
        };
        let second = match self.decide(self.settings.bias_create) {
            Some(true) => self.create(),
            Some(false) => {
                let slot = self.used_slot();
                self.delete(slot)
            }
            None => Action::Nothing,
        };
        Some([first, second])
    }

    /// The next file of the last phase.
    fn next_delete(&mut self) -> Option<[Action; 2]> {
        while let Some(file) = self.files.get(self.sweep) {
            self.sweep += 1;
            if file.size > 0 {
                return Some([self.delete(self.sweep - 1), Action::Nothing]);
            }
        }
        None
    }

    /// The next operation of a part.
    fn next(&mut self, part: PostmarkPart) -> Option<[Action; 2]> {
        match part {
            PostmarkPart::Create => self.next_create(),
            PostmarkPart::Transactions => self.next_transaction(),
            PostmarkPart::Delete => self.next_delete(),
            PostmarkPart::All => {
                let first = self.next_create();
                first.or_else(|| self.next_transaction()).or_else(|| self.next_delete())
            }
        }
    }

    /// Goes to the start of a part without any I/O.
    fn skip_to(&mut self, part: PostmarkPart) {
        let before: &[PostmarkPart] = match part {
            PostmarkPart::Create | PostmarkPart::All => &[],
            PostmarkPart::Transactions => &[PostmarkPart::Create],
            PostmarkPart::Delete => &[PostmarkPart::Create, PostmarkPart::Transactions],
        };
        before.iter().for_each(|part| while self.next(*part).is_some() {});
    }
}

/// One thread's pool and where its files are.
#[derive(Debug)]
struct PoolThread {
    pool: Pool,
    directory: OwnedFd,
    path: PathBuf,
    text: Pages,
    read: Pages,
}

impl Routine for Postmark {
    fn lay_out(&self, context: LayoutContext<'_>) -> Result<PreparedThreads, EngineError> {
        prepare(context.load, self, context.directory()).map(prepared_threads)
    }
}

impl PreparedThread for PoolThread {
    fn descriptors(&self) -> Option<Vec<BorrowedFd<'_>>> {
        Some(vec![self.directory.as_fd()])
    }

    fn ready<'a>(&'a mut self, thread: &Thread<'_>) -> Result<Loop<'a>, EngineError> {
        let steps = PostmarkRun { work: self, time: thread.time(&LANES) };
        Ok(Box::new(|start| steps.run(start)))
    }
}

/// Makes the directories of the first part, or finds them, and draws up to the start of the part.
fn prepare(load: &Load, settings: &Postmark, directory: &Path) -> Result<Vec<PoolThread>, EngineError> {
    let writer = Writer::new(load);
    allow_open_files(2 * u64::from(load.threads))?;
    let starts = matches!(settings.part, PostmarkPart::Create | PostmarkPart::All);
    let pool = |thread: u16| {
        let path = directory.join(format!("postmark-{thread:04}"));
        let make = |path: &Path| {
            mkdirat(CWD, path, Mode::RWXU).map_err(|errno| writer.error("make the directory", path, errno))
        };
        if starts {
            make(&path)?;
            let subdirectories = if settings.subdirectories > 1 { settings.subdirectories } else { 0 };
            (0..subdirectories).try_for_each(|n| make(&path.join(format!("s{n}"))))?;
        }
        let fd = open_directory(&path)?;
        let (mut pool, drawn) = Pool::new(*settings, thread);
        pool.skip_to(settings.part);
        let mut text = Pages::new(drawn.len());
        text.as_mut_slice().copy_from_slice(&drawn);
        if load.data != Data::Random {
            buffer::fill(load.data, text.as_mut_slice(), &mut Generator::new(load.seed, Stream::Layout));
        }
        let mut read = Pages::new(PIECE.max(settings.read.0 as usize));
        read.as_mut_slice().fill(1);
        Ok(PoolThread { pool, directory: fd, path, text, read })
    };
    (0..load.threads).map(pool).collect()
}

/// The lanes that it records.
const LANES: [Lane; 5] = [Lane::TURN, Lane::CREATE, Lane::READ, Lane::APPEND, Lane::DELETE];

/// A path without the heap.
struct Name([u8; MAX_NAME]);

impl Name {
    fn new(file: &File) -> Self {
        let mut name = [0; MAX_NAME];
        let mut rest = &mut name[..MAX_NAME - 1];
        let written = match file.subdirectory {
            Some(subdirectory) => write!(rest, "s{subdirectory}/{}", file.number),
            None => write!(rest, "{}", file.number),
        };
        written.expect("two numbers fit");
        Self(name)
    }

    fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).expect("the last byte is zero")
    }
}

/// One thread's loop over its pool.
struct PostmarkRun<'a> {
    work: &'a mut PoolThread,
    time: Timekeeper,
}

impl PostmarkRun<'_> {
    /// Does the part from tick `start` on, until it is done, the time is over or too much failed.
    fn run(mut self, start: u64) -> Recorder {
        self.time.start_at(start);
        let part = self.work.pool.settings.part;
        while !self.time.recorder.is_over()
            && let Some(actions) = self.work.pool.next(part)
        {
            self.operation(&actions);
        }
        self.time.finish()
    }

    fn operation(&mut self, actions: &[Action; 2]) {
        let start = self.time.now;
        let (mut bytes, mut ok) = (0, true);
        for action in actions {
            let (lane, result) = match action {
                Action::Create(file) => (Lane::CREATE, self.work.create(file)),
                Action::Read(file) => (Lane::READ, self.work.read(file)),
                Action::Append(file, added) => (Lane::APPEND, self.work.append(file, *added)),
                Action::Delete(file) => (Lane::DELETE, self.work.delete(file)),
                Action::Nothing => continue,
            };
            let took = self.time.lap();
            match result {
                Ok(moved) => {
                    bytes += moved;
                    self.time.recorder.part(lane, took);
                }
                Err((name, what)) => {
                    ok = false;
                    self.time.error(name, &self.work.path, &what);
                }
            }
        }
        if ok {
            self.time.turned(start, bytes);
        }
    }
}

/// A call that failed, and how.
type FailedStep = (&'static str, String);

fn failed(name: &'static str) -> impl Fn(Errno) -> FailedStep {
    move |errno| (name, errno.to_string())
}

impl PoolThread {
    fn open(&self, file: &File, flags: OFlags, mode: u32) -> Result<OwnedFd, FailedStep> {
        let name = Name::new(file);
        let mode = if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(mode) } else { Mode::empty() };
        let creates = flags.contains(OFlags::CREATE);
        let open = if creates { "create in" } else { "open in" };
        let _change = creates.then(|| promises::names(&self.directory, name.as_c_str()));
        openat(&self.directory, name.as_c_str(), flags | OFlags::CLOEXEC, mode).map_err(failed(open))
    }

    /// The query of `fopen` and the first transfer: the C library gets the block size.
    fn look(fd: &OwnedFd) -> Result<(), FailedStep> {
        fstat(fd).map(drop).map_err(failed("stat in"))
    }

    fn create(&mut self, file: &File) -> Result<u64, FailedStep> {
        if self.pool.settings.buffering {
            let fd = self.open(file, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC, 0o666)?;
            Self::look(&fd)?;
            return self.write(&fd, file.size);
        }
        let fd = self.open(file, OFlags::RDWR | OFlags::CREATE, 0o644)?;
        self.write(&fd, file.size)
    }

    fn append(&mut self, file: &File, added: u64) -> Result<u64, FailedStep> {
        if self.pool.settings.buffering {
            let fd = self.open(file, OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND, 0o666)?;
            seek(&fd, SeekFrom::End(0)).map_err(failed("seek in"))?;
            Self::look(&fd)?;
            return self.write(&fd, added);
        }
        let fd = self.open(file, OFlags::RDWR | OFlags::APPEND, 0)?;
        self.write(&fd, added)
    }

    /// Writes the first `size` bytes of the text. Without buffering a last request of the rest is made even if that is
    /// empty.
    fn write(&self, fd: &OwnedFd, size: u64) -> Result<u64, FailedStep> {
        let Postmark { write: request, buffering, .. } = self.pool.settings;
        let request = if buffering { PIECE } else { request.0 as usize };
        let _change = promises::writes(fd, 0..u64::MAX);
        let text = &self.text.as_slice()[..size as usize];
        let rest = text.chunks_exact(request).remainder();
        let empty = (!buffering && rest.is_empty()).then_some(rest);
        for part in text.chunks(request).chain(empty) {
            let written = retry_on_intr(|| write(fd, part)).map_err(failed("write in"))?;
            if written < part.len() {
                return Err(("write in", format!("only {written} of {} bytes", part.len())));
            }
        }
        Ok(size)
    }

    fn read(&mut self, file: &File) -> Result<u64, FailedStep> {
        let Postmark { read: request, buffering, .. } = self.pool.settings;
        let fd = self.open(file, OFlags::RDONLY, 0)?;
        let request = if buffering { PIECE } else { request.0 as usize };
        if buffering {
            Self::look(&fd)?;
        }
        let mut left = file.size as usize;
        loop {
            let wanted = left.min(request);
            // The C library always asks for a whole piece.
            let requested = if buffering { request } else { wanted };
            let buffer = &mut self.read.as_mut_slice()[..requested];
            let got = retry_on_intr(|| read(&fd, &mut *buffer)).map_err(failed("read in"))?;
            if got < wanted {
                return Err(("read in", format!("only {got} of {wanted} bytes")));
            }
            left -= wanted;
            if wanted < request || (buffering && left == 0) {
                return Ok(file.size);
            }
        }
    }

    fn delete(&mut self, file: &File) -> Result<u64, FailedStep> {
        let name = Name::new(file);
        let _change = promises::removes(&self.directory, name.as_c_str());
        unlinkat(&self.directory, name.as_c_str(), AtFlags::empty()).map_err(failed("delete in"))?;
        Ok(0)
    }
}

#[cfg(test)]
mod tests;
