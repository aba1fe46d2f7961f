//! Fragmentation of the free space of an unmounted filesystem, by the filesystem's own tool.

use crate::{command::Program, error::StackError};
use fstrial_model::{filesystem::Filesystem, state::FreeSpace};
use std::path::Path;

/// Examines the filesystem on a device. Unknown values carry the reason.
pub fn of(filesystem: &str, device: &Path) -> FreeSpace {
    let row = Filesystem::named(filesystem);
    let Some((row, tool)) = row.and_then(|row| Some((row, row.free_space?))) else {
        return FreeSpace::Unknown(format!("{filesystem} has no tool for that"));
    };
    let program = Program::new(tool.program).of(row.name).args(tool.words.iter().copied());
    match program.args([device.display().to_string()]).run() {
        Ok(done) => (tool.read)(&done.line, &done.stdout)
            .unwrap_or_else(|| FreeSpace::Unknown(format!("unexpected output of `{}`", done.line))),
        Err(StackError::MissingProgram { program, .. }) => {
            FreeSpace::Unknown(format!("{program} is not installed"))
        }
        Err(error) => FreeSpace::Unknown(error.to_string()),
    }
}
