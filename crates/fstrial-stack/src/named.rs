//! Types for stored names: they hold only a name the kernel could have given, an attribute that we change, or a folder
//! that we made. Text from a file becomes one of these or an error, so no string leads elsewhere.

use crate::{
    device_number::{DeviceNumber, NotANumber},
    error::StackError,
    sysfs,
};
use serde::{Deserialize, Serialize};
use std::{
    fmt, fs,
    path::{Component, Path, PathBuf},
};

/// Folders that we make in directories of the user and groups that we make begin with this; no others are ever deleted.
pub const FOLDER_PREFIX: &str = "fstrial-run-";
/// Volumes that we make begin with this.
const VOLUME_PREFIX: &str = "fstrial_";
/// Most bytes of a name of the kernel's (`DISK_NAME_LEN`).
const MAX_NAME: usize = 32;

/// Texts that were checked when they were read are written and shown as they are.
macro_rules! shows_its_text {
    ($($name:ident),*) => {$(
        impl From<$name> for String {
            fn from(checked: $name) -> Self {
                checked.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

shows_its_text!(KernelName, QueueValue, VolumeName);

/// A name that the kernel gives a block device or a filesystem: `loop64`, `nvme0n1`, `cciss!c0d0`, `ext4`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KernelName(String);

impl TryFrom<String> for KernelName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "!._-".contains(c);
        let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if begins && name.len() <= MAX_NAME && name.chars().all(is_plain) {
            return Ok(Self(name));
        }
        Err(format!("`{}` is not a name that the kernel gives", name.escape_debug()))
    }
}

impl KernelName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its node. The kernel writes `!` for a slash.
    fn node(&self) -> PathBuf {
        Path::new("/dev").join(self.0.replace('!', "/"))
    }
}

/// A value of a setting of a device's queue: one short line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct QueueValue(String);

impl TryFrom<String> for QueueValue {
    type Error = String;

    fn try_from(value: String) -> Result<Self, String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_ ".contains(c);
        if value.len() <= MAX_NAME && value.chars().all(is_plain) {
            return Ok(Self(value));
        }
        Err(format!("`{}` is not a setting of a queue", value.escape_debug()))
    }
}

/// The name that we give a volume of the device mapper, or the group of volumes that it is in: `fstrial_` and 16 hexadecimal digits drawn
/// at random, so that no other volume has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VolumeName(String);

impl TryFrom<String> for VolumeName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        let drawn = name.strip_prefix(VOLUME_PREFIX);
        if drawn.is_some_and(|drawn| drawn.len() == 16 && drawn.chars().all(is_digit)) {
            return Ok(Self(name));
        }
        Err(format!("`{}` is not a volume that fstrial makes", name.escape_debug()))
    }
}

impl VolumeName {
    /// A name that no volume has.
    ///
    /// # Errors
    /// The kernel draws none.
    pub(crate) fn draw() -> Result<Self, StackError> {
        let drawn = sysfs::read("/proc/sys/kernel/random/uuid")?.replace('-', "");
        let name = format!("{VOLUME_PREFIX}{}", drawn.get(..16).unwrap_or_default());
        name.try_into().map_err(StackError::unlike)
    }

    /// True if a volume has this name, or is in the group that has it.
    pub(crate) fn is_of(&self, volume: &str) -> bool {
        volume.strip_prefix(&self.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    }
}

/// A folder, of a directory or of control groups, that we made under a name of ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PathBuf", into = "PathBuf")]
pub struct OwnFolder(PathBuf);

impl TryFrom<PathBuf> for OwnFolder {
    type Error = String;

    fn try_from(path: PathBuf) -> Result<Self, String> {
        let is_plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_absolute() && path.components().all(is_plain) && name.starts_with(FOLDER_PREFIX) {
            return Ok(Self(path));
        }
        Err(format!("{} is not a folder that fstrial makes", path.display()))
    }
}

impl From<OwnFolder> for PathBuf {
    fn from(folder: OwnFolder) -> Self {
        folder.0
    }
}

impl OwnFolder {
    /// Absolute path; the last part begins with fstrial's prefix for folders.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// A block device at the time of the change: its name and number may be another device's later, its sequence number
/// cannot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownDisk {
    /// The kernel's name.
    pub name: KernelName,
    /// Major and minor number at that time.
    pub number: DeviceNumber,
    /// Counts up with every disk and every medium that the kernel sees; kernel 5.15 and later.
    #[serde(default)]
    pub diskseq: Option<u64>,
}

impl KnownDisk {
    /// The device of a folder in sysfs, which may be a link.
    ///
    /// # Errors
    /// It is gone.
    pub fn of(sysfs_folder: &Path) -> Result<Self, StackError> {
        let folder = fs::canonicalize(sysfs_folder).map_err(|e| StackError::io("find", sysfs_folder, e))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let number = sysfs::read(folder.join("dev"))?.parse();
        let number = number.map_err(|error: NotANumber| StackError::unlike(error.to_string()))?;
        let diskseq = sysfs::read_number(folder.join("diskseq")).ok();
        Ok(Self { name: name.try_into().map_err(StackError::unlike)?, number, diskseq })
    }

