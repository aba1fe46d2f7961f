//! `fstrial workloads`: the presets, and the meaning of a word after `--workload`.

mod job;
mod list;

use clap::{Args, Subcommand};
use fstrial_model::{
    ability::Ability,
    application::Application,
    filesystem::FILESYSTEMS,
    fio::{self, Inspection, Surroundings, Understanding},
    preset,
    problem::Problem,
    trial::Trial,
    units::Bytes,
    workload::{Entry, TimedOperation, Workload},
};
use fstrial_report::json_lines;
use fstrial_run::{
    environment::{self, Environment},
    error::ExpectedError,
    exit_code,
};
use fstrial_stack::command;
use serde_json::json;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

/// A program that is a name of an application, too.
const PGBENCH: &str = "pgbench";
/// The preset that runs it with its server.
const PGBENCH_ITSELF: &str = "postgresql-tpcb";

/// List workload presets, or show one.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct WorkloadsArgs {
    /// Filter: an application (postgresql, kafka, git), a tool, or part of a description.
    #[arg(value_name = "WORD")]
    word: Option<String>,

    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the presets by family, and the applications they model.
    #[command(after_long_help = "\
Examples:
  fstrial workloads list
  fstrial workloads list postgresql
  fstrial workloads list --json")]
    List {
        /// Filter: an application, a tool, or part of a description.
        #[arg(value_name = "WORD")]
        word: Option<String>,
        /// Print JSON, one object per line.
        #[arg(long)]
        json: bool,
    },
    /// Show the results, requirements and fields of a workload; of a fio job file also the unsupported options.
    #[command(alias = "explain")]
    #[command(after_long_help = "\
Examples:
  fstrial workloads show random-write
  fstrial workloads show random-write --toml > mine.toml
  fstrial workloads show job.fio")]
    Show {
        /// Preset, workload file (.toml) or fio job file (.fio).
        #[arg(value_name = "NAME")]
        word: String,
        /// Print one JSON object.
        #[arg(long, conflicts_with = "toml")]
        json: bool,
        /// Print only the fields, as a workload file.
        #[arg(long)]
        toml: bool,
    },
}

pub(crate) fn exec(args: &WorkloadsArgs) -> Result<u8, ExpectedError> {
    match &args.action {
        None => list::list(args.word.as_deref(), false)?,
        Some(Action::List { word, json }) => list::list(word.as_deref(), *json)?,
        Some(Action::Show { word, json, toml }) => match named(word)? {
            Named::Set(application) if *toml => {
                return Err(ExpectedError::usage(
                    format!("`{word}` is several workloads: {}", application.presets().join(", ")),
                    "name one of them: a workload file holds one",
                ));
            }
            Named::Set(application) => {
                for name in application.presets() {
                    if !*json {
                        super::print(&format!("# {name}\n"));
                    }
                    let (entry, text) = of_preset(name)?;
                    show(&entry, text, *json, false)?;
                }
            }
            Named::Job { file, inspection } => job::show(&file, inspection, *json, *toml)?,
            Named::Written { entry, text } => show(&entry, &text, *json, *toml)?,
        },
    }
    Ok(exit_code::VERDICT)
}

/// Suffix of workload files.
const WORKLOAD_FILE: &str = ".toml";
/// Suffix of fio job files.
pub(super) const JOB_FILE: &str = ".fio";

/// Meaning of a word after `--workload`.
pub(super) enum Named {
    /// A preset, or a workload from a separate file.
    Written { entry: Box<Entry>, text: String },
    /// The presets that model an application together.
    Set(&'static Application),
    /// A fio job file, which is complete.
    Job { file: PathBuf, inspection: Inspection },
}

/// The application whose presets a word names; a preset of that name comes first.
pub(super) fn set_of(word: &str) -> Option<&'static Application> {
    Application::named(word).filter(|_| !preset::names().any(|name| name == word))
}

/// Resolves a word after `--workload`.
pub(super) fn named(word: &str) -> Result<Named, ExpectedError> {
    let file = Path::new(word);
    if word.ends_with(JOB_FILE) {
        return Ok(Named::Job {
            file: file.to_owned(),
            inspection: inspect(file, &super::in_file::text(file)?),
        });
    }
    if word.ends_with(WORKLOAD_FILE) {
        let text = super::in_file::text(file)?;
        return Ok(Named::Written { entry: Box::new(entry_of_file(word, &text)?), text });
    }
    // If it is installed, pgbench means itself; otherwise the presets that model its database.
    let is_here = || ["postgres", PGBENCH].iter().all(|program| command::find(program).is_some());
    let word = if word == PGBENCH && is_here() { PGBENCH_ITSELF } else { word };
    if let Some(application) = set_of(word) {
        return Ok(Named::Set(application));
    }
    let (entry, text) = of_preset(word)?;
    Ok(Named::Written { entry: Box::new(entry), text: text.to_owned() })
}

