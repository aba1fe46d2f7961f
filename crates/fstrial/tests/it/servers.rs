//! Database servers on real filesystems: the presets at their smallest, leftovers after the command is killed, and
//! servers that do not start. Skipped with a message where the server is not installed.

use crate::{
    support::{self, Ended, Lab, PATIENCE, SETTLE},
    write_log,
};
use fstrial_model::units::Nanos;
use fstrial_stack::command;
use rustix::process::Signal;
use serde_json::Value;
use std::{fs, path::Path};

/// Every preset with little data and a short run.
const POSTGRESQL: [(&str, &str); 2] = [
    ("postgresql-tpcb", "scale = '5', max_wal_size = '160MB'"),
    ("postgresql-select", "scale = '5', max_wal_size = '160MB', sampling = '1'"),
];
const MARIADB: [(&str, &str); 3] = [
    ("mariadb-oltp-ro", "tables = '2', table_size = '10000'"),
    ("mariadb-oltp-rw", "tables = '2', table_size = '10000'"),
    ("mariadb-oltp-wo", "tables = '2', table_size = '10000'"),
];

/// Whether a test can run; prints the reason if not.
fn can_run(name: &str, programs: &[&str]) -> bool {
    if let Some(missing) = programs.iter().find(|program| command::find(program).is_none()) {
        support::skip(name, &format!("{missing} is not installed"));
        return false;
    }
    support::is_root_with_loop_devices(name)
}

/// A workload file that uses a preset.
fn small(preset: &str, parameters: &str, duration: &str) -> String {
    format!(
        "use = '{preset}'\nname = '{preset}'\nthreads = [2]\nduration = '{duration}'\ndeadline = '2m'\n\
         parameters = {{ {parameters} }}\n"
    )
}

/// Durations of a run, the second one enough for any disk.
const DURATIONS: [&str; 2] = ["1s", "15s"];

/// A trial of workload files; none if a busy disk completed too few transactions for percentiles.
fn run(lab: &Lab, words: &str) -> Option<Ended> {
    let ended =
        lab.run(&format!("compare ext4 xfs --set device.size=1GiB --device image:images --json {words}"));
    let failures: Vec<Value> = ended
        .json()
        .into_iter()
        .map(|mut event| event["failure"].take())
        .filter(|it| !it.is_null())
        .collect();
    let too_few = |failure: &Value| failure["hint"] == "use a longer duration";
    if ended.code() == 11 && !failures.is_empty() && failures.iter().all(too_few) {
        return None;
    }
    assert_eq!(ended.code(), 3, "{ended:?}");
    assert!(failures.is_empty(), "{failures:?}");
    Some(ended)
}

fn run_presets(presets: &[(&str, &str)]) {
    let lab = Lab::new();
    let files: Vec<String> = presets.iter().map(|(preset, _)| format!("{preset}.toml")).collect();
    let words = format!("--rounds 1 -w {}", files.join(","));
    let in_time = |duration| {
        for (preset, parameters) in presets {
            lab.write(&format!("{preset}.toml"), &small(preset, parameters, duration));
        }
        Some((run(&lab, &words)?, duration))
    };
    let (ended, duration) = DURATIONS.into_iter().find_map(in_time).expect("a quick enough disk");
    let text = ended.document().to_string();
    let is_short = text.contains("are too short: it declares a period of 5s");
    let writes = presets.iter().any(|(preset, _)| !preset.ends_with("-ro") && !preset.ends_with("-select"));
    assert_eq!(is_short, writes && duration == "1s", "{text}");
    for (preset, _) in presets {
        assert!(text.contains(preset), "{preset}: {text}");
    }
    for result in ["transactions", "latency-p50", "latency-p95", "latency-p99"] {
        assert!(text.contains(result), "{result}: {text}");
    }
    for workload in ended.document()["workloads"].as_array().expect("a list") {
        assert_causes(workload);
    }
    lab.assert_nothing_left("after the trial");
}

