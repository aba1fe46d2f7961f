//! What ends a command early: Ctrl-C and its like.

use std::{
    io::{IsTerminal, Write},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// What interrupts.
const SIGNALS: [i32; 3] =
    [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP];
/// After this long, nothing that is being put back is waited for: what is left is reported, and the command ends. Of the eight
/// seconds that are promised, two are for killing and detaching.
const GRACE: Duration = Duration::from_secs(6);
/// What an agent has less of it: its last words must still be heard.
const FOR_LAST_WORDS: Duration = Duration::from_secs(2);
/// What is said at once when a signal comes.
const HEARD: &str = "interrupted: ending the run and putting everything back (a second time ends at once; then run `fstrial clean`)";

/// Raised by Ctrl-C; looked at between and during runs.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    raised: Arc<AtomicBool>,
    /// A signal came: the next one ends the process at once.
    signalled: Arc<AtomicBool>,
    /// When that was first seen.
    since: Arc<OnceLock<Instant>>,
    /// The process is an agent.
    is_agents: Arc<AtomicBool>,
    /// When time is over, whatever is being waited for.
    end: Arc<Mutex<Option<Instant>>>,
    /// A signal ends the process at once: nothing needs to be put back.
    at_once: Arc<AtomicBool>,
}

impl Interrupt {
    /// Whether it was raised, or time is over.
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

    /// Whether it was raised so long ago that nobody should wait for anything any more.
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

    /// Whether time is over, and nothing else has raised it.
    pub fn is_time_over(&self) -> bool {
        self.is_raised() && !self.was_raised()
    }

    /// Raises it for another reason than a signal.
    pub fn raise(&self) {
        self.raised.store(true, Ordering::Relaxed);
    }

    /// Does what a signal does: a key was pressed that is Ctrl-C elsewhere.
    pub fn signal(&self) {
        self.signalled.store(true, Ordering::Relaxed);
        self.raise();
    }

    /// Whether the first signal is to end the process at once: as long as nothing would have to be put back.
    pub fn end_at_once(&self, at_once: bool) {
        self.at_once.store(at_once, Ordering::Relaxed);
    }

    /// Raises it at SIGINT, SIGTERM and SIGHUP; a second one ends the process at once.
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

    /// Raises it at SIGINT; a second one ends the process at once. Other signals end it as they do any process: its jobs go on.
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

    /// The same, and says on standard error that it was heard, whatever the rest of the process waits for.
    ///
    /// # Errors
    /// As [`at_signals`](Self::at_signals).
    pub fn announced() -> std::io::Result<Self> {
        let interrupt = Self::at_signals()?;
        let mut signals = signal_hook::iterator::Signals::new(SIGNALS)?;
        let heard = interrupt.clone();
        thread::spawn(move || {
            if signals.forever().next().is_some() {
                heard.is_raised();
                // In one write, on a line of its own.
                let begin = if std::io::stderr().is_terminal() { "\r\x1b[K" } else { "" };
                let _ = std::io::stderr().write_all(format!("{begin}{HEARD}\n").as_bytes());
            }
        });
        Ok(interrupt)
    }
}
