//! `fstrial meta`: the pooled result of many hosts' trials.

use super::{Home, compare, filter::FilterArgs, out_file, results};
use clap::Args;
use fstrial_model::{metric::Metric, units::Percent};
use fstrial_report::{
    json_lines,
    meta::{self, Collection, MetaDocument},
    page,
    trend::Terminal,
};
use fstrial_run::{
    answers::{self, Answer},
    error::ExpectedError,
    exit_code,
};
use fstrial_store::{Store, StoredTrial};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Pool trials of many hosts: mean ratio of each comparison, spread between hosts, prediction for the next host.
///
/// Trials are pooled if their arms, workload, threads, device and metric are the same. Each host counts once, with all of its
/// trials. Fewer than three hosts give no interval. docs/statistics.md describes the method.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fstrial meta                                    the trials of this home
  fstrial meta lab.db cloud.db 'hosts/*.db'       of these stores; a folder stands for all *.db in it
  fstrial meta hosts --metric p99 --out p99.html
  fstrial meta lab.db --tag nightly --json")]
pub(crate) struct MetaArgs {
    /// Stores, glob patterns or folders of stores [default: the results of this home].
    #[arg(value_name = "STORE")]
    stores: Vec<PathBuf>,

    /// Metric to pool [default: the metrics that the trials decide on].
    #[arg(long, value_name = "METRIC", value_parser = compare::metric)]
    metric: Option<Metric>,

    /// Numbers of threads [default: all].
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    threads: Vec<u16>,

    /// Smallest difference that matters [default: as in the trials].
    #[arg(long, value_name = "PERCENT")]
    practical: Option<Percent>,

    /// Write an HTML report to this file instead of printing text; - for standard output.
    #[arg(short, long, value_name = "FILE", conflicts_with = "json")]
    out: Option<PathBuf>,

    #[arg(long, requires = "out", help = out_file::FORCE)]
    force: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    home: Home,

    #[command(flatten)]
    filter: FilterArgs,
}

pub(crate) fn exec(args: &MetaArgs) -> Result<u8, ExpectedError> {
    let practical = args.practical.map(|percent| percent.fraction());
    if practical.is_some_and(|fraction| !(fraction > 0.0 && fraction < 1.0)) {
        return Err(ExpectedError::usage("--practical must be between 0 % and 100 %", "use --practical 3%"));
    }
    let mut all = Pool::default();
    let stores = if args.stores.is_empty() {
        all.add(&results::open(&args.home)?, "#", Some(args))?;
        1
    } else {
        let files = files(&args.stores)?;
        for file in &files {
            let name = file.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let opened = Store::open_copy(file).map_err(ExpectedError::from);
            // One that cannot be read takes nothing from the others, unless it was the only one.
            match opened.and_then(|store| all.add(&store, &format!("{name} #"), Some(args))) {
                Err(error) if files.len() > 1 => all.collection.leave_out(&name, &error.in_full()),
                other => other?,
            }
        }
        files.len()
    };
    let document = all.document(stores, practical);
    if document.questions.is_empty() {
        let why = document.left_out.iter().next().map(|(reason, what)| format!("; {}: {reason}", what[0]));
        return Err(ExpectedError::usage(
            format!("no trial has a ratio to pool{}", why.unwrap_or_default()),
            format!(
                "a trial counts with {} rounds of both arms; `fstrial results list` takes the same flags",
                meta::MIN_ROUNDS
            ),
        ));
    }
    if args.json {
        json_lines::print(&document);
    } else if let Some(out) = &args.out {
        let page = page::meta::page(&document);
        out_file::write_page(out, &page, args.force)?;
    } else {
        show(&document);
    }
    Ok(exit_code::VERDICT)
}

/// Prints the pooled result.
pub(super) fn show(document: &MetaDocument) {
    super::print_folded(&meta::render(document, Terminal::of_this_process()));
}

