//! From rounds to verdicts: pairs the runs of every round, hands them to the statistics, and gives the state of every
//! contrast. It owns every rule about runs that failed, and is a function of the rounds alone, so that stored trials
//! can be judged again years later.

use super::{
    cell::{Cell, Contrast, Of},
    contrast::{
        Assay, ContrastState, Outcome, inverse, is_near, less_is_better, paired, ratio, ratio_interval,
        slope_weights, weighted_sum,
    },
    panels::{ALPHA, Panels},
    plan::Plan,
    round::{Round, RunOutcome},
    sample::Sample,
    tail::Tail,
    typical::Typical,
};
use fstrial_model::{
    job::{FailureKind, RunFailure},
    metric::Metric,
};
use fstrial_stats::{Decision, Panel, Verdict, spread, total::unseen_stalls};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A cell that is lost this often running is given up: something is wrong that rounds do not mend.
pub(super) const MAX_LOST: u32 = 3;

/// Judges a trial as its rounds come in.
pub struct Judge<'a> {
    pub(super) plan: &'a Plan,
    panels: Panels,
    /// The measured runs of the current round.
    present: Round,
    /// By cell and result.
    pub(super) samples: Vec<Vec<Vec<Sample>>>,
    cells: Vec<CellState>,
    /// Failures as text, in order.
    failures: Vec<String>,
    /// For contrasts of a quantile.
    tails: Vec<Option<Tail>>,
    /// By contrast: the logarithm that the last round gave.
    latest: Vec<Option<f64>>,
    /// By cell: the contrasts that need it.
    contrasts_of: Vec<Vec<usize>>,
    /// The cells run in the current round.
    ran: Vec<usize>,
    /// Their requested number; none if no more are requested.
    requested: usize,
    is_cut_short: bool,
    /// Its rounds come from elsewhere: no plan lists the cells of each.
    takes_all: bool,
    /// Rounds that were run, and those among them that ended before all of their cells were run.
    rounds: u32,
    cut_short: u32,
}

/// A ratio, or the figure of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    pub value: f64,
    /// None while rounds are too few.
    pub interval: Option<(f64, f64)>,
    pub rounds: usize,
}

impl Estimate {
    /// The same the other way round.
    pub fn inverse(self) -> Self {
        Self { value: self.value.recip(), interval: self.interval.map(inverse), ..self }
    }
}

#[derive(Debug, Clone, Default)]
struct CellState {
    /// It was run, with any outcome.
    tried: bool,
    failed: bool,
    /// Why its arm cannot do its workload.
    unsupported: Option<String>,
    /// Number of losses since its last measurement.
    lost: u32,
    measured: bool,
    /// The last error with which it was lost.
    loss: Option<String>,
}

/// A failure, with its remedy in parentheses.
fn with_hint(failure: &RunFailure) -> String {
    let hint = failure.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
    format!("{failure}{hint}")
}

impl<'a> Judge<'a> {
    /// A judge for a plan of which nothing was run.
    pub fn new(plan: &'a Plan) -> Self {
        let panel = if plan.trial.trial.sequential { Panel::new } else { Panel::looking_once };
        Self::with(plan, Panels::new(plan, panel))
    }

    /// A judge for rounds that are all there, which looks when it is finished, and with all of the error: see
    /// [`Panel::looking_once`].
    pub fn looking_once(plan: &'a Plan) -> Self {
        Self { takes_all: true, ..Self::with(plan, Panels::new(plan, Panel::looking_once)) }
    }

