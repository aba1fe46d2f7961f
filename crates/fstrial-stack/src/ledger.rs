//! The ledger: undo steps for what a dying process cannot undo by dying. Written before the change, struck out after
//! the undo; `fstrial clean` replays what is left by processes that are gone.
//!
//! One file per step, so that writing and striking out are single atomic operations of the filesystem. Every undo is
//! idempotent: it must also be right if the change never happened, or was already undone.

use crate::{error::StackError, sysfs};
use fstrial_model::planted::{Fault, planted};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

/// How to undo one change to the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "undo")]
pub enum Undo {
    /// Remove a zram device that we added.
    RemoveZram {
        /// N of `/dev/zramN`.
        index: u32,
        /// Its disk sequence number: another device may have taken the number since.
        #[serde(default)]
        diskseq: Option<u64>,
    },
    /// Remove a zram device that we were about to add when we died: one that is not in this list and was never set up.
    RemoveUnusedZram {
        /// Those that were there before.
        existing: Vec<u32>,
    },
    /// Remove a loop device that we added.
    RemoveLoop {
        /// N of `/dev/loopN`.
        index: u32,
        /// The file it was added for, as the kernel names it.
        file: PathBuf,
    },
    /// Write a value back to a kernel file.
    RestoreAttribute {
        /// The file below `/sys/`.
        path: PathBuf,
        /// The value before.
        value: String,
    },
    /// Thaw a filesystem that we froze: one that is frozen outlives its mounts, and keeps its device.
    Thaw {
        /// The device it is on.
        device: PathBuf,
        /// Its disk sequence number: another device may have taken the name since.
        diskseq: Option<u64>,
        /// What the kernel calls the filesystem.
        filesystem: String,
    },
    /// Stop an array of md that we made.
    StopArray {
        /// N of `/dev/mdN`.
        index: u32,
        /// The kernel's names of its members: another array may have taken the number since.
        members: Vec<String>,
    },
    /// Remove a control group that we made, once it is empty.
    RemoveGroup {
        /// Its folder; the last part begins with [`FOLDER_PREFIX`].
        path: PathBuf,
    },
    /// Delete a folder that we made, with everything in it.
    RemoveFolder {
        /// The folder; its last part begins with [`FOLDER_PREFIX`].
        path: PathBuf,
    },
}

/// How long threads that wrote to a frozen filesystem may take to end after it was thawed.
const LAST_THREADS: Duration = Duration::from_secs(10);

/// Folders that we make in directories of the user begin with this, and no other is ever deleted.
pub const FOLDER_PREFIX: &str = "fstrial-run-";

impl std::fmt::Display for Undo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RemoveZram { index, .. } => write!(f, "remove /dev/zram{index}"),
            Self::RemoveUnusedZram { .. } => write!(f, "remove a zram device added but never set up"),
            Self::RemoveLoop { index, .. } => write!(f, "remove /dev/loop{index}"),
            Self::RestoreAttribute { path, value } => write!(f, "write `{value}` back to {}", path.display()),
            Self::Thaw { device, .. } => write!(f, "thaw the filesystem on {}", device.display()),
            Self::StopArray { index, .. } => write!(f, "stop the array /dev/md{index}"),
            Self::RemoveGroup { path } => write!(f, "remove the control group {}", path.display()),
            Self::RemoveFolder { path } => write!(f, "delete the folder {}", path.display()),
        }
    }
}

/// Who made a change: a process of one boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Owner {
    pid: u32,
    /// Start time of the process in clock ticks since boot: tells a recycled number from the process itself.
    started: u64,
    boot: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    owner: Owner,
    #[serde(flatten)]
    undo: Undo,
}

/// The ledger of this host, in one folder.
#[derive(Debug, Clone)]
pub struct Ledger {
    folder: PathBuf,
    owner: u32,
}

/// A step written down; strike it out when the change has been undone.
#[must_use]
#[derive(Debug)]
pub struct Written {
    path: PathBuf,
    undo: Undo,
}

/// What `clean` did about one entry.
#[derive(Debug)]
pub struct Replayed {
    /// What was to be undone.
    pub undo: String,
    /// Whether it could be.
    pub result: Result<(), StackError>,
}

