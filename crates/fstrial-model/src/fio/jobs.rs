//! The job file that fio itself is given.
//!
//! It is rewritten from its parsed form: no line of the user's file is passed on. Every job is self-contained (there
//! are no global sections), its files are in the arm's own directory, and the seed is the round's.

use super::{
    keys::{Key, Treatment, ValueKind},
    parse::{Job, JobFile, Setting},
    value::Value,
};
use crate::{
    units::{Bytes, Nanos},
    workload::DURATIONS,
};
use std::{collections::BTreeMap, fmt::Write};

/// Requests of this size and larger are reported in bytes per second, smaller ones in requests per second.
const LARGE: u64 = 64 << 10;
/// Assumed time of a job without one.
const UNKNOWN_TIME: Nanos = Nanos::secs(3600);
/// fio reads no larger seeds.
const SEEDS: u64 = (1 << 62) - 1;

/// A job file for fio, but for the directory and the seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Jobs {
    /// Upper bound of the bytes of all files together, if the sizes are known.
    pub space: Option<Bytes>,
    /// The time that all jobs take together, if it is given for each; layout not counted.
    pub time: Option<Nanos>,
    /// Upper bound of their time; those without one count for an hour.
    pub longest: Nanos,
    /// The runtime that all jobs share, if it can be replaced: they run concurrently, and it begins with the run.
    pub runtime: Option<Nanos>,
    /// Maximum of concurrent clones, 1 to 1024.
    pub threads: u16,
    /// Contents of fio's answer for each job.
    pub(super) reported: Vec<JobResults>,
    /// True if each job has exactly one place in fio's answer, in the order of the file.
    pub(super) has_places: bool,
    sections: Vec<Section>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct JobResults {
    pub(super) name: String,
    pub(super) reads: bool,
    pub(super) writes: bool,
    pub(super) trims: bool,
    pub(super) syncs: bool,
    /// True if requests per second are reported, and bytes per second: one of them suffices if all requests have one
    /// size.
    pub(super) counts: bool,
    pub(super) bytes: bool,
}

/// A job as it is written for fio.
#[derive(Debug, Clone, PartialEq)]
struct Section {
    /// Number of the first job whose section has the same name and directory: they use the same files.
    label: usize,
    /// Without `runtime` if that of all jobs can be set.
    lines: String,
}

/// A directory whose path cannot be written in a job file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("fio cannot be given the directory {0:?}: use a path without line breaks and without # ; $ \\")]
pub struct DirectoryError(String);

impl Jobs {
    /// Writes the jobs of a file that was checked.
    pub(crate) fn of(file: &JobFile) -> Self {
        let spaces: Option<Vec<(&str, u64)>> = file.jobs.iter().map(space).collect();
        // These mean the group of a job, which is then left as it is.
        let of_group = ["exitall", "exit_what", "steadystate"];
        let has_places = !file.jobs.iter().any(|job| of_group.iter().any(|key| job.get(key).is_some()));
        let runtime = runtime(file);
        let sum = |parts: Vec<u64>| parts.into_iter().fold(0, u64::saturating_add);
        Self {
            space: spaces.map(largest_of_each).map(sum).map(Bytes),
            time: file.jobs.iter().all(|job| time(job).is_some()).then(|| time_in_all(file)),
            longest: time_in_all(file),
            runtime,
            threads: threads(file),
            reported: file.jobs.iter().map(reported).collect(),
            has_places,
            sections: file.jobs.iter().map(|job| section(file, job, has_places, runtime.is_some())).collect(),
        }
    }

    /// Gives all jobs another runtime, and returns the one before; none if it cannot be replaced: see
    /// [`Jobs::runtime`].
    pub fn replace_runtime(&mut self, runtime: Nanos) -> Option<Nanos> {
        let before = self.runtime?;
        (self.runtime, self.time, self.longest) = (Some(runtime), Some(runtime), runtime);
        Some(before)
    }

    /// Number of jobs.
    pub fn count(&self) -> usize {
        self.sections.len()
    }

    /// The text of the job file as an input of a program, which works in the directory of its arm.
    pub(super) fn input(&self) -> String {
        let braces = |lines: &str| lines.replace('{', "{{").replace('}', "}}");
        self.written(".", "{seed}", braces, "{duration_ms}")
    }

    /// The text of the job file for an arm's directory and a round's seed.
    ///
    /// # Errors
    /// The directory's path has a character that means something in a job file.
    pub fn render(&self, directory: &str, seed: u64) -> Result<String, DirectoryError> {
        if directory.is_empty() || directory.contains(|c: char| c.is_control() || "#;$\\".contains(c)) {
            return Err(DirectoryError(directory.to_owned()));
        }
        let runtime = self.runtime.unwrap_or_default().0.div_ceil(1_000_000).to_string();
        Ok(self.written(&directory.replace(':', "\\:"), &(seed & SEEDS).to_string(), str::to_owned, &runtime))
    }

