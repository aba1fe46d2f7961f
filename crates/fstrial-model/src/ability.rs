//! What the operations are done with, or why they cannot be done. What is not the same everywhere is in the rows of the
//! filesystems.
//!
//! What a filesystem cannot do is an answer of a trial, not an error; the reasons here are shown to people as they are.

use crate::{
    arm::Arm,
    filesystem::{FILESYSTEMS, Filesystem},
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

impl Abilities {
    /// Whether more is known of the filesystem than that it is one.
    pub const fn are_known(&self) -> bool {
        !self.sized.is_empty()
    }
}

/// `cp` asks the kernel; one that cannot says so (`FICLONE`).
pub(crate) const CLONE: Ability =
    Ability::Program("cp", &["-r", "--reflink=always", "--", "{tree}", "{copy}"]);
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
    if let Some(row) = FILESYSTEMS.iter().find(|row| row.mkfs == program) {
        return row.mkfs_version;
    }
    match FILESYSTEMS.iter().any(|row| row.version_by_v.contains(&program)) {
        true => "-V",
        false => "--version",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn programs_are_asked_for_their_version_as_they_know_it() {
        for (program, flag) in [
            ("mkfs.vfat", "--help"),
            ("mkfs.xfs", "-V"),
            ("e2fsck", "-V"),
            ("xfs_growfs", "-V"),
            ("btrfs", "--version"),
            ("cp", "--version"),
        ] {
            assert_eq!(version_flag(program), flag, "{program}");
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
