//! Content of the view, as plain data: filled from events, or from the store. Names in it are safe to show.

use crate::plain;
use fstrial_model::{
    job::{FailureKind, RunFailure},
    measurement::{Measurement, Reading},
};
use fstrial_run::{
    contrast::ContrastState,
    course::{self, CoursePoint},
    event::{Event, RunEnded},
    judge::Judge,
    plan::Plan,
    round::{Earlier, Round},
    sample::Sample,
    typical::Typical,
};

/// Messages kept; older ones are in the store.
const MAX_MESSAGES: usize = 200;

/// A trial as it is. Times are seconds on the clock of the one who fills it.
#[derive(Debug, Clone)]
pub struct Model {
    /// The trial's name; empty if it has none.
    pub name: String,
    /// Its number in the store.
    pub trial: Option<i64>,
    pub device: String,
    /// Its state, as text: `running`, `decided`.
    pub status: String,
    /// Advice on that.
    pub advice: Option<String>,
    /// The round that runs, or ran last; 0 before the first.
    pub round: u32,
    /// Runs of this round that are over, and those it has.
    pub runs: (usize, usize),
    /// When the budget ends, while it runs.
    pub ends_at: Option<f64>,
    /// The current work, and its start.
    pub now: Option<(String, f64)>,
    /// The band that does not matter, as a fraction.
    pub practical: f64,
    /// Every contrast, in the order of the plan.
    pub contrasts: Vec<ContrastLine>,
    /// Throughput against threads, for everything that is compared.
    pub curves: Vec<Curves>,
    pub last_run: Option<LastRun>,
    /// Failures and warnings, the newest last.
    pub messages: Vec<String>,
}

/// A contrast with its course.
#[derive(Debug, Clone)]
pub struct ContrastLine {
    /// Its state; its names are safe to show.
    pub state: ContrastState,
    pub course: Vec<CoursePoint>,
    /// Index of its curves.
    pub curves: Option<usize>,
}

/// Throughput against threads of the compared things.
#[derive(Debug, Clone)]
pub struct Curves {
    /// The workload with its phase; the arm, if workloads are compared.
    pub title: String,
    /// Unit of the throughput.
    pub unit: String,
    /// One for each arm; for each workload, if these are compared.
    pub lines: Vec<CurveLine>,
}

#[derive(Debug, Clone)]
pub struct CurveLine {
    /// The arm or workload.
    pub name: String,
    /// By level.
    pub cells: Vec<CurveCell>,
}

#[derive(Debug, Clone)]
pub struct CurveCell {
    /// Index of the cell in the plan, and of the result.
    at: (usize, usize),
    pub threads: u16,
    /// Typical throughput so far and its interval.
    pub typical: Typical,
}

/// The last run, over its time.
#[derive(Debug, Clone, PartialEq)]
pub struct LastRun {
    pub title: String,
    /// Operations in each step.
    pub operations: Vec<u64>,
    /// A step in seconds.
    pub step: f64,
}

impl Model {
    /// A trial of which nothing is known but its plan.
    pub fn new(plan: &Plan) -> Self {
        let curves = curves(plan);
        let states = Judge::new(plan).states();
        let lines = states.into_iter().zip(&plan.contrasts).map(|(state, contrast)| {
            let at = (contrast.a, contrast.result_a);
            let is_of = |of: &Curves| of.lines.iter().flat_map(|line| &line.cells).any(|cell| cell.at == at);
            ContrastLine { state: cleaned(state), course: Vec::new(), curves: curves.iter().position(is_of) }
        });
        Self {
            name: plain(&plan.trial.trial.name),
            trial: None,
            device: String::new(),
            status: "running".into(),
            advice: None,
            round: 0,
            runs: (0, 0),
            ends_at: None,
            now: None,
            practical: plan.trial.trial.practical.fraction(),
            contrasts: lines.collect(),
            curves,
            last_run: None,
            messages: Vec::new(),
        }
    }

    /// A run of a cell is over, with the throughput or number of each of its results.
    pub fn take_rates(&mut self, cell: usize, rates: impl IntoIterator<Item = f64>) {
        for (result, rate) in rates.into_iter().enumerate() {
            let cells = self.curves.iter_mut().flat_map(|of| &mut of.lines).flat_map(|line| &mut line.cells);
            cells.filter(|of| of.at == (cell, result)).for_each(|of| of.typical.push(rate));
        }
    }

    /// The series of a measured run, and the failure of a failed one. `name`: the cell as text.
    pub fn take_outcome(&mut self, name: &str, round: u32, outcome: Result<&Measurement, &RunFailure>) {
        match outcome {
            Ok(measurement) => self.last_run = last_run(name, measurement).or(self.last_run.take()),
            Err(failure) => {
                let what = if failure.kind == FailureKind::Unsupported { "unsupported" } else { "failed" };
                self.say(&format!("round {round}: {name} {what}: {failure}"));
            }
        }
    }

    /// Takes a reported end of a run.
    pub fn take_run(&mut self, plan: &Plan, run: &RunEnded<'_>) {
        self.runs.0 += 1;
        self.take_outcome(&plan.cell_name(run.cell), run.round, run.outcome);
        self.take_rates(run.cell, run.rates.iter().copied());
    }

    /// A round is over, and this is the state of the contrasts, in the order of the plan.
    pub fn take_round(&mut self, states: &[ContrastState], points: &[CoursePoint]) {
        for ((line, state), point) in self.contrasts.iter_mut().zip(states).zip(points) {
            line.state = cleaned(state.clone());
            line.course.push(*point);
        }
    }

