//! The coordinator: the one place with a trial's state.
//!
//! ```text
//! prepare states ─► inspect every arm ─► audit ─► look ─► round ─► runs ─► judge ─► decided, or no time left? ─► finish
//!                                                           ▲                │ no
//!                                                           └────────────────┘
//!         every step is an Event to the listeners: terminal, JSON lines, store
//! ```

mod looks;
mod states;

use super::{
    audit,
    boots::{self, Booted},
    claim::ClaimVerdict,
    clock::Clock,
    contrast::Outcome,
    course::{self, Course},
    event::{Event, Listener, RunEnded},
    forecast::{self, MAX_ROUNDS, OVERHEAD_GUESS},
    interrupt::Interrupt,
    judge::{Judge, MAX_LOST},
    place::{JobOutcome, Place},
    plan::Plan,
    prepared::SharedState,
    round::{Earlier, RoundTimes},
};
use crate::{error::ExpectedError, exit_code};
use fstrial_model::{
    facts::ArmFacts,
    job::{FailureKind, Job, PROTOCOL, RunFailure, StateTask, WorkerMessage},
    measurement::Measurement,
    state::{Space, StateFigures},
    units::Nanos,
    workload::Data,
};
use fstrial_store::{StoreError, TrialStatus};

/// Inputs of the coordinator in addition to the plan.
pub struct Context<'a, 'w> {
    /// Destinations of jobs: the places of the plan, in its order; of boots the running one.
    pub places: &'a mut [Box<dyn Place + 'w>],
    pub clock: &'a dyn Clock,
    pub listener: &'a mut dyn Listener,
    /// Raised by Ctrl-C.
    pub interrupt: &'a Interrupt,
    /// When the budget ends, by the clock.
    pub deadline: Nanos,
    /// The upper limit of a default budget, applied once the first round is timed.
    pub longest: Option<Nanos>,
    /// This boot, where arms are at boots of this host.
    pub booted: Option<Booted>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// No contrast is open any more: each is decided, or was given up because a decision in time was too unlikely.
    Settled,
    /// The budget, or the requested number of rounds, ended.
    BudgetEnded,
    /// Ctrl-C.
    Interrupted,
    /// The rest runs in another boot of this host.
    Reboot,
}

pub struct Finished<'a> {
    /// Everything that was judged.
    pub all: Judge<'a>,
    /// By arm, in order; none for those that were not built.
    pub facts: Vec<Option<ArmFacts>>,
    /// Unrequested differences between arms.
    pub audit: Vec<String>,
    pub reason: Reason,
    /// The last round with a run, earlier sessions included; not one that is to continue in another boot.
    pub rounds: u32,
    /// Time that the last complete round took, for advice.
    pub round_time: Option<Nanos>,
    /// The boot of this host in which it continues.
    pub next_boot: Option<String>,
}

impl<'a> Finished<'a> {
    /// A trial in which no further round comes now.
    pub fn of(
        mut all: Judge<'a>,
        times: &RoundTimes,
        facts: Vec<Option<ArmFacts>>,
        audit: Vec<String>,
        reason: Reason,
    ) -> Self {
        let round_time = times.of_next(all.runs_left());
        let next_boot = boots::next(&all, times.last()).map(str::to_owned);
        let rounds = times.last() - u32::from(!all.underway().is_empty());
        all.finish();
        Self { all, facts, audit, reason, rounds, round_time, next_boot }
    }

    /// Facts of an arm, by its index.
    pub fn facts_of(&self, arm: usize) -> Option<&ArmFacts> {
        self.facts.get(arm)?.as_ref()
    }

    /// Its verdicts; none if not even a first round was complete.
    pub fn judge(&self) -> Option<&Judge<'a>> {
        Some(&self.all).filter(|judge| judge.has_begun())
    }

    /// Its stored form.
    pub fn status(&self) -> TrialStatus {
        match self.reason {
            Reason::Interrupted | Reason::Reboot => TrialStatus::Interrupted,
            Reason::Settled | Reason::BudgetEnded if self.is_decided() => TrialStatus::Decided,
            Reason::Settled | Reason::BudgetEnded => TrialStatus::BudgetEnded,
        }
    }

    /// True if every contrast to be decided is; or the claim, if there is one.
    pub fn is_decided(&self) -> bool {
        let Some(judge) = self.judge() else { return false };
        if let Some(verdict) = judge.claim() {
            return verdict != ClaimVerdict::Undecided;
        }
        judge
            .states()
            .iter()
            .filter(|state| state.holds_open && state.control.is_none())
            .all(|state| state.verdict != Outcome::Undecided)
    }
}

