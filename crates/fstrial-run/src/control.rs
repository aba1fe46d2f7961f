//! Assay sensitivity of a trial: the results of its controls, and the verdicts that depend on them.
//!
//! A control begins when a contrast next to it looks like no difference after a few rounds, and runs while anything
//! depends on it. On a modelled device the device itself is slowed if the load's handicap does not show.

use super::{
    cell::{Cell, Contrast},
    contrast::{Assay, Control, Lever},
    judge::Judge,
};
use fstrial_model::trial::can_run;
use fstrial_stats::Decision;

/// Rounds of a contrast before a control is begun for its sake.
const FIRST: usize = 6;

impl Judge<'_> {
    /// Result of a control, by the index of its contrast.
    pub(super) fn found_by(&self, control: usize) -> Assay {
        match self.decision(control).0 {
            Decision::Equivalent => Assay::Seen,
            Decision::Slower => Assay::Overdosed,
            Decision::Faster => Assay::Unseen,
            Decision::Undecided => Assay::Unknown,
        }
    }

    /// The arm of a control contrast, and its result; none for others.
    pub(super) fn control(&self, index: usize) -> Option<Control> {
        let planted = self.plan.contrasts[index].dose.filter(|_| self.is_control(index))?;
        Some(Control { planted, lever: self.lever(index), found: self.found_by(index) })
    }

    fn lever(&self, control: usize) -> Lever {
        let arm = &self.plan.trial.arms[self.plan.cells[self.plan.contrasts[control].a].arm];
        if arm.handicap.is_some() { Lever::Load } else { Lever::Device }
    }

    /// The worst result of the controls of a contrast's cells, as a ceiling at one level hides differences between two.
    /// Detecting a slower device says nothing if the arms are held up by its limit.
    pub(super) fn assay(&self, index: usize) -> Assay {
        if self.plan.trial.arms.iter().all(|arm| arm.control_of.is_none()) {
            return Assay::Unasked;
        }
        let first = self.controls_of(index).filter(|control| !self.is_second(*control));
        let matched = first.map(|control| match self.other_lever(control, Lever::Device) {
            Some(other) if self.is_passed_on(control) && !self.is_at_ceiling(index) => self.found_by(other),
            _ => self.found_by(control),
        });
        let without = || if self.lacks_its_control(index) { Assay::Unknown } else { Assay::Unasked };
        matched.max().unwrap_or_else(without)
    }

    /// True for a fallback control.
    fn is_second(&self, control: usize) -> bool {
        self.lever(control) == Lever::Device && self.other_lever(control, Lever::Load).is_some()
    }

    /// True if a control of the load was not detected, or will not be decided.
    fn is_passed_on(&self, control: usize) -> bool {
        match self.found_by(control) {
            Assay::Unseen => true,
            Assay::Unknown => !self.may_go_on(control),
            _ => false,
        }
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

    /// True if a control's cell has the workload, the level and the result of a contrast's cell, and its dose.
    fn is_beside(&self, control: &Contrast, contrast: &Contrast) -> bool {
        let of = self.plan.cells[control.a];
        (contrast.metric, contrast.dose) == (control.metric, control.dose)
            && contrast.figures().any(|(cell, result)| {
                let Cell { workload, threads, arm } = self.plan.cells[cell];
                let is_here = self.plan.place_of[arm] == self.plan.place_of[of.arm];
                is_here && (workload, threads, result) == (of.workload, of.threads, control.result_a)
            })
    }

    /// True for a contrast of a control with its arm.
    pub(super) fn is_control(&self, index: usize) -> bool {
        self.plan.is_control(self.plan.contrasts[index].a)
    }

    /// True if a contrast depends on this control, which has no result yet.
    pub(super) fn is_wanted(&self, control: usize) -> bool {
        let first = self.other_lever(control, Lever::Load).filter(|_| self.is_second(control));
        let is_its_turn =
            |index: usize| first.is_none_or(|first| self.is_passed_on(first) && !self.is_at_ceiling(index));
        let beside = |index: &usize| {
            !self.is_control(*index)
                && self.is_beside(&self.plan.contrasts[control], &self.plan.contrasts[*index])
        };
        self.found_by(control) == Assay::Unknown
            && (0..self.plan.contrasts.len()).filter(beside).any(|index| {
                let looks_the_same = || self.is_open(index) && self.looks_the_same(index);
                is_its_turn(index) && (self.saw_nothing(index) || looks_the_same())
            })
    }

    /// True if the estimate of a contrast is inside half of its dose: findings that depend on a control are closer to 1
    /// than that.
    fn looks_the_same(&self, index: usize) -> bool {
        let band = self.plan.contrasts[index].dose.map_or(0.0, |dose| (dose.fraction() / 2.0).ln_1p());
        let (rounds, estimate) = self.estimate(index);
        rounds >= FIRST && estimate.is_some_and(|log| log.abs() < band)
    }

    /// True if a contrast, or its part of the claim, is about to be reported as no difference.
    fn saw_nothing(&self, index: usize) -> bool {
        let part = self.plan.parts.iter().position(|part| part.contrasts.contains(&index));
        match part {
            Some(part) => self.part_rests_on_a_control(part) && self.is_resting(part, index),
            None => self.decision(index).0 == Decision::Equivalent,
        }
    }

    /// True if a control was requested next to a contrast, and there is none of its dose: it is not one that the trial
    /// decides on, or the control was planted by hand, or in old trials.
    fn lacks_its_control(&self, index: usize) -> bool {
        let contrast = &self.plan.contrasts[index];
        let may_have_one = contrast.dose.is_some() || !contrast.holds_open;
        let is_slowed = |(cell, result): (usize, usize)| {
            let Cell { workload, arm, .. } = self.plan.cells[cell];
            let arms = self.plan.trial.arms.iter().zip(&self.plan.place_of);
            let mut controls = arms.filter(|(control, place)| {
                control.control_of.is_some()
                    && **place == self.plan.place_of[arm]
                    && can_run(control, &self.plan.workloads[workload])
            });
            self.plan.results[workload][result].offered_rate.is_none() && controls.next().is_some()
        };
        may_have_one
            && !self.is_control(index)
            && contrast.metric.dose(0.0).is_some()
            && contrast.figures().any(is_slowed)
    }
}