/// The entry of a preset or a workload file.
pub(super) fn entry_of(word: &str) -> Result<Entry, ExpectedError> {
    match named(word)? {
        Named::Written { entry, .. } => Ok(*entry),
        Named::Job { .. } | Named::Set(_) => Err(ExpectedError::usage(
            format!("`{word}` is not a single preset or workload file"),
            "name one preset, see `fstrial workloads`",
        )),
    }
}

/// A preset and its text.
fn of_preset(word: &str) -> Result<(Entry, &'static str), ExpectedError> {
    let (_, text) = preset::PRESETS.iter().find(|(known, _)| *known == word).ok_or_else(|| {
        let hint = match Path::new(word).is_file() {
            true => "the name of a workload file ends in .toml, that of a fio job file in .fio".into(),
            false => preset::hint_for_unknown(word),
        };
        ExpectedError::usage(format!("there is no workload `{word}`"), hint)
    })?;
    Ok((Entry::of_preset(word), text))
}

/// The workload of a workload file.
fn entry_of_file(name: &str, text: &str) -> Result<Entry, ExpectedError> {
    let mut entry = Entry::parse(name, text).map_err(|error| match Trial::parse(name, text) {
        Ok(_) => ExpectedError::usage(
            format!("{name} is a trial file, not a workload"),
            format!("`fstrial run {name}` runs it"),
        ),
        Err(_) => error.into(),
    })?;
    if entry.name.is_none() && entry.preset.is_none() {
        entry.name = Some(stem(name.as_ref()));
    }
    Ok(entry)
}

/// The workload of a job file that a trial file names.
pub(super) fn of_job_file(file: &Path, text: &str) -> Result<Entry, ExpectedError> {
    entry_of_job(file, inspect(file, text))
}

/// The workload of a job file on this machine. Reports fio's work, and omitted keys, on standard error.
pub(super) fn entry_of_job(file: &Path, inspection: Inspection) -> Result<Entry, ExpectedError> {
    let understanding: Understanding = inspection.outcome?;
    super::say(&format!("{}: {}", file.display(), understanding.explain()));
    Ok(understanding.entry(&stem(file)))
}

/// Default name of a workload from a file.
fn stem(file: &Path) -> String {
    file.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
}

/// A job file parsed for this machine.
fn inspect(file: &Path, text: &str) -> Inspection {
    let mut beside = |path: &str| super::in_file::beside(file, path);
    fio::inspect(&file.display().to_string(), text, &surroundings(), &mut beside)
}

/// Values of `$ncpus` and the like here. Of the environment's variables, only numbers are passed: the content of a job
/// file is stored and shown, and a foreign one must not get at passwords.
fn surroundings() -> Surroundings {
    let pages = rustix::param::page_size();
    Surroundings {
        cpus: environment::cpus().into(),
        memory_mib: Environment::of_this_machine().memory.0 >> 20,
        page_bytes: u32::try_from(pages).unwrap_or(4096),
        variables: std::env::vars_os().filter_map(number).collect(),
    }
}

/// A variable of the environment that is a number, perhaps with a unit.
fn number((name, value): (OsString, OsString)) -> Option<(String, String)> {
    let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
    let unit = value.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_unit =
        ["", "%"].contains(&unit) || unit.len() <= 3 && unit.chars().all(|c| c.is_ascii_alphabetic());
    let digits = value.len() - unit.len();
    (is_unit && (1..=15).contains(&digits)).then_some((name, value))
}

/// Shows a preset or a workload file.
fn show(entry: &Entry, text: &str, json: bool, toml: bool) -> Result<(), ExpectedError> {
    if toml {
        super::print(text);
        return Ok(());
    }
    let name = entry.name.as_ref().or(entry.preset.as_ref()).map_or("", String::as_str);
    let workload = entry.resolve(environment::cpus()).map_err(|error| {
        let path = vec![error.key.to_owned()];
        Problem { path, message: format!("{name}: {}: {}", error.key, error.problem), hint: error.hint }
    })?;
    let base = entry.preset.as_deref().and_then(preset::preset);
    let about = entry.about.clone().or_else(|| base.as_ref()?.about.clone());
    let source = entry.source.clone().or_else(|| base.as_ref()?.source.clone());
    if json {
        let durability = workload.durability().into_iter();
        json_lines::print(&json!({
            "name": name,
            "family": preset::family_of(name).map(|family| family.title),
            "about": about,
            "source": source,
            "keywords": entry.keywords.clone().unwrap_or_else(|| preset::keywords(name)),
            "threads": workload.threads,
            "results": results(&workload),
            "space_needed_bytes": workload.most_space_needed().0,
            "durability": durability
                .map(|(part, durability)| json!({ "part": part, "durability": durability.to_string() }))
                .collect::<Vec<_>>(),
            "content": workload.contents(),
            "text": text,
        }));
    } else {
        // As comments, so that all of it is a workload file.
        let lines = summary(&workload, source).into_iter().map(|line| format!("# {line}\n"));
        super::print(&format!("{}\n{text}", lines.collect::<String>()));
    }
    Ok(())
}

