//! `fstrial results import` and `rm`: trials that come from other stores, and trials that go.

use super::{judged, open, open_to_change};
use crate::cli::{self, Home, filter::FilterArgs};
use clap::Args;
use fstrial_report::{json_lines, plain};
use fstrial_run::{error::ExpectedError, numbers::counted};
use fstrial_store::{ImportOutcome, Store, StoreError, StoredTrial, TrialId, TrialStatus};
use std::{
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
};

/// Import trials from other stores, such as a colleague's results.db or a store from `results export`.
///
/// Each trial is copied with its runs, histograms and tags, and gets a new number. Trials already present (same name, seed and
/// first session), running or killed are skipped and reported. An interrupted import can be repeated. CSV files cannot be
/// imported: they do not contain the runs.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fstrial results import colleague.db
  fstrial results import host-a.db host-b.db host-c.db
  fstrial results import /mnt/lab/results.db --tag nightly --since 2026-01-01")]
pub(crate) struct ImportArgs {
    /// Stores to import from; opened read-only.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Print JSON, one trial per line.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    filter: FilterArgs,
}

/// Remove trials with all of their runs. This cannot be undone.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fstrial results rm 3 4 --dry-run
  fstrial results export 3 4 --format store --out removed.db && fstrial results rm 3 4 --yes")]
pub(crate) struct RmArgs {
    /// Trial numbers.
    #[arg(value_name = "ID", required = true, value_parser = super::trial_number, add = crate::cli::complete::trials())]
    ids: Vec<i64>,

    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    /// Print the trials without removing them.
    #[arg(long)]
    dry_run: bool,
}

/// Copies the matching trials from each store. All of them are read first: a mistyped name, or a trial that cannot be
/// shown, is reported before anything is copied.
pub(super) fn import(home: &Home, args: &ImportArgs) -> Result<(), ExpectedError> {
    let search = args.filter.search();
    let mut others = Vec::new();
    for file in &args.files {
        let trials = other_store(file)?;
        let chosen = search.find(&trials).map_err(|error| blame(trials.path(), error))?;
        chosen.iter().try_for_each(|trial| readable(&trials, trial.id))?;
        others.push((trials, chosen));
    }
    let path = home.results()?;
    let _lock = home.lock()?;
    for file in &args.files {
        refuse_itself(&path, file)?;
    }
    let mut store = Store::open(path)?;
    let (mut copied, mut known, mut running) = (0_usize, 0_usize, 0_usize);
    for (other, chosen) in &others {
        for trial in chosen {
            let became = store.import_trial(other, trial.id).map_err(|error| blame(other.path(), error))?;
            match became {
                ImportOutcome::Copied(_) => copied += 1,
                ImportOutcome::Here { .. } => known += 1,
                ImportOutcome::Running => running += 1,
            }
            tell(other, trial.id, &trial.name, became, args.json);
        }
    }
    if !args.json {
        let running = if running > 0 { format!(", {running} not ended there") } else { String::new() };
        cli::say(&format!("{copied} imported, {known} here already{running}\n"));
    }
    Ok(())
}

/// Refuses a trial that could not be shown: all of it is read as one's own would be.
fn readable(other: &Store, id: TrialId) -> Result<(), ExpectedError> {
    let stored = other.trial(id).map_err(|error| blame(other.path(), error))?;
    let from = other.path().display();
    if stored.summary.status == TrialStatus::Running {
        return Ok(());
    }
    judged(other, &stored, |_| ()).map_err(|error| {
        let message = format!("trial {id} of {from} cannot be imported: {}", error.in_full());
        ExpectedError::usage(
            message,
            "ask for the store again, made by `fstrial results export --format store`",
        )
    })
}

/// A store that is read from.
fn other_store(file: &Path) -> Result<Store, ExpectedError> {
    let other = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    Store::open_copy(file).map_err(|error| blame(&other, error))
}

/// An error while a named store is read: a problem of that file is one of the command line, and not of the results
/// stored here.
fn blame(other: &Path, error: StoreError) -> ExpectedError {
    let is_theirs = error.path() == other;
    let hint = match &error {
        StoreError::NotAStore { .. } => Some(
            "only stores are imported: a results.db, or a file written by `fstrial results export --format store`"
                .into(),
        ),
        StoreError::Io { .. } => Some("check the path".into()),
        StoreError::NewerSchema { .. } | StoreError::Damaged { .. } => error.hint(),
        _ => return error.into(),
    };
    match ExpectedError::from(error) {
        error if is_theirs => ExpectedError::Usage { message: error.in_full(), hint },
        error => error,
    }
}

