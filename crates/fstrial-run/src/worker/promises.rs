//! The promises of a load: what each acknowledged sync covers, and whether an image still has it.
//!
//! A sync promises the changes that were over before it began, unless a later change to the same bytes or name has begun
//! since. It is marked in the log of the device as soon as it has returned, before the thread continues, and the promised
//! sectors are read back before any other change can begin. A change is marked before it is made, and ends earlier promises
//! of its bytes and names, so that a cut after the mark proves nothing about them.
//!
//! A name is promised by a sync of its directory, or because it existed before the recording began.

use fstrial_device::cuts::{Event, Order, Recorded, Settings};
use fstrial_engine::{Change, SyncObserver, Synced};
use fstrial_model::{receipt::CutOutcome, units::Nanos};
use rustix::{
    fs::{AtFlags, CWD, OFlags, Statx, StatxFlags, statx, syncfs},
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
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::{
            ffi::OsStrExt,
            fs::{FileExt, MetadataExt, OpenOptionsExt},
        },
    },
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// Unit in which contents are compared: the one that a write is torn into.
const SECTOR: u64 = 512;
/// Bytes of a file that are read at a time; whole sectors.
const CHUNK: u64 = 1 << 20;
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

    /// Marks an event in the log of the device; false if that is full, and nothing after this is cut.
    pub(super) fn mark(&self, number: u64, event: Event) -> io::Result<bool> {
        match self.order(Order::Mark { number, event }) {
            Err(error) if error.raw_os_error() == Some(Errno::NOSPC.raw_os_error()) => Ok(false),
            marked => marked.map(|()| true),
        }
    }

    /// Gives an order that is answered.
    pub(super) fn ask<T: DeserializeOwned>(&self, order: Order) -> io::Result<T> {
        self.order(order)?;
        let (mut answer, mut part) = (Vec::new(), vec![0; ANSWER]);
        while let read @ 1.. = self.0.read_at(&mut part, answer.len() as u64)? {
            answer.extend_from_slice(&part[..read]);
        }
        Ok(serde_json::from_slice(&answer)?)
    }

    /// Writes the write log up to the last cut into a file, instead of its contents.
    pub(super) fn save_log(&self, path: &Path) -> Result<(), Unsaved> {
        self.order(Order::Log).map_err(Unsaved::NotRead)?;
        let file = File::options().write(true).truncate(true).open(path).map_err(Unsaved::NotWritten)?;
        let (mut part, mut done) = (vec![0; ANSWER], 0);
        while let read @ 1.. = self.0.read_at(&mut part, done).map_err(Unsaved::NotRead)? {
            file.write_all_at(&part[..read], done).map_err(Unsaved::NotWritten)?;
            done += read as u64;
        }
        Ok(())
    }
}

/// The reason why a write log is not in its file.
#[derive(Debug)]
pub(super) enum Unsaved {
    /// The device's.
    NotRead(io::Error),
    /// The file's.
    NotWritten(io::Error),
}

/// Syncs the filesystem at `root`.
pub(super) fn make_durable(root: &Path) -> io::Result<()> {
    Ok(syncfs(File::open(root)?)?)
}

/// A file as long as it exists: inode numbers are reused, with another time of birth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct FileId {
    inode: u64,
    born: (i64, u32),
}

/// A promised sector of a file: its beginning, as far as it was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sector {
    length: u64,
    hash: u64,
}

/// Promised sectors by their numbers.
type Content = BTreeMap<u64, Sector>;

/// An entry of the log of promises; its number is its index.
#[derive(Debug)]
enum Note {
    /// A sync was acknowledged.
    Synced(Vec<Promise>),
    /// These bytes of a file were about to change.
    Content { of: FileId, bytes: Range<u64> },
    /// This name was about to change, and this file to be deleted with it.
    Name { path: PathBuf, deleted: Option<FileId> },
}

