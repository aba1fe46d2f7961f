//! A folder made in a directory of the user's, for one run.
//!
//! Others may be able to write to that directory, and rename its entries. So it is opened once, the folder is made and
//! opened by that descriptor, and everything else uses the folder's descriptor: wherever its name leads later, nothing
//! is written or deleted elsewhere. As root the folder is root's and closed to all others, so that no other user can put
//! a link into it; the program of a run sees its own folder only, which is bound elsewhere.

use crate::{
    delete::{self, Identity},
    error::StackError,
    host,
    ledger::{Ledger, LedgerEntry, Undo},
    named::{FOLDER_PREFIX, OwnFolder},
};
use rustix::{
    fs::{Dir, Mode, OFlags, ResolveFlags},
    io::Errno,
};
use std::{
    ffi::OsString,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::{Path, PathBuf},
};

/// A folder made by fstrial, and its deletion in case we die.
#[must_use]
#[derive(Debug)]
pub(crate) struct Folder {
    parent: OwnedFd,
    name: OsString,
    /// Its path, with the links of the directory resolved.
    path: PathBuf,
    opened: OwnedFd,
    identity: Identity,
    written: LedgerEntry,
}

/// Opens a directory of the user's, and returns its path.
pub(crate) fn open_directory(path: &Path) -> Result<(OwnedFd, PathBuf), StackError> {
    let failed = |e: Errno| StackError::io("open the directory", path, e);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
    // Not by our process number: in a private process namespace that is another process's.
    let link = format!("/proc/self/fd/{}", opened.as_raw_fd());
    let real = std::fs::read_link(&link).map_err(|e| StackError::io("find the directory", path, e))?;
    Ok((opened, real))
}

impl Folder {
    /// Makes one in a directory that is open.
    pub(crate) fn make(parent: OwnedFd, place: &Path, ledger: &Ledger) -> Result<Self, StackError> {
        let name = OsString::from(format!("{FOLDER_PREFIX}{}", host::unique_name()));
        let path = place.join(&name);
        let own = OwnFolder::try_from(path.clone()).expect("a folder of ours has a name of ours");
        let announced = ledger.write(Undo::RemoveFolder { path: own.clone(), made: None })?;
        let mode = if host::is_root() { Mode::RWXU } else { Mode::RWXU | Mode::RWXG | Mode::RWXO };
        if let Err(error) = rustix::fs::mkdirat(&parent, &name, mode) {
            announced.strike_out()?;
            return Err(StackError::io("make the folder", path, error));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat2(&parent, &name, flags, Mode::empty(), ResolveFlags::NO_XDEV)
            .or_else(|error| match error {
                // Some sandboxes do not know the call.
                Errno::NOSYS | Errno::PERM => rustix::fs::openat(&parent, &name, flags, Mode::empty()),
                error => Err(error),
            })
            .map_err(|e| StackError::io("open the new folder", &path, e))?;
        if host::is_root() {
            take(&opened, &path)?;
        }
        let identity = Identity::of(opened.as_fd())?;
        let written = ledger.write(Undo::RemoveFolder { path: own, made: Some(identity) })?;
        announced.strike_out()?;
        Ok(Self { parent, name, path, opened, identity, written })
    }

    /// The path by which this process and the programs that it starts as the same user reach it. As root it leads to the
    /// very folder; an ordinary user's programs may be fenced in, and see no other process's descriptors.
    pub(crate) fn path(&self) -> PathBuf {
        if host::is_root() { host::path_of_descriptor(self.opened.as_fd()) } else { self.path.clone() }
    }

    /// Its path, as the user finds it.
    pub(crate) fn place(&self) -> &Path {
        &self.path
    }

    /// Deletes it with everything in it.
    pub(crate) fn delete(self) -> Result<(), StackError> {
        drop(self.opened);
        delete::tree_that_is(self.identity, self.parent.as_fd(), &self.name, &|| false)?;
        self.written.strike_out()
    }
}

/// Makes a folder root's, closed to all others. It may have been replaced after it was made: its entries are then
/// foreign, and descriptors already open on it are useless from here on.
fn take(folder: &OwnedFd, path: &Path) -> Result<(), StackError> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    // Whether that was done is seen below: some filesystems keep neither owners nor modes.
    let _ = rustix::fs::fchown(folder, Some(user), Some(group));
    let _ = rustix::fs::fchmod(folder, Mode::RWXU);
    let failed = |e: Errno| StackError::io("look at the new folder", path, e);
    let stat = rustix::fs::fstat(folder).map_err(failed)?;
    let refused = |reason: &str, hint: &str| StackError::Refused {
        device: path.to_owned(),
        reason: reason.into(),
        hint: hint.into(),
    };
    if stat.st_uid != user.as_raw() {
        return Err(refused(
            "the filesystem assigns root's files to another user, who could redirect root from there",
            "run it without root, as the user to whom the directory belongs",
        ));
    }
    let mut entries = Dir::read_from(folder).map_err(failed)?;
    let is_foreign = |name: &std::ffi::CStr| ![c".", c".."].contains(&name);
    if entries.any(|entry| entry.is_ok_and(|entry| is_foreign(entry.file_name()))) {
        return Err(refused(
            "another folder was put in the place of the one that was just made",
            "use a directory that only root may write to, or run it without root",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    fn opened(path: &Path) -> OwnedFd {
        open_directory(path).unwrap().0
    }

    #[test]
    fn root_takes_over_or_refuses_replaced_folder() {
        if !host::is_root() {
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                b"SKIPPED a_folder_in_the_place: needs root\n",
            );
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let theirs = home.path().join("theirs");
        std::fs::create_dir(&theirs).unwrap();
        std::fs::set_permissions(&theirs, std::fs::Permissions::from_mode(0o777)).unwrap();
        std::os::unix::fs::chown(&theirs, Some(65534), Some(65534)).unwrap();
        take(&opened(&theirs), &theirs).unwrap();
        let result = std::fs::metadata(&theirs).unwrap();
        assert_eq!((result.uid(), result.mode() & 0o7777), (0, 0o700));
        std::os::unix::fs::symlink("/etc", theirs.join("link")).unwrap();
        let refused = take(&opened(&theirs), &theirs).unwrap_err().to_string();
        assert!(refused.contains("another folder was put"), "{refused}");
    }

    #[test]
    fn symlink_at_folder_name_is_not_followed() {
        let home = tempfile::tempdir().unwrap();
        let (directory, elsewhere) = (home.path().join("directory"), home.path().join("elsewhere"));
        std::fs::create_dir(&directory).unwrap();
        std::fs::create_dir(&elsewhere).unwrap();
        std::fs::write(elsewhere.join("precious"), "").unwrap();
        let ledger = Ledger::open(&home.path().join("ledger"), std::process::id()).unwrap();
        let (parent, place) = open_directory(&directory).unwrap();
        let folder = Folder::make(parent, &place, &ledger).unwrap();
        let name = place.join(&folder.name);
        std::fs::rename(&name, directory.join("away")).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &name).unwrap();
        if host::is_root() {
            std::fs::write(folder.path().join("file"), "").unwrap();
            assert!(directory.join("away/file").exists());
        }
        let refused = folder.delete().unwrap_err().to_string();
        assert!(refused.contains("no longer the folder that was made"), "{refused}");
        assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 1);
    }
}
