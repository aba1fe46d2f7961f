//! Making a read-only snapshot, and deleting it.

use super::{OperationRow, POPULATED, time};

pub(super) const ROW: OperationRow = OperationRow {
    numbers: &[time("create"), time("delete")],
    repeat: Some(5),
    ability: |row| row.abilities.snapshot,
    ..POPULATED
};
