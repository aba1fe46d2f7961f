//! How the free space of an unmounted filesystem is split, by the filesystem's own tool.

use crate::{command::Program, error::StackError};
use fstrial_model::{filesystem::Filesystem, state::FreeSpace};
use std::path::Path;

/// Looks at the filesystem on a device. What cannot be known says why.
pub fn of(filesystem: &str, device: &Path) -> FreeSpace {
    let row = Filesystem::named(filesystem);
    let Some((row, tool)) = row.and_then(|row| Some((row, row.free_space?))) else {
        return FreeSpace::Unknown(format!("{filesystem} has no tool that tells"));
    };
    let program = Program::new(tool.program).of(row.name).args(tool.words.iter().copied());
    match program.args([device.display().to_string()]).run() {
        Ok(done) => (tool.read)(&done.line, &done.stdout)
            .unwrap_or_else(|| FreeSpace::Unknown(format!("`{}` says something unexpected", done.line))),
        Err(StackError::MissingProgram { program, .. }) => {
            FreeSpace::Unknown(format!("{program} is not installed"))
        }
        Err(error) => FreeSpace::Unknown(error.to_string()),
    }
}
