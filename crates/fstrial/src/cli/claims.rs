//! `fstrial claims`: the catalogue of claims, and checking them on this machine.

pub(super) mod check;
mod history;
pub(super) mod source;
mod table;

use super::{Home, out_file};
use anstyle::Style;
use clap::{Args, Subcommand};
use comfy_table::{Table, presets};
use fstrial_model::{
    claim::{CATALOGUE, Claim, OriginalTable},
    trial::Trial,
};
use fstrial_report::{
    catalogue::{Catalogue, Chapter},
    claim as report, json_lines,
    page::claims,
    plain,
};
use fstrial_run::{
    environment::{self, machine},
    error::ExpectedError,
    exit_code, numbers,
    plan::{Plan, threads_in_words},
};
use history::History;
use source::Ready;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
};

const BOLD: Style = Style::new().bold();
const QUIET: Style = Style::new().dimmed();

/// A claim file to begin with.
const TEMPLATE: &str = include_str!("claims/template.toml");

/// Published statements about filesystem speed, as files that can be checked on this machine.
#[derive(Debug, Args)]
pub(crate) struct ClaimsArgs {
    #[command(subcommand)]
    action: Option<Action>,

    #[command(flatten)]
    home: Home,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the claims, with requirements this host lacks and the last result.
    #[command(after_long_help = "\
Examples:
  fstrial claims list
  fstrial claims list closson-2012")]
    List {
        /// Names, prefixes of names, or tags [default: all].
        claims: Vec<String>,
        /// Print JSON, one claim per line.
        #[arg(long)]
        json: bool,
    },
    /// Show a claim: the original statement and figures, the trial to run here, the last result.
    #[command(after_long_help = "\
Examples:
  fstrial claims show closson-2012
  fstrial claims show closson-2012 --toml")]
    Show {
        /// Claim name or file.
        #[arg(value_name = "CLAIM")]
        claim: String,
        /// Print the claim file.
        #[arg(long)]
        toml: bool,
        /// Print JSON.
        #[arg(long, conflicts_with = "toml")]
        json: bool,
    },
    Check(Box<check::CheckArgs>),
    Table(table::TableArgs),
    /// Write a commented template for a new claim.
    #[command(after_long_help = "\
Examples:
  fstrial claims new
  fstrial claims new my-claim.toml && fstrial claims check my-claim.toml")]
    New {
        /// Output file, - for standard output.
        #[arg(default_value = "-")]
        file: PathBuf,
        #[arg(long, help = out_file::FORCE)]
        force: bool,
    },
}

pub(crate) fn exec(args: &ClaimsArgs) -> Result<u8, ExpectedError> {
    match &args.action {
        None => list(&[], false, &args.home),
        Some(Action::List { claims, json }) => list(claims, *json, &args.home),
        Some(Action::Show { claim, toml, json }) => show(claim, *toml, *json, &args.home),
        Some(Action::Check(check)) => check::exec(check, &args.home),
        Some(Action::Table(table)) => table::exec(table, &args.home),
        Some(Action::New { file, force }) => new(file, *force),
    }
}

