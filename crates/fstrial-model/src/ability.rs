//! What the operations are done with, or why they cannot be done. What is the same everywhere is in the rows of the
//! operations, the rest in those of the filesystems.
//!
//! What a filesystem cannot do is an answer of a trial, not an error; the reasons here are shown to people as they are.

use crate::filesystem::FILESYSTEMS;

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

/// How a filesystem is stopped uncleanly while the machine goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unclean {
    /// By its own shutdown ioctl, of that name: nothing that is only in memory is written any more.
    Shutdown(&'static str),
    /// Its device is copied while it is mounted and nobody writes; later the copy is put back.
    Image,
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
pub(crate) const NO_TOOL: Ability = Ability::Cannot("fstrial knows no tool for it");

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

/// The flag under which a program of an operation prints its version.
pub fn version_flag(program: &str) -> &'static str {
    if let Some(row) = FILESYSTEMS.iter().find(|row| row.mkfs == program) {
        return row.mkfs_version;
    }
    if program == "lvm" {
        return "version";
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
    fn programs_are_asked_for_their_version_as_they_know_it() {
        for (program, flag) in [
            ("mkfs.vfat", "--help"),
            ("mkfs.xfs", "-V"),
            ("e2fsck", "-V"),
            ("xfs_growfs", "-V"),
            ("btrfs", "--version"),
            ("lvm", "version"),
            ("cryptsetup", "--version"),
            ("cp", "--version"),
        ] {
            assert_eq!(version_flag(program), flag, "{program}");
        }
    }
}
