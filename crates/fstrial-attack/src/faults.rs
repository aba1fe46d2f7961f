//! Failing ground: the filesystem of the home or of the images stops as in a power cut, or is full, at a random moment
//! of a trial. And every command is killed at random moments. Stored data must survive, and nothing may be left behind.

use crate::{
    child,
    dice::Dice,
    lab::{Lab, PATIENCE, Subject, Undone, interrupted, names_in},
    table::Area,
};
use fstrial_store::Store;
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, SystemTime},
};

const TRIAL: &str = "compare ext4 xfs --set device.size=320MiB --device image:images --workload random-write --set workload.file_size=16MiB --threads 1 \
                     --duration 60ms --set workload.warmup=20ms --rounds 8 --json --no-page";

/// The failing part.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// The filesystem of the home stops.
    HomeStops,
    /// The images' filesystem stops.
    ImagesStop,
    /// The home has no room.
    HomeFills,
}

/// Faults at random moments.
pub(crate) fn attack(subject: &Subject, seed: u64, count: u64) -> Area {
    let mut area = Area::of("faults", subject);
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/loop-control").exists() {
        area.skip("all", "needs root and loop devices");
        return area.finish();
    }
    for number in 0..count {
        let fault = [Fault::HomeStops, Fault::ImagesStop, Fault::HomeFills][number as usize % 3];
        if interrupted() || !subject.wants("faults") {
            break;
        }
        let mut dice = Dice::new(seed, "faults", number);
        let again = format!("cargo xtask attack faults --faults {} --seed {seed}", number + 1);
        area.tried(&format!("{fault:?} {number}"), strike(subject, fault, &mut dice), &again);
    }
    area.finish()
}

fn strike(subject: &Subject, fault: Fault, dice: &mut Dice) -> Result<(), String> {
    let lab = Lab::new(subject);
    let point = match fault {
        Fault::ImagesStop => lab.path("images"),
        _ => lab.home(),
    };
    fs::create_dir_all(&point).map_err(|e| e.to_string())?;
    let disk = lab.disk("ground.img", 800)?;
    let point_name = point.display().to_string();
    let make: &[&str] = match fault {
        Fault::HomeFills => &["mkfs.ext4", "-q", "-F", "-b", "1024", &disk.path, "6m"],
        _ => &["mkfs.xfs", "-q", "-f", &disk.path],
    };
    child::tool(make[0], &make[1..])?;
    let mount = || Undone::after(&["mount", &disk.path, &point_name], &["umount", &point_name]);
    let mounted = mount()?;
    let _ = fs::set_permissions(&point, std::os::unix::fs::PermissionsExt::from_mode(0o700));
    let mut trial = Running::start(&lab, TRIAL)?;
    // Of most trials some runs are stored by then; of some not even the image is there.
    match dice.below(4) {
        0 => trial.wait_for(&trial.lines, dice.below(60)),
        _ => trial.wait_for(&trial.runs, dice.below(14)),
    }
    child::pause(Duration::from_millis(dice.below(60) as u64));
    let stored = trial.runs.load(Ordering::Relaxed);
    match fault {
        Fault::HomeFills => fill(&point.join("filler")),
        _ => drop(child::tool("xfs_io", &["-x", "-c", "shutdown", &point_name])?),
    }
    if dice.below(3) == 0 {
        let _ = trial.child.kill();
    }
    let (status, hung) = child::wait(&mut trial.child, PATIENCE);
    let message = trial.end();
    if hung {
        return Err(format!("did not end within {PATIENCE:?}"));
    }
    if message.contains("panicked at") || !matches!(status.code(), None | Some(0 | 2 | 3 | 10..=15)) {
        return Err(format!("{status}: {}", message.chars().take(300).collect::<String>()));
    }
    let _ = fs::remove_file(point.join("filler"));
    // The power is back: the log of the filesystem is replayed.
    let ground = match fault {
        Fault::HomeFills => mounted,
        _ => {
            drop(mounted);
            // A killed worker may take a while to end.
            let is_gone = || {
                let _ = child::tool("umount", &[&point_name]);
                !is_mounted_anywhere(&format!(" {} ", disk.path))
            };
            if !child::eventually(PATIENCE, is_gone) {
                return Err("the filesystem that stopped is still mounted: a process holds it".into());
            }
            mount()?
        }
    };
    before_a_boot(&lab)?;
    let mut message = String::new();
    let clean = child::eventually(PATIENCE, || {
        let cleaned = lab.run("clean");
        message = format!("{:?} {}", cleaned.code(), cleaned.last_words());
        cleaned.code() == Some(0) && lab.ledger().is_empty()
    });
    if !clean {
        return Err(format!("clean: {message} {:?}", lab.ledger()));
    }
    let left = names_in(&lab.path("images"));
    if !left.is_empty() {
        return Err(format!("left: {left:?}"));
    }
    let result = whole(&lab.home().join("results.db"), stored);
    drop(ground);
    result
}

