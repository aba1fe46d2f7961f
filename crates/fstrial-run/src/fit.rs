//! Fits a model to a device: the probes, and the model that explains their results.
//!
//! Only measured properties go into the model. From reads alone writes are unknown: they are assumed to be like reads,
//! and the model notes that. A rate that no longer grows with the depth is treated as a granted rate: it cannot be
//! distinguished from that many parallel places from outside, and makes no difference to a filesystem.

use super::probe::{Probe, ProbeResult};
use crate::error::ExpectedError;
use fstrial_model::{
    device_model::{DeviceModel, Disk, Limits, SMALL_REQUEST, Service},
    units::{Bandwidth, Bytes, Nanos},
};

/// Requests under way while the rate is looked for.
const DEPTHS: [u16; 4] = [1, 4, 16, 64];
/// A rate that grows by less than this when the depth quadruples is a limit.
const NO_GROWTH: f64 = 1.25;
/// Large requests, for the bandwidth.
const LARGE: Bytes = Bytes::kib(256);
/// A part of a disk in which the head hardly moves.
const NEARBY: u64 = 1000;
/// Rotations in a minute that disks have.
const RPM: [u32; 6] = [4200, 5400, 5900, 7200, 10_000, 15_000];
/// Time of each probe.
pub const PROBED_FOR: Nanos = Nanos::millis(1500);

/// Known properties of a device before it is probed.
#[derive(Debug, Clone, Copy)]
pub struct DeviceTraits {
    pub size: Bytes,
    /// The kernel takes it for a rotating disk.
    pub is_rotational: bool,
    pub may_write: bool,
}

impl DeviceTraits {
    /// True if its writes are probed. The cost of a disk's write is the head's movement, which reads show as well.
    fn learns_writes(&self) -> bool {
        self.may_write && !self.is_rotational
    }
}

/// Makes a probe, and returns the result.
pub type Prober<'a> = &'a mut dyn FnMut(&Probe) -> Result<ProbeResult, ExpectedError>;

/// Number of probes of a fit, to predict its duration.
pub fn probes(known: &DeviceTraits) -> u32 {
    let reads = if known.is_rotational { 4 } else { DEPTHS.len() as u32 + 3 };
    let writes = DEPTHS.len() as u32 + 2;
    reads + if known.learns_writes() { writes } else { 0 }
}

fn random(reads: bool, depth: u16, span: Bytes) -> Probe {
    Probe { reads, random: true, block: SMALL_REQUEST, depth, flushes: false, span, duration: PROBED_FOR }
}

/// Probes a device and explains it.
///
/// # Errors
/// A probe failed.
pub fn fit(known: &DeviceTraits, prober: Prober<'_>) -> Result<DeviceModel, ExpectedError> {
    let mut model = if known.is_rotational { disk(known, prober)? } else { flash(known, prober)? };
    if known.learns_writes() {
        let (write, iops) = ladder(false, known.size, prober)?;
        let flushed = prober(&Probe { flushes: true, ..random(false, 1, known.size) })?;
        model.write = service(&write, &prober(&Probe { block: LARGE, ..random(false, 1, known.size) })?);
        model.flush.latency = Nanos(flushed.p50.0.saturating_sub(write.p50.0));
        merge_limit(&mut model, iops);
    } else {
        model.write = model.read;
    }
    let part = if known.learns_writes() {
        "reads and writes"
    } else {
        "reads; writes are taken to be like reads, flushes to cost nothing"
    };
    model.source = format!("fitted to {part}");
    Ok(model)
}

/// Reads and writes may have separate limits; a model has one, and it must not hold back the faster.
fn merge_limit(model: &mut DeviceModel, of_writes: Option<u32>) {
    let limits = model.limits.get_or_insert_default();
    limits.iops = match (limits.iops, of_writes) {
        (Some(reads), Some(writes)) => Some(reads.max(writes)),
        _ => None,
    };
}

