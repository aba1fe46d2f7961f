//! What is drawn without scripts: the rates of a workload's arms, their ratios, and the ratios of several trials.

use super::{
    TrialPage,
    data::{CellData, ContrastData, SectionData, TrialData},
    forest::{self, Forest, Row, Scale},
};
use crate::{
    report::numbers,
    run::{contrast::Outcome, plan::threads_in_words},
};
use fstrial_model::{metric::Metric, unit};
use maud::{Markup, html};

/// Rows of a picture, at most: the tables have all.
const MOST_ROWS: usize = 40;

/// A figure with a drawing that is there from the start. `class` says when it is seen.
fn figure(id: &str, class: &str, title: &str, about: &str, drawing: &Forest, left_out: usize) -> Markup {
    html! {
        figure class=(class) id=(id) {
            figcaption { h4 { (title) } p { (about) } }
            (forest::draw(drawing))
            @if left_out > 0 { p.note { (left_out) " more are in the figures below." } }
        }
    }
}

/// The rates of all arms at all levels: for readers without scripts, as the picture with curves says the same.
pub(super) fn rates(trial: &TrialData, section: &SectionData, id: &str) -> Option<Markup> {
    let rated: Vec<&CellData> = section.cells.iter().filter(|cell| cell.is_rated()).collect();
    let mut rows: Vec<Row> = Vec::new();
    let mut before = None;
    for cell in rated.iter().take(MOST_ROWS) {
        let heading =
            (before.replace(cell.threads) != Some(cell.threads)).then(|| threads_in_words(cell.threads));
        rows.extend(rate_row(trial, section, cell, heading));
    }
    if rows.is_empty() {
        return None;
    }
    let best = best_at_last_level(trial, section);
    let drawing = Forest {
        finding: format!("Throughput of each arm in {}.{}", section.title, best.unwrap_or_default()),
        axis: axis_of(section),
        scale: linear(section),
        rows,
    };
    let about = "The typical rate of each arm over its rounds with its 95 % interval; of fewer than six runs, their range.";
    let left_out = rated.len().saturating_sub(MOST_ROWS);
    Some(figure(id, "still unscripted", "Throughput", about, &drawing, left_out))
}

fn rate_row(
    trial: &TrialData,
    section: &SectionData,
    cell: &CellData,
    heading: Option<String>,
) -> Option<Row> {
    let value = cell.rate?;
    let number = |value: f64| numbers::figure(value, &section.unit);
    let interval = cell.rate_interval.map(|(low, high)| format!(" [{}, {}]", number(low), number(high)));
    Some(Row {
        heading,
        label: trial.arms[cell.arm].clone(),
        figure: format!("{}{} {}", number(value), interval.unwrap_or_default(), unit::beside(&section.unit)),
        value,
        interval: cell.rate_interval,
        is_sure: true,
    })
}

fn axis_of(section: &SectionData) -> String {
    let better = if section.less_is_better { ", less is better" } else { "" };
    format!("{}{better}", unit::heading(&section.unit))
}

fn linear(section: &SectionData) -> Scale {
    let unit = section.unit.clone();
    Scale::Linear(Box::new(move |value| numbers::figure(value, &unit)))
}

/// Who is best with the most threads, in words.
fn best_at_last_level(trial: &TrialData, section: &SectionData) -> Option<String> {
    let level = *section.levels.last()?;
    let (arm, rate) = best_at(section, level)?;
    let (name, rate) = (&trial.arms[arm], numbers::figure(rate, &section.unit));
    let most = if section.less_is_better { "Least" } else { "Most" };
    Some(format!(" {most} with {}: {name}, {rate} {}", threads_in_words(level), unit::beside(&section.unit)))
}

fn best_at(section: &SectionData, level: u16) -> Option<(usize, f64)> {
    let cells = section.cells.iter().filter(|cell| cell.threads == level);
    let rated = cells.filter_map(|cell| Some((cell.arm, cell.rate?)));
    rated.max_by(|x, y| if section.less_is_better { y.1.total_cmp(&x.1) } else { x.1.total_cmp(&y.1) })
}

/// The ratios of throughput of a workload's arms.
pub(super) fn ratios(trial: &TrialData, section: &SectionData, id: &str) -> Option<Markup> {
    let known = |contrast: &&ContrastData| contrast.metric == Metric::Throughput && contrast.ratio.is_some();
    let mut all: Vec<&ContrastData> = section.contrasts.iter().filter(known).collect();
    let before = all.len();
    if before > MOST_ROWS {
        // Those with the best arm of their level say most.
        all.retain(|contrast| {
            best_at(section, contrast.threads).is_some_and(|(arm, _)| [contrast.a, contrast.b].contains(&arm))
        });
        all.truncate(MOST_ROWS);
    }
    all.sort_by_key(|contrast| contrast.threads);
    let mut level = None;
    let rows = all.iter().filter_map(|contrast| {
        let heading = (level.replace(contrast.threads) != Some(contrast.threads))
            .then(|| threads_in_words(contrast.threads));
        let known = Known::of(contrast)?;
        Some(known.row(heading, pair(trial, contrast), section.less_is_better))
    });
    let rows: Vec<Row> = rows.collect();
    let told: Vec<String> =
        rows.iter().rev().take(3).map(|row| format!("{} {}", row.label, row.figure)).collect();
    let drawing = Forest {
        finding: format!("Ratios of throughput in {}. {}", section.title, told.join("; ")),
        axis: "ratio of throughput, logarithmic".into(),
        scale: Scale::Ratio(band(trial)),
        rows,
    };
    let about = "The first arm over the second, compared inside each round, with the interval. Filled: decided. Grey: \
                 differences that do not matter.";
    (before > 0).then(|| figure(id, "still", "Ratios", about, &drawing, before - drawing.rows.len()))
}

