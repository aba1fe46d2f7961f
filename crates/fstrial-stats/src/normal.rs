//! The standard normal distribution: density φ, distribution function Φ and its inverse.
//!
//! Used by the stopping schedule (a Gaussian picture of the signed-rank walk) and by the futility
//! rule. Φ(x) = ½·erfc(−x/√2) with `libm`'s erfc; Φ⁻¹ is Wichura's algorithm AS 241 (PPND16,
//! Applied Statistics 37, 1988), relative accuracy about 1e−16.
//!
//! Does not promise anything about data: nothing in fstrial assumes that measurements are normal.

use std::f64::consts::{PI, SQRT_2};

/// Density φ(x) of the standard normal distribution.
pub fn density(x: f64) -> f64 {
    libm::exp(-0.5 * x * x) / (2.0 * PI).sqrt()
}

/// Φ(x) = P(X ≤ x) for a standard normal X.
pub fn below(x: f64) -> f64 {
    0.5 * libm::erfc(-x / SQRT_2)
}

/// 1 − Φ(x), accurate in the upper tail where `1.0 - below(x)` would cancel.
pub fn above(x: f64) -> f64 {
    0.5 * libm::erfc(x / SQRT_2)
}

/// Φ⁻¹(p): the x with Φ(x) = p. −∞ at 0, +∞ at 1, NaN outside [0, 1].
pub fn quantile(p: f64) -> f64 {
    if !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180625 - q * q;
        return q * ratio(&CENTRE, r);
    }
    let tail = if q < 0.0 { p } else { 1.0 - p };
    if tail <= 0.0 {
        return f64::INFINITY.copysign(q);
    }
    let r = (-libm::log(tail)).sqrt();
    let x = if r <= 5.0 { ratio(&MIDDLE, r - 1.6) } else { ratio(&FAR, r - 5.0) };
    x.copysign(q)
}

/// x > 0 with P(|X| ≥ x) = p, for 0 < p ≤ 1. Keeps its accuracy for tiny p.
pub fn two_sided_quantile(p: f64) -> f64 {
    -quantile(p / 2.0)
}

/// A rational function: numerator and denominator coefficients, lowest power first.
type Rational = ([f64; 8], [f64; 8]);

fn ratio((top, bottom): &Rational, r: f64) -> f64 {
    horner(top, r) / horner(bottom, r)
}

fn horner(coefficients: &[f64; 8], r: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * r + c)
}

// AS 241, PPND16: |p − ½| ≤ 0.425.
const CENTRE: Rational = (
    [
        3.387_132_872_796_366_5,
        1.331_416_678_917_843_8e2,
        1.971_590_950_306_551_3e3,
        1.373_169_376_550_946e4,
        4.592_195_393_154_987e4,
        6.726_577_092_700_87e4,
        3.343_057_558_358_813e4,
        2.509_080_928_730_122_7e3,
    ],
    [
        1.0,
        4.231_333_070_160_091e1,
        6.871_870_074_920_579e2,
        5.394_196_021_424_751e3,
        2.121_379_430_158_659_7e4,
        3.930_789_580_009_271e4,
        2.872_908_573_572_194_3e4,
        5.226_495_278_852_854e3,
    ],
);

// Tail probability p with √(−ln p) ≤ 5.
const MIDDLE: Rational = (
    [
        1.423_437_110_749_683_5,
        4.630_337_846_156_546,
        5.769_497_221_460_691,
        3.647_848_324_763_204_5,
        1.270_458_252_452_368_4,
        2.417_807_251_774_506e-1,
        2.272_384_498_926_918_4e-2,
        7.745_450_142_783_414e-4,
    ],
    [
        1.0,
        2.053_191_626_637_759,
        1.676_384_830_183_803_8,
        6.897_673_349_851e-1,
        1.481_039_764_274_800_8e-1,
        1.519_866_656_361_645_7e-2,
        5.475_938_084_995_345e-4,
        1.050_750_071_644_416_9e-9,
    ],
);

// Beyond: p below about 1.4e−11.
const FAR: Rational = (
    [
        6.657_904_643_501_103,
        5.463_784_911_164_114,
        1.784_826_539_917_291_3,
        2.965_605_718_285_048_7e-1,
        2.653_218_952_657_612_4e-2,
        1.242_660_947_388_078_4e-3,
        2.711_555_568_743_487_6e-5,
        2.010_334_399_292_288_1e-7,
    ],
    [
        1.0,
        5.998_322_065_558_88e-1,
        1.369_298_809_227_358e-1,
        1.487_536_129_085_061_5e-2,
        7.868_691_311_456_133e-4,
        1.846_318_317_510_054_8e-5,
        1.421_511_758_316_446e-7,
        2.044_263_103_389_939_8e-15,
    ],
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_vectors() {
        assert!((below(-2.5) - 0.006209665).abs() < 1e-9);
        assert!((below(1.2) - 0.884930330).abs() < 1e-9);
        assert!((quantile(0.975) - 1.959963985).abs() < 1e-9);
        assert!((quantile(0.00390625) + 2.660067469).abs() < 1e-9);
        assert!((quantile(1e-6) + 4.753424309).abs() < 1e-9);
    }

    #[test]
    fn inverse_undoes_the_distribution_function_far_into_both_tails() {
        for step in -3500..=1000 {
            let x = f64::from(step) / 100.0;
            let p = below(x);
            if p < 0.9 {
                assert!((quantile(p) - x).abs() < 1e-13 * x.abs().max(1.0), "x = {x}");
            } else if x < 5.0 {
                assert!((quantile(p) - x).abs() < 1e-9, "x = {x}");
            }
        }
        assert!((two_sided_quantile(2.0 * above(9.0)) - 9.0).abs() < 1e-12);
    }

    #[test]
    fn edges() {
        assert_eq!(quantile(0.0), f64::NEG_INFINITY);
        assert_eq!(quantile(1.0), f64::INFINITY);
        assert_eq!(quantile(0.5), 0.0);
        assert!(quantile(-0.1).is_nan() && quantile(1.1).is_nan() && quantile(f64::NAN).is_nan());
    }
}
