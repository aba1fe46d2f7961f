//! Requests inside files, or on a bare device.

use super::{
    LayoutContext, Loop, PreparedThread, PreparedThreads, Routine, Thread, checked, prepared_threads,
};
use crate::{
    EngineError, Seat, Target, Usage,
    aio::{self, Aio},
    cursor::{Cursor, Source},
    drive::{self, Drive, Engine},
    error::{layout, refuse},
    files::{Files, Writer, allow_open_files, create, open_all},
    mmap::Mmap,
    requests::{Geometry, Requests},
    serialise::{Locks, Serialised},
    sync::Sync,
    uring::{self, Uring},
    vsync::Vsync,
};
use fstrial_model::{
    job::Load,
    units::Bytes,
    workload::{Backend, Behaviour as _, Io, Layout, Sharing, Until},
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

/// Memory for the requests in flight of one thread at most (also the kernel's limit for one registered buffer).
const MAX_FLIGHT: u64 = 1 << 30;

impl Routine for Io {
    fn validate(&self, threads: u16, block_device: bool) -> Result<(), EngineError> {
        checked(self.check())?;
        let (depth, block) = (self.depth, self.block_size);
        if u64::from(depth) * block.0 > MAX_FLIGHT {
            let problem = format!("{depth} requests of {block} in flight take too much memory");
            return refuse(problem, "keep depth times block_size within 1GiB");
        }
        if block_device && !self.runs_on_bare_device() {
            let hint = "use access = \"sequential\" on it";
            return refuse("a bare device cannot be appended to, nor extended", hint);
        }
        if block_device && !block.0.is_multiple_of(512) {
            let problem = format!("a bare device has whole sectors, and {block} is not a multiple of 512");
            return refuse(problem, "use a block_size that is a multiple of 512");
        }
        self.too_few_blocks(threads).map_or(Ok(()), |(has, wants)| {
            let problem = format!("each of {threads} threads has {has} blocks of {block}, and needs {wants}");
            refuse(problem, "raise file_size, or lower threads, files or block_size")
        })
    }

    fn lay_out(&self, context: LayoutContext<'_>) -> Result<PreparedThreads, EngineError> {
        check_backend(self)?;
        let LayoutContext { load, is_new, existing_device, seat, .. } = context;
        let on_device = matches!(context.target, Target::BlockDevice(_));
        let mut all = match context.target {
            Target::Directory(directory) => on_files(load, self, directory, is_new, seat)?,
            Target::BlockDevice(device) => self::on_device(load, self, device, is_new, existing_device)?,
        };
        let sets = if on_device { 1 } else { sets(self, load.threads) };
        let locks = self.serialise.map(|_| Locks::new(sets * self.files as usize));
        for (thread, work) in all.iter_mut().enumerate() {
            let first_file = (thread % sets) as u32 * self.files;
            work.locks = locks.as_ref().map(|locks| locks.from(first_file as usize));
        }
        Ok(prepared_threads(all))
    }
}

/// Requests of one thread.
#[derive(Debug)]
pub(crate) struct IoThread {
    pub(crate) io: Io,
    pub(crate) files: Files,
    pub(crate) geometry: Geometry,
    pub(crate) cursor: Option<Arc<Cursor>>,
    /// Locks of its files, if their requests wait for one another.
    pub(crate) locks: Option<Locks>,
    pub(crate) seat: Seat,
}

impl PreparedThread for IoThread {
    fn descriptors(&self) -> Option<Vec<BorrowedFd<'_>>> {
        Some(self.files.fds.iter().map(AsFd::as_fd).collect())
    }

    fn ready<'a>(&'a mut self, thread: &Thread<'_>) -> Result<Loop<'a>, EngineError> {
        let Self { io, files, geometry, .. } = &*self;
        let len = io.block_size.0 as usize;
        let payload = thread.payload(usize::from(io.depth), len);
        Ok(match io.backend {
            Backend::Sync => self.serialised(Sync::new(files, payload, len), thread),
            Backend::Vsync => self.drive(Vsync::new(files, payload, len, io.depth), thread),
            Backend::Aio => self.serialised(Aio::new(files, payload, len, io.depth)?, thread),
            Backend::IoUring => self.drive(Uring::new(files, payload, len, io)?, thread),
            Backend::Mmap => {
                let size = geometry.base + geometry.file_size();
                self.drive(Mmap::new(files, payload, len, size)?, thread)
            }
        })
    }
}

