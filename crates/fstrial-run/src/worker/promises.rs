//! The promises of a load: what each acknowledged sync covers, and whether an image still has it.
//!
//! A promise is marked in the log of the device as soon as the sync has returned, before the thread continues. Its content
//! is then read back; with several threads a block counts only if it had its content before the sync began. A block that the next view of the file shows changed may
//! have been overwritten at any moment between the two, so it is not judged after the earlier promise.
//!
//! A name is promised by a sync of its directory, or because it existed before the recording began. Deleting, replacing
//! and truncating end promises; they are marked before they are done, so that a cut after the mark proves nothing.

use fstrial_device::cuts::{Order, Recorded};
use fstrial_engine::SyncObserver;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use serde::de::DeserializeOwned;
use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    ffi::{CStr, OsString},
    fs::{self, File},
    hash::{DefaultHasher, Hasher},
    io,
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
const BLOCK: usize = 4096;
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

#[derive(Debug)]
enum Note {
    /// A file and its content were synced.
    Content(Content),
    /// A directory was synced: these names in it.
    Names { folder: PathBuf, names: BTreeMap<OsString, FileId> },
    /// A name was about to go.
    Removed { path: PathBuf },
    /// A file was about to lose its content.
    Truncated { of: FileId },
}

/// The content of a file at a sync.
#[derive(Debug)]
struct Content {
    of: FileId,
    /// Its path then, below the mount point.
    path: PathBuf,
    size: usize,
    /// Hashes of its blocks; the last one may be shorter.
    blocks: Vec<u64>,
    /// For each block, true if the next view of the file shows something else.
    changes: Vec<bool>,
}

/// The promises of a load.
#[derive(Debug, Clone)]
pub(super) struct PromiseLog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Several threads may write a file at a time.
    has_several_writers: bool,
    control: Control,
    /// The mount point.
    root: PathBuf,
    is_recording: AtomicBool,
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    /// By number: the first ones are of the time before the recording.
    all: Vec<Note>,
    /// Those of the time before the recording.
    earlier: usize,
    /// The last view of each file.
    latest: HashMap<FileId, usize>,
    /// The first error, after which nothing is noted any more.
    error: Option<io::Error>,
}

fn hash(data: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(data);
    hasher.finish()
}

/// The part of a file of this size that a block covers.
fn range_of(block: usize, size: usize) -> std::ops::Range<usize> {
    block * BLOCK..((block + 1) * BLOCK).min(size)
}

fn id_of(folder: BorrowedFd<'_>, name: &CStr, flags: AtFlags) -> io::Result<FileId> {
    let mask = StatxFlags::INO | StatxFlags::BTIME;
    let status = statx(folder, name, flags | AtFlags::SYMLINK_NOFOLLOW, mask)?;
    Ok(FileId { inode: status.stx_ino, born: (status.stx_btime.tv_sec, status.stx_btime.tv_nsec) })
}

fn id_at(path: &Path) -> io::Result<FileId> {
    let name = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    id_of(CWD, &name, AtFlags::empty())
}

