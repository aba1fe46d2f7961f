//! The views are an interface: every column is documented, every documented example runs in its program where that is
//! installed, and the views agree with the store.

use crate::common::{self, SESSION, TOML};
use fstrial_store::{NewSession, NewTrial, Store, StoredRun, TrialId, metrics};
use rusqlite::Connection;
use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const DOCS: &str = include_str!("../../../../docs/store-schema.md");

/// A store in which every documented question has an answer.
fn store(folder: &Path) -> PathBuf {
    let path = folder.join("results.db");
    let mut store = Store::open(&path).unwrap();
    let arms = common::arms();
    let session = NewSession { environment: r#"{"host":"a","kernel":"6.12","device":"image"}"#, ..SESSION };
    let tags = ["nightly".to_owned()];
    let trial = NewTrial { name: "n", toml: TOML, seed: u64::MAX, arms: &arms, tags: &tags, session };
    let id = store.create_trial(&trial).unwrap();
    for index in 0..8 {
        let mut run = common::expected(index);
        let mut job = run.parse_job().unwrap();
        job.task.as_mut().unwrap().threads = 1;
        (run.threads, run.job) = (1, serde_json::to_string(&job).unwrap());
        common::record_run(&mut store, id, &run).unwrap();
    }
    path
}

/// The code blocks of a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let begin = format!("```{language}\n");
    DOCS.split(&begin).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

#[expect(clippy::disallowed_methods, reason = "other programs are asked the same questions")]
fn run(program: &str, arguments: &[&str], input: &str) -> std::io::Result<(bool, String)> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // An unreadable one is marked by its status.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output()?;
    let reported = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok((output.status.success(), reported + &String::from_utf8_lossy(&output.stderr)))
}

fn skip(name: &str, reason: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {name}: {reason}");
}

#[test]
fn every_documented_question_has_an_answer() {
    let folder = tempfile::tempdir().unwrap();
    let path = store(folder.path());
    let connection = Connection::open(&path).unwrap();
    let questions = blocks("sql");
    assert!(questions.len() >= 5, "the examples have gone");
    for sql in questions {
        let mut statement = connection.prepare(sql).unwrap_or_else(|error| panic!("{error}\n{sql}"));
        let mut rows = statement.query([]).unwrap();
        let mut count = 0;
        while rows.next().unwrap_or_else(|error| panic!("{error}\n{sql}")).is_some() {
            count += 1;
        }
        assert!(count > 0, "no answer to\n{sql}");
    }
}

#[test]
fn sqlite3_answers_the_documented_questions() {
    let name = "sqlite3_answers_the_documented_questions";
    let folder = tempfile::tempdir().unwrap();
    let path = store(folder.path());
    if run("sqlite3", &["--version"], "").is_err() {
        return skip(name, "there is no sqlite3 here");
    }
    for sql in blocks("sql") {
        let (good, reported) = run("sqlite3", &["-bail", "-readonly", path.to_str().unwrap()], sql).unwrap();
        assert!(good && !reported.trim().is_empty() && !reported.contains("rror"), "{sql}\n{reported}");
    }
}

#[test]
fn python_answers_the_documented_questions() {
    let name = "python_answers_the_documented_questions";
    let folder = tempfile::tempdir().unwrap();
    let path = store(folder.path());
    if !run("python3", &["-c", "import sqlite3"], "").is_ok_and(|(good, _)| good) {
        return skip(name, "there is no Python with sqlite3 here");
    }
    let script = "import sqlite3, sys\n\
                  store = sqlite3.connect(f'file:{sys.argv[1]}?mode=ro', uri=True)\n\
                  assert store.execute(sys.stdin.read()).fetchall()\n";
    for sql in blocks("sql") {
        let (good, reported) = run("python3", &["-c", script, path.to_str().unwrap()], sql).unwrap();
        assert!(good, "{sql}\n{reported}");
    }
    // The other example needs pandas, which is not everywhere.
    if !run("python3", &["-c", "import pandas"], "").is_ok_and(|(good, _)| good) {
        return skip(name, "there is no pandas here; the questions in SQL were answered");
    }
    for script in blocks("python") {
        let here = script.replace("file:results.db", &format!("file:{}", path.display()));
        let (good, reported) = run("python3", &["-c", &here], "").unwrap();
        assert!(good && reported.contains("ext4"), "{reported}");
    }
}

