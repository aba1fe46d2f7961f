//! A load that several clients make together, started by MPI: the worker passes its task to `mpirun`, whose ranks are
//! clients, and merges their results.
//!
//! A client works in a separate folder below the arm's, or all in one. It gets its seat and a [`ClientOrder`] on
//! standard input, sends `barrier` before each phase, and its [`Share`] after it; `fstrial-mpi` carries these lines.

mod merge;

use super::{Run, check_load, engine_failure, load_failure, stack_failure};
use crate::{error::ExpectedError, exit_code, program::install};
use fstrial_engine::{Moment, Site, Target::Directory};
use fstrial_model::{
    counter::{Counter, Counters},
    job::{FailureKind, Load, PROTOCOL, PhaseTask, RunFailure, Task},
    measurement::{LoadResult, PhaseResult, Reading, Stage},
    units::Nanos,
};
use fstrial_stack::{caches, command, host, isolation, stack::ReadyArm};
use merge::{Share, merged};
use rustix::{
    fs::{Mode, OFlags},
    process::{Pid, Signal},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// The program between `mpirun` and a client.
const RELAY: &str = "fstrial-mpi";
/// Its version line: the protocol between it and clients has a version.
const VERSION: &str = "fstrial-mpi 2";
/// The user that a server takes root for.
const NOBODY: u32 = 65_534;
/// Time limit for it to give the reason, and end.
const REAP_TIMEOUT: Duration = Duration::from_secs(3);
/// Prefix of the first rank's lines; MPI may print others.
const SAID: &str = "fstrial ";
/// Time limit for `mpirun` to end its ranks, before it is killed.
const END: Duration = Duration::from_secs(8);
/// Prefix of a client's failure on standard error.
const FAILED: &str = "fstrial-client-failed ";
/// Most bytes of a share: its histograms.
const MAX_SHARE: u64 = 64 << 20;
/// Limit of the kept standard error of `mpirun` and clients, in bytes.
const MAX_COMPLAINTS: usize = 256 << 10;

/// The work of all clients.
#[derive(Debug, Serialize, Deserialize)]
struct ClientOrder {
    protocol: u32,
    /// The folder of the arm, the same on every host.
    folder: PathBuf,
    task: Task,
}

/// A client's number and host.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Seat {
    rank: u16,
    /// Distance in ranks to the next host; 1 on one host.
    to_next_host: u16,
}

/// The word to go, and the clock of the host at that moment.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Go {
    /// Offset from its clock to that of the first client.
    offset_ns: i64,
    /// Uncertainty of that.
    doubt_ns: u64,
}

/// The process number of `mpirun` while it runs.
static RUNNING: Mutex<Option<Pid>> = Mutex::new(None);

/// Ends the clients, if there are any, and gives the worker time to delete its folder. The time is shorter than the
/// coordinator's limit.
pub(super) fn end() {
    let running = *RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(mpirun) = running {
        // Its end is noticed by who reads from it, and so is that of all that it has started.
        let _ = rustix::process::kill_process(mpirun, Signal::TERM);
        thread::park_timeout(END);
        let _ = rustix::process::kill_process_group(mpirun, Signal::KILL);
        thread::park_timeout(END);
    }
}

/// Becomes `mpirun`, which ends, with all ranks, when the worker does.
///
/// # Errors
/// It cannot be started.
pub(super) fn launch(words: &[String]) -> Result<u8, ExpectedError> {
    let failed = |error: std::io::Error| ExpectedError::Fault(format!("could not start mpirun: {error}"));
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM)).map_err(|e| failed(e.into()))?;
    let [program, words @ ..] = words else { return Err(ExpectedError::Fault("no mpirun".into())) };
    #[expect(clippy::disallowed_methods, reason = "MPI is configured by the user's environment")]
    let mut command = Command::new(program);
    Err(failed(command.args(words).exec()))
}

/// Does the share of one client.
///
/// # Errors
/// It was not started by fstrial.
pub(super) fn client() -> Result<u8, ExpectedError> {
    isolation::die_with_parent()?;
    let mut lines = BufReader::new(std::io::stdin());
    let seat: Seat = read(&mut lines)?;
    let order: ClientOrder = read(&mut lines)?;
    if order.protocol != PROTOCOL {
        return Err(ExpectedError::usage(
            format!("the order speaks protocol {}, this client {PROTOCOL}", order.protocol),
            "use one version of fstrial on every host",
        ));
    }
    match share_of(seat, &order, &mut lines) {
        Ok(()) => Ok(exit_code::VERDICT),
        Err(failure) => {
            let what = format!("client {} on {}: {}", seat.rank, nodename(), failure.what);
            let failure = RunFailure { what, ..failure };
            #[expect(
                clippy::print_stderr,
                reason = "it ends the others, and has no other way to give the reason"
            )]
            {
                eprintln!("{FAILED}{}", serde_json::to_string(&failure).expect("it is plain data"));
            }
            Ok(exit_code::SETUP_FAILED)
        }
    }
}

