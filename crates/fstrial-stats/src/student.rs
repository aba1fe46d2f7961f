//! Student's t distribution with whole degrees of freedom, for the early lane.
//!
//! The two-sided p-value has a closed form for whole degrees of freedom ν (Abramowitz and Stegun
//! 26.7.3–4): with x = atan(|t|/√ν), A = P(|T| ≤ |t|) is a finite sum of powers of cos x, and
//! p = 1 − A. Quantiles are found by bisection on it. Meant for the small ν of the lane (≤ 20 or
//! so) and p above about 1e−12; below that 1 − A cancels.

use std::f64::consts::PI;

/// P(|T| ≥ |t|) for ν = `freedom` ≥ 1 degrees of freedom. t may be infinite (p = 0).
///
/// # Panics
/// If `freedom` is 0.
pub fn two_sided_p(t: f64, freedom: usize) -> f64 {
    assert!(freedom > 0, "a t statistic needs at least one degree of freedom");
    let x = libm::atan(t.abs() / (freedom as f64).sqrt());
    let (sin, cos) = (libm::sin(x), libm::cos(x));
    let odd = freedom % 2 == 1;
    // Powers of cos: odd ν: cos¹, cos³ … cos^(ν−2); even ν: cos⁰, cos² … cos^(ν−2).
    let mut power = usize::from(odd);
    let mut term = if odd { cos } else { 1.0 };
    let mut sum = 0.0;
    while power + 2 <= freedom {
        sum += term;
        term *= cos * cos * (power + 1) as f64 / (power + 2) as f64;
        power += 2;
    }
    let within = if odd { 2.0 / PI * (x + sin * sum) } else { sin * sum };
    (1.0 - within).clamp(0.0, 1.0)
}

/// t_{1−p, ν}: the t > 0 with P(T > t) = `upper_p` (0 < `upper_p` ≤ ½), so that ± t·se is an interval of
/// level 1 − 2·`upper_p`.
pub fn upper_quantile(upper_p: f64, freedom: usize) -> f64 {
    let mut high = 1.0;
    while two_sided_p(high, freedom) > 2.0 * upper_p && high < 1e15 {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if two_sided_p(middle, freedom) > 2.0 * upper_p {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_vectors() {
        let vectors =
            [(3, 10.0, 0.002128399), (4, 8.61, 0.001000134), (5, 6.5, 0.001286653), (6, 5.2, 0.002014836)];
        for (freedom, t, p) in vectors {
            assert!(
                (two_sided_p(t, freedom) - p).abs() < 6e-10,
                "ν = {freedom}: {}",
                two_sided_p(t, freedom)
            );
            assert_eq!(two_sided_p(-t, freedom), two_sided_p(t, freedom));
        }
    }

    #[test]
    fn smallest_degrees_of_freedom_have_textbook_forms() {
        // ν = 1 is Cauchy; ν = 2: p = 1 − t/√(2 + t²).
        assert!((two_sided_p(1.0, 1) - 0.5).abs() < 1e-15);
        assert!((two_sided_p(3.0, 2) - (1.0 - 3.0 / 11_f64.sqrt())).abs() < 1e-15);
        for freedom in 1..=12 {
            assert_eq!(two_sided_p(0.0, freedom), 1.0);
            assert!(two_sided_p(f64::INFINITY, freedom) < 1e-15);
        }
    }

    #[test]
    fn quantile_undoes_p() {
        // t_{0.9995, 3} = 12.924 in every table.
        assert!((upper_quantile(0.0005, 3) - 12.923_978).abs() < 1e-5);
        for freedom in 1..=10 {
            for p in [0.4, 0.05, 0.0005, 1e-6] {
                let t = upper_quantile(p, freedom);
                assert!((two_sided_p(t, freedom) / (2.0 * p) - 1.0).abs() < 1e-8, "ν = {freedom}, p = {p}");
            }
        }
    }
}
