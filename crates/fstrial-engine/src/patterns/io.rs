//! Requests inside files, or on a bare device.

mod checks;

use super::{Ground, Loop, Routine, Thread, ThreadWork, Works, works};
use crate::{
    EngineError, Target, Usage,
    aio::{self, Aio},
    cursor::{Cursor, Source},
    drive::{self, Drive, Engine},
    error::layout,
    files::{Files, Writer, allow_open_files, create, open_all},
    mmap::Mmap,
    recorder::Shape,
    requests::{Geometry, Requests},
    sync::Sync,
    uring::{self, Uring},
    vsync::Vsync,
};
use fstrial_model::{
    job::Load,
    units::Bytes,
    workload::{Backend, Io, Layout, Sharing, Until},
};
use rustix::{
    fs::{CWD, FileType, Mode, OFlags, SeekFrom, fstat, fsync, ioctl_blksszget, openat, seek},
    io::Errno,
};
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
};

impl Routine for Io {
    fn validate(&self, threads: u16, block_device: bool) -> Result<(), EngineError> {
        checks::all(self, threads, block_device)
    }

    fn lay_out(&self, ground: Ground<'_>) -> Result<Works, EngineError> {
        check_backend(self)?;
        let Ground { load, is_new, as_it_is, .. } = ground;
        Ok(works(match ground.target {
            Target::Directory(directory) => on_files(load, self, directory, is_new)?,
            Target::BlockDevice(device) => on_device(load, self, device, is_new, as_it_is)?,
        }))
    }
}

/// Requests of one thread.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) io: Io,
    pub(crate) files: Files,
    pub(crate) geometry: Geometry,
    pub(crate) cursor: Option<Arc<Cursor>>,
}

impl ThreadWork for Work {
    fn descriptors(&self) -> Option<Vec<BorrowedFd<'_>>> {
        Some(self.files.fds.iter().map(AsFd::as_fd).collect())
    }

    fn ready<'a>(&'a mut self, thread: &Thread<'_>) -> Result<Loop<'a>, EngineError> {
        let Self { io, files, geometry, .. } = &*self;
        let (len, depth) = (io.block_size.0 as usize, usize::from(io.depth));
        let payload = |slots| thread.payload(slots, len);
        Ok(match io.backend {
            Backend::Sync => self.drive(Sync::new(files, payload(1), len), thread),
            Backend::Vsync => self.drive(Vsync::new(files, payload(depth), len, io.depth), thread),
            Backend::Aio => self.drive(Aio::new(files, payload(depth), len, io.depth)?, thread),
            Backend::IoUring => self.drive(Uring::new(files, payload(depth), len, io)?, thread),
            Backend::Mmap => {
                let size = geometry.base + geometry.file_size();
                self.drive(Mmap::new(files, payload(1), len, size)?, thread)
            }
        })
    }
}

impl Work {
    /// The loop with one way to hand requests to the kernel.
    fn drive<'a>(&'a self, engine: impl Engine + 'a, thread: &Thread<'_>) -> Loop<'a> {
        let Thread { number, load, .. } = *thread;
        let source = match &self.cursor {
            Some(cursor) => Source::Shared(Arc::clone(cursor)),
            None => Requests::new(load, &self.io, self.geometry, number).into(),
        };
        let time = thread.time(Shape::Io, &drive::lanes(&self.io, load.until));
        let drive = Drive::new(engine, &self.io, source, &self.files, time);
        let drive = match load.until {
            Until::Time => drive,
            Until::Done => drive.of_amount(amount(&self.io, &self.geometry, load.threads, number)),
        };
        Box::new(|start| drive.run(start))
    }
}

/// Requests of a thread in a phase that runs until it is done, unless it gets them one by one.
fn amount(io: &Io, geometry: &Geometry, threads: u16, thread: usize) -> u64 {
    let all = match (io.requests, io.sharing) {
        (_, Sharing::Cursor) => return u64::MAX,
        (None, Sharing::PerThread | Sharing::Region) => return geometry.blocks,
        (None, Sharing::Shared) => geometry.blocks,
        (Some(requests), _) => requests,
    };
    let (each, rest) = (all / u64::from(threads), all % u64::from(threads));
    each + u64::from((thread as u64) < rest)
}

fn on_files(load: &Load, io: &Io, directory: &Path, is_new: bool) -> Result<Vec<Work>, EngineError> {
    allow_open_files(u64::from(io.files) * u64::from(load.threads))?;
    let sets = match io.sharing {
        Sharing::Shared | Sharing::Region | Sharing::Cursor => 1,
        Sharing::PerThread => usize::from(load.threads),
    };
    let paths = |set: usize| -> Vec<PathBuf> {
        (0..io.files).map(|n| directory.join(format!("{}-{set:04}-{n:04}.dat", load.set))).collect()
    };
    if is_new {
        let full = Geometry::on_files(io, load.threads, 0).file_size();
        let layout_of_files = if io.access.starts_empty() { Layout::Empty } else { io.layout };
        let mut writer = Writer::new(load);
        for path in (0..sets).flat_map(paths) {
            let fd = create(CWD, &path)?;
            writer.lay_out(layout_of_files, &fd, &path, full)?;
            fsync(&fd).map_err(|errno| layout("fsync", &path, errno))?;
        }
    }
    let cursor = Cursor::of(load, io, Geometry::on_files(io, load.threads, 0));
    (0..usize::from(load.threads))
        .map(|thread| {
            let files = opened(io, paths(thread % sets), OFlags::RDWR)?;
            let geometry = Geometry::on_files(io, load.threads, thread);
            if !is_new {
                check_size(io, &files, geometry.file_size())?;
            }
            Ok(Work { io: io.clone(), files, geometry, cursor: cursor.clone() })
        })
        .collect()
}

