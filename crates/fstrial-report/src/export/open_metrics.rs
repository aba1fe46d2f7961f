//! OpenMetrics text, for Prometheus and other readers: the results of a trial, one gauge family for each figure, with
//! the time of its end, so that it can be loaded into a history afterwards.

use crate::{
    document::{CellReport, Document, WorkloadReport},
    stored_word,
};
use fstrial_store::TrialSummary;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    io,
};

/// A family: its name without prefix, unit (the end of the name, if there is one), and help.
type Family = (&'static str, &'static str, &'static str);

/// All gauge families, in the order they are written.
const FAMILIES: [Family; 12] = [
    ("rate", "", "Typical rate of a cell over its rounds, in the unit of the label."),
    ("rate_low", "", "Lower end of the 95 % interval of the rate."),
    ("rate_high", "", "Upper end of the 95 % interval of the rate."),
    ("bytes_per_second", "", "Median of the bytes moved each second."),
    ("latency_seconds", "seconds", "Median over the rounds of the quantile of latencies of a run."),
    ("cpu_per_operation_seconds", "seconds", "Median CPU time of the whole machine for an operation."),
    ("device_per_operation_bytes", "bytes", "Median of the bytes written to the device for an operation."),
    ("runs", "", "Runs of a cell."),
    ("failed", "", "Whether a cell failed and was not run again."),
    ("ratio", "ratio", "Ratio of a over b on a metric."),
    ("ratio_low", "", "Lower end of the interval of the ratio."),
    ("ratio_high", "", "Upper end of the interval of the ratio."),
];

/// Collects trials; a family must be written in one piece.
#[derive(Debug, Default)]
pub struct OpenMetrics {
    /// Sample lines by family.
    lines: BTreeMap<&'static str, String>,
    /// Lines about the trials themselves.
    info: String,
    verdicts: String,
    /// Written samples: duplicates are invalid.
    declared: BTreeSet<String>,
}

/// Labels as the format writes them.
fn labels(labels: &[(&str, &str)]) -> String {
    let mut text = String::from("{");
    for (place, (name, value)) in labels.iter().enumerate() {
        let separator = if place == 0 { "" } else { "," };
        let _ = write!(text, "{separator}{name}=\"");
        for c in value.chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                // Some of them are commands for a terminal.
                c if c.is_control() => text.push('\u{fffd}'),
                other => text.push(other),
            }
        }
        text.push('"');
    }
    text.push('}');
    text
}

impl OpenMetrics {
    /// Adds a trial with its answer. `ended`: seconds since 1970, the time of all its samples.
    pub fn add(&mut self, summary: &TrialSummary, document: &Document, ended: f64) {
        let trial = summary.id.to_string();
        let info = labels(&[
            ("trial", &trial),
            ("name", &summary.name),
            ("status", summary.status.name()),
            ("host", summary.host.as_deref().unwrap_or_default()),
            ("kernel", summary.kernel.as_deref().unwrap_or_default()),
            ("device", &document.of_machines(|there| &there.device)),
            ("tags", &summary.tags.join(",")),
        ]);
        let _ = writeln!(self.info, "fstrial_trial_info{info} 1 {ended}");
        for workload in &document.workloads {
            workload.cells.iter().for_each(|cell| self.cell(&trial, workload, cell, ended));
            self.verdicts(&trial, workload, ended);
        }
    }

    fn sample(&mut self, family: &'static str, labels: &str, value: f64, ended: f64) {
        let name = format!("fstrial_{family}{labels}");
        // A value that is not a number was unknown.
        if value.is_finite() && self.declared.insert(name.clone()) {
            let _ = writeln!(self.lines.entry(family).or_default(), "{name} {value} {ended}");
        }
    }

