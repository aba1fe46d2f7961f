//! Evidence from the kernel. An [`Observer`] observes the threads of this process's namespace and those below it, with programs in
//! the kernel (eBPF) that add up times by stack: nothing is sent for each event. Without them it samples /proc.
//!
//! `threads.bpf.o` is what clang makes of `threads.bpf.c`, committed so that a build needs no clang; a test compiles it again
//! and compares.

mod sampler;

use aya::{
    Btf, Ebpf, EbpfLoader, include_bytes_aligned,
    maps::{Array, HashMap as KernelMap, MapError, PerCpuArray},
    programs::{
        BtfTracePoint, PerfEvent, Program, ProgramError,
        perf_event::{PerfEventConfig, PerfEventScope, SamplePolicy, SoftwareEvent},
    },
    sys::{Stats, enable_stats},
    util::{kernel_symbols, online_cpus},
};
use fstrial_model::{
    counter::{Counter, Counters},
    evidence::{Activity, Evidence, Sample, Wait},
    units::Nanos,
};
use rustix::{
    process::{Resource, Rlimit, setrlimit},
    time::{ClockId, clock_gettime},
};
use sampler::Sampler;
use std::{
    collections::BTreeMap,
    io,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    time::Duration,
};

/// Samples per second of each processor: not a divisor of the kernel's tick.
const SAMPLES: u64 = 499;
/// Any kernel has more functions; where their addresses are hidden all have one.
const SYMBOLS: usize = 1000;
/// Time in which a thread that has ended leaves its processor.
const LEAVES: Duration = Duration::from_millis(20);
/// Frames of a stack.
const FRAMES: usize = 40;
/// At most as many of them are the observer's.
const OWN: usize = 10;
/// Words of a group: the kind, and two of the name.
const GROUP: usize = 3;
/// Words of a key of `amounts`: the group, and the frames.
const KEY: usize = GROUP + FRAMES;
/// Words of a processor's row: its last switch, what it lost, a key.
const PROCESSOR: usize = 2 + KEY;

/// The kernel's programs, and the tracepoints that they are for.
const TRACEPOINTS: [&str; 2] = ["sched_switch", "sched_wakeup"];
/// Those about requests, and those about commits: without them counters are unknown, and no more. They are of parts of the kernel that may
/// be missing, or a module. What ends comes first, so that nothing begins that does not end.
const OPTIONAL: [&[&str]; 2] = [
    &["block_rq_complete", "block_rq_issue"],
    &["jbd2_end_commit", "jbd2_commit_logging", "jbd2_commit_flushing", "jbd2_start_commit"],
];
/// The programs' devices at most.
const DEVICES: usize = 8;
/// The events in threads.bpf.c, in their order: which of the optional programs they are of, and the counters of their time and of their
/// number.
const EVENTS: [(usize, Option<Counter>, Option<Counter>); 9] = [
    (0, Some(Counter::DeviceQueueTime), Some(Counter::DeviceQueued)),
    (0, Some(Counter::DeviceServiceTime), Some(Counter::DeviceServed)),
    (0, Some(Counter::DeviceSent), Some(Counter::DeviceWrites)),
    (0, Some(Counter::DeviceDistance), Some(Counter::DeviceMoves)),
    (0, None, Some(Counter::DeviceForced)),
    (0, Some(Counter::DeviceBusy), None),
    (1, Some(Counter::CommitLocking), None),
    (1, Some(Counter::CommitFlushing), None),
    (1, Some(Counter::CommitLogging), None),
];

