//! The project's own checks, the same locally and in CI: `cargo xtask ci`, or one of them by name.
#![expect(clippy::print_stdout, reason = "its output is for the person at the terminal")]

mod agreement;
mod attack;
mod circles;
mod claims;
mod links;
mod names;
mod package;
mod phrases;
mod tests;
mod tidy;
mod toys;

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

/// A check: what it is called and what it does.
type Check = (&'static str, fn(&[String]) -> Result<(), String>);

const CHECKS: [Check; 7] = [
    ("fmt", fmt),
    ("tidy", |_| tidy::check(&root())),
    ("clippy", clippy),
    ("deny", deny),
    ("test", tests::run),
    ("toys", |_| toys::check(&root())),
    ("attack", |_| attack::run(&attack::Size::Small, &[])),
];

/// The longest that all checks together may take, compiling included.
const MAX_TIME: Duration = Duration::from_secs(60 * 60);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wanted = arguments.first().map_or("ci", String::as_str);
    let rest = arguments.get(1..).unwrap_or_default();
    // These are not checks: they take long, and their arguments say how long.
    let long = match wanted {
        "agreement" => Some(agreement::run(&root(), rest)),
        "attack" => Some(attack::run(&attack::Size::Small, rest)),
        "claims" => Some(claims::run(&root(), rest)),
        "lay-out" => Some(package::lay_out_for_x(rest)),
        "package" => Some(package::run(rest)),
        "long" if rest.first().is_some_and(|word| word == "package") => Some(package::check()),
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
    let chosen: Vec<&Check> = CHECKS.iter().filter(|(name, _)| wanted == "ci" || wanted == *name).collect();
    if chosen.is_empty() {
        println!(
            "usage: cargo xtask [ci | agreement | claims | package | long attack | long package | {}] [ARGUMENTS]",
            CHECKS.map(|(name, _)| name).join(" | ")
        );
        return ExitCode::from(2);
    }
    let mut took = Vec::new();
    for (name, check) in chosen {
        println!("── {name}");
        let began = Instant::now();
        if let Err(problem) = check(rest) {
            println!("{name}: {problem}");
            return ExitCode::FAILURE;
        }
        took.push((*name, began.elapsed()));
    }
    match in_time(&took) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Says how long each check took, and whether all of them together were short enough to be run for every change.
fn in_time(took: &[(&str, Duration)]) -> bool {
    let total: Duration = took.iter().map(|(_, time)| *time).sum();
    let each: Vec<String> = took.iter().map(|(name, time)| format!("{name} {}", time.as_secs())).collect();
    println!("seconds: {}; all {}", each.join(", "), total.as_secs());
    if total > MAX_TIME {
        println!(
            "that is more than {} minutes: move something to `cargo xtask long`",
            MAX_TIME.as_secs() / 60
        );
    }
    total <= MAX_TIME
}

/// The workspace's folder.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_owned()
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

/// Runs a cargo subcommand; one that is not installed is skipped aloud.
fn cargo_tool(tool: &str, arguments: &[&str]) -> Result<(), String> {
    let installed =
        command(&cargo()).args([tool, "--version"]).output().is_ok_and(|output| output.status.success());
    if !installed {
        println!("SKIPPED {tool}: cargo {tool} is not installed");
        return Ok(());
    }
    let status = command(&cargo()).arg(tool).args(arguments).status().map_err(|e| e.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("cargo {tool} found something ({status})")) }
}

fn fmt(_: &[String]) -> Result<(), String> {
    cargo_tool("fmt", &["--all", "--check"])
}

fn clippy(_: &[String]) -> Result<(), String> {
    cargo_tool("clippy", &["--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])
}

fn deny(_: &[String]) -> Result<(), String> {
    cargo_tool("deny", &["--log-level", "error", "check", "bans", "licenses", "sources"])
}
