//! A program as the load of a run: prepare, settle, the command under the clock, its numbers, clean up.
//!
//! ```text
//! version ─► prepare … ─► settle (the worker's) ─► command ─► files that rules read ─► cleanup … ─► numbers
//! ```
//! Every command runs shut in on the arm ([`fstrial_stack::confined`]). Whatever goes wrong is a failed run with the
//! last lines that were printed; nothing is guessed and nothing is left out of the numbers asked for.

use fstrial_model::{
    job::{FailureKind, RunFailure},
    measurement::Stage,
    units::{Bytes, Nanos},
    workload::{
        EntryError, Program,
        metric::{Output, PickedNumber},
        program::Values,
    },
};
use fstrial_stack::{
    StackError,
    command::how_to_install,
    confined::{ExitedProgram, Input, KEPT_BYTES, Sandbox, hidden_folder, shortened},
};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::{
    collections::BTreeMap,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    time::Instant,
};

/// Most bytes of output kept with the run.
const RAW_BYTES: usize = 256 << 10;
/// The longest a program may take to tell its version.
const VERSION_DEADLINE: Nanos = Nanos::secs(10);
/// Longest version kept, in bytes.
const VERSION_BYTES: usize = 200;
/// Time for everything around a command.
const AROUND: Nanos = Nanos::secs(60);
/// Packages of programs whose package is not called like them: for apt, dnf, zypper and pacman.
const PACKAGES: [(&str, [&str; 4]); 2] = [
    ("mdtest", ["ior", "ior", "ior", "ior"]),
    ("pgbench", ["postgresql-contrib", "postgresql-contrib", "postgresql-contrib", "postgresql"]),
];

/// What differs from run to run.
#[derive(Debug, Clone, Copy)]
pub struct Level {
    /// Number of threads, clients or writers.
    pub threads: u16,
    /// Time to measure, for programs that are told.
    pub duration: Nanos,
    /// Seed of the round.
    pub seed: u64,
}

/// A moment of the run that the worker has a part in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The commands before the clock begin; with everything around they take at most this long.
    Prepare(Nanos),
    /// Everything is to be written out and the caches dropped.
    Settle,
    /// The command begins; it, and the clean-up, take at most this long.
    Command(Nanos),
    /// The command has ended; clean-up follows.
    Ended,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ProgramOutcome {
    /// One number for each rule, in their order.
    pub values: Vec<PickedNumber>,
    /// The command line and what it printed: the first and the last part of at most 256 KiB.
    pub raw: String,
    /// The first line of what the version command printed; empty without one.
    pub version: String,
    /// All command lines, in the order they ran.
    pub commands: Vec<String>,
    /// Time from the command's start to its end.
    pub wall: Nanos,
    /// CPU time of the command and the children it waited for, in user mode.
    pub cpu_user: Nanos,
    /// See `cpu_user`, in the kernel.
    pub cpu_system: Nanos,
    /// Memory of its largest process.
    pub memory: Bytes,
}

impl ProgramOutcome {
    /// What is kept with the run: the version, every command, and what was printed.
    pub fn report(&self) -> String {
        let version = if self.version.is_empty() { "unknown" } else { &self.version };
        format!(
            "version: {version}\nwall time: {}, user {}, system {}, memory {}\n{}\n\n{}",
            self.wall,
            self.cpu_user,
            self.cpu_system,
            self.memory.human(),
            self.commands.join("\n"),
            self.raw
        )
    }
}

