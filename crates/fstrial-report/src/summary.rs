//! The answer in a few lines: a bottom line, then the leader of each workload and level, those behind, and open
//! questions with their reasons. A pair of arms is named only by its verdict: an undecided comparison is never reported
//! as a result.

mod bottom;

use super::{
    document::{CellReport, Document, VerdictReport, WorkloadReport},
    evidence, numbers, table, verdict,
};
pub use bottom::{bottom_line, count};
use fstrial_model::metric::Metric;
use fstrial_run::{
    contrast::{ContrastState, Outcome, inverse},
    plan::threads_in_words,
};
use fstrial_stats::panel::LADDER;

/// A difference that an interval rules out is worth telling up to this size.
const NARROW: f64 = 0.15;
/// Rounds after which most questions that can be decided are.
const ROUNDS_OF_A_DECISION: u64 = 12;
/// Limit of undecided pairs listed one by one.
pub const MAX_OPEN: usize = 3;

/// Result of a workload at a level.
#[derive(Debug, Clone)]
pub struct Ranking<'a> {
    /// The workload, or one of its phases.
    pub workload: &'a WorkloadReport,
    pub threads: u16,
    /// Arms without another one shown to be ahead of them, in their order; never empty.
    pub leading: Vec<&'a str>,
    /// Comparison of those with each other.
    pub among: Among,
    /// The others, each with an arm shown to be ahead of it.
    pub behind: Vec<Behind<'a>>,
    /// Pairs with a leading arm that are neither decided nor equivalent.
    pub open: Vec<Open<'a>>,
    /// Arms that failed, or cannot do it.
    pub out: Vec<&'a str>,
    /// True if any two of its arms are of unequal durability.
    pub unequal: bool,
    /// With a baseline: the other arm against it, if one of them is ahead. That alone makes neither the leader of all
    /// arms.
    pub against: Option<Behind<'a>>,
}

/// Comparison of the leading arms with each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Among {
    /// There is one.
    Alone,
    /// Every two were found equivalent within the band.
    Equivalent,
    /// The same, and they all ran at the limit of the modelled device.
    AtLimit,
    /// Every two are the same or so near to each other that either will do: within this many percent. Whether they all
    /// ran at the limit of the modelled device.
    Near(f64, bool),
    /// Some pair is not decided.
    Open,
}

/// An arm shown to be behind another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Behind<'a> {
    pub arm: &'a str,
    /// One shown to be ahead of it: a leading one, if there is such a verdict.
    pub of: &'a str,
    /// Its share of the other's figure, and the interval of its verdict.
    pub ratio: Option<Ratio>,
    /// True if tables and verdicts have this ratio inverted.
    pub is_inverted: bool,
}

/// Two arms that were compared without a verdict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Open<'a> {
    pub a: &'a str,
    pub b: &'a str,
    /// `a`'s share of `b`'s figure so far.
    pub ratio: Option<Ratio>,
    pub less_is_better: bool,
    pub why: Why,
}

/// Reason why two arms are undecided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Why {
    /// There is no interval after these rounds.
    Few(usize),
    /// The interval rules out a difference of more than this share.
    Narrow(f64),
    /// It was shown to be within this many percent.
    Within(f64),
    /// Its interval excludes 1, but not at the level required for this many questions. With the rounds for a decision.
    Likely(Option<(u64, u64)>),
    /// One is ahead in a typical round, which the ratio of totals does not confirm.
    NotInAll,
    /// A decision is likely after this many rounds more.
    Rounds((u64, u64)),
    /// More rounds would hardly decide it, as far as can be seen.
    Hopeless,
    /// A slowdown that was planted was not seen either; true: both ran at the limit of the modelled device.
    Blind(bool),
}

/// A ratio with its interval, if there is one yet.
pub type Ratio = (f64, Option<(f64, f64)>);

/// The bottom line, then one line for each workload and level, and the limits of the verdicts.
pub fn lines(document: &Document) -> Vec<String> {
    with_losses(document, lines_on_speed(document))
}

