//! Device holders: every way of using a block device that the kernel has, in one list ([`WAYS`]).
//!
//! A new way of using a device is a finder in that list, a variant of [`Holder`] with its text, and a row in the matrix
//! of `tests/it/holders.rs`. No names are compared (paths, descriptors and maps count by the device that they lead to),
//! except where a kernel shows nothing else of files registered with an io_uring. An unreadable source is an error, so
//! that the device is refused; a source that disappears during the search holds nothing.
//!
//! All is read below a root that the constructor chooses. [`Host::recorded`] is for trees of other machines; it opens
//! no device, because the nodes of such a tree would lead to devices of this one.

mod kernel;
mod processes;
mod superblock;

use crate::{device_number::DeviceNumber, error::StackError};
use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, Statx, StatxFlags},
    io::Errno,
};
use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

pub use superblock::is_of_a_group;

/// One who uses a device: how, who, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// A filesystem on it is mounted.
    Mount {
        /// Mount point.
        at: PathBuf,
        /// One who sees the mount, if it is in another mount namespace than ours.
        seen_by: Option<Process>,
    },
    /// A mounted filesystem of several devices has it.
    Member {
        /// `btrfs 0e71…`.
        filesystem: String,
    },
    /// It is swapped to.
    Swap {
        /// As the kernel lists it.
        path: String,
    },
    /// A device is made of it.
    Upper {
        /// Name of that device.
        name: String,
        /// Its description, as far as known: `LVM vg0-root`.
        what: Option<String>,
        /// The command that takes it apart.
        apart: String,
    },
    /// It is divided.
    Partitions {
        /// The first one.
        first: String,
    },
    /// A loop device is backed by it, or by its own backing file.
    Loop {
        /// Name of that device.
        name: String,
        /// The file, as the kernel shows it.
        file: String,
        /// Offset in the file.
        offset: u64,
    },
    /// The kernel passes it on: to other hosts, to a gadget's host, or as the backing of another device.
    Export {
        /// The exporter: `nvmet (subsystem nqn.x, namespace 1)`.
        by: String,
        /// The attribute that names it.
        attribute: PathBuf,
    },
    /// A process can read or write it.
    Process {
        /// Process with access to the device.
        process: Process,
        /// Kind of access.
        how: Access,
    },
    /// Its signature makes other devices depend on it.
    Group {
        /// `LVM2_member`, `btrfs of 2 devices`.
        kind: String,
    },
    /// An exclusive claim without a known holder.
    Claim,
    /// The holders cannot be determined.
    Unknown {
        /// The reason.
        why: String,
        /// Instruction for the user, such as `end that process first`.
        remedy: String,
    },
}

/// A process with access to a device, by number and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub id: u32,
    /// Name from `/proc/PID/comm`; empty if that cannot be read.
    pub name: String,
}

/// A process's access to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// By a descriptor that can only be read: it may be looking at every device of the host, as udev does.
    OpenToRead,
    /// By a descriptor.
    Open,
    /// In its memory.
    Mapped,
    /// Registered with an io_uring.
    Registered,
}

impl fmt::Display for Process {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "process {} ({})", self.id, self.name)
    }
}

/// The reason to refuse the device.
impl fmt::Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mount { at, seen_by: None } => write!(formatter, "it is mounted at {}", at.display()),
            Self::Mount { at, seen_by: Some(process) } => {
                write!(formatter, "it is mounted at {} in the mount namespace of {process}", at.display())
            }
            Self::Member { filesystem } => write!(formatter, "it is a device of the mounted {filesystem}"),
            Self::Swap { .. } => formatter.write_str("it is in use as swap"),
            Self::Upper { name, what: None, .. } => write!(formatter, "it is held by {name}"),
            Self::Upper { name, what: Some(what), .. } => write!(formatter, "it is held by {name} ({what})"),
            Self::Partitions { first } => write!(formatter, "it has partitions ({first} …)"),
            Self::Loop { name, file, offset } => {
                write!(formatter, "{name} uses the same data: it is on {file}, from byte {offset}")
            }
            Self::Export { by, .. } => write!(formatter, "it is in use by {by}"),
            Self::Process { process, how: Access::Open | Access::OpenToRead } => {
                write!(formatter, "{process} has it open")
            }
            Self::Process { process, how: Access::Mapped } => {
                write!(formatter, "{process} has it mapped into its memory")
            }
            Self::Process { process, how: Access::Registered } => {
                write!(formatter, "{process} has it registered with an io_uring")
            }
            Self::Group { kind } => write!(formatter, "it is part of a group of devices ({kind})"),
            Self::Claim => formatter.write_str(
                "it is held exclusively, by a holder that is not visible here (a mount in another namespace, ZFS, a container)",
            ),
            Self::Unknown { why, .. } => write!(formatter, "its users cannot be determined: {why}"),
        }
    }
}

