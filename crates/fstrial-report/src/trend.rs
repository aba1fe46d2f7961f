//! The history of a contrast or a cell: the changes, with time, size and confidence, as a document and as text.

use super::{
    USUAL_COLUMNS, is_unicode,
    numbers::{self, counted},
    plain, plain_lines,
    plot::{Dot, Plot},
    stdout,
};
use fstrial_model::{metric::Metric, unit};
use fstrial_run::{
    history::{By, LeftOut, NOT_ASKED, Point, Series, SeriesQuery, SeriesSet},
    plan::threads_in_words,
};
use fstrial_stats::change::{self, ALPHA, Change, History, MIN_POINTS, StepChange};
use fstrial_store::TrialId;
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

/// Raised when a field changes its meaning or goes away; new fields do not raise it.
pub const SCHEMA_VERSION: u32 = 1;
/// Points from which on a change can be sure, if enough of them came after it (docs/statistics.md).
const SURE_POINTS: usize = 10;
/// Properties that may differ from point to point only with a warning: the figures may be about something else.
const SUSPICIOUS: [&str; 3] = ["host", "memory", "folder of the image"];

#[derive(Debug, Clone, Serialize)]
pub struct TrendDocument {
    pub schema_version: u32,
    /// The arm that is looked at.
    pub arm: String,
    /// The arm it is measured against; none for its own figures.
    pub against: Option<String>,
    pub metric: Metric,
    pub by: By,
    /// Steps smaller than this are not changes, in percent.
    pub practical_percent: f64,
    /// The limit of `--fail-if-worse`, in percent.
    pub fail_if_worse_percent: Option<f64>,
    /// A series for each question.
    pub series: Vec<SeriesReport>,
    /// Reason why `--fail-if-worse` cannot judge the newest trial.
    pub unjudged: Option<Unjudged>,
    /// Trials with these arms that are not points, and why.
    pub left_out: Vec<LeftOut>,
}

/// The newest trial, if too few ask the same question.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Unjudged {
    pub trial: TrialId,
    /// Indexes of the series that have it and too few points.
    pub series: Vec<usize>,
    /// Points from which on a change can be sure.
    pub needed: usize,
}

/// One series with its changes.
#[derive(Debug, Clone, Serialize)]
pub struct SeriesReport {
    pub workload: String,
    /// The phase, or the group of threads in it; empty if the workload has only one.
    pub phase: String,
    pub threads: u16,
    /// Unit of the figure of a single arm; of ratios, the unit of their terms.
    pub unit: String,
    /// True if less is better.
    pub less_is_better: bool,
    /// Common settings of all of its points, by name.
    pub settings: BTreeMap<String, String>,
    /// Names of the settings in which it differs from other series of this workload, phase and level.
    pub differs_in: Vec<String>,
    /// In the requested order.
    pub points: Vec<Point>,
    /// Usual distance of a point from its segment, in percent; none with too few points.
    pub noise_percent: Option<f64>,
    /// A step of less than this, half-way through, might not be seen; none with too few points.
    pub seen_from_percent: Option<f64>,
    /// The stretches between cuts.
    pub segments: Vec<SegmentReport>,
    pub changes: Vec<ChangeReport>,
    /// The step, if the last segment is certainly worse than an earlier one by more than the limit.
    pub worse: Option<StepReport>,
    pub warnings: Vec<String>,
}

/// A stretch of points.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SegmentReport {
    /// Index of its first point.
    pub first: usize,
    /// Index of its last point.
    pub last: usize,
    /// Its median.
    pub value: f64,
}

