//! Workloads of every shape through the whole line: phases and groups, promises about latency, programs, workloads
//! against each other.

use crate::support::{self, Ended, FSTRIAL, Lab, PATIENCE, Running};
use fstrial_model::workload::KeyValueEngine;
use fstrial_store::Store;
use serde_json::Value;
use std::path::Path;

const IMAGE: &str = "--device image:images --set device.size=512MiB --rounds 1 --json";

/// The sections of an answer: name, phase and unit.
fn sections(ended: &Ended) -> Vec<(String, String, String)> {
    let document = ended.document();
    let text = |section: &Value, key: &str| section[key].as_str().unwrap().to_owned();
    let sections = document["workloads"].as_array().unwrap().iter();
    sections.map(|section| (text(section, "name"), text(section, "phase"), text(section, "unit"))).collect()
}

fn rates(ended: &Ended) -> Vec<f64> {
    let document = ended.document();
    let sections = document["workloads"].as_array().unwrap();
    let cells = sections.iter().flat_map(|section| section["cells"].as_array().unwrap());
    cells.map(|cell| cell["rate"].as_f64().unwrap_or_else(|| panic!("{cell}"))).collect()
}

const PHASES: &str = r#"
kind = "io"
file_size = "16MiB"
block_size = "64KiB"
[[phase]]
name = "fill"
access = "sequential"
until = "done"
fsync_at_end = true
figure = "bytes"
[[phase]]
name = "drop"
measured = false
requests = 1
[[phase]]
name = "serve"
settle = true
duration = "200ms"
warmup = "50ms"
[[phase.group]]
name = "oltp"
block_size = "4KiB"
reads = "70%"
[[phase.group]]
name = "backup"
workers = 1
access = "sequential"
reads = "100%"
[[phase.group]]
name = "noise"
workers = 1
kind = "files"
set = "small"
files = 20
file_size = "4KiB"
background = true
"#;

#[test]
fn each_phase_and_group_reports_own_results() {
    if !support::is_root_with_loop_devices("each_phase_and_group_reports_own_results") {
        return;
    }
    let lab = Lab::new();
    // Keys of requests and of file sets are both taken over from the top; the group of files has only its own.
    lab.write("phases.toml", PHASES);
    let ended = lab.run(&format!("compare ext4 xfs --workload phases.toml --threads 2 {IMAGE}"));
    assert_eq!(ended.code(), 3, "{ended:?}");
    let expected = [("fill", "bytes/s"), ("serve/oltp", "op/s"), ("serve/backup", "op/s")];
    let expected = expected.map(|(phase, unit)| ("phases".to_owned(), phase.to_owned(), unit.to_owned()));
    assert_eq!(sections(&ended), expected);
    assert_eq!(rates(&ended).len(), 6);
    let shown = lab.run("report --format json");
    assert_eq!(shown.document()["workloads"][1]["phase"], "serve/oltp", "what is stored says the same");
    lab.assert_nothing_left("after phases");
}

