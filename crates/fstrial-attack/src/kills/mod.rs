//! A kill campaign: trials of every kind are killed in every way at random moments. Then `fstrial clean` must leave the
//! host as it was, and the store whole; after a polite signal even without it.

mod traces;
mod ways;

use crate::{
    child,
    dice::Dice,
    lab::{Disk, Lab, PATIENCE, Subject, interrupted, names_in, workspace},
    table::Area,
};
use fstrial_stack::command::find;
use fstrial_store::Store;
use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::{PermissionsExt, symlink},
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    process::Stdio,
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};
use traces::Traces;
use ways::{End, WAYS, Way};

/// Flags that make a trial as small as filesystems allow.
const SMALL: &str = "--duration 100ms --set workload.warmup=20ms --workload random-write --set workload.file_size=16MiB --threads 1";
/// A freeze long enough to be hit by a kill.
const FREEZE: &str = "use = 'op-freeze'\nduration = '50ms'\nhold = '50s'\nrepeat = 1\nthreads = [2]";
const PROGRAM: &str = "kind = 'program'\nthreads = [1]\nfile_size = '16MiB'\n\
    command = ['dd', 'if=/dev/zero', 'of=file', 'bs=1M', 'count=400', 'conv=fsync']\n\
    [[metric]]\nname = 'wall'\nmeasure = 'wall'\n";

/// A load that lasts longer than any kill waits, so that its arm is certainly set up when the kill comes.
const LONG: &str = "kind = 'program'\nthreads = [1]\nfile_size = '16MiB'\ncommand = ['sleep', '10']\n\
    [[metric]]\nname = 'wall'\nmeasure = 'wall'\n";
const SERVER: &str = "kind = 'program'\nthreads = [1]\nfile_size = '16MiB'\ncommand = ['sleep', '2']\n\
    [server]\nready = ['test', '-e', '{dir}/up']\n\
    start = ['sh', '-c', 'trap \"exit 0\" TERM; setsid sleep 1000 & touch {dir}/up; while :; do sleep 0.05; done']\n\
    [[metric]]\nname = 'wall'\nmeasure = 'wall'\n";

/// An agent in private namespaces, which does not see the folders of the trial.
const BOX: &str = "#!/bin/sh\nmkdir -p -m 700 {home} {images}\nexec unshare --mount --pid --net --uts --fork --mount-proc --propagation private sh -c '\
    mount -t tmpfs none {home} && mount -t tmpfs none {images} && cd / && exec {program} agent --home {there}'\n";
/// The kind of trial with a place, which has a separate home to clean.
const AT_A_PLACE: &str = "place";

/// Trials in guests.
const GUESTS: &str = "guests";

/// The cache of kernels that the tests fetch.
fn kernels() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    workspace().join(target).join("tmp/kernels")
}

/// A kind of trial: its name, the arguments, and the event after which it is interesting.
struct Kind {
    name: &'static str,
    words: &'static str,
    /// The stage that a kill waits for; any if empty.
    stage: &'static str,
}

/// Every kind of trial that leaves something else behind. `{small}` are the flags of all, `{disk}` a loop device.
const KINDS: [Kind; 20] = [
    kind("image", "ext4 xfs {small} --set device.size=320MiB --device image:images", ""),
    kind(
        "settings",
        "ext4:scheduler=none,read_ahead=64KiB xfs {small} --set device.size=320MiB --device image:images",
        "",
    ),
    kind("ramdisk", "ext4 xfs {small} --set device.size=320MiB --device ramdisk", ""),
    kind("model", "ext4 xfs {small} --set device.size=320MiB --device model:nvme", ""),
    kind(
        "aged",
        "ext4 xfs {small} --set device.size=320MiB --device image:images --state aged:40%:turnovers=1",
        "",
    ),
    kind(
        "log",
        "ext4:log=external xfs {small} --set device.size=320MiB --device image:images --set log_device.kind=image --set log_device.path=images --set log_device.size=64MiB",
        "",
    ),
    kind(
        "btrfs",
        "btrfs b=btrfs:profile=raid1 {small} --set device.size=320MiB --device ramdisk --set device.members=2",
        "",
    ),
    kind(
        "find-rate",
        "ext4 xfs {small} --set device.size=320MiB --device image:images --find-rate p50<1s",
        "",
    ),
    kind(
        "program",
        "ext4 xfs --workload program.toml --set device.size=640MiB --device image:images",
        "load",
    ),
    kind("server", "ext4 xfs --workload server.toml --set device.size=320MiB --device image:images", "load"),
    kind("freeze", "ext4 xfs --workload freeze.toml --set device.size=320MiB --device image:images", "load"),
    kind("fill", "ext4 xfs --workload op-fill --set device.size=640MiB --device image:images", ""),
    kind("recovery", "ext4 xfs --workload op-recovery --set device.size=640MiB --device image:images", ""),
    kind(
        "directory",
        "a=dir:dirs/a b=dir:dirs/b --workload random-write,create-files --set workload.file_size=4MiB --threads 1 --duration 100ms --set workload.warmup=20ms",
        "",
    ),
    kind(
        "memory",
        "ext4:memory=48MiB xfs {small} --set device.size=320MiB --device image:images --set trial.memory=64MiB",
        "",
    ),
    kind(
        "disk",
        "ext4:scheduler=none,read_ahead=64KiB xfs {small} --device disk --erase {disk} --erase-signature ext4 --erase-signature xfs",
        "",
    ),
    kind(
        "disk-settings",
        "ext4:scheduler=none,read_ahead=64KiB b=ext4:read_ahead=32KiB --workload long.toml --device disk --erase {disk} --erase-signature ext4 --erase-signature xfs",
        "load",
    ),
    kind(
        AT_A_PLACE,
        "ext4@box xfs@box {small} --set device.size=320MiB --device image --place box={box}",
        "",
    ),
    kind(
        GUESTS,
        "ext4@6.1 xfs@6.1 --workload append-fsync --threads 1 --duration 100ms --set device.size=320MiB --device image --decide-on device-bytes",
        "",
    ),
    kind(
        "home-below-mnt",
        "ext4 xfs --workload freeze.toml --set device.size=320MiB --device image:images",
        "load",
    ),
];

