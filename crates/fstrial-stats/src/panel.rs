//! All questions of a trial and their verdicts, round by round.
//!
//! Each question is one contrast with its rounds. After every round [`Panel::settle`] first settles EQUIVALENT per
//! question (the level 1−2α interval is inside the band), then FASTER and SLOWER over all questions together, and last
//! gives up futile ones. The directional verdicts share α: with Benjamini–Hochberg at most 5 % of those in a report are
//! wrong on average; with Holm the probability of even one wrong is at most 5 %.
//!
//! Source: Benjamini and Hochberg 1995 and Holm 1979 over sequential tests, each level α·r/m (or
//! α/(m − D)) having its own [`crate::schedule`]. Assumes that the questions were fixed before any result. EQUIVALENT is per
//! question (at most α each), and so are the intervals.
//!
//! A finding is supported by the rounds at the moment it is made: earlier crossings of a level do not count, and the
//! interval at level 1−α must exclude the bar as well.
//!
//! With more than 64 questions not every r has a separate schedule: each costs milliseconds, and a finding is then made
//! at the next stricter level that has one. To Benjamini–Hochberg and Holm these are p-values rounded up: at most as
//! many false verdicts as promised.
//!
//! A panel is a deterministic function of its constructor's arguments and the sequence of calls, so a stored trial can
//! be recomputed.

use crate::contrast::{Contrast, FUTILE_FROM, Side};
use crate::estimate::Pair;
use crate::normal;
use crate::question::Question;
use crate::schedule::{Schedule, Spending};
use crate::total::Ratio;

/// The answer about a over b, where more is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// a is faster than b (for a claim: the ratio is above its threshold, or above the band).
    Faster,
    /// a is slower than b.
    Slower,
    /// The difference is inside the band.
    Equivalent,
    /// None of these could be shown.
    Undecided,
}

/// State of one question. Frozen when the question is decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// The answer.
    pub decision: Decision,
    /// θ̂, a natural log. `None` without rounds. For a claim it is the estimate of the ratio itself, the threshold not subtracted.
    pub estimate: Option<f64>,
    /// Interval in natural logs, of level `interval_level`; `None` while rounds are too few.
    pub interval: Option<(f64, f64)>,
    /// 1−α; 1−2α for EQUIVALENT.
    pub interval_level: f64,
    /// ln of the ratio of totals in these rounds, for a contrast that has totals. It has no level: its value with a
    /// rare stall that did not happen is unknowable.
    pub total: Option<f64>,
    /// True if the rounds show that it differs from the estimate.
    pub total_is_apart: bool,
    /// Rounds of this contrast that the verdict rests on.
    pub rounds: usize,
    /// True if the question is given up, because a decision within dozens of rounds is too unlikely. It is decided all
    /// the same if further rounds show it: giving up saves time and costs no error.
    pub futile: bool,
    /// For an undecided question: the range of total rounds within which a decision comes in about 80 % of trials. None
    /// without an interval yet, and if a decision is out of reach.
    pub rounds_needed: Option<(usize, usize)>,
    /// Undecided only because the ratio of all that was done does not bear out the typical one.
    pub waits_for_total: bool,
    /// The narrowest of the [`LADDER`]'s bands inside which an undecided difference is shown to be, a fraction; none if
    /// it is not even the widest, or the question has no band.
    pub within: Option<f64>,
    /// The interval of level 1−2α that is inside that band.
    pub interval_within: Option<(f64, f64)>,
    /// Undecided although its own level 1−α interval excludes the threshold (0, ln r, or the band): it would have been
    /// decided as the only question.
    pub excludes_zero_undecided: bool,
}

/// Bands that are tried from the widest down, as fractions, for an undecided difference.
pub const LADDER: [f64; 5] = [0.10, 0.05, 0.03, 0.02, 0.01];

/// Sharing of α among directional verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multiplicity {
    /// At most α of the FASTER/SLOWER verdicts are wrong on average (false discovery rate).
    BenjaminiHochberg,
    /// The chance that any of them is wrong is at most α (family-wise error rate).
    Holm,
}

