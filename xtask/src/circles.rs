//! Circles of imports between the subjects of a crate. A file and those of its folder (`a.rs` and `a/b.rs`) count
//! as one subject.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Circles that stay, by crate, with their subjects, and why.
const CIRCLES: [(&str, &[&str], &str); 3] = [
    (
        "fstrial-model",
        &["ability", "filesystem"],
        "the row of a filesystem holds its capabilities, and the capabilities are looked up in rows",
    ),
    ("fstrial-model", &["claim", "trial"], "a claim is a part of a trial, and its file is one"),
    ("fstrial-stack", &["command", "error"], "an error names the package of a missing program"),
];
/// A folder of several subjects.
const ROOM: &str = "cli";

/// Imports of each file, by the paths of modules.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Checks a crate.
pub(crate) fn check(name: &str, folder: &Path, result: &mut Vec<String>) {
    let graph = graph(&folder.join("src"));
    for circle in circles(&subjects(&graph)) {
        let is_known = |(of, files, _): &&(&str, &[&str], &str)| {
            *of == name && circle.iter().all(|file| files.contains(&file.as_str()))
        };
        if CIRCLES.iter().find(is_known).is_none() {
            result.push(format!("{name}: a circle of imports: {}", circle.join(", ")));
        }
    }
}

/// The imports of every file of a crate but its tests.
fn graph(source: &Path) -> Graph {
    let mut texts = BTreeMap::new();
    read(source, &mut Vec::new(), &mut texts);
    let modules: BTreeSet<String> = texts.keys().cloned().collect();
    let imports = |module: &String, text: &String| {
        let all = paths(text).into_iter().filter_map(|path| resolve(module, &path, &modules));
        all.filter(|to| to != module && !to.is_empty()).collect()
    };
    texts.iter().map(|(module, text)| (module.clone(), imports(module, text))).collect()
}

/// The same by subject: a file and those of its folder are one, with the imports of all of them.
fn subjects(graph: &Graph) -> Graph {
    let subject = |module: &str| {
        let words: Vec<&str> = module.split("::").collect();
        let depth = if words[0] == ROOM { 2 } else { 1 };
        words[..words.len().min(depth)].join("::")
    };
    let mut merged = Graph::new();
    for (module, imports) in graph {
        let from = subject(module);
        let is_within = |to: &String| {
            *to == from || from.starts_with(&format!("{to}::")) || to.starts_with(&format!("{from}::"))
        };
        let all = imports.iter().map(|to| subject(to)).filter(|to| !is_within(to));
        merged.entry(from.clone()).or_default().extend(all);
    }
    merged
}

/// The texts of all modules below a folder, without comments and tests.
fn read(folder: &Path, above: &mut Vec<String>, texts: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if ["tests", "testing", "simulation"].contains(&stem.as_str()) || stem.ends_with("_tests") {
            continue;
        }
        if path.is_dir() {
            above.push(stem);
            read(&path, above, texts);
            above.pop();
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let own = (!["mod", "lib", "main"].contains(&stem.as_str())).then_some(stem);
            let module: Vec<String> = above.iter().cloned().chain(own).collect();
            let text = fs::read_to_string(&path).unwrap_or_default();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
            texts.insert(module.join("::"), lines.collect::<Vec<_>>().join("\n"));
        }
    }
}

/// Every path that a text names: of `use`, and those that begin with `crate` or `super`.
fn paths(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (at, _) in text.match_indices("use ") {
        let is_word = text[..at].chars().next_back().is_none_or(|before| !before.is_alphanumeric());
        if let (true, Some(end)) = (is_word, text[at..].find(';')) {
            expand("", &text[at + 4..at + end], &mut all);
        }
    }
    for start in ["crate::", "super::"] {
        for (at, _) in text.match_indices(start) {
            let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
            all.push(text[at..].chars().take_while(|c| is_path(*c)).collect());
        }
    }
    all
}

