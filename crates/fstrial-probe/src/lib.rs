//! Evidence from the kernel. [`Tracer`] observes the threads of this process's namespace and those below it, with programs in
//! the kernel (eBPF) that add up times by stack: nothing is sent for each event.
//!
//! `threads.bpf.o` is what clang makes of `threads.bpf.c`, committed so that a build needs no clang; a test compiles it again
//! and compares.

use aya::{
    Btf, Ebpf, EbpfLoader, include_bytes_aligned,
    maps::{Array, HashMap as KernelMap, MapError, PerCpuArray},
    programs::{
        BtfTracePoint, PerfEvent, ProgramError,
        perf_event::{PerfEventConfig, PerfEventScope, SamplePolicy, SoftwareEvent},
    },
    sys::{Stats, enable_stats},
    util::{kernel_symbols, online_cpus},
};
use fstrial_model::{
    evidence::{Activity, Evidence, Sample, Wait},
    units::Nanos,
};
use rustix::time::{ClockId, clock_gettime};
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
/// Words of a key of `amounts`: the kind, two of the name, the frames.
const KEY: usize = 3 + FRAMES;
/// Words of a processor's row: its last switch, what it lost, a key.
const PROCESSOR: usize = 2 + KEY;

/// The kernel's programs, and the tracepoints that they are for.
const TRACEPOINTS: [&str; 2] = ["sched_switch", "sched_wakeup"];

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
    /// A file cannot be read.
    #[error("could not read {0}: {1}")]
    NotRead(&'static str, #[source] io::Error),
}

/// Programs at work in the kernel; they go with it.
#[derive(Debug)]
pub struct Tracer {
    programs: Ebpf,
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
    /// Starts to observe. Nothing counts before [`begin`](Self::begin).
    ///
    /// # Errors
    /// No rights, or a kernel without BTF or with a lockdown that forbids it.
    pub fn start() -> Result<Self, ProbeError> {
        let namespace = std::fs::metadata("/proc/self/ns/pid");
        let namespace = namespace.map_err(|error| ProbeError::NotRead("/proc/self/ns/pid", error))?.ino();
        // Numbers of namespaces have 32 bits.
        let namespace = u32::try_from(namespace).unwrap_or_default();
        let symbols = kernel_symbols().map_err(|error| ProbeError::NotRead("/proc/kallsyms", error))?;
        if symbols.len() < SYMBOLS {
            return Err(ProbeError::Hidden);
        }
        let types = Btf::from_sys_fs()?;
        let mut loader = EbpfLoader::new();
        loader.btf(Some(&types)).override_global("pid_namespace", &namespace, true);
        let mut programs = loader.load(include_bytes_aligned!("threads.bpf.o"))?;
        attach(&mut programs, &types)?;
        // Since Linux 5.8.
        let counts = enable_stats(Stats::RunTime).ok();
        let cost = counts.as_ref().map(|_| [Duration::ZERO; 2]);
        let mut tracer = Self { programs, symbols, window: [u64::MAX; 2], cost, _counts: counts };
        tracer.set_window()?;
        Ok(tracer)
    }

    /// The measured time begins now.
    ///
    /// # Errors
    /// The table of the kernel cannot be written.
    pub fn begin(&mut self) -> Result<(), ProbeError> {
        let before = self.run_time()?;
        self.cost.iter_mut().for_each(|cost| cost[0] = before);
        self.window = [now(), u64::MAX];
        self.set_window()
    }

