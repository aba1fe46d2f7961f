//! `disk`: a whole real device, which every run erases. Most of this file is reasons to refuse.
//!
//! A device is accepted only if the user named it in full on the command line, it is a whole device, no detectable
//! holder uses it, and no signature on it is recognised that was not also named. Before every run its holders are
//! checked again, and its identity by the disk sequence number, which changes when another disk takes the name. We
//! cannot hold it exclusively ourselves, because mkfs and mount each claim it exclusively; see docs/safety.md.

use super::{Device, DeviceRequest, Permission, Progress};
use crate::{
    command::Program,
    device_number::DeviceNumber,
    error::StackError,
    holders::{self, Access, Holder, Host},
    host, mounts, signatures, sysfs,
};
use fstrial_model::{arm::Arm, job::DeviceBinding, units::Bytes};
use rustix::fs::FileType;
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// A whole device, by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Its node, resolved.
    pub path: PathBuf,
    /// Major and minor number of the device.
    pub number: DeviceNumber,
    /// Counts up with every disk that the kernel sees; kernel 5.15 and later.
    pub diskseq: Option<u64>,
}

/// A device that the user gave to be erased.
#[derive(Debug)]
pub struct Disk {
    identity: Identity,
    size: Bytes,
    /// One-line description, if it is not simply a disk.
    description: Option<String>,
    /// Keeps an auto-clearing device from going away between runs.
    _held: File,
}

fn refused(device: &Path, reason: impl Into<String>, hint: impl Into<String>) -> StackError {
    StackError::Refused { device: device.into(), reason: reason.into(), hint: hint.into() }
}

impl Identity {
    /// Finds a whole block device.
    ///
    /// # Errors
    /// It is not one.
    pub fn of(named: &Path) -> Result<Self, StackError> {
        let path = fs::canonicalize(named).map_err(|e| StackError::io("find", named, e))?;
        let stat = rustix::fs::stat(&path).map_err(|e| StackError::io("look at", &path, e))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice {
            return Err(refused(
                named,
                "it is not a block device",
                "name a whole disk, such as /dev/disk/by-id/…; for a file or folder use --device image",
            ));
        }
        let mut identity = Self { path, number: DeviceNumber::from_raw(stat.st_rdev), diskseq: None };
        if identity.sysfs().join("partition").exists() {
            return Err(refused(
                named,
                "it is a partition, not a whole device",
                "name the disk itself, if all of it may be erased",
            ));
        }
        identity.diskseq = sysfs::read_number(identity.sysfs().join("diskseq")).ok();
        Ok(identity)
    }

    /// Its folder in sysfs.
    pub fn sysfs(&self) -> PathBuf {
        self.number.sysfs()
    }

    /// Its size.
    ///
    /// # Errors
    /// It may not be read.
    pub fn size(&self) -> Result<Bytes, StackError> {
        host::size_of_device(&self.path)
    }

    /// True if the kernel marks it as a rotating disk.
    pub fn is_rotational(&self) -> bool {
        sysfs::read_number(self.sysfs().join("queue/rotational")).unwrap_or(0) == 1
    }

    /// Refuses a device that is no longer the one that was accepted.
    ///
    /// # Errors
    /// It is another one.
    pub fn verify(&self) -> Result<(), StackError> {
        if Self::of(&self.path)? == *self {
            return Ok(());
        }
        Err(refused(
            &self.path,
            "another device has taken its name since the trial began",
            "check the cabling and start again",
        ))
    }

    /// Checks again, in a worker, that it is still the device and that only the coordinator has it open.
    ///
    /// # Errors
    /// Any reason to refuse.
    pub fn recheck(&self, coordinator: u32) -> Result<(), StackError> {
        self.verify()?;
        check_free(self, &[coordinator])?;
        // Time has passed.
        self.verify()
    }
}

impl Disk {
    /// Accepts a device for erasing, or returns the reason against it.
    ///
    /// # Errors
    /// Any reason to refuse.
    pub fn accept(named: &Path, least: Bytes, permission: &Permission) -> Result<Self, StackError> {
        match &permission.erase {
            None => {
                return Err(refused(
                    named,
                    "every run erases the whole device, and --erase does not name it",
                    format!("to allow this, add --erase {}", named.display()),
                ));
            }
            Some(erase) if erase != named => {
                return Err(refused(
                    named,
                    format!("--erase names another one: {}", erase.display()),
                    "both must name the same device in the same words",
                ));
            }
            Some(_) => {}
        }
        let identity = Identity::of(named)?;
        let (held, size) = open_checked(named, &identity, least)?;
        identity.recheck(std::process::id())?;
        check_fstab(&identity)?;
        check_signatures(&identity, permission)?;
        Ok(Self { identity, size, description: None, _held: held })
    }

