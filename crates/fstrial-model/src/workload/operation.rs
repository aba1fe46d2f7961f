//! Operations of a filesystem as workloads: what an administrator waits for, and a throughput test never shows.
//!
//! Each yields one or more numbers with names and units ([`Operation::results`]). What a filesystem does it with, or why
//! it cannot, is in [`crate::ability`].

use super::{
    Data, Entry, FileTree, Kind, ResultKind, Size,
    behaviour::space_of_file,
    entry_error::{EntryError, entry_error},
};
use crate::{
    unit,
    units::{Bytes, Nanos},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What is done and timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Making the filesystem, with the arm's options.
    Mkfs,
    /// Mounting a populated filesystem, cold, and unmounting it.
    Mount,
    /// Mounting after an unclean stop, and once more after a clean one.
    Recovery,
    /// The full check, read-only, of a populated filesystem.
    Check,
    /// The full check that may repair, of a populated filesystem without damage.
    Repair,
    /// Freezing and thawing while threads write, and how long they stall.
    Freeze,
    /// Making a read-only snapshot of a populated filesystem, and deleting it.
    Snapshot,
    /// The filesystem's own tool against fragmentation, with extents and sequential reads before and after.
    Defragment,
    /// Copying a tree by sharing its blocks.
    ReflinkCopy,
    /// What a tree costs in space.
    Space,
    /// Filling up to the last block, and deleting then.
    Fill,
    /// Deleting a tree.
    DeleteTree,
    /// Looking at every file of a tree, cold and warm.
    Find,
    /// Making it larger while it is mounted.
    Grow,
    /// Making it smaller while it is mounted.
    Shrink,
}

/// How a filesystem is stopped uncleanly while the machine goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unclean {
    /// By its own shutdown ioctl, of that name: nothing that is only in memory is written any more.
    Shutdown(&'static str),
    /// Its device is copied while it is mounted and nobody writes; later the copy is put back.
    Image,
}

/// A number that an operation yields: name, unit, whether less is better.
type Number = (&'static str, &'static str, bool);

/// Extents of all files together.
const EXTENTS: &str = "extents";

impl Operation {
    /// All, in the order they are listed.
    pub const ALL: [Self; 15] = [
        Self::Mkfs,
        Self::Mount,
        Self::Recovery,
        Self::Check,
        Self::Repair,
        Self::Freeze,
        Self::Snapshot,
        Self::Defragment,
        Self::ReflinkCopy,
        Self::Space,
        Self::Fill,
        Self::DeleteTree,
        Self::Find,
        Self::Grow,
        Self::Shrink,
    ];

