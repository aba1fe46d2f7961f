//! `fstrial run --on` and `fstrial claims check --on`: trials on many hosts, each in a separate job, and their pooled
//! result.

use super::{
    Home,
    conduct::{self, ConductArgs},
    meta::Pool,
    scheduler::Where,
};
use clap::Args;
use fstrial_model::{trial::Trial, units::Nanos};
use fstrial_report::{campaign::Shown, json_lines, meta, page, summary::listed};
use fstrial_run::{
    claim::ClaimVerdict,
    cluster::{
        self, Campaign, Folder, HostRow, Progress, Scheduler, Wanted,
        command::Commands,
        lines::{CampaignOrder, Claims, HostWork},
        slurm::Slurm,
    },
    contrast::Outcome,
    environment,
    error::ExpectedError,
    exit_code, forecast,
    interrupt::Interrupt,
    numbers::{self, counted},
    plan::Plan,
};
use fstrial_store::Store;
use std::{
    path::{Path, PathBuf},
    str::FromStr,
    thread,
    time::Duration,
};

/// Default number of rounds of each host.
pub(super) const ROUNDS: u32 = 8;
/// The budget of a host is this many times the estimate of its rounds.
const MARGIN: f64 = 4.0;
/// Allowance of a job in addition to its budget, for its devices and its end.
const AROUND: Nanos = Nanos::secs(15 * 60);
/// A budget of a file beyond the estimate counts up to this.
const LEAST_BUDGET: Nanos = Nanos::secs(3600);
/// Files of the request, in the folder.
const NAMES: [&str; 2] = ["trial.toml", "claims.json"];
/// Interval of an observer's polling.
const LOOK: Duration = Duration::from_secs(1);
/// Hosts that a message names.
const SHOWN: usize = 8;
/// Seed of a campaign where its file has none.
pub(super) const SEED: u64 = 1;
/// Most hosts of a campaign.
const MAX_HOSTS: usize = 20_000;

/// Hosts of the trial.
#[derive(Debug, Clone, Args)]
pub(crate) struct OnArgs {
    /// Run on many hosts and pool their results: `slurm`, with sbatch options after it, or `command` with a command that
    /// runs `fstrial agent --trial` on {host}.
    #[arg(long, value_name = "SCHEDULER", requires = "hosts")]
    on: Option<Where>,

    /// Number or names of hosts: 12, or a,b,c (with --on).
    #[arg(long, value_name = "N|NAME,…", requires = "on")]
    hosts: Option<Hosts>,

    /// Folder for the jobs and the stores of all hosts, shared by the nodes (with --on) [default: NAME.hosts].
    #[arg(long, value_name = "FOLDER", requires = "on", hide_short_help = true)]
    folder: Option<PathBuf>,
}

#[derive(Debug, Clone)]
enum Hosts {
    Any(usize),
    Named(Vec<String>),
}

impl FromStr for Hosts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(count) = text.parse() {
            return match count {
                1..=MAX_HOSTS => Ok(Self::Any(count)),
                _ => Err(format!("use 1 to {MAX_HOSTS} hosts")),
            };
        }
        let mut names: Vec<String> = Vec::new();
        for name in text.split(',').map(str::trim) {
            let known = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if name.is_empty() || name.starts_with(['-', '.']) || name.len() > 200 || !name.chars().all(known)
            {
                return Err(format!(
                    "{name:?} is not the name of a host; write names between commas, n1,n2,n3, or a number"
                ));
            }
            if names.iter().any(|other| other == name) {
                return Err(format!("{name} is there twice"));
            }
            names.push(name.to_owned());
        }
        Ok(Self::Named(names))
    }
}

/// The request to every host.
pub(super) struct CampaignRequest {
    work: HostWork,
    /// Base of its folder's name.
    name: String,
    /// Rounds of each host.
    rounds: u32,
    seed: u64,
    /// Time limit of a host.
    time: Nanos,
}

impl CampaignRequest {
    /// A trial. `name`: that of its file; `budget`: that of each host, if a flag has one.
    ///
    /// # Errors
    /// It is a trial of this host, or one that cannot be run.
    pub(super) fn of_trial(
        mut trial: Trial,
        name: &str,
        budget: Option<Nanos>,
    ) -> Result<Self, ExpectedError> {
        fix(&mut trial, budget)?;
        Ok(Self {
            work: HostWork::Trial(trial.to_toml()),
            name: name.to_owned(),
            rounds: trial.trial.rounds.unwrap_or(ROUNDS),
            seed: trial.trial.seed.unwrap_or(SEED),
            time: trial.trial.budget,
        })
    }