fn read<T: for<'de> Deserialize<'de>>(lines: &mut impl BufRead) -> Result<T, ExpectedError> {
    let mut line = String::new();
    let refused = |why: String| {
        ExpectedError::usage(format!("this is not an order of clients: {why}"), "fstrial starts it itself")
    };
    lines.read_line(&mut line).map_err(|error| refused(error.to_string()))?;
    serde_json::from_str(&line).map_err(|error| refused(error.to_string()))
}

fn share_of(seat: Seat, order: &ClientOrder, lines: &mut impl BufRead) -> Result<(), RunFailure> {
    let (folder, of) = (opened(&order.folder)?, order.task.clients);
    let here = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    // How many share a folder; none: each has its own.
    let sharing = order.task.phases.iter().any(|phase| phase.one_folder).then_some(of);
    let folder_of = |rank: u16| match sharing {
        Some(_) => here.join("all"),
        None => here.join(format!("client-{rank}")),
    };
    let own = folder_of(seat.rank);
    if sharing.is_none() || seat.rank == 0 {
        fs::create_dir(&own).map_err(|error| not_shared(&order.folder, error))?;
    }
    let mut own_site = site_of(&own, seat.rank, sharing);
    for (number, phase) in order.task.phases.iter().enumerate() {
        // It works on another client's files as if it were that one.
        let offset = u32::from(phase.host_offset) * u32::from(seat.to_next_host);
        let as_rank = ((u32::from(seat.rank) + offset % u32::from(of)) % u32::from(of)) as u16;
        let loads = phase.groups.iter().map(|group| of_client(&group.load, sharing, as_rank));
        let loads: Vec<Load> = loads.collect::<Result<_, _>>()?;
        let turn = Turn {
            lays_out: lays_out_first(phase).then_some(seat.rank == 0),
            settles: (number == 0 || phase.settle).then_some(&*here),
        };
        let (loads, began, go) = if as_rank == seat.rank {
            turn.make(&mut own_site, &loads, lines)?
        } else {
            let earlier = order.task.phases[..number].iter().flat_map(|phase| &phase.groups);
            let theirs = folder_of(as_rank);
            let site = site_of(&theirs, as_rank, sharing).with_files_of(earlier.map(|group| &group.load));
            turn.make(&mut site.with_complete_sets(), &loads, lines)?
        };
        let start_ns = began.saturating_add(go.offset_ns);
        let share = Share { rank: seat.rank, host: nodename(), start_ns, doubt_ns: go.doubt_ns, loads };
        say(&serde_json::to_string(&share).expect("a share is plain data"));
    }
    Ok(())
}

/// The place of a rank's client, alone or as one of several.
fn site_of(folder: &Path, rank: u16, of: Option<u16>) -> Site<'_> {
    let site = Site::new(Directory(folder));
    match of {
        Some(of) => site.among(fstrial_engine::Seat { rank, of }),
        None => site,
    }
}

/// True if the first client lays out the shared files, before the others prepare the phase.
fn lays_out_first(phase: &PhaseTask) -> bool {
    phase.one_folder && phase.host_offset == 0
}

/// A client's part in a phase in addition to its loads.
struct Turn<'a> {
    /// True if it lays out the shared files; none if there is nothing to lay out.
    lays_out: Option<bool>,
    /// The folder whose filesystem it syncs before.
    settles: Option<&'a Path>,
}

