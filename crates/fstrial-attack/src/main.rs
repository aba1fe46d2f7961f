//! `fstrial-attack`: attacks fstrial. Every area is a way in: processes that are killed, devices and files that must be
//! refused, too little of everything, hostile files and stores, fuzz, and old faults that the attack itself must find.
//!
//! It touches only objects that it makes: files below `target/attacks`, loop devices on them, and processes that it
//! starts. All of them are gone when it ends. `cargo xtask attack` builds and starts it.
#![expect(clippy::print_stdout, reason = "its output is for the person at the terminal")]

mod amplify;
mod child;
mod dice;
mod faults;
mod fuzz;
mod hostile;
mod kills;
mod lab;
mod plants;
mod refusals;
mod starve;
mod table;
mod wire;

use clap::{Parser, Subcommand};
use lab::Subject;
use std::{
    path::{self, Path, PathBuf},
    process::ExitCode,
    thread,
    time::Duration,
};
use table::{Area, Campaign};

/// Attack fstrial, and report the findings.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask attack", args_override_self = true)]
struct Cli {
    #[command(subcommand)]
    hidden: Option<Hidden>,

    /// Areas: kills, refusals, starve, files, stores, amplifiers, agents, faults, commands, fuzz (all if none is named), plants.
    area: Vec<String>,

    /// Seed of all randomness.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Seconds of fuzz.
    #[arg(long, default_value_t = 15)]
    time: u64,

    /// Inputs of fuzz, at most.
    #[arg(long, default_value_t = u64::MAX)]
    inputs: u64,

    /// Number of trials to kill.
    #[arg(long, default_value_t = 12)]
    kills: u64,

    /// Hostile stores.
    #[arg(long, default_value_t = 20)]
    stores: u64,

    /// Forged lines to agents and trials.
    #[arg(long, default_value_t = 8)]
    lies: u64,

    /// Faults of the ground, and kills of commands.
    #[arg(long, default_value_t = 14)]
    faults: u64,

    /// Only this target of fuzz.
    #[arg(long)]
    target: Option<String>,

    /// Only this input of the target, in this process.
    #[arg(long, requires = "target")]
    input: Option<u64>,

    /// Take this file as the input.
    #[arg(long, requires = "target")]
    file: Option<PathBuf>,

    /// Only this case of an area.
    #[arg(long)]
    only: Option<String>,

    /// Leave out long cases.
    #[arg(long)]
    small: bool,

    /// The program to attack.
    #[arg(long, default_value = "target/debug/fstrial")]
    program: PathBuf,

    /// The commit, for the table.
    #[arg(long, default_value = "unknown")]
    commit: String,

    /// Print the table as JSON.
    #[arg(long)]
    json: bool,

    /// Only print the sum of all campaigns so far.
    #[arg(long)]
    sum: bool,
}

#[derive(Debug, Subcommand)]
enum Hidden {
    #[command(hide = true)]
    FuzzWorker(fuzz::WorkerArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Some(Hidden::FuzzWorker(args)) = &cli.hidden {
        fuzz::work(args);
        return ExitCode::SUCCESS;
    }
    match attack(&cli) {
        Ok(code) => code,
        Err(problem) => {
            println!("attack: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn attack(cli: &Cli) -> Result<ExitCode, String> {
    let kept = lab::workspace().join("target/attacks");
    if let (Some(name), true) = (&cli.target, cli.input.is_some() || cli.file.is_some()) {
        fuzz::once(name, cli.seed, cli.input.unwrap_or(0), cli.file.as_deref())?;
        return Ok(ExitCode::SUCCESS);
    }
    if cli.sum {
        let sum = Campaign::sum(&kept).ok_or("there has been no campaign yet")?;
        show(cli, &sum)?;
        return Ok(ExitCode::SUCCESS);
    }
    let areas = areas(cli, &kept)?;
    let campaign = Campaign { seeds: vec![cli.seed], commit: cli.commit.clone(), areas };
    campaign.keep(&kept)?;
    show(cli, &campaign)?;
    Ok(if campaign.went_wrong() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Attacks the areas that are wanted. Those that mostly wait for others go side by side.
fn areas(cli: &Cli, kept: &Path) -> Result<Vec<Area>, String> {
    let program = path::absolute(&cli.program).map_err(|error| error.to_string())?;
    if !program.exists() {
        return Err(format!("{} is not there: use `cargo xtask attack`, which builds it", program.display()));
    }
    let subject = Subject { program, plant: None, only: cli.only.clone(), small: cli.small };
    let kills = kills::Options { seed: cli.seed, kills: cli.kills, patience: Duration::from_secs(20) };
    let wants = |area: &str| cli.area.is_empty() || cli.area.iter().any(|wanted| wanted == area);
    let mut areas = Vec::new();
    thread::scope(|scope| {
        let killing = wants("kills").then(|| scope.spawn(|| kills::attack(&subject, &kills)));
        let refusing = wants("refusals").then(|| scope.spawn(|| refusals::attack(&subject)));
        let starving = wants("starve").then(|| scope.spawn(|| starve::attack(&subject)));
        let files = wants("files").then(|| scope.spawn(|| hostile::files(&subject)));
        let stores = wants("stores").then(|| scope.spawn(|| hostile::stores(&subject, cli.seed, cli.stores)));
        let amplifiers = wants("amplifiers").then(|| scope.spawn(|| amplify::attack(&subject)));
        let agents = wants("agents").then(|| scope.spawn(|| wire::attack(&subject, cli.seed, cli.lies)));
        let faults = wants("faults").then(|| scope.spawn(|| faults::attack(&subject, cli.seed, cli.faults)));
        let commands =
            wants("commands").then(|| scope.spawn(|| faults::commands(&subject, cli.seed, cli.faults)));
        let all = [killing, refusing, starving, files, stores, amplifiers, agents, faults, commands]
            .into_iter()
            .flatten();
        areas.extend(all.map(|area| area.join().expect("a panic stays within its area")));
    });
    if wants("fuzz") {
        areas.push(fuzz::attack(&fuzz::Options {
            seed: cli.seed,
            time: Duration::from_secs(cli.time),
            inputs: cli.inputs,
            findings: kept.join("findings"),
            target: cli.target.clone(),
            plant: None,
        }));
    }
    // Only a program with old faults in it has any to find: `cargo xtask attack` builds one.
    if cli.area.iter().any(|wanted| wanted == "plants") {
        areas.push(plants::attack(&subject.program, cli.only.as_deref(), &kept.join("findings")));
    }
    Ok(areas)
}

fn show(cli: &Cli, campaign: &Campaign) -> Result<(), String> {
    let text = match cli.json {
        true => serde_json::to_string_pretty(campaign).map_err(|error| error.to_string())?,
        false => campaign.markdown(),
    };
    println!("{text}");
    Ok(())
}
