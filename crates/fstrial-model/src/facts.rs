//! What an arm really was: facts read back from the device and the mounted filesystem, for the fairness audit.

use crate::{bounded, rows::words, state::StateFigures};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

words! {
    /// Something that may differ between arms in addition to what the user asked for; in the order in which an audit tells it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Fact {
        /// The kernel that ran it, where the arms of a trial are at several places.
        "kernel" Kernel,
        /// What that kernel was booted with, where the arms of a trial are at boots of one host.
        "kernel parameters" KernelParameters,
        /// The machine it ran on, where the arms of a trial are at several places.
        "machine" Machine,
        /// The filesystem of an existing directory, and the device that it lies on.
        "lies on" LiesOn,
        /// Where that is mounted.
        "mount point" MountPoint,
        /// What the filesystem was to hold when the load begins.
        "state" State,
        /// Whether a sync call flushes the device's cache.
        "barriers" Barriers,
        /// The device's cache mode as the kernel sees it.
        "cache mode" CacheMode,
        /// What is journalled.
        "journal" Journal,
        /// Whether data is overwritten in place.
        "copy-on-write" CopyOnWrite,
        /// What carries checksums.
        "checksums" Checksums,
        /// Whether data is compressed.
        "compression" Compression,
        /// What lies between the filesystem and the device, as the device mapper calls it.
        "layer" Layer,
        /// The devices it lies on, and how it is spread over them.
        "members" Members,
        /// The stripe that the filesystem aligns to.
        "stripe" Stripe,
        /// Whether freed space is discarded while mounted.
        "discard" Discard,
        /// Whether the device accepts discards.
        "device discards" DeviceDiscards,
        /// The filesystem's allocation unit.
        "block size" BlockSize,
        /// Space a user can fill when the load begins.
        "space available" SpaceAvailable,
        /// When access times are written.
        "access times" Atime,
        /// The I/O scheduler.
        "scheduler" Scheduler,
        /// Whether the device says that it rotates.
        "rotational" Rotational,
        /// Its logical and physical blocks.
        "sectors" Sectors,
        /// Mount options in effect that are taken from the device unless they are asked for.
        "options by device" DeviceOptions,
        /// Requests that the queue holds at most, in each direction.
        "queue requests" QueueRequests,
        /// The read-ahead in effect: the mounted filesystem's, if it differs from that of the device's queue.
        "read-ahead" ReadAhead,
        /// Work that mkfs leaves for later, and what was done about it.
        "lazy initialisation" LazyInitialisation,
        /// The limit for the memory of the load and its page cache together, and what holds it.
        "memory" Memory,
        /// Whether the page cache was dropped before the load.
        "caches dropped" CachesDropped,
        /// Mount options in effect.
        "mount options" MountOptions,
    }
}

/// How data blocks are updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DataUpdate {
    /// Overwritten in place: a crash may leave half of an overwrite.
    InPlace,
    /// Written to a new place.
    CopyOnWrite,
    /// Through the journal.
    Journalled,
}

/// What a crash or power cut may cost. Arms that differ in it are not comparable on speed alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Durability {
    /// A sync call flushes the device's volatile cache.
    pub flushes: bool,
    /// Metadata survives a crash without a repair (journal, log or copy-on-write).
    pub crash_consistent: bool,
    /// A file never shows another file's old data after a crash.
    pub no_stale_data: bool,
    /// How data blocks are updated.
    pub data: DataUpdate,
    /// The kernel takes the device's cache for volatile (`write back`).
    pub volatile_cache: bool,
}

/// The facts of one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArmFacts {
    /// Every fact that could be established, as text for comparison and display.
    #[serde(deserialize_with = "bounded::table")]
    pub facts: BTreeMap<Fact, String>,
    /// All attributes of the device's queue, by the names of their files (`rotational`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "bounded::named")]
    pub queue: BTreeMap<String, String>,
    /// What a crash may cost.
    pub durability: Durability,
    /// Versions of the tools that made it, as they print themselves.
    #[serde(deserialize_with = "bounded::named")]
    pub tools: BTreeMap<String, String>,
    /// Things a reader should know: what could not be done or made equal.
    #[serde(deserialize_with = "bounded::texts")]
    pub notes: Vec<String>,
    /// What the prepared state of its filesystem really is; none if it is made again for every run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateFigures>,
}
