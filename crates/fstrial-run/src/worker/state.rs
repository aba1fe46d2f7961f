//! The worker's part in states: it makes one on a new filesystem and saves the device, or puts a saved device back.

use super::{Run, say};
use crate::{
    failure::engine_failure,
    program::{self, Level},
};
use fstrial_engine::{Made, Recipe, Site, StateSummary, finish_state, make_state};
use fstrial_model::{
    job::{DeviceBinding, FailureKind, Load, RunFailure, StateStep, StateTask, WorkerMessage},
    measurement::Stage,
    state::{FreeSpace, Restoring, State, StateFigures},
    units::{Bytes, Nanos},
};
use fstrial_stack::{
    StackError, base, free_space,
    stack::{ArmTarget, AttachedDevices, ReadyArm},
};
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// Bytes per second below which a stage counts as hung.
const MIN_BYTES_PER_SECOND: u64 = 2 << 20;
/// Interval of progress reports of a long stage.
const BETWEEN: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub(super) struct Prepared {
    made: Made,
    finished: StateSummary,
}

/// Rate-limited progress reports of a stage.
struct Teller {
    stage: Stage,
    deadline: Nanos,
    last: Instant,
}

impl Teller {
    /// `at_once`: bytes that may be written out between two words.
    fn new(stage: Stage, at_once: Bytes) -> Self {
        Self { stage, deadline: deadline(at_once), last: Instant::now() }
    }

    fn tell(&mut self, done: Bytes, total: Bytes) {
        if self.last.elapsed() >= BETWEEN {
            self.last = Instant::now();
            say(&WorkerMessage::Progress { stage: self.stage, done, total, deadline: self.deadline });
        }
    }
}

fn deadline(bytes: Bytes) -> Nanos {
    Nanos::secs(300 + bytes.0 / MIN_BYTES_PER_SECOND)
}

/// Size of the device, as far as it is known before it is attached. Members and states do not go together.
fn size_of(binding: &DeviceBinding) -> Bytes {
    binding.size().unwrap_or_default()
}

/// A zram device is emptied when it is attached.
fn is_blank(binding: &DeviceBinding) -> bool {
    matches!(binding, DeviceBinding::Zram { .. })
}

