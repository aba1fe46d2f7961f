//! Busy time of the machine's processors, derived from their idle time.
//!
//! Most kernels only sample busy time (`TICK_CPU_ACCOUNTING`): the task running at a tick is charged all of it, and
//! work that begins with a timer and ends before the next tick is missed. Idle time is exact: with `NO_HZ` the kernel
//! takes it from the clock when a processor stops and starts its tick (`get_idle_time` and `get_iowait_time` in
//! `fs/proc/stat.c`).

use crate::proc_stat;
use fstrial_model::units::Nanos;
use std::{collections::BTreeMap, ffi::OsString, fs, iter, time::Instant};

/// Idle, waiting for I/O, stolen by the hypervisor: the fields of `/proc/stat` (proc_stat(5)) in which none of our
/// processors worked.
const NOT_BUSY: [usize; 3] = [3, 4, 7];

/// CPU time of all processors at a moment.
#[derive(Debug, Clone, Copy)]
pub struct CpuCount {
    at: Instant,
    cpus: u64,
    not_busy: Nanos,
}

impl CpuCount {
    /// Now. None without `/proc`.
    pub fn now() -> Option<Self> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let (cpus, not_busy) = read(&stat, rustix::param::clock_ticks_per_second())?;
        Some(Self { at: Instant::now(), cpus, not_busy })
    }

    /// Time of all processors together that was neither idle nor stolen since then, to about 10 ms. None if processors
    /// came or went.
    pub fn busy_until(self, later: Self) -> Option<Nanos> {
        let elapsed = u64::try_from((later.at - self.at).as_nanos()).ok()?;
        let idle = later.not_busy.0.saturating_sub(self.not_busy.0);
        (self.cpus == later.cpus).then(|| Nanos((elapsed * self.cpus).saturating_sub(idle)))
    }

    /// The same in percent of all processors, rounded down. None if no time has passed, too.
    pub fn busy_percent_until(self, later: Self) -> Option<u8> {
        let all = u64::try_from((later.at - self.at).as_nanos()).ok()? * self.cpus;
        let busy = self.busy_until(later)?.0;
        u8::try_from((busy * 100).checked_div(all)?).ok()
    }
}

/// Processors online, and the time in which they were not busy, by the text of `/proc/stat`.
fn read(stat: &str, ticks_per_second: u64) -> Option<(u64, Nanos)> {
    let mut lines = stat.lines().take_while(|line| line.starts_with("cpu"));
    let fields: Vec<u64> =
        lines.next()?.split_whitespace().skip(1).map_while(|field| field.parse().ok()).collect();
    // Kernels before 2.6.11 have no stolen time.
    let ticks: u64 = NOT_BUSY.iter().filter_map(|index| fields.get(*index)).sum();
    let cpus = lines.count() as u64;
    (cpus > 0 && fields.len() > NOT_BUSY[1])
        .then(|| Some((cpus, Nanos(ticks.checked_mul(1_000_000_000 / ticks_per_second)?))))?
}

/// CPU time of every process at a moment.
#[derive(Debug, Clone)]
pub struct OthersCount {
    at: Instant,
    cpus: u64,
    all: Processes,
    /// In ticks: taken by the hypervisor for others.
    stolen: u64,
}

/// The first process namespace (`PROC_PID_INIT_INO` in `include/linux/proc_ns.h`).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

