//! Fuzz of everything that reads text or bytes from outside, in process, on the stable toolchain.
//!
//! Input N of a target is a function of the seed, the target's name and N, so every finding is reproducible. Worker
//! processes (one for each processor) take turns over all targets, the same time for each, and record their current
//! input in a file in memory: one that dies (no memory, no stack, an abort) or hangs gives its input away, and another
//! worker continues after it.

pub(crate) mod corpus;
mod mutate;
pub(crate) mod targets;
mod worker;

use crate::{
    child,
    dice::Dice,
    table::{Area, Finding},
};
use corpus::Corpus;
use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    os::unix::{fs::FileExt, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::Stdio,
    thread,
    time::{Duration, Instant},
};
use targets::{FuzzTarget, TARGETS};
pub(crate) use worker::{WorkerArgs, work};

/// The exit code of a worker whose input takes too long.
pub(crate) const TOO_SLOW: u8 = 77;
/// Limit of worker deaths before none is started again.
const DEATHS: usize = 40;

/// The amount, and the folder of findings.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) seed: u64,
    pub(crate) time: Duration,
    pub(crate) inputs: u64,
    pub(crate) findings: PathBuf,
    /// Only this target.
    pub(crate) target: Option<String>,
    /// A fault planted in the parsers; its finding is not reported.
    pub(crate) plant: Option<&'static str>,
}

/// Position of a worker: the target, and the number of the input of each target. In a file, so that it outlives it.
pub(crate) struct Progress(File);

impl Progress {
    pub(crate) fn open(path: &Path) -> Self {
        let file = File::options().create(true).truncate(false).read(true).write(true).open(path);
        Self(file.expect("the progress can be kept in memory"))
    }

    fn word(&self, index: usize) -> u64 {
        let mut bytes = [0; 8];
        // Unwritten entries are 0.
        let _ = self.0.read_at(&mut bytes, index as u64 * 8);
        u64::from_le_bytes(bytes)
    }

    fn set_word(&self, index: usize, value: u64) {
        self.0.write_all_at(&value.to_le_bytes(), index as u64 * 8).expect("there is memory");
    }

    pub(crate) fn target(&self) -> usize {
        usize::try_from(self.word(0)).expect("it is a small number").min(TARGETS.len() - 1)
    }

    pub(crate) fn set_target(&self, target: usize) {
        self.set_word(0, target as u64);
    }

    /// The input that is next, or is being taken.
    pub(crate) fn input(&self, target: usize) -> u64 {
        self.word(target + 1)
    }

    pub(crate) fn set_input(&self, target: usize, number: u64) {
        self.set_word(target + 1, number);
    }
}

/// Input N of a target.
pub(crate) fn input(seed: u64, target: &FuzzTarget, corpus: &Corpus, number: u64) -> Vec<u8> {
    mutate::input(corpus, &mut Dice::new(seed, target.name, number))
}

/// Fuzzes all targets.
pub(crate) fn attack(options: &Options) -> Area {
    let mut area = Area::quietly("fuzz", options.plant.is_some());
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let until = Instant::now() + options.time;
    let results: Vec<(u64, Vec<Finding>)> = thread::scope(|scope| {
        let handles: Vec<_> = (0..workers)
            .map(|worker| scope.spawn(move || one_after_the_other(options, worker, workers, until)))
            .collect();
        handles.into_iter().map(|handle| handle.join().expect("a worker's watcher does not panic")).collect()
    });
    for (inputs, findings) in results {
        area.attempts += inputs;
        for finding in findings {
            area.found(finding);
        }
    }
    area.finish()
}

/// Starts a worker, and another one when it has died, until the time is over.
fn one_after_the_other(
    options: &Options,
    worker: usize,
    workers: usize,
    until: Instant,
) -> (u64, Vec<Finding>) {
    let folder = tempfile::Builder::new().prefix("fstrial-attack-").tempdir_in("/dev/shm");
    let folder = folder.expect("there is room in memory");
    let path = folder.path().join("progress");
    let progress = Progress::open(&path);
    (0..TARGETS.len()).for_each(|target| progress.set_input(target, worker as u64));
    let mut findings = Vec::new();
    for _ in 0..DEATHS {
        let done: u64 = (0..TARGETS.len()).map(|target| progress.input(target) / workers as u64).sum();
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || done >= options.inputs / workers as u64 {
            break;
        }
        let mut command = child::command(std::env::current_exe().expect("this program has a file"));
        command
            .arg("fuzz-worker")
            .arg("--seed")
            .arg(options.seed.to_string())
            .arg("--milliseconds")
            .arg(left.as_millis().to_string())
            .arg("--inputs")
            .arg((options.inputs / workers as u64 - done).to_string())
            .arg("--stride")
            .arg(workers.to_string())
            .arg("--progress")
            .arg(&path)
            .arg("--findings")
            .arg(&options.findings)
            .args(options.target.iter().flat_map(|name| ["--target", name]))
            // Files of a worker go with this folder, however the worker ends.
            .env("TMPDIR", folder.path())
            .envs(options.plant.map(|plant| ("FSTRIAL_PLANT", plant)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("this program can be started");
        let message = BufReader::new(child.stdout.take().expect("it is piped"));
        for line in message.lines().map_while(Result::ok) {
            findings.extend(serde_json::from_str::<Finding>(&line));
        }
        let status = child.wait().expect("it is our child");
        if status.success() {
            break;
        }
        let (target, number) = (progress.target(), progress.input(progress.target()));
        let how = match (status.code(), status.signal()) {
            (Some(code), _) if code == i32::from(TOO_SLOW) => "takes too long".to_owned(),
            (_, Some(signal)) => format!("ends the process by signal {signal}"),
            (code, None) => format!("ends the process with {code:?}"),
        };
        findings.push(keep(options, target, number, &how));
        progress.set_input(target, number + workers as u64);
    }
    let done = (0..TARGETS.len()).map(|target| progress.input(target) / workers as u64).sum();
    (done, findings)
}

/// Writes an input down that ended a worker.
fn keep(options: &Options, target: usize, number: u64, how: &str) -> Finding {
    let target = &TARGETS[target];
    let bytes = input(options.seed, target, &Corpus::of(target), number);
    finding(&options.findings, target, options.seed, number, how, &bytes)
}

/// Writes a finding down, with the way to see it again.
pub(crate) fn finding(
    folder: &Path,
    target: &FuzzTarget,
    seed: u64,
    number: u64,
    how: &str,
    bytes: &[u8],
) -> Finding {
    let file = folder.join(format!("{}-{seed}-{number}", target.name));
    let kept = fs::create_dir_all(folder).and_then(|()| fs::write(&file, bytes));
    let kept = kept.map_or_else(|e| format!("could not be kept: {e}"), |()| file.display().to_string());
    Finding {
        what: format!("{}: {how} ({kept})", target.name),
        again: format!("cargo xtask attack fuzz --target {} --input {number} --seed {seed}", target.name),
    }
}

/// Takes one input, of a number or from a file, with all its output.
pub(crate) fn once(name: &str, seed: u64, number: u64, file: Option<&Path>) -> Result<(), String> {
    let target = TARGETS.iter().find(|target| target.name == name);
    let target = target.ok_or_else(|| {
        format!("there is no target {name}; use one of {}", TARGETS.each_ref().map(|t| t.name).join(", "))
    })?;
    let bytes = match file {
        Some(file) => fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?,
        None => input(seed, target, &Corpus::of(target), number),
    };
    println!("{}", String::from_utf8_lossy(&bytes));
    (target.takes)(&bytes);
    Ok(())
}
