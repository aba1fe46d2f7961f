//! The files of a load: made, written, and opened for each thread.

use crate::{
    EngineError,
    buffer::{Filler, Pages},
    error::layout,
    generator::{Generator, Stream},
};
use fstrial_model::{
    job::Load,
    units::Bytes,
    workload::{Io, Layout, OpenSync},
};
use rustix::{
    fs::{
        AtFlags, CWD, FallocateFlags, Mode, OFlags, ResolveFlags, StatxFlags, fallocate, fdatasync,
        ftruncate, openat, openat2, statx, syncfs,
    },
    io::{Errno, pread, pwrite, retry_on_intr},
    process::{Resource, Rlimit, getrlimit, setrlimit},
};
use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// Bytes per write of a layout.
const CHUNK: usize = 1 << 20;
/// Descriptors that a process needs in addition to the load's files.
const SPARE_FILES: u64 = 64;

/// The open files of one thread, which no other thread uses: a shared descriptor's reference count would be a shared
/// cache line in the hot loop.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) fds: Vec<OwnedFd>,
    /// Their names, for errors.
    pub(crate) paths: Vec<PathBuf>,
}

/// Raises the soft limit of open files as far as is needed and allowed.
pub(crate) fn allow_open_files(files: u64) -> Result<(), EngineError> {
    let (wanted, limit) = (files + SPARE_FILES, getrlimit(Resource::Nofile));
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    // Going beyond the hard limit takes CAP_SYS_RESOURCE; the kernel decides.
    let maximum = limit.maximum.map(|maximum| maximum.max(wanted));
    let raised = Rlimit { current: Some(wanted), maximum };
    setrlimit(Resource::Nofile, raised).map_err(|errno| EngineError::Limit {
        what: format!("cannot have {files} files open (every thread opens its own)"),
        source: errno.into(),
    })
}

/// Opens something directly in its directory: not through a link that someone has put there.
pub(crate) fn open_beneath(path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::INVAL) };
    let directory =
        openat(CWD, directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    match openat2(&directory, name, flags | OFlags::CLOEXEC, mode, resolve) {
        // Some sandboxes do not know the call. The name has one part, so this is the same.
        Err(Errno::NOSYS | Errno::PERM) => {
            openat(&directory, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode)
        }
        opened => opened,
    }
}

/// Makes a file that was not there.
pub(crate) fn create(path: &Path) -> Result<OwnedFd, EngineError> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
    open_beneath(path, flags, Mode::RUSR | Mode::WUSR).map_err(|errno| layout("create", path, errno))
}

/// Opens a directory of the load's.
pub(crate) fn open_directory(path: &Path) -> Result<OwnedFd, EngineError> {
    open_beneath(path, OFlags::DIRECTORY, Mode::empty()).map_err(|errno| layout("open", path, errno))
}

/// Opens a thread's own descriptors, and tries direct I/O once.
pub(crate) fn open_all(io: &Io, paths: Vec<PathBuf>, access: OFlags) -> Result<Files, EngineError> {
    let direct = if io.direct { OFlags::DIRECT } else { OFlags::empty() };
    let synced = match io.open_sync {
        OpenSync::None => OFlags::empty(),
        OpenSync::Sync => OFlags::SYNC,
        // rustix 1.1 has the bits of O_SYNC under this name as well.
        OpenSync::Dsync => OFlags::from_bits_retain(libc::O_DSYNC.cast_unsigned()),
    };
    let unsupported = |path: &Path, errno: Errno| EngineError::DirectUnsupported {
        path: path.to_path_buf(),
        block_size: io.block_size,
        source: errno.into(),
    };
    let mut fds = Vec::with_capacity(paths.len());
    for path in &paths {
        let opened = open_beneath(path, access | direct | synced, Mode::empty());
        fds.push(opened.map_err(|errno| match errno {
            Errno::INVAL if io.direct => unsupported(path, errno),
            _ => layout("open", path, errno),
        })?);
    }
    if io.direct {
        try_direct(&fds[0], io).map_err(|errno| match errno {
            Errno::INVAL => unsupported(&paths[0], errno),
            _ => layout("read", &paths[0], errno),
        })?;
    }
    Ok(Files { fds, paths })
}

