//! `fstrial claims table`: results for the shipped claims, from a store or a shared file, in chapters; and of several
//! machines side by side. From the published store it is the page in the documentation.

use super::{source, trimmed};
use crate::cli::{Home, in_file, out_file, results};
use clap::{Args, ValueEnum};
use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};
use fstrial_model::{
    arm::Arm, claim::Claim, device::Device, trial::Trial, units::Percent, workload::Durability,
};
use fstrial_report::{
    catalogue::{self, Catalogue, Chapter, ClaimRow, MachineRow, MeasuredClaim},
    claim as report,
    document::Document,
    evidence, first_lap, page, plain, receipt, stdout,
    trend::Terminal,
};
use fstrial_run::{
    answers::{self, Answers, Host},
    claim::ClaimVerdict,
    contrast::Assay,
    environment::Environment,
    error::ExpectedError,
    exit_code, numbers,
};
use fstrial_store::{Store, StoredTrial, TrialStatus};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Print the results of all built-in claims in a store, in chapters.
///
/// The verdict of each claim is that of its last trial, recomputed from its runs. The store can be this machine's, a
/// colleague's, or the one published with the documentation; a file of `claims check --share` works as well. Several are
/// printed side by side, with the verdict of their mean.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fstrial claims table
  fstrial claims table claims/found.db --format html --out claims.html
  fstrial claims table claims/found.db mine.json theirs.json")]
pub(super) struct TableArgs {
    /// Stores, or files of `claims check --share` [default: the store of this machine].
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Output format.
    #[arg(long, value_enum, default_value_t = TableFormat::Text)]
    format: TableFormat,

    /// Write to this file, - for standard output.
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,

    #[arg(long, requires = "out", help = out_file::FORCE)]
    force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TableFormat {
    /// For a terminal.
    Text,
    /// For documentation.
    Markdown,
    /// A self-contained page.
    Html,
    /// A row for each part of each claim.
    Csv,
    /// For scripts.
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For a terminal.
    Text,
    /// For a page or a ticket.
    Markdown,
}

/// Columns of a table outside a terminal.
const WIDTH: u16 = 140;

/// Columns around the text of a cell.
const PADDING: usize = 2;

pub(super) fn exec(args: &TableArgs, home: &Home) -> Result<u8, ExpectedError> {
    let text = match args.files.as_slice() {
        [] => args.rendered(&of_store(&Store::open_read_only(results::existing(home)?)?, None)?),
        [one] => args.rendered(&read(one)?),
        several => args.side_by_side(several)?,
    };
    match &args.out {
        Some(path) if !out_file::is_standard_output(path) => {
            // A file is not a terminal: no colours in it.
            let text = anstream::adapter::strip_str(&text).to_string();
            out_file::write(path, text.as_bytes(), args.force)?;
            crate::cli::print(&format!("{}\n", path.display()));
        }
        _ => crate::cli::print(&text),
    }
    Ok(exit_code::VERDICT)
}

impl TableArgs {
    fn rendered(&self, catalogue: &Catalogue) -> String {
        match self.format {
            TableFormat::Text => catalogue::for_terminal(catalogue, Terminal::of_this_process()),
            TableFormat::Markdown => catalogue::markdown(catalogue),
            TableFormat::Html => page::claims::page(catalogue, BTreeMap::new()),
            TableFormat::Csv => catalogue::csv(catalogue),
            TableFormat::Json => catalogue.json(),
        }
    }

