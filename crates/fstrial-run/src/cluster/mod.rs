//! One trial on many hosts: a job for each, started by a scheduler that exists or by a command of the user's.
//!
//! A job is this program, an [`Order`] on its standard input, and [`Line`]s on its standard output, among them the store of what it has
//! so far. Everything about a campaign is in a folder that its hosts may share: `HOST.out` with the lines, `HOST.log` with what the job
//! complained of, `HOST.job` with its number, `HOST.db` with the last whole store. So a coordinator that dies takes nothing with it:
//! the next one reads the folder, and follows the jobs that still run.

pub mod command;
pub mod lines;
pub mod slurm;

use crate::{answers, error::ExpectedError, interrupt::Interrupt};
use base64::{Engine, engine::general_purpose::STANDARD};
use fstrial_stack::private_dir::PrivateDir;
use fstrial_store::Store;
use lines::{Line, Lines, Order};
use rustix::fs::{Mode, OFlags};
use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read, Write},
    thread,
    time::{Duration, Instant},
};

/// How often jobs and their lines are looked at.
const POLL: Duration = Duration::from_secs(1);
/// How long jobs may take to end once they are cancelled.
const CANCELLED: Duration = Duration::from_secs(60);
/// Most bytes of what a job complained of that are read.
const MAX_LOG: u64 = 1 << 20;
/// Characters of its last line that are shown.
const SHOWN: usize = 300;

/// What a scheduler says of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobState {
    /// It has not begun, and why.
    Waiting(String),
    Running,
    /// It has ended, or nobody knows it any more.
    Gone(String),
}

/// Who starts a job on a host.
pub trait Scheduler {
    /// Starts the job of a host; gives what names it.
    ///
    /// # Errors
    /// It refuses the job.
    fn start(&mut self, host: &str, order: &Order, folder: &PrivateDir) -> Result<String, ExpectedError>;

    /// The states of jobs, in their order. None while the scheduler does not answer.
    fn states(&mut self, jobs: &[String]) -> Option<Vec<JobState>>;

    /// Asks jobs to end.
    fn cancel(&mut self, jobs: &[String]);

    /// Whether jobs live on without this process.
    fn outlives(&self) -> bool;
}

/// How far a host is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    Waiting(String),
    Running,
    /// All its rounds are there.
    Done,
    /// It ended before, and why.
    Failed(String),
}

impl Progress {
    pub const fn is_over(&self) -> bool {
        matches!(self, Self::Done | Self::Failed(_))
    }
}

/// A host of a campaign.
#[derive(Debug)]
pub struct HostRow {
    pub host: String,
    pub progress: Progress,
    /// Rounds that are there.
    pub rounds: u32,
    /// When its first line was read by this process, and the rounds that it had then.
    pub since: Option<(Instant, u32)>,
    job: String,
    lines: Lines,
    /// How it ended, as its last line has it.
    ended: Option<Progress>,
}

/// A trial on many hosts.
pub struct Campaign<'a> {
    pub rows: Vec<HostRow>,
    /// Rounds that each host is to run.
    pub rounds: u32,
    folder: &'a PrivateDir,
    scheduler: Box<dyn Scheduler>,
}

impl<'a> Campaign<'a> {
    /// A campaign in a folder: hosts whose rounds are all there are done, jobs that still run are followed, and others are started.
    /// `hosts`: the hosts that it is to have, in the order in which they are tried; `count`: how many of them.
    ///
    /// # Errors
    /// The folder cannot be read or written; too few hosts take the job.
    pub fn begin(
        folder: &'a PrivateDir,
        order: &Order,
        rounds: u32,
        (hosts, count): (&[String], usize),
        mut scheduler: Box<dyn Scheduler>,
    ) -> Result<Self, ExpectedError> {
        let mut rows = Vec::new();
        let known = names(folder)?;
        // Those that have begun come first: the campaign goes on with them.
        let begun = |host: &&String| known.contains(&format!("{host}.job"));
        let others = hosts.iter().filter(|host| !begun(host));
        let mut refused = Vec::new();
        for host in hosts.iter().filter(begun).chain(others) {
            if rows.len() == count {
                break;
            }
            let mut row = HostRow::of(host, folder)?;
            row.read(folder)?;
            let job = if row.is_complete() {
                String::new()
            } else if let Some(job) = running(folder, host, scheduler.as_mut())? {
                job
            } else {
                match scheduler.start(host, order, folder) {
                    Ok(job) => job,
                    Err(error) => {
                        refused.push(format!("{host}: {}", error.in_full()));
                        continue;
                    }
                }
            };
            keep(folder, &format!("{host}.job"), job.as_bytes())?;
            row.progress = if row.is_complete() { Progress::Done } else { Progress::Waiting(String::new()) };
            row.job = job;
            row.ended = None;
            rows.push(row);
        }
        if rows.len() < count {
            let jobs: Vec<String> = rows.iter().map(|row: &HostRow| row.job.clone()).collect();
            scheduler.cancel(&jobs.into_iter().filter(|job| !job.is_empty()).collect::<Vec<_>>());
            let found = rows.len();
            return Err(ExpectedError::usage(
                format!("{found} of {count} hosts take the job; {}", refused.join("; ")),
                "ask for fewer with --hosts, or for others with the words of the scheduler after --on",
            ));
        }
        Ok(Self { rows, rounds, folder, scheduler })
    }

