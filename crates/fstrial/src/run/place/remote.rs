//! A place that is reached through a command: an `fstrial agent` on another host, or in namespaces of its own.
//!
//! ```text
//! coordinator ── socket ── the command (ssh, unshare, …) ── fstrial agent ── worker
//! ```
//!
//! Only lines of JSON cross (see [`wire`](super::wire)). An agent whose trial is gone takes everything down by itself; a
//! trial whose agent is gone loses the run and starts another agent, which first puts back what is left there.

use super::{
    Ended, Place,
    wire::{self, Answer, Order, PULSE, WIRE},
};
use crate::{
    error::ExpectedError,
    run::{environment::Environment, event::Event, interrupt::Interrupt, plan::Plan},
};
use fstrial_model::{
    job::{FailureKind, Job, RunFailure, WorkerMessage},
    measurement::Stage,
    place::Place as Spec,
    workload::Data,
};
use std::{
    io::{BufRead, BufReader},
    net::Shutdown,
    os::{fd::OwnedFd, unix::net::UnixStream, unix::process::CommandExt},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

/// How long an agent may say nothing: many times its pulse.
const SILENCE: Duration = Duration::from_secs(30);
/// How long an agent may take to end when its trial has nothing more to say.
const FAREWELL: Duration = Duration::from_secs(150);
/// The same after an interruption.
const SHORT_FAREWELL: Duration = Duration::from_secs(12);
/// How long another agent is tried for after one was lost: the old one may still be taking things down.
const RETRY: Duration = Duration::from_secs(60);
/// How often an interruption is looked for.
const POLL: Duration = Duration::from_millis(50);
const _: () = assert!(SILENCE.as_secs() > 10 * PULSE.as_secs());

/// A place on the other side of a socket.
pub struct Remote {
    spec: Spec,
    /// The first order to every agent.
    open: (String, u64, u16),
    interrupt: Interrupt,
    /// None: the agent is gone.
    link: Option<Link>,
    environment: Environment,
    data: Data,
    /// The agent keeps prepared filesystems, which are gone with it.
    keeps: bool,
    warnings: Vec<String>,
}

/// An agent that was started.
struct Link {
    child: Child,
    socket: UnixStream,
    answers: mpsc::Receiver<Result<Answer, String>>,
    /// The last line that the command complained in.
    complaint: Arc<Mutex<String>>,
    /// When the agent was told to interrupt.
    told: Option<Instant>,
}

/// Why no answer comes.
enum Gone {
    /// It has ended, or its host is.
    Ended(String),
    /// It is not the agent that answers.
    Gibberish(String),
}

impl Gone {
    /// The same with the last words of the command, if there is nothing better.
    fn or(self, words: String) -> Self {
        match self {
            Self::Ended(said) if said.is_empty() => Self::Ended(words),
            other => other,
        }
    }

    fn what(&self, name: &str) -> String {
        match self {
            Self::Ended(words) if words.is_empty() => format!("the agent at {name} is gone"),
            Self::Ended(words) => format!("the agent at {name} is gone: {words}"),
            Self::Gibberish(text) => format!("what answers at {name} is not an agent: {text:?}"),
        }
    }
}

impl Link {
    fn start(spec: &Spec) -> std::io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        // A command that never reads must not hold the trial.
        socket.set_write_timeout(Some(SILENCE))?;
        let [input, output] = [OwnedFd::from(theirs.try_clone()?), OwnedFd::from(theirs)];
        #[expect(
            clippy::disallowed_methods,
            reason = "the user's own command, which lives as long as the trial"
        )]
        let mut child = Command::new(&spec.command[0])
            .args(&spec.command[1..])
            // Ctrl-C is for us: the agent is told.
            .process_group(0)
            .stdin(Stdio::from(input))
            .stdout(Stdio::from(output))
            .stderr(Stdio::piped())
            .spawn()?;
        let stderr = child.stderr.take().expect("piped above");
        let complaint = Arc::new(Mutex::new(String::new()));
        let last = Arc::clone(&complaint);
        thread::spawn(move || {
            for line in
                BufReader::new(stderr).lines().map_while(Result::ok).filter(|line| !line.trim().is_empty())
            {
                *last.lock().unwrap_or_else(PoisonError::into_inner) = line.chars().take(500).collect();
            }
        });
        let answers = wire::receive(socket.try_clone()?, || {});
        Ok(Self { child, socket, answers, complaint, told: None })
    }

    fn say(&mut self, order: &Order) {
        // If nobody is there, no answer comes.
        let _ = wire::send(&mut self.socket, order);
    }

    /// The next answer but signs of life. An interruption is passed on.
    fn hear(&mut self, interrupt: &Interrupt) -> Result<Answer, Gone> {
        let mut heard = Instant::now();
        loop {
            if interrupt.is_raised() && self.told.is_none() {
                self.told = Some(Instant::now());
                self.say(&Order::Interrupt);
            }
            if self.told.is_some_and(|told| told.elapsed() > SHORT_FAREWELL) {
                return Err(Gone::Ended("it did not end when it was interrupted".into()));
            }
            match self.answers.recv_timeout(POLL) {
                Ok(Ok(Answer::Alive)) => heard = Instant::now(),
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(text)) => return Err(Gone::Gibberish(text)),
                // Whatever still holds the socket when the command has ended, the agent was its child.
                Err(mpsc::RecvTimeoutError::Timeout)
                    if heard.elapsed() > 2 * PULSE
                        && self.child.try_wait().is_ok_and(|ended| ended.is_some()) =>
                {
                    return Err(Gone::Ended(String::new()));
                }
                Err(mpsc::RecvTimeoutError::Timeout) if heard.elapsed() < SILENCE => {}
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    return Err(Gone::Ended(format!("it said nothing for {} s", SILENCE.as_secs())));
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(Gone::Ended(String::new())),
            }
        }
    }

    /// Waits until the command has ended, or ends it; gives its last words. The agent hears that nobody is left.
    fn end(mut self, patience: Duration) -> String {
        let _ = self.socket.shutdown(Shutdown::Both);
        let began = Instant::now();
        let status = loop {
            let status = self.child.try_wait().ok().flatten();
            if status.is_some() || began.elapsed() > patience {
                break status;
            }
            thread::park_timeout(POLL);
        };
        if status.is_none() {
            let _ = self.child.kill();
        }
        // Time for its last words; one that cannot be killed is not waited for.
        thread::park_timeout(2 * POLL);
        let _ = self.child.try_wait();
        let status = status.map(|status| status.to_string()).unwrap_or_default();
        let last = self.complaint.lock().unwrap_or_else(PoisonError::into_inner).clone();
        [status, last].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
    }
}

