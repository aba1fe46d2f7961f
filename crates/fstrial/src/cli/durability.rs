//! `fstrial durability`: the acknowledged writes that arms lose in power cuts.

use super::{
    Home,
    compare::{arm, device_of, set},
    conduct, workloads,
};
use clap::Args;
use fstrial_model::{
    ability::Ability,
    arm::Arm,
    device::DeviceKind,
    trial::{Settings, Trial},
    units::{Bytes, Nanos},
    workload::{Entry, Pattern, Phase, Workload},
};
use fstrial_report::{
    json_lines,
    receipt::{self, Progress, ReceiptReport},
};
use fstrial_run::{
    clock::MachineClock,
    durability::{self, CutPlan},
    environment,
    error::ExpectedError,
    event::{Event, Listener},
    exit_code,
    plan::Plan,
    session::{Session, SessionEnd},
};
use fstrial_stack::device::Permission;

/// Size of the files of a load on files, at least four requests for each.
const FILE_SIZE: Bytes = Bytes::mib(1);
/// More than this would be read back too slowly.
const MAX_FILES: Bytes = Bytes::mib(64);

/// Cut the power of a modelled device at many points of a load and report the acknowledged writes that each arm loses.
///
/// A promise is a sync that has returned. After each cut the filesystem recovers by its own means (mount with log replay; a
/// repair where it has no journal), every promise made before the cut is checked, contents included, and a full check follows.
/// Writes that no completed flush covers are lost, kept, or torn into sectors. The unit is the run: cuts of one run share their
/// writes. Arms are written as for `fstrial compare`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fstrial durability ext4 xfs btrfs ext4:barrier=0
  fstrial durability ext4 ext4:data=journal --workload varmail --threads 4 --runs 40
  fstrial durability ext4 ext4:barrier=0 --device raid10-bbwc      a cache with a battery")]
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
    #[arg(short, long, value_name = "MODEL", default_value = "sata-ssd", add = super::complete::devices())]
    device: String,

    /// Time of the load in each run.
    #[arg(long, value_name = "TIME", default_value = "500ms")]
    duration: Nanos,

    /// Runs of each arm.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,

    /// Power cuts in each run.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    cuts: u32,

    /// Seed of the order and of the choices of loads and cuts [default: drawn].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Set a key of the trial file, such as workload.file_size=4MiB.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    lines: Vec<set::SetFlag>,

    /// Print JSON.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    home: Home,
}

/// Events of places are not shown: nothing here takes long to prepare.
struct Silent;

impl Listener for Silent {
    fn hear(&mut self, _: &Event<'_>) -> Result<(), ExpectedError> {
        Ok(())
    }
}

impl DurabilityArgs {
    fn trial(&self) -> Result<Trial, ExpectedError> {
        let device = device_of(&self.device, None)?;
        if device.kind != DeviceKind::Model {
            return Err(ExpectedError::usage(
                format!("`{}` cannot lose its power: only a modelled device can", self.device),
                "choose one of `fstrial device list`",
            ));
        }
        let entry = workloads::entry_of(&self.workload)?;
        let resolved = entry.resolve(1);
        // An error in it is shown with the trial.
        resolved.iter().try_for_each(refuse_workload)?;
        let file_size = resolved.ok().and_then(|workload| file_size(&workload)).or(entry.file_size);
        let workload = Entry {
            threads: Some(vec![self.threads]),
            duration: Some(self.duration),
            warmup: Some(Nanos(0)),
            file_size,
            ..entry
        };
        let settings = Settings { seed: self.seed, control: false, ..Settings::default() };
        let (arms, workloads) = (self.arms.clone(), vec![workload]);
        let trial = Trial { trial: settings, device, arms, workloads, ..Trial::default() };
        let mut trial = set::over(trial, &self.lines)?;
        trial.arms.iter().try_for_each(refuse_arm)?;
        // No key of a file.
        trial.trial.is_for_receipts = true;
        Ok(trial)
    }
}

/// The size of all files of a workload that makes requests of files: they are read back at every sync.
fn file_size(workload: &Workload) -> Option<Bytes> {
    let groups = workload.phases().iter().flat_map(|phase| &phase.groups);
    let sizes = groups.map(|group| match &group.pattern {
        Pattern::Io(io) => Some(u64::from(io.files).saturating_mul(io.block_size.0).saturating_mul(4)),
        _ => None,
    });
    let least = sizes.collect::<Option<Vec<u64>>>()?.into_iter().max()?;
    Some(Bytes(least).max(FILE_SIZE))
}