/// The paths of a tree such as `a::{b, c::{d, e}}`.
fn expand(prefix: &str, tree: &str, all: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((head, rest)) = tree.split_once('{') else {
        let name = tree.split(" as ").next().unwrap_or_default();
        all.push(format!("{prefix}{name}"));
        return;
    };
    let Some(body) = rest.trim_end().strip_suffix('}') else { return };
    let (mut depth, mut from) = (0, 0);
    for (at, c) in body.char_indices().chain([(body.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !body[from..at].trim().is_empty() {
                    expand(&format!("{prefix}{}", head.trim()), &body[from..at], all);
                }
                from = at + 1;
            }
            _ => {}
        }
    }
}

/// The module that a path leads to, if it is one of this crate.
fn resolve(module: &str, path: &str, modules: &BTreeSet<String>) -> Option<String> {
    let mut words: Vec<&str> = path.split("::").filter(|word| !word.is_empty()).collect();
    let mut base: Vec<&str> = module.split("::").filter(|word| !word.is_empty()).collect();
    match *words.first()? {
        "crate" => base.clear(),
        "super" | "self" => {}
        first => {
            base.push(first);
            if !modules.contains(&base.join("::")) {
                return None;
            }
            base.pop();
        }
    }
    while let Some(word @ ("crate" | "super" | "self")) = words.first().copied() {
        if word == "super" {
            base.pop();
        }
        words.remove(0);
    }
    base.extend(words);
    (0..=base.len()).rev().map(|length| base[..length].join("::")).find(|path| modules.contains(path))
}

/// Groups of modules each of which imports each of the others, directly or not.
fn circles(graph: &Graph) -> Vec<Vec<String>> {
    let reached = |from: &str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(module) = next.pop() {
            for to in graph.get(&module).into_iter().flatten() {
                if seen.insert(to.clone()) {
                    next.push(to.clone());
                }
            }
        }
        seen
    };
    let all: BTreeMap<&String, BTreeSet<String>> =
        graph.keys().map(|module| (module, reached(module))).collect();
    let mut result: Vec<Vec<String>> = Vec::new();
    for (module, reach) in all.iter().filter(|(module, reach)| reach.contains(**module)) {
        let circle: Vec<String> = reach
            .iter()
            .filter(|other| all.get(other).is_some_and(|back| back.contains(*module)))
            .cloned()
            .collect();
        if !result.contains(&circle) {
            result.push(circle);
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_of_imports_are_expanded() {
        let text = "use super::{\n    a::{self, B},\n    c::d as e,\n};\nfn f() { crate::x::y(); }\nlet because = 1;";
        let expected = ["super::a::self", "super::a::B", "super::c::d", "super::{", "crate::x::y"];
        let result = paths(text);
        assert_eq!(result[..3], expected[..3]);
        assert!(result.contains(&"crate::x::y".to_owned()), "{result:?}");
    }

    #[test]
    fn circles_are_found_and_families_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("src");
        fs::create_dir_all(source.join("cli")).unwrap();
        fs::create_dir_all(source.join("f")).unwrap();
        for (name, text) in [
            ("lib.rs", "mod a;\nmod b;\nmod c;"),
            ("a.rs", "use crate::b::X;"),
            ("b.rs", "use super::{c::Y, d::Z};"),
            ("c.rs", "use crate::{a, d};"),
            ("d.rs", "#[cfg(test)]\nmod tests {\n    use crate::a;\n}"),
            ("cli/x.rs", "use super::y;"),
            ("cli/y.rs", "use crate::cli::x::Z;\n// use crate::a;"),
            // Only the folder of one imports the other: they are in a circle all the same.
            ("e.rs", "use crate::f::X;"),
            ("f.rs", "mod g;"),
            ("f/g.rs", "use crate::e;"),
        ] {
            fs::write(source.join(name), text).unwrap();
        }
        let mut result = Vec::new();
        check("one", folder.path(), &mut result);
        assert_eq!(
            result,
            [
                "one: a circle of imports: a, b, c",
                "one: a circle of imports: cli::x, cli::y",
                "one: a circle of imports: e, f"
            ]
        );
    }
}
