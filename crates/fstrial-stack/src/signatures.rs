//! Signatures on a block device: what libblkid recognises, through `wipefs`, which writes nothing when asked not to.

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
    /// What it is of: `ext4`, `gpt`, `LVM2_member` …
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
/// `wipefs` is missing or cannot read the device; without it nothing can be said about a device, so it is not used.
pub fn of(device: &Path) -> Result<Vec<Signature>, StackError> {
    let listed =
        Program::new("wipefs").args(["--no-act", "--json"]).args([device.display().to_string()]).run()?;
    parse(&listed.stdout).map_err(|error| StackError::Unable {
        what: format!("`{}` printed something unexpected: {error}", listed.line),
        hint: "update util-linux".into(),
    })
}

/// What `wipefs --json` printed; nothing at all if there is nothing on the device.
pub(crate) fn parse(printed: &str) -> serde_json::Result<Vec<Signature>> {
    if printed.trim().is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str::<Listing>(printed).map(|listing| listing.signatures)
}
