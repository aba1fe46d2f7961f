//! Holders of a device within the kernel, from sysfs, configfs and `/proc/swaps`.

use super::{FileIdentity, Holder, Host, Search, list, list_if_any, look, number_in, text, unless_gone};
use crate::{device_number::DeviceNumber, error::StackError, ioctl, mounts};
use rustix::fs::{FileType, Mode, OFlags};
use std::{
    fs::File,
    os::fd::AsFd,
    path::{Path, PathBuf},
};

/// Attributes that hold the path of a device or file that the kernel has opened, and who has. Of a path, `*` stands for
/// one name or its rest; the names come back in the words. Nothing else shows these: nvmet and gadgets do not claim the
/// device, and none of them has an entry in `holders` or a descriptor.
const EXPORTS: [(&str, &str); 5] = [
    // Documentation/ABI/testing/sysfs-block-zram
    ("/sys/block/zram*/backing_dev", "zram* (backing device)"),
    // drivers/nvme/target/configfs.c
    ("/sys/kernel/config/nvmet/subsystems/*/namespaces/*/device_path", "nvmet (subsystem *, namespace *)"),
    // Documentation/target/tcm_mod_builder.rst; drivers/target/target_core_configfs.c
    ("/sys/kernel/config/target/core/*/*/udev_path", "the SCSI target (LIO, backstore */*)"),
    // Documentation/ABI/testing/configfs-usb-gadget-mass-storage
    ("/sys/kernel/config/usb_gadget/*/functions/*/lun.*/file", "a USB gadget (*, function *, LUN *)"),
    // SCST, which is built outside of the kernel's tree
    ("/sys/kernel/scst_tgt/devices/*/filename", "the SCSI target (SCST, device *)"),
];

/// Modules that are configured below a folder of configfs, and show their devices only there.
const CONFIGURED: [(&str, &str); 3] =
    [("nvmet", "nvmet"), ("target_core_mod", "target"), ("libcomposite", "usb_gadget")];

/// The backing of a loop device.
pub(super) struct Backing {
    pub(super) file: FileIdentity,
    /// The device, if the backing is one and not a file.
    device: Option<DeviceNumber>,
    /// As the kernel shows it.
    pub(super) name: String,
    offset: u64,
}

/// Members of mounted filesystems that have several devices, or a device number that is not their device's.
pub(super) fn filesystems_of_several(search: &Search<'_>) -> Result<Option<Holder>, StackError> {
    for (kind, folder, leaf) in [("btrfs", "devices", ""), ("bcachefs", "", "block")] {
        let all = search.host.at("/sys/fs").join(kind);
        for uuid in list_if_any(&all)? {
            // btrfs: UUID/devices/sdb is a link to the device; bcachefs: UUID/dev-0/block is.
            let members = all.join(&uuid).join(folder);
            for member in list_if_any(&members)? {
                let number = number_in(&members.join(member).join(leaf))?;
                if number.is_some_and(|number| search.target.is_block(number)) {
                    return Ok(Some(Holder::Member { filesystem: format!("{kind} {uuid}") }));
                }
            }
        }
    }
    Ok(None)
}

pub(super) fn swap(search: &Search<'_>) -> Result<Option<Holder>, StackError> {
    // A kernel without swap has no such file; that /proc is there is known from its processes.
    let listed = text(&search.host.at("/proc/swaps"))?.unwrap_or_default();
    for path in listed.lines().skip(1).filter_map(|line| line.split_whitespace().next()) {
        let path = mounts::unescape(path);
        // Devices that were renamed, or are in another namespace, are claimed regardless.
        if look(&search.host.at(&path)).is_ok_and(|result| search.target.is(&result)) {
            return Ok(Some(Holder::Swap { path }));
        }
    }
    Ok(None)
}

/// Devices that are made of this one: md, device mapper (LVM, dm-crypt, multipath …), bcache, DRBD.
pub(super) fn upper(search: &Search<'_>) -> Result<Option<Holder>, StackError> {
    let own = search.host.at(search.target.number.sysfs());
    let partitions = search.target.partitions.iter().map(|(name, _)| own.join(name));
    for folder in [own.clone()].into_iter().chain(partitions) {
        if let Some(name) = list_if_any(&folder.join("holders"))?.into_iter().next() {
            return Ok(Some(upper_called(search.host, name)?));
        }
        // A backing or cache device of bcache has a folder of that name while it is registered.
        if folder.join("bcache").exists() {
            let apart = "echo 1 > /sys/block/…/bcache/stop".into();
            return Ok(Some(Holder::Upper { name: "bcache".into(), what: None, apart }));
        }
    }
    Ok(None)
}

