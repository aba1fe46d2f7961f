//! Layout of btrfs data and metadata over several devices: `raid10`, or `raid0/raid1` for data and metadata.

use crate::rows::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// Profiles of data and of metadata. In files and flags one word for both, or two with a slash between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Profile {
    /// Data profile.
    pub data: Spread,
    /// Metadata profile.
    pub metadata: Spread,
}

words! {
    /// One profile.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Spread {
        /// One copy.
        "single" Single,
        /// Two copies, possibly on one device.
        "dup" Dup,
        /// Striped.
        "raid0" Raid0,
        /// Two copies on two devices.
        "raid1" Raid1,
        /// Three copies on three devices.
        "raid1c3" Raid1c3,
        /// Four copies on four devices.
        "raid1c4" Raid1c4,
        /// Striped copies.
        "raid10" Raid10,
        /// Striped with one parity.
        "raid5" Raid5,
        /// Striped with two parities.
        "raid6" Raid6,
    }
}

impl Spread {
    /// The minimum number of devices for it to make a difference.
    const fn least_members(self) -> u16 {
        match self {
            Self::Single | Self::Dup => 1,
            Self::Raid0 | Self::Raid1 | Self::Raid5 => 2,
            Self::Raid1c3 | Self::Raid6 => 3,
            Self::Raid1c4 | Self::Raid10 => 4,
        }
    }
}

impl Profile {
    /// The fewest devices that it takes.
    pub fn least_members(self) -> u16 {
        self.data.least_members().max(self.metadata.least_members())
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.data.name())?;
        if self.data == self.metadata { Ok(()) } else { write!(f, "/{}", self.metadata.name()) }
    }
}

impl FromStr for Profile {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let spread = |word: &str| {
            Spread::named(word)
                .ok_or_else(|| format!("there is no profile `{word}`; use one of {}", Spread::names()))
        };
        let (data, metadata) = text.split_once('/').unwrap_or((text, text));
        Ok(Self { data: spread(data)?, metadata: spread(metadata)? })
    }
}

strings_in_files!(Profile);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filesystem::Filesystem;

    #[test]
    fn one_word_or_two_read_back() {
        for text in ["raid10", "raid0/raid1", "single/dup"] {
            assert_eq!(text.parse::<Profile>().unwrap().to_string(), text);
        }
        let profile: Profile = "raid0/raid1c3".parse().unwrap();
        let several = Filesystem::named("btrfs").unwrap().several.unwrap();
        assert_eq!(several.mkfs_words(profile), ["-d", "raid0", "-m", "raid1c3"]);
        assert!(several.sets_profile("--data=raid1") && !several.sets_profile("-n"));
        assert_eq!(profile.least_members(), 3);
        assert_eq!("raid1/raid1".parse::<Profile>().unwrap().to_string(), "raid1");
        for wrong in ["", "raid", "raid0/", "raid0/raid1/dup"] {
            assert!(wrong.parse::<Profile>().unwrap_err().contains("use one of single"), "{wrong}");
        }
    }
}
