//! The one way to write a user-named file: whole or not at all, without a name (or under another one next to it, if the
//! filesystem has no nameless files), synced, then named. An existing file is not replaced unless requested, and only a
//! regular one ever is: no link is followed, no device written to. `-` is standard output.
//!
//! The folder is opened once and everything is done from there, so that another user who may write in it, or above it,
//! cannot redirect us meanwhile.

use super::in_file::words_of;
use fstrial_report::stdout;
use fstrial_run::error::ExpectedError;
use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags},
    io::Errno,
};
use std::{
    cell::OnceCell,
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Write},
    os::{fd::AsRawFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
};

/// Help of `--force`, the same for all commands.
pub(crate) const FORCE: &str = "Replace an existing regular file";

/// True if a name stands for standard output.
pub(crate) fn is_standard_output(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Writes a file of which all is known, or standard output.
///
/// # Errors
/// It is there already and must not be replaced; it cannot be written.
pub(crate) fn write(path: &Path, contents: &[u8], force: bool) -> Result<(), ExpectedError> {
    if is_standard_output(path) {
        stdout::write(contents);
        return Ok(());
    }
    Folder::of(path)?.write(path, contents, force)
}

/// Writes a page, and reports its path; or to standard output.
///
/// # Errors
/// As [`write`].
pub(crate) fn write_page(path: &Path, page: &str, force: bool) -> Result<(), ExpectedError> {
    write(path, page.as_bytes(), force)?;
    if !is_standard_output(path) {
        super::print(&format!("{}\n", path.display()));
    }
    Ok(())
}

/// Refuses the same as [`write`], and writes nothing.
///
/// # Errors
/// As there, as far as it can be known before.
pub(crate) fn check(path: &Path, force: bool) -> Result<(), ExpectedError> {
    if is_standard_output(path) {
        return Ok(());
    }
    let folder = Folder::of(path)?;
    folder.check(path, name_of(path)?, force)
}

/// A folder in which files are written.
#[derive(Debug)]
pub(crate) struct Folder(OwnedFd);

impl Folder {
    /// The folder that a file is to be in.
    fn of(path: &Path) -> Result<Self, ExpectedError> {
        name_of(path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        // Where the user's own words lead through a link, that is meant.
        let opened = rustix::fs::openat(CWD, folder.unwrap_or(Path::new(".")), FOLDER, Mode::empty());
        Ok(Self(opened.map_err(|error| failed(path)(error.into()))?))
    }

    /// A folder named by the user; a missing one is made, with its parents.
    pub(crate) fn make(path: &Path) -> Result<Self, ExpectedError> {
        let make = || {
            std::fs::create_dir_all(path)?;
            Ok(Self(rustix::fs::openat(CWD, path, FOLDER, Mode::empty())?))
        };
        make().map_err(not_made(path))
    }

    /// A folder in it, made if missing; a link is not followed.
    pub(crate) fn within(&self, name: &str, path: &Path) -> Result<Self, ExpectedError> {
        let make = || {
            match rustix::fs::mkdirat(&self.0, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            Ok(Self(rustix::fs::openat(&self.0, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?))
        };
        make().map_err(not_made(path))
    }

    /// Writes a file in it. `path` is the whole name, for errors.
    pub(crate) fn write(self, path: &Path, contents: &[u8], force: bool) -> Result<(), ExpectedError> {
        let out = OutFile::within(self, path, force)?;
        out.create()?.write_all(contents).map_err(out.failed())?;
        out.finish()
    }

    /// Refuses an existing file that must not be replaced: any without `force`, and one that is not regular with it.
    fn check(&self, path: &Path, name: &OsStr, force: bool) -> Result<(), ExpectedError> {
        let kind = match rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(result) => FileType::from_raw_mode(result.st_mode),
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(failed(path)(error.into())),
        };
        match kind {
            FileType::RegularFile if force => Ok(()),
            FileType::RegularFile => Err(there_already(path)),
            other => Err(ExpectedError::usage(
                format!("{} is {} and was not touched", path.display(), words_of(other)),
                "name a regular file, one that is not there yet, or - for standard output",
            )),
        }
    }
}

/// Names of open files.
const DESCRIPTORS: &str = "/proc/self/fd";
/// Flags for opening folders: to work from, not to be listed.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

#[derive(Debug)]
pub(crate) struct OutFile {
    folder: Folder,
    path: PathBuf,
    name: OsString,
    /// Its name until it is whole.
    part: OsString,
    /// The file made under that name.
    made: OnceCell<File>,
    force: bool,
}

impl OutFile {
    /// Claims a name next to the file that is to be.
    ///
    /// # Errors
    /// It is there already and must not be replaced, it is something else than a regular file, or it has no name.
    pub(crate) fn new(path: &Path, force: bool) -> Result<Self, ExpectedError> {
        Self::within(Folder::of(path)?, path, force)
    }

    fn within(folder: Folder, path: &Path, force: bool) -> Result<Self, ExpectedError> {
        let name = name_of(path)?.to_owned();
        folder.check(path, &name, force)?;
        let mut part = OsString::from(".");
        part.push(&name);
        part.push(format!(".{}.part", std::process::id()));
        Ok(Self { folder, path: path.to_owned(), name, part, made: OnceCell::new(), force })
    }

    /// Its path, as the user named it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// An error about the file.
    pub(crate) fn failed(&self) -> impl Fn(io::Error) -> ExpectedError + use<> {
        failed(&self.path)
    }

    /// Makes the file, without a name: when this process is killed, it goes.
    pub(crate) fn create(&self) -> Result<File, ExpectedError> {
        let make = || {
            let mode = Mode::from_raw_mode(0o666);
            let nameless = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
            let named = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            // Named through `/proc` it will be.
            let made = match Path::new(DESCRIPTORS).exists() {
                true => rustix::fs::openat(&self.folder.0, ".", nameless, mode),
                false => Err(Errno::OPNOTSUPP),
            };
            let made = made.or_else(|_| rustix::fs::openat(&self.folder.0, &self.part, named, mode))?;
            let made = File::from(made);
            let file = made.try_clone()?;
            self.made.set(made).expect("a file is made once");
            Ok(file)
        };
        make().map_err(self.failed())
    }

    /// Gives the file its name, once everything is in it.
    pub(crate) fn finish(self) -> Result<(), ExpectedError> {
        let folder = &self.folder.0;
        let made = self.made.get().expect("a file is made before it is finished");
        made.sync_all().map_err(self.failed())?;
        let is_nameless = made.metadata().map_err(self.failed())?.nlink() == 0;
        let replaces = self.force;
        if is_nameless {
            let descriptor = format!("{DESCRIPTORS}/{}", made.as_raw_fd());
            let name = if replaces { &self.part } else { &self.name };
            let named = rustix::fs::linkat(CWD, descriptor, folder, name, AtFlags::SYMLINK_FOLLOW);
            match named {
                Ok(()) if replaces => {}
                Ok(()) => return Ok(()),
                Err(Errno::EXIST) if !replaces => return Err(there_already(&self.path)),
                Err(error) => return Err(self.failed()(error.into())),
            }
        }
        if self.force {
            // Something else may have come there meanwhile.
            self.folder.check(&self.path, &self.name, true)?;
            let renamed = rustix::fs::renameat(folder, &self.part, folder, &self.name);
            return renamed.map_err(|error| self.failed()(error.into()));
        }
        match rustix::fs::renameat_with(folder, &self.part, folder, &self.name, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => Err(there_already(&self.path)),
            // Not every filesystem can refuse on its own.
            Err(Errno::INVAL | Errno::NOSYS) => {
                self.folder.check(&self.path, &self.name, false)?;
                let renamed = rustix::fs::renameat(folder, &self.part, folder, &self.name);
                renamed.map_err(|error| self.failed()(error.into()))
            }
            Err(error) => Err(self.failed()(error.into())),
        }
    }
}

impl Drop for OutFile {
    fn drop(&mut self) {
        // Another process's file of this name stays; ours is gone already if it has its name.
        let Some(made) = self.made.get() else { return };
        let there = rustix::fs::statat(&self.folder.0, &self.part, AtFlags::SYMLINK_NOFOLLOW);
        let is_ours = |there: rustix::fs::Stat| made.metadata().is_ok_and(|ours| ours.ino() == there.st_ino);
        if there.is_ok_and(is_ours) {
            let _ = rustix::fs::unlinkat(&self.folder.0, &self.part, AtFlags::empty());
        }
    }
}

fn name_of(path: &Path) -> Result<&OsStr, ExpectedError> {
    path.file_name().ok_or_else(|| {
        ExpectedError::usage(
            format!("{} names no file", path.display()),
            "name a file, or - for standard output",
        )
    })
}

fn failed(path: &Path) -> impl Fn(io::Error) -> ExpectedError + use<> {
    let path = path.to_owned();
    move |source| ExpectedError::File { what: "write", path: path.clone(), source }
}

fn not_made(path: &Path) -> impl Fn(io::Error) -> ExpectedError {
    move |source| ExpectedError::File { what: "make the folder", path: path.to_owned(), source }
}

fn there_already(path: &Path) -> ExpectedError {
    ExpectedError::usage(
        format!("{} exists already and was not changed", path.display()),
        "name another file, or replace it with --force",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn names(folder: &Path) -> Vec<String> {
        let names =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn output_file_is_complete_or_absent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        let out = OutFile::new(&path, false).unwrap();
        out.create().unwrap().write_all(b"half").unwrap();
        drop(out);
        assert_eq!(names(folder.path()), Vec::<String>::new(), "what was not finished is gone");
        let out = OutFile::new(&path, false).unwrap();
        out.create().unwrap().write_all(b"whole").unwrap();
        // Another process was faster: its file stays.
        fs::write(&path, "theirs").unwrap();
        let error = out.finish().unwrap_err();
        assert!(error.to_string().contains("exists already"), "{error}");
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), names(folder.path()).len()), ("theirs", 1));
        assert!(OutFile::new(&path, false).unwrap_err().hint().unwrap().contains("--force"));
        let out = OutFile::new(&path, true).unwrap();
        out.create().unwrap().write_all(b"ours").unwrap();
        out.finish().unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), names(folder.path()).len()), ("ours", 1));
    }

    #[test]
    fn only_regular_files_are_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("folder")).unwrap();
        fs::write(at("file"), "kept").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
        rustix::fs::mknodat(CWD, at("fifo"), FileType::Fifo, 0o600.into(), 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        let before = names(folder.path());
        for (path, what) in [
            (at("folder"), "a folder"),
            (at("link"), "a symbolic link"),
            (at("dangling"), "a symbolic link"),
            (at("fifo"), "a FIFO"),
            (at("socket"), "a socket"),
            ("/dev/null".into(), "a device"),
        ] {
            for force in [false, true] {
                let error = write(&path, b"new", force).unwrap_err().to_string();
                assert_eq!(error, format!("{} is {what} and was not touched", path.display()));
            }
        }
        assert_eq!((names(folder.path()), fs::read_to_string(at("file")).unwrap()), (before, "kept".into()));
        // One that came meanwhile stays, too.
        let out = OutFile::new(&at("new"), true).unwrap();
        out.create().unwrap();
        std::os::unix::fs::symlink("file", at("new")).unwrap();
        assert!(out.finish().unwrap_err().to_string().contains("a symbolic link"));
        assert!(at("new").is_symlink());
    }

    #[test]
    fn unfinished_output_is_unnamed_and_foreign_part_survives() {
        let folder = tempfile::tempdir().unwrap();
        let out = OutFile::new(&folder.path().join("a"), true).unwrap();
        out.create().unwrap().write_all(b"half").unwrap();
        assert_eq!(names(folder.path()), Vec::<String>::new(), "nothing is left of a killed process");
        let part = folder.path().join(&out.part);
        fs::write(&part, "theirs").unwrap();
        out.finish().unwrap_err();
        assert_eq!(fs::read_to_string(part).unwrap(), "theirs");
    }
}
