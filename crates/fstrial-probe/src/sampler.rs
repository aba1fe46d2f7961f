//! Evidence from /proc, where the kernel loads no programs: times on a processor and waiting for one are counted by the kernel, and
//! the places of waits are samples of the threads' stacks.

use crate::{ProbeError, now};
use fstrial_model::{
    evidence::{Activity, Evidence, Wait},
    units::Nanos,
};
use rustix::time::{ClockId, clock_gettime};
use std::{
    collections::BTreeMap,
    fs, io, mem,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

/// Threads of this process.
const THREADS: &str = "/proc/self/task";
/// Time between two samples: not a divisor of the kernel's tick.
const STEP: Duration = Duration::from_micros(4700);
/// The function that every waiting thread is in, and that the kernel leaves out of its stacks.
const INNERMOST: &str = "__schedule";

/// A thread that looks at the other threads of this process.
#[derive(Debug)]
pub(crate) struct Sampler {
    shared: Arc<Mutex<Seen>>,
    looker: Option<JoinHandle<()>>,
    /// The reason for it.
    instead_of: String,
}

#[derive(Debug, Default)]
struct Seen {
    stage: Stage,
    from: u64,
    to: u64,
    threads: BTreeMap<PathBuf, Thread>,
    /// Processor time of the sampler until its end.
    cost: Duration,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    #[default]
    Before,
    Within,
    Over,
}

/// A thread in the measured time.
#[derive(Debug, Default)]
struct Thread {
    group: String,
    /// Time on a processor and waiting for one, at its first sample and at its last.
    first: [u64; 2],
    last: [u64; 2],
    /// The time of the last sample.
    seen: u64,
    /// Samples of it waiting, by stack.
    waits: BTreeMap<Vec<String>, u64>,
}

impl Sampler {
    /// Starts to look, instead of programs that cannot be used for this reason.
    ///
    /// # Errors
    /// Stacks cannot be read: no rights.
    pub(crate) fn start(instead_of: &ProbeError) -> Result<Self, ProbeError> {
        let own = "/proc/self/stack";
        fs::read(own).map_err(|error| ProbeError::NotRead(own, error))?;
        let counted = read(Path::new("/proc/self"), "schedstat").ok().as_deref().and_then(times);
        if counted.is_none_or(|[running, _]| running == 0) {
            return Err(ProbeError::NotCounted);
        }
        let shared = Arc::new(Mutex::new(Seen::default()));
        let looked_at = Arc::clone(&shared);
        let looker = thread::Builder::new().name("looker".into()).spawn(move || look(&looked_at));
        let looker = looker.map_err(|error| ProbeError::NotRead(THREADS, error))?;
        Ok(Self { shared, looker: Some(looker), instead_of: instead_of.to_string() })
    }

    pub(crate) fn begin(&mut self) {
        self.pass(Stage::Within);
    }

    pub(crate) fn end(&mut self) {
        self.pass(Stage::Over);
    }

    fn pass(&mut self, stage: Stage) {
        let mut seen = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        match stage {
            Stage::Before => {}
            Stage::Within => seen.from = now(),
            Stage::Over => seen.to = now(),
        }
        // Of threads that end in a moment too.
        seen.sample();
        seen.stage = stage;
    }

    pub(crate) fn evidence(mut self) -> Evidence {
        self.stop();
        let mut seen = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let mut groups: BTreeMap<String, Activity> = BTreeMap::new();
        for thread in mem::take(&mut seen.threads).into_values() {
            let group = groups.entry(thread.group.clone()).or_default();
            thread.add_to(group, seen.from);
        }
        let named = |(name, group)| Activity { name, ..group };
        Evidence {
            duration: Nanos(seen.to.saturating_sub(seen.from)),
            threads: groups.into_iter().map(named).collect(),
            cost: Some(Nanos::from(seen.cost)),
            missing: Some(format!(
                "{}; so waits are samples of /proc without functions of the scheduler and locks, time on a processor is not divided, \
                 and other threads and phases of requests are unknown",
                self.instead_of
            )),
            ..Evidence::default()
        }
    }

    fn stop(&mut self) {
        if self.shared.lock().unwrap_or_else(PoisonError::into_inner).stage != Stage::Over {
            self.pass(Stage::Over);
        }
        if let Some(looker) = self.looker.take() {
            looker.thread().unpark();
            let _ = looker.join();
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        if self.looker.is_some() {
            self.stop();
        }
    }
}

/// Looks until the measured time is over.
fn look(shared: &Mutex<Seen>) {
    loop {
        let mut seen = shared.lock().unwrap_or_else(PoisonError::into_inner);
        match seen.stage {
            Stage::Before => {}
            Stage::Within => seen.sample(),
            Stage::Over => {
                let time = clock_gettime(ClockId::ThreadCPUTime);
                seen.cost = Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32);
                return;
            }
        }
        drop(seen);
        thread::park_timeout(STEP);
    }
}

impl Seen {
    /// Adds a sample of every thread in the measured time.
    fn sample(&mut self) {
        if self.from == 0 || self.stage == Stage::Over {
            return;
        }
        let now = now();
        for folder in fs::read_dir(THREADS).into_iter().flatten().flatten().map(|entry| entry.path()) {
            let Some(times) = read(&folder, "schedstat").ok().as_deref().and_then(times) else { continue };
            let thread = self.threads.entry(folder.clone()).or_insert_with(|| {
                let name = read(&folder, "comm").unwrap_or_default();
                Thread { group: group(name.trim()).to_owned(), first: times, ..Thread::default() }
            });
            (thread.last, thread.seen) = (times, now);
            let is_waiting = read(&folder, "stat").is_ok_and(|stat| is_waiting(&stat));
            if let Some(stack) = is_waiting.then(|| read(&folder, "stack").ok()).flatten() {
                *thread.waits.entry(frames(&stack)).or_default() += 1;
            }
        }
    }
}

impl Thread {
    /// Adds its time to that of its group: what is neither on a processor nor waiting for one is divided by the samples.
    fn add_to(self, group: &mut Activity, from: u64) {
        let [running, runnable] =
            [0, 1].map(|index: usize| self.last[index].saturating_sub(self.first[index]));
        group.running.0 += running;
        group.runnable.0 += runnable;
        let waiting = self.seen.saturating_sub(from).saturating_sub(running + runnable);
        let samples: u64 = self.waits.values().sum();
        for (frames, count) in self.waits {
            let time = Nanos((u128::from(waiting) * u128::from(count) / u128::from(samples)) as u64);
            match group.waits.iter_mut().find(|wait| wait.frames == frames) {
                Some(wait) => (wait.time.0, wait.count) = (wait.time.0 + time.0, wait.count + count),
                None => group.waits.push(Wait { frames, time, count }),
            }
        }
    }
}

fn read(folder: &Path, name: &str) -> io::Result<String> {
    fs::read_to_string(folder.join(name))
}

/// `schedstat`: nanoseconds on a processor, and waiting for one.
fn times(schedstat: &str) -> Option<[u64; 2]> {
    let mut numbers = schedstat.split_whitespace().map(|number| number.parse().ok());
    Some([numbers.next()??, numbers.next()??])
}

/// The state is behind the name, which may have any letters: `12 (load0-1) D 1 …`.
fn is_waiting(stat: &str) -> bool {
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['D', 'S', 'I']))
}

