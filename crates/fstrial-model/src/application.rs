//! Applications by their common names, and the presets that together model the I/O of each.
//!
//! A preset's file lists its application: `keywords` holds the first name of it.

/// An application, or a use of storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Application {
    /// Common names; the first is the one in the files of presets.
    pub names: &'static [&'static str],
    /// One sentence on the scope of its presets and their gaps.
    pub about: &'static str,
}

/// The table.
pub const APPLICATIONS: &[Application] = &[
    Application {
        names: &["postgresql", "postgres", "pgsql", "pg", "pgbench", "timescaledb"],
        about: "Commits to the write-ahead log with group commit, alone and alongside checkpoints of scattered pages.",
    },
    Application {
        names: &["mysql", "mariadb", "innodb", "percona"],
        about: "Commits to InnoDB's redo log alongside its page cleaner, and random reads and writes of 16 KiB pages.",
    },
    Application {
        names: &["mongodb", "mongo", "wiredtiger"],
        about: "The engine itself, WiredTiger, if it is built; and the pattern of acknowledged journal \
             commits (j: true), alone and alongside checkpoints of scattered pages.",
    },
    Application {
        names: &["sqlite", "sqlite3"],
        about: "SQLite itself: reads and updates of records, with a write-ahead log and with a rollback journal.",
    },
    Application {
        names: &["redis", "valkey", "aof"],
        about: "The append-only file with appendfsync always: each command appended and synced.",
    },
    Application {
        names: &["rocksdb", "leveldb", "lsm", "cassandra", "scylladb", "tikv"],
        about: "RocksDB itself, if it is built; and the pattern of commits to a growing log while memtables \
             are flushed and files compacted, and fjall, an engine of that kind.",
    },
    Application {
        names: &["elasticsearch", "opensearch", "lucene", "solr"],
        about: "Segments written, synced and merged alongside a log of changes, as stores of sorted files do it.",
    },
    Application {
        names: &["kafka", "redpanda", "pulsar", "nats"],
        about: "Batches appended and flushed before they are acknowledged (in Kafka flush.messages = 1), and consumers that \
                read from the start.",
    },
    Application {
        names: &["etcd", "consul", "zookeeper", "raft"],
        about: "Entries of a replicated log, each written and synced before it is acknowledged.",
    },
    Application {
        names: &["analytics", "olap", "clickhouse", "duckdb", "data warehouse"],
        about: "Scans of large files, alone and alongside updates of the same file.",
    },
    Application {
        names: &["mail", "maildir", "email", "dovecot", "postfix", "cyrus"],
        about: "Messages as files: made, synced, read and deleted.",
    },
    Application {
        names: &["git", "checkout", "source tree", "monorepo"],
        about: "A checkout (small files made, read and deleted), and the look at every file that git status takes.",
    },
    Application {
        names: &["build", "compile", "compiling", "ci", "make"],
        about: "Sources and objects: many small files made, read and deleted, and written without any sync.",
    },
    Application {
        names: &["container-images", "container images", "containers", "docker", "podman", "kubernetes"],
        about: "Images unpacked into many files without sync, and whole trees deleted.",
    },
    Application {
        names: &["virtual-machines", "virtual machines", "vm", "vms", "qemu", "kvm"],
        about: "Disks of guests as large files: random reads and writes past the page cache.",
    },
    Application {
        names: &["backup", "backups", "restore", "dump", "archive"],
        about: "Large files read from start to end, and written again by a restore.",
    },
    Application {
        names: &["logs", "log", "logging", "syslog", "journald"],
        about: "Lines appended to a file for each writer and made durable.",
    },
    Application {
        names: &["video", "streaming", "surveillance", "media"],
        about: "Many concurrent readers while files are replaced.",
    },
    Application {
        names: &["web", "nginx", "apache", "http", "static files"],
        about: "Small files read whole by many threads next to one shared log.",
    },
    Application {
        names: &["file-sharing", "nfs", "samba", "smb", "nas", "home directories"],
        about: "Files of users made, written, appended to, read, looked at and deleted, never synced.",
    },
];

impl Application {
    /// The one that a word names, however it is written.
    pub fn named(word: &str) -> Option<&'static Self> {
        let word = word.trim().to_lowercase();
        APPLICATIONS.iter().find(|application| application.names.contains(&word.as_str()))
    }

    /// For an application whose presets are only a model: the way to measure the server itself.
    pub fn server_hint(&self) -> Option<String> {
        let name = self.name();
        ["mongodb", "redis"].contains(&name).then(|| {
            format!(
                "none of these is the server itself; with one of your own: copy examples/{name}.toml \
                 (of the package: in /usr/share/doc/fstrial), fstrial run {name}.toml"
            )
        })
    }

    /// Its name in files and lists.
    pub fn name(&self) -> &'static str {
        self.names[0]
    }
}

/// All names of all applications.
pub fn names() -> impl Iterator<Item = &'static str> {
    APPLICATIONS.iter().flat_map(|application| application.names).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset;
    use std::collections::BTreeSet;

    #[test]
    fn every_application_has_presets_and_every_keyword_an_application() {
        for application in APPLICATIONS {
            let presets = application.presets();
            assert!((1..=3).contains(&presets.len()), "{}: {presets:?}", application.name());
            assert!(application.about.ends_with('.') && application.about.len() > 30);
        }
        for name in preset::names() {
            for word in preset::keywords(name) {
                let result = Application::named(&word).unwrap_or_else(|| panic!("{name}: {word}"));
                assert_eq!(result.name(), word, "{name}: files hold the first name");
            }
        }
    }

    #[test]
    fn a_word_means_one_thing() {
        let all: Vec<_> = names().chain(preset::names()).collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "no word twice");
        assert!(names().all(|name| name == name.to_lowercase() && !name.contains(',')));
    }

    #[test]
    fn the_documents_have_every_application() {
        let documents = include_str!("../../../docs/workloads.md");
        for application in APPLICATIONS {
            let (names, presets) = (application.names[1..].join(", "), application.presets().join(", "));
            let about = application.about.trim_end_matches('.');
            let row = format!("| `{}` | {names} | {presets} | {about} |", application.name());
            assert!(documents.contains(&row), "docs/workloads.md: {row}");
        }
    }

    #[test]
    fn people_find_their_database() {
        for (word, presets) in [
            ("postgres", vec!["wal-group-commit", "checkpoint-bursts"]),
            (" PostgreSQL", vec!["wal-group-commit", "checkpoint-bursts"]),
            ("mariadb", vec!["random-mixed", "innodb-flush"]),
            ("container images", vec!["fs-mark-no-sync", "op-delete-tree"]),
            ("maildir", vec!["create-files", "varmail"]),
        ] {
            assert_eq!(Application::named(word).map(Application::presets), Some(presets), "{word}");
        }
        assert_eq!(Application::named("excel"), None);
    }
}
