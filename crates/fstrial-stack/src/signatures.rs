//! Signatures on a block device: those recognised by libblkid, through `wipefs` in its read-only mode.

use crate::{command::Program, error::StackError};
use serde::Deserialize;
use std::path::Path;

#[derive(Deserialize)]
struct Listing {
    #[serde(default)]
    signatures: Vec<Signature>,
}

/// One signature.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Signature {
    /// Its kind: `ext4`, `gpt`, `LVM2_member` …
    #[serde(rename = "type")]
    pub kind: String,
    /// UUID of the filesystem, if it has one.
    pub uuid: Option<String>,
    /// Label of the filesystem, if it has one.
    pub label: Option<String>,
}

/// All signatures on a device.
///
/// # Errors
/// `wipefs` is missing or cannot read the device; a device that cannot be examined is not used.
pub fn of(device: &Path) -> Result<Vec<Signature>, StackError> {
    let listed =
        Program::new("wipefs").args(["--no-act", "--json"]).args([device.display().to_string()]).run()?;
    parse(&listed.stdout).map_err(|error| StackError::Unable {
        what: format!("`{}` printed something unexpected: {error}", listed.line),
        hint: "update util-linux".into(),
    })
}

/// Parses the output of `wipefs --json`; empty output means an empty device.
pub(crate) fn parse(printed: &str) -> serde_json::Result<Vec<Signature>> {
    if printed.trim().is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str::<Listing>(printed).map(|listing| listing.signatures)
}
