//! The facts of an arm, read back from the device and the mounted filesystem rather than from what was asked for.

use crate::{command::Program, host, mounts::Mounted, queue::selected, sysfs};
use fstrial_model::{
    arm::Arm,
    facts::{ArmFacts, DataUpdate, Durability, Fact},
    filesystem::Filesystem,
    units::Bytes,
};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// What the facts are read from.
#[derive(Debug)]
pub struct Sources<'a> {
    /// The arm as asked for.
    pub arm: &'a Arm,
    /// The device's node and its folder in sysfs; none for a directory.
    pub device: Option<(&'a Path, PathBuf)>,
    /// The mount; none for the bare device.
    pub mounted: Option<&'a Mounted>,
    /// What mkfs printed.
    pub mkfs_output: &'a str,
    /// Whether discards were switched off by us.
    pub discards_forbidden: bool,
}

/// Reads all facts that can be established.
pub fn read(sources: &Sources<'_>) -> ArmFacts {
    let mut facts = BTreeMap::new();
    let volatile_cache = queue_facts(sources, &mut facts);
    let row = sources.mounted.and_then(|m| {
        Filesystem::named(&sources.arm.filesystem).or_else(|| Filesystem::named(&m.filesystem))
    });
    let mut durability = Durability {
        flushes: row.is_some_and(|row| row.flushes),
        crash_consistent: row.is_some_and(|row| row.crash_consistent),
        no_stale_data: row.is_some_and(|row| row.no_stale_data),
        data: row.map_or(DataUpdate::InPlace, |row| row.data),
        volatile_cache,
    };
    let mut notes = Vec::new();
    let dropped = if host::is_root() { "yes" } else { "no" };
    facts.insert(Fact::CachesDropped, dropped.into());
    if !host::is_root() {
        notes.push("the page cache was not dropped before runs (that needs root): reads may be warm".into());
    }
    match sources.mounted {
        Some(mounted) => {
            mount_facts(sources, mounted, &mut facts);
            if let Some(row) = row {
                filesystem_facts(sources, row, mounted, &mut facts, &mut durability);
            } else {
                notes.push(format!("nothing is known about the durability of {}", mounted.filesystem));
            }
        }
        None => {
            // The bare device: a sync call on it flushes its cache; there is no metadata to lose.
            durability =
                Durability { flushes: true, crash_consistent: true, no_stale_data: true, ..durability };
            facts.insert(Fact::Journal, "none".into());
            facts.insert(Fact::Barriers, "on".into());
        }
    }
    ArmFacts { facts, durability, tools: tools(sources.arm), notes, state: None }
}

/// Facts of the device's queue; says whether its cache is volatile.
fn queue_facts(sources: &Sources<'_>, facts: &mut BTreeMap<Fact, String>) -> bool {
    let Some((_, folder)) = &sources.device else { return true };
    let queue = folder.join("queue");
    if let Ok(text) = sysfs::read(queue.join("scheduler")) {
        facts.insert(Fact::Scheduler, selected(&text));
    }
    if let Ok(kib) = sysfs::read_number(queue.join("read_ahead_kb")) {
        facts.insert(Fact::ReadAhead, Bytes::kib(kib).human());
    }
    let cache = sysfs::read(queue.join("write_cache")).unwrap_or_default();
    if !cache.is_empty() {
        facts.insert(Fact::CacheMode, cache.clone());
    }
    cache != "write through"
}

fn mount_facts(sources: &Sources<'_>, mounted: &Mounted, facts: &mut BTreeMap<Fact, String>) {
    facts.insert(Fact::MountOptions, mounted.options().join(","));
    let atime = ["noatime", "relatime", "strictatime"]
        .into_iter()
        .find(|word| mounted.has(word))
        .unwrap_or("strictatime");
    let lazy = if mounted.has("lazytime") { ", lazytime" } else { "" };
    facts.insert(Fact::Atime, format!("{atime}{lazy}"));
    let discard =
        // Asked for in the arm too: ext4 does not show it where the device cannot discard.
        mounted
            .super_options
            .iter()
            .chain(&sources.arm.mount)
            .find(|option| *option == "discard" || option.starts_with("discard="));
    let discard = match (discard, sources.discards_forbidden) {
        (Some(option), true) => {
            format!("asked for ({option}), switched off at the device to keep the image allocated")
        }
        (None, true) => "off (switched off at the device, in every arm)".into(),
        (Some(option), false) => option.clone(),
        (None, false) => "off".into(),
    };
    facts.insert(Fact::Discard, discard);
    if let Ok(stat) = rustix::fs::statvfs(&mounted.target) {
        facts.insert(Fact::BlockSize, Bytes(stat.f_frsize).human());
        // In whole MiB: the last bytes differ by layout and say nothing.
        facts.insert(Fact::SpaceAvailable, Bytes((stat.f_bavail * stat.f_frsize) >> 20 << 20).human());
    }
}

