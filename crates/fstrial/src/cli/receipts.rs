//! Runs with power cuts, for `fstrial durability` and for trials with a receipt.

use super::{
    lacking,
    out_file::{self, OutFile},
};
use fstrial_model::{
    ability::Ability,
    arm::Arm,
    device::{Device, DeviceKind, ModelChoice},
    filesystem::{FILESYSTEMS, Filesystem},
    job::KeptFiles,
    trial::Trial,
    units::{Bytes, Nanos},
    workload::{Durability as When, Entry, Pattern, Phase, Until, Workload},
};
use fstrial_report::{
    bar::Progress,
    receipt::{Kept, ReceiptReport},
};
use fstrial_run::{
    durability::{self, CutPlan},
    environment,
    error::ExpectedError,
    interrupt::Interrupt,
    numbers::counted,
    plan::Plan,
    session,
    worker::LOG_LIMIT,
};
use fstrial_stack::{StackError, command, device, host, ledger::Ledger};
use std::{fs::File, os::fd::AsFd, path::Path};

/// Size of the files of a load on files, at least four requests for each.
const FILE_SIZE: Bytes = Bytes::mib(1);
/// Runs of each arm, unless another number is requested; as text for clap.
pub(super) const RUNS: &str = "20";
/// Cuts in each run.
const CUTS: u32 = 20;
/// Cuts in each run of a server, which starts after each.
const SERVER_CUTS: u32 = 5;
/// Time of the load in each run.
const LOAD: Nanos = Nanos::millis(500);
/// The same of a server: its clients take whole seconds.
const SERVER_LOAD: Nanos = Nanos::secs(2);
/// A device with a volatile cache.
pub(super) const MODEL: &str = "sata-ssd";
/// More than this would be read back too slowly.
const MAX_FILES: Bytes = Bytes::mib(64);

pub(super) fn trial_of(arms: Vec<Arm>, device: Device, workloads: Vec<Entry>) -> Trial {
    Trial { device, arms, workloads, ..Trial::default() }
}

/// A workload without its warm-up, on files that are read back soon, for `duration` or as long as is usual for receipts.
pub(super) fn shortened(entry: Entry, duration: Option<Nanos>) -> Entry {
    // An error in it is shown with the trial.
    let workload = entry.resolve(1).ok();
    let is_program = workload.as_ref().is_some_and(|workload| workload.program().is_some());
    let warmup = if is_program { None } else { Some(Nanos(0)) };
    let file_size = workload.as_ref().and_then(file_size).or(entry.file_size);
    let mut phases = workload.iter().flat_map(Workload::phases);
    let duration = match phases.any(|phase| phase.until == Until::Done) {
        _ if duration.is_some() => duration,
        // It takes as long as its work.
        true => entry.duration,
        false if is_program => Some(SERVER_LOAD),
        false => Some(LOAD),
    };
    Entry { warmup, file_size, duration, ..entry }
}

/// Cuts in each run of a plan, unless another number is requested.
pub(super) fn usual_cuts(plan: &Plan) -> u32 {
    let is_server = plan.workloads.iter().any(|workload| workload.program().is_some());
    if is_server { SERVER_CUTS } else { CUTS }
}

/// The receipts of a trial that requests some: of all its arms under each load that syncs, at its highest number of threads.
/// On its own device if that is modelled.
pub(super) fn of(
    plan: &Plan,
    interrupt: &Interrupt,
    ledger: &Ledger,
) -> Result<Option<ReceiptReport>, ExpectedError> {
    let runs = plan.trial.trial.receipt;
    if runs == 0 {
        return Ok(None);
    }
    let device = match plan.trial.device.modelled() {
        Some(_) => plan.trial.device.clone(),
        None => Device {
            model: Some(ModelChoice::Named(MODEL.into())),
            // As large as its data need; files of other loads become smaller.
            size: plan
                .trial
                .device
                .size
                .filter(|_| plan.workloads.iter().any(|workload| !workload.is_load())),
            ..Device::of(DeviceKind::Model)
        },
    };
    let arms: Vec<Arm> = plan.trial.arms.iter().filter(|arm| arm.control_of.is_none()).cloned().collect();
    let mut entries = Vec::new();
    for (index, (entry, workload)) in plan.trial.workloads.iter().zip(&plan.workloads).enumerate() {
        let levels = plan.cells.iter().filter(|cell| cell.workload == index).map(|cell| cell.threads);
        if workload.program().is_some() || syncs(workload) {
            let entry = Entry { threads: levels.max().map(|most| vec![most]), ..entry.clone() };
            entries.push(shortened(entry, None));
        }
    }
    if entries.is_empty() {
        return Err(ExpectedError::usage(
            "no workload of the trial syncs, so nothing is promised and no receipt is possible",
            "add one that does, such as append-fsync, or leave the receipt out",
        ));
    }
    // Those of servers have fewer cuts.
    let (servers, loads): (Vec<Entry>, Vec<Entry>) = entries.into_iter().partition(is_server);
    let mut whole: Option<ReceiptReport> = None;
    for entries in [loads, servers].into_iter().filter(|entries| !entries.is_empty()) {
        let plan = plan_of(trial_of(Vec::clone(&arms), device.clone(), entries), plan.seed)?;
        let (report, is_interrupted) = measured(&plan, (runs, usual_cuts(&plan)), None, interrupt, ledger)?;
        if is_interrupted {
            return Err(StackError::Interrupted.into());
        }
        match &mut whole {
            None => whole = Some(report),
            Some(whole) => whole.arms.extend(report.arms),
        }
    }
    Ok(whole)
}

