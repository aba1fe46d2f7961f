//! `image`: a file made by fstrial.

use super::{KindRow, Looped, MADE};

pub(super) const ROW: KindRow = KindRow {
    looped: Looped::File,
    takes_path: true,
    members: Some(|device| format!("unnamed files in {}", device.folder_in_words())),
    making: |device, size| {
        let folder = device.folder_in_words();
        (
            format!("make an unnamed file of {size} in {folder}, allocate it and write all of it"),
            Some("close it (it has no name and is freed with its last holder)"),
        )
    },
    ..MADE
};
