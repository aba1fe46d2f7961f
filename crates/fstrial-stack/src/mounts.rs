//! Mounts, read from `mountinfo`.

use crate::{device_number::DeviceNumber, error::StackError, sysfs};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// One line of `/proc/self/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountEntry {
    /// Device number of the filesystem.
    pub device: DeviceNumber,
    /// The folder of the filesystem that is shown.
    pub root: PathBuf,
    /// Mount point.
    pub target: PathBuf,
    /// Options of this mount (`noatime`, `ro`).
    pub mount_options: Vec<String>,
    /// Filesystem type.
    pub filesystem: String,
    /// Mount source.
    pub source: String,
    /// Options of the filesystem itself (`data=journal`).
    pub super_options: Vec<String>,
}

impl MountEntry {
    /// True if an option is in effect, of either kind.
    pub fn has(&self, option: &str) -> bool {
        self.mount_options.iter().chain(&self.super_options).any(|known| known == option)
    }

    /// Kernel names of its block device, and of the disk that contains it. None if it has no device of this machine, or
    /// if `/sys` lacks it.
    pub fn block_devices(&self) -> Vec<String> {
        // The number is the device's, unless the filesystem has a virtual one (btrfs).
        let by_number = fs::canonicalize(self.device.sysfs());
        let by_name = || {
            // A link, of names by label or of a device mapper.
            let node = fs::canonicalize(&self.source).ok().filter(|node| node.starts_with("/dev"))?;
            fs::canonicalize(Path::new("/sys/class/block").join(node.file_name()?)).ok()
        };
        let Some(folder) = by_number.ok().or_else(by_name) else { return Vec::new() };
        let disk = folder.parent().filter(|_| folder.join("partition").exists());
        let folders = [Some(folder.as_path()), disk].into_iter().flatten();
        folders.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect()
    }

    /// The filesystem and its device, the same at each of its mount points: `ext4 on /dev/vda1 (254:1)`.
    pub fn in_words(&self) -> String {
        format!("{} on {} ({})", self.filesystem, self.source, self.device)
    }

    /// Options of both kinds, in the kernel's order.
    pub fn options(&self) -> Vec<&str> {
        let mut all: Vec<&str> =
            self.mount_options.iter().chain(&self.super_options).map(String::as_str).collect();
        let mut seen = std::collections::BTreeSet::new();
        all.retain(|option| seen.insert(*option));
        all
    }
}

/// Everything mounted in this namespace.
///
/// # Errors
/// `/proc` is not mounted.
pub fn all() -> Result<Vec<MountEntry>, StackError> {
    Ok(parse(&sysfs::read("/proc/self/mountinfo")?))
}

/// The mount that holds a path, which must be resolved already; none if nothing is mounted at the root.
///
/// # Errors
/// `/proc` is not mounted.
pub fn holding(path: &Path) -> Result<Option<MountEntry>, StackError> {
    // Of several at one place the last covers the others.
    let above = all()?.into_iter().filter(|mounted| path.starts_with(&mounted.target));
    Ok(above.max_by_key(|mounted| mounted.target.as_os_str().len()))
}

/// The topmost mount at a path.
///
/// # Errors
/// `/proc` is not mounted, or nothing is mounted there.
pub fn at(target: &Path) -> Result<MountEntry, StackError> {
    // The kernel lists mounts by where they really are: /mnt may be a link (to /var/mnt).
    let target = fs::canonicalize(target).map_err(|e| StackError::io("find", target, e))?;
    all()?.into_iter().rev().find(|mounted| mounted.target == target).ok_or_else(|| StackError::Unable {
        what: format!("nothing is mounted at {}", target.display()),
        hint: "this is a bug in fstrial; please report it".into(),
    })
}

/// The other paths under which a path, or a part of it, is shown by these mounts. It must be resolved.
pub(crate) fn also_at(path: &Path, all: &[MountEntry]) -> Vec<PathBuf> {
    let above = all.iter().filter(|mounted| path.starts_with(&mounted.target));
    let Some(holder) = above.max_by_key(|mounted| mounted.target.as_os_str().len()) else {
        return Vec::new();
    };
    let Ok(inside) = path.strip_prefix(&holder.target) else { return Vec::new() };
    let inside = if inside.as_os_str().is_empty() { holder.root.clone() } else { holder.root.join(inside) };
    let shown =
        all.iter().filter(|mounted| mounted.device == holder.device).filter_map(|mounted| {
            match inside.strip_prefix(&mounted.root) {
                Ok(rest) if rest.as_os_str().is_empty() => Some(mounted.target.clone()),
                Ok(rest) => Some(mounted.target.join(rest)),
                Err(_) => mounted.root.starts_with(&inside).then(|| mounted.target.clone()),
            }
        });
    shown.filter(|shown| !shown.starts_with(path)).collect()
}

