//! A new zram device: added by `hot_add`, never an existing one, removed at the end.
//!
//! zram stores a page that is one repeated word as that word, without compressing it: with such data it is a fast
//! ramdisk, with any other it measures the compressor.

use super::Device;
use crate::{
    error::StackError,
    holders, host,
    ledger::{Ledger, LedgerEntry, NodeMark, Undo},
    sysfs,
};
use fstrial_model::{arm::Arm, job::DeviceBinding, units::Bytes, workload::Data};
use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// Others look at every device that comes or changes (`udev`, `blkid`), and a dead command's mount goes a little after it.
const PASSING: Duration = Duration::from_secs(5);
const CONTROL: &str = "/sys/class/zram-control";

/// True if zram devices can be added here.
pub fn is_available() -> bool {
    Path::new(CONTROL).join("hot_add").exists()
}

fn folder(index: u32) -> PathBuf {
    PathBuf::from(format!("/sys/block/zram{index}"))
}

/// The numbers of all zram devices.
fn existing() -> Result<Vec<u32>, StackError> {
    let block = Path::new("/sys/block");
    let entries = fs::read_dir(block).map_err(|e| StackError::io("list", block, e))?;
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix("zram")?.parse().ok();
    Ok(entries.flatten().filter_map(number).collect())
}

/// A zram device that only this trial uses.
#[derive(Debug)]
pub struct Zram {
    index: u32,
    size: Bytes,
    written: LedgerEntry,
}

impl Zram {
    /// Adds one.
    ///
    /// # Errors
    /// No permission or no memory.
    pub fn add(size: Bytes, ledger: &Ledger) -> Result<Self, StackError> {
        // Reading hot_add makes the device, so its number cannot be written down before.
        let before =
            ledger.write(Undo::RemoveUnusedZram { existing: existing()?, moment: host::moment() })?;
        let index = match sysfs::read_number(Path::new(CONTROL).join("hot_add")) {
            Ok(index) => u32::try_from(index).expect("the kernel counts devices in an int"),
            Err(error) => {
                before.strike_out()?;
                return Err(error);
            }
        };
        let Some(node) = NodeMark::of(&node(index)) else {
            sysfs::write(Path::new(CONTROL).join("hot_remove"), &index.to_string())?;
            before.strike_out()?;
            return Err(StackError::Unable {
                what: format!("{} was added but did not appear", node(index).display()),
                hint: "this /dev does not show new devices (a container?); use another device".into(),
            });
        };
        let written = ledger.write(Undo::RemoveZram { index, node })?;
        before.strike_out()?;
        Ok(Self { index, size, written })
    }
}

impl Device for Zram {
    fn describe(&self) -> String {
        format!("ramdisk: /dev/zram{} of {}, added for this trial", self.index, self.size.human())
    }

    fn binding(&self, _arm: &Arm) -> DeviceBinding {
        DeviceBinding::Zram { index: self.index, size: self.size }
    }

    fn data(&self) -> Data {
        Data::RepeatedWord
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "the ramdisk is zram, which is fast only for pages of one repeated word: files hold such data \
             in every arm, unless the workload sets other data, which are then compressed and kept in \
             memory; metadata of the filesystem are compressed"
                .into(),
        ]
    }

    fn is_released(&self) -> Result<bool, StackError> {
        Ok(!holders::is_claimed(Path::new(&format!("/dev/zram{}", self.index)))?)
    }

    fn close(self: Box<Self>) -> Result<(), StackError> {
        self.written.undo()
    }
}

/// Empties a device of ours and gives it its size: as good as new for the next run.
///
/// # Errors
/// It is in use, or there is no memory.
pub fn renew(index: u32, size: Bytes) -> Result<(), StackError> {
    reset(index)?;
    sysfs::write(folder(index).join("disksize"), &size.0.to_string())
}

fn node(index: u32) -> PathBuf {
    PathBuf::from(format!("/dev/zram{index}"))
}

/// Removes a device that we added. Fine if it is gone already, and if another one has its number.
pub(crate) fn remove(index: u32, known: NodeMark) -> Result<(), StackError> {
    if !folder(index).exists() || !known.is_of(&node(index))? {
        return Ok(());
    }
    reset(index)?;
    when_free(|| sysfs::write(Path::new(CONTROL).join("hot_remove"), &index.to_string()))
}

/// Takes its size and all it holds.
fn reset(index: u32) -> Result<(), StackError> {
    when_free(|| sysfs::write(folder(index).join("reset"), "1"))
}

/// Waits for those who have the device open in passing.
fn when_free(attempt: impl Fn() -> Result<(), StackError>) -> Result<(), StackError> {
    let until = Instant::now() + PASSING;
    loop {
        match attempt() {
            Err(StackError::Io { source, .. })
                if source.kind() == io::ErrorKind::ResourceBusy && Instant::now() < until =>
            {
                thread::park_timeout(Duration::from_millis(5));
            }
            result => return result,
        }
    }
}

/// Removes devices that are not in the list, have never been given a size, and were added when we were about to.
pub(crate) fn remove_unused(before: &[u32], at: u64) -> Result<(), StackError> {
    for index in existing()?.into_iter().filter(|index| !before.contains(index)) {
        let is_unused = sysfs::read(folder(index).join("initstate")).is_ok_and(|state| state == "0");
        if is_unused && NodeMark::is_of_moment(&node(index), at)? {
            sysfs::write(Path::new(CONTROL).join("hot_remove"), &index.to_string())?;
        }
    }
    Ok(())
}