/// Runs a program in a folder of its own inside the arm's directory. `step` is called at each moment in turn, and
/// what it refuses ends the run.
///
/// # Errors
/// A program is missing, cannot be shut in, fails, or takes too long; or a rule finds no number.
pub fn run(
    program: &Program,
    arm: &Path,
    level: Level,
    step: &mut dyn FnMut(Step) -> Result<(), RunFailure>,
) -> Result<ProgramOutcome, RunFailure> {
    let mut run = Run::make(program, arm, level)?;
    let deadline = program.deadline;
    step(Step::Prepare(Nanos(deadline.0 + AROUND.0)))?;
    let version = run.version()?;
    run.all(&program.prepare, Stage::Layout)?;
    step(Step::Settle)?;
    step(Step::Command(Nanos(2 * deadline.0 + AROUND.0)))?;
    let ended = run.one(&program.command, Stage::Load, deadline)?;
    step(Step::Ended)?;
    let output = Output {
        stdout: ended.finished.stdout.clone(),
        stderr: ended.finished.stderr.clone(),
        files: program.files_read().into_iter().filter_map(|name| run.file(name)).collect(),
        wall: ended.wall,
        cpu: Nanos(ended.cpu_user.0 + ended.cpu_system.0),
        memory: ended.memory,
    };
    run.all(&program.cleanup, Stage::Load)?;
    let values = program.pick(&output).map_err(|error| RunFailure {
        kind: FailureKind::LoadRefused,
        stage: Stage::Load,
        what: format!("{error}; the last lines printed:\n{}", ended.finished.last_lines()),
        hint: Some(error.hint),
    })?;
    Ok(ProgramOutcome {
        values,
        raw: raw(&ended),
        version,
        commands: run.commands,
        wall: ended.wall,
        cpu_user: ended.cpu_user,
        cpu_system: ended.cpu_system,
        memory: ended.memory,
    })
}

struct Run<'a> {
    program: &'a Program,
    place: Sandbox,
    inputs: Vec<Input>,
    values: Values,
    commands: Vec<String>,
}

impl<'a> Run<'a> {
    fn make(program: &'a Program, arm: &Path, level: Level) -> Result<Self, RunFailure> {
        let failed = |error: StackError| failure(Stage::Layout, &error);
        let place = Sandbox::make(arm).map_err(failed)?;
        let mut values = Values {
            dir: place.seen().to_owned(),
            threads: level.threads,
            duration: level.duration,
            seed: level.seed,
            inputs: BTreeMap::new(),
        };
        let mut inputs = Vec::with_capacity(program.inputs.len());
        let mut paths: BTreeMap<String, PathBuf> = BTreeMap::new();
        for (name, text) in &program.inputs {
            let text = program.input(text, &values).map_err(|error| refused(&error))?;
            let input = Input::new(name, &text).map_err(failed)?;
            paths.insert(name.clone(), input.path());
            inputs.push(input);
        }
        values.inputs = paths;
        Ok(Self { program, place, inputs, values, commands: Vec::new() })
    }

    /// Runs a command however it ends.
    fn finish(
        &mut self,
        command: &[String],
        stage: Stage,
        deadline: Nanos,
    ) -> Result<ExitedProgram, RunFailure> {
        let words = self.program.words(command, &self.values).map_err(|error| refused(&error))?;
        let inputs: Vec<&Input> = self.inputs.iter().collect();
        let ended = self.place.run(&words, &inputs, deadline).map_err(|error| failure(stage, &error))?;
        self.commands.push(ended.finished.line.clone());
        Ok(ended)
    }

    /// Runs a command that must succeed.
    fn one(
        &mut self,
        command: &[String],
        stage: Stage,
        deadline: Nanos,
    ) -> Result<ExitedProgram, RunFailure> {
        let ended = self.finish(command, stage, deadline)?;
        let finished = &ended.finished;
        if finished.status.success() {
            return Ok(ended);
        }
        let last_lines = finished.last_lines();
        let full = ["No space left", "disk full", "Disk full"].iter().any(|words| last_lines.contains(words));
        let missing = last_lines.contains("No such file").then(|| hidden_folder(&finished.line)).flatten();
        let hint = match missing {
            _ if full => "use a larger --size, or a smaller file_size".into(),
            Some(folder) => hidden_from_programs(folder),
            None => "run it by hand in an empty directory, as an ordinary user".into(),
        };
        let what = format!("`{}` failed ({}): {last_lines}", finished.line, finished.status);
        // What fails before the load is the command's fault; under load it is an outcome of the arm.
        let under_load = stage == Stage::Load && command == self.program.command;
        let kind = if under_load { FailureKind::ArmFailed } else { FailureKind::LoadRefused };
        Err(RunFailure { kind, stage, what, hint: Some(hint) })
    }