fn lines_on_speed(document: &Document) -> Vec<String> {
    let rankings = rankings(document);
    let all = rankings.iter().map(Ranking::line).chain(requested(document));
    // A claim includes the last one.
    let limits = if document.claim.is_none() { limits(document) } else { Vec::new() };
    bottom_line(document).into_iter().chain(all).chain(limits).collect()
}

/// Verdicts on metrics requested in addition to throughput.
fn requested(document: &Document) -> Vec<String> {
    let is_shown = |report: &&VerdictReport| {
        let state = &report.contrast;
        state.holds_open && state.metric != Metric::Throughput && state.verdict.is_decided()
    };
    in_full(document, |workload| workload.verdicts.iter().filter(is_shown).collect())
}

/// Adds to every sentence on speed that names an arm that the arm loses data, so that neither is quoted without the other.
fn with_losses(document: &Document, lines: Vec<String>) -> Vec<String> {
    let is_of_a_name = |char: char| char.is_alphanumeric() || "_-:=,./".contains(char);
    let names = |line: &str, name: &str| {
        line.match_indices(name).any(|(at, _)| {
            let (before, after) = (&line[..at], &line[at + name.len()..]);
            // A comma or a colon may end a clause.
            let rest =
                after.strip_prefix([',', ':', '.']).filter(|rest| rest.is_empty() || rest.starts_with(' '));
            !before.ends_with(is_of_a_name) && !rest.unwrap_or(after).starts_with(is_of_a_name)
        })
    };
    let losses = document.losses();
    let add = |line: String| {
        let of_it = losses.iter().filter(|(name, _)| names(&line, name)).map(|(_, loss)| loss.as_str());
        std::iter::once(line.as_str()).chain(of_it).collect::<Vec<_>>().join("; ")
    };
    lines.into_iter().map(add).collect()
}

/// Verdicts in full, each with the workload that it is of.
fn in_full<'a>(
    document: &'a Document,
    of: impl Fn(&'a WorkloadReport) -> Vec<&'a VerdictReport>,
) -> Vec<String> {
    let words = |workload: &'a WorkloadReport| {
        let line = |report: &VerdictReport| {
            format!("{}: {}", workload.title(), table::verdict_line(document, report))
        };
        of(workload).into_iter().map(line).collect::<Vec<_>>()
    };
    document.workloads.iter().flat_map(words).collect()
}

/// The result, in a line: for a single workload with its name. None without a result.
pub fn headline(document: &Document) -> Option<String> {
    let result = in_short(document, MAX_OPEN).into_iter().next()?;
    let main: Vec<&WorkloadReport> =
        document.workloads.iter().filter(|workload| !workload.secondary).collect();
    Some(match main.as_slice() {
        [workload] => match workload.levels().as_slice() {
            [level] if *level > 0 => format!("{}, {}: {result}", workload.title(), threads_in_words(*level)),
            _ => format!("{}: {result}", workload.title()),
        },
        _ => result,
    })
}

/// The short answer, next to a table with the rest: the bottom line, or the winner; open questions, and rates that keep
/// a promise. Of the open ones at most this many lines.
pub fn in_short(document: &Document, most_open: usize) -> Vec<String> {
    let causes = document.explanations.iter().filter_map(evidence::because).take(MAX_OPEN);
    with_losses(document, in_short_on_speed(document, most_open)).into_iter().chain(causes).collect()
}

fn in_short_on_speed(document: &Document, most_open: usize) -> Vec<String> {
    let rankings = rankings(document);
    let mut further = leads_in_words(document);
    further.extend(told_along(document));
    // The trial may have to decide something else alone.
    let held = |report: &&VerdictReport| report.contrast.holds_open;
    let is_other = |report: &VerdictReport| report.contrast.metric != Metric::Throughput;
    let all = in_full(document, |workload| workload.verdicts.iter().filter(held).collect());
    let mut states = document.workloads.iter().flat_map(|workload| &workload.verdicts).filter(held);
    if !all.is_empty() && states.all(is_other) {
        return all.into_iter().chain(further).collect();
    }
    if rankings.is_empty() && document.has_begun && document.claim.is_none() {
        let failed =
            document.workloads.iter().flat_map(|workload| &workload.cells).all(|cell| cell.runs == 0);
        further.push(if failed { "no run has succeeded" } else { "there is nothing to compare" }.into());
    }
    let Some(bottom) = bottom_line(document) else {
        let place = |one: &Ranking<'_>| (one.workload.title(), one.threads);
        let is_one = rankings.windows(2).all(|two| place(&two[0]) == place(&two[1]));
        return rankings
            .iter()
            .map(|one| if is_one && !one.workload.less_is_better { one.reported() } else { one.line() })
            .chain(further)
            .collect();
    };
    let is_of_interest = |one: &&Ranking<'_>| one.among == Among::Open || one.workload.promise.is_some();
    let mut open: Vec<String> = rankings.iter().filter(is_of_interest).map(Ranking::line).collect();
    if open.len() > most_open {
        open.truncate(most_open);
        open.push("…".into());
    }
    std::iter::once(bottom).chain(open).chain(further).collect()
}

