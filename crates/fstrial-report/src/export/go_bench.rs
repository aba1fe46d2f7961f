//! The Go benchmark data format, so that `benchstat` can check our ratios by its own method: one line for each result of
//! a run, with the cell in the name. The format is Go's proposal 14313 and its package `golang.org/x/perf/benchfmt`.

use super::word;
use crate::plain;
use fstrial_model::measurement::{PhaseResult, Reading};
use fstrial_store::{StoredRun, StoredTrial, metrics};
use std::{
    collections::BTreeMap,
    io::{self, Write},
};

/// Characters that mean something in a benchmark's name.
const IN_NAMES: &str = "/=";
/// A last dash with a number after it would be read as a number of processors, but ours end with the threads.
const NAME: &str = "BenchmarkRun";

/// Writes trials one after the other.
pub struct GoBench<W> {
    out: W,
    /// Units whose direction was written, with it.
    reported: BTreeMap<String, bool>,
}

impl<W: Write> GoBench<W> {
    pub fn new(out: W) -> Self {
        Self { out, reported: BTreeMap::new() }
    }

    /// Begins a trial: the common settings of all of its runs, as configuration.
    ///
    /// # Errors
    /// It could not be written.
    pub fn trial(&mut self, trial: &StoredTrial) -> io::Result<()> {
        let summary = &trial.summary;
        let version = trial.sessions.last().map(|session| session.program_version.as_str());
        let lines = [
            ("trial", summary.id.to_string()),
            ("name", summary.name.clone()),
            ("started", summary.started_at.clone()),
            ("host", summary.host.clone().unwrap_or_default()),
            ("kernel", summary.kernel.clone().unwrap_or_default()),
            ("tags", summary.tags.join(" ")),
            ("fstrial", version.unwrap_or_default().to_owned()),
        ];
        for (key, value) in lines {
            let line = plain(&value);
            // A key without a value removes an earlier trial's.
            writeln!(self.out, "{key}:{}{}", if line.is_empty() { "" } else { " " }, line.trim())?;
        }
        Ok(())
    }

    /// Writes a run that was measured; one that failed has no line, as a benchmark that failed.
    ///
    /// # Errors
    /// It could not be written, or a histogram is damaged.
    pub fn run(&mut self, run: &StoredRun) -> io::Result<()> {
        let Ok(measurement) = &run.outcome else { return Ok(()) };
        let numbers = metrics(measurement).map_err(super::other)?;
        for result in &measurement.results {
            let of_result = numbers.iter().filter(|metric| metric.phase == result.name);
            let of_result: Vec<_> = of_result.map(|m| (m.name.as_str(), m.value, m.unit.as_str())).collect();
            let (operations, values) = values(result, &of_result);
            for (unit, _, more_is_better) in &values {
                self.tell(unit, *more_is_better)?;
            }
            let (arm, workload) = (word(&run.arm, IN_NAMES), word(&run.workload, IN_NAMES));
            write!(self.out, "{NAME}/arm={arm}/workload={workload}")?;
            if !result.name.is_empty() {
                // The name of a phase and its group is `phase/group`.
                write!(self.out, "/phase={}", word(&result.name, IN_NAMES))?;
            }
            write!(self.out, "/threads={} {operations}", run.threads)?;
            for (unit, value, _) in values {
                write!(self.out, " {value} {unit}")?;
            }
            writeln!(self.out)?;
        }
        Ok(())
    }

    /// Writes the direction of a unit once; benchstat assumes less is better for unknown ones.
    fn tell(&mut self, unit: &str, more_is_better: bool) -> io::Result<()> {
        if self.reported.insert(unit.to_owned(), more_is_better).is_none() && more_is_better {
            writeln!(self.out, "Unit {unit} better=higher")?;
        }
        Ok(())
    }

    /// Writes the rest at the end.
    ///
    /// # Errors
    /// It could not be written.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A unit, its value, and whether more of it is better.
type Value = (String, f64, bool);

/// Number of operations, and their values. There is one at least, as the format requires.
fn values(result: &PhaseResult, numbers: &[(&str, f64, &str)]) -> (u64, Vec<Value>) {
    let find = |name: &str| numbers.iter().find(|(known, ..)| *known == name).map(|(_, value, _)| *value);
    match &result.reading {
        Reading::Value(value) => (1, vec![(word(&value.unit, ""), value.value, !value.less_is_better)]),
        Reading::Load(_, load) => {
            let mut matched = vec![(
                "ns/op".to_owned(),
                find("throughput").filter(|rate| *rate > 0.0).map_or(0.0, |rate| 1e9 / rate),
                false,
            )];
            for (unit, name, more) in [
                ("op/s", "throughput", true),
                ("B/s", "bytes_per_second", true),
                ("p50-ns", "operation_latency_ns_p50", false),
                ("p99-ns", "operation_latency_ns_p99", false),
                ("cpu-ns/op", "cpu_machine_per_operation_ns", false),
                ("device-B/op", "device_bytes_per_operation", false),
            ] {
                matched.extend(find(name).map(|value| (unit.to_owned(), value, more)));
            }
            (load.operations.max(1), matched)
        }
    }
}