impl<'a> Run<'a> {
    /// The file that keeps the state of the job.
    fn base(&self) -> &'a Path {
        self.placed.base.as_deref().expect("a place gives every job with a state its file")
    }

    /// Steps before the device is attached: restoring an image by a clone, or testing whether that is possible.
    pub(super) fn before_attach(&mut self) -> Result<(), RunFailure> {
        let Some(StateTask { restoring: Restoring::Clone, step, .. }) = &self.job.state else {
            return Ok(());
        };
        let (device, base) = (&self.placed.device, self.base());
        self.enter(Stage::Restore, deadline(size_of(device)));
        let done = match step {
            // Not the wanted state yet, but a failure to save is better known before it is made.
            StateStep::Prepare { .. } => base::save_clone(device, base).map(drop),
            StateStep::Restore { .. } => base::restore_clone(device, base),
        };
        done.map_err(|e| self.failed(&e))?;
        self.enter(Stage::Attach, Nanos::secs(60));
        Ok(())
    }

    /// Brings a filesystem onto the attached device: the saved one, or a new one. Returns the output of mkfs.
    pub(super) fn bring(&mut self, attached: &mut AttachedDevices) -> Result<String, StackError> {
        let job = self.job;
        match &job.state {
            Some(StateTask { restoring, step: StateStep::Restore { mkfs_output, .. }, .. }) => {
                if *restoring == Restoring::Copy {
                    self.copy_back(attached)?;
                }
                attached.note(format!("({} of the filesystem that was prepared)", restoring.name()));
                base::forget(&self.arm.filesystem, attached.path());
                return Ok(mkfs_output.clone());
            }
            Some(StateTask { restoring: Restoring::Copy, step: StateStep::Prepare { .. }, .. })
                if !is_blank(&self.placed.device) =>
            {
                let size = size_of(&self.placed.device);
                self.enter(Stage::Restore, deadline(size));
                let mut teller = Teller::new(Stage::Restore, size);
                base::blank(attached.path(), &mut |done, total| teller.tell(done, total))?;
            }
            _ => {}
        }
        self.enter(Stage::Mkfs, Nanos::secs(300));
        attached.make(self.arm)
    }

    fn copy_back(&mut self, attached: &AttachedDevices) -> Result<(), StackError> {
        let size = size_of(&self.placed.device);
        self.enter(Stage::Restore, deadline(size));
        let mut teller = Teller::new(Stage::Restore, size);
        let is_blank = is_blank(&self.placed.device);
        base::restore(self.base(), attached.path(), is_blank, &mut |done, total| teller.tell(done, total))
    }

    /// Notes the state of a restored filesystem.
    pub(super) fn note_state(&self, ready_arm: &mut ReadyArm) {
        if let Some(StateTask { step: StateStep::Restore { figures, .. }, .. }) = &self.job.state {
            ready_arm.is_in_state(figures);
        }
    }

    /// Makes the state that the job asks for, if it asks for one, on the filesystem that is ready; hands it back, mounted
    /// again.
    #[expect(clippy::result_large_err, reason = "the built state is returned once in a trial")]
    pub(super) fn make_state(
        &mut self,
        ready_arm: ReadyArm,
    ) -> Result<(ReadyArm, Option<Prepared>), (Option<ReadyArm>, RunFailure)> {
        let job = self.job;
        let Some(StateTask { step: StateStep::Prepare { state, seed, data, room }, .. }) = &job.state else {
            return Ok((ready_arm, None));
        };
        let ArmTarget::Directory(mounted) = ready_arm.target().clone() else { return Ok((ready_arm, None)) };
        self.enter(Stage::Prepare, deadline(*room));
        let mut teller = Teller::new(Stage::Prepare, *room);
        let recipe = Recipe { state: *state, seed: *seed, data: *data, room: *room };
        let made = match state {
            State::Loaded(_) => self.load_data(&mounted).map(|()| Made::default()),
            _ => make_state(&mounted, &recipe, &mut |done, total| teller.tell(done, total))
                .map_err(|error| engine_failure(Stage::Prepare, &error)),
        };
        let made = match made {
            Ok(made) => made,
            Err(failure) => return Err((Some(ready_arm), failure)),
        };
        let ready_arm = self.mount_anew(ready_arm, &mounted).map_err(|failure| (None, failure))?;
        self.enter(Stage::Prepare, deadline(*room));
        match finish_state(&mounted, &recipe) {
            Ok(finished) => Ok((ready_arm, Some(Prepared { made, finished }))),
            Err(error) => Err((Some(ready_arm), engine_failure(Stage::Prepare, &error))),
        }
    }

    /// Loads the data of the job's task: lays out the records of its first phase, or has a program prepare and its
    /// server load.
    fn load_data(&mut self, folder: &Path) -> Result<(), RunFailure> {
        let Some(task) = self.job.task.as_ref() else {
            return Err(RunFailure {
                kind: FailureKind::LoadRefused,
                stage: Stage::Prepare,
                what: "the job loads data without naming them".into(),
                hint: None,
            });
        };
        if let Some(timed) = &task.program {
            let level =
                Level { threads: task.threads, duration: timed.duration, seed: timed.seed, is_loaded: false };
            return program::load(&timed.program, folder, level, &mut |deadline| {
                self.enter(Stage::Prepare, deadline);
            });
        }
        self.enter(Stage::Prepare, deadline(task.space_needed()));
        let first = task.phases.iter().take(1).flat_map(|phase| &phase.groups);
        let loads: Vec<Load> = first.map(|group| group.load.clone()).collect();
        let mut site = Site::new(fstrial_engine::Target::Directory(folder)).with_engines(self.engines);
        let laid_out = site.prepare(&loads).map_err(|e| engine_failure(Stage::Prepare, &e))?;
        // An engine's closing work is a part of loading.
        drop(laid_out);
        loads.iter().try_for_each(|load| site.check(load)).map_err(|e| engine_failure(Stage::Prepare, &e))
    }

    fn mount_anew(&mut self, ready_arm: ReadyArm, at: &Path) -> Result<ReadyArm, RunFailure> {
        self.enter(Stage::Unmount, Nanos::secs(900));
        let attached = ready_arm.unmount().map_err(|e| self.failed(&e))?;
        let attached = attached.expect("a state is only made on a device");
        self.enter(Stage::Mount, Nanos::secs(300));
        let mounted = attached.mount(self.arm, &self.mkfs_output, at);
        mounted.map_err(|(attached, error)| self.give_up(attached, &error))
    }

    /// Saves the unmounted filesystem with its figures, and reports it.
    pub(super) fn save_state(
        &mut self,
        attached: &AttachedDevices,
        prepared: &Prepared,
    ) -> Result<(), RunFailure> {
        let job = self.job;
        let Some(StateTask { restoring, step: StateStep::Prepare { state, .. }, .. }) = &job.state else {
            return Ok(());
        };
        let size = size_of(&self.placed.device);
        self.enter(Stage::Save, deadline(size));
        let free_space = match state.is_fresh() {
            true => FreeSpace::Unknown("nothing was made that could split it".into()),
            false => free_space::of(&self.arm.filesystem, attached.path()),
        };
        let mut teller = Teller::new(Stage::Save, size);
        let saved = match restoring {
            Restoring::Copy => {
                base::save(attached.path(), self.base(), &mut |done, total| teller.tell(done, total))
            }
            Restoring::Clone => base::save_clone(&self.placed.device, self.base()),
        };
        let Prepared { made, finished } = prepared;
        let figures = StateFigures {
            requested: state.to_string(),
            files: finished.files,
            utilisation: finished.utilisation,
            available: finished.available,
            turnovers: made.turnovers,
            layout_score_reached: made.layout_score_reached,
            layout: finished.layout,
            free_space,
            saved: saved.map_err(|e| self.failed(&e))?,
        };
        let mkfs_output = self.mkfs_output.clone();
        say(&WorkerMessage::Prepared { figures, mkfs_output });
        Ok(())
    }
}