/// Opens a thread's own descriptors, and tries polling once.
fn opened(io: &Io, paths: Vec<PathBuf>, access: OFlags) -> Result<Files, EngineError> {
    let files = open_all(io, paths, access)?;
    if io.iopoll {
        uring::try_poll(&files, io)?;
    }
    Ok(files)
}

/// Files that an earlier phase has left must be large enough for what reads or overwrites them.
fn check_size(io: &Io, files: &Files, size: u64) -> Result<(), EngineError> {
    if io.access.starts_empty() {
        return Ok(());
    }
    for (fd, path) in files.fds.iter().zip(&files.paths) {
        let found = fstat(fd).map_err(|errno| layout("stat", path, errno))?.st_size;
        if u64::try_from(found).unwrap_or(0) < size {
            let problem = format!(
                "{} was left with {} by an earlier phase, and {} are wanted",
                path.display(),
                Bytes(u64::try_from(found).unwrap_or(0)),
                Bytes(size)
            );
            let hint =
                "give both phases the same file_size, files and sharing, or each a set = \"…\" of its own";
            return Err(EngineError::Impossible { problem, hint });
        }
    }
    Ok(())
}

fn on_device(
    load: &Load,
    io: &Io,
    device: &Path,
    is_new: bool,
    as_it_is: Option<Usage>,
) -> Result<Vec<Work>, EngineError> {
    allow_open_files(u64::from(load.threads))?;
    let access = match as_it_is {
        Some(Usage::ReadOnly) if io.reads.0 < 100.0 || !io.update.is_zero() => {
            let problem = format!("{} may only be read, and the load writes", device.display());
            return Err(EngineError::Impossible { problem, hint: "use reads = \"100%\"" });
        }
        Some(Usage::ReadOnly) => OFlags::RDONLY,
        Some(Usage::ReadWrite) | None => OFlags::RDWR,
    };
    let fd = openat(CWD, device, access | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| layout("open", device, errno))?;
    check_device(&fd, io, device)?;
    // A device has its blocks already: what is not to be written needs nothing.
    if is_new && as_it_is.is_none() && io.layout == Layout::Written {
        let last = Geometry::on_device(io, load.threads, usize::from(load.threads) - 1);
        Writer::new(load).write(&fd, device, last.base + last.file_size())?;
        fsync(&fd).map_err(|errno| layout("fsync", device, errno))?;
    }
    let cursor = Cursor::of(load, io, Geometry::on_device(io, load.threads, 0));
    (0..usize::from(load.threads))
        .map(|thread| {
            let files = opened(io, vec![device.to_path_buf()], access)?;
            let geometry = Geometry::on_device(io, load.threads, thread);
            Ok(Work { io: io.clone(), files, geometry, cursor: cursor.clone() })
        })
        .collect()
}

/// A device must be one, be large enough, and do the block size.
fn check_device(fd: &OwnedFd, io: &Io, device: &Path) -> Result<(), EngineError> {
    let stat = fstat(fd).map_err(|errno| layout("stat", device, errno))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice {
        let problem = format!("{} is not a block device", device.display());
        return Err(EngineError::Impossible { problem, hint: "name a block device, or a directory" });
    }
    let size = seek(fd, SeekFrom::End(0)).map_err(|errno| layout("seek to the end of", device, errno))?;
    if size < io.total_size.0 {
        let problem =
            format!("{} has {}, but the load wants {}", device.display(), Bytes(size), io.total_size);
        return Err(EngineError::Impossible { problem, hint: "use a smaller file_size, or a larger device" });
    }
    let sector =
        ioctl_blksszget(fd).map_err(|errno| layout("ask for the logical block size of", device, errno))?;
    if io.direct && !io.block_size.0.is_multiple_of(u64::from(sector)) {
        return Err(EngineError::DirectUnsupported {
            path: device.to_path_buf(),
            block_size: io.block_size,
            source: Errno::INVAL.into(),
        });
    }
    Ok(())
}

/// Whether the kernel can do the load's backend at all.
fn check_backend(io: &Io) -> Result<(), EngineError> {
    match io.backend {
        Backend::Sync | Backend::Vsync | Backend::Mmap => Ok(()),
        Backend::Aio => aio::probe(io.depth),
        Backend::IoUring => uring::probe(io),
    }
}
