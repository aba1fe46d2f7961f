//! A place that is reached through a command: an `fstrial agent` on another host, or in private namespaces.
//!
//! ```text
//! coordinator ── socket ── the command (ssh, unshare, …) ── fstrial agent ── worker
//! ```
//!
//! Only lines of JSON cross (see [`wire`](super::wire)). An agent whose trial is gone takes everything down unprompted;
//! a trial whose agent is gone loses the run and starts another agent, which first undoes the leftovers there.

use super::{
    JobOutcome, Place,
    child::RELEASE_DEADLINE,
    reach::Reach,
    transport::{POLL, Transport},
    wire::{self, AgentAnswer, AgentOrder, PULSE, SILENCE, Voice, WIRE},
};
use crate::{
    attached::Content, environment::Environment, error::ExpectedError, event::Event, exit_code,
    interrupt::Interrupt, plan::Plan,
};
use fstrial_model::{
    bounded,
    job::{FailureKind, Job, RunFailure, WorkerMessage},
    measurement::Stage,
    place::Clock,
    units::Bytes,
    workload::Data,
};
use fstrial_stack::StackError;
use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// Time limits.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// For the first sign of life.
    first: Duration,
    /// For another one.
    silence: Duration,
    /// For the devices, since they came on.
    opening: Duration,
    /// For the end of an agent after its trial's last message.
    farewell: Duration,
    /// The same after an interruption, or when it is lost already.
    short_farewell: Duration,
    /// For another agent after one was lost: silence may be the old one's signal to take everything down.
    another: Duration,
    /// For a stage of a run, after its own deadline: the agent ends it in time.
    late: Duration,
    /// Seconds here for a second of a stage there, at most.
    slowdown: u32,
    /// Interval of the signs of life to the agent. A guest ends with its trial anyway, and in virtual time each message
    /// takes some of the measured time.
    pulse: Duration,
}

impl Patience {
    fn with(reach: &Reach) -> Self {
        match reach.boots {
            None => PATIENCE,
            Some(Clock::Virtual) => VIRTUAL,
            Some(_) => {
                Self { first: BOOTING, pulse: Duration::MAX, slowdown: super::child::GUEST_SLACK, ..PATIENCE }
            }
        }
    }
}

const PATIENCE: Patience = Patience {
    first: SILENCE,
    silence: SILENCE,
    opening: Duration::from_secs(300),
    farewell: Duration::from_secs(150),
    short_farewell: Duration::from_secs(8),
    another: Duration::from_secs(120),
    late: Duration::from_secs(300),
    slowdown: 1,
    pulse: PULSE,
};
/// In virtual time a second of a busy processor took 10 to 20 s on an idle machine. The death of a guest is noticed immediately.
const VIRTUAL: Patience = Patience {
    first: BOOTING,
    silence: Duration::from_secs(300),
    opening: Duration::from_secs(1200),
    late: Duration::from_secs(1200),
    slowdown: 60,
    pulse: Duration::MAX,
    ..PATIENCE
};
const _: () = assert!(
    PATIENCE.late.as_secs() > 2 * RELEASE_DEADLINE.as_secs(),
    "an agent waits for a worker that does not end, and for its devices"
);
const _: () = assert!(
    PATIENCE.another.as_secs() > 2 * (SILENCE.as_secs() + PATIENCE.short_farewell.as_secs()),
    "a trial that waits for another agent finds that the old one is gone"
);
/// For the first sign of life of a guest, which has to boot: 3 to 15 s on an idle machine.
const BOOTING: Duration = Duration::from_secs(100);
/// The longest stage that is believed.
const LONGEST_STAGE: Duration = Duration::from_secs(7 * 86_400);
/// Wait between two attempts at another agent.
const PAUSE: Duration = Duration::from_secs(1);

