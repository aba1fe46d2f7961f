//! `--dry-run`: every step of a trial in order, with its undo.

use super::{numbers, verdict::rounds_in_words};
use fstrial_model::{
    arm::{Arm, Switch},
    device::{LogDevice, LogKind},
    filesystem::ExternalLog,
    place::PlaceSpec,
    queue::QueueSetting,
    state::Restoring,
    units::Nanos,
    workload::{Phase, Program, Until, Workload},
};
use fstrial_run::{
    forecast::{Forecast, POWER},
    kernels,
    look::Looks,
    numbers::counted,
    place::{
        boot::Boot,
        reach::{self, Reach},
    },
    plan::{Plan, threads_in_words},
    prepared::shared,
    warnings::within_a_period,
};
use fstrial_stack::command::quoted;
use std::fmt::Write;

/// Runs for evidence, after all others.
fn observed(runs: u32) -> String {
    if runs == 0 {
        return String::new();
    }
    format!(
        "\nObserved runs, which are not timed, after the last round\n   1. {} of each arm with a verdict on throughput, observed by \
         eBPF programs\n      undo: as of every run above\n",
        counted(runs, "run")
    )
}

/// Placeholder for the log device before it has a name.
const LOG_NODE: &str = "LOG";

/// Runs for a receipt, before all others.
fn power_cuts(runs: u32) -> String {
    if runs == 0 {
        return String::new();
    }
    format!(
        "\nPower cuts, which are not timed\n   1. {} of each arm under each load that syncs, on a modelled device in memory; its \
         power is cut at many points\n      undo: as of every run below\n",
        counted(runs, "run")
    )
}

/// All steps: the device, each arm, the first round, the repetitions.
pub fn render(
    plan: &Plan,
    reaches: &[Reach],
    precondition: Option<Nanos>,
    pilots: Option<&Looks>,
    forecast: &Forecast,
) -> String {
    let mut out = String::new();
    for place in plan.trial.places.iter().filter(|place| plan.places.contains(&Some(place.name.clone()))) {
        let _ = writeln!(out, "Place {}\n{}\n", place.name, opening(plan, place, reaches));
    }
    if plan.uses_its_device() {
        let _ = writeln!(out, "Device\n{}", device(plan, plan.is_here()));
    }
    if let Some(round) = precondition {
        let _ = writeln!(
            out,
            "   2. write everything on it twice, then random 4 KiB writes in rounds of {round} until five are steady\n      undo: none"
        );
    }
    if let Some(log) = &plan.trial.log_device {
        let _ = writeln!(out, "\nLog device\n{}", log_device(log));
    }
    out += &states(plan);
    out += &pilots.map_or_else(String::new, looked_at);
    out += &power_cuts(plan.trial.trial.receipt);
    for arm in &plan.trial.arms {
        let _ = writeln!(out, "\nEvery run of arm {}", arm.name);
        let place = plan.trial.places.iter().find(|place| Some(&place.name) == arm.place.as_ref());
        let there = place.map_or_else(|| plan.clone(), |place| plan.at(place));
        for (index, (step, undo)) in arm_steps(&there, arm).iter().enumerate() {
            let _ = writeln!(out, "  {:2}. {step}\n      undo: {undo}", index + 1);
        }
    }
    out += &programs(plan);
    let _ = writeln!(out, "\nRound 1 (seed {:#x}; the order is drawn again for every round)", plan.seed);
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
    let all = plan.contrasts.len();
    let _ = writeln!(
        out,
        "\nRounds until {}{} or {} have passed{}.",
        match holding {
            1 => "1 question is decided".to_owned(),
            _ => format!("{holding} questions are decided"),
        },
        settings.rounds.map_or_else(String::new, |most| {
            format!(", {} {} run", rounds_in_words(most as usize), if most == 1 { "was" } else { "were" })
        }),
        settings.budget,
        match all.checked_sub(holding) {
            None | Some(0) => String::new(),
            Some(1) => "; another one is judged with them, but does not extend the trial".to_owned(),
            Some(others) => format!("; {others} others are judged with them, but do not extend the trial"),
        }
    );
    out += &budget(forecast);
    let warnings = plan.workloads.iter().filter_map(within_a_period);
    warnings.for_each(|warning| out += &format!("  warning: {warning}\n"));
    out += &observed(settings.explain);
    out
}

