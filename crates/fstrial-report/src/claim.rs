//! A claim with its answer: the original statement and figures, the measurement here, and the verdict on each of its
//! parts.

use super::{evidence, numbers, plain, plain_lines, verdict};
use anstyle::{AnsiColor, Style};
use fstrial_model::{
    claim::{Bound, Claim, ClaimQuestion, Number, OriginalTable, Part},
    metric::Metric,
};
use fstrial_run::{
    claim::{ClaimVerdict, of_parts},
    claim_words,
    contrast::{Assay, ContrastState, Outcome},
    evidence::{TrialEvidence, explains},
    judge::Judge,
    plan::{Plan, threads_in_words},
};
use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Limit of the failures printed with a claim that they leave undecided.
const MAX_FAILURES: usize = 3;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClaimReport {
    pub id: String,
    pub statement: String,
    /// Author, date and publication, in one line.
    pub source: String,
    /// The original hardware and software.
    pub setup: String,
    /// The original figures in a few words.
    pub said: String,
    /// The day of the last change of the expectations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed: Option<Date>,
    pub verdict: ClaimVerdict,
    /// The same as text; the claim's own words if it has some.
    pub answer: String,
    /// Scope and limits of the verdict.
    pub notes: Vec<String>,
    /// The replacements of features that this kernel lacks.
    pub substituted: Vec<String>,
    /// The scaling to this machine.
    pub scaled: Vec<String>,
    pub parts: Vec<PartReport>,
    /// Tables and curves of the source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<OriginalTable>,
}

/// A part of a claim with its answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PartReport {
    /// Its subject, as text: `xfs @ 4 / ext4 @ 4`.
    pub subject: String,
    /// Its expectation, as text: `above 1.3`; none for a question without one, or if the subject contains it.
    pub expected: Option<String>,
    /// The part in its author's words.
    pub says: Option<String>,
    /// True if it is about a planted cause.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub planted: bool,
    /// Interpretation of the source's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reading: Option<String>,
    /// The same figure then.
    pub then: Option<Number>,
    /// Kind of the figure: `ratio`, `factor for each doubling`, or the unit of an amount; none if it is not one figure.
    pub figure: Option<String>,
    pub measured: Option<f64>,
    pub interval: Option<(f64, f64)>,
    /// The result if it is not one figure: the leader in each place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaders: Option<String>,
    /// Rounds it rests on.
    pub rounds: usize,
    /// Range of total rounds within which a decision is likely, if there is none.
    pub rounds_needed: Option<(u64, u64)>,
    /// Knowledge without a verdict: the distance between the two.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub known: String,
    pub verdict: ClaimVerdict,
}

