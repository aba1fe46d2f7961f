//! `fstrial compare`: a trial from flags.

use super::{
    Home,
    conduct::{self, ConductArgs},
    fit,
    lacking::Set,
    observed, out_file, receipts,
    scheduler::Where,
    workloads::{self, Named},
};
use clap::Args;
use fstrial_model::{
    application::Application,
    arm::{Arm, ArmError, DIRECTORY},
    device::{Device, DeviceKind},
    device_model::MODELS,
    fio::Inspection,
    metric::Metric,
    place::PlaceSpec,
    preset::DEFAULT_WORKLOADS,
    problem::{Problem, closest, did_you_mean},
    state::State,
    trial::{Settings, Trial, can_run},
    units::{Nanos, Percent},
    workload::{Entry, KeyValueEngine, RateTarget},
};
use fstrial_run::{
    environment,
    error::ExpectedError,
    exit_code,
    kernels::{Kernel, Kernels},
    kvm,
    look::LOOK,
    place::reach,
};
use std::path::{Path, PathBuf};

/// True if a guest with this kernel can use KVM. If a new check fails, prints the reason.
fn has_kvm(home: &Path, kernel: &Kernel) -> bool {
    let mut was_tried = false;
    let mut tell = |line: &str| {
        was_tried = true;
        super::say(&format!("{line}\n"));
    };
    let problem = kvm::problem(home, kernel, &mut tell).unwrap_or_else(|error| Some(error.to_string()));
    if let Some(problem) = problem.as_ref().filter(|_| was_tried) {
        super::say(&format!("guests cannot use KVM, so their processors are emulated: {problem}\n"));
    }
    problem.is_none()
}

/// The error for a name that is neither a kernel nor a place given by `--place`.
fn unknown_place(name: &str, kernels: &Kernels) -> ExpectedError {
    let names = kernels.names();
    let near = did_you_mean(name, names.iter().map(String::as_str)).unwrap_or_default();
    ExpectedError::usage(
        format!("`{name}` is neither a kernel nor a place"),
        format!(
            "{near} kernels: {} (`fstrial kernels`); to reach a place: --place {name}='ssh -o BatchMode=yes HOST fstrial agent'; \
             if {name} is a boot of this host: --as-arm",
            names.join(", ")
        )
        .trim_start(),
    )
}

const EXAMPLES: &str = "\
Examples:
  fstrial compare ext4 xfs btrfs
  fstrial compare ext4 xfs:agcount=16,noatime --workload random-write --threads 1,4,16 --device ramdisk
  fstrial compare ext4 xfs --workload postgresql-tpcb --threads 8 --device gp3      the server itself
  fstrial compare a=ext4 b=ext4 --workload create-files      a filesystem against itself: the noise
  fstrial compare raw ext4 xfs --device disk --erase /dev/disk/by-id/nvme-…
  fstrial compare ext4@old ext4@new --as-arm old --device disk --erase /dev/disk/by-id/nvme-…      two kernels, by booting
  fstrial compare dir:/srv/a dir:/srv/b                      existing directories: no root needed
  fstrial compare dir:/mnt/lustre dir:/mnt/nfs --clients 16 --on slurm      by 16 clients
  fstrial compare ext4 xfs nb=ext4:barrier=0 -w append-fsync --receipt      speed, and the writes lost in power cuts
  fstrial compare ext4 xfs --state aged:70% --find-rate 'p99<5ms'
  fstrial compare ext4 xfs --save - --dry-run > trial.toml";