/// Findings on the accompanying figures, if the deciding ones are open: else they would go unread.
fn told_along(document: &Document) -> Vec<String> {
    let is_found = |report: &&VerdictReport| {
        report.contrast.metric == Metric::Throughput
            && matches!(report.contrast.verdict, Outcome::Faster | Outcome::Slower)
    };
    let (along, main): (Vec<_>, Vec<_>) = document.workloads.iter().partition(|workload| workload.secondary);
    if main.iter().flat_map(|workload| &workload.verdicts).any(|report| is_found(&report)) {
        return Vec::new();
    }
    let words = |workload: &WorkloadReport| {
        let line = |state: &ContrastState| {
            let ratio = state.ratio.map_or_else(String::new, numbers::ratio);
            format!("{}: {} is {ratio} {}{}", workload.title(), state.a, state.b, spaced(state.interval))
        };
        workload.verdicts.iter().filter(is_found).map(|report| line(&report.contrast)).collect::<Vec<_>>()
    };
    along.into_iter().flat_map(words).collect()
}

/// An interval after something, if there is one.
fn spaced(interval: Option<(f64, f64)>) -> String {
    interval.map_or_else(String::new, |ends| format!(" {}", numbers::ratio_interval(ends)))
}

/// Differences between an arm's leads at two places, if requested.
fn leads_in_words(document: &Document) -> Vec<String> {
    let is_main = |report: &&VerdictReport| report.contrast.metric == Metric::Throughput;
    in_full(document, |workload| workload.leads.iter().filter(is_main).collect())
}

/// True if every arm was compared with one only.
pub fn has_baseline(document: &Document) -> bool {
    document.workloads.iter().any(|workload| workload.has_baseline)
}

/// Limits of all verdicts: rare stalls, and without a control the detectability of a difference.
pub fn limits(document: &Document) -> Vec<String> {
    let states = || document.workloads.iter().flat_map(WorkloadReport::states);
    let is_equivalent = |state: &ContrastState| state.near || state.verdict == Outcome::Equivalent;
    let is_controlled = document.workloads.iter().any(|workload| !workload.controls.is_empty());
    let untried = (states().any(is_equivalent) && !is_controlled).then(|| {
        "whether a difference would show where arms are equivalent was not tried; --set trial.control=true plants one"
            .to_owned()
    });
    verdict::unseen_stalls(states()).into_iter().chain(untried).collect()
}

/// Results of each workload at each level, if anything is known.
pub fn rankings(document: &Document) -> Vec<Ranking<'_>> {
    document.workloads.iter().flat_map(rankings_of).collect()
}

/// Results of a workload at each of its levels, if anything is known; empty if it is reported along with another,
/// deciding result.
pub fn rankings_of(workload: &WorkloadReport) -> Vec<Ranking<'_>> {
    if workload.secondary {
        return Vec::new();
    }
    workload.levels().into_iter().flat_map(|threads| of_level(workload, threads)).collect()
}

/// One; with leads one for each place, as arms at different places are not compared; with a baseline one for each arm
/// against it.
fn of_level(workload: &WorkloadReport, threads: u16) -> Vec<Ranking<'_>> {
    workload.places().into_iter().flat_map(|place| of_level_at(workload, threads, place)).collect()
}