fn refuse_itself(path: &Path, file: &Path) -> Result<(), ExpectedError> {
    match (path.canonicalize(), file.canonicalize()) {
        (Ok(here), Ok(there)) if here == there => Err(ExpectedError::usage(
            format!("{} is the store that would be imported into", file.display()),
            "name another one, or your folder of results: --home FOLDER",
        )),
        _ => Ok(()),
    }
}

/// Reports the outcome for a trial.
fn tell(other: &Store, trial: TrialId, name: &str, became: ImportOutcome, json: bool) {
    let from = other.path().display();
    if json {
        let (id, is_new) = match became {
            ImportOutcome::Copied(id) => (Some(id), true),
            ImportOutcome::Here { trial, .. } => (Some(trial), false),
            ImportOutcome::Running => (None, false),
        };
        let mut line = serde_json::json!({
            "from": from.to_string(), "trial_there": trial, "name": name, "imported": is_new, "trial": id,
        });
        if let ImportOutcome::Here { runs, runs_there, .. } = became {
            line["runs"] = runs.into();
            line["runs_there"] = runs_there.into();
        }
        json_lines::print(&line);
        return;
    }
    let line = match became {
        ImportOutcome::Copied(id) => format!("trial {trial} of {from} is trial {id}: {}", plain(name)),
        ImportOutcome::Here { trial: id, runs, runs_there } => {
            let more = if runs_there > runs {
                format!(
                    ", which has {runs} of its {}; to take theirs: fstrial results rm {id}, and import again",
                    counted(runs_there, "run")
                )
            } else {
                String::new()
            };
            format!("trial {trial} of {from} is here already as trial {id}{more}")
        }
        ImportOutcome::Running => format!(
            "trial {trial} of {from} was left out: it still runs there, or was killed: import it after it has ended; if it was killed, resume it there first"
        ),
    };
    cli::print(&format!("{line}\n"));
}

pub(super) fn remove(home: &Home, args: &RmArgs) -> Result<(), ExpectedError> {
    if args.dry_run {
        let store = open(home)?;
        for trial in named(&store, &args.ids)? {
            cli::print(&format!("would remove {}\n", describe(&trial)));
        }
        return Ok(());
    }
    // Nothing else waits during the prompt.
    let requested = if args.yes { None } else { Some(named(&open(home)?, &args.ids)?) };
    requested.as_deref().map_or(Ok(()), ask)?;
    let (_lock, mut store) = open_to_change(home)?;
    let trials = named(&store, &args.ids)?;
    if requested.is_some_and(|requested| requested != trials) {
        let hint = "look again with --dry-run";
        return Err(ExpectedError::usage("the trials have changed meanwhile, and nothing was removed", hint));
    }
    for trial in &trials {
        store.remove_trial(trial.summary.id)?;
        cli::print(&format!("removed {}\n", describe(trial)));
    }
    if let Err(error) = store.shrink() {
        let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
        cli::say(&format!("the trials are removed, but the file keeps its size: {error}{hint}\n"));
    }
    Ok(())
}

/// The trials of these numbers, each once; an unknown one ends it before anything is done.
fn named(store: &Store, ids: &[i64]) -> Result<Vec<StoredTrial>, ExpectedError> {
    let ids: std::collections::BTreeSet<i64> = ids.iter().copied().collect();
    ids.into_iter().map(|id| Ok(store.trial(TrialId(id))?)).collect()
}

fn describe(trial: &StoredTrial) -> String {
    let summary = &trial.summary;
    let started = summary.started_at.get(..16).unwrap_or(&summary.started_at).replace('T', " ");
    let runs = counted(summary.runs, "run");
    format!("trial {}, {runs} from {started}: {}", summary.id, plain(&summary.name))
}

/// Asks whether to remove them.
fn ask(trials: &[StoredTrial]) -> Result<(), ExpectedError> {
    if !std::io::stdin().is_terminal() {
        return Err(ExpectedError::usage(
            "there is no terminal to ask on, and nothing was removed",
            "check with --dry-run, then pass --yes",
        ));
    }
    trials.iter().for_each(|trial| cli::say(&format!("{}\n", describe(trial))));
    cli::say("remove for good? [y/N] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    match read.is_ok() && ["y", "yes"].contains(&answer.trim()) {
        true => Ok(()),
        false => Err(ExpectedError::usage("nothing was removed", "answer y, or pass --yes")),
    }
}
