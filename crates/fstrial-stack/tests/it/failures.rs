//! A failure at each step: the error names the step and the reason, and everything set up before is removed.

use crate::support::{
    Lab, MountGuard, arm, assert_torn_down, attach, isolated, loop_binding, wait_until, write_at,
};
use fstrial_model::arm::Arm;
use fstrial_stack::{
    StackError,
    device::{Device, image::Image},
    mounts,
    stack::AttachedDevices,
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Options that mkfs refuses.
#[test]
fn mkfs_refuses_an_option() {
    isolated(|| {
        let lab = Lab::new();
        let image = lab.image(64);
        for (text, words) in [
            ("ext4:-O nonsense,scheduler=mq-deadline", "nonsense"),
            ("xfs:agcount=0,read_ahead=64KiB", "agcount"),
            ("btrfs:-O nonsense,cache=write-through", "nonsense"),
        ] {
            let requested = arm(text);
            let (mut attached, _) = attach(&image, &requested, &lab);
            let device = attached.path().to_owned();
            let error = attached.make(requested.checked().unwrap()).unwrap_err();
            assert!(matches!(error, StackError::Command { .. }), "{error:?}");
            assert!(error.to_string().contains(words), "{error}");
            assert!(error.hint().unwrap().contains("manual page"), "{error}");
            attached.detach().unwrap();
            assert_torn_down(&image, &device, &lab);
        }
    });
}

#[test]
fn mount_refuses_an_option() {
    isolated(|| {
        let lab = Lab::new();
        let image = lab.image(320);
        for text in ["ext4:nonsense,read_ahead=64KiB", "btrfs:nonsense", "xfs:nobarrier"] {
            let requested = arm(text);
            let (mut attached, _) = attach(&image, &requested, &lab);
            let device = attached.path().to_owned();
            let printed = attached.make(requested.checked().unwrap()).unwrap();
            let point = lab.path("point");
            fs::create_dir_all(&point).unwrap();
            let _guard = MountGuard::of(&point);
            let Err((attached, error)) = attached.mount(requested.checked().unwrap(), &printed, &point)
            else {
                panic!("{text} was mounted");
            };
            let bad = if text.contains("nonsense") { "nonsense" } else { "nobarrier" };
            let refused = format!("the kernel refuses the mount option `{bad}`");
            assert!(error.to_string().contains(&refused), "{error}");
            let hint = error.hint().unwrap();
            assert!(hint.contains("manual page") || hint.contains("did you mean"), "{hint}");
            assert!(mounts::at(&point).is_err());
            attached.detach().unwrap();
            assert_torn_down(&image, &device, &lab);
        }
    });
}

#[test]
fn missing_mount_point_is_refused() {
    isolated(|| {
        let lab = Lab::new();
        let image = lab.image(64);
        let requested = arm("ext4");
        let (mut attached, _) = attach(&image, &requested, &lab);
        let device = attached.path().to_owned();
        let printed = attached.make(requested.checked().unwrap()).unwrap();
        let (attached, error) =
            attached.mount(requested.checked().unwrap(), &printed, &lab.path("nowhere")).unwrap_err();
        assert!(error.to_string().contains("does not exist"), "{error}");
        attached.detach().unwrap();
        assert_torn_down(&image, &device, &lab);
    });
}

#[test]
fn unsupported_kernel_settings_are_refused() {
    isolated(|| {
        let lab = Lab::new();
        let image = lab.image(16);
        for (text, what, hint) in [
            ("raw:cache=write-through,scheduler=nonsense", "no scheduler `nonsense`", "use one of none"),
            // A value below one page becomes zero; the settings changed before are restored.
            ("raw:scheduler=mq-deadline,read_ahead=1KiB", "still reads `0`", "leave the setting out"),
        ] {
            let requested = arm(text);
            let error = AttachedDevices::attach(
                &image.binding(&requested),
                &requested,
                std::process::id(),
                &lab.ledger,
            )
            .unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
            assert!(error.hint().unwrap().contains(hint), "{error}: {:?}", error.hint());
            assert!(lab.entries().is_empty(), "{:?}", lab.entries());
            wait_until("it is released", || image.is_released().unwrap());
        }
    });
}

#[test]
fn missing_image_is_refused() {
    isolated(|| {
        let lab = Lab::new();
        let requested = arm("raw");
        let attach = |file: PathBuf| {
            AttachedDevices::attach(&loop_binding(&file, 8), &requested, std::process::id(), &lab.ledger)
                .unwrap_err()
        };
        let error = attach(lab.path("gone"));
        assert!(error.to_string().starts_with("could not open the image"), "{error}");
        let error = attach(PathBuf::from("/dev/null"));
        assert!(error.to_string().starts_with("could not attach a file to /dev/loop"), "{error}");
        assert!(lab.entries().is_empty(), "{:?}", lab.entries());
    });
}

#[test]
fn unavailable_filesystem_is_refused() {
    isolated(|| {
        let lab = Lab::new();
        let image = lab.image(16);
        for name in ["nilfs2", "reiserfs", "jfs"] {
            let requested = arm(name);
            let row = requested.row().unwrap();
            if fstrial_stack::host::kernel_lists(row).unwrap()
                && fstrial_stack::command::find(row.mkfs).is_some()
            {
                continue;
            }
            let (mut attached, _) = attach(&image, &requested, &lab);
            let device = attached.path().to_owned();
            let error = attached.make(requested.checked().unwrap()).unwrap_err();
            let missing =
                matches!(error, StackError::UnknownToKernel { .. } | StackError::MissingProgram { .. });
            assert!(missing, "{error}");
            assert!(error.hint().unwrap().contains(row.packages[0]) || error.hint().unwrap().contains(name));
            attached.detach().unwrap();
            assert_torn_down(&image, &device, &lab);
        }
    });
}

/// Makes a filesystem with some files, damages it, and returns the result of the check.
fn damaged(lab: &Lab, image: &Image, requested: &Arm, damage: impl FnOnce(&Path)) -> StackError {
    let (mut attached, _) = attach(image, requested, lab);
    let device = attached.path().to_owned();
    let printed = attached.make(requested.checked().unwrap()).unwrap();
    let point = lab.folder(&format!("point of {}", requested.name));
    let guard = MountGuard::of(&point);
    let ready_arm =
        attached.mount(requested.checked().unwrap(), &printed, &point).map_err(|(_, e)| e).unwrap();
    for number in 0..200 {
        fs::write(point.join(format!("file {number}")), [7; 5000]).unwrap();
    }
    ready_arm.settle().unwrap();
    let mut attached = ready_arm.unmount().unwrap().unwrap();
    attached.check(requested).unwrap();
    damage(&device);
    let error = attached.check(requested).unwrap_err();
    attached.detach().unwrap();
    drop(guard);
    assert_torn_down(image, &device, lab);
    error
}

#[track_caller]
fn assert_corrupt(error: &StackError, program: &str) {
    let StackError::Corrupt { line, last_lines } = error else { panic!("not corrupt: {error}") };
    assert!(line.starts_with(program), "{line}");
    assert!(!last_lines.is_empty());
    assert!(error.hint().unwrap().contains("with itself"));
}

/// The blocks of the btrfs file tree: filesystem id at byte 32, owner 5 at byte 88 (`struct btrfs_header`).
fn blocks_of_the_file_tree(device: &Path) -> Vec<u64> {
    const BLOCK: usize = 16 << 10;
    let whole = fs::read(device).unwrap();
    let id = &whole[(64 << 10) + 32..(64 << 10) + 48];
    whole
        .chunks_exact(BLOCK)
        .enumerate()
        .filter(|(_, block)| &block[32..48] == id && block[88..96] == 5_u64.to_le_bytes())
        .map(|(number, _)| (number * BLOCK) as u64)
        .collect()
}

#[test]
fn damage_is_found_by_the_check() {
    isolated(|| {
        let lab = Lab::new();
        let image = lab.image(320);
        // Group descriptors, bitmaps and the first inode table, after the superblock.
        let error = damaged(&lab, &image, &arm("ext4"), |device| write_at(device, 4096, &[0x5A; 1 << 20]));
        assert_corrupt(&error, "e2fsck -f -n");
        // The trees of the first allocation group, after its headers.
        let error =
            damaged(&lab, &image, &arm("xfs"), |device| write_at(device, 16 << 10, &[0x5A; 64 << 10]));
        assert_corrupt(&error, "xfs_repair -n");
        let error = damaged(&lab, &image, &arm("btrfs"), |device| {
            let blocks = blocks_of_the_file_tree(device);
            assert!(blocks.len() >= 2, "both copies: {blocks:?}");
            for block in blocks {
                write_at(device, block + 200, &[0x5A; 64]);
            }
        });
        assert_corrupt(&error, "btrfs check --readonly");
    });
}

#[test]
fn a_busy_mount_is_an_error() {
    isolated(|| {
        let lab = Lab::new();
        let image = lab.image(64);
        let requested = arm("ext4");
        let (mut attached, _) = attach(&image, &requested, &lab);
        let device = attached.path().to_owned();
        let printed = attached.make(requested.checked().unwrap()).unwrap();
        let point = lab.folder("point");
        let guard = MountGuard::of(&point);
        let ready_arm =
            attached.mount(requested.checked().unwrap(), &printed, &point).map_err(|(_, e)| e).unwrap();
        let open = fs::File::create(point.join("file")).unwrap();
        let error = ready_arm.unmount().unwrap_err();
        assert!(error.to_string().starts_with("could not unmount"), "{error}");
        assert!(error.hint().unwrap().contains("fuser"), "{error}");
        // The loop device could not go; its removal is still written down and works once it can.
        assert_eq!(lab.entries().len(), 1);
        drop((open, guard));
        wait_until("it is released", || image.is_released().unwrap());
        assert!(lab.ledger.replay().unwrap().done.iter().all(|step| step.result.is_ok()));
        assert_torn_down(&image, &device, &lab);
    });
}
