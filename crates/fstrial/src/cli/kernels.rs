//! `fstrial kernels`: kernels that arms can be built under, in a guest.

use super::Home;
use clap::{Args, Subcommand};
use comfy_table::{Table, presets};
use fstrial_run::{
    error::ExpectedError,
    exit_code,
    kernels::{Kernel, Kernels, SUITES, become_guest},
};
use std::path::PathBuf;

/// Kernels under which arms can be built, each in a guest: list them, get one, add one's own.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fstrial kernels get 6.12
  fstrial compare xfs@6.1 xfs@6.12 -w create-files --decide-on device-bytes")]
pub(crate) struct KernelsArgs {
    #[command(subcommand)]
    command: Option<KernelsCommand>,

    #[command(flatten)]
    home: Home,
}

#[derive(Debug, Subcommand)]
enum KernelsCommand {
    /// Those that are here, and those that can be fetched (the default).
    #[command(after_long_help = "\
Examples:
  fstrial kernels list --json")]
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Fetch one of the distribution's, without installing it.
    #[command(after_long_help = "\
Examples:
  fstrial kernels get 6.1
  fstrial kernels get current")]
    Get {
        /// 5.10, 6.1, 6.12, or current for the newest.
        name: String,
    },
    /// Take a kernel of your own: its image, and its modules as `make modules_install` leaves them.
    #[command(after_long_help = "\
Examples:
  fstrial kernels add mine --vmlinuz arch/x86/boot/bzImage --modules out/lib/modules/6.18.0-rc3")]
    Add {
        /// What arms call it: the `mine` of xfs@mine.
        name: String,
        /// The vmlinuz, bzImage or vmlinux.
        #[arg(long, value_name = "FILE")]
        vmlinuz: PathBuf,
        /// The folder of its modules, called like its release.
        #[arg(long, value_name = "FOLDER")]
        modules: PathBuf,
    },
    /// Remove one.
    #[command(after_long_help = "\
Examples:
  fstrial kernels remove mine")]
    Remove {
        /// Its name.
        name: String,
    },
    /// Boot one and serve as a place there, on standard input and output. Started by fstrial itself.
    #[command(hide = true)]
    Boot {
        /// Its name.
        name: String,
        /// How, as JSON.
        how: String,
    },
}

pub(crate) fn exec(args: &KernelsArgs) -> Result<u8, ExpectedError> {
    let home = args.home.make()?;
    let kernels = Kernels::of_home(home.path());
    let is_there = |kernel: &Kernel| super::print(&format!("{} is {}\n", kernel.name, kernel.release));
    match args.command.as_ref().unwrap_or(&KernelsCommand::List { json: false }) {
        KernelsCommand::List { json } => list(&kernels, *json),
        KernelsCommand::Get { name } => {
            is_there(&kernels.get(name, &mut |line| super::say(&format!("{line}\n")))?);
        }
        KernelsCommand::Add { name, vmlinuz, modules } => is_there(&kernels.add(name, vmlinuz, modules)?),
        KernelsCommand::Remove { name } => {
            kernels.remove(name)?;
            super::say(&format!("{name} is removed\n"));
        }
        KernelsCommand::Boot { name, how } => become_guest(&kernels.required(name)?, how)?,
    }
    Ok(exit_code::VERDICT)
}

fn list(kernels: &Kernels, json: bool) {
    let here = kernels.list();
    if json {
        return super::print(&format!("{}\n", serde_json::json!({ "kernels": here })));
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    for kernel in &here {
        table.add_row([kernel.name.as_str(), kernel.release.as_str()]);
    }
    for (name, suite) in SUITES.iter().filter(|(name, _)| here.iter().all(|kernel| kernel.name != *name)) {
        table.add_row([(*name).to_owned(), format!("not here: fstrial kernels get {name} ({suite})")]);
    }
    super::print(&format!("{}\n", table.trim_fmt()));
}