/// One segment against an earlier one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepReport {
    /// The earlier segment, by index.
    pub from: usize,
    /// The later one.
    pub to: usize,
    /// Later over earlier.
    pub ratio: f64,
    /// Its interval of 95 %, as if the place had been known; none with too few points.
    pub interval: Option<(f64, f64)>,
    /// The chance that points without any change show a step this clear is at most this.
    pub p_at_most: f64,
    /// True if that is at most 5 %.
    pub sure: bool,
    /// True if the later segment is the better one.
    pub better: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChangeReport {
    #[serde(flatten)]
    pub step: StepReport,
    /// Index of the first point of the new segment.
    pub at: usize,
    /// Index of the last point that certainly belongs to the old segment.
    pub after: usize,
    /// Index of the first point that certainly belongs to the new one.
    pub until: usize,
    /// Other differences between these two points, by name: before and after.
    pub along: BTreeMap<String, (String, String)>,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// Steps smaller than this are not changes, as a fraction; the metric's own band by default.
    pub practical: Option<f64>,
    /// The last segment may not be worse by more than this, as a fraction.
    pub worse: Option<f64>,
}

/// Searches the series for changes.
pub fn document(query: &SeriesQuery, set: SeriesSet, limits: Limits) -> TrendDocument {
    let band = limits.practical.unwrap_or_else(|| query.metric.band(0.03)).ln_1p();
    let differing = differing(&set.series);
    let unjudged = limits.worse.and_then(|_| unjudged(&set));
    let series = set.series.into_iter().zip(differing);
    TrendDocument {
        schema_version: SCHEMA_VERSION,
        arm: query.arm.clone(),
        against: query.against.clone(),
        metric: query.metric,
        by: query.by,
        practical_percent: 100.0 * band.exp_m1(),
        fail_if_worse_percent: limits.worse.map(|fraction| 100.0 * fraction),
        series: series.map(|(series, differs)| report(query, series, differs, band, limits.worse)).collect(),
        left_out: set.left_out,
        unjudged,
    }
}

/// Reason if the newest trial lacks a point, or is in a series in which no loss could be certain yet.
fn unjudged(set: &SeriesSet) -> Option<Unjudged> {
    let all = &set.series;
    let began = |point: &Point| (point.started_at.parse::<jiff::Timestamp>().ok(), point.trial);
    let newest = all.iter().flat_map(|series| &series.points).max_by_key(|point| began(point));
    let newest = newest.map(|point| point.trial);
    let is_no_good = |left: &&LeftOut| left.reason != NOT_ASKED && Some(left.trial) >= newest;
    if let Some(left) = set.left_out.iter().filter(is_no_good).max_by_key(|left| left.trial) {
        return Some(Unjudged { trial: left.trial, series: Vec::new(), needed: SURE_POINTS });
    }
    let trial = newest?;
    let has_it = |series: &Series| series.points.iter().any(|point| point.trial == trial);
    let is_short = |series: &Series| series.points.len() < SURE_POINTS && has_it(series);
    let series: Vec<usize> = (0..all.len()).filter(|index| is_short(&all[*index])).collect();
    (!series.is_empty()).then_some(Unjudged { trial, series, needed: SURE_POINTS })
}

impl TrendDocument {
    /// True if the condition of `--fail-if-worse` is met.
    pub fn is_worse(&self) -> bool {
        self.series.iter().any(|series| series.worse.is_some())
    }
}

/// For each series the settings in which it differs from others about the same: for another device, its name and not
/// its every key.
fn differing(all: &[Series]) -> Vec<Vec<String>> {
    let of = |series: &Series| {
        let others = || all.iter().filter(|other| other.subject == series.subject);
        let names: BTreeSet<&String> = others().flat_map(|other| other.settings.keys()).collect();
        let differs =
            |name: &&&String| others().any(|o| o.settings.get(**name) != series.settings.get(**name));
        let is_other_device = names.iter().any(|name| name.as_str() == "device" && differs(&name));
        let is_shown = |name: &&&String| !is_other_device || !name.starts_with("device.");
        names.iter().filter(differs).filter(is_shown).map(|name| (*name).clone()).collect()
    };
    all.iter().map(of).collect()
}

