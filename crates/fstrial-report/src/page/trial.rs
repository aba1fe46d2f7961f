//! A trial on a page: its answer, each of its workloads with pictures and figures, the actual settings of its arms, and
//! how to repeat it.

use super::{
    CHOICES, TrialPage, answer, cells, chart, claims, data::TrialData, flames::Panel, list, pictures,
};
use crate::{
    again::JudgedTrial,
    document::{self, Document, WorkloadReport},
    evidence::{self, Explanation},
    receipt, summary, table, verdict,
};
use fstrial_model::{facts::Fact, metric::Metric};
use fstrial_run::contrast::ContrastState;
use fstrial_store::StoredTrial;
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};

/// Limit of a workload's verdicts; of more only those against the arm that leads.
const MAX_VERDICTS: usize = 150;

/// The textual content of a trial.
pub(super) struct Shown {
    pub(super) document: Document,
    stored: StoredTrial,
    /// The commands that made each arm.
    commands: Vec<Vec<String>>,
    /// The first error of runs that count regardless, by cell as text.
    errors: Vec<String>,
    /// Pairs of arms of unequal durability that are compared, and why they are.
    pub(super) unequal: Vec<(String, String, String)>,
    /// Explanations of its verdicts.
    panels: Vec<Panel>,
    /// Its place on the page.
    place: usize,
}

impl Shown {
    pub(super) fn of(judged: JudgedTrial<'_>) -> Self {
        let errors = judged.besides.iter().enumerate().filter_map(|(cell, besides)| {
            Some(format!("{}: {}", judged.plan.cell_name(cell), besides.first_error.as_ref()?))
        });
        Self {
            errors: errors.collect(),
            panels: Panel::all(
                &judged.document.explanations,
                &evidence::spent(judged.plan, &judged.finished.all.states(), judged.evidence),
            ),
            unequal: document::unequal_pairs(judged.plan, judged.finished),
            stored: judged.stored.clone(),
            commands: judged.commands.to_vec(),
            document: judged.document,
            place: 0,
        }
    }

    pub(super) fn place(&mut self, place: usize) {
        self.place = place;
    }

    /// Its name, or its comparison if it has no name.
    pub(super) fn title(&self) -> String {
        if !self.document.name.is_empty() {
            return self.document.name.clone();
        }
        let arms: Vec<&str> = self.document.arms.iter().map(|arm| arm.name.as_str()).collect();
        summary::listed(&arms)
    }

    /// The day it began.
    pub(super) fn day(&self) -> &str {
        let started = &self.stored.summary.started_at;
        started.get(..10).unwrap_or(started)
    }

    /// The name of a place in it.
    pub(super) fn anchor(&self, what: &str) -> String {
        format!("t{}-{what}", self.place)
    }

    /// The name of the place of a workload.
    pub(super) fn section_anchor(&self, section: usize) -> String {
        self.anchor(&format!("s{section}"))
    }
}

/// A trial. `among` others, it has a separate heading and no page header.
pub(super) fn render(trial: &TrialPage, among: bool) -> Markup {
    let shown = &trial.shown;
    let finding = answer::finding(&shown.document);
    html! {
        @if among {
            section.trial id=(shown.anchor("trial")) {
                h2 { "Trial " (number(shown)) ": " (shown.title()) }
                p.when { (when(shown)) }
                p.answer { strong { (finding) } }
                (rest(trial))
            }
        } @else {
            header.top {
                h1 { (finding) }
                p.when { (shown.title()) " · trial " (number(shown)) ", " (when(shown)) }
            }
            section.trial id=(shown.anchor("trial")) {
                h2.unseen { "Results" }
                (rest(trial))
            }
        }
    }
}

fn number(shown: &Shown) -> String {
    shown.document.trial_id.map_or_else(|| "–".into(), |id| id.to_string())
}

/// When and where.
fn when(shown: &Shown) -> String {
    let document = &shown.document;
    let (device, kernel) =
        (document.of_machines(|there| &there.device), document.of_machines(|there| &there.kernel));
    format!("{} · {device} · Linux {kernel}", shown.day())
}

fn rest(trial: &TrialPage) -> Markup {
    let shown = &trial.shown;
    html! {
        @if let Some(claim) = &shown.document.claim { (claims::claim(claim, &shown.anchor("claim"), true)) }
        (first(trial))
        (details(trial))
    }
}

/// The arms, the answer as text and as a picture, and the caveats.
fn first(trial: &TrialPage) -> Markup {
    let shown = &trial.shown;
    html! {
        (arms_shown(&trial.data))
        div.grid.first {
            div { (answer::answer(shown)) (answer::distrust(shown)) }
            @if let Some(ratios) = pictures::ratios(&trial.data, &shown.anchor("ratios")) { (ratios) }
        }
    }
}

/// The trial of a claim in the catalogue: its pictures and figures, folded up.
pub(super) fn of_claim(trial: &TrialPage) -> Markup {
    let shown = &trial.shown;
    html! {
        details.trial {
            summary { "Trial " (number(shown)) ", " (when(shown)) }
            (first(trial))
            (details(trial))
        }
    }
}

