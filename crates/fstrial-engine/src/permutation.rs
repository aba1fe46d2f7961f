//! A random order of the numbers from 0 to n − 1 in constant memory: every number once, with random access to the
//! order.
//!
//! A Feistel network is a bijection on numbers of a fixed width for any round function; numbers it takes out of range
//! are put through it again until they are inside (cycle walking: Black and Rogaway, "Ciphers with Arbitrary Finite
//! Domains", 2002). The width is that of n − 1, so fewer than two passes are needed on average. Not for secrets.

use crate::generator::Generator;

/// Passes over both halves. Two leave patterns that the tests find; the fourth is a reserve.
const ROUNDS: usize = 4;

/// An order of `0..n`.
#[derive(Debug, Clone)]
pub(crate) struct Permutation {
    n: u64,
    /// Width of the lower half in bits; the upper half has as many or one more.
    low_bits: u32,
    low_mask: u64,
    high_mask: u64,
    keys: [[u64; 2]; ROUNDS],
}

/// 64 bits well mixed: the finalizer of splitmix64 (Steele, Lea and Flood, 2014).
#[inline]
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Permutation {
    /// An order drawn from the generator. `n` is at least 1.
    pub(crate) fn new(n: u64, generator: &mut Generator) -> Self {
        assert!(n > 0, "an order of nothing");
        let bits = 64 - (n - 1).leading_zeros();
        let low_bits = bits / 2;
        Self {
            n,
            low_bits,
            low_mask: (1 << low_bits) - 1,
            high_mask: (1 << (bits - low_bits)) - 1,
            keys: std::array::from_fn(|_| std::array::from_fn(|_| generator.next())),
        }
    }

    /// The number at a place of the order; both are below n.
    #[inline]
    pub(crate) fn at(&self, place: u64) -> u64 {
        debug_assert!(place < self.n);
        let mut number = place;
        loop {
            let (mut low, mut high) = (number & self.low_mask, number >> self.low_bits);
            for [first, second] in &self.keys {
                high ^= mix(low ^ first) & self.high_mask;
                low ^= mix(high ^ second) & self.low_mask;
            }
            number = (high << self.low_bits) | low;
            if number < self.n {
                return number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::Stream;
    use proptest::prelude::*;

    fn permutation(n: u64, seed: u64) -> Permutation {
        Permutation::new(n, &mut Generator::new(seed, Stream::Layout))
    }

    proptest! {
        #[test]
        fn every_number_comes_once(n in 1_u64..3000, seed: u64) {
            let order = permutation(n, seed);
            let mut seen: Vec<u64> = (0..n).map(|place| order.at(place)).collect();
            seen.sort_unstable();
            prop_assert!(seen.iter().copied().eq(0..n));
        }

        #[test]
        fn large_ranges_are_never_left(n in 1_u64..=u64::MAX, place: u64, seed: u64) {
            prop_assert!(permutation(n, seed).at(place % n) < n);
        }
    }

    #[test]
    fn small_ranges_are_exhausted() {
        for n in 1..=70 {
            for seed in 0..50 {
                let order = permutation(n, seed);
                let numbers: std::collections::BTreeSet<u64> = (0..n).map(|place| order.at(place)).collect();
                assert_eq!(numbers.len() as u64, n);
            }
        }
    }

    #[test]
    fn permutation_places_are_uniform() {
        let mut generator = Generator::new(1, Stream::Layout);
        for n in [8, 10, 100] {
            let tries = 20_000;
            for place in [0, n / 2, n - 1] {
                let mut counts = vec![0_u32; n as usize];
                (0..tries).for_each(|_| counts[Permutation::new(n, &mut generator).at(place) as usize] += 1);
                let expected = f64::from(tries) / n as f64;
                let chi2: f64 = counts.iter().map(|c| (f64::from(*c) - expected).powi(2) / expected).sum();
                // Degrees of freedom n − 1; six standard deviations.
                let limit = (n - 1) as f64 + 6.0 * (2.0 * (n - 1) as f64).sqrt();
                assert!(chi2 < limit, "{n} numbers at place {place}: chi-squared {chi2}");
            }
        }
    }

    #[test]
    fn neighbours_do_not_stay_together() {
        // In a random order the next number is the successor with probability 1/n: one expected in each order.
        let (n, orders) = (1000, 200);
        let mut successors = 0;
        for seed in 0..orders {
            let order = permutation(n, seed);
            successors += (1..n).filter(|place| order.at(*place) == order.at(place - 1) + 1).count();
        }
        // Poisson with mean 200.
        assert!((130..280).contains(&successors), "{successors}");
    }
}