/// The questions of a trial. See the module's description.
pub struct Panel {
    entries: Vec<Entry>,
    multiplicity: Multiplicity,
    /// Ascending, from 1 to m: the r (or j) with a separate level.
    ranks: Vec<usize>,
    /// By rank. For BH: level α·r/m. For Holm: level α/j, used when m − D ≤ j.
    levels: Vec<Schedule>,
    /// D: questions that have a directional verdict.
    directional_so_far: usize,
    /// Level α: intervals of undecided questions, futility.
    directional: Schedule,
    /// Level 2α: EQUIVALENT.
    equivalence: Schedule,
    futility: bool,
    /// It is settled when it is finished, and not before.
    looks_once: bool,
    /// Rounds have arrived since the last `settle`.
    unsettled: bool,
    finished: bool,
}

struct Entry {
    contrast: Contrast,
    /// Set when the question is decided.
    closed: Option<Verdict>,
    /// True if a decision is too unlikely to wait for it.
    futile: bool,
    /// See [`Verdict::within`].
    within: Option<f64>,
    /// Rounds that it is to have before it is given up.
    patience: usize,
}

impl Panel {
    /// A panel of m = `questions.len()` questions at level `alpha` (0.05). Futility is on.
    ///
    /// # Panics
    /// If `alpha` is not in (0, 0.5), or a question has a band that is not positive or a threshold that is not finite.
    pub fn new(questions: Vec<Question>, alpha: f64, m: Multiplicity) -> Panel {
        let contrasts = questions.into_iter().map(Contrast::new).collect();
        Panel::with(contrasts, alpha, m, [Spending::Directional, Spending::Equivalence])
    }

    /// A panel for rounds that are all there: it is settled once, with all of α, when it is finished, and gives nothing up.
    ///
    /// It does not guarantee that this is the first look. Measuring on after an undecided look, and looking again,
    /// spends α twice.
    ///
    /// # Panics
    /// As [`Panel::new`] does.
    pub fn looking_once(questions: Vec<Question>, alpha: f64, m: Multiplicity) -> Panel {
        let contrasts = questions.into_iter().map(Contrast::looked_at_once).collect();
        Panel { futility: false, looks_once: true, ..Panel::with(contrasts, alpha, m, [Spending::Once; 2]) }
    }

    fn with(contrasts: Vec<Contrast>, alpha: f64, m: Multiplicity, spending: [Spending; 2]) -> Panel {
        assert!(alpha > 0.0 && alpha < 0.5, "the level must be between 0 and 0.5, not {alpha}");
        let count = contrasts.len();
        let ranks = ranks(count);
        let level = |r: usize| match m {
            // r/m first, so that the last level is α to the bit.
            Multiplicity::BenjaminiHochberg => alpha * (r as f64 / count as f64),
            Multiplicity::Holm => alpha / r as f64,
        };
        let entry = |contrast: Contrast| {
            let question = &contrast.question;
            assert!(question.band > 0.0 && question.threshold.is_finite(), "bad question: {question:?}");
            Entry { contrast, closed: None, futile: false, within: None, patience: 0 }
        };
        Panel {
            multiplicity: m,
            directional_so_far: 0,
            levels: ranks.iter().map(|r| Schedule::new(level(*r), spending[0])).collect(),
            directional: Schedule::new(alpha, spending[0]),
            equivalence: Schedule::new(2.0 * alpha, spending[1]),
            entries: contrasts.into_iter().map(entry).collect(),
            ranks,
            futility: true,
            looks_once: false,
            unsettled: false,
            finished: false,
        }
    }

    /// Sets whether [`Panel::settle`] may give up questions. A recomputation must repeat it.
    pub fn set_futility(&mut self, on: bool) {
        self.futility = on;
    }

    /// Adds one round to a question. A round that one of the cells lost is not pushed at all.
    ///
    /// Ignored once the question is decided: its verdict rests on the rounds it had.
    ///
    /// # Panics
    /// If there is no such question, the panel is finished, the log-ratio is not finite, or q is not positive and
    /// finite.
    pub fn push(&mut self, question: usize, pair: Pair) {
        assert!(!self.finished, "a round was pushed after finish()");
        let entry = &mut self.entries[question];
        if entry.closed.is_none() {
            entry.contrast.push(&pair);
            self.unsettled = true;
        }
    }