pub(crate) fn parse(text: &str) -> Vec<MountEntry> {
    text.lines().filter_map(parse_line).collect()
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
fn parse_line(line: &str) -> Option<MountEntry> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(2);
    let device = left.next()?.parse().ok()?;
    let root = PathBuf::from(unescape(left.next()?));
    let target = PathBuf::from(unescape(left.next()?));
    let mount_options = left.next()?.split(',').map(str::to_owned).collect();
    let mut right = right.split(' ');
    let filesystem = right.next()?.to_owned();
    let source = unescape(right.next()?);
    let super_options = right.next().unwrap_or_default().split(',').map(str::to_owned).collect();
    Some(MountEntry { device, root, target, mount_options, filesystem, source, super_options })
}

/// The kernel writes space, tab, newline and backslash as `\040` and so on.
pub(crate) fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let octal = bytes.get(at + 1..at + 4).filter(|_| bytes[at] == b'\\').and_then(|digits| {
            std::str::from_utf8(digits).ok().and_then(|digits| u8::from_str_radix(digits, 8).ok())
        });
        match octal {
            Some(byte) => {
                out.push(byte);
                at += 4;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_aliases_of_path_in_other_mounts() {
        let all = parse(
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:20 / /run rw - tmpfs run rw\n3 1 0:20 / /srv/a/run rw - tmpfs run rw\n\
             4 1 0:20 /dbus /srv/dbus rw - tmpfs run rw\n5 1 8:1 /tmp /srv/a/tmp rw - ext4 /dev/sda1 rw\n\
             6 1 8:1 / /srv/all rw - ext4 /dev/sda1 rw\n7 2 0:21 / /run/lock rw - tmpfs lock rw\n8 1 8:1 /home /h rw - ext4 /dev/sda1 rw\n\
             9 1 0:30 / /auto rw - autofs auto rw\n10 9 8:2 / /auto rw - ext4 /dev/sda2 rw\n11 1 8:2 / /srv/auto rw - ext4 /dev/sda2 rw\n",
        );
        let at = |path: &str| {
            let result = also_at(Path::new(path), &all);
            result.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(at("/run"), "/srv/a/run /srv/dbus");
        assert_eq!(at("/tmp"), "/srv/a/tmp /srv/all/tmp");
        assert_eq!(at("/run/dbus/socket"), "/srv/a/run/dbus/socket /srv/dbus/socket");
        assert_eq!(at("/home/me/socket"), "/srv/all/home/me/socket /h/me/socket");
        assert_eq!(at("/run/lock"), "");
        assert_eq!(at("/auto/socket"), "/srv/auto/socket", "what covers the place of an automount");
    }

    #[test]
    fn mount_resolves_device_by_number_or_name() {
        let lies_on = |device: &str, source: &str| {
            let line = format!("1 1 {device} / / rw - x {source} rw");
            parse_line(&line).unwrap().block_devices()
        };
        assert_eq!(lies_on("0:45", "tmpfs"), Vec::<String>::new());
        assert_eq!(lies_on("0:45", "/dev/null"), Vec::<String>::new());
        // Any devices of this machine; a partition also names its disk. Those that other tests add and remove are left
        // out.
        for entry in fs::read_dir("/sys/class/block").into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if ["loop", "zram"].iter().any(|passing| name.starts_with(passing)) {
                continue;
            }
            let Ok(number) = sysfs::read(entry.path().join("dev")) else { continue };
            let by_number = lies_on(&number, "none");
            assert_eq!(by_number.first(), Some(&name));
            assert_eq!(
                by_number.len(),
                if entry.path().join("partition").exists() { 2 } else { 1 },
                "{name}"
            );
            if Path::new("/dev").join(&name).exists() {
                assert_eq!(lies_on("0:45", &format!("/dev/{name}")), by_number);
            }
        }
    }

    #[test]
    fn parses_mountinfo_as_documented() {
        let mounted = parse(
            "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue\nbroken\n",
        );
        assert_eq!(mounted.len(), 1);
        assert_eq!(mounted[0].target, Path::new("/mnt 2"));
        assert_eq!(mounted[0].device, DeviceNumber { major: 98, minor: 0 });
        assert!(mounted[0].has("noatime") && mounted[0].has("errors=continue"));
        assert_eq!(mounted[0].options(), ["rw", "noatime", "errors=continue"]);
    }

    #[test]
    fn the_root_of_this_machine_is_mounted() {
        assert!(all().unwrap().iter().any(|mounted| mounted.target == Path::new("/")));
    }
}