#[derive(Debug)]
enum Promise {
    /// Sectors of a file, and its path below the mount point if that is not changing.
    Content { of: FileId, path: Option<PathBuf>, content: Content },
    /// A name, and the file that has it.
    Name { path: PathBuf, of: FileId },
    /// A name that no file has.
    Absent { path: PathBuf },
}

/// A change that no sync has covered.
#[derive(Debug)]
struct Pending<T> {
    number: u64,
    what: T,
    /// The end of its call.
    ended: Option<u64>,
}

/// The subject of a change.
#[derive(Debug)]
enum Subject {
    File(FileId),
    Folder(PathBuf),
}

/// A path, and true if its file was deleted or replaced.
type Name = (PathBuf, bool);

/// Bytes of a file, and its path at the time.
type Bytes = (Range<u64>, PathBuf);

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
    contents: HashMap<FileId, Vec<Pending<Bytes>>>,
    /// The promised length of each file.
    lengths: HashMap<FileId, u64>,
    /// By directory: the paths of its names.
    names: BTreeMap<PathBuf, Vec<Pending<Name>>>,
    /// Changes whose calls have not returned.
    open: HashMap<u64, Subject>,
    /// The first error, after which nothing is noted any more.
    error: Option<io::Error>,
}

/// Everything that is promised at a moment.
#[derive(Debug, Clone, Default)]
struct Promised {
    contents: HashMap<FileId, Content>,
    names: BTreeMap<PathBuf, FileId>,
    /// Names that were deleted, or whose files were moved away.
    absent: BTreeSet<PathBuf>,
    /// Paths of synced files whose names are not promised.
    unnamed: BTreeMap<PathBuf, FileId>,
}

/// The check of an image.
#[derive(Debug, Default)]
pub(super) struct Judgement {
    /// The broken promises, as text for the user.
    pub(super) broken: Vec<String>,
    /// Promised names and sectors that were compared.
    pub(super) checked: u64,
    /// Synced files that are missing, and whose names were not promised.
    pub(super) missing: u64,
    /// Age of the oldest lost commit of a server at the last one before the cut.
    pub(super) oldest: Option<Nanos>,
    /// The reason why the server does not start.
    pub(super) closed: Option<String>,
    /// This host, and not the image, may be the reason: it is tried again.
    pub(super) is_doubtful: bool,
}