impl IoThread {
    /// The loop with one way to hand requests to the kernel; behind the locks of its files where the load wants that.
    fn serialised<'a>(&'a self, engine: impl Engine + 'a, thread: &Thread<'_>) -> Loop<'a> {
        match &self.locks {
            None => self.drive(engine, thread),
            Some(locks) => self.drive(Serialised::new(engine, locks.clone()), thread),
        }
    }

    /// The loop with one way to hand requests to the kernel.
    fn drive<'a>(&'a self, engine: impl Engine + 'a, thread: &Thread<'_>) -> Loop<'a> {
        let Thread { number, load, .. } = *thread;
        let source = match &self.cursor {
            Some(cursor) => Source::Shared(Arc::clone(cursor)),
            None => Requests::new(load, &self.io, self.geometry, number).into(),
        };
        let time = thread.time(&drive::lanes(&self.io, load.until));
        let drive = Drive::new(engine, &self.io, source, &self.files, time);
        let drive = match load.until {
            Until::Time => drive,
            Until::Done => drive.of_amount(self.amount(load.threads, number)),
        };
        Box::new(|start| drive.run(start))
    }

    /// Requests of a thread in a phase that runs until it is done, unless it gets them one by one.
    fn amount(&self, threads: u16, number: usize) -> u64 {
        let all = match (self.io.requests, self.io.sharing) {
            (_, Sharing::Cursor) => return u64::MAX,
            (None, Sharing::PerThread | Sharing::Region | Sharing::Strided) => return self.geometry.blocks,
            (None, Sharing::Shared) => self.geometry.blocks,
            (Some(requests), _) => requests,
        };
        let thread = self.seat.thread(threads, number);
        let threads = u64::from(self.seat.threads(threads));
        let (each, rest) = (all / threads, all % threads);
        each + u64::from((thread as u64) < rest)
    }
}

/// Number of sets of files: one for each thread, or one that all threads share.
fn sets(io: &Io, threads: u16) -> usize {
    if io.sharing == Sharing::PerThread { usize::from(threads) } else { 1 }
}

fn on_files(
    load: &Load,
    io: &Io,
    directory: &Path,
    is_new: bool,
    seat: Seat,
) -> Result<Vec<IoThread>, EngineError> {
    allow_open_files(u64::from(io.files) * u64::from(load.threads))?;
    let (sets, threads) = (sets(io, load.threads), seat.threads(load.threads));
    let is_own = io.sharing == Sharing::PerThread;
    let first = if is_own { seat.thread(load.threads, 0) } else { 0 };
    let paths = |set: usize| -> Vec<PathBuf> {
        let name = |n| format!("{}-{:04}-{n:04}.dat", load.set, first + set);
        (0..io.files).map(|n| directory.join(name(n))).collect()
    };
    let full = Geometry::on_files(io, threads, 0).file_size();
    if is_new && (is_own || seat.rank == 0) {
        let layout_of_files = if io.access.starts_empty() { Layout::Empty } else { io.layout };
        let mut writer = Writer::new(load);
        for path in (0..sets).flat_map(paths) {
            let fd = create(&path)?;
            writer.lay_out(layout_of_files, &fd, &path, full)?;
            fsync(&fd).map_err(|errno| layout("fsync", &path, errno))?;
        }
    }
    let cursor = Cursor::of(load, io, Geometry::on_files(io, threads, 0));
    (0..usize::from(load.threads))
        .map(|thread| {
            let files = open_all(io, paths(thread % sets), OFlags::RDWR)?;
            let geometry = Geometry::on_files(io, threads, seat.thread(load.threads, thread));
            if !is_new {
                check_size(io, &files, geometry.used(threads))?;
            }
            Ok(IoThread { io: io.clone(), files, geometry, cursor: cursor.clone(), locks: None, seat })
        })
        .collect()
}

