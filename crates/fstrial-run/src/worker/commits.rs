//! The promises of a server: commits that it has acknowledged, and whether it still has them after a cut.

use super::{
    Run,
    promises::{Control, Judgement, make_durable},
};
use crate::{
    numbers::nanos,
    program::{
        self, Level,
        commits::{AfterCut, after_cut},
    },
};
use fstrial_device::cuts::{Order, Recorded};
use fstrial_model::{
    job::{ProgramTask, RunFailure},
    measurement::Stage,
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
    time::Instant,
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
        let marked = recorded.promises.iter().take_while(|(position, _)| *position < at);
        let promised: Vec<u64> = marked.map(|(_, number)| *number).collect();
        Ok(match after_cut(&self.program, root, self.level)? {
            AfterCut::Closed(why) => Judgement { closed: Some(why), ..Judgement::default() },
            AfterCut::Open { kept, complaint } => {
                let lost: Vec<u64> =
                    promised.iter().copied().filter(|number| !kept.contains(number)).collect();
                let acknowledged = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
                let time = |number: &u64| acknowledged.get(number).copied();
                let last = promised.iter().filter_map(time).max();
                let age = |time: Instant| Nanos::from(last.unwrap_or(time) - time);
                let oldest = lost.iter().filter_map(time).min().map(age);
                let broken = lost.iter().map(|number| {
                    let age = nanos(time(number).map_or(0.0, |time| age(time).0 as f64));
                    let all = promised.len();
                    format!("commit {number} is missing, acknowledged {age} before the last of {all}")
                });
                Judgement {
                    broken: broken.chain(complaint).collect(),
                    checked: promised.len() as u64,
                    oldest,
                    ..Judgement::default()
                }
            }
        })
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
        let commits = Arc::new(Commits { control, root: root.clone(), program, level, acknowledged });
        self.promises = Some(super::receipt::Promises::Commits(Arc::clone(&commits)));
        let mut step = |step| {
            match step {
                program::ProgramEvent::Prepare(deadline) => self.enter(Stage::Layout, deadline),
                program::ProgramEvent::Settle => {
                    self.enter(Stage::Settle, Nanos::secs(900));
                    ready_arm.settle().map_err(|e| self.failed(&e))?;
                }
                program::ProgramEvent::Command(deadline) => {
                    self.enter(Stage::Load, deadline);
                    self.begin_recording()?;
                }
                program::ProgramEvent::Ended => {}
            }
            Ok(())
        };
        let acknowledged = |number| commits.acknowledge(number);
        program::commits::record(&task.program, &root, level, &mut step, &acknowledged)
    }
}
