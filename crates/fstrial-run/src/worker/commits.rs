//! The promises of a server: commits that it has acknowledged, and whether it still has them after a cut.

use super::{
    Run,
    promises::{Control, Judgement, make_durable},
    receipt::Observed,
};
use crate::{
    numbers::nanos,
    program::{
        Level, ProgramEvent,
        commits::{self, AfterCut, after_cut},
    },
};
use fstrial_device::cuts::{Order, Recorded};
use fstrial_model::{
    job::{ProgramTask, RunFailure},
    units::Nanos,
    workload::{Program, Server},
};
use fstrial_stack::stack::ReadyArm;
use rustix::io::Errno;
use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
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
    pub(super) fn begin(&self, limit: u64, protected: bool) -> io::Result<()> {
        make_durable(&self.root)?;
        self.control.order(Order::Begin { limit, protected })
    }

    /// Marks a commit in the log of the device; false if that is full.
    fn acknowledge(&self, number: u64) -> io::Result<bool> {
        let mut acknowledged = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
        match self.control.order(Order::Promise { number }) {
            Ok(()) => drop(acknowledged.insert(number, Instant::now())),
            Err(error) if error.raw_os_error() == Some(Errno::NOSPC.raw_os_error()) => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// The longest that a check may take: a start, a question and a verification.
    pub(super) fn longest(&self) -> Nanos {
        let server = self.program.server.as_ref().map_or(Nanos(0), Server::longest);
        Nanos(2 * self.program.deadline.0 + server.0)
    }

    /// Starts the server on the filesystem at `root`, and looks for the commits that were acknowledged before a cut.
    pub(super) fn check(&self, recorded: &Recorded, at: usize, root: &Path) -> Result<Judgement, RunFailure> {
        let after = after_cut(&self.program, root, self.level)?;
        let acknowledged = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
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
        match Some(*time) == last {
            true => format!("commit {number} is missing or wrong, the last of {all} that were acknowledged"),
            false => {
                format!("commit {number} is missing or wrong, acknowledged {age} before the last of {all}")
            }
        }
    });
    Judgement {
        is_doubtful: complaint.is_some() || kept.is_empty(),
        broken: complaint.into_iter().chain(missing).collect(),
        checked: promised.len() as u64,
        oldest: lost().map(|(_, time)| age(*time)).max(),
        ..Judgement::default()
    }
}

impl Run<'_> {
    /// Records a server at work, with its commits.
    pub(super) fn record_commits(
        &mut self,
        task: &ProgramTask,
        threads: u16,
        ready_arm: &mut ReadyArm,
    ) -> Result<(), RunFailure> {
        let Some((_, files)) = self.cut_task() else { return Ok(()) };
        let root = ready_arm.directory().map_err(|e| self.failed(&e))?.to_owned();
        let control = Control::open(&files.control).map_err(|error| self.no_recording(&error))?;
        let level = Level { threads, duration: task.duration, seed: task.seed, is_loaded: false };
        let (program, acknowledged) = (task.program.clone(), Mutex::default());
        let observed = Arc::new(Commits { control, root: root.clone(), program, level, acknowledged });
        self.promises = Some(Observed::Commits(Arc::clone(&observed)));
        let mut step = |step| {
            self.at_step(step, ready_arm)?;
            if matches!(step, ProgramEvent::Command(_)) { self.begin_recording() } else { Ok(()) }
        };
        let acknowledge = |number| observed.acknowledge(number);
        commits::record(&task.program, &root, level, &mut step, &acknowledge)
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
        // More than was acknowledged is no loss.
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
