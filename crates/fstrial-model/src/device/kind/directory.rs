//! `directory`: existing directories.

use super::{MADE, Origin, Row};

pub(super) const ROW: Row = Row {
    origin: Origin::Existing,
    making: |_, _| ("nothing: existing directories are used as they are".into(), None),
    ..MADE
};
