//! Those that are compared, each with the same load: how it is started and how its answer is read.

use fstrial_engine::{Target, prepare};
use fstrial_model::{
    job,
    units::{Bytes, Nanos, Percent},
    workload::{Backend, Data, FileSet, FileStep, Io, Pattern, SetName, Until},
};
use std::{
    error::Error,
    fmt,
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

const BLOCK: u64 = 4096;
const FILE_SIZE: u64 = 16 << 20;
const DEPTH: u16 = 32;
/// Before the measured time of each slice; sysbench has none shorter than a second, and goes without.
const WARMUP_MS: u64 = 20;
/// sysbench takes a number of requests, as its time is in whole seconds: about a slice's, at this rate.
const SYSBENCH_NS: u64 = 800;

/// Kind of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `pread`.
    Read,
    /// `pwrite` of the same page each time, which stays in the nearest cache.
    Write,
    /// `pwrite` of a page that was not written before, as fstrial's loads do, so that nothing deduplicates.
    Fresh,
    /// Reads by `io_uring`, 32 at a time.
    Ring,
    /// Make a file, write 4 KiB, close it, delete the one before.
    Files,
}

/// A row's work.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) kind: Kind,
    pub(crate) threads: u16,
    pub(crate) place: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contender {
    Fstrial,
    Bare,
    Fio,
    Sysbench,
}

impl Contender {
    pub(crate) const ALL: [Self; 4] = [Self::Fstrial, Self::Bare, Self::Fio, Self::Sysbench];

    /// True if it has such a load at all.
    pub(crate) fn can(self, kind: Kind) -> bool {
        match self {
            Self::Fstrial | Self::Bare => true,
            Self::Fio => !matches!(kind, Kind::Files | Kind::Fresh),
            Self::Sysbench => matches!(kind, Kind::Read | Kind::Write),
        }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Fstrial => "fstrial",
            Self::Bare => "bare C",
            Self::Fio => "fio",
            Self::Sysbench => "sysbench",
        })
    }
}

/// Result of one slice, in nanoseconds per operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Time that went by, over the number of operations of all threads.
    pub(crate) ns: f64,
    /// The same without the time that a thread was kept from its processor. None of these loads ever waits,
    /// so on an otherwise idle machine the two agree. sysbench does not report it.
    pub(crate) cpu_ns: Option<f64>,
}

/// Which contenders are here, and how long each may run.
pub(crate) struct Tools {
    bare: PathBuf,
    slice_ms: u64,
    /// Each with its version, or with the reason why it is missing.
    found: Vec<(Contender, Result<String, String>)>,
}

impl Tools {
    /// Builds the bare loop in `folder`. The other tools take seconds to start, so only a full bench has them.
    pub(crate) fn find(folder: &Path, slice_ms: u64, full: bool) -> Self {
        let bare = folder.join("bare");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/bare.c");
        let tell = |result: Outcome<String>| match result {
            Ok(text) => Ok(text.trim().lines().next().unwrap_or_default().to_owned()),
            Err(error) => Err(error.to_string()),
        };
        let ask = |program: &str| match full {
            true => tell(run(program, &["--version"], folder)),
            false => Err("only in a full bench".into()),
        };
        let paths = [source.to_string_lossy(), bare.to_string_lossy()];
        let build = run("cc", &["-O2", "-Wall", "-pthread", &paths[0], "-o", &paths[1]], folder);
        let found = vec![
            (Contender::Fstrial, Ok(env!("CARGO_PKG_VERSION").into())),
            (Contender::Bare, tell(build)),
            (Contender::Fio, ask("fio")),
            (Contender::Sysbench, ask("sysbench")),
        ];
        Self { bare, slice_ms, found }
    }

    pub(crate) fn present(&self) -> Vec<Contender> {
        self.found.iter().filter(|(_, found)| found.is_ok()).map(|(contender, _)| *contender).collect()
    }

    pub(crate) fn missing(&self) -> impl Iterator<Item = (Contender, &str)> {
        self.found.iter().filter_map(|(who, found)| Some((*who, found.as_ref().err()?.as_str())))
    }

