//! Every operation on the three filesystems for real, with small trees: its numbers, its tools, and the answer for a
//! filesystem without support. A worker killed while the filesystem is frozen leaves nothing behind.

use crate::support::{self, Ended, Lab, Running};
use rustix::{
    process::Signal,
    thread::{CapabilitySet, capabilities},
};
use serde_json::Value;
use std::{fs, time::Duration};

const IMAGE: &str = "--device image:images --set device.size=640MiB --rounds 1 --json";
const ARMS: [&str; 3] = ["ext4", "xfs", "btrfs"];
/// A freeze long enough for a test to kill the process.
const LONG_FREEZE: &str = "use = 'op-freeze'\nduration = '50ms'\nhold = '50s'\nrepeat = 1\nthreads = [2]";

/// The cells of an answer: section, arm and the cell.
fn cells(ended: &Ended) -> Vec<(String, String, Value)> {
    let document = ended.document();
    let mut cells = Vec::new();
    for section in document["workloads"].as_array().unwrap() {
        for cell in section["cells"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            cells.push((text(&section["phase"]), text(&cell["arm"]), cell.clone()));
        }
    }
    cells
}

/// Runs an operation with a tree of its usual shape but few files (`keys` gives the size) on the three filesystems.
/// `cannot` names the filesystems that answer that they cannot; each of the others has every number, and its tool.
fn operation(name: &str, keys: &str, sections: &[&str], cannot: &[&str]) -> Option<(Lab, Ended)> {
    let test = format!("operation {name}");
    if !support::is_root_with_loop_devices(&test) {
        return None;
    }
    let lab = Lab::new();
    lab.write("op.toml", &format!("use = 'op-{name}'\n{keys}"));
    let ended = lab.run(&format!("compare {} --workload op.toml {IMAGE}", ARMS.join(" ")));
    let able = ARMS.len() - cannot.len();
    // One round decides nothing where two can; where fewer can, there is nothing to decide.
    assert_eq!(ended.code(), if able > 1 { 3 } else { 0 }, "{test}: {}", ended.stderr);
    let result = cells(&ended);
    assert_eq!(result.len(), ARMS.len() * sections.len(), "{test}");
    for (section, arm, cell) in &result {
        let at = format!("{test}, {section}, {arm}: {cell}");
        assert!(sections.contains(&section.as_str()), "{at}");
        assert_eq!(cell["failed"], false, "{at}");
        if cannot.contains(&arm.as_str()) {
            assert!(cell["unsupported"].as_str().is_some_and(|reason| reason.len() > 10), "{at}");
            assert!(cell["rate"].is_null() && cell["runs"] == 0, "{at}");
        } else {
            assert!(cell["unsupported"].is_null(), "{at}");
            assert!(cell["rate"].as_f64().is_some_and(|value| value > 0.0), "{at}");
            let tool = cell["tool"].as_str().unwrap_or_else(|| panic!("{at}"));
            assert!(tool.contains(|c: char| c.is_ascii_digit()), "it names a version: {at}");
        }
    }
    let document = ended.document();
    assert_eq!(document["failures"].as_array().map(Vec::len), Some(0), "{test}");
    let shown = lab.run("report --format json");
    assert_eq!(cells(&shown), result, "{test}: what is stored says the same");
    lab.assert_nothing_left(&test);
    Some((lab, ended))
}

/// The number of one section on one arm.
fn value(ended: &Ended, section: &str, arm: &str) -> f64 {
    let result = cells(ended).into_iter().find(|(name, of, _)| name == section && of == arm);
    result.and_then(|(_, _, cell)| cell["rate"].as_f64()).unwrap_or_else(|| panic!("{section} of {arm}"))
}

#[test]
fn mkfs() {
    operation("mkfs", "repeat = 1", &[""], &[]);
}

#[test]
fn mount() {
    operation("mount", "repeat = 2\ntree = { files = 200 }", &["mount", "unmount"], &[]);
}

#[test]
fn recovery_restores_synced_files() {
    let sections = ["after unclean stop", "after clean stop"];
    let Some((lab, _)) = operation("recovery", "tree = { files = 300 }", &sections, &[]) else { return };
    // The run itself checks that every file exists; the output names the cause of the end.
    let commands = commands(&lab);
    for how in ["EXT4_IOC_SHUTDOWN", "XFS_IOC_GOINGDOWN", "copy restored on"] {
        assert!(commands.contains(how), "{how}: {commands}");
    }
}

