//! The worker's part in receipts: it records a load with its promises, then cuts the power of the device at many points
//! of the recording, lets the filesystem recover by its own means, and checks each image.

use super::{
    Run,
    commits::Commits,
    promises::{Control, Judgement, PromiseLog, Unsaved},
    say,
};
use crate::program::{self, Level, ProgramEvent};
use fstrial_device::cuts::{CutImage, Order, Recorded, Settings};
use fstrial_model::{
    arm::{Arm, CheckedArm},
    job::{CutFiles, DeviceBinding, FailureKind, KeptFiles, ProgramTask, RunFailure, WorkerMessage},
    measurement::Stage,
    receipt::{CutOutcome, CutResult, CutTask, RunReceipt, Uncovered},
    units::Nanos,
};
use fstrial_stack::{
    StackError, base,
    stack::{AttachedDevices, ReadyArm},
};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use std::{io, path::Path, sync::Arc};

/// Bytes of write data that a recording holds; a load may write more, but cuts are within this much.
pub const LOG_LIMIT: u64 = 256 << 20;
/// Time for the recovery and the check of one image.
const EACH: Nanos = Nanos::secs(600);
/// Half of the cuts are at most this many log entries after the beginning of a flush.
const AROUND_FLUSH: usize = 4;

/// A position for a cut, and the fate of its uncovered writes.
struct Cut {
    at: usize,
    uncovered: Uncovered,
    seed: u64,
}

/// Checks the promises on a mounted image.
type Judge<'a> = dyn Fn(&Path) -> Result<Judgement, RunFailure> + 'a;

/// The promises of a load.
#[derive(Debug)]
pub(super) enum Observed {
    /// Syncs of the load generator.
    Syncs(PromiseLog),
    /// Commits of a server.
    Commits(Arc<Commits>),
}

impl Observed {
    fn control(&self) -> &Control {
        match self {
            Self::Syncs(log) => log.control(),
            Self::Commits(commits) => &commits.control,
        }
    }

    /// The longest that asking for them may take.
    fn longest(&self) -> Nanos {
        match self {
            Self::Syncs(_) => Nanos(0),
            Self::Commits(commits) => commits.longest(),
        }
    }

    /// The first position at which something is promised.
    fn first_cut(&self, recorded: &Recorded) -> usize {
        match self {
            Self::Syncs(_) => 0,
            Self::Commits(_) => recorded.promises.first().map_or(0, |(position, _)| position + 1),
        }
    }

    /// Number of promises before a cut.
    fn before(&self, recorded: &Recorded, at: usize) -> u64 {
        match self {
            Self::Syncs(log) => log.promises_before(recorded, at),
            Self::Commits(_) => recorded.promises.partition_point(|(position, _)| *position < at) as u64,
        }
    }
}

