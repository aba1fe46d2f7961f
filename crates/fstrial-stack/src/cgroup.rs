//! Control groups of one run: where the kernel has a controller, and a group that is made for a worker and removed.
//!
//! A group belongs to a worker; its process enters and leaves it, with all its threads and children. A group is removed
//! explicitly, and only when it is empty: its removal is in the ledger.

use crate::{
    error::StackError,
    host,
    ledger::{Ledger, LedgerEntry, Undo},
    mounts::{self, MountEntry},
    named::{FOLDER_PREFIX, OwnFolder},
    sysfs,
};
use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// Time limit for the last process to leave a group.
const LEAVING: Duration = Duration::from_secs(5);

/// A controller by its names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Controller {
    /// Controller name in version 1, if mounted separately.
    pub(crate) v1: &'static str,
    /// In version 2.
    pub(crate) v2: &'static str,
    /// Its purpose: "limit memory", as in "nothing here can limit memory".
    pub(crate) verb: &'static str,
}

/// The two kinds of hierarchies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V1,
    V2,
}

/// Parent folder of groups with a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    pub(crate) version: Version,
    pub(crate) root: PathBuf,
}

pub(crate) fn unable(what: String, hint: impl Into<String>) -> StackError {
    StackError::Unable { what, hint: hint.into() }
}

impl Controller {
    /// Finds its hierarchy on this machine.
    pub(crate) fn find(self) -> Result<Hierarchy, StackError> {
        self.choose(&mounts::all()?, &|path| sysfs::read(path).unwrap_or_default())
    }

    /// The hierarchy that has the controller. `read` returns a file of a hierarchy, or nothing if it is missing.
    pub(crate) fn choose(
        self,
        mounts: &[MountEntry],
        read: &dyn Fn(&Path) -> String,
    ) -> Result<Hierarchy, StackError> {
        let Self { v1, v2, verb } = self;
        let is_v1 = |m: &&MountEntry| m.filesystem == "cgroup" && m.super_options.iter().any(|o| o == v1);
        if let Some(matched) = mounts.iter().find(is_v1) {
            return Ok(Hierarchy { version: Version::V1, root: matched.target.clone() });
        }
        let Some(unified) = mounts.iter().find(|m| m.filesystem == "cgroup2") else {
            return Err(unable(
                format!(
                    "nothing here can {verb}: neither the {v1} controller (cgroup v1) nor cgroup v2 is mounted"
                ),
                format!(
                    "mount one: mkdir -p /sys/fs/cgroup/{v1}; mount -t cgroup -o {v1} none /sys/fs/cgroup/{v1}"
                ),
            ));
        };
        let root = &unified.target;
        let has = |file: &str| read(&root.join(file)).split_whitespace().any(|name| name == v2);
        if !has("cgroup.controllers") {
            return Err(unable(
                format!(
                    "cgroup v2 at {} has no {v2} controller, and {v1} of v1 is not mounted",
                    root.display()
                ),
                format!(
                    "one of the two has it: look at /proc/cgroups ({v1}) and the kernel's command line (cgroup_disable, \
                     cgroup_no_v1); in a container the host decides"
                ),
            ));
        }
        if !has("cgroup.subtree_control") {
            return Err(unable(
                format!(
                    "the {v2} controller of cgroup v2 is not handed down to groups below {}",
                    root.display()
                ),
                format!(
                    "hand it down, if that suits the machine: echo +{v2} > {}/cgroup.subtree_control",
                    root.display()
                ),
            ));
        }
        Ok(Hierarchy { version: Version::V2, root: root.clone() })
    }

    /// The path of a process's group in its hierarchy: `7:blkio:/user` for v1, `0::/user` for v2.
    pub(crate) fn own_group(self, version: Version, text: &str) -> Option<String> {
        text.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            let is_it = match version {
                Version::V1 => controllers.split(',').any(|name| name == self.v1),
                Version::V2 => number == "0" && controllers.is_empty(),
            };
            is_it.then(|| path.to_owned())
        })
    }

    /// The group that this process is in; the uppermost one, if its own is not visible here.
    fn home(self, hierarchy: &Hierarchy) -> Result<PathBuf, StackError> {
        let Hierarchy { version, root } = hierarchy;
        let path = self.own_group(*version, &sysfs::read("/proc/self/cgroup")?);
        let home = path.map(|path| root.join(path.trim_start_matches('/')));
        Ok(home.filter(|home| home.join("cgroup.procs").exists()).unwrap_or_else(|| root.clone()))
    }

    /// The value of a file in the group of this process and in those above it. Our groups are not nested below them, so
    /// their limits do not apply to a process that is moved into ours.
    pub(crate) fn above(
        self,
        hierarchy: &Hierarchy,
        file: &str,
    ) -> Result<Vec<(PathBuf, String)>, StackError> {
        let home = self.home(hierarchy)?;
        let groups = home.ancestors().take_while(|group| group.starts_with(&hierarchy.root));
        let read = |group: &Path| Some((group.to_owned(), fs::read_to_string(group.join(file)).ok()?));
        Ok(groups.filter_map(read).collect())
    }

    /// Makes a group for this process.
    pub(crate) fn make(self, hierarchy: &Hierarchy, ledger: &Ledger) -> Result<Group, StackError> {
        // Unique on the host at any time: the owner's process, and the moment.
        let name = format!("{FOLDER_PREFIX}{}-{}", ledger.owner(), host::moment());
        let path = hierarchy.root.join(name);
        let own = OwnFolder::try_from(path.clone()).expect("a group of ours has a name of ours");
        let home = self.home(hierarchy)?;
        let written = ledger.write(Undo::RemoveGroup { path: own })?;
        if let Err(error) = fs::create_dir(&path) {
            written.strike_out()?;
            return Err(unable(
                format!("could not make the control group {}: {error}", path.display()),
                format!(
                    "to {} takes root, and a hierarchy that can be written (in containers it often cannot)",
                    self.verb
                ),
            ));
        }
        Ok(Group { path, home, inside: false, written })
    }
}