    /// Its folder in sysfs.
    pub fn sysfs(&self) -> PathBuf {
        self.number.sysfs()
    }

    /// Its node, as the kernel names it.
    pub fn node(&self) -> PathBuf {
        self.name.node()
    }

    /// True if it is still there, and no other device has taken its place.
    pub fn is_there(&self) -> bool {
        Self::of(&self.sysfs()).is_ok_and(|result| result == *self)
    }

    /// The same for settings of its queue. Those of a loop device outlive the attached file, which had the sequence
    /// number: until another file is attached they are ours to restore.
    pub(crate) fn has_our_queue(&self) -> bool {
        let is_free_loop = || {
            let same = Self::of(&self.sysfs()).is_ok_and(|result| result.name == self.name);
            same && self.name.as_str().starts_with("loop") && !self.sysfs().join("loop").exists()
        };
        self.is_there() || is_free_loop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_nowhere_else() {
        let name = |text: &str| KernelName::try_from(text.to_owned());
        for good in ["loop64", "nvme0n1", "cciss!c0d0", "dm-0", "ext4", "zram0"] {
            assert_eq!(name(good).unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", "../sda", "a/b", "-x", "sda\n", "!etc!passwd", "sd a", &"a".repeat(33)] {
            assert!(name(bad).is_err(), "{bad}");
        }
        assert_eq!(name("cciss!c0d0").unwrap().node(), Path::new("/dev/cciss/c0d0"));
        let value = |text: &str| QueueValue::try_from(text.to_owned());
        assert!(value("write back").is_ok() && value("mq-deadline").is_ok() && value("128").is_ok());
        assert!(value("a\nb").is_err() && value("/bin/sh").is_err() && value(&"1".repeat(33)).is_err());
        let volume = |text: &str| VolumeName::try_from(text.to_owned());
        let ours = volume("fstrial_0123456789abcdef").unwrap();
        assert!(ours.is_of("fstrial_0123456789abcdef") && ours.is_of("fstrial_0123456789abcdef-arm"));
        assert!(!ours.is_of("fstrial_0123456789abcdef0") && !ours.is_of("vg-root"));
        for bad in ["vg", "fstrial_", "fstrial_0123456789abcdeg", "fstrial_0123456789abcdef-arm", "../x"] {
            assert!(volume(bad).is_err(), "{bad}");
        }
        assert_ne!(VolumeName::draw().unwrap(), VolumeName::draw().unwrap());
        let folder = |text: &str| OwnFolder::try_from(PathBuf::from(text));
        assert!(folder("/srv/a/fstrial-run-1-2").is_ok());
        for bad in ["/srv/a", "fstrial-run-1", "/srv/../fstrial-run-1", "/fstrial-run-1/..", "/", ""] {
            assert!(folder(bad).is_err(), "{bad}");
        }
        assert!(serde_json::from_str::<KernelName>("\"../x\"").is_err());
        assert!(serde_json::from_str::<OwnFolder>("\"/etc\"").is_err());
        assert!(serde_json::from_str::<fstrial_model::queue::QueueAttribute>("\"iosched/../../x\"").is_err());
    }

    #[test]
    fn a_disk_is_itself_by_name_number_and_sequence() {
        // All devices of this machine that are stable during this test.
        let stays =
            |name: &str| !["loop", "zram", "md", "dm-"].iter().any(|passing| name.starts_with(passing));
        let mut entries = fs::read_dir("/sys/block").unwrap().flatten();
        let Some(entry) = entries.find(|entry| stays(&entry.file_name().to_string_lossy())) else { return };
        let disk = KnownDisk::of(&entry.path()).unwrap();
        assert!(disk.is_there() && disk.has_our_queue());
        let text = serde_json::to_string(&disk).unwrap();
        assert_eq!(serde_json::from_str::<KnownDisk>(&text).unwrap(), disk);
        let sequence = KnownDisk { diskseq: disk.diskseq.map(|seq| seq + 1), ..disk.clone() };
        let next = DeviceNumber { minor: disk.number.minor + 1, ..disk.number };
        let minor = KnownDisk { number: next, ..disk.clone() };
        let name = KnownDisk { name: String::from("other").try_into().unwrap(), ..disk.clone() };
        assert!(!minor.is_there() && !name.is_there() && !name.has_our_queue());
        assert!(disk.diskseq.is_none() || !sequence.is_there() && !sequence.has_our_queue());
    }
}
