//! Deletes a folder made by fstrial with everything that a program has put into it, in bounded memory, descriptors and
//! time.
//!
//! Works by descriptors and never by a path below the folder, so a part replaced with a link leads nowhere else. Few
//! folders are open at a time; deeper ones are moved up into the top folder, where they are handled later. So neither
//! the depth of a tree nor the length of its paths matters. Names are read a buffer at a time and never collected.
//!
//! Not for user-supplied paths: protections (modes, immutable flags, read-only subvolumes) are removed before deleting.
//! Mounts are never crossed.

use crate::{error::StackError, ioctl};
use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, IFlags, Mode, OFlags, ResolveFlags, Stat},
    io::Errno,
};
use serde::{Deserialize, Serialize};
use std::{
    ffi::{CStr, CString, OsStr},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// Limit of open folders; deeper ones are moved up.
const DEPTH: usize = 16;
/// Wait before the retry of a transient error.
const PAUSE: Duration = Duration::from_millis(10);
/// Attempts: about ten seconds. A program that was killed has ended by then.
const ATTEMPTS: u32 = 1000;
/// Flags that keep files from being deleted, and folders from being moved.
const PROTECTIONS: IFlags = IFlags::IMMUTABLE.union(IFlags::APPEND).union(IFlags::PROJECT_INHERIT);
/// The inode of the root of every btrfs subvolume.
const SUBVOLUME: u64 = 256;

/// Identity of a folder that we made: another one may have taken its name since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// The identity of an open folder.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn of(folder: BorrowedFd<'_>) -> Result<Self, StackError> {
        let stat = rustix::fs::fstat(folder).map_err(|e| StackError::io("look at", path_of(folder), e))?;
        Ok(Self::from(&stat))
    }

    /// True if it is the same, allowing for a boot, which may give filesystems other numbers.
    pub fn is_same_after_a_boot(self, other: Self) -> bool {
        self.inode == other.inode
    }
}

impl From<&Stat> for Identity {
    fn from(stat: &Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }
}

/// Deletes the folder `name` in `parent` with everything in it; fine if it is gone already. `stop` is asked before
/// every entry; if it returns true, the rest is left.
///
/// # Errors
/// It is not a folder (a link in its place is not followed), something is mounted below it, a program keeps writing to
/// it, it may not be deleted, or [`StackError::Interrupted`].
pub fn tree(parent: BorrowedFd<'_>, name: &OsStr, stop: &dyn Fn() -> bool) -> Result<(), StackError> {
    delete(parent, name, &|_| true, stop)
}

/// The same, if it is still the folder that was made.
///
/// # Errors
/// As [`tree`]; another folder has its name.
pub fn tree_that_is(
    made: Identity,
    parent: BorrowedFd<'_>,
    name: &OsStr,
    stop: &dyn Fn() -> bool,
) -> Result<(), StackError> {
    delete(parent, name, &|result| result == made, stop)
}

/// The same by a path, whose last part is the folder, if `is_ours` accepts it. Fine if more of the path is gone.
///
/// # Errors
/// As [`tree`].
///
/// # Panics
/// If the path has no last part.
pub fn tree_at(
    path: &Path,
    is_ours: &dyn Fn(Identity) -> bool,
    stop: &dyn Fn() -> bool,
) -> Result<(), StackError> {
    let Some((parent, name)) = parent_of(path)? else { return Ok(()) };
    delete(parent.as_fd(), name, is_ours, stop)
}

/// Deletes a folder by its path only if it is empty, as it is when we died between making it and noting which one it
/// was. Fine if it is gone.
///
/// # Errors
/// Something is in it, or it is not a folder.
///
/// # Panics
/// If the path has no last part.
pub fn empty_at(path: &Path) -> Result<(), StackError> {
    let Some((parent, name)) = parent_of(path)? else { return Ok(()) };
    match rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => Err(changed(path)),
        Err(error) => Err(StackError::io("delete", path, error)),
    }
}

