//! Builds every filesystem that this machine supports as a run does, checks the facts, and takes it down again.

use crate::support::{Lab, MountGuard, arm, assert_torn_down, attach, isolated, skip};
use fstrial_model::facts::{ArmFacts, DataUpdate, Durability, Fact};
use fstrial_stack::{
    device::image::Image,
    mounts,
    stack::{ArmTarget, ReadyArm},
};
use std::fs;

/// Builds an arm, uses it, takes it down, and returns its facts.
fn cycle(lab: &Lab, image: &Image, text: &str) -> ArmFacts {
    let arm = arm(text);
    let (mut attached, _) = attach(image, &arm, lab);
    let device = attached.path().to_owned();
    let printed = attached.make(arm.checked().unwrap()).unwrap_or_else(|e| panic!("{text}: {e}"));
    let point = lab.path("point");
    fs::create_dir_all(&point).unwrap();
    let guard = MountGuard::of(&point);
    let ready_arm = attached
        .mount(arm.checked().unwrap(), &printed, &point)
        .map_err(|(_, e)| e)
        .unwrap_or_else(|e| panic!("{text}: {e}"));
    assert_eq!(ready_arm.target(), &ArmTarget::Directory(point.clone()));
    assert_eq!(mounts::at(&point).unwrap().source, device.display().to_string());
    assert!(ready_arm.space_left().0 > 16 << 20, "{:?}", ready_arm.space_left());
    let commands = ready_arm.commands();
    assert!(commands.len() == 2 && commands[0].starts_with("mkfs.") && commands[1].starts_with("mount "));
    fs::write(point.join("file"), vec![7; 1 << 20]).unwrap();
    ready_arm.settle().unwrap();
    assert_eq!(fs::read(point.join("file")).unwrap(), vec![7; 1 << 20]);
    let facts = ready_arm.facts().clone();
    let mut attached = ready_arm.unmount().unwrap().expect("it has a device");
    assert!(mounts::at(&point).is_err());
    attached.check(&arm).unwrap_or_else(|e| panic!("{text}: {e}"));
    assert!(attached.commands().len() == 3, "{:?}", attached.commands());
    attached.detach().unwrap();
    drop(guard);
    assert_torn_down(image, &device, lab);
    let tool = facts.tools.values().next().expect("mkfs reports its version");
    assert!(tool.chars().any(|c| c.is_ascii_digit()), "{tool}");
    facts
}

#[track_caller]
fn assert_facts(facts: &ArmFacts, wanted: &[(Fact, &str)]) {
    for (fact, text) in wanted {
        let result = facts.facts.get(fact).map(String::as_str);
        assert_eq!(result, Some(*text), "{} of {:#?}", fact.name(), facts.facts);
    }
}

const SOUND: Durability = Durability {
    flushes: true,
    crash_consistent: true,
    no_stale_data: true,
    data: DataUpdate::InPlace,
    volatile_cache: true,
};
const COPIED: Durability = Durability { data: DataUpdate::CopyOnWrite, ..SOUND };

/// The facts that every arm reports and that are independent of its queue.
const USUAL: [(Fact, &str); 6] = [
    (Fact::Discard, "off (switched off at the device, in every arm)"),
    (Fact::Scheduler, "none"),
    (Fact::CacheMode, "write back"),
    (Fact::CachesDropped, "yes"),
    (Fact::Atime, "relatime"),
    (Fact::Barriers, "on"),
];

