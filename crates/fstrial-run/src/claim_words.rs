//! Texts for the parts of a claim.

use super::plan::Plan;
use fstrial_model::{
    claim::{ClaimQuestion, Part, Spot},
    metric::Metric,
};
use std::fmt::Write as _;

/// Subject of a part, as text.
pub fn subject(plan: &Plan, part: &Part) -> String {
    let name = |spot: &Spot| spot_name(plan, spot);
    let of = match part.metric {
        Metric::Throughput => String::new(),
        metric => format!("{} of ", metric.name()),
    };
    match &part.question {
        ClaimQuestion::Ratio { a, b, .. } => format!("{of}{} / {}", name(a), name(b)),
        ClaimQuestion::Better { a, b } => format!("{of}{} against {}", name(a), name(b)),
        ClaimQuestion::Slope { cells, .. } => {
            let levels: Vec<String> = cells.iter().map(|cell| cell.threads.to_string()).collect();
            format!("{of}{} @ {}", plan.trial.arms[cells[0].arm].name, levels.join(", "))
        }
        ClaimQuestion::Amount { cell, .. } => format!("{of}{}", name(cell)),
        ClaimQuestion::Works(cell) => format!("{} is done every time", name(cell)),
        ClaimQuestion::Fails(cell) => format!("{} fails or cannot be done", name(cell)),
        ClaimQuestion::NoSingleWinner(groups) => {
            format!("no arm is best, or as good, in all {} comparisons", groups.len())
        }
    }
}

/// A cell by its distinguishing properties in its trial.
pub fn spot_name(plan: &Plan, spot: &Spot) -> String {
    let workload = &plan.workloads[spot.workload];
    let mut name = plan.trial.arms[spot.arm].name.clone();
    if workload.threads.len() > 1 || workload.threads[0] > 1 {
        let _ = write!(name, " @ {}", spot.threads);
    }
    if plan.workloads.len() > 1 {
        let _ = write!(name, " in {}", workload.name);
    }
    if plan.results[spot.workload].len() > 1 {
        let _ = write!(name, ": {}", plan.results[spot.workload][spot.result].name);
    }
    name
}
