//! The promises of a server: commits that it has acknowledged, and whether it still has them after a cut.

use super::promises::{Control, Judgement, make_durable};
use crate::{
    numbers::nanos,
    program::{
        Level,
        commits::{AfterCut, after_cut},
    },
};
use fstrial_device::cuts::{Event, Order, Recorded, Settings};
use fstrial_model::{
    job::RunFailure,
    units::Nanos,
    workload::{Program, Server},
};
use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The commits of a server.
#[derive(Debug)]
pub(super) struct Commits {
    pub(super) control: Control,
    root: PathBuf,
    program: Program,
    level: Level,
    /// By number.
    acknowledged: Mutex<HashMap<u64, Instant>>,
}

impl Commits {
    /// No commits yet; the filesystem at `root` is on the device of this control file.
    pub(super) fn new(control: Control, root: PathBuf, program: Program, level: Level) -> Self {
        Self { control, root, program, level, acknowledged: Mutex::default() }
    }

    /// Begins the recording, with everything on the filesystem durable.
    pub(super) fn begin(&self, settings: Settings) -> io::Result<()> {
        make_durable(&self.root)?;
        self.control.order(Order::Begin(settings))
    }

    /// Marks a commit in the log of the device; false if that is full.
    pub(super) fn acknowledge(&self, number: u64) -> io::Result<bool> {
        let mut acknowledged = self.lock();
        let is_marked = self.control.mark(number, Event::Commit)?;
        if is_marked {
            acknowledged.insert(number, Instant::now());
        }
        Ok(is_marked)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Instant>> {
        self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The longest that a check may take: a start, a question and a verification.
    pub(super) fn longest(&self) -> Nanos {
        let server = self.program.server.as_ref().map_or(Nanos(0), Server::longest);
        Nanos(2 * self.program.deadline.0 + server.0)
    }

    /// Starts the server on the filesystem at `root`, and looks for the commits that were acknowledged before a cut.
    pub(super) fn check(&self, recorded: &Recorded, at: usize, root: &Path) -> Result<Judgement, RunFailure> {
        let after = after_cut(&self.program, root, self.level)?;
        let acknowledged = self.lock();
        let marked = recorded.promises.iter().take_while(|(position, _)| *position < at);
        let promised = marked.filter_map(|(_, number)| Some((*number, *acknowledged.get(number)?)));
        Ok(judged(&promised.collect::<Vec<_>>(), after))
    }
}

/// Compares the commits that were acknowledged before a cut, with the times of that, with what the server has.
fn judged(promised: &[(u64, Instant)], after: AfterCut) -> Judgement {
    let (kept, complaint) = match after {
        AfterCut::Closed(why) => return Judgement { closed: Some(why), ..Judgement::default() },
        AfterCut::Unanswered(why) => {
            return Judgement { broken: vec![why], is_doubtful: true, ..Judgement::default() };
        }
        AfterCut::Open { kept, complaint } => (kept, complaint),
    };
    let last = promised.iter().map(|(_, time)| *time).max();
    let lost = || promised.iter().filter(|(number, _)| !kept.contains(number));
    let age = |time: Instant| Nanos::from(last.map_or(Duration::ZERO, |last| last - time));
    let missing = lost().map(|(number, time)| {
        let (age, all) = (nanos(age(*time).0 as f64), promised.len());
        let when = match Some(*time) == last {
            true => format!("the last of {all} that were acknowledged"),
            false => format!("acknowledged {age} before the last of {all}"),
        };
        format!("commit {number} is missing or wrong, {when}")
    });
    Judgement {
        is_doubtful: complaint.is_some() || kept.is_empty(),
        broken: complaint.into_iter().chain(missing).collect(),
        checked: promised.len() as u64,
        oldest: lost().map(|(_, time)| age(*time)).max(),
        ..Judgement::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::receipt::CutOutcome;

    /// Four commits, a tenth of a second apart.
    fn outcome(after: AfterCut) -> (CutOutcome, bool) {
        let begin = Instant::now();
        let promised: Vec<_> =
            (0..4).map(|number| (number, begin + Duration::from_millis(100 * number))).collect();
        let judgement = judged(&promised, after);
        (judgement.outcome(), judgement.is_doubtful)
    }

    fn open(kept: &[u64], complaint: Option<&str>) -> AfterCut {
        AfterCut::Open { kept: kept.iter().copied().collect(), complaint: complaint.map(str::to_owned) }
    }

    fn lost(broken: u64, first: &str, oldest: Option<Nanos>) -> CutOutcome {
        CutOutcome::Lost { broken, first: first.into(), oldest }
    }

    #[test]
    fn lost_commits_have_an_age() {
        // Commits that were not acknowledged may be there, too.
        assert_eq!(outcome(open(&[0, 1, 2, 3, 4], None)), (CutOutcome::Kept, false));
        let first = "commit 1 is missing or wrong, acknowledged 200 ms before the last of 4";
        assert_eq!(outcome(open(&[0, 2], None)), (lost(2, first, Some(Nanos::millis(200))), false));
    }

    #[test]
    fn failed_questions_lose_no_particular_commit() {
        assert_eq!(outcome(AfterCut::Unanswered("no".into())), (lost(1, "no", None), true));
        assert_eq!(outcome(open(&[0, 1, 2, 3], Some("sums differ"))), (lost(1, "sums differ", None), true));
        assert!(outcome(open(&[], None)).1);
        let closed = CutOutcome::Closed { why: "panic".into() };
        assert_eq!(outcome(AfterCut::Closed("panic".into())), (closed, false));
    }
}
