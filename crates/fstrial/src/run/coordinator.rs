//! The coordinator: the one place with a trial's state.
//!
//! ```text
//! prepare states ─► inspect every arm ─► audit ─► round ─► runs ─► judge ─► decided, or no time left? ─► finish
//!                                                  ▲                │ no
//!                                                  └────────────────┘
//!         every step is an Event to the listeners: terminal, JSON lines, store
//! ```

mod states;

use super::{
    claim::ClaimVerdict,
    clock::Clock,
    course::Course,
    event::{Event, Listener, RunEnded},
    judge::{Judge, Outcome, Sample},
    place::{Ended, Interrupt, Place},
    plan::Plan,
};
use crate::{error::ExpectedError, report::audit};
use fstrial_model::{
    arm::Arm,
    facts::ArmFacts,
    job::{DeviceBinding, FailureKind, Job, PROTOCOL, RunFailure, Setup, StateTask, WorkerMessage},
    measurement::Measurement,
    state::{Space, StateFigures},
    units::Nanos,
    workload::Data,
};
pub(crate) use states::{Shared, shared};
use std::path::PathBuf;

/// A cell that is lost this often running ends the trial: something is wrong that rounds do not mend.
const MOST_LOST: u32 = 3;
/// Rounds planned for at least and at most, whatever the budget.
const PLANNED_ROUNDS: (u32, u32) = (12, 200);
/// A trial ends after this many rounds, whatever its budget: more would not decide it, and the estimates grow with the
/// square of the rounds.
const MOST_ROUNDS: u32 = 500;
/// What a run costs besides its load, before any was timed.
const OVERHEAD_GUESS: Nanos = Nanos::secs(1);

/// What the coordinator needs besides the plan.
pub struct Context<'a> {
    /// Where jobs go.
    pub place: &'a mut dyn Place,
    /// The time.
    pub clock: &'a dyn Clock,
    /// Who hears what happens.
    pub listener: &'a mut dyn Listener,
    /// Raised by Ctrl-C.
    pub interrupt: &'a Interrupt,
    /// The device for each arm.
    pub binding: &'a dyn Fn(&Arm) -> DeviceBinding,
    /// Makes the file that keeps a prepared state, and says where workers open it.
    pub new_base: &'a dyn Fn() -> Result<PathBuf, ExpectedError>,
    /// What arms are built with besides it.
    pub setup: Setup,
    /// What files hold on this device.
    pub data: Data,
    /// Folder of the ledger.
    pub ledger: PathBuf,
    /// When the budget ends, by the clock.
    pub deadline: Nanos,
}

/// Rounds that an earlier session of the same trial has stored.
#[derive(Debug, Clone, Default)]
pub struct Earlier {
    /// The number of rounds planned for, once fixed.
    pub planned: Option<u32>,
    /// Its rounds in order.
    pub rounds: Vec<EarlierRound>,
}

/// A stored round.
#[derive(Debug, Clone, Default)]
pub struct EarlierRound {
    /// Its number.
    pub round: u32,
    /// Samples by cell.
    pub samples: Vec<(usize, Vec<Sample>)>,
    /// Cells that failed in it.
    pub failed: Vec<usize>,
    /// Cells whose arm said in it that it cannot do the workload, and why.
    pub cannot: Vec<(usize, String)>,
}

/// Why a trial ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// No contrast is open any more: each is decided, or was given up because a decision in time was too unlikely.
    Settled,
    /// The budget, or the number of rounds asked for, ended.
    BudgetEnded,
    /// Ctrl-C.
    Interrupted,
}

/// A trial that is over.
pub struct Finished<'a> {
    /// Its verdicts; none if not even a first round was complete.
    pub judge: Option<Judge<'a>>,
    /// What every arm really is.
    pub facts: Vec<ArmFacts>,
    /// What differs between arms besides what was asked for.
    pub audit: Vec<String>,
    /// Why it ended.
    pub reason: Reason,
    /// Rounds begun, earlier sessions included.
    pub rounds: u32,
    /// Time that the last complete round took, for advice.
    pub round_time: Option<Nanos>,
    /// Failures of cells, in words.
    pub failures: Vec<String>,
}

