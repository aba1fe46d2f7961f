//! Capabilities of this host: filesystems of the kernel, privileges, memory, space.

use crate::{
    command::{self, Program},
    error::StackError,
    ioctl, sysfs,
};
use fstrial_model::{
    filesystem::{Filesystem, Several},
    state::Space,
    units::Bytes,
};
use std::{
    fs,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

/// True if this process may mount and make devices.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// True if this process may override resource limits, which ext4 requires for an online resize.
pub fn has_resource_capability() -> bool {
    use rustix::thread::{CapabilitySet, capabilities};
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_RESOURCE))
}

/// True if the kernel lists a filesystem right now.
///
/// # Errors
/// `/proc` is not mounted.
pub fn kernel_lists(filesystem: &Filesystem) -> Result<bool, StackError> {
    let listed = sysfs::read("/proc/filesystems")?;
    Ok(listed.lines().any(|line| line.split_whitespace().last() == Some(filesystem.kernel)))
}

/// True if the kernel has a filesystem, or a module for it. Loads none.
///
/// # Errors
/// `/proc` is not mounted.
pub fn has_filesystem(filesystem: &Filesystem) -> Result<bool, StackError> {
    Ok(kernel_lists(filesystem)? || command::has_module(filesystem.module))
}

/// Makes sure that the kernel has a filesystem, loading its module if there is one.
///
/// # Errors
/// It has not.
pub fn require_filesystem(filesystem: &'static Filesystem) -> Result<(), StackError> {
    if kernel_lists(filesystem)? {
        return Ok(());
    }
    command::load_module(filesystem.module);
    if kernel_lists(filesystem)? {
        Ok(())
    } else {
        Err(StackError::UnknownToKernel { filesystem: filesystem.name })
    }
}

/// Makes the kernel forget a filesystem's devices, if it remembers any. A failure only costs memory.
pub(crate) fn forget(several: Several, devices: impl IntoIterator<Item = String>) {
    let (program, words) = several.forget;
    // Nothing to forget is an error of the tool, and fine.
    let _ = Program::new(program).args(words.iter().copied()).args(devices).finish();
}

/// Path by which other processes of this host can open our open file, while we hold it: no name is needed.
pub fn path_of_descriptor(file: BorrowedFd<'_>) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into()
}

/// A unique word on this host, for objects found by their name.
pub fn unique_name() -> String {
    format!("{}-{}", std::process::id(), moment())
}

/// This moment, in nanoseconds since 1970.
pub(crate) fn moment() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Size of a block device.
///
/// # Errors
/// It may not be read, or is not a device.
pub fn size_of_device(path: &Path) -> Result<Bytes, StackError> {
    let file = fs::File::open(path).map_err(|e| StackError::io("open", path, e))?;
    let size = ioctl::block_device_size(file.as_fd());
    size.map(Bytes).map_err(|e| StackError::io("ask for the size of", path, e))
}

/// Memory that can be taken without swapping.
///
/// # Errors
/// `/proc` is not mounted.
pub fn memory_available() -> Result<Bytes, StackError> {
    memory_field("MemAvailable:")
}

/// Memory in all.
///
/// # Errors
/// `/proc` is not mounted.
pub fn memory() -> Result<Bytes, StackError> {
    memory_field("MemTotal:")
}

fn memory_field(name: &str) -> Result<Bytes, StackError> {
    let info = sysfs::read("/proc/meminfo")?;
    let kib = info
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0);
    Ok(Bytes::kib(kib))
}

/// Space that this process can still fill on the filesystem of `path`.
///
/// # Errors
/// The path does not exist.
pub fn space_available(path: &Path) -> Result<Bytes, StackError> {
    let stat = rustix::fs::statvfs(path).map_err(|e| StackError::io("ask for the space left at", path, e))?;
    Ok(Bytes(stat.f_bavail * stat.f_frsize))
}

/// Space in use and left on the filesystem of `path`.
///
/// # Errors
/// The path does not exist.
pub fn space(path: &Path) -> Result<Space, StackError> {
    let stat = rustix::fs::statvfs(path).map_err(|e| StackError::io("ask for the space at", path, e))?;
    let used = Bytes((stat.f_blocks - stat.f_bfree) * stat.f_frsize);
    Ok(Space { used, available: Bytes(stat.f_bavail * stat.f_frsize) })
}

/// The filesystem type that holds `path`, as the kernel names it.
///
/// # Errors
/// The path does not exist.
pub fn filesystem_of(path: &Path) -> Result<String, StackError> {
    let real = fs::canonicalize(path).map_err(|e| StackError::io("find", path, e))?;
    let holder = crate::mounts::holding(&real)?;
    Ok(holder.map_or_else(|| "unknown".into(), |m| m.filesystem))
}
