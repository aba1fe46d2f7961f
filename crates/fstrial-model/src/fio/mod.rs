//! fio job files: read, understood, and run natively where every key has an exact native form, else through fio.
//!
//! ```text
//! text ─► JobFile (parse) ─► safe? (check) ─► files of the arm (names) ─► each job against the rules (map) ─► Native
//!                                                                                                     └──► Foreign
//! ```
//!
//! Nothing is ever silently ignored: what has no native form is a [`Remark`] among the reasons, what is different in a
//! way that does not matter to the comparison is one among the notes, and what reaches beyond the arm is an error, told
//! with all others.
//! [`output`] reads what fio answers. A job file comes from elsewhere: everything here is bounded, and fuzzed.

mod check;
mod describe;
mod entry;
mod foreign;
mod inspect;
mod keys;
mod map;
mod names;
pub mod output;
mod parse;
mod source;
mod value;

pub use foreign::{DirectoryError, ForeignJobs};
pub use inspect::{Fate, KeyFate, SectionFate};
pub use keys::{KEYS, Key, Treatment, ValueKind};
pub use map::Remark;
pub use parse::{Job, JobFile, MAX_JOBS, Setting, WrittenSection};
pub use source::{Fault, Files, MAX_FILE_BYTES, MAX_LINE_BYTES};
pub use value::{Surroundings, Value};

use crate::{problem::TrialError, workload::Entry};
use describe::describe;
use inspect::Lists;
use map::MappedJob;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

/// What is made of a job file.
#[derive(Debug, Clone, PartialEq)]
pub struct Understanding {
    /// How it runs.
    pub how: How,
    /// What is different in a way that is said and no more, each once, by line.
    pub notes: Vec<Remark>,
    /// Lines with a key.
    pub keys: usize,
}

/// How a job file runs.
#[derive(Debug, Clone, PartialEq)]
pub enum How {
    /// By the load engine, as every key has a native form: for each phase, what the threads of its jobs do.
    Native(Vec<Vec<Entry>>),
    /// By fio itself.
    Foreign {
        /// Why, each once, by line.
        reasons: Vec<Remark>,
        /// What fio is given.
        jobs: ForeignJobs,
    },
}

/// What is made of a job file, and what becomes of each of its lines.
#[derive(Debug)]
pub struct Inspection {
    /// What is made of it; or everything that keeps it from being run.
    pub outcome: Result<Understanding, Box<TrialError>>,
    /// Its sections, in order.
    pub sections: Vec<SectionFate>,
    /// Everything that keeps it from being run, by line.
    pub faults: Vec<Fault>,
}

/// What the rules found about jobs.
struct Findings {
    mapped: Vec<MappedJob>,
    /// Jobs that run at once.
    phases: Vec<Vec<usize>>,
    reasons: BTreeSet<Remark>,
    notes: BTreeSet<Remark>,
}

/// Reads a job file that includes no others and decides how it runs. `name` is for messages only.
///
/// # Errors
/// It is not a job file, or it reaches beyond the files of an arm; with each place underlined and what to try.
pub fn understand(
    name: &str,
    text: &str,
    surroundings: &Surroundings,
) -> Result<Understanding, Box<TrialError>> {
    let mut alone = |path: &str| Err(format!("`{path}` would be read, and was not handed over"));
    inspect(name, text, surroundings, &mut alone).outcome
}

/// Reads a job file and says what becomes of each of its lines. `name` is for messages only, `files` has the texts of what
/// it includes.
pub fn inspect(name: &str, text: &str, surroundings: &Surroundings, files: &mut Files<'_>) -> Inspection {
    let mut file = JobFile::read(name, text, surroundings, files);
    check::check(&mut file, surroundings);
    let lines = |file: &JobFile| -> BTreeSet<usize> {
        file.jobs.iter().flat_map(|job| job.settings.iter().map(|setting| setting.line)).collect()
    };
    let effective = lines(&file);
    let refusal = file.refusal();
    if refusal.is_some() {
        file.leave_faults_out();
    }
    let placed = names::place(&mut file);
    let findings = findings(&file);
    let outcome = match refusal {
        Some(refusal) => Err(refusal),
        None => Ok(decide(name, &file, &findings, &placed, effective.len())),
    };
    let reasons: Vec<Remark> = match &outcome {
        Ok(Understanding { how: How::Foreign { reasons, .. }, .. }) => reasons.clone(),
        _ => findings.reasons.into_iter().collect(),
    };
    let notes = outcome.as_ref().map_or(&placed, |understanding| &understanding.notes);
    let sections = Lists::of(&file, &reasons, notes).sections(&file, &effective, outcome.as_ref().ok());
    let mut faults = file.faults;
    faults.sort_by_key(|fault| fault.line);
    Inspection { outcome, sections, faults }
}

