//! Unpaired groups of values: the rank-sum test and the shift of [`crate::shift`] on logarithms, judged once, with all
//! of α.
//!
//! The error of *faster* and *slower* is shared over all questions by Benjamini and Hochberg; a difference is *equivalent* by
//! its interval of level 1 − 2α, question by question, before directions are looked at.

use crate::{panel::Decision, shift::shift};

/// Two groups of values that are not paired: natural logs, of which more is better.
#[derive(Clone, Debug)]
pub struct Groups {
    /// Values of a.
    pub a: Vec<f64>,
    /// Values of b.
    pub b: Vec<f64>,
    /// δ = ln(1 + practical), > 0.
    pub band: f64,
}

/// Result for two groups.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The answer about a over b.
    pub decision: Decision,
    /// The shift from b to a, a natural log. `None` if a group is empty.
    pub estimate: Option<f64>,
    /// Its interval of level `interval_level`; `None` if the values are too few for one, and then nothing can be decided.
    pub interval: Option<(f64, f64)>,
    /// 1 − α; 1 − 2α for EQUIVALENT.
    pub interval_level: f64,
    /// The interval excludes 0, but not at the level that many questions together ask for.
    pub suggestive: bool,
}

/// The verdicts on groups.
///
/// # Panics
/// If a value is not finite, or α is not in (0, 0.5).
pub fn compare(requested: &[Groups], alpha: f64) -> Vec<Comparison> {
    assert!(alpha > 0.0 && alpha < 0.5, "the level must be between 0 and 0.5, not {alpha}");
    let mut result: Vec<Comparison> = requested.iter().map(|groups| equivalence(groups, alpha)).collect();
    let shifts: Vec<_> = requested.iter().map(|groups| shift(&groups.b, &groups.a, alpha)).collect();
    let is_open = |compared: &Comparison| compared.decision == Decision::Undecided;
    let mut open: Vec<f64> = Vec::new();
    for (shift, compared) in shifts.iter().zip(&result) {
        open.extend(shift.filter(|_| is_open(compared)).map(|shift| shift.p));
    }
    let level = step_up(open, requested.len(), alpha);
    for (compared, shift) in result.iter_mut().zip(shifts) {
        let Some(shift) = shift.filter(|_| is_open(compared)) else { continue };
        compared.estimate = Some(shift.estimate);
        compared.interval = shift.interval;
        let side = match shift.interval {
            Some((low, _)) if low > 0.0 => Decision::Faster,
            Some((_, high)) if high < 0.0 => Decision::Slower,
            _ => Decision::Undecided,
        };
        let is_enough = shift.p <= level * (1.0 + 1e-12);
        compared.suggestive = side != Decision::Undecided && !is_enough;
        compared.decision = if is_enough { side } else { Decision::Undecided };
    }
    result
}

/// EQUIVALENT if the interval of level 1 − 2α is inside the band; otherwise undecided.
fn equivalence(groups: &Groups, alpha: f64) -> Comparison {
    let is_inside = |(low, high): (f64, f64)| low > -groups.band && high < groups.band;
    let shift = shift(&groups.b, &groups.a, 2.0 * alpha);
    match shift.and_then(|shift| Some((shift.estimate, shift.interval.filter(|ends| is_inside(*ends))?))) {
        Some((estimate, interval)) => Comparison {
            decision: Decision::Equivalent,
            estimate: Some(estimate),
            interval: Some(interval),
            interval_level: 1.0 - 2.0 * alpha,
            suggestive: false,
        },
        None => Comparison {
            decision: Decision::Undecided,
            estimate: None,
            interval: None,
            interval_level: 1.0 - alpha,
            suggestive: false,
        },
    }
}

/// The level of Benjamini and Hochberg: α·r/m for the largest r of which this many p are below; 0 if there is none.
fn step_up(mut p: Vec<f64>, questions: usize, alpha: f64) -> f64 {
    p.sort_unstable_by(f64::total_cmp);
    let level = |rank: usize| alpha * (rank as f64 / questions as f64);
    let is_reached = |rank: &usize| p[rank - 1] <= level(*rank) * (1.0 + 1e-12);
    (1..=p.len()).rev().find(is_reached).map_or(0.0, level)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAND: f64 = 0.029558802241544;

    fn groups(a: &[f64], b: &[f64]) -> Groups {
        let logs = |values: &[f64]| values.iter().map(|value| value.ln()).collect();
        Groups { a: logs(a), b: logs(b), band: BAND }
    }

    fn compared(a: &[f64], b: &[f64]) -> Comparison {
        compare(&[groups(a, b)], 0.05)[0]
    }

    #[test]
    fn groups_are_compared_on_the_log_scale() {
        let (a, b) = ([12.0, 12.1, 12.2, 12.3], [10.0, 10.1, 10.2, 10.3]);
        let result = compared(&a, &b);
        assert_eq!((result.decision, result.interval_level), (Decision::Faster, 0.95));
        // p = 2/C(8, 4) = 0.029: the interval goes from the least to the greatest ratio.
        let (low, high) = result.interval.unwrap();
        assert!(
            (low.exp() - 12.0 / 10.3).abs() < 1e-9 && (high.exp() - 12.3 / 10.0).abs() < 1e-9,
            "{result:?}"
        );
        assert_eq!(compared(&b, &a).decision, Decision::Slower);
        let near: Vec<f64> = (0..12).map(|i| 10.0 + 0.001 * f64::from(i * 5 % 12)).collect();
        let same = compared(&near, &near);
        assert_eq!((same.decision, same.interval_level), (Decision::Equivalent, 0.90));
    }

    #[test]
    fn too_few_values_stay_undecided() {
        let result = compared(&[12.0, 12.1, 12.2], &[10.0, 10.1, 10.2]);
        assert_eq!((result.decision, result.interval), (Decision::Undecided, None));
        assert!((result.estimate.unwrap().exp() - 12.1 / 10.1).abs() < 1e-3);
        assert_eq!(compared(&[12.0], &[10.0]).interval, None);
        assert_eq!(compared(&[12.0], &[]).estimate, None);
        // One against many: 2/40 is 5 %.
        let many: Vec<f64> = (0..39).map(|i| 10.0 + 0.01 * f64::from(i)).collect();
        assert_eq!(compared(&[20.0], &many).decision, Decision::Faster);
        assert_eq!(compared(&[20.0], &many[..38]).decision, Decision::Undecided);
    }

    #[test]
    fn step_up_matches_benjamini_hochberg_example() {
        // Their example of 1995, §4: 15 p-values, of which the four smallest are called at 5 %.
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
            0.6528, 0.7590, 1.0,
        ];
        let level = step_up(p.to_vec(), 15, 0.05);
        assert_eq!(p.iter().filter(|p| **p <= level).count(), 4);
        assert_eq!(step_up(vec![0.04, 0.9], 2, 0.05), 0.0);
        let requested =
            [groups(&[12.0, 12.1, 12.2, 12.3], &[10.0, 10.1, 10.2, 10.3]), groups(&[1.0, 2.0], &[1.5, 1.6])];
        let result = compare(&requested, 0.05);
        assert_eq!(result[0].decision, Decision::Undecided, "0.029 does not reach 0.025");
        assert!(result[0].suggestive && !result[1].suggestive);
    }
}
