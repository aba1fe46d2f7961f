//! Runs all tests and closes with one line that counts passed, failed and skipped.
//!
//! libtest keeps what passing tests print to itself, and with it the reasons of skips. So it is told to show it, the
//! shown part is read for lines that begin with `SKIPPED`, and everything else is passed on. What failed is named again
//! at the end.
//!
//! Properties are tried with the same random numbers every time, so that a red run is about the change and comes back
//! when it is run again. `PROPTEST_RNG_SEED=7 PROPTEST_CASES=20000 ./x test` looks elsewhere.

use crate::{cargo, command};
use std::{
    env,
    io::{BufRead, BufReader, Read},
    process::Stdio,
    sync::mpsc::{self, Sender},
    thread,
};

/// Where proptest takes the seed of its random numbers from.
const SEED: &str = "PROPTEST_RNG_SEED";

/// What the test runners have said so far.
#[derive(Debug, Default)]
struct Tally {
    passed: u64,
    failed: u64,
    /// Names of the tests that failed.
    failures: Vec<String>,
    skipped: Vec<String>,
    /// Test programs that ran, and how many seconds each took.
    programs: Vec<(String, String)>,
    /// Inside the output of passing tests, which is not passed on.
    in_successes: bool,
}

impl Tally {
    /// Takes a line; says whether it is to be shown.
    fn take(&mut self, line: &str) -> bool {
        if let Some(reason) = line.trim_start().strip_prefix("SKIPPED ") {
            self.skipped.push(reason.to_owned());
            return false;
        }
        let result = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"));
        self.failures.extend(result.map(str::to_owned));
        if line == "successes:" {
            self.in_successes = true;
        } else if line == "failures:" || line.starts_with("test result:") {
            self.in_successes = false;
        }
        if let Some(counts) = line.strip_prefix("test result:") {
            let count = |word: &str| {
                let before = counts.split(word).next().unwrap_or_default();
                before.split_whitespace().last().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0)
            };
            self.passed += count(" passed");
            self.failed += count(" failed");
            let seconds = counts.split("finished in ").nth(1).unwrap_or_default().trim_end_matches('s');
            if let Some((_, time)) = self.programs.iter_mut().find(|(_, time)| time.is_empty()) {
                *time = seconds.to_owned();
            }
        }
        if let Some(program) = line.trim_start().strip_prefix("Running ") {
            let file = program.rsplit('/').next().unwrap_or_default();
            let name = file.rsplit_once('-').map_or(file, |(name, _)| name);
            self.programs.push((name.to_owned(), String::new()));
        }
        !self.in_successes
    }
}

/// Runs the tests of the workspace; arguments go to `cargo test`.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let mut child = command(&cargo())
        .args(["test", "--workspace", "--no-fail-fast"])
        .args(arguments)
        .args(["--", "--show-output"])
        .env(SEED, env::var_os(SEED).unwrap_or_else(|| "1".into()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("could not start cargo: {e}"))?;
    let (sender, lines) = mpsc::channel();
    let readers = [pass_on(child.stdout.take(), sender.clone()), pass_on(child.stderr.take(), sender)]
        .into_iter()
        .flatten();
    let mut tally = Tally::default();
    for line in lines {
        if tally.take(&line) {
            println!("{line}");
        }
    }
    for reader in readers {
        // A reader only reads; if it panicked the counts below tell.
        let _ = reader.join();
    }
    let status = child.wait().map_err(|e| e.to_string())?;
    tally.skipped.sort();
    tally.skipped.dedup();
    for reason in &tally.skipped {
        println!("SKIPPED {reason}");
    }
    let times: Vec<String> = tally.programs.iter().map(|(name, time)| format!("{name} {time}")).collect();
    println!("seconds of each test program: {}", times.join(", "));
    for name in &tally.failures {
        println!("FAILED {name}");
    }
    let (skipped, failed) = (tally.skipped.len() as u64, tally.failed);
    // libtest counts a test that skipped itself as passed.
    println!("{} passed, {failed} failed, {skipped} skipped", tally.passed.saturating_sub(skipped));
    if status.success() && failed == 0 { Ok(()) } else { Err(format!("tests failed ({status})")) }
}

/// Sends a stream's lines on, from a thread of its own.
fn pass_on(
    stream: Option<impl Read + Send + 'static>,
    sender: Sender<String>,
) -> Option<thread::JoinHandle<()>> {
    let stream = stream?;
    Some(thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    }))
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn counts_and_skips_are_read_and_passing_output_is_kept_back() {
        let mut tally = Tally::default();
        let text = "running 2 tests\ntest a ... ok\n\nsuccesses:\n\n---- a stdout ----\nSKIPPED a: needs root\nnoise\n\n\
                    test b ... FAILED\ntest result: ok. 2 passed; 0 failed; 0 ignored\n\
                    test result: FAILED. 3 passed; 1 failed; 0 ignored";
        let shown: Vec<&str> = text.lines().filter(|line| tally.take(line)).collect();
        assert_eq!((tally.passed, tally.failed), (5, 1));
        let text = "     Running unittests src/lib.rs (target/debug/deps/fstrial_stack-ea2fc8)\n\
                    test result: ok. 2 passed; 0 failed; finished in 93.18s";
        assert_eq!(text.lines().filter(|line| tally.take(line)).count(), 2);
        assert_eq!(tally.programs, [("fstrial_stack".into(), "93.18".into())]);
        assert_eq!((tally.skipped, tally.failures), (vec!["a: needs root".into()], vec!["b".into()]));
        assert!(!shown.contains(&"noise") && shown.contains(&"test a ... ok"));
    }
}
