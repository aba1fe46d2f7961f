//! Subject of a stored trial, for a list: its workloads, its device, and the short answer.

use super::judge_again;
use fstrial_model::{
    device::{Device, DeviceKind},
    device_model,
    trial::Trial,
};
use fstrial_report::{document::Document, summary};
use fstrial_run::numbers;
use fstrial_store::{Store, StoredTrial, TrialId};

/// Subject of a trial. Unreadable parts are left empty: a list does not end there.
#[derive(Debug, Default)]
pub(crate) struct About {
    pub(crate) workloads: Vec<String>,
    pub(crate) device: String,
    /// The short answer; none before a first ratio, or if it was not requested.
    pub(crate) answer: Option<String>,
}

impl About {
    /// Reads it; `answered`: judges its runs again as well.
    pub(crate) fn of(store: &Store, trial: TrialId, answered: bool) -> Self {
        store.trial(trial).map(|stored| Self::of_stored(store, &stored, answered)).unwrap_or_default()
    }

    fn of_stored(store: &Store, stored: &StoredTrial, answered: bool) -> Self {
        let Ok(trial) = Trial::parse("stored trial", &stored.toml) else { return Self::default() };
        let names =
            trial.workloads.iter().filter_map(|entry| entry.name.clone().or_else(|| entry.preset.clone()));
        let document = answered.then(|| judge_again(store, stored).ok()).flatten();
        Self {
            workloads: names.collect(),
            device: device_in_short(&trial.device),
            answer: document.as_ref().and_then(answer),
        }
    }

    /// The workloads, three at most: `random-write, append-fsync and 4 more`.
    pub(crate) fn workloads_in_short(&self) -> String {
        numbers::first_of(&self.workloads, 3)
    }
}

/// The answer in short, and the boot that it waits for; of a claim its own.
fn answer(document: &Document) -> Option<String> {
    if let Some(claim) = &document.claim {
        return Some(claim.answer.clone());
    }
    let waits = document.next_boot.as_ref().map(|name| format!("waits for the boot {name}"));
    let all: Vec<String> = waits.into_iter().chain(summary::in_short(document, summary::MAX_OPEN)).collect();
    Some(all.join(" · ")).filter(|all| !all.is_empty())
}

/// A device in a word or two: of a disk, which one.
fn device_in_short(device: &Device) -> String {
    match &device.path {
        Some(path) if device.kind == DeviceKind::Disk => format!("disk {}", path.display()),
        _ => kind_or_model(device),
    }
}

/// The kind of a device, or the name of its model, with a remark if the model that ships under this name is another one.
pub(crate) fn kind_or_model(device: &Device) -> String {
    match device.modelled().filter(|_| device.kind == DeviceKind::Model) {
        None => device.kind.name().to_owned(),
        Some(model) => match device_model::shipped(&model.name) {
            Some(shipped) if shipped == model => model.name,
            Some(_) => format!("{} of an earlier version", model.name),
            None => "custom model".into(),
        },
    }
}
