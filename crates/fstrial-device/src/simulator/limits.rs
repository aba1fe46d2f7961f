//! Limits over all requests: the time at which the next one may pass. Requests are spaced evenly, as providers shape
//! them: an idle device saves nothing up except burst credits.

use super::{Time, service::to_nanos};
use fstrial_model::device_model::Limits;

const SECOND_NS: f64 = 1e9;

/// Grants passage to requests in the order of their arrival.
#[derive(Debug)]
pub(super) struct Grant {
    limits: Limits,
    /// The time at which the next request may pass for the rate of requests, in ns.
    next_ns: f64,
    /// The same for the bandwidth.
    next_byte_ns: f64,
    /// Credits of a burst at the time of the last request.
    credits: f64,
    credits_at: Time,
}

impl Grant {
    #[expect(clippy::cast_precision_loss, reason = "credits are far below 2^52")]
    pub(super) fn of(limits: Option<&Limits>) -> Self {
        let limits = limits.copied().unwrap_or_default();
        let credits = limits.credits_at_start.or(limits.credits).unwrap_or(0) as f64;
        Self { limits, next_ns: 0.0, next_byte_ns: 0.0, credits, credits_at: 0 }
    }

    /// When a request of this many bytes may pass.
    #[expect(clippy::cast_precision_loss, reason = "times and sizes are far below 2^52")]
    pub(super) fn at(&mut self, now: Time, bytes: u64) -> Time {
        let mut at_ns = now as f64;
        if let Some(bandwidth) = self.limits.bandwidth {
            at_ns = at_ns.max(self.next_byte_ns);
            self.next_byte_ns = at_ns + bytes as f64 / bandwidth.0.0 as f64 * SECOND_NS;
        }
        if let Some(iops) = self.limits.iops {
            let cost = self.limits.io_size.map_or(1, |size| bytes.div_ceil(size.0).max(1)) as f64;
            at_ns = at_ns.max(self.next_ns);
            let rate = self.rate(f64::from(iops), at_ns, cost);
            self.next_ns = at_ns + cost / rate * SECOND_NS;
        }
        // Rounded up: a request never passes early.
        to_nanos(at_ns.ceil())
    }

    /// Requests in a second at this moment, taking the credits that a request costs.
    #[expect(clippy::cast_precision_loss, reason = "credits are far below 2^52")]
    fn rate(&mut self, iops: f64, at_ns: f64, cost: f64) -> f64 {
        let (Some(burst), Some(most)) = (self.limits.burst_iops, self.limits.credits) else { return iops };
        let earned = (at_ns - self.credits_at as f64).max(0.0) / SECOND_NS * iops;
        self.credits = (self.credits + earned).min(most as f64);
        self.credits_at = to_nanos(at_ns);
        // Taken in any case: the slower rate's earnings are spent on it, or every other request would be a burst.
        let has_credits = self.credits >= cost;
        self.credits -= cost;
        if has_credits { f64::from(burst) } else { iops }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::units::{Bandwidth, Bytes};

    /// Times at which simultaneous requests pass.
    fn passing(limits: Limits, bytes: u64, count: usize) -> Vec<Time> {
        let mut grant = Grant::of(Some(&limits));
        (0..count).map(|_| grant.at(0, bytes)).collect()
    }

    #[test]
    fn requests_are_spaced_evenly() {
        let limits = Limits { iops: Some(1000), ..Limits::default() };
        assert_eq!(passing(limits, 4096, 4), [0, 1_000_000, 2_000_000, 3_000_000]);
        let mut grant = Grant::of(Some(&limits));
        grant.at(0, 4096);
        assert_eq!(grant.at(5_000_000_000, 4096), 5_000_000_000, "an idle device makes nobody wait");
        assert_eq!(grant.at(5_000_000_000, 4096), 5_001_000_000, "and saves nothing up");
    }

    #[test]
    fn large_requests_count_as_several() {
        let limits = Limits { iops: Some(1000), io_size: Some(Bytes::kib(256)), ..Limits::default() };
        assert_eq!(passing(limits, 1 << 20, 2), [0, 4_000_000]);
    }

    #[test]
    fn the_slower_of_two_limits_counts() {
        let limits =
            Limits { iops: Some(1000), bandwidth: Some(Bandwidth(Bytes(1_000_000))), ..Limits::default() };
        assert_eq!(passing(limits, 100, 2), [0, 1_000_000]);
        assert_eq!(passing(limits, 100_000, 2), [0, 100_000_000]);
    }

    #[test]
    fn credits_buy_a_burst_and_come_back() {
        let limits = Limits {
            iops: Some(100),
            burst_iops: Some(1000),
            credits: Some(1000),
            credits_at_start: Some(10),
            ..Limits::default()
        };
        let times = passing(limits, 4096, 40);
        // Ten credits; while they are spent at 1000 a second another one is earned.
        assert!(times[10] <= 10_000_000, "{times:?}");
        assert!(times[12..].windows(2).all(|pair| pair[1] - pair[0] == 10_000_000), "{times:?}");
        let mut grant = Grant::of(Some(&limits));
        (0..40).for_each(|_| _ = grant.at(0, 4096));
        let later = 100_000_000_000;
        let first = grant.at(later, 4096);
        let last = (0..998).map(|_| grant.at(later, 4096)).last().unwrap();
        assert_eq!(last - first, 998_000_000, "a full purse lasts a thousand requests");
    }
}