/// The commands of all measured runs, as they are stored.
fn commands(lab: &Lab) -> String {
    let store = fstrial_store::Store::open_read_only(lab.home().join("results.db")).unwrap();
    let trial = store.trials().unwrap().pop().unwrap().id;
    let runs = store.runs(trial).unwrap();
    runs.into_iter().filter_map(|run| run.outcome.ok()).flat_map(|measured| measured.commands).collect()
}

#[test]
fn check() {
    operation("check", "tree = { files = 200 }", &[""], &[]);
}

#[test]
fn repair() {
    let Some((lab, _)) = operation("repair", "tree = { files = 200 }", &[""], &[]) else { return };
    let commands = commands(&lab);
    assert!(commands.contains("e2fsck -f -y") && commands.contains("check --repair"), "{commands}");
}

#[test]
fn freeze() {
    let keys = "repeat = 2\nduration = '200ms'\nhold = '100ms'\nthreads = [2]";
    let Some((_, ended)) = operation("freeze", keys, &["freeze", "thaw", "stall"], &[]) else { return };
    for arm in ARMS {
        let stall = value(&ended, "stall", arm);
        assert!(stall >= 100e6, "{arm}: writers wait as long as it is frozen: {stall} ns");
    }
}

#[test]
fn filesystems_without_snapshots_report_unsupported() {
    let result =
        operation("snapshot", "repeat = 2\ntree = { files = 200 }", &["create", "delete"], &["ext4", "xfs"]);
    let Some((lab, ended)) = result else { return };
    let document = ended.document();
    assert_eq!(document["ended"], "decided");
    let verdicts = document["workloads"][0]["verdicts"].as_array().unwrap();
    assert!(verdicts.iter().all(|verdict| verdict["verdict"] == "unsupported"), "{verdicts:?}");
    let shown = lab.run("report --format text");
    assert!(shown.stdout.contains("unsupported on ext4: ext4 has no snapshots"), "{}", shown.stdout);
    assert_eq!(shown.stdout.matches("unsupported on ext4:").count(), 1, "said once: {}", shown.stdout);
}

#[test]
fn defragment_makes_one_extent_of_many() {
    let sections = ["time", "extents before", "extents after", "read before", "read after"];
    let result = operation("defragment", "tree = { files = 4, size = '1MiB' }", &sections, &[]);
    let Some((_, ended)) = result else { return };
    for arm in ["xfs", "btrfs"] {
        let (before, after) = (value(&ended, "extents before", arm), value(&ended, "extents after", arm));
        assert!(before > 100.0 && after < before / 4.0, "{arm}: {before} extents, then {after}");
    }
}

#[test]
fn reflink_copy_compares_only_supporting_filesystems() {
    let result = operation("reflink-copy", "tree = { files = 200 }", &["copy", "space"], &["ext4"]);
    let Some((lab, ended)) = result else { return };
    let document = ended.document();
    let verdicts = document["workloads"][0]["verdicts"].as_array().unwrap();
    let of = |a: &str, b: &str| verdicts.iter().find(|v| v["a"] == a && v["b"] == b).unwrap();
    assert_eq!(of("xfs", "ext4")["verdict"], "unsupported");
    assert!(of("btrfs", "xfs")["ratio"].as_f64().is_some(), "{verdicts:?}");
    let listed = lab.trials();
    assert_eq!(listed[0]["failed_runs"], 0, "an answer is not a failure: {listed:?}");
}

#[test]
fn feature_disabled_by_option_reports_unsupported() {
    if !support::is_root_with_loop_devices("feature_disabled_by_option_reports_unsupported") {
        return;
    }
    let lab = Lab::new();
    lab.write("op.toml", "use = 'op-reflink-copy'\ntree = { files = 50 }");
    let mut command = lab.prepare(support::FSTRIAL);
    let plain = "old=xfs:-m reflink=0,-m rmapbt=0";
    command.args(["compare", "xfs", plain, "btrfs", "--workload", "op.toml"]).args(IMAGE.split(' '));
    let ended = Running::start(command).end(support::PATIENCE);
    assert_eq!(ended.code(), 3, "{}", ended.stderr);
    let old = cells(&ended).into_iter().find(|(_, arm, _)| arm == "old").unwrap().2;
    assert!(old["unsupported"].as_str().is_some_and(|reason| reason.contains("FICLONE")), "{old}");
}