    fn written(&self, place: &str, seed: &str, lines_as: impl Fn(&str) -> String, runtime: &str) -> String {
        let mut out = String::new();
        for Section { label, lines } in &self.sections {
            let mut lines = lines_as(lines);
            if self.runtime.is_some() {
                lines += &format!("runtime={runtime}ms\n");
            }
            writeln!(
                out,
                "[job-{label}]\n{lines}directory={place}\nrandrepeat=0\nrandseed={seed}\nverify_state_save=0\n"
            )
            .expect("text can be written to");
        }
        out
    }

    /// fio's arguments, in `directory`; the job file comes on standard input.
    pub fn arguments(directory: &str) -> Vec<String> {
        Self::options(directory).into_iter().chain(["-".to_owned()]).collect()
    }

    /// The arguments before the job file.
    pub(super) fn options(directory: &str) -> Vec<String> {
        let fixed = ["--output-format=json", "--eta=never", "--max-jobs=1024"].map(str::to_owned);
        fixed.into_iter().chain([format!("--aux-path={directory}")]).collect()
    }
}

/// The section's own name is not passed on: one that begins with `global` is not a job.
fn section(file: &JobFile, job: &Job, has_place: bool, is_uniform: bool) -> Section {
    let place = |job: &Job| job.get("directory").map(|setting| setting.text.clone());
    let is_same = |other: &Job| other.section == job.section && place(other) == place(job);
    let first = file.jobs.iter().position(is_same).unwrap_or(0);
    let mut out = format!("name={}\n", job.name);
    if has_place {
        out.push_str("new_group=1\ngroup_reporting=1\n");
    }
    let groups = |name| has_place && ["new_group", "group_reporting"].contains(&name);
    let is_set = |name: &str| name == "name" || name == "runtime" && is_uniform;
    // A refused key that remains has a neutral value.
    let is_kept = |key: &Key| key.treatment == Treatment::Passed && !is_set(key.name) && !groups(key.name);
    for setting in job.settings.iter().filter(|setting| is_kept(setting.key)) {
        out.push_str(&line(setting));
    }
    Section { label: first + 1, lines: out }
}

/// The runtime that jobs share; see [`Jobs::runtime`].
fn runtime(file: &JobFile) -> Option<Nanos> {
    let of = |job: &Job| match job.get("runtime")?.value {
        Value::Time(time) if time.0 > 0 => Some(time),
        _ => None,
    };
    let is_time =
        |job: &Job, key: &str| job.get(key).is_some_and(|own| !matches!(own.text.as_str(), "" | "0"));
    let takes_turns = |(index, job): (usize, &Job)| {
        index > 0 && job.is_on("stonewall")
            || job.number("loops").is_some_and(|loops| loops > 1)
            || ["wait_for", "ramp_time", "startdelay"].iter().any(|key| is_time(job, key))
    };
    let first = of(file.jobs.first()?).filter(|time| DURATIONS.contains(time))?;
    let is_shared = file.jobs.iter().all(|job| of(job) == Some(first));
    (is_shared && !file.jobs.iter().enumerate().any(takes_turns)).then_some(first)
}

/// The maximum of concurrent clones, as far as `stonewall` determines it.
fn threads(file: &JobFile) -> u16 {
    let (mut now, mut most) = (0_u64, 1_u64);
    for job in &file.jobs {
        if job.is_on("stonewall") {
            now = 0;
        }
        now += job.number("numjobs").unwrap_or(1);
        most = most.max(now);
    }
    u16::try_from(most.min(1024)).unwrap_or(1024)
}

/// Directions of a job's requests. A mix with a share of zero for one kind has none of that kind.
fn reported(job: &Job) -> JobResults {
    let word = job.access();
    let is_mixed = ["rw", "readwrite", "randrw"].contains(&word);
    let share = |key: &str, all: u64| is_mixed && job.number(key) == Some(all);
    let only_reads = share("rwmixread", 100) || share("rwmixwrite", 0) || job.is_on("verify_only");
    let only_writes = share("rwmixread", 0) || share("rwmixwrite", 100);
    let sizes: Vec<u64> = match job.get("bs").map(|setting| &setting.value) {
        Some(Value::Numbers(sizes)) => sizes.iter().map(|size| size.unwrap_or(4096)).collect(),
        _ => vec![4096],
    };
    // A job that only lays out its files moves nothing.
    let moves = !job.is_on("create_only");
    let differ = ["bssplit", "bsrange", "bs_unaligned"].iter().any(|key| job.get(key).is_some());
    let writes = moves && (is_mixed || word.ends_with("write")) && !only_reads;
    JobResults {
        name: job.name.clone(),
        reads: moves && (job.is_on("verify_only") || ((is_mixed || word.ends_with("read")) && !only_writes)),
        writes,
        trims: moves && word.contains("trim"),
        // fio reports nothing on syncs that never came: it needs that many writes first.
        syncs: writes
            && sync_every(job).is_some_and(|every| every <= writes_at_least(job, &sizes, is_mixed || differ)),
        counts: differ || sizes.iter().any(|size| *size < LARGE),
        bytes: differ || sizes.iter().any(|size| *size >= LARGE),
    }
}

