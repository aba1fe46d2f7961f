//! Small kernel files: one value read or written, with the path in the error.

use crate::error::StackError;
use std::{fs, path::Path};

/// Reads a small file without its last newline.
pub(crate) fn read(path: impl AsRef<Path>) -> Result<String, StackError> {
    let path = path.as_ref();
    let text = fs::read_to_string(path).map_err(|e| StackError::io("read", path, e))?;
    Ok(text.trim_end().to_owned())
}

/// Reads a small file holding one number.
pub(crate) fn read_number(path: impl AsRef<Path>) -> Result<u64, StackError> {
    let path = path.as_ref();
    read(path)?
        .trim()
        .parse()
        .map_err(|_| StackError::unlike(format!("{} does not hold a number", path.display())))
}

/// Writes one value.
pub(crate) fn write(path: impl AsRef<Path>, value: &str) -> Result<(), StackError> {
    let path = path.as_ref();
    fs::write(path, value).map_err(|e| StackError::io(format!("write `{value}` to"), path, e))
}
