//! Files that commands write for people: whole or not at all, and never over somebody else's.

use crate::error::ExpectedError;
use std::{io::Write, path::Path};

/// Writes a file, by way of a temporary one beside it: a command that is killed leaves what was there. A file that is
/// there already is only replaced with `replace`.
///
/// # Errors
/// It is there already; it cannot be written.
pub(crate) fn write(path: &Path, contents: &[u8], replace: bool) -> Result<(), ExpectedError> {
    let failed = |source| ExpectedError::File { what: "write", path: path.to_owned(), source };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    file.write_all(contents).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
    // What `open` would have given it: temporary files are private.
    let mode = rustix::fs::Mode::from_raw_mode(0o666 & !umask());
    rustix::fs::fchmod(file.as_file(), mode).map_err(|error| failed(error.into()))?;
    let kept = if replace { file.persist(path) } else { file.persist_noclobber(path) };
    match kept {
        Ok(_) => Ok(()),
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Err(ExpectedError::usage(
            format!("{} is there already", path.display()),
            "name another file, or replace it with --force",
        )),
        Err(error) => Err(failed(error.error)),
    }
}

/// The bits that new files of this process do not get.
fn umask() -> u32 {
    // It can only be read by setting it.
    let mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    rustix::process::umask(mask);
    mask.as_raw_mode()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_there_stays_unless_it_is_to_be_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        write(&path, b"one", false).unwrap();
        let error = write(&path, b"two", false).unwrap_err();
        assert!(error.to_string().contains("is there already"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        write(&path, b"two", true).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o600, 0o600);
        let nowhere = write(&folder.path().join("none/page.html"), b"", true).unwrap_err();
        assert!(nowhere.to_string().contains("none/page.html"), "{nowhere}");
    }
}
