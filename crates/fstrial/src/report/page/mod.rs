//! The page one hands to a colleague: a self-contained HTML file that says who won, by how much, how sure that is and
//! what to distrust.
//!
//! All words and figures are plain HTML that needs no script, and so are the ratios, and where no script runs the rates,
//! as SVG (see `forest`). The other plots are drawn from data embedded as JSON (see `data`) by `page.js` with a charting
//! library that is part of the file. Nothing is asked of any other place: the
//! content security policy allows no request, and of scripts only those two, by their hash.

mod answer;
pub mod claims;
mod collect;
mod data;
mod forest;
mod forests;
mod pictures;
mod several;
mod trial;

use super::again::JudgedTrial;
use base64::{Engine, engine::general_purpose::STANDARD};
use data::{MetricData, PageData, TrialData};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Apache ECharts; see `vendor/README.md`.
const CHARTS: &str = include_str!("vendor/echarts.min.js");

/// A trial as it is shown on a page.
pub struct TrialPage {
    data: TrialData,
    told: trial::Shown,
}

impl TrialPage {
    /// Takes what a page shows of a trial.
    pub fn of(told: JudgedTrial<'_>) -> Self {
        let data = collect::of_trial(&told);
        Self { data, told: trial::Shown::of(told) }
    }

    /// What the trial is called, or what it compares where it has no name.
    fn title(&self) -> String {
        self.told.title()
    }
}

/// A page of one trial, or of several: then their common arms are shown side by side before each of them.
pub fn of_trials(mut trials: Vec<TrialPage>) -> String {
    trials.iter_mut().enumerate().for_each(|(place, trial)| trial.told.place(place));
    let several = trials.len() > 1;
    let title = match trials.as_slice() {
        [one] => one.title(),
        _ => format!("{} trials side by side", trials.len()),
    };
    let body = html! {
        @if several {
            header.top {
                h1 { (title) }
                (several::answer(&trials))
            }
            (several::contents(&trials))
            (several::side_by_side(&trials))
        }
        @for (index, trial) in trials.iter().enumerate() {
            (trial::render(trial, index, several))
        }
    };
    document(&title, &body, trials.into_iter().map(|trial| trial.data).collect())
}

/// A whole file: style, body, data, library, script.
fn document(title: &str, body: &Markup, trials: Vec<TrialData>) -> String {
    let data = PageData {
        schema_version: data::SCHEMA_VERSION,
        fstrial: env!("CARGO_PKG_VERSION"),
        metrics: MetricData::all(),
        trials,
    };
    // Inside a script element only "<" can end it.
    let json = data.to_json().replace('<', "\\u003c");
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy());
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content={ "fstrial " (env!("CARGO_PKG_VERSION")) };
                title { (title) " · fstrial" }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#main" { "to the answer" }
                main #main { (body) }
                footer {
                    p {
                        "made by fstrial " (env!("CARGO_PKG_VERSION")) ". Everything that is drawn here is in this file as \
                         JSON (element " code { "#data" } "), and as a table and a CSV file under the pictures \
                         with buttons, which are drawn by Apache ECharts."
                    }
                }
                script type="application/json" id="data" { (PreEscaped(json)) }
                script { (PreEscaped(CHARTS)) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// No request to anywhere, and no script but the two that are in the file.
pub(crate) fn policy() -> String {
    let hash = |script: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(script)));
    format!(
        "default-src 'none'; script-src {} {}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; \
         form-action 'none'",
        hash(CHARTS),
        hash(SCRIPT)
    )
}

/// The place of a plot, drawn by the script.
fn plot(id: &str, kind: &str, (trial, section): (usize, usize), title: &str, about: &str) -> Markup {
    html! {
        figure.plot id=(id) data-plot=(kind) data-trial=(trial) data-section=(section) {
            figcaption {
                h4 { (title) }
                p { (about) }
            }
        }
    }
}

/// The same, smaller, among others of its kind.
fn small_plot(id: &str, kind: &str, (trial, section): (usize, usize), title: &str) -> Markup {
    html! {
        figure.plot.small id=(id) data-plot=(kind) data-trial=(trial) data-section=(section) {
            figcaption { h4 { (title) } }
        }
    }
}

fn head(columns: &[impl AsRef<str>]) -> Markup {
    html! {
        thead { tr { @for column in columns { th scope="col" { (column.as_ref()) } } } }
    }
}

/// Lines as a list; nothing without any.
fn list(lines: &[String]) -> Markup {
    html! {
        @if !lines.is_empty() {
            ul { @for line in lines { li { (line) } } }
        }
    }
}
