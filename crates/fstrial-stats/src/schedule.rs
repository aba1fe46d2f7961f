//! The stopping schedule: which critical count k after which round, so that looking after every round costs no more
//! than α in all.
//!
//! The idea: decide beforehand how much of α may be spent by round n ([`Spending`]). At each look find the boundary of
//! a Gaussian walk that spends exactly the due amount, given that no earlier boundary was crossed, round it down to a
//! critical count of the exact signed-rank distribution, and carry the unspent rest to the next look.
//!
//! Neither form of spending knows how many rounds there will be, so that a trial may end when its budget does and be
//! resumed forever.
//!
//! Source: error spending of Lan and DeMets 1983 with the recursion of Armitage, McPherson and Rowe 1969, started from
//! the exact distribution at the first look. The Gaussian picture only allots error between looks; every single
//! critical count is exact for its round.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{normal, signed_rank};

/// The share of α that is spent on directions in the end.
const SHARE_DIRECTIONAL: f64 = 0.98;
/// The round by which half of that is spent: the first verdict is then possible after seven rounds of a question alone, after
/// eleven if it shares the error with 17 others.
const HALF_SPENT: f64 = 13.0;
/// Equivalence: shares of α spent, evenly, by this round, and ever more slowly after it.
const EVENLY_UNTIL: f64 = 60.0;
const SHARE_EVENLY: f64 = 0.80;
const SHARE_LATER: f64 = 0.10;
/// Looks that a forecast computes; later ones are extrapolated.
const WALKED: usize = 60;
/// Growth of boundaries beyond that, with the logarithm of the rounds: within 0.05 of the recursion up to 600 rounds.
/// That of equivalence jumps, as little is spent from here on.
const SLOPE_DIRECTIONAL: f64 = 0.27;
const STEP_EQUIVALENCE: f64 = 0.55;
const SLOPE_EQUIVALENCE: f64 = 0.37;
/// Points of the grid that carries the density of the walk between the boundaries.
const GRID: usize = 401;
/// Halvings of [0, 12√n] in the search for a boundary: down to the resolution of f64.
const BISECTIONS: usize = 60;
/// Steps of more standard deviations than this are left out of sums: they weigh below 1e−18.
const REACH: f64 = 9.0;

/// Spending of a schedule's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spending {
    /// On *faster* and *slower*: A(n) = 0.98·α·n/(n + 13).
    Directional,
    /// On *equivalent*: evenly up to round 60, where intervals become short enough for it, and little after it.
    Equivalence,
    /// All on one look, at rounds that are all there.
    Once,
}

/// The schedule of one level α.
///
/// Cheap to clone. Looks are computed on first use and remembered for the life of the process (a memo of a pure
/// function), so a trial pays only for the rounds it reaches.
#[derive(Clone)]
pub struct Schedule {
    alpha: f64,
    spending: Spending,
    /// The looks after every round; unused if there is one look.
    walk: SharedWalk,
}

/// Every walk begun so far, by the bits of α and its spending.
static WALKS: Mutex<BTreeMap<(u64, Spending), SharedWalk>> = Mutex::new(BTreeMap::new());

type SharedWalk = Arc<Mutex<Walk>>;

impl Schedule {
    /// The schedule of level `alpha` (0 < α < 1).
    ///
    /// # Panics
    /// If `alpha` is not strictly between 0 and 1.
    pub fn new(alpha: f64, spending: Spending) -> Schedule {
        assert!(alpha > 0.0 && alpha < 1.0, "the level must be between 0 and 1, not {alpha}");
        let mut walks = WALKS.lock().unwrap_or_else(PoisonError::into_inner);
        let walk = walks.entry((alpha.to_bits(), spending)).or_default();
        Schedule { alpha, spending, walk: Arc::clone(walk) }
    }

    /// The level α.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// A(n): how much error may be spent by round n.
    pub fn allowance(&self, n: usize) -> f64 {
        let n = n as f64;
        self.alpha
            * match self.spending {
                Spending::Directional => SHARE_DIRECTIONAL * n / (n + HALF_SPENT),
                Spending::Equivalence if n <= EVENLY_UNTIL => SHARE_EVENLY * n / EVENLY_UNTIL,
                Spending::Equivalence => SHARE_EVENLY + SHARE_LATER * (1.0 - EVENLY_UNTIL / n),
                Spending::Once => 1.0,
            }
    }