    /// Draws all possible conclusions. To be called after every round, when all its pairs are in; a panel that looks
    /// once waits for the end.
    pub fn settle(&mut self) {
        if !self.looks_once {
            self.look();
        }
    }

    fn look(&mut self) {
        self.unsettled = false;
        self.settle_equivalent();
        self.climb();
        let shown = self.shown();
        match self.multiplicity {
            Multiplicity::BenjaminiHochberg => self.settle_benjamini_hochberg(&shown),
            Multiplicity::Holm => self.settle_holm(&shown),
        }
        if self.futility {
            self.settle_futile();
        }
    }

    /// Ends the rounds: settles those pushed since the last [`Panel::settle`] and closes all questions. A resumed trial
    /// starts from a new panel fed with the stored rounds.
    pub fn finish(&mut self) {
        if self.unsettled {
            self.look();
        }
        self.finished = true;
    }

    /// No more rounds will come, and the look that was to come after more of them is not taken: nothing is decided by it.
    pub fn give_up(&mut self) {
        self.finished = true;
    }

    /// True if the trial should continue for this question: it is neither decided nor given up, the panel is not
    /// finished, and the question holds the trial open.
    pub fn is_open(&self, question: usize) -> bool {
        let entry = &self.entries[question];
        let is_given_up = entry.futile && entry.contrast.rounds() >= entry.patience;
        entry.closed.is_none() && !self.finished && entry.contrast.question.holds_open && !is_given_up
    }

    /// Resumes: no question is given up before it has had as many more rounds as one needs to be given up in the first
    /// place. It costs no error, because giving up gains none.
    pub fn reopen(&mut self) {
        for entry in &mut self.entries {
            entry.patience = entry.patience.max(entry.contrast.rounds() + FUTILE_FROM);
        }
    }

