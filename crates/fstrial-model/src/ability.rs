//! What each filesystem does the operations with, or why it cannot: data beside the filesystem table.
//!
//! What a filesystem cannot do is an answer of a trial, not an error; the reasons here are shown to people as they are.

use crate::{
    arm::Arm,
    filesystem::Filesystem,
    workload::{Operation, Unclean},
};

/// How something is done, or why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ability {
    /// By a program with these words, in which `{device}`, `{directory}` (where it is mounted), `{tree}`, `{copy}`,
    /// `{snapshot}`, `{bytes}` and `{kib}` (a size) stand for what they say; `{files}` becomes a word for each file.
    Program(&'static str, &'static [&'static str]),
    /// By system calls.
    Call(&'static str),
    /// Not at all, and why: a clause that can follow "ext4 cannot: ".
    Cannot(&'static str),
}

impl Ability {
    /// The program or the call that does it; none if nothing does.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Program(name, _) | Self::Call(name) => Some(name),
            Self::Cannot(_) => None,
        }
    }
}

/// A filesystem's own way of doing the operations that are not the same everywhere.
#[derive(Debug, Clone, Copy)]
pub struct Abilities {
    /// The last words of mkfs, device included, for a filesystem smaller than its device; empty if none is known.
    pub sized: &'static [&'static str],
    /// The full check that may repair.
    pub repair: Ability,
    /// How it is stopped uncleanly while the machine goes on.
    pub unclean: Result<Unclean, &'static str>,
    /// Making a read-only snapshot.
    pub snapshot: Ability,
    /// Deleting a snapshot.
    pub delete_snapshot: Ability,
    /// Its own tool against fragmentation.
    pub defragment: Ability,
    /// Copying a file by sharing its blocks.
    pub reflink: Ability,
    /// Making it larger while it is mounted.
    pub grow: Ability,
    /// Making it smaller while it is mounted.
    pub shrink: Ability,
}

/// `cp` asks the kernel; one that cannot says so (`FICLONE`).
const CLONE: Ability = Ability::Program("cp", &["-r", "--reflink=always", "--", "{tree}", "{copy}"]);
/// Both are ioctls of the kernel's virtual filesystem layer; a filesystem that has none says so.
const FREEZE: Ability = Ability::Call("FIFREEZE");
const NO_TOOL: Ability = Ability::Cannot("fstrial knows no tool for it");

/// A filesystem of which no more is known than that it is one.
pub const UNKNOWN: Abilities = Abilities {
    sized: &[],
    repair: NO_TOOL,
    unclean: Err("fstrial knows no way to stop it uncleanly without stopping the machine"),
    snapshot: NO_TOOL,
    delete_snapshot: NO_TOOL,
    defragment: NO_TOOL,
    reflink: CLONE,
    grow: NO_TOOL,
    shrink: NO_TOOL,
};

/// What ext4 can.
pub const EXT4: Abilities = Abilities {
    sized: &["{device}", "{kib}k"],
    repair: Ability::Program("e2fsck", &["-f", "-y", "{device}"]),
    unclean: Ok(Unclean::Shutdown("EXT4_IOC_SHUTDOWN")),
    snapshot: Ability::Cannot("ext4 has no snapshots"),
    delete_snapshot: Ability::Cannot("ext4 has no snapshots"),
    defragment: Ability::Program("e4defrag", &["{tree}"]),
    reflink: Ability::Cannot("ext4 has no reflink: files do not share blocks"),
    grow: Ability::Program("resize2fs", &["{device}"]),
    shrink: Ability::Cannot(
        "ext4 has no online shrink: resize2fs makes it smaller only while it is not mounted",
    ),
};

/// What ext3 can: files without extents.
pub const EXT3: Abilities = Abilities {
    snapshot: Ability::Cannot("ext3 has no snapshots"),
    delete_snapshot: Ability::Cannot("ext3 has no snapshots"),
    defragment: Ability::Cannot("e4defrag takes files with extents, which ext3 has not"),
    reflink: Ability::Cannot("ext3 has no reflink: files do not share blocks"),
    shrink: Ability::Cannot(
        "ext3 has no online shrink: resize2fs makes it smaller only while it is not mounted",
    ),
    ..EXT4
};

/// What ext2 can: no journal either.
pub const EXT2: Abilities = Abilities {
    unclean: Err(
        "ext2 has no journal to recover from: it mounts as it is, and needs a full check (op-repair)",
    ),
    snapshot: Ability::Cannot("ext2 has no snapshots"),
    delete_snapshot: Ability::Cannot("ext2 has no snapshots"),
    defragment: Ability::Cannot("e4defrag takes files with extents, which ext2 has not"),
    reflink: Ability::Cannot("ext2 has no reflink: files do not share blocks"),
    shrink: Ability::Cannot(
        "ext2 has no online shrink: resize2fs makes it smaller only while it is not mounted",
    ),
    ..EXT4
};