fn of_level_at<'a>(workload: &'a WorkloadReport, threads: u16, place: Option<&str>) -> Vec<Ranking<'a>> {
    let is_there = |cell: &&CellReport| place.is_none() || cell.place.as_deref() == place;
    let cells: Vec<&CellReport> =
        workload.cells.iter().filter(|cell| cell.threads == threads).filter(is_there).collect();
    let is_of_these = |report: &&VerdictReport| {
        let state = &report.contrast;
        state.threads == threads
            && state.metric == Metric::Throughput
            && cells.iter().any(|cell| cell.arm == state.a)
    };
    let reports: Vec<&VerdictReport> = workload.verdicts.iter().filter(is_of_these).collect();
    if !workload.has_baseline {
        return ranking(workload, threads, cells, &reports).into_iter().collect();
    }
    let against = |report: &&'a VerdictReport| {
        let is_of_it = |cell: &&&CellReport| [&report.contrast.a, &report.contrast.b].contains(&&cell.arm);
        let ranking =
            ranking(workload, threads, cells.iter().filter(is_of_it).copied().collect(), &[report])?;
        Some(ranking.against(&report.contrast))
    };
    reports.iter().filter_map(against).collect()
}

fn ranking<'a>(
    workload: &'a WorkloadReport,
    threads: u16,
    cells: Vec<&'a CellReport>,
    reports: &[&'a VerdictReport],
) -> Option<Ranking<'a>> {
    let verdicts: Vec<&ContrastState> = reports.iter().map(|report| &report.contrast).collect();
    if verdicts.iter().all(|state| state.ratio.is_none()) {
        return None;
    }
    let (able, out): (Vec<_>, Vec<_>) =
        cells.into_iter().partition(|cell| !cell.failed && cell.unsupported.is_none());
    let (behind, leading): (Vec<&str>, Vec<&str>) =
        able.iter().map(|cell| cell.arm.as_str()).partition(|arm| ahead_of(arm, &verdicts).next().is_some());
    let is_at_limit = |arm: &str| able.iter().any(|cell| cell.arm == arm && cell.at_limit);
    leading.first()?;
    Some(Ranking {
        workload,
        threads,
        among: among(&leading, &verdicts, &is_at_limit),
        behind: behind.into_iter().map(|arm| behind_of(arm, &leading, &verdicts)).collect(),
        open: open(&leading, &verdicts, &is_at_limit),
        out: out.iter().map(|cell| cell.arm.as_str()).collect(),
        unequal: reports.iter().any(|report| report.unequal_durability.is_some()),
        against: None,
        leading,
    })
}

/// True for a verdict that this arm is ahead of another.
fn is_ahead(arm: &str, state: &ContrastState) -> bool {
    (state.a == arm && state.verdict == Outcome::Faster)
        || (state.b == arm && state.verdict == Outcome::Slower)
}

/// The arms shown to be ahead of this one.
fn ahead_of<'a>(arm: &str, verdicts: &[&'a ContrastState]) -> impl Iterator<Item = &'a str> {
    verdicts.iter().filter_map(move |state| match state.verdict {
        Outcome::Slower if state.a == arm => Some(state.b.as_str()),
        Outcome::Faster if state.b == arm => Some(state.a.as_str()),
        _ => None,
    })
}

