//! The kinds of each key, and the overlay of one entry over another: by the table of all keys, for all kinds together.

use super::{
    Entry, Kind,
    entry::{EntryLevel, KEYS, Keys},
    entry_error::{EntryError, entry_error},
};
use toml::{Table, Value};

/// Tables that are laid over another's key by key, in addition to those of patterns.
const MERGED: [&str; 3] = ["parameters", "tree", "server"];

fn is_merged(key: &str) -> bool {
    MERGED.contains(&key) || Kind::PATTERNS.iter().any(|kind| kind.name() == key)
}

impl Entry {
    /// The keys that are written, with their values.
    pub(crate) fn keys(&self) -> Table {
        Table::try_from(self).expect("an entry is plain data")
    }

    /// The first key that is written though it belongs nowhere here.
    fn misplaced(&self, is_wrong: impl Fn(&Keys) -> bool) -> Option<(&'static Keys, &'static str)> {
        let written = self.keys();
        let wrong = KEYS.iter().filter(|keys| is_wrong(keys));
        wrong
            .flat_map(|keys| keys.names.iter().map(move |key| (keys, *key)))
            .find(|(_, key)| written.contains_key(*key))
    }

    /// Refuses keys that mean nothing in a phase or group.
    pub(super) fn only_keys_in(&self, place: EntryLevel) -> Result<(), EntryError> {
        let Some((_, key)) = self.misplaced(|keys| keys.deepest < place) else { return Ok(()) };
        let place = if place == EntryLevel::Phase { "phase" } else { "group" };
        Err(entry_error(
            key,
            format!("`{key}` does not belong into a {place}"),
            "write it in the entry around it (a group's own number of threads is `workers`)",
        ))
    }

    /// Refuses keys of other kinds at the place where they are written: inherited ones may be for others.
    pub(super) fn only_keys_of(&self, kind: Kind) -> Result<(), EntryError> {
        let is_wrong = |keys: &Keys| !keys.kinds.is_empty() && !keys.kinds.contains(&kind);
        let Some((keys, key)) = self.misplaced(is_wrong) else { return Ok(()) };
        let owner = keys.kinds[0].name();
        let hint = format!("kind = \"{}\" has {}", kind.name(), kind.keys());
        Err(entry_error(key, format!("`{key}` belongs to kind = \"{owner}\""), hint))
    }

    /// This entry, with missing keys from another.
    pub(super) fn over(&self, base: Table) -> Self {
        let mut keys = base;
        for (key, own) in self.keys() {
            match (keys.get_mut(&key), own) {
                (Some(Value::Table(base)), Value::Table(own)) if is_merged(&key) => base.extend(own),
                (_, own) => drop(keys.insert(key, own)),
            }
        }
        keys.remove("use");
        keys.try_into().expect("made of two entries")
    }

    /// The keys that a phase or a group inherits from its parent: all except those of that place.
    pub(super) fn inherited(&self) -> Table {
        let mut keys = self.keys();
        let outermost =
            KEYS.iter().filter(|keys| keys.deepest == EntryLevel::Workload).flat_map(|keys| keys.names);
        outermost.chain(&["name", "group"]).for_each(|key| drop(keys.remove(*key)));
        keys
    }

