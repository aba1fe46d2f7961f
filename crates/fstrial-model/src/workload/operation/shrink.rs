//! Making it smaller while it is mounted.

use super::{POPULATED, Row, time};

pub(super) const ROW: Row =
    Row { numbers: &[time("")], has_size: true, ability: |row| row.abilities.shrink, ..POPULATED };
