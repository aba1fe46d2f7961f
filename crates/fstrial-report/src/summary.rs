//! The answer in a few lines: a bottom line, then who leads each workload and level, who is behind, and what is not decided
//! and why. A pair of arms is named only by its verdict: what is not decided is never told as found.

mod bottom;

use super::{
    document::{CellReport, Document, VerdictReport, WorkloadReport},
    numbers, table, verdict,
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
/// Pairs that are not decided, told one by one at most.
pub const MAX_OPEN: usize = 3;

/// Who won a workload at a level.
#[derive(Debug, Clone)]
pub struct Standing<'a> {
    /// The workload, or one of its phases.
    pub workload: &'a WorkloadReport,
    pub threads: u16,
    /// Arms that none was found to be ahead of, in their order; never empty.
    pub leading: Vec<&'a str>,
    /// How those compare with each other.
    pub among: Among,
    /// The others, each with an arm that was found to be ahead of it.
    pub behind: Vec<Behind<'a>>,
    /// Pairs with an arm that leads of which neither was found to be ahead, nor that they are the same.
    pub open: Vec<Open<'a>>,
    /// Arms that failed, or cannot do it.
    pub out: Vec<&'a str>,
    /// Whether any two of its arms are of unequal durability.
    pub unequal: bool,
    /// With a baseline: the other arm against it, where one of them is ahead. Neither leads all arms by that.
    pub against: Option<Behind<'a>>,
}

/// How the arms that lead compare with each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Among {
    /// There is one.
    Alone,
    /// Every two were found to be the same within the band.
    Equivalent,
    /// The same, and they all ran at the limit of the modelled device.
    AtLimit,
    /// Every two are the same or so near to each other that either will do: within this many percent. Whether they all ran at
    /// the limit of the modelled device.
    Near(f64, bool),
    /// Some pair is not decided.
    Open,
}

/// An arm that was found to be behind another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Behind<'a> {
    pub arm: &'a str,
    /// One that was found to be ahead of it: one that leads, if there is such a verdict.
    pub of: &'a str,
    /// What it has of the other's figure, and the interval of its verdict.
    pub ratio: Option<Ratio>,
    /// Whether tables and verdicts have this ratio the other way round.
    pub is_inverted: bool,
}

/// Two arms that were compared without a verdict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Open<'a> {
    pub a: &'a str,
    pub b: &'a str,
    /// What `a` has of `b`'s figure so far.
    pub ratio: Option<Ratio>,
    pub less_is_better: bool,
    pub why: Why,
}

/// Why two arms are not told apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Why {
    /// There is no interval after these rounds.
    Few(usize),
    /// The interval rules out a difference of more than this share.
    Narrow(f64),
    /// It was shown to lie within this many percent.
    Within(f64),
    /// Its interval excludes 1, but not at the level that many questions together ask for. With what a decision would take.
    Likely(Option<(u64, u64)>),
    /// One is ahead in a typical round, which what both did in all does not bear out.
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

/// The bottom line, then one line for each workload and level, and what no verdict could see.
pub fn lines(document: &Document) -> Vec<String> {
    let standings = standings(document);
    let all = standings.iter().map(Standing::line).chain(asked(document));
    // A claim says the last one itself.
    let limits = if document.claim.is_none() { limits(document) } else { Vec::new() };
    bottom_line(document).into_iter().chain(all).chain(limits).collect()
}

