//! `fstrial watch`: looks on while another process runs a trial, through the store alone.

use super::{Home, results};
use crate::{
    error::ExpectedError,
    exit_code,
    report::{
        audit, numbers, plain,
        watch::{
            model::Model,
            screen::{Output, Screen, Wish},
        },
    },
    run::{
        coordinator::EarlierRound,
        course::Course,
        environment::Environment,
        judge::Judge,
        place::Interrupt,
        plan::{Plan, threads_in_words},
    },
};
use clap::Args;
use fstrial_model::{job::FailureKind, trial::Trial};
use fstrial_store::{RunId, Store, StoredRun, StoredTrial, TrialId, TrialStatus, TrialSummary};
use jiff::Timestamp;
use std::time::{Duration, Instant};

/// How often the store is asked whether there is something new.
const POLL: Duration = Duration::from_millis(500);
/// How often it is looked whether the trial's process still lives.
const LOOK: Duration = Duration::from_secs(2);
/// Runs of which the time that a run takes is the median.
const TIMED: usize = 20;

/// Watch the trial that is running on the whole terminal, or the last one.
///
/// Shows every verdict so far with its interval, the ratio of the selected contrast round by round, throughput against
/// threads, the last run in the course of its time, failures and warnings. It reads the results only: nothing it does
/// reaches the trial. When another trial begins, it is shown. docs/watch.md says what is where, and what looking costs.
///
/// Examples:
///   fstrial watch
///   sudo fstrial watch --home /root/.local/share/fstrial
///   fstrial watch 12
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct WatchArgs {
    /// The trial's number [default: the one that is running, else the last].
    id: Option<i64>,

    #[command(flatten)]
    home: Home,
}

pub(crate) fn exec(args: &WatchArgs) -> Result<u8, ExpectedError> {
    let store = results::open(&args.home)?;
    let mut at = match args.id {
        Some(id) => store.trial(TrialId(id))?.summary.id,
        None => current(&store, &args.home)?
            .ok_or_else(|| ExpectedError::usage("no trial is stored", "run one first"))?,
    };
    if !Output::Standard.is_screen() {
        return Err(ExpectedError::usage(
            "`fstrial watch` needs a terminal for its picture and its keys",
            "for text use `fstrial results show`, for a program `fstrial results show --json`",
        ));
    }
    let interrupt = Interrupt::at_signals().map_err(terminal)?;
    let mut watcher = None;
    loop {
        let stored = store.trial(at)?;
        let (plan, environment) = planned(&store, &stored)?;
        let screen = match &mut watcher {
            Some(screen) => screen,
            None => watcher.insert(Screen::take(Output::Standard).map_err(terminal)?),
        };
        let mut following = Following::new(&plan, &environment, &stored);
        let watch = Watch { store: &store, args, interrupt: &interrupt };
        match watch.follow(&mut following, screen)? {
            Next::Quit => return Ok(exit_code::VERDICT),
            Next::Interrupted => return Ok(exit_code::INTERRUPTED),
            Next::Trial(next) => at = next,
        }
    }
}

fn terminal(source: std::io::Error) -> ExpectedError {
    ExpectedError::File { what: "use", path: "the terminal".into(), source }
}

/// The trial that runs, if one does; else the one that was made last. Trials whose process was killed still say that they
/// run: of several it is the one that a process began to work on last.
fn current(store: &Store, home: &Home) -> Result<Option<TrialId>, ExpectedError> {
    if home.is_locked()? {
        let runs = |summary: &TrialSummary| summary.status == TrialStatus::Running;
        let mut newest = None;
        for summary in store.trials()?.into_iter().filter(runs) {
            let session = store.trial(summary.id)?.sessions.last().map(|session| session.id);
            newest = newest.max(Some((session, summary.id)));
        }
        if let Some((_, id)) = newest {
            return Ok(Some(id));
        }
    }
    Ok(store.latest_trial()?.map(|summary| summary.id))
}

/// The plan of a stored trial and what its device is.
fn planned(store: &Store, stored: &StoredTrial) -> Result<(Plan, Environment), ExpectedError> {
    let session = stored
        .sessions
        .last()
        .ok_or_else(|| crate::run::stored::damaged(store, "a stored trial has no session".into()))?;
    let environment: Environment = serde_json::from_str(&session.environment).map_err(|e| {
        crate::run::stored::damaged(store, format!("a stored environment cannot be read: {e}"))
    })?;
    let trial = Trial::parse("stored trial", &stored.toml)?;
    Ok((Plan::new(trial, stored.summary.seed, environment.cpus)?, environment))
}

/// What comes after a trial was watched.
enum Next {
    Quit,
    Interrupted,
    /// This one: it has begun, or is gone on with.
    Trial(TrialId),
}

