//! One question and its rounds: the intervals and the futility rule.
//!
//! The rules for a single contrast, without multiplicity; [`crate::panel`] decides which levels apply. A claim
//! `ratio(a, b) > r` is judged on log-ratios with ln r subtracted and reported with it added back.

use crate::estimate::{Pair, Walsh};
use crate::normal;
use crate::question::Question;
use crate::schedule::Schedule;
use crate::signed_rank;
use crate::total::{Ratio, Total};

/// First round after which a contrast may be given up.
pub(crate) const FUTILE_FROM: usize = 10;
/// A contrast is futile if its chance of a decision within as many more rounds is below this.
const FUTILE_CHANCE: f64 = 0.02;
const FUTILE_WITHIN: usize = 60;
/// Room for the numerical error of the schedule's recursion in [`Contrast::could_reach`]: measured below 0.1 %.
const REACH_SLACK: f64 = 1.01;

/// The chances of a decision between which most decisions come: chosen such that the range between them holds it in 80 %
/// of simulated trials (tests/outlook.rs).
const EARLY: f64 = 0.02;
const LATE: f64 = 0.90;
/// Limit of a predicted number of rounds.
const OUT_OF_REACH: usize = 600;

/// The two-sided level of the Walsh averages that give the error: that of one standard deviation.
const MIDDLE: f64 = 0.32;

/// An estimate (a natural log), the threshold subtracted, and its error.
#[derive(Clone, Copy)]
struct Outlook {
    estimate: f64,
    se: f64,
}

impl Outlook {
    /// The same with the names of the cells exchanged.
    fn turned(self) -> Outlook {
        Outlook { estimate: -self.estimate, ..self }
    }
}

/// A later look: the share of its rounds that are there, and its boundaries for a difference and for equivalence.
struct Ahead {
    share: f64,
    bounds: [f64; 2],
}

impl Ahead {
    /// The probability that an interval of this half width in standard errors is then above a value, if the truth is
    /// the present estimate, give or take its error.
    fn above(&self, now: &Outlook, value: f64, z: f64) -> f64 {
        let (half, tau) = (z * now.se * self.share.sqrt(), now.se * (1.0 - self.share).sqrt());
        normal::below((now.estimate - value - half) / tau)
    }

    /// The probability that it is then inside a band.
    fn inside(&self, now: &Outlook, band: f64, z: f64) -> f64 {
        let (half, tau) = (z * now.se * self.share.sqrt(), now.se * (1.0 - self.share).sqrt());
        let room = band - half;
        if room <= 0.0 {
            return 0.0;
        }
        normal::below((room - now.estimate) / tau) - normal::below((-room - now.estimate) / tau)
    }
}

/// Numbers of rounds that a decision could take, a thirtieth apart.
fn horizons(rounds: usize) -> Vec<usize> {
    let next = |at: &usize| Some(at + (at / 30).max(1)).filter(|next| *next <= OUT_OF_REACH);
    std::iter::successors(next(&rounds), next).collect()
}

/// The side of the null that the evidence supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Above,
    Below,
}

pub(crate) struct Contrast {
    pub(crate) question: Question,
    /// Walsh averages of the log-ratios minus the question's threshold.
    walsh: Walsh,
    /// Totals of both, if they have to agree.
    total: Option<Total>,
}

impl Contrast {
    pub(crate) fn new(question: Question) -> Contrast {
        Contrast { question, walsh: Walsh::default(), total: None }
    }

    /// One whose rounds are judged once, when all are there.
    pub(crate) fn looked_at_once(question: Question) -> Contrast {
        Contrast { walsh: Walsh::counted(), ..Contrast::new(question) }
    }

    pub(crate) fn push(&mut self, pair: &Pair) {
        let d = pair.log_ratio - self.question.threshold;
        match pair.done {
            Some(done) if self.total.is_some() || self.rounds() == 0 => {
                self.total.get_or_insert_default().push(done);
            }
            _ => self.total = None,
        }
        self.walsh.push(d);
    }

    pub(crate) fn rounds(&self) -> usize {
        self.walsh.rounds()
    }

    /// θ̂ of the log-ratio itself.
    pub(crate) fn estimate(&self) -> Option<f64> {
        self.walsh.estimate().map(|estimate| estimate + self.question.threshold)
    }

    /// The standard error of the mean log-ratio.
    pub(crate) fn standard_error(&self) -> Option<f64> {
        self.walsh.standard_error()
    }

    /// Interval of the log-ratio itself at the level of `schedule`.
    pub(crate) fn interval(&self, schedule: &Schedule) -> Option<(f64, f64)> {
        let threshold = self.question.threshold;
        self.shifted_interval(schedule).map(|(low, high)| (low + threshold, high + threshold))
    }

    fn shifted_interval(&self, schedule: &Schedule) -> Option<(f64, f64)> {
        self.walsh.interval(schedule.critical(self.rounds()))
    }

    fn has_enough_rounds(&self) -> bool {
        self.rounds() >= self.question.least_rounds
    }

