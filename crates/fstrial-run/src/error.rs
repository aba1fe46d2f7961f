//! The one error of the command: knows its exit code and its hint.

use crate::exit_code;
use fstrial_model::{
    arm::ArmError,
    job::{FailureKind, RunFailure},
    problem::{Problem, TrialError},
};
use fstrial_stack::StackError;
use fstrial_store::StoreError;
use std::{io, path::PathBuf};

/// Everything that can end a command early.
#[derive(Debug, thiserror::Error)]
pub enum ExpectedError {
    /// The command line is wrong in a way the parser cannot see.
    #[error("{message}")]
    Usage { message: String, hint: Option<String> },
    #[error(transparent)]
    TrialFile(Box<TrialError>),
    /// A trial built from flags is impossible.
    #[error("{0}")]
    Trial(Problem),
    /// An arm on the command line is wrong.
    #[error(transparent)]
    Arm(#[from] ArmError),
    /// A file cannot be read or written.
    #[error("could not {what} {}: {source}", path.display())]
    File {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The device or something else of the host cannot be used.
    #[error(transparent)]
    Stack(#[from] StackError),
    #[error(transparent)]
    Home(StackError),
    /// A change on the host could not be undone.
    #[error("could not clean up: {0}")]
    CleanUp(#[source] StackError),
    /// A run failed in a way that ends the trial.
    #[error("{context}: {failure}")]
    Run {
        /// The arm and stage.
        context: String,
        failure: RunFailure,
    },
    /// Another place cannot be used, or a change there cannot be undone.
    #[error("at the place {name}: {what}")]
    Place {
        name: String,
        /// The problem, as reported by its agent.
        what: String,
        hint: Option<String>,
        /// The exit code that it has.
        code: u8,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Standard output did not take the answer.
    #[error("could not write the answer to standard output: {source}")]
    Unwritten {
        #[source]
        source: io::Error,
        /// The command that shows a stored result.
        again: Option<String>,
    },
    /// A bug in fstrial.
    #[error("{0}")]
    Fault(String),
}

impl From<Box<TrialError>> for ExpectedError {
    fn from(error: Box<TrialError>) -> Self {
        Self::TrialFile(error)
    }
}

impl From<Problem> for ExpectedError {
    fn from(problem: Problem) -> Self {
        Self::Trial(problem)
    }
}

impl ExpectedError {
    /// A usage error with a hint.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: Some(hint.into()) }
    }

    /// The error with all its causes, as far as the message lacks them.
    pub fn in_full(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            let words = error.to_string();
            if !text.contains(&words) {
                text += &format!(": {words}");
            }
            cause = error.source();
        }
        text
    }

    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage { .. } | Self::TrialFile(_) | Self::Trial(_) | Self::Arm(_) | Self::File { .. } => {
                exit_code::USAGE
            }
            Self::Home(StackError::Io { source, .. }) if is_full(source) => exit_code::STORE_UNUSABLE,
            Self::Home(_) => exit_code::USAGE,
            Self::Stack(error) => stack_exit_code(error),
            Self::CleanUp(_) => exit_code::CLEAN_UP_INCOMPLETE,
            Self::Run { failure, .. } => match failure.kind {
                FailureKind::HostLacks => exit_code::HOST_LACKS,
                FailureKind::ArmRefused
                | FailureKind::ArmFailed
                | FailureKind::LoadRefused
                // An answer in a trial; of an arm that is only inspected it is never reported.
                | FailureKind::Unsupported
                | FailureKind::Lost => exit_code::SETUP_FAILED,
                FailureKind::CleanUp => exit_code::CLEAN_UP_INCOMPLETE,
            },
            Self::Place { code, .. } => *code,
            Self::Store(error) => store_exit_code(error),
            Self::Unwritten { .. } => exit_code::UNWRITTEN,
            Self::Fault(_) => exit_code::OUR_FAULT,
        }
    }

    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Usage { hint, .. } | Self::Place { hint, .. } => hint.clone(),
            Self::Trial(problem) => problem.hint.clone(),
            Self::Arm(error) => error.hint.clone(),
            Self::Stack(error) => error.hint(),
            Self::CleanUp(error) => error.hint().or_else(|| Some("`fstrial clean` tries again".into())),
            Self::Run { failure, .. } => failure.hint.clone(),
            Self::Store(StoreError::NoSuchTrial { .. }) => {
                Some("`fstrial results list --all` shows the trials there are".into())
            }
            Self::Store(error) => error.hint(),
            // The reader of trial files prints its own help below the underlined place.
            Self::TrialFile(_) => None,
            Self::Home(StackError::Io { source, .. }) => file_hint(source).map(str::to_owned),
            Self::Home(error) => error.hint(),
            Self::File { source, .. } => file_hint(source).map(str::to_owned),
            Self::Unwritten { again, .. } => Some(match again {
                Some(again) => format!("all measurements so far are stored: {again}"),
                None => "redirect it to a device with free space".into(),
            }),
            Self::Fault(_) => Some(
                "this is a bug in fstrial; please report it with the command and `fstrial doctor`".into(),
            ),
        }
    }
}

/// True if space or a limit on it is exhausted.
fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// The remedy for a file that cannot be read or written.
fn file_hint(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => Some(
            "the filesystem is mounted read-only: name a folder on another one (results: --home FOLDER), or a copy there",
        ),
        io::ErrorKind::PermissionDenied => Some("run as the user who owns it, or name another place"),
        io::ErrorKind::NotFound => Some("check the path"),
        io::ErrorKind::StorageFull => Some("free space on that filesystem"),
        io::ErrorKind::FileTooLarge => Some("raise the limit on the size of files: ulimit -f unlimited"),
        _ => None,
    }
}

fn store_exit_code(error: &StoreError) -> u8 {
    match error {
        StoreError::NoSuchTrial { .. } | StoreError::TooManyTags { .. } => exit_code::USAGE,
        StoreError::Io { .. }
        | StoreError::NoCopy { .. }
        | StoreError::Sqlite { .. }
        | StoreError::NotAStore { .. }
        | StoreError::NewerSchema { .. }
        | StoreError::Damaged { .. }
        | StoreError::Gone { .. }
        | StoreError::AlreadyRecorded { .. } => exit_code::STORE_UNUSABLE,
        StoreError::Unstorable { .. } | StoreError::NoSuchArm { .. } => exit_code::OUR_FAULT,
    }
}

fn stack_exit_code(error: &StackError) -> u8 {
    match error {
        StackError::MissingProgram { .. }
        | StackError::UnknownToKernel { .. }
        | StackError::Lacking { .. } => exit_code::HOST_LACKS,
        StackError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            exit_code::HOST_LACKS
        }
        StackError::Refused { .. } | StackError::Untrusted { .. } => exit_code::USAGE,
        StackError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => exit_code::USAGE,
        StackError::Interrupted => exit_code::INTERRUPTED,
        StackError::Command { .. }
        | StackError::Deadline { .. }
        | StackError::Io { .. }
        | StackError::Unable { .. }
        | StackError::Corrupt { .. } => exit_code::SETUP_FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_prints_cause_once() {
        let refused = || io::Error::from(io::ErrorKind::PermissionDenied);
        let store = ExpectedError::Store(StoreError::Io { path: "/a".into(), source: refused() });
        assert_eq!(store.in_full(), "cannot open the store /a: permission denied");
        let file = ExpectedError::File { what: "lock", path: "/a".into(), source: refused() };
        assert_eq!(file.in_full(), "could not lock /a: permission denied");
    }
}
