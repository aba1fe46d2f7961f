//! Turns over a ring of many small files, and the ring itself.
//!
//! Files have consecutive numbers: `create` makes the next one, `delete` removes the lowest, so the set is two numbers
//! for any number of files. The newest file stays open from its `create` until the last `write` or `fsync` that follows
//! immediately; closing it is timed with that step.

use super::{LayoutContext, Loop, PreparedThread, PreparedThreads, Routine, Thread, prepared_threads};
use crate::{
    EngineError,
    buffer::{Pages, Payload},
    error::layout,
    files::{Writer, allow_open_files, open_directory},
    generator::Generator,
    promises,
    recorder::{Lane, Recorder},
    timekeeper::Timekeeper,
};
use fstrial_model::{
    job::Load,
    workload::{FileSet, FileStep},
};
use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, fsync, mkdirat, openat, statat, syncfs, unlinkat},
    io::{Errno, pread, pwrite, retry_on_intr},
};
use std::{
    ffi::CStr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

/// Files larger than this are read and written in parts.
const PART: usize = 1 << 20;

impl Routine for FileSet {
    fn lay_out(&self, context: LayoutContext<'_>) -> Result<PreparedThreads, EngineError> {
        if !context.is_new {
            return Err(EngineError::Impossible {
                problem: format!("the file set `{}` is in use already", context.load.set),
                hint: "give this phase or group a separate set: set = \"…\"",
            });
        }
        rings(context.load, self, context.directory()).map(prepared_threads)
    }
}

fn rings(load: &Load, set: &FileSet, directory: &Path) -> Result<Vec<FilesThread>, EngineError> {
    allow_open_files(2 * u64::from(load.threads))?;
    let mut writer = Writer::new(load);
    let mut threads = Vec::new();
    for thread in 0..load.threads {
        let path = directory.join(format!("{}-{thread:04}", load.set));
        mkdirat(CWD, &path, Mode::RWXU).map_err(|errno| writer.error("make the directory", &path, errno))?;
        let ring = Ring::new(open_directory(&path)?, path, u64::from(set.files));
        for number in 0..u64::from(set.files) {
            ring.lay_out(number, set.file_size.0, &mut writer)?;
        }
        threads.push(FilesThread { set: set.clone(), ring });
    }
    if let Some(FilesThread { ring, .. }) = threads.first() {
        // One call for all: a sync for each of a million small files would take hours.
        syncfs(&ring.directory).map_err(|errno| layout("syncfs", directory, errno))?;
    }
    Ok(threads)
}

/// A ring of files, and the turns over it.
#[derive(Debug)]
struct FilesThread {
    set: FileSet,
    ring: Ring,
}

impl PreparedThread for FilesThread {
    fn descriptors(&self) -> Option<Vec<BorrowedFd<'_>>> {
        Some(vec![self.ring.directory.as_fd()])
    }

    fn ready<'a>(&'a mut self, thread: &Thread<'_>) -> Result<Loop<'a>, EngineError> {
        let Self { set, ring } = self;
        let time = thread.time(&lanes(set));
        let turns = Turns::new(set, ring, thread.payload(1, part_size(set)), thread.choices(), time);
        Ok(Box::new(|start| turns.run(start)))
    }
}

/// Bytes in one part of a file.
fn part_size(set: &FileSet) -> usize {
    usize::try_from(set.file_size.0).unwrap_or(PART).clamp(1, PART)
}

/// The files of one thread: those numbered from `oldest` to just before `next`.
#[derive(Debug)]
pub(crate) struct Ring {
    directory: OwnedFd,
    path: PathBuf,
    oldest: u64,
    next: u64,
}

/// A file's name without the heap: `f` and 16 hexadecimal digits.
struct Name([u8; 18]);

impl Name {
    fn new(number: u64) -> Self {
        let mut name = [0; 18];
        name[0] = b'f';
        for (digit, byte) in name[1..17].iter_mut().rev().enumerate() {
            *byte = b"0123456789abcdef"[(number >> (4 * digit)) as usize & 15];
        }
        Self(name)
    }

    fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_with_nul(&self.0).expect("one zero byte, at the end")
    }
}

impl Ring {
    /// A ring that will have `files` files, once they are laid out.
    pub(crate) fn new(directory: OwnedFd, path: PathBuf, files: u64) -> Self {
        Self { directory, path, oldest: 0, next: files }
    }

    /// Makes and fills a file of the first set.
    pub(crate) fn lay_out(&self, number: u64, size: u64, writer: &mut Writer) -> Result<(), EngineError> {
        let path = || self.path.join(Name::new(number).as_c_str().to_string_lossy().as_ref());
        let fd = self.create(number).map_err(|errno| match errno {
            Errno::EXIST => layout("create", path(), errno),
            _ => writer.error("create", &path(), errno),
        })?;
        writer.write(&fd, &self.path, size)
    }