/// The power cut counts as a boot: unsynced entries that lost their content are older.
fn before_a_boot(lab: &Lab) -> Result<(), String> {
    let entries = lab.ledger().into_iter().map(|name| lab.home().join("ledger").join(name));
    for path in entries.filter(|path| fs::read(path).is_ok_and(|words| words.iter().all(|byte| *byte == 0))) {
        let file = File::options().write(true).open(&path);
        file.and_then(|file| file.set_modified(SystemTime::UNIX_EPOCH)).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// True if a mount namespace of some process has a filesystem of this device: mounting it again would give the stopped
/// one.
fn is_mounted_anywhere(device: &str) -> bool {
    let is_it = |path: PathBuf| fs::read_to_string(path).is_ok_and(|all| all.contains(device));
    fs::read_dir("/proc").is_ok_and(|all| all.flatten().any(|entry| is_it(entry.path().join("mountinfo"))))
}

/// The store is sound, and has at least this many runs.
fn whole(path: &Path, runs: u64) -> Result<(), String> {
    if runs == 0 && !fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0) {
        return Ok(());
    }
    let store = Store::open(path).map_err(|error| format!("the store does not open: {error}"))?;
    let problems = store.check().map_err(|error| format!("the store cannot be checked: {error}"))?;
    if !problems.is_empty() {
        return Err(format!("the store is damaged: {problems:?}"));
    }
    let trials = store.trials().map_err(|error| error.to_string())?;
    let has: u64 = trials.iter().map(|trial| trial.runs).sum();
    if has < runs { Err(format!("{has} runs are stored, {runs} were reported")) } else { Ok(()) }
}

fn fill(path: &Path) {
    if let Ok(mut file) = File::create(path) {
        while file.write_all(&[1; 4096]).is_ok() {}
    }
}

/// A trial in progress; its messages are counted.
struct Running {
    child: Child,
    lines: Arc<AtomicU64>,
    /// Runs reported as finished: they are stored by then.
    runs: Arc<AtomicU64>,
    readers: Vec<thread::JoinHandle<String>>,
}

impl Running {
    fn start(lab: &Lab, words: &str) -> Result<Self, String> {
        let mut command = lab.fstrial(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let (lines, runs) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (counts, ends) = (Arc::clone(&lines), Arc::clone(&runs));
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let stderr = child.stderr.take().expect("it is piped");
        let out = thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                ends.fetch_add(u64::from(line.contains("\"event\":\"run-ended\"")), Ordering::Relaxed);
                counts.fetch_add(1, Ordering::Relaxed);
            }
            String::new()
        });
        let complaints = thread::spawn(move || std::io::read_to_string(stderr).unwrap_or_default());
        Ok(Self { child, lines, runs, readers: vec![out, complaints] })
    }

    fn wait_for(&self, counter: &AtomicU64, count: usize) {
        let is_over = || counter.load(Ordering::Relaxed) >= count as u64;
        child::eventually(Duration::from_secs(20), || is_over() || self.readers[0].is_finished());
    }

    /// Its complaints.
    fn end(self) -> String {
        self.readers.into_iter().map(|reader| reader.join().unwrap_or_default()).collect()
    }
}

