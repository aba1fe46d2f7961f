//! Whether a trial could have seen a difference: what its controls found, and which verdicts rest on that.
//!
//! A control begins where a contrast next to it looks like no difference after a few rounds, and runs while anything rests on
//! it. On a modelled device that is made slower where the load's handicap does not show.

use super::{
    cell::{Cell, Contrast},
    contrast::{Assay, Control, Lever},
    judge::Judge,
};
use fstrial_model::metric::Metric;
use fstrial_stats::Decision;

/// Rounds of a contrast before a control is begun for its sake.
const FIRST: usize = 6;

impl Judge<'_> {
    /// What a control has found, by the index of its contrast.
    pub(super) fn found_by(&self, control: usize) -> Assay {
        match self.verdict(control).decision {
            Decision::Equivalent => Assay::Seen,
            Decision::Slower if self.plan.contrasts[control].metric == Metric::CpuTime => Assay::Seen,
            Decision::Slower => Assay::Overdosed,
            Decision::Faster => Assay::Unseen,
            Decision::Undecided => Assay::Unknown,
        }
    }

    /// What a contrast is a control of, and what it found; none of others.
    pub(super) fn control(&self, index: usize) -> Option<Control> {
        let planted = self.plan.contrasts[index].dose.filter(|_| self.is_control(index))?;
        Some(Control { planted, lever: self.lever(index), found: self.found_by(index) })
    }

    fn lever(&self, control: usize) -> Lever {
        let arm = &self.plan.trial.arms[self.plan.cells[self.plan.contrasts[control].a].arm];
        if arm.handicap.is_some() { Lever::Load } else { Lever::Device }
    }

    /// What the controls of a contrast's cells say; the worst of them, as a ceiling at one level hides what is between two.
    pub(super) fn assay(&self, index: usize) -> Assay {
        let all: Vec<usize> = self.controls_of(index).collect();
        let first = all.iter().filter(|control| self.other_lever(**control, Lever::Load).is_none());
        let found = first.map(|control| match self.found_by(*control) {
            Assay::Unseen | Assay::Overdosed => {
                let other = self.other_lever(*control, Lever::Device);
                other.map_or(self.found_by(*control), |other| self.found_by(other))
            }
            found => found,
        });
        found.max().unwrap_or(if self.lacks_its_control(index) { Assay::Unknown } else { Assay::Unasked })
    }

    /// The control of the same cell, dose and figure that has this lever and is another one.
    fn other_lever(&self, control: usize, lever: Lever) -> Option<usize> {
        let key = |index: usize| {
            let Contrast { b, result_b, metric, dose, .. } = &self.plan.contrasts[index];
            (*b, *result_b, *metric, *dose)
        };
        let is_it = |other: &usize| {
            *other != control
                && self.is_control(*other)
                && self.lever(*other) == lever
                && key(*other) == key(control)
        };
        (0..self.plan.contrasts.len()).find(is_it)
    }

    /// The controls in the settings of a contrast's cells.
    fn controls_of(&self, index: usize) -> impl Iterator<Item = usize> {
        let contrast = &self.plan.contrasts[index];
        let all = 0..self.plan.contrasts.len();
        all.filter(|other| self.is_control(*other) && self.is_beside(&self.plan.contrasts[*other], contrast))
    }

    /// Whether a control's cell has the workload, the level and the result of a contrast's cell, and its dose.
    fn is_beside(&self, control: &Contrast, contrast: &Contrast) -> bool {
        let of = self.plan.cells[control.a];
        (contrast.metric, contrast.dose) == (control.metric, control.dose)
            && [contrast.result_a, contrast.result_b].contains(&control.result_a)
            && contrast.cells().any(|cell| {
                let Cell { workload, threads, arm } = self.plan.cells[cell];
                let is_here = self.plan.place_of[arm] == self.plan.place_of[of.arm];
                is_here && (workload, threads) == (of.workload, of.threads)
            })
    }

    /// Whether a contrast is of a control with its arm.
    pub(super) fn is_control(&self, index: usize) -> bool {
        self.plan.is_control(self.plan.contrasts[index].a)
    }

    /// Whether any contrast rests on a control that has found nothing yet.
    pub(super) fn is_wanted(&self, control: usize) -> bool {
        let is_its_turn = self.other_lever(control, Lever::Load).is_none_or(|load| {
            self.lever(control) == Lever::Load
                || matches!(self.found_by(load), Assay::Unseen | Assay::Overdosed)
        });
        let beside = |index: &usize| {
            !self.is_control(*index)
                && self.is_beside(&self.plan.contrasts[control], &self.plan.contrasts[*index])
        };
        is_its_turn
            && self.found_by(control) == Assay::Unknown
            && (0..self.plan.contrasts.len())
                .filter(beside)
                .any(|index| self.saw_nothing(index) || self.is_open(index) && self.looks_the_same(index))
    }

    /// Whether the estimate of a contrast lies where no difference of its dose's band would be found.
    fn looks_the_same(&self, index: usize) -> bool {
        let (contrast, verdict) = (&self.plan.contrasts[index], self.verdict(index));
        let band = contrast.dose.map_or(0.0, |dose| (dose.fraction() / 2.0).ln_1p());
        verdict.rounds >= FIRST && verdict.estimate.is_some_and(|log| log.abs() < band)
    }

    /// Whether a contrast, or the part of the claim that it is of, is about to be told as no difference.
    fn saw_nothing(&self, index: usize) -> bool {
        let part = self.plan.parts.iter().position(|part| part.contrasts.contains(&index));
        match part {
            Some(part) => self.part_rests_on_a_control(part),
            None => self.verdict(index).decision == Decision::Equivalent,
        }
    }

    /// Whether there is a control next to a contrast, but none of its dose: it was not asked for what the trial does not decide
    /// on, nor in trials of old.
    fn lacks_its_control(&self, index: usize) -> bool {
        let contrast = &self.plan.contrasts[index];
        let shows = |control: usize| contrast.metric != Metric::CpuTime || self.lever(control) == Lever::Load;
        let is_near = |other: &usize| {
            let control = &self.plan.contrasts[*other];
            self.is_control(*other)
                && (control.b, control.result_b) == (contrast.b, contrast.result_b)
                && shows(*other)
        };
        let may_have_one = contrast.dose.is_some() || !contrast.holds_open;
        may_have_one
            && contrast.metric.dose(0.0).is_some()
            && !self.is_control(index)
            && (0..self.plan.contrasts.len()).any(|other| is_near(&other))
    }
}