    /// The measured time ends now.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn end(&mut self) -> Result<(), ProbeError> {
        self.window[1] = now();
        self.set_window()?;
        let all = self.run_time()?;
        self.cost.iter_mut().for_each(|cost| cost[1] = all.saturating_sub(cost[0]));
        Ok(())
    }

    /// Time of all programs since they were loaded.
    fn run_time(&self) -> Result<Duration, ProbeError> {
        self.programs.programs().map(|(_, program)| Ok(program.info()?.run_time())).sum()
    }

    fn set_window(&mut self) -> Result<(), ProbeError> {
        let mut window: Array<_, [u64; 2]> =
            Array::try_from(self.programs.map_mut("window").expect("it is declared"))?;
        Ok(window.set(0, self.window, 0)?)
    }

    /// The evidence of the measured time. A wait counts once it is over: the threads of interest have ended by now.
    ///
    /// # Errors
    /// A table or the symbols of the kernel cannot be read.
    pub fn evidence(self) -> Result<Evidence, ProbeError> {
        // A thread has been joined a moment before it leaves its processor for the last time.
        std::thread::park_timeout(LEAVES);
        let amounts: KernelMap<_, [u64; KEY], [u64; 2]> =
            KernelMap::try_from(self.programs.map("amounts").expect("it is declared"))?;
        let mut groups: BTreeMap<(bool, String), Group> = BTreeMap::new();
        for amount in amounts.iter() {
            let (key, [time, count]) = amount?;
            let group = (key[0] & OF_KERNEL != 0, group_of(&name_in(&key)));
            groups.entry(group).or_default().add(
                key[0] & !OF_KERNEL,
                frames_in(&key, &self.symbols),
                time,
                count,
            );
        }
        let processors: PerCpuArray<_, [u64; PROCESSOR]> =
            PerCpuArray::try_from(self.programs.map("processors").expect("it is declared"))?;
        let lost = processors.get(&0, 0)?.iter().map(|row| row[1]).sum();
        let [from, to] = self.window;
        let (mut threads, mut kernel_threads) = (Vec::new(), Vec::new());
        for ((is_of_kernel, name), group) in groups {
            let all = if is_of_kernel { &mut kernel_threads } else { &mut threads };
            all.push(group.activity(name));
        }
        Ok(Evidence {
            duration: Nanos(to.saturating_sub(from)),
            threads,
            kernel_threads,
            lost,
            cost: self.cost.map(|[_, time]| Nanos::from(time)),
        })
    }
}

fn attach(programs: &mut Ebpf, types: &Btf) -> Result<(), ProbeError> {
    for name in TRACEPOINTS {
        let program = programs.program_mut(name).expect("it is declared");
        let program: &mut BtfTracePoint = program.try_into()?;
        program.load(name, types)?;
        program.attach()?;
    }
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
    Ok(())
}

/// Kinds of amounts, as in threads.bpf.c.
const RUNS: u64 = 0;
const WAITS: u64 = 1;
const QUEUES: u64 = 2;
const PREEMPTED: u64 = 3;
const SAMPLED: u64 = 4;
const OF_KERNEL: u64 = 8;

/// Amounts of a group of threads.
#[derive(Debug, Default)]
struct Group {
    running: u64,
    runnable: u64,
    preempted: u64,
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
            WAITS => {
                let wait = self.waits.entry(frames).or_default();
                *wait = (wait.0 + time, wait.1 + count);
            }
            SAMPLED => *self.samples.entry(frames).or_default() += count,
            _ => unreachable!("the program has five kinds"),
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
            waits,
            samples,
        }
    }
}

/// The name of a thread, of at most 15 bytes.
fn name_in(key: &[u64; KEY]) -> String {
    let bytes: Vec<u8> =
        key[1..3].iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The group of a thread by its name, of which the kernel has 15 bytes: up to a number or a slash, `load` of `load-3` and `kworker`
/// of `kworker/0:1`.
pub fn group_of(name: &str) -> String {
    let name = &name[..name.floor_char_boundary(15)];
    match name.split_once('/') {
        Some((group, _)) => group.to_owned(),
        None => name.trim_end_matches(|last: char| last.is_ascii_digit() || last == '-').to_owned(),
    }
}

/// The functions of a stack, the innermost first; without those of the observer itself.
fn frames_in(key: &[u64; KEY], symbols: &BTreeMap<u64, String>) -> Vec<String> {
    let addresses = key[3..].iter().take_while(|address| **address != 0);
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
    fn threads_are_grouped_by_their_names() {
        for (name, group) in [
            ("load-12", "load"),
            ("jbd2/loop0-8", "jbd2"),
            ("kworker/0:1H", "kworker"),
            ("loop7", "loop"),
            ("btrfs-transacti", "btrfs-transacti"),
            ("a-long-name-of-a-set-3", "a-long-name-of"),
        ] {
            assert_eq!(group_of(name), group);
        }
    }
}
