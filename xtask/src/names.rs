//! Filesystems are known by name in their own modules only. Elsewhere a string may name one only in the files listed
//! here, each with the reason. Tests, benches and examples may name any.

/// Place of everything that depends on a filesystem.
const HOME: &str = "crates/fstrial-model/src/filesystem/";
/// Files and folders that may name them, and why.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/fstrial-attack/src/", "the attack's own arms and devices: it is a test"),
    ("crates/fstrial-model/src/arm.rs", "examples in hints"),
    ("crates/fstrial-model/src/claim/mod.rs", "examples in hints"),
    ("crates/fstrial-model/src/claim/shipped.rs", "names of claims"),
    ("crates/fstrial-model/src/trial/checks.rs", "examples in hints"),
    ("crates/fstrial-stack/src/base.rs", "hints: filesystems of a host that can share blocks"),
    ("crates/fstrial-stack/src/holders/", "device holders: a refusal must not depend on the kinds of arms"),
    ("crates/fstrial/src/cli/agent.rs", "examples in help"),
    ("crates/fstrial/src/cli/compare.rs", "examples in help"),
    ("crates/fstrial/src/cli/durability.rs", "examples in help"),
    ("crates/fstrial/src/cli/judge.rs", "examples in help"),
    ("crates/fstrial/src/cli/kernels.rs", "examples in help"),
    ("crates/fstrial/src/cli/mod.rs", "examples in help"),
    ("crates/fstrial/src/cli/noise.rs", "the arm whose noise stands for the machine's"),
    ("crates/fstrial/src/cli/results/list.rs", "examples in help"),
    ("crates/fstrial/src/cli/serve", "examples in help, hints and empty fields of forms"),
    ("crates/fstrial/src/cli/explain.rs", "examples in help and hints"),
    ("crates/fstrial/src/cli/trend.rs", "examples in help and hints"),
    ("crates/fstrial-vm/src/guest.rs", "the format of a guest's own disk, which holds images"),
    ("crates/fstrial-run/src/kernels.rs", "the same"),
    ("crates/fstrial-report/src/watch/view.rs", "an example in its help"),
    ("crates/fstrial-report/src/simulation/", "tests"),
    ("xtask/src/package.rs", "the packages that ours recommends, as Debian calls them"),
];

/// The names of all filesystems, in small letters, as their rows have them: of all files with their texts.
pub(crate) fn of_rows(files: &[(String, String)]) -> Vec<&str> {
    let rows = files.iter().filter(|(name, _)| name.starts_with(HOME)).flat_map(|(_, text)| text.lines());
    let names = rows.filter_map(|line| line.strip_prefix("    name: \"")?.strip_suffix("\","));
    names.filter(|name| !name.is_empty()).collect()
}

/// Notes the strings of a file that name a filesystem where none may be named.
pub(crate) fn check(name: &str, text: &str, names: &[&str], result: &mut Vec<String>) {
    let is_test = ["/tests/", "/benches/", "/examples/", "/tests.rs"].iter().any(|part| name.contains(part));
    if is_test || name.starts_with(HOME) || ALLOWED.iter().any(|(allowed, _)| name.starts_with(allowed)) {
        return;
    }
    for line in naming(text, names) {
        result.push(format!("{name}:{line}: names a filesystem, which only {HOME} may do"));
    }
}

/// The list's entries that nothing needs: of all files with their texts.
pub(crate) fn check_list(files: &[(String, String)], names: &[&str], result: &mut Vec<String>) {
    let mut needed = vec![false; ALLOWED.len()];
    for (name, _) in files.iter().filter(|(_, text)| !naming(text, names).is_empty()) {
        if let Some(at) = ALLOWED.iter().position(|(allowed, _)| name.starts_with(allowed)) {
            needed[at] = true;
        }
    }
    let unneeded = ALLOWED.iter().zip(needed).filter(|(_, needed)| !needed);
    result.extend(unneeded.map(|((allowed, _), _)| format!("{allowed} may name filesystems and names none")));
}

