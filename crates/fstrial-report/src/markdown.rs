//! A trial for a ticket: the answer, a table for each workload, the differences, how to repeat it. `GitHub`'s Markdown.

use super::{
    claim,
    document::{Document, WorkloadReport},
    evidence, numbers, plain, plain_lines, receipt, summary, table,
};
use fstrial_model::trial::Compare;
use std::fmt::Write;

/// The whole answer.
pub fn render(document: &Document) -> String {
    let mut out = format!("## {}\n\n", text(&title(document)));
    if let Some(line) = document.not_at_its_end() {
        let _ = writeln!(out, "> Not at its end: {line}\n");
    }
    if let Some(report) = &document.claim {
        lines(&mut out, Some("Claim"), &claim::lines(report));
    }
    lines(&mut out, None, &summary::lines(document));
    for (workload, notes) in table::with_notes(document) {
        section(&mut out, document, workload, notes);
    }
    if let Some(report) = &document.receipt {
        lines(&mut out, Some(&receipt::title(report)), &receipt::lines(&report.arms, true));
    }
    let why: String =
        document.explanations.iter().map(|explanation| fenced(&evidence::text(explanation)) + "\n").collect();
    if !why.is_empty() {
        let _ = write!(out, "### Why\n\n{why}");
    }
    lines(&mut out, Some("Failed"), &document.failures);
    lines(&mut out, Some("Warnings"), &document.warnings);
    lines(&mut out, Some("Other differences between the arms"), &document.audit);
    let mut conditions: Vec<String> =
        document.arms.iter().map(|arm| format!("{} = {}", arm.name, arm.configuration)).collect();
    conditions.extend(document.machines_in_words());
    conditions.push(format!(
        "{}, seed {}; differences of less than {} % count as no difference",
        document.rounds_in_words(),
        document.seed,
        numbers::plain(document.practical_percent)
    ));
    lines(&mut out, Some("Conditions"), &conditions);
    let _ = writeln!(out, "### Repeat\n\n{}", fenced(&document.repeat));
    let _ =
        write!(out, "<details><summary>trial file</summary>\n\n{}\n</details>\n", fenced(&document.trial));
    out
}

/// Name of a trial, or its comparison.
pub(super) fn title(document: &Document) -> String {
    if !document.name.is_empty() {
        return document.name.clone();
    }
    let names: Vec<&str> = document.arms.iter().map(|arm| arm.name.as_str()).collect();
    match document.compare {
        Compare::Arms => names.join(", "),
        Compare::Workloads => format!("workloads on {}", names.join(", ")),
    }
}

fn section(out: &mut String, document: &Document, workload: &WorkloadReport, notes: Vec<String>) {
    let (headings, rows) = table::grid(workload, document.compare);
    let _ = writeln!(out, "### {}\n\n{}\n", text(&workload.title()), text(&table::how(workload)));
    let row =
        |cells: &mut dyn Iterator<Item = String>| format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "));
    *out += &row(&mut headings.iter().map(|heading| text(heading)));
    // The name is text, everything else is a figure.
    *out += &row(&mut (0..headings.len()).map(|column| if column == 1 { "---" } else { "---:" }.into()));
    for cells in rows {
        *out += &row(&mut cells.iter().map(|cell| text(cell)));
    }
    *out += "\n";
    lines(out, None, &table::reported(document, workload, notes));
}

/// Lines as a list, under a heading.
fn lines(out: &mut String, heading: Option<&str>, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    if let Some(heading) = heading {
        let _ = writeln!(out, "### {heading}\n");
    }
    for line in lines {
        let _ = writeln!(out, "- {}", text(line));
    }
    *out += "\n";
}

/// Text escaped for Markdown: names come from trial files, and figures from any tool. Text between backquotes stays
/// code.
fn text(raw: &str) -> String {
    let raw = plain(raw);
    let parts: Vec<&str> = raw.split('`').collect();
    let is_code = |part: &&str| !part.is_empty() && !part.contains(['|', '\\']);
    if parts.len().is_multiple_of(2) || !parts.iter().skip(1).step_by(2).all(is_code) {
        return escaped(&raw);
    }
    let part = |(n, part): (usize, &&str)| if n % 2 == 1 { format!("`{part}`") } else { escaped(part) };
    parts.iter().enumerate().map(part).collect()
}

fn escaped(raw: &str) -> String {
    let mut out = String::new();
    let mut letters = raw.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            // Only brackets that would make a link: intervals stay readable.
            ']' if matches!(letters.peek(), Some('(' | '[' | ':')) => out.push_str("\\]"),
            '\\' | '`' | '*' | '_' | '<' | '>' | '|' | '#' | '~' => out.extend(['\\', letter]),
            // A name that begins with it would be notified.
            '@' => out.push_str("@\u{200b}"),
            other => out.push(other),
        }
    }
    out
}

/// A block of code that its content cannot close.
fn fenced(code: &str) -> String {
    let code = plain_lines(code, 0);
    let longest = code.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{}\n{fence}\n", code.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_names() {
        assert_eq!(text("a|b*<img>`x`\n@all"), "a\\|b\\*\\<img\\>`x` @\u{200b}all");
        assert_eq!(text("`<b>` and ``*`"), "\\`\\<b\\>\\` and \\`\\`\\*\\`");
        assert_eq!(text("`a|b`"), "\\`a\\|b\\`");
        assert_eq!(text("1.2 [1.1, 1.3] ![x](y)"), "1.2 [1.1, 1.3] ![x\\](y)");
        assert_eq!(fenced("a"), "```\na\n```\n");
        assert_eq!(fenced("a````b"), "`````\na````b\n`````\n");
    }
}