    fn with(plan: &'a Plan, panels: Panels) -> Self {
        let results = |cell: &Cell| vec![Vec::new(); plan.results[cell.workload].len()];
        let mut contrasts_of = vec![Vec::new(); plan.cells.len()];
        for (index, contrast) in plan.contrasts.iter().enumerate() {
            contrast.cells().for_each(|cell| contrasts_of[cell].push(index));
        }
        Self {
            plan,
            panels,
            present: Round::default(),
            samples: plan.cells.iter().map(results).collect(),
            cells: vec![CellState::default(); plan.cells.len()],
            failures: Vec::new(),
            tails: plan.contrasts.iter().map(|contrast| contrast.metric.quantile().map(Tail::new)).collect(),
            latest: vec![None; plan.contrasts.len()],
            contrasts_of,
            ran: Vec::new(),
            requested: 0,
            is_cut_short: false,
            takes_all: false,
            rounds: 0,
            cut_short: 0,
        }
    }

    /// True if the last round ended before all its cells were run.
    pub const fn is_cut_short(&self) -> bool {
        self.is_cut_short
    }

    /// The cells that the current round has run; it may continue in another boot.
    pub fn underway(&self) -> &[usize] {
        &self.ran
    }

    /// The number of the round to run after one of this number, or to continue.
    pub(super) fn next_round(&self, last: u32) -> u32 {
        if self.ran.is_empty() { last + 1 } else { last }
    }

    /// The cells that a round still runs, in its order.
    pub(super) fn left(&self, round: u32) -> Vec<usize> {
        let needed = self.needed();
        let is_left = |cell: &usize| needed[*cell] && !self.ran.contains(cell);
        self.plan.order(round).into_iter().filter(is_left).collect()
    }

    /// True if the current round continues in other boots: some have run all their cells, and the others none.
    pub(super) fn continues(&self, round: u32) -> bool {
        if self.ran.is_empty() || !self.plan.trial.has_boots() {
            return false;
        }
        let place = |cell: &usize| self.plan.place_of_cell(*cell);
        let left = self.left(round);
        !left.is_empty() && !left.iter().any(|cell| self.ran.iter().any(|ran| place(ran) == place(cell)))
    }

    /// True if every cell except those of controls was run once: before that there is no answer.
    pub fn has_begun(&self) -> bool {
        self.cells.iter().enumerate().all(|(index, cell)| cell.tried || self.plan.is_control(index))
    }

    /// The trial is resumed: contrasts given up as futile are examined again from the next round on.
    pub fn reopen(&mut self) {
        self.present.is_resumed = true;
        self.panels.reopen();
    }

    /// Takes a round that was run before.
    pub fn take(&mut self, round: Round) {
        self.take_part(round);
        self.end_round();
    }

    /// Takes the runs of a round that was run before, without ending it.
    pub(super) fn take_part(&mut self, round: Round) {
        if round.is_resumed {
            self.reopen();
        }
        round.runs.into_iter().for_each(|(cell, outcome)| self.take_run(cell, outcome));
    }

    /// Takes a run of the current round. Its samples count when the round ends, a failure immediately.
    pub fn take_run(&mut self, cell: usize, outcome: RunOutcome) {
        if self.ran.is_empty() && !self.takes_all {
            self.requested = self.runs_needed();
        }
        self.cells[cell].tried = true;
        self.ran.push(cell);
        match outcome {
            Ok(_) => {
                self.cells[cell].lost = 0;
                self.cells[cell].measured = true;
                self.present.runs.push((cell, outcome));
            }
            Err(failure) => self.take_failure(cell, failure),
        }
    }

    /// A failed run is an outcome of its arm, or lost. Others end a trial, and do not concern its arms.
    fn take_failure(&mut self, cell: usize, failure: RunFailure) {
        let context = self.plan.cell_name(cell);
        match failure.kind {
            FailureKind::ArmFailed => {
                self.failures.push(format!("{context}: {}", with_hint(&failure)));
                self.cells[cell].failed = true;
            }
            FailureKind::Unsupported => self.cells[cell].unsupported = Some(failure.what),
            FailureKind::Lost => {
                self.cells[cell].lost += 1;
                self.cells[cell].loss = Some(with_hint(&failure));
                let is_expected_to_fail = self.plan.parts.iter().any(|part| part.watched.contains(&cell));
                if self.cells[cell].lost == MAX_LOST && is_expected_to_fail {
                    // Whether it survives is the question, and it does not.
                    self.failures.push(format!("{context} was lost {MAX_LOST} times running: {failure}"));
                    self.cells[cell].failed = true;
                }
            }
            FailureKind::HostLacks
            | FailureKind::ArmRefused
            | FailureKind::LoadRefused
            | FailureKind::CleanUp => {}
        }
    }

