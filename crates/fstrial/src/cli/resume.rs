//! `fstrial resume`: resumes a stored trial that was interrupted or ended undecided.

use super::{
    Home,
    conduct::{self, ConductArgs},
    results::{self, about::About},
};
use clap::Args;
use fstrial_model::{trial::Trial, units::Nanos};
use fstrial_report::verdict::rounds_in_words;
use fstrial_run::error::ExpectedError;
use fstrial_store::{Store, StoredTrial, TrialId, TrialStatus, TrialSummary};

const EXAMPLES: &str = "\
Examples:
  fstrial resume
  fstrial resume 12 --budget 20m
  fstrial resume 12 --as-arm new
  fstrial resume 12 --erase /dev/disk/by-id/nvme-…";

/// Resume an interrupted, killed or undecided trial, with its rounds and its error budget.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ResumeArgs {
    /// Trial number [default: the last undecided trial].
    #[arg(value_name = "TRIAL", value_parser = results::trial_number, add = super::complete::trials())]
    trial: Option<i64>,

    /// Wall time limit of this session [default: that of the trial].
    #[arg(short, long, value_name = "TIME")]
    budget: Option<Nanos>,

    #[command(flatten)]
    conduct: ConductArgs,

    #[command(flatten)]
    home: Home,
}

pub(crate) fn exec(args: &ResumeArgs) -> Result<u8, ExpectedError> {
    let store = results::open(&args.home)?;
    let stored = choose(&store, args.trial)?;
    if args.conduct.shows_progress() {
        let about = About::of(&store, stored.summary.id, false);
        super::say(&format!(
            "trial {}: {} · {} · {}; {} so far\n",
            stored.summary.id.0,
            stored.summary.arms.join(", "),
            about.workloads_in_short(),
            about.device,
            rounds_in_words(stored.summary.rounds as usize)
        ));
    }
    drop(store);
    let id = stored.summary.id.0;
    let mut trial = Trial::parse(&format!("trial {id}"), &stored.toml)?;
    if let Some(budget) = args.budget {
        trial.trial.budget = budget;
    }
    // Of boots the last round may lack a part.
    if args.conduct.is_dry_run() && !trial.has_boots() {
        conduct::check_rounds(&stored, &trial)?;
    }
    conduct::conduct(&trial, &args.conduct, &args.home, Some(id))
}

/// The trial that is named, or the last one that is not decided.
fn choose(store: &Store, id: Option<i64>) -> Result<StoredTrial, ExpectedError> {
    if let Some(id) = id {
        let stored = store.trial(TrialId(id))?;
        return match stored.summary.status {
            TrialStatus::Decided => Err(ExpectedError::usage(
                format!("trial {id} is decided: no question of it is open"),
                format!(
                    "see its answer with `fstrial report {id} --format text`; `fstrial results list` shows all trials"
                ),
            )),
            _ => Ok(stored),
        };
    }
    // A trial that failed before its first run would fail again.
    let can_go_on = |summary: &TrialSummary| match summary.status {
        TrialStatus::Decided => false,
        TrialStatus::Failed => summary.rounds > 0,
        _ => true,
    };
    let mut elsewhere = None;
    for summary in store.trials()?.into_iter().rev().filter(can_go_on) {
        let stored = store.trial(summary.id)?;
        match conduct::check_machine(&stored) {
            Ok(()) => return Ok(stored),
            Err(error) => drop(elsewhere.get_or_insert(error)),
        }
    }
    Err(elsewhere.unwrap_or_else(|| {
        ExpectedError::usage(
            "no stored trial is left to resume",
            "begin one with `fstrial compare`; `fstrial results list` shows those there are",
        )
    }))
}