fn is_server(entry: &Entry) -> bool {
    entry.resolve(1).is_ok_and(|workload| workload.program().is_some())
}

/// The plan of a trial for receipts, in which nothing is compared.
pub(super) fn plan_of(mut trial: Trial, seed: u64) -> Result<Plan, ExpectedError> {
    // No key of a trial file.
    trial.trial.is_for_receipts = true;
    trial.arms.iter().try_for_each(refuse_arm)?;
    let mut plan = Plan::new(trial.settled(environment::cpus())?, seed)?;
    plan.workloads.iter().try_for_each(|workload| refuse_workload(workload).and(refuse_large(workload)))?;
    plan.contrasts.clear();
    Ok(plan)
}

/// Runs and cuts the cells of a plan; true if it was interrupted.
pub(super) fn measured(
    plan: &Plan,
    (runs, cuts): (u32, u32),
    keep: Option<&Path>,
    interrupt: &Interrupt,
    ledger: &Ledger,
) -> Result<(ReceiptReport, bool), ExpectedError> {
    lacking::check_programs(plan)?;
    // The device, and its recording; and as much more as is on it at first.
    let least = Bytes(plan.device_size.0 + LOG_LIMIT);
    device::require_room(None, least, "a modelled device and its recording")?;
    // To keep a loss another copy, with which its log begins.
    let most = least.0 + plan.device_size.0 * if keep.is_some() { 2 } else { 1 };
    super::say(&format!(
        "Power cuts: {} of each arm, with {} each; up to {} of memory\n",
        counted(runs, "run"),
        counted(cuts, "cut"),
        Bytes(most).human()
    ));
    let protected = plan.trial.device.modelled().is_some_and(|model| CutPlan::is_protected(&model));
    let cuts = CutPlan { runs, cuts, protected };
    let mut kept = keep.map_or_else(|| Ok(Vec::new()), |folder| loss_files(plan, folder))?;
    let path_of = |(_, file): &(OutFile, File)| host::path_of_descriptor(file.as_fd());
    let paths: Vec<KeptFiles> =
        kept.iter().map(|[image, log]| KeptFiles { image: path_of(image), log: path_of(log) }).collect();
    let progress = Progress::of("runs with power cuts");
    let done = session::unwatched((plan, &[]), interrupt, ledger, |_, places, _| {
        durability::run(plan, places, cuts, &paths, &mut |done, all| progress.set(done, all))
    });
    progress.clear();
    let (cells, is_interrupted) = done?;
    let mut report = ReceiptReport::of(plan, cuts, (&cells, is_interrupted));
    for (index, [(file, _), (log, _)]) in kept.drain(..).enumerate() {
        let arm = &mut report.arms[index];
        if arm.first_problem.is_some() && arm.unkept().is_none() {
            let [image, log_path] = [&file, &log].map(|file| file.path().display().to_string());
            file.finish()?;
            log.finish()?;
            let options: Vec<&str> = std::iter::once("loop")
                .chain(plan.trial.arms[plan.cells[index].arm].mount.iter().map(String::as_str))
                .collect();
            // A copy, because recovery writes to it.
            let command = format!(
                "cp --sparse=always {} copy.img && sudo mount -o {} copy.img /mnt",
                command::quoted(&image),
                options.join(",")
            );
            arm.kept = Some(Kept { image, log: log_path, command });
        }
    }
    Ok((report, is_interrupted))
}

