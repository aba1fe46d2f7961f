//! The latencies of a run, kept small: of a histogram only the values that occurred, with how often.
//!
//! A histogram over an hour of nanoseconds takes 264 KB of memory regardless of its content, and a trial has thousands;
//! each has a few hundred distinct values. Not for recording: the engine does that. The file format and the rule for
//! quantiles are `HdrHistogram`'s, and the tests compare both with the library.

use base64::{Engine, engine::general_purpose::STANDARD};
use hdrhistogram::{Histogram, serialization::Deserializer};

/// Bytes before the counts: cookie, length of the counts, normalising offset, digits, lowest, highest, ratio.
const HEADER_BYTES: usize = 40;
/// `HdrHistogram` V2 without deflate.
const V2_COOKIE: u32 = 0x1c84_9313;
/// Three digits take 2048 values to a bucket; all but the first use the upper half of them.
const HALF: u64 = 1024;

/// Latencies in nanoseconds, each with how often it occurred.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Latencies {
    /// The greatest value indistinguishable from the recorded one, and its count; ascending, no count is 0.
    counts: Vec<(u64, u64)>,
    total: u64,
}

impl Latencies {
    /// Reads a histogram as measurements carry it: V2 with deflate off, in base64.
    ///
    /// # Errors
    /// It is invalid; with the reason.
    pub fn decode(base64: &str) -> Result<Self, String> {
        let bytes = STANDARD.decode(base64).map_err(|e| e.to_string())?;
        match counts_of(&bytes) {
            Some(counts) => Ok(Self::new(counts)),
            // Of another shape than ours, or damaged: the library reads it, or reports the problem.
            None => histogram_of(&bytes).map(|histogram| Self::of(&histogram)),
        }
    }

    /// The content of a histogram.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let recorded = histogram.iter_recorded();
        Self::new(
            recorded
                .map(|seen| (histogram.highest_equivalent(seen.value_iterated_to()), seen.count_at_value()))
                .collect(),
        )
    }

    fn new(counts: Vec<(u64, u64)>) -> Self {
        let total = counts.iter().fold(0_u64, |total, (_, count)| total.saturating_add(*count));
        Self { counts, total }
    }

    pub fn len(&self) -> u64 {
        self.total
    }

    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The latency that this share of them does not exceed, in ns; 0 without any.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts are far below 2^53"
    )]
    pub fn quantile(&self, quantile: f64) -> u64 {
        let wanted = (quantile * self.total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let result = self.counts.iter().find(|(_, count)| {
            seen = count.saturating_add(seen);
            seen >= wanted
        });
        result.or(self.counts.last()).map_or(0, |(value, _)| *value)
    }

    /// Their mean in ns; none without any.
    #[expect(clippy::cast_precision_loss, reason = "latencies and counts are far below 2^53")]
    pub fn mean(&self) -> Option<f64> {
        let sum: f64 = self.counts.iter().map(|(value, count)| *value as f64 * *count as f64).sum();
        (self.total > 0).then(|| sum / self.total as f64)
    }

    pub fn add(&mut self, other: &Self) {
        let mut merged = Vec::with_capacity(self.counts.len() + other.counts.len());
        let (mut mine, mut theirs) = (self.counts.iter().peekable(), other.counts.iter().peekable());
        loop {
            merged.push(match (mine.peek(), theirs.peek()) {
                (Some((a, count)), Some((b, more))) if a == b => {
                    let both = (*a, count.saturating_add(*more));
                    mine.next();
                    theirs.next();
                    both
                }
                (Some((a, _)), Some((b, _))) if a < b => *mine.next().expect("it was peeked at"),
                (_, Some(_)) => *theirs.next().expect("it was peeked at"),
                (Some(_), None) => *mine.next().expect("it was peeked at"),
                (None, None) => break,
            });
        }
        self.counts = merged;
        self.total = self.total.saturating_add(other.total);
    }
}

/// The counts of a histogram with the bounds all of ours have; none of any other, and of a damaged one.
fn counts_of(bytes: &[u8]) -> Option<Vec<(u64, u64)>> {
    let (header, mut rest) = bytes.split_at_checked(HEADER_BYTES)?;
    let word = |at: usize| header[at..at + 4].try_into().map(u32::from_be_bytes).ok();
    let is_ours = word(0)? == V2_COOKIE
        && usize::try_from(word(4)?) == Ok(rest.len())
        && word(8)? == 0
        && word(12)? == 3
        && header[16..24] == 1_u64.to_be_bytes();
    let mut counts = Vec::new();
    let mut index = 0_u64;
    while is_ours && !rest.is_empty() {
        let (number, length) = number(rest)?;
        rest = &rest[length..];
        if number < 0 {
            index = index.checked_add(number.unsigned_abs())?;
            continue;
        }
        if number > 0 {
            counts.push((highest_at(index)?, number.unsigned_abs()));
        }
        index += 1;
    }
    is_ours.then_some(counts)
}

