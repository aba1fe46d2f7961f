//! One arm, built on a device for one run, and taken down again. Life-cycle phases are types:
//!
//! ```text
//! Attached ──mkfs, mount──► Standing ──unmount──► Attached ──fsck──► Attached ──detach──► nothing
//! ```
//! Runs in an isolated worker ([`crate::isolation`]); a directory arm needs no isolation and skips most of it.

use crate::{
    caches,
    command::{Finished, Program},
    device::{disk::Identity, zram},
    error::StackError,
    facts::{self, Sources},
    host,
    ledger::{FOLDER_PREFIX, Ledger, Undo, Written},
    loopdev::LoopDevice,
    mounts,
    queue::{self, QueueSettings},
};
use fstrial_model::{
    arm::Arm,
    facts::{ArmFacts, Fact},
    filesystem::Filesystem,
    job::DeviceBinding,
    state::{Space, StateFigures},
    units::{Bytes, Nanos},
};
use std::{
    fs::{self, File},
    os::fd::AsFd,
    path::{Path, PathBuf},
};

/// Time given to mkfs and mount.
pub(crate) const MAKE_DEADLINE: Nanos = Nanos::secs(180);
/// Time given to the full check.
const CHECK_DEADLINE: Nanos = Nanos::secs(1800);

/// A device attached and its queue set. Fields in the order in which they are given up.
#[must_use]
#[derive(Debug)]
pub struct Attached {
    queue: QueueSettings,
    loop_device: Option<LoopDevice>,
    pub(crate) path: PathBuf,
    pub(crate) sysfs: PathBuf,
    discards_forbidden: bool,
    pub(crate) commands: Vec<String>,
}

/// An arm that can be used.
#[must_use]
#[derive(Debug)]
pub struct Standing {
    pub(crate) attached: Option<Attached>,
    pub(crate) target: Target,
    pub(crate) mounted: bool,
    folder: Option<Written>,
    pub(crate) facts: ArmFacts,
    pub(crate) commands: Vec<String>,
}

/// Where the load goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Into a directory.
    Directory(PathBuf),
    /// Onto the bare device.
    BlockDevice(PathBuf),
}

impl Attached {
    /// Attaches the device of a job and sets its queue as the arm asks.
    ///
    /// # Errors
    /// The device is gone, busy, or refuses a setting.
    ///
    /// # Panics
    /// If asked for a directory, which has no device.
    pub fn attach(
        binding: &DeviceBinding,
        arm: &Arm,
        coordinator: u32,
        ledger: &Ledger,
    ) -> Result<Self, StackError> {
        let (loop_device, path, sysfs) = match binding {
            DeviceBinding::Loop { file, direct_io, .. } => {
                let opened = File::options()
                    .read(true)
                    .write(true)
                    .open(file)
                    .map_err(|e| StackError::io("open the image", file, e))?;
                let device = LoopDevice::attach(opened.as_fd(), *direct_io, ledger)?;
                let (path, sysfs) = (device.path(), device.sysfs());
                (Some(device), path, sysfs)
            }
            DeviceBinding::Zram { index, size } => {
                zram::renew(*index, *size)?;
                (None, format!("/dev/zram{index}").into(), format!("/sys/block/zram{index}").into())
            }
            DeviceBinding::Disk { path, major, minor, diskseq, .. } => {
                let identity =
                    Identity { path: path.clone(), major: *major, minor: *minor, diskseq: *diskseq };
                identity.recheck(coordinator)?;
                (None, path.clone(), identity.sysfs())
            }
            DeviceBinding::Directory { .. } => panic!("a directory has no device to attach"),
        };
        let discards_forbidden = loop_device.as_ref().is_some_and(LoopDevice::is_ours);
        if discards_forbidden {
            // First, because changing a limit changes the read-ahead.
            queue::forbid_discards(&sysfs)?;
        }
        let queue = QueueSettings::apply(arm, &sysfs, ledger)?;
        Ok(Self { queue, loop_device, path, sysfs, discards_forbidden, commands: Vec::new() })
    }