/// The report of a trial's claim, on its kernel and device. `is_whole`: the trial came to its end.
pub fn report(
    plan: &Plan,
    judge: Option<&Judge<'_>>,
    [kernel, device]: &[String; 2],
    failures: &[String],
    is_whole: bool,
) -> Option<ClaimReport> {
    let claim = plan.trial.claim.as_deref()?;
    let states = judge.map(Judge::states).unwrap_or_default();
    let parts: Vec<PartReport> = match claim.question {
        true => states.iter().filter(|state| state.metric == Metric::Throughput).map(of_question).collect(),
        false => (0..plan.parts.len()).map(|index| part_report(plan, judge, &states, index)).collect(),
    };
    let found = judge.and_then(Judge::claim).unwrap_or(ClaimVerdict::Undecided);
    let found = if found == ClaimVerdict::Measured && !is_whole { ClaimVerdict::Undecided } else { found };
    let mut notes = judge
        .filter(|_| found == ClaimVerdict::NotTestable)
        .map(|judge| reasons(plan, judge))
        .unwrap_or_default();
    let is_short =
        judge.is_some_and(|judge| (0..plan.parts.len()).any(|part| judge.part_lacks_processors(part)));
    if let Some(cpus) = claim.cpus.filter(|_| is_short) {
        notes.push(format!(
            "not to see an effect on {} processors does not count: it takes {cpus} processors to decide",
            plan.cpus
        ));
    }
    notes.extend(verdict::unseen_stalls(states.iter()));
    if found == ClaimVerdict::Undecided {
        notes.extend(failures.iter().take(MAX_FAILURES).cloned());
    }
    let others = judge.and_then(|judge| neighbours(plan, judge));
    if found == ClaimVerdict::Insensitive {
        match &others {
            Some(line) => notes.push(format!("{line}: levels can be compared on a quieter machine only")),
            None if is_short => {}
            None => notes.extend(blind(&states, &parts)),
        }
    } else if found == ClaimVerdict::Undecided
        || judge.is_some_and(|judge| (0..plan.parts.len()).any(|part| judge.part_rests_on_a_control(part)))
    {
        // Controls are reported with all findings of no effect, and with open ones.
        notes.extend(verdict::control_lines(&states));
    }
    let is_told = !matches!(found, ClaimVerdict::Insensitive | ClaimVerdict::Undecided);
    let others = others.filter(|_| is_told);
    notes.extend(others.map(|line| format!("{line}; the finding holds even if all of it was on one side")));
    notes.push(format!("this speaks for Linux {kernel}, {device}, {}", size_of(claim)));
    notes.extend(claim.caveat.clone());
    Some(counted(ClaimReport {
        substituted: claim.substituted.clone(),
        scaled: claim.scaled.clone(),
        parts,
        ..without_trial(claim, found, notes)
    }))
}

/// With the parts that are known in its answer, where they do not agree or are not all.
fn counted(report: ClaimReport) -> ClaimReport {
    let claimed = report.parts.iter().filter(|part| !part.planted);
    match counts(report.verdict, &claimed.map(|part| part.verdict).collect::<Vec<_>>()) {
        Some(counts) => {
            let answer = format!("{} ({counts})", report.verdict.words());
            ClaimReport { answer, ..report }
        }
        None => report,
    }
}

/// Number of known parts, if a claim is known in part: `3 of 5`, `2 of 4 reversed`.
fn counts(verdict: ClaimVerdict, parts: &[ClaimVerdict]) -> Option<String> {
    let count = |verdict| parts.iter().filter(|found| **found == verdict).count();
    let (all, open) = (parts.len(), count(ClaimVerdict::Undecided));
    match verdict {
        ClaimVerdict::PartlyConfirmed => {
            let open = if open > 0 { format!(", {open} open") } else { String::new() };
            Some(format!("{} of {all}{open}", count(ClaimVerdict::Confirmed)))
        }
        ClaimVerdict::Undecided => {
            let unknown = [ClaimVerdict::Undecided, ClaimVerdict::Insensitive, ClaimVerdict::NotTestable];
            let known: Vec<_> = parts.iter().filter(|found| !unknown.contains(found)).collect();
            let first = known.first().filter(|_| known.len() < all)?;
            let is_one = known.iter().all(|found| found == first);
            Some(format!(
                "{} of {all} {}",
                known.len(),
                if is_one { first.words() } else { "not as claimed" }
            ))
        }
        ClaimVerdict::Smaller | ClaimVerdict::NoDifference | ClaimVerdict::Reversed => {
            let hidden = [ClaimVerdict::Insensitive, ClaimVerdict::NotTestable];
            let is_part = parts.iter().any(|found| hidden.contains(found));
            is_part
                .then(|| format!("{} of {all}", parts.iter().filter(|found| !hidden.contains(found)).count()))
        }
        _ => None,
    }
}

