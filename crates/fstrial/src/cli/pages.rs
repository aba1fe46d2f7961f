//! Folder of pages: `HOME/reports`.

use super::{Home, out_file};
use fstrial_report::page::{self, TrialPage};
use fstrial_run::error::ExpectedError;
use fstrial_stack::private_dir::PrivateDir;
use std::path::PathBuf;

/// Stores the page of a trial that has just ended; returns its path.
pub(crate) fn keep_ended(home: &Home, id: i64, page: TrialPage) -> Result<PathBuf, ExpectedError> {
    keep(home, &format!("trial-{id}.html"), &page::of_trials(vec![page]))
}

/// Stores a page in the home folder, replacing an earlier one of the same trials; returns its path.
pub(crate) fn keep(home: &Home, name: &str, page: &str) -> Result<PathBuf, ExpectedError> {
    let folder = PrivateDir::make(&home.make()?.path().join("reports"))?;
    let path = folder.path().join(name);
    out_file::write(&path, page.as_bytes(), true)?;
    Ok(path)
}
