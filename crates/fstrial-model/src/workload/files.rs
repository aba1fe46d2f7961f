//! A working set of small files: its settings, and which steps can be repeated without end.

use super::{
    Behaviour, Durability,
    behaviour::space_of_file,
    entry_error::{EntryError, entry_error},
};
use crate::{problem::closest, rows::words, units::Bytes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A working set of small files. Each thread has a directory and a ring of files in it; one operation is one turn
/// of the ring: the [`steps`](Self::steps), in order. `create` makes the newest file, `delete` removes the oldest,
/// `read` and `stat` take one at random, so the set keeps its size for as long as a run lasts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FileSet {
    /// Files in each thread's ring, laid out before the clock starts.
    pub files: u32,
    /// Bytes in each file.
    pub file_size: Bytes,
    /// Steps of one turn.
    pub steps: Vec<FileStep>,
}

words! {
    /// One step of a turn over a [`FileSet`].
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case", try_from = "String")]
    pub enum FileStep {
        /// Make the newest file and leave it open.
        "create" Create,
        /// Write the whole of the newest file.
        "write" Write,
        /// Sync the newest file.
        "fsync" Fsync,
        /// Open, read and close a random file.
        "read" Read,
        /// Look at a random file's attributes.
        "stat" Stat,
        /// Delete the oldest file.
        "delete" Delete,
    }
}

impl TryFrom<String> for FileStep {
    type Error = String;

    fn try_from(step: String) -> Result<Self, String> {
        let step = step.trim();
        Self::named(step).ok_or_else(|| match closest(step, Self::ALL.map(Self::name)) {
            Some(near) => format!("there is no step `{step}`; did you mean `{near}`?"),
            None => format!("there is no step `{step}`; use one of {}", Self::names()),
        })
    }
}

impl Default for FileSet {
    /// Files of 4 KiB that are made, written and deleted, 200 for each thread.
    fn default() -> Self {
        let steps = vec![FileStep::Create, FileStep::Write, FileStep::Delete];
        Self { files: 200, file_size: Bytes::kib(4), steps }
    }
}

impl FileSet {
    fn has(&self, step: FileStep) -> bool {
        self.steps.contains(&step)
    }
}

impl Behaviour for FileSet {
    fn words(&self) -> &'static str {
        "a set of small files"
    }

    fn ends(&self) -> bool {
        false
    }

    fn is_buffered_write(&self) -> bool {
        self.has(FileStep::Write) && !self.has(FileStep::Fsync)
    }

    fn takes_rate(&self) -> bool {
        true
    }

    fn durability(&self) -> Durability {
        if self.has(FileStep::Fsync) {
            Durability::PerFile
        } else if self.steps.iter().all(|step| matches!(step, FileStep::Read | FileStep::Stat)) {
            Durability::ReadsOnly
        } else {
            Durability::None
        }
    }

    fn space_needed(&self, threads: u16) -> Bytes {
        let files = 2 * u64::from(self.files) * u64::from(threads);
        Bytes(files.saturating_mul(space_of_file(self.file_size)))
    }

    fn request_size(&self) -> Option<Bytes> {
        Some(self.file_size)
    }

    fn check(&self) -> Result<(), EntryError> {
        let position = |step: FileStep| self.steps.iter().position(|s| *s == step);
        let create = position(FileStep::Create);
        if self.steps.is_empty() || self.steps.len() > 32 {
            return Err(entry_error(
                "steps",
                "an operation has 1 to 32 steps",
                "write steps = [\"create\", \"write\", \"delete\"]",
            ));
        }
        if !(1..=10_000_000).contains(&self.files) {
            return Err(entry_error(
                "files",
                format!("files = {} is out of range", self.files),
                "use 1 to 10000000",
            ));
        }
        if self.file_size > Bytes::gib(1) {
            return Err(entry_error(
                "file_size",
                format!("file_size = {} is too large", self.file_size),
                "use at most 1GiB: a file set is for small files",
            ));
        }
        for step in [FileStep::Write, FileStep::Fsync] {
            if position(step).is_some_and(|at| create.is_none_or(|made| made > at)) {
                return Err(entry_error(
                    "steps",
                    "`write` and `fsync` work on the file that `create` made",
                    "put \"create\" before them",
                ));
            }
        }
        let count = |step: FileStep| self.steps.iter().filter(|s| **s == step).count();
        if count(FileStep::Create) > 1 || count(FileStep::Delete) > 1 {
            return Err(entry_error(
                "steps",
                "a turn makes and deletes at most one file",
                "name create and delete once",
            ));
        }
        if position(FileStep::Delete).is_some() && create.is_none() {
            return Err(entry_error(
                "steps",
                "deleting without making would empty the set",
                "add \"create\" as the first step",
            ));
        }
        let mut files = self.files;
        for step in &self.steps {
            match step {
                FileStep::Create => files += 1,
                FileStep::Delete => files -= 1,
                _ if files > 0 => {}
                _ => {
                    return Err(entry_error(
                        "steps",
                        format!("the set has no file when `{}` comes", step.name()),
                        "use more files, or let \"create\" come first",
                    ));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_set_at_the_highest_level_needs_more_than_can_be_counted() {
        let set = FileSet { files: 10_000_000, file_size: Bytes::gib(1), steps: FileStep::ALL.to_vec() };
        set.check().unwrap();
        assert_eq!(set.space_needed(1024), Bytes(u64::MAX));
        let small = FileSet { files: 10, file_size: Bytes(1), steps: vec![FileStep::Read] };
        assert_eq!(small.space_needed(2), Bytes(10 * 2 * (4096 + 1024) * 2));
    }

    #[test]
    fn turns_running_out_of_files_are_refused() {
        use FileStep::{Create, Delete, Fsync, Read, Stat, Write};
        for (files, steps, ok) in [
            (10, vec![Read], true),
            (10, vec![Stat], true),
            (10, vec![Create, Write, Fsync, Delete], true),
            (1, vec![Delete, Create], true),
            (2, vec![Delete, Read, Create], true),
            (1, vec![Delete, Read, Create], false),
            (1, vec![Delete, Stat, Create], false),
            (0, vec![Create], false),
            (10, vec![Delete], false),
            (10, vec![Write, Fsync], false),
            (10, vec![Create, Delete, Delete], false),
            (10, vec![], false),
        ] {
            let set = FileSet { files, file_size: Bytes(100), steps };
            assert_eq!(set.check().is_ok(), ok, "{files} {:?}", set.steps);
        }
    }
}