impl Turn<'_> {
    /// The results, when it began, and the word to go.
    fn make(
        &self,
        site: &mut Site<'_>,
        loads: &[Load],
        lines: &mut impl BufRead,
    ) -> Result<(Vec<LoadResult>, i64, Go), RunFailure> {
        let mut wait = || {
            say("barrier");
            read::<Go>(lines)
                .map_err(|_| load_failure("the other clients are gone".into(), "look at the host of each"))
        };
        // No client prepares anything while others are still measured, or have not yet made files to be used.
        wait()?;
        if self.lays_out == Some(false) {
            wait()?;
        }
        let prepared = site.prepare(loads).map_err(|e| engine_failure(Stage::Layout, &e))?;
        if self.lays_out == Some(true) {
            wait()?;
        }
        if let Some(folder) = self.settles {
            let settled = caches::sync_filesystem(folder).and_then(|()| caches::drop_caches());
            settled.map_err(|e| stack_failure(Stage::Settle, &e))?;
        }
        let (mut go, mut began) = (None, 0);
        let results = prepared.run_all(&mut |moment| match moment {
            Moment::Ready => go = Some(wait()),
            Moment::TimedStart => began = clock_ns(),
            Moment::TimedEnd => {}
        });
        let results = results.map_err(|e| engine_failure(Stage::Load, &e))?;
        Ok((results, began, go.expect("no phase begins before it is ready")?))
    }
}

/// Opens the folder of the arm, which only its maker may write to: root works there by its descriptor, so that it
/// cannot be replaced.
fn opened(folder: &Path) -> Result<OwnedFd, RunFailure> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(folder, flags, Mode::empty()).map_err(|e| not_shared(folder, e.into()))?;
    let status = rustix::fs::fstat(&opened).map_err(|e| not_shared(folder, e.into()))?;
    let own = rustix::process::geteuid().as_raw();
    // A server may map root's files to nobody.
    if status.st_uid != own && !(own == 0 && status.st_uid == NOBODY) {
        return Err(not_shared(folder, std::io::Error::other("it belongs to another user")));
    }
    Ok(opened)
}

fn not_shared(folder: &Path, error: std::io::Error) -> RunFailure {
    load_failure(
        format!("could not work in {}: {error}", folder.display()),
        "it must be on one filesystem that all clients have mounted there, and may write to",
    )
}

fn nodename() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The load with a separate seed: two clients with the same choices would not be two. In one folder with the amounts of
/// all.
fn of_client(load: &Load, sharing: Option<u16>, rank: u16) -> Result<Load, RunFailure> {
    const APART: u64 = 0x9E37_79B9_7F4A_7C15;
    let pattern = sharing.map_or(Ok(load.pattern.clone()), |clients| load.pattern.in_one_folder(clients));
    let pattern = pattern.map_err(|why| load_failure(why.into(), "use fewer clients"))?;
    Ok(Load { seed: load.seed.wrapping_add(u64::from(rank).wrapping_mul(APART)), pattern, ..load.clone() })
}

fn clock_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Without a reader, this process ends in a moment.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn lacking(what: String, hint: &str) -> RunFailure {
    RunFailure { kind: FailureKind::HostLacks, stage: Stage::Attach, what, hint: Some(hint.into()) }
}

/// `mpirun`, and the program between it and clients.
///
/// # Errors
/// One of them is not installed; with instructions.
pub fn require_mpi() -> Result<(PathBuf, PathBuf), RunFailure> {
    let mpirun = command::find("mpirun")
        .ok_or_else(|| lacking("mpirun is not installed".into(), &install("mpirun")))?;
    let relay = command::find_own(RELAY).ok_or_else(|| {
        let hint =
            format!("build it: `./x mpi`, in the sources of fstrial; put it next to {}", own().display());
        lacking(format!("{RELAY} is not installed"), &hint)
    })?;
    check_version(&relay)?;
    Ok((mpirun, relay))
}

