//! Kernel messages during a run: errors that ext4 is made to report on the run's own device, and on an unrelated
//! device. Both are real loop devices on files of the test.

use crate::support::{self, Lab, PATIENCE, Running, tool};
use fstrial_stack::kernel_log::KernelLog;
use std::{fs, path::PathBuf};

const TRIAL: &str = "compare mine=ext4 xfs --set device.size=320MiB --duration 2s --set workload.warmup=20ms --workload random-write \
                     --set workload.file_size=16MiB --threads 1 --rounds 1 --device image:images --json";

fn can_run(name: &str) -> bool {
    if let Err(error) = KernelLog::open() {
        support::skip(name, &error.to_string());
        return false;
    }
    support::is_root_with_loop_devices(name)
}

/// Waits until a run of the ext4 arm is under load.
fn wait_for_load(running: &mut Running) {
    let mut is_mine = false;
    while let Some(event) = running.event() {
        if event["event"] == "run-started" {
            is_mine = event["arm"] == "mine";
        }
        if is_mine && event["event"] == "run-stage" && event["stage"] == "load" {
            return;
        }
    }
    panic!("no run came under load");
}

/// The file that makes a mounted ext4 report an error.
fn trigger(device: &str) -> PathBuf {
    PathBuf::from(format!("/sys/fs/ext4/{device}/trigger_fs_error"))
}

#[test]
fn filesystem_error_in_kernel_log_fails_run() {
    if !can_run("kernel_log::filesystem_error_in_kernel_log_fails_run") {
        return;
    }
    let lab = Lab::new();
    let mut running = lab.start(TRIAL);
    wait_for_load(&mut running);
    let device = lab.loop_devices().pop().expect("the run has a loop device").replace("/dev/", "");
    fs::write(trigger(&device), "from a test of fstrial").unwrap();
    let ended = running.end(PATIENCE);
    assert_eq!(ended.code(), 11, "{}", ended.stderr);
    let document = ended.document();
    let failures = document["failures"].as_array().unwrap();
    assert_eq!(failures.len(), 1, "{failures:?}");
    let text = failures[0].to_string();
    for expected in
        ["mine", "load", "the kernel complained", "EXT4-fs error (device ", &device, "from a test of fstrial"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    lab.assert_nothing_left("an error of the filesystem");
}

#[test]
fn kernel_error_on_other_device_is_ignored() {
    if !can_run("kernel_log::kernel_error_on_other_device_is_ignored") {
        return;
    }
    let lab = Lab::new();
    // Not among the images, where the lab would take it for one of the trial's.
    let other = Lab::new();
    fs::File::create(other.path("disk")).unwrap().set_len(32 << 20).unwrap();
    let theirs = other.loop_device(&other.path("disk"));
    let (node, name) = (theirs.path().display().to_string(), theirs.path());
    let name = name.file_name().unwrap().to_string_lossy().into_owned();
    tool("mkfs.ext4", &["-q", "-F", &node]);

    let mut received = KernelLog::open().unwrap();
    let mut running = lab.start(TRIAL);
    wait_for_load(&mut running);
    // In its own mount namespace, so that it disappears with the script.
    let script =
        format!("mount {node} /mnt && echo from a test > {} && umount /mnt", trigger(&name).display());
    tool("unshare", &["--mount", "sh", "-c", &script]);
    let message = received.complaints();
    assert!(
        message.iter().any(|complaint| complaint.names_one_of(std::slice::from_ref(&name))),
        "{message:?}"
    );

    let ended = running.end(PATIENCE);
    // One round decides nothing.
    assert_eq!(ended.code(), 3, "{}", ended.stderr);
    assert_eq!(ended.document()["failures"].as_array().map(Vec::len), Some(0));
    lab.assert_nothing_left("an error of somebody else");
    theirs.close();
    other.assert_nothing_left("the device of somebody else");
}
