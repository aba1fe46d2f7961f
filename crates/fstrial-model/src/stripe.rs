//! How data is spread over the members of an array.

use crate::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// The stripe of an array, as filesystems are told about it so that they align to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stripe {
    /// What lies on one member before the next one's turn.
    pub chunk: Bytes,
    /// Members that hold data, without parity and copies.
    pub data_members: u16,
}

impl fmt::Display for Stripe {
    /// `64KiB×4`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}×{}", self.chunk, self.data_members)
    }
}

impl FromStr for Stripe {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let shape = || {
            format!("`{text}` is not a stripe; write the chunk and the members with data, such as 64KiB×4")
        };
        let (chunk, members) = text.split_once(['×', 'x']).ok_or_else(shape)?;
        let chunk = chunk.parse().map_err(|e: crate::units::UnitError| e.to_string())?;
        let stripe = Self { chunk, data_members: members.parse().map_err(|_| shape())? };
        match stripe.problem() {
            Some((problem, hint)) => Err(format!("{problem}; {hint}")),
            None => Ok(stripe),
        }
    }
}

impl Stripe {
    /// What is wrong with it, if anything is, and what to try.
    pub fn problem(&self) -> Option<(String, String)> {
        chunk_problem(self.chunk).or_else(|| {
            (!(1..=256).contains(&self.data_members)).then(|| {
                (format!("data_members = {} is out of range", self.data_members), "use 1 to 256".into())
            })
        })
    }
}

/// Whether something can be the chunk of an array, real or modelled.
pub(crate) fn is_chunk(chunk: Bytes) -> bool {
    chunk.0.is_power_of_two() && (Bytes::kib(4)..=Bytes::mib(64)).contains(&chunk)
}

/// What is wrong with a chunk: the kernel and every mkfs take a power of two of at least 4 KiB.
pub(crate) fn chunk_problem(chunk: Bytes) -> Option<(String, String)> {
    (!is_chunk(chunk))
        .then(|| (format!("a chunk cannot be {chunk}"), "use a power of two from 4KiB to 64MiB".into()))
}
