//! The k-th smallest of many numbers that are counted and not listed.
//!
//! Averages of all pairs of n rounds, and differences of all pairs of two groups, are n² numbers. How many of them are at
//! most x takes one walk along the sorted values; halving the range of x finds any of them, to the last bit, in 64 walks.

/// The k-th smallest (from 1) of finite numbers of which `at_most(x)` are ≤ x. There must be k at least.
pub(crate) fn kth(k: usize, at_most: impl Fn(f64) -> usize) -> f64 {
    let (mut low, mut high) = (key(f64::MIN), key(f64::MAX));
    while low < high {
        let middle = low.midpoint(high);
        // The midpoint of whole numbers is rounded towards zero: it must stay below the upper end.
        let middle = if middle == high { high - 1 } else { middle };
        if at_most(number(middle)) >= k { high = middle } else { low = middle + 1 }
    }
    // No −0.
    number(low) + 0.0
}

/// Integers in the order of the numbers whose bits they are (as [`f64::total_cmp`] orders them).
fn key(number: f64) -> i64 {
    turned(number.to_bits().cast_signed())
}

fn number(key: i64) -> f64 {
    f64::from_bits(turned(key).cast_unsigned())
}

/// Negative numbers have their bits but the sign turned over; doing it twice changes nothing.
fn turned(bits: i64) -> i64 {
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_sorting(
            mut numbers in prop::collection::vec(prop_oneof![-1e9..1e9_f64, -1e-300..1e-300, Just(0.0), Just(2.5)], 1..40)
        ) {
            let result: Vec<f64> = (1..=numbers.len())
                .map(|k| kth(k, |x| numbers.iter().filter(|number| **number <= x).count()))
                .collect();
            numbers.sort_by(f64::total_cmp);
            prop_assert_eq!(result, numbers);
        }
    }

    #[test]
    fn the_ends_of_all_numbers_are_found() {
        for number in [f64::MIN, f64::MAX, 0.0, -0.0, f64::MIN_POSITIVE, -f64::MIN_POSITIVE] {
            assert_eq!(kth(1, |x| usize::from(number <= x)), number);
        }
    }
}