fn pair(trial: &TrialData, contrast: &ContrastData) -> String {
    format!("{} / {}", trial.arms[contrast.a], trial.arms[contrast.b])
}

/// Differences that do not matter, as ratios.
fn band(trial: &TrialData) -> (f64, f64) {
    (1.0 / (1.0 + trial.practical), 1.0 + trial.practical)
}

/// What is known of two arms at a level in a trial.
pub(super) struct Known {
    ratio: f64,
    interval: Option<(f64, f64)>,
    verdict: Outcome,
}

impl Known {
    fn of(contrast: &ContrastData) -> Option<Self> {
        Some(Self { ratio: contrast.ratio?, interval: contrast.interval, verdict: contrast.verdict })
    }

    /// The same of the second arm over the first.
    fn turned(self) -> Self {
        let verdict = match self.verdict {
            Outcome::Faster => Outcome::Slower,
            Outcome::Slower => Outcome::Faster,
            other => other,
        };
        let interval = self.interval.map(|(low, high)| (1.0 / high, 1.0 / low));
        Self { ratio: 1.0 / self.ratio, interval, verdict }
    }

    fn is_decided(&self) -> bool {
        matches!(self.verdict, Outcome::Faster | Outcome::Slower | Outcome::Equivalent)
    }

    /// The ratio, its interval and the verdict: `1.42× [1.31, 1.55], faster`.
    pub(super) fn words(&self, less_is_better: bool) -> String {
        let interval = self.interval.map(|ends| format!(" {}", numbers::ratio_interval(ends)));
        let verdict = match self.verdict {
            Outcome::Faster if less_is_better => "lower",
            Outcome::Slower if less_is_better => "higher",
            Outcome::Faster => "faster",
            Outcome::Slower => "slower",
            Outcome::Equivalent => "equivalent",
            Outcome::CannotTell => "cannot tell here",
            Outcome::Undecided => "undecided",
            Outcome::Failed => "failed",
            Outcome::Cannot => "cannot",
        };
        format!("{}{}, {verdict}", numbers::ratio(self.ratio), interval.unwrap_or_default())
    }

    fn row(&self, heading: Option<String>, label: String, less_is_better: bool) -> Row {
        Row {
            heading,
            label,
            figure: self.words(less_is_better),
            value: self.ratio,
            interval: self.interval,
            is_sure: self.is_decided(),
        }
    }
}

/// Two arms at a level that are compared in some trial: level, names.
pub(super) type Pair = (u16, String, String);

/// What is compared in a workload of several trials, by level.
pub(super) fn pairs(trials: &[TrialPage], title: &str) -> Vec<Pair> {
    let mut found: Vec<Pair> = Vec::new();
    for trial in trials.iter().map(|trial| &trial.data) {
        for contrast in section_of(trial, title).into_iter().flat_map(|section| &section.contrasts) {
            let (a, b) = (&trial.arms[contrast.a], &trial.arms[contrast.b]);
            let is_same = |(threads, x, y): &Pair| {
                *threads == contrast.threads && ((x == a && y == b) || (x == b && y == a))
            };
            if contrast.metric == Metric::Throughput && !found.iter().any(is_same) {
                found.push((contrast.threads, a.clone(), b.clone()));
            }
        }
    }
    found.sort_by_key(|(threads, ..)| *threads);
    found
}

fn section_of<'a>(trial: &'a TrialData, title: &str) -> Option<&'a SectionData> {
    trial.sections.iter().find(|section| section.title == title)
}

/// What a trial knows of a pair.
pub(super) fn known(trial: &TrialPage, title: &str, (threads, a, b): &Pair) -> Option<Known> {
    let trial = &trial.data;
    let contrasts = section_of(trial, title)?.contrasts.iter();
    let mut here =
        contrasts.filter(|contrast| contrast.threads == *threads && contrast.metric == Metric::Throughput);
    here.find_map(|contrast| {
        let (x, y) = (&trial.arms[contrast.a], &trial.arms[contrast.b]);
        if x == a && y == b {
            Known::of(contrast)
        } else if x == b && y == a {
            Known::of(contrast).map(Known::turned)
        } else {
            None
        }
    })
}

/// The ratios of several trials, those of a pair one below the other. `titles` are those of the trials.
pub(super) fn across(trials: &[TrialPage], titles: &[String], title: &str, id: &str) -> Option<Markup> {
    let less =
        section_of(&trials.iter().find(|trial| section_of(&trial.data, title).is_some())?.data, title)?;
    let mut rows: Vec<Row> = Vec::new();
    let mut all = 0;
    for of in pairs(trials, title) {
        let mut heading = Some(format!("{} / {}, {}", of.1, of.2, threads_in_words(of.0)));
        for (trial, name) in trials.iter().zip(titles) {
            let Some(known) = known(trial, title, &of) else { continue };
            all += 1;
            if rows.len() < MOST_ROWS {
                rows.push(known.row(heading.take(), name.clone(), less.less_is_better));
            }
        }
    }
    let practical = trials.iter().map(|trial| trial.data.practical).fold(f64::INFINITY, f64::min);
    let told: Vec<String> =
        rows.iter().rev().take(3).map(|row| format!("{}: {}", row.label, row.figure)).collect();
    let drawing = Forest {
        finding: format!("Ratios of throughput in {} in each trial. {}", title, told.join("; ")),
        axis: "ratio of throughput, logarithmic".into(),
        scale: Scale::Ratio((1.0 / (1.0 + practical), 1.0 + practical)),
        rows,
    };
    let about = "The first arm over the second in each trial, with the interval. Filled: decided. Grey: differences that do \
                 not matter.";
    (all > 0).then(|| figure(id, "still", "Ratios in each trial", about, &drawing, all - drawing.rows.len()))
}