#[test]
fn a_promise_about_latency_is_a_figure_like_any_other() {
    if !support::is_root_with_loop_devices("a_promise_about_latency_is_a_figure_like_any_other") {
        return;
    }
    let lab = Lab::new();
    let words = "compare ext4 xfs --workload random-read --threads 2 --set workload.file_size=16MiB --duration 500ms --set workload.warmup=20ms";
    // A second is much more than any read takes, unless requests queue up.
    let ended = lab.run(&format!("{words} --find-rate p50<1s {IMAGE}"));
    assert_eq!(ended.code(), 3, "{ended:?}");
    assert_eq!(ended.document()["workloads"][0]["promise"], "p50<1s");
    assert!(rates(&ended).iter().all(|rate| *rate > 10.0), "{ended:?}");
    // The course of the search is kept with the run.
    let exported = lab.run("results export --format json");
    assert!(exported.stdout.contains("\"value\""), "{exported:?}");
    // Of several levels and several groups of threads: one of each.
    let mut command = lab.prepare(FSTRIAL);
    let words = "compare ext4 xfs --workload innodb-flush --duration 200ms --set workload.warmup=20ms --rounds 1 --json";
    let device = "--device image:images --set device.size=1GiB";
    command.args(words.split(' ')).args(device.split(' ')).args(["--find-rate", "redo p50<10s"]);
    let commits = Running::start(command).end(PATIENCE);
    assert_eq!(commits.code(), 3, "{commits:?}");
    let document = commits.document();
    assert_eq!(document["workloads"].as_array().map(Vec::len), Some(1), "{document}");
    assert_eq!(document["workloads"][0]["phase"], "redo");
    assert_eq!(document["workloads"][0]["promise"], "redo p50<10s");
    assert!(rates(&commits).iter().all(|rate| *rate > 1.0), "{commits:?}");
    let refused =
        lab.run(&format!("compare ext4 xfs --workload random-read,postmark --find-rate p99<1s {IMAGE}"));
    assert_eq!(refused.code(), 2, "{refused:?}");
    assert!(refused.stderr.contains("postmark: no phase"), "which one is said: {refused:?}");
    lab.assert_nothing_left("after a search");
}

const PROGRAM: &str = r#"
kind = "program"
file_size = "1MiB"
command = ["sh", "-c", "dd if=/dev/zero of=file bs=64k count=16 conv=fsync 2>&1; echo threads {threads}"]
[[metric]]
name = "written"
unit = "bytes/s"
better = "higher"
pattern = '(?<value>\d+) bytes .*?copied, (?<per>[\d.e+-]+) s'
[[metric]]
name = "wall"
unit = "ns"
better = "lower"
measure = "wall"
"#;

#[test]
fn program_metrics_are_parsed_reported_and_stored() {
    if !support::is_root_with_loop_devices("program_metrics_are_parsed_reported_and_stored") {
        return;
    }
    let lab = Lab::new();
    lab.write("copy.toml", PROGRAM);
    let ended = lab.run(&format!("compare ext4 btrfs --workload copy.toml --threads 1 {IMAGE}"));
    assert_eq!(ended.code(), 3, "{ended:?}");
    let phases: Vec<String> = sections(&ended).into_iter().map(|section| section.1).collect();
    assert_eq!(phases, ["written", "wall"]);
    assert_eq!(ended.document()["workloads"][1]["less_is_better"], true);
    let store = Store::open_read_only(lab.home().join("results.db")).unwrap();
    for run in store.runs(store.trials().unwrap()[0].id).unwrap() {
        let printed = run.outcome.unwrap().output.expect("what a program printed is kept");
        assert!(printed.contains("bytes (1.0 MB") && printed.contains("threads 1"), "{printed}");
        assert!(printed.contains("version: ") && printed.contains("wall time: "), "{printed}");
    }
    lab.write("broken.toml", &PROGRAM.replace("copied", "moved"));
    let refused = lab.run(&format!("compare ext4 btrfs --workload broken.toml --threads 1 {IMAGE}"));
    assert_eq!(refused.code(), 11, "{refused:?}");
    assert!(refused.stderr.contains("written") && refused.stderr.contains("bytes"), "{refused:?}");
    lab.assert_nothing_left("after programs");
}