    /// Runs commands that together must end in time.
    fn all(&mut self, commands: &[Vec<String>], stage: Stage) -> Result<(), RunFailure> {
        let began = Instant::now();
        for command in commands {
            let spent: Nanos = began.elapsed().into();
            let left = self.program.deadline.0.saturating_sub(spent.0).max(Nanos::secs(1).0);
            self.one(command, stage, Nanos(left))?;
        }
        Ok(())
    }

    /// The first line that the version command prints, however it ends: many tools have no option for it and say it
    /// with an error.
    fn version(&mut self) -> Result<String, RunFailure> {
        if self.program.version.is_empty() {
            return Ok(String::new());
        }
        let finished = self.finish(&self.program.version, Stage::Layout, VERSION_DEADLINE)?.finished;
        self.commands.pop();
        let mut lines = finished.stdout.lines().chain(finished.stderr.lines()).map(str::trim);
        let first = lines.find(|line| !line.is_empty()).unwrap_or_default();
        Ok(shortened(first, VERSION_BYTES))
    }

    /// A file that the program wrote: a regular one in its own folder, reached without links. None otherwise.
    fn file(&self, name: &str) -> Option<(String, String)> {
        let folder = File::open(self.place.folder()).ok()?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let file = File::from(rustix::fs::openat2(&folder, name, flags, Mode::empty(), resolve).ok()?);
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(KEPT_BYTES as u64).read_to_end(&mut bytes).ok()?;
        Some((name.to_owned(), String::from_utf8_lossy(&bytes).into_owned()))
    }
}

/// What is kept of the output: the command line, then both streams.
fn raw(ended: &ExitedProgram) -> String {
    let finished = &ended.finished;
    let mut text = format!("$ {}\n{}", finished.line, finished.stdout);
    if !finished.stderr.is_empty() {
        text.push_str("\n[standard error]\n");
        text.push_str(&finished.stderr);
    }
    shortened(&text, RAW_BYTES)
}

fn refused(error: &EntryError) -> RunFailure {
    RunFailure {
        kind: FailureKind::LoadRefused,
        stage: Stage::Layout,
        what: error.problem.clone(),
        hint: error.hint.clone(),
    }
}

/// Where an error comes from decides whose fault it is.
fn failure(stage: Stage, error: &StackError) -> RunFailure {
    let (kind, hint) = match error {
        StackError::MissingProgram { program, .. } => (FailureKind::HostLacks, Some(install(program))),
        StackError::Deadline { .. } => (
            // An arm that is too slow must not go unnoticed.
            FailureKind::ArmFailed,
            Some("raise `deadline` in the workload, or give the program less to do".into()),
        ),
        StackError::Unable { .. } => (FailureKind::HostLacks, error.hint()),
        StackError::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => (
            FailureKind::HostLacks,
            Some(
                "as root, programs run as the user nobody, who must be able to reach and execute them".into(),
            ),
        ),
        StackError::Io { source, path, .. }
            if source.kind() == std::io::ErrorKind::NotFound
                && let Some(folder) = hidden_folder(&path.display().to_string()) =>
        {
            (FailureKind::HostLacks, Some(hidden_from_programs(folder)))
        }
        StackError::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
            (FailureKind::LoadRefused, Some("use a larger --size".into()))
        }
        _ => (FailureKind::Lost, error.hint()),
    };
    RunFailure { kind, stage, what: error.to_string(), hint }
}

/// What to do about a file that programs do not see.
fn hidden_from_programs(folder: &str) -> String {
    format!(
        "as root, programs see in {folder} only files that a command names, and the folder of the program itself: put \
         what they need elsewhere, such as /srv, or into inputs"
    )
}

/// How to come by a program.
fn install(program: &str) -> String {
    if program.contains('/') {
        return "check the spelling of the path".into();
    }
    match PACKAGES.iter().find(|(name, _)| *name == program) {
        Some((_, packages)) => format!("install it: {}", how_to_install(*packages)),
        None => format!("check the spelling of `{program}`, or install the package that has it"),
    }
}

#[cfg(test)]
mod tests;
