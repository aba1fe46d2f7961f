//! Power cuts on real filesystems: defaults keep their promises, arms without barriers do not.

use crate::{
    support::{self, Lab, PATIENCE},
    write_log,
};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    fs::File,
    os::unix::fs::{FileExt, MetadataExt},
    time::Duration,
};

fn receipt(lab: &Lab, words: &str) -> Value {
    let ended = lab.run(&format!("durability {words} --seed 11 --json"));
    assert_eq!(ended.code(), 0, "{ended:?}");
    ended.json().pop().unwrap()
}

fn arm<'a>(receipt: &'a Value, name: &str) -> &'a Value {
    receipt["arms"].as_array().unwrap().iter().find(|arm| arm["arm"] == name).unwrap()
}

#[test]
fn defaults_keep_promises_and_missing_barriers_break_them() {
    if !support::is_root_with_loop_devices("defaults_keep_promises_and_missing_barriers_break_them") {
        return;
    }
    let lab = Lab::new();
    let receipt = receipt(&lab, "ext4 xfs btrfs nb=ext4:barrier=0 --runs 2 --cuts 12 --keep kept");
    for name in ["ext4", "xfs", "btrfs"] {
        let arm = arm(&receipt, name);
        let counts = ["lossy_runs", "lost", "unmountable", "damaged"].map(|key| arm[key].as_u64().unwrap());
        assert_eq!(counts, [0; 4], "a headline, or a bug of the checker: {name}: {}", arm["first_problem"]);
        assert_eq!(arm["cuts"], 24);
        assert!(arm["promises"].as_u64().unwrap() >= 20, "{name}: {}", arm["promises"]);
        assert!(arm["flushes"].as_u64().unwrap() >= arm["promises"].as_u64().unwrap());
    }
    let without = arm(&receipt, "nb");
    assert_eq!(without["lossy_runs"], 2, "a checker that finds nothing here finds nothing: {without}");
    assert!(without["lost"].as_u64().unwrap() + without["unmountable"].as_u64().unwrap() > 12);
    // It alone is kept: a filesystem whose journal was not replayed.
    assert_eq!(std::fs::read_dir(lab.root().join("kept")).unwrap().count(), 2);
    let [image, log] = ["image", "log"].map(|key| lab.root().join(without["kept"][key].as_str().unwrap()));
    assert!(image.ends_with("kept/nb-11.img") && log.ends_with("kept/nb-11.log"));
    assert_eq!(
        without["kept"]["command"],
        "cp --sparse=always kept/nb-11.img copy.img && sudo mount -o loop,barrier=0 copy.img /mnt"
    );
    let metadata = std::fs::metadata(&image).unwrap();
    assert!(metadata.len() > 64 << 20 && metadata.blocks() * 512 < metadata.len() / 2, "{metadata:?}");
    let mut magic = [0; 2];
    File::open(&image).unwrap().read_exact_at(&mut magic, 1024 + 56).unwrap();
    assert_eq!(magic, [0x53, 0xef]);
    let replayed = write_log::replayed_to_cut(&log, &image);
    assert!(replayed.at_stake > 0, "{replayed:?}");
    assert_eq!(replayed.promises, without["first_problem"]["promises"], "{replayed:?}");
}

#[test]
fn renamed_files_and_protected_caches_are_covered() {
    if !support::is_root_with_loop_devices("renamed_files_and_protected_caches_are_covered") {
        return;
    }
    let lab = Lab::new();
    let flow = r#"
about = "Files replaced by rename."
kind = "flow"
sets = [{ name = "new", files = 20, size = "4KiB", present = "0%" }, { name = "old", files = 20, size = "4KiB" }]
steps = ["create new as f", "append 3000 on f", "fsync on f", "close on f", "rename on f over old", "fsync-dir on f"]
"#;
    lab.write("replace.toml", flow);
    let volatile = receipt(&lab, "ext4 nb=ext4:barrier=0 --runs 1 --cuts 8 --workload replace.toml");
    assert_eq!(arm(&volatile, "ext4")["lossy_runs"], 0, "{volatile}");
    assert_eq!(arm(&volatile, "nb")["lossy_runs"], 1, "{volatile}");
    // A cache with a battery, and a model without a cache.
    for device in ["raid10-bbwc", "nvme"] {
        let protected = receipt(&lab, &format!("ext4 nb=ext4:barrier=0 --runs 1 --cuts 8 --device {device}"));
        assert_eq!(protected["protected"], true);
        for name in ["ext4", "nb"] {
            assert_eq!(arm(&protected, name)["lossy_runs"], 0, "{device} {name}: {protected}");
        }
    }
}

