//! `--dry-run`: every step of a trial in order, with its undo.

use crate::run::{
    coordinator::shared,
    plan::{Plan, threads_in_words},
};
use fstrial_model::{
    arm::Arm,
    device::DeviceKind,
    state::Restoring,
    workload::{Phase, Until, Workload},
};
use std::fmt::Write;

/// All steps: the device, each arm, the first round, what repeats.
pub fn render(plan: &Plan) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "Device\n{}", device(plan));
    out += &states(plan);
    for arm in &plan.trial.arms {
        let _ = writeln!(out, "\nEvery run of arm {}", arm.name);
        for (index, (step, undo)) in arm_steps(plan, arm).iter().enumerate() {
            let _ = writeln!(out, "  {:2}. {step}\n      undo: {undo}", index + 1);
        }
    }
    let _ = writeln!(out, "\nRound 1 (seed {:#x}; every further round in an order of its own)", plan.seed);
    for (position, cell) in plan.order(1).into_iter().enumerate() {
        let at = plan.cells[cell];
        let workload = &plan.workloads[at.workload];
        let _ = writeln!(
            out,
            "  {:2}. {} · {} · {} · {}",
            position + 1,
            plan.arm_name(cell),
            workload.name,
            threads_in_words(at.threads),
            phases(workload)
        );
    }
    let settings = &plan.trial.trial;
    let holding = plan.contrasts.iter().filter(|contrast| contrast.holds_open).count();
    let _ = writeln!(
        out,
        "\nRounds until {} settled or {} have passed; {} questions in all, errors controlled together.",
        if holding == 1 { "1 contrast is".to_owned() } else { format!("{holding} contrasts are") },
        settings.budget,
        plan.contrasts.len()
    );
    out
}

/// What is prepared once, before the first round.
fn states(plan: &Plan) -> String {
    let trial = &plan.trial;
    let mut out = String::new();
    for shared in shared(trial) {
        let arms: Vec<&str> = shared.arms.iter().map(|arm| trial.arms[*arm].name.as_str()).collect();
        let (blank, save) = match trial.trial.restore {
            Restoring::Copy => ("write zeros over the whole device", "copy what is not zero into the file"),
            Restoring::Clone => {
                ("share the image's blocks with the file, to see that it can", "share them again")
            }
        };
        let state = match shared.state.is_fresh() {
            true => "leave it as it is, because the others are put back too".into(),
            false => format!("make the state {} in the folder `state`, sync", shared.state),
        };
        let _ = writeln!(out, "\nOnce, for {}", arms.join(", "));
        let steps = [
            (
                "make a nameless file for the prepared filesystem".to_owned(),
                "it goes with the last process that holds it",
            ),
            (
                format!("build it as below with mkfs, to see its room; then {blank}, and build it again"),
                "as below",
            ),
            (format!("{state}; unmount, ask the filesystem's tool about the free space"), "as below"),
            (save.to_owned(), "as the file"),
        ];
        for (index, (step, undo)) in steps.iter().enumerate() {
            let _ = writeln!(out, "  {:2}. {step}\n      undo: {undo}", index + 1);
        }
    }
    out
}

/// How long the phases of a workload run: `1s after 250ms of warm-up`, `write until done, then read until done`.
fn phases(workload: &Workload) -> String {
    let one = |phase: &Phase| {
        let time = match phase.until {
            Until::Time => format!("{} after {} of warm-up", phase.duration, phase.warmup),
            Until::Done => "until done".into(),
        };
        if phase.name.is_empty() { time } else { format!("{} {time}", phase.name) }
    };
    if let Some(timed) = &workload.operation {
        return format!("the operation {}", timed.operation);
    }
    match &workload.program {
        Some(timed) => timed.program.command.first().map_or_else(String::new, |name| format!("runs {name}")),
        None => workload.phases.iter().map(one).collect::<Vec<_>>().join(", then "),
    }
}

