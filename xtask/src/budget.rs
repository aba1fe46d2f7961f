//! The budget of lines: the maximum size of each crate, without its tests. Additions have to fit, or the budget is
//! raised with a reason.

use std::{collections::BTreeMap, fs, path::Path};

/// The budget of each crate.
const FILE: &str = "xtask/lines.json";
/// Lines that a crate may be below its budget: removals must not be refilled unnoticed.
const SLACK: usize = 200;

/// Compares the crates with the budget. `sources` are their files by name, with their texts.
pub(crate) fn check(root: &Path, sources: &[(String, String)], result: &mut Vec<String>) {
    let text = fs::read_to_string(root.join(FILE)).unwrap_or_default();
    match serde_json::from_str::<BTreeMap<String, usize>>(&text) {
        Ok(budget) => result.extend(compare(&budget, &lines(sources))),
        Err(error) => result.push(format!("{FILE} cannot be read: {error}")),
    }
}

/// Lines of each crate that are not tests: neither files of tests, nor items that only tests have.
fn lines(sources: &[(String, String)]) -> BTreeMap<&str, usize> {
    let mut lines = BTreeMap::new();
    for (name, text) in sources {
        let mut parts = name.strip_prefix("crates/").unwrap_or(name).split('/');
        let (Some(owner), Some("src")) = (parts.next(), parts.next()) else { continue };
        let is_test = |part: &str| {
            ["tests", "tests.rs", "testing.rs", "simulation"].contains(&part) || part.ends_with("_tests.rs")
        };
        if !parts.any(is_test) {
            *lines.entry(owner).or_default() += without_tests(text);
        }
    }
    lines
}

/// Lines without the items at the left that only tests have, each with its attributes up to its semicolon or closing bracket.
fn without_tests(text: &str) -> usize {
    let mut lines = text.lines();
    let mut count = 0;
    while let Some(line) = lines.next() {
        if line != "#[cfg(test)]" {
            count += 1;
            continue;
        }
        let mut is_in_attribute = false;
        let item = lines.find(|line| {
            let is_attribute = is_in_attribute || line.starts_with("#[");
            is_in_attribute = is_attribute && !line.ends_with(']');
            !is_attribute
        });
        if item.is_some_and(|item| !item.ends_with(';') && !item.ends_with('}')) {
            lines.find(|line| line.starts_with('}'));
        }
    }
    count
}

fn compare(budget: &BTreeMap<String, usize>, lines: &BTreeMap<&str, usize>) -> Vec<String> {
    let of = |(name, lines): (&&str, &usize)| match budget.get(*name) {
        None => Some(format!("{FILE} has no budget for {name}, which has {lines} lines without tests")),
        Some(most) if lines > most => Some(format!(
            "{name} has {lines} lines without tests, and {FILE} allows {most}: remove something, or \
                 raise it in a separate commit with the reason"
        )),
        Some(most) if lines + SLACK < *most => {
            Some(format!("{name} has {lines} lines without tests only: lower its {most} in {FILE}"))
        }
        Some(_) => None,
    };
    let gone = budget.keys().filter(|name| !lines.contains_key(name.as_str()));
    let gone = gone.map(|name| format!("{FILE} has a budget for {name}, which is not a crate"));
    lines.iter().filter_map(of).chain(gone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_file_only_the_items_of_tests_are_left_out() {
        let text = "use a;\n#[cfg(test)]\nuse b::{\n    c,\n};\n#[cfg(test)]\nuse d;\n#[cfg(test)]\n#[expect(\n    x\n)]\nfn e() {\n    f();\n}\n\
                    fn g() {\n    #[cfg(test)]\n    h();\n}\n#[cfg(test)]\nmod tests {\n    fn i() {\n    }\n}\n";
        assert_eq!(without_tests(text), 5);
    }

    #[test]
    fn reports_oversized_undersized_and_unknown_crates() {
        let source = |name: &str, lines: usize, rest: &str| (name.to_owned(), "x\n".repeat(lines) + rest);
        let sources = [
            source("crates/large/src/lib.rs", 9, "#[cfg(test)]\nmod tests {\n}\n"),
            source("crates/large/src/a/b.rs", 2, ""),
            source("crates/large/src/a/tests.rs", 50, ""),
            source("crates/large/src/a/b_tests.rs", 50, ""),
            source("crates/large/tests/it/main.rs", 50, ""),
            source("crates/small/src/lib.rs", 1, ""),
            source("crates/right/src/lib.rs", 1, ""),
            source("xtask/src/main.rs", 1, ""),
        ];
        let budget = [("large", 10), ("small", 202), ("right", 201), ("gone", 1)];
        let budget = budget.map(|(name, most)| (name.to_owned(), most)).into();
        let result = compare(&budget, &lines(&sources));
        let begins = [
            "large has 11 lines",
            "small has 1 lines",
            "xtask/lines.json has no budget for xtask",
            "xtask/lines.json has a budget for gone",
        ];
        assert_eq!(result.len(), begins.len(), "{result:?}");
        for (result, begin) in result.iter().zip(begins) {
            assert!(result.starts_with(begin), "{result}");
        }
    }
}