impl OthersCount {
    /// Now. None where `/proc` has the processes of a namespace only, as in a container. Takes a few milliseconds.
    pub fn now() -> Option<Self> {
        // Unreadable without root, and assumed to be the host's.
        let namespace = fs::read_link("/proc/1/ns/pid").ok();
        if namespace.is_some_and(|result| result.as_os_str() != FIRST_NAMESPACE) {
            return None;
        }
        let us: u32 = fs::read_link("/proc/self").ok()?.to_str()?.parse().ok()?;
        let stat = |name: OsString| {
            let pid: u32 = name.to_str()?.parse().ok()?;
            Some((pid, ProcessTimes::read(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))
        };
        let names = fs::read_dir("/proc").ok()?.flatten();
        let mut all: Processes = names.filter_map(|entry| stat(entry.file_name())).collect();
        mark_ours(&mut all, us);
        let machine = fs::read_to_string("/proc/stat").ok()?;
        let (cpus, _) = read(&machine, rustix::param::clock_ticks_per_second())?;
        Some(Self { at: Instant::now(), cpus, all, stolen: stolen(&machine) })
    }

    /// The share of all processors' time that processes that are neither the kernel's nor ours, and other virtual
    /// machines, took since then, in millionths.
    pub fn share_until(&self, later: &Self) -> Option<u64> {
        let ticks = used_by_others(&self.all, &later.all) + later.stolen.saturating_sub(self.stolen);
        let used = ticks.checked_mul(1_000_000_000 / rustix::param::clock_ticks_per_second())?;
        let all = u64::try_from((later.at - self.at).as_nanos()).ok()? * self.cpus;
        (used * 1_000).checked_div(all / 1_000)
    }
}

fn stolen(stat: &str) -> u64 {
    stat.split_whitespace().nth(1 + NOT_BUSY[2]).and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

/// Fields of `/proc/PID/stat`.
#[derive(Debug, Clone, PartialEq)]
struct ProcessTimes {
    name: String,
    parent: u32,
    of_kernel: bool,
    is_ours: bool,
    /// Its own time, and that of children that it has waited for, in ticks.
    own: u64,
    waited_for: u64,
    /// When it began, in ticks since the boot.
    since: u64,
}

/// By process number.
type Processes = BTreeMap<u32, ProcessTimes>;

impl ProcessTimes {
    const OF_KERNEL: u64 = 0x0020_0000;

    /// Fields 2, 4, 9, 14 to 17 and 22.
    fn read(stat: &str) -> Option<Self> {
        let fields = proc_stat::fields(stat)?;
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Self {
            name: stat.rsplit_once(')')?.0.split_once('(')?.1.to_owned(),
            parent: u32::try_from(number(1)?).ok()?,
            of_kernel: number(6)? & Self::OF_KERNEL != 0,
            is_ours: false,
            own: number(11)? + number(12)?,
            waited_for: number(13)? + number(14)?,
            since: number(19)?,
        })
    }
}

/// Marks `us`, our ancestors of the same name, and all their descendants.
fn mark_ours(all: &mut Processes, us: u32) {
    let parents: BTreeMap<u32, u32> = all.iter().map(|(pid, process)| (*pid, process.parent)).collect();
    // A process that ends meanwhile may leave a circle of numbers.
    let line =
        |pid: u32| iter::successors(Some(pid), |pid| parents.get(pid).copied()).take(parents.len() + 1);
    let is_named_as_we = |pid: &u32| all.get(pid).is_some_and(|other| other.name == all[&us].name);
    let Some(top) = line(us).take_while(is_named_as_we).last() else { return };
    for (pid, process) in all {
        process.is_ours = line(*pid).any(|pid| pid == top);
    }
}

/// The same process in another count.
fn same_in<'a>(all: &'a Processes, pid: u32, process: &ProcessTimes) -> Option<&'a ProcessTimes> {
    all.get(&pid).filter(|other| other.since == process.since)
}

/// Ticks used by other processes between two counts. The earlier usage of a process that ended is in its parent's, if
/// that has waited for it, and is subtracted.
fn used_by_others(before: &Processes, after: &Processes) -> u64 {
    let mut ended: BTreeMap<u32, u64> = BTreeMap::new();
    for (pid, process) in before {
        if same_in(after, *pid, process).is_none() {
            *ended.entry(process.parent).or_default() += process.own + process.waited_for;
        }
    }
    let others = after.iter().filter(|(_, process)| !process.of_kernel && !process.is_ours);
    let used = others.map(|(pid, process)| match same_in(before, *pid, process) {
        // It left us meanwhile: its usage is ours.
        Some(then) if then.is_ours => 0,
        Some(then) => {
            let waited_for = process.waited_for.saturating_sub(then.waited_for);
            let known = ended.get(pid).copied().unwrap_or_default();
            process.own.saturating_sub(then.own) + waited_for.saturating_sub(known)
        }
        None => process.own + process.waited_for,
    });
    used.sum()
}

/// True if the kernel only samples idle time, too: its tick never stops (`nohz=off`, `HZ_PERIODIC`). False if that
/// cannot be read.
pub fn is_sampled() -> bool {
    fs::read_to_string("/proc/timer_list").is_ok_and(|text| tick_never_stops(&text))
}