fn behind_of<'a>(arm: &'a str, leading: &[&str], verdicts: &[&'a ContrastState]) -> Behind<'a> {
    let mut ahead = ahead_of(arm, verdicts);
    let first = ahead.next().unwrap_or(arm);
    let of = std::iter::once(first).chain(ahead).find(|other| leading.contains(other)).unwrap_or(first);
    let is_inverted = verdicts.iter().any(|state| (state.a.as_str(), state.b.as_str()) == (of, arm));
    Behind { arm, of, ratio: ratio_to(verdicts, arm, of), is_inverted }
}

fn among(leading: &[&str], verdicts: &[&ContrastState], is_at_limit: &dyn Fn(&str) -> bool) -> Among {
    let between = |state: &&&ContrastState| leading.contains(&&*state.a) && leading.contains(&&*state.b);
    let pairs: Vec<_> = verdicts.iter().filter(between).collect();
    let all = leading.len() * (leading.len() - 1) / 2;
    let is_same = |state: &ContrastState| state.verdict == Outcome::Equivalent;
    let are_at_limit = || leading.iter().all(|arm| is_at_limit(arm));
    // Verdicts of few rounds may contradict each other; an arm ahead of none leads nothing.
    if leading.len() == 1 && verdicts.iter().any(|state| is_ahead(leading[0], state)) {
        Among::Alone
    } else if pairs.is_empty() || pairs.len() < all {
        Among::Open
    } else if !pairs.iter().all(|state| is_same(state)) {
        let near = pairs.iter().filter(|state| !is_same(state)).map(|state| near_percent(state));
        let widest = near.reduce(|one, other| Some(one?.max(other?))).flatten();
        widest.map_or(Among::Open, |widest| Among::Near(widest, are_at_limit()))
    } else if are_at_limit() {
        Among::AtLimit
    } else {
        Among::Equivalent
    }
}

/// Distance in percent of two undecided arms, if they are close enough for either to do.
fn near_percent(state: &ContrastState) -> Option<f64> {
    state.within_percent.filter(|_| state.near && state.verdict == Outcome::Undecided)
}

/// The pairs with an arm that leads that have a ratio and no verdict.
fn open<'a>(
    leading: &[&str],
    verdicts: &[&'a ContrastState],
    is_at_limit: &dyn Fn(&str) -> bool,
) -> Vec<Open<'a>> {
    let is_open = |state: &&&ContrastState| {
        matches!(state.verdict, Outcome::Undecided | Outcome::Insensitive)
            && (leading.contains(&state.a.as_str()) || leading.contains(&state.b.as_str()))
    };
    let open = |state: &&'a ContrastState| Open {
        a: &state.a,
        b: &state.b,
        ratio: state.ratio.map(|ratio| (ratio, state.interval)),
        less_is_better: state.less_is_better,
        why: why(state, is_at_limit(&state.a) && is_at_limit(&state.b)),
    };
    verdicts.iter().filter(is_open).map(open).collect()
}

fn why(state: &ContrastState, at_limit: bool) -> Why {
    let Some((low, high)) = state.interval else { return Why::Few(state.rounds) };
    if state.verdict == Outcome::Insensitive {
        return Why::Blind(at_limit);
    }
    let more = verdict::rounds_more(state);
    if state.waits_for_total {
        return Why::NotInAll;
    }
    if state.suggestive {
        return Why::Likely(more);
    }
    if let Some(percent) = state.within_percent {
        return Why::Within(percent);
    }
    let widest = (high - 1.0).abs().max((1.0 - low).abs());
    match more {
        _ if low < 1.0 && high > 1.0 && widest <= NARROW => Why::Narrow(widest),
        Some(rounds) => Why::Rounds(rounds),
        None => Why::Hopeless,
    }
}

impl Open<'_> {
    /// True if `a` looks better so far.
    fn is_ahead(&self) -> bool {
        self.ratio.is_some_and(|(ratio, _)| ratio > 1.0) != self.less_is_better
    }

    /// Probable state of `a`.
    fn likely(&self) -> &'static str {
        match (self.is_ahead(), self.less_is_better) {
            (true, false) => "faster",
            (false, false) => "slower",
            (true, true) => "less",
            (false, true) => "more",
        }
    }

    /// `xfs / ext4 1.61× [0.93, 2.80], open: a decision would take 14 rounds more`; `is_said`: without the leader's
    /// name.
    fn words(&self, is_said: bool) -> String {
        match self.why {
            Why::Within(_) if is_said => self.figures(),
            Why::Likely(more) if is_said => format!("{}{}", self.figures(), would_take(more, ", ")),
            _ => format!("{}, {}", self.figures(), self.reason()),
        }
    }

    fn figures(&self) -> String {
        let figures = self.ratio.map_or_else(String::new, |(ratio, interval)| {
            let less = if self.less_is_better { " (less is better)" } else { "" };
            format!(" {}{less}{}", numbers::ratio(ratio), spaced(interval))
        });
        format!("{} / {}{figures}", self.a, self.b)
    }

    fn reason(&self) -> String {
        match self.why {
            Why::Few(rounds) => format!("too few rounds ({rounds})"),
            Why::Within(percent) => format!("at most {percent:.0} % apart"),
            Why::Likely(more) => {
                format!("probably {}{}", self.likely(), would_take(more, "; "))
            }
            Why::Narrow(share) => {
                let result =
                    format!("no difference of more than {:.0} % found", (share * 100.0 - 1e-9).ceil());
                // The interval alone would suggest that either will do.
                let typical =
                    if share <= LADDER[0] { " in typical rounds, nor shown of all together" } else { "" };
                format!("{result}{typical}")
            }
            Why::Rounds(more) => {
                format!("open: a decision would take {}", verdict::more_in_words(more, None))
            }
            Why::NotInAll => "open: the ratio of totals does not confirm it".into(),
            Why::Hopeless => "open: a decision is out of reach at this noise".into(),
            Why::Blind(false) => "insensitive: the planted slowdown was not detected either".into(),
            Why::Blind(true) => {
                "both at the device's limit: on this volume the choice does not matter".into()
            }
        }
    }
}

