//! `fstrial workloads show JOB.fio`: each section and key of a job file with its treatment, all problems together.

use super::{results, stem, summary};
use fstrial_model::{
    fio::{Fate, Fault, Inspection, KeyFate, SectionFate, Understanding},
    workload::Workload,
};
use fstrial_report::json_lines;
use fstrial_run::{environment, error::ExpectedError};
use serde_json::json;
use std::{
    fmt::{self, Write},
    path::Path,
};

/// Keys are padded to at most this many characters.
const MAX_KEY_WIDTH: usize = 32;

/// Shows a job file. One that is refused is shown, too, and is an error.
pub(super) fn show(file: &Path, inspection: Inspection, json: bool, toml: bool) -> Result<(), ExpectedError> {
    if toml {
        let entry = inspection.outcome?.entry(&stem(file));
        super::super::print(&toml::to_string_pretty(&entry).expect("an entry is plain data"));
        return Ok(());
    }
    let faults = inspection.faults.len();
    match json {
        true => json_lines::print(&document(file, &inspection)),
        false => super::super::print(&table(file, &inspection)),
    }
    match inspection.outcome {
        Ok(_) => Ok(()),
        Err(_) => Err(ExpectedError::usage(
            format!("{} is refused: {}", file.display(), problems(faults)),
            "each is listed above with a remedy",
        )),
    }
}

/// The resulting workload of the job on this host.
fn workload(file: &Path, understanding: &Understanding) -> Option<Workload> {
    understanding.entry(&stem(file)).resolve(environment::cpus()).ok()
}

fn problems(count: usize) -> String {
    if count == 1 { "one problem".into() } else { format!("{count} problems") }
}

fn document(file: &Path, inspection: &Inspection) -> serde_json::Value {
    let understanding = inspection.outcome.as_ref().ok();
    let workload = understanding.and_then(|understanding| workload(file, understanding));
    let problem = |fault: &Fault| json!({ "line": fault.line, "message": fault.message, "help": fault.help });
    json!({
        "name": stem(file),
        "file": file,
        "runs": understanding.map_or(Fate::Refused, |_| Fate::Fio),
        "preset": understanding.and_then(|understanding| understanding.preset),
        "threads": workload.as_ref().map(|workload| &workload.threads),
        "results": workload.as_ref().map(results),
        "space_needed_bytes": workload.as_ref().map(|workload| workload.most_space_needed().0),
        "sections": inspection.sections,
        "problems": inspection.faults.iter().map(problem).collect::<Vec<_>>(),
    })
}

fn table(file: &Path, inspection: &Inspection) -> String {
    let mut out = String::new();
    write(&mut out, file, inspection).expect("text can be written to");
    out
}

fn write(out: &mut String, file: &Path, inspection: &Inspection) -> fmt::Result {
    let headline = match &inspection.outcome {
        Ok(understanding) => format!(": {}", understanding.headline()),
        Err(_) => format!(" is refused: {}", problems(inspection.faults.len())),
    };
    writeln!(out, "{}{headline}", file.display())?;
    let workload = inspection.outcome.as_ref().ok().and_then(|understanding| workload(file, understanding));
    for line in workload.iter().flat_map(|workload| summary(workload, None)) {
        writeln!(out, "  {line}")?;
    }
    let is_told = |fault: &&Fault| inspection.sections.iter().any(|section| tells(section, fault.line));
    for fault in inspection.faults.iter().filter(|fault| !is_told(fault)) {
        let line = if fault.line == 0 { String::new() } else { format!("line {}: ", fault.line) };
        writeln!(out, "  {line}{}; {}", fault.message, fault.help)?;
    }
    let keys = inspection.sections.iter().flat_map(|section| &section.keys);
    let width = keys.map(|key| written(key).chars().count()).max().unwrap_or(0).min(MAX_KEY_WIDTH);
    for section in &inspection.sections {
        write_section(out, section, width)?;
    }
    Ok(())
}

fn tells(section: &SectionFate, line: usize) -> bool {
    section.line == line || section.keys.iter().any(|key| key.line == Some(line))
}

fn write_section(out: &mut String, section: &SectionFate, width: usize) -> fmt::Result {
    let fate = if section.fate == Some(Fate::Refused) { "  refused" } else { "" };
    writeln!(out, "\n[{}]{fate}", section.name)?;
    for problem in &section.problems {
        writeln!(out, "{:>4}  refused: {problem}", section.line)?;
    }
    for key in &section.keys {
        let line = key.line.map(|line| line.to_string()).unwrap_or_default();
        let head = format!("{line:>4}  {:width$}  {:7}", written(key), key.fate.name());
        writeln!(out, "{}", format!("{head}  {}", key.why.join("; ")).trim_end())?;
    }
    Ok(())
}

/// A key as written in the file. fio's defaults are not there.
fn written(key: &KeyFate) -> String {
    match key.line {
        Some(_) => key.written.clone(),
        None => format!("({} by default)", key.written),
    }
}
