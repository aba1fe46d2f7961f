//! `fstrial generate`: manual pages, completions and schemas, from the one definition of the command line and the
//! types of the files.

use super::{
    Cli,
    out_file::{self, Folder},
};
use crate::{error::ExpectedError, exit_code, report::stdout};
use clap::{Args, CommandFactory, Subcommand};
use clap_complete::Shell;
use fstrial_model::trial::Trial;
use std::path::{Path, PathBuf};

/// Generate manual pages, shell completions, and the JSON Schema of trial files.
#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Manual pages, one for each command, into a folder.
    Man {
        /// The folder; it is made.
        folder: PathBuf,
        #[arg(long, help = out_file::FORCE)]
        force: bool,
    },
    /// Completions for a shell, on standard output.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// The JSON Schema of trial files, on standard output.
    Schema,
}

pub(crate) fn exec(args: &GenerateArgs) -> Result<u8, ExpectedError> {
    match &args.what {
        What::Man { folder, force } => man(folder, *force)?,
        What::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "fstrial", &mut text);
            stdout::write(&text);
        }
        What::Schema => {
            super::print(&schema());
        }
    }
    Ok(exit_code::VERDICT)
}

/// The JSON Schema of trial files.
fn schema() -> String {
    let schema = schemars::schema_for!(Trial);
    serde_json::to_string_pretty(&schema).expect("a schema is plain data") + "\n"
}

/// One page for the program and one for each command that is not hidden.
fn man(folder: &Path, force: bool) -> Result<(), ExpectedError> {
    let mut command = Cli::command();
    command.build();
    let mut pages = vec![("fstrial".to_owned(), command.clone())];
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        pages.push((format!("fstrial-{}", sub.get_name()), sub.clone()));
    }
    for (name, command) in pages {
        let mut text = Vec::new();
        let page = clap_mangen::Man::new(command).title(name.to_uppercase());
        page.render(&mut text).expect("memory takes everything");
        Folder::make(folder)?.write(&folder.join(format!("{name}.1")), &text, force)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_in_the_docs_is_that_of_the_types() {
        let docs = include_str!("../../../../docs/trial.schema.json");
        assert!(docs == schema(), "make it again: fstrial generate schema > docs/trial.schema.json");
    }

    #[test]
    fn every_command_has_a_page_with_its_flags() {
        let folder = tempfile::tempdir().unwrap();
        man(folder.path(), false).unwrap();
        let page = std::fs::read_to_string(folder.path().join("fstrial-compare.1")).unwrap();
        assert!(page.contains("baseline") && page.contains("fast=xfs:agcount=16,noatime"));
        let pages = std::fs::read_dir(folder.path()).unwrap().count();
        let mut command = Cli::command();
        command.build();
        let shown =
            command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help").count();
        assert_eq!(pages, shown + 1);
    }
}