/// Compare storage configurations, rebuilding each for every run in random order until the faster one is known.
///
/// An arm is [NAME=]FILESYSTEM[:OPTION,…]. mkfs options keep their names (xfs:agcount=16); an option that starts with - is
/// passed to mkfs unchanged (xfs:-m reflink=0). scheduler=, nr_requests=, rotational=, read_ahead=, cache= and discard= set up
/// the device queue; log=external puts the log on the log device (--set log_device.kind=image); lvm, thin and crypt add a
/// device-mapper volume below the filesystem (in guests); state= sets the initial contents (state=aged:70%); memory= limits the
/// memory of the load and its page cache. All other options are mount options (noatime). `raw` is the device without a
/// filesystem, `dir:PATH` an existing directory, which needs no root. FILESYSTEM@PLACE runs on another host (--place),
/// FILESYSTEM@KERNEL in a guest with a kernel of `fstrial kernels`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct CompareArgs {
    /// Configurations, such as ext4 or fast=xfs:agcount=16,noatime.
    #[arg(required = true, num_args = 1.., value_name = "ARM", value_parser = arm, add = super::complete::arms())]
    arms: Vec<Arm>,

    /// Workload: a preset, an application with all its presets (postgresql, git, …), a file (.toml) or a fio job (.fio); see
    /// `fstrial workloads` [default: random-write, append-fsync, create-files].
    #[arg(short, long = "workload", value_name = "NAME", value_delimiter = ',', add = super::complete::workloads())]
    workloads: Vec<String>,

    /// Numbers of threads [default: 1 and all processors].
    #[arg(short, long, value_name = "N,…", value_delimiter = ',', value_parser = threads)]
    threads: Option<Vec<u16>>,

    /// Device: image[:FOLDER], ramdisk, a model such as gp3 (`fstrial device list`), disk or directory; every arm runs on
    /// each [default: image].
    #[arg(short, long = "device", value_name = "KIND", add = super::complete::devices())]
    devices: Vec<String>,

    /// Wall time limit; the trial stops early once everything is decided [default: 5m, up to 12m if the first verdict
    /// needs it; 1d with --rounds].
    #[arg(short, long, value_name = "TIME")]
    budget: Option<Nanos>,

    /// Run even if the budget is too short for a verdict.
    #[arg(long, hide_short_help = true)]
    anyway: bool,

    /// First answer within 3 minutes: skip levels and workloads that do not fit; runs keep their length.
    #[arg(long)]
    quick: bool,

    /// Smallest difference that matters [default: 3%].
    #[arg(long, value_name = "PERCENT")]
    practical: Option<Percent>,

    /// Compare all arms (or workloads) with this one only [default: all pairs].
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,

    #[arg(long, value_name = "METRIC,…", value_delimiter = ',', value_parser = metric, help = decide_on_help())]
    decide_on: Option<Vec<Metric>>,

    /// Maximum number of rounds.
    #[arg(long, value_name = "N", hide_short_help = true)]
    rounds: Option<u32>,

    /// Measured time of each run [default: 1s; buffered writes 10s].
    #[arg(long, value_name = "TIME")]
    duration: Option<Nanos>,

    /// Run the load on N MPI clients that share the directories.
    #[arg(long, value_name = "N", hide_short_help = true)]
    clients: Option<u16>,

    /// Start the clients through slurm, optionally followed by salloc options [default: mpirun's placement].
    #[arg(long, value_name = "SCHEDULER", hide_short_help = true)]
    on: Option<Where>,

    /// Find and compare the highest rates within a latency limit, such as 'p99<5ms' ('redo p99<5ms' for one group of
    /// threads), at the highest number of threads unless --threads is given.
    #[arg(long, value_name = "PROMISE", hide_short_help = true)]
    find_rate: Option<RateTarget>,

    #[arg(long, value_name = "ENGINE", hide_short_help = true, value_parser = engine, help = engine_help())]
    engine: Option<KeyValueEngine>,

    /// Initial contents of arms without state=: fresh, filled:80%, aged:70%, aged:70%:0.9 (layout score), populated:20000,
    /// loaded:3 (the workload's data) [default: fresh].
    #[arg(long, value_name = "STATE")]
    state: Option<State>,

    /// Cut the power in this many runs of each arm first, and report the acknowledged writes lost, see `fstrial durability`
    /// [default: none; without a number 20].
    #[arg(long, value_name = "RUNS", num_args = 0..=1, require_equals = true, default_missing_value = receipts::RUNS, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    receipt: Option<u32>,

    /// Observe this many rounds after the last one, and name the causes of the verdicts, see `fstrial explain` [default: none; without
    /// a number 8].
    #[arg(long, value_name = "ROUNDS", num_args = 0..=1, require_equals = true, default_missing_value = observed::ROUNDS, value_parser = clap::value_parser!(u32).range(8..=1000))]
    explain: Option<u32>,

    /// Random seed.
    #[arg(long, hide_short_help = true, value_parser = super::conduct::seed)]
    seed: Option<u64>,

    /// Set a key of a trial file (repeatable): trial.memory=1GiB, device.members=4, workload.rate=5000/s …
    #[arg(long = "set", value_name = "KEY=VALUE")]
    lines: Vec<set::SetFlag>,

    /// Write the trial file for `fstrial run`; with --dry-run, - prints it instead of the steps.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    #[arg(long, requires = "save", help = out_file::FORCE, hide_short_help = true)]
    force: bool,

    #[command(flatten)]
    conduct: ConductArgs,

    #[command(flatten)]
    home: Home,
}

