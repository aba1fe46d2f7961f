//! `--set`: a line of a trial file, without the file.

use super::CompareArgs;
use crate::error::ExpectedError;
use clap::{Args, Command};
use fstrial_model::{problem::did_you_mean, trial::Trial};
use std::str::FromStr;
use toml::{Table, Value};

/// Sections of a trial file that there is one of, or whose entries are all meant.
const SECTIONS: [&str; 4] = ["trial", "device", "log_device", "workload"];

/// A key of a trial file with its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    section: &'static str,
    key: String,
    value: Value,
}

impl FromStr for Line {
    type Err = String;

    /// Reads `SECTION.KEY=VALUE`; a value that is none in TOML is a string.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=').and_then(|(path, value)| Some((path.split_once('.')?, value)));
        let Some(((section, key), value)) = parts else {
            return Err("write a section of a trial file, a key and its value: device.members=4".into());
        };
        let named = SECTIONS.into_iter().find(|name| *name == section.trim());
        let named = named.ok_or_else(|| {
            let hint = did_you_mean(section, SECTIONS);
            hint.unwrap_or_else(|| format!("the sections are {}", SECTIONS.join(", ")))
        })?;
        if let Some(flag) = flag_of(named, key.trim()) {
            return Err(format!("the flag for it is {flag}"));
        }
        let read =
            format!("value = {value}").parse::<Table>().ok().and_then(|mut table| table.remove("value"));
        let value = read.unwrap_or_else(|| Value::String(value.to_owned()));
        Ok(Self { section: named, key: key.trim().to_owned(), value })
    }
}

/// The flag that says the same: what a device may be is said there, too.
fn flag_of(section: &str, key: &str) -> Option<String> {
    if section == "device" && ["kind", "path", "model"].contains(&key) {
        return Some("--device".into());
    }
    if section == "log_device" {
        return None;
    }
    let flag = key.replace('_', "-");
    let flags = CompareArgs::augment_args(Command::new("compare"));
    let is_one = flags.get_arguments().any(|known| known.get_long() == Some(flag.as_str()));
    is_one.then(|| format!("--{flag}"))
}

/// A trial with these lines in it.
pub(super) fn over(trial: Trial, lines: &[Line]) -> Result<Trial, ExpectedError> {
    if lines.is_empty() {
        return Ok(trial);
    }
    let mut file = Table::try_from(&trial).map_err(|error| ExpectedError::Fault(error.to_string()))?;
    lines.iter().for_each(|line| put(&mut file, line));
    file.try_into().map_err(|error: toml::de::Error| {
        let named = lines.iter().map(|line| format!("{}.{}", line.section, line.key)).collect::<Vec<_>>();
        ExpectedError::usage(
            format!("--set {}: {}", named.join(", "), error.message()),
            "keys and values are those of a trial file: docs/trial-files.md",
        )
    })
}

/// Puts a line where it belongs: into every workload, and of several devices into each.
fn put(file: &mut Table, line: &Line) {
    let of = |section: &mut Value| {
        let entries = match section {
            Value::Array(entries) => entries.iter_mut().collect(),
            one => vec![one],
        };
        entries.into_iter().filter_map(Value::as_table_mut).for_each(|entry| {
            entry.insert(line.key.clone(), line.value.clone());
        });
    };
    of(file.entry(line.section).or_insert_with(|| Value::Table(Table::new())));
    let places = file.get_mut("place").and_then(Value::as_array_mut).into_iter().flatten();
    places.filter_map(|place| place.get_mut(line.section)).for_each(of);
}
