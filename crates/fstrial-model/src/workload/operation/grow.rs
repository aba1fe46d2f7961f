//! Making it larger while it is mounted.

use super::{POPULATED, Row, time};

pub(super) const ROW: Row = Row {
    numbers: &[time("")],
    has_size: true,
    makes_a_filesystem: |_| true,
    ability: |row| row.abilities.grow,
    ..POPULATED
};
