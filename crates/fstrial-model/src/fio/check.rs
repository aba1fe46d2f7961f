//! What must hold before a job file is run in any way: words that fio knows, and nothing that reaches beyond the arm.
//!
//! A job file runs as root on a host whose disks are somebody's. So no value may name a path, a device, a command, a
//! library or a setting of the machine; what is not on a list of harmless words is refused.

use super::{
    keys::{FOREIGN_ENGINES, Treatment, ValueKind},
    parse::{Job, JobFile, Setting},
    value::{Reading, Surroundings, Value, cut},
};
use crate::{arm::closest, trial::TrialError};
use std::ops::RangeInclusive;

/// Engines with a native form.
pub(crate) const NATIVE_ENGINES: [&str; 8] =
    ["sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "io_uring", "mmap"];
/// Clones of one job, and threads of all jobs that run at once, at most.
pub(crate) const MAX_CLONES: u64 = 1024;
/// The longest name of a file.
const MAX_FILE_NAME: usize = 200;

/// Words that a key takes; what follows a colon is the key's own.
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

/// Refuses what cannot be run or must not be.
pub(crate) fn check(file: &JobFile, surroundings: &Surroundings) -> Result<(), Box<TrialError>> {
    for job in &file.jobs {
        for setting in &job.settings {
            refuse(file, setting)?;
            check_word(file, setting)?;
            check_range(file, setting)?;
        }
        check_job(file, job)?;
    }
    check_memory(file, surroundings)
}

fn refuse(file: &JobFile, setting: &Setting) -> Result<(), Box<TrialError>> {
    let key = setting.key;
    if key.treatment == Treatment::Refused && !key.is_neutral(&setting.text) {
        let message = format!("`{}` is not run: {}", key.name, key.why);
        return Err(file.fault(&setting.span, message, "leave the line out"));
    }
    let text = setting.text.as_str();
    let outside = |what: &str, help: &str| {
        Err(file.fault(&setting.span, format!("`{}` is not run: {what}", key.name), help))
    };
    match key.name {
        "filename" => refuse_file_name(file, setting),
        "directory" if text.contains([':', '\\']) => outside(
            "clones would be spread over directories, and an arm is one",
            "name one directory, or none",
        ),
        "filename_format" if !is_plain_format(text) => outside(
            "it may hold $jobname, $jobnum, $filenum and no path",
            "leave it out, or write filename= with a plain name",
        ),
        "mem" if text.contains(':') => outside("it maps a file that is not the arm's", "leave the path out"),
        "buffer_pattern" | "verify_pattern" if text.contains('\'') => {
            outside("in quotes it reads a file", "write a number or a text in double quotes")
        }
        "ioengine" if !NATIVE_ENGINES.contains(&text) && !FOREIGN_ENGINES.contains(&text) => {
            let known = NATIVE_ENGINES.iter().chain(&FOREIGN_ENGINES).copied();
            let help = match closest(text, known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}, {}", NATIVE_ENGINES.join(", "), FOREIGN_ENGINES.join(", ")),
            };
            outside(&format!("the engine `{}` does not stay inside the files of a job", cut(text)), &help)
        }
        "filename_format" | "description" | "directory" => Ok(()),
        // fio hands a value with $ncpus and its like to a shell; ours are calculated here, others have no meaning.
        _ if key.kind == ValueKind::Text && text.contains('$') => {
            outside("a `$` means nothing in it", "write the value itself")
        }
        _ => Ok(()),
    }
}

fn refuse_file_name(file: &JobFile, setting: &Setting) -> Result<(), Box<TrialError>> {
    let name = setting.text.as_str();
    let what = if name.contains('/') {
        "a path could be any file or device of this host, and fio would write to it"
    } else if name.contains(':') {
        "it is a list of files"
    } else if name.contains(['\\', '$']) || name.is_empty() || [".", "..", "-"].contains(&name) {
        "it is no plain name"
    } else if name.len() > MAX_FILE_NAME {
        "the name is too long"
    } else {
        return Ok(());
    };
    Err(file.fault(
        &setting.span,
        format!("`filename` is not run: {what}"),
        "write a plain name such as filename=data, or leave it out: files are made in the arm's own directory",
    ))
}