    /// `K[n]`: the critical count after round n. 0 means that round n cannot decide anything.
    pub fn critical(&self, n: usize) -> usize {
        self.look(n).critical
    }

    /// `Z[n]`: the boundary after round n as a standard normal deviate; `None` where `K[n]` = 0.
    pub fn z(&self, n: usize) -> Option<f64> {
        let look = self.look(n);
        (look.critical > 0).then_some(look.z)
    }

    /// Error spent by round n, never more than [`Schedule::allowance`].
    pub fn spent(&self, n: usize) -> f64 {
        self.look(n).spent
    }

    /// The two-sided level 2·P(W_n ≤ `K[n]` − 1) of the count after round n on its own.
    pub fn nominal_level(&self, n: usize) -> f64 {
        match self.critical(n) {
            0 => 0.0,
            k => 2.0 * signed_rank::at_most(n, k - 1),
        }
    }

    /// About the boundary after round n, of a trial that has had `rounds` of them: beyond those and [`WALKED`] it is
    /// extrapolated, as looks take milliseconds each. Infinite if no look up to n can decide.
    pub(crate) fn z_about(&self, n: usize, rounds: usize) -> f64 {
        let known = n.min(rounds.max(WALKED));
        let z = (2..=known).rev().find_map(|look| self.z(look)).unwrap_or(f64::INFINITY);
        let beyond = libm::log(n as f64 / known as f64);
        let (step, slope) = match self.spending {
            Spending::Directional => (0.0, SLOPE_DIRECTIONAL),
            Spending::Equivalence => {
                (if known == WALKED { STEP_EQUIVALENCE } else { 0.0 }, SLOPE_EQUIVALENCE)
            }
            Spending::Once => (0.0, 0.0),
        };
        if n == known { z } else { z + step + slope * beyond }
    }

    /// The difference (a natural log) found in nine of ten trials that stop after `n` rounds or before, if the
    /// log-ratios of rounds vary normally by the standard deviation `sd`: that of the last look that can decide. `None`
    /// if none of these rounds can.
    ///
    /// For normal values the signed ranks are 3/π as good as their mean is (Hodges and Lehmann 1956).
    pub fn detectable(&self, n: usize, sd: f64) -> Option<f64> {
        let (look, z) = (2..=n).rev().find_map(|look| Some((look, self.z(look)?)))?;
        let effective = look as f64 * 3.0 / std::f64::consts::PI;
        Some((z + normal::quantile(0.9)) * sd / effective.sqrt())
    }

    fn look(&self, n: usize) -> Look {
        if self.spending == Spending::Once {
            return Look::with_all(self.alpha, n);
        }
        let mut walk = self.walk.lock().unwrap_or_else(PoisonError::into_inner);
        while walk.looks.len() <= n {
            let due = self.allowance(walk.looks.len());
            walk.take_look(due);
        }
        walk.looks[n]
    }
}

#[derive(Clone, Copy, Default)]
struct Look {
    critical: usize,
    z: f64,
    spent: f64,
}

impl Look {
    /// A look that has all error to itself.
    fn with_all(alpha: f64, n: usize) -> Look {
        match signed_rank::largest_critical(n, alpha) {
            0 => Look::default(),
            critical => {
                let spent = 2.0 * signed_rank::at_most(n, critical - 1);
                Look { critical, z: normal::two_sided_quantile(spent), spent }
            }
        }
    }
}

/// The state of one schedule: the looks so far (index = n) and the walk that has not stopped.
#[derive(Default)]
struct Walk {
    looks: Vec<Look>,
    surviving: Option<Surviving>,
}

