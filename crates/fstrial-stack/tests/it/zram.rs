//! zram: our own device is added, used, reset and removed; other devices are not touched.

use crate::support::{Lab, MountGuard, NOBODY, arm, isolated, name_of, skip, wait_until, write_at};
use fstrial_model::{job::DeviceBinding, units::Bytes, workload::Data};
use fstrial_stack::{
    device::{
        Device,
        zram::{Zram, is_available, renew},
    },
    ledger::{Ledger, Undo},
    stack::AttachedDevices,
};
use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

const SIZE: Bytes = Bytes::mib(128);

fn folder(index: u32) -> PathBuf {
    PathBuf::from(format!("/sys/block/zram{index}"))
}

fn index_of(zram: &Zram) -> u32 {
    match zram.binding(&arm("raw")) {
        DeviceBinding::Zram { index, size } => {
            assert_eq!(size, SIZE);
            index
        }
        other => panic!("{other:?}"),
    }
}

/// Numbers of the zram devices there are, those of other tests included.
fn numbers() -> Vec<u32> {
    fs::read_dir("/sys/block")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("zram")?.parse().ok())
        .collect()
}

/// A device of another command, in use: only the command that added it changes it, so that any change during the test
/// is ours.
struct Bystander {
    _home: Lab,
    zram: Box<Zram>,
    index: u32,
    sequence: String,
}

impl Bystander {
    const WORDS: &[u8] = b"precious";

    fn new() -> Self {
        let home = Lab::new();
        let zram = Box::new(Zram::add(SIZE, &home.ledger).unwrap());
        let index = index_of(&zram);
        renew(index, SIZE).unwrap();
        write_at(Path::new(&format!("/dev/zram{index}")), 0, Self::WORDS);
        Self { _home: home, zram, index, sequence: sequence(index) }
    }

    fn assert_untouched(self) {
        let mut start = [0; Self::WORDS.len()];
        fs::File::open(format!("/dev/zram{}", self.index)).unwrap().read_exact(&mut start).unwrap();
        assert_eq!(start, Self::WORDS);
        assert_eq!(sequence(self.index), self.sequence);
        self.zram.close().unwrap();
    }
}

/// Changes with every reset of the device.
fn sequence(index: u32) -> String {
    fs::read_to_string(folder(index).join("diskseq")).unwrap()
}

/// Keeps all other tests of zram waiting, those of other programs included: each sees which devices come and go.
fn alone() -> fs::File {
    let lock = fs::File::open("/sys/class/zram-control/hot_add").unwrap();
    lock.lock().unwrap();
    lock
}

fn has_zram<F>(body: &F) -> bool {
    let available = is_available();
    if !available {
        skip(name_of(body), "no zram-control");
    }
    available
}

#[test]
fn a_device_of_our_own() {
    let body = || {
        let _alone = alone();
        let lab = Lab::new();
        let (bystander, before) = (Bystander::new(), numbers());
        let zram = Box::new(Zram::add(SIZE, &lab.ledger).unwrap());
        let index = index_of(&zram);
        assert!(!before.contains(&index));
        assert_eq!(zram.data(), Data::RepeatedWord);
        assert!(zram.describe().contains(&format!("/dev/zram{index} of 128 MiB")), "{}", zram.describe());
        assert_eq!(lab.entries().len(), 1);
        let arm = arm("ext4");
        // Twice: the second run finds no part of the first.
        for _ in 0..2 {
            let mut attached =
                AttachedDevices::attach(&zram.binding(&arm), &arm, std::process::id(), &lab.ledger).unwrap();
            let device = attached.path().to_owned();
            assert_eq!(fs::read_to_string(folder(index).join("disksize")).unwrap().trim(), "134217728");
            assert_eq!(fstrial_stack::signatures::of(&device).unwrap(), []);
            let printed = attached.make(arm.checked().unwrap()).unwrap();
            let point = lab.path("point");
            fs::create_dir_all(&point).unwrap();
            let _guard = MountGuard::of(&point);
            let ready_arm =
                attached.mount(arm.checked().unwrap(), &printed, &point).map_err(|(_, e)| e).unwrap();
            fs::write(point.join("file"), [7; 100_000]).unwrap();
            ready_arm.settle().unwrap();
            assert!(!zram.is_released().unwrap());
            let mut attached = ready_arm.unmount().unwrap().unwrap();
            attached.check(&arm).unwrap();
            attached.detach().unwrap();
            wait_until("it is released", || zram.is_released().unwrap());
        }
        zram.close().unwrap();
        assert!(!folder(index).exists());
        assert!(lab.entries().is_empty());
        bystander.assert_untouched();
        assert!(numbers().contains(&0) == before.contains(&0));
    };
    if has_zram(&body) {
        isolated(body);
    }
}

#[test]
fn a_device_in_use_is_not_renewed() {
    let body = || {
        let _alone = alone();
        let lab = Lab::new();
        let zram = Box::new(Zram::add(SIZE, &lab.ledger).unwrap());
        let index = index_of(&zram);
        renew(index, SIZE).unwrap();
        let node = PathBuf::from(format!("/dev/zram{index}"));
        write_at(&node, 0, b"precious");
        crate::dress::with(&node, "mkfs.ext4", &["-q"]);
        let point = lab.folder("point");
        let mounted = MountGuard::mount(&node, &point);
        let error = renew(index, SIZE).unwrap_err();
        assert!(error.to_string().contains("could not write `1`"), "{error}");
        assert!(error.hint().unwrap().contains("fuser"), "{error}");
        drop(mounted);
        wait_until("it is released", || zram.is_released().unwrap());
        renew(index, SIZE).unwrap();
        zram.close().unwrap();
        assert!(!folder(index).exists());
    };
    if has_zram(&body) {
        isolated(body);
    }
}

