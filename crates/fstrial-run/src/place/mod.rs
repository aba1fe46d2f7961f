//! A place: where workers run, with all that belongs to that host: its devices, the prepared filesystems it keeps, its
//! ledger, its environment. The coordinator hands it jobs and hears messages; how those get there is the place's own.

pub mod agent;
mod allowed;
mod bases;
pub mod boot;
mod child;
mod devices;
pub mod host;
pub mod modelled;
pub mod precondition;
pub mod reach;
pub mod remote;
pub(crate) mod transport;
pub mod wire;

use super::{attached::Content, environment::Environment, event::Event, interrupt::Interrupt, plan::Plan};
use crate::error::ExpectedError;
use fstrial_model::{
    job::{Job, KeptFiles, RunFailure, WorkerMessage},
    measurement::Measurement,
    place::PlaceSpec,
    units::Nanos,
    workload::Data,
};
use fstrial_stack::{device::Permission, ledger::Ledger};
use host::Host;
use reach::Reach;
use remote::Remote;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The end of a run at a place.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobOutcome {
    /// The worker did its job; no measurement if there was no load.
    Measured(Option<Box<Measurement>>),
    /// It failed.
    Failed(RunFailure),
    /// It was interrupted.
    Interrupted,
}

/// A place with the devices of a trial.
pub trait Place {
    /// The machine, and its device.
    fn environment(&self) -> &Environment;
    /// Suitable content of files on its device.
    fn data(&self) -> Data;
    /// Runs a job to its end, passing on the worker's messages. Returns only when no part of the run is left.
    fn run(&mut self, job: &Job, hear: &mut dyn FnMut(&WorkerMessage)) -> JobOutcome;
    /// The runs that follow are of another round.
    fn begin_round(&mut self) {}
    /// Files that show the first cut with a loss or damage in the runs that follow.
    fn keep_loss_in(&mut self, _: Option<KeptFiles>) {}
    /// Time that went into making it ready and that the trial's budget does not pay for.
    fn unbudgeted(&self) -> Nanos {
        Nanos(0)
    }
    /// Warnings on its device's behaviour for the reader of results, at the end of the trial.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
    /// Gives everything up.
    ///
    /// # Errors
    /// Something of it stays on its host.
    fn close(self: Box<Self>) -> Result<(), ExpectedError>;
}

/// Opens the places of a plan, in its order, those elsewhere by these commands; of boots the one that runs. Those that were opened
/// before an error stay in `places`, to be closed.
///
/// # Errors
/// A place cannot be reached, or the devices cannot be made there.
pub fn open_all(
    plan: &Plan,
    cpus: u16,
    reaches: &[Reach],
    opening: Opening<'_>,
    places: &mut Vec<Box<dyn Place>>,
) -> Result<(), ExpectedError> {
    let Opening { interrupt, inputs, tell, .. } = opening;
    let only = opening.place;
    for name in plan.places.iter().filter(|name| only.is_none() || name.as_deref() == only) {
        let spec = plan.trial.places.iter().find(|spec| Some(&spec.name) == name.as_ref());
        places.push(match spec {
            Some(spec) if !spec.is_here() => {
                let reach = reach::of(reaches, &spec.name)?;
                Box::new(Remote::open(reach, &plan.at(spec), cpus, inputs, interrupt, tell)?)
            }
            _ => {
                let (tell, place) = (&mut *tell, name.as_deref());
                let here = Opening { place, tell, ..opening };
                Box::new(Host::open(&spec.map_or_else(|| plan.clone(), |spec| plan.at(spec)), here)?)
            }
        });
    }
    Ok(())
}

/// Inputs for opening a place in addition to the plan.
pub struct Opening<'a> {
    /// The place's name in the trial; none: the host that runs fstrial, or of several places all.
    pub place: Option<&'a str>,
    /// Ledger of changes that outlive a process.
    pub ledger: &'a Ledger,
    /// Raised by Ctrl-C.
    pub interrupt: &'a Interrupt,
    /// Erasable disks.
    pub permission: &'a Permission,
    /// Folder of prepared filesystems, which is only looked at when one is kept.
    pub state_folder: &'a Path,
    /// Contents of the files that jobs name by digest.
    pub inputs: &'a [Content],
    /// Bring a disk to its steady state first: the length of a round of that.
    pub precondition: Option<Nanos>,
    /// Hears how far it is.
    pub tell: &'a mut dyn FnMut(&Event<'_>),
}
