//! I/O statistics of block devices, as counted by the kernel: `/sys/block/DEV/stat` (Documentation/block/stat.rst).
//!
//! The kernel counts a request when it completes, in sectors of 512 bytes regardless of the device's sector size. It
//! counts nothing if that is switched off (`queue/iostats`).

use fstrial_model::counter::{Counter, Counters};
use std::{fs, path::PathBuf};

/// Counters as numbers of a line: their sum in an unit. Discards were added in Linux 4.18, flushes in 5.5.
const NUMBERS: [(Counter, &[usize], u64); 6] = [
    (Counter::DeviceRead, &[2], 512),
    (Counter::DeviceWritten, &[6], 512),
    (Counter::DeviceReads, &[0], 1),
    (Counter::DeviceMerges, &[1, 5], 1),
    (Counter::DeviceDiscards, &[11], 1),
    (Counter::DeviceFlushes, &[15], 1),
];

/// Bits of a device's number in the kernel that are its minor number (include/linux/kdev_t.h).
const MINOR_BITS: u32 = 20;

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

    /// Their numbers in the kernel.
    pub fn numbers(&self) -> Vec<u32> {
        let number = |stat: &PathBuf| {
            let text = fs::read_to_string(stat.with_file_name("dev")).ok()?;
            let (major, minor) = text.trim().split_once(':')?;
            Some(major.parse::<u32>().ok()? << MINOR_BITS | minor.parse::<u32>().ok()?)
        };
        self.stats.iter().filter_map(number).collect()
    }

    /// Amounts of all of them together since each was created. Empty without devices, and if a counter cannot be read.
    pub fn now(&self) -> Counters {
        let each = self.stats.iter().map(|path| amounts(&fs::read_to_string(path).ok()?));
        each.reduce(|sum, one| Some(sum?.plus(&one?))).flatten().unwrap_or_default()
    }
}

/// The amounts in the text of a `stat`; none if the oldest ones are missing.
pub(crate) fn amounts(stat: &str) -> Option<Counters> {
    let numbers: Vec<Option<u64>> = stat.split_whitespace().map(|number| number.parse().ok()).collect();
    let number = |index: &usize| *numbers.get(*index)?;
    let sum = |all: &[usize]| all.iter().try_fold(0_u64, |sum, index| sum.checked_add(number(index)?));
    let all =
        NUMBERS.iter().map(|(counter, of, unit)| (*counter, sum(of).and_then(|sum| sum.checked_mul(*unit))));
    let all: Counters = all.collect();
    (all.get(Counter::DeviceRead).is_some() && all.get(Counter::DeviceWritten).is_some()).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_numbers_of_a_line() {
        let stat = "     101        7     8088       12      310       44    20480       99        0      120      111        3        0       64        1        5        0\n";
        let of = |stat: &str, counters: &[Counter]| {
            let all = amounts(stat).unwrap();
            counters.iter().map(|counter| all.get(*counter)).collect::<Vec<_>>()
        };
        let bytes = [Counter::DeviceRead, Counter::DeviceWritten];
        assert_eq!(of(stat, &bytes), [Some(8088 * 512), Some(20_480 * 512)]);
        let requests =
            [Counter::DeviceReads, Counter::DeviceMerges, Counter::DeviceDiscards, Counter::DeviceFlushes];
        assert_eq!(of(stat, &requests), [101, 7 + 44, 3, 5].map(Some));
        // Before discards and flushes were counted, there were eleven numbers.
        let old = "1 2 3 4 5 6 7 8 9 10 11";
        assert_eq!(of(old, &bytes), [Some(3 * 512), Some(7 * 512)]);
        assert_eq!(of(old, &[Counter::DeviceFlushes, Counter::DeviceDiscards]), [None, None]);
        for damaged in ["", "1 2 3 4 5 6", "1 2 3 4 5 6 x", "1 2 3 4 5 6 18446744073709551615"] {
            assert_eq!(amounts(damaged), None, "{damaged}");
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
        let of =
            |devices: &[PathBuf], counter| DeviceCounters::of(devices.iter().cloned()).now().get(counter);
        assert_eq!(of(&both, Counter::DeviceRead), Some(1024));
        assert_eq!(of(&both, Counter::DeviceWritten), Some(5120));
        let with_missing = [&both[..], &[folder.path().join("missing")]].concat();
        assert!(DeviceCounters::of(with_missing.into_iter()).now().is_empty());
        assert!(DeviceCounters::default().now().is_empty());
    }
}
