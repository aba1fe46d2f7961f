//! One arm, built on a device for one run, and taken down again. Life-cycle phases are types:
//!
//! ```text
//! Attached ──mkfs, mount──► Standing ──unmount──► Attached ──fsck──► Attached ──detach──► nothing
//! ```
//! Runs in an isolated worker ([`crate::isolation`]); a directory arm needs no isolation and skips most of it.

use crate::{
    array::{self, Array},
    caches,
    command::{CommandOutput, Program},
    counters::DeviceCounters,
    device::{disk::Identity, zram},
    device_number::DeviceNumber,
    error::StackError,
    facts::{self, Sources},
    folder::{self, Folder},
    host,
    ledger::Ledger,
    log::{DevicePaths, LogCounter, folder_of},
    loopdev::LoopDevice,
    mapped::Mapped,
    mount_options::{self, Refusal},
    mounts::{self, MountEntry},
    queue::{self, QueueSettings},
    sysfs,
};
use fstrial_model::{
    ability::Ability,
    arm::{Arm, CheckedArm, RAW, Switch},
    device::Raid,
    facts::{ArmFacts, Fact},
    filesystem::{ExternalLog, Filesystem, Several},
    job::{DeviceBinding, Setup},
    layer::Layer,
    queue::QueueAttribute,
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

/// The devices of an arm, attached, with their queues set.
#[must_use]
#[derive(Debug)]
pub struct AttachedDevices {
    node: Node,
    /// An array of which `node` is the device.
    array: Option<Array>,
    /// Members of the array, or further devices of the filesystem.
    members: Vec<Node>,
    /// A volume of which `node` is the device, and its lower device.
    layer: Option<(Mapped, Box<Self>)>,
    /// For its journal or log.
    log: Option<Node>,
    /// The layout of the arm's filesystem on several devices, if it supports them.
    several: Option<Several>,
    commands: Vec<String>,
}

/// A device attached and its queue set. Fields in the order in which they are given up.
#[derive(Debug)]
struct Node {
    queue: QueueSettings,
    loop_device: Option<LoopDevice>,
    pub(crate) path: PathBuf,
    pub(crate) sysfs: PathBuf,
    discards_forbidden: bool,
}

/// An arm that can be used.
#[must_use]
#[derive(Debug)]
pub struct ReadyArm {
    pub(crate) attached: Option<AttachedDevices>,
    pub(crate) target: ArmTarget,
    pub(crate) mounted: bool,
    folder: Option<Folder>,
    /// The block devices below a directory.
    below: Vec<String>,
    pub(crate) facts: ArmFacts,
    pub(crate) commands: Vec<String>,
}

/// The target of the load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArmTarget {
    /// Into a directory.
    Directory(PathBuf),
    /// Onto the bare device.
    BlockDevice(PathBuf),
}

impl Node {
    /// Attaches a device and sets its queue as an arm asks.
    fn attach(
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
                let number = DeviceNumber { major: *major, minor: *minor };
                let identity = Identity { path: path.clone(), number, diskseq: *diskseq };
                identity.recheck(coordinator)?;
                (None, path.clone(), identity.sysfs())
            }
            DeviceBinding::Several { .. } | DeviceBinding::Raid { .. } | DeviceBinding::Directory { .. } => {
                panic!("these are not a single device")
            }
        };
        let may_discard = matches!(binding, DeviceBinding::Loop { discards: true, .. });
        let discards = arm.discard == Some(Switch::On);
        if discards && loop_device.is_some() && !may_discard {
            return Err(StackError::Unable {
                what: "discards would free blocks of the image, and the next run would find a different device"
                    .into(),
                hint: "leave discard=on out, or use a disk, a ramdisk of zram, or a modelled device that takes them"
                    .into(),
            });
        }
        // The same everywhere by default: filesystems differ in their default discards.
        let discards_forbidden = loop_device.as_ref().is_some_and(LoopDevice::is_ours) && !discards;
        if discards_forbidden {
            // First, because changing a limit changes the read-ahead.
            queue::forbid_discards(&sysfs)?;
        }
        let queue = QueueSettings::apply(arm, &sysfs, ledger)?;
        Ok(Self { queue, loop_device, path, sysfs, discards_forbidden })
    }

    fn named(&self) -> Option<DevicePaths> {
        // That of a disk is a link by its number.
        let folder = fs::canonicalize(&self.sysfs).ok()?;
        let name = folder.file_name()?.to_string_lossy().into_owned();
        Some(DevicePaths { path: self.path.clone(), name, sysfs: folder })
    }

    /// Puts the queue back and gives the device up.
    fn detach(self) -> Result<(), StackError> {
        let restored = self.queue.restore();
        if let Some(device) = self.loop_device {
            device.close();
        }
        restored
    }
}

