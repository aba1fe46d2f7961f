//! Errors of a stack: the failed operation, its object, the reason, and a hint.

use fstrial_model::{filesystem::Filesystem, units::Nanos};
use std::{io, path::PathBuf};

/// A stack that could not be built, used or taken down.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// A program is not installed.
    #[error("{program} is not installed")]
    MissingProgram {
        /// Its name.
        program: String,
        /// The table row it belongs to, if it makes or checks a filesystem.
        filesystem: Option<&'static str>,
    },
    /// A program ended with an error.
    #[error("`{line}` failed ({status}){}", after_colon(last_lines))]
    Command {
        /// The command line.
        line: String,
        /// Its exit status, as text.
        status: String,
        /// The last lines it printed.
        last_lines: String,
    },
    /// A program did not end in time and was killed.
    #[error("`{line}` did not end within {deadline} and was killed")]
    Deadline {
        /// The command line.
        line: String,
        /// The time it was given.
        deadline: Nanos,
    },
    /// A system call failed.
    #[error("could not {what} {}: {source}", path.display())]
    Io {
        /// The attempted operation, to be followed by the path: "open", "write 4 to".
        what: String,
        /// Its object.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The kernel does not know the filesystem.
    #[error("this kernel has no {filesystem}: it is neither built in nor a module that can be loaded")]
    UnknownToKernel {
        /// Name of the filesystem, such as `btrfs`.
        filesystem: &'static str,
    },
    /// A device that must not or cannot be used.
    #[error("refusing to use {}: {reason}", device.display())]
    Refused {
        /// The device or directory.
        device: PathBuf,
        /// Why.
        reason: String,
        /// The remedy.
        hint: String,
    },
    /// A file or folder of ours that others could have written.
    #[error("refusing to trust {}: {why}", path.display())]
    Untrusted {
        /// The file or folder.
        path: PathBuf,
        /// The possible writer.
        why: String,
    },
    /// The kernel lacks a driver, or the host a program.
    #[error("{what}")]
    Lacking {
        /// The problem, in lower case.
        what: String,
        /// The remedy.
        hint: String,
    },
    /// The host lacks a required capability.
    #[error("{what}")]
    Unable {
        /// The problem and its reason, in lower case.
        what: String,
        /// The remedy.
        hint: String,
    },
    /// The user interrupted the operation.
    #[error("interrupted")]
    Interrupted,
    /// The full check found damage.
    #[error("the filesystem is damaged after the run: `{line}` reports:\n{last_lines}")]
    Corrupt {
        /// The check's command line.
        line: String,
        /// The last lines it printed.
        last_lines: String,
    },
}

fn after_colon(lines: &str) -> String {
    if lines.is_empty() { String::new() } else { format!(": {lines}") }
}

impl StackError {
    /// An [`StackError::Io`].
    pub fn io(what: impl Into<String>, path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        Self::Io { what: what.into(), path: path.into(), source: source.into() }
    }

    /// Unexpected output of a kernel.
    pub(crate) fn unlike(what: impl Into<String>) -> Self {
        let hint = "unknown behaviour of this kernel: report it with the kernel's version";
        Self::Unable { what: what.into(), hint: hint.into() }
    }

    /// True if a retry may succeed soon without intervention.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Io { source, .. } => source.kind() == io::ErrorKind::ResourceBusy,
            // `mdadm --stop` reports only as text that an array is still in use.
            Self::Command { .. } => true,
            _ => false,
        }
    }

    /// The remedy.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::MissingProgram { program, filesystem } => {
                Some(match filesystem.and_then(Filesystem::named) {
                    Some(row) => format!("install it: {}", crate::command::how_to_install(row.packages)),
                    None => format!(
                        "install the package that has {program}; `fstrial doctor` lists what is missing"
                    ),
                })
            }
            Self::Command { line, last_lines, .. } => {
                let refused = ["nknown", "nvalid", "wrong fs type", "illegal", "unrecognized", "Usage"];
                (refused.iter().any(|word| last_lines.contains(word))
                    || line.starts_with("mkfs")
                    || line.starts_with("mount"))
                .then(|| "check the options of this arm against the manual page of the program".into())
            }
            Self::Deadline { .. } => Some("look for a hung device in the kernel log (dmesg)".into()),
            Self::Io { what, source, .. } => io_hint(what, source),
            Self::UnknownToKernel { filesystem } => Some(format!(
                "use a kernel that has it, such as {filesystem}@6.12 in a guest (`fstrial kernels`), \
                     or leave this arm out; `fstrial doctor` lists what can run"
            )),
            Self::Refused { hint, .. } | Self::Lacking { hint, .. } | Self::Unable { hint, .. } => Some(hint.clone()),
            Self::Untrusted { .. } => Some(
                "use a folder that only you (as root: only root) can write, with all folders above it: --home FOLDER"
                    .into(),
            ),
            Self::Interrupted => None,
            Self::Corrupt { .. } => Some(
                "compare the arm with itself, as a=… and b=…, with --set trial.fsck=true, and read the kernel log: a fault of this machine damages both"
                    .into(),
            ),
        }
    }
}

/// The remedy for a missing permission.
fn without_permission(what: &str, is_root: bool) -> &'static str {
    match (is_root, what.contains("folder") || what.contains("directory")) {
        (true, _) => {
            "root may not do this here: a container or a security module forbids it (see dmesg); run on the host"
        }
        (false, true) => "name a directory that you can write to, or run as root (sudo)",
        (false, false) => "run as root (sudo), or compare existing directories: dir:/srv/a dir:/srv/b",
    }
}

/// The remedy for an error of the operating system.
fn io_hint(what: &str, error: &io::Error) -> Option<String> {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            Some(without_permission(what, rustix::process::geteuid().is_root()).into())
        }
        io::ErrorKind::NotFound => Some("check the spelling of the path".into()),
        io::ErrorKind::FileTooLarge => {
            Some("raise the limit on the size of files (ulimit -f unlimited), or use a smaller size".into())
        }
        io::ErrorKind::StorageFull => {
            Some("free some space, use a smaller size, or another folder for the image".into())
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            Some("use another folder, or remount its filesystem so that it can be written".into())
        }
        io::ErrorKind::ResourceBusy => Some("it is in use; `lsblk` and `fuser -vm` show by what".into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permission_hint_omits_steps_already_taken() {
        assert!(!without_permission("open", true).contains("sudo"), "root is root already");
        assert!(
            !without_permission("make the folder", false).contains("dir:"),
            "directories are compared already"
        );
        assert!(without_permission("make and mount filesystems on", false).contains("dir:/srv/a"));
    }
}
