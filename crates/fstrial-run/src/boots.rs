//! Boots of this host as places. A round takes one boot for each place, in random order, and each boot is a session: variation between
//! boots, such as the kernel's address layout, is part of the spread between rounds.

use super::{environment::Environment, judge::Judge, plan::Plan, round::Earlier};
use crate::error::ExpectedError;
use fstrial_model::problem::did_you_mean;

/// The boot that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Booted {
    /// The index of its place in the plan.
    pub place: usize,
    /// Whether its part of a round was run; the next part needs another boot.
    pub is_used: bool,
}

impl Booted {
    /// This boot as a place of a trial with earlier rounds.
    pub(super) fn of(place: usize, environment: &Environment, earlier: &Earlier) -> Self {
        let before = earlier.environments.get(&environment.place);
        let before = before.and_then(|stored| serde_json::from_str::<Environment>(stored).ok());
        let is_used = before.is_some_and(|before| {
            before.boot.as_ref().map(|boot| &boot.id) == environment.boot.as_ref().map(|boot| &boot.id)
        });
        Self { place, is_used }
    }
}

/// The place of the plan that this host is booted as; none where its arms are at no boots.
///
/// # Errors
/// It is not said, is not one of them, or there are none.
pub fn booted(plan: &Plan, said: Option<&str>) -> Result<Option<usize>, ExpectedError> {
    let all: Vec<&str> = plan.trial.boots().collect();
    match said {
        None if all.is_empty() => Ok(None),
        None => Err(ExpectedError::usage(
            "the arms are at boots of this host, and nothing says which one runs",
            format!("say it: --as-arm {}", all.join(" or --as-arm ")),
        )),
        Some(_) if all.is_empty() => Err(ExpectedError::usage(
            "--as-arm is for arms at boots of this host",
            "write the arms as FILESYSTEM@BOOT, or leave --as-arm out",
        )),
        Some(name) => match plan.places.iter().position(|place| place.as_deref() == Some(name)) {
            Some(place) => Ok(Some(place)),
            None => Err(ExpectedError::usage(
                format!("no arm is at the boot `{name}`"),
                did_you_mean(name, all.iter().copied())
                    .unwrap_or_else(|| format!("they are {}", all.join(", "))),
            )),
        },
    }
}

/// The boot that comes after the rounds that a judge has seen; `last` is the number of the last one.
pub fn next<'p>(judge: &Judge<'p>, last: u32) -> Option<&'p str> {
    let plan = judge.plan;
    plan.trial.boots().next()?;
    let round = judge.next_round(last);
    let is_over = !judge.is_undecided() || plan.trial.trial.rounds.is_some_and(|most| round > most);
    let first = judge.left(round).first().copied().filter(|_| !is_over)?;
    plan.places[plan.place_of_cell(first)].as_deref()
}

/// Whether the round that a judge has seen last continues in other boots: some have run all that is asked of them, and others
/// nothing.
pub(super) fn goes_on(judge: &Judge<'_>, round: u32) -> bool {
    let plan = judge.plan;
    let underway = judge.underway();
    if underway.is_empty() || plan.trial.boots().next().is_none() {
        return false;
    }
    let has_begun =
        |cell: &usize| underway.iter().any(|ran| plan.place_of_cell(*ran) == plan.place_of_cell(*cell));
    let left = judge.left(round);
    !left.is_empty() && !left.iter().any(has_begun)
}
