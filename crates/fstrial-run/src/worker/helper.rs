//! A program that is nothing but a worker, for an engine that fstrial itself does not link.

use super::{WorkerArgs, worker};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use fstrial_engine::KeyValueEngines;
use std::process::ExitCode;

/// A worker of fstrial with a built-in engine, started by `fstrial compare … --engine …`.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
struct Cli {
    /// Print the version of the engine, and exit.
    #[arg(long, exclusive = true)]
    engine_version: bool,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Worker(WorkerArgs),
}

/// The whole of such a program.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "these are its only terminal")]
pub fn helper(name: &'static str, version: fn() -> String, engines: &dyn KeyValueEngines) -> ExitCode {
    let matches = Cli::command().name(name).get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let Some(Command::Worker(args)) = &cli.command else {
        println!("{}", version());
        return ExitCode::SUCCESS;
    };
    match worker(args, engines) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
