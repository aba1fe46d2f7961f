//! Values one below the other: the ratios of a trial, the rates of a workload's arms and their costs, the ratios of
//! several trials.

use super::{
    TrialPage,
    axis::Words,
    data::{CellData, ContrastData, SectionData, TrialData},
    forest::{self, Forest, ForestRow, Scale},
};
use crate::numbers;
use fstrial_model::unit;
use fstrial_run::{
    contrast::{Outcome, inverse},
    plan::threads_in_words,
};
use maud::{Markup, html};
use std::rc::Rc;

/// Rows of a picture, at most: the tables have all.
const MOST_ROWS: usize = 40;

fn figure(id: &str, title: &str, about: &str, drawing: &Forest, left_out: usize) -> Markup {
    titled(id, &html! { h4 { (title) } }, about, drawing, left_out)
}

fn titled(id: &str, title: &Markup, about: &str, drawing: &Forest, left_out: usize) -> Markup {
    html! {
        figure id=(id) {
            figcaption { (title) p { (about) } }
            (forest::draw(drawing))
            @if left_out > 0 { p.note { (left_out) " more are in the figures below." } }
        }
    }
}

/// A number of each cell with its interval.
type Known<'a> = &'a dyn Fn(&CellData) -> Option<(f64, Option<(f64, f64)>)>;

/// The rates of all arms at all levels.
pub(super) fn rates(trial: &TrialData, section: &SectionData, id: &str) -> Option<Markup> {
    let rate = |cell: &CellData| Some((cell.rate?, cell.rate_interval));
    let words = figures_of(section);
    let (rows, left_out) =
        cell_rows(trial, section, &rate, &|value| words(value), unit::beside(&section.unit));
    let best = best_at_last_level(trial, section);
    let drawing = Forest {
        finding: format!("{} of each arm in {}.{}", section.what(), section.title, best.unwrap_or_default()),
        axis: axis_of(section),
        scale: Scale::Linear(figures_of(section), round_in(&section.unit, most(&rows))),
        rows,
    };
    let about = "The typical value of each arm over its rounds with its 95 % interval; for fewer than six runs, \
         their range.";
    (!drawing.rows.is_empty()).then(|| figure(id, section.what(), about, &drawing, left_out))
}

/// Cost of an operation on each arm: a number of each cell.
pub(super) fn costs(
    trial: &TrialData,
    section: &SectionData,
    id: &str,
    (title, about, unit): (&str, &str, &str),
    of: fn(&CellData) -> Option<f64>,
    words: fn(f64) -> String,
) -> Option<Markup> {
    let (rows, left_out) = cell_rows(trial, section, &|cell| Some((of(cell)?, None)), &words, "");
    let drawing = Forest {
        finding: format!("{title} in {}, of each arm", section.title),
        axis: format!("{title}, less is better"),
        scale: Scale::Linear(Rc::new(words), round_in(unit, most(&rows))),
        rows,
    };
    (!drawing.rows.is_empty()).then(|| figure(id, title, about, &drawing, left_out))
}

/// A row for each cell with a known number, by level; and the number of omitted ones.
fn cell_rows(
    trial: &TrialData,
    section: &SectionData,
    known: Known<'_>,
    words: &dyn Fn(f64) -> String,
    unit: &str,
) -> (Vec<ForestRow>, usize) {
    let mut rows = Vec::new();
    let mut before = None;
    let mut cells = section.cells.iter().filter_map(|cell| Some((cell, known(cell)?)));
    for (cell, (value, interval)) in cells.by_ref().take(MOST_ROWS) {
        let is_first = before.replace(cell.threads) != Some(cell.threads);
        rows.push(ForestRow {
            heading: (is_first && section.levels.len() > 1).then(|| threads_in_words(cell.threads)),
            arms: vec![cell.arm],
            label: trial.arms[cell.arm].clone(),
            figure: format!("{} {unit}", numbers::with_interval(value, interval, words))
                .trim_end()
                .to_owned(),
            value,
            interval,
            is_sure: true,
            then: None,
        });
    }
    (rows, cells.count())
}

pub(super) fn axis_of(section: &SectionData) -> String {
    let better = if section.less_is_better { ", less is better" } else { "" };
    format!("{}{better}", unit::heading(&section.unit))
}

/// Writes figures in the unit of a workload.
pub(super) fn figures_of(section: &SectionData) -> Words {
    let unit = section.unit.clone();
    Rc::new(move |value| numbers::figure(value, &unit))
}

