//! Mounting, cold, and unmounting.

use super::{POPULATED, Row, time};
use crate::ability::Ability;

pub(super) const ROW: Row = Row {
    numbers: &[time("mount"), time("unmount")],
    repeat: Some(5),
    ability: |_| Ability::Program("mount", &[]),
    ..POPULATED
};