/// A workload that writes has bytes next to its transactions, and PostgreSQL its checkpoints.
fn assert_causes(workload: &Value) {
    let name = workload["name"].as_str().expect("a name");
    let is_main = workload["phase"] == "transactions";
    for cell in workload["cells"].as_array().expect("a list") {
        let written = cell["device_bytes_per_operation"].as_f64();
        // A commit is a block at least.
        let is_known = written.is_some_and(|bytes| bytes > 500.0);
        assert!(is_known || !is_main || name.ends_with("-ro") || name.ends_with("-select"), "{workload}");
        assert_eq!(cell["checkpoints"].is_number(), is_main && name == "postgresql-tpcb", "{workload}");
    }
}

#[test]
fn postgresql_is_measured_on_real_filesystems() {
    if can_run("postgresql_is_measured_on_real_filesystems", &["postgres", "initdb", "pgbench"]) {
        run_presets(&POSTGRESQL);
    }
}

#[test]
fn mariadb_is_measured_on_real_filesystems() {
    if can_run("mariadb_is_measured_on_real_filesystems", &["mariadbd", "mariadb-install-db", "sysbench"]) {
        run_presets(&MARIADB);
    }
}

/// Tables are loaded once on each filesystem, for all levels: a run that made the cluster again would find the first one in its way.
#[test]
fn server_data_is_loaded_once_and_restored() {
    let name = "server_data_is_loaded_once_and_restored";
    if !can_run(name, &["postgres", "initdb", "pgbench"]) {
        return;
    }
    let lab = Lab::new();
    let in_time = |duration| {
        let workload = small("postgresql-tpcb", "scale = '2', max_wal_size = '160MB'", duration);
        lab.write("loaded.toml", &workload.replace("threads = [2]", "threads = [1, 2]"));
        run(&lab, "--rounds 2 --state loaded:2 -w loaded.toml")
    };
    let ended = DURATIONS.into_iter().find_map(in_time).expect("a quick enough disk");
    let events = ended.json();
    let count = |word: &str| events.iter().filter(|event| event["event"] == word).count();
    assert_eq!((count("state-prepared"), count("run-ended")), (4, 8), "two loads on two filesystems");
    let cell = &ended.document()["workloads"][0]["cells"][0];
    let of_loads = cell["rate_by_load"].as_array().unwrap();
    assert!(of_loads.len() == 2 && of_loads.iter().all(Value::is_f64), "{cell}");
    lab.assert_nothing_left("after runs on a loaded server");
}

/// The namespace of that process.
fn namespace_of(word: &str) -> Option<std::path::PathBuf> {
    server_of(word).map(|(_, namespace)| namespace)
}

/// The first process in another namespace whose command line contains the word.
fn server_of(word: &str) -> Option<(u32, std::path::PathBuf)> {
    let pids = support::names_in(Path::new("/proc")).into_iter().filter_map(|name| name.parse::<u32>().ok());
    let mut with_word = pids.filter(|pid| {
        fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.windows(word.len()).any(|window| window == word.as_bytes()))
    });
    let own = fs::read_link("/proc/self/ns/pid").ok();
    with_word.find_map(|pid| {
        let namespace = fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        namespace.filter(|namespace| Some(namespace) != own.as_ref()).map(|namespace| (pid, namespace))
    })
}

fn is_inhabited(namespace: &Path) -> bool {
    let processes = support::names_in(Path::new("/proc"));
    processes.iter().any(|pid| fs::read_link(format!("/proc/{pid}/ns/pid")).is_ok_and(|of| of == namespace))
}

#[test]
fn a_killed_command_leaves_no_server() {
    let name = "a_killed_command_leaves_no_server";
    if !can_run(name, &["postgres", "initdb", "pgbench"]) {
        return;
    }
    let lab = Lab::new();
    // Unique words, which tell the server from those of other tests.
    for (number, stage) in ["layout", "load"].into_iter().enumerate() {
        let connections = 141 + number;
        let parameters = format!("scale = '5', max_wal_size = '160MB', max_connections = '{connections}'");
        lab.write("db.toml", &small("postgresql-tpcb", &parameters, "1m"));
        let mut running = lab.start(
            "compare ext4 xfs --rounds 1 --set device.size=1GiB --device image:images --json -w db.toml",
        );
        let mut in_run = false;
        while let Some(event) = running.event() {
            in_run |= event["event"] == "run-started";
            if in_run && event["event"] == "run-stage" && event["stage"] == stage {
                break;
            }
        }
        let word = format!("max_connections={connections}");
        let mut namespace = None;
        let matched = support::eventually(PATIENCE, || {
            namespace = namespace_of(&word);
            namespace.is_some()
        });
        assert!(matched, "{stage}: the server never ran");
        support::kill(running.pid());
        assert!(running.end(PATIENCE).is_killed());
        let namespace = namespace.unwrap();
        assert!(
            support::eventually(SETTLE, || !is_inhabited(&namespace)),
            "{stage}: processes of the server are left"
        );
        lab.assert_nothing_left(stage);
        lab.clean();
    }
}

