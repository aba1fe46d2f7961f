//! Programs run for real: small scripts that misbehave in every way, and the tools of the presets where they are
//! installed.

use super::*;
use fstrial_model::workload::{Entry, metric::PickedNumber};
use std::io::Write;

const LEVEL: Level = Level { threads: 2, duration: Nanos::secs(1), seed: 7, is_loaded: false };

fn program(text: &str) -> Program {
    let entry: Entry = toml::from_str(text).unwrap_or_else(|e| panic!("{e}"));
    entry.program().unwrap_or_else(|e| panic!("{}: {}", e.key, e.problem))
}

/// A program of scripts, each a command of `sh`.
fn scripts(prepare: &str, command: &str, metrics: &str) -> Program {
    program(&format!(
        "prepare = [['sh', '-c', '''{prepare}''']]\ncommand = ['sh', '-c', '''{command}''']\n{metrics}"
    ))
}

const WALL: &str = "[[metric]]\nname = 'wall'\nmeasure = 'wall'\n";

fn run_in(folder: &Path, program: &Program) -> Result<ProgramOutcome, RunFailure> {
    run(program, folder, LEVEL, &mut |_| Ok(()))
}

fn run_program(program: &Program) -> Result<ProgramOutcome, RunFailure> {
    run_in(tempfile::tempdir().unwrap().path(), program)
}

#[test]
fn everything_happens_in_order() {
    let arm = tempfile::tempdir().unwrap();
    let log = arm.path().join("program/log");
    let mut program = scripts(
        "echo prepared >> log",
        "echo {threads} {duration} {seed} >> log",
        "[[metric]]\nname = 'seed'\nunit = 'op/s'\nfrom = 'file:log'\npattern = '^2 1 ([0-9]+)$'",
    );
    program.version = ["sh", "-c", "echo >&2; echo tool 1.2 >&2; false"].map(str::to_owned).to_vec();
    let mut steps = Vec::new();
    let outcome = run(&program, arm.path(), LEVEL, &mut |step| {
        steps.push((step, std::fs::read_to_string(&log).unwrap_or_default()));
        Ok(())
    });
    let outcome = outcome.unwrap();
    let after = |text: &str| text.to_owned();
    assert_eq!(
        steps,
        [
            (ProgramEvent::Prepare(Nanos::secs(1860)), after("")),
            (ProgramEvent::Settle, after("prepared\n")),
            (ProgramEvent::Command(Nanos::secs(3660)), after("prepared\n")),
            (ProgramEvent::Ended, after("prepared\n2 1 7\n")),
        ]
    );
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "prepared\n2 1 7\n");
    assert_eq!(outcome.values.iter().map(|picked| picked.value).collect::<Vec<_>>(), [7.0]);
    assert_eq!(outcome.version, "tool 1.2");
    assert_eq!(outcome.commands.len(), 2);
}

/// Loaded data are used as they are, under the same name.
#[test]
fn loaded_program_skips_preparation() {
    let arm = tempfile::tempdir().unwrap();
    let program = scripts(
        "echo {seed} > log",
        "cat log",
        "[[metric]]\nname = 'seed'\nunit = 'op/s'\npattern = '^([0-9]+)$'",
    );
    let mut longest = Vec::new();
    load(&program, arm.path(), Level { seed: 5, ..LEVEL }, &mut |deadline| longest.push(deadline)).unwrap();
    assert_eq!(longest, [Nanos::secs(1860)]);
    for _ in 0..2 {
        let outcome = run(&program, arm.path(), Level { is_loaded: true, ..LEVEL }, &mut |_| Ok(())).unwrap();
        assert_eq!(outcome.values[0].value, 5.0);
        assert_eq!(outcome.commands.len(), 1);
    }
    let nothing = tempfile::tempdir().unwrap();
    assert!(run(&program, nothing.path(), Level { is_loaded: true, ..LEVEL }, &mut |_| Ok(())).is_err());
}

#[test]
fn refused_step_ends_run() {
    let arm = tempfile::tempdir().unwrap();
    let program = scripts("true", "touch ran", WALL);
    let refusal = failure(Stage::Settle, &StackError::Interrupted);
    let error = run(&program, arm.path(), LEVEL, &mut |step| match step {
        ProgramEvent::Settle => Err(refusal.clone()),
        _ => Ok(()),
    });
    assert_eq!(error.unwrap_err(), refusal);
    assert!(!arm.path().join("program/ran").exists());
}

