//! `fstrial-wiredtiger`: a worker of fstrial that has WiredTiger, started by `fstrial` itself.

use clap::{Parser, Subcommand};
use fstrial_run::worker::{self, WorkerArgs};
use std::process::ExitCode;

/// A worker of fstrial that has WiredTiger. `fstrial compare … --engine wiredtiger` starts it.
#[derive(Debug, Parser)]
#[command(name = "fstrial-wiredtiger", version, arg_required_else_help = true)]
struct Cli {
    /// Print the version of WiredTiger, and exit.
    #[arg(long, exclusive = true)]
    engine_version: bool,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Worker(WorkerArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let Some(Command::Worker(args)) = &cli.command else {
        println!("{}", fstrial_wiredtiger::version());
        return ExitCode::SUCCESS;
    };
    match worker::worker(args, &fstrial_wiredtiger::Engines) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
