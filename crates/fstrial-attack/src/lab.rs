//! The place of an attack: a folder with a home, loop devices on files in it, and the program. Everything is deleted
//! when the lab is dropped.

use crate::child::{self, Ended};
use std::{
    fs::{self, File},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, LazyLock, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tempfile::TempDir;

/// Longer than any command takes that is not stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// The workspace's folder.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the sources are there")
}

/// True if the attack was asked to end. Attempts poll it, so that labs are dropped in order.
pub(crate) fn interrupted() -> bool {
    static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| {
        let requested = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
        {
            let _ = signal_hook::flag::register(signal, Arc::clone(&requested));
        }
        requested
    });
    ASKED.load(Ordering::Relaxed)
}

/// The target of the attack: a build of the program, with a planted fault or not.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(crate) program: PathBuf,
    pub(crate) plant: Option<&'static str>,
    /// Only this case of an area.
    pub(crate) only: Option<String>,
    /// Leave out long cases.
    pub(crate) small: bool,
}

impl Subject {
    /// True if a case is selected.
    pub(crate) fn wants(&self, case: &str) -> bool {
        !interrupted() && self.only.as_deref().is_none_or(|only| only == case)
    }
}

/// A folder with a home.
pub(crate) struct Lab {
    folder: TempDir,
    subject: Subject,
}

impl Lab {
    /// On a disk: images need direct I/O, which memory cannot do.
    pub(crate) fn new(subject: &Subject) -> Self {
        Self::below(subject, &workspace().join("target/attacks"))
    }

    /// In another folder.
    pub(crate) fn below(subject: &Subject, parent: &Path) -> Self {
        fs::create_dir_all(parent).expect("a folder can be made");
        let folder = tempfile::Builder::new().prefix("fstrial-attack-").tempdir_in(parent);
        let lab = Self { folder: folder.expect("a folder can be made"), subject: subject.clone() };
        for name in ["images", "dirs/a", "dirs/b"] {
            fs::create_dir_all(lab.path(name)).expect("a folder can be made");
        }
        lab
    }

    /// A file or folder in it, without symbolic links, as the kernel names it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().expect("it is there").join(name)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.path("home")
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).expect("a folder can be made");
        }
        fs::write(&path, text).expect("a file can be written");
        path
    }

    /// The program behind others that set the scene (`prlimit --as=1G`), not yet started.
    pub(crate) fn behind(&self, scene: &[&str], words: &str) -> Command {
        let mut command = match scene {
            [] => child::command(&self.subject.program),
            [first, rest @ ..] => {
                let mut command = child::command(first);
                command.args(rest).arg(&self.subject.program);
                command
            }
        };
        command
            .args(words.split_whitespace())
            .current_dir(self.folder.path())
            .env("FSTRIAL_HOME", self.home())
            .env("NO_COLOR", "1")
            .env_remove("FSTRIAL_PLANT");
        if let Some(plant) = self.subject.plant {
            command.env("FSTRIAL_PLANT", plant);
        }
        command
    }

    /// The program with words separated by spaces, not yet started.
    pub(crate) fn fstrial(&self, words: &str) -> Command {
        self.behind(&[], words)
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, words: &str) -> Ended {
        child::run(&mut self.fstrial(words), PATIENCE)
    }

    /// The program's own path, for scripts.
    pub(crate) fn program(&self) -> String {
        self.subject.program.display().to_string()
    }

    /// Puts a store with two trials into the home.
    pub(crate) fn with_trials(&self) -> Result<(), String> {
        self.write("home/results.db", store_with_trials(&self.subject)?);
        fs::set_permissions(self.home(), fs::Permissions::from_mode(0o700)).map_err(|error| error.to_string())
    }

    /// Everything in the folder of the ledger.
    pub(crate) fn ledger(&self) -> Vec<String> {
        names_in(&self.home().join("ledger"))
    }

    /// A loop device on a file of this many MiB, without an open descriptor, like a disk.
    pub(crate) fn disk(&self, name: &str, mib: u64) -> Result<Disk, String> {
        let file = self.path(name);
        File::create(&file).and_then(|made| made.set_len(mib << 20)).map_err(|e| format!("{name}: {e}"))?;
        Disk::attach(&file, &[])
    }
}

