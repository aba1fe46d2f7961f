//! The filesystem table: everything fstrial knows about a filesystem, one row each. Adding one is adding a row.
//!
//! Rows are data only; `fstrial-stack` runs the programs and reads the facts back from the mounted filesystem.

use crate::{
    ability::{self, Abilities},
    device::Stripe,
    facts::DataUpdate,
    mkfs_options::{self, MkfsOptions},
};

/// One filesystem.
#[derive(Debug, Clone, Copy)]
pub struct Filesystem {
    /// The word in arms.
    pub name: &'static str,
    /// The name the kernel registers (`/proc/filesystems`, `mount -t`).
    pub kernel: &'static str,
    /// Kernel module to try where the kernel does not list it yet.
    pub module: &'static str,
    /// The program that makes it.
    pub mkfs: &'static str,
    /// Arguments always given to mkfs, before the user's: no questions, no discard, nothing left for later.
    pub mkfs_base: &'static [&'static str],
    /// mkfs flags that take a list and count only once (`-E a -E b` keeps `b`): all values are joined by commas.
    pub mkfs_joined: &'static [&'static str],
    /// The options that arms may give mkfs.
    pub mkfs_options: &'static MkfsOptions,
    /// Short-form words that belong to mkfs, with their flag.
    pub mkfs_words: &'static [(&'static str, &'static [&'static str])],
    /// The flag under which mkfs prints its version.
    pub mkfs_version: &'static str,
    /// Mount options always given, before the user's.
    pub mount_base: &'static [&'static str],
    /// The mount option that keeps it from discarding, where it does so unasked.
    pub nodiscard: Option<&'static str>,
    /// How its journal or log is put on another device, where that can be done.
    pub external_log: Option<ExternalLog>,
    /// How mkfs is told of a stripe, where it can be.
    pub stripe: Option<StripeWords>,
    /// The full check, read-only where there is such a thing: program and arguments before the device.
    pub fsck: Option<(&'static str, &'static [&'static str])>,
    /// What it does operations with that are not the same everywhere, or why it cannot.
    pub abilities: &'static Abilities,
    /// The least device it can be made on, in MiB.
    pub min_size_mib: u64,
    /// Distribution packages with its programs: apt, dnf, zypper, pacman.
    pub packages: [&'static str; 4],
    /// What is journalled by default.
    pub journal: &'static str,
    /// What carries checksums by default.
    pub checksums: &'static str,
    /// How data blocks are updated by default.
    pub data: DataUpdate,
    /// A sync call flushes the device's cache by default.
    pub flushes: bool,
    /// Metadata survives a crash without a repair.
    pub crash_consistent: bool,
    /// No file shows another's old data after a crash by default.
    pub no_stale_data: bool,
    /// What mkfs would leave for later, and what is done about it.
    pub lazy: &'static str,
}

/// How a journal or log is put on another device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExternalLog {
    /// ext3 and ext4: the device is made a journal first (`mke2fs -O journal_dev`), with the blocks of the filesystem.
    ExtJournal,
    /// XFS: mkfs makes the log itself.
    XfsLog,
}

impl ExternalLog {
    /// What mkfs is told, for a log on this device.
    pub fn mkfs_words(self, log: &str) -> [String; 2] {
        match self {
            Self::ExtJournal => ["-J".into(), format!("device={log}")],
            Self::XfsLog => ["-l".into(), format!("logdev={log}")],
        }
    }

    /// The mount option.
    pub fn mount_option(self, log: &str) -> String {
        match self {
            Self::ExtJournal => format!("journal_path={log}"),
            Self::XfsLog => format!("logdev={log}"),
        }
    }

    /// What the full check is told.
    pub fn check_words(self, log: &str) -> [String; 2] {
        let flag = match self {
            Self::ExtJournal => "-j",
            Self::XfsLog => "-l",
        };
        [flag.into(), log.into()]
    }
}

/// How mkfs is told of a stripe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StripeWords {
    /// ext: in blocks of the filesystem.
    Ext,
    /// XFS: the chunk in bytes, and the members.
    Xfs,
}

impl StripeWords {
    /// The words, for blocks of this many bytes; none if the arm's own words of mkfs say something of a stripe.
    pub fn words(self, stripe: Stripe, block: u64, own: &[String]) -> Option<[String; 2]> {
        let names = ["stride", "stripe", "su=", "sw=", "sunit", "swidth", "noalign"];
        if own.iter().any(|word| names.iter().any(|name| word.contains(name))) {
            return None;
        }
        let members = u64::from(stripe.data_members);
        Some(match self {
            Self::Ext => {
                let stride = (stripe.chunk.0 / block).max(1);
                ["-E".into(), format!("stride={stride},stripe_width={}", stride * members)]
            }
            Self::Xfs => ["-d".into(), format!("su={},sw={members}", stripe.chunk.0)],
        })
    }
}

