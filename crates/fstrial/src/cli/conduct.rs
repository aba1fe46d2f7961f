//! Conducting a trial, for `compare` and `run`: the store, the device, the listeners, the coordinator, the answer.

mod args;
mod resume;

use super::{Home, lacking, observed, pages, receipts};
pub(in crate::cli) use args::AfterRound;
pub(crate) use args::{ConductArgs, FailIf, only_for_disks, seed};
use fstrial_model::{metric::Metric, trial::Trial, units::Nanos};
use fstrial_report::{
    again,
    document::Document,
    json_lines::{self, JsonLines},
    page::TrialPage,
    receipt::ReceiptReport,
    screen::{self, Remarked},
    stdout, steps, summary,
    watch::listener::Display,
};
use fstrial_run::{
    answers, boots,
    clock::{Clock, MachineClock},
    contrast::Outcome,
    coordinator::{Finished, Reason},
    environment::{self, Environment},
    error::ExpectedError,
    event::{Event, Listener, Listeners},
    evidence, exit_code,
    forecast::{self, Forecast},
    interrupt::Interrupt,
    kernels::{Kernels, require_qemu},
    look::Looks,
    numbers,
    place::{
        Place,
        boot::Boot,
        reach::{self, Reach},
    },
    plan::Plan,
    recorder::Recorder,
    round::Earlier,
    session::{Session, SessionEnd},
    stored,
};
use fstrial_stack::{StackError, command, host, ledger::Ledger};
use fstrial_store::{NewTrial, Store, TrialId, TrialStatus};
pub(crate) use resume::{check_machine, check_rounds, comparable};
use std::{
    env,
    path::{Path, PathBuf},
};

/// A trial that was conducted.
pub(crate) struct TrialEnd {
    /// Its answer.
    pub(crate) document: Document,
    /// The same as a page, unless none is wanted.
    page: Option<TrialPage>,
    /// About how long a round takes, estimated before the first.
    round_seconds: f64,
    /// Exit code of the command.
    pub(crate) code: u8,
    /// A place that could not be given up: the answer holds all the same.
    pub(crate) left: Option<ExpectedError>,
}

/// Conducts a trial from the first check to the answer, prints it, and gives the exit code; resumes it if it is stored
/// under that number.
pub(crate) fn conduct(
    trial: &Trial,
    args: &ConductArgs,
    home: &Home,
    resume: Option<i64>,
) -> Result<u8, ExpectedError> {
    args.check(trial)?;
    if args.dry_run {
        let mut shown = trial.clone();
        // The pilot was when it began.
        shown.trial.pilot = trial.trial.pilot.filter(|_| resume.is_none());
        let DryRun { steps, budget, missing } = dry_run(&shown, &args.places, args.precondition, home)?;
        if args.json {
            json_lines::print(&serde_json::json!({
                "event": "dry-run", "budget": budget, "steps": steps, "missing": missing,
            }));
        } else {
            super::print(&steps);
        }
        return Ok(exit_code::VERDICT);
    }
    let TrialEnd { mut document, page, round_seconds, code, left } =
        measure(trial, args, home, resume, &interrupt()?)?;
    document.home_again = home.again();
    let id = document.trial_id.unwrap_or_default();
    let page = page.map(|page| kept(home, id, page));
    let code = if args.ok_undecided && code == exit_code::UNDECIDED { exit_code::VERDICT } else { code };
    if args.is_silent(code) {
        return super::written(code, None);
    }
    if args.json {
        json_lines::print_answer(&document);
    } else {
        super::print(&screen::render(&document, stdout::columns(), Remarked::InShort));
        advise(&document, round_seconds);
    }
    if let Some(page) = page.filter(|_| !args.is_quiet()) {
        super::say(&page);
    }
    if let Some(left) = left {
        return Err(left);
    }
    super::written(code, Some(format!("fstrial report {id} --format text")))
}

