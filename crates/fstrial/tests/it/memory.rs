//! Memory limits, in whole trials: data beyond the limit is read from the device, a program that needs more fails with
//! the limit's name, and no group is left after a kill at any point.

use crate::{
    axes::{fact, groups_in_the_ledger, kill_under_load},
    support::{self, FSTRIAL, Lab, PATIENCE, Running, SMALL},
};
use serde_json::Value;
use std::{fs, path::Path};

/// Whether the memory of a load can be limited here; prints the reason if not.
fn has_limit(name: &str) -> bool {
    if !support::is_root_with_loop_devices(name) {
        return false;
    }
    match fstrial_stack::memory::find() {
        Ok(_) => true,
        Err(error) => {
            support::skip(name, &error.to_string());
            false
        }
    }
}

/// Buffered reads of a file of 64 MiB, from its start to its end and over again.
const READS: &str = r#"
kind = "io"
access = "sequential"
reads = "100%"
direct = false
block_size = "64KiB"
file_size = "64MiB"
threads = [1]
warmup = "300ms"
duration = "400ms"
"#;

/// A program that takes memory: dd with one block.
const HUNGRY: &str = r#"
kind = "program"
threads = [1]
command = ["dd", "if=/dev/zero", "of=/dev/null", "bs=300M", "count=2"]
[[metric]]
name = "wall"
measure = "wall"
"#;

/// A mount that goes away with the test.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        support::unmount(self.0);
    }
}

#[test]
fn a_file_of_twice_the_limit_is_read_from_the_device() {
    let name = "a_file_of_twice_the_limit_is_read_from_the_device";
    if !has_limit(name) {
        return;
    }
    let lab = Lab::new();
    lab.write("reads.toml", READS);
    // A filesystem of the test's own: the device's counters outlive the runs.
    let image = lab.path("disk.img");
    fs::File::create(&image).unwrap().set_len(400 << 20).unwrap();
    support::tool("mkfs.ext4", &["-q", "-F", image.to_str().unwrap()]);
    let device = lab.loop_device(&image);
    let point = lab.path("point");
    fs::create_dir(&point).unwrap();
    support::tool("mount", &[device.path().to_str().unwrap(), point.to_str().unwrap()]);
    let mounted = Mounted(&point);
    for folder in ["a", "b"] {
        fs::create_dir(point.join(folder)).unwrap();
    }
    let stat = Path::new("/sys/block").join(device.path().file_name().unwrap()).join("stat");
    let from_device = || {
        let stat = fs::read_to_string(&stat).unwrap();
        stat.split_whitespace().nth(2).unwrap().parse::<f64>().unwrap() * 512.0
    };
    // Bytes that the loads read while they were measured, and bytes read from the device in the whole trial.
    let read_within = |limit: &str| {
        let before = from_device();
        let words = "a=dir:point/a b=dir:point/b --workload reads.toml --rounds 2 --json";
        let ended = lab.run(&format!("compare {words} --set trial.memory={limit}"));
        let document = ended.document();
        assert_eq!(document["failures"], serde_json::json!([]), "{document}");
        assert!(fact(&document, 0, "memory").contains("MiB by cgroup v"), "{document}");
        let notes = document["environment"]["device_notes"].to_string();
        assert!(notes.contains("memory limited to") && notes.contains("by cgroup v"), "{notes}");
        let warnings = document["warnings"].to_string();
        assert!(!warnings.contains("MEMORY LIMIT"), "reads are limited in both versions: {warnings}");
        let rates = document["workloads"][0]["cells"].as_array().unwrap();
        let rate = |cell: &Value| cell["bytes_per_second"].as_f64().unwrap();
        (rates.iter().map(|cell| rate(cell) * 2.0 * 0.4).sum::<f64>(), from_device() - before)
    };
    let size = f64::from(64 << 20);
    let (loads, device_read) = read_within("32MiB");
    assert!(device_read > loads / 2.0, "of {loads} bytes {device_read} came from the device");
    // Each of the four runs reads the file once, and again whenever another test drops the caches of the machine: one
    // of some trials is left alone.
    let is_read_once = || {
        let (loads, device_read) = read_within("256MiB");
        assert!(device_read >= 4.0 * size, "{device_read}");
        device_read < loads / 4.0
    };
    assert!((0..6).any(|_| is_read_once()), "what fits is read from the device");
    drop(mounted);
    drop(device);
    lab.assert_nothing_left(name);
    assert_eq!(lab.ledger_entries(), Vec::<String>::new());
}

