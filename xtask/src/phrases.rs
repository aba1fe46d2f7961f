//! Phrases that user text, doc comments and documents do not use, each with what to write instead (`docs/style.md`).
//!
//! Checked are the doc comments and the strings of Rust files, up to their tests; documents in Markdown, without code
//! blocks, block quotes and what is in back-quotes; and the texts of claims, without what their sources say (`said`,
//! `setup`, `statement`). Fixtures and vendored files are other people's words and are not read.

use crate::names;
use std::{fs, path::Path};

/// A phrase, where it is right, and what to write instead.
struct Banned {
    phrase: &'static str,
    /// Longer phrases it is a part of that are good English.
    fine: &'static [&'static str],
    instead: &'static str,
}

const fn banned(phrase: &'static str, fine: &'static [&'static str], instead: &'static str) -> Banned {
    Banned { phrase, fine, instead }
}

const BANNED: &[Banned] = &[
    banned(
        "is no",
        &["there is no", "is no longer", "is no more than", "is no better", "is no faster", "is no slower"],
        "is not a",
    ),
    banned(
        "are no",
        &["there are no", "are no longer", "are no better", "are no faster", "are no slower"],
        "are not",
    ),
    banned("is none", &["there is none"], "is not one, does not apply"),
    banned("are none", &["there are none"], "are not, do not apply"),
    banned("of none", &[], "of no X, without any"),
    banned("be had", &[], "be available"),
    banned("so many", &["so many that"], "N, this many"),
    banned("so much", &["so much that"], "N, that much"),
    banned("so manieth", &[], "every n-th"),
    banned("so long", &["so long as", "so long ago"], "that long, for this time"),
    banned("anew", &[], "again, from scratch, or the verb with re-"),
    banned("gone on with", &[], "resumed"),
    banned("goes on with", &[], "resumes, continues with"),
    banned("go on with", &[], "resume, continue with"),
    banned("went on with", &[], "resumed"),
    banned("whoever", &[], "anyone who, users who, the caller"),
    banned("beside", &[], "next to, with, in addition to"),
    banned("besides", &[], "also, in addition"),
    banned("stands", &["stands for", "stands in for"], "is, appears, the status"),
    banned("stand", &["stand for", "stand in for", "stand alone", "stand out"], "is, appear, the status"),
    banned("is like that", &[], "matches"),
    banned("spelt", &[], "spelled"),
    banned("told of", &[], "told about, reported"),
    banned("tells of", &[], "reports"),
    banned("said of", &[], "said about"),
    banned("nothing of", &["nothing of significance"], "nothing about, no part of"),
    banned("once more", &[], "again"),
    banned("by itself", &[], "on its own, separately"),
    banned("by themselves", &[], "on their own, separately"),
    banned("as asked", &[], "as requested"),
    banned("found out", &[], "determined, detected"),
    banned("for ever", &[], "forever"),
    banned("no good", &[], "not valid"),
    banned("be it", &[], "whether it is"),
    banned("comes through", &[], "survives, completes"),
    banned("to be seen", &[], "visible"),
    banned("a fault of fstrial", &[], "a bug in fstrial"),
    banned("in turns", &[], "take turns, alternate"),
    banned("and so for", &[], "the same for"),
    banned("not told from", &[], "cannot be told from, is indistinguishable from"),
    banned("in words", &[], "as text"),
    banned("in the course of", &[], "during, within"),
    banned("for people", &[], "for display, readable"),
    banned("came of", &[], "the result of"),
    banned("comes of", &[], "the result of"),
    banned("becomes of", &[], "the treatment of, happens to"),
    banned("put back", &[], "restore"),
    banned("puts back", &[], "restores"),
    banned("putting back", &[], "restoring"),
    banned("goes on", &["goes on to"], "continues"),
    banned("go on", &["go on to"], "continue"),
    banned("somebody", &[], "another process, a user, or the passive"),
    banned("anybody", &[], "any user, any process"),
    banned("nobody", &["user nobody", "to nobody", "as nobody"], "no process, no user, or the passive"),
    banned("is told", &[], "is passed, is notified, is reported"),
    banned("are told", &[], "are passed, are notified, are reported"),
    banned("told about", &[], "passed, reported"),
    banned("tells which", &[], "names"),
    banned("at once", &[], "immediately, or concurrently"),
    banned("behind the last", &[], "after the last"),
    banned("behind the end", &[], "after the end"),
    banned("of its own", &[], "separate, private"),
    banned("of our own", &[], "made by fstrial, built-in"),
    banned("of their own", &[], "separate, private"),
    banned("of one's own", &[], "separate, user-defined"),
    banned("lies on", &[], "is on"),
    banned("lie on", &[], "are on"),
    banned("lies in", &[], "is in"),
    banned("lie in", &[], "are in"),
    banned("let in", &[], "accepted"),
    banned("lets in", &[], "accepts"),
    banned("what is left", &[], "the rest, leftovers"),
    banned("what there is", &[], "a noun"),
    banned("what was asked", &[], "the request"),
    banned("what stands", &[], "the current …"),
    banned("no more than that", &[], "at most that"),
    banned("the one that is", &[], "the …"),
    banned("not one round", &[], "no round"),
    banned("surely", &[], "certainly, confirmed"),
    banned("as far as that", &[], "as far as known"),
    banned("is there for", &[], "is for, serves"),
    banned("are there for", &[], "are for, serve"),
    banned("on its way", &[], "in transit, current"),
    banned("to hand on", &[], "to share"),
    banned("whatever", &[], "any, regardless of"),
];
/// Words with which a doc comment does not open: a noun phrase does.
const OPENINGS: [&str; 10] =
    ["what", "whether", "of", "where", "how", "who", "whom", "whose", "that", "which"];
/// Keys of claims that quote a source.
const QUOTED_KEYS: [&str; 4] = ["said", "setup", "statement", "where"];

/// Checks a Rust file.
pub(crate) fn check_rust(name: &str, text: &str, result: &mut Vec<String>) {
    let is_test =
        ["/tests/", "/benches/", "/tests.rs", "/simulation/"].iter().any(|part| name.contains(part));
    if is_test || name == "xtask/src/phrases.rs" {
        return;
    }
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
    let strings = names::strings(code).into_iter().filter(|(_, string)| !string.is_empty());
    for (line, string) in strings {
        check(name, &[(line, one_line(string))], result);
    }
    let comments = code.lines().map(|line| {
        let line = line.trim_start();
        line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))
    });
    check_paragraphs(name, comments, result);
    check_openings(name, code, result);
}

