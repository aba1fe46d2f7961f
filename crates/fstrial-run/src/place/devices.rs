//! The devices of a trial: made or accepted, made ready, given up.

use super::{
    Opening,
    bases::Bases,
    modelled,
    precondition::{self, PreconditionEvent},
};
use crate::{error::ExpectedError, event::Event, numbers, plan::Plan};
use fstrial_model::{
    device::DeviceKind,
    job::{DeviceBinding, Setup},
    memory::LimitedBy,
    units::{Bytes, Nanos},
};
use fstrial_stack::{
    StackError,
    device::{self, Device, DeviceRequest, Progress, directory, disk, image, ramdisk},
    memory,
};
use std::ops::ControlFlow;

/// The note about a disk that was preconditioned, and the time it took.
pub(super) type Preconditioned = (String, Nanos);

/// The devices of a trial.
pub(super) struct Devices {
    pub(super) main: Box<dyn Device>,
    pub(super) log: Option<Box<dyn Device>>,
    pub(super) memory_limited_by: Option<LimitedBy>,
    /// Note on its preconditioning, if it was preconditioned, and the time that took.
    pub(super) preconditioned: Option<Preconditioned>,
}

impl Devices {
    /// Notes on them for the results.
    pub(super) fn notes(&self, plan: &Plan) -> Vec<String> {
        let mut notes = self.main.notes();
        notes.extend(self.preconditioned.iter().map(|(note, _)| note.clone()));
        if let Some(by) = self.memory_limited_by {
            let limits = plan.trial.arms.iter().filter_map(|arm| plan.trial.memory_of(arm));
            notes.extend(memory::notes(by, &limits.collect()));
        }
        if let Some(log) = &self.log {
            notes.push(format!(
                "journals and logs of arms with log=external are on another device: {}",
                log.describe()
            ));
            notes.extend(log.notes().into_iter().map(|note| format!("log device: {note}")));
        }
        notes
    }

    pub(super) fn setup(&self, plan: &Plan) -> Setup {
        Setup { log: self.log.as_ref().map(|log| log.binding(&plan.trial.arms[0])), cuts: None }
    }

    pub(super) fn close(self) -> Result<(), StackError> {
        let log = self.log.map_or(Ok(()), Device::close);
        self.main.close().and(log)
    }
}

impl Devices {
    /// Makes or accepts the devices, telling how far it is. `bases` needs room with them.
    pub(super) fn provide(
        plan: &Plan,
        bases: &Bases,
        opening: &mut Opening<'_>,
    ) -> Result<Self, ExpectedError> {
        // Before anything is made that takes long.
        let memory_limited_by = limited_by(plan, opening.place)?;
        let log = plan.trial.log_device.as_ref();
        let make = |spec| opening.telling(|tell| Ok(device::provide_log(spec, tell)?));
        let log = log.map(make).transpose()?;
        let provided = provide(plan, opening).and_then(|main| make_ready(main, plan, bases, opening));
        match provided {
            Ok((preconditioned, main)) => Ok(Self { main, log, memory_limited_by, preconditioned }),
            Err(error) => {
                log.map_or(Ok(()), Device::close).map_err(ExpectedError::CleanUp)?;
                Err(error)
            }
        }
    }

    /// Both, if there are two.
    pub(super) fn all(&self) -> Vec<&dyn Device> {
        std::iter::once(&self.main).chain(&self.log).map(AsRef::as_ref).collect()
    }
}

/// The mechanism of memory limits here, if any arm of the place has one.
fn limited_by(plan: &Plan, place: Option<&str>) -> Result<Option<LimitedBy>, StackError> {
    let arms = plan.trial.arms.iter().filter(|arm| arm.place.as_deref() == place);
    let largest = arms.filter_map(|arm| plan.trial.memory_of(arm)).max();
    largest.map(memory::require).transpose()
}

