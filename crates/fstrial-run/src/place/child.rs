//! A worker as a child process of this one.
//!
//! The child is in a separate process group, so that Ctrl-C reaches only us. Its standard input stays open while we
//! live and its parent-death signal is set: when we die, it dies, and the kernel takes its stack down.

use super::JobOutcome;
use crate::{attached, failure::out_of_memory, interrupt::Interrupt, program::install};
use fstrial_model::{
    job::{DeviceBinding, FailureKind, PlacedJob, RunFailure, Task, WorkerMessage},
    measurement::Stage,
    units::Nanos,
    workload::ContentDigest,
};
use fstrial_stack::{StackError, command, device::Device, host, ledger::Ledger, memory};
use rustix::process::{Pid, Signal, WaitOptions};
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

/// A guest's processor may be slow, and its clock fast: deadlines of workers there are longer by this factor.
pub(super) const GUEST_SLACK: u32 = 10;
/// Time from the start of the process to its first message.
const START_DEADLINE: Nanos = Nanos::secs(30);
/// Time for the kernel to take a dead worker's stack down.
pub(super) const RELEASE_DEADLINE: Duration = Duration::from_secs(120);
/// Time limit for a killed worker to end before its device's server is ended, too: it may wait for that.
const HOLD: Duration = Duration::from_secs(15);
/// The same after an interruption.
const SHORT_HOLD: Duration = Duration::from_secs(2);
/// Time limit for a worker to end its clients.
const CLIENTS_END: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);

/// Resources of this host's workers.
pub(super) struct Workers<'a> {
    /// The trial's devices, to see that a dead worker has let go of them.
    pub(super) devices: Vec<&'a dyn Device>,
    /// The workers' ledger.
    pub(super) ledger: &'a Ledger,
    /// Raised by Ctrl-C.
    pub(super) interrupt: &'a Interrupt,
    /// Contents of the files that jobs name.
    pub(super) inputs: &'a BTreeMap<ContentDigest, Arc<[u8]>>,
}

fn lost(stage: Stage, what: impl Into<String>, hint: &str) -> RunFailure {
    RunFailure { kind: FailureKind::Lost, stage, what: what.into(), hint: Some(hint.into()) }
}