/// Results of a workload, as JSON.
fn results(workload: &Workload) -> Vec<serde_json::Value> {
    workload.results().map(|result| json!({ "name": result.name, "unit": result.unit })).collect()
}

/// Results and requirements of a workload, line by line.
fn summary(workload: &Workload, source: Option<String>) -> Vec<String> {
    let mut lines: Vec<String> = source.into_iter().map(|source| format!("From:       {source}")).collect();
    let results: Vec<String> = workload
        .results()
        .map(|result| match result.name.as_str() {
            "" => result.unit,
            name => format!("{name} ({})", result.unit),
        })
        .collect();
    lines.push(format!("Results:    {}", results.join(", ")));
    let threads: Vec<String> = workload.threads.iter().map(u16::to_string).collect();
    lines.push(format!("Threads:    {}", threads.join(", ")));
    let space = workload.most_space_needed();
    if let Some(timed) = workload.operation() {
        lines.extend(of_operation(timed, space));
        return lines;
    }
    if let Some(timed) = workload.program() {
        let output = if space.0 == 0 { "not known beforehand".into() } else { space.to_string() };
        lines.push(format!("Space:      {output}"));
        let durable = timed.program.durable().unwrap_or_else(|| "the program's".into());
        lines.push(format!("Durability: {durable}"));
        lines.push("Content:    the program's".into());
        lines.push(format!("Time:       {} a run, about", timed.duration));
        return lines;
    }
    lines.push(format!("Space:      {space} at most, without the filesystem's own"));
    lines.push(format!("Durability: {}", durability(workload)));
    let contents = workload
        .contents()
        .into_iter()
        .map(|content| content.unwrap_or_else(|| "random (one repeated word on a zram ramdisk)".into()));
    lines.push(format!("Content:    {}", contents.collect::<Vec<_>>().join("; ")));
    lines
}

/// Description of an operation: repetitions, space, and each filesystem's means for it.
fn of_operation(timed: &TimedOperation, space: Bytes) -> Vec<String> {
    let mut lines = vec![format!("Space:      {space} at most, without the filesystem's own")];
    lines.push("Durability: as the operation itself provides".into());
    let tree = timed.tree.as_ref().map(|tree| {
        let width = if tree.width == 0 { "one directory".into() } else { format!("width {}", tree.width) };
        format!("Tree:       {} files of {}, {width}", tree.files, tree.size)
    });
    lines.extend(tree);
    if timed.repeat > 1 {
        lines.push(format!("Repeated:   {} times in a run; the median counts", timed.repeat));
    }
    for row in FILESYSTEMS.iter().filter(|row| row.abilities.are_known()) {
        let how = match timed.operation.ability_of(row) {
            Ability::Unsupported(reason) => format!("unsupported: {reason}"),
            able => able.name().unwrap_or_default().to_owned(),
        };
        lines.push(format!("{:11} {how}", format!("{}:", row.name)));
    }
    lines
}

/// Durability of a workload: one word if it is common to all parts, else each part's.
fn durability(workload: &Workload) -> String {
    let parts = workload.durability();
    match parts.as_slice() {
        [(_, first), rest @ ..] if rest.iter().all(|(_, other)| other == first) => first.to_string(),
        parts => {
            let output = parts.iter().map(|(part, durability)| format!("{part}: {durability}"));
            output.collect::<Vec<_>>().join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_preset_parses_as_workload_file() {
        for (name, text) in preset::PRESETS {
            let entry = preset::preset(name).unwrap();
            let workload = entry.resolve(2).unwrap();
            let shown: String =
                summary(&workload, entry.source.clone()).iter().map(|line| format!("# {line}\n")).collect();
            let read: Entry = toml::from_str(&format!("{shown}\n{text}")).unwrap();
            assert_eq!(Entry { name: Some((*name).to_owned()), ..read }, entry);
            assert!(shown.contains("Results:") && shown.contains("Durability:"), "{shown}");
        }
    }
}
