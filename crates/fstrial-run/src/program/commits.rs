//! Commits of a server for a receipt: sessions make them while the command runs, and they are looked for after each cut.

use super::{Level, ProgramEvent, Run, failure, longest_load, server::Running};
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
use std::{
    collections::BTreeSet,
    io,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

/// Hears that the server has acknowledged the commit of a number; false if no more are wanted.
pub type Acknowledged<'a> = &'a (dyn Fn(u64) -> io::Result<bool> + Sync);

/// The state of a server after a cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterCut {
    /// It does not start; the reason.
    Closed(String),
    /// It answers.
    Open {
        /// Numbers whose commits it has.
        kept: BTreeSet<u64>,
        /// A failed command, such as the check of its data.
        complaint: Option<String>,
    },
}

/// Runs a program as for a measurement, while as many sessions as it has threads commit numbers from 0 on. In the end the
/// server is killed. `step` is called at each moment in turn, and its refusal ends the run.
///
/// # Errors
/// A program is missing, cannot be shut in, fails, or takes too long; or `acknowledged` fails.
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
    step(ProgramEvent::Command(Nanos(program.deadline.0 + super::AROUND.0)))?;
    let words = run.words(&promises.session)?;
    let open = |running: &Running| running.open(&words).map_err(|error| failure(Stage::Load, &error));
    let running = run.server.as_ref().expect("it was started");
    let sessions = (0..level.threads).map(|_| open(running)).collect::<Result<Vec<Session>, _>>()?;
    let (number, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let ended = thread::scope(|scope| {
        let commit = |session| {
            scope.spawn(|| {
                let ended = commit(session, promises, (&number, &is_over), acknowledged);
                // Without it the others promise nothing either.
                is_over.fetch_or(ended.is_err(), Ordering::Relaxed);
                ended
            })
        };
        let threads: Vec<_> = sessions.into_iter().map(commit).collect();
        let ended = run.one(&program.command, Stage::Load, program.deadline).map(drop);
        is_over.store(true, Ordering::Relaxed);
        let joined = threads.into_iter().map(|thread| thread.join().expect("sessions do not panic"));
        // The end of the server is the reason for that of a session, and in the failure of the command.
        ended.and(joined.collect())
    });
    step(ProgramEvent::Ended)?;
    ended
}

/// Commits numbers until it is over.
fn commit(
    mut session: Session,
    promises: &Promises,
    (number, is_over): (&AtomicU64, &AtomicBool),
    acknowledged: Acknowledged<'_>,
) -> Result<(), RunFailure> {
    while !is_over.load(Ordering::Relaxed) {
        let number = number.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = session.tell(&promises.commit_of(number), &number.to_string()) {
            let what = format!(
                "a session of [server.promises] did not acknowledge the commit of {number} ({error}): {}",
                session.end()
            );
            let hint = Some("try `commit` by hand in the client that `session` names".into());
            return Err(RunFailure { kind: FailureKind::LoadRefused, stage: Stage::Load, what, hint });
        }
        match acknowledged(number) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                let what = format!("the recording of the device failed: {error}");
                return Err(RunFailure { kind: FailureKind::Lost, stage: Stage::Load, what, hint: None });
            }
        }
    }
    Ok(())
}

/// Starts the server on what a cut has left in a directory of the arm, asks for its commits and has its data checked.
///
/// # Errors
/// A program is missing or cannot be shut in.
///
/// # Panics
/// If the program declares no promises.
pub fn after_cut(program: &Program, arm: &Path, level: Level) -> Result<AfterCut, RunFailure> {
    let (_, promises) = declared(program);
    let level = Level { is_loaded: true, ..level };
    let place = match Sandbox::left_in(arm) {
        Err(error @ StackError::Io { .. }) => return Ok(AfterCut::Closed(error.to_string())),
        place => place,
    };
    let mut run = Run::make(program, place, level)?;
    if let Err(why) = by_the_image(run.start_server(Stage::Check))? {
        return Ok(AfterCut::Closed(why));
    }
    let asked = by_the_image(run.one(&promises.kept, Stage::Check, program.deadline))?;
    let printed = asked.as_ref().map_or("", |ended| ended.finished.stdout.as_str());
    let kept = printed.lines().filter_map(|line| line.trim().parse().ok()).collect();
    let checked = by_the_image(run.verify())?;
    Ok(AfterCut::Open { kept, complaint: asked.err().or(checked.err()) })
}

fn declared(program: &Program) -> (&Server, &Promises) {
    let server = program.server.as_ref().expect("it has a server");
    (server, server.promises.as_ref().expect("it declares promises"))
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