/// Servers that do not come up, with words of the error and of its remedy.
const BAD: [(&str, &str, &str); 3] = [
    ("sh -c 'echo no such table >&2; exit 3'", "ended before it was ready", "no such table"),
    ("sh -c 'echo still thinking; while :; do sleep 1; done'", "was not ready within 1", "still thinking"),
    ("fstrial-no-such-server", "fstrial-no-such-server is not installed", "install the package"),
];

#[test]
fn unready_server_reports_its_last_output() {
    let name = "unready_server_reports_its_last_output";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    for (start, message, remedy) in BAD {
        let words = match start.split_once(" -c ") {
            Some((shell, script)) => format!("['{shell}', '-c', \"{}\"]", script.trim_matches('\'')),
            None => format!("['{start}']"),
        };
        let text = format!(
            "kind = 'program'\ncommand = ['true']\nthreads = [1]\n[[metric]]\nname = 'wall'\nmeasure = 'wall'\n\
             [server]\nstart = {words}\nready = ['false']\nready_within = '1s'\n"
        );
        lab.write("db.toml", &text);
        let ended =
            lab.run("compare ext4 xfs --rounds 1 --set device.size=320MiB --device image:images -w db.toml");
        assert!([10, 11].contains(&ended.code()), "{start}: {ended:?}");
        for text in [message, remedy] {
            assert!(ended.stderr.contains(text), "{start}: {text}: {ended:?}");
        }
        lab.assert_nothing_left(start);
    }
}

#[test]
fn a_bad_description_is_underlined() {
    let lab = Lab::new();
    let text = "kind = 'program'\ncommand = ['true']\n[[metric]]\nname = 'wall'\nmeasure = 'wall'\n\
                [server]\nstart = ['redis-server']\nready = ['redis-cli', '-s', '{socket}']\n";
    lab.write("db.toml", text);
    let ended = lab.run("compare ext4 xfs --dry-run -w db.toml");
    assert_eq!(ended.code(), 2, "{ended:?}");
    for message in ["db.toml", "no placeholder `{socket}`", "ready = ['redis-cli'", "use one of dir"] {
        assert!(ended.stderr.contains(message), "{message}: {}", ended.stderr);
    }
}

/// The arms of a receipt of one run with this number of cuts under a preset with these parameters.
fn receipt(lab: &Lab, arms: &str, preset: &str, parameters: &str, cuts: u32) -> Vec<Value> {
    lab.write("promises.toml", &small(preset, parameters, "3s"));
    let ended = lab.run(&format!(
        "durability {arms} -w promises.toml --threads 2 --duration 3s --runs 1 --cuts {cuts} --seed 5 --json"
    ));
    assert_eq!(ended.code(), 0, "{ended:?}");
    let mut receipt = ended.json().pop().unwrap();
    let arms: Vec<Value> = serde_json::from_value(receipt["arms"].take()).unwrap();
    for arm in &arms {
        assert!(arm["failure"].is_null() && arm["cuts"] == cuts, "{arm}");
        assert!(arm["promises"].as_u64().unwrap() > 20, "{arm}");
    }
    arms
}

/// Losses that a setting allows: of commits that were recent, and the database opens.
fn assert_loses_recent_commits(arm: &Value) {
    assert_eq!(
        (&arm["lossy_runs"], &arm["closed"], &arm["unmountable"]),
        (&1.into(), &0.into(), &0.into()),
        "{arm}"
    );
    let oldest: Nanos = serde_json::from_value(arm["oldest"].clone()).unwrap();
    assert!(oldest < Nanos::secs(2), "{arm}");
    let mut cuts = arm["each"][0]["cuts"].as_array().unwrap().iter();
    let is_lost =
        |cut: &Value| cut["outcome"]["first"].as_str().is_some_and(|it| it.contains("is missing or wrong"));
    assert!(cuts.any(is_lost), "{arm}");
}

