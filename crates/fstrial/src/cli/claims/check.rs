//! `fstrial claims check`: the trials of claims one after the other, each answer as it comes, and a table at the end.

use super::{
    history::{History, Last, NextCheck},
    source::{self, ClaimFile, Ready},
    table::{Format, of_store, rendered},
};
use crate::cli::{
    Home,
    compare::device_of,
    conduct::{self, ConductArgs, TrialEnd},
    fit,
    on::{self, OnArgs},
    out_file, results,
};
use clap::Args;
use fstrial_model::{
    claim::{Claim, Machine},
    device::Device,
    job::FailureKind,
    trial::Trial,
    units::{Bytes, Nanos},
};
use fstrial_report::{
    catalogue::counts,
    claim::{self as report, ClaimReport},
    first_lap, json_lines,
};
use fstrial_run::{
    answers::Host,
    claim::ClaimVerdict,
    cluster::lines::Claims,
    environment::{self, Environment, machine},
    error::ExpectedError,
    exit_code,
    interrupt::Interrupt,
    numbers,
    place::reach::Reach,
};
use fstrial_stack::{StackError, device::Permission};
use fstrial_store::Store;
use serde::Serialize;
use std::{
    collections::BTreeSet,
    iter,
    path::{Path, PathBuf},
};

/// Budget of a claim in a quick check that names none: rounds in which rare stalls come up, and those of a control.
const QUICK: Nanos = Nanos::secs(180);

/// Check claims on this machine.
///
/// Decided claims are not measured again, and interrupted ones are resumed: repeat the same command after an
/// interruption. Undecided claims are resumed if --budget gives them more time.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fstrial claims check closson-2012 --quick
  fstrial claims check --all --budget 5m --format markdown
  fstrial claims check my-claim.toml --device model:gp3-3000
  fstrial claims check --all --on slurm --hosts 5")]
pub(crate) struct CheckArgs {
    /// Claim names, prefixes of names (closson-2012), tags, or files (.toml).
    #[arg(value_name = "CLAIM")]
    claims: Vec<String>,

    /// Check all built-in claims.
    #[arg(long, conflicts_with = "claims")]
    all: bool,

    /// First answers from short runs, about three minutes per claim.
    #[arg(long)]
    quick: bool,

    /// Wall time limit per claim [default: as in the claim].
    #[arg(short, long, value_name = "TIME")]
    budget: Option<Nanos>,

    /// Device: image[:FOLDER], ramdisk, model:NAME, or disk [default: as in the claim].
    #[arg(short, long, value_name = "KIND")]
    device: Option<String>,

    /// Device size.
    #[arg(long, value_name = "SIZE", requires = "device")]
    size: Option<Bytes>,

    /// Full path of the whole device that every run may erase (with --device disk).
    #[arg(long, value_name = "DEVICE")]
    erase: Option<PathBuf>,

    /// Type of a signature that may be erased (ext4, gpt …).
    #[arg(long, value_name = "TYPE", hide_short_help = true)]
    erase_signature: Vec<String>,

    /// Command that runs `fstrial agent` on the host of a place. Cannot be set in a file.
    #[arg(long = "place", value_name = "NAME=COMMAND", hide_short_help = true)]
    places: Vec<Reach>,

    /// Repeat decided claims.
    #[arg(long)]
    again: bool,

    /// Print the steps of each claim without executing them.
    #[arg(long)]
    dry_run: bool,

    /// Format of the final table.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,

    /// Write a file of the results on this machine to share, for `fstrial claims table`. It has verdicts, intervals, the kind of
    /// machine and a pseudonym for it; no names of hosts, users, files or devices.
    #[arg(long, value_name = "FILE")]
    share: Option<PathBuf>,

    /// Replace an existing regular file.
    #[arg(long, requires = "share", hide_short_help = true)]
    force: bool,

    /// Print JSON, one claim with its result per line.
    #[arg(long, conflicts_with = "format")]
    json: bool,

    /// Print no progress.
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    on: OnArgs,
}

#[derive(Debug, Serialize)]
struct CheckResult {
    #[serde(flatten)]
    report: ClaimReport,
    /// The trial it rests on, if there was one.
    trial: Option<i64>,
    /// When that began, if it was not now.
    measured_on: Option<String>,
}

/// A claim that is about to be checked.
struct PendingCheck {
    trial: Trial,
    ready: Ready,
    /// The same as a quick check; one that has begun is resumed with more time.
    quick: Option<Trial>,
}

