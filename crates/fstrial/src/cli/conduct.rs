//! Conducting a trial, for `compare` and `run`: the store, the device, the listeners, the coordinator, the answer.

use super::{Home, pages};
use crate::{
    error::ExpectedError,
    exit_code,
    report::{
        again,
        document::Document,
        json_lines::{self, JsonLines},
        numbers,
        page::TrialPage,
        plain, steps, table,
        watch::listener::Display,
    },
    run::{
        bases::Bases,
        clock::{Clock, MachineClock},
        contrast::Outcome,
        coordinator::{Context, Coordinator, Finished, Reason},
        environment::{self, Environment},
        event::{Event, Listener, Listeners},
        modelled,
        place::{ChildPlace, Interrupt},
        plan::Plan,
        precondition::{self, Step},
        recorder::Recorder,
        round::Earlier,
        stored,
    },
};
use clap::{Args, ValueEnum};
use fstrial_model::{
    device::{DeviceKind, ThrottledBy},
    filesystem::Filesystem,
    job::{DeviceBinding, Setup},
    metric::Metric,
    trial::Trial,
    units::{Bytes, Nanos},
};
use fstrial_stack::{
    StackError, command,
    device::{self, Device, Permission},
    host,
    ledger::Ledger,
    throttle,
};
use fstrial_store::{MAX_TAGS, NewTrial, Session, Store, StoredTrial, TrialId, TrialStatus};
use std::{ops::ControlFlow, path::PathBuf};

/// The note about a disk that was preconditioned, and the time it took.
type Preconditioned = (String, Nanos);

/// Flags that `compare` and `run` share.
#[derive(Debug, Args)]
pub(crate) struct ConductArgs {
    /// The whole device that every run may erase, named in full (with --device disk).
    #[arg(long, value_name = "DEVICE")]
    erase: Option<PathBuf>,

    /// A signature on it that may be erased too, by its type (ext4, gpt …).
    #[arg(long, value_name = "TYPE", hide_short_help = true)]
    erase_signature: Vec<String>,

    /// Folder for prepared filesystems (--state) [default: the image's folder, else the home folder].
    #[arg(long, value_name = "FOLDER", hide_short_help = true)]
    state_dir: Option<PathBuf>,
    /// Write to the disk until it is in SNIA's steady state before the trial begins, in rounds of this time (with --device
    /// disk) [default: 1m, which the specification asks for].
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1m",
        hide_short_help = true
    )]
    precondition: Option<Nanos>,

    /// Print every step in order with its undo, and do nothing.
    #[arg(long)]
    dry_run: bool,

    /// Events as JSON lines, and last the document with the answer, on standard output.
    #[arg(long)]
    json: bool,

    /// No progress.
    #[arg(short, long)]
    quiet: bool,

    /// Leave no page in HOME/reports at the end.
    #[arg(long, hide_short_help = true)]
    no_page: bool,

    /// Watch it on the whole terminal: curves and intervals as they come; q leaves the view, not the trial.
    #[arg(long, conflicts_with_all = ["json", "quiet", "dry_run"])]
    watch: bool,

    /// Exit with 4 if a decided throughput contrast is so.
    #[arg(long, value_enum, value_name = "VERDICT", hide_short_help = true)]
    fail_if: Option<FailIf>,

    /// A word to find the trial by later, such as nightly (repeatable); `fstrial results tag` changes them.
    #[arg(long = "tag", value_name = "TAG", hide_short_help = true, value_parser = super::filter::tag)]
    tags: Vec<String>,
}

/// What makes `--fail-if` end with its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailIf {
    /// An arm is slower than the one it is compared with.
    Slower,
    /// An arm is faster than the one it is compared with.
    Faster,
    /// Either of them.
    Different,
}

impl ConductArgs {
    /// For a trial among others: only what may be erased, and whether there is progress.
    pub(crate) fn of(permission: Permission, quiet: bool) -> Self {
        Self {
            erase: permission.erase,
            erase_signature: permission.erase_signatures,
            state_dir: None,
            precondition: None,
            dry_run: false,
            json: false,
            quiet,
            no_page: true,
            watch: false,
            fail_if: None,
            tags: Vec::new(),
        }
    }

