//! Modelled devices, for real: FUSE, loop devices and filesystems; the serving process killed at any moment; and the
//! user's view of a model that is not available.

use crate::support::{self, Ended, FSTRIAL, Lab, PATIENCE, Running, SETTLE, command_line, eventually};
use rustix::process::Signal;
use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

/// A trial on a modelled device, as small as filesystems allow.
const TRIAL: &str = "compare ext4 xfs --set device.size=320MiB --duration 100ms --set workload.warmup=20ms --workload random-write \
                     --set workload.file_size=16MiB --threads 1 --json";

fn can_run(name: &str) -> bool {
    if !Path::new("/dev/fuse").exists() {
        support::skip(name, "needs FUSE");
        return false;
    }
    support::is_root_with_loop_devices(name)
}

/// The process that serves the device of a command.
fn server_of(command: u32) -> Option<u32> {
    support::children_of(command).into_iter().find(|pid| command_line(*pid).contains("device-server"))
}

/// Loop devices on the files of modelled devices of a command.
fn loops_of(command: u32) -> Vec<String> {
    let name = format!("/fstrial-{command}-");
    let backs = |device: &String| {
        let backing = fs::read_to_string(format!("/sys/block/{device}/loop/backing_file"));
        backing.is_ok_and(|path| path.contains(&name))
    };
    support::names_in(Path::new("/sys/block")).into_iter().filter(backs).collect()
}

fn assert_nothing_left(lab: &Lab, command: u32, when: &str) {
    lab.assert_nothing_left(when);
    assert!(eventually(SETTLE, || loops_of(command).is_empty()), "{when}: {:?}", loops_of(command));
}

/// Runs a command in a mount namespace in which a file is something else.
fn run_with(lab: &Lab, hidden: &str, words: &str) -> Ended {
    let script = format!("mount --bind /dev/null {hidden} && exec \"$0\" \"$@\"");
    let mut command: Command = lab.prepare("unshare");
    command.args(["--mount", "sh", "-c", &script, FSTRIAL]).args(words.split_whitespace());
    Running::start(command).end(PATIENCE)
}

/// A controller with a battery-backed cache gets no flushes by default: a commit does not wait for twelve disks.
#[test]
fn model_sets_cache_mode_and_rotational_flag() {
    if !can_run("model_sets_cache_mode_and_rotational_flag") {
        return;
    }
    let lab = Lab::new();
    let words = "compare ext4 btrfs --set device.size=320MiB --duration 300ms --set workload.warmup=20ms --workload append-fsync --set workload.file_size=16MiB --threads 2 \
                 --rounds 1 --json --device model:raid10-bbwc";
    let ended = lab.run(words);
    assert_eq!(ended.code(), 3, "{ended:?}");
    let document = ended.document();
    for arm in document["arms"].as_array().unwrap() {
        let facts = &arm["facts"]["facts"];
        assert_eq!(
            (&facts["cache-mode"], &facts["rotational"]),
            (&"write through".into(), &"yes".into()),
            "{facts}"
        );
        assert_eq!(arm["facts"]["queue"]["rotational"], "1", "{arm}");
    }
    // With flushes there are 180 in a second.
    let rate = document["workloads"][0]["cells"][0]["rate"].as_f64().unwrap();
    assert!(rate > 500.0, "{rate}");
    // On the real disk it does rotate, and no doubt is reported. On an image the flag comes from the host, and is
    // reported as doubtful.
    assert!(!document["warnings"].to_string().contains("without `ssd`"), "{}", document["warnings"]);
    let ended = lab.run(&words.replace("model:raid10-bbwc", "image:images"));
    let document = ended.document();
    let rotates = document["arms"][1]["facts"]["facts"]["rotational"] == "yes";
    let is_doubted = document["warnings"].to_string().contains("btrfs runs without `ssd`");
    assert_eq!(is_doubted, rotates, "{}", document["warnings"]);
}

