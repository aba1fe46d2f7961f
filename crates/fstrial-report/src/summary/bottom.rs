//! The bottom line: the result of all comparisons together, from their verdicts alone.

use super::{Among, Ranking, ahead_of, either, has_baseline, listed, near_percent, rankings, rankings_of};
use crate::{
    document::{Document, VerdictReport, WorkloadReport},
    numbers,
};
use fstrial_model::metric::Metric;
use fstrial_run::contrast::Outcome;
use std::collections::BTreeMap;

/// Number of each verdict on a pair of arms, on throughput and on everything else.
#[derive(Debug, Default)]
pub(super) struct Tally<'a> {
    /// Comparisons in which `a` is ahead, and in which it is behind, with its ratio to the other as tables have it.
    ahead: Vec<f64>,
    behind: Vec<f64>,
    equivalent: usize,
    /// Comparisons in which either will do, with how far apart they are in percent at most.
    near: Vec<f64>,
    open: usize,
    /// Other metrics in which `a` is better, worse, the same, or not decided; each named once.
    better: Vec<&'a str>,
    worse: Vec<&'a str>,
    others_same: usize,
    others_open: usize,
    unequal: bool,
}

impl<'a> Tally<'a> {
    pub(super) fn add(&mut self, report: &'a VerdictReport) {
        let state = &report.contrast;
        self.unequal |= report.unequal_durability.is_some();
        let words = state.metric.row().words;
        match (state.metric, state.verdict) {
            (_, Outcome::Failed | Outcome::Unsupported) => {}
            (Metric::Throughput, Outcome::Faster) => self.ahead.extend(state.ratio),
            (Metric::Throughput, Outcome::Slower) => self.behind.extend(state.ratio),
            (Metric::Throughput, Outcome::Equivalent) => self.equivalent += 1,
            (Metric::Throughput, Outcome::Undecided | Outcome::Insensitive) => match near_percent(state) {
                Some(percent) => self.near.push(percent),
                None => self.open += 1,
            },
            (_, verdict) => self.add_other(verdict, words),
        }
    }

    /// A verdict on an accompanying metric.
    fn add_other(&mut self, verdict: Outcome, words: &'a str) {
        match verdict {
            Outcome::Failed | Outcome::Unsupported => {}
            Outcome::Faster => name_once(&mut self.better, words),
            Outcome::Slower => name_once(&mut self.worse, words),
            Outcome::Equivalent => self.others_same += 1,
            Outcome::Undecided | Outcome::Insensitive => self.others_open += 1,
        }
    }

    fn comparisons(&self) -> usize {
        self.ahead.len() + self.behind.len() + self.equivalent + self.near.len() + self.open
    }
}

fn name_once<'a>(names: &mut Vec<&'a str>, name: &'a str) {
    if !names.contains(&name) {
        names.push(name);
    }
}

/// The result of all comparisons together, from their verdicts alone: of two arms the number of wins and the margins,
/// of more arms the number of leads. None without a comparison.
pub fn bottom_line(document: &Document) -> Option<String> {
    let rankings = rankings(document);
    let mut places: Vec<(&str, u16)> =
        rankings.iter().map(|one| (one.workload.name.as_str(), one.threads)).collect();
    places.dedup();
    // For a single comparison, or each arm against a baseline once, the individual lines suffice. Arms at several
    // places are not compared with each other.
    let is_apart = document.workloads.iter().any(|workload| !workload.leads.is_empty());
    let is_shown = rankings.len() > 1 && !is_apart && (places.len() > 1 || !has_baseline(document));
    is_shown.then(|| bottom_line_of(&document.workloads)).flatten()
}

pub(super) fn bottom_line_of(workloads: &[WorkloadReport]) -> Option<String> {
    let mut tallies: BTreeMap<(&str, &str), Tally<'_>> = BTreeMap::new();
    let main = || workloads.iter().filter(|workload| !workload.secondary);
    for report in main().flat_map(|workload| &workload.verdicts) {
        tallies.entry((&report.contrast.a, &report.contrast.b)).or_default().add(report);
    }
    // Accompanying results are part of the price.
    for workload in workloads.iter().filter(|workload| workload.secondary) {
        for state in workload.states().filter(|state| state.metric == Metric::Throughput) {
            tallies.entry((&state.a, &state.b)).or_default().add_other(state.verdict, &workload.phase);
        }
    }
    tallies.retain(|_, tally| tally.comparisons() > 0);
    let is_one = tallies.len() == 1;
    // With a baseline each arm is listed separately.
    if !is_one && !workloads.iter().any(|workload| workload.has_baseline) {
        return leads(workloads);
    }
    let less = Less::of(main());
    let parts = tallies.into_iter().map(|((a, b), tally)| {
        let words = of_two(a, b, &tally, less);
        if is_one { words } else { format!("{a} / {b}: {words}") }
    });
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| parts.join(" · "))
}

