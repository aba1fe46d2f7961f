//! Programs over sets of files: the steps of a [`Flow`], as filebench and its like do them.
//!
//! One operation is one turn: every step, in order. Each step is recorded separately as well; choosing a file is part
//! of the step's time, which is some ten nanoseconds. A step that finds nothing to do (the file was deleted by another
//! thread, or is open elsewhere and so is not deleted; nothing to append) counts, as it does in filebench. A turn in
//! which a step fails does not count, and all files that the thread has open are closed.
//!
//! System calls are those of filebench, with three exceptions that make no I/O: whole files are written by `pwrite`,
//! with a last request that is not longer than the file; `create` does not look at the parent directory first; files
//! are named relative to their set's directory.

use super::{LayoutContext, Loop, PreparedThread, PreparedThreads, Routine, Thread, prepared_threads};
use crate::{
    EngineError,
    buffer::{Pages, Payload},
    clock::sleep_ns,
    files::{Writer, allow_open_files},
    generator::Generator,
    promises,
    recorder::{Lane, Recorder},
    timekeeper::Timekeeper,
    tree::{PathBuffer, Pick, Tree, View, Walk},
};
use fstrial_model::workload::{Behaviour as _, FileTree, Flow, FlowStep, OpenFile, Order, StepFile};
use rustix::{
    fs::{
        AtFlags, Mode, OFlags, RawDir, SeekFrom, fdatasync, fsync, mkdirat, openat, renameat, seek, statat,
        syncfs, unlinkat,
    },
    io::{Errno, pread, pwrite, read, retry_on_intr, write},
};
use std::{
    mem::MaybeUninit,
    os::fd::{BorrowedFd, OwnedFd},
    sync::Arc,
};

/// Bytes of directory entries per read (glibc's `readdir`).
const LISTING: usize = 32 << 10;
/// A thread waits this long for a file that other threads are busy with.
const PATIENCE_NS: u64 = 10_000_000_000;
/// Longest sleep between two looks at the clock.
const NAP_NS: u64 = 50_000_000;

/// Opening a file.
const OPEN: Lane = Lane::own(0, "open");
/// Closing a file.
const CLOSE: Lane = Lane::own(1, "close");
/// Renaming a file.
const RENAME: Lane = Lane::own(2, "rename");
/// Making a directory.
const MKDIR: Lane = Lane::own(3, "mkdir");
/// Removing a directory.
const RMDIR: Lane = Lane::own(4, "rmdir");
/// Listing a directory.
const READDIR: Lane = Lane::own(5, "readdir");

impl Routine for Flow {
    fn lay_out(&self, context: LayoutContext<'_>) -> Result<PreparedThreads, EngineError> {
        let program = Arc::new(Program::new(self));
        let views = prepare(self, &program, context)?;
        Ok(prepared_threads(
            views.into_iter().map(|views| FlowThread { program: Arc::clone(&program), views }),
        ))
    }
}

/// A program, and the sets that a thread sees.
#[derive(Debug)]
struct FlowThread {
    program: Arc<Program>,
    views: Vec<View>,
}

impl PreparedThread for FlowThread {
    fn descriptors(&self) -> Option<Vec<BorrowedFd<'_>>> {
        Some(self.views.iter().flat_map(View::descriptors).collect())
    }

    fn ready<'a>(&'a mut self, thread: &Thread<'_>) -> Result<Loop<'a>, EngineError> {
        let Self { program, views } = self;
        let time = thread.time(&program.lanes());
        let payload = thread.payload(1, program.request);
        let turning = Turning::new(program, views, payload, thread.choices(), time);
        Ok(Box::new(|start| turning.run(start)))
    }
}

/// An open file: one that a step opened, or one of a set that is kept open.
#[derive(Debug, Clone, Copy)]
enum At {
    Slot(usize),
    Kept(usize),
}

/// A file by its name: any of a set, or the one of a slot.
#[derive(Debug, Clone, Copy)]
enum Entry {
    Any(usize),
    Slot(usize),
}

