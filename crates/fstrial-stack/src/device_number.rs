//! The number of a device, which identifies the target of a node, independent of the node's name and place.

use rustix::fs::Statx;
use serde::{Deserialize, Serialize};
use std::{fmt, path::PathBuf, str::FromStr};

/// Twelve bits of a device number are its major part, and twenty its minor part (`MINORBITS` of <linux/kdev_t.h>).
const MAJORS: u32 = 1 << 12;
const MINORS: u32 = 1 << 20;

/// Major and minor number, written `MAJOR:MINOR` as the kernel does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeviceNumber {
    /// The driver.
    pub major: u32,
    /// The device within the driver.
    pub minor: u32,
}

impl DeviceNumber {
    /// From the result of `stat` or `ioctl`.
    pub fn from_raw(number: u64) -> Self {
        Self { major: rustix::fs::major(number), minor: rustix::fs::minor(number) }
    }

    /// Number of the device that a node leads to.
    pub(crate) fn led_to(stat: &Statx) -> Self {
        Self { major: stat.stx_rdev_major, minor: stat.stx_rdev_minor }
    }

    /// The folder of a block device in sysfs.
    pub fn sysfs(self) -> PathBuf {
        PathBuf::from(format!("/sys/dev/block/{self}"))
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.major, self.minor)
    }
}

/// Text that does not have the form `MAJOR:MINOR`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a device number such as 8:16")]
pub struct NotANumber(String);

impl FromStr for DeviceNumber {
    type Err = NotANumber;

    /// Parses the kernel's format (`%u:%u`) strictly: no sign, space or further digit.
    fn from_str(text: &str) -> Result<Self, NotANumber> {
        let part = |part: &str, limit: u32| part.parse().ok().filter(|number| *number < limit);
        let parsed = text.split_once(':').and_then(|(major, minor)| {
            Some(Self { major: part(major, MAJORS)?, minor: part(minor, MINORS)? })
        });
        parsed.filter(|number| number.to_string() == text).ok_or_else(|| NotANumber(text.to_owned()))
    }
}

impl TryFrom<String> for DeviceNumber {
    type Error = NotANumber;

    fn try_from(text: String) -> Result<Self, NotANumber> {
        text.parse()
    }
}

impl From<DeviceNumber> for String {
    fn from(number: DeviceNumber) -> Self {
        number.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_only_canonical_device_numbers() {
        assert_eq!("8:16".parse(), Ok(DeviceNumber { major: 8, minor: 16 }));
        assert_eq!("4095:1048575".parse(), Ok(DeviceNumber { major: 4095, minor: 1_048_575 }));
        assert_eq!("0:45".parse::<DeviceNumber>().unwrap().to_string(), "0:45");
        for text in [
            "",
            ":",
            "8",
            "8:",
            ":16",
            "8:16:0",
            "08:16",
            "8:016",
            "+8:16",
            "8:+16",
            "-8:16",
            " 8:16",
            "8:16\n",
            "8: 16",
            "8/16",
            "fd:00",
            "4096:0",
            "0:1048576",
            "8:99999999999999999999",
            "../8:16",
            "8:16/..",
        ] {
            assert!(text.parse::<DeviceNumber>().is_err(), "{text:?}");
        }
    }
}