pub struct Coordinator<'a, 'w, 'p> {
    plan: &'p Plan,
    context: Context<'a, 'w>,
    judge: Judge<'p>,
    /// Content of files, on all devices.
    data: Data,
    run_time: Vec<Option<Nanos>>,
    round: u32,
    times: RoundTimes,
    /// The filesystems to restore, and the method; none if they are made again.
    restored: Vec<(SharedState, StateTask)>,
    /// Cost of a run of each arm in addition to its load, as far as known.
    overhead: Vec<Nanos>,
}

/// The end of a job, with the worker's earlier reports.
type JobResult = (JobOutcome, WorkerReports);

/// A worker's reports on an arm.
#[derive(Default)]
struct WorkerReports {
    facts: Option<(ArmFacts, Vec<String>)>,
    space: Space,
    prepared: Option<(StateFigures, String)>,
}

/// Content of files: the same at every place, so that of the most restricted one.
fn data_for(places: &[Box<dyn Place + '_>]) -> Data {
    let all = places.iter().map(|place| place.data());
    all.into_iter().find(|data| *data != Data::Random).unwrap_or(Data::Random)
}

enum RoundEnd {
    Complete,
    /// The rest of it is run in other boots.
    Continues,
    OutOfTime,
    Interrupted,
}

impl<'a, 'w, 'p> Coordinator<'a, 'w, 'p> {
    /// A coordinator for a plan, going on after earlier rounds.
    pub fn new(plan: &'p Plan, context: Context<'a, 'w>, mut earlier: Earlier) -> Self {
        earlier.times.begin_session();
        let round = earlier.rounds.last().map_or(0, |round| round.number);
        let (mut judge, _) = course::replay(plan, earlier.rounds);
        // Another boot is the next part of the trial, not a request for more rounds.
        if round > 0 && !plan.trial.has_boots() {
            judge.reopen();
        }
        Self {
            plan,
            data: data_for(context.places),
            context,
            judge,
            run_time: vec![None; plan.cells.len()],
            round,
            times: earlier.times,
            restored: Vec::new(),
            overhead: vec![OVERHEAD_GUESS; plan.trial.arms.len()],
        }
    }

    /// Runs the trial to its end.
    ///
    /// # Errors
    /// An arm cannot be built, the host cannot be cleaned up, or a listener fails.
    pub fn run(mut self) -> Result<Finished<'p>, ExpectedError> {
        if let Some(reason) = self.context.booted.and_then(|_| self.reason_to_stop()) {
            return Ok(self.finish(Vec::new(), Vec::new(), reason));
        }
        let inspected = if self.prepare_states()? { self.inspect()? } else { None };
        let Some(facts) = inspected else {
            let reason = self.stopped();
            return Ok(self.finish(Vec::new(), Vec::new(), reason));
        };
        // Of several boots it is the answer that compares them.
        let (arms, known) = (&self.plan.trial.arms, facts.iter().cloned().collect::<Option<Vec<_>>>());
        let lines = known.as_ref().map_or_else(Vec::new, |known| audit::differences(arms, known));
        self.tell(&Event::Audited { lines: &lines })?;
        if let Some(line) = known.and_then(|known| audit::on_one_filesystem(arms, &known)) {
            self.tell(&Event::Noted { lines: &[line] })?;
        }
        let reason = if self.look()? { self.rounds()? } else { self.stopped() };
        Ok(self.finish(facts, lines, reason))
    }

    fn finish(self, facts: Vec<Option<ArmFacts>>, audit: Vec<String>, reason: Reason) -> Finished<'p> {
        Finished::of(self.judge, &self.times, facts, audit, reason)
    }

    fn tell(&mut self, event: &Event<'_>) -> Result<(), ExpectedError> {
        self.context.listener.hear(event)
    }

    /// The job of an arm without a task; `run`: the cell of a plan and the round that it is for.
    ///
    /// # Errors
    /// The run is to begin with a load that was not made.
    fn job(&self, index: usize, run: Option<(&Plan, usize, u32)>) -> Result<Job, ExpectedError> {
        let restored = self.restored.iter().find(|(shared, _)| shared.is_of(index, run));
        if let Some((plan, cell, _)) =
            run.filter(|(plan, ..)| plan.trial.loads(&plan.trial.arms[index]).is_some())
            && restored.is_none()
        {
            let what = format!("the data of {} were not loaded", plan.cell_name(cell));
            return Err(ExpectedError::Fault(what));
        }
        Ok(Job {
            protocol: PROTOCOL,
            arm: self.plan.trial.built(&self.plan.trial.arms[index]),
            task: None,
            state: restored.map(|(_, task)| task.clone()),
            memory: self.plan.trial.memory_of(&self.plan.trial.arms[index]),
            fsck: self.plan.trial.trial.fsck,
        })
    }

    /// Builds every arm at an available place once without load: unbuildable ones are detected before the first round.
    fn inspect(&mut self) -> Result<Option<Vec<Option<ArmFacts>>>, ExpectedError> {
        let mut all = Vec::new();
        for index in 0..self.plan.trial.arms.len() {
            if !self.is_here(index) {
                all.push(None);
                continue;
            }
            let job = self.job(index, None)?;
            let name = self.plan.trial.arms[index].name.clone();
            let began = self.context.clock.now();
            let (ended, reports) = self.send_until_not_lost(index, &job)?;
            let took = Nanos(self.context.clock.now().0 - began.0);
            self.overhead[index] = self.overhead[index].max(took);
            match (ended, reports.facts) {
                (JobOutcome::Interrupted, _) => return Ok(None),
                (JobOutcome::Failed(failure), _) => {
                    return Err(ExpectedError::Run { context: format!("arm {name}"), failure });
                }
                (JobOutcome::Measured(_), Some((facts, commands))) => {
                    self.tell(&Event::ArmInspected { arm: &name, facts: &facts, commands: &commands })?;
                    all.push(Some(facts));
                }
                (JobOutcome::Measured(_), None) => {
                    let fault = ExpectedError::Fault(format!("a worker reported nothing about arm {name}"));
                    return Err(self.blame(index, fault));
                }
            }
        }
        Ok(Some(all))
    }

    /// Sends a job again as long as it is lost for our own reasons, and not too often.
    fn send_until_not_lost(&mut self, arm: usize, job: &Job) -> Result<JobResult, ExpectedError> {
        for _ in 1..MAX_LOST {
            match self.send(arm, job)? {
                (JobOutcome::Failed(failure), _) if failure.kind == FailureKind::Lost => {
                    self.tell(&Event::WorkerReplaced { arm: &job.arm.name, failure: &failure })?;
                }
                other => return Ok(other),
            }
        }
        self.send(arm, job)
    }

    /// Sends a job to the place of its arm and passes its stages on to the listeners.
    fn send(&mut self, arm: usize, job: &Job) -> Result<JobResult, ExpectedError> {
        let (several, index) = (self.plan.places.len() > 1, self.place_of(arm));
        let Context { places, listener, .. } = &mut self.context;
        let place = &mut places[index];
        let machine = several.then(|| place.environment().machine_facts());
        let mut seen = WorkerReports::default();
        let mut received = Ok(());
        let mut tell = |event| {
            if received.is_ok() {
                received = listener.hear(&event);
            }
        };
        let ended = place.run(job, &mut |message| match message {
            WorkerMessage::Stage { stage, .. } => tell(Event::RunStage { stage: *stage }),
            WorkerMessage::Progress { stage, done, total, .. } => {
                tell(Event::StageProgress { stage: *stage, done: *done, total: *total });
            }
            WorkerMessage::Facts { facts, commands, space } => {
                let mut facts = facts.clone();
                facts.facts.extend(machine.clone().into_iter().flatten());
                seen.facts = Some((facts, commands.clone()));
                seen.space = *space;
            }
            WorkerMessage::Prepared { figures, mkfs_output } => {
                seen.prepared = Some((figures.clone(), mkfs_output.clone()));
            }
            WorkerMessage::Measured { .. }
            | WorkerMessage::Failed { .. }
            | WorkerMessage::Receipt { .. }
            | WorkerMessage::Evidence { .. } => {}
        });
        // The cause of our end may have ended a program of the run first: a scheduler signals all processes of a job.
        let is_ours = |failure: &RunFailure| {
            let interrupt = self.context.interrupt;
            failure.kind != FailureKind::CleanUp && interrupt.is_raised() && !interrupt.is_time_over()
        };
        let ended = match ended {
            JobOutcome::Failed(failure) if is_ours(&failure) => JobOutcome::Interrupted,
            ended => ended,
        };
        received.map(|()| (ended, seen))
    }

    /// True if an arm is built at an available place: not on another boot.
    pub(super) fn is_here(&self, arm: usize) -> bool {
        self.context.booted.is_none_or(|booted| booted.place == self.plan.place_of[arm])
    }

    /// The index of an arm's place among those that are there.
    fn place_of(&self, arm: usize) -> usize {
        if self.context.booted.is_some() { 0 } else { self.plan.place_of[arm] }
    }

    /// Why no round, or part of one, comes now.
    fn reason_to_stop(&self) -> Option<Reason> {
        if !self.judge.is_undecided() {
            return Some(Reason::Settled);
        }
        if self.context.interrupt.is_raised() {
            return Some(self.stopped());
        }
        let round = self.judge.next_round(self.round);
        if round > self.plan.trial.trial.rounds.unwrap_or(MAX_ROUNDS) + self.judge.cut_short_rounds() {
            return Some(Reason::BudgetEnded);
        }
        let Some(first) = self.judge.left(round).first().copied() else {
            return Some(Reason::BudgetEnded);
        };
        if self.context.booted.is_some_and(|booted| !booted.has_part()) {
            return Some(Reason::Reboot);
        }
        // A round that has no time for its first run is not begun.
        (!self.has_time_for(first)).then_some(Reason::BudgetEnded)
    }

    /// Round after round, until nothing is open or no time is left.
    fn rounds(&mut self) -> Result<Reason, ExpectedError> {
        loop {
            if let Some(reason) = self.reason_to_stop() {
                return Ok(reason);
            }
            let ended = self.one_round()?;
            if let Some(booted) = &mut self.context.booted {
                booted.is_used = true;
            }
            match ended {
                RoundEnd::Complete | RoundEnd::Continues => {}
                RoundEnd::OutOfTime => return Ok(Reason::BudgetEnded),
                RoundEnd::Interrupted => return Ok(self.stopped()),
            }
        }
    }

    /// Kind of the interruption.
    fn stopped(&self) -> Reason {
        if self.context.interrupt.is_time_over() { Reason::BudgetEnded } else { Reason::Interrupted }
    }

    fn left(&self) -> Nanos {
        Nanos(self.context.deadline.0.saturating_sub(self.context.clock.now().0))
    }

    /// Upper limit of the time left after `done` rounds that take `each`: the rest of the budget or, if the number of
    /// rounds is limited, the remaining rounds and a quarter, whichever is shorter.
    fn left_at_most(&self, done: u32, each: Nanos) -> Nanos {
        let most = self.plan.trial.trial.rounds.map(|most| most.saturating_sub(done));
        // A boot runs a part of one.
        let rounds = most.map(|most| if self.context.booted.is_some() { 1 } else { most });
        let all = rounds.map(|rounds| (each.0 / 4 * 5).saturating_mul(rounds.into()));
        Nanos(all.unwrap_or(u64::MAX)).min(self.left())
    }

    /// About how long a run of a cell takes.
    fn expected(&self, cell: usize) -> Nanos {
        self.run_time[cell].unwrap_or_else(|| self.guess(self.plan, cell))
    }

    /// True if a run of this cell should end in time. In the first round a default budget counts as raised to its upper
    /// limit.
    fn has_time_for(&self, cell: usize) -> bool {
        let longest = self.context.longest.filter(|_| !self.judge.has_begun()).unwrap_or_default();
        let more = longest.0.saturating_sub(self.plan.trial.trial.budget.0);
        self.context.clock.now().0.saturating_add(self.expected(cell).0)
            <= self.context.deadline.0.saturating_add(more)
    }

    /// About how long a run of a cell takes before one was timed, in this plan or one with longer runs.
    fn guess(&self, plan: &Plan, cell: usize) -> Nanos {
        let at = plan.cells[cell];
        Nanos(plan.workloads[at.workload].time().0.saturating_add(self.overhead[at.arm].0))
    }

    fn one_round(&mut self) -> Result<RoundEnd, ExpectedError> {
        self.round = self.judge.next_round(self.round);
        let began = self.context.clock.now();
        let mut order = self.judge.left(self.round);
        order.retain(|cell| self.is_here(self.plan.cells[*cell].arm));
        let (round, before) = (self.round, self.judge.underway().len());
        let runs = order.iter().map(|cell| self.expected(*cell).0).fold(0, u64::saturating_add);
        let left = self.left_at_most(round - 1, Nanos(runs));
        let is_first = !self.judge.has_begun();
        self.tell(&Event::RoundStarted { round, runs: before + order.len(), left })?;
        self.context.places.iter_mut().for_each(|place| place.begin_round());
        let mut ended = RoundEnd::Complete;
        for (position, cell) in order.iter().enumerate() {
            if self.context.interrupt.is_raised() {
                ended = RoundEnd::Interrupted;
            } else if !self.has_time_for(*cell) {
                ended = RoundEnd::OutOfTime;
            } else if !self.one_run(*cell, before + position + 1)? {
                ended = RoundEnd::Interrupted;
            }
            if !matches!(ended, RoundEnd::Complete) {
                break;
            }
        }
        let is_whole = matches!(ended, RoundEnd::Complete);
        if self.judge.continues(round) {
            return Ok(if is_whole { RoundEnd::Continues } else { ended });
        }
        if is_first && is_whole && self.context.booted.is_none() {
            self.tell_time(Nanos(self.context.clock.now().0 - began.0))?;
        }
        self.judge.end_round();
        if self.judge.has_begun() {
            let contrasts = self.judge.states();
            let course = Course::points(&self.judge, round);
            self.tell(&Event::VerdictsUpdated {
                round,
                is_complete: is_whole,
                contrasts: &contrasts,
                course: &course,
            })?;
        }
        Ok(ended)
    }

    /// Reports the consequences of the first complete round's time for the budget.
    fn tell_time(&mut self, round_time: Nanos) -> Result<(), ExpectedError> {
        self.extend(round_time)?;
        let affordable = u32::try_from(self.left().0 / round_time.0.max(1)).unwrap_or(u32::MAX);
        let fit = affordable.saturating_add(self.round);
        let requested = self.plan.trial.trial.rounds;
        let fit = fit.min(requested.unwrap_or(MAX_ROUNDS));
        let (round_seconds, least) = (round_time.as_secs_f64(), forecast::least_rounds(self.plan));
        let warning = forecast::too_few(fit, requested, least, round_seconds, &forecast::fewer(self.plan));
        let left = self.left_at_most(self.round, round_time);
        self.tell(&Event::FirstRoundTimed {
            requested,
            fit,
            round_seconds,
            least,
            left,
            warning: warning.as_deref(),
        })
    }

    /// Raises a default budget, if rounds like the first are too long for a verdict in it, but not for one within the upper limit.
    fn extend(&mut self, round_time: Nanos) -> Result<(), ExpectedError> {
        let Some(longest) = self.context.longest.filter(|_| self.plan.trial.trial.rounds.is_none()) else {
            return Ok(());
        };
        let budget = self.plan.trial.trial.budget;
        // The round may have ended after the budget.
        let gone = (budget.0 + self.context.clock.now().0).saturating_sub(self.context.deadline.0);
        let more = round_time.as_secs_f64() * f64::from(forecast::least_rounds(self.plan).saturating_sub(1));
        let ends = |factor: f64| Nanos(gone + (more * factor * 1e9) as u64);
        if ends(1.0) > longest || ends(forecast::SLACK) <= budget {
            return Ok(());
        }
        let raised = forecast::whole_minutes(ends(forecast::MARGIN)).min(longest);
        let by = Nanos(raised.0.saturating_sub(budget.0));
        if by == Nanos(0) {
            return Ok(());
        }
        self.context.deadline.0 += by.0;
        self.context.interrupt.end_later(by.duration());
        self.tell(&Event::Noted { lines: &[forecast::raised(raised, budget)] })
    }

    /// Runs one cell; false if interrupted.
    fn one_run(&mut self, cell: usize, slot: usize) -> Result<bool, ExpectedError> {
        self.run_cell(cell, slot).map_err(|error| self.blame(self.plan.cells[cell].arm, error))
    }

    /// Attributes an internal error to the agent, if its input came from one.
    fn blame(&self, arm: usize, error: ExpectedError) -> ExpectedError {
        let Some(name) = &self.plan.places[self.plan.place_of[arm]] else { return error };
        let what = match error {
            ExpectedError::Fault(what) => what,
            ExpectedError::Store(StoreError::Unstorable { what, .. }) => what,
            other => return other,
        };
        ExpectedError::Place {
            name: name.clone(),
            what: format!("its agent sent an invalid message: {what}"),
            hint: Some("use the same fstrial there, and look at the host of the place".into()),
            code: exit_code::SETUP_FAILED,
        }
    }

    fn run_cell(&mut self, cell: usize, slot: usize) -> Result<bool, ExpectedError> {
        let plan = self.plan;
        let at = plan.cells[cell];
        let (arm, workload) = (plan.arm_name(cell), plan.workloads[at.workload].name.as_str());
        let (round, threads) = (self.round, at.threads);
        let mut job = self.job(at.arm, Some((plan, cell, round)))?;
        job.task = Some(plan.task(cell, round, self.data));
        self.tell(&Event::RunStarted { round, slot, cell, arm, workload, threads })?;
        let began = self.context.clock.now();
        let started_at = self.context.clock.timestamp();
        let (ended, _) = self.send(at.arm, &job)?;
        let ended_at = self.context.clock.timestamp();
        let outcome: Result<Box<Measurement>, RunFailure> = match ended {
            JobOutcome::Interrupted => return Ok(false),
            JobOutcome::Failed(failure) => Err(failure),
            JobOutcome::Measured(Some(measurement)) => Ok(measurement),
            JobOutcome::Measured(None) => {
                return Err(ExpectedError::Fault("a worker measured nothing".into()));
            }
        };
        // A failed run does not predict the time of the next one: one that hung took minutes.
        if outcome.is_ok() {
            self.run_time[cell] = Some(Nanos(self.context.clock.now().0 - began.0));
        }
        let measured = outcome.as_ref().ok().map(|measurement| plan.samples(cell, round, slot, measurement));
        let measured = measured
            .transpose()
            .map_err(|e| ExpectedError::Fault(format!("a measurement cannot be read: {e}")))?;
        let index = self.place_of(at.arm);
        let Context { places, listener, .. } = &mut self.context;
        listener.hear(&Event::RunEnded(RunEnded {
            round,
            slot,
            cell,
            arm,
            workload,
            threads,
            started_at: &started_at,
            ended_at: &ended_at,
            environment: places[index].environment(),
            job: &job,
            rates: measured.iter().flatten().map(|sample| sample.rate).collect(),
            outcome: outcome.as_ref().map(|measurement| &**measurement),
            failure: outcome.as_ref().err(),
        }))?;
        self.times.see(round, &started_at, &ended_at);
        match outcome {
            Ok(_) => self.judge.take_run(cell, Ok(measured.unwrap_or_default())),
            Err(failure) => self.take_failure(cell, failure)?,
        }
        Ok(true)
    }

    /// A failed run is an outcome of its arm, or lost, or a reason to end the trial.
    fn take_failure(&mut self, cell: usize, failure: RunFailure) -> Result<(), ExpectedError> {
        let context = self.plan.cell_name(cell);
        match failure.kind {
            FailureKind::ArmFailed | FailureKind::Unsupported => self.judge.take_run(cell, Err(failure)),
            FailureKind::Lost => {
                self.judge.take_run(cell, Err(failure.clone()));
                if let Some(times) = self.judge.lost_too_often(cell) {
                    return Err(ExpectedError::Run {
                        context: format!("{context} was lost {times} times running"),
                        failure,
                    });
                }
            }
            FailureKind::HostLacks
            | FailureKind::ArmRefused
            | FailureKind::LoadRefused
            | FailureKind::CleanUp => return Err(ExpectedError::Run { context, failure }),
        }
        Ok(())
    }
}
