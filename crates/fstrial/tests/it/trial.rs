//! Whole trials: a saved trial runs again, the printed answer is the stored one, and every form of a trial gives the
//! same trial.

use crate::support::{self, Lab, PATIENCE, SMALL};
use serde_json::Value;
use std::{collections::BTreeSet, fs};

/// Events and documents of a small image trial.
fn small(lab: &Lab, words: &str) -> support::Ended {
    lab.run(&format!("compare {words} {SMALL} --device image:images"))
}

fn verdicts(document: &Value) -> Vec<Value> {
    let workloads = document["workloads"].as_array().unwrap().iter();
    workloads.flat_map(|workload| workload["verdicts"].as_array().unwrap().clone()).collect()
}

#[test]
fn a_saved_trial_runs_and_is_the_same() {
    let name = "a_saved_trial_runs_and_is_the_same";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let arms = "fast=xfs:agcount=2,noatime ext4:scheduler=none";
    let flags = "--rounds 4 --seed 7 --save t.toml --json";
    let compared = small(&lab, &format!("{arms} {flags}"));
    assert!([0, 3].contains(&compared.code()), "{compared:?}");
    let again = lab.run("run t.toml --json");
    assert!([0, 3].contains(&again.code()), "{again:?}");
    let (one, two) = (compared.document(), again.document());
    for same in ["trial", "seed", "name", "practical_percent"] {
        assert_eq!(one[same], two[same], "{same}");
    }
    let configurations = |document: &Value| -> Vec<Value> {
        document["arms"].as_array().unwrap().iter().map(|arm| arm["configuration"].clone()).collect()
    };
    assert_eq!(configurations(&one), configurations(&two));
    let order = |ended: &support::Ended| -> Vec<(Value, Value)> {
        let started = ended.json().into_iter().filter(|event| event["event"] == "run-started");
        started.map(|event| (event["round"].clone(), event["arm"].clone())).collect()
    };
    let (first, second) = (order(&compared), order(&again));
    let both = first.len().min(second.len());
    assert_eq!(first[..both], second[..both], "one seed, one order");
    let facts = |document: &Value| document["arms"][0]["facts"]["facts"].clone();
    assert_eq!(facts(&one), facts(&two));
    lab.assert_nothing_left("after two trials");
    assert_eq!(lab.ledger_entries(), Vec::<String>::new());
}

const TABLES: &str = r#"
[trial]
name = "one"
seed = 9

[device]
kind = "image"
path = "images"
size = "320MiB"

[[arm]]
name = "ext4"
filesystem = "ext4"

[[arm]]
name = "x"
filesystem = "xfs"
mkfs = ["-d", "agcount=2"]
mount = ["noatime"]
scheduler = "none"

[[workload]]
use = "random-write"
threads = [1]
file_size = "16MiB"
warmup = "20ms"
duration = "100ms"
"#;

#[test]
fn flags_and_trial_files_plan_same_trial() {
    let lab = Lab::new();
    lab.write("tables.toml", TABLES);
    let short = format!(
        "compare ext4 x=xfs:agcount=2,noatime,scheduler=none {SMALL} --device image:images --seed 9 --set trial.name=one"
    );
    lab.save(&short, "saved.toml");
    let from_flags = lab.run(&format!("{short} --dry-run"));
    assert_eq!(from_flags.code(), 0, "{from_flags:?}");
    for file in ["tables.toml", "saved.toml"] {
        let from_file = lab.run(&format!("run {file} --dry-run"));
        assert_eq!(from_file.code(), 0, "{from_file:?}");
        assert_eq!(from_file.stdout, from_flags.stdout, "{file}");
    }
    for words in ["mkfs.xfs", "agcount=2", "mkfs.ext4", "undo", "Round 1", "seed 0x9"] {
        assert!(from_flags.stdout.contains(words), "{words}: {}", from_flags.stdout);
    }
}