/// Parses an arm. Appends the hint to the message, because clap shows only one text.
pub(super) fn arm(text: &str) -> Result<Arm, String> {
    let words: Vec<&str> = text.split([',', ' ']).filter(|word| !word.is_empty()).collect();
    text.parse().map_err(|error: ArmError| match error.hint {
        _ if words.len() > 1 && words.iter().all(|word| word.parse::<Arm>().is_ok()) => {
            format!("{}; separate arms by spaces: {}", error.problem, words.join(" "))
        }
        _ if text.contains('/') && !text.contains(':') || Path::new(text).is_dir() => {
            format!("{}; an existing directory is written {DIRECTORY}:{text}", error.problem)
        }
        Some(hint) => format!("{}; {hint}", error.problem),
        None => error.problem,
    })
}

/// Parses a number of threads.
fn threads(text: &str) -> Result<u16, String> {
    let number = text.trim().parse().ok().filter(|number| (1..=1024).contains(number));
    number.ok_or_else(|| "numbers of threads are 1 to 1024, such as --threads 1,4,16".into())
}

fn decide_on_help() -> String {
    format!("Metrics to decide on: {} [default: throughput]", Metric::names())
}

pub(crate) fn metric(text: &str) -> Result<Metric, String> {
    Metric::of_name(text).ok_or_else(|| format!("use one of {}", Metric::names()))
}

fn engine(text: &str) -> Result<KeyValueEngine, String> {
    KeyValueEngine::named(text).ok_or_else(|| format!("use one of {}", KeyValueEngine::names()))
}

fn engine_help() -> String {
    format!("Storage engine of YCSB workloads: {} [default: as in the workload]", KeyValueEngine::names())
}

pub(crate) fn exec(args: &mut CompareArgs) -> Result<u8, ExpectedError> {
    let mut trial = args.trial()?;
    args.check(&trial)?;
    if args.on.is_some() && trial.trial.clients == 1 {
        return Err(ExpectedError::usage(
            "--on needs several clients in each run (--clients)",
            "for a trial on each of many hosts: --save trial.toml, then fstrial run trial.toml --on slurm --hosts N",
        ));
    }
    // Checked first, because booting a guest takes seconds.
    if trial.places.iter().any(|place| place.kvm) {
        args.try_kvm(&mut trial)?;
        args.check(&trial)?;
    }
    // With --as-arm the budget is for one boot, which runs only part of a round.
    let has_budget = args.rounds.is_none() && args.conduct.as_arm.is_none();
    if has_budget {
        let is_free = args.budget.is_none() && !args.quick;
        args.conduct.notes.extend(fit::fit(&mut trial, args.names_workloads(), is_free)?);
        args.conduct.longest = is_free.then_some(fit::LONGEST);
    }
    if let Some(on) = args.on.as_ref().filter(|_| !args.conduct.is_dry_run()) {
        on.allocate(trial.trial.clients)?;
    }
    let checked = if has_budget && !args.anyway { fit::check(&trial) } else { Ok(()) };
    match checked {
        Err(refused) if args.conduct.is_dry_run() => {
            args.conduct.notes.iter().for_each(|note| args.note(note));
            args.note(&format!("without --dry-run this is refused: {refused}"));
        }
        // Omissions of a trial that does not run are irrelevant.
        checked => {
            checked?;
            args.conduct.notes.iter().for_each(|note| args.note(note));
        }
    }
    if let Some(path) = &args.save {
        args.save(path, &trial)?;
        if out_file::is_standard_output(path) {
            return Ok(exit_code::VERDICT);
        }
    }
    conduct::conduct(&trial, &args.conduct, &args.home, None)
}

