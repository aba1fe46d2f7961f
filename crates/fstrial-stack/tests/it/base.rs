//! Saved devices: the restored bytes equal the saved ones, after any change that a run makes in between.

use crate::support::{Lab, arm, attach, isolated, run, skip, write_at};
use fstrial_model::{state::FreeSpace, units::Bytes};
use fstrial_stack::{
    base::{self, Base},
    device::{Device, image::Image},
    free_space,
    stack::{ArmTarget, AttachedDevices},
};
use std::{
    fs::{self, File},
    io::Read,
    ops::ControlFlow,
    os::unix::fs::MetadataExt,
    path::Path,
};

/// A sum over all of a device or file (FNV-1a by words).
fn sum_of(path: &Path) -> u64 {
    let mut file = File::open(path).unwrap();
    let mut chunk = vec![0_u8; 1 << 20];
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    loop {
        let length = file.read(&mut chunk).unwrap();
        if length == 0 {
            return sum;
        }
        for word in chunk[..length].chunks(8) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            sum = (sum ^ u64::from_le_bytes(bytes)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Ignores progress.
fn quiet(_: Bytes, _: Bytes) {}

#[test]
fn a_device_comes_back_byte_for_byte() {
    isolated(|| {
        let lab = Lab::new();
        let image = lab.image(24);
        let (attached, _) = attach(&image, &arm("raw"), &lab);
        let device = attached.path().to_owned();
        base::blank(&device, &mut quiet).unwrap();
        for (at, length) in [(0, 4096), (5 << 20, 100_000), ((24 << 20) - 512, 512)] {
            write_at(&device, at, &vec![7; length]);
        }
        let wanted = sum_of(&device);
        let kept = Base::make(lab.home.path()).unwrap();
        let mut reported = Vec::new();
        let saved =
            base::save(&device, &kept.path(), &mut |done, total| reported.push((done, total))).unwrap();
        assert_eq!(reported.last(), Some(&(Bytes::mib(24), Bytes::mib(24))));
        // Pieces of 64 KiB: one, two or three, one.
        assert!((4 * 65536..=5 * 65536).contains(&saved.0), "{saved}");
        let result = fs::metadata(kept.path()).unwrap();
        assert_eq!((result.len(), result.nlink()), (24 << 20, 0));
        assert!(result.blocks() * 512 < 2 << 20, "what is zero takes space: {} blocks", result.blocks());
        // A run writes everywhere: into existing data and into free space.
        for at in (0..24 << 20).step_by(1 << 20) {
            write_at(&device, at, &[9; 70_000]);
        }
        assert_ne!(sum_of(&device), wanted);
        base::restore(&kept.path(), &device, false, &mut quiet).unwrap();
        assert_eq!(sum_of(&device), wanted);
        attached.detach().unwrap();
    });
}

#[test]
fn the_image_stays_allocated_and_written() {
    isolated(|| {
        let lab = Lab::new();
        let image = lab.image(16);
        let (attached, _) = attach(&image, &arm("raw"), &lab);
        let kept = Base::make(lab.home.path()).unwrap();
        base::blank(attached.path(), &mut quiet).unwrap();
        base::save(attached.path(), &kept.path(), &mut quiet).unwrap();
        base::restore(&kept.path(), attached.path(), false, &mut quiet).unwrap();
        attached.detach().unwrap();
        let fstrial_model::job::DeviceBinding::Loop { file, .. } = image.binding(&arm("raw")) else {
            panic!("not a loop device")
        };
        assert!(fs::metadata(&file).unwrap().blocks() * 512 >= 16 << 20);
        let map = run("filefrag", &["-v", &file.display().to_string()]).stdout;
        assert!(!map.contains("unwritten") && map.contains("extent"), "{map}");
    });
}

#[test]
fn another_size_is_refused() {
    isolated(|| {
        let lab = Lab::new();
        let (small, large) = (lab.device("small", 8), lab.device("large", 9));
        let kept = Base::make(lab.home.path()).unwrap();
        base::save(&small.path(), &kept.path(), &mut quiet).unwrap();
        let before = sum_of(&large.path());
        let error = base::restore(&kept.path(), &large.path(), false, &mut quiet).unwrap_err();
        assert!(error.to_string().contains("9MiB") && error.to_string().contains("8MiB"), "{error}");
        assert_eq!(sum_of(&large.path()), before);
    });
}

/// Mounts, does something, unmounts.
fn used(
    mut attached: AttachedDevices,
    filesystem: &str,
    point: &Path,
    with: impl FnOnce(&Path),
) -> AttachedDevices {
    let ready_arm = match attached.mount(arm(filesystem).checked().unwrap(), "", point) {
        Ok(ready_arm) => ready_arm,
        Err((_, error)) => panic!("{filesystem}: {error}"),
    };
    let ArmTarget::Directory(folder) = ready_arm.target().clone() else { panic!("a device") };
    with(&folder);
    attached = ready_arm.unmount().unwrap().unwrap();
    attached
}

/// Three runs of each filesystem from one base: each starts from the saved content, after any change by the run before.
#[test]
fn runs_of_a_filesystem_begin_with_the_same_content() {
    isolated(|| {
        let lab = Lab::new();
        let point = lab.home.path().join("point");
        fs::create_dir(&point).unwrap();
        for filesystem in ["ext4", "xfs", "btrfs"] {
            if fstrial_stack::command::find(&format!("mkfs.{filesystem}")).is_none() {
                skip("runs_of_a_filesystem_begin_with_the_same_content", &format!("no mkfs.{filesystem}"));
                continue;
            }
            let image = lab.image(320);
            let (mut attached, _) = attach(&image, &arm(filesystem), &lab);
            let device = attached.path().to_owned();
            base::blank(&device, &mut quiet).unwrap();
            attached.make(arm(filesystem).checked().unwrap()).unwrap();
            attached = used(attached, filesystem, &point, |folder| {
                fs::write(folder.join("old"), vec![1; 5 << 20]).unwrap();
            });
            let kept = Base::make(lab.home.path()).unwrap();
            base::save(&device, &kept.path(), &mut quiet).unwrap();
            let wanted = sum_of(&device);
            match free_space::of(filesystem, &device) {
                FreeSpace::Known { extents, mean, largest, .. } => {
                    assert!(extents > 0 && mean.0 > 0 && largest.0 > mean.0 / 2, "{filesystem}");
                }
                FreeSpace::Unknown(why) => assert!(why.contains("no tool"), "{filesystem}: {why}"),
            }
            for _ in 0..3 {
                base::restore(&kept.path(), &device, false, &mut quiet).unwrap();
                assert_eq!(sum_of(&device), wanted, "{filesystem}");
                base::forget(filesystem, &device);
                attached.check(&arm(filesystem)).unwrap();
                attached = used(attached, filesystem, &point, |folder| {
                    assert_eq!(fs::read(folder.join("old")).unwrap(), vec![1; 5 << 20], "{filesystem}");
                    assert!(!folder.join("new").exists(), "{filesystem}: it is from the run before");
                    fs::remove_file(folder.join("old")).unwrap();
                    fs::write(folder.join("new"), vec![2; 9 << 20]).unwrap();
                });
            }
            attached.detach().unwrap();
        }
    });
}

/// An XFS of the test's own as the host of an image.
#[test]
fn clones_share_blocks_on_reflink_host() {
    isolated(|| {
        let lab = Lab::new();
        let host = lab.device("host", 400);
        run("mkfs.xfs", &["-q", "-m", "reflink=1", &host.path().display().to_string()]);
        let folder = lab.home.path().join("host-folder");
        fs::create_dir(&folder).unwrap();
        run("mount", &[&host.path().display().to_string(), &folder.display().to_string()]);
        {
            let image = Image::make(&folder, Bytes::mib(64), &mut |_, _| ControlFlow::Continue(())).unwrap();
            let binding = image.binding(&arm("raw"));
            let fstrial_model::job::DeviceBinding::Loop { file, .. } = &binding else {
                panic!("no loop device")
            };
            let kept = Base::make(&folder).unwrap();
            let free = || fstrial_stack::host::space_available(&folder).unwrap().0;
            let (wanted, before) = (sum_of(file), free());
            assert_eq!(base::save_clone(&binding, &kept.path()).unwrap(), Bytes::mib(64));
            assert!(before - free() < 4 << 20, "a clone takes no space: {before} {}", free());
            for _ in 0..2 {
                write_at(file, 5 << 20, &vec![3; 9 << 20]);
                assert_ne!(sum_of(file), wanted);
                base::restore_clone(&binding, &kept.path()).unwrap();
                assert_eq!(sum_of(file), wanted);
            }
        }
        run("umount", &[&folder.display().to_string()]);
    });
}

#[test]
fn clone_errors_name_unsupported_host_or_device() {
    isolated(|| {
        let lab = Lab::new();
        let memory = lab.home.path().join("memory");
        fs::create_dir(&memory).unwrap();
        run("mount", &["-t", "tmpfs", "-o", "size=64m", "none", &memory.display().to_string()]);
        let image = lab.image(8);
        // Two filesystems never share blocks.
        let kept = Base::make(&memory).unwrap();
        let error = base::save_clone(&image.binding(&arm("raw")), &kept.path()).unwrap_err();
        assert!(error.to_string().contains("cannot share blocks"), "{error}");
        assert!(error.hint().unwrap().contains("restore = \"copy\""));
        let disk = fstrial_model::job::DeviceBinding::Zram { index: 9999, size: Bytes::mib(8) };
        let error = base::save_clone(&disk, &kept.path()).unwrap_err();
        assert!(error.to_string().contains("not a file"), "{error}");
        drop(kept);
        run("umount", &[&memory.display().to_string()]);
    });
}

#[test]
fn require_space_rejects_insufficient_space() {
    let home = tempfile::tempdir().unwrap();
    base::require_space(home.path(), Bytes(1)).unwrap();
    let error = base::require_space(home.path(), Bytes(u64::MAX / 2)).unwrap_err();
    assert!(error.to_string().contains("need about") && error.to_string().contains("free)"), "{error}");
    assert!(error.hint().unwrap().contains("TMPDIR"));
    assert!(base::require_space(Path::new("/nowhere/at/all"), Bytes(1)).is_err());
}

#[test]
fn saving_base_to_full_folder_fails_with_hint() {
    isolated(|| {
        let lab = Lab::new();
        let memory = lab.home.path().join("memory");
        fs::create_dir(&memory).unwrap();
        run("mount", &["-t", "tmpfs", "-o", "size=1m", "none", &memory.display().to_string()]);
        let image = lab.image(8);
        let (attached, _) = attach(&image, &arm("raw"), &lab);
        let kept = Base::make(&memory).unwrap();
        let error = base::save(attached.path(), &kept.path(), &mut quiet).unwrap_err();
        assert!(error.to_string().contains("could not save the prepared filesystem"), "{error}");
        assert!(error.hint().unwrap().contains("free some space"), "{error}");
        attached.detach().unwrap();
        drop(kept);
        run("umount", &[&memory.display().to_string()]);
    });
}
