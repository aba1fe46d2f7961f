//! The common clock of a run, and the CPU time of a thread.
//!
//! The time-stamp counter of the processor is read in a few nanoseconds, but only some counters are clocks. It is used
//! if the processor reports a constant rate without stops, the kernel itself keeps time with it, and two consecutive
//! calibrations against `CLOCK_MONOTONIC` agree. Otherwise, and on other architectures than `x86_64`, the clock is
//! `CLOCK_MONOTONIC` itself. [`Anchor`] checks after a run that both still agree.
//!
//! An island: `_rdtsc` and `getrusage` have no safe wrapper among the dependencies.
#![expect(unsafe_code, reason = "rdtsc and getrusage(RUSAGE_THREAD) have no safe wrapper")]

use crate::EngineError;
pub use fstrial_model::measurement::ClockSource;
use fstrial_model::units::Percent;
use rustix::{
    thread::set_current_timer_slack,
    time::{ClockId, clock_gettime},
};
use std::{cell::Cell, num::NonZeroU64, sync::OnceLock};

/// A clock in ticks, and their length. Copy it freely: it is a few words.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    source: ClockSource,
    /// Nanoseconds of a tick, as a fixed-point number with 32 bits behind the point.
    scale: u64,
    reason: &'static str,
}

/// Two calibrations in a row must agree this well.
const CALIBRATION_TOLERANCE: f64 = 0.000_5;
/// At the end of a run the two clocks must agree this well.
const DRIFT_TOLERANCE: f64 = 0.002;
/// Both readings of an anchor cannot be taken in the same instant; this much is forgiven in any run.
const DRIFT_FORGIVEN_NS: u64 = 20_000;
/// Length of one calibration.
const CALIBRATION_NS: u64 = 20_000_000;

impl Clock {
    /// The best clock of this machine. The first call in a process takes about 40 ms when the counter is calibrated.
    pub fn best() -> Self {
        static BEST: OnceLock<Clock> = OnceLock::new();
        *BEST.get_or_init(|| {
            let read = |path| std::fs::read_to_string(path).unwrap_or_default();
            Self::best_for(
                &read("/proc/cpuinfo"),
                read("/sys/devices/system/clocksource/clocksource0/current_clocksource").trim(),
            )
        })
    }

    /// The best clock for a machine that describes itself so.
    fn best_for(cpuinfo: &str, kernel_clock: &str) -> Self {
        match counter_usable(cpuinfo, kernel_clock).and_then(|why| Ok((why, calibrate(&CounterAndClock)?))) {
            Ok((reason, scale)) => Self { source: ClockSource::TimeStampCounter, scale, reason },
            Err(reason) => Self::monotonic(reason),
        }
    }

    /// `CLOCK_MONOTONIC`, and why it had to be.
    pub const fn monotonic(reason: &'static str) -> Self {
        Self { source: ClockSource::Monotonic, scale: 1 << 32, reason }
    }

    /// Source of this clock.
    pub const fn source(&self) -> ClockSource {
        self.source
    }

    /// The reason for the choice, as text.
    pub const fn reason(&self) -> &'static str {
        self.reason
    }

    /// Now, in ticks from an arbitrary origin. Never goes back on one thread; comparable between threads.
    #[inline]
    pub fn now(&self) -> u64 {
        match self.source {
            ClockSource::TimeStampCounter => read_counter(),
            ClockSource::Monotonic => monotonic_ns(),
        }
    }

    /// Nanoseconds in a number of ticks.
    #[inline]
    pub fn nanos(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.scale)) >> 32) as u64
    }

    /// Ticks in a number of nanoseconds.
    pub fn ticks(&self, nanos: u64) -> u64 {
        ((u128::from(nanos) << 32) / u128::from(self.scale)) as u64
    }
}

/// The clock as a loop reads it after each wait for the kernel; with a handicap, the wait is first made longer by
/// that share, so that a slowdown of known size can be planted.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    pub(crate) clock: Clock,
    /// Millionths of a wait that are added to it.
    handicap_ppm: u64,
    /// Tick and CPU time of the thread at the end of its last long wait.
    last: Cell<Option<(u64, u64)>>,
}

/// From this length on an addition to a wait is slept, except for the end of it, which a sleep would miss.
const SLEEPABLE_NS: u64 = 100_000;
const SLEEP_MISSES_NS: u64 = 50_000;

impl Pace {
    pub(crate) fn new(clock: Clock, handicap: Percent) -> Self {
        let handicap_ppm = (handicap.fraction() * 1e6).round() as u64;
        // Else a sleep may be longer by 50 µs, also that of a thread without a handicap that waits for when a request is due.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        Self { clock, handicap_ppm, last: Cell::new(None) }
    }

