//! Operations of a filesystem as workloads: the waits of an administrator, which throughput tests leave out.
//!
//! Each is a row in a separate file: its result numbers, its keys, and a filesystem's means for it, or the reason why
//! it lacks them ([`crate::ability`]).

mod check;
mod defragment;
mod delete_tree;
mod fill;
mod find;
mod freeze;
mod grow;
mod mkfs;
mod mount;
mod recovery;
mod reflink_copy;
mod repair;
mod shrink;
mod snapshot;
mod space;
mod timed;

pub use freeze::WRITTEN;
pub use timed::{TimedOperation, TreeEntry};

use super::{FileTree, ResultKind, Size, entry_error::EntryError};
use crate::{
    ability::{Ability, NO_TOOL},
    arm::Arm,
    filesystem::Filesystem,
    rows::rows,
    unit,
    units::Bytes,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

// The only list of them in the crate.
rows! {
    /// The timed operation.
    #[derive(
        Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
    )]
    pub enum Operation of OperationRow {
        /// Making the filesystem, with the arm's options.
        "mkfs" Mkfs is mkfs::ROW,
        /// Mounting a populated filesystem, cold, and unmounting it.
        "mount" Mount is mount::ROW,
        /// Mounting after an unclean stop, and again after a clean one.
        "recovery" Recovery is recovery::ROW,
        /// The full check, read-only, of a populated filesystem.
        "check" Check is check::ROW,
        /// The full check that may repair, of a populated filesystem without damage.
        "repair" Repair is repair::ROW,
        /// Freezing and thawing while threads write, and how long they stall.
        "freeze" Freeze is freeze::ROW,
        /// Making a read-only snapshot of a populated filesystem, and deleting it.
        "snapshot" Snapshot is snapshot::ROW,
        /// The filesystem's own tool against fragmentation, with extents and sequential reads before and after.
        "defragment" Defragment is defragment::ROW,
        /// Copying a tree by sharing its blocks.
        "reflink-copy" ReflinkCopy is reflink_copy::ROW,
        /// Space overhead of a tree.
        "space" Space is space::ROW,
        /// Filling up to the last block, and deleting then.
        "fill" Fill is fill::ROW,
        /// Deleting a tree.
        "delete-tree" DeleteTree is delete_tree::ROW,
        /// Looking at every file of a tree, cold and warm.
        "find" Find is find::ROW,
        /// Making it larger while it is mounted.
        "grow" Grow is grow::ROW,
        /// Making it smaller while it is mounted.
        "shrink" Shrink is shrink::ROW,
    }
}

/// Properties of an operation.
struct OperationRow {
    /// Its results, in order.
    numbers: &'static [Number],
    /// The tree it works on if none is described; none if it works on none.
    tree: Option<UsualTree>,
    /// Refuses a tree that it cannot work on.
    check_tree: fn(&FileTree) -> Result<(), EntryError>,
    /// Default repetitions in a run; none for operations done once. Those that take milliseconds are repeated, as a
    /// single time would be mostly chance.
    repeat: Option<u16>,
    /// True if the filesystem may be made smaller than its device.
    has_size: bool,
    /// True if it freezes the filesystem, for a time (`hold`), while threads write, for another (`duration`).
    freezes: bool,
    /// True if it replaces the filesystem with a new one.
    makes_a_filesystem: fn(&TimedOperation) -> bool,
    /// Bytes that its files take, by the number of threads.
    space: fn(&TimedOperation, u16) -> u64,
    /// A filesystem's means for it.
    ability: fn(&Filesystem) -> Ability,
    /// Its means in an existing directory.
    in_a_directory: Ability,
}

/// A number that an operation yields: name, unit, whether less is better.
type Number = (&'static str, &'static str, bool);
/// Files, size, width.
type UsualTree = (u32, Size, u32);