/// The first rows as text, for those who do not see them.
fn first_rows(rows: &[ForestRow]) -> String {
    let words = |row: &ForestRow| {
        let heading = row.heading.as_ref().map_or_else(String::new, |heading| format!("{heading}: "));
        format!("{heading}{} {}", row.label, row.figure)
    };
    rows.iter().take(3).map(words).collect::<Vec<_>>().join("; ")
}

fn most(rows: &[ForestRow]) -> f64 {
    rows.iter().map(|row| row.value).fold(0.0, f64::max)
}

/// Unit in which tick labels up to `most` are round, in the display form of its figures.
pub(super) fn round_in(unit: &str, most: f64) -> f64 {
    match unit {
        unit::BYTES | unit::BYTES_PER_FILE => {
            let sizes = [30, 20, 10].map(|power| f64::from(1 << power));
            sizes.into_iter().find(|size| most >= *size).unwrap_or(1.0)
        }
        unit::BYTES_PER_SECOND => f64::from(1 << 20),
        _ => 1.0,
    }
}

/// The best with the most threads, as text.
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

/// True if one of two arms is the best at their level.
pub(super) fn has_best(section: &SectionData, contrast: &ContrastData) -> bool {
    best_at(section, contrast.threads).is_some_and(|(arm, _)| [contrast.a, contrast.b].contains(&arm))
}

/// The ratios of throughput in some workloads; the most informative, if there are too many.
pub(super) fn ratios<'a>(
    trial: &TrialData,
    sections: &[&'a SectionData],
    id: &str,
    is_whole: bool,
) -> Option<Markup> {
    let of = |section: &&'a SectionData| {
        let section = *section;
        reported(section).into_iter().map(move |contrast| (section, contrast))
    };
    let all: Vec<(&SectionData, &ContrastData)> = sections.iter().flat_map(of).collect();
    let known = sections.iter().map(|section| known_of(section).count()).sum::<usize>();
    let names_its_workload = sections.len() > 1;
    let mut last = None;
    let rows = all.into_iter().take(MOST_ROWS).filter_map(|(section, contrast)| {
        let level = threads_in_words(contrast.threads);
        let heading = if names_its_workload { format!("{}, {level}", section.title) } else { level };
        let heading = if section.less_is_better { format!("{heading}, less is better") } else { heading };
        let is_new = last.as_ref() != Some(&heading);
        let heading = is_new.then(|| last.insert(heading).clone());
        Some(Judged::of(contrast)?.row(
            heading,
            pair(trial, contrast),
            section.less_is_better,
            vec![contrast.a, contrast.b],
        ))
    });
    let rows: Vec<ForestRow> = rows.collect();
    let drawing = Forest {
        finding: format!("Ratios. {}", first_rows(&rows)),
        axis: "ratio, logarithmic".into(),
        scale: Scale::Ratio(band(trial.practical)),
        rows,
    };
    let about = "The first arm over the second, compared inside each round, with the interval. Filled: decided. Grey: \
                 differences that do not matter.";
    // Of all workloads it is a part of its trial, of one a part of that.
    let title = html! { @if is_whole { h3 { "Ratios" } } @else { h4 { "Ratios" } } };
    (known > 0).then(|| titled(id, &title, about, &drawing, known - drawing.rows.len()))
}

/// True if the ratios of all these workloads fit into one picture.
pub(super) fn fit_together(sections: &[SectionData]) -> bool {
    sections.iter().map(|section| known_of(section).count()).sum::<usize>() <= MOST_ROWS
}

/// Those with a known ratio.
pub(super) fn known_of(section: &SectionData) -> impl Iterator<Item = &ContrastData> {
    section.contrasts.iter().filter(|contrast| contrast.ratio.is_some())
}

/// The ratios of a workload by level; of very many those with the best arm of their level, the most informative.
pub(super) fn reported(section: &SectionData) -> Vec<&ContrastData> {
    let mut all: Vec<&ContrastData> = known_of(section).collect();
    if all.len() > MOST_ROWS {
        all.retain(|contrast| has_best(section, contrast));
    }
    all.sort_by_key(|contrast| contrast.threads);
    all
}

pub(super) fn pair(trial: &TrialData, contrast: &ContrastData) -> String {
    format!("{} / {}", trial.arms[contrast.a], trial.arms[contrast.b])
}

