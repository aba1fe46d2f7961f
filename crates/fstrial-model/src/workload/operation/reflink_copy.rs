//! Copying a tree by sharing its blocks.

use super::{OperationRow, POPULATED, time};
use crate::{ability::CLONE, unit};

pub(super) const ROW: OperationRow = OperationRow {
    numbers: &[time("copy"), ("space", unit::BYTES, true)],
    // Copies that share no blocks need the space twice.
    space: |timed, _| timed.tree_space().saturating_mul(2),
    ability: |row| row.abilities.reflink,
    in_a_directory: CLONE,
    ..POPULATED
};
