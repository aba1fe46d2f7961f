//! Sizes, durations and percentages as people write them (`4GiB`, `10m`, `3%`), and back.
//!
//! One place for every unit in trial files and flags. A value that was read prints in a form that reads back to the
//! same value; a wrong unit is an error that names the units there are.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{borrow::Cow, fmt, str::FromStr};

/// A text that is not a quantity of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {wanted}: {problem}")]
pub struct UnitError {
    /// The input (at most 40 characters of it).
    pub text: String,
    /// The expected form, with an example.
    pub wanted: &'static str,
    /// The reason, such as `the percent sign is missing`.
    pub problem: String,
}

pub(crate) fn unit_error(text: &str, wanted: &'static str, problem: impl Into<String>) -> UnitError {
    UnitError { text: text.chars().take(40).collect(), wanted, problem: problem.into() }
}

/// Splits `12.5GiB` into its number and its unit.
pub(crate) fn split_number<'a>(text: &'a str, wanted: &'static str) -> Result<(f64, &'a str), UnitError> {
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    let value: f64 =
        number.parse().map_err(|_| unit_error(text, wanted, "it does not begin with a number"))?;
    Ok((value, unit.trim()))
}

/// A number of bytes. Written with binary units: `512`, `4KiB`, `1.5GiB`; `K`, `M`, `G`, `T` are short for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

const BYTES_WANTED: &str = "a size such as \"4GiB\"";
const BINARY_UNITS: [(&str, u64); 4] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

impl Bytes {
    /// `n` KiB.
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }
    /// `n` MiB.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }
    /// `n` GiB.
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }

    /// For display, with at most one decimal: `12.5 GiB`. (`Display` is exact and parses back.)
    #[expect(clippy::cast_precision_loss, reason = "for display")]
    pub fn human(self) -> String {
        let units = ["B", "KiB", "MiB", "GiB", "TiB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 1024.0 && unit < units.len() - 1 {
            value /= 1024.0;
            unit += 1;
        }
        let text = format!("{value:.1}");
        format!("{} {}", text.strip_suffix(".0").unwrap_or(&text), units[unit])
    }
}

impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = split_number(text, BYTES_WANTED)?;
        let scale = match unit {
            "" | "B" => 1,
            "K" | "k" | "KiB" => 1 << 10,
            "M" | "MiB" => 1 << 20,
            "G" | "GiB" => 1 << 30,
            "T" | "TiB" => 1_u64 << 40,
            "KB" | "kB" | "MB" | "GB" | "TB" => {
                let binary = format!("{}iB", unit[..1].to_uppercase());
                return Err(unit_error(
                    text,
                    BYTES_WANTED,
                    format!("write {binary} (1024-based) instead of {unit}"),
                ));
            }
            other => {
                return Err(unit_error(
                    text,
                    BYTES_WANTED,
                    format!("unknown unit `{other}`; use one of B, KiB, MiB, GiB, TiB"),
                ));
            }
        };
        #[expect(clippy::cast_precision_loss, reason = "scales are powers of two up to 2^40: exact")]
        let bytes = number * scale as f64;
        if !(0.0..=9.0e18).contains(&bytes) {
            return Err(unit_error(text, BYTES_WANTED, "it is out of range"));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "range checked just above"
        )]
        let whole = bytes.round() as u64;
        Ok(Self(whole))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, scale) in BINARY_UNITS {
            if self.0 >= scale && self.0.is_multiple_of(scale) {
                return write!(f, "{}{unit}", self.0 / scale);
            }
        }
        write!(f, "{}B", self.0)
    }
}

/// A length of time, in nanoseconds. Written `250ms`, `10s`, `5m`, `1h30m`, `2d`; a bare number is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(pub u64);

