//! Encoding of single values in the file, and their validation.
//!
//! SQLite's integers are signed; lists and structures are compact JSON; histograms are the raw bytes of HdrHistogram's
//! V2 encoding, checked before they are stored and before they are read.

use crate::error::Fault;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hdrhistogram::{Histogram, serialization::Deserializer};
use rusqlite::Row;
use serde::{Serialize, de::DeserializeOwned};

/// An unsigned number in SQLite's form. `what` names it in the error.
pub(crate) fn integer(what: &str, value: u64) -> Result<i64, Fault> {
    i64::try_from(value).map_err(|_| Fault::Unstorable(format!("{what} is {value}, more than 2^63 - 1")))
}

/// A column of a row as an unsigned number.
pub(crate) fn unsigned<T: TryFrom<i64>>(row: &Row<'_>, column: &str) -> Result<T, Fault> {
    let value: i64 = row.get(column)?;
    T::try_from(value).map_err(|_| Fault::damaged(format!("`{column}` is {value}")))
}

/// A structure as JSON. `what` names it in the error.
pub(crate) fn to_json(what: &str, value: &(impl Serialize + ?Sized)) -> Result<String, Fault> {
    serde_json::to_string(value).map_err(|error| Fault::Unstorable(format!("{what}: {error}")))
}

/// JSON as a structure. `what` names it in the error.
pub(crate) fn from_json<T: DeserializeOwned>(what: &str, json: &str) -> Result<T, Fault> {
    serde_json::from_str(json).map_err(|error| Fault::Damaged {
        what: format!("{what} cannot be parsed"),
        source: Some(error.into()),
    })
}

/// The value of an enum that writes its name as JSON does, from that name.
pub(crate) fn from_name<T: DeserializeOwned>(what: &str, name: &str) -> Result<T, Fault> {
    serde_json::from_value(name.into()).map_err(|error| Fault::Damaged {
        what: format!("there is no {what} `{}`", name.chars().take(40).collect::<String>()),
        source: Some(error.into()),
    })
}

/// True if `time` looks like `2026-01-31T23:59:59Z`, with any number of decimals.
pub(crate) fn is_utc(time: &str) -> bool {
    const SHAPE: &[u8; 19] = b"dddd-dd-ddTdd:dd:dd";
    let shaped = time.len() > SHAPE.len()
        && SHAPE.iter().zip(time.bytes()).all(|(&shape, byte)| match shape {
            b'd' => byte.is_ascii_digit(),
            other => other == byte,
        });
    shaped
        && time[SHAPE.len()..].strip_suffix('Z').is_some_and(|rest| {
            rest.is_empty()
                || rest
                    .strip_prefix('.')
                    .is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))
        })
}

/// Panics unless it [`is_utc`]: a bug of the caller's.
pub(crate) fn assert_utc(time: &str) {
    assert!(is_utc(time), "`{time}` is not a time in UTC as RFC 3339 writes it");
}

/// The raw bytes of a histogram that the model carries as base64, and its summary.
pub(crate) fn histogram_bytes(kind: &str, base64: &str) -> Result<(Vec<u8>, Quantiles), Fault> {
    let unstorable = |why: String| Fault::Unstorable(format!("the histogram of `{kind}` {why}"));
    let bytes = STANDARD.decode(base64).map_err(|error| unstorable(format!("is not base64: {error}")))?;
    let quantiles = quantiles(&bytes).map_err(unstorable)?;
    Ok((bytes, quantiles))
}

/// The base64 that the model carries, from raw bytes.
pub(crate) fn histogram_text(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// A histogram from its base64. The error states the defect, to be read after "the histogram …".
pub(crate) fn histogram(base64: &str) -> Result<Histogram<u64>, String> {
    let bytes = STANDARD.decode(base64).map_err(|error| format!("is not base64: {error}"))?;
    decode_histogram(&bytes)
}

/// Summary of a histogram in SQLite's form: latencies in ns, none without an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quantiles {
    pub(crate) operations: i64,
    pub(crate) p50: Option<i64>,
    pub(crate) p90: Option<i64>,
    pub(crate) p99: Option<i64>,
    pub(crate) p999: Option<i64>,
    pub(crate) p9999: Option<i64>,
    pub(crate) max: Option<i64>,
}

/// The quantiles of a histogram in its raw bytes. The error is to be read after "the histogram …".
pub(crate) fn quantiles(bytes: &[u8]) -> Result<Quantiles, String> {
    let histogram = decode_histogram(bytes)?;
    let number = |value: u64| i64::try_from(value).map_err(|_| "has numbers that cannot be real".to_owned());
    let at = |quantile: f64| match histogram.is_empty() {
        true => Ok(None),
        false => number(histogram.value_at_quantile(quantile)).map(Some),
    };
    Ok(Quantiles {
        operations: number(histogram.len())?,
        p50: at(0.5)?,
        p90: at(0.9)?,
        p99: at(0.99)?,
        p999: at(0.999)?,
        p9999: at(0.9999)?,
        max: at(1.0)?,
    })
}

/// Bytes before the counts: cookie, length of the counts, normalising offset, digits, lowest, highest, ratio.
const HEADER_BYTES: usize = 40;
const V2_COOKIE: u32 = 0x1c84_9313;

