//! Numbers and lists in prose that follow from the tree: an outdated page is an error with the true values.

use std::{fs, path::Path};

/// Compares the pages with the tree.
pub(crate) fn check(root: &Path, directed: &[&str], sources: &[(String, String)], result: &mut Vec<String>) {
    let read = |file: &str| fs::read_to_string(root.join(file)).unwrap_or_default();
    let architecture = read("docs/architecture.md");
    let job = read("crates/fstrial-model/src/job.rs");
    result.extend(protocol(&job, &architecture));
    let folders = fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
    let crates = folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    result.extend(crate_tables(crates, directed, &architecture));
    let claims = fs::read_dir(root.join("claims")).into_iter().flatten().flatten();
    let is_claim = |path: &Path| fs::read_to_string(path).is_ok_and(|text| text.contains("\n[claim]\n"));
    let count = claims.filter(|entry| is_claim(&entry.path())).count();
    result.extend(claims_counted(count, &read("CHANGELOG.md")));
    result.extend(least_rust(&read("rust-toolchain.toml"), &read("Cargo.toml"), &read("README.md")));
    result.extend(bans_named(&read("clippy.toml"), &read("CONTRIBUTING.md")));
    result.extend(tests_named(&read("docs/invariants.md"), sources));
}

/// The tests that hold the invariants are there.
fn tests_named(invariants: &str, sources: &[(String, String)]) -> Vec<String> {
    let rows = invariants.lines().filter_map(|line| line.strip_prefix("| ")?.rsplit_once(" | "));
    let named = rows.flat_map(|(_, tests)| tests.split('`').skip(1).step_by(2));
    let tests: Vec<&str> = named.filter(|name| !name.contains(' ')).collect();
    let is_in = |test: &str, text: &str| {
        let before = text.split_once(&format!("fn {test}(")).map(|(before, _)| before);
        before.is_some_and(|before| before.rsplit("}\n").next().unwrap_or_default().contains("#[test]"))
    };
    let is_test = |test: &str| sources.iter().any(|(_, text)| is_in(test, text));
    let missing = tests.iter().filter(|test| !is_test(test));
    let missing = missing.map(|test| format!("docs/invariants.md: no test is named `{test}`"));
    missing.chain(tests.is_empty().then(|| "docs/invariants.md names no test".to_owned())).collect()
}

/// The example of a job shows the protocol's version.
fn protocol(job: &str, architecture: &str) -> Option<String> {
    let after = |text: &str, before: &str| -> Option<String> {
        let rest = text.split_once(before)?.1;
        Some(rest.chars().take_while(char::is_ascii_digit).collect())
    };
    let (is, stated) = (after(job, "PROTOCOL: u32 = "), after(architecture, "\"protocol\": "));
    (is.is_none() || is != stated).then(|| {
        format!("docs/architecture.md shows protocol {stated:?}, crates/fstrial-model/src/job.rs has {is:?}")
    })
}

/// The table of crates, and the list of directions, have each crate.
fn crate_tables(mut crates: Vec<String>, directed: &[&str], architecture: &str) -> Option<String> {
    crates.sort();
    let is_crate = |name: &&str| *name == "fstrial" || (name.starts_with("fstrial-") && !name.contains('/'));
    let sorted = |names: &mut dyn Iterator<Item = &str>| {
        let mut names: Vec<String> = names.filter(is_crate).map(str::to_owned).collect();
        names.sort_unstable();
        names
    };
    let rows = architecture.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let tabled = sorted(&mut rows.map(|(name, _)| name));
    let directed = sorted(&mut directed.iter().copied());
    (tabled != crates || directed != crates).then(|| {
        format!("crates/ has {crates:?}; docs/architecture.md has {tabled:?}, DIRECTIONS in xtask/src/tidy.rs {directed:?}")
    })
}

/// The changelog counts the claims.
fn claims_counted(count: usize, changelog: &str) -> Option<String> {
    let sentence = format!("- `fstrial claims`: {count} statements");
    (!changelog.lines().any(|line| line.starts_with(&sentence)))
        .then(|| format!("CHANGELOG.md has no line \"{sentence} …\": there are {count} claims"))
}