/// By the text of `/proc/timer_list`: `.nohz` of each processor, `.nohz_mode` before Linux 6.9.
fn tick_never_stops(timers: &str) -> bool {
    let modes = timers.lines().filter_map(|line| {
        let (key, value) = line.split_once(':')?;
        [".nohz", ".nohz_mode"].contains(&key.trim()).then(|| value.trim() == "0")
    });
    let modes: Vec<bool> = modes.collect();
    !modes.is_empty() && modes.into_iter().all(|is_off| is_off)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const STAT: &str = "cpu  100 0 50 1000 200 1 2 30 0 0\ncpu0 50 0 25 500 100 1 1 15 0 0\n\
                        cpu1 50 0 25 500 100 0 1 15 0 0\nintr 12345\nctxt 1\n";

    #[test]
    fn idle_waiting_and_stolen_time_is_not_busy() {
        assert_eq!(read(STAT, 100), Some((2, Nanos::millis(12_300))));
        assert_eq!(read("cpu  100 0 50 1000 200\ncpu0 100 0 50 1000 200\n", 100), Some((1, Nanos::secs(12))));
        for damaged in
            ["", "cpu  1 2 3 4 5 6 7 8\nintr 1\n", "cpu  1 2 3\ncpu0 1 2 3\n", "intr 1\ncpu 1 2 3 4 5\n"]
        {
            assert_eq!(read(damaged, 100), None, "{damaged:?}");
        }
    }

    #[test]
    fn busy_time_is_elapsed_cpu_time_minus_idle() {
        let at = Instant::now();
        let count = |millis: u64, idle: u64, cpus| CpuCount {
            at: at + Duration::from_millis(millis),
            cpus,
            not_busy: Nanos::millis(idle),
        };
        assert_eq!(count(0, 500, 2).busy_until(count(1000, 2000, 2)), Some(Nanos::millis(500)));
        // Idle time comes in steps of a tick of user space.
        assert_eq!(count(0, 0, 2).busy_until(count(1000, 2010, 2)), Some(Nanos(0)));
        assert_eq!(count(0, 0, 2).busy_until(count(1000, 500, 1)), None);
        assert_eq!(count(0, 500, 2).busy_percent_until(count(1000, 2000, 2)), Some(25));
        assert_eq!(count(0, 0, 2).busy_percent_until(count(1000, 2010, 2)), Some(0));
        assert_eq!(count(5, 0, 2).busy_percent_until(count(5, 0, 2)), None);
    }

    fn process(
        pid: u32,
        name: &str,
        parent: u32,
        flags: u64,
        own: u64,
        waited_for: u64,
    ) -> (u32, ProcessTimes) {
        let stat = format!(
            "{pid} ({name}) S {parent} 1 1 0 -1 {flags} 0 0 0 0 {own} 0 {waited_for} 0 20 0 1 0 {pid}00 0 0"
        );
        (pid, ProcessTimes::read(&stat).unwrap())
    }

    #[test]
    fn other_cpu_use_excludes_kernel_and_own_processes() {
        let count = |of_make: [u64; 2], of_cc: Option<u64>, of_us: u64| {
            let mut all = Processes::from([
                process(1, "init", 0, 0, 10, 0),
                process(2, "kthreadd", 0, 0x0020_8040, 1000 * of_us, 0),
                process(40, "make) (x", 1, 0, of_make[0], of_make[1]),
                process(50, "fstrial", 40, 0, of_us, 0),
                process(51, "fstrial", 50, 0, of_us, 0),
                process(52, "postgres", 51, 0, of_us, 0),
            ]);
            all.extend(of_cc.map(|own| process(53, "cc", 40, 0, own, 0)));
            mark_ours(&mut all, 51);
            all
        };
        let before = count([100, 500], Some(200), 7);
        assert_eq!(before[&40].name, "make) (x");
        assert_eq!(before.values().filter(|process| process.is_ours).count(), 3);
        assert_eq!(used_by_others(&before, &count([103, 500], Some(220), 900)), 23);
        // The compiler has ended with 230, of which 200 were there before.
        assert_eq!(used_by_others(&before, &count([103, 730], None, 900)), 33);
        // Another one came, and is there.
        assert_eq!(used_by_others(&count([0, 0], None, 7), &count([0, 0], Some(40), 7)), 40);
        // One of ours was left to init.
        let mut after = count([100, 500], Some(200), 7);
        after.get_mut(&52).unwrap().parent = 1;
        mark_ours(&mut after, 51);
        assert_eq!(used_by_others(&before, &after), 0);
        assert_eq!(ProcessTimes::read("1 (init) S 0 1"), None);
    }

    #[test]
    fn other_cpu_use_is_share_of_all_cpus() {
        let at = Instant::now();
        let count = |millis: u64, used: u64, stolen: u64| OthersCount {
            at: at + Duration::from_millis(millis),
            cpus: 2,
            all: Processes::from([process(40, "make", 1, 0, used, 0)]),
            stolen,
        };
        // Twenty ticks of 10 ms of two seconds, and four that the hypervisor took.
        assert_eq!(count(0, 10, 1).share_until(&count(1000, 30, 5)), Some(120_000));
        assert_eq!(count(0, 10, 1).share_until(&count(1000, 10, 1)), Some(0));
        assert_eq!(stolen(STAT), 30);
    }

    #[test]
    fn detects_always_running_tick() {
        assert!(tick_never_stops("cpu: 0\n  .nohz           : 0\ncpu: 1\n  .nohz           : 0\n"));
        assert!(tick_never_stops("  .nohz_mode      : 0\n"));
        assert!(!tick_never_stops("  .nohz           : 1\n"));
        assert!(!tick_never_stops("  .nohz_mode      : 2\n  .nohz_mode : 2\n"));
        assert!(!tick_never_stops("now at 12 nsecs\n"), "a kernel that does not say it");
    }
}
