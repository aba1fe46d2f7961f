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

/// List, fetch, add and remove guest kernels for arms such as xfs@6.1.
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
    /// List installed and available kernels (the default).
    #[command(after_long_help = "\
Examples:
  fstrial kernels list --json")]
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Fetch a kernel of the distribution without installing it.
    #[command(after_long_help = "\
Examples:
  fstrial kernels get 6.1
  fstrial kernels get current")]
    Get {
        /// Version: 5.10, 6.1, 6.12, or current for the newest.
        name: String,
    },
    /// Add a kernel image, with its modules as installed by `make modules_install`.
    #[command(after_long_help = "\
Examples:
  fstrial kernels add mine --vmlinuz arch/x86/boot/bzImage --modules out/lib/modules/6.18.0-rc3")]
    Add {
        /// Name in arms: the `mine` of xfs@mine.
        name: String,
        /// vmlinuz, bzImage or vmlinux.
        #[arg(long, value_name = "FILE")]
        vmlinuz: PathBuf,
        /// Module folder, named after the kernel release.
        #[arg(long, value_name = "FOLDER")]
        modules: PathBuf,
    },
    /// Remove a kernel.
    #[command(after_long_help = "\
Examples:
  fstrial kernels remove mine")]
    Remove {
        /// Name of the kernel, as in `fstrial kernels list`.
        name: String,
    },
    /// Boot one and serve as a place there, on standard input and output. Started by fstrial itself.
    #[command(hide = true)]
    Boot {
        /// Name of the kernel, as in `fstrial kernels list`.
        name: String,
        /// The method, as JSON.
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
