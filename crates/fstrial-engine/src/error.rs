//! Errors before or around the measured time. Errors *of* measured operations are not here: they are an outcome and are
//! in the result.

use fstrial_model::units::Bytes;
use std::{
    io,
    path::{Path, PathBuf},
};

/// A load that was refused, or could not be laid out or run. Messages read after "failed to run the load: ".
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A combination that makes no sense or that the engine cannot do; no round would change that.
    #[error("{problem}")]
    Impossible {
        /// The conflict.
        problem: String,
        /// The remedy.
        hint: &'static str,
    },
    /// The files do not fit.
    #[error("no space left while laying out {} of {needed} in all", path.display())]
    NoSpace {
        /// The file, or the device.
        path: PathBuf,
        /// Need of all files together.
        needed: Bytes,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The filesystem or the device does not do `O_DIRECT` with these blocks.
    #[error("cannot do direct I/O in blocks of {block_size} on {}", path.display())]
    DirectUnsupported {
        /// The file, or the device.
        path: PathBuf,
        /// Size of one request.
        block_size: Bytes,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel refuses to make an `io_uring`.
    #[error("io_uring is not available here")]
    UringUnavailable {
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel refuses to make a queue for Linux AIO.
    #[error("cannot make an aio queue for {depth} requests")]
    AioUnavailable {
        /// Requests in flight that it was to have.
        depth: u16,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The filesystem has no `fallocate`.
    #[error("the filesystem cannot allocate {} without writing it", path.display())]
    FallocateUnsupported {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A limit of the process or the machine is in the way: open files, threads.
    #[error("{what}")]
    Limit {
        /// The problem, in lower case.
        what: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// An engine's own check finds its records damaged after the load.
    #[error("the records in {} are damaged: {what}", path.display())]
    Damaged {
        /// Their folder.
        path: PathBuf,
        /// The engine's message.
        what: String,
    },
    /// Laying out the files failed.
    #[error("failed to {operation} {} while laying out files", path.display())]
    Layout {
        /// The system call.
        operation: &'static str,
        /// Its object.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The time-stamp counter and the kernel's clock went apart during the run: its times mean nothing.
    #[error(
        "the time-stamp counter measured {counter_ns} ns while CLOCK_MONOTONIC measured {monotonic_ns} ns: \
         this run's times cannot be trusted"
    )]
    ClockDrifted {
        /// Length of the run by the time-stamp counter, in nanoseconds.
        counter_ns: u64,
        /// Length of the run by the kernel's clock, in nanoseconds.
        monotonic_ns: u64,
    },
}

impl EngineError {
    /// True if the load itself is refused here (an impossible combination, too little space, a missing feature), so
    /// that a retry changes nothing. Otherwise I/O failed, or the machine did.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Impossible { .. }
            | Self::NoSpace { .. }
            | Self::DirectUnsupported { .. }
            | Self::UringUnavailable { .. }
            | Self::AioUnavailable { .. }
            | Self::FallocateUnsupported { .. }
            | Self::Limit { .. } => true,
            Self::Layout { .. } | Self::Damaged { .. } | Self::ClockDrifted { .. } => false,
        }
    }

    /// The remedy.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Impossible { hint, .. } => Some(hint),
            Self::NoSpace { source, .. } if source.kind() == io::ErrorKind::FileTooLarge => {
                Some("raise the limit on the size of files (ulimit -f unlimited), or use a smaller file_size")
            }
            Self::NoSpace { .. } => Some("use a larger device or a smaller file_size"),
            Self::DirectUnsupported { .. } => Some(
                "use a block_size that is a multiple of the device's logical block (often 4KiB), or direct = false",
            ),
            Self::UringUnavailable { .. } => Some(
                "set sysctl kernel.io_uring_disabled=0, allow io_uring in the container's seccomp profile, or use backend = \"sync\"",
            ),
            Self::AioUnavailable { .. } => Some(
                "raise sysctl fs.aio-max-nr, use fewer threads or a smaller depth, or backend = \"io_uring\"",
            ),
            Self::FallocateUnsupported { .. } => {
                Some("use layout = \"written\" or \"sparse\", or another filesystem")
            }
            Self::Limit { .. } => Some(
                "use fewer threads or fewer files, or raise the limit (ulimit -n, ulimit -u; vm.max_map_count for maps)",
            ),
            Self::Layout { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => {
                Some("give the load an empty directory: it never overwrites a file that was there")
            }
            Self::Layout { .. } | Self::Damaged { .. } => {
                Some("look at the kernel's log (dmesg) for errors of the filesystem or the device")
            }
            Self::ClockDrifted { .. } => {
                Some("the virtual machine was paused or moved, or its counter is unstable: run again")
            }
        }
    }
}

/// Refuses a load that makes no sense.
pub(crate) fn refuse(problem: impl Into<String>, hint: &'static str) -> Result<(), EngineError> {
    Err(EngineError::Impossible { problem: problem.into(), hint })
}

/// A key-value engine that failed while laying out.
pub(crate) fn store_failed(folder: &Path, what: String) -> EngineError {
    EngineError::Layout {
        operation: "make a key-value store in",
        path: folder.to_owned(),
        source: io::Error::other(what),
    }
}

/// The error of a system call while laying out.
pub(crate) fn layout(
    operation: &'static str,
    path: impl Into<PathBuf>,
    errno: rustix::io::Errno,
) -> EngineError {
    EngineError::Layout { operation, path: path.into(), source: errno.into() }
}