    /// Required distance of the interval from the threshold: 0, or the band for "within p %".
    fn bar(&self) -> f64 {
        if self.question.beyond_band { self.question.band } else { 0.0 }
    }

    /// EQUIVALENT: both intervals are strictly inside the band.
    pub(crate) fn is_equivalent(&self, schedule: &Schedule) -> bool {
        self.question.equivalence && self.is_within(self.question.band, schedule)
    }

    /// True if both intervals are strictly inside a band.
    pub(crate) fn is_within(&self, band: f64, schedule: &Schedule) -> bool {
        self.has_enough_rounds()
            && self.is_typically_within(band, schedule)
            && self.total_is_beyond(Side::Above, -band, schedule)
            && self.total_is_beyond(Side::Below, band, schedule)
    }

    fn is_typically_within(&self, band: f64, schedule: &Schedule) -> bool {
        self.shifted_interval(schedule).is_some_and(|(low, high)| low > -band && high < band)
    }

    fn is_typically_equivalent(&self, schedule: &Schedule) -> bool {
        self.question.equivalence && self.is_typically_within(self.question.band, schedule)
    }

    /// The side of the whole interval, if it is on one and the total does not contradict it.
    pub(crate) fn side(&self, schedule: &Schedule) -> Option<Side> {
        self.typical_side(schedule)
            .filter(|_| self.has_enough_rounds())
            .filter(|side| self.total_is_beyond(*side, self.least_total(*side), schedule))
    }

    /// Bound of the total ratio for a finding on a side: the direction of the typical ratio, or inside the band.
    fn least_total(&self, side: Side) -> f64 {
        let least = self.bar() - self.question.band;
        if side == Side::Above { least } else { -least }
    }

    /// True if the total ratio is on a side of a shifted log-ratio, at the level of this look. True if totals do not
    /// matter.
    fn total_is_beyond(&self, side: Side, shifted: f64, schedule: &Schedule) -> bool {
        let (log, level) = (shifted + self.question.threshold, schedule.nominal_level(self.rounds()));
        self.total.as_ref().is_none_or(|total| match side {
            Side::Above => total.is_above(log, level),
            Side::Below => total.is_below(log, level),
        })
    }

    /// True if typical and total ratio certainly contradict each other, each excluding the other's finding.
    pub(crate) fn contradicts_itself(&self, directional: &Schedule, equivalence: &Schedule) -> bool {
        let band = self.question.band;
        let is = |side, at, schedule| self.total.is_some() && self.total_is_beyond(side, at, schedule);
        match self.typical_side(directional) {
            Some(Side::Above) => is(Side::Below, self.least_total(Side::Above), directional),
            Some(Side::Below) => is(Side::Above, self.least_total(Side::Below), directional),
            None => {
                self.is_typically_equivalent(equivalence)
                    && (is(Side::Below, -band, equivalence) || is(Side::Above, band, equivalence))
            }
        }
    }

    /// True if the typical ratio would decide alone, and waits for the total.
    pub(crate) fn waits_for_total(&self, directional: &Schedule, equivalence: &Schedule) -> bool {
        self.has_enough_rounds()
            && ((self.typical_side(directional).is_some() && self.side(directional).is_none())
                || (self.is_typically_equivalent(equivalence) && !self.is_equivalent(equivalence)))
    }

    /// The ratio of all that was done, with the interval of this look for a total that hides no rare stall.
    pub(crate) fn total(&self, schedule: &Schedule) -> Option<Ratio> {
        self.total.as_ref()?.ratio(schedule.nominal_level(self.rounds()))
    }

    fn typical_side(&self, schedule: &Schedule) -> Option<Side> {
        let bar = self.bar();
        match self.shifted_interval(schedule)? {
            (low, _) if low > bar => Some(Side::Above),
            (_, high) if high < -bar => Some(Side::Below),
            _ => None,
        }
    }

    /// Two-sided p of the signed ranks against the bar, as if this look had all error to itself: computed once for the many
    /// levels of a panel.
    pub(crate) fn alone(&self) -> f64 {
        self.walsh.two_sided(self.bar())
    }

    /// True if the interval at the level of `schedule` could exclude the bar at all, given the bound of
    /// [`Self::alone`]. The boundary of a look is never smaller than that of one with all error allowed so far, so most
    /// levels of a large trial need not compute their schedule. A finding impossible at a level is impossible at any
    /// smaller one.
    pub(crate) fn could_reach(&self, alone: f64, schedule: &Schedule) -> bool {
        alone <= schedule.allowance(self.rounds()) * REACH_SLACK
    }

    /// True if the probability of a decision within [`FUTILE_WITHIN`] more rounds is too small to continue; none if it
    /// is unknown.
    pub(crate) fn is_futile(&self, directional: &Schedule, equivalence: &Schedule) -> Option<bool> {
        let horizon = (self.rounds() + FUTILE_WITHIN).max(self.question.least_rounds);
        Some(self.chance(horizon, directional, equivalence)? < FUTILE_CHANCE)
    }

