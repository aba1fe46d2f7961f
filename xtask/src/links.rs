//! Links between pages: each leads to a file that is there, and to a heading that is in it; and each page below `docs/` is
//! listed in `docs/README.md`.
//!
//! Pages on the web are not looked at: they come and go, and a check must not need a network.

use std::{
    collections::BTreeMap,
    fs,
    path::{Component, Path, PathBuf},
};

/// Folders of pages, in addition to those at the top.
const FOLDERS: [&str; 3] = ["docs", "examples", "fixtures"];
/// The page that lists all others of its folder.
const LIST: &str = "docs/README.md";

/// Looks at all pages below a root.
pub(crate) fn check(root: &Path, result: &mut Vec<String>) {
    let mut files: Vec<PathBuf> = pages_in(root, false);
    for folder in FOLDERS {
        files.extend(pages_in(&root.join(folder), true));
    }
    let texts: BTreeMap<PathBuf, String> = files
        .into_iter()
        .filter_map(|file| Some((file.strip_prefix(root).ok()?.to_owned(), fs::read_to_string(&file).ok()?)))
        .collect();
    let exists = |path: &Path| root.join(path).exists();
    check_texts(&texts, &exists, result);
}

/// The Markdown files of a folder, with those below it if requested.
fn pages_in(folder: &Path, below: bool) -> Vec<PathBuf> {
    let mut pages = Vec::new();
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() && below {
            pages.extend(pages_in(&path, below));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    pages
}

fn check_texts(texts: &BTreeMap<PathBuf, String>, exists: &dyn Fn(&Path) -> bool, result: &mut Vec<String>) {
    let mut listed = Vec::new();
    for (page, text) in texts {
        for (number, link) in links(text) {
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => page.clone(),
                _ => joined(page.parent().unwrap_or(Path::new("")), path),
            };
            let place = format!("{}:{number}", page.display());
            if !exists(&target) {
                result.push(format!("{place}: {link} leads nowhere"));
            } else if let Some(there) = texts.get(&target)
                && !heading.is_empty()
                && !headings(there).iter().any(|name| name == heading)
            {
                result.push(format!("{place}: there is no heading #{heading} in {}", target.display()));
            }
            if page == Path::new(LIST) {
                listed.push(target);
            }
        }
    }
    let is_page = |page: &&PathBuf| page.starts_with("docs") && *page != Path::new(LIST);
    for page in texts.keys().filter(is_page).filter(|page| !listed.contains(page)) {
        result.push(format!("{} is not listed in {LIST}", page.display()));
    }
}

/// The relative links of a page, with their lines. Code has none.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    let mut in_block = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        }
        if in_block {
            continue;
        }
        // Every other piece between backticks is code; `](` of a link never is, for its words may be.
        for (start, _) in line.match_indices("](") {
            let rest = &line[start + 2..];
            let Some(end) = rest.find(')') else { continue };
            let link = &rest[..end];
            let in_code = line[..start].matches('`').count() % 2 == 1;
            let is_relative = !link.contains("://") && !link.starts_with("mailto:");
            if is_relative && !in_code && !link.is_empty() {
                links.push((number + 1, link));
            }
        }
    }
    links
}

/// Anchors of a page's headings, as forges make them: small letters, digits, dashes for spaces.
fn headings(text: &str) -> Vec<String> {
    let mut in_block = false;
    let mut names: Vec<String> = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            in_block = !in_block;
        }
        let title = line.trim_start_matches('#');
        if in_block || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        let name: String = kept.collect::<String>().to_lowercase().replace(' ', "-");
        let before = names.iter().filter(|other| **other == name).count();
        names.push(if before == 0 { name } else { format!("{name}-{before}") });
    }
    names
}

/// A path from a folder, with `..` resolved.
fn joined(folder: &Path, path: &str) -> PathBuf {
    let mut joined = PathBuf::new();
    for part in folder.join(path).components() {
        match part {
            Component::ParentDir => {
                joined.pop();
            }
            Component::CurDir => {}
            part => joined.push(part),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(pages: &[(&str, &str)]) -> Vec<String> {
        let texts: BTreeMap<PathBuf, String> =
            pages.iter().map(|(name, text)| (PathBuf::from(name), (*text).to_owned())).collect();
        let mut result = Vec::new();
        let exists = |path: &Path| texts.contains_key(path) || path == Path::new("claims");
        check_texts(&texts, &exists, &mut result);
        result
    }

    #[test]
    fn good_links_pass() {
        let pages = [
            ("README.md", "[all](docs/README.md), [there](docs/a.md#two-words-a--b), [web](https://a.b/c)"),
            ("docs/README.md", "- [a](a.md), [b](deep/b.md), [up](../README.md), [folder](../claims)"),
            (
                "docs/a.md",
                "# Two words: a + b\n\n`x[0](no.md)`\n```text\n[no](no.md)\n# No\n```\n[here](#two-words-a--b)",
            ),
            ("docs/deep/b.md", "[a](../a.md)"),
        ];
        assert_eq!(result(&pages), [""; 0]);
    }

    #[test]
    fn reports_broken_links_and_unlisted_pages() {
        let pages = [
            ("docs/README.md", "[gone](gone.md)"),
            ("docs/a.md", "# One\n\n[x](#two) and [y](README.md#none)"),
        ];
        let result = result(&pages);
        assert_eq!(result.len(), 4, "{result:?}");
        assert!(result[0].contains("docs/README.md:1: gone.md leads nowhere"), "{result:?}");
        assert!(result[3].contains("docs/a.md is not listed"), "{result:?}");
    }
}
