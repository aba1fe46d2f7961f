//! The means of each operation, or the reason why a filesystem lacks it. Common parts are in the rows of the
//! operations, the rest in those of the filesystems.
//!
//! An operation that a filesystem lacks is an answer of a trial, not an error; users see the reasons here verbatim.

use crate::filesystem::FILESYSTEMS;

/// The means of an operation, or the reason why it is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ability {
    /// By a program with these words, with the placeholders `{device}`, `{directory}` (the mount point), `{tree}`,
    /// `{copy}`, `{snapshot}`, `{bytes}` and `{kib}` (a size); `{files}` becomes a word for each file.
    Program(&'static str, &'static [&'static str]),
    /// By system calls.
    Call(&'static str),
    /// Not at all, and why: a clause that can follow "ext4 cannot: ".
    Unsupported(&'static str),
}

impl Ability {
    /// The program or the call that does it; none if nothing does.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Program(name, _) | Self::Call(name) => Some(name),
            Self::Unsupported(_) => None,
        }
    }
}

/// Means of an unclean stop while the machine keeps running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unclean {
    /// By its own shutdown ioctl, of that name: nothing that is only in memory is written any more.
    Shutdown(&'static str),
    /// Its device is copied while it is mounted and idle; the copy is restored later.
    Image,
}

/// A filesystem's own way of doing the operations that are not the same everywhere.
#[derive(Debug, Clone, Copy)]
pub struct Abilities {
    /// The last words of mkfs, device included, for a filesystem smaller than its device; empty if none is known.
    pub sized: &'static [&'static str],
    /// The full check that may repair.
    pub repair: Ability,
    /// Means of an unclean stop while the machine keeps running.
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
    /// True if fstrial has a full row for the filesystem.
    pub const fn are_known(&self) -> bool {
        !self.sized.is_empty()
    }
}

/// `cp` asks the kernel, which reports a missing `FICLONE`.
pub(crate) const CLONE: Ability =
    Ability::Program("cp", &["-r", "--reflink=always", "--", "{tree}", "{copy}"]);
pub(crate) const NO_TOOL: Ability = Ability::Unsupported("fstrial knows no tool for it");

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
    fn selects_version_flag_per_program() {
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