    /// Refuses flags that would do nothing for this trial: whoever gives them means something else.
    fn check(&self, trial: &Trial) -> Result<(), ExpectedError> {
        only_for_disks(
            trial.device.kind,
            &[
                ("--erase", self.erase.is_some()),
                ("--erase-signature", !self.erase_signature.is_empty()),
                ("--precondition", self.precondition.is_some()),
            ],
        )?;
        if self.state_dir.is_some() && !trial.restores() {
            return Err(ExpectedError::usage(
                "--state-dir, and no arm has a state that is prepared: nothing would be kept there",
                "leave it out, or name a state: --state aged:70%",
            ));
        }
        if self.tags.len() > MAX_TAGS {
            return Err(ExpectedError::usage(
                format!("{} tags, and a trial has at most {MAX_TAGS}", self.tags.len()),
                "leave some --tag out",
            ));
        }
        self.check_precondition()
    }

    /// A disk is preconditioned in rounds of a sensible time.
    fn check_precondition(&self) -> Result<(), ExpectedError> {
        let Some(round) = self.precondition else { return Ok(()) };
        if !(Nanos::millis(100)..=Nanos::secs(3600)).contains(&round) {
            let hint = "use 100ms to 1h; the specification asks for 1m";
            return Err(ExpectedError::usage(format!("rounds of {round} of preconditioning"), hint));
        }
        Ok(())
    }

    /// Whether nothing is done but to say what would be.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// What may be erased.
    pub(crate) fn permission(&self) -> Permission {
        Permission { erase: self.erase.clone(), erase_signatures: self.erase_signature.clone() }
    }
}

/// Refuses flags about a disk where the device is something else.
pub(crate) fn only_for_disks(kind: DeviceKind, flags: &[(&str, bool)]) -> Result<(), ExpectedError> {
    match flags.iter().find(|(_, is_given)| *is_given && kind != DeviceKind::Disk) {
        None => Ok(()),
        Some((flag, _)) => Err(ExpectedError::usage(
            format!(
                "{flag} is for a real disk, and the device is {} (--device, or kind in a trial file)",
                kind.name()
            ),
            format!("leave {flag} out, or name the disk: --device disk --erase /dev/disk/by-id/…"),
        )),
    }
}

/// A trial that was conducted.
pub(crate) struct Answered {
    /// Its answer.
    pub(crate) document: Document,
    /// The same as a page, unless none is wanted.
    page: Option<TrialPage>,
    /// How the command ends.
    pub(crate) code: u8,
}

/// Conducts a trial from the first check to the answer, prints it, and gives the exit code. `resume`: go on with this
/// stored trial, 0 for the last unfinished one.
pub(crate) fn conduct(
    trial: &Trial,
    args: &ConductArgs,
    home: &Home,
    resume: Option<i64>,
) -> Result<u8, ExpectedError> {
    args.check(trial)?;
    if args.dry_run {
        super::print(&dry_run(trial, args.precondition)?);
        return Ok(exit_code::VERDICT);
    }
    let Answered { document, page, code } = measure(trial, args, home, resume, &interrupt()?)?;
    let id = document.trial_id.unwrap_or_default();
    let page = page.map(|page| kept(home, id, page));
    if args.json {
        json_lines::print(&document);
    } else {
        super::print(&table::render(&document));
        advise(&document);
    }
    if let Some(page) = page.filter(|_| !args.quiet) {
        super::say(&page);
    }
    super::written(code, Some(format!("fstrial results show {id}")))
}

/// Leaves the answer as a page, and says where. Without it the answer is whole all the same: it can be made again.
fn kept(home: &Home, id: i64, page: TrialPage) -> String {
    match pages::keep_ended(home, id, page) {
        Ok(path) => format!("\nas a page: {}\n", path.display()),
        Err(error) => format!("\nno page was made: {error}; try again with `fstrial report {id}`\n"),
    }
}

