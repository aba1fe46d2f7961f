//! Making a read-only snapshot, and deleting it.

use super::{POPULATED, Row, time};

pub(super) const ROW: Row = Row {
    numbers: &[time("create"), time("delete")],
    repeat: Some(5),
    ability: |row| row.abilities.snapshot,
    ..POPULATED
};
