//! A stored trial judged again: what every form of its answer is made from, years later too.

use super::{
    audit,
    document::{self, Document},
};
use crate::{
    error::ExpectedError,
    run::{
        coordinator::{Finished, Reason},
        course::{self, Course},
        stored::{Besides, Stored},
    },
};
use fstrial_store::{Store, StoredTrial, TrialStatus};

/// A trial with its answer and what led to it.
pub struct Told<'a> {
    /// As it is stored.
    pub stored: &'a StoredTrial,
    /// Its rounds and verdicts.
    pub finished: &'a Finished<'a>,
    /// How every contrast went, in the order of the plan; nothing before a first round.
    pub courses: &'a [Course],
    /// What its runs say besides their results, by cell.
    pub besides: &'a [Besides],
    /// The commands that made each arm.
    pub commands: &'a [Vec<String>],
    /// The plan.
    pub plan: &'a crate::run::plan::Plan,
    /// The answer.
    pub document: Document,
}

/// Judges a stored trial again and hands all that is known of it on.
///
/// # Errors
/// It cannot be read.
pub fn judged<T>(
    store: &Store,
    stored: &StoredTrial,
    tell: impl FnOnce(Told<'_>) -> T,
) -> Result<T, ExpectedError> {
    let mut read = Stored::read(store, stored)?;
    let rounds = std::mem::take(&mut read.rounds);
    let last_round = rounds.last().map_or(0, |last| last.round);
    let (judge, courses) = match read.planned {
        Some(planned) => {
            let (mut judge, courses) = course::replay(&read.plan, planned, rounds);
            judge.finish();
            (Some(judge), courses)
        }
        None => (None, Vec::new()),
    };
    let facts: Vec<_> = stored.arms.iter().filter_map(|arm| arm.facts.clone()).collect();
    let audit = if facts.len() == read.plan.trial.arms.len() {
        audit::differences(&read.plan.trial.arms, &facts)
    } else {
        Vec::new()
    };
    let finished = Finished {
        judge,
        facts,
        audit,
        reason: match stored.summary.status {
            TrialStatus::Decided | TrialStatus::BudgetEnded => Reason::BudgetEnded,
            TrialStatus::Running | TrialStatus::Interrupted | TrialStatus::Failed => Reason::Interrupted,
        },
        rounds: last_round,
        round_time: read.round_time,
        failures: std::mem::take(&mut read.failures),
    };
    let session = stored.sessions.last().expect("a trial that was read has a session");
    let repeat = document::repeat_command(&session.command_line, read.plan.seed);
    let mut document =
        document::document(&read.plan, &finished, &read.environment, Some(stored.summary.id.0), repeat);
    document.warnings.extend(stored.sessions.iter().flat_map(|session| session.warnings.iter().cloned()));
    Ok(tell(Told {
        stored,
        finished: &finished,
        courses: &courses,
        besides: &read.besides,
        commands: &read.commands,
        plan: &read.plan,
        document,
    }))
}