static COUNTER: AtomicU64 = AtomicU64::new(0);

impl Ledger {
    /// The ledger in a folder, for changes that belong to the process `owner` (as seen in the initial namespace).
    pub fn new(folder: impl Into<PathBuf>, owner: u32) -> Self {
        Self { folder: folder.into(), owner }
    }

    /// The ledger in a folder, for changes of this very process, whatever namespace it lives in.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub fn of_this_process(folder: impl Into<PathBuf>) -> Result<Self, StackError> {
        // The link is resolved in the namespace that mounted /proc: the initial one, for an isolated worker too.
        let link = Path::new("/proc/self");
        let pid = fs::read_link(link).map_err(|e| StackError::io("read", link, e))?;
        let pid = pid.to_string_lossy().parse().expect("the kernel writes a number");
        Ok(Self::new(folder, pid))
    }

    /// The process whose changes it has, as seen in the initial namespace.
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a step down. It is on disk when this returns.
    ///
    /// # Errors
    /// The folder cannot be made or written.
    pub fn write(&self, undo: Undo) -> Result<Written, StackError> {
        fs::create_dir_all(&self.folder).map_err(|e| StackError::io("make the folder", &self.folder, e))?;
        let owner = Owner { pid: self.owner, started: start_time(self.owner).unwrap_or(0), boot: boot_id()? };
        let name =
            format!("{}-{}-{}", self.owner, std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
        let path = self.folder.join(format!("{name}-{}.json", owner.started));
        let partial = path.with_extension("partial");
        let text = serde_json::to_vec(&Entry { owner, undo: undo.clone() }).expect("an entry is plain data");
        let write = || -> std::io::Result<()> {
            let mut file = File::create(&partial)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&partial, &path)
        };
        write().map_err(|e| StackError::io("write", &path, e))?;
        if is_forgotten(&undo) {
            strike_out(&path)?;
        }
        Ok(Written { path, undo })
    }

    /// Undoes what processes that are gone have left, and strikes it out.
    ///
    /// # Errors
    /// The ledger cannot be read. What cannot be undone is in the list and stays in the ledger.
    pub fn replay(&self) -> Result<Vec<Replayed>, StackError> {
        self.sweep()?;
        let thawed = self.thaw_of_the_dead()?;
        // What else they left is undone when their last threads, which wrote to what was frozen, have ended.
        let until = Instant::now() + LAST_THREADS;
        while Instant::now() < until && thawed.iter().any(|(owner, _)| is_alive(owner)) {
            thread::park_timeout(Duration::from_millis(5));
        }
        let mut done: Vec<Replayed> = thawed.into_iter().map(|(_, replayed)| replayed).collect();
        // What could not be thawed is in the list already.
        done.extend(self.replay_those(|undo| !matches!(undo, Undo::Thaw { .. }))?);
        Ok(done)
    }

    /// Stops what arrays the dead have left, before anybody waits for their members. One that is still in use stays in
    /// the ledger.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn stop_arrays(&self) -> Result<(), StackError> {
        self.replay_those(|undo| matches!(undo, Undo::StopArray { .. })).map(drop)
    }

    fn replay_those(&self, wanted: impl Fn(&Undo) -> bool) -> Result<Vec<Replayed>, StackError> {
        let mut done = Vec::new();
        for (path, entry) in self.entries()? {
            if !wanted(&entry.undo) || is_alive(&entry.owner) {
                continue;
            }
            let same_boot = boot_id()? == entry.owner.boot;
            let result = undo(&entry.undo, same_boot).and_then(|()| strike_out(&path));
            done.push(Replayed { undo: entry.undo.to_string(), result });
        }
        Ok(done)
    }

    /// Thaws what processes that are gone, or are about to be, have left frozen. To be done before anything waits for
    /// them: a killed process does not end while a thread of it writes to a frozen filesystem.
    ///
    /// # Errors
    /// The ledger cannot be read, or something stays frozen.
    pub fn thaw(&self) -> Result<(), StackError> {
        self.thaw_of_the_dead()?.into_iter().try_for_each(|(_, replayed)| replayed.result)
    }

    /// [`thaw`](Self::thaw), with what was done for whom.
    fn thaw_of_the_dead(&self) -> Result<Vec<(Owner, Replayed)>, StackError> {
        let mut done = Vec::new();
        for (path, entry) in self.entries()? {
            if matches!(entry.undo, Undo::Thaw { .. }) && is_due(&entry) {
                let same_boot = boot_id()? == entry.owner.boot;
                let result = undo(&entry.undo, same_boot).and_then(|()| strike_out(&path));
                done.push((entry.owner, Replayed { undo: entry.undo.to_string(), result }));
            }
        }
        Ok(done)
    }

    /// Deletes what processes that are gone were about to write down: the changes themselves were never begun.
    fn sweep(&self) -> Result<(), StackError> {
        for item in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = item.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let Some(words) = name.strip_suffix(".partial") else { continue };
            let owner = words.split_once('-').zip(words.rsplit_once('-'));
            let owner =
                owner.and_then(|((pid, _), (_, started))| Some((pid.parse().ok()?, started.parse().ok()?)));
            if owner.is_some_and(|(pid, started)| start_time(pid) != Some(started)) {
                strike_out(&path)?;
            }
        }
        Ok(())
    }

    /// The steps left by processes that are gone, without doing anything.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn left_over(&self) -> Result<Vec<Undo>, StackError> {
        Ok(self
            .entries()?
            .into_iter()
            .filter(|(_, entry)| is_due(entry))
            .map(|(_, entry)| entry.undo)
            .collect())
    }

    /// Whether steps of other processes than this ledger's own are written down, dead or alive.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn has_others(&self) -> Result<bool, StackError> {
        Ok(self.entries()?.iter().any(|(_, entry)| entry.owner.pid != self.owner))
    }

    /// All entries, newest first: changes are undone in the reverse of their order.
    fn entries(&self) -> Result<Vec<(PathBuf, Entry)>, StackError> {
        let listing = match fs::read_dir(&self.folder) {
            Ok(listing) => listing,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(StackError::io("list", &self.folder, error)),
        };
        let mut entries = Vec::new();
        for item in listing.flatten() {
            let path = item.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let modified = item.metadata().map(|m| (m.mtime(), m.mtime_nsec())).unwrap_or_default();
            // Gone in between: its owner struck it out.
            let Ok(text) = fs::read(&path) else { continue };
            let entry: Entry = serde_json::from_slice(&text).map_err(|error| StackError::Unable {
                what: format!("{} is not an entry of the ledger: {error}", path.display()),
                hint: "look at it and delete it by hand".into(),
            })?;
            entries.push((modified, path, entry));
        }
        entries.sort_by(|a, b| (b.0, &b.1).cmp(&(a.0, &a.1)));
        Ok(entries.into_iter().map(|(_, path, entry)| (path, entry)).collect())
    }
}

