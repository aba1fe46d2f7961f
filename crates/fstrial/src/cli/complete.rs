//! Shell completion: filesystems, workloads, devices, and stored trials. A shell asks the program itself, by
//! [`VARIABLE`].

use super::{Cli, Home};
use clap::CommandFactory;
use clap_complete::{
    CompleteEnv,
    engine::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter},
};
use fstrial_model::{
    application::APPLICATIONS, device::DeviceKind, device_model::MODELS, filesystem::FILESYSTEMS, preset,
};
use fstrial_report::plain;
use fstrial_store::{Store, TrialSummary};
use std::{collections::BTreeSet, ffi::OsStr};

/// Set by the scripts of `fstrial generate completions`, to the name of the shell that asks.
pub(super) const VARIABLE: &str = "FSTRIAL_COMPLETE";

/// Answers a shell and ends the process, if one asks.
pub(super) fn answer() {
    CompleteEnv::with_factory(Cli::command).var(VARIABLE).complete();
}

/// Filesystems, as arms begin, and directories.
pub(super) fn arms() -> ArgValueCompleter {
    let names =
        || FILESYSTEMS.iter().map(|row| row.name).chain(["raw", "dir:"]).map(CompletionCandidate::new);
    ArgValueCompleter::new(move |current: &OsStr| with_folders("dir:", names().collect(), current))
}

/// Presets, applications and files.
pub(super) fn workloads() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let applications = APPLICATIONS
            .iter()
            .map(|known| CompletionCandidate::new(known.name()).help(Some(known.about.into())));
        let mut all =
            begun(applications.chain(preset::names().map(CompletionCandidate::new)).collect(), current);
        all.extend(PathCompleter::file().complete(current));
        all
    })
}

/// Kinds of devices, and the names of models.
pub(super) fn devices() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let kinds = DeviceKind::ALL.map(DeviceKind::name).into_iter();
        let kinds = kinds.filter(|kind| !["model", "directory"].contains(kind));
        let names = kinds.chain(MODELS.iter().map(|(name, _)| *name)).map(CompletionCandidate::new);
        with_folders("image:", names.collect(), current)
    })
}

/// Words that begin with the current one; after the prefix of a path, folders.
fn with_folders(before: &str, words: Vec<CompletionCandidate>, current: &OsStr) -> Vec<CompletionCandidate> {
    match current.to_str().and_then(|current| current.strip_prefix(before)) {
        Some(path) => {
            let folders = PathCompleter::dir().complete(OsStr::new(path));
            folders.into_iter().map(|folder| folder.add_prefix(before)).collect()
        }
        None => begun(words, current),
    }
}

/// Those that begin so.
fn begun(mut words: Vec<CompletionCandidate>, current: &OsStr) -> Vec<CompletionCandidate> {
    words.retain(|word| word.get_value().as_encoded_bytes().starts_with(current.as_encoded_bytes()));
    words
}

/// Numbers of stored trials, the last first; none where they cannot be read.
pub(super) fn trials() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let trials = stored(|trial| {
            let arms = if trial.name.is_empty() { trial.arms.join(", ") } else { trial.name.clone() };
            (trial.id.0.to_string(), arms)
        });
        let reported = trials.into_iter().rev().enumerate();
        reported
            .map(|(order, (id, arms))| {
                CompletionCandidate::new(id).help(Some(plain(&arms).into())).display_order(Some(order))
            })
            .collect()
    })
}

/// Tags that some trial has.
pub(super) fn tags() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let tags: BTreeSet<String> = stored(|trial| trial.tags.clone()).into_iter().flatten().collect();
        tags.into_iter().map(CompletionCandidate::new).collect()
    })
}

/// Something of every stored trial, of the home that would be used.
fn stored<T>(of: impl Fn(&TrialSummary) -> T) -> Vec<T> {
    // Another store may be meant.
    if std::env::args().any(|word| word.starts_with("--home")) {
        return Vec::new();
    }
    let path = Home { home: None }.existing_results().ok().flatten();
    let trials = path.and_then(|path| Store::open_read_only(path).ok()).and_then(|store| store.trials().ok());
    trials.unwrap_or_default().iter().map(of).collect()
}