    /// The name in files and output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mkfs => "mkfs",
            Self::Mount => "mount",
            Self::Recovery => "recovery",
            Self::Check => "check",
            Self::Repair => "repair",
            Self::Freeze => "freeze",
            Self::Snapshot => "snapshot",
            Self::Defragment => "defragment",
            Self::ReflinkCopy => "reflink-copy",
            Self::Space => "space",
            Self::Fill => "fill",
            Self::DeleteTree => "delete-tree",
            Self::Find => "find",
            Self::Grow => "grow",
            Self::Shrink => "shrink",
        }
    }

    const fn numbers(self) -> &'static [Number] {
        match self {
            Self::Mkfs | Self::Check | Self::Repair | Self::Grow | Self::Shrink => &[("", unit::TIME, true)],
            Self::Mount => &[("mount", unit::TIME, true), ("unmount", unit::TIME, true)],
            Self::Recovery => {
                &[("after unclean stop", unit::TIME, true), ("after clean stop", unit::TIME, true)]
            }
            Self::Freeze => {
                &[("freeze", unit::TIME, true), ("thaw", unit::TIME, true), ("stall", unit::TIME, true)]
            }
            Self::Snapshot => &[("create", unit::TIME, true), ("delete", unit::TIME, true)],
            Self::Defragment => &[
                ("time", unit::TIME, true),
                ("extents before", EXTENTS, true),
                ("extents after", EXTENTS, true),
                ("read before", unit::BYTES_PER_SECOND, false),
                ("read after", unit::BYTES_PER_SECOND, false),
            ],
            Self::ReflinkCopy => &[("copy", unit::TIME, true), ("space", unit::BYTES, true)],
            Self::Space => &[("", unit::BYTES_PER_FILE, true)],
            Self::Fill => &[
                ("usable", unit::BYTES, false),
                ("write", unit::BYTES_PER_SECOND, false),
                ("write nearly full", unit::BYTES_PER_SECOND, false),
                ("delete when full", unit::TIME, true),
            ],
            Self::DeleteTree => &[("delete", unit::TIME, true), ("durable", unit::TIME, true)],
            Self::Find => &[("cold", unit::TIME, true), ("warm", unit::TIME, true)],
        }
    }

    /// What it yields, in order.
    pub fn results(self) -> impl Iterator<Item = ResultKind> {
        self.numbers().iter().map(|(name, unit, less_is_better)| ResultKind {
            name: (*name).to_owned(),
            unit: (*unit).to_owned(),
            less_is_better: *less_is_better,
            has_latencies: false,
            has_offered_rate: false,
        })
    }

    /// The tree it works on if none is described: files, size, width. None for those that work on none.
    fn usual_tree(self) -> Option<(u32, Size, u32)> {
        match self {
            Self::Mkfs | Self::Freeze | Self::Fill => None,
            Self::Defragment => Some((16, Size::Fixed(Bytes::mib(2)), 0)),
            _ => Some((4000, Size::Gamma { mean: Bytes::kib(8) }, 20)),
        }
    }

    /// How often it is done in a run if nothing is said; none for those that are done once. Those that take
    /// milliseconds are repeated, as a single time would be mostly chance.
    const fn usual_repeat(self) -> Option<u16> {
        match self {
            Self::Mkfs => Some(3),
            Self::Mount | Self::Freeze | Self::Snapshot => Some(5),
            _ => None,
        }
    }

    /// Whether the filesystem may be made smaller than its device.
    const fn has_size(self) -> bool {
        matches!(self, Self::Recovery | Self::Fill | Self::Grow | Self::Shrink)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A tree of files as a user describes it; what is left out is as usual for the operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TreeEntry {
    /// Number of files, 1 to 10 million.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<u32>,
    /// Their sizes: `16KiB`, `500B..10000B`, `gamma 16KiB`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// Entries of a directory; 0: all files in one. Directories have widths around it, as in a flow's sets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
}

/// The name of the tree, and of its directory.
pub const TREE: &str = "tree";
/// The longest that threads write around a freeze.
const LONGEST: Nanos = Nanos::secs(600);
/// Files that are appended to in turn, at most, and the size of each, at least.
const FRAGMENTED_MAX: u32 = 500;
const FRAGMENT_MIN: Bytes = Bytes::kib(64);
/// The most repetitions in a run.
const REPEAT_MAX: u16 = 1000;

/// An operation with every field settled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimedOperation {
    /// What is done.
    pub operation: Operation,
    /// The tree that is there before; none where none is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<FileTree>,
    /// How often it is done in a run; the result is the median.
    pub repeat: u16,
    /// Size of the filesystem, where it may be smaller than its device: before it grows, after it shrinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filesystem_size: Option<Bytes>,
    /// freeze: how long threads write, with the freezes spread over it.
    pub duration: Nanos,
    /// freeze: how long the filesystem stays frozen each time.
    pub hold: Nanos,
    /// What the files hold; what suits the device if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
}

impl TimedOperation {
    /// Whether the filesystem that was there is made anew in it.
    pub fn makes_a_filesystem(&self) -> bool {
        match self.operation {
            Operation::Mkfs | Operation::Recovery | Operation::Grow => true,
            Operation::Fill => self.filesystem_size.is_some(),
            _ => false,
        }
    }
}

impl Entry {
    /// Settles an operation of the filesystem that is run with these numbers of threads.
    ///
    /// # Errors
    /// The key at fault, what is wrong with it and what to try.
    pub(super) fn operation(&self, threads: &[u16]) -> Result<TimedOperation, EntryError> {
        self.only_keys_of(Kind::Operation)?;
        if self.warmup.is_some() {
            return Err(entry_error("warmup", "an operation has no warm-up", "leave warmup out"));
        }
        let Some(operation) = self.operation else {
            let names = Operation::ALL.map(Operation::name).join(", ");
            return Err(entry_error(
                "operation",
                "an operation without a name",
                format!("there are {names}"),
            ));
        };
        self.only_keys_of_operation(operation)?;
        let tree = operation.usual_tree().map(|usual| tree(usual, self.tree.unwrap_or_default()));
        tree.as_ref().map(|tree| tree.check("tree")).transpose()?;
        if let (Operation::Defragment, Some(tree)) = (operation, &tree) {
            check_fragments(tree)?;
        }
        let repeat = self.repeat.or(operation.usual_repeat()).unwrap_or(1);
        if !(1..=REPEAT_MAX).contains(&repeat) {
            return Err(entry_error("repeat", format!("{repeat} repetitions in a run"), "use 1 to 1000"));
        }
        let (duration, hold) = (self.duration.unwrap_or(Nanos::secs(1)), self.hold.unwrap_or_default());
        if !(Nanos::millis(50)..=LONGEST).contains(&duration) {
            return Err(entry_error("duration", format!("writing for {duration}"), "use 50ms to 10m"));
        }
        if hold > Nanos::secs(60) {
            return Err(entry_error("hold", format!("frozen for {hold}"), "use 0s to 1m"));
        }
        let data = Data::of_entry(self.data, self.compressible, self.duplicates)?;
        let filesystem_size = self.filesystem_size;
        let settled = TimedOperation { operation, tree, repeat, filesystem_size, duration, hold, data };
        settled.check_threads(threads).map(|()| settled)
    }

