//! `ramdisk`: the best block device in memory that this kernel has.
//!
//! An unused brd, if there is one; else a new zram device; else a loop device on a file in memory.

use super::{
    Device, DeviceRequest, Permission, Progress, disk, image::Image, require_room, several::Several, zram,
};
use crate::error::StackError;
use fstrial_model::units::Bytes;
use std::{fs::File, os::unix::fs::FileExt, path::PathBuf};

/// Makes or finds one, or makes members.
///
/// # Errors
/// Not enough memory, or no permission.
pub fn provide(requested: &DeviceRequest<'_>, progress: Progress<'_>) -> Result<Box<dyn Device>, StackError> {
    let own = |tell: Progress<'_>| -> Result<Box<dyn Device>, StackError> {
        match zram::is_available() {
            true => Ok(Box::new(zram::Zram::add(requested.size, requested.ledger)?)),
            false => Ok(Box::new(Image::in_memory(requested.size, tell)?)),
        }
    };
    if let Some(count) = requested.spec.members {
        require_room(None, Bytes(requested.size.0 * u64::from(count)), "members in memory")?;
        return Several::make(requested, count, progress, own);
    }
    require_room(None, requested.size, "a ramdisk")?;
    match unused_brd(requested.size) {
        Some(brd) => Ok(Box::new(brd)),
        None => own(progress),
    }
}

/// Makes one for a log: a loop device on a file in memory, with the smallest sectors. zram has sectors of 4 KiB, which
/// mkfs of a filesystem on smaller ones refuses for its log.
///
/// # Errors
/// Not enough memory, or no permission.
pub fn for_log(size: Bytes, progress: Progress<'_>) -> Result<Box<dyn Device>, StackError> {
    require_room(None, size, "a ramdisk")?;
    Ok(Box::new(Image::in_memory(size, progress)?))
}

/// A brd device that is large enough, unused and empty: it passes every check of `disk`, and its first and last
/// mebibyte are zero.
fn unused_brd(size: Bytes) -> Option<disk::Disk> {
    (0..16).map(|number| PathBuf::from(format!("/dev/ram{number}"))).filter(|path| path.exists()).find_map(
        |path| {
            let permission = Permission { erase: Some(path.clone()), erase_signatures: Vec::new() };
            let accepted = disk::Disk::accept(&path, size, &permission).ok()?;
            let file = File::open(&path).ok()?;
            let mut chunk = vec![0_u8; 1 << 20];
            for offset in [0, accepted.size().0.checked_sub(1 << 20)?] {
                file.read_exact_at(&mut chunk, offset).ok()?;
                if chunk.iter().any(|byte| *byte != 0) {
                    return None;
                }
            }
            let description = format!("ramdisk: {} (brd), {}", path.display(), accepted.size().human());
            Some(accepted.described(description))
        },
    )
}
