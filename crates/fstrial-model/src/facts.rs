//! The actual settings of an arm: facts read back from the device and the mounted filesystem, for the fairness audit.

use crate::{bounded, rows::words, state::StateFigures};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

words! {
    /// A property that may differ between arms in addition to the user's request; in the order of an audit.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Fact {
        /// The kernel that ran it, where the arms of a trial are at several places.
        "kernel" Kernel,
        /// Boot parameters of that kernel, if the arms of a trial are on boots of one host.
        "kernel parameters" KernelParameters,
        /// The machine it ran on, where the arms of a trial are at several places.
        "machine" Machine,
        /// The filesystem of an existing directory, and its device.
        "is on" LiesOn,
        /// Its mount point.
        "mount point" MountPoint,
        /// Requested content of the filesystem when the load begins.
        "state" State,
        /// Flushes of the device's cache by sync calls.
        "barriers" Barriers,
        /// The device's cache mode as the kernel sees it.
        "cache mode" CacheMode,
        /// Scope of journalling.
        "journal" Journal,
        /// Copy-on-write of data, or the reason against it.
        "copy-on-write" CopyOnWrite,
        /// Scope of checksums.
        "checksums" Checksums,
        /// Compression of data.
        "compression" Compression,
        /// The layer between the filesystem and the device, by its device-mapper name.
        "layer" Layer,
        /// Its devices, and its layout over them.
        "members" Members,
        /// The stripe that the filesystem aligns to.
        "stripe" Stripe,
        /// Discards of freed space while mounted.
        "discard" Discard,
        /// Discard support of the device.
        "device discards" DeviceDiscards,
        /// The filesystem's allocation unit.
        "block size" BlockSize,
        /// Space a user can fill when the load begins.
        "space available" SpaceAvailable,
        /// When access times are written.
        "access times" Atime,
        /// The I/O scheduler.
        "scheduler" Scheduler,
        /// Rotation, as the device reports it.
        "rotational" Rotational,
        /// Its logical and physical blocks.
        "sectors" Sectors,
        /// Effective mount options whose default depends on the device.
        "options by device" DeviceOptions,
        /// Requests that the queue holds at most, in each direction.
        "queue requests" QueueRequests,
        /// The read-ahead in effect: the mounted filesystem's, if it differs from that of the device's queue.
        "read-ahead" ReadAhead,
        /// Work that mkfs defers, and the measure taken against it.
        "lazy initialisation" LazyInitialisation,
        /// The limit for the memory of the load and its page cache together, and the mechanism.
        "memory" Memory,
        /// Page cache dropped before the load.
        "caches dropped" CachesDropped,
        /// Mount options in effect.
        "mount options" MountOptions,
    }
}

/// Update policy of data blocks.
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

/// Possible losses in a crash or power cut. Arms that differ in it are not comparable on speed alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Durability {
    /// A sync call flushes the device's volatile cache.
    pub flushes: bool,
    /// Metadata survives a crash without a repair (journal, log or copy-on-write).
    pub crash_consistent: bool,
    /// A file never shows another file's old data after a crash.
    pub no_stale_data: bool,
    /// Update policy of data blocks.
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
    /// Possible losses in a crash.
    pub durability: Durability,
    /// Versions of the tools that made it, as they print themselves.
    #[serde(deserialize_with = "bounded::named")]
    pub tools: BTreeMap<String, String>,
    /// Notes for the reader: failed steps and remaining inequalities.
    #[serde(deserialize_with = "bounded::texts")]
    pub notes: Vec<String>,
    /// Figures of its prepared state; none if it is made again for every run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateFigures>,
}
