//! Median and 99th percentile in windows of 100 ms: the visible form of a stall.
//!
//! Each window has a small histogram, 16 buckets for each doubling of the latency, so a quantile is within 1/32 of the
//! true one. Windows of several threads can be added up, which their quantiles could not. When there are more windows
//! than there is memory for, pairs of them are added up and the windows are twice as wide.

use crate::clock::Clock;

/// Width of a window before the first doubling, in nanoseconds.
const STEP_NS: u64 = 100_000_000;
/// Buckets for each doubling, as a power of two.
const BITS: u32 = 4;
/// Latencies from about 128 ns to 137 s; those outside are in the first or the last bucket.
const OCTAVES: (u32, u32) = (7, 37);
const BUCKETS: usize = ((OCTAVES.1 - OCTAVES.0) as usize) << BITS;
/// Windows of all threads together; a thread has between 32 and 1024 of them (1 MiB and 2 KiB for each window).
const ALL_WINDOWS: usize = 16_384;

/// The windows of one thread.
#[derive(Debug, Clone)]
pub(crate) struct Tails {
    /// Windows one after the other, [`BUCKETS`] each; untouched ones take no memory.
    counts: Vec<u32>,
    windows: usize,
    /// Start of the window in use.
    current: usize,
    origin: u64,
    step: u64,
    step_ns: u64,
    index: usize,
}

/// The bucket of a latency.
#[inline]
fn bucket(nanos: u64) -> usize {
    let octave = 63 - (nanos | 1).leading_zeros();
    if octave < OCTAVES.0 {
        return 0;
    }
    let within = (nanos >> (octave - BITS)) as usize & ((1 << BITS) - 1);
    ((((octave - OCTAVES.0) as usize) << BITS) + within).min(BUCKETS - 1)
}

fn middle(bucket: usize) -> u64 {
    let octave = OCTAVES.0 + (bucket >> BITS) as u32;
    let within = (bucket & ((1 << BITS) - 1)) as u64;
    let width = 1_u64 << (octave - BITS);
    (1 << octave) + within * width + width / 2
}

impl Tails {
    /// Windows from tick `origin` on.
    pub(crate) fn new(origin: u64, clock: Clock) -> Self {
        let step = clock.ticks(STEP_NS).max(1);
        let mut tails =
            Self { counts: Vec::new(), windows: 0, current: 0, origin, step, step_ns: STEP_NS, index: 0 };
        tails.among(1);
        tails
    }

    /// Keeps the memory of all threads together within bounds.
    pub(crate) fn among(&mut self, threads: u16) {
        self.windows = (ALL_WINDOWS / usize::from(threads.max(1))).clamp(32, 1024);
        self.counts = vec![0; self.windows * BUCKETS];
    }

    pub(crate) fn start_at(&mut self, start: u64) {
        self.origin += start;
    }

    /// First tick of the next window.
    pub(crate) fn edge(&self) -> u64 {
        self.origin.saturating_add((self.index as u64 + 1).saturating_mul(self.step))
    }

    /// An operation is complete.
    #[inline]
    pub(crate) fn record(&mut self, nanos: u64) {
        let bucket = bucket(nanos);
        if let Some(count) = self.counts.get_mut(self.current + bucket) {
            *count = count.saturating_add(1);
        }
    }

    /// Advances to the window of `now`.
    pub(crate) fn advance(&mut self, now: u64) {
        while now >= self.edge() {
            let index = (now - self.origin) / self.step;
            if index < self.windows as u64 {
                self.index = index as usize;
            } else {
                self.double();
            }
        }
        self.current = self.index * BUCKETS;
    }

    fn double(&mut self) {
        for n in 0..self.windows / 2 {
            for bucket in 0..BUCKETS {
                let [a, b] = [2 * n, 2 * n + 1].map(|window| self.counts[window * BUCKETS + bucket]);
                self.counts[n * BUCKETS + bucket] = a.saturating_add(b);
            }
        }
        self.counts[self.windows / 2 * BUCKETS..].fill(0);
        self.index /= 2;
        self.step *= 2;
        self.step_ns *= 2;
    }

