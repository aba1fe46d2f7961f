//! The data of a page's pictures. `collect` fills it.

use fstrial_model::unit;
use fstrial_run::contrast::Outcome;
use std::collections::BTreeMap;

pub(super) struct TrialData {
    pub(super) id: Option<i64>,
    pub(super) name: String,
    pub(super) kernel: String,
    pub(super) device: String,
    /// Differences that do not matter, as a fraction.
    pub(super) practical: f64,
    pub(super) arms: Vec<String>,
    /// Its workloads, or phases of them.
    pub(super) sections: Vec<SectionData>,
    /// Contrasts that were left out, as there are too many.
    pub(super) contrasts_left_out: usize,
}

/// A workload, or one of its phases.
pub(super) struct SectionData {
    /// Its name with that of the phase.
    pub(super) title: String,
    pub(super) unit: String,
    pub(super) less_is_better: bool,
    pub(super) warmup_seconds: Option<f64>,
    pub(super) levels: Vec<u16>,
    pub(super) cells: Vec<CellData>,
    /// Curves over threads of a claim's source, by arm, all multiplied to be at the height of ours.
    pub(super) source: Vec<(usize, Vec<(f64, f64)>)>,
    /// Those of throughput.
    pub(super) contrasts: Vec<ContrastData>,
}

impl SectionData {
    /// Name of its rates.
    pub(super) fn what(&self) -> &'static str {
        match self.unit.as_str() {
            unit::TIME => "Time",
            unit::BYTES | unit::BYTES_PER_FILE => "Size",
            _ if self.less_is_better => "Result",
            _ => "Throughput",
        }
    }
}

#[derive(Default)]
pub(super) struct CellData {
    pub(super) arm: usize,
    pub(super) threads: u16,
    pub(super) rate: Option<f64>,
    pub(super) rate_interval: Option<(f64, f64)>,
    /// Round and rate of each run.
    pub(super) rounds: Vec<(u32, f64)>,
    /// The 99th percentile of latency of all runs together in ns, and the least and the greatest of single runs.
    pub(super) p99: Option<(f64, Option<(f64, f64)>)>,
    /// Latency in ns, and the share of operations that it was not exceeded by.
    pub(super) cdf: Vec<(f64, f64)>,
    pub(super) series: Option<SeriesData>,
    pub(super) cpu_ns: Option<f64>,
    pub(super) device_bytes: Option<f64>,
    pub(super) asked_bytes: Option<f64>,
    pub(super) space_used_bytes: Option<f64>,
    /// Medians in seconds.
    pub(super) stages: BTreeMap<&'static str, f64>,
}

/// Operations a second within a run, over its rounds.
pub(super) struct SeriesData {
    pub(super) step_seconds: f64,
    pub(super) typical: Vec<f64>,
    pub(super) low: Vec<f64>,
    pub(super) high: Vec<f64>,
}

pub(super) struct ContrastData {
    pub(super) a: usize,
    pub(super) b: usize,
    pub(super) threads: u16,
    pub(super) verdict: Outcome,
    pub(super) ratio: Option<f64>,
    pub(super) interval: Option<(f64, f64)>,
    /// Its course, round by round.
    pub(super) course: Option<CourseData>,
}

/// The course of a contrast: ratios of single rounds, and the running estimate with its interval.
pub(super) struct CourseData {
    pub(super) rounds: Vec<u32>,
    pub(super) pairs: Vec<Option<f64>>,
    pub(super) ratio: Vec<Option<f64>>,
    pub(super) interval: Vec<Option<(f64, f64)>>,
}
