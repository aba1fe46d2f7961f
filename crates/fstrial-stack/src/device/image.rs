//! `image`: a loop device with direct I/O on a file made by fstrial.
//!
//! The file has no name (`O_TMPFILE`): its space is freed with the last process that holds it, however that died. It is
//! allocated and written in full before the first run, so that no run measures how the host's filesystem allocates or
//! converts extents; and with data that cannot be compressed or detected as zero.

use super::{Device, DeviceRequest, Progress, require_room, several::Several};
use crate::{
    aligned::{Aligned, PAGE},
    error::StackError,
    host, loopdev,
};
use fstrial_model::{arm::Arm, filesystem::Filesystem, job::DeviceBinding, units::Bytes};
use rustix::fs::{FallocateFlags, IFlags, MemfdFlags, Mode, OFlags};
use std::{
    fs::{self, File},
    os::fd::{AsFd, OwnedFd},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// Bytes written at a time when the file is filled.
const FILL_BYTES: usize = 4 << 20;
/// Bytes after which they are brought to the disk.
const SYNC_BYTES: u64 = 64 << 20;

/// Makes one in its folder, or members.
///
/// # Errors
/// As [`Image::make`].
pub fn provide(requested: &DeviceRequest<'_>, progress: Progress<'_>) -> Result<Box<dyn Device>, StackError> {
    let folder = requested.spec.folder().unwrap_or(Path::new("."));
    let make = |tell: Progress<'_>| -> Result<Box<dyn Device>, StackError> {
        Ok(Box::new(Image::make(folder, requested.size, tell)?))
    };
    match requested.spec.members {
        Some(count) => {
            require_room(Some(folder), Bytes(requested.size.0 * u64::from(count)), "members")?;
            Several::make(requested, count, progress, make)
        }
        None => make(progress),
    }
}

/// A file of ours for loop devices, on disk or in memory.
#[derive(Debug)]
pub struct Image {
    file: File,
    size: Bytes,
    /// In memory (`memfd`) rather than on a disk.
    in_memory: bool,
    description: String,
    notes: Vec<String>,
}

impl Image {
    /// Makes an image in a folder.
    ///
    /// # Errors
    /// No space, no permission, or a filesystem that cannot hold such a file.
    pub fn make(folder: &Path, size: Bytes, progress: Progress<'_>) -> Result<Self, StackError> {
        let folder = fs::canonicalize(folder).map_err(|e| StackError::io("find the folder", folder, e))?;
        require_room(Some(&folder), size, "an image")?;
        let file = nameless_file(&folder)?;
        let filesystem = host::filesystem_of(&folder)?;
        let mut notes = vec![format!(
            "the device is a loop device with direct I/O on a file in {} ({filesystem}): every request passes that filesystem, so all \
             figures, ratios too, are for this device and not for the disk below it",
            folder.display()
        )];
        if !overwrite_in_place(&file, &filesystem) {
            notes.push(format!(
                "the host is {filesystem} and refused to switch copy-on-write off for the image"
            ));
        }
        let description =
            format!("image: loop device with direct I/O on a {} file in {}", size.human(), folder.display());
        let image = Self { file: File::from(file), size, in_memory: false, description, notes };
        image.fill(&folder, progress)?;
        Ok(image)
    }

