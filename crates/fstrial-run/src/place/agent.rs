//! The other end of a [`Remote`](super::remote::Remote) place: this host, for a trial that runs elsewhere.
//!
//! Orders come on standard input and answers go to standard output. When the input ends, or nothing comes for too long,
//! the trial is gone: the agent ends its run and takes everything down as after an interruption.

use super::{
    Opening, Place,
    allowed::is_planned,
    host::Host,
    wire::{self, AgentAnswer, AgentOrder, PULSE, SILENCE, Voice, WIRE},
};
use crate::{
    attached::Arriving, environment, error::ExpectedError, event::Event, exit_code, interrupt::Interrupt,
    plan::Plan,
};
use fstrial_model::{
    device::LogKind,
    place::{Clock, PlaceSpec},
    trial::Trial,
};
use fstrial_stack::{device::Permission, ledger::Ledger};
use std::{io::Read, path::Path, sync::mpsc, thread, time::Duration};

/// Time limit for the last messages.
const REAP_TIMEOUT: Duration = Duration::from_secs(5);

/// Resources of an agent.
pub struct Prepared {
    /// Ledger of changes that outlive a process.
    pub ledger: Ledger,
    /// The folder in which everything is made.
    pub folder: std::path::PathBuf,
}

/// Serves one trial to its end. `prepare` undoes the leftovers of an earlier agent, and makes sure that this is the
/// only one.
///
/// # Errors
/// A change cannot be undone, or nothing can be made. The trial is notified as well.
pub fn serve(
    prepare: impl FnOnce() -> Result<Prepared, ExpectedError>,
    interrupt: &Interrupt,
) -> Result<u8, ExpectedError> {
    let voice = Voice::to(std::io::stdout(), PULSE, || AgentAnswer::Alive);
    // A guest ends with its trial anyway, and its clock may run fast.
    let silence = if fstrial_vm::guest::is_inside() { Duration::MAX } else { SILENCE };
    let orders = orders(std::io::stdin(), silence, interrupt);
    let served = attend(prepare, &orders, &voice, interrupt);
    voice.say(match &served {
        Ok(()) => AgentAnswer::Closed,
        Err(error) => {
            AgentAnswer::Refused { what: error.in_full(), hint: error.hint(), code: error.exit_code() }
        }
    });
    voice.end(REAP_TIMEOUT);
    served.map(|()| exit_code::VERDICT)
}

/// Carries out orders.
fn attend(
    prepare: impl FnOnce() -> Result<Prepared, ExpectedError>,
    orders: &mpsc::Receiver<AgentOrder>,
    voice: &Voice<AgentAnswer>,
    interrupt: &Interrupt,
) -> Result<(), ExpectedError> {
    let (place, trial, seed, cpus) = match orders.recv() {
        Ok(AgentOrder::Open { wire: WIRE, fstrial, place, trial, seed, cpus })
            if fstrial == env!("CARGO_PKG_VERSION") =>
        {
            (place, trial, seed, cpus)
        }
        Ok(AgentOrder::Open { wire, fstrial, .. }) => {
            return Err(ExpectedError::usage(
                format!(
                    "the trial is run by fstrial {fstrial} (protocol {wire}), and this is {} (protocol {WIRE})",
                    env!("CARGO_PKG_VERSION")
                ),
                "use one version of fstrial everywhere",
            ));
        }
        Ok(AgentOrder::Close) => return prepare().map(drop),
        _ => {
            return Err(ExpectedError::usage(
                "`fstrial agent` received no trial on its standard input",
                "it is started by the command of a place: `fstrial compare --place NAME=COMMAND`",
            ));
        }
    };
    let prepared = prepare()?;
    let trial = here(Trial::parse("the trial", &trial)?, &place, &prepared.folder)?;
    let plan = Plan::new(trial.settled(cpus)?, seed)?;
    let mut host = open(&place, &plan, &prepared, interrupt, voice)?;
    let (mut environment, data) = (Box::new(host.environment().clone()), host.data());
    let is_virtual = |spec: &PlaceSpec| spec.name == place && plan.trial.clock_at(spec) == Clock::Virtual;
    if plan.trial.places.iter().any(is_virtual) {
        // The features of an emulated processor depend on QEMU's version, which is part of its machine's name.
        let machine = environment::line("/sys/class/dmi/id/product_version").unwrap_or_default();
        environment.clocksource = format!("virtual, 1 ns an instruction ({machine})");
    }
    voice.say(AgentAnswer::Opened { environment, data });
    let mut arriving = Arriving::default();
    loop {
        let job = match orders.recv() {
            Ok(AgentOrder::Put { digest, part, is_last }) => {
                let content = arriving.take(&plan, &digest, &part, is_last)?;
                content.iter().for_each(|content| host.put(content));
                voice.say(AgentAnswer::Taken);
                continue;
            }
            Ok(AgentOrder::Run { job }) => job,
            _ => break,
        };
        if !is_planned(&plan, &place, &job) {
            return Err(ExpectedError::usage(
                "the trial asks for a run that its plan does not have",
                "use one version of fstrial everywhere",
            ));
        }
        let ended = host
            .run(&job, &mut |message| voice.say(AgentAnswer::Worker { message: Box::new(message.clone()) }));
        voice.say(AgentAnswer::Ended { ended, warnings: host.warnings() });
    }
    Box::new(host).close()
}

/// The incoming orders. An interrupt order takes effect immediately, as does the end of the stream; an invalid line
/// ends the trial as well, because the state of the other side is unknown.
fn orders(
    from: impl Read + Send + 'static,
    silence: Duration,
    interrupt: &Interrupt,
) -> mpsc::Receiver<AgentOrder> {
    // A trial waits for the end of each.
    let (sender, orders) = mpsc::sync_channel(4);
    let interrupt = interrupt.clone();
    let lines = wire::receive(from);
    thread::spawn(move || {
        while let Ok(Ok(order)) = lines.recv_timeout(silence) {
            match order {
                AgentOrder::Alive => {}
                AgentOrder::Interrupt => interrupt.raise(),
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
    voice: &Voice<AgentAnswer>,
) -> Result<Host, ExpectedError> {
    let mut tell = |event: &Event<'_>| {
        if let &Event::DeviceProgress { done, total } = event {
            voice.say(AgentAnswer::Preparing { done, total });
        }
    };
    let permission = Permission::default();
    let opening = Opening {
        place: Some(place),
        ledger,
        interrupt,
        permission: &permission,
        state_folder: folder,
        inputs: &[],
        precondition: None,
        tell: &mut tell,
    };
    Host::open(plan, opening)
}

/// This place's part of the trial: its arms, on devices made in its folder. An existing file or disk is never used as a
/// device: the trial's author meant those of another host.
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
    fn silent_trial_connection_raises_interrupt() {
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
        // The connection is still open.
        near.write_all(b"\n").unwrap();
    }
}
