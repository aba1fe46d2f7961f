//! Time to pool the trials of very many hosts: 10 000 hosts × 20 contrasts.
//!
//! `cargo bench -p fstrial --bench hosts` makes their stores once in `target/tmp`, in 100 files, prints the
//! times, the memory and the size of the page of 200 hosts, and fails if one is beyond its goal. Under `cargo
//! test` it does the same with a few hosts, so that it cannot rot.

#[path = "../tests/made/mod.rs"]
mod made;

use fstrial_report::{
    meta::{self, Collection},
    page,
    trend::Terminal,
};
use fstrial_run::answers;
use fstrial_store::Store;
use made::Shape;
use std::{
    error::Error,
    fs,
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Time limit for reading and pooling all of them.
const TIME: Duration = Duration::from_secs(10);
/// Memory limit of the process, in KiB.
const MEMORY: u64 = 1 << 20;
/// Size limit of the page of 200 hosts, in bytes.
const SIZE: usize = 1_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let full = std::env::args().any(|argument| argument == "--bench");
    let (files, each) = if full { (100, 100) } else { (2, 3) };
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("hosts-{files}-{each}"));
    if !folder.join("made").exists() {
        make(&folder, files, each)?;
    }
    let stores: Vec<PathBuf> = (0..files).map(|file| folder.join(format!("{file}.db"))).collect();
    let began = Instant::now();
    let collection = collect(&stores)?;
    let read = began.elapsed();
    let document = collection.document(stores.len(), None);
    let text = meta::render(&document, Terminal { unicode: true, columns: 80 });
    let all = began.elapsed();
    let some = collect(&stores[..files.min(2)])?.document(2, None);
    let page = page::meta::page(&some);
    let peak = peak_memory();
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{} hosts × {} contrasts: read in {:.2} s, pooled and listed in {:.2} s; {} lines, {} MiB at most; the page of {} hosts \
         has {:.2} MB",
        document.hosts,
        document.questions.len(),
        read.as_secs_f64(),
        all.as_secs_f64(),
        text.lines().count(),
        peak >> 10,
        some.hosts,
        f64::from(u32::try_from(page.len())?) / 1e6
    )?;
    assert_eq!((document.hosts, document.questions.len()), (files * each, 20), "{:?}", document.left_out);
    match full && (all > TIME || peak > MEMORY || page.len() > SIZE) {
        true => Err(format!("it may take {TIME:?}, {MEMORY} KiB and {SIZE} bytes").into()),
        false => Ok(()),
    }
}

fn collect(stores: &[PathBuf]) -> Result<Collection, Box<dyn Error>> {
    let mut collection = Collection::default();
    for path in stores {
        let store = Store::open_copy(path)?;
        for summary in store.trials()? {
            let trial = store.trial(summary.id)?;
            match answers::of_trial(&store, &trial)? {
                Ok(result) => collection.add(&summary.id.to_string(), result, |answer| {
                    answer.metric == fstrial_model::metric::Metric::Throughput
                }),
                Err(reason) => collection.leave_out(&summary.id.to_string(), &reason),
            }
        }
    }
    Ok(collection)
}

/// Hosts with the same trial: five arms at two levels, of which every two are compared.
fn make(folder: &Path, files: usize, each: usize) -> Result<(), Box<dyn Error>> {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder)?;
    for file in 0..files {
        let mut store = Store::open(folder.join(format!("{file}.db")))?;
        for host in 0..each {
            let number = file * each + host;
            let speeds = [1.0, 1.3, 0.6, 1.1, 0.9];
            let shape = Shape {
                host: format!("host{number}"),
                arms: speeds.iter().enumerate().map(|(arm, speed)| (format!("arm{arm}"), *speed)).collect(),
                workloads: vec!["random-write".into()],
                rounds: 8,
                noise: 0.02 + 0.001 * f64::from(u32::try_from(number % 30)?),
                ..Shape::default()
            };
            let id = made::add(&mut store, &shape, u64::try_from(number)?);
            answers::keep(&mut store, id)?;
        }
    }
    fs::write(folder.join("made"), "")?;
    Ok(())
}

/// The most memory that the process has used, in KiB.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}
