//! The catalogue as text for a terminal, and as Markdown for a page: headlines and a forest plot for each chapter.

use super::{Catalogue, Chapter, ClaimRow, MeasuredClaim, is_drawn};
use crate::{
    claim::{ClaimReport, PartReport},
    forest::{self, ForestLine},
    plain,
    trend::{Terminal, ascii},
    verdict, wrapped,
};
use anstyle::Style;
use fstrial_run::claim::ClaimVerdict;
use std::fmt::Write as _;

/// Columns of a part's name, at most.
const NAMES: usize = 44;
/// Ratios of a claim in a plot, at most.
pub(crate) const DRAWN: usize = 6;
/// Causes of a claim in its section, at most.
const CAUSES: usize = 4;
/// The plot on a page.
const ON_A_PAGE: Terminal = Terminal { unicode: true, columns: 110 };

/// Legend of the plots.
const LEGEND: &str = "● measured with its interval, ◇ the original figure, ◈ both, │ no difference";

/// The chapters with headlines and plots for a terminal; claims without a result are only counted.
pub fn text(catalogue: &Catalogue, terminal: Terminal) -> String {
    const BOLD: Style = Style::new().bold();
    let mut out = String::new();
    for chapter in Chapter::all() {
        let rows: Vec<&ClaimRow> =
            chapter.rows(catalogue).into_iter().filter(|row| row.measured.is_some()).collect();
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(out, "{BOLD}{}{BOLD:#}", chapter.title);
        for line in chapter.headlines(catalogue) {
            let _ = writeln!(out, "{}", wrapped(&line, terminal.columns, 2, 2));
        }
        out.push('\n');
        for line in plot(&rows, terminal) {
            let _ = writeln!(out, "  {line}");
        }
        out.push('\n');
    }
    if !out.is_empty() {
        let _ = writeln!(out, "{LEGEND}");
    }
    let _ = writeln!(out, "{}", wrapped(&catalogue.summary(), terminal.columns, 0, 2));
    for machine in catalogue.machines() {
        let _ = writeln!(out, "on {}", plain(&machine.in_words()));
    }
    if terminal.unicode {
        out
    } else {
        ascii(&out).replace('●', "o").replace('◇', "x").replace('◈', "*").replace('│', "|")
    }
}

/// The chapters as a page: each claim has a heading with its name, which is its permanent anchor.
pub fn markdown(catalogue: &Catalogue) -> String {
    let mut out = format!("{}\n\n", catalogue.summary());
    for machine in catalogue.machines() {
        let _ = writeln!(out, "- on {}", machine.in_words());
    }
    let _ = writeln!(out, "\nIn the plots: {LEGEND}.");
    for chapter in Chapter::all() {
        let rows = chapter.rows(catalogue);
        let _ = writeln!(out, "\n## {}\n", chapter.title);
        for line in chapter.headlines(catalogue) {
            let _ = writeln!(out, "- {line}");
        }
        let measured: Vec<&ClaimRow> = rows.iter().copied().filter(|row| row.measured.is_some()).collect();
        if !measured.is_empty() {
            let _ = writeln!(out, "\n```\n{}\n```", plot(&measured, ON_A_PAGE).join("\n"));
        }
        for row in &rows {
            out += &section(row, catalogue.catalogue);
        }
        out += &ratios(&rows);
    }
    out
}

/// The parts of claims on one axis.
fn plot(rows: &[&ClaimRow], terminal: Terminal) -> Vec<String> {
    let mut lines = Vec::new();
    for row in rows {
        let ClaimReport { id, said, parts, .. } = &row.report;
        lines.push(ForestLine {
            name: plain(&format!("{id}: {} (then: {said})", row.verdict())),
            is_heading: true,
            ..ForestLine::default()
        });
        let drawn: Vec<&PartReport> = parts.iter().filter(|part| is_drawn(part)).collect();
        lines.extend(drawn.iter().take(DRAWN).map(|part| line(part)));
        if drawn.len() > DRAWN {
            let name = format!("  … and {} more", drawn.len() - DRAWN);
            lines.push(ForestLine { name, is_heading: true, ..ForestLine::default() });
        }
    }
    forest::lines(&lines, NAMES, true, terminal)
}

fn line(part: &PartReport) -> ForestLine {
    let value = part.measured.unwrap_or(f64::NAN);
    ForestLine {
        name: format!("  {}{}", if part.planted { "planted: " } else { "" }, short(&part.subject)),
        figure: part.here(),
        drawn: Some((value, part.interval.unwrap_or((value, value)))),
        then: then(part),
        ..ForestLine::default()
    }
}