#[test]
fn program_over_memory_limit_fails_with_reason() {
    let name = "program_over_memory_limit_fails_with_reason";
    if !has_limit(name) {
        return;
    }
    let lab = Lab::new();
    lab.write("hungry.toml", HUNGRY);
    let words = "--workload hungry.toml --set device.size=320MiB --device image:images --rounds 2 --json";
    let ended = lab.run(&format!("compare ext4:memory=64MiB roomy=ext4:memory=1GiB {words}"));
    let document = ended.document();
    let failures = document["failures"].to_string();
    assert!(
        failures.contains("its limit of 64 MiB was reached") && failures.contains("raise the limit"),
        "{failures}"
    );
    assert!(!failures.contains("roomy"), "{failures}");
    assert!(
        document["audit"].to_string().contains("memory (as requested): 64 MiB by cgroup v"),
        "{document}"
    );
    lab.assert_nothing_left(name);
    assert_eq!(lab.ledger_entries(), Vec::<String>::new());
}

#[test]
fn worker_oom_kill_reports_memory_limit() {
    let name = "worker_oom_kill_reports_memory_limit";
    if !has_limit(name) {
        return;
    }
    let lab = Lab::new();
    let small = SMALL.replace("--duration 100ms", "--duration 10s");
    let mut running = lab.start(&format!(
        "compare ext4 a=ext4 {small} --device image:images --rounds 1 --set trial.memory=64MiB --json"
    ));
    assert!(running.wait_for("run-started"));
    while running.event().is_some_and(|event| event["stage"] != "load") {}
    let [group] = &groups_in_the_ledger(&lab)[..] else { panic!("one group") };
    // The kernel shall choose the worker, not who takes the memory.
    let worker = fs::read_to_string(group.join("cgroup.procs")).unwrap();
    let worker = Path::new("/proc").join(worker.trim());
    fs::write(worker.join("oom_score_adj"), "1000").unwrap();
    let script = "echo 0 > \"$0/cgroup.procs\" && exec dd if=/dev/zero of=/dev/null bs=300M count=1 2>&1";
    let hog = support::command("sh").args(["-c", script]).arg(group).output().unwrap();
    assert!(!hog.status.success(), "{hog:?}");
    let patience = std::time::Duration::from_secs(3);
    assert!(support::eventually(patience, || !worker.exists()), "it is the worker that was killed");
    let ended = running.end(PATIENCE);
    let failures = ended.document()["failures"].to_string();
    assert!(failures.contains("its limit of 64 MiB was reached"), "{failures} {}", ended.stderr);
    assert!(!group.exists());
    lab.assert_nothing_left(name);
    assert_eq!(lab.ledger_entries(), Vec::<String>::new());
}

#[test]
fn no_group_for_memory_is_left_after_a_kill() {
    let name = "no_group_for_memory_is_left_after_a_kill";
    if !has_limit(name) {
        return;
    }
    let lab = Lab::new();
    for everything in [false, true] {
        kill_under_load(&lab, "ext4 a=ext4:memory=128MiB --set trial.memory=64MiB", everything);
    }
}