/// The group of a thread, `load0` of `load0-3`.
fn group(name: &str) -> &str {
    name.split_once('-').map_or(name, |(group, _)| group)
}

/// `[<0>] jbd2_log_wait_commit+0xbd/0x110`, the innermost first.
fn frames(stack: &str) -> Vec<String> {
    let function = |line: &str| Some(line.split_once("] ")?.1.split_once('+')?.0.to_owned());
    std::iter::once(INNERMOST.to_owned()).chain(stack.lines().filter_map(function)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn files_of_a_thread_are_understood() {
        assert_eq!(times("1200 34 5\n"), Some([1200, 34]));
        assert_eq!(times(""), None);
        assert!(is_waiting("12 (a) b) D 1 2"));
        assert!(!is_waiting("12 (D 1) R 1 2"));
        assert_eq!(group("load0-3"), "load0");
        let stack = "[<0>] jbd2_log_wait_commit+0xbd/0x110\n[<0>] ext4_sync_file+0x1c4/0x3a0\n[<0>] 0xffff\n";
        assert_eq!(frames(stack), ["__schedule", "jbd2_log_wait_commit", "ext4_sync_file"]);
    }

    #[test]
    fn what_follows_the_end_does_not_count() {
        let before = now();
        let mut sampler = match Sampler::start(&ProbeError::Hidden) {
            Ok(sampler) => sampler,
            Err(error) => {
                let _ = writeln!(io::stderr(), "SKIPPED what_follows_the_end_does_not_count: {error}");
                return;
            }
        };
        sampler.begin();
        sampler.end();
        let after = now();
        thread::park_timeout(STEP * 4);
        assert!(sampler.evidence().duration <= Nanos(after - before));
    }

    #[test]
    fn time_that_no_counter_has_is_divided_by_samples() {
        let frames = |name: &str| vec![INNERMOST.to_owned(), name.to_owned()];
        let thread = Thread {
            first: [100, 10],
            last: [400, 110],
            seen: 2000,
            waits: BTreeMap::from([(frames("a"), 3), (frames("b"), 1)]),
            ..Thread::default()
        };
        let mut group = Activity::default();
        thread.add_to(&mut group, 1000);
        assert_eq!((group.running, group.runnable), (Nanos(300), Nanos(100)));
        assert_eq!(group.waits.iter().map(|wait| wait.time.0).collect::<Vec<_>>(), [450, 150]);
        assert_eq!(group.accounted(), Nanos(1000));
    }
}