const NANOS_WANTED: &str = "a length of time such as \"10m\" or \"1.5s\"";
const TIME_UNITS: [(&str, u64); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

impl Nanos {
    /// `n` milliseconds.
    pub const fn millis(n: u64) -> Self {
        Self(n * 1_000_000)
    }
    /// `n` seconds.
    pub const fn secs(n: u64) -> Self {
        Self(n * 1_000_000_000)
    }
    /// As a fraction of seconds.
    #[expect(clippy::cast_precision_loss, reason = "for display and rates; 2^53 ns are 104 days")]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// As the standard library's type.
    pub const fn duration(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0)
    }
}

impl From<std::time::Duration> for Nanos {
    fn from(duration: std::time::Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl FromStr for Nanos {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let mut rest = text.trim();
        let mut total = 0_u64;
        if rest.is_empty() {
            return Err(unit_error(text, NANOS_WANTED, "it is empty"));
        }
        while !rest.is_empty() {
            let (number, tail) =
                split_number(rest, NANOS_WANTED).map_err(|e| UnitError { text: text.into(), ..e })?;
            let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
            let unit = tail[..end].trim();
            if unit.is_empty() {
                return Err(unit_error(text, NANOS_WANTED, "a unit is missing; use one of ms, s, m, h, d"));
            }
            let scale = TIME_UNITS
                .iter()
                .find(|(name, _)| {
                    *name == unit || (unit == "min" && *name == "m") || (unit == "µs" && *name == "us")
                })
                .ok_or_else(|| {
                    unit_error(
                        text,
                        NANOS_WANTED,
                        format!("unknown unit `{unit}`; use one of us, ms, s, m, h, d"),
                    )
                })?
                .1;
            #[expect(clippy::cast_precision_loss, reason = "scales are below 2^53")]
            let part = number * scale as f64;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "range checked")]
            let whole = (0.0..=9.0e18).contains(&part).then_some(part.round() as u64);
            // Added as whole numbers: the sum of a long time and a short one has more digits than a float.
            total = whole
                .and_then(|whole| total.checked_add(whole))
                .filter(|total| *total <= 9_000_000_000_000_000_000)
                .ok_or_else(|| unit_error(text, NANOS_WANTED, "it is out of range"))?;
            rest = tail[end..].trim();
        }
        Ok(Self(total))
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return write!(f, "0s");
        }
        let mut rest = self.0;
        for (unit, scale) in TIME_UNITS {
            if rest >= scale {
                write!(f, "{}{unit}", rest / scale)?;
                rest %= scale;
            }
        }
        Ok(())
    }
}

/// A percentage, 0 to 100, written `3%`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Percent(pub f64);

const PERCENT_WANTED: &str = "a percentage such as \"3%\"";

impl Percent {
    /// True for zero.
    pub fn is_zero(&self) -> bool {
        self.0 == 0.0
    }

    /// As a fraction: 3 % is 0.03.
    pub fn fraction(self) -> f64 {
        self.0 / 100.0
    }
}

impl FromStr for Percent {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = split_number(text, PERCENT_WANTED)?;
        if unit != "%" {
            return Err(unit_error(text, PERCENT_WANTED, "the percent sign is missing"));
        }
        if !(0.0..=100.0).contains(&number) {
            return Err(unit_error(text, PERCENT_WANTED, "it must be between 0% and 100%"));
        }
        Ok(Self(number))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

/// Bytes in a second. Written as a size with `/s`: `125MiB/s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bandwidth(pub Bytes);

const BANDWIDTH_WANTED: &str = "a bandwidth such as \"125MiB/s\"";

impl FromStr for Bandwidth {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let size = text.trim().strip_suffix("/s");
        let size = size.ok_or_else(|| unit_error(text, BANDWIDTH_WANTED, "it does not end in /s"))?;
        let bytes: Bytes =
            size.parse().map_err(|e: UnitError| unit_error(text, BANDWIDTH_WANTED, e.problem))?;
        // Less than a page in a second is a slip of the pen, and would divide by nearly nothing.
        if bytes < Bytes::kib(4) {
            return Err(unit_error(text, BANDWIDTH_WANTED, "it must be at least 4KiB/s"));
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.0)
    }
}