    /// Makes an image in memory.
    ///
    /// # Errors
    /// Not enough memory.
    pub fn in_memory(size: Bytes, progress: Progress<'_>) -> Result<Self, StackError> {
        let path = Path::new("memfd:fstrial");
        // Loop devices are identified by the name of their file, so names are unique.
        let name = format!("fstrial-{}", host::unique_name());
        let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)
            .map_err(|e| StackError::io("make a file in memory", path, e))?;
        let image = Self {
            file: File::from(fd),
            size,
            in_memory: true,
            description: format!("ramdisk: loop device on a {} file in memory (tmpfs)", size.human()),
            notes: vec![
                "the ramdisk is a loop device on memory: every request costs a hand-over to a kernel thread"
                    .into(),
            ],
        };
        image.fill(path, progress)?;
        Ok(image)
    }

    /// Allocates the whole file and writes all of it.
    fn fill(&self, place: &Path, progress: Progress<'_>) -> Result<(), StackError> {
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, self.size.0) {
            // Some filesystems cannot allocate ahead; writing does it anyway.
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => {}
            Err(error) => {
                return Err(StackError::io(format!("allocate {} in", self.size.human()), place, error));
            }
        }
        let mut chunk = noise(FILL_BYTES);
        self.write_directly(true);
        let mut at = 0;
        while at < self.size.0 {
            let length =
                usize::try_from((self.size.0 - at).min(FILL_BYTES as u64)).expect("bounded by FILL_BYTES");
            // Every chunk differs, or a deduplicating host would store one.
            chunk.all_mut()[..8].copy_from_slice(&at.to_le_bytes());
            self.file
                .write_all_at(&chunk.all()[..length], at)
                .map_err(|e| StackError::io("fill the image in", place, e))?;
            at += length as u64;
            // Syncing all of it at the end would take minutes without a response to signals.
            if at % SYNC_BYTES == 0 {
                self.file.sync_data().map_err(|e| StackError::io("sync the image in", place, e))?;
            }
            if progress(Bytes(at), self.size).is_break() {
                return Err(StackError::Interrupted);
            }
        }
        self.write_directly(false);
        self.file.sync_all().map_err(|e| StackError::io("sync the image in", place, e))
    }

    /// Writes past the page cache, if the filesystem can: an image as large as memory would evict other processes'
    /// pages, and costs more CPU time. Some accept the flag and use the cache regardless.
    fn write_directly(&self, requested: bool) {
        if !self.in_memory && self.size.0.is_multiple_of(PAGE as u64) {
            let flags = if requested { OFlags::DIRECT } else { OFlags::empty() };
            let _ = rustix::fs::fcntl_setfl(&self.file, flags);
        }
    }
}

/// A file without a name, or one whose name is removed immediately if the filesystem has no `O_TMPFILE`.
pub(crate) fn nameless_file(folder: &Path) -> Result<OwnedFd, StackError> {
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(folder, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode) {
        Ok(fd) => return Ok(fd),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::INVAL) => {}
        Err(error) => return Err(StackError::io("make a file in", folder, error)),
    }
    let path: PathBuf = folder.join(format!(".fstrial-image-{}", std::process::id()));
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    let fd = rustix::fs::open(&path, flags, mode).map_err(|e| StackError::io("make", &path, e))?;
    fs::remove_file(&path).map_err(|e| StackError::io("take the name away from", &path, e))?;
    Ok(fd)
}

/// Switches copy-on-write off for a file if the host's filesystem would otherwise copy: every overwrite of an image
/// would be one of the host's. Files that share blocks must agree in it. False if it is refused.
pub(crate) fn overwrite_in_place(file: &OwnedFd, filesystem: &str) -> bool {
    if !Filesystem::named(filesystem).is_some_and(|row| row.can_overwrite_in_place) {
        return true;
    }
    let mut flags = rustix::fs::ioctl_getflags(file).unwrap_or(IFlags::empty());
    flags.insert(IFlags::NOCOW);
    rustix::fs::ioctl_setflags(file, flags).is_ok()
}

/// Bytes that do not compress (SplitMix64; Steele, Lea and Flood, OOPSLA 2014).
fn noise(length: usize) -> Aligned {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut bytes = Aligned::zeroed(length);
    for word in bytes.all_mut().chunks_exact_mut(8) {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word.copy_from_slice(&(z ^ (z >> 31)).to_le_bytes());
    }
    bytes
}

impl Device for Image {
    fn describe(&self) -> String {
        self.description.clone()
    }

    fn binding(&self, _arm: &Arm) -> DeviceBinding {
        // The worker opens it through us: no name, no descriptor to inherit, nothing left when we are gone.
        let file = host::path_of_descriptor(self.file.as_fd());
        DeviceBinding::Loop { file, size: self.size, direct_io: !self.in_memory, discards: false }
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn is_released(&self) -> Result<bool, StackError> {
        Ok(loopdev::attached_to(self.file.as_fd())?.is_empty())
    }

    fn close(self: Box<Self>) -> Result<(), StackError> {
        Ok(())
    }
}
