//! A folder that no other user can change: the home of results and ledger, and everything opened in it.
//!
//! `clean` and every trial act on the ledger as root, so they must know its possible writers. Each part of the path is
//! opened in turn without following links, and must belong to root or to us and be writable by no other user; a link is
//! followed only if its possible makers are trusted. `sshd` (`StrictModes`) and systemd (`CHASE_SAFE`) require the same
//! of paths. Files in it are opened by name from the open folder, must be regular, ours, and no larger than expected.
//! The open folder stays usable when something is mounted over its path.

use crate::{error::StackError, isolation};
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, Stat},
    io::Errno,
};
use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    fs::File,
    io::Read,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    path::{Component, Path, PathBuf},
};

/// Links that one path may go through, as in the kernel.
const MAX_LINKS: usize = 40;
/// Mode of folders that are made above the last one.
const OPEN_TO_READ: u32 = 0o755;
/// Mode of folders that are made: results name hosts, command lines and users.
const OWNERS_ONLY: u32 = 0o700;

/// An open folder that only root and this process's user can change.
#[derive(Debug)]
pub struct PrivateDir {
    fd: OwnedFd,
    /// As found, without links.
    path: PathBuf,
}

/// Requirements on a part of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// An intermediate folder: others may add to it if it is sticky (`/tmp`), because they cannot rename or remove our
    /// entries.
    Way,
    /// The folder itself, or a file in it.
    Own,
}

impl PrivateDir {
    /// Opens a folder; none if it does not exist.
    ///
    /// # Errors
    /// Others can change it or a part of its path; it is not a folder; it cannot be read.
    pub fn open(path: &Path) -> Result<Option<Self>, StackError> {
        walk(path, None)
    }

    /// Opens a folder, and makes the missing parts of its path.
    ///
    /// # Errors
    /// As [`open`](Self::open), and if it cannot be made.
    pub fn make(path: &Path) -> Result<Self, StackError> {
        let made = walk(path, Some(OWNERS_ONLY))?;
        made.ok_or_else(|| StackError::io("make the folder", path, Errno::NOENT))
    }

