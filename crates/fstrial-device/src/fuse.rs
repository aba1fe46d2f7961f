//! Shows a served device to the kernel as a file of a FUSE filesystem, for a loop device to use. Two more files serve
//! [power cuts](crate::cuts): the image after a cut, and the one that takes orders and promises.
//!
//! The files are opened past the page cache (`FOPEN_DIRECT_IO`), with writes side by side
//! (`FOPEN_PARALLEL_DIRECT_WRITES`), and the kernel may send requests without waiting for each other
//! (`FUSE_ASYNC_DIO`): without that a loop device has one request under way at a time. A flush of the block device
//! comes as fsync, a discard as fallocate.

use crate::{
    cuts::Cuts,
    error::DeviceError,
    front::{CutFiles, ExposedDevice, FrontEnd},
    server::Server,
    simulator,
};
use fuser::{
    AccessFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, Session, WriteFlags,
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
const MAX_IN_FLIGHT: u16 = 1024;
/// Largest write that the kernel may send.
const MAX_WRITE: u32 = 1 << 20;
/// The device; the folder is always 1.
const DEVICE: INodeNo = INodeNo(2);
/// Its image after a power cut.
const IMAGE: INodeNo = INodeNo(3);
/// The file for orders to it.
const CONTROL: INodeNo = INodeNo(4);
/// Time for which the kernel may cache names and attributes: they never change.
const FOR_EVER: Duration = Duration::from_secs(86_400);

/// FUSE, mounted at an empty folder.
pub struct Fuse<'a> {
    /// The folder, in a namespace of this process.
    pub folder: &'a Path,
}

impl FrontEnd for Fuse<'_> {
    fn show(&self, server: Arc<Server>, name: &str) -> Result<ExposedDevice, DeviceError> {
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
        let [image, control] = ["image", "control"].map(|suffix| format!("{name}.{suffix}"));
        let names = [name, &image, &control].map(OsString::from);
        let device = Files { server, cuts: Arc::default(), names };
        let session = Session::new(device, self.folder, &config).and_then(Session::spawn).map_err(no_fuse)?;
        let open = |name: &str| {
            let path = self.folder.join(name);
            let opened = File::options().read(true).write(true).open(&path);
            opened.map_err(|error| DeviceError::io("open", path, error))
        };
        let cuts = CutFiles { control: open(&control)?, image: open(&image)? };
        Ok(ExposedDevice::new(open(name)?, session).with_cuts(cuts))
    }
}

/// The filesystem of a device's files.
struct Files {
    server: Arc<Server>,
    cuts: Arc<Cuts>,
    /// Names of the device, its image and its control file.
    names: [OsString; 3],
}

impl Files {
    /// Submits a request; its completion is recorded before the kernel has the answer.
    fn submit(&self, request: simulator::Request, id: u64, answer: impl FnOnce() + Send + 'static) {
        let cuts = Arc::clone(&self.cuts);
        self.server.submit(
            request,
            Box::new(move || {
                cuts.complete(id);
                answer();
            }),
        );
    }

    fn attributes(&self, number: INodeNo) -> FileAttr {
        let is_file = number != INodeNo::ROOT;
        let size = if [DEVICE, IMAGE].contains(&number) { self.server.size() } else { 0 };
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

impl Filesystem for Files {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        for wanted in [InitFlags::FUSE_ASYNC_DIO, InitFlags::FUSE_BIG_WRITES, InitFlags::FUSE_MAX_PAGES] {
            // An older kernel is slower, not wrong.
            let _ = config.add_capabilities(wanted);
        }
        let _ = config.set_max_background(MAX_IN_FLIGHT);
        let _ = config.set_max_write(MAX_WRITE);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut known = [DEVICE, IMAGE, CONTROL].into_iter().zip(&self.names);
        match known.find(|(_, known)| parent == INodeNo::ROOT && **known == name) {
            Some((number, _)) => reply.entry(&FOR_EVER, &self.attributes(number), Generation(0)),
            None => reply.error(Errno::ENOENT),
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
        // A close of the file; it does not affect the device's cache.
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match number {
            IMAGE | CONTROL => {
                let read = match number {
                    IMAGE => self.cuts.read_image(offset, size as usize),
                    _ => self.cuts.answer(offset, size as usize),
                };
                match read {
                    Ok(data) => reply.data(&data),
                    Err(error) => reply.error(error.into()),
                }
            }
            _ => match self.server.read(offset, size) {
                Ok((request, data)) => self.server.submit(request, Box::new(move || reply.data(&data))),
                Err(error) => reply.error(error.into()),
            },
        }
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = u32::try_from(data.len()).expect("the kernel sends at most a mebibyte");
        let done = match number {
            IMAGE => self.cuts.write_image(offset, data),
            CONTROL => self.cuts.order(&self.server, data),
            _ => {
                return match self.cuts.write(&self.server, offset, data) {
                    Ok((request, id)) => self.submit(request, id, move || reply.written(written)),
                    Err(error) => reply.error(error.into()),
                };
            }
        };
        match done {
            Ok(()) => reply.written(written),
            Err(error) => reply.error(error.into()),
        }
    }

    fn fsync(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match number {
            DEVICE => self.submit(Server::flush(), self.cuts.flush(), move || reply.ok()),
            _ => reply.ok(),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        _: i32,
        reply: ReplyEmpty,
    ) {
        // In any mode, for a device it means zeroes: there is no space to allocate.
        let done = match number {
            IMAGE => Some(self.cuts.zero_image(offset, length)),
            CONTROL => Some(Err(rustix::io::Errno::OPNOTSUPP.into())),
            _ => None,
        };
        if let Some(done) = done {
            return match done {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(error.into()),
            };
        }
        match self.cuts.discard(&self.server, offset, length) {
            Ok((request, id)) => self.submit(request, id, move || reply.ok()),
            Err(error) => reply.error(error.into()),
        }
    }
}
