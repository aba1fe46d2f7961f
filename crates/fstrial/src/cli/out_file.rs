//! A file that is there whole or not at all: written under another name beside it, synced, then renamed. What is there
//! already is not overwritten unless that is asked for, and only regular files ever are.

use crate::error::ExpectedError;
use fstrial_model::planted::{Fault, planted};
use rustix::fs::{CWD, RenameFlags};
use std::{
    cell::Cell,
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

/// A file being written.
#[derive(Debug)]
pub(crate) struct OutFile {
    path: PathBuf,
    /// Its name until it is whole.
    part: PathBuf,
    /// Whether the file of that name is this one's.
    made: Cell<bool>,
    force: bool,
}

impl OutFile {
    /// Claims a name beside the file that is to be.
    ///
    /// # Errors
    /// It is there already and must not be overwritten, it is something else than a regular file, or it has no name.
    pub(crate) fn new(path: &Path, force: bool) -> Result<Self, ExpectedError> {
        check(path, force)?;
        let name = path.file_name().ok_or_else(|| {
            ExpectedError::usage(format!("{} names no file", path.display()), "name a file: --out FILE")
        })?;
        let mut part = std::ffi::OsString::from(".");
        part.push(name);
        part.push(format!(".{}.part", std::process::id()));
        Ok(Self { path: path.to_owned(), part: path.with_file_name(part), made: Cell::new(false), force })
    }

    /// The name it has until it is whole.
    pub(crate) fn part(&self) -> &Path {
        &self.part
    }

    /// An error about the file.
    pub(crate) fn failed(&self) -> impl Fn(io::Error) -> ExpectedError + use<> {
        let path = self.path.clone();
        move |source| ExpectedError::File { what: "write", path: path.clone(), source }
    }

    /// Makes the file under its name of now.
    pub(crate) fn create(&self) -> Result<File, ExpectedError> {
        let file = File::create_new(&self.part).map_err(self.failed())?;
        self.made.set(true);
        Ok(file)
    }

    /// Gives the file its name, once everything is in it.
    pub(crate) fn finish(self) -> Result<(), ExpectedError> {
        let failed = self.failed();
        File::open(&self.part).and_then(|file| file.sync_all()).map_err(&failed)?;
        if self.force || planted(Fault::Overwrite) {
            // Something else may have come there meanwhile.
            check(&self.path, true)?;
            return fs::rename(&self.part, &self.path).map_err(failed);
        }
        match rustix::fs::renameat_with(CWD, &self.part, CWD, &self.path, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::EXIST) => Err(there_already(&self.path)),
            // Not every filesystem can refuse by itself.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) if !self.path.exists() => {
                fs::rename(&self.part, &self.path).map_err(failed)
            }
            Err(error) => Err(failed(error.into())),
        }
    }
}

/// Writes a file of which all is known.
///
/// # Errors
/// It is there already and must not be overwritten; it cannot be written.
pub(crate) fn write(path: &Path, contents: &[u8], force: bool) -> Result<(), ExpectedError> {
    let out = OutFile::new(path, force)?;
    out.create()?.write_all(contents).map_err(out.failed())?;
    out.finish()
}

impl Drop for OutFile {
    fn drop(&mut self) {
        // Somebody else's file of this name stays; ours is gone already if it has its name.
        if self.made.get() {
            let _ = fs::remove_file(&self.part);
        }
    }
}

/// Refuses what is there and must not be overwritten: anything without `force`, and what is no regular file with it, for
/// renaming would put a file in the place of a device or of a link instead of writing to it.
fn check(path: &Path, force: bool) -> Result<(), ExpectedError> {
    // What cannot even be looked at cannot be written beside, and that is said then.
    let Ok(there) = path.symlink_metadata() else { return Ok(()) };
    let force = force || planted(Fault::Overwrite);
    let kind = there.file_type();
    let what = match () {
        () if kind.is_file() && force => return Ok(()),
        () if kind.is_file() => return Err(there_already(path)),
        () if kind.is_dir() => "a folder",
        () if kind.is_symlink() => "a symbolic link",
        () if kind.is_fifo() => "a FIFO",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    Err(ExpectedError::usage(
        format!("{} is {what} and was not touched", path.display()),
        "name a regular file, or one that is not there yet: --out FILE",
    ))
}

fn there_already(path: &Path) -> ExpectedError {
    ExpectedError::usage(
        format!("{} is there already and was not touched", path.display()),
        "name another file, or overwrite it with --force",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let names =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_there_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        let out = OutFile::new(&path, false).unwrap();
        out.create().unwrap().write_all(b"half").unwrap();
        drop(out);
        assert_eq!(names(folder.path()), Vec::<String>::new(), "what was not finished is gone");
        let out = OutFile::new(&path, false).unwrap();
        out.create().unwrap().write_all(b"whole").unwrap();
        // Somebody else was faster: theirs stays.
        fs::write(&path, "theirs").unwrap();
        let error = out.finish().unwrap_err();
        assert!(error.to_string().contains("there already"), "{error}");
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
        rustix::fs::mknodat(CWD, at("fifo"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
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
    fn the_part_of_somebody_else_stays() {
        let folder = tempfile::tempdir().unwrap();
        let out = OutFile::new(&folder.path().join("a"), false).unwrap();
        fs::write(out.part(), "theirs").unwrap();
        out.create().unwrap_err();
        let part = out.part().to_owned();
        drop(out);
        assert_eq!(fs::read_to_string(part).unwrap(), "theirs");
    }
}
