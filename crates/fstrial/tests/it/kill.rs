//! SIGKILL at random moments, from a seed, in every stage of a trial: nothing is left on the host, every completed run
//! is in the store, the store is sound, and the trial resumes.

use crate::support::{self, Dice, Lab, PATIENCE, Running, SMALL, say};
use rustix::process::Signal;
use serde_json::Value;
use std::{cell::Cell, collections::BTreeMap, fs, path::Path, sync::Mutex, time::Duration};

/// Stages of building an arm once without load, with about twice the time each takes, in ms.
const INSPECTION: [(&str, u64); 5] =
    [("attach", 30), ("mkfs", 150), ("mount", 30), ("unmount", 60), ("detach", 30)];
/// Stages of a run, likewise.
pub(crate) const RUN: [(&str, u64); 8] = [
    ("attach", 30),
    ("mkfs", 150),
    ("mount", 30),
    ("layout", 80),
    ("settle", 60),
    ("load", 150),
    ("unmount", 60),
    ("detach", 30),
];

/// Kills of workers in runs.
const WORKER_KILLS: usize = 64;

/// Only one test at a time adds zram devices.
static ZRAM: Mutex<()> = Mutex::new(());

/// The process to kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Command,
    Outer,
    Inner,
    /// Both workers together, by their process group.
    Workers,
    /// The command and its workers together.
    Everything,
}

/// The moment of a kill: a while after an event.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Moment {
    /// After the start.
    Preparing,
    /// After a stage of an inspection began.
    Inspecting(&'static str),
    /// After a stage of a run began.
    Running(&'static str),
    /// After a run was reported.
    Between,
}

impl Moment {
    /// Every moment with the longest delay after it, in ms.
    pub(crate) fn all() -> Vec<(Self, u64)> {
        let inspecting = INSPECTION.iter().map(|(stage, ms)| (Self::Inspecting(stage), *ms));
        let running = RUN.iter().map(|(stage, ms)| (Self::Running(stage), *ms));
        let rest = [(Self::Preparing, 60), (Self::Preparing, 1200), (Self::Between, 20)];
        rest.into_iter().chain(inspecting).chain(running).collect()
    }
}

/// The output of a command so far.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    stage: Option<String>,
    in_run: bool,
    runs_ended: u64,
    first_round: Option<u64>,
    document: Option<Value>,
    /// A run in which the disk stood still for all its time, which takes its arm out.
    pub(crate) stalled: bool,
}

impl Heard {
    pub(crate) fn hear(&mut self, event: &Value) {
        match event["event"].as_str() {
            Some("device-ready") => self.stage = Some("ready".into()),
            Some("run-started") => (self.in_run, self.stage) = (true, Some("start".into())),
            Some("run-stage") => self.stage = event["stage"].as_str().map(str::to_owned),
            Some("run-ended") => {
                (self.in_run, self.stage) = (false, Some("between".into()));
                self.runs_ended += 1;
                self.stalled |= support::is_stall(&event["failure"]);
            }
            Some("round-started") if self.first_round.is_none() => {
                self.first_round = event["round"].as_u64();
            }
            Some("answer") => self.document = Some(event.clone()),
            _ => {}
        }
    }

    /// Exit codes of a session that was left alone: 11 where the disk stood still for a whole run.
    fn codes(&self) -> &'static [i32] {
        if self.stalled { &[0, 3, 11] } else { &[0, 3] }
    }

    fn is_at(&self, moment: Moment, event: &Value) -> bool {
        let begun = |wanted: &str| event["event"] == "run-stage" && event["stage"] == wanted;
        match moment {
            Moment::Preparing => true,
            Moment::Inspecting(stage) => !self.in_run && begun(stage),
            Moment::Running(stage) => self.in_run && begun(stage),
            Moment::Between => event["event"] == "run-ended",
        }
    }

    /// Its stage, for the tally.
    pub(crate) fn place(&self) -> String {
        match (&self.stage, self.in_run) {
            (None, _) => "preparing".into(),
            (Some(stage), true) => format!("run {stage}"),
            (Some(stage), false) if stage == "between" || stage == "ready" => stage.clone(),
            (Some(stage), false) => format!("inspect {stage}"),
        }
    }
}

/// Kills by where they landed.
#[derive(Default)]
pub(crate) struct Tally(BTreeMap<String, u32>);

impl Tally {
    pub(crate) fn add(&mut self, place: String) {
        *self.0.entry(place).or_default() += 1;
    }

