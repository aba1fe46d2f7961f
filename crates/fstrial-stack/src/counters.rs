//! I/O statistics of block devices, as counted by the kernel: `/sys/block/DEV/stat` (Documentation/block/stat.rst).
//!
//! The kernel counts a request when it completes, in sectors of 512 bytes regardless of the device's sector size. It
//! counts nothing if that is switched off (`queue/iostats`).

use std::{fs, path::PathBuf};

/// Bytes of a sector in statistics.
const SECTOR: u64 = 512;
/// Sectors read and sectors written, among the numbers of a line.
const PASSED: [usize; 2] = [2, 6];

/// The counters of some devices.
#[derive(Debug, Clone, Default)]
pub struct DeviceCounters {
    stats: Vec<PathBuf>,
}

impl DeviceCounters {
    /// Counters of devices by their folders in sysfs.
    pub(crate) fn of(folders: impl Iterator<Item = PathBuf>) -> Self {
        Self { stats: folders.map(|folder| folder.join("stat")).collect() }
    }

    /// Bytes read from all of them together, and bytes written, since each was created. None without devices, and if a counter
    /// cannot be read.
    pub fn now(&self) -> Option<[u64; 2]> {
        let each = self.stats.iter().map(|path| passed(&fs::read_to_string(path).ok()?));
        let all = each.reduce(|all, one| Some([all?[0] + one?[0], all?[1] + one?[1]]));
        all.flatten()
    }
}

/// Bytes read and written, by the text of a `stat`.
pub(crate) fn passed(stat: &str) -> Option<[u64; 2]> {
    let bytes = |index| stat.split_whitespace().nth(index)?.parse::<u64>().ok()?.checked_mul(SECTOR);
    let [read, written] = PASSED.map(bytes);
    Some([read?, written?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_read_and_written_are_the_third_and_the_seventh_number() {
        let stat = "     101        7     8088       12      310       44    20480       99        0      120      111        3        0       64        1        5        0\n";
        assert_eq!(passed(stat), Some([8088 * 512, 20_480 * 512]));
        // Before discards and flushes were counted (kernel 4.18), there were eleven numbers.
        assert_eq!(passed("1 2 3 4 5 6 7 8 9 10 11"), Some([3 * 512, 7 * 512]));
        for damaged in ["", "1 2 3 4 5 6", "1 2 3 4 5 6 x", "1 2 3 4 5 6 18446744073709551615"] {
            assert_eq!(passed(damaged), None, "{damaged}");
        }
    }

    #[test]
    fn several_devices_are_added_up_and_none_have_none() {
        let folder = tempfile::tempdir().unwrap();
        let device = |name: &str, sectors: u64| {
            let path = folder.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("stat"), format!("0 0 1 0 1 0 {sectors} 0 0 0 0")).unwrap();
            path
        };
        let both = [device("a", 8), device("b", 2)];
        assert_eq!(DeviceCounters::of(both.clone().into_iter()).now(), Some([1024, 5120]));
        let with_missing = both.into_iter().chain([folder.path().join("missing")]);
        assert_eq!(DeviceCounters::of(with_missing).now(), None);
        assert_eq!(DeviceCounters::default().now(), None);
    }
}