/// The power of the budget, before the device is known.
fn budget(forecast: &Forecast) -> String {
    let (rounds, wait) = (forecast.rounds, numbers::wait);
    let loading = match forecast.loading_seconds {
        seconds if seconds > 0.0 => format!("loading takes about {}, ", wait(seconds)),
        _ => String::new(),
    };
    let mut out = format!(
        "\nAn estimate from the plan alone: {loading}a round takes about {}, {} of it preparation; that makes {}.\n",
        wait(forecast.round_seconds),
        wait(forecast.preparation_seconds),
        rounds_in_words(rounds as usize)
    );
    if let Some(warning) = &forecast.warning {
        let _ = writeln!(out, "  warning, by this estimate: {warning}.");
        return out;
    }
    if forecast.differences.is_empty() {
        return out;
    }
    let _ = writeln!(out, "With {:.0} % power they find a difference of", POWER * 100.0);
    for result in &forecast.differences {
        let percent = |percent: f64| match percent < 9.95 {
            true => format!("{percent:.1} %"),
            false => format!("{percent:.0} %"),
        };
        let difference = result
            .difference_percent
            .map_or_else(|| "no size".into(), |result| format!("{} or more", percent(result)));
        let _ = writeln!(
            out,
            "  {difference}, where equal arms differ by {:.0} % from round to round",
            result.noise_percent
        );
    }
    out
}

/// Preparations before the first round; several loads on the same arms are listed once.
fn states(plan: &Plan) -> String {
    let trial = &plan.trial;
    let mut out = String::new();
    let all = shared(plan);
    for alike in all.chunk_by(|a, b| a.arms == b.arms) {
        let arms: Vec<&str> = alike[0].arms.iter().map(|arm| trial.arms[*arm].name.as_str()).collect();
        let (blank, save) = match trial.trial.restore {
            Restoring::Copy => ("write zeros over the whole device", "copy all nonzero data into the file"),
            Restoring::Clone => {
                ("share the image's blocks with the file, to see that it can", "share them again")
            }
        };
        let loads = || alike.iter().filter_map(|shared| shared.load.as_ref());
        let mut loaded: Vec<String> = loads().map(|load| plan.loaded_workloads(load)).collect();
        loaded.dedup();
        let (times, build, state) = match loads().count() {
            0 => (
                "Once".to_owned(),
                format!("build it as below with mkfs, to see its room; then {blank}, and build it again"),
                match alike[0].state.is_fresh() {
                    true => "leave it as it is, like the other restored states".into(),
                    false => format!("make the state {} in the folder `state`, sync", alike[0].state),
                },
            ),
            count => (
                format!("Once for each of {count} loads"),
                format!("{blank}, build it as below with mkfs"),
                format!("load the data of {}; sync", loaded.join(", or those of ")),
            ),
        };
        let _ = writeln!(out, "\n{times}, for {}", arms.join(", "));
        let steps = [
            (
                "make an unnamed file for the prepared filesystem".to_owned(),
                "it is freed with its last holder",
            ),
            (build, "as below"),
            (format!("{state}; unmount, ask the filesystem's tool about the free space"), "as below"),
            (save.to_owned(), "as the file"),
        ];
        for (index, (step, undo)) in steps.iter().enumerate() {
            let _ = writeln!(out, "  {:2}. {step}\n      undo: {undo}", index + 1);
        }
    }
    out
}

/// Durations of a workload's phases: `1s after 250ms of warm-up`, `write until done, then read until done`.
fn phases(workload: &Workload) -> String {
    let one = |phase: &Phase| {
        let time = match phase.until {
            Until::Time => format!("{} after {} of warm-up", phase.duration, phase.warmup),
            Until::Done => "until done".into(),
        };
        if phase.name.is_empty() { time } else { format!("{} {time}", phase.name) }
    };
    if let Some(timed) = workload.operation() {
        return format!("the operation {}", timed.operation);
    }
    match workload.program() {
        Some(timed) => typed(&timed.program, &timed.program.command),
        None => workload.phases().iter().map(one).collect::<Vec<_>>().join(", then "),
    }
}

