//! Caches before the load: written out and dropped, so that every run starts as cold as the one before.

use crate::{error::StackError, host, sysfs};
use std::{fs::File, path::Path};

/// Writes out everything dirty on the filesystem that holds `path`.
///
/// # Errors
/// The filesystem reports that it could not.
pub fn sync_filesystem(path: &Path) -> Result<(), StackError> {
    let folder = File::open(path).map_err(|e| StackError::io("open", path, e))?;
    rustix::fs::syncfs(&folder).map_err(|e| StackError::io("sync the filesystem of", path, e))
}

/// Drops the page cache, dentries and inodes of the whole machine; nothing without root.
///
/// # Errors
/// Root may not either.
pub fn drop_caches() -> Result<(), StackError> {
    if host::is_root() { sysfs::write("/proc/sys/vm/drop_caches", "3") } else { Ok(()) }
}
