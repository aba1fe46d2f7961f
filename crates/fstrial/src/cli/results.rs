//! `fstrial results`: the stored trials.

pub(crate) mod about;
mod export;
mod fio;
pub(crate) mod list;
mod transfer;

use super::{Home, Lock, statuses::TrialStatuses};
use clap::{Args, Subcommand};
use fstrial_report::{
    again::{self, JudgedTrial},
    diff::{self, Diff, TrialSide},
    document::Document,
};
use fstrial_run::{error::ExpectedError, exit_code};
use fstrial_store::{Store, StoredTrial, TrialId, TrialStatus};
use std::path::PathBuf;

/// List, tag, export, import and remove stored trials.
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
    Export(export::ExportArgs),
    Import(transfer::ImportArgs),
    Rm(transfer::RmArgs),
    Tag(list::TagArgs),
}

pub(crate) fn exec(args: &ResultsArgs) -> Result<u8, ExpectedError> {
    let home = &args.home;
    match &args.action {
        None => list::exec(&open(home)?, &list::ListArgs::default())?,
        Some(Action::List(list)) => list::exec(&open(home)?, list)?,
        Some(Action::Export(export)) => export::exec(&open(home)?, export)?,
        Some(Action::Import(import)) => transfer::import(home, import)?,
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
            "run a trial first, or name their folder: --home FOLDER",
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

pub(crate) fn side_by_side(store: &Store, trials: [&StoredTrial; 2]) -> Result<Diff, ExpectedError> {
    let side = |stored: &StoredTrial| TrialSide {
        id: stored.summary.id.0,
        name: stored.summary.name.clone(),
        started_at: stored.summary.started_at.clone(),
    };
    let [a, b] = trials.map(|trial| judge_again(store, trial));
    Ok(diff::diff(trials.map(side), &a?, &b?))
}

/// The document of a stored trial, judged again from its runs.
pub(crate) fn judge_again(store: &Store, stored: &StoredTrial) -> Result<Document, ExpectedError> {
    judged(store, stored, |judged| judged.document)
}

/// Judges a stored trial again and passes the result on; for an unended one, with whether it still runs.
pub(crate) fn judged<T>(
    store: &Store,
    stored: &StoredTrial,
    tell: impl FnOnce(JudgedTrial<'_>) -> T,
) -> Result<T, ExpectedError> {
    let running = stored.summary.status == TrialStatus::Running;
    let word = if running { Some(TrialStatuses::of(store)?.word(&stored.summary)) } else { None };
    again::judged(store, stored, |mut judged| {
        judged.document.ended = word.unwrap_or(judged.document.ended);
        tell(judged)
    })
}
