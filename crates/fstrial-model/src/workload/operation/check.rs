//! The full check, read-only.

use super::{OperationRow, POPULATED, time};
use crate::ability::{Ability, NO_TOOL};

pub(super) const ROW: OperationRow = OperationRow {
    numbers: &[time("")],
    // The device follows.
    ability: |row| row.fsck.map_or(NO_TOOL, |(program, words)| Ability::Program(program, words)),
    ..POPULATED
};