#[test]
fn failures_are_classified_by_cause() {
    let failing = |prepare: &str, command: &str| run_program(&scripts(prepare, command, WALL)).unwrap_err();
    let error = failing("echo no file >&2; exit 3", "true");
    assert_eq!((error.kind, error.stage), (FailureKind::LoadRefused, Stage::Layout));
    assert!(error.what.contains("(exit status: 3): no file"), "{error}");
    let error = failing("true", "echo broken; kill -9 $$; sh -c 'exit 4'");
    assert_eq!((error.kind, error.stage), (FailureKind::ArmFailed, Stage::Load));
    assert!(error.what.contains("broken"), "{error}");
    let error = failing("true", "echo dd: No space left on device >&2; exit 1");
    assert!(error.hint.unwrap().contains("its size"));
}

#[test]
fn missing_program_hint_suggests_spelling_check() {
    let error = run_program(&program(&format!("command = ['no-such-tool', '-x']\n{WALL}"))).unwrap_err();
    assert_eq!((error.kind, error.what.as_str()), (FailureKind::HostLacks, "no-such-tool is not installed"));
    let hint = error.hint.unwrap();
    assert!(hint.contains("check the spelling") && !hint.contains("apt"), "unknown package: {hint}");
}

#[test]
fn hidden_tmp_file_error_suggests_other_location() {
    if !fstrial_stack::host::is_root() {
        let _ = std::io::stderr()
            .write_all(b"SKIPPED hidden_tmp_file_error_suggests_other_location: needs root\n");
        return;
    }
    let home = tempfile::Builder::new().prefix("fstrial-test-").tempdir_in("/tmp").unwrap();
    let data = home.path().join("data");
    std::fs::write(&data, "x").unwrap();
    let error = run_program(&scripts("true", &format!("cat {}", data.display()), WALL)).unwrap_err();
    assert!(error.what.contains("No such file"), "{}", error.what);
    let hint = error.hint.unwrap();
    assert!(hint.contains("see only those files in /tmp that") && hint.contains("/srv"), "{hint}");
    // A script whose interpreter is there.
    let script = home.path().join("script");
    std::fs::write(&script, format!("#!{}\n", data.display().to_string().replace("data", "gone"))).unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::set_permissions(home.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let text = format!("command = [\"{}\"]\n{WALL}", script.display());
    let error = run_program(&program(&text)).unwrap_err();
    assert_eq!(error.kind, FailureKind::HostLacks, "{}", error.what);
    assert!(error.hint.unwrap().contains("see only those files in /tmp"));
}

#[test]
fn hanging_program_fails_its_arm() {
    let mut hanging = scripts("true", "echo on; sleep 100", WALL);
    hanging.deadline = Nanos::millis(300);
    let error = run_program(&hanging).unwrap_err();
    assert_eq!(error.kind, FailureKind::ArmFailed);
    assert!(error.what.contains("did not end within 300ms"), "{error}");
}

#[test]
fn numbers_come_from_every_place() {
    let program = scripts(
        "true",
        "echo rate: 2.5 MiB/s; echo 'late 40' >&2; echo '{{\"a\": [1, 2, 3]}}' > out.json; mkdir d; echo 1,2 > d/f",
        "
        [[metric]]\nname = 'rate'\nunit = 'bytes/s'\nscale = 1048576\npattern = '^rate: (\\S+) MiB'
        [[metric]]\nname = 'late'\nunit = 'ns'\nbetter = 'lower'\nfrom = 'stderr'\npattern = 'late (\\d+)'
        [[metric]]\nname = 'sum'\nunit = 'op/s'\nfrom = 'file:out.json'\npointer = '/a/*'\ntake = 'sum'
        [[metric]]\nname = 'cell'\nunit = 'op/s'\nfrom = 'file:d/f'\ncolumn = 2
        [[metric]]\nname = 'wall'\nmeasure = 'wall'
        [[metric]]\nname = 'memory'\nmeasure = 'memory'",
    );
    let outcome = run_program(&program).unwrap();
    let values: Vec<f64> = outcome.values.iter().map(|picked| picked.value).collect();
    assert_eq!(values[..4], [2_621_440.0, 40.0, 6.0, 2.0]);
    assert!(values[4] > 1e5 && values[4] < 1e10 && values[5] > 1e5, "{values:?}");
    assert_eq!((outcome.values[4].unit.as_str(), outcome.values[5].unit.as_str()), ("ns", "bytes"));
    assert!(outcome.raw.starts_with("$ sh -c "), "{}", outcome.raw);
    assert!(outcome.raw.ends_with("rate: 2.5 MiB/s\n\n[standard error]\nlate 40\n"), "{}", outcome.raw);
}

#[test]
fn symlinks_and_special_files_are_not_read() {
    let metric = "[[metric]]\nname = 'uid'\nunit = 'op/s'\nfrom = 'file:out'\npattern = 'nobody:x:([0-9]+)'";
    for command in ["ln -s /etc/passwd out", "mkfifo out", "mkdir out", "true"] {
        let error = run_program(&scripts("true", command, metric)).unwrap_err();
        assert!(error.what.contains("the program left no file `out`"), "{command}: {error}");
    }
    let metric = metric.replace("file:out", "file:d/passwd");
    let error = run_program(&scripts("true", "ln -s /etc d", &metric)).unwrap_err();
    assert!(error.what.contains("left no file"), "{error}");
}

#[test]
fn unmatched_metric_error_shows_program_output() {
    let metric = "[[metric]]\nname = 'rate'\nunit = 'op/s'\npattern = 'rate: ([0-9]+)'";
    let error = run_program(&scripts("true", "echo nothing done", metric)).unwrap_err();
    assert_eq!(error.kind, FailureKind::LoadRefused);
    assert!(error.what.starts_with("the metric `rate`: `rate: ([0-9]+)` matches nothing"), "{error}");
    assert!(error.what.ends_with("the last lines printed:\nnothing done"), "{error}");
}

#[test]
fn inputs_have_their_placeholders_replaced() {
    let text = "command = ['sh', '{input:run.sh}', '{parameter:word}']\n\
                inputs = { 'run.sh' = 'echo {threads}{{}} $1 {parameter:word}' }\nparameters = { word = 'w' }\n\
                [[metric]]\nname = 'n'\nunit = 'op/s'\npattern = '^([0-9]+)\\{\\} w w$'";
    assert_eq!(run_program(&program(text)).unwrap().values[0].value, 2.0);
}

/// A program with a server that is a script: it logs its events, and can be polled.
fn served(server: &str, command: &str, keys: &str) -> Program {
    let text = format!(
        "command = ['sh', '-c', '''{command}''']\n{WALL}
         [server]\nstart = ['sh', '-c', '''{server}''']\nready = ['test', '-e', 'up']\n{keys}\n"
    );
    program(&text)
}

const ORDERLY: &str =
    "trap 'echo stopped >> log; rm up; exit 0' TERM; echo started >> log; echo I am up; touch up
                       while :; do sleep 0.02; done";

#[test]
fn server_restarts_after_load_and_verifies_before_stop() {
    let arm = tempfile::tempdir().unwrap();
    let keys =
        "load = [['sh', '-c', 'echo loaded >> log']]\nverify = [['sh', '-c', 'echo verified >> log']]\n
                durable = 'nothing at {parameter:level}'\n[parameters]\nlevel = 'low'";
    let program = served(ORDERLY, "echo measured >> log", keys);
    let outcome = run_in(arm.path(), &program).unwrap();
    let log = std::fs::read_to_string(arm.path().join("program/log")).unwrap();
    let steps: Vec<&str> = log.lines().collect();
    let first = ["started", "loaded", "stopped"];
    assert_eq!(steps, [&first[..], &["started", "measured", "verified", "stopped"]].concat());
    assert!(outcome.raw.contains("[server]\nI am up"), "{}", outcome.raw);
    assert!(outcome.report().contains("durable: nothing at low"), "{}", outcome.report());
    assert_eq!(outcome.commands.len(), 5, "{:?}", outcome.commands);
}

#[test]
fn server_failure_reports_last_output_lines() {
    let dies = "touch up; while ! test -e die; do sleep 0.02; done; echo no room for the log >&2; exit 1";
    let deaf = "trap '' TERM; touch up; echo deaf; while :; do sleep 0.02; done";
    let bad = "trap 'echo torn page; exit 7' TERM; touch up; while :; do sleep 0.02; done";
    for (server, command, keys, message) in [
        (dies, "touch die; sleep 0.5; exit 1", "", ["the server had ended", "no room for the log"]),
        (deaf, "true", "stop_within = '1s'", ["did not stop within 1s", "deaf"]),
        (bad, "true", "", ["stopped with exit status: 7", "torn page"]),
        (
            ORDERLY,
            "true",
            "verify = [['sh', '-c', 'echo two rows differ; exit 1']]",
            ["not verified", "two rows"],
        ),
        (ORDERLY, "fstrial-no-such-tool", "", ["fstrial-no-such-tool", "not found"]),
    ] {
        let failure = run_program(&served(server, command, keys)).unwrap_err();
        assert_eq!(failure.kind, FailureKind::ArmFailed, "{}", failure.what);
        for message in message {
            assert!(failure.what.contains(message), "{message}: {}", failure.what);
        }
        if command.starts_with("fstrial") {
            let hint = failure.hint.as_deref().unwrap_or_default();
            assert!(hint.contains("check the spelling of `fstrial-no-such-tool`"), "{hint}");
        }
    }
}

/// Runs a shipped preset with little to do; None, and a line on the terminal, if its tool is not installed.
fn real(name: &str, changes: &str) -> Option<ProgramOutcome> {
    Some(try_real(name, changes)?.unwrap_or_else(|error| panic!("{name}: {error}")))
}

fn try_real(name: &str, changes: &str) -> Option<Result<ProgramOutcome, RunFailure>> {
    let text = std::fs::read_to_string(format!("{}/../../workloads/{name}.toml", env!("CARGO_MANIFEST_DIR")));
    let mut entry: Entry = toml::from_str(&text.unwrap()).unwrap_or_else(|e| panic!("{name}: {e}"));
    let changes: Entry = toml::from_str(changes).unwrap();
    entry.file_size = changes.file_size.or(entry.file_size);
    entry.files = changes.files.or(entry.files);
    for (parameter, word) in changes.parameters.into_iter().flatten() {
        entry.parameters.as_mut().unwrap().insert(parameter, word);
    }
    let program = entry.program().unwrap_or_else(|e| panic!("{name}: {}: {}", e.key, e.problem));
    if fstrial_stack::command::find(&program.command[0]).is_none() {
        let line = format!("SKIPPED {name}: {} is not installed\n", program.command[0]);
        let _ = std::io::stderr().write_all(line.as_bytes());
        return None;
    }
    // Next to the test program, because a memory filesystem at /tmp might refuse O_DIRECT.
    let arm = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let level = Level { threads: 2, duration: Nanos::secs(2), seed: 7, is_loaded: false };
    Some(run(&program, arm.path(), level, &mut |_| Ok(())))
}

fn value(outcome: &ProgramOutcome, name: &str) -> f64 {
    let result: Option<&PickedNumber> = outcome.values.iter().find(|picked| picked.name == name);
    result.unwrap_or_else(|| panic!("no {name}")).value
}

/// A version was read, whichever it is.
fn assert_version(name: &str, outcome: &ProgramOutcome) {
    let version = &outcome.version;
    assert!(version.contains(name) && version.contains(|c: char| c.is_ascii_digit()), "{version}");
}

#[test]
fn real_sysbench_matches_its_presets() {
    for mode in ["rndwr", "rndrd", "rndrw", "seqwr", "seqrewr", "seqrd"] {
        let Some(outcome) = real(&format!("real-sysbench-{mode}"), "file_size = '16MiB'") else { return };
        assert_version("sysbench", &outcome);
        let (events, latency) = (value(&outcome, "events"), value(&outcome, "latency-mean"));
        // Little's law: two threads are always busy.
        assert!((1.0..3.0).contains(&(events * latency / 1e9)), "{mode}: {events} × {latency} ns");
        let moved: f64 = outcome.values.iter().filter(|v| v.unit == "bytes/s").map(|v| v.value).sum();
        assert!((0.98..1.02).contains(&(moved / (events * 16384.0))), "{mode}: {moved} in {events}");
        assert!(outcome.wall > Nanos::secs(2) && outcome.raw.contains("total number of events"), "{mode}");
    }
}

#[test]
fn real_sysbench_has_other_modes_by_parameters() {
    for (io_mode, flags) in [("async", "direct"), ("mmap", ""), ("sync", "dsync")] {
        let changes =
            format!("file_size = '16MiB'\nparameters = {{ io_mode = '{io_mode}', flags = '{flags}' }}");
        let Some(outcome) = real("real-sysbench-rndwr", &changes) else { return };
        assert!(value(&outcome, "written") > 1e5, "{io_mode}");
    }
}

#[test]
fn real_dd_with_one_writer_and_with_two() {
    let size = "file_size = '64MiB'";
    let one = real("real-dd-one-writer", size).unwrap();
    let two = real("real-dd-two-writers", size).unwrap();
    assert_version("dd", &one);
    for (outcome, lines) in [(&one, 1), (&two, 2)] {
        assert_eq!(outcome.raw.matches(" copied, ").count(), lines, "{}", outcome.raw);
        // Bytes by seconds of each, so at least all bytes by our clock.
        let by_wall = f64::from(64 << 20) / (value(outcome, "wall") / 1e9);
        assert!(value(outcome, "written") > 0.9 * by_wall, "{by_wall} bytes/s: {outcome:?}");
    }
}

#[test]
fn real_postmark_runs_requested_transactions() {
    let changes = "files = 500\nparameters = { transactions = '20000' }";
    let Some(outcome) = real("real-postmark", changes) else { return };
    assert_version("PostMark", &outcome);
    // Whole seconds: 20000, 10000, 6666.67 and so on.
    let seconds = 20_000.0 / value(&outcome, "transactions");
    assert!((seconds - seconds.round()).abs() < 0.01 && seconds >= 0.99, "{seconds}");
    assert!(value(&outcome, "read") > 1e4 && value(&outcome, "written") > 1e4);
}

#[test]
fn real_bonnie_rates_are_in_the_columns_of_the_presets() {
    match try_real("real-bonnie-files", "files = 16") {
        None => {}
        Some(Ok(outcome)) => {
            assert_version("Version:", &outcome);
            assert!(outcome.values.iter().all(|picked| picked.value > 100.0), "{:?}", outcome.values);
        }
        // On a fast machine.
        Some(Err(error)) => assert!(error.what.contains("too short to be rated"), "{error}"),
    }
}

#[test]
fn real_bonnie_reports_too_little_work() {
    let Some(outcome) = try_real("real-bonnie", "file_size = '1MiB'\nparameters = { seeks = '10' }") else {
        return;
    };
    let error = outcome.unwrap_err();
    assert_eq!(error.kind, FailureKind::LoadRefused);
    assert!(
        error.what.starts_with("the metric `block-write`: `+++++`: that took under half a second"),
        "{error}"
    );
    assert!(error.hint.unwrap().contains("file_size"));
}

#[test]
fn real_fio_counts_requested_blocks() {
    let Some(outcome) = real("real-fio", "file_size = '16MiB'") else { return };
    assert_version("fio-", &outcome);
    let size = value(&outcome, "bytes") / value(&outcome, "operations");
    assert!((16_300.0..16_450.0).contains(&size), "{size}");
    assert!(value(&outcome, "latency-p99") > 1e3);
}

#[test]
fn real_dbench_output_is_parsed() {
    let Some(outcome) = real("real-dbench", "") else { return };
    assert_version("dbench version", &outcome);
    assert!(value(&outcome, "throughput") > 1e5);
}

/// A server whose sessions append numbers to a file; `{number}` is in the lines.
fn committing(command: &str, session: &str, kept: &str, verify: &str) -> Program {
    program(&format!(
        "command = ['sh', '-c', '''{command}''']\n{WALL}\
         [server]\n\
         start = ['sh', '-c', '''trap exit TERM; [ ! -e broken ] || exit 3; touch up; while :; do sleep 0.02; done''']\n\
         ready = ['test', '-e', 'up']\nready_within = '20s'\nverify = [['sh', '-c', '''{verify}''']]\n\
         [server.promises]\n\
         prepare = [['sh', '-c', 'echo > log']]\n\
         session = ['sh', '-c', '''{session}''']\n\
         commit = 'add {{number}}'\nmeanwhile = 'again {{number}}'\nkept = ['sh', '-c', '''{kept}''']\n"
    ))
}

const APPENDING: &str = "while read -r what n; do if [ $what = add ]; then echo $n >> log; else echo >> again; fi; echo $n; sleep 0.01; done";

/// The numbers whose commits were acknowledged.
fn recorded(arm: &Path, program: &Program) -> Result<Vec<u64>, RunFailure> {
    let all = std::sync::Mutex::new(Vec::new());
    let acknowledged = |number| {
        all.lock().unwrap().push(number);
        Ok(true)
    };
    commits::record(program, arm, LEVEL, &mut |_| Ok(()), &acknowledged)?;
    Ok(all.into_inner().unwrap())
}

#[test]
fn acknowledged_commits_are_found_again() {
    let arm = tempfile::tempdir().unwrap();
    let program = committing("sleep 0.5", APPENDING, "cat log", "true");
    let mut numbers = recorded(arm.path(), &program).unwrap();
    numbers.sort_unstable();
    assert!(
        numbers.len() > 3 && numbers.iter().enumerate().all(|(at, number)| at as u64 == *number),
        "{numbers:?}"
    );
    let file = |name: &str| arm.path().join("program").join(name);
    assert!(file("again").exists(), "something else was done meanwhile");
    let after = || commits::after_cut(&program, arm.path(), LEVEL).unwrap();
    let commits::AfterCut::Open { kept, complaint: None } = after() else { panic!("{:?}", after()) };
    assert!(numbers.iter().all(|number| kept.contains(number)), "{kept:?}");
    // A cut that loses the last half of the file.
    std::fs::write(file("log"), "0\n1\n").unwrap();
    assert_eq!(after(), commits::AfterCut::Open { kept: [0, 1].into(), complaint: None });
    std::fs::write(file("broken"), "").unwrap();
    std::fs::remove_file(file("up")).unwrap();
    let commits::AfterCut::Closed(why) = after() else { panic!("{:?}", after()) };
    assert!(why.starts_with("the server ended before it was ready"), "{why}");
    std::fs::remove_dir_all(arm.path().join("program")).unwrap();
    assert!(matches!(after(), commits::AfterCut::Closed(_)));
}

#[test]
fn failed_questions_are_no_lost_commits() {
    let arm = tempfile::tempdir().unwrap();
    recorded(arm.path(), &committing("sleep 0.3", APPENDING, "cat log", "true")).unwrap();
    let program = committing("true", APPENDING, "echo no >&2; exit 1", "true");
    let after = |program: &Program| commits::after_cut(program, arm.path(), LEVEL).unwrap();
    let commits::AfterCut::Unanswered(why) = after(&program) else { panic!("{:?}", after(&program)) };
    assert!(why.contains("no"), "{why}");
    let unsound = committing("true", APPENDING, "cat log", "echo corrupt >&2; exit 1");
    let commits::AfterCut::Open { complaint: Some(why), .. } = after(&unsound) else { panic!() };
    assert!(why.contains("not verified") && why.contains("corrupt"), "{why}");
    // A slow answer is this host's failure.
    let mut slow = committing("true", APPENDING, "sleep 60", "true");
    slow.deadline = Nanos::secs(1);
    let failure = commits::after_cut(&slow, arm.path(), LEVEL).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Lost, "{failure}");
}