fn list(names: &[String], json: bool, home: &Home) -> Result<u8, ExpectedError> {
    let chosen = if names.is_empty() { source::all() } else { source::choose(names)? };
    let history = History::of(home)?;
    let machine = machine(false);
    let mut reported = String::new();
    let mut out = String::new();
    for claimed in chosen {
        let (trial, ready) = claimed.prepare(&machine, None, &home.folder()?)?;
        let claim = source::claim(&trial);
        let missing = match ready {
            Ready::Yes => Vec::new(),
            Ready::Missing(missing) => missing,
        };
        let last = history.last(&trial)?;
        if json {
            json_lines::print(&serde_json::json!({
                "id": claim.id, "catalogue": CATALOGUE, "fixed": claim.fixed, "statement": claim.statement, "source": report::source(claim), "tags": claim.tags,
                "missing": missing, "last": last.as_ref().map(|last| serde_json::json!({
                    "verdict": last.report.verdict, "on": last.on, "trial": last.trial.0,
                })),
            }));
            continue;
        }
        let source = plain(&report::source(claim));
        if source != reported {
            let _ = writeln!(out, "\n{BOLD}{source}{BOLD:#}");
            reported = source;
        }
        let result = match (missing.first(), &last) {
            (Some(missing), _) => format!("{QUIET}not testable here: {}{QUIET:#}", plain(missing)),
            (None, None) => format!("{QUIET}not checked yet{QUIET:#}"),
            (None, Some(last)) => {
                let colour = report::style(last.report.verdict);
                let (answer, day, device) = (plain(&last.report.answer), plain(last.day()), last.device);
                format!("{colour}{answer}{colour:#} {QUIET}({day}, on a {device}){QUIET:#}")
            }
        };
        let _ = writeln!(out, "  {}\n      {}\n      {result}", plain(&claim.id), plain(&claim.statement));
    }
    if !json {
        let _ = writeln!(out, "\nversion {CATALOGUE} of the catalogue");
        out += "fstrial claims show NAME prints one in full; fstrial claims check NAME … checks one or several.\n";
        super::print_folded(out.trim_start_matches('\n'));
    }
    Ok(exit_code::VERDICT)
}

/// The catalogue as a page: the original statements, and the results on this machine.
pub(crate) fn page(home: &Home) -> Result<String, ExpectedError> {
    let history = History::of(home)?;
    let machine = machine(false);
    let (mut rows, mut trials) = (Vec::new(), BTreeMap::new());
    for id in Chapter::all().iter().flat_map(|chapter| &chapter.claims) {
        let (trial, ready) = source::find(id)?.prepare(&machine, None, &home.folder()?)?;
        let claim = source::claim(&trial);
        let last = history.last(&trial)?.filter(|_| ready == Ready::Yes);
        rows.push(match (ready, &last) {
            (Ready::Missing(missing), _) => {
                table::without_result(claim, format!("not testable here: {}", missing.join("; ")))
            }
            (Ready::Yes, Some(last)) => history.row(last, &trial)?,
            (Ready::Yes, None) => table::without_result(claim, "not checked yet".into()),
        });
        if let Some(last) = last {
            trials.insert(id.clone(), history.page(last.trial)?);
        }
    }
    Ok(claims::page(&Catalogue::new(rows), trials))
}

fn show(name: &str, toml: bool, json: bool, home: &Home) -> Result<u8, ExpectedError> {
    let claimed = source::find(name)?;
    if toml {
        super::print(claimed.text());
        return Ok(exit_code::VERDICT);
    }
    let (trial, ready) = claimed.prepare(&machine(false), None, &home.folder()?)?;
    let claim = source::claim(&trial);
    let last = History::of(home)?.last(&trial)?;
    if json {
        let missing = if let Ready::Missing(missing) = &ready { missing.as_slice() } else { &[] };
        json_lines::print(&serde_json::json!({
            "claim": claim, "trial": trial.to_toml(), "missing": missing, "last": last.map(|last| last.report),
        }));
        return Ok(exit_code::VERDICT);
    }
    let mut out = described(claim);
    out += &match ready {
        Ready::Yes => planned(&trial)?,
        Ready::Missing(missing) => format!("\nnot testable here: {}\n", missing.join("; ")),
    };
    out += &match last {
        Some(last) => {
            format!(
                "\nlast, {}, trial {}:\n{}",
                plain(last.day()),
                last.trial.0,
                report::render(&last.report)
            )
        }
        None => "\nnot checked yet on this machine\n".into(),
    };
    super::print_folded(&out);
    Ok(exit_code::VERDICT)
}

