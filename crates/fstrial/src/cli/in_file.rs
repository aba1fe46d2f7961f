//! Files that a user names to be read: opened once, regular or a pipe, and never read beyond a limit.
//!
//! Opening a FIFO waits for a writer forever, opening a device may do something, and `/dev/zero` has no end. So only
//! regular files are opened by name; `-` is standard input, and the nameless pipe of a shell's `<(…)` is taken too.

use fstrial_model::{trial::MAX_FILE_BYTES, units::Bytes};
use fstrial_run::error::ExpectedError;
use rustix::{
    fs::{FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
};
use std::{
    fs::{File, Metadata},
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

/// Most that is read of a file that people write: a trial, a claim, a job, a model.
const TEXT: Bytes = Bytes(MAX_FILE_BYTES as u64);
/// Most that is read of a file of figures.
const DATA: Bytes = Bytes::mib(64);
/// The longest line of such a file.
const LINE: Bytes = Bytes::kib(64);
/// The kernel's magic of the filesystem of nameless pipes (`PIPEFS_MAGIC`).
const PIPES: u64 = 0x5049_5045;

/// Reads a text file that people write.
///
/// # Errors
/// It cannot be read, is something else than a file, is too large, or is not UTF-8.
pub(crate) fn text(path: &Path) -> Result<String, ExpectedError> {
    as_text(path, Lines { longest: u64::MAX, ..open(path, TEXT)? })
}

/// Reads a file of figures, whose lines are short.
///
/// # Errors
/// It cannot be read, is something else than a file, is too large or has too long a line, or is not UTF-8.
pub(crate) fn figures(path: &Path) -> Result<String, ExpectedError> {
    as_text(path, open(path, DATA)?)
}

/// Reads a file that a program has written, such as a document in JSON.
///
/// # Errors
/// It cannot be read, is something else than a file, is too large, or is not UTF-8.
pub(crate) fn document(path: &Path) -> Result<String, ExpectedError> {
    as_text(path, Lines { longest: u64::MAX, ..open(path, DATA)? })
}

fn as_text(path: &Path, mut source: Lines) -> Result<String, ExpectedError> {
    let mut bytes = Vec::new();
    source.read_to_end(&mut bytes).map_err(|error| failed(path, error))?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
        ExpectedError::usage(
            format!("{} is not text: line {line} holds bytes that are not UTF-8", path.display()),
            "is this the right file?",
        )
    })
}

/// Reads a text file in the folder of another one or below, by its path from there. The path may be foreign: links are
/// not followed, not even inside, and only ordinary files are opened.
///
/// # Errors
/// It cannot be read; with a message that reveals nothing about its content.
pub(crate) fn beside(file: &Path, path: &str) -> Result<String, String> {
    let text = |file: File| {
        let mut text = String::new();
        file.take(TEXT.0 + 1).read_to_string(&mut text)?;
        Ok(text)
    };
    read_beside(file, path.as_ref(), text)
}

/// The same with another way of reading.
///
/// # Errors
/// As [`beside`].
pub(crate) fn read_beside<T>(
    file: &Path,
    path: &Path,
    read: impl FnOnce(File) -> io::Result<T>,
) -> Result<T, String> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let open = |name: &Path, flags| {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let folder = File::open(folder)?;
        Ok::<_, io::Error>(File::from(rustix::fs::openat2(&folder, name, flags, Mode::empty(), resolve)?))
    };
    let opened = || {
        // First as a place only: opening a device may do something.
        let place = open(path, OFlags::PATH | OFlags::CLOEXEC)?;
        if !place.metadata()?.is_file() {
            return Err(io::Error::other("it is not an ordinary file"));
        }
        let file = open(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not an ordinary file"));
        }
        read(file)
    };
    let path = path.display();
    opened().map_err(|error| match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::LOOP) => format!("`{path}` is not read: links are not followed"),
        Some(Errno::XDEV) => {
            format!("`{path}` is not read: it leads out of the folder of {}", file.display())
        }
        _ => format!("`{path}` is not read: {error}"),
    })
}

/// Opens a file of lines of which at most this much is read.
///
/// # Errors
/// It cannot be opened, or is something else than a file.
fn open(path: &Path, most: Bytes) -> Result<Lines, ExpectedError> {
    let source: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => Box::new(open_file(path)?),
    };
    Ok(Lines { source, left: most.0, most, line: 0, longest: LINE.0 })
}

/// The error of a failed read.
fn failed(path: &Path, source: io::Error) -> ExpectedError {
    match source.get_ref().and_then(|error| error.downcast_ref::<TooMuch>()) {
        Some(TooMuch(words)) => too_much(path, words),
        None => ExpectedError::File { what: "read", path: path.to_owned(), source },
    }
}

/// The error of an exceeded limit.
fn too_much(path: &Path, words: &str) -> ExpectedError {
    ExpectedError::usage(
        format!("{} {words}", path.display()),
        "check that this is the right file, and remove unneeded parts",
    )
}

/// A limit was reached.
#[derive(Debug, thiserror::Error)]
#[error("it {0}")]
struct TooMuch(String);

/// A source of lines that ends with an error if it, or one of its lines, is too long.
pub(crate) struct Lines {
    source: Box<dyn Read>,
    left: u64,
    most: Bytes,
    /// Bytes since the last end of a line.
    line: u64,
    longest: u64,
}