/// All that is folded up.
fn details(trial: &TrialPage) -> Markup {
    let shown = &trial.shown;
    let workloads = &shown.document.workloads;
    html! {
        @for (index, workload) in workloads.iter().enumerate() {
            (section(trial, index, workload, workloads.len() == 1))
        }
        @if trial.data.contrasts_left_out > 0 {
            p.note {
                "A trial of this size has more comparisons than a page can hold: in the pictures are those with the fastest arm; \
                 " (trial.data.contrasts_left_out) " others are left out."
            }
        }
        (arms(shown))
        (conditions(shown))
        (repeat(shown))
    }
}

/// The arms with their signs. One that is switched off is not drawn: the style sheet does that.
fn arms_shown(data: &TrialData) -> Markup {
    html! {
        fieldset.choose.arms {
            legend.unseen { "Arms in the pictures" }
            @for (arm, name) in data.arms.iter().enumerate() {
                label {
                    @if arm < CHOICES { input type="checkbox" class={ "a" (arm) } checked; }
                    (chart::sign(arm)) span dir="auto" { (name) }
                }
            }
        }
    }
}

/// A workload: its pictures, then its figures.
fn section(trial: &TrialPage, index: usize, workload: &WorkloadReport, is_open: bool) -> Markup {
    let shown = &trial.shown;
    let anchor = shown.section_anchor(index);
    html! {
        details.workload id=(anchor) open[is_open] {
            summary { h3 { (workload.title()) } }
            @if let Some(about) = &workload.about { p.about { (about) } }
            p.how { (table::how(workload)) }
            @for (n, panel) in shown.panels.iter().filter(|panel| is_of(&panel.explanation, workload)).enumerate() {
                @if n == 0 { h4 { "Why" } }
                (panel.render())
            }
            (pictures::of(&trial.data, &trial.data.sections[index], &anchor))
            (figures(shown, workload))
        }
    }
}

/// True if an explanation is about a workload, or this phase of it.
fn is_of(explanation: &Explanation, workload: &WorkloadReport) -> bool {
    explanation.workload == workload.name && explanation.phase == workload.phase
}

/// The figures of a workload, and every verdict as text.
fn figures(shown: &Shown, workload: &WorkloadReport) -> Markup {
    let document = &shown.document;
    let (headings, rows) = table::grid(workload, document.compare);
    html! {
        details.figures open[rows.len() <= 24] {
            summary { "All figures of " (workload.title()) }
            (cells(&format!("Figures of {}", workload.title()), &headings, &rows, 1))
            p.note {
                "Rates are robust means of the runs; latencies and CPU are medians of the runs' own, while the pictures take all \
                 runs together. Ratios compare arms inside each round, so they need not be the quotient of two rows. Of fewer \
                 than six runs the interval is their range."
            }
            (list(&table::notes(workload)))
            (verdicts(shown, workload))
        }
    }
}

/// Every verdict as text. Of very many only those against the arm that leads.
fn verdicts(shown: &Shown, workload: &WorkloadReport) -> Markup {
    let document = &shown.document;
    let (aside, full): (Vec<_>, Vec<_>) =
        workload.verdicts.iter().partition(|report| table::is_aside(report));
    let states: Vec<_> = aside.iter().map(|report| &report.contrast).collect();
    let rankings = summary::rankings_of(workload);
    let is_shown = |state: &ContrastState| {
        if state.metric != Metric::Throughput {
            return false;
        }
        let mut of_level = rankings.iter().filter(|ranking| ranking.threads == state.threads).peekable();
        let is_of = |ranking: &summary::Ranking<'_>| {
            [state.a.as_str(), state.b.as_str()].contains(&ranking.leading[0])
        };
        of_level.peek().is_none() || of_level.any(is_of)
    };
    let all = full.len() <= MAX_VERDICTS;
    let listed: Vec<_> = full.iter().filter(|report| all || is_shown(&report.contrast)).collect();
    html! {
        ul.verdicts {
            @for report in &listed {
                li class=[report.unequal_durability.is_some().then_some("loud")] {
                    (table::verdict_line(document, report))
                }
            }
            @if all { @for line in verdict::undecided_latency(&states) { li.quiet { (line) } } }
            @else {
                li.quiet {
                    (workload.verdicts.len() - listed.len())
                    " more comparisons, of arms that do not lead or of latency, are in what "
                    code { "fstrial report " (number(shown)) " --format json" } " prints"
                }
            }
        }
    }
}