    /// `11 claims of 8 rounds each, at most 2 h`.
    fn in_words(&self) -> String {
        let most = numbers::wait(self.time.as_secs_f64());
        match &self.work {
            HostWork::Trial(_) => format!("{} each, at most {most}", counted(self.rounds, "round")),
            HostWork::Claims(claims) => {
                format!("{} of {ROUNDS} rounds each, at most {most}", counted(claims.files.len(), "claim"))
            }
        }
    }

    /// Claims, each with [`ROUNDS`]. `time`: limit for all of them.
    pub(super) fn of_claims(claims: Claims, time: Nanos) -> Self {
        let rounds = ROUNDS * u32::try_from(claims.files.len()).unwrap_or(u32::MAX);
        Self { work: HostWork::Claims(claims), name: "claims".into(), rounds, seed: SEED, time }
    }
}

impl OnArgs {
    /// True if the trial runs on many hosts.
    pub(crate) const fn is_given(&self) -> bool {
        self.on.is_some()
    }
}

/// Has every host carry out the request.
pub(super) fn exec(
    requested: &CampaignRequest,
    args: &OnArgs,
    conduct: &ConductArgs,
    home: &Home,
) -> Result<u8, ExpectedError> {
    let (Some(on), Some(hosts)) = (&args.on, &args.hosts) else {
        return Err(ExpectedError::Fault("--on and --hosts come together".into()));
    };
    let (named, count) = match (on, hosts) {
        (_, Hosts::Named(names)) => (Some(names), names.len()),
        (Where::Slurm(_), Hosts::Any(count)) => (None, *count),
        (Where::Command(_), Hosts::Any(_)) => {
            return Err(ExpectedError::usage(
                "a command reaches hosts by their names, and --hosts has a number",
                "name them: --hosts a,b,c",
            ));
        }
    };
    let folder = args.folder.clone().unwrap_or_else(|| format!("{}.hosts", requested.name).into());
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    let folder = Folder::make(&folder, matches!(on, Where::Slurm(_)))?;
    let order = order(&requested.work, &folder)?;
    let are_named = named.is_some();
    let (scheduler, hosts) = scheduler(on, named, requested.time, &folder, home)?;
    let interrupt = Interrupt::at_ctrl_c()
        .map_err(|e| ExpectedError::Fault(format!("could not set signal handlers: {e}")))?;
    let wanted =
        Wanted { order: &order, rounds: requested.rounds, seed: requested.seed, hosts, count, are_named };
    let mut campaign = Campaign::begin(&folder, &wanted, &interrupt, scheduler)?;
    let mut shown = Shown::new(conduct.is_json(), conduct.is_quiet());
    let open = campaign.rows.iter().filter(|row| !row.progress.is_over()).count();
    if open > 0 && !conduct.is_json() && !conduct.is_quiet() {
        let otherwise = match campaign.outlives() {
            true => {
                "cancels them; if this command ends otherwise, they continue, and the same command follows them"
            }
            false => "ends them, and the same command resumes them",
        };
        let of = requested.in_words();
        super::say(&format!(
            "{} in {}, {of}; Ctrl-C {otherwise}\n",
            counted(open, "job"),
            folder.dir().path().display()
        ));
    }
    let followed = campaign.follow(&interrupt, &mut |campaign| shown.show(&campaign.rows, campaign.rounds));
    shown.clear();
    followed?;
    answer(&campaign, &folder, conduct, interrupt.is_raised())
}