impl Run<'_> {
    /// Begins to note the promises of the load, if its device is to lose its power.
    pub(super) fn observe(&mut self, ready_arm: &ReadyArm) -> Result<(), RunFailure> {
        let Some((_, files)) = self.cut_task() else { return Ok(()) };
        let root = ready_arm.directory().map_err(|e| self.failed(&e))?;
        let control = Control::open(&files.control).map_err(|error| self.no_recording(&error))?;
        let promises = PromiseLog::new(control, root.to_owned());
        fstrial_engine::observe_syncs(Box::new(promises.clone()));
        self.promises = Some(Observed::Syncs(promises));
        Ok(())
    }

    /// Records a server at work, with its commits.
    pub(super) fn record_commits(
        &mut self,
        task: &ProgramTask,
        threads: u16,
        ready_arm: &mut ReadyArm,
    ) -> Result<(), RunFailure> {
        let Some((_, files)) = self.cut_task() else { return Ok(()) };
        let root = ready_arm.directory().map_err(|e| self.failed(&e))?.to_owned();
        let control = Control::open(&files.control).map_err(|error| self.no_recording(&error))?;
        let level = Level { threads, duration: task.duration, seed: task.seed, is_loaded: false };
        let observed = Arc::new(Commits::new(control, root.clone(), task.program.clone(), level));
        self.promises = Some(Observed::Commits(Arc::clone(&observed)));
        let mut step = |step| {
            self.at_step(step, ready_arm)?;
            if matches!(step, ProgramEvent::Command(_)) { self.begin_recording() } else { Ok(()) }
        };
        program::commits::record(&task.program, &root, level, &mut step, &|number| {
            observed.acknowledge(number)
        })
    }

    /// The recording begins: all threads are ready.
    pub(super) fn begin_recording(&self) -> Result<(), RunFailure> {
        let Some((task, files)) = self.cut_task() else { return Ok(()) };
        let keeps_start = files.kept.is_some();
        let settings = Settings { limit: LOG_LIMIT, protected: task.protected, keeps_start };
        let begun = match &self.promises {
            None => Ok(()),
            Some(Observed::Syncs(log)) => log.begin(settings),
            Some(Observed::Commits(commits)) => commits.begin(settings),
        };
        begun.map_err(|error| self.no_recording(&error))
    }

    /// The recording of the load; the arm is still mounted.
    pub(super) fn end_recording(&self) -> Result<Option<Recorded>, RunFailure> {
        let end = |promises: &Observed| match promises {
            Observed::Syncs(log) => log.end(),
            Observed::Commits(commits) => commits.control.ask(Order::End),
        };
        let ended = self.promises.as_ref().map(end).transpose();
        ended.map_err(|error| self.no_recording(&error))
    }

    /// Cuts the power as often as the task says, and reports the receipt. The arm is taken down.
    pub(super) fn cut(
        &mut self,
        recorded: &Recorded,
        promises: &Observed,
        point: &Path,
    ) -> Result<(), RunFailure> {
        let Some((task, files)) = self.cut_task() else { return Ok(()) };
        let (task, image, mut kept) = (*task, files.image.clone(), files.kept.clone());
        let mut receipt = RunReceipt {
            promises: promises.before(recorded, usize::MAX),
            writes: recorded.writes as u64,
            flushes: recorded.flushes.len() as u64,
            is_full: recorded.is_full,
            cuts: Vec::new(),
            unkept: None,
        };
        let keeps_names = !self.is_repaired_first;
        self.watch.provoke(self.stage, true);
        for cut in positions(&task, recorded, promises.first_cut(recorded)) {
            let each = Nanos(EACH.0 + promises.longest().0);
            self.enter(Stage::Check, each);
            let Cut { at, uncovered, seed } = cut;
            let image_of = |run: &Self| -> Result<CutImage, RunFailure> {
                let made = promises.control().ask(Order::Cut { at, uncovered, seed });
                made.map_err(|error| run.no_recording(&error))
            };
            let made = image_of(self)?;
            let judge = |root: &Path| match promises {
                Observed::Syncs(log) => Ok(log.check(recorded, at, root, keeps_names)),
                Observed::Commits(commits) => commits.check(recorded, at, root),
            };
            let (mut outcome, mut judgement) = self.recover(&image, point, &judge)?;
            if !matches!(outcome, CutOutcome::Kept | CutOutcome::Lost { .. }) || judgement.is_doubtful {
                // Again: this host, and not the image, may have been the reason.
                self.enter(Stage::Check, each);
                image_of(self)?;
                (outcome, judgement) = self.recover(&image, point, &judge)?;
            }
            if let Some(kept) = kept.take_if(|_| outcome != CutOutcome::Kept) {
                image_of(self)?;
                receipt.unkept = self.keep_loss(&image, &kept, promises.control())?;
            }
            receipt.cuts.push(CutResult {
                at: at as u64,
                uncovered,
                seed,
                pending: made.uncovered as u64,
                promises: promises.before(recorded, at),
                checked: judgement.checked,
                missing: judgement.missing,
                outcome,
            });
        }
        self.watch.provoke(self.stage, false);
        say(&WorkerMessage::Receipt { receipt });
        Ok(())
    }

    fn cut_task(&self) -> Option<(&CutTask, &CutFiles)> {
        self.job.task.as_ref()?.cuts().zip(self.placed.setup.cuts.as_ref())
    }

    /// Recovers an image and checks it: repair of a filesystem without a journal, mount, the promises, full check.
    fn recover(
        &mut self,
        image: &Path,
        point: &Path,
        judge: &Judge<'_>,
    ) -> Result<(CutOutcome, Judgement), RunFailure> {
        let plain = Arm { discard: None, ..self.arm.with_queue(|_| false) };
        let arm = plain.checked().expect("a part of a checked arm");
        let size = self.placed.device.size().unwrap_or_default();
        let binding = DeviceBinding::Loop { file: image.to_owned(), size, direct_io: true, discards: false };
        let attached = AttachedDevices::attach(&binding, &arm, self.placed.coordinator, &self.ledger);
        let mut attached = attached.map_err(|e| self.failed(&e))?;
        self.watch.own(self.stage, attached.device_names());
        self.watch.provoke(self.stage, true);
        let outcome = self.outcome(&mut attached, arm, point, judge);
        let detached = attached.detach().map_err(|e| self.failed(&e));
        let outcome = outcome?;
        detached?;
        Ok(outcome)
    }

    fn outcome(
        &self,
        attached: &mut AttachedDevices,
        arm: CheckedArm<'_>,
        point: &Path,
        judge: &Judge<'_>,
    ) -> Result<(CutOutcome, Judgement), RunFailure> {
        let is_damage = |error: &StackError| {
            matches!(
                error,
                StackError::Command { .. } | StackError::Corrupt { .. } | StackError::Unable { .. }
            )
        };
        let recovered = match self.is_repaired_first {
            true => attached.repair(&arm),
            false => Ok(()),
        };
        if let Err(error) = recovered.and_then(|()| attached.mount_again(arm, point)) {
            let why = error.to_string();
            return if is_damage(&error) {
                Ok((CutOutcome::Unmountable { why }, Judgement::default()))
            } else {
                Err(self.failed(&error))
            };
        }
        let judged = judge(point);
        attached.unmount_again(point).map_err(|e| self.failed(&e))?;
        let judgement = judged?;
        let outcome = judgement.outcome();
        if outcome != CutOutcome::Kept {
            return Ok((outcome, judgement));
        }
        match attached.check(&arm) {
            Ok(()) => Ok((CutOutcome::Kept, judgement)),
            Err(error) if is_damage(&error) => {
                Ok((CutOutcome::Damaged { why: error.to_string() }, judgement))
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Saves the image and the write log of a cut; the reason if their files cannot have them.
    fn keep_loss(
        &self,
        image: &Path,
        kept: &KeptFiles,
        control: &Control,
    ) -> Result<Option<String>, RunFailure> {
        match base::save(image, &kept.image, &mut |_, _| {}) {
            Ok(_) => {}
            Err(StackError::Io { source, .. }) => return Ok(Some(source.to_string())),
            Err(error) => return Ok(Some(error.to_string())),
        }
        match control.save_log(&kept.log) {
            Ok(()) => Ok(None),
            Err(Unsaved::NotWritten(error)) => Ok(Some(error.to_string())),
            Err(Unsaved::NotRead(error)) => Err(self.no_recording(&error)),
        }
    }

    fn no_recording(&self, error: &io::Error) -> RunFailure {
        RunFailure {
            kind: FailureKind::Lost,
            stage: self.stage,
            what: format!("the recording of the device failed: {error}"),
            hint: Some("see whether this host is short of memory".into()),
        }
    }
}

/// Positions in ascending order, not before the `first`: half of them anywhere, half just after the beginnings of flushes.
fn positions(task: &CutTask, recorded: &Recorded, first: usize) -> Vec<Cut> {
    let mut random = ChaCha8Rng::seed_from_u64(task.seed);
    let mut below =
        |limit: usize| usize::try_from(random.next_u64() % limit.max(1) as u64).expect("it is below");
    let at_stake = &recorded.at_stake[recorded.at_stake.partition_point(|at| *at < first)..];
    let mut cuts: Vec<Cut> = Vec::new();
    for number in 0..task.cuts as usize {
        let anywhere = match at_stake {
            [] => recorded.entries.min(first + below(recorded.entries.saturating_sub(first)) + 1),
            at_stake => at_stake[below(at_stake.len())],
        };
        let at = match recorded.flushes.as_slice() {
            [] => anywhere,
            _ if number % 2 == 0 => anywhere,
            flushes => flushes[below(flushes.len())] + 1 + below(AROUND_FLUSH),
        };
        // Without an uncovered write the filesystem cannot lose anything.
        let at = if at_stake.binary_search(&at).is_ok() { at } else { anywhere };
        let (at, seed) = (at, below(u32::MAX as usize) as u64);
        cuts.push(Cut { at, uncovered: Uncovered::ALL[number % Uncovered::ALL.len()], seed });
    }
    cuts.sort_by_key(|cut| cut.at);
    if recorded.entries == 0 { Vec::new() } else { cuts }
}