/// The arms, their actual settings, and their differences.
fn arms(shown: &Shown) -> Markup {
    let document = &shown.document;
    html! {
        details id=(shown.anchor("arms")) {
            summary { h3 { "The arms, and other differences between them" } }
            dl.facts {
                @for arm in &document.arms {
                    dt { (arm.name) }
                    dd { code { (arm.configuration) } }
                }
            }
            @if let Some(report) = &document.receipt {
                h4 { (receipt::title(report)) }
                (list(&receipt::lines(&report.arms, true)))
            }
            h4 id=(shown.anchor("audit")) { "Other differences" }
            @if document.arms.iter().any(|arm| arm.facts.is_none()) {
                p { "Not known: the trial ended before every arm was made." }
            } @else if document.audit.is_empty() { p { "Nothing that is known." } }
            (list(&document.audit))
            (list(&table::fact_notes(document)))
            details {
                summary { "Everything that was read back from each filesystem and device" }
                (facts(document))
            }
            details {
                summary { "The commands that made them" }
                @for (arm, commands) in document.arms.iter().zip(&shown.commands) {
                    h5 { (arm.name) }
                    pre.code tabindex="0" { @for command in commands { (command) "\n" } }
                }
            }
        }
    }
}

fn facts(document: &Document) -> Markup {
    let known: Vec<&BTreeMap<Fact, String>> =
        document.arms.iter().filter_map(|arm| Some(&arm.facts.as_ref()?.facts)).collect();
    if known.len() < document.arms.len() {
        return html! { p { "Not known: the trial ended before every arm was made." } };
    }
    let mut names: Vec<Fact> = known.iter().flat_map(|facts| facts.keys().copied()).collect();
    names.sort_unstable();
    names.dedup();
    let value =
        |facts: &BTreeMap<Fact, String>, fact| facts.get(&fact).cloned().unwrap_or_else(|| "–".into());
    html! {
        div.scroll tabindex="0" role="group" aria-label="Facts about the arms" {
            table.facts {
                caption.unseen { "Settings of each arm, as read back" }
                thead { tr { th scope="col" { "fact" } @for arm in &document.arms { th scope="col" { (arm.name) } } } }
                tbody {
                    @for fact in names {
                        @let differs = known.iter().any(|facts| facts.get(&fact) != known[0].get(&fact));
                        tr class=[differs.then_some("differs")] {
                            th scope="row" { (fact.name()) @if differs { span.note { " (differs)" } } }
                            @for facts in &known { td { (value(facts, fact)) } }
                        }
                    }
                }
            }
        }
    }
}

/// The machine, the tools, the instrument.
fn conditions(shown: &Shown) -> Markup {
    let document = &shown.document;
    let tools: BTreeSet<(&String, &String)> =
        document.arms.iter().filter_map(|arm| arm.facts.as_ref()).flat_map(|facts| &facts.tools).collect();
    let summary = &shown.stored.summary;
    html! {
        details id=(shown.anchor("environment")) {
            summary { h3 { "Environment" } }
            dl.facts {
                @for there in document.machines() {
                    @if there.place.is_empty() { dt { "machine" } } @else { dt { (there.place) " (" (there.host) ")" } }
                    dd { @for line in there.describe() { (line) br; } }
                    dt { "device" } dd { (there.device) }
                }
                @if !tools.is_empty() {
                    dt { "tools" } dd { @for (tool, version) in tools { code { (tool) } ": " (version) br; } }
                }
                dt { "time" } dd { (summary.started_at) " to " (summary.ended_at.as_deref().unwrap_or("–")) }
                dt { "rounds" }
                dd {
                    (document.rounds)
                    ", " (summary.runs) " runs, " (summary.failed_runs) " of them failed"
                }
                dt { "seed" } dd { code { (document.seed) } }
                dt { "cost of the instrument" } dd { (instrument(document)) }
            }
            @if !shown.errors.is_empty() {
                h4 { "Errors of operations in runs that count" }
                (list(&shown.errors))
            }
        }
    }
}

/// Measured overhead of the load generator itself.
fn instrument(document: &Document) -> String {
    let loads = document.workloads.iter().flat_map(|workload| &workload.cells);
    let greatest = loads
        .filter(|cell| cell.latency_ns.is_some())
        .max_by(|x, y| x.generator_share.total_cmp(&y.generator_share));
    let costs = document.machines().filter_map(|there| {
        let at = if there.place.is_empty() { String::new() } else { format!(" at {}", there.place) };
        Some(format!("{} ns{at}", there.generator_loop_ns?))
    });
    let costs = costs.collect::<Vec<_>>().join(", ");
    let cost = match costs.as_str() {
        "" => String::new(),
        costs => {
            format!("its loop around an operation that does nothing took {costs} when the trial began; ")
        }
    };
    match greatest {
        Some(cell) => format!(
            "{cost}each thread of the load generator spent {:.0} % of a core outside the kernel in \
                 the most expensive case (the median run of {} at {}); every arm pays the same",
            cell.generator_share * 100.0,
            cell.arm,
            fstrial_run::plan::threads_in_words(cell.threads)
        ),
        None => {
            "the load was made by another program: its own cost is in every figure, the same in every arm"
                .into()
        }
    }
}

fn repeat(shown: &Shown) -> Markup {
    html! {
        details id=(shown.anchor("repeat")) {
            summary { h3 { "Repeat this" } }
            pre.code tabindex="0" { (shown.document.repeat) }
            p { "Or put this into a file, and run it with " code { "fstrial run FILE" } ":" }
            details {
                summary { "The trial file" }
                pre.code tabindex="0" { (shown.document.trial) }
            }
        }
    }
}