#[test]
fn workloads_are_compared_on_one_arm() {
    if !support::is_root_with_loop_devices("workloads_are_compared_on_one_arm") {
        return;
    }
    let lab = Lab::new();
    lab.write("copy.toml", PROGRAM);
    let mine = "kind = \"io\"\naccess = \"sequential\"\nuntil = \"done\"\nfile_size = \"1MiB\"\nfsync_at_end = true\n\
                block_size = \"64KiB\"\nfigure = \"bytes\"\nlayout = \"empty\"\n";
    lab.write("mine.toml", mine);
    let words =
        "compare ext4 --set trial.compare=workloads --workload mine.toml --workload copy.toml --threads 1";
    let ended = lab.run(&format!("{words} {IMAGE}"));
    assert_eq!(ended.code(), 3, "{ended:?}");
    let document = ended.document();
    let verdict = &document["workloads"][0]["verdicts"][0];
    assert_eq!((&verdict["a"], &verdict["b"]), (&"copy".into(), &"mine".into()), "{verdict}");
    assert_eq!(verdict["workload"], "ext4", "what they have in common");
    assert!(verdict["ratio"].as_f64().is_some());
    let alone = lab.run(&format!("compare ext4 --workload mine.toml {IMAGE}"));
    assert_eq!(alone.code(), 2, "{alone:?}");
    assert!(alone.stderr.contains("at least two arms"), "{alone:?}");
    lab.assert_nothing_left("after workloads against each other");
}

#[test]
fn ycsb_runs_on_requested_engine() {
    let lab = Lab::new();
    let saved = lab.run("compare ext4 xfs -w ycsb-b,ycsb-c,random-write --engine fjall --save - --dry-run");
    assert_eq!(saved.code(), 0, "{saved:?}");
    let saved: toml::Table = saved.stdout.parse().unwrap();
    let workloads = saved["workload"].as_array().unwrap();
    let engines = workloads.iter().map(|workload| {
        let engine = workload.get("ycsb").and_then(|ycsb| ycsb["engine"].as_str());
        (workload.get("name").and_then(|name| name.as_str()), engine)
    });
    assert_eq!(
        engines.collect::<Vec<_>>(),
        [(Some("ycsb-b on fjall"), Some("fjall")), (Some("ycsb-c on fjall"), Some("fjall")), (None, None)]
    );
    for (words, hint) in [
        ("compare ext4 xfs -w random-write --engine fjall", "name one that has: -w ycsb-a"),
        ("compare ext4 xfs --engine fjall", "name one that has: -w ycsb-a"),
        ("compare ext4 xfs -w ycsb-a --engine mysql", "use one of sqlite, sqlite-journal, fjall"),
    ] {
        let refused = lab.run(words);
        assert_eq!(refused.code(), 2, "{refused:?}");
        assert!(refused.stderr.contains(hint), "{refused:?}");
    }
}

/// WiredTiger's licence differs from ours: it may only be linked into its own program.
#[test]
fn the_program_is_not_linked_with_wiredtiger() {
    // In every error message.
    let has = |program: &Path| {
        let bytes = std::fs::read(program).unwrap();
        bytes.windows(WIREDTIGER_SAYS.len()).any(|window| window == WIREDTIGER_SAYS)
    };
    assert!(!has(Path::new(FSTRIAL)));
    let helper = Path::new(FSTRIAL).with_file_name("fstrial-wiredtiger");
    match helper.exists() {
        true => assert!(has(&helper), "what is looked for is not what is linked"),
        false => {
            support::skip("the_program_is_not_linked_with_wiredtiger (the other one)", "it is not built")
        }
    }
}

const WIREDTIGER_SAYS: &[u8] = b"WT_SESSION.begin_transaction";

/// Whether the program of an engine is where `fstrial` looks for it.
fn is_built(helper: &str) -> bool {
    Path::new(FSTRIAL).with_file_name(helper).exists() || fstrial_stack::command::find(helper).is_some()
}