/// Direction of the compared metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Less {
    IsBetter,
    IsWorse,
    /// It is of some workloads only, and their ratios are of different kinds.
    Differs,
}

impl Less {
    fn of<'a>(workloads: impl Iterator<Item = &'a WorkloadReport>) -> Self {
        let all: Vec<bool> = workloads.map(|workload| workload.less_is_better).collect();
        match all.iter().filter(|less| **less).count() {
            0 => Self::IsWorse,
            some if some == all.len() => Self::IsBetter,
            _ => Self::Differs,
        }
    }
}

/// `xfs is faster in all 6 comparisons, 1.50× to 1.80× ext4; nothing is lost with xfs`. Ratios are those of the tables: to `b`.
pub(super) fn of_two(a: &str, b: &str, tally: &Tally<'_>, less: Less) -> String {
    let all = tally.comparisons();
    let (better, takes) = match less {
        Less::IsBetter => ("takes less", "takes"),
        Less::IsWorse => ("is faster", "is"),
        Less::Differs => ("is better", ""),
    };
    let amount = |ratios: &[f64], is_ahead: bool| match (less, is_ahead) {
        (Less::Differs, _) => String::new(),
        (_, true) => format!(", {} {b}", span(ratios)),
        (_, false) => format!(", where {a} {takes} {} {b}", span(ratios)),
    };
    let won = |name: &str, ratios: &[f64], is_ahead: bool| {
        let words = || format!("{name} {better} {}{}", in_of(ratios.len(), all), amount(ratios, is_ahead));
        (!ratios.is_empty()).then(words)
    };
    let wins = [won(a, &tally.ahead, true), won(b, &tally.behind, false)];
    let mut parts: Vec<String> = wins.into_iter().flatten().collect();
    if tally.behind.len() > tally.ahead.len() {
        parts.reverse();
    }
    match tally.equivalent {
        0 => {}
        same if same == all => parts.push(format!("{b} and {a} are equivalent {}", in_of(same, all))),
        same => parts.push(format!("equivalent {}", in_of(same, all))),
    }
    let widest = tally.near.iter().copied().fold(0.0, f64::max);
    match tally.near.len() {
        0 => {}
        near if near == all => {
            parts.push(format!(
                "{} will do: at most {widest:.0} % apart {}",
                either(&[b, a]),
                in_of(near, all)
            ));
        }
        near => parts.push(format!("at most {widest:.0} % apart {}", in_of(near, all))),
    }
    match tally.open {
        0 => {}
        open if open == all => parts.push(format!("nothing is decided between {b} and {a}")),
        open => parts.push(format!("not decided {}", in_of(open, all))),
    }
    parts.extend(price(tally, a, b));
    let unequal = if tally.unequal { " (UNEQUAL DURABILITY)" } else { "" };
    format!("{}{unequal}", parts.join("; "))
}

/// Price of choosing an arm that is ahead throughout: only if every other metric has a verdict.
fn price(tally: &Tally<'_>, a: &str, b: &str) -> Option<String> {
    let all = tally.comparisons();
    let (name, better, worse) = match (tally.ahead.len(), tally.behind.len()) {
        (ahead, _) if ahead == all => (a, &tally.better, &tally.worse),
        (_, behind) if behind == all => (b, &tally.worse, &tally.better),
        _ => return None,
    };
    if !worse.is_empty() {
        return Some(format!("but {} of {name} is higher somewhere", worse.join(" and ")));
    }
    let known = better.len() + tally.others_same;
    (known > 0 && tally.others_open == 0).then(|| format!("nothing is lost with {name}"))
}

pub(super) fn in_of(some: usize, all: usize) -> String {
    match (some, all) {
        (1, 1) => "in the one comparison".into(),
        (2, 2) => "in both comparisons".into(),
        (some, all) if some == all => format!("in all {all} comparisons"),
        (some, all) => format!("in {some} of {all} comparisons"),
    }
}

