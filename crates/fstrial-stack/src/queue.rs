//! The queue of a block device: scheduler, requests, read-ahead, cache mode, discards. Changes are restored.

use crate::{
    command,
    error::StackError,
    ledger::{Ledger, LedgerEntry, Undo},
    named::{KnownDisk, QueueValue},
    sysfs,
};
use fstrial_model::{
    arm::{Arm, Switch},
    queue::{QueueAttribute, QueueSetting},
};
use std::path::{Path, PathBuf};

/// Changes to a device's queue, undone by [`restore`](Self::restore).
#[must_use]
#[derive(Debug)]
pub struct QueueSettings {
    written: Vec<LedgerEntry>,
}

/// A queue while it is being changed.
struct Change<'a> {
    disk: KnownDisk,
    ledger: &'a Ledger,
    written: Vec<LedgerEntry>,
}

impl QueueSettings {
    /// Applies the settings of an arm, and no others, to the device with the given sysfs folder.
    ///
    /// # Errors
    /// The kernel does not know the scheduler, or refuses a value.
    pub fn apply(arm: &Arm, sysfs_folder: &Path, ledger: &Ledger) -> Result<Self, StackError> {
        let mut change = Change { disk: KnownDisk::of(sysfs_folder)?, ledger, written: Vec::new() };
        let result = change.apply(arm);
        let settings = Self { written: change.written };
        match result {
            Ok(()) => Ok(settings),
            Err(error) => {
                settings.restore()?;
                Err(error)
            }
        }
    }
}

impl Change<'_> {
    fn apply(&mut self, arm: &Arm) -> Result<(), StackError> {
        if arm.discard == Some(Switch::On) {
            require_discards(&self.queue())?;
        }
        for QueueSetting { attribute, value, .. } in arm.queue_settings() {
            match attribute {
                QueueAttribute::Scheduler => self.set_scheduler(&value)?,
                QueueAttribute::NrRequests => self.set_requests(&value)?,
                _ if attribute.is_limit() => self.set_limit(attribute, &value)?,
                _ => self.set(attribute, &value)?,
            }
        }
        Ok(())
    }

    fn queue(&self) -> PathBuf {
        self.disk.sysfs().join("queue")
    }

    fn path(&self, attribute: QueueAttribute) -> PathBuf {
        self.queue().join(attribute.name())
    }

    fn read(&self, attribute: QueueAttribute) -> Result<String, StackError> {
        Ok(selected(&sysfs::read(self.path(attribute))?))
    }

    /// Writes a value down before it changes.
    fn note(&mut self, attribute: QueueAttribute, before: String) -> Result<(), StackError> {
        let value = QueueValue::try_from(before).map_err(StackError::unlike)?;
        let undo = Undo::RestoreAttribute { disk: self.disk.clone(), attribute, value };
        self.written.push(self.ledger.write(undo)?);
        Ok(())
    }

    fn set_scheduler(&mut self, scheduler: &str) -> Result<(), StackError> {
        check_scheduler(&self.queue(), scheduler)?;
        // A new scheduler resets the number of requests; the old number is restored last.
        if let Ok(requests) = self.read(QueueAttribute::NrRequests) {
            self.note(QueueAttribute::NrRequests, requests)?;
        }
        self.set(QueueAttribute::Scheduler, scheduler)
    }

    fn set_requests(&mut self, requests: &str) -> Result<(), StackError> {
        let unable = |what: String, hint: &str| Err(StackError::Unable { what, hint: hint.into() });
        if !self.path(QueueAttribute::NrRequests).exists() {
            return unable(
                "this device has no queue of requests (nr_requests)".into(),
                "leave nr_requests out; a zram ramdisk, for one, serves every request immediately",
            );
        }
        match self.set(QueueAttribute::NrRequests, requests) {
            Err(StackError::Io { source, .. }) if source.raw_os_error() == Some(libc::EINVAL) => unable(
                format!("the kernel refuses a queue of {requests} requests on this device"),
                "without a scheduler there are no more than the driver's own; add scheduler=mq-deadline, or use fewer",
            ),
            other => other,
        }
    }

    /// Sets one of the queue's limits and keeps the read-ahead, which the kernel computes again with every change of a
    /// limit (`queue_limits_commit_update`): from 6.17 on it depends on whether the device rotates, too. The read-ahead
    /// is recorded first, so that it is restored last.
    fn set_limit(&mut self, attribute: QueueAttribute, value: &str) -> Result<(), StackError> {
        if self.read(attribute)? == value {
            return Ok(());
        }
        let kept = self.read(QueueAttribute::ReadAheadKb)?;
        self.note(QueueAttribute::ReadAheadKb, kept.clone())?;
        self.set(attribute, value)?;
        sysfs::write(self.path(QueueAttribute::ReadAheadKb), &kept)
    }

    fn set(&mut self, attribute: QueueAttribute, value: &str) -> Result<(), StackError> {
        let before = self.read(attribute)?;
        if before == value {
            return Ok(());
        }
        self.note(attribute, before)?;
        let path = self.path(attribute);
        sysfs::write(&path, value)?;
        let after = self.read(attribute)?;
        if after == value {
            return Ok(());
        }
        Err(StackError::Unable {
            what: format!("wrote `{value}` to {}, and it still reads `{after}`", path.display()),
            hint: "this device cannot do it; leave the setting out".into(),
        })
    }
}

