//! Intervals for a share, such as 3 of 20 runs.
//!
//! Clopper and Pearson, Biometrika 26 (1934): exact, so never too narrow, for any number of runs.

/// Bisections: each halves the interval of the root.
const STEPS: u32 = 60;

/// Confidence bounds of a share of `some` of `all`; both ends are 0 to 1. Between none and all of them it is the two-sided
/// interval. None of them gives a one-sided upper bound, all of them a lower one, with the whole error probability, so
/// that 0 of 20 is stated as "at most 14 %". As the result decides which is given, the coverage over all results may be
/// less than `1 - alpha`: with 20 trials and `alpha` 0.05 it is at least 93.5 %.
///
/// # Panics
/// If `some` is larger than `all`.
pub fn interval(some: u32, all: u32, alpha: f64) -> (f64, f64) {
    assert!(some <= all, "a share is at most the whole");
    let is_two_sided = some > 0 && some < all;
    let tail = if is_two_sided { alpha / 2.0 } else { alpha };
    let low = if some == 0 { 0.0 } else { root(|share| at_least(some, all, share) - tail) };
    let high = if some == all { 1.0 } else { root(|share| tail - (1.0 - at_least(some + 1, all, share))) };
    (low, high)
}

/// Probability of at least `some` successes in `all` trials.
fn at_least(some: u32, all: u32, share: f64) -> f64 {
    (some..=all).map(|k| probability(k, all, share)).sum()
}

/// Probability of exactly `some` successes.
fn probability(some: u32, all: u32, share: f64) -> f64 {
    let [k, n] = [f64::from(some), f64::from(all)];
    let choose = libm::lgamma(n + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(n - k + 1.0);
    let power = |count: f64, share: f64| if count == 0.0 { 0.0 } else { count * share.ln() };
    (choose + power(k, share) + power(n - k, 1.0 - share)).exp()
}

/// The root between 0 and 1 of a function that rises.
fn root(f: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        if f(middle) < 0.0 { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checked against `binom.test` of R 4.2 (two-sided), and 1 - 0.05^(1/n) for none of n.
    #[test]
    fn intervals_match_published_values() {
        let near = |(low, high): (f64, f64), expected: (f64, f64)| {
            assert!((low - expected.0).abs() < 5e-5 && (high - expected.1).abs() < 5e-5, "{low} {high}");
        };
        near(interval(7, 20, 0.05), (0.1539, 0.5922));
        near(interval(1, 20, 0.05), (0.0013, 0.2487));
        near(interval(0, 20, 0.05), (0.0, 0.1391));
        near(interval(20, 20, 0.05), (0.8609, 1.0));
        near(interval(0, 400, 0.05), (0.0, 0.0075));
    }

    /// The sum over all results whose interval holds the true share.
    #[test]
    fn coverage_is_as_documented() {
        let coverage = |share: f64| -> f64 {
            let holds = |some: &u32| {
                let (low, high) = interval(*some, 20, 0.05);
                (low..=high).contains(&share)
            };
            (0..=20).filter(holds).map(|some| probability(some, 20, share)).sum()
        };
        let least = (1..1000).map(|n| coverage(f64::from(n) / 1000.0)).fold(1.0, f64::min);
        assert!((0.935..0.95).contains(&least), "{least}");
    }
}
