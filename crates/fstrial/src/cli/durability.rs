//! `fstrial durability`: the acknowledged writes that arms lose in power cuts.

use super::{
    Home,
    compare::{arm, device_of, set},
    conduct,
    receipts::{MODEL, RUNS, measured, plan_of, shortened, trial_of, usual_cuts},
    workloads,
};
use clap::Args;
use fstrial_model::{arm::Arm, device::DeviceKind, trial::Trial, units::Nanos, workload::Entry};
use fstrial_report::{json_lines, receipt};
use fstrial_run::{error::ExpectedError, exit_code};
use std::path::PathBuf;

/// Cut the power of a modelled device at many points of a load and report the acknowledged writes that each arm loses.
///
/// A promise is a sync that has returned, or a commit that a database server has acknowledged. After each cut the filesystem
/// recovers by its own means (mount with log replay; a repair where it has no journal), every promise that no later change has
/// ended is checked, contents included (a server is started and asked), and a full check follows.
/// Writes that no completed flush covers are lost, kept, or torn into sectors. The unit is the run: cuts of one run share their
/// writes. Arms are written as for `fstrial compare`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fstrial durability ext4 xfs btrfs ext4:barrier=0
  fstrial durability ext4 ext4:data=journal --workload varmail --threads 4 --runs 40
  fstrial durability ext4 ext4:barrier=0 --device raid10-bbwc      a cache with a battery
  fstrial durability ext4 xfs --workload postgresql-tpcb           the commits of a database")]
pub(crate) struct DurabilityArgs {
    /// Configurations, such as ext4 or nb=ext4:barrier=0.
    #[arg(required = true, num_args = 1.., value_name = "ARM", value_parser = arm, add = super::complete::arms())]
    arms: Vec<Arm>,

    /// Workload that makes the promises: a preset or a file (.toml).
    #[arg(short, long = "workload", value_name = "NAME", default_value = "append-fsync", add = super::complete::workloads())]
    workload: String,

    /// Number of threads.
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: u16,

    /// Device model, see `fstrial device list`; without a volatile cache every complete write survives.
    #[arg(short, long, value_name = "MODEL", default_value = MODEL, add = super::complete::devices())]
    device: String,

    /// Time of the load in each run [default: 500ms, of a server 2s].
    #[arg(long, value_name = "TIME")]
    duration: Option<Nanos>,

    /// Runs of each arm.
    #[arg(long, value_name = "N", default_value = RUNS, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,

    /// Power cuts in each run [default: 20, of a server 5].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    cuts: Option<u32>,

    /// Seed of the order and of the choices of loads and cuts [default: drawn].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Set a key of the trial file, such as workload.file_size=4MiB.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    lines: Vec<set::SetFlag>,

    /// Keep the image of the first loss of each arm in this folder, as the cut left it, and the log of its writes.
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    home: Home,
}

impl DurabilityArgs {
    fn trial(&self) -> Result<Trial, ExpectedError> {
        let device = device_of(&self.device, None).ok().filter(|device| device.kind == DeviceKind::Model);
        let device = device.ok_or_else(|| {
            ExpectedError::usage(
                format!(
                    "`{}` does not name a device model, and only a modelled device can lose its power here",
                    self.device
                ),
                "choose one of `fstrial device list`",
            )
        })?;
        let entry = workloads::entry_of(&self.workload)?;
        let entry = shortened(Entry { threads: Some(vec![self.threads]), ..entry }, self.duration);
        set::over(trial_of(self.arms.clone(), device, vec![entry]), &self.lines)
    }
}

pub(crate) fn exec(args: &DurabilityArgs) -> Result<u8, ExpectedError> {
    let plan = plan_of(args.trial()?, args.seed.unwrap_or_else(conduct::draw_seed))?;
    conduct::require_root()?;
    let interrupt = conduct::interrupt()?;
    let (_lock, ledger) = args.home.ledger()?;
    let ledger = conduct::replay(ledger)?;
    let (report, is_interrupted) = measured(
        &plan,
        (args.runs, args.cuts.unwrap_or(usual_cuts(&plan))),
        args.keep.as_deref(),
        &interrupt,
        &ledger,
    )?;
    if args.json {
        json_lines::print(&report);
    } else {
        super::print_folded(&receipt::text(&report));
    }
    let has_failed = report.arms.iter().any(|arm| arm.failure.is_some());
    Ok(match (is_interrupted, has_failed) {
        (true, _) => exit_code::INTERRUPTED,
        (false, true) => exit_code::SETUP_FAILED,
        (false, false) => exit_code::VERDICT,
    })
}
