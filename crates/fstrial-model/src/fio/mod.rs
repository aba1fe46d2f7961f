//! fio job files: read, checked, and rewritten for fio, which runs them on an arm.
//!
//! ```text
//! text ─► JobFile (parse) ─► safe? (check) ─► files of the arm (names) ─► Jobs ─► a workload of kind program (entry)
//! ```
//!
//! Nothing is silently ignored: a key that fio does not get is a [`Remark`], and one that reaches beyond the arm is an
//! error, reported with all others. [`output`] parses fio's answer. A job file comes from elsewhere: everything here is
//! bounded, and fuzzed.

mod check;
mod entry;
mod inspect;
mod jobs;
mod keys;
mod names;
pub mod output;
mod parse;
mod preset;
mod source;
mod value;

pub use inspect::{Fate, KeyFate, SectionFate};
pub use jobs::{DirectoryError, Jobs};
pub use keys::{KEYS, Key, Treatment, ValueKind};
pub use parse::{Job, JobFile, MAX_JOBS, Setting, WrittenSection};
pub use source::{Fault, Files, MAX_FILE_BYTES, MAX_LINE_BYTES};
pub use value::{Surroundings, Value};

use crate::problem::TrialError;
use inspect::Lists;
use std::{collections::BTreeSet, fmt::Write};

/// A parsed job file.
#[derive(Debug, Clone, PartialEq)]
pub struct Understanding {
    /// fio's input.
    pub jobs: Jobs,
    /// Omitted and changed settings, each once, by line.
    pub notes: Vec<Remark>,
    /// The preset that is closest to it, if one is.
    pub preset: Option<&'static str>,
}

/// A message about a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Remark {
    /// The line of the key, from 1; of the job's section if the key is not written.
    pub line: usize,
    /// Main name of the key, even if the job file has its alias.
    pub key: &'static str,
    /// True if the key is written; otherwise it is about fio's default.
    pub is_written: bool,
    /// The message, in lower case.
    pub text: String,
}

/// A parsed job file, and the treatment of each of its lines.
#[derive(Debug)]
pub struct Inspection {
    /// The parsed file; or all reasons against running it.
    pub outcome: Result<Understanding, Box<TrialError>>,
    /// Its sections, in order.
    pub sections: Vec<SectionFate>,
    /// Everything that keeps it from being run, by line.
    pub faults: Vec<Fault>,
}

/// Reads a job file that includes no others. `name` is for messages only.
///
/// # Errors
/// It is not a job file, or it reaches beyond the files of an arm; with each place underlined and a remedy.
pub fn understand(
    name: &str,
    text: &str,
    surroundings: &Surroundings,
) -> Result<Understanding, Box<TrialError>> {
    let mut alone = |path: &str| Err(format!("`{path}` would be read, and was not handed over"));
    inspect(name, text, surroundings, &mut alone).outcome
}

/// Reads a job file and reports the treatment of each of its lines. `name` is for messages only, `files` has the texts
/// of its includes.
pub fn inspect(name: &str, text: &str, surroundings: &Surroundings, files: &mut Files<'_>) -> Inspection {
    let mut file = JobFile::read(name, text, surroundings, files);
    check::check(&mut file, surroundings);
    let settings = file.jobs.iter().flat_map(|job| &job.settings);
    let effective: BTreeSet<usize> = settings.map(|setting| setting.line).collect();
    let refusal = file.refusal();
    if refusal.is_some() {
        file.leave_faults_out();
    }
    let mut notes: BTreeSet<Remark> = file.jobs.iter().flat_map(left_out).collect();
    notes.extend(names::place(&mut file));
    let notes: Vec<Remark> = notes.into_iter().collect();
    let sections = Lists::of(&file, &notes).sections(&file, &effective);
    let outcome = match refusal {
        Some(refusal) => Err(refusal),
        None => Ok(Understanding { jobs: Jobs::of(&file), notes, preset: preset::closest(&file) }),
    };
    let mut faults = file.faults;
    faults.sort_by_key(|fault| fault.line);
    Inspection { outcome, sections, faults }
}

/// The keys of a job that fio does not get.
fn left_out(job: &Job) -> impl Iterator<Item = Remark> {
    let is_left_out = |setting: &&std::sync::Arc<Setting>| {
        let key = setting.key;
        key.treatment == Treatment::LeftOut && !key.is_neutral(&setting.text)
    };
    job.settings.iter().filter(is_left_out).map(|setting| {
        let Setting { line, key, is_written, .. } = **setting;
        Remark { line, key: key.name, is_written, text: format!("left out: {}", key.why) }
    })
}

impl Understanding {
    /// A description of the job file's execution.
    pub fn explain(&self) -> String {
        let mut out = self.headline() + "\n";
        for note in &self.notes {
            writeln!(out, "  {note}: {}", note.text).expect("text can be written to");
        }
        out
    }

    /// A one-line description of fio's work.
    pub fn headline(&self) -> String {
        let jobs = match self.jobs.count() {
            1 => "its job".to_owned(),
            count => format!("its {count} jobs"),
        };
        let clones = match self.jobs.threads {
            1 => String::new(),
            clones => format!(", {clones} concurrent clones"),
        };
        let preset = match self.preset {
            Some(preset) => format!("; the preset closest to it is `{preset}`"),
            None => String::new(),
        };
        format!("fio runs {jobs}{clones}{preset}")
    }
}

impl std::fmt::Display for Remark {
    /// The key and its line, without the text.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.is_written {
            true => write!(f, "`{}` (line {})", self.key, self.line),
            false => write!(f, "the default of `{}` (job at line {})", self.key, self.line),
        }
    }
}

#[cfg(test)]
mod tests;
