//! The promises of a load: what each acknowledged sync covers, and whether an image still has it.
//!
//! A sync promises the changes that were over before it began, unless a later change to the same block or name has begun
//! since. It is marked in the log of the device as soon as it has returned, before the thread continues, and the promised
//! blocks are read back before any other change can begin. A change is marked before it is made, and ends earlier promises
//! of its blocks and names, so that a cut after the mark proves nothing about them.
//!
//! A name is promised by a sync of its directory, or because it existed before the recording began.

use fstrial_device::cuts::{Order, Recorded};
use fstrial_engine::{Change, SyncObserver, Synced};
use rustix::{
    fs::{AtFlags, CWD, Statx, StatxFlags, statx, syncfs},
    io::Errno,
};
use serde::de::DeserializeOwned;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ffi::{CStr, OsStr},
    fs::{self, File},
    hash::{DefaultHasher, Hasher},
    io,
    ops::Range,
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::{ffi::OsStrExt, fs::FileExt},
    },
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// Unit in which contents are compared.
const BLOCK: u64 = 4096;
/// Bytes of an answer that are read at a time.
const ANSWER: usize = 64 << 10;

/// The control file of a device.
#[derive(Debug)]
pub(super) struct Control(File);

impl Control {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        File::options().read(true).write(true).open(path).map(Self)
    }

    pub(super) fn order(&self, order: Order) -> io::Result<()> {
        let line = serde_json::to_vec(&order)?;
        let written = self.0.write_at(&line, 0)?;
        if written == line.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    /// Gives an order that is answered.
    pub(super) fn ask<T: DeserializeOwned>(&self, order: Order) -> io::Result<T> {
        self.order(order)?;
        let mut answer = Vec::new();
        loop {
            let mut part = vec![0; ANSWER];
            let read = self.0.read_at(&mut part, answer.len() as u64)?;
            answer.extend_from_slice(&part[..read]);
            if read == 0 {
                return Ok(serde_json::from_slice(&answer)?);
            }
        }
    }
}

/// A file as long as it exists: inode numbers are reused, with another time of birth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct FileId {
    inode: u64,
    born: (i64, u32),
}

/// A promised block of a file. The last one of a file may be shorter than others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block {
    length: usize,
    hash: u64,
}

/// An entry of the log of promises; its number is its index.
#[derive(Debug)]
enum Note {
    /// A sync was acknowledged.
    Synced(Vec<Promise>),
    /// These blocks of a file were about to change.
    Content { of: FileId, blocks: Range<u64> },
    /// This name was about to change, and this file to be deleted with it.
    Name { path: PathBuf, deleted: Option<FileId> },
}

#[derive(Debug, Clone)]
enum Promise {
    /// Blocks of a file, and its path below the mount point.
    Content { of: FileId, path: PathBuf, blocks: BTreeMap<u64, Block> },
    /// A name, and the file that has it.
    Name { path: PathBuf, of: FileId },
}

/// A change that no sync has covered.
#[derive(Debug)]
struct Pending<T> {
    number: u64,
    what: T,
    /// The end of its call.
    ended: Option<u64>,
}

/// Blocks of a file, and its path at the time.
type Blocks = (Range<u64>, PathBuf);

/// The promises of a load.
#[derive(Debug, Clone)]
pub(super) struct PromiseLog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    control: Control,
    /// The mount point.
    root: PathBuf,
    is_recording: AtomicBool,
    /// Held while a change or a sync is marked and read.
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    /// Contents of the filesystem when the recording began.
    earlier: Promised,
    all: Vec<Note>,
    /// Orders beginnings and ends of changes and syncs.
    clock: u64,
    /// By file.
    contents: HashMap<FileId, Vec<Pending<Blocks>>>,
    /// By directory: the paths of its names.
    names: BTreeMap<PathBuf, Vec<Pending<PathBuf>>>,
    /// The first error, after which nothing is noted any more.
    error: Option<io::Error>,
}

/// Everything that is promised at a moment.
#[derive(Debug, Clone, Default)]
struct Promised {
    contents: HashMap<FileId, BTreeMap<u64, Block>>,
    names: BTreeMap<PathBuf, FileId>,
    /// Paths of synced files whose names are not promised.
    unnamed: BTreeMap<PathBuf, FileId>,
}

/// The check of an image.
#[derive(Debug, Default)]
pub(super) struct Judgement {
    /// The broken promises, as text for the user.
    pub(super) broken: Vec<String>,
    /// Promised names and blocks that were looked at.
    pub(super) checked: u64,
    /// Synced files that are missing, and whose directory was not synced: their names were not promised.
    pub(super) missing: u64,
}