/// Notes doc comments that open with a relative clause.
fn check_openings(name: &str, code: &str, result: &mut Vec<String>) {
    let mut is_inside = false;
    for (number, line) in code.lines().enumerate() {
        let line = line.trim_start();
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let first = doc.and_then(|text| text.split_whitespace().next()).unwrap_or_default().to_lowercase();
        if !is_inside && OPENINGS.contains(&first.trim_end_matches(',')) {
            result.push(format!("{name}:{}: opens with \"{first}\"; open with a noun or a verb", number + 1));
        }
        is_inside = doc.is_some();
    }
}

/// Checks a document in Markdown.
pub(crate) fn check_markdown(name: &str, text: &str, result: &mut Vec<String>) {
    let mut is_code = false;
    let lines = text.lines().map(|line| {
        let fence = line.trim_start().starts_with("```");
        is_code ^= fence;
        (!is_code && !fence && !line.starts_with('>')).then_some(line)
    });
    check_paragraphs(name, lines, result);
}

/// Checks a claim: its comments and its texts.
pub(crate) fn check_claim(name: &str, text: &str, result: &mut Vec<String>) {
    let is_quoted = |line: &str| QUOTED_KEYS.iter().any(|key| line.starts_with(&format!("{key} =")));
    let lines = text.lines().map(|line| (!is_quoted(line)).then(|| line.trim_start_matches('#')));
    check_paragraphs(name, lines, result);
}

/// Checks the documents and claims of the tree.
pub(crate) fn check_documents(root: &Path, result: &mut Vec<String>) {
    let mut files = vec![root.join("README.md"), root.join("CHANGELOG.md"), root.join("SECURITY.md")];
    for folder in ["docs", "docs/design", "docs/tutorials", "claims", "examples", "models", "workloads"] {
        files.extend(
            fs::read_dir(root.join(folder)).into_iter().flatten().flatten().map(|entry| entry.path()),
        );
    }
    files.sort();
    for file in files {
        let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        // Made from what claims say and quote, which are checked themselves.
        if name == "docs/claims-found.md" {
            continue;
        }
        let Ok(text) = fs::read_to_string(&file) else { continue };
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("md") => check_markdown(&name, &text, result),
            Some("toml") => check_claim(&name, &text, result),
            _ => {}
        }
    }
}

/// Checks runs of lines: a phrase may be broken between two. A line that is not text ends a paragraph.
fn check_paragraphs<'a>(name: &str, lines: impl Iterator<Item = Option<&'a str>>, result: &mut Vec<String>) {
    let mut paragraph = Vec::new();
    for (number, line) in lines.enumerate() {
        match line.map(str::trim) {
            Some(line) if !line.is_empty() => paragraph.push((number + 1, line.to_owned())),
            _ => check(name, &std::mem::take(&mut paragraph), result),
        }
    }
    check(name, &paragraph, result);
}