/// A device without moving parts.
fn flash(known: &DeviceTraits, prober: Prober<'_>) -> Result<DeviceModel, ExpectedError> {
    let (read, iops) = ladder(true, known.size, prober)?;
    let large = prober(&Probe { block: LARGE, ..random(true, 1, known.size) })?;
    let streams = |depth| Probe { block: LARGE, random: false, depth, ..random(true, 1, known.size) };
    let (few, many) = (prober(&streams(4))?, prober(&streams(16))?);
    let bandwidth = (many.iops < few.iops * NO_GROWTH).then(|| bandwidth(many.iops * bytes(LARGE))).flatten();
    let limits = Limits { iops, io_size: iops.map(|_| LARGE), bandwidth, ..Limits::default() };
    Ok(DeviceModel {
        parallelism: Some(128),
        read: service(&read, &large),
        limits: (limits != Limits::default()).then_some(limits),
        ..DeviceModel::default()
    })
}

/// Random requests one at a time, and the rate that more of them do not exceed, if there is one.
fn ladder(reads: bool, size: Bytes, prober: Prober<'_>) -> Result<(ProbeResult, Option<u32>), ExpectedError> {
    let shown: Vec<ProbeResult> =
        DEPTHS.iter().map(|depth| prober(&random(reads, *depth, size))).collect::<Result<_, _>>()?;
    let [first, .., before, last] = &shown[..] else { unreachable!("there are four depths") };
    Ok((*first, (last.iops < before.iops * NO_GROWTH).then(|| whole(last.iops))))
}

/// The latency of small requests, and the additional time of a large one's bytes.
fn service(small: &ProbeResult, large: &ProbeResult) -> Service {
    let longer = large.p50.as_secs_f64() - small.p50.as_secs_f64();
    let p99 = small.p99.max(small.p50);
    Service {
        latency: small.p50,
        p99: (small.p50 > Nanos(0) && p99 > small.p50).then_some(p99),
        // Less than a tenth more for 64 times the bytes: noise.
        bandwidth: (longer > small.p50.as_secs_f64() * 0.1)
            .then(|| bandwidth((bytes(LARGE) - bytes(SMALL_REQUEST)) / longer))
            .flatten(),
    }
}

/// A disk: near places wait half a turn, far ones for the head too.
fn disk(known: &DeviceTraits, prober: Prober<'_>) -> Result<DeviceModel, ExpectedError> {
    let near = prober(&random(true, 1, Bytes((known.size.0 / NEARBY).max(1 << 20).min(known.size.0))))?;
    let far = prober(&random(true, 1, known.size))?;
    let queued = prober(&random(true, 32, known.size))?;
    let stream = prober(&Probe { block: LARGE, random: false, depth: 4, ..random(true, 1, known.size) })?;
    // The wait for the sector is anything up to a turn, and the head moves nearly as far each time: so the 99th
    // percentile is 0.49 turns above the median. Disks have few speeds, so the nearest is meant.
    let turn = |rpm: u32| 60.0 / f64::from(rpm);
    let spread = near.p99.as_secs_f64() - near.p50.as_secs_f64();
    let off = |rpm: &u32| (spread.max(1e-6) / (0.49 * turn(*rpm))).ln().abs();
    let rpm = RPM.into_iter().min_by(|a, b| off(a).total_cmp(&off(b))).expect("there are some");
    let track_seek = (1.0 / near.iops - turn(rpm) / 2.0).max(0.0002);
    // The mean of the square root of a random distance is 8/15.
    let seek = 1.0 / far.iops - turn(rpm) / 2.0;
    let full_seek = track_seek + ((seek - track_seek) * 15.0 / 8.0).max(0.0);
    let outer = bandwidth(stream.iops * bytes(LARGE)).unwrap_or(Bandwidth(Bytes::mib(100)));
    let disk = Disk {
        rpm,
        track_seek: nanos(track_seek),
        full_seek: nanos(full_seek),
        outer_bandwidth: outer,
        inner_bandwidth: Bandwidth(Bytes(outer.0.0 / 2)),
        capacity: Some(known.size),
        read_ahead: Bytes::mib(2),
    };
    // Does it choose among the requests that wait?
    let queue = if queued.iops > far.iops * NO_GROWTH { 32 } else { 1 };
    Ok(DeviceModel { parallelism: Some(queue), disk: Some(disk), ..DeviceModel::default() })
}

