//! Errors of a modelled device.

use std::{io, path::PathBuf};

/// A modelled device that is not available.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// A system call failed.
    #[error("could not {what} {path}: {source}")]
    Io {
        /// The attempted operation, as in "make".
        what: &'static str,
        /// Its object.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The kernel has no FUSE, or not for us.
    #[error("could not show a device through FUSE: {source}")]
    NoFuse {
        /// Why.
        source: io::Error,
    },
}

impl DeviceError {
    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        Self::Io { what, path: path.into(), source: source.into() }
    }
}
