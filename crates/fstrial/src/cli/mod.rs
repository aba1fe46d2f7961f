//! The command line: one file for each command. This one: the list of commands, and how errors are shown.

mod agent;
mod claims;
mod clean;
pub(crate) mod compare;
mod complete;
pub(crate) mod conduct;
mod device;
mod doctor;
mod durability;
mod explain;
pub(crate) mod filter;
mod fit;
#[doc(hidden)]
pub mod fuzzing;
mod generate;
mod in_file;
mod judge;
mod kernels;
mod lacking;
mod meta;
mod noise;
mod observed;
mod on;
mod out_file;
mod pages;
mod receipts;
pub(crate) mod report;
pub(crate) mod results;
mod resume;
mod run;
mod scheduler;
mod serve;
pub(crate) mod statuses;
mod trend;
mod watch;
mod workloads;

use anstyle::{AnsiColor, Style};
use clap::{
    Args, CommandFactory, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};
use fstrial_report::{plain_lines, stdout};
use fstrial_run::{error::ExpectedError, exit_code, place::modelled, worker};
use fstrial_stack::{StackError, command, host, ledger::Ledger, private_dir::PrivateDir};
use rustix::fs::{FlockOperation, OFlags};
use std::{
    fs::File,
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

const AFTER_LONG_HELP: &str = "\
Examples:
  fstrial compare ext4 xfs btrfs
  fstrial compare ext4 xfs:agcount=16,noatime --workload random-write --threads 1,4,16 --device ramdisk --budget 10m
  fstrial compare a=ext4 b=ext4 --workload create-files
  fstrial compare raw ext4 xfs --device disk --erase /dev/disk/by-id/nvme-…
  fstrial compare dir:/srv/a dir:/srv/b
  fstrial compare ext4 xfs --save - --dry-run > trial.toml
  fstrial run trial.toml
  fstrial resume
  fstrial watch
  fstrial judge pairs.csv
  fstrial trend xfs/ext4 --fail-if-worse 5%
  fstrial meta hosts
  fstrial serve
  fstrial claims check closson-2012 --quick

Exit codes:
  0    every requested comparison reached a verdict, or either will do
  1    a bug in fstrial
  2    invalid command line or input file
  3    the budget ended with a contrast undecided that may matter
  4    the condition of --fail-if or --fail-if-worse is met
  5    --fail-if-worse cannot judge the newest trial
  10   this host lacks a program, a kernel feature or a privilege
  11   a device, filesystem or load could not be set up, an arm failed, or all runs of one were lost
  12   a change on the host could not be undone; run `fstrial clean`
  13   `clean` left something alone that is not provably a dead command's
  14   the results cannot be stored or read: their store is full, locked, damaged or gone
  15   the answer could not be written out: standard output is closed or full
  130  interrupted; the partial answer was given

Environment:
  FSTRIAL_HOME  folder of the results and the ledger (default: /var/lib/fstrial for root, else
                ~/.local/share/fstrial)
  NO_COLOR      no colours";

/// Randomized controlled trials for Linux filesystems: which storage configuration is faster for this workload, by how
/// much, and how sure.
#[derive(Debug, Parser)]
#[command(name = "fstrial", version, after_long_help = AFTER_LONG_HELP, max_term_width = 100, propagate_version = true)]
#[command(arg_required_else_help = true)]
pub struct Cli {
    /// Print the licences of all linked libraries, and exit.
    #[arg(long, alias = "licenses", exclusive = true)]
    licences: bool,

    #[command(subcommand)]
    command: Option<Command>,
}

/// The notices of linked and embedded software, as its licences require.
const NOTICES: &str = include_str!("../../THIRD-PARTY.txt");

#[derive(Debug, Subcommand)]
enum Command {
    Compare(Box<compare::CompareArgs>),
    Run(run::RunArgs),
    Resume(resume::ResumeArgs),
    Watch(watch::WatchArgs),
    Judge(judge::JudgeArgs),
    Durability(Box<durability::DurabilityArgs>),
    Explain(explain::ExplainArgs),
    Results(results::ResultsArgs),
    Report(report::ReportArgs),
    Trend(Box<trend::TrendArgs>),
    Meta(Box<meta::MetaArgs>),
    Serve(serve::ServeArgs),
    Claims(claims::ClaimsArgs),
    Workloads(workloads::WorkloadsArgs),
    Device(device::DeviceArgs),
    Kernels(kernels::KernelsArgs),
    Doctor(doctor::DoctorArgs),
    Clean(clean::CleanArgs),
    Agent(agent::AgentArgs),
    Generate(generate::GenerateArgs),
    #[command(hide = true)]
    Worker(worker::WorkerArgs),
    /// Serve a modelled device: its description on standard input, then commands. Started by fstrial itself.
    #[command(hide = true)]
    DeviceServer,
}

/// Folder of everything that outlives a command.
#[derive(Debug, Clone, Args)]
pub(crate) struct Home {
    /// Folder of the results and the ledger; as root one that only root can write [default: FSTRIAL_HOME, else
    /// /var/lib/fstrial for root and ~/.local/share/fstrial for others].
    // The variable is read below: clap would show the flag in every usage line if it is set.
    #[arg(long, value_name = "FOLDER", hide_short_help = true, global = true)]
    home: Option<PathBuf>,
}

/// The home of root, whose `HOME` may be an ordinary user's (`sudo -E`).
const HOME_OF_ROOT: &str = "/var/lib/fstrial";
/// The results, in a home.
const RESULTS: &str = "results.db";

/// The lock of a home, held until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Home {
    /// The folder, whether or not it exists.
    fn folder(&self) -> Result<PathBuf, ExpectedError> {
        let variable =
            || std::env::var_os("FSTRIAL_HOME").filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(folder) = self.home.clone().or_else(variable) {
            return Ok(folder);
        }
        if host::is_root() {
            return Ok(HOME_OF_ROOT.into());
        }
        let data = std::env::var_os("XDG_DATA_HOME").filter(|value| !value.is_empty()).map(PathBuf::from);
        let data =
            data.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share")));
        let data = data.ok_or_else(|| {
            ExpectedError::usage("there is no home folder to keep results in", "set FSTRIAL_HOME")
        })?;
        Ok(data.join("fstrial"))
    }

    /// The arguments that name it again, in a command that works with the same results; none if no flag named it.
    pub(crate) fn again(&self) -> String {
        self.home.as_ref().map_or_else(String::new, |home| {
            let home = std::path::absolute(home).unwrap_or_else(|_| home.clone());
            format!(" --home {}", command::quoted(&home.display().to_string()))
        })
    }

    /// The folder that has a home for each host of a campaign; none if each has its own, as root's has.
    pub(crate) fn of_hosts(&self) -> Result<Option<PathBuf>, ExpectedError> {
        let is_named =
            self.home.is_some() || std::env::var_os("FSTRIAL_HOME").is_some_and(|home| !home.is_empty());
        if host::is_root() && !is_named {
            return Ok(None);
        }
        let folder = self.folder()?;
        Ok(Some(std::path::absolute(&folder).unwrap_or(folder).join("hosts")))
    }

    /// The folder, open; none if there is none yet.
    ///
    /// # Errors
    /// Others can write to it.
    fn existing(&self) -> Result<Option<PrivateDir>, ExpectedError> {
        PrivateDir::open(&self.folder()?).map_err(of_home)
    }

    /// The folder, open; it is made if need be.
    ///
    /// # Errors
    /// It cannot be made; others can write to it.
    pub(crate) fn make(&self) -> Result<PrivateDir, ExpectedError> {
        PrivateDir::make(&self.folder()?).map_err(of_home)
    }

    /// The database of results, to be written; the folder is made.
    fn results(&self) -> Result<PathBuf, ExpectedError> {
        let home = self.make()?;
        Ok(home.checked(RESULTS).map_err(of_home)?.unwrap_or_else(|| home.path().join(RESULTS)))
    }

    /// The database of results; none if nothing is stored.
    pub(crate) fn existing_results(&self) -> Result<Option<PathBuf>, ExpectedError> {
        let result = self.existing()?.map(|home| home.checked(RESULTS));
        let result = result.transpose().map_err(of_home)?.flatten();
        // A command that was killed in its first moment leaves an empty file.
        Ok(result.filter(|path| path.metadata().is_ok_and(|file| file.len() > 0)))
    }

    /// Allows only one command at a time to work with these results: two trials would disturb each other, and one of
    /// them could continue with the other's; and a trial in progress must not be removed. Held until it is dropped.
    fn lock(&self) -> Result<Lock, ExpectedError> {
        let home = self.make()?;
        match lock(&home)? {
            Some(lock) => Ok(lock),
            None => Err(ExpectedError::usage(
                format!("another trial is running with the results in {}", home.path().display()),
                "wait for it (any command that changes the host or results takes this lock): two would disturb each other; \
                     an agent on this host needs a separate home: fstrial agent --home FOLDER",
            )),
        }
    }

    /// True if a process holds the lock of [`Self::lock`].
    fn is_locked(&self) -> Result<bool, ExpectedError> {
        Ok(is_locked(&self.folder()?))
    }

    /// The ledger, for a command that changes the host, with the lock that keeps others from it meanwhile.
    pub(crate) fn ledger(&self) -> Result<(Lock, Ledger), ExpectedError> {
        let lock = self.lock()?;
        Ok((lock, Ledger::of_home(&self.make()?).map_err(of_home)?.locked()))
    }
}