    /// Its node.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Notes something that was done beside programs, for the record.
    pub fn note(&mut self, line: impl Into<String>) {
        self.commands.push(line.into());
    }

    /// Makes the arm's filesystem, if it has one, and returns what mkfs printed.
    ///
    /// # Errors
    /// The kernel lacks it, mkfs is missing, refuses an option, or does not end.
    pub fn make(&mut self, arm: &Arm) -> Result<String, StackError> {
        let Some(row) = arm.row() else { return Ok(String::new()) };
        host::require_filesystem(row)?;
        let mut arguments = row.mkfs_arguments(&arm.mkfs);
        arguments.push(self.path.display().to_string());
        let made = Program::new(row.mkfs).of(row.name).args(arguments).deadline(MAKE_DEADLINE).run()?;
        self.commands.push(made.line.clone());
        Ok(format!("{}\n{}", made.stdout, made.stderr))
    }

    /// Mounts the arm at a mount point of the worker's own namespace; the bare device is used as it is.
    ///
    /// # Errors
    /// The kernel refuses an option or the filesystem; the device is handed back.
    #[expect(clippy::result_large_err, reason = "the device is handed back, and it happens once in a run")]
    pub fn mount(
        mut self,
        arm: &Arm,
        mkfs_output: &str,
        mount_point: &Path,
    ) -> Result<Standing, (Self, StackError)> {
        let row = arm.row();
        if let Some(row) = row
            && let Err(error) = self.mount_row(row, arm, mount_point)
        {
            return Err((self, error));
        }
        let mounted = match row.map(|_| mounts::at(mount_point)).transpose() {
            Ok(mounted) => mounted,
            Err(error) => {
                // It is mounted, and nobody would know; if it stays, the device stays in use, which is found later.
                let _ = rustix::mount::unmount(mount_point, rustix::mount::UnmountFlags::empty());
                return Err((self, error));
            }
        };
        let facts = facts::read(&Sources {
            arm,
            device: Some((&self.path, self.sysfs.clone())),
            mounted: mounted.as_ref(),
            mkfs_output,
            discards_forbidden: self.discards_forbidden,
        });
        let target = match row {
            Some(_) => Target::Directory(mount_point.to_owned()),
            None => Target::BlockDevice(self.path.clone()),
        };
        let commands = self.commands.clone();
        Ok(Standing { attached: Some(self), target, mounted: row.is_some(), folder: None, facts, commands })
    }

    pub(crate) fn mount_row(
        &mut self,
        row: &Filesystem,
        arm: &Arm,
        mount_point: &Path,
    ) -> Result<Nanos, StackError> {
        let options: Vec<&str> =
            row.mount_base.iter().copied().chain(arm.mount.iter().map(String::as_str)).collect();
        // `-i` and `-n`: no helper programs that might do more than mount, and no line in mtab.
        let mut program =
            Program::new("mount").of(row.name).args(["-i", "-n", "-t", row.kernel]).deadline(MAKE_DEADLINE);
        if !options.is_empty() {
            program = program.args(["-o".to_owned(), options.join(",")]);
        }
        let done =
            program.args([self.path.display().to_string(), mount_point.display().to_string()]).run()?;
        self.commands.push(done.line);
        Ok(done.wall)
    }

    /// Runs the filesystem's own full check, read-only.
    ///
    /// # Errors
    /// It finds damage, is missing, or does not end.
    pub fn check(&mut self, arm: &Arm) -> Result<(), StackError> {
        let Some((program, arguments)) = arm.row().and_then(|row| row.fsck) else { return Ok(()) };
        let row = arm.row().expect("a row was just found");
        let program =
            Program::new(program).of(row.name).args(arguments.iter().copied()).deadline(CHECK_DEADLINE);
        let done: Finished = program.args([self.path.display().to_string()]).finish()?;
        self.commands.push(done.line.clone());
        if done.status.success() {
            Ok(())
        } else {
            Err(StackError::Corrupt { line: done.line.clone(), last_lines: done.last_lines() })
        }
    }

