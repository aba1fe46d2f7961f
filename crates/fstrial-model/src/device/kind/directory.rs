//! `directory`: existing directories.

use super::{KindRow, MADE, Origin};

pub(super) const ROW: KindRow = KindRow {
    origin: Origin::Existing,
    making: |_, _| ("nothing: existing directories are used as they are".into(), None),
    ..MADE
};
