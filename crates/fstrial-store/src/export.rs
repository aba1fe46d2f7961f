//! The stored numbers as one long table, a row for each run and metric: for CSV, notebooks and other programs.

use crate::{RunId, Store, StoreError, TrialId, codec, error::Fault};
use fstrial_model::{
    counter::Counter,
    job::FailureKind,
    measurement::{LoadResult, Measurement, PhaseResult, Reading},
    unit,
};
use serde::Serialize;

/// One number about a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Metric {
    /// The phase, or the group of threads in it; empty if the workload has only one.
    pub phase: String,
    /// Its name: `throughput`, `read_latency_ns_p99`, or `value` for the one number that a program printed.
    pub name: String,
    /// The number in `unit`.
    pub value: f64,
    /// Its unit: a name of [`fstrial_model::unit`], or a program's own.
    pub unit: String,
}

/// One number about a run, with the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricRow {
    /// Number of the trial in the store.
    pub trial: TrialId,
    /// Number of the run in the store.
    pub run: RunId,
    /// Number of the round in the trial, from 1.
    pub round: u32,
    /// Its place in the round's drawn order.
    pub slot: u32,
    /// Name of the run's arm.
    pub arm: String,
    /// Name of the run's workload.
    pub workload: String,
    /// Its level.
    pub threads: u16,
    /// The phase; empty if the workload has only one.
    pub phase: String,
    /// Its name.
    pub metric: String,
    /// The number in `unit`.
    pub value: f64,
    /// Unit of `value`, as in [`Metric::unit`].
    pub unit: String,
}

/// The latencies that are exported, by the end of their name.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)];

/// All numbers of a measurement: rates, counts, CPU time and bytes written to the device per operation, latencies by
/// kind of operation. A rate over no time, and a cost or latency of no operations, are left out.
///
/// # Errors
/// A histogram does not decode; the text has its name and the reason. One accepted by a [`Store`] does.
pub fn metrics(measurement: &Measurement) -> Result<Vec<Metric>, String> {
    let mut matched = Vec::new();
    for result in &measurement.results {
        let mut add = |name: &str, value: f64, unit: &str| {
            let (phase, name, unit) = (result.name.clone(), name.to_owned(), unit.to_owned());
            matched.push(Metric { phase, name, value, unit });
        };
        match &result.reading {
            Reading::Value(value) => add("value", value.value, &value.unit),
            Reading::Load(_, load) => load_metrics(load, result, &mut add)?,
        }
    }
    Ok(matched)
}

fn load_metrics(
    load: &LoadResult,
    result: &PhaseResult,
    add: &mut dyn FnMut(&str, f64, &str),
) -> Result<(), String> {
    let seconds = load.duration.as_secs_f64();
    if seconds > 0.0 {
        add("throughput", float(load.operations) / seconds, unit::OPERATIONS);
        add("bytes_per_second", float(load.bytes) / seconds, unit::BYTES_PER_SECOND);
    }
    add("operations", float(load.operations), unit::COUNT);
    add("errors", float(load.errors), unit::COUNT);
    if load.operations > 0 {
        let per_operation = |count: u64| float(count) / float(load.operations);
        add("cpu_per_operation_ns", per_operation(load.cpu_user.0 + load.cpu_system.0), unit::TIME);
        for (counter, name, unit) in [
            (Counter::CpuMachine, "cpu_machine_per_operation_ns", unit::TIME),
            (Counter::DeviceWritten, "device_bytes_per_operation", unit::BYTES),
            (Counter::DeviceRead, "device_read_bytes_per_operation", unit::BYTES),
        ] {
            if let Some(value) = result.counters.get(counter) {
                add(name, per_operation(value), unit);
            }
        }
    }
    if let Some((_, laps)) = result.counters.laps() {
        add("log_laps", laps, unit::COUNT);
    }
    if let Some(commits) = result.counters.get(Counter::Commits) {
        add("commits", float(commits), unit::COUNT);
    }
    if seconds > 0.0 && load.threads > 0 {
        let share = load.cpu_user.as_secs_f64() / seconds / f64::from(load.threads);
        add("generator_share_of_core", share, unit::COUNT);
    }
    for (kind, base64) in &load.histograms {
        let histogram =
            codec::histogram(base64).map_err(|error| format!("the histogram of `{kind}` {error}"))?;
        if !histogram.is_empty() {
            for (end, quantile) in QUANTILES {
                let value = float(histogram.value_at_quantile(quantile));
                add(&format!("{kind}_latency_ns_{end}"), value, unit::TIME);
            }
        }
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "for display and rates; 2^53 ns are 104 days")]
fn float(value: u64) -> f64 {
    value as f64
}

impl Store {
    /// Every number of every run of a trial, in the order of [`Store::runs`]. A row `failed` (0 or 1) begins each run,
    /// so that one that failed is not missing from the table.
    ///
    /// # Errors
    /// There is no such trial; the store cannot be read.
    pub fn metric_rows(&self, trial: TrialId) -> Result<Vec<MetricRow>, StoreError> {
        let mut rows = Vec::new();
        let mut fault = None;
        self.for_each_run(trial, |run| {
            let mut add = |phase: String, metric: String, value, unit: String| {
                rows.push(MetricRow {
                    trial,
                    run: run.id,
                    round: run.round,
                    slot: run.slot,
                    arm: run.arm.clone(),
                    workload: run.workload.clone(),
                    threads: run.threads,
                    phase,
                    metric,
                    value,
                    unit,
                });
            };
            // An unsupported operation of a filesystem is an answer, not a failure.
            let cannot = run.outcome.as_ref().is_err_and(|failure| failure.kind == FailureKind::Unsupported);
            let failed = run.outcome.is_err() && !cannot;
            add(String::new(), "failed".into(), f64::from(u8::from(failed)), "1".into());
            if cannot {
                add(String::new(), "unsupported".into(), 1.0, "1".into());
            }
            match run.outcome.as_ref().map(metrics) {
                Ok(Ok(matched)) => matched
                    .into_iter()
                    .for_each(|metric| add(metric.phase, metric.name, metric.value, metric.unit)),
                Ok(Err(error)) => {
                    fault.get_or_insert(Fault::damaged(format!("run {}: {error}", run.id)));
                }
                Err(_) => {}
            }
        })?;
        match fault {
            Some(fault) => Err(fault.at(self.path(), "export a trial")),
            None => Ok(rows),
        }
    }
}
