//! `disk`: every reason to refuse, on a real device set up for each case, and the cases that are accepted.

use crate::{
    dress,
    support::{
        Background, Lab, MountGuard, arm, ends_of, isolated, name_of, run, skip, wait_until, write_at,
    },
};
use fstrial_model::{job::DeviceBinding, units::Bytes};
use fstrial_stack::{
    StackError,
    device::{
        Device, Permission,
        disk::{Disk, Identity},
    },
    loopdev::LoopDevice,
    signatures,
    stack::AttachedDevices,
};
use rustix::fs::{Mode, OFlags};
use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

const MIN_SIZE: Bytes = Bytes::mib(1);

/// The permission of a user who means it.
fn erase(device: &Path, signatures: &[&str]) -> Permission {
    Permission {
        erase: Some(device.to_owned()),
        erase_signatures: signatures.iter().map(|s| (*s).to_owned()).collect(),
    }
}

fn refusal(result: Result<Disk, StackError>, named: &Path) -> (String, String) {
    match result {
        Err(StackError::Refused { device, reason, hint }) => {
            assert_eq!(device, named);
            (reason, hint)
        }
        Err(other) => panic!("not a refusal: {other}"),
        Ok(_) => panic!("{} was accepted", named.display()),
    }
}

/// A device is refused for this reason with this remedy, and nothing on it changes.
#[track_caller]
fn assert_refused(device: &Path, permission: &Permission, reason: &str, remedy: &str) {
    let before = ends_of(device);
    let (message, hint) = refusal(Disk::accept(device, MIN_SIZE, permission), device);
    assert!(message.contains(reason), "it says `{message}`, not `{reason}`");
    assert!(hint.contains(remedy), "it advises `{hint}`, not `{remedy}`");
    assert!(before == ends_of(device), "a refused device was changed");
}

#[track_caller]
fn assert_accepted(device: &Path, permission: &Permission) {
    let before = ends_of(device);
    if let Err(error) = Disk::accept(device, MIN_SIZE, permission) {
        panic!("{error}");
    }
    assert!(before == ends_of(device), "accepting a device changed it");
}

#[test]
fn not_named_for_erasing() {
    isolated(|| {
        let lab = Lab::new();
        let device = lab.device("disk", 8);
        let path = device.path();
        let remedy = format!("add --erase {}", path.display());
        assert_refused(&path, &Permission::default(), "every run erases the whole device", &remedy);
    });
}

#[test]
fn another_named_for_erasing() {
    isolated(|| {
        let lab = Lab::new();
        let (device, other) = (lab.device("disk", 8), lab.device("other", 8));
        let reason = format!("--erase names another one: {}", other.path().display());
        assert_refused(&device.path(), &erase(&other.path(), &[]), &reason, "name the same device");
        // The same device in other words is not the same words.
        let link = lab.path("link");
        std::os::unix::fs::symlink(device.path(), &link).unwrap();
        assert_refused(&device.path(), &erase(&link, &[]), "--erase names another one", "in the same words");
        assert_accepted(&link, &erase(&link, &[]));
    });
}