    /// Number of losses of a cell in succession, if it ends the trial.
    pub(super) fn lost_too_often(&self, cell: usize) -> Option<u32> {
        let CellState { lost, .. } = self.cells[cell];
        (lost >= MAX_LOST && !self.is_out(cell)).then_some(lost)
    }

    /// Ends the round and settles its decisions.
    pub fn end_round(&mut self) {
        // A round without a run is not stored, so it must not count here either.
        if let ran @ 1.. = std::mem::take(&mut self.ran).len() {
            self.rounds += 1;
            self.is_cut_short = ran < self.requested;
            self.cut_short += u32::from(self.is_cut_short);
        }
        let round = std::mem::take(&mut self.present);
        if round.is_resumed {
            self.panels.reopen();
        }
        self.latest.fill(None);
        let of_cell: HashMap<usize, &[Sample]> = round
            .runs
            .iter()
            .map(|(cell, outcome)| (*cell, outcome.as_deref().unwrap_or_default()))
            .collect();
        let mut touched: Vec<usize> =
            of_cell.keys().flat_map(|cell| &self.contrasts_of[*cell]).copied().collect();
        touched.sort_unstable();
        touched.dedup();
        for index in touched {
            let contrast = &self.plan.contrasts[index];
            let matched = contrast.figures().map(|(cell, result)| of_cell.get(&cell)?.get(result));
            let Some(matched) = matched.collect::<Option<Vec<&Sample>>>() else { continue };
            match &contrast.of {
                Of::Ratio => self.push(index, contrast, matched[0], matched[1]),
                Of::Amount => self.push_weighted(index, contrast, &[1.0], &matched),
                Of::Lead(_) => self.push_weighted(index, contrast, &[1.0, -1.0, -1.0, 1.0], &matched),
                Of::Slope(cells) => {
                    let threads = cells.iter().map(|cell| self.plan.cells[*cell].threads);
                    let weights = slope_weights(&threads.collect::<Vec<_>>());
                    self.push_weighted(index, contrast, &weights, &matched[2..]);
                }
            }
        }
        self.panels.settle();
        for (cell, outcome) in round.runs {
            for (all, sample) in self.samples[cell].iter_mut().zip(outcome.unwrap_or_default()) {
                all.push(sample);
            }
        }
    }

    fn push(&mut self, index: usize, contrast: &Contrast, a: &Sample, b: &Sample) {
        let less = less_is_better(self.plan, contrast);
        let pairs = paired(contrast.metric, less, self.tails[index].as_mut(), a, b);
        match &self.tails[index] {
            Some(tail) => self.latest[index] = tail.latest.map(|pair| pair.log_ratio),
            None if pairs.is_empty() => {}
            None => self.latest[index] = pairs.last().map(|pair| pair.log_ratio),
        }
        for pair in pairs {
            self.panels.push(index, pair);
        }
    }

    /// Adds a round of a weighted sum of logarithms: a slope, or a figure itself.
    fn push_weighted(&mut self, index: usize, contrast: &Contrast, weights: &[f64], matched: &[&Sample]) {
        let less = less_is_better(self.plan, contrast);
        if let Some(pair) = weighted_sum(contrast.metric, less, weights, matched) {
            self.latest[index] = Some(pair.log_ratio);
            self.panels.push(index, pair);
        }
    }

    /// The reason why the arm of a cell cannot do its workload, if it has reported one.
    pub fn unsupported(&self, cell: usize) -> Option<&str> {
        self.cells[cell].unsupported.as_deref()
    }

    /// True if a cell is not run again, as it failed or is unsupported.
    pub(super) fn is_out(&self, cell: usize) -> bool {
        self.cells[cell].failed || self.cells[cell].unsupported.is_some()
    }

