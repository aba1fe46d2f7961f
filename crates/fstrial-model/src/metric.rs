//! The metrics that can decide a contrast, one row for each: its description in help, files, verdicts, pages and
//! documents, its unit and its band, and its derivation from a measurement.

use crate::{counter::Counter, unit, workload::ResultKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Metric for comparing arms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Operations per second: more is better.
    Throughput,
    /// Median latency of an operation: less is better.
    P50,
    /// 95th percentile of latency.
    P95,
    /// 99th percentile of latency.
    P99,
    /// 99.9th percentile of latency.
    P999,
    /// Mean latency of an operation whose requests come at an offered rate.
    MeanLatency,
    /// CPU time of the whole machine for each operation of a load, in its measured time: less is better.
    CpuTime,
    /// Bytes written to the device for each operation of a load, in its measured time: less is better.
    DeviceBytes,
}

/// Properties of a metric.
#[derive(Debug)]
pub struct MetricRow {
    /// The metric of this row; its number is the index of the row.
    pub metric: Metric,
    /// The name in files, flags and output.
    pub name: &'static str,
    /// The name in sentences and on pages.
    pub words: &'static str,
    /// Description for documents.
    pub about: &'static str,
    /// The unit of its figures; none for throughput: that of the result.
    pub unit: Option<&'static str>,
    /// Band of negligible differences, as a fraction; none: the trial's.
    pub band: Option<f64>,
    /// Its derivation from a measurement.
    pub taken: MetricSource,
}

/// Derivation of a metric from a measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MetricSource {
    /// The figure of the result: operations or bytes per second, or a single number.
    Figure,
    /// A quantile of the latencies of all operations; rounds are merged until it has enough of them.
    Quantile(f64),
    /// The mean latency of all operations.
    MeanLatency,
    /// A counter, for each operation of a load; none if it counted nothing.
    PerOperation(Counter),
}

/// Every metric, in the order in which they are shown.
pub const METRICS: [MetricRow; 8] = [
    MetricRow {
        metric: Metric::Throughput,
        name: "throughput",
        words: "throughput",
        about: "operations or bytes per second, or the one number that a run yields",
        unit: None,
        band: None,
        taken: MetricSource::Figure,
    },
    quantile(Metric::P50, "p50", "p50", "median latency of an operation", 0.5, 0.05),
    quantile(Metric::P95, "p95", "p95", "95th percentile of latency", 0.95, 0.07),
    quantile(Metric::P99, "p99", "p99", "99th percentile of latency", 0.99, 0.10),
    quantile(Metric::P999, "p999", "p99.9", "99.9th percentile of latency", 0.999, 0.20),
    amount(
        Metric::MeanLatency,
        "mean-latency",
        "mean latency",
        "mean latency of an operation; only at an offered rate, because without one it is throughput again",
        unit::TIME,
        MetricSource::MeanLatency,
    ),
    amount(
        Metric::CpuTime,
        "cpu-time",
        "CPU time per operation",
        "CPU time of the whole machine for each operation",
        unit::TIME,
        MetricSource::PerOperation(Counter::CpuMachine),
    ),
    amount(
        Metric::DeviceBytes,
        "device-bytes",
        "device bytes per operation",
        "bytes written to the device for each operation",
        unit::BYTES,
        MetricSource::PerOperation(Counter::DeviceWritten),
    ),
];

const fn quantile(
    metric: Metric,
    name: &'static str,
    words: &'static str,
    about: &'static str,
    quantile: f64,
    band: f64,
) -> MetricRow {
    let taken = MetricSource::Quantile(quantile);
    MetricRow { metric, name, words, about, unit: Some(unit::TIME), band: Some(band), taken }
}

const fn amount(
    metric: Metric,
    name: &'static str,
    words: &'static str,
    about: &'static str,
    unit: &'static str,
    taken: MetricSource,
) -> MetricRow {
    MetricRow { metric, name, words, about, unit: Some(unit), band: None, taken }
}

impl Metric {
    /// True for a count, false for a time. Timers of the kernel (writeback, commits) still affect it if operations do
    /// not sync.
    pub fn is_counted(self) -> bool {
        self == Self::DeviceBytes
    }

    /// All metrics.
    pub fn all() -> impl Iterator<Item = Self> {
        METRICS.iter().map(|row| row.metric)
    }

    /// The names of all metrics, with commas.
    pub fn names() -> String {
        METRICS.map(|row| row.name).join(", ")
    }

    /// Names, description and source of the metric.
    pub const fn row(self) -> &'static MetricRow {
        &METRICS[self as usize]
    }

    /// The name in files, flags and output.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// The metric of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        METRICS.iter().find(|row| row.name == name).map(|row| row.metric)
    }

    /// The quantile of a latency metric.
    pub const fn quantile(self) -> Option<f64> {
        match self.row().taken {
            MetricSource::Quantile(quantile) => Some(quantile),
            MetricSource::Figure | MetricSource::MeanLatency | MetricSource::PerOperation(_) => None,
        }
    }

    /// Band of negligible differences, as a fraction; `practical` is the trial's.
    pub fn band(self, practical: f64) -> f64 {
        self.row().band.unwrap_or(practical)
    }

    /// The unit of its figures for a result.
    pub fn unit(self, of: &ResultKind) -> &str {
        self.row().unit.unwrap_or(&of.unit)
    }

    /// True if less of it is better for a result.
    pub fn less_is_better(self, of: &ResultKind) -> bool {
        self != Self::Throughput || of.less_is_better
    }

    /// True if a result is this metric as measured by a program: a number named `latency-p99`.
    pub fn is_name_of(self, result: &ResultKind) -> bool {
        self.quantile().is_some() && result.name.strip_prefix("latency-") == Some(self.name())
    }

    /// True if a result has it at all.
    pub fn is_of(self, result: &ResultKind) -> bool {
        match self {
            Self::Throughput => true,
            Self::MeanLatency => result.has_latencies && result.offered_rate.is_some(),
            _ => result.has_latencies,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_rows_match_index_and_name() {
        for (place, row) in METRICS.iter().enumerate() {
            assert_eq!(row.metric as usize, place);
            assert_eq!(serde_json::to_value(row.metric).unwrap(), row.name);
            assert_eq!(Metric::of_name(row.name), Some(row.metric));
        }
    }

    #[test]
    fn documentation_matches_metric_table() {
        let statistics = include_str!("../../../docs/statistics.md");
        let files = include_str!("../../../docs/trial-files.md");
        for row in &METRICS {
            let band = row.band.map_or("that of the trial".into(), |band| format!("{:.0} %", band * 100.0));
            let line = format!("| `{}` | {} | {band} |", row.name, row.about);
            assert!(statistics.lines().any(|matched| matched == line), "docs/statistics.md lacks {line}");
        }
        let listed = METRICS.map(|row| format!("`{}`", row.name)).join(", ");
        assert!(files.contains(&listed), "docs/trial-files.md lacks {listed}");
    }

    #[test]
    fn mean_latency_needs_an_offered_rate() {
        let result = |has_latencies, has_offered_rate: bool| ResultKind {
            name: String::new(),
            unit: unit::OPERATIONS.into(),
            less_is_better: false,
            has_latencies,
            offered_rate: has_offered_rate.then_some(1.0),
        };
        let with = |result: ResultKind| Metric::all().filter(|metric| metric.is_of(&result)).count();
        assert_eq!((with(result(true, true)), with(result(true, false))), (METRICS.len(), METRICS.len() - 1));
        assert_eq!(with(result(false, false)), 1);
    }
}
