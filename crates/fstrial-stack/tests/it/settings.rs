//! Settings of the queue: in effect while the arm is ready, and back where they were afterwards.

use crate::support::{Lab, arm, assert_torn_down, attach, attribute, isolated, queue_of, skip};
use fstrial_model::{job::DeviceBinding, units::Bytes};
use fstrial_stack::{
    device::{Device, disk::Identity},
    device_number::DeviceNumber,
    ledger::{Ledger, Undo},
    loopdev::LoopDevice,
    stack::AttachedDevices,
};
use std::{collections::BTreeMap, fs, os::fd::AsFd, path::Path};

const NAMES: [&str; 6] =
    ["scheduler", "nr_requests", "read_ahead_kb", "write_cache", "rotational", "discard_max_bytes"];

fn all(queue: &Path) -> BTreeMap<&'static str, String> {
    NAMES.into_iter().map(|name| (name, attribute(queue, name))).collect()
}

/// A loop device given as a disk: it stays, so that its settings can be compared.
fn as_disk(device: &LoopDevice) -> DeviceBinding {
    let Identity { path, number, diskseq } = Identity::of(&device.path()).unwrap();
    let DeviceNumber { major, minor } = number;
    DeviceBinding::Disk { path, major, minor, diskseq, size: Bytes::mib(8) }
}

#[test]
fn detach_restores_disk_queue_settings() {
    isolated(|| {
        let lab = Lab::new();
        let device = lab.device("disk", 8);
        let queue = queue_of(&device.path());
        // The user's value must be restored, not the kernel's default.
        fs::write(queue.join("read_ahead_kb"), "512").unwrap();
        let before = all(&queue);
        for (text, scheduler, read_ahead, cache) in [
            ("raw", "[none]", "512", "write back"),
            ("raw:scheduler=mq-deadline", "[mq-deadline]", "512", "write back"),
            ("raw:read_ahead=64KiB", "[none]", "64", "write back"),
            ("raw:cache=write-through", "[none]", "512", "write through"),
            ("raw:cache=write-back", "[none]", "512", "write back"),
            ("raw:rotational=on", "[none]", "512", "write back"),
            ("raw:rotational=off", "[none]", "512", "write back"),
            ("raw:scheduler=kyber,read_ahead=64KiB,cache=write-through", "[kyber]", "64", "write through"),
        ] {
            let arm = arm(text);
            let written = lab.entries().len();
            if let Some(scheduler) = &arm.scheduler
                && !before["scheduler"].contains(scheduler.as_str())
            {
                skip("settings::detach_restores_disk_queue_settings", &format!("no scheduler {scheduler}"));
                continue;
            }
            let attached =
                AttachedDevices::attach(&as_disk(&device), &arm, std::process::id(), &lab.ledger).unwrap();
            let during = all(&queue);
            assert!(during["scheduler"].contains(scheduler), "{text}: {during:?}");
            assert_eq!(during["read_ahead_kb"], read_ahead, "{text}");
            assert_eq!(during["write_cache"], cache, "{text}");
            assert_eq!(during["discard_max_bytes"], before["discard_max_bytes"], "{text}");
            let rotates = match text {
                "raw:rotational=on" => "1",
                "raw:rotational=off" => "0",
                _ => &before["rotational"],
            };
            assert_eq!(during["rotational"], rotates, "{text}");
            attached.detach().unwrap();
            assert_eq!(all(&queue), before, "after {text}");
            assert_eq!(lab.entries().len(), written, "after {text}");
        }
    });
}

#[test]
fn nr_requests_is_set_and_restored() {
    isolated(|| {
        let lab = Lab::new();
        let device = lab.device("disk", 8);
        let queue = queue_of(&device.path());
        // The user's value is restored, although a change of the scheduler resets the number.
        fs::write(queue.join("nr_requests"), "100").unwrap();
        let before = all(&queue);
        for (text, requests) in [
            ("raw:nr_requests=32", "32"),
            ("raw:scheduler=mq-deadline,nr_requests=200", "200"),
            ("raw:discard=off", "100"),
            ("raw:discard=on", "100"),
        ] {
            let requested = arm(text);
            let device = as_disk(&device);
            let attached =
                AttachedDevices::attach(&device, &requested, std::process::id(), &lab.ledger).unwrap();
            assert_eq!(attribute(&queue, "nr_requests"), requests, "{text}");
            attached.detach().unwrap();
            assert_eq!(all(&queue), before, "after {text}");
        }
        let refused = |text: &str| {
            let error =
                AttachedDevices::attach(&as_disk(&device), &arm(text), std::process::id(), &lab.ledger);
            error.unwrap_err()
        };
        let error = refused("raw:nr_requests=60000");
        assert!(error.to_string().contains("60000 requests"), "{error}");
        assert!(error.hint().unwrap().contains("scheduler=mq-deadline"), "{error}");
        assert_eq!(all(&queue), before);
        fs::write(queue.join("discard_max_bytes"), "0").unwrap();
        let error = refused("raw:discard=on");
        assert!(error.to_string().contains("takes no discards"), "{error}");
    });
}