/// Parent of a folder, and its name there; none if that is gone.
fn parent_of(path: &Path) -> Result<Option<(OwnedFd, &OsStr)>, StackError> {
    let name = path.file_name().expect("the folder has a name");
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::open(parent, flags, Mode::empty()) {
        Ok(parent) => Ok(Some((parent, name))),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(StackError::io("open", parent, error)),
    }
}

/// Something else has the name by now.
fn changed(path: &Path) -> StackError {
    StackError::Unable {
        what: format!("{} is no longer the folder that was made", path.display()),
        hint: "look at it and delete it by hand".into(),
    }
}

fn delete(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    is_ours: &dyn Fn(Identity) -> bool,
    stop: &dyn Fn() -> bool,
) -> Result<(), StackError> {
    let path = path_of(parent).join(name);
    let changed = || changed(&path);
    let name = CString::new(name.as_bytes()).map_err(|_| changed())?;
    let mut deletion = Deletion { parent, open: Vec::with_capacity(DEPTH), stop, moved: 0 };
    let top = match open(parent, &name) {
        Ok(top) => top,
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTDIR | Errno::LOOP) => return Err(changed()),
        Err(error) => return Err(deletion.failed("open", parent, &name, error)),
    };
    let folder = Folder::new(top, name).map_err(|e| StackError::io("look at", path_of(parent), e))?;
    if !is_ours(folder.identity) {
        return Err(changed());
    }
    deletion.open.push(folder);
    deletion.run()
}

/// A folder that is being emptied.
struct Folder {
    entries: Dir,
    name: CString,
    identity: Identity,
    /// Something was moved here since its entries were last read from the beginning.
    has_received: bool,
    /// Times that it was not empty although everything in it had been deleted.
    refilled: u32,
}

impl Folder {
    /// Grants us the right to delete its entries, as far as its mode is concerned.
    fn new(folder: OwnedFd, name: CString) -> Result<Self, Errno> {
        let stat = rustix::fs::fstat(&folder)?;
        if stat.st_ino == SUBVOLUME {
            // Elsewhere this inode is nothing special, and there is no such call.
            let _ = ioctl::make_subvolume_writable(folder.as_fd());
        }
        let mode = Mode::from_raw_mode(stat.st_mode);
        if !mode.contains(Mode::RWXU) {
            // A foreign folder is detected at the first entry.
            let _ = rustix::fs::fchmod(&folder, mode | Mode::RWXU);
        }
        let (identity, entries) = (Identity::from(&stat), Dir::new(folder)?);
        Ok(Self { entries, name, identity, has_received: false, refilled: 0 })
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.entries.fd().expect("an open folder has a descriptor")
    }
}

struct Deletion<'a> {
    /// Parent of the top folder.
    parent: BorrowedFd<'a>,
    /// From the top down, each in the one before.
    open: Vec<Folder>,
    stop: &'a dyn Fn() -> bool,
    /// Folders moved up so far.
    moved: u64,
}

