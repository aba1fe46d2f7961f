//! Receipts: the promises that an arm keeps after power cuts.
//!
//! A promise is an acknowledged sync: after it the synced data must survive. A run makes promises under load, then the
//! power of its device is cut at many points of its log, and every image is recovered and checked.

use crate::units::Nanos;
use serde::{Deserialize, Serialize};

/// Outcome of the writes that no completed flush covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Uncovered {
    /// All are lost.
    Lost,
    /// A random half of them is kept whole.
    Half,
    /// A random half of their sectors is kept.
    Torn,
}

impl Uncovered {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Lost, Self::Half, Self::Torn];
}

/// Power cuts after the load of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutTask {
    /// Number of cuts, at least one.
    pub cuts: u32,
    /// Seed of their positions, and of the writes that are kept.
    pub seed: u64,
    /// The write cache survives a power cut.
    pub protected: bool,
}

/// Promises of a run and its cuts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunReceipt {
    /// Syncs, or commits of a server, that were acknowledged during the load.
    pub promises: u64,
    /// Writes in the log of the device.
    pub writes: u64,
    /// Flushes in it.
    pub flushes: u64,
    /// The log reached its limit before the end of the load; cuts are within it.
    pub is_full: bool,
    /// In ascending order of their positions.
    pub cuts: Vec<CutResult>,
    /// The reason why its first loss is not in the files for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unkept: Option<String>,
}

/// A power cut and the check of its image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutResult {
    /// Entries of the device's log before the cut.
    pub at: u64,
    /// Outcome of uncovered writes.
    pub uncovered: Uncovered,
    /// Seed of the random part.
    pub seed: u64,
    /// Writes that no completed flush covered.
    pub pending: u64,
    /// Promises made before the cut.
    pub promises: u64,
    /// Promised names and sectors, or commits of a server, that were compared.
    pub checked: u64,
    /// Synced files that were missing, and whose names were not promised: on a filesystem without a journal.
    pub missing: u64,
    /// State of the filesystem after recovery.
    pub outcome: CutOutcome,
}

/// State of a filesystem after a power cut and its own recovery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum CutOutcome {
    /// Every promise was kept, and the full check found nothing.
    Kept,
    /// Promises were broken.
    Lost {
        /// Number of broken promises.
        broken: u64,
        /// The first of them, as text for the user.
        first: String,
        /// Time from the acknowledgement of the oldest lost commit of a server to that of the last before the cut.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        oldest: Option<Nanos>,
    },
    /// It could not be mounted.
    Unmountable {
        /// The reason, as text for the user.
        why: String,
    },
    /// The server did not start on it.
    Closed {
        /// The last lines of the server.
        why: String,
    },
    /// Every promise was kept, but the full check found damage.
    Damaged {
        /// The last lines of the check.
        why: String,
    },
}

impl CutOutcome {
    /// Number of broken promises.
    pub fn broken(&self) -> u64 {
        if let Self::Lost { broken, .. } = self { *broken } else { 0 }
    }

    /// Age of the oldest lost commit of a server at the last one before the cut.
    pub fn oldest(&self) -> Option<Nanos> {
        if let Self::Lost { oldest, .. } = self { *oldest } else { None }
    }

    /// True if acknowledged data cannot be read any more.
    pub fn is_loss(&self) -> bool {
        matches!(self, Self::Lost { .. } | Self::Unmountable { .. } | Self::Closed { .. })
    }
}
