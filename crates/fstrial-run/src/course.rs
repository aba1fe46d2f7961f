//! The course of every contrast to its current state, round by round: to watch a decision being made.
//!
//! A function of the rounds. The one place where those that were run before are judged again.

use super::{judge::Judge, plan::Plan, round::Round};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Course {
    /// Every round that was judged, in order.
    pub rounds: Vec<CoursePoint>,
}

/// A contrast after one round. Ratios are `a` over `b` on the metric itself, as in [`super::contrast::ContrastState`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CoursePoint {
    /// The round, from 1.
    pub round: u32,
    /// The ratio of this round alone: see [`Judge::latest_ratio`].
    pub ratio: Option<f64>,
    /// The ratio over the rounds so far. It no longer changes once the contrast is decided.
    pub estimate: Option<f64>,
    /// Its interval; none while rounds are too few.
    pub interval: Option<(f64, f64)>,
}

impl Course {
    /// The points that a judge has of every contrast after a round.
    pub fn points(judge: &Judge<'_>, round: u32) -> Vec<CoursePoint> {
        (0..judge.contrasts())
            .map(|index| {
                let (estimate, interval) = judge.ratio_and_interval(index);
                CoursePoint { round, ratio: judge.latest_ratio(index), estimate, interval }
            })
            .collect()
    }
}

/// Judges rounds again that were run before, to their end.
pub fn judged(plan: &Plan, rounds: Vec<Round>) -> Judge<'_> {
    judged_by(Judge::new(plan), rounds)
}

/// The same by a judge that has seen no round.
pub(super) fn judged_by(mut judge: Judge<'_>, rounds: impl IntoIterator<Item = Round>) -> Judge<'_> {
    rounds.into_iter().for_each(|round| judge.take(round));
    judge.finish();
    judge
}

/// Judges rounds again that were run before: the judge after the last one, not yet finished, with a round that
/// continues in another boot unfinished; and the course of every contrast in the order of the plan.
pub fn replay<'p>(plan: &'p Plan, rounds: Vec<Round>) -> (Judge<'p>, Vec<Course>) {
    let mut judge = Judge::new(plan);
    let mut courses = vec![Course { rounds: Vec::with_capacity(rounds.len()) }; plan.contrasts.len()];
    let last = rounds.last().map(|round| round.number);
    for round in rounds {
        let number = round.number;
        judge.take_part(round);
        if last == Some(number) && judge.continues(number) {
            break;
        }
        judge.end_round();
        for (course, point) in courses.iter_mut().zip(Course::points(&judge, number)) {
            course.rounds.push(point);
        }
    }
    (judge, courses)
}