#[expect(clippy::cast_precision_loss, reason = "requests are far below 2^52 bytes")]
fn bytes(size: Bytes) -> f64 {
    size.0 as f64
}

/// To three digits, which is more than is known.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive, and saturating is right"
)]
fn rounded(value: f64) -> u64 {
    let unit = 10_f64.powf((value.max(1.0).log10().floor() - 2.0).max(0.0));
    ((value / unit).round() * unit) as u64
}

fn whole(value: f64) -> u32 {
    u32::try_from(rounded(value)).unwrap_or(u32::MAX).clamp(1, 10_000_000)
}

fn bandwidth(bytes_per_second: f64) -> Option<Bandwidth> {
    let mib = rounded(bytes_per_second / f64::from(1 << 20));
    (mib > 0).then_some(Bandwidth(Bytes::mib(mib)))
}

fn nanos(seconds: f64) -> Nanos {
    Nanos(rounded(seconds * 1e6) * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::rehearsed;
    use fstrial_model::device_model::shipped;

    const SIZE: Bytes = Bytes::gib(1);

    /// Fits a model to the behaviour of another one.
    fn refit(name: &str, known: DeviceTraits) -> (DeviceModel, DeviceModel) {
        let original = shipped(name).unwrap();
        let mut count = 0;
        let fitted = fit(&known, &mut |probe| {
            count += 1;
            // Streams stay within the first part of the device, as they do in the time of a probe.
            let duration = if probe.random { Nanos::secs(20) } else { probe.duration };
            Ok(rehearsed(&original, SIZE, &Probe { duration, ..*probe }))
        });
        assert_eq!(count, probes(&known), "the number of probes is told beforehand");
        (original, fitted.unwrap())
    }

    fn near(value: f64, expected: f64) -> bool {
        (value / expected - 1.0).abs() < 0.1
    }

    #[test]
    fn a_cloud_volume_is_found_again() {
        let known = DeviceTraits { size: SIZE, is_rotational: false, may_write: true };
        let (original, fitted) = refit("gp3-3000", known);
        assert!(near(fitted.read.latency.as_secs_f64(), original.read.latency.as_secs_f64()), "{fitted:?}");
        assert!(near(fitted.write.latency.as_secs_f64(), original.write.latency.as_secs_f64()), "{fitted:?}");
        let limits = fitted.limits.unwrap();
        assert!(near(f64::from(limits.iops.unwrap()), 3000.0), "{limits:?}");
        assert!(near(bytes(limits.bandwidth.unwrap().0), bytes(Bytes::mib(125))), "{limits:?}");
        assert!(fitted.problem().is_none());
    }

    #[test]
    fn fitted_fast_device_has_no_unobserved_limit() {
        let known = DeviceTraits { size: SIZE, is_rotational: false, may_write: false };
        let (original, fitted) = refit("nvme", known);
        assert!(fitted.limits.is_none_or(|limits| limits.iops.is_none()), "{fitted:?}");
        assert!(near(fitted.read.p99.unwrap().as_secs_f64(), original.read.p99.unwrap().as_secs_f64()));
        assert_eq!(fitted.write, fitted.read);
        assert!(fitted.source.contains("writes are taken to be like reads"), "{}", fitted.source);
    }

    #[test]
    fn a_disk_is_found_again() {
        let known = DeviceTraits { size: SIZE, is_rotational: true, may_write: false };
        let (original, fitted) = refit("hdd-7200", known);
        let (original, result) = (original.disk.unwrap(), fitted.disk.unwrap());
        assert_eq!(result.rpm, original.rpm);
        let ratio = result.full_seek.as_secs_f64() / original.full_seek.as_secs_f64();
        assert!((0.8..1.2).contains(&ratio), "{result:?}");
        assert!(near(bytes(result.outer_bandwidth.0), bytes(original.outer_bandwidth.0)), "{result:?}");
        assert_eq!(fitted.parallelism, Some(32));
        assert!(fitted.problem().is_none());
    }

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!([1.4, 12.0, 123.4, 1234.0, 98_765.0].map(rounded), [1, 12, 123, 1230, 98_800]);
    }
}
