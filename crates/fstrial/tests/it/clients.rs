//! `fstrial compare --clients`: a load that several clients make together, started by MPI on this host and on the nodes
//! of a Slurm cluster.

use crate::{
    cluster::Cluster,
    support::{self, FSTRIAL, Lab},
};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::OnceLock,
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(60);
/// A lab with two folders and the program between MPI and clients; `None`, with a reason, where that program cannot be
/// built.
fn lab(name: &str) -> Option<Lab> {
    static BUILT: OnceLock<Result<(), String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../helpers/mpi/fstrial-mpi.c");
        let program = Path::new(FSTRIAL).with_file_name("fstrial-mpi");
        let mut compiler = support::command("mpicc");
        compiler.args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]).args([&program, &source]);
        let done = compiler.output().map_err(|_| "mpicc is not installed".to_owned())?;
        if done.status.success() { Ok(()) } else { panic!("{}", String::from_utf8_lossy(&done.stderr)) }
    });
    if let Err(why) = built {
        support::skip(name, why);
        return None;
    }
    let lab = Lab::new();
    for arm in ["a", "b"] {
        fs::create_dir(lab.path(arm)).unwrap();
    }
    Some(lab)
}

/// The cells of the first workload.
fn cells(document: &Value) -> &Vec<Value> {
    document["workloads"][0]["cells"].as_array().unwrap_or_else(|| panic!("{document}"))
}

fn assert_empty(lab: &Lab) {
    for arm in ["a", "b"] {
        assert_eq!(support::names_in(&lab.path(arm)), [""; 0]);
    }
}

#[test]
fn clients_make_each_run_together() {
    let Some(lab) = lab("clients_make_each_run_together") else { return };
    let words = "compare dir:a dir:b -w sequential-write --set workload.file_size=4MiB --threads 1 --duration 300ms --rounds 2";
    let ended = lab.run(&format!("{words} --clients 3 --json --save trial.toml"));
    assert!([0, 3].contains(&ended.code()), "{ended:?}");
    let document = ended.document();
    assert_eq!(document["failures"].as_array().map(Vec::len), Some(0), "{document}");
    for cell in cells(&document) {
        let together = &cell["together"];
        assert_eq!(together["clients"], 3, "{cell}");
        assert!(together["start_spread_ns"].as_f64().unwrap() < 1e9, "{cell}");
        let slowest = together["slowest_share"].as_f64().unwrap();
        assert!(slowest > 0.0 && slowest <= 1.0, "{cell}");
    }
    let text = lab.run("report 1 --format text").stdout;
    assert!(text.contains("3 clients on one host, each with 1 thread, began within "), "{text}");
    // The file repeats it.
    let again = lab.run("run trial.toml --json");
    assert!(fs::read_to_string(lab.path("trial.toml")).unwrap().contains("clients = 3"));
    assert_eq!(cells(&again.document())[0]["together"]["clients"], 3, "{again:?}");
    assert_empty(&lab);
    lab.assert_nothing_left("after clients");
}

/// As mdtest counts: each thread of each client makes, looks at and removes its own.
#[test]
fn operations_are_those_of_all_clients() {
    let Some(lab) = lab("operations_are_those_of_all_clients") else { return };
    let alone = "compare dir:a dir:b -w mdtest --threads 2 --rounds 1 --json";
    let operations = |words: &str| -> Vec<(String, f64)> {
        let ended = lab.run(words);
        let document = ended.document();
        let of = |workload: &Value| {
            (
                workload["phase"].as_str().unwrap().to_owned(),
                workload["cells"][0]["operations"].as_f64().unwrap(),
            )
        };
        document["workloads"].as_array().unwrap_or_else(|| panic!("{ended:?}")).iter().map(of).collect()
    };
    let (one, three) = (operations(alone), operations(&format!("{alone} --clients 3")));
    assert!(one.len() > 3 && one.iter().all(|(_, count)| *count > 0.0), "{one:?}");
    let tripled: Vec<(String, f64)> = one.into_iter().map(|(phase, count)| (phase, 3.0 * count)).collect();
    assert_eq!(three, tripled);
    assert_empty(&lab);
}