/// Commands that are killed. `{home}` is another one's store.
const COMMANDS: [&str; 14] = [
    "results export 1 --format store --out out.db",
    "results export --format parquet --out out.parquet",
    "results import {home}/results.db",
    "results import {home}/results.db {home}/results.db --tag nightly",
    "report 1 2 --out page.html",
    "results export 1 --format fio --out fio",
    "results rm 2 --yes",
    "results tag 1 nightly",
    "results list",
    "trend b/a",
    "resume 1 --budget 20s",
    "doctor",
    "claims check append-fsync-reflink",
    "run trial.toml",
];

/// Kills every command at random moments.
pub(crate) fn commands(subject: &Subject, seed: u64, count: u64) -> Area {
    let mut area = Area::of("commands", subject);
    let other = Lab::new(subject);
    if let Err(problem) = other.with_trials() {
        area.tried("commands", Err(format!("the attack itself failed: {problem}")), "");
        return area.finish();
    }
    for number in 0..count {
        if interrupted() || !subject.wants("commands") {
            break;
        }
        let mut dice = Dice::new(seed, "commands", number);
        let words =
            COMMANDS[number as usize % COMMANDS.len()].replace("{home}", &other.home().display().to_string());
        let again = format!("cargo xtask attack commands --faults {} --seed {seed}", number + 1);
        area.tried(&format!("{words} {number}"), kill(subject, &words, &mut dice), &again);
    }
    area.finish()
}

fn kill(subject: &Subject, words: &str, dice: &mut Dice) -> Result<(), String> {
    let lab = Lab::new(subject);
    lab.with_trials()?;
    let temporary = lab.path("tmp");
    fs::create_dir_all(&temporary).map_err(|e| e.to_string())?;
    lab.write("trial.toml", "[trial]\nrounds = 4\n[device]\nkind = \"image\"\npath = \"images\"\nsize = \"320MiB\"\n[[arm]]\nfilesystem = \"ext4\"\n[[arm]]\nfilesystem = \"xfs\"\n[[workload]]\nuse = \"random-write\"\nthreads = [1]\nfile_size = \"16MiB\"\nduration = \"100ms\"\nwarmup = \"20ms\"\n");
    let mut command = lab.fstrial(words);
    command.env("TMPDIR", &temporary).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut started = command.spawn().map_err(|error| error.to_string())?;
    let longest = [20, 200, 2000][dice.below(3)];
    child::pause(Duration::from_micros(dice.below(longest * 1000) as u64));
    let signal = ["KILL", "KILL", "TERM", "INT"][dice.below(4)];
    let _ = child::tool("kill", &["-s", signal, &started.id().to_string()]);
    let (_, hung) = child::wait(&mut started, PATIENCE);
    if hung {
        return Err(format!("did not end after SIG{signal}"));
    }
    let clean = || {
        let cleaned = child::run(lab.fstrial("clean").env("TMPDIR", &temporary), PATIENCE);
        cleaned.code() == Some(0) && lab.ledger().is_empty()
    };
    if !child::eventually(Duration::from_secs(20), clean) {
        return Err(format!("SIG{signal}: left in the ledger: {:?}", lab.ledger()));
    }
    let is_part = |name: &String| name.ends_with(".part") || name.starts_with('.');
    let mut left = names_in(&temporary);
    left.extend(names_in(&lab.path("")).into_iter().filter(is_part));
    left.extend(names_in(&lab.path("images")));
    if !left.is_empty() {
        return Err(format!("SIG{signal}: left: {left:?}"));
    }
    let out = lab.path("out.db");
    if out.exists() {
        whole(&out, 1)?;
    }
    whole(&lab.home().join("results.db"), 1)
}
