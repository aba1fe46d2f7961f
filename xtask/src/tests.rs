//! Builds the test programs of the workspace, runs them, and closes with one line that counts passed, failed and
//! skipped.
//!
//! The programs run one after the other. Each writes into a separate log in `target/test-logs`; the terminal shows one
//! line for each program, and the output of tests that failed.
//!
//! libtest hides the output of passing tests, and with it the reasons of skips. So it is made to show it, and the
//! output is searched for lines that begin with `SKIPPED`.
//!
//! Properties are tried with the same random numbers every time, so that a red run is about the change and comes back
//! when it is run again. `PROPTEST_RNG_SEED=7 PROPTEST_CASES=20000 ./x test` looks elsewhere.

use crate::{cargo, command, target};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    env,
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

/// The variable from which proptest takes the seed of its random numbers.
pub(crate) const SEED: &str = "PROPTEST_RNG_SEED";
/// The variable that makes the tests skip cases that need root or a device.
const UNPRIVILEGED: &str = "FSTRIAL_TESTS_WITHOUT_ROOT";
/// A program that prints nothing for so long hangs. The pages in a browser, one test, end themselves before that.
const MAX_SILENCE: Duration = Duration::from_secs(15 * 60);
/// The programs whose tests mostly wait, for devices and for processes, and how many of them for each processor run at
/// a time, up to [`MOST_WAITING`].
const WAITING: [(&str, usize); 4] =
    [("fstrial-run", 2), ("fstrial/it", 3), ("fstrial-stack/it", 2), ("fstrial-engine", 2)];
/// Each makes devices of hundreds of mebibytes in one folder.
const MOST_WAITING: usize = 12;
/// The variable from which libtest takes how many tests run at a time.
const THREADS: &str = "RUST_TEST_THREADS";

/// A test program.
#[derive(Debug, PartialEq)]
pub(crate) struct Program {
    /// Its crate; for integration tests and benchmarks also its target, as in `fstrial/it`.
    pub(crate) name: String,
    pub(crate) file: PathBuf,
    /// The folder of its crate, in which cargo runs it.
    folder: PathBuf,
    /// Made by libtest, which counts its tests and takes flags.
    has_harness: bool,
    /// Words for it, such as names of tests.
    pub(crate) words: Vec<String>,
}

impl Program {
    /// Reads one of cargo's messages; `None` if it is not about a test program.
    fn from_message(line: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_test = message["profile"]["test"].as_bool()?;
        let file = PathBuf::from(message["executable"].as_str()?);
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
        let (kind, target) = (message["target"]["kind"][0].as_str()?, message["target"]["name"].as_str()?);
        let package = folder.file_name()?.to_string_lossy().into_owned();
        let name = match kind {
            "lib" => package,
            // The crate's main program, which has hardly a test.
            "bin" if target == package => format!("{package}/main"),
            _ => format!("{package}/{target}"),
        };
        is_test.then_some(Self { name, file, folder, has_harness: kind != "bench", words: Vec::new() })
    }
}

/// The results of one program.
#[derive(Debug, Default)]
struct Tally {
    passed: u64,
    failed: u64,
    failures: Vec<String>,
    skipped: Vec<String>,
    /// libtest's last line was seen.
    has_result: bool,
}

impl Tally {
    /// Takes a line of libtest's, or of a test.
    fn take(&mut self, line: &str) {
        if let Some(reason) = line.trim_start().strip_prefix("SKIPPED ") {
            self.skipped.push(reason.to_owned());
        }
        let failure = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"));
        self.failures.extend(failure.map(str::to_owned));
        if let Some(counts) = line.strip_prefix("test result:") {
            self.has_result = true;
            let count = |word: &str| {
                let before = counts.split(word).next().unwrap_or_default();
                before.split_whitespace().last().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0)
            };
            self.passed += count(" passed");
            self.failed += count(" failed");
        }
    }

    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.failures.extend(other.failures);
        self.skipped.extend(other.skipped);
    }
}

/// Runs all tests of the workspace. Arguments go to `cargo test`, those after `--` to the test programs.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let end = arguments.iter().position(|word| word == "--").unwrap_or(arguments.len());
    let mut programs = build(&arguments[..end])?;
    let is_there = |name: &str| programs.iter().any(|program| program.name == name);
    if let Some((name, _)) = WAITING.iter().find(|(name, _)| arguments.is_empty() && !is_there(name)) {
        return Err(format!("there is no test program {name}, which is named in WAITING"));
    }
    let words = arguments.get(end + 1..).unwrap_or_default();
    programs.iter_mut().for_each(|program| program.words = words.to_vec());
    run_programs(&programs, &Run::Whole)
}