fn report(
    requested: &SeriesQuery,
    series: Series,
    differs_in: Vec<String>,
    band: f64,
    worse: Option<f64>,
) -> SeriesReport {
    let Series { subject, settings, points } = series;
    let less = subject.less_is_better;
    let logs: Vec<f64> = points.iter().map(|point| point.value.ln()).collect();
    let history = History::new(&logs, band);
    let segments = history.as_ref().map(History::segments).unwrap_or_default();
    let changes = history.as_ref().map(History::changes).unwrap_or_default();
    let limit = |fraction: f64| if less { fraction.ln_1p() } else { -(-fraction).ln_1p() };
    let worse = history.as_ref().zip(worse).and_then(|(history, fraction)| {
        let (from, step) = history.worse(less, limit(fraction))?;
        Some(step_report(&step, from, segments.len() - 1, less))
    });
    SeriesReport {
        warnings: warnings(requested, &points),
        noise_percent: history.as_ref().map(|history| 100.0 * history.noise().exp_m1()),
        seen_from_percent: history.as_ref().map(|history| 100.0 * history.seen_from().exp_m1()),
        segments: segments
            .iter()
            .map(|segment| SegmentReport {
                first: segment.start,
                last: segment.end - 1,
                value: segment.median.exp(),
            })
            .collect(),
        changes: changes.iter().map(|change| change_report(change, segments, &points, less)).collect(),
        worse,
        workload: subject.workload,
        phase: subject.phase,
        threads: subject.threads,
        unit: subject.unit,
        less_is_better: less,
        settings,
        differs_in,
        points,
    }
}

fn step_report(step: &StepChange, from: usize, to: usize, less_is_better: bool) -> StepReport {
    StepReport {
        from,
        to,
        ratio: step.shift.estimate.exp(),
        interval: step.shift.interval.map(|(low, high)| (low.exp(), high.exp())),
        p_at_most: step.p_at_most,
        sure: step.is_sure(),
        better: (step.shift.estimate > 0.0) != less_is_better,
    }
}

fn change_report(
    change: &Change,
    segments: &[change::Segment],
    points: &[Point],
    less: bool,
) -> ChangeReport {
    let to = segments.iter().position(|segment| segment.start == change.index).unwrap_or(1);
    let (after, until) = (change.earliest - 1, change.latest);
    let (old, new) = (&points[after], &points[until]);
    let names: BTreeSet<&String> = old.with.keys().chain(new.with.keys()).collect();
    let along = names.into_iter().filter_map(|name| {
        let value = |point: &Point| point.with.get(name).cloned().unwrap_or_else(|| "none".into());
        let (before, now) = (value(old), value(new));
        (before != now).then(|| (name.clone(), (before, now)))
    });
    ChangeReport {
        step: step_report(&change.step, to - 1, to, less),
        at: change.index,
        after,
        until,
        along: along.collect(),
    }
}

fn warnings(requested: &SeriesQuery, points: &[Point]) -> Vec<String> {
    let mut warnings = Vec::new();
    if requested.against.is_none() {
        warnings.push(format!(
            "these are figures of {0} alone, which include speed-ups and slowdowns of the whole \
                 machine; a reference arm of the same trials removes those (fstrial trend {0}/OTHER)",
            requested.arm
        ));
    }
    for name in SUSPICIOUS {
        let values: BTreeSet<&str> =
            points.iter().map(|point| point.with.get(name).map_or("unknown", String::as_str)).collect();
        if values.len() > 1 {
            let shown: Vec<&str> = values.iter().copied().take(4).collect();
            let more = if values.len() > shown.len() { ", …" } else { "" };
            warnings.push(format!("not the same in all trials: {name} ({}{more})", shown.join(", ")));
        }
    }
    if points.len() > change::MAX_POINTS {
        warnings.push(format!("changes are looked for in the last {} trials only", change::MAX_POINTS));
    }
    warnings
}