/// Reads, updates, inserts and scans of real engines on a real filesystem, and nothing is left of them.
#[test]
fn every_engine_serves_ycsb() {
    if !support::is_root_with_loop_devices("every_engine_serves_ycsb") {
        return;
    }
    let lab = Lab::new();
    let image = IMAGE.replace("512MiB", "1GiB");
    for engine in KeyValueEngine::ALL {
        if let Some(helper) = engine.helper().filter(|helper| !is_built(helper)) {
            support::skip(&format!("every_engine_serves_ycsb ({engine})"), &format!("{helper} is not built"));
            continue;
        }
        // An engine that has checkpoints by the clock is to have two in each run.
        let (duration, records) = if engine.helper().is_some() { ("2s", 40_000) } else { ("100ms", 5000) };
        let few = format!(
            "--duration {duration} --threads 2 --set workload.ycsb.records={records} --set workload.warmup=100ms"
        );
        let words = format!("-w ycsb-a,ycsb-d,ycsb-e,ycsb-f --engine {engine} {few} {image}");
        let ended = lab.run(&format!("compare a=ext4 b=ext4 {words}"));
        assert_eq!((ended.code(), rates(&ended).len()), (3, 8), "{engine}: {ended:?}");
        let cell = &ended.document()["workloads"][0]["cells"][0];
        let tool = cell["tool"].as_str().unwrap();
        assert!(tool.starts_with(engine.name()) && tool.contains(|c: char| c.is_ascii_digit()), "{tool}");
        let of_kinds = cell["latency_of_kinds_ns"].as_object().unwrap();
        assert_eq!(of_kinds.keys().collect::<Vec<_>>(), ["read", "update"], "{engine}: {cell}");
        assert!(of_kinds.values().all(|quantiles| quantiles[0].as_f64().unwrap() > 0.0), "{cell}");
        assert!(lab.run("report --format text").stdout.contains("p50 and p99 of update: a "), "{engine}");
    }
}

/// YCSB's two phases: the second reads every record that the first has inserted, after the database was closed and opened.
#[test]
fn phase_uses_records_of_earlier_phase() {
    if !support::is_root_with_loop_devices("phase_uses_records_of_earlier_phase") {
        return;
    }
    let lab = Lab::new();
    lab.write(
        "both.toml",
        "kind = 'ycsb'\n[ycsb]\nrecords = 300\n[[phase]]\nname = 'load'\n[phase.ycsb]\nworkload = 'load'\n\
         [[phase]]\nname = 'run'\nsettle = true\nwarmup = '100ms'\nduration = '200ms'\n[phase.ycsb]\nworkload = 'c'\n",
    );
    let ended = lab.run(&format!("compare a=ext4 b=ext4 -w both.toml --threads 2 {IMAGE}"));
    assert_eq!((ended.code(), rates(&ended).len()), (3, 4), "{ended:?}");
    let document = ended.document();
    let served = &document["workloads"][0]["served"];
    assert_eq!(served["data"], "300 records of 1000 bytes (293 KiB), a cache of 8 MiB", "{served}");
    assert!(served["durable"].as_str().unwrap().contains("before it returns"), "{served}");
}

#[test]
fn warns_when_offered_rate_is_not_reached() {
    if !support::is_root_with_loop_devices("warns_when_offered_rate_is_not_reached") {
        return;
    }
    let lab = Lab::new();
    let warned = |rate: &str| {
        let words =
            format!("-w append-fsync --threads 1 --duration 200ms --set workload.rate={rate}/s {IMAGE}");
        let ended = lab.run(&format!("compare a=ext4 b=ext4 {words}"));
        let warnings = ended.document()["warnings"].to_string();
        warnings.contains("not all that was offered was done") && warnings.contains("% of 1000000/s")
    };
    assert!(warned("1000000"));
    assert!(!warned("20"));
}