    /// Follows the jobs to their ends, and shows the rows whenever they are looked at. When interrupted, it cancels them.
    ///
    /// # Errors
    /// The folder cannot be read or written.
    pub fn follow(
        &mut self,
        interrupt: &Interrupt,
        show: &mut dyn FnMut(&Self),
    ) -> Result<(), ExpectedError> {
        let mut cancelled: Option<Instant> = None;
        loop {
            self.look()?;
            show(self);
            if self.rows.iter().all(|row| row.progress.is_over()) {
                return Ok(());
            }
            if interrupt.is_raised() && cancelled.is_none() {
                cancelled = Some(Instant::now());
                let jobs = self.open().map(|row| row.job.clone()).collect::<Vec<_>>();
                self.scheduler.cancel(&jobs);
            }
            if cancelled.is_some_and(|since| since.elapsed() > CANCELLED) {
                let hosts: Vec<String> = self.open().map(|row| row.host.clone()).collect();
                return Err(ExpectedError::Fault(format!(
                    "the jobs on {} were cancelled and have not ended",
                    hosts.join(", ")
                )));
            }
            thread::park_timeout(POLL);
        }
    }

    /// Whether jobs go on if this process dies.
    pub fn outlives(&self) -> bool {
        self.scheduler.outlives()
    }

    fn open(&self) -> impl Iterator<Item = &HostRow> {
        self.rows.iter().filter(|row| !row.progress.is_over())
    }

    fn look(&mut self) -> Result<(), ExpectedError> {
        let jobs: Vec<String> = self.open().map(|row| row.job.clone()).collect();
        let states = self.scheduler.states(&jobs);
        let open = self.rows.iter_mut().filter(|row| !row.progress.is_over());
        let mut states = states.map(Vec::into_iter);
        for row in open {
            // After its state: what it has written before it ended is there.
            row.read(self.folder)?;
            let Some(state) = states.as_mut().and_then(Iterator::next) else { continue };
            row.progress = match (row.ended.take(), state) {
                (Some(ended), _) => ended,
                (None, JobState::Waiting(why)) => Progress::Waiting(why),
                (None, JobState::Running) => Progress::Running,
                (None, JobState::Gone(_)) if row.rounds >= self.rounds => Progress::Done,
                (None, JobState::Gone(why)) => Progress::Failed(gone(self.folder, &row.host, &why)),
            };
        }
        Ok(())
    }
}

impl HostRow {
    fn of(host: &str, folder: &PrivateDir) -> Result<Self, ExpectedError> {
        let flags = OFlags::CREATE | OFlags::RDWR;
        let file = folder.file(format!("{host}.out"), flags)?.ok_or_else(|| {
            ExpectedError::Fault(format!("{host}.out in {} is gone", folder.path().display()))
        })?;
        Ok(Self {
            host: host.to_owned(),
            progress: Progress::Waiting(String::new()),
            rounds: 0,
            since: None,
            job: String::new(),
            lines: Lines::new(file),
            ended: None,
        })
    }

    /// Whether its job has said that all of its rounds are there.
    fn is_complete(&self) -> bool {
        self.ended == Some(Progress::Done)
    }

