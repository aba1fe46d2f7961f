//! Preconditioning of a real disk: writing until it is in the steady state of SNIA's Solid State Storage Performance Test
//! Specification, so that no run measures how a fresh or trimmed SSD slows down.
//!
//! Two parts, both with direct I/O and data that does not compress: everything twice in sequence (for any workload),
//! then random writes of 4 KiB in rounds until five consecutive rounds are steady ([`is_snia_steady`]). The device is
//! claimed exclusively throughout.

use crate::interrupt::Interrupt;
use fstrial_model::units::{Bytes, Nanos};
use fstrial_stack::{StackError, aligned::Aligned};
use fstrial_stats::steady::{SNIA_WINDOW, is_snia_steady};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use rustix::fs::{FileType, Mode, OFlags};
use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Number of sequential passes.
const PASSES: u64 = 2;
/// Bytes of a write in sequence, as the specification has it.
const LONG: usize = 128 << 10;
/// Bytes of a random write.
const SHORT: usize = 4 << 10;
/// Writes under way at a time, in sequence and at random.
const WRITERS: (usize, usize) = (4, 32);
/// Rounds after which a device that is not steady is taken as it is.
const MAX_ROUNDS: usize = 25;
const POLL: Duration = Duration::from_millis(50);
/// Writing time before the total is estimated.
const FIRST_LOOK: Duration = Duration::from_secs(2);

/// A progress report.
#[derive(Debug, Clone, PartialEq)]
pub enum PreconditionEvent {
    /// After the first seconds: how long all of it will take, at least and at most.
    Estimate {
        /// If five rounds are enough.
        least: Nanos,
        /// If it never becomes steady.
        most: Nanos,
    },
    /// Bytes written in sequence, of bytes in all.
    Sequential(Bytes, Bytes),
    /// A round of random writes is over: its number, and writes in a second.
    Round(usize, f64),
}

/// Rate of each round of random writes, steadiness and duration.
#[derive(Debug, Clone, PartialEq)]
pub struct PreconditionResult {
    /// Writes in a second of each round of random writes.
    pub rounds: Vec<f64>,
    /// True if the last five were steady.
    pub is_steady: bool,
    /// The time it took.
    pub took: Nanos,
}

impl PreconditionResult {
    /// A note for the reader of results.
    pub fn note(&self, round: Nanos) -> String {
        let last = self.rounds.last().copied().unwrap_or_default();
        let how = if self.is_steady {
            "until the last five were steady (range at most 20 % of their mean, slope at most 10 %)"
                .to_owned()
        } else {
            format!("and NOT STEADY after {MAX_ROUNDS}: the device still changed when the trial began")
        };
        format!(
            "preconditioned in SNIA's sense in {}: everything written twice in sequence, then {} rounds of {round} of random \
             4 KiB writes, {how}; the last at {last:.0} writes/s",
            Nanos::secs(self.took.0 / 1_000_000_000),
            self.rounds.len(),
        )
    }
}

/// Writes to a device until it is steady. Everything on it is lost; the caller has made sure that it may be.
///
/// # Errors
/// It cannot be claimed or written, or the user broke it off.
pub fn run(
    device: &Path,
    size: Bytes,
    round: Nanos,
    interrupt: &Interrupt,
    tell: &mut dyn FnMut(PreconditionEvent),
) -> Result<PreconditionResult, StackError> {
    let began = Instant::now();
    let writers = Writers { file: claim(device)?, device, size: size.0, interrupt };
    writers.sequence(round, tell)?;
    let mut rounds = Vec::new();
    while rounds.len() < MAX_ROUNDS && !is_snia_steady(&rounds) {
        rounds.push(writers.random_round(rounds.len() as u64, round)?);
        tell(PreconditionEvent::Round(rounds.len(), rounds[rounds.len() - 1]));
    }
    let is_steady = is_snia_steady(&rounds);
    Ok(PreconditionResult { rounds, is_steady, took: began.elapsed().into() })
}

