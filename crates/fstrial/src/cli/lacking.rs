//! Requirements of a trial missing on this host: reported by a dry run, before a trial and before a claim is checked.

use fstrial_model::{
    application::Application,
    arm::Arm,
    device::DeviceKind,
    filesystem::Filesystem,
    job::{FailureKind, RunFailure},
    measurement::Stage,
    place::PlaceSpec,
    preset,
    trial::Trial,
    units::Bytes,
    workload::Workload,
};
use fstrial_report::summary::listed;
use fstrial_run::{
    error::ExpectedError,
    kernels::{Kernel, Kernels, lacks, require_qemu},
    kvm,
    place::boot::Boot,
    plan::Plan,
    program::install,
    worker,
};
use fstrial_stack::{StackError, command, device, host, mapped};
use std::path::Path;

/// Missing requirements of a filesystem.
pub(super) fn of_filesystem(row: &'static Filesystem) -> Option<String> {
    let unknown = StackError::UnknownToKernel { filesystem: row.name };
    // A kernel that cannot be queried may have it.
    let is_known = host::has_filesystem(row).unwrap_or(true);
    let kernel = (!is_known).then(|| unknown.to_string());
    kernel.or_else(|| of_mkfs(row))
}

fn of_mkfs(row: &'static Filesystem) -> Option<String> {
    command::find(row.mkfs).is_none().then(|| format!("{} is not installed", row.mkfs))
}

/// Missing requirements of an arm's filesystem. Guests have the tools of this host, but separate kernels.
pub(super) fn of_arm(trial: &Trial, arm: &Arm) -> Option<String> {
    let row = arm.row()?;
    if trial.guest_of(arm).is_some() { of_mkfs(row) } else { of_filesystem(row) }
}

/// Refuses an arm whose layer has a missing requirement. Guests have separate kernels.
fn layer(trial: &Trial, arm: &Arm) -> Result<(), StackError> {
    let Some(layer) = arm.layer else { return Ok(()) };
    let mapper = if trial.guest_of(arm).is_some() { Ok(()) } else { mapped::require_mapper(layer) };
    mapper.and_then(|()| mapped::require_tools(layer))
}

/// The same for every arm that is built on this host or in one of its guests.
pub(super) fn layers(trial: &Trial) -> Result<(), StackError> {
    arms_on_this_host(trial).try_for_each(|arm| layer(trial, arm))
}

fn arms_on_this_host(trial: &Trial) -> impl Iterator<Item = &Arm> {
    let is_here = |arm: &&Arm| trial.is_here(arm.place.as_ref()) || trial.guest_of(arm).is_some();
    trial.arms.iter().filter(is_here)
}

/// Refuses clients without a program to start them.
pub(super) fn clients(trial: &Trial) -> Result<(), ExpectedError> {
    if trial.trial.clients == 1 {
        return Ok(());
    }
    let lacks = |failure| ExpectedError::Run { context: "clients".into(), failure };
    worker::require_mpi().map(drop).map_err(lacks)
}

/// Missing requirements of a trial's arms and programs on this host.
pub(super) fn of_trial(trial: &Trial, cpus: u16) -> Vec<String> {
    let arms = || arms_on_this_host(trial);
    let filesystems = arms().filter_map(|arm| of_arm(trial, arm));
    let layers = arms().filter_map(|arm| layer(trial, arm).err().map(|error| with_hint(&error.into())));
    let workloads = trial.resolve_workloads(cpus).unwrap_or_default();
    let has_programs = arms().next().is_some();
    let programs = workloads.iter().filter(|_| has_programs).flat_map(missing_programs);
    let programs = programs.map(|program| format!("{program} is not installed; {}", install(program)));
    let mpi = clients(trial).err().map(|error| with_hint(&error));
    let mut missing = Vec::new();
    for line in filesystems.chain(layers).chain(programs).chain(mpi) {
        if !missing.contains(&line) {
            missing.push(line);
        }
    }
    missing
}

/// Missing requirements of a trial's guests.
pub(super) fn of_guests(trial: &Trial, home: &Path) -> Vec<String> {
    let kernels = Kernels::of_home(home);
    let guests = || trial.places.iter().filter_map(|place| Some((place, place.kernel.as_ref()?)));
    let qemu = guests().next().and_then(|_| require_qemu().err());
    let has_qemu = qemu.is_none();
    let missing = guests().filter_map(|(place, kernel)| match kernels.required(kernel) {
        Ok(kernel) if has_qemu => kvm(home, place, &kernel).err(),
        result => result.err(),
    });
    qemu.into_iter().chain(missing).map(|error| with_hint(&error)).collect()
}