/// Attaches several devices; all or none.
fn attach_all(
    bindings: &[DeviceBinding],
    arm: &Arm,
    coordinator: u32,
    ledger: &Ledger,
) -> Result<Vec<Node>, StackError> {
    let mut nodes = Vec::new();
    for binding in bindings {
        match Node::attach(binding, arm, coordinator, ledger) {
            Ok(node) => nodes.push(node),
            Err(error) => {
                detach_all(nodes)?;
                return Err(error);
            }
        }
    }
    Ok(nodes)
}

/// Detaches all of them; of several errors the first is returned.
fn detach_all(nodes: Vec<Node>) -> Result<(), StackError> {
    let detached: Vec<_> = nodes.into_iter().map(Node::detach).collect();
    detached.into_iter().collect()
}

impl AttachedDevices {
    /// Attaches the device of a job and sets its queue as the arm asks.
    ///
    /// # Errors
    /// The device is gone, busy, or refuses a setting.
    ///
    /// # Panics
    /// If called for a directory, which has no device.
    pub fn attach(
        binding: &DeviceBinding,
        arm: &Arm,
        coordinator: u32,
        ledger: &Ledger,
    ) -> Result<Self, StackError> {
        if let Some(layer) = arm.layer {
            return Self::map(layer, binding, arm, coordinator, ledger);
        }
        let alone = |node| Self {
            node,
            array: None,
            members: Vec::new(),
            layer: None,
            log: None,
            several: arm.row().and_then(|row| row.several),
            commands: Vec::new(),
        };
        match binding {
            DeviceBinding::Several { members } => {
                let mut nodes = attach_all(members, arm, coordinator, ledger)?;
                let node = nodes.remove(0);
                Ok(Self { members: nodes, ..alone(node) })
            }
            DeviceBinding::Raid { members, raid } => Self::assemble(*raid, members, arm, coordinator, ledger),
            _ => Ok(alone(Node::attach(binding, arm, coordinator, ledger)?)),
        }
    }

    /// Makes an array. Read-ahead and discards are set on it, everything else on its members: it has no queue.
    fn assemble(
        raid: Raid,
        bindings: &[DeviceBinding],
        arm: &Arm,
        coordinator: u32,
        ledger: &Ledger,
    ) -> Result<Self, StackError> {
        for binding in bindings {
            if let DeviceBinding::Loop { file, .. } = binding {
                array::wipe(file)?;
            }
        }
        let of_members = Arm { discard: None, ..arm.with_queue(|attribute| !attribute.is_of_array()) };
        let members = attach_all(bindings, &of_members, coordinator, ledger)?;
        let paths: Vec<PathBuf> = members.iter().map(|member| member.path.clone()).collect();
        let (array, line) = match Array::create(raid, &paths, ledger) {
            Ok(made) => made,
            Err(error) => {
                detach_all(members)?;
                return Err(error);
            }
        };
        let of_array = arm.with_queue(QueueAttribute::is_of_array);
        let (path, sysfs) = (array.path(), array.sysfs());
        let queue = match QueueSettings::apply(&of_array, &sysfs, ledger) {
            Ok(queue) => queue,
            Err(error) => {
                array.stop()?;
                detach_all(members)?;
                return Err(error);
            }
        };
        let discards_forbidden = members.iter().any(|member| member.discards_forbidden);
        let node = Node { queue, loop_device: None, path, sysfs, discards_forbidden };
        let (array, commands) = (Some(array), vec![line]);
        Ok(Self { node, array, members, layer: None, log: None, several: None, commands })
    }