/// The names in the first column of the table of a section.
fn documented(view: &str) -> BTreeSet<String> {
    let section =
        DOCS.split(&format!("## {view}\n")).nth(1).unwrap_or_else(|| panic!("{view} is not documented"));
    let section = section.split("\n## ").next().unwrap();
    let first = section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    first.flat_map(|names| names.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

#[test]
fn view_columns_match_documentation() {
    let folder = tempfile::tempdir().unwrap();
    let connection = Connection::open(store(folder.path())).unwrap();
    let mut views: Vec<String> = Vec::new();
    let mut statement = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'view'").unwrap();
    for name in statement.query_map([], |row| row.get(0)).unwrap() {
        views.push(name.unwrap());
    }
    assert_eq!(views.len(), 5, "{views:?}");
    for view in views {
        let mut columns = connection.prepare("SELECT name FROM pragma_table_info(?1)").unwrap();
        let columns: BTreeSet<String> =
            columns.query_map([&view], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert_eq!(documented(&view), columns, "{view}");
    }
}

#[test]
fn views_match_store_contents() {
    let folder = tempfile::tempdir().unwrap();
    let path = store(folder.path());
    let connection = Connection::open(&path).unwrap();
    let runs = Store::open_read_only(&path).unwrap().runs(TrialId(1)).unwrap();
    let ask = |sql: &str, run: &StoredRun| -> Option<f64> {
        connection.query_row(sql, [run.id.0], |row| row.get(0)).unwrap()
    };
    for run in &runs {
        let Ok(measurement) = &run.outcome else {
            assert_eq!(
                ask("SELECT rate FROM v_run WHERE run = ?1 AND failure_kind = 'arm-failed'", run),
                None
            );
            continue;
        };
        let result = metrics(measurement).unwrap();
        let result: BTreeMap<&str, f64> = result.iter().map(|m| (m.name.as_str(), m.value)).collect();
        for (column, metric) in [
            ("rate", "throughput"),
            ("operations_per_second", "throughput"),
            ("bytes_per_second", "bytes_per_second"),
            ("cpu_per_operation_ns", "cpu_per_operation_ns"),
            ("cpu_machine_per_operation_ns", "cpu_machine_per_operation_ns"),
            ("errors", "errors"),
        ] {
            let reported = ask(&format!("SELECT {column} * 1.0 FROM v_run WHERE run = ?1"), run).unwrap();
            assert!(
                (reported / result[metric] - 1.0).abs() < 1e-12 || reported == result[metric],
                "{column} of {}",
                run.id
            );
        }
        for (column, metric) in [
            ("p50_ns", "read_latency_ns_p50"),
            ("p99_ns", "read_latency_ns_p99"),
            ("p999_ns", "read_latency_ns_p999"),
            ("max_ns", "read_latency_ns_max"),
        ] {
            let sql = format!("SELECT {column} * 1.0 FROM v_latency WHERE run = ?1 AND kind = 'read'");
            assert_eq!(ask(&sql, run), Some(result[metric]), "{column} of {}", run.id);
        }
        // A kind without operations has none.
        assert_eq!(ask("SELECT max_ns * 1.0 FROM v_latency WHERE run = ?1 AND kind = 'fsync'", run), None);
    }
    let row: (String, String, String, i64, i64) = connection
        .query_row("SELECT seed, host, kernel, runs, failed_runs FROM v_trial", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
        })
        .unwrap();
    assert_eq!(row, (u64::MAX.to_string(), "a".into(), "6.12".into(), 8, 1));
}
