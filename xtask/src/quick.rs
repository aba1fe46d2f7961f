//! The tests that need neither root nor a device, nor put load on one, for the crates that changed and those that use them.
//!
//! Cargo knows which crates changed and which use them: their test programs are new files. A program that passed as it is
//! now, with the documents, presets and fixtures as they are now, is not run again.

use crate::{
    root, target,
    tests::{self, Program, Run},
};
use std::{
    collections::{HashMap, hash_map::DefaultHasher},
    fs,
    hash::{Hash, Hasher},
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

/// Test programs that are in vain without root, or take long: a browser, the presets, `./x` on a copy of the tree.
const LEFT_OUT: [&str; 4] = ["fstrial/browser", "fstrial/presets", "fstrial-stack/it", "xtask/x"];
/// Arguments for programs of which a part loads a disk, or needs tools of others: the parts to run instead.
const PARTS: [(&str, &[&str]); 3] = [
    ("fstrial-run", &["--skip", "real_"]),
    (
        "fstrial/it",
        &["claims::", "docs::", "errors::", "judge::", "report::", "serve::", "trend::", "workloads::"],
    ),
    ("fstrial-store/it", &["--skip", "kill::"]),
];
/// Crates whose tests read none of these.
const WITHOUT_DATA: [&str; 3] = ["fstrial-device", "fstrial-engine", "fstrial-stats"];
/// Folders whose files the tests read.
const DATA: [&str; 7] = ["claims", "docs", "examples", "fixtures", "models", "trials", "workloads"];
/// Files that they read, in addition to those of the folders and the snapshots.
const FILES: [&str; 2] = ["README.md", "CHANGELOG.md"];

/// Builds all test programs, and runs those that have not passed yet.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let data = data(&root());
    let programs = tests::build(arguments)?;
    let count = programs.len();
    let mut changed: Vec<Program> =
        programs.into_iter().filter(|program| !LEFT_OUT.contains(&program.name.as_str())).collect();
    for program in &mut changed {
        let part = PARTS.iter().find(|(name, _)| *name == program.name).map_or(&[][..], |(_, words)| words);
        program.words = part.iter().map(|word| (*word).to_owned()).collect();
    }
    // Before they run: a later build has not passed.
    let states: HashMap<String, String> =
        changed.iter().map(|program| (program.name.clone(), state(program, data))).collect();
    changed.retain(|program| fs::read_to_string(stamp(program)).ok().as_ref() != states.get(&program.name));
    println!("{} of {count} test programs", changed.len());
    fs::create_dir_all(target().join("quick")).map_err(|e| e.to_string())?;
    let passed = |program: &Program| {
        // Without the stamp it only runs again.
        let _ = fs::write(stamp(program), &states[&program.name]);
    };
    tests::run_programs(&changed, &Run::Unprivileged(&passed))
}

fn stamp(program: &Program) -> PathBuf {
    target().join("quick").join(program.name.replace('/', "-"))
}

/// A program and all it reads, as one number.
fn state(program: &Program, data: u64) -> String {
    let mut hasher = DefaultHasher::new();
    (&program.file, &program.words).hash(&mut hasher);
    [tests::SEED, "PROPTEST_CASES"].map(std::env::var_os).hash(&mut hasher);
    hash_file(&program.file, &mut hasher);
    if !WITHOUT_DATA.iter().any(|name| program.name.split('/').next() == Some(*name)) {
        data.hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

/// Documents, presets and fixtures, and of the crates the snapshots, which no build depends on.
fn data(root: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    FILES.iter().for_each(|name| hash_file(&root.join(name), &mut hasher));
    let crates = root.join("crates");
    let mut folders: Vec<PathBuf> = DATA.iter().map(|name| root.join(name)).collect();
    folders.push(crates.clone());
    while let Some(folder) = folders.pop() {
        let mut result: Vec<PathBuf> =
            fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        result.sort();
        for path in result {
            if path.is_dir() {
                folders.push(path);
            } else if !path.starts_with(&crates) || path.extension().is_some_and(|end| end == "snap") {
                path.hash(&mut hasher);
                hash_file(&path, &mut hasher);
            }
        }
    }
    hasher.finish()
}

/// Length and time of change, as in cargo.
fn hash_file(path: &Path, hasher: &mut DefaultHasher) {
    let Ok(metadata) = fs::metadata(path) else { return };
    let changed = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    (metadata.len(), changed).hash(hasher);
}