pub(crate) fn exec(args: &DurabilityArgs) -> Result<u8, ExpectedError> {
    let trial = args.trial()?;
    let settled = trial.settled(environment::cpus())?;
    let seed = trial.trial.seed.unwrap_or_else(conduct::draw_seed);
    let mut plan = Plan::new(settled, seed)?;
    plan.workloads.iter().try_for_each(|workload| refuse_workload(workload).and(refuse_large(workload)))?;
    plan.contrasts.clear();
    conduct::require_root()?;
    let protected = plan.trial.device.modelled().is_some_and(|model| CutPlan::is_protected(&model));
    let cuts = CutPlan { runs: args.runs, cuts: args.cuts, protected };
    let interrupt = conduct::interrupt()?;
    let (_lock, ledger) = args.home.ledger()?;
    let ledger = conduct::replay(ledger)?;
    let progress = Progress::new();
    let session = Session {
        plan: &plan,
        booted: None,
        reaches: &[],
        clock: &MachineClock::start(),
        interrupt: &interrupt,
        ledger: &ledger,
        permission: &Permission::default(),
        state_folder: ledger.folder(),
        precondition: None,
        longest: None,
    };
    let SessionEnd { done, left } = session.at_its_places(&mut Silent, |places, _| {
        let place = places.first_mut().expect("the plan has a place");
        durability::run(&plan, place.as_mut(), cuts, &mut |done, all| progress.set(done, all))
    });
    progress.clear();
    let (cells, is_interrupted) = done?;
    left.into_iter().next().map_or(Ok(()), Err)?;
    let report = ReceiptReport::of(&plan, cuts, &cells);
    if args.json {
        json_lines::print(&report);
    } else {
        super::print_folded(&receipt::text(&report));
    }
    let has_failed = cells.iter().any(|cell| cell.failure.is_some());
    Ok(match (is_interrupted, has_failed) {
        (true, _) => exit_code::INTERRUPTED,
        (false, true) => exit_code::SETUP_FAILED,
        (false, false) => exit_code::VERDICT,
    })
}

/// Refuses arms whose power is not cut, or that cannot be judged after it.
fn refuse_arm(arm: &Arm) -> Result<(), ExpectedError> {
    let has_more_devices = arm.layer.is_some() || arm.log.is_some() || arm.profile.is_some();
    let (what, hint) = match (&arm.place, arm.row()) {
        (Some(_), _) => ("is at another place, whose device cannot be cut yet", "use arms on this host"),
        (None, None) => ("has no filesystem that could recover", "leave it out"),
        _ if has_more_devices => (
            "is on more than its one device, and only that is recorded",
            "leave out its layer, log or profile",
        ),
        (None, Some(row)) if !matches!(row.abilities.repair, Ability::Program(..)) => (
            "has no repair program that fstrial knows, so an image that does not mount could not be judged",
            "compare ext2, ext3, ext4, xfs or btrfs",
        ),
        (None, Some(_)) => return Ok(()),
    };
    Err(ExpectedError::usage(format!("`{}` {what}", arm.name), hint))
}

/// Refuses a workload whose promises are not known.
fn refuse_workload(workload: &Workload) -> Result<(), ExpectedError> {
    let is_store = |phase: &Phase| phase.groups.iter().any(|group| matches!(group.pattern, Pattern::Ycsb(_)));
    let what = match workload.phases() {
        [] => "is a program or an operation: its promises are not known",
        [phase] if is_store(phase) => "uses a key-value store, whose promises are not known",
        [phase] if phase.find_rate.is_some() => "searches for a rate, in many loads",
        [_] => return Ok(()),
        _ => "has several phases, and the first alone would be recorded",
    };
    Err(ExpectedError::usage(
        format!("`{}` {what}", workload.name),
        "use a built-in load of one phase, such as append-fsync, varmail or fs-mark",
    ))
}

/// Refuses files that would be read back too slowly.
fn refuse_large(workload: &Workload) -> Result<(), ExpectedError> {
    let size = workload.most_space_needed();
    if size <= MAX_FILES {
        return Ok(());
    }
    Err(ExpectedError::usage(
        format!(
            "`{}` has {} of files, which are read back at every sync; at most {} is practical",
            workload.name,
            size.human(),
            MAX_FILES.human()
        ),
        "make them fewer or smaller with --set workload.…, see `fstrial workloads show`",
    ))
}