    /// Now, after a wait that began at tick `before`.
    #[inline]
    pub(crate) fn after(&self, before: u64) -> u64 {
        let now = self.clock.now();
        if self.handicap_ppm == 0 { now } else { self.drag(before, now) }
    }

    /// A slower processor would take more of the processor, and a slower device would not: of a long wait the share in which
    /// the thread ran is spun, and the rest slept. Of a short one all is spun: that it ran is likelier, and to ask takes too long.
    #[cold]
    fn drag(&self, before: u64, now: u64) -> u64 {
        let wait = now - before.min(now);
        let added = (u128::from(wait) * u128::from(self.handicap_ppm) / 1_000_000) as u64;
        if self.clock.nanos(added) < SLEEPABLE_NS {
            return self.spin_until(now + added);
        }
        let cpu = thread_cpu_ns();
        let slept = self.last.get().map_or(0, |last| {
            let ran = ran_within(before, last, cpu, &self.clock).min(wait);
            (u128::from(added) * u128::from(wait - ran) / u128::from(wait)) as u64
        });
        self.spin_until(now + added - slept);
        let sleep = self.clock.nanos(slept).saturating_sub(SLEEP_MISSES_NS);
        if sleep > 0 {
            sleep_ns(sleep);
        }
        let end = self.spin_until(now + added);
        self.last.set(Some((end, thread_cpu_ns())));
        end
    }

    fn spin_until(&self, until: u64) -> u64 {
        loop {
            let now = self.clock.now();
            if now >= until {
                return now;
            }
            std::hint::spin_loop();
        }
    }
}

/// Ticks for which a thread ran in a wait that began at tick `before`: its CPU time (ns) since the end of the last long
/// wait, less the time between the two. It is assumed to have run for all of that: if it also waited briefly, the
/// result is too small.
fn ran_within(before: u64, (end, cpu_then): (u64, u64), cpu_now: u64, clock: &Clock) -> u64 {
    clock.ticks(cpu_now.saturating_sub(cpu_then)).saturating_sub(before.saturating_sub(end))
}

fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A reading of the clock and of `CLOCK_MONOTONIC` in (nearly) the same instant.
#[derive(Debug, Clone, Copy)]
pub struct Anchor {
    ticks: u64,
    monotonic_ns: u64,
}

impl Anchor {
    /// Reads both clocks now.
    pub fn now(clock: &Clock) -> Self {
        let (ticks, monotonic_ns) = closest_pair(|| clock.now(), monotonic_ns);
        Self { ticks, monotonic_ns }
    }

    /// Checks that both clocks saw the same time go by since this anchor, within 0.2 % and 20 µs.
    ///
    /// # Errors
    /// [`EngineError::ClockDrifted`] with both lengths.
    pub fn check(&self, clock: &Clock) -> Result<(), EngineError> {
        let end = Self::now(clock);
        let counter_ns = clock.nanos(end.ticks.saturating_sub(self.ticks));
        compare(counter_ns, end.monotonic_ns.saturating_sub(self.monotonic_ns))
    }
}

fn compare(counter_ns: u64, monotonic_ns: u64) -> Result<(), EngineError> {
    let allowed = (monotonic_ns as f64 * DRIFT_TOLERANCE) as u64 + DRIFT_FORGIVEN_NS;
    if counter_ns.abs_diff(monotonic_ns) > allowed {
        return Err(EngineError::ClockDrifted { counter_ns, monotonic_ns });
    }
    Ok(())
}

/// CPU time of one thread.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CpuTime {
    pub(crate) user_ns: u64,
    pub(crate) system_ns: u64,
}

impl CpuTime {
    /// CPU time of the calling thread so far.
    pub(crate) fn of_this_thread() -> Self {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is valid for one rusage, which the call fills; RUSAGE_THREAD is a valid `who`, so it
        // cannot fail, and if it did the value would stay zeroed.
        unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
        // SAFETY: zeroed above: every bit pattern of its integers is valid.
        let usage = unsafe { usage.assume_init() };
        let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
        Self { user_ns: ns(usage.ru_utime), system_ns: ns(usage.ru_stime) }
    }

    /// Time since an earlier reading.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
        }
    }
}

