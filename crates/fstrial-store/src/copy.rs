//! Stores of others, read through a copy: SQLite never sees their folder.
//!
//! Opening a file by its name, SQLite makes a `-wal` and a `-shm` file next to it, writes to existing ones, and gives
//! them to the owner of the store. In a folder in which others may put links that would touch other files. So the store
//! and its log are opened here read-only, and copied into a file without a name; the log's pages are put in their
//! places (<https://www.sqlite.org/fileformat2.html#walformat>).

use crate::{StoreError, error::Fault, folder};
use rusqlite::{Connection, OpenFlags};
use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, SeekFrom, Stat, fstat, openat, seek, statat},
    io::Errno,
};
use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read},
    os::{
        fd::OwnedFd,
        unix::fs::{FileExt, OpenOptionsExt},
    },
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// The largest store that is copied: half a million runs have a quarter of it.
const MAX_BYTES: u64 = 64 << 30;
/// The largest log: SQLite restarts it at 4 MiB unless there is always a reader.
const MAX_LOG: u64 = 256 << 20;
/// Magic of every SQLite file.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// In the header: it is neither written nor read through a log.
const NO_LOG: [u8; 2] = [1, 1];
/// Time for which a copy is retried because the store was written meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at a store that is being changed.
const PAUSE: Duration = Duration::from_millis(20);
/// Bytes per copy step.
const CHUNK: usize = 1 << 20;
const FRAME_HEADER: usize = 24;
const LOG_HEADER: usize = 32;

/// A connection to a copy of a store. The store and its folder stay as they are.
///
/// # Errors
/// It is not a file or not a store, it cannot be read, or it is written all the time.
pub(crate) fn connect(path: &Path) -> Result<Connection, Fault> {
    let original = Original::open(path).map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => {
            Fault::Elsewhere(Box::new(StoreError::Io { path: path.to_owned(), source }))
        }
        _ => cannot_read(source),
    })?;
    let (file, connection) = nameless()?;
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let Some(before) = original.state().map_err(cannot_read)? else {
            thread::park_timeout(PAUSE);
            continue;
        };
        let log = original.copy_to(&file)?;
        if original.state().map_err(cannot_read)? == Some(before) {
            apply(&log, &file)?;
            file.write_all_at(&NO_LOG, 18).map_err(no_room)?;
            connection.pragma_update(None, "query_only", true)?;
            return Ok(connection);
        }
    }
    let why = "it is written all the time, or its last user was killed in a change; list its trials there, and try again";
    Err(Fault::NotAStore(why.into()))
}

/// An empty file and a connection to it that makes no other files. SQLite opens by name only: the file has one, in a
/// separate folder, for that moment.
///
/// # Errors
/// There is no room, or SQLite refuses.
pub(crate) fn nameless() -> Result<(File, Connection), Fault> {
    folder::sweep();
    let folder = folder::Named::make().map_err(no_room)?;
    let path = folder.store();
    let file =
        File::options().read(true).write(true).create_new(true).mode(0o600).open(&path).map_err(no_room)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&path, flags)?;
    folder.remove().map_err(no_room)?;
    Ok((file, connection))
}

fn cannot_read(error: io::Error) -> Fault {
    Fault::NotAStore(error.to_string())
}

/// The copy cannot be made where temporary files go.
fn no_room(source: io::Error) -> Fault {
    Fault::Elsewhere(Box::new(StoreError::NoCopy { path: std::env::temp_dir(), source }))
}

/// The files of a store of others.
struct Original {
    folder: OwnedFd,
    name: OsString,
    file: File,
}

/// State that changes with every write which a copy of the file and then its log would miss.
type State = (Vec<u8>, Option<[u64; 4]>);

impl Original {
    fn open(path: &Path) -> io::Result<Self> {
        // Where the user's own words lead through a link, that is meant; SQLite finds the log next to the file itself.
        let path = path.canonicalize()?;
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::other("it is a folder"));
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(CWD, folder, flags, Mode::empty())?;
        let file = regular(&folder, name)?.ok_or_else(|| io::Error::other("it is not a regular file"))?;
        let mut begin = [0; MAGIC.len()];
        match file.read_exact_at(&mut begin, 0) {
            Ok(()) if begin == *MAGIC => Ok(Self { folder, name: name.to_owned(), file }),
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
            _ => Err(io::Error::other("it is not an SQLite database")),
        }
    }

    fn beside(&self, ending: &str) -> OsString {
        let mut name = self.name.clone();
        name.push(ending);
        name
    }

    fn log(&self) -> io::Result<Option<File>> {
        regular(&self.folder, &self.beside("-wal"))
    }

    /// While its log begins with the same words, everything that is moved from the log to the file is in the log.
    /// Without a log, the file itself must be as it was. None while it is changed without a log.
    fn state(&self) -> io::Result<Option<State>> {
        let mut begin = Vec::new();
        if let Some(log) = self.log()? {
            log.take(LOG_HEADER as u64).read_to_end(&mut begin)?;
        }
        let journal = statat(&self.folder, self.beside("-journal"), AtFlags::SYMLINK_NOFOLLOW);
        if journal.is_ok_and(|result| is_regular(&result) && result.st_size > 0) {
            return Ok(None);
        }
        let alone = begin.is_empty().then(|| fstat(&self.file)).transpose()?;
        let unlogged = alone.map(|result| {
            [
                result.st_size.cast_unsigned(),
                result.st_mtime.cast_unsigned(),
                result.st_mtime_nsec,
                result.st_ctime_nsec,
            ]
        });
        Ok(Some((begin, unlogged)))
    }

    /// Copies the file, and then reads its log.
    fn copy_to(&self, copy: &File) -> Result<Vec<u8>, Fault> {
        let size = self.file.metadata().map_err(cannot_read)?.len();
        if size > MAX_BYTES {
            return Err(Fault::NotAStore(format!("it has {} GiB", size >> 30)));
        }
        copy.set_len(0).and_then(|()| copy.set_len(size)).map_err(no_room)?;
        let mut chunk = vec![0; CHUNK];
        let mut at = 0;
        while at < size {
            // Holes stay holes, and are not read.
            at = match seek(&self.file, SeekFrom::Data(at)) {
                Ok(data) => data,
                Err(Errno::NXIO) => break,
                // Not every filesystem knows.
                Err(_) => at,
            };
            let read = match self.file.read_at(&mut chunk, at) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(cannot_read(error)),
            };
            if chunk[..read].iter().any(|byte| *byte != 0) {
                copy.write_all_at(&chunk[..read], at).map_err(no_room)?;
            }
            at += read as u64;
        }
        let mut log = Vec::new();
        if let Some(file) = self.log().map_err(cannot_read)? {
            file.take(MAX_LOG + 1).read_to_end(&mut log).map_err(cannot_read)?;
            if log.len() as u64 > MAX_LOG {
                return Err(Fault::NotAStore(
                    "its log is longer than 256 MiB; list its trials there once".into(),
                ));
            }
        }
        Ok(log)
    }
}

