//! What becomes of each line of a job file, for people who wrote it: all of it at once, whether it is run or refused.

use super::{How, Job, JobFile, Remark, Understanding, describe::describe};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What becomes of a line, or of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// No job takes it: a later line says the same key, or there is no job below it.
    Unused,
    /// It has a native form.
    Native,
    /// It has a native form, and there is something to say.
    Note,
    /// Only fio does it.
    Fio,
    /// It is not run.
    Refused,
}

impl Fate {
    /// The word for it in a table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unused => "unused",
            Self::Native => "native",
            Self::Note => "note",
            Self::Fio => "through fio",
            Self::Refused => "refused",
        }
    }
}

/// A section of a job file with what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SectionFate {
    /// Its name.
    pub name: String,
    /// Its line, from 1.
    pub line: usize,
    /// What becomes of the job; none for a global section. `Fio` if only fio can do it, whatever the other jobs are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fate: Option<Fate>,
    /// What its threads do, if the file runs natively.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub does: Option<String>,
    /// What is wrong with the section as a whole.
    pub problems: Vec<String>,
    /// Its keys.
    pub keys: Vec<KeyFate>,
}

/// A key with what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeyFate {
    /// Its line, from 1; none if it is not written and fio's default is meant.
    pub line: Option<usize>,
    /// The key and its value as they are written.
    pub written: String,
    /// What becomes of it.
    pub fate: Fate,
    /// Why, and what to try.
    pub why: Vec<String>,
}

/// What each job does, in the order of the file.
fn descriptions(understood: &Understanding) -> Vec<String> {
    match &understood.how {
        How::Native(phases) => phases.iter().flatten().map(describe).collect(),
        How::Foreign { .. } => Vec::new(),
    }
}

/// What there is to say, by line; reasons and notes also by whether the key is written.
pub(super) struct Lists<'a> {
    faults: BTreeMap<usize, Vec<String>>,
    reasons: BTreeMap<(bool, usize), Vec<&'a Remark>>,
    notes: BTreeMap<(bool, usize), Vec<&'a Remark>>,
}

impl<'a> Lists<'a> {
    pub(super) fn of(file: &JobFile, reasons: &'a [Remark], notes: &'a [Remark]) -> Self {
        let mut faults: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for fault in &file.faults {
            faults.entry(fault.line).or_default().push(format!("{}; {}", fault.message, fault.help));
        }
        Self { faults, reasons: by_place(reasons), notes: by_place(notes) }
    }

    /// The sections of a file. `effective` are the lines that some job takes.
    pub(super) fn sections(
        &self,
        file: &JobFile,
        effective: &BTreeSet<usize>,
        understood: Option<&Understanding>,
    ) -> Vec<SectionFate> {
        let mut descriptions = understood.map(descriptions).unwrap_or_default().into_iter();
        let mut is_refused_above = false;
        let mut all = Vec::new();
        for section in &file.sections {
            let mut keys: Vec<KeyFate> =
                section.lines.iter().map(|(line, text)| self.key(*line, text, effective)).collect();
            let problems = self.problems(section.line);
            let is_refused = !problems.is_empty() || keys.iter().any(|key| key.fate == Fate::Refused);
            is_refused_above |= is_refused && section.is_global();
            let job = file.jobs.iter().find(|job| job.line == section.line);
            let fate = match (section.is_global(), job) {
                (true, _) => None,
                (_, Some(job)) if !is_refused && !is_refused_above => Some(self.job(job)),
                _ => Some(Fate::Refused),
            };
            // What was left out because it is wrong has no default.
            if fate != Some(Fate::Refused) {
                keys.extend(self.defaults(section.line));
            }
            let does = fate.and_then(|_| descriptions.next());
            let (name, line) = (section.name.clone(), section.line);
            all.push(SectionFate { name, line, fate, does, problems, keys });
        }
        all
    }

    fn job(&self, job: &Job) -> Fate {
        let lines = job.settings.iter().map(|setting| (true, setting.line));
        match lines.chain([(false, job.line)]).any(|place| self.reasons.contains_key(&place)) {
            true => Fate::Fio,
            false => Fate::Native,
        }
    }

    fn problems(&self, line: usize) -> Vec<String> {
        self.faults.get(&line).cloned().unwrap_or_default()
    }

    fn key(&self, line: usize, text: &str, effective: &BTreeSet<usize>) -> KeyFate {
        // A line that includes others has several keys.
        let is_include = text.split_whitespace().next() == Some("include");
        let said = |list| said(list, line, is_include);
        let (faults, reasons, notes) = (self.problems(line), said(&self.reasons), said(&self.notes));
        let (fate, why) = if !faults.is_empty() {
            (Fate::Refused, faults)
        } else if !effective.contains(&line) {
            (Fate::Unused, vec!["a later line says it, or no job is below it".to_owned()])
        } else if !reasons.is_empty() {
            (Fate::Fio, reasons.into_iter().chain(notes).collect())
        } else if !notes.is_empty() {
            (Fate::Note, notes)
        } else {
            (Fate::Native, Vec::new())
        };
        KeyFate { line: Some(line), written: text.to_owned(), fate, why }
    }

    /// Keys that a job does not write and that have something to say.
    fn defaults(&self, line: usize) -> Vec<KeyFate> {
        let of = |list: &BTreeMap<(bool, usize), Vec<&Remark>>, fate: Fate| -> Vec<KeyFate> {
            let found = list.get(&(false, line)).map_or(&[][..], Vec::as_slice);
            let one = |remark: &&Remark| KeyFate {
                line: None,
                written: remark.key.to_owned(),
                fate,
                why: vec![remark.text.clone()],
            };
            found.iter().map(one).collect()
        };
        of(&self.reasons, Fate::Fio).into_iter().chain(of(&self.notes, Fate::Note)).collect()
    }
}

/// What a list says of the keys that are written in a line, each thing once.
fn said(list: &BTreeMap<(bool, usize), Vec<&Remark>>, line: usize, with_key: bool) -> Vec<String> {
    let found = list.get(&(true, line)).map_or(&[][..], Vec::as_slice);
    let one = |remark: &&Remark| match with_key {
        true => format!("`{}`: {}", remark.key, remark.text),
        false => remark.text.clone(),
    };
    let mut said: Vec<String> = found.iter().map(one).collect();
    said.sort();
    said.dedup();
    said
}

fn by_place(remarks: &[Remark]) -> BTreeMap<(bool, usize), Vec<&Remark>> {
    let mut lists: BTreeMap<(bool, usize), Vec<&Remark>> = BTreeMap::new();
    for remark in remarks {
        lists.entry((remark.is_written, remark.line)).or_default().push(remark);
    }
    lists
}