/// The lines where strings begin that name a filesystem, up to the tests of the file.
fn naming(text: &str, names: &[&str]) -> Vec<usize> {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
    let names_one = |string: &str| {
        let lower = string.to_lowercase();
        names.iter().any(|name| {
            lower
                .match_indices(name)
                .any(|(at, _)| !lower[..at].ends_with(|before: char| before.is_ascii_alphanumeric()))
        })
    };
    strings(code).into_iter().filter(|(_, string)| names_one(string)).map(|(line, _)| line).collect()
}

/// The strings in Rust code, raw ones as well, with the lines where they begin. Comments of lines are passed over.
pub(crate) fn strings(code: &str) -> Vec<(usize, &str)> {
    let mut result = Vec::new();
    let mut at = 0;
    while let Some(rest) = code.get(at..).filter(|rest| !rest.is_empty()) {
        let hashes =
            raw_hashes(rest).filter(|_| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'));
        at += if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(hashes) = hashes {
            let (start, end) = (hashes + 2, format!("\"{}", "#".repeat(hashes)));
            let length = rest[start..].find(&end).unwrap_or(rest.len() - start);
            result.push((line_of(code, at), &rest[start..start + length]));
            start + length + end.len()
        } else if let Some(string) = rest.strip_prefix('"') {
            let length = quoted(string, '"');
            result.push((line_of(code, at), &string[..length]));
            length + 2
        } else {
            character(rest)
        };
    }
    result
}

/// The number of `#` before the quote, if a raw string begins here.
fn raw_hashes(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix('r')?;
    let quote = after.trim_start_matches('#');
    quote.starts_with('"').then_some(after.len() - quote.len())
}

/// Bytes up to the next quote that has no backslash before it.
fn quoted(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices() {
        if c == quote && !is_escaped {
            return at;
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    rest.len()
}

/// Bytes of the character that begins here: a literal such as `'"'` is taken as a whole, or its quote would count.
fn character(rest: &str) -> usize {
    let mut ahead = rest.chars();
    let first = ahead.next().map_or(1, char::len_utf8);
    match (first, rest.starts_with('\''), ahead.next(), ahead.next()) {
        (_, true, Some('\\'), _) => 3 + quoted(&rest[3.min(rest.len())..], '\'') + 1,
        (_, true, Some(c), Some('\'')) => 2 + c.len_utf8(),
        (first, ..) => first,
    }
}

fn line_of(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &[&str] = &["ext4", "xfs", "btrfs"];

    #[test]
    fn names_are_those_of_the_rows() {
        let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let row = "const A: Filesystem = Filesystem {\n    name: \"newfs\",\n    kernel: \"new\",\n};\n";
        let files =
            [file(&format!("{HOME}others.rs"), row), file("crates/a/src/b.rs", "    name: \"other\",\n")];
        assert_eq!(of_rows(&files), ["newfs"]);
    }

    #[test]
    fn finds_only_strings_naming_filesystems() {
        let text = concat!(
            "//! Of \"ext4\".\nlet a = '\"'; let b = \"next4 \\\" fine\";\n",
            "let c: &'a str = \"use\n XFS\";\nlet d = r#\"{\"filesystem\":\"btrfs\"}\"#; let e = '\\''; // \"xfs\"\n",
            "let f = \"mkfs.ext4\";\n#[cfg(test)]\nmod tests { const G: &str = \"xfs\"; }\n",
        );
        assert_eq!(naming(text, NAMES), [3, 5, 6]);
    }

    #[test]
    fn names_are_at_home_in_their_module_and_in_tests() {
        let text = "//! Good.\nconst A: &str = \"xfs\";\n";
        let mut result = Vec::new();
        for home in
            ["crates/fstrial-model/src/filesystem/xfs.rs", "crates/a/tests/it/a.rs", "crates/a/src/tests.rs"]
        {
            check(home, text, NAMES, &mut result);
        }
        assert_eq!(result, [""; 0]);
        check("crates/fstrial-stack/src/new.rs", text, NAMES, &mut result);
        assert_eq!(result.len(), 1, "{result:?}");
        check_list(&[], NAMES, &mut result);
        assert_eq!(result.len(), 1 + ALLOWED.len(), "an entry that nothing needs is found");
    }
}