/// The version in rust-toolchain.toml; empty if it has none.
pub(crate) fn channel(pinned: &str) -> &str {
    let channel = pinned.lines().find_map(|line| line.strip_prefix("channel = "));
    channel.unwrap_or_default().trim_matches('"')
}

/// The Rust that is promised is the one that everything is built with: no other is tried.
fn least_rust(pinned: &str, manifest: &str, readme: &str) -> Option<String> {
    let channel = channel(pinned);
    let minor = channel.rsplit_once('.').map_or(channel, |(minor, _)| minor);
    let is_promised = manifest.contains(&format!("\nrust-version = \"{minor}\"\n"))
        && readme.contains(&format!("Rust {minor} or later"));
    (!is_promised).then(|| {
        format!("rust-toolchain.toml builds with {channel}; Cargo.toml and README.md must promise {minor}")
    })
}

/// The style guide names every call that clippy refuses.
fn bans_named(clippy: &str, contributing: &str) -> Option<String> {
    let paths = clippy.lines().filter_map(|line| line.split_once("path = \"")?.1.split_once('"'));
    let calls: Vec<String> = paths
        .map(|(path, _)| {
            path.rsplitn(3, "::").take(2).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("::")
        })
        .collect();
    let missing: Vec<&String> =
        calls.iter().filter(|call| !contributing.contains(&format!("`{call}`"))).collect();
    (calls.is_empty() || !missing.is_empty()).then(|| {
        format!("CONTRIBUTING.md does not name the calls refused by clippy.toml: {missing:?} of {calls:?}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_stale_facts_in_pages() {
        let job = "pub const PROTOCOL: u32 = 6;";
        assert_eq!(protocol(job, "{\"job\": {\"protocol\": 6, "), None);
        assert!(protocol(job, "{\"job\": {\"protocol\": 5, ").is_some());
        assert!(protocol("", "").is_some());
        assert_eq!(claims_counted(50, "- `fstrial claims`: 50 statements from articles\n"), None);
        assert!(claims_counted(50, "- `fstrial claims`: 42 statements from articles\n").is_some());
        let source = ("a.rs".to_owned(), "#[test]\nfn a_b() {}\n}\nfn c_d() {}".to_owned());
        let missing = tests_named(
            "| invariant | held by |\n|---|---|\n| It holds. | `a_b`, `c_d`, `cargo xtask tidy` |\n",
            &[source],
        );
        assert_eq!(missing, ["docs/invariants.md: no test is named `c_d`"]);
        assert_eq!(tests_named("", &[]), ["docs/invariants.md names no test"]);
        let (pinned, manifest) =
            ("[toolchain]\nchannel = \"1.95.0\"\n", "edition\nrust-version = \"1.95\"\n");
        assert_eq!(least_rust(pinned, manifest, "Rust 1.95 or later to build"), None);
        assert!(least_rust(pinned, manifest, "Rust 1.89 or later to build").is_some());
        assert!(least_rust(pinned, "\nrust-version = \"1.89\"\n", "Rust 1.95 or later").is_some());
        let clippy = "  { path = \"std::process::Command::new\", reason = \"\" },\n  { path = \"std::thread::sleep\" },";
        assert_eq!(bans_named(clippy, "clippy refuses `Command::new` and `thread::sleep`"), None);
        assert!(bans_named(clippy, "`std::fs` and `Command::new`").is_some());
        assert!(bans_named("", "").is_some());
    }

    #[test]
    fn a_crate_without_a_row_is_found() {
        let rows =
            |names: &[&str]| names.iter().map(|name| format!("| `{name}` | x |\n")).collect::<String>();
        let (all, fewer) = (["fstrial", "fstrial-stats"], ["fstrial"]);
        let crates = || all.map(str::to_owned).to_vec();
        assert_eq!(crate_tables(crates(), &all, &rows(&all)), None);
        assert!(crate_tables(crates(), &all, &rows(&fewer)).is_some());
        assert!(crate_tables(crates(), &fewer, &rows(&all)).is_some());
        assert!(crate_tables(fewer.map(str::to_owned).to_vec(), &all, &rows(&all)).is_some());
    }
}
