//! The presets that ship: the files of `workloads/`, which a user can read, copy and change.

use super::Entry;
use crate::application::{self, Application};

/// Name and text of every preset, in the order they are listed.
pub const PRESETS: &[(&str, &str)] = &[
    ("random-write", include_str!("../../../../workloads/random-write.toml")),
    ("append-fsync", include_str!("../../../../workloads/append-fsync.toml")),
    ("create-files", include_str!("../../../../workloads/create-files.toml")),
    ("random-read", include_str!("../../../../workloads/random-read.toml")),
    ("random-mixed", include_str!("../../../../workloads/random-mixed.toml")),
    ("sequential-read", include_str!("../../../../workloads/sequential-read.toml")),
    ("sequential-write", include_str!("../../../../workloads/sequential-write.toml")),
    ("small-files", include_str!("../../../../workloads/small-files.toml")),
    ("sysbench-seqwr", include_str!("../../../../workloads/sysbench-seqwr.toml")),
    ("sysbench-seqrewr", include_str!("../../../../workloads/sysbench-seqrewr.toml")),
    ("sysbench-seqrd", include_str!("../../../../workloads/sysbench-seqrd.toml")),
    ("sysbench-rndrd", include_str!("../../../../workloads/sysbench-rndrd.toml")),
    ("sysbench-rndwr", include_str!("../../../../workloads/sysbench-rndwr.toml")),
    ("sysbench-rndrw", include_str!("../../../../workloads/sysbench-rndrw.toml")),
    ("sysbench-percona-sync", include_str!("../../../../workloads/sysbench-percona-sync.toml")),
    ("sysbench-percona-async", include_str!("../../../../workloads/sysbench-percona-async.toml")),
    ("closson-dd", include_str!("../../../../workloads/closson-dd.toml")),
    ("dd-one-writer", include_str!("../../../../workloads/dd-one-writer.toml")),
    ("dd-two-writers", include_str!("../../../../workloads/dd-two-writers.toml")),
    ("postmark", include_str!("../../../../workloads/postmark.toml")),
    ("bonnie", include_str!("../../../../workloads/bonnie.toml")),
    ("bonnie-1.03", include_str!("../../../../workloads/bonnie-1.03.toml")),
    ("bonnie-files", include_str!("../../../../workloads/bonnie-files.toml")),
    ("bonnie-files-1.03", include_str!("../../../../workloads/bonnie-files-1.03.toml")),
    ("varmail", include_str!("../../../../workloads/varmail.toml")),
    ("fileserver", include_str!("../../../../workloads/fileserver.toml")),
    ("webserver", include_str!("../../../../workloads/webserver.toml")),
    ("videoserver", include_str!("../../../../workloads/videoserver.toml")),
    ("oltp", include_str!("../../../../workloads/oltp.toml")),
    ("fs-mark", include_str!("../../../../workloads/fs-mark.toml")),
    ("fs-mark-no-sync", include_str!("../../../../workloads/fs-mark-no-sync.toml")),
    ("mdtest", include_str!("../../../../workloads/mdtest.toml")),
    ("ior-easy", include_str!("../../../../workloads/ior-easy.toml")),
    ("ior-hard", include_str!("../../../../workloads/ior-hard.toml")),
    ("mdtest-easy", include_str!("../../../../workloads/mdtest-easy.toml")),
    ("mdtest-hard", include_str!("../../../../workloads/mdtest-hard.toml")),
    ("wal-group-commit", include_str!("../../../../workloads/wal-group-commit.toml")),
    ("wal-single-commit", include_str!("../../../../workloads/wal-single-commit.toml")),
    ("innodb-flush", include_str!("../../../../workloads/innodb-flush.toml")),
    ("checkpoint-bursts", include_str!("../../../../workloads/checkpoint-bursts.toml")),
    ("lsm-compaction", include_str!("../../../../workloads/lsm-compaction.toml")),
    ("htap", include_str!("../../../../workloads/htap.toml")),
    ("ycsb-a", include_str!("../../../../workloads/ycsb-a.toml")),
    ("ycsb-a-journal", include_str!("../../../../workloads/ycsb-a-journal.toml")),
    ("ycsb-a-lsm", include_str!("../../../../workloads/ycsb-a-lsm.toml")),
    ("ycsb-a-rocksdb", include_str!("../../../../workloads/ycsb-a-rocksdb.toml")),
    ("ycsb-a-wiredtiger", include_str!("../../../../workloads/ycsb-a-wiredtiger.toml")),
    ("ycsb-b", include_str!("../../../../workloads/ycsb-b.toml")),
    ("ycsb-c", include_str!("../../../../workloads/ycsb-c.toml")),
    ("ycsb-d", include_str!("../../../../workloads/ycsb-d.toml")),
    ("ycsb-e", include_str!("../../../../workloads/ycsb-e.toml")),
    ("ycsb-f", include_str!("../../../../workloads/ycsb-f.toml")),
    ("ycsb-load", include_str!("../../../../workloads/ycsb-load.toml")),
    ("postgresql-tpcb", include_str!("../../../../workloads/postgresql-tpcb.toml")),
    ("postgresql-select", include_str!("../../../../workloads/postgresql-select.toml")),
    ("mariadb-oltp-ro", include_str!("../../../../workloads/mariadb-oltp-ro.toml")),
    ("mariadb-oltp-rw", include_str!("../../../../workloads/mariadb-oltp-rw.toml")),
    ("mariadb-oltp-wo", include_str!("../../../../workloads/mariadb-oltp-wo.toml")),
    ("op-mkfs", include_str!("../../../../workloads/op-mkfs.toml")),
    ("op-mount", include_str!("../../../../workloads/op-mount.toml")),
    ("op-recovery", include_str!("../../../../workloads/op-recovery.toml")),
    ("op-check", include_str!("../../../../workloads/op-check.toml")),
    ("op-repair", include_str!("../../../../workloads/op-repair.toml")),
    ("op-freeze", include_str!("../../../../workloads/op-freeze.toml")),
    ("op-snapshot", include_str!("../../../../workloads/op-snapshot.toml")),
    ("op-defragment", include_str!("../../../../workloads/op-defragment.toml")),
    ("op-reflink-copy", include_str!("../../../../workloads/op-reflink-copy.toml")),
    ("op-space", include_str!("../../../../workloads/op-space.toml")),
    ("op-fill", include_str!("../../../../workloads/op-fill.toml")),
    ("op-delete-tree", include_str!("../../../../workloads/op-delete-tree.toml")),
    ("op-find", include_str!("../../../../workloads/op-find.toml")),
    ("op-grow", include_str!("../../../../workloads/op-grow.toml")),
    ("op-shrink", include_str!("../../../../workloads/op-shrink.toml")),
    ("real-bonnie", include_str!("../../../../workloads/real-bonnie.toml")),
    ("real-bonnie-files", include_str!("../../../../workloads/real-bonnie-files.toml")),
    ("real-dbench", include_str!("../../../../workloads/real-dbench.toml")),
    ("real-dd-one-writer", include_str!("../../../../workloads/real-dd-one-writer.toml")),
    ("real-dd-two-writers", include_str!("../../../../workloads/real-dd-two-writers.toml")),
    ("real-fio", include_str!("../../../../workloads/real-fio.toml")),
    ("real-postmark", include_str!("../../../../workloads/real-postmark.toml")),
    ("real-sysbench-rndrd", include_str!("../../../../workloads/real-sysbench-rndrd.toml")),
    ("real-sysbench-rndrw", include_str!("../../../../workloads/real-sysbench-rndrw.toml")),
    ("real-sysbench-rndwr", include_str!("../../../../workloads/real-sysbench-rndwr.toml")),
    ("real-sysbench-seqrd", include_str!("../../../../workloads/real-sysbench-seqrd.toml")),
    ("real-sysbench-seqrewr", include_str!("../../../../workloads/real-sysbench-seqrewr.toml")),
    ("real-sysbench-seqwr", include_str!("../../../../workloads/real-sysbench-seqwr.toml")),
];