#[test]
fn application_name_selects_its_workloads() {
    let lab = Lab::new();
    let listed = lab.run("workloads postgres");
    assert_eq!(listed.code(), 0, "{listed:?}");
    for words in ["postgresql: Commits", "--workload postgresql", "wal-group-commit", "checkpoint-bursts"] {
        assert!(listed.stdout.contains(words), "{words}: {listed:?}");
    }
    let names = lab.run("workloads list mariadb --json").json();
    assert!(
        names.iter().all(|preset| preset["keywords"].as_array().unwrap().contains(&"mysql".into())),
        "{names:?}"
    );
    let shown = lab.run("workloads show mysql --json").json();
    assert_eq!(
        shown.iter().map(|one| one["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["random-mixed", "innodb-flush"]
    );
    let planned = lab.run("compare ext4 xfs -w mysql,random-mixed --dry-run");
    assert_eq!(planned.code(), 0, "{planned:?}");
    assert!(planned.stderr.contains("mysql: random-mixed, innodb-flush"), "{planned:?}");
    assert!(planned.stdout.contains("innodb-flush"), "{planned:?}");
    for (words, hint) in [
        ("workloads postgras", "did you mean `postgres`?"),
        ("compare ext4 xfs -w postgras", "`fstrial workloads WORD`"),
        ("workloads show postgres --toml", "a workload file holds one"),
        ("workloads zzz", "`fstrial workloads` lists all of them"),
    ] {
        let refused = lab.run(words);
        assert_eq!(refused.code(), 2, "{refused:?}");
        assert!(refused.stderr.contains(hint), "{words}: {refused:?}");
    }
}

#[test]
fn default_workloads_for_bare_device_omit_file_workloads() {
    let lab = Lab::new();
    let planned = lab.run("compare raw ext4 --dry-run");
    assert_eq!(planned.code(), 0, "{planned:?}");
    assert!(planned.stderr.contains("skipped append-fsync, create-files"), "{planned:?}");
    assert!(
        planned.stdout.contains("random-write") && !planned.stdout.contains("create-files"),
        "{planned:?}"
    );
    let three = lab.run("compare raw ext4 xfs --dry-run");
    assert_eq!(three.code(), 0, "two of three can do all: {three:?}");
    assert!(!three.stderr.contains("the bare device"), "{three:?}");
}

#[test]
fn a_nightly_trial_is_silent_and_may_stay_undecided() {
    let lab = Lab::new();
    for name in ["a", "b"] {
        std::fs::create_dir_all(lab.path(name)).unwrap();
    }
    let words = "compare dir:a dir:b --workload append-fsync --set workload.file_size=1MiB --threads 1 --duration 100ms --set workload.warmup=20ms --rounds 1";
    let silent = lab.run(&format!("{words} -qq --ok-undecided"));
    assert_eq!((silent.code(), silent.stdout.as_str(), silent.stderr.as_str()), (0, "", ""), "{silent:?}");
    let undecided = lab.run(&format!("{words} -qq"));
    assert_eq!((undecided.code(), undecided.stdout.as_str()), (3, ""), "{undecided:?}");
    let failing = words.replace("--set workload.file_size=1MiB", "--set workload.file_size=900TiB");
    let failed = lab.run(&format!("{failing} -qq --ok-undecided"));
    assert!(failed.code() > 3 && !failed.stderr.is_empty(), "{failed:?}");
}

#[test]
fn directories_of_one_filesystem_are_warned_of() {
    let lab = Lab::new();
    for name in ["a", "b"] {
        std::fs::create_dir_all(lab.path(name)).unwrap();
    }
    let small = "--workload append-fsync --set workload.file_size=1MiB --threads 1 --duration 100ms --set workload.warmup=20ms --rounds 1";
    let ended = lab.run(&format!("compare dir:a dir:b {small} --json"));
    let document = ended.document();
    let warnings = document["warnings"].to_string();
    assert!(
        warnings.contains("comparing dir:a, dir:b measures noise, as they are both on one filesystem"),
        "{warnings}"
    );
    assert!(!document["audit"].to_string().contains("space available"), "{}", document["audit"]);
    for arm in document["arms"].as_array().unwrap() {
        let facts = &arm["facts"]["facts"];
        assert!(facts["lies-on"].as_str().is_some_and(|message| message.contains(" on ")), "{facts}");
        assert!(facts["mount-point"].as_str().is_some_and(|message| message.starts_with('/')), "{facts}");
    }
}
