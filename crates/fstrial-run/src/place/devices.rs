//! The devices of a trial: made or accepted, made ready, given up.

use super::{
    Opening,
    bases::Bases,
    modelled,
    precondition::{self, Step},
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
    /// What is said about how it was preconditioned, if it was, and the time that took.
    pub(super) preconditioned: Option<Preconditioned>,
}

impl Devices {
    /// What is said about them with the results.
    pub(super) fn notes(&self, plan: &Plan) -> Vec<String> {
        let mut notes = self.main.notes();
        notes.extend(self.preconditioned.iter().map(|(note, _)| note.clone()));
        if let Some(by) = self.memory_limited_by {
            let limits = plan.trial.arms.iter().filter_map(|arm| plan.trial.memory_of(arm));
            notes.extend(memory::notes(by, &limits.collect()));
        }
        if let Some(log) = &self.log {
            notes.push(format!(
                "journals and logs of arms with log=external lie on another device: {}",
                log.describe()
            ));
            notes.extend(log.notes().into_iter().map(|note| format!("log device: {note}")));
        }
        notes
    }

    pub(super) fn setup(&self, plan: &Plan) -> Setup {
        Setup { log: self.log.as_ref().map(|log| log.binding(&plan.trial.arms[0])) }
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

    /// Both, where there are two.
    pub(super) fn all(&self) -> Vec<&dyn Device> {
        std::iter::once(&self.main).chain(&self.log).map(AsRef::as_ref).collect()
    }
}

/// What limits the memory of loads here, if any arm of the place has a limit.
fn limited_by(plan: &Plan, place: Option<&str>) -> Result<Option<LimitedBy>, StackError> {
    let arms = plan.trial.arms.iter().filter(|arm| arm.place.as_deref() == place);
    let largest = arms.filter_map(|arm| plan.trial.memory_of(arm)).max();
    largest.map(memory::require).transpose()
}

/// What is needed of a device before the first run: room for what is prepared on it, and a steady state. If there is
/// none it is given up, as at the end of a trial.
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

/// Brings a disk to its steady state, if that is asked for; gives the note about it, and the time it took.
fn precondition(
    binding: &DeviceBinding,
    opening: &mut Opening<'_>,
) -> Result<Option<Preconditioned>, ExpectedError> {
    let Some(round) = opening.precondition else { return Ok(None) };
    let DeviceBinding::Disk { path, size, .. } = binding else { return Ok(None) };
    let mut told = Bytes(0);
    let tell = &mut *opening.tell;
    let outcome = precondition::run(path, *size, round, opening.interrupt, &mut |step| match step {
        Step::Sequential(done, total) if done.0 - told.0 >= total.0 / 100 => {
            told = done;
            tell(&Event::DeviceProgress { done, total });
        }
        Step::Sequential(..) => {}
        Step::Estimate { least, most } => {
            let [least, most] = [least, most].map(|time| numbers::wait(time.as_secs_f64()));
            tell(&Event::Preparing { line: &format!("preconditioning will take {least} to {most}") });
        }
        Step::Round(number, rate) => {
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
    // A filesystem needs room for itself: files may take 80 % of what its state leaves of a device.
    let needed = plan.trial.device_for(Bytes(most.max().unwrap_or(0)));
    let least = needed.max(Bytes(smallest));
    let spec = &plan.trial.device;
    let Opening { permission, ledger, .. } = *opening;
    let asked = DeviceRequest { spec, size: plan.device_size, least, permission, ledger };
    opening.telling(|tell| provider(spec.kind)(&asked, tell))
}

type Provider = fn(&DeviceRequest<'_>, Progress<'_>) -> Result<Box<dyn Device>, ExpectedError>;

/// The table: how each kind of device is made or accepted.
fn provider(kind: DeviceKind) -> Provider {
    match kind {
        DeviceKind::Image => |asked, tell| Ok(image::provide(asked, tell)?),
        DeviceKind::Ramdisk => |asked, tell| Ok(ramdisk::provide(asked, tell)?),
        DeviceKind::Model => modelled::provide,
        DeviceKind::Disk => |asked, tell| Ok(disk::provide(asked, tell)?),
        DeviceKind::Directory => |asked, tell| Ok(directory::provide(asked, tell)?),
    }
}

impl Opening<'_> {
    /// Makes something that takes a while, telling how far it is.
    fn telling<T>(
        &mut self,
        make: impl FnOnce(Progress<'_>) -> Result<T, ExpectedError>,
    ) -> Result<T, ExpectedError> {
        let mut told = Bytes(0);
        make(&mut |done: Bytes, total: Bytes| {
            // A hundred lines at most: told about every per cent.
            if done.0 - told.0 >= total.0 / 100 {
                told = done;
                (self.tell)(&Event::DeviceProgress { done, total });
            }
            if self.interrupt.is_raised() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    }
}