    /// The order of a round, as text.
    pub(crate) fn order(&self) -> String {
        let names: Vec<String> = self.present().iter().map(ToString::to_string).collect();
        let back: Vec<String> = names.iter().rev().cloned().collect();
        format!("{}, {}", names.join(", "), back.join(", "))
    }

    /// One slice.
    pub(crate) fn measure(&self, contender: Contender, load: &Load) -> Outcome<Sample> {
        let folder = tempfile::tempdir_in(&load.place)?;
        let (path, kind) = (folder.path(), load.kind);
        if contender == Contender::Fstrial {
            return self.fstrial(load, path);
        }
        // The name that sysbench looks for. Written as fstrial does it: the length of writes decides the size of the
        // page cache's folios, and that the time of a copy.
        let file = path.join("test_file.0");
        if kind != Kind::Files {
            lay_out(&file)?;
        }
        match contender {
            Contender::Fio => self.fio(load, &file, path),
            Contender::Sysbench => self.sysbench(load, path),
            _ => self.bare(load, if kind == Kind::Files { path } else { &file }, path),
        }
    }

    fn fstrial(&self, load: &Load, path: &Path) -> Outcome<Sample> {
        let writes = matches!(load.kind, Kind::Write | Kind::Fresh);
        let reads = Percent(if writes { 0.0 } else { 100.0 });
        let io = Io { reads, block_size: Bytes(BLOCK), total_size: Bytes(FILE_SIZE), ..Io::default() };
        let pattern = match load.kind {
            Kind::Files => Pattern::Files(FileSet {
                files: 1,
                file_size: Bytes(BLOCK),
                steps: vec![FileStep::Create, FileStep::Write, FileStep::Delete],
            }),
            Kind::Ring => Pattern::Io(Io { backend: Backend::IoUring, depth: DEPTH, ..io }),
            _ => Pattern::Io(io),
        };
        let job = job::Load {
            pattern,
            set: SetName::load(),
            until: Until::Time,
            rate: None,
            threads: load.threads,
            warmup: Nanos::millis(WARMUP_MS),
            duration: Nanos::millis(self.slice_ms),
            seed: 1,
            data: if load.kind == Kind::Write { Data::Zero } else { Data::Random },
            handicap: Percent(0.0),
        };
        let result = prepare(&job, Target::Directory(path))?.run(&mut |_| {})?;
        if let Some(error) = result.first_error {
            return Err(error.into());
        }
        let cpu_ns = (result.cpu_user.0 + result.cpu_system.0) as f64 / f64::from(load.threads);
        let operations = result.operations.max(1) as f64;
        Ok(Sample { ns: result.duration.0 as f64 / operations, cpu_ns: Some(cpu_ns / operations) })
    }

    fn bare(&self, load: &Load, target: &Path, folder: &Path) -> Outcome<Sample> {
        let mode = match load.kind {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Fresh => "fresh",
            Kind::Ring => "uring",
            Kind::Files => "files",
        };
        let words = [
            mode,
            &target.to_string_lossy(),
            &load.threads.to_string(),
            &WARMUP_MS.to_string(),
            &self.slice_ms.to_string(),
        ];
        let answer = run(&self.bare.to_string_lossy(), &words, folder)?;
        let numbers = answer.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        let [operations, seconds, cpu_seconds] = numbers[..] else {
            return Err("no answer of the bare loop".into());
        };
        Ok(Sample { ns: seconds * 1e9 / operations, cpu_ns: Some(cpu_seconds * 1e9 / operations) })
    }

