//! The open loop: due times of a thread's requests. A due time depends on the rate alone, never on when earlier
//! requests complete, and latency counts from it: a stall affects every request that fell due while it lasted, and not
//! only the one in flight (omitting the others is what Gil Tene calls coordinated omission).
//!
//! Constant arrivals of a load's threads interleave: thread t of n makes requests t, t + n, t + 2n, ... of an evenly
//! spaced sequence. Poisson arrivals are drawn for each thread; together they are Poisson again.

use crate::{
    clock::{Clock, sleep_ns},
    generator::{Generator, Stream},
};
use fstrial_model::{
    job::Load,
    workload::{self, Rate},
};
use std::num::NonZeroU64;

/// The last stretch before a due time is spent looking at the clock: the kernel wakes a sleeper this much late in all
/// but rare cases, and its lateness would be part of the latency.
const SPIN_NS: u64 = 50_000;
/// One tick, in the unit of [`Arrivals::exact`].
const TICK: f64 = 18_446_744_073_709_551_616.0;

/// The due times of one thread, in order, without end.
#[derive(Debug, Clone)]
pub(crate) struct Arrivals {
    clock: Clock,
    gaps: Gaps,
    /// When the next request is due, in ticks with 64 bits behind the point: additions of a period that is not a whole
    /// number of ticks leave no drift.
    exact: u128,
    /// The same, in whole ticks.
    next: u64,
    /// Requests are not awaited beyond this tick.
    end: u64,
    spin: u64,
}

#[derive(Debug, Clone)]
enum Gaps {
    Constant(u128),
    /// Mean distance in ticks.
    Poisson(f64, Generator),
}

/// Next step in a loop over turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// A turn, whose latency counts from this tick.
    Turn(u64),
    /// Nothing was due; it is this tick now.
    Rested(u64),
}

impl Arrivals {
    /// The next turn: immediately in a closed loop, when it is due in an open one.
    #[inline]
    pub(crate) fn next(arrivals: &mut Option<Self>, now: u64) -> Next {
        match arrivals {
            None => Next::Turn(now),
            Some(arrivals) if arrivals.is_due(now) => Next::Turn(arrivals.take()),
            Some(arrivals) => Next::Rested(arrivals.rest()),
        }
    }

    /// Those of a thread of a load that has a rate; none for a closed loop.
    pub(crate) fn of(load: &Load, thread: usize, clock: Clock) -> Option<Self> {
        let total_ns = load.warmup.0.saturating_add(load.duration.0);
        let share = Share { thread, threads: load.threads, seed: load.seed };
        load.rate.map(|rate| Self::new(rate, share, clock, total_ns))
    }

    /// For a load of `total_ns`.
    fn new(rate: Rate, share: Share, clock: Clock, total_ns: u64) -> Self {
        // The clock's ticks in a second are known to a part in a thousand million, which is better than the clock.
        let ticks = clock.ticks(1_000_000_000) as f64 / rate.per_second;
        let mean = ticks * f64::from(share.threads);
        let (gaps, exact) = match rate.arrivals {
            workload::Arrivals::Constant => {
                (Gaps::Constant((mean * TICK) as u128), (ticks * share.thread as f64 * TICK) as u128)
            }
            workload::Arrivals::Poisson => {
                let mut generator = Generator::new(share.seed, Stream::Arrivals(share.thread));
                let first = exponential(mean, &mut generator);
                (Gaps::Poisson(mean, generator), first)
            }
        };
        Self {
            clock,
            gaps,
            exact,
            next: (exact >> 64) as u64,
            end: clock.ticks(total_ns),
            spin: clock.ticks(SPIN_NS),
        }
    }

    /// The load starts at this tick. To be called once, on the thread that will wait.
    pub(crate) fn start_at(&mut self, start: u64) {
        // Sleeps end up to 50 us late by default. If it cannot be set the latencies are that much longer.
        let _optional = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        self.exact = self.exact.saturating_add(u128::from(start) << 64);
        self.next = (self.exact >> 64) as u64;
        self.end = self.end.saturating_add(start);
    }

    /// True if the next request is due.
    #[inline]
    pub(crate) fn is_due(&self, now: u64) -> bool {
        self.next <= now
    }

    /// The tick at which the next request is due; the one after it is the next then.
    #[inline]
    pub(crate) fn take(&mut self) -> u64 {
        let due = self.next;
        let gap = match &mut self.gaps {
            Gaps::Constant(gap) => *gap,
            Gaps::Poisson(mean, generator) => exponential(*mean, generator),
        };
        self.exact = self.exact.saturating_add(gap);
        self.next = (self.exact >> 64) as u64;
        due
    }

    /// Limit of other waits, in nanoseconds: close to the next due time, never beyond it.
    pub(crate) fn patience_ns(&self, now: u64) -> u64 {
        self.clock.nanos(self.next.min(self.end).saturating_sub(now).saturating_sub(self.spin))
    }

