//! PostMark 1.5x: the mail-like benchmark of many small files, setting by setting.

use super::{
    Behaviour, Durability,
    behaviour::space_of_file,
    entry_error::{EntryError, entry_error},
};
use crate::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// PostMark with its original random numbers: the same settings give the same operations as the tool, one by one. Each
/// thread has a separate pool in a separate directory, which the tool cannot do; thread n has the seed plus n.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Postmark {
    /// `set size`: the smallest file.
    pub size_low: Bytes,
    /// `set size`: the largest file that appending leads to. New files have at most one byte less.
    pub size_high: Bytes,
    /// `set number`: files of the pool.
    pub number: u32,
    /// `set transactions`.
    pub transactions: u32,
    /// `set subdirectories`; 0 and 1 mean none.
    pub subdirectories: u32,
    /// `set read`: size of the read requests.
    pub read: Bytes,
    /// `set write`: size of the write requests.
    pub write: Bytes,
    /// `set buffering`: through the C library, that is in pieces of 4096 bytes.
    pub buffering: bool,
    /// `set bias read`: tenths of the transactions that read, the others append; -1 does neither.
    pub bias_read: i8,
    /// `set bias create`: tenths of the transactions that create, the others delete; -1 does neither.
    pub bias_create: i8,
    /// `set seed`.
    pub seed: u32,
    /// The timed part.
    pub part: PostmarkPart,
}

/// The parts that PostMark times. Its random numbers do not depend on the filesystem, so a later part restores its
/// state by drawing the numbers of those before it again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PostmarkPart {
    /// Creates the pool: one operation is one file.
    Create,
    /// The transactions: one operation is one of them, both halves.
    Transactions,
    /// Deletes the remaining files: one operation is one file.
    Delete,
    /// All three, one after the other.
    #[default]
    All,
}

impl Default for Postmark {
    /// The tool's defaults.
    fn default() -> Self {
        Self {
            size_low: Bytes(500),
            size_high: Bytes(10_000),
            number: 500,
            transactions: 500,
            subdirectories: 0,
            read: Bytes(512),
            write: Bytes(512),
            buffering: true,
            bias_read: 5,
            bias_create: 5,
            seed: 42,
            part: PostmarkPart::All,
        }
    }
}

impl Behaviour for Postmark {
    fn words(&self) -> &'static str {
        "PostMark"
    }

    fn ends(&self) -> bool {
        true
    }

    fn is_buffered_write(&self) -> bool {
        true
    }

    fn durability(&self) -> Durability {
        Durability::None
    }

    fn own_content(&self) -> Option<&'static str> {
        Some("the tool's text")
    }

    /// At most: every slot of the table is used by a file of full size.
    fn space_needed(&self, threads: u16) -> Bytes {
        Bytes(
            space_of_file(self.size_high)
                .saturating_mul(2 * u64::from(self.number))
                .saturating_mul(u64::from(threads)),
        )
    }

    fn check(&self) -> Result<(), EntryError> {
        if self.size_low.0 == 0 || self.size_low > self.size_high || self.size_high > Bytes::gib(1) {
            let problem = format!(
                "sizes from {} to {} are out of range or out of order",
                self.size_low, self.size_high
            );
            return Err(entry_error("size_low", problem, "use 1B to 1GiB, the smaller first"));
        }
        for (key, value) in [("number", self.number), ("transactions", self.transactions)] {
            if !(1..=10_000_000).contains(&value) {
                return Err(entry_error(
                    key,
                    format!("{key} = {value} is out of range"),
                    "use 1 to 10000000",
                ));
            }
        }
        if self.subdirectories > 1_000_000 {
            return Err(entry_error(
                "subdirectories",
                format!("subdirectories = {} is out of range", self.subdirectories),
                "use at most 1000000",
            ));
        }
        for (key, value) in [("read", self.read), ("write", self.write)] {
            let most = if self.buffering { Bytes::kib(4) } else { Bytes::mib(64) };
            if value.0 == 0 || value > most {
                let hint = format!("use 1B to {most}; above 4KiB only with buffering = false");
                return Err(entry_error(key, format!("{key} = {value} is out of range"), hint));
            }
        }
        for (key, value) in [("bias_read", self.bias_read), ("bias_create", self.bias_create)] {
            if !(-1..=10).contains(&value) {
                return Err(entry_error(
                    key,
                    format!("{key} = {value} is out of range"),
                    "use 0 to 10, or -1 to leave it out",
                ));
            }
        }
        if self.seed == 0 {
            return Err(entry_error("seed", "the tool takes no seed of 0", "use 42, as the tool does"));
        }
        Ok(())
    }
}
