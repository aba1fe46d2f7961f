//! Conditions for running a job file at all: keys that fio knows, and nothing that reaches beyond the arm.
//!
//! A job file runs as root on a host with other people's disks. So no value may name a path, a device, a command, a
//! library or a setting of the machine; words not on a list of harmless ones are refused. Only the names of files may
//! be paths: they are never used, files of the arm take their places.

use super::{
    keys::{ENGINES, OUTSIDE, Treatment, ValueKind},
    names,
    parse::{Job, JobFile, Setting},
    source::Fault,
    value::{Reading, Surroundings, Value, cut},
};
use crate::{problem::closest, units::Nanos};
use std::{collections::BTreeSet, ops::RangeInclusive};

/// Limit of the clones of one job, and of the concurrent threads of all jobs.
pub(crate) const MAX_CLONES: u64 = 1024;

/// Accepted words of a key; text after a colon is specific to the key.
const WORDS: &[(&str, &[&str])] = &[
    (
        "rw",
        &[
            "read",
            "write",
            "trim",
            "randread",
            "randwrite",
            "randtrim",
            "rw",
            "readwrite",
            "randrw",
            "trimwrite",
            "randtrimwrite",
        ],
    ),
    ("rw_sequencer", &["sequential", "identical"]),
    ("sync", &["none", "0", "sync", "1", "dsync"]),
    ("fallocate", &["none", "native", "posix", "keep", "truncate", "0", "1"]),
    ("file_service_type", &["random", "zipf", "pareto", "normal", "gauss", "roundrobin", "sequential"]),
    ("random_distribution", &["random", "zipf", "pareto", "normal", "zoned", "zoned_abs"]),
    ("random_generator", &["tausworthe", "lfsr", "tausworthe64"]),
    ("rate_process", &["linear", "poisson"]),
    ("io_submit_mode", &["inline", "offload"]),
    ("zonemode", &["none", "strided", "zbd"]),
    ("mem", &["malloc", "mmap", "mmapshared"]),
    ("fadvise_hint", &["0", "1", "random", "sequential"]),
    ("unified_rw_reporting", &["none", "mixed", "both", "0", "1", "2"]),
];

/// Smallest and largest number of a key.
const RANGES: &[(&str, RangeInclusive<u64>)] = &[
    ("numjobs", 1..=MAX_CLONES),
    ("iodepth", 1..=1 << 16),
    ("nrfiles", 1..=1 << 24),
    ("loops", 1..=1 << 20),
    ("verify_async", 0..=64),
    ("rwmixread", 0..=100),
    ("rwmixwrite", 0..=100),
    ("buffer_compress_percentage", 0..=100),
    ("dedupe_percentage", 0..=100),
    ("size", 1..=1 << 50),
    ("io_size", 1..=1 << 50),
];

/// Keys that may be a share of the job's size.
const SHARES: [&str; 4] = ["size", "io_size", "offset", "offset_increment"];

/// Adds unsupported and forbidden settings to the faults of a file.
pub(crate) fn check(file: &mut JobFile, surroundings: &Surroundings) {
    let mut faults = Vec::new();
    let wrong: BTreeSet<usize> = file.faults.iter().map(|fault| fault.line).collect();
    for job in &file.jobs {
        for setting in job.settings.iter().filter(|setting| !wrong.contains(&setting.line)) {
            let checks = [refuse(setting), check_word(setting), check_range(setting)];
            faults.extend(checks.into_iter().filter_map(Result::err));
        }
        faults.extend(check_job(job));
    }
    faults.extend(check_memory(file, surroundings).err());
    faults.into_iter().for_each(|fault| file.add_fault(fault));
}

fn refuse(setting: &Setting) -> Result<(), Fault> {
    let key = setting.key;
    if key.treatment == Treatment::Refused && !key.is_neutral(&setting.text) {
        return Err(setting.fault(format!("`{}` is refused: {}", key.name, key.why), "leave the line out"));
    }
    let text = setting.text.as_str();
    let outside =
        |what: &str, help: &str| Err(setting.fault(format!("`{}` is refused: {what}", key.name), help));
    match key.name {
        "filename" => match names::names(text).iter().find_map(|name| names::problem(name)) {
            Some(what) => outside(what, "name files such as filename=data, or leave it out"),
            None => Ok(()),
        },
        "filename_format" if !is_plain_format(text) => outside(
            "it may hold $jobname, $jobnum, $filenum and no path",
            "leave it out, or write filename= with a plain name",
        ),
        "mem" if text.contains(':') => outside("it maps a file that is not the arm's", "leave the path out"),
        "buffer_pattern" | "verify_pattern" if text.contains('\'') => {
            outside("in quotes it reads a file", "write a number or a text in double quotes")
        }
        "ioengine" if !ENGINES.contains(&text) => {
            let name = text.split(':').next().unwrap_or_default();
            let known = OUTSIDE.iter().find(|(_, engines)| engines.contains(&name));
            let why = known.map_or("it may reach beyond the files of a job", |(why, _)| why);
            let near = if known.is_none() { closest(text, ENGINES) } else { None };
            let help = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("use one of {}", ENGINES.join(", ")),
            };
            outside(&format!("`{}` is not run, as {why}", cut(text)), &help)
        }
        "filename_format" => Ok(()),
        // fio hands a value with $ncpus and its like to a shell; ours are calculated here, others have no meaning.
        _ if key.treatment == Treatment::Passed && key.kind == ValueKind::Text && text.contains('$') => {
            outside("a `$` means nothing in it", "write the value itself")
        }
        _ => Ok(()),
    }
}