#[test]
fn ext4() {
    isolated(|| {
        let lab = Lab::new();
        let image = lab.image(128);
        let plain = cycle(&lab, &image, "ext4:-b 1024");
        assert_facts(&plain, &USUAL);
        assert_facts(
            &plain,
            &[
                (Fact::Journal, "metadata (data=ordered)"),
                (Fact::CopyOnWrite, "no: data is overwritten in place"),
                (Fact::Checksums, "metadata"),
                (Fact::Compression, "none"),
                (Fact::LazyInitialisation, "inode tables and journal written by mkfs"),
                (Fact::BlockSize, "1 KiB"),
            ],
        );
        assert_eq!(plain.durability, SOUND);
        assert!(
            plain.facts.contains_key(&Fact::SpaceAvailable) && plain.facts.contains_key(&Fact::ReadAhead)
        );
        for text in ["ext4:nobarrier", "ext4:barrier=0"] {
            let facts = cycle(&lab, &image, text);
            assert_facts(&facts, &[(Fact::Barriers, "OFF")]);
            assert_eq!(facts.durability, Durability { flushes: false, ..SOUND });
        }
        let facts = cycle(&lab, &image, "ext4:data=journal");
        assert_facts(&facts, &[(Fact::Journal, "metadata and data (data=journal)")]);
        assert_facts(&facts, &[(Fact::CopyOnWrite, "no: data goes through the journal")]);
        assert_eq!(facts.durability, Durability { data: DataUpdate::Journalled, ..SOUND });
        let facts = cycle(&lab, &image, "ext4:data=writeback");
        assert_facts(&facts, &[(Fact::Journal, "metadata (data=writeback)")]);
        assert_eq!(facts.durability, Durability { no_stale_data: false, ..SOUND });
        let facts = cycle(&lab, &image, "ext4:-O ^has_journal");
        assert_facts(&facts, &[(Fact::Journal, "none"), (Fact::Checksums, "metadata")]);
        let unsafe_ = Durability { crash_consistent: false, no_stale_data: false, ..SOUND };
        assert_eq!(facts.durability, unsafe_);
    });
}

#[test]
fn ext4_options() {
    isolated(|| {
        let lab = Lab::new();
        let image = lab.image(128);
        let facts = cycle(&lab, &image, "ext4:-O ^metadata_csum");
        assert_facts(&facts, &[(Fact::Checksums, "none")]);
        let facts = cycle(&lab, &image, "ext4:noatime,lazytime");
        assert_facts(&facts, &[(Fact::Atime, "noatime, lazytime")]);
        let options = &facts.facts[&Fact::MountOptions];
        assert!(options.split(',').any(|option| option == "noatime"), "{options}");
        let facts = cycle(&lab, &image, "ext4:strictatime,-b 4096");
        assert_facts(&facts, &[(Fact::Atime, "strictatime"), (Fact::BlockSize, "4 KiB")]);
        let facts = cycle(&lab, &image, "ext4:discard");
        let discard = &facts.facts[&Fact::Discard];
        assert_eq!(discard, "requested (discard), switched off at the device to keep the image allocated");
    });
}

#[test]
fn ext2_and_ext3() {
    isolated(|| {
        let lab = Lab::new();
        let image = lab.image(128);
        let facts = cycle(&lab, &image, "ext3");
        assert_facts(&facts, &USUAL);
        assert_facts(&facts, &[(Fact::Journal, "metadata (data=ordered)"), (Fact::Checksums, "none")]);
        assert_eq!(facts.durability, SOUND);
        let facts = cycle(&lab, &image, "ext2");
        assert_facts(&facts, &USUAL);
        assert_facts(&facts, &[(Fact::Journal, "none"), (Fact::Checksums, "none")]);
        let unsafe_ = Durability { crash_consistent: false, no_stale_data: false, ..SOUND };
        assert_eq!(facts.durability, unsafe_);
    });
}

#[test]
fn xfs() {
    isolated(|| {
        let lab = Lab::new();
        let image = lab.image(320);
        let plain = cycle(&lab, &image, "xfs");
        assert_facts(&plain, &USUAL);
        assert_facts(
            &plain,
            &[
                (Fact::Journal, "metadata"),
                (Fact::BlockSize, "4 KiB"),
                (Fact::CopyOnWrite, "no: data is overwritten in place"),
                (Fact::Checksums, "metadata"),
            ],
        );
        assert_eq!(plain.durability, SOUND);
        let facts = cycle(&lab, &image, "xfs:noatime,agcount=2");
        assert_facts(&facts, &[(Fact::Atime, "noatime")]);
    });
}