/// Describes a holding device.
fn upper_called(host: &Host, name: String) -> Result<Holder, StackError> {
    let folder = host.at("/sys/block").join(&name);
    let mapped = text(&folder.join("dm/name"))?;
    let uuid = text(&folder.join("dm/uuid"))?.unwrap_or_default();
    let (what, apart) = match mapped {
        Some(mapped) => match uuid.split('-').next() {
            Some("LVM") => (format!("LVM {mapped}"), format!("lvchange --activate n /dev/mapper/{mapped}")),
            Some("CRYPT") => (format!("dm-crypt {mapped}"), format!("cryptsetup close {mapped}")),
            Some("mpath") => (format!("multipath {mapped}"), format!("multipath -f {mapped}")),
            _ => (format!("device mapper {mapped}"), format!("dmsetup remove {mapped}")),
        },
        None => match text(&folder.join("md/level"))? {
            Some(level) => (format!("md {level}"), format!("mdadm --stop /dev/{name}")),
            None => {
                let apart = "mdadm --stop, vgchange -an, dmsetup remove".into();
                return Ok(Holder::Upper { name, what: None, apart });
            }
        },
    };
    Ok(Holder::Upper { name, what: Some(what), apart })
}

/// Partitions, used or not.
pub(super) fn partitions(search: &Search<'_>) -> Result<Option<Holder>, StackError> {
    let first = search.target.partitions.first();
    Ok(first.map(|(name, _)| Holder::Partitions { first: name.clone() }))
}

/// Loop devices on this device or a partition of it, and those on its own backing file, at any offset.
pub(super) fn loops(search: &Search<'_>) -> Result<Option<Holder>, StackError> {
    let block = search.host.at("/sys/block");
    for name in list(&block)? {
        let folder = block.join(&name);
        let Some(backing) = backing_of(search.host, &folder)? else { continue };
        if number_in(&folder)? == Some(search.target.number) {
            continue;
        }
        let on_device = backing.device.is_some_and(|device| search.target.is_block(device));
        if on_device || search.target.file == Some(backing.file) {
            return Ok(Some(Holder::Loop { name, file: backing.name, offset: backing.offset }));
        }
    }
    Ok(None)
}