/// After how many writes a job syncs, if it does.
fn sync_every(job: &Job) -> Option<u64> {
    ["fsync", "fdatasync"].iter().filter_map(|key| job.number(key)).filter(|every| *every > 0).min()
}

/// Minimum number of a clone's writes, as far as the job determines it; a tenth of that if sizes or kinds of requests
/// differ.
fn writes_at_least(job: &Job, sizes: &[u64], differ: bool) -> u64 {
    let largest = sizes.iter().copied().max().unwrap_or(1).max(1);
    let amount = job.number("io_size").or_else(|| job.number("size")).filter(|_| !job.is_on("time_based"));
    let known = job.number("number_ios").into_iter().chain(amount.map(|bytes| bytes / largest)).min();
    known.map_or(u64::MAX, |all| if differ { all / 10 } else { all })
}

fn line(setting: &Setting) -> String {
    let name = setting.key.name;
    let number = |number: &Option<u64>| number.map_or_else(String::new, |number| number.to_string());
    match (&setting.value, setting.key.kind) {
        (Value::Switch(false), ValueKind::Flag) => String::new(),
        (Value::Switch(true), ValueKind::Flag) => format!("{name}\n"),
        (Value::Switch(_), ValueKind::Text) => format!("{name}\n"),
        (Value::Switch(on), _) => format!("{name}={}\n", u8::from(*on)),
        (Value::Number(value), _) => format!("{name}={value}\n"),
        (Value::Percent(value), _) => format!("{name}={value}%\n"),
        (Value::Range(low, high), _) => format!("{name}={low}-{high}\n"),
        (Value::Numbers(list), _) => {
            format!("{name}={}\n", list.iter().map(number).collect::<Vec<_>>().join(","))
        }
        (Value::Text | Value::Time(_), _) => {
            assert!(name != "filename" || !setting.text.contains('/'), "fio is given no path of a job file");
            format!("{name}={}\n", setting.text)
        }
    }
}

/// Jobs that name the same files need the space of the largest of them. Others have separate files.
fn largest_of_each(spaces: Vec<(&str, u64)>) -> Vec<u64> {
    let mut named: BTreeMap<&str, u64> = BTreeMap::new();
    let mut all = Vec::new();
    for (name, space) in spaces {
        match name {
            "" => all.push(space),
            name => {
                let largest = named.entry(name).or_default();
                *largest = space.max(*largest);
            }
        }
    }
    all.into_iter().chain(named.into_values()).collect()
}

/// The names of a job's files, if it has any, and their bytes; none if they depend on something else.
fn space(job: &Job) -> Option<(&str, u64)> {
    let names = job.get("filename").map(|setting| setting.text.as_str());
    let files = match names {
        Some(names) => names.split(':').count() as u64,
        None => job.number("nrfiles").unwrap_or(1),
    };
    let each = match job.get("filesize").map(|setting| &setting.value) {
        Some(Value::Number(size) | Value::Range(_, size)) => Some(size.saturating_mul(files)),
        _ => None,
    };
    let size = each.or_else(|| job.number("size"))?;
    // A share is at most all of it.
    let bytes = |key: &str| match job.get(key).map(|setting| &setting.value) {
        Some(Value::Number(bytes)) => *bytes,
        Some(_) => size,
        None => 0,
    };
    let clones = job.number("numjobs").unwrap_or(1);
    let step = bytes("offset_increment").saturating_mul(clones);
    let one = size.saturating_add(bytes("offset")).saturating_add(step);
    // Clones share the files that have a name.
    Some(match names {
        Some(names) => (names, one),
        None => ("", one.saturating_mul(clones)),
    })
}

/// The time of all jobs: those between one `stonewall` and the next run concurrently.
fn time_in_all(file: &JobFile) -> Nanos {
    let (mut before, mut longest) = (0_u64, 0_u64);
    for job in &file.jobs {
        if job.is_on("stonewall") || job.get("wait_for").is_some() {
            before = before.saturating_add(std::mem::take(&mut longest));
        }
        longest = longest.max(time(job).unwrap_or(UNKNOWN_TIME.0));
    }
    Nanos(before.saturating_add(longest))
}

/// Upper bound of a job's time; none if it, or its start, is unknown.
fn time(job: &Job) -> Option<u64> {
    if job.get("startdelay").is_some_and(|own| own.text != "0") {
        return None;
    }
    let of = |key: &str| match job.get(key)?.value {
        Value::Time(time) if time.0 > 0 => Some(time.0),
        _ => None,
    };
    let loops = job.number("loops").unwrap_or(1);
    Some(of("runtime")?.saturating_mul(loops).saturating_add(of("ramp_time").unwrap_or(0)))
}
