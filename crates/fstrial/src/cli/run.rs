//! `fstrial run`: a trial from a file.

use super::{
    Home,
    conduct::{self, ConductArgs},
    device, in_file,
    on::{self, OnArgs},
    workloads,
};
use clap::Args;
use fstrial_model::{
    device_model::DeviceModel,
    trial::{Files, NamedFileError, Trial},
    units::Nanos,
    workload::{Entry, InputFile},
};
use fstrial_run::{attached, environment, error::ExpectedError};
use std::path::{Path, PathBuf};

/// Run a trial from a file.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fstrial run trial.toml
  fstrial run trial.toml --budget 20m --fail-if slower
  fstrial run trial.toml --place node='ssh -o BatchMode=yes node fstrial agent'
  fstrial run trial.toml --dry-run
  fstrial run trial.toml --on slurm --hosts 12
  fstrial run trial.toml --on 'command ssh {host} fstrial agent --trial' --hosts a,b,c")]
pub(crate) struct RunArgs {
    /// Trial file, as written by `fstrial compare … --save FILE`.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Wall time limit of this session [default: that of the file].
    #[arg(short, long, value_name = "TIME")]
    budget: Option<Nanos>,

    /// Random seed [default: that of the file].
    #[arg(long, value_parser = conduct::seed)]
    seed: Option<u64>,

    #[command(flatten)]
    on: OnArgs,

    #[command(flatten)]
    conduct: ConductArgs,

    #[command(flatten)]
    home: Home,
}

pub(crate) fn exec(args: &RunArgs) -> Result<u8, ExpectedError> {
    let name = args.file.display().to_string();
    if name.parse::<i64>().is_ok() && !args.file.exists() {
        return Err(ExpectedError::usage(
            format!("there is no trial file {name}"),
            format!(
                "a stored trial is continued by `fstrial resume {name}`; `fstrial results export {name} --format toml` prints its file"
            ),
        ));
    }
    if name.ends_with(workloads::JOB_FILE) {
        return Err(ExpectedError::usage(
            format!("{name} is a fio job file: it describes a load, and no filesystems"),
            format!("name them: fstrial compare ARM ARM --workload {name}"),
        ));
    }
    let text = in_file::text(&args.file)?;
    let mut beside = Beside { file: &args.file, left: attached::MOST.0 };
    let mut trial = Trial::parse_with_files(&name, &text, &mut beside, &environment::machine(false))?;
    if trial.trial.name.is_empty() {
        trial.trial.name =
            args.file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    }
    if let Some(budget) = args.budget {
        trial.trial.budget = budget;
    }
    trial.trial.seed = args.seed.or(trial.trial.seed);
    if args.on.is_given() {
        args.conduct.check_for_hosts()?;
        let name = args.file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let campaign = on::CampaignRequest::of_trial(trial, &name.unwrap_or_default(), args.budget)?;
        return on::exec(&campaign, &args.on, &args.conduct, &args.home);
    }
    conduct::conduct(&trial, &args.conduct, &args.home, None)
}

/// Reads the files named in a trial file, which are in its folder or below: it may be foreign, and an error quotes
/// their content.
struct Beside<'a> {
    file: &'a Path,
    /// Bytes of inputs that may still be read.
    left: u64,
}

impl Beside<'_> {
    fn read<T>(
        &self,
        path: &str,
        what: &str,
        read: impl FnOnce(&Path, &str) -> Result<T, ExpectedError>,
    ) -> Result<T, NamedFileError> {
        let text = in_file::beside(self.file, path).map_err(not_beside)?;
        let path = self.file.parent().unwrap_or(Path::new("")).join(path);
        read(&path, &text).map_err(|error| match error {
            ExpectedError::TrialFile(place) => NamedFileError {
                message: format!("the {what} {} is refused", path.display()),
                hint: None,
                place: Some(place),
            },
            other => NamedFileError { message: other.to_string(), hint: other.hint(), place: None },
        })
    }
}

/// The error of a file that is not read.
fn not_beside(message: String) -> NamedFileError {
    let hint = "a path starts from the folder of the trial file, and leads to a file there or below";
    NamedFileError { message, hint: Some(hint.into()), place: None }
}

impl Files for Beside<'_> {
    fn workload_of(&mut self, path: &str) -> Result<Entry, NamedFileError> {
        self.read(path, "fio job file", workloads::of_job_file)
    }
    fn model_of(&mut self, path: &str) -> Result<DeviceModel, NamedFileError> {
        self.read(path, "device model file", device::of_file)
    }
    fn input_of(&mut self, path: &Path) -> Result<InputFile, NamedFileError> {
        let left = &mut self.left;
        let read = in_file::read_beside(self.file, path, |file| attached::read_from(file, left));
        let content = read.map_err(not_beside)?;
        let file = std::path::absolute(self.file.parent().unwrap_or(Path::new("")).join(path));
        let file = file.map_err(|error| not_beside(error.to_string()))?;
        if file.to_str().is_none() {
            return Err(not_beside(format!(
                "{} cannot be written into a trial: it is not UTF-8",
                file.display()
            )));
        }
        Ok(InputFile { file, digest: Some(content.digest) })
    }
}