const EXT_FSCK: Option<(&str, &[&str])> = Some(("e2fsck", &["-f", "-n"]));
const EXT_PACKAGES: [&str; 4] = ["e2fsprogs", "e2fsprogs", "e2fsprogs", "e2fsprogs"];
const EXT_WORDS: &[(&str, &[&str])] = &[(
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
)];
const EXT_LAZY: &str = "inode tables and journal written by mkfs";

/// The default row that the others change.
const PLAIN: Filesystem = Filesystem {
    name: "",
    kernel: "",
    module: "",
    mkfs: "",
    mkfs_base: &[],
    mkfs_joined: &[],
    mkfs_options: &MkfsOptions { alone: "", valued: "", long: &[], lists: &[] },
    mkfs_words: &[],
    mkfs_version: "-V",
    mount_base: &[],
    nodiscard: None,
    external_log: None,
    stripe: None,
    fsck: None,
    abilities: &ability::UNKNOWN,
    min_size_mib: 64,
    packages: ["", "", "", ""],
    journal: "none",
    checksums: "none",
    data: DataUpdate::InPlace,
    flushes: true,
    crash_consistent: true,
    no_stale_data: true,
    lazy: "none",
};

const EXT4: Filesystem = Filesystem {
    name: "ext4",
    kernel: "ext4",
    module: "ext4",
    mkfs: "mkfs.ext4",
    mkfs_base: &["-F", "-q", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"],
    mkfs_joined: &["-E", "-O"],
    mkfs_options: &mkfs_options::EXT,
    mkfs_words: EXT_WORDS,
    external_log: Some(ExternalLog::ExtJournal),
    stripe: Some(StripeWords::Ext),
    fsck: EXT_FSCK,
    abilities: &ability::EXT4,
    packages: EXT_PACKAGES,
    journal: "metadata (data=ordered)",
    checksums: "metadata",
    lazy: EXT_LAZY,
    ..PLAIN
};

/// Every filesystem known, in the order they are listed.
pub const FILESYSTEMS: &[Filesystem] = &[
    EXT4,
    Filesystem {
        name: "xfs",
        kernel: "xfs",
        module: "xfs",
        mkfs: "mkfs.xfs",
        mkfs_options: &mkfs_options::XFS,
        mkfs_base: &["-f", "-K"],
        mkfs_words: &[
            (
                "-d",
                &[
                    "agcount",
                    "agsize",
                    "su",
                    "sw",
                    "sunit",
                    "swidth",
                    "extszinherit",
                    "daxinherit",
                    "cowextsize",
                ],
            ),
            ("-m", &["crc", "finobt", "reflink", "rmapbt", "bigtime", "inobtcount"]),
            ("-i", &["maxpct", "attr", "sparse", "nrext64"]),
            ("-l", &["lazy-count"]),
        ],
        external_log: Some(ExternalLog::XfsLog),
        stripe: Some(StripeWords::Xfs),
        fsck: Some(("xfs_repair", &["-n"])),
        abilities: &ability::XFS,
        min_size_mib: 300,
        packages: ["xfsprogs", "xfsprogs", "xfsprogs", "xfsprogs"],
        journal: "metadata",
        checksums: "metadata",
        lazy: "inodes are allocated on demand by design",
        ..PLAIN
    },
    Filesystem {
        name: "btrfs",
        kernel: "btrfs",
        module: "btrfs",
        mkfs: "mkfs.btrfs",
        mkfs_options: &mkfs_options::BTRFS,
        mkfs_base: &["-f", "-q", "-K"],
        mkfs_joined: &["-O", "-R"],
        // It discards in the background from Linux 6.2 on.
        nodiscard: Some("nodiscard"),
        fsck: Some(("btrfs", &["check", "--readonly"])),
        abilities: &ability::BTRFS,
        min_size_mib: 128,
        packages: ["btrfs-progs", "btrfs-progs", "btrfsprogs", "btrfs-progs"],
        journal: "copy-on-write trees and a log tree for syncs",
        checksums: "metadata and data",
        data: DataUpdate::CopyOnWrite,
        lazy: "space cache tree is made by mkfs or at first mount",
        ..PLAIN
    },
    Filesystem {
        name: "ext3",
        kernel: "ext3",
        module: "ext4",
        mkfs: "mkfs.ext3",
        abilities: &ability::EXT3,
        checksums: "none",
        ..EXT4
    },
    Filesystem {
        name: "ext2",
        kernel: "ext2",
        module: "ext4",
        mkfs: "mkfs.ext2",
        abilities: &ability::EXT2,
        external_log: None,
        journal: "none",
        checksums: "none",
        crash_consistent: false,
        no_stale_data: false,
        ..EXT4
    },
    Filesystem {
        name: "f2fs",
        kernel: "f2fs",
        module: "f2fs",
        mkfs: "mkfs.f2fs",
        mkfs_options: &mkfs_options::F2FS,
        mkfs_base: &["-f", "-q", "-t", "0"],
        mkfs_joined: &["-O"],
        nodiscard: Some("nodiscard"),
        fsck: Some(("fsck.f2fs", &["--dry-run"])),
        packages: ["f2fs-tools", "f2fs-tools", "f2fs-tools", "f2fs-tools"],
        journal: "log-structured with checkpoints",
        checksums: "checkpoints",
        data: DataUpdate::CopyOnWrite,
        ..PLAIN
    },
    Filesystem {
        name: "jfs",
        kernel: "jfs",
        module: "jfs",
        mkfs: "mkfs.jfs",
        mkfs_options: &mkfs_options::JFS,
        mkfs_base: &["-q"],
        fsck: Some(("fsck.jfs", &["-n", "-f"])),
        packages: ["jfsutils", "jfsutils", "jfsutils", "jfsutils"],
        journal: "metadata",
        // Verified by power-cut experiments: jfs never sends a cache flush.
        flushes: false,
        ..PLAIN
    },
    Filesystem {
        name: "reiserfs",
        kernel: "reiserfs",
        module: "reiserfs",
        mkfs: "mkfs.reiserfs",
        mkfs_options: &mkfs_options::REISERFS,
        mkfs_base: &["-f", "-q"],
        fsck: Some(("reiserfsck", &["--check", "--yes"])),
        packages: ["reiserfsprogs", "reiserfs-utils", "reiserfs", "reiserfsprogs"],
        journal: "metadata (data=ordered)",
        ..PLAIN
    },
    Filesystem {
        name: "nilfs2",
        kernel: "nilfs2",
        module: "nilfs2",
        mkfs: "mkfs.nilfs2",
        mkfs_options: &mkfs_options::NILFS2,
        mkfs_base: &["-f", "-q", "-K"],
        min_size_mib: 128,
        packages: ["nilfs-tools", "nilfs-utils", "nilfs-utils", "nilfs-utils"],
        journal: "log-structured",
        checksums: "metadata and data, for recovery only",
        data: DataUpdate::CopyOnWrite,
        ..PLAIN
    },
    Filesystem {
        name: "bcachefs",
        kernel: "bcachefs",
        module: "bcachefs",
        mkfs: "mkfs.bcachefs",
        mkfs_options: &mkfs_options::BCACHEFS,
        mkfs_base: &["--force", "--quiet"],
        mkfs_version: "version",
        fsck: Some(("bcachefs", &["fsck", "-n"])),
        min_size_mib: 128,
        packages: ["bcachefs-tools", "bcachefs-tools", "bcachefs-tools", "bcachefs-tools"],
        journal: "copy-on-write trees and a journal",
        checksums: "metadata and data",
        data: DataUpdate::CopyOnWrite,
        ..PLAIN
    },
    Filesystem {
        name: "exfat",
        kernel: "exfat",
        module: "exfat",
        mkfs: "mkfs.exfat",
        mkfs_options: &mkfs_options::EXFAT,
        fsck: Some(("fsck.exfat", &["-n"])),
        packages: ["exfatprogs", "exfatprogs", "exfatprogs", "exfatprogs"],
        crash_consistent: false,
        no_stale_data: false,
        ..PLAIN
    },
    Filesystem {
        name: "vfat",
        kernel: "vfat",
        module: "vfat",
        mkfs: "mkfs.vfat",
        mkfs_options: &mkfs_options::VFAT,
        mkfs_base: &["-I"],
        mkfs_version: "--help",
        fsck: Some(("fsck.vfat", &["-n"])),
        packages: ["dosfstools", "dosfstools", "dosfstools", "dosfstools"],
        crash_consistent: false,
        no_stale_data: false,
        ..PLAIN
    },
    Filesystem {
        name: "ntfs3",
        kernel: "ntfs3",
        module: "ntfs3",
        mkfs: "mkfs.ntfs",
        mkfs_options: &mkfs_options::NTFS,
        mkfs_base: &["-Q", "-F", "-q"],
        packages: ["ntfs-3g", "ntfsprogs", "ntfsprogs", "ntfs-3g"],
        journal: "metadata",
        crash_consistent: false,
        no_stale_data: false,
        ..PLAIN
    },
    Filesystem {
        name: "udf",
        kernel: "udf",
        module: "udf",
        mkfs: "mkfs.udf",
        mkfs_options: &mkfs_options::UDF,
        mkfs_base: &["--media-type=hd"],
        mkfs_version: "--help",
        packages: ["udftools", "udftools", "udftools", "udftools"],
        crash_consistent: false,
        no_stale_data: false,
        ..PLAIN
    },
];

impl Filesystem {
    /// The row of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        FILESYSTEMS.iter().find(|row| row.name == name)
    }

    /// All names, in the table's order.
    pub fn names() -> Vec<&'static str> {
        FILESYSTEMS.iter().map(|row| row.name).collect()
    }

    /// The mkfs flag under which a short-form item such as `agcount=16` belongs; none if mkfs does not know it.
    pub fn mkfs_flag_of(&self, item: &str) -> Option<&'static str> {
        let (word, _value) = item.split_once('=')?;
        self.mkfs_words.iter().find(|(_, words)| words.contains(&word)).map(|(flag, _)| *flag)
    }

    /// The arguments of mkfs before the device: the row's own, then the user's, with the values of list flags joined.
    pub fn mkfs_arguments(&self, user: &[String]) -> Vec<String> {
        let mut arguments: Vec<String> = Vec::new();
        // Refused words get no further than `Arm::problem`; here they are only shown.
        let user = self.mkfs_options.read(self.mkfs, user).unwrap_or_else(|_| user.to_vec());
        let mut words = self.mkfs_base.iter().map(|word| (*word).to_owned()).chain(user);
        while let Some(word) = words.next() {
            if !self.mkfs_joined.contains(&word.as_str()) {
                arguments.push(word);
                continue;
            }
            let Some(value) = words.next() else {
                arguments.push(word);
                break;
            };
            match arguments.iter().position(|earlier| *earlier == word) {
                Some(at) => {
                    arguments[at + 1].push(',');
                    arguments[at + 1].push_str(&value);
                }
                None => arguments.extend([word, value]),
            }
        }
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_table_is_sound() {
        let names: BTreeSet<_> = Filesystem::names().into_iter().collect();
        assert_eq!(names.len(), FILESYSTEMS.len(), "names are unique");
        for row in FILESYSTEMS {
            assert!(!row.kernel.is_empty() && !row.mkfs.is_empty() && !row.module.is_empty(), "{}", row.name);
            assert!(
                row.packages.iter().all(|package| !package.is_empty()),
                "{} names its packages",
                row.name
            );
            assert!(row.name != crate::arm::RAW && row.name != crate::arm::DIRECTORY);
        }
    }

    #[test]
    fn a_stripe_in_each_filesystems_own_words() {
        let stripe = Stripe { chunk: crate::units::Bytes::kib(64), data_members: 4 };
        let words = |words: StripeWords, own: &[&str]| {
            words.words(stripe, 4096, &own.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(words(StripeWords::Ext, &["-b", "4096"]).unwrap(), ["-E", "stride=16,stripe_width=64"]);
        assert_eq!(words(StripeWords::Xfs, &["-d", "agcount=2"]).unwrap(), ["-d", "su=65536,sw=4"]);
        assert_eq!(words(StripeWords::Xfs, &["-d", "su=32k"]), None);
        assert_eq!(words(StripeWords::Ext, &["-E", "stride=2"]), None);
    }

    #[test]
    fn list_flags_are_joined_so_that_ours_survive_the_users() {
        let row = Filesystem::named("ext4").unwrap();
        let user: Vec<String> = ["-Estride=16", "-b", "4096", "-O", "^has_journal"].map(String::from).into();
        assert_eq!(
            row.mkfs_arguments(&user),
            [
                "-F",
                "-q",
                "-E",
                "nodiscard,lazy_itable_init=0,lazy_journal_init=0,stride=16",
                "-b",
                "4096",
                "-O",
                "^has_journal"
            ]
        );
    }
}
