//! The store as users query it: found, shown side by side, exported, imported, removed; and the messages where that
//! fails. Trials here are of directories, and so most of this runs without root.

use crate::{
    planted::Night,
    support::{self, Ended, FSTRIAL, Lab, PATIENCE},
};
use fstrial_store::{NewSession, Store, TrialId, TrialStatus};
use serde_json::Value;
use std::{fs, path::PathBuf};

/// A trial of two directories, as small as can be.
const DIRECTORIES: &str = "compare a=dir:one b=dir:two --workload random-write --threads 1 --set workload.file_size=4MiB \
                           --duration 200ms --set workload.warmup=10ms --rounds 3 --quiet";

/// A lab with two trials in its store: the first with the tags `nightly` and `one`, the second with `two`.
fn lab() -> Lab {
    let lab = Lab::new();
    fs::create_dir(lab.path("one")).unwrap();
    fs::create_dir(lab.path("two")).unwrap();
    for flags in ["--seed 1 --tag nightly --tag one", "--seed 2 --tag two --set trial.name=second"] {
        let ended = lab.run(&format!("{DIRECTORIES} {flags}"));
        assert!([0, 3].contains(&ended.code()), "{ended:?}");
    }
    lab
}

fn good(lab: &Lab, words: &str) -> Ended {
    let ended = lab.run(words);
    assert_eq!(ended.code(), 0, "{words}: {ended:?}");
    ended
}

/// Asserts that a command is refused with these words in its message, and returns the message.
fn refused(lab: &Lab, words: &str, code: i32, message: &[&str]) -> String {
    let ended = lab.run(words);
    assert_eq!(ended.code(), code, "{words}: {ended:?}");
    for part in message {
        assert!(ended.stderr.contains(part), "{words}: lacks `{part}`: {}", ended.stderr);
    }
    ended.stderr
}

/// The numbers of the trials that a list has.
fn listed(lab: &Lab, flags: &str) -> Vec<i64> {
    let ended = good(lab, &format!("results list --json {flags}"));
    ended.json().iter().map(|trial| trial["id"].as_i64().unwrap()).collect()
}

/// A document without the figures of its verdicts, which an earlier rule computed with weighted rounds. Its decisions
/// stay.
fn without_ratios(mut document: Value) -> Value {
    const FIGURES: [&str; 9] = [
        "ratio",
        "interval",
        "early",
        "total_ratio",
        "total_interval",
        "total_is_apart",
        "unseen_stalls_percent",
        "waits_for_total",
        "waits_for_control",
    ];
    // Steps planned for that day were repeated, too.
    if let Some(repeat) = document["repeat"].as_str() {
        document["repeat"] = repeat.replace(" --no-page --quiet", "").into();
    }
    // Rounds were planned.
    document.as_object_mut().unwrap().remove("planned_rounds");
    // That version did not report a busy machine, and described the variation of runs differently.
    let warnings = document["warnings"].as_array_mut().unwrap();
    let others =
        ["other programs used", "on this device the same arm varies", "half of the runs differ from"];
    warnings.retain(|line| !others.iter().any(|other| line.as_str().unwrap().starts_with(other)));
    for workload in document["workloads"].as_array_mut().unwrap() {
        // So were quantiles of too few operations.
        for cell in workload["cells"].as_array_mut().unwrap() {
            cell["latency_ns"].as_array_mut().into_iter().for_each(|quantiles| quantiles.truncate(1));
            // The load's own CPU time was not shown, nor how many operations a run had.
            cell.as_object_mut().unwrap().remove("load_cpu_per_operation_ns");
            cell.as_object_mut().unwrap().remove("operations");
        }
        for verdict in workload["verdicts"].as_array_mut().unwrap() {
            verdict.as_object_mut().unwrap().retain(|key, _| !FIGURES.contains(&key.as_str()));
        }
    }
    // That version did not report which stalls were missed.
    if let Some(notes) = document["claim"]["notes"].as_array_mut() {
        notes.retain(|line| !line.as_str().unwrap().contains("can miss an arm that stalls"));
    }
    for part in document["claim"]["parts"].as_array_mut().into_iter().flatten() {
        part.as_object_mut().unwrap().remove("early");
    }
    document
}

