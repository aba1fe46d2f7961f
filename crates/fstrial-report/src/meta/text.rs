//! The text form of the answer of many hosts, with a forest plot of characters.

use super::{HostReport, MetaDocument, Pooled, QuestionReport};
use crate::{
    numbers::{self, counted},
    plain, plain_lines,
    trend::{Terminal, ascii},
};
use fstrial_model::metric::Metric;
use fstrial_run::{answers::Stop, contrast::Outcome, plan::threads_in_words};
use std::fmt::Write as _;

/// Hosts listed at each end if there are too many for a list of all.
const ENDS: usize = 8;
/// Hosts up to which all are listed.
const ALL: usize = 40;
/// Columns of a plot, at least.
const LEAST_PLOT: usize = 20;

/// The answer as text, its sentences not folded.
pub fn render(document: &MetaDocument, terminal: Terminal) -> String {
    let mut text = String::new();
    for claim in &document.claims {
        let _ = writeln!(text, "{}", plain(&claim.line()));
    }
    if !document.claims.is_empty() {
        text.push('\n');
    }
    for (index, question) in document.questions.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        section(&mut text, question, terminal);
    }
    let _ = writeln!(
        text,
        "\n{} of {} in {}",
        counted(document.trials, "trial"),
        counted(document.hosts, "host"),
        counted(document.stores, "store")
    );
    for warning in &document.warnings {
        let _ = writeln!(text, "note: {}", plain(warning));
    }
    for (reason, what) in &document.left_out {
        let shown = numbers::first_of(what, 4);
        let _ = writeln!(text, "left out: {}: {}", plain(&shown), plain(reason));
    }
    let text = plain_lines(&text, 0) + "\n";
    if terminal.unicode { text } else { ascii(&text) }
}

/// Subject of a question.
pub(crate) fn title(question: &QuestionReport) -> String {
    if let Some(part) = &question.part {
        return part.title();
    }
    let subject = &question.subject;
    let phase = if subject.phase.is_empty() { String::new() } else { format!(", {}", subject.phase) };
    let better = if subject.less_is_better { "less is better" } else { "more is better" };
    format!(
        "{} / {} · {}{phase} · {} · {} ({better})",
        question.a,
        question.b,
        subject.workload,
        threads_in_words(subject.threads),
        question.metric.name()
    )
}

/// The answer in a sentence: `xfs is 1.21× ext4 [1.10, 1.33] on hosts like these: faster`.
pub(crate) fn answer(question: &QuestionReport) -> String {
    let QuestionReport { a, b, pooled, metric, subject, .. } = question;
    if let Some(part) = &question.part {
        return part.answer(pooled);
    }
    let ratio = numbers::ratio(pooled.ratio);
    let compared = match metric {
        Metric::Throughput if subject.less_is_better => format!("{a} takes {ratio} as much as {b}"),
        Metric::Throughput => format!("{a} is {ratio} {b}"),
        metric => format!("{} of {a} is {ratio} that of {b}", metric.row().words),
    };
    match pooled.interval {
        Some(ends) => {
            format!("{compared} {} on hosts like these: {}", numbers::ratio_interval(ends), verdict(question))
        }
        None => format!("{compared} on {}: too few hosts, three are needed", counted(pooled.hosts, "host")),
    }
}

fn verdict(question: &QuestionReport) -> String {
    let less = question.subject.less_is_better;
    match question.verdict {
        Outcome::Faster => if less { "lower" } else { "faster" }.into(),
        Outcome::Slower => if less { "higher" } else { "slower" }.into(),
        Outcome::Equivalent => {
            format!("equivalent (within ±{}%)", numbers::plain(question.practical_percent))
        }
        _ => "undecided".into(),
    }
}

/// Prediction for the next host; none with too few.
pub(crate) fn prediction(pooled: &Pooled) -> Option<String> {
    let (low, high) = pooled.prediction?;
    let side = if low > 1.0 || high < 1.0 { "which excludes 1" } else { "which includes 1" };
    Some(format!(
        "on the next host like these: {}× to {}× (95 %), {side}",
        numbers::ratio_digits(low),
        numbers::ratio_digits(high)
    ))
}

/// Spread of the hosts.
pub(crate) fn spread(pooled: &Pooled) -> String {
    format!(
        "spread between hosts: a factor of {} (τ {}); I² {:.0} %, Q {} on {}",
        numbers::ratio_digits(pooled.tau.exp()),
        numbers::plain(pooled.tau),
        pooled.inconsistency_percent,
        numbers::plain(pooled.q),
        counted(pooled.hosts - 1, "degree") + " of freedom"
    )
}

/// Basis of the answer, line by line.
pub(crate) fn remarks(question: &QuestionReport) -> Vec<String> {
    let mut lines = Vec::new();
    let stopped = question.hosts.iter().filter(|host| host.stop == Stop::Verdict).count();
    if stopped > 0 {
        let hosts = counted(stopped, "host");
        let others = question.without_stopped.map_or_else(
            || "there are no other hosts".into(),
            |others| {
                let interval = others
                    .interval
                    .map_or_else(String::new, |ends| format!(" {}", numbers::ratio_interval(ends)));
                format!("without them {}{interval}", numbers::ratio(others.ratio))
            },
        );
        lines.push(format!(
            "the trials of {hosts} stopped at their own verdict, which exaggerates differences; {others}"
        ));
    }
    if let Some([(least, low), (greatest, high)]) = &question.left_out_in_turn {
        lines.push(format!(
            "leaving out one host: {} (without {least}) to {} (without {greatest})",
            numbers::ratio(*low),
            numbers::ratio(*high)
        ));
    }
    for slope in &question.slopes {
        lines.push(format!(
            "{}: the ratio changes by {} {}",
            slope.property,
            numbers::ratio(slope.factor),
            numbers::ratio_interval(slope.interval)
        ));
    }
    lines
}