/// Names the workload with the problem, if there are several: there is no file to underline it in.
fn with_the_workload(trial: &Trial, problem: Problem) -> Problem {
    let index = match problem.path.as_slice() {
        [section, index, _, ..] if section == "workload" => index.parse::<usize>().ok(),
        _ => None,
    };
    let entry = index.and_then(|index| trial.workloads.get(index)).filter(|_| trial.workloads.len() > 1);
    let name = entry.and_then(|entry| entry.name.as_ref().or(entry.preset.as_ref()));
    match name.filter(|name| !problem.message.contains(name.as_str())) {
        Some(name) => Problem { message: format!("{name}: {}", problem.message), ..problem },
        None => problem,
    }
}

impl CompareArgs {
    /// Refuses a trial that cannot be planned.
    fn check(&self, trial: &Trial) -> Result<(), ExpectedError> {
        match trial.problem() {
            Some(problem) => Err(with_the_workload(trial, problem).into()),
            None => self.refuse_short_runs(trial),
        }
    }

    /// Turns KVM off for guests that cannot use it.
    fn try_kvm(&self, trial: &mut Trial) -> Result<(), ExpectedError> {
        let home = self.home.folder()?;
        let kernels = Kernels::of_home(&home);
        for place in trial.places.iter_mut().filter(|place| place.kvm) {
            place.kvm = match kernels.required(place.kernel.as_deref().unwrap_or_default()) {
                // A dry run lists missing requirements at the end.
                Err(_) if self.conduct.is_dry_run() => false,
                kernel => has_kvm(&home, &kernel?),
            };
        }
        Ok(())
    }

    /// Refuses a `--duration` below two periods of a workload. A trial file may set it: the answer then warns.
    fn refuse_short_runs(&self, trial: &Trial) -> Result<(), ExpectedError> {
        let Some(duration) = self.duration else { return Ok(()) };
        for workload in trial.workloads.iter().filter_map(|entry| entry.resolve(1).ok()) {
            if let Some(short) = workload.too_short().find(|short| short.duration == duration) {
                return Err(ExpectedError::usage(
                    format!(
                        "runs of {duration} are shorter than two periods of {} ({})",
                        workload.name, short.period
                    ),
                    format!("use --duration {} or more, or leave it out", short.least),
                ));
            }
        }
        Ok(())
    }

    /// True if no workload may be dropped to fit the budget: they were named individually, without `--quick`.
    fn names_workloads(&self) -> bool {
        let is_set = |word: &String| workloads::set_of(word).is_some();
        !self.quick && !self.workloads.is_empty() && !self.workloads.iter().all(is_set)
    }

    /// Prints the choice of the trial, unless progress is off.
    fn note(&self, text: &str) {
        if !self.conduct.is_quiet() {
            super::say(&format!("{text}\n"));
        }
    }

    /// Writes the trial as a file; a dry run only announces it.
    fn save(&self, path: &Path, trial: &Trial) -> Result<(), ExpectedError> {
        let is_dry = self.conduct.is_dry_run();
        if out_file::is_standard_output(path) && !is_dry {
            return Err(ExpectedError::usage(
                "--save - and the answer would both go to standard output",
                "add --dry-run, which measures nothing, or name a file",
            ));
        }
        let settled = trial.settled(environment::cpus())?;
        // The presets stay named, for readers; the levels are written out, for other machines.
        let mut saved = trial.clone();
        for (entry, settled) in saved.workloads.iter_mut().zip(&settled.trial().workloads) {
            entry.threads.clone_from(&settled.threads);
        }
        if is_dry && !out_file::is_standard_output(path) {
            out_file::check(path, self.force)?;
            super::say(&format!("would write {}\n", path.display()));
            return Ok(());
        }
        out_file::write(path, saved.to_toml().as_bytes(), self.force)
    }
}

