//! Errors of a store: the file, the operation and the remedy.
//!
//! Inside the crate code fails with a [`Fault`]; the border adds the path and the deed and makes it a [`StoreError`].

use crate::{TrialId, filter::MAX_TAGS};
use rusqlite::ErrorCode;
use std::{
    error::Error,
    io,
    path::{Path, PathBuf},
};

type Cause = Box<dyn Error + Send + Sync>;

/// Something that could not be stored or read, with the file it happened on.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file could not be looked at.
    #[error("cannot open the store {}", path.display())]
    Io {
        /// The store.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A temporary file could not be made or written.
    #[error("cannot copy a store to {}", path.display())]
    NoCopy {
        /// The folder of temporary files.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// SQLite refused: no permission, no space, locked, a read or write error.
    #[error("cannot {doing} in the store {}", path.display())]
    Sqlite {
        /// The store.
        path: PathBuf,
        /// The operation: "record a run".
        doing: &'static str,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// The file is something else. It was not touched.
    #[error("{} is not a store of fstrial: {result}", path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// Its actual kind.
        result: String,
    },
    /// A later fstrial wrote the file. Nothing in it was changed.
    #[error("the store {} has schema {result}, and this fstrial knows up to {}", path.display(), crate::SCHEMA)]
    NewerSchema {
        /// The store.
        path: PathBuf,
        /// Its schema.
        result: u32,
    },
    /// Inconsistent data.
    #[error("the store {} is damaged: {what}", path.display())]
    Damaged {
        /// The store.
        path: PathBuf,
        /// The inconsistency, and its place.
        what: String,
        /// The reader's own words, if there are any.
        #[source]
        source: Option<Cause>,
    },
    /// A value that has no place in the file, such as a histogram that does not decode. Nothing was stored.
    #[error("cannot {doing} in the store {}: {what}", path.display())]
    Unstorable {
        /// The store.
        path: PathBuf,
        /// The operation.
        doing: &'static str,
        /// The value and its problem.
        what: String,
    },
    /// The file was deleted, or another one put in its place, while it was open.
    #[error("the store {} was deleted or replaced while it was in use: everything stored in it is lost", path.display())]
    Gone {
        /// The store.
        path: PathBuf,
    },
    /// A trial would have more tags than one can have. Nothing was stored.
    #[error("trial {trial} would have more than {MAX_TAGS} tags")]
    TooManyTags {
        /// The store.
        path: PathBuf,
        /// Number of the trial, which keeps the tags it had.
        trial: TrialId,
    },
    /// There is no such trial.
    #[error("there is no trial {trial} in the store {}", path.display())]
    NoSuchTrial {
        /// The store.
        path: PathBuf,
        /// The requested number.
        trial: TrialId,
    },
    /// The trial has no such arm.
    #[error("trial {trial} in the store {} has no arm `{arm}`", path.display())]
    NoSuchArm {
        /// The store.
        path: PathBuf,
        /// Number of the trial that lacks the arm.
        trial: TrialId,
        /// The name given.
        arm: String,
    },
    /// This run is stored already. The stored one stays.
    #[error("{run} is in the store {} already", path.display())]
    AlreadyRecorded {
        /// The store.
        path: PathBuf,
        /// The run, as text.
        run: String,
    },
}

impl StoreError {
    /// The file it happened on; `:memory:` for a store in memory.
    pub fn path(&self) -> &Path {
        match self {
            Self::Io { path, .. }
            | Self::NoCopy { path, .. }
            | Self::Sqlite { path, .. }
            | Self::NotAStore { path, .. }
            | Self::NewerSchema { path, .. }
            | Self::Damaged { path, .. }
            | Self::Unstorable { path, .. }
            | Self::Gone { path }
            | Self::TooManyTags { path, .. }
            | Self::NoSuchTrial { path, .. }
            | Self::NoSuchArm { path, .. }
            | Self::AlreadyRecorded { path, .. } => path,
        }
    }

    /// The remedy, in one sentence, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => {
                    Some("check the path; a trial makes the store when it starts".into())
                }
                io::ErrorKind::PermissionDenied => Some("run as the user who owns it".into()),
                _ => None,
            },
            Self::NoCopy { .. } => {
                Some("make room there, or name another folder for temporary files: TMPDIR=FOLDER".into())
            }
            Self::Sqlite { source, .. } => sqlite_hint(source).map(str::to_owned),
            Self::NotAStore { .. } => {
                Some("name another file; a new store is created if the file does not exist".into())
            }
            Self::NewerSchema { .. } => Some("use the fstrial that wrote it, or a newer one".into()),
            Self::Damaged { path, .. } => Some(format!(
                "keep a copy; `sqlite3 '{}' .recover` recovers the readable rows, and a backup has the rest",
                path.display()
            )),
            Self::Unstorable { .. } | Self::NoSuchArm { .. } => {
                Some("this is a bug in fstrial: please report it with this message".into())
            }
            Self::Gone { path } => Some(format!(
                "restore a backup, if there is one, and start over; while a command runs, nothing \
                     else may move or delete {} or the files next to it",
                path.display()
            )),
            Self::TooManyTags { .. } => Some("take some off first: `fstrial results tag ID -TAG …`".into()),
            Self::NoSuchTrial { .. } => Some("run `fstrial results list`".into()),
            Self::AlreadyRecorded { .. } => {
                Some("another fstrial seems to work on the same trial: let one of them finish".into())
            }
        }
    }
}