/// Stores the answer as a page, and reports its path. A failure leaves the answer complete: the page can be made again.
pub(crate) fn kept(home: &Home, id: i64, page: TrialPage) -> String {
    match pages::keep_ended(home, id, page) {
        Ok(path) => format!("\nas a page: {}\n", path.display()),
        Err(error) => format!("\nno page was made: {error}; try again with `fstrial report {id}`\n"),
    }
}

/// The plan of a trial, as text.
pub(crate) struct DryRun {
    /// Every step in order, with its undo, and the power of its budget.
    pub(crate) steps: String,
    budget: Forecast,
    /// Its requirements missing on this host.
    missing: Vec<String>,
}

/// Plans a trial, and does nothing.
pub(crate) fn dry_run(
    trial: &Trial,
    places: &[Reach],
    precondition: Option<Nanos>,
    home: &Home,
) -> Result<DryRun, ExpectedError> {
    let settled = trial.settled(environment::cpus())?;
    let plan = Plan::new(settled, trial.trial.seed.unwrap_or_else(draw_seed))?;
    reach::known_and_single(places, &plan.trial.places)?;
    require_directories(trial)?;
    let looks = Looks::of(&plan);
    let budget = Forecast::after(looks.as_ref().map_or(Nanos(0), Looks::time), &plan);
    let mut steps = steps::render(&plan, places, precondition, looks.as_ref(), &budget);
    let mut missing = lacking::of_trial(&plan.trial, environment::cpus());
    missing.extend(lacking::of_guests(&plan.trial, &home.folder()?));
    missing.extend(lacking::memory(&plan).err().map(|error| lacking::with_hint(&error.into())));
    missing.extend(lacking::of_device(&plan));
    if plan.trial.trial.explain > 0 {
        missing.extend(evidence::questions(&plan, None).err().map(|error| lacking::with_hint(&error)));
    }
    missing.iter().for_each(|line| steps += &format!("\nThis cannot run here: {line}\n"));
    Ok(DryRun { steps, budget, missing })
}

/// The commands that reach places: the given ones, and for guests those of their kernels.
pub(super) fn reaches(given: &[Reach], plan: &Plan, home: &Home) -> Result<Vec<Reach>, ExpectedError> {
    let trial = &plan.trial;
    let mut all = given.to_vec();
    for place in &trial.places {
        let Some(kernel) = &place.kernel else { continue };
        require_qemu()?;
        let folder = home.folder()?;
        let kernel = Kernels::of_home(&folder).required(kernel)?;
        lacking::kvm(&folder, place, &kernel)?;
        let guest = std::path::absolute(&folder)
            .and_then(|home| Reach::guest(&place.name, &kernel.name, &home, &Boot::at(plan, place)));
        all.push(guest.map_err(|source| ExpectedError::File { what: "find", path: folder, source })?);
    }
    lacking::memory(plan)?;
    Ok(all)
}

/// The interrupt of Ctrl-C.
pub(crate) fn interrupt() -> Result<Interrupt, ExpectedError> {
    Interrupt::announced().map_err(|e| ExpectedError::Fault(format!("could not set signal handlers: {e}")))
}