/// The file that is locked, in a home.
const LOCK: &str = "lock";

/// True if a process holds the lock in this folder, without taking it: a trial that begins at that moment would find it
/// taken. The kernel lists files by device and number, and btrfs has another device there, so only the number is
/// compared.
fn is_locked(folder: &Path) -> bool {
    let Ok(file) = folder.join(LOCK).symlink_metadata() else { return false };
    let end = format!(":{}", file.ino());
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let is_held = |line: &str| line.contains(" FLOCK ") && line.split(' ').any(|word| word.ends_with(&end));
    locks.lines().any(is_held)
}

/// Takes the lock of a home; none if it is held.
fn lock(home: &PrivateDir) -> Result<Option<Lock>, ExpectedError> {
    let flags = OFlags::CREATE | OFlags::RDWR;
    let path = home.path().join(LOCK);
    let failed = |source| ExpectedError::File { what: "lock", path: path.clone(), source };
    let file =
        home.file(LOCK, flags).map_err(of_home)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(Lock { _file: file })),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(failed(error.into())),
    }
}

/// The problem with the home: the reason why a folder cannot be one, and the remedy.
fn of_home(error: StackError) -> ExpectedError {
    match error {
        StackError::Untrusted { path, why } if host::is_root() => ExpectedError::usage(
            format!(
                "{} cannot be part of root's home: {why}, and root reads there what to undo",
                path.display()
            ),
            format!(
                "leave --home and FSTRIAL_HOME out to use {HOME_OF_ROOT}, or name a folder that only root can write"
            ),
        ),
        StackError::Untrusted { path, why } => ExpectedError::usage(
            format!("{} cannot be part of the home: {why}", path.display()),
            "name a folder that only you can write: --home FOLDER",
        ),
        StackError::Io { ref source, .. }
            if !host::is_root() && source.kind() == io::ErrorKind::PermissionDenied =>
        {
            ExpectedError::usage(
                ExpectedError::Home(error).in_full(),
                "results need a folder that you can write: --home FOLDER, or FSTRIAL_HOME",
            )
        }
        error => ExpectedError::Home(error),
    }
}

