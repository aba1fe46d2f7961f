//! `fstrial judge`: the verdict on measurements made elsewhere.

mod builder;
mod csv_table;
mod format;
mod go_bench;
mod json;
mod sources;
mod tools;

use super::{Home, out_file};
use clap::Args;
use format::Format;
use fstrial_model::units::Percent;
use fstrial_report::{elsewhere, json_lines, page};
use fstrial_run::{
    contrast::Outcome,
    elsewhere::{self as judging, Finding, Settings, Table},
    error::ExpectedError,
    exit_code,
};
use sources::Sources;
use std::{ffi::OsString, path::PathBuf};

/// Most values that all comparisons together look at: seconds of work.
const MAX_VALUES: usize = 1 << 19;
/// Limits of the comparisons, and of the sequential rule's memory for all of them: half a gigabyte.
const MAX_KEPT: (usize, usize) = (4096, 1 << 26);
/// Most rounds that are looked at one after the other.
const MAX_SEQUENTIAL: usize = 1000;

/// Judge measurements of other tools: hyperfine JSON, Go benchmarks, CSV, pgbench, sysbench and fio output, fstrial exports.
///
/// A CSV file has the columns arm and value, plus round and order if every arm was measured once per round; or one column per
/// arm. All rounds are judged together, once. Values without rounds are never paired by row: the two groups are compared by
/// ranks. The verdict states how the order was chosen: without a random order, drift of the machine looks like a
/// difference.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fstrial judge pairs.csv
  fstrial judge hyperfine.json --out page.html
  fstrial judge old=old.txt new=new.txt
  fstrial judge ext4=a1.json,a2.json,a3.json xfs=b1.json,b2.json,b3.json --metric write.clat_p99
  fstrial results export 7 | fstrial judge -")]
pub(crate) struct JudgeArgs {
    /// File with named arms, or one file per arm: NAME=FILE, or NAME=FILE,FILE,… for several runs; - is standard input.
    #[arg(value_name = "[NAME=]FILE", required = true)]
    files: Vec<OsString>,

    /// Format of the files [default: detected].
    #[arg(long, value_enum)]
    format: Option<Format>,

    /// Metrics to judge [default: the main metrics of the format].
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    metric: Vec<String>,

    /// CSV column with the arm; --metric names the column with the values.
    #[arg(long, value_name = "NAME", requires = "metric")]
    arm_column: Option<String>,

    /// Lower CSV values are better (latencies, durations).
    #[arg(long)]
    less_is_better: bool,

    /// Compare all arms with this one only [default: all pairs, with the first arm of the file as the base].
    #[arg(long, value_name = "ARM", alias = "baseline")]
    base: Option<String>,

    /// Smallest difference that matters.
    #[arg(long, value_name = "PERCENT", default_value = "3%")]
    practical: Percent,

    /// Decide round by round, as a trial does, for a measurement meant to stop at its first verdict.
    #[arg(long)]
    sequential: bool,

    /// Write an HTML report to this file instead of printing text; - for standard output.
    #[arg(short, long, value_name = "FILE", conflicts_with = "json")]
    out: Option<PathBuf>,

    #[arg(long, requires = "out", help = out_file::FORCE)]
    force: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    _home: Home,
}

pub(crate) fn exec(args: &JudgeArgs) -> Result<u8, ExpectedError> {
    args.out.iter().try_for_each(|out| out_file::check(out, args.force))?;
    let (facts, table, result) = judged(args)?;
    if args.json {
        json_lines::print(&elsewhere::json(&facts, &result));
    } else if let Some(out) = &args.out {
        let page = page::judge::page(&facts, &table, &result, args.practical.0);
        out_file::write_page(out, &page, args.force)?;
    } else {
        super::print_folded(&elsewhere::text(&facts, &result, args.practical.0));
    }
    let is_undecided = result.iter().any(|result| result.verdict == Outcome::Undecided);
    Ok(if is_undecided { exit_code::UNDECIDED } else { exit_code::VERDICT })
}

/// Properties of the files, their values, and the verdicts on them.
pub(super) fn judged(args: &JudgeArgs) -> Result<(elsewhere::Facts, Table, Vec<Finding>), ExpectedError> {
    if args.practical.is_zero() {
        return Err(ExpectedError::usage(
            "--practical 0%: with no band around it nothing is equivalent",
            "name the smallest difference that matters, such as 1%",
        ));
    }
    let sources = Sources::of(&args.files)?;
    if args.arm_column.is_some() && args.metric.len() != 1 {
        return Err(ExpectedError::usage(
            "--arm-column takes one --metric: the column of the values",
            "judge several columns one after the other",
        ));
    }
    let read = sources::read(&sources, args)?;
    if args.arm_column.is_some() && read.format != Format::Csv {
        return Err(ExpectedError::usage(
            format!("--arm-column is for tables, and this is {}", read.format.words()),
            "leave it out: the format names its arms",
        ));
    }
    let settings = settings(args, &read)?;
    check_size(&read, &settings)?;
    let result = judging::judge(&read.table, &settings);
    let facts = elsewhere::Facts {
        files: read.files,
        format: read.format.name(),
        arms: read.table.arms.clone(),
        rounds: read.table.rounds,
        is_sequential: settings.is_sequential,
        notes: read.notes,
    };
    Ok((facts, read.table, result))
}

fn settings(args: &JudgeArgs, read: &sources::Read) -> Result<Settings, ExpectedError> {
    let arms = &read.table.arms;
    let base = match &args.base {
        None => None,
        Some(name) => Some(arms.iter().position(|arm| arm == name).ok_or_else(|| {
            ExpectedError::usage(
                format!("no arm is named `{name}`"),
                format!("the arms are {}", arms.join(", ")),
            )
        })?),
    };
    if args.sequential {
        check_sequential(read)?;
    }
    Ok(Settings { practical: args.practical, base, is_sequential: args.sequential })
}

fn check_sequential(read: &sources::Read) -> Result<(), ExpectedError> {
    let Some(rounds) = read.table.rounds else {
        return Err(ExpectedError::usage(
            format!(
                "{}: this is {}: its runs are not paired, and there are no rounds to stop after",
                read.files,
                read.format.words()
            ),
            "leave out --sequential: it is judged once",
        ));
    };
    if rounds > MAX_SEQUENTIAL {
        return Err(ExpectedError::usage(
            format!(
                "--sequential: {} has {rounds} rounds; the sequential rule looks at {MAX_SEQUENTIAL} at most",
                read.files
            ),
            "leave out --sequential: all rounds are judged once",
        ));
    }
    Ok(())
}

/// Refuses work that would take minutes or gigabytes; nothing is silently left out.
fn check_size(read: &sources::Read, settings: &Settings) -> Result<(), ExpectedError> {
    let (contrasts, looked_at) = judging::size(&read.table, settings);
    if contrasts == 0 {
        return Err(ExpectedError::usage(
            format!("{}: no two arms have a workload and a metric in common", read.files),
            "a comparison needs a workload and a metric that both arms have",
        ));
    }
    let rounds = read.table.rounds.unwrap_or_default();
    let kept = contrasts.saturating_mul(rounds.saturating_mul(rounds) / 2);
    let is_too_much = settings.is_sequential && kept > MAX_KEPT.1;
    if contrasts > MAX_KEPT.0 || looked_at > MAX_VALUES || is_too_much {
        return Err(ExpectedError::usage(
            format!(
                "{}: {contrasts} comparisons, which look at {looked_at} values in all, are too many",
                read.files
            ),
            "compare with one arm only (--base ARM), name the numbers that matter (--metric NAME), or judge fewer rounds",
        ));
    }
    Ok(())
}
