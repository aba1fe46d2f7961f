//! `fstrial generate`: manual pages, completions and schemas, from the one definition of the command line and the
//! types of the files.

mod man;

use super::{
    Cli,
    complete::VARIABLE,
    out_file::{self, Folder},
};
use clap::{Args, CommandFactory, Subcommand};
use clap_complete::{Shell, env::Shells};
use fstrial_model::trial::Trial;
use fstrial_report::stdout;
use fstrial_run::{error::ExpectedError, exit_code};
use std::path::{Path, PathBuf};

/// Generate man pages, shell completions, and the JSON Schema of trial files.
#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Write man pages, one per command, to a folder.
    #[command(after_long_help = "\
Examples:
  fstrial generate man man1
  man -l man1/fstrial-compare.1")]
    Man {
        /// Output folder; created if missing.
        folder: PathBuf,
        #[arg(long, help = out_file::FORCE)]
        force: bool,
    },
    /// Print shell completions.
    #[command(after_long_help = "\
Examples:
  fstrial generate completions fish > ~/.config/fish/completions/fstrial.fish")]
    Completions {
        /// Shell that the completions are for.
        shell: Shell,
    },
    /// Print the JSON Schema of trial files.
    #[command(after_long_help = "\
Examples:
  fstrial generate schema > trial.schema.json")]
    Schema,
}

pub(crate) fn exec(args: &GenerateArgs) -> Result<u8, ExpectedError> {
    match &args.what {
        What::Man { folder, force } => man(folder, *force)?,
        What::Completions { shell } => {
            stdout::write(&completions(*shell)?);
        }
        What::Schema => {
            super::print(&schema());
        }
    }
    Ok(exit_code::VERDICT)
}

/// The script for a shell, which asks the program for every word.
fn completions(shell: Shell) -> Result<Vec<u8>, ExpectedError> {
    let (shells, mut text) = (Shells::builtins(), Vec::new());
    let completer = shells.completer(&shell.to_string()).expect("every shell has one");
    completer.write_registration(VARIABLE, "fstrial", "fstrial", "fstrial", &mut text).map_err(|error| {
        ExpectedError::Fault(format!("the script for {shell} could not be made: {error}"))
    })?;
    Ok(text)
}

/// The JSON Schema of trial files.
fn schema() -> String {
    let schema = schemars::schema_for!(Trial);
    serde_json::to_string_pretty(&schema).expect("a schema is plain data") + "\n"
}

/// A page for the program and one for every command that is shown.
fn man(folder: &Path, force: bool) -> Result<(), ExpectedError> {
    for page in man::pages(Cli::command()) {
        Folder::make(folder)?.write(&folder.join(format!("{}.1", page.name)), &page.text, force)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documented_schema_matches_types() {
        let docs = include_str!("../../../../docs/trial.schema.json");
        assert!(docs == schema(), "make it again: fstrial generate schema > docs/trial.schema.json");
    }

    #[test]
    fn man_pages_are_not_overwritten_without_force() {
        let folder = tempfile::tempdir().unwrap();
        man(folder.path(), false).unwrap();
        let page = std::fs::read_to_string(folder.path().join("fstrial-compare.1")).unwrap();
        assert!(page.contains("baseline") && page.contains("fast=xfs:agcount=16,noatime"));
        assert!(folder.path().join("fstrial-results-list.1").is_file());
        assert!(man(folder.path(), false).is_err(), "they are there already");
        man(folder.path(), true).unwrap();
    }
}