struct Watch<'a> {
    store: &'a Store,
    args: &'a WatchArgs,
    interrupt: &'a Interrupt,
}

impl Watch<'_> {
    fn follow(&self, following: &mut Following<'_>, screen: &mut Screen) -> Result<Next, ExpectedError> {
        let (mut version, mut looked): (Option<i64>, Option<Instant>) = (None, None);
        let mut has_changed = true;
        loop {
            if self.interrupt.is_raised() {
                return Ok(Next::Interrupted);
            }
            let found = self.store.version()?;
            let is_new = version.replace(found) != Some(found);
            if is_new || looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
                looked = Some(Instant::now());
                if let Some(next) = self.look(following, is_new)? {
                    return Ok(Next::Trial(next));
                }
                has_changed |= is_new;
            }
            if screen.due(has_changed, false).is_zero() {
                screen.draw(&following.model, following.now()).map_err(terminal)?;
                has_changed = false;
            }
            let wait = screen.due(has_changed, false).min(POLL);
            let contrasts = following.model.contrasts.len();
            if let Some(Wish::Quit | Wish::Interrupt) = screen.wait(wait, contrasts).map_err(terminal)? {
                return Ok(Next::Quit);
            }
        }
    }

    /// Reads what is new; gives the trial to be watched instead, if it is another one or has begun anew.
    fn look(&self, following: &mut Following<'_>, is_new: bool) -> Result<Option<TrialId>, ExpectedError> {
        let is_alive = self.args.home.is_locked()?;
        if is_new {
            let stored = self.store.trial(following.id)?;
            if stored.sessions.len() != following.sessions {
                return Ok(Some(following.id));
            }
            following.read(self.store, &stored)?;
        }
        following.stand(is_alive);
        if self.args.id.is_none() && is_new && !following.runs {
            let other = current(self.store, &self.args.home)?;
            return Ok(other.filter(|other| *other != following.id));
        }
        Ok(None)
    }
}

/// A trial that is followed through the store.
struct Following<'p> {
    plan: &'p Plan,
    id: TrialId,
    /// Processes that have worked on it.
    sessions: usize,
    started: Instant,
    model: Model,
    judge: Option<Judge<'p>>,
    /// Rounds that are stored and not judged yet; the last one may be on its way.
    rounds: Vec<EarlierRound>,
    last_run: Option<RunId>,
    /// Times of the last runs, in seconds.
    times: Vec<f64>,
    /// When the last run ended, on the clock of the model.
    idle_since: f64,
    status: TrialStatus,
    /// Whether a process works on it.
    runs: bool,
    /// A run that cannot be read.
    damaged: Option<String>,
    is_audited: bool,
}

impl<'p> Following<'p> {
    fn new(plan: &'p Plan, environment: &Environment, stored: &StoredTrial) -> Self {
        let mut model = Model::new(plan);
        model.trial = Some(stored.summary.id.0);
        model.device = plain(&environment.device);
        environment.device_notes.iter().for_each(|note| model.say(note));
        // The budget is a session's, and only that of the first one is stored.
        if let ([session], Some(began)) = (&stored.sessions[..], since(&stored.summary.started_at)) {
            model.ends_at = Some(plan.trial.trial.budget.as_secs_f64() - began);
            debug_assert_eq!(session.started_at, stored.summary.started_at);
        }
        Self {
            plan,
            id: stored.summary.id,
            sessions: stored.sessions.len(),
            started: Instant::now(),
            model,
            judge: None,
            rounds: Vec::new(),
            last_run: None,
            times: Vec::new(),
            idle_since: 0.0,
            status: TrialStatus::Running,
            runs: true,
            damaged: None,
            is_audited: false,
        }
    }