impl Judgement {
    /// The outcome of the cut, except for damage that the filesystem's check finds.
    pub(super) fn outcome(&self) -> CutOutcome {
        if let Some(why) = &self.closed {
            return CutOutcome::Closed { why: why.clone() };
        }
        self.broken.first().map_or(CutOutcome::Kept, |first| CutOutcome::Lost {
            broken: self.broken.len() as u64,
            first: first.clone(),
            oldest: self.oldest,
        })
    }
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

/// The promised sectors of `bytes` of a file, up to its promised length.
fn read_sectors(file: &File, bytes: Range<u64>, length: u64, content: &mut Content) -> io::Result<()> {
    let (mut at, end) = (bytes.start / SECTOR * SECTOR, bytes.end.min(length));
    let mut data = vec![0; usize::try_from(CHUNK.min(end.saturating_sub(at))).unwrap_or(0)];
    while at < end {
        let read = file.read_at(&mut data, at)?;
        if read == 0 {
            return Ok(());
        }
        let known = &data[..read.min(usize::try_from(length - at).unwrap_or(read))];
        for (number, sector) in (at / SECTOR..).zip(known.chunks(SECTOR as usize)) {
            content.insert(number, Sector { length: sector.len() as u64, hash: hash(sector) });
        }
        at += read as u64;
    }
    Ok(())
}

fn hash(data: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(data);
    hasher.finish()
}

/// Opens a file to read it without a change of its access time, which would need another transaction.
fn open(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(OFlags::NOATIME.bits().cast_signed()).open(path)
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

/// Ends a change: they are in the order of their numbers.
fn end_in<T>(pending: Option<&mut Vec<Pending<T>>>, number: u64, now: u64) {
    let Some(pending) = pending else { return };
    if let Ok(place) = pending.binary_search_by_key(&number, |change| change.number) {
        pending[place].ended = Some(now);
    }
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
    pub(super) fn begin(&self, settings: Settings) -> io::Result<()> {
        make_durable(&self.0.root)?;
        let mut notes = self.0.lock();
        self.0.see_all(&mut notes, Path::new(""))?;
        self.0.control.order(Order::Begin(settings))?;
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
    ///
    /// With `keeps_names` a sync of a new file promises its name, and a sync of a directory promises new files in it. That
    /// is so where the creation is one transaction of a journal or log.
    pub(super) fn check(&self, recorded: &Recorded, at: usize, root: &Path, keeps_names: bool) -> Judgement {
        let notes = self.0.lock();
        let mut promised = notes.earlier.clone();
        notes.before(recorded, at).iter().for_each(|note| promised.apply(note));
        if keeps_names {
            let unnamed = std::mem::take(&mut promised.unnamed);
            promised.names.extend(unnamed);
        } else {
            let (earlier, contents) = (&notes.earlier.names, &promised.contents);
            promised.names.retain(|path, of| earlier.get(path) == Some(of) || contents.contains_key(of));
        }
        promised.judge(root)
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks a note in the log of the device, then makes it. Returns the number of the event, or 0 if nothing is recorded.
    fn mark(&self, event: Event, note: impl FnOnce(&mut Notes, u64) -> io::Result<Note>) -> u64 {
        if !self.is_recording.load(Ordering::Relaxed) {
            return 0;
        }
        let mut notes = self.lock();
        let time = notes.tick();
        let number = notes.all.len() as u64;
        let made = match self.control.mark(number, event) {
            Ok(true) => note(&mut notes, time).map(Some),
            full => full.map(|_| None),
        };
        match made {
            Ok(Some(note)) => notes.all.push(note),
            Ok(None) => self.is_recording.store(false, Ordering::Relaxed),
            Err(error) => {
                notes.error = Some(error);
                self.is_recording.store(false, Ordering::Relaxed);
            }
        }
        time
    }

    /// Everything below a folder is promised.
    fn see_all(&self, notes: &mut Notes, folder: &Path) -> io::Result<()> {
        for entry in fs::read_dir(self.root.join(folder))? {
            let entry = entry?;
            let (path, of, kind) =
                (folder.join(entry.file_name()), id_at(&entry.path())?, entry.file_type()?);
            if kind.is_dir() {
                self.see_all(notes, &path)?;
            } else if kind.is_file() {
                let length = entry.metadata()?.len();
                let content = notes.earlier.contents.entry(of).or_default();
                read_sectors(&open(&entry.path())?, 0..length, length, content)?;
                notes.lengths.insert(of, length);
            }
            notes.earlier.names.insert(path, of);
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
                let (of, path) = (id_of(*file)?, self.below(*file)?);
                if range.end == u64::MAX {
                    // The file may be cut off there.
                    notes.lengths.entry(of).and_modify(|length| *length = range.start.min(*length));
                }
                let pending = Pending { number, what: (range.clone(), path), ended: None };
                notes.contents.entry(of).or_default().push(pending);
                notes.open.insert(number, Subject::File(of));
                return Ok(Note::Content { of, bytes: range.clone() });
            }
            Change::Name { directory, name } => (path_of(directory, name)?, false),
            Change::Removal { directory, name } => (path_of(directory, name)?, true),
        };
        let deleted = if is_deleted { if_found(id_at(&self.root.join(&path)))? } else { None };
        if let Some(of) = deleted {
            // Its inode may be used again.
            notes.contents.remove(&of);
            notes.lengths.remove(&of);
        }
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let pending = Pending { number, what: (path.clone(), is_deleted), ended: None };
        notes.open.insert(number, Subject::Folder(folder.clone()));
        notes.names.entry(folder).or_default().push(pending);
        Ok(Note::Name { path, deleted })
    }

    /// The promise of a file's content, read through `file`.
    fn content(
        &self,
        notes: &mut Notes,
        file: &File,
        path: PathBuf,
        begun: u64,
    ) -> io::Result<Option<Promise>> {
        let of = id_of(file.as_fd())?;
        let Some(pending) = notes.contents.get_mut(&of) else { return Ok(None) };
        let covered = take_covered(pending, begun);
        if covered.is_empty() {
            return Ok(None);
        }
        let ends = covered.iter().map(|(bytes, _)| bytes.end).filter(|end| *end < u64::MAX);
        let present = file.metadata()?.len();
        let length = notes.lengths.entry(of).or_default();
        *length = ends.fold(*length, u64::max).min(present);
        let mut content = Content::new();
        for (bytes, _) in &covered {
            read_sectors(file, bytes.clone(), *length, &mut content)?;
        }
        pending.iter().for_each(|change| end_promises(&mut content, &change.what.0));
        if pending.is_empty() {
            notes.contents.remove(&of);
        }
        // A sync of a new file promises its name; of a file that took another's place it may not.
        let is_new =
            |change: &Pending<Name>| !change.what.1 && change.ended.is_some_and(|ended| ended < begun);
        let in_its_folder = path.parent().and_then(|folder| notes.names.get(folder));
        let mut changes = in_its_folder.into_iter().flatten().filter(|change| change.what.0 == path);
        let has_name = file.metadata()?.nlink() > 0 && changes.all(is_new);
        Ok(Some(Promise::Content { of, path: has_name.then_some(path), content }))
    }

    /// The promises of the names in a directory.
    fn names(&self, notes: &mut Notes, folder: &Path, begun: u64) -> io::Result<Vec<Promise>> {
        let Some(pending) = notes.names.get_mut(folder) else { return Ok(Vec::new()) };
        let covered: BTreeSet<PathBuf> =
            take_covered(pending, begun).into_iter().map(|(path, _)| path).collect();
        let open: BTreeSet<&PathBuf> = pending.iter().map(|change| &change.what.0).collect();
        let mut promises = Vec::new();
        for path in covered.into_iter().filter(|path| !open.contains(path)) {
            promises.push(match if_found(id_at(&self.root.join(&path)))? {
                Some(of) => Promise::Name { path, of },
                None => Promise::Absent { path },
            });
        }
        if pending.is_empty() {
            notes.names.remove(folder);
        }
        Ok(promises)
    }

    fn promise(&self, notes: &mut Notes, what: &Synced<'_>, begun: u64) -> io::Result<Note> {
        let mut promises = Vec::new();
        match what {
            Synced::One(of) => {
                let path = self.below(*of)?;
                let file = open(Path::new(&format!("/proc/self/fd/{}", of.as_raw_fd())))?;
                if file.metadata()?.is_dir() {
                    promises.extend(self.names(notes, &path, begun)?);
                } else {
                    promises.extend(self.content(notes, &file, path, begun)?);
                }
            }
            Synced::Filesystem => {
                let paths =
                    |changes: &Vec<Pending<Bytes>>| changes.last().map(|change| change.what.1.clone());
                let files: Vec<_> =
                    notes.contents.iter().filter_map(|(of, changes)| Some((*of, paths(changes)?))).collect();
                for (of, path) in files {
                    let file = if_found(open(&self.root.join(&path)))?;
                    // It may have been renamed, and another have its path.
                    if let Some(file) = file
                        && id_of(file.as_fd())? == of
                    {
                        promises.extend(self.content(notes, &file, path, begun)?);
                    }
                }
                let folders: Vec<PathBuf> = notes.names.keys().cloned().collect();
                for folder in folders {
                    promises.extend(self.names(notes, &folder, begun)?);
                }
            }
        }
        Ok(Note::Synced(promises))
    }
}

/// Removes the sectors of which a change touches a promised byte.
fn end_promises(content: &mut Content, bytes: &Range<u64>) {
    let sectors = bytes.start / SECTOR..bytes.end.div_ceil(SECTOR);
    let is_touched = |(number, sector): &(&u64, &Sector)| *number * SECTOR + sector.length > bytes.start;
    let touched: Vec<u64> = content.range(sectors).filter(is_touched).map(|(number, _)| *number).collect();
    for number in touched {
        content.remove(&number);
    }
}

impl SyncObserver for PromiseLog {
    fn begins(&self, change: &Change<'_>) -> u64 {
        self.0.mark(Event::Change, |notes, time| self.0.begin_change(notes, change, time))
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
        self.0.mark(Event::Sync, |notes, _| self.0.promise(notes, what, begun));
    }
}

impl Notes {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn end(&mut self, change: u64) {
        let now = self.tick();
        match self.open.remove(&change) {
            Some(Subject::File(of)) => end_in(self.contents.get_mut(&of), change, now),
            Some(Subject::Folder(folder)) => end_in(self.names.get_mut(&folder), change, now),
            None => {}
        }
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
            Note::Content { of, bytes } => {
                if let Some(content) = self.contents.get_mut(of) {
                    end_promises(content, bytes);
                }
            }
            Note::Name { path, deleted } => {
                self.names.remove(path);
                self.unnamed.remove(path);
                self.absent.remove(path);
                if let Some(of) = deleted {
                    self.contents.remove(of);
                }
            }
        }
    }

    fn add(&mut self, promise: &Promise) {
        match promise {
            Promise::Content { of, path, content } => {
                self.contents.entry(*of).or_default().extend(content);
                if let Some(path) = path.as_ref().filter(|path| self.names.get(*path) != Some(of)) {
                    self.unnamed.insert(path.clone(), *of);
                }
            }
            Promise::Absent { path } => drop(self.absent.insert(path.clone())),
            Promise::Name { path, of } => {
                self.unnamed.remove(path);
                self.names.insert(path.clone(), *of);
            }
        }
    }

    /// Compares the filesystem at `root` with it.
    fn judge(&self, root: &Path) -> Judgement {
        let mut judgement = Judgement::default();
        let named = self.names.iter().map(|name| (name, true));
        for ((path, of), is_promised) in named.chain(self.unnamed.iter().map(|name| (name, false))) {
            judgement.checked += u64::from(is_promised);
            let problem = match id_at(&root.join(path)) {
                Ok(found) if found.inode == of.inode => {
                    self.content_problem(&mut judgement, *of, &root.join(path))
                }
                _ if !is_promised => {
                    judgement.missing += 1;
                    None
                }
                Ok(_) => Some("is another file than the promised one".into()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Some("is missing".into()),
                Err(error) => Some(format!("cannot be looked up: {error}")),
            };
            judgement.broken.extend(problem.map(|problem| format!("{} {problem}", path.display())));
        }
        for path in &self.absent {
            judgement.checked += 1;
            if id_at(&root.join(path)).is_ok() {
                judgement.broken.push(format!(
                    "{} is there again, and its directory was synced without it",
                    path.display()
                ));
            }
        }
        judgement
    }

    /// The first difference from the promised content of a file.
    fn content_problem(&self, judgement: &mut Judgement, of: FileId, path: &Path) -> Option<String> {
        let content = self.contents.get(&of).filter(|content| !content.is_empty())?;
        let data = match fs::read(path) {
            Ok(data) => data,
            Err(error) => return Some(format!("cannot be read: {error}")),
        };
        for (number, sector) in content {
            judgement.checked += 1;
            let from = number * SECTOR;
            let range = usize::try_from(from).ok()?..usize::try_from(from + sector.length).ok()?;
            match data.get(range) {
                None => {
                    let synced = from + sector.length;
                    return Some(format!("is {} bytes long, and at least {synced} were synced", data.len()));
                }
                Some(part) if hash(part) != sector.hash => {
                    return Some(format!("differs from its synced content at byte {from}"));
                }
                Some(_) => {}
            }
        }
        None
    }
}