    /// The chance of a decision within `horizon` rounds if the truth is the present estimate, give or take its error. `None`
    /// before round 10, from the horizon on, and without an interval.
    fn chance(&self, horizon: usize, directional: &Schedule, equivalence: &Schedule) -> Option<f64> {
        let n = self.rounds();
        if n < FUTILE_FROM || n >= horizon {
            return None;
        }
        let (low, high) = self.shifted_interval(directional)?;
        let se = (high - low) / (2.0 * directional.z(n)?);
        let share = n as f64 / horizon as f64;
        let end_half = |schedule: &Schedule| schedule.z_about(horizon, n) * se * share.sqrt();
        let tau = se * (1.0 - share).sqrt();
        let estimate = self.walsh.estimate()?.abs();
        let below = |x: f64| normal::below(x / tau);

        let needed = self.bar() + end_half(directional);
        let mut chance = below(estimate - needed) + below(-estimate - needed);
        if self.question.equivalence {
            let room = self.question.band - end_half(equivalence);
            if room > 0.0 {
                chance += below(room - estimate) - below(-room - estimate);
            }
        }
        Some(chance)
    }

    /// The range of rounds in which a decision comes with a probability of 80 %: where its probability by then passes
    /// two shares, which the calibration test has fixed. `stricter` is the addition of many questions to the boundary
    /// of the level. None without an interval, and if it is out of reach: hundreds of rounds.
    pub(crate) fn rounds_needed(
        &self,
        directional: &Schedule,
        equivalence: &Schedule,
        stricter: f64,
        total: Option<Ratio>,
    ) -> Option<(usize, usize)> {
        self.shifted_interval(directional)?;
        let z = directional.z(self.rounds())?;
        let typical = self.spread_outlook()?;
        let total = total.and_then(|total| {
            let (low, high) = total.interval?;
            Some(Outlook { estimate: total.estimate - self.question.threshold, se: (high - low) / (2.0 * z) })
        });
        let horizons = horizons(self.rounds());
        let chance = |horizon: usize| {
            if horizon < self.question.least_rounds {
                return 0.0;
            }
            let [z_directional, z_equivalence] =
                [directional, equivalence].map(|schedule| schedule.z_about(horizon, self.rounds()));
            let ahead = Ahead {
                share: self.rounds() as f64 / horizon as f64,
                bounds: [z_directional + stricter, z_equivalence],
            };
            self.chance_ahead(&ahead, &typical, total.as_ref())
        };
        let first =
            |share: f64| horizons.get(horizons.partition_point(|horizon| chance(*horizon) < share)).copied();
        Some((first(EARLY)?, first(LATE)?))
    }

    /// The estimate and its error, from the Walsh averages in the middle: those at the ends, where the interval is, vary most
    /// after few rounds.
    fn spread_outlook(&self) -> Option<Outlook> {
        let n = self.rounds();
        let k = signed_rank::largest_critical(n, MIDDLE);
        let (low, high) = self.walsh.interval(k)?;
        let z = normal::two_sided_quantile(2.0 * signed_rank::at_most(n, k - 1));
        Some(Outlook { se: (high - low) / (2.0 * z), estimate: self.walsh.estimate()? })
    }

    /// The probability of a decision at a later look, whose total must not contradict the typical ratio.
    fn chance_ahead(&self, ahead: &Ahead, typical: &Outlook, total: Option<&Outlook>) -> f64 {
        let (bar, band) = (self.bar(), self.question.band);
        let [z_directional, z_equivalence] = ahead.bounds;
        let above = ahead
            .above(typical, bar, z_directional)
            .min(total.map_or(1.0, |total| ahead.above(total, self.least_total(Side::Above), z_directional)));
        let below = ahead.above(&typical.turned(), bar, z_directional).min(total.map_or(1.0, |total| {
            ahead.above(&total.turned(), -self.least_total(Side::Below), z_directional)
        }));
        if !self.question.equivalence {
            return above + below;
        }
        let inside = ahead
            .inside(typical, band, z_equivalence)
            .min(total.map_or(1.0, |total| ahead.inside(total, band, z_equivalence)));
        above + below + inside
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Spending;

    #[test]
    fn reference_t4_chances() {
        let d = [0.021, -0.043, 0.012, -0.018, 0.040, -0.025, 0.015, -0.035, 0.030, -0.028, 0.010, -0.005];
        let five = Schedule::new(0.05, Spending::Directional);
        let ten = Schedule::new(0.10, Spending::Equivalence);
        let mut contrast = Contrast::new(Question::comparison(libm::log(1.03)));
        let expected = [(10, 0.102120), (11, 0.080725), (12, 0.066100)];
        for d in d {
            contrast.push(&Pair { log_ratio: 5.0 * d, done: None });
            let reference = expected.iter().find(|(n, _)| *n == contrast.rounds());
            match (contrast.chance(40, &five, &ten), reference) {
                (Some(chance), Some((_, pp))) => assert!((chance - pp).abs() < 1e-6, "{chance} is not {pp}"),
                (None, None) => {}
                other => panic!("round {}: {other:?}", contrast.rounds()),
            }
        }
    }
}