/// A store with two trials that really ran.
pub(crate) fn store_with_trials(subject: &Subject) -> Result<&'static [u8], String> {
    static MADE: OnceLock<Result<Vec<u8>, String>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let lab = Lab::new(&Subject { plant: None, ..subject.clone() });
        let words = "compare a=dir:dirs/a b=dir:dirs/b --workload random-write,append-fsync --set workload.file_size=1MiB --threads 1 \
                     --duration 50ms --set workload.warmup=20ms --rounds 4 --json --no-page";
        for _ in 0..2 {
            let ended = lab.run(words);
            if !matches!(ended.code(), Some(0 | 3)) {
                return Err(format!("no trial could be run: {}", ended.last_words()));
            }
        }
        fs::read(lab.home().join("results.db")).map_err(|error| error.to_string())
    });
    made.as_deref().map_err(Clone::clone)
}

impl Drop for Lab {
    fn drop(&mut self) {
        if !self.ledger().is_empty() {
            let _ = child::run(&mut self.fstrial("clean"), PATIENCE / 3);
        }
    }
}

/// A loop device of the lab. Only that one is detached, whichever device has its number later.
pub(crate) struct Disk {
    pub(crate) path: String,
    file: PathBuf,
    diskseq: Option<u64>,
}

impl Disk {
    /// Attaches a file (or another device), with further words for `losetup`.
    pub(crate) fn attach(file: &Path, words: &[&str]) -> Result<Self, String> {
        let name = file.display().to_string();
        let path = child::tool("losetup", &[words, &["--find", "--show", &name]].concat())?;
        let diskseq = number(&sysfs(&path).join("diskseq"));
        Ok(Self { path, file: file.into(), diskseq })
    }

    /// The settings of its queue.
    pub(crate) fn settings(&self) -> Vec<String> {
        let read = |name| {
            let value = fs::read_to_string(sysfs(&self.path).join("queue").join(name)).unwrap_or_default();
            format!("{name} {}", value.trim())
        };
        ["scheduler", "nr_requests", "read_ahead_kb", "write_cache"].map(read).to_vec()
    }

    /// A digest of its content.
    pub(crate) fn sum(&self) -> Result<String, String> {
        let _ = child::tool("sync", &["--data", &self.file.display().to_string()]);
        child::tool("md5sum", &["--binary", &self.path])
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if number(&sysfs(&self.path).join("diskseq")) == self.diskseq {
            let _ = child::tool("losetup", &["--detach", &self.path]);
        }
    }
}

/// Something that is undone by a program: a mount, swap.
pub(crate) struct Undone(Vec<String>);

impl Undone {
    /// Does something that another program undoes later.
    pub(crate) fn after(words: &[&str], undo: &[&str]) -> Result<Self, String> {
        child::tool(words[0], &words[1..])?;
        Ok(Self(undo.iter().map(|word| (*word).to_owned()).collect()))
    }
}

impl Drop for Undone {
    fn drop(&mut self) {
        let words: Vec<&str> = self.0.iter().map(String::as_str).collect();
        // A mount may be open in a probe for a moment.
        child::eventually(Duration::from_secs(10), || child::tool(words[0], &words[1..]).is_ok());
    }
}

pub(crate) fn sysfs(device: &str) -> PathBuf {
    Path::new("/sys/block").join(device.trim_start_matches("/dev/"))
}

pub(crate) fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

pub(crate) fn names_in(folder: &Path) -> Vec<String> {
    let listing = fs::read_dir(folder).into_iter().flatten().flatten();
    listing.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