    /// Makes a volume on the device, or on the array. Its queue is that of the device below; read-ahead is its own.
    fn map(
        layer: Layer,
        binding: &DeviceBinding,
        arm: &Arm,
        coordinator: u32,
        ledger: &Ledger,
    ) -> Result<Self, StackError> {
        let of_device = Arm { layer: None, ..arm.with_queue(|attribute| !attribute.is_of_array()) };
        let mut below = Self::attach(binding, &of_device, coordinator, ledger)?;
        let made = host::size_of_device(below.path())
            .and_then(|size| Mapped::make(layer, below.path(), size, ledger));
        let (mapped, lines) = match made {
            Ok(made) => made,
            Err(error) => {
                // Unrestored settings stay in the ledger.
                let _ = below.detach();
                return Err(error);
            }
        };
        let (path, sysfs) = (mapped.path(), mapped.sysfs().to_owned());
        let of_volume = arm.with_queue(QueueAttribute::is_of_array);
        let discards_forbidden = below.node.discards_forbidden;
        // Thin volumes accept them on any lower device.
        let forbidden = if discards_forbidden { queue::forbid_discards(&sysfs) } else { Ok(()) };
        let queue = match forbidden.and_then(|()| QueueSettings::apply(&of_volume, &sysfs, ledger)) {
            Ok(queue) => queue,
            Err(error) => {
                let _ = mapped.stop();
                let _ = below.detach();
                return Err(error);
            }
        };
        let node = Node { queue, loop_device: None, path, sysfs, discards_forbidden };
        let commands = below.commands.drain(..).chain(lines).collect();
        let several = arm.row().and_then(|row| row.several);
        let (array, members, layer) = (None, Vec::new(), Some((mapped, Box::new(below))));
        Ok(Self { node, array, members, layer, log: None, several, commands })
    }

    /// The device below the arm's layer, and the name that its volumes have.
    pub(crate) fn layer(&self) -> Option<(String, String)> {
        let (mapped, below) = self.layer.as_ref()?;
        Some((below.path().display().to_string(), mapped.name().to_string()))
    }

    /// The further devices of a filesystem that spreads itself over several.
    fn further(&self) -> impl Iterator<Item = String> {
        let none_of_array = self.members.iter().filter(|_| self.array.is_none());
        none_of_array.map(|member| member.path.display().to_string())
    }

    /// The same with further devices of the arm. The queues of other devices are left as they are.
    ///
    /// # Errors
    /// One of them is gone or busy; the device is given up.
    pub fn with(mut self, setup: &Setup, coordinator: u32, ledger: &Ledger) -> Result<Self, StackError> {
        let Some(binding) = &setup.log else { return Ok(self) };
        match Node::attach(binding, &Arm::plain(RAW), coordinator, ledger) {
            Ok(log) => {
                self.log = Some(log);
                Ok(self)
            }
            Err(error) => {
                self.detach()?;
                Err(error)
            }
        }
    }

    /// Its node.
    pub fn path(&self) -> &Path {
        &self.node.path
    }

    /// All its devices, members of an array and the log's included, as the kernel calls them.
    pub fn device_names(&self) -> Vec<String> {
        let below = self.layer.iter().flat_map(|(_, below)| below.device_names());
        let nodes = std::iter::once(&self.node).chain(&self.members).chain(&self.log);
        nodes.filter_map(Node::named).map(|named| named.name).chain(below).collect()
    }

    /// Counters of the written devices: the arm's and its log's. For an array those of the array, not its members; for
    /// a volume those of its lower device, which its metadata and copies reach too.
    pub fn counters(&self) -> DeviceCounters {
        let log = self.log.iter().map(|node| node.sysfs.clone());
        DeviceCounters::of(self.written_to().into_iter().chain(log))
    }

    fn written_to(&self) -> Vec<PathBuf> {
        if let Some((_, below)) = &self.layer {
            return below.written_to();
        }
        let members = self.members.iter().filter(|_| self.array.is_none());
        std::iter::once(&self.node).chain(members).map(|node| node.sysfs.clone()).collect()
    }