fn is_plain_format(text: &str) -> bool {
    let rest = ["$jobname", "$jobnum", "$filenum"]
        .iter()
        .fold(text.to_owned(), |text, word| text.replace(word, "x"));
    !rest.is_empty()
        && rest.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
        && !rest.contains("..")
}

fn check_word(setting: &Setting) -> Result<(), Fault> {
    let Some((_, words)) = WORDS.iter().find(|(key, _)| *key == setting.key.name) else { return Ok(()) };
    let word = setting.text.split([':', ',']).next().unwrap_or_default();
    if words.contains(&word) {
        return Ok(());
    }
    let help = match closest(word, words.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("use one of {}", words.join(", ")),
    };
    Err(setting.fault(format!("`{}` is not a value of {}", cut(word), setting.key.name), help))
}

fn check_range(setting: &Setting) -> Result<(), Fault> {
    let out_of = |range: &RangeInclusive<u64>| {
        Err(setting.fault(
            format!("{}={} is out of range", setting.key.name, cut(&setting.text)),
            format!("use {} to {}", range.start(), range.end()),
        ))
    };
    let range = RANGES.iter().find(|(key, _)| *key == setting.key.name).map(|(_, range)| range);
    match (&setting.value, range) {
        (Value::Percent(_), _) if !SHARES.contains(&setting.key.name) => {
            Err(setting
                .fault(format!("{} cannot be a percentage", setting.key.name), "write a number without %"))
        }
        (Value::Number(number), Some(range)) if !range.contains(number) => out_of(range),
        (Value::Numbers(sizes), _) if setting.key.name == "bs" && sizes.contains(&Some(0)) => {
            out_of(&(1..=1 << 30))
        }
        (Value::Numbers(shares), _)
            if setting.key.name == "percentage_random"
                && shares.iter().flatten().any(|share| *share > 100) =>
        {
            out_of(&(0..=100))
        }
        _ => Ok(()),
    }
}

fn check_job(job: &Job) -> Vec<Fault> {
    let mut faults = Vec::new();
    if [&job.name, &job.section].iter().any(|name| name.contains(['/', '$'])) {
        faults.push(job.fault(
            "the job's name would be a path of its files, or a variable, which fio hands to a shell",
            "leave / and $ out of the name",
        ));
    }
    if !names::is_sized(job) && names::outside(job).is_empty() {
        let message = format!(
            "job `{}` has no size, and an arm has no files from which fio could take one",
            cut(&job.name)
        );
        faults.push(job.fault(message, "add size= with the bytes of each clone, such as size=1g"));
    }
    let spread = job.get("directory").filter(|setting| setting.text.contains(':'));
    if let (Some(setting), Some(_)) = (spread, job.get("filename")) {
        faults.push(setting.fault(
            "`directory` is refused: with filename, clones would have a file in each directory, and an arm is one",
            "name one directory, or leave filename out",
        ));
    }
    let runtime = job.get("runtime").map(|setting| &setting.value);
    if let Some(time_based) = job.get("time_based")
        && time_based.value == Value::Switch(true)
        && matches!(runtime, None | Some(Value::Time(Nanos(0))))
    {
        faults.push(time_based.fault(
            "time_based without runtime: fio ignores it and ends at size",
            "add runtime=30, or leave time_based out",
        ));
    }
    faults
}

/// Every request in flight has a buffer: a job file must not take the machine's memory.
fn check_memory(file: &JobFile, surroundings: &Surroundings) -> Result<(), Fault> {
    let limit = surroundings.memory_mib.saturating_mul(1 << 19);
    let mut bytes = 0_u64;
    for job in &file.jobs {
        let number = |key: &str| job.number(key).unwrap_or(1);
        let buffers = largest_block(job, surroundings)?
            .saturating_mul(number("numjobs"))
            .saturating_mul(number("iodepth"));
        bytes = bytes.saturating_add(buffers);
        if bytes > limit {
            let message = format!(
                "up to here, jobs take {bytes} bytes for buffers, more than half of this host's memory"
            );
            return Err(job.fault(message, "lower bs, iodepth or numjobs"));
        }
    }
    Ok(())
}

/// The largest request of a job, in bytes.
fn largest_block(job: &Job, surroundings: &Surroundings) -> Result<u64, Fault> {
    let reading = Reading { surroundings, decimal: false };
    let mut largest = match job.get("bs").map(|setting| &setting.value) {
        Some(Value::Numbers(sizes)) => sizes.iter().flatten().copied().max().unwrap_or(4096),
        _ => 4096,
    };
    for setting in ["bssplit", "bsrange"].iter().filter_map(|key| job.get(key)) {
        // Sizes with shares, `4k/60:64k/40`, or from one size to another, `4k-64k`; a gap takes fio's default.
        let sizes =
            setting.text.split([',', ':', '-']).map(|part| part.split('/').next().unwrap_or_default());
        for size in sizes.filter(|size| !size.is_empty()) {
            let size = reading
                .number(size)
                .map_err(|e| setting.fault(format!("{}: {}", setting.key.name, e.problem), e.hint))?;
            largest = largest.max(size);
        }
    }
    Ok(largest)
}