/// Tests whether a file takes the load's direct requests: by its reported alignment (Linux 6.1; 0 on a filesystem that
/// would silently use the page cache), and by one read.
fn try_direct(fd: &OwnedFd, io: &Io) -> Result<(), Errno> {
    if let Ok(stat) = statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
        && StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::DIOALIGN)
        && (stat.stx_dio_offset_align == 0
            || !io.block_size.0.is_multiple_of(u64::from(stat.stx_dio_offset_align)))
    {
        return Err(Errno::INVAL);
    }
    let mut block = Pages::new(io.block_size.0 as usize);
    retry_on_intr(|| pread(fd, block.as_mut_slice(), 0)).map(drop)
}

/// Bytes of a layout after which the filesystem is synced; 0: only at its end. One process does one job, so it is per
/// process, like the memory limit that requires it.
static PACE: AtomicU64 = AtomicU64::new(0);

/// Has layouts synced after this many bytes from now on, or (0) at their end only. If a memory limit does not throttle
/// writers, a layout would fill it with pages that must be written first, and the kernel would kill the process.
pub fn pace_layouts(bytes: Bytes) {
    PACE.store(bytes.0, Ordering::Relaxed);
}

/// Writes whole files with the load's data.
pub(crate) struct Writer {
    filler: Filler,
    chunk: Pages,
    needed: Bytes,
    /// Written since the last sync.
    unsynced: u64,
}

impl Writer {
    pub(crate) fn new(load: &Load) -> Self {
        // Data repeats by the block that the load writes, else by whole chunks.
        let block = load.pattern.request_size().map_or(CHUNK as u64, |size| size.0.clamp(1, CHUNK as u64));
        let generator = Generator::new(load.seed, Stream::Layout);
        let mut filler = Filler::new(load.data, block as usize, generator);
        let mut chunk = Pages::new(CHUNK);
        filler.fill(chunk.as_mut_slice());
        Self { filler, chunk, needed: load.pattern.space_needed(load.threads), unsynced: 0 }
    }

    /// Gives a new file its content before the clock starts. `size` is its full size.
    pub(crate) fn lay_out(
        &mut self,
        what: Layout,
        fd: &OwnedFd,
        path: &Path,
        size: u64,
    ) -> Result<(), EngineError> {
        match what {
            Layout::Written => self.write(fd, path, size),
            Layout::Fallocated => {
                retry_on_intr(|| fallocate(fd, FallocateFlags::empty(), 0, size)).map_err(|errno| match errno
                {
                    Errno::OPNOTSUPP | Errno::NOSYS => {
                        EngineError::FallocateUnsupported { path: path.to_path_buf(), source: errno.into() }
                    }
                    _ => self.error("fallocate", path, errno),
                })
            }
            Layout::Sparse => {
                retry_on_intr(|| ftruncate(fd, size)).map_err(|errno| self.error("extend", path, errno))
            }
            Layout::Empty => Ok(()),
        }
    }

    /// Writes `size` bytes from the start of a file.
    pub(crate) fn write(&mut self, fd: &OwnedFd, path: &Path, size: u64) -> Result<(), EngineError> {
        let mut done = 0;
        while done < size {
            let len = usize::try_from(size - done).unwrap_or(CHUNK).min(CHUNK);
            if self.filler.varies() {
                self.filler.fill(&mut self.chunk.as_mut_slice()[..len]);
            }
            let bytes = &self.chunk.as_slice()[..len];
            let written = retry_on_intr(|| pwrite(fd, bytes, done))
                .map_err(|errno| self.error("write", path, errno))?;
            if written == 0 {
                return Err(layout("write", path, Errno::IO));
            }
            done += written as u64;
            self.keep_pace(fd, path, written as u64)?;
        }
        Ok(())
    }

    /// Syncs the filesystem when it is time: the bytes of earlier files count, too.
    fn keep_pace(&mut self, fd: &OwnedFd, path: &Path, written: u64) -> Result<(), EngineError> {
        let pace = PACE.load(Ordering::Relaxed);
        self.unsynced += written;
        if pace == 0 || self.unsynced < pace {
            return Ok(());
        }
        self.unsynced = 0;
        // A bare device is not a file of a filesystem that could be synced.
        let synced = retry_on_intr(|| fdatasync(fd)).and_then(|()| retry_on_intr(|| syncfs(fd)));
        synced.map_err(|errno| self.error("sync", path, errno))
    }

    /// An error of a call that takes space.
    pub(crate) fn error(&self, operation: &'static str, path: &Path, errno: Errno) -> EngineError {
        match errno {
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG => {
                EngineError::NoSpace { path: path.to_path_buf(), needed: self.needed, source: errno.into() }
            }
            _ => layout(operation, path, errno),
        }
    }
}