pub(super) fn exec(args: &CheckArgs, home: &Home) -> Result<u8, ExpectedError> {
    if args.claims.is_empty() && !args.all {
        return Err(ExpectedError::usage(
            "no claim is named",
            "name one, the beginning of several, a tag, a file, or --all; `fstrial claims` lists them",
        ));
    }
    let chosen = if args.all { source::all() } else { source::choose(&args.claims)? };
    let is_alone = chosen.len() == 1;
    let machine = machine(args.quick);
    let device = args.device.as_ref().map(|text| device_of(text, args.erase.clone())).transpose()?;
    let device = device.map(|device| Device { size: args.size, ..device });
    if args.on.is_given() {
        return args.on_hosts(&chosen, device, home);
    }
    let folder = home.folder()?;
    let plan = |claimed| args.plan(claimed, &machine, (device.as_ref(), &folder), is_alone);
    let planned: Vec<PendingCheck> = chosen.iter().map(plan).collect::<Result<_, _>>()?;
    if !planned.iter().any(|plan| plan.trial.device.kind.is_erased()) {
        let flags =
            [("--erase", args.erase.is_some()), ("--erase-signature", !args.erase_signature.is_empty())];
        let kinds = planned.iter().map(|plan| plan.trial.device.kind);
        kinds.take(1).try_for_each(|kind| conduct::only_for_disks(kind, &flags))?;
    }
    if args.dry_run {
        for PendingCheck { trial, ready, .. } in &planned {
            let text = match ready {
                Ready::Yes => conduct::dry_run(trial, &args.places, None, home)?.steps,
                Ready::Missing(missing) => format!("not testable here: {}\n", missing.join("; ")),
            };
            crate::cli::print(&format!("# {}\n{text}\n", source::claim(trial).id));
        }
        return Ok(exit_code::VERDICT);
    }
    args.share.as_ref().map_or(Ok(()), |file| out_file::check(file, args.force))?;
    let history = History::of(home)?;
    let interrupt = conduct::interrupt()?;
    let mut outcomes: Vec<CheckResult> = Vec::new();
    let mut code = Ok(exit_code::VERDICT);
    for (index, plan) in planned.iter().enumerate() {
        args.announce(&planned, index);
        let outcome = match args.check(plan, &history, home, &interrupt) {
            Ok(Some(outcome)) => outcome,
            Ok(None) => {
                crate::cli::say("interrupted; run the same command to resume\n");
                code = Ok(exit_code::INTERRUPTED);
                break;
            }
            // Earlier results are printed before the error.
            Err(error) => {
                code = Err(error);
                break;
            }
        };
        if args.json {
            json_lines::print(&outcome);
        } else {
            crate::cli::print_folded(&format!("{}\n", report::render(&outcome.report)));
            if outcome.report.verdict == ClaimVerdict::Undecided {
                let more = numbers::budget(2.0 * plan.trial.trial.budget.as_secs_f64());
                crate::cli::say(&format!(
                    "  to resume it: fstrial claims check {} --budget {more}\n",
                    outcome.report.id
                ));
            }
        }
        outcomes.push(outcome);
    }
    if !args.json && outcomes.len() > 1 {
        crate::cli::print_folded(&args.table(&outcomes));
    }
    let is_open = outcomes.iter().any(|outcome| outcome.report.verdict == ClaimVerdict::Undecided);
    let is_stored = outcomes.iter().any(|outcome| outcome.trial.is_some());
    let code = code?;
    args.share(home)?;
    let code = if code == exit_code::VERDICT && is_open { exit_code::UNDECIDED } else { code };
    crate::cli::written(code, is_stored.then(|| "fstrial claims show NAME".into()))
}