    /// The counters of the journal or log of the arm's filesystem, which is mounted.
    fn log_counter(&self, arm: &Arm) -> Option<LogCounter> {
        let log = self.log.as_ref().filter(|_| self.external_log(arm).is_some());
        let log = log.map(|node| node.named().ok_or(())).transpose().ok()?;
        LogCounter::of(arm.row()?.log.as_ref()?, &self.node.named()?, log.as_ref())
    }

    /// Its folder in sysfs.
    pub(crate) fn sysfs(&self) -> &Path {
        &self.node.sysfs
    }

    /// The external log of an arm and its options, if it has one.
    fn external_log(&self, arm: &Arm) -> Option<(ExternalLog, String)> {
        let log = self.log.as_ref()?;
        Some((arm.row()?.external_log.ok()?, log.path.display().to_string()))
    }

    /// Notes something that was done in addition to programs, for the record.
    pub fn note(&mut self, line: impl Into<String>) {
        self.commands.push(line.into());
    }

    /// Makes the arm's filesystem, if it has one, and returns the output of mkfs.
    ///
    /// # Errors
    /// The kernel lacks it, mkfs is missing, refuses an option, or does not end.
    pub fn make(&mut self, arm: CheckedArm<'_>) -> Result<String, StackError> {
        let Some(row) = arm.row() else { return Ok(String::new()) };
        host::require_filesystem(row)?;
        let mut arguments = self.mkfs_words(row, arm)?;
        arguments.push(self.node.path.display().to_string());
        arguments.extend(self.further());
        let made = Program::new(row.mkfs).of(row.name).args(arguments).deadline(MAKE_DEADLINE).run()?;
        self.commands.push(made.line.clone());
        Ok(format!("{}\n{}", made.stdout, made.stderr))
    }

    /// All words of mkfs for an arm except its devices. A journal on another device is created, because mkfs requires
    /// one.
    pub(crate) fn mkfs_words(
        &mut self,
        row: &Filesystem,
        arm: CheckedArm<'_>,
    ) -> Result<Vec<String>, StackError> {
        let mut arguments = arm.mkfs_arguments();
        if let Some((kind, log)) = self.external_log(&arm) {
            if let Some(made_by) = kind.made_by {
                self.make_journal(row, &arguments, made_by, &log)?;
            }
            arguments.extend(kind.mkfs_words(&log));
        }
        let profile = arm.profile.and_then(|profile| Some(row.several?.mkfs_words(profile)));
        arguments.extend(profile.into_iter().flatten());
        Ok(arguments)
    }

    /// The size of a block that mkfs would choose; 0 if nothing needs to know it.
    fn block(&self, row: &Filesystem, arguments: &[String]) -> Result<u64, StackError> {
        let Some(block) = row.mkfs_block else { return Ok(0) };
        let words = arguments.iter().filter(|word| *word != block.quiet).cloned();
        let device = self.node.path.display().to_string();
        let program = Program::new(row.mkfs).of(row.name).args([block.try_only]);
        let tried = program.args(words).args([device]).run()?;
        (block.read)(&tried.stdout).ok_or_else(|| StackError::Unable {
            what: format!("the output of `{}` has no block size", tried.line),
            hint: format!(
                "unknown output of {}: report it with the version of that package",
                row.packages[0]
            ),
        })
    }

    /// Makes a device a journal, with the blocks that the filesystem would have on its own.
    fn make_journal(
        &mut self,
        row: &Filesystem,
        arguments: &[String],
        (program, words): (&str, &[&str]),
        log: &str,
    ) -> Result<(), StackError> {
        let size = self.block(row, arguments)?;
        let made = Program::new(program).of(row.name).deadline(MAKE_DEADLINE);
        let made = made.args(words.iter().copied()).args([&size.to_string(), log]).run()?;
        self.commands.push(made.line);
        Ok(())
    }

