//! A rate cap on a device, by the block controller of cgroup v1 (`blkio.throttle.*`) or v2 (`io.max`), whichever this
//! machine has.
//!
//! It is a cap and not a disk: requests that fit are served at once, then nothing until the next slice of time. And v1
//! charges only the process that submits: what kernel threads write on its behalf (journal commits of ext4, write-back)
//! goes free. What was used is therefore said with every result.
//!
//! The group is a worker's, and its process is in it under load only. A group goes away by hand, and only when nobody is
//! in it: the ledger has its removal.

use crate::{
    error::StackError,
    host,
    ledger::{Ledger, Undo, Written},
    mounts::{self, Mounted},
    named::{FOLDER_PREFIX, OwnFolder},
    sysfs,
};
use fstrial_model::device::{Throttle, ThrottledBy};
use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// How long the last process of a group may take to leave it.
const LEAVING: Duration = Duration::from_secs(5);

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
pub struct Throttled {
    group: PathBuf,
    /// The group that this process was in before.
    home: PathBuf,
    inside: bool,
    written: Written,
}

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
    let found = choose(&mounts::all()?, &|path| sysfs::read(path).unwrap_or_default())?;
    let least = found.root.join("blkio.throttle.write_iops_device");
    if found.by == ThrottledBy::V1 && !least.exists() {
        return Err(unable(
            "the blkio controller (cgroup v1) of this kernel cannot throttle".into(),
            "boot a kernel with CONFIG_BLK_DEV_THROTTLING",
        ));
    }
    Ok(found)
}

fn unable(what: String, hint: &str) -> StackError {
    StackError::Unable { what, hint: hint.into() }
}

/// The hierarchy that has the controller. `read` reads a file of a hierarchy, and gives nothing where there is none.
fn choose(mounts: &[Mounted], read: &dyn Fn(&Path) -> String) -> Result<Hierarchy, StackError> {
    let is_v1 = |m: &&Mounted| m.filesystem == "cgroup" && m.super_options.iter().any(|o| o == "blkio");
    if let Some(found) = mounts.iter().find(is_v1) {
        return Ok(Hierarchy { by: ThrottledBy::V1, root: found.target.clone() });
    }
    let Some(unified) = mounts.iter().find(|m| m.filesystem == "cgroup2") else {
        return Err(unable(
            "nothing here can throttle: neither the blkio controller (cgroup v1) nor cgroup v2 is mounted"
                .into(),
            "mount one: mkdir -p /sys/fs/cgroup/blkio; mount -t cgroup -o blkio none /sys/fs/cgroup/blkio",
        ));
    };
    let root = &unified.target;
    let has_io = |file: &str| read(&root.join(file)).split_whitespace().any(|name| name == "io");
    if !has_io("cgroup.controllers") {
        return Err(unable(
            format!("cgroup v2 at {} has no io controller, and blkio of v1 is not mounted", root.display()),
            "one of the two has it: look at /proc/cgroups (blkio) and the kernel's command line (cgroup_disable, \
             cgroup_no_v1); in a container the host decides",
        ));
    }
    if !has_io("cgroup.subtree_control") {
        return Err(unable(
            format!("the io controller of cgroup v2 is not handed down to groups below {}", root.display()),
            "hand it down, if that suits the machine: echo +io > /sys/fs/cgroup/cgroup.subtree_control",
        ));
    }
    Ok(Hierarchy { by: ThrottledBy::V2, root: root.clone() })
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

impl Throttled {
    /// Makes a group with a cap on the device of this sysfs folder, and makes sure that the kernel took it.
    ///
    /// # Errors
    /// The controller is missing, cannot be used, or did not take a limit.
    pub fn set(cap: &Throttle, sysfs_folder: &Path, ledger: &Ledger) -> Result<Self, StackError> {
        let Hierarchy { by, root } = find()?;
        let device = sysfs::read(sysfs_folder.join("dev"))?;
        let group = root.join(format!("{FOLDER_PREFIX}{}", name_of(ledger)));
        let path = OwnFolder::try_from(group.clone()).expect("a group of ours has a name of ours");
        let written = ledger.write(Undo::RemoveGroup { path })?;
        if let Err(error) = fs::create_dir(&group) {
            written.strike_out()?;
            return Err(unable(
                format!("could not make the control group {}: {error}", group.display()),
                "a throttle needs root, and a hierarchy that can be written (in containers it often cannot)",
            ));
        }
        let made = Self { group, home: home(by, &root)?, inside: false, written };
        match made.apply(&settings(by, cap, &device)) {
            Ok(()) => Ok(made),
            Err(error) => {
                made.close()?;
                Err(error)
            }
        }
    }

    fn apply(&self, settings: &[(&str, String)]) -> Result<(), StackError> {
        for (file, value) in settings {
            let path = self.group.join(file);
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

    /// Puts this process into the group, with all its threads and what it starts from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn enter(&mut self) -> Result<(), StackError> {
        if !self.inside {
            sysfs::write(self.group.join("cgroup.procs"), "0")?;
            self.inside = true;
        }
        Ok(())
    }

    /// Takes this process out of the group.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn leave(&mut self) -> Result<(), StackError> {
        if self.inside {
            sysfs::write(self.home.join("cgroup.procs"), "0")?;
            self.inside = false;
        }
        Ok(())
    }

    /// Removes the group.
    ///
    /// # Errors
    /// Somebody is still in it; its removal stays in the ledger.
    pub fn close(mut self) -> Result<(), StackError> {
        self.leave()?;
        self.written.undo()
    }
}

/// The group that this process is in; the uppermost one, if its own is not to be seen here.
fn home(by: ThrottledBy, root: &Path) -> Result<PathBuf, StackError> {
    let path = own_group(by, &sysfs::read("/proc/self/cgroup")?);
    let home = path.map(|path| root.join(path.trim_start_matches('/')));
    Ok(home.filter(|home| home.join("cgroup.procs").exists()).unwrap_or_else(|| root.to_owned()))
}

/// The path of a process's group in the hierarchy of the controller: `7:blkio:/user` for v1, `0::/user` for v2.
pub(crate) fn own_group(by: ThrottledBy, text: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let is_it = match by {
            ThrottledBy::V1 => controllers.split(',').any(|name| name == "blkio"),
            ThrottledBy::V2 => number == "0" && controllers.is_empty(),
        };
        is_it.then(|| path.to_owned())
    })
}