/// Work of a step, with sets and files as numbers.
#[derive(Debug, Clone, Copy)]
enum Act {
    Create { set: usize, slot: usize },
    Open { set: usize, slot: usize },
    Close { slot: usize },
    Read { at: At, request: usize },
    ReadAt { at: At, request: usize },
    ReadNext { at: At, request: usize },
    Write { at: At, request: usize },
    WriteAt { at: At, request: usize },
    WriteNext { at: At, request: usize },
    Append { at: At, request: usize, random: bool },
    Fsync { at: At },
    Fdatasync { at: At },
    FsyncDir { slot: usize },
    Syncfs { set: usize },
    Stat { entry: Entry },
    Delete { entry: Entry },
    Rename { entry: Entry, to: usize, over: bool },
    Mkdir { set: usize },
    Rmdir { set: usize },
    Readdir { set: usize },
    Delay { ns: u64 },
}

impl Act {
    /// Lane of its latency; waiting has none.
    fn lane(self) -> Option<Lane> {
        Some(match self {
            Self::Create { .. } => Lane::CREATE,
            Self::Open { .. } => OPEN,
            Self::Close { .. } => CLOSE,
            Self::Read { .. } | Self::ReadAt { .. } | Self::ReadNext { .. } => Lane::READ,
            Self::Write { .. } | Self::WriteAt { .. } | Self::WriteNext { .. } => Lane::WRITE,
            Self::Append { .. } => Lane::APPEND,
            Self::Fsync { .. } | Self::Fdatasync { .. } | Self::FsyncDir { .. } | Self::Syncfs { .. } => {
                Lane::FSYNC
            }
            Self::Stat { .. } => Lane::STAT,
            Self::Delete { .. } => Lane::DELETE,
            Self::Rename { .. } => RENAME,
            Self::Mkdir { .. } => MKDIR,
            Self::Rmdir { .. } => RMDIR,
            Self::Readdir { .. } => READDIR,
            Self::Delay { .. } => return None,
        })
    }
}

/// A program ready to run; all threads share it read-only.
#[derive(Debug)]
struct Program {
    acts: Vec<(Act, Option<Lane>)>,
    slots: usize,
    /// Sets whose files are kept open.
    kept: Vec<bool>,
    request: usize,
    turns: Option<u64>,
    ends: bool,
    sync_at_end: bool,
}

/// Gives sets and handles their numbers.
struct Numbers<'a> {
    sets: &'a [FileTree],
    handles: Vec<&'a str>,
    kept: Vec<bool>,
}

impl<'a> Numbers<'a> {
    fn set(&self, name: &str) -> usize {
        self.sets.iter().position(|set| set.name == name).expect("checked: there is such a set")
    }

    fn slot(&mut self, handle: &'a str) -> usize {
        self.handles.iter().position(|known| *known == handle).unwrap_or_else(|| {
            self.handles.push(handle);
            self.handles.len() - 1
        })
    }

    fn at(&mut self, file: &'a OpenFile) -> At {
        match file {
            OpenFile::On(handle) => At::Slot(self.slot(handle)),
            OpenFile::In(set) => {
                let set = self.set(set);
                self.kept[set] = true;
                At::Kept(set)
            }
        }
    }

    fn entry(&mut self, target: &'a StepFile) -> Entry {
        match target {
            StepFile::Set(set) => Entry::Any(self.set(set)),
            StepFile::On(handle) => Entry::Slot(self.slot(handle)),
        }
    }

