//! Filesystems whose rows cover making, mounting, checking and guarantees only.

use super::{ExternalLog, Filesystem, PLAIN};
use crate::{facts::DataUpdate, mkfs_options::MkfsOptions};

const LOG_UNKNOWN: Result<ExternalLog, &str> =
    Err("can have its journal on another device, which fstrial does not know how to make");

pub(super) const F2FS: Filesystem = Filesystem {
    name: "f2fs",
    kernel: "f2fs",
    module: "f2fs",
    mkfs: "mkfs.f2fs",
    // Of mkfs.f2fs: `-c` names devices, `-S` takes the device for a file.
    mkfs_options: &MkfsOptions { alone: "imqr", valued: "abCeEoOstTwz", long: &[], lists: &[] },
    mkfs_base: &["-f", "-q", "-t", "0"],
    mkfs_joined: &["-O"],
    nodiscard: Some("nodiscard"),
    fsck: Some(("fsck.f2fs", &["--dry-run"])),
    packages: ["f2fs-tools", "f2fs-tools", "f2fs-tools", "f2fs-tools"],
    journal: "log-structured with checkpoints",
    checksums: "checkpoints",
    data: DataUpdate::CopyOnWrite,
    ..PLAIN
};

pub(super) const JFS: Filesystem = Filesystem {
    name: "jfs",
    kernel: "jfs",
    module: "jfs",
    mkfs: "mkfs.jfs",
    mkfs_options: &MkfsOptions { alone: "Oq", valued: "s", long: &[], lists: &[] },
    mkfs_base: &["-q"],
    external_log: LOG_UNKNOWN,
    fsck: Some(("fsck.jfs", &["-n", "-f"])),
    packages: ["jfsutils", "jfsutils", "jfsutils", "jfsutils"],
    journal: "metadata",
    // Verified by power-cut experiments: jfs never sends a cache flush.
    flushes: false,
    ..PLAIN
};

pub(super) const REISERFS: Filesystem = Filesystem {
    name: "reiserfs",
    kernel: "reiserfs",
    module: "reiserfs",
    mkfs: "mkfs.reiserfs",
    mkfs_options: &MkfsOptions {
        alone: "q",
        valued: "bhst",
        long: &["block-size=", "format=", "hash=", "journal-size=", "quiet", "transaction-max-size="],
        lists: &[],
    },
    mkfs_base: &["-f", "-q"],
    external_log: LOG_UNKNOWN,
    fsck: Some(("reiserfsck", &["--check", "--yes"])),
    packages: ["reiserfsprogs", "reiserfs-utils", "reiserfs", "reiserfsprogs"],
    journal: "metadata (data=ordered)",
    ..PLAIN
};

pub(super) const NILFS2: Filesystem = Filesystem {
    name: "nilfs2",
    kernel: "nilfs2",
    module: "nilfs2",
    mkfs: "mkfs.nilfs2",
    mkfs_options: &MkfsOptions { alone: "Kqv", valued: "bBmO", long: &[], lists: &[] },
    mkfs_base: &["-f", "-q", "-K"],
    min_size_mib: 128,
    packages: ["nilfs-tools", "nilfs-utils", "nilfs-utils", "nilfs-utils"],
    journal: "log-structured",
    checksums: "metadata and data, for recovery only",
    data: DataUpdate::CopyOnWrite,
    ..PLAIN
};