/// Serialises a unit as its text, so that an invalid one is underlined in place.
macro_rules! serde_as_text {
    ($type:ident, $pattern:literal, $description:literal) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(de::Error::custom)
            }
        }
        impl schemars::JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "pattern": $pattern, "description": $description })
            }
        }
    };
}
pub(crate) use serde_as_text;

serde_as_text!(Bytes, "^[0-9.]+ *(B|[KMGT](iB)?)?$", "a size: 512, 4KiB, 1.5GiB");
serde_as_text!(Nanos, "^([0-9.]+ *(ns|us|ms|s|m|min|h|d) *)+$", "a length of time: 250ms, 10s, 1h30m");
serde_as_text!(Percent, "^[0-9.]+ *%$", "a percentage: 3%");
serde_as_text!(Bandwidth, "^[0-9.]+ *([KMGT](iB)?|B)?/s$", "bytes in a second: 125MiB/s");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_read_as_people_write_them() {
        for (text, bytes) in [("4GiB", 4 << 30), ("1.5K", 1536), ("512", 512), ("16 KiB", 16384), ("0", 0)] {
            assert_eq!(text.parse::<Bytes>().unwrap(), Bytes(bytes), "{text}");
        }
        assert!("4GB".parse::<Bytes>().unwrap_err().to_string().contains("write GiB"));
        assert!("4 parsecs".parse::<Bytes>().unwrap_err().to_string().contains("unknown unit"));
        assert!("99999999TiB".parse::<Bytes>().is_err());
        assert!("-1".parse::<Bytes>().is_err());
    }

    #[test]
    fn sizes_for_people_are_short() {
        assert_eq!(
            [Bytes(3 << 29), Bytes::mib(512), Bytes(0)].map(Bytes::human),
            ["1.5 GiB", "512 MiB", "0 B"]
        );
    }

    #[test]
    fn durations_read_as_people_write_them() {
        for (text, ns) in [
            ("250ms", 250_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1.5s", 1_500_000_000),
            ("2min", 120_000_000_000),
        ] {
            assert_eq!(text.parse::<Nanos>().unwrap(), Nanos(ns), "{text}");
        }
        assert!("10".parse::<Nanos>().unwrap_err().to_string().contains("unit is missing"));
        assert!("10 weeks".parse::<Nanos>().is_err());
        // More digits than a float has.
        let long = "65536d49ms999us872ns".parse::<Nanos>().unwrap();
        assert_eq!(long.to_string().parse::<Nanos>().unwrap(), long);
        assert!("104249d 104249d".parse::<Nanos>().is_err());
        assert!("".parse::<Nanos>().is_err());
    }

    #[test]
    fn percentages_need_their_sign_and_range() {
        assert_eq!("3%".parse::<Percent>().unwrap(), Percent(3.0));
        assert!("3".parse::<Percent>().is_err());
        assert!("300%".parse::<Percent>().is_err());
    }

    #[test]
    fn bandwidths_are_sizes_in_a_second() {
        assert_eq!("125MiB/s".parse::<Bandwidth>().unwrap(), Bandwidth(Bytes::mib(125)));
        assert_eq!(Bandwidth(Bytes::mib(125)).to_string(), "125MiB/s");
        for text in ["125MiB", "1KiB/s", "fast/s", "125MB/s", ""] {
            assert!(text.parse::<Bandwidth>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn displayed_value_parses_back(bytes in 0_u64..(1 << 52), ns in 0_u64..(1 << 50)) {
            prop_assert_eq!(Bytes(bytes).to_string().parse::<Bytes>().unwrap(), Bytes(bytes));
            prop_assert_eq!(Nanos(ns).to_string().parse::<Nanos>().unwrap(), Nanos(ns));
        }
        #[test]
        fn any_text_is_a_value_or_an_error(text in ".{0,60}") {
            let _ = (text.parse::<Bytes>(), text.parse::<Nanos>(), text.parse::<Percent>());
        }
    }
}