    /// Reads the lines that are new.
    fn read(&mut self, folder: &PrivateDir) -> Result<(), ExpectedError> {
        let mut store = None;
        for line in self.lines.read() {
            match line {
                Line::Begun { rounds } => {
                    (self.rounds, self.ended) = (rounds, None);
                    self.since.get_or_insert((Instant::now(), rounds));
                }
                Line::Rounds { done } => self.rounds = done,
                Line::Store { bytes } => store = Some(bytes),
                Line::Ended { complete: true, .. } => self.ended = Some(Progress::Done),
                Line::Ended { why, .. } => self.ended = Some(Progress::Failed(why)),
            }
        }
        let Some(bytes) = store else { return Ok(()) };
        match self.checked(&bytes, folder) {
            Ok(bytes) => keep(folder, &format!("{}.db", self.host), &bytes),
            Err(why) => {
                self.ended = Some(Progress::Failed(why));
                Ok(())
            }
        }
    }

    /// The bytes of a store, if it is one, and of this host.
    fn checked(&self, text: &str, folder: &PrivateDir) -> Result<Vec<u8>, String> {
        let bytes = STANDARD.decode(text).map_err(|_| "its store is damaged".to_owned())?;
        let name = format!(".{}.new", self.host);
        keep(folder, &name, &bytes).map_err(|error| error.in_full())?;
        let is_ours = || -> Result<(), String> {
            let store = Store::open_copy(folder.path().join(&name)).map_err(|error| error.to_string())?;
            for trial in store.trials().map_err(|error| error.to_string())? {
                let trial = store.trial(trial.id).map_err(|error| error.to_string())?;
                let of = answers::host_of(&trial).map_or_else(|| "no host".into(), |host| host.name);
                if of != self.host {
                    return Err(format!("its store is of {of}"));
                }
            }
            Ok(())
        };
        let found = is_ours();
        let _ = folder.remove(name.as_ref());
        found.map(|()| bytes)
    }
}

/// The job of a host that still runs, if there is one.
fn running(
    folder: &PrivateDir,
    host: &str,
    scheduler: &mut dyn Scheduler,
) -> Result<Option<String>, ExpectedError> {
    let Some(job) = folder.read(format!("{host}.job").as_ref(), 256)? else { return Ok(None) };
    let job = String::from_utf8_lossy(&job).trim().to_owned();
    if job.is_empty() || !scheduler.outlives() {
        return Ok(None);
    }
    let states = scheduler.states(std::slice::from_ref(&job));
    let is_gone = states.is_some_and(|states| matches!(states.first(), None | Some(JobState::Gone(_))));
    Ok((!is_gone).then_some(job))
}

/// Why a job ended without a word: what the scheduler says, and the last line that it complained in.
fn gone(folder: &PrivateDir, host: &str, why: &str) -> String {
    let log = folder.read(format!("{host}.log").as_ref(), MAX_LOG).ok().flatten().unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let last = log.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let last: String = last.trim().chars().take(SHOWN).collect();
    if last.is_empty() { why.to_owned() } else { format!("{why}: {last}") }
}

/// This program in a folder that hosts share; gives its path.
///
/// # Errors
/// It cannot be read, or there is no room for it.
pub fn program(folder: &PrivateDir) -> Result<String, ExpectedError> {
    const NAME: &str = "fstrial";
    const MOST: u64 = 1 << 30;
    let path = folder.path().join(NAME);
    let failed = |source| ExpectedError::File { what: "copy", path: path.clone(), source };
    let mut ours = Vec::new();
    let open = rustix::fs::open("/proc/self/exe", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let mut file = File::from(open.map_err(|error| failed(error.into()))?);
    file.read_to_end(&mut ours).map_err(failed)?;
    // Jobs may be running it.
    if folder.read(NAME.as_ref(), MOST)?.as_deref() != Some(ours.as_slice()) {
        keep(folder, NAME, &ours)?;
        let kept =
            folder.file(NAME, OFlags::RDONLY)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        rustix::fs::fchmod(&kept, Mode::from_raw_mode(0o755)).map_err(|error| failed(error.into()))?;
    }
    Ok(path.display().to_string())
}

/// Writes a file of a campaign whole, or not at all.
///
/// # Errors
/// There is no room, or the folder is not ours.
pub fn keep(folder: &PrivateDir, name: &str, bytes: &[u8]) -> Result<(), ExpectedError> {
    let new = format!(".{name}.part");
    let _ = folder.remove(new.as_ref());
    let mut file = folder.create(new.as_ref())?;
    let path = folder.path().join(name);
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(|source| ExpectedError::File {
        what: "write",
        path,
        source,
    })?;
    folder.rename(new.as_ref(), name.as_ref())?;
    Ok(())
}

fn names(folder: &PrivateDir) -> Result<Vec<String>, ExpectedError> {
    let names = folder.names()?;
    Ok(names.into_iter().map(|name: OsString| name.to_string_lossy().into_owned()).collect())
}
