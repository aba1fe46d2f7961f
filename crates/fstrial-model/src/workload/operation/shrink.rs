//! Making it smaller while it is mounted.

use super::{OperationRow, POPULATED, time};

pub(super) const ROW: OperationRow =
    OperationRow { numbers: &[time("")], has_size: true, ability: |row| row.abilities.shrink, ..POPULATED };
