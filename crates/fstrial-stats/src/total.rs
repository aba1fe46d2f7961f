//! The ratio of all that two arms did, and how sure it is.
//!
//! R = (Σ amount_a / Σ time_a) / (Σ amount_b / Σ time_b). A typical ratio ([`crate::estimate`]) is blind to an arm's
//! behaviour in a third of its runs; this is not. It decides nothing alone: no typical ratio is called a difference, or
//! the lack of one, while R contradicts it.
//!
//! The test: if R is r, a and b·r do the same λ = Σ amounts / Σ times, over both. A run did x = amount − λ·time more
//! than that, and e = x_a − x_b of a round is as likely positive as negative, at any size. p is the share of the 2ⁿ
//! sign assignments of the e in which their sum is at least the observed one. Studentising the sum changes nothing:
//! Σe/√(Σe² − (Σe)²/n) rises with Σe, and no sign changes Σe².
//!
//! Source: Fisher's randomisation test for pairs (The Design of Experiments, 1935, §21), inverted for an interval. All
//! signs are counted up to [`EXACT`] rounds; beyond, Lugannani and Rice's formula (1980) with the cumulants of a sum of
//! signs. Exact for r = 1 if a and b do not differ; for other r it assumes that e is symmetric, which that of an arm
//! with rare stalls is not: if they are too rare to occur ([`unseen_stalls`]) the interval holds the truth in a fifth
//! to a half of trials. So it is not shown; it guards verdicts, and each verdict states the stalls it cannot detect.

use crate::estimate::Done;
use crate::normal;

/// Rounds up to which all signs are counted.
const EXACT: usize = 20;
/// Dominating sizes that are counted with both signs, so that work stays bounded.
const SPLITS: usize = 8;
/// Steps of Newton's method and halvings: far more than either needs.
const STEPS: usize = 60;
/// Greatest |ln R| at which the end of an interval is looked for.
const FARTHEST: f64 = 60.0;

/// The share of an arm's runs that may stall although none did in this many rounds: more would have shown with 95 %, 1
/// − 0.05^(1/n). All of them without rounds.
#[must_use]
pub fn unseen_stalls(rounds: usize) -> f64 {
    1.0 - libm::pow(0.05, 1.0 / rounds as f64)
}

/// Rounds that show a stall of this share of an arm's runs with 95 %: 29 for a tenth, 59 for a twentieth.
///
/// # Panics
/// If the share is not in (0, 1).
#[must_use]
pub fn rounds_to_see(share: f64) -> usize {
    assert!(share > 0.0 && share < 1.0, "a share of the runs: {share}");
    (libm::log(0.05) / libm::log1p(-share)).ceil() as usize
}

/// ln R, and its interval if the runs so far are all that an arm ever does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) estimate: f64,
    /// `None` while rounds are too few for its level.
    pub(crate) interval: Option<(f64, f64)>,
}

/// Work of both arms of a contrast in the rounds so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Total {
    rounds: Vec<[Done; 2]>,
}

impl Total {
    /// Adds a round: the work of a and b.
    pub(crate) fn push(&mut self, round: [Done; 2]) {
        self.rounds.push(round);
    }

    /// ln R. `None` without rounds, or if sums overflow.
    pub(crate) fn estimate(&self) -> Option<f64> {
        let sum =
            |arm: usize, of: fn(&Done) -> f64| self.rounds.iter().map(|round| of(&round[arm])).sum::<f64>();
        let rate = |arm| libm::log(sum(arm, |done| done.amount)) - libm::log(sum(arm, |done| done.time));
        Some(rate(0) - rate(1)).filter(|ratio| ratio.is_finite())
    }

    /// R with an interval of the two-sided `level` (0.05 is 95 %).
    pub(crate) fn ratio(&self, level: f64) -> Option<Ratio> {
        let estimate = self.estimate()?;
        let ends = [-1.0, 1.0].map(|direction| self.end(estimate, direction, level));
        Some(Ratio { estimate, interval: ends[0].zip(ends[1]) })
    }

    /// True if R is certainly greater than e^`log`: one-sided, at half of the two-sided `level`.
    pub(crate) fn is_above(&self, log: f64, level: f64) -> bool {
        self.excesses(log).is_some_and(|excess| at_least_as_great(&excess) <= level / 2.0 * (1.0 + 1e-9))
    }

