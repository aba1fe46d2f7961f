//! What a tree costs in space.

use super::{POPULATED, Row};
use crate::{ability::Ability, unit};

const STATVFS: Ability = Ability::Call("statvfs");

pub(super) const ROW: Row = Row {
    numbers: &[("", unit::BYTES_PER_FILE, true)],
    ability: |_| STATVFS,
    in_a_directory: STATVFS,
    ..POPULATED
};