    /// Refuses keys that another operation has.
    fn only_keys_of_operation(&self, operation: Operation) -> Result<(), EntryError> {
        let freezes = operation == Operation::Freeze;
        let keys = [
            ("duration", self.duration.is_some(), freezes),
            ("tree", self.tree.is_some(), operation.usual_tree().is_some()),
            ("repeat", self.repeat.is_some(), operation.usual_repeat().is_some()),
            ("filesystem_size", self.filesystem_size.is_some(), operation.has_size()),
            ("hold", self.hold.is_some(), freezes),
        ];
        match keys.iter().find(|(_, written, belongs)| *written && !belongs) {
            None => Ok(()),
            Some((key, ..)) => Err(entry_error(
                key,
                format!("operation = \"{operation}\" has no `{key}`"),
                "leave it out; `fstrial workloads show` shows what a preset takes",
            )),
        }
    }
}

/// Files that are appended to in turn are of one size, in one directory, and open at once; tools take their names.
fn check_fragments(tree: &FileTree) -> Result<(), EntryError> {
    let Size::Fixed(size) = tree.size else { return Err(no_fragments("files of many sizes")) };
    if tree.width != 0 || tree.files > FRAGMENTED_MAX {
        return Err(no_fragments("more than one directory, or more than 500 files"));
    }
    if size < FRAGMENT_MIN {
        return Err(no_fragments("files of less than 64KiB"));
    }
    Ok(())
}

fn no_fragments(problem: &str) -> EntryError {
    let hint = "use up to 500 files of one size: tree = { files = 16, size = \"2MiB\" }";
    entry_error("tree", format!("{problem} cannot be appended to in turn"), hint)
}

fn tree((files, size, width): (u32, Size, u32), own: TreeEntry) -> FileTree {
    let files = own.files.unwrap_or(files);
    let width = own.width.unwrap_or(width);
    FileTree { size: own.size.unwrap_or(size), width, ..FileTree::new(TREE, files, Bytes(0)) }
}

impl TimedOperation {
    /// Refuses a number of threads that means nothing here.
    ///
    /// # Errors
    /// More than one thread where nothing is done by threads.
    pub(super) fn check_threads(&self, threads: &[u16]) -> Result<(), EntryError> {
        if self.operation == Operation::Freeze || threads == [1] {
            return Ok(());
        }
        Err(entry_error(
            "threads",
            format!("operation = \"{}\" is done by one process", self.operation),
            "leave threads out; only freeze has threads, which write meanwhile",
        ))
    }

    /// Bytes it needs on the device, of which files may take 80 %: the tree, its copies, and the filesystem's size
    /// where it is given.
    pub fn space_needed(&self, threads: u16) -> Bytes {
        let tree = self
            .tree
            .as_ref()
            .map_or(0, |tree| space_of_file(tree.size.mean()).saturating_mul(tree.files.into()));
        let writers = if self.operation == Operation::Freeze { u64::from(threads) * WRITTEN.0 } else { 0 };
        // Copies that share no blocks, and what a defragmentation moves, need the space twice.
        let twice = matches!(self.operation, Operation::ReflinkCopy | Operation::Defragment);
        let files = tree.saturating_mul(if twice { 2 } else { 1 }).saturating_add(writers);
        // A copy of the whole filesystem may have to lie beside it (recovery); growing and shrinking need room.
        let size = self.filesystem_size.unwrap_or_default().0;
        let beside = if self.operation == Operation::Recovery { size.saturating_mul(2) } else { size };
        Bytes(files.max(beside / 5 * 4))
    }
}