/// Every step of a trial in order, with its undo.
pub(crate) fn dry_run(trial: &Trial, precondition: Option<Nanos>) -> Result<String, ExpectedError> {
    let settled = trial.settled(environment::cpus())?;
    let plan = Plan::new(settled, trial.trial.seed.unwrap_or_else(draw_seed), environment::cpus())?;
    Ok(steps::render(&plan, precondition))
}

/// What Ctrl-C raises.
pub(crate) fn interrupt() -> Result<Interrupt, ExpectedError> {
    Interrupt::announced().map_err(|e| ExpectedError::Fault(format!("could not set signal handlers: {e}")))
}

/// Conducts a trial from the first check to the answer. `resume`: go on with this stored trial, 0 for the last
/// unfinished one.
pub(crate) fn measure(
    trial: &Trial,
    args: &ConductArgs,
    home: &Home,
    resume: Option<i64>,
    interrupt: &Interrupt,
) -> Result<Answered, ExpectedError> {
    // What an earlier command has left stays in the ledger if this is broken off.
    interrupt.end_at_once(true);
    let clock = MachineClock::start();
    let settled = trial.settled(environment::cpus())?;
    let (_lock, ledger) = home.ledger()?;
    let mut store = Store::open(home.results()?)?;
    let resumed = resume.map(|id| find_resumable(&store, &settled, id)).transpose()?;
    let seed = resumed.map(|(_, seed)| seed).or(trial.trial.seed).unwrap_or_else(draw_seed);
    let plan = Plan::new(settled, seed, environment::cpus())?;
    require_root(&plan)?;
    let ledger = replay(ledger)?;
    let bases = Bases::in_folder(&state_folder(&plan, args, home)?);
    let mut session = Conducting {
        plan: &plan,
        bases: &bases,
        args,
        clock: &clock,
        interrupt,
        ledger: &ledger,
        progress: match args.watch {
            true => Display::watched(&plan, interrupt),
            false => Display::plain(plan.trial.trial.budget, args.quiet || args.json),
        },
    };
    interrupt.end_at_once(false);
    let devices = session.provide_all()?;
    let answered = session.answer(&devices, &mut store, resumed.map(|(id, _)| id));
    // Whatever came of the trial, its devices are given up; of two errors the first one is told.
    let closed = devices.close();
    let answered = answered?;
    closed.map_err(ExpectedError::CleanUp)?;
    Ok(answered)
}

/// The devices of a trial.
struct Devices {
    main: Box<dyn Device>,
    log: Option<Box<dyn Device>>,
    throttled_by: Option<ThrottledBy>,
    /// What is said about how it was preconditioned, if it was, and the time that took.
    preconditioned: Option<Preconditioned>,
}

impl Devices {
    /// What is said about them with the results.
    fn notes(&self, plan: &Plan) -> Vec<String> {
        let mut notes = self.main.notes();
        notes.extend(self.preconditioned.iter().map(|(note, _)| note.clone()));
        if let (Some(by), Some(cap)) = (self.throttled_by, &plan.trial.device.throttle) {
            notes.extend(throttle::notes(by, cap));
        }
        if let Some(stripe) = &plan.trial.device.stripe {
            notes.push(format!(
                "mkfs is told of a stripe of {stripe}, in each filesystem's own words ({}; others take none); nothing is \
                 striped",
                Filesystem::names_of(|row| row.stripe.is_some(), "and")
            ));
        }
        if let Some(log) = &self.log {
            notes.push(format!(
                "journals and logs of arms with log=external lie on another device: {}",
                log.describe()
            ));
            notes.extend(log.notes().into_iter().map(|note| format!("log device: {note}")));
        }
        notes
    }

    fn setup(&self, plan: &Plan) -> Setup {
        Setup {
            log: self.log.as_ref().map(|log| log.binding(&plan.trial.arms[0])),
            throttle: plan.trial.device.throttle.clone(),
            stripe: plan.trial.device.stripe,
        }
    }

    fn close(self) -> Result<(), StackError> {
        let log = self.log.map_or(Ok(()), Device::close);
        self.main.close().and(log)
    }
}

/// A trial being conducted.
struct Conducting<'a> {
    plan: &'a Plan,
    /// Where prepared filesystems are kept.
    bases: &'a Bases,
    args: &'a ConductArgs,
    clock: &'a MachineClock,
    interrupt: &'a Interrupt,
    ledger: &'a Ledger,
    progress: Display<'a>,
}

