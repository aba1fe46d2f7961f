//! The server that the measured command talks to: started in a room that it shares with its clients, polled until it
//! answers, and stopped in order. If this process dies, the kernel ends it with the room.

use super::{Run, failure};
use fstrial_model::{
    job::{FailureKind, RunFailure},
    measurement::Stage,
    units::Nanos,
    workload::{Server, StopSignal},
};
use fstrial_stack::{
    StackError,
    command::CommandOutput,
    confined::{ExitedProgram, Input, Room, Session, StartedProgram},
};
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// Between two questions whether it is ready, and the longest that one may take.
const PAUSE: Duration = Duration::from_millis(20);
const ASK_DEADLINE: Nanos = Nanos::secs(30);
/// Time after the clients' end within which the server's end may be noticed: the kernel kills the others in the room
/// first.
const LAST_MOMENT: Duration = Duration::from_millis(500);

/// A server that runs. It goes before its room, which ends everything in it.
#[derive(Debug)]
pub(super) struct Running {
    server: StartedProgram,
    room: Room,
}

impl Running {
    /// Runs a command in the server's room.
    pub(super) fn run(&self, words: &[String], deadline: Nanos) -> Result<ExitedProgram, StackError> {
        self.room.start(words)?.wait(deadline)
    }

    /// Opens a session in the server's room.
    pub(super) fn open(&self, words: &[String]) -> Result<Session, StackError> {
        self.room.open(words)
    }

    fn has_ended(&self) -> bool {
        self.server.ends_within(Duration::ZERO).unwrap_or(true)
    }
}

fn signal(stop: StopSignal) -> Signal {
    match stop {
        StopSignal::Term => Signal::TERM,
        StopSignal::Interrupt => Signal::INT,
        StopSignal::Quit => Signal::QUIT,
        StopSignal::HangUp => Signal::HUP,
    }
}

/// The last lines that a server printed, for an error.
fn last_words(output: &CommandOutput) -> String {
    let lines = output.last_lines();
    if lines.is_empty() { "it printed nothing".into() } else { format!("its last lines:\n{lines}") }
}

impl Run<'_> {
    /// Starts the server and waits until it answers; nothing without one.
    pub(super) fn start_server(&mut self, stage: Stage) -> Result<(), RunFailure> {
        let Some(server) = &self.program.server else { return Ok(()) };
        // Loads and checks come as they are needed; the room must know the programs and the files that they name.
        let commands = server.commands().chain([&self.program.command]);
        let commands: Vec<Vec<String>> =
            commands.map(|command| self.words(command)).collect::<Result<_, _>>()?;
        let words: Vec<&[String]> = commands.iter().map(Vec::as_slice).collect();
        let inputs: Vec<&Input> = self.inputs.iter().collect();
        let failed = |error: StackError| failure(stage, &error);
        let room = self.place.enter(&words, &inputs).map_err(failed)?;
        let started = room.start(words[0]).map_err(failed)?;
        self.commands.push(started.line().to_owned());
        let running = Running { server: started, room };
        match await_ready(&running, server, words[1], stage)? {
            None => self.server = Some(running),
            Some(why) => return Err(never_ready(running, why, server.ready_within, stage)),
        }
        Ok(())
    }

    /// Stops the server in order; nothing without one. Its output is kept.
    pub(super) fn stop_server(&mut self, stage: Stage) -> Result<(), RunFailure> {
        let (Some(server), Some(Running { server: started, room })) =
            (&self.program.server, self.server.take())
        else {
            return Ok(());
        };
        started.signal(signal(server.stop));
        let line = started.line().to_owned();
        let in_time = started.ends_within(server.stop_within.duration()).map_err(|e| failure(stage, &e))?;
        if !in_time {
            let what = format!(
                "the server `{line}` did not stop within {}; {}",
                server.stop_within,
                last_words(&started.end())
            );
            let hint = Some("set `stop` to the signal it stops at, or raise `stop_within`".into());
            return Err(RunFailure { kind: FailureKind::ArmFailed, stage, what, hint });
        }
        let ended = started.wait(Nanos::secs(1)).map_err(|e| failure(stage, &e))?.finished;
        drop(room);
        if !ended.status.success() {
            let what = format!("the server `{line}` stopped with {}; {}", ended.status, last_words(&ended));
            let hint = Some("see the last lines of its output; `stop` is the signal that stops it".into());
            return Err(RunFailure { kind: FailureKind::ArmFailed, stage, what, hint });
        }
        self.server_said = format!("{}{}", ended.stdout, ended.stderr);
        Ok(())
    }

    /// The part of an ended server in a failed command; nothing if it runs.
    pub(super) fn end_of_server(&mut self) -> String {
        match self.server.take() {
            Some(running) if running.server.ends_within(LAST_MOMENT).unwrap_or(false) => {
                format!("\nthe server had ended; {}", last_words(&running.server.end()))
            }
            running => {
                self.server = running;
                String::new()
            }
        }
    }
}

/// Asks until the server answers. Some with the reason if it will not.
fn await_ready(
    running: &Running,
    server: &Server,
    ready: &[String],
    stage: Stage,
) -> Result<Option<String>, RunFailure> {
    let until = Instant::now() + server.ready_within.duration();
    loop {
        if running.has_ended() {
            return Ok(Some("ended before it was ready".into()));
        }
        let why = match running.run(ready, ASK_DEADLINE.min(server.ready_within)) {
            Ok(polled) if polled.finished.status.success() => return Ok(None),
            Ok(polled) => polled.finished.last_lines(),
            Err(error @ StackError::Deadline { .. }) => error.to_string(),
            Err(_) if running.has_ended() => continue,
            Err(error) => return Err(failure(stage, &error)),
        };
        if Instant::now() > until {
            let reason = if why.is_empty() { String::new() } else { format!(" ({why})") };
            return Ok(Some(format!("was not ready within {}{reason}", server.ready_within)));
        }
        let _ = running.server.ends_within(PAUSE);
    }
}

fn never_ready(running: Running, why: String, within: Nanos, stage: Stage) -> RunFailure {
    let is_slow = !running.has_ended();
    // A user who reads about a power cut knows the command.
    let line = if stage == Stage::Check { String::new() } else { format!(" `{}`", running.server.line()) };
    let what = format!("the server{line} {why}; {}", last_words(&running.server.end()));
    let hint = format!(
        "it must stay in the foreground and answer `ready`; a slow one needs more than ready_within = \"{within}\""
    );
    // A slow recovery after a power cut has lost nothing.
    let kind = if is_slow && stage == Stage::Check { FailureKind::Lost } else { FailureKind::LoadRefused };
    RunFailure { kind, stage, what, hint: Some(hint) }
}
