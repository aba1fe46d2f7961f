//! Conflicting settings of requests: one table, for the trial file and for the engine.

use super::{Backend, FsyncCounts, Io, Layout, OpenSync, Serialise, Sharing, SyncCall};

/// Settings that do not go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conflict {
    /// The key at fault.
    pub key: &'static str,
    /// The conflict.
    pub problem: &'static str,
    /// The remedy.
    pub hint: &'static str,
}

/// One line of the table: its condition and its texts.
type Rule = (bool, &'static str, &'static str, &'static str);

impl Io {
    /// The first conflict between settings, on any machine.
    pub fn conflict(&self) -> Option<Conflict> {
        let mut rules = self.backend_rules().into_iter().chain(self.map_rules()).chain(self.file_rules());
        rules.find(|(applies, ..)| *applies).map(|(_, key, problem, hint)| Conflict { key, problem, hint })
    }

    fn backend_rules(&self) -> [Rule; 5] {
        let aio = self.backend == Backend::Aio;
        let sync = self.backend == Backend::Sync;
        [
            (
                self.depth > 1 && sync,
                "depth",
                "system calls have one request in flight for each thread",
                "use backend = \"io_uring\", \"aio\" or \"vsync\" for more, or depth = 1",
            ),
            (
                self.depth > 1024 && matches!(self.backend, Backend::Vsync | Backend::Aio),
                "depth",
                "one preadv takes 1024 parts, and an aio queue is offered for 1024 requests",
                "use a depth of 1 to 1024",
            ),
            (
                self.serialise == Some(Serialise::Io) && !sync,
                "serialise",
                "only system calls begin and end while a lock is held",
                "use backend = \"sync\", or serialise = \"submit\" with backend = \"aio\"",
            ),
            (
                self.serialise == Some(Serialise::Submit) && !aio,
                "serialise",
                "only aio submits each request by one call and waits for it in another",
                "use backend = \"aio\", or serialise = \"io\" with backend = \"sync\"",
            ),
            (
                self.direct && self.syncs_range(),
                "fsync",
                "sync_file_range writes the page cache back, and direct I/O leaves nothing there",
                "use fsync = \"fdatasync\", or direct = false",
            ),
        ]
    }

    fn map_rules(&self) -> [Rule; 6] {
        let map = self.backend == Backend::Mmap;
        [
            (
                map && self.depth > 1,
                "depth",
                "a copy from or to a map is done before the next one begins",
                "use depth = 1, or backend = \"io_uring\", \"aio\" or \"vsync\"",
            ),
            (
                map && self.direct,
                "direct",
                "a map is the page cache, which direct I/O goes past",
                "use direct = false, or backend = \"sync\"",
            ),
            (
                map && self.access.starts_empty(),
                "access",
                "a store into a map cannot extend its file",
                "use access = \"sequential\", or backend = \"sync\"",
            ),
            (
                map && self.layout == Layout::Empty,
                "layout",
                "a file is mapped at its full size, and a store into a map cannot extend it",
                "use layout = \"sparse\" for a file without blocks, or backend = \"sync\"",
            ),
            (
                map && self.open_sync != OpenSync::None,
                "open_sync",
                "O_SYNC and O_DSYNC make write calls wait; a store into a map is not a call, so nothing would be synced",
                "use fsync_every, which calls msync, or backend = \"sync\"",
            ),
            (
                map && self.syncs_range(),
                "fsync",
                "a map is synced with msync, not with sync_file_range",
                "use fsync = \"fdatasync\", or backend = \"sync\"",
            ),
        ]
    }

    fn file_rules(&self) -> [Rule; 8] {
        let (append, reads) = (self.access.starts_empty(), self.reads.0 > 0.0);
        [
            (
                append && reads,
                "reads",
                "appending workloads only write",
                "leave reads out, or use access = \"sequential\"",
            ),
            (
                append && self.sharing == Sharing::Shared,
                "sharing",
                "a file that all threads share is neither appended to nor extended",
                "use sharing = \"per-thread\"; to extend also \"region\", \"strided\" or \"cursor\"",
            ),
            (
                append && matches!(self.layout, Layout::Fallocated | Layout::Sparse),
                "layout",
                "files to append to start empty",
                "leave layout out, or use access = \"sequential\"",
            ),
            (
                self.layout == Layout::Fallocated && reads,
                "layout",
                "reads of blocks that were never written do no I/O: they would measure nothing",
                "use layout = \"written\", or reads = \"0%\"",
            ),
            (
                matches!(self.layout, Layout::Sparse | Layout::Empty) && reads,
                "layout",
                "reads of holes do no I/O: they would measure nothing",
                "use layout = \"written\", or reads = \"0%\"",
            ),
            (
                self.fsync_all_files && self.fsync_every == 0,
                "fsync_all_files",
                "the files a sync covers are set, but no sync is ever due",
                "set fsync_every as well, such as fsync_every = 100",
            ),
            (
                self.fsync_counts == FsyncCounts::Requests && self.fsync_every == 0,
                "fsync_counts",
                "the operations counted towards a sync are set, but no sync is ever due",
                "set fsync_every as well, such as fsync_every = 100",
            ),
            (
                self.sharing == Sharing::Cursor
                    && self.fsync_counts == FsyncCounts::Requests
                    && !self.fsync_all_files,
                "fsync_all_files",
                "the threads of one cursor take turns at syncing all files: no thread knows the others' writes",
                "use fsync_all_files = true, or another sharing",
            ),
        ]
    }

    /// True if `sync_file_range` would be called.
    fn syncs_range(&self) -> bool {
        self.fsync == SyncCall::SyncFileRange && (self.fsync_every > 0 || self.fsync_at_end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        units::{Bytes, Percent},
        workload::{Access, Entry, Pattern},
    };

    /// A conflict for each rule, and its key.
    fn conflicts() -> Vec<(Io, &'static str)> {
        let io = Io::default;
        let map = || Io { backend: Backend::Mmap, ..io() };
        let uring = || Io { backend: Backend::IoUring, ..io() };
        let append = || Io { access: Access::Append, sharing: Sharing::PerThread, ..io() };
        let range = || Io { fsync: SyncCall::SyncFileRange, fsync_every: 1, ..io() };
        vec![
            (Io { depth: 2, ..io() }, "depth"),
            (Io { depth: 1025, backend: Backend::Aio, ..io() }, "depth"),
            (Io { depth: 1025, backend: Backend::Vsync, ..io() }, "depth"),
            (Io { serialise: Some(Serialise::Io), ..uring() }, "serialise"),
            (Io { serialise: Some(Serialise::Submit), ..io() }, "serialise"),
            (Io { direct: true, ..range() }, "fsync"),
            (Io { direct: true, fsync_every: 0, fsync_at_end: true, ..range() }, "fsync"),
            (Io { depth: 2, ..map() }, "depth"),
            (Io { direct: true, ..map() }, "direct"),
            (Io { access: Access::Append, sharing: Sharing::PerThread, ..map() }, "access"),
            (Io { layout: Layout::Empty, ..map() }, "layout"),
            (Io { open_sync: OpenSync::Dsync, ..map() }, "open_sync"),
            (Io { backend: Backend::Mmap, ..range() }, "fsync"),
            (Io { reads: Percent(1.0), ..append() }, "reads"),
            (Io { sharing: Sharing::Shared, ..append() }, "sharing"),
            (Io { layout: Layout::Fallocated, ..append() }, "layout"),
            (Io { layout: Layout::Sparse, ..append() }, "layout"),
            (Io { layout: Layout::Fallocated, reads: Percent(1.0), ..io() }, "layout"),
            (Io { layout: Layout::Sparse, reads: Percent(1.0), ..io() }, "layout"),
            (Io { layout: Layout::Empty, reads: Percent(1.0), ..io() }, "layout"),
            (Io { fsync_all_files: true, ..io() }, "fsync_all_files"),
            (Io { fsync_counts: FsyncCounts::Requests, ..io() }, "fsync_counts"),
            (
                Io { sharing: Sharing::Cursor, fsync_every: 1, fsync_counts: FsyncCounts::Requests, ..io() },
                "fsync_all_files",
            ),
        ]
    }

    #[test]
    fn every_conflict_names_key_and_hint() {
        let mut problems = std::collections::BTreeSet::new();
        for (io, key) in conflicts() {
            let conflict = io.conflict().unwrap_or_else(|| panic!("{io:?} has no conflict"));
            assert_eq!(conflict.key, key, "{io:?}");
            assert!(!conflict.hint.is_empty());
            problems.insert(conflict.problem);
        }
        assert_eq!(problems.len(), 5 + 6 + 8, "every rule of the table has its example");
    }

    #[test]
    fn every_key_reaches_the_load() {
        let text = r#"
            kind = "io"
            block_size = "1B"
            backend = "io_uring"
            depth = 8
            direct = false
            open_sync = "dsync"
            layout = "fallocated"
            fsync_every = 100
            fsync = "sync-file-range"
            fsync_counts = "requests"
            fsync_all_files = true
            fsync_at_end = true
        "#;
        let entry: Entry = toml::from_str(text).unwrap();
        let Pattern::Io(io) = entry.resolve(1).unwrap().phases()[0].groups[0].pattern.clone() else {
            panic!("of kind io")
        };
        let expected = Io {
            block_size: Bytes(1),
            backend: Backend::IoUring,
            depth: 8,
            open_sync: OpenSync::Dsync,
            layout: Layout::Fallocated,
            fsync_every: 100,
            fsync: SyncCall::SyncFileRange,
            fsync_counts: FsyncCounts::Requests,
            fsync_all_files: true,
            fsync_at_end: true,
            ..Io::default()
        };
        assert_eq!(io, expected);
        let written = serde_json::to_string(&io).unwrap();
        assert_eq!(serde_json::from_str::<Io>(&written).unwrap(), expected);
    }

    #[test]
    fn names_are_those_of_the_documents() {
        for (key, value) in [
            ("backend", "sync"),
            ("backend", "vsync"),
            ("backend", "aio"),
            ("backend", "io_uring"),
            ("backend", "mmap"),
            ("open_sync", "none"),
            ("open_sync", "sync"),
            ("layout", "written"),
            ("layout", "sparse"),
            ("layout", "empty"),
            ("fsync_counts", "writes"),
            ("fsync_counts", "requests"),
        ] {
            let entry: Entry = toml::from_str(&format!("kind = \"io\"\n{key} = \"{value}\"")).unwrap();
            let resolved = entry.resolve(1);
            // The one key that needs another with it.
            assert_eq!(resolved.is_err(), key == "fsync_counts" && value == "requests", "{resolved:?}");
        }
    }

    #[test]
    fn file_sets_reject_io_only_settings() {
        for line in [
            "open_sync = \"none\"",
            "layout = \"written\"",
            "fsync_counts = \"writes\"",
            "fsync_all_files = false",
            "fsync_at_end = true",
        ] {
            let entry: Entry = toml::from_str(&format!("kind = \"files\"\n{line}")).unwrap();
            let error = entry.resolve(1).unwrap_err();
            assert!(line.starts_with(error.key) && error.problem.contains("kind = \"io\""), "{error:?}");
        }
    }

    #[test]
    fn loads_without_new_settings_use_defaults() {
        let old = r#"{"access":"random","reads":"0%","block_size":"16KiB","total_size":"256MiB","sharing":"shared",
            "files":1,"direct":false,"backend":"sync","depth":1,"fsync_every":0,"fsync":"fdatasync"}"#;
        assert_eq!(serde_json::from_str::<Io>(old).unwrap(), Io::default());
    }

    #[test]
    fn synchronous_writes_are_not_buffered() {
        let buffered = |io: Io| Pattern::Io(io).is_buffered_write();
        assert!(buffered(Io::default()));
        assert!(buffered(Io { backend: Backend::Mmap, fsync_at_end: true, ..Io::default() }));
        assert!(!buffered(Io { open_sync: OpenSync::Dsync, ..Io::default() }));
        assert!(!buffered(Io { fsync_every: 1, ..Io::default() }));
    }

    #[test]
    fn compatible_settings_have_no_conflict() {
        let io = Io::default;
        for good in [
            io(),
            Io { backend: Backend::Vsync, depth: 1024, reads: Percent(50.0), ..io() },
            Io { backend: Backend::Aio, depth: 1024, direct: true, ..io() },
            Io { serialise: Some(Serialise::Io), ..io() },
            Io { serialise: Some(Serialise::Submit), backend: Backend::Aio, depth: 8, ..io() },
            Io { backend: Backend::IoUring, depth: 64, direct: true, ..io() },
            Io { backend: Backend::Mmap, fsync_every: 100, layout: Layout::Sparse, ..io() },
            Io { open_sync: OpenSync::Sync, direct: true, fsync_every: 1, ..io() },
            Io { layout: Layout::Empty, access: Access::Sequential, fsync_at_end: true, ..io() },
            Io { access: Access::Append, sharing: Sharing::PerThread, layout: Layout::Empty, ..io() },
            Io { fsync: SyncCall::SyncFileRange, fsync_every: 8, ..io() },
            Io { fsync_every: 100, fsync_all_files: true, fsync_counts: FsyncCounts::Requests, ..io() },
        ] {
            assert_eq!(good.conflict(), None, "{good:?}");
        }
    }
}
