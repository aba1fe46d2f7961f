//! `fstrial run --on`: one trial on many hosts, each by a job of its own, and what they say together.

use super::{Home, meta::Pool};
use clap::Args;
use fstrial_model::{trial::Trial, units::Nanos};
use fstrial_report::{
    USUAL_COLUMNS, campaign::Shown, is_unicode, json_lines, meta, page, stdout, summary::listed,
    trend::Terminal,
};
use fstrial_run::{
    cluster::{self, Campaign, HostRow, Progress, Scheduler, command::Commands, lines::Order, slurm::Slurm},
    contrast::Outcome,
    environment,
    error::ExpectedError,
    exit_code, forecast,
    numbers::counted,
    plan::Plan,
};
use fstrial_stack::private_dir::PrivateDir;
use fstrial_store::Store;
use std::{path::PathBuf, str::FromStr};

/// Rounds of each host where neither the file nor a flag says how many.
const ROUNDS: u32 = 8;
/// The budget of a host is this many times the estimate of its rounds.
const MARGIN: f64 = 4.0;
/// What a job takes in addition to its budget, for its devices and its end.
const AROUND: Nanos = Nanos::secs(15 * 60);
/// Most hosts of a campaign.
const MAX_HOSTS: usize = 20_000;

/// Which hosts run the trial.
#[derive(Debug, Clone, Args)]
pub(crate) struct OnArgs {
    /// Run the trial on many hosts, and pool what they find: `slurm`, with words for sbatch after it, or `command` and one that
    /// runs `fstrial agent --trial` on {host}.
    #[arg(long, value_name = "SCHEDULER", requires = "hosts")]
    on: Option<Where>,

    /// How many hosts, or their names: 12, or a,b,c (with --on).
    #[arg(long, value_name = "N|NAME,…", requires = "on")]
    hosts: Option<Hosts>,

    /// Folder of the jobs and of a store for each host, which a cluster's nodes share (with --on) [default: NAME.hosts].
    #[arg(long, value_name = "FOLDER", requires = "on", hide_short_help = true)]
    folder: Option<PathBuf>,
}

/// What starts jobs.
#[derive(Debug, Clone)]
enum Where {
    Slurm(Vec<String>),
    Command(Vec<String>),
}

impl FromStr for Where {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains(['\'', '"', '\\']) {
            return Err(
                "the words are split at spaces, and quotes mean nothing in them: put them into a script"
                    .into(),
            );
        }
        let mut words = text.split_whitespace().map(str::to_owned);
        let kind = words.next().unwrap_or_default();
        let words: Vec<String> = words.collect();
        match kind.as_str() {
            "slurm" => Ok(Self::Slurm(words)),
            "command" if words.iter().any(|word| word.contains("{host}")) => Ok(Self::Command(words)),
            "command" => {
                Err("the command has no {host}; write 'command ssh {host} fstrial agent --trial'".into())
            }
            _ => {
                Err("use slurm, 'slurm --partition=nvme', or 'command ssh {host} fstrial agent --trial'"
                    .into())
            }
        }
    }
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
                return Err(format!("{name:?} is not the name of a host"));
            }
            if names.iter().any(|other| other == name) {
                return Err(format!("{name} is there twice"));
            }
            names.push(name.to_owned());
        }
        Ok(Self::Named(names))
    }
}

impl OnArgs {
    /// Whether the trial runs on many hosts.
    pub(crate) const fn is_given(&self) -> bool {
        self.on.is_some()
    }
}

/// Runs a trial on its hosts. `budget`: that of each host, if a flag says it.
pub(crate) fn exec(
    mut trial: Trial,
    args: &OnArgs,
    budget: Option<Nanos>,
    json: bool,
    home: &Home,
) -> Result<u8, ExpectedError> {
    let (Some(on), Some(hosts)) = (&args.on, &args.hosts) else {
        return Err(ExpectedError::Fault("--on and --hosts come together".into()));
    };
    if let (Where::Command(_), Hosts::Any(_)) = (on, hosts) {
        return Err(ExpectedError::usage(
            "a command reaches hosts by their names, and --hosts has a number",
            "name them: --hosts a,b,c",
        ));
    }
    fix(&mut trial, budget)?;
    let folder = folder(&trial, args)?;
    let order = order(&trial, &folder)?;
    let rounds = trial.trial.rounds.unwrap_or(ROUNDS);
    let (scheduler, names, count) = scheduler(on, hosts, &trial, &folder, home)?;
    let interrupt = super::conduct::interrupt()?;
    let mut campaign = Campaign::begin(&folder, &order, rounds, (&names, count), scheduler)?;
    let mut shown = Shown::new(json, campaign.rows.len());
    if campaign.outlives() && !json {
        super::say(&format!(
            "{} in {}; if this command ends, the jobs go on, and the same command follows them again\n",
            counted(campaign.rows.len(), "job"),
            folder.path().display()
        ));
    }
    let followed = campaign.follow(&interrupt, &mut |campaign| shown.show(campaign));
    shown.clear();
    followed?;
    answer(&campaign, &folder, json, interrupt.is_raised())
}

