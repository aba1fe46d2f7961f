//! The statistics of a trial: one panel for what is asked, and one for its controls, which share no error with it.

use super::{
    contrast::{less_is_better, question},
    plan::Plan,
};
use fstrial_model::trial::ErrorControl;
use fstrial_stats::{Multiplicity, Pair, Panel, Question, Verdict};

/// The level at which every trial decides.
pub const ALPHA: f64 = 0.05;

/// Both panels, by the index of a contrast in the plan.
pub(super) struct Panels {
    asked: Panel,
    controls: Option<Panel>,
    /// By contrast: whether it is of a control, and its index in that panel.
    at: Vec<(bool, usize)>,
}

impl Panels {
    /// The statistics of a plan with its number of rounds.
    pub(super) fn new(plan: &Plan, planned: u32) -> Self {
        let settings = &plan.trial.trial;
        let (mut asked, mut controls, mut at) = (Vec::new(), Vec::new(), Vec::new());
        for contrast in &plan.contrasts {
            let is_control = plan.is_control(contrast.a);
            let of = if is_control { &mut controls } else { &mut asked };
            at.push((is_control, of.len()));
            let plain = question(contrast, settings.practical.fraction(), less_is_better(plan, contrast));
            of.push(Question { holds_open: contrast.holds_open, lane: plain.lane && settings.lane, ..plain });
        }
        let multiplicity = match settings.errors {
            ErrorControl::Fdr => Multiplicity::BenjaminiHochberg,
            ErrorControl::Fwer => Multiplicity::Holm,
        };
        let panel = |questions| Panel::new(questions, ALPHA, planned as usize, multiplicity);
        let controls = (!controls.is_empty()).then(|| panel(controls));
        Self { asked: panel(asked), controls, at }
    }

    fn of(&self, contrast: usize) -> (&Panel, usize) {
        let (is_control, index) = self.at[contrast];
        (self.controls.as_ref().filter(|_| is_control).unwrap_or(&self.asked), index)
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Panel> {
        std::iter::once(&mut self.asked).chain(&mut self.controls)
    }

    pub(super) fn push(&mut self, contrast: usize, pair: Pair) {
        let (is_control, index) = self.at[contrast];
        self.controls.as_mut().filter(|_| is_control).unwrap_or(&mut self.asked).push(index, pair);
    }

    pub(super) fn settle(&mut self) {
        self.all().for_each(Panel::settle);
    }

    pub(super) fn finish(&mut self) {
        self.all().for_each(Panel::finish);
    }

    pub(super) fn reopen(&mut self) {
        self.all().for_each(Panel::reopen);
    }

    pub(super) fn is_open(&self, contrast: usize) -> bool {
        let (panel, index) = self.of(contrast);
        panel.is_open(index)
    }

    pub(super) fn verdict(&self, contrast: usize) -> Verdict {
        let (panel, index) = self.of(contrast);
        panel.verdict(index)
    }
}
