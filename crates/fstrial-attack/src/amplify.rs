//! Stores as amplifiers: a mebibyte of texts that are printed again and again. A reader must not take a thousand times
//! as much, and no request ends `serve`.

use crate::{
    child::{self, Ended},
    lab::{Lab, Subject},
    table::Area,
};
use rusqlite::Connection;
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Stdio},
    time::Duration,
};

/// Memory that a command may take.
const MEMORY: &str = "--as=1073741824";
/// Output limit: bytes for each byte of the store, and the minimum.
const TIMES: u64 = 64;
const AT_LEAST: u64 = 4 << 20;
/// Time that a command may take: without optimisation, and next to other areas on two processors, the largest takes
/// about ten seconds.
const MAX_TIME: Duration = Duration::from_secs(30);

/// Commands that read the store.
const READERS: [&str; 13] = [
    "results list",
    "results list --json",
    "report 1 --format text",
    "report 1 --format json",
    "report 1 2 --format text",
    "results export 1 --format csv",
    "results export 1 --format json",
    "results export 1 --format openmetrics",
    "results export 1 --format go",
    "report 1 --out -",
    "report 1 2 --out -",
    "trend b/a",
    "resume 1 --dry-run",
];

/// Requests to `serve`.
const REQUESTS: [&str; 7] = [
    "/",
    "/trial/1",
    "/trial/1/text",
    "/compare?a=1&b=2",
    "/api/trials",
    "/api/trials/1",
    "/trend?arm=b&against=a",
];

/// A text of 300 000 characters, and lists of 20 000 texts.
const TEXT: &str = "replace(hex(zeroblob(150000)), '00', 'tt')";
const LIST: &str = "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) \
                    SELECT json_group_array('n' || i) FROM n)";
const TABLE: &str = "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) \
                     SELECT json_group_object('n' || i, 'v') FROM n)";

/// Statements on a store. `{text}`, `{list}` and `{table}` stand for those above.
const STATEMENTS: [(&str, &str); 17] = [
    ("host", "UPDATE session SET host = {text}, environment = json_set(environment, '$.host', {text})"),
    (
        "host-and-notes",
        "UPDATE session SET environment = json_set(environment, '$.host', {text}, '$.device_notes', json({list}));
         UPDATE facts SET json = json_set(json, '$.notes', json({list}))",
    ),
    (
        "texts-of-the-environment",
        "UPDATE session SET environment = (SELECT json_group_object(key, CASE type WHEN 'text' THEN {text} \
         ELSE json(CASE type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE value END) END) \
         FROM json_each(environment))",
    ),
    ("tools", "UPDATE facts SET json = json_set(json, '$.tools', json({table}))"),
    ("long-tool", "UPDATE facts SET json = json_set(json, '$.tools', json_object({text}, {text}))"),
    ("commands", "UPDATE commands SET json = {list}"),
    ("long-command", "UPDATE commands SET json = json_array({text})"),
    ("warnings", "UPDATE session SET warnings = {list}"),
    ("long-warning", "UPDATE session SET warnings = json_array({text}, {text} || 1)"),
    ("command-line", "UPDATE session SET command_line = {text}, program_version = {text}"),
    ("output", "UPDATE measurement SET output = {text}"),
    ("first-error", "UPDATE result SET errors = 1, first_error = {text}"),
    ("result-names", "UPDATE result SET name = {text} || position, figure = 'operations'"),
    ("workload", "UPDATE run SET workload = {text} || id; UPDATE cell SET workload = {text} || arm || workload"),
    (
        "failures",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000) \
         INSERT INTO run (trial, session, round, slot, arm, workload, threads, started_at, ended_at, status, failure, job, \
         environment) SELECT trial, session, round + 100 + i, slot, arm, workload, threads, started_at, ended_at, 'failed', \
         json_object('kind', 'arm-failed', 'stage', 'load', 'what', 'w' || i, 'hint', 'h'), '{}', environment \
         FROM run, n WHERE run.id = (SELECT min(id) FROM run)",
    ),
    (
        "long-failure",
        "UPDATE run SET status = 'failed', failure = json_object('kind', 'arm-failed', 'stage', 'load', 'what', {text}, \
         'hint', {text}) WHERE round > 1",
    ),
    (
        "sessions",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) \
         INSERT INTO session (trial, status, started_at, ended_at, program_version, command_line, environment, warnings) \
         SELECT trial, status, started_at, ended_at, program_version, 'c' || i, '{\"host\":\"h' || i || '\"}', '[\"w\"]' \
         FROM session, n WHERE session.id = 1",
    ),
];

