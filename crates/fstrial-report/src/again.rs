//! A stored trial judged again: the source of every form of its answer, at any later time.

use super::{
    claim,
    document::{self, Document},
    evidence,
};
use fstrial_run::{
    audit,
    coordinator::{Finished, Reason},
    course::{self, Course},
    environment::Environment,
    error::ExpectedError,
    evidence::{self as observed, TrialEvidence},
    stored::{Besides, TrialRecord},
};
use fstrial_store::{Store, StoredTrial, TrialStatus};

/// Prefix of the warning of a session that an error ended.
pub const ENDED_BY: &str = "ended by an error: ";

/// A trial with its answer and its course.
pub struct JudgedTrial<'a> {
    pub stored: &'a StoredTrial,
    /// Its rounds and verdicts.
    pub finished: &'a Finished<'a>,
    /// The course of every contrast, in the order of the plan; empty before a first round.
    pub courses: &'a [Course],
    /// Data of its runs in addition to their results, by cell.
    pub besides: &'a [Besides],
    /// The commands that made each arm.
    pub commands: &'a [Vec<String>],
    pub plan: &'a fstrial_run::plan::Plan,
    /// Its observed runs.
    pub evidence: &'a TrialEvidence,
    pub document: Document,
}

/// Judges a stored trial again and passes the result on.
///
/// # Errors
/// It cannot be read.
pub fn judged<T>(
    store: &Store,
    stored: &StoredTrial,
    tell: impl FnOnce(JudgedTrial<'_>) -> T,
) -> Result<T, ExpectedError> {
    let TrialRecord { plan, environment, rounds, besides, commands } = TrialRecord::read(store, stored)?;
    let times = rounds.times;
    let places = rounds.environments.values().filter_map(|json| serde_json::from_str(json).ok());
    let places: Vec<Environment> = places.filter(|there: &Environment| !there.place.is_empty()).collect();
    let (all, courses) = course::replay(&plan, rounds.rounds);
    // No contrast was open any more: those without a verdict were given up.
    let ended = if all.is_undecided() { Reason::BudgetEnded } else { Reason::Settled };
    let facts: Vec<_> = stored.arms.iter().map(|arm| arm.facts.clone()).collect();
    let known: Option<Vec<_>> = facts.iter().cloned().collect();
    let audit = known.map_or_else(Vec::new, |known| audit::differences(&plan.trial.arms, &known));
    let reason = match stored.summary.status {
        TrialStatus::Decided | TrialStatus::BudgetEnded => ended,
        TrialStatus::Running | TrialStatus::Interrupted | TrialStatus::Failed => Reason::Interrupted,
    };
    let finished = Finished::of(all, &times, facts, audit, reason);
    // The first session's command is the one that can be repeated from scratch.
    let session = stored.sessions.first().expect("a trial that was read has a session");
    let repeat = document::repeat_command(&session.command_line, plan.seed);
    let machines = (&environment, places);
    let mut document = document::document(&plan, &finished, machines, Some(stored.summary.id.0), repeat);
    if stored.summary.status == TrialStatus::Failed {
        document.ended = "failed";
        document.claim = document.claim.map(claim::failed);
    }
    document.add_receipt(stored.receipt.as_deref());
    let evidence = document.evidence(stored.evidence.as_deref());
    document.warnings.extend(observed::failures(&plan, &evidence));
    let states = finished.all.states();
    document.explanations = evidence::explanations(&plan, &states, &evidence);
    document.claim = document.claim.map(|claim| claim::with_causes(claim, &plan, &states, &evidence));
    let last = stored.sessions.last().map_or(&[][..], |session| &session.warnings);
    document.ended_by = last.iter().find_map(|line| line.strip_prefix(ENDED_BY)).map(str::to_owned);
    let warnings = stored.sessions.iter().flat_map(|session| &session.warnings);
    for warning in warnings.filter(|line| !line.starts_with(ENDED_BY)) {
        // Another session may have the same warning, or the same with other shares: then the largest counts.
        match document.warnings.iter_mut().find(|known| without_shares(known).0 == without_shares(warning).0)
        {
            Some(known) if without_shares(known).1 < without_shares(warning).1 => known.clone_from(warning),
            Some(_) => {}
            None => document.warnings.push(warning.clone()),
        }
    }
    Ok(tell(JudgedTrial {
        stored,
        finished: &finished,
        courses: &courses,
        besides: &besides,
        commands: &commands,
        plan: &plan,
        evidence: &evidence,
        document,
    }))
}

/// A line without shares, such as `12 %`, and the sum of them.
fn without_shares(line: &str) -> (String, f64) {
    let words: Vec<&str> = line.split(' ').collect();
    let share = |at: usize| words[at].parse::<f64>().ok().filter(|_| words.get(at + 1) == Some(&"%"));
    let rest = (0..words.len()).filter(|at| share(*at).is_none()).map(|at| words[at]).collect();
    (rest, (0..words.len()).filter_map(share).sum())
}