#[test]
fn modelled_trial_is_labelled_and_leaves_nothing() {
    if !can_run("device::modelled_trial_is_labelled_and_leaves_nothing") {
        return;
    }
    let lab = Lab::new();
    let running = lab.start(&format!("{TRIAL} --device model:ebs-300 --rounds 2"));
    let command = running.pid();
    let document = running.end(PATIENCE).document();
    let conditions = document["environment"].to_string();
    assert!(conditions.contains("modelled: ebs-300"), "{conditions}");
    assert!(conditions.contains("times come from a model"), "{conditions}");
    for cell in document["workloads"][0]["cells"].as_array().unwrap() {
        let rate = cell["rate"].as_f64().unwrap_or_else(|| panic!("{cell}"));
        // Direct writes of existing blocks: the granted rate, or a little less where a filesystem adds writes.
        assert!((100.0..=310.0).contains(&rate), "{rate} in {cell}");
    }
    assert_nothing_left(&lab, command, "a whole trial");
}

#[test]
fn the_stored_trial_holds_the_model() {
    if !can_run("device::the_stored_trial_holds_the_model") {
        return;
    }
    let lab = Lab::new();
    lab.write("mine.toml", "[limits]\niops = 1000\n");
    let ended = lab.run(&format!("{TRIAL} --device model:mine.toml --rounds 1"));
    assert!(ended.stdout.contains("modelled: mine"), "{}", &ended.stderr);
    fs::remove_file(lab.path("mine.toml")).unwrap();
    let stored = lab.run("results export --format toml");
    assert!(stored.stdout.contains("iops = 1000"), "{}", stored.stdout);
}

/// The worker gets EIO, the run is lost without counting as the arm's failure, another process takes over, and the
/// trial continues.
#[test]
fn device_server_death_loses_run_not_trial() {
    if !can_run("device::device_server_death_loses_run_not_trial") {
        return;
    }
    let mut dice = support::Dice::new(40);
    for stage in ["mkfs", "mount", "layout", "load", "unmount"] {
        let lab = Lab::new();
        let mut running = lab.start(&format!("{TRIAL} --device model:gp3-3000 --rounds 2"));
        let command = running.pid();
        let mut in_run = false;
        while let Some(event) = running.event() {
            in_run |= event["event"] == "run-started";
            if in_run && event["event"] == "run-stage" && event["stage"] == stage {
                break;
            }
        }
        support::pause(Duration::from_millis(dice.below(20)));
        let first = server_of(command).unwrap_or_else(|| panic!("{stage}: nobody serves the device"));
        support::kill(first);
        assert!(
            eventually(PATIENCE, || server_of(command).is_some_and(|now| now != first) || running.is_over()),
            "{stage}: nobody took over"
        );
        let ended = running.end(PATIENCE);
        let document = ended.document();
        let failures = document["failures"].as_array().map_or(0, Vec::len);
        assert_eq!(failures, 0, "{stage}: {}", document["failures"]);
        assert!(matches!(ended.code(), 0 | 3), "{stage}: {}", ended.code());
        assert_nothing_left(&lab, command, stage);
    }
}

/// A stopped process answers no request: the run is lost, another process takes over, and the waiting requests
/// complete.
#[test]
fn a_stopped_server_loses_a_run_and_not_the_trial() {
    if !can_run("device::a_stopped_server_loses_a_run_and_not_the_trial") {
        return;
    }
    for stage in ["mkfs", "load", "unmount"] {
        let lab = Lab::new();
        let mut running = lab.start(&format!("{TRIAL} --device model:gp3-3000 --rounds 2"));
        let command = running.pid();
        assert!(running.wait_for("run-started"));
        while running.event().is_some_and(|event| event["stage"] != stage) {}
        let first = server_of(command).unwrap_or_else(|| panic!("{stage}: nobody serves the device"));
        support::send(first, Signal::STOP);
        let stopped = Instant::now();
        // The whole machine waits meanwhile, but not forever.
        support::tool("sync", &[]);
        assert!(stopped.elapsed() < PATIENCE, "{stage}: {:?}", stopped.elapsed());
        assert!(
            eventually(PATIENCE, || server_of(command).is_some_and(|now| now != first) || running.is_over()),
            "{stage}: nobody took over"
        );
        let mut reasons = String::new();
        while let Some(event) = running.event() {
            reasons.push_str(event["failure"]["what"].as_str().unwrap_or_default());
        }
        let ended = running.end(PATIENCE);
        assert!(matches!(ended.code(), 0 | 3), "{stage}: {ended:?}");
        assert!(
            stage == "unmount" || reasons.contains("sent nothing for 6 s"),
            "{stage}: {reasons} {ended:?}"
        );
        assert_nothing_left(&lab, command, stage);
    }
}

