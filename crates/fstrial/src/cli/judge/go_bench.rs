//! Go's benchmark text (its proposal 14313): `BenchmarkName-8  100  12.5 ns/op  3 allocs/op`, a line for each run.
//!
//! A part `arm=NAME` of a benchmark's name, as our own exports have it, is the arm; else a file is one.

use super::builder::{Builder, RawValue};
use fstrial_run::{elsewhere::Quantity, error::ExpectedError};
use std::collections::BTreeSet;

/// The default metric if a benchmark has it; else all of its metrics.
const MAIN: &str = "ns/op";
/// The part of a name that holds the arm.
const ARM: &str = "arm=";

/// Reads the lines of benchmarks; all others are passed over.
pub(super) fn read(
    builder: &mut Builder<'_>,
    text: &str,
    name: &str,
    arm: Option<&str>,
) -> Result<(), ExpectedError> {
    // Units of which more is better, according to the file.
    let mut higher: BTreeSet<&str> = BTreeSet::new();
    let mut lines_read = 0_usize;
    for (index, line) in text.lines().enumerate() {
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        if first == "Unit" {
            let unit = words.next().unwrap_or_default();
            if words.any(|word| word == "better=higher") {
                higher.insert(unit);
            }
            continue;
        }
        let rest: Vec<&str> = words.collect();
        let is_result = first.starts_with("Benchmark") && rest.len() >= 3 && rest[0].parse::<u64>().is_ok();
        if !is_result {
            continue;
        }
        let place = format!("{name}, line {}", index + 1);
        let (of_name, workload) = parts(first);
        let Some(arm) = arm.or(of_name) else { return Err(one_side(name)) };
        lines_read += 1;
        let pairs = rest[1..].chunks_exact(2);
        let has_main = pairs.clone().any(|pair| pair[1] == MAIN);
        for pair in pairs {
            let (value, unit) = (number(pair[0], &place)?, pair[1]);
            let less_is_better = !higher.contains(unit) && !unit.ends_with("/s");
            let (workload, metric) = (workload.clone(), unit.to_owned());
            let quantity = Quantity { workload, metric, unit: unit.to_owned(), less_is_better };
            let is_main = unit == MAIN || !has_main;
            builder.add(
                RawValue { arm: arm.to_owned(), quantity, is_main, round: None, order: None, value },
                &place,
            )?;
        }
    }
    if lines_read == 0 {
        return Err(ExpectedError::usage(
            format!("{name} has no line of a benchmark, such as `BenchmarkCopy-8  100  12.5 ns/op`"),
            "did the benchmarks run? go test -bench . -count 10 > FILE",
        ));
    }
    Ok(())
}

/// The arm in a benchmark's name, and the name without it and without the word `Benchmark`.
fn parts(name: &str) -> (Option<&str>, String) {
    let plain = name.strip_prefix("Benchmark").unwrap_or(name);
    let arm = plain.split('/').find_map(|part| part.strip_prefix(ARM));
    let others: Vec<&str> = plain.split('/').filter(|part| !part.starts_with(ARM)).collect();
    (arm, others.join("/"))
}

fn number(text: &str, place: &str) -> Result<f64, ExpectedError> {
    text.parse().map_err(|_| {
        ExpectedError::usage(
            format!("{place}: `{text}` is not a number"),
            "after the name and the count come pairs of a value and its unit",
        )
    })
}

fn one_side(name: &str) -> ExpectedError {
    ExpectedError::usage(
        format!("{name} looks like Go benchmark text, which is one side of a comparison"),
        "name both sides: fstrial judge old=FILE new=FILE; or name the arm in the benchmarks: BenchmarkX/arm=NAME",
    )
}