/// An unknown flag that is a key of a trial file, which `--set` takes, or that another command has. Erasing flags are
/// never suggested.
fn with_the_key(mut error: clap::Error) -> clap::Error {
    let unknown = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(flag))) => {
            flag.trim_start_matches('-').to_owned()
        }
        _ => return error,
    };
    let is_erase = |value: &ContextValue| value.to_string().contains("--erase");
    let known = whose(&unknown).map(|command| format!("`fstrial {command}` takes it"));
    let known = known.or_else(|| {
        compare::set::of_key(&unknown).map(|key| format!("`fstrial compare` takes it as --set {key}=…"))
    });
    let known = known.or_else(|| {
        let is_first = unknown == "home"
            && std::env::args_os()
                .nth(1)
                .is_some_and(|first| first.as_encoded_bytes().starts_with(b"--home"));
        is_first.then(|| "it follows the command: `fstrial compare … --home FOLDER`".to_owned())
    });
    // clap would otherwise suggest an arm of that name.
    error.remove(ContextKind::Suggested);
    if known.is_some() || error.get(ContextKind::SuggestedArg).is_some_and(is_erase) {
        for hint in [ContextKind::SuggestedArg, ContextKind::Suggested, ContextKind::Usage] {
            error.remove(hint);
        }
    }
    if let Some(hint) = known {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    }
    error
}

