//! The saved content of a device: a filesystem prepared once and restored before each run.
//!
//! The coordinator creates the file and holds it open without a name, like an image; workers reach it through `/proc`.
//! It is sparse: zeroes on the device take no space. It is never attached, so its filesystem never appears next to one
//! restored from it: XFS and btrfs identify filesystems by UUID, and would refuse, or mix up, two with the same one.
//!
//! Restoring by copy writes the *whole* device, zeroes included. A loop device's file stays allocated and written, no
//! part of the previous run survives (an old log with higher numbers would be replayed), and every run follows the same
//! writes. Zeroes are written, not discarded: the result of a discard differs.

use crate::{aligned::Aligned, device::image, error::StackError, host};
use fstrial_model::{filesystem::Filesystem, job::DeviceBinding, units::Bytes};
use rustix::{
    fs::{Mode, OFlags, SeekFrom},
    io::Errno,
};
use std::{
    fs::{self, File},
    io,
    ops::Range,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::FileExt,
    },
    path::{Path, PathBuf},
};

const CHUNK: usize = 1 << 20;
/// Granularity at which zeroes are detected, in bytes.
const PIECE: u64 = 64 << 10;

/// Callback for progress: bytes done of the total.
pub type Tell<'a> = &'a mut dyn FnMut(Bytes, Bytes);

/// The coordinator's file for one saved device.
#[derive(Debug)]
pub struct Base {
    file: OwnedFd,
}

impl Base {
    /// Makes an empty one in a folder; it is gone with the last process that holds it.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub fn make(folder: &Path) -> Result<Self, StackError> {
        let folder = fs::canonicalize(folder).map_err(|e| StackError::io("find the folder", folder, e))?;
        let file = image::nameless_file(&folder)?;
        // As for the image, which notes it if it is refused.
        let _ = image::overwrite_in_place(&file, &host::filesystem_of(&folder)?);
        Ok(Self { file })
    }

    /// Path by which a worker opens it.
    pub fn path(&self) -> PathBuf {
        host::path_of_descriptor(self.file.as_fd())
    }
}

/// Makes sure that bases of this many bytes fit in a folder, a tenth of its free space left.
///
/// # Errors
/// They do not, or the folder is not there.
pub fn require_space(folder: &Path, needed: Bytes) -> Result<(), StackError> {
    let free = host::space_available(folder)?;
    if free.0 / 10 * 9 >= needed.0 {
        return Ok(());
    }
    Err(StackError::Unable {
        what: format!(
            "the prepared filesystems need about {} in {} ({} free)",
            needed.human(),
            folder.display(),
            free.human()
        ),
        hint: "use a smaller device (its size), a state with less in it, or another folder: TMPDIR, or of an image \
               --device image:/some/folder"
            .into(),
    })
}

/// Opens a device's node around the page cache, exclusively: nothing is mounted on it meanwhile.
fn open_device(path: &Path) -> Result<(File, u64), StackError> {
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::EXCL | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| StackError::io("open", path, e))?;
    let size = rustix::fs::seek(&fd, SeekFrom::End(0))
        .map_err(|e| StackError::io("ask for the size of", path, e))?;
    Ok((File::from(fd), size))
}

fn open_base(path: &Path) -> Result<File, StackError> {
    File::options().read(true).write(true).open(path).map_err(|e| StackError::io("open", path, e))
}

/// Stretches of at most [`CHUNK`] bytes that make up a range.
fn chunks(range: Range<u64>) -> impl Iterator<Item = (u64, usize)> {
    let end = range.end;
    range.step_by(CHUNK).map(move |at| (at, usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK)))
}

/// Writes zeros over a whole device.
///
/// # Errors
/// It is in use, or cannot be written.
pub fn blank(device: &Path, tell: Tell<'_>) -> Result<(), StackError> {
    let (file, size) = open_device(device)?;
    write_zeros(&file, device, 0..size, Bytes(size), tell)?;
    file.sync_all().map_err(|e| StackError::io("sync", device, e))
}

fn write_zeros(
    file: &File,
    path: &Path,
    range: Range<u64>,
    total: Bytes,
    tell: Tell<'_>,
) -> Result<(), StackError> {
    let zeros = Aligned::zeroed(CHUNK);
    for (at, length) in chunks(range) {
        file.write_all_at(&zeros.all()[..length], at).map_err(|e| StackError::io("write to", path, e))?;
        tell(Bytes(at + length as u64), total);
    }
    Ok(())
}

/// Saves the content of a device; returns the bytes saved: pieces of 64 KiB that are not all zero.
///
/// # Errors
/// It is in use or cannot be read, or there is no space for the base.
pub fn save(device: &Path, base: &Path, tell: Tell<'_>) -> Result<Bytes, StackError> {
    let (file, size) = open_device(device)?;
    let kept = open_base(base)?;
    let failed = |e: io::Error| StackError::io("save the prepared filesystem to", base, e);
    // Data saved by an earlier attempt are not part of it.
    kept.set_len(0).map_err(failed)?;
    kept.set_len(size).map_err(failed)?;
    let mut buffer = Aligned::zeroed(CHUNK);
    let mut saved = 0;
    for (at, length) in chunks(0..size) {
        let chunk = &mut buffer.all_mut()[..length];
        file.read_exact_at(chunk, at).map_err(|e| StackError::io("read", device, e))?;
        for (piece, offset) in chunk.chunks(PIECE as usize).zip((at..).step_by(PIECE as usize)) {
            if piece.iter().any(|byte| *byte != 0) {
                kept.write_all_at(piece, offset).map_err(failed)?;
                saved += piece.len() as u64;
            }
        }
        tell(Bytes(at + length as u64), Bytes(size));
    }
    kept.sync_all().map_err(failed)?;
    Ok(Bytes(saved))
}

