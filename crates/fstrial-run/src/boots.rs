//! Boots of this host as places: a round is one boot for each, in the drawn order, and every boot is a session of its own. What differs
//! from boot to boot, such as where the kernel lies in memory, is then in the spread between rounds.

use super::{
    environment::Environment,
    judge::Judge,
    plan::Plan,
    round::{Earlier, Round},
};
use crate::error::ExpectedError;
use fstrial_model::problem::did_you_mean;

/// The boot that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Booted {
    /// The index of its place in the plan.
    pub place: usize,
    /// Whether it has had its runs: every part of a round has a boot of its own.
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

/// The cells that a round still runs, in its order.
pub(super) fn left(plan: &Plan, judge: &Judge<'_>, round: u32) -> Vec<usize> {
    let needed = judge.needed();
    let is_left = |cell: &usize| needed[*cell] && !judge.underway().contains(cell);
    plan.order(round).into_iter().filter(is_left).collect()
}

/// The boot that is to come after the rounds that a judge has seen, up to one of this number.
pub fn next<'p>(plan: &'p Plan, judge: &Judge<'_>, last: u32) -> Option<&'p str> {
    plan.trial.boots().next()?;
    let round = if judge.underway().is_empty() { last + 1 } else { last };
    let is_over = !judge.is_undecided() || plan.trial.trial.rounds.is_some_and(|most| round > most);
    let first = left(plan, judge, round).first().copied().filter(|_| !is_over)?;
    plan.places[plan.place_of_cell(first)].as_deref()
}

/// Whether a round that was run goes on in other boots: some had all their runs, and others none. `judge` has seen those before it.
pub(super) fn goes_on(plan: &Plan, judge: &Judge<'_>, round: &Round) -> bool {
    if plan.trial.boots().next().is_none() {
        return false;
    }
    let ran = |cell: &usize| round.runs.iter().any(|(other, _)| other == cell);
    let has_begun = |cell: &usize| {
        round.runs.iter().any(|(other, _)| plan.place_of_cell(*other) == plan.place_of_cell(*cell))
    };
    let missing: Vec<usize> = left(plan, judge, round.number).into_iter().filter(|cell| !ran(cell)).collect();
    !missing.is_empty() && !missing.iter().any(has_begun)
}