    /// Persists: no question is given up, so that an undecided one has all the time there is.
    pub fn persist(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.patience = usize::MAX);
    }

    /// State of a question so far.
    pub fn verdict(&self, question: usize) -> Verdict {
        let entry = &self.entries[question];
        entry.closed.unwrap_or_else(|| self.undecided(entry))
    }

    /// The answer to a question so far, and whether it is given up: without the figures of [`Panel::verdict`], which take
    /// long to compute.
    pub fn decision(&self, question: usize) -> (Decision, bool) {
        let entry = &self.entries[question];
        entry.closed.map_or((Decision::Undecided, entry.futile), |closed| (closed.decision, closed.futile))
    }

    /// The rounds that an answer rests on so far, and the estimate.
    pub fn estimate(&self, question: usize) -> (usize, Option<f64>) {
        let Entry { closed, contrast, .. } = &self.entries[question];
        closed.map_or_else(
            || (contrast.rounds(), contrast.estimate()),
            |closed| (closed.rounds, closed.estimate),
        )
    }

    /// The standard error of a question's log-ratios, see [`crate::estimate::Walsh::standard_error`]: of the rounds that the
    /// estimate rests on.
    pub fn standard_error(&self, question: usize) -> Option<f64> {
        self.entries[question].contrast.standard_error()
    }

    /// Closes a question with its verdict.
    fn close(&mut self, index: usize, verdict: Verdict) {
        let entry = &mut self.entries[index];
        assert!(entry.closed.is_none(), "a question is closed once");
        let is_directional = matches!(verdict.decision, Decision::Faster | Decision::Slower);
        self.directional_so_far += usize::from(is_directional);
        entry.closed = Some(verdict);
    }

    /// Indices of the open questions, as they are now.
    fn open(&self) -> Vec<usize> {
        (0..self.entries.len()).filter(|index| self.entries[*index].closed.is_none()).collect()
    }

    fn settle_equivalent(&mut self) {
        for index in self.open() {
            let contrast = &self.entries[index].contrast;
            if contrast.is_equivalent(&self.equivalence) {
                let found = known(contrast, &self.equivalence, contrast.total(&self.equivalence));
                self.close(index, Verdict { decision: Decision::Equivalent, ..found });
            }
        }
    }

    /// Notes the bands that undecided questions are now shown to be in. The bands are nested: for any of these
    /// statements to be wrong the one about the widest band that does not hold the truth must be, so that all of them
    /// together keep α, as *equivalent* does.
    fn climb(&mut self) {
        for entry in self.entries.iter_mut().filter(|entry| entry.closed.is_none()) {
            let (contrast, schedule) = (&entry.contrast, &self.equivalence);
            let is_shown = |fraction: &&f64| contrast.is_within(libm::log1p(**fraction), schedule);
            let has_bands = contrast.question.equivalence;
            entry.within = LADDER.iter().rev().find(is_shown).copied().filter(|_| has_bands);
        }
    }

    /// For each level, the open questions that the rounds now decide there: a finding must hold at present. The
    /// interval of a verdict, of level 1−α, excludes the bar too. Counts are whole, so that a stricter level may have
    /// the wider boundary after a round.
    fn shown(&self) -> Vec<Vec<(usize, Side)>> {
        let mut shown = vec![Vec::new(); self.levels.len()];
        for index in self.open() {
            let contrast = &self.entries[index].contrast;
            let alone = contrast.alone();
            let could = |level: &Schedule| contrast.could_reach(alone, level);
            // The levels ascend with BH and descend with Holm; one of them is α.
            let within_reach = match self.multiplicity {
                Multiplicity::BenjaminiHochberg => {
                    self.levels.partition_point(|level| !could(level))..self.levels.len()
                }
                Multiplicity::Holm => 0..self.levels.partition_point(could),
            };
            if within_reach.is_empty() {
                continue;
            }
            let Some(side) = contrast.side(&self.directional) else { continue };
            for level in within_reach {
                if contrast.side(&self.levels[level]) == Some(side) {
                    shown[level].push((index, side));
                }
            }
        }
        shown
    }

    /// R = the largest r with D + #{open questions shown at α·r/m} ≥ r; all those get their verdict. Repeated while it
    /// decides something: a finding at a strict level may be missing at a looser one, and D has grown.
    fn settle_benjamini_hochberg(&mut self, shown: &[Vec<(usize, Side)>]) {
        loop {
            let is_open = |(index, _): &&(usize, Side)| self.entries[*index].closed.is_none();
            let is_enough = |&level: &usize| {
                self.directional_so_far + shown[level].iter().filter(is_open).count() >= self.ranks[level]
            };
            let Some(level) = (0..shown.len()).rev().find(is_enough) else { return };
            if !self.decide_all(&shown[level]) {
                return;
            }
        }
    }

    /// Level α/(m − D), again and again while it decides something.
    fn settle_holm(&mut self, shown: &[Vec<(usize, Side)>]) {
        loop {
            let left = self.entries.len() - self.directional_so_far;
            let level = self.ranks.partition_point(|rank| *rank < left);
            if left == 0 || !self.decide_all(&shown[level]) {
                return;
            }
        }
    }

    /// Closes those that are open; whether there were any.
    fn decide_all(&mut self, shown: &[(usize, Side)]) -> bool {
        let before = self.directional_so_far;
        for (index, side) in shown {
            let Entry { contrast, closed, .. } = &self.entries[*index];
            if closed.is_none() {
                self.close(*index, directional(contrast, *side, &self.directional));
            }
        }
        self.directional_so_far > before
    }

    fn settle_futile(&mut self) {
        for entry in self.entries.iter_mut().filter(|entry| entry.closed.is_none()) {
            let contrast = &entry.contrast;
            if let Some(futile) = contrast.is_futile(&self.directional, &self.equivalence) {
                let is_hopeless = futile || contrast.contradicts_itself(&self.directional, &self.equivalence);
                entry.futile = is_hopeless && contrast.question.holds_open;
            }
        }
    }

    /// Distance of the boundary of the next finding from that of a question alone, in standard deviations.
    fn stricter(&self) -> f64 {
        let (count, found) = (self.entries.len() as f64, self.directional_so_far as f64);
        let alpha = self.directional.alpha();
        let next = match self.multiplicity {
            Multiplicity::BenjaminiHochberg => alpha * ((found + 1.0) / count).min(1.0),
            Multiplicity::Holm => alpha / (count - found).max(1.0),
        };
        normal::two_sided_quantile(next) - normal::two_sided_quantile(alpha)
    }

    fn undecided(&self, Entry { contrast, futile, within, .. }: &Entry) -> Verdict {
        let total = contrast.total(&self.directional);
        let (directional, equivalence) = (&self.directional, &self.equivalence);
        Verdict {
            futile: *futile,
            within: *within,
            interval_within: contrast.interval(equivalence).filter(|_| within.is_some()),
            rounds_needed: contrast.rounds_needed(directional, equivalence, self.stricter(), total),
            waits_for_total: contrast.waits_for_total(&self.directional, &self.equivalence),
            excludes_zero_undecided: contrast.side(&self.directional).is_some(),
            ..known(contrast, &self.directional, total)
        }
    }
}

