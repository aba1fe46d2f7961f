//! Whether "How to add things" in docs/architecture.md is true: small additions of each sort, made as it says, are kept as
//! patches in `xtask/toys`. They must apply to the tree as it is, build together, and touch as many files as it says.

use crate::{cargo, command, root, skip, target};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// What is added, each by the patch of its name.
const TOYS: [&str; 4] = ["filesystem", "workload", "metric", "place"];
/// Head of the table in the document.
const HEAD: &str = "| added | files changed | files new | documents |";

/// Applies all toys to a copy of the tree, builds it, and compares the files that they touch with the document.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let listed =
        command("git").args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).output();
    let files = match listed {
        Ok(listed) if listed.status.success() => String::from_utf8_lossy(&listed.stdout).into_owned(),
        _ => {
            skip("toys", "git does not say which files belong to the tree");
            return Ok(());
        }
    };
    let mut rows = Vec::new();
    for name in TOYS {
        let patch = fs::read_to_string(patch(name)).map_err(|e| format!("{}: {e}", patch(name).display()))?;
        rows.push(Touched::by(&patch)?.row(name));
    }
    println!("{HEAD}\n|---|---|---|---|\n{}", rows.join("\n"));
    let document = fs::read_to_string(root.join("docs/architecture.md")).map_err(|e| e.to_string())?;
    compare(&document, &rows)?;
    let tree = target().join("toys/tree");
    let built = copy(root, files.split_terminator('\0'), &tree)
        .and_then(|()| TOYS.iter().try_for_each(|name| apply(name, &tree)))
        .and_then(|()| build(&tree));
    // Whatever happened: the next one starts over, and the disk is not for what is left of this one.
    let removed = fs::remove_dir_all(&tree).map_err(|e| format!("{}: {e}", tree.display()));
    built.and(removed)
}

fn patch(name: &str) -> PathBuf {
    root().join("xtask/toys").join(name).with_extension("patch")
}

/// How many files a patch touches.
#[derive(Debug, Default, PartialEq)]
struct Touched {
    /// Below `crates/`, and there before.
    changed: usize,
    /// Below `crates/`, and not there before.
    new: usize,
    /// Below `docs/`.
    documents: usize,
}

impl Touched {
    /// Counts; refuses what would be counted nowhere.
    fn by(patch: &str) -> Result<Self, String> {
        let mut touched = Self::default();
        for (old, new) in paths(patch) {
            match new {
                _ if new.starts_with("docs/") => touched.documents += 1,
                _ if !new.starts_with("crates/") => return Err(format!("a toy touches {new}")),
                _ if old == "/dev/null" => touched.new += 1,
                _ => touched.changed += 1,
            }
        }
        Ok(touched)
    }

    fn row(&self, name: &str) -> String {
        let Self { changed, new, documents } = self;
        format!("| {name} | {changed} | {new} | {documents} |")
    }
}

/// The files of a patch: what each was (`/dev/null` if it was not there), and is.
fn paths(patch: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = patch.lines().zip(patch.lines().skip(1));
    lines.filter_map(|(old, new)| Some((old.strip_prefix("--- ")?, new.strip_prefix("+++ b/")?)))
}

/// Refuses a document whose table is not made of these rows.
fn compare(document: &str, rows: &[String]) -> Result<(), String> {
    let table = document.lines().skip_while(|line| *line != HEAD).skip(2);
    let stated: Vec<&str> = table.take_while(|line| line.starts_with('|')).collect();
    if stated == rows {
        return Ok(());
    }
    Err(format!(
        "docs/architecture.md says something else of the files touched:\n{}\nIf an addition has to touch more than before, \
         mend that first; else put the table above there",
        stated.join("\n")
    ))
}

/// Copies the files of the tree.
fn copy<'a>(root: &Path, files: impl Iterator<Item = &'a str>, tree: &Path) -> Result<(), String> {
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    if tree.exists() {
        fs::remove_dir_all(tree).map_err(|e| failed(tree, e))?;
    }
    // One that git lists may be deleted.
    for file in files.filter(|file| root.join(file).is_file()) {
        let to = tree.join(file);
        let folder = to.parent().unwrap_or(tree);
        fs::create_dir_all(folder).map_err(|e| failed(folder, e))?;
        fs::copy(root.join(file), &to).map_err(|e| failed(&to, e))?;
    }
    // Cargo knows packages of a workspace by their folder in it and their version. With the same version, what is built
    // of the copy would be taken for the workspace's own.
    let manifest = tree.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).map_err(|e| failed(&manifest, e))?;
    let version =
        text.lines().find(|line| line.starts_with("version = ")).ok_or("no version in Cargo.toml")?;
    let toys = format!("{}-toys\"", version.trim_end_matches('"'));
    fs::write(&manifest, text.replacen(version, &toys, 1)).map_err(|e| failed(&manifest, e))
}

