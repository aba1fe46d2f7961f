//! Mounting, cold, and unmounting.

use super::{OperationRow, POPULATED, time};
use crate::ability::Ability;

pub(super) const ROW: OperationRow = OperationRow {
    numbers: &[time("mount"), time("unmount")],
    repeat: Some(5),
    ability: |_| Ability::Program("mount", &[]),
    ..POPULATED
};
