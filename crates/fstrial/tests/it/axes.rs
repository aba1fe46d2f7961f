//! Axes of a device, in whole trials: the requested setting is really in force, and none of it is left after a kill at
//! any point.

use crate::support::{self, Ended, Lab, SMALL};
use rustix::process::Signal;
use serde_json::Value;
use std::{fs, path::PathBuf, time::Duration};

/// Control groups that the ledger has to remove.
pub(crate) fn groups_in_the_ledger(lab: &Lab) -> Vec<PathBuf> {
    let read =
        |name| serde_json::from_slice::<Value>(&fs::read(lab.ledger().join::<String>(name)).ok()?).ok();
    let entries = lab.ledger_entries().into_iter().filter_map(read);
    let groups = entries.filter(|entry| entry["undo"] == "remove-group");
    groups.map(|entry| entry["path"].as_str().unwrap().into()).collect()
}

/// Logs that are gone through are counted on the real filesystems.
#[test]
fn laps_of_logs_are_counted() {
    let name = "axes::laps_of_logs_are_counted";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let words = "compare small=ext4:-Jsize=4 large=ext4:-Jsize=8 btrfs:noatime --set device.size=320MiB --duration 300ms --set workload.warmup=20ms --workload append-fsync --set workload.file_size=16MiB --threads 1 --rounds 1 --budget 10m --device model:ideal --json";
    let ended = lab.run(words);
    assert!([0, 3].contains(&ended.code()), "{ended:?}");
    let section = &ended.document()["workloads"][0];
    let cell = |index: usize, key: &str| section["cells"][index][key].as_f64();
    assert_eq!(cell(0, "log_bytes"), Some(4.0 * 1_048_576.0));
    assert_eq!(cell(1, "log_bytes"), Some(8.0 * 1_048_576.0));
    assert!(cell(0, "log_laps").unwrap() > 0.0 && cell(0, "commits").unwrap() >= 1.0, "{section}");
    // btrfs has no log that goes round; its commits are counted.
    assert!(cell(2, "log_laps").is_none() && cell(2, "commits").is_some(), "{section}");
}

fn compare(lab: &Lab, words: &str) -> Ended {
    lab.run(&format!("compare {words} {SMALL} --device image:images --json"))
}

/// A fact of an arm, by its place.
pub(crate) fn fact<'a>(document: &'a Value, arm: usize, name: &str) -> &'a str {
    document["arms"][arm]["facts"]["facts"][name].as_str().unwrap_or_default()
}

/// Starts a trial with these words, and when a load has begun kills a worker, or the command and all its workers.
pub(crate) fn kill_under_load(lab: &Lab, words: &str, everything: bool) {
    let small = SMALL.replace("--duration 100ms", "--duration 2s");
    let mut running = lab.start(&format!("compare {words} {small} --device image:images --rounds 50 --json"));
    assert!(running.wait_for("run-started"), "{words}");
    while running.event().is_some_and(|event| event["stage"] != "load") {}
    support::pause(Duration::from_millis(100));
    let groups = groups_in_the_ledger(lab);
    assert_eq!(groups.len(), usize::from(words.contains("trial.memory")));
    for group in &groups {
        assert!(
            !fs::read_to_string(group.join("cgroup.procs")).unwrap().is_empty(),
            "the load is in its group"
        );
    }
    let outer = support::worker_of(running.pid()).unwrap();
    if everything {
        support::kill(running.pid());
    }
    support::signal_group(outer, Signal::KILL);
    if !everything {
        running.signal(Signal::INT);
    }
    let ended = running.end(support::PATIENCE);
    assert_eq!(ended.is_killed(), everything, "{ended:?}");
    if everything {
        support::eventually(support::SETTLE, || lab.leaks().is_empty());
        lab.clean();
    }
    lab.assert_nothing_left(words);
    assert!(groups.iter().all(|group| !group.exists()), "{groups:?}");
    assert_eq!(lab.ledger_entries(), Vec::<String>::new(), "{words}");
}

