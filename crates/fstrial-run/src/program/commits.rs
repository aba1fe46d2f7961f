//! Commits of a server for a receipt: sessions make them while the command runs, and they are looked for after each cut.

use super::{Level, ProgramEvent, Run, failure, longest_load};
use crate::numbers::counted;
use fstrial_model::{
    job::{FailureKind, RunFailure},
    measurement::Stage,
    units::Nanos,
    workload::{Program, Promises, Server},
};
use fstrial_stack::{
    StackError,
    confined::{Sandbox, Session},
};
use rustix::io::Errno;
use std::{
    collections::BTreeSet,
    io,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

/// The remedy for a description that cannot be right.
const WRONG: &str = "try `commit` and `kept` of [server.promises] by hand: `kept` prints the numbers that the server has, and nothing else";
/// Most lines of a server's log with a failed verification.
const ERROR_LINES: usize = 3;
/// Most sessions that commit: more show nothing else, and take connections from the command.
const MAX_SESSIONS: u16 = 8;
/// Pause of the session that does something else meanwhile.
const PAUSE: Duration = Duration::from_millis(250);
/// The longest that a session may take for its lines.
const ANSWER: Duration = if cfg!(test) { Duration::from_secs(2) } else { Duration::from_secs(30) };

/// Called with each number whose commit was acknowledged; false ends the session.
pub type Acknowledged<'a> = &'a (dyn Fn(u64) -> io::Result<bool> + Sync);

/// The state of a server after a cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterCut {
    /// It does not start; the reason.
    Closed(String),
    /// It does not answer the question for its commits; the reason.
    Unanswered(String),
    /// It answers.
    Open {
        /// Numbers whose commits it has.
        kept: BTreeSet<u64>,
        /// The failure of the check of its data, or of its stop.
        complaint: Option<String>,
    },
}

/// The sessions of a server.
struct Sessions<'a> {
    next_number: AtomicU64,
    is_over: AtomicBool,
    acknowledged: Acknowledged<'a>,
}

/// Runs a program as for a measurement, while sessions commit numbers from 0 on. In the end the server is killed. `step` is
/// called at each moment in turn, and its refusal ends the run.
///
/// # Errors
/// A program is missing, cannot be shut in, fails, or takes too long; a session fails; or `acknowledged` does.
///
/// # Panics
/// If the program declares no promises.
pub fn record(
    program: &Program,
    arm: &Path,
    level: Level,
    step: &mut dyn FnMut(ProgramEvent) -> Result<(), RunFailure>,
    acknowledged: Acknowledged<'_>,
) -> Result<(), RunFailure> {
    let (server, promises) = declared(program);
    let mut run = Run::make(program, Sandbox::make(arm), level)?;
    step(ProgramEvent::Prepare(longest_load(program)))?;
    run.all(&program.prepare, Stage::Layout)?;
    run.load_by(&[server.load.as_slice(), &promises.prepare].concat(), Stage::Layout)?;
    // What is there now is durable, however the server syncs: the table of promises cannot be lost.
    step(ProgramEvent::Settle)?;
    run.start_server(Stage::Settle)?;
    run.require_kept(promises, |kept| kept.is_empty(), "before any commit")?;
    let [commit, meanwhile] = run.words(&promises.lines())?.try_into().expect("two lines");
    let count = level.threads.min(MAX_SESSIONS);
    let committing = (0..count).map(|_| run.open(promises)).collect::<Result<Vec<Session>, _>>()?;
    let another = (!meanwhile.is_empty()).then(|| run.open(promises)).transpose()?;
    step(ProgramEvent::Command(Nanos(program.deadline.0 + super::AROUND.0)))?;
    let is_over = AtomicBool::new(false);
    let sessions = Sessions { next_number: AtomicU64::new(0), is_over, acknowledged };
    let (outcome, committed) = thread::scope(|scope| {
        let threads: Vec<_> =
            committing.into_iter().map(|session| scope.spawn(|| sessions.commit(session, &commit))).collect();
        let other = another.map(|session| scope.spawn(|| sessions.repeat(session, &meanwhile)));
        let outcome = run.one(&program.command, Stage::Load, program.deadline).map(drop);
        sessions.is_over.store(true, Ordering::Relaxed);
        let ended = threads.into_iter().chain(other).map(|thread| thread.join().expect("it does not panic"));
        (outcome, ended.sum::<Result<u64, RunFailure>>())
    });
    step(ProgramEvent::Ended)?;
    // If the server has ended, so have all sessions: the command's error says why.
    outcome?;
    let committed =
        committed.map_err(|error| RunFailure { what: error.what + &run.end_of_server(), ..error })?;
    if committed == 0 {
        return Err(refused(
            "no commit was acknowledged while the command ran".into(),
            "use a longer duration",
        ));
    }
    // Every number was acknowledged, except for those of sessions that ended.
    let numbers = sessions.next_number.load(Ordering::Relaxed);
    let is_right = |kept: &BTreeSet<u64>| {
        kept.len() as u64 >= committed && kept.last().is_none_or(|last| *last < numbers)
    };
    run.require_kept(promises, is_right, &format!("after {committed} commits and no power cut"))
}