/// The display.
#[derive(Debug, Clone, Copy)]
pub struct Terminal {
    /// True if it shows more than ASCII.
    pub unicode: bool,
    /// Columns that a plot may take.
    pub columns: usize,
}

impl Terminal {
    /// The display of standard output.
    pub fn of_this_process() -> Self {
        let unicode = is_unicode(|name| std::env::var(name).ok());
        Self { unicode, columns: stdout::columns().unwrap_or(USUAL_COLUMNS) }
    }
}

/// The answer as text, its sentences not folded.
pub fn render(document: &TrendDocument, terminal: Terminal) -> String {
    let mut text = String::new();
    let (long, short): (Vec<_>, Vec<_>) =
        document.series.iter().partition(|series| series.points.len() >= MIN_POINTS);
    for (index, series) in long.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        section(&mut text, document, series, terminal);
    }
    if !short.is_empty() {
        text.push_str(if long.is_empty() { "" } else { "\n" });
        too_short(&mut text, document, &short);
    }
    if !document.left_out.is_empty() {
        let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for left in &document.left_out {
            by_reason.entry(&left.reason).or_default().push(format!("#{}", left.trial));
        }
        text.push_str("\nleft out\n");
        for (reason, trials) in by_reason {
            let shown = trials.iter().take(8).cloned().collect::<Vec<_>>().join(" ");
            let more = trials.len().saturating_sub(8);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let _ = writeln!(text, "  {shown}{more}: {}", plain(reason));
        }
    }
    if let Some(unjudged) = &document.unjudged {
        let _ = writeln!(text, "\n{}", unjudged_in_words(document, unjudged));
    }
    // Names in a foreign store may contain terminal controls.
    let text = plain_lines(&text, 0) + "\n";
    if terminal.unicode { text } else { ascii(&text) }
}

