//! `fstrial results export`: stored trials in the formats of other programs, or as a separate store.

use super::{fio, judge_again};
use crate::cli::{
    self,
    filter::FilterArgs,
    out_file::{self, OutFile},
};
use clap::{Args, ValueEnum};
use fstrial_report::{
    evidence,
    export::{
        go_bench::GoBench,
        open_metrics::OpenMetrics,
        rows::{self, Rows},
    },
    stdout::Pieces,
};
use fstrial_run::error::ExpectedError;
use fstrial_store::{ImportOutcome, Store, StoredTrial, TrialId};
use std::{
    collections::BTreeSet,
    io::{self, BufWriter, Seek, Write},
    path::{Path, PathBuf},
};

/// Export measurements, answers, trial files, or a store with these trials only.
///
/// Without trial numbers and filters it exports the last trial. docs/results.md describes the columns.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fstrial results export 7 > runs.csv
  fstrial results export --tag nightly --format parquet --out nightly.parquet
  fstrial results export 7 8 --format store --out for-a-colleague.db
  fstrial results export 7 --format go | benchstat -col /arm -row /workload,/threads -")]
pub(crate) struct ExportArgs {
    /// Trial numbers.
    #[arg(value_name = "ID", value_parser = super::trial_number, add = crate::cli::complete::trials())]
    ids: Vec<i64>,

    /// Export format.
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    format: Format,

    /// Output file (with fio: folder), written atomically [default: - for standard output].
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,

    #[arg(long, requires = "out", help = out_file::FORCE)]
    force: bool,

    #[command(flatten)]
    filter: FilterArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// CSV, one row per run and value.
    Csv,
    /// JSON array, one element per run and value.
    Json,
    /// Parquet file, one row per run and value (requires --out).
    Parquet,
    /// Trial file for `fstrial run` (one trial).
    Toml,
    /// Go benchmark format for benchstat, one line per run and result.
    Go,
    /// OpenMetrics for Prometheus: rates, latencies, ratios and verdicts.
    Openmetrics,
    /// Folded stacks of observed runs for flamegraph.pl, by cell: nanoseconds per operation (one trial).
    Folded,
    /// fio JSON for fio-plot, one file per run: OUT/round-R/ARM/WORKLOAD-THREADS.json (one trial; requires --out FOLDER).
    Fio,
    /// Store with these trials for `results import` (requires --out).
    Store,
}

pub(super) fn exec(store: &Store, args: &ExportArgs) -> Result<(), ExpectedError> {
    let trials = choose(store, args)?;
    let (format, out) = (args.format, args.out.as_deref());
    let file = out.filter(|path| !out_file::is_standard_output(path));
    match (format, file) {
        (Format::Parquet, None) if out.is_none() => Err(homeless("binary output")),
        (Format::Store, None) => Err(homeless("binary output")),
        (Format::Fio, None) => Err(homeless("many files")),
        (Format::Fio, Some(folder)) => {
            let line = fio::export(store, &only(trials, "fio")?, folder, args.force)?;
            cli::print(&format!("{line}\n"));
            Ok(())
        }
        (Format::Store, Some(path)) => export_store(store, &trials, path, args.force),
        (_, Some(path)) => {
            let file = OutFile::new(path, args.force)?;
            write(store, trials, format, file.create()?, &file.failed())?;
            file.finish()
        }
        (_, None) => {
            let unwritten = |source| ExpectedError::Unwritten { source, again: None };
            match write(store, trials, format, Pieces, &unwritten) {
                // Remembered at its origin, like every other answer.
                Err(ExpectedError::Unwritten { .. }) => Ok(()),
                other => other,
            }
        }
    }
}

fn homeless(what: &str) -> ExpectedError {
    ExpectedError::usage(format!("this format is {what}"), "name the output file: --out")
}

/// The trials that are meant, oldest first.
fn choose(store: &Store, args: &ExportArgs) -> Result<Vec<StoredTrial>, ExpectedError> {
    let search = args.filter.search();
    if !args.ids.is_empty() && !search.filter.is_empty() {
        return Err(ExpectedError::usage(
            "trials are chosen by their numbers or by flags, not both",
            "leave one of the two out",
        ));
    }
    let ids: Vec<TrialId> = if !args.ids.is_empty() {
        // In the order of their numbers, each once: twice would count its runs twice.
        args.ids.iter().copied().collect::<BTreeSet<_>>().into_iter().map(TrialId).collect()
    } else if search.filter.is_empty() {
        return Ok(vec![super::find(store, None)?]);
    } else {
        search.find(store)?.into_iter().map(|trial| trial.id).collect()
    };
    if ids.is_empty() {
        let hint = "`fstrial results list` shows all of them";
        return Err(ExpectedError::usage("no trial matches", hint));
    }
    ids.into_iter().map(|id| Ok(store.trial(id)?)).collect()
}

