//! btrfs.

use super::{Character, Filesystem, LogCount, LogReader, LogShape, Observation, OnRotating, PLAIN, Several};
use crate::{
    ability::{Abilities, Ability, CLONE, Unclean},
    facts::DataUpdate,
    mkfs_options::MkfsOptions,
};

pub(super) const BTRFS: Filesystem = Filesystem {
    name: "btrfs",
    kernel: "btrfs",
    module: "btrfs",
    mkfs: "mkfs.btrfs",
    mkfs_options: &OPTIONS,
    mkfs_base: &["-f", "-K"],
    mkfs_joined: &["-O", "-R"],
    // It discards in the background from Linux 6.2 on.
    nodiscard: Some("nodiscard"),
    // `btrfs_sync_log` in fs/btrfs/tree-log.c: `schedule_timeout_uninterruptible(1)`, as long as more tasks come along.
    on_rotating: Some(OnRotating {
        option: "ssd",
        cost: "Without it, where several threads sync in one subvolume, each commit of its log waits for one clock tick or more",
    }),
    fsck: Some(("btrfs", &["check", "--readonly"])),
    abilities: &ABILITIES,
    several: Some(Several {
        sysfs: "/sys/fs/btrfs",
        forget: ("btrfs", &["device", "scan", "--forget"]),
        data: ["-d", "--data"],
        metadata: ["-m", "--metadata"],
    }),
    // What its log tree takes is not counted.
    log: Some(LogReader {
        file: "/sys/fs/btrfs/{filesystem}/commit_stats",
        external: "",
        shape: |_| Some(LogShape::default()),
        count: commits,
    }),
    is_told_to_overwrite: true,
    correct,
    complaint,
    min_size_mib: 128,
    packages: ["btrfs-progs", "btrfs-progs", "btrfsprogs", "btrfs-progs"],
    journal: "copy-on-write trees and a log tree for syncs",
    checksums: "metadata and data",
    data: DataUpdate::CopyOnWrite,
    lazy: "free space tree is made by mkfs or at first mount",
    ..PLAIN
};

/// Of mkfs.btrfs.
const OPTIONS: MkfsOptions = MkfsOptions {
    alone: "KMqv",
    valued: "bdlmnORs",
    long: &[
        "byte-count=",
        "checksum=",
        "csum=",
        "data=",
        "features=",
        "leafsize=",
        "metadata=",
        "mixed",
        "nodesize=",
        "nodiscard",
        "quiet",
        "runtime-features=",
        "sectorsize=",
        "verbose",
    ],
    lists: &[],
};

/// What btrfs can. `--force` leaves out a wait of ten seconds before a repair, for second thoughts.
const ABILITIES: Abilities = Abilities {
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

/// `commits 2`: of the whole filesystem; a sync of a file does not count, as a rule.
fn commits(stats: &str, _: LogShape) -> Option<LogCount> {
    let commits = stats.lines().find_map(|line| line.strip_prefix("commits "))?.parse().ok()?;
    Some(LogCount { written: None, commits: Some(commits) })
}

/// Without copies of data there are no checksums of data either.
fn correct(observed: &Observation<'_>, character: &mut Character) {
    let overwrites = observed.has("nodatacow");
    if overwrites {
        character.durability.data = DataUpdate::InPlace;
    }
    if overwrites || observed.has("nodatasum") {
        character.checksums = "metadata".into();
    }
    // The log tree as well.
    if number_of_copies(observed.mkfs_output) == 2 {
        character.journal.push_str(", each block of them written twice (DUP)");
    }
}

/// Copies of metadata on one device, by what mkfs printed.
fn number_of_copies(mkfs_output: &str) -> usize {
    let profile = mkfs_output.lines().find_map(|line| line.trim().strip_prefix("Metadata:"));
    1 + usize::from(profile.is_some_and(|rest| rest.trim_start().starts_with("DUP")))
}

/// `BTRFS error (device loop0): …`, also `critical` and worse, with a state behind the device in newer kernels, and
/// `BTRFS: error (device loop0) in btrfs_…: errno=-5 IO failure`.
fn complaint(message: &str) -> Option<Option<&str>> {
    let (level, rest) = message.strip_prefix("BTRFS")?.split_once(" (device ")?;
    let level = level.trim_start_matches(':').trim_start();
    let complains = ["error", "critical", "alert", "emergency"].contains(&level);
    complains.then(|| rest.split([' ', ')']).next())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of btrfs-progs 6.2 and 5.4.
    #[test]
    fn metadata_that_is_written_twice_is_seen() {
        let printed = |profile: &str| {
            format!(
                "Block group profiles:\n  Data:             single            8.00MiB\n  Metadata:         {profile}\n"
            )
        };
        assert_eq!(number_of_copies(&printed("DUP              32.00MiB")), 2);
        assert_eq!(number_of_copies(&printed("single            8.00MiB")), 1);
        assert_eq!(number_of_copies(""), 1);
    }

    /// Of Linux 6.18.
    #[test]
    fn commits_are_counted() {
        let stats = "commits 2\ncur_commit_ms 0\nlast_commit_ms 2\nmax_commit_ms 7\ntotal_commit_ms 10\n";
        let two = LogCount { written: None, commits: Some(2) };
        assert_eq!(commits(stats, LogShape::default()), Some(two));
        assert_eq!(commits("cur_commit_ms 0\n", LogShape::default()), None);
    }

    #[test]
    fn the_mount_corrects_the_defaults() {
        let judged = |option: &str| {
            let found =
                BTRFS.character(&Observation { options: &[option.to_owned()], mkfs_output: "", header: "" });
            (found.durability.data, found.checksums)
        };
        assert_eq!(judged("noatime"), (DataUpdate::CopyOnWrite, "metadata and data".into()));
        assert_eq!(judged("nodatasum"), (DataUpdate::CopyOnWrite, "metadata".into()));
        assert_eq!(judged("nodatacow"), (DataUpdate::InPlace, "metadata".into()));
    }
}
