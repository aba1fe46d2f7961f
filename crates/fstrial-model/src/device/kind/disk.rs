//! `disk`: a whole real device.

use super::{KindRow, MADE, Origin};
use crate::{
    device::Device,
    problem::{Problem, problem},
};

pub(super) const ROW: KindRow = KindRow {
    origin: Origin::Erased,
    takes_path: true,
    check,
    making: |device, _| {
        let path = device.path.as_ref().map_or_else(|| "?".into(), |path| path.display().to_string());
        (format!("check that {path} may be erased, and hold it open"), Some("none: every run ERASES it"))
    },
    ..MADE
};

fn check(device: &Device) -> Option<Problem> {
    device.path.is_none().then(|| {
        problem(
            &["device", "kind"],
            "kind = \"disk\" names no device",
            "write path = \"/dev/disk/by-id/…\" and pass --erase with the same path on the command line",
        )
    })
}