/// Decides if the processor's counter is a clock on such a machine, with the reason.
fn counter_usable(cpuinfo: &str, kernel_clock: &str) -> Result<&'static str, &'static str> {
    if !cfg!(target_arch = "x86_64") {
        return Err("this architecture has no time-stamp counter that fstrial knows");
    }
    let mut flags = cpuinfo.lines().filter(|line| line.starts_with("flags")).peekable();
    let invariant = |line: &str| {
        ["constant_tsc", "nonstop_tsc"].iter().all(|want| line.split_whitespace().any(|flag| flag == *want))
    };
    if flags.peek().is_none() || !flags.all(invariant) {
        return Err("not every processor promises a time-stamp counter of constant rate that never stops");
    }
    match kernel_clock {
        "tsc" => Ok("the counter is invariant and the kernel itself keeps time with it"),
        // Both are pages by which the host publishes its own counter's mapping to time; a guest that also sees the
        // invariant flags reads the same counter, at one rate unless it is moved to another host (the check at the end
        // of each run finds that).
        "kvm-clock" => Ok("the counter is invariant and the kernel's kvm-clock is derived from it"),
        "hyperv_clocksource_tsc_page" => {
            Ok("the counter is invariant and the kernel's Hyper-V page is derived from it")
        }
        _ => Err("the kernel does not trust the time-stamp counter: its own clock source is another"),
    }
}

/// The two sides of a calibration: a seam for the tests.
trait Pair {
    fn counter(&self) -> u64;
    fn monotonic_ns(&self) -> u64;
    fn wait(&self, ns: u64);
}

struct CounterAndClock;

impl Pair for CounterAndClock {
    fn counter(&self) -> u64 {
        read_counter()
    }
    fn monotonic_ns(&self) -> u64 {
        monotonic_ns()
    }
    fn wait(&self, ns: u64) {
        sleep_ns(ns);
    }
}

/// Nanoseconds of a tick (32.32), from two spans in a row that agree; five spans at most.
fn calibrate(pair: &dyn Pair) -> Result<u64, &'static str> {
    let read = || closest_pair(|| pair.counter(), || pair.monotonic_ns());
    let rate = |from: (u64, u64), to: (u64, u64)| {
        let ticks = to.0.checked_sub(from.0).filter(|ticks| *ticks > 0)?;
        Some(to.1.checked_sub(from.1)? as f64 / ticks as f64)
    };
    let mut before = read();
    let mut last: Option<((u64, u64), f64)> = None;
    for _ in 0..5 {
        pair.wait(CALIBRATION_NS);
        let now = read();
        let this = rate(before, now).ok_or("the time-stamp counter went back during its calibration")?;
        if let Some((first, previous)) = last
            && (this / previous - 1.0).abs() <= CALIBRATION_TOLERANCE
            && let Some(whole) = rate(first, now)
            && (0.01..=1000.0).contains(&whole)
        {
            return Ok((whole * 2_f64.powi(32)).round() as u64);
        }
        last = Some((before, this));
        before = now;
    }
    Err("two calibrations of the time-stamp counter never agreed within 0.05 %")
}

/// Reads `first` and `second` so close together that the pair counts as one instant: the tightest of 16 tries.
fn closest_pair(first: impl Fn() -> u64, second: impl Fn() -> u64) -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..16 {
        let before = first();
        let middle = second();
        let after = first();
        let gap = after.saturating_sub(before);
        if gap < best.0 {
            best = (gap, before + gap / 2, middle);
        }
    }
    (best.1, best.2)
}

/// Sleeps; a signal may end it early.
pub(crate) fn sleep_ns(ns: u64) {
    #[cfg(test)]
    if crate::testing::virtual_sleep(ns) {
        return;
    }
    let request = rustix::thread::Timespec {
        tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: (ns % 1_000_000_000) as _,
    };
    let _interrupted = rustix::thread::nanosleep(&request);
}

