//! The few ioctls that no library wraps: loop devices, sizes of block devices, freezing, shutdown and extents. Kernel 5.8 or later (LOOP_CONFIGURE).
#![expect(unsafe_code, reason = "ioctl takes raw arguments")]

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

const LOOP_CTL_ADD: libc::c_ulong = 0x4C80;
const LOOP_CTL_REMOVE: libc::c_ulong = 0x4C81;
const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
const LOOP_GET_STATUS64: libc::c_ulong = 0x4C05;
const BLKGETSIZE64: libc::c_ulong = 0x8008_1272;
const FIFREEZE: libc::c_ulong = 0xC004_5877;
const FITHAW: libc::c_ulong = 0xC004_5878;
const BTRFS_SUBVOL_GETFLAGS: libc::c_ulong = 0x8008_9419;
const BTRFS_SUBVOL_SETFLAGS: libc::c_ulong = 0x4008_941A;
const BTRFS_SUBVOL_READONLY: u64 = 2;
/// Ext4, XFS and f2fs have the same number and the same flags.
const SHUTDOWN: libc::c_ulong = 0x8004_587D;
/// Stop immediately: neither data nor the log is flushed.
const SHUTDOWN_NOLOGFLUSH: u32 = 2;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// `struct loop_info64` of <linux/loop.h>.
#[repr(C)]
#[derive(Default)]
pub(crate) struct LoopInfo64 {
    /// The file's filesystem device, and its inode number there.
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// The device that the file is; 0 if it is a regular file.
    pub(crate) rdevice: u64,
    pub(crate) offset: u64,
    sizelimit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    names: [[u8; 32]; 4],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config` of <linux/loop.h>.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo64,
    reserved: [u64; 8],
}

/// Freezes the filesystem that holds a file: anyone who writes to it waits until it is thawed.
pub(crate) fn freeze(file: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open; FIFREEZE takes no argument and touches no memory of ours.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), FIFREEZE, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Thaws the filesystem that holds a file; fails with `EINVAL` if it is not frozen.
pub(crate) fn thaw(file: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open; FITHAW takes no argument and touches no memory of ours.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), FITHAW, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Stops the filesystem that holds a file as if the power had gone: it writes nothing any more.
pub(crate) fn shutdown(file: BorrowedFd<'_>) -> io::Result<()> {
    let flags = SHUTDOWN_NOLOGFLUSH;
    // SAFETY: the descriptor is open; the kernel reads one u32, which `flags` is, and it lives across the call.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), SHUTDOWN, &raw const flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes a btrfs subvolume writable, given its root.
pub(crate) fn make_subvolume_writable(root: BorrowedFd<'_>) -> io::Result<()> {
    let mut flags: u64 = 0;
    // SAFETY: the descriptor is open; the kernel writes one u64, which `flags` is, and it lives across the call.
    let got = unsafe { libc::ioctl(root.as_raw_fd(), BTRFS_SUBVOL_GETFLAGS, &raw mut flags) };
    if got != 0 {
        return Err(io::Error::last_os_error());
    }
    flags &= !BTRFS_SUBVOL_READONLY;
    // SAFETY: the descriptor is open; the kernel reads one u64, which `flags` is, and it lives across the call.
    let set = unsafe { libc::ioctl(root.as_raw_fd(), BTRFS_SUBVOL_SETFLAGS, &raw const flags) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The number of a free loop device, made if there is none.
pub(crate) fn loop_get_free(control: BorrowedFd<'_>) -> io::Result<u32> {
    // SAFETY: LOOP_CTL_GET_FREE takes no argument and touches no memory of ours; the descriptor is open.
    let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
    u32::try_from(number).map_err(|_| io::Error::last_os_error())
}

/// Makes the loop device of this number; fails with `EEXIST` if there is one.
pub(crate) fn loop_add(control: BorrowedFd<'_>, number: u32) -> io::Result<()> {
    // SAFETY: LOOP_CTL_ADD takes a number and touches no memory of ours; the descriptor is open.
    let result = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_ADD, libc::c_ulong::from(number)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Removes a loop device that has no file and is not open; fails with `EBUSY` if it is in use.
pub(crate) fn loop_remove(control: BorrowedFd<'_>, number: u32) -> io::Result<()> {
    // SAFETY: LOOP_CTL_REMOVE takes a number and touches no memory of ours; the descriptor is open.
    let result = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_REMOVE, libc::c_ulong::from(number)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Binds a file to a loop device that detaches itself at its last close.
pub(crate) fn loop_configure(
    device: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    direct_io: bool,
) -> io::Result<()> {
    let flags = LO_FLAGS_AUTOCLEAR | if direct_io { LO_FLAGS_DIRECT_IO } else { 0 };
    let config = LoopConfig {
        fd: u32::try_from(file.as_raw_fd()).expect("an open descriptor is not negative"),
        block_size: 0,
        info: LoopInfo64 { flags, ..LoopInfo64::default() },
        reserved: [0; 8],
    };
    // SAFETY: both descriptors are open; `config` has the kernel's layout (a test checks its size), lives across the
    // call, and the kernel only reads it.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The backing of a loop device; fails with `ENXIO` if it has none.
pub(crate) fn loop_status(device: BorrowedFd<'_>) -> io::Result<LoopInfo64> {
    let mut info = LoopInfo64::default();
    // SAFETY: the descriptor is open; LOOP_GET_STATUS64 writes one `struct loop_info64`, which `info` is (a test checks
    // its size), and it lives across the call.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64, &raw mut info) };
    if result == 0 { Ok(info) } else { Err(io::Error::last_os_error()) }
}

/// Size of a block device in bytes.
pub(crate) fn block_device_size(device: BorrowedFd<'_>) -> io::Result<u64> {
    let mut size = 0_u64;
    // SAFETY: the descriptor is open; BLKGETSIZE64 writes one u64, which `size` is.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), BLKGETSIZE64, &raw mut size) };
    if result == 0 { Ok(size) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_kernels_sizes() {
        assert_eq!(size_of::<LoopInfo64>(), 232);
        assert_eq!(size_of::<LoopConfig>(), 304);
    }
}