impl<'a> Ranking<'a> {
    /// The same for one arm against the baseline, which is the second of the contrast.
    fn against(self, state: &'a ContrastState) -> Self {
        if self.among != Among::Alone {
            return self;
        }
        let ratio = state.ratio.map(|ratio| (ratio, state.interval));
        let against = Some(Behind { arm: &state.a, of: &state.b, ratio, is_inverted: false });
        Self { against, behind: Vec::new(), ..self }
    }

    /// The leaders, as text.
    pub fn leaders(&self) -> String {
        if let Some(against) = &self.against {
            return self.behind_words(against);
        }
        let names = listed(&self.leading);
        match self.among {
            Among::Alone => format!("{names} leads"),
            Among::Equivalent => format!("{names} are equivalent"),
            Among::AtLimit => {
                format!(
                    "{names} are equivalent, at the device's limit: on this volume the choice does not matter"
                )
            }
            Among::Near(percent, at_limit) => {
                let limit = if at_limit { ", at the device's limit" } else { "" };
                format!("{} will do: at most {percent:.0} % apart{limit}", either(&self.leading))
            }
            Among::Open => match self.open.iter().find(|pair| self.is_within(pair)) {
                Some(Open { why: Why::Blind(_), .. }) => format!("cannot distinguish {names}"),
                Some(pair) if self.leading.len() == 2 && matches!(pair.why, Why::Likely(_)) => {
                    let (first, second) = if pair.is_ahead() { (pair.a, pair.b) } else { (pair.b, pair.a) };
                    format!("{first} is probably ahead of {second}")
                }
                _ if self.leading.len() > 1 => format!("not decided between {names}"),
                _ => "not decided".into(),
            },
        }
    }

    /// True if both arms of a pair lead.
    fn is_within(&self, pair: &Open<'_>) -> bool {
        self.leading.contains(&pair.a) && self.leading.contains(&pair.b)
    }