impl<'a> Conducting<'a> {
    /// Runs the trial on its device and stores how it ended.
    fn answer(
        &mut self,
        devices: &Devices,
        store: &mut Store,
        resumed: Option<TrialId>,
    ) -> Result<Answered, ExpectedError> {
        let environment = Environment {
            device: devices.main.describe(),
            device_notes: devices.notes(self.plan),
            throttled_by: devices.throttled_by,
            generator_loop_ns: Some(loop_cost_ns()),
            ..Environment::of_this_machine()
        };
        let (id, earlier) = self.open_trial(store, resumed, &environment)?;
        self.progress.begin(id.0, &earlier);
        let finished = self.run(devices, store, id, &environment, earlier);
        self.progress.clear();
        let status = finished.as_ref().map_or(TrialStatus::Failed, status_of);
        let warnings = devices.main.warnings();
        let kept = store.warn(id, &warnings);
        let kept = kept.and_then(|()| store.finish_trial(id, status, &self.clock.timestamp()));
        // Of two errors the first one is told.
        let finished = finished?;
        kept?;
        drop(finished);
        // The answer is what the store has: it is the same whenever it is asked for.
        again::judged(store, &store.trial(id)?, |told| Answered {
            code: ending(&told.document, told.finished, self.args.fail_if),
            document: told.document.clone(),
            page: (!self.args.no_page).then(|| TrialPage::of(told)),
        })
    }

    fn run(
        &mut self,
        devices: &Devices,
        store: &mut Store,
        id: TrialId,
        environment: &Environment,
        earlier: Earlier,
    ) -> Result<Finished<'a>, ExpectedError> {
        let mut recorder = Recorder::new(store, id);
        let mut json = JsonLines;
        let shown: &mut dyn Listener = if self.args.json { &mut json } else { &mut self.progress };
        let mut listeners = Listeners(vec![&mut recorder, shown]);
        listeners
            .hear(&Event::DeviceReady { device: &environment.device, notes: &environment.device_notes })?;
        let all: Vec<&dyn Device> =
            std::iter::once(&devices.main).chain(&devices.log).map(AsRef::as_ref).collect();
        let mut place = ChildPlace { devices: &all, ledger: self.ledger, interrupt: self.interrupt };
        let context = Context {
            place: &mut place,
            clock: self.clock,
            listener: &mut listeners,
            interrupt: self.interrupt,
            binding: &|arm| devices.main.binding(arm),
            new_base: &|| self.bases.make(),
            setup: devices.setup(self.plan),
            data: devices.main.data(),
            ledger: self.ledger.folder().to_owned(),
            // Preconditioning takes what it takes: the budget is the trial's.
            deadline: Nanos(
                self.plan.trial.trial.budget.0
                    + devices.preconditioned.as_ref().map_or(0, |(_, took)| took.0),
            ),
        };
        Coordinator::new(self.plan, context, earlier).run()
    }
}

/// What the load generator's own loop costs, in whole nanoseconds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some tens of nanoseconds")]
fn loop_cost_ns() -> u64 {
    fstrial_engine::loop_cost_ns().round() as u64
}

/// Where prepared filesystems are kept: beside the image, with which they may share blocks; else in the home folder.
fn state_folder(plan: &Plan, args: &ConductArgs, home: &Home) -> Result<PathBuf, ExpectedError> {
    if let Some(folder) = &args.state_dir {
        return Ok(folder.clone());
    }
    match plan.trial.device.kind {
        DeviceKind::Image => Ok(plan.trial.device.path.clone().unwrap_or_else(|| PathBuf::from("."))),
        _ => Ok(home.make()?.path().to_owned()),
    }
}

/// Everything but directories needs root: said before anything is touched.
fn require_root(plan: &Plan) -> Result<(), ExpectedError> {
    if plan.trial.device.kind == DeviceKind::Directory || host::is_root() {
        return Ok(());
    }
    Err(ExpectedError::Stack(StackError::Io {
        what: "make and mount filesystems on".into(),
        path: "this host".into(),
        source: std::io::Error::from(std::io::ErrorKind::PermissionDenied),
    }))
}