    fn cell(&mut self, trial: &str, workload: &WorkloadReport, cell: &CellReport, ended: f64) {
        let threads = cell.threads.to_string();
        let place = [
            ("trial", trial),
            ("arm", cell.arm.as_str()),
            ("workload", workload.name.as_str()),
            ("phase", workload.phase.as_str()),
            ("threads", threads.as_str()),
        ];
        let with = |name, value| labels(&[&place[..], &[(name, value)]].concat());
        let unit = with("unit", &workload.unit);
        let plain = labels(&place);
        let (low, high) = cell.rate_interval.unzip();
        for (family, value) in [("rate", cell.rate), ("rate_low", low), ("rate_high", high)] {
            value.into_iter().for_each(|value| self.sample(family, &unit, value, ended));
        }
        if let Some(latency_ns) = cell.latency_ns {
            for (quantile, ns) in ["0.5", "0.99", "0.999"].into_iter().zip(latency_ns) {
                let Some(ns) = ns else { continue };
                self.sample("latency_seconds", &with("quantile", quantile), ns / 1e9, ended);
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a handful of runs")]
        let runs = cell.runs as f64;
        for (family, value) in [
            ("bytes_per_second", cell.bytes_per_second),
            ("cpu_per_operation_seconds", cell.cpu_per_operation_ns.map(|ns| ns / 1e9)),
            ("device_per_operation_bytes", cell.device_bytes_per_operation),
            ("runs", Some(runs)),
            ("failed", Some(f64::from(u8::from(cell.failed)))),
        ] {
            value.into_iter().for_each(|value| self.sample(family, &plain, value, ended));
        }
    }

    fn verdicts(&mut self, trial: &str, workload: &WorkloadReport, ended: f64) {
        for verdict in &workload.verdicts {
            let contrast = &verdict.contrast;
            let threads = contrast.threads.to_string();
            let place = [
                ("trial", trial),
                ("a", contrast.a.as_str()),
                ("b", contrast.b.as_str()),
                ("workload", contrast.workload.as_str()),
                ("phase", contrast.phase.as_str()),
                ("threads", threads.as_str()),
                ("metric", contrast.metric.name()),
            ];
            let plain = labels(&place);
            let (low, high) = contrast.interval.unzip();
            for (family, value) in [("ratio", contrast.ratio), ("ratio_low", low), ("ratio_high", high)] {
                value.into_iter().for_each(|value| self.sample(family, &plain, value, ended));
            }
            let name = stored_word(contrast.verdict);
            let reported = labels(&[&place[..], &[("verdict", name.as_str())]].concat());
            let name = format!("fstrial_verdict_info{reported}");
            if self.declared.insert(name.clone()) {
                let _ = writeln!(self.verdicts, "{name} 1 {ended}");
            }
        }
    }

    /// Writes everything, with the end that the format asks for.
    ///
    /// # Errors
    /// It could not be written.
    pub fn write(&self, out: &mut impl io::Write) -> io::Result<()> {
        let infos = [
            ("trial", "A trial, where and how it ran.", &self.info),
            ("verdict", "The verdict of a contrast, about a.", &self.verdicts),
        ];
        for (name, help, lines) in infos.into_iter().filter(|(.., lines)| !lines.is_empty()) {
            write!(out, "# TYPE fstrial_{name} info\n# HELP fstrial_{name} {help}\n{lines}")?;
        }
        for (name, unit, help) in FAMILIES {
            let Some(lines) = self.lines.get(name) else { continue };
            writeln!(out, "# TYPE fstrial_{name} gauge")?;
            if !unit.is_empty() {
                writeln!(out, "# UNIT fstrial_{name} {unit}")?;
            }
            write!(out, "# HELP fstrial_{name} {help}\n{lines}")?;
        }
        out.write_all(b"# EOF\n")?;
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        assert_eq!(labels(&[("a", "x\"y\\z\n"), ("b", "ü")]), r#"{a="x\"y\\z\n",b="ü"}"#);
        assert_eq!(labels(&[("a", "x\u{1b}[2J\r")]), "{a=\"x\u{fffd}[2J\u{fffd}\"}");
    }

    #[test]
    fn families_are_apart_and_end_with_their_unit() {
        let names: BTreeSet<&str> = FAMILIES.iter().map(|(name, ..)| *name).collect();
        assert_eq!(names.len(), FAMILIES.len());
        for (name, unit, _) in FAMILIES {
            assert!(unit.is_empty() || name.ends_with(unit), "{name}");
        }
    }

    #[test]
    fn empty_export_writes_only_eof() {
        let mut out = Vec::new();
        OpenMetrics::default().write(&mut out).unwrap();
        assert_eq!(out, b"# EOF\n");
    }
}
