//! The JSON of hyperfine and of fio.

use super::{
    builder::{Builder, RawValue},
    format::Format,
};
use fstrial_model::fio::output::FioOutput;
use fstrial_run::{elsewhere::Quantity, error::ExpectedError};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Hyperfine {
    results: Vec<Command>,
}

#[derive(Deserialize)]
struct Command {
    command: String,
    times: Option<Vec<f64>>,
    #[serde(default)]
    exit_codes: Vec<Option<i32>>,
    #[serde(default)]
    parameters: BTreeMap<String, String>,
}

/// Every command is an arm; or, if an arm is named, the one command in the file.
pub(super) fn hyperfine(
    builder: &mut Builder<'_>,
    text: &str,
    name: &str,
    arm: Option<&str>,
) -> Result<(), ExpectedError> {
    let hint =
        "hyperfine --export-json FILE writes the format expected here; fstrial's own exports are read as CSV";
    let read: Hyperfine = serde_json::from_str(text.trim_start_matches('\u{feff}')).map_err(|error| {
        ExpectedError::usage(format!("{name} is not {}: {error}", Format::Hyperfine.words()), hint)
    })?;
    if arm.is_some() && read.results.len() != 1 {
        return Err(ExpectedError::usage(
            format!("{name} has {} commands, and is named for one arm", read.results.len()),
            "name it alone: each command is an arm",
        ));
    }
    let mut failed = 0;
    for (index, command) in read.results.iter().enumerate() {
        let arm = arm.map_or_else(|| command.named(), str::to_owned);
        let is_known = read.results[..index].iter().any(|other| other.named() == command.named());
        if is_known {
            return Err(ExpectedError::usage(
                format!("{name}: two commands are `{}`", command.named()),
                "give them different names: hyperfine --command-name",
            ));
        }
        failed += command.add(builder, &arm, name)?;
    }
    if failed > 0 {
        builder.notes.push(format!("{name}: runs that failed are left out: {failed}"));
    }
    Ok(())
}

impl Command {
    /// Its name; with its parameters, which hyperfine does not write into names that were given.
    fn named(&self) -> String {
        let apart = self.parameters.iter().filter(|(_, value)| !self.command.contains(value.as_str()));
        let apart: Vec<String> = apart.map(|(name, value)| format!("{name}={value}")).collect();
        if apart.is_empty() {
            self.command.clone()
        } else {
            format!("{} ({})", self.command, apart.join(", "))
        }
    }

    /// Adds its times, and returns the number of failed runs.
    fn add(&self, builder: &mut Builder<'_>, arm: &str, name: &str) -> Result<usize, ExpectedError> {
        let place = format!("{name}, `{}`", self.command);
        let Some(times) = &self.times else {
            return Err(ExpectedError::usage(
                format!("{place} has no times, only their mean"),
                "export again: hyperfine --export-json keeps the time of every run",
            ));
        };
        builder.name_arm(arm, &place)?;
        let has_failed = |run: usize| self.exit_codes.get(run).is_some_and(|code| *code != Some(0));
        for (_, time) in times.iter().enumerate().filter(|(run, _)| !has_failed(*run)) {
            let quantity = Quantity {
                workload: String::new(),
                metric: "time".into(),
                unit: "s".into(),
                less_is_better: true,
            };
            let result = RawValue {
                arm: arm.to_owned(),
                quantity,
                is_main: true,
                round: None,
                order: None,
                value: *time,
            };
            builder.add(result, &place)?;
        }
        Ok((0..times.len()).filter(|run| has_failed(*run)).count())
    }
}

/// One run of an arm: every job is a workload.
pub(super) fn fio(builder: &mut Builder<'_>, text: &str, name: &str, arm: &str) -> Result<(), ExpectedError> {
    let output = FioOutput::parse(text).map_err(|error| {
        ExpectedError::usage(
            format!("{name}: {error}"),
            "write it with fio --output-format=json --output=FILE",
        )
    })?;
    for job in output.jobs {
        if job.error != 0 {
            builder
                .notes
                .push(format!("{name}: {} ended with error {} and is left out", job.name, job.error));
            continue;
        }
        for (metric, number) in job.values {
            let is_main = metric.ends_with(".iops");
            let (unit, less_is_better) = (number.unit.name().to_owned(), !number.unit.more_is_better());
            let quantity = Quantity { workload: job.name.clone(), metric, unit, less_is_better };
            let (arm, value) = (arm.to_owned(), number.value);
            builder.add(RawValue { arm, quantity, is_main, round: None, order: None, value }, name)?;
        }
    }
    Ok(())
}
