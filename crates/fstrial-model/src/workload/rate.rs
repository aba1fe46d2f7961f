//! The offered rate of an open loop: requests are due at times that do not depend on when earlier ones complete.

use crate::units::{UnitError, serde_as_text, split_number, unit_error};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{borrow::Cow, fmt, str::FromStr};

/// The operations that all threads together are offered, written `5000/s` or `5000/s poisson`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Operations in a second, 0.001 to 1e9.
    pub per_second: f64,
    /// When they are due.
    pub arrivals: Arrivals,
}

/// When the operations of a [`Rate`] are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Arrivals {
    /// At equal distances.
    #[default]
    Constant,
    /// Each independent of the others, as from many users: exponential distances.
    Poisson,
}

const WANTED: &str = "a rate such as \"5000/s\" or \"5000/s poisson\"";
/// Rates that make sense, per second.
const RANGE: std::ops::RangeInclusive<f64> = 0.001..=1e9;

impl Rate {
    /// The problem with its number, if any: it may not come from parsed text.
    pub fn problem(&self) -> Option<&'static str> {
        (!RANGE.contains(&self.per_second)).then_some("it must be between 0.001 and 1000000000 in a second")
    }
}

impl FromStr for Rate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (per_second, rest) = split_number(text, WANTED)?;
        let mut words = rest.split_whitespace();
        if words.next() != Some("/s") {
            return Err(unit_error(text, WANTED, "`/s` is missing after the number"));
        }
        let arrivals = match (words.next(), words.next()) {
            (None | Some("constant"), None) => Arrivals::Constant,
            (Some("poisson"), None) => Arrivals::Poisson,
            _ => return Err(unit_error(text, WANTED, "arrivals are `constant` or `poisson`")),
        };
        let rate = Self { per_second, arrivals };
        match rate.problem() {
            Some(problem) => Err(unit_error(text, WANTED, problem)),
            None => Ok(rate),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.arrivals {
            Arrivals::Constant => write!(f, "{}/s", self.per_second),
            Arrivals::Poisson => write!(f, "{}/s poisson", self.per_second),
        }
    }
}

serde_as_text!(
    Rate,
    "^ *[0-9.]+ */s( +(constant|poisson))? *$",
    "operations offered in a second by all threads together: 5000/s, 5000/s poisson"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_read_as_people_write_them() {
        for (text, per_second, arrivals) in [
            ("5000/s", 5000.0, Arrivals::Constant),
            (" 0.5 /s constant", 0.5, Arrivals::Constant),
            ("1200.5/s  poisson ", 1200.5, Arrivals::Poisson),
        ] {
            let rate: Rate = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(rate, Rate { per_second, arrivals });
            assert_eq!(rate.to_string().parse::<Rate>().unwrap(), rate);
        }
    }

    #[test]
    fn invalid_rate_error_names_cause() {
        for (text, words) in [
            ("5000", "`/s` is missing"),
            ("5000 poisson", "`/s` is missing"),
            ("5000/m", "`/s` is missing"),
            ("5000/s uniform", "`constant` or `poisson`"),
            ("5000/s poisson x", "`constant` or `poisson`"),
            ("0/s", "between 0.001"),
            ("2000000000/s", "between 0.001"),
            ("fast", "does not begin with a number"),
        ] {
            let error = text.parse::<Rate>().unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