#[test]
fn dry_run_touches_nothing() {
    let lab = Lab::new();
    for device in [
        "image:images --set device.size=320MiB",
        "ramdisk --set device.size=320MiB",
        "disk --erase /dev/null",
    ] {
        let load = SMALL.replace("--set device.size=320MiB", "");
        let dry = lab.run(&format!("compare ext4 xfs:-K,nobarrier raw {load} --device {device} --dry-run"));
        assert_eq!(dry.code(), 0, "{dry:?}");
        assert!(dry.stdout.contains("undo"), "{dry:?}");
        assert!(!lab.home().exists(), "no store, no ledger");
        assert_eq!(support::names_in(&lab.root()), ["images"]);
        assert_eq!(lab.leaks(), Vec::<String>::new());
    }
}

#[test]
fn dry_run_estimates_power_of_budget() {
    let lab = Lab::new();
    let dry = |flags: &str| lab.run(&format!("compare ext4 xfs {SMALL} {flags} --dry-run"));
    let enough = dry("--budget 5m").stdout;
    for words in ["An estimate from the plan alone", "that makes", "90 % power", "differ by 5 %"] {
        assert!(enough.contains(words), "{words}: {enough}");
    }
    let short = dry("--budget 1s").stdout;
    assert!(short.contains("warning, by this estimate:") && short.contains("Use --budget "), "{short}");
    assert!(!short.contains("90 % power"), "{short}");
    let few = dry("--rounds 2 --budget 5m").stdout;
    assert!(few.contains("2 rounds are too few") && few.contains("Use 7 rounds"), "{few}");
    let lines = dry("--budget 5m --json").json();
    let budget = &lines[0]["budget"];
    assert_eq!((lines.len(), &lines[0]["event"]), (1, &Value::from("dry-run")));
    assert!(budget["rounds"].as_u64() > budget["least_rounds"].as_u64() && budget["warning"].is_null());
    let differences = budget["differences"].as_array().unwrap();
    let [quiet, noisy] = [0, 2].map(|at| differences[at]["difference_percent"].as_f64().unwrap());
    assert!(quiet < noisy && noisy < 100.0, "{budget}");
}

