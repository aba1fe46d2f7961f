//! The expected figures of a model: a load on the simulated device alone, without real time. A served device is
//! compared with them.

use crate::simulator::{Completion, Kind, Request, Simulator, Time};
use fstrial_model::{
    device_model::DeviceModel,
    units::{Bytes, Nanos},
};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use std::collections::HashMap;

/// Completions after which enough is known.
const ENOUGH: usize = 200_000;

/// Time between two operations that take none, in ns.
const INSTANT: Time = 1000;

/// A closed loop over blocks.
#[derive(Debug, Clone, Copy)]
pub struct ClosedLoop {
    /// Reads, or writes.
    pub kind: Kind,
    /// Random blocks; else one after the other.
    pub random: bool,
    /// Bytes of the device that are used, from its beginning.
    pub span: Bytes,
    /// Bytes of a request.
    pub block: Bytes,
    /// Requests under way.
    pub depth: u16,
    /// Each write is followed by a flush, and both are one operation.
    pub flushes: bool,
    /// Time before anything counts.
    pub warmup: Nanos,
    /// Time that counts.
    pub duration: Nanos,
}

/// Rate and latencies of a [`ClosedLoop`] on a simulated device.
#[derive(Debug, Clone, PartialEq)]
pub struct RehearsalResult {
    /// Operations in a second; infinite if they take no time.
    pub iops: f64,
    /// Latencies of operations, sorted, in ns.
    latencies: Vec<Time>,
}

impl RehearsalResult {
    /// The latency that a share of the operations, 0 to 1, does not exceed; 0 without operations.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a count is an index"
    )]
    pub fn quantile(&self, share: f64) -> Nanos {
        let index = (self.latencies.len() as f64 * share) as usize;
        Nanos(self.latencies.get(index).or(self.latencies.last()).copied().unwrap_or(0))
    }
}

/// An operation under way.
#[derive(Debug, Clone, Copy)]
struct Begun {
    at: Time,
    /// Its write is done, and it waits for its flush.
    flushing: bool,
}

struct Rehearsal<'a> {
    device: Simulator,
    load: &'a ClosedLoop,
    blocks: u64,
    random: ChaCha8Rng,
    begun: HashMap<u64, Begun>,
    begun_so_far: u64,
    next: u64,
}

/// Does a load on the device of a model.
///
/// # Panics
/// If the device has no room for a block.
pub fn rehearse(model: &DeviceModel, size: Bytes, seed: u64, load: &ClosedLoop) -> RehearsalResult {
    let blocks = load.span.0.min(size.0) / load.block.0;
    assert!(blocks > 0, "a device has room for a block");
    let mut rehearsal = Rehearsal {
        device: Simulator::new(model, size, seed),
        load,
        blocks,
        random: ChaCha8Rng::seed_from_u64(seed),
        begun: HashMap::new(),
        begun_so_far: 0,
        next: 0,
    };
    rehearsal.run()
}

impl Rehearsal<'_> {
    fn run(&mut self) -> RehearsalResult {
        let (from, to) = (self.load.warmup.0, self.load.warmup.0 + self.load.duration.0);
        let (mut latencies, mut complete, mut last) = (Vec::new(), Vec::new(), from);
        (0..self.load.depth).for_each(|_| self.begin(0));
        while let Some(at) = self.device.next_event().filter(|at| *at < to && latencies.len() < ENOUGH) {
            self.device.advance(at, &mut complete);
            for done in complete.drain(..) {
                if let Some(latency) = self.done(done) {
                    last = done.at;
                    if done.at >= from {
                        latencies.push(latency);
                    }
                }
            }
        }
        latencies.sort_unstable();
        #[expect(clippy::cast_precision_loss, reason = "counts and times far below 2^52")]
        let (count, seconds) = (latencies.len() as f64, last.saturating_sub(from) as f64 / 1e9);
        // All operations completed at the same instant, or none did.
        let iops = match latencies.last() {
            None => 0.0,
            Some(0) => f64::INFINITY,
            Some(_) => count / seconds,
        };
        RehearsalResult { iops, latencies }
    }

    fn begin(&mut self, at: Time) {
        let number = if self.load.random { self.random.next_u64() } else { self.begun_so_far };
        self.begun_so_far += 1;
        let offset = number % self.blocks * self.load.block.0;
        let request = Request { kind: self.load.kind, offset, length: self.load.block.0 };
        self.submit(at, request, Begun { at, flushing: false });
    }

    fn submit(&mut self, at: Time, request: Request, begun: Begun) {
        self.begun.insert(self.next, begun);
        self.device.submit(at, self.next, request);
        self.next += 1;
    }

    /// Continues after a completion; the latency if an operation is over.
    fn done(&mut self, done: Completion) -> Option<Time> {
        let begun = self.begun.remove(&done.id).expect("it was submitted");
        if self.load.flushes && !begun.flushing {
            let flush = Request { kind: Kind::Flush, offset: 0, length: 0 };
            self.submit(done.at, flush, Begun { flushing: true, ..begun });
            return None;
        }
        // A device that takes no time would otherwise never let time pass.
        self.begin(if done.at == begun.at { done.at + INSTANT } else { done.at });
        Some(done.at - begun.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::device_model::{Limits, Service, shipped};

    fn random_reads(depth: u16) -> ClosedLoop {
        ClosedLoop {
            kind: Kind::Read,
            random: true,
            span: Bytes::gib(1),
            block: Bytes::kib(4),
            depth,
            flushes: false,
            warmup: Nanos::millis(100),
            duration: Nanos::secs(2),
        }
    }

    #[test]
    fn constant_latency_yields_expected_iops() {
        let read = Service { latency: Nanos::millis(1), ..Service::default() };
        let model = DeviceModel { read, parallelism: Some(2), ..DeviceModel::default() };
        for (depth, rate) in [(1, 1000.0), (2, 2000.0), (8, 2000.0)] {
            let outcome = rehearse(&model, Bytes::mib(1), 1, &random_reads(depth));
            assert!((outcome.iops / rate - 1.0).abs() < 0.01, "{depth}: {}", outcome.iops);
        }
    }

    #[test]
    fn limits_bind_at_depth() {
        let limits = Some(Limits { iops: Some(300), ..Limits::default() });
        let outcome =
            rehearse(&DeviceModel { limits, ..DeviceModel::default() }, Bytes::mib(1), 1, &random_reads(32));
        assert!((outcome.iops - 300.0).abs() < 2.0, "{}", outcome.iops);
        // Little's law: 32 under way at 300 in a second.
        assert!((outcome.quantile(0.5).as_secs_f64() - 32.0 / 300.0).abs() < 0.002);
    }

    #[test]
    fn the_ideal_device_has_no_rate() {
        let outcome = rehearse(&DeviceModel::default(), Bytes::mib(1), 1, &random_reads(1));
        assert!(outcome.iops.is_infinite());
        assert_eq!(outcome.quantile(0.99), Nanos(0));
    }

    #[test]
    fn a_flush_after_each_write_empties_the_cache_each_time() {
        let load = ClosedLoop { kind: Kind::Write, ..random_reads(1) };
        let model = shipped("sata-ssd").unwrap();
        let cached = rehearse(&model, Bytes::mib(64), 1, &load).quantile(0.5);
        let flushed =
            rehearse(&model, Bytes::mib(64), 1, &ClosedLoop { flushes: true, ..load }).quantile(0.5);
        assert!(cached < Nanos(60_000) && flushed > Nanos(1_000_000), "{cached} {flushed}");
    }
}