/// Refuses guests that have together more memory than this host has to spare.
pub(super) fn memory(plan: &Plan) -> Result<(), StackError> {
    let guests = plan.trial.places.iter().filter(|place| place.kernel.is_some());
    let all = guests.map(|place| Boot::at(plan, place).memory().0).fold(0, u64::saturating_add);
    if all == 0 { Ok(()) } else { device::require_room(None, Bytes(all), "room for all guests") }
}

/// Refuses a guest that is to run by KVM where none does.
pub(super) fn kvm(home: &Path, place: &PlaceSpec, kernel: &Kernel) -> Result<(), ExpectedError> {
    if !place.kvm {
        return Ok(());
    }
    kvm::problem(home, kernel, &mut |line| super::say(&format!("{line}\n")))?.map_or(Ok(()), |problem| {
        let hint = "a trial file of yours may leave kvm = true out: a processor is emulated then, in virtual time on a ramdisk or a model";
        Err(lacks(&format!("KVM cannot be used here: {problem}"), hint))
    })
}

/// An error with its remedy, on one line.
pub(super) fn with_hint(error: &ExpectedError) -> String {
    error.hint().map_or_else(|| error.to_string(), |hint| format!("{error}; {hint}"))
}

/// The missing program of a preset's engine.
fn of_helper(preset: &str) -> Option<String> {
    let program = preset::helper(preset)?;
    command::find_own(program).is_none().then(|| format!("{program} is not installed; {}", install(program)))
}

/// The presets of an application on this host.
pub(super) struct Set {
    /// Its presets here: if its engine is available, that alone.
    pub(super) presets: Vec<&'static str>,
    /// Presets left out: the models if the engine is available, else those of the engine.
    pub(super) others: Vec<&'static str>,
    /// Why its engine is not here.
    pub(super) lacks: Option<String>,
}

impl Set {
    pub(super) fn of(application: &Application) -> Self {
        let (engine, models): (Vec<_>, Vec<_>) =
            application.presets().into_iter().partition(|name| preset::helper(name).is_some());
        let lacks = engine.iter().find_map(|name| of_helper(name));
        match lacks.is_none() && !engine.is_empty() {
            true => Self { presets: engine, others: models, lacks },
            false => Self { presets: models, others: engine, lacks },
        }
    }
}

/// The room that the device of a plan needs and this host has not.
pub(super) fn of_device(plan: &Plan) -> Option<String> {
    let spec = &plan.trial.device;
    let (folder, what) = match spec.kind {
        _ if !plan.places.contains(&None) => return None,
        DeviceKind::Disk | DeviceKind::Directory => return None,
        DeviceKind::Image => (spec.folder(), "an image"),
        DeviceKind::Ramdisk => (None, "a ramdisk"),
        DeviceKind::Model => (spec.path.as_deref(), "a modelled device"),
    };
    let members = u64::from(spec.members.unwrap_or(1));
    let room = device::require_room(folder, Bytes(plan.device_size.0.saturating_mul(members)), what);
    room.err().map(|error| with_hint(&error.into()))
}

/// Refuses a plan that can run none of its workloads, for programs that are not installed here, before anything is made for it.
pub(super) fn check_programs(plan: &Plan) -> Result<(), ExpectedError> {
    let missing: Option<Vec<_>> = plan.workloads.iter().map(|load| missing_programs(load).next()).collect();
    let mut programs = missing.filter(|_| plan.is_here_only()).unwrap_or_default();
    programs.sort_unstable();
    programs.dedup();
    let [first, ..] = programs.as_slice() else { return Ok(()) };
    let workloads: Vec<&str> = plan.workloads.iter().map(|workload| workload.name.as_str()).collect();
    let is = if programs.len() == 1 { "is" } else { "are" };
    let failure = RunFailure {
        kind: FailureKind::HostLacks,
        stage: Stage::Load,
        what: format!("{} {is} not installed", listed(&programs)),
        hint: Some(install(first)),
    };
    Err(ExpectedError::Run { context: workloads.join(", "), failure })
}

/// Programs of a workload's commands that are not installed. A path may be one that an earlier command makes.
fn missing_programs(workload: &Workload) -> impl Iterator<Item = &str> {
    let commands = workload.program().into_iter().flat_map(|timed| timed.program.commands());
    let programs = commands.filter_map(|words| words.first()).filter(|word| !word.contains(['{', '/']));
    let programs = programs.map(String::as_str).filter(|program| command::find(program).is_none());
    programs.chain(workload.helper().filter(|helper| command::find_own(helper).is_none()))
}