impl From<Statx> for FileId {
    fn from(status: Statx) -> Self {
        Self { inode: status.stx_ino, born: (status.stx_btime.tv_sec, status.stx_btime.tv_nsec) }
    }
}

fn id_at(path: &Path) -> io::Result<FileId> {
    let mask = StatxFlags::INO | StatxFlags::BTIME;
    Ok(statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, mask)?.into())
}

fn id_of(file: BorrowedFd<'_>) -> io::Result<FileId> {
    Ok(statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::INO | StatxFlags::BTIME)?.into())
}

/// The blocks that a range of bytes touches.
fn blocks_of(bytes: &Range<u64>) -> Range<u64> {
    bytes.start / BLOCK..bytes.end.div_ceil(BLOCK)
}

/// Reads at most `most` bytes of a block.
fn read_block(file: &File, block: u64, most: usize) -> io::Result<Block> {
    let mut data = vec![0; most];
    let mut length = 0;
    loop {
        let read = file.read_at(&mut data[length..], block * BLOCK + length as u64)?;
        length += read;
        if read == 0 {
            let mut hasher = DefaultHasher::new();
            hasher.write(&data[..length]);
            return Ok(Block { length, hash: hasher.finish() });
        }
    }
}

/// None if it does not exist.
fn if_found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// Takes the changes that a sync covers from `pending`; the rest is left.
fn take_covered<T>(pending: &mut Vec<Pending<T>>, begun: u64) -> Vec<T> {
    let covered = pending.extract_if(.., |change| change.ended.is_some_and(|ended| ended < begun));
    covered.map(|change| change.what).collect()
}

/// Ends a change, if it is here: they are in the order of their numbers.
fn end_in<T>(pending: &mut [Pending<T>], number: u64, now: u64) -> bool {
    let place = pending.binary_search_by_key(&number, |change| change.number);
    place.is_ok_and(|place| pending[place].ended.replace(now).is_none())
}

impl PromiseLog {
    /// For a filesystem at `root` on the device of this control file.
    pub(super) fn new(control: Control, root: PathBuf) -> Self {
        let (is_recording, notes) = (AtomicBool::new(false), Mutex::default());
        Self(Arc::new(Inner { control, root, is_recording, notes }))
    }

    pub(super) fn control(&self) -> &Control {
        &self.0.control
    }