/// Verdicts on what was asked for in addition to throughput.
fn asked(document: &Document) -> Vec<String> {
    let is_told = |report: &&VerdictReport| {
        let state = &report.contrast;
        state.holds_open && state.metric != Metric::Throughput && state.verdict.is_decided()
    };
    in_full(document, |workload| workload.verdicts.iter().filter(is_told).collect())
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

/// What was found, in a line: of a single workload with its name. None if nothing was found.
pub fn headline(document: &Document) -> Option<String> {
    let found = in_short(document, MAX_OPEN).into_iter().next()?;
    let main: Vec<&WorkloadReport> =
        document.workloads.iter().filter(|workload| !workload.secondary).collect();
    Some(match main.as_slice() {
        [workload] => match workload.levels().as_slice() {
            [level] if *level > 0 => format!("{}, {}: {found}", workload.title(), threads_in_words(*level)),
            _ => format!("{}: {found}", workload.title()),
        },
        _ => found,
    })
}

/// What most people want to know, where a table says the rest: the bottom line, or who won; what is open, and rates that keep
/// a promise. Of what is open at most this many lines.
pub fn in_short(document: &Document, most_open: usize) -> Vec<String> {
    let standings = standings(document);
    let mut further = leads_in_words(document);
    further.extend(told_along(document));
    // What the trial is to decide may be something else alone.
    let held = |report: &&VerdictReport| report.contrast.holds_open;
    let is_other = |report: &VerdictReport| report.contrast.metric != Metric::Throughput;
    let all = in_full(document, |workload| workload.verdicts.iter().filter(held).collect());
    let mut states = document.workloads.iter().flat_map(|workload| &workload.verdicts).filter(held);
    if !all.is_empty() && states.all(is_other) {
        return all.into_iter().chain(further).collect();
    }
    if standings.is_empty() && document.has_begun && document.claim.is_none() {
        let failed =
            document.workloads.iter().flat_map(|workload| &workload.cells).all(|cell| cell.runs == 0);
        further.push(if failed { "no run has succeeded" } else { "there is nothing to compare" }.into());
    }
    let Some(bottom) = bottom_line(document) else {
        let place = |one: &Standing<'_>| (one.workload.title(), one.threads);
        let is_one = standings.windows(2).all(|two| place(&two[0]) == place(&two[1]));
        return standings
            .iter()
            .map(|one| if is_one && !one.workload.less_is_better { one.told() } else { one.line() })
            .chain(further)
            .collect();
    };
    let is_of_interest = |one: &&Standing<'_>| one.among == Among::Open || one.workload.promise.is_some();
    let mut open: Vec<String> = standings.iter().filter(is_of_interest).map(Standing::line).collect();
    if open.len() > most_open {
        open.truncate(most_open);
        open.push("…".into());
    }
    std::iter::once(bottom).chain(open).chain(further).collect()
}

/// Findings on the figures next to those that decide, where these are open: else nobody would read of them.
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

/// Whether an arm leads by more at one place than at another, where that was asked.
fn leads_in_words(document: &Document) -> Vec<String> {
    let is_main = |report: &&VerdictReport| report.contrast.metric == Metric::Throughput;
    in_full(document, |workload| workload.leads.iter().filter(is_main).collect())
}

/// Whether every arm was compared with one only.
pub fn has_baseline(document: &Document) -> bool {
    document.workloads.iter().any(|workload| workload.has_baseline)
}

/// What no verdict could see: rare stalls, and without a control whether a difference would have shown.
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

/// Who won each workload at each level, where anything is known.
pub fn standings(document: &Document) -> Vec<Standing<'_>> {
    document.workloads.iter().flat_map(standings_of).collect()
}

/// Who won a workload at each of its levels, where anything is known; nobody where it is told with another result that
/// decides.
pub fn standings_of(workload: &WorkloadReport) -> Vec<Standing<'_>> {
    if workload.secondary {
        return Vec::new();
    }
    workload.levels().into_iter().flat_map(|threads| of_level(workload, threads)).collect()
}

/// One; with leads one for each place, as arms at different places are not compared; with a baseline one for each arm against
/// it.
fn of_level(workload: &WorkloadReport, threads: u16) -> Vec<Standing<'_>> {
    workload.places().into_iter().flat_map(|place| of_level_at(workload, threads, place)).collect()
}

