//! A reader's summary of a workload before a run: its durability, and the content of its files.

use super::{Data, Group, Phase, Until, Workload};
use std::fmt;

/// Durability of writes, from never to always.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Nothing is written.
    ReadsOnly,
    /// Never.
    None,
    /// Once, when the work is done or the time is over.
    AtEnd,
    /// After this many requests, or for a batch.
    Periodic,
    /// For each file.
    PerFile,
    /// For each request or commit.
    PerRequest,
}

impl Durability {
    /// In a sentence about writes that are made durable.
    pub const fn adverb(self) -> &'static str {
        match self {
            Self::ReadsOnly | Self::None => "never",
            Self::AtEnd => "at the end",
            Self::Periodic => "periodically",
            Self::PerFile => "per file",
            Self::PerRequest => "per request",
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ReadsOnly => "nothing is written",
            Self::None => "none",
            Self::AtEnd => "at the end",
            Self::Periodic => "periodic",
            Self::PerFile => "per file",
            Self::PerRequest => "per request",
        })
    }
}

impl Group {
    /// Durability of its writes.
    pub fn durability(&self) -> Durability {
        self.pattern.durability()
    }

    /// Content of the files, as text; none if it depends on the device.
    pub fn content(&self) -> Option<String> {
        Some(match self.data {
            None => self.pattern.own_content()?.into(),
            Some(Data::Random) => "random".into(),
            Some(Data::Zero) => "zeros".into(),
            Some(Data::RepeatedWord) => "one repeated word".into(),
            Some(Data::Mixed { compressible, duplicate }) => {
                format!("random, {compressible} compressible, {duplicate} duplicates")
            }
        })
    }
}

impl Workload {
    /// Durability of each phase: phases and groups by the names of their results. Empty for a program.
    pub fn durability(&self) -> Vec<(String, Durability)> {
        let of_phase = |phase: &Phase| -> Vec<(String, Durability)> {
            let of_group = |group: &Group| (phase.result_name(group), group.durability());
            phase.groups.iter().map(of_group).collect()
        };
        self.phases().iter().flat_map(of_phase).collect()
    }

    /// True if its own syncs or its fixed amount of work, and no timer of the kernel, determine its device writes per
    /// operation.
    pub fn is_self_clocked(&self) -> bool {
        let is_synced = |group: &Group| {
            matches!(group.durability(), Durability::ReadsOnly | Durability::PerFile | Durability::PerRequest)
        };
        let is_fixed = |phase: &Phase| phase.until == Until::Done || phase.groups.iter().all(is_synced);
        let has_time = self.program().is_some_and(|timed| timed.program.told_time(timed.duration).is_some());
        !has_time && self.phases().iter().all(is_fixed)
    }

    /// Kinds of file content, each once; none for one that depends on the device. Empty for a program.
    pub fn contents(&self) -> Vec<Option<String>> {
        let mut contents = Vec::new();
        for content in self.phases().iter().flat_map(|phase| &phase.groups).map(Group::content) {
            if !contents.contains(&content) {
                contents.push(content);
            }
        }
        contents
    }
}

#[cfg(test)]
mod tests {
    use crate::workload::Entry;

    #[test]
    fn presets_are_as_durable_as_their_tools() {
        let of = |preset: &str| -> Vec<String> {
            let workload = Entry::of_preset(preset).resolve(4).unwrap();
            let mut words: Vec<String> =
                workload.durability().iter().map(|(_, durability)| durability.to_string()).collect();
            words.dedup();
            words
        };
        for (preset, expected) in [
            ("random-write", vec!["none"]),
            ("random-read", vec!["nothing is written"]),
            ("append-fsync", vec!["per request"]),
            ("create-files", vec!["per file"]),
            ("small-files", vec!["none"]),
            ("sysbench-rndrw", vec!["periodic"]),
            ("sysbench-rndrd", vec!["nothing is written"]),
            ("sysbench-percona-sync", vec!["none"]),
            ("closson-dd", vec!["none"]),
            ("postmark", vec!["none"]),
            ("bonnie", vec!["at the end", "nothing is written", "at the end"]),
            ("bonnie-1.03", vec!["none", "nothing is written", "none"]),
            ("varmail", vec!["per file"]),
            ("fileserver", vec!["none"]),
            ("oltp", vec!["per request", "nothing is written"]),
            ("fs-mark", vec!["per file"]),
            ("fs-mark-no-sync", vec!["none"]),
            ("wal-group-commit", vec!["per request"]),
            ("innodb-flush", vec!["per request", "periodic"]),
        ] {
            assert_eq!(of(preset), expected, "{preset}");
        }
        assert!(of("real-fio").is_empty());
    }

    #[test]
    fn only_synced_or_fixed_work_is_self_clocked() {
        for (preset, expected) in [
            ("append-fsync", true),
            ("create-files", true),
            ("random-write", false),
            ("small-files", false),
            ("closson-dd", true),
            ("postmark", true),
            ("innodb-flush", false),
            ("ycsb-a", true),
            ("ycsb-a-wiredtiger", false),
            ("real-postmark", true),
            ("postgresql-tpcb", false),
        ] {
            assert_eq!(Entry::of_preset(preset).resolve(4).unwrap().is_self_clocked(), expected, "{preset}");
        }
    }

    #[test]
    fn contents_are_those_of_the_tools() {
        let of = |preset: &str| Entry::of_preset(preset).resolve(4).unwrap().contents();
        assert_eq!(of("sysbench-rndwr"), [Some("zeros".to_owned())]);
        assert_eq!(of("postmark"), [Some("the tool's text".to_owned())]);
        assert_eq!(of("random-write"), [None]);
    }
}
