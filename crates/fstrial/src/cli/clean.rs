//! `fstrial clean`: undoes the leftovers of killed commands.

use super::Home;
use clap::Args;
use fstrial_run::{error::ExpectedError, exit_code};
use fstrial_stack::ledger::{Ledger, Report, SkippedEntry};
use std::{
    thread,
    time::{Duration, Instant},
};

/// Time limit for killed processes to end.
const ENDING: Duration = Duration::from_secs(10);

/// Clean up after killed commands: loop and zram devices, queue settings, temporary folders, frozen filesystems.
///
/// Mounts, attached files and images need no cleaning: the kernel releases them with the process that made them. Leftovers of
/// running commands, here or in a container, are skipped, as are unreadable ones; they are listed, and the exit code is
/// then 13. It is 12 if something could not be undone.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fstrial clean --dry-run
  fstrial clean")]
pub(crate) struct CleanArgs {
    /// Print the steps without executing them.
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    home: Home,
}

pub(crate) fn exec(args: &CleanArgs) -> Result<u8, ExpectedError> {
    let is_swept = sweep(args.dry_run);
    let tell = |report: &Report| tell(report, is_swept);
    let Some(home) = args.home.existing()? else { return Ok(tell(&Report::default())) };
    let Some(ledger) = Ledger::existing(&home).map_err(super::of_home)? else {
        return Ok(tell(&Report::default()));
    };
    if args.dry_run {
        let (due, left) = ledger.left_over()?;
        due.iter().for_each(|undo| super::print(&format!("would {undo}\n")));
        return Ok(if tell_left(&left) { exit_code::LEFT_ALONE } else { exit_code::VERDICT });
    }
    // With the lock, every other command of this home has ended, wherever it ran.
    match super::lock(&home)? {
        Some(_lock) => Ok(tell(&replay(&ledger.locked())?)),
        None => beside_another(&ledger, is_swept),
    }
}

/// Another command holds the lock and undoes the leftovers itself. A second undo here could restore a setting just
/// after that command changed it. Only frozen filesystems cannot wait.
fn beside_another(ledger: &Ledger, is_swept: bool) -> Result<u8, ExpectedError> {
    ledger.thaw()?;
    let (due, left) = ledger.left_over()?;
    for undo in &due {
        super::print(&format!(
            "left alone: {undo}: another command works with this home; run `fstrial clean` again when it has ended\n"
        ));
    }
    if tell_left(&left) || !due.is_empty() {
        return Ok(exit_code::LEFT_ALONE);
    }
    Ok(tell(&Report::default(), is_swept))
}

/// Undoes leftovers, and waits a while for killed processes to end.
pub(crate) fn replay(ledger: &Ledger) -> Result<Report, ExpectedError> {
    let until = Instant::now() + ENDING;
    let mut report = ledger.replay()?;
    while report.left.iter().any(|left| left.is_ending) && Instant::now() < until {
        thread::park_timeout(Duration::from_millis(100));
        let again = ledger.replay()?;
        // Failures are in the new list, too, if they persist.
        report.done.retain(|step| step.result.is_ok());
        report.done.extend(again.done);
        report.left = again.left;
    }
    Ok(report)
}

/// Removes folders for copies of stores; they belong to no home. True if there were any.
fn sweep(dry_run: bool) -> bool {
    let (word, folders) = match dry_run {
        true => ("would remove", fstrial_store::left_folders()),
        false => ("done: removed", fstrial_store::sweep()),
    };
    folders.iter().for_each(|folder| super::print(&format!("{word} {}\n", folder.display())));
    !folders.is_empty()
}

/// Reports undone and failed steps, and returns the exit code.
fn tell(report: &Report, is_swept: bool) -> u8 {
    if !is_swept && report.done.is_empty() && report.left.is_empty() {
        super::print("nothing to clean\n");
    }
    for step in &report.done {
        match &step.result {
            Ok(()) => super::print(&format!("done: {}\n", step.undo)),
            Err(error) => super::print(&format!("FAILED: {}: {error}\n", step.undo)),
        }
    }
    let left = tell_left(&report.left);
    match report.done.iter().any(|step| step.result.is_err()) {
        true => exit_code::CLEAN_UP_INCOMPLETE,
        false if left => exit_code::LEFT_ALONE,
        false => exit_code::VERDICT,
    }
}

/// Lists skipped entries with their reasons; true if there were any.
fn tell_left(left: &[SkippedEntry]) -> bool {
    for SkippedEntry { file, undo, why, .. } in left {
        let what = undo.as_ref().map(|undo| format!("{undo}: ")).unwrap_or_default();
        super::print(&format!("left alone: {what}{why}\n  entry: {}\n", file.display()));
    }
    !left.is_empty()
}