    /// Begins the recording, with everything on the filesystem durable. No thread of the load may be running.
    pub(super) fn begin(&self, limit: u64, protected: bool) -> io::Result<()> {
        syncfs(File::open(&self.0.root)?)?;
        let mut notes = self.0.lock();
        self.0.see_all(&mut notes.earlier, Path::new(""))?;
        self.0.control.order(Order::Begin { limit, protected })?;
        self.0.is_recording.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Ends it.
    pub(super) fn end(&self) -> io::Result<Recorded> {
        let mut notes = self.0.lock();
        self.0.is_recording.store(false, Ordering::Relaxed);
        match notes.error.take() {
            Some(error) => Err(error),
            None => self.0.control.ask(Order::End),
        }
    }

    /// Number of promises before a cut.
    pub(super) fn promises_before(&self, recorded: &Recorded, at: usize) -> u64 {
        let notes = self.0.lock();
        let before = notes.before(recorded, at);
        before.iter().filter(|note| matches!(note, Note::Synced(_))).count() as u64
    }

    /// Checks the promises that were made before a cut on the filesystem at `root`.
    pub(super) fn check(&self, recorded: &Recorded, at: usize, root: &Path) -> Judgement {
        let notes = self.0.lock();
        let mut promised = notes.earlier.clone();
        notes.before(recorded, at).iter().for_each(|note| promised.apply(note));
        promised.judge(root)
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks a note in the log of the device, then makes it. Returns the number of the event, or 0 if nothing is recorded.
    fn mark(&self, note: impl FnOnce(&mut Notes, u64) -> io::Result<Note>) -> u64 {
        if !self.is_recording.load(Ordering::Relaxed) {
            return 0;
        }
        let mut notes = self.lock();
        let event = notes.tick();
        let number = notes.all.len() as u64;
        let marked = self.control.order(Order::Promise { number });
        match marked.and_then(|()| note(&mut notes, event)) {
            Ok(note) => notes.all.push(note),
            // The log of the device is full: nothing after this is cut.
            Err(error) if error.raw_os_error() == Some(Errno::NOSPC.raw_os_error()) => {
                self.is_recording.store(false, Ordering::Relaxed);
            }
            Err(error) => {
                notes.error = Some(error);
                self.is_recording.store(false, Ordering::Relaxed);
            }
        }
        event
    }

    /// Blocks of a file as they are, if it still has this path.
    fn read(&self, of: FileId, path: &Path, blocks: &BTreeSet<u64>) -> io::Result<BTreeMap<u64, Block>> {
        let full = self.root.join(path);
        if if_found(id_at(&full))? != Some(of) {
            return Ok(BTreeMap::new());
        }
        let file = File::open(full)?;
        blocks.iter().map(|block| Ok((*block, read_block(&file, *block, BLOCK as usize)?))).collect()
    }

    /// Everything below a folder is promised.
    fn see_all(&self, promised: &mut Promised, folder: &Path) -> io::Result<()> {
        for entry in fs::read_dir(self.root.join(folder))? {
            let entry = entry?;
            let (path, of, kind) =
                (folder.join(entry.file_name()), id_at(&entry.path())?, entry.file_type()?);
            if kind.is_dir() {
                self.see_all(promised, &path)?;
            } else if kind.is_file() {
                let blocks = (0..entry.metadata()?.len().div_ceil(BLOCK)).collect();
                promised.contents.insert(of, self.read(of, &path, &blocks)?);
            }
            promised.names.insert(path, of);
        }
        Ok(())
    }

    /// The path below the mount point of an open file. Ends in ` (deleted)` if it has none.
    fn below(&self, of: BorrowedFd<'_>) -> io::Result<PathBuf> {
        let path = fs::read_link(format!("/proc/self/fd/{}", of.as_raw_fd()))?;
        let outside = |_| io::Error::other(format!("{} is not below the mount point", path.display()));
        path.strip_prefix(&self.root).map(Path::to_owned).map_err(outside)
    }

    fn begin_change(&self, notes: &mut Notes, change: &Change<'_>, number: u64) -> io::Result<Note> {
        let path_of = |directory: &BorrowedFd<'_>, name: &CStr| -> io::Result<PathBuf> {
            Ok(self.below(*directory)?.join(OsStr::from_bytes(name.to_bytes())))
        };
        let (path, is_deleted) = match change {
            Change::Content { file, range } => {
                let of = id_of(*file)?;
                let (blocks, path) = (blocks_of(range), self.below(*file)?);
                let pending = Pending { number, what: (blocks.clone(), path), ended: None };
                notes.contents.entry(of).or_default().push(pending);
                return Ok(Note::Content { of, blocks });
            }
            Change::Name { directory, name } => (path_of(directory, name)?, false),
            Change::Removal { directory, name } => (path_of(directory, name)?, true),
        };
        let deleted = if is_deleted { if_found(id_at(&self.root.join(&path)))? } else { None };
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let pending = Pending { number, what: path.clone(), ended: None };
        notes.names.entry(folder).or_default().push(pending);
        Ok(Note::Name { path, deleted })
    }

    /// The promise of a file's content.
    fn content(&self, notes: &mut Notes, of: FileId, begun: u64) -> io::Result<Option<Promise>> {
        let Some(pending) = notes.contents.get_mut(&of) else { return Ok(None) };
        let covered = take_covered(pending, begun);
        let Some((_, path)) = covered.last() else { return Ok(None) };
        let Some(length) = if_found(fs::metadata(self.root.join(path)))?.map(|data| data.len()) else {
            return Ok(None);
        };
        let is_open = |block: &u64| pending.iter().any(|change| change.what.0.contains(block));
        let inside = |range: &Range<u64>| range.start..range.end.min(length.div_ceil(BLOCK));
        let blocks = covered.iter().flat_map(|(range, _)| inside(range)).filter(|block| !is_open(block));
        let blocks = self.read(of, path, &blocks.collect())?;
        Ok(Some(Promise::Content { of, path: path.clone(), blocks }))
    }

    /// The promises of the names in a directory.
    fn names(&self, notes: &mut Notes, folder: &Path, begun: u64) -> io::Result<Vec<Promise>> {
        let Some(pending) = notes.names.get_mut(folder) else { return Ok(Vec::new()) };
        let covered: BTreeSet<PathBuf> = take_covered(pending, begun).into_iter().collect();
        let open: BTreeSet<&PathBuf> = pending.iter().map(|change| &change.what).collect();
        let mut promises = Vec::new();
        for path in covered.into_iter().filter(|path| !open.contains(path)) {
            let of = if_found(id_at(&self.root.join(&path)))?;
            promises.extend(of.map(|of| Promise::Name { path, of }));
        }
        Ok(promises)
    }

    fn promise(&self, notes: &mut Notes, what: &Synced<'_>, begun: u64) -> io::Result<Note> {
        let (files, folders): (Vec<FileId>, Vec<PathBuf>) = match what {
            Synced::One(of) => (vec![id_of(*of)?], vec![self.below(*of)?]),
            Synced::Filesystem => {
                (notes.contents.keys().copied().collect(), notes.names.keys().cloned().collect())
            }
        };
        let mut promises = Vec::new();
        for of in files {
            promises.extend(self.content(notes, of, begun)?);
        }
        for folder in folders {
            promises.extend(self.names(notes, &folder, begun)?);
        }
        Ok(Note::Synced(promises))
    }
}

impl SyncObserver for PromiseLog {
    fn begins(&self, change: &Change<'_>) -> u64 {
        self.0.mark(|notes, event| self.0.begin_change(notes, change, event))
    }