/// A place on the other side of a socket.
pub struct Remote {
    reach: Reach,
    /// The first order to every agent.
    open: AgentTask,
    interrupt: Interrupt,
    patience: Patience,
    /// None: the agent is gone.
    link: Option<Link>,
    environment: Environment,
    data: Data,
    /// The agent keeps prepared filesystems, which are gone with it.
    keeps: bool,
    /// The guest, if it is one, has run a job since it booted.
    has_run: bool,
    /// Time of the loss, until the leftovers of the lost agent are undone.
    lost: Option<Instant>,
    /// The last words of every agent that was lost.
    losses: Vec<String>,
    /// Warnings of the device: from lost agents, and from this one.
    warnings: [Vec<String>; 2],
}

/// An agent's orders for devices.
#[derive(Debug, Clone, Default)]
struct AgentTask {
    trial: String,
    seed: u64,
    cpus: u16,
    inputs: Vec<Content>,
}

/// An agent that was started.
struct Link {
    transport: Transport,
    voice: Voice<AgentOrder>,
    answers: mpsc::Receiver<Result<AgentAnswer, String>>,
    /// Time of the interrupt order.
    interrupted: Option<Instant>,
    /// It has given a sign of life.
    is_up: bool,
    patience: Patience,
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
            Self::Ended(output) if output.is_empty() => Self::Ended(words),
            other => other,
        }
    }

    fn what(&self, name: &str) -> String {
        match self {
            Self::Ended(words) if words.is_empty() => format!("the agent at {name} is gone"),
            Self::Ended(words) => format!("the agent at {name} is gone: {words}"),
            Self::Gibberish(text) => format!("no agent answers at {name}, but {text:?}"),
        }
    }
}

impl Link {
    fn start(reach: &Reach, patience: Patience) -> Result<Self, ExpectedError> {
        let failed = |error| {
            ExpectedError::usage(
                format!(
                    "could not start {:?}, the command of the place {}: {error}",
                    reach.program(),
                    reach.place()
                ),
                "check the command; no shell is involved",
            )
        };
        let over = |transport| Self::over(transport, patience);
        Transport::by_command(reach).and_then(over).map_err(failed)
    }

    /// Speaks with the agent at the other end.
    fn over(transport: Transport, patience: Patience) -> std::io::Result<Self> {
        let voice = Voice::to(transport.socket()?, patience.pulse, || AgentOrder::Alive);
        let answers = wire::receive(transport.socket()?);
        Ok(Self { transport, voice, answers, interrupted: None, is_up: false, patience })
    }

