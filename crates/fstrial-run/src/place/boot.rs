//! Boot settings of guests for a plan.

use crate::{attached, plan::Plan};
use fstrial_device::serve::Offer;
use fstrial_model::{
    device::LogKind,
    place::{Clock, PlaceSpec},
    units::Bytes,
};
use serde::{Deserialize, Serialize};

/// Memory of a guest without devices.
const MEMORY: Bytes = Bytes::mib(512);

/// Boot settings of a guest.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Boot {
    /// Real or virtual time; with virtual time the host serves no device.
    pub clock: Clock,
    /// Room for devices that it makes in its memory.
    pub room: Bytes,
    /// A modelled device that this host serves to it.
    pub device: Option<Offer>,
}

impl Boot {
    /// For the arms at a place of a plan.
    pub fn at(plan: &Plan, place: &PlaceSpec) -> Self {
        let plan = plan.at(place);
        let (clock, spec) = (plan.trial.clock_at(place), &plan.trial.device);
        // Where time is virtual no host can serve it.
        let served = spec.modelled().filter(|_| clock != Clock::Virtual);
        let is_within = spec.is_in_memory() && served.is_none();
        let members = if is_within { u64::from(spec.members.unwrap_or(1)) } else { 0 };
        let log = plan.trial.log_device.as_ref().filter(|log| log.kind == LogKind::Ramdisk);
        let log = log.map_or(0, |log| log.size().0);
        let device = served.map(|model| Offer {
            model,
            size: plan.device_size,
            folder: spec.path.clone(),
            name: "model".into(),
            to_hypervisor: true,
        });
        // A device may take 7 of 10 parts of the free memory; inputs are there as they came, and as a program reads them.
        let devices = plan.device_size.0.saturating_mul(members).saturating_add(log).saturating_mul(3) / 2;
        let inputs = if attached::has_some(&plan) { 3 * attached::MOST.0 } else { 0 };
        Self { clock, room: Bytes(devices.saturating_add(inputs)), device }
    }

    /// Memory of the guest: 512 MiB and `room`.
    pub fn memory(&self) -> Bytes {
        Bytes(MEMORY.0.saturating_add(self.room.0))
    }
}