fn is_plain_format(text: &str) -> bool {
    let rest = ["$jobname", "$jobnum", "$filenum"]
        .iter()
        .fold(text.to_owned(), |text, word| text.replace(word, "x"));
    !rest.is_empty()
        && rest.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
        && !rest.contains("..")
}

fn check_word(file: &JobFile, setting: &Setting) -> Result<(), Box<TrialError>> {
    let Some((_, words)) = WORDS.iter().find(|(key, _)| *key == setting.key.name) else { return Ok(()) };
    let word = setting.text.split([':', ',']).next().unwrap_or_default();
    if words.contains(&word) {
        return Ok(());
    }
    let help = match closest(word, words.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", words.join(", ")),
    };
    Err(file.fault(&setting.span, format!("`{}` is no value of {}", cut(word), setting.key.name), help))
}

fn check_range(file: &JobFile, setting: &Setting) -> Result<(), Box<TrialError>> {
    let out_of = |range: &RangeInclusive<u64>| {
        Err(file.fault(
            &setting.span,
            format!("{}={} is out of range", setting.key.name, cut(&setting.text)),
            format!("use {} to {}", range.start(), range.end()),
        ))
    };
    let range = RANGES.iter().find(|(key, _)| *key == setting.key.name).map(|(_, range)| range);
    match (&setting.value, range) {
        (Value::Number(number), Some(range)) if !range.contains(number) => out_of(range),
        (Value::Numbers(sizes), _) if setting.key.name == "bs" && sizes.contains(&Some(0)) => {
            out_of(&(1..=1 << 30))
        }
        _ => Ok(()),
    }
}

fn check_job(file: &JobFile, job: &Job) -> Result<(), Box<TrialError>> {
    if [&job.name, &job.section].iter().any(|name| name.contains(['/', '$'])) {
        return Err(file.fault(
            &job.span,
            "the job's name would be a path of its files, or a variable, which fio hands to a shell",
            "leave / and $ out of the name",
        ));
    }
    let sizes = ["size", "filesize", "fill_device"];
    if !sizes.iter().any(|key| job.get(key).is_some()) {
        let message = format!(
            "the job `{}` has no size, and an arm has no files whose size fio could take",
            cut(&job.name)
        );
        return Err(file.fault(
            &job.span,
            message,
            "add size= with the bytes of each clone, such as size=1g",
        ));
    }
    let runtime = job.get("runtime").map(|setting| &setting.value);
    if let Some(time_based) = job.get("time_based")
        && time_based.value == Value::Switch(true)
        && !matches!(runtime, Some(Value::Time(length)) if length.0 > 0)
    {
        return Err(file.fault(
            &time_based.span,
            "time_based without runtime: fio ignores it and ends at size",
            "add runtime=30, or leave time_based out",
        ));
    }
    Ok(())
}

/// Every request in flight has a buffer: a job file must not take the machine's memory.
fn check_memory(file: &JobFile, surroundings: &Surroundings) -> Result<(), Box<TrialError>> {
    let limit = surroundings.memory_mib.saturating_mul(1 << 19);
    let mut bytes = 0_u64;
    for job in &file.jobs {
        let number = |key: &str| match job.get(key).map(|setting| &setting.value) {
            Some(Value::Number(number)) => *number,
            _ => 1,
        };
        let buffers = largest_block(file, job, surroundings)?
            .saturating_mul(number("numjobs"))
            .saturating_mul(number("iodepth"));
        bytes = bytes.saturating_add(buffers);
        if bytes > limit {
            let message = format!(
                "up to here, jobs take {bytes} bytes for buffers, more than half of this host's memory"
            );
            return Err(file.fault(&job.span, message, "lower bs, iodepth or numjobs"));
        }
    }
    Ok(())
}

/// The largest request of a job, in bytes.
fn largest_block(file: &JobFile, job: &Job, surroundings: &Surroundings) -> Result<u64, Box<TrialError>> {
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
            let size = reading.number(size).map_err(|e| {
                file.fault(&setting.span, format!("{}: {}", setting.key.name, e.problem), e.hint)
            })?;
            largest = largest.max(size);
        }
    }
    Ok(largest)
}