    /// The next answer but signs of life, which may take as long as `limit`. An interruption is passed on.
    fn hear(&mut self, interrupt: &Interrupt, limit: Duration) -> Result<AgentAnswer, Gone> {
        let began = Instant::now();
        let mut received = began;
        loop {
            if interrupt.is_raised() && self.interrupted.is_none() {
                self.interrupted = Some(Instant::now());
                self.voice.say(AgentOrder::Interrupt);
            }
            let is_over = |interrupted: Instant| {
                interrupted.elapsed() > self.patience.short_farewell || interrupt.is_overdue()
            };
            if self.interrupted.is_some_and(is_over) {
                return Err(Gone::Ended("it did not end when it was interrupted".into()));
            }
            if began.elapsed() > limit {
                return Err(Gone::Ended("it hangs: nothing was done in time".into()));
            }
            let answer = self.answers.recv_timeout(POLL);
            self.is_up |= matches!(answer, Ok(Ok(_)));
            let silence = if self.is_up { self.patience.silence } else { self.patience.first };
            match answer {
                Ok(Ok(AgentAnswer::Alive)) => received = Instant::now(),
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(text)) => return Err(Gone::Gibberish(text)),
                // Regardless of other holders of the socket after the command's end, the agent was its child.
                Err(mpsc::RecvTimeoutError::Timeout)
                    if received.elapsed() > 2 * PULSE && self.transport.has_ended() =>
                {
                    return Err(Gone::Ended(String::new()));
                }
                Err(mpsc::RecvTimeoutError::Timeout) if received.elapsed() < silence => {}
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    return Err(Gone::Ended(format!("it sent nothing for {} s", silence.as_secs())));
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(Gone::Ended(String::new())),
            }
        }
    }

    /// Has the agent take an input, part by part.
    fn put(&mut self, content: &Content, interrupt: &Interrupt) -> Result<(), Gone> {
        for (part, is_last) in content.parts() {
            let digest = content.digest.clone();
            self.voice.say(AgentOrder::Put { digest, part, is_last });
            match self.hear(interrupt, self.patience.opening)? {
                AgentAnswer::Taken if !interrupt.is_raised() => {}
                AgentAnswer::Taken => return Err(Gone::Ended(String::new())),
                other => return Err(Gone::Gibberish(gibberish(&other))),
            }
        }
        Ok(())
    }

    /// Pauses a guest in virtual time until its next job: idle, it would race through its timers on a whole processor.
    fn rest(&mut self, reach: &Reach) {
        if reach.is_virtual() {
            self.transport.pause(true);
        }
    }

    /// Has the agent give everything up and end.
    fn close(mut self, name: &str, interrupt: &Interrupt) -> Result<(), ExpectedError> {
        let (farewell, short) = (self.patience.farewell, self.patience.short_farewell);
        if !interrupt.is_raised() {
            // Work abandoned at the end of time is over; restoring takes the time that it takes.
            self.interrupted = None;
        }
        self.transport.pause(false);
        self.voice.say(AgentOrder::Close);
        let answer = self.hear(interrupt, farewell);
        let words = self.end(short, interrupt);
        match answer {
            Ok(AgentAnswer::Closed) => Ok(()),
            Ok(AgentAnswer::Refused { what, hint, code }) => Err(refused(name, what, hint, code)),
            Ok(other) => Err(refused(name, gibberish(&other), None, exit_code::SETUP_FAILED)),
            Err(gone) => Err(left_behind(name, &gone.or(words).what(name))),
        }
    }

    /// Ends it, and gives its last words.
    fn end(self, patience: Duration, interrupt: &Interrupt) -> String {
        self.transport.end(patience, interrupt)
    }
}

/// An agent's refusal. The exit code is limited to those for refusals.
fn refused(name: &str, what: String, hint: Option<String>, code: u8) -> ExpectedError {
    let code = match code {
        exit_code::USAGE | exit_code::HOST_LACKS | exit_code::CLEAN_UP_INCOMPLETE => code,
        _ => exit_code::SETUP_FAILED,
    };
    let (what, hint) = (bounded::cut(what), hint.map(bounded::cut));
    let there = |hint: String| match code {
        exit_code::CLEAN_UP_INCOMPLETE => format!("{hint}; it is all at {name}"),
        _ => hint,
    };
    ExpectedError::Place { name: name.to_owned(), what, hint: hint.map(there), code }
}

/// An unexpected answer, shortened.
fn gibberish(answer: &AgentAnswer) -> String {
    format!("its agent sent {}", bounded::cut(format!("{answer:?}")).chars().take(200).collect::<String>())
}

/// Error for an unconfirmed restore.
fn left_behind(name: &str, why: &str) -> ExpectedError {
    ExpectedError::Place {
        name: name.to_owned(),
        what: format!("leftovers may still be there: {why}"),
        hint: Some(clean_there()),
        code: exit_code::CLEAN_UP_INCOMPLETE,
    }
}

fn clean_there() -> String {
    "run `fstrial clean` there, with the --home of its agent".into()
}