impl Walk {
    /// Appends the look after round n = `looks.len()`, by when `due` may have been spent.
    fn take_look(&mut self, due: f64) {
        let n = self.looks.len();
        let spent = self.looks.last().map_or(0.0, |look| look.spent);
        let look = if n < 2 || due - spent <= 0.0 { None } else { self.try_look(n, due - spent) };
        let silent = Look { critical: 0, z: 0.0, spent };
        self.looks.push(look.map_or(silent, |(critical, z, add)| Look { critical, z, spent: spent + add }));
    }

    /// (k, z, error spent) of a look that may spend `available`, or `None` if no count is that small.
    fn try_look(&mut self, n: usize, available: f64) -> Option<(usize, f64, f64)> {
        let info = n as f64;
        let nominal = match &self.surviving {
            None => available,
            Some(walk) => 2.0 * normal::above(walk.boundary(info, available) / info.sqrt()),
        };
        let critical = signed_rank::largest_critical(n, nominal);
        if critical == 0 {
            return None;
        }
        let attained = 2.0 * signed_rank::at_most(n, critical - 1);
        let z = normal::two_sided_quantile(attained);
        let bound = z * info.sqrt();
        let (add, next) = match &self.surviving {
            None => (attained, Surviving::first(info, bound)),
            Some(walk) => (walk.crossing(info, bound), walk.advanced(info, bound)),
        };
        self.surviving = Some(next);
        Some((critical, z, add))
    }
}

/// The density of a Gaussian walk at information `info`, restricted to paths that have stayed inside every boundary so
/// far. Symmetric about 0.
struct Surviving {
    info: f64,
    /// Grid points on [−b, b].
    place: Vec<f64>,
    /// Trapezoid weight times density at each point.
    mass: Vec<f64>,
}

impl Surviving {
    /// After a first look at `info` with boundary ±`bound`.
    fn first(info: f64, bound: f64) -> Surviving {
        let scale = info.sqrt();
        Surviving::on_grid(info, bound, |x| normal::density(x / scale) / scale)
    }

    fn on_grid(info: f64, bound: f64, density: impl Fn(f64) -> f64) -> Surviving {
        let step = 2.0 * bound / (GRID - 1) as f64;
        let place: Vec<f64> = (0..GRID).map(|i| -bound + step * i as f64).collect();
        let mass = place.iter().enumerate().map(|(i, x)| {
            let weight = if i == 0 || i == GRID - 1 { step / 2.0 } else { step };
            weight * density(*x)
        });
        let mass = mass.collect();
        Surviving { info, place, mass }
    }

    /// Grid points from `low` to `high` and their mass.
    fn between(&self, low: f64, high: f64) -> impl Iterator<Item = (&f64, &f64)> {
        let from = self.place.partition_point(|g| *g < low);
        let to = self.place.partition_point(|g| *g <= high).max(from);
        self.place[from..to].iter().zip(&self.mass[from..to])
    }

    /// Chance of first being beyond ±x at the later information `info`.
    fn crossing(&self, info: f64, x: f64) -> f64 {
        let scale = (info - self.info).sqrt();
        let upper = self.between(x - REACH * scale, f64::INFINITY);
        2.0 * upper.map(|(g, mass)| mass * normal::above((x - g) / scale)).sum::<f64>()
    }

    /// The smallest boundary that spends at most `available` at `info`.
    fn boundary(&self, info: f64, available: f64) -> f64 {
        let (mut low, mut high) = (0.0, 12.0 * info.sqrt());
        for _ in 0..BISECTIONS {
            let middle = (low + high) / 2.0;
            if self.crossing(info, middle) <= available {
                high = middle;
            } else {
                low = middle;
            }
        }
        high
    }

    /// The same paths at the later `info`, those beyond ±`bound` removed.
    fn advanced(&self, info: f64, bound: f64) -> Surviving {
        let scale = (info - self.info).sqrt();
        Surviving::on_grid(info, bound, |x| {
            let arriving = self.between(x - REACH * scale, x + REACH * scale);
            arriving.map(|(g, mass)| mass * normal::density((x - g) / scale)).sum::<f64>() / scale
        })
    }
}