    /// The same with another description.
    pub(crate) fn described(self, description: String) -> Self {
        Self { description: Some(description), ..self }
    }

    /// Capacity of the disk.
    pub fn size(&self) -> Bytes {
        self.size
    }
}

/// Checks that concern the device alone: writable and large enough.
fn open_checked(named: &Path, identity: &Identity, least: Bytes) -> Result<(File, Bytes), StackError> {
    let read_only = sysfs::read_number(identity.sysfs().join("ro")).unwrap_or(0) != 0;
    if read_only {
        return Err(refused(named, "it is read-only", "blockdev --setrw, if it can be written at all"));
    }
    let file = File::open(&identity.path).map_err(|e| StackError::io("open", &identity.path, e))?;
    let size = identity.size()?;
    if size < least {
        return Err(refused(
            named,
            format!("it is too small: {}, and {} are needed", size.human(), least.human()),
            "use a larger device, or a smaller file_size",
        ));
    }
    Ok((file, size))
}

/// Time for which a process may hold the device open for reading only, and the interval of the checks.
const GLANCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);

/// Refuses a device with a holder, or one whose holders cannot be determined.
///
/// Programs that look for filesystems (udev, blkid, `btrfs device scan`, `mkfs.btrfs` on another device) open it for a
/// moment. While all openers are read-only, the check is repeated for [`GLANCE`].
fn check_free(identity: &Identity, allowed: &[u32]) -> Result<(), StackError> {
    let device = &identity.path;
    let until = Instant::now() + GLANCE;
    loop {
        match Host::real().holder_of(device, identity.number, allowed) {
            Ok(None) => return Ok(()),
            Ok(Some(Holder::Process { how: Access::OpenToRead, .. })) if Instant::now() < until => {
                thread::park_timeout(PAUSE);
            }
            Ok(Some(holder)) => return Err(refused(device, holder.to_string(), holder.remedy())),
            Err(error) => {
                return Err(refused(
                    device,
                    format!("its users cannot be determined: {error}"),
                    "run as root of the host, or give the container CAP_SYS_PTRACE and the host's /proc, /sys and /dev",
                ));
            }
        }
    }
}

/// Refuses a device that the system means to mount at boot.
fn check_fstab(identity: &Identity) -> Result<(), StackError> {
    let fstab = match fs::read("/etc/fstab") {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(StackError::io("read", "/etc/fstab", error)),
    };
    match listed_in(&fstab, identity) {
        None => Ok(()),
        Some(source) => Err(refused(
            &identity.path,
            format!("/etc/fstab lists it as {source}"),
            "delete that line first, if the device may be erased",
        )),
    }
}

/// The source in an fstab that names this device.
fn listed_in(fstab: &str, identity: &Identity) -> Option<String> {
    let tags = tags_of(&identity.path);
    fstab.lines().map(str::trim).filter(|line| !line.starts_with('#')).filter_map(first_field).find(
        |source| match source.split_once('=') {
            Some((tag, value)) => tags.iter().any(|(known, own)| *known == tag && is_same(tag, own, value)),
            None => rustix::fs::stat(source.as_str()).is_ok_and(|s| {
                FileType::from_raw_mode(s.st_mode) == FileType::BlockDevice
                    && DeviceNumber::from_raw(s.st_rdev) == identity.number
            }),
        },
    )
}

/// The first field of a line of fstab. A space in it is written `\040`, or the value of a tag is put in quotes.
fn first_field(line: &str) -> Option<String> {
    let end = match line.split_once("=\"") {
        Some((tag, rest)) if !tag.contains(char::is_whitespace) => tag.len() + 2 + rest.find('"')?,
        _ => line.find(char::is_whitespace).unwrap_or(line.len()),
    };
    let field = line.get(..end).filter(|field| !field.is_empty())?;
    Some(mounts::unescape(&field.replace('"', "")))
}

