//! Receipts as text and JSON: the promises that arms keep after power cuts.

use crate::{plain, text::figures};
use comfy_table::{Table, presets};
use fstrial_model::{
    device::ModelChoice,
    receipt::{CutOutcome, CutResult, RunReceipt, Uncovered},
};
use fstrial_run::{
    durability::{ALPHA, CellReceipt, CutPlan, Totals},
    environment::Environment,
    numbers::{counted, nanos},
    plan::{Plan, threads_in_words},
};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// Version of the JSON of a receipt.
pub const SCHEMA_VERSION: u32 = 1;

type Column = (&'static str, fn(&Totals) -> u64);

/// The column that only servers have.
const NOT_STARTED: &str = "not started";
/// Counts in the table, with their titles.
const COLUMNS: [Column; 8] = [
    ("cuts", |totals| totals.cuts),
    ("at stake", |totals| totals.at_stake),
    ("lost", |totals| totals.lost),
    ("unmountable", |totals| totals.unmountable),
    (NOT_STARTED, |totals| totals.closed),
    ("damaged", |totals| totals.damaged),
    ("promises", |totals| totals.promises),
    ("flushes", |totals| totals.flushes),
];

/// The receipts of all arms of a trial.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReceiptReport {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Name of the device model.
    pub device: String,
    /// Release of the kernel.
    #[serde(default)]
    pub kernel: String,
    /// The device has no volatile cache: a complete write survives a power cut.
    pub protected: bool,
    /// Seed of the order, the loads and the cuts.
    pub seed: u64,
    /// Planned runs of each arm.
    pub runs: u32,
    /// Cuts in each run.
    pub cuts: u32,
    /// It was interrupted before all runs were made.
    #[serde(default)]
    pub interrupted: bool,
    /// In the order of the arms.
    pub arms: Vec<ArmReceipt>,
}

/// The receipt of an arm.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ArmReceipt {
    /// Name of the arm.
    pub arm: String,
    /// Name of the workload that made the promises.
    pub workload: String,
    /// Number of its threads.
    pub threads: u16,
    /// The durability of commits that its server declares, with the settings that decide it; none without a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable: Option<String>,
    /// Totals over the runs.
    #[serde(flatten)]
    pub totals: Totals,
    /// The failure that ended its runs; null if there was none.
    pub failure: Option<String>,
    /// The first loss or damage; null if there was none.
    pub first_problem: Option<Problem>,
    /// The image of that cut, if it was kept, and the command that mounts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
    /// Every run with its cuts; not in the document of a trial.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub each: Vec<RunReceipt>,
}

impl ArmReceipt {
    /// The reason why its first loss was not kept.
    pub fn unkept(&self) -> Option<&str> {
        self.each.iter().find_map(|run| run.unkept.as_deref())
    }
}

/// The files that show a cut.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Kept {
    /// The image, as the cut left it.
    pub image: String,
    /// The write log up to the cut, in the format of dm-log-writes.
    pub log: String,
    /// The command that recovers it as the run did, and shows it.
    pub command: String,
}

/// A cut after which something was wrong.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Problem {
    /// Number of the run, from 1.
    pub run: usize,
    /// The cut.
    #[serde(flatten)]
    pub cut: CutResult,
}

impl ReceiptReport {
    /// The report of a plan whose cells have these receipts.
    pub fn of(plan: &Plan, cuts: CutPlan, (cells, interrupted): (&[CellReceipt], bool)) -> Self {
        let device = match &plan.trial.device.model {
            Some(ModelChoice::Named(name)) => name.clone(),
            Some(ModelChoice::Written(model)) => model.name.clone(),
            None => String::new(),
        };
        let arm = |(cell, receipt): (&fstrial_run::cell::Cell, &CellReceipt)| ArmReceipt {
            arm: plan.trial.arms[cell.arm].name.clone(),
            workload: plan.workloads[cell.workload].name.clone(),
            threads: cell.threads,
            durable: plan.workloads[cell.workload].program().and_then(|timed| timed.program.durable()),
            totals: receipt.totals(),
            failure: receipt.failure.as_ref().map(ToString::to_string),
            first_problem: receipt.first_problem().map(|(run, cut)| Problem { run, cut: cut.clone() }),
            kept: None,
            each: receipt.runs.clone(),
        };
        Self {
            schema_version: SCHEMA_VERSION,
            device,
            kernel: Environment::of_this_machine().kernel,
            protected: cuts.protected,
            seed: plan.seed,
            runs: cuts.runs,
            cuts: cuts.cuts,
            interrupted,
            arms: plan.cells.iter().zip(cells).map(arm).collect(),
        }
    }
}

