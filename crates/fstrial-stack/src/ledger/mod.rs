//! The ledger: undo steps for changes that a process's death does not undo. Written before the change, deleted after
//! the undo; `fstrial clean` replays the leftovers of dead processes.
//!
//! One file per step, so that writing and deleting are single atomic operations of the filesystem. The folder is opened
//! once and used by its descriptor: a worker may mount over its path. Its content is acted on as root, so only files
//! that no other user could have written are trusted ([`PrivateDir`]), and only changes that are provably ours are
//! undone (`undoing`, [`owner`]). An unreadable or doubtful entry is left, reported, and does not stop the others.

mod owner;
mod undo;

use crate::{error::StackError, named::OwnFolder, private_dir::PrivateDir};
use owner::{Life, Owner, started};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

pub use owner::namespace_of;
pub use undo::{NodeMark, Undo};

/// Time limit for threads that wrote to a frozen filesystem to end after the thaw.
const LAST_THREADS: Duration = Duration::from_secs(10);
/// Most bytes of an entry.
const MAX_BYTES: u64 = 64 << 10;
/// The folder of the ledger in a home.
const FOLDER: &str = "ledger";
const ENTRY: &str = ".json";
const PARTIAL: &str = ".partial";

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    owner: Owner,
    /// When it was written, in nanoseconds since the machine was booted.
    at: u64,
    #[serde(flatten)]
    undo: Undo,
}

/// An entry as read.
#[derive(Debug)]
struct ReadEntry {
    name: OsString,
    entry: Entry,
}

/// The ledger of this host, in one folder.
#[derive(Debug, Clone)]
pub struct Ledger {
    dir: Arc<PrivateDir>,
    owner: u32,
    /// The process namespace in which `owner` is a number.
    namespace: u64,
    /// True if no other command works with it.
    alone: bool,
    /// Entries of earlier commands that stay, and were reported.
    aside: Arc<BTreeSet<OsString>>,
}

/// A step written down; strike it out when the change has been undone.
#[must_use]
#[derive(Debug)]
pub struct LedgerEntry {
    dir: Arc<PrivateDir>,
    name: OsString,
    undo: Undo,
}

/// The outcome for one entry.
#[derive(Debug)]
pub struct ReplayedEntry {
    /// Its file.
    entry: OsString,
    /// The undo step.
    pub undo: String,
    /// An error if the undo step failed.
    pub result: Result<(), StackError>,
    /// True if another trial may begin despite the failure.
    pub is_harmless: bool,
}

/// An entry that was left alone.
#[derive(Debug)]
pub struct SkippedEntry {
    /// Path of the entry in the ledger's folder.
    pub file: PathBuf,
    /// The undo step, if it is readable.
    pub undo: Option<String>,
    /// Why it was left.
    pub why: String,
    /// True if its process, or the command that started it, was killed and it has not ended: it may in a moment.
    pub is_ending: bool,
}

/// The outcome of a replay.
#[derive(Debug, Default)]
pub struct Report {
    /// Steps that were undone, or could not be.
    pub done: Vec<ReplayedEntry>,
    /// Steps that were not touched.
    pub left: Vec<SkippedEntry>,
}

static COUNTER: AtomicU64 = AtomicU64::new(0);

impl Ledger {
    /// The ledger of a home, for changes that belong to this process. Its folder is made.
    ///
    /// # Errors
    /// The folder cannot be made, or others can write to it.
    pub fn of_home(home: &PrivateDir) -> Result<Self, StackError> {
        Self::of(home.make_folder(FOLDER)?, std::process::id(), namespace_of("self")?)
    }

    /// The same if there is one.
    ///
    /// # Errors
    /// Others can write to the folder.
    pub fn existing(home: &PrivateDir) -> Result<Option<Self>, StackError> {
        let dir = home.folder(FOLDER)?;
        dir.map(|dir| Self::of(dir, std::process::id(), namespace_of("self")?)).transpose()
    }