impl Holder {
    /// Instruction for the user that frees the device, such as `umount /mnt`.
    pub fn remedy(&self) -> String {
        match self {
            Self::Mount { at, seen_by: None } => {
                format!("umount {}, if nothing on it is needed", at.display())
            }
            Self::Mount { at, seen_by: Some(process) } => {
                format!("nsenter --mount --target {} umount {}, or end that process", process.id, at.display())
            }
            Self::Member { .. } => {
                "unmount that filesystem, or take the device out of it (btrfs device remove)".into()
            }
            Self::Swap { path } => format!("swapoff {path}, if it may be erased"),
            Self::Upper { apart, .. } => format!("detach its holders first: {apart}"),
            Self::Partitions { .. } => "delete them first, if nothing on them is needed: wipefs -a".into(),
            Self::Loop { name, .. } => format!("losetup --detach /dev/{name}, if nothing on it is needed"),
            Self::Export { attribute, .. } => {
                format!("release it first; {} names it", attribute.display())
            }
            Self::Process { .. } => "end that process first".into(),
            Self::Group { .. } => "take it out of the group with the group's own tool (pvremove, mdadm --zero-superblock, zpool labelclear, \
                                   btrfs device remove), or wipefs -a if the group is gone"
                .into(),
            Self::Claim => "lsblk and fuser -vm may show who".into(),
            Self::Unknown { remedy, .. } => remedy.clone(),
        }
    }
}

/// The machine whose devices are examined.
#[derive(Debug, Clone)]
pub struct Host {
    root: PathBuf,
    /// True if devices may be opened and queried.
    is_live: bool,
}

/// A device under examination, with all paths to its data.
struct ExaminedDevice {
    /// As this host opens it.
    node: PathBuf,
    number: DeviceNumber,
    /// Their names and numbers.
    partitions: Vec<(String, DeviceNumber)>,
    /// The character devices that pass commands to the same disk (`/dev/sg0`, `/dev/bsg/…`, `/dev/ng0n1`).
    generic: Vec<DeviceNumber>,
    /// The last components of the paths of all these.
    names: Vec<String>,
    /// The backing file of a loop device.
    file: Option<FileIdentity>,
}

/// A file, independent of its name: device number of its filesystem, and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileIdentity {
    filesystem: DeviceNumber,
    inode: u64,
}

/// The input of a finder.
struct Search<'a> {
    host: &'a Host,
    target: &'a ExaminedDevice,
    /// Processes that may have the device open.
    allowed: &'a [u32],
    tasks: &'a [processes::Task],
}

/// Looks at a host that hides a process, and the pause between them.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(20);

type Finder = fn(&Search<'_>) -> Result<Option<Holder>, StackError>;

/// Every way of using a device. The first match is reported, so the most informative come first.
const WAYS: [Finder; 11] = [
    processes::mounts,
    kernel::filesystems_of_several,
    kernel::swap,
    kernel::upper,
    kernel::loops,
    kernel::exports,
    kernel::hidden_exports,
    processes::descriptors,
    processes::maps,
    kernel::partitions,
    superblock::group,
];

impl Host {
    /// This machine, as it is.
    pub fn real() -> Self {
        Self { root: "/".into(), is_live: true }
    }

    /// Another machine, of which `/proc`, `/sys` and the nodes below `/dev` were recorded in a folder.
    pub fn recorded(folder: &Path) -> Self {
        Self { root: folder.to_owned(), is_live: false }
    }

    /// The holder of a device, other than the processes that may have it open; none if it is free.
    ///
    /// # Errors
    /// It cannot be determined.
    pub fn holder_of(
        &self,
        node: &Path,
        number: DeviceNumber,
        allowed: &[u32],
    ) -> Result<Option<Holder>, StackError> {
        let mut attempts = ATTEMPTS;
        loop {
            match self.holder_now(node, number, allowed) {
                // A process that starts another one with fewer rights hides it for a moment.
                Err(StackError::Io { source, .. })
                    if source.kind() == io::ErrorKind::PermissionDenied && attempts > 1 =>
                {
                    attempts -= 1;
                    thread::park_timeout(PAUSE);
                }
                result => return result,
            }
        }
    }

    /// The process that cannot be inspected, and is assumed not to use any device.
    pub fn believed(&self) -> Option<Process> {
        processes::hidden_init(self)
    }

    fn holder_now(
        &self,
        node: &Path,
        number: DeviceNumber,
        allowed: &[u32],
    ) -> Result<Option<Holder>, StackError> {
        let target = self.target(node, number)?;
        let tasks = processes::tasks(self)?;
        let search = Search { host: self, target: &target, allowed, tasks: &tasks };
        for find in WAYS {
            if let Some(holder) = find(&search)? {
                return Ok(Some(holder));
            }
        }
        let is_claimed = self.is_live && is_claimed(node)?;
        Ok(is_claimed.then_some(Holder::Claim))
    }

    fn target(&self, node: &Path, number: DeviceNumber) -> Result<ExaminedDevice, StackError> {
        let folder = self.at(number.sysfs());
        let mut partitions = Vec::new();
        for name in list(&folder)? {
            let partition = folder.join(&name);
            if partition.join("partition").exists() {
                let gone = || StackError::io("read", partition.join("dev"), Errno::NOENT);
                partitions.push((name, number_in(&partition)?.ok_or_else(gone)?));
            }
        }
        let own = kernel::backing_of(self, &folder)?;
        let (generic_names, generic): (Vec<_>, Vec<_>) =
            kernel::generic_devices(&folder)?.into_iter().unzip();
        let names = [node.display().to_string()].into_iter().chain(kernel::own_name(&folder)?);
        let names = names.chain(own.as_ref().map(|backing| backing.name.clone()));
        let names = names.chain(generic_names).chain(partitions.iter().map(|(name, _)| name.clone()));
        // `/dev/cciss/c0d0` is `cciss!c0d0` in sysfs.
        let names = names.filter_map(|name| name.rsplit(['/', '!']).next().map(str::to_owned)).collect();
        let file = own.map(|backing| backing.file);
        Ok(ExaminedDevice { node: self.at(node), number, partitions, generic, names, file })
    }

    /// A path of that machine as seen from this one.
    fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path.as_ref().strip_prefix("/").unwrap_or(path.as_ref()))
    }
}