    /// No further rounds will come. A trial that is decided once is decided by all of its rounds, or not at all.
    pub fn finish(&mut self) {
        if self.plan.trial.trial.sequential || self.takes_all || self.has_all_rounds() {
            self.panels.finish();
        } else {
            self.panels.give_up();
        }
    }

    /// True if all requested rounds are complete.
    pub fn has_all_rounds(&self) -> bool {
        self.plan.trial.trial.rounds.is_some_and(|most| self.rounds - self.cut_short >= most)
    }

    /// Rounds that were cut short.
    pub(super) fn cut_short_rounds(&self) -> u32 {
        self.cut_short
    }

    /// By cell, true if it is still run: every one until all were, and then those of contrasts that hold the trial
    /// open.
    pub fn needed(&self) -> Vec<bool> {
        let has_begun = self.has_begun();
        let is_first = |cell| !has_begun && !self.plan.is_control(cell);
        let cells = 0..self.plan.cells.len();
        let mut needed: Vec<bool> = cells.map(|cell| is_first(cell) || self.is_watched(cell)).collect();
        for (index, contrast) in self.plan.contrasts.iter().enumerate() {
            // The cheaper question first.
            if contrast.cells().any(|cell| !needed[cell]) && self.is_open(index) {
                contrast.cells().for_each(|cell| needed[cell] = true);
            }
        }
        for (cell, needed) in needed.iter_mut().enumerate() {
            *needed &= !self.is_out(cell);
        }
        needed
    }

    /// Number of runs per round from now on: of the cells that are still needed.
    pub fn runs_needed(&self) -> usize {
        self.needed().into_iter().filter(|needed| *needed).count()
    }

    /// The same, or those of all cells if nothing is open any more.
    pub fn runs_left(&self) -> usize {
        let needed = self.runs_needed();
        if needed == 0 { self.plan.cells.len() } else { needed }
    }

    /// True if further rounds of a contrast could come and be informative.
    pub(super) fn may_go_on(&self, index: usize) -> bool {
        let contrast = &self.plan.contrasts[index];
        contrast.holds_open && !contrast.cells().any(|cell| self.is_out(cell)) && self.panels.is_open(index)
    }

    pub(super) fn is_open(&self, index: usize) -> bool {
        self.may_go_on(index)
            && if self.is_control(index) { self.is_wanted(index) } else { !self.is_moot(index) }
    }

    /// The statistical decision on a contrast so far, and whether it was given up as futile.
    pub(super) fn decision(&self, index: usize) -> (Decision, bool) {
        self.panels.decision(index)
    }

    /// The rounds of a contrast so far, and its estimate.
    pub(super) fn estimate(&self, index: usize) -> (usize, Option<f64>) {
        self.panels.estimate(index)
    }

    /// True if any cell is still run.
    pub fn is_undecided(&self) -> bool {
        let mut left = (0..self.plan.cells.len()).filter(|cell| !self.is_out(*cell));
        if !self.has_begun() {
            return left.next().is_some();
        }
        (0..self.plan.contrasts.len()).any(|index| self.is_open(index))
            || left.any(|cell| self.is_watched(cell))
    }

    /// The samples of a result of a cell, in the order of their rounds.
    pub fn samples(&self, cell: usize, result: usize) -> &[Sample] {
        &self.samples[cell][result]
    }

    /// By how much the throughput of a cell varies from round to round: the median, over cells and rounds, of
    /// |ln(rate / median rate of the cell)|. None before there are three rounds.
    pub fn spread_between_rounds(&self) -> Option<f64> {
        let mut all = Vec::new();
        for samples in self.samples.iter().flatten().filter(|samples| samples.len() >= 3) {
            let rates: Vec<f64> = samples.iter().map(|sample| sample.rate).collect();
            let median = spread::median(&rates)?;
            all.extend(rates.iter().map(|rate| (rate / median).ln().abs()));
        }
        spread::median(&all)
    }