#[test]
fn xfs_without_checksums() {
    isolated(|| {
        let lab = Lab::new();
        let image = lab.image(320);
        let arm = arm("xfs:crc=0");
        let (mut attached, _) = attach(&image, &arm, &lab);
        if let Err(error) = attached.make(arm.checked().unwrap()) {
            skip(
                "facts::xfs_without_checksums",
                &format!("mkfs.xfs does not support V4 filesystems: {error}"),
            );
            return attached.detach().unwrap();
        }
        let printed = attached.make(arm.checked().unwrap()).unwrap();
        let point = lab.folder("point");
        let _guard = MountGuard::of(&point);
        match attached.mount(arm.checked().unwrap(), &printed, &point) {
            Ok(ready_arm) => {
                assert_facts(ready_arm.facts(), &[(Fact::Checksums, "none")]);
                ready_arm.unmount().unwrap().unwrap().detach().unwrap();
            }
            Err((attached, error)) => {
                let reason = error.to_string().lines().next().unwrap_or_default().to_owned();
                skip(
                    "facts::xfs_without_checksums",
                    &format!("this kernel does not support V4 filesystems: {reason}"),
                );
                attached.detach().unwrap();
            }
        }
    });
}

#[test]
fn btrfs() {
    isolated(|| {
        let lab = Lab::new();
        let image = lab.image(256);
        let plain = cycle(&lab, &image, "btrfs");
        assert_facts(&plain, &USUAL);
        assert_facts(
            &plain,
            &[
                (
                    Fact::Journal,
                    "copy-on-write trees and a log tree for syncs, each block of them written twice (DUP)",
                ),
                (Fact::BlockSize, "4 KiB"),
                (Fact::CopyOnWrite, "yes"),
                (Fact::Checksums, "metadata and data"),
                (Fact::Compression, "none"),
            ],
        );
        assert_eq!(plain.durability, COPIED);
        // btrfs takes `ssd` from the rotational flag of the device, and has its own read-ahead.
        for (item, rotates, taken) in [("on", "yes", "none"), ("off", "no", "ssd")] {
            let facts = cycle(&lab, &image, &format!("btrfs:rotational={item}"));
            assert_facts(&facts, &[(Fact::Rotational, rotates), (Fact::DeviceOptions, taken)]);
            assert_facts(&facts, &[(Fact::ReadAhead, "4 MiB")]);
            assert_eq!(facts.queue["rotational"], if rotates == "yes" { "1" } else { "0" });
            assert!(facts.queue.contains_key("max_sectors_kb"), "{:?}", facts.queue);
        }
        let facts = cycle(&lab, &image, "btrfs:read_ahead=192KiB,ssd,rotational=on");
        assert_facts(&facts, &[(Fact::ReadAhead, "192 KiB"), (Fact::DeviceOptions, "ssd")]);
        let facts = cycle(&lab, &image, "btrfs:nodatacow");
        assert_facts(&facts, &[(Fact::CopyOnWrite, "no: data is overwritten in place")]);
        assert_facts(&facts, &[(Fact::Checksums, "metadata")]);
        assert_eq!(facts.durability.data, DataUpdate::InPlace);
        let facts = cycle(&lab, &image, "btrfs:nodatasum");
        assert_facts(&facts, &[(Fact::CopyOnWrite, "yes"), (Fact::Checksums, "metadata")]);
        let facts = cycle(&lab, &image, "btrfs:nobarrier");
        assert_facts(&facts, &[(Fact::Barriers, "OFF")]);
        assert_eq!(facts.durability, Durability { flushes: false, ..COPIED });
        for (text, wanted) in
            [("btrfs:compress=zstd", "compress=zstd:3"), ("btrfs:compress-force=lzo", "compress-force=lzo")]
        {
            let facts = cycle(&lab, &image, text);
            assert_facts(&facts, &[(Fact::Compression, wanted), (Fact::CopyOnWrite, "yes")]);
        }
        let facts = cycle(&lab, &image, "btrfs:discard=async");
        assert!(facts.facts[&Fact::Discard].contains("switched off at the device"), "{:?}", facts.facts);
    });
}

