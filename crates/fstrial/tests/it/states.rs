//! States from outside: prepared once, restored in every run, in the answer with their figures, removed with the
//! command.

use crate::support::{self, Dice, Lab, PATIENCE, Running, say};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

/// A load of a moment on a device that is as small as these states allow.
const LOAD: &str = "--set device.size=360MiB --set workload.warmup=20ms --workload random-write --set workload.file_size=8MiB --threads 1 --device image:images";

/// The figures of an arm in a document.
fn figures<'a>(document: &'a Value, arm: &str) -> &'a Value {
    let arms = document["arms"].as_array().unwrap();
    let result = arms.iter().find(|each| each["name"] == arm).unwrap_or_else(|| panic!("no arm {arm}"));
    &result["facts"]["state"]
}

/// Stages of the runs of a command, in order and without the inspections before.
fn stages_of_runs(events: &[Value]) -> Vec<String> {
    let runs = events.iter().skip_while(|event| event["event"] != "run-started");
    runs.filter(|event| event["event"] == "run-stage")
        .map(|event| event["stage"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn filesystems_are_aged_to_requested_state() {
    let name = "filesystems_are_aged_to_requested_state";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    // The check after every run verifies the restored state.
    let ended = lab.run(&format!(
        "compare ext4 xfs btrfs {LOAD} --duration 100ms --state aged:60%:turnovers=1 --rounds 2 --set trial.fsck=true --seed 3 --json"
    ));
    assert!([0, 3].contains(&ended.code()), "{}", ended.stderr);
    let document = ended.document();
    let mut files = Vec::new();
    for arm in ["ext4", "xfs", "btrfs"] {
        let state = figures(&document, arm);
        let number = |key: &str| state[key].as_f64().unwrap_or_else(|| panic!("{arm} {key}: {state}"));
        assert_eq!(state["asked"], "aged:60%:turnovers=1");
        assert!((number("utilisation") - 60.0).abs() < 1.0, "{arm}: {state}");
        assert!((1.0..1.3).contains(&number("turnovers")), "{arm}: {state}");
        let layout = &state["layout"];
        let score = layout["score"].as_f64().unwrap();
        assert!(score > 0.3 && score < 1.0, "{arm}: an aged filesystem splits files: {state}");
        assert!(layout["extents_per_file"].as_f64().unwrap() > 1.0, "{arm}: {state}");
        // All of the growth comes from the tape; the filler differs by one file.
        files.push(layout["files"].as_u64().unwrap());
        let is_known = !state["free_space"]["known"].is_null();
        assert_eq!(is_known, arm != "btrfs", "{arm}: {state}");
    }
    assert!(files[0] > 100 && files.iter().all(|count| *count == files[0]), "{files:?}");
    let events = ended.json();
    let prepared = events.iter().filter(|event| event["event"] == "state-prepared").count();
    assert_eq!(prepared, 3, "each filesystem once");
    let stages = stages_of_runs(&events);
    assert!(stages.iter().all(|stage| stage != "mkfs"), "{stages:?}");
    assert_eq!(stages.iter().filter(|stage| *stage == "restore").count(), 6, "{stages:?}");
    lab.assert_nothing_left("after a trial of states");
    assert_eq!(lab.ledger_entries(), Vec::<String>::new());
    // The stored result shows the same.
    let shown = lab.run("report --format json").document();
    assert_eq!(figures(&shown, "xfs"), figures(&document, "xfs"));
}

#[test]
fn filled_and_fresh_are_compared_as_two_arms() {
    let name = "filled_and_fresh_are_compared_as_two_arms";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let ended = lab.run(&format!(
        "compare fresh=ext4 full=ext4:state=filled:80% x=xfs:state=filled:75% b=btrfs:state=populated:500 raw {LOAD} --duration 100ms --rounds 1 --json"
    ));
    assert!([0, 3].contains(&ended.code()), "{}", ended.stderr);
    let document = ended.document();
    let share = |arm: &str| figures(&document, arm)["utilisation"].as_f64().unwrap();
    assert!((share("full") - 80.0).abs() < 1.0 && (share("x") - 75.0).abs() < 1.0, "{document}");
    assert!(share("fresh") < 2.0);
    assert_eq!(figures(&document, "b")["files"], 500);
    assert!(figures(&document, "raw").is_null(), "the bare device has no state");
    let audit = document["audit"].to_string();
    assert!(audit.contains("state (as requested): fresh (fresh) · filled:80% (full)"), "{audit}");
    // The fresh arm is restored as well: every run follows the same number of writes.
    let stages = stages_of_runs(&ended.json());
    assert_eq!(stages.iter().filter(|stage| *stage == "restore").count(), 4, "{stages:?}");
    lab.assert_nothing_left("after a trial of states");
}

/// The data is loaded before the first round, twice on each filesystem; all arms of a round begin with the same load,
/// and inserts of a run are gone in the next one.
#[test]
fn records_are_loaded_once_and_restored() {
    let name = "records_are_loaded_once_and_restored";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let words = "compare ext4 xfs b=ext4:scheduler=none --workload ycsb-a,ycsb-d --engine sqlite --state loaded:2 --rounds 4 --duration 300ms \
                 --set device.size=512MiB --set workload.warmup=20ms --set workload.ycsb.records=2000 --set trial.fsck=true \
                 --device image:images --threads 1 --json";
    let ended = lab.run(words);
    assert!([0, 3].contains(&ended.code()), "{}", ended.stderr);
    let (events, document) = (ended.json(), ended.document());
    let prepared: Vec<&Value> = events.iter().filter(|event| event["event"] == "state-prepared").collect();
    assert_eq!(
        prepared.len(),
        4,
        "two loads of the same records for both workloads, shared by the two of ext4"
    );
    let stages = stages_of_runs(&events);
    let count = |stage: &str| stages.iter().filter(|result| *result == stage).count();
    assert_eq!((count("restore"), count("mkfs"), count("check")), (24, 0, 24), "{stages:?}");
    assert_eq!(figures(&document, "xfs")["asked"], "loaded:2, load 1 of ycsb-a and ycsb-d");
    assert!(figures(&document, "xfs")["files"].as_u64().unwrap() > 0);
    for workload in document["workloads"].as_array().unwrap() {
        for cell in workload["cells"].as_array().unwrap() {
            let of_loads = cell["rate_by_load"].as_array().unwrap();
            assert!(of_loads.len() == 2 && of_loads.iter().all(Value::is_f64), "{cell}");
        }
    }
    let shown = lab.run("report --format text");
    assert!(shown.stdout.contains("throughput on each load: xfs / ext4 "), "{}", shown.stdout);
    assert!(!shown.stdout.contains("verdicts hold for"), "two rounds decide nothing: {}", shown.stdout);
    lab.assert_nothing_left("after runs on loads");
    assert_eq!(lab.ledger_entries(), Vec::<String>::new());
}

#[test]
fn a_table_and_the_trials_own_state() {
    let lab = Lab::new();
    let file = |state: &str, arm: &str| {
        format!(
            "[trial]\n{state}\n[device]\nsize = \"400MiB\"\n[[arm]]\nfilesystem = \"ext4\"\n{arm}\n[[arm]]\nfilesystem = \"xfs\"\n\
             [[workload]]\nuse = \"random-write\"\nthreads = [1]\nfile_size = \"8MiB\"\n"
        )
    };
    let table = "state = { kind = \"aged\", utilisation = \"50%\", turnovers = 2 }";
    lab.write("one.toml", &file("state = \"filled:60%\"", table));
    let dry = lab.run("run one.toml --dry-run");
    assert_eq!(dry.code(), 0, "{dry:?}");
    for words in [
        "Once, for ext4",
        "make the state aged:50%:turnovers=2",
        "Once, for xfs",
        "filled:60%",
        "over all of",
    ] {
        assert!(dry.stdout.contains(words), "{words}: {}", dry.stdout);
    }
    for (bad, message) in [
        (file("", "state = \"old\""), "there is no `old`"),
        (file("state = \"aged:99%\"", ""), "99% is out of range"),
        (file("", "state = { kind = \"filled\", files = 3 }"), "`filled` has no `files`"),
        (file("restore = \"move\"", ""), "unknown variant"),
        (file("state = \"filled:98%\"", ""), "too much with the state"),
        (file("state = \"loaded\"", ""), "the state loaded with `random-write`"),
        (file("state = \"loaded:4\"\nrounds = 3", ""), "too few for the state loaded:4"),
        (file("state = \"loaded:4\"", "state = \"loaded:3\""), "another number of loads"),
    ] {
        lab.write("bad.toml", &bad);
        let refused = lab.run("run bad.toml --dry-run");
        assert_eq!(refused.code(), 2, "{refused:?}");
        assert!(refused.stderr.contains(message), "{message}: {}", refused.stderr);
    }
}

#[test]
fn unsupported_states_are_refused() {
    let lab = Lab::new();
    for (words, message) in [
        ("compare raw:state=aged ext4", "the bare device has no files"),
        ("compare dir:a dir:b --state aged", "no arm makes a filesystem"),
        ("compare ext4 xfs --set trial.restore=clone --device ramdisk", "a ramdisk cannot be cloned"),
        (
            "compare ext4 xfs --state filled:95% --set device.size=400MiB --set workload.file_size=64MiB",
            "too much with the state",
        ),
    ] {
        let refused = lab.run(&format!("{words} --workload random-write --dry-run"));
        assert_eq!(refused.code(), 2, "{refused:?}");
        assert!(refused.stderr.contains(message), "{message}: {}", refused.stderr);
        assert!(!lab.home().exists(), "nothing was begun");
    }
}

/// Fails with "cannot clone" before any work on a host without reflinks; clones on a host with them.
#[test]
fn clone_restore_requires_reflink_host() {
    let name = "clone_restore_requires_reflink_host";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let load = LOAD.replace(" --device image:images", "");
    let words = format!(
        "compare ext4 xfs {load} --duration 100ms --state filled:50% --set trial.restore=clone --rounds 1 --json"
    );
    let shares = support::command("cp")
        .args(["--reflink=always", support::FSTRIAL])
        .arg(lab.path("copy"))
        .stderr(std::process::Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if shares {
        support::skip(name, "the refusal: the folder of the tests can share blocks");
    } else {
        let refused = lab.run(&format!("{words} --device image:images"));
        assert_eq!(refused.code(), 11, "{}", refused.stderr);
        assert!(refused.stderr.contains("cannot share blocks"), "{}", refused.stderr);
        assert!(refused.stderr.contains("restore = \"copy\""), "{}", refused.stderr);
        lab.assert_nothing_left("after a refusal");
    }
    let image = lab.path("host.img");
    fs::File::create(&image).unwrap().set_len(3 << 30).unwrap();
    let device = lab.loop_device(&image);
    let (node, point) = (device.path().display().to_string(), lab.path("point"));
    support::tool("mkfs.xfs", &["-q", "-m", "reflink=1", &node]);
    fs::create_dir(&point).unwrap();
    support::tool("mount", &[&node, point.to_str().unwrap()]);
    let ended = lab.run(&format!("{words} --set trial.fsck=true --device image:{}", point.display()));
    support::unmount(&point);
    device.close();
    fs::remove_file(&image).unwrap();
    assert!([0, 3].contains(&ended.code()), "{}", ended.stderr);
    let document = ended.document();
    assert!((figures(&document, "xfs")["utilisation"].as_f64().unwrap() - 50.0).abs() < 1.0);
    assert!(stages_of_runs(&ended.json()).contains(&"restore".to_owned()));
    lab.assert_nothing_left("after clones");
}

/// Files without a name that a process holds open in a folder.
fn nameless(pid: u32, folder: &Path) -> usize {
    let held = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let is_ours =
        |path: std::path::PathBuf| path.starts_with(folder) && path.to_string_lossy().ends_with("(deleted)");
    held.filter_map(|fd| fs::read_link(fd.path()).ok()).filter(|path| is_ours(path.clone())).count()
}

/// Reads events until a stage begins; false if the command ended before.
fn wait_for_stage(running: &mut Running, stage: &str) -> bool {
    while let Some(event) = running.event() {
        if event["event"] == "run-stage" && event["stage"] == stage {
            return true;
        }
    }
    false
}

#[test]
fn command_killed_during_prepare_leaves_nothing() {
    let name = "command_killed_during_prepare_leaves_nothing";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let mut dice = Dice::new(11);
    let lab = Lab::new();
    let folder = lab.images();
    for (stage, longest) in
        [("restore", 300), ("prepare", 1500), ("save", 300), ("restore", 20), ("prepare", 20)]
    {
        let mut running = lab
            .start(&format!("compare ext4 xfs {LOAD} --duration 100ms --state aged:60%:turnovers=2 --json"));
        assert!(wait_for_stage(&mut running, stage), "{stage}");
        support::pause(Duration::from_millis(dice.below(longest)));
        assert_eq!(nameless(running.pid(), &folder), 2, "{stage}: the image and the base are without a name");
        let pid = running.pid();
        running.signal(Signal::KILL);
        assert!(running.end(PATIENCE).is_killed());
        lab.assert_nothing_left(&format!("killed in {stage}"));
        assert_eq!(nameless(pid, &folder), 0);
        assert_eq!(support::names_in(&folder), Vec::<String>::new());
    }
    lab.clean();
    say(&format!("{name}: 5 kills"));
}

#[test]
fn interrupt_during_prepare_cleans_up() {
    let name = "interrupt_during_prepare_cleans_up";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let mut running =
        lab.start(&format!("compare ext4 xfs {LOAD} --duration 100ms --state aged:60%:turnovers=50 --json"));
    assert!(wait_for_stage(&mut running, "prepare"));
    running.signal(Signal::INT);
    let ended = running.end(PATIENCE);
    assert_eq!(ended.code(), 130, "{ended:?}");
    lab.assert_nothing_left("interrupted while it prepares");
    assert_eq!(lab.ledger_entries(), Vec::<String>::new());
}

/// A worker that is killed while it prepares is replaced by another one, which starts over.
#[test]
fn worker_killed_during_prepare_is_replaced() {
    let name = "worker_killed_during_prepare_is_replaced";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let mut running = lab.start(&format!(
        "compare ext4 xfs {LOAD} --duration 100ms --state aged:60%:turnovers=1 --rounds 2 --set trial.fsck=true --json"
    ));
    assert!(wait_for_stage(&mut running, "prepare"));
    let worker = support::worker_of(running.pid()).unwrap();
    support::signal_group(worker, Signal::KILL);
    assert!(running.wait_for("worker-replaced"));
    // One that is killed while it puts the filesystem back costs a run; the next one puts all of it back.
    assert!(running.wait_for("run-started"));
    assert!(wait_for_stage(&mut running, "restore"));
    if let Some(worker) = support::worker_of(running.pid()) {
        support::signal_group(worker, Signal::KILL);
    }
    let ended = running.end(PATIENCE);
    assert!([0, 3].contains(&ended.code()), "{}", ended.stderr);
    let state = figures(&ended.document(), "ext4").clone();
    assert!((state["utilisation"].as_f64().unwrap() - 60.0).abs() < 1.0, "{state}");
    lab.assert_nothing_left("after a worker was replaced");
}

/// The times of a model apply to the measured phase only: at 300 requests a second this state alone would take minutes.
#[test]
fn a_modelled_device_is_quick_until_the_load_begins() {
    let name = "a_modelled_device_is_quick_until_the_load_begins";
    if !Path::new("/dev/fuse").exists() {
        return support::skip(name, "needs FUSE");
    }
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let load = LOAD.replace("image:images", "model:ebs-300");
    let mut running = lab.start(&format!(
        "compare ext4 raw {load} --state aged:60%:turnovers=2:file_size=8KiB --duration 500ms --rounds 1 --json"
    ));
    assert!(running.wait_for("state-preparing"));
    let began = Instant::now();
    assert!(running.wait_for("state-prepared"));
    let took = began.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}: it kept the model's times while it prepared");
    let document = running.end(PATIENCE).document();
    assert!((figures(&document, "ext4")["utilisation"].as_f64().unwrap() - 60.0).abs() < 1.0);
    let cells = document["workloads"][0]["cells"].as_array().unwrap();
    for cell in cells {
        let rate = cell["rate"].as_f64().unwrap();
        assert!(rate < 400.0, "the model's times are not back: {cell}");
    }
    lab.assert_nothing_left("after a state on a modelled device");
}
