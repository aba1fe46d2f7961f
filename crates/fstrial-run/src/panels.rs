//! The statistics of a trial: a panel for the questions, one for their tails, and one for the controls. They share no
//! error with each other: questions about throughput must not wait because p99, or a server's latencies, are of
//! interest as well.

use super::{
    cell::Contrast,
    contrast::{less_is_better, question},
    plan::Plan,
};
use fstrial_model::trial::{ErrorControl, Settings};
use fstrial_stats::{Decision, Multiplicity, Pair, Panel, Question, Verdict, total};

/// The level at which every trial decides.
pub const ALPHA: f64 = 0.05;

/// The family of contrasts that share their error.
#[derive(Clone, Copy)]
enum Family {
    Asked,
    Tails,
    Controls,
}

/// The panels, by the index of a contrast in the plan.
pub(super) struct Panels {
    /// By [`Family`].
    panels: [Panel; 3],
    /// By contrast: its family, and its index in that.
    at: Vec<(Family, usize)>,
}

impl Panels {
    /// The statistics of a plan, by [`Panel::new`] or [`Panel::looking_once`].
    pub(super) fn new(plan: &Plan, panel: impl Fn(Vec<Question>, f64, Multiplicity) -> Panel) -> Self {
        let settings = &plan.trial.trial;
        let (mut questions, mut at) = ([Vec::new(), Vec::new(), Vec::new()], Vec::new());
        for contrast in &plan.contrasts {
            let family = family(plan, contrast);
            let of = &mut questions[family as usize];
            at.push((family, of.len()));
            let plain = question(contrast, settings, less_is_better(plan, contrast));
            let least_rounds = if matches!(family, Family::Asked) { least_rounds(settings) } else { 0 };
            of.push(Question { least_rounds, ..plain });
        }
        let multiplicity = match settings.errors {
            ErrorControl::Fdr => Multiplicity::BenjaminiHochberg,
            ErrorControl::Fwer => Multiplicity::Holm,
        };
        let mut panels = questions.map(|questions| panel(questions, ALPHA, multiplicity));
        if plan.trial.claim.is_some() {
            panels.iter_mut().for_each(Panel::persist);
        }
        Self { panels, at }
    }

    fn of(&self, contrast: usize) -> (&Panel, usize) {
        let (family, index) = self.at[contrast];
        (&self.panels[family as usize], index)
    }

    pub(super) fn push(&mut self, contrast: usize, pair: Pair) {
        let (family, index) = self.at[contrast];
        self.panels[family as usize].push(index, pair);
    }

    pub(super) fn settle(&mut self) {
        self.panels.iter_mut().for_each(Panel::settle);
    }

    pub(super) fn finish(&mut self) {
        self.panels.iter_mut().for_each(Panel::finish);
    }

    pub(super) fn give_up(&mut self) {
        self.panels.iter_mut().for_each(Panel::give_up);
    }

    pub(super) fn standard_error(&self, contrast: usize) -> Option<f64> {
        let (panel, index) = self.of(contrast);
        panel.standard_error(index)
    }

    pub(super) fn reopen(&mut self) {
        self.panels.iter_mut().for_each(Panel::reopen);
    }

    pub(super) fn is_open(&self, contrast: usize) -> bool {
        let (panel, index) = self.of(contrast);
        panel.is_open(index)
    }

    pub(super) fn decision(&self, contrast: usize) -> (Decision, bool) {
        let (panel, index) = self.of(contrast);
        panel.decision(index)
    }

    pub(super) fn estimate(&self, contrast: usize) -> (usize, Option<f64>) {
        let (panel, index) = self.of(contrast);
        panel.estimate(index)
    }

    pub(super) fn verdict(&self, contrast: usize) -> Verdict {
        let (panel, index) = self.of(contrast);
        panel.verdict(index)
    }
}

/// The contrasts that one shares its error with.
fn family(plan: &Plan, contrast: &Contrast) -> Family {
    if plan.is_control(contrast.a) {
        Family::Controls
    } else if contrast.metric.quantile().is_some() || is_told_along(plan, contrast) {
        Family::Tails
    } else {
        Family::Asked
    }
}

/// True if it is about an unrequested secondary result.
fn is_told_along(plan: &Plan, contrast: &Contrast) -> bool {
    !contrast.holds_open && plan.is_secondary(plan.cells[contrast.a].workload, contrast.result_a)
}

/// Minimum of rounds for a verdict, required by stalls.
pub(super) fn least_rounds(settings: &Settings) -> usize {
    settings.stalls.map_or(0, |stalls| total::rounds_to_see(stalls.fraction()))
}

/// Number of contrasts that share their error with throughput.
pub(super) fn questions(plan: &Plan) -> usize {
    plan.contrasts.iter().filter(|contrast| matches!(family(plan, contrast), Family::Asked)).count()
}