/// One that is done once, without a tree, and needs a device.
const PLAIN: OperationRow = OperationRow {
    numbers: &[],
    tree: None,
    check_tree: |_| Ok(()),
    repeat: None,
    has_size: false,
    freezes: false,
    makes_a_filesystem: |_| false,
    space: |timed, _| timed.tree_space().max(timed.size_space(1)),
    ability: |_| NO_TOOL,
    in_a_directory: Ability::Unsupported(
        "a directory is part of a shared filesystem and has no device to itself",
    ),
};

/// One that is done with a usual tree.
const POPULATED: OperationRow =
    OperationRow { tree: Some((4000, Size::Gamma { mean: Bytes::kib(8) }, 20)), ..PLAIN };

const fn time(name: &'static str) -> Number {
    (name, unit::TIME, true)
}

/// The name of the tree, and of its directory.
pub const TREE: &str = "tree";

impl Operation {
    /// Its results, in order.
    pub fn results(self) -> impl Iterator<Item = ResultKind> {
        self.row().numbers.iter().map(|(name, unit, less_is_better)| ResultKind {
            name: (*name).to_owned(),
            unit: (*unit).to_owned(),
            less_is_better: *less_is_better,
            has_latencies: false,
            offered_rate: None,
        })
    }

    /// True if it freezes the filesystem, while threads write.
    pub const fn freezes(self) -> bool {
        self.row().freezes
    }

    /// A filesystem's means for it.
    pub fn ability_of(self, filesystem: &Filesystem) -> Ability {
        (self.row().ability)(filesystem)
    }

    /// An arm's means for it. An existing directory supports operations that need neither a device nor all of the
    /// filesystem.
    pub fn ability(self, arm: &Arm) -> Ability {
        let of_layer = arm.layer.filter(|_| self == Self::Snapshot).and_then(|layer| layer.tool().snapshots);
        of_layer
            .map(|[make, _]| make)
            .unwrap_or_else(|| arm.row().map_or(self.row().in_a_directory, |row| self.ability_of(row)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filesystem::FILESYSTEMS;

    #[test]
    fn abilities_name_tool_or_reason() {
        for row in FILESYSTEMS {
            for operation in Operation::ALL {
                match operation.ability_of(row) {
                    Ability::Unsupported(reason) => assert!(reason.len() > 10, "{} {operation}", row.name),
                    able => assert!(able.name().is_some_and(|name| !name.is_empty())),
                }
            }
            assert_eq!(row.abilities.snapshot.name(), row.abilities.delete_snapshot.name(), "{}", row.name);
        }
    }

    #[test]
    fn answers_are_those_of_the_three() {
        let cannot = |arm: &str| -> Vec<&str> {
            let arm: Arm = arm.parse().unwrap();
            let unable = |operation: &&Operation| matches!(operation.ability(&arm), Ability::Unsupported(_));
            Operation::ALL.iter().filter(unable).map(|operation| operation.name()).collect()
        };
        assert_eq!(cannot("ext4"), ["snapshot", "reflink-copy", "shrink"]);
        assert_eq!(cannot("xfs"), ["snapshot", "shrink"]);
        assert_eq!(cannot("ext4:lvm"), ["reflink-copy", "shrink"]);
        assert!(cannot("xfs:crypt").contains(&"snapshot"));
        assert!(cannot("btrfs").is_empty());
        let directory = cannot("dir:/srv");
        assert!(
            !["reflink-copy", "space", "delete-tree", "find"].iter().any(|able| directory.contains(able))
        );
        assert_eq!(directory.len(), Operation::ALL.len() - 4);
    }

    #[test]
    fn every_operation_is_in_the_document_and_has_a_preset() {
        let document = include_str!("../../../../../docs/operations.md");
        for operation in Operation::ALL {
            assert!(document.contains(&format!("op-{operation}")), "{operation} in docs/operations.md");
            let entry = crate::preset::preset(&format!("op-{operation}")).unwrap();
            assert_eq!(entry.operation, Some(operation));
        }
        let names: Vec<String> = Operation::ALL.iter().map(|operation| format!("`{operation}`")).collect();
        assert!(document.contains(&names.join(", ")), "the key `operation` has them all, in order");
    }
}