/// What XFS can.
pub const XFS: Abilities = Abilities {
    sized: &["-d", "size={bytes}", "{device}"],
    repair: Ability::Program("xfs_repair", &["{device}"]),
    unclean: Ok(Unclean::Shutdown("XFS_IOC_GOINGDOWN")),
    snapshot: Ability::Cannot("XFS has no snapshots"),
    delete_snapshot: Ability::Cannot("XFS has no snapshots"),
    defragment: Ability::Program("xfs_fsr", &["{files}"]),
    reflink: CLONE,
    grow: Ability::Program("xfs_growfs", &["-d", "{directory}"]),
    shrink: Ability::Cannot("XFS has no online shrink, save of unused space at its very end"),
};

/// What btrfs can. `--force` leaves out a wait of ten seconds before a repair, for second thoughts.
pub const BTRFS: Abilities = Abilities {
    sized: &["-b", "{bytes}", "{device}"],
    repair: Ability::Program("btrfs", &["check", "--repair", "--force", "{device}"]),
    unclean: Ok(Unclean::Image),
    snapshot: Ability::Program("btrfs", &["subvolume", "snapshot", "-r", "{directory}", "{snapshot}"]),
    delete_snapshot: Ability::Program("btrfs", &["subvolume", "delete", "--commit-after", "{snapshot}"]),
    defragment: Ability::Program("btrfs", &["filesystem", "defragment", "-r", "{tree}"]),
    reflink: CLONE,
    grow: Ability::Program("btrfs", &["filesystem", "resize", "max", "{directory}"]),
    shrink: Ability::Program("btrfs", &["filesystem", "resize", "{bytes}", "{directory}"]),
};

impl Filesystem {
    /// How it does an operation.
    pub fn ability(&self, operation: Operation) -> Ability {
        let own = self.abilities;
        match operation {
            Operation::Mkfs => Ability::Program(self.mkfs, &[]),
            Operation::Mount => Ability::Program("mount", &[]),
            Operation::Recovery => {
                own.unclean.map_or_else(Ability::Cannot, |_| Ability::Program("mount", &[]))
            }
            Operation::Check => match self.fsck {
                // The device follows.
                Some((program, words)) => Ability::Program(program, words),
                None => NO_TOOL,
            },
            Operation::Repair => own.repair,
            Operation::Freeze => FREEZE,
            Operation::Snapshot => own.snapshot,
            Operation::Defragment => own.defragment,
            Operation::ReflinkCopy => own.reflink,
            Operation::Grow => own.grow,
            Operation::Shrink => own.shrink,
            Operation::Space | Operation::Fill | Operation::DeleteTree | Operation::Find => {
                anywhere(operation)
            }
        }
    }
}

/// How an operation is done that is the same on every filesystem.
fn anywhere(operation: Operation) -> Ability {
    match operation {
        Operation::Space => Ability::Call("statvfs"),
        Operation::Fill => Ability::Call("write"),
        Operation::DeleteTree => Ability::Program("rm", &["-rf", "--", "{tree}"]),
        // A question about its size makes it look at every file; none is as large.
        Operation::Find => Ability::Program("find", &["{tree}", "-size", "+4000000G"]),
        Operation::ReflinkCopy => CLONE,
        _ => Ability::Cannot(
            "a directory is part of a filesystem that others use, and has no device of its own",
        ),
    }
}

/// How an arm does an operation. An existing directory does what needs neither a device nor all of the filesystem.
pub fn ability(arm: &Arm, operation: Operation) -> Ability {
    match arm.row() {
        Some(row) => row.ability(operation),
        None if operation == Operation::Fill => Ability::Cannot(
            "a directory is part of a filesystem that others use, which must not be filled up",
        ),
        None => anywhere(operation),
    }
}

/// The flag under which a program of an operation prints its version.
pub fn version_flag(program: &str) -> &'static str {
    let of_mkfs = crate::filesystem::FILESYSTEMS.iter().find(|row| row.mkfs == program);
    match program {
        _ if let Some(row) = of_mkfs => row.mkfs_version,
        // They take it for an option they do not know, and print their version with the complaint.
        "e2fsck" | "e4defrag" | "resize2fs" => "-V",
        _ if program.starts_with("xfs_") => "-V",
        _ => "--version",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filesystem::FILESYSTEMS;

    #[test]
    fn what_cannot_be_done_says_why_and_the_rest_names_its_tool() {
        for row in FILESYSTEMS {
            for operation in Operation::ALL {
                match row.ability(operation) {
                    Ability::Cannot(reason) => assert!(reason.len() > 10, "{} {operation}", row.name),
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
            let unable = |operation: &Operation| matches!(ability(&arm, *operation), Ability::Cannot(_));
            Operation::ALL.into_iter().filter(unable).map(Operation::name).collect()
        };
        assert_eq!(cannot("ext4"), ["snapshot", "reflink-copy", "shrink"]);
        assert_eq!(cannot("xfs"), ["snapshot", "shrink"]);
        assert!(cannot("btrfs").is_empty());
        let directory = cannot("dir:/srv");
        assert!(
            !["reflink-copy", "space", "delete-tree", "find"].iter().any(|able| directory.contains(able))
        );
        assert_eq!(directory.len(), Operation::ALL.len() - 4);
    }
}
