//! Loop devices: a file as a block device, detached by the kernel itself at the last close (autoclear).
//!
//! A worker that dies by any signal closes its descriptor and, with its mount namespace, the last mount; then the
//! loop device goes too. Nothing to write to the ledger.

use crate::{error::StackError, ioctl, sysfs};
use rustix::fs::{Mode, OFlags};
use std::{
    fs,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

/// How often a free device is asked for when others take them away.
const ATTEMPTS: u32 = 50;

/// A file attached as a block device.
#[must_use]
#[derive(Debug)]
pub struct LoopDevice {
    /// Holds the device attached.
    fd: OwnedFd,
    number: u32,
}

impl LoopDevice {
    /// Attaches an open file.
    ///
    /// # Errors
    /// No permission, no loop driver, or the file cannot do direct I/O.
    pub fn attach(file: BorrowedFd<'_>, direct_io: bool) -> Result<Self, StackError> {
        let control_path = "/dev/loop-control";
        let control = rustix::fs::open(control_path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| StackError::io("open", control_path, e))?;
        for _ in 0..ATTEMPTS {
            let number = ioctl::loop_get_free(control.as_fd())
                .map_err(|e| StackError::io("get a free loop device from", control_path, e))?;
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let fd = rustix::fs::open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
                .map_err(|e| StackError::io("open", &path, e))?;
            match ioctl::loop_configure(fd.as_fd(), file, direct_io) {
                Ok(()) => {
                    let device = Self { fd, number };
                    device.check_direct_io(direct_io)?;
                    return Ok(device);
                }
                // Somebody else was faster: ask for another one.
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
                Err(error) => return Err(StackError::io("attach a file to", path, error)),
            }
        }
        Err(StackError::Unable {
            what: "every free loop device was taken by somebody else".into(),
            hint: "see `losetup -a`; try again".into(),
        })
    }

    /// The kernel may fall back to buffered I/O silently; then the host's page cache would be measured.
    fn check_direct_io(&self, wanted: bool) -> Result<(), StackError> {
        if !wanted || sysfs::read(self.sysfs().join("loop/dio"))? == "1" {
            return Ok(());
        }
        Err(StackError::Unable {
            what: format!("{} cannot do direct I/O on the image's filesystem", self.path().display()),
            hint: "put the image elsewhere (--device image:/some/folder), or use --device ramdisk".into(),
        })
    }

    /// Its node.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/loop{}", self.number))
    }

    /// Its folder in sysfs.
    pub fn sysfs(&self) -> PathBuf {
        PathBuf::from(format!("/sys/block/loop{}", self.number))
    }

    /// Gives up our hold. The device detaches when nobody else (a late probe of udev) has it open either.
    pub fn close(self) {
        drop(self.fd);
    }
}

/// Loop devices whose backing file is the one behind an open descriptor, by the name the kernel shows for both.
///
/// # Errors
/// `/proc` or `/sys` cannot be read.
pub fn attached_to(file: BorrowedFd<'_>) -> Result<Vec<PathBuf>, StackError> {
    use std::os::fd::AsRawFd;
    let link = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let name = fs::read_link(&link).map_err(|e| StackError::io("read", &link, e))?;
    let block = Path::new("/sys/block");
    let entries = fs::read_dir(block).map_err(|e| StackError::io("list", block, e))?;
    let mut found = Vec::new();
    for entry in entries.flatten() {
        if let Ok(backing) = sysfs::read(entry.path().join("loop/backing_file"))
            && Path::new(&backing) == name
        {
            found.push(Path::new("/dev").join(entry.file_name()));
        }
    }
    Ok(found)
}