#[test]
fn space() {
    let result = operation("space", "tree = { files = 500, size = '10KiB' }", &[""], &[]);
    let Some((_, ended)) = result else { return };
    for arm in ARMS {
        let each = value(&ended, "", arm);
        assert!((10_240.0..40_960.0).contains(&each), "{arm}: {each} bytes for 10 KiB");
    }
}

#[test]
fn fill() {
    let sections = ["usable", "write", "write nearly full", "delete when full"];
    let Some((_, ended)) = operation("fill", "filesystem_size = '310MiB'", &sections, &[]) else { return };
    for arm in ARMS {
        let usable = value(&ended, "usable", arm) / f64::from(1 << 20);
        assert!((150.0..310.0).contains(&usable), "{arm}: {usable} MiB of 310");
    }
}

#[test]
fn delete_tree() {
    let result = operation("delete-tree", "tree = { files = 300 }", &["delete", "durable"], &[]);
    let Some((_, ended)) = result else { return };
    for arm in ARMS {
        assert!(value(&ended, "durable", arm) >= value(&ended, "delete", arm));
    }
}

#[test]
fn find() {
    operation("find", "tree = { files = 300 }", &["cold", "warm"], &[]);
}

#[test]
fn grow() {
    let sets = capabilities(None).unwrap();
    let is_able = sets.effective.contains(CapabilitySet::SYS_RESOURCE);
    if !is_able {
        support::skip("grow on ext4", "needs the capability CAP_SYS_RESOURCE");
    }
    // Without it, that is the answer of ext4, and the others are judged.
    operation("grow", "tree = { files = 200 }", &[""], if is_able { &[] } else { &["ext4"] });
}

#[test]
fn shrink_reports_unsupported_on_ext4_and_xfs() {
    operation("shrink", "tree = { files = 200 }", &[""], &["ext4", "xfs"]);
}

#[test]
fn directory_arms_run_only_deviceless_operations() {
    let lab = Lab::new();
    for name in ["a", "b"] {
        fs::create_dir(lab.path(name)).unwrap();
    }
    for (name, is_able) in
        [("find", true), ("delete-tree", true), ("space", true), ("mkfs", false), ("fill", false)]
    {
        let tree = if ["mkfs", "fill"].contains(&name) { "" } else { "tree = { files = 100 }" };
        lab.write("op.toml", &format!("use = 'op-{name}'\n{tree}"));
        let ended = lab.run("compare dir:a dir:b --workload op.toml --rounds 1 --json");
        assert_eq!(ended.code(), if is_able { 3 } else { 0 }, "{name}: {}", ended.stderr);
        for (_, _, cell) in cells(&ended) {
            assert_eq!(cell["unsupported"].is_null(), is_able, "{name}: {cell}");
            assert_eq!(cell["rate"].is_null(), !is_able, "{name}: {cell}");
        }
    }
    assert!(fs::read_dir(lab.path("a")).unwrap().next().is_none(), "nothing is left in it");
}

#[test]
fn impossible_operations_are_refused_with_a_remedy() {
    let lab = Lab::new();
    for (text, words) in [
        ("kind = 'operation'", "operation"),
        ("kind = 'operation'\noperation = 'defrag'", "defragment"),
        ("use = 'op-find'\nthreads = [2]", "threads"),
        ("use = 'op-find'\nhold = '1s'", "hold"),
        ("use = 'op-mkfs'\ntree = { files = 5 }", "tree"),
        ("use = 'op-fill'\nfilesystem_size = '4GiB'", "device"),
    ] {
        lab.write("op.toml", text);
        let ended = lab.run("compare ext4 xfs --workload op.toml --set device.size=640MiB --dry-run");
        assert_eq!(ended.code(), 2, "{text}: {ended:?}");
        assert!(ended.stderr.contains(words), "{text}: {}", ended.stderr);
    }
}