/// A heading, and the presets that belong together under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    /// Their common origin: usually a tool.
    pub title: &'static str,
    /// Their names, in the order they are listed.
    pub presets: &'static [&'static str],
}

/// Every preset, in families.
pub const FAMILIES: &[Family] = &[
    Family {
        title: "Patterns",
        presets: &[
            "random-write",
            "append-fsync",
            "create-files",
            "random-read",
            "random-mixed",
            "sequential-read",
            "sequential-write",
            "small-files",
        ],
    },
    Family {
        title: "sysbench fileio",
        presets: &[
            "sysbench-seqwr",
            "sysbench-seqrewr",
            "sysbench-seqrd",
            "sysbench-rndrd",
            "sysbench-rndwr",
            "sysbench-rndrw",
            "sysbench-percona-sync",
            "sysbench-percona-async",
        ],
    },
    Family { title: "dd", presets: &["closson-dd", "dd-one-writer", "dd-two-writers"] },
    Family { title: "PostMark", presets: &["postmark"] },
    Family { title: "bonnie++", presets: &["bonnie", "bonnie-1.03", "bonnie-files", "bonnie-files-1.03"] },
    Family { title: "filebench", presets: &["varmail", "fileserver", "webserver", "videoserver", "oltp"] },
    Family { title: "Metadata", presets: &["fs-mark", "fs-mark-no-sync", "mdtest"] },
    Family {
        title: "IO500, by many clients",
        presets: &["ior-easy", "ior-hard", "mdtest-easy", "mdtest-hard"],
    },
    Family {
        title: "Databases",
        presets: &[
            "wal-group-commit",
            "wal-single-commit",
            "innodb-flush",
            "checkpoint-bursts",
            "lsm-compaction",
            "htap",
        ],
    },
    Family {
        title: "YCSB",
        presets: &[
            "ycsb-a",
            "ycsb-a-journal",
            "ycsb-a-lsm",
            "ycsb-a-rocksdb",
            "ycsb-a-wiredtiger",
            "ycsb-b",
            "ycsb-c",
            "ycsb-d",
            "ycsb-e",
            "ycsb-f",
            "ycsb-load",
        ],
    },
    Family {
        title: "Database servers, where they are installed",
        presets: &[
            "postgresql-tpcb",
            "postgresql-select",
            "mariadb-oltp-ro",
            "mariadb-oltp-rw",
            "mariadb-oltp-wo",
        ],
    },
    Family {
        title: "Operations",
        presets: &[
            "op-mkfs",
            "op-mount",
            "op-recovery",
            "op-check",
            "op-repair",
            "op-freeze",
            "op-snapshot",
            "op-defragment",
            "op-reflink-copy",
            "op-space",
            "op-fill",
            "op-delete-tree",
            "op-find",
            "op-grow",
            "op-shrink",
        ],
    },
    Family {
        title: "The tools themselves, where they are installed",
        presets: &[
            "real-bonnie",
            "real-bonnie-files",
            "real-dbench",
            "real-dd-one-writer",
            "real-dd-two-writers",
            "real-fio",
            "real-postmark",
            "real-sysbench-rndrd",
            "real-sysbench-rndrw",
            "real-sysbench-rndwr",
            "real-sysbench-seqrd",
            "real-sysbench-seqrewr",
            "real-sysbench-seqwr",
        ],
    },
];

