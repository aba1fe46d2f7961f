//! Several trials on one page: the results of their common arms in each of them, side by side.

use super::{TrialPage, data::SectionData, forests};
use crate::{numbers, summary::listed};
use fstrial_run::plan::threads_in_words;
use maud::{Markup, html};

/// Description of the page.
pub(super) fn answer(trials: &[TrialPage]) -> Markup {
    let varying = varying(trials);
    html! {
        div.answer {
            p {
                "Arms and workloads of one name in " (trials.len()) " trials"
                @if !varying.is_empty() { " that differ in " (listed(&varying)) }
                "."
            }
        }
        p.sure {
            "Within a trial arms alternated, so their ratios are valid. Trials were not interleaved \
                 with each other: their differences may also come from the day, the neighbours or the \
                 state of the device. So there are no verdicts between trials."
        }
    }
}

fn varying(trials: &[TrialPage]) -> Vec<&'static str> {
    let differs = |of: &dyn Fn(&TrialPage) -> String| trials.iter().any(|trial| of(trial) != of(&trials[0]));
    let environment: [(&'static str, bool); 9] = [
        (
            "the list of arms",
            differs(&|trial| {
                let arms = trial
                    .shown
                    .document
                    .arms
                    .iter()
                    .map(|arm| format!("{}={};", arm.name, arm.configuration));
                arms.collect()
            }),
        ),
        (
            "the list of workloads",
            differs(&|trial| {
                let document = &trial.shown.document;
                document.trial.split_once("[[workload]]").map(|(_, rest)| rest.to_owned()).unwrap_or_default()
            }),
        ),
        ("host", differs(&|trial| trial.shown.document.of_machines(|there| &there.host))),
        (
            "memory",
            differs(&|trial| trial.shown.document.machines().map(|there| there.memory.human()).collect()),
        ),
        ("device", differs(&|trial| trial.shown.document.of_machines(|there| &there.device))),
        ("kernel", differs(&|trial| trial.shown.document.of_machines(|there| &there.kernel))),
        ("machine", differs(&|trial| trial.shown.document.of_machines(|there| &there.processor))),
        ("version of fstrial", differs(&|trial| trial.shown.document.of_machines(|there| &there.fstrial))),
        ("date", differs(&|trial| trial.shown.day().to_owned())),
    ];
    environment.into_iter().filter(|(_, differs)| *differs).map(|(what, _)| what).collect()
}

/// The trials by name, as links.
pub(super) fn contents(trials: &[TrialPage]) -> Markup {
    html! {
        nav.toc aria-label="Trials" {
            ul {
                @for trial in trials {
                    li { a href={ "#" (trial.shown.anchor("trial")) } { (name(trial)) } }
                }
            }
        }
    }
}

/// A trial's name among others.
fn name(trial: &TrialPage) -> String {
    let shown = &trial.shown;
    let id = shown.document.trial_id.map_or_else(String::new, |id| format!("{id}: "));
    format!("{id}{}, {}", shown.title(), shown.day())
}

/// The heading of each trial's column: its number, its device, and its distinguishing properties.
fn titles(trials: &[TrialPage]) -> Vec<String> {
    let device = |trial: &TrialPage| trial.data.device.clone();
    let others: [&dyn Fn(&TrialPage) -> String; 4] = [
        &|trial| trial.data.name.clone(),
        &|trial| format!("Linux {}", trial.data.kernel),
        &|trial| trial.shown.document.of_machines(|there| &there.host),
        &|trial| trial.shown.document.machines().map(|there| there.memory.human()).collect(),
    ];
    let differing: Vec<_> =
        others.into_iter().filter(|of| trials.iter().any(|trial| of(trial) != of(&trials[0]))).collect();
    let alike = differing.is_empty() && trials.iter().all(|trial| device(trial) == device(&trials[0]));
    let title = |trial: &TrialPage| {
        let mut parts = vec![trial.data.id.map_or_else(String::new, |id| format!("#{id}")), device(trial)];
        parts.extend(differing.iter().map(|of| of(trial)));
        if alike {
            parts.push(trial.shown.day().to_owned());
        }
        parts.retain(|part| !part.is_empty());
        parts.join(", ")
    };
    trials.iter().map(title).collect()
}

