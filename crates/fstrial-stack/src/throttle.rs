//! A rate cap on a device, by the block controller of cgroup v1 (`blkio.throttle.*`) or v2 (`io.max`), whichever this
//! machine has.
//!
//! It is a cap and not a disk: requests that fit are served at once, then nothing until the next slice of time. And v1
//! charges only the process that submits: what kernel threads write on its behalf (journal commits of ext4, write-back)
//! goes free. What was used is therefore said with every result.
//!
//! The process of the worker is in the group under load only.

use crate::{
    cgroup::{Controller, Group, Version, unable},
    error::StackError,
    ledger::Ledger,
    sysfs,
};
use fstrial_model::device::{Throttle, ThrottledBy};
use std::{
    fs,
    path::{Path, PathBuf},
};

pub(crate) const CONTROLLER: Controller = Controller { v1: "blkio", v2: "io", verb: "throttle" };

/// Where groups are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// The version of the controller.
    pub by: ThrottledBy,
    root: PathBuf,
}

/// A group with a cap on one device.
#[must_use]
#[derive(Debug)]
pub struct ThrottledGroup(Group);

impl Hierarchy {
    /// Where it is mounted.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

/// Finds the block controller of this machine.
///
/// # Errors
/// There is none, or it cannot be used; says which of the two versions lacks what.
pub fn find() -> Result<Hierarchy, StackError> {
    let found = CONTROLLER.find()?;
    let least = found.root.join("blkio.throttle.write_iops_device");
    if found.version == Version::V1 && !least.exists() {
        return Err(unable(
            "the blkio controller (cgroup v1) of this kernel cannot throttle".into(),
            "boot a kernel with CONFIG_BLK_DEV_THROTTLING",
        ));
    }
    Ok(Hierarchy { by: by(found.version), root: found.root })
}

fn by(version: Version) -> ThrottledBy {
    match version {
        Version::V1 => ThrottledBy::V1,
        Version::V2 => ThrottledBy::V2,
    }
}

/// The lines that are written, each into its file of a group.
fn settings(by: ThrottledBy, cap: &Throttle, device: &str) -> Vec<(&'static str, String)> {
    let limits = cap.limits();
    match by {
        ThrottledBy::V1 => {
            let file = |name| match name {
                "read_iops" => "blkio.throttle.read_iops_device",
                "write_iops" => "blkio.throttle.write_iops_device",
                "read_bandwidth" => "blkio.throttle.read_bps_device",
                _ => "blkio.throttle.write_bps_device",
            };
            limits.map(|(name, limit)| (file(name), format!("{device} {limit}"))).collect()
        }
        ThrottledBy::V2 => {
            let key = |name| match name {
                "read_iops" => "riops",
                "write_iops" => "wiops",
                "read_bandwidth" => "rbps",
                _ => "wbps",
            };
            let words: Vec<String> = limits.map(|(name, limit)| format!("{}={limit}", key(name))).collect();
            vec![("io.max", format!("{device} {}", words.join(" ")))]
        }
    }
}

/// Whether a file says what was written to it: a line of the device with all of the words.
pub(crate) fn is_taken(text: &str, written: &str) -> bool {
    let mut words = written.split_whitespace();
    let device = words.next();
    let wanted: Vec<&str> = words.collect();
    let of_device = |line: &str| line.split_whitespace().next() == device;
    let has_all = |line: &str| wanted.iter().all(|word| line.split_whitespace().any(|known| known == *word));
    text.lines().any(|line| of_device(line) && has_all(line))
}

impl ThrottledGroup {
    /// Makes a group with a cap on the device of this sysfs folder, and makes sure that the kernel took it.
    ///
    /// # Errors
    /// The controller is missing, cannot be used, or did not take a limit.
    pub fn set(cap: &Throttle, sysfs_folder: &Path, ledger: &Ledger) -> Result<Self, StackError> {
        find()?;
        let hierarchy = CONTROLLER.find()?;
        let device = sysfs::read(sysfs_folder.join("dev"))?;
        let settings = settings(by(hierarchy.version), cap, &device);
        for (file, _) in &settings {
            let above = CONTROLLER.above(&hierarchy, file)?;
            let is_about = |line: &str| line.split_whitespace().next() == Some(device.trim());
            let own = above
                .into_iter()
                .find(|(group, caps)| *group != hierarchy.root && caps.lines().any(is_about));
            if let Some((group, caps)) = own {
                return Err(unable(
                    format!(
                        "the control group that fstrial runs in has a cap of its own, which would not hold in another one: {} {}",
                        group.join(file).display(),
                        caps.trim()
                    ),
                    "start fstrial in another group, or leave throttle out",
                ));
            }
        }
        let group = CONTROLLER.make(&hierarchy, ledger)?;
        match apply(group.path(), &settings) {
            Ok(()) => Ok(Self(group)),
            Err(error) => {
                group.close()?;
                Err(error)
            }
        }
    }

