//! `fstrial report`: the answer of stored trials as a page, a table for a ticket, or a post for a mailing list.

use super::{Home, out_file, pages, results};
use clap::{Args, ValueEnum};
use fstrial_report::{
    json_lines, lkml, markdown,
    page::{self, TrialPage},
    screen::{self, Remarked},
    stdout,
};
use fstrial_run::{error::ExpectedError, exit_code};
use fstrial_store::{Store, StoredTrial};
use std::{borrow::Cow, path::PathBuf};

const EXAMPLES: &str = "\
Examples:
  fstrial report                              the last trial as a page, in the home folder
  fstrial report 12 --out page.html           trial 12 as a page to share
  fstrial report 12 15 18 --out disks.html    the same arms on three devices, side by side
  fstrial report 12 15 --format text          two trials side by side on the terminal: differences and results
  fstrial report --claims --out claims.html   the catalogue of claims, as far as it was checked here
  fstrial report 12 --format lkml             plain text of 80 columns for a mailing list
  fstrial report 12 --format markdown         for a ticket";

/// Write stored trials as a self-contained HTML report.
///
/// The report has the verdicts with their uncertainty and caveats, the plots with their data, the environment, the commands
/// and the trial file to repeat them, and opens offline. Every trial writes one to HOME/reports when it ends. Other formats
/// are printed on standard output.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ReportArgs {
    /// Trial numbers; several make one report [default: the last trial with a round].
    #[arg(value_name = "TRIAL", value_parser = results::trial_number, add = super::complete::trials())]
    trials: Vec<i64>,

    /// Report the catalogue of claims with this machine's results.
    #[arg(long, conflicts_with = "trials")]
    claims: bool,

    /// Output file, - for standard output [default: HOME/reports/trial-N.html for HTML, else standard output].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    #[arg(long, requires = "out", help = out_file::FORCE)]
    force: bool,

    /// Report format.
    #[arg(long, value_enum, default_value_t = Format::Html)]
    format: Format,

    #[command(flatten)]
    home: Home,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A self-contained page.
    Html,
    /// Tables for a terminal. Two trials are printed side by side, with their differences.
    Text,
    /// JSON, one document per line.
    Json,
    /// Tables for a ticket.
    Markdown,
    /// Plain text of 80 columns for a mailing list, with kernel version and reproducer.
    Lkml,
}

pub(crate) fn exec(args: &ReportArgs) -> Result<u8, ExpectedError> {
    if args.claims {
        if args.format != Format::Html {
            return Err(ExpectedError::usage(
                "the catalogue of claims as a report is a page",
                "leave --format out, or see `fstrial claims check --help` for text and Markdown",
            ));
        }
        let page = super::claims::page(&args.home)?;
        return deliver(args, &page, "claims.html");
    }
    let store = results::open(&args.home)?;
    let ids: Vec<Option<i64>> = match args.trials.as_slice() {
        [] => vec![None],
        some => some.iter().copied().map(Some).collect(),
    };
    let trials = ids.into_iter().map(|id| results::find(&store, id)).collect::<Result<Vec<_>, _>>()?;
    let text = match args.format {
        Format::Html => page_of(&store, &trials)?,
        Format::Text | Format::Json | Format::Markdown | Format::Lkml => texts(&store, &trials, args)?,
    };
    let numbers: Vec<String> = trials.iter().map(|trial| trial.summary.id.to_string()).collect();
    deliver(args, &text, &format!("trial-{}.html", numbers.join("-")))
}

pub(crate) fn page_of(store: &Store, trials: &[StoredTrial]) -> Result<String, ExpectedError> {
    let pages: Result<Vec<TrialPage>, _> =
        trials.iter().map(|trial| results::judged(store, trial, TrialPage::of)).collect();
    Ok(page::of_trials(pages?))
}

fn texts(store: &Store, trials: &[StoredTrial], args: &ReportArgs) -> Result<String, ExpectedError> {
    let format = args.format;
    if let ([a, b], Format::Text | Format::Json) = (trials, format) {
        let diff = results::side_by_side(store, [a, b])?;
        return Ok(if format == Format::Json { json_lines::line(&diff) } else { diff.render() });
    }
    let mut parts = Vec::new();
    for trial in trials {
        let mut document = results::judge_again(store, trial)?;
        document.home_again = args.home.again();
        parts.push(match format {
            Format::Markdown => markdown::render(&document),
            Format::Lkml => lkml::render(&document),
            Format::Json => json_lines::line(&document),
            Format::Html | Format::Text => {
                screen::render(&document, stdout::columns().filter(|_| args.out.is_none()), Remarked::InFull)
            }
        });
    }
    Ok(parts.join(if format == Format::Json { "" } else { "\n" }))
}

/// Writes it to its destination, and reports the path.
fn deliver(args: &ReportArgs, text: &str, name: &str) -> Result<u8, ExpectedError> {
    match &args.out {
        Some(path) if out_file::is_standard_output(path) => super::print(text),
        Some(path) => {
            // A file is not a terminal: no colours in it.
            let text: Cow<'_, str> = match args.format {
                Format::Text => anstream::adapter::strip_str(text).to_string().into(),
                Format::Html | Format::Json | Format::Markdown | Format::Lkml => text.into(),
            };
            out_file::write(path, text.as_bytes(), args.force)?;
            super::print(&format!("{}\n", path.display()));
        }
        None if args.format == Format::Html => {
            let path = pages::keep(&args.home, name, text)?;
            super::print(&format!("{}\n", path.display()));
        }
        None if args.format == Format::Text => super::print(text),
        None => super::print(text),
    }
    Ok(exit_code::VERDICT)
}
