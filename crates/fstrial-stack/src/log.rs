//! Progress of the journal or log of a mounted filesystem, as counted by the kernel. The filesystem's row defines the
//! counters.

use fstrial_model::{
    filesystem::{LogCount, LogReader, LogShape, SUPERBLOCK_BYTES},
    measurement::Counter,
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
    count: fn(&str, LogShape) -> Option<LogCount>,
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

    /// The count since the mount.
    pub fn now(&self) -> Option<LogCount> {
        (self.count)(&fs::read_to_string(&self.file).ok()?, self.shape)
    }

    /// The count between two moments.
    pub fn between(&self, start: LogCount, end: LogCount) -> [(Counter, Option<u64>); 4] {
        let written = end.written.zip(start.written);
        let size = self.shape.size.filter(|_| written.is_some());
        [
            (Counter::LogSize, size.map(|size| size.0)),
            (Counter::LogBefore, start.written.map(|bytes| bytes.0)),
            // The average that one of them is made of may have been cut less at the start than at the end.
            (Counter::LogWritten, written.map(|(end, start)| end.0.saturating_sub(start.0))),
            (Counter::Commits, end.commits.zip(start.commits).map(|(end, start)| end.saturating_sub(start))),
        ]
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
    use fstrial_model::measurement::Counters;

    #[test]
    fn log_counter_reports_difference_and_prior_amount() {
        let shape = LogShape { size: Some(Bytes::mib(4)), block: Bytes(4096) };
        let counter = LogCounter { file: "/nowhere".into(), shape, count: |_, _| None };
        let at = |written, commits| LogCount { written: Some(Bytes(written)), commits: Some(commits) };
        let between = |start, end| counter.between(start, end).into_iter().collect::<Counters>();
        let used = between(at(1 << 20, 3), at(3 << 20, 10));
        assert_eq!((used.laps(), used.get(Counter::Commits)), (Some((0.25, 0.5)), Some(7)));
        assert_eq!(used.get(Counter::LogSize), Some(4 << 20));
        assert_eq!(between(at(20_480, 1), at(16_384, 2)).get(Counter::LogWritten), Some(0));
        let only = |commits| LogCount { written: None, commits: Some(commits) };
        assert_eq!(between(only(1), only(2)), Counters::of(Counter::Commits, 1));
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
