//! Resources of a trial on the host, observed while it ran: its processes, loop and zram devices, groups. Afterwards
//! none of them may exist. The machine is shared, so only resources seen to be this trial's are checked.

use crate::lab::{Lab, names_in, number, sysfs};
use fstrial_stack::{
    ledger::{Ledger, NodeMark, Undo},
    named::KnownDisk,
};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// A process number that is certainly free.
const NOBODY: u32 = u32::MAX - 1;
/// Interval of the observation.
const EVERY: Duration = Duration::from_millis(15);

#[derive(Debug, Default, Clone)]
struct Seen {
    /// With their start times, which distinguish recycled numbers.
    processes: BTreeSet<(u32, u64)>,
    loops: BTreeSet<String>,
    /// With their disk sequence number.
    zrams: BTreeSet<(u64, u64)>,
    groups: BTreeSet<PathBuf>,
}

/// Resources of a trial; a thread observes them while it runs.
pub(super) struct Traces {
    seen: Arc<Mutex<Seen>>,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    root: PathBuf,
}

impl Traces {
    /// Begins to observe a command of a lab.
    pub(super) fn of(command: u32, lab: &Lab) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let ending = Arc::new(AtomicBool::new(false));
        let (root, ledger) = (lab.path(""), lab.home().join("ledger"));
        let (into, ends, below) = (Arc::clone(&seen), Arc::clone(&ending), root.clone());
        let thread = thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                into.lock().expect("this thread never panics").look(command, &below, &ledger);
                crate::child::pause(EVERY);
            }
        });
        Self { seen, ending, thread: Some(thread), root }
    }

    /// Stops looking.
    pub(super) fn end(mut self) -> Self {
        self.stop();
        self
    }

    fn stop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    /// Remaining resources.
    pub(super) fn left(&self) -> Vec<String> {
        let seen = self.seen.lock().expect("this thread never panics").clone();
        let mut left = Vec::new();
        for (pid, started) in &seen.processes {
            if started_at(*pid) == Some(*started) {
                let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                let threads = names_in(Path::new(&format!("/proc/{pid}/task"))).len();
                left.push(format!(
                    "process {} of {threads} threads",
                    stat.chars().take(40).collect::<String>()
                ));
            }
        }
        for device in seen.loops.iter().chain(&loops_below(&self.root)) {
            let backing = fs::read_to_string(sysfs(device).join("loop/backing_file"));
            let ours = backing.as_ref().is_ok_and(|file| Path::new(file).starts_with(&self.root));
            if sysfs(device).exists()
                && (backing.is_err() || ours)
                && !device_is_of_the_attack(device, &self.root)
            {
                left.push(format!("{device} {}", if ours { "attached" } else { "empty" }));
            }
        }
        for (index, diskseq) in &seen.zrams {
            if number(Path::new(&format!("/sys/block/zram{index}/diskseq"))) == Some(*diskseq) {
                left.push(format!("zram{index}"));
            }
        }
        left.extend(
            seen.groups.iter().filter(|group| group.exists()).map(|group| group.display().to_string()),
        );
        left.extend(self.mounts(&seen));
        left.sort();
        left.dedup();
        left
    }

    /// Takes down the program's leftovers, so that the attack leaves nothing behind either: thaws frozen filesystems,
    /// and removes devices, by a separate ledger.
    pub(super) fn take_down(&self) {
        let seen = self.seen.lock().expect("this thread never panics").clone();
        let folder = tempfile::tempdir().expect("a folder can be made");
        let ledger = Ledger::open(folder.path(), NOBODY).expect("a folder that is ours");
        for device in &seen.loops {
            let Ok(disk) = KnownDisk::of(&sysfs(device)) else { continue };
            for filesystem in
                ["ext4", "xfs", "btrfs"].into_iter().filter(|_| loop_is_ours(device, &self.root))
            {
                let filesystem = filesystem.to_owned().try_into().expect("a name of the kernel's");
                let thaw = Undo::Thaw { disk: disk.clone(), filesystem };
                // The kind of device on it is unknown: two of the three fail.
                let _ = ledger.write(thaw).map(|_| ledger.thaw());
            }
        }
        for (pid, started) in &seen.processes {
            if started_at(*pid) == Some(*started) {
                super::ways::kill(*pid);
            }
        }
        let _ = crate::child::eventually(Duration::from_secs(10), || {
            for device in &seen.loops {
                let index = device.trim_start_matches("/dev/loop").parse().ok();
                let index = index.filter(|_| !sysfs(device).join("loop/backing_file").exists());
                if let Some((index, node)) = index.zip(NodeMark::of(Path::new(device))) {
                    let _ = ledger.write(Undo::RemoveLoop { index, file: self.root.clone(), node });
                }
            }
            let _ = ledger.replay();
            self.left().is_empty()
        });
    }

    /// Mounts of its devices, in any namespace.
    fn mounts(&self, seen: &Seen) -> Vec<String> {
        let mut namespaces = BTreeSet::new();
        let mut result = Vec::new();
        let root = self.root.display().to_string();
        for pid in names_in(Path::new("/proc")).into_iter().filter(|name| name.parse::<u32>().is_ok()) {
            let Ok(namespace) = fs::read_link(format!("/proc/{pid}/ns/mnt")) else { continue };
            if !namespaces.insert(namespace) {
                continue;
            }
            let table = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
            let is_ours = |line: &&str| {
                line.contains(&root)
                    || line.split(' ').any(|word| seen.loops.contains(word) && loop_is_ours(word, &self.root))
            };
            result.extend(table.lines().filter(is_ours).map(|line| format!("mount seen by {pid}: {line}")));
        }
        result
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Seen {
    fn look(&mut self, command: u32, root: &Path, ledger: &Path) {
        for pid in descendants(command).into_iter().chain([command]) {
            self.processes.extend(started_at(pid).map(|started| (pid, started)));
        }
        self.loops
            .extend(loops_below(root).into_iter().filter(|device| !device_is_of_the_attack(device, root)));
        for name in names_in(ledger) {
            let entry = fs::read(ledger.join(name)).ok();
            let Some(entry) = entry.and_then(|text| serde_json::from_slice::<Value>(&text).ok()) else {
                continue;
            };
            match entry["undo"].as_str() {
                Some("remove-zram") => {
                    self.zrams.extend(entry["index"].as_u64().zip(entry["diskseq"].as_u64()));
                }
                Some("remove-group") => self.groups.extend(entry["path"].as_str().map(PathBuf::from)),
                _ => {}
            }
        }
    }
}

/// Loop devices on files below a folder.
fn loops_below(root: &Path) -> Vec<String> {
    let names = names_in(Path::new("/sys/block")).into_iter().filter(|name| name.starts_with("loop"));
    names.map(|name| format!("/dev/{name}")).filter(|device| loop_is_ours(device, root)).collect()
}

fn loop_is_ours(device: &str, root: &Path) -> bool {
    let backing = fs::read_to_string(sysfs(device).join("loop/backing_file"));
    backing.is_ok_and(|path| Path::new(path.trim_end()).starts_with(root))
}

/// The disk that the attack itself hands over.
fn device_is_of_the_attack(device: &str, root: &Path) -> bool {
    let backing = fs::read_to_string(sysfs(device).join("loop/backing_file"));
    backing.is_ok_and(|path| Path::new(path.trim_end()) == root.join("disk.img"))
}

/// When a process started; none if it is gone, or dead with its last thread.
fn started_at(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let dead = matches!(*fields.first()?, "Z" | "X") && fields.get(17)? == &"1";
    if dead { None } else { fields.get(19)?.parse().ok() }
}

fn children_of(pid: u32) -> Vec<u32> {
    let tasks = names_in(Path::new(&format!("/proc/{pid}/task"))).into_iter();
    let children =
        tasks.filter_map(|task| fs::read_to_string(format!("/proc/{pid}/task/{task}/children")).ok());
    children
        .flat_map(|text| text.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// All descendants of a process, and their resources.
pub(super) fn descendants(pid: u32) -> Vec<u32> {
    let mut all = children_of(pid);
    let mut at = 0;
    while at < all.len() && all.len() < 10_000 {
        let more = children_of(all[at]);
        all.extend(more);
        at += 1;
    }
    all
}

/// The worker that a command, its agent or an outer worker has started, once it is that.
pub(super) fn worker_of(pid: u32) -> Option<u32> {
    child_with(pid, b"worker").or_else(|| children_of(pid).into_iter().find_map(worker_of))
}

/// The agent that answers for a place of a command.
pub(super) fn agent_of(pid: u32) -> Option<u32> {
    child_with(pid, b"agent").or_else(|| children_of(pid).into_iter().find_map(agent_of))
}

/// The process that serves the modelled device of a command.
pub(super) fn serving(pid: u32) -> Option<u32> {
    child_with(pid, b"device-server")
}

fn child_with(pid: u32, wanted: &[u8]) -> Option<u32> {
    children_of(pid).into_iter().find(|child| {
        let words = fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == wanted)
    })
}