/// Number of questions up to which every rank has a separate level, and of ranks that always have one.
const ALL_RANKS: usize = 64;
const FIRST_RANKS: usize = 16;

/// The ranks from 1 to `count` with a separate level: all of a few, of many the first ones and then each a fifth
/// greater than the one before.
fn ranks(count: usize) -> Vec<usize> {
    if count <= ALL_RANKS {
        return (1..=count).collect();
    }
    let mut ranks: Vec<usize> = (1..=FIRST_RANKS).collect();
    let mut next = FIRST_RANKS;
    while next < count {
        next = (next + next.div_ceil(5)).min(count);
        ranks.push(next);
    }
    ranks
}

/// Estimate and interval at the level of `schedule`, no decision.
fn known(contrast: &Contrast, schedule: &Schedule, total: Option<Ratio>) -> Verdict {
    let estimate = contrast.estimate();
    let outside = |(low, high): (f64, f64)| estimate.is_some_and(|typical| typical < low || typical > high);
    Verdict {
        decision: Decision::Undecided,
        estimate,
        interval: contrast.interval(schedule),
        interval_level: 1.0 - schedule.alpha(),
        total: total.map(|total| total.estimate),
        total_is_apart: total.and_then(|total| total.interval).is_some_and(outside),
        rounds: contrast.rounds(),
        futile: false,
        rounds_needed: None,
        waits_for_total: false,
        within: None,
        interval_within: None,
        excludes_zero_undecided: false,
    }
}

