//! Mounting after an unclean stop, and after a clean one.

use super::{OperationRow, POPULATED, time};
use crate::ability::Ability;

pub(super) const ROW: OperationRow = OperationRow {
    numbers: &[time("after unclean stop"), time("after clean stop")],
    has_size: true,
    makes_a_filesystem: |_| true,
    // It may need room for a copy of the whole filesystem.
    space: |timed, _| timed.tree_space().max(timed.size_space(2)),
    ability: |row| {
        row.abilities.unclean.map_or_else(Ability::Unsupported, |_| Ability::Program("mount", &[]))
    },
    ..POPULATED
};