    pub(crate) fn say(&self, test: &str) {
        let places: Vec<String> = self.0.iter().map(|(place, count)| format!("{place} {count}")).collect();
        say(&format!("{test}: {} kills: {}", self.0.values().sum::<u32>(), places.join(", ")));
    }
}

/// Kills the victim, if such a process exists at this moment.
fn strike(running: &Running, victim: Victim, workers_first: bool) -> bool {
    let command = running.pid();
    let outer = support::worker_of(command);
    match victim {
        Victim::Command => support::kill(command),
        Victim::Everything => {
            let workers = || outer.into_iter().for_each(|outer| support::signal_group(outer, Signal::KILL));
            if workers_first {
                workers();
            }
            support::kill(command);
            workers();
        }
        Victim::Outer | Victim::Inner | Victim::Workers => {
            let Some(outer) = outer else { return false };
            match victim {
                Victim::Outer => support::kill(outer),
                Victim::Inner => {
                    let Some(inner) = support::worker_of(outer) else { return false };
                    support::kill(inner);
                }
                _ => support::signal_group(outer, Signal::KILL),
            }
        }
    }
    true
}

/// Listens until a moment has come for the n-th time, and a while longer; false if the command ended before.
pub(crate) fn wait_until(
    running: &mut Running,
    received: &mut Heard,
    moment: Moment,
    nth: u64,
    delay: Duration,
) -> bool {
    let mut seen = 0;
    while !matches!(moment, Moment::Preparing) && seen < nth {
        let Some(event) = running.event() else { return false };
        received.hear(&event);
        seen += u64::from(received.is_at(moment, &event));
    }
    support::pause(delay);
    true
}

/// A trial of a file that is killed again and again.
pub(crate) struct Killed {
    pub(crate) lab: Lab,
    /// Flags that every session has.
    flags: String,
    /// The last session took an arm out by a stall: its trial has nothing left to do.
    stalled: Cell<bool>,
}

/// One session of a killed trial, as it began.
pub(crate) struct Before {
    runs: u64,
    /// The round it must begin with.
    next_round: u64,
}

impl Killed {
    /// Writes the trial file.
    fn new(arms: &str) -> Self {
        Self::with(arms, |_| String::new())
    }

    /// The same with flags that every session has, for something in the lab.
    pub(crate) fn with(arms: &str, flags: impl FnOnce(&Lab) -> String) -> Self {
        let lab = Lab::new();
        fs::create_dir(lab.path("dirs")).unwrap();
        let flags = flags(&lab);
        lab.save(&format!("compare {arms} {flags} --rounds 150"), "trial.toml");
        Self { flags, lab, stalled: Cell::new(false) }
    }

    /// Starts or resumes, depending on the store.
    pub(crate) fn session(&self, flags: &str) -> (Running, Before) {
        let trials = self.lab.trials();
        let runs = trials.iter().map(|trial| trial["runs"].as_u64().unwrap()).sum();
        let goes_on = |trial: &&Value| trial["status"] != "decided" && !self.stalled.get();
        let last = trials.last().filter(goes_on);
        let next_round = last.map_or(0, |trial| trial["rounds"].as_u64().unwrap()) + 1;
        let begin = || "run trial.toml".to_owned();
        let command = last.map_or_else(begin, |trial| format!("resume {}", trial["id"]));
        (self.lab.start(&format!("{command} {} --json {flags}", self.flags)), Before { runs, next_round })
    }

    /// The conditions that must hold after a session, however it ended.
    pub(crate) fn check(&self, before: &Before, received: &Heard, when: &str) {
        self.stalled.set(received.stalled);
        self.lab.assert_nothing_left(when);
        self.lab.check_store();
        let stored: u64 = self.lab.trials().iter().map(|trial| trial["runs"].as_u64().unwrap()).sum();
        let (new, reported) = (stored - before.runs, received.runs_ended);
        assert!(
            new == reported || new == reported + 1,
            "{when}: {reported} runs were reported, {new} are stored"
        );
        if let Some(first) = received.first_round {
            assert_eq!(first, before.next_round, "{when}: the rounds go on where they were");
        }
    }

