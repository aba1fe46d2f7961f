//! Data of a modelled device: in memory, allocated in full before the first request, or in a sparse file without a
//! name. The kernel frees both when the process ends, however it ends.

use crate::error::DeviceError;
use fstrial_model::units::Bytes;
use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags};
use std::{fs::File, io, os::unix::fs::FileExt, path::Path};

/// The data of a device.
#[derive(Debug)]
pub struct Backing {
    file: File,
    size: u64,
    /// Memory stays taken when data are discarded, so that it cannot be missing later.
    is_reserved: bool,
}

impl Backing {
    /// Takes memory for all of it.
    ///
    /// # Errors
    /// There is not this much.
    pub fn in_memory(size: Bytes) -> Result<Self, DeviceError> {
        let path = "memfd:fstrial-device";
        let fd = rustix::fs::memfd_create("fstrial-device", MemfdFlags::CLOEXEC)
            .map_err(|e| DeviceError::io("make a file in memory", path, e))?;
        rustix::fs::fallocate(&fd, FallocateFlags::empty(), 0, size.0)
            .map_err(|e| DeviceError::io("take the memory of", path, e))?;
        Ok(Self { file: fd.into(), size: size.0, is_reserved: true })
    }

    /// Makes a sparse file without a name in a folder.
    ///
    /// # Errors
    /// The folder cannot be written to, or its filesystem has no files without a name.
    pub fn in_folder(folder: &Path, size: Bytes) -> Result<Self, DeviceError> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let fd = rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|e| DeviceError::io("make a file without a name in", folder, e))?;
        rustix::fs::ftruncate(&fd, size.0)
            .map_err(|e| DeviceError::io("make a sparse file in", folder, e))?;
        Ok(Self { file: fd.into(), size: size.0, is_reserved: false })
    }

    /// A copy of it in memory, which takes the room of its blocks that are not zero.
    ///
    /// # Errors
    /// There is not this much memory, and those of a file on a disk.
    pub fn copy(&self) -> io::Result<Self> {
        const CHUNK: u64 = 256 << 10;
        let file = File::from(rustix::fs::memfd_create("fstrial-copy", MemfdFlags::CLOEXEC)?);
        file.set_len(self.size)?;
        let mut offset = 0;
        while offset < self.size {
            let length = (self.size - offset).min(CHUNK);
            let data = self.read(offset, usize::try_from(length).expect("a part of a mebibyte"))?;
            if data.iter().any(|byte| *byte != 0) {
                file.write_all_at(&data, offset)?;
            }
            offset += length;
        }
        Ok(Self { file, size: self.size, is_reserved: false })
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// True if the range is inside the data.
    pub fn holds(&self, offset: u64, length: u64) -> bool {
        offset.checked_add(length).is_some_and(|end| end <= self.size)
    }

    /// Reads this many bytes.
    ///
    /// # Errors
    /// Only those of a file on a disk.
    pub fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut data = vec![0; length];
        self.file.read_exact_at(&mut data, offset)?;
        Ok(data)
    }

    /// Writes.
    ///
    /// # Errors
    /// Only those of a file on a disk: no space.
    pub fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }

    /// Makes a range read as zeroes and frees its space unless that is kept.
    ///
    /// # Errors
    /// The filesystem of the file cannot.
    pub fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&self.file, punch, offset, length)?;
        if self.is_reserved {
            rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, offset, length)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn backings_store_data_and_drop_discarded_ranges() {
        let folder = tempfile::tempdir().unwrap();
        let size = Bytes::mib(1);
        for backing in [Backing::in_memory(size).unwrap(), Backing::in_folder(folder.path(), size).unwrap()] {
            backing.write(8192, &[7; 4096]).unwrap();
            assert_eq!(backing.read(8191, 2).unwrap(), [0, 7]);
            backing.discard(8192, 4096).unwrap();
            assert_eq!(backing.read(8192, 4096).unwrap(), vec![0; 4096]);
            assert!(backing.holds(0, 1 << 20) && !backing.holds(1, 1 << 20) && !backing.holds(u64::MAX, 2));
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it has no name");
    }

    #[test]
    fn memory_is_taken_at_once_and_stays_taken_and_a_file_is_sparse() {
        let folder = tempfile::tempdir().unwrap();
        let memory = Backing::in_memory(Bytes::mib(1)).unwrap();
        assert_eq!(memory.file.metadata().unwrap().blocks() * 512, 1 << 20);
        memory.discard(0, 1 << 20).unwrap();
        assert_eq!(memory.file.metadata().unwrap().blocks() * 512, 1 << 20);
        let file = Backing::in_folder(folder.path(), Bytes::gib(1)).unwrap();
        assert!(file.file.metadata().unwrap().blocks() < 100);
    }
}