#[test]
fn ctrl_c_works_while_device_server_is_stopped() {
    if !can_run("device::ctrl_c_works_while_device_server_is_stopped") {
        return;
    }
    for (stage, wait) in [("load", 0), ("mkfs", 300), ("layout", 1000), ("load", 3000)] {
        let lab = Lab::new();
        let mut running = lab.start(&format!("{TRIAL} --device model:hdd-7200"));
        let command = running.pid();
        assert!(running.wait_for("run-started"));
        while running.event().is_some_and(|event| event["stage"] != stage) {}
        support::send(server_of(command).expect("somebody serves the device"), Signal::STOP);
        support::pause(Duration::from_millis(wait));
        running.signal(Signal::INT);
        let signalled = Instant::now();
        let ended = running.end(PATIENCE);
        let took = signalled.elapsed();
        assert!(took < Duration::from_secs(60), "{stage} {wait}: {took:?}");
        assert_eq!(ended.code(), 130, "{stage} {wait}: {ended:?}");
        assert!(ended.stderr.contains("interrupted: ending the run"), "{ended:?}");
        assert_nothing_left(&lab, command, stage);
    }
}

#[test]
fn killed_command_removes_its_device() {
    if !can_run("device::killed_command_removes_its_device") {
        return;
    }
    let mut dice = support::Dice::new(41);
    for _ in 0..6 {
        let lab = Lab::new();
        let mut running = lab.start(&format!("{TRIAL} --device model:sata-ssd --rounds 3"));
        let command = running.pid();
        if dice.below(3) > 0 {
            running.wait_for("run-started");
        }
        support::pause(Duration::from_millis(dice.below(400)));
        running.signal(Signal::KILL);
        assert!(running.end(PATIENCE).is_killed());
        assert_nothing_left(&lab, command, "SIGKILL");
        lab.clean();
        lab.check_store();
    }
}

#[test]
fn interrupted_modelled_trial_prints_partial_answer() {
    if !can_run("device::interrupted_modelled_trial_prints_partial_answer") {
        return;
    }
    let lab = Lab::new();
    let mut running = lab.start_group(&format!("{TRIAL} --device model:ebs-300"));
    let command = running.pid();
    running.wait_for("run-ended");
    support::signal_group(command, Signal::INT);
    let ended = running.end(PATIENCE);
    assert_eq!(ended.code(), 130);
    ended.document();
    assert_nothing_left(&lab, command, "Ctrl-C");
}

fn error_of(ended: &Ended, code: i32) -> String {
    assert_eq!(ended.code(), code, "{}", ended.stderr);
    ended.stderr.clone()
}

#[test]
fn missing_fuse_is_reported() {
    if !can_run("device::missing_fuse_is_reported") {
        return;
    }
    let lab = Lab::new();
    let ended = run_with(&lab, "/dev/fuse", &format!("{TRIAL} --device model:ideal"));
    let message = error_of(&ended, 11);
    assert!(message.contains("needs FUSE") && message.contains("try"), "{message}");
    lab.assert_nothing_left("no FUSE");
}

#[test]
fn missing_loop_devices_are_reported() {
    if !can_run("device::missing_loop_devices_are_reported") {
        return;
    }
    let lab = Lab::new();
    let ended = run_with(&lab, "/dev/loop-control", &format!("{TRIAL} --device model:ideal"));
    let message = error_of(&ended, 11);
    assert!(message.contains("loop"), "{message}");
    lab.assert_nothing_left("no loop devices");
}

#[test]
fn device_larger_than_memory_is_refused_up_front() {
    if !can_run("device::device_larger_than_memory_is_refused_up_front") {
        return;
    }
    let lab = Lab::new();
    let words = TRIAL.replace("320MiB", "2TiB");
    let message = error_of(&lab.run(&format!("{words} --device model:ideal")), 11);
    assert!(message.contains("more memory than is free") && message.contains("its size"), "{message}");
    lab.assert_nothing_left("too large");
}

