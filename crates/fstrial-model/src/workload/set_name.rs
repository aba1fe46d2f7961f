//! The name of a set of files, which is part of the names of its files.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// The name of a set of files: 1 to 40 letters, digits, `-` and `_`, so that no name leads out of the directory of a load.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct SetName(String);

impl SetName {
    /// The name of files that were given none.
    pub fn load() -> Self {
        Self("load".into())
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for SetName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if (1..=40).contains(&name.len()) && name.chars().all(plain) {
            return Ok(Self(name));
        }
        Err(format!("`{}` is not valid as a name of files", name.escape_debug()))
    }
}

impl FromStr for SetName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        name.to_owned().try_into()
    }
}

impl fmt::Display for SetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_a_directory() {
        for bad in ["", ".", "..", "../../x", "/etc/x", "a/b", "a.b", "a\0", "ä", &"x".repeat(41)] {
            assert!(bad.parse::<SetName>().is_err(), "{bad}");
            assert!(serde_json::from_value::<SetName>(bad.into()).is_err(), "{bad}");
        }
        for good in ["load", "a-b_9", &"x".repeat(40)] {
            assert_eq!(serde_json::to_value(good.parse::<SetName>().unwrap()).unwrap(), good);
        }
    }
}
