//! Shows a served device to the kernel as the only file of a FUSE filesystem, for a loop device to stand on.
//!
//! The file is opened past the page cache (`FOPEN_DIRECT_IO`), with writes side by side
//! (`FOPEN_PARALLEL_DIRECT_WRITES`), and the kernel may send requests without waiting for each other
//! (`FUSE_ASYNC_DIO`): without that a loop device has one request under way at a time. A flush of the block device
//! comes as fsync, a discard as fallocate.

use crate::{
    error::DeviceError,
    server::Server,
    simulator::{Kind, Request as DeviceRequest},
};
use fuser::{
    AccessFlags, BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, WriteFlags,
};
use std::{
    ffi::{OsStr, OsString},
    fs::File,
    path::Path,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

/// Threads that take requests from the kernel.
const THREADS: usize = 2;
/// Requests that the kernel sends without waiting for answers.
const MOST_UNDER_WAY: u16 = 1024;
/// Largest write that the kernel may send.
const LARGEST_WRITE: u32 = 1 << 20;
/// The file; the folder is always 1.
const FILE: INodeNo = INodeNo(2);
/// How long the kernel may keep names and attributes: they never change.
const FOR_EVER: Duration = Duration::from_secs(86_400);

/// A file that is a device. The filesystem goes when this is dropped, or the process ends.
pub struct Shown {
    /// First in order: while it is open the filesystem cannot be unmounted.
    file: File,
    _session: BackgroundSession,
}

impl Shown {
    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }
}

/// Mounts the filesystem at an empty folder and opens its file, which has this name.
///
/// # Errors
/// The kernel has no FUSE, or not for us.
pub fn show(server: Arc<Server>, folder: &Path, name: &str) -> Result<Shown, DeviceError> {
    let no_fuse = |source| DeviceError::NoFuse { source };
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("fstrial".into()),
        MountOption::NoDev,
        MountOption::NoSuid,
        MountOption::NoExec,
    ];
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    let front = Front { server, name: name.into() };
    let session = Session::new(front, folder, &config).and_then(Session::spawn).map_err(no_fuse)?;
    let path = folder.join(name);
    let file =
        File::options().read(true).write(true).open(&path).map_err(|e| DeviceError::io("open", path, e))?;
    Ok(Shown { file, _session: session })
}

/// The filesystem of one file.
struct Front {
    server: Arc<Server>,
    name: OsString,
}

impl Front {
    fn attributes(&self, number: INodeNo) -> FileAttr {
        let is_file = number == FILE;
        let size = if is_file { self.server.backing().size() } else { 0 };
        FileAttr {
            ino: number,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_file { FileType::RegularFile } else { FileType::Directory },
            perm: if is_file { 0o600 } else { 0o700 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Front {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        for wanted in [InitFlags::FUSE_ASYNC_DIO, InitFlags::FUSE_BIG_WRITES, InitFlags::FUSE_MAX_PAGES] {
            // An older kernel is slower, not wrong.
            let _ = config.add_capabilities(wanted);
        }
        let _ = config.set_max_background(MOST_UNDER_WAY);
        let _ = config.set_max_write(LARGEST_WRITE);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == self.name {
            reply.entry(&FOR_EVER, &self.attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOR_EVER, &self.attributes(number));
    }

    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        reply.ok();
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(
            FileHandle(0),
            FopenFlags::FOPEN_DIRECT_IO
                | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
                | FopenFlags::FOPEN_NOFLUSH,
        );
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Somebody closes the file; nothing to do with the device's cache.
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        if !self.server.backing().holds(offset, size.into()) {
            return reply.error(Errno::EINVAL);
        }
        match self.server.backing().read(offset, size as usize) {
            Err(error) => reply.error(error.into()),
            Ok(data) => {
                let request = DeviceRequest { kind: Kind::Read, offset, length: size.into() };
                self.server.submit(request, Box::new(move || reply.data(&data)));
            }
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let length = data.len() as u64;
        if !self.server.backing().holds(offset, length) {
            return reply.error(Errno::ENOSPC);
        }
        if let Err(error) = self.server.backing().write(offset, data) {
            return reply.error(error.into());
        }
        let written = u32::try_from(length).expect("the kernel sends at most a mebibyte");
        let request = DeviceRequest { kind: Kind::Write, offset, length };
        self.server.submit(request, Box::new(move || reply.written(written)));
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let request = DeviceRequest { kind: Kind::Flush, offset: 0, length: 0 };
        self.server.submit(request, Box::new(move || reply.ok()));
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        _: i32,
        reply: ReplyEmpty,
    ) {
        // Whatever the mode, for a device it means zeroes: to allocate there is nothing.
        if !self.server.backing().holds(offset, length) {
            return reply.error(Errno::ENOSPC);
        }
        if !self.server.takes_discards() {
            return reply.error(Errno::EOPNOTSUPP);
        }
        if let Err(error) = self.server.backing().discard(offset, length) {
            return reply.error(error.into());
        }
        let request = DeviceRequest { kind: Kind::Discard, offset, length };
        self.server.submit(request, Box::new(move || reply.ok()));
    }
}