impl Finished<'_> {
    /// Whether every contrast that was to be decided is; or the claim, if it is there for one.
    pub fn is_decided(&self) -> bool {
        let Some(judge) = &self.judge else { return false };
        if let Some(verdict) = judge.claim() {
            return verdict != ClaimVerdict::Undecided;
        }
        judge
            .states()
            .iter()
            .filter(|state| state.holds_open)
            .all(|state| state.verdict != Outcome::Undecided)
    }
}

/// Runs a trial.
pub struct Coordinator<'a, 'p> {
    plan: &'p Plan,
    context: Context<'a>,
    judge: Option<Judge<'p>>,
    /// Samples of rounds before the judge could be made.
    waiting: Vec<Vec<(usize, Vec<Sample>)>>,
    failed: Vec<usize>,
    /// What arms cannot do, and why.
    cannot: Vec<(usize, String)>,
    failures: Vec<String>,
    lost: Vec<u32>,
    run_time: Vec<Option<Nanos>>,
    round: u32,
    round_time: Option<Nanos>,
    /// How each arm's filesystem is put back; none if it is made anew.
    restored: Vec<Option<StateTask>>,
    /// What a run of each arm costs besides its load, as far as that is known.
    overhead: Vec<Nanos>,
}

/// How a job ended, with what the worker said before.
type Answer = (Ended, Said);

/// What a worker says of an arm.
#[derive(Default)]
struct Said {
    facts: Option<(ArmFacts, Vec<String>)>,
    space: Space,
    prepared: Option<(StateFigures, String)>,
}

/// How a round ended.
enum Round {
    Complete,
    OutOfTime,
    Interrupted,
}

impl<'a, 'p> Coordinator<'a, 'p> {
    /// A coordinator for a plan, going on after earlier rounds.
    pub fn new(plan: &'p Plan, context: Context<'a>, earlier: Earlier) -> Self {
        let cells = plan.cells.len();
        let mut coordinator = Self {
            plan,
            context,
            judge: None,
            waiting: Vec::new(),
            failed: Vec::new(),
            cannot: Vec::new(),
            failures: Vec::new(),
            lost: vec![0; cells],
            run_time: vec![None; cells],
            round: 0,
            round_time: None,
            restored: vec![None; plan.trial.arms.len()],
            overhead: vec![OVERHEAD_GUESS; plan.trial.arms.len()],
        };
        if let Some(planned) = earlier.planned {
            coordinator.judge = Some(Judge::new(plan, planned));
        }
        for EarlierRound { round, samples, failed, cannot } in earlier.rounds {
            coordinator.round = round;
            for cell in failed {
                let name = plan.cell_name(cell);
                coordinator.failures.push(format!("{name}: failed in an earlier session"));
                coordinator.fail(cell);
            }
            for (cell, reason) in cannot {
                coordinator.answer_cannot(cell, reason);
            }
            coordinator.give_to_judge(samples);
        }
        coordinator
    }

