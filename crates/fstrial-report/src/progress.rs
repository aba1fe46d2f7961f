//! Progress during a trial, on standard error: the current run, rounds done, the intervals narrowing, the remaining
//! time.
//!
//! On a terminal a few lines that are drawn over; elsewhere a line when something was decided, and ten in the budget.

use super::numbers;
use fstrial_model::{
    job::FailureKind,
    metric::Metric,
    units::{Bytes, Nanos},
};
use fstrial_run::{
    contrast::{ContrastState, Outcome},
    error::ExpectedError,
    event::{Event, Listener, RunEnded},
    plan::threads_in_words,
};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    fmt,
    io::{IsTerminal, Write},
    time::{Duration, Instant},
};

/// Minimum of rounds for most decisions: before the eighth, only obvious differences are decided.
const ROUNDS_OF_A_DECISION: u32 = 8;
/// Without a terminal, a line is printed for each decided comparison, and at most this many times in the budget
/// otherwise.
const LINES: u32 = 10;
/// Open contrasts shown at a time.
const SHOWN: usize = 6;

/// Progress on standard error.
pub struct Progress {
    started: Instant,
    budget: Nanos,
    terminal: Option<Drawn>,
    quiet: bool,
    round: u32,
    runs: usize,
    current: String,
    /// When the stage that runs began.
    stage_began: Instant,
    counts: Counts,
    /// The requested number of rounds, if any.
    most: Option<u32>,
    /// The first round of this session, and when it had ended.
    first_ended: Option<(u32, Instant)>,
    /// Time of the last line about rounds, without a terminal.
    printed: Option<Instant>,
}

/// Numbers of comparisons with a verdict, of those close enough for either to do, and of those given up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    decided: usize,
    near: usize,
    given_up: usize,
    all: usize,
}

impl Counts {
    /// True if a line is worth printing: closeness comes and goes until it is decided, or the budget ends.
    fn are_news_after(self, before: Self) -> bool {
        before != Self { near: before.near, ..self }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} decided", self.decided, self.all)?;
        if self.near > 0 {
            write!(f, ", {} near enough for either", self.near)?;
        }
        if self.given_up > 0 {
            write!(f, ", {} given up as out of reach", self.given_up)?;
        }
        Ok(())
    }
}

struct Drawn {
    all: MultiProgress,
    now: ProgressBar,
    contrasts: Vec<ProgressBar>,
}

impl Progress {
    /// Progress of a trial with a budget; `quiet` keeps everything but errors back.
    pub fn new(budget: Nanos, quiet: bool) -> Self {
        let terminal = (!quiet && std::io::stderr().is_terminal()).then(Drawn::new);
        Self {
            started: Instant::now(),
            budget,
            terminal,
            quiet,
            round: 0,
            runs: 0,
            current: String::new(),
            stage_began: Instant::now(),
            counts: Counts::default(),
            most: None,
            first_ended: None,
            printed: None,
        }
    }

    /// Progress that receives everything and prints nothing until it is shown.
    pub fn hidden(budget: Nanos) -> Self {
        Self::new(budget, true)
    }

    /// Shows the hidden progress so far.
    pub fn show(&mut self) {
        self.quiet = false;
        self.terminal = std::io::stderr().is_terminal().then(Drawn::new);
        self.draw(&self.current.clone());
    }

    /// Takes everything off the terminal.
    pub fn clear(&self) {
        if let Some(drawn) = &self.terminal {
            // A bar that is not finished would be drawn again when it is dropped, below the answer.
            drawn.contrasts.iter().chain([&drawn.now]).for_each(ProgressBar::finish_and_clear);
            let _ = drawn.all.clear();
        }
    }

    /// A line that stays.
    fn say(&self, line: &str) {
        match &self.terminal {
            _ if self.quiet => {}
            Some(drawn) => {
                let _ = drawn.all.println(line);
            }
            None => {
                let _ = writeln!(anstream::stderr(), "{line}");
            }
        }
    }

    fn set_left(&mut self, left: Nanos) {
        let gone = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(0);
        self.budget = Nanos(left.0.saturating_add(gone));
    }

    fn left(&self) -> String {
        format!("at most {} left", numbers::wait(self.seconds_left()))
    }

    fn seconds_left(&self) -> f64 {
        self.budget.as_secs_f64() - self.started.elapsed().as_secs_f64()
    }

    /// Number of further rounds that fit, if they take as long as those since the first.
    fn rounds_left(&self) -> String {
        let Some((first, ended)) = self.first_ended else { return String::new() };
        let more @ 1.. = self.round.saturating_sub(first) else { return String::new() };
        let each = ended.elapsed().as_secs_f64() / f64::from(more);
        // Intermediate decisions shorten rounds: one may fit although this prints none.
        let requested = self.most.map_or(f64::INFINITY, |most| f64::from(most.saturating_sub(self.round)));
        match (self.seconds_left() / each).floor().min(requested) {
            more if more >= 1.0 => format!(", room for {more:.0} more"),
            _ => String::new(),
        }
    }

