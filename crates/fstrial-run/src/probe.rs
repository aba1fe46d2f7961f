//! Probes of a block device: a few short loads of the engine on the bare device, and their results. Used to measure the
//! overhead of the path to a modelled device, to compare a modelled device with its model, and to fit a model to a
//! device.

use super::sample::latency;
use crate::error::ExpectedError;
use fstrial_device::{
    rehearsal::{ClosedLoop, rehearse},
    simulator::Kind,
};
use fstrial_engine::{Site, Usage};
use fstrial_model::{
    device_model::DeviceModel,
    job::Load,
    units::{Bytes, Nanos, Percent},
    workload::{Access, Backend, Data, Entry, Kind as WorkloadKind, Pattern, SetName, Until},
};
use serde::Serialize;
use std::path::Path;

/// A load on the device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probe {
    /// Read; else write.
    pub reads: bool,
    /// Random places; else one after the other.
    pub random: bool,
    /// Bytes of a request.
    pub block: Bytes,
    /// Requests under way.
    pub depth: u16,
    /// A flush after every write, as part of it.
    pub flushes: bool,
    /// Bytes of the device that are used, from its beginning.
    pub span: Bytes,
    pub duration: Nanos,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ProbeResult {
    /// Requests in a second; infinite (in JSON null) where they take no time, as a model may ask.
    pub iops: f64,
    pub p50: Nanos,
    pub p99: Nanos,
}

/// Does this to a block device, as it is.
///
/// # Errors
/// The device cannot be used, or a request failed.
pub fn probe(device: &Path, usage: Usage, probe: &Probe) -> Result<ProbeResult, ExpectedError> {
    let failed = |why: String| {
        ExpectedError::Stack(fstrial_stack::StackError::Unable {
            what: format!("could not probe {}: {why}", device.display()),
            hint: "look at the kernel log (dmesg)".into(),
        })
    };
    let load = load(probe);
    let mut site = Site::existing_device(device, usage);
    let prepared = site.prepare(std::slice::from_ref(&load)).map_err(|e| failed(e.to_string()))?;
    let result = prepared.run(&mut |_| {}).map_err(|e| failed(e.to_string()))?;
    if let Some(error) = &result.first_error {
        return Err(failed(error.clone()));
    }
    let quantile = |q: f64| latency(&result, q).map(Nanos).map_err(ExpectedError::Fault);
    #[expect(clippy::cast_precision_loss, reason = "counts of a second")]
    let iops = result.operations as f64 / result.duration.as_secs_f64();
    Ok(ProbeResult { iops, p50: quantile(0.5)?, p99: quantile(0.99)? })
}

/// The result of a model alone for this, without real time.
pub fn rehearsed(model: &DeviceModel, size: Bytes, probe: &Probe) -> ProbeResult {
    let load = ClosedLoop {
        kind: if probe.reads { Kind::Read } else { Kind::Write },
        random: probe.random,
        span: probe.span,
        block: probe.block,
        depth: probe.depth,
        flushes: probe.flushes,
        warmup: Nanos(probe.duration.0 / 5),
        duration: probe.duration,
    };
    let outcome = rehearse(model, size, 1, &load);
    ProbeResult { iops: outcome.iops, p50: outcome.quantile(0.5), p99: outcome.quantile(0.99) }
}

fn load(probe: &Probe) -> Load {
    let entry = Entry {
        name: Some("probe".into()),
        kind: Some(WorkloadKind::Io),
        access: Some(if probe.random { Access::Random } else { Access::Sequential }),
        reads: Some(Percent(if probe.reads { 100.0 } else { 0.0 })),
        block_size: Some(probe.block),
        file_size: Some(Bytes(probe.span.0 / probe.block.0 * probe.block.0)),
        direct: Some(true),
        backend: Some(if probe.depth == 1 { Backend::Sync } else { Backend::Aio }),
        depth: Some(probe.depth),
        fsync_every: Some(u32::from(probe.flushes && !probe.reads)),
        threads: Some(vec![1]),
        ..Entry::default()
    };
    let workload = entry.resolve(1).expect("a probe is a workload");
    let pattern: Pattern = workload.phases()[0].groups[0].pattern.clone();
    Load {
        pattern,
        set: SetName::load(),
        threads: 1,
        warmup: Nanos(probe.duration.0 / 5),
        duration: probe.duration,
        until: Until::Time,
        seed: 1,
        data: Data::Random,
        rate: None,
        handicap: Percent::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_probe_is_a_load() {
        for (reads, random, depth, flushes) in [
            (true, true, 1, false),
            (true, false, 4, false),
            (false, true, 32, false),
            (false, false, 1, true),
        ] {
            let probe = Probe {
                reads,
                random,
                block: Bytes::kib(4),
                depth,
                flushes,
                span: Bytes::mib(64),
                duration: Nanos::millis(100),
            };
            let Pattern::Io(io) = load(&probe).pattern else { panic!("a probe is I/O") };
            assert_eq!((io.direct, io.depth, io.fsync_every), (true, depth, u32::from(flushes)));
        }
    }
}
