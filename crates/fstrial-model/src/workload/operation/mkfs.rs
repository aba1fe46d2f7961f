//! Making the filesystem.

use super::{PLAIN, Row, time};
use crate::ability::Ability;

pub(super) const ROW: Row = Row {
    numbers: &[time("")],
    repeat: 3,
    makes_a_filesystem: |_| true,
    ability: |row| Ability::Program(row.mkfs, &[]),
    ..PLAIN
};
