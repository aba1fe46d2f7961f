//! Mounting after an unclean stop, and after a clean one.

use super::{POPULATED, Row, time};
use crate::ability::Ability;

pub(super) const ROW: Row = Row {
    numbers: &[time("after unclean stop"), time("after clean stop")],
    has_size: true,
    makes_a_filesystem: |_| true,
    // A copy of the whole filesystem may have to lie next to it.
    space: |timed, _| timed.tree_space().max(timed.size_space(2)),
    ability: |row| row.abilities.unclean.map_or_else(Ability::Cannot, |_| Ability::Program("mount", &[])),
    ..POPULATED
};