    /// Kills the command `count` times, spread over all moments.
    fn kill_command(&self, dice: &mut Dice, moments: &[(Moment, u64)], count: usize) -> Tally {
        let mut tally = Tally::default();
        let (mut killed, mut attempt) = (0, 0);
        while killed < count {
            assert!(attempt < count * 2, "too many sessions ended before they could be killed");
            let (moment, longest) = moments[attempt % moments.len()];
            let both = [Victim::Command, Victim::Everything];
            let victim = both[(attempt + attempt / moments.len()) % 2];
            let delay = Duration::from_micros(dice.below(longest * 1000));
            let nth = 1 + dice.below(2);
            let when = format!("kill {attempt}: {victim:?} {delay:?} after {moment:?} {nth}");
            attempt += 1;
            let (mut running, before) = self.session("");
            let mut received = Heard::default();
            if wait_until(&mut running, &mut received, moment, nth, delay) {
                strike(&running, victim, dice.below(2) == 0);
            }
            while let Some(line) = running.line() {
                // The last line may be cut short.
                if let Ok(event) = serde_json::from_str(&line) {
                    received.hear(&event);
                }
            }
            let ended = running.end(PATIENCE);
            if ended.is_killed() {
                killed += 1;
                tally.add(received.place());
            } else {
                assert!(received.codes().contains(&ended.code()), "{when}: {ended:?}");
            }
            self.check(&before, &received, &when);
            // Every other time the next command must cope with the leftovers.
            if attempt % 2 == 0 {
                self.lab.clean();
            }
        }
        tally
    }

    /// The trial resumes and reaches an answer.
    fn finish(&self, dice: &mut Dice) {
        let (mut running, _) = self.session("");
        let mut received = Heard::default();
        wait_until(
            &mut running,
            &mut received,
            Moment::Running("load"),
            2,
            Duration::from_millis(dice.below(100)),
        );
        strike(&running, Victim::Everything, true);
        running.end(PATIENCE);
        self.lab.assert_nothing_left("before the last session");
        self.lab.clean();
        let trials = self.lab.trials();
        let last = trials.last().unwrap();
        let (id, rounds) = (last["id"].clone(), last["rounds"].as_u64().unwrap());
        let ended = self.lab.run(&format!("resume {id} {} --json --budget 30s", self.flags));
        let mut received = Heard { stalled: received.stalled, ..Heard::default() };
        ended.json().iter().for_each(|event| received.hear(event));
        assert!(received.codes().contains(&ended.code()), "{ended:?}");
        assert_eq!(received.first_round, Some(rounds + 1), "rounds go on");
        let document = ended.document();
        assert_eq!(document["trial_id"], id, "it is the same trial");
        assert!(document["rounds"].as_u64().unwrap() > rounds);
        let verdicts = document["workloads"][0]["verdicts"].as_array().unwrap();
        assert!(!verdicts.is_empty());
        for verdict in verdicts {
            let word = verdict["verdict"].as_str().unwrap();
            if received.stalled && word == "failed" {
                continue;
            }
            assert!(["faster", "slower", "equivalent", "undecided"].contains(&word), "{verdict}");
            let ratio = verdict["ratio"].as_f64();
            assert!(verdict["metric"] != "throughput" || ratio.is_some_and(|ratio| ratio > 0.0), "{verdict}");
        }
        self.lab.assert_nothing_left("after the last session");
        assert_eq!(self.lab.ledger_entries(), Vec::<String>::new());
    }
}

#[test]
fn killed_command_leaves_nothing_and_trial_resumes() {
    let name = "killed_command_leaves_nothing_and_trial_resumes";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let mut dice = Dice::new(1);
    let killed = Killed::new(&format!("ext4 xfs:scheduler=none {SMALL} --device image:images"));
    let moments = Moment::all();
    killed.kill_command(&mut dice, &moments, moments.len() * 4 + 2).say(name);
    killed.finish(&mut dice);
}

