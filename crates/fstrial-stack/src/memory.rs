//! A limit for the memory of a load: its processes and the page cache of their reads and writes, by the memory
//! controller of cgroup v2 (`memory.max`) or v1 (`memory.limit_in_bytes`), whichever this machine has.
//!
//! The group belongs to a worker. Its process is in it from the layout of the files to the end of the load, with all
//! its children. A page belongs to the group that first touched it: pages read by mkfs and mount, and the memory of the
//! device itself, are charged elsewhere.

use crate::{
    cgroup::{Controller, Group, Version, unable},
    error::StackError,
    host,
    ledger::Ledger,
    sysfs,
};
use fstrial_model::{memory::LimitedBy, units::Bytes};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

pub(crate) const CONTROLLER: Controller =
    Controller { v1: "memory", v2: "memory", verb: "limit the memory of a load" };

/// Detects the means to limit the memory of a load here.
///
/// # Errors
/// Neither version of cgroups can; the error names the reason of each.
pub fn find() -> Result<LimitedBy, StackError> {
    CONTROLLER.find().map(|result| by(result.version))
}

/// The same for this very limit.
///
/// # Errors
/// As [`find`]; the limit is not a limit on this machine.
pub fn require(limit: Bytes) -> Result<LimitedBy, StackError> {
    let result = find()?;
    let memory = host::memory()?;
    if limit >= memory {
        return Err(unable(
            format!("a limit of {} for the memory, and the machine has {}", limit.human(), memory.human()),
            "lower the limit, or leave it out",
        ));
    }
    Ok(result)
}

fn by(version: Version) -> LimitedBy {
    match version {
        Version::V1 => LimitedBy::V1,
        Version::V2 => LimitedBy::V2,
    }
}

/// A requested limit, in its file of a group.
struct Setting {
    file: &'static str,
    value: Bytes,
    /// Not every kernel has it; if it is missing there is nothing that it would limit.
    is_optional: bool,
}

/// The limit for memory and swap together, of kernels that account for swap in cgroup v1.
const WITH_SWAP: &str = "memory.memsw.limit_in_bytes";

/// The writes, in this order. Without the second line the load would continue in swap.
fn settings(version: Version, limit: Bytes, has: &dyn Fn(&str) -> bool) -> [Setting; 2] {
    let [memory, swap] = match version {
        // May not be below the limit for memory alone.
        Version::V1 if has(WITH_SWAP) => [("memory.limit_in_bytes", limit), (WITH_SWAP, limit)],
        Version::V1 => [("memory.limit_in_bytes", limit), ("memory.swappiness", Bytes(0))],
        Version::V2 => [("memory.max", limit), ("memory.swap.max", Bytes(0))],
    };
    let setting = |(file, value), is_optional| Setting { file, value, is_optional };
    [setting(memory, false), setting(swap, true)]
}

fn limit_file(version: Version) -> &'static str {
    match version {
        Version::V1 => "memory.limit_in_bytes",
        Version::V2 => "memory.max",
    }
}

/// Refuses a limit above that of the groups that this command was put into.
fn keep_to(above: &[(PathBuf, String)], limit: Bytes) -> Result<(), StackError> {
    // `max`, or a number near 2^63, is none.
    let own = |(group, text): &(PathBuf, String)| Some((text.trim().parse::<u64>().ok()?, group.clone()));
    match above.iter().filter_map(own).min() {
        Some((own, group)) if own < limit.0 => Err(StackError::Unable {
            what: format!(
                "a limit of {} for the memory is above the {} of the control group that fstrial runs in ({})",
                limit.human(),
                Bytes(own).human(),
                group.display()
            ),
            hint: "use a smaller one, or start fstrial in another group".into(),
        }),
        _ => Ok(()),
    }
}

/// True if a file contains the written value. The kernel counts in pages.
pub(crate) fn is_taken(text: &str, written: Bytes) -> bool {
    let page = rustix::param::page_size() as u64;
    text.trim().parse::<u64>().is_ok_and(|says| says / page == written.0 / page)
}

/// A group with a limit for its memory.
#[must_use]
#[derive(Debug)]
pub struct LimitedGroup {
    group: Group,
    limit: Bytes,
    by: LimitedBy,
}

impl LimitedGroup {
    /// Makes a group with a limit, and makes sure that the kernel took it.
    ///
    /// # Errors
    /// The controller is missing, cannot be used, or did not take the limit.
    pub fn set(limit: Bytes, ledger: &Ledger) -> Result<Self, StackError> {
        let hierarchy = CONTROLLER.find()?;
        keep_to(&CONTROLLER.above(&hierarchy, limit_file(hierarchy.version))?, limit)?;
        let group = CONTROLLER.make(&hierarchy, ledger)?;
        match apply(group.path(), hierarchy.version, limit) {
            Ok(()) => Ok(Self { group, limit, by: by(hierarchy.version) }),
            Err(error) => {
                group.close()?;
                Err(error)
            }
        }
    }