/// Files that change without a sync between two syncs of something else: no promise covers them.
#[test]
fn unsynced_changes_promise_nothing() {
    if !support::is_root_with_loop_devices("unsynced_changes_promise_nothing") {
        return;
    }
    let lab = Lab::new();
    let flow = r#"
about = "Files overwritten without a sync, deleted and made again, beside a sync of the filesystem and a synced file."
kind = "flow"
sets = [{ name = "loose", files = 12, size = "16KiB", present = "50%" }, { name = "kept", files = 4, size = "16KiB" }]
steps = [
    "open loose as a", "write-at 4KiB on a", "close on a", "delete loose", "create loose as b", "append 5000 on b",
    "close on b", "open kept as k", "write-at 4KiB on k", "fdatasync on k", "close on k", "syncfs kept",
]
"#;
    lab.write("loose.toml", flow);
    let words = "ext4 xfs btrfs nb=ext4:barrier=0 --runs 2 --cuts 10 --threads 2 --workload loose.toml";
    let receipt = receipt(&lab, words);
    for name in ["ext4", "xfs"] {
        assert_eq!(arm(&receipt, name)["lossy_runs"], 0, "{name}: {}", arm(&receipt, name)["first_problem"]);
    }
    // A commit of btrfs rewrites its superblock of 4 KiB in place, and a torn one fails its checksum.
    let btrfs = arm(&receipt, "btrfs");
    assert!(btrfs["lost"] == 0 && (btrfs["lossy_runs"] == 0 || btrfs["torn_only"] == true), "{btrfs}");
    assert_eq!(arm(&receipt, "nb")["lossy_runs"], 2, "{receipt}");
}

/// Threads that share files, and inodes that are used again: neither may look like a loss.
#[test]
fn concurrent_loads_lose_nothing_by_default() {
    if !support::is_root_with_loop_devices("concurrent_loads_lose_nothing_by_default") {
        return;
    }
    let lab = Lab::new();
    for (workload, arms) in [
        ("sysbench-rndwr", &["ext4"][..]),
        ("random-write --set workload.open_sync=dsync", &["ext4", "xfs"]),
        ("varmail", &["ext4", "xfs", "btrfs"]),
        ("create-files", &["ext4"]),
    ] {
        let words = format!(
            "{} nb=ext4:barrier=0 --runs 1 --cuts 12 --threads 8 --workload {workload}",
            arms.join(" ")
        );
        let receipt = receipt(&lab, &words);
        for name in arms {
            assert_eq!(arm(&receipt, name)["lossy_runs"], 0, "{workload}: {receipt}");
        }
        assert_eq!(arm(&receipt, "nb")["lossy_runs"], 1, "{workload}: {receipt}");
    }
}

#[test]
fn unsuited_work_is_refused() {
    let lab = Lab::new();
    for (words, text) in [
        ("raw", "has no filesystem"),
        ("ext4 --device image", "only a modelled device"),
        ("ext4 --workload postgresql-select", "a server that declares no promises"),
        ("ext4 --workload real-fio", "its promises are not known"),
        ("ext4 --workload sysbench-rndwr --set workload.file_size=1GiB", "workload.file_size="),
        ("ext4 --workload postgresql", "not a single"),
        ("ext4@6.1", "at another place"),
        ("ext4:crypt", "more than its one device"),
        ("ext4 --workload mdtest", "several phases"),
        ("ext4 --workload ycsb-a", "key-value store"),
        ("vfat", "no repair program"),
        ("ext4 --workload random-write", "syncs nothing"),
        ("ext4 --device disk", "only a modelled device"),
        ("ext4 --workload wal-group-commit", "workload.log.file_size="),
    ] {
        let ended = lab.run(&format!("durability {words}"));
        assert_eq!(ended.code(), 2, "{words}: {ended:?}");
        assert!(ended.stderr.contains(text), "{words}: {}", ended.stderr);
    }
}