#[inline]
fn monotonic_ns() -> u64 {
    #[cfg(test)]
    if let Some(now) = crate::testing::virtual_ns() {
        return now;
    }
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn read_counter() -> u64 {
    // SAFETY: every x86_64 processor has the instruction; where the kernel forbids it to user space (PR_SET_TSC,
    // which nothing here sets) it would raise a signal, not undefined behaviour.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn read_counter() -> u64 {
    monotonic_ns()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "processor : 0\nflags : fpu tsc constant_tsc nonstop_tsc\nflags : constant_tsc nonstop_tsc x\n";

    /// A thread that ran for all of the time between two waits, and in the second for a share of it or for none.
    #[test]
    fn cpu_time_in_wait_excludes_earlier_run_time() {
        let clock = Clock::monotonic("ticks are nanoseconds");
        let ran = |before, cpu_now| ran_within(before, (1_000, 500), cpu_now, &clock);
        assert_eq!(ran(4_000, 500 + 3_000), 0, "the 3 µs before it are all that it ran");
        assert_eq!(ran(4_000, 500 + 3_000 + 700), 700);
        assert_eq!(ran(4_000, 500 + 2_000), 0, "it was kept from running between the two");
        assert_eq!(ran(1_000, 500 + 800), 800, "nothing lies between");
    }

    #[test]
    fn counter_requires_cpu_flags_and_suitable_clocksource() {
        for (cpuinfo, kernel, usable) in [
            (GOOD, "tsc", true),
            (GOOD, "kvm-clock", true),
            (GOOD, "hyperv_clocksource_tsc_page", true),
            (GOOD, "hpet", false),
            (GOOD, "acpi_pm", false),
            (GOOD, "", false),
            ("flags : constant_tsc nonstop_tsc\nflags : constant_tsc\n", "tsc", false),
            ("flags : nonconstant_tsc nonstop_tsc\n", "tsc", false),
            ("", "tsc", false),
        ] {
            assert_eq!(counter_usable(cpuinfo, kernel).is_ok(), usable, "{cpuinfo:?} {kernel}");
        }
    }

    #[test]
    fn fallback_clock_is_monotonic_and_gives_reason() {
        let clock = Clock::best_for(GOOD, "hpet");
        assert_eq!(clock.source(), ClockSource::Monotonic);
        assert!(clock.reason().contains("clock source"));
        assert_eq!((clock.nanos(12_345), clock.ticks(12_345)), (12_345, 12_345));
        let before = clock.now();
        sleep_ns(1_000_000);
        assert!(clock.now() - before >= 1_000_000);
        Anchor::now(&clock).check(&clock).unwrap();
    }

    struct Fake {
        ns: Cell<u64>,
        /// Ticks in a nanosecond during each wait.
        rates: &'static [f64],
        waits: Cell<usize>,
        ticks: Cell<f64>,
    }

    impl Pair for Fake {
        fn counter(&self) -> u64 {
            self.ticks.get() as u64
        }
        fn monotonic_ns(&self) -> u64 {
            self.ns.get()
        }
        fn wait(&self, ns: u64) {
            let rate = self.rates[self.waits.get().min(self.rates.len() - 1)];
            self.ns.set(self.ns.get() + ns);
            self.ticks.set(self.ticks.get() + ns as f64 * rate);
            self.waits.set(self.waits.get() + 1);
        }
    }

    fn fake(rates: &'static [f64]) -> Fake {
        Fake { ns: Cell::new(5), rates, waits: Cell::new(0), ticks: Cell::new(1e9) }
    }

    #[test]
    fn calibration_requires_two_matching_spans() {
        let steady = fake(&[2.5]);
        let scale = calibrate(&steady).unwrap();
        assert!((scale as f64 / 2_f64.powi(32) - 0.4).abs() < 1e-6);
        assert_eq!(steady.waits.get(), 2);

        let settles = fake(&[1.0, 2.0, 3.0, 3.0]);
        assert!((calibrate(&settles).unwrap() as f64 / 2_f64.powi(32) - 1.0 / 3.0).abs() < 1e-6);
        assert_eq!(settles.waits.get(), 4);

        assert!(calibrate(&fake(&[1.0, 1.01, 1.0, 1.01, 1.0])).unwrap_err().contains("never agreed"));
        assert!(calibrate(&fake(&[-1.0])).unwrap_err().contains("went back"));
    }

    #[test]
    fn drift_error_reports_both_durations() {
        assert!(compare(1_000_000_000, 1_001_900_000).is_ok());
        let error = compare(1_000_000_000, 1_003_000_000).unwrap_err().to_string();
        assert!(error.contains("1000000000") && error.contains("1003000000"), "{error}");
        assert!(compare(0, 15_000).is_ok());
        let clock = Clock::best();
        let anchor = Anchor::now(&clock);
        sleep_ns(2_000_000);
        anchor.check(&clock).unwrap();
        let wrong = Clock { scale: clock.scale / 2, ..clock };
        assert!(anchor.check(&wrong).is_err());
    }

    #[test]
    fn best_clock_keeps_time() {
        let clock = Clock::best();
        let (start, start_ns) = (clock.now(), monotonic_ns());
        sleep_ns(20_000_000);
        let (counter, kernel) = (clock.nanos(clock.now() - start), monotonic_ns() - start_ns);
        assert!(counter.abs_diff(kernel) < kernel / 50, "{counter} {kernel} {:?}", clock);
        let ticks = clock.ticks(1_000_000_000);
        assert!(clock.nanos(ticks).abs_diff(1_000_000_000) < 10);
    }

    #[test]
    fn cpu_time_of_a_thread_grows() {
        let before = CpuTime::of_this_thread();
        let end = monotonic_ns() + 20_000_000;
        while monotonic_ns() < end {}
        let spent = CpuTime::of_this_thread().since(before);
        assert!(spent.user_ns + spent.system_ns > 1_000_000, "{spent:?}");
    }
}