impl CheckArgs {
    /// Checks the claims on many hosts.
    fn on_hosts(
        &self,
        chosen: &[ClaimFile],
        device: Option<Device>,
        home: &Home,
    ) -> Result<u8, ExpectedError> {
        let given = [
            ("--erase", self.erase.is_some()),
            ("--place", !self.places.is_empty()),
            ("--again", self.again),
            ("--dry-run", self.dry_run),
            ("--erase-signature", !self.erase_signature.is_empty()),
            ("--format", self.format != Format::Text),
            ("--share", self.share.is_some()),
        ];
        if let Some((flag, _)) = given.iter().find(|(_, is_given)| *is_given) {
            return Err(ExpectedError::usage(
                format!("{flag} is for one host, and --on for many"),
                "leave it out",
            ));
        }
        let machine = machine(self.quick);
        // Requirements missing here may exist on others; their rounds take about as long as those of an available
        // claim.
        let time = |claimed: &ClaimFile| -> Result<Nanos, ExpectedError> {
            let (mut trial, _) = claimed.prepare(&machine, device.as_ref(), &home.folder()?)?;
            trial.leave_out_controls();
            match on::fix(&mut trial, self.budget) {
                Ok(()) => Ok(trial.trial.budget),
                Err(_) => Ok(self.budget.unwrap_or(trial.trial.budget)),
            }
        };
        let times: Vec<Nanos> = chosen.iter().map(time).collect::<Result<_, _>>()?;
        let time = Nanos(times.iter().fold(0, |sum: u64, time| sum.saturating_add(time.0)));
        let mut names = BTreeSet::new();
        for claimed in chosen {
            let id = source::claim(&claimed.read()?).id.clone();
            if !names.insert(id.clone()) {
                return Err(ExpectedError::usage(
                    format!("two of these claims are called {id}, and hosts keep them by their names"),
                    "give one another id",
                ));
            }
        }
        let files = chosen.iter().map(ClaimFile::to_host).collect();
        let requested = on::CampaignRequest::of_claims(
            Claims { files, device, quick: self.quick, budget: self.budget },
            time,
        );
        on::exec(&requested, &self.on, &ConductArgs::for_hosts(self.json, self.quiet), home)
    }

    /// The trial of a claim with the flags laid over it. Among others, one that the flags make impossible reports that
    /// in its turn.
    fn plan(
        &self,
        claimed: &ClaimFile,
        machine: &Machine,
        (device, home): (Option<&Device>, &Path),
        is_alone: bool,
    ) -> Result<PendingCheck, ExpectedError> {
        let (mut trial, mut ready) = claimed.prepare(machine, device, home)?;
        let quick = match self.budget.filter(|_| !self.quick) {
            Some(budget) => {
                let (mut trial, _) = claimed.prepare(&Machine { quick: true, ..*machine }, device, home)?;
                trial.trial.budget = budget;
                Some(trial)
            }
            None => None,
        };
        trial.trial.budget = self.budget.unwrap_or(trial.trial.budget);
        match trial.problem().filter(|_| ready == Ready::Yes) {
            Some(problem) if is_alone => return Err(problem.into()),
            Some(problem) => ready = Ready::Missing(vec![problem.to_string()]),
            None => {}
        }
        // Default time: at least the rounds for a verdict. A quick check has no more, and no shorter runs.
        if self.budget.is_none() {
            let quick = source::claim(&trial).quick.unwrap_or(QUICK);
            let budget = if self.quick { quick } else { trial.trial.budget };
            trial.trial.budget = budget.max(fit::least(&trial).unwrap_or_default());
        }
        Ok(PendingCheck { trial, ready, quick })
    }

    /// Announces the next claim, and an upper bound of the remaining time.
    fn announce(&self, planned: &[PendingCheck], index: usize) {
        if self.quiet || planned.len() < 2 {
            return;
        }
        let left = planned[index..].iter().filter(|plan| plan.ready == Ready::Yes);
        let left: f64 = left.map(|plan| plan.trial.trial.budget.as_secs_f64()).sum();
        let id = &source::claim(&planned[index].trial).id;
        let (number, all, left) = (index + 1, planned.len(), numbers::wait(left));
        crate::cli::say(&format!("claim {number} of {all}: {id}; the rest takes at most {left}\n"));
    }