#[test]
fn a_killed_worker_costs_one_run() {
    let name = "a_killed_worker_costs_one_run";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let mut dice = Dice::new(2);
    let killed = Killed::new(&format!("ext4 xfs btrfs {SMALL} --device image:images"));
    let victims = [Victim::Inner, Victim::Outer, Victim::Workers];
    let (mut tally, mut kills) = (Tally::default(), 0);
    // A session that ends with a lost run hands its count on to the next.
    let mut lost_in_a_row: BTreeMap<String, u32> = BTreeMap::new();
    for session in 0..30 {
        if kills >= WORKER_KILLS {
            break;
        }
        let (mut running, before) = killed.session("--budget 60s");
        let mut received = Heard::default();
        let mut lost = 0;
        let mut target: Option<(&str, Duration)> = None;
        let mut strikes = 0;
        while let Some(event) = running.event() {
            received.hear(&event);
            let arm = event["arm"].as_str().unwrap_or_default().to_owned();
            match event["event"].as_str() {
                // Three times running would end the trial, by rule.
                Some("run-started")
                    if lost_in_a_row.get(&arm).is_none_or(|lost| *lost < 2) && kills < WORKER_KILLS =>
                {
                    let (stage, longest) = RUN[kills % RUN.len()];
                    target = Some((stage, Duration::from_micros(dice.below(longest * 1000))));
                }
                Some("run-stage") if target.is_some_and(|(stage, _)| event["stage"] == stage) => {
                    support::pause(target.take().unwrap().1);
                    let struck =
                        strike(&running, victims[(kills + kills / RUN.len()) % victims.len()], false);
                    if struck {
                        kills += 1;
                        strikes += 1;
                        tally.add(received.place());
                    }
                }
                Some("run-ended") if event["failure"].is_null() => {
                    lost_in_a_row.remove(&arm);
                }
                Some("run-ended") => {
                    *lost_in_a_row.entry(arm).or_default() += 1;
                    if !support::is_stall(&event["failure"]) {
                        assert_eq!(event["failure"]["kind"], "lost", "{event}");
                        lost += 1;
                        // A late strike may hit the worker of the next run.
                        assert!(lost <= strikes, "a run failed that nobody killed: {event}");
                    }
                }
                _ => {}
            }
            if event["event"] == "run-ended" {
                target = None;
            }
        }
        let ended = running.end(PATIENCE);
        assert!([0, 3].contains(&ended.code()), "session {session}: {ended:?}");
        killed.check(&before, &received, &format!("session {session}"));
        assert_eq!(
            killed.lab.ledger_entries(),
            Vec::<String>::new(),
            "the command cleans up after its workers"
        );
        let trials = killed.lab.trials();
        let stored = trials.last().unwrap()["failed_runs"].as_u64().unwrap();
        assert!(stored >= lost, "{lost} runs were lost, {stored} are stored as failed");
    }
    assert!(kills >= WORKER_KILLS, "only {kills} kills");
    tally.say(name);
    killed.finish(&mut dice);
}

/// A worker lost while it inspects an arm is replaced by another one; the trial continues.
#[test]
fn a_worker_killed_while_an_arm_is_inspected_is_replaced() {
    let name = "a_worker_killed_while_an_arm_is_inspected_is_replaced";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let mut dice = Dice::new(3);
    let killed = Killed::new(&format!("ext4 xfs {SMALL} --device image:images"));
    let mut tally = Tally::default();
    for (index, (stage, longest)) in INSPECTION.iter().cycle().take(10).enumerate() {
        let victim = [Victim::Inner, Victim::Workers, Victim::Outer][index % 3];
        let delay = Duration::from_micros(dice.below(longest * 500));
        let (mut running, before) = killed.session("");
        let mut received = Heard::default();
        assert!(wait_until(&mut running, &mut received, Moment::Inspecting(stage), 1 + dice.below(2), delay));
        if strike(&running, victim, false) {
            tally.add(received.place());
        }
        // Too late to matter: the inspection had ended. Then it is the command that has to go.
        while let Some(event) = running.event() {
            received.hear(&event);
            if event["event"] == "run-started" {
                running.signal(Signal::INT);
            }
        }
        let ended = running.end(PATIENCE);
        assert_eq!(ended.code(), 130, "{stage} {victim:?}: {ended:?}");
        killed.check(
            &before,
            &received,
            &format!("{victim:?} killed while inspecting, {delay:?} into {stage}"),
        );
        assert_eq!(killed.lab.ledger_entries(), Vec::<String>::new());
    }
    tally.say(name);
    killed.finish(&mut dice);
}

