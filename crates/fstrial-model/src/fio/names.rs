//! Names of files: a job written for a device or a folder of some host runs on files of the arm instead.
//!
//! Files named in a job file are never opened, examined or made. The value of `filename=` is kept only if it is one
//! plain name; everything else becomes `file-1`, `file-2` and so on, in the order of the file. The same path is the
//! same file in every job, as it is for fio.

use super::{
    Remark,
    parse::{Job, JobFile, Setting},
    value::{Value, cut},
};
use crate::{fio::keys::Key, units::Bytes, workload::Io};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The longest plain name.
const MAX_NAME_BYTES: usize = 200;
/// Limit of names listed in a note.
const MAX_NAMES_LISTED: usize = 4;

/// The names in a value of `filename`, which colons separate; `\:` is a colon in a name.
pub(crate) fn names(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let last = names.last_mut().expect("there is always one");
        match c {
            '\\' if rest.next_if_eq(&':').is_some() => last.push(':'),
            ':' => names.push(String::new()),
            c => last.push(c),
        }
    }
    names
}

/// Why a name cannot be that of a file.
pub(crate) fn problem(name: &str) -> Option<&'static str> {
    let last = name.rsplit('/').next().unwrap_or_default();
    if name.is_empty() {
        Some("a name in it is empty")
    } else if name == "-" {
        Some("`-` is standard input or output")
    } else if name.contains('$') {
        Some("a `$` means nothing in it")
    } else if ["", ".", ".."].contains(&last) {
        Some("it names a folder, not a file")
    } else {
        None
    }
}

/// True if fio can be given a name as it is, and stays in its folder.
fn is_plain(name: &str) -> bool {
    problem(name).is_none() && name.len() <= MAX_NAME_BYTES && !name.contains(['/', ':', '\\'])
}

fn directory(job: &Job) -> Option<&str> {
    job.get("directory").map(|setting| setting.text.as_str())
}

/// The names of a job's files that are there already, perhaps with a size, on the host it was written for.
pub(crate) fn outside(job: &Job) -> Vec<String> {
    let Some(setting) = job.get("filename") else { return Vec::new() };
    let mut names = names(&setting.text);
    names.retain(|name| directory(job).is_some() || name.contains('/'));
    names
}

/// True if a job sets the size of its files; a share of named files does not count.
pub(crate) fn is_sized(job: &Job) -> bool {
    let says = |key: &str| job.get(key).is_some_and(|own| !matches!(own.value, Value::Percent(_)));
    says("size") || says("filesize")
}

/// Identity of a file: fio puts the directory before every name.
fn path(job: &Job, name: &str) -> String {
    let whole = directory(job).map_or_else(|| name.to_owned(), |directory| format!("{directory}/{name}"));
    let root = if whole.starts_with('/') { "/" } else { "" };
    let parts: Vec<&str> = whole.split('/').filter(|part| !["", "."].contains(part)).collect();
    format!("{root}{}", parts.join("/"))
}

/// The files of an arm that take the places of those that are named.
struct Given {
    by_path: BTreeMap<String, String>,
    used: BTreeSet<String>,
    /// Plain names of the job file, which are not given to other files.
    plain: BTreeSet<String>,
    next: usize,
}

impl Given {
    fn file(&mut self, job: &Job, name: &str) -> String {
        let path = path(job, name);
        if let Some(given) = self.by_path.get(&path) {
            return given.clone();
        }
        let given = match is_plain(name) && !self.used.contains(name) {
            true => name.to_owned(),
            false => loop {
                self.next += 1;
                let free = format!("file-{}", self.next);
                if !self.plain.contains(&free) && !self.used.contains(&free) {
                    break free;
                }
            },
        };
        self.used.insert(given.clone());
        self.by_path.insert(path, given.clone());
        given
    }
}

/// Replaces the files named by the jobs with files of the arm, and reports it. Files without a size get one.
pub(crate) fn place(file: &mut JobFile) -> Vec<Remark> {
    let named = |job: &Job| job.get("filename").map(|setting| names(&setting.text));
    let plain = file.jobs.iter().filter_map(named).flatten().filter(|name| is_plain(name)).collect();
    let mut given = Given { by_path: BTreeMap::new(), used: BTreeSet::new(), plain, next: 0 };
    let mut notes = Vec::new();
    for job in &mut file.jobs {
        let Some(setting) = job.get("filename").cloned() else { continue };
        let names = names(&setting.text);
        let files: Vec<String> = names.iter().map(|name| given.file(job, name)).collect();
        let reported: Vec<String> = (names.iter().zip(&files))
            .filter(|(name, file)| name != file)
            .map(|(name, file)| format!("`{file}` for `{}`", cut(name)))
            .collect();
        let outside = outside(job).len();
        if !reported.is_empty() {
            notes.push(placed(&setting, &reported));
        }
        if outside > 0 && !is_sized(job) {
            notes.push(sized(job, &setting, files.len()));
        }
        let text = files.join(":");
        for own in job.settings.iter_mut().filter(|own| own.key.name == "filename") {
            *own = Arc::new(Setting { text: text.clone(), ..(**own).clone() });
        }
    }
    notes
}

