//! The answer on one screen: figures, caveats, winners, and the next commands. The answer comes last, where the eye is
//! when a trial ends; the report has everything else.

use super::{
    USUAL_COLUMNS, claim,
    document::Document,
    evidence, plain, plain_lines, receipt,
    remarks::{controls_in_short, remarks},
    served,
    stdout::folded,
    summary,
};
use anstyle::{AnsiColor, Style};
use std::{collections::BTreeSet, fmt::Write};

mod figures;

pub use super::remarks::Remarked;

pub(super) const HEADING: Style = Style::new().bold();
/// Explanations in a short answer.
const MAX_EXPLAINED: usize = 5;
const QUIET: Style = Style::new().dimmed();
const LOUD: Style = AnsiColor::Yellow.on_default().bold();

/// The whole answer for a terminal of that width; none: it goes somewhere else, and no sentence is folded. Colours are
/// escape codes, to be stripped by anyone who prints to something else than a terminal. Commands are never folded: they
/// are copied.
pub fn render(document: &Document, columns: Option<usize>, remarked: Remarked) -> String {
    let mut out = String::new();
    let fold = |text: &str| columns.map_or_else(|| text.to_owned(), |columns| folded(text, columns));
    if let Some(report) = &document.claim {
        out += &format!("\n{}", fold(&claim::render(report)));
    }
    out += &figures::render(document, columns.unwrap_or(USUAL_COLUMNS));
    let mut printed = BTreeSet::new();
    for line in document.workloads.iter().flat_map(served::notes).filter(|line| printed.insert(line.clone()))
    {
        out += &fold(&format!("{}\n", plain(&line)));
    }
    for (n, line) in remarks(document, remarked).iter().enumerate() {
        let before = if n == 0 { "\n" } else { "" };
        out += &fold(&format!("{before}{LOUD}!{LOUD:#} {}\n", plain_lines(line, 2)));
    }
    let is_whole = remarked == Remarked::InFull;
    if let Some(report) = &document.receipt {
        let _ = writeln!(out, "\n{HEADING}{}{HEADING:#}", receipt::title(report));
        for line in receipt::lines(&report.arms, is_whole) {
            out += &fold(&format!("  {line}\n"));
        }
    }
    let shown = if is_whole { usize::MAX } else { MAX_EXPLAINED };
    for (n, explanation) in document.explanations.iter().take(shown).enumerate() {
        let lines = if is_whole { evidence::text(explanation) } else { evidence::in_short(explanation) };
        let heading = if n == 0 { format!("{HEADING}Why{HEADING:#}\n") } else { String::new() };
        let _ = writeln!(out, "\n{heading}{}", fold(&lines).trim_end());
    }
    let lines = summary::in_short(document, if is_whole { usize::MAX } else { summary::MAX_OPEN });
    let heading = if lines.is_empty() { String::new() } else { format!("{HEADING}In short{HEADING:#}\n") };
    let _ = write!(out, "\n{heading}");
    for line in lines {
        out += &fold(&format!("  {}\n", plain(&line)));
    }
    out += &fold(&format!("{QUIET}{}{QUIET:#}\n", plain(&conditions(document))));
    for line in next(document, is_whole) {
        let _ = writeln!(out, "{}", plain(&line));
    }
    out
}

/// Conditions of the measurement, in a line: `8 rounds; runs of 1 s; Linux 6.18.44, image file; seed 0x7`.
fn conditions(document: &Document) -> String {
    let rounds = document.rounds_in_words();
    // Of a rate that is looked for it is the time of each that is offered.
    let timed = document.workloads.iter().filter(|workload| workload.promise.is_none());
    let lengths = timed.filter_map(|workload| workload.duration_seconds);
    let range = lengths.fold(None, |range: Option<(f64, f64)>, seconds| {
        Some(range.map_or((seconds, seconds), |(least, most)| (least.min(seconds), most.max(seconds))))
    });
    let runs = range.map_or_else(String::new, |(least, most)| match least == most {
        true => format!("; runs of {least} s"),
        false => format!("; runs of {least} to {most} s"),
    });
    let kernel = document.of_machines(|machine| machine.kernel.split(' ').next().unwrap_or_default());
    // The kind of device, or the model.
    let device = document.of_machines(|machine| match machine.device.strip_prefix("modelled: ") {
        Some(model) => model.split(" (").next().unwrap_or_default(),
        None => machine.device.split(':').next().unwrap_or_default(),
    });
    let on = [format!("Linux {kernel}"), device];
    let on: Vec<String> = on.into_iter().filter(|words| !words.is_empty() && words != "Linux ").collect();
    let on = if on.is_empty() { String::new() } else { format!("; {}", on.join(", ")) };
    let controls = controls_in_short(document).map_or_else(String::new, |words| format!("; {words}"));
    format!("{rounds}{runs}{on}{controls}; seed {}", document.seed)
}

/// The next commands: resuming the trial, if something is open, and showing the rest, if this is not all.
fn next(document: &Document, is_whole: bool) -> Vec<String> {
    let Some(all) = document.report_command() else { return Vec::new() };
    let why = match document.ended {
        ended if let Some(name) = &document.next_boot => {
            let why = if ended == "killed" { "Killed; to" } else { "To" };
            &format!("{why} continue, boot this host as {name} (a boot runs one part), and type:")
        }
        "interrupted" => "Interrupted; to resume:",
        "killed" => "Killed; to resume:",
        _ => "To resume:",
    };
    let go_on = summary::go_on(document).map(|command| format!("{why} {command}"));
    let is_open = document.ended == "budget-ended" && document.has_begun && summary::is_open(document);
    let in_vain = || {
        match document.rounds_are_done {
        true => "All requested rounds were run; without --rounds the trial continues until it is decided or its budget ends."
            .into(),
        false => format!(
            "More rounds would hardly decide it; a quieter machine or longer runs{} may.",
            longer(document)
        ),
    }
    };
    let go_on = go_on.or_else(|| is_open.then(in_vain));
    let all = format!("Full report: {all}");
    document
        .not_at_its_end()
        .filter(|_| matches!(document.ended, "running" | "failed"))
        .into_iter()
        .chain(go_on)
        .chain((!is_whole).then_some(all))
        .collect()
}

/// ` (--duration 30s)`: three times as long as now, where the command takes that and the runs have a length.
fn longer(document: &Document) -> String {
    let lengths = document.workloads.iter().filter_map(|workload| workload.duration_seconds);
    let longest = lengths.reduce(f64::max).filter(|_| document.repeat.starts_with("fstrial compare "));
    longest.map_or_else(String::new, |seconds| format!(" (--duration {:.0}s)", (3.0 * seconds).ceil()))
}

#[cfg(test)]
mod tests;