/// A group made by fstrial.
#[must_use]
#[derive(Debug)]
pub(crate) struct Group {
    path: PathBuf,
    /// The group that this process was in before.
    home: PathBuf,
    inside: bool,
    written: LedgerEntry,
}

impl Group {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves this process into the group, with all its threads and future children.
    pub(crate) fn enter(&mut self) -> Result<(), StackError> {
        if !self.inside {
            sysfs::write(self.path.join("cgroup.procs"), "0")?;
            self.inside = true;
        }
        Ok(())
    }

    /// Takes this process out of the group.
    pub(crate) fn leave(&mut self) -> Result<(), StackError> {
        if self.inside {
            sysfs::write(self.home.join("cgroup.procs"), "0")?;
            self.inside = false;
        }
        Ok(())
    }

    /// Removes the group. If it is not empty, its removal stays in the ledger.
    pub(crate) fn close(mut self) -> Result<(), StackError> {
        self.leave()?;
        self.written.undo()
    }
}

/// Removes a group that we made. Fine if it is gone.
pub(crate) fn remove(group: &OwnFolder) -> Result<(), StackError> {
    let group = group.path();
    let until = Instant::now() + LEAVING;
    loop {
        match fs::remove_dir(group) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < until => {
                thread::park_timeout(Duration::from_millis(5));
            }
            result => return result.map_err(|e| StackError::io("remove the control group", group, e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLKIO: Controller = Controller { v1: "blkio", v2: "io", verb: "throttle" };

    fn mounted(filesystem: &str, target: &str, options: &str) -> MountEntry {
        MountEntry {
            root: "/".into(),
            device: crate::device_number::DeviceNumber { major: 0, minor: 1 },
            target: target.into(),
            mount_options: Vec::new(),
            filesystem: filesystem.into(),
            source: filesystem.into(),
            super_options: options.split(',').map(str::to_owned).collect(),
        }
    }

    fn chosen(mounts: &[MountEntry], controllers: &str, handed_down: &str) -> Result<Hierarchy, StackError> {
        BLKIO.choose(mounts, &|path| {
            if path.ends_with("cgroup.controllers") { controllers } else { handed_down }.to_owned()
        })
    }

    #[test]
    fn finds_io_controller_in_cgroup_v1_or_v2() {
        let cpu = mounted("cgroup", "/c/cpu", "rw,cpu");
        let blkio = mounted("cgroup", "/c/blkio", "rw,blkio");
        let unified = mounted("cgroup2", "/c", "rw");
        let by =
            |mounts: &[MountEntry]| chosen(mounts, "cpu io memory", "io memory").map(|h| (h.version, h.root));
        assert_eq!(by(&[cpu.clone(), blkio, unified.clone()]).unwrap(), (Version::V1, "/c/blkio".into()));
        assert_eq!(by(&[cpu.clone(), unified.clone()]).unwrap(), (Version::V2, "/c".into()));
        let refused = |mounts: &[MountEntry], controllers: &str| {
            let error = chosen(mounts, controllers, "memory").unwrap_err();
            format!("{error}; {}", error.hint().unwrap())
        };
        assert!(refused(std::slice::from_ref(&cpu), "").contains("neither the blkio controller"));
        assert!(refused(&[cpu.clone(), unified.clone()], "cpu").contains("/c has no io controller"));
        assert!(refused(&[cpu, unified], "cpu io").contains("echo +io > /c/"));
    }

    #[test]
    fn the_group_of_a_process_is_found_in_either_version() {
        let text = "7:cpu,cpuacct:/a\n5:blkio:/b:c\n1:name=systemd:/d\n0::/e\n";
        assert_eq!(BLKIO.own_group(Version::V1, text).as_deref(), Some("/b:c"));
        assert_eq!(BLKIO.own_group(Version::V2, text).as_deref(), Some("/e"));
        assert_eq!(BLKIO.own_group(Version::V1, "0::/e\n"), None);
    }
}