    /// True if R is certainly less than e^`log`.
    pub(crate) fn is_below(&self, log: f64, level: f64) -> bool {
        self.swapped().is_above(-log, level)
    }

    fn swapped(&self) -> Total {
        Total { rounds: self.rounds.iter().map(|[a, b]| [*b, *a]).collect() }
    }

    /// e of every round if R were e^`log`; the amounts in units of the greatest, so that no sum overflows.
    fn excesses(&self, log: f64) -> Option<Vec<f64>> {
        let r = libm::exp(log);
        let greatest = |of: fn(&Done) -> f64| self.rounds.iter().flatten().map(of).fold(0.0, f64::max);
        let (most, longest) = (greatest(|done| done.amount), greatest(|done| done.time));
        let amounts = |[a, b]: &[Done; 2]| [a.amount / most, b.amount / most * r];
        let times = |[a, b]: &[Done; 2]| [a.time / longest, b.time / longest];
        let all = |of: &dyn Fn(&[Done; 2]) -> [f64; 2]| self.rounds.iter().flat_map(of).sum::<f64>();
        let rate = all(&amounts) / all(&times);
        let excess = |round: &[Done; 2]| {
            let ([a, b], [time_a, time_b]) = (amounts(round), times(round));
            (a - b) - rate * (time_a - time_b)
        };
        let result: Vec<f64> = self.rounds.iter().map(excess).collect();
        (!result.is_empty() && result.iter().all(|e| e.is_finite())).then_some(result)
    }

    /// The end of the interval in a direction: the point from which R is certainly on the other side.
    fn end(&self, estimate: f64, direction: f64, level: f64) -> Option<f64> {
        let is_out = |distance: f64| {
            let log = estimate + direction * distance;
            if direction < 0.0 { self.is_above(log, level) } else { self.is_below(log, level) }
        };
        let mut outside = 1e-6;
        while !is_out(outside) {
            outside *= 2.0;
            if outside > FARTHEST {
                return None;
            }
        }
        let mut inside = outside / 2.0;
        while outside - inside > 1e-4 * outside {
            let middle = f64::midpoint(inside, outside);
            if is_out(middle) { outside = middle } else { inside = middle }
        }
        Some(estimate + direction * outside)
    }
}

/// The share of all sign assignments of the numbers in which their sum is at least the observed one.
fn at_least_as_great(numbers: &[f64]) -> f64 {
    let numbers: Vec<f64> = numbers.iter().copied().filter(|number| *number != 0.0).collect();
    let sum: f64 = numbers.iter().sum();
    if numbers.len() <= EXACT {
        return counted(&numbers, sum);
    }
    let mut sizes: Vec<f64> = numbers.iter().map(|x| x.abs()).collect();
    sizes.sort_unstable_by(|a, b| b.total_cmp(a));
    split(&sizes, sum, SPLITS)
}

/// P(Σ ±x ≥ `sum`) of sizes in descending order. The approximation assumes that no size dominates: one that has more
/// than half of the variance is counted with both of its signs.
fn split(sizes: &[f64], sum: f64, splits: usize) -> f64 {
    let variance: f64 = sizes.iter().map(|x| x * x).sum();
    match sizes {
        [first, rest @ ..] if splits > 0 && !rest.is_empty() && 2.0 * first * first > variance => {
            (split(rest, sum - first, splits - 1) + split(rest, sum + first, splits - 1)) / 2.0
        }
        _ if sizes.len() <= EXACT => counted(sizes, sum),
        _ if sum > sizes.iter().sum::<f64>() * (1.0 + 1e-9) => 0.0,
        _ if sum < 0.0 => 1.0 - approximately(sizes, -sum),
        _ => approximately(sizes, sum),
    }
}

/// The same by counting: for every sum of one half of the numbers, those of the other half that make it up.
fn counted(numbers: &[f64], sum: f64) -> f64 {
    let (one, other) = numbers.split_at(numbers.len() / 2);
    let (one, other) = (signed_sums(one), signed_sums(other));
    // The sum itself is one of them, perhaps added in another order.
    let least = sum - 1e-12 * numbers.iter().map(|number| number.abs()).sum::<f64>();
    let reached = |part: &f64| other.len() - other.partition_point(|rest| part + rest < least);
    one.iter().map(reached).sum::<usize>() as f64 / (one.len() * other.len()) as f64
}

