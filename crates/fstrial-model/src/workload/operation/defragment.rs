//! The filesystem's own tool against fragmentation.

use super::{OperationRow, PLAIN, time};
use crate::{
    unit,
    units::Bytes,
    workload::{
        FileTree, Size,
        entry_error::{EntryError, entry_error},
    },
};

/// Extents of all files together.
const EXTENTS: &str = "extents";
/// Files that are appended to in turn, at most, and the size of each, at least.
const MAX_FRAGMENTED: u32 = 500;
const MIN_FRAGMENT: Bytes = Bytes::kib(64);

pub(super) const ROW: OperationRow = OperationRow {
    numbers: &[
        time("time"),
        ("extents before", EXTENTS, true),
        ("extents after", EXTENTS, true),
        ("read before", unit::BYTES_PER_SECOND, false),
        ("read after", unit::BYTES_PER_SECOND, false),
    ],
    tree: Some((16, Size::Fixed(Bytes::mib(2)), 0)),
    check_tree,
    // Moved data need the space twice.
    space: |timed, _| timed.tree_space().saturating_mul(2),
    ability: |row| row.abilities.defragment,
    ..PLAIN
};

/// Files appended to in turn have one size and one directory, and are all open; tools take their names.
fn check_tree(tree: &FileTree) -> Result<(), EntryError> {
    let Size::Fixed(size) = tree.size else { return Err(no_fragments("files of many sizes")) };
    if tree.width != 0 || tree.files > MAX_FRAGMENTED {
        return Err(no_fragments("more than one directory, or more than 500 files"));
    }
    if size < MIN_FRAGMENT {
        return Err(no_fragments("files of less than 64KiB"));
    }
    Ok(())
}

fn no_fragments(problem: &str) -> EntryError {
    let hint = "use up to 500 files of one size: tree = { files = 16, size = \"2MiB\" }";
    entry_error("tree", format!("{problem} cannot be appended to in turn"), hint)
}