/// `1.50× to 1.80×`.
fn span(ratios: &[f64]) -> String {
    let least = ratios.iter().copied().fold(f64::MAX, f64::min);
    let most = ratios.iter().copied().fold(f64::MIN, f64::max);
    let [least, most] = [least, most].map(numbers::ratio);
    if least == most { least } else { format!("{least} to {most}") }
}

/// `xfs is fastest in 4 of 6 cases; ext4 and xfs are equivalent in 2; btrfs is slowest in all`.
pub(super) fn leads(workloads: &[WorkloadReport]) -> Option<String> {
    let main = || workloads.iter().filter(|workload| !workload.secondary);
    let rankings: Vec<Ranking<'_>> = main().flat_map(rankings_of).collect();
    let all = main().map(|workload| workload.levels().len()).sum();
    let mut alone: Vec<(&str, usize)> = Vec::new();
    for ranking in rankings.iter().filter(|ranking| ranking.among == Among::Alone) {
        count(&mut alone, ranking.leading[0]);
    }
    alone.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    let (best, worst) = match Less::of(main()) {
        Less::IsWorse => ("is fastest", "is slowest"),
        Less::IsBetter => ("takes least", "takes most"),
        Less::Differs => ("is best", "is worst"),
    };
    let mut parts: Vec<String> = match alone.as_slice() {
        [] => Vec::new(),
        [(name, times)] => vec![format!("{name} {best} {}", in_cases(*times, all))],
        [(name, times), others @ ..] => {
            let others: String = others.iter().map(|(name, times)| format!(", {name} in {times}")).collect();
            vec![format!("no single winner: {name} {best} {}{others}", in_cases(*times, all))]
        }
    };
    let words = |among: Among| match among {
        Among::Alone => "leads",
        Among::Equivalent | Among::AtLimit => "are equivalent",
        Among::Near(..) => "are near each other",
        Among::Open => "are undecided",
    };
    for kind in ["are equivalent", "are near each other", "are undecided"] {
        let of_kind: Vec<_> = rankings.iter().filter(|ranking| words(ranking.among) == kind).collect();
        let Some(first) = of_kind.first() else { continue };
        let are_same = of_kind.iter().all(|ranking| ranking.leading == first.leading);
        let who =
            if are_same && first.leading.len() > 1 { listed(&first.leading) } else { "leading arms".into() };
        let times = match parts.is_empty() {
            true => in_cases(of_kind.len(), all),
            false => format!("in {}", of_kind.len()),
        };
        parts.push(format!("{who} {kind} {times}"));
    }
    parts.extend(slowest(&rankings, all).map(|name| format!("{name} {worst} in all")));
    let mut out: Vec<(&str, usize)> = Vec::new();
    rankings.iter().flat_map(|ranking| &ranking.out).for_each(|name| count(&mut out, name));
    parts.extend(out.iter().map(|(name, times)| format!("{name} has no figure in {times}")));
    parts.extend((rankings.len() < all).then(|| format!("no ratio in {}", all - rankings.len())));
    let unequal = if rankings.iter().any(|ranking| ranking.unequal) { " (UNEQUAL DURABILITY)" } else { "" };
    (!rankings.is_empty()).then(|| format!("{}{unequal}", parts.join("; ")))
}

/// Counts a name again, in the order in which names came first.
pub fn count<T: PartialEq>(all: &mut Vec<(T, usize)>, name: T) {
    match all.iter_mut().find(|(known, _)| *known == name) {
        Some((_, times)) => *times += 1,
        None => all.push((name, 1)),
    }
}

/// An arm behind all others in every one of that many cases.
fn slowest<'a>(rankings: &[Ranking<'a>], cases: usize) -> Option<&'a str> {
    let of = |ranking: &Ranking<'a>, name: &str| {
        let others = ranking.leading.len() + ranking.behind.len() - 1;
        let is_behind = ranking.behind.iter().any(|behind| behind.arm == name);
        is_behind
            && others > 1
            && ranking.out.is_empty()
            && ahead_of(name, &ranking.verdicts()).count() == others
    };
    let names = rankings.first().filter(|_| rankings.len() == cases)?.behind.iter().map(|behind| behind.arm);
    let mut slowest = names.filter(|name| rankings.iter().all(|ranking| of(ranking, name)));
    slowest.next()
}

fn in_cases(some: usize, all: usize) -> String {
    if some == all { format!("in all {all} cases") } else { format!("in {some} of {all} cases") }
}