/// Facts that depend on what the filesystem is and which of its options are in effect.
fn filesystem_facts(
    sources: &Sources<'_>,
    row: &Filesystem,
    mounted: &Mounted,
    facts: &mut BTreeMap<Fact, String>,
    durability: &mut Durability,
) {
    let effective = Effective { mounted, all: ext_options(row, mounted) };
    let off = effective.has("nobarrier") || effective.has("barrier=0");
    durability.flushes = row.flushes && !off;
    facts.insert(Fact::Barriers, if durability.flushes { "on" } else { "OFF" }.into());
    facts.insert(Fact::LazyInitialisation, row.lazy.into());
    let compression = mounted.super_options.iter().find(|o| o.starts_with("compress"));
    facts.insert(Fact::Compression, compression.cloned().unwrap_or_else(|| "none".into()));
    let (mut journal, mut checksums) = (row.journal.to_owned(), row.checksums.to_owned());
    match row.kernel {
        "ext2" | "ext3" | "ext4" => ext_facts(sources, &effective, &mut journal, &mut checksums, durability),
        "xfs" if sources.mkfs_output.contains("crc=0") => checksums = "none".into(),
        "btrfs" => {
            if mounted.has("nodatacow") {
                durability.data = DataUpdate::InPlace;
            }
            if mounted.has("nodatacow") || mounted.has("nodatasum") {
                checksums = "metadata".into();
            }
        }
        _ => {}
    }
    facts.insert(Fact::Journal, journal);
    facts.insert(Fact::Checksums, checksums);
    let data = match durability.data {
        DataUpdate::InPlace => "no: data is overwritten in place",
        DataUpdate::CopyOnWrite => "yes",
        DataUpdate::Journalled => "no: data goes through the journal",
    };
    facts.insert(Fact::CopyOnWrite, data.into());
}

/// Options in effect, those that a mount does not show included.
struct Effective<'a> {
    mounted: &'a Mounted,
    all: Vec<String>,
}

impl Effective<'_> {
    fn has(&self, option: &str) -> bool {
        self.mounted.has(option) || self.all.iter().any(|known| known == option)
    }
}

/// All options of a mounted ext filesystem: those that its superblock asks for (`tune2fs -o`, mke2fs.conf) are not
/// shown in mountinfo, because they are its defaults.
fn ext_options(row: &Filesystem, mounted: &Mounted) -> Vec<String> {
    if !["ext2", "ext3", "ext4"].contains(&row.kernel) {
        return Vec::new();
    }
    let Ok(device) = fs::canonicalize(format!("/sys/dev/block/{}", mounted.device)) else {
        return Vec::new();
    };
    let name = device.file_name().unwrap_or_default();
    let listed = sysfs::read(Path::new("/proc/fs/ext4").join(name).join("options")).unwrap_or_default();
    listed.lines().map(str::to_owned).collect()
}

/// The ext family says what it is in its superblock; `dumpe2fs -h` reads it, where we may.
fn ext_facts(
    sources: &Sources<'_>,
    effective: &Effective<'_>,
    journal: &mut String,
    checksums: &mut String,
    durability: &mut Durability,
) {
    let source = match &sources.device {
        Some((device, _)) => device.display().to_string(),
        None => effective.mounted.source.clone(),
    };
    let header = Program::new("dumpe2fs").args(["-h"]).args([source]).run();
    let printed = header.map(|header| header.stdout).unwrap_or_default();
    let features = printed.lines().find_map(|line| line.strip_prefix("Filesystem features:"));
    let has = |feature: &str| features.map(|all| all.split_whitespace().any(|word| word == feature));
    if has("has_journal") == Some(false) {
        *journal = "none".into();
        durability.crash_consistent = false;
        durability.no_stale_data = false;
    } else if effective.has("data=journal") {
        *journal = "metadata and data (data=journal)".into();
        durability.data = DataUpdate::Journalled;
    } else if effective.has("data=writeback") {
        *journal = "metadata (data=writeback)".into();
        durability.no_stale_data = false;
    }
    if let Some(has_checksums) = has("metadata_csum") {
        *checksums = if has_checksums { "metadata" } else { "none" }.into();
    }
}

/// Versions of the tools that made the arm, as they print themselves.
fn tools(arm: &Arm) -> BTreeMap<String, String> {
    let mut tools = BTreeMap::new();
    if let Some(row) = arm.row()
        && let Ok(printed) = Program::new(row.mkfs).args([row.mkfs_version]).finish()
    {
        let both = format!("{}\n{}", printed.stdout, printed.stderr);
        let line = both.lines().find(|line| line.chars().any(|c| c.is_ascii_digit())).unwrap_or_default();
        tools.insert(row.mkfs.to_owned(), line.trim().to_owned());
    }
    tools
}
