//! `fstrial claims table`: a store's results for the shipped claims, as one table. From the published store it is the
//! table in the documentation.

use super::{source, trimmed};
use crate::cli::{Home, results};
use clap::{Args, ValueEnum};
use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};
use fstrial_model::{
    claim::{CATALOGUE, Claim},
    trial::Trial,
};
use fstrial_report::{
    claim::{self as report, ClaimReport},
    document::Document,
    stdout, wrapped,
};
use fstrial_run::{
    claim::ClaimVerdict, contrast::Assay, environment::Environment, error::ExpectedError, exit_code, numbers,
};
use fstrial_store::{Store, StoredTrial};
use std::{fmt::Write, path::PathBuf};

/// Print the results of all built-in claims in a store.
///
/// Each claim has a row with the verdict of its last trial, recomputed from its runs. The store can be this machine's, a
/// colleague's, or the one published with the documentation.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fstrial claims table
  fstrial claims table colleague.db --format markdown")]
pub(super) struct TableArgs {
    /// Store [default: that of this machine].
    store: Option<PathBuf>,

    /// Table format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
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

const HEADER: [&str; 7] = ["claim", "original", "measured", "rounds", "planted slowdown", "on", "verdict"];

pub(super) fn exec(args: &TableArgs, home: &Home) -> Result<u8, ExpectedError> {
    let store = match &args.store {
        Some(path) => Store::open_copy(path)?,
        None => Store::open_read_only(results::existing(home)?)?,
    };
    super::super::print(&of_store(&store, args.format)?);
    Ok(exit_code::VERDICT)
}

/// The table of a store.
pub(super) fn of_store(store: &Store, format: Format) -> Result<String, ExpectedError> {
    let trials = claim_trials(store)?;
    let mut rows = Vec::new();
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    let mut machines: Vec<String> = Vec::new();
    for claimed in source::all() {
        let shipped = claimed.read()?;
        let claim = source::claim(&shipped);
        let last = trials.iter().rev().find(|(_, trial)| is_of(trial, claim));
        let Some((stored, trial)) = last else {
            missing.push(claim.id.clone());
            // A page has them all; on a terminal they would hide the others.
            rows.extend((format == Format::Markdown).then(|| not_there(claim)));
            continue;
        };
        let document = results::judge_again(store, stored)?;
        let machine = machine(&document.environment);
        if !machines.contains(&machine) {
            machines.push(machine);
        }
        let none = || ExpectedError::Fault("the trial of a claim has no claim".into());
        let reported = report::reworded(document.claim.clone().ok_or_else(none)?, claim);
        found.push(reported.verdict);
        rows.push([
            claim.id.clone(),
            claim.said.clone(),
            reported.here(),
            rounds(&reported),
            controls(&document),
            on(&document.environment, trial),
            reported.answer,
        ]);
    }
    let mut out = if rows.is_empty() { String::new() } else { rendered(format, &HEADER, &rows) + "\n" };
    let count = missing.len();
    let absent = if count == 0 { String::new() } else { format!(", {count} not in this store") };
    let all = counts(found.len() + count, &found);
    let _ = writeln!(out, "{all}{absent}; version {CATALOGUE} of the catalogue");
    if format == Format::Text && !found.is_empty() && count > 0 {
        let names = format!("not in this store: {}", missing.join(", "));
        let _ = writeln!(out, "{}", wrapped(&names, columns().into(), 0, 2));
    }
    if found.is_empty() {
        let _ = writeln!(
            out,
            "none was checked with this store: `fstrial claims check` measures them, and `fstrial claims list` has their state"
        );
    }
    for machine in machines {
        let _ = writeln!(out, "on {machine}");
    }
    Ok(out)
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

/// True if a trial is of a claim in its current form: its deciding parts are unchanged.
fn is_of(trial: &Trial, claim: &Claim) -> bool {
    let then = source::claim(trial);
    then.id == claim.id && then.fixed == claim.fixed
}

fn not_there(claim: &Claim) -> [String; 7] {
    let needs: Vec<String> = claim.needs.iter().map(ToString::to_string).collect();
    let needs = if needs.is_empty() { String::new() } else { format!("requires {}", needs.join(", ")) };
    let cells = [&claim.id, &claim.said, &needs, "–", "–", "–", "not in this store"];
    cells.map(str::to_owned)
}

/// Rounds that the parts of a claim rest on: `29`, `29 to 101`.
fn rounds(reported: &ClaimReport) -> String {
    let of_parts = || reported.parts.iter().map(|part| part.rounds).filter(|rounds| *rounds > 0);
    match (of_parts().min(), of_parts().max()) {
        (Some(least), Some(most)) if least < most => format!("{least} to {most}"),
        (_, most) => most.map_or_else(|| "–".into(), |most| most.to_string()),
    }
}

/// Results of the controls next to a claim: `10% seen: 0.924×`, `10% to 30% seen in 3 of 4`.
fn controls(document: &Document) -> String {
    let all = || document.workloads.iter().flat_map(|workload| &workload.controls);
    let reported = all().filter_map(|state| Some((state, state.control?)));
    let reported: Vec<_> =
        reported.filter(|(_, control)| !matches!(control.found, Assay::Unasked | Assay::Unknown)).collect();
    let seen = || reported.iter().filter(|(_, control)| control.found == Assay::Seen);
    let doses = reported.iter().map(|(_, control)| control.planted);
    let ends = doses.clone().reduce(|a, b| if b < a { b } else { a });
    let Some((least, most)) = ends.zip(doses.reduce(|a, b| if b > a { b } else { a })) else {
        return "–".into();
    };
    let dose = if least < most { format!("{least} to {most}") } else { most.to_string() };
    match (seen().count(), reported.len()) {
        (0, _) => format!("{dose} not seen"),
        (some, all) if some < all => format!("{dose} seen in {some} of {all}"),
        _ => {
            let ratios = seen().filter_map(|(state, _)| state.ratio).map(numbers::ratio);
            format!("{dose} seen: {}", ratios.collect::<Vec<_>>().join(", "))
        }
    }
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

fn machine(environment: &Environment) -> String {
    let virtual_machine = if environment.virtual_machine { ", virtual machine" } else { "" };
    format!(
        "Linux {}, {}{virtual_machine}, {}",
        environment.kernel,
        environment.processors_in_words(),
        environment.memory.human()
    )
}

/// `41 claims: 12 hold, 9 are reversed, …`, of this many claims with these verdicts.
pub(super) fn counts(claims: usize, found: &[ClaimVerdict]) -> String {
    let mut out = format!("{claims} claims");
    let all = [
        ClaimVerdict::Confirmed,
        ClaimVerdict::PartlyConfirmed,
        ClaimVerdict::Reversed,
        ClaimVerdict::NoDifference,
        ClaimVerdict::Smaller,
        ClaimVerdict::Measured,
        ClaimVerdict::Undecided,
        ClaimVerdict::Insensitive,
        ClaimVerdict::NotTestable,
    ];
    let mut mark = ':';
    for verdict in all {
        let count = found.iter().filter(|found| **found == verdict).count();
        if count > 0 {
            let _ = write!(out, "{mark} {count} {}", verdict.words());
            mark = ',';
        }
    }
    out
}

/// Columns of the terminal, or of a page.
fn columns() -> u16 {
    stdout::columns().and_then(|columns| u16::try_from(columns).ok()).unwrap_or(WIDTH).max(60)
}

/// A table for a terminal, with texts broken to fit it, or for Markdown.
pub(super) fn rendered<const N: usize>(format: Format, header: &[&str; N], rows: &[[String; N]]) -> String {
    if format == Format::Markdown {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rows: String = rows.iter().map(|row| line(row)).collect();
        return format!("{}|{}\n{rows}", line(&header.map(str::to_owned)), "---|".repeat(N));
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
