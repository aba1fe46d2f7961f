//! Every native preset on real filesystems, made so small that all of them take a minute or two: the output of `fstrial
//! workloads show`, with smaller numbers, is a user's file.

use crate::support::{self, Lab};
use fstrial_model::preset;
use serde_json::Value;
use std::{collections::BTreeSet, thread, time::Duration};

/// One trial of everything.
const PATIENCE: Duration = Duration::from_secs(420);

/// Amounts in presets, and small ones.
const SMALLER: [(&str, &str); 27] = [
    ("\"1GiB\"", "\"16MiB\""),
    ("\"512MiB\"", "\"8MiB\""),
    ("\"256MiB\"", "\"8MiB\""),
    ("\"128MiB\"", "\"4MiB\""),
    ("\"64MiB\"", "\"4MiB\""),
    ("\"48MiB\"", "\"4MiB\""),
    ("\"32MiB\"", "\"2MiB\""),
    ("\"10MiB\"", "\"1MiB\""),
    (", size = \"8MiB\"", ", size = \"256KiB\""),
    ("block_size = \"16MiB\"", "block_size = \"4MiB\""),
    ("\"3MiB\"", "\"4KiB\""),
    ("requests = 3145728", "requests = 4096"),
    ("requests = 200000", "requests = 2000"),
    ("requests = 100000", "requests = 2000"),
    ("files = 65536", "files = 300"),
    ("files = 16384", "files = 300"),
    ("files = 20000", "files = 300"),
    ("files = 2500", "files = 200"),
    ("files = 1000,", "files = 200,"),
    ("number = 20000", "number = 300"),
    ("transactions = 50000", "transactions = 600"),
    ("batch = 8192", "batch = 64"),
    ("interval = \"5s\"", "interval = \"50ms\""),
    ("files = 128\n", "files = 8\n"),
    ("delay 1s", "delay 20ms"),
    ("records = 50000", "records = 500"),
    ("records = 4000", "records = 200"),
];

/// The text of a preset with smaller numbers, and a short time if it has a time limit.
fn small(shown: &Value) -> String {
    let mut text = shown["text"].as_str().unwrap().to_owned();
    for (written, smaller) in SMALLER {
        text = text.replace(written, smaller);
    }
    let is_time = |line: &&str| line.starts_with("warmup = ") || line.starts_with("duration = ");
    let kept: Vec<&str> = text.lines().filter(|line| !is_time(line)).collect();
    let ends = ["until = \"done\"", "order = \"own\"", "[postmark]", "workload = \"load\""];
    if ends.into_iter().any(|word| text.contains(word)) {
        return kept.join("\n") + "\n";
    }
    format!("warmup = \"20ms\"\nduration = \"200ms\"\n{}\n", kept.join("\n"))
}

/// Runs workload files on all filesystems, notes which of them gave results, and gives those that were too slow for
/// their time. Any other failure fails the test.
fn run(lab: &Lab, files: &[String], flags: &str, seen: &mut BTreeSet<String>) -> Vec<String> {
    let words = format!(
        "compare ext4 xfs btrfs --device image:images --set device.size=320MiB --threads 2 --rounds 1 --budget 30m --json {flags} \
         --workload {}",
        files.join(",")
    );
    let ended = lab.start(&words).end(PATIENCE);
    let events: Vec<Value> = ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let runs = events.iter().filter(|event| event["event"] == "run-ended");
    let mut late = BTreeSet::new();
    for run in runs {
        let name = run["workload"].as_str().unwrap().to_owned();
        match &run["failure"] {
            Value::Null => {
                let rates = run["rates"].as_array().unwrap();
                assert!(!rates.is_empty() && rates.iter().all(|rate| rate.as_f64().unwrap() > 0.0), "{run}");
                seen.insert(format!("{name} {}", run["arm"].as_str().unwrap()));
            }
            failure if support::is_stall(failure) => {
                late.insert(format!("{name}.toml"));
            }
            _ => panic!("{run}"),
        }
    }
    // 11: some arm failed, which those that were late are.
    let codes: &[i32] = if late.is_empty() { &[0, 3] } else { &[0, 3, 11] };
    assert!(codes.contains(&ended.code()), "{}", ended.stderr);
    late.into_iter().collect()
}

#[test]
fn every_preset_runs_on_every_filesystem() {
    let name = "every_preset_runs_on_every_filesystem";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let listed = Lab::new().run("workloads list --json");
    let native: Vec<String> = listed
        .json()
        .iter()
        .map(|line| line["name"].as_str().unwrap().to_owned())
        // The tools themselves, the operations, and the servers and engines in other programs have separate tests.
        .filter(|name| {
            let others = ["real-", "op-", "postgresql-", "mariadb-"];
            preset::helper(name).is_none() && !others.iter().any(|other| name.starts_with(other))
        })
        .collect();
    assert!(native.len() > 35, "{native:?}");
    // Half of them side by side with the other half: runs mostly wait for the disk.
    let seen: BTreeSet<String> = thread::scope(|scope| {
        let halves = native.chunks(native.len().div_ceil(2));
        let running: Vec<_> = halves.map(|names| scope.spawn(|| run_all(names))).collect();
        running.into_iter().flat_map(|half| half.join().unwrap()).collect()
    });
    for name in &native {
        for arm in ["ext4", "xfs", "btrfs"] {
            assert!(seen.contains(&format!("{name} {arm}")), "{name} on {arm}: {seen:?}");
        }
    }
}

/// Runs presets, made small, in one command; which of them gave results on which filesystem.
fn run_all(names: &[String]) -> BTreeSet<String> {
    let lab = Lab::new();
    let files: Vec<String> = names
        .iter()
        .map(|name| {
            let shown = lab.run(&format!("workloads show {name} --json")).json().pop().unwrap();
            lab.write(&format!("{name}.toml"), &small(&shown));
            format!("{name}.toml")
        })
        .collect();
    // If a busy machine completed nothing in that time, again with longer.
    let mut seen = BTreeSet::new();
    let late = run(&lab, &files, "", &mut seen);
    if !late.is_empty() {
        assert_eq!(run(&lab, &late, "--duration 4s", &mut seen), Vec::<String>::new());
    }
    lab.assert_nothing_left("after all presets");
    seen
}

#[test]
fn shown_preset_can_be_copied_and_run() {
    let lab = Lab::new();
    let listed = lab.run("workloads");
    for words in ["sysbench fileio", "varmail", "Databases", "wal-group-commit"] {
        assert!(listed.stdout.contains(words), "{words}: {listed:?}");
    }
    let shown = lab.run("workloads show bonnie");
    for words in
        ["# From:", "block-write (bytes/s)", "seeks (op/s)", "# Durability: ", "# Space: ", "[[phase]]"]
    {
        assert!(shown.stdout.contains(words), "{words}: {shown:?}");
    }
    lab.write("mine.toml", &shown.stdout);
    let words = "compare ext4 xfs --device image:images --workload mine.toml --dry-run";
    let planned = lab.run(words);
    assert_eq!(planned.code(), 0, "{planned:?}");
    let wrong = lab.run("workloads show sysbench-rndrv");
    assert!(wrong.stderr.contains("did you mean `sysbench-rndr"), "{wrong:?}");
}
