//! ext4, and ext3 and ext2, which are made by the same programs and mounted by the same module.

use super::{
    Character, ExternalLog, Filesystem, FreeSpaceReader, LogReader, LogShape, MkfsBlock, Observation, PLAIN,
    bytes, log::little, number,
};
use crate::{
    ability::{Abilities, Ability, Unclean},
    counter::{Counter, Counters},
    facts::DataUpdate,
    mkfs_options::MkfsOptions,
    state::FreeSpace,
    units::Bytes,
};

pub(super) const EXT4: Filesystem = Filesystem {
    name: "ext4",
    kernel: "ext4",
    module: "ext4",
    mkfs: "mkfs.ext4",
    mkfs_base: &["-F", "-q", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"],
    mkfs_joined: &["-E", "-O"],
    mkfs_options: &OPTIONS,
    mkfs_words: &[(
        "-E",
        &[
            "stride",
            "stripe_width",
            "stripe-width",
            "packed_meta_blocks",
            "num_backup_sb",
            "lazy_itable_init",
            "lazy_journal_init",
        ],
    )],
    mkfs_block: Some(MkfsBlock { quiet: "-q", try_only: "-n", read: block_size }),
    version_by_v: &["e2fsck", "e4defrag", "resize2fs"],
    external_log: Ok(ExternalLog {
        made_by: Some(("mke2fs", &["-q", "-F", "-O", "journal_dev", "-b"])),
        mkfs: ["-J", "device="],
        mount: "journal_path=",
        check: "-j",
        contradicts: |word| word.starts_with("-J") || word.contains("^has_journal"),
    }),
    fsck: Some(("e2fsck", &["-f", "-n"])),
    abilities: &ABILITIES,
    // Options set in its superblock (`tune2fs -o`, mke2fs.conf) are missing from mountinfo, because they are its
    // defaults.
    all_options: Some("/proc/fs/ext4/{device}/options"),
    header: Some(("dumpe2fs", &["-h"])),
    correct,
    complaint,
    free_space: Some(FreeSpaceReader { program: "e2freefrag", words: &[], read: free_space }),
    // Its journal is inode 8.
    log: Some(LogReader {
        file: "/proc/fs/jbd2/{device}-8/info",
        external: "/proc/fs/jbd2/{log}/info",
        shape: log_shape,
        count: log_count,
    }),
    packages: ["e2fsprogs", "e2fsprogs", "e2fsprogs", "e2fsprogs"],
    journal: "metadata (data=ordered)",
    checksums: "metadata",
    lazy: "inode tables and journal written by mkfs",
    ..PLAIN
};

pub(super) const EXT3: Filesystem = Filesystem {
    name: "ext3",
    kernel: "ext3",
    mkfs: "mkfs.ext3",
    abilities: &ABILITIES_EXT3,
    checksums: "none",
    ..EXT4
};

pub(super) const EXT2: Filesystem = Filesystem {
    name: "ext2",
    kernel: "ext2",
    mkfs: "mkfs.ext2",
    abilities: &ABILITIES_EXT2,
    external_log: Err("has no journal"),
    log: None,
    journal: "none",
    checksums: "none",
    crash_consistent: false,
    no_stale_data: false,
    ..EXT4
};

/// Options of mkfs.ext2, mkfs.ext3 and mkfs.ext4.
const OPTIONS: MkfsOptions = MkfsOptions {
    alone: "DjKqv",
    valued: "bCEgGiIJmNOtT",
    long: &[],
    lists: &[
        (
            'E',
            &[
                "stride",
                "stripe_width",
                "stripe-width",
                "resize",
                "lazy_itable_init",
                "lazy_journal_init",
                "assume_storage_prezeroed",
                "packed_meta_blocks",
                "num_backup_sb",
                "desc_size",
                "desc-size",
                "hash_seed",
                "mmp_update_interval",
                "orphan_file_size",
                "quotatype",
                "encoding",
                "encoding_flags",
                "no_copy_xattrs",
                "discard",
                "nodiscard",
            ],
        ),
        ('J', &["size", "fast_commit_size", "location"]),
    ],
};

/// Operations of ext4.
const ABILITIES: Abilities = Abilities {
    sized: &["{device}", "{kib}k"],
    repair: Ability::Program("e2fsck", &["-f", "-y", "{device}"]),
    unclean: Ok(Unclean::Shutdown("EXT4_IOC_SHUTDOWN")),
    snapshot: Ability::Unsupported("ext4 has no snapshots"),
    delete_snapshot: Ability::Unsupported("ext4 has no snapshots"),
    defragment: Ability::Program("e4defrag", &["{tree}"]),
    reflink: Ability::Unsupported("ext4 has no reflink: files do not share blocks"),
    grow: Ability::Program("resize2fs", &["{device}"]),
    shrink: Ability::Unsupported(
        "ext4 has no online shrink: resize2fs makes it smaller only while it is not mounted",
    ),
};

/// Operations of ext3: files without extents.
const ABILITIES_EXT3: Abilities = Abilities {
    snapshot: Ability::Unsupported("ext3 has no snapshots"),
    delete_snapshot: Ability::Unsupported("ext3 has no snapshots"),
    defragment: Ability::Unsupported("e4defrag needs files with extents, which ext3 lacks"),
    reflink: Ability::Unsupported("ext3 has no reflink: files do not share blocks"),
    shrink: Ability::Unsupported(
        "ext3 has no online shrink: resize2fs makes it smaller only while it is not mounted",
    ),
    ..ABILITIES
};

/// Operations of ext2: without a journal too.
const ABILITIES_EXT2: Abilities = Abilities {
    unclean: Err(
        "ext2 has no journal to recover from: it mounts as it is, and needs a full check (op-repair)",
    ),
    snapshot: Ability::Unsupported("ext2 has no snapshots"),
    delete_snapshot: Ability::Unsupported("ext2 has no snapshots"),
    defragment: Ability::Unsupported("e4defrag needs files with extents, which ext2 lacks"),
    reflink: Ability::Unsupported("ext2 has no reflink: files do not share blocks"),
    shrink: Ability::Unsupported(
        "ext2 has no online shrink: resize2fs makes it smaller only while it is not mounted",
    ),
    ..ABILITIES
};

/// Bytes of a block, in the dry-run output of mke2fs: `Creating filesystem with 153600 4k blocks and …`.
fn block_size(printed: &str) -> Option<u64> {
    let mut words = printed.split_once("Creating filesystem with ")?.1.split_whitespace();
    let kib: u64 = words.nth(1)?.strip_suffix('k')?.parse().ok()?;
    (words.next()? == "blocks").then_some(kib << 10)
}

/// Its superblock lists its features, if that is readable.
fn correct(observed: &Observation<'_>, character: &mut Character) {
    let printed = observed.header;
    let features = printed.lines().find_map(|line| line.strip_prefix("Filesystem features:"));
    let has = |feature: &str| features.map(|all| all.split_whitespace().any(|word| word == feature));
    if has("has_journal") == Some(false) {
        character.journal = "none".into();
        character.durability.crash_consistent = false;
        character.durability.no_stale_data = false;
    } else if observed.has("data=journal") {
        character.journal = "metadata and data (data=journal)".into();
        character.durability.data = DataUpdate::Journalled;
    } else if observed.has("data=writeback") {
        character.journal = "metadata (data=writeback)".into();
        character.durability.no_stale_data = false;
    }
    let field = |name: &str| printed.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    if let (Some(stride), Some(width)) = (field("RAID stride:"), field("RAID stripe width:")) {
        character.stripe = Some(format!("{stride} blocks, {width} in all"));
    }
    // An internal journal has an inode instead.
    if field("Journal device:").is_some() {
        character.journal_on_another_device();
    }
    if let Some(has_checksums) = has("metadata_csum") {
        character.checksums = if has_checksums { "metadata" } else { "none" }.into();
    }
}

/// `EXT4-fs error (device loop0): …`, `EXT4-fs error (device loop0) in …`; for ext2 `EXT2-fs (loop0): error: …`.
fn complaint(message: &str) -> Option<Option<&str>> {
    let Some(rest) = message.strip_prefix("EXT") else { return journal_complaint(message) };
    let rest = rest.get(1..)?.strip_prefix("-fs")?;
    if let Some(device) = rest.strip_prefix(" error (device ") {
        return Some(device.split(')').next());
    }
    let (device, output) = rest.strip_prefix(" (")?.split_once("): ")?;
    output.starts_with("error: ").then_some(Some(device))
}

/// `JBD2: I/O error when updating journal superblock for loop0-8.`, `Aborting journal on device loop0-8.`
fn journal_complaint(message: &str) -> Option<Option<&str>> {
    if let Some(device) = message.strip_prefix("Aborting journal on device ") {
        return Some(Some(device.trim_end_matches('.')));
    }
    let output = message.strip_prefix("JBD2: ")?;
    if !output.to_ascii_lowercase().contains("error") {
        return None;
    }
    let named = [" for ", " on "].iter().find_map(|before| output.rsplit_once(before));
    Some(
        named.and_then(|(_, device)| device.split_whitespace().next()).map(|word| word.trim_end_matches('.')),
    )
}

/// `s_magic`, `s_log_block_size`, and in `s_jnl_blocks` the size of the journal's inode, high half first
/// (Documentation/filesystems/ext4/super.rst). It is 0 if the journal is a device.
fn log_shape(device: &[u8]) -> Option<LogShape> {
    let superblock = device.get(1024..).filter(|result| result.get(0x38..0x3a) == Some(&[0x53, 0xef]))?;
    let block = 1024_u64.checked_shl(little(superblock, 0x18)?.try_into().ok()?)?;
    let size = little(superblock, 0x148)? << 32 | little(superblock, 0x14c)?;
    Some(LogShape { size: (size > 0).then_some(Bytes(size)), block: Bytes(block) })
}

/// `4620 transactions (4620 requested), each up to 341 blocks`, and if there was one, their average:
/// `5 logged blocks per transaction`. The kernel truncates the average to whole blocks.
///
/// Periodic commits are not distinguishable: one that is due is also requested, by the next call that ends after it.
fn log_count(info: &str, shape: LogShape) -> Option<Counters> {
    let commits: u64 = info.split_once(" transactions (")?.0.parse().ok()?;
    let each = match info.lines().find_map(|line| line.trim().strip_suffix(" logged blocks per transaction"))
    {
        Some(blocks) => blocks.parse().ok()?,
        None if commits == 0 => 0,
        None => return None,
    };
    let written = commits.checked_mul(each)?.checked_mul(shape.block.0)?;
    Some(Counters::of(Counter::LogWritten, written).with(Counter::Commits, Some(commits)))
}

/// `Max. free extent: 1020 KB`, `Avg. free extent: 12 KB`, `Num. free extent: 7`.
fn free_space(tool: &str, printed: &str) -> Option<FreeSpace> {
    Some(FreeSpace::Known {
        tool: tool.into(),
        extents: bytes(number(printed, "Num. free extent")?)?.0,
        mean: bytes(number(printed, "Avg. free extent")? * 1024.0)?,
        largest: bytes(number(printed, "Max. free extent")? * 1024.0)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_block_size_from_mke2fs_output() {
        assert_eq!(block_size("Creating filesystem with 153600 4k blocks and 38400 inodes\n"), Some(4096));
        assert_eq!(block_size("\nCreating filesystem with 614400 1k blocks and 153600 inodes"), Some(1024));
        assert_eq!(block_size("mke2fs 1.47.0"), None);
        assert_eq!(block_size("Creating filesystem with 10 old blocks"), None);
    }

    #[test]
    fn e2freefrag_is_understood() {
        let text = "Device: /dev/loop3\nBlocksize: 4096 bytes\nTotal blocks: 16384\nFree blocks: 8192 (50.0%)\n\n\
                    Min. free extent: 4 KB \nMax. free extent: 31744 KB\nAvg. free extent: 8192 KB\nNum. free extent: 4\n\n\
                    HISTOGRAM OF FREE EXTENT SIZES:\nExtent Size Range :  Free extents   Free Blocks  Percent\n";
        let known = FreeSpace::Known {
            tool: "tool".into(),
            extents: 4,
            mean: Bytes::mib(8),
            largest: Bytes::mib(31),
        };
        assert_eq!(free_space("tool", text), Some(known));
        assert_eq!(free_space("tool", "no such file"), None);
    }

    /// From Linux 6.18, after synced appends to a journal of 4 MiB.
    #[test]
    fn parses_journal_statistics_and_size() {
        let shape = LogShape { size: Some(Bytes::mib(4)), block: Bytes(4096) };
        let info = "4620 transactions (4620 requested), each up to 341 blocks\naverage: \n  0ms waiting for transaction\n\
                    \x20 1483us average transaction commit time\n  2 handles per transaction\n  3 blocks per transaction\n\
                    \x20 5 logged blocks per transaction\n";
        let counted = |written, commits| {
            Some(Counters::of(Counter::LogWritten, written).with(Counter::Commits, Some(commits)))
        };
        assert_eq!(log_count(info, shape), counted(4620 * 5 * 4096, 4620));
        let fresh = "0 transactions (0 requested), each up to 341 blocks\n";
        assert_eq!(log_count(fresh, shape), counted(0, 0));
        for damaged in
            ["", "3 transactions", "3 transactions (1 requested)\n", "x transactions (1 requested)"]
        {
            assert_eq!(log_count(damaged, shape), None, "{damaged}");
        }
        let mut device = vec![0; 4096];
        device[1024 + 0x38..1024 + 0x3a].copy_from_slice(&[0x53, 0xef]);
        device[1024 + 0x18] = 2;
        device[1024 + 0x14e] = 0x40;
        assert_eq!(log_shape(&device), Some(shape));
        device[1024 + 0x14e] = 0;
        assert_eq!(log_shape(&device), Some(LogShape { size: None, ..shape }));
        device[1024 + 0x1b] = 1;
        assert_eq!(log_shape(&device), None, "no block is that large");
        assert_eq!(log_shape(&device[..1030]), None);
    }

    #[test]
    fn the_superblock_corrects_the_defaults() {
        let judged = |features: &str, options: &[&str]| {
            let header = format!("Filesystem features:      {features}\nJournal device:   0x0700\n");
            let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
            EXT4.character(&Observation { options: &options, mkfs_output: "", header: &header })
        };
        let plain = judged("has_journal metadata_csum", &[]);
        assert_eq!(plain.journal, "metadata (data=ordered), on the log device");
        assert!(plain.durability.no_stale_data && plain.durability.flushes);
        let fast = judged("has_journal", &["data=writeback", "barrier=0"]);
        assert_eq!((fast.durability.flushes, fast.checksums.as_str()), (false, "none"));
        assert!(!fast.durability.no_stale_data && fast.durability.crash_consistent);
        assert!(!judged("extent", &[]).durability.crash_consistent);
        assert_eq!(judged("has_journal", &["data=journal"]).durability.data, DataUpdate::Journalled);
    }
}