/// Builds the test programs.
pub(crate) fn build(arguments: &[String]) -> Result<Vec<Program>, String> {
    let mut child = command(&cargo())
        .args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"])
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("could not start cargo: {e}"))?;
    let lines = child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).lines());
    let programs: Vec<Program> =
        lines.map_while(Result::ok).filter_map(|line| Program::from_message(&line)).collect();
    let status = child.wait().map_err(|e| e.to_string())?;
    if !status.success() {
        return Err(format!("the tests do not build ({status})"));
    }
    Ok(programs)
}

/// Which tests of the programs run.
pub(crate) enum Run<'a> {
    /// All of them.
    Whole,
    /// Those that need neither root nor a device; each program without a failure is passed to the function.
    Unprivileged(&'a dyn Fn(&Program)),
}

/// Runs programs one after the other: many of them measure times, and some examine all devices of the machine.
pub(crate) fn run_programs(programs: &[Program], run: &Run<'_>) -> Result<(), String> {
    let logs = target().join("test-logs");
    fs::create_dir_all(&logs).map_err(|e| format!("{}: {e}", logs.display()))?;
    let began = Instant::now();
    let (mut all, mut seconds) = (Tally::default(), Vec::new());
    for (index, program) in programs.iter().enumerate() {
        let log = logs.join(program.name.replace('/', "-")).with_extension("log");
        let at = Instant::now();
        let tally = run_one(program, run, &log);
        let took = at.elapsed().as_secs_f64();
        println!("[{}/{}] {}: {}, {took:.1} s", index + 1, programs.len(), program.name, counted(&tally));
        if tally.failed > 0 {
            let text = fs::read_to_string(&log).unwrap_or_default();
            println!("{}\nall of it: {}", of_failures(&text), log.display());
        } else if let Run::Unprivileged(passed) = run {
            passed(program);
        }
        all.add(tally);
        seconds.push((program.name.as_str(), took));
    }
    if matches!(run, Run::Whole) {
        let reasons: BTreeSet<&String> = all.skipped.iter().collect();
        reasons.iter().for_each(|reason| println!("SKIPPED {reason}"));
    }
    summarise(&all, seconds, began.elapsed())
}

/// libtest's output on the failed tests; the end of the output if the program died before that.
fn of_failures(text: &str) -> &str {
    const HEAD: &str = "\nfailures:\n";
    const END: usize = 10_000;
    let from = text.find(HEAD).unwrap_or_else(|| text.ceil_char_boundary(text.len().saturating_sub(END)));
    text[from..].trim()
}

/// Prints the seconds and the counts of all programs; an error names the failures.
fn summarise(tally: &Tally, mut seconds: Vec<(&str, f64)>, took: Duration) -> Result<(), String> {
    seconds.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let slowest = seconds.iter().filter(|(_, seconds)| *seconds >= 1.0);
    let slowest: Vec<String> = slowest.map(|(name, seconds)| format!("{name} {seconds:.0}")).collect();
    println!("seconds of the programs: {}; all {}", slowest.join(", "), took.as_secs());
    println!("{}", counted(tally));
    if tally.failed == 0 { Ok(()) } else { Err(format!("failed: {}", tally.failures.join(", "))) }
}

/// libtest counts a test that skipped itself as passed.
fn counted(tally: &Tally) -> String {
    let skipped = tally.skipped.len() as u64;
    format!("{} passed, {} failed, {skipped} skipped", tally.passed.saturating_sub(skipped), tally.failed)
}

/// Runs a program to its end. One that ends badly without a failed test, or hangs, counts as a failure itself.
fn run_one(program: &Program, run: &Run<'_>, log: &Path) -> Tally {
    let mut tally = Tally::default();
    let ended = start(program, run).and_then(|child| follow(child, log, &mut tally));
    let ended = match ended {
        Ok(()) if program.has_harness && !tally.has_result => Err("no test result".to_owned()),
        ended => ended,
    };
    tally.failures = tally.failures.iter().map(|test| format!("{} {test}", program.name)).collect();
    if let Err(problem) = ended
        // A program with a result has named its failed tests.
        && (!tally.has_result || tally.failures.is_empty())
    {
        tally.failures.push(format!("{} ({problem})", program.name));
        tally.failed = tally.failed.max(tally.failures.len() as u64);
    }
    tally
}

