//! The results of every run of every trial in one SQLite file: schema and queries. Only writer of the file.
//!
//! A reported store operation survives SIGKILL and power loss; a run is stored whole or not at all. Verdicts, tables
//! and pages are functions of the content, so all their inputs are stored: the trial as text, its seed, the environment
//! of every session, and of every run the job, the measurement, the raw histograms and the facts of its arm.
//!
//! Not for: deciding anything. The store knows no clock (times come in as text), no statistics and no host.
//!
//! Our own bugs are asserted before writing. A file may come from elsewhere, so its content is never trusted:
//! inconsistent data are [`StoreError::Damaged`], not a panic.
#![forbid(unsafe_code)]

mod codec;
mod copy;
mod error;
mod export;
mod filter;
mod folder;
mod runs;
mod schema;
mod store;
mod transfer;
mod trials;

#[cfg(test)]
extern crate self as fstrial_store;
#[cfg(test)]
#[path = "../tests/it/common/mod.rs"]
mod common;

pub use error::StoreError;
pub use export::{Metric, MetricRow, metrics};
pub use filter::{Filter, MAX_TAGS, tag_problem};
pub use folder::{left_folders, sweep};
pub use runs::{RunRecord, StoredRun};
pub use schema::{APPLICATION_ID, SCHEMA};
pub use store::Store;
pub use transfer::ImportOutcome;
pub use trials::{NewSession, NewTrial, StoredArm, StoredSession, StoredTrial, TrialStatus, TrialSummary};

use serde::{Deserialize, Serialize};
use std::{fmt, num::ParseIntError, str::FromStr};

/// A number the store gave out.
macro_rules! id {
    ($name:ident, $of:literal) => {
        #[doc = concat!("The number of ", $of, " in its store: ascending, never used twice.")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIntError;
            fn from_str(text: &str) -> Result<Self, ParseIntError> {
                text.parse().map(Self)
            }
        }
    };
}
id!(TrialId, "a trial");
id!(SessionId, "a session");
id!(RunId, "a run");
