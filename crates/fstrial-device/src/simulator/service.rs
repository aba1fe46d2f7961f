//! Service time of a single request: a lognormal latency, and a bandwidth for the bytes beyond a small request.

use super::Time;
use fstrial_model::device_model::{DeviceModel, SMALL_REQUEST, Service};
use rand_chacha::{ChaCha8Rng, rand_core::Rng};

/// Φ⁻¹(0.99): how many standard deviations the 99th percentile is from the median.
const Z99: f64 = 2.326_347_874_040_841;

/// The timing of each kind of request.
#[derive(Debug)]
pub(super) struct Timing {
    pub(super) read: Latency,
    pub(super) write: Latency,
    pub(super) flush: Latency,
    pub(super) discard: Latency,
}

impl Timing {
    pub(super) fn of(model: &DeviceModel) -> Self {
        Self {
            read: Latency::of(&model.read),
            write: Latency::of(&model.write),
            flush: Latency::of(&model.flush),
            discard: Latency::of(&model.discard.unwrap_or_default()),
        }
    }
}

/// A latency that is drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Latency {
    median_ns: f64,
    /// Standard deviation of the logarithm; 0: always the median.
    sigma: f64,
    /// Nanoseconds for each byte beyond a small request.
    ns_per_byte: f64,
}

impl Latency {
    #[expect(clippy::cast_precision_loss, reason = "latencies are far below 2^52 ns")]
    fn of(service: &Service) -> Self {
        let median_ns = service.latency.0 as f64;
        let sigma = service.p99.map_or(0.0, |p99| (p99.0 as f64 / median_ns).ln() / Z99);
        let ns_per_byte = service.bandwidth.map_or(0.0, |bandwidth| 1e9 / bandwidth.0.0 as f64);
        Self { median_ns, sigma, ns_per_byte }
    }

    /// A latency for this many bytes, in nanoseconds.
    pub(super) fn draw(&self, bytes: u64, random: &mut ChaCha8Rng) -> Time {
        let drawn = if self.sigma == 0.0 {
            self.median_ns
        } else {
            self.median_ns * (self.sigma * fstrial_stats::normal::quantile(uniform(random))).exp()
        };
        to_nanos(drawn) + self.transfer(bytes)
    }

    /// The part of it that the bytes beyond a small request take.
    #[expect(clippy::cast_precision_loss, reason = "requests are far below 2^52 bytes")]
    pub(super) fn transfer(&self, bytes: u64) -> Time {
        to_nanos(bytes.saturating_sub(SMALL_REQUEST.0) as f64 * self.ns_per_byte)
    }
}

/// A number strictly between 0 and 1.
#[expect(clippy::cast_precision_loss, reason = "52 bits fit exactly")]
fn uniform(random: &mut ChaCha8Rng) -> f64 {
    ((random.next_u64() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
}

/// Whole nanoseconds, rounded.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times are positive and bounded")]
pub(super) fn to_nanos(ns: f64) -> Time {
    ns.round().max(0.0) as Time
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::units::{Bandwidth, Bytes, Nanos};
    use rand_chacha::rand_core::SeedableRng;

    #[test]
    fn the_median_and_the_99th_percentile_come_out() {
        let service = Service { latency: Nanos(100_000), p99: Some(Nanos(400_000)), bandwidth: None };
        let (latency, mut random) = (Latency::of(&service), ChaCha8Rng::seed_from_u64(1));
        let mut drawn: Vec<Time> = (0..100_000).map(|_| latency.draw(4096, &mut random)).collect();
        drawn.sort_unstable();
        // Standard errors: 0.5 % of the median, 2 % of the 99th percentile.
        assert!((98_000..102_000).contains(&drawn[50_000]), "{}", drawn[50_000]);
        assert!((372_000..428_000).contains(&drawn[99_000]), "{}", drawn[99_000]);
    }

    #[test]
    fn bytes_beyond_a_small_request_pass_at_the_bandwidth() {
        let bandwidth = Some(Bandwidth(Bytes(1_000_000_000)));
        let service = Service { latency: Nanos(1000), p99: None, bandwidth };
        let (latency, mut random) = (Latency::of(&service), ChaCha8Rng::seed_from_u64(1));
        assert_eq!(latency.draw(4096, &mut random), 1000);
        assert_eq!(latency.draw(4096 + 1_000_000, &mut random), 1_001_000);
    }
}