/// The trial of a format that holds one.
fn only(mut trials: Vec<StoredTrial>, format: &str) -> Result<StoredTrial, ExpectedError> {
    match (trials.pop(), trials.len()) {
        (Some(trial), 0) => Ok(trial),
        (_, others) => Err(ExpectedError::usage(
            format!("--format {format} holds one trial, and these are {}", others + 1),
            "name one by its number",
        )),
    }
}

/// Writes a text or Parquet file.
fn write(
    store: &Store,
    trials: Vec<StoredTrial>,
    format: Format,
    out: impl Write + Send,
    failed: &dyn Fn(io::Error) -> ExpectedError,
) -> Result<(), ExpectedError> {
    let out = BufWriter::new(out);
    let written = match format {
        Format::Csv => write_rows(store, &trials, rows::csv(out))?,
        Format::Json => write_rows(store, &trials, rows::json(out))?,
        Format::Parquet => match rows::parquet(out) {
            Ok(rows) => write_rows(store, &trials, rows)?,
            Err(error) => Err(error),
        },
        Format::Go => write_go(store, &trials, out)?,
        Format::Openmetrics => open_metrics(store, &trials)?.write(&mut { out }),
        Format::Toml => {
            let trial = only(trials, "toml")?;
            let mut out = out;
            out.write_all(trial.toml.as_bytes()).and_then(|()| out.flush())
        }
        Format::Folded => {
            let trial = only(trials, "folded")?;
            let stacks =
                super::judged(store, &trial, |judged| evidence::folded(judged.plan, judged.evidence))?;
            if stacks.is_empty() {
                let id = trial.summary.id;
                let what = format!("no runs of trial {id} were observed");
                return Err(ExpectedError::usage(what, format!("observe some: fstrial explain {id}")));
            }
            let mut out = out;
            out.write_all(stacks.as_bytes()).and_then(|()| out.flush())
        }
        Format::Fio | Format::Store => unreachable!("they are not a single text"),
    };
    written.map_err(failed)
}

/// The outer error is of the store, the inner one of the output.
fn write_rows(
    store: &Store,
    trials: &[StoredTrial],
    mut out: Box<dyn Rows + '_>,
) -> Result<io::Result<()>, ExpectedError> {
    for trial in trials {
        if let Err(error) = out.write(&store.metric_rows(trial.summary.id)?) {
            return Ok(Err(error));
        }
    }
    Ok(out.finish())
}

fn write_go(store: &Store, trials: &[StoredTrial], out: impl Write) -> Result<io::Result<()>, ExpectedError> {
    let mut out = GoBench::new(out);
    for trial in trials {
        let mut written = out.trial(trial);
        store.for_each_run(trial.summary.id, |run| {
            if written.is_ok() {
                written = out.run(&run);
            }
        })?;
        if written.is_err() {
            return Ok(written);
        }
    }
    Ok(out.finish())
}

fn open_metrics(store: &Store, trials: &[StoredTrial]) -> Result<OpenMetrics, ExpectedError> {
    let mut metrics = OpenMetrics::default();
    for trial in trials {
        let summary = &trial.summary;
        let document = judge_again(store, trial)?;
        // One that was killed has no end: its last session's beginning is the last that is known.
        let last = trial.sessions.last().map_or(&summary.started_at, |session| &session.started_at);
        let ended = summary.ended_at.as_ref().unwrap_or(last);
        let ended = ended.parse::<jiff::Timestamp>().map_err(|e| {
            fstrial_run::stored::damaged(store, format!("a stored time cannot be read: {ended}: {e}"))
        })?;
        metrics.add(summary, &document, ended.as_duration().as_secs_f64());
    }
    Ok(metrics)
}

/// Writes a store with just these trials.
fn export_store(
    store: &Store,
    trials: &[StoredTrial],
    path: &Path,
    force: bool,
) -> Result<(), ExpectedError> {
    let file = OutFile::new(path, force)?;
    // Without a name: nothing can be put in its way, and it ends with this process.
    let (mut copy, mut made) = Store::nameless()?;
    let mut copied = 0_usize;
    for trial in trials {
        let id = trial.summary.id;
        match copy.import_trial(store, id)? {
            ImportOutcome::Running => {
                cli::say(&format!(
                    "trial {id} was left out: it still runs, or was killed; resume it to end it\n"
                ));
            }
            ImportOutcome::Copied(_) | ImportOutcome::Here { .. } => copied += 1,
        }
    }
    if copied == 0 {
        let hint = "wait for its end, or resume one that was killed: `fstrial resume`";
        return Err(ExpectedError::usage("no trial that has ended is left to be exported", hint));
    }
    drop(copy);
    let mut whole = file.create()?;
    made.rewind().and_then(|()| io::copy(&mut made, &mut whole)).map_err(file.failed())?;
    file.finish()?;
    let count = if copied == 1 { "one trial".into() } else { format!("{copied} trials") };
    cli::print(&format!("{count} in {}\n", path.display()));
    Ok(())
}
