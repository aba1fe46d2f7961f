//! Time to query a large store: a list of all trials, a list by filters, and all runs of a large trial.
//!
//! `cargo bench -p fstrial-store` makes a store of 100 000 runs once (it is kept in `target/tmp`) and prints the times. It
//! fails if a list takes longer than its goal. Under `cargo test` it does the same with a small one, so that it cannot rot.

#[path = "../tests/it/common/mod.rs"]
#[expect(dead_code, reason = "shared with the tests, which use the rest")]
mod common;

use fstrial_store::{Filter, NewSession, SCHEMA, Store, StoredRun, TrialId};
use std::{
    error::Error,
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Time limit for a list of 100 000 runs.
const GOAL: Duration = Duration::from_millis(200);

/// Size of the store.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// Trials of the usual size.
    trials: u64,
    /// Runs of each of them.
    runs: u64,
    /// Runs of the one large trial, which is the last.
    large: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let full = std::env::args().any(|argument| argument == "--bench");
    let size = if full {
        Size { trials: 350, runs: 240, large: 16_000 }
    } else {
        Size { trials: 5, runs: 4, large: 8 }
    };
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let scratch = tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() {
        "/dev/shm".into()
    } else {
        folder.clone()
    })?;
    let path = if full { kept(&folder, scratch.path(), size)? } else { make(scratch.path(), size)? };
    let store = Store::open_read_only(&path)?;
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{} runs in {} trials, {} MiB; the best of five",
        size.trials * size.runs + size.large,
        size.trials + 1,
        std::fs::metadata(&path)?.len() >> 20
    )?;
    let mut slowest = Duration::ZERO;
    for (name, filter) in questions() {
        let (took, result) = best(|| Ok(store.find_trials(&filter)?.len()))?;
        writeln!(out, "  {name:<44} {:>9.1} ms  {result} trials", milliseconds(took))?;
        slowest = slowest.max(took);
    }
    let large = TrialId(i64::try_from(size.trials + 1)?);
    let (took, result) = best(|| Ok(store.runs(large)?.len()))?;
    writeln!(out, "  {:<44} {:>9.1} ms  {result} runs", "all runs of a large trial", milliseconds(took))?;
    let (took, result) = best(|| Ok(store.metric_rows(large)?.len()))?;
    writeln!(out, "  {:<44} {:>9.1} ms  {result} rows", "all its numbers", milliseconds(took))?;
    if full && slowest > GOAL {
        return Err(format!("a list took {slowest:?}, and may take {GOAL:?}").into());
    }
    Ok(())
}

/// Queries for the list.
fn questions() -> Vec<(&'static str, Filter)> {
    let some = |text: &str| Some(text.to_owned());
    let nothing = Filter::default();
    vec![
        ("all trials", nothing.clone()),
        ("by tag", Filter { tags: vec!["odd".into()], ..nothing.clone() }),
        (
            "by kernel and time",
            Filter { kernel: some("6.13"), since: some(common::STARTED), ..nothing.clone() },
        ),
        (
            "by arm, workload, name and host",
            Filter {
                arms: vec!["xfs*".into()],
                workloads: vec!["random-*".into()],
                name: some("sample"),
                host: some("host-3"),
                ..nothing
            },
        ),
    ]
}

/// The store of an earlier bench, or a new one in its place.
fn kept(folder: &Path, scratch: &Path, size: Size) -> Result<PathBuf, Box<dyn Error>> {
    let path = folder.join(format!("bench-list-{SCHEMA}-{}-{}-{}.db", size.trials, size.runs, size.large));
    if !path.exists() {
        let made = make(scratch, size)?;
        // Under another name first: a bench that is ended half-way must not leave half a store.
        let half = path.with_extension("half");
        std::fs::copy(&made, &half)?;
        std::fs::rename(&half, &path)?;
        std::fs::remove_file(made)?;
    }
    Ok(path)
}

/// Makes a store, in memory: each run is synced, which a disk would take minutes for.
fn make(folder: &Path, size: Size) -> Result<PathBuf, Box<dyn Error>> {
    let path = folder.join("made.db");
    let mut store = Store::open(&path)?;
    for trial in 0..=size.trials {
        let id = common::create_trial(&mut store);
        if trial % 2 == 1 {
            store.change_tags(id, &["odd".into()], &[])?;
        }
        let environment = format!(r#"{{"host":"host-{}","kernel":"6.{}.0 x86_64"}}"#, trial % 5, trial % 20);
        store.reopen_trial(id, &NewSession { environment: &environment, ..common::SESSION })?;
        let runs = if trial == size.trials { size.large } else { size.runs };
        for index in 0..runs {
            common::record_run(&mut store, id, &run(index))?;
        }
    }
    Ok(path)
}

/// A run like those of a real trial: two arms, four workloads, ten levels.
fn run(index: u64) -> StoredRun {
    let (cell, round) = (index % 80, index / 80);
    let mut run = common::expected(cell % 2);
    run.round = u32::try_from(round).expect("a small number");
    run.slot = u32::try_from(cell).expect("a small number");
    run.workload = format!("random-{}", cell / 20);
    run.threads = u16::try_from(1 + cell / 2 % 10).expect("a small number");
    let mut job = run.parse_job().expect("the sample's job is one of today");
    if let Some(task) = &mut job.task {
        task.threads = run.threads;
    }
    run.job = serde_json::to_string(&job).expect("a job is plain data");
    run
}

/// The shortest of five times, with the result.
fn best<T>(mut ask: impl FnMut() -> Result<T, Box<dyn Error>>) -> Result<(Duration, T), Box<dyn Error>> {
    let mut best = None;
    for _ in 0..5 {
        let start = Instant::now();
        let answer = ask()?;
        let took = start.elapsed();
        if best.as_ref().is_none_or(|(least, _)| took < *least) {
            best = Some((took, answer));
        }
    }
    best.ok_or_else(|| "nothing was measured".into())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