impl Written {
    /// Undoes the change and strikes the step out.
    ///
    /// # Errors
    /// The change cannot be undone; the step stays in the ledger.
    pub fn undo(self) -> Result<(), StackError> {
        undo(&self.undo, true)?;
        strike_out(&self.path)
    }

    /// Strikes the step out because the change never happened or is covered by another step.
    ///
    /// # Errors
    /// The file cannot be deleted.
    pub fn strike_out(self) -> Result<(), StackError> {
        strike_out(&self.path)
    }
}

/// Whether a planted fault keeps a step out of the ledger.
fn is_forgotten(undo: &Undo) -> bool {
    match undo {
        Undo::RemoveLoop { .. } => planted(Fault::LoopDevice),
        Undo::Thaw { .. } => planted(Fault::Freeze),
        Undo::RestoreAttribute { .. } => planted(Fault::QueueSetting),
        Undo::RemoveFolder { .. } => planted(Fault::Folder),
        _ => false,
    }
}

fn strike_out(path: &Path) -> Result<(), StackError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StackError::io("delete", path, error))
        }
        _ => Ok(()),
    }
}

fn undo(step: &Undo, same_boot: bool) -> Result<(), StackError> {
    match step {
        Undo::RemoveFolder { path } => remove_folder(path),
        // The rest lives in the kernel and did not survive a boot.
        _ if !same_boot => Ok(()),
        Undo::RemoveZram { index, diskseq } => crate::device::zram::remove(*index, *diskseq),
        Undo::RemoveUnusedZram { existing } => crate::device::zram::remove_unused(existing),
        Undo::RemoveLoop { index, file } => crate::loopdev::remove_ours(*index, file),
        Undo::Thaw { device, diskseq, filesystem } => {
            crate::operation::thaw_left_over(device, *diskseq, filesystem)
        }
        Undo::StopArray { index, members } => crate::array::stop_ours(*index, members),
        Undo::RemoveGroup { path } => crate::throttle::remove(path),
        Undo::RestoreAttribute { path, value } => {
            assert!(path.starts_with("/sys/"), "only kernel attributes are restored");
            if path.exists() { sysfs::write(path, value) } else { Ok(()) }
        }
    }
}

