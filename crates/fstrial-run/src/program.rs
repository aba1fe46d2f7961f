//! A program as the load of a run: prepare, settle, the command under the clock, its numbers, clean up.
//!
//! ```text
//! version ─► prepare … ─► settle (the worker's) ─► command ─► files that rules read ─► cleanup … ─► numbers
//! ```
//! A server, if there is one, runs while its data are loaded, is stopped, and runs again around the command
//! ([`server`]).
//!
//! Every command runs confined on the arm ([`fstrial_stack::confined`]). Any error is a failed run with the last lines
//! of output; nothing is guessed and no requested number is left out.

pub mod commits;
mod server;

use self::server::Running;
use fstrial_model::{
    job::{FailureKind, RunFailure},
    measurement::Stage,
    units::{Bytes, Nanos},
    workload::{
        EntryError, HELPERS, Program, Server,
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
use std::{collections::BTreeMap, fs::File, io::Read, path::Path, time::Instant};

/// Most bytes of output kept with the run.
const RAW_BYTES: usize = 256 << 10;
/// Time limit for a program to print its version.
const VERSION_DEADLINE: Nanos = Nanos::secs(10);
/// Longest version kept, in bytes.
const VERSION_BYTES: usize = 200;
/// Time for everything around a command.
const AROUND: Nanos = Nanos::secs(60);
/// Packages of programs with a different name: for apt, dnf, zypper and pacman.
const PACKAGES: [(&str, [&str; 4]); 16] = [
    ("mpirun", ["openmpi-bin", "openmpi", "openmpi", "openmpi"]),
    ("mdtest", ["ior", "ior", "ior", "ior"]),
    ("postgres", POSTGRESQL),
    ("initdb", POSTGRESQL),
    ("pg_isready", POSTGRESQL),
    ("psql", POSTGRESQL),
    ("pgbench", ["postgresql postgresql-contrib", "postgresql-contrib", "postgresql-contrib", "postgresql"]),
    ("mariadbd", MARIADB),
    ("mariadb-install-db", MARIADB),
    ("mariadb", MARIADB),
    ("mariadb-check", MARIADB),
    ("redis-server", ["redis-server redis-tools", "redis", "redis", "redis"]),
    ("redis-cli", ["redis-tools", "redis", "redis", "redis"]),
    ("redis-benchmark", ["redis-tools", "redis", "redis", "redis"]),
    ("valkey-server", ["valkey-server", "valkey", "valkey", "valkey"]),
    ("mongod", ["mongodb-org", "mongodb-org", "mongodb-org", "mongodb-bin"]),
];
const POSTGRESQL: [&str; 4] = ["postgresql", "postgresql-server", "postgresql-server", "postgresql"];
const MARIADB: [&str; 4] =
    ["mariadb-server-core mariadb-client-core", "mariadb-server", "mariadb mariadb-client", "mariadb"];

/// Settings that differ from run to run.
#[derive(Debug, Clone, Copy)]
pub struct Level {
    /// Number of threads, clients or writers.
    pub threads: u16,
    /// Measuring time, for programs that take one.
    pub duration: Nanos,
    /// Seed of the round.
    pub seed: u64,
    /// Its data are there already.
    pub is_loaded: bool,
}

/// A moment of the run that the worker has a part in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramEvent {
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
    /// The command line and its output: the first and the last part of at most 256 KiB.
    pub raw: String,
    /// The first line of the version command's output; empty without one.
    pub version: String,
    /// The durability of its server's acknowledgements, if it is declared.
    pub durable: Option<String>,
    /// Checkpoints of its server, where they are counted.
    pub checkpoints: Option<u64>,
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
    /// The stored record of the run: the version, every command, and the output.
    pub fn report(&self) -> String {
        let version = if self.version.is_empty() { "unknown" } else { &self.version };
        let durable =
            self.durable.as_ref().map(|message| format!("durable: {message}\n")).unwrap_or_default();
        format!(
            "version: {version}\n{durable}wall time: {}, user {}, system {}, memory {}\n{}\n\n{}",
            self.wall,
            self.cpu_user,
            self.cpu_system,
            self.memory.human(),
            self.commands.join("\n"),
            self.raw
        )
    }
}

/// Loads a program's data in a separate folder inside the arm's directory, for later runs there. `begins` receives its
/// time limit.
///
/// # Errors
/// A program is missing, cannot be shut in, fails, or takes too long.
pub fn load(
    program: &Program,
    arm: &Path,
    level: Level,
    begins: &mut dyn FnMut(Nanos),
) -> Result<(), RunFailure> {
    let mut run = Run::make(program, Sandbox::make(arm), level)?;
    begins(longest_load(program));
    run.all(&program.prepare, Stage::Prepare)?;
    run.load(Stage::Prepare)
}

/// The longest that everything before the settling may take.
fn longest_load(program: &Program) -> Nanos {
    // Loading may take as long as preparing, and a server starts and stops with either.
    let loading = program.server.as_ref().map_or(0, |server| program.deadline.0 + server.longest().0);
    Nanos(program.deadline.0 + loading + AROUND.0)
}

/// Runs a program in a separate folder inside the arm's directory, where it may be loaded already. `step` is called at
/// each moment in turn, and its refusal ends the run.
///
/// # Errors
/// A program is missing, cannot be shut in, fails, or takes too long; or a rule finds no number.
pub fn run(
    program: &Program,
    arm: &Path,
    level: Level,
    step: &mut dyn FnMut(ProgramEvent) -> Result<(), RunFailure>,
) -> Result<ProgramOutcome, RunFailure> {
    let place = if level.is_loaded { Sandbox::left_in(arm) } else { Sandbox::make(arm) };
    let mut run = Run::make(program, place, level)?;
    let deadline = program.deadline;
    let around = Nanos(AROUND.0 + program.server.as_ref().map_or(Nanos(0), Server::longest).0);
    step(ProgramEvent::Prepare(longest_load(program)))?;
    let version = run.version()?;
    if !level.is_loaded {
        run.all(&program.prepare, Stage::Layout)?;
        run.load(Stage::Layout)?;
    }
    step(ProgramEvent::Settle)?;
    run.start_server(Stage::Settle)?;
    step(ProgramEvent::Command(Nanos(2 * deadline.0 + around.0)))?;
    let ended = run.one(&program.command, Stage::Load, deadline)?;
    step(ProgramEvent::Ended)?;
    let output = Output {
        stdout: ended.finished.stdout.clone(),
        stderr: ended.finished.stderr.clone(),
        files: program.files_read().into_iter().filter_map(|name| run.file(name)).collect(),
        wall: ended.wall,
        cpu: Nanos(ended.cpu_user.0 + ended.cpu_system.0),
        memory: ended.memory,
    };
    run.verify(Stage::Load)?;
    run.stop_server(Stage::Load)?;
    let values = program.pick(&output).map_err(|error| RunFailure {
        kind: FailureKind::LoadRefused,
        stage: Stage::Load,
        what: format!("{error}; the last lines printed:\n{}", ended.finished.last_lines()),
        hint: Some(error.hint),
    })?;
    Ok(ProgramOutcome {
        values,
        raw: raw(&ended, &run.server_said),
        version,
        durable: program.durable(),
        checkpoints: program.server.as_ref().and_then(|server| server.checkpoints(&run.server_said)),
        commands: run.commands,
        wall: ended.wall,
        cpu_user: ended.cpu_user,
        cpu_system: ended.cpu_system,
        memory: ended.memory,
    })
}

struct Run<'a> {
    program: &'a Program,
    /// Before all it works with: it must have ended when that goes.
    server: Option<Running>,
    /// The server's output from its last start to its end.
    server_said: String,
    place: Sandbox,
    inputs: Vec<Input>,
    values: Values,
    commands: Vec<String>,
}