/// Undoes what earlier commands that were killed have left. What stays and does not hinder this one is told.
fn replay(ledger: Ledger) -> Result<Ledger, ExpectedError> {
    let report = ledger.replay()?;
    let tell = |what: &str, why: &str| {
        super::say(&format!("left by an earlier command: {what}: {why}; `fstrial clean` says more\n"));
    };
    for left in &report.left {
        tell(left.undo.as_deref().unwrap_or(&left.file.display().to_string()), &left.why);
    }
    for step in report.done.iter().filter(|step| step.is_harmless) {
        if let Err(error) = &step.result {
            tell(&step.undo, &error.to_string());
        }
    }
    let ledger = ledger.without(&report);
    let mut failed = report.done.into_iter().filter(|step| !step.is_harmless);
    failed.try_for_each(|step| step.result).map_err(ExpectedError::CleanUp)?;
    Ok(ledger)
}

/// A new seed: 32 bits, so that it is short to print and fits every format.
fn draw_seed() -> u64 {
    let mut bytes = [0_u8; 4];
    // Without the system's randomness the time will do: the seed must differ, not be secret.
    match rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty()) {
        Ok(4) => u64::from(u32::from_le_bytes(bytes)),
        _ => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map_or(0, |now| u64::from(now.subsec_nanos()))
        }
    }
}