#[test]
fn interrupted_or_killed_trial_leaves_no_clients() {
    let Some(lab) = lab("interrupted_or_killed_trial_leaves_no_clients") else { return };
    let words = "compare dir:a dir:b -w sequential-write --set workload.file_size=4MiB --threads 1 --duration 20s --rounds 2 --clients 3 --json";
    let is_loading = |lab: &Lab| {
        let mut running = lab.start(words);
        while running.event().expect("it runs")["stage"] != "load" {}
        running
    };
    let are_gone = || lab.leaks().is_empty();
    // Interrupted, it takes the folder away after the last client.
    let running = is_loading(&lab);
    running.signal(Signal::INT);
    assert_eq!(running.end(PATIENCE).code(), 130);
    assert!(support::eventually(support::SETTLE, are_gone), "{:?}", lab.leaks());
    assert_empty(&lab);
    // Killed, its clients end, and the next command takes the folder away.
    let running = is_loading(&lab);
    support::kill(running.pid());
    assert!(running.end(PATIENCE).is_killed());
    assert!(support::eventually(PATIENCE, are_gone), "{:?}", lab.leaks());
    lab.run("clean");
    assert_empty(&lab);
    lab.assert_nothing_left("after clients that were ended");
}

/// The output of MPI itself is not taken as a result, and an mpirun whose ranks fail ends.
#[test]
fn noisy_or_failing_mpirun_does_not_hang() {
    let Some(lab) = lab("noisy_or_failing_mpirun_does_not_hang") else { return };
    lab.wrap("mpirun", "echo a warning; echo 1 2 3; exec $real \"$@\"");
    let words =
        "compare dir:a dir:b -w append-fsync --threads 1 --duration 200ms --rounds 1 --clients 3 --json";
    let talks = lab.run(words);
    assert_eq!(cells(&talks.document())[0]["together"]["clients"], 3, "{talks:?}");
    lab.wrap("mpirun", "echo there is no network here >&2; echo '{}'; sleep 1000");
    let hangs = lab.start(words);
    support::pause(Duration::from_secs(2));
    hangs.signal(Signal::INT);
    assert_eq!(hangs.end(PATIENCE).code(), 130);
    lab.wrap("mpirun", "echo there is no network here >&2; exit 1");
    let fails = lab.run(words);
    assert!(fails.code() == 11 && fails.stdout.contains("there is no network here"), "{fails:?}");
    assert!(fails.document()["failures"][0].as_str().unwrap().contains("every run was lost"), "{fails:?}");
    assert_empty(&lab);
    lab.assert_nothing_left("after other mpiruns");
}

