//! The power of a number of rounds: the least difference with which a simulated trial is decided.
//!
//! The log-ratios of rounds between equal arms are the noise of a trial. A true difference adds the same to all of
//! them, so each look at them has a least difference with which it finds *faster*: the k-th smallest Walsh average with
//! its sign reversed. The least over all looks is the need of this trial, and the ninth of ten trials in order of their
//! needs gives the difference found with 90 % power. No search is made, and no approximation except that the ratio of
//! totals ([`crate::total`]) does not contradict.

use crate::estimate::Walsh;
use crate::schedule::Schedule;

/// The need of a simulated trial whose rounds have this noise: the least true log-ratio that is found, in the unit of
/// the noise; infinite if no look can decide.
pub fn need(noise: &[f64], schedule: &Schedule) -> f64 {
    let mut walsh = Walsh::default();
    let looks = noise.iter().enumerate().filter_map(|(before, value)| {
        walsh.push(*value);
        walsh.interval(schedule.critical(before + 1)).map(|(low, _)| -low)
    });
    looks.fold(f64::INFINITY, f64::min)
}

/// The least of these needs that at least the share `power` of all trials does not exceed; none if it is infinite.
pub fn found_with(power: f64, mut needs: Vec<f64>) -> Option<f64> {
    needs.sort_unstable_by(f64::total_cmp);
    let at = ((power * needs.len() as f64).ceil() as usize).clamp(1, needs.len().max(1)) - 1;
    needs.get(at).copied().filter(|need| need.is_finite())
}

/// The first round after which a trial can have any verdict, of one question among as many as share the error: by direction,
/// or as *equivalent*. None up to `most` if there is none.
pub fn first_verdict(directional: &Schedule, equivalence: Option<&Schedule>, most: usize) -> Option<usize> {
    let can = |n: &usize| {
        directional.critical(*n) > 0 || equivalence.is_some_and(|schedule| schedule.critical(*n) > 0)
    };
    (1..=most).find(can)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decision, Multiplicity, Pair, Panel, Question, schedule::Spending};

    const NOISE: [f64; 9] = [0.3, -1.2, 0.8, 0.1, -0.4, 1.9, -0.7, 0.5, -0.2];

    /// True if the real rule finds *faster* in these rounds with a difference added.
    fn is_found(difference: f64, unit: f64) -> bool {
        let question = Question { equivalence: false, ..Question::comparison(0.03) };
        let mut panel = Panel::new(vec![question], 0.05, Multiplicity::BenjaminiHochberg);
        panel.set_futility(false);
        for noise in NOISE {
            panel.push(0, Pair { log_ratio: difference + unit * noise, done: None });
            panel.settle();
        }
        panel.verdict(0).decision == Decision::Faster
    }

    #[test]
    fn need_is_smallest_detectable_effect() {
        let schedule = Schedule::new(0.05, Spending::Directional);
        let need = need(&NOISE, &schedule);
        for unit in [0.0001, 0.01, 0.1, 0.5] {
            let least = need * unit;
            assert!(is_found(least * 1.0001, unit), "{unit}: {least} is not enough");
            assert!(!is_found(least * 0.9999, unit), "{unit}: less than {least} is enough");
        }
        assert_eq!(super::need(&NOISE[..6], &schedule), f64::INFINITY);
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
    fn the_first_verdict_is_a_direction_or_equivalence() {
        let equivalence = Schedule::new(0.1, Spending::Equivalence);
        let directional = |questions: f64| Schedule::new(0.05 / questions, Spending::Directional);
        assert_eq!(first_verdict(&directional(1.0), Some(&equivalence), 60), Some(7));
        assert_eq!(first_verdict(&directional(18.0), Some(&equivalence), 60), Some(8));
        assert_eq!(first_verdict(&directional(18.0), None, 60), Some(11));
        assert_eq!(first_verdict(&directional(1.0), None, 6), None);
    }
}
