//! The top of a trial's page: the answer as text, and its caveats.

use super::trial::Shown;
use crate::{
    document::Document,
    numbers,
    summary::{self, Among, Behind, Ranking, Ratio, listed},
    verdict,
};
use fstrial_model::{
    metric::Metric,
    trial::{Compare, ErrorControl},
};
use fstrial_run::{
    contrast::{ContrastState, Outcome},
    plan::threads_in_words,
};
use maud::{Markup, html};

/// Limit of single lines of the answer; for more workloads and levels it counts the leads of each arm.
const MAX_LINES: usize = 12;
/// Rounds below which most contrasts cannot have an interval.
const FEW_ROUNDS: u32 = 7;

/// Result of the trial, in a sentence.
pub(super) fn finding(document: &Document) -> String {
    if let Some(claim) = &document.claim {
        return format!("{}: {}", claim.statement.trim_end_matches('.'), claim.verdict.words());
    }
    summary::headline(document).unwrap_or_else(|| nothing_to_say(document).to_owned())
}

/// The names of the compared things, if those are workloads.
fn compared(document: &Document) -> Vec<&str> {
    let mut names: Vec<&str> = document
        .workloads
        .iter()
        .flat_map(|workload| &workload.cells)
        .map(|cell| cell.arm.as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The answer as text, with its confidence.
pub(super) fn answer(shown: &Shown) -> Markup {
    let document = &shown.document;
    let rankings = summary::rankings(document);
    html! {
        div.answer {
            @if rankings.is_empty() {
            } @else if rankings.len() <= MAX_LINES || summary::has_baseline(document) {
                ul { @for ranking in &rankings { li { (line(ranking)) } } }
            } @else {
                (counted(document))
            }
        }
        p.sure { (ended(document)) }
        @if document.rounds > 0 {
            details { summary { "The guarantee of the intervals" } p.sure { (promise(document)) } }
        }
    }
}

/// Winner of a workload at a level, with margin and confidence.
fn line(ranking: &Ranking<'_>) -> Markup {
    let amount = |(ratio, interval): Ratio, of: &str| {
        html! {
            (numbers::ratio(ratio))
            @if let Some(ends) = interval { span.interval { " " (numbers::ratio_interval(ends)) } }
            " " (ranking.of_whom(of))
        }
    };
    html! {
        (ranking.workload.title()) ", " (threads_in_words(ranking.threads)) ": "
        @if let Some((first, second, ratio)) = ranking.leads_by() {
            strong { (first) " leads" }
            (ranking.leads_in_a_word()) " " (amount(ratio, second))
        } @else {
            strong { (ranking.leaders()) }
            @for Behind { arm, of, ratio, .. } in &ranking.behind {
                "; " (arm)
                @match ratio {
                    Some(ratio) => { " " (ranking.has_in_a_word()) " " (amount(*ratio, of)) }
                    None => { " is behind " (of) }
                }
            }
        }
        @for words in ranking.open_words() { "; " (words) }
        @if !ranking.out.is_empty() { "; without " (listed(&ranking.out)) }
        @if ranking.unequal { " " span.badge.unequal { "unequal durability" } }
    }
}

const fn nothing_to_say(document: &Document) -> &'static str {
    match document.failures.is_empty() {
        false => "There is no answer: runs failed, see below.",
        true => "There is no answer yet: no round was complete.",
    }
}

/// Number of each arm's leads, if there are too many workloads and levels to name.
fn counted(document: &Document) -> Markup {
    let rankings = summary::rankings(document);
    let names: Vec<&str> = match document.compare {
        Compare::Arms => document.arms.iter().map(|arm| arm.name.as_str()).collect(),
        Compare::Workloads => compared(document),
    };
    let count = |is: &dyn Fn(&Ranking<'_>) -> bool| rankings.iter().filter(|ranking| is(ranking)).count();
    let of = rankings.len();
    let undecided = count(&|ranking| ranking.among == Among::Open);
    html! {
        p { "Of " (of) " combinations of workload and level:" }
        ul {
            @for name in names {
                @let alone = count(&|ranking| ranking.leading == [name]);
                @let shared = count(&|ranking| ranking.leading.len() > 1 && ranking.leading.contains(&name));
                @let behind = count(&|ranking| ranking.behind.iter().any(|behind| behind.arm == name));
                li { strong { (name) } ": leads alone in " (alone) ", is among several leaders in " (shared) ", is behind in " (behind) }
            }
            @if undecided > 0 { li { "in " (undecided) " it is not decided who leads" } }
        }
    }
}

/// Its end.
fn ended(document: &Document) -> String {
    if document.rounds == 0 {
        return "No round was measured.".into();
    }
    let rounds = document.rounds_in_words();
    let ended = match document.ended {
        "decided" => "It ended because no comparison was open any more",
        "interrupted" => "It is not at its end, so some of it may be open",
        "running" => "It still runs, so some of it may be open",
        "killed" => "It was killed before its end, so some of it may be open",
        "given-up" => "It ended because the open comparisons were too unlikely to be decided in time",
        _ => "It ended because its time or its number of rounds was up",
    };
    format!("{rounds}. {ended}.")
}

/// The guarantee of the intervals.
fn promise(document: &Document) -> String {
    let promise = match document.errors {
        ErrorControl::Fdr => "of the differences that are reported here, expect at most 1 in 20 to be wrong",
        ErrorControl::Fwer => "the chance that even one of the reported differences is wrong is at most 5 %",
    };
    format!(
        "In each round every configuration that was still undecided was rebuilt (mkfs, mount) and measured, in an order drawn at \
         random. Intervals are in brackets: 95 % (90 % where arms are equivalent or near enough, 99 % and more for early verdicts), and account for \
         a look after every round; {promise}. Differences in throughput of less than {} % count as \
         no difference.",
        numbers::plain(document.practical_percent)
    )
}

/// Caveats, the worst first.
pub(super) fn distrust(shown: &Shown) -> Markup {
    let document = &shown.document;
    let unequal = unequal(shown);
    html! {
        section.distrust {
            h3 { "Caveats" }
            ul {
                @for reason in &unequal {
                    li.loud { span.badge.unequal { "unequal durability" } " " (reason) }
                }
                @for (_, loss) in &document.losses() { li.loud { span.badge.unequal { "loses data" } " " (loss) } }
                @for failure in &document.failures { li.loud { span.badge.unequal { "failed" } " " (failure) } }
                @for warning in &document.warnings { li { (warning) } }
                @for line in open_questions(document) { li { (line) } }
                @for line in summary::limits(document) { li { (line) } }
                @if !document.audit.is_empty() {
                    li {
                        "The arms differ in: "
                        a href={ "#" (shown.anchor("audit")) } { (things(document.audit.len())) }
                        ". A difference may come from those."
                    }
                }
                @for note in document.machines().flat_map(|there| &there.device_notes) { li { (note) } }
                @if document.machines().next().is_some() { li {
                    @for (index, there) in document.machines().enumerate() {
                        @if index == 0 { "This speaks for " } @else { ", and " }
                        @if there.place.is_empty() { "this machine" } @else { (there.place) }
                        " (" (there.cpus) " CPUs"
                        @if there.virtual_machine { ", a virtual machine that may have noisy neighbours" }
                        "), Linux " (there.kernel) ", this device (" (there.device) ")"
                    }
                    " and these amounts of data, and for no other."
                } }
            }
        }
    }
}

fn things(count: usize) -> String {
    if count == 1 { "one thing".into() } else { format!("{count} things") }
}

/// Reasons for unequal durability, each with the arms it is about.
fn unequal(shown: &Shown) -> Vec<String> {
    shown
        .unequal
        .iter()
        .map(|(a, b, reason)| format!("{a} and {b}: {reason}. Their ratio is not one of speed alone."))
        .collect()
}

/// Open questions, and the requirements of a decision.
fn open_questions(document: &Document) -> Vec<String> {
    let states = || document.workloads.iter().flat_map(|workload| &workload.verdicts).map(|v| &v.contrast);
    let mut lines = Vec::new();
    if (1..FEW_ROUNDS).contains(&document.rounds) {
        lines.push(format!(
            "{} are too few for most questions: apparent differences may be chance, and ranges of fewer than \
             six runs are not intervals.",
            document.rounds_in_words()
        ));
    }
    let is_main = |state: &ContrastState| state.metric == Metric::Throughput && state.holds_open;
    let undecided: Vec<_> = states()
        .filter(|state| is_main(state) && state.verdict == Outcome::Undecided && !state.near)
        .collect();
    if !undecided.is_empty() {
        let needed: Vec<_> = undecided.iter().filter_map(|state| verdict::rounds_more(state)).collect();
        let ends = needed.iter().map(|(low, _)| low).min().zip(needed.iter().map(|(_, high)| high).max());
        let needed = ends.map_or_else(String::new, |(low, high)| {
            let (which, more) = (needed.len(), verdict::more_in_words((*low, *high), document.round_seconds));
            format!(
                " {} of them would take {more}.",
                if which == 1 { "One".into() } else { which.to_string() }
            )
        });
        let all = states().filter(|state| is_main(state)).count();
        lines.push(format!(
            "{} of {all} comparisons of throughput are undecided: neither shown to differ nor to be the same.{needed}",
            undecided.len()
        ));
    }
    let few = states().filter(|state| state.too_few_operations).count();
    if few > 0 {
        let (of, have) = if few == 1 { ("comparison", "has") } else { ("comparisons", "have") };
        lines.push(format!("{few} {of} of tail latency {have} too few operations for a conclusion."));
    }
    lines
}