    /// Mounts the arm at a mount point of the worker's own namespace; the bare device is used as it is.
    ///
    /// # Errors
    /// The kernel refuses an option or the filesystem; the device is handed back.
    #[expect(clippy::result_large_err, reason = "the device is handed back, and it happens once in a run")]
    pub fn mount(
        mut self,
        arm: CheckedArm<'_>,
        mkfs_output: &str,
        mount_point: &Path,
    ) -> Result<ReadyArm, (Self, StackError)> {
        let row = arm.row();
        if let Some(row) = row
            && let Err(error) = self.mount_row(row, arm, mount_point)
        {
            return Err((self, error));
        }
        let read_ahead = self.read_ahead_of_its_own();
        let looked_at = row.map(|_| mounts::at(mount_point)).transpose();
        let set = looked_at.and_then(|mounted| {
            if let Some((file, Bytes(bytes))) = read_ahead.as_ref().zip(arm.read_ahead) {
                sysfs::write(file, &(bytes >> 10).to_string())?;
            }
            Ok(mounted)
        });
        let mounted = match set {
            Ok(mounted) => mounted,
            Err(error) => {
                // It is mounted, and would stay so unnoticed; if it stays, the device stays in use, which is detected
                // later.
                let _ = rustix::mount::unmount(mount_point, rustix::mount::UnmountFlags::empty());
                return Err((self, error));
            }
        };
        let facts = facts::read(&Sources {
            arm: &arm,
            device: Some((&self.node.path, self.node.sysfs.clone())),
            mounted: mounted.as_ref(),
            read_ahead: read_ahead.as_deref(),
            mkfs_output,
            discards_forbidden: self.node.discards_forbidden,
        });
        let target = match row {
            Some(_) => ArmTarget::Directory(mount_point.to_owned()),
            None => ArmTarget::BlockDevice(self.node.path.clone()),
        };
        let commands = self.commands.clone();
        let (mounted, below) = (row.is_some(), Vec::new());
        Ok(ReadyArm { attached: Some(self), target, mounted, folder: None, below, facts, commands })
    }

    pub(crate) fn mount_row(
        &mut self,
        row: &Filesystem,
        arm: CheckedArm<'_>,
        mount_point: &Path,
    ) -> Result<Nanos, StackError> {
        let mut options = arm.mount_options();
        options.extend(self.further().map(|member| format!("device={member}")));
        options.extend(self.external_log(&arm).map(|(kind, log)| kind.mount_option(&log)));
        // `-i` and `-n`: no helper programs that might do more than mount, and no line in mtab.
        let mut program =
            Program::new("mount").of(row.name).args(["-i", "-n", "-t", row.kernel]).deadline(MAKE_DEADLINE);
        if !options.is_empty() {
            program = program.args(["-o".to_owned(), options.join(",")]);
        }
        let program = program.args([self.node.path.display().to_string(), mount_point.display().to_string()]);
        let done = program.run().map_err(|error| why_not_mounted(row, &options, error))?;
        self.commands.push(done.line);
        Ok(done.wall)
    }

    /// The file with the read-ahead of the mounted filesystem, if it does not use that of the device's queue:
    /// filesystems over several devices have their own. It disappears with the mount.
    fn read_ahead_of_its_own(&self) -> Option<PathBuf> {
        let own = folder_of(Path::new(self.several?.sysfs), &self.node.named()?.name)?;
        Some(own.join("bdi/read_ahead_kb")).filter(|file| file.exists())
    }

    /// Runs the filesystem's own full check, read-only.
    ///
    /// # Errors
    /// It finds damage, is missing, or does not end.
    pub fn check(&mut self, arm: &Arm) -> Result<(), StackError> {
        let Some((program, arguments)) = arm.row().and_then(|row| row.fsck) else { return Ok(()) };
        let row = arm.row().expect("the row was found above");
        let program =
            Program::new(program).of(row.name).args(arguments.iter().copied()).deadline(CHECK_DEADLINE);
        let log = self.external_log(arm).map(|(kind, log)| kind.check_words(&log));
        let program = program.args(log.into_iter().flatten());
        let done: CommandOutput = program.args([self.node.path.display().to_string()]).finish()?;
        self.commands.push(done.line.clone());
        if done.status.success() {
            Ok(())
        } else {
            Err(StackError::Corrupt { line: done.line.clone(), last_lines: done.last_lines() })
        }
    }