    /// Runs the trial to its end.
    ///
    /// # Errors
    /// An arm cannot be built, the host cannot be cleaned up, or a listener fails.
    pub fn run(mut self) -> Result<Finished<'p>, ExpectedError> {
        let inspected = if self.prepare_states()? { self.inspect()? } else { None };
        let Some(facts) = inspected else {
            return Ok(self.finish(Vec::new(), Vec::new(), Reason::Interrupted));
        };
        let lines = audit::differences(&self.plan.trial.arms, &facts);
        self.tell(&Event::Audited { lines: &lines })?;
        let reason = self.rounds()?;
        Ok(self.finish(facts, lines, reason))
    }

    fn finish(mut self, facts: Vec<ArmFacts>, audit: Vec<String>, reason: Reason) -> Finished<'p> {
        if let Some(judge) = &mut self.judge {
            judge.finish();
        }
        Finished {
            judge: self.judge,
            facts,
            audit,
            reason,
            rounds: self.round,
            round_time: self.round_time,
            failures: self.failures,
        }
    }

    fn tell(&mut self, event: &Event<'_>) -> Result<(), ExpectedError> {
        self.context.listener.hear(event)
    }

    fn job(&self, index: usize) -> Job {
        let arm = self.plan.trial.arms[index].clone();
        Job {
            protocol: PROTOCOL,
            device: (self.context.binding)(&arm),
            setup: self.context.setup.of(&arm),
            arm,
            task: None,
            state: self.restored[index].clone(),
            fsck: self.plan.trial.trial.fsck,
            coordinator: std::process::id(),
            ledger: self.context.ledger.clone(),
        }
    }

    /// Builds every arm once without load: what cannot be built is found out before the first round.
    fn inspect(&mut self) -> Result<Option<Vec<ArmFacts>>, ExpectedError> {
        let mut all = Vec::new();
        for index in 0..self.plan.trial.arms.len() {
            let job = self.job(index);
            let name = self.plan.trial.arms[index].name.clone();
            let began = self.context.clock.now();
            let (ended, said) = self.send_until_not_lost(&job)?;
            let took = Nanos(self.context.clock.now().0 - began.0);
            self.overhead[index] = self.overhead[index].max(took);
            match (ended, said.facts) {
                (Ended::Interrupted, _) => return Ok(None),
                (Ended::Failed(failure), _) => {
                    return Err(ExpectedError::Run { context: format!("arm {name}"), failure });
                }
                (Ended::Measured(_), Some((facts, commands))) => {
                    self.tell(&Event::ArmInspected { arm: &name, facts: &facts, commands: &commands })?;
                    all.push(facts);
                }
                (Ended::Measured(_), None) => {
                    return Err(ExpectedError::Fault(format!("a worker said nothing about arm {name}")));
                }
            }
        }
        Ok(Some(all))
    }

    /// Sends a job again as long as it is lost for our own reasons, and not too often.
    fn send_until_not_lost(&mut self, job: &Job) -> Result<Answer, ExpectedError> {
        for _ in 1..MOST_LOST {
            match self.send(job)? {
                (Ended::Failed(failure), _) if failure.kind == FailureKind::Lost => {
                    self.tell(&Event::WorkerReplaced { arm: &job.arm.name, failure: &failure })?;
                }
                other => return Ok(other),
            }
        }
        self.send(job)
    }

    /// Sends a job and passes its stages on to the listeners.
    fn send(&mut self, job: &Job) -> Result<Answer, ExpectedError> {
        let Context { place, listener, .. } = &mut self.context;
        let mut seen = Said::default();
        let mut heard = Ok(());
        let ended = place.run(job, &mut |message| match message {
            WorkerMessage::Stage { stage, .. } => {
                if heard.is_ok() {
                    heard = listener.hear(&Event::RunStage { stage: *stage });
                }
            }
            WorkerMessage::Progress { stage, done, total, .. } => {
                if heard.is_ok() {
                    heard =
                        listener.hear(&Event::StageProgress { stage: *stage, done: *done, total: *total });
                }
            }
            WorkerMessage::Facts { facts, commands, space } => {
                seen.facts = Some((facts.clone(), commands.clone()));
                seen.space = *space;
            }
            WorkerMessage::Prepared { figures, mkfs_output } => {
                seen.prepared = Some((figures.clone(), mkfs_output.clone()));
            }
            WorkerMessage::Measured { .. } | WorkerMessage::Failed { .. } => {}
        });
        heard.map(|()| (ended, seen))
    }

    /// Round after round, until nothing is open or no time is left.
    fn rounds(&mut self) -> Result<Reason, ExpectedError> {
        loop {
            if self.judge.as_ref().is_some_and(|judge| !judge.is_undecided()) || self.nothing_left() {
                return Ok(Reason::Settled);
            }
            if self.context.interrupt.is_raised() {
                return Ok(Reason::Interrupted);
            }
            // A round that has no time for its first run is not begun.
            let first = self.order(self.round + 1).first().copied();
            if self.round >= self.plan.trial.trial.rounds.unwrap_or(MOST_ROUNDS)
                || !first.is_some_and(|cell| self.has_time_for(cell))
            {
                return Ok(Reason::BudgetEnded);
            }
            match self.one_round()? {
                Round::Complete => {}
                Round::OutOfTime => return Ok(Reason::BudgetEnded),
                Round::Interrupted => return Ok(Reason::Interrupted),
            }
        }
    }

    /// Whether no cell is left to run.
    fn nothing_left(&self) -> bool {
        (0..self.plan.cells.len()).all(|cell| self.is_out(cell))
    }

    fn needs(&self, cell: usize) -> bool {
        match &self.judge {
            Some(judge) => judge.needs(cell),
            None => !self.is_out(cell),
        }
    }

    /// The cells of a round that are still run, in its order.
    fn order(&self, round: u32) -> Vec<usize> {
        self.plan.order(round).into_iter().filter(|cell| self.needs(*cell)).collect()
    }

    fn left(&self) -> Nanos {
        Nanos(self.context.deadline.0.saturating_sub(self.context.clock.now().0))
    }

    /// Whether a run of this cell can be expected to end in time.
    fn has_time_for(&self, cell: usize) -> bool {
        let expected = self.run_time[cell].unwrap_or_else(|| {
            let workload = &self.plan.workloads[self.plan.cells[cell].workload];
            Nanos(workload.time().0 + self.overhead[self.plan.cells[cell].arm].0)
        });
        expected <= self.left()
    }

    fn one_round(&mut self) -> Result<Round, ExpectedError> {
        self.round += 1;
        let began = self.context.clock.now();
        let order = self.order(self.round);
        let (round, left) = (self.round, self.left());
        self.tell(&Event::RoundStarted { round, runs: order.len(), left })?;
        let mut samples = Vec::new();
        let mut ended = Round::Complete;
        for (position, cell) in order.iter().enumerate() {
            if self.context.interrupt.is_raised() {
                ended = Round::Interrupted;
            } else if !self.has_time_for(*cell) {
                ended = Round::OutOfTime;
            } else if !self.one_run(*cell, position + 1, &mut samples)? {
                ended = Round::Interrupted;
            }
            if !matches!(ended, Round::Complete) {
                break;
            }
        }
        if matches!(ended, Round::Complete) {
            self.round_time = Some(Nanos(self.context.clock.now().0 - began.0));
            self.plan_rounds()?;
        }
        self.give_to_judge(samples);
        if let Some(judge) = &self.judge {
            let contrasts = judge.states();
            let course = Course::points(judge, round);
            self.tell(&Event::VerdictsUpdated { round, contrasts: &contrasts, course: &course })?;
        }
        Ok(ended)
    }

    /// Fixes the number of rounds that the decision rule plans with, after the first complete round, from its time only.
    fn plan_rounds(&mut self) -> Result<(), ExpectedError> {
        if self.judge.is_some() {
            return Ok(());
        }
        let round_time = self.round_time.expect("a round was just timed").0.max(1);
        let affordable =
            u32::try_from(self.left().0 / round_time).unwrap_or(u32::MAX).saturating_add(self.round);
        let planned = match self.plan.trial.trial.rounds {
            Some(rounds) => rounds.max(4),
            None => affordable.clamp(PLANNED_ROUNDS.0, PLANNED_ROUNDS.1),
        };
        self.judge = Some(Judge::new(self.plan, planned));
        for cell in self.failed.clone() {
            self.fail(cell);
        }
        for (cell, reason) in self.cannot.clone() {
            self.answer_cannot(cell, reason);
        }
        self.tell(&Event::RoundsPlanned { planned })
    }

    fn give_to_judge(&mut self, samples: Vec<(usize, Vec<Sample>)>) {
        match &mut self.judge {
            None => self.waiting.push(samples),
            Some(judge) => {
                for earlier in self.waiting.drain(..) {
                    judge.end_round(earlier);
                }
                judge.end_round(samples);
            }
        }
    }

    /// An arm cannot do the workload of a cell: an answer, and the cell is not run again.
    fn answer_cannot(&mut self, cell: usize, reason: String) {
        if let Some(judge) = &mut self.judge {
            judge.answer_cannot(cell, reason.clone());
        }
        if !self.is_out(cell) {
            self.cannot.push((cell, reason));
        }
    }

    /// Whether a cell is not run again, as it failed or its arm cannot do it.
    fn is_out(&self, cell: usize) -> bool {
        self.failed.contains(&cell) || self.cannot.iter().any(|(other, _)| *other == cell)
    }

    fn fail(&mut self, cell: usize) {
        if !self.failed.contains(&cell) {
            self.failed.push(cell);
        }
        if let Some(judge) = &mut self.judge {
            judge.fail_cell(cell);
        }
    }

    /// Runs one cell; false if interrupted.
    fn one_run(
        &mut self,
        cell: usize,
        slot: usize,
        samples: &mut Vec<(usize, Vec<Sample>)>,
    ) -> Result<bool, ExpectedError> {
        let plan = self.plan;
        let at = plan.cells[cell];
        let (arm, workload) = (plan.arm_name(cell), plan.workloads[at.workload].name.as_str());
        let (round, threads) = (self.round, at.threads);
        let mut job = self.job(at.arm);
        job.task = Some(plan.task(cell, round, self.context.data));
        self.tell(&Event::RunStarted { round, slot, arm, workload, threads })?;
        let began = self.context.clock.now();
        let started_at = self.context.clock.timestamp();
        let (ended, _) = self.send(&job)?;
        let ended_at = self.context.clock.timestamp();
        let outcome: Result<Box<Measurement>, RunFailure> = match ended {
            Ended::Interrupted => return Ok(false),
            Ended::Failed(failure) => Err(failure),
            Ended::Measured(Some(measurement)) => Ok(measurement),
            Ended::Measured(None) => return Err(ExpectedError::Fault("a worker measured nothing".into())),
        };
        // A failed run says nothing of how long the next one takes: one that hung took minutes.
        if outcome.is_ok() {
            self.run_time[cell] = Some(Nanos(self.context.clock.now().0 - began.0));
        }
        let measured = outcome.as_ref().ok().map(|measurement| plan.samples(cell, round, slot, measurement));
        let measured = measured
            .transpose()
            .map_err(|e| ExpectedError::Fault(format!("a measurement cannot be read: {e}")))?;
        self.tell(&Event::RunEnded(RunEnded {
            round,
            slot,
            arm,
            workload,
            threads,
            started_at: &started_at,
            ended_at: &ended_at,
            job: &job,
            rates: measured.iter().flatten().map(|sample| sample.rate).collect(),
            outcome: outcome.as_ref().map(|measurement| &**measurement),
            failure: outcome.as_ref().err(),
        }))?;
        match outcome {
            Ok(_) => {
                self.lost[cell] = 0;
                samples.extend(measured.map(|measured| (cell, measured)));
            }
            Err(failure) => self.take_failure(cell, failure)?,
        }
        Ok(true)
    }

    /// A failed run is an outcome of its arm, or lost, or a reason to end the trial.
    fn take_failure(&mut self, cell: usize, failure: RunFailure) -> Result<(), ExpectedError> {
        let context = self.plan.cell_name(cell);
        match failure.kind {
            FailureKind::ArmFailed => {
                let hint = failure.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
                self.failures.push(format!("{context}: {failure}{hint}"));
                self.fail(cell);
                Ok(())
            }
            FailureKind::Cannot => {
                self.answer_cannot(cell, failure.what);
                Ok(())
            }
            FailureKind::Lost => {
                self.lost[cell] += 1;
                let is_expected_to_fail = self.plan.parts.iter().any(|part| part.watched.contains(&cell));
                if self.lost[cell] >= MOST_LOST && is_expected_to_fail {
                    // Whether it comes through is the question, and it does not.
                    self.failures.push(format!("{context} was lost {MOST_LOST} times running: {failure}"));
                    self.fail(cell);
                    return Ok(());
                }
                if self.lost[cell] >= MOST_LOST {
                    return Err(ExpectedError::Run {
                        context: format!("{context} was lost {MOST_LOST} times running"),
                        failure,
                    });
                }
                Ok(())
            }
            FailureKind::HostLacks
            | FailureKind::ArmRefused
            | FailureKind::LoadRefused
            | FailureKind::CleanUp => Err(ExpectedError::Run { context, failure }),
        }
    }
}
