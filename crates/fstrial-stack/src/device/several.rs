//! Several devices of one kind: members that btrfs spreads a filesystem over itself, or of which md makes an array.

use super::{Device, DeviceRequest, Progress};
use crate::{array, error::StackError};
use fstrial_model::{
    arm::Arm,
    device::{Raid, RaidLevel},
    job::DeviceBinding,
    units::Bytes,
    workload::Data,
};

/// Members, all of one kind and size.
pub struct Several {
    members: Vec<Box<dyn Device>>,
    raid: Option<Raid>,
}

impl Several {
    /// Makes this many by `make`, each of the requested size.
    ///
    /// # Errors
    /// One of them cannot be made, or no array can be made here.
    pub fn make(
        requested: &DeviceRequest<'_>,
        count: u16,
        progress: Progress<'_>,
        make: impl Fn(Progress<'_>) -> Result<Box<dyn Device>, StackError>,
    ) -> Result<Box<dyn Device>, StackError> {
        let (raid, size, count) = (requested.spec.raid, requested.size.0, u64::from(count));
        if raid.is_some() {
            array::require()?;
        }
        let mut members: Vec<Box<dyn Device>> = Vec::new();
        for number in 0..count {
            let tell =
                &mut |done: Bytes, _: Bytes| progress(Bytes(size * number + done.0), Bytes(size * count));
            match make(tell) {
                Ok(member) => members.push(member),
                Err(error) => {
                    // Unreleased ones stay in the ledger; the first error is returned.
                    members.into_iter().for_each(|member| drop(member.close()));
                    return Err(error);
                }
            }
        }
        Ok(Box::new(Self { members, raid }))
    }
}

impl Device for Several {
    fn describe(&self) -> String {
        let one = self.members.first().map(|member| member.describe()).unwrap_or_default();
        match self.raid {
            Some(raid) => format!("md {raid} of {} members, each: {one}", self.members.len()),
            None => format!("{} members, each: {one}", self.members.len()),
        }
    }

    fn binding(&self, arm: &Arm) -> DeviceBinding {
        let members = self.members.iter().map(|member| member.binding(arm)).collect();
        match self.raid {
            Some(raid) => DeviceBinding::Raid { members, raid },
            None => DeviceBinding::Several { members },
        }
    }

    fn data(&self) -> Data {
        self.members.first().map_or(Data::Random, |member| member.data())
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.members.first().map(|member| member.notes()).unwrap_or_default();
        notes.push(
            "all members are on one machine's disk or memory: the cost of spreading requests shows, \
                 the gain of several spindles does not"
                .into(),
        );
        if self.raid.is_some_and(|raid| raid.level != RaidLevel::Raid0) {
            notes.push(
                "the array is recreated for every run and assumed clean (--assume-clean), without a \
                     bitmap: no resync runs alongside the load"
                    .into(),
            );
        }
        notes
    }

    fn is_released(&self) -> Result<bool, StackError> {
        for member in &self.members {
            if !member.is_released()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn close(self: Box<Self>) -> Result<(), StackError> {
        // Every one of them; of several errors the first is returned.
        let closed: Vec<_> = self.members.into_iter().map(Device::close).collect();
        closed.into_iter().collect()
    }
}
