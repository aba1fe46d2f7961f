//! Making the filesystem.

use super::{OperationRow, PLAIN, time};
use crate::ability::Ability;

pub(super) const ROW: OperationRow = OperationRow {
    numbers: &[time("")],
    repeat: Some(3),
    makes_a_filesystem: |_| true,
    ability: |row| Ability::Program(row.mkfs, &[]),
    ..PLAIN
};