/// With the causes that its parts expect, as far as observed runs name them.
pub fn with_causes(
    report: ClaimReport,
    plan: &Plan,
    states: &[ContrastState],
    seen: &TrialEvidence,
) -> ClaimReport {
    let Some(claim) = plan.trial.claim.as_deref() else { return report };
    if !matches!(report.verdict, ClaimVerdict::Confirmed | ClaimVerdict::PartlyConfirmed) {
        return report;
    }
    let ClaimReport { verdict, mut notes, substituted, scaled, mut parts, .. } = report;
    let claimed = plan.parts.iter().zip(&mut parts).filter_map(|(of, part)| {
        let because = of.part.because.as_deref().filter(|_| part.verdict == ClaimVerdict::Confirmed)?;
        Some((because, of.contrasts.iter().find(|at| explains(plan, &plan.contrasts[**at])), part))
    });
    for (because, at, part) in claimed {
        let explanation = at.map(|at| evidence::explanation(plan, *at, &states[*at], seen));
        part.verdict = match explanation.as_ref().and_then(|it| evidence::names(it, because)) {
            Some(true) => ClaimVerdict::Confirmed,
            Some(false) => ClaimVerdict::Smaller,
            None => ClaimVerdict::Undecided,
        };
        notes.push(explanation.as_ref().and_then(evidence::because).unwrap_or_else(|| {
            format!("{}: observed runs do not name one cause of this difference", part.subject)
        }));
    }
    let found = of_parts(parts.iter().map(|part| (part.verdict, part.planted))).unwrap_or(verdict);
    counted(ClaimReport { notes, substituted, scaled, parts, ..without_trial(claim, found, Vec::new()) })
}

/// The report of a failed trial: its undecided parts are not reported as open.
pub fn failed(report: ClaimReport) -> ClaimReport {
    if report.verdict != ClaimVerdict::Undecided {
        return report;
    }
    let verdict = ClaimVerdict::NotTestable;
    let mut notes = report.notes;
    notes.insert(0, "its trial failed before it was decided".into());
    ClaimReport { verdict, answer: verdict.words().into(), notes, ..report }
}

/// An answer of earlier in the words of a claim as it is written today.
pub fn reworded(report: ClaimReport, claim: &Claim) -> ClaimReport {
    let ClaimReport { verdict, notes, substituted, scaled, parts, .. } = report;
    counted(ClaimReport { notes, substituted, scaled, parts, ..without_trial(claim, verdict, Vec::new()) })
}

/// The report of an untested claim, with notes on it.
pub fn without_trial(claim: &Claim, verdict: ClaimVerdict, notes: Vec<String>) -> ClaimReport {
    ClaimReport {
        id: claim.id.clone(),
        statement: claim.statement.clone(),
        source: source(claim),
        setup: claim.setup.clone(),
        said: claim.said.clone(),
        fixed: claim.fixed,
        verdict,
        answer: answer(claim, verdict),
        notes,
        substituted: Vec::new(),
        scaled: Vec::new(),
        parts: Vec::new(),
        tables: claim.tables.clone(),
    }
}

/// The reasons of arms for unsupported work.
fn reasons(plan: &Plan, judge: &Judge<'_>) -> Vec<String> {
    let cells = plan.parts.iter().flat_map(|part| &part.contrasts).flat_map(|at| plan.contrasts[*at].cells());
    let mut reasons: Vec<String> = Vec::new();
    for cell in cells {
        let reason = judge.unsupported(cell).map(|reason| format!("{}: {reason}", plan.arm_name(cell)));
        reasons.extend(reason.filter(|reason| !reasons.contains(reason)));
    }
    reasons
}

/// The expectations of a trial's claim, a line for each part: `xfs @ 4 / xfs @ 1 above 2; 2.01 then`.
pub fn expectations(plan: &Plan) -> Vec<String> {
    let line = |part: &Part| {
        let expected = expected(plan, part).map_or_else(String::new, |expected| format!(" {expected}"));
        let then = part.then.as_ref().map_or_else(String::new, |then| format!("; {then} then"));
        let says = part.says.as_ref().map_or_else(String::new, |says| format!(" ({says})"));
        format!("{}{expected}{then}{says}", claim_words::subject(plan, part))
    };
    plan.parts.iter().map(|claimed| line(&claimed.part)).collect()
}