/// Makes a trial one of many hosts: its rounds are fixed, and it names nothing that only this host has.
///
/// # Errors
/// It is a trial of one host, or one that cannot be run.
pub(super) fn fix(trial: &mut Trial, budget: Option<Nanos>) -> Result<(), ExpectedError> {
    if trial.device.kind.is_erased() {
        return Err(ExpectedError::usage(
            "a disk that is erased is named for one host, and this trial is for many",
            "use --device image or ramdisk, or directories on the disks of the hosts",
        ));
    }
    if trial.trial.clients > 1 {
        return Err(ExpectedError::usage(
            "the trial has clients, which are many hosts already",
            "fstrial run TRIAL in an allocation of the scheduler's: mpirun starts the clients there",
        ));
    }
    if let Some(place) = trial.places.iter().find(|place| place.takes_command()) {
        return Err(ExpectedError::usage(
            format!("the trial has the place {} on another host, and is for many hosts", place.name),
            "leave the place out: every host runs all arms",
        ));
    }
    if trial.names_inputs() {
        return Err(ExpectedError::usage(
            "the trial names a file of this host as an input of a program, and is for many hosts",
            "write the text of the file into the trial, or make the data with a command (`prepare`)",
        ));
    }
    let rounds = *trial.trial.rounds.get_or_insert(ROUNDS);
    if (rounds as usize) < meta::MIN_ROUNDS {
        return Err(ExpectedError::usage(
            format!("{rounds} rounds of a host are too few: a host counts with {} rounds", meta::MIN_ROUNDS),
            format!("write rounds = {ROUNDS} in the trial file"),
        ));
    }
    trial.trial.sequential = false;
    trial.trial.seed.get_or_insert(SEED);
    let plan = Plan::new(trial.settled(environment::cpus())?, 1)?;
    let seconds = MARGIN * forecast::round_time(&plan).0.as_secs_f64() * f64::from(rounds);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time of rounds")]
    let needed = Nanos::secs((seconds + forecast::least_seconds(&plan)).ceil() as u64);
    // That of the file is a limit, and may be a day: it is the time limit of the job.
    let most = needed.max(LEAST_BUDGET);
    trial.trial.budget = budget.unwrap_or_else(|| trial.trial.budget.clamp(needed, most));
    Ok(())
}

/// The order of all hosts, and the request in the folder.
fn order(work: &HostWork, folder: &Folder) -> Result<CampaignOrder, ExpectedError> {
    let (name, text) = match work {
        HostWork::Trial(toml) => (NAMES[0], toml.clone()),
        HostWork::Claims(claims) => {
            (NAMES[1], serde_json::to_string_pretty(claims).expect("claims are plain data"))
        }
    };
    for known_name in NAMES {
        let Some(known) = folder.read(known_name)? else { continue };
        if known_name != name || !is_same(work, &String::from_utf8_lossy(&known)) {
            return Err(ExpectedError::usage(
                format!(
                    "{} has the hosts of another trial ({known_name} there)",
                    folder.dir().path().display()
                ),
                "name another folder with --folder, or run the trial of this one to follow its hosts",
            ));
        }
    }
    folder.keep(name, text.as_bytes())?;
    let (host, attempt) = (String::new(), String::new());
    Ok(CampaignOrder {
        fstrial: env!("CARGO_PKG_VERSION").into(),
        work: work.clone(),
        host,
        attempt,
        holds: false,
    })
}

/// True if the text of a folder is the same request. Another budget does not count.
fn is_same(work: &HostWork, known: &str) -> bool {
    match work {
        HostWork::Trial(toml) => {
            let read = |text: &str| Trial::parse("the trial of the folder", text).map(conduct::comparable);
            read(known).is_ok_and(|known| read(toml).is_ok_and(|requested| requested == known))
        }
        HostWork::Claims(claims) => serde_json::from_str::<Claims>(known)
            .is_ok_and(|known| Claims { budget: claims.budget, ..known } == *claims),
    }
}

/// The scheduler, and the hosts in the order in which they are tried.
fn scheduler(
    on: &Where,
    named: Option<&Vec<String>>,
    time: Nanos,
    folder: &Folder,
    home: &Home,
) -> Result<(Box<dyn Scheduler>, Vec<String>), ExpectedError> {
    match on {
        Where::Slurm(words) => {
            let mut job = vec![folder.program()?, "agent".into(), "--trial".into()];
            // A home that was named for this command has one for each host: nodes may share it.
            if let Some(home) = home.of_hosts()? {
                job.push(format!("--home={}", home.join("{host}").display()));
            }
            let limit = Nanos(time.0.saturating_add(AROUND.0));
            let slurm = Slurm::new(words.clone(), job, limit, folder.dir().path())?;
            let hosts = named.map_or_else(|| slurm.nodes(), |names| Ok(names.clone()))?;
            Ok((Box::new(slurm), hosts))
        }
        Where::Command(words) => {
            Ok((Box::new(Commands::new(words.clone())), named.cloned().unwrap_or_default()))
        }
    }
}