/// The report as a table with one sentence for each arm.
pub fn text(report: &ReceiptReport) -> String {
    let mut out = heading(report);
    out += &table(report);
    out.push('\n');
    for line in lines(&report.arms, true) {
        let _ = writeln!(out, "{line}");
    }
    for kept in report.arms.iter().filter_map(|arm| arm.kept.as_ref()) {
        let _ = writeln!(
            out,
            "\nThe first loss is kept; to see it: {}\nThe writes that led to it, for replay-log: {}",
            plain(&kept.command),
            plain(&kept.log)
        );
    }
    for (arm, why) in report.arms.iter().filter_map(|arm| arm.unkept().map(|why| (arm, why))) {
        let _ = writeln!(out, "\nThe first loss of {} is not kept: {}", plain(&arm.arm), plain(why));
    }
    if report.protected {
        let model = plain(&report.device);
        let _ = writeln!(
            out,
            "\nThe model {model} has no volatile cache: a complete write survives a power cut. All of this depends on that; \
             with a volatile cache an arm that sends no flushes loses data."
        );
    }
    let _ = writeln!(
        out,
        "\nLinux {} · seed {} (--seed repeats the order of the runs and all random choices; cuts move with the timing of the load)",
        plain(&report.kernel),
        report.seed
    );
    out
}

fn heading(report: &ReceiptReport) -> String {
    let mut loads: Vec<String> = Vec::new();
    for arm in &report.arms {
        let durable = arm.durable.as_ref().map(|durable| format!(", {}", plain(durable))).unwrap_or_default();
        let load = format!("{} at {}{durable}", plain(&arm.workload), threads_in_words(arm.threads));
        loads.extend(Some(load).filter(|load| !loads.contains(load)));
    }
    format!(
        "Power cuts under {} on {}: {} of {} for each arm{}\n\n",
        loads.join("; "),
        plain(&report.device),
        counted(report.runs as usize, "run"),
        counted(report.cuts as usize, "cut"),
        if report.interrupted { ", INTERRUPTED" } else { "" }
    )
}

fn table(report: &ReceiptReport) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let has_servers = report.arms.iter().any(|arm| arm.durable.is_some());
    let columns = || COLUMNS.iter().filter(|(name, _)| has_servers || *name != NOT_STARTED);
    table.set_header(["arm", "lossy runs"].into_iter().chain(columns().map(|(name, _)| *name)));
    for arm in &report.arms {
        let totals = &arm.totals;
        let lossy = match (&arm.failure, totals.runs) {
            (Some(_), 0) => "failed".into(),
            (None, 0) => "not run".into(),
            (_, runs) => format!("{} of {runs}", totals.lossy_runs),
        };
        let count =
            |of: fn(&Totals) -> u64| if totals.runs == 0 { "-".into() } else { of(totals).to_string() };
        table.add_row([plain(&arm.arm), lossy].into_iter().chain(columns().map(|(_, of)| count(*of))));
    }
    figures(table)
}

/// Title of the sentences in the answer of a trial.
pub fn title(report: &ReceiptReport) -> String {
    format!("After power cuts of a modelled {}", plain(&report.device))
}

/// A sentence for each arm; with its workload if there are several, and in full with the first problem.
pub fn lines(arms: &[ArmReceipt], is_full: bool) -> Vec<String> {
    let is_one = arms.windows(2).all(|two| two[0].workload == two[1].workload);
    let name = |arm: &ArmReceipt| match is_one {
        true => plain(&arm.arm),
        false => format!("{} under {}", plain(&arm.arm), plain(&arm.workload)),
    };
    let first = |arm: &ArmReceipt| {
        let problem = arm.first_problem.as_ref().filter(|_| is_full);
        problem.map_or_else(String::new, |problem| format!(". {}", first_problem(problem)))
    };
    arms.iter().map(|arm| format!("{}: {}{}", name(arm), sentence(arm), first(arm))).collect()
}

/// The loss of an arm under any workload, for every sentence on its speed; none without one.
pub fn loss(arms: &[ArmReceipt], name: &str) -> Option<String> {
    let lossy = arms.iter().filter(|arm| arm.arm == name && arm.totals.lossy_runs > 0);
    let worst = lossy.max_by_key(|arm| arm.totals.lossy_runs)?;
    let Totals { lossy_runs, runs, torn_only, .. } = worst.totals;
    let only = if torn_only { ", only where writes were torn into sectors" } else { "" };
    let durable = worst.durable.as_ref().map(|durable| format!(" ({})", plain(durable))).unwrap_or_default();
    Some(format!(
        "{} loses acknowledged writes in {lossy_runs} of {runs} runs with power cuts{only}{durable}",
        plain(name)
    ))
}