#[test]
fn discards_are_not_let_into_an_image() {
    isolated(|| {
        let lab = Lab::new();
        let image = lab.image(16);
        let requested = arm("raw:discard=on");
        let error =
            AttachedDevices::attach(&image.binding(&requested), &requested, std::process::id(), &lab.ledger);
        let error = error.unwrap_err();
        assert!(error.to_string().contains("would free blocks of the image"), "{error}");
        assert!(error.hint().unwrap().contains("zram"), "{error}");
    });
}

#[test]
fn the_queue_of_an_image() {
    isolated(|| {
        let lab = Lab::new();
        let image = lab.image(16);
        for text in ["raw", "raw:read_ahead=64KiB,cache=write-through,scheduler=mq-deadline"] {
            let requested = arm(text);
            let (attached, queue) = attach(&image, &requested, &lab);
            let device = attached.path().to_owned();
            assert_eq!(attribute(&queue, "discard_max_bytes"), "0");
            assert_eq!(attribute(queue.parent().unwrap(), "loop/dio"), "1");
            if requested.read_ahead.is_some() {
                assert_eq!(attribute(&queue, "read_ahead_kb"), "64");
                assert_eq!(attribute(&queue, "write_cache"), "write through");
                assert!(attribute(&queue, "scheduler").contains("[mq-deadline]"));
            }
            attached.detach().unwrap();
            assert_torn_down(&image, &device, &lab);
        }
    });
}

#[test]
fn no_loop_device_of_the_host_is_changed() {
    isolated(|| {
        let lab = Lab::new();
        let image = lab.image(16);
        let requested = arm("raw:scheduler=mq-deadline");
        let (attached, _) = attach(&image, &requested, &lab);
        let number: u32 = attached.path().to_str().unwrap().trim_start_matches("/dev/loop").parse().unwrap();
        assert!(number >= 64, "a device of our own, not one that was there");
        // Discards of a device that is used after us work: ours takes its limit of 0 away with it.
        attached.detach().unwrap();
        let next = lab.device("next", 8);
        assert!(attribute(&queue_of(&next.path()), "discard_max_bytes") != "0");
    });
}

#[test]
fn replay_undoes_changes_of_killed_worker() {
    isolated(|| {
        let lab = Lab::new();
        let image = lab.image(16);
        let requested = arm("raw:scheduler=mq-deadline,read_ahead=64KiB,cache=write-through");
        let (attached, _) = attach(&image, &requested, &lab);
        let device = attached.path().to_owned();
        let written = lab.entries().len();
        assert!(written >= 4, "settings and the removal");
        // Its removal is refused while it exists; the settings are restored.
        let replayed = lab.ledger.replay().unwrap().done;
        assert_eq!(replayed.iter().filter(|step| step.result.is_err()).count(), 1, "{replayed:?}");
        assert!(attribute(&queue_of(&device), "scheduler").contains("[none]"));
        assert_eq!(lab.entries().len(), 1);
        // The kernel detaches when the worker is gone; keeping the ledger from noticing takes a copy of it.
        let kept: Vec<(_, Vec<u8>)> =
            lab.entries().into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
        let fake = fs::File::options().read(true).write(true).open(lab.file("other", 8)).unwrap();
        drop(attached);
        for (path, text) in &kept {
            fs::write(path, text).unwrap();
        }
        assert!(lab.ledger.replay().unwrap().done.iter().all(|step| step.result.is_ok()));
        assert!(lab.entries().is_empty() && !queue_of(&device).exists());
        // Another owner's device with that number is left alone.
        let other = LoopDevice::attach(fake.as_fd(), false, &lab.ledger).unwrap();
        let number = other.path().to_str().unwrap().trim_start_matches("/dev/loop").parse().unwrap();
        let stale = Ledger::open(&lab.path("stale"), crate::support::NOBODY).unwrap();
        let dev = std::os::unix::fs::MetadataExt::dev(&fs::metadata("/dev/loop-control").unwrap());
        let node = serde_json::from_str(&format!("{{\"filesystem\": {dev}, \"inode\": 1}}")).unwrap();
        let gone = Undo::RemoveLoop { index: number, file: "/gone (deleted)".into(), node };
        let _entry = stale.write(gone).unwrap();
        assert!(stale.replay().unwrap().done[0].result.is_ok());
        assert!(fs::read_dir(stale.folder()).unwrap().next().is_none());
        assert!(other.path().exists());
        assert_eq!(fstrial_stack::loopdev::attached_to(fake.as_fd()).unwrap(), [other.path()]);
    });
}