    /// A description: `512 MiB by cgroup v1 (memory.limit_in_bytes)`.
    pub fn describe(&self) -> String {
        format!("{} by {}", self.limit.human(), self.by)
    }

    /// Moves this process into the group, with all its threads and future children.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn enter(&mut self) -> Result<(), StackError> {
        self.group.enter()
    }

    /// Takes this process out of the group.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn leave(&mut self) -> Result<(), StackError> {
        self.group.leave()
    }

    /// Processes of the group that the kernel killed because the limit was reached and nothing could be freed.
    pub fn kills(&self) -> u64 {
        kills_of(self.group.path())
    }

    /// Removes the group.
    ///
    /// # Errors
    /// The group is not empty; its removal stays in the ledger.
    pub fn close(self) -> Result<(), StackError> {
        self.group.close()
    }
}

fn apply(group: &Path, version: Version, limit: Bytes) -> Result<(), StackError> {
    for Setting { file, value, is_optional } in settings(version, limit, &|file| group.join(file).exists()) {
        let path = group.join(file);
        if is_optional && !path.exists() {
            continue;
        }
        let refused = |why: String| {
            unable(
                format!("the kernel did not take the limit {value} in {}: {why}", path.display()),
                "this kernel cannot limit the memory of a load; see docs/axes.md",
            )
        };
        fs::write(&path, value.0.to_string()).map_err(|error| refused(error.to_string()))?;
        let says = sysfs::read(&path)?;
        if !is_taken(&says, value) {
            return Err(refused(format!("it reads `{says}`")));
        }
    }
    Ok(())
}

/// `oom_kill 2` of `memory.oom_control` (v1) or `memory.events` (v2).
pub(crate) fn kills_in(text: &str) -> u64 {
    let counted = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    counted.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

fn kills_of(group: &Path) -> u64 {
    let text = |file| fs::read_to_string(group.join(file)).unwrap_or_default();
    ["memory.events", "memory.oom_control"].map(|file| kills_in(&text(file))).into_iter().max().unwrap_or(0)
}

/// Kills in groups that dead workers have left, which are still there: whether it was the limit that a worker died of.
///
/// # Errors
/// The ledger cannot be read.
pub fn kills_of_the_dead(ledger: &Ledger) -> Result<u64, StackError> {
    Ok(ledger.groups_of_the_dead()?.iter().map(|group| kills_of(group.path())).sum())
}

/// Notes on limits, which may differ between arms, for the reader of results.
pub fn notes(by: LimitedBy, limits: &BTreeSet<Bytes>) -> Vec<String> {
    let limits: Vec<String> = limits.iter().map(|limit| limit.human()).collect();
    let mut notes = vec![format!(
        "memory limited to {} by {by}: processes and page cache of the load together, layout included. Pages first \
         touched by mkfs and mount, the device itself and private metadata buffers of a filesystem do not count, so \
         filesystems do not have exactly the same memory (docs/axes.md)",
        limits.join(" or ")
    )];
    notes.push(match by {
        LimitedBy::V1 => "cgroup v1 limits cache and reads; it does not slow down writers before the limit, as the kernel \
                          does by the share of dirty pages on a machine with this much memory: they fill it and then wait \
                          for pages to be written. Figures of buffered writes are not those of such a machine"
            .into(),
        LimitedBy::V2 => "cgroup v2 throttles buffered writers by the share of dirty pages of the limit if the io \
             controller is delegated too and the filesystem supports cgroup writeback; otherwise they \
             fill the limit and then wait for writeback"
            .into(),
    });
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_are_the_kernels() {
        let lines = |version, counts_swap| {
            let settings = settings(version, Bytes::mib(64), &|_| counts_swap);
            settings.map(|setting| format!("{}={}", setting.file, setting.value.0))
        };
        assert_eq!(
            lines(Version::V1, true),
            ["memory.limit_in_bytes=67108864", "memory.memsw.limit_in_bytes=67108864"]
        );
        assert_eq!(lines(Version::V1, false), ["memory.limit_in_bytes=67108864", "memory.swappiness=0"]);
        assert_eq!(lines(Version::V2, true), ["memory.max=67108864", "memory.swap.max=0"]);
    }

    #[test]
    fn memory_limit_is_verified_by_read_back() {
        assert!(is_taken("67108864\n", Bytes::mib(64)));
        assert!(is_taken("67108864", Bytes((64 << 20) + 1)), "whole pages");
        assert!(is_taken("0", Bytes(0)));
        for says in ["9223372036854771712", "max", "", "67104768"] {
            assert!(!is_taken(says, Bytes::mib(64)), "{says}");
        }
    }

    #[test]
    fn kills_are_read_in_either_version() {
        assert_eq!(kills_in("oom_kill_disable 0\nunder_oom 1\noom_kill 3\n"), 3);
        assert_eq!(kills_in("low 0\nhigh 0\nmax 17\noom 4\noom_kill 2\noom_group_kill 0\n"), 2);
        assert_eq!(kills_in("oom_kill_disable 0\nunder_oom 0"), 0, "kernels before 4.13 do not count");
    }
}