/// Holds the jobs against the rules.
fn findings(file: &JobFile) -> Findings {
    let mapped: Vec<MappedJob> = file.jobs.iter().map(map::map).collect();
    let mut reasons: BTreeSet<Remark> = mapped.iter().flat_map(|job| job.reasons.iter().cloned()).collect();
    let mut notes: BTreeSet<Remark> = mapped.iter().flat_map(|job| job.notes.iter().cloned()).collect();
    reasons.extend(shared_files(file));
    let phases = phases(file);
    for phase in &phases {
        reasons.extend(unequal_groups(file, &mapped, phase));
    }
    if phases.len() > 1 {
        let first = &file.jobs[phases[1][0]];
        notes.insert(remark(
            first,
            "stonewall",
            "fio lays out the files of all phases first, native phases each their own; then all caches are emptied, not \
             only what there is of these files",
        ));
    }
    Findings { mapped, phases, reasons, notes }
}

/// Decides how a file that was checked runs.
fn decide(name: &str, file: &JobFile, findings: &Findings, placed: &[Remark], keys: usize) -> Understanding {
    let mut notes = findings.notes.clone();
    let how = if findings.reasons.is_empty() {
        // A job that reads back is alone in its phase.
        let phases = |phase: &Vec<usize>| -> Vec<Vec<Entry>> {
            let jobs = || phase.iter().map(|index| &findings.mapped[*index]);
            let afterwards: Vec<Entry> = jobs().filter_map(|job| job.afterwards.clone()).collect();
            let written = jobs().map(|job| job.entry.clone()).collect();
            if afterwards.is_empty() { vec![written] } else { vec![written, afterwards] }
        };
        let native = How::Native(findings.phases.iter().flat_map(phases).collect());
        let understanding = Understanding { how: native, notes: Vec::new(), keys: 0 };
        match understanding.entry(name).resolve(1) {
            Ok(_) => understanding.how,
            // No rule foresaw it, and fio knows better.
            Err(error) => {
                let reason = remark(&file.jobs[0], "rw", format!("`{}`: {}", error.key, error.problem));
                How::Foreign { reasons: vec![reason], jobs: ForeignJobs::of(file) }
            }
        }
    } else {
        // Without a native run there is nothing that could differ from fio, but for what is the same with both.
        notes.retain(|note| Key::find(note.key).is_some_and(|key| key.treatment == Treatment::Note));
        let reasons = findings.reasons.iter().cloned().collect();
        How::Foreign { reasons, jobs: ForeignJobs::of(file) }
    };
    notes.extend(placed.iter().cloned());
    Understanding { how, notes: notes.into_iter().collect(), keys }
}

/// A remark on a job's key.
fn remark(job: &Job, key: &'static str, text: impl Into<String>) -> Remark {
    let setting = job.get(key).filter(|setting| setting.is_written);
    let line = setting.map_or(job.line, |setting| setting.line);
    Remark { line, key, is_written: setting.is_some(), text: text.into() }
}

/// Jobs by phase: those that run at once.
fn phases(file: &JobFile) -> Vec<Vec<usize>> {
    let mut phases: Vec<Vec<usize>> = Vec::new();
    for (index, job) in file.jobs.iter().enumerate() {
        let waits = job.get("stonewall").is_some_and(|setting| setting.value == Value::Switch(true));
        match phases.last_mut() {
            Some(phase) if !waits => phase.push(index),
            _ => phases.push(vec![index]),
        }
    }
    phases
}