    fn act(&mut self, step: &'a FlowStep) -> Act {
        let size = |request: &fstrial_model::units::Bytes| request.0 as usize;
        match step {
            FlowStep::Create { set, handle } => Act::Create { set: self.set(set), slot: self.slot(handle) },
            FlowStep::Open { set, handle } => Act::Open { set: self.set(set), slot: self.slot(handle) },
            FlowStep::Close { handle } => Act::Close { slot: self.slot(handle) },
            FlowStep::Read { file, request } => Act::Read { at: self.at(file), request: size(request) },
            FlowStep::ReadAt { file, request } => Act::ReadAt { at: self.at(file), request: size(request) },
            FlowStep::ReadNext { file, request } => {
                Act::ReadNext { at: self.at(file), request: size(request) }
            }
            FlowStep::Write { file, request } => Act::Write { at: self.at(file), request: size(request) },
            FlowStep::WriteAt { file, request } => Act::WriteAt { at: self.at(file), request: size(request) },
            FlowStep::WriteNext { file, request } => {
                Act::WriteNext { at: self.at(file), request: size(request) }
            }
            FlowStep::Append { file, request, random } => {
                Act::Append { at: self.at(file), request: size(request), random: *random }
            }
            FlowStep::Fsync { file } => Act::Fsync { at: self.at(file) },
            FlowStep::Fdatasync { file } => Act::Fdatasync { at: self.at(file) },
            FlowStep::FsyncDir { handle } => Act::FsyncDir { slot: self.slot(handle) },
            FlowStep::Syncfs { set } => Act::Syncfs { set: self.set(set) },
            FlowStep::Stat { target } => Act::Stat { entry: self.entry(target) },
            FlowStep::Delete { target } => Act::Delete { entry: self.entry(target) },
            FlowStep::Rename { target, to, over } => {
                Act::Rename { entry: self.entry(target), to: self.set(to), over: *over }
            }
            FlowStep::Mkdir { set } => Act::Mkdir { set: self.set(set) },
            FlowStep::Rmdir { set } => Act::Rmdir { set: self.set(set) },
            FlowStep::Readdir { set } => Act::Readdir { set: self.set(set) },
            FlowStep::Delay { time } => Act::Delay { ns: time.0 },
            FlowStep::Repeat { .. } => unreachable!("repeats are written out"),
        }
    }
}

impl Program {
    /// From a program that was checked.
    fn new(flow: &Flow) -> Self {
        let mut numbers =
            Numbers { sets: &flow.sets, handles: Vec::new(), kept: vec![false; flow.sets.len()] };
        let acts = flow.written_out().into_iter().map(|step| numbers.act(step)).map(|act| (act, act.lane()));
        let acts = acts.collect();
        Self {
            acts,
            slots: numbers.handles.len(),
            kept: numbers.kept,
            request: flow.largest_request().0 as usize,
            turns: flow.turns,
            ends: flow.ends(),
            sync_at_end: flow.fsync_at_end,
        }
    }

    /// The lanes that it records.
    fn lanes(&self) -> Vec<Lane> {
        let mut lanes = vec![Lane::TURN];
        let at_end = self.sync_at_end.then_some(Lane::FSYNC);
        for lane in self.acts.iter().filter_map(|(_, lane)| *lane).chain(at_end) {
            if !lanes.contains(&lane) {
                lanes.push(lane);
            }
        }
        lanes
    }
}

/// Lays out the sets of a program, or finds those in `trees` or those that an earlier phase left; gives each thread its
/// views of them.
fn prepare(
    flow: &Flow,
    program: &Program,
    context: LayoutContext<'_>,
) -> Result<Vec<Vec<View>>, EngineError> {
    let (load, directory, trees) = (context.load, context.directory(), context.trees);
    let mut writer = Writer::new(load);
    let kept: u64 =
        flow.sets.iter().zip(&program.kept).map(|(set, kept)| u64::from(set.files) * u64::from(*kept)).sum();
    let each = kept + (flow.sets.len() + program.slots + 1) as u64;
    allow_open_files(each * u64::from(load.threads))?;
    let (threads, seat) = (usize::from(load.threads), context.seat);
    let all = seat.threads(load.threads) as usize;
    let mut views: Vec<Vec<View>> = (0..threads).map(|_| Vec::new()).collect();
    for (set, kept) in flow.sets.iter().zip(&program.kept) {
        let mut get = |thread| trees.get(set, directory, load.seed, thread, &mut writer);
        let trees: Vec<(Arc<Tree>, Vec<u32>)> = if set.per_thread {
            let own = (0..threads).map(|thread| seat.thread(load.threads, thread));
            own.map(|thread| get(Some(thread))).collect::<Result<_, _>>()?
        } else {
            vec![get(None)?]
        };
        for (thread, views) in views.iter_mut().enumerate() {
            let (tree, listed) = &trees[thread % trees.len()];
            let part = if set.per_thread { (0, 1) } else { (seat.thread(load.threads, thread), all) };
            let mut view = View::new(set, tree, listed, load.seed, part)?;
            if *kept {
                view.keep(flags_of(set))?;
            }
            views.push(view);
        }
    }
    // An earlier phase's files stay as they are, as in the programs.
    let lays_out = flow.sets.iter().any(|set| !set.existing);
    if let Some(view) = views.first().and_then(|views| views.first()).filter(|_| lays_out) {
        // One call for all: a sync for each of a million small files would take hours.
        syncfs(&view.root).map_err(|errno| crate::error::layout("syncfs", directory, errno))?;
    }
    Ok(views)
}