    /// The command lines run so far.
    pub fn commands(&self) -> &[String] {
        &self.commands
    }

    /// Puts the queue back and gives the device up.
    ///
    /// # Errors
    /// A setting cannot be put back; it stays in the ledger.
    pub fn detach(self) -> Result<(), StackError> {
        let restored = self.queue.restore();
        if let Some(device) = self.loop_device {
            device.close();
        }
        restored
    }
}

impl Standing {
    /// Uses an existing directory: a folder of our own is made in it, and deleted at the end.
    ///
    /// # Errors
    /// It is not a directory that we may write to.
    pub fn in_directory(parent: &Path, arm: &Arm, ledger: &Ledger) -> Result<Self, StackError> {
        let parent = fs::canonicalize(parent).map_err(|e| StackError::io("find the directory", parent, e))?;
        // Process numbers differ between namespaces; the ledger knows the one that counts outside.
        let folder = parent.join(format!("{FOLDER_PREFIX}{}-{}", std::process::id(), unique()));
        let written = ledger.write(Undo::RemoveFolder { path: folder.clone() })?;
        if let Err(error) = fs::create_dir(&folder) {
            written.strike_out()?;
            return Err(StackError::io("make the folder", folder, error));
        }
        let holder = mounts::holding(&parent)?;
        let mut facts = facts::read(&Sources {
            arm,
            device: None,
            mounted: holder.as_ref(),
            mkfs_output: "",
            discards_forbidden: false,
        });
        facts.facts.remove(&Fact::LazyInitialisation);
        Ok(Self {
            attached: None,
            target: Target::Directory(folder),
            mounted: false,
            folder: Some(written),
            facts,
            commands: Vec::new(),
        })
    }

    /// Where the load goes.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Notes the state that its filesystem is in.
    pub fn is_in_state(&mut self, figures: &StateFigures) {
        self.facts.facts.insert(Fact::State, figures.asked.clone());
        self.facts.notes.push(figures.describe());
        self.facts.state = Some(figures.clone());
    }

    /// What the arm really is.
    pub fn facts(&self) -> &ArmFacts {
        &self.facts
    }

    /// The command lines that made it.
    pub fn commands(&self) -> &[String] {
        &self.commands
    }

    /// Writes everything out and drops the caches, so that the load starts cold. Without root the caches stay, and
    /// the facts say so.
    ///
    /// # Errors
    /// The filesystem reports that it could not write.
    pub fn settle(&self) -> Result<(), StackError> {
        match &self.target {
            Target::Directory(folder) => caches::sync_filesystem(folder)?,
            Target::BlockDevice(device) => {
                let file = File::open(device).map_err(|e| StackError::io("open", device, e))?;
                file.sync_all().map_err(|e| StackError::io("sync", device, e))?;
            }
        }
        if host::is_root() { caches::drop_caches() } else { Ok(()) }
    }

    /// Space in use and space that can still be filled.
    pub fn space(&self) -> Space {
        let Target::Directory(folder) = &self.target else { return Space::default() };
        host::space(folder).unwrap_or_default()
    }

    /// Space that can still be filled.
    pub fn space_left(&self) -> Bytes {
        match &self.target {
            Target::Directory(folder) => host::space_available(folder).unwrap_or_default(),
            Target::BlockDevice(_) => Bytes(0),
        }
    }

    /// Unmounts, or deletes the folder of a directory arm.
    ///
    /// # Errors
    /// Something still uses it; what it is on is lost for this process but goes with its namespaces.
    pub fn unmount(self) -> Result<Option<Attached>, StackError> {
        if let Some(written) = self.folder {
            written.undo()?;
        }
        if let (true, Target::Directory(point)) = (self.mounted, &self.target) {
            rustix::mount::unmount(point, rustix::mount::UnmountFlags::empty())
                .map_err(|e| StackError::io("unmount", point, e))?;
        }
        Ok(self.attached)
    }
}

/// A number that no two folders of a host share at a time.
fn unique() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_nanos())
}