    /// The folder of a name in it; none if it does not exist.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn folder(&self, name: &str) -> Result<Option<Self>, StackError> {
        self.inner(name, None)
    }

    /// The folder of a name in it, which is made if it does not exist and can then be read by its owner only.
    ///
    /// # Errors
    /// As [`make`](Self::make).
    pub fn make_folder(&self, name: &str) -> Result<Self, StackError> {
        let path = self.path.join(name);
        let made = self.inner(name, Some(OWNERS_ONLY))?;
        made.ok_or_else(|| StackError::io("make the folder", path, Errno::NOENT))
    }

    fn inner(&self, name: &str, make: Option<u32>) -> Result<Option<Self>, StackError> {
        let path = self.path.join(name);
        match step(self.fd.as_fd(), OsStr::new(name), &path, make)? {
            None => Ok(None),
            Some((_, stat)) if is(&stat, FileType::Symlink) => {
                Err(refused(&path, "it is a symbolic link".into()))
            }
            Some((fd, stat)) => {
                check(fd.as_fd(), &stat, &path, Role::Own)?;
                Self::read_write(fd, path).map(Some)
            }
        }
    }

    /// Opens an `O_PATH` descriptor for reading.
    fn read_write(fd: OwnedFd, path: PathBuf) -> Result<Self, StackError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&fd, ".", flags, Mode::empty())
            .map_err(|e| StackError::io("open", &path, e))?;
        Ok(Self { fd, path })
    }

    /// Its path, without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file in it; none if it does not exist.
    ///
    /// # Errors
    /// It is a link, a device or anything else than a regular file; others can change it; it cannot be opened.
    pub fn file(&self, name: impl AsRef<OsStr>, flags: OFlags) -> Result<Option<File>, StackError> {
        let (name, path) = (name.as_ref(), self.path.join(name.as_ref()));
        // A file that is not regular must not even be waited for: a FIFO would block.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let fd = match rustix::fs::openat(&self.fd, name, flags, Mode::from_raw_mode(0o600)) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(refused(&path, "it is a symbolic link".into())),
            // A FIFO without a reader, or a device without a driver.
            Err(Errno::NXIO) => return Err(refused(&path, "it is not a regular file".into())),
            Err(error) => return Err(StackError::io("open", path, error)),
        };
        let stat = rustix::fs::fstat(&fd).map_err(|e| StackError::io("look at", &path, e))?;
        if !is(&stat, FileType::RegularFile) {
            return Err(refused(&path, "it is not a regular file".into()));
        }
        check(fd.as_fd(), &stat, &path, Role::Own)?;
        Ok(Some(fd.into()))
    }

    /// The path of a file in it, for a library that opens by name: no other user can change the folder between the
    /// check and the opening. None if it does not exist.
    ///
    /// # Errors
    /// As [`file`](Self::file).
    pub fn checked(&self, name: &str) -> Result<Option<PathBuf>, StackError> {
        Ok(self.file(name, OFlags::RDONLY)?.map(|_| self.path.join(name)))
    }

    /// Reads a file; none if it does not exist.
    ///
    /// # Errors
    /// As [`file`](Self::file), and if it has more bytes than `most`.
    pub fn read(&self, name: &OsStr, most: u64) -> Result<Option<Vec<u8>>, StackError> {
        let Some(file) = self.file(name, OFlags::RDONLY)? else { return Ok(None) };
        let path = self.path.join(name);
        let mut bytes = Vec::new();
        file.take(most + 1).read_to_end(&mut bytes).map_err(|e| StackError::io("read", &path, e))?;
        if bytes.len() as u64 > most {
            return Err(refused(&path, format!("it is larger than {most} bytes")));
        }
        Ok(Some(bytes))
    }

    /// Makes a file that only its owner can read.
    ///
    /// # Errors
    /// It is there already, or cannot be made.
    pub fn create(&self, name: &OsStr) -> Result<File, StackError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let made = self.file(name, flags)?;
        made.ok_or_else(|| StackError::io("make", self.path.join(name), Errno::NOENT))
    }

    /// Gives a file in it another name.
    ///
    /// # Errors
    /// The filesystem refuses.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> Result<(), StackError> {
        rustix::fs::renameat(&self.fd, from, &self.fd, to)
            .map_err(|e| StackError::io("rename", self.path.join(from), e))
    }

    /// Deletes a file in it. Fine if it is gone.
    ///
    /// # Errors
    /// The filesystem refuses.
    pub fn remove(&self, name: &OsStr) -> Result<(), StackError> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(StackError::io("delete", self.path.join(name), error)),
        }
    }

    /// Makes names that were given or taken away in it outlast a power cut.
    ///
    /// # Errors
    /// The filesystem fails.
    pub fn sync(&self) -> Result<(), StackError> {
        rustix::fs::fsync(&self.fd).map_err(|e| StackError::io("sync", &self.path, e))
    }

    /// Names of everything in it, in no order.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn names(&self) -> Result<Vec<OsString>, StackError> {
        let failed = |e| StackError::io("list", &self.path, e);
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd).map_err(failed)? {
            let name = OsString::from_vec(entry.map_err(failed)?.file_name().to_bytes().to_vec());
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }
}

/// Opens a path part by part from the root. Missing folders are made with a mode, if one is given.
fn walk(path: &Path, make: Option<u32>) -> Result<Option<PrivateDir>, StackError> {
    let absolute = std::path::absolute(path).map_err(|e| StackError::io("find", path, e))?;
    let mut todo: VecDeque<OsString> = parts(&absolute);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open("/", flags, Mode::empty()).map_err(|e| StackError::io("open", "/", e))?;
    let (mut open, mut at, mut links) = (vec![root], PathBuf::from("/"), 0);
    while let Some(name) = todo.pop_front() {
        if name == ".." {
            // Only links have it in the middle, and the open folder was not a link: its parent is the one before.
            if open.len() > 1 {
                open.pop();
                at.pop();
            }
            continue;
        }
        let (above, here) = (open.last().expect("the root is never left").as_fd(), at.join(&name));
        // Folders above it may be meant for others as well.
        let make = make.map(|mode| if todo.is_empty() { mode } else { OPEN_TO_READ });
        let Some((fd, stat)) = step(above, &name, &here, make)? else { return Ok(None) };
        let role = if todo.is_empty() { Role::Own } else { Role::Way };
        if is(&stat, FileType::Symlink) {
            links += 1;
            if links > MAX_LINKS {
                return Err(StackError::io("open", path, Errno::LOOP));
            }
            owner(&stat).map_err(|why| refused(&here, why))?;
            let target = rustix::fs::readlinkat(&fd, "", Vec::new())
                .map_err(|e| StackError::io("read the link", &here, e))?;
            let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
            if target.is_absolute() {
                open.truncate(1);
                at = PathBuf::from("/");
            }
            let mut further = parts(&target);
            further.append(&mut todo);
            todo = further;
            continue;
        }
        check(fd.as_fd(), &stat, &here, role)?;
        open.push(fd);
        at = here;
    }
    let last = open.pop().expect("the root is never left");
    PrivateDir::read_write(last, at).map(Some)
}