/// A command as one would type it: parameters filled in, other placeholders as they are.
fn typed(program: &Program, words: &[String]) -> String {
    let filled = |word: &String| {
        let parameters = program.parameters.iter();
        parameters
            .fold(word.clone(), |word, (name, value)| word.replace(&format!("{{parameter:{name}}}"), value))
    };
    let braces = |word: &String| match word.replace(['{', '}'], "") {
        plain if quoted(&plain) == plain => word.clone(),
        _ => quoted(word),
    };
    words.iter().map(filled).map(|word| braces(&word)).collect::<Vec<_>>().join(" ")
}

/// The commands of programs and their servers, in the order of a run.
fn programs(plan: &Plan) -> String {
    let mut out = String::new();
    for workload in &plan.workloads {
        let Some(program) = workload.program().map(|timed| &timed.program) else { continue };
        let _ = writeln!(out, "\nThe commands of {}, in a separate folder on the arm", workload.name);
        let is_loaded = plan.trial.arms.iter().any(|arm| plan.trial.loads(arm).is_some());
        for (index, step) in program_steps(program, is_loaded).iter().enumerate() {
            let _ = writeln!(out, "  {:2}. {step}", index + 1);
        }
        for (name, file) in &program.attached {
            let digest = file.digest.iter().map(|digest| format!(" ({digest})")).collect::<String>();
            let _ = writeln!(out, "   {{input:{name}}} is {}{digest}", file.file.display());
        }
        for (name, text) in &program.inputs {
            let _ = writeln!(out, "   {{input:{name}}} is");
            for line in text.trim().lines() {
                let _ = writeln!(out, "      {line}");
            }
        }
    }
    out
}

/// `is_loaded`: the loading steps are done once for each load, and not in every run.
fn program_steps(program: &Program, is_loaded: bool) -> Vec<String> {
    let all =
        |commands: &[Vec<String>]| commands.iter().map(|words| typed(program, words)).collect::<Vec<_>>();
    let mut steps = all(&program.prepare);
    if let Some(server) = program.server.as_ref() {
        steps.push(format!("start {}", typed(program, &server.start)));
        steps.extend(all(&server.load));
        steps.push("stop the server".into());
    }
    if is_loaded {
        steps.iter_mut().for_each(|step| step.insert_str(0, "once for each load: "));
    }
    if let Some(server) = program.server.as_ref() {
        steps.push("sync, drop the page cache of the machine (as root), start the server".into());
        steps.push(format!("measured: {}", typed(program, &program.command)));
        steps.extend(all(&server.verify).into_iter().map(|check| format!("check: {check}")));
        steps.push("stop the server".into());
    } else {
        steps.push("sync, drop the page cache of the machine (as root)".into());
        steps.push(format!("measured: {}", typed(program, &program.command)));
    }
    steps
}

/// Longer runs before the first round.
fn looked_at(looks: &Looks) -> String {
    let mut out =
        format!("\nPilot, about {}; its runs do not count\n", numbers::wait(looks.time().as_secs_f64()));
    for (index, cells) in looks.cells.iter().enumerate() {
        let _ = writeln!(
            out,
            "  {:2}. one run of {} of {} in each arm, to find periods and slopes that shorter runs cannot show\n      undo: as of \
             every run below",
            index + 1,
            looks.length,
            looks.title(cells[0])
        );
    }
    out
}

/// Opening of a place.
fn opening(plan: &Plan, place: &PlaceSpec, reaches: &[Reach]) -> String {
    let device = place.device.is_some().then(|| device(&plan.at(place), place.is_here()));
    if place.boot {
        return "   1. nothing: you boot this host that way and pass --as-arm; each round takes one boot per such place".into();
    }
    if place.is_here() {
        return device.unwrap_or_default();
    }
    let which = if device.is_some() { "its device" } else { "the device below" };
    let own = device.map_or_else(String::new, |device| format!("\n{}", device.replacen("1.", "2.", 1)));
    if let Some(kernel) = &place.kernel {
        let (what, undo) = kernels::step(kernel, &Boot::at(plan, place));
        return format!("   1. {what}, which makes {which} there\n      undo: {undo}{own}");
    }
    let command = reach::find(reaches, &place.name)
        .map_or_else(|| format!("the command of --place {}=…", place.name), |reach| format!("`{reach}`"));
    format!(
        "   1. run {command}, which makes {which} in the home of its agent\n      undo: its input ends, and it takes everything \
         down{own}"
    )
}

