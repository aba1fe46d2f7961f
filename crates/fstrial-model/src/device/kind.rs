//! The kinds of device: each is a row in a separate file with its distinguishing properties.

mod directory;
mod disk;
mod image;
mod model;
mod ramdisk;

use super::Device;
use crate::{
    problem::{Problem, problem},
    rows::rows,
    units::Bytes,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

// The only list of them in the crate.
rows! {
    /// Device that an arm is built on, by its name in a trial file.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
    pub enum DeviceKind of KindRow {
        /// A loop device with direct I/O on a file made by fstrial, allocated and written in full.
        #[default]
        "image" Image is image::ROW,
        /// Memory: brd, a zram device made by fstrial, or a loop device on a file in memory.
        "ramdisk" Ramdisk is ramdisk::ROW,
        /// A device that follows a model, with data in memory.
        "model" Model is model::ROW,
        /// A whole real device, which is erased.
        "disk" Disk is disk::ROW,
        /// Existing directories; every arm is `dir:PATH`.
        "directory" Directory is directory::ROW,
    }
}

/// Properties of a kind.
struct KindRow {
    origin: Origin,
    looped: Looped,
    takes_path: bool,
    /// Refuses invalid settings.
    check: fn(&Device) -> Option<Problem>,
    /// Description of its members, if there can be several.
    members: Option<fn(&Device) -> String>,
    /// Steps to make one of this size, and to undo that.
    making: fn(&Device, Bytes) -> Making,
}

/// Origin of a device.
enum Origin {
    /// We make it, of a size to be chosen.
    Made,
    /// It is a device of the host's, and filesystems overwrite its content.
    Erased,
    /// Nothing is made: arms are directories that others use, too.
    Existing,
}

/// The backing of the loop device that a worker makes in each run.
enum Looped {
    /// Nothing: it is a block device already, or none is needed.
    Nothing,
    /// A file among others in a folder of the host, allocated in full.
    File,
    /// A modelled device served by a process of fstrial.
    Model,
}

/// Steps to make a device, and to undo that if necessary; as text.
type Making = (String, Option<&'static str>);

/// One that we make, for filesystems, out of nothing that is there.
const MADE: KindRow = KindRow {
    origin: Origin::Made,
    looped: Looped::Nothing,
    takes_path: false,
    check: |_| None,
    members: None,
    making: |_, _| (String::new(), None),
};

impl DeviceKind {
    /// True if fstrial makes it, with a choice of size; otherwise it exists, on this host only.
    pub const fn is_made(self) -> bool {
        matches!(self.row().origin, Origin::Made)
    }

    /// True if arms are filesystems made on it, which takes root; otherwise they are shared directories.
    pub const fn holds_filesystems(self) -> bool {
        !matches!(self.row().origin, Origin::Existing)
    }

    /// True for a host's device that is erased: it has to be named for that, and its name may be another one's
    /// tomorrow.
    pub const fn is_erased(self) -> bool {
        matches!(self.row().origin, Origin::Erased)
    }

    /// True if it follows a model, which has to be named.
    pub const fn is_modelled(self) -> bool {
        matches!(self.row().looped, Looped::Model)
    }

    /// True for a file among others in a folder of the host, allocated in full: other work of the host's disk affects
    /// it, states can share its blocks, and discards would free them.
    pub const fn is_file(self) -> bool {
        matches!(self.row().looped, Looped::File)
    }

    /// True if it becomes a block device only within each run, by a loop device.
    pub const fn is_looped(self) -> bool {
        !matches!(self.row().looped, Looped::Nothing)
    }

    /// Placeholder for it in a command before it has a name.
    pub fn node(self) -> String {
        if self.is_looped() { "/dev/loopN".into() } else { format!("the {}", self.name()) }
    }
}

impl Device {
    /// Steps to make one of this size, and to undo that if necessary; as text.
    pub fn making(&self, size: Bytes) -> Making {
        let row = self.kind.row();
        match self.members.zip(row.members) {
            Some((count, members)) => (
                format!("make {count} {}, each of {size}, and write all of them", members(self)),
                Some("close them; remove zram devices (in the ledger)"),
            ),
            None => (row.making)(self, size),
        }
    }

    /// A key that is not for its kind.
    pub(crate) fn key_problem(&self) -> Option<Problem> {
        let (row, name) = (self.kind.row(), self.kind.name());
        if self.size.is_some() && !self.kind.is_made() {
            let message = format!("the size of a {name} cannot be set");
            return Some(problem(&["device", "size"], message, "leave size out"));
        }
        if self.rotational.is_some() && !self.kind.holds_filesystems() {
            let message = format!("a {name} has no queue to set");
            return Some(problem(&["device", "rotational"], message, "leave rotational out"));
        }
        if self.path.is_some() && !row.takes_path {
            let message = format!("a {name} takes no path");
            return Some(problem(&["device", "path"], message, "leave path out"));
        }
        None
    }

    /// Impossible settings of its kind.
    pub(crate) fn kind_problem(&self) -> Option<Problem> {
        let row = self.kind.row();
        let beside = || {
            let message = format!("a device of kind {} takes no model", self.kind.name());
            problem(&["device", "model"], message, "write kind = \"model\"")
        };
        (row.check)(self).or_else(|| (self.model.is_some() && !self.kind.is_modelled()).then(beside))
    }

    /// True if there can be several of its kind.
    pub(super) fn can_be_several(&self) -> bool {
        self.kind.row().members.is_some()
    }

    /// The folder of its file, as text.
    fn folder_in_words(&self) -> String {
        self.path.as_ref().map_or_else(|| "the current folder".into(), |path| path.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_kind_is_documented_and_described() {
        let document = include_str!("../../../../docs/trial-files.md");
        for kind in DeviceKind::ALL {
            assert!(document.contains(&format!("`{}`", kind.name())), "{kind:?} in docs/trial-files.md");
            let (what, undo) = Device::of(kind).making(Bytes::gib(1));
            assert!(what.len() > 20, "{kind:?}: {what}");
            assert_eq!(undo.is_some(), kind.holds_filesystems(), "{kind:?}");
            assert!(!kind.is_made() || what.contains("1GiB"), "{kind:?}: {what}");
        }
    }
}