fn start(program: &Program, run: &Run<'_>) -> Result<Child, String> {
    let mut command = command(&program.file.display().to_string());
    command.current_dir(&program.folder).args(&program.words);
    if program.has_harness {
        command.arg("--show-output");
    }
    let waiting = WAITING.iter().find(|(name, _)| *name == program.name);
    if let Some((_, each)) = waiting.filter(|_| matches!(run, Run::Whole) && env::var_os(THREADS).is_none()) {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        command.env(THREADS, (each * processors).min(processors.max(MOST_WAITING)).to_string());
    }
    command
        // As cargo does; snapshots are looked for by them.
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .env("CARGO", cargo())
        .envs(matches!(run, Run::Unprivileged(_)).then_some((UNPRIVILEGED, "1")))
        .env(SEED, env::var_os(SEED).unwrap_or_else(|| "1".into()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{} did not start: {e}", program.file.display()))
}

/// Reads all that a program prints, into its log and the tally.
fn follow(mut child: Child, log: &Path, tally: &mut Tally) -> Result<(), String> {
    let mut file = File::create(log).map_err(|e| format!("{}: {e}", log.display()))?;
    let (sender, lines) = mpsc::channel();
    read_lines(child.stdout.take(), sender.clone());
    read_lines(child.stderr.take(), sender);
    loop {
        match lines.recv_timeout(MAX_SILENCE) {
            Ok(line) => {
                tally.take(&line);
                writeln!(file, "{line}").map_err(|e| format!("{}: {e}", log.display()))?;
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("killed after {} minutes without a line", MAX_SILENCE.as_secs() / 60));
            }
        }
    }
    let status = child.wait().map_err(|e| e.to_string())?;
    if status.success() { Ok(()) } else { Err(status.to_string()) }
}

/// Sends a stream's lines, from a separate thread.
fn read_lines(stream: Option<impl Read + Send + 'static>, sender: Sender<String>) {
    let Some(stream) = stream else { return };
    thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                break;
            }
        }
    });
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn counts_failures_and_skips_are_read() {
        let mut tally = Tally::default();
        let text = "running 2 tests\ntest a ... ok\n\nsuccesses:\n\n---- a stdout ----\nSKIPPED a: needs root\nnoise\n\n\
                    test b ... FAILED\ntest result: FAILED. 2 passed; 1 failed; 0 ignored; finished in 93.18s";
        text.lines().for_each(|line| tally.take(line));
        assert_eq!((tally.passed, tally.failed), (2, 1));
        assert_eq!((&tally.skipped, &tally.failures), (&vec!["a: needs root".into()], &vec!["b".into()]));
        assert_eq!(counted(&tally), "1 passed, 1 failed, 1 skipped");
    }

    #[test]
    fn cargo_names_the_test_programs() {
        let message = |kind: &str, target: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/fstrial/Cargo.toml","target":{{"kind":["{kind}"],
                "name":"{target}"}},"profile":{{"test":{test}}},"executable":"/t/{target}-1"}}"#
            )
        };
        let name = |text: String| Program::from_message(&text).map(|program| program.name);
        assert_eq!(name(message("lib", "fstrial", true)), Some("fstrial".into()));
        assert_eq!(name(message("bin", "fstrial", true)), Some("fstrial/main".into()));
        assert_eq!(name(message("test", "it", true)), Some("fstrial/it".into()));
        assert_eq!(name(message("example", "fixture", false)), None);
        assert_eq!(name(r#"{"reason":"build-finished","success":true}"#.into()), None);
    }

    #[test]
    fn failure_output_omits_passed_tests() {
        let passed = "running 2 tests\ntest a ... ok\ntest b ... FAILED\n\nsuccesses:\n    a\n";
        let failed = "failures:\n\n---- b stdout ----\npanicked\n\nfailures:\n    b\n\ntest result: FAILED.";
        assert_eq!(of_failures(&format!("{passed}\n{failed}\n")), failed);
        let died = "é".repeat(9_999);
        assert_eq!(of_failures(&died), "é".repeat(5_000));
    }

    /// The seconds of a program without a `test result:` line used to be attributed to the next.
    #[test]
    fn test_programs_have_separate_results() {
        let folder = tempfile::tempdir().unwrap();
        let program = |script: &str| Program {
            name: "sh".into(),
            file: PathBuf::from("/bin/sh"),
            folder: folder.path().to_owned(),
            has_harness: false,
            words: vec!["-c".into(), script.into()],
        };
        let run = |script: &str| run_one(&program(script), &Run::Whole, &folder.path().join("log"));
        let silent = run("exit 0");
        assert_eq!((silent.passed, silent.failed), (0, 0));
        let died = run("echo 'test result: ok. 3 passed; 0 failed'; exit 3");
        assert_eq!((died.passed, died.failures), (3, vec!["sh (exit status: 3)".to_owned()]));
        let aborted = run("echo 'test a ... FAILED'; kill -KILL $$");
        assert_eq!(aborted.failed, 2);
        assert_eq!(aborted.failures, ["sh a", "sh (signal: 9 (SIGKILL))"]);
        let failed =
            run("echo 'test a::b ... FAILED'; echo 'test result: FAILED. 3 passed; 1 failed'; exit 101");
        assert_eq!((failed.failed, failed.failures), (1, vec!["sh a::b".to_owned()]));
    }
}
