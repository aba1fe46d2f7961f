//! One trial on many hosts: a job for each, started by a scheduler or by a command of the user's.
//!
//! A job is this program, a [`CampaignOrder`] on its standard input, and [`HostLine`](lines::HostLine)s on its standard
//! output, among them the store of its trial. The state of a campaign is a folder that its hosts may share: `HOST.out`
//! with the lines, `HOST.log` with the job's standard error, `HOST.job` with its number, `HOST.db` (of a claim
//! `HOST~CLAIM.db`) with its last whole store. A coordinator that dies takes nothing with it: the next one reads the
//! folder and follows the jobs that still run.

pub mod command;
mod folder;
pub mod lines;
pub mod slurm;

use crate::{answers, error::ExpectedError, interrupt::Interrupt, numbers};
use base64::{Engine, engine::general_purpose::STANDARD};
pub use folder::Folder;
use fstrial_store::Store;
use lines::{CampaignOrder, Lines, News, seed_of_host};
use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

/// Interval of reading lines.
const POLL: Duration = Duration::from_secs(1);
/// Limits of the interval of polling the scheduler: the more hosts, the longer.
const MIN_POLL: Duration = Duration::from_secs(1);
const MAX_POLL: Duration = Duration::from_secs(20);
/// Interval of cancelling unended jobs again.
const CANCEL_AGAIN: Duration = Duration::from_secs(10);
/// Time limit for cancelled jobs to end.
const CANCELLED: Duration = Duration::from_secs(90);
/// Time limit for a job's lines to arrive after its end.
const LAST_LINES: Duration = Duration::from_secs(3);

/// The state of a job, as its scheduler has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobState {
    /// It has not begun, and why.
    Waiting(String),
    Running,
    /// It has ended, or is unknown.
    Gone(String),
}

/// Starts jobs on hosts.
pub trait Scheduler {
    /// Starts the job of a host, whose order is in the folder; returns its number.
    ///
    /// # Errors
    /// It refuses the job.
    fn start(&mut self, order: &CampaignOrder, folder: &Folder) -> Result<String, ExpectedError>;

    /// The job of a host that still runs, although the folder has no number of it: its coordinator was killed too early.
    fn lost_job(&mut self, host: &str) -> Option<String>;

    /// The states of jobs, in their order. None while the scheduler does not answer.
    fn states(&mut self, jobs: &[String]) -> Option<Vec<JobState>>;

    /// Asks jobs to end; `again`: they were asked before.
    fn cancel(&mut self, jobs: &[String], again: bool);

    /// The command by which a user ends these jobs.
    fn how_to_cancel(&self, jobs: &[String]) -> String;

    /// True if jobs outlive this process.
    fn outlives(&self) -> bool;
}

/// The progress of a host.
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
    /// The claims that it did not measure, and why.
    pub left_out: Vec<(String, String)>,
    /// The time of its first report to this process, and its rounds at that time.
    pub since: Option<(Instant, u32)>,
    job: String,
    attempt: String,
    seed: u64,
    lines: Lines,
    /// Why stores of its trials are not taken, by the name of the claim.
    refused: BTreeMap<String, String>,
    /// Its end, as its own last line has it: final only with all rounds, as a scheduler may start it again.
    ended: Option<Progress>,
    /// When the scheduler first reported its job as gone.
    gone: Option<Instant>,
}

/// A trial on many hosts.
pub struct Campaign<'a> {
    pub rows: Vec<HostRow>,
    /// Rounds that each host is to run.
    pub rounds: u32,
    folder: &'a Folder,
    scheduler: Box<dyn Scheduler>,
    polled: Option<Instant>,
}

/// The requested campaign.
pub struct Wanted<'a> {
    /// The order of each host, but for its name and attempt.
    pub order: &'a CampaignOrder,
    pub rounds: u32,
    pub seed: u64,
    /// The hosts in the order in which they are tried.
    pub hosts: Vec<String>,
    /// Their number.
    pub count: usize,
    /// True if they were named: then no others count.
    pub are_named: bool,
}

