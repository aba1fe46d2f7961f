//! `ramdisk`: memory.

use super::{KindRow, MADE};

pub(super) const ROW: KindRow = KindRow {
    members: Some(|_| "ramdisks".into()),
    making: |_, size| {
        (
            format!("take an unused brd, else add a zram device of {size}, else a file of {size} in memory"),
            Some("remove the zram device (in the ledger); close the file"),
        )
    },
    ..MADE
};
