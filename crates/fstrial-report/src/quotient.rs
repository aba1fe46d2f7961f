//! Note on a ratio that differs from the quotient of the figures above it. Verdicts compare arms within each round;
//! figures are typical of each arm alone. If rounds differ much, a reader who divides gets another number.

use super::{
    document::{CellReport, WorkloadReport},
    numbers,
};
use fstrial_model::metric::Metric;
use fstrial_run::{contrast::ContrastState, plan::threads_in_words};

/// Quotients closer to the ratio than this match the reader's expectation.
const FAR: f64 = 1.1;

/// The line below a workload's figures; none where quotients and ratios agree.
pub(crate) fn note(workload: &WorkloadReport) -> Option<String> {
    let states = workload.states();
    let far = states.filter_map(|state| {
        let quotient = quotient(workload, state)?;
        (quotient / state.ratio?).ln().abs().gt(&FAR.ln()).then(|| {
            let pair = format!("{} / {}", state.a, state.b);
            format!("{} for {pair} at {}", numbers::ratio(quotient), threads_in_words(state.threads))
        })
    });
    let far: Vec<String> = far.collect();
    (!far.is_empty()).then(|| {
        format!(
            "the quotient of two figures is not their ratio here: ratios compare arms within each round, figures are typical of each \
             arm on its own; the quotient is {}",
            far.join(", ")
        )
    })
}

/// The quotient of the figures of a contrast's cells; none of metrics that are not the main figure.
fn quotient(workload: &WorkloadReport, state: &ContrastState) -> Option<f64> {
    if state.metric != Metric::Throughput || state.is_lead {
        return None;
    }
    let is_of = |cell: &&CellReport, arm: &str| cell.arm == arm && cell.threads == state.threads;
    let rate = |arm: &str| workload.cells.iter().find(|cell| is_of(cell, arm))?.rate;
    Some(rate(&state.a)? / rate(&state.b)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::VerdictReport;

    #[test]
    fn warns_if_quotient_differs_from_ratio() {
        let cell = |arm: &str, rate| CellReport {
            arm: arm.into(),
            threads: 4,
            rate: Some(rate),
            ..CellReport::default()
        };
        let verdict = |ratio| VerdictReport {
            contrast: ContrastState {
                threads: 4,
                ratio: Some(ratio),
                ..ContrastState::between("xfs", "ext4", "w")
            },
            unequal_durability: None,
        };
        let message = |ratio| {
            note(&WorkloadReport {
                cells: vec![cell("ext4", 140.0), cell("xfs", 474.0)],
                verdicts: vec![verdict(ratio)],
                ..WorkloadReport::default()
            })
        };
        assert!(message(1.88).unwrap().ends_with("the quotient is 3.39× for xfs / ext4 at 4 threads"));
        assert_eq!(message(3.3), None);
    }
}
