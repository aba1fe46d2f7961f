//! Numbers of records that are inserted, in order, and up to which of them all were acknowledged.

use std::{
    collections::BTreeSet,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// YCSB's `AcknowledgedCounterGenerator`, without the limit of its window.
#[derive(Debug)]
pub(super) struct Acknowledged {
    next: AtomicU64,
    /// Records from 0 on that are there without a gap.
    there: AtomicU64,
    /// Those beyond that.
    beyond: Mutex<BTreeSet<u64>>,
}

impl Acknowledged {
    /// After this many records from 0 on.
    pub(super) fn after(records: u64) -> Self {
        Self {
            next: AtomicU64::new(records),
            there: AtomicU64::new(records),
            beyond: Mutex::new(BTreeSet::new()),
        }
    }

    /// The number of the next record to insert.
    pub(super) fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// A record was inserted.
    pub(super) fn acknowledge(&self, number: u64) {
        let mut beyond = self.beyond.lock().unwrap_or_else(PoisonError::into_inner);
        beyond.insert(number);
        let mut there = self.there.load(Ordering::Relaxed);
        while beyond.remove(&there) {
            there += 1;
        }
        self.there.store(there, Ordering::Release);
    }

    /// Number of records without a gap.
    pub(super) fn count(&self) -> u64 {
        self.there.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gap_blocks_later_acknowledgements() {
        let keys = Acknowledged::after(10);
        assert_eq!([keys.next(), keys.next(), keys.next(), keys.count()], [10, 11, 12, 10]);
        keys.acknowledge(12);
        keys.acknowledge(11);
        assert_eq!(keys.count(), 10);
        keys.acknowledge(10);
        assert_eq!((keys.count(), keys.next()), (13, 13));
    }
}