/// The family of a preset.
pub fn family_of(name: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.presets.contains(&name))
}

/// The workloads of a comparison that names none.
pub const DEFAULT_WORKLOADS: [&str; 3] = ["random-write", "append-fsync", "create-files"];

/// Names of all presets.
pub fn names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|(name, _)| *name)
}

/// The preset of a name, as an entry with its fields.
///
/// # Panics
/// Never for a shipped preset: a test reads them all.
pub fn preset(name: &str) -> Option<Entry> {
    let (name, text) = PRESETS.iter().find(|(known, _)| *known == name)?;
    let mut entry: Entry = toml::from_str(text).expect("shipped presets are read by a test");
    entry.name = Some((*name).to_owned());
    Some(entry)
}

/// The program that a preset's engine is in, if it is not fstrial itself.
pub fn helper(name: &str) -> Option<&'static str> {
    preset(name)?.resolve(1).ok()?.helper()
}

/// The first names of the applications that a preset models.
pub fn keywords(name: &str) -> Vec<String> {
    preset(name).and_then(|entry| entry.keywords).unwrap_or_default()
}

impl Application {
    /// The presets that model it, in the order they are listed.
    pub fn presets(&self) -> Vec<&'static str> {
        self.with_its_name(false)
    }

    /// The presets that run the application itself, which must be installed.
    pub fn servers(&self) -> Vec<&'static str> {
        self.with_its_name(true)
    }

    fn with_its_name(&self, is_server: bool) -> Vec<&'static str> {
        let is_one = |name: &str| preset(name).is_some_and(|entry| entry.server.is_some());
        let has_its_name = |name: &&str| keywords(name).iter().any(|word| word == self.name());
        names().filter(has_its_name).filter(|name| is_one(name) == is_server).collect()
    }
}

