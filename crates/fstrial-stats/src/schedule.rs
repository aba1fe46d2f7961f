//! The stopping schedule: which critical count k after which round, so that looking after every
//! round costs no more than α in all.
//!
//! The idea in words: decide beforehand how much of α may be spent by round n (linear up to 80 % at
//! the planned end, a tenth more kept for a resumed trial, the rest for the early lane). At each
//! look find the boundary of a Gaussian walk that spends just what is due, given that no earlier
//! boundary was crossed, round it down to a critical count of the exact signed-rank
//! distribution, and carry what could not be spent to the next look.
//!
//! Source: error spending of Lan and DeMets 1983 with the recursion of Armitage, McPherson and
//! Rowe 1969, started from the exact distribution at the first look. The Gaussian picture only
//! allots error between looks; every single critical count is exact for its round.
//! Assumes that α and the planned number of rounds were fixed before any result was seen.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{normal, signed_rank};

/// Share of α spent by the planned last round.
const SHARE_PLANNED: f64 = 0.80;
/// Share of α kept for rounds after the planned last one, spent ever more slowly.
const SHARE_RESUMED: f64 = 0.10;
/// Points of the grid that carries the density of the walk between the boundaries.
const GRID: usize = 401;
/// Halvings of [0, 12√n] in the search for a boundary: down to the resolution of f64.
const BISECTIONS: usize = 60;
/// Steps of more standard deviations than this are left out of sums: they weigh below 1e−18.
const REACH: f64 = 9.0;

/// The schedule of one level α and one planned number of rounds N.
///
/// Cheap to clone. Looks are computed when first asked for and remembered for the life of the
/// process (a memo of a pure function), so a trial pays only for the rounds it reaches.
#[derive(Clone)]
pub struct Schedule {
    alpha: f64,
    planned_rounds: usize,
    /// The looks after every round; none if there is one look, which has all of α.
    walk: Option<SharedWalk>,
}

/// Every walk begun so far, by the bits of α and N.
static WALKS: Mutex<BTreeMap<(u64, usize), SharedWalk>> = Mutex::new(BTreeMap::new());

type SharedWalk = Arc<Mutex<Walk>>;

impl Schedule {
    /// The schedule of level `alpha` (0 < α < 1) for a trial planned to last `planned_rounds`.
    ///
    /// # Panics
    /// If `alpha` is not strictly between 0 and 1 or no rounds are planned.
    pub fn new(alpha: f64, planned_rounds: usize) -> Schedule {
        assert!(alpha > 0.0 && alpha < 1.0, "the level must lie between 0 and 1, not {alpha}");
        assert!(planned_rounds > 0, "a schedule needs at least one planned round");
        let mut walks = WALKS.lock().unwrap_or_else(PoisonError::into_inner);
        let walk = walks.entry((alpha.to_bits(), planned_rounds)).or_default();
        Schedule { alpha, planned_rounds, walk: Some(Arc::clone(walk)) }
    }

    /// For rounds that are all there and are looked at a single time: that look may spend all of `alpha`, whatever the
    /// number of rounds.
    ///
    /// # Panics
    /// If `alpha` is not strictly between 0 and 1.
    pub fn once(alpha: f64, rounds: usize) -> Schedule {
        assert!(alpha > 0.0 && alpha < 1.0, "the level must lie between 0 and 1, not {alpha}");
        Schedule { alpha, planned_rounds: rounds, walk: None }
    }

    /// The level α.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Whether there is one look, which has all of α.
    pub(crate) fn looks_once(&self) -> bool {
        self.walk.is_none()
    }

    /// The planned number of rounds N.
    pub fn planned_rounds(&self) -> usize {
        self.planned_rounds
    }