/// Conducts a trial from the first check to the answer; resumes it if it is stored under that number.
pub(crate) fn measure(
    trial: &Trial,
    args: &ConductArgs,
    home: &Home,
    resume: Option<i64>,
    interrupt: &Interrupt,
) -> Result<TrialEnd, ExpectedError> {
    // Leftovers of earlier commands stay in the ledger if this is interrupted.
    interrupt.end_at_once(true);
    let clock = MachineClock::start();
    let settled = trial.settled(environment::cpus())?;
    require_directories(trial)?;
    let (_lock, ledger) = home.ledger()?;
    let mut store = Store::open(home.results()?)?;
    let stored = resume.map(|id| store.trial(TrialId(id))).transpose()?;
    stored.iter().try_for_each(check_machine)?;
    let resumed = stored.as_ref().map(|stored| &stored.summary);
    let seed = resumed.map(|summary| summary.seed).or(trial.trial.seed).unwrap_or_else(draw_seed);
    let resumed = resumed.map(|summary| summary.id);
    let plan = Plan::new(settled, seed)?;
    let earlier = resumed.map(|id| stored::earlier(&store, &plan, id)).transpose()?.unwrap_or_default();
    let booted = boots::booted(&plan, args.as_arm.as_deref(), &earlier)?;
    if let Some((id, name)) = resumed.zip(args.as_arm.as_deref()) {
        resume::check_places(id, &[&boots::here(name)], &earlier)?;
    }
    let reaches = reaches(&args.places, &plan, home)?;
    lacking::layers(&plan.trial)?;
    lacking::clients(&plan.trial)?;
    reach::check(&reaches, &plan)?;
    if plan.is_here() && plan.trial.device.kind.holds_filesystems() {
        require_root()?;
    }
    lacking::check_programs(&plan)?;
    let has_next = booted.is_some_and(|booted| booted.next.is_some());
    stored.iter().filter(|_| !has_next).try_for_each(|stored| check_rounds(stored, &plan.trial))?;
    let ledger = replay(ledger)?;
    if plan.trial.trial.explain > 0 {
        evidence::questions(&plan, None)?;
        evidence::try_here(&plan)?;
    }
    let has_receipt = stored.as_ref().is_some_and(|stored| stored.receipt.is_some());
    let state_folder = state_folder(&plan, home)?;
    interrupt.end_at_once(false);
    let receipts = if has_receipt { None } else { receipts::of(&plan, interrupt, &ledger)? };
    let progress = match args.watch {
        true => Display::watched(&plan, interrupt),
        false => Display::plain(plan.trial.trial.budget, args.is_quiet() || args.json),
    };
    let mut shown = Output { progress, json: args.json, after_round: args.after_round.as_ref() };
    let conducting = Conducting { plan: &plan, args, clock: &clock, receipts };
    let session = Session {
        plan: &plan,
        booted,
        reaches: &reaches,
        clock: &clock,
        interrupt,
        ledger: &ledger,
        permission: &args.permission(),
        state_folder: &state_folder,
        precondition: args.precondition,
        longest: args.longest,
    };
    let SessionEnd { done, mut left } = session.at_its_places(&mut shown, |places, shown| {
        conducting.answer(&session, places, shown, &mut store, (resumed, earlier))
    });
    // Each device that cannot be released is reported, however the trial ended.
    let last = left.pop_if(|_| done.is_ok());
    left.iter().for_each(super::show);
    Ok(TrialEnd { left: last, ..done? })
}

/// The display of events: the terminal, or lines of JSON.
struct Output<'a> {
    progress: Display<'a>,
    json: bool,
    after_round: Option<&'a AfterRound>,
}

impl Listener for Output<'_> {
    fn hear(&mut self, event: &Event<'_>) -> Result<(), ExpectedError> {
        if let (Some(AfterRound(call)), Event::VerdictsUpdated { round, .. }) = (self.after_round, event) {
            call(*round);
        }
        if self.json { JsonLines.hear(event) } else { self.progress.hear(event) }
    }
}

/// A trial being conducted.
struct Conducting<'a> {
    plan: &'a Plan,
    args: &'a ConductArgs,
    clock: &'a MachineClock,
    /// Its power cuts, before the first session.
    receipts: Option<ReceiptReport>,
}