    fn ended(&self, change: u64) {
        if change != 0 {
            self.0.lock().end(change);
        }
    }

    fn syncs(&self) -> u64 {
        self.0.lock().tick()
    }

    fn synced(&self, what: &Synced<'_>, begun: u64) {
        self.0.mark(|notes, _| self.0.promise(notes, what, begun));
    }
}

impl Notes {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn end(&mut self, change: u64) {
        let now = self.tick();
        let _ = self.contents.values_mut().any(|pending| end_in(pending, change, now))
            || self.names.values_mut().any(|pending| end_in(pending, change, now));
    }

    /// The notes that were marked before a cut.
    fn before(&self, recorded: &Recorded, at: usize) -> &[Note] {
        let marked = recorded.promises.partition_point(|(position, _)| *position < at);
        &self.all[..marked.min(self.all.len())]
    }
}

impl Promised {
    fn apply(&mut self, note: &Note) {
        match note {
            Note::Synced(promises) => promises.iter().for_each(|promise| self.add(promise)),
            Note::Content { of, blocks } => {
                if let Some(content) = self.contents.get_mut(of) {
                    content.retain(|block, _| !blocks.contains(block));
                }
            }
            Note::Name { path, deleted } => {
                self.names.remove(path);
                self.unnamed.remove(path);
                if let Some(of) = deleted {
                    self.contents.remove(of);
                }
            }
        }
    }

    fn add(&mut self, promise: &Promise) {
        match promise {
            Promise::Content { of, path, blocks } => {
                self.contents.entry(*of).or_default().extend(blocks);
                if self.names.get(path) != Some(of) {
                    self.unnamed.insert(path.clone(), *of);
                }
            }
            Promise::Name { path, of } => {
                self.unnamed.remove(path);
                self.names.insert(path.clone(), *of);
            }
        }
    }

    /// Compares the filesystem at `root` with it.
    fn judge(&self, root: &Path) -> Judgement {
        let mut judgement = Judgement::default();
        for (path, of) in &self.names {
            judgement.checked += 1;
            let problem = match id_at(&root.join(path)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Some("is missing".into()),
                Err(error) => Some(format!("cannot be looked up: {error}")),
                Ok(found) if found.inode != of.inode => Some("is another file than the promised one".into()),
                Ok(_) => self.content_problem(&mut judgement, *of, &root.join(path)),
            };
            judgement.broken.extend(problem.map(|problem| format!("{} {problem}", path.display())));
        }
        for (path, of) in &self.unnamed {
            let full = root.join(path);
            if id_at(&full).is_ok_and(|found| found.inode == of.inode) {
                let problem = self.content_problem(&mut judgement, *of, &full);
                judgement.broken.extend(problem.map(|problem| format!("{} {problem}", path.display())));
            } else {
                judgement.missing += 1;
            }
        }
        judgement
    }

    /// The first difference from the promised content of a file.
    fn content_problem(&self, judgement: &mut Judgement, of: FileId, path: &Path) -> Option<String> {
        let content = self.contents.get(&of).filter(|content| !content.is_empty())?;
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) => return Some(format!("cannot be opened: {error}")),
        };
        for (block, promised) in content {
            judgement.checked += 1;
            let offset = block * BLOCK;
            // A later write beyond its end makes the last block longer, with zeroes.
            match read_block(&file, *block, promised.length) {
                Err(error) => return Some(format!("cannot be read at byte {offset}: {error}")),
                Ok(found) if found.length < promised.length => {
                    return Some(format!(
                        "ends at byte {}, and {} bytes were synced",
                        offset + found.length as u64,
                        offset + promised.length as u64
                    ));
                }
                Ok(found) if found != *promised => {
                    return Some(format!("differs from its synced content at byte {offset}"));
                }
                Ok(_) => {}
            }
        }
        None
    }
}