impl CompareArgs {
    /// The trial that the flags describe, before its guests are checked for KVM.
    fn trial(&self) -> Result<Trial, ExpectedError> {
        let defaults = Settings::default();
        let budget = match self.rounds {
            _ if self.quick => Nanos::secs(180),
            // They are the limit.
            Some(_) => Nanos::secs(86_400),
            None => defaults.budget,
        };
        let names: Vec<&str> = self.arms.iter().map(|arm| arm.name.as_str()).collect();
        let (device, places, arms) = self.device_places_arms()?;
        let has_default_length = self.duration.is_none() && self.rounds.is_none() && !self.quick;
        let trial = Trial {
            claim: None,
            trial: Settings {
                name: names.join(", "),
                budget: self.budget.unwrap_or(budget),
                practical: self.practical.unwrap_or(defaults.practical),
                baseline: self.baseline.clone(),
                decide_on: self.decide_on.clone().unwrap_or(defaults.decide_on),
                leads: self.devices.len() > 1,
                pilot: has_default_length.then_some(LOOK),
                rounds: self.rounds,
                seed: self.seed,
                state: self.state,
                receipt: self.receipt.unwrap_or_default(),
                explain: self.explain.unwrap_or_default(),
                clients: self.clients.unwrap_or(defaults.clients),
                ..Settings::default()
            },
            device,
            log_device: None,
            places,
            arms,
            workloads: self.entries()?,
        };
        set::over(trial, &self.lines)
    }

    /// The device of the trial, its places and its arms. With several devices, each becomes a place, where every arm
    /// is built.
    fn device_places_arms(&self) -> Result<(Device, Vec<PlaceSpec>, Vec<Arm>), ExpectedError> {
        self.refuse_unused_places()?;
        let is_directories = self.arms.iter().all(|arm| arm.filesystem == DIRECTORY);
        let default = if is_directories { "directory" } else { "image" };
        let [_, _, ..] = self.devices.as_slice() else {
            let device = self.device(self.devices.first().map_or(default, String::as_str))?;
            // With --place an unknown name may be a typo; the check of the trial reports it.
            let kernels = Kernels::of_home(&self.home.folder()?);
            let mut places: Vec<PlaceSpec> =
                self.conduct.places.iter().map(|reach| PlaceSpec::elsewhere(reach.place())).collect();
            for name in self.arms.iter().filter_map(|arm| arm.place.as_deref()) {
                if places.iter().any(|place| place.name == name) {
                    continue;
                }
                if self.conduct.as_arm.is_some() {
                    places.push(PlaceSpec::boot(name));
                } else if kernels.knows(name) {
                    places.push(PlaceSpec { kvm: true, ..PlaceSpec::guest(name) });
                } else if self.conduct.places.is_empty() {
                    return Err(unknown_place(name, &kernels));
                }
            }
            return Ok((device, places, self.arms.clone()));
        };
        if let Some(arm) = self.arms.iter().find(|arm| arm.place.is_some()) {
            return Err(ExpectedError::usage(
                format!("`{}` names a place, which cannot be combined with several --device", arm.name),
                "write a trial file with [[place]]s that have agent = true and a device",
            ));
        }
        let (mut places, mut arms): (Vec<PlaceSpec>, Vec<Arm>) = (Vec::new(), Vec::new());
        for text in &self.devices {
            // The distinguishing word of model:nvme, ramdisk and image:/srv.
            let word = text.strip_prefix("model:").unwrap_or_else(|| text.split(':').next().unwrap_or(text));
            let name: String =
                word.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
            places.push(PlaceSpec { device: Some(self.device(text)?), ..PlaceSpec::elsewhere(&name) });
        }
        for (place, arm) in places.iter().flat_map(|place| self.arms.iter().map(move |arm| (place, arm))) {
            let name = format!("{} {}", arm.name, place.name);
            arms.push(Arm { name, place: Some(place.name.clone()), ..arm.clone() });
        }
        Ok((self.device(&self.devices[0])?, places, arms))
    }

