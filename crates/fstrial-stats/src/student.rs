//! Student's t distribution for whole degrees of freedom.
//!
//! Below [`EXACT`] degrees the finite series of Abramowitz and Stegun 26.7.3 and 26.7.4; from there on the
//! Cornish-Fisher expansion around the normal quantile (26.7.5), whose error is then below 1e−9.

use crate::normal;
use std::f64::consts::{FRAC_2_PI, PI};

/// Degrees of freedom from which the expansion is used.
const EXACT: usize = 400;

/// P(|T| < t) for t ≥ 0 and `degrees` ≥ 1.
fn within(t: f64, degrees: usize) -> f64 {
    let theta = libm::atan(t / (degrees as f64).sqrt());
    let (sin, cos) = (libm::sin(theta), libm::cos(theta));
    let is_odd = degrees % 2 == 1;
    // Each term is the one before times (j − 1)/j · cos², from 1 or cos θ on.
    let (mut term, mut sum) = if is_odd { (cos, if degrees > 1 { cos } else { 0.0 }) } else { (1.0, 1.0) };
    for j in (if is_odd { 3..degrees } else { 2..degrees }).step_by(2) {
        let j = j as f64;
        term *= cos * cos * (j - 1.0) / j;
        sum += term;
    }
    if is_odd { FRAC_2_PI * (theta + sin * sum) } else { sin * sum }
}

/// P(|T| ≥ t) for t ≥ 0: the two-sided p of a statistic, to about 1e−15.
///
/// # Panics
/// `degrees` is 0.
pub fn two_sided(t: f64, degrees: usize) -> f64 {
    assert!(degrees > 0, "Student's t needs a degree of freedom");
    if t.is_infinite() { 0.0 } else { (1.0 - within(t, degrees)).max(0.0) }
}

/// t > 0 with P(|T| ≥ t) = `p`, for 0 < p < 1.
///
/// # Panics
/// `degrees` is 0.
pub fn two_sided_quantile(p: f64, degrees: usize) -> f64 {
    assert!(degrees > 0, "Student's t needs a degree of freedom");
    let z = normal::two_sided_quantile(p);
    if degrees >= EXACT {
        let n = degrees as f64;
        let square = z * z;
        let first = z * (square + 1.0) / 4.0;
        let second = z * ((5.0 * square + 16.0) * square + 3.0) / 96.0;
        let third = z * (((3.0 * square + 19.0) * square + 17.0) * square - 15.0) / 384.0;
        return z + first / n + second / (n * n) + third / (n * n * n);
    }
    if degrees == 1 {
        return 1.0 / libm::tan(PI * p / 2.0);
    }
    let is_below = |t: f64| within(t, degrees) < 1.0 - p;
    let (mut low, mut high) = (z, 2.0 * z);
    while is_below(high) {
        (low, high) = (high, 2.0 * high);
    }
    while low < f64::midpoint(low, high) && f64::midpoint(low, high) < high {
        let middle = f64::midpoint(low, high);
        if is_below(middle) { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `qt(1 - p/2, degrees)` of R 4.2.2.
    #[test]
    fn quantiles_are_those_of_r() {
        for (p, degrees, expected) in [
            (0.05, 1, 12.706_204_736_174_7),
            (0.05, 2, 4.302_652_729_749_46),
            (0.05, 3, 3.182_446_305_283_71),
            (0.10, 4, 2.131_846_786_326_65),
            (0.01, 9, 3.249_835_541_592_13),
            (0.05, 30, 2.042_272_456_301_24),
            (0.05, 199, 1.971_956_544_251_75),
            (0.05, 399, 1.965_927_295_920_64),
            (0.05, 400, 1.965_912_343_229_46),
            (0.001, 500, 3.310_091_151_522_70),
            (0.05, 10_000, 1.960_201_239_890_63),
        ] {
            let result = two_sided_quantile(p, degrees);
            assert!((result / expected - 1.0).abs() < 1e-9, "{p}, {degrees}: {result} is not {expected}");
            assert!((two_sided(result, degrees) - p).abs() < 1e-9, "{p}, {degrees}");
        }
    }
}