/// Nameless files for the image and the write log of the first loss of each cell; empty ones are dropped.
fn loss_files(plan: &Plan, folder: &Path) -> Result<Vec<[(OutFile, File); 2]>, ExpectedError> {
    out_file::Folder::make(folder)?;
    let plain = |cell: usize| -> String {
        plan.arm_name(cell).chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect()
    };
    let file = |cell: usize, suffix: &str| -> Result<(OutFile, File), ExpectedError> {
        let is_alone = (0..plan.cells.len()).all(|other| other == cell || plain(other) != plain(cell));
        let name = if is_alone { plain(cell) } else { format!("{}-{}", plain(cell), cell + 1) };
        let path = folder.join(format!("{name}-{}.{suffix}", plan.seed));
        if path.exists() {
            let what = format!("{} exists already and was not changed", path.display());
            return Err(ExpectedError::usage(what, "name another folder for --keep"));
        }
        let file = OutFile::new(&path, false)?;
        let open = file.create()?;
        Ok((file, open))
    };
    (0..plan.cells.len()).map(|cell| Ok([file(cell, "img")?, file(cell, "log")?])).collect()
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

fn has_repair(row: &Filesystem) -> bool {
    matches!(row.abilities.repair, Ability::Program(..))
}

/// Refuses arms whose power is not cut, or that cannot be judged after it.
fn refuse_arm(arm: &Arm) -> Result<(), ExpectedError> {
    let all = FILESYSTEMS.iter().filter(|row| has_repair(row)).map(|row| row.name);
    let repairable = format!("compare {}", all.collect::<Vec<_>>().join(", "));
    let has_more_devices = arm.layer.is_some() || arm.log.is_some() || arm.profile.is_some();
    let (what, hint) = match (&arm.place, arm.row()) {
        (Some(_), _) => ("is at another place, whose device cannot be cut yet", "use arms on this host"),
        (None, None) => ("has no filesystem that could recover", "leave it out"),
        _ if has_more_devices => (
            "is on more than its one device, and only that is recorded",
            "leave out its layer, log or profile",
        ),
        (None, Some(row)) if !has_repair(row) => (
            "has no repair program that fstrial knows, so an image that does not mount could not be judged",
            repairable.as_str(),
        ),
        (None, Some(_)) => return Ok(()),
    };
    Err(ExpectedError::usage(format!("`{}` {what}", arm.name), hint))
}

fn syncs(workload: &Workload) -> bool {
    workload.durability().iter().any(|(_, when)| !matches!(when, When::ReadsOnly | When::None))
}

/// Refuses a workload whose promises are not known.
fn refuse_workload(workload: &Workload) -> Result<(), ExpectedError> {
    let is_store = |phase: &Phase| phase.groups.iter().any(|group| matches!(group.pattern, Pattern::Ycsb(_)));
    let server = workload.program().and_then(|timed| timed.program.server.as_ref());
    let what = match workload.phases() {
        [] if server.is_some_and(|server| server.promises.is_some()) => return Ok(()),
        [] if server.is_some() => {
            "is a server that declares no promises ([server.promises], see docs/servers.md)"
        }
        [] => "is a program or an operation: its promises are not known",
        [phase] if is_store(phase) => "uses a key-value store, whose promises are not known",
        [phase] if phase.find_rate.is_some() => "searches for a rate, in many loads",
        [_] if !syncs(workload) => "syncs nothing, so it promises nothing",
        [_] => return Ok(()),
        _ => "has several phases, and the first alone would be recorded",
    };
    Err(ExpectedError::usage(
        format!("`{}` {what}", workload.name),
        "use a load of one phase, such as append-fsync, varmail or create-files, or a server, such as postgresql-tpcb",
    ))
}

/// Refuses files that would be read back too slowly.
fn refuse_large(workload: &Workload) -> Result<(), ExpectedError> {
    let size = workload.most_space_needed();
    if size <= MAX_FILES {
        return Ok(());
    }
    let groups = workload.phases().iter().flat_map(|phase| &phase.groups);
    let mut key = groups.map(|group| match group.pattern {
        Pattern::Log(_) => "log.file_size",
        Pattern::Flush(_) => "flush.file_size",
        _ => "file_size",
    });
    let key = key.next().unwrap_or("file_size");
    Err(ExpectedError::usage(
        format!(
            "`{}` has {} of files, which are read for every cut; at most {} is practical",
            workload.name,
            size.human(),
            MAX_FILES.human()
        ),
        format!(
            "make them smaller with --set workload.{key}=…, see `fstrial workloads show {}`",
            workload.name
        ),
    ))
}
