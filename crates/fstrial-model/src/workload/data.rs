//! The content of a load's files, and its form in user input.

use super::entry_error::{EntryError, entry_error};
use crate::units::Percent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Content of the files. It also depends on the device: a compressing ramdisk is only fast with [`Data::RepeatedWord`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Data {
    /// Bytes from a generator: cannot be compressed or deduplicated.
    Random,
    /// Only zero bytes; compresses to almost nothing.
    Zero,
    /// One 8-byte word over and over.
    RepeatedWord,
    /// Random bytes of which a given share compresses away, and blocks of which a given share is there already.
    Mixed {
        /// Share of every 4 KiB (of every request if that is smaller) that is one repeated word; the rest, at least
        /// 8 bytes, is random.
        compressible: Percent,
        /// Share of requests (while laying out: of stretches of that size, at most 1 MiB) that repeat one of a few
        /// blocks.
        duplicate: Percent,
    },
}

/// The sorts of [`Data`], as a user writes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DataKind {
    /// Cannot be compressed or deduplicated.
    Random,
    /// Only zero bytes; compresses to almost nothing.
    Zero,
    /// One 8-byte word over and over.
    RepeatedWord,
    /// As compressible and with as many duplicates as `compressible` and `duplicates` set.
    Mixed,
}

impl Data {
    /// Settles the three keys of an entry.
    pub(crate) fn of_entry(
        kind: Option<DataKind>,
        compressible: Option<Percent>,
        duplicates: Option<Percent>,
    ) -> Result<Option<Self>, EntryError> {
        for (key, share) in [("compressible", compressible), ("duplicates", duplicates)] {
            if share.is_some() && kind != Some(DataKind::Mixed) {
                return Err(entry_error(
                    key,
                    format!("`{key}` is only for mixed data"),
                    format!("add data = \"mixed\", or leave {key} out"),
                ));
            }
        }
        let data = match kind {
            None => return Ok(None),
            Some(DataKind::Random) => Self::Random,
            Some(DataKind::Zero) => Self::Zero,
            Some(DataKind::RepeatedWord) => Self::RepeatedWord,
            Some(DataKind::Mixed) if compressible.is_none() && duplicates.is_none() => {
                return Err(entry_error(
                    "data",
                    "mixed data need a compressibility or a share of duplicate blocks",
                    "add compressible = \"50%\" or duplicates = \"20%\", or both",
                ));
            }
            Some(DataKind::Mixed) => Self::Mixed {
                compressible: compressible.unwrap_or_default(),
                duplicate: duplicates.unwrap_or_default(),
            },
        };
        Ok(Some(data))
    }
}