/// The one command that has a flag.
fn whose(flag: &str) -> Option<String> {
    let command = Cli::command();
    let mut all = command
        .get_subcommands()
        .filter(|command| command.get_arguments().any(|argument| argument.get_long() == Some(flag)));
    let result = all.next().filter(|_| flag != "erase")?;
    all.next().is_none().then(|| result.get_name().to_owned())
}

/// Parses the command line, runs the command and returns the exit code.
pub fn main() -> u8 {
    if fstrial_run::kernels::is_guest() {
        // It only returns with an error, and then no caller is there to read a code.
        let ended = fstrial_run::kernels::be_guest();
        show(&ExpectedError::Fault(format!("the guest could not be powered off: {ended:?}")));
        return exit_code::SETUP_FAILED;
    }
    complete::answer();
    let ended = match survive_large_files().map(|()| Cli::try_parse()) {
        Err(error) => Err(error),
        Ok(Ok(Cli { command: Some(command), .. })) => execute(command),
        Ok(Ok(Cli { command: None, .. })) => {
            print(NOTICES);
            Ok(exit_code::VERDICT)
        }
        Ok(Err(error)) if error.use_stderr() => {
            let _ = with_the_key(error).print();
            return exit_code::USAGE;
        }
        // Help and version are not errors.
        Ok(Err(answer)) => {
            print(&compact(&answer.render().ansi().to_string()));
            Ok(exit_code::VERDICT)
        }
    };
    match ended.and_then(|code| written(code, None)) {
        Ok(code) => code,
        Err(error) => {
            show(&error);
            error.exit_code()
        }
    }
}

/// Help without the empty lines between options.
fn compact(help: &str) -> String {
    let is_option = |line: &str| line.starts_with("  ") && line.trim_start().starts_with(['-', '\u{1b}']);
    let mut lines = help.split_inclusive('\n').peekable();
    let mut all = String::with_capacity(help.len());
    while let Some(line) = lines.next() {
        if !line.trim().is_empty() || !lines.peek().is_some_and(|next| is_option(next)) {
            all += line;
        }
    }
    all
}

/// Hears the signal for a file beyond the limit on its size (`ulimit -f`) instead of dying of it, so that the write
/// fails as others do. Programs that are started have the signal as it was: an `exec` puts handlers back.
fn survive_large_files() -> Result<(), ExpectedError> {
    let registered = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    registered.map_err(|e| ExpectedError::Fault(format!("could not set a signal handler: {e}")))?;
    Ok(())
}