pub(super) const BCACHEFS: Filesystem = Filesystem {
    name: "bcachefs",
    kernel: "bcachefs",
    module: "bcachefs",
    mkfs: "mkfs.bcachefs",
    // From mkfs.bcachefs, whose `--source` copies a folder.
    mkfs_options: &MkfsOptions {
        alone: "qv",
        valued: "",
        long: &[
            "acl",
            "background_compression=",
            "block_size=",
            "btree_node_size=",
            "bucket_size=",
            "compression=",
            "data_checksum=",
            "data_replicas=",
            "discard",
            "encoded_extent_max=",
            "erasure_code",
            "fs_size=",
            "gc_reserve_bytes=",
            "gc_reserve_percent=",
            "inodes_32bit",
            "metadata_checksum=",
            "metadata_replicas=",
            "quiet",
            "replicas=",
            "root_reserve_percent=",
            "shard_inode_numbers",
            "str_hash=",
            "superblock_size=",
            "verbose",
            "wide_macs",
        ],
        lists: &[],
    },
    mkfs_base: &["--force", "--quiet"],
    mkfs_version: "version",
    fsck: Some(("bcachefs", &["fsck", "-n"])),
    min_size_mib: 128,
    packages: ["bcachefs-tools", "bcachefs-tools", "bcachefs-tools", "bcachefs-tools"],
    journal: "copy-on-write trees and a journal",
    checksums: "metadata and data",
    data: DataUpdate::CopyOnWrite,
    ..PLAIN
};

pub(super) const EXFAT: Filesystem = Filesystem {
    name: "exfat",
    kernel: "exfat",
    module: "exfat",
    mkfs: "mkfs.exfat",
    // Of mkfs.exfat (exfatprogs), where `-f` is a full format.
    mkfs_options: &MkfsOptions {
        alone: "fqv",
        valued: "bcs",
        long: &[
            "boundary-align=",
            "cluster-size=",
            "full-format",
            "pack-bitmap",
            "quiet",
            "sector-size=",
            "verbose",
        ],
        lists: &[],
    },
    fsck: Some(("fsck.exfat", &["-n"])),
    packages: ["exfatprogs", "exfatprogs", "exfatprogs", "exfatprogs"],
    crash_consistent: false,
    no_stale_data: false,
    ..PLAIN
};

pub(super) const VFAT: Filesystem = Filesystem {
    name: "vfat",
    kernel: "vfat",
    module: "vfat",
    mkfs: "mkfs.vfat",
    // Of mkfs.vfat (dosfstools), where `-F` is the width of the table. `-C`, `-l` and `-m` name files.
    mkfs_options: &MkfsOptions { alone: "aAv", valued: "bfFghMrRsS", long: &["invariant"], lists: &[] },
    mkfs_base: &["-I"],
    mkfs_version: "--help",
    fsck: Some(("fsck.vfat", &["-n"])),
    packages: ["dosfstools", "dosfstools", "dosfstools", "dosfstools"],
    crash_consistent: false,
    no_stale_data: false,
    ..PLAIN
};

pub(super) const NTFS3: Filesystem = Filesystem {
    name: "ntfs3",
    kernel: "ntfs3",
    module: "ntfs3",
    mkfs: "mkfs.ntfs",
    mkfs_options: &MkfsOptions {
        alone: "CfIqQTv",
        valued: "csz",
        long: &[
            "cluster-size=",
            "enable-compression",
            "fast",
            "mft-zone-multiplier=",
            "no-indexing",
            "quick",
            "quiet",
            "sector-size=",
            "verbose",
            "zero-time",
        ],
        lists: &[],
    },
    mkfs_base: &["-Q", "-F", "-q"],
    packages: ["ntfs-3g", "ntfsprogs", "ntfsprogs", "ntfs-3g"],
    journal: "metadata",
    crash_consistent: false,
    no_stale_data: false,
    ..PLAIN
};

pub(super) const UDF: Filesystem = Filesystem {
    name: "udf",
    kernel: "udf",
    module: "udf",
    mkfs: "mkfs.udf",
    // From mkfs.udf, whose `--new-file` makes a file.
    mkfs_options: &MkfsOptions {
        alone: "",
        valued: "bmr",
        long: &[
            "ad=",
            "blocksize=",
            "media-type=",
            "noefe",
            "packetlen=",
            "space=",
            "sparspace=",
            "spartable=",
            "strategy=",
            "udfrev=",
        ],
        lists: &[],
    },
    mkfs_base: &["--media-type=hd"],
    mkfs_version: "--help",
    packages: ["udftools", "udftools", "udftools", "udftools"],
    crash_consistent: false,
    no_stale_data: false,
    ..PLAIN
};
