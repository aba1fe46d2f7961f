//! A place is a way to reach a worker. This one: a child process on this host.
//!
//! The child is in a process group of its own, so that Ctrl-C reaches only us. Its standard input stays open for as
//! long as we live and its parent-death signal is set: when we die, it dies, and the kernel takes its stack down.

use fstrial_model::{
    job::{DeviceBinding, FailureKind, Job, RunFailure, Task, WorkerMessage},
    measurement::{Measurement, Stage},
    units::Nanos,
};
use fstrial_stack::{StackError, device::Device, ledger::Ledger};
use rustix::process::{Pid, Signal, WaitOptions};
use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStdout, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// Time from the start of the process to its first message.
const START_DEADLINE: Nanos = Nanos::secs(30);
/// Time for the kernel to take a dead worker's stack down.
const RELEASE_DEADLINE: Duration = Duration::from_secs(120);
/// How often an interruption is looked for.
const POLL: Duration = Duration::from_millis(50);

/// Raised by Ctrl-C; looked at between and during runs.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Whether it was raised.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Raises it.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Raises it at SIGINT, SIGTERM and SIGHUP; a second one ends the process at once.
    ///
    /// # Errors
    /// The handlers cannot be set.
    pub fn at_signals() -> std::io::Result<Self> {
        let interrupt = Self::default();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
        {
            // In this order: the first signal finds the flag down and raises it, the second one finds it up.
            signal_hook::flag::register_conditional_shutdown(
                signal,
                i32::from(crate::exit_code::INTERRUPTED),
                Arc::clone(&interrupt.0),
            )?;
            signal_hook::flag::register(signal, Arc::clone(&interrupt.0))?;
        }
        Ok(interrupt)
    }
}

/// How a run ended at a place.
#[derive(Debug)]
pub enum Ended {
    /// The worker did its job; no measurement if there was no load.
    Measured(Option<Box<Measurement>>),
    /// It failed.
    Failed(RunFailure),
    /// It was interrupted.
    Interrupted,
}

/// A way to reach a worker.
pub trait Place {
    /// Runs a job to its end, passing on what the worker says. Returns only when nothing of the run is left.
    fn run(&mut self, job: &Job, hear: &mut dyn FnMut(&WorkerMessage)) -> Ended;
}

/// Workers as child processes of this one.
pub struct ChildPlace<'a> {
    /// The trial's devices, to see that a dead worker has let go of them.
    pub devices: &'a [&'a dyn Device],
    /// Where workers write down what dying does not undo.
    pub ledger: &'a Ledger,
    /// Raised by Ctrl-C.
    pub interrupt: &'a Interrupt,
}

fn lost(stage: Stage, what: impl Into<String>, hint: &str) -> RunFailure {
    RunFailure { kind: FailureKind::Lost, stage, what: what.into(), hint: Some(hint.into()) }
}