impl<'a> Conducting<'a> {
    /// Runs the trial at its places and stores how it ended.
    fn answer(
        &self,
        session: &Session<'_, '_>,
        places: &mut [Box<dyn Place>],
        shown: &mut Output<'_>,
        store: &mut Store,
        (resumed, earlier): (Option<TrialId>, Earlier),
    ) -> Result<TrialEnd, ExpectedError> {
        let id = self.open_trial(store, resumed, places, &earlier)?;
        store.warn(id, &self.args.notes)?;
        if let Some(receipts) = &self.receipts {
            store.keep_receipt(id, &serde_json::to_string(receipts).expect("a receipt is plain data"))?;
        }
        shown.progress.begin(id.0, &earlier);
        if let Some(booted) = session.booted {
            shown.hear(&Event::Noted { lines: &booted.notes(self.plan) })?;
        }
        let finished = {
            let mut recorder = Recorder::new(store, id);
            session.rounds(places, earlier, &mut Listeners(vec![&mut recorder, shown]))
        };
        shown.progress.clear();
        if let Ok(finished) = &finished {
            self.explain(finished, places, store, id);
        }
        let status = finished.as_ref().map_or(TrialStatus::Failed, Finished::status);
        let of_places = places.iter().flat_map(|place| place.warnings());
        let error = finished.as_ref().err();
        let ended_by = error.map(|error| format!("{}{}", again::ENDED_BY, error.in_full()));
        let warnings: Vec<String> = of_places.chain(ended_by).collect();
        let kept = store.warn(id, &warnings);
        let kept = kept.and_then(|()| store.finish_trial(id, status, &self.clock.timestamp()));
        // Of two errors the first is reported.
        let is_over = finished?.reason != Reason::Reboot;
        kept?;
        answers::keep(store, id)?;
        // The answer comes from the store: it is the same at any time.
        again::judged(store, &store.trial(id)?, |reported| TrialEnd {
            code: match is_over {
                true => ending(&reported.document, reported.finished, self.args.fail_if),
                false => exit_code::UNDECIDED,
            },
            document: reported.document.clone(),
            round_seconds: forecast::round_time(self.plan).0.as_secs_f64(),
            page: (!self.args.no_page).then(|| TrialPage::of(reported)),
            left: None,
        })
    }
}

impl Conducting<'_> {
    /// Observes runs that explain the verdicts, if the trial asks for them and has some. An error leaves the verdicts complete.
    fn explain(
        &self,
        finished: &Finished<'_>,
        places: &mut [Box<dyn Place>],
        store: &mut Store,
        id: TrialId,
    ) {
        let rounds = self.plan.trial.trial.explain;
        if rounds == 0 || matches!(finished.reason, Reason::Interrupted | Reason::Reboot) {
            return;
        }
        let asked = evidence::questions(self.plan, None).unwrap_or_default();
        let cells = evidence::cells(self.plan, &finished.all.states(), &asked);
        if cells.is_empty() {
            super::say("! no throughput has a verdict, so nothing was observed\n");
            return;
        }
        let (seen, ended_by) = observed::observe(self.plan, places, &cells, rounds);
        let kept = observed::keep(store, id, &seen).map(drop);
        for error in ended_by.into_iter().chain(kept.err()) {
            let why = error.in_full();
            super::say(&format!(
                "! the observed runs ended early: {why}; `fstrial explain {id}` takes them again\n"
            ));
        }
    }
}

/// Folder of prepared filesystems: next to the image, with which they may share blocks; else the folder for temporary
/// files, or the home folder.
fn state_folder(plan: &Plan, home: &Home) -> Result<PathBuf, ExpectedError> {
    let temporary = || env::var_os("TMPDIR").map(PathBuf::from).filter(|folder| folder.is_absolute());
    match plan.trial.device.folder().map(Path::to_owned).or_else(temporary) {
        Some(folder) => Ok(folder),
        None => Ok(home.make()?.path().to_owned()),
    }
}

/// Requires root for everything but directories, before anything is touched.
pub(crate) fn require_root() -> Result<(), ExpectedError> {
    if host::is_root() {
        return Ok(());
    }
    Err(ExpectedError::Stack(StackError::Io {
        what: "make and mount filesystems on".into(),
        path: "this host".into(),
        source: std::io::Error::from(std::io::ErrorKind::PermissionDenied),
    }))
}

