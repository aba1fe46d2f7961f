//! How long the machine's processors were busy, from the time that they were idle.
//!
//! Busy time itself is sampled by most kernels (`TICK_CPU_ACCOUNTING`): what runs at a tick gets all of it, and work that
//! begins with a timer and ends before the next tick is not seen at all. Idle time is not: with `NO_HZ` the kernel takes it
//! from the clock when a processor stops and starts its tick (`get_idle_time` and `get_iowait_time` in `fs/proc/stat.c`).

use fstrial_model::units::Nanos;
use std::{fs, time::Instant};

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
    fn a_tick_that_never_stops_is_found() {
        assert!(tick_never_stops("cpu: 0\n  .nohz           : 0\ncpu: 1\n  .nohz           : 0\n"));
        assert!(tick_never_stops("  .nohz_mode      : 0\n"));
        assert!(!tick_never_stops("  .nohz           : 1\n"));
        assert!(!tick_never_stops("  .nohz_mode      : 2\n  .nohz_mode : 2\n"));
        assert!(!tick_never_stops("now at 12 nsecs\n"), "a kernel that does not say it");
    }
}