    /// No round will come any more, and this is the state of the contrasts.
    pub fn settle(&mut self, states: &[ContrastState]) {
        for (line, state) in self.contrasts.iter_mut().zip(states) {
            line.state = cleaned(state.clone());
        }
    }

    pub fn say(&mut self, message: &str) {
        self.messages.push(plain(message));
        let surplus = self.messages.len().saturating_sub(MAX_MESSAGES);
        self.messages.drain(..surplus);
    }

    /// Contrasts that are decided, of those that can keep the trial going; none before the first verdicts.
    pub fn decided(&self) -> Option<(usize, usize)> {
        let holding =
            || self.contrasts.iter().filter(|line| line.state.holds_open && line.state.control.is_none());
        let is_known = self.contrasts.iter().any(|line| !line.course.is_empty());
        is_known.then(|| {
            (holding().filter(|line| !line.state.open && !line.state.given_up).count(), holding().count())
        })
    }

    /// Total rounds after which the last of the open contrasts is probably decided, if known.
    pub fn rounds_needed(&self) -> Option<(u64, u64)> {
        let open = self.contrasts.iter().filter(|line| line.state.open);
        open.filter_map(|line| line.state.rounds_needed).max_by_key(|(low, high)| (*high, *low))
    }
}

fn cleaned(state: ContrastState) -> ContrastState {
    ContrastState {
        a: plain(&state.a),
        b: plain(&state.b),
        workload: plain(&state.workload),
        phase: plain(&state.phase),
        ..state
    }
}

fn curves(plan: &Plan) -> Vec<Curves> {
    let of_section = |section: Vec<(usize, usize)>| {
        let (first, result) = section[0];
        let kind = &plan.results[plan.cells[first].workload][result];
        let under = plan.under(first);
        let title = if kind.name.is_empty() { under.to_owned() } else { format!("{under}, {}", kind.name) };
        let mut lines: Vec<CurveLine> = Vec::new();
        for at in section {
            let name = plain(plan.compared(at.0));
            let cell = CurveCell { at, threads: plan.cells[at.0].threads, typical: Typical::default() };
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.cells.push(cell),
                None => lines.push(CurveLine { name, cells: vec![cell] }),
            }
        }
        Curves { title: plain(&title), unit: kind.unit.clone(), lines }
    };
    plan.sections().into_iter().map(of_section).collect()
}

/// The first result of a run that has a course in time.
fn last_run(name: &str, measurement: &Measurement) -> Option<LastRun> {
    measurement.results.iter().find_map(|result| match &result.reading {
        Reading::Load(_, load) if !load.series.is_empty() => Some(LastRun {
            title: plain([name, &result.name].join(" ").trim_end()),
            operations: load.series.clone(),
            step: load.series_step.as_secs_f64(),
        }),
        _ => None,
    })
}

impl Model {
    /// Takes an event that came at `at`. `current`: the current run, as text.
    pub fn hear(&mut self, plan: &Plan, event: &Event<'_>, current: &str, at: f64) {
        let mut now = None;
        match event {
            Event::Preparing { line } => now = Some(plain(line)),
            Event::Noted { lines } => lines.iter().for_each(|line| self.say(line)),
            Event::DeviceProgress { done, total } => {
                now = Some(format!("preparing the device: {} of {}", done.human(), total.human()));
            }
            Event::DeviceReady { device, notes } => {
                self.device = plain(device);
                notes.iter().for_each(|note| self.say(note));
            }
            Event::ArmInspected { arm, .. } => now = Some(format!("built {} once to look at it", plain(arm))),
            Event::WorkerReplaced { arm, failure } => {
                self.say(&format!("arm {arm}: {failure}; another worker takes its place"));
            }
            Event::Audited { lines } => {
                lines.iter().for_each(|line| self.say(&format!("the arms differ in {line}")));
            }
            Event::FirstRoundTimed { .. } => {}
            Event::RoundStarted { round, runs, left } => {
                (self.round, self.runs) = (*round, (0, *runs));
                self.ends_at = Some(at + left.as_secs_f64());
            }
            Event::RunStarted { .. } | Event::StatePreparing { .. } => now = Some(current.to_owned()),
            Event::StatePrepared { arms, figures } => {
                now = Some(current.to_owned());
                self.say(&format!("prepared for {}: {}", arms.join(", "), figures.describe()));
            }
            Event::RunStage { stage } => now = Some(format!("{current} · {stage}")),
            Event::StageProgress { stage, done, total } => {
                let what = format!("{current} · {stage}, {} of at most {}", done.human(), total.human());
                self.now = Some((what, self.now.as_ref().map_or(at, |(_, since)| *since)));
            }
            Event::RunEnded(run) => self.take_run(plan, run),
            Event::VerdictsUpdated { contrasts, course, .. } => self.take_round(contrasts, course),
        }
        if let Some(what) = now {
            self.now = Some((what, at));
        }
    }

    /// Takes the stored part of a resumed trial.
    pub fn prime(&mut self, plan: &Plan, earlier: &Earlier) {
        for Round { number, runs, .. } in &earlier.rounds {
            self.round = *number;
            for (cell, outcome) in runs {
                self.take_rates(*cell, outcome.iter().flatten().map(|sample: &Sample| sample.rate));
            }
        }
        let (judge, courses) = course::replay(plan, earlier.rounds.clone());
        for ((line, state), course) in self.contrasts.iter_mut().zip(judge.states()).zip(courses) {
            line.state = cleaned(state);
            line.course = course.rounds;
        }
    }
}
