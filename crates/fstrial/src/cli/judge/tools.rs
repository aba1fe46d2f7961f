//! Output of pgbench and sysbench. A file may hold several runs, one after the other; each repetition is a further
//! value.

use super::{
    builder::{Builder, RawValue},
    format::Format,
};
use fstrial_run::{elsewhere::Quantity, error::ExpectedError};

/// A number in a line: its name and unit, and whether it is judged if none is named.
struct OutputLine {
    metric: &'static str,
    unit: &'static str,
    is_main: bool,
    less_is_better: bool,
    find: fn(&str) -> Option<f64>,
}

/// Requests a second.
const fn rate(
    metric: &'static str,
    unit: &'static str,
    is_main: bool,
    find: fn(&str) -> Option<f64>,
) -> OutputLine {
    OutputLine { metric, unit, is_main, less_is_better: false, find }
}

/// A latency in milliseconds.
const fn latency(metric: &'static str, find: fn(&str) -> Option<f64>) -> OutputLine {
    OutputLine { metric, unit: "ms", is_main: false, less_is_better: true, find }
}

const PGBENCH: [OutputLine; 3] = [
    // Before PostgreSQL 14 there was a second line that counted the time to connect.
    rate("tps", "transactions/s", true, |line| {
        after(line, "tps = ").filter(|_| !line.contains("(including connections"))
    }),
    latency("latency average", |line| after(line, "latency average = ")),
    latency("latency stddev", |line| after(line, "latency stddev = ")),
];

const SYSBENCH: [OutputLine; 12] = [
    rate("transactions", "transactions/s", true, |line| per_second(line, "transactions:")),
    rate("queries", "queries/s", false, |line| per_second(line, "queries:")),
    rate("events per second", "events/s", true, |line| after(line, "events per second:")),
    rate("reads/s", "reads/s", true, |line| after(line, "reads/s:")),
    rate("writes/s", "writes/s", true, |line| after(line, "writes/s:")),
    rate("fsyncs/s", "fsyncs/s", false, |line| after(line, "fsyncs/s:")),
    rate("read", "reads/s", true, |line| requests(line, "read:")),
    rate("write", "writes/s", true, |line| requests(line, "write:")),
    rate("memory operations", "operations/s", true, |line| per_second(line, "Total operations:")),
    latency("latency average", |line| after(line, "avg:")),
    latency("latency 95th percentile", |line| after(line, "95th percentile:")),
    latency("latency 99th percentile", |line| after(line, "99th percentile:")),
];

/// Reads the output of pgbench.
pub(super) fn pgbench(
    builder: &mut Builder<'_>,
    text: &str,
    name: &str,
    arm: &str,
) -> Result<(), ExpectedError> {
    let failed = text.lines().filter_map(|line| after(line, "number of failed transactions: "));
    let failed: f64 = failed.sum();
    if failed > 0.0 {
        builder.notes.push(format!("{name}: {failed} transactions failed"));
    }
    lines(builder, text, name, arm, &PGBENCH, Format::Pgbench)
}

/// Reads the output of sysbench.
pub(super) fn sysbench(
    builder: &mut Builder<'_>,
    text: &str,
    name: &str,
    arm: &str,
) -> Result<(), ExpectedError> {
    lines(builder, text, name, arm, &SYSBENCH, Format::Sysbench)
}

fn lines(
    builder: &mut Builder<'_>,
    text: &str,
    name: &str,
    arm: &str,
    known: &[OutputLine],
    format: Format,
) -> Result<(), ExpectedError> {
    let mut has_main = false;
    for (index, line) in text.lines().enumerate() {
        let Some((of, value)) = known.iter().find_map(|of| Some((of, (of.find)(line.trim_start())?))) else {
            continue;
        };
        has_main |= of.is_main;
        let quantity = Quantity {
            workload: String::new(),
            metric: of.metric.into(),
            unit: of.unit.into(),
            less_is_better: of.less_is_better,
        };
        let result =
            RawValue { arm: arm.to_owned(), quantity, is_main: of.is_main, round: None, order: None, value };
        builder.add(result, &format!("{name}, line {}", index + 1))?;
    }
    if has_main {
        return Ok(());
    }
    Err(ExpectedError::usage(
        format!("{name} is {} without a result", format.words()),
        "check that it ran to its end; leave failed runs out",
    ))
}

/// The number that follows words at the beginning of a line.
fn after(line: &str, words: &str) -> Option<f64> {
    first_number(line.strip_prefix(words)?)
}

/// The number in `read:  IOPS=5120.33 80.00 MiB/s`.
fn requests(line: &str, words: &str) -> Option<f64> {
    after(line.strip_prefix(words)?.trim_start(), "IOPS=")
}

/// The number in brackets of `transactions:  5290  (529.6 per sec.)`.
fn per_second(line: &str, words: &str) -> Option<f64> {
    let (number, _) = line.strip_prefix(words)?.split_once('(')?.1.split_once("per sec")?;
    number.trim().parse().ok()
}

fn first_number(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    text[..end].parse().ok()
}
