//! The full check, read-only.

use super::{POPULATED, Row, time};
use crate::ability::{Ability, NO_TOOL};

pub(super) const ROW: Row = Row {
    numbers: &[time("")],
    // The device follows.
    ability: |row| row.fsck.map_or(NO_TOOL, |(program, words)| Ability::Program(program, words)),
    ..POPULATED
};
