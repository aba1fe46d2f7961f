//! Old faults, restored one per process, to prove that the attack on the program finds what it is there to find.
//!
//! Only a build with debug assertions has them, and of its programs only those of the attack plant one:
//! `cargo xtask tidy` looks for the call. In the program as users have it [`planted`] is a constant.

use crate::rows::words;
#[cfg(debug_assertions)]
use std::sync::OnceLock;

words! {
    /// A fault that can be planted.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Fault {
        /// A loop device on a disk is not seen.
        "loop-on-disk" LoopOnDisk,
        /// A home that others may write is believed.
        "home" Home,
        /// The ledger is reached by its path, which a worker may have covered.
        "covered-ledger" CoveredLedger,
        /// Folders are deleted by a way that keeps a descriptor for each level.
        "deletion" Deletion,
        /// Only descriptors of nodes below `/dev` are seen.
        "descriptor" Descriptor,
        /// An entry of the ledger that cannot be read stops the others.
        "bad-entry" BadEntry,
        /// One device of a filesystem of several counts as any other.
        "group" Group,
        /// A file that is there already is overwritten.
        "overwrite" Overwrite,
        /// What lies on a disk is not looked at.
        "signatures" Signatures,
        /// Two trials may work with one home.
        "lock" Lock,
        /// A freeze is not in the ledger.
        "freeze" Freeze,
        /// A loop device is not in the ledger.
        "loop-device" LoopDevice,
        /// A queue setting is not in the ledger.
        "queue-setting" QueueSetting,
        /// The folder of a run is not in the ledger.
        "folder" Folder,
        /// A parser of sizes cuts a letter in two, and panics.
        "panic" Panic,
        /// A file is read however long it is.
        "limit" Limit,
        /// The lengths in a stored histogram are believed.
        "lengths" Lengths,
    }
}

#[cfg(debug_assertions)]
static PLANTED: OnceLock<Fault> = OnceLock::new();

/// Plants, in this process, the fault that `FSTRIAL_PLANT` names. A build without debug assertions can have none.
pub fn plant_asked_for() {
    #[cfg(debug_assertions)]
    if let Some(fault) = std::env::var("FSTRIAL_PLANT").ok().and_then(|name| Fault::named(&name)) {
        PLANTED.get_or_init(|| fault);
    }
}

/// Whether this fault is planted.
#[cfg(not(debug_assertions))]
#[inline]
pub const fn planted(_: Fault) -> bool {
    false
}

/// Whether this fault is planted.
#[cfg(debug_assertions)]
pub fn planted(fault: Fault) -> bool {
    PLANTED.get() == Some(&fault)
}