/// Looks on while another command follows a campaign: hosts as rows, until all have ended.
///
/// # Errors
/// The folder is not that of a campaign.
pub(super) fn watch(path: &Path) -> Result<u8, ExpectedError> {
    let folder = Folder::look_at(path)?;
    let interrupt = Interrupt::at_signals()
        .map_err(|e| ExpectedError::Fault(format!("could not set signal handlers: {e}")))?;
    let trial = folder.read(NAMES[0])?.and_then(|text| {
        Trial::parse("the trial of the folder", &String::from_utf8_lossy(&text)).ok()?.trial.rounds
    });
    let claims = folder.read(NAMES[1])?.and_then(|text| serde_json::from_slice::<Claims>(&text).ok());
    let of_claims = claims.map(|claims| CampaignRequest::of_claims(claims, Nanos(0)).rounds);
    let rounds = trial.or(of_claims).unwrap_or(ROUNDS);
    let mut rows = cluster::rows(&folder)?;
    let mut shown = Shown::new(false, false);
    while !interrupt.is_raised() {
        // More may have been started, and some again.
        cluster::look_again(&mut rows, &folder)?;
        rows.iter_mut().for_each(|row| row.look(&folder));
        shown.show(&rows, rounds);
        if rows.iter().all(|row| row.progress.is_over()) {
            break;
        }
        thread::park_timeout(LOOK);
    }
    shown.clear();
    super::say(&format!("pooled results so far: fstrial meta {}\n", path.display()));
    Ok(if interrupt.is_raised() { exit_code::INTERRUPTED } else { exit_code::VERDICT })
}

/// Pools the stores of the folder, and ends the command.
fn answer(
    campaign: &Campaign<'_>,
    folder: &Folder,
    conduct: &ConductArgs,
    is_interrupted: bool,
) -> Result<u8, ExpectedError> {
    let mut pool = Pool::default();
    let hosts = folder.stores()?;
    for host in &hosts {
        let store = Store::open_copy(folder.dir().path().join(format!("{host}.db")));
        match store
            .map_err(ExpectedError::from)
            .and_then(|store| pool.add(&store, &format!("{} #", host.replace('~', " ")), None))
        {
            Ok(()) => {}
            Err(error) => pool.leave_out(host, &error.in_full()),
        }
    }
    for row in &campaign.rows {
        row.left_out.iter().for_each(|(claim, why)| pool.leave_out(&format!("{claim} on {}", row.host), why));
    }
    let document = pool.document(hosts.len(), None);
    let shown = folder.dir().path().display();
    if conduct.has_page() && !document.questions.is_empty() {
        folder.keep("hosts.html", page::meta::page(&document).as_bytes())?;
    }
    if conduct.is_json() {
        json_lines::print(&document);
    } else {
        super::meta::show(&document);
        if conduct.has_page() && !document.questions.is_empty() && !conduct.is_quiet() {
            super::say(&format!("\nas a page: {shown}/hosts.html; again: fstrial meta {shown}\n"));
        }
    }
    let failed: Vec<&HostRow> =
        campaign.rows.iter().filter(|row| matches!(row.progress, Progress::Failed(_))).collect();
    if is_interrupted {
        super::say("interrupted; the same command resumes these hosts\n");
        return Ok(exit_code::INTERRUPTED);
    }
    if !failed.is_empty() {
        let names: Vec<&str> = failed.iter().take(SHOWN).map(|row| row.host.as_str()).collect();
        let more = failed.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        super::say(&format!(
            "not all rounds are there of {}{more}; the same command again resumes these hosts\n",
            listed(&names)
        ));
        return Ok(exit_code::SETUP_FAILED);
    }
    let undecided = match document.claims.is_empty() {
        true => document.questions.iter().any(|question| question.verdict == Outcome::Undecided),
        false => document.claims.iter().any(|claim| claim.verdict == ClaimVerdict::Undecided),
    };
    let is_open = undecided || document.questions.is_empty();
    Ok(if is_open && !conduct.is_undecided_ok() { exit_code::UNDECIDED } else { exit_code::VERDICT })
}
