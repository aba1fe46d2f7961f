//! Forced ends of a trial.

use super::{
    plain,
    traces::{agent_of, descendants, serving, worker_of},
};
use crate::{child, lab::Lab};
use rustix::{
    process::{Pid, Signal, kill_process, kill_process_group},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};
use std::{
    fs::File,
    io::Read,
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    process::{Child, ExitStatus, Stdio},
    time::Duration,
};

/// The signal and its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Coordinator,
    Everything,
    Worker,
    Inner,
    Agent,
    StopAndContinue,
    Term,
    Int,
    Hup,
    TerminalClosed,
    Abort,
    IntThenKill,
    IntTwice,
    WorkerStoppedThenKill,
    DeviceServerStopped,
}

use Way::{
    Abort, Agent, Coordinator, DeviceServerStopped, Everything, Hup, Inner, Int, IntThenKill, IntTwice,
    StopAndContinue, Term, TerminalClosed, Worker, WorkerStoppedThenKill,
};

pub(super) const WAYS: [Way; 15] = [
    Coordinator,
    Everything,
    Worker,
    Inner,
    Agent,
    StopAndContinue,
    Term,
    Int,
    Hup,
    TerminalClosed,
    Abort,
    IntThenKill,
    IntTwice,
    WorkerStoppedThenKill,
    DeviceServerStopped,
];

/// The expected end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// In order: nothing is left, even before `clean`.
    Polite,
    /// Immediately: `clean` removes the leftovers.
    Killed,
}

/// A trial that has begun.
pub(super) struct Started {
    pub(super) child: Child,
    /// The other side of its terminal, if it has one.
    terminal: Option<OwnedFd>,
}

impl Started {
    /// The first three lines of standard error, joined by ` / `.
    pub(super) fn complaint(&mut self) -> String {
        let mut message = String::new();
        if let Some(stderr) = self.child.stderr.take() {
            let _ = stderr.take(4096).read_to_string(&mut message);
        }
        message.lines().take(3).collect::<Vec<_>>().join(" / ")
    }
}

/// Starts a trial; on a terminal, if that is to be closed.
pub(super) fn start(lab: &Lab, way: Way, words: &str) -> Started {
    if way != TerminalClosed {
        let mut command = lab.fstrial(words);
        plain(&mut command);
        let child = command.spawn().expect("the program can be started");
        return Started { child, terminal: None };
    }
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
    grantpt(&master).and_then(|()| unlockpt(&master)).expect("a terminal");
    let name = ptsname(&master, Vec::new()).expect("a terminal has a name");
    let path = name.to_str().expect("a terminal has a plain name");
    let slave = File::options().read(true).write(true).open(path).expect("a terminal can be opened");
    let mut command = lab.behind(&["setsid", "--ctty"], words);
    plain(&mut command);
    let child = command.stdin(Stdio::from(slave)).spawn().expect("the program can be started");
    Started { child, terminal: Some(master) }
}

impl Way {
    pub(super) fn end(self) -> End {
        match self {
            Term | Int | Hup | TerminalClosed | Worker | Inner | Agent | StopAndContinue
            | DeviceServerStopped => End::Polite,
            Coordinator | Everything | Abort | IntThenKill | IntTwice | WorkerStoppedThenKill => End::Killed,
        }
    }

    /// Signals the process that exists at this moment; returns its description.
    pub(super) fn strike(self, started: &mut Started) -> String {
        let command = started.child.id();
        let outer = worker_of(command);
        let inner = outer.and_then(worker_of);
        let moment = Duration::from_millis(60);
        match self {
            Coordinator => send(command, Signal::KILL),
            Everything => {
                let all = descendants(command);
                send(command, Signal::KILL);
                all.into_iter().for_each(|pid| send(pid, Signal::KILL));
            }
            Worker | Inner | Agent => {
                let victim = match self {
                    Worker => outer,
                    Inner => inner,
                    _ => agent_of(command),
                };
                victim.into_iter().for_each(|pid| send(pid, Signal::KILL));
                // The trial continues with another worker, and then ends in order.
                child::pause(moment * 4);
                send(command, Signal::INT);
            }
            StopAndContinue => {
                send(command, Signal::STOP);
                child::pause(moment * 3);
                send(command, Signal::CONT);
                child::pause(moment);
                send(command, Signal::INT);
            }
            Term => send(command, Signal::TERM),
            Int => send(command, Signal::INT),
            Hup => send(command, Signal::HUP),
            TerminalClosed => drop(started.terminal.take()),
            Abort => send(command, Signal::ABORT),
            IntThenKill => {
                send(command, Signal::INT);
                child::pause(moment);
                send(command, Signal::KILL);
            }
            IntTwice => {
                send(command, Signal::INT);
                child::pause(moment / 10);
                send(command, Signal::INT);
            }
            DeviceServerStopped => {
                // Only a modelled device has one: its users hang.
                serving(command).into_iter().for_each(|pid| send(pid, Signal::STOP));
                child::pause(moment * 2);
                send(command, Signal::INT);
            }
            WorkerStoppedThenKill => {
                if let Some(group) = outer.and_then(pid) {
                    let _ = kill_process_group(group, Signal::STOP);
                }
                send(command, Signal::KILL);
            }
        }
        format!("worker {outer:?}, inner {inner:?}")
    }

    /// True if a command may end in this way after such a signal.
    pub(super) fn may_end_so(self, status: ExitStatus) -> bool {
        match self {
            Coordinator | Everything | WorkerStoppedThenKill => status.signal() == Some(9),
            IntThenKill => status.signal() == Some(9) || status.code() == Some(130),
            Abort => status.signal() == Some(6),
            // Killed while the place is being opened, the command ends because it has no place.
            Agent => matches!(status.code(), Some(2 | 130)),
            Worker | Inner | Term | Int | Hup | TerminalClosed | StopAndContinue | IntTwice
            | DeviceServerStopped => status.code() == Some(130),
        }
    }
}

fn pid(number: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(number).ok()?)
}

pub(super) fn kill(number: u32) {
    send(number, Signal::KILL);
}

fn send(number: u32, signal: Signal) {
    // It may be gone already.
    if let Some(pid) = pid(number) {
        let _ = kill_process(pid, signal);
    }
}
