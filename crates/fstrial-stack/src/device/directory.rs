//! `directory`: existing directories. Nothing is made, mounted or set, and no privileges are needed; as root the page
//! cache is dropped before every run, as it is everywhere.

use super::{Device, DeviceRequest, Progress};
use crate::error::StackError;
use fstrial_model::{arm::Arm, job::DeviceBinding};

/// Nothing is made.
///
/// # Errors
/// None.
pub fn provide(_: &DeviceRequest<'_>, _: Progress<'_>) -> Result<Box<dyn Device>, StackError> {
    Ok(Box::new(Directory))
}

/// The directories are in the arms themselves.
#[derive(Debug)]
pub struct Directory;

impl Device for Directory {
    fn describe(&self) -> String {
        "directory: existing directories, each on the filesystem and device it is on".into()
    }

    fn binding(&self, arm: &Arm) -> DeviceBinding {
        DeviceBinding::Directory { path: arm.path.clone().expect("validated: a dir arm has a path") }
    }

    fn notes(&self) -> Vec<String> {
        vec!["existing directories: filesystems are neither fresh nor equal in age, fill and device".into()]
    }

    fn is_released(&self) -> Result<bool, StackError> {
        Ok(true)
    }

    fn close(self: Box<Self>) -> Result<(), StackError> {
        Ok(())
    }
}