/// Names of a path from its root or start on.
fn parts(path: &Path) -> VecDeque<OsString> {
    let named = |part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(named).collect()
}

/// Opens one part of a path, or the link that it is; none if it does not exist and is not to be made.
fn step(
    above: BorrowedFd<'_>,
    name: &OsStr,
    path: &Path,
    make: Option<u32>,
) -> Result<Option<(OwnedFd, Stat)>, StackError> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // First as a folder, which triggers an automount.
    let open = || match rustix::fs::openat(above, name, flags | OFlags::DIRECTORY, Mode::empty()) {
        Err(Errno::NOTDIR | Errno::LOOP) => rustix::fs::openat(above, name, flags, Mode::empty()),
        opened => opened,
    };
    let fd = match (open(), make) {
        (Err(Errno::NOENT), None) => return Ok(None),
        (Err(Errno::NOENT), Some(mode)) => {
            match rustix::fs::mkdirat(above, name, Mode::from_raw_mode(mode)) {
                Ok(()) | Err(Errno::EXIST) => open(),
                Err(error) => return Err(StackError::io("make the folder", path, error)),
            }
        }
        (opened, _) => opened,
    };
    let fd = fd.map_err(|e| StackError::io("open", path, e))?;
    let stat = rustix::fs::fstat(&fd).map_err(|e| StackError::io("look at", path, e))?;
    if is(&stat, FileType::Symlink) || is(&stat, FileType::Directory) {
        return Ok(Some((fd, stat)));
    }
    Err(StackError::io("open", path, Errno::NOTDIR))
}

fn is(stat: &Stat, kind: FileType) -> bool {
    FileType::from_raw_mode(stat.st_mode) == kind
}

fn refused(path: &Path, why: String) -> StackError {
    StackError::Untrusted { path: path.into(), why }
}

/// Accepts the owners whose files we act on: root and ourselves.
fn owner(stat: &Stat) -> Result<(), String> {
    let us = rustix::process::geteuid().as_raw();
    if stat.st_uid == isolation::root() || stat.st_uid == us {
        return Ok(());
    }
    Err(format!("it belongs to user {}", stat.st_uid))
}

/// Refuses files that another user owns or may change.
fn check(fd: BorrowedFd<'_>, stat: &Stat, path: &Path, role: Role) -> Result<(), StackError> {
    owner(stat).map_err(|why| refused(path, why))?;
    let sticky = stat.st_mode & 0o1000 != 0 && role == Role::Way;
    if sticky || stat.st_mode & 0o022 == 0 {
        return Ok(());
    }
    if stat.st_mode & 0o002 != 0 {
        return Err(refused(path, "every user may write to it".into()));
    }
    // A group of one: root's own, or the one of an ordinary user's own number that distributions give each of them.
    let (us, ours) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if (stat.st_gid == isolation::root() || stat.st_gid == ours && ours == us) && !has_access_list(fd) {
        return Ok(());
    }
    Err(refused(path, format!("group {} may write to it", stat.st_gid)))
}