/// A store of an earlier fstrial, with its texts about each trial: one of two workloads, a claim that is reversed by a
/// failure, and one that was interrupted and resumed.
#[test]
fn trials_of_earlier_version_keep_their_verdicts() {
    let fixtures = PathBuf::from(format!("{}/../../fixtures/store/trials", env!("CARGO_MANIFEST_DIR")));
    let lab = Lab::new();
    let store = lab.path("home/results.db");
    fs::create_dir_all(store.parent().unwrap()).unwrap();
    fs::copy(fixtures.join("results.db"), &store).unwrap();
    let show = |id: u32| good(&lab, &format!("report {id} --format json")).json().remove(0);
    let message = |id: u32| -> Value {
        serde_json::from_str(&fs::read_to_string(fixtures.join(format!("{id}.json"))).unwrap()).unwrap()
    };
    for id in [1, 2, 3] {
        assert_eq!(without_ratios(show(id)), without_ratios(message(id)), "trial {id}");
    }
}

#[test]
fn finds_trials_by_attributes_and_tags() {
    let lab = lab();
    assert_eq!(listed(&lab, ""), [1, 2]);
    assert_eq!(listed(&lab, "--tag nightly"), [1]);
    assert_eq!(listed(&lab, "--tag nightly --tag two"), [] as [i64; 0]);
    assert_eq!(listed(&lab, "--name second --arm a --workload random-*"), [2]);
    assert_eq!(listed(&lab, "--since 2020-01-01 --limit 1"), [2]);
    assert_eq!(listed(&lab, "--until 2020-01-01"), [] as [i64; 0]);
    let host = good(&lab, "results list --json").json()[0]["host"].as_str().unwrap().to_owned();
    assert_eq!(listed(&lab, &format!("--host {host}")), [1, 2]);
    assert_eq!(listed(&lab, "--host nobody-has-this-name"), [] as [i64; 0]);
    // Values equal in all trials are shown only on request.
    let header =
        |flags: &str| good(&lab, &format!("results list {flags}")).stdout.lines().next().unwrap().to_owned();
    assert!(!header("").contains("host") && header("").contains("tags"));
    assert!(header("--host *").contains("host"));

    assert_eq!(good(&lab, "results tag 2 +nightly +v1 -two").stdout, "nightly\nv1\n");
    assert_eq!(good(&lab, "results tag 2").stdout, "nightly\nv1\n");
    assert_eq!(listed(&lab, "--tag nightly"), [1, 2]);

    refused(&lab, "results list --since yesterday", 2, &["2026-01-31"]);
    refused(&lab, "results list --status done", 2, &["decided"]);
    refused(&lab, "results tag 1 +a,b", 2, &["cannot be a tag", "try"]);
    refused(&lab, "results tag 9 +a", 2, &["no trial 9"]);
    for words in
        ["results tag 1 +x --home elsewhere", "results tag 1 -nightly --help", "results tag 1 --hom x"]
    {
        refused(&lab, words, 2, &["is not a tag", "before the tags"]);
    }
    assert_eq!(good(&lab, "results tag 1").stdout, "nightly\none\n", "what was refused changed nothing");
    assert_eq!(good(&lab, "results tag 1 --home home -one").stdout, "nightly\n");
    assert!(good(&lab, "results tag 1 --help").stdout.contains("-TAG to remove"));
    refused(&lab, &format!("{DIRECTORIES} --tag a,b"), 2, &["a tag has letters"]);
}