/// The presets that match a word, in the order of the list: those that model the application it names and those that
/// run it, else those with the word in their name, family or description.
pub fn fitting(word: &str) -> Vec<&'static str> {
    if let Some(application) = Application::named(word) {
        return [application.presets(), application.servers()].concat();
    }
    let word = word.trim().to_lowercase();
    let holds = |text: &str| !word.is_empty() && text.to_lowercase().contains(&word);
    let fits = |name: &&str| {
        let texts = preset(name).map(|entry| [entry.about, entry.source]).into_iter().flatten().flatten();
        holds(name)
            || family_of(name).is_some_and(|family| holds(family.title))
            || texts.into_iter().any(|s| holds(&s))
    };
    names().filter(fits).collect()
}

/// The hint that names the preset or application that a misspelt word may mean.
pub fn did_you_mean(word: &str) -> Option<String> {
    crate::problem::did_you_mean(word, names().chain(application::names()))
}

/// The remedy for a word that matches no preset and no application.
pub fn hint_for_unknown(word: &str) -> String {
    const LISTS: &str = "`fstrial workloads WORD` lists the matches of a word";
    if let Some(application) = Application::named(word) {
        let presets = [application.presets(), application.servers()].concat().join(", ");
        return format!("`{word}` is several workloads: {presets}; write an entry for each");
    }
    let fitting = fitting(word);
    if let [_, ..] = fitting.as_slice() {
        return format!("matches of the word: {}; {LISTS}", fitting[..fitting.len().min(5)].join(", "));
    }
    match did_you_mean(word) {
        Some(near) => format!("{near} {LISTS}"),
        None => format!("`fstrial workloads` lists all; {LISTS}, such as postgresql"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        units::Bytes,
        workload::{Durability, Pattern, Phase, Workload},
    };
    use std::collections::{BTreeMap, BTreeSet};

    fn resolved(name: &str) -> Workload {
        Entry::of_preset(name).resolve(4).unwrap_or_else(|e| panic!("{name}: {} {}", e.key, e.problem))
    }

    #[test]
    fn every_preset_resolves_and_has_description() {
        for name in names() {
            let entry = Entry { preset: Some(name.to_owned()), ..Entry::default() };
            let workload = entry.resolve(4).unwrap_or_else(|e| panic!("{name}: {}", e.problem));
            assert_eq!(workload.name, name);
            assert!(
                preset(name).unwrap().about.is_some_and(|about| about.len() > 20),
                "{name} says what it models"
            );
        }
    }

    #[test]
    fn keyword_finds_matching_presets() {
        let servers = ["mariadb-oltp-ro", "mariadb-oltp-rw", "mariadb-oltp-wo"];
        for word in ["mysql", "mariadb"] {
            assert_eq!(fitting(word), [["random-mixed", "innodb-flush"].as_slice(), &servers].concat());
        }
        assert!(fitting("postgres").ends_with(&["postgresql-tpcb", "postgresql-select"]));
        assert_eq!(fitting("FILEBENCH").len(), 5, "{:?}", fitting("filebench"));
        assert!(fitting("doublewrite").contains(&"innodb-flush"), "what it says of itself counts");
        assert_eq!(fitting("quux"), Vec::<&str>::new());
        assert_eq!(fitting(" "), Vec::<&str>::new());
    }

    #[test]
    fn an_unknown_word_names_the_nearest_and_the_command() {
        for (word, hint) in [
            ("postgras", "did you mean `postgres`? `fstrial workloads WORD`"),
            ("random-wriet", "did you mean `random-write`? `fstrial workloads WORD`"),
            ("quux", "`fstrial workloads` lists all"),
            ("mysql", "`mysql` is several workloads: random-mixed, innodb-flush"),
            ("doublewrite", "matches of the word: innodb-flush"),
        ] {
            let message = hint_for_unknown(word);
            assert!(message.starts_with(hint), "{word}: {message}");
        }
    }

    #[test]
    fn memory_bound_presets_name_a_device_bound_one() {
        let memory =
            ["fileserver", "postmark", "small-files", "webserver", "sysbench-seqrd", "fs-mark-no-sync"];
        for name in memory {
            let about = preset(name).unwrap().about.unwrap();
            let (before, _) =
                about.split_once(" asks the device").unwrap_or_else(|| panic!("{name}: {about}"));
            let other = before.rsplit(' ').next().unwrap();
            let asks = resolved(other);
            let mut patterns = asks.phases().iter().flat_map(Phase::patterns);
            let reaches = |pattern: &Pattern| match pattern {
                Pattern::Io(io) => io.direct || io.fsync_every > 0,
                other => matches!(other.durability(), Durability::PerFile | Durability::PerRequest),
            };
            assert!(patterns.any(reaches), "{name}: {other} does not reach the device either");
        }
    }

    #[test]
    fn families_have_every_preset_once_and_in_order() {
        let in_families: Vec<_> = FAMILIES.iter().flat_map(|family| family.presets).copied().collect();
        assert_eq!(in_families, names().collect::<Vec<_>>());
        assert_eq!(in_families.iter().collect::<BTreeSet<_>>().len(), in_families.len());
    }

    #[test]
    fn classic_presets_cite_source_and_fit_space_limit() {
        for name in names().filter(|name| !name.starts_with("real-")).skip(FAMILIES[0].presets.len()) {
            assert!(preset(name).unwrap().source.is_some_and(|source| source.len() > 8), "{name}");
            let space = resolved(name).most_space_needed();
            assert!(space <= Bytes::mib(1536), "{name} needs {space}");
        }
    }

    /// `fstrial compare ext4 --set trial.compare=workloads` sets the tool next to its model.
    #[test]
    fn results_are_those_of_the_real_tools() {
        let results = |name: &str| -> BTreeMap<String, String> {
            resolved(name).results().map(|result| (result.name, result.unit)).collect()
        };
        for (real, native) in [("real-bonnie", "bonnie"), ("real-bonnie", "bonnie-1.03")]
            .into_iter()
            .chain([("real-bonnie-files", "bonnie-files"), ("real-bonnie-files", "bonnie-files-1.03")])
        {
            let native_results = results(native);
            for (name, unit) in results(real) {
                assert_eq!(native_results.get(&name), Some(&unit), "{native}: {name}");
            }
        }
        assert_eq!(results("postmark")["transactions"], results("real-postmark")["transactions"]);
        for name in ["dd-one-writer", "dd-two-writers"] {
            assert_eq!(results(name)[""], results(&format!("real-{name}"))["written"]);
        }
    }
}
