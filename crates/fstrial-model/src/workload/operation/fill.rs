//! Filling up to the last block, and deleting then.

use super::{OperationRow, PLAIN, time};
use crate::{ability::Ability, unit};

pub(super) const ROW: OperationRow = OperationRow {
    numbers: &[
        ("usable", unit::BYTES, false),
        ("write", unit::BYTES_PER_SECOND, false),
        ("write nearly full", unit::BYTES_PER_SECOND, false),
        time("delete when full"),
    ],
    has_size: true,
    makes_a_filesystem: |timed| timed.filesystem_size.is_some(),
    ability: |_| Ability::Call("write"),
    in_a_directory: Ability::Unsupported(
        "a directory is part of a filesystem that others use, which must not be filled up",
    ),
    ..PLAIN
};
