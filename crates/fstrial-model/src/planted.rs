//! Old faults, put back one at a time, to prove that the attack on the program finds what it is there to find.
//!
//! Only a build with the feature `planted-faults` has them, and only the one that `FSTRIAL_PLANT` names. No default
//! build has the feature: `cargo xtask tidy` looks at the manifests. Without it [`planted`] is a constant.

/// A fault that can be planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A loop device on a disk is not seen.
    LoopOnDisk,
    /// A home that others may write is believed.
    Home,
    /// The ledger is reached by its path, which a worker may have covered.
    CoveredLedger,
    /// Folders are deleted by a way that keeps a descriptor for each level.
    Deletion,
    /// Only descriptors of nodes below `/dev` are seen.
    Descriptor,
    /// An entry of the ledger that cannot be read stops the others.
    BadEntry,
    /// One device of a filesystem of several counts as any other.
    Group,
    /// A file that is there already is overwritten.
    Overwrite,
    /// What lies on a disk is not looked at.
    Signatures,
    /// Two trials may work with one home.
    Lock,
    /// A freeze is not in the ledger.
    Freeze,
    /// A loop device is not in the ledger.
    LoopDevice,
    /// A queue setting is not in the ledger.
    QueueSetting,
    /// The folder of a run is not in the ledger.
    Folder,
    /// A parser of sizes cuts a letter in two, and panics.
    Panic,
    /// A file is read however long it is.
    Limit,
    /// The lengths in a stored histogram are believed.
    Lengths,
}

impl Fault {
    /// All of them, with the names that `FSTRIAL_PLANT` knows.
    pub const ALL: [(Self, &str); 17] = [
        (Self::LoopOnDisk, "loop-on-disk"),
        (Self::Home, "home"),
        (Self::CoveredLedger, "covered-ledger"),
        (Self::Deletion, "deletion"),
        (Self::Descriptor, "descriptor"),
        (Self::BadEntry, "bad-entry"),
        (Self::Group, "group"),
        (Self::Overwrite, "overwrite"),
        (Self::Signatures, "signatures"),
        (Self::Lock, "lock"),
        (Self::Freeze, "freeze"),
        (Self::LoopDevice, "loop-device"),
        (Self::QueueSetting, "queue-setting"),
        (Self::Folder, "folder"),
        (Self::Panic, "panic"),
        (Self::Limit, "limit"),
        (Self::Lengths, "lengths"),
    ];
}

/// Whether this fault is planted.
#[cfg(not(feature = "planted-faults"))]
#[inline]
pub const fn planted(_: Fault) -> bool {
    false
}

/// Whether this fault is planted.
#[cfg(feature = "planted-faults")]
pub fn planted(fault: Fault) -> bool {
    use std::sync::LazyLock;

    static PLANTED: LazyLock<Option<Fault>> = LazyLock::new(|| {
        let named = std::env::var("FSTRIAL_PLANT").ok()?;
        Fault::ALL.into_iter().find(|(_, name)| *name == named).map(|(fault, _)| fault)
    });
    *PLANTED == Some(fault)
}
