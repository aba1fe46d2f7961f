//! `fstrial workloads`: the presets.

use crate::{error::ExpectedError, exit_code};
use clap::{Args, Subcommand};
use fstrial_model::preset;

/// List the workload presets, or show one as the text to copy and change.
#[derive(Debug, Args)]
pub(crate) struct WorkloadsArgs {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the presets with what each models.
    List,
    /// Show a preset's fields, in the form a trial file or a workload file takes.
    Show {
        /// Its name.
        name: String,
    },
}

pub(crate) fn exec(args: &WorkloadsArgs) -> Result<u8, ExpectedError> {
    match &args.action {
        None | Some(Action::List) => {
            for name in preset::names() {
                let about = preset::preset(name).and_then(|entry| entry.about).unwrap_or_default();
                super::print(&format!("{name:18} {about}\n"));
            }
        }
        Some(Action::Show { name }) => {
            let (_, text) = preset::PRESETS.iter().find(|(known, _)| known == name).ok_or_else(|| {
                ExpectedError::usage(format!("there is no workload `{name}`"), preset::hint_for_unknown(name))
            })?;
            super::print(text);
        }
    }
    Ok(exit_code::VERDICT)
}
