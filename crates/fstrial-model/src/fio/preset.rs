//! The preset that is nearest to a job file, for those who do not need fio's own requests.

use super::JobFile;

/// The preset that is closest to the only job of a file; none if there are several, or nothing is close.
pub(super) fn closest(file: &JobFile) -> Option<&'static str> {
    let [job] = &file.jobs[..] else { return None };
    match job.get("ioengine").map_or("", |setting| setting.text.as_str()) {
        "null" | "ftruncate" | "falloc" | "filestat" | "filedelete" => return None,
        "filecreate" => return Some("create-files"),
        _ => {}
    }
    let syncs = ["fsync", "fdatasync"].iter().any(|key| job.number(key) == Some(1));
    match (job.access(), syncs) {
        ("write", true) if job.number("numjobs") > Some(1) => Some("wal-group-commit"),
        ("write", true) => Some("wal-single-commit"),
        ("read", _) => Some("sequential-read"),
        ("write", false) => Some("sequential-write"),
        ("randread", _) => Some("random-read"),
        ("randwrite", false) => Some("random-write"),
        ("randrw", false) => Some("random-mixed"),
        _ => None,
    }
}