/// The original statement.
fn described(claim: &Claim) -> String {
    let mut lines =
        vec![claim.id.clone(), format!("  {}", claim.statement), format!("  {}", report::source(claim))];
    let named = [("original set-up", &claim.setup), ("original figures", &claim.said)];
    lines.extend(
        named.iter().filter(|(_, text)| !text.is_empty()).map(|(what, text)| format!("  {what}: {text}")),
    );
    lines.extend(claim.caveat.iter().map(|caveat| format!("  note: {caveat}")));
    lines.push(format!("  tags: {}", claim.tags.join(", ")));
    let mut out = lines.iter().map(|line| plain(line)).collect::<Vec<_>>().join("\n") + "\n";
    for table in &claim.tables {
        out += &original(table);
    }
    out
}

/// A table of the source.
fn original(original: &OriginalTable) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(&original.columns);
    for row in &original.rows {
        table.add_row(row.iter().map(ToString::to_string));
    }
    let unit = if original.unit.is_empty() { String::new() } else { format!(", {}", original.unit) };
    format!("\n{}{unit}\n{}\n", original.title, trimmed(&table))
}

/// A table without the room that its columns are padded with at the end of a line.
fn trimmed(table: &Table) -> String {
    table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// The plan here.
fn planned(trial: &Trial) -> Result<String, ExpectedError> {
    let claim = source::claim(trial);
    let workloads = trial.resolve_workloads(environment::cpus())?;
    let arms: Vec<String> =
        trial.arms.iter().map(|arm| format!("  {} = {}", arm.name, arm.configuration())).collect();
    let works = workloads.iter().map(|workload| match workload.threads.as_slice() {
        [one] => format!("  {} at {}", workload.name, threads_in_words(*one)),
        several => {
            let levels: Vec<String> = several.iter().map(ToString::to_string).collect();
            format!("  {} at {} threads", workload.name, levels.join(", "))
        }
    });
    let device = match trial.device.modelled() {
        Some(model) => format!("modelled device, {}", model.summary()),
        None => trial.device.kind.name().to_owned(),
    };
    let mut lines = vec![format!("\nhere, on a {device}:")];
    lines.extend(arms);
    lines.extend(works);
    let plan = Plan::new(trial.settled(environment::cpus())?, 0)?;
    lines.extend(report::expectations(&plan).iter().map(|line| format!("  confirmed if: {line}")));
    lines.extend(readings(claim).iter().map(|reading| format!("  read as: {reading}")));
    lines.extend(claim.fixed.map(|day| format!("  expectations were fixed on {day}")));
    lines.extend(claim.scaled.iter().map(|line| format!("  scaled: {line}")));
    lines.extend(claim.substituted.iter().map(|line| format!("  substituted: {line}")));
    let budget = numbers::wait(trial.trial.budget.as_secs_f64());
    lines.push(format!("  at most {budget}: fstrial claims check {}", claim.id));
    Ok(lines.join("\n") + "\n")
}

/// Interpretations of the source's words, each once.
fn readings(claim: &Claim) -> Vec<&str> {
    let mut readings: Vec<&str> = Vec::new();
    for reading in claim.expectations.iter().filter_map(|expected| expected.reading.as_deref()) {
        if !readings.contains(&reading) {
            readings.push(reading);
        }
    }
    readings
}

fn new(file: &Path, force: bool) -> Result<u8, ExpectedError> {
    out_file::write(file, TEMPLATE.as_bytes(), force)?;
    if !out_file::is_standard_output(file) {
        let named = file.with_extension("toml");
        let rename = if named == file { "" } else { ", name it so that it ends in .toml," };
        super::say(&format!(
            "wrote {}; next: edit it{rename} then fstrial claims check {}\n",
            file.display(),
            named.display()
        ));
    }
    Ok(exit_code::VERDICT)
}

#[cfg(test)]
mod tests {
    use super::{source::ClaimFile, *};

    #[test]
    fn template_passes_check_unchanged() {
        let claimed = ClaimFile::of_text("mine.toml", TEMPLATE);
        let (trial, ready) = claimed.prepare(&machine(true), None, Path::new("/nonexistent")).unwrap();
        assert!(matches!(ready, Ready::Yes));
        assert!(trial.problem().is_none());
    }
}