impl<'a> Campaign<'a> {
    /// A campaign in a folder: hosts that have all rounds are done, jobs that still run are followed, and others are
    /// started. The hosts that the folder has come first, whether or not they are up.
    ///
    /// # Errors
    /// The folder cannot be read or written; too few hosts take the job.
    pub fn begin(
        folder: &'a Folder,
        wanted: &Wanted<'_>,
        interrupt: &Interrupt,
        scheduler: Box<dyn Scheduler>,
    ) -> Result<Self, ExpectedError> {
        let mut hosts = if wanted.are_named { Vec::new() } else { folder.hosts()? };
        let begun: std::collections::HashSet<String> = hosts.iter().cloned().collect();
        hosts.extend(wanted.hosts.iter().filter(|host| !begun.contains(*host)).cloned());
        let mut campaign = Self { rows: Vec::new(), rounds: wanted.rounds, folder, scheduler, polled: None };
        let mut refused: Vec<(String, Vec<String>)> = Vec::new();
        for host in hosts {
            if campaign.rows.len() >= wanted.count.max(begun.len()) || interrupt.is_raised() {
                break;
            }
            match campaign.host(&host, wanted) {
                Ok(row) => campaign.rows.push(row),
                Err(error) => {
                    folder.forget(&host);
                    let why = error.in_full();
                    match refused.iter_mut().find(|(known, _)| *known == why) {
                        Some((_, hosts)) => hosts.push(host),
                        None => refused.push((why, vec![host])),
                    }
                }
            }
        }
        if campaign.rows.len() < wanted.count && !interrupt.is_raised() {
            campaign.cancel(false);
            return Err(too_few(campaign.rows.len(), wanted.count, &refused));
        }
        Ok(campaign)
    }

    /// A host: known to be done, its running job followed, or its job started.
    fn host(&mut self, host: &str, wanted: &Wanted<'_>) -> Result<HostRow, ExpectedError> {
        let seed = seed_of_host(wanted.seed, host);
        if let Some(attempt) = self.folder.attempt(host) {
            let mut row = HostRow::of(host, attempt, seed);
            row.read(self.folder)?;
            let has_all = self.folder.has_store(host)? || !row.left_out.is_empty();
            if row.ended == Some(Progress::Done) && has_all {
                row.progress = Progress::Done;
                return Ok(row);
            }
            if let Some(job) = self.running(host)? {
                self.folder.keep(&format!("{host}.job"), job.as_bytes())?;
                row.job = job;
                return Ok(row);
            }
        }
        let attempt = folder::token();
        let order = CampaignOrder { host: host.to_owned(), attempt: attempt.clone(), ..wanted.order.clone() };
        self.folder.prepare(&order)?;
        let job = self.scheduler.start(&order, self.folder)?;
        self.folder.keep(&format!("{host}.job"), job.as_bytes())?;
        Ok(HostRow { job, ..HostRow::of(host, attempt, seed) })
    }

    /// The job of a host that still runs, if there is one.
    fn running(&mut self, host: &str) -> Result<Option<String>, ExpectedError> {
        if !self.scheduler.outlives() {
            return Ok(None);
        }
        let Some(job) = self.folder.job(host)?.or_else(|| self.scheduler.lost_job(host)) else {
            return Ok(None);
        };
        let states = self.scheduler.states(std::slice::from_ref(&job));
        let is_gone = states.is_some_and(|states| matches!(states.first(), None | Some(JobState::Gone(_))));
        Ok((!is_gone).then_some(job))
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
        let (mut cancelled, mut last_cancel): (Option<Instant>, Option<Instant>) = (None, None);
        loop {
            self.poll(cancelled.is_some())?;
            show(self);
            let is_over = |row: &HostRow| match cancelled {
                // One that its scheduler would start again is to be cancelled, too.
                Some(_) => row.job.is_empty() || row.gone.is_some() || row.progress == Progress::Done,
                None => row.progress.is_over(),
            };
            if self.rows.iter().all(is_over) {
                return Ok(());
            }
            if interrupt.is_raised() && last_cancel.is_none_or(|since| since.elapsed() > CANCEL_AGAIN) {
                self.cancel(cancelled.is_some());
                last_cancel = Some(Instant::now());
                cancelled.get_or_insert_with(Instant::now);
            }
            if cancelled.is_some_and(|since| since.elapsed() > CANCELLED) {
                self.give_up();
                show(self);
                return Ok(());
            }
            thread::park_timeout(POLL);
        }
    }