/// Makes a trial one of many hosts: its rounds are fixed, and it names nothing that only this host has.
fn fix(trial: &mut Trial, budget: Option<Nanos>) -> Result<(), ExpectedError> {
    if trial.device.kind.is_erased() {
        return Err(ExpectedError::usage(
            "a disk that is erased is named for one host, and this trial is for many",
            "use --device image or ramdisk, or directories on the disks of the hosts",
        ));
    }
    if let Some(place) = trial.places.iter().find(|place| place.takes_command()) {
        return Err(ExpectedError::usage(
            format!("the trial has the place {} on another host, and is for many hosts", place.name),
            "leave the place out: every host runs all arms",
        ));
    }
    trial.trial.rounds.get_or_insert(ROUNDS);
    trial.trial.sequential = false;
    trial.trial.seed.get_or_insert(1);
    let plan = Plan::new(trial.settled(environment::cpus())?, 1)?;
    let rounds = f64::from(trial.trial.rounds.unwrap_or(ROUNDS));
    let seconds =
        MARGIN * (forecast::round_time(&plan).0.as_secs_f64() * rounds) + forecast::least_seconds(&plan);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time of rounds")]
    let needed = Nanos::secs(seconds.ceil() as u64);
    trial.trial.budget = budget.unwrap_or_else(|| trial.trial.budget.max(needed));
    Ok(())
}

/// The folder of the campaign, which holds no other.
fn folder(trial: &Trial, args: &OnArgs) -> Result<PrivateDir, ExpectedError> {
    let name = Some(trial.trial.name.as_str()).filter(|name| !name.is_empty()).unwrap_or("trial");
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' }).collect();
    let path =
        args.folder.clone().unwrap_or_else(|| format!("{}.hosts", name.trim_start_matches('.')).into());
    let path = std::path::absolute(&path).unwrap_or(path);
    Ok(PrivateDir::make(&path)?)
}

/// The order for the hosts, and the trial in the folder.
fn order(trial: &Trial, folder: &PrivateDir) -> Result<Order, ExpectedError> {
    const NAME: &str = "trial.toml";
    let text = trial.to_toml();
    let known = folder.read(NAME.as_ref(), 16 << 20)?;
    match known {
        Some(known) if known != text.as_bytes() => Err(ExpectedError::usage(
            format!("{} holds the hosts of another trial", folder.path().display()),
            "name another folder with --folder, or run the same trial to follow them again",
        )),
        Some(_) => Ok(()),
        None => cluster::keep(folder, NAME, text.as_bytes()),
    }?;
    Ok(Order { fstrial: env!("CARGO_PKG_VERSION").into(), trial: text, host: None, holds: false })
}

type Chosen = (Box<dyn Scheduler>, Vec<String>, usize);

/// Who starts the jobs, the hosts in the order in which they are tried, and how many are wanted.
fn scheduler(
    on: &Where,
    hosts: &Hosts,
    trial: &Trial,
    folder: &PrivateDir,
    home: &Home,
) -> Result<Chosen, ExpectedError> {
    match on {
        Where::Slurm(words) => {
            let program = cluster::program(folder)?;
            let mut job = vec![program, "agent".into(), "--trial".into()];
            // A home that was named for this command is one for each host: nodes may share it.
            if let Some(home) = home.of_hosts()? {
                job.push(format!("--home={}", home.join("{host}").display()));
            }
            let limit = Nanos(trial.trial.budget.0.saturating_add(AROUND.0));
            let slurm = Slurm::new(words.clone(), job, limit)?;
            let (names, count) = match hosts {
                Hosts::Named(names) => (names.clone(), names.len()),
                Hosts::Any(count) => (slurm.nodes()?, *count),
            };
            Ok((Box::new(slurm), names, count))
        }
        Where::Command(words) => {
            let names = match hosts {
                Hosts::Named(names) => names.clone(),
                Hosts::Any(_) => Vec::new(),
            };
            let count = names.len();
            Ok((Box::new(Commands::new(words.clone())), names, count))
        }
    }
}

/// What the hosts say together, and how the command ends.
fn answer(
    campaign: &Campaign<'_>,
    folder: &PrivateDir,
    json: bool,
    is_interrupted: bool,
) -> Result<u8, ExpectedError> {
    let mut pool = Pool::default();
    let mut stores = 0;
    for row in &campaign.rows {
        let path = folder.path().join(format!("{}.db", row.host));
        if !path.exists() {
            continue;
        }
        stores += 1;
        pool.add(&Store::open_copy(&path)?, &format!("{} #", row.host), None)?;
    }
    let document = pool.document(stores, None);
    let failed: Vec<&HostRow> =
        campaign.rows.iter().filter(|row| matches!(row.progress, Progress::Failed(_))).collect();
    if json {
        json_lines::print(&document);
    } else if !document.questions.is_empty() {
        let unicode = is_unicode(|name| std::env::var(name).ok());
        let columns = stdout::columns().unwrap_or(USUAL_COLUMNS);
        super::print_folded(&meta::render(&document, Terminal { unicode, columns }));
        cluster::keep(folder, "hosts.html", page::meta::page(&document).as_bytes())?;
        let shown = folder.path().display();
        super::say(&format!("\nas a page: {shown}/hosts.html; again: fstrial meta {shown}\n"));
    }
    if is_interrupted {
        return Ok(exit_code::INTERRUPTED);
    }
    if !failed.is_empty() {
        let names: Vec<&str> = failed.iter().map(|row| row.host.as_str()).collect();
        let why = match &failed[0].progress {
            Progress::Failed(why) => why.as_str(),
            _ => "",
        };
        return Err(ExpectedError::Place {
            name: listed(&names),
            what: format!("the trial did not end: {why}"),
            hint: Some("the same command again continues with what these hosts have".into()),
            code: exit_code::SETUP_FAILED,
        });
    }
    let is_open = |outcome: Outcome| outcome == Outcome::Undecided;
    let undecided = document.questions.iter().any(|question| is_open(question.verdict));
    Ok(if undecided { exit_code::UNDECIDED } else { exit_code::VERDICT })
}