/// This page's words in ASCII; text from a store stays as it is.
pub(crate) fn ascii(text: &str) -> String {
    [
        ("×", "x"),
        ("±", "+-"),
        ("−", "-"),
        ("·", "-"),
        ("→", "->"),
        ("τ", "tau"),
        ("²", "^2"),
        ("≤", "<="),
        ("…", "..."),
        (" µs", " us"),
    ]
    .iter()
    .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// Series in which no change is looked for yet, a line each.
fn too_short(text: &mut String, document: &TrendDocument, all: &[&SeriesReport]) {
    let what = format!("{} · {}", subject(document), document.metric.name());
    let _ = writeln!(
        text,
        "{}: too few trials to look for changes\n  ({MIN_POINTS} are needed, and {SURE_POINTS} to be sure of one)",
        plain(&what)
    );
    for series in all {
        let last = &series.points[series.points.len() - 1];
        let interval = last.interval.filter(|_| document.against.is_some());
        let interval =
            interval.map_or_else(String::new, |ends| format!(" {}", numbers::ratio_interval(ends)));
        let newest = if series.points.len() == 1 { "" } else { "last " };
        let differs = series
            .differs_in
            .iter()
            .map(|name| format!("; {name}: {}", series.settings.get(name).map_or("none", String::as_str)));
        let line = format!(
            "  {} · {}: {}{interval}, {}, {newest}#{}{}",
            workload(series),
            threads_in_words(series.threads),
            value(document, series, last.value),
            counted(series.points.len(), "trial"),
            last.trial,
            differs.collect::<String>()
        );
        let _ = writeln!(text, "{}", plain(&line));
    }
}

fn subject(document: &TrendDocument) -> String {
    match &document.against {
        Some(against) => format!("{} / {against}", document.arm),
        None => document.arm.clone(),
    }
}

fn workload(series: &SeriesReport) -> String {
    match series.phase.as_str() {
        "" => series.workload.clone(),
        phase => format!("{}, {phase}", series.workload),
    }
}

fn section(text: &mut String, document: &TrendDocument, series: &SeriesReport, terminal: Terminal) {
    let _ = writeln!(text, "{}", plain(&title(document, series)));
    for name in &series.differs_in {
        let value = series.settings.get(name).map_or("none", String::as_str);
        let _ = writeln!(text, "  {}", plain(&format!("{name}: {value}")));
    }
    let (first, last) = (&series.points[0], &series.points[series.points.len() - 1]);
    let releases = |a: &str, b: &str| if a == b { a.to_owned() } else { format!("{a} to {b}") };
    let trials = counted(series.points.len(), "trial");
    let kernels = releases(&first.kernel, &last.kernel);
    paragraph(text, &format!("{trials}, {} to {}; kernel {kernels}", place(first), place(last)));
    for warning in &series.warnings {
        paragraph(text, &format!("note: {warning}"));
    }
    text.push('\n');
    for line in plot(document, series, terminal) {
        let _ = writeln!(text, "{line}");
    }
    text.push('\n');
    findings(text, document, series);
}

/// A line at the end: that the gate is open, and why.
fn unjudged_in_words(document: &TrendDocument, unjudged: &Unjudged) -> String {
    let points = |index: &usize| document.series[*index].points.len();
    let why = match unjudged.series.iter().map(points).min() {
        Some(0 | 1) => format!("no other is like it, {} are needed", unjudged.needed),
        Some(fewest) => format!("{fewest} are alike, {} are needed", unjudged.needed),
        None => {
            let left = document.left_out.iter().find(|left| left.trial == unjudged.trial);
            left.map_or_else(String::new, |left| plain(&left.reason))
        }
    };
    format!("NOT JUDGED: #{}, the newest trial: {why}", unjudged.trial)
}

pub fn title(document: &TrendDocument, series: &SeriesReport) -> String {
    let (subject, workload) = (subject(document), workload(series));
    let better = if series.less_is_better { "less is better" } else { "more is better" };
    let figure = match document.metric {
        // The figure of a run may be a time or an amount, according to its unit.
        Metric::Throughput if series.less_is_better && series.unit == unit::COUNT => "count".into(),
        Metric::Throughput if series.less_is_better => unit::heading(&series.unit).to_owned(),
        Metric::Throughput if document.against.is_none() => format!("throughput in {}", series.unit),
        metric => metric.name().to_owned(),
    };
    format!("{subject} · {workload} · {} · {figure} ({better})", threads_in_words(series.threads))
}

fn plot(document: &TrendDocument, series: &SeriesReport, terminal: Terminal) -> Vec<String> {
    let dot = |point: &Point| -> Dot {
        (point.value.ln(), point.interval.map(|(low, high)| (low.ln(), high.ln())))
    };
    let dots: Vec<Dot> = series.points.iter().map(dot).collect();
    let segments: Vec<_> =
        series.segments.iter().map(|segment| (segment.first, segment.last + 1, segment.value.ln())).collect();
    let changes: Vec<usize> = series.changes.iter().map(|change| change.at).collect();
    let label = |log: f64| value(document, series, log.exp());
    let Terminal { unicode, columns } = terminal;
    Plot { dots: &dots, segments: &segments, changes: &changes, label: &label, unicode }.lines(columns)
}

/// A ratio, or a figure in its unit.
pub fn value(document: &TrendDocument, series: &SeriesReport, value: f64) -> String {
    match &document.against {
        Some(_) => numbers::ratio(value),
        None => numbers::figure(value, &series.unit),
    }
}

fn findings(text: &mut String, document: &TrendDocument, series: &SeriesReport) {
    let points = series.points.len();
    let noise = percent(series.noise_percent.unwrap_or_default());
    if series.changes.is_empty() {
        let segment = value(document, series, series.segments[series.segments.len() - 1].value);
        let seen = rounded_up(series.seen_from_percent.unwrap_or_default());
        paragraph(
            text,
            &format!(
                "no change found: {segment}, usual noise of a trial ±{noise} %; at this noise a step \
                     of less than about {seen} % would go undetected"
            ),
        );
    }
    for change in &series.changes {
        change_in_words(text, document, series, change);
    }
    if points < SURE_POINTS {
        paragraph(
            text,
            &format!("{points} trials are too few to be sure of a change: {SURE_POINTS} are needed"),
        );
    }
    if let Some(limit) = document.fail_if_worse_percent {
        limit_in_words(text, series, limit);
    }
}

fn change_in_words(
    text: &mut String,
    document: &TrendDocument,
    series: &SeriesReport,
    change: &ChangeReport,
) {
    let step = &change.step;
    let direction = if step.better { "better" } else { "worse" };
    let (from, to) = (series.segments[step.from].value, series.segments[step.to].value);
    let (from, to) = (value(document, series, from), value(document, series, to));
    paragraph(text, &format!("{} {direction}, {}: {from} → {to}", size(step), sureness(step)));
    let (after, at, until) =
        (&series.points[change.after], &series.points[change.at], &series.points[change.until]);
    let between = if change.after + 1 == change.until {
        format!("between {} and {}", place(after), place(until))
    } else {
        format!("most likely with {}; after {} and not later than {}", place(at), place(after), place(until))
    };
    paragraph(text, &format!("  {between}"));
    if !change.along.is_empty() {
        let along = change.along.iter().map(|(name, (before, now))| format!("{name} {before} → {now}"));
        paragraph(text, &format!("  changed meanwhile: {}", along.collect::<Vec<_>>().join("; ")));
    }
}

fn limit_in_words(text: &mut String, series: &SeriesReport, limit: f64) {
    let limit = numbers::plain(limit);
    let Some(worse) = &series.worse else {
        paragraph(
            text,
            &format!("not confirmed to be worse than any earlier segment by more than {limit} %"),
        );
        return;
    };
    let segment = |index: usize| {
        let segment = &series.segments[index];
        let (first, last) = (&series.points[segment.first], &series.points[segment.last]);
        format!("#{} to #{}", first.trial, last.trial)
    };
    paragraph(
        text,
        &format!(
            "WORSE by more than {limit} %: the last segment ({}) against that of {}: {}, {}",
            segment(worse.to),
            segment(worse.from),
            size(worse),
            sureness(worse)
        ),
    );
}

/// `−4.5 % [−5.9, −3.0]`.
pub fn size(step: &StepReport) -> String {
    let signed = |ratio: f64| {
        let change = 100.0 * (ratio - 1.0);
        format!("{}{}", if change < 0.0 { "−" } else { "+" }, percent(change.abs()))
    };
    let interval = step.interval.map(|ends| format!(" {}", numbers::interval(ends, signed)));
    format!("{} %{}", signed(step.ratio), interval.unwrap_or_default())
}

pub fn sureness(step: &StepReport) -> String {
    let p = match step.p_at_most {
        p if p < 0.001 => "p < 0.001".to_owned(),
        p if p < ALPHA => format!("p ≤ {p:.3}"),
        p => format!("p ≤ {p:.2}"),
    };
    if step.sure { format!("sure ({p})") } else { format!("not sure yet ({p})") }
}

/// A share of this many percent, with as many digits as it is worth.
pub fn percent(value: f64) -> String {
    let digits = usize::from(value < 99.95) + usize::from(value < 0.995);
    format!("{value:.digits$}")
}

/// A share of this many percent with two digits, never less than it is.
pub fn rounded_up(value: f64) -> String {
    let digits = if value < 9.95 { 1 } else { 0 };
    let scale = 10_f64.powi(digits);
    numbers::plain((value * scale - 1e-9).ceil() / scale)
}

/// `#31 (2026-02-11)`.
pub fn place(point: &Point) -> String {
    let day = point.started_at.get(..10).unwrap_or(&point.started_at);
    format!("#{} ({day})", point.trial)
}

/// Writes a paragraph two columns in.
fn paragraph(text: &mut String, paragraph: &str) {
    let _ = writeln!(text, "  {paragraph}");
}
