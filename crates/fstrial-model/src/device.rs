//! The device section of a trial: what kind of device every arm is built on.

use crate::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The device every arm of a trial is built on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// What kind.
    #[serde(default)]
    pub kind: DeviceKind,
    /// Its size; image and ramdisk only. Left out: 2GiB, or what the workloads need if that is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// image: the folder the file is made in (left out: the current one). disk: the device, in full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
}

impl Default for Device {
    fn default() -> Self {
        Self { kind: DeviceKind::Image, size: None, path: None }
    }
}

/// The kinds of device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// A loop device with direct I/O on a file of our own, allocated and written in full.
    #[default]
    Image,
    /// Memory: brd, a zram device of our own, or a loop device on a file in memory.
    Ramdisk,
    /// A whole real device, which is erased.
    Disk,
    /// Existing directories; every arm is `dir:PATH`.
    Directory,
}

impl DeviceKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Image, Self::Ramdisk, Self::Disk, Self::Directory];

    /// The name in files and flags.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Ramdisk => "ramdisk",
            Self::Disk => "disk",
            Self::Directory => "directory",
        }
    }
}
