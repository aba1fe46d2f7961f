//! The steps: their kinds and texts. The implementation of each undo is in `undoing`.

use crate::{
    delete::Identity,
    error::StackError,
    named::{KernelName, KnownDisk, OwnFolder, QueueValue, VolumeName},
};
use fstrial_model::queue::QueueAttribute;
use serde::{Deserialize, Serialize};
use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

/// The undo of one change to the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "undo")]
pub enum Undo {
    /// Remove a zram device that we added.
    RemoveZram {
        /// N of `/dev/zramN`.
        index: u32,
        /// Distinguishes it from a later device of the same number.
        node: NodeMark,
    },
    /// Remove a zram device that we were about to add when we died: one that is not in this list, was never set up, and
    /// was added at this very moment.
    RemoveUnusedZram {
        /// Those that were there before.
        existing: Vec<u32>,
        /// When: nanoseconds since 1970.
        moment: u64,
    },
    /// Remove a loop device that we added.
    RemoveLoop {
        /// N of `/dev/loopN`.
        index: u32,
        /// The file it was added for, as the kernel names it.
        file: PathBuf,
        /// Distinguishes it from a later device of the same number.
        node: NodeMark,
    },
    /// Remove a loop device that we were about to add when we died: one that was added at this very moment.
    RemoveUnusedLoop {
        /// N of `/dev/loopN`.
        index: u32,
        /// When: nanoseconds since 1970.
        moment: u64,
    },
    /// Write a value back to a setting of a queue.
    RestoreAttribute {
        /// The device.
        disk: KnownDisk,
        /// The setting.
        attribute: QueueAttribute,
        /// The value before.
        value: QueueValue,
    },
    /// Thaw a filesystem that we froze: one that is frozen outlives its mounts, and keeps its device.
    Thaw {
        /// The device it is on.
        disk: KnownDisk,
        /// The kernel's name of the filesystem.
        filesystem: KernelName,
    },
    /// Stop an array of md that we made.
    StopArray {
        /// N of `/dev/mdN`.
        index: u32,
        /// The kernel's names of its members: another array may have taken the number since.
        members: Vec<KernelName>,
    },
    /// Remove volumes of the device mapper that we made.
    RemoveVolumes {
        /// The name of the volume, or of the group that they are in.
        name: VolumeName,
    },
    /// Remove a control group that we made, once it is empty.
    RemoveGroup {
        /// The folder.
        path: OwnFolder,
    },
    /// Delete a folder that we made, with everything in it.
    RemoveFolder {
        /// The folder.
        path: OwnFolder,
        /// Its identity; none before it is made. Users who may write to the directory may put another one in its place.
        made: Option<Identity>,
    },
}

/// The node of a device in `/dev`, which the kernel makes with the device: its inode number is never reused, and its
/// birth time is the device's. In a separate `/dev`, as some containers have, it identifies nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeMark {
    /// The filesystem that the node is on.
    filesystem: u64,
    inode: u64,
}

/// Maximum time between the announcement and the addition of a device, in nanoseconds.
const ADDED_WITHIN: u64 = 2_000_000_000;
/// Maximum lag of file timestamps, which advance in ticks.
const TICK: u64 = 20_000_000;

impl NodeMark {
    /// The mark of a device by its node; none if there is none.
    pub fn of(node: &Path) -> Option<Self> {
        let stat = rustix::fs::stat(node).ok()?;
        Some(Self { filesystem: stat.st_dev, inode: stat.st_ino })
    }

    /// True if an existing device is the marked one.
    ///
    /// # Errors
    /// This `/dev` cannot show it.
    pub(crate) fn is_of(self, node: &Path) -> Result<bool, StackError> {
        match Self::of(node) {
            Some(result) if result.filesystem == self.filesystem => Ok(result.inode == self.inode),
            _ => Err(untold(node)),
        }
    }

    /// True if the node of an existing device was made at a moment.
    ///
    /// # Errors
    /// This `/dev` does not have it.
    pub(crate) fn is_of_moment(node: &Path, at: u64) -> Result<bool, StackError> {
        let result = fs::metadata(node).map_err(|_| untold(node))?;
        // Filesystems in memory know the birth of a file on new kernels; udev changes the owner just after it.
        let Ok(born) = result.created().or_else(|_| result.modified()) else { return Ok(false) };
        let born = born.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let at = u128::from(at);
        Ok((at.saturating_sub(TICK.into())..=at + u128::from(ADDED_WITHIN)).contains(&born))
    }
}

fn untold(node: &Path) -> StackError {
    StackError::Unable {
        what: format!(
            "{} names a device that cannot be identified in this /dev (of a container?)",
            node.display()
        ),
        hint: "run `fstrial clean` on the host, or where the command ran".into(),
    }
}

impl fmt::Display for Undo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RemoveZram { index, .. } => write!(f, "remove /dev/zram{index}"),
            Self::RemoveUnusedZram { .. } => write!(f, "remove a zram device added but never set up"),
            Self::RemoveLoop { index, .. } | Self::RemoveUnusedLoop { index, .. } => {
                write!(f, "remove /dev/loop{index}")
            }
            Self::RestoreAttribute { disk, attribute, value } => {
                write!(f, "write `{value}` back to {} of {}", attribute.name(), disk.node().display())
            }
            Self::Thaw { disk, .. } => write!(f, "thaw the filesystem on {}", disk.node().display()),
            Self::StopArray { index, .. } => write!(f, "stop the array /dev/md{index}"),
            Self::RemoveVolumes { name } => write!(f, "remove the volumes {name}…"),
            Self::RemoveGroup { path } => write!(f, "remove the control group {}", path.path().display()),
            Self::RemoveFolder { path, .. } => write!(f, "delete the folder {}", path.path().display()),
        }
    }
}

impl Undo {
    /// True if the change survives a boot; all others are in the kernel.
    pub(super) fn outlives_a_boot(&self) -> bool {
        matches!(self, Self::RemoveFolder { .. })
    }

    /// True if the leftover hinders no other trial.
    pub(super) fn is_harmless(&self) -> bool {
        matches!(self, Self::RemoveFolder { .. } | Self::RemoveGroup { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_mark_matches_creation_time_and_inode() {
        let home = tempfile::tempdir().unwrap();
        let node = home.path().join("node");
        let before = crate::host::moment();
        fs::write(&node, "").unwrap();
        let none = home.path().join("none");
        let is_of_moment = |at| NodeMark::is_of_moment(&node, at).unwrap();
        assert!(is_of_moment(before));
        assert!(!is_of_moment(before - 10 * ADDED_WITHIN), "added long after");
        assert!(!is_of_moment(before + 10 * ADDED_WITHIN), "there already");
        assert!(NodeMark::is_of_moment(&none, before).is_err(), "not told is not gone");
        let mark = NodeMark::of(&node).unwrap();
        assert!(mark.is_of(&node).unwrap() && !NodeMark { inode: 0, ..mark }.is_of(&node).unwrap());
        assert!(mark.is_of(&none).is_err() && NodeMark { filesystem: 0, ..mark }.is_of(&node).is_err());
    }
}
