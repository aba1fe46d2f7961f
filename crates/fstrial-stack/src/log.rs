//! Progress of the journal or log of a mounted filesystem, as counted by the kernel. The filesystem's row defines the
//! counters.

use fstrial_model::{
    counter::{Counter, Counters},
    filesystem::{LogReader, LogShape, SUPERBLOCK_BYTES},
    units::Bytes,
};
use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

/// The counters of a journal or log.
#[derive(Debug, Clone)]
pub struct LogCounter {
    file: PathBuf,
    shape: LogShape,
    count: fn(&str, LogShape) -> Option<Counters>,
}

/// A device: its node, its name in the kernel, and its folder in sysfs.
#[derive(Debug, Clone)]
pub(crate) struct DevicePaths {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    pub(crate) sysfs: PathBuf,
}

impl LogCounter {
    /// Counter of the filesystem on a device, and its log's device if that is another. None if this kernel has no
    /// counter.
    pub(crate) fn of(reader: &LogReader, device: &DevicePaths, log: Option<&DevicePaths>) -> Option<Self> {
        let mut shape = (reader.shape)(&beginning(&device.path)?)?;
        if let Some(log) = log {
            shape.size = shape.size.or_else(|| size(&log.sysfs));
        }
        let file = match log {
            Some(log) => reader.external.replace("{log}", &log.name),
            None => reader.file.to_owned(),
        };
        let file = file.replace("{device}", &device.name);
        let file = match file.split_once("/{filesystem}/") {
            Some((all, rest)) => folder_of(Path::new(all), &device.name)?.join(rest),
            None => PathBuf::from(file),
        };
        let counter = Self { file, shape, count: reader.count };
        counter.now().map(|_| counter)
    }

    /// Its amounts since the mount.
    pub fn now(&self) -> Option<Counters> {
        (self.count)(&fs::read_to_string(&self.file).ok()?, self.shape)
    }

    /// Its size, and the bytes written to it before a moment, if they are counted.
    pub fn before(&self, start: &Counters) -> Counters {
        let written = start.get(Counter::LogWritten);
        let size = self.shape.size.filter(|_| written.is_some()).map(|size| size.0);
        [(Counter::LogSize, size), (Counter::LogBefore, written)].into_iter().collect()
    }
}

/// The folder among these that lists a device.
pub(crate) fn folder_of(all: &Path, device: &str) -> Option<PathBuf> {
    let listing = fs::read_dir(all).ok()?;
    listing.flatten().map(|entry| entry.path()).find(|path| path.join("devices").join(device).exists())
}

/// The first bytes of a device.
fn beginning(device: &Path) -> Option<Vec<u8>> {
    let mut bytes = vec![0; SUPERBLOCK_BYTES];
    File::open(device).ok()?.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

/// Bytes of a device: the kernel counts sectors of 512.
fn size(sysfs: &Path) -> Option<Bytes> {
    let sectors: u64 = fs::read_to_string(sysfs.join("size")).ok()?.trim().parse().ok()?;
    sectors.checked_mul(512).map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_counter_reports_size_and_prior_amount() {
        let shape = LogShape { size: Some(Bytes::mib(4)), block: Bytes(4096) };
        let counter = LogCounter { file: "/nowhere".into(), shape, count: |_, _| None };
        let at = |written| Counters::of(Counter::LogWritten, written);
        let used = at(3 << 20).since(&at(1 << 20)).plus(&counter.before(&at(1 << 20)));
        assert_eq!((used.laps(), used.get(Counter::LogSize)), (Some((0.25, 0.5)), Some(4 << 20)));
        // The average that one of them is made of may have been cut less at the start than at the end.
        assert_eq!(at(16_384).since(&at(20_480)), at(0));
        assert!(counter.before(&Counters::of(Counter::Commits, 1)).is_empty());
        assert_eq!(counter.now(), None);
    }

    #[test]
    fn finds_sysfs_folder_by_device_name() {
        let all = tempfile::tempdir().unwrap();
        for (folder, device) in [("one", "loop1"), ("two", "loop11")] {
            fs::create_dir_all(all.path().join(folder).join("devices").join(device)).unwrap();
        }
        assert_eq!(folder_of(all.path(), "loop11"), Some(all.path().join("two")));
        assert_eq!(folder_of(all.path(), "loop2"), None);
    }
}