    /// The keys of the pattern, and those in its table if its kind has one; the key next to the table wins.
    pub(super) fn pattern_keys(&self, kind: Kind) -> Table {
        let is_own = |keys: &&Keys| keys.deepest == EntryLevel::Pattern && keys.kinds.contains(&kind);
        let own = KEYS.iter().filter(is_own).flat_map(|keys| keys.names);
        let mut written = self.keys();
        let mut keys: Table =
            own.filter_map(|key| Some(((*key).to_owned(), written.remove(*key)?))).collect();
        match keys.remove(kind.name()) {
            Some(Value::Table(table)) => table.into_iter().chain(keys).collect(),
            _ => keys,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        units::Bytes,
        workload::{CoreWorkload, KeyValueEngine, Pattern},
    };

    fn problem(text: &str) -> String {
        let entry: Entry = toml::from_str(text).unwrap();
        entry.resolve(1).unwrap_err().problem
    }

    #[test]
    fn records_are_shared_only_one_after_the_other_and_while_their_number_is_known() {
        let two = "kind = 'ycsb'\n[[group]]\nname = 'a'\n[[group]]\nname = 'b'\n";
        assert!(problem(two).contains("cannot share the records of the set `load`"), "{}", problem(two));
        let works = |text: &str| toml::from_str::<Entry>(text).unwrap().resolve(1).is_ok();
        assert!(works(&format!("{two}set = 'other'\n")));
        let phases = |first: &str, second: &str| {
            let phase = |name, table| format!("[[phase]]\nname = '{name}'\n[phase.ycsb]\n{table}\n");
            works(&format!("kind = 'ycsb'\n{}{}", phase("one", first), phase("two", second)))
        };
        assert!(phases("workload = 'load'", "workload = 'a'"));
        assert!(phases("workload = 'a'", "workload = 'd'"));
        assert!(!phases("workload = 'd'", "workload = 'a'"), "the number of its inserts is unknown");
        assert!(!phases("workload = 'a'", "workload = 'load'"), "they are there already");
        assert!(!phases("workload = 'load'\nrecords = 10", "workload = 'a'"));
    }

    #[test]
    fn pattern_table_is_merged_over_preset() {
        let settled = |text: &str| {
            let entry: Entry = toml::from_str(text).unwrap();
            entry.resolve(1).unwrap().phases()[0].groups[0].pattern.clone()
        };
        let Pattern::Ycsb(b) = settled("use = 'ycsb-b'\nycsb = { engine = 'fjall' }") else { panic!() };
        assert_eq!((b.workload, b.engine), (CoreWorkload::B, KeyValueEngine::Fjall));
        let Pattern::Log(log) = settled("use = 'wal-single-commit'\nlog = { record = '1KiB' }") else {
            panic!()
        };
        assert_eq!((log.record, log.group), (Bytes::kib(1), false));
        let entry: Entry = toml::from_str("use = 'ycsb-b'\nycsb = { engine = 'fjall' }").unwrap();
        assert_eq!(toml::to_string(&entry).unwrap(), "use = \"ycsb-b\"\n\n[ycsb]\nengine = \"fjall\"\n");
    }

    #[test]
    fn no_key_of_another_kind_is_passed_over() {
        let program = "kind = 'program'\ncommand = ['a']\n[[metric]]\nname = 'w'\nmeasure = 'wall'\n";
        for key in ["rate = '5/s'", "fsync_every = 1", "data = 'zero'", "turns = 1", "part = 'create'"] {
            let text = format!("{key}\n{program}");
            let name = key.split(' ').next().unwrap();
            assert!(problem(&text).starts_with(&format!("`{name}` belongs to kind")), "{text}");
        }
        for kind in ["flow", "postmark", "log", "flush"] {
            let text = format!("kind = '{kind}'\ncommand = ['a']");
            assert_eq!(problem(&text), "`command` belongs to kind = \"program\"", "{kind}");
        }
    }
    #[test]
    fn pattern_types_accept_all_listed_keys() {
        for keys in KEYS.iter().filter(|keys| keys.deepest == EntryLevel::Pattern) {
            let settled = |kind: &&Kind| !matches!(kind, Kind::Program | Kind::Operation);
            for kind in keys.kinds.iter().filter(settled) {
                for key in keys.names.iter().filter(|key| **key != kind.name()) {
                    let mut written = Table::new();
                    written.insert("kind".into(), kind.name().into());
                    written.insert((*key).to_owned(), Value::Array(Vec::new()));
                    let read = written.try_into::<Pattern>();
                    assert!(
                        !read.is_err_and(|error| error.message().contains("unknown field")),
                        "{kind:?}: {key}"
                    );
                }
            }
        }
    }
}