/// Opens a regular file of a folder, through no link and without waiting; none if it is something else, or is not there.
fn regular(folder: &OwnedFd, name: &std::ffi::OsStr) -> io::Result<Option<File>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(status) if is_regular(&status) => {}
        Ok(_) | Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let file = match openat(folder, name, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(file.metadata()?.is_file().then_some(file))
}

fn is_regular(status: &Stat) -> bool {
    FileType::from_raw_mode(status.st_mode) == FileType::RegularFile
}

/// Puts the pages of a log where they belong, up to the last commit that is whole.
fn apply(log: &[u8], copy: &File) -> Result<(), Fault> {
    let Some(frames) = Frames::of(log) else { return Ok(()) };
    let mut committed: Option<(usize, u32)> = None;
    let page_size = frames.page_size;
    let all: Vec<(u32, &[u8])> = frames
        .enumerate()
        .map(|(index, frame)| {
            if frame.pages_after_commit > 0 {
                committed = Some((index + 1, frame.pages_after_commit));
            }
            (frame.page, frame.data)
        })
        .collect();
    let Some((count, pages)) = committed else { return Ok(()) };
    let last = all[..count].iter().map(|(page, _)| *page).max();
    if u64::from(pages.max(last.unwrap_or(0))) * page_size as u64 > MAX_BYTES {
        return Err(Fault::NotAStore("its log has pages far beyond its end".into()));
    }
    for (page, data) in &all[..count] {
        copy.write_all_at(data, u64::from(*page - 1) * page_size as u64).map_err(no_room)?;
    }
    copy.set_len(u64::from(pages) * page_size as u64).map_err(no_room)
}

struct Frame<'a> {
    page: u32,
    /// Pages of the file after this frame, if it ends a transaction; else 0.
    pages_after_commit: u32,
    data: &'a [u8],
}

/// The frames of a log that are whole, in order.
struct Frames<'a> {
    rest: &'a [u8],
    page_size: usize,
    salts: &'a [u8],
    is_big_endian: bool,
    sums: [u32; 2],
}

impl<'a> Frames<'a> {
    /// None if it is not a log that has begun.
    fn of(log: &'a [u8]) -> Option<Self> {
        let (header, rest) = log.split_at_checked(LOG_HEADER)?;
        let is_big_endian = match big(header, 0) {
            0x377f_0682 => false,
            0x377f_0683 => true,
            _ => return None,
        };
        let page_size = big(header, 8) as usize;
        if !page_size.is_power_of_two() || !(512..=65_536).contains(&page_size) {
            return None;
        }
        let sums = sum([0, 0], &header[..24], is_big_endian);
        let is_whole = sums == [big(header, 24), big(header, 28)];
        is_whole.then(|| Self { rest, page_size, salts: &header[16..24], is_big_endian, sums })
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        let (header, rest) = self.rest.split_at_checked(FRAME_HEADER)?;
        let (data, rest) = rest.split_at_checked(self.page_size)?;
        let sums = sum(self.sums, &header[..8], self.is_big_endian);
        let sums = sum(sums, data, self.is_big_endian);
        let page = big(header, 0);
        // Later frames are of an earlier turn of the log, or were being written.
        if page == 0 || header[8..16] != *self.salts || sums != [big(header, 16), big(header, 20)] {
            return None;
        }
        (self.rest, self.sums) = (rest, sums);
        Some(Frame { page, pages_after_commit: big(header, 4), data })
    }
}

fn big(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The checksum of a log, over pairs of words.
fn sum([mut a, mut b]: [u32; 2], bytes: &[u8], is_big_endian: bool) -> [u32; 2] {
    let word = |bytes: &[u8]| {
        let bytes: [u8; 4] = bytes.try_into().expect("four bytes");
        if is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    };
    for pair in bytes.chunks_exact(8) {
        a = a.wrapping_add(word(&pair[..4])).wrapping_add(b);
        b = b.wrapping_add(word(&pair[4..])).wrapping_add(a);
    }
    [a, b]
}