/// Opens a device for writing past the page cache, exclusively.
fn claim(device: &Path) -> Result<File, StackError> {
    let stat = rustix::fs::stat(device).map_err(|e| StackError::io("look at", device, e))?;
    // Of a file, exclusiveness means something else.
    let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
    let exclusive = if is_device { OFlags::EXCL } else { OFlags::empty() };
    let flags = OFlags::WRONLY | OFlags::DIRECT | OFlags::CLOEXEC | exclusive;
    let opened = rustix::fs::open(device, flags, Mode::empty());
    opened.map(File::from).map_err(|e| StackError::io("claim for preconditioning", device, e))
}

struct Writers<'a> {
    file: File,
    device: &'a Path,
    size: u64,
    interrupt: &'a Interrupt,
}

impl Writers<'_> {
    /// Everything, twice, in sequence; and the estimate after the first seconds.
    fn sequence(&self, round: Nanos, tell: &mut dyn FnMut(PreconditionEvent)) -> Result<(), StackError> {
        let blocks = self.size / LONG as u64;
        let total = Bytes(blocks * PASSES * LONG as u64);
        let next = AtomicU64::new(0);
        let claim_next = |_: &mut ChaCha8Rng| {
            let block = next.fetch_add(1, Ordering::Relaxed);
            (block < blocks * PASSES).then(|| block % blocks * LONG as u64)
        };
        let began = Instant::now();
        let mut estimated = false;
        self.write(WRITERS.0, LONG, 0, &claim_next, &mut |writes| {
            let done = writes * LONG as u64;
            tell(PreconditionEvent::Sequential(Bytes(done), total));
            if !estimated && began.elapsed() >= FIRST_LOOK {
                estimated = true;
                tell(estimate(began.elapsed(), done, total.0, round));
            }
            true
        })
        .map(drop)
    }

    /// A round of random writes; gives writes in a second.
    fn random_round(&self, number: u64, round: Nanos) -> Result<f64, StackError> {
        let blocks = (self.size / SHORT as u64).max(1);
        let began = Instant::now();
        let anywhere = |random: &mut ChaCha8Rng| Some(random.next_u64() % blocks * SHORT as u64);
        let goes_on = &mut |_| began.elapsed() < round.duration();
        let writes = self.write(WRITERS.1, SHORT, number + 1, &anywhere, goes_on)?;
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
        let rate = writes as f64 / began.elapsed().as_secs_f64();
        Ok(rate)
    }

    /// Writes with several threads at offsets from `next`, until it is exhausted or `goes_on`, called with the number
    /// of writes, returns false. Returns the number of writes.
    fn write(
        &self,
        threads: usize,
        length: usize,
        seed: u64,
        next: &(dyn Fn(&mut ChaCha8Rng) -> Option<u64> + Sync),
        goes_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<u64, StackError> {
        let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
        let one = |thread: usize| -> io::Result<()> {
            let mut random = ChaCha8Rng::seed_from_u64((seed << 16) + thread as u64);
            let mut memory = Aligned::zeroed(length);
            let buffer = memory.all_mut();
            random.fill_bytes(buffer);
            while !stop.load(Ordering::Relaxed) {
                let Some(offset) = next(&mut random) else { break };
                // No two writes alike, or a device that deduplicates would keep one.
                for page in buffer.chunks_mut(SHORT) {
                    page[..8].copy_from_slice(&random.next_u64().to_le_bytes());
                }
                if let Err(error) = self.file.write_all_at(buffer, offset) {
                    // All threads stop after that.
                    stop.store(true, Ordering::Relaxed);
                    return Err(error);
                }
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        let written = thread::scope(|scope| {
            let started: Vec<_> = (0..threads).map(|thread| scope.spawn(move || one(thread))).collect();
            while started.iter().any(|writer| !writer.is_finished()) {
                thread::park_timeout(POLL);
                if self.interrupt.is_raised() || !goes_on(done.load(Ordering::Relaxed)) {
                    stop.store(true, Ordering::Relaxed);
                }
            }
            started.into_iter().try_for_each(|writer| writer.join().expect("a writer does not panic"))
        });
        written.map_err(|e| StackError::io("write for preconditioning to", self.device, e))?;
        if self.interrupt.is_raised() {
            return Err(StackError::Interrupted);
        }
        Ok(done.into_inner())
    }
}

/// The total time, extrapolated from the beginning.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate in whole nanoseconds"
)]
fn estimate(elapsed: Duration, done: u64, total: u64, round: Nanos) -> PreconditionEvent {
    let whole = elapsed.as_secs_f64() * total as f64 / done.max(1) as f64;
    let sequence = (whole * 1e9) as u64;
    let after = |rounds: usize| Nanos(sequence.saturating_add(round.0 * rounds as u64));
    PreconditionEvent::Estimate { least: after(SNIA_WINDOW), most: after(MAX_ROUNDS) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file in the place of a device, on a disk: memory cannot do direct I/O.
    fn file(mib: u64) -> (tempfile::TempDir, std::path::PathBuf) {
        let beside = std::env::current_exe().unwrap();
        let folder = tempfile::tempdir_in(beside.parent().unwrap()).unwrap();
        let path = folder.path().join("disk");
        File::create(&path).unwrap().set_len(mib << 20).unwrap();
        (folder, path)
    }

    #[test]
    fn preconditioning_writes_twice_then_randomly_until_steady() {
        let (_folder, path) = file(4);
        let mut steps = Vec::new();
        let round = Nanos::millis(60);
        let interrupt = Interrupt::default();
        let outcome = run(&path, Bytes::mib(4), round, &interrupt, &mut |step| steps.push(step)).unwrap();
        assert!((SNIA_WINDOW..=MAX_ROUNDS).contains(&outcome.rounds.len()));
        assert_eq!(outcome.is_steady, is_snia_steady(&outcome.rounds));
        assert!(outcome.rounds.iter().all(|rate| *rate > 0.0));
        assert_eq!(
            steps.iter().filter(|step| matches!(step, PreconditionEvent::Round(..))).count(),
            outcome.rounds.len()
        );
        let last = steps.iter().rev().find_map(|step| match step {
            PreconditionEvent::Sequential(done, total) => Some((*done, *total)),
            _ => None,
        });
        assert_eq!(last.unwrap().1, Bytes::mib(8));
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes.chunks(4096).all(|page| page.iter().any(|byte| *byte != 0)), "nothing was left out");
        assert!(outcome.note(round).contains("preconditioned in SNIA's sense"));
    }

    #[test]
    fn preconditioning_can_be_interrupted() {
        let (_folder, path) = file(4);
        let interrupt = Interrupt::default();
        let ended = run(&path, Bytes::mib(4), Nanos::secs(60), &interrupt, &mut |step| {
            if matches!(step, PreconditionEvent::Sequential(..)) {
                interrupt.raise();
            }
        });
        assert!(matches!(ended, Err(StackError::Interrupted)), "{ended:?}");
    }

    #[test]
    fn the_estimate_counts_both_parts() {
        let PreconditionEvent::Estimate { least, most } =
            estimate(Duration::from_secs(2), 100 << 20, 1000 << 20, Nanos::secs(60))
        else {
            panic!("no estimate")
        };
        assert_eq!((least, most), (Nanos::secs(20 + 5 * 60), Nanos::secs(20 + 25 * 60)));
    }

    #[test]
    fn error_names_unwritable_device() {
        let gone = run(
            Path::new("/dev/nonesuch"),
            Bytes::mib(1),
            Nanos::secs(1),
            &Interrupt::default(),
            &mut |_| (),
        );
        assert!(gone.unwrap_err().to_string().contains("/dev/nonesuch"));
    }
}
