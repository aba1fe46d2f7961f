//! Loop devices: a file as a block device, detached by the kernel itself at the last close (autoclear).
//!
//! A worker that dies by any signal closes its descriptor and, with its mount namespace, the last mount; then the file
//! is detached too. The device itself is one that we add and remove again, because some settings of a queue cannot be
//! restored: a discard limit of 0 stays (kernel 6.18 takes the granularity for 0 then, and refuses any other value).
//! Its removal is in the ledger. If a device cannot be added (a container with a separate /dev), a free one of the host
//! is used, and its discards are left as they are.

use crate::{
    error::StackError,
    host, ioctl,
    ledger::{Ledger, LedgerEntry, NodeMark, Undo},
    sysfs,
};
use rustix::fs::{Mode, OFlags};
use std::{
    fs,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// Attempts at a free device while other processes take them.
const ATTEMPTS: u32 = 50;
/// First number for a new device: well above those that others request.
const FIRST_OWN: u32 = 64;
/// Time limit for a closed device to become free: a probe of udev may still have it open.
const RELEASE: Duration = Duration::from_secs(2);
const CONTROL: &str = "/dev/loop-control";

/// A file attached as a block device.
#[must_use]
#[derive(Debug)]
pub struct LoopDevice {
    /// Holds the device attached.
    fd: Option<OwnedFd>,
    number: u32,
    /// The removal in the ledger, if the device was added by us.
    added: Option<LedgerEntry>,
}

impl LoopDevice {
    /// Attaches an open file.
    ///
    /// # Errors
    /// No permission, no loop driver, or the file cannot do direct I/O.
    pub fn attach(file: BorrowedFd<'_>, direct_io: bool, ledger: &Ledger) -> Result<Self, StackError> {
        let control = control()?;
        let mut may_add = true;
        let mut next = FIRST_OWN;
        for _ in 0..ATTEMPTS {
            let own = if may_add { add(control.as_fd(), &mut next, file, ledger)? } else { None };
            may_add = own.is_some();
            let (number, added) = match own {
                Some((number, written)) => (number, Some(written)),
                None => {
                    let number = ioctl::loop_get_free(control.as_fd())
                        .map_err(|e| StackError::io("get a free loop device from", CONTROL, e))?;
                    (number, None)
                }
            };
            let mut device = Self { fd: None, number, added };
            let fd = rustix::fs::open(device.path(), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
                .map_err(|e| StackError::io("open", device.path(), e))?;
            match ioctl::loop_configure(fd.as_fd(), file, direct_io) {
                Ok(()) => {
                    device.fd = Some(fd);
                    device.check_direct_io(direct_io)?;
                    return Ok(device);
                }
                // Another process was faster and has it now; request another one.
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    if let Some(written) = device.added.take() {
                        written.strike_out()?;
                    }
                }
                Err(error) => return Err(StackError::io("attach a file to", device.path(), error)),
            }
        }
        Err(StackError::Unable {
            what: "every free loop device was taken by another process".into(),
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

    /// True if we added it and it goes away with its settings.
    pub fn is_ours(&self) -> bool {
        self.added.is_some()
    }

    /// Releases it. It detaches once a late probe of udev has closed it too; if that takes long, its removal stays in
    /// the ledger.
    pub fn close(self) {
        drop(self);
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        drop(self.fd.take());
        if let Some(written) = self.added.take()
            && let Ok(true) = remove(self.number, RELEASE)
        {
            // If its entry cannot be deleted, the next replay finds the device gone.
            let _ = written.strike_out();
        }
    }
}

fn control() -> Result<OwnedFd, StackError> {
    rustix::fs::open(CONTROL, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| StackError::io("open", CONTROL, e))
}

fn node(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/loop{number}"))
}

/// Adds a new device; none if that cannot be done here. `next` is the first number to try.
fn add(
    control: BorrowedFd<'_>,
    next: &mut u32,
    file: BorrowedFd<'_>,
    ledger: &Ledger,
) -> Result<Option<(u32, LedgerEntry)>, StackError> {
    let file = name_of(file)?;
    for _ in 0..ATTEMPTS * 20 {
        let number = *next;
        *next += 1;
        if Path::new(&format!("/sys/block/loop{number}")).exists() {
            continue;
        }
        let announced = ledger.write(Undo::RemoveUnusedLoop { index: number, moment: host::moment() })?;
        let made = ioctl::loop_add(control, number);
        if let (Ok(()), Some(mark)) = (&made, NodeMark::of(&node(number))) {
            let written = ledger.write(Undo::RemoveLoop { index: number, file: file.clone(), node: mark })?;
            announced.strike_out()?;
            return Ok(Some((number, written)));
        }
        if made.is_ok() {
            // This /dev does not show new devices. If another process uses it already, that sees more than we do.
            let _ = ioctl::loop_remove(control, number);
        }
        announced.strike_out()?;
        if made.is_ok() || made.is_err_and(|e| e.raw_os_error() != Some(libc::EEXIST)) {
            return Ok(None);
        }
    }
    Ok(None)
}

/// Removes an unbound device; returns whether it is gone, or still busy after the given time.
fn remove(number: u32, patience: Duration) -> Result<bool, StackError> {
    let control = control()?;
    let until = Instant::now() + patience;
    loop {
        match ioctl::loop_remove(control.as_fd(), number) {
            Ok(()) => return Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return Ok(true),
            Err(error) if error.raw_os_error() != Some(libc::EBUSY) => {
                return Err(StackError::io("remove", node(number), error));
            }
            Err(_) if Instant::now() > until => return Ok(false),
            Err(_) => thread::park_timeout(Duration::from_millis(2)),
        }
    }
}

/// Removes a device that we added to attach `file`. Fine if it is gone, or another process's by now.
pub(crate) fn remove_ours(number: u32, file: &Path, known: NodeMark) -> Result<(), StackError> {
    let folder = PathBuf::from(format!("/sys/block/loop{number}"));
    if !folder.exists() || !known.is_of(&node(number))? || remove(number, RELEASE * 2)? {
        return Ok(());
    }
    match sysfs::read(folder.join("loop/backing_file")) {
        Ok(backing) if Path::new(&backing) != file => Ok(()),
        // Still ours, or being removed, or opened by a probe.
        _ => Err(StackError::io("remove", node(number), rustix::io::Errno::BUSY)),
    }
}

/// Removes a device that we were about to add, if it was added then and is bound to nothing.
pub(crate) fn remove_unused(number: u32, at: u64) -> Result<(), StackError> {
    let folder = PathBuf::from(format!("/sys/block/loop{number}"));
    if !folder.exists() || folder.join("loop").exists() || !NodeMark::is_of_moment(&node(number), at)? {
        return Ok(());
    }
    match remove(number, RELEASE)? {
        true => Ok(()),
        false => Err(StackError::io("remove", node(number), rustix::io::Errno::BUSY)),
    }
}

/// The name of an open file as the kernel shows it, with ` (deleted)` if it has none.
fn name_of(file: BorrowedFd<'_>) -> Result<PathBuf, StackError> {
    let link = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    fs::read_link(&link).map_err(|e| StackError::io("read", &link, e))
}

/// Loop devices whose backing file is the one of an open descriptor, by the name the kernel shows for both.
///
/// # Errors
/// `/proc` or `/sys` cannot be read.
pub fn attached_to(file: BorrowedFd<'_>) -> Result<Vec<PathBuf>, StackError> {
    let name = name_of(file)?;
    let block = Path::new("/sys/block");
    let entries = fs::read_dir(block).map_err(|e| StackError::io("list", block, e))?;
    let mut result = Vec::new();
    for entry in entries.flatten() {
        if let Ok(backing) = sysfs::read(entry.path().join("loop/backing_file"))
            && Path::new(&backing) == name
        {
            result.push(Path::new("/dev").join(entry.file_name()));
        }
    }
    Ok(result)
}
