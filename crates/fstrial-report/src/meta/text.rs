//! The text form of the answer of many hosts, with a forest plot of characters.

use super::{HostReport, MetaDocument, Pooled, QuestionReport};
use crate::{
    forest::{self, ForestLine},
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
/// Columns of a host's name, at most.
const NAMES: usize = 24;

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

/// The hosts in the order of their ratios, the mean, and the next one.
fn forest(question: &QuestionReport, terminal: Terminal) -> Vec<String> {
    forest::lines(&rows(question), NAMES, false, terminal)
}

fn rows(question: &QuestionReport) -> Vec<ForestLine> {
    let hosts = &question.hosts;
    let of_host = |host: &HostReport| ForestLine {
        name: host.host.name.clone(),
        figure: format!("{} {}", numbers::ratio(host.ratio), numbers::ratio_interval(host.interval)),
        drawn: Some((host.ratio, host.interval)),
        ..ForestLine::default()
    };
    let mut rows: Vec<ForestLine> = if hosts.len() <= ALL {
        hosts.iter().map(of_host).collect()
    } else {
        let between = hosts.len() - 2 * ENDS;
        let gap =
            ForestLine {
                name: format!("… {between} hosts"), figure: String::new(), ..ForestLine::default()
            };
        let (low, high) = (&hosts[..ENDS], &hosts[hosts.len() - ENDS..]);
        low.iter().map(of_host).chain([gap]).chain(high.iter().map(of_host)).collect()
    };
    let pooled = &question.pooled;
    if let (Some(mean), Some(next)) = (pooled.interval, pooled.prediction) {
        rows.push(ForestLine {
            name: "all".into(),
            figure: format!("{} {}", numbers::ratio(pooled.ratio), numbers::ratio_interval(mean)),
            drawn: Some((pooled.ratio, mean)),
            is_pooled: true,
            ..ForestLine::default()
        });
        rows.push(ForestLine {
            name: "next host".into(),
            figure: numbers::ratio_interval(next),
            drawn: Some((f64::NAN, next)),
            is_pooled: true,
            ..ForestLine::default()
        });
    }
    rows
}