/// The backing of a loop device; none if the folder is of another device, or of an unbound loop device.
pub(super) fn backing_of(host: &Host, folder: &Path) -> Result<Option<Backing>, StackError> {
    let attribute = folder.join("loop/backing_file");
    let Some(name) = text(&attribute)? else { return Ok(None) };
    let offset = text(&folder.join("loop/offset"))?.and_then(|offset| offset.parse().ok()).unwrap_or(0);
    if !host.is_live {
        let result = look(&host.at(&name)).map_err(|e| StackError::io("look at", host.at(&name), e))?;
        let is_device = FileType::from_raw_mode(result.stx_mode.into()) == FileType::BlockDevice;
        let device = is_device.then(|| DeviceNumber::led_to(&result));
        return Ok(Some(Backing { file: FileIdentity::of(&result), device, name, offset }));
    }
    // The name may be that of another file in our namespace, or of none: the device itself knows its file.
    let (Some(number), Some(own)) = (number_in(folder)?, own_name(folder)?) else { return Ok(None) };
    let node = Path::new("/dev").join(own);
    let opened = rustix::fs::open(&node, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let opened = opened.map(File::from).map_err(std::io::Error::from);
    let Some(opened) = unless_gone("open", &node, opened)? else {
        // A device that goes loses its node first.
        return match text(&attribute)? {
            None => Ok(None),
            Some(_) => Err(StackError::io("open", &node, rustix::io::Errno::NOENT)),
        };
    };
    let led_to = rustix::fs::fstat(&opened).map_err(|e| StackError::io("look at", &node, e))?.st_rdev;
    if DeviceNumber::from_raw(led_to) != number {
        return Err(StackError::io("find loop device", &node, rustix::io::Errno::NXIO));
    }
    let status = unless_gone("ask", &node, ioctl::loop_status(opened.as_fd()))?;
    Ok(status.map(|status| Backing {
        file: FileIdentity { filesystem: DeviceNumber::from_raw(status.device), inode: status.inode },
        device: (status.rdevice != 0).then(|| DeviceNumber::from_raw(status.rdevice)),
        name,
        offset: status.offset,
    }))
}

/// The name of a folder's device, also if it was found by number; none if it is gone.
pub(super) fn own_name(folder: &Path) -> Result<Option<String>, StackError> {
    let real = unless_gone("find", folder, folder.canonicalize())?;
    Ok(real.and_then(|real| Some(real.file_name()?.to_string_lossy().into_owned())))
}

/// Exports of the kernel. A disabled export counts: it was configured to be enabled.
pub(super) fn exports(search: &Search<'_>) -> Result<Option<Holder>, StackError> {
    for (pattern, words) in EXPORTS {
        for (attribute, names) in matching(search.host, pattern)? {
            let Some(read) = text(&attribute)? else { continue };
            let path = read.lines().next().unwrap_or_default().trim();
            // The backstores of LIO also list their open devices, by number.
            let info = text(&attribute.with_file_name("info"))?.unwrap_or_default();
            let opened = opened_by(&info);
            // The former target of a path that leads nowhere here cannot be determined.
            let result = if path.starts_with('/') && opened.is_none() {
                Some(
                    look(&search.host.at(path))
                        .map_err(|e| StackError::io("find", search.host.at(path), e))?,
                )
            } else {
                look(&search.host.at(path)).ok().filter(|_| path.starts_with('/'))
            };
            let is_named = result.is_some_and(|result| search.target.is(&result));
            if is_named || opened.is_some_and(|number| search.target.is_block(number)) {
                let by = names.iter().fold(words.to_owned(), |words, name| words.replacen('*', name, 1));
                return Ok(Some(Holder::Export { by, attribute }));
            }
        }
    }
    Ok(None)
}

/// The device that a backstore of LIO has opened: `Major: 8 Minor: 16  CLAIMED: IBLOCK`.
fn opened_by(info: &str) -> Option<DeviceNumber> {
    let mut words = info.split_once("Major: ")?.1.split_whitespace();
    let (major, minor) = (words.next()?.parse().ok()?, words.nth(1)?.parse().ok()?);
    Some(DeviceNumber { major, minor }).filter(|number| number.major != 0)
}

/// Configuration in places we cannot read.
pub(super) fn hidden_exports(search: &Search<'_>) -> Result<Option<Holder>, StackError> {
    let config = search.host.at("/sys/kernel/config");
    let hidden = CONFIGURED.iter().find(|(module, folder)| {
        search.host.at("/sys/module").join(module).exists() && !config.join(folder).exists()
    });
    Ok(hidden.map(|(module, _)| Holder::Unknown {
        why: format!("the module {module} may use it, and its folder in /sys/kernel/config is missing"),
        remedy: "mount -t configfs none /sys/kernel/config".into(),
    }))
}

/// The paths that match a pattern, each with the matches of its stars.
fn matching(host: &Host, pattern: &str) -> Result<Vec<(PathBuf, Vec<String>)>, StackError> {
    let mut result = vec![(host.at("/"), Vec::new())];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        let Some(prefix) = part.strip_suffix('*') else {
            result.iter_mut().for_each(|(path, _)| path.push(part));
            continue;
        };
        let mut next = Vec::new();
        for (path, names) in result {
            for name in list_if_any(&path)? {
                if let Some(rest) = name.strip_prefix(prefix) {
                    let names = names.iter().cloned().chain([rest.to_owned()]).collect();
                    next.push((path.join(&name), names));
                }
            }
        }
        result = next;
    }
    Ok(result)
}

/// The character devices of the same disk: SCSI's generic one and its queue, NVMe's generic one.
pub(super) fn generic_devices(folder: &Path) -> Result<Vec<(String, DeviceNumber)>, StackError> {
    let device = folder.join("device");
    let mut result = Vec::new();
    let mut add = |folder: &Path, name: String| {
        result.extend(number_in(&folder.join(&name))?.map(|number| (name, number)));
        Ok::<(), StackError>(())
    };
    for folder in ["scsi_generic", "bsg"].map(|kind| device.join(kind)) {
        for name in list_if_any(&folder)? {
            add(&folder, name)?;
        }
    }
    // `nvme0n1` is next to `ng0n1`, in the folder of its controller or subsystem.
    for name in list_if_any(&device)?.into_iter().filter(|name| name.starts_with("ng")) {
        let own = own_name(folder)?.unwrap_or_default();
        if own.strip_prefix("nvme") == name.strip_prefix("ng") {
            add(&device, name)?;
        }
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_device_number_from_backstore_status() {
        let message = "Status: ACTIVATED  Max Queue Depth: 128  SectorSize: 512  HwMaxSectors: 32768\n        \
                    iBlock device: sdb  UDEV PATH: /dev/sdb  readonly: 0\n        Major: 8 Minor: 16  CLAIMED: IBLOCK\n";
        assert_eq!(opened_by(message), Some(DeviceNumber { major: 8, minor: 16 }));
        assert_eq!(opened_by("        Major: 0 Minor: 0\n"), None);
        assert_eq!(
            opened_by("TCM FILEIO ID: 0        File: /dev/sdb  Size: 1  Mode: O_DSYNC Async: 0"),
            None
        );
        assert_eq!(opened_by("Major: "), None);
    }
}
