//! Claims on a page: one with its answer, and the catalogue in chapters, each with headlines, a forest plot of the
//! measured figures next to the original ones, and a section for each claim, whose name is its permanent anchor.

use super::{TrialPage, cells, forest, head, list, trial};
use crate::{
    catalogue::{Catalogue, Chapter, ClaimRow, is_drawn, text},
    claim::{ClaimReport, PartReport},
    stored_word,
};
use fstrial_model::claim::OriginalTable;
use fstrial_run::claim::ClaimVerdict;
use maud::{Markup, html};
use std::collections::BTreeMap;

/// Verdicts in the order of a page, and what each means.
const MEANINGS: [(ClaimVerdict, &str); 9] = [
    (ClaimVerdict::Confirmed, "confirmed here, at the stated confidence"),
    (ClaimVerdict::PartlyConfirmed, "some parts are confirmed here, others are refuted"),
    (ClaimVerdict::Smaller, "the effect exists here, but is smaller than claimed"),
    (ClaimVerdict::NoDifference, "the arms are the same here, within the band"),
    (ClaimVerdict::Reversed, "refuted here: the effect has the opposite direction"),
    (ClaimVerdict::Measured, "a question without an expectation: the figures are the answer"),
    (ClaimVerdict::Undecided, "not known after the time it was given"),
    (
        ClaimVerdict::Insensitive,
        "no other result was possible: the device was at its limit, the planted cause was not detected, others took the \
         processors, or there are too few",
    ),
    (ClaimVerdict::NotTestable, "this kernel or machine lacks a requirement"),
];

/// The class of a verdict in the style sheet, by its word in JSON.
fn class(verdict: ClaimVerdict) -> String {
    format!("verdict-{}", stored_word(verdict))
}

/// The catalogue as a page. `trials`: the trials of claims, to unfold, by the names of the claims.
pub fn page(catalogue: &Catalogue, mut trials: BTreeMap<String, TrialPage>) -> String {
    trials.values_mut().enumerate().for_each(|(place, trial)| trial.shown.place(place));
    let title = format!("{} statements about filesystem speed, put to the test", catalogue.claims.len());
    let chapters = Chapter::all();
    let body = html! {
        header.top {
            h1 { (title) }
            div.answer {
                @for (index, chapter) in chapters.iter().enumerate() {
                    p {
                        a href={ "#" (anchor(index)) } { (chapter.title) } ": "
                        (chapter.headlines(catalogue).swap_remove(0))
                    }
                }
            }
            p.sure { (catalogue.summary()) }
            (list(&catalogue.machines().iter().map(|machine| format!("on {}", machine.in_words())).collect::<Vec<_>>()))
            (key())
            p.sure {
                "Each statement was published once, with its source. Here it was measured again as a randomised trial; a \
                 verdict holds for the machine, kernel and device named with it."
            }
        }
        @for (index, chapter) in chapters.iter().enumerate() {
            @let rows = chapter.rows(catalogue);
            section.trial id=(anchor(index)) {
                h2 { (chapter.title) }
                (list(&chapter.headlines(catalogue)))
                (picture(chapter, &rows))
                @for row in &rows { (entry(row, catalogue.catalogue, trials.get(&row.report.id))) }
                details {
                    summary { "All figures" }
                    (cells(&format!("All figures of {}", chapter.title), &text::FIGURES, &text::figures(&rows), 0))
                }
            }
        }
    };
    super::document(&title, &body)
}

/// The place of a chapter.
fn anchor(chapter: usize) -> String {
    format!("chapter-{}", chapter + 1)
}

/// The ratios of a chapter's claims.
fn picture(chapter: &Chapter, rows: &[&ClaimRow]) -> Markup {
    let mut drawn = Vec::new();
    for row in rows.iter().filter(|row| row.measured.is_some()) {
        let parts = row.report.parts.iter().filter(|part| is_drawn(part)).take(text::DRAWN);
        let heading = format!("{} — {}", row.report.statement, row.verdict());
        drawn
            .extend(parts.enumerate().map(|(index, part)| mark(part, (index == 0).then(|| heading.clone()))));
    }
    html! {
        @if !drawn.is_empty() {
            figure {
                (forest::draw(&forest::Forest {
                    finding: format!("{}: measured ratios next to the original ones", chapter.title),
                    axis: "ratio; the diamond is the original figure".into(),
                    scale: forest::Scale::Ratio((1.0, 1.0)),
                    rows: drawn,
                }))
            }
        }
    }
}