/// Every sum of the numbers with signs, in ascending order.
fn signed_sums(numbers: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0];
    for number in numbers {
        sums = sums.iter().flat_map(|sum| [sum + number, sum - number]).collect();
    }
    sums.sort_unstable_by(f64::total_cmp);
    sums
}

/// P(Σ ±x ≥ `sum`) of sizes by Lugannani and Rice, for a sum of at least 0.
fn approximately(sizes: &[f64], sum: f64) -> f64 {
    let scale = (sizes.iter().map(|x| x * x).sum::<f64>()).sqrt();
    // At least one of all ways gives the sum that there is.
    let least = libm::exp2(-(sizes.len() as f64));
    let sizes: Vec<f64> = sizes.iter().map(|x| x / scale).collect();
    let sum = sum / scale;
    if sum >= sizes.iter().sum::<f64>() * (1.0 - 1e-9) {
        return least;
    }
    let at = saddle(&sizes, sum);
    let w = (2.0 * (at * sum - sizes.iter().map(|x| log_cosh(at * x)).sum::<f64>())).max(0.0).sqrt();
    let u = at * curvature(&sizes, at).sqrt();
    if w < 1e-4 {
        return 0.5;
    }
    (normal::above(w) + normal::density(w) * (1.0 / u - 1.0 / w)).clamp(least, 1.0)
}

/// The t with K'(t) = `sum`, K(t) = Σ ln cosh(t·x), for a sum that is less than that of the sizes.
fn saddle(sizes: &[f64], sum: f64) -> f64 {
    let slope = |t: f64| sizes.iter().map(|x| x * libm::tanh(t * x)).sum::<f64>();
    let (mut low, mut high) = (0.0, 1.0);
    while slope(high) < sum {
        (low, high) = (high, 2.0 * high);
    }
    let mut t = f64::midpoint(low, high);
    for _ in 0..STEPS {
        let off = slope(t) - sum;
        if off > 0.0 {
            high = t
        } else {
            low = t
        }
        let newton = t - off / curvature(sizes, t);
        let next = if newton > low && newton < high { newton } else { f64::midpoint(low, high) };
        if (next - t).abs() <= 1e-10 * t {
            break;
        }
        t = next;
    }
    t
}

/// K''(t).
fn curvature(sizes: &[f64], t: f64) -> f64 {
    let of = |x: &f64| x * x * (1.0 - libm::tanh(t * x).powi(2));
    sizes.iter().map(of).sum()
}