impl ExaminedDevice {
    fn is_block(&self, number: DeviceNumber) -> bool {
        self.number == number || self.partitions.iter().any(|(_, partition)| *partition == number)
    }

    /// True if a file leads to the data of this device.
    fn is(&self, stat: &Statx) -> bool {
        match FileType::from_raw_mode(stat.stx_mode.into()) {
            FileType::BlockDevice => self.is_block(DeviceNumber::led_to(stat)),
            FileType::CharacterDevice => self.generic.contains(&DeviceNumber::led_to(stat)),
            FileType::RegularFile => self.file == Some(FileIdentity::of(stat)),
            _ => false,
        }
    }
}

impl FileIdentity {
    fn of(stat: &Statx) -> Self {
        let filesystem = DeviceNumber { major: stat.stx_dev_major, minor: stat.stx_dev_minor };
        Self { filesystem, inode: stat.stx_ino }
    }
}

/// True if a device is held exclusively: by a mount, swap, md, device mapper, ZFS …
///
/// # Errors
/// It cannot be opened for another reason.
pub(crate) fn is_claimed(node: &Path) -> Result<bool, StackError> {
    match rustix::fs::open(node, OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty()) {
        Ok(_) => Ok(false),
        Err(Errno::BUSY) => Ok(true),
        Err(error) => Err(StackError::io("open exclusively", node, error)),
    }
}

/// The target of a path. A server is never queried: one that does not answer would hang us.
fn look(path: &Path) -> io::Result<Statx> {
    let statx = |mask| rustix::fs::statx(CWD, path, AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT, mask);
    match statx(StatxFlags::TYPE | StatxFlags::INO) {
        // Another user's FUSE filesystem refuses root everything but a query without requested fields; it has no
        // devices.
        Err(Errno::ACCESS) => Ok(statx(StatxFlags::empty())?),
        result => Ok(result?),
    }
}

/// None instead of an error about a missing or removed object.
fn unless_gone<T>(what: &str, path: &Path, result: io::Result<T>) -> Result<Option<T>, StackError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) => match Errno::from_io_error(&error) {
            // A process that ends has no namespace (EINVAL) or no memory (ESRCH); a device that goes answers ENXIO or ENODEV.
            Some(Errno::NOENT | Errno::NOTDIR | Errno::SRCH | Errno::INVAL | Errno::NXIO | Errno::NODEV) => {
                Ok(None)
            }
            _ => Err(StackError::io(what, path, error)),
        },
    }
}

/// A small file of the kernel without its last newline; none if it is not there. Names in it may be in any encoding.
fn text(path: &Path) -> Result<Option<String>, StackError> {
    let bytes = unless_gone("read", path, fs::read(path))?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned()))
}

/// The number of the device that a folder of sysfs is of; none if it is gone.
fn number_in(folder: &Path) -> Result<Option<DeviceNumber>, StackError> {
    let path = folder.join("dev");
    let number = text(&path)?.map(|read| read.parse()).transpose();
    number.map_err(|error| StackError::io("read", path, io::Error::other(error)))
}

/// The names in a folder that must be there.
fn list(folder: &Path) -> Result<Vec<String>, StackError> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.map_err(|e| StackError::io("list", folder, e))?;
    Ok(entries.into_iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

/// The names in a folder; none if it is not there.
fn list_if_any(folder: &Path) -> Result<Vec<String>, StackError> {
    match list(folder) {
        Err(StackError::Io { what, path, source }) => {
            Ok(unless_gone(&what, &path, Err::<Vec<String>, _>(source))?.unwrap_or_default())
        }
        listed => listed,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn sources_never_read_environment_variables() {
        let sources = [
            include_str!("mod.rs"),
            include_str!("kernel.rs"),
            include_str!("processes.rs"),
            include_str!("superblock.rs"),
        ];
        for word in
            [concat!("std::", "env"), concat!("env", "::var"), concat!("get", "env"), concat!("env", "!(")]
        {
            assert!(!sources.iter().any(|source| source.contains(word)), "{word}");
        }
    }
}
