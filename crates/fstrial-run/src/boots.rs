//! Boots of this host as places. A round takes one boot for each place, in random order, and each boot is a session:
//! variation between boots, such as the kernel's address layout, is part of the spread between rounds.

use super::{
    course,
    environment::{BootFacts, Environment},
    forecast,
    judge::Judge,
    plan::Plan,
    round::Earlier,
};
use crate::error::ExpectedError;

/// The boot that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Booted {
    /// The index of its place in the plan.
    pub place: usize,
    /// The place that the next part of a round is for, if one comes.
    pub next: Option<usize>,
    /// True if it has run a part of a round; the next part needs another boot.
    pub is_used: bool,
}

impl Booted {
    /// True if the next part of a round is for this boot.
    pub fn has_part(&self) -> bool {
        !self.is_used && self.next == Some(self.place)
    }

    /// Notes for the user before this boot runs its part.
    pub fn notes(&self, plan: &Plan) -> Vec<String> {
        self.idle(plan).into_iter().chain(too_few(plan)).collect()
    }

    /// Explains why this boot measures nothing; `None` if it has a part to run, or if no part is left.
    fn idle(&self, plan: &Plan) -> Option<String> {
        let next = plan.places[self.next?].as_deref().unwrap_or_default();
        match (self.is_used, self.has_part()) {
            (true, _) => Some("nothing is measured: this boot has run its part of a round".into()),
            (_, false) => Some(format!("nothing is measured: the next part of a round is for {next}")),
            _ => None,
        }
    }
}

/// Warns of a limit on rounds that is too low for any verdict, before boots are spent on it.
fn too_few(plan: &Plan) -> Option<String> {
    let least = forecast::least_rounds(plan);
    let requested = plan.trial.trial.rounds.filter(|requested| *requested < least)?;
    Some(format!(
        "--rounds {requested} decides nothing: a verdict takes at least {least} rounds, each with one boot per name"
    ))
}

/// This host as a boot of that name.
pub fn here(name: &str) -> Environment {
    let boot = Some(BootFacts::of_this_boot());
    Environment { place: name.into(), boot, ..Environment::of_this_machine() }
}

/// The role of this boot in a trial with earlier rounds; none if its arms are on no boots.
///
/// # Errors
/// Its name is missing or unknown, there are no boots, or it has run as another one.
pub fn booted(plan: &Plan, as_arm: Option<&str>, earlier: &Earlier) -> Result<Option<Booted>, ExpectedError> {
    let Some(place) = named(plan, as_arm)? else { return Ok(None) };
    let name = plan.places[place].as_deref().unwrap_or_default();
    let id = BootFacts::of_this_boot().id;
    let is_this_boot = |stored: &str| {
        let stored = serde_json::from_str::<Environment>(stored).ok();
        stored.and_then(|stored| stored.boot).is_some_and(|boot| boot.id == id)
    };
    let ran_as = earlier.environments.iter().find(|(_, stored)| is_this_boot(stored)).map(|(name, _)| name);
    let (judge, _) = course::replay(plan, earlier.rounds.clone());
    let next = next_place(&judge, earlier.rounds.last().map_or(0, |round| round.number));
    if let Some(other) = ran_as.filter(|other| *other != name && next.is_some()) {
        return Err(ExpectedError::usage(
            format!("this boot has run as `{other}`, so it is not `{name}`"),
            format!("boot this host as {name}, and type this again"),
        ));
    }
    Ok(Some(Booted { place, next, is_used: ran_as.is_some() }))
}

/// The place of the plan that this host is booted as.
fn named(plan: &Plan, as_arm: Option<&str>) -> Result<Option<usize>, ExpectedError> {
    let all: Vec<&str> = plan.trial.boots().collect();
    match as_arm {
        None if all.is_empty() => Ok(None),
        None => Err(ExpectedError::usage(
            "the arms are on different boots of this host, and the current one is not named",
            format!("name it: --as-arm {}", all.join(" or --as-arm ")),
        )),
        Some(_) if all.is_empty() => Err(ExpectedError::usage(
            "--as-arm is for arms at boots of this host",
            "write the arms as FILESYSTEM@BOOT, or leave --as-arm out",
        )),
        Some(name) => match plan.places.iter().position(|place| place.as_deref() == Some(name)) {
            Some(place) => Ok(Some(place)),
            None => Err(ExpectedError::usage(
                format!("no arm is at the boot `{name}`"),
                // A name that is alike may be that of another kernel.
                format!("the boots are {}", all.join(", ")),
            )),
        },
    }
}

/// The boot that comes after the rounds that a judge has seen; `last` is the number of the last one.
pub fn next<'p>(judge: &Judge<'p>, last: u32) -> Option<&'p str> {
    judge.plan.places[next_place(judge, last)?].as_deref()
}

fn next_place(judge: &Judge<'_>, last: u32) -> Option<usize> {
    let plan = judge.plan;
    if !plan.trial.has_boots() {
        return None;
    }
    let round = judge.next_round(last);
    let is_over = !judge.is_undecided() || plan.trial.trial.rounds.is_some_and(|most| round > most);
    let first = judge.left(round).first().copied().filter(|_| !is_over)?;
    Some(plan.place_of_cell(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round::Round;
    use fstrial_model::{
        arm::Arm,
        job::{FailureKind, RunFailure},
        measurement::Stage,
        place::PlaceSpec,
        trial::Trial,
        workload::Entry,
    };

    /// An arm at each of two boots.
    fn plan() -> Plan {
        let arms = ["old", "new"].map(|name| Arm {
            name: name.into(),
            place: Some(name.into()),
            .."ext4".parse::<Arm>().unwrap()
        });
        let trial = Trial {
            arms: arms.into(),
            workloads: vec![Entry::of_preset("random-write")],
            places: vec![PlaceSpec::boot("old"), PlaceSpec::boot("new")],
            ..Trial::default()
        };
        Plan::new(trial.settled(1).unwrap(), 1).unwrap()
    }

    /// Continuation after a complete round and a part of one, whose run ended in this failure.
    fn after_part(plan: &Plan, kind: FailureKind) -> (bool, Option<String>) {
        let failed =
            |kind| Err(RunFailure { kind, stage: Stage::Load, what: "it failed".into(), hint: None });
        let lost = |cell| (cell, failed(FailureKind::Lost));
        let round = |number, runs| Round { number, is_resumed: false, runs };
        let rounds = vec![round(1, vec![lost(0), lost(1)]), round(2, vec![(0, failed(kind))])];
        let (judge, _) = course::replay(plan, rounds);
        (judge.underway().is_empty(), next(&judge, 2).map(str::to_owned))
    }

    #[test]
    fn round_continues_in_boot_with_remaining_runs() {
        assert_eq!(after_part(&plan(), FailureKind::Lost), (false, Some("new".into())));
    }

    #[test]
    fn round_ends_if_other_boot_has_no_runs() {
        assert_eq!(after_part(&plan(), FailureKind::ArmFailed), (true, None));
    }
}