/// True if a tag of a device has the value in fstab. A partition of a DOS table is `PTUUID-NN`.
fn is_same(tag: &str, own: &str, named: &str) -> bool {
    match tag {
        "LABEL" | "PARTLABEL" => own == named,
        "PARTUUID" if !own.is_empty() => named.to_lowercase().starts_with(&own.to_lowercase()),
        _ => own.eq_ignore_ascii_case(named),
    }
}

/// UUIDs and labels of everything on a device, and the id of its partition table as the prefix of PARTUUIDs.
fn tags_of(device: &Path) -> Vec<(&'static str, String)> {
    let mut tags = Vec::new();
    // A device with signatures that cannot be read is refused on their account.
    for signature in signatures::of(device).unwrap_or_default() {
        tags.extend(signature.uuid.map(|uuid| ("UUID", uuid)));
        tags.extend(signature.label.map(|label| ("LABEL", label)));
    }
    let path = device.display().to_string();
    let probed = Program::new("blkid").args(["-p", "-o", "export"]).args([path]).finish();
    let printed = probed.map(|probed| probed.stdout).unwrap_or_default();
    let table = printed.lines().find_map(|line| line.strip_prefix("PTUUID="));
    tags.extend(table.map(|uuid| ("PARTUUID", uuid.to_owned())));
    tags
}

/// Refuses a device that carries anything recognisable which the user did not name as well.
fn check_signatures(identity: &Identity, permission: &Permission) -> Result<(), StackError> {
    let device = &identity.path;
    for signature in signatures::of(device)? {
        let kind = &signature.kind;
        if holders::is_of_a_group(kind) {
            let group = Holder::Group { kind: kind.clone() };
            return Err(refused(device, group.to_string(), group.remedy()));
        }
        if !permission.erase_signatures.contains(kind) {
            let label = signature.label.map(|label| format!(" labelled `{label}`")).unwrap_or_default();
            return Err(refused(
                device,
                format!("it carries a signature: {kind}{label}"),
                format!("if that may be erased as well, add --erase-signature {kind}"),
            ));
        }
    }
    Ok(())
}

/// Accepts the disk that the device section names.
///
/// # Errors
/// As [`Disk::accept`].
///
/// # Panics
/// If the device section was not checked.
pub fn provide(requested: &DeviceRequest<'_>, _: Progress<'_>) -> Result<Box<dyn Device>, StackError> {
    let path = requested.spec.path.as_ref().expect("validated: a disk has a path");
    Ok(Box::new(Disk::accept(path, requested.least, requested.permission)?))
}

impl Device for Disk {
    fn describe(&self) -> String {
        if let Some(description) = &self.description {
            return description.clone();
        }
        let model = sysfs::read(self.identity.sysfs().join("device/model")).unwrap_or_default();
        let model = if model.trim().is_empty() { String::new() } else { format!(" ({})", model.trim()) };
        format!("disk: {}{model}, {}, erased by every run", self.identity.path.display(), self.size.human())
    }

    fn binding(&self, _arm: &Arm) -> DeviceBinding {
        let Identity { path, number: DeviceNumber { major, minor }, diskseq } = self.identity.clone();
        DeviceBinding::Disk { path, major, minor, diskseq, size: self.size }
    }

    fn notes(&self) -> Vec<String> {
        let believed = Host::real().believed();
        let note =
            |process| format!("no permission to inspect {process}: that it does not use the disk is assumed");
        believed.map(note).into_iter().collect()
    }

    fn is_released(&self) -> Result<bool, StackError> {
        self.identity.verify()?;
        Ok(!holders::is_claimed(&self.identity.path)?)
    }