fn of_level_at<'a>(workload: &'a WorkloadReport, threads: u16, place: Option<&str>) -> Vec<Standing<'a>> {
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
        return standing(workload, threads, cells, &reports).into_iter().collect();
    }
    let against = |report: &&'a VerdictReport| {
        let is_of_it = |cell: &&&CellReport| [&report.contrast.a, &report.contrast.b].contains(&&cell.arm);
        let standing =
            standing(workload, threads, cells.iter().filter(is_of_it).copied().collect(), &[report])?;
        Some(standing.against(&report.contrast))
    };
    reports.iter().filter_map(against).collect()
}

fn standing<'a>(
    workload: &'a WorkloadReport,
    threads: u16,
    cells: Vec<&'a CellReport>,
    reports: &[&'a VerdictReport],
) -> Option<Standing<'a>> {
    let verdicts: Vec<&ContrastState> = reports.iter().map(|report| &report.contrast).collect();
    if verdicts.iter().all(|state| state.ratio.is_none()) {
        return None;
    }
    let (able, out): (Vec<_>, Vec<_>) =
        cells.into_iter().partition(|cell| !cell.failed && cell.cannot.is_none());
    let (behind, leading): (Vec<&str>, Vec<&str>) =
        able.iter().map(|cell| cell.arm.as_str()).partition(|arm| ahead_of(arm, &verdicts).next().is_some());
    let is_at_limit = |arm: &str| able.iter().any(|cell| cell.arm == arm && cell.at_limit);
    leading.first()?;
    Some(Standing {
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

/// Whether a verdict is that this arm is ahead of another.
fn is_ahead(arm: &str, state: &ContrastState) -> bool {
    (state.a == arm && state.verdict == Outcome::Faster)
        || (state.b == arm && state.verdict == Outcome::Slower)
}

/// The arms that were found to be ahead of this one.
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
    // Verdicts of some rounds may contradict each other; one that was found ahead of nobody leads nothing.
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

/// Within how many percent two arms lie of which it is not decided which is faster, where that is so near that either will do.
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
        matches!(state.verdict, Outcome::Undecided | Outcome::CannotTell)
            && (leading.contains(&state.a.as_str()) || leading.contains(&state.b.as_str()))
    };
    let told = |state: &&'a ContrastState| Open {
        a: &state.a,
        b: &state.b,
        ratio: state.ratio.map(|ratio| (ratio, state.interval)),
        less_is_better: state.less_is_better,
        why: why(state, is_at_limit(&state.a) && is_at_limit(&state.b)),
    };
    verdicts.iter().filter(is_open).map(told).collect()
}

fn why(state: &ContrastState, at_limit: bool) -> Why {
    let Some((low, high)) = state.interval else { return Why::Few(state.rounds) };
    if state.verdict == Outcome::CannotTell {
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
    /// Whether `a` looks better so far.
    fn is_ahead(&self) -> bool {
        self.ratio.is_some_and(|(ratio, _)| ratio > 1.0) != self.less_is_better
    }

    /// What `a` probably is.
    fn likely(&self) -> &'static str {
        match (self.is_ahead(), self.less_is_better) {
            (true, false) => "faster",
            (false, false) => "slower",
            (true, true) => "less",
            (false, true) => "more",
        }
    }

    /// `xfs / ext4 1.61× [0.93, 2.80], open: a decision would take 14 rounds more`; `is_said`: without what names who leads.
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
                let found =
                    format!("no difference of more than {:.0} % found", (share * 100.0 - 1e-9).ceil());
                // The interval alone would say that either will do.
                let typical =
                    if share <= LADDER[0] { " in typical rounds, nor shown of all together" } else { "" };
                format!("{found}{typical}")
            }
            Why::Rounds(more) => {
                format!("open: a decision would take {}", verdict::more_in_words(more, None))
            }
            Why::NotInAll => "open: what both did in all does not bear it out".into(),
            Why::Hopeless => "open: a decision is out of reach at this noise".into(),
            Why::Blind(false) => "cannot tell here: a planted slowdown was not seen either".into(),
            Why::Blind(true) => {
                "both at the device's limit: on this volume the choice does not matter".into()
            }
        }
    }
}