/// The verdict on a side, with the interval at the question's own level.
fn directional(contrast: &Contrast, side: Side, schedule: &Schedule) -> Verdict {
    let decision = match side {
        Side::Above => Decision::Faster,
        Side::Below => Decision::Slower,
    };
    Verdict { decision, ..known(contrast, schedule, contrast.total(schedule)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Done;
    use proptest::prelude::*;

    /// Findings at every level of every open question.
    fn shown_at_every_level(panel: &Panel) -> Vec<Vec<(usize, Side)>> {
        let side = |level: &Schedule, index: usize| {
            let contrast = &panel.entries[index].contrast;
            let side = contrast.side(&panel.directional)?;
            (contrast.side(level) == Some(side)).then_some((index, side))
        };
        let open = panel.open();
        panel
            .levels
            .iter()
            .map(|level| open.iter().filter_map(|index| side(level, *index)).collect())
            .collect()
    }

    #[test]
    fn few_questions_have_every_rank_and_many_a_few() {
        assert_eq!(ranks(0), [0_usize; 0]);
        assert_eq!(ranks(64), (1..=64).collect::<Vec<_>>());
        let many = ranks(7200);
        assert_eq!((many[0], many[15], many[16], many.last()), (1, 16, 20, Some(&7200)));
        assert!(many.is_sorted_by(|a, b| a < b) && many.len() < 55, "{} ranks", many.len());
    }

    const BAND: f64 = 0.029558802241544;

    /// The verdicts on questions with complete rounds.
    fn once(requested: &[&[f64]]) -> Vec<Verdict> {
        let questions = vec![Question::comparison(BAND); requested.len()];
        let mut panel = Panel::looking_once(questions, 0.05, Multiplicity::BenjaminiHochberg);
        let most = requested.iter().map(|rounds| rounds.len()).max().unwrap_or_default();
        for round in 0..most {
            for (index, d) in
                requested.iter().enumerate().filter_map(|(index, d)| Some((index, d.get(round)?)))
            {
                panel.push(index, Pair::of_done(Done::figure(d.exp()), Done::figure(1.0)));
            }
            panel.settle();
        }
        panel.finish();
        (0..requested.len()).map(|index| panel.verdict(index)).collect()
    }

    fn decision(d: &[f64]) -> Decision {
        once(&[d])[0].decision
    }

    #[test]
    fn all_rounds_count_and_not_only_the_first() {
        // +10 % in eight rounds and −40 % in 32: a rule that looks after every round stops at the eighth.
        let d: Vec<f64> = (0..40).map(|round| if round < 8 { 1.1_f64.ln() } else { 0.6_f64.ln() }).collect();
        let verdict = once(&[&d])[0];
        assert_eq!((verdict.decision, verdict.rounds), (Decision::Slower, 40));
        assert!((verdict.estimate.unwrap() - 0.6_f64.ln()).abs() < 1e-9);
        assert!((verdict.total.unwrap() - 0.7_f64.ln()).abs() < 1e-9, "the ratio of sums");
    }

    #[test]
    fn six_rounds_are_the_fewest() {
        assert_eq!(decision(&[0.5, 0.51, 0.52, 0.53, 0.54]), Decision::Undecided);
        assert_eq!(decision(&[0.5, 0.51, 0.52, 0.53, 0.54, 0.55]), Decision::Faster);
        assert_eq!(decision(&[-0.5, -0.51, -0.52, -0.53, -0.54, -0.55]), Decision::Slower);
        assert_eq!(decision(&[0.001, -0.002, 0.003, -0.001, 0.002, 0.0]), Decision::Equivalent);
        assert_eq!(decision(&[]), Decision::Undecided);
    }

    #[test]
    fn many_questions_share_the_error() {
        let clear: &[f64] = &[0.5, 0.51, 0.52, 0.53, 0.54, 0.55];
        let noise: &[f64] = &[0.5, -0.41, 0.32, -0.53, 0.14, -0.25];
        let mut requested = vec![noise; 9];
        requested.push(clear);
        let verdict = once(&requested)[9];
        // p = 0.031 does not reach 0.05/10.
        assert_eq!(verdict.decision, Decision::Undecided);
        assert!(verdict.excludes_zero_undecided);
    }

    #[test]
    fn false_verdicts_are_as_rare_as_promised() {
        // All 2⁸ signs of eight sizes: if the arms do not differ each is as likely, and at most 5 % may be called different.
        let sizes = [0.31, 0.52, 0.08, 0.44, 0.97, 0.66, 0.12, 0.71];
        let called = (0..256_u32).filter(|signs| {
            let sign = |index: usize| if signs >> index & 1 == 1 { -1.0 } else { 1.0 };
            let d: Vec<f64> = sizes.iter().enumerate().map(|(index, size)| sign(index) * size).collect();
            matches!(decision(&d), Decision::Faster | Decision::Slower)
        });
        let called = called.count();
        assert!((1..=12).contains(&called), "{called} of 256");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn shown_results_match_exhaustive_level_search(
            effects in prop::collection::vec((-0.2..0.2_f64, 0.005..0.1_f64), 1..12),
            noise in prop::collection::vec(-1.0..1.0_f64, 12 * 14), holm: bool,
        ) {
            let m = if holm { Multiplicity::Holm } else { Multiplicity::BenjaminiHochberg };
            let mut panel = Panel::new(vec![Question::comparison(0.03); effects.len()], 0.05, m);
            for round in 0..14 {
                for (index, (effect, spread)) in effects.iter().enumerate() {
                    let log_ratio = effect + spread * noise[round * 12 + index];
                    panel.push(index, Pair { log_ratio, done: None });
                }
                prop_assert_eq!(panel.shown(), shown_at_every_level(&panel));
                panel.settle();
            }
        }
    }
}