    fn create(&self, number: u64) -> Result<OwnedFd, Errno> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        openat(&self.directory, Name::new(number).as_c_str(), flags, Mode::RUSR | Mode::WUSR)
    }

    fn open(&self, number: u64, flags: OFlags) -> Result<OwnedFd, Errno> {
        openat(&self.directory, Name::new(number).as_c_str(), flags | OFlags::CLOEXEC, Mode::empty())
    }

    fn len(&self) -> u64 {
        self.next - self.oldest
    }
}

/// A step that failed: the call, and its failure.
enum Failure {
    Call(&'static str, Errno),
    Short { name: &'static str, bytes: u64, of: u64 },
}

impl From<(&'static str, Errno)> for Failure {
    fn from((name, errno): (&'static str, Errno)) -> Self {
        Self::Call(name, errno)
    }
}

/// One thread's loop over its file set.
pub(crate) struct Turns<'a> {
    ring: &'a mut Ring,
    /// Each step, and whether the newest file is closed with it.
    steps: Vec<(FileStep, bool)>,
    file_size: u64,
    /// True if files may be shorter than `file_size`, because turns create and do not write.
    short_is_fine: bool,
    payload: Payload,
    read: Pages,
    choices: Generator,
    time: Timekeeper,
    newest: Option<OwnedFd>,
    /// The newest file was created in this turn and not yet written.
    newest_is_empty: bool,
}

/// The lanes that a load on file sets records.
pub(crate) fn lanes(set: &FileSet) -> Vec<Lane> {
    let mut lanes = vec![Lane::TURN];
    for step in &set.steps {
        if !lanes.contains(&lane(*step)) {
            lanes.push(lane(*step));
        }
    }
    lanes
}

fn lane(step: FileStep) -> Lane {
    match step {
        FileStep::Create => Lane::CREATE,
        FileStep::Write => Lane::WRITE,
        FileStep::Fsync => Lane::FSYNC,
        FileStep::Read => Lane::READ,
        FileStep::Stat => Lane::STAT,
        FileStep::Delete => Lane::DELETE,
    }
}

/// Closes the newest file with the last step of each stretch of steps that use it.
fn with_closes(steps: &[FileStep]) -> Vec<(FileStep, bool)> {
    let uses = |step: &FileStep| matches!(step, FileStep::Create | FileStep::Write | FileStep::Fsync);
    let goes_on = |next: Option<&FileStep>| matches!(next, Some(FileStep::Write | FileStep::Fsync));
    steps.iter().enumerate().map(|(n, step)| (*step, uses(step) && !goes_on(steps.get(n + 1)))).collect()
}

impl<'a> Turns<'a> {
    /// Everything the loop needs is allocated here. `payload` has one slot of [`part_size`] bytes.
    fn new(
        set: &FileSet,
        ring: &'a mut Ring,
        payload: Payload,
        choices: Generator,
        time: Timekeeper,
    ) -> Self {
        let mut read = Pages::new(part_size(set));
        read.as_mut_slice().fill(1);
        Self {
            ring,
            steps: with_closes(&set.steps),
            file_size: set.file_size.0,
            short_is_fine: set.steps.contains(&FileStep::Create) && !set.steps.contains(&FileStep::Write),
            payload,
            read,
            choices,
            time,
            newest: None,
            newest_is_empty: false,
        }
    }

    /// Makes turns from tick `start` until the time is over or too many failed.
    fn run(mut self, start: u64) -> Recorder {
        self.time.start_at(start);
        while let Some(due) = self.time.next_turn() {
            self.turn(due);
        }
        self.time.recorder
    }

    /// One turn, whose latency counts from tick `start`.
    fn turn(&mut self, start: u64) {
        let mut bytes = 0;
        self.newest_is_empty = false;
        for n in 0..self.steps.len() {
            let (step, close) = self.steps[n];
            let result = self.step(step);
            if close {
                self.newest = None;
            }
            let took = self.time.lap();
            match result {
                Ok(moved) => {
                    bytes += moved;
                    self.time.recorder.part(lane(step), took);
                }
                Err(failure) => {
                    self.newest = None;
                    self.failed(&failure);
                    return;
                }
            }
        }
        self.time.turned(start, bytes);
    }

    #[cold]
    fn failed(&mut self, failure: &Failure) {
        let path = &self.ring.path;
        match failure {
            Failure::Call(name, errno) => self.time.error(name, path, errno),
            Failure::Short { name, bytes, of } => {
                self.time.error(name, path, &format_args!("only {bytes} of {of} bytes"));
            }
        }
    }

    /// Does one step; gives the bytes moved.
    fn step(&mut self, step: FileStep) -> Result<u64, Failure> {
        match step {
            FileStep::Create => self.create(),
            FileStep::Write => self.write(),
            FileStep::Fsync => {
                let fd = self.open_newest()?;
                let begun = promises::syncs();
                retry_on_intr(|| fsync(fd)).map_err(|errno| ("fsync", errno))?;
                begun.done(fd);
                Ok(0)
            }
            FileStep::Read => self.read(),
            FileStep::Stat => {
                let name = Name::new(self.any());
                statat(&self.ring.directory, name.as_c_str(), AtFlags::empty())
                    .map_err(|errno| ("stat in", errno))?;
                Ok(0)
            }
            FileStep::Delete => {
                let name = Name::new(self.ring.oldest);
                let _change = promises::removes(&self.ring.directory, name.as_c_str());
                unlinkat(&self.ring.directory, name.as_c_str(), AtFlags::empty())
                    .map_err(|errno| ("delete in", errno))?;
                self.ring.oldest += 1;
                Ok(0)
            }
        }
    }

    fn create(&mut self) -> Result<u64, Failure> {
        let _change = promises::names(&self.ring.directory, Name::new(self.ring.next).as_c_str());
        let fd = self.ring.create(self.ring.next).map_err(|errno| ("create in", errno))?;
        self.ring.next += 1;
        self.newest = Some(fd);
        self.newest_is_empty = true;
        Ok(0)
    }

    /// The newest file, opened if the turn did not leave it open.
    fn open_newest(&mut self) -> Result<&OwnedFd, Failure> {
        let fd = match self.newest.take() {
            Some(fd) => fd,
            None => self.ring.open(self.ring.next - 1, OFlags::WRONLY).map_err(|errno| ("open in", errno))?,
        };
        Ok(self.newest.insert(fd))
    }

    fn write(&mut self) -> Result<u64, Failure> {
        self.open_newest()?;
        let Some(fd) = &self.newest else { return Ok(0) };
        let _change = promises::writes(fd, 0..self.file_size);
        let mut done = 0;
        while done < self.file_size {
            let range = self.payload.next(0);
            let bytes = &self.payload.bytes()[range];
            let len = usize::try_from(self.file_size - done).unwrap_or(PART).min(bytes.len());
            let written =
                retry_on_intr(|| pwrite(fd, &bytes[..len], done)).map_err(|errno| ("write in", errno))?;
            done += written as u64;
            if written < len {
                return Err(Failure::Short { name: "write in", bytes: done, of: self.file_size });
            }
        }
        self.newest_is_empty = false;
        Ok(done)
    }

    fn read(&mut self) -> Result<u64, Failure> {
        let number = self.any();
        let fd = self.ring.open(number, OFlags::RDONLY).map_err(|errno| ("open in", errno))?;
        let mut done = 0;
        while done < self.file_size {
            let buffer = self.read.as_mut_slice();
            let got = retry_on_intr(|| pread(&fd, &mut *buffer, done)).map_err(|errno| ("read in", errno))?;
            done += got as u64;
            if got == 0 {
                break;
            }
        }
        let is_new = self.newest_is_empty && number + 1 == self.ring.next;
        if done < self.file_size && !self.short_is_fine && !is_new {
            return Err(Failure::Short { name: "read in", bytes: done, of: self.file_size });
        }
        Ok(done)
    }

    /// The number of a random file.
    fn any(&mut self) -> u64 {
        self.ring.oldest + self.choices.below(self.ring.len())
    }
}

/// The directory of a thread's ring, for messages.
impl AsRef<Path> for Ring {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_different_and_valid() {
        assert_eq!(Name::new(0).as_c_str(), c"f0000000000000000");
        assert_eq!(Name::new(0xdead_beef).as_c_str(), c"f00000000deadbeef");
        assert_eq!(Name::new(u64::MAX).as_c_str(), c"fffffffffffffffff");
    }

    #[test]
    fn newest_file_closes_after_its_last_step() {
        use FileStep::{Create, Delete, Fsync, Read, Write};
        let closes = |steps: &[FileStep]| with_closes(steps).iter().map(|s| s.1).collect::<Vec<_>>();
        assert_eq!(closes(&[Create, Write, Fsync, Delete]), [false, false, true, false]);
        assert_eq!(closes(&[Create, Read, Write]), [true, false, true]);
        assert_eq!(closes(&[Create, Create]), [true, true]);
        assert_eq!(closes(&[Write]), [true]);
        assert_eq!(closes(&[Read, Delete]), [false, false]);
    }
}