    /// True if jobs continue after this process dies.
    pub fn outlives(&self) -> bool {
        self.scheduler.outlives()
    }

    /// Cancels every job that is not known to be gone.
    fn cancel(&mut self, again: bool) {
        let open = self.rows.iter().filter(|row| row.progress != Progress::Done && row.gone.is_none());
        let jobs: Vec<String> = open.map(|row| row.job.clone()).filter(|job| !job.is_empty()).collect();
        self.scheduler.cancel(&jobs, again);
    }

    /// Reports the jobs that have not ended although they were cancelled.
    fn give_up(&mut self) {
        for row in self.rows.iter_mut().filter(|row| row.progress != Progress::Done && row.gone.is_none()) {
            let how = self.scheduler.how_to_cancel(std::slice::from_ref(&row.job));
            row.progress = Progress::Failed(format!("its job was cancelled and has not ended; {how}"));
        }
    }

    fn poll(&mut self, is_cancelled: bool) -> Result<(), ExpectedError> {
        let open: Vec<usize> = (0..self.rows.len())
            .filter(|index| {
                let row = &self.rows[*index];
                !row.progress.is_over()
                    || is_cancelled && row.gone.is_none() && row.progress != Progress::Done
            })
            .collect();
        let each = Duration::from_millis(100 * open.len() as u64).clamp(MIN_POLL, MAX_POLL);
        let is_due = self.polled.is_none_or(|since| since.elapsed() >= each);
        let states = is_due.then(|| {
            self.polled = Some(Instant::now());
            let jobs: Vec<String> = open.iter().map(|index| self.rows[*index].job.clone()).collect();
            self.scheduler.states(&jobs)
        });
        let mut states = states.flatten().map(Vec::into_iter);
        for index in open {
            let row = &mut self.rows[index];
            // After its state: the lines of a job that has ended are there.
            row.read(self.folder)?;
            if row.ended == Some(Progress::Done) {
                row.progress = Progress::Done;
            }
            let Some(state) = states.as_mut().and_then(Iterator::next) else { continue };
            row.take(state, self.folder);
        }
        Ok(())
    }
}

impl HostRow {
    fn of(host: &str, attempt: String, seed: u64) -> Self {
        Self {
            host: host.to_owned(),
            progress: Progress::Waiting(String::new()),
            rounds: 0,
            left_out: Vec::new(),
            since: None,
            job: String::new(),
            attempt,
            seed,
            lines: Lines::default(),
            refused: BTreeMap::new(),
            ended: None,
            gone: None,
        }
    }

    fn take(&mut self, state: JobState, folder: &Folder) {
        if self.progress == Progress::Done {
            return;
        }
        self.progress = match state {
            JobState::Waiting(why) => Progress::Waiting(why),
            JobState::Running => Progress::Running,
            JobState::Gone(why) => {
                let since = *self.gone.get_or_insert_with(Instant::now);
                match self.ended.clone() {
                    Some(ended) => ended,
                    // Its last lines may be on their way.
                    None if since.elapsed() < LAST_LINES => return,
                    None => Progress::Failed(folder.last_words(&self.host, &why)),
                }
            }
        };
        if !self.progress.is_over() {
            self.gone = None;
        }
    }

    /// Reads the new lines of its attempt, for who looks on.
    pub fn look(&mut self, folder: &Folder) {
        let _ = self.hear(folder);
        self.progress = match (&self.ended, self.since) {
            (Some(ended), _) => ended.clone(),
            (None, Some(_)) => Progress::Running,
            (None, None) => Progress::Waiting(String::new()),
        };
    }