impl<'a> Run<'a> {
    fn make(
        program: &'a Program,
        place: Result<Sandbox, StackError>,
        level: Level,
    ) -> Result<Self, RunFailure> {
        let failed = |error: StackError| failure(Stage::Layout, &error);
        let place = place.map_err(failed)?;
        let mut values = Values {
            dir: place.seen().to_owned(),
            threads: level.threads,
            duration: level.duration,
            seed: level.seed,
            inputs: BTreeMap::new(),
        };
        let mut inputs = Vec::new();
        for (name, text) in &program.inputs {
            let text = program.input(text, &values).map_err(|error| refused(&error))?;
            inputs.push((name, Input::new(name, text.as_bytes()).map_err(failed)?));
        }
        for (name, file) in &program.attached {
            inputs.push((name, Input::again(&file.file).map_err(failed)?));
        }
        values.inputs = inputs.iter().map(|(name, input)| ((*name).clone(), input.path())).collect();
        let inputs = inputs.into_iter().map(|(_, input)| input).collect();
        let commands = Vec::new();
        Ok(Self { program, server: None, server_said: String::new(), place, inputs, values, commands })
    }

    fn words(&self, command: &[String]) -> Result<Vec<String>, RunFailure> {
        self.program.words(command, &self.values).map_err(|error| refused(&error))
    }