/// Appends made durable one by one: with a journal every one of them writes the journal, too.
const JOURNALS: &str = r#"
[trial]
decide_on = ["device-bytes"]
rounds = 24
[device]
path = "images"
size = "320MiB"
[[arm]]
name = "journal"
filesystem = "ext4"
[[arm]]
name = "outside"
filesystem = "ext4"
log = "external"
[[arm]]
name = "none"
filesystem = "ext4"
mkfs = ["-O", "^has_journal"]
[log_device]
kind = "ramdisk"
size = "64MiB"
[[workload]]
use = "append-fsync"
file_size = "64MiB"
threads = [1]
warmup = "20ms"
duration = "150ms"
"#;

#[test]
fn a_journal_shows_in_the_bytes_written_to_the_device() {
    let name = "a_journal_shows_in_the_bytes_written_to_the_device";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    lab.write("journals.toml", JOURNALS);
    let ended = lab.run("run journals.toml --json");
    let document = ended.document();
    assert_eq!(document["failures"], serde_json::json!([]));
    let workload = &document["workloads"][0];
    let written = |arm: &str| {
        let cell = workload["cells"].as_array().unwrap().iter().find(|cell| cell["arm"] == arm).unwrap();
        cell["device_bytes_per_operation"].as_f64().unwrap_or_else(|| panic!("{cell}"))
    };
    // An append is 4 KiB.
    let none = written("none");
    assert!(none >= 4096.0, "{none}");
    assert!(written("journal") > none * 1.2, "{} and {none}", written("journal"));
    assert!(written("outside") > none * 1.2, "the log device counts: {} and {none}", written("outside"));
    let verdicts = workload["verdicts"].as_array().unwrap();
    let result = verdicts.iter().find(|result| {
        result["metric"] == "device-bytes" && result["a"] == "none" && result["b"] == "journal"
    });
    let result = result.unwrap_or_else(|| panic!("{workload}"));
    assert_eq!((&result["verdict"], &result["less_is_better"]), (&"faster".into(), &true.into()), "{result}");
    let exported = lab.run("results export --format csv");
    assert!(exported.stdout.contains(",device_bytes_per_operation,"), "{}", exported.stderr);

    fs::create_dir(lab.path("a")).unwrap();
    let refused = lab.run("compare a=dir:a b=dir:a --workload append-fsync --decide-on device-bytes");
    assert_eq!(refused.code(), 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("device of a directory are unknown"), "{}", refused.stderr);
}

#[test]
fn journals_and_logs_on_a_device_of_their_own() {
    let name = "journals_and_logs_on_a_device_of_their_own";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    for log in ["--set log_device.kind=image --set log_device.path=images", "--set log_device.kind=ramdisk"] {
        let arms = "ext4 a=ext4:log=external b=xfs:log=external c=ext3:log=external";
        let ended = compare(
            &lab,
            &format!("{arms} {log} --set log_device.size=64MiB --rounds 1 --set trial.fsck=true"),
        );
        assert!([0, 3].contains(&ended.code()), "{ended:?}");
        let document = ended.document();
        assert_eq!(document["failures"], serde_json::json!([]), "the checks found the logs");
        assert!(!fact(&document, 0, "journal").contains("log device"), "{document}");
        for arm in 1..4 {
            assert!(fact(&document, arm, "journal").ends_with(", on the log device"), "{document}");
        }
        // The place of the journal is the only difference: the blocks are those of the filesystem with an internal
        // journal.
        assert_eq!(fact(&document, 0, "block-size"), fact(&document, 1, "block-size"));
        let notes = document["environment"]["device_notes"].to_string();
        assert!(notes.contains("log=external are on another device"), "{notes}");
        let audit = document["audit"].to_string();
        assert!(audit.contains("journal (as requested): "), "{audit}");
        lab.assert_nothing_left(log);
        assert_eq!(lab.ledger_entries(), Vec::<String>::new());
    }
}