#[test]
fn model_errors_name_their_location() {
    let lab = Lab::new();
    lab.write("bad.toml", "[limits]\niops = \"many\"\n");
    for (name, expected) in [
        ("model:gp4", "there is no device model `gp4`"),
        ("model", "names no model"),
        ("model:bad.toml", "bad.toml:2:8"),
        ("model:missing.toml", "missing.toml"),
    ] {
        let message = error_of(&lab.run(&format!("{TRIAL} --device {name}")), 2);
        assert!(message.contains(expected), "{name}: {message}");
    }
    lab.assert_nothing_left("wrong models");
}

#[test]
fn models_are_listed_and_shown() {
    let lab = Lab::new();
    let listed = lab.run("device list");
    assert!(listed.stdout.contains("gp3-3000") && listed.stdout.contains("hdd-7200"), "{}", listed.stdout);
    let shown = lab.run("device show gp3-3000");
    lab.write("copy.toml", &shown.stdout);
    let message = lab.run("device show copy.toml");
    assert!(message.stdout.contains("iops = 3000"), "{}", message.stdout);
}

/// Half the requested rate, and no more than the rate: the bounds that hold on this machine while other tests run
/// alongside.
#[test]
fn modelled_device_respects_its_limits() {
    if !can_run("device::modelled_device_respects_its_limits") {
        return;
    }
    let lab = Lab::new();
    let ended = lab.run("device check ebs-300 --size 64MiB --json");
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let checked: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    for row in checked.as_array().unwrap().iter().filter(|row| row["depth"] == 32) {
        let (requested, got) =
            (row["requested"]["iops"].as_f64().unwrap(), row["got"]["iops"].as_f64().unwrap());
        assert!((295.0..305.0).contains(&requested), "{row}");
        assert!((0.5..1.02).contains(&(got / requested)), "{row}");
    }
    lab.assert_nothing_left("a check");
}

#[test]
fn fits_model_to_device_without_writing() {
    if !can_run("device::fits_model_to_device_without_writing") {
        return;
    }
    let lab = Lab::new();
    let content: Vec<u8> = (0..64_u32 << 20).map(|n| (n >> 7).to_le_bytes()[0]).collect();
    fs::write(lab.path("disk"), &content).unwrap();
    let device = lab.loop_device(&lab.path("disk"));
    let path = device.path().display().to_string();
    let ended = lab.run(&format!("device fit {path} --out fitted.toml"));
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("s left"), "it says how long it takes: {}", ended.stderr);
    assert!(fs::read(lab.path("disk")).unwrap() == content, "nothing was written");
    let shown = lab.run("device show fitted.toml");
    assert_eq!(shown.code(), 0, "{}", shown.stderr);
    assert!(shown.stdout.contains("writes are taken to be like reads"), "{}", shown.stdout);
    // Writing needs the device's name twice, and a disk in use is refused like any other.
    let refused = lab.run(&format!("device fit {path} --erase /dev/null"));
    assert_ne!(refused.code(), 0);
    assert!(fs::read(lab.path("disk")).unwrap() == content, "nothing was written");
    device.close();
}

#[test]
fn discards_reach_supporting_modelled_device() {
    if !can_run("device::discards_reach_supporting_modelled_device") {
        return;
    }
    let lab = Lab::new();
    let words = TRIAL.replace("ext4 xfs", "a=ext4 b=ext4:discard=on,discard");
    let ended = lab.run(&format!("{words} --device model:nvme --rounds 1"));
    let facts = ended.stdout.lines().last().unwrap_or_default().to_owned();
    assert!(matches!(ended.code(), 0 | 3), "{} {}", ended.code(), ended.stderr);
    assert!(facts.contains("discard"), "the audit shows it");
    let refused = lab.run(&format!("{words} --device model:ebs-300 --rounds 1"));
    assert_eq!(refused.code(), 11, "{}", refused.stderr);
    assert!(refused.stderr.contains("discard"), "{}", refused.stderr);
    lab.assert_nothing_left("discards");
}