/// A store with three trials: one that is decided, one that was killed, and one in which nothing ran.
fn planted() -> Lab {
    let lab = Lab::new();
    fs::create_dir_all(lab.home()).unwrap();
    let mut store = Store::open(lab.home().join("results.db")).unwrap();
    Night { rounds: 12, ..Night::default() }.store(&mut store);
    Night { day: 1, status: TrialStatus::Running, ..Night::default() }.store(&mut store);
    Night { day: 2, rounds: 0, status: TrialStatus::Failed, ..Night::default() }.store(&mut store);
    lab
}

#[test]
fn list_shows_workloads_and_findings() {
    let lab = planted();
    let list = good(&lab, "results list").stdout;
    let lines: Vec<&str> = list.lines().collect();
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{list}");
    let first = lines.iter().position(|line| line.contains("decided")).unwrap();
    let below = lines[first + 1..].iter().take_while(|line| line.starts_with("     "));
    let below = below.copied().collect::<Vec<_>>().join(" ");
    for message in ["append-fsync · image · ", "xfs is faster in both"] {
        assert!(below.contains(message), "lacks `{message}`: {list}");
    }
    let json = good(&lab, "results list --json").json();
    assert_eq!((&json[0]["workloads"][0], &json[0]["device"]), (&"append-fsync".into(), &"image".into()));
}

#[test]
fn list_and_report_skip_trials_without_rounds() {
    let lab = planted();
    let list = good(&lab, "results list");
    assert!(!list.stdout.contains("2026-01-03"), "{}", list.stdout);
    let hidden = "1 trial that never ran a round is left out: `fstrial results list --all`";
    assert!(list.stderr.contains(hidden), "{list:?}");
    let all = good(&lab, "results list --all");
    assert!(all.stdout.contains("2026-01-03") && !all.stderr.contains("left out"), "{all:?}");
    assert!(good(&lab, "results list --status failed").stdout.contains("2026-01-03"));
    assert_eq!(listed(&lab, ""), [1, 2, 3], "programs see all");
    assert_eq!(good(&lab, "report --format json").json()[0]["trial_id"], 2, "the last that has a round");
    assert_eq!(good(&lab, "report --format json").json()[0]["trial_id"], 2);
    // Where nothing else matches it is the last one shown.
    good(&lab, "results rm 1 2 --yes");
    assert_eq!(good(&lab, "report --format json").json()[0]["trial_id"], 3);
}

