//! Freezing and thawing while threads write.

use super::{PLAIN, Row, time};
use crate::{ability::Ability, units::Bytes};

/// The file of each thread that writes while the filesystem is frozen.
pub const WRITTEN: Bytes = Bytes::mib(16);

pub(super) const ROW: Row = Row {
    numbers: &[time("freeze"), time("thaw"), time("stall")],
    repeat: Some(5),
    freezes: true,
    space: |_, threads| u64::from(threads) * WRITTEN.0,
    // An ioctl of the kernel's virtual filesystem layer; a filesystem that has none says so.
    ability: |_| Ability::Call("FIFREEZE"),
    ..PLAIN
};