/// The lines of a child process, as they come; ends with the process.
pub(super) fn lines_of(stdout: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// The program that works on a job: the running one itself, even if its file has been replaced meanwhile, or the one
/// that has the engine.
fn program_of(job: &PlacedJob) -> Result<PathBuf, RunFailure> {
    let Some(helper) = job.job.task.as_ref().and_then(Task::helper) else {
        return Ok("/proc/self/exe".into());
    };
    command::find_own(helper).ok_or_else(|| RunFailure {
        kind: FailureKind::HostLacks,
        stage: Stage::Attach,
        what: format!("{helper} is not installed"),
        hint: Some(install(helper)),
    })
}

/// A started worker and its messages.
struct Worker {
    child: Child,
    /// True if it has clients on other hosts to end.
    has_clients: bool,
    lines: mpsc::Receiver<String>,
    complaints: thread::JoinHandle<String>,
}

impl Worker {
    fn start(job: &PlacedJob, inputs: &BTreeMap<ContentDigest, Arc<[u8]>>) -> Result<Self, RunFailure> {
        let failed =
            |what: String| lost(Stage::Attach, what, "is there memory and are there processes left?");
        let has_program = job.job.task.as_ref().is_some_and(|task| task.program.is_some());
        let is_made = !matches!(job.device, DeviceBinding::Directory { .. });
        let isolate = is_made || (has_program && !host::is_root());
        // An inner worker that outlives its outer one for a moment, to unmount in the kernel, becomes our child to wait
        // for: its ledger entries are undone only when it is gone. If this is refused, the next replay undoes them.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        #[expect(clippy::disallowed_methods, reason = "starts a worker, not a tool")]
        let mut child = Command::new(program_of(job)?)
            .arg("worker")
            .args(isolate.then_some("--isolate"))
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| failed(format!("could not start a worker: {e}")))?;
        let mut line = serde_json::to_string(job).expect("a job is plain data");
        line.push('\n');
        let to = child.stdin.as_mut().expect("piped above");
        let sent = to.write_all(line.as_bytes()).and_then(|()| attached::send(&job.job, inputs, to));
        let stdout = child.stdout.take().expect("piped above");
        let stderr = child.stderr.take().expect("piped above");
        let lines = lines_of(stdout);
        let complaints = thread::spawn(move || {
            let mut text = String::new();
            // A worker complains in a line or two; more than this is not read.
            let _ = stderr.take(64 << 10).read_to_string(&mut text);
            text
        });
        let has_clients = job.job.task.as_ref().is_some_and(|task| task.clients > 1);
        let worker = Self { child, has_clients, lines, complaints };
        match sent {
            Ok(()) => Ok(worker),
            Err(error) => {
                let _ = worker.end(&|waited| waited < RELEASE_DEADLINE);
                Err(failed(format!("could not hand the job to a worker: {error}")))
            }
        }
    }

    /// Kills the rest of it, waits until all of it is gone and returns its last messages. `tend` repeatedly resolves
    /// possible waits, and returns whether to continue.
    fn end(mut self, tend: &dyn Fn(Duration) -> bool) -> LastWords {
        if self.has_clients {
            self.end_clients();
        }
        let killed = Instant::now();
        let group = Pid::from_child(&self.child);
        // It may be gone already.
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
        let mut status = None;
        let mut is_gone = || {
            status = status.or_else(|| self.child.try_wait().ok().flatten());
            status.is_some() && no_child_in(group)
        };
        let mut pause = Pause::default();
        let is_gone = loop {
            let goes_on = tend(killed.elapsed());
            if is_gone() || !goes_on {
                break is_gone();
            }
            pause.wait();
        };
        let status = status.map(|status| status.to_string()).unwrap_or_default();
        if !is_gone {
            // It holds its end of the pipe: waiting for the last of its words could take forever.
            return LastWords { status, said: STUCK.into() };
        }
        let complaints = self.complaints.join().unwrap_or_default();
        let last: Vec<&str> = complaints.lines().filter(|line| !line.trim().is_empty()).collect();
        LastWords { status, said: last[last.len().saturating_sub(4)..].join("; ") }
    }
}

impl Worker {
    /// Asks the worker to end its clients: their later writes would be left behind.
    fn end_clients(&mut self) {
        drop(self.child.stdin.take());
        let requested = Instant::now();
        let mut pause = Pause::default();
        while requested.elapsed() < CLIENTS_END && matches!(self.child.try_wait(), Ok(None)) {
            pause.wait();
        }
    }
}

/// Report on a worker that could not be killed.
const STUCK: &str = "it is stuck in the kernel";

/// The end of a worker.
struct LastWords {
    /// Its exit status, or the signal; empty if that is not known.
    status: String,
    /// Its last complaints; empty without any.
    said: String,
}

impl LastWords {
    /// Both in a line.
    fn line(&self) -> String {
        let parts = [self.status.as_str(), self.said.as_str()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
    }

    /// The remedy: a worker that complained gave the reason, and one that did not was killed.
    fn hint(&self) -> &'static str {
        match self.said.as_str() {
            "" => {
                "it was killed, by a user or by the kernel for lack of memory: look at the kernel log (dmesg)"
            }
            STUCK => "look for a hung device in the kernel log (dmesg)",
            _ => "its last line is the reason; if that cannot be fixed here, please report it",
        }
    }
}

