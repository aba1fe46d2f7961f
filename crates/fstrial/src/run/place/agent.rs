//! The other end of a [`Remote`](super::remote::Remote) place: this host, for a trial that runs elsewhere.
//!
//! Orders come on standard input and answers go to standard output. When the input ends, the trial is gone: the agent ends
//! its run and takes everything down as after an interruption.

use super::{
    Opening, Place,
    host::Host,
    wire::{self, Answer, Order, PULSE, WIRE},
};
use crate::{
    error::ExpectedError,
    exit_code,
    run::{event::Event, interrupt::Interrupt, plan::Plan},
};
use fstrial_model::{device::LogKind, trial::Trial};
use fstrial_stack::{device::Permission, ledger::Ledger};
use std::{
    io::{Stdout, Write},
    path::Path,
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
};

/// Serves one trial to its end. What is made lies in `folder`.
///
/// # Errors
/// What was made cannot be put back. Whatever else goes wrong is told to the trial.
pub fn serve(ledger: &Ledger, folder: &Path, interrupt: &Interrupt) -> Result<u8, ExpectedError> {
    let say = Voice(Arc::new(Mutex::new(std::io::stdout())));
    let orders = orders(interrupt);
    let pulse = say.clone();
    thread::spawn(move || {
        while pulse.say(&Answer::Alive) {
            thread::park_timeout(PULSE);
        }
    });
    let opened = match orders.recv() {
        Ok(Order::Open { wire: WIRE, place, trial, seed, cpus }) => {
            open((&place, &trial, seed, cpus), ledger, folder, interrupt, &say)
        }
        Ok(Order::Open { wire, .. }) => Err(ExpectedError::usage(
            format!("the trial speaks version {wire} to its places, and this agent {WIRE}"),
            "use one version of fstrial everywhere",
        )),
        _ => Err(ExpectedError::usage(
            "`fstrial agent` heard no trial on its standard input",
            "it is started by the command of a place: `fstrial compare --place NAME=COMMAND`",
        )),
    };
    let mut host = match opened {
        Ok(host) => host,
        Err(error) => return refuse(&say, error),
    };
    let (environment, data) = (Box::new(host.environment().clone()), host.data());
    say.say(&Answer::Opened { environment, data });
    while let Ok(Order::Run { job }) = orders.recv() {
        let ended = host.run(&job, &mut |message| {
            say.say(&Answer::Worker { message: message.clone() });
        });
        say.say(&Answer::Ended { ended, warnings: host.warnings() });
    }
    match Box::new(host).close() {
        Ok(()) => {
            say.say(&Answer::Closed);
            Ok(exit_code::VERDICT)
        }
        Err(error) => refuse(&say, error),
    }
}

/// Tells the trial of an error, and ends with it.
fn refuse(say: &Voice, error: ExpectedError) -> Result<u8, ExpectedError> {
    let (what, hint, code) = (error.in_full(), error.hint(), error.exit_code());
    say.say(&Answer::Refused { what, hint, code });
    Err(error)
}

/// The orders that come. That to interrupt is heard at once, whatever else is being done, and so is the end of them.
fn orders(interrupt: &Interrupt) -> mpsc::Receiver<Order> {
    let (sender, orders) = mpsc::channel();
    let (raised, gone) = (interrupt.clone(), interrupt.clone());
    let lines = wire::receive(std::io::stdin(), move || gone.raise());
    thread::spawn(move || {
        // What is no order ends the trial as well: nobody knows what the other side thinks.
        while let Ok(Ok(order)) = lines.recv() {
            match order {
                Order::Interrupt => raised.raise(),
                order => drop(sender.send(order)),
            }
        }
        raised.raise();
    });
    orders
}

/// Standard output, for the thread that works and the one that says that it does.
#[derive(Clone)]
struct Voice(Arc<Mutex<Stdout>>);

impl Voice {
    /// Whether anybody listens.
    fn say(&self, answer: &Answer) -> bool {
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // If the trial is gone, the end of its orders says so.
        wire::send(&mut *out, answer).and_then(|()| out.flush()).is_ok()
    }
}

/// Makes the devices of a trial here.
fn open(
    (place, trial, seed, cpus): (&str, &str, u64, u16),
    ledger: &Ledger,
    folder: &Path,
    interrupt: &Interrupt,
    say: &Voice,
) -> Result<Host, ExpectedError> {
    let trial = here(Trial::parse("the trial", trial)?, place, folder)?;
    let plan = Plan::new(trial, seed, cpus)?;
    let mut tell = |event: &Event<'_>| {
        if let &Event::DeviceProgress { done, total } = event {
            say.say(&Answer::Preparing { done, total });
        }
    };
    let permission = Permission::default();
    let opening = Opening {
        place: Some(place),
        ledger,
        interrupt,
        permission: &permission,
        state_folder: folder,
        precondition: None,
        tell: &mut tell,
    };
    Host::open(&plan, opening)
}

/// The trial as it concerns this place: its own arms, on devices that are made in its folder. Nothing that is here already
/// is ever taken for a device: whoever wrote the trial spoke of files and disks of another host.
fn here(mut trial: Trial, place: &str, folder: &Path) -> Result<Trial, ExpectedError> {
    if !trial.device.kind.is_made() {
        return Err(ExpectedError::usage(
            format!("a {} is of the host of the trial only", trial.device.kind.name()),
            "use an image, a ramdisk or a modelled device",
        ));
    }
    let is_file = trial.device.kind.is_file();
    trial.device.path = (is_file || trial.device.path.is_some()).then(|| folder.to_owned());
    if let Some(log) = &mut trial.log_device {
        log.path = (log.kind == LogKind::Image).then(|| folder.to_owned());
    }
    if trial.arms.iter().all(|arm| arm.place.as_deref() != Some(place)) {
        return Err(ExpectedError::usage(
            format!("no arm of the trial is at the place `{place}`"),
            "use one version of fstrial everywhere",
        ));
    }
    Ok(trial)
}