/// The file of each thread that writes while the filesystem is frozen.
pub const WRITTEN: Bytes = Bytes::mib(16);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Entry, Workload};
    use std::collections::BTreeSet;

    fn resolve(text: &str) -> Result<Workload, EntryError> {
        toml::from_str::<Entry>(&format!("kind = 'operation'\n{text}")).unwrap().resolve(4)
    }

    fn settled(text: &str) -> TimedOperation {
        resolve(text).unwrap_or_else(|e| panic!("{text}: {}", e.problem)).operation.unwrap()
    }

    #[test]
    fn every_operation_can_be_written_and_yields_numbers_of_different_names() {
        for operation in Operation::ALL {
            let workload = resolve(&format!("operation = '{operation}'")).unwrap();
            assert_eq!(workload.threads, [1], "{operation}");
            let names: Vec<String> = workload.results().map(|result| result.name).collect();
            assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{operation}");
            assert!(!names.is_empty() && names.iter().all(|name| name.len() <= 40));
            let stored = serde_json::to_string(&workload).unwrap();
            assert_eq!(serde_json::from_str::<Workload>(&stored).unwrap(), workload);
        }
    }

    #[test]
    fn a_part_of_the_tree_changes_that_part_only() {
        let tree = settled("operation = 'find'\ntree = { files = 10 }").tree.unwrap();
        assert_eq!((tree.files, tree.size, tree.width), (10, Size::Gamma { mean: Bytes::kib(8) }, 20));
        let entry: Entry = toml::from_str("use = 'op-find'\ntree = { size = '1KiB' }").unwrap();
        let tree = entry.resolve(1).unwrap().operation.unwrap().tree.unwrap();
        assert_eq!(tree.size, Size::Fixed(Bytes::kib(1)));
        assert!(tree.files > 10, "the preset's");
    }

    #[test]
    fn what_means_nothing_is_refused_at_its_key() {
        for (text, key) in [
            ("", "operation"),
            ("operation = 'mkfs'\ntree = { files = 10 }", "tree"),
            ("operation = 'check'\nrepeat = 3", "repeat"),
            ("operation = 'mkfs'\nrepeat = 0", "repeat"),
            ("operation = 'mkfs'\nfilesystem_size = '1GiB'", "filesystem_size"),
            ("operation = 'mount'\nhold = '1s'", "hold"),
            ("operation = 'freeze'\nhold = '2m'", "hold"),
            ("operation = 'freeze'\nduration = '1ms'", "duration"),
            ("operation = 'find'\nduration = '1s'", "duration"),
            ("operation = 'find'\nthreads = [2]", "threads"),
            ("operation = 'find'\ntree = { files = 0 }", "tree"),
            ("operation = 'find'\ntree = { width = 1 }", "tree"),
            ("operation = 'defragment'\ntree = { files = 1, size = '4KiB' }", "tree"),
            ("operation = 'defragment'\ntree = { width = 5 }", "tree"),
            ("operation = 'defragment'\ntree = { size = 'gamma 1MiB' }", "tree"),
            ("operation = 'find'\nreads = '10%'", "reads"),
            ("operation = 'find'\nwarmup = '1s'", "warmup"),
            ("operation = 'find'\n[[phase]]\nname = 'a'", "phase"),
        ] {
            let error = resolve(text).unwrap_err();
            assert_eq!(error.key, key, "{text}: {}", error.problem);
            assert!(error.hint.is_some(), "{text}");
        }
        let alone: Entry = toml::from_str("kind = 'io'\noperation = 'mkfs'").unwrap();
        assert_eq!(alone.resolve(1).unwrap_err().key, "operation");
        assert!(toml::from_str::<Entry>("kind = 'operation'\noperation = 'mkfss'").is_err());
        assert!(toml::from_str::<Entry>("kind = 'operation'\ntree = { depth = 1 }").is_err());
    }

    #[test]
    fn only_a_freeze_has_threads() {
        assert_eq!(resolve("operation = 'freeze'\nthreads = [1, 8]").unwrap().threads, [1, 8]);
    }

    #[test]
    fn space_counts_copies_and_sizes() {
        let one = settled("operation = 'find'\ntree = { files = 100, size = '4KiB' }").space_needed(1);
        let two =
            settled("operation = 'reflink-copy'\ntree = { files = 100, size = '4KiB' }").space_needed(1);
        assert_eq!((one, two), (Bytes(100 * 5120), Bytes(200 * 5120)));
        let fill = settled("operation = 'fill'\nfilesystem_size = '500MiB'").space_needed(1);
        assert_eq!(fill, Bytes::mib(400));
        let recovery = settled("operation = 'recovery'\nfilesystem_size = '500MiB'").space_needed(1);
        assert_eq!(recovery, Bytes::mib(800));
    }
}
