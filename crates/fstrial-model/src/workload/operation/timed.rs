//! An operation as a user writes it, and with every field settled.

use super::{Operation, OperationRow, TREE, UsualTree};
use crate::{
    units::{Bytes, Nanos},
    workload::{
        Data, Entry, FileTree, Kind, Size,
        behaviour::space_of_file,
        entry_error::{EntryError, entry_error},
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A tree of files as a user describes it; defaults depend on the operation.
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

/// The longest that threads write around a freeze.
const MAX_TIME: Nanos = Nanos::secs(600);
/// The most repetitions in a run.
const MAX_REPEAT: u16 = 1000;

/// An operation with every field settled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimedOperation {
    /// Measured operation, such as `mkfs` or `mount`.
    pub operation: Operation,
    /// The tree that is there before; none where none is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<FileTree>,
    /// Repetitions in a run; the result is the median.
    pub repeat: u16,
    /// Size of the filesystem, if it may be smaller than its device: before it grows, after it shrinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filesystem_size: Option<Bytes>,
    /// freeze: how long threads write, with the freezes spread over it.
    pub duration: Nanos,
    /// freeze: how long the filesystem stays frozen each time.
    pub hold: Nanos,
    /// Content of the files; default: depends on the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
}

impl TimedOperation {
    /// True if it replaces the filesystem with a new one.
    pub fn makes_a_filesystem(&self) -> bool {
        (self.operation.row().makes_a_filesystem)(self)
    }
}

impl Entry {
    /// Settles an operation of the filesystem that is run with these numbers of threads.
    ///
    /// # Errors
    /// The key at fault, the problem and the remedy.
    pub(in crate::workload) fn operation(&self, threads: &[u16]) -> Result<TimedOperation, EntryError> {
        self.only_keys_of(Kind::Operation)?;
        if self.warmup.is_some() {
            return Err(entry_error("warmup", "an operation has no warm-up", "leave warmup out"));
        }
        let Some(operation) = self.operation else {
            return Err(entry_error(
                "operation",
                "the workload names no operation",
                format!("use one of {}", Operation::names()),
            ));
        };
        let row = operation.row();
        self.only_keys_of_operation(operation, row)?;
        let tree = row.tree.map(|usual| tree(usual, self.tree.unwrap_or_default()));
        tree.as_ref().map(|tree| tree.check("tree").and_then(|()| (row.check_tree)(tree))).transpose()?;
        let repeat = self.repeat.or(row.repeat).unwrap_or(1);
        if !(1..=MAX_REPEAT).contains(&repeat) {
            return Err(entry_error("repeat", format!("repeat = {repeat} is out of range"), "use 1 to 1000"));
        }
        let (duration, hold) = (self.duration.unwrap_or(Nanos::secs(1)), self.hold.unwrap_or_default());
        if !(Nanos::millis(50)..=MAX_TIME).contains(&duration) {
            return Err(entry_error(
                "duration",
                format!("duration = {duration} is out of range"),
                "use 50ms to 10m",
            ));
        }
        if hold > Nanos::secs(60) {
            return Err(entry_error("hold", format!("hold = {hold} is out of range"), "use 0s to 1m"));
        }
        let data = Data::of_entry(self.data, self.compressible, self.duplicates)?;
        let filesystem_size = self.filesystem_size;
        let settled = TimedOperation { operation, tree, repeat, filesystem_size, duration, hold, data };
        settled.check_threads(threads).map(|()| settled)
    }

    /// Refuses keys that another operation has.
    fn only_keys_of_operation(&self, operation: Operation, row: &OperationRow) -> Result<(), EntryError> {
        let keys = [
            ("duration", self.duration.is_some(), row.freezes),
            ("tree", self.tree.is_some(), row.tree.is_some()),
            ("repeat", self.repeat.is_some(), row.repeat.is_some()),
            ("filesystem_size", self.filesystem_size.is_some(), row.has_size),
            ("hold", self.hold.is_some(), row.freezes),
        ];
        match keys.iter().find(|(_, written, belongs)| *written && !belongs) {
            None => Ok(()),
            Some((key, ..)) => Err(entry_error(
                key,
                format!("operation = \"{operation}\" has no `{key}`"),
                "leave it out; `fstrial workloads show` lists the keys of a preset",
            )),
        }
    }
}

fn tree((files, size, width): UsualTree, own: TreeEntry) -> FileTree {
    let files = own.files.unwrap_or(files);
    let width = own.width.unwrap_or(width);
    FileTree { size: own.size.unwrap_or(size), width, ..FileTree::new(TREE, files, Bytes(0)) }
}

impl TimedOperation {
    /// Refuses a number of threads that means nothing here.
    ///
    /// # Errors
    /// More than one thread for an operation without threads.
    pub(super) fn check_threads(&self, threads: &[u16]) -> Result<(), EntryError> {
        if self.operation.freezes() || threads == [1] {
            return Ok(());
        }
        Err(entry_error(
            "threads",
            format!("operation = \"{}\" is done by one process", self.operation),
            "leave threads out; only freeze has threads, which write meanwhile",
        ))
    }

    /// Bytes it needs on the device, of which files may take 80 %: the tree, its copies, and the filesystem's size if
    /// it is given.
    pub fn space_needed(&self, threads: u16) -> Bytes {
        Bytes((self.operation.row().space)(self, threads))
    }

    /// Bytes that the files of the tree take; 0 without a tree.
    pub(super) fn tree_space(&self) -> u64 {
        let tree = self.tree.as_ref();
        tree.map_or(0, |tree| space_of_file(tree.size.mean()).saturating_mul(tree.files.into()))
    }

    /// Space for files on a filesystem of its size, this many times over.
    pub(super) fn size_space(&self, times: u64) -> u64 {
        self.filesystem_size.unwrap_or_default().0.saturating_mul(times) / 5 * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Entry, Workload};
    use std::collections::BTreeSet;

    fn resolve(text: &str) -> Result<Workload, EntryError> {
        toml::from_str::<Entry>(&format!("kind = 'operation'\n{text}")).unwrap().resolve(4)
    }

    fn settled(text: &str) -> TimedOperation {
        resolve(text).unwrap_or_else(|e| panic!("{text}: {}", e.problem)).operation().unwrap().clone()
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
    fn partial_tree_overrides_only_given_fields() {
        let tree = settled("operation = 'find'\ntree = { files = 10 }").tree.unwrap();
        assert_eq!((tree.files, tree.size, tree.width), (10, Size::Gamma { mean: Bytes::kib(8) }, 20));
        let entry: Entry = toml::from_str("use = 'op-find'\ntree = { size = '1KiB' }").unwrap();
        let tree = entry.resolve(1).unwrap().operation().unwrap().tree.clone().unwrap();
        assert_eq!(tree.size, Size::Fixed(Bytes::kib(1)));
        assert!(tree.files > 10, "the preset's");
    }

    #[test]
    fn meaningless_settings_are_refused_at_their_key() {
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