    /// Adds the windows of another thread of the same run.
    pub(crate) fn absorb(&mut self, other: &Self) {
        let mut other = other.clone();
        while self.step < other.step {
            self.double();
        }
        while other.step < self.step {
            other.double();
        }
        self.index = self.index.max(other.index);
        self.counts
            .iter_mut()
            .zip(&other.counts)
            .for_each(|(mine, theirs)| *mine = mine.saturating_add(*theirs));
    }

    /// Median and 99th percentile of every window up to the last that was reached, in nanoseconds, and the width of a
    /// window; 0 for a window in which nothing was completed.
    pub(crate) fn quantiles(&self) -> (Vec<(u64, u64)>, u64) {
        let windows = self.counts.chunks_exact(BUCKETS).take(self.index + 1);
        (windows.map(|counts| (quantile(counts, 0.5), quantile(counts, 0.99))).collect(), self.step_ns)
    }
}

fn quantile(counts: &[u32], quantile: f64) -> u64 {
    let total: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    let wanted = ((total as f64 * quantile).ceil() as u64).max(1);
    let mut seen = 0;
    for (index, count) in counts.iter().enumerate() {
        seen += u64::from(*count);
        if seen >= wanted {
            return middle(index);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tails(threads: u16) -> Tails {
        let mut tails = Tails::new(0, Clock::monotonic("test"));
        tails.among(threads);
        tails
    }

    proptest! {
        #[test]
        fn quantiles_are_close_to_the_true_ones(latencies in proptest::collection::vec(128_u64..100_000_000_000, 1..400)) {
            let mut tails = tails(1);
            latencies.iter().for_each(|latency| tails.record(*latency));
            let mut sorted = latencies;
            sorted.sort_unstable();
            let exact = |q: f64| sorted[((sorted.len() as f64 * q).ceil() as usize).max(1) - 1] as f64;
            let (windows, step) = tails.quantiles();
            prop_assert_eq!((windows.len(), step), (1, STEP_NS));
            for (got, q) in [(windows[0].0, 0.5), (windows[0].1, 0.99)] {
                prop_assert!((got as f64 / exact(q) - 1.0).abs() <= 1.0 / 32.0 + 0.001, "{} for {}", got, exact(q));
            }
        }

        #[test]
        fn windows_agree_with_the_slow_model(times in proptest::collection::vec(0_u64..20_000_000_000, 1..300)) {
            // 1024 threads have 32 windows of 100 ms: 20 s take three doublings.
            let mut times = times;
            times.sort_unstable();
            let mut tails = tails(1024);
            for at in &times {
                tails.advance(*at);
                tails.record(1_000_000);
            }
            let (windows, step) = tails.quantiles();
            prop_assert!(windows.len() <= 32);
            for (n, window) in windows.iter().enumerate() {
                let inside = times.iter().any(|at| (at / step) as usize == n);
                prop_assert_eq!(window.0 > 0, inside, "window {} of {} ns", n, step);
            }
        }

        #[test]
        fn threads_add_up(split in 0_usize..200, times in proptest::collection::vec(0_u64..9_000_000_000, 200)) {
            let mut times = times;
            times.sort_unstable();
            let of = |times: &[u64]| {
                let mut tails = tails(1024);
                for at in times {
                    tails.advance(*at);
                    tails.record(at % 1_000_000 + 200);
                }
                tails
            };
            // Two threads that ended at different times, so one may have doubled more often.
            let (mut first, second) = (of(&times[..split]), of(&times[split..]));
            first.absorb(&second);
            prop_assert_eq!(first.quantiles(), of(&times).quantiles());
        }
    }

    #[test]
    fn out_of_range_values_use_end_buckets() {
        assert_eq!(bucket(0), 0);
        assert_eq!(bucket(127), 0);
        assert_eq!(bucket(128), 0);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(bucket(middle(100)), 100);
    }

    #[test]
    fn memory_is_bounded() {
        for threads in [1, 2, 16, 1024] {
            let all = tails(threads).counts.len() * size_of::<u32>() * usize::from(threads);
            assert!(all <= 64 << 20, "{threads} threads: {all} bytes");
        }
    }
}