/// Decodes the V2 encoding. The crate's own reader trusts the length and the counts (it allocates the header's size,
/// and counts of 2^63 overflow), so both are checked first.
fn decode_histogram(bytes: &[u8]) -> Result<Histogram<u64>, String> {
    let (header, counts) =
        bytes.split_at_checked(HEADER_BYTES).ok_or("is shorter than the header of a histogram")?;
    let word = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().expect("four bytes"));
    if word(0) != V2_COOKIE {
        return Err("is not in HdrHistogram's V2 encoding without deflate".into());
    }
    if usize::try_from(word(4)) != Ok(counts.len()) {
        return Err(format!("declares {} bytes of counts, and has {}", word(4), counts.len()));
    }
    if word(12) != 3 {
        return Err(format!("has {} significant digits instead of 3", word(12)));
    }
    check_counts(counts)?;
    let histogram = Deserializer::new()
        .deserialize(&mut &bytes[..])
        .map_err(|error| format!("does not decode: {error}"))?;
    Ok(histogram)
}

/// Walks the zig-zag LEB128 numbers: a positive one is a count, a negative one a run of zeros.
fn check_counts(mut bytes: &[u8]) -> Result<(), String> {
    let (mut total, mut cells) = (0_u64, 0_u64);
    while !bytes.is_empty() {
        let (mut number, mut length) = (0_u64, 0_usize);
        loop {
            let byte = *bytes.get(length).ok_or("ends inside a count")?;
            length += 1;
            if length == 9 {
                // The ninth byte has all eight bits.
                number |= u64::from(byte) << 56;
                break;
            }
            number |= u64::from(byte & 0x7f) << (7 * (length - 1));
            if byte & 0x80 == 0 {
                break;
            }
        }
        let (count, zeros) = if number & 1 == 0 { (number >> 1, 0) } else { (0, (number >> 1) + 1) };
        total = total.saturating_add(count);
        cells = cells.saturating_add(zeros.max(1));
        if total > u64::MAX / 4 || cells > u64::from(u32::MAX) {
            return Err("has counts that cannot be real".into());
        }
        bytes = &bytes[length..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::{Serializer, V2Serializer};
    use proptest::prelude::*;

    fn encode(values: &[u64]) -> Vec<u8> {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        for &value in values {
            histogram.record(value).unwrap();
        }
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&histogram, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn times_are_utc_or_a_bug() {
        for good in ["2026-01-31T23:59:59Z", "2026-01-31T23:59:59.123456789Z"] {
            assert_utc(good);
        }
        for bad in [
            "",
            "2026-01-31 23:59:59Z",
            "2026-01-31T23:59:59",
            "2026-01-31T23:59:59.Z",
            "2026-01-31T23:59:59+01:00",
            "2026-01-31T23:59:5ö",
        ] {
            assert!(std::panic::catch_unwind(|| assert_utc(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn corrupt_histograms_are_rejected() {
        let good = encode(&[1_000, 2_000, 3_000_000]);
        assert_eq!(decode_histogram(&good).unwrap().len(), 3);
        assert_eq!(decode_histogram(&encode(&[])).unwrap().len(), 0);
        let change = |at: usize, to: &[u8]| {
            let mut bytes = good.clone();
            bytes[at..at + to.len()].copy_from_slice(to);
            decode_histogram(&bytes).unwrap_err()
        };
        assert!(change(0, &[0]).contains("V2"));
        assert!(change(3, &[0x14]).contains("V2"), "deflated");
        assert!(change(4, &[0xff; 4]).contains("bytes of counts"));
        assert!(change(12, &[0, 0, 0, 5]).contains("significant digits"));
        let with_counts = |counts: &[u8]| {
            let mut bytes = good[..HEADER_BYTES].to_vec();
            bytes[4..8].copy_from_slice(&u32::try_from(counts.len()).unwrap().to_be_bytes());
            bytes.extend(counts);
            decode_histogram(&bytes).unwrap_err()
        };
        // i64::MIN zeros, which the reader would negate; a count of 2^62 twice; half a number.
        assert!(with_counts(&[0xff; 9]).contains("cannot be real"));
        assert!(with_counts(&[0xfe; 9].repeat(4)).contains("cannot be real"));
        assert!(with_counts(&[0x80]).contains("inside"));
    }

    proptest! {
        #[test]
        fn counts_survive(values in prop::collection::vec(0_u64..1 << 40, 0..200)) {
            let bytes = encode(&values);
            let base64 = histogram_text(&bytes);
            let (stored, quantiles) = histogram_bytes("read", &base64).unwrap();
            prop_assert_eq!(&stored, &bytes);
            prop_assert_eq!(quantiles.operations, i64::try_from(values.len()).unwrap());
            // To three digits the largest and the middle one agree with sorting.
            let mut sorted = values.clone();
            sorted.sort_unstable();
            for (reported, exact) in [
                (quantiles.max, sorted.last()),
                (quantiles.p50, sorted.get(values.len().saturating_sub(1) / 2)),
            ] {
                let near = |reported: i64, exact: u64| reported.abs_diff(exact.cast_signed()) <= exact / 1000 + 1;
                prop_assert!(reported.zip(exact).is_none_or(|(reported, &exact)| near(reported, exact)), "{reported:?} {exact:?}");
                prop_assert_eq!(reported.is_none(), exact.is_none());
            }
            prop_assert_eq!(histogram(&base64).unwrap().len(), values.len() as u64);
        }

        #[test]
        fn any_bytes_are_a_histogram_or_an_error(
            values in prop::collection::vec(0_u64..1 << 40, 0..20),
            changes in prop::collection::vec((0_usize..200, any::<u8>()), 0..8),
            tail in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut bytes = encode(&values);
            bytes.extend(tail);
            let length = u32::try_from(bytes.len() - HEADER_BYTES).unwrap();
            bytes[4..8].copy_from_slice(&length.to_be_bytes());
            for (at, to) in changes {
                let at = at % bytes.len();
                bytes[at] = to;
            }
            if let Ok(histogram) = decode_histogram(&bytes) {
                let _ = (histogram.value_at_quantile(0.999), histogram.max(), histogram.mean());
            }
        }
    }
}