/// Flags for opening files of a set.
fn flags_of(set: &FileTree) -> OFlags {
    let access = if set.read_only { OFlags::RDONLY } else { OFlags::RDWR };
    let sync = if set.sync { OFlags::SYNC } else { OFlags::empty() };
    access | sync | OFlags::CLOEXEC
}

/// Why a step did not do its work.
enum Failure {
    /// A call failed on a set.
    Call(&'static str, usize, Errno),
    /// It moved less than requested.
    Short { name: &'static str, set: usize, bytes: usize, of: usize },
    /// The set ran full or empty, and was not meant to.
    Exhausted { set: usize, existing: bool },
    /// The thread has done its amount, or the time is over.
    Done,
}

/// A file that the thread has opened, or had.
#[derive(Debug, Default)]
struct Slot {
    fd: Option<OwnedFd>,
    set: usize,
    file: u32,
    /// Offset of the next sequential request.
    place: u64,
}

/// One thread's loop over a program.
struct Turning<'a> {
    program: &'a Program,
    views: &'a mut [View],
    slots: Vec<Slot>,
    payload: Payload,
    read: Pages,
    listing: Vec<MaybeUninit<u8>>,
    paths: [PathBuffer; 2],
    choices: Generator,
    time: Timekeeper,
}

impl<'a> Turning<'a> {
    /// Everything the loop needs is allocated here. `payload` has one slot of the largest request.
    fn new(
        program: &'a Program,
        views: &'a mut [View],
        payload: Payload,
        choices: Generator,
        time: Timekeeper,
    ) -> Self {
        let mut read = Pages::new(program.request);
        read.as_mut_slice().fill(1);
        Self {
            slots: (0..program.slots).map(|_| Slot::default()).collect(),
            program,
            views,
            payload,
            read,
            listing: vec![MaybeUninit::new(0); LISTING],
            paths: [PathBuffer::new(), PathBuffer::new()],
            choices,
            time,
        }
    }

    /// Makes turns from tick `start` until the time is over, the amount is done or too many failed.
    fn run(mut self, start: u64) -> Recorder {
        self.time.start_at(start);
        let mut left = self.program.turns.unwrap_or(u64::MAX);
        while left > 0
            && let Some(due) = self.time.next_turn()
        {
            self.turn(due);
            left -= 1;
        }
        self.done();
        self.time.recorder
    }

    /// The thread has done its amount: the sync at the end is a part of it, and so of its time.
    #[cold]
    fn done(&mut self) {
        if self.program.sync_at_end && !self.time.recorder.is_over() {
            let begun = promises::syncs();
            let result = syncfs(&self.views[0].root);
            let took = self.time.lap();
            match result {
                Ok(()) => {
                    begun.done_for_all();
                    self.time.recorder.part(Lane::FSYNC, took);
                }
                Err(errno) => self.time.error("syncfs of", self.views[0].tree.path(), &errno),
            }
        }
        self.time.recorder.finish(self.time.now);
    }

    /// One turn, whose latency counts from tick `start`.
    fn turn(&mut self, start: u64) {
        let mut bytes = 0;
        for n in 0..self.program.acts.len() {
            let (act, lane) = self.program.acts[n];
            let result = self.act(act);
            let took = self.time.lap();
            match result {
                Ok(moved) => {
                    bytes += moved as u64;
                    if let Some(lane) = lane {
                        self.time.recorder.part(lane, took);
                    }
                }
                Err(failure) => return self.failed(&failure),
            }
            // A turn that is too late is left, unless it is the first: it may be the only one.
            if self.time.recorder.is_over() && !self.time.recorder.is_empty() {
                return;
            }
        }
        self.time.turned(start, bytes);
    }