    /// The ledger in a folder, which is made, for changes that belong to the process `owner`.
    ///
    /// # Errors
    /// The folder cannot be made, or others can write to it.
    pub fn open(folder: &Path, owner: u32) -> Result<Self, StackError> {
        Self::of(PrivateDir::make(folder)?, owner, namespace_of("self")?)
    }

    /// The ledger in a folder, for changes of this process in any namespace, with the process that started it in the
    /// namespace that `/proc` shows.
    ///
    /// # Errors
    /// `/proc` is not mounted; the folder is gone, or others can write to it.
    pub fn of_this_process(folder: &Path, coordinator: u32) -> Result<Self, StackError> {
        Self::in_namespace(folder, namespace_of(&coordinator.to_string())?)
    }

    /// The same with the number of that namespace, where the other process cannot be looked at.
    ///
    /// # Errors
    /// As there.
    pub fn in_namespace(folder: &Path, namespace: u64) -> Result<Self, StackError> {
        // The link is resolved in the namespace that mounted /proc: the initial one, for an isolated worker too.
        let link = Path::new("/proc/self");
        let pid = fs::read_link(link).map_err(|e| StackError::io("read", link, e))?;
        let pid = pid.to_string_lossy().parse().expect("the kernel writes a number");
        let dir = PrivateDir::open(folder)?;
        let dir = dir.ok_or_else(|| StackError::io("open", folder, rustix::io::Errno::NOENT))?;
        Self::of(dir, pid, namespace)
    }

    fn of(dir: PrivateDir, owner: u32, namespace: u64) -> Result<Self, StackError> {
        Ok(Self { dir: Arc::new(dir), owner, namespace, alone: false, aside: Arc::default() })
    }

    /// The same, when this process holds the lock of the home: every other command that wrote to it has ended, wherever
    /// it ran.
    #[must_use]
    pub fn locked(self) -> Self {
        Self { alone: true, ..self }
    }

    /// The same without entries whose undo failed: they belong to other commands, and were reported.
    #[must_use]
    pub fn without(self, report: &Report) -> Self {
        let failed = report.done.iter().filter(|step| step.result.is_err()).map(|step| step.entry.clone());
        let left = report.left.iter().filter_map(|left| left.file.file_name()).map(OsStr::to_owned);
        Self { aside: Arc::new(failed.chain(left).collect()), ..self }
    }

    /// The process that owns its changes, as seen in the namespace of the command.
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// Folder of the ledger, with a file for each entry.
    pub fn folder(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a step down, before the change is made.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(&self, undo: Undo) -> Result<LedgerEntry, StackError> {
        let owner = Owner::of(self.owner, self.namespace)?;
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let stem =
            format!("{}-{}-{number}-{}-{}", self.owner, std::process::id(), owner.namespace, owner.started);
        let (partial, name) =
            (OsString::from(format!("{stem}{PARTIAL}")), OsString::from(format!("{stem}{ENTRY}")));
        let dir = Arc::clone(&self.dir);
        let text = serde_json::to_vec(&Entry { owner, at: since_boot(), undo: undo.clone() })
            .expect("an entry is plain data");
        let mut file = dir.create(&partial)?;
        let lasting = undo.outlives_a_boot();
        let written = file.write_all(&text).and_then(|()| if lasting { file.sync_all() } else { Ok(()) });
        written.map_err(|e| StackError::io("write", dir.path().join(&name), e))?;
        dir.rename(&partial, &name)?;
        if lasting {
            dir.sync()?;
        }
        Ok(LedgerEntry { dir, name, undo })
    }

    /// Undoes the leftovers of dead processes, and deletes their entries. Failed and skipped entries are in the report
    /// and stay in the ledger.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn replay(&self) -> Result<Report, StackError> {
        self.replay_unless(&|| false)
    }