    /// Seconds on the clock of the model.
    fn now(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Reads the runs that are new, and judges the rounds that are complete with them.
    fn read(&mut self, store: &Store, stored: &StoredTrial) -> Result<(), ExpectedError> {
        self.status = stored.summary.status;
        self.model.planned = stored.summary.planned_rounds;
        let facts: Vec<_> = stored.arms.iter().filter_map(|arm| arm.facts.clone()).collect();
        if !self.is_audited && facts.len() == self.plan.trial.arms.len() {
            self.is_audited = true;
            let lines = audit::differences(&self.plan.trial.arms, &facts);
            lines.iter().for_each(|line| self.model.say(&format!("the arms differ in {line}")));
        }
        store.for_each_run_after(self.id, self.last_run, |run| self.take(run))?;
        if let Some(damaged) = self.damaged.take() {
            return Err(crate::run::stored::damaged(store, damaged));
        }
        self.judge_rounds();
        let is_over = self.status != TrialStatus::Running;
        if let (true, Some(judge)) = (is_over, &mut self.judge) {
            judge.finish();
            self.model.settle(&judge.states());
            judge.warnings().iter().for_each(|warning| self.model.say(warning));
        }
        Ok(())
    }

    /// Takes a stored run.
    fn take(&mut self, run: StoredRun) {
        self.last_run = Some(run.id);
        if let Some((from, to)) = since(&run.started_at).zip(since(&run.ended_at)) {
            self.times.push(from - to);
            let surplus = self.times.len().saturating_sub(TIMED);
            self.times.drain(..surplus);
            self.idle_since = self.now() - to;
        }
        let name = format!("{} · {} · {}", run.arm, run.workload, threads_in_words(run.threads));
        self.model.take_outcome(&name, run.round, run.outcome.as_ref());
        if self.rounds.last().is_none_or(|round| round.round != run.round) {
            // The one before is over: what comes now belongs to another.
            self.judge_all(true);
            self.model.round = run.round;
            self.model.runs = (0, self.expected(run.round));
            self.rounds.push(EarlierRound { round: run.round, ..EarlierRound::default() });
        }
        self.model.runs.0 += 1;
        let Some(cell) = self.plan.cell_of(&run.arm, &run.workload, run.threads) else { return };
        let round = self.rounds.last_mut().expect("a round was just made sure of");
        match run.outcome {
            Ok(measurement) => match self.plan.samples(cell, run.round, run.slot as usize, &measurement) {
                Ok(samples) => {
                    self.model.take_rates(cell, samples.iter().map(|sample| sample.rate));
                    round.samples.push((cell, samples));
                }
                Err(error) => {
                    self.damaged = Some(format!("run {} of the store cannot be read: {error}", run.id))
                }
            },
            Err(failure) if failure.kind == FailureKind::ArmFailed => round.failed.push(cell),
            Err(failure) if failure.kind == FailureKind::Cannot => round.cannot.push((cell, failure.what)),
            Err(_) => {}
        }
    }

    /// Runs that a round has: those of its cells that are still needed.
    fn expected(&self, round: u32) -> usize {
        let is_needed = |cell: &usize| self.judge.as_ref().is_none_or(|judge| judge.needs(*cell));
        self.plan.order(round).into_iter().filter(is_needed).count()
    }

    /// Judges the last round if it is complete, or if no run will follow.
    fn judge_rounds(&mut self) {
        let (done, all) = self.model.runs;
        self.judge_all(done >= all || self.status != TrialStatus::Running);
    }

    /// Judges what is stored, the last round only if it is over. Before the rounds are planned they wait.
    fn judge_all(&mut self, with_last: bool) {
        let Some(planned) = self.model.planned else { return };
        let judge = self.judge.get_or_insert_with(|| Judge::new(self.plan, planned));
        let open = usize::from(!with_last).min(self.rounds.len());
        let complete: Vec<_> = self.rounds.drain(..self.rounds.len() - open).collect();
        for EarlierRound { round, samples, failed, cannot } in complete {
            failed.into_iter().for_each(|cell| judge.fail_cell(cell));
            cannot.into_iter().for_each(|(cell, reason)| judge.answer_cannot(cell, reason));
            judge.end_round(samples);
            self.model.take_round(&judge.states(), &Course::points(judge, round));
        }
    }

    /// Says whether it runs, and what happens now.
    fn stand(&mut self, is_alive: bool) {
        let is_over = self.status != TrialStatus::Running;
        self.runs = !is_over && is_alive;
        let id = self.id;
        let (status, advice) = match (is_over, is_alive) {
            (true, _) => (
                self.status.name(),
                Some(format!("this trial is over; `fstrial results show {id}` has its answer in words")),
            ),
            (false, false) => (
                "killed",
                Some(
                    "nobody works on this trial any more; `fstrial run FILE --resume` goes on with it"
                        .to_owned(),
                ),
            ),
            (false, true) => ("running", None),
        };
        (self.model.status, self.model.advice) = (status.to_owned(), advice);
        if self.runs {
            self.model.now = Some((self.what_runs(), self.idle_since));
        } else {
            (self.model.now, self.model.ends_at) = (None, None);
        }
    }

    /// What runs, as far as the store can know.
    fn what_runs(&self) -> String {
        let (done, all) = self.model.runs;
        let mut times = self.times.clone();
        times.sort_by(f64::total_cmp);
        match times.get(times.len() / 2) {
            None => "no run is over yet: preparing, or in the first run".into(),
            Some(typical) => {
                let next =
                    if done < all { format!("run {} of {all}", done + 1) } else { "the next round".into() };
                format!("{next}; a run takes about {}; this one so far", numbers::wait(*typical))
            }
        }
    }
}

/// Seconds from a moment in the store until now.
fn since(moment: &str) -> Option<f64> {
    let moment: Timestamp = moment.parse().ok()?;
    Some(Timestamp::now().duration_since(moment).as_secs_f64())
}
