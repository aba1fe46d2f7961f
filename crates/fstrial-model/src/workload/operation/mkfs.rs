//! Making the filesystem.

use super::{PLAIN, Row, time};
use crate::ability::Ability;

pub(super) const ROW: Row = Row {
    numbers: &[time("")],
    repeat: Some(3),
    makes_a_filesystem: |_| true,
    ability: |row| Ability::Program(row.mkfs, &[]),
    ..PLAIN
};
