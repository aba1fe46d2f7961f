//! Whether a trial could have seen a difference: what its controls found, and which verdicts rest on that.

use super::{
    cell::Contrast,
    contrast::{Assay, Control, Lever},
    judge::Judge,
};
use fstrial_model::metric::Metric;
use fstrial_stats::Decision;

impl Judge<'_> {
    /// What a control has found, by the index of its contrast.
    pub(super) fn found_by(&self, control: usize) -> Assay {
        let contrast = &self.plan.contrasts[control];
        let arm = &self.plan.trial.arms[self.plan.cells[contrast.a].arm];
        let verdict = self.verdict(control);
        // Half of what was planted: the load generator's own share of an operation is not slowed down, nor what a program
        // does without its device.
        let least = arm.planted().unwrap_or_default().fraction().ln_1p() / 2.0;
        match verdict.decision {
            Decision::Slower => Assay::Seen,
            Decision::Equivalent | Decision::Faster => Assay::Unseen,
            Decision::Undecided if verdict.interval.is_some_and(|(low, _)| low > -least) => Assay::Unseen,
            Decision::Undecided => Assay::Unknown,
        }
    }

    /// What a contrast is a control of, and what it found; none of others.
    pub(super) fn control(&self, index: usize) -> Option<Control> {
        let arm = &self.plan.trial.arms[self.plan.cells[self.plan.contrasts[index].a].arm];
        let planted = arm.planted().filter(|_| self.is_control(index))?;
        let lever = if arm.handicap.is_some() { Lever::Load } else { Lever::Device };
        Some(Control { planted, lever, found: self.found_by(index) })
    }

    /// What the controls of a contrast's cells say; the worst of them, as a ceiling at one level hides what is between two.
    pub(super) fn assay(&self, index: usize) -> Assay {
        self.controls_of(index).map(|control| self.found_by(control)).max().unwrap_or(Assay::Unasked)
    }

    /// The controls in the settings of a contrast's cells.
    fn controls_of(&self, index: usize) -> impl Iterator<Item = usize> {
        let contrast = &self.plan.contrasts[index];
        let all = 0..self.plan.contrasts.len();
        all.filter(|other| self.is_control(*other) && self.is_beside(&self.plan.contrasts[*other], contrast))
    }

    /// Whether a control's cell has the workload, the level and the result of a contrast's cell.
    fn is_beside(&self, control: &Contrast, contrast: &Contrast) -> bool {
        let of = self.plan.cells[control.a];
        contrast.metric == Metric::Throughput
            && [contrast.result_a, contrast.result_b].contains(&control.result_a)
            && contrast.cells().any(|cell| {
                let cell = self.plan.cells[cell];
                let is_here = self.plan.place_of[cell.arm] == self.plan.place_of[of.arm];
                is_here && (cell.workload, cell.threads) == (of.workload, of.threads)
            })
    }

    /// Whether a contrast is of a control with its arm.
    pub(super) fn is_control(&self, index: usize) -> bool {
        self.plan.is_control(self.plan.contrasts[index].a)
    }

    /// Whether any contrast still rests on a control: one that is open, or that found no difference.
    pub(super) fn is_wanted(&self, control: usize) -> bool {
        let beside = |index: &usize| {
            !self.is_control(*index)
                && self.is_beside(&self.plan.contrasts[control], &self.plan.contrasts[*index])
        };
        let mut all = (0..self.plan.contrasts.len()).filter(beside);
        self.found_by(control) == Assay::Unknown
            && all.any(|index| self.is_open(index) || self.saw_nothing(index))
    }

    /// Whether a contrast, or the part of the claim that it is of, is about to be told as no difference.
    fn saw_nothing(&self, index: usize) -> bool {
        let part = self.plan.parts.iter().position(|part| part.contrasts.contains(&index));
        match part {
            Some(part) => self.part_saw_nothing(part),
            None => self.verdict(index).decision == Decision::Equivalent,
        }
    }
}