#[test]
fn killed_trial_leaves_no_log_device() {
    let name = "killed_trial_leaves_no_log_device";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    for everything in [false, true] {
        let arms = "ext4:log=external xfs:log=external";
        kill_under_load(
            &lab,
            &format!(
                "{arms} --set log_device.kind=image --set log_device.path=images --set log_device.size=64MiB"
            ),
            everything,
        );
    }
}

#[test]
fn stripe_set_by_mkfs_options_is_reported() {
    let name = "stripe_set_by_mkfs_options_is_reported";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let arms = "ext4:stride=16,stripe_width=64 xfs:su=64k,sw=4 btrfs";
    // With a stripe, mkfs.xfs makes more groups, and needs more room for its log.
    let small = SMALL.replace("320MiB", "640MiB");
    let ended = lab.run(&format!("compare {arms} {small} --device image:images --json --rounds 1"));
    assert!([0, 3].contains(&ended.code()), "{ended:?}");
    let document = ended.document();
    for (arm, stripe) in ["16 blocks, 64 in all", "64 KiB, 256 KiB in all", "none"].into_iter().enumerate() {
        assert_eq!(fact(&document, arm, "stripe"), stripe);
    }
}

#[test]
fn btrfs_spreads_itself_over_members() {
    let name = "btrfs_spreads_itself_over_members";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let small = SMALL.replace("320MiB", "256MiB");
    for (device, kill) in [("image:images", true), ("ramdisk", false)] {
        let arms = "btrfs a=btrfs:profile=raid10 b=btrfs:profile=raid0/raid1,scheduler=none,rotational=off";
        let arms = if device == "ramdisk" { "btrfs a=btrfs:profile=raid10" } else { arms };
        let words = format!("{arms} {small} --device {device} --set device.members=4");
        let ended = lab.run(&format!("compare {words} --rounds 1 --set trial.fsck=true --json"));
        assert!([0, 3].contains(&ended.code()), "{ended:?}");
        let document = ended.document();
        assert_eq!(document["failures"], serde_json::json!([]));
        let spread = ["4, data single, metadata raid1", "4, data raid10, metadata raid10"];
        for (arm, members) in spread.into_iter().enumerate() {
            assert_eq!(fact(&document, arm, "members"), members);
        }
        if device != "ramdisk" {
            // It takes options that apply to all members.
            assert_eq!(fact(&document, 2, "device-options"), "ssd");
        }
        lab.assert_nothing_left(&words);
        assert_eq!(lab.ledger_entries(), Vec::<String>::new());
        if kill {
            kill_under_load(&lab, "btrfs a=btrfs:profile=raid10 --set device.members=4", true);
        }
    }
}

#[test]
fn runs_on_md_arrays_where_supported() {
    let name = "runs_on_md_arrays_where_supported";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let run = |raid: &str| {
        let words = format!(
            "compare ext4 xfs:read_ahead=64KiB {SMALL} --device image:images --set device.members=4 --rounds 1 --set trial.fsck=true"
        );
        lab.run(&format!("{words} --set device.raid={raid} --json"))
    };
    let ended = run("raid10,chunk=64KiB");
    if ended.stderr.contains("has no md") || ended.stderr.contains("mdadm is not installed") {
        assert_eq!(ended.code(), 10, "{ended:?}");
        assert!(ended.stderr.contains("try: "), "{ended:?}");
        lab.assert_nothing_left("a refusal");
        assert_eq!(lab.ledger_entries(), Vec::<String>::new());
        return support::skip(name, "only the refusal was tested: this machine has no md or no mdadm");
    }
    for (raid, members) in [
        ("raid10,chunk=64KiB", "md raid10 of 4, chunk 64 KiB"),
        ("raid0", "md raid0 of 4, chunk 512 KiB"),
        ("raid1", "md raid1 of 4"),
    ] {
        let ended = run(raid);
        assert!([0, 3].contains(&ended.code()), "{ended:?}");
        let document = ended.document();
        assert_eq!(document["failures"], serde_json::json!([]));
        assert_eq!(fact(&document, 0, "members"), members);
        assert_eq!(fact(&document, 1, "read-ahead"), "64 KiB");
        lab.assert_nothing_left(raid);
        assert_eq!(lab.ledger_entries(), Vec::<String>::new());
    }
    for everything in [false, true] {
        kill_under_load(&lab, "ext4 xfs --set device.members=2 --set device.raid=raid1", everything);
    }
}