    /// The same, until `stop` returns true: the current entry and all the rest stay in the ledger.
    ///
    /// # Errors
    /// As [`replay`](Self::replay), or [`StackError::Interrupted`].
    pub fn replay_unless(&self, stop: &dyn Fn() -> bool) -> Result<Report, StackError> {
        self.sweep()?;
        let thawed = self.thaw_of_the_dead()?;
        // Their other leftovers are undone when their last threads, which wrote to the frozen filesystem, have ended.
        let until = Instant::now() + LAST_THREADS;
        let is_ending = |owner: &Owner| matches!(self.life(owner), Ok(Life::Ending(_) | Life::Running));
        while Instant::now() < until && !stop() && thawed.iter().any(|(owner, _)| is_ending(owner)) {
            thread::park_timeout(Duration::from_millis(5));
        }
        let (items, unreadable) = self.entries()?;
        let mut report =
            Report { done: thawed.into_iter().map(|(_, replayed)| replayed).collect(), left: unreadable };
        for item in items {
            if report.done.iter().any(|step| step.entry == item.name) {
                // Failed thaws are in the list already.
                continue;
            }
            match self.life(&item.entry.owner)? {
                Life::Gone if stop() => return Err(StackError::Interrupted),
                Life::Gone => report.done.push(self.undo(&item, stop)?),
                life => report.left.extend(self.left(&item, life)),
            }
        }
        Ok(report)
    }