#[test]
fn a_write_through_cache_is_not_volatile() {
    isolated(|| {
        let lab = Lab::new();
        let image = lab.image(128);
        let facts = cycle(&lab, &image, "ext4:cache=write-through");
        assert_facts(&facts, &[(Fact::CacheMode, "write through"), (Fact::Barriers, "on")]);
        assert_eq!(facts.durability, Durability { volatile_cache: false, ..SOUND });
    });
}

#[test]
fn the_bare_device() {
    isolated(|| {
        let lab = Lab::new();
        let image = lab.image(16);
        let arm = arm("raw:scheduler=mq-deadline");
        let (mut attached, _) = attach(&image, &arm, &lab);
        let device = attached.path().to_owned();
        assert_eq!(attached.make(arm.checked().unwrap()).unwrap(), "");
        let ready_arm =
            attached.mount(arm.checked().unwrap(), "", &lab.folder("point")).map_err(|(_, e)| e).unwrap();
        assert_eq!(ready_arm.target(), &ArmTarget::BlockDevice(device.clone()));
        ready_arm.settle().unwrap();
        let wanted = [(Fact::Journal, "none"), (Fact::Barriers, "on"), (Fact::Scheduler, "mq-deadline")];
        assert_facts(ready_arm.facts(), &wanted);
        assert_eq!(ready_arm.facts().durability, SOUND);
        let mut attached = ready_arm.unmount().unwrap().unwrap();
        attached.check(&arm).unwrap();
        attached.detach().unwrap();
        assert_torn_down(&image, &device, &lab);
    });
}

#[test]
fn a_mount_point_behind_a_link() {
    isolated(|| {
        let lab = Lab::new();
        let image = lab.image(64);
        let arm = arm("ext4");
        let (mut attached, _) = attach(&image, &arm, &lab);
        let printed = attached.make(arm.checked().unwrap()).unwrap();
        let device = attached.path().to_owned();
        // As /mnt is on systems with a read-only root.
        fs::create_dir_all(lab.path("var/point")).unwrap();
        std::os::unix::fs::symlink(lab.path("var"), lab.path("link")).unwrap();
        let _guard = MountGuard::of(&lab.path("var/point"));
        let ready_arm = attached
            .mount(arm.checked().unwrap(), &printed, &lab.path("link/point"))
            .map_err(|(_, e)| e)
            .unwrap();
        ready_arm.unmount().unwrap().unwrap().detach().unwrap();
        assert_torn_down(&image, &device, &lab);
    });
}

#[test]
fn a_directory_on_an_unsafe_ext4() {
    isolated(|| {
        let lab = Lab::new();
        let device = lab.device("disk", 64);
        let path = device.path();
        crate::dress::with(&path, "mkfs.ext4", &["-q"]);
        // The superblock's default mount options do not appear among the options of the mount.
        crate::support::run("tune2fs", &["-o", "nobarrier,journal_data_writeback", path.to_str().unwrap()]);
        let point = lab.folder("point");
        let _mounted = MountGuard::mount(&path, &point);
        let arm = arm(&format!("dir:{}", point.display()));
        let ready_arm = ReadyArm::in_directory(&point, &arm, &lab.ledger).unwrap();
        let facts = ready_arm.facts().clone();
        ready_arm.unmount().unwrap();
        assert_facts(&facts, &[(Fact::Journal, "metadata (data=writeback)"), (Fact::Barriers, "OFF")]);
        assert!(!facts.durability.flushes && !facts.durability.no_stale_data);
        assert!(!facts.facts.contains_key(&Fact::LazyInitialisation));
    });
}