/// The ratios of a workload: a row for each pair and level, a column for each trial.
fn ratios(trials: &[TrialPage], titles: &[String], title: &str) -> Markup {
    let measured = measured(trials, title);
    let pairs = forests::pairs(trials, title);
    html! {
        @if !pairs.is_empty() {
            div.scroll tabindex="0" role="group" aria-label={ "Ratios in " (title) ", in all trials" } {
                table.cells.ratios {
                    caption { "Ratios of " (measured.what().to_lowercase()) " in " (title) ", with intervals" }
                    (columns(titles))
                    tbody {
                        @for pair in &pairs {
                            tr {
                                td { (threads_in_words(pair.0)) }
                                th scope="row" { (pair.1) " / " (pair.2) }
                                @for trial in trials {
                                    td { (forests::known(trial, title, pair).map_or_else(|| "–".into(), |known| known.words(measured.less_is_better))) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The workload at its first place.
fn measured<'a>(trials: &'a [TrialPage], title: &str) -> &'a SectionData {
    let all = trials.iter().flat_map(|trial| &trial.data.sections);
    all.into_iter().find(|section| section.title == title).expect("a common workload is in one of the trials")
}

/// The heads of a table with a column for each trial.
fn columns(titles: &[String]) -> Markup {
    html! {
        thead {
            tr {
                th scope="col" { "level" }
                th scope="col" { "arm" }
                @for title in titles { th scope="col" { (title) } }
            }
        }
    }
}

/// For each workload that several trials have: the ratios and the rates of all arms in all trials.
pub(super) fn side_by_side(trials: &[TrialPage]) -> Markup {
    let titles = titles(trials);
    html! {
        section.trial id="side-by-side" {
            h2 { "Side by side" }
            @for (place, section, title) in common(trials) {
                section.workload {
                    h3 { (title) }
                    (ratios(trials, &titles, title))
                    @if let Some(ratios) = forests::across(trials, &titles, title, &format!("compare-{place}-{section}-ratios")) { (ratios) }
                    (table(trials, &titles, title))
                }
            }
        }
    }
}

/// The workloads that at least two trials have, each at its first place: trial, index in it, title.
fn common(trials: &[TrialPage]) -> Vec<(usize, usize, &str)> {
    let mut result: Vec<(usize, usize, &str)> = Vec::new();
    for (place, trial) in trials.iter().enumerate() {
        for (index, section) in trial.data.sections.iter().enumerate() {
            let title = section.title.as_str();
            let has = |other: &&TrialPage| other.data.sections.iter().any(|of| of.title == title);
            let is_new = !result.iter().any(|(.., known)| *known == title);
            if is_new && trials.iter().filter(has).count() > 1 {
                result.push((place, index, title));
            }
        }
    }
    result
}

/// The rates of a workload: a row for each arm and level, a column for each trial.
fn table(trials: &[TrialPage], titles: &[String], title: &str) -> Markup {
    let mut rows: Vec<(u16, &str)> = Vec::new();
    let of_title = |trial: &'_ TrialPage| {
        trial.shown.document.workloads.iter().position(|workload| workload.title() == title)
    };
    for trial in trials {
        let Some(at) = of_title(trial) else { continue };
        for cell in &trial.shown.document.workloads[at].cells {
            if !rows.contains(&(cell.threads, &cell.arm)) {
                rows.push((cell.threads, &cell.arm));
            }
        }
    }
    rows.sort_by_key(|(threads, _)| *threads);
    let figure = |trial: &TrialPage, threads: u16, arm: &str| {
        let workload = &trial.shown.document.workloads[of_title(trial)?];
        let cell = workload.cells.iter().find(|cell| cell.threads == threads && cell.arm == arm)?;
        let figure = |value: f64| numbers::figure(value, &workload.unit);
        Some(numbers::with_interval(cell.rate?, cell.rate_interval, figure))
    };
    html! {
        div.scroll tabindex="0" role="group" aria-label={ (title) " in all trials" } {
            table.cells {
                caption { (measured(trials, title).what()) " in " (title) ", with intervals" }
                (columns(titles))
                tbody {
                    @for (threads, arm) in rows {
                        tr {
                            td { (threads_in_words(threads)) }
                            th scope="row" { (arm) }
                            @for trial in trials { td { (figure(trial, threads, arm).unwrap_or_else(|| "–".into())) } }
                        }
                    }
                }
            }
        }
    }
}
