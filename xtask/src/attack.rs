//! Builds the program and the attack, and starts it; and a copy of both with old faults in it, which the attack must find.
//!
//! `cargo xtask attack` is the small run that `ci` has too: every area for a little while. With words it is a campaign, on
//! an optimised build in which sums are still checked: `cargo xtask attack kills --kills 1000 --seed 7`. Results add up in
//! `target/attacks`; `cargo xtask attack --sum` prints all of them. `cargo xtask long attack` is the campaign that
//! docs/safety.md describes.

use crate::{cargo, command, patched, skip, target};

use std::process::Command;

/// The small run: all areas in about two minutes.
const SMALL: [&str; 11] =
    ["--small", "--kills", "16", "--stores", "6", "--lies", "4", "--faults", "6", "--time", "10"];

/// The long run: half an hour of kills, and ten million inputs.
const LONG: [&str; 12] = [
    "--kills", "1000", "--stores", "300", "--lies", "200", "--faults", "140", "--time", "1200", "--inputs",
    "10000000",
];

/// Default extent of the attack.
pub(crate) enum Size {
    Small,
    Long,
}

/// Attacks; a small run by default.
pub(crate) fn run(size: &Size, arguments: &[String]) -> Result<(), String> {
    let is_small = matches!(size, Size::Small) && arguments.is_empty();
    // With the tests, their builds are used as they are.
    let (profile, folder, kinds): (_, _, &[&str]) =
        if is_small { ("dev", "debug", &["--bins", "--tests"]) } else { ("attack", "attack", &["--bins"]) };
    build(&[&["--workspace", "--profile", profile], kinds].concat())?;
    let folder = target().join(folder);
    let mut attack = command(&folder.join("fstrial-attack").display().to_string());
    attack.arg("--program").arg(folder.join("fstrial")).args(["--commit", &commit()]);
    match size {
        Size::Small if is_small => attack.args(SMALL),
        Size::Small => &mut attack,
        Size::Long => attack.args(LONG),
    };
    let is_of_plants = |word: &String| word == "plants";
    if !arguments.iter().any(is_of_plants) {
        start(attack.args(arguments))?;
    }
    if is_small || matches!(size, Size::Long) || arguments.iter().any(is_of_plants) {
        return plants(arguments);
    }
    Ok(())
}

fn start(attack: &mut Command) -> Result<(), String> {
    let status = attack.status().map_err(|e| format!("the attack did not start: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("something went wrong ({status})")) }
}

/// Has the attack search for the old faults. Planted copies have other names than their originals.
fn plants(arguments: &[String]) -> Result<(), String> {
    let Some(tree) = patched::copy("plants", &[patched::plants()])? else {
        skip("plants", "git does not list the files of the tree");
        return Ok(());
    };
    let programs = ["fstrial-planted", "fstrial-attack-planted"];
    // With a test, shared dependencies have the features that they were built with for all tests, and are used as they
    // are.
    let words = [programs.map(|name| ["--bin", name]).concat(), vec!["--test", "x"]].concat();
    build(
        &[&["--manifest-path", &tree.join("Cargo.toml").display().to_string()], words.as_slice()].concat(),
    )?;
    let [program, attack] = programs.map(|name| target().join("debug").join(name));
    let others = arguments.iter().filter(|word| *word != "plants");
    start(command(&attack.display().to_string()).args(["plants", "--program"]).arg(program).args(others))
}

fn build(words: &[&str]) -> Result<(), String> {
    let mut cargo = command(&cargo());
    let status = cargo.args(["build", "--quiet"]).args(words).env("CARGO_TARGET_DIR", target()).status();
    match status.map_err(|e| format!("cargo did not start: {e}"))? {
        status if status.success() => Ok(()),
        status => Err(format!("cargo build failed ({status})")),
    }
}

/// The commit, for the table; with a + if files differ from it.
fn commit() -> String {
    let git = |words: &[&str]| {
        let done = command("git").args(words).output().ok().filter(|done| done.status.success())?;
        Some(String::from_utf8_lossy(&done.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else { return "unknown".into() };
    let is_clean =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|text| text.is_empty());
    if is_clean { commit } else { format!("{commit}+") }
}
