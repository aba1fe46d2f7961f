//! Claims on a page: one with its answer, and the whole catalogue with the original figures and the results here.

use super::{TrialPage, head, list, trial};
use crate::{claim::ClaimReport, stored_word};
use fstrial_model::claim::OriginalTable;
use fstrial_run::claim::ClaimVerdict;
use maud::{Markup, html};

pub struct ClaimEntry {
    /// The original statement, and the answer of the last check here, if there was one.
    pub report: ClaimReport,
    /// Why it cannot be checked here, or that it was not checked yet; none if it was.
    pub open: Option<String>,
    /// The trial that answered it.
    pub trial: Option<TrialPage>,
}

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

pub fn page(mut entries: Vec<ClaimEntry>) -> String {
    let trials = entries.iter_mut().filter_map(|entry| entry.trial.as_mut());
    trials.enumerate().for_each(|(place, trial)| trial.shown.place(place));
    let title = format!("{} statements about filesystem speed, put to the test", entries.len());
    let body = html! {
        header.top {
            h1 { (title) }
            div.answer { (counts(&entries)) }
            (key())
            p.sure {
                "Each statement was published once, with its source. Here it was measured again on this machine as a \
                 randomised trial; a verdict holds for the machine, kernel and device named with it."
            }
        }
        (overview(&entries))
        @for entry in &entries {
            section.trial {
                (claim(&entry.report, &anchor(&entry.report), is_checked(entry)))
                @if let Some(open) = entry.open.as_ref().filter(|_| entry.report.notes.is_empty()) { p.open { (open) } }
                @if let Some(page) = &entry.trial { (trial::of_claim(page)) }
            }
        }
    };
    super::document(&title, &body)
}

/// The name of a claim's place on the page.
fn anchor(report: &ClaimReport) -> String {
    format!("claim-{}", report.id)
}

/// True if it was checked, or is known not to run here.
fn is_checked(entry: &ClaimEntry) -> bool {
    entry.open.is_none() || entry.report.verdict == ClaimVerdict::NotTestable
}

/// Counts by verdict.
fn counts(entries: &[ClaimEntry]) -> Markup {
    let count = |verdict: ClaimVerdict| {
        entries
            .iter()
            .filter(|entry| is_checked(entry))
            .filter(|entry| entry.report.verdict == verdict)
            .count()
    };
    let unchecked = entries.iter().filter(|entry| !is_checked(entry)).count();
    html! {
        ul {
            @for (verdict, _) in MEANINGS {
                @let result = count(verdict);
                @if result > 0 { li { strong { (result) } " " span class=(class(verdict)) { (verdict.words()) } } }
            }
            @if unchecked > 0 { li { strong { (unchecked) } " not checked yet" } }
        }
    }
}

/// All claims in a table.
fn overview(entries: &[ClaimEntry]) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="All claims" {
            table.claims {
                caption.unseen { "All statements with the result here and the original figure" }
                (head(&["statement", "verdict", "here", "then", "source"]))
                tbody {
                    @for entry in entries {
                        @let report = &entry.report;
                        tr.claim {
                            th scope="row" { a href={ "#" (anchor(report)) } { (report.statement) } }
                            td class=[is_checked(entry).then(|| class(report.verdict))] { (verdict_in_words(entry)) }
                            td { (here(entry)) }
                            td { (report.said) }
                            td { (report.source) }
                        }
                    }
                }
            }
        }
    }
}

fn verdict_in_words(entry: &ClaimEntry) -> &str {
    if is_checked(entry) { entry.report.verdict.words() } else { "not checked yet" }
}

/// The measurement here, or the reason why there is none.
fn here(entry: &ClaimEntry) -> String {
    entry.open.clone().unwrap_or_else(|| entry.report.here())
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
            (list(&report.notes))
            @if !report.substituted.is_empty() { p { "Replacements for features this kernel no longer has:" } (list(&report.substituted)) }
            @if !report.scaled.is_empty() { p { "Scaled to this machine:" } (list(&report.scaled)) }
            @for table in &report.tables { (original(table)) }
        }
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