    fn draw(&self, what: &str) {
        let Some(drawn) = &self.terminal else { return };
        let rounds = format!("round {}", self.round);
        let verdicts = if self.counts.all == 0 { String::new() } else { format!(" · {}", self.counts) };
        let head = if self.round == 0 {
            String::new()
        } else {
            format!("{rounds}{verdicts} · {} · ", self.left())
        };
        drawn.now.set_message(format!("{head}{what}"));
    }

    fn run_ended(&mut self, run: &RunEnded<'_>) {
        if let Some(failure) = run.failure {
            let level = threads_in_words(run.threads);
            let what = if failure.kind == FailureKind::Unsupported { "unsupported" } else { "failed" };
            self.say(&format!(
                "round {}: {} · {} · {level} {what}: {failure}",
                run.round, run.arm, run.workload
            ));
        }
    }

    fn verdicts(&mut self, round: u32, is_complete: bool, contrasts: &[ContrastState]) {
        let holding: Vec<&ContrastState> =
            contrasts.iter().filter(|state| state.holds_open && state.control.is_none()).collect();
        let open: Vec<&ContrastState> = holding.iter().copied().filter(|state| state.open).collect();
        let closed = || holding.iter().filter(|state| !state.open);
        let given_up = closed().filter(|state| state.given_up).count();
        let near = holding.iter().filter(|state| state.near && !state.given_up).count();
        let counts = Counts { decided: closed().count() - given_up, near, given_up, all: holding.len() };
        let before = std::mem::replace(&mut self.counts, counts);
        let is_new = counts.are_news_after(before);
        self.first_ended.get_or_insert_with(|| (round, Instant::now()));
        // Where lines stay, most rounds are no news.
        let is_time = self.printed.is_none_or(|printed| printed.elapsed() * LINES >= self.budget.duration());
        if let Some(drawn) = &mut self.terminal {
            drawn.show(&open);
        } else if is_new || is_time || !is_complete {
            self.printed = Some(Instant::now());
            let end = if is_complete { "done" } else { "cut short" };
            self.say(&format!("round {round} {end}: {}; {}{}", self.counts, self.left(), self.rounds_left()));
        }
    }
}

impl Drawn {
    fn new() -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let now = all.add(ProgressBar::new_spinner());
        now.set_style(
            ProgressStyle::with_template("{spinner} {wide_msg}").expect("the template is a constant"),
        );
        now.enable_steady_tick(Duration::from_millis(200));
        Self { all, now, contrasts: Vec::new() }
    }

    /// Shows the open contrasts with their intervals as they narrow.
    fn show(&mut self, open: &[&ContrastState]) {
        for bar in self.contrasts.drain(..) {
            bar.finish_and_clear();
            self.all.remove(&bar);
        }
        for state in open.iter().take(SHOWN) {
            self.add(narrowing(state));
        }
        if open.len() > SHOWN {
            self.add(format!("… and {} more", open.len() - SHOWN));
        }
    }

    fn add(&mut self, line: String) {
        let bar = self.all.add(ProgressBar::new_spinner());
        bar.set_style(ProgressStyle::with_template("    {wide_msg}").expect("the template is a constant"));
        bar.set_message(line);
        self.contrasts.push(bar);
    }
}

/// Capacity of the budget, after the first round was timed; and the remedy if it is too little.
fn budget_lines(fit: u32, requested: Option<u32>, round_seconds: f64, warning: Option<&str>) -> Vec<String> {
    let takes = format!("a round takes about {}", numbers::wait(round_seconds));
    if let Some(warning) = warning {
        return vec![format!("{takes}; {warning}")];
    }
    if fit >= ROUNDS_OF_A_DECISION {
        return vec![format!(
            "{takes}: {fit} rounds fit into the budget, or somewhat more as comparisons are decided"
        )];
    }
    if requested.is_some_and(|requested| fit >= requested) {
        return vec![format!(
            "{takes}: {fit} rounds, as requested, decide plain differences only; most take {ROUNDS_OF_A_DECISION} or more (--rounds)"
        )];
    }
    let rounds = if fit == 1 { "one round fits".into() } else { format!("{fit} rounds fit") };
    let needed = numbers::budget(round_seconds * f64::from(ROUNDS_OF_A_DECISION) * 1.5);
    vec![
        format!(
            "{takes}: {rounds} into the budget. Only plain differences are decided in so few; most take {ROUNDS_OF_A_DECISION} or more"
        ),
        format!(
            "use --budget {needed}, or fewer arms, workloads or thread counts; a trial cut short can be resumed"
        ),
    ]
}

/// Progress of a stage, and the extrapolated remaining time: `43 %, at most 20 s more`.
#[expect(clippy::cast_precision_loss, reason = "for display")]
fn how_far(took: Duration, done: Bytes, total: Bytes) -> String {
    let share = (done.0 as f64 / total.0.max(1) as f64).clamp(0.0, 1.0);
    let percent = format!("{:.0} %", share * 100.0);
    // The first hundredth does not predict the rest.
    if share < 0.01 {
        return percent;
    }
    format!("{percent}, at most {} more", numbers::wait(took.as_secs_f64() / share * (1.0 - share)))
}