impl Remote {
    /// Starts the agent of a place and has it make the devices of the trial.
    ///
    /// # Errors
    /// The command cannot be started, is no agent, or the devices cannot be made there.
    pub fn open(
        spec: &Spec,
        plan: &Plan,
        cpus: u16,
        interrupt: &Interrupt,
        tell: &mut dyn FnMut(&Event<'_>),
    ) -> Result<Self, ExpectedError> {
        let mut place = Self {
            spec: spec.clone(),
            open: (plan.trial.to_toml(), plan.seed, cpus),
            interrupt: interrupt.clone(),
            link: None,
            environment: Environment::default(),
            data: Data::Random,
            keeps: false,
            warnings: Vec::new(),
        };
        place.connect(tell)?;
        Ok(place)
    }

    /// Starts an agent and opens the trial there.
    fn connect(&mut self, tell: &mut dyn FnMut(&Event<'_>)) -> Result<(), ExpectedError> {
        let name = &self.spec.name;
        let mut link = Link::start(&self.spec).map_err(|error| {
            ExpectedError::usage(
                format!(
                    "could not start {:?}, the command of the place {name}: {error}",
                    self.spec.command[0]
                ),
                "check the command; no shell is involved",
            )
        })?;
        let (trial, seed, cpus) = self.open.clone();
        link.say(&Order::Open { wire: WIRE, place: name.clone(), trial, seed, cpus });
        loop {
            match link.hear(&self.interrupt) {
                Ok(Answer::Preparing { done, total }) => tell(&Event::DeviceProgress { done, total }),
                Ok(Answer::Opened { environment, data }) => {
                    (self.environment, self.data) = (*environment, data);
                    self.link = Some(link);
                    return Ok(());
                }
                Ok(Answer::Refused { what, hint, code }) => {
                    link.end(FAREWELL);
                    return Err(ExpectedError::Place { name: name.clone(), what, hint, code });
                }
                Ok(other) => {
                    link.end(SHORT_FAREWELL);
                    return Err(ExpectedError::Fault(format!("the agent at {name} said {other:?}")));
                }
                Err(gone) => {
                    let words = link.end(SHORT_FAREWELL);
                    let what = gone.or(words).what(name);
                    return Err(ExpectedError::usage(
                        what,
                        "the command of a place must run `fstrial agent` there and print nothing else",
                    ));
                }
            }
        }
    }

    /// Has an agent again after one was lost: the old one may still hold its home.
    fn reconnect(&mut self) -> Result<(), RunFailure> {
        if self.keeps {
            let what = format!("the filesystems prepared at {} are gone with its agent", self.spec.name);
            return Err(failure(FailureKind::HostLacks, what, "run the trial again with --resume"));
        }
        let began = Instant::now();
        loop {
            match self.connect(&mut |_| {}) {
                Ok(()) => return Ok(()),
                Err(error) if began.elapsed() > RETRY || self.interrupt.is_raised() => {
                    return Err(failure(
                        FailureKind::HostLacks,
                        error.in_full(),
                        "look at the host of the place",
                    ));
                }
                Err(_) => thread::park_timeout(Duration::from_secs(1)),
            }
        }
    }

    /// Gives the link up after an agent was lost in a run.
    fn lose(&mut self, gone: Gone) -> Ended {
        let words = self.link.take().map(|link| link.end(SHORT_FAREWELL)).unwrap_or_default();
        if self.interrupt.is_raised() {
            return Ended::Interrupted;
        }
        let what = gone.or(words).what(&self.spec.name);
        Ended::Failed(failure(FailureKind::Lost, what, "look at the host of the place"))
    }
}

fn failure(kind: FailureKind, what: String, hint: &str) -> RunFailure {
    RunFailure { kind, stage: Stage::Attach, what, hint: Some(hint.into()) }
}

impl Place for Remote {
    fn environment(&self) -> &Environment {
        &self.environment
    }

    fn data(&self) -> Data {
        self.data
    }

    fn run(&mut self, job: &Job, hear: &mut dyn FnMut(&WorkerMessage)) -> Ended {
        if self.link.is_none()
            && let Err(failure) = self.reconnect()
        {
            return if self.interrupt.is_raised() { Ended::Interrupted } else { Ended::Failed(failure) };
        }
        self.keeps |= job.state.is_some();
        let link = self.link.as_mut().expect("there is one, or there was none to be had");
        link.say(&Order::Run { job: Box::new(job.clone()) });
        loop {
            let gone = match link.hear(&self.interrupt) {
                Ok(Answer::Worker { message }) => {
                    hear(&message);
                    continue;
                }
                Ok(Answer::Ended { ended, warnings }) => {
                    self.warnings = warnings;
                    return ended;
                }
                Ok(other) => Gone::Gibberish(format!("{other:?}")),
                Err(gone) => gone,
            };
            return self.lose(gone);
        }
    }

    fn warnings(&self) -> Vec<String> {
        self.warnings.iter().map(|warning| format!("{}: {warning}", self.spec.name)).collect()
    }

    fn close(mut self: Box<Self>) -> Result<(), ExpectedError> {
        let Some(mut link) = self.link.take() else { return Ok(()) };
        link.say(&Order::Close);
        let answer = link.hear(&self.interrupt);
        link.end(if self.interrupt.is_raised() { SHORT_FAREWELL } else { FAREWELL });
        match answer {
            Ok(Answer::Closed) => Ok(()),
            Ok(Answer::Refused { what, hint, code }) => {
                Err(ExpectedError::Place { name: self.spec.name.clone(), what, hint, code })
            }
            Ok(other) => Err(ExpectedError::Fault(format!("the agent at {} said {other:?}", self.spec.name))),
            Err(gone) => Err(ExpectedError::Place {
                name: self.spec.name.clone(),
                what: gone.what(&self.spec.name),
                hint: Some("run `fstrial clean` there".into()),
                code: crate::exit_code::CLEAN_UP_INCOMPLETE,
            }),
        }
    }
}

impl Drop for Remote {
    /// After an error: the agent puts everything back when it hears nothing more.
    fn drop(&mut self) {
        self.link.take().map(|link| link.end(SHORT_FAREWELL));
    }
}