fn section(text: &mut String, question: &QuestionReport, terminal: Terminal) {
    let _ = writeln!(text, "{}", plain(&title(question)));
    for (name, value) in &question.differs_in {
        let _ = writeln!(text, "  {}", plain(&format!("{name}: {value}")));
    }
    let _ = writeln!(text, "  {}", plain(&answer(question)));
    if let Some(prediction) = prediction(&question.pooled) {
        let _ = writeln!(text, "  {prediction}\n  {}", spread(&question.pooled));
    }
    text.push('\n');
    for line in forest(question, terminal) {
        let _ = writeln!(text, "  {line}");
    }
    let remarks = remarks(question);
    if !remarks.is_empty() {
        text.push('\n');
    }
    for line in remarks {
        let _ = writeln!(text, "  {}", plain(&line));
    }
}

/// A line of the plot.
struct HostRow {
    name: String,
    figure: String,
    /// The value and its interval; none for a line that stands for hosts that are not listed.
    drawn: Option<(f64, (f64, f64))>,
    is_pooled: bool,
}

/// The hosts in the order of their ratios, the mean, and the next one.
fn forest(question: &QuestionReport, terminal: Terminal) -> Vec<String> {
    let rows = rows(question);
    let width =
        |of: fn(&HostRow) -> &String| rows.iter().map(|row| of(row).chars().count()).max().unwrap_or(0);
    let (names, figures) = (width(|row| &row.name).min(24), width(|row| &row.figure));
    let columns = terminal.columns.saturating_sub(names + figures + 8).clamp(LEAST_PLOT, 60);
    let values: Vec<f64> = rows.iter().filter_map(|row| Some(row.drawn?.0.ln())).collect();
    let (least, most) =
        (values.iter().copied().fold(0.0, f64::min), values.iter().copied().fold(0.0, f64::max));
    // An interval that is far wider than all values together is cut.
    let room = (most - least).max(0.05);
    let ends = rows.iter().filter_map(|row| row.drawn).flat_map(|(_, (low, high))| [low.ln(), high.ln()]);
    let ends: Vec<f64> = ends.map(|end| end.clamp(least - room, most + room)).collect();
    let (low, high) = (ends.iter().copied().fold(least, f64::min), ends.iter().copied().fold(most, f64::max));
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "columns"
    )]
    let at = |value: f64| {
        let share = (value.ln().clamp(low, high) - low) / (high - low).max(1e-9);
        (share * (columns - 1) as f64).round() as usize
    };
    let line = |row: &HostRow| {
        let mut cells = vec![' '; columns];
        let marks =
            if terminal.unicode { ['│', '─', '●', '◆', '┼'] } else { ['|', '-', 'o', '#', '+'] };
        cells[at(1.0)] = marks[0];
        if let Some((value, (from, to))) = row.drawn {
            let crossed = |cell: char| if cell == marks[0] { marks[4] } else { marks[1] };
            cells[at(from)..=at(to)].iter_mut().for_each(|cell| *cell = crossed(*cell));
            // An interval that exceeds the picture ends in an arrow.
            if from.ln() < low - 1e-9 {
                cells[0] = if terminal.unicode { '◂' } else { '<' };
            }
            if to.ln() > high + 1e-9 {
                cells[columns - 1] = if terminal.unicode { '▸' } else { '>' };
            }
            if value.is_finite() {
                cells[at(value)] = marks[if row.is_pooled { 3 } else { 2 }];
            }
        }
        let name: String = plain(&row.name).chars().take(names).collect();
        let plot: String = cells.into_iter().collect();
        format!("{name:<names$}  {:<figures$}  {}", row.figure, plot.trim_end())
    };
    rows.iter().map(line).collect()
}

fn rows(question: &QuestionReport) -> Vec<HostRow> {
    let hosts = &question.hosts;
    let of_host = |host: &HostReport| HostRow {
        name: host.host.name.clone(),
        figure: format!("{} {}", numbers::ratio(host.ratio), numbers::ratio_interval(host.interval)),
        drawn: Some((host.ratio, host.interval)),
        is_pooled: false,
    };
    let mut rows: Vec<HostRow> = if hosts.len() <= ALL {
        hosts.iter().map(of_host).collect()
    } else {
        let between = hosts.len() - 2 * ENDS;
        let gap = HostRow {
            name: format!("… {between} hosts"),
            figure: String::new(),
            drawn: None,
            is_pooled: false,
        };
        let (low, high) = (&hosts[..ENDS], &hosts[hosts.len() - ENDS..]);
        low.iter().map(of_host).chain([gap]).chain(high.iter().map(of_host)).collect()
    };
    let pooled = &question.pooled;
    if let (Some(mean), Some(next)) = (pooled.interval, pooled.prediction) {
        rows.push(HostRow {
            name: "all".into(),
            figure: format!("{} {}", numbers::ratio(pooled.ratio), numbers::ratio_interval(mean)),
            drawn: Some((pooled.ratio, mean)),
            is_pooled: true,
        });
        rows.push(HostRow {
            name: "next host".into(),
            figure: numbers::ratio_interval(next),
            drawn: Some((f64::NAN, next)),
            is_pooled: true,
        });
    }
    rows
}
