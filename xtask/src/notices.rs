//! The notices of everything that is linked into the program or embedded in it, as their licences ask for:
//! `cargo xtask notices` writes them from the metadata of the crates, and a test holds the file to that.

use crate::{cargo, command, root};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

/// File of the notices, for the program to print and the package to include.
pub(crate) const FILE: &str = "crates/fstrial/THIRD-PARTY.txt";
/// Prefixes of files with licence texts.
const TEXTS: [&str; 5] = ["license", "licence", "copying", "notice", "unlicense"];

const HEAD: &str = "\
fstrial is linked with the crates below. Where a licence may be chosen, it is MIT. The
standard library of Rust is linked as well: copyright The Rust Project contributors, MIT or Apache-2.0. The static binary holds
the C library of the system that it was built on; of Debian that is the GNU C library, LGPL-2.1-or-later.
";

/// The terms of MIT, for a crate under that licence without a text of it.
const MIT: &str = "\
Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the
\"Software\"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish,
distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to
the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED \"AS IS\", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF
MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY
CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE
SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
";

/// `notices`: writes the file.
pub(crate) fn run() -> Result<(), String> {
    let path = root().join(FILE);
    fs::write(&path, notices()?).map_err(|error| format!("{}: {error}", path.display()))
}

/// A crate, with the notices its licence requires.
struct Linked {
    name: String,
    texts: Vec<String>,
}

fn notices() -> Result<String, String> {
    let metadata = metadata()?;
    let all: Vec<Linked> = linked(&metadata)?.into_iter().map(of_package).collect::<Result<_, _>>()?;
    // Each text once, however many have it.
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    let (mut list, mut bodies) = (String::new(), String::new());
    for Linked { name, texts } in all {
        let numbered = texts.iter().map(|text| {
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let next = numbers.len() + 1;
            *numbers.entry(words).or_insert_with(|| {
                let _ = write!(bodies, "\n----- text {next} -----\n\n{}\n", text.trim());
                next
            })
        });
        let numbered: BTreeSet<usize> = numbered.collect();
        let numbered: Vec<String> = numbered.into_iter().map(|number| number.to_string()).collect();
        let _ = writeln!(
            list,
            "{name}: {}",
            match numbered.as_slice() {
                // It does not ask for its text.
                [] if name.ends_with("(0BSD)") => "none is asked for".into(),
                [] => "no text".into(),
                numbered => numbered.join(", "),
            }
        );
    }
    Ok(format!("{HEAD}\n{list}{bodies}"))
}

fn metadata() -> Result<Value, String> {
    let words =
        ["metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu"];
    let output = command(&cargo()).args(words).current_dir(root()).output().map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

/// The foreign packages that are linked into the program, by name: neither macros, nor packages for builds and tests
/// only.
fn linked(metadata: &Value) -> Result<Vec<&Value>, String> {
    let (packages, nodes) = (by_id(&metadata["packages"]), by_id(&metadata["resolve"]["nodes"]));
    let is_macro = |package: &Value| {
        list(&package["targets"]).any(|target| list(&target["kind"]).any(|kind| kind == "proc-macro"))
    };
    let first = packages.iter().find(|(_, package)| package["name"] == "fstrial");
    let mut waiting = vec![first.ok_or("there is no package fstrial")?.0.clone()];
    let mut seen: BTreeMap<String, &Value> = BTreeMap::new();
    while let Some(id) = waiting.pop() {
        let (Some(package), Some(node)) = (packages.get(&id), nodes.get(&id)) else {
            return Err(format!("cargo metadata has no {id}"));
        };
        let key = format!("{} {}", package["name"], package["version"]);
        if is_macro(package) || seen.insert(key, package).is_some() {
            continue;
        }
        let is_linked = |needed: &&Value| list(&needed["dep_kinds"]).any(|kind| kind["kind"].is_null());
        waiting.extend(list(&node["deps"]).filter(is_linked).map(|needed| needed["pkg"].to_string()));
    }
    Ok(seen.into_values().filter(|package| !package["source"].is_null()).collect())
}

/// The objects of an array by their ids.
fn by_id(all: &Value) -> BTreeMap<String, &Value> {
    list(all).map(|one| (one["id"].to_string(), one)).collect()
}

/// The values of an array; none of anything else.
fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn of_package(package: &Value) -> Result<Linked, String> {
    let field = |name: &str| package[name].as_str().unwrap_or_default();
    let folder = PathBuf::from(field("manifest_path"));
    let folder = folder.parent().ok_or("a manifest is in a folder")?;
    let mut texts_of_mit = texts(folder, |name| name.contains("mit") || name.starts_with("notice"))?;
    // Some have one file for all their licences.
    if !field("license").contains("MIT") || texts_of_mit.is_empty() {
        texts_of_mit = texts(folder, |_| true)?;
    }
    if texts_of_mit.is_empty() && field("license").contains("MIT") {
        let authors: Vec<&str> = list(&package["authors"]).filter_map(Value::as_str).collect();
        texts_of_mit.push(format!("Copyright (c) {}\n\n{MIT}", authors.join(", ")));
    }
    Ok(Linked {
        name: format!("{} {} ({})", field("name"), field("version"), field("license")),
        texts: texts_of_mit,
    })
}

/// The texts of licences in a folder, in the order of their names, which are given in small letters.
fn texts(folder: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<String>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if entry.path().is_file() && TEXTS.iter().any(|begin| name.starts_with(begin)) && is_wanted(&name) {
            paths.push(entry.path());
        }
    }
    paths.sort();
    let read = |path: &PathBuf| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).replace('\r', ""));
    paths.iter().map(|path| read(path).map_err(failed)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_match_linked_crates() {
        let file = fs::read_to_string(root().join(FILE)).unwrap();
        assert!(file == notices().unwrap(), "make them again: cargo xtask notices");
        for name in ["clap ", "serde_json "] {
            assert!(file.lines().any(|line| line.starts_with(name)), "{name}");
        }
        assert!(!file.contains(": no text"), "something has no text");
    }
}