/// Differences that do not matter, as ratios.
pub(super) fn band(practical: f64) -> (f64, f64) {
    (1.0 / (1.0 + practical), 1.0 + practical)
}

/// Result of two arms at a level in a trial.
pub(super) struct Judged {
    ratio: f64,
    interval: Option<(f64, f64)>,
    verdict: Outcome,
}

impl Judged {
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
        Self { ratio: self.ratio.recip(), interval: self.interval.map(inverse), verdict }
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
            Outcome::Insensitive => "insensitive",
            Outcome::Undecided => "undecided",
            Outcome::Failed => "failed",
            Outcome::Unsupported => "unsupported",
        };
        format!("{}{}, {verdict}", numbers::ratio(self.ratio), interval.unwrap_or_default())
    }

    fn row(
        &self,
        heading: Option<String>,
        label: String,
        less_is_better: bool,
        arms: Vec<usize>,
    ) -> ForestRow {
        ForestRow {
            heading,
            arms,
            label,
            figure: self.words(less_is_better),
            value: self.ratio,
            interval: self.interval,
            is_sure: self.verdict.is_decided(),
            then: None,
        }
    }
}

/// Two arms at a level that are compared in some trial: level, names.
pub(super) type Pair = (u16, String, String);

/// The pairs compared in a workload of several trials, by level.
pub(super) fn pairs(trials: &[TrialPage], title: &str) -> Vec<Pair> {
    let mut result: Vec<Pair> = Vec::new();
    for trial in trials.iter().map(|trial| &trial.data) {
        for contrast in section_of(trial, title).into_iter().flat_map(|section| &section.contrasts) {
            let (a, b) = (&trial.arms[contrast.a], &trial.arms[contrast.b]);
            let is_same = |(threads, x, y): &Pair| {
                *threads == contrast.threads && ((x == a && y == b) || (x == b && y == a))
            };
            if !result.iter().any(is_same) {
                result.push((contrast.threads, a.clone(), b.clone()));
            }
        }
    }
    result.sort_by_key(|(threads, ..)| *threads);
    result
}

fn section_of<'a>(trial: &'a TrialData, title: &str) -> Option<&'a SectionData> {
    trial.sections.iter().find(|section| section.title == title)
}

/// A trial's result for a pair.
pub(super) fn known(trial: &TrialPage, title: &str, (threads, a, b): &Pair) -> Option<Judged> {
    let trial = &trial.data;
    let contrasts = section_of(trial, title)?.contrasts.iter();
    let mut here = contrasts.filter(|contrast| contrast.threads == *threads);
    here.find_map(|contrast| {
        let (x, y) = (&trial.arms[contrast.a], &trial.arms[contrast.b]);
        if x == a && y == b {
            Judged::of(contrast)
        } else if x == b && y == a {
            Judged::of(contrast).map(Judged::turned)
        } else {
            None
        }
    })
}

/// The ratios of several trials, those of a pair one below the other. `titles` are those of the trials.
pub(super) fn across(trials: &[TrialPage], titles: &[String], title: &str, id: &str) -> Option<Markup> {
    let less =
        section_of(&trials.iter().find(|trial| section_of(&trial.data, title).is_some())?.data, title)?;
    let mut rows: Vec<ForestRow> = Vec::new();
    let mut all = 0;
    for of in pairs(trials, title) {
        let mut heading = Some(format!("{} / {}, {}", of.1, of.2, threads_in_words(of.0)));
        for (trial, name) in trials.iter().zip(titles) {
            let Some(known) = known(trial, title, &of) else { continue };
            all += 1;
            if rows.len() < MOST_ROWS {
                rows.push(known.row(heading.take(), name.clone(), less.less_is_better, Vec::new()));
            }
        }
    }
    let practical = trials.iter().map(|trial| trial.data.practical).fold(f64::INFINITY, f64::min);
    let drawing = Forest {
        finding: format!("Ratios in {title} in each trial. {}", first_rows(&rows)),
        axis: if less.less_is_better { "ratio, logarithmic, less is better" } else { "ratio, logarithmic" }
            .into(),
        scale: Scale::Ratio(band(practical)),
        rows,
    };
    let about = "The first arm over the second in each trial, with the interval. Filled: decided. Grey: differences that do \
                 not matter.";
    (all > 0).then(|| figure(id, "Ratios in each trial", about, &drawing, all - drawing.rows.len()))
}
