//! Observed runs, for `fstrial explain` and for trials that ask for the causes of their verdicts.

use fstrial_report::bar::Progress;
use fstrial_run::{
    error::ExpectedError,
    evidence::{self, TrialEvidence},
    place::Place,
    plan::Plan,
};
use fstrial_store::{Store, TrialId};

/// Observed rounds, unless another number is requested; as text for clap.
pub(super) const ROUNDS: &str = "8";

/// Observes cells of a plan, until an error if there is one.
pub(super) fn observe(
    plan: &Plan,
    places: &mut [Box<dyn Place>],
    cells: &[usize],
    rounds: u32,
) -> (TrialEvidence, Option<ExpectedError>) {
    let progress = Progress::of("observed runs");
    let done = evidence::run(plan, places, cells, rounds, &mut |done, all| progress.set(done, all));
    progress.clear();
    done
}

/// Stores evidence, unless the trial has some of more rounds or arms; true if it did.
pub(super) fn keep(store: &mut Store, id: TrialId, seen: &TrialEvidence) -> Result<bool, ExpectedError> {
    let known = store.trial(id)?.evidence;
    let known: TrialEvidence = known.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default();
    let has_all = known.keys().all(|cell| seen.contains_key(cell));
    let is_kept = has_all && evidence::least_runs(seen) >= evidence::least_runs(&known).max(1);
    if is_kept {
        store.keep_evidence(id, &serde_json::to_string(seen).expect("evidence is plain data"))?;
    }
    Ok(is_kept)
}
