//! Earlier results of claims on this machine: from the store, judged again.

use super::{source, table};
use crate::cli::{Home, conduct, results};
use fstrial_model::{claim::Claim, trial::Trial, units::Nanos};
use fstrial_report::{
    catalogue::ClaimRow,
    claim::{ClaimReport, reworded},
    first_lap,
    page::TrialPage,
};
use fstrial_run::{environment::Environment, error::ExpectedError};
use fstrial_store::{Store, StoredTrial, TrialId, TrialStatus};

/// The stored trials that were there for a claim, made on this machine with this kernel; the last one last.
pub(super) struct History {
    store: Option<Store>,
    checks: Vec<Check>,
}

/// From this share of a budget on that went into runs, a trial has had its time: the rest goes into making devices.
const ENOUGH: f64 = 0.7;

/// True if two machines are the same, as far as a result depends on them.
fn is_same(one: &Environment, other: &Environment) -> bool {
    let essence = |it: &Environment| (it.kernel.clone(), it.processor.clone(), it.cpus, it.memory);
    essence(one) == essence(other)
}

struct Check {
    stored: StoredTrial,
    trial: Trial,
}

/// The latest result.
pub(super) struct Last {
    pub(super) report: ClaimReport,
    /// When the trial began.
    pub(super) on: String,
    pub(super) trial: TrialId,
    pub(super) device: &'static str,
}

impl Last {
    pub(super) fn day(&self) -> &str {
        self.on.get(..10).unwrap_or(&self.on)
    }
}

/// The next step for a claim with possible stored trials.
pub(super) enum NextCheck {
    Begin,
    GoOn(TrialId),
    Known(Box<Last>),
}

/// Time that the runs of a trial took, in all sessions.
pub(super) fn spent(store: &Store, trial: TrialId) -> Result<Nanos, ExpectedError> {
    let mut spent = 0;
    store.for_each_run(trial, |run| {
        let moment = |text: &str| text.parse::<jiff::Timestamp>().ok();
        if let (Some(from), Some(to)) = (moment(&run.started_at), moment(&run.ended_at)) {
            spent += u64::try_from(to.duration_since(from).as_nanos()).unwrap_or(0);
        }
    })?;
    Ok(Nanos(spent))
}

impl History {
    /// Reads the store; empty without one.
    pub(super) fn of(home: &Home) -> Result<Self, ExpectedError> {
        let Some(path) = home.existing_results()? else {
            return Ok(Self { store: None, checks: Vec::new() });
        };
        let store = Store::open_read_only(path)?;
        let here = Environment::of_this_machine();
        let mut checks = Vec::new();
        for summary in store.trials()? {
            let stored = store.trial(summary.id)?;
            // Most trials have no claim.
            if !stored.toml.contains("[claim]") {
                continue;
            }
            let session = stored.sessions.last();
            let environment = session.map(|last| serde_json::from_str::<Environment>(&last.environment));
            let is_here =
                environment.is_some_and(|result| result.is_ok_and(|result| is_same(&result, &here)));
            // A trial of an earlier version may not parse today: it is skipped.
            let trial = Trial::parse("stored trial", &stored.toml).ok();
            if let Some(trial) = trial.filter(|trial| is_here && trial.claim.is_some()) {
                checks.push(Check { stored, trial });
            }
        }
        Ok(Self { store: Some(store), checks })
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("a stored trial has a store")
    }

    /// The latest result of a claim: for the same expectations of the same arms, on any device and with any amounts.
    pub(super) fn last(&self, trial: &Trial) -> Result<Option<Last>, ExpectedError> {
        let wanted = source::claim(trial).clone().without_words();
        let same = |check: &&Check| {
            source::claim(&check.trial).clone().without_words() == wanted && check.trial.arms == trial.arms
        };
        let result = self.checks.iter().rev().find(same);
        result.map(|check| self.judged(check, source::claim(trial))).transpose()
    }

    /// The answer of a check, in the words of the claim as it is written today.
    fn judged(&self, check: &Check, claim: &Claim) -> Result<Last, ExpectedError> {
        let document = results::judge_again(self.store(), &check.stored)?;
        let none = || ExpectedError::Fault("the trial of a claim has no claim".into());
        Ok(Last {
            report: reworded(first_lap::claim_of(document).ok_or_else(none)?, claim),
            on: check.stored.summary.started_at.clone(),
            trial: check.stored.summary.id,
            device: check.trial.device.kind.name(),
        })
    }

    /// The result of a claim with its circumstances.
    pub(super) fn row(&self, last: &Last, shipped: &Trial) -> Result<ClaimRow, ExpectedError> {
        let store = self.store();
        let stored = store.trial(last.trial)?;
        let trial = Trial::parse("stored trial", &stored.toml)?;
        table::measured(store, (&stored, &trial), shipped)
    }

    /// A trial that answered a claim, for a page.
    pub(super) fn page(&self, trial: TrialId) -> Result<TrialPage, ExpectedError> {
        let store = self.store();
        results::judged(store, &store.trial(trial)?, TrialPage::of)
    }

    /// The next step for a trial with this budget: begin, resume one that was cut short or ended undecided with less
    /// time than there is now, or nothing.
    pub(super) fn step(&self, settled: &Trial, budget: Nanos) -> Result<NextCheck, ExpectedError> {
        let wanted = conduct::comparable(settled.clone());
        let same = |check: &&Check| conduct::comparable(check.trial.clone()) == wanted;
        let Some(check) = self.checks.iter().rev().find(same) else { return Ok(NextCheck::Begin) };
        // The name of a disk may be another one's tomorrow.
        if check.trial.device.kind.is_erased() {
            return Ok(NextCheck::Begin);
        }
        let is_enough =
            spent(self.store(), check.stored.summary.id)?.as_secs_f64() >= ENOUGH * budget.as_secs_f64();
        Ok(match check.stored.summary.status {
            TrialStatus::Decided => NextCheck::Known(Box::new(self.judged(check, source::claim(settled))?)),
            TrialStatus::BudgetEnded if is_enough => {
                NextCheck::Known(Box::new(self.judged(check, source::claim(settled))?))
            }
            TrialStatus::BudgetEnded
            | TrialStatus::Interrupted
            | TrialStatus::Running
            | TrialStatus::Failed => {
                // The answer of a renamed host is still valid, but rounds of two hosts are not one trial.
                let last = check.stored.sessions.last();
                let here = Environment::of_this_machine();
                match last.and_then(|session| here.other_machine(&session.environment)) {
                    Some(_) => NextCheck::Begin,
                    None => NextCheck::GoOn(check.stored.summary.id),
                }
            }
        })
    }
}
