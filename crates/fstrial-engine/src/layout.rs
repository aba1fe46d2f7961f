//! Lays out the files of a load before any clock runs: full size, in order, synced; never over a file that was there.
//!
//! Files are written, not preallocated first, unless the load asks for another layout: on btrfs, for one, preallocated
//! extents are written in place and uncompressed, so a preallocated file would not be the file the arm's options ask for.

use crate::{
    EngineError, aio,
    clock::Clock,
    cursor::Cursor,
    error::layout,
    files::{Files, Writer, allow_open_files, create, open_all},
    fileset::Ring,
    flow::{self, Program},
    flusher,
    log::{self, SharedLog},
    pattern::Geometry,
    postmark::{self, Pooled},
    tree::{Trees, View},
    uring, validate,
};
use fstrial_model::{
    job::Load,
    units::Bytes,
    workload::{Backend, FileSet, Flush, Io, Layout, Pattern, Sharing},
};
use rustix::{
    fs::{
        CWD, FileType, Mode, OFlags, SeekFrom, fstat, fsync, ioctl_blksszget, mkdirat, openat, seek, syncfs,
    },
    io::Errno,
};
use std::{
    collections::BTreeSet,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Where a load goes.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// An existing directory; files are made in it and stay there.
    Directory(&'a Path),
    /// A block device, which is overwritten from its start on for as long as the load's `total_size`.
    BlockDevice(&'a Path),
}

/// What one thread works on.
#[derive(Debug)]
pub(crate) enum ThreadWork {
    /// Requests inside files.
    Io { io: Io, files: Files, geometry: Geometry, cursor: Option<Arc<Cursor>> },
    /// Turns over a file set.
    Files { set: FileSet, ring: Ring },
    /// Turns of a program.
    Flow { program: Arc<Program>, views: Vec<View> },
    /// A pool of PostMark's.
    Postmark(Box<Pooled>),
    /// Commits to a log.
    Log(Arc<SharedLog>),
    /// Batches of pages.
    Flush { flush: Flush, files: Files },
}

impl ThreadWork {
    /// The descriptors that the thread is lent; none where it shares those that it opens with other threads.
    pub(crate) fn descriptors(&self) -> Option<Vec<BorrowedFd<'_>>> {
        match self {
            Self::Io { files, .. } | Self::Flush { files, .. } => {
                Some(files.fds.iter().map(AsFd::as_fd).collect())
            }
            Self::Files { ring, .. } => Some(vec![ring.directory()]),
            Self::Flow { views, .. } => Some(views.iter().flat_map(View::descriptors).collect()),
            Self::Postmark(pool) => Some(vec![pool.directory()]),
            Self::Log(_) => None,
        }
    }
}

/// A phase whose files are laid out: ready to run, once.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) clock: Clock,
    /// Each load with the work of its threads.
    pub(crate) groups: Vec<(Load, Vec<ThreadWork>)>,
}

/// The place where the phases of a run work, one after the other. It remembers which sets of files there are.
#[derive(Debug)]
pub struct Site<'a> {
    target: Target<'a>,
    /// The sets that were laid out.
    sets: BTreeSet<String>,
    /// What is known of the trees of files.
    trees: Trees,
    /// What may be done to a device that is used as it is; none: loads lay out what they need.
    as_it_is: Option<Usage>,
}

/// What may be done to a device that is used as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// Only reads; it is not even opened for writing.
    ReadOnly,
    /// Reads and writes.
    ReadWrite,
}

/// Lays out the files of a single load: see [`Site::prepare`].
///
/// # Errors
/// See [`Site::prepare`].
pub fn prepare(load: &Load, target: Target<'_>) -> Result<Prepared, EngineError> {
    Site::new(target).prepare(std::slice::from_ref(load))
}

impl<'a> Site<'a> {
    /// A place where nothing was laid out yet.
    pub fn new(target: Target<'a>) -> Self {
        Self { target, sets: BTreeSet::new(), trees: Trees::default(), as_it_is: None }
    }

    /// A device that is used as it is: nothing is laid out on it. Loads that write are refused unless they may.
    pub fn as_it_is(device: &'a Path, usage: Usage) -> Self {
        Self { as_it_is: Some(usage), ..Self::new(Target::BlockDevice(device)) }
    }

    /// Lays out the files of the loads of a phase, which will run at once: written whole, in order, with the load's
    /// data, and synced. Takes as long as the device takes to write them. Files that an earlier load of the same set has
    /// laid out are used as they are. The files stay after the run.
    ///
    /// # Errors
    /// A refusal ([`EngineError::is_refusal`]) if a load is impossible here: by itself, for want of space, of direct
    /// I/O, of `io_uring` or of descriptors. Otherwise [`EngineError::Layout`] with the call, the path and the errno.
    ///
    /// # Panics
    /// There is no load, or they do not have one warm-up, duration and end: a bug of the caller's.
    pub fn prepare(&mut self, loads: &[Load]) -> Result<Prepared, EngineError> {
        let first = loads.first().expect("a phase has loads");
        let time = |load: &Load| (load.until, load.warmup, load.duration);
        assert!(loads.iter().all(|load| time(load) == time(first)), "the loads of a phase run at once");
        let groups = loads.iter().map(|load| Ok((load.clone(), self.lay_out(load)?)));
        let groups = groups.collect::<Result<_, EngineError>>()?;
        Ok(Prepared { clock: Clock::best(), groups })
    }