/// Jobs that would use each other's files, which native groups and phases cannot.
fn shared_files(file: &JobFile) -> Vec<Remark> {
    let mut first: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    let mut found = Vec::new();
    for job in &file.jobs {
        let directory = job.get("directory").map_or("", |setting| setting.text.as_str());
        let (key, files): (_, Vec<_>) = match job.get("filename") {
            // The same path has become the same name.
            Some(setting) => ("filename", setting.text.split(':').map(|name| ("", name)).collect()),
            None if job.get("filename_format").is_some_and(|format| !format.text.contains("$jobname")) => {
                ("filename_format", vec![("", directory)])
            }
            None => ("name", vec![(job.section.as_str(), directory)]),
        };
        let files: BTreeSet<_> = files.into_iter().collect();
        let before: BTreeSet<&str> =
            files.into_iter().filter_map(|file| first.insert(file, &job.name)).collect();
        if let Some(other) = before.first() {
            let text = format!(
                "the jobs `{}` and `{}` use the same files; jobs that run natively have files of their own",
                value::cut(other),
                value::cut(&job.name)
            );
            found.push(remark(job, key, text));
        }
    }
    found
}

/// What native thread groups of one phase cannot differ in.
fn unequal_groups(file: &JobFile, mapped: &[MappedJob], phase: &[usize]) -> Vec<Remark> {
    let mut found = Vec::new();
    let threads: u64 = phase.iter().map(|index| u64::from(mapped[*index].entry.workers.unwrap_or(1))).sum();
    if threads > check::MAX_CLONES {
        let text = format!("{threads} threads at once; a native phase has at most {}", check::MAX_CLONES);
        found.push(remark(&file.jobs[phase[0]], "numjobs", text));
    }
    let [first, others @ ..] = phase else { return found };
    let of = |index: usize| &mapped[index].entry;
    for other in others {
        if (of(*first).warmup, of(*first).duration) != (of(*other).warmup, of(*other).duration) {
            let text =
                "jobs that run at once have times of their own; native thread groups begin and end together";
            found.push(remark(&file.jobs[*other], "runtime", text));
        }
    }
    for index in phase {
        if !others.is_empty() && mapped[*index].afterwards.is_some() {
            let text = "each of fio's jobs reads back as soon as it has written; native phases begin and end together";
            found.push(remark(&file.jobs[*index], "verify", text));
        }
        if !others.is_empty() && of(*index).requests.is_some() {
            let text = "jobs that run at once each end when they have transferred their size; native thread groups have one end";
            found.push(remark(&file.jobs[*index], "size", text));
        }
    }
    found
}

impl Understanding {
    /// What is done with the job file and why, for people.
    pub fn explain(&self) -> String {
        let mut out = String::new();
        self.write_explanation(&mut out).expect("text can be written to");
        out
    }

    /// How the job file runs and what decided it, in a line.
    pub fn headline(&self) -> String {
        match &self.how {
            How::Native(_) => {
                let remarked: BTreeSet<usize> =
                    self.notes.iter().filter(|note| note.is_written).map(|note| note.line).collect();
                let keys = match self.keys {
                    1 => "its one key has".to_owned(),
                    keys => format!("all {keys} keys have"),
                };
                match remarked.len() {
                    0 => format!("runs natively: {keys} an exact native form"),
                    n => format!("runs natively: {keys} a native form, {n} of them with a note"),
                }
            }
            How::Foreign { reasons, .. } => {
                let first = &reasons[0];
                let rest = match reasons.len() {
                    1 => "has no native form".to_owned(),
                    2 => "and one more have no native form".to_owned(),
                    n => format!("and {} more have no native form", n - 1),
                };
                format!("runs through fio: {first} {rest}")
            }
        }
    }

    fn write_explanation(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "{}", self.headline())?;
        match &self.how {
            How::Native(phases) => {
                for (index, jobs) in phases.iter().enumerate() {
                    if phases.len() > 1 {
                        writeln!(out, "  phase {}", index + 1)?;
                    }
                    for job in jobs {
                        writeln!(out, "  {}: {}", job.name.as_deref().unwrap_or_default(), describe(job))?;
                    }
                }
            }
            How::Foreign { reasons, .. } => write_remarks(out, reasons)?,
        }
        if !self.notes.is_empty() {
            writeln!(out, "notes")?;
            write_remarks(out, &self.notes)?;
        }
        Ok(())
    }
}

fn write_remarks(out: &mut String, remarks: &[Remark]) -> std::fmt::Result {
    remarks.iter().try_for_each(|remark| writeln!(out, "  {remark}: {}", remark.text))
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
