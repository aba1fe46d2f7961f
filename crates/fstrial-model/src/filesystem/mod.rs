//! Filesystems: one row each, with all of fstrial's knowledge of it. No other module refers to a filesystem by its
//! name.
//!
//! A row is data and pure functions. `fstrial-stack` takes commands from it, and passes it their output to parse. A
//! family of filesystems is a file: `ext.rs` is the fullest example, those in `others.rs` have rows of data only.
//!
//! ```text
//! row ─► mkfs, mount, check …   what to run
//!     ◄─ header, options        what was printed and what the kernel shows ([`Observation`])
//!     ─► Character              what the mounted filesystem is
//! ```

mod btrfs;
mod ext;
mod log;
mod others;
pub mod waits;
mod xfs;

pub use log::{LogReader, LogShape, SUPERBLOCK_BYTES};

use crate::{
    ability::{self, Abilities},
    facts::{DataUpdate, Durability},
    mkfs_options::MkfsOptions,
    profile::Profile,
    state::FreeSpace,
    units::Bytes,
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
    /// Its other programs that print their version under `-V`: they know no `--version`.
    pub version_by_v: &'static [&'static str],
    /// Query for mkfs's default block size; for filesystems with a journal in blocks.
    pub mkfs_block: Option<MkfsBlock>,
    /// Mount options always given, before the user's.
    pub mount_base: &'static [&'static str],
    /// The mount option that disables default discards.
    pub nodiscard: Option<&'static str>,
    /// The option that it does without on a device that is marked as rotating.
    pub on_rotating: Option<OnRotating>,
    /// Options for an external journal or log, or the reason against it: a clause that can follow its name.
    pub external_log: Result<ExternalLog, &'static str>,
    /// The full check, read-only if possible: program and arguments before the device.
    pub fsck: Option<(&'static str, &'static [&'static str])>,
    /// Its layout on several devices, if it supports them.
    pub several: Option<Several>,
    /// True if it is copy-on-write but overwrites marked files in place (`FS_NOCOW_FL`).
    pub can_overwrite_in_place: bool,
    /// The kernel's file of all options in effect, with `{device}` for the device's name in the kernel.
    pub all_options: Option<&'static str>,
    /// A program that prints the superblock, with its arguments before the device.
    pub header: Option<(&'static str, &'static [&'static str])>,
    /// Corrects the defaults below by the facts of a mounted one.
    pub correct: fn(&Observation<'_>, &mut Character),
    /// The subject of a kernel message, if it is a complaint of this filesystem: its device, if it names one.
    pub complaint: fn(&str) -> Option<Option<&str>>,
    /// The program that reports the fragmentation of its free space.
    pub free_space: Option<FreeSpaceReader>,
    /// Progress of its journal or log, if the kernel counts it.
    pub log: Option<LogReader>,
    /// Its means of operations that differ between filesystems, or reasons why they are missing.
    pub abilities: &'static Abilities,
    /// The least device it can be made on, in MiB.
    pub min_size_mib: u64,
    /// Distribution packages with its programs: apt, dnf, zypper, pacman.
    pub packages: [&'static str; 4],
    /// Default scope of journalling.
    pub journal: &'static str,
    /// Default scope of checksums.
    pub checksums: &'static str,
    /// Default update policy of data blocks.
    pub data: DataUpdate,
    /// A sync call flushes the device's cache by default.
    pub flushes: bool,
    /// Metadata survives a crash without a repair.
    pub crash_consistent: bool,
    /// No file shows another's old data after a crash by default.
    pub no_stale_data: bool,
    /// Work that mkfs would defer, and the measure taken against it.
    pub lazy: &'static str,
}

/// An option that a filesystem does without on a device that is marked as rotating.
#[derive(Debug, Clone, Copy)]
pub struct OnRotating {
    /// The mount option; as an item of an arm it shows its effect.
    pub option: &'static str,
    /// Cost of its absence, for loads that sync from several threads, as a sentence completed by the length of a tick.
    pub cost: &'static str,
}

/// Query for mkfs's default block size.
#[derive(Debug, Clone, Copy)]
pub struct MkfsBlock {
    /// The word to leave out, which would silence it.
    pub quiet: &'static str,
    /// The word with which it makes nothing.
    pub try_only: &'static str,
    /// Parses the bytes of a block from its output.
    pub read: fn(&str) -> Option<u64>,
}

/// Options for an external journal or log.
#[derive(Debug, Clone, Copy)]
pub struct ExternalLog {
    /// The program that makes the device a journal first, if mkfs does not, with its words before the size of a block
    /// and the device. The size has to be that of the filesystem: left to itself, mkfs would take the journal's.
    pub made_by: Option<(&'static str, &'static [&'static str])>,
    /// The flag of mkfs, and its value before the device.
    pub mkfs: [&'static str; 2],
    /// The mount option before the device.
    pub mount: &'static str,
    /// The flag of the full check.
    pub check: &'static str,
    /// True if a word of the arm for mkfs contradicts it.
    pub contradicts: fn(&str) -> bool,
}

impl ExternalLog {
    /// The words for mkfs, with a log on this device.
    pub fn mkfs_words(self, log: &str) -> [String; 2] {
        let [flag, value] = self.mkfs;
        [flag.into(), format!("{value}{log}")]
    }

    /// The mount option with the node of the log device, such as `logdev=/dev/loop1`.
    pub fn mount_option(self, log: &str) -> String {
        format!("{}{log}", self.mount)
    }

    /// The words for the full check.
    pub fn check_words(self, log: &str) -> [String; 2] {
        [self.check.into(), log.into()]
    }
}

/// Native layout of a filesystem on several devices.
#[derive(Debug, Clone, Copy)]
pub struct Several {
    /// Folder with a folder for each that is mounted, in which `devices` lists its devices, and `allocation/KIND` has
    /// a folder named after each profile of a kind of space.
    pub sysfs: &'static str,
    /// The program, and its words before the devices, that make the kernel forget them.
    pub forget: (&'static str, &'static [&'static str]),
    /// The flags of mkfs for the profile of data, short and long.
    pub data: [&'static str; 2],
    /// The same of metadata.
    pub metadata: [&'static str; 2],
}

impl Several {
    /// The words for mkfs for a profile.
    pub fn mkfs_words(self, profile: Profile) -> [String; 4] {
        [self.data[0], profile.data.name(), self.metadata[0], profile.metadata.name()].map(str::to_owned)
    }

    /// True if a word for mkfs sets a profile.
    pub fn sets_profile(self, word: &str) -> bool {
        self.data.iter().chain(&self.metadata).any(|flag| word.starts_with(flag))
    }
}

/// A program that reports the fragmentation of an unmounted filesystem's free space.
#[derive(Debug, Clone, Copy)]
pub struct FreeSpaceReader {
    /// Its name.
    pub program: &'static str,
    /// Its words before the device.
    pub words: &'static [&'static str],
    /// Parses its command line and output; none if they are not understood.
    pub read: fn(&str, &str) -> Option<FreeSpace>,
}

/// Data read from a mounted filesystem.
#[derive(Debug, Clone, Copy)]
pub struct Observation<'a> {
    /// All options in effect, as far as they are known.
    pub options: &'a [String],
    /// Output of mkfs; empty if others made it.
    pub mkfs_output: &'a str,
    /// Output of [`Filesystem::header`]; empty if it may not read the device.
    pub header: &'a str,
}

impl Observation<'_> {
    /// True if an option is in effect.
    pub fn has(&self, option: &str) -> bool {
        self.options.iter().any(|known| known == option)
    }

    /// The rest of the first option with this prefix (`logdev=`).
    pub fn value(&self, name: &str) -> Option<&str> {
        self.options.iter().find_map(|option| option.strip_prefix(name))
    }
}

/// Properties of a mounted filesystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Character {
    /// Scope of journalling.
    pub journal: String,
    /// Scope of checksums.
    pub checksums: String,
    /// Stripe that it aligns to, such as `64 KiB, 256 KiB in all`; none if it has no stripe.
    pub stripe: Option<String>,
    /// Its guarantees. Volatility of the device's cache is unknown here: false.
    pub durability: Durability,
}

impl Character {
    /// Notes that the journal or log is not on the device itself.
    fn journal_on_another_device(&mut self) {
        self.journal.push_str(", on the log device");
    }
}

/// The number after a word at the beginning of a line, ignoring the rest.
fn number(text: &str, word: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.trim().strip_prefix(word))?;
    rest.trim_start_matches([':', '=', ' ']).split_whitespace().next()?.parse().ok()
}

fn bytes(value: f64) -> Option<Bytes> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "range checked")]
    (0.0..9e18).contains(&value).then_some(Bytes(value as u64))
}

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
    version_by_v: &[],
    mkfs_block: None,
    mount_base: &[],
    nodiscard: None,
    on_rotating: None,
    external_log: Err("has no journal or log that could be on another device"),
    fsck: None,
    several: None,
    can_overwrite_in_place: false,
    all_options: None,
    header: None,
    correct: |_, _| {},
    complaint: |_| None,
    free_space: None,
    log: None,
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

/// Filesystems that users request and no row makes: they can be compared as directories on a mounted one.
pub const NOT_MADE: &[&str] = &[
    "zfs",
    "ntfs",
    "apfs",
    "hfsplus",
    "nfs",
    "nfs4",
    "cifs",
    "smb",
    "ceph",
    "cephfs",
    "glusterfs",
    "lustre",
    "gfs2",
    "ocfs2",
    "overlay",
    "overlayfs",
    "tmpfs",
    "ramfs",
    "fuse",
    "squashfs",
    "erofs",
    "ubifs",
];

/// Every filesystem known, in the order they are listed.
pub const FILESYSTEMS: &[Filesystem] = &[
    ext::EXT4,
    xfs::XFS,
    btrfs::BTRFS,
    ext::EXT3,
    ext::EXT2,
    others::F2FS,
    others::JFS,
    others::REISERFS,
    others::NILFS2,
    others::BCACHEFS,
    others::EXFAT,
    others::VFAT,
    others::NTFS3,
    others::UDF,
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

    /// The names of those that have something, in alphabetical order, with a word before the last: `ext3, ext4 and xfs`.
    pub fn names_of(has: impl Fn(&Self) -> bool, word: &str) -> String {
        let mut names: Vec<&str> = FILESYSTEMS.iter().filter(|row| has(row)).map(|row| row.name).collect();
        names.sort_unstable();
        match names.split_last() {
            Some((last, others)) if !others.is_empty() => format!("{} {word} {last}", others.join(", ")),
            _ => names.concat(),
        }
    }

    /// Properties of a mounted one: its defaults, corrected by the data read from it.
    pub fn character(&self, observed: &Observation<'_>) -> Character {
        let no_flushes = observed.has("nobarrier") || observed.has("barrier=0");
        let mut character = Character {
            journal: self.journal.into(),
            checksums: self.checksums.into(),
            stripe: None,
            durability: Durability {
                flushes: self.flushes && !no_flushes,
                crash_consistent: self.crash_consistent,
                no_stale_data: self.no_stale_data,
                data: self.data,
                volatile_cache: false,
            },
        };
        (self.correct)(observed, &mut character);
        character
    }

    /// The mkfs flag under which a short-form item such as `agcount=16` belongs; none if mkfs does not know it.
    pub fn mkfs_flag_of(&self, item: &str) -> Option<&'static str> {
        let (word, _value) = item.split_once('=')?;
        self.mkfs_words.iter().find(|(_, words)| words.contains(&word)).map(|(flag, _)| *flag)
    }

    /// The arguments of mkfs before the device: the row's own, then the user's, with the values of list flags joined.
    pub(crate) fn mkfs_arguments(&self, user: &[String]) -> Vec<String> {
        let mut arguments: Vec<String> = Vec::new();
        let user = self.mkfs_options.read(self.mkfs, user).expect("the words of a checked arm");
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
    fn lists_of_names_are_sentences() {
        assert_eq!(Filesystem::names_of(|row| row.external_log.is_ok(), "and"), "ext3, ext4 and xfs");
        assert_eq!(Filesystem::names_of(|row| row.several.is_some(), "or"), "btrfs");
        assert_eq!(Filesystem::names_of(|_| false, "or"), "");
    }

    #[test]
    fn user_list_flags_are_merged_with_defaults() {
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
