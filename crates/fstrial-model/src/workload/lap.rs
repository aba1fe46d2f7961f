//! A warm-up of a lap: until every arm's journal or log has been full once.

use crate::units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// A warm-up until the journal or log of every arm has been gone through once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum Lap {
    /// To be found by a pilot before the first round: one time for all arms, the slowest one's.
    Pilot,
    /// What a pilot has found.
    Found(Nanos),
}

impl FromStr for Lap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "pilot" => Ok(Self::Pilot),
            time => {
                let found = time.parse::<Nanos>().map(Self::Found);
                found.map_err(|error| format!("{error}; write pilot, or a time such as 6s"))
            }
        }
    }
}

impl fmt::Display for Lap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pilot => f.write_str("pilot"),
            Self::Found(time) => time.fmt(f),
        }
    }
}

strings_in_files!(Lap);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_as_it_is_printed() {
        for lap in [Lap::Pilot, Lap::Found(Nanos::secs(6)), Lap::Found(Nanos::millis(1250))] {
            assert_eq!(lap.to_string().parse(), Ok(lap));
        }
        assert!("once".parse::<Lap>().unwrap_err().contains("write pilot"));
    }
}
