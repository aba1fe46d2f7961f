//! A trial as a post for a kernel mailing list: plain text, 80 columns, the workload and kernel, the figures, and how
//! to reproduce it.

use super::{
    USUAL_COLUMNS, claim,
    document::{Document, WorkloadReport},
    markdown, plain, shortened, summary, table, wrapped,
};
use comfy_table::{CellAlignment, Table, presets};
use std::{collections::BTreeSet, fmt::Write};

/// Columns of a post.
const COLUMNS: usize = USUAL_COLUMNS;
/// Bytes of a subject that names the arms: two and a half lines.
const LONGEST_SUBJECT: usize = 200;

/// The whole post.
pub fn render(document: &Document) -> String {
    let mut out = String::new();
    let words: Vec<String> =
        document.arms.iter().map(|arm| format!("{} = {}", arm.name, arm.configuration)).collect();
    let _ = writeln!(out, "{}\n", indented(&format!("Subject: {}", subject(document, &words)), 1));
    for machine in document.machines() {
        if !machine.place.is_empty() {
            field(&mut out, "Place:", &format!("{} ({})", machine.place, machine.host));
        }
        field(&mut out, "Kernel:", &format!("Linux {}", machine.kernel));
        field(&mut out, "Machine:", &machine.describe()[1]);
        field(&mut out, "Device:", &machine.device);
        machine.device_notes.iter().for_each(|note| field(&mut out, "", note));
    }
    for (index, arm) in words.iter().enumerate() {
        field(&mut out, if index == 0 { "Arms:" } else { "" }, arm);
    }
    let tools = tools(document);
    if !tools.is_empty() {
        field(&mut out, "Tools:", &tools);
    }
    let rounds = document.rounds_in_words();
    let method = format!(
        "fstrial {}, randomised controlled trials of filesystems: {rounds}, each with every arm made afresh (mkfs, mount, cold caches) in random order (seed {}). Ratios compare \
         arms within a round; brackets hold intervals of 95 %, or of the level that is named, which hold for stopping at any time.",
        document.environment.fstrial, document.seed
    );
    field(&mut out, "Method:", &method);
    if let Some(line) = document.not_at_its_end() {
        field(&mut out, "Status:", &line);
    }
    if let Some(report) = &document.claim {
        part(&mut out, "Claim", &claim::lines(report));
    }
    part(&mut out, "Summary", &summary::lines(document));
    for (workload, notes) in table::with_notes(document) {
        section(&mut out, document, workload, notes);
    }
    part(&mut out, "Failed", &document.failures);
    part(&mut out, "Caveats", &document.warnings);
    part(&mut out, "Other differences between the arms", &document.audit);
    let _ = writeln!(out, "\nReproducer\n");
    let _ = writeln!(
        out,
        "  {}\n\nor, with this as trial.toml, `fstrial run trial.toml`:\n",
        plain(&document.repeat)
    );
    for line in document.trial.lines() {
        let _ = writeln!(out, "{}", format!("  {}", plain(line)).trim_end());
    }
    out
}

/// The result; for named arms also their configurations, if they fit into a subject.
fn subject(document: &Document, arms: &[String]) -> String {
    let result = summary::headline(document).unwrap_or_else(|| markdown::title(document));
    let own = document.arms.iter().zip(arms).filter(|(arm, _)| arm.name != arm.configuration);
    let own: Vec<&str> = own.map(|(_, words)| words.as_str()).collect();
    let what = format!(" ({})", own.join(", "));
    let fits = !own.is_empty() && result.len() + what.len() <= LONGEST_SUBJECT;
    format!("{result}{}", if fits { &what } else { "" })
}

/// The versions of the tools that made the filesystems.
fn tools(document: &Document) -> String {
    let facts = document.arms.iter().filter_map(|arm| arm.facts.as_ref());
    // Most tools include their name in the version.
    let named = |(tool, version): (&String, &String)| match version.starts_with(tool.as_str()) {
        true => version.clone(),
        false => format!("{tool} {version}"),
    };
    let all: BTreeSet<String> = facts.flat_map(|facts| &facts.tools).map(named).collect();
    all.into_iter().collect::<Vec<_>>().join(" · ")
}

fn field(out: &mut String, name: &str, text: &str) {
    let _ = writeln!(out, "{name:<10}{}", indented(text, 10));
}

/// A heading with lines below it.
fn part(out: &mut String, heading: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{heading}\n");
    items(out, lines);
}

fn items(out: &mut String, lines: &[String]) {
    for line in lines {
        let _ = writeln!(out, "- {}", indented(line, 2));
    }
}

fn section(out: &mut String, document: &Document, workload: &WorkloadReport, notes: Vec<String>) {
    let title = format!("{} ({})", workload.title(), table::how(workload));
    let _ = writeln!(out, "\n{}\n", indented(&title, 0));
    for line in figures(document, workload).lines() {
        let _ = writeln!(out, "{}", line.trim_end());
    }
    let reported = table::reported(document, workload, notes);
    if !reported.is_empty() {
        *out += "\n";
    }
    items(out, &reported);
}

/// The figures that matter on a list, in 80 columns: more does not fit.
fn figures(document: &Document, workload: &WorkloadReport) -> String {
    let (headings, rows) = table::grid(workload, document.compare);
    let wanted = ["threads", headings[1], headings[2], "interval", "p50", "p99", "CPU/op", "runs"];
    // Names of any length would break the columns.
    let fits = |columns: &[usize]| {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        table.set_header(columns.iter().map(|column| headings[*column]));
        for row in &rows {
            table.add_row(columns.iter().map(|column| shortened(&plain(&row[*column]), 24)));
        }
        for (index, column) in columns.iter().enumerate().filter(|(_, column)| **column != 1) {
            debug_assert!(*column < headings.len());
            if let Some(column) = table.column_mut(index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.to_string()
    };
    let mut columns: Vec<usize> =
        (0..headings.len()).filter(|column| wanted.contains(&headings[*column])).collect();
    loop {
        let text = fits(&columns);
        let is_narrow = text.lines().all(|line| line.trim_end().chars().count() <= COLUMNS);
        // Rate and interval always stay.
        if is_narrow || columns.len() <= 4 {
            return text;
        }
        columns.remove(columns.len() - 1);
    }
}

/// Text in lines of 80 columns, the later ones indented.
fn indented(text: &str, indent: usize) -> String {
    wrapped(&plain(text), COLUMNS, indent, indent).trim_start().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_before_the_eightieth_column() {
        let text = indented(&"word ".repeat(60), 10);
        assert!(text.lines().skip(1).all(|line| line.starts_with("          w")), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert_eq!(indented("a b", 2), "a b");
    }
}
