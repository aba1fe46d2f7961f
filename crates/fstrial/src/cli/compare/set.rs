//! `--set`: a line of a trial file, without the file.

use super::CompareArgs;
use clap::{Args, Command};
use fstrial_model::{problem::did_you_mean, trial::Trial};
use fstrial_run::error::ExpectedError;
use std::str::FromStr;
use toml::{Table, Value};

/// Sections of a trial file that are unique, or whose entries are all meant.
const SECTIONS: [&str; 4] = ["trial", "device", "log_device", "workload"];

/// A key of a trial file with its value.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cli) struct SetFlag {
    section: &'static str,
    key: String,
    value: Value,
}

impl SetFlag {
    /// True if it is about workloads.
    pub(super) fn is_of_a_workload(&self) -> bool {
        self.section == "workload"
    }
}

impl FromStr for SetFlag {
    type Err = String;

    /// Reads `SECTION.KEY=VALUE`; a value that TOML does not know is a string.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=').and_then(|(path, value)| Some((path.split_once('.')?, value)));
        let Some(((section, key), value)) = parts else {
            let word = text.split('=').next().unwrap_or(text).trim();
            let example = of_key(word).unwrap_or_else(|| "device.members".into());
            return Err(format!("write a section of a trial file, a key and its value: {example}=…"));
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

/// The equivalent flag, which also documents the valid devices.
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

/// A key with the section that it is of: `trial.memory`.
pub(in crate::cli) fn of_key(key: &str) -> Option<String> {
    let key = key.replace('-', "_");
    let section = SECTIONS.into_iter().find(|section| keys(section).contains(&key))?;
    Some(format!("{section}.{key}"))
}

/// The keys of a section, from the definition of trial files.
fn keys(section: &str) -> Vec<String> {
    let schema = schemars::schema_for!(Trial).to_value();
    let name = match section {
        "trial" => "Settings",
        "device" => "Device",
        "log_device" => "LogDevice",
        _ => "Entry",
    };
    let properties = schema["$defs"][name]["properties"].as_object();
    properties.into_iter().flatten().map(|(key, _)| key.clone()).collect()
}

/// A trial with these lines in it.
pub(in crate::cli) fn over(trial: Trial, lines: &[SetFlag]) -> Result<Trial, ExpectedError> {
    if lines.is_empty() {
        return Ok(trial);
    }
    let file = Table::try_from(&trial).map_err(|error| ExpectedError::Fault(error.to_string()))?;
    let with = |lines: &mut dyn Iterator<Item = &SetFlag>| -> Result<Trial, toml::de::Error> {
        let mut file = file.clone();
        lines.for_each(|line| put(&mut file, line));
        file.try_into()
    };
    with(&mut lines.iter()).map_err(|error| {
        let others = |one: &SetFlag| lines.iter().filter(move |line| *line != one).collect::<Vec<_>>();
        let is_to_blame = |one: &&SetFlag| with(&mut others(one).into_iter()).is_ok();
        let blamed = lines.iter().find(is_to_blame).unwrap_or(&lines[0]);
        // Most values are texts in a file: the error for one is more informative than that for a number.
        let text = SetFlag { value: Value::String(blamed.value.to_string()), ..blamed.clone() };
        let as_text = with(&mut others(blamed).into_iter().chain([&text])).err();
        refused(blamed, as_text.filter(|_| blamed.value.is_integer()).as_ref().unwrap_or(&error).message())
    })
}

/// The problem with a line, and the intended key.
fn refused(line: &SetFlag, problem: &str) -> ExpectedError {
    let SetFlag { section, key, .. } = line;
    let (known, first) = (keys(section), key.split('.').next().unwrap_or(key));
    let usual = || "keys and values are those of a trial file: docs/trial-files.md".into();
    if known.iter().any(|known| known == first) {
        return ExpectedError::usage(format!("--set {section}.{key}: {problem}"), usual());
    }
    let hint = did_you_mean(first, known.iter().map(String::as_str)).unwrap_or_else(usual);
    ExpectedError::usage(format!("--set {section}.{key}: [{section}] has no key `{first}`"), hint)
}

/// Puts a line in its place: into every workload, and of several devices into each.
fn put(file: &mut Table, line: &SetFlag) {
    let of = |section: &mut Value| {
        let entries = match section {
            Value::Array(entries) => entries.iter_mut().collect(),
            one => vec![one],
        };
        let tables = entries.into_iter().filter_map(Value::as_table_mut);
        tables.for_each(|entry| insert(entry, &line.key, &line.value));
    };
    of(file.entry(line.section).or_insert_with(|| Value::Table(Table::new())));
    let places = file.get_mut("place").and_then(Value::as_array_mut).into_iter().flatten();
    places.filter_map(|place| place.get_mut(line.section)).for_each(of);
}

/// Puts a value under a key, or under one of a table in it: `parameters.scale`.
fn insert(table: &mut Table, key: &str, value: &Value) {
    let Some((name, key)) = key.split_once('.') else {
        table.insert(key.to_owned(), value.clone());
        return;
    };
    let inner = table.entry(name).or_insert_with(|| Value::Table(Table::new()));
    // Words for commands: a number is one, too.
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let value = if name == "parameters" { &Value::String(text) } else { value };
    if let Some(inner) = inner.as_table_mut() {
        insert(inner, key, value);
    }
}