    /// Refuses a command for a place without arms.
    fn refuse_unused_places(&self) -> Result<(), ExpectedError> {
        let names = || self.arms.iter().filter_map(|arm| arm.place.as_deref());
        let mut places = self.conduct.places.iter().map(reach::Reach::place);
        let Some(unused) = places.find(|place| !names().any(|name| name == *place)) else { return Ok(()) };
        let hint = did_you_mean(unused, names())
            .unwrap_or_else(|| format!("build an arm there: {}@{unused}", self.arms[0].filesystem));
        Err(ExpectedError::usage(format!("no arm is at the place `{unused}`"), hint))
    }

    /// A device of the flags.
    fn device(&self, text: &str) -> Result<Device, ExpectedError> {
        device_of(text, self.conduct.permission().erase)
    }

    /// The workloads, with the flags applied.
    fn entries(&self) -> Result<Vec<Entry>, ExpectedError> {
        if self.workloads.is_empty() {
            return self.on_engine(self.default_workloads());
        }
        let mut entries: Vec<Entry> = Vec::new();
        for word in &self.workloads {
            let named = match workloads::named(word)? {
                Named::Job { file, inspection } => vec![self.job(&file, inspection)?],
                Named::Written { entry, .. } => vec![self.over(*entry)],
                Named::Set(application) => self.set(application),
            };
            // A preset may belong to two applications, or also be named by itself.
            for entry in named {
                if !entries.contains(&entry) {
                    entries.push(entry);
                }
            }
        }
        self.on_engine(entries)
    }

    /// Sets the engine of `--engine` in the YCSB workloads.
    fn on_engine(&self, entries: Vec<Entry>) -> Result<Vec<Entry>, ExpectedError> {
        let Some(engine) = self.engine else { return Ok(entries) };
        let result: Vec<Option<Entry>> = entries.iter().map(|entry| entry.on_engine(engine)).collect();
        if result.iter().all(Option::is_none) {
            return Err(ExpectedError::usage(
                format!("--engine {engine}: none of the workloads has an engine"),
                "name one that has: -w ycsb-a",
            ));
        }
        Ok(entries.into_iter().zip(result).map(|(plain, result)| result.unwrap_or(plain)).collect())
    }

    /// The default workloads that at least two arms (or the only one) support. Reports the omitted ones.
    fn default_workloads(&self) -> Vec<Entry> {
        let is_able = |name: &&str| {
            let Ok(workload) = Entry::of_preset(name).resolve(1) else { return true };
            self.arms.iter().filter(|arm| can_run(arm, &workload)).count() >= self.arms.len().min(2)
        };
        let (able, left_out): (Vec<&str>, Vec<&str>) = DEFAULT_WORKLOADS.into_iter().partition(is_able);
        if !left_out.is_empty() {
            let left_out = left_out.join(", ");
            self.note(&format!(
                "skipped {left_out}: the bare device (raw) has no files; choose others with --workload"
            ));
        }
        able.into_iter().map(|name| self.over(Entry::of_preset(name))).collect()
    }

    /// The presets of an application; reports them.
    fn set(&self, application: &Application) -> Vec<Entry> {
        let Set { presets, others, lacks } = Set::of(application);
        self.note(&format!("{}: {}", application.name(), presets.join(", ")));
        if let Some(reason) = lacks {
            self.note(&format!("they replace {}: {reason}", others.join(", ")));
        } else if !others.is_empty() {
            self.note(&format!("I/O pattern only: --workload {}", others.join(",")));
        }
        if let servers @ [_, ..] = application.servers().as_slice() {
            self.note(&format!("the server itself: --workload {}", servers.join(" or ")));
        }
        application.server_hint().iter().for_each(|line| self.note(line));
        presets.into_iter().map(|name| self.over(Entry::of_preset(name))).collect()
    }

