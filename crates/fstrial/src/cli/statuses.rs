//! The status of trials. The store knows that one began and has not ended; the lock of the home shows if a process
//! still works on it.

use crate::cli;
use fstrial_store::{Store, StoreError, TrialId, TrialStatus, TrialSummary};

/// The word for a trial whose process is dead.
pub(crate) const KILLED: &str = "killed";

/// The unended trials that a process works on.
#[derive(Debug)]
pub(crate) struct TrialStatuses {
    /// None: each of them was killed.
    pub(crate) running: Option<TrialId>,
}

impl TrialStatuses {
    /// Looks at the lock next to the store. Of several trials that have not ended it is the one that a process began to
    /// work on last.
    pub(crate) fn of(store: &Store) -> Result<Self, StoreError> {
        if !store.path().parent().is_some_and(cli::is_locked) {
            return Ok(Self { running: None });
        }
        let mut newest = None;
        for summary in store.trials()?.into_iter().filter(|trial| trial.status == TrialStatus::Running) {
            let session = store.trial(summary.id)?.sessions.last().map(|session| session.id);
            newest = newest.max(Some((session, summary.id)));
        }
        Ok(Self { running: newest.map(|(_, id)| id) })
    }

    /// Its status in a word.
    pub(crate) fn word(&self, trial: &TrialSummary) -> &'static str {
        match trial.status {
            TrialStatus::Running if self.running != Some(trial.id) => KILLED,
            status => status.name(),
        }
    }

    /// True if there is anything to show: a run, or a process that works on the first round.
    pub(crate) fn has_begun(&self, trial: &TrialSummary) -> bool {
        trial.runs > 0 || self.running == Some(trial.id)
    }
}
