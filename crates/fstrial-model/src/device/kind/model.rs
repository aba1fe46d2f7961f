//! `model`: a device that follows a model.

use super::{KindRow, Looped, MADE};
use crate::{
    device::{Device, ModelChoice},
    device_model,
    problem::{Problem, problem},
};

pub(super) const ROW: KindRow = KindRow {
    looped: Looped::Model,
    takes_path: true,
    check,
    making: |device, size| {
        let model = device.modelled().map(|model| model.summary()).unwrap_or_default();
        (
            format!(
                "start a process that serves a modelled device of {size} ({model}) through FUSE in a \
                     private mount namespace"
            ),
            Some("it ends with this command; the kernel unmounts"),
        )
    },
    ..MADE
};

fn check(device: &Device) -> Option<Problem> {
    let at = &["device", "model"];
    match &device.model {
        None => Some(problem(
            &["device", "kind"],
            "kind = \"model\" names no model",
            "write model = \"gp3-3000\"; `fstrial device list` shows the models there are",
        )),
        Some(ModelChoice::Named(name)) => {
            device_model::named(name).err().map(|(message, hint)| problem(at, message, hint))
        }
        Some(ModelChoice::Written(model)) => model.problem().map(|found| Problem {
            path: at.iter().map(|part| (*part).to_owned()).chain(found.path).collect(),
            ..found
        }),
    }
}