#[test]
fn rejects_unworkable_memory_limits() {
    let name = "rejects_unworkable_memory_limits";
    if !has_limit(name) {
        return;
    }
    let lab = Lab::new();
    let refused = |words: &str, code: i32, says: &str| {
        let ended = lab.run(&format!("compare {words} --device image:images"));
        assert_eq!(ended.code(), code, "{words}: {ended:?}");
        assert!(ended.stderr.contains(says), "{words}: {}", ended.stderr);
    };
    refused(&format!("ext4 xfs {SMALL} --set trial.memory=4MiB"), 2, "use 16MiB at least");
    let many = SMALL.replace("--threads 1", "--threads 64");
    refused(&format!("ext4 xfs {many} --set trial.memory=32MiB"), 2, "for itself");
    refused(&format!("ext4 xfs {SMALL} --set trial.memory=900TiB"), 11, "and the machine has");
    lab.assert_nothing_left(name);
}

#[test]
fn unthrottled_buffered_writes_warn_and_decide_no_claim() {
    let name = "unthrottled_buffered_writes_warn_and_decide_no_claim";
    if !has_limit(name) {
        return;
    }
    let is_v1 = fstrial_stack::memory::find().unwrap() == fstrial_model::memory::LimitedBy::V1;
    let lab = Lab::new();
    let writes = READS
        .replace("reads = \"100%\"", "reads = \"0%\"")
        .replace("duration = \"400ms\"", "duration = \"100ms\"");
    lab.write("writes.toml", &writes);
    let words =
        "ext4 a=ext4 --workload writes.toml --set device.size=320MiB --device image:images --rounds 1 --json";
    let document = lab.run(&format!("compare {words} --set trial.memory=256MiB")).document();
    assert_eq!(document["failures"], serde_json::json!([]), "{document}");
    let warned =
        document["warnings"].to_string().contains("THE MEMORY LIMIT DOES NOT EMULATE A SMALL MACHINE");
    assert_eq!(warned, is_v1, "{}", document["warnings"]);
    let claim = format!(
        "[claim]\nid = \"memory\"\nstatement = \"Equal.\"\n[[claim.expect]]\nratio = [\"a\", \"ext4\"]\nwithin = \"50%\"\n\
         [trial]\nmemory = \"32MiB\"\n[device]\nsize = \"320MiB\"\n[[arm]]\nfilesystem = \"ext4\"\n[[arm]]\n\
         name = \"a\"\nfilesystem = \"ext4\"\n[[workload]]\n{writes}"
    );
    lab.write("claim.toml", &claim);
    let shown = lab.run("claims check claim.toml --dry-run");
    assert_eq!(shown.stdout.contains("not testable here"), is_v1, "{shown:?}");
    assert_eq!(shown.stdout.contains("does not slow down writers"), is_v1, "{shown:?}");
}

/// A limit of the command's own group was set on purpose.
#[test]
fn memory_limit_above_own_cgroup_is_refused() {
    let name = "memory_limit_above_own_cgroup_is_refused";
    if !has_limit(name) {
        return;
    }
    let group = Path::new("/sys/fs/cgroup/memory").join(format!("fstrial-test-{}", std::process::id()));
    if fs::create_dir(&group).is_err() {
        return support::skip(name, "the memory controller of cgroup v1 is not there");
    }
    let lab = Lab::new();
    fs::write(group.join("memory.limit_in_bytes"), "200M").unwrap();
    let ended =
        [("--set trial.memory=600MiB", false), ("--set trial.memory=100MiB", true)].map(|(memory, fits)| {
            let words = format!("compare ext4 xfs {SMALL} --device image:images --rounds 1 {memory}");
            let script = format!("echo $$ > {}/cgroup.procs && exec {FSTRIAL} {words}", group.display());
            let mut command = lab.prepare("sh");
            command.args(["-c", &script]);
            (Running::start(command).end(PATIENCE), fits)
        });
    let gone = support::eventually(PATIENCE, || fs::remove_dir(&group).is_ok());
    assert!(gone, "somebody is left in the group");
    for (ended, fits) in ended {
        let is_told = ended.stderr.contains("above the 200 MiB of the control group that fstrial runs in");
        assert_eq!((is_told, ended.code() == 11), (!fits, !fits), "{ended:?}");
    }
    lab.assert_nothing_left("after a limit that is too high");
}
