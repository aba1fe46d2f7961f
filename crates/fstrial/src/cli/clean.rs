//! `fstrial clean`: undoes what commands that were killed have left.

use super::Home;
use crate::{error::ExpectedError, exit_code};
use clap::Args;
use fstrial_stack::ledger::Ledger;

/// Undo what killed commands have left on this host: loop and zram devices that were added, queue settings, folders
/// in directories, filesystems that were frozen.
///
/// Mounts, attached files and images need no cleaning: the kernel takes them down with the process that made them.
#[derive(Debug, Args)]
pub(crate) struct CleanArgs {
    /// Say what would be undone, and do nothing.
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    home: Home,
}

pub(crate) fn exec(args: &CleanArgs) -> Result<u8, ExpectedError> {
    let ledger = Ledger::new(args.home.ledger()?, std::process::id());
    if args.dry_run {
        for undo in ledger.left_over()? {
            super::print(&format!("would {undo}\n"));
        }
        return Ok(exit_code::VERDICT);
    }
    let mut first = None;
    let replayed = ledger.replay()?;
    if ledger.has_others()? {
        super::print("left alone: what belongs to a command that is still running, or still ending\n");
    } else if replayed.is_empty() {
        super::print("nothing to clean\n");
    }
    for step in replayed {
        match step.result {
            Ok(()) => super::print(&format!("done: {}\n", step.undo)),
            Err(error) => {
                super::print(&format!("FAILED: {}: {error}\n", step.undo));
                first = first.or(Some(error));
            }
        }
    }
    Ok(if first.is_some() { exit_code::CLEAN_UP_INCOMPLETE } else { exit_code::VERDICT })
}