    /// Takes our own last filesystem's signatures away, so that the device ends as blank as it was accepted.
    fn close(self: Box<Self>) -> Result<(), StackError> {
        self.identity.recheck(std::process::id())?;
        let path = self.identity.path.display().to_string();
        Program::new("wipefs").args(["--all", "--quiet"]).args([path]).run().map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file in the place of a device: only its signatures are examined here.
    fn identity_of(path: &Path) -> Identity {
        Identity {
            path: path.to_owned(),
            number: DeviceNumber { major: 4095, minor: 1_000_000 },
            diskseq: None,
        }
    }

    fn file(folder: &Path, mib: u64) -> PathBuf {
        let path = folder.join("disk");
        File::create(&path).unwrap().set_len(mib << 20).unwrap();
        path
    }

    fn swap(folder: &Path, label: &str) -> PathBuf {
        let path = file(folder, 1);
        let uuid = "0A1B2C3D-4e5f-6071-8293-a4b5c6d7e8f9";
        let words = ["-q", "-U", uuid, "-L", label];
        Program::new("mkswap").args(words).args([path.display().to_string()]).run().unwrap();
        path
    }

    #[test]
    fn matches_fstab_entry_by_uuid_and_label() {
        let home = tempfile::tempdir().unwrap();
        let identity = identity_of(&swap(home.path(), "old data"));
        for (line, listed) in [
            ("UUID=0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9 none swap sw 0 0", true),
            ("  UUID=0A1B2C3D-4E5F-6071-8293-A4B5C6D7E8F9\tnone swap", true),
            ("UUID=\"0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9\" none swap", true),
            ("LABEL=old\\040data none swap", true),
            ("LABEL=\"old data\" none swap", true),
            ("LABEL=old none swap", false),
            ("LABEL=old\\040data2 none swap", false),
            ("UUID=ffffffff-4e5f-6071-8293-a4b5c6d7e8f9 none swap", false),
            ("PARTUUID=0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9 none swap", false),
            ("# UUID=0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9 none swap", false),
            ("#LABEL=old\\040data none swap", false),
            ("tmpfs /tmp tmpfs size=1G 0 0", false),
            ("UUID= none swap", false),
            ("LABEL=\"old data none swap", false),
            ("", false),
        ] {
            for fstab in
                [line.to_owned(), format!("# a comment\n\nproc /proc proc\n{line}\n/dev/none / ext4\n")]
            {
                assert_eq!(listed_in(&fstab, &identity).is_some(), listed, "{fstab}");
            }
        }
    }

    #[test]
    fn fstab_names_one_of_two_things_on_a_device() {
        let home = tempfile::tempdir().unwrap();
        let path = swap(home.path(), "swap");
        // blkid reports one of two things only.
        let file = File::options().write(true).open(&path).unwrap();
        rustix::io::pwrite(file, b"LUKS\xBA\xBE\0\x01", 0).unwrap();
        let kinds = signatures::of(&path).unwrap();
        assert_eq!(kinds.len(), 2, "{kinds:?}");
        assert!(listed_in("LABEL=swap none swap", &identity_of(&path)).is_some(), "{kinds:?}");
    }

    #[test]
    fn matches_fstab_entry_by_partuuid() {
        let home = tempfile::tempdir().unwrap();
        let path = file(home.path(), 1);
        let mut record = [0_u8; 512];
        record[440..444].copy_from_slice(&0x1234_ABCD_u32.to_le_bytes());
        record[450] = 0x83;
        record[454..458].copy_from_slice(&64_u32.to_le_bytes());
        record[458..462].copy_from_slice(&64_u32.to_le_bytes());
        record[510..].copy_from_slice(&[0x55, 0xAA]);
        fs::write(&path, [&record[..], &vec![0; 1 << 20]].concat()).unwrap();
        let identity = identity_of(&path);
        assert!(listed_in("PARTUUID=1234abcd-01 / ext4", &identity).is_some(), "{:?}", tags_of(&path));
        assert!(listed_in("PARTUUID=1234ABCD-02 / ext4", &identity).is_some());
        assert!(listed_in("PARTUUID=1234abce-01 / ext4", &identity).is_none());
    }

    #[test]
    fn matches_fstab_entry_by_device_node() {
        // Nothing is opened: any block device of this machine will do.
        let block = fs::read_dir("/dev").unwrap().flatten().find_map(|entry| {
            let stat = rustix::fs::stat(entry.path()).ok()?;
            let is_block = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
            is_block.then(|| (entry.path(), DeviceNumber::from_raw(stat.st_rdev)))
        });
        let Some((node, number)) = block else { return };
        let home = tempfile::tempdir().unwrap();
        let identity = Identity { path: file(home.path(), 1), number, diskseq: None };
        let link = home.path().join("a link");
        std::os::unix::fs::symlink(&node, &link).unwrap();
        let escaped = link.display().to_string().replace(' ', "\\040");
        for source in [node.display().to_string(), escaped] {
            assert!(listed_in(&format!("{source} / ext4 defaults"), &identity).is_some(), "{source}");
            assert!(listed_in(&format!("# {source} / ext4"), &identity).is_none(), "{source}");
        }
        assert!(listed_in("/dev/null / ext4\n/nowhere /mnt ext4\ntmpfs /tmp tmpfs", &identity).is_none());
    }
}