/// Exit code of a command whose answer may not have been written. `again` names the command that shows the stored
/// answer; without it, a reader that stopped early (`| head`) needs no complaint. Errors worse than a lost answer take
/// precedence.
pub(crate) fn written(code: u8, again: Option<String>) -> Result<u8, ExpectedError> {
    let answers = [exit_code::VERDICT, exit_code::UNDECIDED, exit_code::FAIL_IF_MET, exit_code::UNJUDGED];
    let is_answer = answers.contains(&code);
    match stdout::take_failure() {
        Some(source) if is_answer && (again.is_some() || source.kind() != io::ErrorKind::BrokenPipe) => {
            Err(ExpectedError::Unwritten { source, again })
        }
        _ => Ok(code),
    }
}

fn execute(command: Command) -> Result<u8, ExpectedError> {
    match command {
        Command::Compare(mut args) => compare::exec(&mut args),
        Command::Run(args) => run::exec(&args),
        Command::Resume(args) => resume::exec(&args),
        Command::Watch(args) => watch::exec(&args),
        Command::Judge(args) => judge::exec(&args),
        Command::Durability(args) => durability::exec(&args),
        Command::Explain(args) => explain::exec(&args),
        Command::Results(args) => results::exec(&args),
        Command::Report(args) => report::exec(&args),
        Command::Trend(args) => trend::exec(&args),
        Command::Meta(args) => meta::exec(&args),
        Command::Serve(args) => serve::exec(&args),
        Command::Claims(args) => claims::exec(&args),
        Command::Workloads(args) => workloads::exec(&args),
        Command::Device(args) => device::exec(&args),
        Command::Kernels(args) => kernels::exec(&args),
        Command::Doctor(args) => doctor::exec(&args),
        Command::Clean(args) => clean::exec(&args),
        Command::Agent(args) => agent::exec(&args),
        Command::Generate(args) => generate::exec(&args),
        Command::Worker(args) => worker::worker(&args, &fstrial_kv::Engines),
        Command::DeviceServer => modelled::serve(),
    }
}

/// Shows an error with its place, if it has one, and its hint.
fn show(error: &ExpectedError) {
    const BAD: Style = AnsiColor::Red.on_default().bold();
    const HINT: Style = AnsiColor::Cyan.on_default();
    let mut err = anstream::stderr().lock();
    if let ExpectedError::TrialFile(place) = error {
        let report = miette::Report::new((**place).clone());
        let _ = writeln!(err, "{BAD}error{BAD:#}:\n{report:?}");
        return;
    }
    let _ = writeln!(err, "{BAD}error{BAD:#}: {}", plain_lines(&error.in_full(), 0));
    if let Some(hint) = error.hint() {
        let _ = writeln!(err, "{HINT}try{HINT:#}: {}", plain_lines(&hint, 0));
    }
}

/// Prints a message in addition to the answer, on standard error.
pub(crate) fn say(text: &str) {
    let _ = write!(anstream::stderr(), "{text}");
}

/// Prints display text on standard output, without colours if there is no terminal.
pub(crate) fn print(text: &str) {
    stdout::print(text);
}

/// The same of lists and sentences, folded at the terminal's width.
pub(crate) fn print_folded(text: &str) {
    stdout::print_folded(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "only a process of its own shows what it was given")]
    fn child_programs_keep_default_sigxfsz() {
        survive_large_files().unwrap();
        let killed = std::process::Command::new("sh").args(["-c", "kill -XFSZ $$"]).status().unwrap();
        let signal = std::os::unix::process::ExitStatusExt::signal(&killed);
        assert_eq!(signal, Some(signal_hook::consts::SIGXFSZ), "{killed:?}");
    }

    #[test]
    fn the_manual_lists_every_exit_code() {
        for (code, meaning) in exit_code::ALL {
            let line = format!("  {code:<4} {meaning}");
            assert!(AFTER_LONG_HELP.contains(&line), "the manual lacks: {line}");
        }
    }

    #[test]
    fn short_help_fits_on_a_screen() {
        let mut command = Cli::command();
        command.build();
        for sub in command.get_subcommands_mut() {
            let lines = sub.render_help().to_string().lines().count();
            assert!(lines <= 48, "{} -h has {lines} lines", sub.get_name());
        }
    }
}
