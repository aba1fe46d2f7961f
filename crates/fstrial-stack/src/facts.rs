//! The facts of an arm, read back from the device and the mounted filesystem rather than taken from the request.

use crate::{
    array,
    command::{Program, version_of},
    host,
    log::folder_of,
    mapped,
    mount_options::key_of,
    mounts::MountEntry,
    queue::selected,
    sysfs,
};
use fstrial_model::{
    arm::{Arm, is_discard},
    facts::{ArmFacts, DataUpdate, Durability, Fact},
    filesystem::{Character, Filesystem, Observation, Several},
    queue::QueueAttribute,
    units::Bytes,
};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Mount options that depend on the device. The kernel shows `ssd_spread` instead of `ssd`; stripes are in [`Fact::Stripe`].
const OF_DEVICES: [&str; 3] = ["ssd", "ssd_spread", "discard"];

/// Sources of the facts.
#[derive(Debug)]
pub struct Sources<'a> {
    /// The arm as requested.
    pub arm: &'a Arm,
    /// The device's node and its folder in sysfs; none for a directory.
    pub device: Option<(&'a Path, PathBuf)>,
    /// The mount; none for the bare device.
    pub mounted: Option<&'a MountEntry>,
    /// The file in sysfs with the read-ahead of the mount; none if that of the queue is in effect.
    pub read_ahead: Option<&'a Path>,
    /// Text that mkfs printed; empty for a directory.
    pub mkfs_output: &'a str,
    /// True if fstrial switched discards off.
    pub discards_forbidden: bool,
}

