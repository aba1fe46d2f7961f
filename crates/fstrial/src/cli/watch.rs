//! `fstrial watch`: looks on while another process runs a trial, through the store alone.

use super::{
    Home, on, results,
    statuses::{KILLED, TrialStatuses},
};
use clap::Args;
use fstrial_report::{
    plain,
    watch::{
        model::Model,
        screen::{Output, Screen, Wish},
    },
};
use fstrial_run::{
    audit, course::Course, environment::Environment, error::ExpectedError, exit_code, interrupt::Interrupt,
    judge::Judge, numbers, plan::Plan, stored,
};
use fstrial_store::{RunId, SessionId, Store, StoredTrial, TrialId, TrialStatus};
use jiff::Timestamp;
use std::{
    convert::Infallible,
    path::PathBuf,
    str::FromStr,
    time::{Duration, Instant},
};

/// Interval of polling the store.
const POLL: Duration = Duration::from_millis(500);
/// Interval of checking that the trial's process is alive.
const LOOK: Duration = Duration::from_secs(2);
/// Runs of which the time that a run takes is the median.
const TIMED: usize = 20;

/// Watch the running trial, or the last one, full screen.
///
/// Shows the verdicts so far with their intervals, the selected ratio by round, throughput by threads, the last run over
/// time, failures and warnings. It only reads the results and cannot affect the trial. A new trial is shown as soon as it
/// starts. docs/watch.md describes the screen and its overhead.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fstrial watch
  fstrial watch 12
  fstrial watch trial.hosts                              the hosts of `fstrial run trial.toml --on …`
  sudo fstrial watch --home /root/.local/share/fstrial")]
pub(crate) struct WatchArgs {
    /// Trial number, or folder of a multi-host trial [default: the running trial, else the last].
    #[arg(value_name = "ID|FOLDER")]
    what: Option<What>,

    #[command(flatten)]
    home: Home,
}

/// The watched trial.
#[derive(Debug, Clone)]
enum What {
    Trial(i64),
    Campaign(PathBuf),
}

impl FromStr for What {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.parse().map_or_else(|_| Self::Campaign(text.into()), Self::Trial))
    }
}

impl WatchArgs {
    const fn id(&self) -> Option<i64> {
        match &self.what {
            Some(What::Trial(id)) => Some(*id),
            _ => None,
        }
    }
}

