//! What a number of rounds can show: the least difference with which a simulated trial is decided.
//!
//! The log-ratios of rounds between equal arms are the noise of a trial. A true difference adds the same to all of them, so
//! each look at them has a least difference with which it finds *faster*: for the signed ranks that is the k-th smallest
//! Walsh average with its sign turned, for the lane what its t-test lacks. The least over all looks is what this trial
//! needs, and the ninth of ten trials in order of their needs tells what is found with 90 % power. No search is made, and
//! no approximation but that the ratio of all that was done ([`crate::total`]) does not contradict.

use crate::estimate::Walsh;
use crate::schedule::Schedule;
use crate::{lane, spread, student};

/// What one simulated trial needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Need {
    /// Units of the noise that the signed ranks need at their best look; infinite if no look can decide.
    signs: f64,
    /// For each look of the lane: units that its t-test needs, and the mean of the noise.
    lane: Vec<(f64, f64)>,
}

impl Need {
    /// The need of a trial whose rounds have this noise, whatever its unit. `a_first` tells the order of each round, or is
    /// empty for a question that has no lane.
    pub fn of(noise: &[f64], a_first: &[bool], schedule: &Schedule) -> Need {
        let (mut walsh, mut signs) = (Walsh::default(), f64::INFINITY);
        for (before, value) in noise.iter().enumerate() {
            walsh.push(*value);
            if let Some((low, _)) = walsh.interval(schedule.critical(before + 1)) {
                signs = signs.min(-low);
            }
        }
        let looks = (2..=noise.len().min(a_first.len())).filter(|n| lane::is_open(*n, schedule.alpha()));
        let lane = looks.filter_map(|n| in_lane(&noise[..n], &a_first[..n], schedule.alpha())).collect();
        Need { signs, lane }
    }

    /// The least true log-ratio that is found, if a unit of the noise is this log-ratio.
    pub fn at(&self, unit: f64) -> f64 {
        let least = libm::log(lane::MIN_RATIO);
        let lane = self.lane.iter().map(|(by_t, mean)| (by_t * unit).max(least - mean * unit));
        lane.fold(self.signs * unit, f64::min)
    }
}

/// What the t-test of a look in the lane needs, and the mean; none where only one order has occurred.
fn in_lane(noise: &[f64], a_first: &[bool], alpha: f64) -> Option<(f64, f64)> {
    let (mean, sd) = spread::mean_and_sd(noise)?;
    let t = student::upper_quantile(lane::level(alpha) / 2.0, noise.len() - 1);
    let both = a_first.contains(&true) && a_first.contains(&false);
    both.then_some((t * sd / (noise.len() as f64).sqrt() - mean, mean))
}

/// The least of these needs that at least the share `power` of all trials does not exceed; none if it is infinite.
pub fn found_with(power: f64, mut needs: Vec<f64>) -> Option<f64> {
    needs.sort_unstable_by(f64::total_cmp);
    let at = ((power * needs.len() as f64).ceil() as usize).clamp(1, needs.len().max(1)) - 1;
    needs.get(at).copied().filter(|need| need.is_finite())
}

/// The first round after which a trial can have any verdict, of one question among as many as share the error: by the signed
/// ranks, or by the lane, or as *equivalent*. None within the planned rounds if there is none.
pub fn first_verdict(directional: &Schedule, equivalence: Option<&Schedule>, lane: bool) -> Option<usize> {
    let can = |n: &usize| {
        directional.critical(*n) > 0
            || equivalence.is_some_and(|schedule| schedule.critical(*n) > 0)
            || (lane && lane::is_open(*n, directional.alpha()))
    };
    (1..=directional.planned_rounds()).find(can)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decision, Multiplicity, Pair, Panel, Question};

    const NOISE: [f64; 9] = [0.3, -1.2, 0.8, 0.1, -0.4, 1.9, -0.7, 0.5, -0.2];
    const ORDER: [bool; 9] = [true, false, false, true, false, true, true, false, true];

    /// Whether the real rule says *faster* of these rounds with a difference added.
    fn is_found(difference: f64, unit: f64, lane: bool) -> bool {
        let question = Question { lane, equivalence: false, ..Question::comparison(0.03) };
        let mut panel = Panel::new(vec![question], 0.05, 9, Multiplicity::BenjaminiHochberg);
        panel.set_futility(false);
        for (noise, a_first) in NOISE.iter().zip(ORDER) {
            let log_ratio = difference + unit * noise;
            panel.push(0, Pair { log_ratio, done: None, a_first: Some(a_first) });
            panel.settle();
        }
        panel.verdict(0).decision == Decision::Faster
    }

    #[test]
    fn the_real_rule_finds_just_what_is_needed() {
        let schedule = Schedule::new(0.05, 9);
        for lane in [false, true] {
            let need = Need::of(&NOISE, if lane { &ORDER } else { &[] }, &schedule);
            for unit in [0.0001, 0.01, 0.1, 0.5] {
                let least = need.at(unit);
                assert!(is_found(least * 1.0001, unit, lane), "{lane}, {unit}: {least} is not enough");
                assert!(!is_found(least * 0.9999, unit, lane), "{lane}, {unit}: less than {least} is enough");
            }
        }
    }

    #[test]
    fn power_is_a_share_of_trials() {
        let needs: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(found_with(0.9, needs.clone()), Some(9.0));
        assert_eq!(found_with(0.05, needs), Some(1.0));
        assert_eq!(found_with(0.9, vec![1.0, f64::INFINITY]), None);
        assert_eq!(found_with(0.9, Vec::new()), None);
    }

    #[test]
    fn the_first_verdict_is_the_lane_s_or_that_of_the_signs() {
        let [directional, equivalence] = [0.05, 0.1].map(|alpha| Schedule::new(alpha, 60));
        assert_eq!(first_verdict(&directional, Some(&equivalence), true), Some(4));
        assert_eq!(first_verdict(&directional, Some(&equivalence), false), Some(8));
        assert_eq!(first_verdict(&directional, None, false), Some(9));
        assert_eq!(first_verdict(&Schedule::new(0.05, 4), None, false), None);
        assert_eq!(first_verdict(&Schedule::new(0.05, 6), None, false), Some(6));
    }
}
