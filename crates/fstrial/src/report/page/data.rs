//! The data of a page's plots as it is embedded: what docs/report.md describes. `collect` fills it.
//!
//! Numbers are written with four significant digits: a picture shows three, and a page of sixteen thousand runs is to
//! stay small.

use crate::run::contrast::Outcome;
use fstrial_model::{
    claim::OriginalTable,
    metric::{METRICS, Metric},
    trial::Compare,
};
use serde::Serialize;
use std::{collections::BTreeMap, io};

/// Raised when a field changes its meaning or goes away; new fields do not raise it.
pub(super) const SCHEMA_VERSION: u32 = 1;

/// Everything that is drawn on a page.
#[derive(Debug, Serialize)]
pub(super) struct PageData {
    pub(super) schema_version: u32,
    /// The version of fstrial that made the page.
    pub(super) fstrial: &'static str,
    /// What contrasts are about, by the name of the metric.
    pub(super) metrics: BTreeMap<&'static str, MetricData>,
    /// The trials, in the order of the page.
    pub(super) trials: Vec<TrialData>,
}

#[derive(Debug, Serialize)]
pub(super) struct MetricData {
    /// Its name in sentences.
    pub(super) words: &'static str,
    /// Inside which differences do not matter, as a fraction; left out where the trial says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) band: Option<f64>,
}

impl MetricData {
    pub(super) fn all() -> BTreeMap<&'static str, Self> {
        METRICS.iter().map(|row| (row.name, Self { words: row.words, band: row.band })).collect()
    }
}

#[derive(Debug, Serialize)]
pub(super) struct TrialData {
    pub(super) id: Option<i64>,
    pub(super) name: String,
    pub(super) started_at: String,
    pub(super) kernel: String,
    pub(super) device: String,
    pub(super) compare: Compare,
    pub(super) practical: f64,
    pub(super) arms: Vec<String>,
    /// Its workloads, or phases of them.
    pub(super) sections: Vec<SectionData>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) original: Vec<OriginalTable>,
    /// Contrasts that were left out, as there are too many.
    #[serde(skip_serializing_if = "is_nothing")]
    pub(super) contrasts_left_out: usize,
}

/// A workload, or one of its phases.
#[derive(Debug, Serialize)]
pub(super) struct SectionData {
    /// Its name with that of the phase.
    pub(super) title: String,
    pub(super) unit: String,
    pub(super) less_is_better: bool,
    pub(super) warmup_seconds: Option<f64>,
    pub(super) duration_seconds: Option<f64>,
    pub(super) levels: Vec<u16>,
    pub(super) cells: Vec<CellData>,
    pub(super) contrasts: Vec<ContrastData>,
}

/// A cell. What is not known is left out.
#[derive(Debug, Default, Serialize)]
pub(super) struct CellData {
    pub(super) arm: usize,
    pub(super) threads: u16,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) failed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cannot: Option<String>,
    pub(super) runs: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rate_interval: Option<(f64, f64)>,
    pub(super) rounds: Vec<(u32, f64)>,
    /// For each of these its place in the order of its round, from 1.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) orders: Vec<usize>,
    /// Mean latency of all runs together in ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) latency_mean: Option<f64>,
    /// Quantile, latency of all runs together in ns, and the least and the greatest of single runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) latency: Vec<Quantile>,
    /// Operations that the quantiles are of. The greatest latency grows with them, so they are shown with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) latency_operations: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) cdf: Vec<(f64, f64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) series: Option<SeriesData>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tails: Option<TailsData>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) device_bytes: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) asked_bytes: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) space_used_bytes: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) generator_share: Option<f64>,
    /// Medians in seconds.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) stages: BTreeMap<&'static str, f64>,
}

/// A quantile, the latency of all runs together in ns, and the least and the greatest of single runs.
pub(super) type Quantile = (f64, f64, Option<f64>, Option<f64>);

impl CellData {
    /// Whether there is a rate to draw.
    pub(super) fn is_rated(&self) -> bool {
        self.rate.is_some()
    }
}

/// Operations a second in the course of a run, over its rounds.
#[derive(Debug, Serialize)]
pub(super) struct SeriesData {
    pub(super) step_seconds: f64,
    pub(super) typical: Vec<f64>,
    pub(super) low: Vec<f64>,
    pub(super) high: Vec<f64>,
}

/// Latencies in the course of a run: medians over its rounds, in ns.
#[derive(Debug, Serialize)]
pub(super) struct TailsData {
    pub(super) step_seconds: f64,
    pub(super) p50: Vec<f64>,
    pub(super) p99: Vec<f64>,
}

#[derive(Debug, Serialize)]
pub(super) struct ContrastData {
    pub(super) a: usize,
    pub(super) b: usize,
    pub(super) threads: u16,
    pub(super) metric: Metric,
    pub(super) verdict: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) interval: Option<(f64, f64)>,
    /// Left out where it is 0.95.
    #[serde(skip_serializing_if = "is_usual")]
    pub(super) interval_level: f64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) less_is_better: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unequal: Option<String>,
    /// How it went, round by round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) course: Option<CourseData>,
}

/// How a contrast went: ratios of single rounds, and the running estimate with its interval.
#[derive(Debug, Serialize)]
pub(super) struct CourseData {
    pub(super) rounds: Vec<u32>,
    pub(super) pairs: Vec<Option<f64>>,
    pub(super) ratio: Vec<Option<f64>>,
    pub(super) low: Vec<Option<f64>>,
    pub(super) high: Vec<Option<f64>>,
}

/// Writes JSON without spaces, and numbers with four significant digits.
struct Short;

impl serde_json::ser::Formatter for Short {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        // Near 1 it is the distance from it that tells: 0.99999 is a level.
        let rounded: f64 = match value {
            near if (0.999..1.0).contains(&near) => near,
            other => format!("{other:.3e}").parse().expect("a number that was just written"),
        };
        // Whole numbers without their ".0".
        if rounded.fract() == 0.0 && rounded.abs() < 1e15 {
            write!(writer, "{rounded:.0}")
        } else {
            write!(writer, "{rounded}")
        }
    }
}

impl PageData {
    pub(super) fn to_json(&self) -> String {
        let mut text = Vec::new();
        let mut serializer = serde_json::Serializer::with_formatter(&mut text, Short);
        self.serialize(&mut serializer).expect("data of a page is plain");
        String::from_utf8(text).expect("JSON is UTF-8")
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_nothing(count: &usize) -> bool {
    *count == 0
}

/// Most intervals have this level.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_usual(level: &f64) -> bool {
    (level - 0.95).abs() < 1e-9
}