    /// Checks a claim, or looks up a known result. None if it was interrupted.
    fn check(
        &self,
        plan: &PendingCheck,
        history: &History,
        home: &Home,
        interrupt: &Interrupt,
    ) -> Result<Option<CheckResult>, ExpectedError> {
        let claim = source::claim(&plan.trial);
        if let Ready::Missing(missing) = &plan.ready {
            let notes = missing.iter().chain(&claim.caveat).cloned().collect();
            return Ok(Some(CheckResult::without_trial(claim, ClaimVerdict::NotTestable, notes)));
        }
        let (trial, step) = self.step(plan, history)?;
        let resume = match step {
            NextCheck::Known(last) => return Ok(Some(CheckResult::known(*last))),
            NextCheck::GoOn(trial) => Some(trial.0),
            NextCheck::Begin => None,
        };
        let permission =
            Permission { erase: self.erase.clone(), erase_signatures: self.erase_signature.clone() };
        let conducting = ConductArgs::of(permission, &self.places, self.quiet || self.json);
        match conduct::measure(trial, &conducting, home, resume, interrupt) {
            Ok(TrialEnd { left: Some(error), .. }) => Err(error),
            Ok(TrialEnd { code: exit_code::INTERRUPTED, .. }) => Ok(None),
            Ok(TrialEnd { document, .. }) => Ok(Some(CheckResult {
                trial: document.trial_id,
                measured_on: None,
                report: first_lap::claim_of(document)
                    .ok_or_else(|| ExpectedError::Fault("an answer without its claim".into()))?,
            })),
            Err(error) => match lacking(&error) {
                Some(why) => {
                    Ok(Some(CheckResult::without_trial(claim, ClaimVerdict::NotTestable, vec![why])))
                }
                None => Err(error),
            },
        }
    }

    /// The next step for a claim, and its trial: its own, or the quick check that was begun.
    fn step<'p>(
        &self,
        plan: &'p PendingCheck,
        history: &History,
    ) -> Result<(&'p Trial, NextCheck), ExpectedError> {
        if !self.again {
            for trial in iter::once(&plan.trial).chain(&plan.quick) {
                let step = history.step(trial.settled(environment::cpus())?.trial(), trial.trial.budget)?;
                if !matches!(step, NextCheck::Begin) {
                    return Ok((trial, step));
                }
            }
        }
        Ok((&plan.trial, NextCheck::Begin))
    }

    /// Writes the results of this machine to share, if a file is named.
    fn share(&self, home: &Home) -> Result<(), ExpectedError> {
        let Some(file) = &self.share else { return Ok(()) };
        let here = Host::of(&Environment::of_this_machine());
        let catalogue = of_store(&Store::open_read_only(results::existing(home)?)?, Some(&here))?;
        out_file::write(file, catalogue.to_share().json().as_bytes(), self.force)?;
        crate::cli::say(&format!(
            "results of this machine: {}; to compare them: fstrial claims table {0} OTHERS\n",
            file.display()
        ));
        Ok(())
    }

    /// All claims at the end: the original figure, the measured one, the verdict, the replacements.
    fn table(&self, outcomes: &[CheckResult]) -> String {
        let header = ["claim", "original", "measured here", "verdict", "in place of removed options"];
        let rows = outcomes.iter().map(|CheckResult { report, .. }| {
            let substituted = report.substituted.join("; ");
            vec![report.id.clone(), report.said.clone(), report.here(), report.answer.clone(), substituted]
        });
        let here = Environment::of_this_machine();
        let result: Vec<ClaimVerdict> = outcomes.iter().map(|outcome| outcome.report.verdict).collect();
        format!(
            "{}\n{}\non Linux {}, {}; the device is named with each answer\n",
            rendered(self.format, &header, &rows.collect::<Vec<_>>()),
            counts(result.len(), &result),
            here.kernel,
            here.processors_in_words()
        )
    }
}

impl CheckResult {
    fn without_trial(claim: &Claim, verdict: ClaimVerdict, notes: Vec<String>) -> Self {
        Self { report: report::without_trial(claim, verdict, notes), trial: None, measured_on: None }
    }

    /// An earlier result, with its time.
    fn known(last: Last) -> Self {
        let mut report = last.report;
        report.notes.push(format!("measured {}; --again measures it again", last.on));
        Self { report, trial: Some(last.trial.0), measured_on: Some(last.on) }
    }
}

/// The reason why this machine cannot check a claim, if others may still be checked.
pub(in crate::cli) fn lacking(error: &ExpectedError) -> Option<String> {
    match error {
        ExpectedError::Run { context, failure } => match failure.kind {
            FailureKind::HostLacks | FailureKind::ArmRefused | FailureKind::LoadRefused => {
                Some(error.to_string())
            }
            FailureKind::CleanUp => None,
            _ => Some(format!("{context}: {failure}")),
        },
        ExpectedError::Stack(StackError::UnknownToKernel { .. } | StackError::MissingProgram { .. }) => {
            Some(error.to_string())
        }
        _ => None,
    }
}