/// The result of an arm in a sentence.
fn sentence(arm: &ArmReceipt) -> String {
    let mut parts = vec![losses(&arm.totals)];
    let Totals { damaged, missing, cuts, full, closed, .. } = arm.totals;
    if arm.totals.torn_only {
        parts.push(
            "only where writes were torn into sectors of 512 bytes; a drive with physical sectors of 4 KiB tears no write \
             of that size"
                .into(),
        );
    }
    if let Some(oldest) = arm.totals.oldest {
        let age = nanos(oldest.0 as f64);
        parts.push(match arm.totals.loses_all {
            true => format!("after a cut all commits since the load began were gone, {age} of them"),
            false => format!("lost commits had been acknowledged at most {age} before the last one"),
        });
    }
    if closed > 0 {
        parts.push(format!("the server did not start after {closed} of {cuts} cuts"));
    }
    if damaged > 0 {
        parts.push(format!("the check found damage after {damaged} of {cuts} cuts"));
    }
    if missing > 0 {
        parts.push(format!(
            "synced files were missing after {missing} of {cuts} cuts; without a journal a sync of a new file does not \
             promise its name"
        ));
    }
    if full > 0 {
        parts.push(format!("cuts are within the first 256 MiB of {}", counted(full as usize, "recording")));
    }
    if let Some(failure) = &arm.failure {
        parts.push(format!("its runs failed: {}", plain(failure)));
    }
    // A failure is enough where nothing was found out.
    if arm.failure.is_some() && arm.totals.runs == 0 {
        parts.remove(0);
    }
    parts.join("; ")
}

fn losses(totals: &Totals) -> String {
    if totals.runs == 0 {
        return "it was not run".into();
    }
    if totals.promises == 0 && totals.lossy_runs == 0 {
        return "nothing was promised: no sync returned".into();
    }
    let what = if totals.missing > 0 { "promise that could be checked" } else { "acknowledged write" };
    let (low, high) = totals.interval;
    let (low, high) = (percent(low, f64::floor), percent(high, f64::ceil));
    let level = 100.0 * (1.0 - ALPHA);
    match totals.lossy_runs {
        0 => format!(
            "lost no {what} in {} with {}; at most {high} of such runs lose one ({level:.0} % confidence)",
            counted(totals.runs as usize, "run"),
            counted(totals.cuts as usize, "cut")
        ),
        lossy if lossy == totals.runs => format!(
            "loses acknowledged writes in {lossy} of {} runs; at least {low} of such runs lose some ({level:.0} % confidence)",
            totals.runs
        ),
        lossy => format!(
            "loses acknowledged writes in {lossy} of {} runs ({level:.0} % interval of the share: {low} to {high})",
            totals.runs
        ),
    }
}

/// A share in per cent, rounded away from the other end: to a tenth below 10 %.
fn percent(share: f64, round: fn(f64) -> f64) -> String {
    let percent = share * 100.0;
    if percent < 10.0 {
        format!("{:.1} %", round(percent * 10.0) / 10.0)
    } else {
        format!("{:.0} %", round(percent))
    }
}

fn first_problem(problem: &Problem) -> String {
    let cut = &problem.cut;
    let what = match &cut.outcome {
        CutOutcome::Kept => String::new(),
        CutOutcome::Lost { broken: 1, first, .. } => plain(first),
        CutOutcome::Lost { broken, first, .. } => {
            format!("{}, and {}", plain(first), counted(broken - 1, "more broken promise"))
        }
        CutOutcome::Unmountable { why } | CutOutcome::Closed { why } | CutOutcome::Damaged { why } => {
            let advice = why.split("dmesg(1)").next().unwrap_or(why);
            plain(&advice.split_whitespace().collect::<Vec<_>>().join(" "))
        }
    };
    let fate = match cut.uncovered {
        _ if cut.pending == 0 => "",
        Uncovered::Lost => ", lost",
        Uncovered::Half => ", kept at random",
        Uncovered::Torn => ", torn at random",
    };
    let pending = format!("with {}{fate}", counted(cut.pending, "unflushed write"));
    format!("First in run {}, after {}, {pending}: {what}", problem.run, counted(cut.promises, "promise"))
}
