//! The other end of a [`Remote`](super::remote::Remote) place: this host, for a trial that runs elsewhere.
//!
//! Orders come on standard input and answers go to standard output. When the input ends, or nothing comes for too long, the
//! trial is gone: the agent ends its run and takes everything down as after an interruption.

use super::{
    Opening, Place,
    allowed::is_planned,
    host::Host,
    wire::{self, Answer, Order, PULSE, SILENCE, Voice, WIRE},
};
use crate::{environment, error::ExpectedError, event::Event, exit_code, interrupt::Interrupt, plan::Plan};
use fstrial_model::{
    device::LogKind,
    place::{Clock, Place as Spec},
    trial::Trial,
};
use fstrial_stack::{device::Permission, ledger::Ledger};
use std::{io::Read, path::Path, sync::mpsc, thread, time::Duration};

/// How long the last words may take.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What an agent works with.
pub struct Prepared {
    /// Where what a dying process cannot undo is written down.
    pub ledger: Ledger,
    /// The folder in which everything is made.
    pub folder: std::path::PathBuf,
}

/// Serves one trial to its end. `prepare` puts back what an agent before has left, and makes sure that this is the only
/// one.
///
/// # Errors
/// What was made cannot be put back, or nothing can be made. The trial is told as well.
pub fn serve(
    prepare: impl FnOnce() -> Result<Prepared, ExpectedError>,
    interrupt: &Interrupt,
) -> Result<u8, ExpectedError> {
    let voice = Voice::to(std::io::stdout(), PULSE, || Answer::Alive);
    // A guest goes with its trial anyway, and its seconds may be short.
    let silence = if fstrial_vm::guest::is_inside() { Duration::MAX } else { SILENCE };
    let orders = orders(std::io::stdin(), silence, interrupt);
    let served = attend(prepare, &orders, &voice, interrupt);
    voice.say(match &served {
        Ok(()) => Answer::Closed,
        Err(error) => Answer::Refused { what: error.in_full(), hint: error.hint(), code: error.exit_code() },
    });
    voice.end(LAST_WORDS);
    served.map(|()| exit_code::VERDICT)
}

/// Does what is ordered.
fn attend(
    prepare: impl FnOnce() -> Result<Prepared, ExpectedError>,
    orders: &mpsc::Receiver<Order>,
    voice: &Voice<Answer>,
    interrupt: &Interrupt,
) -> Result<(), ExpectedError> {
    let (place, trial, seed, cpus) = match orders.recv() {
        Ok(Order::Open { wire: WIRE, fstrial, place, trial, seed, cpus })
            if fstrial == env!("CARGO_PKG_VERSION") =>
        {
            (place, trial, seed, cpus)
        }
        Ok(Order::Open { wire, fstrial, .. }) => {
            return Err(ExpectedError::usage(
                format!(
                    "the trial is run by fstrial {fstrial} (protocol {wire}), and this is {} (protocol {WIRE})",
                    env!("CARGO_PKG_VERSION")
                ),
                "use one version of fstrial everywhere",
            ));
        }
        Ok(Order::Close) => return prepare().map(drop),
        _ => {
            return Err(ExpectedError::usage(
                "`fstrial agent` heard no trial on its standard input",
                "it is started by the command of a place: `fstrial compare --place NAME=COMMAND`",
            ));
        }
    };
    let prepared = prepare()?;
    let trial = here(Trial::parse("the trial", &trial)?, &place, &prepared.folder)?;
    let plan = Plan::new(trial.settled(cpus)?, seed)?;
    let mut host = open(&place, &plan, &prepared, interrupt, voice)?;
    let (mut environment, data) = (Box::new(host.environment().clone()), host.data());
    let is_virtual = |spec: &Spec| spec.name == place && plan.trial.clock_at(spec) == Clock::Virtual;
    if plan.trial.places.iter().any(is_virtual) {
        // What an emulated processor can do depends on QEMU's version, which its machine has in its name.
        let machine = environment::line("/sys/class/dmi/id/product_version").unwrap_or_default();
        environment.clocksource = format!("virtual, 1 ns an instruction ({machine})");
    }
    voice.say(Answer::Opened { environment, data });
    while let Ok(Order::Run { job }) = orders.recv() {
        if !is_planned(&plan, &place, &job) {
            return Err(ExpectedError::usage(
                "the trial asks for a run that its plan does not have",
                "use one version of fstrial everywhere",
            ));
        }
        let ended =
            host.run(&job, &mut |message| voice.say(Answer::Worker { message: Box::new(message.clone()) }));
        voice.say(Answer::Ended { ended, warnings: host.warnings() });
    }
    Box::new(host).close()
}

/// The orders that come. That to interrupt is heard at once, whatever else is being done, and so is the end of them; what is not an
/// order ends the trial as well, because nobody knows what the other side thinks.
fn orders(
    from: impl Read + Send + 'static,
    silence: Duration,
    interrupt: &Interrupt,
) -> mpsc::Receiver<Order> {
    // A trial waits for the end of each.
    let (sender, orders) = mpsc::sync_channel(4);
    let interrupt = interrupt.clone();
    let lines = wire::receive(from);
    thread::spawn(move || {
        while let Ok(Ok(order)) = lines.recv_timeout(silence) {
            match order {
                Order::Alive => {}
                Order::Interrupt => interrupt.raise(),
                order => {
                    if sender.try_send(order).is_err() {
                        break;
                    }
                }
            }
        }
        interrupt.raise();
    });
    orders
}

/// Makes the devices of a trial here.
fn open(
    place: &str,
    plan: &Plan,
    Prepared { ledger, folder }: &Prepared,
    interrupt: &Interrupt,
    voice: &Voice<Answer>,
) -> Result<Host, ExpectedError> {
    let mut tell = |event: &Event<'_>| {
        if let &Event::DeviceProgress { done, total } = event {
            voice.say(Answer::Preparing { done, total });
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
    Host::open(plan, opening)
}

/// The trial as it concerns this place: its own arms, on devices that are made in its folder. Nothing that is here already
/// is ever taken for a device: anyone who wrote the trial spoke of files and disks of another host.
fn here(mut trial: Trial, place: &str, folder: &Path) -> Result<Trial, ExpectedError> {
    if !trial.device.kind.is_made() {
        return Err(ExpectedError::usage(
            format!("a {} can only be used on the host of the trial", trial.device.kind.name()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Write, os::unix::net::UnixStream};

    #[test]
    fn a_trial_that_says_nothing_for_too_long_is_gone() {
        let (mut near, far) = UnixStream::pair().unwrap();
        let interrupt = Interrupt::default();
        let orders = orders(far, Duration::from_millis(500), &interrupt);
        for _ in 0..10 {
            near.write_all(b"{\"order\":\"alive\"}\n").unwrap();
            thread::park_timeout(Duration::from_millis(100));
        }
        assert!(!interrupt.is_raised(), "it said that it is alive for a second");
        assert!(orders.recv().is_err(), "no order came");
        assert!(interrupt.is_raised());
        // Nobody has hung up.
        near.write_all(b"\n").unwrap();
    }
}
