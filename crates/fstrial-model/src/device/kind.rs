//! The kinds of device: each is a row in a file of its own, and is asked what sets it apart.

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
    /// The kinds of device.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
    pub enum DeviceKind of Row {
        /// A loop device with direct I/O on a file of our own, allocated and written in full.
        #[default]
        "image" Image is image::ROW,
        /// Memory: brd, a zram device of our own, or a loop device on a file in memory.
        "ramdisk" Ramdisk is ramdisk::ROW,
        /// A device that behaves as a model says, with data in memory.
        "model" Model is model::ROW,
        /// A whole real device, which is erased.
        "disk" Disk is disk::ROW,
        /// Existing directories; every arm is `dir:PATH`.
        "directory" Directory is directory::ROW,
    }
}

/// What there is to know of a kind.
struct Row {
    origin: Origin,
    looped: Looped,
    /// Whether a path means something.
    takes_path: bool,
    /// Refuses what cannot be such a device.
    check: fn(&Device) -> Option<Problem>,
    /// What its members are, if there can be several.
    members: Option<fn(&Device) -> String>,
    /// What is done to have it, of this size, and how that is undone.
    making: fn(&Device, Bytes) -> Making,
}

/// Where a device comes from.
enum Origin {
    /// We make it, of a size to be chosen.
    Made,
    /// It is a device of the host's, and filesystems are made over what is on it.
    Erased,
    /// Nothing is made: arms are directories that others use, too.
    Existing,
}

/// What a worker puts a loop device on, in each run.
enum Looped {
    /// Nothing: it is a block device already, or none is needed.
    Nothing,
    /// A file among others in a folder of the host, allocated in full.
    File,
    /// What a process of ours serves that follows a model.
    Model,
}

/// What is done to have a device, and how that is undone, if it has to be; for people.
type Making = (String, Option<&'static str>);

/// One that we make, for filesystems, out of nothing that is there.
const MADE: Row = Row {
    origin: Origin::Made,
    looped: Looped::Nothing,
    takes_path: false,
    check: |_| None,
    members: None,
    making: |_, _| (String::new(), None),
};

impl DeviceKind {
    /// Whether we make it, of a size to be chosen; else it is there, on this host only.
    pub const fn is_made(self) -> bool {
        matches!(self.row().origin, Origin::Made)
    }

    /// Whether arms are filesystems that are made on it, which takes root; else they are directories that others use, too.
    pub const fn holds_filesystems(self) -> bool {
        !matches!(self.row().origin, Origin::Existing)
    }

    /// Whether it is a device of the host's that is erased: somebody has to name it for that, and its name may be another
    /// one's tomorrow.
    pub const fn is_erased(self) -> bool {
        matches!(self.row().origin, Origin::Erased)
    }

    /// Whether it follows a model, which has to be named.
    pub const fn is_modelled(self) -> bool {
        matches!(self.row().looped, Looped::Model)
    }

    /// Whether it is a file among others in a folder of the host, allocated in full: what else the host's disk does shows on
    /// it, states can share its blocks, and discards would take them away.
    pub const fn is_file(self) -> bool {
        matches!(self.row().looped, Looped::File)
    }

    /// Whether it becomes a block device in each run only, by a loop device.
    pub const fn is_looped(self) -> bool {
        !matches!(self.row().looped, Looped::Nothing)
    }

    /// What it is called in a command where it has no name yet.
    pub fn node(self) -> String {
        if self.is_looped() { "/dev/loopN".into() } else { format!("the {}", self.name()) }
    }
}

impl Device {
    /// What is done to have it, of this size, and how that is undone, if it has to be; for people.
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
            let message = format!("a {name} has the size it has");
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

    /// What is impossible for its kind.
    pub(crate) fn kind_problem(&self) -> Option<Problem> {
        let row = self.kind.row();
        let beside = || {
            let message = format!("a device of kind {} takes no model", self.kind.name());
            problem(&["device", "model"], message, "write kind = \"model\"")
        };
        (row.check)(self).or_else(|| (self.model.is_some() && !self.kind.is_modelled()).then(beside))
    }

    /// Whether there can be several of its kind.
    pub(super) fn can_be_several(&self) -> bool {
        self.kind.row().members.is_some()
    }

    /// The folder of its file, in words.
    fn folder_in_words(&self) -> String {
        self.path.as_ref().map_or_else(|| "the current folder".into(), |path| path.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_in_the_document_and_says_what_is_done_to_have_it() {
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
