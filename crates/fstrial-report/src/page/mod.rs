//! The page to share with a colleague: a self-contained HTML file with the winner, the margin, the confidence and the
//! caveats.
//!
//! Everything on it is HTML and SVG (see `forest` and `chart`) that needs no script; arms and levels are chosen by the
//! style sheet. A short script shows the value under the pointer and saves pictures as SVG and CSV. Nothing is fetched
//! from elsewhere: the content security policy allows no request, and of scripts only that one, by its hash.

mod answer;
mod axis;
mod chart;
pub mod claims;
mod collect;
mod data;
mod flames;
mod forest;
mod forests;
pub mod judge;
pub mod meta;
mod pictures;
mod several;
mod svg;
pub mod trend;
mod trial;

use super::again::JudgedTrial;
use base64::{Engine, engine::general_purpose::STANDARD};
use data::TrialData;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

/// Colours of all pages, and looks of pictures.
pub const PICTURES: &str = include_str!("picture.css");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Selectable levels and arms. Those beyond are always shown.
const CHOICES: usize = 40;

/// A trial as it is shown on a page.
pub struct TrialPage {
    data: TrialData,
    shown: trial::Shown,
}

impl TrialPage {
    /// Takes a page's data from a trial.
    pub fn of(shown: JudgedTrial<'_>) -> Self {
        let data = collect::of_trial(&shown);
        Self { data, shown: trial::Shown::of(shown) }
    }

    /// Name of the trial, or its comparison if it has no name.
    fn title(&self) -> String {
        self.shown.title()
    }
}

/// A page of one trial, or of several: then their common arms are shown side by side before each of them.
pub fn of_trials(mut trials: Vec<TrialPage>) -> String {
    trials.iter_mut().enumerate().for_each(|(place, trial)| trial.shown.place(place));
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
        @for trial in &trials { (trial::render(trial, several)) }
    };
    document(&title, &body)
}

/// A file about stored trials.
fn document(title: &str, body: &Markup) -> String {
    file(title, body, &html! { code { "fstrial results export" } " has every run" })
}

/// A whole file: style, body, script. `source`: where its figures are from.
fn file(title: &str, body: &Markup, source: &Markup) -> String {
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
                style { (PreEscaped(compact(PICTURES))) (PreEscaped(compact(STYLE))) (PreEscaped(choices(body))) }
            }
            body {
                a.skip href="#main" { "to the answer" }
                main #main { (body) }
                footer {
                    p { "made by fstrial " (env!("CARGO_PKG_VERSION")) "; " (source) }
                }
                div #value aria-hidden="true" {}
                script { (PreEscaped(compact(SCRIPT))) }
            }
        }
    };
    // Elements of a drawing that hold nothing may end in themselves.
    ["path", "circle", "rect", "line"]
        .into_iter()
        .fold(page.into_string(), |page, name| page.replace(&format!("\"></{name}>"), "\"/>"))
}

/// Without comments and indentation.
fn compact(text: &'static str) -> String {
    let ends = |part: &'static str| part.split_once("*/").map_or(part, |(_, after)| after);
    let code: String = text.split("/*").map(ends).collect();
    let lines = code.lines().map(str::trim_start);
    lines.filter(|line| !line.is_empty() && !line.starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The rules by which an arm or a number of threads that was not chosen is not drawn, of those that the body has.
fn choices(body: &Markup) -> String {
    let is_there = |n: &usize| ["a", "l"].iter().any(|kind| body.0.contains(&format!("class=\"{kind}{n}\"")));
    let rule = |n: usize| {
        format!(
            ".workload:has(.l{n}:checked) [data-level]:not([data-level=\"{n}\"]){{display:none}}\
             .trial:has(.a{n}:not(:checked)) :is([data-arm=\"{n}\"],[data-arms~=\"{n}\"]){{opacity:.12}}"
        )
    };
    (0..CHOICES).filter(is_there).map(rule).collect()
}

/// No request to anywhere, and no script but that in the file.
pub fn policy() -> String {
    let hash = STANDARD.encode(Sha256::digest(compact(SCRIPT)));
    format!(
        "default-src 'none'; script-src 'sha256-{hash}'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; \
         form-action 'none'"
    )
}

fn head(columns: &[impl AsRef<str>]) -> Markup {
    html! {
        thead { tr { @for column in columns { th scope="col" { (column.as_ref()) } } } }
    }
}

/// A table of figures that scrolls where it is too wide. The cells of one column name their rows.
fn cells(caption: &str, headings: &[impl AsRef<str>], rows: &[impl AsRef<[String]>], names: usize) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label=(caption) {
            table.cells {
                caption.unseen { (caption) }
                (head(headings))
                tbody {
                    @for row in rows {
                        tr {
                            @for (column, text) in row.as_ref().iter().enumerate() {
                                @if column == names { th scope="row" { (text) } } @else { td { (text) } }
                            }
                        }
                    }
                }
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_strips_comments_and_keeps_brackets_balanced() {
        for text in [PICTURES, STYLE, SCRIPT] {
            let code = compact(text);
            assert!(!code.contains("/*") && !code.contains("*/"), "{code}");
            for pair in [['{', '}'], ['(', ')'], ['[', ']']] {
                let [opened, closed] = pair.map(|sign| code.matches(sign).count());
                assert_eq!(opened, closed, "{pair:?}");
            }
            assert!(code.len() * 10 > text.len() * 7, "{} of {} bytes are left", code.len(), text.len());
        }
    }
}
