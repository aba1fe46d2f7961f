//! Tests "How to add things" in docs/architecture.md: small additions of each sort, made by its rules, are kept as
//! patches in `xtask/toys`. They must apply to the tree as it is, build together, and touch the stated number of files.

use crate::{cargo, command, patched, root, skip, target};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The additions, each by the patch of its name.
const TOYS: [&str; 6] = ["filesystem", "axis", "workload", "metric", "place", "command"];
/// Head of the table in the document.
const HEAD: &str = "| added | files changed | files new | documents |";

/// Applies all toys to a copy of the tree, builds it, and compares the files that they touch with the document.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let mut rows = Vec::new();
    for (name, path) in TOYS.iter().zip(patches()) {
        let patch = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        rows.push(Touched::by(&patch)?.row(name));
    }
    println!("{HEAD}\n|---|---|---|---|\n{}", rows.join("\n"));
    let document = fs::read_to_string(root.join("docs/architecture.md")).map_err(|e| e.to_string())?;
    compare(&document, &rows)?;
    match patched::copy("toys", &patches())? {
        Some(tree) => build(&tree),
        None => {
            skip("toys", "git does not list the files of the tree");
            Ok(())
        }
    }
}

pub(crate) fn patches() -> Vec<PathBuf> {
    TOYS.map(|name| root().join("xtask/toys").join(name).with_extension("patch")).to_vec()
}

/// Number of files touched by a patch.
#[derive(Debug, Default, PartialEq)]
struct Touched {
    /// Existing files below `crates/`.
    changed: usize,
    /// New files below `crates/`.
    new: usize,
    /// Below `docs/`.
    documents: usize,
}

impl Touched {
    /// Counts the files of a patch; refuses files outside `crates/` and `docs/`.
    fn by(patch: &str) -> Result<Self, String> {
        let mut touched = Self::default();
        // An empty new file has no ---/+++ lines, so it would not be counted.
        let made = |line: &&str| line.starts_with("new file mode");
        if patch.lines().filter(made).count() > patch.matches("\n--- /dev/null\n").count() {
            return Err("a toy has an empty new file".into());
        }
        for (old, new) in patched::paths(patch) {
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

/// Refuses a document whose table is not made of these rows.
fn compare(document: &str, rows: &[String]) -> Result<(), String> {
    let table = document.lines().skip_while(|line| *line != HEAD).skip(2);
    let stated: Vec<&str> = table.take_while(|line| line.starts_with('|')).collect();
    if stated == rows {
        return Ok(());
    }
    Err(format!(
        "docs/architecture.md lists other touched files:\n{}\nIf an addition has to touch more than before, mend that first; else put the table above there",
        stated.join("\n")
    ))
}

/// Builds the copy with all additions, reusing the built dependencies.
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
        "the tree does not build with all toys ({status}). If it does not without them either, begin there; else make the toy again"
    ))
}

#[cfg(test)]
mod checks {
    use super::*;

    const PATCH: &str = "--- a/crates/a/src/b.rs\n+++ b/crates/a/src/b.rs\n@@ -1 +1 @@\n--- a\n+++ c\n\
                         --- /dev/null\n+++ b/crates/a/src/c.rs\n@@ -0,0 +1 @@\n+//! New.\n\
                         --- a/docs/d.md\n+++ b/docs/d.md\n";

    #[test]
    fn counts_touched_files_by_location() {
        let touched = Touched::by(PATCH).unwrap();
        assert_eq!(touched, Touched { changed: 1, new: 1, documents: 1 });
        assert_eq!(touched.row("x"), "| x | 1 | 1 | 1 |");
        assert!(Touched::by("diff --git a/crates/a b/crates/a\nnew file mode 100644\n").is_err());
        assert!(Touched::by("--- a/xtask/src/names.rs\n+++ b/xtask/src/names.rs\n").is_err());
    }

    #[test]
    fn mismatched_document_is_rejected() {
        let rows = ["| x | 1 | 1 | 1 |".to_owned()];
        let document = |row: &str| format!("Text.\n\n{HEAD}\n|---|---|---|---|\n{row}\n\nText.\n");
        assert_eq!(compare(&document(&rows[0]), &rows), Ok(()));
        for wrong in ["| x | 1 | 2 | 1 |", "| x | 1 | 1 | 1 |\n| y | 1 | 1 | 1 |", ""] {
            assert!(compare(&document(wrong), &rows).is_err(), "{wrong}");
        }
        assert!(compare("Text.", &rows).is_err());
    }
}
