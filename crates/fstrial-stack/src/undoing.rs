//! The implementation of each undo step: the one module that knows both the ledger's types and the code that made the
//! changes. The ledger calls it without an import, as it is a method of a ledger type. Every undo must also be right if
//! the change never happened, was undone already, or if another process now owns the object.

use crate::{
    array, cgroup,
    delete::{self, Identity},
    descendants,
    device::zram,
    error::StackError,
    ledger::Undo,
    loopdev, mapped, operation, sysfs,
};

impl Undo {
    /// Undoes the change, which was made since this boot or before. Lengthy undos poll `stop`.
    pub(crate) fn perform(&self, same_boot: bool, stop: &dyn Fn() -> bool) -> Result<(), StackError> {
        if let Self::RemoveFolder { path, .. } = self {
            descendants::end_those_at_home_in(path.path())?;
        }
        match self {
            Self::RemoveFolder { path, made: None } => delete::empty_at(path.path()),
            Self::RemoveFolder { path, made: Some(made) } => {
                let is_ours = |now: Identity| match same_boot {
                    true => now == *made,
                    false => now.is_same_after_a_boot(*made),
                };
                delete::tree_at(path.path(), &is_ours, stop)
            }
            // The rest lives in the kernel and did not survive a boot.
            _ if !same_boot => Ok(()),
            Self::RemoveZram { index, node } => zram::remove(*index, *node),
            Self::RemoveUnusedZram { existing, moment } => zram::remove_unused(existing, *moment),
            Self::RemoveLoop { index, file, node } => loopdev::remove_ours(*index, file, *node),
            Self::RemoveUnusedLoop { index, moment } => loopdev::remove_unused(*index, *moment),
            Self::Thaw { disk, filesystem } => operation::thaw_left_over(disk, filesystem),
            Self::StopArray { index, members } => array::stop_ours(*index, members),
            Self::RemoveVolumes { name } => mapped::remove_ours(name),
            Self::RemoveGroup { path } => cgroup::remove(path),
            Self::RestoreAttribute { disk, attribute, value } => {
                let path = disk.sysfs().join("queue").join(attribute.name());
                if disk.has_our_queue() { sysfs::write(path, &value.to_string()) } else { Ok(()) }
            }
        }
    }
}