/// Prepares a device for the first run: room for prepared states, and a steady state. On failure it is released, as at
/// the end of a trial.
fn make_ready(
    main: Box<dyn Device>,
    plan: &Plan,
    bases: &Bases,
    opening: &mut Opening<'_>,
) -> Result<(Option<Preconditioned>, Box<dyn Device>), ExpectedError> {
    let binding = main.binding(&plan.trial.arms[0]);
    let room = bases.require_space(plan, opening.place, &binding).map_err(ExpectedError::from);
    match room.and_then(|()| precondition(&binding, opening)) {
        Ok(preconditioned) => Ok((preconditioned, main)),
        Err(error) => {
            main.close().map_err(ExpectedError::CleanUp)?;
            Err(error)
        }
    }
}

/// Brings a disk to its steady state, if requested; returns the note about it, and the time it took.
fn precondition(
    binding: &DeviceBinding,
    opening: &mut Opening<'_>,
) -> Result<Option<Preconditioned>, ExpectedError> {
    let Some(round) = opening.precondition else { return Ok(None) };
    let DeviceBinding::Disk { path, size, .. } = binding else { return Ok(None) };
    let mut reported = Bytes(0);
    let tell = &mut *opening.tell;
    let outcome = precondition::run(path, *size, round, opening.interrupt, &mut |step| match step {
        PreconditionEvent::Sequential(done, total) if done.0 - reported.0 >= total.0 / 100 => {
            reported = done;
            tell(&Event::DeviceProgress { done, total });
        }
        PreconditionEvent::Sequential(..) => {}
        PreconditionEvent::Estimate { least, most } => {
            let [least, most] = [least, most].map(|time| numbers::wait(time.as_secs_f64()));
            tell(&Event::Preparing { line: &format!("preconditioning will take {least} to {most}") });
        }
        PreconditionEvent::Round(number, rate) => {
            tell(&Event::Preparing { line: &format!("preconditioning: round {number}, {rate:.0} writes/s") });
        }
    })?;
    Ok(Some((outcome.note(round), outcome.took)))
}

/// Makes or accepts the device.
fn provide(plan: &Plan, opening: &mut Opening<'_>) -> Result<Box<dyn Device>, ExpectedError> {
    let most = plan.workloads.iter().map(|workload| workload.most_space_needed().0);
    let rows = plan.trial.arms.iter().filter_map(|arm| arm.row());
    let smallest = rows.map(|row| row.min_size_mib << 20).max().unwrap_or(0);
    // A filesystem needs room for itself: files may take 80 % of the space that its state leaves on a device.
    let needed = plan.trial.device_for(Bytes(most.max().unwrap_or(0)));
    let least = needed.max(Bytes(smallest));
    let spec = &plan.trial.device;
    let Opening { permission, ledger, .. } = *opening;
    let requested = DeviceRequest { spec, size: plan.device_size, least, permission, ledger };
    opening.telling(|tell| provider(spec.kind)(&requested, tell))
}

type Provider = fn(&DeviceRequest<'_>, Progress<'_>) -> Result<Box<dyn Device>, ExpectedError>;

/// The table: how each kind of device is made or accepted.
fn provider(kind: DeviceKind) -> Provider {
    match kind {
        DeviceKind::Image => |requested, tell| Ok(image::provide(requested, tell)?),
        DeviceKind::Ramdisk => |requested, tell| Ok(ramdisk::provide(requested, tell)?),
        DeviceKind::Model => modelled::provide,
        DeviceKind::Disk => |requested, tell| Ok(disk::provide(requested, tell)?),
        DeviceKind::Directory => |requested, tell| Ok(directory::provide(requested, tell)?),
    }
}

impl Opening<'_> {
    /// Makes something that takes a while, telling how far it is.
    fn telling<T>(
        &mut self,
        make: impl FnOnce(Progress<'_>) -> Result<T, ExpectedError>,
    ) -> Result<T, ExpectedError> {
        let mut reported = Bytes(0);
        make(&mut |done: Bytes, total: Bytes| {
            // A hundred lines at most: one per per cent.
            if done.0 - reported.0 >= total.0 / 100 {
                reported = done;
                (self.tell)(&Event::DeviceProgress { done, total });
            }
            if self.interrupt.is_raised() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    }
}