/// Applies a toy to the copy.
fn apply(name: &str, tree: &Path) -> Result<(), String> {
    let patch = patch(name);
    let text = fs::read_to_string(&patch).map_err(|e| e.to_string())?;
    let before = |file: &str| fs::read(tree.join(file)).ok();
    let files: Vec<(&str, Option<Vec<u8>>)> = paths(&text).map(|(_, file)| (file, before(file))).collect();
    // The copy lies in a folder that the repository ignores: git must not look for a repository above it, or it would
    // pass over every file and be content.
    let above = tree.parent().and_then(|folder| folder.canonicalize().ok()).unwrap_or_default();
    let applied = command("git")
        .arg("apply")
        .arg(&patch)
        .current_dir(tree)
        .env("GIT_CEILING_DIRECTORIES", above)
        .output()
        .map_err(|e| format!("git did not start: {e}"))?;
    let untouched = files.iter().find(|(file, old)| before(file) == *old);
    if applied.status.success() && untouched.is_none() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&applied.stderr);
    Err(format!("xtask/toys/{name}.patch does not apply any more: {}\n{}", why.trim(), remedy(name)))
}

/// Looks whether every toy applies, without a copy: that is seen in seconds, not at the end of all tests.
pub(crate) fn check_patches(found: &mut Vec<String>) {
    for name in TOYS {
        let checked = command("git").args(["apply", "--check"]).arg(patch(name)).output();
        if checked.is_ok_and(|checked| !checked.status.success()) {
            found.push(format!("xtask/toys/{name}.patch does not apply any more. {}", remedy(name)));
        }
    }
}

/// Builds the copy with everything in it, on what is built of the dependencies already.
fn build(tree: &Path) -> Result<(), String> {
    let status = command(&cargo())
        .args(["check", "--quiet", "--workspace", "--exclude", "xtask", "--all-targets"])
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", target())
        .status()
        .map_err(|e| format!("cargo did not start: {e}"))?;
    if status.success() {
        return Ok(());
    }
    Err(format!(
        "the tree does not build with all toys ({status}). If it does not without them either, begin there.\n{}",
        remedy("NAME")
    ))
}

/// What to do about a toy that no longer fits.
fn remedy(name: &str) -> String {
    format!(
        "Make it again: in a clean clone `git apply --reject xtask/toys/{name}.patch`, do the rest as docs/architecture.md says \
         under \"How to add things\" (and mend that if it is wrong), `cargo test -p fstrial-model --lib`, then \
         `git add --intent-to-add . && git diff > …/xtask/toys/{name}.patch`"
    )
}

#[cfg(test)]
mod checks {
    use super::*;

    const PATCH: &str = "--- a/crates/a/src/b.rs\n+++ b/crates/a/src/b.rs\n@@ -1 +1 @@\n--- a\n+++ c\n\
                         --- /dev/null\n+++ b/crates/a/src/c.rs\n@@ -0,0 +1 @@\n+//! New.\n\
                         --- a/docs/d.md\n+++ b/docs/d.md\n";

    #[test]
    fn files_are_counted_by_where_they_are() {
        let touched = Touched::by(PATCH).unwrap();
        assert_eq!(touched, Touched { changed: 1, new: 1, documents: 1 });
        assert_eq!(touched.row("x"), "| x | 1 | 1 | 1 |");
        assert!(Touched::by("--- a/xtask/src/names.rs\n+++ b/xtask/src/names.rs\n").is_err());
    }

    #[test]
    fn a_document_that_says_something_else_is_refused() {
        let rows = ["| x | 1 | 1 | 1 |".to_owned()];
        let document = |row: &str| format!("Text.\n\n{HEAD}\n|---|---|---|---|\n{row}\n\nText.\n");
        assert_eq!(compare(&document(&rows[0]), &rows), Ok(()));
        for wrong in ["| x | 1 | 2 | 1 |", "| x | 1 | 1 | 1 |\n| y | 1 | 1 | 1 |", ""] {
            assert!(compare(&document(wrong), &rows).is_err(), "{wrong}");
        }
        assert!(compare("Text.", &rows).is_err());
    }
}