#[test]
fn not_a_block_device() {
    isolated(|| {
        let lab = Lab::new();
        let file = lab.file("file", 8);
        let link = lab.path("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let before = fs::metadata(&file).unwrap().modified().unwrap();
        for path in [file.clone(), link, lab.folder("folder"), PathBuf::from("/dev/null")] {
            let (reason, hint) = refusal(Disk::accept(&path, MIN_SIZE, &erase(&path, &[])), &path);
            assert_eq!(reason, "it is not a block device");
            assert!(hint.contains("--device image"), "{hint}");
        }
        assert_eq!(before, fs::metadata(&file).unwrap().modified().unwrap());
        let nowhere = lab.path("nowhere");
        let error = Disk::accept(&nowhere, MIN_SIZE, &erase(&nowhere, &[])).unwrap_err();
        assert!(error.to_string().starts_with("could not find"), "{error}");
    });
}

/// A loop device with partition scanning; `LoopDevice` has none.
struct Scanned(PathBuf);

impl Scanned {
    fn attach(file: &Path) -> Self {
        let printed = run("losetup", &["--find", "--show", "--partscan", file.to_str().unwrap()]);
        Self(printed.stdout.trim().into())
    }
}

impl Drop for Scanned {
    fn drop(&mut self) {
        let path = self.0.display().to_string();
        let _ = fstrial_stack::command::Program::new("losetup").args(["--detach", &path]).run();
    }
}

#[test]
fn a_partition_and_a_device_with_partitions() {
    isolated(|| {
        let lab = Lab::new();
        let file = lab.file("disk", 64);
        dress::as_dos(&file);
        let device = Scanned::attach(&file);
        let partition = PathBuf::from(format!("{}p1", device.0.display()));
        if !partition.exists() {
            // A kernel that reads no partition tables still accepts partitions through an ioctl.
            let reported = fstrial_stack::command::Program::new("addpart")
                .args([&device.0.display().to_string(), "1", "2048", "32768"])
                .run();
            if let Err(error) = reported {
                return skip("disk::a_partition_and_a_device_with_partitions", &error.to_string());
            }
            wait_until("the partition has a node", || partition.exists());
        }
        assert_refused(&partition, &erase(&partition, &["dos"]), "it is a partition", "name the disk itself");
        assert_refused(&device.0, &erase(&device.0, &["dos"]), "it has partitions", "wipefs -a");
        run("mkfs.ext4", &["-q", "-F", partition.to_str().unwrap()]);
        let point = lab.folder("point");
        let mounted = MountGuard::mount(&partition, &point);
        let remedy = format!("umount {}", point.display());
        assert_refused(&device.0, &erase(&device.0, &["dos"]), "it is mounted at", &remedy);
        drop(mounted);
    });
}

#[test]
fn unconfirmed_partition_table_is_refused() {
    isolated(|| {
        let lab = Lab::new();
        let (dos, gpt) = (lab.device("dos", 8), lab.device("gpt", 8));
        dress::as_dos(&dos.path());
        assert_refused(&dos.path(), &erase(&dos.path(), &[]), "signature: dos", "--erase-signature dos");
        assert_accepted(&dos.path(), &erase(&dos.path(), &["dos"]));
        dress::as_gpt(&gpt.path(), 8);
        assert_refused(&gpt.path(), &erase(&gpt.path(), &[]), "signature: gpt", "--erase-signature gpt");
        assert_refused(
            &gpt.path(),
            &erase(&gpt.path(), &["gpt"]),
            "signature: PMBR",
            "--erase-signature PMBR",
        );
        assert_accepted(&gpt.path(), &erase(&gpt.path(), &["gpt", "PMBR"]));
    });
}

#[test]
fn unconfirmed_filesystem_is_refused() {
    isolated(|| {
        let lab = Lab::new();
        for (kind, mkfs, mib, options) in [
            ("ext4", "mkfs.ext4", 64, ["-q", "-F", "-L", "home"]),
            ("xfs", "mkfs.xfs", 320, ["-q", "-f", "-L", "home"]),
            ("btrfs", "mkfs.btrfs", 128, ["-q", "-f", "-L", "home"]),
            ("swap", "mkswap", 64, ["-q", "-f", "-L", "home"]),
        ] {
            let device = lab.device(kind, mib);
            dress::with(&device.path(), mkfs, &options);
            let reason = format!("signature: {kind} labelled `home`");
            let remedy = format!("--erase-signature {kind}");
            assert_refused(&device.path(), &erase(&device.path(), &[]), &reason, &remedy);
            assert_refused(&device.path(), &erase(&device.path(), &["ext3", "ntfs"]), &reason, &remedy);
            assert_accepted(&device.path(), &erase(&device.path(), &["ntfs", kind]));
        }
    });
}

#[test]
fn one_of_two_signatures_confirmed() {
    isolated(|| {
        let lab = Lab::new();
        let device = lab.device("disk", 128);
        let path = device.path();
        dress::with(&path, "mkfs.btrfs", &["-q", "-f"]);
        let other = lab.file("other", 128);
        dress::with(&other, "mkfs.ext4", &["-q", "-F"]);
        write_at(&path, 1024, &ends_of(&other).0[1024..2048]);
        let kinds: Vec<String> = signatures::of(&path).unwrap().into_iter().map(|s| s.kind).collect();
        assert!(kinds.contains(&"ext4".into()) && kinds.contains(&"btrfs".into()), "{kinds:?}");
        assert_refused(&path, &erase(&path, &["btrfs"]), "signature: ext4", "--erase-signature ext4");
        assert_refused(&path, &erase(&path, &["ext4"]), "signature: btrfs", "--erase-signature btrfs");
        assert_accepted(&path, &erase(&path, &["btrfs", "ext4"]));
    });
}

#[test]
fn a_member_of_a_group_even_if_confirmed() {
    isolated(|| {
        let lab = Lab::new();
        type Dress = fn(&Path);
        let cases: [(&str, Dress); 3] = [
            ("LVM2_member", dress::as_lvm2),
            ("linux_raid_member", dress::as_raid),
            ("zfs_member", dress::as_zfs),
        ];
        for (kind, dress) in cases {
            let device = lab.device(kind, 64);
            dress(&device.path());
            let reason = format!("part of a group of devices ({kind})");
            let tools = "pvremove, mdadm --zero-superblock, zpool labelclear";
            assert_refused(&device.path(), &erase(&device.path(), &[]), &reason, tools);
            assert_refused(&device.path(), &erase(&device.path(), &[kind]), &reason, tools);
        }
    });
}

#[test]
fn mounted() {
    isolated(|| {
        let lab = Lab::new();
        // The device number that btrfs shows in mountinfo is not the device's.
        for (kind, mkfs) in [("ext4", "mkfs.ext4"), ("btrfs", "mkfs.btrfs")] {
            let device = lab.device(kind, 128);
            dress::with(&device.path(), mkfs, &["-q"]);
            let point = lab.folder(&format!("point of {kind}"));
            let mounted = MountGuard::mount(&device.path(), &point);
            let at = point.display();
            let permission = erase(&device.path(), &[kind]);
            let (reason, remedy) = (format!("it is mounted at {at}"), format!("umount {at}"));
            assert_refused(&device.path(), &permission, &reason, &remedy);
            drop(mounted);
            wait_until("it is free", || Disk::accept(&device.path(), MIN_SIZE, &permission).is_ok());
        }
    });
}

#[test]
fn mounted_in_another_namespace() {
    isolated(|| {
        let lab = Lab::new();
        let device = lab.device("disk", 64);
        let path = device.path();
        dress::with(&path, "mkfs.ext4", &["-q"]);
        let point = lab.folder("point");
        let script = "mount -i -n \"$0\" \"$1\" && echo ready && exec sleep 60";
        let elsewhere = Background::start(true, script, &[&path, &point]);
        let at = format!("it is mounted at {} in the mount namespace of process", point.display());
        assert_refused(&path, &erase(&path, &["ext4"]), &at, "nsenter --mount --target");
        drop(elsewhere);
        wait_until("it is free", || Disk::accept(&path, MIN_SIZE, &erase(&path, &["ext4"])).is_ok());
    });
}

/// Swap that is switched off again.
struct Swap(PathBuf);

impl Drop for Swap {
    fn drop(&mut self) {
        let path = self.0.display().to_string();
        let _ = fstrial_stack::command::Program::new("swapoff").args([path]).run();
    }
}

#[test]
fn in_use_as_swap() {
    isolated(|| {
        let lab = Lab::new();
        let device = lab.device("disk", 16);
        let path = device.path();
        dress::with(&path, "mkswap", &["-q"]);
        // The lowest priority, so that no system swaps memory to it.
        let on = fstrial_stack::command::Program::new("swapon")
            .args(["--priority", "0", path.to_str().unwrap()])
            .run();
        let swap = Swap(path.clone());
        if let Err(error) = on {
            return skip("disk::in_use_as_swap", &error.to_string());
        }
        let remedy = format!("swapoff {}", path.display());
        assert_refused(&path, &erase(&path, &["swap"]), "it is in use as swap", &remedy);
        drop(swap);
        assert_accepted(&path, &erase(&path, &["swap"]));
    });
}

#[test]
fn read_only() {
    isolated(|| {
        let lab = Lab::new();
        let device = lab.device("disk", 8);
        let path = device.path();
        run("blockdev", &["--setro", path.to_str().unwrap()]);
        assert_refused(&path, &erase(&path, &[]), "it is read-only", "blockdev --setrw");
        run("blockdev", &["--setrw", path.to_str().unwrap()]);
        assert_accepted(&path, &erase(&path, &[]));
    });
}

#[test]
fn too_small() {
    isolated(|| {
        let lab = Lab::new();
        let device = lab.device("disk", 8);
        let path = device.path();
        let (reason, hint) = refusal(Disk::accept(&path, Bytes::mib(9), &erase(&path, &[])), &path);
        assert_eq!(reason, "it is too small: 8 MiB, and 9 MiB are needed");
        assert!(hint.contains("larger device"), "{hint}");
        assert!(Disk::accept(&path, Bytes::mib(8), &erase(&path, &[])).is_ok());
    });
}

/// Refused because of a process that has it open by this redirection, for so many seconds.
fn assert_refused_while_open(path: &Path, redirected: &str, seconds: u32) {
    let script = format!("exec {redirected}\"$0\"; echo ready; exec sleep {seconds}");
    let opener = Background::start(false, &script, &[path]);
    let reason = format!("process {} (sleep) has it open", opener.pid());
    wait_until("it is called sleep", || {
        fs::read_to_string(format!("/proc/{}/comm", opener.pid())).is_ok_and(|name| name == "sleep\n")
    });
    assert_refused(path, &erase(path, &[]), &reason, "end that process first");
}

#[test]
fn open_in_another_process() {
    isolated(|| {
        let lab = Lab::new();
        let device = lab.device("disk", 8);
        let path = device.path();
        for redirected in ["3<", "3>>"] {
            assert_refused_while_open(&path, redirected, 60);
        }
        assert_accepted(&path, &erase(&path, &[]));
    });
}

/// As by `mkfs.btrfs` on another device, and by udev.
#[test]
fn open_for_a_moment() {
    isolated(|| {
        let lab = Lab::new();
        let device = lab.device("disk", 8);
        let path = device.path();
        let began = Instant::now();
        let _glance = Background::start(false, "exec 3<\"$0\"; echo ready; exec sleep 1", &[&path]);
        assert_accepted(&path, &erase(&path, &[]));
        assert!(began.elapsed() > Duration::from_secs(1), "nobody was waited for");
        // Data written between the check and mkfs would be erased.
        for redirected in ["3<>", "3>>"] {
            assert_refused_while_open(&path, redirected, 1);
        }
    });
}

#[test]
fn held_exclusively() {
    isolated(|| {
        let lab = Lab::new();
        let device = lab.device("disk", 8);
        let path = device.path();
        let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
        let held = rustix::fs::open(&path, flags, Mode::empty()).unwrap();
        assert_refused(&path, &erase(&path, &[]), "it is held exclusively", "lsblk and fuser");
        drop(held);
        assert_accepted(&path, &erase(&path, &[]));
    });
}

/// Attaches other files until one gets a device's number.
fn take_the_name_of(lab: &Lab, path: &Path) -> Option<LoopDevice> {
    let mut in_the_way = Vec::new();
    for number in 0..20 {
        let other = lab.device(&format!("other {number}"), 8);
        if other.path() == path {
            return Some(other);
        }
        in_the_way.push(other);
    }
    None
}

#[test]
fn another_device_takes_the_name() {
    isolated(|| {
        let lab = Lab::new();
        for attempt in 0..5 {
            let first = lab.device(&format!("disk {attempt}"), 8);
            let identity = Identity::of(&first.path()).unwrap();
            assert!(identity.diskseq.is_some(), "this kernel numbers its disks");
            identity.verify().unwrap();
            let path = first.path();
            first.close();
            assert!(identity.verify().is_err(), "it is gone");
            let Some(_other) = take_the_name_of(&lab, &path) else { continue };
            for error in [identity.verify().unwrap_err(), identity.recheck(std::process::id()).unwrap_err()] {
                assert!(error.to_string().contains("another device has taken its name"), "{error}");
                assert!(error.hint().unwrap().contains("start again"));
            }
            return;
        }
        panic!("five times somebody else took the number");
    });
}

#[test]
fn recheck_allows_only_the_coordinator() {
    isolated(|| {
        let lab = Lab::new();
        let device = lab.device("disk", 8);
        let identity = Identity::of(&device.path()).unwrap();
        identity.recheck(std::process::id()).unwrap();
        let opener = Background::start(false, "exec 3<\"$0\"; echo ready; exec sleep 60", &[&device.path()]);
        let error = identity.recheck(std::process::id()).unwrap_err();
        assert!(error.to_string().contains(&format!("process {} ", opener.pid())), "{error}");
        // We have it open ourselves.
        let error = identity.recheck(opener.pid()).unwrap_err();
        assert!(error.to_string().contains(&format!("process {} ", std::process::id())), "{error}");
        drop(opener);
        identity.recheck(std::process::id()).unwrap();
    });
}

#[test]
fn a_blank_device_is_used_and_left_blank() {
    isolated(|| {
        let lab = Lab::new();
        let device = lab.device("disk", 64);
        let path = device.path();
        let disk: Box<dyn Device> = Box::new(Disk::accept(&path, MIN_SIZE, &erase(&path, &[])).unwrap());
        assert!(disk.describe().contains("64 MiB, erased by every run"), "{}", disk.describe());
        let arm = arm("ext4");
        let binding = disk.binding(&arm);
        let DeviceBinding::Disk { path: bound, size, .. } = &binding else { panic!("{binding:?}") };
        assert_eq!((bound, *size), (&path, Bytes::mib(64)));
        let mut attached = AttachedDevices::attach(&binding, &arm, std::process::id(), &lab.ledger).unwrap();
        let printed = attached.make(arm.checked().unwrap()).unwrap();
        let point = lab.folder("point");
        let _guard = MountGuard::of(&point);
        let ready_arm = attached.mount(arm.checked().unwrap(), &printed, &point).map_err(|(_, e)| e).unwrap();
        assert!(!disk.is_released().unwrap(), "it is mounted");
        let error = Disk::accept(&path, MIN_SIZE, &erase(&path, &["ext4"])).unwrap_err();
        assert!(error.to_string().contains("mounted"), "{error}");
        ready_arm.unmount().unwrap().unwrap().detach().unwrap();
        wait_until("it is released", || disk.is_released().unwrap());
        assert_eq!(signatures::of(&path).unwrap()[0].kind, "ext4");
        disk.close().unwrap();
        assert_eq!(signatures::of(&path).unwrap(), []);
        assert!(lab.entries().len() == 1, "the removal of the test's own loop device");
        assert_accepted(&path, &erase(&path, &[]));
    });
}

#[test]
fn mounted_disk_is_not_wiped_on_close() {
    isolated(|| {
        let lab = Lab::new();
        let device = lab.device("disk", 64);
        let path = device.path();
        let disk = Box::new(Disk::accept(&path, MIN_SIZE, &erase(&path, &[])).unwrap());
        dress::with(&path, "mkfs.ext4", &["-q"]);
        let point = lab.folder("point");
        let _mounted = MountGuard::mount(&path, &point);
        let error = disk.close().unwrap_err();
        assert!(error.to_string().contains("it is mounted at"), "{error}");
        assert_eq!(signatures::of(&path).unwrap()[0].kind, "ext4");
    });
}

#[test]
fn names_of_tests_are_found() {
    assert_eq!(name_of(&|| ()), "disk::names_of_tests_are_found");
}