#[test]
fn failing_sessions_end_the_recording() {
    for (session, kind, text) in [
        ("echo refused >&2; exit 1", FailureKind::LoadRefused, "refused"),
        ("read -r a b; echo $b; read -r a b; echo full >&2; exit 1", FailureKind::ArmFailed, "full"),
    ] {
        let arm = tempfile::tempdir().unwrap();
        let failure = recorded(arm.path(), &committing("sleep 0.3", session, "cat log", "true")).unwrap_err();
        assert_eq!(failure.kind, kind, "{failure}");
        assert!(failure.what.contains(text), "{failure}");
    }
    for (session, kept, text) in [
        (APPENDING, "true", "`kept` prints 0 numbers, after"),
        (APPENDING, "seq 0 10000", "`kept` prints 10001 numbers, before"),
        (APPENDING, "[ ! -s again ] || echo 1 hello", "printed `1 hello`, which is not a number"),
        ("cat >/dev/null", "cat log", "no such line in 2s, but nothing"),
        ("echo bad; cat >/dev/null", "cat log", "no such line in 2s, but `bad`"),
    ] {
        let arm = tempfile::tempdir().unwrap();
        let failure = recorded(arm.path(), &committing("sleep 0.3", session, kept, "true")).unwrap_err();
        assert_eq!(failure.kind, FailureKind::LoadRefused, "{failure}");
        assert!(failure.what.contains(text), "{failure}");
    }
    // Nothing was committed in the time of the command.
    let slow = "sleep 0.5; while read -r a n; do sleep 0.5; done";
    let arm = tempfile::tempdir().unwrap();
    let failure = recorded(arm.path(), &committing("exit 1", slow, "cat log", "true")).unwrap_err();
    assert!(failure.what.contains("failed (exit status: 1)"), "the command's failure first: {failure}");
}