fn placed(setting: &Setting, reported: &[String]) -> Remark {
    let more = match reported.len().saturating_sub(MAX_NAMES_LISTED) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let reported = reported[..reported.len().min(MAX_NAMES_LISTED)].join(", ");
    let text = format!("no named file is opened; files of the arm are used instead: {reported}{more}");
    Remark { line: setting.line, key: setting.key.name, is_written: true, text }
}

/// Gives a job the default file size of a workload.
fn sized(job: &mut Job, filename: &Setting, files: usize) -> Remark {
    let each = Io::default().total_size;
    let block = match job.get("bs").map(|setting| &setting.value) {
        Some(Value::Numbers(sizes)) => sizes.iter().flatten().copied().max().unwrap_or(1).max(1),
        _ => 1,
    };
    // A whole number of requests, of which there is at least one.
    let each = (each.0 - each.0 % block).max(block);
    let bytes = each.saturating_mul(files as u64);
    let key = Key::find("size").expect("it is in the table");
    let (text, value) = (bytes.to_string(), Value::Number(bytes));
    job.settings.retain(|setting| setting.key.name != key.name);
    job.settings.push(Arc::new(Setting { key, text, value, is_written: false, ..filename.clone() }));
    let each = Bytes(each);
    let text = format!(
        "fio would use the full size of the files in `filename`; each file here has {each} (set size= to change that)"
    );
    Remark { line: job.line, key: key.name, is_written: false, text }
}

#[cfg(test)]
mod tests {
    use super::{super::value::tests::host, *};

    /// The names of each job's files, and the messages.
    fn placed(text: &str) -> (Vec<String>, Vec<Remark>) {
        let mut file = JobFile::read("job.fio", text, &host(), &mut |_| Err(String::new()));
        assert!(file.faults.is_empty(), "{:?}", file.faults);
        let notes = place(&mut file);
        let name = |job: &Job| job.get("filename").map_or_else(String::new, |setting| setting.text.clone());
        (file.jobs.iter().map(name).collect(), notes)
    }

    #[test]
    fn paths_become_files_and_plain_names_stay() {
        let text = "[global]\nsize=1m\n[a]\nfilename=/dev/sda\n[b]\nfilename=data\n[c]\nfilename=/mnt/x:/dev//sda:../y\n[d]\n";
        let (names, notes) = placed(text);
        assert_eq!(names, ["file-1", "data", "file-2:file-1:file-3", ""]);
        assert_eq!(notes.iter().map(|note| note.line).collect::<Vec<_>>(), [4, 8]);
        assert!(notes[1].text.contains("`file-2` for `/mnt/x`, `file-1` for `/dev//sda`"), "{notes:?}");
    }

    #[test]
    fn the_same_path_is_the_same_file_and_no_other_is() {
        let (names, _) = placed(
            "[global]\nsize=1m\n[a]\nfilename=/mnt/x\n[b]\ndirectory=/mnt\nfilename=x\n[c]\ndirectory=/srv\nfilename=x\n\
             [d]\nfilename=file-2\n[e]\nfilename=x\n",
        );
        assert_eq!(names, ["file-1", "file-1", "x", "file-2", "file-3"]);
    }

    #[test]
    fn colons_separate_names_unless_escaped() {
        assert_eq!(names("a:b\\:c:/dev/d"), ["a", "b:c", "/dev/d"]);
        assert_eq!(names(""), [""]);
        assert_eq!(placed("[a]\nsize=1m\nfilename=/dev/disk/by-path/pci-0000\\:00\n").0, ["file-1"]);
        for wrong in ["", "-", ".", "..", "/", "/mnt/", "a/..", "$x"] {
            assert!(problem(wrong).is_some(), "{wrong:?}");
        }
    }

    #[test]
    fn device_names_get_default_file_size() {
        let size = |text: &str| {
            let mut file = JobFile::read("job.fio", text, &host(), &mut |_| Err(String::new()));
            let notes = place(&mut file);
            let size = file.jobs[0].get("size").map(|setting| setting.value.clone());
            (size, notes.len())
        };
        let usual = Bytes::mib(256).0;
        assert_eq!(size("[a]\nfilename=/dev/sda\n"), (Some(Value::Number(usual)), 2));
        assert_eq!(size("[a]\nfilename=/dev/sda:/dev/sdb\n"), (Some(Value::Number(2 * usual)), 2));
        assert_eq!(size("[a]\nfilename=/dev/sda\nbs=3000\n"), (Some(Value::Number(usual - usual % 3000)), 2));
        assert_eq!(size("[a]\nfilename=/dev/sda\nsize=1m\n"), (Some(Value::Number(1 << 20)), 1));
        assert_eq!(size("[a]\nfilename=/dev/sda\nsize=50%\n"), (Some(Value::Number(usual)), 2));
        assert_eq!(size("[a]\nfilename=data\n"), (None, 0));
    }
}