#[test]
fn postgresql_keeps_commits_that_are_synced() {
    let name = "postgresql_keeps_commits_that_are_synced";
    if !can_run(name, &["postgres", "pgbench", "psql"]) {
        return;
    }
    let lab = Lab::new();
    let arms = receipt(&lab, "ext4 nb=ext4:barrier=0", "postgresql-tpcb", "scale = '1'", 4);
    assert_eq!(arms[0]["lossy_runs"], 0, "a headline, or a bug of the checker: {}", arms[0]["first_problem"]);
    assert_eq!(arms[1]["lossy_runs"], 1, "{}", arms[1]);
    let arms = receipt(&lab, "ext4", "postgresql-tpcb", "scale = '1', fsync = 'off'", 4);
    assert_eq!(arms[0]["lossy_runs"], 1, "{}", arms[0]);
    let arms =
        receipt(&lab, "ext4 --keep kept", "postgresql-tpcb", "scale = '1', synchronous_commit = 'off'", 4);
    assert_loses_recent_commits(&arms[0]);
    let [log, image] = ["log", "image"].map(|key| lab.root().join(arms[0]["kept"][key].as_str().unwrap()));
    let replayed = write_log::replayed_to_cut(&log, &image);
    assert!(replayed.flushes > 0 && replayed.covered > 0, "{replayed:?}");
    assert_eq!(replayed.promises, arms[0]["first_problem"]["promises"], "{replayed:?}");
}

#[test]
fn mariadb_keeps_commits_that_are_synced() {
    let name = "mariadb_keeps_commits_that_are_synced";
    if !can_run(name, &["mariadbd", "mariadb", "mariadb-check", "sysbench"]) {
        return;
    }
    let lab = Lab::new();
    let small = "tables = '1', table_size = '1000'";
    let arms = receipt(&lab, "ext4", "mariadb-oltp-wo", small, 4);
    // MariaDB 10.11 may leave a torn first page of a table as it is, with a valid copy in the doublewrite buffer.
    let is_torn = arms[0]["torn_only"] == true && arms[0]["oldest"].is_null();
    assert!(arms[0]["lossy_runs"] == 0 || is_torn, "a headline, or a bug of the checker: {}", arms[0]);
    let lazy = format!("{small}, flush_log_at_trx_commit = '2', sync_binlog = '0'");
    // About half of its cuts lose something: on a slow disk its pages, and with them the log, are written at every few commits.
    let arms = receipt(&lab, "ext4", "mariadb-oltp-wo", &lazy, 24);
    assert_loses_recent_commits(&arms[0]);
}

/// Killed while sessions commit, and while the server works on an image.
#[test]
fn killed_power_cuts_leave_no_server() {
    let name = "killed_power_cuts_leave_no_server";
    if !can_run(name, &["postgres", "initdb", "pgbench"]) {
        return;
    }
    let lab = Lab::new();
    for (starts, connections) in [(2, 151), (3, 152)] {
        let parameters = format!("scale = '1', max_connections = '{connections}'");
        lab.write("db.toml", &small("postgresql-tpcb", &parameters, "3s"));
        let running = lab.start("durability ext4 --runs 1 --cuts 20 -w db.toml");
        let word = format!("max_connections={connections}");
        // It starts to load, to commit, and on the first image. Numbers of namespaces are used again, those of processes not
        // so soon.
        let mut servers = Vec::new();
        let has_started = support::eventually(PATIENCE, || {
            servers.extend(server_of(&word).filter(|(pid, _)| servers.iter().all(|(known, _)| known != pid)));
            servers.len() == starts
        });
        assert!(has_started, "{starts}: {servers:?}");
        running.signal(Signal::KILL);
        assert!(running.end(PATIENCE).is_killed());
        let is_gone = || servers.iter().all(|(_, namespace)| !is_inhabited(namespace));
        assert!(support::eventually(SETTLE, is_gone), "{starts}: processes of the server are left");
        lab.clean();
        lab.assert_nothing_left(&format!("start {starts}"));
    }
}
