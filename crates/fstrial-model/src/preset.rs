//! The presets that ship: the files of `workloads/`, which a user can read, copy and change.

use crate::workload::Entry;

/// Name and text of every preset, in the order they are listed.
pub const PRESETS: &[(&str, &str)] = &[
    ("random-write", include_str!("../../../workloads/random-write.toml")),
    ("append-fsync", include_str!("../../../workloads/append-fsync.toml")),
    ("create-files", include_str!("../../../workloads/create-files.toml")),
    ("random-read", include_str!("../../../workloads/random-read.toml")),
    ("random-mixed", include_str!("../../../workloads/random-mixed.toml")),
    ("sequential-read", include_str!("../../../workloads/sequential-read.toml")),
    ("sequential-write", include_str!("../../../workloads/sequential-write.toml")),
    ("small-files", include_str!("../../../workloads/small-files.toml")),
    ("real-bonnie", include_str!("../../../workloads/real-bonnie.toml")),
    ("real-bonnie-files", include_str!("../../../workloads/real-bonnie-files.toml")),
    ("real-dbench", include_str!("../../../workloads/real-dbench.toml")),
    ("real-dd-one-writer", include_str!("../../../workloads/real-dd-one-writer.toml")),
    ("real-dd-two-writers", include_str!("../../../workloads/real-dd-two-writers.toml")),
    ("real-fio", include_str!("../../../workloads/real-fio.toml")),
    ("real-postmark", include_str!("../../../workloads/real-postmark.toml")),
    ("real-sysbench-rndrd", include_str!("../../../workloads/real-sysbench-rndrd.toml")),
    ("real-sysbench-rndrw", include_str!("../../../workloads/real-sysbench-rndrw.toml")),
    ("real-sysbench-rndwr", include_str!("../../../workloads/real-sysbench-rndwr.toml")),
    ("real-sysbench-seqrd", include_str!("../../../workloads/real-sysbench-seqrd.toml")),
    ("real-sysbench-seqrewr", include_str!("../../../workloads/real-sysbench-seqrewr.toml")),
    ("real-sysbench-seqwr", include_str!("../../../workloads/real-sysbench-seqwr.toml")),
];

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

/// What to try instead of a preset that does not exist.
pub fn hint_for_unknown(name: &str) -> String {
    match crate::arm::closest(name, names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_reads_resolves_and_says_what_it_models() {
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
}