fn device(plan: &Plan) -> String {
    let device = &plan.trial.device;
    let path = device.path.as_ref().map(|path| path.display().to_string());
    match device.kind {
        DeviceKind::Image => format!(
            "   1. make a nameless file of {} in {}, allocate it and write all of it\n      undo: close it (it has no name; it goes with the last process that holds it)",
            plan.device_size,
            path.as_deref().unwrap_or("the current folder")
        ),
        DeviceKind::Ramdisk => format!(
            "   1. take an unused brd, else add a zram device of {0}, else a file of {0} in memory\n      undo: remove the zram device (in the ledger); close the file",
            plan.device_size
        ),
        DeviceKind::Model => format!(
            "   1. start a process that serves a device of {} as the model says ({}), through FUSE in a mount namespace of its own\n      undo: it ends with this command; the kernel unmounts",
            plan.device_size,
            device.modelled().map(|model| model.summary()).unwrap_or_default()
        ),
        DeviceKind::Disk => format!(
            "   1. check that {} may be erased, and hold it open\n      undo: none: every run ERASES it",
            path.as_deref().unwrap_or("?")
        ),
        DeviceKind::Directory => "   1. nothing: existing directories are used as they are".into(),
    }
}

/// How a run comes to its filesystem: by mkfs, or by what was prepared with it.
fn making(plan: &Plan, mkfs: &str, node: &str) -> String {
    match (plan.trial.restores(), plan.trial.trial.restore) {
        (false, _) => format!("{mkfs} {node}"),
        (true, Restoring::Copy) => {
            format!("write the filesystem that was prepared (`{mkfs}`) over all of {node}")
        }
        (true, Restoring::Clone) => format!(
            "before the loop device: let the file share the blocks of the filesystem that was prepared (`{mkfs}`)"
        ),
    }
}

fn arm_steps(plan: &Plan, arm: &Arm) -> Vec<(String, String)> {
    let mut steps = Vec::new();
    let mut step = |what: String, undo: &str| steps.push((what, undo.to_owned()));
    if arm.is_directory() {
        let path = arm.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        step(format!("make a folder fstrial-run-… in {path}"), "delete it (in the ledger)");
    } else {
        step(
            "start a worker in mount and process namespaces of its own".into(),
            "it ends; the kernel unmounts and detaches what is left",
        );
        let node = match plan.trial.device.kind {
            DeviceKind::Image | DeviceKind::Model => "/dev/loopN",
            DeviceKind::Ramdisk => "the ramdisk",
            DeviceKind::Disk | DeviceKind::Directory => "the disk",
        };
        if matches!(plan.trial.device.kind, DeviceKind::Image | DeviceKind::Model) {
            step(
                "add a loop device, attach the file to it with direct I/O, switch discards off on it".into(),
                "detached by the kernel at the last close; the device is removed (in the ledger)",
            );
        }
        for (name, value) in [
            ("scheduler", arm.scheduler.clone()),
            ("read-ahead", arm.read_ahead.map(|size| size.to_string())),
            ("cache mode", arm.cache.map(|mode| mode.name().to_owned())),
        ] {
            if let Some(value) = value {
                step(format!("set the {name} of {node} to {value}"), "the value before (in the ledger)");
            }
        }
        if let Some(row) = arm.row() {
            let arguments = row.mkfs_arguments(&arm.mkfs).join(" ");
            step(making(plan, &format!("{} {arguments}", row.mkfs), node), "none: the device is the trial's");
            let options = row
                .mount_base
                .iter()
                .copied()
                .chain(arm.mount.iter().map(String::as_str))
                .collect::<Vec<_>>()
                .join(",");
            let options = if options.is_empty() { String::new() } else { format!(" -o {options}") };
            step(
                format!("mount -t {}{options} {node} on a mount point that only the worker sees", row.kernel),
                "umount",
            );
        }
    }
    step(
        "lay out the workload's files, sync, drop the page cache of the machine (as root)".into(),
        "none needed",
    );
    step("warm up, measure".into(), "none needed");
    if plan.trial.trial.fsck
        && let Some((program, arguments)) = arm.row().and_then(|row| row.fsck)
    {
        step(format!("after unmounting: {program} {} (full check)", arguments.join(" ")), "none needed");
    }
    steps
}
