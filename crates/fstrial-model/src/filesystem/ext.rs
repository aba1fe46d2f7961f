//! ext4, and ext3 and ext2, which are made by the same programs and mounted by the same module.

use super::{
    Character, ExternalLog, Filesystem, FreeSpaceReader, MkfsBlock, Observed, PLAIN, StripeWords, bytes,
    number,
};
use crate::{
    ability::{Abilities, Ability, Unclean},
    facts::DataUpdate,
    mkfs_options::MkfsOptions,
    state::FreeSpace,
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
    stripe: Some(StripeWords {
        own: &["stride", "stripe"],
        words: |chunk, members, block| {
            let stride = (chunk / block).max(1);
            ["-E".into(), format!("stride={stride},stripe_width={}", stride * members)]
        },
    }),
    fsck: Some(("e2fsck", &["-f", "-n"])),
    abilities: &ABILITIES,
    // What its superblock asks for (`tune2fs -o`, mke2fs.conf) is not in mountinfo, because it is its default.
    all_options: Some("/proc/fs/ext4/{device}/options"),
    header: Some(("dumpe2fs", &["-h"])),
    correct,
    complaint,
    free_space: Some(FreeSpaceReader { program: "e2freefrag", words: &[], read: free_space }),
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
    journal: "none",
    checksums: "none",
    crash_consistent: false,
    no_stale_data: false,
    ..EXT4
};

/// Of mkfs.ext2, mkfs.ext3 and mkfs.ext4.
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

/// What ext4 can.
const ABILITIES: Abilities = Abilities {
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
const ABILITIES_EXT3: Abilities = Abilities {
    snapshot: Ability::Cannot("ext3 has no snapshots"),
    delete_snapshot: Ability::Cannot("ext3 has no snapshots"),
    defragment: Ability::Cannot("e4defrag takes files with extents, which ext3 has not"),
    reflink: Ability::Cannot("ext3 has no reflink: files do not share blocks"),
    shrink: Ability::Cannot(
        "ext3 has no online shrink: resize2fs makes it smaller only while it is not mounted",
    ),
    ..ABILITIES
};

/// What ext2 can: no journal either.
const ABILITIES_EXT2: Abilities = Abilities {
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
    ..ABILITIES
};

/// Bytes of a block, in what mke2fs says it would make: `Creating filesystem with 153600 4k blocks and …`.
fn block_size(printed: &str) -> Option<u64> {
    let mut words = printed.split_once("Creating filesystem with ")?.1.split_whitespace();
    let kib: u64 = words.nth(1)?.strip_suffix('k')?.parse().ok()?;
    (words.next()? == "blocks").then_some(kib << 10)
}

/// It says what it is in its superblock, where that may be read.
fn correct(observed: &Observed<'_>, character: &mut Character) {
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

/// `EXT4-fs error (device loop0): …`, `EXT4-fs error (device loop0) in …`; ext2 says `EXT2-fs (loop0): error: …`.
fn complaint(message: &str) -> Option<Option<&str>> {
    let Some(rest) = message.strip_prefix("EXT") else { return journal_complaint(message) };
    let rest = rest.get(1..)?.strip_prefix("-fs")?;
    if let Some(device) = rest.strip_prefix(" error (device ") {
        return Some(device.split(')').next());
    }
    let (device, said) = rest.strip_prefix(" (")?.split_once("): ")?;
    said.starts_with("error: ").then_some(Some(device))
}

/// `JBD2: I/O error when updating journal superblock for loop0-8.`, `Aborting journal on device loop0-8.`
fn journal_complaint(message: &str) -> Option<Option<&str>> {
    if let Some(device) = message.strip_prefix("Aborting journal on device ") {
        return Some(Some(device.trim_end_matches('.')));
    }
    let said = message.strip_prefix("JBD2: ")?;
    if !said.to_ascii_lowercase().contains("error") {
        return None;
    }
    let named = [" for ", " on "].iter().find_map(|before| said.rsplit_once(before));
    Some(
        named.and_then(|(_, device)| device.split_whitespace().next()).map(|word| word.trim_end_matches('.')),
    )
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
    use crate::units::Bytes;

    #[test]
    fn the_block_size_is_found_in_what_mke2fs_says() {
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

    #[test]
    fn the_superblock_corrects_the_defaults() {
        let judged = |features: &str, options: &[&str]| {
            let header = format!("Filesystem features:      {features}\nJournal device:   0x0700\n");
            let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
            EXT4.character(&Observed { options: &options, mkfs_output: "", header: &header })
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
