//! The files that keep prepared filesystems while a trial runs. They have no names: killed, the command leaves none.

use crate::{
    plan::Plan,
    prepared::{SharedState, shared},
};
use fstrial_model::{job::DeviceBinding, state::Restoring, units::Bytes};
use fstrial_stack::{
    StackError,
    base::{self, Base},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// A prepared filesystem takes this part of its device in addition to its files, at most: inode tables, journals, trees.
const OVERHEAD_PART: u64 = 8;

/// The folder of bases, and those made so far, by the number of the prepared filesystem.
#[derive(Debug)]
pub(super) struct Bases {
    folder: PathBuf,
    kept: BTreeMap<usize, Base>,
}

impl Bases {
    /// Bases in a folder, which is only looked at when one is made.
    pub(super) fn in_folder(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), kept: BTreeMap::new() }
    }

    /// Makes sure that the folder has space for all bases that a trial keeps at a place.
    ///
    /// # Errors
    /// It has not, or is not there.
    pub(super) fn require_space(
        &self,
        plan: &Plan,
        place: Option<&str>,
        binding: &DeviceBinding,
    ) -> Result<(), StackError> {
        let needed = needed(plan, place, binding.size().unwrap_or(plan.device_size));
        if needed.0 == 0 { Ok(()) } else { base::require_space(&self.folder, needed) }
    }

    /// Path for workers; made on first use.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub(super) fn path(&mut self, number: usize) -> Result<PathBuf, StackError> {
        if !self.kept.contains_key(&number) {
            self.kept.insert(number, Base::make(&self.folder)?);
        }
        Ok(self.kept[&number].path())
    }
}

/// Approximate upper bound of the space of a trial's bases at a place. Clones share their blocks at first; when the
/// image is overwritten, each keeps a full copy.
fn needed(plan: &Plan, place: Option<&str>, device: Bytes) -> Bytes {
    let mut all = shared(plan);
    all.retain(|shared| plan.trial.arms[shared.arms[0]].place.as_deref() == place);
    let one = |shared: &SharedState| match plan.trial.trial.restore {
        Restoring::Copy => {
            let data = shared.load.iter().flat_map(|load| &load.cells).map(|cell| {
                let at = plan.cells[*cell];
                let workload = &plan.workloads[at.workload];
                // For a program without a declared size only the device is known.
                match workload.space_needed(at.threads) {
                    Bytes(0) => device.0,
                    needed => needed.0,
                }
            });
            let held = shared.state.space(device).0 + data.max().unwrap_or(0);
            (held + device.0 / OVERHEAD_PART).min(device.0)
        }
        Restoring::Clone => device.0,
    };
    Bytes(all.iter().map(one).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::{trial::Trial, workload::Entry};

    fn needed_by(arms: &[&str], restore: Restoring) -> Bytes {
        needed_for("random-write", arms, restore)
    }

    fn needed_for(workload: &str, arms: &[&str], restore: Restoring) -> Bytes {
        let mut trial = Trial {
            arms: arms.iter().map(|arm| arm.parse().unwrap()).collect(),
            workloads: vec![Entry::of_preset(workload)],
            ..Trial::default()
        };
        trial.trial.restore = restore;
        needed(&Plan::new(trial.settled(1).unwrap(), 1).unwrap(), None, Bytes::mib(800))
    }

    #[test]
    fn required_base_space_follows_states() {
        assert_eq!(needed_by(&["ext4", "xfs"], Restoring::Copy), Bytes(0));
        // Half of the device and an eighth, once for both; and an eighth for the fresh one.
        let arms = ["a=ext4:state=filled:50%", "b=ext4:state=filled:50%", "xfs"];
        assert_eq!(needed_by(&arms, Restoring::Copy), Bytes::mib(600));
        assert_eq!(needed_by(&arms, Restoring::Clone), Bytes::mib(1600));
        assert_eq!(needed_by(&["ext4:state=filled:98%", "raw"], Restoring::Copy), Bytes::mib(800));
        // A server does not declare the size of its data: each load may take the whole device.
        let server =
            needed_for("postgresql-tpcb", &["ext4:state=loaded:2", "xfs:state=loaded:2"], Restoring::Copy);
        assert_eq!(server, Bytes::mib(4 * 800));
    }
}