impl Read for Lines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            io::Error::other(TooMuch(format!("is larger than {}, which is the limit", self.most)))
        })?;
        for piece in buffer[..read].split_inclusive(|byte| *byte == b'\n') {
            self.line += piece.len() as u64;
            if self.line > self.longest {
                return Err(io::Error::other(TooMuch(format!("has a line of more than {LINE}"))));
            }
            if piece.ends_with(b"\n") {
                self.line = 0;
            }
        }
        Ok(read)
    }
}

/// Opens a regular file or a pipe without a name, and checks again once it is open.
fn open_file(path: &Path) -> Result<File, ExpectedError> {
    let failed = |source| ExpectedError::File { what: "read", path: path.to_owned(), source };
    check(path, &path.metadata().map_err(failed)?, || rustix::fs::statfs(path))?;
    // A file that appeared there meanwhile must not make this wait.
    let waiting = OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(waiting.bits()).expect("flags are small");
    let file = File::options().read(true).custom_flags(flags).open(path).map_err(failed)?;
    check(path, &file.metadata().map_err(failed)?, || rustix::fs::fstatfs(&file))?;
    rustix::fs::fcntl_setfl(&file, OFlags::empty()).map_err(|error| failed(error.into()))?;
    Ok(file)
}

/// Refuses anything but a regular file or a pipe without a name.
fn check(
    path: &Path,
    metadata: &Metadata,
    filesystem: impl FnOnce() -> rustix::io::Result<rustix::fs::StatFs>,
) -> Result<(), ExpectedError> {
    let kind = FileType::from_raw_mode(metadata.mode());
    #[expect(clippy::cast_sign_loss, reason = "a pattern of bits")]
    let is_pipe = || filesystem().is_ok_and(|metadata| metadata.f_type as u64 == PIPES);
    if kind == FileType::RegularFile || kind == FileType::Fifo && is_pipe() {
        return Ok(());
    }
    Err(ExpectedError::usage(
        format!("{} is {} and was not opened", path.display(), words_of(kind)),
        "name a regular file; - is standard input, for piped data",
    ))
}

/// The kind of a file that is not regular.
pub(crate) fn words_of(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::RegularFile => "a file",
        _ => "a device",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::fd::AsRawFd};

    fn error(path: &Path) -> String {
        text(path).unwrap_err().to_string()
    }

    #[test]
    fn only_files_and_pipes_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, 0o600.into(), 0).unwrap();
        assert_eq!(error(&fifo), format!("{} is a FIFO and was not opened", fifo.display()));
        assert_eq!(
            error(folder.path()),
            format!("{} is a folder and was not opened", folder.path().display())
        );
        assert_eq!(error("/dev/zero".as_ref()), "/dev/zero is a device and was not opened");
        let (reader, mut writer) = io::pipe().unwrap();
        io::Write::write_all(&mut writer, b"piped").unwrap();
        drop(writer);
        assert_eq!(text(format!("/dev/fd/{}", reader.as_raw_fd()).as_ref()).unwrap(), "piped");
    }

    #[test]
    fn file_over_size_limit_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large");
        File::create(&path).unwrap().set_len(1 << 30).unwrap();
        assert!(error(&path).ends_with("large is larger than 1MiB, which is the limit"), "{}", error(&path));
        fs::write(&path, vec![b'#'; MAX_FILE_BYTES]).unwrap();
        assert_eq!(text(&path).unwrap().len(), MAX_FILE_BYTES);
    }

    #[test]
    fn reads_only_ordinary_files_beside_job() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let job = at("jobs/job.fio");
        fs::create_dir_all(at("jobs/sub")).unwrap();
        fs::write(at("jobs/sub/part"), "bs=4k\n").unwrap();
        fs::write(at("secret"), "password\n").unwrap();
        assert_eq!(beside(&job, "sub/part").as_deref(), Ok("bs=4k\n"));
        std::os::unix::fs::symlink(at("secret"), at("jobs/link")).unwrap();
        std::os::unix::fs::symlink(folder.path(), at("jobs/up")).unwrap();
        std::os::unix::fs::symlink("sub/part", at("jobs/inside")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("jobs/fifo"), FileType::Fifo, 0o600.into(), 0).unwrap();
        fs::write(at("jobs/bytes"), [0xff, 0xfe]).unwrap();
        for (path, why) in [
            ("link", "links are not followed"),
            ("up/secret", "links are not followed"),
            ("inside", "links are not followed"),
            ("../secret", "leads out of the folder"),
            ("/etc/passwd", "leads out of the folder"),
            ("fifo", "not an ordinary file"),
            ("sub", "not an ordinary file"),
            ("missing", "No such file"),
            ("bytes", "UTF-8"),
        ] {
            let refused = beside(&job, path).unwrap_err();
            assert!(refused.starts_with(&format!("`{path}` is not read: ")), "{refused}");
            assert!(refused.contains(why) && !refused.contains("password"), "{refused}");
        }
        // The excess is cut, and refused by the caller.
        File::create(at("jobs/large")).unwrap().set_len(1 << 30).unwrap();
        assert_eq!(beside(&job, "large").unwrap().len(), MAX_FILE_BYTES + 1);
    }

    #[test]
    fn lines_of_figures_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let read = |text: String| {
            fs::write(&path, text).unwrap();
            let mut all = Vec::new();
            open(&path, Bytes::mib(1)).unwrap().read_to_end(&mut all).map_err(|error| error.to_string())
        };
        let line = "x".repeat((64 << 10) - 1) + "\n";
        assert_eq!(read(line.repeat(3)), Ok(3 * line.len()));
        assert_eq!(read(format!("{line}x{line}")), Err("it has a line of more than 64KiB".into()));
        assert_eq!(read("1\n".repeat(1 << 20)), Err("it is larger than 1MiB, which is the limit".into()));
    }
}