/// A loop device that no process holds open, like a disk.
struct Losetup(String);

impl Drop for Losetup {
    fn drop(&mut self) {
        support::tool("losetup", &["--detach", &self.0]);
    }
}

#[test]
fn disk_is_preconditioned_and_result_records_it() {
    let name = "disk_is_preconditioned_and_result_records_it";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let image = lab.path("disk.img");
    fs::File::create(&image).unwrap().set_len(128 << 20).unwrap();
    let result = support::tool("losetup", &["--find", "--show", "--direct-io=on", image.to_str().unwrap()]);
    let device = Losetup(result.trim().to_owned());
    let small = SMALL.replace("--set device.size=320MiB", "");
    let words = format!("compare ext4 b=ext4 {small} --device disk --erase {} --rounds 1 --json", device.0);
    let ended = lab.run(&format!("{words} --precondition=100ms"));
    assert!([0, 3].contains(&ended.code()), "{ended:?}");
    let rounds = ended.json().iter().filter(|event| event["event"] == "preparing").count();
    assert!(rounds >= 5, "{rounds}");
    let notes = ended.document()["environment"]["device_notes"].to_string();
    assert!(notes.contains("preconditioned in SNIA's sense") && notes.contains("rounds of 100ms"), "{notes}");
    assert_eq!(lab.ledger_entries(), Vec::<String>::new());
}

/// Without `--duration`, `--rounds` or `--quick` each arm has one longer run before the first round.
#[test]
fn a_pilot_looks_beyond_the_length_of_a_run() {
    let name = "a_pilot_looks_beyond_the_length_of_a_run";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let words = "compare ext4 xfs --set device.size=320MiB --workload append-fsync --set workload.file_size=16MiB --threads 1 --device image";
    let one = "one run of 12s of append-fsync at 1 thread in each arm";
    assert!(lab.run(&format!("{words} --dry-run")).stdout.contains(one));
    for flag in ["--quick", "--rounds 3", "--duration 1s", "--budget 1m"] {
        assert!(!lab.run(&format!("{words} {flag} --dry-run")).stdout.contains("Pilot"), "{flag}");
    }
    let mut running = lab.start(&format!("{words} --json"));
    let (mut lines, mut seen) = (Vec::new(), Vec::new());
    while let Some(event) = running.event() {
        match event["event"].as_str() {
            Some("preparing") => lines.push(event["line"].as_str().unwrap().to_owned()),
            Some("noted") => seen.extend(event["lines"].as_array().unwrap().iter().map(Value::to_string)),
            Some("run-ended") => running.signal(Signal::INT),
            _ => {}
        }
    }
    let ended = running.end(support::PATIENCE);
    assert_eq!(ended.code(), 130, "{ended:?}");
    assert!(lines[0].starts_with(&format!("pilot: {one}")), "{lines:?}");
    // Differences seen are warnings of the answer; without any, the pilot reports that.
    let shown = lab.run("report --format json").document()["warnings"].to_string();
    assert!(seen.iter().all(|line| shown.contains(line.as_str())), "{shown}");
    let found_nothing = lines.get(1).is_some_and(|line| {
        line.contains(
            "no rate rose or fell by more than 10 %, or went up and down with a period of 0.5 to 5.8 s",
        )
    });
    assert_eq!(seen.is_empty(), found_nothing, "{lines:?}");
    lab.assert_nothing_left("after a pilot");
    // A session that resumes it does not look again.
    assert!(!lab.run("resume --dry-run").stdout.contains("Pilot"));
}