#[test]
fn trial_with_dead_process_is_reported_killed() {
    let lab = planted();
    let listed = good(&lab, "results list --json").json();
    assert_eq!((&listed[0]["status"], &listed[1]["status"]), (&"decided".into(), &"killed".into()));
    assert!(!good(&lab, "results list").stdout.contains("running"));
    let result = |status: &str| -> Vec<i64> {
        let result = good(&lab, &format!("results list --json --status {status}")).json();
        result.iter().filter_map(|trial| trial["id"].as_i64()).collect()
    };
    assert_eq!((result("killed"), result("running")), (vec![2], vec![]));
    assert_eq!(good(&lab, "report 2 --format json").json()[0]["ended"], "killed");
    for format in ["markdown", "lkml"] {
        let text = good(&lab, &format!("report 2 --format {format}")).stdout;
        assert!(text.contains("was killed before its end"), "{format}: {text}");
    }
    assert!(good(&lab, "report 2 --format text").stdout.contains("Killed; to resume"));
    // While another process holds the lock, that process works on it.
    let lock = fs::File::create(lab.home().join("lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    assert_eq!(good(&lab, "results list --json").json()[1]["status"], "running");
    assert_eq!((result("killed"), result("running")), (vec![], vec![2]));
    for words in ["report 2 --format markdown", "report 2 --format lkml", "report 2 --format text"] {
        let text = good(&lab, words).stdout;
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("this trial is still running"), "{words}: {text}");
        assert!(!text.contains("fstrial resume"), "{words}: {text}");
    }
    let page = good(&lab, "report 2 --out -").stdout;
    assert!(page.contains("It still runs"));
}

#[test]
fn two_trials_are_set_side_by_side_without_a_verdict() {
    let lab = lab();
    let text = good(&lab, "report 1 2 --format text").stdout;
    for part in ["a: trial 1", "b: trial 2", "not a verdict", "trial.name", "random-write", "b / a"] {
        assert!(text.contains(part), "lacks `{part}`: {text}");
    }
    let diff = good(&lab, "report 1 2 --format json").json().remove(0);
    assert_eq!(
        (diff["cells"].as_array().unwrap().len(), diff["contrasts"][0]["of"].as_str()),
        (2, Some("b"))
    );
    let cell = &diff["cells"][0];
    let number = |value: &Value| value.as_f64().unwrap();
    let ratio = number(&cell["b"]["rate"]) / number(&cell["a"]["rate"]);
    assert!((number(&cell["ratio"]) / ratio - 1.0).abs() < 1e-9, "{cell}");
    let names: Vec<&str> = diff["differences"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| result["what"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"trial.name") && !names.contains(&"trial.seed"), "{names:?}");
    // With itself nothing differs, and every interval overlaps.
    let same = good(&lab, "report 1 1 --format json").json().remove(0);
    assert_eq!(same["differences"], serde_json::json!([]));
    assert!(same["cells"].as_array().unwrap().iter().all(|cell| cell["ratio"] == 1.0));
    refused(&lab, "report 1 9 --format text", 2, &["no trial 9"]);
}

#[test]
fn exports_are_complete_and_consistent() {
    let lab = lab();
    let csv = good(&lab, "results export 1 2").stdout;
    let rows: Vec<Value> =
        serde_json::from_str(&good(&lab, "results export 1 2 --format json").stdout).unwrap();
    assert_eq!(csv.lines().count(), rows.len() + 1);
    assert_eq!(good(&lab, "results export --since 2020-01-01").stdout, csv);
    assert_eq!(good(&lab, "results export 2 1 2").stdout, csv, "no trial twice");
    assert_eq!(good(&lab, "results export").stdout.lines().nth(1).unwrap().split(',').next(), Some("2"));

    good(&lab, "results export 1 --format parquet --out runs.parquet");
    let parquet = fs::read(lab.path("runs.parquet")).unwrap();
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    let metrics = good(&lab, "results export 1 2 --format openmetrics").stdout;
    assert!(metrics.ends_with("# EOF\n") && metrics.contains("# TYPE fstrial_rate gauge\n"), "{metrics}");
    assert_eq!(metrics.matches("# TYPE fstrial_rate gauge").count(), 1, "a family is in one piece");
    let rate = r#"fstrial_rate{trial="1",arm="a",workload="random-write",phase="",threads="1",unit="op/s"} "#;
    assert!(metrics.contains(rate), "{metrics}");
    let toml = good(&lab, "results export 1 --format toml").stdout;
    lab.write("again.toml", &toml);
    good(&lab, "run again.toml --dry-run");

    // Existing data stays.
    refused(&lab, "results export 1 --format parquet --out runs.parquet", 2, &["exists already", "--force"]);
    good(&lab, "results export 1 --format csv --out runs.parquet --force");
    assert!(fs::read_to_string(lab.path("runs.parquet")).unwrap().starts_with("trial,run"));
    refused(&lab, "results export 1 --format parquet", 2, &["--out"]);
    refused(&lab, "results export 1 2 --format toml", 2, &["one trial"]);
    refused(&lab, "results export 1 --tag one", 2, &["not both"]);
    refused(&lab, "results export --tag none-has-this", 2, &["no trial"]);
    refused(&lab, "results export 1 --out no/such/folder/x.csv", 2, &["could not write", "no/such/folder"]);
    let left =
        fs::read_dir(lab.root()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(left.filter(|name| name.contains(".part")).count(), 0);
}

#[test]
fn benchstat_reads_go_export() {
    let name = "benchstat_reads_go_export";
    let lab = lab();
    let go = good(&lab, "results export 1 2 --format go").stdout;
    let line = go.lines().find(|line| line.starts_with("Benchmark")).unwrap();
    let fields: Vec<&str> = line.split(' ').collect();
    assert!(
        fields[0].starts_with("BenchmarkRun/arm=") && fields[0].ends_with("/workload=random-write/threads=1")
    );
    assert!(fields[1].parse::<u64>().is_ok_and(|operations| operations > 0), "{line}");
    assert_eq!((fields.len() % 2, fields[3]), (0, "ns/op"), "{line}");
    assert!(go.contains("\nUnit op/s better=higher\n") && go.starts_with("trial: 1\n"), "{go}");
    lab.write("bench.txt", &go);
    let mut benchstat = lab.prepare("benchstat");
    benchstat.args(["-col", "/arm", "-row", "/workload,/threads", "-filter", "trial:1", "bench.txt"]);
    let Ok(output) = benchstat.output() else {
        return support::skip(
            name,
            "there is no benchstat here (go install golang.org/x/perf/cmd/benchstat@latest)",
        );
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    for part in ["sec/op", "op/s", "B/s", "random-write 1"] {
        assert!(text.contains(part), "lacks `{part}`: {text}");
    }
}

#[test]
fn trials_travel_from_home_to_home() {
    let lab = lab();
    good(&lab, "results export --tag one --format store --out sent.db");
    assert!(!lab.path("sent.db-wal").exists() && !lab.path("sent.db-shm").exists());
    let elsewhere = "--home elsewhere";
    let message = good(&lab, &format!("results import sent.db {elsewhere}"));
    assert!(
        message.stdout.contains("is trial 1") && message.stderr.contains("1 imported, 0 here"),
        "{message:?}"
    );
    let document = |words: &str| good(&lab, words).json().remove(0);
    assert_eq!(document(&format!("report 1 --format json {elsewhere}")), document("report 1 --format json"));
    // The rest arrives later; existing parts are left alone.
    let message = good(&lab, &format!("results import home/results.db sent.db --json {elsewhere}")).json();
    let reported: Vec<(bool, i64)> =
        message.iter().map(|line| (line["imported"] == true, line["trial"].as_i64().unwrap())).collect();
    assert_eq!(reported, [(false, 1), (true, 2), (false, 1)]);
    assert_eq!(good(&lab, &format!("results tag 1 {elsewhere}")).stdout, "nightly\none\n");

    // Trials that could not be shown are not copied.
    for (number, change) in
        ["[trial]\nname=1", "[[place]]\nname = \"a\"\ncommand = [\"true\"]\n"].iter().enumerate()
    {
        let theirs = format!("theirs-{number}.db");
        good(&lab, &format!("results export 2 --format store --out {theirs}"));
        let update = format!("UPDATE trial SET toml = '{change}' || toml, name = 'unlike {number}'");
        support::tool("sqlite3", &[&lab.path(&theirs).display().to_string(), &update]);
        refused(
            &lab,
            &format!("results import {theirs} {elsewhere}"),
            2,
            &["trial 1 of", "cannot be imported: "],
        );
    }
    assert_eq!(good(&lab, &format!("results list --json {elsewhere}")).json().len(), 2);

    good(&lab, "results export 1 --out runs.csv");
    refused(&lab, "results import runs.csv", 2, &["is not a store", "only stores are imported"]);
    refused(&lab, "results import home/results.db", 2, &["imported into"]);
    refused(&lab, "results import missing.db", 2, &["missing.db", "check the path"]);
    assert_eq!(listed(&lab, ""), [1, 2]);
}

#[test]
fn results_rm_removes_only_confirmed_trials() {
    let lab = lab();
    let before = fs::metadata(lab.path("home/results.db")).unwrap().len();
    assert!(good(&lab, "results rm 1 --dry-run").stdout.contains("would remove trial 1"));
    refused(&lab, "results rm 1", 2, &["nothing was removed", "--yes"]);
    refused(&lab, "results rm 1 9 --yes", 2, &["no trial 9"]);
    assert_eq!(listed(&lab, ""), [1, 2], "an unknown number ends it before anything is done");
    assert!(good(&lab, "results rm 1 1 --yes").stdout.contains("removed trial 1"));
    assert_eq!(listed(&lab, ""), [2]);
    assert!(fs::metadata(lab.path("home/results.db")).unwrap().len() < before, "no room was given back");
    good(&lab, "report 2 --format text");
    refused(&lab, "report 1 --format text", 2, &["no trial 1"]);
}

#[test]
fn running_trial_locks_store_against_changes() {
    let lab = lab();
    let long =
        DIRECTORIES.replace("--rounds 3", "--rounds 1000").replace("--duration 200ms", "--duration 500ms");
    let running = lab.start(&format!("{long} --seed 3"));
    assert!(support::eventually(PATIENCE, || listed(&lab, "").len() == 3), "the trial did not begin");
    for words in ["results rm 1 --yes", "results tag 1 +x", "results import home/../sent.db"] {
        fs::copy(lab.path("home/results.db"), lab.path("sent.db")).unwrap();
        refused(&lab, words, 2, &["another trial is running", "wait for it"]);
    }
    // Reading never waits; an unfinished trial is not exported as a finished one.
    good(&lab, "results export 1");
    refused(
        &lab,
        "results export 3 --format store --out part.db",
        2,
        &["no trial that has ended", "left out"],
    );
    assert_eq!(
        good(&lab, "results export 2 3 --format store --out part.db").stdout,
        "one trial in part.db\n"
    );
    let merged = good(&lab, "results import home/results.db --home elsewhere");
    assert!(merged.stderr.contains("2 imported, 0 here already, 1 not ended there"), "{merged:?}");
    assert!(merged.stdout.contains("still runs there, or was killed"), "{merged:?}");
    running.signal(rustix::process::Signal::INT);
    assert_eq!(running.end(PATIENCE).code(), 130);
    good(&lab, "results rm 1 --yes");
    assert_eq!(listed(&lab, "--status interrupted"), [3]);
}

/// Lets a stored trial go on on another host, for a moment.
fn goes_on_elsewhere(lab: &Lab, trial: i64) {
    let mut store = Store::open(lab.path("home/results.db")).unwrap();
    let last = store.trial(TrialId(trial)).unwrap().sessions.pop().unwrap();
    let mut environment: Value = serde_json::from_str(&last.environment).unwrap();
    environment["host"] = "elsewhere".into();
    let environment = environment.to_string();
    let session = NewSession {
        started_at: &last.started_at,
        program_version: "0.1.0",
        command_line: "fstrial resume",
        environment: &environment,
    };
    store.reopen_trial(TrialId(trial), &session).unwrap();
    store.finish_trial(TrialId(trial), TrialStatus::Interrupted, &last.started_at).unwrap();
}

#[test]
fn a_trial_of_another_machine_is_not_gone_on_with_here() {
    let lab = Lab::new();
    for folder in ["one", "two"] {
        fs::create_dir(lab.path(folder)).unwrap();
    }
    let begin = DIRECTORIES.replace("--rounds 3", "--rounds 1000");
    lab.save(&begin, "t.toml");
    let run = |words: &str| {
        let ended = lab.run(&format!("{words} --quiet --budget 3s"));
        assert!([0, 3].contains(&ended.code()), "{ended:?}");
        let trials = good(&lab, "results list --json").json();
        trials.iter().map(|trial| trial["runs"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    run("run t.toml");
    let two = run("run t.toml");
    goes_on_elsewhere(&lab, 2);
    let resumed = run("resume 1");
    assert!(
        resumed[0] > two[0] && resumed[1] == two[1],
        "the one of this machine goes on: {two:?} {resumed:?}"
    );
    let message = ["could not resume trial 2", "elsewhere (", "and this is", "resume it there"];
    refused(&lab, "resume 2 --quiet --budget 3s", 2, &message);
    // Where none is named it is passed over.
    assert!(run("resume")[0] > resumed[0]);
    goes_on_elsewhere(&lab, 1);
    refused(&lab, "resume --quiet --budget 3s", 2, &message);
}

fn fixture() -> PathBuf {
    PathBuf::from(format!("{}/../../fixtures/store/schema-1.db", env!("CARGO_MANIFEST_DIR")))
}

#[test]
fn unreadable_environment_is_reported_as_store_error() {
    let lab = lab();
    let mut store = Store::open(lab.path("home/results.db")).unwrap();
    let last = store.trial(TrialId(2)).unwrap().sessions.pop().unwrap();
    let session = NewSession {
        started_at: &last.started_at,
        program_version: "0.1.0",
        command_line: "fstrial",
        environment: r#"{"cpus":"many"}"#,
    };
    store.reopen_trial(TrialId(2), &session).unwrap();
    drop(store);
    refused(
        &lab,
        "report 2 --format text",
        14,
        &["home/results.db", "the environment of trial 2 cannot be read"],
    );
    good(&lab, "report 1 --format text");
}

#[test]
fn a_store_of_the_future_or_in_pieces_is_refused_and_not_touched() {
    let lab = Lab::new();
    fs::create_dir(lab.home()).unwrap();
    let path = lab.path("home/results.db");
    let whole = fs::read(fixture()).unwrap();
    let mut newer = whole.clone();
    // `user_version` in the header of an SQLite file.
    newer[60..64].copy_from_slice(&99_u32.to_be_bytes());
    let mut garbled = whole.clone();
    garbled[4096..].iter_mut().for_each(|byte| *byte ^= 0x5a);
    let cases: [(&[u8], &[&str]); 4] = [
        (&newer, &["schema 99", "newer"]),
        (&garbled, &["damaged", ".recover"]),
        (&whole[..whole.len() / 3], &["damaged", ".recover"]),
        (b"notes to myself", &["is not a store", "try"]),
    ];
    for (bytes, message) in cases {
        for words in ["results", "results export 1", "results tag 1 +x", "results rm 1 --yes"] {
            fs::write(&path, bytes).unwrap();
            refused(&lab, words, 14, message);
            assert!(fs::read(&path).unwrap() == bytes, "{words} changed it");
        }
        // Where it is named, it is a wrong file.
        let elsewhere = format!("results import {} --home empty", path.display());
        refused(&lab, &elsewhere, 2, &message[..1]);
    }
}

/// Runs `fstrial` with a home on a filesystem mounted read-only, in its own mount namespace.
fn read_only(lab: &Lab, words: &str) -> Ended {
    let script = format!("mount --bind home home && mount -o remount,bind,ro home && exec {FSTRIAL} {words}");
    let mut command = lab.prepare("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
    support::Running::start(command).end(PATIENCE)
}

#[test]
fn read_only_disk_allows_reads_and_refuses_writes() {
    let name = "read_only_disk_allows_reads_and_refuses_writes";
    if !support::is_root(name, "") {
        return;
    }
    let lab = lab();
    for words in ["results", "report 1 --format text", "results export 2"] {
        let ended = read_only(&lab, words);
        assert_eq!(ended.code(), 0, "{words}: {ended:?}");
        assert!(ended.stdout.lines().count() >= 2, "{words}: {ended:?}");
    }
    for words in ["results tag 1 +x", "results rm 1 --yes", DIRECTORIES] {
        let ended = read_only(&lab, words);
        assert_eq!(ended.code(), 2, "{words}: {ended:?}");
        assert!(ended.stderr.contains("Read-only") && ended.stderr.contains("--home"), "{words}: {ended:?}");
    }
    assert_eq!(listed(&lab, ""), [1, 2]);
}