    /// Stops the arrays and volumes of dead processes, before the devices below are awaited. Those still in use stay in
    /// the ledger.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn stop_arrays_and_volumes(&self) -> Result<(), StackError> {
        for item in self.entries()?.0 {
            let holds = matches!(item.entry.undo, Undo::StopArray { .. } | Undo::RemoveVolumes { .. });
            if holds && self.life(&item.entry.owner)? == Life::Gone {
                self.undo(&item, &|| false)?;
            }
        }
        Ok(())
    }

    /// Control groups that processes which are gone have left.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(crate) fn groups_of_the_dead(&self) -> Result<Vec<OwnFolder>, StackError> {
        let mut groups = Vec::new();
        for item in self.entries()?.0 {
            if let Undo::RemoveGroup { path } = &item.entry.undo
                && self.life(&item.entry.owner)? == Life::Gone
            {
                groups.push(path.clone());
            }
        }
        Ok(groups)
    }

    /// Thaws filesystems frozen by processes that are dead, or about to die. To be done before they are awaited: a
    /// killed process does not end while a thread of it writes to a frozen filesystem.
    ///
    /// # Errors
    /// The folder cannot be read, or something stays frozen.
    pub fn thaw(&self) -> Result<(), StackError> {
        self.thaw_of_the_dead()?.into_iter().try_for_each(|(_, replayed)| replayed.result)
    }

    /// [`thaw`](Self::thaw), with its outcomes per owner.
    fn thaw_of_the_dead(&self) -> Result<Vec<(Owner, ReplayedEntry)>, StackError> {
        let mut done = Vec::new();
        for item in self.entries()?.0 {
            let is_freeze = matches!(item.entry.undo, Undo::Thaw { .. });
            if is_freeze && self.is_due(&item.entry)? {
                let replayed = self.undo(&item, &|| false)?;
                done.push((item.entry.owner, replayed));
            }
        }
        Ok(done)
    }

    /// Undoes a step of a process that is gone.
    fn undo(&self, item: &ReadEntry, stop: &dyn Fn() -> bool) -> Result<ReplayedEntry, StackError> {
        let step = &item.entry.undo;
        let undone = step.perform(item.entry.owner.is_of_this_boot()?, stop);
        let result = undone.and_then(|()| self.dir.remove(&item.name));
        let (undo, is_harmless) = (step.to_string(), step.is_harmless());
        Ok(ReplayedEntry { entry: item.name.clone(), undo, result, is_harmless })
    }

    fn life(&self, owner: &Owner) -> Result<Life, StackError> {
        owner.life(self.namespace, self.alone)
    }

    /// True if a step is to be replayed: its owner is gone. One that froze a filesystem may still have threads that
    /// wait for the thaw.
    fn is_due(&self, entry: &Entry) -> Result<bool, StackError> {
        Ok(match self.life(&entry.owner)? {
            Life::Gone => true,
            Life::Ending(_) => matches!(entry.undo, Undo::Thaw { .. }),
            Life::Running | Life::Unknown(_) => false,
        })
    }

    /// Why a step is not replayed; nothing for this process's own.
    fn left(&self, item: &ReadEntry, life: Life) -> Option<SkippedEntry> {
        let Owner { pid, .. } = item.entry.owner;
        if life == Life::Running && pid == self.owner {
            return None;
        }
        // With the lock, its command has ended, and takes it along in a moment.
        let is_ending = matches!(life, Life::Ending(_)) || life == Life::Running && self.alone;
        let why = match life {
            Life::Running => format!("it belongs to process {pid}, which is running ({})", program_of(pid)),
            Life::Ending(threads) => format!(
                "process {pid} was killed, and {threads} of its threads still wait in the kernel: see \
                     `dmesg` and /proc/{pid}/task/*/stack"
            ),
            Life::Unknown(why) => why,
            Life::Gone => return None,
        };
        let undo = Some(item.entry.undo.to_string());
        Some(SkippedEntry { file: self.dir.path().join(&item.name), undo, why, is_ending })
    }

    /// Deletes the unfinished entries of dead processes: the changes themselves were never begun. Also the remains of
    /// unsynced entries after a power cut, because their changes do not outlive a boot.
    fn sweep(&self) -> Result<(), StackError> {
        for name in self.dir.names()? {
            if name.as_encoded_bytes().ends_with(ENTRY.as_bytes()) {
                if self.is_lost_in_a_boot(&name) {
                    self.dir.remove(&name)?;
                }
                continue;
            }
            let owner = name.to_str().and_then(|name| name.strip_suffix(PARTIAL)).and_then(|stem| {
                let words: Vec<&str> = stem.split('-').collect();
                let [pid, _, _, namespace, started] = words[..] else { return None };
                Some((pid.parse().ok()?, namespace.parse::<u64>().ok()?, started.parse().ok()?))
            });
            let Some((pid, namespace, since)) = owner else { continue };
            let is_here = namespace == self.namespace;
            if is_here && started(pid) != Some(since) || !is_here && self.alone {
                self.dir.remove(&name)?;
            }
        }
        Ok(())
    }

    /// True if a file has a name from before this boot, and no content.
    fn is_lost_in_a_boot(&self, name: &OsStr) -> bool {
        let words = self.dir.read(name, MAX_BYTES).ok().flatten();
        if words.is_none_or(|words| words.iter().any(|byte| *byte != 0)) {
            return false;
        }
        let file = self.dir.file(name, OFlags::RDONLY).ok().flatten();
        let changed = file.and_then(|file| file.metadata().ok()?.modified().ok());
        let booted = SystemTime::now().checked_sub(Duration::from_nanos(since_boot()));
        changed.zip(booted).is_some_and(|(changed, booted)| changed < booted)
    }

    /// The steps a replay would undo, as text, and those it would skip.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn left_over(&self) -> Result<(Vec<String>, Vec<SkippedEntry>), StackError> {
        let (items, mut left) = self.entries()?;
        let mut due = Vec::new();
        for item in items {
            if self.is_due(&item.entry)? {
                due.push(item.entry.undo.to_string());
            } else {
                left.extend(self.left(&item, self.life(&item.entry.owner)?));
            }
        }
        Ok((due, left))
    }

    /// True if the ledger has steps of other processes, dead or alive, in addition to those that were set aside.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn has_others(&self) -> Result<bool, StackError> {
        Ok(self.entries()?.0.iter().any(|item| item.entry.owner.pid != self.owner))
    }

    /// All entries but those set aside, newest first (changes are undone in the reverse of their order), and those that
    /// cannot be read.
    fn entries(&self) -> Result<(Vec<ReadEntry>, Vec<SkippedEntry>), StackError> {
        let (mut entries, mut unreadable) = (Vec::new(), Vec::new());
        for name in self.dir.names()? {
            let is_entry = name.as_encoded_bytes().ends_with(ENTRY.as_bytes());
            if !is_entry || self.aside.contains(&name) {
                continue;
            }
            match self.entry(&name) {
                Ok(item) => entries.extend(item),
                Err(why) => {
                    let file = self.dir.path().join(&name);
                    unreadable.push(SkippedEntry { file, undo: None, why, is_ending: false });
                }
            }
        }
        entries.sort_by(|a, b| (b.entry.at, &b.name).cmp(&(a.entry.at, &a.name)));
        Ok((entries, unreadable))
    }

    /// Reads an entry; none if its owner struck it out in between.
    fn entry(&self, name: &OsStr) -> Result<Option<ReadEntry>, String> {
        let Some(text) = self.dir.read(name, MAX_BYTES).map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        let entry = serde_json::from_slice(&text)
            .map_err(|error| format!("it is not an entry of the ledger of this version: {error}"))?;
        Ok(Some(ReadEntry { name: name.to_owned(), entry }))
    }
}