impl Run<'_> {
    /// Asks for the numbers that the server has, without a power cut.
    fn require_kept(
        &mut self,
        promises: &Promises,
        is_right: impl Fn(&BTreeSet<u64>) -> bool,
        when: &str,
    ) -> Result<(), RunFailure> {
        let ended = self.one(&promises.kept, Stage::Load, self.program.deadline)?;
        let what = match numbers(&ended.finished.stdout) {
            Ok(kept) if is_right(&kept) => return Ok(()),
            Ok(kept) => format!("`kept` prints {}, {when}", counted(kept.len(), "number")),
            Err(what) => what,
        };
        Err(refused(what, WRONG))
    }

    fn open(&self, promises: &Promises) -> Result<Session, RunFailure> {
        let running = self.server.as_ref().expect("it was started");
        running.open(&self.words(&promises.session)?).map_err(|error| failure(Stage::Settle, &error))
    }
}

impl Sessions<'_> {
    /// Commits numbers until it is over; how many.
    fn commit(&self, session: Session, lines: &str) -> Result<u64, RunFailure> {
        let next = || self.next_number.fetch_add(1, Ordering::Relaxed);
        self.carry_out(session, lines, next, self.acknowledged)
    }

    /// Has lines carried out with pauses until it is over; they commit nothing.
    fn repeat(&self, session: Session, lines: &str) -> Result<u64, RunFailure> {
        let mut numbers = 0..;
        let next = || numbers.next().expect("there is always another");
        let pause = |_| {
            thread::park_timeout(PAUSE);
            Ok(true)
        };
        self.carry_out(session, lines, next, &pause).map(|_| 0)
    }

    /// Passes lines to a session, each time with the `next` number, until it is over or `done` is false; how often. A failure
    /// ends the others: of a session that has worked, it is the arm's.
    fn carry_out(
        &self,
        mut session: Session,
        lines: &str,
        mut next: impl FnMut() -> u64,
        done: &dyn Fn(u64) -> io::Result<bool>,
    ) -> Result<u64, RunFailure> {
        let mut count = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            let number = next();
            if let Err(error) =
                session.tell(&Promises::with_number(lines, number), &number.to_string(), ANSWER)
            {
                self.is_over.store(true, Ordering::Relaxed);
                return Err(unanswered(session, number, &error, count > 0));
            }
            count += 1;
            let wants_more = done(number).map_err(|error| {
                let what = format!("the recording of the device failed: {error}");
                RunFailure { kind: FailureKind::Lost, stage: Stage::Load, what, hint: None }
            })?;
            if !wants_more {
                break;
            }
        }
        Ok(count)
    }
}