    /// Sleeps until the next request is due, or the load is over. Gives the tick it then is.
    pub(crate) fn rest(&self) -> u64 {
        let until = self.next.min(self.end);
        loop {
            let now = self.clock.now();
            if now >= until {
                return now;
            }
            let left = until - now;
            if left > self.spin {
                sleep_ns(self.clock.nanos(left - self.spin).max(1));
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

/// Part of a load's arrivals.
#[derive(Debug, Clone, Copy)]
struct Share {
    thread: usize,
    threads: u16,
    seed: u64,
}

/// An exponential distance of a given mean in ticks.
#[inline]
fn exponential(mean: f64, generator: &mut Generator) -> u128 {
    // In (0, 1]: no infinite distance.
    let u = ((generator.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    (-libm::log(u) * mean * TICK) as u128
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CLOCK: Clock = Clock::monotonic("test");

    fn arrivals(text: &str, thread: usize, threads: u16, seed: u64) -> Arrivals {
        Arrivals::new(text.parse().unwrap(), Share { thread, threads, seed }, CLOCK, u64::MAX)
    }

    #[test]
    fn constant_arrivals_never_drift() {
        // A period of 1/3 s is not a whole number of nanoseconds.
        let mut arrivals = arrivals("3/s", 0, 1, 1);
        arrivals.start_at(1000);
        for n in 0..3_000_000_u64 {
            let exact = u128::from(n) * 1_000_000_000 / 3 + 1000;
            assert!(u128::from(arrivals.take()).abs_diff(exact) <= 1, "request {n}");
        }
    }

    #[test]
    fn threads_interleave_evenly() {
        let mut all: Vec<u64> = (0..4)
            .flat_map(|thread| {
                let mut arrivals = arrivals("1000/s", thread, 4, 1);
                (0..100).map(move |_| arrivals.take())
            })
            .collect();
        all.sort_unstable();
        assert!(all.iter().enumerate().all(|(n, due)| due.abs_diff(n as u64 * 1_000_000) <= 1));
    }

    #[test]
    fn poisson_arrivals_have_the_mean_and_variance_of_their_law() {
        // 8 threads of 125/s each: gaps of 8 ms in the mean, and as much of standard deviation.
        let mut arrivals = arrivals("1000/s poisson", 3, 8, 7);
        let (count, mut last, mut sum, mut squares) = (200_000, 0, 0.0, 0.0);
        for _ in 0..count {
            let due = arrivals.take();
            let gap = (due - last) as f64 / 1e6;
            (last, sum, squares) = (due, sum + gap, squares + gap * gap);
        }
        let mean = sum / f64::from(count);
        let variance = squares / f64::from(count) - mean * mean;
        assert!((mean / 8.0 - 1.0).abs() < 0.01, "{mean}");
        assert!((variance / 64.0 - 1.0).abs() < 0.02, "{variance}");
    }

    #[test]
    fn poisson_threads_together_are_poisson() {
        // Counts in windows of 10 ms: mean and variance 10.
        let mut counts = vec![0_u32; 10_000];
        for thread in 0..5 {
            let mut arrivals = arrivals("1000/s poisson", thread, 5, 11);
            loop {
                let window = (arrivals.take() / 10_000_000) as usize;
                let Some(count) = counts.get_mut(window) else { break };
                *count += 1;
            }
        }
        let n = counts.len() as f64;
        let mean = counts.iter().map(|c| f64::from(*c)).sum::<f64>() / n;
        let variance = counts.iter().map(|c| (f64::from(*c) - mean).powi(2)).sum::<f64>() / n;
        assert!((mean - 10.0).abs() < 0.2, "{mean}");
        assert!((variance - 10.0).abs() < 0.6, "{variance}");
    }

    #[test]
    fn same_seed_same_times() {
        let times = |thread, seed| {
            let mut arrivals = arrivals("100/s poisson", thread, 2, seed);
            (0..100).map(|_| arrivals.take()).collect::<Vec<_>>()
        };
        assert_eq!(times(0, 1), times(0, 1));
        assert_ne!(times(0, 1), times(1, 1));
        assert_ne!(times(0, 1), times(0, 2));
    }

    proptest! {
        #[test]
        fn due_times_ascend_and_never_overflow(
            per_second in 0.001_f64..1e9,
            poisson: bool,
            threads in 1_u16..=1024,
            start in 0..u64::MAX / 2,
        ) {
            let rate = format!("{per_second}/s{}", if poisson { " poisson" } else { "" });
            let mut arrivals = arrivals(&rate, usize::from(threads) - 1, threads, 1);
            arrivals.start_at(start);
            let mut last = start;
            for _ in 0..200 {
                let due = arrivals.take();
                prop_assert!(due >= last);
                last = due;
            }
        }
    }
}
