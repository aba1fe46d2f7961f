//! Early ends of a command: Ctrl-C and other signals.

use std::{
    io::{IsTerminal, Write},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Signals that interrupt.
const SIGNALS: [i32; 3] =
    [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP];
/// Time limit for restoring: after it, the leftovers are reported, and the command ends. Of the promised eight seconds,
/// two are for killing and detaching.
const GRACE: Duration = Duration::from_secs(6);
/// Reduction for an agent: its last messages must still arrive.
const FOR_LAST_WORDS: Duration = Duration::from_secs(2);
/// Message on the first signal.
const HEARD: &str = "interrupted: ending the run and restoring the host (a second time ends immediately; then run \
     `fstrial clean`)";

/// Raised by Ctrl-C; looked at between and during runs.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    raised: Arc<AtomicBool>,
    /// A signal came: the next one ends the process immediately.
    signalled: Arc<AtomicBool>,
    /// When that was first seen.
    since: Arc<OnceLock<Instant>>,
    /// The process is an agent.
    is_agents: Arc<AtomicBool>,
    /// Deadline of all waits.
    end: Arc<Mutex<Option<Instant>>>,
    /// A signal ends the process immediately: there is nothing to restore.
    at_once: Arc<AtomicBool>,
}

impl Interrupt {
    /// True if it was raised, or time is over.
    pub fn is_raised(&self) -> bool {
        self.was_raised() || self.end().is_some_and(|end| Instant::now() >= end)
    }

    fn was_raised(&self) -> bool {
        let was_raised = self.raised.load(Ordering::Relaxed);
        if was_raised {
            self.since.get_or_init(Instant::now);
        }
        was_raised
    }

    /// True if it was raised so long ago that all waits should end.
    pub fn is_overdue(&self) -> bool {
        let less = if self.is_agents.load(Ordering::Relaxed) { FOR_LAST_WORDS } else { Duration::ZERO };
        self.was_raised() && self.since.get().is_some_and(|since| since.elapsed() > GRACE - less)
    }

    /// The process is an agent: a trial waits for it, for as long as it has itself.
    pub fn of_an_agent(self) -> Self {
        self.is_agents.store(true, Ordering::Relaxed);
        self
    }

    /// Raises it at a moment; with none, no more.
    pub fn end_at(&self, moment: Option<Instant>) {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = moment;
    }

    /// Raises it later than it was to be, by this time.
    pub fn end_later(&self, by: Duration) {
        self.end_at(self.end().and_then(|end| end.checked_add(by)));
    }

    fn end(&self) -> Option<Instant> {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if time is over, and nothing else has raised it.
    pub fn is_time_over(&self) -> bool {
        self.is_raised() && !self.was_raised()
    }

    /// Raises it for another reason than a signal.
    pub fn raise(&self) {
        self.raised.store(true, Ordering::Relaxed);
    }

    /// Has the effect of a signal: for a key that is Ctrl-C elsewhere.
    pub fn signal(&self) {
        self.signalled.store(true, Ordering::Relaxed);
        self.raise();
    }

    /// Sets whether the first signal ends the process immediately: while there is nothing to restore.
    pub fn end_at_once(&self, at_once: bool) {
        self.at_once.store(at_once, Ordering::Relaxed);
    }

    /// Raises it at SIGINT, SIGTERM and SIGHUP; a second one ends the process immediately.
    ///
    /// # Errors
    /// The handlers cannot be set.
    pub fn at_signals() -> std::io::Result<Self> {
        let interrupt = Self::default();
        for signal in SIGNALS {
            // In this order: the first signal finds the flag down and raises it, the second one finds it up.
            for ends in [&interrupt.signalled, &interrupt.at_once] {
                let code = i32::from(crate::exit_code::INTERRUPTED);
                signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(ends))?;
            }
            for raises in [&interrupt.signalled, &interrupt.raised] {
                signal_hook::flag::register(signal, Arc::clone(raises))?;
            }
        }
        Ok(interrupt)
    }

    /// Raises it at SIGINT; a second one ends the process immediately. Other signals keep their default: the jobs
    /// continue.
    ///
    /// # Errors
    /// The handlers cannot be set.
    pub fn at_ctrl_c() -> std::io::Result<Self> {
        let interrupt = Self::default();
        let (signal, code) = (signal_hook::consts::SIGINT, i32::from(crate::exit_code::INTERRUPTED));
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&interrupt.signalled))?;
        for raises in [&interrupt.signalled, &interrupt.raised] {
            signal_hook::flag::register(signal, Arc::clone(raises))?;
        }
        Ok(interrupt)
    }

    /// The same, with an immediate message on standard error, independent of the rest of the process.
    ///
    /// # Errors
    /// As [`at_signals`](Self::at_signals).
    pub fn announced() -> std::io::Result<Self> {
        let interrupt = Self::at_signals()?;
        let mut signals = signal_hook::iterator::Signals::new(SIGNALS)?;
        let received = interrupt.clone();
        thread::spawn(move || {
            if signals.forever().next().is_some() {
                received.is_raised();
                // In one write, on a separate line.
                let begin = if std::io::stderr().is_terminal() { "\r\x1b[K" } else { "" };
                let _ = std::io::stderr().write_all(format!("{begin}{HEARD}\n").as_bytes());
            }
        });
        Ok(interrupt)
    }
}
