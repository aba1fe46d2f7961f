//! `fstrial workloads`: the presets.

use crate::{
    error::ExpectedError,
    exit_code,
    run::environment::{self, Environment},
};
use clap::{Args, Subcommand};
use fstrial_model::{
    fio::{self, Surroundings, Understanding},
    preset,
};
use std::path::{Path, PathBuf};

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
    /// Say what is made of a fio job file: whether it runs natively or through fio, and why.
    Explain {
        /// The job file.
        file: PathBuf,
        /// Print the workload that it becomes instead, in the form that a workload file takes.
        #[arg(long)]
        toml: bool,
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
        Some(Action::Explain { file, toml }) => {
            let understanding = understand(file)?;
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            super::print(&match toml {
                true => toml::to_string_pretty(&understanding.entry(&name)).expect("an entry is plain data"),
                false => understanding.explain(),
            });
        }
    }
    Ok(exit_code::VERDICT)
}

/// How names of fio job files end.
pub(super) const JOB_FILE: &str = ".fio";

/// What is made of a job file on this machine.
pub(super) fn understand(file: &Path) -> Result<Understanding, ExpectedError> {
    let text = super::run::read_bounded(file)?;
    Ok(fio::understand(&file.display().to_string(), &text, &surroundings())?)
}

/// What `$ncpus` and its like mean here. The environment's variables are not handed over.
fn surroundings() -> Surroundings {
    let pages = rustix::param::page_size();
    Surroundings {
        cpus: environment::cpus().into(),
        memory_mib: Environment::of_this_machine().memory.0 >> 20,
        page_bytes: u32::try_from(pages).unwrap_or(4096),
        variables: [].into(),
    }
}
