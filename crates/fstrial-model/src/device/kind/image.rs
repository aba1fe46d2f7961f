//! `image`: a file of our own.

use super::{Looped, MADE, Row};

pub(super) const ROW: Row = Row {
    looped: Looped::File,
    takes_path: true,
    members: Some(|device| format!("nameless files in {}", device.folder_in_words())),
    making: |device, size| {
        let folder = device.folder_in_words();
        (
            format!("make a nameless file of {size} in {folder}, allocate it and write all of it"),
            Some("close it (it has no name; it goes with the last process that holds it)"),
        )
    },
    ..MADE
};
