//! Observed runs, for `fstrial explain` and for trials that ask for the causes of their verdicts.

use fstrial_report::bar::Progress;
use fstrial_run::{
    error::ExpectedError,
    evidence::{self, TrialEvidence},
    place::Place,
    plan::Plan,
};

/// Observed rounds, unless another number is requested; as text for clap.
pub(super) const ROUNDS: &str = "8";

/// Observes cells of a plan; true if it was interrupted.
pub(super) fn observe(
    plan: &Plan,
    places: &mut [Box<dyn Place>],
    cells: &[usize],
    rounds: u32,
) -> Result<(TrialEvidence, bool), ExpectedError> {
    let progress = Progress::of("observed runs");
    let place = places.first_mut().expect("the plan has a place");
    let done = evidence::run(plan, place.as_mut(), cells, rounds, &mut |done, all| progress.set(done, all));
    progress.clear();
    done
}

/// Evidence as it is stored.
pub(super) fn to_json(evidence: &TrialEvidence) -> String {
    serde_json::to_string(evidence).expect("evidence is plain data")
}

/// A line for each cell whose observation failed.
pub(super) fn failures(plan: &Plan, seen: &TrialEvidence) -> Vec<String> {
    let failed = seen.iter().filter_map(|(cell, seen)| Some((cell, seen.failure.as_ref()?)));
    failed.map(|(cell, failure)| format!("{}: observation: {failure}", plan.cell_name(*cell))).collect()
}
