//! `--watch`: the view in the place of progress, drawn by a separate thread that mostly sleeps.
//!
//! The trial never waits for the view: a listener only records events. When the user leaves the view, the plain
//! progress takes its place.

use super::{
    model::Model,
    screen::{Output, Screen, Wish},
};
use crate::{plain, progress::Progress};
use fstrial_model::{measurement::Stage, units::Nanos};
use fstrial_run::{
    error::ExpectedError,
    event::{Event, Listener},
    interrupt::Interrupt,
    plan::{Plan, threads_in_words},
    round::Earlier,
};
use std::{
    io::{self, Write},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Longest that the thread sleeps: then it looks whether the trial is over or was interrupted.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// Terminal display of a trial.
pub struct Display<'a> {
    progress: Progress,
    watching: Option<Watching<'a>>,
}

impl<'a> Display<'a> {
    /// Plain progress; see [`Progress::new`].
    pub fn plain(budget: Nanos, quiet: bool) -> Self {
        Self { progress: Progress::new(budget, quiet), watching: None }
    }

    /// The view; without a suitable terminal, plain progress with a note.
    pub fn watched(plan: &'a Plan, interrupt: &Interrupt) -> Self {
        let budget = plan.trial.trial.budget;
        let taken =
            if Output::Error.is_screen() { Screen::take(Output::Error).map_err(Some) } else { Err(None) };
        match taken {
            Ok(screen) => Self {
                progress: Progress::hidden(budget),
                watching: Some(Watching::start(plan, screen, interrupt.clone())),
            },
            Err(error) => {
                let why = error.map_or_else(String::new, |error: io::Error| format!(" ({error})"));
                let note = format!("--watch needs a terminal{why}: this is the plain progress");
                let _ = writeln!(anstream::stderr(), "{note}");
                Self::plain(budget, false)
            }
        }
    }

    /// The trial begins, or continues after its stored part.
    pub fn begin(&mut self, trial: i64, earlier: &Earlier) {
        if let Some(watching) = &self.watching {
            let mut shown = watching.shared.lock();
            shown.model.trial = Some(trial);
            shown.model.prime(watching.plan, earlier);
        }
    }

    /// Takes everything off the terminal.
    pub fn clear(&mut self) {
        self.watching = None;
        self.progress.clear();
    }
}

impl Listener for Display<'_> {
    fn hear(&mut self, event: &Event<'_>) -> Result<(), ExpectedError> {
        if self.watching.as_ref().is_some_and(Watching::is_over) {
            self.watching = None;
            self.progress.show();
        }
        if let Some(watching) = &mut self.watching {
            watching.hear(event);
        }
        self.progress.hear(event)
    }
}

/// The view, and its data.
struct Watching<'a> {
    plan: &'a Plan,
    started: Instant,
    /// The current run, as text.
    current: String,
    shared: Arc<ViewState>,
    thread: Option<JoinHandle<()>>,
}

struct ViewState {
    shown: Mutex<Shown>,
    /// The trial needs the terminal back.
    is_over: AtomicBool,
}

struct Shown {
    model: Model,
    has_changed: bool,
    /// The measured window of a run.
    is_measuring: bool,
}

impl ViewState {
    /// A view that panicked must not take the trial with it.
    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> Watching<'a> {
    fn start(plan: &'a Plan, screen: Screen, interrupt: Interrupt) -> Self {
        let shown = Shown { model: Model::new(plan), has_changed: true, is_measuring: false };
        let shared = Arc::new(ViewState { shown: Mutex::new(shown), is_over: AtomicBool::new(false) });
        let (started, of_thread) = (Instant::now(), Arc::clone(&shared));
        let thread = thread::spawn(move || show(screen, &of_thread, started, &interrupt));
        Self { plan, started, current: String::new(), shared, thread: Some(thread) }
    }

    /// True if the user left the view.
    fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn hear(&mut self, event: &Event<'_>) {
        let at = self.started.elapsed().as_secs_f64();
        self.name_current(event);
        let mut shown = self.shared.lock();
        shown.has_changed = true;
        if let Event::RunStage { stage } = event {
            shown.is_measuring = *stage == Stage::Load;
        }
        if let Event::RunEnded(_) = event {
            shown.is_measuring = false;
        }
        shown.model.hear(self.plan, event, &self.current, at);
    }

    /// Describes the work that an event begins.
    fn name_current(&mut self, event: &Event<'_>) {
        match event {
            Event::RunStarted { slot, arm, workload, threads, .. } => {
                let level = threads_in_words(*threads);
                self.current = plain(&format!("run {slot} · {arm} · {workload} · {level}"));
            }
            Event::StatePreparing { arm, state } => {
                self.current = plain(&format!("preparing {state} for {arm}"))
            }
            Event::StatePrepared { .. } => self.current = "looking at the arms".into(),
            _ => {}
        }
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // If it panicked, the terminal was restored and the panic reported.
            let _ = thread.join();
        }
    }
}

/// Shows the model until the user leaves, the trial is over or interrupted, or the terminal is gone.
fn show(mut screen: Screen, shared: &ViewState, started: Instant, interrupt: &Interrupt) {
    let left = loop {
        if shared.is_over.load(Ordering::Relaxed) || interrupt.is_raised() {
            break false;
        }
        match step(&mut screen, shared, started) {
            Ok(Some(Wish::Quit)) => break true,
            Ok(Some(Wish::Interrupt)) => interrupt.signal(),
            Ok(_) => {}
            Err(_) => break false,
        }
    };
    drop(screen);
    let note = match (left, interrupt.is_raised()) {
        (true, _) => "the trial continues; Ctrl-C stops it",
        (false, true) => "stopping the trial; the partial answer follows",
        (false, false) => return,
    };
    let _ = writeln!(anstream::stderr(), "{note}");
}

/// Draws if it is time to, and waits for a wish.
fn step(screen: &mut Screen, shared: &ViewState, started: Instant) -> io::Result<Option<Wish>> {
    let mut shown = shared.lock();
    let mut due = screen.due(shown.has_changed, shown.is_measuring);
    if due.is_zero() {
        screen.draw(&shown.model, started.elapsed().as_secs_f64())?;
        shown.has_changed = false;
        due = screen.due(false, shown.is_measuring);
    }
    // Events in the meantime are drawn with the next picture, at the latest after a quarter of a second.
    if !shown.is_measuring {
        due = due.min(Duration::from_millis(250));
    }
    let contrasts = shown.model.contrasts.len();
    drop(shown);
    screen.wait(due.min(MAX_SLEEP), contrasts)
}
