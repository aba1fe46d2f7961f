//! Making it larger while it is mounted.

use super::{OperationRow, POPULATED, time};

pub(super) const ROW: OperationRow = OperationRow {
    numbers: &[time("")],
    has_size: true,
    makes_a_filesystem: |_| true,
    ability: |row| row.abilities.grow,
    ..POPULATED
};