impl QueueSettings {
    /// Puts everything back, last change first.
    ///
    /// # Errors
    /// The first value that cannot be restored; it stays in the ledger.
    pub fn restore(self) -> Result<(), StackError> {
        let mut first = Ok(());
        for written in self.written.into_iter().rev() {
            let result = written.undo();
            if first.is_ok() {
                first = result;
            }
        }
        first
    }
}

/// Switches discards off, so that they do not free the image's allocated space. Only for a device made by fstrial: the
/// kernel accepts no other limit after this one (see `loopdev`).
pub(crate) fn forbid_discards(sysfs_folder: &Path) -> Result<(), StackError> {
    let path = sysfs_folder.join("queue/discard_max_bytes");
    // Kernels without discards on this device do not have the file.
    if sysfs::read_number(&path).unwrap_or(0) == 0 { Ok(()) } else { sysfs::write(&path, "0") }
}

/// Refuses a device that takes no discards.
fn require_discards(queue: &Path) -> Result<(), StackError> {
    // Kernels without discards on this device do not have the file.
    if sysfs::read_number(queue.join("discard_max_bytes")).unwrap_or(0) > 0 {
        return Ok(());
    }
    Err(StackError::Unable {
        what: "this device takes no discards, and the arm asks for discard=on".into(),
        hint: "leave discard=on out, or use another device; `lsblk --discard` shows which devices support it"
            .into(),
    })
}

/// `none [mq-deadline] kyber` yields `mq-deadline`; a plain value yields itself.
pub(crate) fn selected(text: &str) -> String {
    text.split_whitespace()
        .find_map(|word| word.strip_prefix('[').and_then(|word| word.strip_suffix(']')))
        .unwrap_or(text)
        .to_owned()
}

/// The schedulers that a queue can have now, separated by spaces.
fn schedulers(queue: &Path) -> Result<String, StackError> {
    Ok(sysfs::read(queue.join("scheduler"))?.replace(['[', ']'], ""))
}

fn check_scheduler(queue: &Path, wanted: &str) -> Result<(), StackError> {
    let is_listed = |listed: &str| listed.split_whitespace().any(|word| word == wanted);
    let mut listed = schedulers(queue)?;
    if !is_listed(&listed) {
        // Many are modules (bfq in Debian's kernels), and listed only once they are loaded.
        command::load_module(&format!("{wanted}-iosched"));
        listed = schedulers(queue)?;
    }
    if is_listed(&listed) {
        return Ok(());
    }
    Err(StackError::Unable {
        what: format!("this kernel has no scheduler `{wanted}`"),
        hint: format!("use one of {}, or one that this kernel has as a module", listed.replace(' ', ", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selected_word_is_in_brackets() {
        assert_eq!(selected("none [mq-deadline] kyber"), "mq-deadline");
        assert_eq!(selected("write back"), "write back");
    }
}