/// True if no child of ours is left in a process group; reaps zombies. The inner worker becomes our child when the
/// outer one dies before it.
fn no_child_in(group: Pid) -> bool {
    loop {
        match rustix::process::waitpgid(group, WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

/// Increasing waits, for an event that usually comes soon.
#[derive(Default)]
struct Pause(u32);

impl Pause {
    fn wait(&mut self) {
        thread::park_timeout(Duration::from_millis(1 << self.0).min(POLL));
        self.0 = (self.0 + 1).min(6);
    }
}

impl Workers<'_> {
    /// Listens until the worker's last line, its death, its deadline or an interruption.
    fn listen(
        &self,
        worker: &Worker,
        job: &PlacedJob,
        hear: &mut dyn FnMut(&WorkerMessage),
    ) -> Result<JobOutcome, Silence> {
        let mut stage = Stage::Attach;
        let freezes = job.job.task.as_ref().is_some_and(Task::freezes);
        let slack = if fstrial_vm::guest::is_inside() { GUEST_SLACK } else { 1 };
        let after = |deadline: Nanos| Instant::now() + deadline.duration().saturating_mul(slack);
        let mut until = after(START_DEADLINE);
        loop {
            if self.interrupt.is_raised() {
                return Ok(JobOutcome::Interrupted);
            }
            let line = match worker.lines.recv_timeout(POLL) {
                Ok(line) => line,
                Err(mpsc::RecvTimeoutError::Timeout) if Instant::now() < until => {
                    // A worker killed while its filesystem was frozen does not end, and keeps its end of the pipe,
                    // until it is thawed. Failed thaws are reported at the end of taking down.
                    let _ = freezes.then(|| self.ledger.thaw());
                    continue;
                }
                Err(mpsc::RecvTimeoutError::Timeout) => return Err(Silence::Hung(stage)),
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(Silence::Died(stage)),
            };
            let Ok(message) = serde_json::from_str::<WorkerMessage>(&line) else {
                return Ok(JobOutcome::Failed(lost(
                    stage,
                    format!("unexpected message from a worker: {line:.200}"),
                    "please report it",
                )));
            };
            if let WorkerMessage::Stage { stage, .. } = &message {
                // Before anything else: the worker continues immediately. If it is gone, that is detected after the
                // run.
                let _ = self.devices.iter().try_for_each(|device| device.enter(*stage));
            }
            hear(&message);
            match message {
                WorkerMessage::Stage { stage: next, deadline } => {
                    stage = next;
                    until = after(deadline);
                }
                WorkerMessage::Progress { deadline, .. } => until = after(deadline),
                WorkerMessage::Facts { .. }
                | WorkerMessage::Prepared { .. }
                | WorkerMessage::Receipt { .. }
                | WorkerMessage::Evidence { .. } => {}
                WorkerMessage::Measured { measurement } => return Ok(JobOutcome::Measured(measurement)),
                WorkerMessage::Failed { failure } => return Ok(JobOutcome::Failed(failure)),
            }
        }
    }

    /// Resolves possible waits of a killed worker, and returns whether to wait any longer. A thread that writes to a
    /// frozen filesystem does not end before a thaw, nor one that waits for a device that does not answer.
    fn tend(&self, waited: Duration) -> bool {
        // Failed thaws are reported when everything is taken down.
        let _ = self.ledger.thaw();
        if waited > if self.interrupt.is_raised() { SHORT_HOLD } else { HOLD } {
            self.devices.iter().for_each(|device| device.abandon());
        }
        waited < RELEASE_DEADLINE && !self.interrupt.is_overdue()
    }

    /// Undoes the dead worker's ledger entries and waits until the kernel has taken the rest down.
    fn tidy(&self) -> Result<(), RunFailure> {
        let unclean = |what: String| RunFailure {
            kind: FailureKind::CleanUp,
            stage: Stage::Detach,
            what,
            hint: Some("look at `losetup -a`, `findmnt` and the kernel log; then run `fstrial clean`".into()),
        };
        let began = Instant::now();
        let mut pause = Pause::default();
        loop {
            let left = match self.take_down() {
                Ok(None) => return Ok(()),
                Ok(Some(left)) => left,
                Err(StackError::Interrupted) => return Err(unclean(self.what_is_left())),
                Err(error) => return Err(unclean(error.to_string())),
            };
            if !self.tend(began.elapsed()) {
                return Err(unclean(left));
            }
            pause.wait();
        }
    }

    /// The unfinished steps after an interruption.
    fn what_is_left(&self) -> String {
        let (left, _) = self.ledger.left_over().unwrap_or_default();
        format!("interrupted before everything was restored; still to do: {}", left.join(", "))
    }

    /// One attempt: returns a description of transient leftovers. The device first, because additions for it can only
    /// be removed when it is unused; and the kernel may take a moment to end a killed worker.
    fn take_down(&self) -> Result<Option<String>, StackError> {
        // A frozen filesystem keeps its device.
        self.ledger.thaw()?;
        // A dead worker's array or volume would hold the devices forever.
        self.ledger.stop_arrays_and_volumes()?;
        for device in &self.devices {
            if !device.is_released()? {
                return Ok(Some("the device of the last run is still in use".into()));
            }
        }
        for replayed in self.ledger.replay_unless(&|| self.interrupt.is_overdue())?.done {
            match replayed.result {
                Err(error) if error.may_pass() => {
                    return Ok(Some(format!("could not {}: {error}", replayed.undo)));
                }
                result => result?,
            }
        }
        let waiting = self.ledger.has_others()?;
        Ok(waiting
            .then(|| "the last worker has not ended, or another command works with the same results".into()))
    }
}

/// A silent worker.
enum Silence {
    Hung(Stage),
    Died(Stage),
}

impl Workers<'_> {
    /// Has a worker do a job. Returns only when no part of the run is left.
    pub(super) fn run(&self, job: &PlacedJob, hear: &mut dyn FnMut(&WorkerMessage)) -> JobOutcome {
        let began = self.devices.iter().try_for_each(|device| device.before_run(&job.job));
        if let Err(error) = began {
            return JobOutcome::Failed(lost(
                Stage::Attach,
                error.to_string(),
                "look at the kernel log (dmesg)",
            ));
        }
        let worker = match Worker::start(job, self.inputs) {
            Ok(worker) => worker,
            Err(failure) => return JobOutcome::Failed(failure),
        };
        let listened = self.listen(&worker, job, hear);
        if matches!(listened, Err(Silence::Hung(_) | Silence::Died(_))) {
            // Its last writes take no modelled time to be written back.
            let _ = self.devices.iter().try_for_each(|device| device.enter(Stage::Unmount));
        }
        let last_words = worker.end(&|waited| self.tend(waited));
        let ended = listened.unwrap_or_else(|silence| {
            if let Silence::Died(stage) = silence
                && let Some(limit) = job.job.memory
                && memory::kills_of_the_dead(self.ledger).is_ok_and(|kills| kills > 0)
            {
                return JobOutcome::Failed(out_of_memory(stage, limit));
            }
            JobOutcome::Failed(match silence {
                Silence::Hung(stage) => lost(
                    stage,
                    format!("the worker hung in the stage `{stage}` and was killed"),
                    "look for a hung device in the kernel log (dmesg)",
                ),
                Silence::Died(stage) => lost(
                    stage,
                    format!("the worker died in the stage `{stage}` ({})", last_words.line()),
                    last_words.hint(),
                ),
            })
        });
        if let Err(failure) = self.tidy() {
            return JobOutcome::Failed(failure);
        }
        if matches!(ended, JobOutcome::Interrupted) {
            return ended;
        }
        match self.devices.iter().try_for_each(|device| device.after_run()) {
            Ok(()) => ended,
            // Regardless of the worker's report: it was not the arm's fault.
            Err(error) => {
                let hint = error.hint().unwrap_or_default();
                JobOutcome::Failed(lost(Stage::Load, error.to_string(), &hint))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_worker_hint_follows_status_and_output() {
        let ended = |status: &str, said: &str| LastWords { status: status.into(), said: said.into() };
        let killed = ended("signal: 9 (SIGKILL)", "");
        assert_eq!(killed.line(), "signal: 9 (SIGKILL)");
        assert!(killed.hint().contains("lack of memory"), "{}", killed.hint());
        let complained = ended("exit status: 10", "error: there is no /mnt");
        assert_eq!(complained.line(), "exit status: 10: error: there is no /mnt");
        assert!(!complained.hint().contains("memory"), "{}", complained.hint());
        let stuck = ended("", STUCK);
        assert_eq!(stuck.line(), "it is stuck in the kernel");
        assert!(stuck.hint().contains("hung device"), "{}", stuck.hint());
    }
}
