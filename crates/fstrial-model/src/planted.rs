//! Old faults, put back one at a time, to prove that the attack on the program finds what it is there to find.
//!
//! Only a build with the feature `planted-faults` has them, and only the one that `FSTRIAL_PLANT` names. No default
//! build has the feature: `cargo xtask tidy` looks at the manifests. Without it [`planted`] is a constant.

/// A fault that can be planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
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
    /// A parser of sizes panics at a text.
    Panic,
    /// A file is read however long it is.
    Limit,
    /// The lengths in a stored histogram are believed.
    Lengths,
}

impl Fault {
    /// All of them, with their names and the area of the attack that finds each.
    pub const ALL: [(Self, &str, &str); 10] = [
        (Self::Overwrite, "overwrite", "refusals"),
        (Self::Signatures, "signatures", "refusals"),
        (Self::Lock, "lock", "refusals"),
        (Self::Freeze, "freeze", "kills"),
        (Self::LoopDevice, "loop-device", "kills"),
        (Self::QueueSetting, "queue-setting", "kills"),
        (Self::Folder, "folder", "kills"),
        (Self::Panic, "panic", "fuzz"),
        (Self::Limit, "limit", "files"),
        (Self::Lengths, "lengths", "stores"),
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
        Fault::ALL.into_iter().find(|(_, name, _)| *name == named).map(|(fault, ..)| fault)
    });
    *PLANTED == Some(fault)
}