/// `is_here`: it is made by this command, and not by an agent.
fn device(plan: &Plan, is_here: bool) -> String {
    let mut device = plan.trial.device.clone();
    if !is_here {
        device.path.get_or_insert("the home of the agent".into());
    }
    let (what, undo) = device.making(plan.device_size);
    let undo = undo.map_or(String::new(), |undo| format!("\n      undo: {undo}"));
    format!("   1. {what}{undo}")
}

/// Origin of a run's filesystem: mkfs, or a prepared state.
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

fn log_device(log: &LogDevice) -> String {
    let size = log.size();
    match log.kind {
        LogKind::Image => {
            let folder = log.path.as_ref().map(|path| path.display().to_string());
            let folder = folder.as_deref().unwrap_or("the current folder");
            format!(
                "   1. make an unnamed file of {size} in {folder} and write all of it\n      undo: close it"
            )
        }
        LogKind::Ramdisk => {
            format!("   1. make a file of {size} in memory and write all of it\n      undo: close it")
        }
    }
}

/// Steps on an arm in every run, each with its undo.
#[derive(Default)]
struct Steps(Vec<(String, String)>);

impl Steps {
    fn add(&mut self, what: impl Into<String>, undo: &str) {
        self.0.push((what.into(), undo.to_owned()));
    }
}

fn arm_steps(plan: &Plan, arm: &Arm) -> Vec<(String, String)> {
    let mut steps = Steps::default();
    if arm.is_directory() {
        let path = arm.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        steps.add(format!("make a folder fstrial-run-… in {path}"), "delete it (in the ledger)");
    } else {
        let device = &plan.trial.device;
        let node = device.raid.map_or_else(|| device.kind.node(), |_| "/dev/mdN".into());
        device_steps(plan, arm, &node, &mut steps);
        let node = layer_steps(plan, arm, node, &mut steps);
        filesystem_steps(plan, arm, &node, &mut steps);
    }
    if let Some(limit) = plan.trial.memory_of(arm) {
        steps.add(
            format!("make a control group with {limit} of memory; the following runs in it"),
            "out of the group, which is removed (in the ledger)",
        );
    }
    if plan.workloads.iter().any(|workload| workload.program().is_none()) {
        let files = match plan.trial.loads(arm) {
            Some(_) => "with the loaded data",
            None => "lay out the workload's files",
        };
        let clients = plan.trial.trial.clients;
        if clients > 1 {
            steps.add(
                format!("mpirun starts {clients} clients; each does the following, in {}", folders_of(plan)),
                "they end with the worker",
            );
        }
        steps.add(format!("{files}: sync, drop the page cache of the machine (as root)"), "none needed");
        let together = if clients > 1 { "wait for each other at a barrier; " } else { "" };
        steps.add(format!("{together}warm up, measure"), "none needed");
    }
    if plan.workloads.iter().any(|workload| workload.program().is_some()) {
        steps.add("run the commands of the workload, listed below", "their processes end with the worker");
    }
    if plan.trial.trial.fsck
        && let Some((program, arguments)) = arm.row().and_then(|row| row.fsck)
    {
        let mut words: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        words.extend(external_log(arm).map(|kind| kind.check_words(LOG_NODE)).into_iter().flatten());
        steps.add(format!("after unmounting: {program} {} (full check)", words.join(" ")), "none needed");
    }
    steps.0
}