    #[cold]
    fn failed(&mut self, failure: &Failure) {
        (0..self.slots.len()).for_each(|slot| self.close(slot));
        let path = |set: usize| self.views[set].tree.path();
        match failure {
            Failure::Call(name, set, errno) => self.time.error(name, path(*set), errno),
            Failure::Short { name, set, bytes, of } => {
                self.time.error(name, path(*set), &format_args!("only {bytes} of {of} bytes"));
            }
            Failure::Exhausted { set, existing } => {
                let what = if *existing { "no file is left in it" } else { "no place is free in it" };
                self.time.error("pick in", path(*set), &what);
                self.time.recorder.finish(self.time.now);
            }
            Failure::Done => self.done(),
        }
    }

    /// Does one step; gives the bytes moved.
    fn act(&mut self, act: Act) -> Result<usize, Failure> {
        match act {
            Act::Create { set, slot } => self.open(set, slot, false),
            Act::Open { set, slot } => self.open(set, slot, true),
            Act::Close { slot } => {
                self.close(slot);
                Ok(0)
            }
            Act::Read { at, request } => self.read_whole(at, request),
            Act::ReadAt { at, request } => self.read_once(at, request, true),
            Act::ReadNext { at, request } => self.read_once(at, request, false),
            Act::Write { at, request } => self.write_whole(at, request),
            Act::WriteAt { at, request } => self.write_once(at, request, true),
            Act::WriteNext { at, request } => self.write_once(at, request, false),
            Act::Append { at, request, random } => self.append(at, request, random),
            Act::Fsync { at } => self.sync(at, "fsync in", |fd| fsync(fd)),
            Act::Fdatasync { at } => self.sync(at, "fdatasync in", |fd| fdatasync(fd)),
            Act::FsyncDir { slot } => self.sync_parent(slot),
            Act::Syncfs { set } => {
                let begun = promises::syncs();
                syncfs(&self.views[set].root).map_err(|errno| Failure::Call("syncfs of", set, errno))?;
                begun.done_for_all();
                Ok(0)
            }
            Act::Stat { entry } => self.stat(entry),
            Act::Delete { entry } => self.delete(entry),
            Act::Rename { entry, to, over } => self.rename(entry, to, over),
            Act::Mkdir { set } => self.mkdir(set),
            Act::Rmdir { set } => self.rmdir(set),
            Act::Readdir { set } => self.list(set),
            Act::Delay { ns } => {
                self.delay(ns);
                Ok(0)
            }
        }
    }

    /// A place of a set that holds a file or does not, busy until it is released. Waits where all are busy.
    fn pick(&mut self, set: usize, walk: Walk, existing: bool) -> Result<u32, Failure> {
        self.pick_beside(set, walk, existing, None)
    }

    /// The same for a thread that holds a place of the set already.
    fn pick_beside(
        &mut self,
        set: usize,
        walk: Walk,
        existing: bool,
        held: Option<u32>,
    ) -> Result<u32, Failure> {
        let patience = self.time.now + self.time.pace.clock.ticks(PATIENCE_NS);
        loop {
            let exhausted =
                if self.program.ends { Failure::Done } else { Failure::Exhausted { set, existing } };
            match self.views[set].pick(walk, existing, held, &mut self.choices) {
                Pick::Place(file) => return Ok(file),
                Pick::Done => return Err(Failure::Done),
                Pick::Nothing => return Err(exhausted),
                Pick::Wait => {
                    std::thread::yield_now();
                    let now = self.time.pace.clock.now();
                    self.time.recorder.tick(now);
                    if self.time.recorder.is_over() {
                        return Err(Failure::Done);
                    }
                    if now > patience {
                        return Err(exhausted);
                    }
                }
            }
        }
    }

    /// The file by its name, busy until it is released; none if another thread deleted it.
    fn take(&mut self, entry: Entry, walk: Walk) -> Result<Option<(usize, u32)>, Failure> {
        match entry {
            Entry::Any(set) => self.pick(set, walk, true).map(|file| Some((set, file))),
            Entry::Slot(slot) => {
                let Slot { set, file, .. } = self.slots[slot];
                Ok(self.views[set].tree.claim_existing(file).then_some((set, file)))
            }
        }
    }

