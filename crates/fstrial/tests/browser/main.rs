//! Pages that the program made, in a real browser: the tests of `tests/browser` (Playwright and axe in Debian's
//! Chromium) on the page of a usual trial, one with hostile names, several trials side by side, the catalogue of
//! claims, and a trial that really ran.
//!
//! A separate program: a browser takes a processor, and the other tests measure.

#[path = "../it/labs.rs"]
mod labs;
#[path = "../made/mod.rs"]
mod made;
#[path = "../it/support.rs"]
#[expect(dead_code, reason = "shared with the other tests, which use the rest")]
mod support;

use labs::{hostile, with};
use made::Shape;
use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};
use support::Lab;

const NAME: &str = "pages in a browser";
/// Longest that the registry, or a browser's first page, may take.
const STEP_SECONDS: u64 = 120;
/// Longest that all tests of pages may take.
const ALL: Duration = Duration::from_secs(600);
/// The tests that hold for any page.
const ANY_PAGE: &str = "any-page.test.mjs";
/// Browsers at a time: one leaves a part of two processors idle.
const BROWSERS: usize = 2;

/// The tests, from the root of the repository.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/browser").canonicalize().unwrap()
}

/// Their missing requirement, if any.
fn missing() -> Option<String> {
    let chromium = env::var_os("CHROMIUM").map_or_else(|| PathBuf::from("/usr/bin/chromium"), PathBuf::from);
    if !chromium.exists() {
        return Some(format!("there is no {} (package chromium)", chromium.display()));
    }
    for program in ["node", "npm"] {
        if support::command(program).arg("--version").output().is_err() {
            return Some(format!("there is no {program} (packages nodejs and npm)"));
        }
    }
    let steps: [(&str, &[&str]); 2] = [
        ("Playwright cannot be installed", &["npm", "ci", "--silent"]),
        ("this Chromium and this Playwright do not work together", &["node", "probe.mjs"]),
    ];
    steps.into_iter().find_map(|(what, words)| {
        let ended = within(STEP_SECONDS, words).output().unwrap();
        let reason = String::from_utf8_lossy(&ended.stderr);
        (!ended.status.success()).then(|| format!("{what}: {}", reason.trim()))
    })
}

/// A program in the folder of the tests, ended after some seconds, with all that it has started.
fn within(seconds: u64, words: &[&str]) -> Command {
    let mut command = support::command("timeout");
    command.args(["--kill-after=10", &seconds.to_string()]).args(words).current_dir(folder());
    command
}

/// Makes a page and returns its path.
fn page(lab: &Lab, words: &str) -> String {
    let path = lab.path("page.html");
    let made = lab.run(&format!("report {words} --out {} --force", path.display()));
    assert_eq!(made.code(), 0, "{}", made.stderr);
    path.display().to_string()
}

fn trial_that_ran(lab: &Lab) -> String {
    let words = "compare ext4 xfs --device image:images --device model:ideal --set device.size=512MiB --workload append-fsync,create-files \
                 --threads 1,2 --rounds 3 --duration 200ms --set workload.warmup=50ms --no-page --quiet";
    let ended = lab.run(words);
    assert!([0, 3].contains(&ended.code()), "{}", ended.stderr);
    page(lab, "1")
}

#[test]
fn pages_hold_in_a_browser() {
    if let Some(reason) = missing() {
        support::skip(NAME, &reason);
        return;
    }
    let kernel = |kernel: &str, hour: &str| Shape {
        kernel: kernel.into(),
        hour: hour.into(),
        rounds: 6,
        ..Shape::default()
    };
    let usual = with(&[Shape::default()]);
    let attacked = with(&[hostile()]);
    let several = with(&[kernel("6.1.0", "2026-01-02T03"), kernel("6.12.0", "2026-02-02T03")]);
    let ran = Lab::new();
    let mut pages = vec![page(&usual, "1"), page(&attacked, "1"), page(&several, "1 2")];
    if support::is_root_with_loop_devices(NAME) {
        pages.push(trial_that_ran(&ran));
    }
    let began = Instant::now();
    let waiting = Mutex::new(pages);
    let problems = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..BROWSERS {
            scope.spawn(|| {
                while let Some(page) = { waiting.lock().unwrap().pop() } {
                    let result = problem(&page, ALL.saturating_sub(began.elapsed()));
                    problems.lock().unwrap().extend(result);
                }
            });
        }
    });
    let problems = problems.into_inner().unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Runs the tests on a page; returns the failure.
fn problem(page: &str, most: Duration) -> Option<String> {
    let mut command = within(most.as_secs().max(1), &["node", "--test", "--test-reporter=tap", ANY_PAGE]);
    let tested = command.env("FSTRIAL_PAGES", page).output().unwrap();
    let message = String::from_utf8_lossy(&tested.stdout);
    let of =
        |word: &str| message.lines().filter(|line| line.trim_start().starts_with(word)).collect::<Vec<_>>();
    // A runner that found no test, or skipped them all, would pass as well.
    let count = |name: &str| of(name).first().and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    let all_passed = count("# pass ").is_some_and(|passed| passed >= 8 && count("# tests ") == Some(passed));
    (!tested.status.success() || !all_passed)
        .then(|| format!("{page}: {}, {:#?}\n{message}", tested.status, of("not ok")))
}