impl<'a> Standing<'a> {
    /// The same told about one arm against the baseline, which is the second of the contrast.
    fn against(self, state: &'a ContrastState) -> Self {
        if self.among != Among::Alone {
            return self;
        }
        let ratio = state.ratio.map(|ratio| (ratio, state.interval));
        let against = Some(Behind { arm: &state.a, of: &state.b, ratio, is_inverted: false });
        Self { against, behind: Vec::new(), ..self }
    }

    /// Who leads, in words.
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
                Some(Open { why: Why::Blind(_), .. }) => format!("cannot tell {names} apart"),
                Some(pair) if self.leading.len() == 2 && matches!(pair.why, Why::Likely(_)) => {
                    let (first, second) = if pair.is_ahead() { (pair.a, pair.b) } else { (pair.b, pair.a) };
                    format!("{first} is probably ahead of {second}")
                }
                _ if self.leading.len() > 1 => format!("not decided between {names}"),
                _ => "not decided".into(),
            },
        }
    }

    /// Whether both arms of a pair lead.
    fn is_within(&self, pair: &Open<'_>) -> bool {
        self.leading.contains(&pair.a) && self.leading.contains(&pair.b)
    }

    /// What is not decided, in words: pairs that lead first, those of too few rounds together.
    pub fn open_words(&self) -> Vec<String> {
        let mut pairs: Vec<&Open<'_>> = self.open.iter().collect();
        pairs.sort_by_key(|pair| !self.is_within(pair));
        let (few, known): (Vec<&Open<'_>>, Vec<_>) =
            pairs.into_iter().partition(|pair| matches!(pair.why, Why::Few(_)));
        // Of two arms that lead, the first words of the line say it.
        let is_said = |pair: &Open<'_>| match pair.why {
            Why::Within(_) => matches!(self.among, Among::Near(..)) && self.is_within(pair),
            _ => self.leading.len() == 2 && self.is_within(pair),
        };
        let said = |pair: &&Open<'_>| pair.words(is_said(pair));
        // Of many that are near each other no pair is told.
        let known: Vec<&Open<'_>> = match self.leading.len() {
            0..=2 => known,
            _ => known.into_iter().filter(|pair| !is_said(pair)).collect(),
        };
        let mut words: Vec<String> = known.iter().take(MAX_OPEN).map(said).collect();
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
        format!("{}, {}: {}", self.workload.title(), threads_in_words(self.threads), self.told())
    }

    fn told(&self) -> String {
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

    /// Of a rate that was looked for, how far each arm keeps the promise: `ext4 keeps p99<5ms up to 1461 op/s, xfs up to 1359`.
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

    /// Of two arms that are behind, what the last one has of the other: no table has that ratio.
    fn last_but_one(&self) -> Option<String> {
        let [one, other] = self.behind[..] else { return None };
        let verdicts = self.verdicts();
        let is_last =
            |(last, of): &(Behind<'_>, Behind<'_>)| ahead_of(last.arm, &verdicts).any(|arm| arm == of.arm);
        let (last, of) = [(one, other), (other, one)].into_iter().find(is_last)?;
        // Else its ratio to the other is told already.
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

    /// What a ratio is a ratio to.
    pub fn of_whom(&self, arm: &str) -> String {
        match self.workload.less_is_better {
            true => format!("what {arm} takes"),
            false => format!("the throughput of {arm}"),
        }
    }
}

/// How to resume a trial that is not at its end, or in which more rounds would decide what is awaited: for as long as half of that is
/// likely to need.
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

/// What a trial was to decide, without pairs of which either will do; a claim asks for more than that.
fn awaited(document: &Document) -> impl Iterator<Item = &ContrastState> {
    let all = document.workloads.iter().flat_map(|workload| workload.verdicts.iter().chain(&workload.leads));
    let will_do = |state: &ContrastState| state.near && document.claim.is_none();
    all.map(|report| &report.contrast).filter(move |state| state.holds_open && !will_do(state))
}

/// Whether anything of that is open.
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

/// `; a decision would take 1 round more`, where that is known.
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
