//! What a shell offers in the place of a word: filesystems, workloads, devices, and what is stored. A shell asks the program
//! itself, by [`VARIABLE`].

use super::{Cli, Home};
use crate::report::plain;
use clap::CommandFactory;
use clap_complete::{
    CompleteEnv,
    engine::{ArgValueCandidates, CompletionCandidate},
};
use fstrial_model::{
    application::APPLICATIONS, device::DeviceKind, device_model::MODELS, filesystem::FILESYSTEMS, preset,
};
use fstrial_store::{Store, TrialSummary};
use std::collections::BTreeSet;

/// Set by the scripts of `fstrial generate completions`, to the name of the shell that asks.
pub(super) const VARIABLE: &str = "FSTRIAL_COMPLETE";

/// Answers a shell and ends the process, if one asks.
pub(super) fn answer() {
    CompleteEnv::with_factory(Cli::command).var(VARIABLE).complete();
}

/// Filesystems, as arms begin.
pub(super) fn arms() -> ArgValueCandidates {
    let names = || {
        FILESYSTEMS.iter().map(|row| row.name).chain(["raw", "dir:"]).map(CompletionCandidate::new).collect()
    };
    ArgValueCandidates::new(names)
}

/// Presets and applications.
pub(super) fn workloads() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let applications = APPLICATIONS
            .iter()
            .map(|known| CompletionCandidate::new(known.name()).help(Some(known.about.into())));
        applications.chain(preset::names().map(CompletionCandidate::new)).collect()
    })
}

/// Kinds of devices, and the names of models.
pub(super) fn devices() -> ArgValueCandidates {
    let models = || MODELS.iter().map(|(name, _)| *name);
    let named = |kind: &&str| !["model", "directory"].contains(kind);
    ArgValueCandidates::new(move || {
        let kinds = DeviceKind::ALL.map(DeviceKind::name).into_iter().filter(named);
        kinds.chain(models()).map(CompletionCandidate::new).collect()
    })
}

/// Numbers of stored trials, the last first; none where they cannot be read.
pub(super) fn trials() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let trials = stored(|trial| {
            let arms = if trial.name.is_empty() { trial.arms.join(", ") } else { trial.name.clone() };
            (trial.id.0.to_string(), arms)
        });
        let told = trials.into_iter().rev().enumerate();
        told.map(|(order, (id, arms))| {
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
    let home = Home { home: std::env::var_os("FSTRIAL_HOME").map(Into::into) };
    let path = home.existing_results().ok().flatten();
    let trials = path.and_then(|path| Store::open_read_only(path).ok()).and_then(|store| store.trials().ok());
    trials.unwrap_or_default().iter().map(of).collect()
}
