//! Part of a difference: the ratio of two means that were observed in pairs, with its interval.
//!
//! Fieller, E. C. (1954), "Some problems in interval estimation", Journal of the Royal Statistical Society B 16 (2), 175–185.

use crate::student;

/// A ratio with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// Mean of the parts over mean of the wholes.
    pub share: f64,
    /// Interval of the ratio of their expectations.
    pub interval: (f64, f64),
}

/// Values whose mean is the ratio of two sums, and whose spread is that of this ratio: `y / x + (y_i - (y / x) x_i) / mean(x)`, the
/// linearised variate of Särndal, Swensson & Wretman, Model Assisted Survey Sampling (1992), section 5.5.
///
/// # Panics
/// The lists differ in length.
pub fn linearised(y: &[f64], x: &[f64]) -> Vec<f64> {
    assert_eq!(y.len(), x.len(), "they are pairs");
    let (sum_y, sum_x) = (y.iter().sum::<f64>(), x.iter().sum::<f64>());
    let (ratio, mean) = (sum_y / sum_x, sum_x / x.len() as f64);
    y.iter().zip(x).map(|(y, x)| ratio + (y - ratio * x) / mean).collect()
}

/// The share that parts have of wholes, with an interval of error probability `alpha` for normal errors. None with fewer than
/// three pairs, and if the mean of the wholes is not distinguishable from 0 at `alpha`.
///
/// # Panics
/// The lists differ in length, or `alpha` is not in (0, 1).
pub fn share(parts: &[f64], wholes: &[f64], alpha: f64) -> Option<Part> {
    assert_eq!(parts.len(), wholes.len(), "they are pairs");
    let n = parts.len();
    if n < 3 {
        return None;
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / n as f64;
    let (part, whole) = (mean(parts), mean(wholes));
    // Variances and the covariance of the means.
    let covariance = |(a, mean_a): (&[f64], f64), (b, mean_b): (&[f64], f64)| {
        let products = a.iter().zip(b).map(|(x, y)| (x - mean_a) * (y - mean_b));
        products.sum::<f64>() / (n - 1) as f64 / n as f64
    };
    let (parts, wholes) = ((parts, part), (wholes, whole));
    let (of_parts, of_both, of_wholes) =
        (covariance(parts, parts), covariance(parts, wholes), covariance(wholes, wholes));
    let t = student::two_sided_quantile(alpha, n - 1);
    let g = t * t * of_wholes / (whole * whole);
    if g.is_nan() || g >= 1.0 {
        return None;
    }
    let share = part / whole;
    let (lean, least) = match of_wholes > 0.0 {
        true => (g * of_both / of_wholes, g * (of_parts - of_both * of_both / of_wholes)),
        false => (0.0, 0.0),
    };
    let variance = (of_parts - 2.0 * share * of_both + share * share * of_wholes - least).max(0.0);
    let half = t / whole.abs() * libm::sqrt(variance) / (1.0 - g);
    let center = (share - lean) / (1.0 - g);
    Some(Part { share, interval: (center - half, center + half) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_core::{Rng, SeedableRng};

    #[test]
    fn linearised_values_have_the_mean_and_the_spread_of_a_ratio_of_sums() {
        let (y, x) = ([3.0, 5.0, 4.0, 9.0], [1.0, 2.0, 1.5, 2.5]);
        let values = linearised(&y, &x);
        assert!((values.iter().sum::<f64>() / 4.0 - 3.0).abs() < 1e-12);
        // By hand: residuals y - 3 x are 0, -1, -0.5, 1.5, over the mean 1.75 of x.
        for (value, residual) in values.iter().zip([0.0, -1.0, -0.5, 1.5]) {
            assert!((value - 3.0 - residual / 1.75).abs() < 1e-12);
        }
    }

    /// The bounds are the roots of (P − r W)² = t² Var(P − r W).
    #[test]
    fn bounds_solve_their_equation() {
        let (parts, wholes) = ([3.0, 4.0, 3.5, 5.0, 4.2], [6.1, 7.9, 7.2, 9.5, 8.0]);
        let found = share(&parts, &wholes, 0.05).unwrap();
        let excess = |r: f64| {
            let each: Vec<f64> = parts.iter().zip(wholes).map(|(part, whole)| part - r * whole).collect();
            let mean = each.iter().sum::<f64>() / 5.0;
            let variance = each.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 4.0 / 5.0;
            // Student's t for 4 degrees of freedom.
            mean.powi(2) - 2.776_445_105_198f64.powi(2) * variance
        };
        for bound in [found.interval.0, found.interval.1] {
            assert!(excess(bound).abs() < 1e-9, "{bound}: {}", excess(bound));
        }
        assert!((found.share - 19.7 / 38.7).abs() < 1e-12);
        assert!(found.interval.0 < found.share && found.share < found.interval.1);
    }

    #[test]
    fn indistinguishable_wholes_have_no_shares() {
        assert_eq!(share(&[1.0, 2.0], &[3.0, 4.0], 0.05), None);
        assert_eq!(share(&[1.0, 2.0, 1.0], &[3.0, -4.0, 1.0], 0.05), None);
        assert_eq!(share(&[0.0; 3], &[0.0; 3], 0.05), None);
        let constant = share(&[1.0; 4], &[2.0; 4], 0.05).unwrap();
        assert_eq!(constant, Part { share: 0.5, interval: (0.5, 0.5) });
    }

    /// Nineteen of twenty intervals have the true share.
    #[test]
    fn intervals_cover_the_true_share() {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let mut normal = || {
            // The sum of twelve uniform numbers.
            (0..12).map(|_| (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64).sum::<f64>() - 6.0
        };
        let mut covered = 0;
        for _ in 0..4000 {
            let wholes: Vec<f64> = (0..8).map(|_| 10.0 + 2.0 * normal()).collect();
            let parts: Vec<f64> = wholes.iter().map(|whole| 0.7 * whole + normal()).collect();
            let (low, high) = share(&parts, &wholes, 0.05).unwrap().interval;
            covered += usize::from((low..=high).contains(&0.7));
        }
        assert!((3740..=3860).contains(&covered), "{covered} of 4000");
    }
}