#[test]
fn zram_waits_for_brief_openers() {
    let body = || {
        let _alone = alone();
        let lab = Lab::new();
        let zram = Box::new(Zram::add(SIZE, &lab.ledger).unwrap());
        let index = index_of(&zram);
        // As udev and blkid do when a device changes.
        let look = || {
            let looking = fs::File::open(format!("/dev/zram{index}")).unwrap();
            std::thread::spawn(move || {
                std::thread::park_timeout(std::time::Duration::from_millis(200));
                drop(looking);
            })
        };
        renew(index, SIZE).unwrap();
        let looker = look();
        renew(index, SIZE).unwrap();
        looker.join().unwrap();
        let looker = look();
        zram.close().unwrap();
        looker.join().unwrap();
        assert!(!folder(index).exists() && lab.entries().is_empty());
    };
    if has_zram(&body) {
        isolated(body);
    }
}

#[test]
fn replay_removes_zram_device_of_dead_worker() {
    let body = || {
        let _alone = alone();
        let lab = Lab::new();
        let bystander = Bystander::new();
        // Died with the device added, set up, and not given up.
        let zram = Zram::add(SIZE, &lab.ledger).unwrap();
        let index = index_of(&zram);
        renew(index, SIZE).unwrap();
        write_at(Path::new(&format!("/dev/zram{index}")), 0, b"left");
        drop(zram);
        assert!(folder(index).exists() && lab.entries().len() == 1);
        let replayed = lab.ledger.replay().unwrap().done;
        assert!(replayed.len() == 1 && replayed[0].result.is_ok(), "{replayed:?}");
        assert!(replayed[0].undo.contains(&format!("/dev/zram{index}")), "{replayed:?}");
        assert!(!folder(index).exists() && lab.entries().is_empty());
        bystander.assert_untouched();
    };
    if has_zram(&body) {
        isolated(body);
    }
}

#[test]
fn the_number_of_a_dead_device_taken_by_another() {
    let body = || {
        let _alone = alone();
        let lab = Lab::new();
        let stale = Ledger::open(&lab.path("stale"), NOBODY).unwrap();
        let first = Box::new(Zram::add(SIZE, &stale).unwrap());
        let index = index_of(&first);
        let entry = fs::read_dir(stale.folder()).unwrap().next().unwrap().unwrap().path();
        let text = fs::read(&entry).unwrap();
        // Removed, and killed before it was struck out.
        first.close().unwrap();
        fs::write(&entry, text).unwrap();
        let other = Box::new(Zram::add(SIZE, &lab.ledger).unwrap());
        if index_of(&other) != index {
            other.close().unwrap();
            return skip("zram::the_number_of_a_dead_device_taken_by_another", "somebody else was faster");
        }
        renew(index, SIZE).unwrap();
        let node = PathBuf::from(format!("/dev/zram{index}"));
        write_at(&node, 0, b"precious");
        assert!(stale.replay().unwrap().done[0].result.is_ok());
        assert!(!entry.exists());
        assert!(folder(index).exists(), "a device of somebody else was removed");
        assert_eq!(fs::read_to_string(folder(index).join("initstate")).unwrap(), "1\n");
        other.close().unwrap();
    };
    if has_zram(&body) {
        isolated(body);
    }
}

#[test]
fn a_device_added_but_not_written_down() {
    let body = || {
        let _alone = alone();
        let lab = Lab::new();
        let before = numbers();
        let other = Ledger::open(&lab.path("other"), NOBODY).unwrap();
        let now = u64::try_from(UNIX_EPOCH.elapsed().unwrap().as_nanos()).unwrap();
        let zram = Zram::add(SIZE, &other).unwrap();
        let index = index_of(&zram);
        // Others may have added devices in the meantime: only ours is to be removed here.
        let mut spared = numbers();
        spared.retain(|number| *number != index);
        assert!(!before.contains(&index));
        let announced = |moment| Undo::RemoveUnusedZram { existing: spared.clone(), moment };
        let _entry = lab.ledger.write(announced(now)).unwrap();
        // Set up and therefore in use by another program: left alone.
        renew(index, SIZE).unwrap();
        assert!(lab.ledger.replay().unwrap().done[0].result.is_ok());
        assert!(folder(index).exists());
        fs::write(folder(index).join("reset"), "1").unwrap();
        // Added by another program, long after the dead command recorded its intent.
        let _entry = lab.ledger.write(announced(now - 60_000_000_000)).unwrap();
        assert!(lab.ledger.replay().unwrap().done[0].result.is_ok());
        assert!(folder(index).exists(), "a device of somebody else was removed");
        let _entry = lab.ledger.write(announced(now)).unwrap();
        assert!(lab.ledger.replay().unwrap().done[0].result.is_ok());
        assert!(!folder(index).exists());
        assert!(other.replay().unwrap().done[0].result.is_ok(), "it is gone already");
    };
    if has_zram(&body) {
        isolated(body);
    }
}