/// The amounts a verdict speaks for, as far as the claim was scaled.
fn size_of(claim: &Claim) -> String {
    let scaled = claim.scaled.join(", ");
    if scaled.is_empty() { "and the amounts of its workloads".into() } else { scaled }
}

/// Author, date and publication: `Dave Chinner, 2012-03, MySQL Performance Blog`.
pub fn source(claim: &Claim) -> String {
    let parts = [&claim.author, &claim.date, &claim.place];
    parts.into_iter().filter(|part| !part.is_empty()).map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn answer(claim: &Claim, verdict: ClaimVerdict) -> String {
    let own = match verdict {
        ClaimVerdict::Confirmed => &claim.answers.confirmed,
        ClaimVerdict::Reversed => &claim.answers.reversed,
        ClaimVerdict::NoDifference => &claim.answers.no_difference,
        ClaimVerdict::Smaller => &claim.answers.smaller,
        ClaimVerdict::Measured
        | ClaimVerdict::Undecided
        | ClaimVerdict::PartlyConfirmed
        | ClaimVerdict::Insensitive
        | ClaimVerdict::NotTestable => &None,
    };
    own.clone().unwrap_or_else(|| verdict.words().into())
}

/// A contrast of a question, which expects nothing.
fn of_question(state: &ContrastState) -> PartReport {
    let level = threads_in_words(state.threads);
    let phase = if state.phase.is_empty() { String::new() } else { format!(", {}", state.phase) };
    PartReport {
        subject: format!("{} / {} in {}{phase} at {level}", state.a, state.b, state.workload),
        expected: None,
        says: None,
        planted: false,
        reading: None,
        then: None,
        figure: Some("ratio".into()),
        measured: state.ratio,
        interval: state.interval,
        leaders: None,
        rounds: state.rounds,
        rounds_needed: None,
        known: String::new(),
        verdict: ClaimVerdict::Measured,
    }
}

fn part_report(plan: &Plan, judge: Option<&Judge<'_>>, states: &[ContrastState], index: usize) -> PartReport {
    let claimed = &plan.parts[index];
    // With several contrasts that are not of one figure there is no one ratio to show.
    let is_one = !matches!(claimed.part.question, ClaimQuestion::NoSingleWinner(_));
    let verdict = judge.map_or(ClaimVerdict::Undecided, |judge| judge.part(index));
    // A figure on the other side of 1, or at it, was decided by the question about the direction: its figures count.
    let decided_by = usize::from(matches!(verdict, ClaimVerdict::Reversed | ClaimVerdict::NoDifference));
    let contrast = claimed.contrasts.get(decided_by).or_else(|| claimed.contrasts.first());
    let state = contrast.filter(|_| is_one).and_then(|index| states.get(*index));
    let watched = || {
        let judge = judge?;
        claimed.watched.first().map(|cell| judge.samples(*cell, 0).len())
    };
    let least = || claimed.contrasts.iter().filter_map(|index| Some(states.get(*index)?.rounds)).min();
    let is_open_ratio = is_one && verdict == ClaimVerdict::Undecided;
    let requested = claimed.contrasts.iter().filter_map(|index| states.get(*index)).filter(|_| is_open_ratio);
    let known = requested.map(|state| verdict::known(state.within_percent)).find(|known| !known.is_empty());
    PartReport {
        subject: claim_words::subject(plan, &claimed.part),
        expected: expected(plan, &claimed.part),
        says: claimed.part.says.clone(),
        planted: claimed.part.planted,
        reading: claimed.part.reading.clone(),
        then: claimed.part.then.clone(),
        figure: is_one.then(|| figure(plan, &claimed.part)).flatten(),
        measured: state.and_then(|state| state.ratio),
        interval: state.and_then(|state| state.interval),
        leaders: judge.and_then(|_| leaders(plan, states, index)),
        rounds: state.map(|state| state.rounds).or_else(watched).or_else(least).unwrap_or(0),
        rounds_needed: state
            .and_then(|state| state.rounds_needed)
            .filter(|_| verdict == ClaimVerdict::Undecided),
        known: known.unwrap_or_default(),
        verdict,
    }
}

/// The unbeaten arms, comparison by comparison: `seeks: xfs; postmark: ext4 or xfs`.
fn leaders(plan: &Plan, states: &[ContrastState], index: usize) -> Option<String> {
    let claimed = &plan.parts[index];
    let ClaimQuestion::NoSingleWinner(groups) = &claimed.part.question else { return None };
    let mut pairs = claimed.contrasts.iter();
    let mut said = Vec::new();
    for group in groups {
        let mut leading: Vec<&str> =
            group.iter().map(|spot| plan.trial.arms[spot.arm].name.as_str()).collect();
        // The contrasts of a group are its pairs, and are in the order of the groups.
        for index in pairs.by_ref().take(group.len() * group.len().saturating_sub(1) / 2) {
            let state = &states[*index];
            match state.verdict {
                Outcome::Faster => leading.retain(|arm| *arm != state.b),
                Outcome::Slower => leading.retain(|arm| *arm != state.a),
                Outcome::Equivalent
                | Outcome::Insensitive
                | Outcome::Undecided
                | Outcome::Failed
                | Outcome::Unsupported => {}
            }
        }
        let name = claim_words::spot_name(plan, group.first()?);
        let place = name.split_once(" in ").map_or(name.as_str(), |(_, place)| place);
        said.push(format!("{place}: {}", leading.join(" or ")));
    }
    Some(said.join("; "))
}

/// Note on levels compared, or an amount measured, under other programs' load.
fn neighbours(plan: &Plan, judge: &Judge<'_>) -> Option<String> {
    let taken = (0..plan.parts.len()).filter_map(|part| judge.lost_to_others(part));
    let share = taken.max_by(f64::total_cmp)?;
    Some(format!(
        "other programs took {:.0} % of the processors while it ran, which may be nothing to one thread and much to many, or the \
         other way round",
        100.0 * share
    ))
}

/// The reason why no verdict is possible, and the requirement for one.
fn blind(states: &[ContrastState], parts: &[PartReport]) -> Vec<String> {
    let found = |state: &ContrastState| state.control.map(|control| control.found);
    // With the other lever it may have been seen.
    let was_seen = |state: &ContrastState| {
        fn figure(of: &ContrastState) -> (&str, &str, &str, u16, Metric) {
            (&of.b, &of.workload, &of.phase, of.threads, of.metric)
        }
        states.iter().any(|other| found(other) == Some(Assay::Seen) && figure(other) == figure(state))
    };
    let unseen = states
        .iter()
        .filter(|state| matches!(found(state), Some(Assay::Unseen | Assay::Overdosed)) && !was_seen(state));
    let planted = parts.iter().filter(|part| part.planted && part.verdict == ClaimVerdict::Insensitive);
    let planted = planted.map(|part| {
        let what = part.says.as_ref().unwrap_or(&part.subject);
        format!("planted here and not detected: {what}")
    });
    let lines: Vec<String> = unseen.filter_map(verdict::control_line).chain(planted).collect();
    if lines.is_empty() {
        let words = "the arms ran at the limit of the modelled device, so equality says nothing about them; use a \
             device with a higher limit, or a lighter load";
        return vec![words.into()];
    }
    lines.into_iter().map(|line| format!("{line}; it takes another device, or another load")).collect()
}

/// Kind of a part's figure.
fn figure(plan: &Plan, part: &Part) -> Option<String> {
    match &part.question {
        ClaimQuestion::Ratio { .. } | ClaimQuestion::Better { .. } => Some("ratio".into()),
        ClaimQuestion::Slope { .. } => Some("factor for each doubling".into()),
        ClaimQuestion::Amount { cell, .. } => {
            Some(part.metric.unit(&plan.results[cell.workload][cell.result]).to_owned())
        }
        ClaimQuestion::Works(_) | ClaimQuestion::Fails(_) | ClaimQuestion::NoSingleWinner(_) => None,
    }
}

/// The expectation of a part, as text.
fn expected(plan: &Plan, part: &Part) -> Option<String> {
    let number = |value: f64| match (&part.question, figure(plan, part)) {
        (ClaimQuestion::Amount { .. }, Some(unit)) => numbers::figure(value, &unit),
        _ => numbers::plain(value),
    };
    let (bound, of) = match &part.question {
        ClaimQuestion::Ratio { bound, .. } | ClaimQuestion::Amount { bound, .. } => (bound, ""),
        ClaimQuestion::Slope { bound, .. } => (bound, " for each doubling"),
        ClaimQuestion::Better { .. } => return Some("better".into()),
        ClaimQuestion::Works(_) | ClaimQuestion::Fails(_) | ClaimQuestion::NoSingleWinner(_) => return None,
    };
    let because = part.because.as_ref().map_or_else(String::new, |cause| format!(" because of: {cause}"));
    Some(match bound {
        Bound::Above(value) => format!("above {}{of}{because}", number(*value)),
        Bound::Below(value) => format!("below {}{of}{because}", number(*value)),
        Bound::Within(fraction) => format!("within {}% of 1{of}", numbers::plain(fraction * 100.0)),
    })
}

impl PartReport {
    /// The measured figure, with its interval: `1.42 [1.38, 1.47]`.
    pub fn here(&self) -> String {
        let number = |value: f64| match self.figure.as_deref() {
            Some("ratio" | "factor for each doubling") => numbers::ratio_digits(value),
            Some(unit) => numbers::figure(value, unit),
            None => String::new(),
        };
        match self.measured {
            Some(value) => numbers::with_interval(value, self.interval, number),
            None if self.figure.is_none() => {
                self.leaders.clone().unwrap_or_else(|| self.verdict.words().into())
            }
            None => "—".into(),
        }
    }
}

impl ClaimReport {
    /// The measured figures of its parts, short, for a cell of a table.
    pub fn here(&self) -> String {
        match self.verdict {
            ClaimVerdict::NotTestable => self.notes.first().cloned().unwrap_or_default(),
            _ => match self.parts.as_slice() {
                [one] => one.here(),
                parts => {
                    let named = parts.iter().map(|part| format!("{}: {}", part.subject, part.here()));
                    named.collect::<Vec<_>>().join("; ")
                }
            },
        }
    }
}

pub fn style(verdict: ClaimVerdict) -> Style {
    match verdict {
        ClaimVerdict::Confirmed => AnsiColor::Green.on_default(),
        ClaimVerdict::Reversed | ClaimVerdict::NoDifference | ClaimVerdict::Smaller => {
            AnsiColor::Red.on_default()
        }
        ClaimVerdict::PartlyConfirmed => AnsiColor::Yellow.on_default(),
        ClaimVerdict::Measured => Style::new(),
        ClaimVerdict::Undecided | ClaimVerdict::Insensitive | ClaimVerdict::NotTestable => {
            Style::new().dimmed()
        }
    }
}

/// The claim and its answer, as text.
pub fn render(report: &ClaimReport) -> String {
    const BOLD: Style = Style::new().bold();
    const QUIET: Style = Style::new().dimmed();
    let mut out = String::new();
    let colour = style(report.verdict);
    let _ = writeln!(out, "{BOLD}{}{BOLD:#}  {colour}{}{colour:#}", plain(&report.id), plain(&report.answer));
    let _ = writeln!(out, "  {}", plain(&report.statement));
    let _ = writeln!(out, "  {QUIET}{}{QUIET:#}", plain(&report.source));
    if !report.said.is_empty() {
        let setup =
            if report.setup.is_empty() { String::new() } else { format!(" — {}", plain(&report.setup)) };
        let _ = writeln!(out, "  then: {}{QUIET}{setup}{QUIET:#}", plain(&report.said));
    }
    for (index, part) in report.parts.iter().enumerate() {
        out += &render_part(part, index == 0, report.parts.len() > 1);
    }
    for line in &report.substituted {
        let _ = writeln!(out, "  substituted: {}", plain(line));
    }
    for line in &report.notes {
        let _ = writeln!(out, "  {QUIET}{}{QUIET:#}", plain_lines(line, 4));
    }
    out
}

/// The same without colours and columns, one statement a line: the answer first.
pub fn lines(report: &ClaimReport) -> Vec<String> {
    let text = anstream::adapter::strip_str(&render(report)).to_string();
    let reported = text.lines().skip(1).map(|line| line.trim().to_owned());
    std::iter::once(plain(&format!("{}: {}", report.id, report.answer))).chain(reported).collect()
}

/// A part in one or two lines; its verdict is included if there are others.
fn render_part(part: &PartReport, is_first: bool, is_one_of_many: bool) -> String {
    const QUIET: Style = Style::new().dimmed();
    let mut out = String::new();
    let lead = match part.says.as_ref().filter(|_| is_one_of_many) {
        // The source's statement, which may differ from the result.
        Some(says) => {
            let _ = writeln!(out, "  claimed: {}", plain(says));
            "here: "
        }
        None if is_first => "here: ",
        None => "      ",
    };
    let colour = style(part.verdict);
    let mut words = match part.figure {
        Some(_) => format!("{} = {colour}{}{colour:#}", plain(&part.subject), plain(&part.here())),
        None => match &part.leaders {
            Some(leaders) => plain(&format!("{}; {leaders}", part.subject)),
            None => plain(&part.subject),
        },
    };
    let rounds = verdict::rounds_in_words(part.rounds);
    let more = part.rounds_needed.map_or_else(String::new, |needed| {
        format!(", a decision takes {} in all", verdict::rounds_range(needed))
    });
    words += &format!("{QUIET}, {rounds}{more}{}{QUIET:#}", part.known);
    let then = part.then.as_ref().map(|then| format!("{then} then"));
    let planted = if part.planted { " of the planted cause" } else { "" };
    let expected = part.expected.as_ref().map(|expected| format!("{expected} expected{planted}"));
    for said in [expected, then].into_iter().flatten() {
        words += &format!("; {}", plain(&said));
    }
    if is_one_of_many && part.verdict != ClaimVerdict::Measured {
        words += &format!(": {colour}{}{colour:#}", part.verdict.words());
    }
    let _ = writeln!(out, "  {lead}{words}");
    out
}

#[cfg(test)]
mod tests {
    use super::{ClaimVerdict::*, counts};

    #[test]
    fn verdict_counts_known_and_open_parts() {
        for (whole, parts, said) in [
            (PartlyConfirmed, vec![Confirmed, Reversed, Smaller], Some("1 of 3")),
            (PartlyConfirmed, vec![Confirmed, Reversed, Undecided], Some("1 of 3, 1 open")),
            (Undecided, vec![Reversed, Reversed, Undecided, Insensitive], Some("2 of 4 reversed")),
            (Undecided, vec![Smaller, NoDifference, Undecided], Some("2 of 3 not as claimed")),
            (Undecided, vec![Undecided, Insensitive], None),
            // The planted part is open.
            (Undecided, vec![Confirmed], None),
            (Confirmed, vec![Confirmed, Confirmed], None),
            (NoDifference, vec![NoDifference, Insensitive], Some("1 of 2")),
            (Smaller, vec![Smaller, NoDifference, NotTestable], Some("2 of 3")),
            (Reversed, vec![Reversed, Reversed], None),
        ] {
            assert_eq!(counts(whole, &parts).as_deref(), said, "{parts:?}");
        }
    }
}