#[test]
fn a_filesystem_against_itself_has_the_structure_of_an_answer() {
    let name = "a_filesystem_against_itself_has_the_structure_of_an_answer";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let ended = small(&lab, "a=ext4 b=ext4 --rounds 5 --seed 3 --json");
    assert!([0, 3].contains(&ended.code()), "{ended:?}");
    let events = ended.json();
    let document = ended.document();
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    assert_eq!(kinds.iter().find(|kind| **kind != "device-progress"), Some(&"device-ready"));
    assert_eq!(kinds.iter().filter(|kind| **kind == "arm-inspected").count(), 2);
    assert_eq!(kinds.iter().filter(|kind| **kind == "first-round-timed").count(), 1);
    assert_eq!(kinds.len(), events.len(), "each line says what it is");
    assert_eq!(kinds.iter().position(|kind| *kind == "answer"), Some(kinds.len() - 1), "one document, last");
    let times: Vec<jiff::Timestamp> =
        events.iter().map(|event| event["time"].as_str().unwrap().parse().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let count = |kind: &str| kinds.iter().filter(|result| **result == kind).count();
    assert_eq!(count("run-started"), count("run-ended"));
    assert_eq!(count("round-started"), count("verdicts-updated"));
    let audited = events.iter().find(|event| event["event"] == "audited").unwrap();
    assert_eq!(audited["lines"], Value::Array(Vec::new()), "an arm does not differ from itself");
    let rounds = document["rounds"].as_u64().unwrap();
    for cell in document["workloads"][0]["cells"].as_array().unwrap() {
        assert_eq!(cell["runs"].as_u64().unwrap(), rounds);
        assert!(cell["rate"].as_f64().unwrap() > 0.0);
    }
    for verdict in verdicts(&document) {
        assert_eq!((&verdict["a"], &verdict["b"]), (&"b".into(), &"a".into()));
        if let Some([low, high]) = verdict["interval"].as_array().map(Vec::as_slice) {
            let ratio = verdict["ratio"].as_f64().unwrap();
            assert!(low.as_f64().unwrap() <= ratio && ratio <= high.as_f64().unwrap(), "{verdict}");
        }
    }
    // Reproducible to the seed: the document has all that is needed.
    let trial = document["trial"].as_str().unwrap();
    lab.write("from-the-document.toml", trial);
    assert_eq!(lab.run("run from-the-document.toml --dry-run").code(), 0);
}

#[test]
fn stored_results_match_printed_results() {
    let name = "stored_results_match_printed_results";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let ended = small(&lab, "ext4 xfs --rounds 5 --json");
    let printed = ended.document();
    let id = printed["trial_id"].as_i64().unwrap();
    let shown = lab.run(&format!("report {id} --format json")).document();
    assert_eq!(verdicts(&shown), verdicts(&printed));
    for same in ["workloads", "arms", "audit", "seed", "rounds", "ended", "trial", "failures"] {
        assert_eq!(shown[same], printed[same], "{same}");
    }
    let listed = lab.trials().pop().unwrap();
    assert_eq!(listed["id"].as_i64(), Some(id));
    assert_eq!((&listed["seed"], &listed["rounds"]), (&printed["seed"], &printed["rounds"]));
    let runs: u64 = ended.json().iter().filter(|event| event["event"] == "run-ended").count() as u64;
    assert_eq!(listed["runs"].as_u64(), Some(runs));
    let exported = lab.run(&format!("results export {id} --format json"));
    let rows: Value = serde_json::from_str(&exported.stdout).unwrap();
    let rows = rows.as_array().unwrap();
    let place = |row: &Value| (row["round"].as_u64().unwrap(), row["slot"].as_u64().unwrap());
    assert_eq!(rows.iter().map(place).collect::<BTreeSet<_>>().len() as u64, runs);
    let csv = lab.run(&format!("results export {id}")).stdout;
    assert_eq!(csv.lines().count(), rows.len() + 1, "the same as CSV");
    let toml = lab.run(&format!("results export {id} --format toml")).stdout;
    assert_eq!(toml, printed["trial"].as_str().unwrap());
    for table in ["results", "results list", "report --format text"] {
        let table = lab.run(table);
        assert_eq!(table.code(), 0, "{table:?}");
        assert!(table.stdout.contains("xfs"), "{table:?}");
    }
    lab.assert_nothing_left("after a trial");
}

#[test]
fn directories_need_no_root() {
    let name = "directories_need_no_root";
    if !support::is_root(name, "to become somebody else") {
        return;
    }
    let lab = Lab::new();
    let folders = [lab.path("images/a"), lab.path("images/b")];
    folders.iter().for_each(|folder| fs::create_dir(folder).unwrap());
    for folder in &folders {
        std::os::unix::fs::chown(folder, Some(support::NOBODY), Some(support::NOBODY)).unwrap();
    }
    let words = "compare dir:images/a dir:images/b --workload random-write,create-files --set workload.file_size=4MiB --threads 1 \
                 --duration 100ms --set workload.warmup=20ms --rounds 4 --json";
    let ended = match lab.run_as_nobody(words) {
        Ok(ended) => ended,
        Err(reason) => return support::skip(name, &reason),
    };
    assert!([0, 3].contains(&ended.code()), "{ended:?}");
    let document = ended.document();
    if fs::read_to_string("/proc/sys/kernel/dmesg_restrict").is_ok_and(|text| text.trim() == "1") {
        let notes = document["arms"][0]["facts"]["notes"].to_string();
        assert!(notes.contains("the kernel log was not watched"), "{notes}");
    }
    for workload in document["workloads"].as_array().unwrap() {
        for cell in workload["cells"].as_array().unwrap() {
            assert!(cell["runs"].as_u64().unwrap() >= 1, "{cell}");
            assert!(cell["device_bytes_per_operation"].is_null(), "not known of directories: {cell}");
        }
    }
    for folder in &folders {
        assert_eq!(support::names_in(folder), Vec::<String>::new());
    }
    assert_eq!(lab.ledger_entries(), Vec::<String>::new());
}

/// T1 of the method's reference trials (§15): order and differences given, decided at round 10.
#[test]
fn judge_decides_the_reference_trial_as_the_method_does() {
    const D: [f64; 12] =
        [0.051, 0.048, 0.062, -0.010, 0.055, 0.044, 0.180, 0.050, 0.046, 0.057, 0.039, 0.052];
    const A_FIRST: &str = "+--++-+--+-++-";
    let lab = Lab::new();
    let csv = |rounds: usize| {
        let mut text = String::from("round,arm,value,order\n");
        for (index, sign) in A_FIRST.chars().take(rounds).enumerate() {
            let (a, b) = if sign == '+' { (1, 2) } else { (2, 1) };
            let round = index + 1;
            // b is named first, so it is the base.
            text.push_str(&format!("{round},b,1,{b}\n"));
            text.push_str(&format!("{round},a,{:.15},{a}\n", D[index].exp()));
        }
        text
    };
    let judged = |rounds: usize| {
        lab.write("pairs.csv", &csv(rounds));
        let judged = lab.run("judge pairs.csv --sequential --json");
        (judged.code(), judged.document()["verdicts"][0].clone())
    };
    let (code, before) = judged(8);
    assert_eq!((code, &before["verdict"]), (3, &"undecided".into()), "{before}");
    for rounds in [9, 12] {
        let (code, verdict) = judged(rounds);
        assert_eq!((code, &verdict["verdict"]), (0, &"faster".into()), "{verdict}");
        assert_eq!(verdict["rounds"], 9, "it is decided at round 9, and stays so: {verdict}");
        let near = |value: &Value, expected: f64| (value.as_f64().unwrap() - expected).abs() < 1e-6;
        assert!(near(&verdict["ratio"], 0.0505_f64.exp()), "{verdict}");
        assert!(near(&verdict["interval"][0], 0.017_f64.exp()), "{verdict}");
        assert!((verdict["interval"][1].as_f64().unwrap().ln() - 0.121).abs() < 1e-6, "{verdict}");
    }
    let reported = lab.run("judge pairs.csv --sequential");
    assert!(
        reported.stdout.contains("a is 1.052× b [1.017, 1.13]: faster; 9 rounds; over all 12"),
        "{reported:?}"
    );
}

#[test]
fn a_full_check_after_every_run() {
    let name = "a_full_check_after_every_run";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let ended = small(&lab, "ext4 xfs btrfs --set trial.fsck=true --rounds 1 --json");
    assert!([0, 3].contains(&ended.code()), "{ended:?}");
    let events = ended.json();
    let checks = events.iter().filter(|event| event["stage"] == "fsck").count();
    assert_eq!(checks, 3, "one for each run: {ended:?}");
    assert!(events.iter().all(|event| event["failure"].is_null()), "{ended:?}");
    lab.assert_nothing_left("after a trial with checks");
}

#[test]
fn a_bare_device_runs_against_a_filesystem() {
    let name = "a_bare_device_runs_against_a_filesystem";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let ended = small(&lab, "raw ext4 --rounds 4 --json");
    assert!([0, 3].contains(&ended.code()), "{ended:?}");
    let document = ended.document();
    let cells = document["workloads"][0]["cells"].as_array().unwrap().clone();
    assert_eq!(cells.len(), 2);
    for cell in cells {
        assert!(cell["runs"].as_u64().unwrap() >= 1 && cell["failed"] == false, "{cell}");
    }
    lab.assert_nothing_left("after a trial with a bare device");
}

/// Every budget is kept.
#[test]
fn trial_ends_with_its_budget() {
    let name = "trial_ends_with_its_budget";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let began = std::time::Instant::now();
    let running =
        lab.start(&format!("compare a=ext4 b=ext4 {SMALL} --device image:images --budget 6s --json"));
    let ended = running.end(PATIENCE);
    assert!([0, 3].contains(&ended.code()), "{ended:?}");
    assert!(began.elapsed().as_secs() < 12, "{:?}", began.elapsed());
    assert_eq!(ended.document()["schema_version"], 2);
}