    pub fn has_failed(&self, cell: usize) -> bool {
        self.cells[cell].failed
    }

    /// Failures of cells as text, in order.
    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    /// Cells without a measurement because all of their runs were lost, each with the last error.
    pub fn never_measured(&self) -> impl Iterator<Item = String> {
        let cells = self.cells.iter().enumerate().filter(|(_, cell)| !cell.measured && !cell.failed);
        cells.filter_map(|(index, cell)| {
            Some(format!("{}: every run was lost: {}", self.plan.cell_name(index), cell.loss.as_ref()?))
        })
    }

    /// A contrast's ratio in the last round alone, `a` over `b`. None if one of the two is missing, and for a quantile
    /// whose rounds are still being merged. A round after the verdict has its ratio too, for display.
    pub fn latest_ratio(&self, index: usize) -> Option<f64> {
        let less = less_is_better(self.plan, &self.plan.contrasts[index]);
        self.latest[index].map(|log| ratio(log, less))
    }

    /// The samples of a contrast's two cells, by round: those of rounds that have both.
    pub fn pairs(&self, contrast: &Contrast) -> impl Iterator<Item = (&Sample, &Sample)> {
        let of_b = self.samples(contrast.b, contrast.result_b).iter();
        let of_b: HashMap<u32, &Sample> = of_b.map(|sample| (sample.round, sample)).collect();
        self.samples(contrast.a, contrast.result_a)
            .iter()
            .filter_map(move |a| Some((a, *of_b.get(&a.round)?)))
    }

    /// Number of contrasts.
    pub fn contrasts(&self) -> usize {
        self.plan.contrasts.len()
    }

    /// The ratio of a contrast over all rounds so far and its interval, as in [`ContrastState`].
    pub fn ratio_and_interval(&self, index: usize) -> (Option<f64>, Option<(f64, f64)>) {
        self.figures(index, &self.panels.verdict(index))
    }

    /// The ratio of a contrast as it is shown, with the rounds it rests on.
    pub fn ratio(&self, index: usize) -> Option<Estimate> {
        let ContrastState { ratio, interval, rounds, .. } = self.state(index);
        Some(Estimate { value: ratio?, interval, rounds })
    }

    /// The standard error of the logarithm of a contrast's ratio. None with fewer than two rounds.
    pub fn standard_error(&self, index: usize) -> Option<f64> {
        self.panels.standard_error(index)
    }

    /// The figure of a cell itself over all of its rounds, with its interval of 95 %. None of a cell that failed or cannot do it.
    pub fn amount(&self, cell: usize, result: usize, metric: Metric) -> Option<Estimate> {
        let samples = (!self.is_out(cell)).then(|| self.samples(cell, result))?;
        let typical: Typical = samples.iter().filter_map(|sample| sample.figure(metric)).collect();
        Some(Estimate { value: typical.value()?, interval: typical.interval(), rounds: typical.runs() })
    }

    /// Ratio and interval of a verdict, where they may be shown.
    fn figures(&self, index: usize, verdict: &Verdict) -> (Option<f64>, Option<(f64, f64)>) {
        if !self.has_ratio(index, verdict.decision) {
            return (None, None);
        }
        let less = less_is_better(self.plan, &self.plan.contrasts[index]);
        (
            verdict.estimate.map(|log| ratio(log, less)),
            verdict.interval.map(|logs| ratio_interval(logs, less)),
        )
    }

    /// True if a contrast's ratio is shown: not if its cells failed or are unsupported, nor with too few operations.
    fn has_ratio(&self, index: usize, decision: Decision) -> bool {
        let is_out = self.plan.contrasts[index].cells().any(|cell| self.is_out(cell));
        !is_out && self.too_few(index, decision).is_none()
    }

    /// The tail of a contrast of a quantile that has too few operations to be judged. A verdict from single rounds
    /// stays, regardless of later rounds.
    fn too_few(&self, index: usize, decision: Decision) -> Option<&Tail> {
        self.tails[index].as_ref().filter(|tail| tail.has_too_few() && decision == Decision::Undecided)
    }

