//! A file that is there whole or not at all: written under another name beside it, synced, then renamed. What is there
//! already is not overwritten unless that is asked for.

use crate::error::ExpectedError;
use rustix::fs::{CWD, RenameFlags};
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// A file being written.
#[derive(Debug)]
pub(crate) struct OutFile {
    path: PathBuf,
    /// Its name until it is whole.
    part: PathBuf,
    force: bool,
}

impl OutFile {
    /// Claims a name beside the file that is to be.
    ///
    /// # Errors
    /// It is there already and must not be overwritten, or it has no name.
    pub(crate) fn new(path: &Path, force: bool) -> Result<Self, ExpectedError> {
        if path.symlink_metadata().is_ok() {
            if !force {
                return Err(there_already(path));
            }
            if path.is_dir() {
                return Err(ExpectedError::usage(
                    format!("{} is a folder", path.display()),
                    "name a file: --out FILE",
                ));
            }
        }
        let name = path.file_name().ok_or_else(|| {
            ExpectedError::usage(format!("{} names no file", path.display()), "name a file: --out FILE")
        })?;
        let mut part = std::ffi::OsString::from(".");
        part.push(name);
        part.push(format!(".{}.part", std::process::id()));
        Ok(Self { path: path.to_owned(), part: path.with_file_name(part), force })
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
        File::create_new(&self.part).map_err(self.failed())
    }

    /// Gives the file its name, once everything is in it.
    pub(crate) fn finish(self) -> Result<(), ExpectedError> {
        let failed = self.failed();
        File::open(&self.part).and_then(|file| file.sync_all()).map_err(&failed)?;
        if self.force {
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
        // Gone already if it has its name.
        let _ = fs::remove_file(&self.part);
    }
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
        assert!(OutFile::new(folder.path(), true).is_err());
    }
}