/// A comparison whose second side has only the words that differ from the first: `ext4 @ 4 in plain / 1`.
pub(crate) fn short(subject: &str) -> String {
    let Some((one, other)) = subject.split_once(" / ") else { return subject.to_owned() };
    let (left, right): (Vec<&str>, Vec<&str>) = (one.split(' ').collect(), other.split(' ').collect());
    let common = |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| pairs.take_while(|(a, b)| a == b).count();
    let before = common(&mut left.iter().zip(&right));
    let after = common(&mut left.iter().rev().zip(right.iter().rev())).min(right.len() - before);
    match &right[before..right.len() - after] {
        [] => subject.to_owned(),
        differing => format!("{one} / {}", differing.join(" ")),
    }
}

/// The original figure of a ratio.
pub(crate) fn then(part: &PartReport) -> Option<f64> {
    part.then.as_ref().and_then(fstrial_model::claim::Number::value).filter(|then| *then > 0.0)
}

/// A claim in a few lines under its anchor.
fn section(row: &ClaimRow, version: u32) -> String {
    let ClaimReport { id, statement, source, said, .. } = &row.report;
    let mut out = format!("\n### {id}\n\n{} ({source}; then: {said})\n\n", cell(statement));
    let Some(measured) = &row.measured else {
        let _ = writeln!(out, "**{}**", row.verdict());
        return out;
    };
    let _ = writeln!(out, "**{}** {}\n", row.verdict(), circumstances(row, measured));
    for line in details(row, measured) {
        let _ = writeln!(out, "- {line}");
    }
    let _ = writeln!(out, "\n> {}", row.citation(version));
    out
}

/// `on raid10-bbwc, Linux 6.18.44, 2026-11-25, 29 rounds`.
pub(crate) fn circumstances(row: &ClaimRow, measured: &MeasuredClaim) -> String {
    let rounds = row.rounds().map_or_else(String::new, |rounds| format!(", {rounds} rounds"));
    format!("on {}, Linux {}, {}{rounds}", measured.device, measured.machine.release(), measured.day)
}

/// Open parts with what would decide them, controls, causes, receipts and limits of a verdict, each in a line.
pub(crate) fn details(row: &ClaimRow, measured: &MeasuredClaim) -> Vec<String> {
    let open = row.report.parts.iter().filter_map(|part| {
        let needed = verdict::rounds_range(part.rounds_needed?);
        Some(format!("open: {} = {}: a decision takes {needed} in all", short(&part.subject), part.here()))
    });
    let mut lines: Vec<String> = open.collect();
    if row.report.verdict == ClaimVerdict::Insensitive {
        lines.extend(row.report.notes.first().map(|note| format!("insensitive: {note}")));
    }
    lines.extend(measured.planted.as_ref().map(|planted| format!("planted slowdown: {planted}")));
    lines.extend(measured.causes.iter().take(CAUSES).map(|cause| format!("cause: {cause}")));
    lines.extend(measured.receipts.iter().map(|receipt| format!("after power cuts: {receipt}")));
    lines.push(format!("not for: {}", measured.not_for));
    lines
}

/// Headings of [`figures`].
pub(crate) const FIGURES: [&str; 7] = ["claim", "part", "expected", "then", "measured", "rounds", "verdict"];

/// All parts of claims, each as a row.
pub(crate) fn figures(rows: &[&ClaimRow]) -> Vec<[String; 7]> {
    let parts = rows.iter().flat_map(|row| row.report.parts.iter().map(|part| (&row.report.id, part)));
    let row = |(id, part): (&String, &PartReport)| {
        [
            id.clone(),
            part.subject.clone(),
            part.expected.clone().unwrap_or_else(|| "–".into()),
            part.then.as_ref().map_or_else(|| "–".into(), ToString::to_string),
            part.here(),
            part.rounds.to_string(),
            part.verdict.words().into(),
        ]
    };
    parts.map(row).collect()
}

/// All parts of a chapter's claims, to unfold.
fn ratios(rows: &[&ClaimRow]) -> String {
    let mut out = format!(
        "\n<details><summary>All figures</summary>\n\n| {} |\n|{}\n",
        FIGURES.join(" | "),
        "---|".repeat(FIGURES.len())
    );
    for cells in figures(rows) {
        let _ = writeln!(out, "| {} |", cells.map(|text| cell(&text)).join(" | "));
    }
    out + "\n</details>\n"
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn second_side_has_the_differing_words() {
        for (subject, shown) in [
            ("ext4 @ 4 in plain / ext4 @ 1 in plain", "ext4 @ 4 in plain / 1"),
            ("xfs @ 16 in own-files / xfs @ 16 in one-file", "xfs @ 16 in own-files / one-file"),
            ("xfs / ext4", "xfs / ext4"),
            ("xfs: read after / xfs: read before", "xfs: read after / before"),
            ("a / a", "a / a"),
            ("a a / a", "a a / a"),
            ("freeze works", "freeze works"),
        ] {
            assert_eq!(short(subject), shown);
        }
    }
}
