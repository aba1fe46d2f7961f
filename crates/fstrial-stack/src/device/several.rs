//! Several devices of one kind: members that btrfs spreads a filesystem over itself, or of which md makes an array.

use super::{Device, Progress, image::Image, zram};
use crate::{array, error::StackError, host, ledger::Ledger};
use fstrial_model::{
    arm::Arm,
    device::{Device as DeviceSpec, DeviceKind, Raid, RaidLevel},
    job::DeviceBinding,
    units::Bytes,
    workload::Data,
};
use std::path::Path;

/// Members, all of one kind and size.
pub struct Several {
    members: Vec<Box<dyn Device>>,
    raid: Option<Raid>,
}

impl Several {
    /// Makes them, each of this size.
    ///
    /// # Errors
    /// One of them cannot be made, or no array can be made here.
    pub fn make(
        spec: &DeviceSpec,
        count: u16,
        size: Bytes,
        ledger: &Ledger,
        progress: Progress<'_>,
    ) -> Result<Self, StackError> {
        if spec.raid.is_some() {
            array::require()?;
        }
        let all = Bytes(size.0 * u64::from(count));
        if spec.kind == DeviceKind::Ramdisk {
            host::require_memory(all, "members in memory")?;
        }
        let mut members: Vec<Box<dyn Device>> = Vec::new();
        for number in 0..u64::from(count) {
            let tell = &mut |done: Bytes, _: Bytes| progress(Bytes(size.0 * number + done.0), all);
            match member(spec, size, ledger, tell) {
                Ok(member) => members.push(member),
                Err(error) => {
                    // What cannot be given up stays in the ledger; the first error is told.
                    members.into_iter().for_each(|member| drop(member.close()));
                    return Err(error);
                }
            }
        }
        Ok(Self { members, raid: spec.raid })
    }
}

fn member(
    spec: &DeviceSpec,
    size: Bytes,
    ledger: &Ledger,
    tell: Progress<'_>,
) -> Result<Box<dyn Device>, StackError> {
    Ok(match spec.kind {
        DeviceKind::Ramdisk if zram::is_available() => Box::new(zram::Zram::add(size, ledger)?),
        DeviceKind::Ramdisk => Box::new(Image::in_memory(size, tell)?),
        _ => Box::new(Image::make(spec.path.as_deref().unwrap_or(Path::new(".")), size, tell)?),
    })
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
            "all members are on one machine's disk or memory: what spreading requests costs shows, what several \
             spindles gain does not"
                .into(),
        );
        if self.raid.is_some_and(|raid| raid.level != RaidLevel::Raid0) {
            notes.push(
                "the array is made anew for every run and taken for clean (--assume-clean), without a bitmap: no resync \
                 runs beside the load"
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
        // Every one of them; of several errors the first one is told.
        let closed: Vec<_> = self.members.into_iter().map(Device::close).collect();
        closed.into_iter().collect()
    }
}
