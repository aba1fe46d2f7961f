//! This host as a place: workers are child processes, and devices are made or accepted here.

use super::{JobOutcome, Opening, Place, bases::Bases, child::Workers, devices::Devices};
use crate::{
    attached::Content,
    environment::{BootFacts, Environment, busy_percent},
    error::ExpectedError,
    event::Event,
    failure::stack_failure,
    interrupt::Interrupt,
    plan::Plan,
};
use fstrial_model::{
    job::{CutFiles, Job, KeptFiles, PlacedJob, Setup, WorkerMessage},
    measurement::Stage,
    units::Nanos,
    workload::{ContentDigest, Data},
};
use fstrial_stack::{StackError, ledger::Ledger};
use std::{collections::BTreeMap, sync::Arc};

/// This host, with the devices of a trial.
pub struct Host {
    devices: Devices,
    setup: Setup,
    bases: Bases,
    /// The files that jobs name.
    inputs: BTreeMap<ContentDigest, Arc<[u8]>>,
    ledger: Ledger,
    interrupt: Interrupt,
    environment: Environment,
    /// See [`Place::keep_loss_in`].
    kept: Option<KeptFiles>,
}

impl Host {
    /// Makes or accepts the devices of a trial.
    ///
    /// # Errors
    /// They cannot be made here, or must not be used; there is no space for prepared filesystems.
    pub fn open(plan: &Plan, mut opening: Opening<'_>) -> Result<Self, ExpectedError> {
        let is_boot = plan.trial.boots().any(|name| opening.place == Some(name));
        // Before the device is made, which leaves the kernel something to write.
        let busy_percent = busy_percent();
        let bases = Bases::in_folder(opening.state_folder);
        let devices = Devices::provide(plan, &bases, &mut opening)?;
        for line in devices.main.cautions() {
            (opening.tell)(&Event::Preparing { line: &line });
        }
        let environment = Environment {
            place: opening.place.unwrap_or_default().to_owned(),
            device: devices.main.describe(),
            device_notes: devices.notes(plan),
            memory_limited_by: devices.memory_limited_by,
            busy_percent,
            boot: is_boot.then(BootFacts::of_this_boot),
            generator_loop_ns: Some(loop_cost_ns()),
            ..Environment::of_this_machine()
        };
        Ok(Self {
            setup: devices.setup(plan),
            devices,
            bases,
            inputs: opening.inputs.iter().map(Content::shared).collect(),
            ledger: opening.ledger.clone(),
            interrupt: opening.interrupt.clone(),
            environment,
            kept: None,
        })
    }

    /// Takes a file that jobs name.
    pub(super) fn put(&mut self, content: &Content) {
        self.inputs.extend([content.shared()]);
    }

    /// The files for the power cuts of a job, if it has any.
    fn cut_files(&self, job: &Job) -> Result<Option<CutFiles>, StackError> {
        if job.task.as_ref().is_none_or(|task| task.cuts().is_none()) {
            return Ok(None);
        }
        let files = self.devices.main.cut_files();
        let files = files.map(|files| CutFiles { kept: self.kept.clone(), ..files });
        files.map(Some).ok_or_else(|| StackError::Unable {
            what: "only a modelled device loses its power".into(),
            hint: "use --device with a model, see `fstrial device list`".into(),
        })
    }

    /// The job with this host's own settings.
    fn placed(&mut self, job: &Job) -> Result<PlacedJob, StackError> {
        Ok(PlacedJob {
            device: self.devices.main.binding(&job.arm),
            setup: Setup { cuts: self.cut_files(job)?, ..self.setup.of(&job.arm) },
            base: job.state.as_ref().map(|state| self.bases.path(state.kept)).transpose()?,
            coordinator: std::process::id(),
            ledger: self.ledger.folder().to_owned(),
            job: job.clone(),
        })
    }
}

/// Overhead of the load generator's own loop, in whole nanoseconds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some tens of nanoseconds")]
fn loop_cost_ns() -> u64 {
    fstrial_engine::loop_cost_ns().round() as u64
}

impl Place for Host {
    fn environment(&self) -> &Environment {
        &self.environment
    }

    fn keep_loss_in(&mut self, files: Option<KeptFiles>) {
        self.kept = files;
    }

    fn data(&self) -> Data {
        self.devices.main.data()
    }

    fn run(&mut self, job: &Job, hear: &mut dyn FnMut(&WorkerMessage)) -> JobOutcome {
        let placed = match self.placed(job) {
            Ok(placed) => placed,
            Err(error) => return JobOutcome::Failed(stack_failure(Stage::Attach, &error)),
        };
        let Self { ledger, interrupt, inputs, .. } = &*self;
        Workers { devices: self.devices.all(), ledger, interrupt, inputs }.run(&placed, hear)
    }

    fn unbudgeted(&self) -> Nanos {
        self.devices.preconditioned.as_ref().map_or(Nanos(0), |(_, took)| *took)
    }

    fn warnings(&self) -> Vec<String> {
        self.devices.main.warnings()
    }

    fn close(self: Box<Self>) -> Result<(), ExpectedError> {
        self.devices.close().map_err(ExpectedError::CleanUp)
    }
}