    fn lay_out(&mut self, load: &Load) -> Result<Vec<ThreadWork>, EngineError> {
        validate(load, matches!(self.target, Target::BlockDevice(_)))?;
        let is_new = self.sets.insert(load.set.clone());
        match (&load.pattern, self.target) {
            (Pattern::Io(io), Target::Directory(directory)) => io_on_files(load, io, directory, is_new),
            (Pattern::Io(io), Target::BlockDevice(device)) => {
                io_on_device(load, io, device, is_new, self.as_it_is)
            }
            (Pattern::Files(_), _) if !is_new => Err(EngineError::Impossible {
                problem: format!("the file set `{}` is in use already", load.set),
                hint: "give this phase or group a set = \"…\" of its own",
            }),
            (Pattern::Files(set), Target::Directory(path)) => file_sets(load, set, path),
            (pattern, Target::Directory(path)) => programs(load, pattern, path, &mut self.trees),
            (_, Target::BlockDevice(_)) => unreachable!("refused by validate"),
        }
    }
}

fn io_on_files(load: &Load, io: &Io, directory: &Path, is_new: bool) -> Result<Vec<ThreadWork>, EngineError> {
    check_backend(io)?;
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
            Ok(ThreadWork::Io { io: io.clone(), files, geometry, cursor: cursor.clone() })
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

fn io_on_device(
    load: &Load,
    io: &Io,
    device: &Path,
    is_new: bool,
    as_it_is: Option<Usage>,
) -> Result<Vec<ThreadWork>, EngineError> {
    check_backend(io)?;
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
            Ok(ThreadWork::Io { io: io.clone(), files, geometry, cursor: cursor.clone() })
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

fn file_sets(load: &Load, set: &FileSet, directory: &Path) -> Result<Vec<ThreadWork>, EngineError> {
    allow_open_files(2 * u64::from(load.threads))?;
    let mut writer = Writer::new(load);
    let mut works = Vec::new();
    for thread in 0..load.threads {
        let path = directory.join(format!("{}-{thread:04}", load.set));
        mkdirat(CWD, &path, Mode::RWXU).map_err(|errno| writer.error("make the directory", &path, errno))?;
        let fd = openat(CWD, &path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| layout("open", &path, errno))?;
        let ring = Ring::new(fd, path, u64::from(set.files));
        for number in 0..u64::from(set.files) {
            ring.lay_out(number, set.file_size.0, &mut writer)?;
        }
        works.push(ThreadWork::Files { set: set.clone(), ring });
    }
    if let Some(ThreadWork::Files { ring, .. }) = works.first() {
        // One call for all: a sync for each of a million small files would take hours.
        syncfs(ring.directory()).map_err(|errno| layout("syncfs", directory, errno))?;
    }
    Ok(works)
}

/// What stands for a whole program: each pattern lays out its own files.
fn programs(
    load: &Load,
    pattern: &Pattern,
    directory: &Path,
    trees: &mut Trees,
) -> Result<Vec<ThreadWork>, EngineError> {
    let mut writer = Writer::new(load);
    Ok(match pattern {
        Pattern::Flow(flow) => {
            let program = Arc::new(Program::new(flow));
            let views = flow::prepare(load, flow, &program, directory, trees, &mut writer)?;
            views.into_iter().map(|views| ThreadWork::Flow { program: Arc::clone(&program), views }).collect()
        }
        Pattern::Postmark(settings) => {
            let pools = postmark::prepare(load, settings, directory, &writer)?;
            pools.into_iter().map(|pool| ThreadWork::Postmark(Box::new(pool))).collect()
        }
        Pattern::Log(settings) => {
            let log = Arc::new(log::prepare(settings, directory, &mut writer)?);
            (0..load.threads).map(|_| ThreadWork::Log(Arc::clone(&log))).collect()
        }
        Pattern::Flush(flush) => {
            let files = flusher::prepare(load, flush, directory, &mut writer)?;
            files.into_iter().map(|files| ThreadWork::Flush { flush: *flush, files }).collect()
        }
        Pattern::Io(_) | Pattern::Files(_) => unreachable!("laid out by themselves"),
    })
}

/// Whether the kernel can do the load's backend at all.
fn check_backend(io: &Io) -> Result<(), EngineError> {
    match io.backend {
        Backend::Sync | Backend::Vsync | Backend::Mmap => Ok(()),
        Backend::Aio => aio::probe(io.depth),
        Backend::IoUring => uring::probe(io),
    }
}
