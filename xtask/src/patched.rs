//! Copies of the tree with patches: the toys, and the old faults that the attack must find. A copy keeps the files that
//! have not changed, so that its build is reused.

use crate::{command, root, target};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Copies the tree to `target/NAME/tree` and applies patches to it. None where git does not list the files of the tree.
///
/// # Errors
/// A file cannot be copied, or a patch does not apply any more.
pub(crate) fn copy(name: &str, patches: &[PathBuf]) -> Result<Option<PathBuf>, String> {
    let listed =
        command("git").args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).output();
    let files = match listed {
        Ok(listed) if listed.status.success() => String::from_utf8_lossy(&listed.stdout).into_owned(),
        _ => return Ok(None),
    };
    // A patch may make files: unlisted ones have no place in the copy.
    let tree = target().join(name).join("tree");
    let (root, old) = (root(), target().join(name).join("before"));
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    if old.exists() {
        fs::remove_dir_all(&old).map_err(|e| failed(&old, e))?;
    }
    if tree.exists() {
        fs::rename(&tree, &old).map_err(|e| failed(&tree, e))?;
    }
    // One that git lists may be deleted.
    for file in files.split_terminator('\0').filter(|file| root.join(file).is_file()) {
        let text = fs::read(root.join(file)).map_err(|e| failed(&root.join(file), e))?;
        write(&tree.join(file), &renamed(file, name, text)?)?;
    }
    patches.iter().try_for_each(|patch| apply(patch, &tree))?;
    keep_times(&tree, &old)?;
    if old.exists() {
        fs::remove_dir_all(&old).map_err(|e| failed(&old, e))?;
    }
    Ok(Some(tree))
}

/// Cargo identifies packages of a workspace by their folder in it and their version. With the same version, the copy's
/// build would be taken for the workspace's own.
fn renamed(file: &str, name: &str, text: Vec<u8>) -> Result<Vec<u8>, String> {
    if file != "Cargo.toml" {
        return Ok(text);
    }
    let text = String::from_utf8(text).map_err(|e| e.to_string())?;
    let version =
        text.lines().find(|line| line.starts_with("version = ")).ok_or("no version in Cargo.toml")?;
    let own = format!("{}-{name}\"", version.trim_end_matches('"'));
    Ok(text.replacen(version, &own, 1).into_bytes())
}

fn write(path: &Path, text: &[u8]) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(path)).map_err(failed)?;
    fs::write(path, text).map_err(failed)
}

/// Restores the times of unchanged files: Cargo builds newer ones.
fn keep_times(folder: &Path, old: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let (path, before) = {
            let entry = entry.map_err(failed)?;
            (entry.path(), old.join(entry.file_name()))
        };
        if path.is_dir() {
            keep_times(&path, &before)?;
        } else if fs::read(&before).ok() == fs::read(&path).ok() {
            fs::rename(&before, &path).map_err(failed)?;
        }
    }
    Ok(())
}

/// Applies a patch to the copy.
fn apply(patch: &Path, tree: &Path) -> Result<(), String> {
    let text = fs::read_to_string(patch).map_err(|e| e.to_string())?;
    let before = |file: &str| fs::read(tree.join(file)).ok();
    let files: Vec<(&str, Option<Vec<u8>>)> = paths(&text).map(|(_, file)| (file, before(file))).collect();
    // The copy is in a folder that the repository ignores: git must not look for a repository above it, or it would
    // silently skip every file.
    let above = tree.parent().and_then(|folder| folder.canonicalize().ok()).unwrap_or_default();
    let applied = command("git")
        .arg("apply")
        .arg(patch)
        .current_dir(tree)
        .env("GIT_CEILING_DIRECTORIES", above)
        .output()
        .map_err(|e| format!("git did not start: {e}"))?;
    let untouched = files.iter().find(|(file, old)| before(file) == *old);
    if applied.status.success() && untouched.is_none() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&applied.stderr);
    Err(format!("{}: {}", no_longer(patch), why.trim()))
}

/// Looks whether every patch applies, without a copy: that is seen in seconds, not at the end of all tests.
pub(crate) fn check(patches: &[PathBuf], result: &mut Vec<String>) {
    for patch in patches {
        let checked = command("git").args(["apply", "--check"]).arg(patch).output();
        if checked.is_ok_and(|checked| !checked.status.success()) {
            result.push(no_longer(patch));
        }
    }
}

/// The patch with old faults in it.
pub(crate) fn plants() -> PathBuf {
    root().join("xtask/plants.patch")
}

/// Remedy for a patch that no longer applies.
fn no_longer(patch: &Path) -> String {
    let patch = patch.strip_prefix(root()).unwrap_or(patch).display().to_string();
    format!(
        "{patch} does not apply any more. Make it again: in a clean clone `git apply --reject {patch}`, do the rest by \
         hand (for a toy as described in docs/architecture.md under \"How to add things\", and correct that if it is \
         wrong), `cargo test -p fstrial-model --lib`, then `git add --intent-to-add . && git diff > …/{patch}`"
    )
}

/// The files of a patch: the old name of each (`/dev/null` if it is new), and the new one.
pub(crate) fn paths(patch: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = patch.lines().zip(patch.lines().skip(1));
    lines.filter_map(|(old, new)| Some((old.strip_prefix("--- ")?, new.strip_prefix("+++ b/")?)))
}
