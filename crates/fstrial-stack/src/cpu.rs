//! How long the machine's processors were busy, from the time that they were idle.
//!
//! Busy time itself is sampled by most kernels (`TICK_CPU_ACCOUNTING`): what runs at a tick gets all of it, and work that
//! begins with a timer and ends before the next tick is not seen at all. Idle time is not: with `NO_HZ` the kernel takes it
//! from the clock when a processor stops and starts its tick (`get_idle_time` and `get_iowait_time` in `fs/proc/stat.c`).

use fstrial_model::units::Nanos;
use std::{ffi::OsString, fs, iter, thread, time::Instant};

/// Idle, waiting for I/O, stolen by the hypervisor: the fields of `/proc/stat` (proc_stat(5)) in which none of our
/// processors worked.
const NOT_BUSY: [usize; 3] = [3, 4, 7];

/// What the processors had done at a moment.
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

    /// Time of all processors together that was neither idle nor stolen since then, to about 10 ms. None if processors came
    /// or went.
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

/// What processes that are neither the kernel's nor ours had used at a moment.
#[derive(Debug, Clone, Copy)]
pub struct OthersCount {
    at: Instant,
    cpus: u64,
    used: Nanos,
}

impl OthersCount {
    /// Now: of every process but those of the topmost ancestor that runs the same program as this one, and all that they have
    /// started. None where only processes of our own namespace are visible. Takes a few milliseconds.
    pub fn now() -> Option<Self> {
        let us: u32 = fs::read_link("/proc/self").ok()?.to_str()?.parse().ok().filter(|us| *us > 1)?;
        let names = fs::read_dir("/proc").ok()?.flatten();
        let stat = |name: OsString| {
            let pid: u32 = name.to_str()?.parse().ok()?;
            ProcessTimes::read(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
        };
        let all = names.filter_map(|entry| stat(entry.file_name())).collect::<Vec<_>>();
        let ticks = others(&all, us);
        let used = Nanos(ticks.checked_mul(1_000_000_000 / rustix::param::clock_ticks_per_second())?);
        let cpus = thread::available_parallelism().ok()?.get() as u64;
        Some(Self { at: Instant::now(), cpus, used })
    }

    /// The share of all processors' time that they took since then, in millionths.
    pub fn share_until(self, later: Self) -> Option<u64> {
        let all = u64::try_from((later.at - self.at).as_nanos()).ok()? * self.cpus;
        (later.used.0.saturating_sub(self.used.0) * 1_000).checked_div(all / 1_000)
    }
}

/// A process as `/proc/PID/stat` has it (proc_pid_stat(5)).
#[derive(Debug, Clone, PartialEq)]
struct ProcessTimes {
    pid: u32,
    name: String,
    parent: u32,
    of_kernel: bool,
    /// Its time and that of children that it has waited for, in ticks.
    ticks: u64,
}

impl ProcessTimes {
    const OF_KERNEL: u64 = 0x0020_0000;

    fn read(pid: u32, stat: &str) -> Option<Self> {
        let (head, tail) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = tail.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Self {
            pid,
            name: head.split_once('(')?.1.to_owned(),
            parent: u32::try_from(number(1)?).ok()?,
            of_kernel: number(6)? & Self::OF_KERNEL != 0,
            ticks: (11..=14).filter_map(number).sum(),
        })
    }
}

/// Ticks of all processes but the kernel's, `us`, our ancestors of the same name, and what those have started.
fn others(all: &[ProcessTimes], us: u32) -> u64 {
    let of = |pid: u32| all.iter().find(|process| process.pid == pid);
    let mut top = us;
    while let Some(parent) = of(top).and_then(|process| of(process.parent))
        && of(us).is_some_and(|us| us.name == parent.name)
    {
        top = parent.pid;
    }
    let is_ours = |process: &ProcessTimes| {
        let ancestors = iter::successors(Some(process.pid), |pid| Some(of(*pid)?.parent));
        // A process that ends meanwhile may leave a circle of numbers.
        ancestors.take(all.len() + 1).any(|pid| pid == top)
    };
    all.iter().filter(|process| !process.of_kernel && !is_ours(process)).map(|process| process.ticks).sum()
}

/// Whether the kernel only samples idle time, too: it has no tick that stops (`nohz=off`, `HZ_PERIODIC`). False where that
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
    fn busy_is_what_is_left_of_the_time_that_passed() {
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

    #[test]
    fn others_are_neither_the_kernel_nor_what_we_have_started() {
        let line = |pid: u32, name: &str, parent: u32, flags: u64, ticks: u64| {
            let stat =
                format!("{pid} ({name}) S {parent} 1 1 0 -1 {flags} 0 0 0 0 {ticks} 1 1 1 20 0 1 0 5 0 0");
            ProcessTimes::read(pid, &stat).unwrap()
        };
        let all = [
            line(1, "init", 0, 0, 10),
            line(2, "kthreadd", 0, 0x0020_8040, 1000),
            line(40, "make) (x", 1, 0, 100),
            line(50, "fstrial", 40, 0, 7),
            line(51, "fstrial", 50, 0, 7),
            line(52, "postgres", 51, 0, 7),
            line(53, "cc", 40, 0, 200),
        ];
        assert_eq!(others(&all, 51), 13 + 103 + 203);
        assert_eq!(all[2].name, "make) (x");
        assert_eq!(ProcessTimes::read(1, "1 (init) S 0 1"), None);
        let at = Instant::now();
        let count = |millis: u64, used: u64| OthersCount {
            at: at + Duration::from_millis(millis),
            cpus: 2,
            used: Nanos::millis(used),
        };
        assert_eq!(count(0, 100).share_until(count(1000, 300)), Some(100_000));
        assert_eq!(count(0, 100).share_until(count(1000, 50)), Some(0));
    }

    #[test]
    fn a_tick_that_never_stops_is_found() {
        assert!(tick_never_stops("cpu: 0\n  .nohz           : 0\ncpu: 1\n  .nohz           : 0\n"));
        assert!(tick_never_stops("  .nohz_mode      : 0\n"));
        assert!(!tick_never_stops("  .nohz           : 1\n"));
        assert!(!tick_never_stops("  .nohz_mode      : 2\n  .nohz_mode : 2\n"));
        assert!(!tick_never_stops("now at 12 nsecs\n"), "a kernel that does not say it");
    }
}