/// The folders that clients work in.
fn folders_of(plan: &Plan) -> &'static str {
    let mut phases = plan.workloads.iter().flat_map(|workload| workload.phases());
    let is_shared = phases.clone().any(|phase| phase.one_folder);
    match (is_shared, phases.all(|phase| phase.one_folder)) {
        (true, true) => "one folder (all)",
        (true, false) => "one folder (all), or one each (client-0 …), as the workload has it",
        (false, _) => "a folder each (client-0 …)",
    }
}

/// The options of an arm's external log, if it has one.
fn external_log(arm: &Arm) -> Option<ExternalLog> {
    arm.row().and_then(|row| row.external_log.ok()).filter(|_| arm.log.is_some())
}

/// The worker, the device and its queue.
fn device_steps(plan: &Plan, arm: &Arm, node: &str, steps: &mut Steps) {
    let arm = &plan.trial.built(arm);
    steps.add(
        "start a worker in private mount and process namespaces",
        "the worker ends; the kernel unmounts and detaches the leftovers",
    );
    if plan.trial.device.kind.is_looped() {
        steps.add(
            match plan.trial.device.members {
                Some(_) => "add a loop device for each member, with direct I/O and discards switched off",
                None => "add a loop device, attach the file to it with direct I/O, switch discards off on it",
            },
            "detached by the kernel at the last close; the device is removed (in the ledger)",
        );
    }
    if let (Some(raid), Some(members)) = (plan.trial.device.raid, plan.trial.device.members) {
        steps.add(
            format!("mdadm --create {node} --run: {raid} of the {members} members"),
            "mdadm --stop (in the ledger)",
        );
    }
    if arm.discard == Some(Switch::On) {
        steps.add(format!("make sure that {node} takes discards"), "none needed");
    }
    for QueueSetting { words, requested, .. } in arm.queue_settings() {
        steps.add(format!("set the {words} of {node} to {requested}"), "the value before (in the ledger)");
    }
}

/// The volume of a layer, and the node on which the filesystem is made then.
fn layer_steps(plan: &Plan, arm: &Arm, node: String, steps: &mut Steps) -> String {
    let Some(layer) = arm.layer else { return node };
    let tool = layer.tool();
    for words in layer.words(&node, "fstrial_…", plan.device_size) {
        let words = words.iter().filter(|word| !word.starts_with("--config="));
        let words: Vec<&str> = words.map(String::as_str).collect();
        steps.add(format!("{} {}", tool.program, words.join(" ")), "dmsetup remove (in the ledger)");
    }
    "/dev/dm-N".into()
}

/// The log, mkfs and mount.
fn filesystem_steps(plan: &Plan, arm: &Arm, node: &str, steps: &mut Steps) {
    let Some(row) = arm.row() else { return };
    let checked = arm.checked().expect("a planned arm has no problem");
    let mut arguments = checked.mkfs_arguments();
    let log = external_log(arm);
    if let Some(kind) = log {
        steps.add(format!("attach the log device as {LOG_NODE}"), "detached by the kernel at the last close");
        if let Some((program, words)) = kind.made_by {
            let words = format!("{program} {} (the filesystem's block size)", words.join(" "));
            steps.add(format!("{words} {LOG_NODE}"), "not needed: the device belongs to the trial");
        }
        arguments.extend(kind.mkfs_words(LOG_NODE));
    }
    let profile = arm.profile.and_then(|profile| Some(row.several?.mkfs_words(profile)));
    arguments.extend(profile.into_iter().flatten());
    let device = &plan.trial.device;
    let further = device.members.filter(|_| device.raid.is_none()).unwrap_or(1);
    let all = (1..further).fold(node.to_owned(), |all, _| format!("{all} {node}"));
    let mkfs = format!("{} {}", row.mkfs, arguments.join(" "));
    steps.add(making(plan, &mkfs, &all), "not needed: the device belongs to the trial");
    let mut options = arm.mount_options();
    options.extend((1..further).map(|_| format!("device={node}")));
    options.extend(log.map(|kind| kind.mount_option(LOG_NODE)));
    let options = options.join(",");
    let options = if options.is_empty() { String::new() } else { format!(" -o {options}") };
    steps.add(
        format!("mount -t {}{options} {node} on a mount point that only the worker sees", row.kernel),
        "umount",
    );
}