    /// Has the server load its data, and stops it: the measurement begins with cold caches everywhere.
    fn load(&mut self, stage: Stage) -> Result<(), RunFailure> {
        let server = self.program.server.as_ref();
        server.map_or(Ok(()), |server| self.load_by(&server.load, stage))
    }

    /// Starts the server for these commands, and stops it; nothing without any.
    fn load_by(&mut self, commands: &[Vec<String>], stage: Stage) -> Result<(), RunFailure> {
        if commands.is_empty() {
            return Ok(());
        }
        self.start_server(stage)?;
        self.all(commands, stage)?;
        self.stop_server(stage)
    }

    /// Has the server's data checked.
    fn verify(&mut self, stage: Stage) -> Result<(), RunFailure> {
        let Some(server) = &self.program.server else { return Ok(()) };
        self.all(&server.verify, stage).map_err(|error| RunFailure {
            kind: if error.kind == FailureKind::LoadRefused { FailureKind::ArmFailed } else { error.kind },
            what: format!("the data were not verified: {}", error.what),
            ..error
        })
    }

    /// Runs a command however it ends.
    fn finish(
        &mut self,
        command: &[String],
        stage: Stage,
        deadline: Nanos,
    ) -> Result<ExitedProgram, RunFailure> {
        let words = self.words(command)?;
        let inputs: Vec<&Input> = self.inputs.iter().collect();
        let ended = match &self.server {
            Some(running) => running.run(&words, deadline),
            None => self.place.run(&words, &inputs, deadline),
        };
        let ended = ended.map_err(|error| {
            let failure = failure(stage, &error);
            match self.end_of_server() {
                end if end.is_empty() => failure,
                end => RunFailure { kind: FailureKind::ArmFailed, what: failure.what + &end, ..failure },
            }
        })?;
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
            _ if let Some(program) = not_found(&last_lines) => install(program),
            _ if full => "use a larger device (its size), or a smaller file_size".into(),
            Some(folder) => hidden_from_programs(folder),
            None => "run it by hand in an empty directory, as an ordinary user".into(),
        };
        let end = self.end_of_server();
        let what = format!("`{}` failed ({}): {last_lines}{end}", finished.line, finished.status);
        // A failure before the load is the command's fault; under load it is an outcome of the arm.
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

    /// The first line of the version command's output, with any exit status: many tools have no option for it and print
    /// it with an error.
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

/// The kept output: the command line, then both streams, then the server's output.
fn raw(ended: &ExitedProgram, server: &str) -> String {
    let finished = &ended.finished;
    let mut text = format!("$ {}\n{}", finished.line, finished.stdout);
    if !finished.stderr.is_empty() {
        text.push_str("\n[standard error]\n");
        text.push_str(&finished.stderr);
    }
    if !server.is_empty() {
        text.push_str("\n[server]\n");
        text.push_str(server);
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

/// The origin of an error determines its attribution.
fn failure(stage: Stage, error: &StackError) -> RunFailure {
    let (kind, hint) = match error {
        StackError::MissingProgram { program, .. } => (FailureKind::HostLacks, Some(install(program))),
        // A slow recovery after a power cut has lost nothing.
        StackError::Deadline { .. } if stage == Stage::Check => (FailureKind::Lost, error.hint()),
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
            (FailureKind::LoadRefused, Some("use a larger device (its size)".into()))
        }
        _ => (FailureKind::Lost, error.hint()),
    };
    RunFailure { kind, stage, what: error.to_string(), hint }
}

/// The remedy for a file that is hidden from programs.
fn hidden_from_programs(folder: &str) -> String {
    format!(
        "as root, programs see only those files in {folder} that a command names, and the program's \
             own folder: move other files elsewhere, such as to /srv, or list them in inputs"
    )
}

/// The program that a shell did not find: `sh: 1: pgbench: not found`.
fn not_found(last_lines: &str) -> Option<&str> {
    let line = last_lines.lines().find(|line| line.ends_with(": not found"))?;
    line.rsplit(": ").nth(1).filter(|name| !name.contains(char::is_whitespace))
}

/// Instructions to install a program.
pub fn install(program: &str) -> String {
    if program.contains('/') {
        return "check the spelling of the path".into();
    }
    if let Some((_, built_by)) = HELPERS.iter().find(|(name, _)| *name == program) {
        return format!("build it: `{built_by}`, in the sources of fstrial");
    }
    match PACKAGES.iter().find(|(name, _)| *name == program) {
        Some((_, packages)) => format!("install it: {}", how_to_install(*packages)),
        None => format!("check the spelling of `{program}`, or install the package that has it"),
    }
}

#[cfg(test)]
mod tests;