/// Evidence that cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The kernel has no description of its types.
    #[error("the kernel has no type information (/sys/kernel/btf/vmlinux): {0}")]
    NoTypes(#[from] aya::BtfError),
    /// The programs cannot be loaded.
    #[error("the programs cannot be loaded: {0}")]
    NotLoaded(#[from] aya::EbpfError),
    /// A program is refused, or its tracepoint does not exist.
    #[error("the kernel refuses a program: {0}")]
    Refused(#[from] ProgramError),
    /// A table of the kernel cannot be used.
    #[error("a table of the kernel cannot be used: {0}")]
    NoTable(#[from] MapError),
    /// The addresses of functions are hidden.
    #[error("the addresses of the kernel's functions are hidden (kernel.kptr_restrict)")]
    Hidden,
    /// The kernel does not count the time of threads.
    #[error("the kernel does not count the time of threads (CONFIG_SCHED_INFO)")]
    NotCounted,
    /// A file cannot be read.
    #[error("could not read {0}: {1}")]
    NotRead(&'static str, #[source] io::Error),
}

/// Observes a load: by programs in the kernel, or else by what /proc says.
#[derive(Debug)]
pub struct Observer(Means);

#[derive(Debug)]
enum Means {
    Programs(Box<Tracer>),
    Samples(Sampler),
}

impl Observer {
    /// Starts to observe, and to time requests to some devices, by their numbers in the kernel. Nothing counts before
    /// [`begin`](Self::begin).
    ///
    /// # Errors
    /// Neither programs nor stacks in /proc: no rights.
    pub fn start(devices: &[u32]) -> Result<Self, ProbeError> {
        let programs = Tracer::start(devices).map(|tracer| Means::Programs(Box::new(tracer)));
        programs.or_else(|error| Sampler::start(&error).map(Means::Samples)).map(Self)
    }

    /// The measured time begins now.
    ///
    /// # Errors
    /// A table of the kernel cannot be written.
    pub fn begin(&mut self) -> Result<(), ProbeError> {
        match &mut self.0 {
            Means::Programs(tracer) => tracer.begin()?,
            Means::Samples(sampler) => sampler.begin(),
        }
        Ok(())
    }

    /// The measured time ends now.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn end(&mut self) -> Result<(), ProbeError> {
        match &mut self.0 {
            Means::Programs(tracer) => tracer.end()?,
            Means::Samples(sampler) => sampler.end(),
        }
        Ok(())
    }

    /// The evidence of the measured time. A wait counts once it is over: the threads of interest have ended by now.
    ///
    /// # Errors
    /// A table or the symbols of the kernel cannot be read.
    pub fn evidence(self) -> Result<Evidence, ProbeError> {
        match self.0 {
            Means::Programs(tracer) => tracer.evidence(),
            Means::Samples(sampler) => Ok(sampler.evidence()),
        }
    }
}

/// Programs at work in the kernel; they go with it.
#[derive(Debug)]
struct Tracer {
    programs: Ebpf,
    /// Those of the optional programs that are at work.
    optional: [bool; 2],
    /// Names of the kernel's functions by their addresses.
    symbols: BTreeMap<u64, String>,
    /// Monotonic time of the beginning and the end of the measured time.
    window: [u64; 2],
    /// Time of the programs before the measured time, and from then to its end; none if the kernel does not count it.
    cost: Option<[Duration; 2]>,
    /// While it is open the kernel counts the time of programs.
    _counts: Option<OwnedFd>,
}

impl Tracer {
    fn start(devices: &[u32]) -> Result<Self, ProbeError> {
        let namespace = std::fs::metadata("/proc/self/ns/pid");
        let namespace = namespace.map_err(|error| ProbeError::NotRead("/proc/self/ns/pid", error))?.ino();
        // Numbers of namespaces have 32 bits.
        let namespace = u32::try_from(namespace).unwrap_or_default();
        let symbols = kernel_symbols().map_err(|error| ProbeError::NotRead("/proc/kallsyms", error))?;
        let symbols: BTreeMap<u64, String> =
            symbols.into_iter().map(|(address, name)| (address, without_module(&name).to_owned())).collect();
        if symbols.len() < SYMBOLS {
            return Err(ProbeError::Hidden);
        }
        let types = Btf::from_sys_fs()?;
        // Before Linux 5.11 tables count as locked memory.
        let unlimited = Rlimit { current: None, maximum: None };
        let _ = setrlimit(Resource::Memlock, unlimited);
        let mut loader = EbpfLoader::new();
        let mut numbers = [0; DEVICES];
        // Of more devices a part would be timed.
        let timed = if devices.len() <= DEVICES { devices } else { &[] };
        numbers.iter_mut().zip(timed).for_each(|(number, device)| *number = *device);
        loader.btf(Some(&types)).override_global("pid_namespace", &namespace, true);
        loader.override_global("devices", &numbers, true);
        let mut programs = loader.load(include_bytes_aligned!("threads.bpf.o"))?;
        let mut optional = attach(&mut programs, &types)?;
        optional[0] &= !timed.is_empty();
        // Since Linux 5.8.
        let counts = enable_stats(Stats::RunTime).ok();
        let cost = counts.as_ref().map(|_| [Duration::ZERO; 2]);
        let mut tracer = Self { programs, optional, symbols, window: [u64::MAX; 2], cost, _counts: counts };
        tracer.set_window()?;
        Ok(tracer)
    }

    fn begin(&mut self) -> Result<(), ProbeError> {
        let before = self.run_time()?;
        self.cost.iter_mut().for_each(|cost| cost[0] = before);
        self.window = [now(), u64::MAX];
        self.set_window()
    }

    fn end(&mut self) -> Result<(), ProbeError> {
        self.window[1] = now();
        self.set_window()?;
        let all = self.run_time()?;
        self.cost.iter_mut().for_each(|cost| cost[1] = all.saturating_sub(cost[0]));
        Ok(())
    }

    /// Time of all programs since they were loaded.
    fn run_time(&self) -> Result<Duration, ProbeError> {
        let time = |program: &Program| match program.info() {
            Ok(info) => Ok(info.run_time()),
            // An optional one.
            Err(ProgramError::NotLoaded) => Ok(Duration::ZERO),
            Err(error) => Err(error.into()),
        };
        self.programs.programs().map(|(_, program)| time(program)).sum()
    }

    /// Counters of the optional programs.
    fn counters(&self) -> Result<Counters, ProbeError> {
        let events: Array<_, [u64; 2]> =
            Array::try_from(self.programs.map("events").expect("it is declared"))?;
        let mut all = Vec::new();
        for (index, (of, time_of, number_of)) in (0..).zip(EVENTS).filter(|(_, (of, ..))| self.optional[*of])
        {
            let [time, count] = events.get(&index, 0)?;
            let time = if time_of == Some(Counter::DeviceBusy) { time + self.still_busy()? } else { time };
            // Commits without any are those of another filesystem.
            let is_known = of == 0 || count > 0;
            let known = [(time_of, time), (number_of, count)].into_iter().filter(|_| is_known);
            all.extend(known.filter_map(|(counter, value)| Some((counter?, Some(value)))));
        }
        let counters: Counters = all.into_iter().collect();
        let phases = [Counter::CommitLocking, Counter::CommitFlushing, Counter::CommitLogging];
        let commits =
            phases.into_iter().filter_map(|phase| counters.get(phase)).reduce(|sum, time| sum + time);
        Ok(counters.with(Counter::CommitTime, commits))
    }

    /// Time in the window since when the devices have a request that is not over.
    fn still_busy(&self) -> Result<u64, ProbeError> {
        let in_flight: Array<_, [u64; 2]> =
            Array::try_from(self.programs.map("in_flight").expect("it is declared"))?;
        let [since, count] = in_flight.get(&0, 0)?;
        let [from, to] = self.window;
        Ok(if count > 0 { to.saturating_sub(since.max(from)) } else { 0 })
    }

    fn set_window(&mut self) -> Result<(), ProbeError> {
        let mut window: Array<_, [u64; 2]> =
            Array::try_from(self.programs.map_mut("window").expect("it is declared"))?;
        Ok(window.set(0, self.window, 0)?)
    }

    fn evidence(self) -> Result<Evidence, ProbeError> {
        // A thread has been joined a moment before it leaves its processor for the last time.
        std::thread::park_timeout(LEAVES);
        let mut groups: BTreeMap<(bool, String), Group> = BTreeMap::new();
        let mut add = |group: [u64; GROUP], frames: &[u64], [time, count]: [u64; 2]| {
            let is_of_others = group[0] & OF_OTHERS != 0;
            let known = groups.entry((is_of_others, name_in(&group))).or_default();
            known.add(group[0] & !OF_OTHERS, frames_in(frames, &self.symbols), time, count);
        };
        for table in ["amounts", "samples"] {
            let table = self.programs.map(table).expect("it is declared");
            let table: KernelMap<_, [u64; KEY], [u64; 2]> = KernelMap::try_from(table)?;
            for amount in table.iter() {
                let (key, amount) = amount?;
                let (group, frames) = key.split_first_chunk().expect("a key begins with its group");
                add(*group, frames, amount);
            }
        }
        let totals: KernelMap<_, [u64; GROUP], [u64; 2]> =
            KernelMap::try_from(self.programs.map("totals").expect("it is declared"))?;
        for amount in totals.iter() {
            let (group, amount) = amount?;
            add(group, &[], amount);
        }
        let processors: PerCpuArray<_, [u64; PROCESSOR]> =
            PerCpuArray::try_from(self.programs.map("processors").expect("it is declared"))?;
        let lost = processors.get(&0, 0)?.iter().map(|row| row[1]).sum();
        let [from, to] = self.window;
        let (mut threads, mut other_threads) = (Vec::new(), Vec::new());
        for ((is_of_others, name), group) in groups {
            let all = if is_of_others { &mut other_threads } else { &mut threads };
            all.push(group.activity(name));
        }
        Ok(Evidence {
            duration: Nanos(to.saturating_sub(from)),
            threads,
            other_threads,
            counters: self.counters()?,
            lost,
            cost: self.cost.map(|[_, time]| Nanos::from(time)),
            missing: None,
        })
    }
}

/// Loads and attaches the programs; true for the optional ones that it could.
fn attach(programs: &mut Ebpf, types: &Btf) -> Result<[bool; 2], ProbeError> {
    let mut attach_one = |name: &str| -> Result<(), ProgramError> {
        let program: &mut BtfTracePoint = programs.program_mut(name).expect("it is declared").try_into()?;
        program.load(name, types)?;
        program.attach().map(drop)
    };
    TRACEPOINTS.iter().try_for_each(|name| attach_one(name))?;
    let optional = OPTIONAL.map(|all| all.iter().all(|name| attach_one(name).is_ok()));
    let sampler: &mut PerfEvent = programs.program_mut("sample").expect("it is declared").try_into()?;
    sampler.load()?;
    let processors = online_cpus().map_err(|(path, error)| ProbeError::NotRead(path, error))?;
    for cpu in processors {
        sampler.attach(
            PerfEventConfig::Software(SoftwareEvent::CpuClock),
            PerfEventScope::AllProcessesOneCpu { cpu },
            SamplePolicy::Frequency(SAMPLES),
            false,
        )?;
    }
    Ok(optional)
}

/// Kinds of amounts, as in threads.bpf.c.
const RUNS: u64 = 0;
const WAITS: u64 = 1;
const QUEUES: u64 = 2;
const PREEMPTED: u64 = 3;
const SAMPLED: u64 = 4;
const MIGRATED: u64 = 5;
const OF_OTHERS: u64 = 8;

/// Amounts of a group of threads.
#[derive(Debug, Default)]
struct Group {
    running: u64,
    runnable: u64,
    preempted: u64,
    migrated: u64,
    /// By stack: time and number.
    waits: BTreeMap<Vec<String>, (u64, u64)>,
    samples: BTreeMap<Vec<String>, u64>,
}

impl Group {
    fn add(&mut self, kind: u64, frames: Vec<String>, time: u64, count: u64) {
        match kind {
            RUNS => self.running += time,
            QUEUES => self.runnable += time,
            PREEMPTED => self.preempted += count,
            MIGRATED => self.migrated += count,
            WAITS => {
                let wait = self.waits.entry(frames).or_default();
                *wait = (wait.0 + time, wait.1 + count);
            }
            SAMPLED => *self.samples.entry(frames).or_default() += count,
            _ => unreachable!("the program has six kinds"),
        }
    }

    fn activity(self, name: String) -> Activity {
        let wait = |(frames, (time, count))| Wait { frames, time: Nanos(time), count };
        let mut waits: Vec<Wait> = self.waits.into_iter().map(wait).collect();
        waits.sort_by_key(|wait| std::cmp::Reverse(wait.time));
        let mut samples: Vec<Sample> =
            self.samples.into_iter().map(|(frames, count)| Sample { frames, count }).collect();
        samples.sort_by_key(|sample| std::cmp::Reverse(sample.count));
        Activity {
            name,
            running: Nanos(self.running),
            runnable: Nanos(self.runnable),
            preempted: self.preempted,
            migrated: self.migrated,
            waits,
            samples,
        }
    }
}

/// The name of a group of threads: the beginning of theirs, up to `-` or `/`; else it ends before a number or a point.
fn name_in(group: &[u64; GROUP]) -> String {
    let bytes: Vec<u8> =
        group[1..].iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
    let name = String::from_utf8_lossy(&bytes);
    let end = |last: char| last.is_ascii_digit() || ['.', '-'].contains(&last);
    let group = name.strip_suffix(['-', '/']).unwrap_or_else(|| name.trim_end_matches(end));
    group.to_owned()
}

/// A function's name without its module, `xfs_log_force` of `xfs_log_force\t[xfs]`.
fn without_module(symbol: &str) -> &str {
    symbol.split_whitespace().next().unwrap_or_default()
}

/// The functions of a stack, the innermost first; without those of the observer itself.
fn frames_in(frames: &[u64], symbols: &BTreeMap<u64, String>) -> Vec<String> {
    let addresses = frames.iter().take_while(|address| **address != 0);
    let name = |address: &u64| symbols.range(..=*address).next_back().map_or("?", |(_, name)| name.as_str());
    let names: Vec<&str> = addresses.map(name).collect();
    // Of a wait; samples begin with the function that ran.
    let own = names.iter().take(OWN).position(|name| *name == "__schedule");
    names[own.unwrap_or(0)..].iter().map(|name| (*name).to_owned()).collect()
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    Nanos::from(Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_groups_and_functions() {
        let group = |name: &str| {
            let mut bytes = [0; 16];
            bytes[..name.len()].copy_from_slice(name.as_bytes());
            let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
            [0, word(0), word(8)]
        };
        for (name, expected) in [
            ("load12-", "load12"),
            ("jbd2/", "jbd2"),
            ("kworker/", "kworker"),
            ("loop7", "loop"),
            ("kdamond.0", "kdamond"),
            ("fuser-0", "fuser"),
            ("btrfs-transacti", "btrfs-transacti"),
        ] {
            assert_eq!(name_in(&group(name)), expected);
        }
        assert_eq!(without_module("xfs_log_force\t[xfs]"), "xfs_log_force");
        assert_eq!(without_module("vfs_write"), "vfs_write");
    }
}