#[test]
fn trials_of_other_numbers_of_clients_are_not_pooled() {
    let Some(lab) = lab("trials_of_other_numbers_of_clients_are_not_pooled") else { return };
    let words = "compare dir:a dir:b -w append-fsync --threads 1 --duration 100ms --rounds 5 --no-page";
    for clients in ["", "--clients 3"] {
        let ended = lab.run(&format!("{words} {clients}"));
        assert!([0, 3].contains(&ended.code()), "{ended:?}");
    }
    let pooled = lab.run("meta --json").json().pop().unwrap();
    let trials: Vec<usize> = pooled["questions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|question| question["hosts"][0]["trials"].as_array().unwrap().len())
        .collect();
    assert_eq!(trials, [1, 1], "{pooled}");
}

#[test]
fn unsupported_client_options_are_refused() {
    let lab = Lab::new();
    for arm in ["a", "b"] {
        fs::create_dir(lab.path(arm)).unwrap();
    }
    for (words, why) in [
        ("compare ext4 xfs --clients 4", "only directories can be shared by clients"),
        ("compare dir:a dir:b --clients 4 -w ycsb-a", "`ycsb-a` is not made by several clients"),
        ("compare dir:a dir:b --clients 0", "clients is out of range"),
        ("compare dir:a dir:b --on slurm", "fstrial run trial.toml --on slurm --hosts N"),
        ("compare dir:a dir:b --clients 4 --set trial.memory=1GiB", "memory of clients"),
        ("compare dir:a dir:b --clients 4 --decide-on cpu-time", "is not counted on the hosts of clients"),
        ("compare dir:a dir:b --clients 4 --on 'command run {host}'", "clients are started by mpirun"),
    ] {
        let refused = crate::cluster::run_quoted(&lab, words);
        assert!(refused.code() == 2 && refused.stderr.contains(why), "{words}: {refused:?}");
    }
}

/// Nodes of a cluster have a clock, and here a filesystem, in common.
#[test]
fn clients_run_on_the_nodes_of_an_allocation() {
    let name = "clients_run_on_the_nodes_of_an_allocation";
    let Some(lab) = lab(name) else { return };
    let Some(cluster) = Cluster::new(name, &lab, 3) else { return };
    let words =
        "compare dir:a dir:b -w append-fsync --threads 1 --duration 300ms --rounds 2 --clients 3 --json";
    let ended = cluster.start(&lab, &format!("{words} --on 'slurm --nodes=3'")).end(2 * PATIENCE);
    assert!([0, 3].contains(&ended.code()), "{ended:?}");
    let document = ended.document();
    assert_eq!(document["failures"].as_array().map(Vec::len), Some(0), "{document}");
    assert!(cells(&document).iter().all(|cell| cell["together"]["clients"] == 3), "{document}");
    assert_eq!(cluster.ask("squeue", &["-h"]), "", "the allocation is given back");
    drop(cluster);
    assert_empty(&lab);
    lab.assert_nothing_left("after clients on nodes");
}

/// A lab for [`calls`].
fn traced_lab(name: &str) -> Option<Lab> {
    let lab = lab(name)?;
    if support::command("strace").arg("-V").output().is_err() {
        support::skip(name, "strace is not installed");
        return None;
    }
    Some(lab)
}

/// Calls of the clients of the last run of a preset with fewer files, each with its thread.
fn calls(lab: &Lab, preset: &str) -> Vec<(String, String)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../workloads/{preset}.toml"));
    let workload = fs::read_to_string(source).unwrap().replace("files = 5000", "files = 20");
    let workload = workload.replace("141024000B", "188032B").replace("[[phase]]", "[[workload.phase]]");
    let arms = ["a", "b"]
        .map(|arm| format!("[[arm]]\nname = \"{arm}\"\nfilesystem = \"dir\"\npath = {:?}\n", lab.path(arm)));
    let head = "[trial]\nclients = 3\nrounds = 1\n";
    fs::write(lab.path("trial.toml"), format!("{head}{}[[workload]]\n{workload}", arms.concat())).unwrap();
    let logs = lab.path("calls");
    let traced = "strace -ff -qq -s 512 -e trace=openat,pwrite64,pread64,newfstatat,statx,unlinkat";
    let anew = format!("rm -rf {0}; mkdir {0}; exec {traced} -o {0}/of $real \"$@\"", logs.display());
    lab.wrap("mpirun", &anew);
    let ended = lab.run("run trial.toml --json");
    assert_eq!(ended.document()["failures"].as_array().map(Vec::len), Some(0), "{ended:?}");
    assert!(!ended.stdout.contains("\"run-failed\""), "{ended:?}");
    let mut calls = Vec::new();
    for thread in support::names_in(&logs) {
        let text = fs::read_to_string(logs.join(&thread)).unwrap();
        calls.extend(text.lines().map(|call| (thread.clone(), call.to_owned())));
    }
    calls
}