    /// Creates a file at a free place, or opens an existing one. The slot's open file is closed first.
    fn open(&mut self, set: usize, slot: usize, existing: bool) -> Result<usize, Failure> {
        self.close(slot);
        let (walk, name) = if existing { (Walk::Open, "open in") } else { (Walk::Create, "create in") };
        let file = self.pick(set, walk, existing)?;
        let View { settings, tree, root, .. } = &self.views[set];
        let make = if existing { OFlags::empty() } else { OFlags::CREATE };
        let path = tree.path_of(file, &mut self.paths[0]);
        let change = (!existing).then(|| promises::names(root, path));
        let opened = openat(root, path, flags_of(settings) | make, Mode::from_raw_mode(0o666));
        drop(change);
        match opened {
            Ok(fd) => {
                tree.release(file, true, 1);
                self.slots[slot] = Slot { fd: Some(fd), set, file, place: 0 };
                Ok(0)
            }
            Err(errno) => {
                tree.release(file, existing, 0);
                Err(Failure::Call(name, set, errno))
            }
        }
    }

    fn close(&mut self, slot: usize) {
        let slot = &mut self.slots[slot];
        if slot.fd.take().is_some() {
            self.views[slot.set].tree.closed(slot.file);
        }
    }

    /// The set, the place and the size of an open file.
    fn which(&mut self, at: At) -> Result<(usize, u32, u64), Failure> {
        let (set, file) = match at {
            At::Slot(slot) => (self.slots[slot].set, self.slots[slot].file),
            At::Kept(set) => {
                let file = self.views[set].pick_kept(&mut self.choices);
                (set, file.ok_or(Failure::Done)?)
            }
        };
        Ok((set, file, self.views[set].tree.size(file)))
    }

    /// Offset of a request on a file of `size` bytes, and its length.
    fn place(&mut self, at: At, file: u32, size: u64, request: usize, random: bool) -> (u64, usize) {
        let request = request as u64;
        let offset = if random {
            self.choices.below((size / request).max(1)) * request
        } else {
            let place = match at {
                At::Slot(slot) => &mut self.slots[slot].place,
                At::Kept(set) => &mut self.views[set].places[file as usize],
            };
            if *place >= size {
                *place = 0;
            }
            let offset = *place;
            *place += request;
            offset
        };
        (offset, request.min(size.saturating_sub(offset)) as usize)
    }

    fn read_whole(&mut self, at: At, request: usize) -> Result<usize, Failure> {
        let (set, file, _) = self.which(at)?;
        let fd = fd_of(&self.slots, self.views, at, file);
        seek(fd, SeekFrom::Start(0)).map_err(|errno| Failure::Call("seek in", set, errno))?;
        let mut done = 0;
        loop {
            let buffer = &mut self.read.as_mut_slice()[..request];
            let got = retry_on_intr(|| read(fd, &mut *buffer))
                .map_err(|errno| Failure::Call("read in", set, errno))?;
            done += got;
            if got == 0 {
                return Ok(done);
            }
        }
    }

    fn read_once(&mut self, at: At, request: usize, random: bool) -> Result<usize, Failure> {
        let (set, file, size) = self.which(at)?;
        let (offset, len) = self.place(at, file, size, request, random);
        let fd = fd_of(&self.slots, self.views, at, file);
        let buffer = &mut self.read.as_mut_slice()[..request];
        let got = retry_on_intr(|| pread(fd, &mut *buffer, offset))
            .map_err(|errno| Failure::Call("read in", set, errno))?;
        if got < len {
            return Err(Failure::Short { name: "read in", set, bytes: got, of: len });
        }
        Ok(got)
    }

    fn write_whole(&mut self, at: At, request: usize) -> Result<usize, Failure> {
        let (set, file, size) = self.which(at)?;
        let fd = fd_of(&self.slots, self.views, at, file);
        let mut done = 0;
        while done < size {
            let len = request.min(usize::try_from(size - done).unwrap_or(request));
            done += write_at(fd, &mut self.payload, done, len, set)? as u64;
        }
        Ok(done as usize)
    }

