//! Volumes of the device mapper over a device made by fstrial: LVM, thin LVM, dm-crypt, created by their tools in the
//! worker.
//!
//! Like an array, a volume does not go with the process that made it, and it holds the device below: the ledger has its end.

use crate::{
    command::{self, Program},
    error::StackError,
    ledger::{Ledger, LedgerEntry, Undo},
    named::VolumeName,
    sysfs,
};
use fstrial_model::{layer::Layer, units::Bytes};
use std::{
    ffi::OsStr,
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// The device mapper's module, and the file that shows its presence.
const MODULE: &str = "dm_mod";
const CONTROL: &str = "/sys/class/misc/device-mapper";
/// Size of the headers of LVM and LUKS at the beginning of a device, copies included.
const HEADERS: usize = 4 << 20;

/// A volume that only this run uses.
#[must_use]
#[derive(Debug)]
pub(crate) struct Mapped {
    name: VolumeName,
    /// The device below.
    below: PathBuf,
    /// Its folder in sysfs.
    sysfs: PathBuf,
    written: LedgerEntry,
}

/// Makes sure that the kernel has the device mapper, or a module for it. Loads nothing.
///
/// # Errors
/// It has not.
pub fn require_mapper(layer: Layer) -> Result<(), StackError> {
    if Path::new(CONTROL).exists() || command::has_module(MODULE) { Ok(()) } else { Err(no_mapper(layer)) }
}

fn no_mapper(layer: Layer) -> StackError {
    StackError::Lacking {
        what: format!("this kernel has no device mapper, so `{layer}` cannot be made"),
        hint: "use a kernel that has it: FILESYSTEM@6.1:LAYER (`fstrial kernels`)".into(),
    }
}

/// Makes sure that the tools of a layer are installed.
///
/// # Errors
/// One is not.
pub fn require_tools(layer: Layer) -> Result<(), StackError> {
    let needed_for = format!("`{layer}`");
    let programs = layer.tool().programs;
    programs.iter().try_for_each(|(program, packages)| command::require(program, *packages, &needed_for))
}

impl Mapped {
    /// Makes the volume of a layer on a device; also returns the commands.
    ///
    /// # Errors
    /// The kernel has no device mapper, or the tool is missing or fails.
    pub(crate) fn make(
        layer: Layer,
        below: &Path,
        size: Bytes,
        ledger: &Ledger,
    ) -> Result<(Self, Vec<String>), StackError> {
        if !command::has_driver(CONTROL, MODULE) {
            return Err(no_mapper(layer));
        }
        require_tools(layer)?;
        // Of a run that was killed.
        wipe(below)?;
        let name = VolumeName::draw()?;
        let written = ledger.write(Undo::RemoveVolumes { name: name.clone() })?;
        match run(layer, &name, below, size) {
            Ok((sysfs, lines)) => Ok((Self { name, below: below.to_owned(), sysfs, written }, lines)),
            Err(error) => {
                // Unremoved parts stay in the ledger.
                let _ = take_down(&name, below, written);
                Err(error)
            }
        }
    }

    /// Its node.
    pub(crate) fn path(&self) -> PathBuf {
        Path::new("/dev").join(self.sysfs.file_name().unwrap_or_default())
    }

    /// Its folder in sysfs.
    pub(crate) fn sysfs(&self) -> &Path {
        &self.sysfs
    }

    /// The name that it, or its group, was given.
    pub(crate) fn name(&self) -> &VolumeName {
        &self.name
    }

    /// Removes it with its snapshots, and its headers from the device below: others shall not find them.
    pub(crate) fn stop(self) -> Result<(), StackError> {
        take_down(&self.name, &self.below, self.written)
    }
}

/// Runs the tool of a layer; returns the volume's folder in sysfs, and the commands.
fn run(
    layer: Layer,
    name: &VolumeName,
    below: &Path,
    size: Bytes,
) -> Result<(PathBuf, Vec<String>), StackError> {
    let tool = layer.tool();
    let mut lines = Vec::new();
    for words in layer.words(&below.display().to_string(), &name.to_string(), size) {
        lines.push(Program::new(tool.program).args(words).run()?.line);
    }
    let volume = format!("{name}{}", tool.suffix);
    let result = volumes()?.into_iter().find(|(known, _)| *known == volume);
    let (_, folder) = result
        .ok_or_else(|| StackError::unlike(format!("{} did not make the volume {volume}", tool.program)))?;
    Ok((folder, lines))
}

fn take_down(name: &VolumeName, below: &Path, written: LedgerEntry) -> Result<(), StackError> {
    remove_ours(name)?;
    wipe(below)?;
    written.strike_out()
}

fn wipe(below: &Path) -> Result<(), StackError> {
    let opened = File::options().write(true).open(below);
    let wiped = opened.and_then(|device| {
        device.write_all_at(&vec![0; HEADERS], 0)?;
        device.sync_all()
    });
    wiped.map_err(|e| StackError::io("wipe the headers of", below, e))
}

/// All volumes, with their folders in sysfs. One whose tool was killed before it had a table has no folder yet.
fn volumes() -> Result<Vec<(String, PathBuf)>, StackError> {
    let columns = ["info", "--columns", "--noheadings", "--separator= ", "--options=name,minor"];
    let listed = Program::new("dmsetup").args(columns).run()?.stdout;
    let volume = |line: &str| {
        let (name, minor) = line.trim().split_once(' ')?;
        let minor: u32 = minor.parse().ok()?;
        Some((name.to_owned(), PathBuf::from(format!("/sys/block/dm-{minor}"))))
    };
    Ok(listed.lines().filter_map(volume).collect())
}

/// Resumes volumes that LVM suspended when it was killed while making a snapshot: writers and an unmount would wait.
/// The lower volumes come first, as a filesystem writes when it is thawed.
fn resume(ours: &[(String, PathBuf)]) {
    let is_suspended = |folder: &Path| sysfs::read(folder.join("dm/suspended")).is_ok_and(|is| is == "1");
    let rests_on_such = |folder: &Path| {
        let below = fs::read_dir(folder.join("slaves")).into_iter().flatten().flatten();
        below.map(|entry| entry.path()).any(|below| is_suspended(&below))
    };
    for _ in ours {
        for (volume, _) in ours.iter().filter(|(_, folder)| is_suspended(folder) && !rests_on_such(folder)) {
            let _ = Program::new("dmsetup").args(["resume", volume]).finish();
        }
    }
}

/// Removes the files that volumes of this name have left in folders of the host: nodes, and LVM's notes on groups.
fn sweep(name: &VolumeName) {
    let files = |folder: &str| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_ours = |path: &PathBuf| {
        path.file_name().and_then(OsStr::to_str).is_some_and(|file| name.is_of(file.trim_start_matches("V_")))
    };
    let of_our_group =
        |path: &PathBuf| sysfs::read(path).is_ok_and(|text| text.contains(&format!("vg:{name}")));
    let links = format!("/dev/{name}");
    let nodes =
        ["/dev/mapper", "/run/lvm/vgs_online", "/run/lock/lvm"].into_iter().flat_map(files).filter(is_ours);
    let seen = files("/run/lvm/pvs_online").filter(of_our_group);
    for file in nodes.chain(seen).chain(files(&links)) {
        let _ = fs::remove_file(file);
    }
    let _ = fs::remove_dir(links);
}

/// Removes the volumes with this prefix of ours: snapshots before their origins, pools after their volumes.
pub(crate) fn remove_ours(name: &VolumeName) -> Result<(), StackError> {
    let ours = || -> Result<Vec<_>, StackError> {
        Ok(volumes()?.into_iter().filter(|(volume, _)| name.is_of(volume)).collect())
    };
    let mut left = ours()?;
    resume(&left);
    while !left.is_empty() {
        // Lower volumes are held by upper ones.
        let is_held =
            |folder: &Path| fs::read_dir(folder.join("holders")).is_ok_and(|mut all| all.next().is_some());
        let mut failed = Ok(());
        for (volume, _) in left.iter().filter(|(_, folder)| !is_held(folder)) {
            failed = failed.and(Program::new("dmsetup").args(["remove", "--retry", volume]).run().map(drop));
        }
        let before = left.len();
        left = ours()?;
        if left.len() == before {
            failed?;
            let busy = std::io::Error::from(std::io::ErrorKind::ResourceBusy);
            return Err(StackError::io("remove the volumes", name.to_string(), busy));
        }
    }
    sweep(name);
    Ok(())
}

/// The kernel's description of a volume: `linear`, `thin`, `crypt aes-xts-plain64`; none for another device.
pub(crate) fn describe(sysfs_folder: &Path) -> Option<String> {
    let name = sysfs::read(sysfs_folder.join("dm/name")).ok()?;
    // Start, length, target and its parameters; keys are not shown.
    let table = Program::new("dmsetup").args(["table", name.as_str()]).run().ok()?.stdout;
    let mut words = table.split_whitespace().skip(2);
    let target = words.next()?;
    let cipher = words.next().filter(|_| target == "crypt");
    Some(std::iter::once(target).chain(cipher).collect::<Vec<_>>().join(" "))
}
