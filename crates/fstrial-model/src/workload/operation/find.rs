//! Looking at every file of a tree, cold and warm.

use super::{OperationRow, POPULATED, time};
use crate::ability::Ability;

/// A question about its size makes it look at every file; none is as large.
const FIND: Ability = Ability::Program("find", &["{tree}", "-size", "+4000000G"]);

pub(super) const ROW: OperationRow = OperationRow {
    numbers: &[time("cold"), time("warm")],
    ability: |_| FIND,
    in_a_directory: FIND,
    ..POPULATED
};
