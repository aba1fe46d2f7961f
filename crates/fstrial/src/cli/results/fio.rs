//! `fstrial results export --format fio`: the runs of a trial as fio would have reported them, one file for each.

use crate::cli::out_file::Folder;
use fstrial_model::{
    fio::output,
    job::{GroupTask, Task},
    measurement::Measurement,
};
use fstrial_report::fio_json::{self, LoadMetadata, RunMetadata};
use fstrial_run::{error::ExpectedError, numbers::counted};
use fstrial_store::{Store, StoredRun, StoredTrial};
use std::{collections::BTreeMap, path::Path};

/// Writes `OUT/round-R/ARM/WORKLOAD-THREADS.json` for every measured run, and returns a line for display.
///
/// # Errors
/// A file cannot be made, or is there already; the store is damaged.
pub(super) fn export(
    store: &Store,
    stored: &StoredTrial,
    out: &Path,
    force: bool,
) -> Result<String, ExpectedError> {
    let version = stored.sessions.last().map_or("unknown", |session| session.program_version.as_str());
    let mut names = Names::default();
    let (mut written, mut failed, mut strange) = (0_u32, 0_u32, 0_u32);
    let mut bare = 0_u32;
    let mut first: Result<(), ExpectedError> = Ok(());
    store.for_each_run(stored.summary.id, |run| {
        if first.is_err() {
            return;
        }
        if run.outcome.is_err() {
            failed += 1;
            return;
        }
        match write(store, &run, version, |text| names.write(out, &run, text, force)) {
            Ok(FioOutcome::Whole) => written += 1,
            Ok(FioOutcome::NoLoad) => bare += 1,
            Ok(FioOutcome::Unknown) => strange += 1,
            Err(error) => first = Err(error),
        }
    })?;
    first?;
    let mut line = format!("{} written below {}", counted(written, "run"), out.display());
    let reasons = [
        (failed, "failed"),
        (
            bare,
            "have neither a built-in load nor a complete result of fio (another program's numbers, or \
                 a rate that was found)",
        ),
        (strange, "were made for another protocol"),
    ];
    for (count, why) in reasons {
        if count > 0 {
            line.push_str(&format!("; {count} {why} and are left out"));
        }
    }
    Ok(line)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FioOutcome {
    /// It has its file.
    Whole,
    /// None of its results is a load, and the program was not fio.
    NoLoad,
    /// Its job cannot be parsed today, so its work is unknown.
    Unknown,
}

fn write(
    store: &Store,
    run: &StoredRun,
    version: &str,
    deliver: impl FnOnce(&str) -> Result<(), ExpectedError>,
) -> Result<FioOutcome, ExpectedError> {
    let Some((task, measurement)) =
        run.parse_job().ok().and_then(|job| job.task).zip(run.outcome.as_ref().ok())
    else {
        return Ok(FioOutcome::Unknown);
    };
    let loads = loads(&task, measurement, &run.workload);
    if loads.is_empty() {
        let Some(answer) = measurement.output.as_deref().and_then(output::verbatim) else {
            return Ok(FioOutcome::NoLoad);
        };
        deliver(&format!("{answer:#}\n"))?;
        return Ok(FioOutcome::Whole);
    }
    let time = |text: &str| {
        text.parse().map_err(|e| {
            fstrial_run::stored::damaged(store, format!("a stored time cannot be read: {text}: {e}"))
        })
    };
    let metadata =
        RunMetadata { fstrial: version, started: time(&run.started_at)?, ended: time(&run.ended_at)? };
    let answer = fio_json::answer(&metadata, &loads).map_err(|e| {
        fstrial_run::stored::damaged(store, format!("the latencies of run {} cannot be read: {e}", run.id))
    })?;
    let text = serde_json::to_string_pretty(&answer).expect("an answer is plain data");
    deliver(&(text + "\n"))?;
    Ok(FioOutcome::Whole)
}

/// The loads of a run, each with its request. One without a name is named like the workload.
fn loads<'a>(task: &'a Task, measurement: &'a Measurement, workload: &str) -> Vec<LoadMetadata<'a>> {
    let groups = || task.phases.iter().flat_map(|phase| &phase.groups);
    let of = |name: &str| groups().find(|group| group.result.as_deref() == Some(name));
    let metadata = |name: &str, group: &'a GroupTask, load| LoadMetadata {
        job: if name.is_empty() { workload.to_owned() } else { name.to_owned() },
        pattern: &group.load.pattern,
        threads: group.load.threads,
        until: group.load.until,
        warmup: group.load.warmup,
        load,
    };
    measurement.loads().filter_map(|(name, load)| Some(metadata(name, of(name)?, load))).collect()
}

/// Names of arms and workloads as names of files: plain, and different where they are different.
#[derive(Debug, Default)]
struct Names(BTreeMap<String, Vec<String>>);

impl Names {
    fn plain(&mut self, name: &str) -> String {
        let plain: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "._-+".contains(c) { c } else { '_' })
            .take(100)
            .collect();
        let plain = if plain.is_empty() || plain.starts_with('.') { format!("_{plain}") } else { plain };
        let same = self.0.entry(plain.clone()).or_default();
        let place = same.iter().position(|known| known == name).unwrap_or_else(|| {
            same.push(name.to_owned());
            same.len() - 1
        });
        if place == 0 { plain } else { format!("{plain}~{}", place + 1) }
    }

    /// Writes the file of a run into its place below a folder.
    fn write(&mut self, out: &Path, run: &StoredRun, text: &str, force: bool) -> Result<(), ExpectedError> {
        let (arm, workload) = (self.plain(&run.arm), self.plain(&run.workload));
        let file = format!("{workload}-{}.json", run.threads);
        let (mut folder, mut path) = (Folder::make(out)?, out.to_owned());
        for name in [format!("round-{}", run.round), arm] {
            path.push(&name);
            folder = folder.within(&name, &path)?;
        }
        folder.write(&path.join(file), text.as_bytes(), force)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_below_the_folder_and_apart() {
        let mut names = Names::default();
        let plain = ["../../etc", "a/b", "a:b", "a/b", "", ".hidden"].map(|name| names.plain(name));
        assert_eq!(plain, ["_.._.._etc", "a_b", "a_b~2", "a_b", "_", "_.hidden"]);
    }
}