impl Remote {
    /// Starts the agent of a place and has it make the devices of the trial.
    ///
    /// # Errors
    /// The command cannot be started, is not an agent, or the devices cannot be made there.
    pub fn open(
        reach: &Reach,
        plan: &Plan,
        cpus: u16,
        inputs: &[Content],
        interrupt: &Interrupt,
        tell: &mut dyn FnMut(&Event<'_>),
    ) -> Result<Self, ExpectedError> {
        let inputs = inputs.to_vec();
        let open = AgentTask { trial: plan.trial.to_toml(), seed: plan.seed, cpus, inputs };
        if reach.boots.is_some() {
            tell(&Event::Preparing { line: &format!("booting the guest {}", reach.place()) });
        }
        Self::with(reach, open, interrupt, Patience::with(reach), tell)
    }

    fn with(
        reach: &Reach,
        open: AgentTask,
        interrupt: &Interrupt,
        patience: Patience,
        tell: &mut dyn FnMut(&Event<'_>),
    ) -> Result<Self, ExpectedError> {
        let mut place = Self {
            reach: reach.clone(),
            open,
            interrupt: interrupt.clone(),
            patience,
            link: None,
            environment: Environment::default(),
            data: Data::Random,
            keeps: false,
            has_run: false,
            lost: None,
            losses: Vec::new(),
            warnings: Default::default(),
        };
        let (link, environment, data) = place.connect(tell)?;
        (place.link, place.environment, place.data) = (Some(link), environment, data);
        Ok(place)
    }

    /// Starts an agent and opens the trial there.
    fn connect(&self, tell: &mut dyn FnMut(&Event<'_>)) -> Result<(Link, Environment, Data), ExpectedError> {
        let name = self.reach.place();
        let mut link = Link::start(&self.reach, self.patience)?;
        let AgentTask { trial, seed, cpus, .. } = self.open.clone();
        let fstrial = env!("CARGO_PKG_VERSION").to_owned();
        link.voice.say(AgentOrder::Open { wire: WIRE, fstrial, place: name.to_owned(), trial, seed, cpus });
        let (mut last, mut moved) = (Bytes(0), Instant::now());
        loop {
            let left = self.patience.opening.saturating_sub(moved.elapsed());
            match link.hear(&self.interrupt, left) {
                Ok(AgentAnswer::Preparing { done, total }) => {
                    if done != last {
                        (last, moved) = (done, Instant::now());
                    }
                    tell(&Event::DeviceProgress { done, total });
                }
                Ok(AgentAnswer::Opened { environment, data }) => {
                    let put =
                        self.open.inputs.iter().try_for_each(|content| link.put(content, &self.interrupt));
                    if let Err(gone) = put {
                        return Err(self.unopened(link, gone));
                    }
                    link.rest(&self.reach);
                    return Ok((link, *environment, data));
                }
                Ok(AgentAnswer::Refused { what, hint, code }) => {
                    link.end(self.patience.farewell, &self.interrupt);
                    return Err(refused(name, what, hint, code));
                }
                Ok(other) => {
                    link.end(self.patience.short_farewell, &self.interrupt);
                    return Err(refused(name, gibberish(&other), None, exit_code::SETUP_FAILED));
                }
                Err(gone) => return Err(self.unopened(link, gone)),
            }
        }
    }

    /// The error of an agent that was lost before its first run.
    fn unopened(&self, link: Link, gone: Gone) -> ExpectedError {
        let words = link.end(self.patience.short_farewell, &self.interrupt);
        if self.interrupt.is_raised() {
            return StackError::Interrupted.into();
        }
        let hint = match self.reach.boots.is_some() {
            true => "the last messages of its kernel are above; `fstrial kernels` lists others",
            false => "the command of a place must run `fstrial agent` there and print nothing else",
        };
        ExpectedError::usage(gone.or(words).what(self.reach.place()), hint)
    }

    /// Tries again as long as one that was lost may still be at work, or may hold its home; after an interruption no
    /// longer than `short`.
    fn again<T>(
        &self,
        lost: Instant,
        short: Duration,
        attempt: impl Fn(&Self) -> Result<T, ExpectedError>,
    ) -> Result<T, ExpectedError> {
        loop {
            let result = attempt(self);
            // An interruption may have come meanwhile.
            let patience = if self.interrupt.is_raised() { short } else { self.patience.another };
            if result.is_ok() || lost.elapsed() >= patience || self.interrupt.is_overdue() {
                return result;
            }
            thread::park_timeout(PAUSE);
        }
    }

    /// Has an agent again after one was lost: on the same machine, or the runs of an arm are not of one arm.
    fn reconnect(&mut self, lost: Instant) -> Result<(), RunFailure> {
        let name = self.reach.place();
        if self.keeps {
            let what = format!("the filesystems prepared at {name} are gone with its agent");
            return Err(failure(FailureKind::HostLacks, what, "resume the trial: fstrial resume"));
        }
        let connect = |place: &Self| {
            if place.interrupt.is_raised() {
                Err(StackError::Interrupted.into())
            } else {
                place.connect(&mut |_| {})
            }
        };
        let (link, environment, _) = self.again(lost, Duration::ZERO, connect).map_err(|error| {
            failure(FailureKind::HostLacks, error.in_full(), "look at the host of the place")
        })?;
        let before = serde_json::to_string(&self.environment).expect("an environment is plain data");
        if let Some((was, is)) = environment.changed(&before) {
            // We ordered everything that exists there.
            let closed = link.close(name, &self.interrupt).err();
            let left = closed.map(|error| format!("; {error}")).unwrap_or_default();
            return Err(failure(
                FailureKind::HostLacks,
                format!("the place {name} was {was}, and its next agent is on {is}{left}"),
                "have its command reach the same machine",
            ));
        }
        (self.link, self.environment, self.lost) = (Some(link), environment, None);
        self.has_run = false;
        Ok(())
    }

    /// Gives the link up after an agent was lost in a run.
    fn lose(&mut self, gone: Gone) -> JobOutcome {
        let end = |link: Link| link.end(self.patience.short_farewell, &self.interrupt);
        let words = self.link.take().map(end).unwrap_or_default();
        let what = gone.or(words).what(self.reach.place());
        let [gone, current] = &mut self.warnings;
        gone.append(current);
        gone.truncate(bounded::MAX_TEXTS);
        self.lost = Some(Instant::now());
        if self.interrupt.is_raised() {
            return JobOutcome::Interrupted;
        }
        self.losses.push(what.clone());
        JobOutcome::Failed(failure(FailureKind::Lost, what, "look at the host of the place"))
    }

    /// The events there, phrased for a reader here.
    fn told_there(&self, ended: JobOutcome) -> JobOutcome {
        let JobOutcome::Failed(failure) = ended else { return ended };
        let hint = if failure.kind == FailureKind::CleanUp { Some(clean_there()) } else { failure.hint };
        let what = format!("at the place {}: {}", self.reach.place(), failure.what);
        JobOutcome::Failed(RunFailure { what, hint, ..failure })
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

    fn run(&mut self, job: &Job, hear: &mut dyn FnMut(&WorkerMessage)) -> JobOutcome {
        if let Some(lost) = self.lost
            && let Err(failure) = self.reconnect(lost)
        {
            return if self.interrupt.is_raised() {
                JobOutcome::Interrupted
            } else {
                JobOutcome::Failed(failure)
            };
        }
        self.keeps |= job.state.is_some();
        self.has_run = true;
        let link = self.link.as_mut().expect("one that was lost was replaced");
        link.transport.pause(false);
        link.voice.say(AgentOrder::Run { job: Box::new(job.clone()) });
        let mut until = Instant::now() + self.patience.late;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let gone = match link.hear(&self.interrupt, left) {
                Ok(AgentAnswer::Worker { message }) => {
                    if let WorkerMessage::Stage { deadline, .. } | WorkerMessage::Progress { deadline, .. } =
                        &*message
                    {
                        let longest = deadline.duration().min(LONGEST_STAGE) * self.patience.slowdown;
                        until = Instant::now() + longest + self.patience.late;
                    }
                    hear(&message);
                    continue;
                }
                Ok(AgentAnswer::Ended { ended, warnings }) => {
                    link.rest(&self.reach);
                    self.warnings[1] = warnings;
                    return self.told_there(ended);
                }
                Ok(other) => Gone::Gibberish(gibberish(&other)),
                Err(gone) => gone,
            };
            return self.lose(gone);
        }
    }

    fn warnings(&self) -> Vec<String> {
        let lost = self.losses.last().map(|last| {
            let each = if self.losses.len() == 1 { "it cost a run" } else { "each time it cost a run" };
            let times = match self.losses.len() {
                1 => "once".to_owned(),
                times => format!("{times} times"),
            };
            format!("an agent was lost {times} ({last}): {each}, and the device was made again")
        });
        let all = self.warnings.iter().flatten().cloned().chain(lost);
        all.map(|warning| format!("{}: {warning}", self.reach.place())).collect()
    }

    /// A guest in virtual time boots for every round: where its kernel put things at random is then a part of the spread between rounds.
    fn begin_round(&mut self) {
        if self.reach.is_virtual()
            && self.has_run
            && !self.keeps
            && let Some(link) = self.link.take()
        {
            link.end(Duration::ZERO, &self.interrupt);
            self.lost = Some(Instant::now());
        }
    }

    /// If the agent was lost, another one undoes its leftovers. Changes in a guest end with it.
    fn close(mut self: Box<Self>) -> Result<(), ExpectedError> {
        let (name, interrupt) = (self.reach.place().to_owned(), self.interrupt.clone());
        if self.reach.boots.is_some() {
            self.link.take().map(|link| link.end(Duration::ZERO, &interrupt));
            return Ok(());
        }
        match (self.link.take(), self.lost) {
            (Some(link), _) => link.close(&name, &interrupt),
            (None, None) => Ok(()),
            (None, Some(lost)) => {
                let put_back = |place: &Self| match interrupt.is_overdue() {
                    true => Err(StackError::Interrupted.into()),
                    false => Link::start(&place.reach, place.patience)?.close(&name, &interrupt),
                };
                let short = self.patience.short_farewell;
                self.again(lost, short, put_back).map_err(|error| left_behind(&name, &error.in_full()))
            }
        }
    }
}

impl Drop for Remote {
    /// After an error: the agent puts everything back when it hears nothing more.
    fn drop(&mut self) {
        self.link.take().map(|link| link.end(self.patience.short_farewell, &self.interrupt));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::{arm::Arm, job::PROTOCOL};

    const SHORT: Patience = Patience {
        first: Duration::from_secs(20),
        silence: Duration::from_secs(20),
        opening: Duration::from_secs(2),
        farewell: Duration::from_secs(2),
        short_farewell: Duration::from_millis(500),
        another: Duration::from_secs(2),
        late: Duration::from_secs(1),
        slowdown: 1,
        pulse: PULSE,
    };
    /// Functions for the scripts of agents: `hear` waits for an order and returns whether one came, `start` counts the
    /// starts, `opened NAME` reports that the devices are there, on a host of that name.
    const WORDS: &str = r#"
        hear() { while read -r line; do case $line in *'"alive"'*) ;; *) return 0 ;; esac; done; return 1; }
        start() { echo >> "$2"; wc -l < "$2"; }
        opened() { echo "$1" | sed "s/HOST/$2/"; }
        closed() { echo '{"answer":"closed"}'; }
    "#;

    /// A place whose agent is a script for sh. Its orders and the number of its starts are in `folder`.
    fn place(script: &str, folder: &tempfile::TempDir) -> Result<Remote, ExpectedError> {
        let environment = Box::new(Environment { host: "HOST".into(), ..Environment::of_this_machine() });
        let opened = serde_json::to_string(&AgentAnswer::Opened { environment, data: Data::Random }).unwrap();
        let starts = folder.path().join("starts").display().to_string();
        let script = format!("{WORDS}\n{script}");
        let reach = Reach::of("box", "sh", &["-c", &script, "agent", &opened, &starts]);
        Remote::with(&reach, AgentTask::default(), &Interrupt::default(), SHORT, &mut |_| {})
    }

    fn job() -> Job {
        Job {
            protocol: PROTOCOL,
            arm: Arm::plain("ext4"),
            task: None,
            state: None,
            memory: None,
            fsck: false,
        }
    }

    fn run(place: &mut Remote) -> RunFailure {
        match place.run(&job(), &mut |_| {}) {
            JobOutcome::Failed(failure) => failure,
            other => panic!("{other:?}"),
        }
    }

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn the_next_agent_must_be_on_the_same_machine() {
        let folder = folder();
        let script = r#"case $(start "$@") in
            1) hear; opened "$1" a; hear; exit 1 ;;
            2) hear; opened "$1" b; hear; closed ;;
            *) hear; closed ;;
        esac"#;
        let mut place = place(script, &folder).unwrap();
        let lost = run(&mut place);
        assert_eq!(
            (lost.kind, lost.what.as_str()),
            (FailureKind::Lost, "the agent at box is gone: exit status: 1")
        );
        let other = run(&mut place);
        assert_eq!(other.kind, FailureKind::HostLacks);
        assert!(other.what.contains("was a (") && other.what.contains("its next agent is on b ("), "{other}");
        assert_eq!(place.environment().host, "a", "what was measured was measured there");
        Box::new(place).close().unwrap();
    }

    #[test]
    fn replacement_agent_cleans_up_after_lost_one() {
        let folder = folder();
        let script = r#"case $(start "$@") in
            1) hear; opened "$1" a; hear
               echo '{"answer":"ended","ended":"interrupted","warnings":["slow"]}'; hear; exit 1 ;;
            2) exit 1 ;;
            *) hear; echo "$line" > "$2.received"; closed ;;
        esac"#;
        let mut place = place(script, &folder).unwrap();
        assert!(matches!(place.run(&job(), &mut |_| {}), JobOutcome::Interrupted));
        assert_eq!(run(&mut place).kind, FailureKind::Lost);
        assert_eq!(
            place.warnings(),
            [
                "box: slow",
                "box: an agent was lost once (the agent at box is gone: exit status: 1): it cost a run, and the \
                 device was made again"
            ]
        );
        Box::new(place).close().unwrap();
        let received = std::fs::read_to_string(folder.path().join("starts.received")).unwrap();
        assert_eq!(received, "{\"order\":\"close\"}\n");
    }

    /// The agent that reads nothing and only sends its heartbeat.
    const ALIVE: &str = r#"start "$@" > /dev/null; hear; opened "$1" a; hear; ALSO; while :; do echo '{"answer":"alive"}'; sleep 0.05; done"#;

    #[test]
    fn hung_agent_times_out_or_yields_to_interruption() {
        // It is lost when its stage takes too long, by its own announcement.
        let stage =
            r#"echo '{"answer":"worker","message":{"message":"stage","stage":"load","deadline":"100ms"}}'"#;
        for also in ["true", stage] {
            let folder = folder();
            let mut place = place(&ALIVE.replace("ALSO", also), &folder).unwrap();
            let lost = run(&mut place);
            assert!(lost.what.contains("it hangs"), "{lost}");
        }
        // An interruption, a second later or at the end of the budget, ends it and the attempt to undo its leftovers.
        for at_end in [false, true] {
            let folder = folder();
            let mut place = place(&ALIVE.replace("ALSO", "true"), &folder).unwrap();
            place.patience.late = Duration::from_secs(300);
            place.patience.another = Duration::from_secs(300);
            let interrupt = place.interrupt.clone();
            let began = Instant::now();
            interrupt.end_at(at_end.then(|| began + Duration::from_millis(300)));
            let raises = interrupt.clone();
            let raised = thread::spawn(move || {
                thread::park_timeout(Duration::from_millis(300));
                (!at_end).then(|| raises.raise())
            });
            assert!(matches!(place.run(&job(), &mut |_| {}), JobOutcome::Interrupted));
            assert_eq!(interrupt.is_time_over(), at_end);
            raised.join().unwrap();
            interrupt.raise();
            let left = Box::new(place).close().unwrap_err();
            assert_eq!(left.exit_code(), exit_code::CLEAN_UP_INCOMPLETE);
            assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
        }
    }

    #[test]
    fn interruption_ends_wait_for_replacement_agent() {
        let folder = folder();
        let script = r#"case $(start "$@") in 1) hear; opened "$1" a; hear; exit 1 ;; *) exit 7 ;; esac"#;
        let mut place = place(script, &folder).unwrap();
        run(&mut place);
        place.patience.another = Duration::from_secs(300);
        let interrupt = place.interrupt.clone();
        let interrupted = thread::spawn(move || {
            thread::park_timeout(Duration::from_millis(200));
            interrupt.raise();
            Instant::now()
        });
        assert!(matches!(place.run(&job(), &mut |_| {}), JobOutcome::Interrupted));
        let took = interrupted.join().unwrap().elapsed();
        assert!(took < Duration::from_secs(30), "{took:?}");
    }

    #[test]
    fn a_lost_agent_without_another_one_is_no_good_end() {
        let folder = folder();
        let script = r#"case $(start "$@") in 1) hear; opened "$1" a; hear; exit 1 ;; *) exit 7 ;; esac"#;
        let mut place = place(script, &folder).unwrap();
        run(&mut place);
        let left = Box::new(place).close().unwrap_err();
        assert_eq!(left.exit_code(), exit_code::CLEAN_UP_INCOMPLETE);
        assert!(left.to_string().contains("may still be there") && left.to_string().contains("7"), "{left}");
    }

    #[test]
    fn idle_agent_times_out_on_open_and_close() {
        let alive = "while sleep 0.1; do echo '{\"answer\":\"alive\"}'; done";
        let opening = place(&format!("hear; {alive}"), &folder()).err().unwrap().to_string();
        assert!(opening.contains("it hangs: nothing was done in time"), "{opening}");
        let place = place(&format!("hear; opened \"$1\" a; {alive}"), &folder()).unwrap();
        let closing = Box::new(place).close().unwrap_err();
        assert_eq!(closing.exit_code(), exit_code::CLEAN_UP_INCOMPLETE);
        assert!(closing.to_string().contains("it hangs"), "{closing}");
    }

    #[test]
    fn agent_command_has_own_session_and_reports_stderr() {
        let in_own_session = "test $(cut -d' ' -f6 /proc/$$/stat) = $$ || { echo session >&2; exit 1; }";
        let words = "printf 'one\\ntwo\\n\\nthree\\nfour\\n' >&2; exit 3";
        let output = place(&format!("{in_own_session}; {words}"), &folder()).err().unwrap().to_string();
        assert!(output.contains("exit status: 3: two; three; four"), "{output}");
    }

    #[test]
    fn failure_names_its_place() {
        let failure = RunFailure {
            kind: FailureKind::CleanUp,
            stage: Stage::Detach,
            what: "busy".into(),
            hint: Some("`fstrial clean`".into()),
        };
        let ended = AgentAnswer::Ended { ended: JobOutcome::Failed(failure), warnings: Vec::new() };
        let ended = serde_json::to_string(&ended).unwrap();
        let script = format!("hear; opened \"$1\" a; hear; echo '{ended}'; hear; closed");
        let mut place = place(&script, &folder()).unwrap();
        let failure = run(&mut place);
        assert_eq!(failure.what, "at the place box: busy");
        assert_eq!(failure.hint, Some(clean_there()));
        Box::new(place).close().unwrap();
    }
}