impl LedgerEntry {
    /// Undoes the change and strikes the step out.
    ///
    /// # Errors
    /// The change cannot be undone; the step stays in the ledger.
    pub fn undo(self) -> Result<(), StackError> {
        self.undo.perform(true, &|| false)?;
        self.strike_out()
    }

    /// Strikes the step out because the change never happened or is covered by another step.
    ///
    /// # Errors
    /// The file cannot be deleted.
    pub fn strike_out(self) -> Result<(), StackError> {
        self.dir.remove(&self.name)
    }
}

fn since_boot() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    #[expect(clippy::cast_sign_loss, reason = "the clock began at 0 and does not go back")]
    let (seconds, nanoseconds) = (now.tv_sec as u64, now.tv_nsec as u64);
    seconds * 1_000_000_000 + nanoseconds
}

/// The command line of a process, as far as it can be seen.
fn program_of(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<String> = line
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .take(4)
        .map(|word| String::from_utf8_lossy(word).escape_debug().to_string())
        .collect();
    if words.is_empty() { "its command line cannot be seen".into() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delete::Identity;
    use crate::device_number::DeviceNumber;
    use crate::named::{FOLDER_PREFIX, KnownDisk, OwnFolder};
    use fstrial_model::queue::QueueAttribute;
    use std::os::fd::AsFd;
    use tempfile::TempDir;

    /// A process number that is certainly free.
    const NOBODY: u32 = u32::MAX - 1;

    /// A folder with a ledger of a process that is gone.
    struct Lab {
        home: TempDir,
        dead: Ledger,
    }

    impl Lab {
        fn new() -> Self {
            let home = tempfile::tempdir().unwrap();
            let dead = Ledger::open(&home.path().join(FOLDER), NOBODY).unwrap();
            Self { home, dead }
        }

        /// The same ledger for this process.
        fn living(&self) -> Ledger {
            Ledger::open(self.dead.folder(), std::process::id()).unwrap()
        }

        /// A folder as a run makes it, with something in it, and its undo.
        fn folder(&self, number: u32) -> (PathBuf, Undo) {
            let folder = self.home.path().join(format!("{FOLDER_PREFIX}{number}"));
            fs::create_dir_all(folder.join("deep/er")).unwrap();
            let path = OwnFolder::try_from(folder.clone()).unwrap();
            let made = Some(Identity::of(fs::File::open(&folder).unwrap().as_fd()).unwrap());
            (folder, Undo::RemoveFolder { path, made })
        }

        fn plant(&self, name: &str, text: &str) -> PathBuf {
            let path = self.dead.folder().join(name);
            fs::write(&path, text).unwrap();
            path
        }
    }

    fn all_is_well(report: &Report) -> bool {
        report.left.is_empty() && report.done.iter().all(|step| step.result.is_ok())
    }

    #[test]
    fn replay_undoes_dead_process_entries_once() {
        let lab = Lab::new();
        let (folder, undo) = lab.folder(1);
        let _written = lab.dead.write(undo).unwrap();
        assert_eq!(lab.living().left_over().unwrap().0.len(), 1);
        let report = lab.living().replay().unwrap();
        assert!(report.done.len() == 1 && all_is_well(&report), "{report:?}");
        assert!(!folder.exists());
        assert!(lab.living().replay().unwrap().done.is_empty(), "a second time there is nothing to do");
    }

    #[test]
    fn replay_skips_and_reports_live_process_entries() {
        let lab = Lab::new();
        let (folder, undo) = lab.folder(2);
        let written = lab.living().write(undo).unwrap();
        assert!(lab.living().replay().unwrap().left.is_empty(), "one's own is nothing to tell of");
        let report = lab.dead.replay().unwrap();
        assert!(report.done.is_empty() && folder.exists());
        let [left] = &report.left[..] else { panic!("{report:?}") };
        assert!(left.why.contains(&format!("process {}, which is running", std::process::id())), "{left:?}");
        assert!(!left.is_ending);
        let report = lab.dead.clone().locked().replay().unwrap();
        assert!(report.done.is_empty() && folder.exists(), "with the lock, too");
        assert!(report.left[0].is_ending, "a command that held the lock before was killed just now");
        written.undo().unwrap();
        assert!(!folder.exists() && lab.dead.dir.names().unwrap().is_empty());
    }

    #[test]
    fn zombie_process_counts_as_dead() {
        let lab = Lab::new();
        #[expect(clippy::disallowed_methods, reason = "the command runner leaves no zombies")]
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let ledger = Ledger::open(lab.dead.folder(), child.id()).unwrap();
        let _written = ledger.write(lab.folder(4).1).unwrap();
        let due = || lab.dead.left_over().unwrap().0.len();
        assert_eq!(due(), 0);
        drop(child.stdin.take());
        let until = Instant::now() + Duration::from_secs(10);
        while due() == 0 {
            assert!(Instant::now() < until, "it ended, and nobody waits for it");
            thread::yield_now();
        }
        child.wait().unwrap();
    }

    #[test]
    fn replay_deletes_partial_entries_of_dead_processes_only() {
        let lab = Lab::new();
        let (us, here) = (std::process::id(), namespace_of("self").unwrap());
        let since = started(us).unwrap();
        let dead = lab.plant(&format!("{NOBODY}-1-0-{here}-{since}{PARTIAL}"), "{");
        let recycled = lab.plant(&format!("{us}-1-0-{here}-{}{PARTIAL}", since + 1), "{");
        let living = lab.plant(&format!("{us}-1-0-{here}-{since}{PARTIAL}"), "{");
        let contained = lab.plant(&format!("{NOBODY}-1-0-77-{since}{PARTIAL}"), "{");
        let foreign = lab.plant("notes.partial", "{");
        assert!(lab.living().replay().unwrap().done.is_empty());
        assert!(!dead.exists() && !recycled.exists());
        assert!(living.exists() && contained.exists() && foreign.exists());
        lab.living().locked().replay().unwrap();
        assert!(living.exists() && !contained.exists() && foreign.exists());
    }

    #[test]
    fn unreadable_entries_are_reported_and_skipped() {
        let lab = Lab::new();
        let (folder, undo) = lab.folder(5);
        let written = lab.dead.write(undo).unwrap();
        let text = fs::read_to_string(lab.dead.folder().join(&written.name)).unwrap();
        let path = serde_json::to_string(&folder).unwrap();
        assert!(text.contains(&path), "{text}");
        let fifo = lab.dead.folder().join("a-fifo.json");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        std::os::unix::fs::symlink("/dev/zero", lab.dead.folder().join("a-link.json")).unwrap();
        let precious = lab.home.path().join("precious");
        fs::create_dir(&precious).unwrap();
        for (name, text) in [
            ("half", text[..text.len() / 2].to_owned()),
            ("newer", text.replace("remove-folder", "remove-something")),
            ("other-folder", text.replace(&path, &serde_json::to_string(&precious).unwrap())),
            ("climbing", text.replace(&path, "\"/tmp/../precious/fstrial-run-1/..\"")),
            ("large", format!("{text}{}", " ".repeat(70_000))),
            ("empty", String::new()),
            ("attribute", text.replace("remove-folder", "restore-attribute").replace("\"path\"", "\"disk\"")),
        ] {
            lab.plant(&format!("{name}.json"), &text);
        }
        let report = lab.living().replay().unwrap();
        assert!(report.done.len() == 1 && report.done[0].result.is_ok(), "{report:?}");
        assert!(!folder.exists() && precious.exists());
        let names: BTreeSet<_> = report.left.iter().filter_map(|left| left.file.file_stem()).collect();
        let all =
            ["a-fifo", "a-link", "attribute", "climbing", "empty", "half", "large", "newer", "other-folder"];
        assert_eq!(names, all.iter().map(OsStr::new).collect(), "{report:?}");
        // A starting trial was informed, and is not held up.
        let trial = lab.living().without(&report);
        assert!(!trial.has_others().unwrap() && all_is_well(&trial.replay().unwrap()));
    }

    #[test]
    fn failed_undo_does_not_stop_other_undos() {
        let lab = Lab::new();
        let (first, undo) = lab.folder(6);
        let _written = lab.dead.write(undo).unwrap();
        let (second, undo) = lab.folder(7);
        let _written = lab.dead.write(undo).unwrap();
        let (third, undo) = lab.folder(8);
        let _written = lab.dead.write(undo).unwrap();
        fs::remove_dir_all(&second).unwrap();
        fs::write(&second, "a file in its place").unwrap();
        let report = lab.living().replay().unwrap();
        let failed: Vec<&ReplayedEntry> = report.done.iter().filter(|step| step.result.is_err()).collect();
        assert!(failed.len() == 1 && failed[0].is_harmless && report.done.len() == 3, "{report:?}");
        assert!(!first.exists() && second.exists() && !third.exists());
        let trial = lab.living().without(&report);
        assert!(!trial.has_others().unwrap() && trial.replay().unwrap().done.is_empty());
        assert_eq!(lab.living().replay().unwrap().done.len(), 1, "`clean` tries again");
    }

    #[test]
    fn replay_keeps_different_folder_with_same_name() {
        let lab = Lab::new();
        let (folder, undo) = lab.folder(10);
        let _written = lab.dead.write(undo).unwrap();
        // Who owns the directory may do that, with any folder of the same filesystem that root has there.
        fs::rename(&folder, lab.home.path().join("away")).unwrap();
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("precious"), "").unwrap();
        let report = lab.living().replay().unwrap();
        assert!(report.done[0].result.is_err() && folder.join("precious").exists(), "{report:?}");
        // A folder that was announced, and perhaps made, is empty.
        let Undo::RemoveFolder { path, .. } = lab.folder(11).1 else { panic!() };
        let full = lab.dead.write(Undo::RemoveFolder { path: path.clone(), made: None }).unwrap();
        assert!(!all_is_well(&lab.living().replay().unwrap()) && path.path().exists());
        full.strike_out().unwrap();
        fs::remove_dir_all(path.path()).unwrap();
        fs::create_dir(path.path()).unwrap();
        let _written = lab.dead.write(Undo::RemoveFolder { path: path.clone(), made: None }).unwrap();
        lab.living().replay().unwrap();
        assert!(!path.path().exists());
    }

    #[test]
    fn steps_of_other_namespaces_and_machines_are_left() {
        let lab = Lab::new();
        let (folder, undo) = lab.folder(9);
        let written = lab.dead.write(undo).unwrap();
        let file = lab.dead.folder().join(&written.name);
        let text = fs::read_to_string(&file).unwrap();
        let here = format!("\"namespace\":{}", namespace_of("self").unwrap());
        let us = format!("\"pid\":{NOBODY}");
        assert!(text.contains(&here) && text.contains(&us), "{text}");
        // A process that lives, seen from a container that cannot see it.
        fs::write(&file, text.replace(&us, "\"pid\":1")).unwrap();
        let mut inside = lab.living();
        inside.namespace = 4_026_539_999;
        let report = inside.replay().unwrap();
        assert!(folder.exists() && report.done.is_empty(), "{report:?}");
        assert!(report.left[0].why.contains("another process namespace"), "{report:?}");
        // The lock shows that it has ended.
        assert!(all_is_well(&inside.locked().replay().unwrap()) && !folder.exists());
    }

    /// A power cut keeps the name of an entry that was not synced, and no words of it.
    #[test]
    fn blank_entries_from_before_boot_are_removed() {
        let lab = Lab::new();
        let cut = |name: &str, words: &[u8], age: u64| {
            let path = lab.dead.folder().join(format!("{name}{ENTRY}"));
            let file = fs::File::create(&path).unwrap();
            (&file).write_all(words).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_nanos(age)).unwrap();
            path
        };
        let before = since_boot() + 60_000_000_000;
        let gone = [cut("empty", b"", before), cut("zeroes", &[0; 300], before)];
        let stays = [cut("half", b"{\"owner\":", before), cut("of-this-boot", b"", 0)];
        let report = lab.living().replay().unwrap();
        let left: BTreeSet<_> = report.left.iter().map(|left| left.file.clone()).collect();
        assert_eq!(left, stays.clone().into());
        assert!(gone.iter().all(|path| !path.exists()) && stays.iter().all(|path| path.exists()));
    }

    #[test]
    fn undo_of_missing_objects_succeeds() {
        let lab = Lab::new();
        let disk = KnownDisk {
            name: String::from("never").try_into().unwrap(),
            number: DeviceNumber { major: 4095, minor: 1_000_000 },
            diskseq: None,
        };
        let node: NodeMark = serde_json::from_str(r#"{"filesystem": 1, "inode": 1}"#).unwrap();
        let own = |path: &str| OwnFolder::try_from(PathBuf::from(path)).unwrap();
        for undo in [
            Undo::RemoveFolder { path: own("/nowhere/fstrial-run-never"), made: None },
            Undo::RemoveFolder { path: own("/tmp/fstrial-run-never"), made: None },
            Undo::RestoreAttribute {
                disk: disk.clone(),
                attribute: QueueAttribute::Scheduler,
                value: String::from("none").try_into().unwrap(),
            },
            Undo::RemoveZram { index: 4_000_000, node },
            Undo::RemoveUnusedZram { existing: Vec::new(), moment: 0 },
            Undo::RemoveGroup { path: own("/sys/fs/cgroup/blkio/fstrial-run-never") },
            Undo::StopArray { index: 400_000, members: vec![String::from("loop400000").try_into().unwrap()] },
            Undo::RemoveLoop { index: 400_000, file: "/nowhere/at/all".into(), node },
            Undo::RemoveUnusedLoop { index: 400_000, moment: 0 },
            Undo::Thaw { disk, filesystem: String::from("ext4").try_into().unwrap() },
        ] {
            let _written = lab.dead.write(undo).unwrap();
        }
        let report = lab.living().replay().unwrap();
        assert!(all_is_well(&report) && report.done.len() == 10, "{report:?}");
        assert!(lab.dead.dir.names().unwrap().is_empty());
    }
}
