//! Devices of a trial: one kind, one file, one trait. Made or accepted once by the coordinator, held to the end.

pub mod directory;
pub mod disk;
pub mod image;
pub mod ramdisk;
pub mod several;
pub mod zram;

use crate::{error::StackError, host, ledger::Ledger};
use fstrial_model::{
    arm::Arm,
    device::{Device as DeviceSpec, LogDevice, LogKind},
    job::{CutFiles, DeviceBinding, Job},
    measurement::Stage,
    units::Bytes,
    workload::Data,
};
use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
};

/// A device that a trial owns while it runs.
pub trait Device {
    /// One-line description.
    fn describe(&self) -> String;
    /// A worker's data for building this arm on it.
    fn binding(&self, arm: &Arm) -> DeviceBinding;
    /// The data files should hold on it.
    fn data(&self) -> Data {
        Data::Random
    }
    /// Notes on the device for the reader of results.
    fn notes(&self) -> Vec<String>;
    /// Cautions before any measurement on it; also among the notes.
    fn cautions(&self) -> Vec<String> {
        Vec::new()
    }
    /// Restores its initial state, if it has a state, and applies the settings of the job's arm; before every run.
    ///
    /// # Errors
    /// It is gone.
    fn before_run(&self, _job: &Job) -> Result<(), StackError> {
        Ok(())
    }
    /// Called when a run enters a stage.
    ///
    /// # Errors
    /// It is gone.
    fn enter(&self, _stage: Stage) -> Result<(), StackError> {
        Ok(())
    }
    /// Lets all who wait for it get errors instead, if a process of ours answers for it. The next run finds it renewed.
    fn abandon(&self) {}
    /// Looks after it after every run.
    ///
    /// # Errors
    /// It failed during the run, which must not count. It can be used again.
    fn after_run(&self) -> Result<(), StackError> {
        Ok(())
    }
    /// The files with which a worker cuts its power; none of a device that has to keep it.
    fn cut_files(&self) -> Option<CutFiles> {
        None
    }
    /// Warnings on its behaviour for the reader of results, at the end of the trial.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
    /// True once the last worker has released it entirely; polled until then.
    ///
    /// # Errors
    /// It cannot be determined, or the device is no longer the one it was.
    fn is_released(&self) -> Result<bool, StackError>;
    /// Gives it up.
    ///
    /// # Errors
    /// Something of it stays on the host.
    fn close(self: Box<Self>) -> Result<(), StackError>;
}

/// Permissions that only the command line grants: the disk that may be erased.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permission {
    /// The whole device that may be erased, as the user named it.
    pub erase: Option<PathBuf>,
    /// Signatures on it that may be erased too, each named.
    pub erase_signatures: Vec<String>,
}

/// The coordinator's request to the implementation of a kind: `image::provide`, `disk::provide` and the like.
#[derive(Debug, Clone, Copy)]
pub struct DeviceRequest<'a> {
    /// The device section of the trial, which was checked.
    pub spec: &'a DeviceSpec,
    /// The size of one that is made.
    pub size: Bytes,
    /// Minimum size.
    pub least: Bytes,
    /// Erasable disks.
    pub permission: &'a Permission,
    /// Ledger for changes that outlive us.
    pub ledger: &'a Ledger,
}

/// Checks that a device of this size can be made: in a folder, or in memory.
///
/// # Errors
/// There is too little space or memory, or the folder does not exist.
pub fn require_room(folder: Option<&Path>, size: Bytes, what: &str) -> Result<(), StackError> {
    let unable = |what: String, hint: &str| Err(StackError::Unable { what, hint: hint.into() });
    let Some(folder) = folder else {
        let free = host::memory_available()?;
        return match free.0 / 10 * 7 >= size.0 {
            true => Ok(()),
            false => unable(
                format!("{what} of {size} needs more memory than is free ({})", free.human()),
                "use a smaller device (its size)",
            ),
        };
    };
    let free = host::space_available(folder)?;
    // A tenth is left free: a benchmark must not fill a user's disk to the brim.
    if free.0 / 10 * 9 >= size.0 {
        return Ok(());
    }
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    unable(
        format!("{what} of {size} does not fit in {} ({} free)", folder.display(), free.human()),
        "use a smaller device (its size), or another folder: --device image:/some/folder",
    )
}

/// Makes the log device of a trial.
///
/// # Errors
/// It cannot be made here.
pub fn provide_log(spec: &LogDevice, progress: Progress<'_>) -> Result<Box<dyn Device>, StackError> {
    match spec.kind {
        LogKind::Image => {
            let folder = spec.path.clone().unwrap_or_else(|| PathBuf::from("."));
            Ok(Box::new(image::Image::make(&folder, spec.size(), progress)?))
        }
        LogKind::Ramdisk => ramdisk::for_log(spec.size(), progress),
    }
}

/// Callback for the progress of a lengthy preparation: bytes done, of the total. Returns whether to continue.
pub type Progress<'a> = &'a mut dyn FnMut(Bytes, Bytes) -> ControlFlow<()>;