    /// Puts this process into the group, with all its threads and what it starts from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn enter(&mut self) -> Result<(), StackError> {
        self.0.enter()
    }

    /// Takes this process out of the group.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn leave(&mut self) -> Result<(), StackError> {
        self.0.leave()
    }

    /// Removes the group.
    ///
    /// # Errors
    /// Somebody is still in it; its removal stays in the ledger.
    pub fn close(self) -> Result<(), StackError> {
        self.0.close()
    }
}

fn apply(group: &Path, settings: &[(&str, String)]) -> Result<(), StackError> {
    for (file, value) in settings {
        let path = group.join(file);
        let refused = |why: String| {
            unable(
                format!("the kernel did not take the throttle `{value}` in {}: {why}", path.display()),
                "this kernel cannot throttle this device; see docs/axes.md",
            )
        };
        fs::write(&path, value).map_err(|error| refused(error.to_string()))?;
        let says = sysfs::read(&path)?;
        if !is_taken(&says, value) {
            return Err(refused(format!("it says `{says}`")));
        }
    }
    Ok(())
}

/// What a reader of results must know about a throttled device.
pub fn notes(by: ThrottledBy, cap: &Throttle) -> Vec<String> {
    let mut notes = vec![format!(
        "throttled by {by}: {cap}. A rate cap, not a disk: idle time is credited and passes a burst at once, then requests \
         wait for the next slice of time, so latencies are those of no device"
    )];
    if by == ThrottledBy::V1 {
        notes.push(
            "cgroup v1 charges only the process that submits: what ext4's journal thread writes escapes the cap while XFS \
             pays for its log, which favours ext4; buffered writes are not limited at all"
                .into(),
        );
    } else {
        notes.push(
            "cgroup v2 charges buffered writes where the filesystem marks whose they are (ext4, XFS, btrfs, f2fs); what \
             kernel threads write for themselves escapes the cap"
                .into(),
        );
    }
    notes.push("the cap holds under load only: mkfs, laying out files and unmounting are not slowed".into());
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::units::Bytes;

    #[test]
    fn the_lines_are_the_kernels() {
        let cap =
            Throttle { write_iops: Some(300), read_bandwidth: Some(Bytes::mib(1)), ..Throttle::default() };
        assert_eq!(
            settings(ThrottledBy::V1, &cap, "7:64"),
            [
                ("blkio.throttle.write_iops_device", "7:64 300".to_owned()),
                ("blkio.throttle.read_bps_device", "7:64 1048576".to_owned())
            ]
        );
        let one = [("io.max", "7:64 wiops=300 rbps=1048576".to_owned())];
        assert_eq!(settings(ThrottledBy::V2, &cap, "7:64"), one);
    }

    #[test]
    fn a_limit_counts_only_if_the_kernel_says_it_back() {
        assert!(is_taken("7:0 10\n7:64 300", "7:64 300"));
        assert!(!is_taken("7:0 300", "7:64 300"));
        assert!(!is_taken("", "7:64 300"));
        assert!(is_taken("7:64 rbps=1048576 wbps=max riops=max wiops=300", "7:64 wiops=300 rbps=1048576"));
        assert!(!is_taken("7:64 rbps=max wbps=max riops=max wiops=300", "7:64 wiops=300 rbps=1048576"));
    }
}
