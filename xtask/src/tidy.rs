//! Checks beyond clippy: crate directions, circles of imports, the list of unsafe islands, file docs, leftovers,
//! lengths, names of filesystems, links between pages, phrases of user text.

use crate::{budget, circles, facts, links, names, patched, phrases, toys};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Our crates that each crate may use.
const DIRECTIONS: [(&str, &[&str]); 14] = [
    ("fstrial-stats", &[]),
    ("fstrial-model", &[]),
    ("fstrial-device", &["fstrial-stats", "fstrial-model"]),
    ("fstrial-engine", &["fstrial-model"]),
    ("fstrial-kv", &["fstrial-model", "fstrial-engine"]),
    ("fstrial-probe", &["fstrial-model"]),
    ("fstrial-stack", &["fstrial-model"]),
    ("fstrial-store", &["fstrial-model"]),
    ("fstrial-vm", &[]),
    (
        "fstrial-run",
        &[
            "fstrial-stats",
            "fstrial-model",
            "fstrial-device",
            "fstrial-engine",
            "fstrial-probe",
            "fstrial-stack",
            "fstrial-store",
            "fstrial-vm",
        ],
    ),
    (
        "fstrial-report",
        &[
            "fstrial-stats",
            "fstrial-model",
            "fstrial-engine",
            "fstrial-stack",
            "fstrial-store",
            "fstrial-run",
        ],
    ),
    (
        "fstrial",
        &[
            "fstrial-stats",
            "fstrial-model",
            "fstrial-engine",
            "fstrial-kv",
            "fstrial-stack",
            "fstrial-store",
            "fstrial-run",
            "fstrial-report",
        ],
    ),
    (
        "fstrial-attack",
        &[
            "fstrial",
            "fstrial-run",
            "fstrial-model",
            "fstrial-device",
            "fstrial-engine",
            "fstrial-stack",
            "fstrial-store",
        ],
    ),
    ("xtask", &[]),
];
/// The only files that may hold unsafe code.
const ISLANDS: [&str; 12] = [
    "crates/fstrial-engine/src/aio.rs",
    "crates/fstrial-engine/src/clock.rs",
    "crates/fstrial-engine/src/descriptors.rs",
    "crates/fstrial-engine/src/fiemap.rs",
    "crates/fstrial-engine/src/flush.rs",
    "crates/fstrial-engine/src/mmap.rs",
    "crates/fstrial-engine/src/uring.rs",
    "crates/fstrial-stack/src/confined.rs",
    "crates/fstrial-stack/src/descendants.rs",
    "crates/fstrial-stack/src/ioctl.rs",
    "crates/fstrial-stack/src/isolation.rs",
    "crates/fstrial-report/src/stdout/at_start.rs",
];
/// The crates of the command.
const PROGRAM: [&str; 3] = ["crates/fstrial/src/", "crates/fstrial-run/src/", "crates/fstrial-report/src/"];
/// The files of the command that may open files directly. All others go through `cli/out_file.rs` and `cli/in_file.rs`:
/// a user's file is never replaced unrequested, no link is followed, and no read is unbounded.
const OPENERS: [&str; 16] = [
    "crates/fstrial/src/cli/doctor.rs",
    "crates/fstrial/src/cli/in_file.rs",
    "crates/fstrial/src/cli/mod.rs",
    "crates/fstrial/src/cli/out_file.rs",
    "crates/fstrial/src/cli/results/export.rs",
    "crates/fstrial-run/src/environment.rs",
    "crates/fstrial-run/src/kernels.rs",
    "crates/fstrial-run/src/kvm.rs",
    "crates/fstrial-run/src/place/modelled.rs",
    "crates/fstrial-run/src/operation/fill.rs",
    "crates/fstrial-run/src/operation/files.rs",
    "crates/fstrial-run/src/operation/freeze.rs",
    "crates/fstrial-run/src/program.rs",
    "crates/fstrial-run/src/program/tests.rs",
    "crates/fstrial-run/src/worker/promises.rs",
    "crates/fstrial-run/src/worker.rs",
];
/// Calls that open a file by its name.
const OPENING: [&str; 9] = [
    "fs::write(",
    "fs::copy(",
    "fs::rename(",
    "fs::read(",
    "fs::read_to_string(",
    "File::open(",
    "File::create",
    "File::options",
    "OpenOptions",
];
/// Lines of the longest function allowed.
const MAX_FUNCTION: usize = 75;

