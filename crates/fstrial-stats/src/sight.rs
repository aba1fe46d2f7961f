//! The smallest step that a history would show: the power of "no change found".
//!
//! A cut half-way through n points, where they move by d times the noise, saves Σ|x − median| on average n·g(d), with
//! g(d) = E|N(d/2, 1)| − E|N(0, 1)|. The cut is made if it saves more than its cost, 2·ln n (`change.rs`). Its savings
//! vary from history to history by about d/2·√n; [`MARGIN`] of that is added, so that a step of this size is found
//! nearly always. The medians of both halves must also be further apart than the band.
//!
//! Measured (tests/history.rs): such a step is found in 87 to 97 of 100 histories, one of a third of that size in 0 to
//! 27. Assumes points that scatter normally about their level, and a step in the middle: the latest ones need to be
//! larger.

use crate::normal;

/// Multiple of the variation that is added to the required savings of a cut.
const MARGIN: f64 = 1.25;

/// The size of that step, for this many points whose usual distance from their level is `noise`, a cost of a cut in
/// units of the noise, and a band of negligible steps. Sizes are logarithms.
pub fn seen_from(points: usize, noise: f64, cost: f64, band: f64) -> f64 {
    let count = points as f64;
    let root = libm::sqrt(count);
    let saves_enough = |d: f64| count * saved(d) - MARGIN * d / 2.0 * root >= cost;
    let (mut low, mut high) = (0.0, 1e6);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if saves_enough(middle) { high = middle } else { low = middle }
    }
    // The difference of two medians of n/2 normal values each varies by √(2π/n).
    let beyond_band = band + MARGIN * noise * libm::sqrt(std::f64::consts::TAU / count);
    (high * noise).max(beyond_band)
}

/// g(d): savings of a cut for each point, in units of the noise.
fn saved(d: f64) -> f64 {
    let half = d / 2.0;
    let folded = 2.0 * normal::density(half) + half * (normal::below(half) - normal::below(-half));
    folded - 2.0 * normal::density(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen_from(points: usize, noise: f64, band: f64) -> f64 {
        super::seen_from(points, noise, 2.0 * libm::log(points as f64), band)
    }

    #[test]
    fn more_points_less_noise_and_a_smaller_band_show_smaller_steps() {
        assert!(seen_from(30, 0.02, 0.03) < seen_from(8, 0.02, 0.03));
        assert!(seen_from(30, 0.01, 0.03) < seen_from(30, 0.02, 0.03));
        assert!(seen_from(30, 0.01, 0.01) < seen_from(30, 0.01, 0.03));
        assert!(seen_from(500, 1e-9, 0.03) < 0.03 + 1e-6, "without noise the band is all");
        assert!(seen_from(8, 0.137, 0.03) > 0.2);
    }

    #[test]
    fn cut_savings_match_both_limits() {
        assert!(saved(0.0).abs() < 1e-12);
        assert!((saved(20.0) - (10.0 - 2.0 * normal::density(0.0))).abs() < 1e-9);
    }
}