/// 64 arms with long names, and as many workloads and levels, in a trial file of a few kilobytes.
fn many_cells(workloads: u32, levels: u32) -> String {
    let mut toml = String::from("[trial]\nname = \"many\"\n");
    for arm in 0..64 {
        toml += &format!("[[arm]]\nname = \"{}{arm:02}\"\nfilesystem = \"ext4\"\n", "a".repeat(58));
    }
    let levels: Vec<String> = (1..=levels).map(|level| level.to_string()).collect();
    for workload in 0..workloads {
        toml += &format!(
            "[[workload]]\nuse = \"random-write\"\nname = \"w{workload}\"\nthreads = [{}]\n",
            levels.join(",")
        );
    }
    toml
}

/// Runs every reader on stores built to inflate its output.
pub(crate) fn attack(subject: &Subject) -> Area {
    let mut area = Area::of("amplifiers", subject);
    let lab = Lab::new(subject);
    let written =
        |words: &str| words.replace("{text}", TEXT).replace("{list}", LIST).replace("{table}", TABLE);
    let cases = STATEMENTS.iter().map(|(case, words)| (*case, written(words)));
    let all: Vec<(&str, String)> = cases.collect();
    let together = |names: &[&str]| {
        all.iter().filter(|(case, _)| names.contains(case)).map(|(_, words)| format!("{words};")).collect()
    };
    let trial = |workloads, levels| format!("UPDATE trial SET toml = '{}'", many_cells(workloads, levels));
    let further = [
        (
            "texts-and-lists",
            together(&["texts-of-the-environment", "tools", "commands", "warnings", "failures"]),
        ),
        ("notes-and-names", together(&["host-and-notes", "long-tool", "long-warning", "workload"])),
        ("cells-at-the-limit", trial(1, 4)),
        ("cells-beyond-it", trial(60, 1000)),
    ];
    // The collected input suffices for a small run.
    let alone = all.iter().filter(|_| !subject.small || subject.only.is_some());
    for (case, statement) in alone.cloned().chain(further).filter(|(case, _)| subject.wants(case)) {
        let path = lab.home().join("results.db");
        let made = lab.with_trials().and_then(|()| {
            let store = Connection::open(&path).map_err(|e| e.to_string())?;
            store.execute_batch(&statement).map_err(|e| e.to_string())
        });
        if let Err(problem) = made {
            area.tried(case, Err(format!("the attack itself failed: {problem}")), "");
            continue;
        }
        let size = fs::metadata(&path).map_or(0, |metadata| metadata.len());
        let limit = AT_LEAST.max(size * TIMES);
        let again = format!("cargo xtask attack amplifiers --only {case}");
        for words in READERS {
            let ended = child::run(&mut lab.behind(&["prlimit", MEMORY], words), MAX_TIME);
            area.tried(&format!("{case} {words}"), is_modest(&ended, limit), &again);
        }
        area.tried(&format!("{case} serve"), serves(&lab, limit), &again);
    }
    area.finish()
}

/// It ended with a message, and with fewer bytes than this.
fn is_modest(ended: &Ended, limit: u64) -> Result<(), String> {
    if ended.written > limit {
        return Err(format!("prints {} KiB of at most {} KiB", ended.written >> 10, limit >> 10));
    }
    if let Some(fault) = ended.fault() {
        return Err(fault);
    }
    match ended.code() {
        Some(0 | 2 | 3 | 10 | 11 | 14) => Ok(()),
        code => Err(format!("exit code {code:?}: {}", ended.last_words())),
    }
}

/// Asks a server for everything; it still answers after that.
fn serves(lab: &Lab, limit: u64) -> Result<(), String> {
    let mut command = lab.behind(&["prlimit", MEMORY], "serve --listen 127.0.0.1:0");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut serving = command.spawn().map_err(|error| error.to_string())?;
    let result = ask_all(&mut serving, limit);
    let _ = serving.kill();
    let _ = serving.wait();
    result
}

fn ask_all(serving: &mut Child, limit: u64) -> Result<(), String> {
    let mut line = String::new();
    let stdout = serving.stdout.take().expect("it is piped");
    BufReader::new(stdout).read_line(&mut line).map_err(|error| error.to_string())?;
    let address = line.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix('/'));
    let address = address.ok_or_else(|| format!("does not serve: {line}"))?;
    for path in REQUESTS {
        let ask = || -> std::io::Result<(String, u64)> {
            let mut stream = TcpStream::connect(address)?;
            stream.set_read_timeout(Some(MAX_TIME))?;
            write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
            let mut head = Vec::new();
            Read::by_ref(&mut stream).take(15).read_to_end(&mut head)?;
            let further = std::io::copy(&mut stream, &mut std::io::sink())?;
            Ok((String::from_utf8_lossy(&head).into_owned(), further))
        };
        let (head, bytes) = ask().map_err(|error| format!("{path}: {error}"))?;
        if !head.starts_with("HTTP/1.1 ") {
            return Err(format!("{path}: answers {head:?}"));
        }
        if bytes > limit {
            return Err(format!("{path}: {} KiB of at most {} KiB", bytes >> 10, limit >> 10));
        }
    }
    match serving.try_wait() {
        Ok(None) => Ok(()),
        ended => Err(format!("ended: {ended:?}")),
    }
}