    /// Mounts the arm's filesystem for a look at its files.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn mount_again(&mut self, arm: CheckedArm<'_>, point: &Path) -> Result<(), StackError> {
        arm.row().map_or(Ok(()), |row| self.mount_row(row, arm, point).map(drop))
    }

    /// Ends [`mount_again`](Self::mount_again).
    ///
    /// # Errors
    /// Something still uses it.
    pub fn unmount_again(&self, point: &Path) -> Result<(), StackError> {
        let unmounted = rustix::mount::unmount(point, rustix::mount::UnmountFlags::empty());
        unmounted.map_err(|e| StackError::io("unmount", point, e))
    }

    /// Repairs the filesystem after a crash with its own program, before it may be mounted: of one without a journal.
    ///
    /// # Errors
    /// The program is missing, does not end, or leaves errors.
    pub fn repair(&mut self, arm: &Arm) -> Result<(), StackError> {
        let Some(row) = arm.row() else { return Ok(()) };
        let Ability::Program(name, words) = row.abilities.repair else { return Ok(()) };
        let device = self.node.path.display().to_string();
        let words = words.iter().map(|word| word.replace("{device}", &device));
        let done = Program::new(name).of(row.name).args(words).deadline(CHECK_DEADLINE).finish()?;
        self.commands.push(done.line.clone());
        // fsck(8): 1 and 2 are errors that were corrected.
        match done.status.code() {
            Some(0..=3) => Ok(()),
            _ => Err(StackError::Corrupt { line: done.line.clone(), last_lines: done.last_lines() }),
        }
    }

    /// The command lines run so far.
    pub fn commands(&self) -> &[String] {
        &self.commands
    }

    /// Puts the queues back and gives the devices up.
    ///
    /// # Errors
    /// A setting cannot be restored; it stays in the ledger.
    pub fn detach(self) -> Result<(), StackError> {
        let further: Vec<String> = self.further().collect();
        if let Some(several) = self.several.filter(|_| !further.is_empty()) {
            host::forget(several, std::iter::once(self.node.path.display().to_string()).chain(further));
        }
        let given_up = self.node.detach();
        let unmapped = self.layer.map_or(Ok(()), |(mapped, below)| {
            let stopped = mapped.stop();
            stopped.and(below.detach())
        });
        let stopped = self.array.map_or(Ok(()), Array::stop);
        let members = detach_all(self.members);
        let log = self.log.map_or(Ok(()), Node::detach);
        given_up.and(unmapped).and(stopped).and(members).and(log)
    }
}

/// A detail that mount(8) leaves out: the option that the kernel refuses, if it is one.
fn why_not_mounted(row: &Filesystem, options: &[String], error: StackError) -> StackError {
    let StackError::Command { line, .. } = &error else { return error };
    let Some(Refusal { option, says, near }) = mount_options::refusal(row.kernel, options) else {
        return error;
    };
    let hint = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("leave it out, or see the mount options of {} in its manual page", row.name),
    };
    StackError::Unable {
        what: format!("the kernel refuses the mount option `{option}`: {says} (`{line}`)"),
        hint,
    }
}

impl ReadyArm {
    /// Uses an existing directory: makes a folder in it, deleted at the end.
    ///
    /// # Errors
    /// It is not a directory that we may write to.
    pub fn in_directory(parent: &Path, arm: &Arm, ledger: &Ledger) -> Result<Self, StackError> {
        let (opened, parent) = folder::open_directory(parent)?;
        let folder = Folder::make(opened, &parent, ledger)?;
        let holder = mounts::holding(&parent)?;
        let mut facts = facts::read(&Sources {
            arm,
            device: None,
            mounted: holder.as_ref(),
            read_ahead: None,
            mkfs_output: "",
            discards_forbidden: false,
        });
        facts.facts.remove(&Fact::LazyInitialisation);
        facts.facts.extend(holder.iter().flat_map(|mounted| {
            [(Fact::LiesOn, mounted.in_words()), (Fact::MountPoint, mounted.target.display().to_string())]
        }));
        Ok(Self {
            attached: None,
            target: ArmTarget::Directory(folder.path()),
            mounted: false,
            folder: Some(folder),
            below: holder.as_ref().map(MountEntry::block_devices).unwrap_or_default(),
            facts,
            commands: Vec::new(),
        })
    }