    /// A(n): how much error may be spent by round n.
    pub fn allowance(&self, n: usize) -> f64 {
        let used = n as f64 / self.planned_rounds as f64;
        if self.walk.is_none() {
            self.alpha
        } else if n <= self.planned_rounds {
            self.alpha * SHARE_PLANNED * used
        } else {
            self.alpha * (SHARE_PLANNED + SHARE_RESUMED * (1.0 - 1.0 / used))
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

    /// The difference (a natural log) that is found in nine of ten trials that stop after `n` rounds or before, if the
    /// log-ratios of rounds vary normally by the standard deviation `sd`: what it takes at the last look that can decide.
    /// `None` if none of these rounds can.
    ///
    /// Of normal values the signed ranks are 3/π as good as their mean is (Hodges and Lehmann 1956).
    pub fn detectable(&self, n: usize, sd: f64) -> Option<f64> {
        let (look, z) = (2..=n).rev().find_map(|look| Some((look, self.z(look)?)))?;
        let effective = look as f64 * 3.0 / std::f64::consts::PI;
        Some((z + normal::quantile(0.9)) * sd / effective.sqrt())
    }

    fn look(&self, n: usize) -> Look {
        let Some(walk) = &self.walk else { return Look::with_all(self.alpha, n) };
        let mut walk = walk.lock().unwrap_or_else(PoisonError::into_inner);
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

/// The density of a Gaussian walk at information `info`, restricted to paths that have stayed
/// inside every boundary so far. Symmetric about 0.
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

/// The Gaussian recursion alone, without rounding to signed-rank counts: the standard normal
/// boundary at each look, given the information at each look and the total error spent by then.
///
/// Two-sided. Kept public because published tables exist for it, which is how the recursion that
/// [`Schedule`] rests on is checked. Both slices must increase strictly.
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

    fn assert_counts(alpha: f64, planned: usize, first: usize, expected: &[usize]) {
        let schedule = Schedule::new(alpha, planned);
        for n in 0..first {
            assert_eq!(schedule.critical(n), 0, "α = {alpha}, N = {planned}, n = {n}");
        }
        let ours: Vec<usize> = (first..first + expected.len()).map(|n| schedule.critical(n)).collect();
        assert_eq!(ours, expected, "α = {alpha}, N = {planned}");
    }

    fn assert_close(value: f64, expected: f64, tolerance: f64) {
        assert!((value - expected).abs() <= tolerance, "{value} is not {expected}");
    }

    #[test]
    fn reference_schedule_05_40() {
        let counts = [
            1, 1, 2, 3, 6, 7, 10, 14, 17, 20, 25, 29, 34, 40, 45, 52, 59, 65, 73, 81, 90, 98, 108, 117, 127,
            138, 149, 160, 173, 185, 197, 211, 224,
        ];
        assert_counts(0.05, 40, 8, &counts);
        let schedule = Schedule::new(0.05, 40);
        assert_close(schedule.nominal_level(8), 0.007812, 1e-6);
        assert_close(schedule.z(8).unwrap(), 2.660067, 1e-6);
        assert_close(schedule.nominal_level(40), 0.011074, 1e-6);
        assert_close(schedule.z(40).unwrap(), 2.540343, 1e-6);
        assert_close(schedule.spent(40), 0.039890, 1e-6);
    }

    #[test]
    fn reference_schedule_10_40() {
        let counts = [
            2, 2, 4, 5, 8, 10, 14, 17, 21, 25, 30, 35, 41, 46, 53, 60, 67, 75, 83, 92, 101, 111, 121, 131,
            142, 153, 165, 178, 190, 204, 217, 231, 246,
        ];
        assert_counts(0.10, 40, 8, &counts);
        let schedule = Schedule::new(0.10, 40);
        assert_close(schedule.nominal_level(8), 0.015625, 1e-6);
        assert_close(schedule.z(8).unwrap(), 2.417559, 1e-6);
        assert_close(schedule.nominal_level(40), 0.025899, 1e-6);
        assert_close(schedule.z(40).unwrap(), 2.227729, 1e-6);
        assert_close(schedule.spent(40), 0.079766, 1e-6);
    }

    #[test]
    fn reference_schedule_05_60() {
        let counts = [
            1, 2, 4, 4, 7, 9, 12, 15, 18, 22, 26, 31, 36, 42, 48, 54, 61, 68, 75, 84, 92, 101, 110, 120, 130,
            140, 152, 163, 175, 187, 200, 213, 227, 241, 255, 271, 286, 302, 318, 335, 352, 370, 388, 407,
            426, 445, 465, 486, 506, 528, 550, 572,
        ];
        assert_counts(0.05, 60, 9, &counts);
        let schedule = Schedule::new(0.05, 60);
        assert_close(schedule.z(60).unwrap(), 2.551386, 1e-6);
        assert_close(schedule.spent(60), 0.039992, 1e-6);
    }

    #[test]
    fn reference_schedules_of_smaller_levels() {
        let counts = [
            1, 2, 3, 4, 6, 8, 10, 13, 17, 20, 24, 28, 33, 38, 44, 50, 56, 62, 70, 77, 85, 93, 102, 111, 120,
            130, 140, 151, 163, 174,
        ];
        assert_counts(0.00625, 40, 11, &counts);
        assert_close(Schedule::new(0.00625, 40).spent(40), 0.004999, 1e-6);
        assert_counts(0.0125, 40, 10, &[1, 2, 2, 4, 5, 8]);
        assert_counts(0.025, 40, 9, &[1, 1, 3, 3, 6, 8]);
        assert_counts(0.0375, 40, 9, &[1, 3, 3, 5, 8, 9]);
        let last = [0.0125, 0.025, 0.0375].map(|alpha| Schedule::new(alpha, 40).critical(40));
        assert_eq!(last, [189, 205, 216]);
    }

    #[test]
    fn a_single_look_has_the_critical_values_of_tables() {
        // Wilcoxon's table for 5 % two-sided: reject if the smaller sum of ranks is at most this; ours is one more.
        let table =
            [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (12, 13), (15, 25), (20, 52), (25, 89), (40, 264)];
        let schedule = Schedule::once(0.05, 40);
        for (n, sum) in table {
            assert_eq!(schedule.critical(n), sum + 1, "n = {n}");
            assert!(schedule.spent(n) <= schedule.allowance(n), "n = {n}");
            assert_eq!(schedule.spent(n), schedule.nominal_level(n));
        }
        assert_eq!((schedule.critical(5), schedule.z(5), schedule.spent(5)), (0, None, 0.0));
        assert_close(schedule.nominal_level(6), 0.03125, 1e-12);
    }

    #[test]
    fn recursion_alone_matches_published_tables() {
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
    fn what_can_be_detected_shrinks_with_the_rounds_and_grows_with_what_is_kept_for_later() {
        let schedule = Schedule::new(0.05, 60);
        assert_eq!(schedule.detectable(8, 0.1), None, "no sign can decide in eight rounds");
        let at = |schedule: &Schedule, n| schedule.detectable(n, 0.1).unwrap();
        // By hand: (2.551386 + 1.281552) · 0.1 / √(60 · 3/π).
        assert_close(at(&schedule, 60), 0.050637, 1e-5);
        assert!(at(&schedule, 60) < at(&schedule, 20) && at(&schedule, 20) < at(&schedule, 12));
        assert!(at(&Schedule::new(0.05, 12), 12) < at(&schedule, 12));
    }

    #[test]
    fn never_spends_more_than_allowed_even_when_resumed() {
        for (alpha, planned) in [(0.05, 12), (0.1, 60), (0.05 / 60.0, 60), (0.0125, 30)] {
            let schedule = Schedule::new(alpha, planned);
            for n in 2..=100 {
                assert!(schedule.spent(n) <= schedule.allowance(n) * (1.0 + 1e-9));
                // What `Panel` relies on to leave levels alone that cannot be reached.
                assert!(schedule.nominal_level(n) <= schedule.allowance(n) * 1.001, "α = {alpha}, n = {n}");
            }
            assert!(schedule.spent(100) < 0.9 * alpha);
        }
    }
}
