//! The preset that is nearest to a job file, for those who do not need fio's own requests.

use super::{Job, JobFile, Value};

/// The preset that is closest to the only job of a file; none if there are several, or nothing is close.
pub(super) fn closest(file: &JobFile) -> Option<&'static str> {
    let [job] = &file.jobs[..] else { return None };
    let number = |key: &str| match job.get(key).map(|setting| &setting.value) {
        Some(Value::Number(number)) => *number,
        _ => 0,
    };
    let text = |key: &str| job.get(key).map_or("", |setting| setting.text.as_str());
    if ["null", "ftruncate", "falloc", "filestat", "filedelete"].contains(&text("ioengine")) {
        return None;
    }
    if text("ioengine") == "filecreate" {
        return Some("create-files");
    }
    let syncs = number("fsync") == 1 || number("fdatasync") == 1;
    match (access(job), syncs) {
        ("write", true) if number("numjobs") > 1 => Some("wal-group-commit"),
        ("write", true) => Some("wal-single-commit"),
        ("read", _) => Some("sequential-read"),
        ("write", false) => Some("sequential-write"),
        ("randread", _) => Some("random-read"),
        ("randwrite", false) => Some("random-write"),
        ("randrw", false) => Some("random-mixed"),
        _ => None,
    }
}

fn access(job: &Job) -> &str {
    let text = job.get("rw").map_or("read", |setting| setting.text.as_str());
    text.split(':').next().unwrap_or_default()
}
