//! Kernel complaints during a run fail the run: a figure from a filesystem that reports errors, or from a kernel that
//! warns about itself, cannot be used.
//!
//! The log is read at the end of every stage, so that a complaint is reported with its stage. It is never read during a
//! measurement.

use fstrial_model::{
    job::{FailureKind, RunFailure},
    measurement::Stage,
};
use fstrial_stack::kernel_log::{Complaint, KernelLog};

/// Complaints that are shown; the others are counted.
const SHOWN: usize = 4;
/// Characters of a failure next to which complaints still find room.
const ROOM: usize = 2000;

/// The watch over the kernel's log during one run.
#[derive(Debug)]
pub(super) struct Watch {
    /// None where the kernel's log cannot be read.
    log: Option<KernelLog>,
    note: Option<String>,
    /// This run's own devices, as the kernel calls them.
    devices: Vec<String>,
    /// True if complaints about these devices are expected.
    is_provoked: bool,
    found: Complaints,
}

#[derive(Debug, Default)]
struct Complaints {
    first: Vec<(Stage, String)>,
    further: usize,
    /// True if any is about the run's own devices, or from a filesystem's code.
    is_the_arms: bool,
}

impl Watch {
    pub(super) fn begin() -> Self {
        let (log, note) = match KernelLog::open() {
            Ok(log) => (Some(log), None),
            Err(error) => (None, Some(format!("the kernel log was not watched: {error}"))),
        };
        Self { log, note, devices: Vec::new(), is_provoked: false, found: Complaints::default() }
    }

    /// A note on the watch itself for the reader.
    pub(super) fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Sets this run's own devices. Earlier complaints about them were of other users.
    pub(super) fn own(&mut self, stage: Stage, devices: Vec<String>) {
        self.look(stage);
        self.devices = devices;
    }

    /// Sets whether the kernel's complaints about the own devices are expected.
    pub(super) fn provoke(&mut self, stage: Stage, is_provoked: bool) {
        self.look(stage);
        self.is_provoked = is_provoked;
    }

    /// Reads the messages since the last look.
    pub(super) fn look(&mut self, stage: Stage) {
        for complaint in self.log.as_mut().map(KernelLog::complaints).unwrap_or_default() {
            if self.counts(&complaint) {
                let is_the_arms =
                    complaint.names_one_of(&self.devices) || is_of_filesystems(&complaint.message);
                self.found.add(stage, complaint.message, is_the_arms);
            }
        }
    }

    fn counts(&self, complaint: &Complaint) -> bool {
        complaint.concerns(&self.devices) && !(self.is_provoked && complaint.names_one_of(&self.devices))
    }

    /// The outcome of the run, with the complaints.
    pub(super) fn judge<T>(&self, ended: Result<T, RunFailure>) -> Result<T, RunFailure> {
        self.found.judge(ended)
    }
}

/// True if a complaint without a device comes from the code of filesystems: `WARNING: CPU: 0 PID: 1 at fs/xfs/…`.
fn is_of_filesystems(message: &str) -> bool {
    message.contains(" at fs/")
}

impl Complaints {
    fn add(&mut self, stage: Stage, message: String, is_the_arms: bool) {
        self.is_the_arms |= is_the_arms;
        if self.first.len() < SHOWN {
            self.first.push((stage, message));
        } else {
            self.further += 1;
        }
    }

    fn judge<T>(&self, ended: Result<T, RunFailure>) -> Result<T, RunFailure> {
        let Some((stage, _)) = self.first.first() else { return ended };
        match ended {
            Ok(_) => Err(RunFailure {
                // A hung task of another process is not the arm's fault: then the run is repeated.
                kind: if self.is_the_arms { FailureKind::ArmFailed } else { FailureKind::Lost },
                stage: *stage,
                what: format!("the kernel complained during the run:{}", self.lines()),
                hint: Some("see all of it in the kernel log (dmesg)".into()),
            }),
            // An answer stays as it is, the same in every round.
            Err(failure) if failure.kind == FailureKind::Unsupported || failure.what.len() > ROOM => {
                Err(failure)
            }
            Err(mut failure) => {
                failure.what += &format!("\nthe kernel complained during the run:{}", self.lines());
                Err(failure)
            }
        }
    }

    fn lines(&self) -> String {
        let mut text: String =
            self.first.iter().map(|(stage, message)| format!("\n  ({stage}) {message}")).collect();
        if self.further > 0 {
            text += &format!("\n  … and {} more", self.further);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch() -> Watch {
        let devices = vec!["loop64".to_owned()];
        Watch { log: None, note: None, devices, is_provoked: false, found: Complaints::default() }
    }

    fn complaint(device: Option<&str>) -> Complaint {
        Complaint { message: "EXT4-fs error".into(), device: device.map(str::to_owned) }
    }

    fn failure(kind: FailureKind, what: &str) -> RunFailure {
        RunFailure { kind, stage: Stage::Mount, what: what.into(), hint: None }
    }

    #[test]
    fn provoked_complaints_are_ignored_on_own_device_only() {
        let mut watch = watch();
        let counts = |watch: &Watch| {
            [Some("loop64"), Some("loop64-8"), Some("sda"), None].map(|d| watch.counts(&complaint(d)))
        };
        assert_eq!(counts(&watch), [true, true, false, true]);
        watch.provoke(Stage::Load, true);
        assert_eq!(counts(&watch), [false, false, false, true]);
        watch.provoke(Stage::Load, false);
        assert_eq!(counts(&watch), [true, true, false, true]);
    }

    #[test]
    fn complaints_fail_run_with_first_lines_and_stages() {
        let mut found = Complaints::default();
        assert_eq!(found.judge(Ok(7)).map_err(|failure| failure.what), Ok(7));
        for number in 0..9 {
            found.add(if number == 0 { Stage::Load } else { Stage::Unmount }, format!("line {number}"), true);
        }
        let failed = found.judge(Ok(7)).unwrap_err();
        assert_eq!((failed.kind, failed.stage), (FailureKind::ArmFailed, Stage::Load));
        assert_eq!(
            failed.what,
            "the kernel complained during the run:\n  (load) line 0\n  (unmount) line 1\n  (unmount) line 2\n  \
             (unmount) line 3\n  … and 5 more"
        );
    }

    #[test]
    fn failed_run_keeps_original_failure() {
        let mut found = Complaints::default();
        found.add(Stage::Load, "line".into(), true);
        let judged = |kind, what: &str| found.judge::<()>(Err(failure(kind, what))).unwrap_err();
        let lost = judged(FailureKind::Lost, "hung");
        assert_eq!((lost.kind, lost.stage), (FailureKind::Lost, Stage::Mount));
        assert_eq!(lost.what, "hung\nthe kernel complained during the run:\n  (load) line");
        assert_eq!(judged(FailureKind::Unsupported, "no snapshots").what, "no snapshots");
        let long = "x".repeat(ROOM + 1);
        assert_eq!(judged(FailureKind::Lost, &long).what, long);
    }
}