/// Folders in directories of the user are all that a killed trial of directories leaves.
#[test]
fn folders_of_killed_directory_trials_are_cleaned() {
    let name = "folders_of_killed_directory_trials_are_cleaned";
    let mut dice = Dice::new(4);
    let killed = Killed::new(
        "dir:dirs/a dir:dirs/b --duration 100ms --set workload.warmup=20ms --workload random-write --set workload.file_size=16MiB --threads 1",
    );
    let folders = [killed.lab.path("dirs/a"), killed.lab.path("dirs/b")];
    folders.iter().for_each(|folder| fs::create_dir(folder).unwrap());
    fs::write(folders[0].join("precious"), "of the user").unwrap();
    let left = || folders.iter().flat_map(|folder| support::names_in(folder)).collect::<Vec<_>>();
    let stages = [("layout", 60), ("settle", 30), ("load", 150), ("unmount", 20)];
    let mut seen = 0;
    let mut tally = Tally::default();
    for index in 0..12 {
        let (stage, longest) = stages[index % stages.len()];
        let (mut running, before) = killed.session("");
        let mut received = Heard::default();
        let delay = Duration::from_micros(dice.below(longest * 1000));
        if wait_until(&mut running, &mut received, Moment::Running(stage), 1, delay) {
            strike(&running, [Victim::Command, Victim::Everything][index % 2], false);
            tally.add(received.place());
        }
        while let Some(line) = running.line() {
            if let Ok(event) = serde_json::from_str(&line) {
                received.hear(&event);
            }
        }
        running.end(PATIENCE);
        killed.check(&before, &received, &format!("{stage} of a directory"));
        seen += usize::from(left().len() > 1);
        if index % 3 == 0 {
            // A recorded step may not have happened yet, or may be undone already; never the other way round.
            let would = killed.lab.run("clean --dry-run").stdout;
            assert!(left().len() == 1 || would.contains("delete the folder"), "{would}");
            killed.lab.clean();
            assert_eq!(left(), ["precious"]);
        }
    }
    tally.say(name);
    assert!(seen > 0, "no kill left a folder: this test tests nothing");
    // The next command removes the leftovers of the last one.
    let (running, _) = killed.session("--budget 2s");
    let ended = running.end(PATIENCE);
    assert!([0, 3].contains(&ended.code()), "{ended:?}");
    assert_eq!(left(), ["precious"]);
    assert_eq!(killed.lab.ledger_entries(), Vec::<String>::new());
}

/// A zram device belongs to no process: the ledger has it.
#[test]
fn zram_devices_of_killed_commands_are_removed() {
    let name = "zram_devices_of_killed_commands_are_removed";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    if !Path::new("/sys/class/zram-control/hot_add").exists() || Path::new("/dev/ram0").exists() {
        return support::skip(name, "needs zram, and no brd, which is preferred");
    }
    let _alone = ZRAM.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut dice = Dice::new(5);
    let killed = Killed::new(&format!("ext4 raw {SMALL} --device ramdisk"));
    let mut tally = Tally::default();
    for (index, (stage, longest)) in RUN.iter().enumerate() {
        let (mut running, before) = killed.session("");
        let mut received = Heard::default();
        let ready = loop {
            let event = running.event().unwrap();
            received.hear(&event);
            if event["event"] == "device-ready" {
                break event;
            }
        };
        let words = ready["device"].as_str().unwrap();
        let number = words.split_once("/dev/zram").and_then(|(_, rest)| rest.split_once(' ')).unwrap().0;
        let identity = || fs::read_to_string(format!("/sys/block/zram{number}/diskseq")).ok();
        let ours = identity();
        assert!(ours.is_some(), "{words}");
        let delay = Duration::from_micros(dice.below(longest * 500));
        assert!(wait_until(&mut running, &mut received, Moment::Running(stage), 1, delay), "{stage}");
        strike(&running, [Victim::Command, Victim::Everything][index % 2], false);
        tally.add(received.place());
        while let Some(line) = running.line() {
            if let Ok(event) = serde_json::from_str(&line) {
                received.hear(&event);
            }
        }
        assert!(running.end(PATIENCE).is_killed());
        killed.check(&before, &received, &format!("{stage} on zram"));
        assert_eq!(identity(), ours, "it outlives the command, or this test tests nothing");
        killed.lab.clean();
        assert_ne!(identity(), ours, "{words} is still there");
    }
    tally.say(name);
}

/// A canary: the detector must notice every kind of leak.
#[test]
fn the_detector_sees_a_leak_of_every_kind() {
    let name = "the_detector_sees_a_leak_of_every_kind";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    assert_eq!(lab.leaks(), Vec::<String>::new());
    let image = lab.images().join("leaked.img");
    fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
    assert!(lab.leaks() == ["file leaked.img"], "{:?}", lab.leaks());
    let device = lab.loop_device(&image);
    let path = device.path().display().to_string();
    support::tool("mkfs.ext4", &["-q", &path]);
    let point = lab.path("point");
    fs::create_dir(&point).unwrap();
    support::tool("mount", &[&path, point.to_str().unwrap()]);
    let mut process = lab.prepare("sleep");
    let process = Running::start({
        process.arg("600");
        process
    });
    // A process that has only just begun has no environment yet.
    let has_process = || lab.leaks().iter().any(|leak| leak.starts_with("process "));
    support::eventually(support::SETTLE, has_process);
    let all = lab.leaks();
    support::unmount(&point);
    drop(process);
    for kind in ["file leaked.img", "process ", "loop device ", " mounted on "] {
        assert!(all.iter().any(|leak| leak.contains(kind)), "no `{kind}` in {all:?}");
    }
    device.close();
    fs::remove_file(&image).unwrap();
    lab.assert_nothing_left("after the canary");
}