/// The trials of all stores, each once.
#[derive(Default)]
pub(super) struct Pool {
    collection: Collection,
    seen: BTreeSet<(String, u64, String, String, String)>,
}

impl Pool {
    /// Adds the trials of a store that flags choose; all of them without flags.
    pub(super) fn add(
        &mut self,
        store: &Store,
        prefix: &str,
        args: Option<&MetaArgs>,
    ) -> Result<(), ExpectedError> {
        let search = args.map(|args| args.filter.search()).unwrap_or_default();
        for summary in search.find(store)? {
            let trial = store.trial(summary.id)?;
            let name = format!("{prefix}{}", summary.id);
            if !self.seen.insert(identity(&trial)) {
                self.collection.leave_out(&name, "another store has the same trial");
                continue;
            }
            let result = match answers::of_trial(store, &trial)? {
                Ok(result) => result,
                Err(reason) => {
                    self.collection.leave_out(&name, &reason);
                    continue;
                }
            };
            let decides = result.decides.clone();
            self.collection.add(&name, result, |answer| match args {
                Some(args) => args.wants(store, answer, &decides),
                None => decides.contains(&answer.metric),
            });
        }
        Ok(())
    }

    pub(super) fn leave_out(&mut self, store: &str, reason: &str) {
        self.collection.leave_out(store, reason);
    }

    pub(super) fn document(self, stores: usize, practical: Option<f64>) -> MetaDocument {
        self.collection.document(stores, practical)
    }
}

impl MetaArgs {
    /// True if flags select an answer of a trial that decides on these metrics.
    fn wants(&self, store: &Store, answer: &Answer, decides: &[Metric]) -> bool {
        let is_metric = match self.metric {
            Some(metric) => answer.metric == metric,
            None => decides.contains(&answer.metric),
        };
        let subject = &answer.subject;
        let workloads = &self.filter.workload;
        let is_like = |pattern: &String| store.is_like(&subject.workload, pattern).unwrap_or(false);
        is_metric
            && (self.threads.is_empty() || self.threads.contains(&subject.threads))
            && (workloads.is_empty() || workloads.iter().any(is_like))
    }
}

/// Identity of a stored trial, as for an import.
fn identity(trial: &StoredTrial) -> (String, u64, String, String, String) {
    let first = trial.sessions.first();
    let of =
        |field: fn(&fstrial_store::StoredSession) -> &String| first.map(field).cloned().unwrap_or_default();
    let summary = &trial.summary;
    (
        summary.name.clone(),
        summary.seed,
        of(|session| &session.started_at),
        of(|session| &session.command_line),
        of(|session| &session.environment),
    )
}

/// The stores that are meant, each once: a folder has all of its `*.db`, and a pattern is of file names in one folder.
fn files(given: &[PathBuf]) -> Result<Vec<PathBuf>, ExpectedError> {
    let mut files = Vec::new();
    for path in given {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if path.is_dir() {
            files.extend(in_folder(path, "*.db")?);
        } else if !path.exists() && name.contains(['*', '?', '[']) {
            files.extend(in_folder(path.parent().unwrap_or(Path::new("")), &name)?);
        } else {
            files.push(path.clone());
        }
    }
    files.sort();
    files.dedup();
    Ok(files)
}

fn in_folder(folder: &Path, pattern: &str) -> Result<Vec<PathBuf>, ExpectedError> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let failed = |source| ExpectedError::File { what: "folder", path: folder.to_owned(), source };
    let (names, _) = Store::nameless()?;
    let mut result = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if names.is_like(&entry.file_name().to_string_lossy(), pattern)? {
            result.push(folder.join(entry.file_name()));
        }
    }
    if result.is_empty() {
        return Err(ExpectedError::usage(
            format!("no file in {} is like {pattern}", folder.display()),
            "name stores: a results.db, or files of `fstrial results export --format store`",
        ));
    }
    Ok(result)
}