/// Deletes a folder that we made. Its name is checked, and symbolic links are not followed.
fn remove_folder(path: &Path) -> Result<(), StackError> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    assert!(name.starts_with(FOLDER_PREFIX), "only our own folders are deleted");
    match fs::symlink_metadata(path) {
        Err(_) => Ok(()),
        Ok(found) if found.is_dir() => {
            fs::remove_dir_all(path).map_err(|e| StackError::io("delete", path, e))
        }
        Ok(_) => Err(StackError::Unable {
            what: format!("{} is no longer the folder that was made", path.display()),
            hint: "look at it and delete it by hand".into(),
        }),
    }
}

fn boot_id() -> Result<String, StackError> {
    sysfs::read("/proc/sys/kernel/random/boot_id")
}

/// When a process started, in clock ticks since boot; none if it is gone. One that is dead and only waits for its
/// parent to notice, which a container's process 1 may never do, is gone too, once its last thread is.
fn start_time(pid: u32) -> Option<u64> {
    started_of(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Field 22 of a process's `stat`, unless field 3 says that it is dead and field 20 that no other thread lives on.
fn started_of(stat: &str) -> Option<u64> {
    // The second field is the program's name in parentheses and may hold anything: count from the last one.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let dead = matches!(*fields.first()?, "Z" | "X") && fields.get(17)?.parse::<u32>().ok()? <= 1;
    if dead { None } else { fields.get(19)?.parse().ok() }
}

/// Whether a step is to be replayed: who wrote it down is gone. One that froze a filesystem may still have threads that
/// wait for the thaw.
fn is_due(entry: &Entry) -> bool {
    match entry.undo {
        Undo::Thaw { .. } => !is_running(&entry.owner),
        _ => !is_alive(&entry.owner),
    }
}

/// Whether a process can still undo a change itself: it is alive, and not only waiting for its last threads to end.
fn is_running(owner: &Owner) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", owner.pid)).unwrap_or_default();
    let is_dead = stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']));
    !is_dead && is_alive(owner)
}

fn is_alive(owner: &Owner) -> bool {
    boot_id().is_ok_and(|boot| boot == owner.boot) && start_time(owner.pid) == Some(owner.started)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process number that is certainly free.
    const NOBODY: u32 = u32::MAX - 1;

    #[test]
    fn what_the_dead_left_is_undone_and_struck_out() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(format!("{FOLDER_PREFIX}1"));
        fs::create_dir_all(folder.join("deep/er")).unwrap();
        let dead = Ledger::new(home.path().join("ledger"), NOBODY);
        let _written = dead.write(Undo::RemoveFolder { path: folder.clone() }).unwrap();
        assert_eq!(dead.left_over().unwrap().len(), 1);
        let replayed = dead.replay().unwrap();
        assert!(replayed.len() == 1 && replayed[0].result.is_ok());
        assert!(!folder.exists());
        assert!(dead.replay().unwrap().is_empty(), "a second time there is nothing to do");
    }

    #[test]
    fn a_zombie_is_dead() {
        let home = tempfile::tempdir().unwrap();
        #[expect(clippy::disallowed_methods, reason = "the command runner leaves no zombies")]
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let ledger = Ledger::new(home.path().join("ledger"), child.id());
        let step = Undo::RemoveFolder { path: home.path().join(format!("{FOLDER_PREFIX}4")) };
        let _written = ledger.write(step).unwrap();
        assert!(ledger.left_over().unwrap().is_empty());
        drop(child.stdin.take());
        let until = Instant::now() + Duration::from_secs(10);
        while ledger.left_over().unwrap().is_empty() {
            assert!(Instant::now() < until, "it ended, and nobody waits for it");
            thread::yield_now();
        }
        child.wait().unwrap();
    }

    #[test]
    fn what_the_dead_were_writing_is_deleted_and_what_the_living_write_is_not() {
        let home = tempfile::tempdir().unwrap();
        let ledger = Ledger::new(home.path(), std::process::id());
        let us = start_time(std::process::id()).unwrap();
        let dead = home.path().join(format!("{NOBODY}-1-0-{us}.partial"));
        let recycled = home.path().join(format!("{}-1-0-{}.partial", std::process::id(), us + 1));
        let living = home.path().join(format!("{}-1-0-{us}.partial", std::process::id()));
        let foreign = home.path().join("notes.partial");
        for path in [&dead, &recycled, &living, &foreign] {
            fs::write(path, "{").unwrap();
        }
        assert!(ledger.replay().unwrap().is_empty());
        assert!(!dead.exists() && !recycled.exists());
        assert!(living.exists() && foreign.exists());
    }

    #[test]
    fn a_process_that_nobody_buries_is_gone_with_its_last_thread() {
        let stat = |state: &str, threads: u32| {
            format!("7 (a ) b) {state} 1 7 7 0 -1 4 0 0 0 0 1 2 3 4 20 0 {threads} 0 619499 0 0")
        };
        assert_eq!(started_of(&stat("S", 1)), Some(619_499));
        assert_eq!(started_of(&stat("Z", 2)), Some(619_499), "a thread still holds its files");
        assert_eq!(started_of(&stat("Z", 1)), None);
        assert_eq!(started_of(&stat("X", 1)), None);
        assert!(start_time(std::process::id()).is_some());
    }

    #[test]
    fn what_the_living_hold_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(format!("{FOLDER_PREFIX}2"));
        fs::create_dir(&folder).unwrap();
        let ledger = Ledger::new(home.path().join("ledger"), std::process::id());
        let written = ledger.write(Undo::RemoveFolder { path: folder.clone() }).unwrap();
        assert!(ledger.replay().unwrap().is_empty());
        assert!(folder.exists());
        written.undo().unwrap();
        assert!(!folder.exists() && ledger.entries().unwrap().is_empty());
    }

    #[test]
    fn an_undo_of_what_never_happened_is_fine() {
        let home = tempfile::tempdir().unwrap();
        let ledger = Ledger::new(home.path().join("ledger"), NOBODY);
        for undo in [
            Undo::RemoveFolder { path: home.path().join(format!("{FOLDER_PREFIX}never")) },
            Undo::RestoreAttribute { path: "/sys/block/never/queue/scheduler".into(), value: "none".into() },
            Undo::RemoveZram { index: 4_000_000, diskseq: None },
            Undo::RemoveGroup { path: format!("/sys/fs/cgroup/blkio/{FOLDER_PREFIX}never").into() },
            Undo::StopArray { index: 400_000, members: vec!["loop400000".into()] },
            Undo::RemoveLoop { index: 400_000, file: "/nowhere/at/all".into() },
        ] {
            let _written = ledger.write(undo).unwrap();
        }
        assert!(ledger.replay().unwrap().iter().all(|replayed| replayed.result.is_ok()));
    }

    #[test]
    #[should_panic(expected = "only our own folders")]
    fn no_other_folder_is_ever_deleted() {
        let _ = remove_folder(Path::new("/tmp/precious"));
    }

    #[test]
    fn a_link_in_place_of_the_folder_is_not_followed() {
        let home = tempfile::tempdir().unwrap();
        let precious = home.path().join("precious");
        fs::create_dir(&precious).unwrap();
        let link = home.path().join(format!("{FOLDER_PREFIX}3"));
        std::os::unix::fs::symlink(&precious, &link).unwrap();
        assert!(remove_folder(&link).is_err());
        assert!(precious.exists());
    }
}
