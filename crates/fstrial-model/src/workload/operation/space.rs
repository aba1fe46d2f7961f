//! Space overhead of a tree.

use super::{OperationRow, POPULATED};
use crate::{ability::Ability, unit};

const STATVFS: Ability = Ability::Call("statvfs");

pub(super) const ROW: OperationRow = OperationRow {
    numbers: &[("", unit::BYTES_PER_FILE, true)],
    ability: |_| STATVFS,
    in_a_directory: STATVFS,
    ..POPULATED
};