/// The remedy for a refusal of SQLite.
fn sqlite_hint(error: &rusqlite::Error) -> Option<&'static str> {
    match error.sqlite_error_code()? {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            Some("another process holds the store: wait for it, or end it")
        }
        ErrorCode::DiskFull => {
            Some("free space on the filesystem that holds the store; all earlier runs are intact")
        }
        ErrorCode::CannotOpen => Some("check that its folder exists and that you may read and write there"),
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => {
            Some("run as the user who owns it, or copy it to where you may write")
        }
        ErrorCode::SystemIoFailure => Some(
            "free space on its filesystem, raise a limit on the size of files (ulimit -f), and look \
                 for errors of the device in `dmesg`; all earlier runs are intact",
        ),
        // The other codes are SQLite's for mistakes in SQL and memory; there is nothing for the user to try.
        _ => None,
    }
}

/// An error inside the crate, before the path is added.
#[derive(Debug)]
pub(crate) enum Fault {
    Sqlite(rusqlite::Error),
    Damaged {
        what: String,
        source: Option<Cause>,
    },
    Unstorable(String),
    NotAStore(String),
    NewerSchema(u32),
    Gone,
    TooManyTags(TrialId),
    NoSuchTrial(TrialId),
    NoSuchArm(TrialId, String),
    AlreadyRecorded(String),
    /// It happened on another store, and is passed on unchanged.
    Elsewhere(Box<StoreError>),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl Fault {
    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged { what: what.into(), source: None }
    }

    /// True if SQLite refused with this code.
    pub(crate) fn is(&self, code: ErrorCode) -> bool {
        matches!(self, Self::Sqlite(error) if error.sqlite_error_code() == Some(code))
    }

    /// Adds the file and the deed.
    pub(crate) fn at(self, path: &Path, doing: &'static str) -> StoreError {
        let path = path.to_owned();
        match self {
            Self::Sqlite(source) => sqlite_error(path, doing, source),
            Self::Damaged { what, source } => StoreError::Damaged { path, what, source },
            Self::Unstorable(what) => StoreError::Unstorable { path, doing, what },
            Self::NotAStore(result) => StoreError::NotAStore { path, result },
            Self::NewerSchema(result) => StoreError::NewerSchema { path, result },
            Self::Gone => StoreError::Gone { path },
            Self::TooManyTags(trial) => StoreError::TooManyTags { path, trial },
            Self::NoSuchTrial(trial) => StoreError::NoSuchTrial { path, trial },
            Self::NoSuchArm(trial, arm) => StoreError::NoSuchArm { path, trial, arm },
            Self::AlreadyRecorded(run) => StoreError::AlreadyRecorded { path, run },
            Self::Elsewhere(error) => *error,
        }
    }
}

/// Distinguishes a refusal from foreign contents.
fn sqlite_error(path: PathBuf, doing: &'static str, source: rusqlite::Error) -> StoreError {
    use rusqlite::Error as E;
    let damaged = match &source {
        E::FromSqlConversionFailure(..) | E::IntegralValueOutOfRange(..) | E::InvalidColumnType(..) => true,
        E::Utf8Error(..) => true,
        other => {
            matches!(
                other.sqlite_error_code(),
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::TooBig)
            )
        }
    };
    if damaged {
        let what = format!("failed to {doing}");
        return StoreError::Damaged { path, what, source: Some(source.into()) };
    }
    StoreError::Sqlite { path, doing, source }
}
