//! Effects of several clients on each other's files, from phase to phase.

use super::{
    Access, FileTree, Pattern, Phase,
    entry_error::{EntryError, entry_error},
};
use std::collections::BTreeMap;

/// State of a set after a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// It has all its files.
    Whole,
    /// Perhaps some.
    Partly,
    /// Other clients than its own have made or removed files.
    ByOthers,
}

/// Refuses phases that clients cannot make in one folder, or on files of other clients.
pub(super) fn check(phases: &[Phase]) -> Result<(), EntryError> {
    let mut left: BTreeMap<&str, Left> = BTreeMap::new();
    for phase in phases {
        if phase.one_folder {
            phase.in_one_folder(2).map_err(|why| {
                let problem = format!("clients cannot share these files: {why}");
                entry_error("one_folder", problem, "leave one_folder out")
            })?;
        }
        let uses = phase.groups.iter().flat_map(|group| uses_of(&group.pattern, group.set.as_str()));
        for Use { set, makes, leaves } in uses {
            let before = left.get(set).copied();
            if phase.host_offset > 0 && (makes || before != Some(Left::Whole)) {
                return Err(entry_error(
                    "host_offset",
                    format!("no earlier phase leaves the files of `{set}` whole, for other clients to use"),
                    "leave host_offset out, or make all files in an earlier phase",
                ));
            }
            if before == Some(Left::ByOthers) {
                return Err(entry_error(
                    "host_offset",
                    format!("a client no longer knows its files of `{set}` once others have changed them"),
                    "let the phase with host_offset be the last that uses them",
                ));
            }
            let after = match leaves {
                None => before.unwrap_or(Left::Partly),
                Some(true) => Left::Whole,
                Some(false) if phase.host_offset > 0 => Left::ByOthers,
                Some(false) => Left::Partly,
            };
            left.insert(set, after);
        }
    }
    Ok(())
}

/// A pattern's use of a set.
struct Use<'a> {
    set: &'a str,
    /// It is new, however often it was used before.
    makes: bool,
    /// True if it has all its files afterwards; none: if it had before.
    leaves: Option<bool>,
}

fn uses_of<'a>(pattern: &'a Pattern, set: &'a str) -> Vec<Use<'a>> {
    match pattern {
        Pattern::Flow(flow) => {
            let of = |set: &'a FileTree| Use {
                set: &set.name,
                makes: !set.existing,
                leaves: flow.leaves_whole(set),
            };
            flow.sets.iter().map(of).collect()
        }
        // Patterns that use files of requests check their size.
        Pattern::Io(io) => vec![Use { set, makes: false, leaves: Some(io.access != Access::Append) }],
        _ => vec![Use { set, makes: true, leaves: Some(false) }],
    }
}

#[cfg(test)]
mod tests {
    use crate::workload::Entry;

    const MADE: &str = "kind = 'flow'\n[[phase]]\nname = 'a'\nsteps = ['create items', 'close']\n\
                        sets = [{ name = 'items', files = 9, order = 'own', present = '0%' }]\n";

    fn phase(name: &str, step: &str, offset: u16) -> String {
        let set = "sets = [{ name = 'items', files = 9, order = 'own', existing = true }]";
        format!("[[phase]]\nname = '{name}'\nhost_offset = {offset}\nsteps = ['{step}']\n{set}\n")
    }

    fn problem(text: &str) -> Option<String> {
        let entry: Entry = toml::from_str(text).unwrap();
        entry.resolve(1).err().map(|error| format!("{}: {}", error.key, error.problem))
    }

    #[test]
    fn host_offset_requires_intact_files_from_earlier_phase() {
        let (stat, delete) = (phase("stat", "stat items", 1), phase("delete", "delete items", 2));
        assert_eq!(problem(&format!("{MADE}{stat}{delete}")), None);
        let not_whole = "host_offset: no earlier phase leaves the files of `items` whole";
        for text in [
            format!("kind = 'flow'\n{stat}"),
            format!("{}{stat}", MADE.replace("'0%'", "'80%'")),
            format!("{MADE}{}{stat}", phase("gone", "delete items", 0)),
            MADE.replace("name = 'a'", "name = 'a'\nhost_offset = 1"),
        ] {
            assert!(
                problem(&text).is_some_and(|why| why.starts_with(not_whole)),
                "{text}: {:?}",
                problem(&text)
            );
        }
        let changed = format!("{MADE}{delete}{}", phase("stat", "stat items", 0));
        assert!(
            problem(&changed).is_some_and(|why| why.contains("no longer knows")),
            "{:?}",
            problem(&changed)
        );
    }
}