    /// The undecided pairs, as text: leading ones first, those of too few rounds together.
    pub fn open_words(&self) -> Vec<String> {
        let mut pairs: Vec<&Open<'_>> = self.open.iter().collect();
        pairs.sort_by_key(|pair| !self.is_within(pair));
        let (few, known): (Vec<&Open<'_>>, Vec<_>) =
            pairs.into_iter().partition(|pair| matches!(pair.why, Why::Few(_)));
        // Of two leading arms, the first words of the line name them.
        let is_said = |pair: &Open<'_>| match pair.why {
            Why::Within(_) => matches!(self.among, Among::Near(..)) && self.is_within(pair),
            _ => self.leading.len() == 2 && self.is_within(pair),
        };
        let message = |pair: &&Open<'_>| pair.words(is_said(pair));
        // Of many close ones no pair is listed.
        let known: Vec<&Open<'_>> = match self.leading.len() {
            0..=2 => known,
            _ => known.into_iter().filter(|pair| !is_said(pair)).collect(),
        };
        let mut words: Vec<String> = known.iter().take(MAX_OPEN).map(message).collect();
        if known.len() > MAX_OPEN {
            words.push(format!("{} more pairs not decided", known.len() - MAX_OPEN));
        }
        if let Some(Open { why: Why::Few(rounds), .. }) = few.first() {
            let figures: Vec<String> = few.iter().take(MAX_OPEN).map(|pair| pair.figures()).collect();
            let more = if few.len() > MAX_OPEN { ", …" } else { "" };
            words.push(format!("too few rounds ({rounds}) for {}{more}", figures.join(", ")));
        }
        words
    }

    /// All of it in a line.
    fn line(&self) -> String {
        format!("{}, {}: {}", self.workload.title(), threads_in_words(self.threads), self.reported())
    }

    fn reported(&self) -> String {
        let mut parts: Vec<String> = self.kept().into_iter().collect();
        match self.leads_with() {
            Some(words) => parts.push(words),
            None => {
                parts.push(self.leaders());
                parts.extend(self.behind.iter().map(|behind| self.behind_words(behind)));
                parts.extend(self.last_but_one());
            }
        }
        parts.extend(self.open_words());
        if !self.out.is_empty() {
            parts.push(format!("without {}", self.out.join(" and ")));
        }
        let unequal = if self.unequal { " (UNEQUAL DURABILITY)" } else { "" };
        format!("{}{unequal}", parts.join("; "))
    }

    /// For a rate search, each arm's highest rate that keeps the promise:
    /// `ext4 keeps p99<5ms up to 1461 op/s, xfs up to 1359`.
    fn kept(&self) -> Option<String> {
        let promise = self.workload.promise.as_ref()?;
        let is_here =
            |cell: &&CellReport| cell.threads == self.threads && !self.out.contains(&cell.arm.as_str());
        let cells = self.workload.cells.iter().filter(is_here);
        let kept: Vec<(&str, String)> = cells
            .filter_map(|cell| Some((cell.arm.as_str(), numbers::figure(cell.rate?, &self.workload.unit))))
            .collect();
        let ((first, rate), others) = kept.split_first()?;
        let unit = &self.workload.unit;
        let others: String = others.iter().map(|(arm, rate)| format!(", {arm} up to {rate}")).collect();
        Some(format!("{first} keeps {promise} up to {rate} {unit}{others}"))
    }

    /// The arm that leads, the only other one, and the ratio of the first to the second, where tables have it that way round.
    pub fn leads_by(&self) -> Option<(&'a str, &'a str, Ratio)> {
        let [Behind { arm, of, ratio: Some((ratio, interval)), is_inverted: true }] = self.behind[..] else {
            return None;
        };
        let ratio = (ratio.recip(), interval.map(inverse));
        (self.among == Among::Alone).then_some((of, arm, ratio))
    }

    /// `xfs leads with 1.26× [1.19, 1.33] the throughput of ext4`.
    fn leads_with(&self) -> Option<String> {
        let (first, second, ratio) = self.leads_by()?;
        Some(format!("{first} leads{} {}", self.leads_in_a_word(), self.amount(ratio, second)))
    }

    fn behind_words(&self, Behind { arm, of, ratio, .. }: &Behind<'_>) -> String {
        match ratio {
            Some(ratio) => format!("{arm} {} {}", self.has_in_a_word(), self.amount(*ratio, of)),
            None => format!("{arm} is behind {of}"),
        }
    }

    /// The verdicts on throughput of its workload at its level.
    fn verdicts(&self) -> Vec<&'a ContrastState> {
        let is_here =
            |state: &&ContrastState| state.threads == self.threads && state.metric == Metric::Throughput;
        self.workload.states().filter(is_here).collect()
    }

    /// For two arms that are behind, the ratio of the last one to the other: no table has it.
    fn last_but_one(&self) -> Option<String> {
        let [one, other] = self.behind[..] else { return None };
        let verdicts = self.verdicts();
        let is_last =
            |(last, of): &(Behind<'_>, Behind<'_>)| ahead_of(last.arm, &verdicts).any(|arm| arm == of.arm);
        let (last, of) = [(one, other), (other, one)].into_iter().find(is_last)?;
        // Else its ratio to the other is listed already.
        self.leading.contains(&last.of).then(|| {
            let ratio = ratio_to(&verdicts, last.arm, of.arm);
            self.behind_words(&Behind { of: of.arm, ratio, ..last })
        })
    }

    /// `0.80× [0.64, 0.92] the throughput of ext4`.
    fn amount(&self, (ratio, interval): Ratio, of: &str) -> String {
        format!("{}{} {}", numbers::ratio(ratio), spaced(interval), self.of_whom(of))
    }

    /// Between an arm that leads and its ratio to another.
    pub fn leads_in_a_word(&self) -> &'static str {
        if self.workload.less_is_better { ": it takes" } else { " with" }
    }

    /// Between an arm and its ratio to one that is ahead.
    pub fn has_in_a_word(&self) -> &'static str {
        if self.workload.less_is_better { "takes" } else { "has" }
    }

    /// Reference of a ratio, as text: `as much as ext4`.
    pub fn of_whom(&self, arm: &str) -> String {
        match self.workload.less_is_better {
            true => format!("as much as {arm}"),
            false => format!("the throughput of {arm}"),
        }
    }
}