/// What no other group of the host is called at a time: the owner's process, and the moment.
fn name_of(ledger: &Ledger) -> String {
    format!("{}-{}", ledger.owner(), host::moment())
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

    fn mounted(filesystem: &str, target: &str, options: &str) -> Mounted {
        Mounted {
            device: crate::device_number::DeviceNumber { major: 0, minor: 1 },
            target: target.into(),
            mount_options: Vec::new(),
            filesystem: filesystem.into(),
            source: filesystem.into(),
            super_options: options.split(',').map(str::to_owned).collect(),
        }
    }

    fn chosen(mounts: &[Mounted], controllers: &str, handed_down: &str) -> Result<Hierarchy, StackError> {
        choose(mounts, &|path| {
            if path.ends_with("cgroup.controllers") { controllers } else { handed_down }.to_owned()
        })
    }

    #[test]
    fn the_controller_is_found_wherever_it_is() {
        let cpu = mounted("cgroup", "/c/cpu", "rw,cpu");
        let blkio = mounted("cgroup", "/c/blkio", "rw,blkio");
        let unified = mounted("cgroup2", "/c", "rw");
        let by = |mounts: &[Mounted]| chosen(mounts, "cpu io memory", "io memory").map(|h| (h.by, h.root));
        assert_eq!(by(&[cpu.clone(), blkio, unified.clone()]).unwrap(), (ThrottledBy::V1, "/c/blkio".into()));
        assert_eq!(by(&[cpu.clone(), unified.clone()]).unwrap(), (ThrottledBy::V2, "/c".into()));
        let refused = |mounts: &[Mounted], controllers: &str| {
            let error = chosen(mounts, controllers, "memory").unwrap_err();
            format!("{error}; {}", error.hint().unwrap())
        };
        assert!(refused(std::slice::from_ref(&cpu), "").contains("neither the blkio controller"));
        assert!(refused(&[cpu.clone(), unified.clone()], "cpu").contains("/c has no io controller"));
        assert!(refused(&[cpu, unified], "cpu io").contains("echo +io"));
    }

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

    #[test]
    fn the_group_of_a_process_is_found_in_either_version() {
        let text = "7:cpu,cpuacct:/a\n5:blkio:/b:c\n1:name=systemd:/d\n0::/e\n";
        assert_eq!(own_group(ThrottledBy::V1, text).as_deref(), Some("/b:c"));
        assert_eq!(own_group(ThrottledBy::V2, text).as_deref(), Some("/e"));
        assert_eq!(own_group(ThrottledBy::V1, "0::/e\n"), None);
    }
}