/// The definition of IO500, checked on the calls of its presets: which rank makes each file, and which rank uses it
/// afterwards.
#[test]
fn io500_presets_issue_specified_calls() {
    let Some(lab) = traced_lab("io500_presets_issue_specified_calls") else { return };
    // One file of twelve records, written in turns.
    let ior_hard = calls(&lab, "ior-hard");
    for kind in ["pwrite64", "pread64"] {
        let offset = |call: &str| call.rsplit_once(", ")?.1.split(')').next()?.parse().ok();
        let records =
            ior_hard.iter().filter(|(_, call)| call.starts_with(kind) && call.ends_with(" = 47008"));
        let mut records: Vec<(u64, &str)> =
            records.map(|(thread, call)| (offset(call).unwrap(), thread.as_str())).collect();
        records.sort_unstable();
        assert!(records.iter().map(|(offset, _)| *offset).eq((0..12).map(|n| n * 47_008)), "{records:?}");
        let by_turns = |four: &[(u64, &str)]| four[0].1 == four[3].1 && four[0].1 != four[1].1;
        assert!(records.windows(4).all(by_turns), "{kind}: {records:?}");
    }
    // One directory of 3 × 20 files: those that a rank has made are looked at, read and removed by another together.
    let mdtest_hard = calls(&lab, "mdtest-hard");
    let names = |kind: &str, word: &str| {
        let mut of_threads: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (thread, call) in
            mdtest_hard.iter().filter(|(_, call)| call.starts_with(kind) && call.contains(word))
        {
            let name = call.split('"').nth(1).unwrap();
            let is_item = name.len() == 18 && !name.contains('/');
            assert!(!is_item || of_threads.entry(thread).or_default().insert(name), "{call} is twice");
        }
        of_threads.into_values().collect::<BTreeSet<_>>()
    };
    let made = names("openat(", "O_CREAT");
    assert_eq!(made.iter().map(BTreeSet::len).collect::<Vec<_>>(), [20; 3]);
    assert_eq!(made.iter().flatten().collect::<BTreeSet<_>>().len(), 60);
    for (kind, word) in
        [("newfstatat(", ", 0) = 0"), ("openat(", "O_RDWR|O_LARGEFILE"), ("unlinkat(", ", 0)")]
    {
        assert_eq!(names(kind, word), made, "{kind}");
    }
    let bytes = |kind: &str| {
        mdtest_hard.iter().filter(|(_, call)| call.starts_with(kind) && call.ends_with(" = 3901")).count()
    };
    assert_eq!((bytes("pwrite64"), bytes("pread64")), (60, 60));
}

/// 24 records of each client, that its seven threads do not divide, are used as far as they are written; a slow writer is waited for.
#[test]
fn indivisible_record_counts_do_not_fail_runs() {
    let Some(lab) = lab("indivisible_record_counts_do_not_fail_runs") else { return };
    for (preset, size) in [("ior-hard", "1128192B"), ("ior-easy", "64MiB")] {
        let words = format!("compare dir:a dir:b -w {preset} --set workload.file_size={size}");
        let ended = lab.run(&format!("{words} --clients 3 --threads 7 --rounds 1 --json"));
        assert!(!ended.stdout.contains("\"run-failed\""), "{ended:?}");
        assert!(
            cells(&ended.document())[0]["operations"].as_f64().is_some_and(|count| count > 0.0),
            "{ended:?}"
        );
    }
}

/// Of three clients, each examines the files of the next one and removes those of the third: its own.
#[test]
fn clients_use_files_of_other_clients() {
    let Some(lab) = traced_lab("clients_use_files_of_other_clients") else { return };
    let mdtest_easy = calls(&lab, "mdtest-easy");
    let mut whose: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (process, call) in mdtest_easy.iter().filter(|(_, call)| call.contains("O_PATH")) {
        let rank: Option<u32> =
            call.split("client-").nth(1).and_then(|rest| rest.split(['/', '"']).next()?.parse().ok());
        whose.entry(process).or_default().extend(rank);
    }
    whose.values_mut().for_each(Vec::dedup);
    let whose: BTreeSet<Vec<u32>> = whose.into_values().filter(|ranks| !ranks.is_empty()).collect();
    assert_eq!(whose, [[0, 1, 0], [1, 2, 1], [2, 0, 2]].map(Vec::from).into());
}
