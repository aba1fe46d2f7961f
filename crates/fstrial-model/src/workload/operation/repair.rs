//! The full check that may repair.

use super::{POPULATED, Row, time};

pub(super) const ROW: Row = Row { numbers: &[time("")], ability: |row| row.abilities.repair, ..POPULATED };
