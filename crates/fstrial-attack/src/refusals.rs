//! The refusal matrix: devices, paths, options, ledgers, homes and programs that must be refused or contained. The
//! named objects are compared before and after, byte for byte.

mod devices;
mod outputs;
mod planted_entries;
mod programs;

use crate::{
    child::Ended,
    lab::{Lab, Subject},
    table::{Area, skipped},
};
use std::panic::{self, AssertUnwindSafe};

/// An invariant: its violation, if any. A case that cannot be tried here is [`skipped`].
type Case = (&'static str, fn(&Lab) -> Result<(), String>);

/// Tries every case.
pub(crate) fn attack(subject: &Subject) -> Area {
    let mut area = Area::of("refusals", subject);
    if !rustix::process::geteuid().is_root() {
        area.skip("all", "needs root");
        return area.finish();
    }
    let cases =
        devices::CASES.iter().chain(&outputs::CASES).chain(&planted_entries::CASES).chain(&programs::CASES);
    for (name, case) in cases.filter(|(name, _)| subject.wants(name)) {
        // A separate home for each: planted objects of one must not affect another.
        let result = panic::catch_unwind(AssertUnwindSafe(|| {
            let lab = Lab::new(subject);
            case(&lab)
        }));
        let result = result.unwrap_or_else(|_| Err("the attack itself failed".into()));
        area.tried(name, result, &format!("cargo xtask attack refusals --only {name}"));
    }
    // Nothing is done there, so one lab is enough.
    let lab = Lab::new(subject);
    for option in devices::OPTIONS {
        if subject.wants("options") {
            area.tried(
                &format!("option {option}"),
                devices::option(&lab, option),
                "cargo xtask attack refusals --only options",
            );
        }
    }
    area.finish()
}

/// It refused, with a message, and promptly.
fn has_refused(ended: &Ended) -> Result<(), String> {
    if let Some(fault) = ended.fault() {
        return Err(fault);
    }
    match ended.code() {
        Some(2 | 10 | 11 | 12) if ended.stderr.contains("error") || ended.stdout.contains("FAILED") => Ok(()),
        code => Err(format!("was not refused: exit code {code:?}: {}", ended.last_words())),
    }
}
