//! A session of rounds: the places of a plan are opened once, its rounds run there, and everything is released, however
//! that ended. With or without a store: a listener does the storing.

use super::{
    attached::{self, Content},
    boots::Booted,
    clock::{Clock, MachineClock},
    coordinator::{Context, Coordinator, Finished},
    environment,
    event::{Event, Listener, Silent},
    interrupt::Interrupt,
    place::{self, Opening, Place, reach::Reach},
    plan::Plan,
    round::Earlier,
};
use crate::{error::ExpectedError, exit_code};
use fstrial_model::units::Nanos;
use fstrial_stack::{StackError, device::Permission, ledger::Ledger};
use std::{path::Path, time::Instant};

/// Time beyond its budget after which a session abandons its waits: its last run begins only if it is expected to end
/// in time, but the duration of a program or an agent is not known before.
const OVERTIME: Nanos = Nanos::secs(600);

/// Inputs of a session.
pub struct Session<'s, 'p> {
    pub plan: &'p Plan,
    /// The role of this boot in the trial, if arms are on boots. Without a part for it nothing is opened.
    pub booted: Option<Booted>,
    /// The commands that reach other places.
    pub reaches: &'s [Reach],
    pub clock: &'s dyn Clock,
    /// Raised by Ctrl-C.
    pub interrupt: &'s Interrupt,
    /// Ledger of changes that outlive a process.
    pub ledger: &'s Ledger,
    /// Erasable disks.
    pub permission: &'s Permission,
    /// Folder of prepared filesystems.
    pub state_folder: &'s Path,
    /// Bring a disk to its steady state first: the length of a round of that.
    pub precondition: Option<Nanos>,
    /// Upper limit of a default budget, which may be raised once the first round is timed.
    pub longest: Option<Nanos>,
}

/// Result of a session, and the errors of places that could not be given up.
pub struct SessionEnd<T> {
    /// Result of the work at its places.
    pub done: Result<T, ExpectedError>,
    /// Why places could not be given up.
    pub left: Vec<ExpectedError>,
}

/// Does something at the places of a plan, those elsewhere by these commands, without a listener or a disk that may be erased, and gives
/// them up.
///
/// # Errors
/// A place cannot be reached, a device cannot be made or given up, or that of `body`.
pub fn unwatched<'p, T>(
    (plan, reaches): (&'p Plan, &[Reach]),
    interrupt: &Interrupt,
    ledger: &Ledger,
    body: impl FnOnce(&Session<'_, 'p>, &mut [Box<dyn Place>], &mut Silent) -> Result<T, ExpectedError>,
) -> Result<T, ExpectedError> {
    let session = Session {
        plan,
        booted: None,
        reaches,
        clock: &MachineClock::start(),
        interrupt,
        ledger,
        permission: &Permission::default(),
        state_folder: ledger.folder(),
        precondition: None,
        longest: None,
    };
    let SessionEnd { done, left } =
        session.at_its_places(&mut Silent, |places, silent| body(&session, places, silent));
    let done = done?;
    left.into_iter().next().map_or(Ok(done), Err)
}

impl<'p> Session<'_, 'p> {
    /// Opens its places, does something there, and gives them up.
    pub fn at_its_places<L: Listener, T>(
        &self,
        listener: &mut L,
        body: impl FnOnce(&mut [Box<dyn Place>], &mut L) -> Result<T, ExpectedError>,
    ) -> SessionEnd<T> {
        let mut places = Vec::new();
        let mut open = |inputs: Vec<Content>| {
            let opening = Opening {
                place: self.booted.and_then(|booted| self.plan.places[booted.place].as_deref()),
                ledger: self.ledger,
                interrupt: self.interrupt,
                permission: self.permission,
                state_folder: self.state_folder,
                inputs: &inputs,
                precondition: self.precondition,
                // Showing progress cannot fail a preparation.
                tell: &mut |event| drop(listener.hear(event)),
            };
            place::open_all(self.plan, environment::cpus(), self.reaches, opening, &mut places)
        };
        let opened = match self.booted.is_none_or(|booted| booted.has_part()) {
            true => attached::read(self.plan).and_then(&mut open),
            false => Ok(()),
        };
        let opened = opened.map_err(|error| match error.exit_code() {
            // After an interruption every error is one, unless a change is left to undo.
            code if self.interrupt.is_raised() && code != exit_code::CLEAN_UP_INCOMPLETE => {
                StackError::Interrupted.into()
            }
            _ => error,
        });
        let done = opened.and_then(|()| body(&mut places, listener));
        let left = places.into_iter().filter_map(|place| place.close().err()).collect();
        SessionEnd { done, left }
    }

    /// Runs the rounds of the plan at its places, after earlier ones.
    ///
    /// # Errors
    /// The trial cannot continue; verdicts so far are kept.
    pub fn rounds(
        &self,
        places: &mut [Box<dyn Place>],
        earlier: Earlier,
        listener: &mut dyn Listener,
    ) -> Result<Finished<'p>, ExpectedError> {
        for place in &*places {
            let environment = place.environment();
            let (device, notes) = (&environment.device, &environment.device_notes);
            listener.hear(&Event::DeviceReady { device, notes })?;
        }
        let unbudgeted: u64 = places.iter().map(|place| place.unbudgeted().0).sum();
        let deadline = Nanos(self.plan.trial.trial.budget.0 + unbudgeted);
        let limit = deadline.0.saturating_add(OVERTIME.0).saturating_sub(self.clock.now().0);
        self.interrupt.end_at(Instant::now().checked_add(Nanos(limit).duration()));
        let context = Context {
            places,
            clock: self.clock,
            listener: &mut *listener,
            interrupt: self.interrupt,
            deadline,
            longest: self.longest,
            booted: self.booted,
        };
        let finished = Coordinator::new(self.plan, context, earlier).run();
        let given_up = self.interrupt.is_time_over();
        // Cleaning up has no deadline.
        self.interrupt.end_at(None);
        if given_up {
            let lines =
                [format!("runs still in progress {OVERTIME} after the end of the budget were abandoned")];
            let noted = listener.hear(&Event::Noted { lines: &lines });
            return finished.and_then(|finished| noted.map(|()| finished));
        }
        finished
    }
}