fn path_of(fd: BorrowedFd<'_>) -> io::Result<PathBuf> {
    fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

impl Content {
    fn read(of: FileId, path: PathBuf, data: &[u8]) -> Self {
        let blocks: Vec<u64> = data.chunks(BLOCK).map(hash).collect();
        Self { of, path, size: data.len(), changes: vec![false; blocks.len()], blocks }
    }

    /// Gives up blocks that changed during the sync: another thread wrote them.
    fn see_earlier(&mut self, before: &[u64]) {
        for (block, changes) in self.changes.iter_mut().enumerate() {
            *changes |= before.get(block) != Some(&self.blocks[block]);
        }
    }

    /// Compares with a later view of the file.
    fn see_later(&mut self, data: &[u8]) {
        for (block, changes) in self.changes.iter_mut().enumerate() {
            *changes |= data.get(range_of(block, self.size)).map(hash) != Some(self.blocks[block]);
        }
    }

    /// The damage in a file of an image, if there is any.
    fn damage(&self, data: &[u8]) -> Option<String> {
        for (block, _) in self.changes.iter().enumerate().filter(|(_, changes)| !**changes) {
            let range = range_of(block, self.size);
            match data.get(range.clone()) {
                None => {
                    return Some(format!("has {} bytes, and {} were synced", data.len(), self.size));
                }
                Some(part) if hash(part) != self.blocks[block] => {
                    return Some(format!("differs from its synced content at byte {}", range.start));
                }
                Some(_) => {}
            }
        }
        None
    }
}

impl PromiseLog {
    /// For a filesystem at `root` on the device of this control file.
    pub(super) fn new(control: Control, root: PathBuf, threads: u16) -> Self {
        let (is_recording, notes) = (AtomicBool::new(false), Mutex::default());
        Self(Arc::new(Inner { has_several_writers: threads > 1, control, root, is_recording, notes }))
    }

    pub(super) fn control(&self) -> &Control {
        &self.0.control
    }

    /// Begins the recording. Everything on the filesystem is durable.
    pub(super) fn begin(&self, limit: u64, protected: bool) -> io::Result<()> {
        let mut notes = self.0.lock();
        self.0.see_all(&mut notes, Path::new(""))?;
        notes.earlier = notes.all.len();
        self.0.control.order(Order::Begin { limit, protected })?;
        self.0.is_recording.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Ends it, with a last view of all files.
    pub(super) fn end(&self) -> io::Result<Recorded> {
        self.0.is_recording.store(false, Ordering::Relaxed);
        let mut notes = self.0.lock();
        let recorded = self.0.control.ask(Order::End)?;
        if let Some(error) = notes.error.take() {
            return Err(error);
        }
        // A view without a promise: only for the comparison.
        let kept = notes.all.len();
        self.0.see_all(&mut notes, Path::new(""))?;
        notes.all.truncate(kept);
        Ok(recorded)
    }

    /// Number of promises before a cut.
    pub(super) fn promises_before(&self, recorded: &Recorded, at: usize) -> u64 {
        self.0.lock().promises_before(recorded, at)
    }

    /// The promises that were made before a cut and that the filesystem at `root` has broken, as text for the user.
    pub(super) fn check(&self, recorded: &Recorded, at: usize, root: &Path) -> Vec<String> {
        self.0.lock().check(recorded, at, root)
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks a promise in the log of the device, and notes it.
    fn mark(&self, note: impl FnOnce(&mut Notes) -> io::Result<()>) {
        if !self.is_recording.load(Ordering::Relaxed) {
            return;
        }
        let mut notes = self.lock();
        if notes.error.is_some() {
            return;
        }
        let number = notes.all.len() as u64;
        let done = self.control.order(Order::Promise { number }).and_then(|()| note(&mut notes));
        if let Err(error) = done {
            notes.error = Some(error);
        }
    }

    /// Notes the content of a file, or the names of a directory.
    fn see(&self, notes: &mut Notes, path: &Path) -> io::Result<()> {
        let full = self.root.join(path);
        if full.is_dir() {
            return self.see_names(notes, path).map(drop);
        }
        let data = fs::read(&full)?;
        let mut content = Content::read(id_at(&full)?, path.to_owned(), &data);
        if let Some((_, blocks)) = BEFORE.take().filter(|(of, _)| *of == content.of) {
            content.see_earlier(&blocks);
        }
        notes.see(content, &data);
        Ok(())
    }

    fn see_names(&self, notes: &mut Notes, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let mut names = BTreeMap::new();
        for entry in fs::read_dir(self.root.join(folder))? {
            let entry = entry?;
            names.insert(entry.file_name(), id_at(&entry.path())?);
        }
        let paths = names.keys().map(|name| folder.join(name)).collect();
        notes.all.push(Note::Names { folder: folder.to_owned(), names });
        Ok(paths)
    }

    /// Notes everything below a folder.
    fn see_all(&self, notes: &mut Notes, folder: &Path) -> io::Result<()> {
        for path in self.see_names(notes, folder)? {
            let kind = fs::symlink_metadata(self.root.join(&path))?.file_type();
            if kind.is_dir() {
                self.see_all(notes, &path)?;
            } else if kind.is_file() {
                self.see(notes, &path)?;
            }
        }
        Ok(())
    }

    /// The path below the mount point of an open file or of a name in an open directory.
    fn below(&self, of: BorrowedFd<'_>, name: Option<&CStr>) -> io::Result<PathBuf> {
        let mut path = path_of(of)?;
        if let Some(name) = name {
            path.push(std::ffi::OsStr::from_bytes(name.to_bytes()));
        }
        let outside = |_| io::Error::other(format!("{} is not below the mount point", path.display()));
        path.strip_prefix(&self.root).map(Path::to_owned).map_err(outside)
    }
}

thread_local! {
    /// The blocks of the file that this thread is about to sync, if others may write them at the same time.
    static BEFORE: RefCell<Option<(FileId, Vec<u64>)>> = const { RefCell::new(None) };
}

impl SyncObserver for PromiseLog {
    fn syncs(&self, of: BorrowedFd<'_>) {
        if !self.0.has_several_writers || !self.0.is_recording.load(Ordering::Relaxed) {
            return;
        }
        // An error shows again after the sync, where it is kept.
        let full = path_of(of).ok().filter(|path| path.is_file());
        let seen = full.and_then(|path| Some((id_at(&path).ok()?, fs::read(&path).ok()?)));
        BEFORE.set(seen.map(|(of, data)| (of, data.chunks(BLOCK).map(hash).collect())));
    }

    fn synced(&self, of: BorrowedFd<'_>) {
        self.0.mark(|notes| self.0.see(notes, &self.0.below(of, None)?));
    }

    fn filesystem_synced(&self, _: BorrowedFd<'_>) {
        self.0.mark(|notes| match self.0.has_several_writers {
            // The content may have been written since.
            true => self.0.see_names(notes, Path::new("")).map(drop),
            false => self.0.see_all(notes, Path::new("")),
        });
    }

    fn truncates(&self, file: BorrowedFd<'_>) {
        self.0.mark(|notes| {
            notes.all.push(Note::Truncated { of: id_of(file, c"", AtFlags::EMPTY_PATH)? });
            Ok(())
        });
    }

    fn removes(&self, directory: BorrowedFd<'_>, name: &CStr) {
        self.0.mark(|notes| {
            notes.all.push(Note::Removed { path: self.0.below(directory, Some(name))? });
            Ok(())
        });
    }
}

impl Notes {
    /// Notes a view of a file, and compares the one before it.
    fn see(&mut self, content: Content, data: &[u8]) {
        let number = self.all.len();
        if let Some(before) = self.latest.insert(content.of, number)
            && let Some(Note::Content(before)) = self.all.get_mut(before)
        {
            before.see_later(data);
        }
        self.all.push(Note::Content(content));
    }

    /// Numbers of the notes that were marked before a cut.
    fn before<'a>(&self, recorded: &'a Recorded, at: usize) -> impl Iterator<Item = usize> + use<'a> {
        let marked = recorded.promises.iter().filter(move |(position, _)| *position < at);
        marked.filter_map(|(_, number)| usize::try_from(*number).ok())
    }

    fn promises_before(&self, recorded: &Recorded, at: usize) -> u64 {
        let notes = self.before(recorded, at).filter_map(|number| self.all.get(number));
        notes.filter(|note| matches!(note, Note::Content(_) | Note::Names { .. })).count() as u64
    }

    fn check(&self, recorded: &Recorded, at: usize, root: &Path) -> Vec<String> {
        let (mut names, mut contents) =
            (BTreeMap::<PathBuf, FileId>::new(), HashMap::<FileId, &Content>::new());
        // The last synced file of each path, as long as it has the path.
        let mut current = HashMap::<&Path, FileId>::new();
        for number in (0..self.earlier).chain(self.before(recorded, at)) {
            match self.all.get(number) {
                Some(Note::Content(content)) => {
                    current.insert(&content.path, content.of);
                    contents.insert(content.of, content);
                }
                Some(Note::Names { folder, names: present }) => {
                    names.retain(|path, _| path.parent() != Some(folder));
                    names.extend(present.iter().map(|(name, of)| (folder.join(name), *of)));
                }
                Some(Note::Removed { path }) => {
                    names.remove(path);
                    current.remove(path.as_path());
                }
                Some(Note::Truncated { of }) => drop(contents.remove(of)),
                None => {}
            }
        }
        let named = names.iter().map(|(path, of)| (path, contents.remove(of)));
        let mut of_names: Vec<(&PathBuf, Option<&Content>)> = named.collect();
        // A sync of a file does not promise its name: without the name there is nothing to check.
        let is_current = |content: &&&Content| current.get(content.path.as_path()) == Some(&content.of);
        let unnamed = contents.values().filter(is_current).map(|content| (&content.path, Some(*content)));
        of_names.extend(unnamed.filter(|(path, _)| root.join(path).is_file()));
        let broken = of_names.into_iter().filter_map(|(path, content)| {
            problem(&root.join(path), content).map(|problem| format!("{} {problem}", path.display()))
        });
        broken.collect()
    }
}

/// The broken promise of a name and its content, if it is broken.
fn problem(path: &Path, content: Option<&Content>) -> Option<String> {
    let Some(content) = content else {
        let missing = fs::symlink_metadata(path).is_err();
        return missing.then(|| "is missing, and its directory was synced".into());
    };
    match fs::read(path) {
        Ok(data) => content.damage(&data),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some("is missing, and was synced".into()),
        Err(error) => Some(format!("cannot be read: {error}")),
    }
}
