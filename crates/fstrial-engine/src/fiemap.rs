//! Places of a file's blocks on its device: the FIEMAP ioctl.
//!
//! An island: no library wraps it.
#![expect(unsafe_code, reason = "ioctl takes raw arguments")]

use rustix::io::Errno;
use std::{
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    path::Path,
};

/// `FS_IOC_FIEMAP`: `_IOWR('f', 11, struct fiemap)`, of which the extents are not counted.
const FIEMAP: libc::c_ulong = 0xC020_660B;
/// The last extent of the file.
const LAST: u32 = 0x1;
/// Not allocated yet, or somewhere that has no address (inline, in a tail).
const NOWHERE: u32 = 0x2 | 0x4 | 0x200 | 0x400;
/// Stored in another form (compressed, encrypted): its length on the device is unknown.
const ENCODED: u32 = 0x8;
/// Extents per request.
const BATCH: usize = 128;

/// `struct fiemap_extent` of <linux/fiemap.h>.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap` with room for extents.
#[repr(C)]
struct Request {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [RawExtent; BATCH],
}

/// A stretch of a file that is contiguous on the device. In bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Offset in the file.
    pub(crate) logical: u64,
    /// Offset on the device.
    pub(crate) physical: u64,
    pub(crate) length: u64,
}

/// Passes every extent of a file that has an address, in the order of the file. The file must be synced. False if parts
/// of it are stored in another form, at an unknown place.
///
/// # Errors
/// The filesystem does not support it (`OPNOTSUPP`).
pub(crate) fn for_each_extent(file: BorrowedFd<'_>, visit: &mut dyn FnMut(Extent)) -> Result<bool, Errno> {
    let mut start = 0;
    let mut is_plain = true;
    loop {
        let mut request = Request {
            start,
            length: u64::MAX - start,
            flags: 0,
            mapped_extents: 0,
            extent_count: BATCH as u32,
            reserved: 0,
            extents: [RawExtent::default(); BATCH],
        };
        // SAFETY: the descriptor is open; `request` has the kernel's layout (a test checks its size), states truthfully
        // how many extents it has room for, and lives across the call.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP, &raw mut request) };
        if result != 0 {
            return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO));
        }
        let mapped = &request.extents[..(request.mapped_extents as usize).min(BATCH)];
        for raw in mapped {
            is_plain &= raw.flags & ENCODED == 0;
            if raw.flags & NOWHERE == 0 {
                visit(Extent { logical: raw.logical, physical: raw.physical, length: raw.length });
            }
        }
        match mapped.last() {
            Some(last) if last.flags & LAST == 0 && last.length > 0 => start = last.logical + last.length,
            _ => return Ok(is_plain),
        }
    }
}

/// Pieces of a file on its device, at least 1: extents that continue each other, in the file and on the device, are
/// one. The file is synced first, so that it has places.
///
/// # Errors
/// It cannot be opened or synced, or the filesystem does not support it.
pub fn pieces(path: &Path) -> io::Result<u64> {
    let file = File::open(path)?;
    file.sync_all()?;
    let (mut count, mut last) = (0, None);
    for_each_extent(file.as_fd(), &mut |extent| {
        count += u64::from(last.is_none_or(|last| !continues(last, extent)));
        last = Some(extent);
    })?;
    Ok(count.max(1))
}

fn continues(last: Extent, next: Extent) -> bool {
    last.logical + last.length == next.logical && last.physical + last.length == next.physical
}

const _: () = assert!(size_of::<RawExtent>() == 56);
const _: () = assert!(size_of::<Request>() == 32 + BATCH * 56);

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{fsync, ftruncate};

    #[test]
    fn detects_contiguous_extents() {
        let extent = |logical, physical, length| Extent { logical, physical, length };
        assert!(continues(extent(0, 100, 10), extent(10, 110, 5)));
        assert!(!continues(extent(0, 100, 10), extent(10, 200, 5)), "elsewhere on the device");
        assert!(!continues(extent(0, 100, 10), extent(20, 110, 5)), "a hole");
    }

    #[test]
    fn extents_cover_written_ranges() {
        let file = tempfile::tempfile_in("/var/tmp").unwrap();
        ftruncate(&file, 1 << 20).unwrap();
        rustix::io::pwrite(&file, &[1; 8192], 0).unwrap();
        rustix::io::pwrite(&file, &[2; 8192], 512 << 10).unwrap();
        fsync(&file).unwrap();
        let mut covered = Vec::new();
        match for_each_extent(file.as_fd(), &mut |extent| covered.push(extent)) {
            Ok(_) => {
                let has = |at: u64| covered.iter().any(|e| (e.logical..e.logical + e.length).contains(&at));
                assert!(has(0) && has(4096) && has(512 << 10) && has((512 << 10) + 4096), "{covered:?}");
                assert!(!has(256 << 10), "{covered:?}");
            }
            Err(error) => assert_eq!(error, Errno::OPNOTSUPP),
        }
    }
}
