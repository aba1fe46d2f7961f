//! Directory arms: our own folder in the user's directory, and nothing else. No root needed.

use crate::support::{Lab, arm};
use fstrial_model::{facts::Fact, job::DeviceBinding};
use fstrial_stack::{
    device::{Device, directory::Directory},
    named::FOLDER_PREFIX,
    stack::{ArmTarget, ReadyArm},
};
use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

fn folder_of(ready_arm: &ReadyArm) -> PathBuf {
    match ready_arm.target() {
        // As root it is the path of a descriptor.
        ArmTarget::Directory(folder) => fs::canonicalize(folder).unwrap(),
        ArmTarget::BlockDevice(device) => panic!("{}", device.display()),
    }
}

#[test]
fn a_folder_is_made_and_removed() {
    let lab = Lab::new();
    let parent = lab.folder("parent");
    fs::write(parent.join("precious"), "mine").unwrap();
    let arm = arm(&format!("dir:{}", parent.display()));
    assert_eq!(Directory.binding(&arm), DeviceBinding::Directory { path: parent.clone() });
    let ready_arm = ReadyArm::in_directory(&parent, &arm, &lab.ledger).unwrap();
    let folder = folder_of(&ready_arm);
    assert_eq!(folder.parent(), Some(fs::canonicalize(&parent).unwrap().as_path()));
    assert!(folder.file_name().unwrap().to_str().unwrap().starts_with(FOLDER_PREFIX));
    assert_eq!(lab.entries().len(), 1);
    fs::create_dir_all(folder.join("deep/er")).unwrap();
    fs::write(folder.join("deep/er/file"), [7; 10_000]).unwrap();
    // A link that leads out of it is deleted, its target is not.
    std::os::unix::fs::symlink(parent.join("precious"), folder.join("link")).unwrap();
    std::os::unix::fs::symlink(&parent, folder.join("deep/link")).unwrap();
    ready_arm.settle().unwrap();
    assert!(ready_arm.space_left().0 > 0);
    assert!(ready_arm.facts().facts.contains_key(&Fact::BlockSize), "{:?}", ready_arm.facts());
    assert!(!ready_arm.facts().facts.contains_key(&Fact::LazyInitialisation));
    assert!(ready_arm.unmount().unwrap().is_none());
    assert!(!folder.exists() && lab.entries().is_empty());
    assert_eq!(fs::read_to_string(parent.join("precious")).unwrap(), "mine");
}

#[test]
fn replay_removes_folder_of_dead_worker() {
    let lab = Lab::new();
    let parent = lab.folder("parent");
    let arm = arm(&format!("dir:{}", parent.display()));
    let ready_arm = ReadyArm::in_directory(&parent, &arm, &lab.ledger).unwrap();
    let folder = folder_of(&ready_arm);
    fs::write(folder.join("file"), "left").unwrap();
    drop(ready_arm);
    assert!(folder.exists());
    let replayed = lab.ledger.replay().unwrap().done;
    assert!(replayed.len() == 1 && replayed[0].result.is_ok(), "{replayed:?}");
    assert!(!folder.exists() && lab.entries().is_empty());
    assert!(parent.exists());
}

#[test]
fn missing_or_non_directory_parent_is_refused() {
    let lab = Lab::new();
    let file = lab.file("file", 1);
    for (parent, what) in [(file, "Not a directory"), (lab.path("nowhere"), "No such file")] {
        let arm = arm(&format!("dir:{}", parent.display()));
        let error = ReadyArm::in_directory(&parent, &arm, &lab.ledger).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
        assert!(error.to_string().contains(&parent.display().to_string()), "{error}");
        assert!(lab.entries().is_empty());
    }
}

#[test]
fn unwritable_parent_is_refused() {
    let lab = Lab::new();
    let parent = lab.folder("parent");
    fs::set_permissions(&parent, fs::Permissions::from_mode(0o555)).unwrap();
    let arm = arm(&format!("dir:{}", parent.display()));
    let result = if fstrial_stack::host::is_root() {
        // Root may write everywhere except where the kernel refuses it: in /proc.
        let parent = PathBuf::from("/proc/self");
        ReadyArm::in_directory(&parent, &arm, &lab.ledger)
    } else {
        ReadyArm::in_directory(&parent, &arm, &lab.ledger)
    };
    let Err(error) = result else { panic!("it was written to") };
    assert!(error.to_string().starts_with("could not make the folder"), "{error}");
    if !fstrial_stack::host::is_root() {
        assert!(error.hint().unwrap().contains("run as root"), "{error}");
    }
    assert!(lab.entries().is_empty());
}

#[test]
fn a_parent_on_a_read_only_filesystem() {
    crate::support::isolated(|| {
        let lab = Lab::new();
        let device = lab.device("disk", 16);
        crate::dress::with(&device.path(), "mkfs.ext4", &["-q"]);
        let point = lab.folder("point");
        let _mounted = crate::support::MountGuard::mount(&device.path(), &point);
        crate::support::run("mount", &["-i", "-n", "-o", "remount,ro", point.to_str().unwrap()]);
        let arm = arm(&format!("dir:{}", point.display()));
        let before = lab.entries().len();
        let error = ReadyArm::in_directory(&point, &arm, &lab.ledger).unwrap_err();
        assert!(error.to_string().contains("Read-only file system"), "{error}");
        assert!(error.hint().unwrap().contains("another folder"), "{error}");
        assert_eq!(lab.entries().len(), before);
    });
}