/// Refuses a program between MPI and clients that is of another version, or does not run here.
fn check_version(relay: &Path) -> Result<(), RunFailure> {
    let hint = "build it again: `./x mpi`, in the sources of this fstrial";
    let fails = |why: String| lacking(format!("{} does not run: {why}", relay.display()), hint);
    #[expect(clippy::disallowed_methods, reason = "a part of fstrial, expected next to it")]
    let mut command = Command::new(relay);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| fails(error.to_string()))?;
    if !wait(REAP_TIMEOUT, || !matches!(child.try_wait(), Ok(None))) {
        let _ = child.kill();
    }
    let output = child.wait_with_output().map_err(|error| fails(error.to_string()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match text(&output.stdout) {
        version if version == VERSION => Ok(()),
        version if version.starts_with(RELAY) => {
            Err(lacking(format!("{} is {version}, and this fstrial needs {VERSION}", relay.display()), hint))
        }
        _ if output.status.success() => Err(fails("it has no version".into())),
        _ => Err(fails(text(&output.stderr).lines().next().map_or(output.status.to_string(), str::to_owned))),
    }
}

/// `mpirun`, and its and its clients' messages.
struct Clients {
    child: Child,
    lines: BufReader<Box<dyn Read>>,
    complaints: Arc<Mutex<String>>,
    /// The thread that hears them.
    listening: thread::JoinHandle<()>,
}

impl Clients {
    fn start(task: &Task, folder: &Path) -> Result<Self, RunFailure> {
        let (mpirun, relay) = require_mpi()?;
        let failed =
            |error: std::io::Error| lacking(format!("could not start mpirun: {error}"), "mpirun --version");
        #[expect(clippy::disallowed_methods, reason = "starts this very program")]
        let mut command = Command::new("/proc/self/exe");
        command.args(["worker", "--"]).arg(mpirun).args(["-np", &task.clients.to_string()]);
        // Open MPI's: more ranks than processors, and root.
        command.env("OMPI_MCA_rmaps_base_oversubscribe", "1");
        // Threads of a client go where the kernel puts them, as those of one host do.
        command.env("OMPI_MCA_hwloc_base_binding_policy", "none");
        if host::is_root() {
            command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
        }
        // Its own group: it ends its ranks when asked to, but not when it is killed.
        command.arg(relay).arg(own()).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) = Some(Pid::from_child(&child));
        let stderr = child.stderr.take().expect("piped above");
        let complaints = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&complaints);
        let listening = thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                // Text beyond the limit is read all the same: the writer must not block.
                if kept.len() < MAX_COMPLAINTS || line.contains(FAILED) {
                    *kept += &(line + "\n");
                }
            }
        });
        let stdout: Box<dyn Read> = Box::new(child.stdout.take().expect("piped above"));
        let lines = BufReader::new(stdout);
        let order = ClientOrder { protocol: PROTOCOL, folder: folder.to_owned(), task: task.clone() };
        let line = serde_json::to_string(&order).expect("an order is plain data") + "\n";
        // If it is not accepted, the end of the messages is noticed.
        let _ = child.stdin.as_mut().expect("piped above").write_all(line.as_bytes());
        Ok(Self { child, lines, complaints, listening })
    }

    /// The next line of the first rank.
    fn line(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            let read = (&mut self.lines).take(MAX_SHARE).read_line(&mut line).ok()?;
            match line.trim_end().strip_prefix(SAID) {
                Some(message) => return Some(message.to_owned()),
                None if read == 0 => return None,
                None => {}
            }
        }
    }

    /// Ends them before their work is done.
    fn end(&mut self) -> ExitStatus {
        let mpirun = Pid::from_child(&self.child);
        // One that is gone has given its number back.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = rustix::process::kill_process(mpirun, Signal::TERM);
        }
        if !self.is_gone_within(END) {
            let _ = rustix::process::kill_process_group(mpirun, Signal::KILL);
        }
        let ended = self.child.wait().unwrap_or_default();
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) = None;
        ended
    }

    /// True if `mpirun` has ended, or does within a time.
    fn is_gone_within(&mut self, time: Duration) -> bool {
        wait(time, || !matches!(self.child.try_wait(), Ok(None)))
    }

    /// True if they have ended well: after its last share a client only ends.
    fn have_ended(&mut self) -> bool {
        self.is_gone_within(END);
        self.end().success()
    }

    /// Why they have ended before their work was done.
    fn failure(mut self, stage: Stage) -> RunFailure {
        // One that could not end unprompted waits for no reader.
        drop(std::mem::replace(&mut self.lines, BufReader::new(Box::new(std::io::empty()))));
        self.is_gone_within(REAP_TIMEOUT);
        self.end();
        // Its last lines are still in transit.
        wait(REAP_TIMEOUT, || self.listening.is_finished());
        let complaints = self.complaints.lock().unwrap_or_else(PoisonError::into_inner).clone();
        failure_of_client(&complaints).unwrap_or_else(|| {
            // Lines that mpirun frames with dashes, and its own troubles, are not informative.
            let is_of_use = |line: &&str| {
                line.chars().any(char::is_alphanumeric)
                    && !line.contains("ORTE_ERROR_LOG")
                    && !line.contains(FAILED)
            };
            let lines: Vec<&str> = complaints.lines().map(str::trim).filter(is_of_use).collect();
            let why = match lines.is_empty() {
                true => "neither they nor mpirun gave a reason".into(),
                false => lines[..lines.len().min(6)].join("; "),
            };
            RunFailure {
                kind: FailureKind::Lost,
                stage,
                what: format!("the clients ended before their work was done: {why}"),
                hint: Some("see that mpirun works: mpirun -np 2 hostname".into()),
            }
        })
    }
}