fn log_cosh(x: f64) -> f64 {
    x.abs() + libm::log1p(libm::exp(-2.0 * x.abs())) - std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(rounds: &[(f64, f64)]) -> Total {
        let rounds = rounds.iter().map(|(a, b)| [Done::figure(*a), Done::figure(*b)]);
        Total { rounds: rounds.collect() }
    }

    /// Darwin's maize in Fisher's own example: crossed and self-fertilised plants in eighths of an inch over 8, of
    /// whose 2^15 sign assignments of the differences 863 have a sum of at least 314 (The Design of Experiments, §21).
    #[test]
    fn fishers_maize() {
        let differences = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48].map(f64::from);
        assert_eq!(differences.iter().sum::<f64>(), 314.0);
        assert_eq!(at_least_as_great(&differences), 863.0 / 32768.0);
    }

    #[test]
    fn few_rounds_are_counted() {
        assert_eq!(at_least_as_great(&[1.0, 2.0, 3.0]), 1.0 / 8.0);
        assert_eq!(at_least_as_great(&[1.0, 2.0, -3.0]), 5.0 / 8.0);
        assert_eq!(at_least_as_great(&[0.0; 4]), 1.0);
        assert_eq!(at_least_as_great(&[1.0; 20]), libm::exp2(-20.0));
    }

    /// Twenty rounds alike and one in which an arm stalls: the sign of that one decides.
    #[test]
    fn p_value_with_dominant_stall_is_nearly_exact() {
        let mut rounds: Vec<f64> = (0..EXACT).map(|n| 0.02 + 0.001 * n as f64).collect();
        rounds.push(0.8);
        let few_against = |against: usize| {
            let signed = rounds.iter().enumerate().map(|(n, x)| if n < against { -x } else { *x });
            signed.collect::<Vec<f64>>()
        };
        for numbers in [few_against(5), few_against(10), few_against(EXACT)] {
            let exact = counted(&numbers, numbers.iter().sum());
            let result = at_least_as_great(&numbers);
            assert!((result / exact - 1.0).abs() < 0.02, "{result} is not {exact}");
        }
    }

    #[test]
    fn longer_time_for_equal_work_is_slower() {
        let done = |time| Done { amount: 1000.0, time };
        let total = Total { rounds: (0..12).map(|n| [done(2.0 + 0.01 * f64::from(n)), done(1.0)]).collect() };
        let ratio = total.ratio(0.05).unwrap();
        let expected = (12.0_f64 / (24.0 + 0.66)).ln();
        assert!((ratio.estimate - expected).abs() < 1e-12);
        let (low, high) = ratio.interval.unwrap();
        assert!(low < expected && expected < high && high - low < 0.05, "{ratio:?}");
    }

    #[test]
    fn rare_stalls_take_many_rounds() {
        assert_eq!([0.10, 0.05, 0.5].map(rounds_to_see), [29, 59, 5]);
        assert!((unseen_stalls(8) - 0.3123).abs() < 1e-4 && unseen_stalls(0) == 1.0);
        assert!((2..500).all(|n| rounds_to_see(unseen_stalls(n) * (1.0 + 1e-9)) == n));
    }

    #[test]
    fn stalling_arm_has_lower_total() {
        // 4 % more in seven rounds of ten, 27 % less in the others.
        let total =
            of(&(0..40).map(|n| (if n % 10 < 3 { 730.0 } else { 1040.0 }, 1000.0)).collect::<Vec<_>>());
        assert!((libm::exp(total.estimate().unwrap()) - 0.947).abs() < 1e-12);
        assert!(total.is_below(0.0, 0.05) && !total.is_above(libm::log(0.97), 0.05));
    }

    #[test]
    fn five_rounds_have_no_interval_of_95_percent() {
        let rounds = [(1.1, 1.0); 6];
        assert_eq!(of(&rounds[..5]).ratio(0.05).unwrap().interval, None);
        assert!(of(&rounds).ratio(0.05).unwrap().interval.is_some());
        assert_eq!(of(&[]).ratio(0.05), None);
        assert_eq!(of(&[(f64::MAX, 1.0), (f64::MAX, 1.0)]).estimate(), None, "beyond what numbers hold");
    }

    proptest! {
        /// The slow obvious model: every way to give the signs.
        #[test]
        fn counting_by_halves_is_counting(numbers in prop::collection::vec(-1.0..1.0_f64, 1..12)) {
            let sum: f64 = numbers.iter().sum();
            let reached = (0..1_u32 << numbers.len()).filter(|signs| {
                let signed = |(n, x): (usize, &f64)| if signs >> n & 1 == 1 { *x } else { -x };
                numbers.iter().enumerate().map(signed).sum::<f64>() >= sum - 1e-12
            });
            let exact = reached.count() as f64 / f64::from(1_u32 << numbers.len());
            prop_assert_eq!(at_least_as_great(&numbers), exact);
        }

        /// Errors of many sizes, as for an arm that stalls.
        #[test]
        fn approximation_is_close_to_exact_count(
            numbers in prop::collection::vec((-0.7..1.0_f64).prop_map(|x| x * x * x), EXACT + 1..EXACT + 4)
        ) {
            let (result, exact) = (at_least_as_great(&numbers), counted(&numbers, numbers.iter().sum()));
            let deviates = |p: f64| normal::quantile(p.clamp(1e-9, 1.0 - 1e-9));
            prop_assert!((deviates(result) - deviates(exact)).abs() < 0.3, "{result} is not {exact}");
        }

        #[test]
        fn swapping_arms_mirrors_estimate_and_interval(rounds in prop::collection::vec((0.5..2.0_f64, 0.5..2.0_f64), 6..40)) {
            let (there, back) = (of(&rounds).ratio(0.05).unwrap(), of(&rounds).swapped().ratio(0.05).unwrap());
            prop_assert!((there.estimate + back.estimate).abs() < 1e-12);
            prop_assert_eq!(there.interval.is_some(), back.interval.is_some());
            if let Some(((low, high), (b, a))) = there.interval.zip(back.interval) {
                prop_assert!((low + a).abs() < 1e-3 * (high - low) && (high + b).abs() < 1e-3 * (high - low));
                prop_assert!(low <= there.estimate && there.estimate <= high);
            }
        }
    }
}