fn unanswered(session: Session, number: u64, error: &io::Error, has_worked: bool) -> RunFailure {
    let said = Some(session.end()).filter(|said| !said.is_empty());
    let said = said.unwrap_or_else(|| "It printed no error.".into());
    let failure = refused(
        format!("a session of [server.promises] did not print {number}: {error}. {said}"),
        "try its lines by hand, in the client that `session` names: it must not buffer its output",
    );
    RunFailure { kind: if has_worked { FailureKind::ArmFailed } else { failure.kind }, ..failure }
}

/// A description or a duration that cannot be right.
fn refused(what: String, hint: &str) -> RunFailure {
    RunFailure { kind: FailureKind::LoadRefused, stage: Stage::Load, what, hint: Some(hint.into()) }
}

/// Starts the server on what a cut has left in a directory of the arm, asks for its commits, has its data checked and stops
/// it.
///
/// # Errors
/// A program is missing or cannot be shut in, or something takes too long.
///
/// # Panics
/// If the program declares no promises.
pub fn after_cut(program: &Program, arm: &Path, level: Level) -> Result<AfterCut, RunFailure> {
    let (_, promises) = declared(program);
    let place = match Sandbox::left_in(arm) {
        Err(StackError::Io { source, path, .. }) if is_of_the_image(&source) => {
            return Ok(AfterCut::Closed(format!("the server has no folder {}: {source}", path.display())));
        }
        place => place,
    };
    let mut run = Run::make(program, place, level)?;
    if let Err(why) = by_the_image(run.start_server(Stage::Check))? {
        return Ok(AfterCut::Closed(why));
    }
    let asked = by_the_image(run.one(&promises.kept, Stage::Check, program.deadline))?;
    let checked = by_the_image(run.verify(Stage::Check))?;
    let stopped = by_the_image(run.stop_server(Stage::Check))?;
    // Its reason for bad data is in its log.
    let with_log = |why: String| match error_lines(&run.server_said) {
        log if log.is_empty() => why,
        log => format!("{why}; the server: {log}"),
    };
    Ok(match asked {
        Err(why) => AfterCut::Unanswered(why),
        Ok(ended) => match numbers(&ended.finished.stdout) {
            Ok(kept) => AfterCut::Open { kept, complaint: checked.and(stopped).err().map(with_log) },
            Err(why) => AfterCut::Unanswered(why),
        },
    })
}

/// The first lines of a server's log with an error.
fn error_lines(log: &str) -> String {
    let is_error =
        |line: &&str| ["error", "panic", "corrupt"].iter().any(|word| line.to_lowercase().contains(word));
    log.lines().filter(is_error).take(ERROR_LINES).collect::<Vec<_>>().join(" ")
}

/// The numbers that `kept` has printed.
fn numbers(printed: &str) -> Result<BTreeSet<u64>, String> {
    let lines = printed.lines().map(str::trim).filter(|line| !line.is_empty());
    let number =
        |line: &str| line.parse().map_err(|_| format!("`kept` printed `{line:.80}`, which is not a number"));
    lines.map(number).collect()
}

fn declared(program: &Program) -> (&Server, &Promises) {
    let server = program.server.as_ref().expect("it has a server");
    (server, server.promises.as_ref().expect("it declares promises"))
}

/// True for errors of a filesystem that has lost a folder or is damaged.
fn is_of_the_image(error: &io::Error) -> bool {
    let errors = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::IO, Errno::UCLEAN];
    errors.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Separates failures that are due to the image from those of this host.
fn by_the_image<T>(result: Result<T, RunFailure>) -> Result<Result<T, String>, RunFailure> {
    match result {
        Err(failure) if matches!(failure.kind, FailureKind::LoadRefused | FailureKind::ArmFailed) => {
            Ok(Err(failure.what))
        }
        result => result.map(Ok),
    }
}
