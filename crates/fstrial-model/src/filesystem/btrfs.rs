//! btrfs.

use super::{Character, Filesystem, LogReader, LogShape, Observation, OnRotating, PLAIN, Several};
use crate::{
    ability::{Abilities, Ability, CLONE, Unclean},
    counter::{Counter, Counters},
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
        cost: "Without it, where several threads sync in one subvolume, each commit of its log waits for at least one clock tick",
    }),
    fsck: Some(("btrfs", &["check", "--readonly"])),
    abilities: &ABILITIES,
    several: Some(Several {
        sysfs: "/sys/fs/btrfs",
        forget: ("btrfs", &["device", "scan", "--forget"]),
        data: ["-d", "--data"],
        metadata: ["-m", "--metadata"],
    }),
    // Its log tree is not counted.
    log: Some(LogReader {
        file: "/sys/fs/btrfs/{filesystem}/commit_stats",
        external: "",
        shape: |_| Some(LogShape::default()),
        count: commits,
    }),
    can_overwrite_in_place: true,
    correct,
    complaint,
    min_size_mib: 128,
    packages: ["btrfs-progs", "btrfs-progs", "btrfsprogs", "btrfs-progs"],
    journal: "copy-on-write trees and a log tree for syncs",
    checksums: "metadata and data",
    data: DataUpdate::CopyOnWrite,
    lazy: "free space tree is made by mkfs (from 5.15 on) or with space_cache=v2",
    ..PLAIN
};

/// Options of mkfs.btrfs.
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

/// Operations of btrfs. `--force` skips the ten-second pause before a repair.
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

/// `commits 2`, `total_commit_ms 10`: of the whole filesystem; a sync of a file does not count, as a rule.
fn commits(stats: &str, _: LogShape) -> Option<Counters> {
    let number = |of: &str| stats.lines().find_map(|line| line.strip_prefix(of))?.trim().parse::<u64>().ok();
    let time = number("total_commit_ms ").and_then(|millis| millis.checked_mul(1_000_000));
    Some(Counters::of(Counter::Commits, number("commits ")?).with(Counter::CommitTime, time))
}

/// Without copies of data there are no checksums of data either, and metadata may be written twice.
fn correct(observed: &Observation<'_>, character: &mut Character) {
    let overwrites = observed.has("nodatacow");
    if overwrites {
        character.durability.data = DataUpdate::InPlace;
    }
    if overwrites || observed.has("nodatasum") {
        character.checksums = "metadata".into();
    }
    // The log tree as well.
    if has_two_copies_of_metadata(observed.mkfs_output) {
        character.journal.push_str(", each block of them written twice (DUP)");
    }
}

/// True if metadata is written twice to one device, by the output of mkfs; false if mkfs was quiet.
fn has_two_copies_of_metadata(mkfs_output: &str) -> bool {
    mkfs_output.lines().any(|line| {
        let profile = line.trim().strip_prefix("Metadata:").or(line.trim().strip_prefix("Data+Metadata:"));
        profile.is_some_and(|rest| rest.trim_start().starts_with("DUP"))
    })
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

    /// Output of btrfs-progs 6.2 and 5.4.
    #[test]
    fn detects_duplicated_metadata() {
        let printed = |profile: &str| {
            format!(
                "Block group profiles:\n  Data:             single            8.00MiB\n  Metadata:         {profile}\n"
            )
        };
        assert!(has_two_copies_of_metadata(&printed("DUP              32.00MiB")));
        assert!(has_two_copies_of_metadata("  Data+Metadata:    DUP              32.00MiB\n"));
        assert!(!has_two_copies_of_metadata(&printed("single            8.00MiB")));
        assert!(!has_two_copies_of_metadata(""));
    }

    /// From Linux 6.18.
    #[test]
    fn commits_are_counted() {
        let stats = "commits 2\ncur_commit_ms 0\nlast_commit_ms 2\nmax_commit_ms 7\ntotal_commit_ms 10\n";
        let two = Counters::of(Counter::Commits, 2).with(Counter::CommitTime, Some(10_000_000));
        assert_eq!(commits(stats, LogShape::default()), Some(two));
        assert_eq!(commits("cur_commit_ms 0\n", LogShape::default()), None);
    }

    #[test]
    fn the_mount_corrects_the_defaults() {
        let judged = |option: &str| {
            let result =
                BTRFS.character(&Observation { options: &[option.to_owned()], mkfs_output: "", header: "" });
            (result.durability.data, result.checksums)
        };
        assert_eq!(judged("noatime"), (DataUpdate::CopyOnWrite, "metadata and data".into()));
        assert_eq!(judged("nodatasum"), (DataUpdate::CopyOnWrite, "metadata".into()));
        assert_eq!(judged("nodatacow"), (DataUpdate::InPlace, "metadata".into()));
    }
}
