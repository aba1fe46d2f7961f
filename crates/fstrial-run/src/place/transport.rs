//! Transport of bytes to an agent and back: a socket, and the process at its other end, which lives as long as the
//! trial.

use super::{reach::Reach, wire};
use crate::interrupt::Interrupt;
use fstrial_stack::confined;
use rustix::process::{Pid, Signal};
use std::{
    collections::VecDeque,
    io::{self, BufReader},
    net::Shutdown,
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Child, ChildStderr, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// Interval of checking for an interruption.
pub(super) const POLL: Duration = Duration::from_millis(50);
/// Time limit for a killed one to end: a guest's server has memory to free first.
const GONE: Duration = Duration::from_secs(5);
/// Number of reported last lines of a process's standard error.
const SHOWN_LINES: usize = 3;

/// A socket and who is there.
pub(crate) struct Transport {
    child: Child,
    socket: UnixStream,
    /// The last lines that it complained in.
    complaint: Arc<Mutex<VecDeque<String>>>,
    is_paused: bool,
}

impl Transport {
    /// Starts the command of a place: the socket is its input and output.
    pub(crate) fn by_command(reach: &Reach) -> io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        let [input, output] = [OwnedFd::from(theirs.try_clone()?), OwnedFd::from(theirs)];
        #[expect(
            clippy::disallowed_methods,
            reason = "the user's own command, which lives as long as the trial"
        )]
        let mut command = Command::new(reach.program());
        command
            .args(reach.words())
            .stdin(Stdio::from(input))
            .stdout(Stdio::from(output))
            .stderr(Stdio::piped());
        // Ctrl-C is for us: we notify the agent.
        let mut child = confined::in_own_session(&mut command).spawn()?;
        let complaint = last_words(child.stderr.take().expect("piped above"));
        Ok(Self { child, socket, complaint, is_paused: false })
    }

    /// The socket, for one more that reads or writes.
    pub(crate) fn socket(&self) -> io::Result<UnixStream> {
        self.socket.try_clone()
    }

    /// Stops the process, or resumes it.
    pub(crate) fn pause(&mut self, is_paused: bool) {
        if is_paused == self.is_paused {
            return;
        }
        self.is_paused = is_paused;
        let signal = if is_paused { Signal::STOP } else { Signal::CONT };
        // If it is gone, the next request detects that.
        let _ = rustix::process::kill_process(Pid::from_child(&self.child), signal);
    }

    /// True if the process has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|ended| ended.is_some())
    }

    /// Waits until the process has ended, or ends it; returns its last messages. The agent sees the connection close.
    pub(crate) fn end(mut self, patience: Duration, interrupt: &Interrupt) -> String {
        let _ = self.socket.shutdown(Shutdown::Both);
        self.pause(false);
        let began = Instant::now();
        let status = loop {
            let status = self.child.try_wait().ok().flatten();
            if status.is_some() || began.elapsed() > patience || interrupt.is_overdue() {
                break status;
            }
            thread::park_timeout(POLL);
        };
        if status.is_none() {
            let _ = self.child.kill();
            let killed = Instant::now();
            while !self.has_ended() && killed.elapsed() < GONE {
                thread::park_timeout(POLL);
            }
        }
        // Time for its last words; one that cannot be killed is not waited for here.
        thread::park_timeout(2 * POLL);
        thread::spawn(move || self.child.wait());
        let status = status.map(|status| status.to_string());
        let last = self.complaint.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let last = Some(Vec::from(last).join("; ")).filter(|last| !last.is_empty());
        status.into_iter().chain(last).collect::<Vec<_>>().join(": ")
    }
}

/// Reads a process's standard error, and keeps the last lines.
fn last_words(stderr: ChildStderr) -> Arc<Mutex<VecDeque<String>>> {
    let complaint = Arc::new(Mutex::new(VecDeque::new()));
    let last = Arc::clone(&complaint);
    thread::spawn(move || {
        let mut stderr = BufReader::new(stderr);
        let lines = std::iter::from_fn(|| wire::next_line(&mut stderr));
        for line in lines.filter(|line| !line.trim().is_empty()) {
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            last.push_back(line.trim().chars().take(300).collect());
            if last.len() > SHOWN_LINES {
                last.pop_front();
            }
        }
    });
    complaint
}
