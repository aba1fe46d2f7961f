//! A process that takes inputs. It has a limit on its memory, a watchdog, and a hook that keeps panic messages.

use super::{Progress, TOO_SLOW, corpus::Corpus, finding, input, targets::TARGETS};
use crate::table::Finding;
use clap::Args;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::{
    collections::BTreeMap,
    io::Write,
    panic::{self, AssertUnwindSafe},
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Memory that no input may need.
const MEMORY: u64 = 2 << 30;
/// Time that no input may need, on a busy machine without optimisation.
const MAX_TIME: Duration = Duration::from_secs(if cfg!(debug_assertions) { 10 } else { 3 });
/// A target's turn.
const TURN: Duration = Duration::from_millis(100);
/// Attempts at making a failing input smaller.
const ATTEMPTS: usize = 400;

/// A worker's arguments.
#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    milliseconds: u64,
    #[arg(long)]
    inputs: u64,
    #[arg(long)]
    stride: u64,
    #[arg(long)]
    progress: PathBuf,
    #[arg(long)]
    findings: PathBuf,
    #[arg(long)]
    target: Option<String>,
}

/// Message and place of the last panic.
static SAID: Mutex<(String, String)> = Mutex::new((String::new(), String::new()));
/// Counts up with every input.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Takes inputs until the time is over or there have been enough; prints its findings.
pub(crate) fn work(args: &WorkerArgs) {
    setrlimit(Resource::As, Rlimit { current: Some(MEMORY), maximum: Some(MEMORY) })
        .expect("a limit can be lowered");
    panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let message = panic.payload();
        let message =
            message.downcast_ref::<&str>().copied().or(message.downcast_ref::<String>().map(String::as_str));
        let message = message.unwrap_or_default().chars().take(300).collect();
        *SAID.lock().expect("this thread never panics") = (place, message);
    }));
    thread::spawn(watch);
    let progress = Progress::open(&args.progress);
    let until = Instant::now() + Duration::from_millis(args.milliseconds);
    let chosen: Vec<usize> = (0..TARGETS.len())
        .filter(|target| args.target.as_deref().is_none_or(|name| TARGETS[*target].name == name))
        .collect();
    let corpora: BTreeMap<usize, Corpus> =
        chosen.iter().map(|target| (*target, Corpus::of(&TARGETS[*target]))).collect();
    // By place: one fault is one finding, however many inputs lead to it.
    let mut result: BTreeMap<String, u64> = BTreeMap::new();
    let mut taken = 0;
    while taken < args.inputs && !chosen.is_empty() {
        for (target, corpus) in &corpora {
            if Instant::now() >= until {
                return;
            }
            progress.set_target(*target);
            let turn_ends = Instant::now() + TURN;
            while Instant::now() < turn_ends && taken < args.inputs {
                let number = progress.input(*target);
                take(args, *target, corpus, number, &mut result);
                progress.set_input(*target, number + args.stride);
                taken += 1;
            }
        }
    }
}

fn take(args: &WorkerArgs, target: usize, corpus: &Corpus, number: u64, result: &mut BTreeMap<String, u64>) {
    let target = &TARGETS[target];
    let mut bytes = input(args.seed, target, corpus, number);
    TAKEN.fetch_add(1, Ordering::Relaxed);
    let Some((place, _)) = fails(target.takes, &bytes) else { return };
    let seen = result.entry(place.clone()).or_default();
    *seen += 1;
    if *seen > 1 {
        return;
    }
    bytes = smaller(target.takes, bytes, &place);
    let message = fails(target.takes, &bytes).map(|(_, message)| message).unwrap_or_default();
    let finding: Finding =
        finding(&args.findings, target, args.seed, number, &format!("panics at {place}: {message}"), &bytes);
    let mut out = std::io::stdout().lock();
    let line = serde_json::to_string(&finding).expect("a finding is plain data");
    writeln!(out, "{line}").expect("the process that started this listens");
}

/// Place and words of the panic, if there is one.
fn fails(takes: fn(&[u8]), bytes: &[u8]) -> Option<(String, String)> {
    panic::catch_unwind(AssertUnwindSafe(|| takes(bytes))).err()?;
    Some(SAID.lock().expect("this thread never panics").clone())
}

/// Leaves parts away as long as it fails at the same place.
fn smaller(takes: fn(&[u8]), mut bytes: Vec<u8>, place: &str) -> Vec<u8> {
    let mut attempts = 0;
    let mut part = bytes.len().div_ceil(2);
    while part > 0 && attempts < ATTEMPTS {
        let mut at = 0;
        while at < bytes.len() && attempts < ATTEMPTS {
            attempts += 1;
            TAKEN.fetch_add(1, Ordering::Relaxed);
            let mut shorter = bytes.clone();
            shorter.drain(at..bytes.len().min(at + part));
            if fails(takes, &shorter).is_some_and(|(result, _)| result == place) {
                bytes = shorter;
            } else {
                at += part;
            }
        }
        part /= 2;
    }
    bytes
}

/// Ends the process when an input takes too long.
#[expect(clippy::exit, reason = "the hung thread does not answer")]
#[expect(clippy::disallowed_methods, reason = "nothing can signal that nothing happens")]
fn watch() {
    let (mut last, mut since) = (0, Instant::now());
    loop {
        thread::sleep(Duration::from_millis(200));
        let taken = TAKEN.load(Ordering::Relaxed);
        if taken != last {
            (last, since) = (taken, Instant::now());
        } else if since.elapsed() > MAX_TIME {
            std::process::exit(i32::from(TOO_SLOW));
        }
    }
}
