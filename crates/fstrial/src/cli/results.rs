//! `fstrial results`: what is stored.

pub(crate) mod about;
mod export;
mod fio;
pub(crate) mod list;
pub(crate) mod standing;
mod transfer;

use super::{Home, Lock, out_file};
use crate::{
    error::ExpectedError,
    exit_code,
    report::{
        again::{self, JudgedTrial},
        diff::{self, Diff, Side},
        document::Document,
        json_lines,
        screen::{self, Remarked},
        stdout,
    },
};
use clap::{Args, Subcommand};
use fstrial_store::{Store, StoredTrial, TrialId, TrialStatus};
use standing::Standing;
use std::path::PathBuf;

/// Look at stored trials: list them, show one's answer again, compare two; export, import and remove them.
#[derive(Debug, Args)]
pub(crate) struct ResultsArgs {
    #[command(subcommand)]
    action: Option<Action>,

    #[command(flatten)]
    home: Home,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(list::ListArgs),
    /// Judge a stored trial again and show its answer.
    #[command(after_long_help = "\
Examples:
  fstrial results show
  fstrial results show 12 --json")]
    Show {
        /// Number of the trial [default: the last that has a round].
        #[arg(value_parser = trial_number, add = super::complete::trials())]
        id: Option<i64>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// The same as `fstrial report A B --format text`: two trials side by side.
    ///
    /// There is no verdict: two trials were not interleaved, so whatever changed between them is in the figures.
    #[command(after_long_help = "\
Examples:
  fstrial results diff 12 15
  fstrial results diff 12 15 --json")]
    Diff {
        /// The number of the first.
        #[arg(value_parser = trial_number, add = super::complete::trials())]
        a: i64,
        /// The number of the second.
        #[arg(value_parser = trial_number, add = super::complete::trials())]
        b: i64,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    Export(export::ExportArgs),
    /// Write every measured run as fio's JSON, for fio-plot and other tools that read it.
    ///
    /// The files are OUT/round-R/ARM/WORKLOAD-THREADS.json. docs/fio.md says what each number is,
    /// and how fio-plot draws them.
    #[command(after_long_help = "\
Examples:
  fstrial results fio 12 --out for-fio-plot")]
    Fio {
        /// Number of the trial [default: the last].
        #[arg(value_parser = trial_number, add = super::complete::trials())]
        id: Option<i64>,
        /// The folder to write to; it is made.
        #[arg(long, value_name = "FOLDER")]
        out: PathBuf,
        #[arg(long, help = out_file::FORCE)]
        force: bool,
    },
    Import(transfer::ImportArgs),
    Merge(transfer::MergeArgs),
    Rm(transfer::RmArgs),
    Tag(list::TagArgs),
}

pub(crate) fn exec(args: &ResultsArgs) -> Result<u8, ExpectedError> {
    let home = &args.home;
    match &args.action {
        None => list::exec(&open(home)?, &list::ListArgs::default())?,
        Some(Action::List(list)) => list::exec(&open(home)?, list)?,
        Some(Action::Show { id, json }) => show(home, *id, *json)?,
        Some(Action::Diff { a, b, json }) => {
            let store = open(home)?;
            let [a, b] = [find(&store, Some(*a))?, find(&store, Some(*b))?];
            let diff = side_by_side(&store, [&a, &b])?;
            match json {
                true => json_lines::print(&diff),
                false => super::print(&diff.render()),
            }
        }
        Some(Action::Export(export)) => export::exec(&open(home)?, export)?,
        Some(Action::Fio { id, out, force }) => {
            let store = open(home)?;
            let line = fio::export(&store, &find(&store, *id)?, out, *force)?;
            super::print(&format!("{line}\n"));
        }
        Some(Action::Import(import)) => transfer::import(home, import)?,
        Some(Action::Merge(merge)) => transfer::merge(home, merge)?,
        Some(Action::Rm(rm)) => transfer::remove(home, rm)?,
        Some(Action::Tag(tag)) => list::exec_tag(home, tag)?,
    }
    Ok(exit_code::VERDICT)
}

/// The file of the results, which must be there.
pub(crate) fn existing(home: &Home) -> Result<PathBuf, ExpectedError> {
    match home.existing_results()? {
        Some(path) => Ok(path),
        None => Err(ExpectedError::usage(
            format!("there are no results in {}", home.folder()?.join(super::RESULTS).display()),
            "run a trial first, or say where they are: --home FOLDER",
        )),
    }
}

/// The results, to be read.
pub(crate) fn open(home: &Home) -> Result<Store, ExpectedError> {
    Ok(Store::open_read_only(existing(home)?)?)
}

/// The results, to be changed: no trial and no other command that changes them works meanwhile.
fn open_to_change(home: &Home) -> Result<(Lock, Store), ExpectedError> {
    let path = existing(home)?;
    let lock = home.lock()?;
    Ok((lock, Store::open(path)?))
}

/// Parses the number of a trial.
pub(crate) fn trial_number(text: &str) -> Result<i64, String> {
    let number = text.parse().ok().filter(|number| *number >= 0);
    number.ok_or_else(|| "a trial has a number, such as 4; `fstrial results list` shows them".into())
}

/// The trial of a number, or the last one that has a round; if none has, the last one.
pub(crate) fn find(store: &Store, id: Option<i64>) -> Result<StoredTrial, ExpectedError> {
    let id = match id {
        Some(id) => TrialId(id),
        None => {
            let trials = store.trials()?;
            let measured = trials.iter().rev().find(|trial| trial.rounds > 0);
            let last = measured.or(trials.last()).map(|trial| trial.id);
            last.ok_or_else(|| ExpectedError::usage("no trial is stored", "run one first"))?
        }
    };
    Ok(store.trial(id)?)
}

fn show(home: &Home, id: Option<i64>, json: bool) -> Result<(), ExpectedError> {
    let store = open(home)?;
    let mut document = judge_again(&store, &find(&store, id)?)?;
    document.home_again = home.again();
    if json {
        json_lines::print(&document);
    } else {
        super::print(&screen::render(&document, stdout::columns(), Remarked::InShort));
    }
    Ok(())
}

pub(crate) fn side_by_side(store: &Store, trials: [&StoredTrial; 2]) -> Result<Diff, ExpectedError> {
    let side = |stored: &StoredTrial| Side {
        id: stored.summary.id.0,
        name: stored.summary.name.clone(),
        started_at: stored.summary.started_at.clone(),
    };
    let [a, b] = trials.map(|trial| judge_again(store, trial));
    Ok(diff::diff(trials.map(side), &a?, &b?))
}

/// The document of a stored trial, judged again from its runs.
pub(crate) fn judge_again(store: &Store, stored: &StoredTrial) -> Result<Document, ExpectedError> {
    judged(store, stored, |told| told.document)
}

/// Judges a stored trial again and hands all that is known of it on; of one that has not ended, whether it still runs.
pub(crate) fn judged<T>(
    store: &Store,
    stored: &StoredTrial,
    tell: impl FnOnce(JudgedTrial<'_>) -> T,
) -> Result<T, ExpectedError> {
    let running = stored.summary.status == TrialStatus::Running;
    let word = if running { Some(Standing::of(store)?.word(&stored.summary)) } else { None };
    again::judged(store, stored, |mut told| {
        told.document.ended = word.unwrap_or(told.document.ended);
        tell(told)
    })
}