/// The first failure that a client reported, though the lines of several may be mixed.
fn failure_of_client(complaints: &str) -> Option<RunFailure> {
    complaints
        .split(FAILED)
        .skip(1)
        .find_map(|text| serde_json::Deserializer::from_str(text).into_iter::<RunFailure>().next()?.ok())
}

/// Waits for a condition, for a limited time; returns whether it holds.
fn wait(time: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while !is_so() {
        if began.elapsed() >= time {
            return false;
        }
        thread::park_timeout(Duration::from_millis(5));
    }
    true
}

/// This program, by a path that other hosts have.
fn own() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| "fstrial".into())
}

impl Run<'_> {
    /// Has several clients do a task together.
    pub(super) fn by_clients(
        &mut self,
        task: &Task,
        ready_arm: &ReadyArm,
    ) -> Result<Vec<PhaseResult>, RunFailure> {
        let folder = ready_arm.place().map(Path::to_owned).ok_or_else(|| {
            load_failure("clients need a directory".into(), "use arms such as dir:/mnt/lustre")
        })?;
        let bytes = task.space_needed().0;
        self.require_room(bytes)?;
        let long = |seconds: u64| Nanos::secs(seconds + bytes / super::MIN_LAYOUT_BYTES_PER_SECOND);
        self.enter(Stage::Layout, long(420));
        let mut clients = Clients::start(task, &folder)?;
        let mut results = Vec::new();
        for (number, phase) in task.phases.iter().enumerate() {
            if number > 0 {
                self.enter(Stage::Layout, long(420));
            }
            // After the phase before, after the layout of shared files, and when all are ready.
            for _ in 0..2 + u8::from(lays_out_first(phase)) {
                if clients.line().as_deref() != Some("barrier") {
                    return Err(clients.failure(Stage::Layout));
                }
            }
            let time = phase.groups.first().map_or(0, |group| group.load.warmup.0 + group.load.duration.0);
            self.enter(Stage::Load, Nanos(time + long(120).0));
            let mut share = || serde_json::from_str::<Share>(&clients.line()?).ok();
            let shares: Vec<Share> = (0..task.clients).map_while(|_| share()).collect();
            if shares.len() < task.clients.into() {
                return Err(clients.failure(Stage::Load));
            }
            results.extend(results_of(phase, &shares).inspect_err(|_| {
                clients.end();
            })?);
        }
        if clients.have_ended() { Ok(results) } else { Err(clients.failure(Stage::Load)) }
    }
}

fn results_of(phase: &PhaseTask, shares: &[Share]) -> Result<Vec<PhaseResult>, RunFailure> {
    let damaged = |what: String| {
        load_failure(format!("the results of clients are inconsistent: {what}"), "please report it")
    };
    let mut results = Vec::new();
    for (number, group) in phase.groups.iter().enumerate() {
        let load = merged(shares, number, group.load.warmup).map_err(damaged)?;
        check_load(&load, group.load.until)?;
        let counters = counters_of(shares, load.duration);
        let Some(name) = group.result.clone() else { continue };
        let reading = Reading::Load(group.figure, Box::new(load));
        results.push(PhaseResult { name, reading, counters });
    }
    Ok(results)
}

/// Operations by the time in which they were done: a load that ends with its work takes as long as it does.
#[expect(clippy::cast_precision_loss, reason = "counts of a run")]
fn rate_of(load: &LoadResult) -> f64 {
    load.operations as f64 / load.duration.as_secs_f64().max(1e-9)
}

/// Note on the synchrony of the clients.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share in millionths"
)]
fn counters_of(shares: &[Share], time: Nanos) -> Counters {
    let starts = || shares.iter().map(|share| share.start_ns);
    let spread = starts().max().unwrap_or(0).abs_diff(starts().min().unwrap_or(0));
    let rate = |share: &Share| share.loads.iter().map(rate_of).sum::<f64>();
    let least = shares.iter().map(rate).fold(f64::INFINITY, f64::min);
    let mean = shares.iter().map(rate).sum::<f64>() / shares.len() as f64;
    let slowest = (mean > 0.0).then(|| (1e6 * least / mean).round() as u64);
    let hosts: BTreeSet<&String> = shares.iter().map(|share| &share.host).collect();
    Counters::of(Counter::StartSpread, spread)
        .with(Counter::ClientHosts, Some(hosts.len() as u64))
        .with(Counter::StartSpreadPpm, spread.saturating_mul(1_000_000).checked_div(time.0))
        .with(Counter::StartDoubt, shares.iter().map(|share| share.doubt_ns).max())
        .with(Counter::SlowestPpm, slowest)
}