    /// The same, and keeps the last store of each trial among them.
    fn read(&mut self, folder: &Folder) -> Result<(), ExpectedError> {
        for (claim, bytes) in self.hear(folder) {
            match self.checked(&bytes, folder)? {
                Ok(bytes) => {
                    self.refused.remove(&claim);
                    folder.keep_store(&self.host, &claim, &bytes)?;
                }
                Err(why) => {
                    self.refused.insert(claim, why);
                }
            }
        }
        // Nothing is started whose results cannot be collected.
        if let (Some(Progress::Done), Some(why)) = (&self.ended, self.refused.values().next()) {
            self.ended = Some(Progress::Failed(why.clone()));
        }
        Ok(())
    }

    /// Hears the new lines of its attempt; gives the last store of each trial among them.
    fn hear(&mut self, folder: &Folder) -> BTreeMap<String, String> {
        let mut lines = std::mem::take(&mut self.lines);
        let mut stores = BTreeMap::new();
        lines.read(folder.dir(), &format!("{}.out", self.host), |line| {
            if line.attempt != self.attempt {
                return;
            }
            match line.news {
                News::Begun { rounds } => {
                    (self.rounds, self.ended) = (rounds, None);
                    self.left_out.clear();
                    self.refused.clear();
                    self.since.get_or_insert((Instant::now(), rounds));
                }
                News::Rounds { done } => self.rounds = done,
                News::LeftOut { claim, why } => self.left_out.push((claim, why)),
                News::Store { claim, bytes } => {
                    stores.insert(claim, bytes);
                }
                News::Ended { complete: true, .. } => self.ended = Some(Progress::Done),
                News::Ended { why, .. } => self.ended = Some(Progress::Failed(why)),
            }
        });
        self.lines = lines;
        stores
    }

    /// The bytes of a store, if it has the one trial of this host.
    fn checked(&self, text: &str, folder: &Folder) -> Result<Result<Vec<u8>, String>, ExpectedError> {
        let Ok(bytes) = STANDARD.decode(text) else { return Ok(Err("its store is damaged".into())) };
        let name = format!(".{}.new", self.host);
        folder.keep(&name, &bytes)?;
        let is_ours = || -> Result<(), String> {
            let store =
                Store::open_copy(folder.dir().path().join(&name)).map_err(|error| error.to_string())?;
            let trials = store.trials().map_err(|error| error.to_string())?;
            let [trial] = &trials[..] else {
                return Err(format!("its store has {} trials instead of one", trials.len()));
            };
            let trial = store.trial(trial.id).map_err(|error| error.to_string())?;
            let of = answers::host_of(&trial).map_or_else(|| "no host".into(), |host| host.name);
            if of != self.host || trial.summary.seed != self.seed {
                return Err(format!("its store has another trial, of {of}"));
            }
            Ok(())
        };
        let result = is_ours();
        folder.remove(&name);
        Ok(result.map(|()| bytes))
    }
}

/// The hosts that the folder of a campaign has.
///
/// # Errors
/// It cannot be read.
pub fn rows(folder: &Folder) -> Result<Vec<HostRow>, ExpectedError> {
    let row = |host: &String| HostRow::of(host, folder.attempt(host).unwrap_or_default(), 0);
    Ok(folder.hosts()?.iter().map(row).collect())
}

/// Takes up hosts that have been started since, and attempts.
///
/// # Errors
/// The folder cannot be read.
pub fn look_again(known: &mut Vec<HostRow>, folder: &Folder) -> Result<(), ExpectedError> {
    for row in rows(folder)? {
        match known.iter_mut().find(|other| other.host == row.host) {
            Some(other) if other.attempt == row.attempt => {}
            Some(other) => *other = row,
            None => known.push(row),
        }
    }
    Ok(())
}

fn too_few(taken: usize, count: usize, refused: &[(String, Vec<String>)]) -> ExpectedError {
    const SHOWN: usize = 3;
    let reason = |(why, hosts): &(String, Vec<String>)| format!("{}: {why}", numbers::first_of(hosts, SHOWN));
    let why = match refused.is_empty() {
        true => "no other host takes jobs now".to_owned(),
        false => refused.iter().take(SHOWN).map(reason).collect::<Vec<_>>().join("; "),
    };
    ExpectedError::usage(
        format!("only {taken} of {count} hosts take the job: {why}"),
        "check the words after --on, or use fewer hosts; no job is left running",
    )
}
