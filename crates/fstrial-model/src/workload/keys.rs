//! Which keys belong to which kind of workload: one table, for all kinds.

use super::{
    Entry, Kind,
    entry::Keys,
    entry_error::{EntryError, entry_error},
};

impl Kind {
    /// What a workload of this kind is written with, for errors.
    const fn has(self) -> &'static str {
        match self {
            Self::Io => "kind = \"io\" has access, reads, block_size, file_size and more",
            Self::Files => "kind = \"files\" has files, file_size and steps",
            Self::Flow => "kind = \"flow\" has sets, steps and turns",
            Self::Postmark => "kind = \"postmark\" has a table [postmark], and part",
            Self::Log => "kind = \"log\" has a table [log]",
            Self::Flush => "kind = \"flush\" has a table [flush]",
            Self::Program => "kind = \"program\" has command and [[metric]]",
            Self::Operation => "kind = \"operation\" has operation, tree and repeat",
        }
    }
}

impl Entry {
    /// Refuses keys of other kinds, where they are written: what is taken over from around may be for others. Programs
    /// and operations check their keys when they are settled, as they can be neither a phase nor a group.
    pub(super) fn keys_of(&self, kind: Option<Kind>) -> Result<(), EntryError> {
        match kind {
            None | Some(Kind::Program | Kind::Operation) => Ok(()),
            Some(kind) => self.only_keys_of(kind),
        }
    }

    /// Refuses keys of other kinds.
    pub(super) fn only_keys_of(&self, kind: Kind) -> Result<(), EntryError> {
        let (io, flow, program) = (kind == Kind::Io, kind == Kind::Flow, kind == Kind::Program);
        let operation = kind == Kind::Operation;
        let steps = [("steps", self.steps.is_some())];
        let trees = [("sets", self.sets.is_some()), ("turns", self.turns.is_some())];
        let ends = [("fsync_at_end", self.fsync_at_end.is_some())];
        let postmark = [("postmark", self.postmark.is_some()), ("part", self.part.is_some())];
        let log = [("log", self.log.is_some())];
        let flush = [("flush", self.flush.is_some())];
        let block = [("block_size", self.block_size.is_some())];
        let sizes = [("file_size", self.file_size.is_some()), ("files", self.files.is_some())];
        let owned: [(&Keys, &str, bool); 13] = [
            (&self.of_requests(), "io", io),
            (&block, "io", io || program),
            (&steps, "files", kind == Kind::Files || flow),
            (&trees, "flow", flow),
            (&postmark, "postmark", kind == Kind::Postmark),
            (&log, "log", kind == Kind::Log),
            (&flush, "flush", kind == Kind::Flush),
            (&ends, "io", io || flow),
            (&sizes, "io", io || kind == Kind::Files || program),
            (&self.of_engine(), "io", !program && !operation),
            (&self.of_data(), "io", !program),
            (&self.of_operation(), "operation", operation),
            (&self.of_program(), "program", program),
        ];
        for (keys, owner, is_mine) in owned {
            if let Some((key, _)) = keys.iter().find(|(_, present)| *present && !is_mine) {
                return Err(entry_error(key, format!("`{key}` belongs to kind = \"{owner}\""), kind.has()));
            }
        }
        Ok(())
    }

    /// What only requests have.
    fn of_requests(&self) -> [(&'static str, bool); 20] {
        [
            ("access", self.access.is_some()),
            ("stride", self.stride.is_some()),
            ("distribution", self.distribution.is_some()),
            ("each_block_once", self.each_block_once.is_some()),
            ("reads", self.reads.is_some()),
            ("update", self.update.is_some()),
            ("mix", self.mix.is_some()),
            ("sharing", self.sharing.is_some()),
            ("direct", self.direct.is_some()),
            ("backend", self.backend.is_some()),
            ("depth", self.depth.is_some()),
            ("fsync_every", self.fsync_every.is_some()),
            ("fsync", self.fsync.is_some()),
            ("fsync_counts", self.fsync_counts.is_some()),
            ("fsync_all_files", self.fsync_all_files.is_some()),
            ("open_sync", self.open_sync.is_some()),
            ("layout", self.layout.is_some()),
            ("sqpoll", self.sqpoll.is_some()),
            ("iopoll", self.iopoll.is_some()),
            ("requests", self.requests.is_some()),
        ]
    }

    /// What all have that the engine runs.
    fn of_engine(&self) -> [(&'static str, bool); 11] {
        [
            ("until", self.until.is_some()),
            ("measured", self.measured.is_some()),
            ("settle", self.settle.is_some()),
            ("find_rate", self.find_rate.is_some()),
            ("workers", self.workers.is_some()),
            ("set", self.set.is_some()),
            ("background", self.background.is_some()),
            ("figure", self.figure.is_some()),
            ("rate", self.rate.is_some()),
            ("phase", self.phases.is_some()),
            ("group", self.groups.is_some()),
        ]
    }

    /// What all have whose files are written by the engine.
    fn of_data(&self) -> [(&'static str, bool); 3] {
        [
            ("data", self.data.is_some()),
            ("compressible", self.compressible.is_some()),
            ("duplicates", self.duplicates.is_some()),
        ]
    }

    /// What only an operation has.
    fn of_operation(&self) -> [(&'static str, bool); 5] {
        [
            ("operation", self.operation.is_some()),
            ("tree", self.tree.is_some()),
            ("repeat", self.repeat.is_some()),
            ("filesystem_size", self.filesystem_size.is_some()),
            ("hold", self.hold.is_some()),
        ]
    }

    /// What only a program has.
    fn of_program(&self) -> [(&'static str, bool); 8] {
        [
            ("command", self.command.is_some()),
            ("prepare", self.prepare.is_some()),
            ("cleanup", self.cleanup.is_some()),
            ("version", self.version.is_some()),
            ("deadline", self.deadline.is_some()),
            ("inputs", self.inputs.is_some()),
            ("parameters", self.parameters.is_some()),
            ("metric", self.metrics.is_some()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        let entry: Entry = toml::from_str(text).unwrap();
        entry.resolve(1).unwrap_err().problem
    }

    #[test]
    fn no_key_of_another_kind_is_passed_over() {
        let program = "kind = 'program'\ncommand = ['a']\n[[metric]]\nname = 'w'\nmeasure = 'wall'\n";
        for key in ["rate = '5/s'", "stride = '1MiB'", "data = 'zero'", "turns = 1", "part = 'create'"] {
            let text = format!("{key}\n{program}");
            let name = key.split(' ').next().unwrap();
            assert!(problem(&text).starts_with(&format!("`{name}` belongs to kind")), "{text}");
        }
        for kind in ["flow", "postmark", "log", "flush"] {
            let text = format!("kind = '{kind}'\ncommand = ['a']");
            assert_eq!(problem(&text), "`command` belongs to kind = \"program\"", "{kind}");
        }
    }
}
