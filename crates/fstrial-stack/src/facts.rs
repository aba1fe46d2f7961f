//! The facts of an arm, read back from the device and the mounted filesystem rather than from what was asked for.

use crate::{array, command::Program, host, mounts::Mounted, queue::selected, sysfs};
use fstrial_model::{
    arm::{Arm, is_discard},
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

/// What is said of a journal or log that does not lie on the device itself.
const ON_ANOTHER_DEVICE: &str = ", on the log device";

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
    if let Ok(requests) = sysfs::read(queue.join("nr_requests")) {
        facts.insert(Fact::QueueRequests, requests);
    }
    if let Ok(most) = sysfs::read_number(queue.join("discard_max_bytes")) {
        facts.insert(Fact::DeviceDiscards, if most > 0 { "accepted" } else { "not accepted" }.into());
    }
    if let Some(array) = array::describe(folder) {
        facts.insert(Fact::Members, array);
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
            .find(|option| is_discard(option));
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
    if row.kernel == "xfs" && sources.mkfs_output.contains("crc=0") {
        checksums = "none".into();
    }
    facts.insert(Fact::Stripe, xfs_stripe(mounted).unwrap_or_else(|| "none".into()));
    match row.kernel {
        "ext2" | "ext3" | "ext4" => {
            ext_facts(sources, &effective, &mut journal, &mut checksums, durability, facts);
        }
        "xfs" if mounted.super_options.iter().any(|option| option.starts_with("logdev=")) => {
            journal.push_str(ON_ANOTHER_DEVICE);
        }
        "btrfs" => {
            if let Some(spread) = btrfs_members(sources) {
                facts.insert(Fact::Members, spread);
            }
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

/// How many devices a mounted btrfs lies on, and in which profiles; none for a single one.
fn btrfs_members(sources: &Sources<'_>) -> Option<String> {
    let (device, _) = sources.device.as_ref()?;
    let listing = fs::read_dir("/sys/fs/btrfs").ok()?;
    let name = device.file_name()?;
    let own =
        listing.flatten().map(|entry| entry.path()).find(|path| path.join("devices").join(name).exists())?;
    let count = fs::read_dir(own.join("devices")).ok()?.count();
    // A profile is a folder among the files of a kind of space.
    let profile = |kind: &str| {
        let entries = fs::read_dir(own.join("allocation").join(kind)).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.path().is_dir());
        let mut names: Vec<String> =
            folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names.join("+")
    };
    (count > 1).then(|| format!("{count}, data {}, metadata {}", profile("data"), profile("metadata")))
}

/// The stripe of a mounted XFS, which it gives in sectors.
fn xfs_stripe(mounted: &Mounted) -> Option<String> {
    let sectors = |name: &str| {
        let value = mounted.super_options.iter().find_map(|option| option.strip_prefix(name))?;
        value.parse::<u64>().ok()
    };
    let (unit, width) = sectors("sunit=").zip(sectors("swidth="))?;
    Some(format!("{}, {} in all", Bytes(unit * 512).human(), Bytes(width * 512).human()))
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
    let Ok(device) = fs::canonicalize(mounted.device.sysfs()) else {
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
    facts: &mut BTreeMap<Fact, String>,
) {
    let source = match &sources.device {
        Some((device, _)) => device.display().to_string(),
        None => effective.mounted.source.clone(),
    };
    let header = Program::new("dumpe2fs").args(["-h"]).args([source]).run();
    let printed = header.map(|header| header.stdout).unwrap_or_default();
    let features = printed.lines().find_map(|line| line.strip_prefix("Filesystem features:"));
    let has = |feature: &str| features.map(|all| all.split_whitespace().any(|word| word == feature));
    // An internal journal has an inode instead.
    let is_external = printed.lines().any(|line| line.starts_with("Journal device:"));
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
    let field = |name: &str| printed.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    if let (Some(stride), Some(width)) = (field("RAID stride:"), field("RAID stripe width:")) {
        facts.insert(Fact::Stripe, format!("{stride} blocks, {width} in all"));
    }
    if is_external {
        journal.push_str(ON_ANOTHER_DEVICE);
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