    fn write_once(&mut self, at: At, request: usize, random: bool) -> Result<usize, Failure> {
        let (set, file, size) = self.which(at)?;
        let (offset, len) = self.place(at, file, size, request, random);
        let fd = fd_of(&self.slots, self.views, at, file);
        write_at(fd, &mut self.payload, offset, len, set)
    }

    fn append(&mut self, at: At, request: usize, random: bool) -> Result<usize, Failure> {
        let (set, file, _) = self.which(at)?;
        let len = if random { self.choices.below(request as u64 - 1) as usize } else { request };
        if len == 0 {
            return Ok(0);
        }
        let fd = fd_of(&self.slots, self.views, at, file);
        let end = seek(fd, SeekFrom::End(0)).map_err(|errno| Failure::Call("seek in", set, errno))?;
        let _change = promises::writes_at(&fd, end, len);
        let range = self.payload.take(0, len);
        let bytes = &self.payload.bytes()[range];
        let written =
            retry_on_intr(|| write(fd, bytes)).map_err(|errno| Failure::Call("append in", set, errno))?;
        if written < len {
            return Err(Failure::Short { name: "append in", set, bytes: written, of: len });
        }
        Ok(len)
    }

    fn sync(
        &mut self,
        at: At,
        name: &'static str,
        call: impl Fn(BorrowedFd<'_>) -> Result<(), Errno>,
    ) -> Result<usize, Failure> {
        let (set, file, _) = self.which(at)?;
        let fd = fd_of(&self.slots, self.views, at, file);
        let begun = promises::syncs();
        retry_on_intr(|| call(fd)).map_err(|errno| Failure::Call(name, set, errno))?;
        begun.done(&fd);
        Ok(0)
    }

    fn sync_parent(&mut self, slot: usize) -> Result<usize, Failure> {
        let Slot { set, file, .. } = self.slots[slot];
        let View { tree, root, .. } = &self.views[set];
        let path = tree.path_of_parent(file, &mut self.paths[0]);
        let failed = |errno| Failure::Call("fsync a directory of", set, errno);
        let fd = openat(root, path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
        let begun = promises::syncs();
        retry_on_intr(|| fsync(&fd)).map_err(failed)?;
        begun.done(&fd);
        Ok(0)
    }

    fn stat(&mut self, entry: Entry) -> Result<usize, Failure> {
        let Some((set, file)) = self.take(entry, Walk::Stat)? else { return Ok(0) };
        let View { tree, root, .. } = &self.views[set];
        let result = statat(root, tree.path_of(file, &mut self.paths[0]), AtFlags::empty());
        tree.release(file, true, 0);
        result.map_err(|errno| Failure::Call("stat in", set, errno))?;
        Ok(0)
    }

    fn delete(&mut self, entry: Entry) -> Result<usize, Failure> {
        let Some((set, file)) = self.take(entry, Walk::Delete)? else { return Ok(0) };
        let View { settings, tree, root, .. } = &self.views[set];
        if matches!(entry, Entry::Any(_)) && settings.order == Order::Next && tree.is_open(file) {
            // Every file is open, or the step names this one: filebench does nothing then, and counts the step.
            tree.release(file, true, 0);
            return Ok(0);
        }
        let path = tree.path_of(file, &mut self.paths[0]);
        let _change = promises::removes(root, path);
        let result = unlinkat(root, path, AtFlags::empty());
        tree.release(file, result.is_err(), 0);
        result.map_err(|errno| Failure::Call("delete in", set, errno))?;
        Ok(0)
    }

    fn rename(&mut self, entry: Entry, to: usize, over: bool) -> Result<usize, Failure> {
        let Some((set, file)) = self.take(entry, Walk::RenameFrom)? else { return Ok(0) };
        let held = (to == set).then_some(file);
        let goal = match self.pick_beside(to, Walk::RenameTo, over, held) {
            Ok(goal) => goal,
            Err(failure) => {
                self.views[set].tree.release(file, true, 0);
                return Err(failure);
            }
        };
        let [first, second] = &mut self.paths;
        let (from_view, to_view) = (&self.views[set], &self.views[to]);
        let (from, into) = (from_view.tree.path_of(file, first), to_view.tree.path_of(goal, second));
        let _away = promises::names(&from_view.root, from);
        let _over = promises::removes(&to_view.root, into);
        let result = renameat(&from_view.root, from, &to_view.root, into);
        let opened = match entry {
            Entry::Slot(slot) => i32::from(self.slots[slot].fd.is_some()),
            Entry::Any(_) => 0,
        };
        let moved = result.is_ok();
        from_view.tree.release(file, !moved, if moved { -opened } else { 0 });
        to_view.tree.release(goal, moved || over, if moved { opened } else { 0 });
        result.map_err(|errno| Failure::Call("rename in", set, errno))?;
        if let Entry::Slot(slot) = entry {
            (self.slots[slot].set, self.slots[slot].file) = (to, goal);
        }
        Ok(0)
    }

    fn mkdir(&mut self, set: usize) -> Result<usize, Failure> {
        let file = self.pick(set, Walk::Create, false)?;
        let View { tree, root, .. } = &self.views[set];
        let path = tree.path_of(file, &mut self.paths[0]);
        let _change = promises::names(root, path);
        let result = mkdirat(root, path, Mode::from_raw_mode(0o777));
        tree.release(file, result.is_ok(), 0);
        result.map_err(|errno| Failure::Call("mkdir in", set, errno))?;
        Ok(0)
    }

    fn rmdir(&mut self, set: usize) -> Result<usize, Failure> {
        let file = self.pick(set, Walk::Delete, true)?;
        let View { tree, root, .. } = &self.views[set];
        let path = tree.path_of(file, &mut self.paths[0]);
        let _change = promises::removes(root, path);
        let result = unlinkat(root, path, AtFlags::REMOVEDIR);
        tree.release(file, result.is_err(), 0);
        result.map_err(|errno| Failure::Call("rmdir in", set, errno))?;
        Ok(0)
    }

    /// Opens a directory, lists it to its end and closes it.
    fn list(&mut self, set: usize) -> Result<usize, Failure> {
        let directory = self.views[set].pick_directory(&mut self.choices).ok_or(Failure::Done)?;
        let View { tree, root, .. } = &self.views[set];
        let failed = |errno| Failure::Call("list a directory of", set, errno);
        let path = tree.path_of_directory(directory, &mut self.paths[0]);
        let fd = openat(root, path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
        let mut entries = RawDir::new(&fd, &mut self.listing);
        while let Some(entry) = entries.next() {
            entry.map_err(failed)?;
        }
        Ok(0)
    }

    /// Waits, but not beyond the end of the run.
    fn delay(&mut self, ns: u64) {
        let clock = self.time.pace.clock;
        let end = self.time.now + clock.ticks(ns);
        while !self.time.recorder.is_over() {
            let now = clock.now();
            self.time.recorder.tick(now);
            let Some(left) = end.checked_sub(now).filter(|left| *left > 0) else { return };
            sleep_ns(clock.nanos(left).clamp(1, NAP_NS));
        }
    }
}

/// The descriptor of an open file.
fn fd_of<'a>(slots: &'a [Slot], views: &'a [View], at: At, file: u32) -> BorrowedFd<'a> {
    use std::os::fd::AsFd;
    match at {
        At::Slot(slot) => {
            slots[slot].fd.as_ref().expect("checked: opened before, and not closed since").as_fd()
        }
        At::Kept(set) => views[set].kept[file as usize].as_fd(),
    }
}

/// Writes `len` bytes at `offset`; gives their number.
fn write_at(
    fd: BorrowedFd<'_>,
    payload: &mut Payload,
    offset: u64,
    len: usize,
    set: usize,
) -> Result<usize, Failure> {
    let range = payload.take(0, len);
    let bytes = &payload.bytes()[range];
    let _change = promises::writes_at(&fd, offset, len);
    let written =
        retry_on_intr(|| pwrite(fd, bytes, offset)).map_err(|errno| Failure::Call("write in", set, errno))?;
    if written < len {
        return Err(Failure::Short { name: "write in", set, bytes: written, of: len });
    }
    Ok(len)
}

#[cfg(test)]
mod tests;