/// Reads all facts that can be established.
pub fn read(sources: &Sources<'_>) -> ArmFacts {
    let mut facts = BTreeMap::new();
    let queue = sources.device.as_ref().map(|(_, folder)| whole_queue(&folder.join("queue")));
    let queue = queue.unwrap_or_default();
    let volatile_cache = queue_facts(sources, &queue, &mut facts);
    let row = sources.mounted.and_then(|m| {
        Filesystem::named(&sources.arm.filesystem).or_else(|| Filesystem::named(&m.filesystem))
    });
    let mut durability = Durability {
        flushes: false,
        crash_consistent: false,
        no_stale_data: false,
        data: DataUpdate::InPlace,
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
                let own = filesystem_facts(sources, row, mounted, &mut facts);
                durability = Durability { volatile_cache, ..own };
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
    ArmFacts { facts, queue, durability, tools: tools(sources.arm), notes, state: None }
}

/// All files of a queue.
fn whole_queue(queue: &Path) -> BTreeMap<String, String> {
    let files = fs::read_dir(queue).into_iter().flatten().flatten();
    // Some are unreadable if the driver lacks the feature; the folder of a scheduler holds the scheduler's settings.
    files
        .filter_map(|file| Some((file.file_name().into_string().ok()?, sysfs::read(file.path()).ok()?)))
        .collect()
}

/// Facts of the device, mostly from its queue; returns whether its cache is volatile.
fn queue_facts(
    sources: &Sources<'_>,
    queue: &BTreeMap<String, String>,
    facts: &mut BTreeMap<Fact, String>,
) -> bool {
    let Some((_, folder)) = &sources.device else { return true };
    let number = |name: &str| queue.get(name)?.parse::<u64>().ok();
    for attribute in QueueAttribute::ALL {
        let shown = queue.get(attribute.name()).and_then(|value| attribute.shown(&selected(value)));
        facts.extend(shown.map(|shown| (attribute.fact(), shown)));
    }
    if let Some((logical, physical)) = number("logical_block_size").zip(number("physical_block_size")) {
        let [logical, physical] = [logical, physical].map(|size| Bytes(size).human());
        facts.insert(Fact::Sectors, format!("{logical} logical, {physical} physical"));
    }
    if let Some(own) = sources.read_ahead {
        // A filesystem with its own read-ahead ignores that of the queue.
        facts.remove(&Fact::ReadAhead);
        let shown = sysfs::read(own).ok().and_then(|kib| QueueAttribute::ReadAheadKb.shown(&kib));
        facts.extend(shown.map(|shown| (Fact::ReadAhead, shown)));
    }
    if let Some(most) = number("discard_max_bytes") {
        facts.insert(Fact::DeviceDiscards, if most > 0 { "accepted" } else { "not accepted" }.into());
    }
    if let Some(layer) = mapped::describe(folder) {
        facts.insert(Fact::Layer, layer);
    }
    if let Some(array) = array::describe(folder) {
        facts.insert(Fact::Members, array);
    }
    facts.get(&Fact::CacheMode).is_none_or(|cache| cache != "write through")
}

fn mount_facts(sources: &Sources<'_>, mounted: &MountEntry, facts: &mut BTreeMap<Fact, String>) {
    facts.insert(Fact::MountOptions, mounted.options().join(","));
    if sources.device.is_some() {
        let known = |option: &&String| OF_DEVICES.contains(&key_of(option));
        let in_effect: Vec<&str> = mounted.super_options.iter().filter(known).map(String::as_str).collect();
        let none = in_effect.is_empty();
        facts.insert(Fact::DeviceOptions, if none { "none".into() } else { in_effect.join(", ") });
    }
    let atime = ["noatime", "relatime", "strictatime"]
        .into_iter()
        .find(|word| mounted.has(word))
        .unwrap_or("strictatime");
    let lazy = if mounted.has("lazytime") { ", lazytime" } else { "" };
    facts.insert(Fact::Atime, format!("{atime}{lazy}"));
    let discard =
        // Requested in the arm too: ext4 hides it if the device cannot discard.
        mounted
            .super_options
            .iter()
            .chain(&sources.arm.mount)
            .find(|option| is_discard(option));
    let discard = match (discard, sources.discards_forbidden) {
        (Some(option), true) => {
            format!("requested ({option}), switched off at the device to keep the image allocated")
        }
        (None, true) => "off (switched off at the device, in every arm)".into(),
        (Some(option), false) => option.clone(),
        (None, false) => "off".into(),
    };
    facts.insert(Fact::Discard, discard);
    if let Ok(stat) = rustix::fs::statvfs(&mounted.target) {
        facts.insert(Fact::BlockSize, Bytes(stat.f_frsize).human());
        // In whole MiB: the last bytes differ by layout and are irrelevant.
        facts.insert(Fact::SpaceAvailable, Bytes((stat.f_bavail * stat.f_frsize) >> 20 << 20).human());
    }
}

/// Facts that depend on the kind of filesystem and its effective options.
fn filesystem_facts(
    sources: &Sources<'_>,
    row: &Filesystem,
    mounted: &MountEntry,
    facts: &mut BTreeMap<Fact, String>,
) -> Durability {
    let mut options: Vec<String> = mounted.options().into_iter().map(str::to_owned).collect();
    options.extend(hidden_options(row, mounted));
    let header = header(sources, row, mounted);
    let observed = Observation { options: &options, mkfs_output: sources.mkfs_output, header: &header };
    let Character { journal, checksums, stripe, durability } = row.character(&observed);
    facts.insert(Fact::Barriers, if durability.flushes { "on" } else { "OFF" }.into());
    facts.insert(Fact::LazyInitialisation, row.lazy.into());
    let compression = mounted.super_options.iter().find(|o| o.starts_with("compress"));
    facts.insert(Fact::Compression, compression.cloned().unwrap_or_else(|| "none".into()));
    facts.insert(Fact::Stripe, stripe.unwrap_or_else(|| "none".into()));
    if let Some(spread) = row.several.and_then(|several| members(sources, several)) {
        facts.insert(Fact::Members, spread);
    }
    facts.insert(Fact::Journal, journal);
    facts.insert(Fact::Checksums, checksums);
    let data = match durability.data {
        DataUpdate::InPlace => "no: data is overwritten in place",
        DataUpdate::CopyOnWrite => "yes",
        DataUpdate::Journalled => "no: data goes through the journal",
    };
    facts.insert(Fact::CopyOnWrite, data.into());
    durability
}

/// The number of devices of a mounted filesystem, and its profiles; none for a single device.
fn members(sources: &Sources<'_>, several: Several) -> Option<String> {
    let (device, _) = sources.device.as_ref()?;
    let own = folder_of(Path::new(several.sysfs), &device.file_name()?.to_string_lossy())?;
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

/// Options in effect that a mount does not show, where the kernel lists all of them.
fn hidden_options(row: &Filesystem, mounted: &MountEntry) -> Vec<String> {
    let Some(file) = row.all_options else { return Vec::new() };
    let Ok(device) = fs::canonicalize(mounted.device.sysfs()) else { return Vec::new() };
    let name = device.file_name().unwrap_or_default().to_string_lossy();
    let listed = sysfs::read(file.replace("{device}", &name)).unwrap_or_default();
    listed.lines().map(str::to_owned).collect()
}

/// Facts from the superblock, if it is readable.
fn header(sources: &Sources<'_>, row: &Filesystem, mounted: &MountEntry) -> String {
    let Some((program, words)) = row.header else { return String::new() };
    let source = match &sources.device {
        Some((device, _)) => device.display().to_string(),
        None => mounted.source.clone(),
    };
    let printed = Program::new(program).args(words.iter().copied()).args([source]).run();
    printed.map(|printed| printed.stdout).unwrap_or_default()
}

/// Versions of the tools that made the arm, as they print themselves.
fn tools(arm: &Arm) -> BTreeMap<String, String> {
    let mut tools = BTreeMap::new();
    let mkfs = arm.row().map(|row| row.mkfs);
    for program in mkfs.into_iter().chain(arm.layer.map(|layer| layer.tool().program)) {
        tools.extend(version_of(program).map(|version| (program.to_owned(), version)));
    }
    tools
}
