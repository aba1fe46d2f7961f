//! Front ends: the interface between a served device and the kernel.

use crate::{error::DeviceError, server::Server};
use std::{any::Any, fs::File, sync::Arc};

/// A way to show a device to the kernel. It passes the kernel's requests to the [`Server`]: first their data
/// ([`Server::read`] and the like), then, to [`Server::submit`], the request with its answer.
pub trait FrontEnd {
    /// Shows a device, under a name that no other on the host has.
    ///
    /// # Errors
    /// The kernel does not have this way, or not for us.
    fn show(&self, server: Arc<Server>, name: &str) -> Result<ExposedDevice, DeviceError>;
}

/// The files of a device that is recorded for [power cuts](crate::cuts).
pub struct CutFiles {
    /// Takes orders and promises, and gives answers.
    pub control: File,
    /// The contents after the last cut, for a loop device to use.
    pub image: File,
}

/// A device that the kernel has. It goes when this is dropped, or the process ends.
pub struct ExposedDevice {
    /// First, so that it is dropped first: an open device cannot be removed.
    file: File,
    cuts: Option<CutFiles>,
    _kept: Box<dyn Any>,
}

impl ExposedDevice {
    /// The open device, and the resources it depends on.
    pub fn new(file: File, kept: impl Any) -> Self {
        Self { file, cuts: None, _kept: Box::new(kept) }
    }

    /// The same with files for power cuts.
    #[must_use]
    pub fn with_cuts(self, cuts: CutFiles) -> Self {
        Self { cuts: Some(cuts), ..self }
    }

    /// Its files for power cuts, if the front end has them.
    pub fn cuts(&self) -> Option<&CutFiles> {
        self.cuts.as_ref()
    }

    /// The open device: a block device, or a file for a loop device to use.
    pub fn file(&self) -> &File {
        &self.file
    }
}