    fn side_by_side(&self, files: &[PathBuf]) -> Result<String, ExpectedError> {
        let format = match self.format {
            TableFormat::Text => Format::Text,
            TableFormat::Markdown => Format::Markdown,
            TableFormat::Html | TableFormat::Csv | TableFormat::Json => {
                return Err(ExpectedError::usage(
                    "several machines are compared as text or Markdown",
                    "leave --format out, or name one file",
                ));
            }
        };
        let name = |path: &PathBuf| {
            path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let read = |path: &PathBuf| Ok((name(path), read(path)?));
        let catalogues = files.iter().map(read).collect::<Result<Vec<_>, ExpectedError>>()?;
        let machines = catalogue::machines(&catalogues);
        let table = rendered(format, &machines.header, &machines.rows);
        let notes: String = machines.notes.iter().map(|note| format!("- {note}\n")).collect();
        Ok(format!("{table}\n{notes}"))
    }
}

/// Reads a store, or a file of shared results.
fn read(path: &Path) -> Result<Catalogue, ExpectedError> {
    if path.extension().is_none_or(|extension| extension != "json") {
        return of_store(&Store::open_copy(path)?, None);
    }
    let text = in_file::document(path)?;
    let problem = |what: String| {
        ExpectedError::usage(
            format!("{} is not a file of shared results: {what}", path.display()),
            "name a store, or a file of `fstrial claims check --share`",
        )
    };
    let mut foreign: Value = serde_json::from_str(&text).map_err(|error| problem(error.to_string()))?;
    tame(&mut foreign);
    let mut read: Catalogue = serde_json::from_value(foreign).map_err(|error| problem(error.to_string()))?;
    // Results of other expectations under the same name are none of these claims.
    let shipped = source::all().iter().map(source::ClaimFile::read).collect::<Result<Vec<_>, _>>()?;
    let known = |row: &ClaimRow| {
        let is_it = |claim: &Claim| claim.id == row.report.id && claim.fixed == row.report.fixed;
        shipped.iter().any(|trial| is_it(source::claim(trial)))
    };
    read.claims.retain(known);
    match read.claims_schema_version {
        catalogue::SCHEMA_VERSION => Ok(read),
        other => Err(problem(format!(
            "its format has version {other}, and this fstrial reads {}",
            catalogue::SCHEMA_VERSION
        ))),
    }
}

/// Makes texts of others lines, without signs that a terminal, Markdown or HTML acts on.
fn tame(value: &mut Value) {
    match value {
        Value::String(text) => *text = plain(text).replace('<', "‹"),
        Value::Array(values) => values.iter_mut().for_each(tame),
        Value::Object(fields) => fields.values_mut().for_each(tame),
        _ => {}
    }
}

/// The catalogue with the results of a store; of one host only, if one is given.
pub(super) fn of_store(store: &Store, only: Option<&Host>) -> Result<Catalogue, ExpectedError> {
    let mut trials = claim_trials(store)?;
    trials.retain(|(stored, _)| only.is_none_or(|host| answers::host_of(stored).as_ref() == Some(host)));
    let mut rows = Vec::new();
    for id in Chapter::all().iter().flat_map(|chapter| &chapter.claims) {
        let shipped = source::find(id)?.read()?;
        let claim = source::claim(&shipped);
        let of_claim = || trials.iter().rev().filter(|(stored, trial)| is_of((stored, trial), &shipped));
        // One that has not ended answers only if no other does.
        let last = of_claim().find(|(stored, _)| has_ended(stored)).or_else(|| of_claim().next());
        rows.push(match last {
            Some((stored, trial)) => measured(store, (stored, trial), &shipped)?,
            None => not_there(claim),
        });
    }
    Ok(Catalogue::new(rows))
}

/// A claim with the result of its trial.
pub(super) fn measured(
    store: &Store,
    (stored, trial): (&StoredTrial, &Trial),
    shipped: &Trial,
) -> Result<ClaimRow, ExpectedError> {
    let claim = source::claim(shipped);
    let document = results::judge_again(store, stored)?;
    // Arms in a guest are built under its kernel.
    let environment = document.machines().next().unwrap_or(&document.environment).clone();
    let measured = MeasuredClaim {
        trial: stored.summary.id.0,
        has_ended: has_ended(stored),
        spent_seconds: super::history::spent(store, stored.summary.id)?.as_secs_f64(),
        day: stored.summary.started_at.get(..10).unwrap_or_default().to_owned(),
        machine: MachineRow::of(&environment),
        device: on(&environment, trial),
        is_own_device: is_like(&trial.device, &shipped.device),
        planted: controls(&document),
        causes: evidence::causes(&document.explanations),
        receipts: receipts(&document, trial),
        not_for: catalogue::not_for(trial.device.kind, environment.cpus, claim.caveat.as_deref()),
        answers: answers::of_trial(store, stored)?.ok().map(Answers::without_names),
    };
    let none = || ExpectedError::Fault("the trial of a claim has no claim".into());
    let report = report::reworded(first_lap::claim_of(document).ok_or_else(none)?, claim);
    Ok(ClaimRow { report, open: None, measured: Some(measured) })
}

/// True for two devices of one kind, and of models with one name.
fn is_like(one: &Device, other: &Device) -> bool {
    let model = |device: &Device| device.modelled().map(|model| model.name);
    one.kind == other.kind && model(one) == model(other)
}

/// The receipts of a trial, or why it has none.
fn receipts(document: &Document, trial: &Trial) -> Vec<String> {
    if let Some(report) = &document.receipt {
        return receipt::lines(&report.arms, false);
    }
    let workloads = trial.resolve_workloads(document.environment.cpus).unwrap_or_default();
    let durabilities = || workloads.iter().flat_map(|workload| workload.durability()).map(|(_, when)| when);
    let is_never = |when| matches!(when, Durability::ReadsOnly | Durability::None | Durability::AtEnd);
    let is_program = workloads.iter().any(|workload| workload.program().is_some());
    vec![match () {
        () if is_program => "none: the promises of its program were not tested".into(),
        () if durabilities().any(|when| !is_never(when)) => {
            "none: its syncs were not tested by power cuts".into()
        }
        () if durabilities().any(|when| when == Durability::AtEnd) => {
            "nothing is promised but one sync at the end of a run".into()
        }
        () => "nothing is promised: the load never syncs".into(),
    }]
}

/// The trials of claims in a store, the last one last. Those of an earlier version that no longer parse are skipped.
fn claim_trials(store: &Store) -> Result<Vec<(StoredTrial, Trial)>, ExpectedError> {
    let mut trials = Vec::new();
    for summary in store.trials()? {
        let stored = store.trial(summary.id)?;
        let trial = Trial::parse("stored trial", &stored.toml).ok().filter(|trial| trial.claim.is_some());
        trials.extend(trial.map(|trial| (stored, trial)));
    }
    Ok(trials)
}

fn has_ended(stored: &StoredTrial) -> bool {
    matches!(stored.summary.status, TrialStatus::Decided | TrialStatus::BudgetEnded)
}

/// True if a trial is of a claim in its current form: its deciding parts are unchanged, and its arms are the claim's.
fn is_of((stored, trial): (&StoredTrial, &Trial), shipped: &Trial) -> bool {
    let (then, claim) = (source::claim(trial), source::claim(shipped));
    if (&then.id, then.fixed) != (&claim.id, claim.fixed) {
        return false;
    }
    let environment =
        stored.sessions.last().map(|last| serde_json::from_str::<Environment>(&last.environment));
    let Some(Ok(environment)) = environment else { return false };
    let expected = claim.clone().settled(environment.cpus).without_words().expectations;
    let is_arm = |arm: &Arm| {
        shipped.arms.iter().any(|own| (&own.name, &own.filesystem) == (&arm.name, &arm.filesystem))
    };
    then.clone().without_words().expectations.iter().all(|part| expected.contains(part))
        && trial.arms.iter().filter(|arm| arm.control_of.is_none()).all(is_arm)
}

/// A claim without a trial in a store.
fn not_there(claim: &Claim) -> ClaimRow {
    let needs: Vec<String> = claim.needs.iter().map(ToString::to_string).collect();
    let needs = if needs.is_empty() { String::new() } else { format!(": requires {}", needs.join(", ")) };
    without_result(claim, format!("not in this store{needs}"))
}

/// A claim without a result, with the reason.
pub(super) fn without_result(claim: &Claim, reason: String) -> ClaimRow {
    let report = report::without_trial(claim, ClaimVerdict::Undecided, Vec::new());
    ClaimRow { report, open: Some(reason), measured: None }
}

/// Results of the controls next to a claim: `10% seen: 0.924×`, `10% to 30% seen in 3 of 4`.
fn controls(document: &Document) -> Option<String> {
    let all = || document.workloads.iter().flat_map(|workload| &workload.controls);
    let reported = all().filter_map(|state| Some((state, state.control?)));
    let reported: Vec<_> =
        reported.filter(|(_, control)| !matches!(control.found, Assay::Unasked | Assay::Unknown)).collect();
    let seen = || reported.iter().filter(|(_, control)| control.found == Assay::Seen);
    let doses = reported.iter().map(|(_, control)| control.planted);
    let ends = doses.clone().reduce(|a, b| if b < a { b } else { a });
    let (least, most) = ends.zip(doses.reduce(|a, b| if b > a { b } else { a }))?;
    let percent = |percent: Percent| format!("{} %", numbers::plain(percent.0.round()));
    let dose = if least < most { format!("{} to {}", percent(least), percent(most)) } else { percent(most) };
    Some(match (seen().count(), reported.len()) {
        (0, _) => format!("{dose} not seen"),
        (some, all) if some < all => format!("{dose} seen in {some} of {all} places"),
        _ => {
            let ratios = seen().filter_map(|(state, _)| state.ratio).map(numbers::ratio);
            format!("{dose} seen: {}", ratios.collect::<Vec<_>>().join(", "))
        }
    })
}

/// The device; of a ramdisk that keeps a page of one repeated word as that word, that it stores no data.
fn on(environment: &Environment, trial: &Trial) -> String {
    let workloads = trial.resolve_workloads(environment.cpus).unwrap_or_default();
    let mut groups = workloads.iter().flat_map(|workload| workload.phases()).flat_map(|phase| &phase.groups);
    match environment.device.contains("/dev/zram") {
        true if groups.any(|group| group.data.is_some()) => "zram".into(),
        true => "zram, no data stored".into(),
        false => results::about::kind_or_model(&trial.device),
    }
}

/// Columns of the terminal, or of a page.
fn columns() -> u16 {
    stdout::columns().and_then(|columns| u16::try_from(columns).ok()).unwrap_or(WIDTH).max(60)
}

/// A table for a terminal, with texts broken to fit it, or for Markdown.
pub(super) fn rendered(format: Format, header: &[impl ToString], rows: &[Vec<String>]) -> String {
    let header: Vec<String> = header.iter().map(ToString::to_string).collect();
    if format == Format::Markdown {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rows: String = rows.iter().map(|row| line(row)).collect();
        return format!("{}|{}\n{rows}", line(&header), "---|".repeat(header.len()));
    }
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(columns()).set_header(header);
    for row in rows {
        table.add_row(row);
    }
    // Names are typed again: they stay whole.
    let longest = rows.iter().map(|row| row[0].len() + PADDING).max().and_then(|width| width.try_into().ok());
    if let (Some(names), Some(width)) = (table.column_mut(0), longest) {
        names.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width)));
    }
    // Figures of many levels.
    if let Some(measured) = table.column_mut(2) {
        measured.set_constraint(ColumnConstraint::LowerBoundary(Width::Percentage(25)));
    }
    format!("{}\n", trimmed(&table))
}
