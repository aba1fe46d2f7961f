//! The folder in which a copy has a name while SQLite opens it. Its maker holds a lock on it: without one, its maker was killed.

use rustix::{
    fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock, fstat, openat, unlinkat},
    io::Errno,
    process::geteuid,
};
use std::{
    env,
    fs::{self, Permissions},
    io,
    os::{fd::OwnedFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
};
use tempfile::TempDir;

const PREFIX: &str = "fstrial-store-";
const STORE: &str = "store.db";
/// How often a folder is made again because a sweep came between its making and its lock.
const ATTEMPTS: usize = 10;

/// A new folder, locked by this process.
pub(crate) struct Named {
    folder: TempDir,
    _lock: OwnedFd,
}

impl Named {
    /// # Errors
    /// There is no room for temporary files.
    pub(crate) fn make() -> io::Result<Self> {
        let mut made = Self::attempt();
        for _ in 1..ATTEMPTS {
            match made {
                Err(error) if error.kind() == io::ErrorKind::NotFound => made = Self::attempt(),
                made => return made,
            }
        }
        made
    }

    fn attempt() -> io::Result<Self> {
        let permissions = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix(PREFIX).permissions(permissions).tempdir()?;
        let lock = open(folder.path())?;
        flock(&lock, FlockOperation::LockExclusive)?;
        // A sweep that had it first has removed it.
        match fstat(&lock)?.st_nlink {
            0 => Err(io::ErrorKind::NotFound.into()),
            _ => Ok(Self { folder, _lock: lock }),
        }
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.folder.path().join(STORE)
    }

    pub(crate) fn remove(self) -> io::Result<()> {
        self.folder.close()
    }
}

/// Folders for copies that processes of this user left when they were killed, where temporary files go.
pub fn left_folders() -> Vec<PathBuf> {
    left().map(|(path, _)| path).collect()
}

/// Removes them, and gives those that it removed. A folder that has something else in it stays.
pub fn sweep() -> Vec<PathBuf> {
    let remove = |(path, lock): &(PathBuf, OwnedFd)| {
        let _ = unlinkat(lock, STORE, AtFlags::empty());
        unlinkat(CWD, path, AtFlags::REMOVEDIR).is_ok()
    };
    left().filter(remove).map(|(path, _)| path).collect()
}

/// Each with its lock.
fn left() -> impl Iterator<Item = (PathBuf, OwnedFd)> {
    let entries = fs::read_dir(env::temp_dir()).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    named.filter_map(|entry| {
        let path = entry.path();
        let lock = open(&path).ok()?;
        let is_ours = fstat(&lock).is_ok_and(|found| found.st_uid == geteuid().as_raw());
        let is_free = || flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
        (is_ours && is_free()).then_some((path, lock))
    })
}

fn open(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty())
}