/// The receipt is a part of the answer: of its text, its document and its page, and of a copy in another store.
#[test]
fn comparison_has_a_receipt() {
    if !support::is_root_with_loop_devices("comparison_has_a_receipt") {
        return;
    }
    let lab = Lab::new();
    let words = "compare ext4 nb=ext4:barrier=0 -w append-fsync --threads 1 --duration 100ms --set workload.warmup=0ms \
                 --device sata-ssd --set device.size=256MiB --rounds 2 --receipt=1";
    let planned = lab.run(&format!("{words} --dry-run")).stdout;
    assert!(planned.contains("1 run of each arm under each load that syncs"), "{planned}");
    let document = lab.run(&format!("{words} --json")).document();
    let lossy = |document: &Value| -> Vec<(String, u64)> {
        let arms = document["receipt"]["arms"].as_array().unwrap_or_else(|| panic!("{document}"));
        let pair = |arm: &Value| (arm["arm"].as_str().unwrap().into(), arm["lossy_runs"].as_u64().unwrap());
        arms.iter().map(pair).collect()
    };
    let expected = [("ext4".to_owned(), 0), ("nb".to_owned(), 1)];
    assert_eq!(lossy(&document), expected);
    let text = lab.run("report 1 --format text").stdout;
    assert!(text.contains("! nb loses acknowledged writes in 1 of 1 runs with power cuts"), "{text}");
    assert!(text.contains("ext4: lost no acknowledged write in 1 run with 20 cuts"), "{text}");
    // No sentence on its speed without its loss.
    let speed: Vec<&str> =
        text.lines().filter(|line| line.contains("nb / ext4") && line.contains('×')).collect();
    assert!(speed.iter().all(|line| line.contains("nb loses acknowledged writes")), "{speed:?}");
    let page = std::fs::read_to_string(lab.home().join("reports/trial-1.html")).unwrap();
    assert!(page.contains("After power cuts of a modelled sata-ssd"));
    let elsewhere = format!("--home {}", lab.root().join("elsewhere").display());
    assert_eq!(lab.run(&format!("results import home/results.db {elsewhere}")).code(), 0);
    let again = lab.run(&format!("report 1 --format json {elsewhere}")).json().pop().unwrap();
    assert_eq!(lossy(&again), expected);
    // Refused before anything runs.
    for (arms, text) in
        [("dir:/tmp dir:/var/tmp", "no filesystem"), ("ext4 xfs -w sequential-read", "nothing is promised")]
    {
        let ended = lab.run(&format!("compare {arms} --receipt"));
        assert_eq!(ended.code(), 2, "{ended:?}");
        assert!(ended.stderr.contains(text), "{ended:?}");
    }
}

#[test]
fn killed_and_interrupted_cuts_leave_nothing() {
    if !support::is_root_with_loop_devices("killed_and_interrupted_cuts_leave_nothing") {
        return;
    }
    let lab = Lab::new();
    for (signal, wait) in [(Signal::INT, 2500), (Signal::KILL, 1500), (Signal::KILL, 3500)] {
        let running = lab.start("durability ext4 nb=ext4:barrier=0 --keep kept --json");
        // Into a load, or the cuts after it.
        support::pause(Duration::from_millis(wait));
        running.signal(signal);
        let ended = running.end(PATIENCE);
        if signal == Signal::KILL {
            assert!(ended.is_killed());
            lab.clean();
        } else {
            assert_eq!(ended.code(), 130, "{ended:?}");
            let receipt = ended.json().pop().unwrap();
            assert_eq!(receipt["interrupted"], true, "{receipt}");
        }
        lab.assert_nothing_left("after cuts");
        // Of a killed command no image stays.
        let images = std::fs::read_dir(lab.root().join("kept")).unwrap().count();
        assert!(images <= usize::from(signal == Signal::INT), "{signal:?}: {images}");
        std::fs::remove_dir_all(lab.root().join("kept")).unwrap();
    }
}
