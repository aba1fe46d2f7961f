//! Time to make the page of a very large trial: 10 arms × 10 workloads × 8 levels × 20 rounds.
//!
//! `cargo bench -p fstrial --bench page` makes its store once in `target/tmp` and prints the time and the size of the
//! page; it fails where either is beyond its goal. Under `cargo test` it does the same with a small trial, so that it
//! cannot rot.

#[path = "../tests/made/mod.rs"]
mod made;

use fstrial_report::{again, page, page::TrialPage};
use fstrial_store::{Store, TrialId};
use made::Shape;
use std::{
    error::Error,
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Time limit for the large page.
const TIME: Duration = Duration::from_secs(3);
/// Size limit, in bytes.
const SIZE: usize = 3_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let full = std::env::args().any(|argument| argument == "--bench");
    let shape = if full { large() } else { Shape { rounds: 3, ..Shape::default() } };
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(if full { "page-large.db" } else { "page-small.db" });
    if !full || !path.exists() {
        make(&path, &shape)?;
    }
    let store = Store::open_read_only(&path)?;
    let mut best = Duration::MAX;
    let mut size = 0;
    for _ in 0..if full { 3 } else { 1 } {
        let began = Instant::now();
        let trial = store.trial(TrialId(1))?;
        let text = page::of_trials(vec![again::judged(&store, &trial, TrialPage::of)?]);
        best = best.min(began.elapsed());
        size = text.len();
        std::fs::write(path.with_extension("html"), text)?;
    }
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "a page of {} runs: {:.2} s (the best of three), {:.2} MiB; it is {}",
        shape.arms.len() * shape.workloads.len() * shape.levels.len() * shape.rounds as usize,
        best.as_secs_f64(),
        f64::from(u32::try_from(size)?) / f64::from(1 << 20),
        path.with_extension("html").display()
    )?;
    match full && (best > TIME || size > SIZE) {
        true => Err(format!("it may take {TIME:?} and {SIZE} bytes").into()),
        false => Ok(()),
    }
}

fn large() -> Shape {
    Shape {
        arms: (0..10).map(|arm| (format!("arm-{arm}"), 1.0 + 0.1 * f64::from(arm))).collect(),
        workloads: (0..10).map(|workload| format!("workload-{workload}")).collect(),
        levels: vec![1, 2, 4, 8, 16, 32, 64, 128],
        rounds: 20,
        ..Shape::default()
    }
}

/// Makes the store in memory if possible, as every run is synced; then moves it to its place whole.
fn make(path: &Path, shape: &Shape) -> Result<(), Box<dyn Error>> {
    let memory = Path::new("/dev/shm");
    let folder = path.parent().filter(|_| !memory.is_dir()).unwrap_or(memory);
    let scratch = tempfile::tempdir_in(folder)?;
    let made = scratch.path().join("results.db");
    let mut store = Store::open(&made)?;
    made::add(&mut store, shape, 7);
    drop(store);
    let beside = path.with_extension("unfinished");
    std::fs::copy(made, &beside)?;
    std::fs::rename(beside, path)?;
    Ok(())
}