    /// fio as it is fastest with all its latencies on: one engine thread for each of ours, no map of visited blocks,
    /// and with `io_uring` everything registered and handed over 32 at a time.
    fn fio(&self, load: &Load, file: &Path, folder: &Path) -> Outcome<Sample> {
        let mut words: Vec<String> = [
            "--name=bar --thread --group_reporting --output-format=json --size=16m --bs=4k --invalidate=0",
            "--norandommap --fallocate=none --gtod_reduce=0 --time_based",
        ]
        .iter()
        .flat_map(|line| line.split(' '))
        .map(str::to_owned)
        .collect();
        words.push(format!("--filename={}", file.display()));
        words.push(format!("--numjobs={}", load.threads));
        words.push(format!("--ramp_time={WARMUP_MS}ms"));
        words.push(format!("--runtime={}ms", self.slice_ms));
        words.push(format!("--rw={}", if load.kind == Kind::Write { "randwrite" } else { "randread" }));
        let ring = "--ioengine=io_uring --iodepth=32 --iodepth_batch_submit=32 --iodepth_batch_complete_min=1 \
                    --iodepth_batch_complete_max=32 --fixedbufs=1 --registerfiles=1 --sqthread_poll=0";
        let engine = if load.kind == Kind::Ring { ring } else { "--ioengine=psync" };
        words.extend(engine.split_whitespace().map(str::to_owned));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let answer: serde_json::Value = serde_json::from_str(&run("fio", &words, folder)?)?;
        let job = &answer["jobs"][0];
        let of = &job[if load.kind == Kind::Write { "write" } else { "read" }];
        let number = |of: &serde_json::Value, name: &str| {
            of[name].as_f64().filter(|n| *n > 0.0).ok_or(format!("fio says no {name}"))
        };
        let ns = number(of, "runtime")? * 1e6 / number(of, "total_ios")?;
        // In percent of the time of all threads.
        let cpu = (number(job, "usr_cpu")? + number(job, "sys_cpu")?) / 100.0;
        Ok(Sample { ns, cpu_ns: Some(ns * cpu) })
    }

    fn sysbench(&self, load: &Load, folder: &Path) -> Outcome<Sample> {
        let mode = if load.kind == Kind::Write { "rndwr" } else { "rndrd" };
        let events = self.slice_ms * 1_000_000 / SYSBENCH_NS * u64::from(load.threads);
        let answer = run(
            "sysbench",
            &[
                "fileio",
                "--file-num=1",
                &format!("--file-total-size={FILE_SIZE}"),
                &format!("--file-block-size={BLOCK}"),
                &format!("--file-test-mode={mode}"),
                "--file-io-mode=sync",
                "--file-fsync-freq=0",
                "--file-fsync-end=off",
                &format!("--threads={}", load.threads),
                &format!("--events={events}"),
                "--time=0",
                "run",
            ],
            folder,
        )?;
        let number = |name: &str| -> Outcome<f64> {
            let line = answer.lines().find_map(|line| line.trim().strip_prefix(name));
            Ok(line.ok_or(format!("sysbench says no {name}"))?.trim().trim_end_matches('s').parse()?)
        };
        let ns = number("total time:")? * 1e9 / number("total number of events:")?;
        Ok(Sample { ns, cpu_ns: None })
    }
}

/// A file of random-looking bytes, written 1 MiB at a time, and synced.
fn lay_out(path: &Path) -> Outcome<()> {
    let mut word = 0x9e37_79b9_7f4a_7c15_u64;
    let mut file = File::create_new(path)?;
    for _ in 0..FILE_SIZE >> 20 {
        let mut chunk = Vec::with_capacity(1 << 20);
        while chunk.len() < 1 << 20 {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            chunk.extend_from_slice(&word.to_ne_bytes());
        }
        file.write_all(&chunk)?;
    }
    Ok(file.sync_all()?)
}

/// Runs a program to its end; returns its output, or the reason of its failure.
#[expect(clippy::disallowed_methods, reason = "starts the tools that are compared")]
fn run(program: &str, words: &[&str], folder: &Path) -> Outcome<String> {
    let output = Command::new(program)
        .args(words)
        .current_dir(folder)
        .output()
        .map_err(|error| format!("cannot start {program}: {error}"))?;
    if !output.status.success() {
        let message =
            [output.stderr, output.stdout].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        return Err(format!("{program} {}: {}\n{}", words.join(" "), output.status, message.concat()).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