/// Notes the banned phrases of a paragraph, whose lines have their numbers.
fn check(name: &str, paragraph: &[(usize, String)], result: &mut Vec<String>) {
    let mut text = String::new();
    let mut starts = Vec::new();
    for (number, line) in paragraph {
        starts.push((text.len(), *number));
        // In small letters, and of ASCII alone, so that every byte is a character.
        text.extend(line.chars().map(|c| if c.is_ascii() { c.to_ascii_lowercase() } else { '?' }));
        text.push(' ');
    }
    let text = without_code(&text);
    for banned in BANNED {
        for at in places(&text, banned) {
            let line = starts.iter().rev().find(|(start, _)| *start <= at).map_or(0, |(_, number)| *number);
            result.push(format!("{name}:{line}: \"{}\"; write: {}", banned.phrase, banned.instead));
        }
    }
}

/// Places of a phrase, as whole words, without those where it is good English.
fn places(text: &str, banned: &Banned) -> Vec<usize> {
    let is_word = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || b"_-".contains(b));
    let is_whole = |at: usize, length: usize| {
        let before = at.checked_sub(1).and_then(|before| text.as_bytes().get(before));
        !is_word(before) && !is_word(text.as_bytes().get(at + length))
    };
    let fine: Vec<(usize, usize)> = banned
        .fine
        .iter()
        .flat_map(|fine| text.match_indices(fine).map(|(at, _)| (at, at + fine.len())))
        .collect();
    let is_fine = |at: usize| fine.iter().any(|(start, end)| (*start..*end).contains(&at));
    let all = text.match_indices(banned.phrase).map(|(at, _)| at);
    all.filter(|at| is_whole(*at, banned.phrase.len()) && !is_fine(*at)).collect()
}

/// The text with what is in back-quotes blotted out: it is code, or is cited. An odd one out hides nothing.
fn without_code(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    let last = parts.len() - 1;
    let blot = |(at, part): (usize, &&str)| match at % 2 == 1 && at < last {
        true => "#".repeat(part.len()),
        false => (*part).to_owned(),
    };
    parts.iter().enumerate().map(blot).collect::<Vec<_>>().join("`")
}

/// A string as it reads: lines that are continued with a backslash, and line breaks, as one blank.
fn one_line(string: &str) -> String {
    string.replace("\\n", " ").replace('\\', " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rust(text: &str) -> Vec<String> {
        let mut result = Vec::new();
        check_rust("crates/a/src/b.rs", text, &mut result);
        result
    }

    #[test]
    fn phrases_in_strings_and_doc_comments_are_found() {
        let text = "//! Good.\n/// Write it\n/// anew.\nfn f() {\n    g(\"this is no \\\n       number\");\n    // is no\n}\n";
        assert_eq!(
            rust(text),
            [
                "crates/a/src/b.rs:5: \"is no\"; write: is not a",
                "crates/a/src/b.rs:3: \"anew\"; write: again, from scratch, or the verb with re-"
            ]
        );
    }

    #[test]
    fn good_english_code_and_tests_pass() {
        for text in [
            "/// There is no disk, and it is no longer mounted. Stands for a disk.\n",
            "/// `is no` is cited, and `anew` too.\n",
            "/// A canew is notable; a stand-in.\n",
            "fn f() { anew(whoever) }\n",
            "#[cfg(test)]\nmod tests { const A: &str = \"is no\"; }\n",
        ] {
            assert_eq!(rust(text), [""; 0], "{text}");
        }
        let mut result = Vec::new();
        check_rust("crates/a/tests/it/b.rs", "/// anew\n", &mut result);
        assert_eq!(result, [""; 0]);
    }

    #[test]
    fn reports_doc_comments_opening_with_relative_clause() {
        let text = "//! Whether it is so.\n\n/// A name, or\n/// what there was.\nfn f() {}\n/// Of what?\nfn g() {}\n";
        assert_eq!(
            rust(text),
            [
                "crates/a/src/b.rs:1: opens with \"whether\"; open with a noun or a verb",
                "crates/a/src/b.rs:6: opens with \"of\"; open with a noun or a verb"
            ]
        );
        assert_eq!(rust("//! A note.\n//!\n//! What follows is a new paragraph.\n"), [""; 0]);
    }

    #[test]
    fn documents_are_read_without_their_code_and_quotes() {
        let mut result = Vec::new();
        let text =
            "# Title\n\nWhoever reads `anew`.\n\n```text\nanew\n```\n\n> anew\n\nIt is\nno file, so\nmany.\n";
        check_markdown("docs/a.md", text, &mut result);
        let lines: Vec<&str> = result.iter().map(|line| line.split(';').next().unwrap()).collect();
        assert_eq!(
            lines,
            ["docs/a.md:3: \"whoever\"", "docs/a.md:11: \"is no\"", "docs/a.md:12: \"so many\""]
        );
    }

    #[test]
    fn claim_check_skips_source_quotations() {
        let mut result = Vec::new();
        check_claim("claims/a.toml", "# anew\n[claim]\nsaid = \"anew\"\ncaveat = \"is no X\"\n", &mut result);
        assert_eq!(result.len(), 2, "{result:?}");
    }

    #[test]
    fn unpaired_backquote_hides_nothing() {
        assert_eq!(rust("/// It is `a` whoever, ` anew.\n").len(), 2);
    }
}