/// The command that resumes an unfinished trial, or one in which more rounds would decide an awaited contrast: with the
/// budget that half of those probably need.
pub fn go_on(document: &Document) -> Option<String> {
    let id = document.trial_id?;
    if document.rounds_are_done {
        return None;
    }
    let again = format!("{}{}", document.home_again, document.said_again);
    match document.ended {
        "running" | "failed" => return None,
        "interrupted" | "killed" => return Some(format!("fstrial resume {id}{again}")),
        _ => {}
    }
    #[expect(clippy::cast_precision_loss, reason = "a number of rounds")]
    let more = awaited(document).filter_map(|state| match state.interval {
        None if state.verdict == Outcome::Undecided => {
            ROUNDS_OF_A_DECISION.checked_sub(state.rounds as u64).map(|more| more as f64)
        }
        // Of a range that holds four in five decisions the geometric mean is about the median.
        _ => verdict::rounds_more(state).map(|(least, most)| (least as f64 * most as f64).sqrt()),
    });
    let mut more: Vec<f64> = more.collect();
    more.sort_unstable_by(f64::total_cmp);
    let seconds = more.get(more.len() / 2)? * document.round_seconds?;
    Some(format!("fstrial resume {id}{again} --budget {}", numbers::budget(seconds)))
}

/// Contrasts that a trial was to decide, without pairs of which either will do; a claim requires more than that.
fn awaited(document: &Document) -> impl Iterator<Item = &ContrastState> {
    let all = document.workloads.iter().flat_map(|workload| workload.verdicts.iter().chain(&workload.leads));
    let will_do = |state: &ContrastState| state.near && document.claim.is_none();
    all.map(|report| &report.contrast).filter(move |state| state.holds_open && !will_do(state))
}

/// True if any of them is open.
pub fn is_open(document: &Document) -> bool {
    awaited(document).any(|state| state.verdict == Outcome::Undecided)
}

/// `ext4, xfs and btrfs`.
pub fn listed(names: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [several @ .., last] => format!("{} and {last}", several.join(", ")),
    }
}

/// `; a decision would take 1 round more`, if that is known.
fn would_take(more: Option<(u64, u64)>, before: &str) -> String {
    more.map_or_else(String::new, |more| {
        format!("{before}a decision would take {}", verdict::more_in_words(more, None))
    })
}

/// `either of ext4 and xfs`, `any of ext4, xfs and btrfs`.
fn either(names: &[&str]) -> String {
    format!("{} of {}", if names.len() == 2 { "either" } else { "any" }, listed(names))
}

/// The ratio of an arm to another, whichever way round the contrast is.
fn ratio_to(verdicts: &[&ContrastState], arm: &str, other: &str) -> Option<Ratio> {
    verdicts.iter().find_map(|state| match (state.a.as_str(), state.b.as_str()) {
        (a, b) if (a, b) == (arm, other) => Some((state.ratio?, state.interval)),
        (a, b) if (b, a) == (arm, other) => Some((state.ratio?.recip(), state.interval.map(inverse))),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
