//! md arrays over devices made by fstrial, created by mdadm in the worker.
//!
//! An array does not end with the process that made it, and it holds its members: its end is in the ledger, and
//! leftovers of a dead worker are stopped before their members are examined. Superblocks of earlier runs are wiped
//! before the members are attached, or a host that assembles arrays automatically (udev) would take them.

use crate::{
    command::{self, Program},
    error::StackError,
    ledger::{Ledger, LedgerEntry, Undo},
    named::KernelName,
    sysfs,
};
use fstrial_model::{
    device::{Raid, RaidLevel},
    units::Bytes,
};
use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// The first number that is tried: well clear of those that others ask for.
const FIRST_OWN: u32 = 64;
/// Numbers tried.
const ATTEMPTS: u32 = 64;
const STATUS: &str = "/proc/mdstat";

/// An array that only this run uses.
#[must_use]
#[derive(Debug)]
pub(crate) struct Array {
    number: u32,
    written: LedgerEntry,
}

/// Makes sure that arrays can be made here.
///
/// # Errors
/// The kernel has no md, or mdadm is not installed.
pub(crate) fn require() -> Result<(), StackError> {
    if !command::has_driver(STATUS, "md_mod") {
        return Err(StackError::Lacking {
            what: format!("this kernel has no md ({STATUS} is missing): no array can be made of the members"),
            hint: "boot a kernel with CONFIG_BLK_DEV_MD; or compare a filesystem's own profiles (members without raid)"
                .into(),
        });
    }
    command::require("mdadm", ["mdadm"; 4], "an array")
}

/// Takes the superblock of an earlier run (version 1.2, at 4 KiB) from a file that is to be a member.
pub(crate) fn wipe(file: &Path) -> Result<(), StackError> {
    let opened = File::options().write(true).open(file).map_err(|e| StackError::io("open", file, e))?;
    let wiped = opened.write_all_at(&[0; 8192], 4096).and_then(|()| opened.sync_all());
    wiped.map_err(|e| StackError::io("wipe the superblock of", file, e))
}

impl Array {
    /// Makes an array of these devices.
    ///
    /// # Errors
    /// mdadm refuses, or the kernel lacks the level.
    pub(crate) fn create(
        raid: Raid,
        members: &[PathBuf],
        ledger: &Ledger,
    ) -> Result<(Self, String), StackError> {
        require()?;
        let number = (FIRST_OWN..FIRST_OWN + ATTEMPTS).find(|number| !folder(*number).exists());
        let Some(number) = number else {
            return Err(StackError::Unable {
                what: "too many arrays".into(),
                hint: "see /proc/mdstat; `fstrial clean` stops those that killed commands have left".into(),
            });
        };
        let names = members.iter().filter_map(|member| member.file_name());
        let names =
            names.filter_map(|name| KernelName::try_from(name.to_string_lossy().into_owned()).ok()).collect();
        let written = ledger.write(Undo::StopArray { index: number, members: names })?;
        let array = Self { number, written };
        let mut program = Program::new("mdadm").args([
            "--create".to_owned(),
            array.path().display().to_string(),
            "--run".into(),
            "--metadata=1.2".into(),
            format!("--level={}", raid.level.number()),
            format!("--raid-devices={}", members.len()),
        ]);
        if raid.level != RaidLevel::Raid0 {
            // Without copies there is nothing to be clean, and mdadm refuses the words.
            program = program.args(["--assume-clean", "--bitmap=none"]);
        }
        program = program.args(raid.chunk().map(|Bytes(bytes)| format!("--chunk={}", bytes >> 10)));
        match program.args(members.iter().map(|member| member.display().to_string())).run() {
            Ok(done) => Ok((array, done.line)),
            Err(error) => {
                array.stop()?;
                Err(error)
            }
        }
    }

    /// Its node.
    pub(crate) fn path(&self) -> PathBuf {
        node(self.number)
    }

    /// Its folder in sysfs.
    pub(crate) fn sysfs(&self) -> PathBuf {
        folder(self.number)
    }

    /// Gives its members back.
    pub(crate) fn stop(self) -> Result<(), StackError> {
        self.written.undo()
    }
}

fn node(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/md{number}"))
}

fn folder(number: u32) -> PathBuf {
    PathBuf::from(format!("/sys/block/md{number}"))
}

/// Stops an array that we made of these members. Fine if there is none, and if it is another one by now.
pub(crate) fn stop_ours(number: u32, members: &[KernelName]) -> Result<(), StackError> {
    let holds_ours = || {
        let slaves = fs::read_dir(folder(number).join("slaves")).into_iter().flatten().flatten();
        slaves.map(|slave| slave.file_name()).any(|slave| members.iter().any(|name| slave == *name.as_str()))
    };
    if !holds_ours() {
        return Ok(());
    }
    let stopped = Program::new("mdadm").args(["--stop".to_owned(), node(number).display().to_string()]).run();
    if holds_ours() { stopped.map(drop) } else { Ok(()) }
}

/// The kernel's description of an array: `md raid10 of 4, chunk 64 KiB`; none for another device.
pub(crate) fn describe(sysfs_folder: &Path) -> Option<String> {
    let md = sysfs_folder.join("md");
    let (level, members) = (sysfs::read(md.join("level")).ok()?, sysfs::read(md.join("raid_disks")).ok()?);
    let chunk = sysfs::read_number(md.join("chunk_size")).ok().filter(|chunk| *chunk > 0);
    let chunk = chunk.map(|chunk| format!(", chunk {}", Bytes(chunk).human())).unwrap_or_default();
    // `10 (near=2)` follows the number of some levels' layouts; the first word is the number.
    Some(format!("md {level} of {}{chunk}", members.split_whitespace().next().unwrap_or_default()))
}