pub(crate) fn exec(args: &WatchArgs) -> Result<u8, ExpectedError> {
    if let Some(What::Campaign(folder)) = &args.what {
        return on::watch(folder);
    }
    let store = results::open(&args.home)?;
    let mut at = match args.id() {
        Some(id) => store.trial(TrialId(id))?.summary.id,
        None => {
            current(&store)?.ok_or_else(|| ExpectedError::usage("no trial is stored", "run one first"))?
        }
    };
    if !Output::Standard.is_screen() {
        return Err(ExpectedError::usage(
            "`fstrial watch` needs a terminal for its picture and its keys",
            "for text use `fstrial report --format text`, for a program `fstrial report --format json`",
        ));
    }
    let interrupt = Interrupt::at_signals().map_err(terminal)?;
    let mut watcher = None;
    loop {
        let stored = store.trial(at)?;
        let (plan, environment) = stored::planned(&store, &stored)?;
        let screen = match &mut watcher {
            Some(screen) => screen,
            None => watcher.insert(Screen::take(Output::Standard).map_err(terminal)?),
        };
        let mut following = Follower::new(&plan, &environment, &stored);
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

/// The trial that runs, if one does; else the one that was made last.
fn current(store: &Store) -> Result<Option<TrialId>, ExpectedError> {
    match TrialStatuses::of(store)?.running {
        Some(id) => Ok(Some(id)),
        None => Ok(store.latest_trial()?.map(|summary| summary.id)),
    }
}

/// The step after a trial was watched.
enum Next {
    Quit,
    Interrupted,
    /// This trial: it has begun, or is resumed.
    Trial(TrialId),
}

struct Watch<'a> {
    store: &'a Store,
    args: &'a WatchArgs,
    interrupt: &'a Interrupt,
}

impl Watch<'_> {
    fn follow(&self, following: &mut Follower<'_>, screen: &mut Screen) -> Result<Next, ExpectedError> {
        let (mut version, mut looked): (Option<i64>, Option<Instant>) = (None, None);
        let mut has_changed = true;
        loop {
            if self.interrupt.is_raised() {
                return Ok(Next::Interrupted);
            }
            let result = self.store.version()?;
            let is_new = version.replace(result) != Some(result);
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

    /// Reads new data; returns the trial to watch instead, if it is another one or has started over.
    fn look(&self, following: &mut Follower<'_>, is_new: bool) -> Result<Option<TrialId>, ExpectedError> {
        let is_alive = self.args.home.is_locked()?;
        if is_new {
            let stored = self.store.trial(following.id)?;
            if stored.sessions.len() != following.sessions {
                return Ok(Some(following.id));
            }
            following.read(self.store, &stored)?;
        }
        following.stand(is_alive);
        if self.args.id().is_none() && is_new && !following.runs {
            let other = current(self.store)?;
            return Ok(other.filter(|other| *other != following.id));
        }
        Ok(None)
    }
}

/// A trial that is followed through the store.
struct Follower<'p> {
    plan: &'p Plan,
    id: TrialId,
    /// Processes that have worked on it.
    sessions: usize,
    started: Instant,
    model: Model,
    judge: Judge<'p>,
    /// True if the last round is not judged yet: more runs of it may come.
    is_open: bool,
    last_run: Option<RunId>,
    last_session: Option<SessionId>,
    /// Times of the last runs, in seconds.
    times: Vec<f64>,
    /// When the last run ended, on the clock of the model.
    idle_since: f64,
    status: TrialStatus,
    /// True if a process works on it.
    runs: bool,
    is_audited: bool,
}

impl<'p> Follower<'p> {
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
            judge: Judge::new(plan),
            is_open: false,
            last_run: None,
            last_session: None,
            times: Vec::new(),
            idle_since: 0.0,
            status: TrialStatus::Running,
            runs: true,
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
        let facts: Vec<_> = stored.arms.iter().filter_map(|arm| arm.facts.clone()).collect();
        if !self.is_audited && facts.len() == self.plan.trial.arms.len() {
            self.is_audited = true;
            let lines = audit::differences(&self.plan.trial.arms, &facts);
            lines.iter().for_each(|line| self.model.say(&format!("the arms differ in {line}")));
        }
        stored::for_each_run(store, self.plan, self.id, self.last_run, |run| self.take(run))?;
        let is_over = self.status != TrialStatus::Running;
        let (done, all) = self.model.runs;
        if done >= all || is_over {
            self.end_round();
        }
        if is_over && self.judge.has_begun() {
            self.judge.finish();
            self.model.settle(&self.judge.states());
            self.judge.warnings().iter().for_each(|warning| self.model.say(warning));
        }
        Ok(())
    }

    fn take(&mut self, run: stored::Run) {
        self.last_run = Some(run.id);
        if let Some((from, to)) = since(&run.started_at).zip(since(&run.ended_at)) {
            self.times.push(from - to);
            let surplus = self.times.len().saturating_sub(TIMED);
            self.times.drain(..surplus);
            self.idle_since = self.now() - to;
        }
        if self.model.round != run.round {
            // The one before is over: new runs belong to another.
            self.end_round();
            if self.last_session.replace(run.session).is_some_and(|before| before != run.session) {
                self.judge.reopen();
            }
            self.model.round = run.round;
            self.model.runs = (0, self.judge.runs_needed());
        }
        let name = self.plan.cell_name(run.cell);
        self.model.take_outcome(&name, run.round, run.measured.as_ref());
        self.model.take_rates(run.cell, run.outcome.iter().flatten().map(|sample| sample.rate));
        self.model.runs.0 += 1;
        self.is_open = true;
        self.judge.take_run(run.cell, run.outcome);
    }

    /// Judges the last round.
    fn end_round(&mut self) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        self.judge.end_round();
        if self.judge.has_begun() {
            let points = Course::points(&self.judge, self.model.round);
            self.model.take_round(&self.judge.states(), &points);
        }
    }

    /// Sets whether it runs, and the current work.
    fn stand(&mut self, is_alive: bool) {
        let is_over = self.status != TrialStatus::Running;
        self.runs = !is_over && is_alive;
        let id = self.id;
        let (status, advice) = match (is_over, is_alive) {
            (true, _) => (
                self.status.name(),
                Some(format!("this trial is over; `fstrial report {id} --format text` prints its answer")),
            ),
            (false, false) => (
                KILLED,
                Some("no command works on this trial any more; `fstrial resume` resumes it".to_owned()),
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

    /// The current run, as far as the store can know.
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