#[test]
fn lists_operations_and_shows_their_tools() {
    let lab = Lab::new();
    let listed = lab.run("workloads list");
    let shown = lab.run("workloads show op-defragment");
    assert!(listed.stdout.contains("op-mkfs") && listed.stdout.contains("Operations"), "{}", listed.stdout);
    for words in ["# ext4:       e4defrag", "# xfs:        xfs_fsr", "# btrfs:      btrfs"] {
        assert!(shown.stdout.contains(words), "{words}: {}", shown.stdout);
    }
    let shrink = lab.run("workloads show op-shrink");
    assert!(
        shrink.stdout.contains("# xfs:        unsupported: XFS has no online shrink"),
        "{}",
        shrink.stdout
    );
}

/// A command that is in the middle of a long freeze on this filesystem, with its worker.
fn frozen(lab: &Lab, filesystem: &str) -> (Running, u32) {
    lab.write("op.toml", LONG_FREEZE);
    let other = if filesystem == "ext4" { "xfs" } else { "ext4" };
    let words = format!("compare one={filesystem} two={other} --baseline one --workload op.toml {IMAGE}");
    let mut running = lab.start(&words);
    loop {
        let event = running.event().expect("it goes on");
        if event["event"] == "run-started" && event["arm"] == "one" {
            break;
        }
        // The other arm came first: its freeze is cut short too.
        if event["event"] == "run-started" {
            wait_until_frozen(lab);
            kill_worker(&running);
        }
    }
    wait_until_frozen(lab);
    let worker = support::worker_of(running.pid()).expect("a worker");
    (running, worker)
}

/// The freeze is written down first; the writers write for 50 ms, and then it lasts.
fn wait_until_frozen(lab: &Lab) {
    let written = || {
        let entries = lab.ledger_entries().into_iter();
        let texts = entries.filter_map(|name| fs::read_to_string(lab.ledger().join(name)).ok());
        texts.into_iter().any(|text| text.contains("\"thaw\""))
    };
    assert!(support::eventually(support::PATIENCE, written), "nothing is frozen");
    support::pause(Duration::from_secs(2));
}

fn kill_worker(running: &Running) {
    let outer = support::worker_of(running.pid()).expect("an outer worker");
    let inner = support::worker_of(outer).expect("an inner worker");
    support::kill(inner);
}

#[test]
fn worker_killed_during_freeze_leaves_nothing_frozen() {
    if !support::is_root_with_loop_devices("worker_killed_during_freeze_leaves_nothing_frozen") {
        return;
    }
    for filesystem in ARMS {
        let lab = Lab::new();
        let (mut running, _) = frozen(&lab, filesystem);
        kill_worker(&running);
        // The run is lost, for the reason that its worker was killed, and the device is free for the next one.
        let ended = loop {
            let event = running.event().expect("it goes on");
            if event["event"] == "run-ended" {
                break event;
            }
        };
        assert_eq!(ended["failure"]["kind"], "lost", "{filesystem}: {ended}");
        running.signal(Signal::INT);
        running.end(support::PATIENCE);
        lab.assert_nothing_left(filesystem);
        assert_eq!(lab.ledger_entries(), Vec::<String>::new(), "{filesystem}");
    }
}

#[test]
fn interrupted_freeze_leaves_nothing_frozen() {
    if !support::is_root_with_loop_devices("interrupted_freeze_leaves_nothing_frozen") {
        return;
    }
    let lab = Lab::new();
    let (running, _) = frozen(&lab, "xfs");
    running.signal(Signal::INT);
    assert_eq!(running.end(support::PATIENCE).code(), 130);
    lab.assert_nothing_left("interrupted");
    assert_eq!(lab.ledger_entries(), Vec::<String>::new());
}

#[test]
fn clean_thaws_freeze_of_killed_command() {
    if !support::is_root_with_loop_devices("clean_thaws_freeze_of_killed_command") {
        return;
    }
    for filesystem in ARMS {
        let lab = Lab::new();
        let (running, outer) = frozen(&lab, filesystem);
        support::kill(running.pid());
        support::signal_group(outer, Signal::KILL);
        assert!(running.end(support::PATIENCE).is_killed());
        // A frozen filesystem blocks its device and its writers: no other process could undo this.
        support::pause(Duration::from_secs(1));
        assert!(!lab.leaks().is_empty(), "{filesystem}: it was not frozen, and this test says nothing");
        lab.clean();
        lab.assert_nothing_left(filesystem);
    }
}
