//! Latencies counted in the buckets of an HDR histogram, at the cost of a shift and an addition for each.
//!
//! The same buckets as [`hdrhistogram::Histogram`] has for values from 1 to an hour at 3 digits, which it becomes when
//! the run is over. Recording there also keeps the total, the least and the greatest value of each histogram, and
//! computes its layout from fields; here the layout is constant and everything else follows from the counts.

use hdrhistogram::Histogram;

/// Greatest distinguishable latency, in nanoseconds: 1 hour.
pub(crate) const LATENCY_MAX_NS: u64 = 3_600_000_000_000;
/// Decimal digits that are kept of each latency.
const DIGITS: u8 = 3;
/// Values below 2^11 have separate buckets; above, each power of two is cut into 2^10: finer than 1 in 1000.
const UNIT_BITS: u32 = 11;
const HALF_BITS: u32 = UNIT_BITS - 1;
/// Buckets for all values with as many bits as the greatest latency.
const BUCKETS: usize = ((u64::BITS - LATENCY_MAX_NS.leading_zeros() - HALF_BITS + 1) << HALF_BITS) as usize;

/// Count of each latency.
#[derive(Debug, Clone)]
pub(crate) struct Latencies {
    counts: Box<[u64; BUCKETS]>,
}

/// The bucket of a latency.
#[inline]
const fn bucket(ns: u64) -> usize {
    let shift = u64::BITS - UNIT_BITS - (ns | ((1 << UNIT_BITS) - 1)).leading_zeros();
    ((shift as usize) << HALF_BITS) + (ns >> shift) as usize
}

/// The least latency of a bucket.
const fn lowest(bucket: usize) -> u64 {
    let shift = (bucket >> HALF_BITS).saturating_sub(1);
    ((bucket - (shift << HALF_BITS)) as u64) << shift
}

impl Latencies {
    /// None yet. All memory is written to, so that no page of it is first touched while the clock runs.
    pub(crate) fn new() -> Self {
        // Filled with ones first: zeroed memory would come from the kernel untouched.
        let mut counts: Box<[u64; BUCKETS]> =
            vec![std::hint::black_box(1); BUCKETS].try_into().expect("as long as that");
        counts.fill(0);
        Self { counts }
    }

    /// Counts a latency. Less than 1 ns counts as 1 ns, more than the greatest latency as that.
    #[inline]
    pub(crate) fn record(&mut self, ns: u64) {
        match self.counts.get_mut(bucket(ns.max(1))) {
            Some(count) => *count += 1,
            None => self.counts[const { bucket(LATENCY_MAX_NS) }] += 1,
        }
    }

    /// Adds the counts of another.
    pub(crate) fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&*other.counts).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// The same as an [`hdrhistogram::Histogram`].
    pub(crate) fn to_hdr(&self) -> Histogram<u64> {
        let mut histogram =
            Histogram::new_with_bounds(1, LATENCY_MAX_NS, DIGITS).expect("constant, valid bounds");
        for (bucket, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            // Values between the greatest latency and the next power of two have separate buckets there, too.
            histogram.record_n(lowest(bucket), *count).expect("the same buckets");
        }
        histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::{Serializer, V2Serializer};
    use proptest::prelude::*;

    fn encoded(histogram: &Histogram<u64>) -> Vec<u8> {
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(histogram, &mut bytes).unwrap();
        bytes
    }

    fn reference(values: &[u64]) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).unwrap();
        values.iter().for_each(|value| histogram.saturating_record((*value).max(1)));
        histogram
    }

    fn agree(values: &[u64]) {
        let mut ours = Latencies::new();
        values.iter().for_each(|value| ours.record(*value));
        let (ours, theirs) = (ours.to_hdr(), reference(values));
        assert_eq!(encoded(&ours), encoded(&theirs), "{values:?}");
        assert_eq!((ours.len(), ours.min(), ours.max()), (theirs.len(), theirs.min(), theirs.max()));
    }

    #[test]
    fn buckets_are_those_of_the_library() {
        assert_eq!(BUCKETS, reference(&[]).distinct_values());
        for index in 0..BUCKETS {
            assert_eq!(bucket(lowest(index)), index);
        }
        // Both sides of every power of two, and the ends.
        for bits in 0..64 {
            let power = 1_u64 << bits;
            for value in
                [power - 1, power, power + 1, power + power / 2, power.wrapping_mul(2).wrapping_sub(1)]
            {
                agree(&[value]);
            }
        }
        agree(&[0, 1, LATENCY_MAX_NS - 1, LATENCY_MAX_NS, LATENCY_MAX_NS + 1, u64::MAX]);
        agree(&[]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
        #[test]
        fn encoding_matches_hdrhistogram_library(
            values in proptest::collection::vec((any::<u64>(), 0_u32..64).prop_map(|(v, s)| v >> s), 0..500),
        ) {
            agree(&values);
        }

        #[test]
        fn sum_counts_both(a in proptest::collection::vec(1_u64..10_000, 0..50), b in proptest::collection::vec(1_u64..1 << 45, 0..50)) {
            let (mut left, mut right) = (Latencies::new(), Latencies::new());
            a.iter().for_each(|value| left.record(*value));
            b.iter().for_each(|value| right.record(*value));
            left.add(&right);
            prop_assert_eq!(encoded(&left.to_hdr()), encoded(&reference(&[a, b].concat())));
        }
    }
}