const fn kind(name: &'static str, words: &'static str, stage: &'static str) -> Kind {
    Kind { name, words, stage }
}

/// Number and kinds.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) seed: u64,
    pub(crate) kills: u64,
    /// Time for everything to be gone.
    pub(crate) patience: Duration,
}

/// Kills trials.
pub(crate) fn attack(subject: &Subject, options: &Options) -> Area {
    let mut area = Area::of("kills", subject);
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/loop-control").exists() {
        area.skip("all", "needs root and loop devices");
        return area.finish();
    }
    let place = KillSite::new(subject);
    let mut kinds: Vec<&Kind> =
        KINDS.iter().filter(|kind| subject.only.as_deref().is_none_or(|only| only == kind.name)).collect();
    let has_guests = find("qemu-system-x86_64").is_some() && kernels().join("6.1/release").exists();
    if !has_guests && kinds.iter().any(|kind| kind.name == GUESTS) {
        area.skip(GUESTS, "needs QEMU, and the kernel 6.1 that the tests fetch");
        kinds.retain(|kind| kind.name != GUESTS);
    }
    if kinds.is_empty() {
        return area.finish();
    }
    let mut order = Dice::new(options.seed, "order", 0);
    let mut left: Vec<(&Kind, Way)> = Vec::new();
    for number in 0..options.kills {
        if interrupted() {
            break;
        }
        // Every pair once in random order, then again.
        if left.is_empty() {
            left = kinds.iter().flat_map(|kind| WAYS.map(|way| (*kind, way))).collect();
        }
        let (kind, way) = left.swap_remove(order.below(left.len()));
        if subject.plant.is_some() && way.end() != End::Killed {
            continue;
        }
        let mut dice = Dice::new(options.seed, "kill", number);
        let case = format!("{} {way:?} {number}", kind.name);
        let result =
            panic::catch_unwind(AssertUnwindSafe(|| place.kill(kind, way, &mut dice, options.patience)));
        let result = result.unwrap_or_else(|_| Err("the attack itself failed".into()));
        let again = format!("cargo xtask attack kills --kills {} --seed {}", number + 1, options.seed);
        area.tried(&case, result, &again);
        // One is enough for a planted fault; many are the same.
        if area.findings.len() > if subject.plant.is_some() { 0 } else { 20 } {
            break;
        }
    }
    area.finish()
}

/// Places of killed trials: one lab for all, one with its home below `/mnt`, and a disk.
struct KillSite {
    lab: Lab,
    below_mnt: Option<Lab>,
    disk: Disk,
}

impl KillSite {
    fn new(subject: &Subject) -> Self {
        let prepare = |lab: Lab| {
            let link = || symlink(kernels(), lab.home().join("kernels"));
            fs::create_dir_all(lab.home()).and_then(|()| link()).expect("it is ours");
            lab.write("freeze.toml", FREEZE);
            lab.write("program.toml", PROGRAM);
            lab.write("long.toml", LONG);
            lab.write("server.toml", SERVER);
            let of = |name: &str| lab.path(name).display().to_string();
            let script = lab.write(
                "box.sh",
                BOX.replace("{home}", &of("home"))
                    .replace("{images}", &of("images"))
                    .replace("{program}", &lab.program())
                    .replace("{there}", &of("there")),
            );
            fs::set_permissions(script, fs::Permissions::from_mode(0o755)).expect("it is ours");
            lab
        };
        let lab = prepare(Lab::new(subject));
        let mnt = Path::new("/mnt");
        let below_mnt = mnt.is_dir().then(|| prepare(Lab::below(subject, mnt)));
        let disk = lab.disk("disk.img", 400).expect("a loop device is available");
        Self { lab, below_mnt, disk }
    }

