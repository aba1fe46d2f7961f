//! The full check that may repair.

use super::{OperationRow, POPULATED, time};

pub(super) const ROW: OperationRow =
    OperationRow { numbers: &[time("")], ability: |row| row.abilities.repair, ..POPULATED };