/// Files of an earlier phase must be large enough for reads and overwrites.
fn check_size(io: &Io, files: &Files, sizes: impl Iterator<Item = u64>) -> Result<(), EngineError> {
    if io.access.starts_empty() {
        return Ok(());
    }
    for ((fd, path), size) in files.fds.iter().zip(&files.paths).zip(sizes) {
        let result = fstat(fd).map_err(|errno| layout("stat", path, errno))?.st_size;
        if u64::try_from(result).unwrap_or(0) < size {
            let problem = format!(
                "{} was left with {} by an earlier phase, and {} are wanted",
                path.display(),
                Bytes(u64::try_from(result).unwrap_or(0)),
                Bytes(size)
            );
            let hint =
                "give both phases the same file_size, files and sharing, or a separate set each: set = \"…\"";
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
    existing_device: Option<Usage>,
) -> Result<Vec<IoThread>, EngineError> {
    allow_open_files(u64::from(load.threads))?;
    let access = match existing_device {
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
    // A device has its blocks already: unwritten ones need nothing.
    if is_new && existing_device.is_none() && io.layout == Layout::Written {
        let last = Geometry::on_device(io, load.threads.into(), usize::from(load.threads) - 1);
        Writer::new(load).write(&fd, device, last.base + last.file_size())?;
        fsync(&fd).map_err(|errno| layout("fsync", device, errno))?;
    }
    let cursor = Cursor::of(load, io, Geometry::on_device(io, load.threads.into(), 0));
    (0..usize::from(load.threads))
        .map(|thread| {
            let files = open_all(io, vec![device.to_path_buf()], access)?;
            let geometry = Geometry::on_device(io, load.threads.into(), thread);
            let cursor = cursor.clone();
            Ok(IoThread { io: io.clone(), files, geometry, cursor, locks: None, seat: Seat::ALONE })
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

/// Tests whether the kernel supports the load's backend at all.
fn check_backend(io: &Io) -> Result<(), EngineError> {
    match io.backend {
        Backend::Sync | Backend::Vsync | Backend::Mmap => Ok(()),
        Backend::Aio => aio::probe(io.depth),
        Backend::IoUring => uring::probe(io),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        testing::{io, load_of},
        validate,
    };
    use fstrial_model::{
        units::{Bytes, Percent},
        workload::{Access, Arrivals, Backend, Distribution, Layout, OpenSync, Rate},
    };

    fn problem(io: Io, device: bool) -> String {
        let error = validate(&load_of(io, 2), device).unwrap_err();
        assert!(error.is_refusal() && error.hint().is_some());
        error.to_string()
    }

    #[test]
    fn good_loads_pass() {
        validate(&load_of(io(), 1), false).unwrap();
        validate(&load_of(io(), 1024), true).unwrap();
        let fallocated = Io { layout: Layout::Fallocated, reads: Percent(0.0), ..io() };
        validate(&load_of(fallocated, 1), true).unwrap();
        validate(&load_of(Io { backend: Backend::IoUring, depth: 32, direct: true, ..io() }, 1), true)
            .unwrap();
        let append = Io { access: Access::Append, sharing: Sharing::PerThread, reads: Percent(0.0), ..io() };
        validate(&load_of(append.clone(), 4), false).unwrap();
        for io in [
            Io { access: Access::Extend, ..append.clone() },
            Io { access: Access::Extend, sharing: Sharing::Region, ..append },
            Io { distribution: Distribution::Zipf { theta: 0.99 }, sharing: Sharing::Region, ..io() },
            Io { each_block_once: true, update: Percent(50.0), ..io() },
        ] {
            let mut load = load_of(io, 4);
            load.rate = Some("100/s poisson".parse().unwrap());
            validate(&load, false).unwrap();
        }
    }

    #[test]
    fn errors_describe_invalid_io_settings() {
        let zipf = Io { distribution: Distribution::Zipf { theta: 0.99 }, ..io() };
        let extend = Io { access: Access::Extend, sharing: Sharing::PerThread, reads: Percent(0.0), ..io() };
        let region = Io { sharing: Sharing::Region, ..io() };
        for (io, device, words) in [
            // Two threads with a block each.
            (
                Io { total_size: Bytes(8192), sharing: Sharing::PerThread, ..zipf.clone() },
                false,
                "has 1 blocks",
            ),
            (Io { total_size: Bytes(8192), sharing: Sharing::Region, ..zipf.clone() }, false, "has 1 blocks"),
            (Io { distribution: Distribution::Pareto { h: 2.0 }, ..io() }, false, "between 0.001"),
            (Io { access: Access::Sequential, ..zipf.clone() }, false, "random access"),
            (Io { each_block_once: true, ..zipf }, false, "leaves nothing to be drawn"),
            (Io { each_block_once: true, ..extend.clone() }, false, "random access"),
            (Io { sharing: Sharing::Shared, ..extend.clone() }, false, "share"),
            (Io { reads: Percent(1.0), ..extend.clone() }, false, "only write"),
            (extend.clone(), true, "nor extended"),
            (Io { access: Access::Append, sharing: Sharing::Region, ..extend.clone() }, false, "share"),
            (Io { update: Percent(1.0), ..extend }, false, "nothing is read"),
            (Io { update: Percent(f64::NAN), ..io() }, false, "update = NaN% is out of range"),
            (Io { total_size: Bytes(4096), ..region }, false, "each of 2 threads"),
        ] {
            let got = problem(io, device);
            assert!(got.contains(words), "{got} / {words}");
        }
        let mut load = load_of(io(), 1);
        load.rate = Some(Rate { per_second: f64::INFINITY, arrivals: Arrivals::Constant });
        assert!(validate(&load, false).unwrap_err().to_string().contains("offered rate"));
    }

    #[test]
    fn impossible_combinations_are_named() {
        let append = Io { access: Access::Append, sharing: Sharing::PerThread, reads: Percent(0.0), ..io() };
        for (io, device, words) in [
            (Io { depth: 2, ..io() }, false, "one request in flight"),
            (Io { depth: 0, ..io() }, false, "depth = 0 is out of range"),
            (Io { direct: true, block_size: Bytes(1000), ..io() }, false, "requests of 1000B"),
            (Io { block_size: Bytes(1000), ..io() }, true, "multiple of 512"),
            (Io { block_size: Bytes(0), ..io() }, false, "block_size = 0B is out of range"),
            (Io { files: 0, ..io() }, false, "files = 0 is out of range"),
            (Io { total_size: Bytes(4095), ..io() }, false, "smaller than one request"),
            (Io { total_size: Bytes(8191), sharing: Sharing::PerThread, ..io() }, false, "has 0 blocks"),
            (Io { reads: Percent(f64::NAN), ..io() }, false, "reads = NaN% is out of range"),
            (
                Io { backend: Backend::IoUring, depth: 1024, block_size: Bytes::mib(2), ..io() },
                false,
                "memory",
            ),
            (Io { sharing: Sharing::Shared, ..append.clone() }, false, "share"),
            (Io { reads: Percent(1.0), ..append.clone() }, false, "only write"),
            (append, true, "appended"),
            (Io { layout: Layout::Sparse, ..io() }, false, "holes"),
            (Io { backend: Backend::Mmap, depth: 2, ..io() }, false, "before the next"),
            (Io { backend: Backend::Mmap, open_sync: OpenSync::Sync, ..io() }, false, "O_SYNC"),
            (Io { backend: Backend::Aio, depth: 1025, ..io() }, false, "1024"),
        ] {
            let got = problem(io, device);
            assert!(got.contains(words), "{got} / {words}");
        }
    }
}
