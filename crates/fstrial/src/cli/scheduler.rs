//! The starter of jobs on other hosts: the words after `--on`.

use fstrial_run::{cluster::slurm, error::ExpectedError};
use std::{os::unix::process::CommandExt, process::Command, str::FromStr};

/// The starter of jobs.
#[derive(Debug, Clone)]
pub(super) enum Where {
    Slurm(Vec<String>),
    Command(Vec<String>),
}

impl FromStr for Where {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains(['\'', '"', '\\']) {
            return Err(
                "the words are split at spaces, and quotes mean nothing in them: put them into a script"
                    .into(),
            );
        }
        let mut words = text.split_whitespace().map(str::to_owned);
        let kind = words.next().unwrap_or_default();
        let words: Vec<String> = words.collect();
        match kind.as_str() {
            "slurm" => Ok(Self::Slurm(words)),
            "command" if words.iter().any(|word| word.contains("{host}")) => Ok(Self::Command(words)),
            "command" => {
                Err("the command has no {host}; write 'command ssh {host} fstrial agent --trial'".into())
            }
            _ => {
                Err("use slurm, 'slurm --partition=nvme', or 'command ssh {host} fstrial agent --trial'"
                    .into())
            }
        }
    }
}

impl Where {
    /// Becomes this very command in an allocation of Slurm's for this many clients, unless it is in one.
    ///
    /// # Errors
    /// It is not Slurm, or has no salloc.
    pub(super) fn allocate(&self, clients: u16) -> Result<(), ExpectedError> {
        let Self::Slurm(words) = self else {
            return Err(ExpectedError::usage(
                "clients are started by mpirun, which has its own words for where they run",
                "use --on slurm, or name hosts to mpirun: OMPI_MCA_orte_default_hostfile=FILE fstrial compare …",
            ));
        };
        if std::env::var_os("SLURM_JOB_ID").is_some() {
            return Ok(());
        }
        slurm::require()?;
        let own = std::env::current_exe().map_err(|error| ExpectedError::Fault(error.to_string()))?;
        #[expect(
            clippy::disallowed_methods,
            reason = "the scheduler is configured by the user's environment"
        )]
        let mut salloc = Command::new("salloc");
        salloc.args(["--quiet", "--job-name=fstrial", "--exclusive", &format!("--ntasks={clients}")]);
        let error = salloc.args(words).arg(own).args(std::env::args_os().skip(1)).exec();
        Err(ExpectedError::usage(
            format!("salloc could not be started: {error}"),
            "start the trial on a login node of the cluster",
        ))
    }
}