    /// The target of the load.
    pub fn target(&self) -> &ArmTarget {
        &self.target
    }

    /// The path of the folder in a directory, as other hosts have it.
    pub fn place(&self) -> Option<&Path> {
        self.folder.as_ref().map(Folder::place)
    }

    /// Words in which the folder in a directory is called as the user knows it, not by our descriptor.
    pub fn in_the_users_words(&self) -> impl Fn(&str) -> String + use<> {
        let names = self
            .folder
            .as_ref()
            .map(|folder| [folder.path(), folder.place().to_owned()].map(|path| path.display().to_string()));
        move |text| match &names {
            Some([ours, theirs]) => text.replace(ours.as_str(), theirs),
            None => text.to_owned(),
        }
    }

    /// Kernel names of its block devices; for a directory as far as they are known.
    pub fn device_names(&self) -> Vec<String> {
        self.attached.as_ref().map_or_else(|| self.below.clone(), AttachedDevices::device_names)
    }

    /// The counters of its devices; of a directory there are none.
    pub fn counters(&self) -> DeviceCounters {
        self.attached.as_ref().map(AttachedDevices::counters).unwrap_or_default()
    }

    /// The counters of its journal or log, if the kernel has some; a directory has none: the log of its filesystem has
    /// long wrapped, and others write to it.
    pub fn log_counter(&self, arm: &Arm) -> Option<LogCounter> {
        self.attached.as_ref().filter(|_| self.mounted)?.log_counter(arm)
    }

    /// Notes something that a reader of its facts should know.
    pub fn remark(&mut self, note: String) {
        self.facts.notes.push(note);
    }

    /// Notes something with a version that loads on it use.
    pub fn is_used_by(&mut self, name: &str, version: String) {
        self.facts.tools.insert(name.to_owned(), version);
    }

    /// Notes the memory limit of loads on it, as text.
    pub fn has_memory(&mut self, limit: String) {
        self.facts.facts.insert(Fact::Memory, limit);
    }

    /// Notes the state that its filesystem is in.
    pub fn is_in_state(&mut self, figures: &StateFigures) {
        self.facts.facts.insert(Fact::State, figures.requested.clone());
        self.facts.notes.push(figures.describe());
        self.facts.state = Some(figures.clone());
    }

    /// The arm's actual settings.
    pub fn facts(&self) -> &ArmFacts {
        &self.facts
    }

    /// The command lines that made it.
    pub fn commands(&self) -> &[String] {
        &self.commands
    }

    /// Writes everything out and drops the caches, so that the load starts cold. Without root the caches stay, and the
    /// facts report that.
    ///
    /// # Errors
    /// The filesystem reports that it could not write.
    pub fn settle(&self) -> Result<(), StackError> {
        match &self.target {
            ArmTarget::Directory(folder) => caches::sync_filesystem(folder)?,
            ArmTarget::BlockDevice(device) => {
                let file = File::open(device).map_err(|e| StackError::io("open", device, e))?;
                file.sync_all().map_err(|e| StackError::io("sync", device, e))?;
            }
        }
        caches::drop_caches()
    }

    /// Space in use and space that can still be filled.
    pub fn space(&self) -> Space {
        let ArmTarget::Directory(folder) = &self.target else { return Space::default() };
        host::space(folder).unwrap_or_default()
    }

    /// Space that can still be filled.
    pub fn space_left(&self) -> Bytes {
        match &self.target {
            ArmTarget::Directory(folder) => host::space_available(folder).unwrap_or_default(),
            ArmTarget::BlockDevice(_) => Bytes(0),
        }
    }

    /// Unmounts, or deletes the folder of a directory arm.
    ///
    /// # Errors
    /// It is still in use; its device is lost for this process but goes with its namespaces.
    pub fn unmount(self) -> Result<Option<AttachedDevices>, StackError> {
        if let Some(folder) = self.folder {
            folder.delete()?;
        }
        if let (true, ArmTarget::Directory(point)) = (self.mounted, &self.target) {
            rustix::mount::unmount(point, rustix::mount::UnmountFlags::empty())
                .map_err(|e| StackError::io("unmount", point, e))?;
        }
        Ok(self.attached)
    }
}