fn mark(part: &PartReport, heading: Option<String>) -> forest::ForestRow {
    let then = part.then.as_ref().map_or_else(String::new, |then| format!(", {then} then"));
    let planted = if part.planted { "planted: " } else { "" };
    forest::ForestRow {
        heading,
        arms: Vec::new(),
        label: format!("{planted}{}", text::short(&part.subject)),
        figure: format!("{}{then}", part.here()),
        value: part.measured.unwrap_or(f64::NAN),
        interval: part.interval,
        is_sure: !matches!(part.verdict, ClaimVerdict::Undecided | ClaimVerdict::Insensitive),
        then: text::then(part),
    }
}

/// A claim of the catalogue with its evidence, and the line that cites it.
fn entry(row: &ClaimRow, version: u32, trial: Option<&TrialPage>) -> Markup {
    let report = &row.report;
    html! {
        section.claim id=(report.id) {
            h3 { a href={ "#" (report.id) } { (report.statement) } }
            p.source { (report.source) @if !report.setup.is_empty() { ". Measured on: " (report.setup) } }
            @if !report.said.is_empty() { p { "Original: " (report.said) } }
            p.verdict { strong class=(class(report.verdict)) { (row.verdict()) } }
            @if let Some(measured) = &row.measured {
                p { (text::circumstances(row, measured)) }
                (list(&text::details(row, measured)))
            }
            details {
                summary { "Figures, and a line that cites them" }
                pre { code { (row.citation(version)) } }
                @if let Some(day) = report.fixed { p { "Expectations were fixed on " (day.to_string()) "." } }
                @if !report.parts.is_empty() { (parts(report, row.open.is_none())) }
                (body(report))
            }
            @if let Some(page) = trial { (trial::of_claim(page)) }
        }
    }
}

/// The verdicts.
fn key() -> Markup {
    html! {
        details {
            summary { "The verdicts" }
            dl.verdicts-key {
                @for (verdict, meaning) in MEANINGS {
                    dt class=(class(verdict)) { (verdict.words()) }
                    dd { (meaning) }
                }
            }
        }
    }
}

/// A claim with its answer, if it was checked.
pub(super) fn claim(report: &ClaimReport, anchor: &str, is_checked: bool) -> Markup {
    html! {
        section.claim id=(anchor) {
            h3 { (report.statement) }
            p.source { (report.source) @if !report.setup.is_empty() { ". Measured on: " (report.setup) } }
            @if is_checked { p.verdict { strong class=(class(report.verdict)) { (report.answer) } } }
            @if !report.said.is_empty() { p { "Original: " (report.said) } }
            @if let Some(day) = report.fixed { p { "Expectations were fixed on " (day.to_string()) "." } }
            @if !report.parts.is_empty() { (parts(report, is_checked)) }
            (body(report))
        }
    }
}

/// Notes, replacements and tables of the source.
fn body(report: &ClaimReport) -> Markup {
    html! {
        (list(&report.notes))
        @if !report.substituted.is_empty() { p { "Replacements for features this kernel no longer has:" } (list(&report.substituted)) }
        @if !report.scaled.is_empty() { p { "Scaled to this machine:" } (list(&report.scaled)) }
        @for table in &report.tables { (original(table)) }
    }
}

fn parts(report: &ClaimReport, is_checked: bool) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label={ "Parts of " (report.id) } {
            table.parts {
                caption.unseen { "What " (report.id) " expects, part by part" }
                (head(&["what", "expected", "then", "here", "verdict"]))
                tbody {
                    @for part in &report.parts {
                        tr {
                            th scope="row" {
                                (part.subject)
                                @if let Some(says) = &part.says { br; span.note { (says) } }
                                @if let Some(reading) = &part.reading { br; span.note { "read as: " (reading) } }
                            }
                            td { (part.expected.as_deref().unwrap_or("–")) }
                            td { @if let Some(then) = &part.then { (then) } @else { "–" } }
                            @if is_checked {
                                td { (part.here()) }
                                td class=(class(part.verdict)) { (part.verdict.words()) }
                            } @else {
                                td { "–" }
                                td { "–" }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A table of the source.
fn original(table: &OriginalTable) -> Markup {
    html! {
        details {
            summary { "Then: " (table.title) @if !table.unit.is_empty() { ", " (table.unit) } }
            div.scroll tabindex="0" role="group" aria-label={ "Original table: " (table.title) } {
                table.pale {
                    caption.unseen { (table.title) }
                    (head(&table.columns))
                    tbody { @for row in &table.rows {
                        tr {
                            @for (column, number) in row.iter().enumerate() {
                                @if column == 0 { th scope="row" { (number) } } @else { td { (number) } }
                            }
                        }
                    } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verdict_has_a_class_in_the_style_sheet() {
        for (verdict, _) in MEANINGS {
            let class = format!(".{}", class(verdict));
            let selectors = super::super::STYLE.lines().map(|line| line.trim_end_matches([' ', '{', ',']));
            assert!(selectors.into_iter().any(|selector| selector == class), "{class}");
        }
    }
}
