//! Freezing and thawing while threads write.

use super::{OperationRow, PLAIN, time};
use crate::{ability::Ability, units::Bytes};

/// The file of each thread that writes while the filesystem is frozen.
pub const WRITTEN: Bytes = Bytes::mib(16);

pub(super) const ROW: OperationRow = OperationRow {
    numbers: &[time("freeze"), time("thaw"), time("stall")],
    repeat: Some(5),
    freezes: true,
    space: |_, threads| u64::from(threads) * WRITTEN.0,
    // An ioctl of the kernel's virtual filesystem layer; a filesystem without it reports that.
    ability: |_| Ability::Call("FIFREEZE"),
    ..PLAIN
};
