//! A limit for the memory of a load: its processes and the page cache of its reads and writes, together. So "twice the
//! memory" can be tested on a machine that has plenty.

use crate::{
    units::Bytes,
    workload::{Data, Phase, Workload},
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The smallest valid limit.
pub const MIN_MEMORY: Bytes = Bytes::mib(16);
/// A worker's memory under load in addition to its threads: its code's data, the kernel's objects for its files, and
/// the minimum of pages for I/O.
const WORKER: u64 = 8 << 20;
/// A thread's memory in addition to its buffers: a histogram, time windows, its stack.
const THREAD: u64 = 512 << 10;

/// Blocks that a thread keeps to repeat them, where data has duplicates.
const REPEATED: u64 = 4 << 20;

/// Version of control groups that enforces a load's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitedBy {
    /// `memory.limit_in_bytes`: writers are not slowed down before the limit, but stopped at it.
    V1,
    /// `memory.max`: with the io controller, writers are slowed down as on a machine with this much memory.
    V2,
}

impl fmt::Display for LimitedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1 => "cgroup v1 (memory.limit_in_bytes)",
            Self::V2 => "cgroup v2 (memory.max)",
        })
    }
}

/// A workload's memory at a level, before a page of its files is cached.
pub fn needed(workload: &Workload, threads: u16) -> Bytes {
    let phase = |phase: &Phase| {
        let groups = phase.groups.iter().map(|group| {
            let repeated = matches!(group.data, Some(Data::Mixed { duplicate, .. }) if !duplicate.is_zero());
            let buffers = group.pattern.buffers_of_a_thread().0 + if repeated { REPEATED } else { 0 };
            let threads = u64::from(group.workers(threads)).saturating_mul(buffers.saturating_add(THREAD));
            threads.saturating_add(group.pattern.shared_buffers().0)
        });
        groups.fold(0_u64, u64::saturating_add)
    };
    let most = workload.phases().iter().map(phase).max().unwrap_or(0);
    Bytes(most.saturating_add(WORKER))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Entry;

    fn needed_by(change: impl Fn(&mut Entry), threads: u16) -> Bytes {
        let mut entry = Entry::of_preset("random-write");
        change(&mut entry);
        needed(&entry.resolve(1).unwrap(), threads)
    }

    #[test]
    fn buffers_grow_with_threads_depth_and_requests() {
        let plain = needed_by(|_| {}, 1);
        assert!((WORKER..32 << 20).contains(&plain.0), "{plain}");
        let many = needed_by(|_| {}, 64);
        assert_eq!(many.0 - WORKER, 64 * (plain.0 - WORKER));
        let large = needed_by(|entry| entry.block_size = Some(Bytes::mib(4)), 1);
        assert!(large.0 > plain.0 + (4 << 20), "{large}");
    }
}