/// The Gaussian recursion alone, without rounding to signed-rank counts: the standard normal boundary at each look,
/// given the information at each look and the total error spent by then.
///
/// Two-sided. Kept public because published tables exist for it, which is how the recursion that [`Schedule`] rests on
/// is checked. Both slices must increase strictly.
///
/// # Panics
/// If the slices differ in length.
pub fn gaussian_boundaries(information: &[f64], spent_by: &[f64]) -> Vec<f64> {
    assert_eq!(information.len(), spent_by.len(), "one total of spent error per look");
    let mut surviving: Option<Surviving> = None;
    let mut spent = 0.0;
    let looks = information.iter().zip(spent_by).map(|(&info, &total)| {
        let bound = match &surviving {
            None => normal::two_sided_quantile(total) * info.sqrt(),
            Some(walk) => walk.boundary(info, total - spent),
        };
        spent = total;
        surviving = Some(match &surviving {
            None => Surviving::first(info, bound),
            Some(walk) => walk.advanced(info, bound),
        });
        bound / info.sqrt()
    });
    looks.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_counts(schedule: &Schedule, first: usize, expected: &[usize]) {
        for n in 0..first {
            assert_eq!(schedule.critical(n), 0, "n = {n}");
        }
        let ours: Vec<usize> = (first..first + expected.len()).map(|n| schedule.critical(n)).collect();
        assert_eq!(ours, expected);
    }

    fn assert_close(value: f64, expected: f64, tolerance: f64) {
        assert!((value - expected).abs() <= tolerance, "{value} is not {expected}");
    }

    // The counts, levels and boundaries here were computed by a separate program, with scipy.

    #[test]
    fn reference_schedule_of_directions() {
        let counts = [
            1, 1, 2, 3, 5, 6, 9, 11, 14, 17, 20, 24, 28, 33, 37, 43, 48, 54, 60, 66, 73, 80, 88, 96, 104,
            113, 122, 132, 141, 151, 162, 173, 184, 196, 208, 220, 233, 246, 259, 274, 288, 302, 318, 333,
            349, 365, 381, 399, 416, 434, 452, 471, 489, 509,
        ];
        let schedule = Schedule::new(0.05, Spending::Directional);
        assert_counts(&schedule, 7, &counts);
        assert_close(schedule.nominal_level(7), 0.015625, 1e-6);
        assert_close(schedule.z(7).unwrap(), 2.417559, 1e-6);
        assert_close(schedule.nominal_level(60), 0.002359, 1e-6);
        assert_close(schedule.z(60).unwrap(), 3.040856, 1e-6);
    }

    #[test]
    fn reference_schedule_of_equivalence() {
        let counts = [
            1, 2, 3, 5, 7, 9, 11, 15, 18, 23, 27, 31, 37, 43, 48, 55, 62, 70, 77, 85, 94, 104, 113, 123, 133,
            144, 155, 167, 180, 192, 206, 219, 233, 248, 262, 278, 294, 310, 327, 345, 362, 381, 399, 418,
            438, 458, 479, 500, 521, 543, 566, 589, 612,
        ];
        let schedule = Schedule::new(0.10, Spending::Equivalence);
        assert_counts(&schedule, 8, &counts);
        assert_close(schedule.nominal_level(8), 0.007812, 1e-6);
        assert_close(schedule.z(8).unwrap(), 2.660067, 1e-6);
        assert_close(schedule.nominal_level(60), 0.024715, 1e-6);
        assert_close(schedule.z(60).unwrap(), 2.245833, 1e-6);
    }

    #[test]
    fn reference_schedules_of_smaller_levels() {
        let of = |questions: f64| Schedule::new(0.05 / questions, Spending::Directional);
        assert_counts(&of(3.0), 9, &[1, 3, 3, 3, 5, 7, 10, 12, 14, 18, 21, 24, 29, 33]);
        assert_counts(&of(6.0), 10, &[1, 3, 3, 4, 6, 7, 9, 11, 14, 17, 21, 24, 28, 32]);
        assert_counts(&of(18.0), 11, &[1, 1, 2, 3, 5, 6, 8, 9, 12, 15, 18, 21, 24, 29]);
        assert_eq!([3.0, 6.0, 18.0].map(|questions| of(questions).critical(60)), [461, 434, 396]);
    }

    #[test]
    fn extrapolated_boundaries_approximate_reference_values() {
        let reference =
            [(90, 3.1428, 2.8617), (120, 3.2211, 3.0260), (240, 3.4185, 3.3266), (600, 3.6882, 3.6530)];
        let [directional, equivalence] = [(0.05, Spending::Directional), (0.10, Spending::Equivalence)]
            .map(|(alpha, spending)| Schedule::new(alpha, spending));
        for (n, by_direction, by_equivalence) in reference {
            assert_close(directional.z_about(n, 10), by_direction, 0.06);
            assert_close(equivalence.z_about(n, 10), by_equivalence, 0.10);
        }
        assert_eq!(directional.z_about(20, 10), directional.z(20).unwrap());
        assert_eq!(directional.z_about(6, 6), f64::INFINITY);
        assert_close(equivalence.z_about(90, 70), equivalence.z(90).unwrap(), 0.12);
    }

    #[test]
    fn a_single_look_has_the_critical_values_of_tables() {
        // Wilcoxon's table for 5 % two-sided: reject if the smaller sum of ranks is at most this; ours is one more.
        let table =
            [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (12, 13), (15, 25), (20, 52), (25, 89), (40, 264)];
        let schedule = Schedule::new(0.05, Spending::Once);
        for (n, sum) in table {
            assert_eq!(schedule.critical(n), sum + 1, "n = {n}");
            assert!(schedule.spent(n) <= schedule.allowance(n), "n = {n}");
            assert_eq!(schedule.spent(n), schedule.nominal_level(n));
        }
        assert_eq!((schedule.critical(5), schedule.z(5), schedule.spent(5)), (0, None, 0.0));
        assert_close(schedule.nominal_level(6), 0.03125, 1e-12);
    }

    #[test]
    fn boundary_recursion_matches_published_tables() {
        let info = [1.0, 2.0, 3.0, 4.0, 5.0];
        let check = |spend: &dyn Fn(f64) -> f64, expected: [f64; 5]| {
            let spent = info.map(|k| spend(k / 5.0));
            for (z, published) in gaussian_boundaries(&info, &spent).iter().zip(expected) {
                assert_close(*z, published, 2e-5);
            }
        };
        let e = std::f64::consts::E;
        let pocock = move |t: f64| 0.05 * libm::log(1.0 + (e - 1.0) * t);
        check(&pocock, [2.43798, 2.42681, 2.41019, 2.39664, 2.38597]);
        let edge = normal::quantile(0.9875);
        let obrien_fleming = move |t: f64| 4.0 * normal::above(edge / t.sqrt());
        check(&obrien_fleming, [4.87688, 3.35701, 2.68028, 2.28981, 2.03102]);
        check(&|t| 0.05 * t, [2.57583, 2.49197, 2.41082, 2.33914, 2.27550]);
    }

    #[test]
    fn detectable_effect_shrinks_with_rounds() {
        let schedule = Schedule::new(0.05, Spending::Directional);
        assert_eq!(schedule.detectable(6, 0.1), None, "no sign can decide in six rounds");
        let at = |n| schedule.detectable(n, 0.1).unwrap();
        // By hand: (3.040856 + 1.281552) · 0.1 / √(60 · 3/π).
        assert_close(at(60), 0.057104, 1e-5);
        assert!(at(60) < at(20) && at(20) < at(12));
    }

    #[test]
    fn never_spends_more_than_allowed() {
        for (alpha, spending) in [
            (0.05, Spending::Directional),
            (0.05 / 60.0, Spending::Directional),
            (0.1, Spending::Equivalence),
            (0.0125, Spending::Equivalence),
        ] {
            let schedule = Schedule::new(alpha, spending);
            for n in 2..=100 {
                assert!(schedule.spent(n) <= schedule.allowance(n) * (1.0 + 1e-9));
                // `Panel` relies on this to skip levels that cannot be reached.
                assert!(schedule.nominal_level(n) <= schedule.allowance(n) * 1.001, "α = {alpha}, n = {n}");
            }
            assert!(schedule.allowance(usize::MAX) <= alpha && schedule.spent(100) < 0.9 * alpha);
        }
    }
}
