//! The stored numbers as one long table, a row for each run and metric: for CSV, notebooks and other programs.

use crate::{RunId, Store, StoreError, TrialId, codec, error::Fault};
use fstrial_model::{measurement::Measurement, units::Nanos};
use serde::Serialize;

/// One number about a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Metric {
    /// What it is: `throughput`, `read_latency_ns_p99`.
    pub name: String,
    /// How much.
    pub value: f64,
    /// In what: `operations/s`, `B/s`, `ns`; `1` for a count.
    pub unit: &'static str,
}

/// One number about a run, with the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricRow {
    /// The trial.
    pub trial: TrialId,
    /// The run.
    pub run: RunId,
    /// Its round.
    pub round: u32,
    /// Its place in the round's drawn order.
    pub slot: u32,
    /// Which attempt at this run it was.
    pub attempt: u32,
    /// Its arm.
    pub arm: String,
    /// Its workload.
    pub workload: String,
    /// Its level.
    pub threads: u16,
    /// What the number is.
    pub metric: String,
    /// How much.
    pub value: f64,
    /// In what.
    pub unit: &'static str,
}

/// The latencies that are exported, by the end of their name.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)];

/// Everything a measurement says in numbers: rates, counts, CPU time per operation, latencies by kind of operation.
/// A rate over no time, a cost per operation of no operations and a latency of none are left out.
///
/// # Errors
/// A histogram does not decode; the text says which and why. One that a [`Store`] took does.
pub fn metrics(measurement: &Measurement) -> Result<Vec<Metric>, String> {
    let load = &measurement.load;
    let mut found = Vec::new();
    let mut add = |name: &str, value: f64, unit| found.push(Metric { name: name.to_owned(), value, unit });
    let seconds = load.duration.as_secs_f64();
    if seconds > 0.0 {
        add("throughput", float(load.operations) / seconds, "operations/s");
        add("bytes_per_second", float(load.bytes) / seconds, "B/s");
    }
    add("operations", float(load.operations), "1");
    add("errors", float(load.errors), "1");
    if load.operations > 0 {
        let per_operation = |time: Nanos| float(time.0) / float(load.operations);
        add("cpu_per_operation_ns", per_operation(load.cpu_user) + per_operation(load.cpu_system), "ns");
        add("cpu_machine_per_operation_ns", per_operation(measurement.cpu_machine), "ns");
    }
    for (kind, base64) in &load.histograms {
        let histogram =
            codec::histogram(base64).map_err(|error| format!("the histogram of `{kind}` {error}"))?;
        if !histogram.is_empty() {
            for (end, quantile) in QUANTILES {
                let value = float(histogram.value_at_quantile(quantile));
                add(&format!("{kind}_latency_ns_{end}"), value, "ns");
            }
        }
    }
    Ok(found)
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
            let mut add = |metric: String, value, unit| {
                rows.push(MetricRow {
                    trial,
                    run: run.id,
                    round: run.round,
                    slot: run.slot,
                    attempt: run.attempt,
                    arm: run.arm.clone(),
                    workload: run.workload.clone(),
                    threads: run.threads,
                    metric,
                    value,
                    unit,
                });
            };
            add("failed".into(), f64::from(u8::from(run.outcome.is_err())), "1");
            match run.outcome.as_ref().map(metrics) {
                Ok(Ok(found)) => {
                    found.into_iter().for_each(|metric| add(metric.name, metric.value, metric.unit))
                }
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
