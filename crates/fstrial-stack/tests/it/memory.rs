//! Limits for the memory of a load, on the control groups of this machine.

use crate::support::{Lab, MountGuard, NOBODY, arm, assert_torn_down, attach, isolated, name_of, skip};
use fstrial_model::units::{Bytes, Nanos};
use fstrial_stack::{
    command::Program,
    ledger::Ledger,
    memory::{self, LimitedGroup},
};
use std::{
    fs,
    io::{Read, Write},
    path::PathBuf,
};

/// Runs a test in a separate process, whose memory cgroup can be limited.
fn limited<F: FnOnce()>(body: F) {
    let name = name_of(&body);
    match memory::find() {
        Ok(_) => isolated(body),
        Err(error) => skip(name, &error.to_string()),
    }
}

/// Bytes read from a device since it was made.
fn bytes_read(device: &str) -> u64 {
    let stat = fs::read_to_string(format!("/sys/block/{device}/stat")).unwrap();
    stat.split_whitespace().nth(2).unwrap().parse::<u64>().unwrap() * 512
}

/// The groups that a ledger has to remove.
fn groups_of(lab: &Lab) -> Vec<PathBuf> {
    let path = |entry: PathBuf| {
        let entry: serde_json::Value = serde_json::from_slice(&fs::read(entry).ok()?).ok()?;
        (entry["undo"] == "remove-group").then(|| entry["path"].as_str().unwrap().into())
    };
    lab.entries().into_iter().filter_map(path).collect()
}

#[test]
fn file_larger_than_memory_limit_is_reread() {
    limited(|| {
        let lab = Lab::new();
        let image = lab.image(320);
        let requested = arm("ext4");
        let (mut attached, _) = attach(&image, &requested, &lab);
        let device = attached.path().to_owned();
        let printed = attached.make(requested.checked().unwrap()).unwrap();
        let point = lab.folder("point");
        let guard = MountGuard::of(&point);
        let ready_arm =
            attached.mount(requested.checked().unwrap(), &printed, &point).map_err(|(_, e)| e).unwrap();
        let file = point.join("file");
        let size: u64 = 64 << 20;
        let name = device.file_name().unwrap().to_str().unwrap();
        let read_within = |limit: Bytes| {
            let mut limited = LimitedGroup::set(limit, &lab.ledger).unwrap();
            limited.enter().unwrap();
            let mut piece = vec![7; 1 << 20];
            let mut open = fs::File::create(&file).unwrap();
            for number in 0..size >> 20 {
                open.write_all(&piece).unwrap();
                // Where writers are not slowed down before the limit, this process could be killed at it.
                if number % 4 == 0 {
                    open.sync_data().unwrap();
                }
            }
            drop(open);
            ready_arm.settle().unwrap();
            let before = bytes_read(name);
            for _ in 0..10 {
                let mut open = fs::File::open(&file).unwrap();
                while open.read(&mut piece).unwrap() > 0 {}
            }
            let read = bytes_read(name) - before;
            limited.leave().unwrap();
            fs::remove_file(&file).unwrap();
            assert_eq!(limited.kills(), 0);
            let groups = groups_of(&lab);
            assert!(groups.len() == 1 && groups[0].is_dir(), "{groups:?}");
            limited.close().unwrap();
            assert!(!groups[0].exists() && groups_of(&lab).is_empty());
            read
        };
        let (large, small) = (read_within(Bytes::mib(256)), read_within(Bytes::mib(32)));
        // Others drop the caches of the machine now and then.
        assert!((size..size * 4).contains(&large), "read once: {large}");
        assert!(small > size * 8, "read again and again: {small}");
        ready_arm.unmount().unwrap().unwrap().detach().unwrap();
        drop(guard);
        assert_torn_down(&image, &device, &lab);
    });
}

#[test]
fn process_over_memory_limit_is_killed_and_counted() {
    limited(|| {
        let lab = Lab::new();
        let mut limited = LimitedGroup::set(Bytes::mib(64), &lab.ledger).unwrap();
        limited.enter().unwrap();
        let hungry = ["if=/dev/zero", "of=/dev/null", "bs=300M", "count=1"];
        let done = Program::new("dd").args(hungry).deadline(Nanos::secs(60)).finish().unwrap();
        assert!(!done.status.success(), "{}", done.stderr);
        limited.leave().unwrap();
        assert!(limited.kills() > 0);
        limited.close().unwrap();
        assert!(lab.entries().is_empty());
    });
}

#[test]
fn replay_removes_cgroup_of_dead_worker() {
    limited(|| {
        let lab = Lab::new();
        let dead = Ledger::open(lab.ledger.folder(), NOBODY).unwrap();
        std::mem::forget(LimitedGroup::set(Bytes::mib(64), &dead).unwrap());
        let groups = groups_of(&lab);
        assert_eq!(groups.len(), 1, "{groups:?}");
        assert_eq!(memory::kills_of_the_dead(&lab.ledger).unwrap(), 0);
        let report = lab.ledger.replay().unwrap();
        assert!(report.done.len() == 1 && report.done[0].result.is_ok(), "{report:?}");
        assert!(!groups[0].exists());
    });
}

#[test]
fn limit_above_machine_memory_is_refused() {
    limited(|| {
        let error = memory::require(Bytes::gib(1 << 20)).unwrap_err();
        assert!(error.to_string().contains("and the machine has"), "{error}");
        memory::require(Bytes::mib(64)).unwrap();
    });
}