/// An open contrast: where its interval is.
fn narrowing(state: &ContrastState) -> String {
    let interval = match (state.ratio, state.interval) {
        (Some(ratio), Some(ends)) => format!("{} {}", numbers::ratio(ratio), numbers::ratio_interval(ends)),
        (Some(ratio), None) => format!("{} [no interval yet]", numbers::ratio(ratio)),
        (None, _) => "no round yet".into(),
    };
    debug_assert!(
        !matches!(state.verdict, Outcome::Failed | Outcome::Unsupported),
        "contrasts without a ratio are not open"
    );
    let metric = if state.metric == Metric::Throughput { "" } else { state.metric.name() };
    {
        let level = threads_in_words(state.threads);
        format!("{} / {} · {} · {level} {metric} {interval}", state.a, state.b, state.workload)
    }
}

impl Listener for Progress {
    fn hear(&mut self, event: &Event<'_>) -> Result<(), ExpectedError> {
        match event {
            Event::Preparing { line } => self.say(line),
            Event::Noted { lines } => lines.iter().for_each(|line| self.say(line)),
            Event::DeviceProgress { done, total } => {
                self.draw(&format!("preparing the device: {} of {}", done.human(), total.human()));
            }
            Event::DeviceReady { device, .. } => self.say(device),
            Event::ArmInspected { arm, .. } => self.draw(&format!("built {arm} once to look at it")),
            Event::WorkerReplaced { arm, failure } => {
                self.say(&format!("arm {arm}: {failure}; another worker takes its place"));
            }
            Event::Audited { lines } => {
                if !lines.is_empty() {
                    self.say("the arms differ in:");
                }
                for line in *lines {
                    self.say(&format!("  {line}"));
                }
            }
            Event::FirstRoundTimed { requested, fit, round_seconds, left, warning, .. } => {
                self.set_left(*left);
                self.most = *requested;
                budget_lines(*fit, *requested, *round_seconds, *warning)
                    .iter()
                    .for_each(|line| self.say(line));
            }
            Event::RoundStarted { round, runs, left } => {
                self.set_left(*left);
                self.round = *round;
                self.runs = *runs;
            }
            Event::RunStarted { slot, arm, workload, threads, .. } => {
                self.current =
                    format!("run {slot}/{} · {arm} · {workload} · {}", self.runs, threads_in_words(*threads));
                self.draw(&self.current.clone());
            }
            Event::RunStage { stage } => {
                self.stage_began = Instant::now();
                self.draw(&format!("{} · {stage}", self.current));
            }
            Event::StatePreparing { arm, state } => self.current = format!("preparing {state} for {arm}"),
            Event::StatePrepared { arms, figures } => {
                self.current = "looking at the arms".into();
                self.say(&format!("prepared for {}: {}", arms.join(", "), figures.describe()));
            }
            Event::StageProgress { stage, done, total } => {
                let far = how_far(self.stage_began.elapsed(), *done, *total);
                self.draw(&format!("{} · {stage} · {far}", self.current));
            }
            Event::RunEnded(run) => self.run_ended(run),
            Event::VerdictsUpdated { round, is_complete, contrasts, .. } => {
                self.verdicts(*round, *is_complete, contrasts);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_left_follow_measured_round_time() {
        let Some(began) = Instant::now().checked_sub(Duration::from_secs(100)) else { return };
        let ended = began.checked_add(Duration::from_secs(20)).unwrap();
        let of = |first, round| Progress {
            started: began,
            first_ended: Some((first, ended)),
            round,
            ..Progress::hidden(Nanos(200_000_000_000))
        };
        // 80 s for four rounds after the first, and 100 s are left.
        assert_eq!(of(1, 5).rounds_left(), ", room for 4 more");
        assert_eq!(of(1, 3).rounds_left(), ", room for 2 more");
        assert_eq!(of(1, 1).rounds_left(), "");
        assert_eq!(of(21, 21).rounds_left(), "", "resumed");
        assert_eq!(of(21, 25).rounds_left(), ", room for 4 more");
        let late = Progress { budget: Nanos(110_000_000_000), ..of(1, 5) };
        assert_eq!(late.rounds_left(), "");
        let limited = Progress { most: Some(6), ..of(1, 5) };
        assert_eq!(limited.rounds_left(), ", room for 1 more");
        assert_eq!(Progress { most: Some(5), ..of(1, 5) }.rounds_left(), "");
    }

    #[test]
    fn decisions_are_news_and_near_results_are_not() {
        let before = Counts { decided: 1, near: 1, given_up: 0, all: 4 };
        assert!(!Counts { near: 2, ..before }.are_news_after(before));
        assert!(Counts { decided: 2, ..before }.are_news_after(before));
        assert!(Counts { given_up: 1, ..before }.are_news_after(before));
    }

    #[test]
    fn budget_hint_names_limiting_option() {
        let lines = |fit, requested| budget_lines(fit, requested, 1.0, None).join("\n");
        assert!(lines(6, None).contains("--budget"), "{}", lines(6, None));
        let few = lines(6, Some(6));
        assert!(few.contains("6 rounds, as requested") && few.contains("--rounds"), "{few}");
        assert!(!few.contains("--budget"), "{few}");
    }
}
