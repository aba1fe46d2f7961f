//! Deleting a tree.

use super::{OperationRow, POPULATED, time};
use crate::ability::Ability;

const RM: Ability = Ability::Program("rm", &["-rf", "--", "{tree}"]);

pub(super) const ROW: OperationRow = OperationRow {
    numbers: &[time("delete"), time("durable")],
    ability: |_| RM,
    in_a_directory: RM,
    ..POPULATED
};