/// True if users other than owner and group have entries. The bits of the group are then only an upper bound for those.
fn has_access_list(fd: BorrowedFd<'_>) -> bool {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let mut nothing = [0_u8; 0];
    !matches!(
        rustix::fs::getxattr(path, "system.posix_acl_access", &mut nothing[..]),
        Err(Errno::NODATA | Errno::OPNOTSUPP)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, chown, symlink},
        path::absolute,
    };

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn why(result: Result<impl Sized, StackError>) -> String {
        result.map(drop).unwrap_err().to_string()
    }

    /// Most of this takes other users.
    fn is_root() -> bool {
        let root = crate::host::is_root();
        if !root {
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                b"SKIPPED private_dir: folders of other users need root\n",
            );
        }
        root
    }

    #[test]
    fn creates_missing_folders_and_reopens_them() {
        let lab = tempfile::tempdir().unwrap();
        let wanted = lab.path().join("a/b/home");
        assert!(PrivateDir::open(&wanted).unwrap().is_none());
        let made = PrivateDir::make(&wanted).unwrap();
        assert_eq!(made.path(), absolute(&wanted).unwrap());
        let ledger = made.make_folder("ledger").unwrap();
        for folder in [wanted.join("ledger"), wanted.clone()] {
            assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
        }
        std::io::Write::write_all(&mut ledger.create(OsStr::new("entry")).unwrap(), b"text").unwrap();
        assert!(ledger.create(OsStr::new("entry")).is_err(), "never over another");
        let again = PrivateDir::open(&wanted).unwrap().unwrap().folder("ledger").unwrap().unwrap();
        assert_eq!(again.names().unwrap(), ["entry"]);
        assert_eq!(again.read(OsStr::new("entry"), 4).unwrap().unwrap(), b"text");
        assert!(why(again.read(OsStr::new("entry"), 3)).contains("larger than 3 bytes"));
        again.rename(OsStr::new("entry"), OsStr::new("other")).unwrap();
        again.remove(OsStr::new("other")).unwrap();
        again.remove(OsStr::new("other")).unwrap();
        assert!(again.names().unwrap().is_empty() && made.folder("none").unwrap().is_none());
    }

    #[test]
    fn refuses_folder_writable_by_others_anywhere_on_path() {
        let lab = tempfile::tempdir().unwrap();
        let (way, home) = (lab.path().join("way"), lab.path().join("way/home"));
        fs::create_dir_all(&home).unwrap();
        for (bits, at, refused) in [
            (0o777, &way, Some("every user may write")),
            (0o1777, &way, None),
            (0o777, &home, Some("every user may write")),
            (0o1777, &home, Some("every user may write")),
            (0o755, &home, None),
        ] {
            mode(at, bits);
            let opened = PrivateDir::open(&home);
            match refused {
                Some(words) => {
                    let why = why(opened);
                    assert!(why.contains(words) && why.contains(&at.display().to_string()), "{why}");
                }
                None => assert!(opened.unwrap().is_some(), "{bits:o} {}", at.display()),
            }
            mode(at, 0o755);
        }
        if !is_root() {
            return;
        }
        for at in [&way, &home] {
            chown(at, Some(65534), None).unwrap();
            assert!(why(PrivateDir::open(&home)).contains("belongs to user 65534"));
            chown(at, Some(0), Some(65534)).unwrap();
            mode(at, 0o775);
            assert!(why(PrivateDir::make(&home)).contains("group 65534 may write"));
            chown(at, Some(0), Some(0)).unwrap();
            assert!(PrivateDir::open(&home).unwrap().is_some(), "root's own group");
            mode(at, 0o755);
        }
    }

    #[test]
    fn links_of_others_are_not_followed() {
        let lab = tempfile::tempdir().unwrap();
        let (real, link) = (lab.path().join("real"), lab.path().join("link"));
        fs::create_dir_all(real.join("home")).unwrap();
        symlink("real/../real", &link).unwrap();
        let opened = PrivateDir::open(&link.join("home")).unwrap().unwrap();
        assert_eq!(opened.path(), fs::canonicalize(real.join("home")).unwrap());
        symlink("loop", lab.path().join("loop")).unwrap();
        assert!(PrivateDir::open(&lab.path().join("loop")).is_err());
        // A link in the place of a file in the folder is not one of ours, regardless of its maker.
        symlink(lab.path(), real.join("home/ledger")).unwrap();
        assert!(why(opened.folder("ledger")).contains("symbolic link"));
        assert!(why(opened.make_folder("ledger")).contains("symbolic link"));
        if is_root() {
            std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
            assert!(why(PrivateDir::open(&link.join("home"))).contains("belongs to user 65534"));
        }
    }

    #[test]
    fn only_regular_files_of_ours_are_opened() {
        let lab = tempfile::tempdir().unwrap();
        let at = |name: &str| lab.path().join(name);
        let home = PrivateDir::open(lab.path()).unwrap().unwrap();
        fs::write(at("precious"), "kept").unwrap();
        symlink("precious", at("link")).unwrap();
        symlink("/dev/zero", at("zero")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), FileType::Fifo, 0o600.into(), 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        for name in ["link", "zero", "fifo", "socket", "folder"] {
            for flags in [OFlags::RDONLY, OFlags::RDWR, OFlags::WRONLY] {
                assert!(home.file(name, flags).is_err(), "{name}");
            }
            assert!(home.checked(name).is_err() && home.read(OsStr::new(name), 9).is_err(), "{name}");
        }
        mode(&at("precious"), 0o666);
        assert!(why(home.checked("precious")).contains("every user may write"));
        mode(&at("precious"), 0o644);
        assert_eq!(home.checked("precious").unwrap().unwrap(), home.path().join("precious"));
        assert_eq!(home.checked("nothing").unwrap(), None);
        if is_root() {
            chown(at("precious"), Some(65534), None).unwrap();
            assert!(why(home.checked("precious")).contains("belongs to user 65534"));
        }
    }
}
