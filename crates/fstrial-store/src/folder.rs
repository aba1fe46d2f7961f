//! The folder in which a copy has a name while SQLite opens it. Its maker holds a lock on it: without one, its maker was killed.

use rustix::{
    fs::{
        AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, ResolveFlags, flock, fstat, openat,
        openat2, statat, unlinkat,
    },
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
/// Attempts at making a folder when a sweep came between its making and its lock.
const ATTEMPTS: usize = 10;

/// A new folder, locked by this process.
pub(crate) struct Named {
    folder: TempDir,
    _lock: OwnedFd,
}

impl Named {
    /// # Errors
    /// Temporary files cannot be created.
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
    left(&env::temp_dir()).into_iter().map(|left| left.path).collect()
}

/// Removes them, and gives those that it removed.
pub fn sweep() -> Vec<PathBuf> {
    sweep_in(&env::temp_dir())
}

fn sweep_in(parent: &Path) -> Vec<PathBuf> {
    let remove = |left: &Left| {
        let _ = unlinkat(&left.lock, STORE, AtFlags::empty());
        unlinkat(CWD, &left.path, AtFlags::REMOVEDIR).is_ok()
    };
    left(parent).into_iter().filter(remove).map(|left| left.path).collect()
}

/// A folder whose maker was killed: it is empty except perhaps for an empty file, as the name goes before anything is
/// copied.
struct Left {
    path: PathBuf,
    lock: OwnedFd,
}

fn left(parent: &Path) -> Vec<Left> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(beside) = openat(CWD, parent, flags, Mode::empty()) else { return Vec::new() };
    let names = fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let named = names.filter(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    let result = named.filter_map(|name| {
        // A filesystem mounted there by another user could block us.
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let lock = openat2(&beside, &name, flags, Mode::empty(), within).ok()?;
        let result = fstat(&lock).ok()?;
        let is_ours = result.st_uid == geteuid().as_raw() && result.st_mode & 0o7777 == 0o700;
        let is_free = || flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
        (is_ours && is_free() && is_empty(&lock)).then(|| Left { path: parent.join(name), lock })
    });
    result.collect()
}

/// True if a folder is empty except perhaps for the file of a copy that has not begun.
fn is_empty(folder: &OwnedFd) -> bool {
    let Ok(entries) = Dir::read_from(folder) else { return false };
    let mut names = entries.map(|entry| entry.map(|entry| entry.file_name().to_bytes().to_vec()));
    let is_known = |name: Result<Vec<u8>, Errno>| {
        name.is_ok_and(|name| [b".".as_slice(), b"..", STORE.as_bytes()].contains(&name.as_slice()))
    };
    let is_begun = match statat(folder, STORE, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(result) => {
            let is_file = FileType::from_raw_mode(result.st_mode) == FileType::RegularFile;
            !is_file || result.st_size > 0 || result.st_nlink > 1
        }
        Err(error) => error != Errno::NOENT,
    };
    !is_begun && names.all(is_known)
}

fn open(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    /// A process that was killed while SQLite opened the copy by its name leaves the folder: the next one removes it, and no other.
    #[test]
    fn sweep_removes_only_leftovers_of_killed_copies() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str, mode: u32, files: &[(&str, &str)]| {
            let folder = parent.path().join(format!("{PREFIX}{name}"));
            fs::create_dir(&folder).unwrap();
            files.iter().for_each(|(name, text)| fs::write(folder.join(name), text).unwrap());
            fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
            folder
        };
        let bare = make("bare", 0o700, &[]);
        let begun = make("begun", 0o700, &[(STORE, "")]);
        let held = make("held", 0o700, &[(STORE, "")]);
        let stays = [
            held.clone(),
            make("filled", 0o700, &[(STORE, "precious")]),
            make("strange", 0o700, &[(STORE, ""), ("notes", "precious")]),
            make("public", 0o755, &[(STORE, "")]),
        ];
        let link = parent.path().join(format!("{PREFIX}link"));
        std::os::unix::fs::symlink(parent.path().join("elsewhere"), &link).unwrap();
        fs::create_dir(parent.path().join("elsewhere")).unwrap();
        let lock = File::open(&held).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();

        let mut swept = sweep_in(parent.path());
        swept.sort();
        assert_eq!(swept, [bare, begun]);
        for folder in stays {
            assert!(folder.join(STORE).exists(), "{}", folder.display());
        }
        assert!(link.is_symlink() && parent.path().join("elsewhere").exists());
    }

    /// Its folder is named for a moment only.
    #[test]
    fn folder_stays_locked_until_removed() {
        let named = Named::make().unwrap();
        let path = named.folder.path().to_owned();
        assert!(!left_folders().contains(&path));
        named.remove().unwrap();
        assert!(!path.exists());
    }
}