/// Requires that existing directories exist, before anything is touched.
fn require_directories(trial: &Trial) -> Result<(), ExpectedError> {
    for path in trial.arms.iter().filter(|arm| arm.is_directory()).filter_map(|arm| arm.path.as_ref()) {
        let (what, hint) = match path.metadata() {
            Ok(matched) if matched.is_dir() => continue,
            Ok(_) => ("is not a directory", "name a directory on the filesystem that is meant".to_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                ("does not exist", format!("check the spelling, or create it: mkdir -p {}", path.display()))
            }
            // The worker detects other problems, and describes them better.
            Err(_) => continue,
        };
        return Err(ExpectedError::usage(format!("the directory {} {what}", path.display()), hint));
    }
    Ok(())
}

/// Undoes the leftovers of earlier, killed commands. Remaining ones that do not hinder this command are reported.
pub(crate) fn replay(ledger: Ledger) -> Result<Ledger, ExpectedError> {
    let report = super::clean::replay(&ledger)?;
    let tell = |what: &str, why: &str| {
        super::say(&format!("left by an earlier command: {what}: {why}; `fstrial clean` reports more\n"));
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
pub(crate) fn draw_seed() -> u64 {
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
    /// The trial in the store, and the rounds it already has.
    fn open_trial(
        &self,
        store: &mut Store,
        resumed: Option<TrialId>,
        places: &[Box<dyn Place>],
        earlier: &Earlier,
    ) -> Result<TrialId, ExpectedError> {
        let command_line = command_line();
        let environment = serde_json::to_string(&here(places)).expect("an environment is plain data");
        let started_at = self.clock.timestamp();
        let session = fstrial_store::NewSession {
            started_at: &started_at,
            program_version: env!("CARGO_PKG_VERSION"),
            command_line: &command_line,
            environment: &environment,
        };
        if let Some(id) = resumed {
            let matched: Vec<&Environment> = places.iter().map(|place| place.environment()).collect();
            resume::check_places(id, &matched, earlier)?;
            store.reopen_trial(id, &session)?;
            store.change_tags(id, &self.args.tags, &[])?;
            return Ok(id);
        }
        let id = store.create_trial(&NewTrial {
            name: &self.plan.trial.trial.name,
            toml: &self.plan.trial.to_toml(),
            seed: self.plan.seed,
            arms: &self.plan.trial.arms,
            tags: &self.args.tags,
            session,
        })?;
        Ok(id)
    }
}

/// The environment of the host that started the trial, with its device if an arm is built here.
fn here(places: &[Box<dyn Place>]) -> Environment {
    let mut all = places.iter().map(|place| place.environment());
    all.find(|matched| matched.place.is_empty()).cloned().unwrap_or_else(Environment::of_this_machine)
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
            .filter(|workload| !workload.secondary)
            .flat_map(|workload| &workload.verdicts)
            .filter(|v| v.contrast.metric == Metric::Throughput || v.contrast.holds_open)
    };
    let any = |outcome: Outcome| verdicts().any(|verdict| verdict.contrast.verdict == outcome);
    let met = match fail_if {
        None => false,
        Some(FailIf::Slower) => any(Outcome::Slower),
        Some(FailIf::Faster) => any(Outcome::Faster),
        Some(FailIf::Different) => any(Outcome::Slower) || any(Outcome::Faster),
    };
    // A claim, and a condition, ask for more than that either will do.
    let will_do =
        document.claim.is_none() && fail_if.is_none() && document.has_begun && !summary::is_open(document);
    match (met, finished.is_decided() || will_do) {
        (true, _) => exit_code::FAIL_IF_MET,
        (false, true) => exit_code::VERDICT,
        (false, false) => exit_code::UNDECIDED,
    }
}

/// Advice on an incomplete answer. `round_seconds`: approximate time of a round.
fn advise(document: &Document, round_seconds: f64) {
    if !document.has_begun && document.ended != "interrupted" {
        let wait = numbers::budget(round_seconds * 12.0);
        super::print(&format!(
            "\nNo round was completed. A round takes about {} s here; use --budget {wait}. Completed runs are stored.\n",
            round_seconds.ceil(),
        ));
    }
}

/// The command line of this process, quoted for a shell.
fn command_line() -> String {
    env::args().map(|word| command::quoted(&word)).collect::<Vec<_>>().join(" ")
}