/// Checks the tree; the error lists all findings.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let mut result = Vec::new();
    for (name, allowed) in DIRECTIONS {
        let folder = if name == "xtask" { root.join("xtask") } else { root.join("crates").join(name) };
        check_directions(&folder, name, allowed, &mut result);
        circles::check(name, &folder, &mut result);
    }
    let mut files = Vec::new();
    for folder in ["crates", "xtask"] {
        collect(&root.join(folder), &mut files);
    }
    let read = |file: &PathBuf| {
        let name = file.strip_prefix(root).unwrap_or(file).display().to_string();
        Some((name, fs::read_to_string(file).ok()?))
    };
    let texts: Vec<(String, String)> = files.iter().filter_map(read).collect();
    let filesystems = names::of_rows(&texts);
    for (name, text) in &texts {
        check_file(name, text, &mut result);
        names::check(name, text, &filesystems, &mut result);
        phrases::check_rust(name, text, &mut result);
    }
    if filesystems.is_empty() {
        result
            .push("no row of a filesystem was found: xtask/src/names.rs looks for `    name: \"…\",`".into());
    }
    names::check_list(&texts, &filesystems, &mut result);
    links::check(root, &mut result);
    budget::check(root, &texts, &mut result);
    phrases::check_documents(root, &mut result);
    patched::check(&[toys::patches(), vec![patched::plants()]].concat(), &mut result);
    facts::check(root, &DIRECTIONS.map(|(name, _)| name), &texts, &mut result);
    let changes = fs::read_to_string(root.join("CHANGELOG.md")).unwrap_or_default();
    if !changes.contains("## Unreleased") && !changes.contains("## 0.") {
        result.push("CHANGELOG.md has no section".into());
    }
    if result.is_empty() {
        Ok(())
    } else {
        Err(format!("{} findings\n  {}", result.len(), result.join("\n  ")))
    }
}

fn check_directions(folder: &Path, name: &str, allowed: &[&str], result: &mut Vec<String>) {
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
    for line in manifest.lines().filter(|line| line.starts_with("fstrial")) {
        let used = line.split(['.', ' ', '=']).next().unwrap_or_default();
        if !allowed.contains(&used) {
            result.push(format!("{name} must not use {used}"));
        }
    }
}

/// All Rust files below a folder.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn check_file(name: &str, text: &str, result: &mut Vec<String>) {
    if !text.starts_with("//!") {
        result.push(format!("{name} does not open with its purpose (//!)"));
    }
    if text.contains("expect(unsafe_code") && !ISLANDS.contains(&name) && !name.starts_with("xtask") {
        result.push(format!("{name} is not on the list of unsafe islands"));
    }
    for (number, line) in text.lines().enumerate() {
        // Written apart, or this file would find itself.
        let leftovers =
            [concat!("FIX", "ME"), concat!("XX", "X"), concat!("to", "do!"), concat!("unimple", "mented!")];
        if let Some(word) = leftovers.iter().find(|word| line.contains(**word)) {
            result.push(format!("{name}:{}: {word}", number + 1));
        }
    }
    if PROGRAM.iter().any(|folder| name.starts_with(folder)) && !OPENERS.contains(&name) {
        let code = text.split("#[cfg(test)]").next().unwrap_or(text);
        let opens = |line: &str| OPENING.iter().any(|call| line.contains(call));
        for (number, _) in code.lines().enumerate().filter(|(_, line)| opens(line)) {
            result.push(format!(
                "{name}:{}: opens a file without cli/out_file.rs or cli/in_file.rs",
                number + 1
            ));
        }
    }
    for (line, length) in long_functions(text) {
        result.push(format!("{name}:{line}: a function of {length} lines (at most {MAX_FUNCTION})"));
    }
}

/// Line and length of functions that are too long. Relies on the formatter: a function ends at the first closing
/// brace indented like its beginning.
fn long_functions(text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut long = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let is_function = ["fn ", "pub fn ", "pub(crate) fn ", "const fn ", "pub const fn "]
            .iter()
            .any(|p| code.starts_with(p));
        if !is_function || line.trim_end().ends_with(['}', ';']) {
            continue;
        }
        let closing = format!("{}}}", &line[..line.len() - code.len()]);
        let length = lines[start..].iter().position(|line| *line == closing).map_or(0, |end| end + 1);
        if length > MAX_FUNCTION {
            long.push((start + 1, length));
        }
    }
    long
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_found() {
        let mut result = Vec::new();
        let long = format!("fn f() {{\n{}}}\n", "    x();\n".repeat(100));
        check_file(
            "crates/a/src/b.rs",
            &format!("{long}#![expect(unsafe_code)] // {}", concat!("FIX", "ME")),
            &mut result,
        );
        assert_eq!(result.len(), 4, "{result:?}");
    }

    #[test]
    fn files_are_opened_in_one_place() {
        let mut result = Vec::new();
        let text =
            "//! Good.\nfn f() {\n    fs::write(a, b);\n}\n#[cfg(test)]\nmod tests { fs::write(a, b); }\n";
        for name in ["fstrial/src/cli/new.rs", "fstrial-run/src/new.rs", "fstrial-report/src/page/new.rs"] {
            check_file(&format!("crates/{name}"), text, &mut result);
        }
        assert_eq!(result.len(), 3, "{result:?}");
        check_file("crates/fstrial/src/cli/out_file.rs", text, &mut result);
        check_file("crates/fstrial-stack/src/sysfs.rs", text, &mut result);
        assert_eq!(result.len(), 3, "{result:?}");
    }

    #[test]
    fn a_clean_file_passes() {
        let mut result = Vec::new();
        check_file("crates/a/src/b.rs", "//! Good.\nfn f() {\n}\n", &mut result);
        assert!(result.is_empty(), "{result:?}");
    }
}