/// Puts a device's content back. `is_blank`: the device is known to be zero all over.
///
/// # Errors
/// It is in use or cannot be written, or is not as large as the one that was saved.
pub fn restore(base: &Path, device: &Path, is_blank: bool, tell: Tell<'_>) -> Result<(), StackError> {
    let (file, size) = open_device(device)?;
    let kept = open_base(base)?;
    let saved = kept.metadata().map_err(|e| StackError::io("look at", base, e))?.len();
    if saved != size {
        return Err(StackError::Unable {
            what: format!(
                "{} has {} and the prepared filesystem was saved from {}",
                device.display(),
                Bytes(size),
                Bytes(saved)
            ),
            hint: "the device must keep its size while a trial runs".into(),
        });
    }
    let mut buffer = Aligned::zeroed(CHUNK);
    let mut at = 0;
    while at < size {
        let data = next_data(&kept, at, size).map_err(|e| StackError::io("look through", base, e))?;
        if !is_blank {
            write_zeros(&file, device, at..data.start, Bytes(size), tell)?;
        }
        for (at, length) in chunks(data.clone()) {
            let chunk = &mut buffer.all_mut()[..length];
            kept.read_exact_at(chunk, at).map_err(|e| StackError::io("read", base, e))?;
            file.write_all_at(chunk, at).map_err(|e| StackError::io("write to", device, e))?;
            tell(Bytes(at + length as u64), Bytes(size));
        }
        at = data.end;
    }
    file.sync_all().map_err(|e| StackError::io("sync", device, e))
}

/// The next stretch that holds data, in whole pieces; empty at the end if there is none.
fn next_data(kept: &File, at: u64, size: u64) -> Result<Range<u64>, Errno> {
    let start = match rustix::fs::seek(kept, SeekFrom::Data(at)) {
        Ok(start) => start / PIECE * PIECE,
        Err(Errno::NXIO) => return Ok(size..size),
        Err(error) => return Err(error),
    };
    let end = rustix::fs::seek(kept, SeekFrom::Hole(start.max(at)))?;
    // A piece that begins with a hole ends at its start: all of it is taken then.
    let end = end.max(start + 1).next_multiple_of(PIECE).min(size);
    Ok(start.max(at)..end)
}

/// The file that is cloned, which only an image has.
fn image_of(binding: &DeviceBinding) -> Result<File, StackError> {
    match binding {
        DeviceBinding::Loop { file, .. } => open_base(file),
        _ => Err(StackError::Unable {
            what: "this device is not a file, so it cannot be cloned".into(),
            hint: "use --device image in a folder of XFS or btrfs, or restore = \"copy\"".into(),
        }),
    }
}

/// Makes one file share all blocks of another.
fn share(from: &File, to: &File, base: &Path) -> Result<(), StackError> {
    from.sync_all().map_err(|e| StackError::io("sync before a clone", base, e))?;
    match rustix::fs::ioctl_ficlone(to, from) {
        Ok(()) => to.sync_all().map_err(|e| StackError::io("sync a clone", base, e)),
        Err(Errno::OPNOTSUPP | Errno::XDEV | Errno::INVAL | Errno::NOTTY) => Err(StackError::Unable {
            what: "the image and the prepared filesystem cannot share blocks: their folders are not on one filesystem that can \
                   (XFS with reflink, btrfs, bcachefs)"
                .into(),
            hint: "put both there: --device image:/that/folder; or use restore = \"copy\"".into(),
        }),
        Err(error) => Err(StackError::io("clone", base, error)),
    }
}

/// Saves an image by sharing its blocks; returns its size.
///
/// # Errors
/// The host's filesystem cannot.
pub fn save_clone(binding: &DeviceBinding, base: &Path) -> Result<Bytes, StackError> {
    let image = image_of(binding)?;
    share(&image, &open_base(base)?, base)?;
    let size = image.metadata().map_err(|e| StackError::io("look at the image of", base, e))?.len();
    Ok(Bytes(size))
}

/// Restores an image by sharing the saved blocks. It must not be attached.
///
/// # Errors
/// The host's filesystem cannot.
pub fn restore_clone(binding: &DeviceBinding, base: &Path) -> Result<(), StackError> {
    share(&open_base(base)?, &image_of(binding)?, base)
}

/// Makes the kernel forget an arm's filesystem on a device. A filesystem that supports several devices is remembered by
/// UUID and generation, and older kernels take the restored one for a stale copy of the last run's.
pub fn forget(filesystem: &str, device: &Path) {
    if let Some(several) = Filesystem::named(filesystem).and_then(|row| row.several) {
        host::forget(several, [device.display().to_string()]);
    }
}