impl Deletion<'_> {
    fn run(&mut self) -> Result<(), StackError> {
        while let Some(folder) = self.open.last_mut() {
            if (self.stop)() {
                return Err(StackError::Interrupted);
            }
            match folder.entries.read() {
                Some(Ok(entry)) if [c".", c".."].contains(&entry.file_name()) => {}
                Some(Ok(entry)) => self.entry(entry.file_name(), entry.file_type())?,
                Some(Err(error)) => return Err(StackError::io("list", path_of(folder.fd()), error)),
                None => self.close()?,
            }
        }
        Ok(())
    }

    /// Deletes a file, or goes into a folder.
    fn entry(&mut self, name: &CStr, kind: FileType) -> Result<(), StackError> {
        let folder = self.open.last().expect("an entry is in a folder");
        if kind != FileType::Directory {
            // Some filesystems do not report the type.
            match self.persist(folder.fd(), name, AtFlags::empty()) {
                Err(Errno::ISDIR) => {}
                Ok(()) => return Ok(()),
                Err(error) => return Err(self.failed("delete", folder.fd(), name, error)),
            }
        }
        let child = match open(folder.fd(), name).and_then(|child| Folder::new(child, name.to_owned())) {
            Ok(child) => child,
            // Deleted or replaced meanwhile: the next look at the folder sees the new entry.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            Err(error) => return Err(self.failed("open", folder.fd(), name, error)),
        };
        // Entries of a subvolume can be moved only within it, so it needs the full depth for itself.
        let is_subvolume =
            child.identity.inode == SUBVOLUME && child.identity.device != folder.identity.device;
        if self.open.len() < DEPTH && (!is_subvolume || self.open.len() == 1) {
            self.open.push(child);
            return Ok(());
        }
        match self.move_up(&child) {
            Ok(()) => Ok(()),
            Err(_) if self.open.len() < DEPTH => {
                self.open.push(child);
                Ok(())
            }
            Err(error) => {
                let folder = self.open.last().expect("an entry is in a folder");
                Err(self.failed("move up", folder.fd(), &child.name, error))
            }
        }
    }

    /// Moves a folder out of the deepest open one, into the highest that takes it.
    fn move_up(&mut self, child: &Folder) -> Result<(), Errno> {
        let deepest = self.open.len() - 1;
        let mut last = Errno::XDEV;
        for target in 0..deepest {
            let (above, below) = self.open.split_at(deepest);
            let (from, into) = (below[0].fd(), above[target].fd());
            let mut is_unprotected = false;
            last = loop {
                let name = format!("fstrial-moved-{}-{}", std::process::id(), self.moved);
                self.moved += 1;
                match rustix::fs::renameat(from, &child.name, into, name) {
                    Ok(()) => {
                        self.open[target].has_received = true;
                        return Ok(());
                    }
                    Err(Errno::NOENT) => return Ok(()),
                    // Something has that name.
                    Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
                    Err(Errno::PERM | Errno::ACCESS | Errno::XDEV) if !is_unprotected => {
                        is_unprotected = true;
                        [from, into, child.fd()].into_iter().for_each(unprotect);
                    }
                    Err(error) => break error,
                }
            };
        }
        Err(last)
    }

    /// Deletes the deepest open folder, now that nothing is left in it, or begins again with it.
    fn close(&mut self) -> Result<(), StackError> {
        let mut folder = self.open.pop().expect("a folder was just read to its end");
        let above = self.open.last().map_or(self.parent, Folder::fd);
        match self.persist(above, &folder.name, AtFlags::REMOVEDIR) {
            Ok(()) => return Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST) if std::mem::take(&mut folder.has_received) => {}
            Err(Errno::NOTEMPTY | Errno::EXIST) if folder.refilled < ATTEMPTS => {
                folder.refilled += 1;
                thread::park_timeout(PAUSE);
            }
            Err(error) => return Err(self.failed("delete", above, &folder.name, error)),
        }
        folder.entries.rewind();
        self.open.push(folder);
        Ok(())
    }

    /// Deletes one entry: removes its protection, and retries after transient errors.
    fn persist(&self, folder: BorrowedFd<'_>, name: &CStr, flags: AtFlags) -> Result<(), Errno> {
        let mut is_unprotected = false;
        let mut attempts = 0;
        loop {
            match rustix::fs::unlinkat(folder, name, flags) {
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                Err(Errno::PERM | Errno::ACCESS) if !is_unprotected => {
                    is_unprotected = true;
                    if !self.open.is_empty() {
                        unprotect(folder);
                    }
                    unprotect_entry(folder, name);
                }
                // A mount point stays one; other reasons pass.
                Err(Errno::BUSY) if attempts < ATTEMPTS && !(self.stop)() && !is_mounted_on(folder, name) => {
                    attempts += 1;
                    thread::park_timeout(PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn failed(&self, what: &str, folder: BorrowedFd<'_>, name: &CStr, error: Errno) -> StackError {
        if (self.stop)() {
            return StackError::Interrupted;
        }
        let path = path_of(folder).join(OsStr::from_bytes(name.to_bytes()));
        match error {
            Errno::XDEV | Errno::BUSY if is_mounted_on(folder, name) => StackError::Unable {
                what: format!(
                    "something is mounted on {}, and nothing below that is deleted",
                    path.display()
                ),
                hint: "unmount it, then run `fstrial clean`".into(),
            },
            Errno::NOTEMPTY | Errno::EXIST => StackError::Unable {
                what: format!("{} cannot be emptied: a program keeps writing to it", path.display()),
                hint: "end that program (`fuser -v` shows which), then run `fstrial clean`".into(),
            },
            Errno::PERM | Errno::ACCESS => StackError::Unable {
                what: format!("could not {what} {}: {error}", path.display()),
                hint:
                    "check its owner and its protection (`ls -ld`, `lsattr -d`); root may have to delete it"
                        .into(),
            },
            _ => StackError::io(what, path, error),
        }
    }
}

/// Opens a folder in another one, without following a link or crossing a mount.
fn open(folder: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match open_here(folder, name, flags) {
        Err(Errno::ACCESS) => {
            // Its owner may not read it, but may allow it. There is no such call without following links before Linux
            // 6.6, except through the descriptor.
            let handle = open_here(folder, name, flags | OFlags::PATH)?;
            let link = format!("/proc/self/fd/{}", handle.as_raw_fd());
            rustix::fs::chmodat(CWD, link, Mode::RWXU, AtFlags::empty()).map_err(|_| Errno::ACCESS)?;
            rustix::fs::openat(&handle, c".", flags, Mode::empty())
        }
        opened => opened,
    }
}

/// Opens something in a folder, unless something is mounted on it (`EXDEV`). Bind mounts of the same filesystem are
/// seen; subvolumes are not mounts.
fn open_here(folder: BorrowedFd<'_>, name: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
    match rustix::fs::openat2(folder, name, flags, Mode::empty(), resolve) {
        // Some sandboxes do not know the call.
        Err(Errno::NOSYS | Errno::PERM) => {
            let opened = rustix::fs::openat(folder, name, flags, Mode::empty())?;
            let (inside, outside) = (rustix::fs::fstat(&opened)?, rustix::fs::fstat(folder)?);
            let is_here = inside.st_dev == outside.st_dev || inside.st_ino == SUBVOLUME;
            if is_here { Ok(opened) } else { Err(Errno::XDEV) }
        }
        opened => opened,
    }
}

fn is_mounted_on(folder: BorrowedFd<'_>, name: &CStr) -> bool {
    let opened = open_here(folder, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC);
    matches!(opened, Err(Errno::XDEV))
}

/// Clears the protection flags of an open file. If that is not allowed, the next operation reports it.
fn unprotect(open: BorrowedFd<'_>) {
    if let Ok(flags) = rustix::fs::ioctl_getflags(open)
        && flags.intersects(PROTECTIONS)
    {
        let _ = rustix::fs::ioctl_setflags(open, flags - PROTECTIONS);
    }
}

/// The same for an entry of a folder, if it is nowhere else as well. Devices are not opened, and have no flags.
fn unprotect_entry(folder: BorrowedFd<'_>, name: &CStr) {
    let Ok(stat) = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else { return };
    let is_ours = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => stat.st_nlink == 1,
        FileType::Directory => true,
        _ => false,
    };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    if let Some(Ok(entry)) = is_ours.then(|| open_here(folder, name, flags)) {
        unprotect(entry.as_fd());
    }
}

/// Current path of an open folder, for messages.
fn path_of(folder: BorrowedFd<'_>) -> PathBuf {
    let link = format!("/proc/self/fd/{}", folder.as_raw_fd());
    std::fs::read_link(link).unwrap_or_else(|_| "a folder deep below".into())
}