impl Conducting<'_> {
    /// Makes or accepts the devices, telling how far it is.
    fn provide_all(&mut self) -> Result<Devices, ExpectedError> {
        // Before anything is made that takes long.
        let throttled = self.plan.trial.device.throttle.as_ref().map(|_| throttle::find()).transpose()?;
        let throttled_by = throttled.map(|found| found.by);
        let log = self.plan.trial.log_device.as_ref();
        let make = |spec| self.telling(|_, tell| Ok(device::provide_log(spec, tell)?));
        let log = log.map(make).transpose()?;
        let provided = self.provide().and_then(|main| self.make_ready(main));
        match provided {
            Ok((preconditioned, main)) => Ok(Devices { main, log, throttled_by, preconditioned }),
            Err(error) => {
                log.map_or(Ok(()), Device::close).map_err(ExpectedError::CleanUp)?;
                Err(error)
            }
        }
    }

    /// What is needed of a device before the first run: room for what is prepared on it, and a steady state. If there is
    /// none it is given up, as at the end of a trial.
    fn make_ready(
        &mut self,
        main: Box<dyn Device>,
    ) -> Result<(Option<Preconditioned>, Box<dyn Device>), ExpectedError> {
        let room = self.bases.require_space(self.plan, &main.binding(&self.plan.trial.arms[0]));
        match room.and_then(|()| self.precondition(main.as_ref())) {
            Ok(preconditioned) => Ok((preconditioned, main)),
            Err(error) => {
                main.close().map_err(ExpectedError::CleanUp)?;
                Err(error)
            }
        }
    }

    /// Brings a disk to its steady state, if that is asked for; gives the note about it, and the time it took.
    fn precondition(&mut self, device: &dyn Device) -> Result<Option<Preconditioned>, ExpectedError> {
        let Some(round) = self.args.precondition else { return Ok(None) };
        let DeviceBinding::Disk { path, size, .. } = device.binding(&self.plan.trial.arms[0]) else {
            return Ok(None);
        };
        let (progress, interrupt, json) = (&mut self.progress, self.interrupt, self.args.json);
        let mut told = Bytes(0);
        let mut tell = |event: &Event<'_>| {
            // Showing progress cannot fail a preparation.
            let _ = if json { JsonLines.hear(event) } else { progress.hear(event) };
        };
        let outcome = precondition::run(&path, size, round, interrupt, &mut |step| match step {
            Step::Sequential(done, total) if done.0 - told.0 >= total.0 / 100 => {
                told = done;
                tell(&Event::DeviceProgress { done, total });
            }
            Step::Sequential(..) => {}
            Step::Estimate { least, most } => {
                let [least, most] = [least, most].map(|time| numbers::wait(time.as_secs_f64()));
                tell(&Event::Preconditioning {
                    line: &format!("preconditioning will take {least} to {most}"),
                });
            }
            Step::Round(number, rate) => {
                tell(&Event::Preconditioning {
                    line: &format!("preconditioning: round {number}, {rate:.0} writes/s"),
                });
            }
        })?;
        Ok(Some((outcome.note(round), outcome.took)))
    }

    /// Makes or accepts the device.
    fn provide(&mut self) -> Result<Box<dyn Device>, ExpectedError> {
        let most = self.plan.workloads.iter().map(|workload| workload.most_space_needed().0);
        let rows = self.plan.trial.arms.iter().filter_map(|arm| arm.row());
        let smallest = rows.map(|row| row.min_size_mib << 20).max().unwrap_or(0);
        // A filesystem needs room for itself: files may take 80 % of what its state leaves of a device.
        let needed = self.plan.trial.device_for(Bytes(most.max().unwrap_or(0)));
        let least = needed.max(Bytes(smallest));
        let (spec, size, permission) =
            (&self.plan.trial.device, self.plan.device_size, self.args.permission());
        self.telling(|ledger, tell| modelled::provide(spec, size, least, &permission, ledger, tell))
    }

    /// Makes something that takes a while, telling how far it is.
    fn telling<T>(
        &mut self,
        make: impl FnOnce(&Ledger, device::Progress<'_>) -> Result<T, ExpectedError>,
    ) -> Result<T, ExpectedError> {
        let (progress, interrupt, json) = (&mut self.progress, self.interrupt, self.args.json);
        let mut told = Bytes(0);
        let mut tell = |done: Bytes, total: Bytes| {
            // A hundred lines at most: told of every per cent.
            if done.0 - told.0 >= total.0 / 100 {
                told = done;
                let event = Event::DeviceProgress { done, total };
                // Showing progress cannot fail a preparation.
                let _ = if json { JsonLines.hear(&event) } else { progress.hear(&event) };
            }
            if interrupt.is_raised() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        make(self.ledger, &mut tell)
    }

    /// The trial in the store, and the rounds it already has.
    fn open_trial(
        &self,
        store: &mut Store,
        resumed: Option<TrialId>,
        environment: &Environment,
    ) -> Result<(TrialId, Earlier), ExpectedError> {
        let command_line = command_line();
        let environment = serde_json::to_string(environment).expect("an environment is plain data");
        let started_at = self.clock.timestamp();
        let session = Session {
            started_at: &started_at,
            program_version: env!("CARGO_PKG_VERSION"),
            command_line: &command_line,
            environment: &environment,
        };
        if let Some(id) = resumed {
            let earlier = stored::earlier(store, self.plan, id)?;
            store.reopen_trial(id, &session)?;
            store.change_tags(id, &self.args.tags, &[])?;
            return Ok((id, earlier));
        }
        let id = store.create_trial(&NewTrial {
            name: &self.plan.trial.trial.name,
            toml: &self.plan.trial.to_toml(),
            seed: self.plan.seed,
            arms: &self.plan.trial.arms,
            tags: &self.args.tags,
            session,
        })?;
        Ok((id, Earlier::default()))
    }
}

/// The trial to go on with: the one asked for, or the last of this file that did not come to its end. A trial that came
/// from another machine stays as it is: rounds of two machines are not one trial.
fn find_resumable(store: &Store, settled: &Trial, id: i64) -> Result<(TrialId, u64), ExpectedError> {
    let settled = comparable(settled.clone());
    let same =
        |toml: &str| Trial::parse("stored trial", toml).is_ok_and(|stored| comparable(stored) == settled);
    let here = Environment::of_this_machine();
    let moved = |stored: &StoredTrial| here.other_machine(&stored.sessions.last()?.environment);
    if id != 0 {
        let stored = store.trial(TrialId(id))?;
        if !same(&stored.toml) {
            return Err(ExpectedError::usage(
                format!("trial {id} is not a trial of this file: arms, workloads or settings differ"),
                "run the file without --resume, or name the trial of this file (`fstrial results list`)",
            ));
        }
        return match moved(&stored) {
            Some(there) => Err(of_another_machine(&stored, &there, &here)),
            None => Ok((TrialId(id), stored.summary.seed)),
        };
    }
    let mut elsewhere = None;
    for summary in store.trials()?.into_iter().rev() {
        if summary.status == TrialStatus::Decided {
            continue;
        }
        let stored = store.trial(summary.id)?;
        if !same(&stored.toml) {
            continue;
        }
        match moved(&stored) {
            None => return Ok((summary.id, summary.seed)),
            Some(there) => {
                elsewhere.get_or_insert_with(|| of_another_machine(&stored, &there, &here));
            }
        }
    }
    Err(elsewhere.unwrap_or_else(|| {
        ExpectedError::usage(
            "there is no unfinished trial of this file to go on with",
            "leave --resume out to begin; `fstrial results list` shows the trials there are",
        )
    }))
}

fn of_another_machine(stored: &StoredTrial, there: &str, here: &Environment) -> ExpectedError {
    ExpectedError::usage(
        format!(
            "could not go on with trial {}: it ran on {}, and this is {}",
            stored.summary.id,
            plain(there),
            here.machine_in_words()
        ),
        "go on with it there, or leave --resume out to begin here",
    )
}

/// A trial without what may differ when it is gone on with: the budget is the session's, the seed the stored trial's, and
/// words about a workload (with the lines of its job file) or a claim change nothing that is measured.
pub(crate) fn comparable(mut trial: Trial) -> Trial {
    trial.trial.budget = Nanos(0);
    trial.trial.seed = None;
    trial.workloads.iter_mut().for_each(|workload| workload.about = None);
    trial.claim = trial.claim.map(|claim| Box::new(claim.without_words()));
    trial
}

pub(crate) fn status_of(finished: &Finished<'_>) -> TrialStatus {
    match finished.reason {
        Reason::Interrupted => TrialStatus::Interrupted,
        Reason::Settled | Reason::BudgetEnded if finished.is_decided() => TrialStatus::Decided,
        Reason::Settled | Reason::BudgetEnded => TrialStatus::BudgetEnded,
    }
}

fn ending(document: &Document, finished: &Finished<'_>, fail_if: Option<FailIf>) -> u8 {
    if finished.reason == Reason::Interrupted {
        return exit_code::INTERRUPTED;
    }
    if !document.failures.is_empty() {
        return exit_code::SETUP_FAILED;
    }
    let verdicts = || {
        document
            .workloads
            .iter()
            .flat_map(|workload| &workload.verdicts)
            .filter(|v| v.contrast.metric == Metric::Throughput)
    };
    let any = |outcome: Outcome| verdicts().any(|verdict| verdict.contrast.verdict == outcome);
    let met = match fail_if {
        None => false,
        Some(FailIf::Slower) => any(Outcome::Slower),
        Some(FailIf::Faster) => any(Outcome::Faster),
        Some(FailIf::Different) => any(Outcome::Slower) || any(Outcome::Faster),
    };
    match (met, finished.is_decided()) {
        (true, _) => exit_code::FAIL_IF_MET,
        (false, true) => exit_code::VERDICT,
        (false, false) => exit_code::UNDECIDED,
    }
}

/// What to do about an answer that is not complete.
fn advise(document: &Document) {
    if document.planned_rounds.is_none() {
        let per_round: f64 = document
            .workloads
            .iter()
            .map(|workload| {
                #[expect(clippy::cast_precision_loss, reason = "a handful of cells")]
                let cells = workload.cells.len() as f64;
                cells
                    * (workload.duration_seconds.unwrap_or(1.0)
                        + workload.warmup_seconds.unwrap_or(0.0)
                        + 0.5)
            })
            .sum();
        let wait = numbers::wait(per_round * 12.0);
        super::print(&format!(
            "\nNot one round was complete. A round takes about {} s here; give it a --budget of {wait}. The runs that were \
             made are stored: fstrial results export\n",
            per_round.ceil()
        ));
    }
}

/// The command line of this process, quoted for a shell.
fn command_line() -> String {
    std::env::args().map(|word| command::quoted(&word)).collect::<Vec<_>>().join(" ")
}