    /// Starts a trial, kills it, cleans, and looks.
    fn kill(&self, kind: &Kind, way: Way, dice: &mut Dice, patience: Duration) -> Result<(), String> {
        let lab = match (&self.below_mnt, kind.name) {
            (Some(lab), "home-below-mnt") => lab,
            _ => &self.lab,
        };
        let script = lab.path("box.sh").display().to_string();
        let words = kind.words.replace("{small}", SMALL).replace("{disk}", &self.disk.path);
        let words = words.replace("{box}", &script);
        let words = format!("compare {words} --rounds 40 --budget 5m --json --no-page");
        let settings = self.disk.settings();
        let mut started = ways::start(lab, way, &words);
        let events = events(&mut started.child);
        let traces = Traces::of(started.child.id(), lab);
        let moment = wait(&events, kind, dice);
        let struck = way.strike(&mut started);
        let (status, hung) = child::wait(&mut started.child, PATIENCE);
        let traces = traces.end();
        if hung {
            traces.take_down();
            return Err(format!("{moment}: did not end within {PATIENCE:?} ({struck})"));
        }
        let complaint = started.complaint();
        // It may have ended on its own before.
        let on_its_own = matches!(status.code(), Some(0 | 3));
        if !on_its_own && !way.may_end_so(status) {
            return Err(format!("{moment}: ended with {status} ({struck}): {complaint}"));
        }
        if way.end() == End::Polite {
            let gone =
                child::eventually(patience, || left(lab, &traces).is_empty() && lab.ledger().is_empty());
            if !gone {
                return Err(format!(
                    "{moment}: left before clean: {:?} {:?}",
                    left(lab, &traces),
                    lab.ledger()
                ));
            }
        }
        let mut cleaned = None;
        let clean = child::eventually(patience, || {
            let there = lab.path("there");
            let homes = [lab.home(), there.clone()].into_iter().filter(|home| home.is_dir());
            let all: Vec<_> =
                homes.map(|home| lab.run(&format!("clean --home {}", home.display()))).collect();
            let is_good = all.iter().all(|ended| ended.code() == Some(0) && ended.fault().is_none());
            cleaned = all.into_iter().next_back();
            is_good
                && names_in(&there.join("ledger")).is_empty()
                && lab.ledger().is_empty()
                && left(lab, &traces).is_empty()
        });
        if !clean {
            let left = left(lab, &traces);
            traces.take_down();
            let message = cleaned.map(|ended| format!("{} {}", ended.status, ended.last_words()));
            return Err(format!(
                "{moment}: left after clean: {left:?} {:?}; clean: {}",
                lab.ledger(),
                message.unwrap_or_default()
            ));
        }
        if self.disk.settings() != settings {
            return Err(format!(
                "{moment}: queue settings were {settings:?}, are {:?}",
                self.disk.settings()
            ));
        }
        check_store(&lab.home().join("results.db")).map_err(|problem| format!("{moment}: {problem}"))
    }
}

/// Leftovers of a trial of this lab on the host.
fn left(lab: &Lab, traces: &Traces) -> Vec<String> {
    let mut left = traces.left();
    for folder in ["images", "dirs/a", "dirs/b"] {
        left.extend(names_in(&lab.path(folder)).into_iter().map(|name| format!("{folder}/{name}")));
    }
    left
}

/// The lines of a command, as they come.
fn events(child: &mut std::process::Child) -> Receiver<String> {
    let (sender, events) = mpsc::channel();
    let stdout = child.stdout.take().expect("it is piped");
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // Anyone who does not listen any more still must not stop the command.
            let _ = sender.send(line);
        }
    });
    events
}

/// Waits for a random moment, and returns its name.
fn wait(events: &Receiver<String>, kind: &Kind, dice: &mut Dice) -> String {
    let (nth, delay) = match kind.stage {
        "" => (dice.below(24), Duration::from_millis(dice.below(250) as u64)),
        _ => (0, Duration::from_millis(60 + dice.below(500) as u64)),
    };
    let until = Instant::now() + Duration::from_secs(30);
    let wanted = format!("\"stage\":\"{}\"", kind.stage);
    let mut last = String::new();
    let mut seen = 0;
    let early = dice.below(8) == 0;
    while !kind.stage.is_empty() || seen < nth {
        let Ok(line) = events.recv_timeout(until.saturating_duration_since(Instant::now())) else { break };
        // Of an image that is being written there are many, and most kills are to come later.
        seen += usize::from(early || !line.contains("device-progress"));
        let in_run = line.contains("\"event\":\"run-stage\"") && line.contains(&wanted);
        last = line.chars().take(80).collect();
        if !kind.stage.is_empty() && in_run {
            break;
        }
    }
    child::pause(delay);
    format!("{delay:.0?} after event {seen} {last}")
}

/// Committed data are complete.
fn check_store(path: &Path) -> Result<(), String> {
    if !fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0) {
        return Ok(());
    }
    // Killed in a commit: a writer takes that back.
    let store = Store::open(path).map_err(|error| format!("the store does not open: {error}"))?;
    let problems = store.check().map_err(|error| format!("the store cannot be checked: {error}"))?;
    if problems.is_empty() { Ok(()) } else { Err(format!("the store is damaged: {problems:?}")) }
}

/// The standard streams of a command that is to be killed.
fn plain(command: &mut std::process::Command) {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
}