    pub fn states(&self) -> Vec<ContrastState> {
        (0..self.plan.contrasts.len()).map(|index| self.state(index)).collect()
    }

    fn state(&self, index: usize) -> ContrastState {
        let contrast = &self.plan.contrasts[index];
        let cell = self.plan.cells[contrast.a];
        let verdict = self.panels.verdict(index);
        let failed = contrast.cells().any(|cell| self.has_failed(cell));
        let cannot = contrast.cells().any(|cell| self.unsupported(cell).is_some());
        let less = less_is_better(self.plan, contrast);
        let too_few = self.too_few(index, verdict.decision);
        let (too_few, rounds) = (too_few.is_some(), too_few.map_or(verdict.rounds, |tail| tail.groups));
        let shown = self.has_ratio(index, verdict.decision);
        let total_ratio = verdict.total.filter(|_| shown).map(|total| ratio(total, less));
        let (ratio, interval) = self.figures(index, &verdict);
        let assay = self.assay(index);
        let outcome = match verdict.decision {
            _ if failed => Outcome::Failed,
            _ if cannot => Outcome::Unsupported,
            _ if too_few => Outcome::Undecided,
            decision if self.is_control(index) => of_control(decision),
            Decision::Equivalent => match assay {
                Assay::Unasked | Assay::Seen => Outcome::Equivalent,
                Assay::Unknown => Outcome::Undecided,
                Assay::Unseen | Assay::Overdosed => Outcome::Insensitive,
            },
            decision => decision.into(),
        };
        let (a, b) = self.plan.names(contrast);
        let is_licensed = matches!(assay, Assay::Unasked | Assay::Seen);
        let within = verdict.within.filter(|_| shown && is_licensed && !self.is_control(index));
        let band = contrast.metric.band(self.plan.trial.trial.practical.fraction());
        let near = within.is_some_and(|within| is_near(within, band))
            && interval.is_none_or(|(low, high)| low <= 1.0 && high >= 1.0);
        // That a difference is within a band is shown by the interval at the level of *equivalent*.
        let interval_within = verdict.interval_within.filter(|_| near).map(|logs| ratio_interval(logs, less));
        ContrastState {
            a,
            b,
            is_lead: contrast.is_lead(),
            workload: self.plan.under(contrast.a).to_owned(),
            phase: self.plan.results[cell.workload][contrast.result_a].name.clone(),
            threads: cell.threads,
            metric: contrast.metric,
            less_is_better: less,
            verdict: outcome,
            ratio,
            interval: interval_within.or(interval),
            interval_level: if near { 1.0 - 2.0 * ALPHA } else { verdict.interval_level },
            rounds,
            open: self.is_open(index),
            holds_open: contrast.holds_open,
            rounds_needed: verdict
                .rounds_needed
                .filter(|_| shown)
                .map(|(low, high)| (low as u64, high as u64)),
            given_up: verdict.futile && outcome == Outcome::Undecided,
            suggestive: verdict.excludes_zero_undecided && shown,
            too_few_operations: too_few,
            within_percent: within.map(|within| within * 100.0),
            near,
            control: self.control(index),
            waits_for_control: verdict.decision == Decision::Equivalent && assay == Assay::Unknown,
            total_ratio,
            waits_for_total: verdict.waits_for_total && shown,
            total_is_apart: verdict.total_is_apart && shown,
            unseen_stalls_percent: 100.0 * unseen_stalls(verdict.rounds),
        }
    }
}

/// The comparison of a control with its arm: its question is the size of the slowdown.
fn of_control(decision: Decision) -> Outcome {
    match decision {
        // About as much as was planted, or more.
        Decision::Equivalent | Decision::Slower => Outcome::Slower,
        Decision::Faster => Outcome::Equivalent,
        Decision::Undecided => Outcome::Undecided,
    }
}