/// Reads a histogram as measurements carry it, whole.
///
/// # Errors
/// It is invalid; with the reason.
pub fn histogram(base64: &str) -> Result<Histogram<u64>, String> {
    histogram_of(&STANDARD.decode(base64).map_err(|e| e.to_string())?)
}

/// The library trusts the lengths and adds up everything, so these are checked first.
fn histogram_of(bytes: &[u8]) -> Result<Histogram<u64>, String> {
    check(bytes)?;
    Deserializer::new().deserialize(&mut &bytes[..]).map_err(|e| format!("{e:?}"))
}

/// Refuses lengths and counts that cannot be.
fn check(bytes: &[u8]) -> Result<(), String> {
    let (header, mut rest) = bytes.split_at_checked(HEADER_BYTES).ok_or("it is shorter than its header")?;
    let length = u32::from_be_bytes(header[4..8].try_into().expect("four bytes"));
    if usize::try_from(length) != Ok(rest.len()) {
        return Err(format!("it declares {length} bytes of counts, and has {}", rest.len()));
    }
    let mut most = u64::MAX / 4;
    while !rest.is_empty() {
        let (number, length) = number(rest).ok_or("it ends inside a count")?;
        rest = &rest[length..];
        most = most.checked_sub(number.unsigned_abs()).ok_or("it has counts that cannot be real")?;
    }
    Ok(())
}

/// The greatest value that is counted in a cell.
fn highest_at(index: u64) -> Option<u64> {
    let bucket = u32::try_from((index / HALF).saturating_sub(1)).ok().filter(|bucket| *bucket < 53)?;
    let low = if index < HALF { index } else { (index % HALF + HALF) << bucket };
    Some(low + (1 << bucket) - 1)
}

/// A zig-zag LEB128 number with its length; the ninth byte has all eight bits.
fn number(bytes: &[u8]) -> Option<(i64, usize)> {
    let mut value = 0_u64;
    for length in 0..9 {
        let byte = *bytes.get(length)?;
        if length == 8 {
            value |= u64::from(byte) << 56;
        } else {
            value |= u64::from(byte & 0x7f) << (7 * length);
        }
        if length == 8 || byte & 0x80 == 0 {
            return Some(((value >> 1).cast_signed() ^ -(value & 1).cast_signed(), length + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_engine::encode;
    use proptest::prelude::*;

    fn histogram(values: &[u64]) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
        for value in values {
            histogram.record(*value).unwrap();
        }
        histogram
    }

    #[test]
    fn rejects_invalid_histograms() {
        assert!(Latencies::decode("no base64!").is_err());
        assert!(Latencies::decode("").is_err());
        let mut bytes = STANDARD.decode(encode(&histogram(&[5, 7_000]))).unwrap();
        // Half a number at its end.
        *bytes.last_mut().unwrap() |= 0x80;
        assert!(Latencies::decode(&STANDARD.encode(&bytes)).is_err());
        bytes[0] = 0;
        assert!(Latencies::decode(&STANDARD.encode(&bytes)).is_err());
        // Four gigabytes of counts, of which there are two bytes.
        let mut bytes = STANDARD.decode(encode(&histogram(&[5]))).unwrap();
        bytes[4..8].fill(0xff);
        assert!(Latencies::decode(&STANDARD.encode(&bytes)).unwrap_err().contains("bytes of counts"));
    }

    #[test]
    fn bounds_of_another_program_are_read_too() {
        let mut other = Histogram::<u64>::new_with_bounds(1_000, 1_000_000_000, 2).unwrap();
        other.record_n(123_456, 3).unwrap();
        assert_eq!(Latencies::decode(&encode(&other)).unwrap(), Latencies::of(&other));
        assert_eq!(Latencies::of(&other).len(), 3);
    }

    #[test]
    fn none_has_no_latency() {
        assert_eq!(Latencies::default().quantile(0.5), 0);
    }

    proptest! {
        #[test]
        fn matches_hdrhistogram_results(
            one in prop::collection::vec(1_u64..1 << 41, 0..300),
            other in prop::collection::vec(1_u64..20_000, 0..300),
            share in 0.000_1_f64..=1.0,
        ) {
            let (a, b) = (histogram(&one), histogram(&other));
            let mut sum = a.clone();
            sum.add(&b).unwrap();
            let mut added = Latencies::decode(&encode(&a)).unwrap();
            added.add(&Latencies::decode(&encode(&b)).unwrap());
            prop_assert_eq!(&added, &Latencies::of(&sum));
            prop_assert_eq!(added.len(), sum.len());
            for share in [share, 0.5, 0.99, 0.999, 1.0] {
                prop_assert_eq!(added.quantile(share), sum.value_at_quantile(share), "{}", share);
            }
        }
    }
}