    /// The workload of a fio job file. Refuses flags that the job file sets.
    fn job(&self, file: &Path, mut inspection: Inspection) -> Result<Entry, ExpectedError> {
        let flags = [
            ("--threads", self.threads.is_some()),
            ("--find-rate", self.find_rate.is_some()),
            ("--set workload.…", self.lines.iter().any(set::SetFlag::is_of_a_workload)),
        ];
        if let Some((flag, _)) = flags.iter().find(|(_, given)| *given) {
            return Err(ExpectedError::usage(
                format!(
                    "{flag} cannot be combined with the fio job file {}, which sets this itself",
                    file.display()
                ),
                "change the job file (numjobs, ramp_time, size, bs, rate_iops), or the workload that it becomes: \
                 fstrial workloads show FILE --toml",
            ));
        }
        if let (Some(duration), Ok(understanding)) = (self.duration, &mut inspection.outcome) {
            let Some(before) = understanding.jobs.replace_runtime(duration) else {
                return Err(ExpectedError::usage(
                    format!("--duration cannot set the time of the fio job file {}", file.display()),
                    "it replaces a runtime= common to all jobs that start immediately: write the same runtime= into \
                     each, and no stonewall, ramp_time, loops or startdelay; or leave --duration out",
                ));
            };
            self.note(&format!("{}: runtime={duration} instead of {before}", file.display()));
        }
        workloads::entry_of_job(file, inspection)
    }

    fn over(&self, entry: Entry) -> Entry {
        // In a rate search the threads only serve the requests: one thread count suffices.
        let threads = self.find_rate.as_ref().and_then(|_| highest_level(&entry)).or(entry.threads);
        Entry {
            threads: self.threads.clone().or(threads),
            duration: self.duration.or(entry.duration),
            find_rate: self.find_rate.clone().or(entry.find_rate),
            ..entry
        }
    }
}

/// The device that a flag names: `image:/some/folder`, `model:NAME`, or `disk` with the path of `--erase`.
pub(super) fn device_of(text: &str, erase: Option<PathBuf>) -> Result<Device, ExpectedError> {
    let (word, rest) = match text.split_once(':') {
        Some((word, rest)) => (word, Some(rest)),
        None => (text, None),
    };
    let Some(kind) = DeviceKind::named(word) else {
        return match find_model(text) {
            Some(name) => device_of(&format!("model:{name}"), erase),
            None => Err(ExpectedError::usage(format!("unknown device `{word}`"), hint_for_device(text))),
        };
    };
    if kind.is_modelled() {
        let named = rest.map(|name| find_model(name).unwrap_or(name));
        let model = named.map(super::device::choice).transpose()?;
        return Ok(Device { model, ..Device::of(kind) });
    }
    let erased = erase.filter(|_| kind.is_erased());
    let path = rest.map(PathBuf::from).or(erased);
    if kind.is_erased() && path.is_none() {
        return Err(ExpectedError::usage(
            "--device disk needs --erase: every run erases the whole disk",
            "add --erase /dev/disk/by-id/… with the whole device, named in full",
        ));
    }
    Ok(Device { path, ..Device::of(kind) })
}

/// The highest thread count of an entry, as its only one.
fn highest_level(entry: &Entry) -> Option<Vec<u16>> {
    let workload = entry.resolve(environment::cpus()).ok()?;
    workload.threads.last().map(|most| vec![*most])
}

/// The built-in model with this name, or the only one whose name starts with it and a hyphen (`gp3` for `gp3-3000`).
fn find_model(word: &str) -> Option<&'static str> {
    let names = || MODELS.iter().map(|(name, _)| *name);
    let mut begun = names().filter(|name| name.strip_prefix(word).is_some_and(|rest| rest.starts_with('-')));
    let only = begun.next().filter(|_| begun.next().is_none());
    names().find(|name| *name == word).or(only)
}

/// The remedy for an unknown device: paths need `disk`; misspelt kinds and models get a suggestion.
fn hint_for_device(text: &str) -> String {
    // A model may be named by its beginning.
    let begun = MODELS.iter().filter_map(|(name, _)| Some(name.split_once('-')?.0));
    let model = closest(text, MODELS.iter().map(|(name, _)| *name).chain(begun));
    if Path::new(text).is_absolute() {
        return format!("to use the whole disk, which every run erases: --device disk --erase {text}");
    }
    did_you_mean(text, DeviceKind::ALL.map(DeviceKind::name))
        .or_else(|| model.map(|name| format!("did you mean `{name}`?")))
        .unwrap_or_else(|| format!("use one of {}, or a model (`fstrial device list`)", DeviceKind::names()))
}

pub(super) mod set;
#[cfg(test)]
mod tests;