/// The lines that a process of ours says, as they come; no more when it is gone.
pub(super) fn lines_of(stdout: ChildStdout) -> mpsc::Receiver<String> {
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

/// A started worker and what it says.
struct Worker {
    child: Child,
    lines: mpsc::Receiver<String>,
    complaints: thread::JoinHandle<String>,
}

impl Worker {
    fn start(job: &Job) -> Result<Self, RunFailure> {
        let failed =
            |what: String| lost(Stage::Attach, what, "is there memory and are there processes left?");
        let isolate = !matches!(job.device, DeviceBinding::Directory { .. });
        // An inner worker that outlives its outer one for a moment, to unmount in the kernel, is then ours to wait for:
        // what it wrote down is undone only when it is gone. Where this is refused, the next replay undoes it.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        // The running program itself, even if its file has been replaced meanwhile.
        #[expect(clippy::disallowed_methods, reason = "starts this very program, not a tool")]
        let mut child = Command::new("/proc/self/exe")
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
        let sent = child.stdin.as_mut().expect("piped above").write_all(line.as_bytes());
        let stdout = child.stdout.take().expect("piped above");
        let stderr = child.stderr.take().expect("piped above");
        let lines = lines_of(stdout);
        let complaints = thread::spawn(move || {
            let mut text = String::new();
            // A worker complains in a line or two; more than this is not read.
            let _ = stderr.take(64 << 10).read_to_string(&mut text);
            text
        });
        let worker = Self { child, lines, complaints };
        match sent {
            Ok(()) => Ok(worker),
            Err(error) => {
                let _ = worker.end(None);
                Err(failed(format!("could not hand the job to a worker: {error}")))
            }
        }
    }

    /// Kills whatever is left of it, thaws what it left frozen (a thread that writes to it does not end before), waits until all of it is gone and returns its last words.
    fn end(mut self, ledger: Option<&Ledger>) -> String {
        let until = Instant::now() + RELEASE_DEADLINE;
        let group = Pid::from_child(&self.child);
        // Gone already is fine.
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
        let mut status = None;
        let is_gone = wait_until(until, || {
            // What cannot be thawed now is told when everything is taken down.
            let _ = ledger.map(Ledger::thaw);
            status = status.or_else(|| self.child.try_wait().ok().flatten());
            status.is_some() && no_child_in(group)
        });
        let status = status.map(|status| status.to_string()).unwrap_or_default();
        if !is_gone {
            // It holds its end of the pipe: waiting for the last of its words could take for ever.
            return format!("{status} it is stuck in the kernel").trim_start().to_owned();
        }
        let complaints = self.complaints.join().unwrap_or_default();
        let last: Vec<&str> = complaints.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = last[last.len().saturating_sub(4)..].join("; ");
        if last.is_empty() { status } else { format!("{status}: {last}") }
    }
}

/// Whether no child of ours is left in a process group; buries the dead. The inner worker becomes our child when the
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

/// Looks every now and then whether something holds; false if it does not in time.
fn wait_until(until: Instant, mut holds: impl FnMut() -> bool) -> bool {
    while !holds() {
        if Instant::now() > until {
            return false;
        }
        thread::park_timeout(Duration::from_millis(1));
    }
    true
}

impl ChildPlace<'_> {
    /// Listens until the worker's last line, its death, its deadline or an interruption.
    fn listen(
        &self,
        worker: &Worker,
        job: &Job,
        hear: &mut dyn FnMut(&WorkerMessage),
    ) -> Result<Ended, Silence> {
        let mut stage = Stage::Attach;
        let freezes = job.task.as_ref().is_some_and(Task::freezes);
        let mut until = Instant::now() + START_DEADLINE.duration();
        loop {
            if self.interrupt.is_raised() {
                return Ok(Ended::Interrupted);
            }
            let line = match worker.lines.recv_timeout(POLL) {
                Ok(line) => line,
                Err(mpsc::RecvTimeoutError::Timeout) if Instant::now() < until => {
                    // A worker that was killed while its filesystem was frozen does not end, and keeps its end of the
                    // pipe, until somebody thaws it. What cannot be thawed is told when all is taken down.
                    let _ = freezes.then(|| self.ledger.thaw());
                    continue;
                }
                Err(mpsc::RecvTimeoutError::Timeout) => return Err(Silence::Hung(stage)),
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(Silence::Died(stage)),
            };
            let Ok(message) = serde_json::from_str::<WorkerMessage>(&line) else {
                return Ok(Ended::Failed(lost(
                    stage,
                    format!("a worker said something unexpected: {line:.200}"),
                    "please report it",
                )));
            };
            if let WorkerMessage::Stage { stage, .. } = &message {
                // Before anything else: the worker goes on at once. That it is gone is found out after the run.
                let _ = self.devices.iter().try_for_each(|device| device.enter(*stage));
            }
            hear(&message);
            match message {
                WorkerMessage::Stage { stage: next, deadline } => {
                    stage = next;
                    until = Instant::now() + deadline.duration();
                }
                WorkerMessage::Progress { deadline, .. } => until = Instant::now() + deadline.duration(),
                WorkerMessage::Facts { .. } | WorkerMessage::Prepared { .. } => {}
                WorkerMessage::Measured { measurement } => return Ok(Ended::Measured(measurement)),
                WorkerMessage::Failed { failure } => return Ok(Ended::Failed(failure)),
            }
        }
    }

    /// Undoes what the dead worker wrote down and waits until the kernel has taken the rest down.
    fn tidy(&self) -> Result<(), RunFailure> {
        let unclean = |what: String| RunFailure {
            kind: FailureKind::CleanUp,
            stage: Stage::Detach,
            what,
            hint: Some("look at `losetup -a`, `findmnt` and the kernel log; then run `fstrial clean`".into()),
        };
        let until = Instant::now() + RELEASE_DEADLINE;
        loop {
            let left = match self.take_down().map_err(|e| unclean(e.to_string()))? {
                None => return Ok(()),
                Some(left) => left,
            };
            if Instant::now() > until {
                return Err(unclean(left));
            }
            thread::park_timeout(Duration::from_millis(2));
        }
    }

    /// One attempt: says what is left, if anything is. The device first, because what was added for it can only be
    /// removed when nobody uses it; and the kernel may take a moment to end a killed worker.
    fn take_down(&self) -> Result<Option<String>, StackError> {
        // A frozen filesystem keeps its device.
        self.ledger.thaw()?;
        // A dead worker's array would hold the devices for ever.
        self.ledger.stop_arrays()?;
        for device in self.devices {
            if !device.is_released()? {
                return Ok(Some("the device of the last run is still in use".into()));
            }
        }
        for replayed in self.ledger.replay()?.done {
            if let Err(error) = replayed.result {
                return Ok(Some(format!("could not {}: {error}", replayed.undo)));
            }
        }
        let waiting = self.ledger.has_others()?;
        Ok(waiting
            .then(|| "the last worker has not ended, or another command works with the same results".into()))
    }
}

/// A worker that said nothing more.
enum Silence {
    Hung(Stage),
    Died(Stage),
}

impl Place for ChildPlace<'_> {
    fn run(&mut self, job: &Job, hear: &mut dyn FnMut(&WorkerMessage)) -> Ended {
        let began = self.devices.iter().try_for_each(|device| device.before_run(job.seed()));
        if let Err(error) = began {
            return Ended::Failed(lost(Stage::Attach, error.to_string(), "look at the kernel log (dmesg)"));
        }
        let worker = match Worker::start(job) {
            Ok(worker) => worker,
            Err(failure) => return Ended::Failed(failure),
        };
        let listened = self.listen(&worker, job, hear);
        let last_words = worker.end(Some(self.ledger));
        let ended = listened.unwrap_or_else(|silence| {
            Ended::Failed(match silence {
                Silence::Hung(stage) => lost(
                    stage,
                    format!("the worker hung in the stage `{stage}` and was killed"),
                    "look for a hung device in the kernel log (dmesg)",
                ),
                Silence::Died(stage) => lost(
                    stage,
                    format!("the worker died in the stage `{stage}` ({last_words})"),
                    "was it killed, for example for lack of memory?",
                ),
            })
        });
        if let Err(failure) = self.tidy() {
            return Ended::Failed(failure);
        }
        match self.devices.iter().try_for_each(|device| device.after_run()) {
            Ok(()) => ended,
            // Whatever the worker made of it: it was not the arm's fault.
            Err(error) => {
                let hint = error.hint().unwrap_or_default();
                Ended::Failed(lost(Stage::Load, error.to_string(), &hint))
            }
        }
    }
}
