//! The project's own checks, the same locally and in CI: `cargo xtask ci`, or one of them by name.
#![expect(clippy::print_stdout, reason = "its output is for the person at the terminal")]

mod agreement;
mod attack;
mod budget;
mod circles;
mod claims;
mod facts;
mod links;
mod names;
mod notices;
mod package;
mod patched;
mod phrases;
mod quick;
mod tests;
mod tidy;
mod toys;

use std::{
    fs,
    path::PathBuf,
    process::ExitCode,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// A check: its name and its function.
type Check = (&'static str, fn(&[String]) -> Result<(), String>);

/// All checks, as CI runs them.
const CHECKS: [Check; 7] = [
    ("fmt", fmt),
    ("tidy", tidy),
    ("clippy", clippy),
    ("deny", deny),
    ("test", tests::run),
    ("toys", |_| toys::check(&root())),
    ("attack", |_| attack::run(&attack::Size::Small, &[])),
];

/// Those for every edit.
const QUICK: [Check; 4] = [("fmt", fmt), ("tidy", tidy), ("clippy", clippy), ("test", quick::run)];

/// The longest that all checks together should take, compiling included.
const MAX_TIME: Duration = Duration::from_secs(30 * 60);

/// Skips, a line each.
static SKIPPED: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wanted = arguments.first().map_or("ci", String::as_str);
    let rest = arguments.get(1..).unwrap_or_default();
    // These are not checks: they take long, depending on their arguments.
    let long = match wanted {
        "agreement" => Some(agreement::run(&root(), rest)),
        "attack" => Some(attack::run(&attack::Size::Small, rest)),
        "claims" => Some(claims::run(&root(), rest)),
        "lay-out" => Some(package::lay_out_for_x(rest)),
        "notices" => Some(notices::run()),
        "package" => Some(package::run(rest)),
        "long" if rest.first().is_some_and(|word| word == "package") => Some(package::check()),
        "long" if rest.first().is_some_and(|word| word == "tests") => {
            Some(tests::run(&["--", "--ignored"].map(String::from)))
        }
        "long" if rest.first().is_some_and(|word| word == "attack") => {
            Some(attack::run(&attack::Size::Long, &rest[1..]))
        }
        _ => None,
    };
    if let Some(done) = long {
        return match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(problem) => {
                println!("{wanted}: {problem}");
                ExitCode::FAILURE
            }
        };
    }
    let chosen: Vec<Check> = match wanted {
        "ci" => CHECKS.to_vec(),
        "quick" => QUICK.to_vec(),
        _ => CHECKS.into_iter().filter(|(name, _)| wanted == *name).collect(),
    };
    if chosen.is_empty() {
        println!(
            "usage: cargo xtask [ci | quick | agreement | claims | package | long attack | long package | long tests | {}] [ARGUMENTS]",
            CHECKS.map(|(name, _)| name).join(" | ")
        );
        return ExitCode::from(2);
    }
    report(&chosen.into_iter().map(|check| one(check, rest)).collect::<Vec<_>>())
}

/// The name of a check, how long it took, and its result.
type Done = (&'static str, Duration, Result<(), String>);

fn one((name, check): Check, arguments: &[String]) -> Done {
    println!("── {name}");
    let began = Instant::now();
    let result = check(arguments);
    if let Err(problem) = &result {
        println!("{name}: {problem}");
    }
    (name, began.elapsed(), result)
}

/// Prints the duration of each check, and repeats skips and failures at the end.
fn report(done: &[Done]) -> ExitCode {
    let total: Duration = done.iter().map(|(_, time, _)| *time).sum();
    let each: Vec<String> = done.iter().map(|(name, time, _)| format!("{name} {}", time.as_secs())).collect();
    println!("seconds: {}; all {}", each.join(", "), total.as_secs());
    if total > MAX_TIME {
        let minutes = MAX_TIME.as_secs() / 60;
        println!(
            "that is more than {minutes} minutes: if this machine is not slow, move something to `cargo xtask long`"
        );
    }
    let failures: Vec<String> = done
        .iter()
        .filter_map(|(name, _, result)| Some(format!("FAILED {name}: {}", result.as_ref().err()?)))
        .collect();
    SKIPPED.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|line| println!("{line}"));
    failures.iter().for_each(|failure| println!("{failure}"));
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The workspace's folder.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace").to_owned()
}

/// Cargo's target folder.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |folder| root().join(folder))
}

/// A program in the workspace's folder.
#[expect(clippy::disallowed_methods, reason = "the one place where checks start programs")]
fn command(program: &str) -> std::process::Command {
    let mut command = std::process::Command::new(program);
    command.current_dir(root());
    command
}

fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}

/// True if cargo has a subcommand; a missing one is reported as a skip.
fn has_tool(tool: &str) -> bool {
    let has =
        command(&cargo()).args([tool, "--version"]).output().is_ok_and(|output| output.status.success());
    if !has {
        skip(tool, &format!("cargo {tool} is not installed"));
    }
    has
}

/// Reports that a check, or a part of one, does not run here; [`report`] repeats it.
fn skip(what: &str, reason: &str) {
    let line = format!("SKIPPED {what}: {reason}");
    println!("{line}");
    SKIPPED.lock().unwrap_or_else(PoisonError::into_inner).push(line);
}

/// Runs a cargo subcommand.
fn run_tool(tool: &str, arguments: &[&str]) -> Result<(), String> {
    let status = command(&cargo()).arg(tool).args(arguments).status().map_err(|e| e.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("cargo {tool} found something ({status})")) }
}

/// A tool whose findings change with the toolchain: another version than the pinned one is reported as a skip.
fn pinned_tool(tool: &str, arguments: &[&str]) -> Result<(), String> {
    let pin = fs::read_to_string(root().join("rust-toolchain.toml")).map_err(|e| e.to_string())?;
    let pinned = facts::channel(&pin);
    let version = command(&cargo()).arg("--version").output().map_err(|e| e.to_string())?.stdout;
    if String::from_utf8_lossy(&version).split_whitespace().nth(1) != Some(pinned) {
        skip(tool, &format!("the toolchain is not Rust {pinned}; rustup installs it"));
        return Ok(());
    }
    if has_tool(tool) { run_tool(tool, arguments) } else { Ok(()) }
}

fn fmt(_: &[String]) -> Result<(), String> {
    pinned_tool("fmt", &["--all", "--check"]).map_err(|problem| format!("{problem}; `./x fmt` mends it"))
}

fn clippy(_: &[String]) -> Result<(), String> {
    pinned_tool("clippy", &["--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])
}

fn tidy(_: &[String]) -> Result<(), String> {
    tidy::check(&root())
}

/// Licences and sources of dependencies, and known vulnerabilities if their list can be fetched.
fn deny(_: &[String]) -> Result<(), String> {
    if !has_tool("deny") {
        return Ok(());
    }
    let mut words = vec!["--log-level", "error", "check", "bans", "licenses", "sources"];
    let fetch = command(&cargo()).args(["deny", "fetch", "db"]).output();
    if fetch.is_ok_and(|fetched| fetched.status.success()) {
        words.push("advisories");
    } else {
        skip("advisories", "cargo deny cannot fetch the list");
    }
    run_tool("deny", &words)
}
