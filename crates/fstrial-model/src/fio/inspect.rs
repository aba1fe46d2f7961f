//! The treatment of each line of a job file, for its author: all together, whether it is run or refused.

use super::{JobFile, Remark};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Treatment of a line, or of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// No job uses it: a later line sets the same key, or there is no job below it.
    Unused,
    /// fio gets it.
    Fio,
    /// fio gets it, or does not, with a note.
    Note,
    /// It is not run.
    Refused,
}

impl Fate {
    /// The word for it in a table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unused => "unused",
            Self::Fio => "fio",
            Self::Note => "note",
            Self::Refused => "refused",
        }
    }
}

/// A section of a job file with its treatment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SectionFate {
    /// Text in the brackets of the section: `global`, or the name of a job.
    pub name: String,
    /// Its line, from 1.
    pub line: usize,
    /// Treatment of the job; none for a global section.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fate: Option<Fate>,
    /// Problems of the section as a whole.
    pub problems: Vec<String>,
    /// Keys of the section; one without a line is not written in it.
    pub keys: Vec<KeyFate>,
}

/// A key with its treatment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeyFate {
    /// Its line, from 1; none if it is not written and fio's default is meant.
    pub line: Option<usize>,
    /// The key and its value as they are written.
    pub written: String,
    /// Its treatment.
    pub fate: Fate,
    /// The reason, and the remedy.
    pub why: Vec<String>,
}

/// Messages by line; notes also by whether the key is written.
pub(super) struct Lists<'a> {
    faults: BTreeMap<usize, Vec<String>>,
    notes: BTreeMap<(bool, usize), Vec<&'a Remark>>,
}

impl<'a> Lists<'a> {
    pub(super) fn of(file: &JobFile, notes: &'a [Remark]) -> Self {
        let mut faults: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for fault in &file.faults {
            faults.entry(fault.line).or_default().push(format!("{}; {}", fault.message, fault.help));
        }
        Self { faults, notes: by_place(notes) }
    }

    /// The sections of a file. `effective` are the lines that some job takes.
    pub(super) fn sections(&self, file: &JobFile, effective: &BTreeSet<usize>) -> Vec<SectionFate> {
        let mut is_refused_above = false;
        let mut all = Vec::new();
        for section in &file.sections {
            let mut keys: Vec<KeyFate> =
                section.lines.iter().map(|(line, text)| self.key(*line, text, effective)).collect();
            let problems = self.problems(section.line);
            let is_refused = !problems.is_empty() || keys.iter().any(|key| key.fate == Fate::Refused);
            is_refused_above |= is_refused && section.is_global();
            let is_job = file.jobs.iter().any(|job| job.line == section.line);
            let runs = is_job && !is_refused && !is_refused_above;
            let fate = (!section.is_global()).then_some(if runs { Fate::Fio } else { Fate::Refused });
            // A key left out as invalid has no default.
            if fate != Some(Fate::Refused) {
                keys.extend(self.defaults(section.line));
            }
            let (name, line) = (section.name.clone(), section.line);
            all.push(SectionFate { name, line, fate, problems, keys });
        }
        all
    }

    fn problems(&self, line: usize) -> Vec<String> {
        self.faults.get(&line).cloned().unwrap_or_default()
    }

    fn key(&self, line: usize, text: &str, effective: &BTreeSet<usize>) -> KeyFate {
        // A line that includes others has several keys.
        let is_include = text.split_whitespace().next() == Some("include");
        let (faults, notes) = (self.problems(line), self.said(line, is_include));
        let (fate, why) = if !faults.is_empty() {
            (Fate::Refused, faults)
        } else if !effective.contains(&line) {
            (Fate::Unused, vec!["a later line sets it, or no job is below it".to_owned()])
        } else if !notes.is_empty() {
            (Fate::Note, notes)
        } else {
            (Fate::Fio, Vec::new())
        };
        KeyFate { line: Some(line), written: text.to_owned(), fate, why }
    }

    /// Messages on the keys written in a line, without duplicates.
    fn said(&self, line: usize, with_key: bool) -> Vec<String> {
        let one = |remark: &&Remark| match with_key {
            true => format!("`{}`: {}", remark.key, remark.text),
            false => remark.text.clone(),
        };
        let said: BTreeSet<String> = self.at(true, line).iter().map(one).collect();
        said.into_iter().collect()
    }

    /// Keys that a job leaves out and that have messages.
    fn defaults(&self, line: usize) -> Vec<KeyFate> {
        let one = |remark: &&Remark| KeyFate {
            line: None,
            written: remark.key.to_owned(),
            fate: Fate::Note,
            why: vec![remark.text.clone()],
        };
        self.at(false, line).iter().map(one).collect()
    }

    fn at(&self, is_written: bool, line: usize) -> &[&'a Remark] {
        self.notes.get(&(is_written, line)).map_or(&[][..], Vec::as_slice)
    }
}

fn by_place(remarks: &[Remark]) -> BTreeMap<(bool, usize), Vec<&Remark>> {
    let mut lists: BTreeMap<(bool, usize), Vec<&Remark>> = BTreeMap::new();
    for remark in remarks {
        lists.entry((remark.is_written, remark.line)).or_default().push(remark);
    }
    lists
}
