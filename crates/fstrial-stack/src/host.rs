//! What this host has: filesystems the kernel knows, privileges, memory, space.

use crate::{command::Program, error::StackError, sysfs};
use fstrial_model::{filesystem::Filesystem, state::Space, units::Bytes};
use std::{fs, path::Path};

/// Whether this process may mount and make devices.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether this process may override limits of resources, which ext4 asks for to change its size while it is mounted.
pub fn has_resource_capability() -> bool {
    use rustix::thread::{CapabilitySet, capabilities};
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_RESOURCE))
}

/// Whether the kernel lists a filesystem right now.
///
/// # Errors
/// `/proc` is not mounted.
pub fn kernel_lists(filesystem: &Filesystem) -> Result<bool, StackError> {
    let listed = sysfs::read("/proc/filesystems")?;
    Ok(listed.lines().any(|line| line.split_whitespace().last() == Some(filesystem.kernel)))
}

/// Makes sure that the kernel has a filesystem, loading its module if there is one.
///
/// # Errors
/// It has not.
pub fn require_filesystem(filesystem: &'static Filesystem) -> Result<(), StackError> {
    if kernel_lists(filesystem)? {
        return Ok(());
    }
    if crate::command::find("modprobe").is_some() {
        // Whether it worked shows below; its message ("module not found") says less than ours.
        let _ = Program::new("modprobe").args([filesystem.module]).finish();
    }
    if kernel_lists(filesystem)? {
        Ok(())
    } else {
        Err(StackError::UnknownToKernel { filesystem: filesystem.name })
    }
}

/// Memory that can be taken without swapping.
///
/// # Errors
/// `/proc` is not mounted.
pub fn memory_available() -> Result<Bytes, StackError> {
    let info = sysfs::read("/proc/meminfo")?;
    let kib = info
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0);
    Ok(Bytes::kib(kib))
}

/// Refuses what would take more than seven tenths of the memory available.
///
/// # Errors
/// It would; says for what.
pub fn require_memory(size: Bytes, what: &str) -> Result<(), StackError> {
    let available = memory_available()?;
    if available.0 / 10 * 7 >= size.0 {
        return Ok(());
    }
    Err(StackError::Unable {
        what: format!("{what} of {size} needs more memory than is free ({})", available.human()),
        hint: "use a smaller --size".into(),
    })
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
